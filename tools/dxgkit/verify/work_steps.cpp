// Command buffers: good ones with their results checked, bad ones, and preemption.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/spelling.h"
#include "dxgk/core/verifier_switches.h"
#include "nt/seh.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {
namespace {

constexpr size_t kHostileTries = 48;
constexpr size_t kJobsAtOnce = 6;
constexpr size_t kThreads = 3;
constexpr uint64_t kBusyNs = 20 * 1000 * 1000;
constexpr int kOvertakings = 8;  // of long work, on each node
constexpr size_t kPreemptions = 3;
constexpr size_t kPrepatched = 3;   // jobs on each node
constexpr uint32_t kCutStep = 16;   // user memory ends at a multiple of it
constexpr uint32_t kCutsNear = 12;  // in steps, from the first byte on and before the last one
constexpr uint32_t kCutsFar = 6;    // evenly spread

Outcome render(Bench& bench) {
  size_t jobs = 0;
  std::string wrong;
  const auto run = [&]() -> Answer<void> {
    Worker worker(bench, "render");
    DXGKIT_VERIFY_TRY(worker.open());
    for (uint32_t node = 0; node < bench.node_count(); ++node) {
      for (int round = 0; round < 3; ++round) {
        const Answer<std::unique_ptr<Job>> job =
            Job::create(bench, worker.client, worker.device, bench.random(), node);
        if (!job) return std::unexpected(job.error());
        DXGKIT_VERIFY_TRY((*job)->submit(worker.contexts[node]));
        const Answer<bool> kept = worker.idle(&wrong);
        if (!kept) return std::unexpected(kept.error());
        if (!*kept) return {};
        if (const Answer<void> right = (*job)->check(); !right && wrong.empty())
          wrong = right.error();
        DXGKIT_VERIFY_TRY((*job)->destroy());
        ++jobs;
      }
    }
    return worker.client.destroy_device(worker.device);
  };
  const Answer<void> done = run();
  if (!done || !wrong.empty()) bench.note_work_fails();
  if (!done) return Outcome::failed(done.error());
  if (!wrong.empty()) {
    report_result(bench, wrong);
    return Outcome::failed(wrong);
  }
  return Outcome::ok(fmt::format("{} on {}, results right", counted(jobs, "job"),
                                 counted(bench.node_count(), "node")));
}

/// Several processes, several jobs in flight each; some clients leave with work queued.
Outcome render_together(Bench& bench) {
  std::vector<uint64_t> seeds(kThreads * kJobsAtOnce);
  for (uint64_t& seed : seeds) seed = bench.random();
  if (const Answer<Plugin::Instance*> code = bench.client_code(); !code)
    return Outcome::failed(code.error());
  std::vector<std::string> wrong(kThreads);
  const Answer<void> done = bench.in_parallel(kThreads, [&](size_t thread) -> Answer<void> {
    Worker worker(bench, fmt::format("render {}", thread));
    DXGKIT_VERIFY_TRY(worker.open());
    std::vector<std::unique_ptr<Job>> jobs;
    for (size_t i = 0; i < kJobsAtOnce; ++i) {
      const auto node = static_cast<uint32_t>(i % bench.node_count());
      Answer<std::unique_ptr<Job>> job =
          Job::create(bench, worker.client, worker.device, seeds[thread * kJobsAtOnce + i], node);
      if (!job) return std::unexpected(job.error());
      DXGKIT_VERIFY_TRY((*job)->submit(worker.contexts[node]));
      jobs.push_back(std::move(*job));
    }
    if (thread + 1 == kThreads) return {};  // exits with work in flight
    const Answer<bool> kept = worker.idle(&wrong[thread]);
    if (!kept) return std::unexpected(kept.error());
    if (!*kept) return {};
    for (const std::unique_ptr<Job>& job : jobs) {
      if (const Answer<void> right = job->check(); !right && wrong[thread].empty())
        wrong[thread] = right.error();
    }
    return worker.client.destroy_device(worker.device);
  });
  if (!done) return Outcome::failed(done.error());
  for (const std::string& text : wrong) {
    if (text.empty()) continue;
    report_result(bench, text);
    return Outcome::failed(text);
  }
  return Outcome::ok(fmt::format("{} with {} in flight each",
                                 counted(kThreads, "process", "processes"),
                                 counted(kJobsAtOnce, "job")));
}

/// Command buffers that no user-mode driver would write. Each is refused, or does no harm.
Outcome hostile(Bench& bench) {
  size_t refused = 0;
  size_t accepted = 0;
  size_t lost = 0;
  const auto run = [&]() -> Answer<void> {
    Worker worker(bench, "hostile");
    DXGKIT_VERIFY_TRY(worker.open());
    for (size_t i = 0; i < kHostileTries && bench.running(); ++i) {
      ClientContext& context = worker.contexts[i % worker.contexts.size()];
      if (context.commands == nullptr || context.command_bytes == 0)
        return std::unexpected(std::string("the context has no command buffer"));
      uint32_t bytes = 0;
      uint32_t uses = 0;
      uint32_t patches = 0;
      std::unique_ptr<Job> job;
      if (bench.plugin() != nullptr && i % 2 == 1) {
        // A valid buffer, cut short, or with its lists spoilt.
        const auto node = static_cast<uint32_t>(i % worker.contexts.size());
        Answer<std::unique_ptr<Job>> made =
            Job::create(bench, worker.client, worker.device, bench.random(), node);
        if (!made) return std::unexpected(made.error());
        job = std::move(*made);
        const Answer<DxgkitClientJob> recorded = job->record(context);
        if (!recorded) return std::unexpected(recorded.error());
        bytes = recorded->command_bytes;
        uses = recorded->use_count;
        patches = recorded->patch_count;
        switch (i / 2 % 4) {
          case 0:
            bytes = static_cast<uint32_t>(bench.random() % bytes) & ~3U;
            break;
          case 1:
            uses = uses == 0 ? 0 : static_cast<uint32_t>(bench.random() % uses);
            break;
          case 2:
            for (uint32_t use = 0; use < uses; ++use) context.list[use].WriteOperation = 0;
            break;
          default:
            for (uint32_t patch = 0; patch < patches; ++patch) {
              context.patches[patch].AllocationOffset = static_cast<UINT>(bench.random());
              context.patches[patch].PatchOffset = static_cast<UINT>(bench.random());
            }
            if (patches == 0) bytes = static_cast<uint32_t>(bench.random() % bytes) | 1U;
            break;
        }
        bytes = std::max(bytes, 1U);
      } else {
        bytes = 1 + static_cast<uint32_t>(bench.random() % std::min(context.command_bytes, 512U));
        for (uint32_t at = 0; at < bytes; ++at)
          context.commands[at] = static_cast<std::byte>(bench.random());
        if (context.patches_size != 0 && i % 4 == 2) {
          patches = 1 + static_cast<uint32_t>(bench.random() % std::min(context.patches_size, 4U));
          for (uint32_t patch = 0; patch < patches; ++patch) {
            D3DDDI_PATCHLOCATIONLIST& one = context.patches[patch];
            one = {};
            one.AllocationIndex = static_cast<UINT>(bench.random() % 4);
            one.AllocationOffset = static_cast<UINT>(bench.random());
            one.PatchOffset = static_cast<UINT>(bench.random());
          }
        }
      }
      const NTSTATUS status = worker.client.try_render(context, bytes, uses, patches);
      is_success(from_ntstatus(status)) ? ++accepted : ++refused;
      if (!bench.running()) break;
      const Answer<void> idle = worker.client.wait_idle(worker.device);
      if (job != nullptr) static_cast<void>(job->destroy());
      if (!idle || !worker.client.active(worker.device)) {
        // The driver blamed this client for its commands, which is right, so the client gets a new
        // device.
        ++lost;
        DXGKIT_VERIFY_TRY(worker.client.destroy_device(worker.device));
        DXGKIT_VERIFY_TRY(worker.open_device());
      }
    }
    return {};
  };
  const Answer<void> done = run();
  if (!done && bench.running()) return Outcome::failed(done.error());
  if (!bench.running()) {
    return Outcome::failed(fmt::format(
        "a command buffer of user mode ended the adapter, after {} refused and {} accepted",
        refused, accepted));
  }
  return Outcome::ok(
      fmt::format("{} refused, {} accepted, {} lost", refused, accepted, counted(lost, "device")));
}

/// REND-07: everything is where DxgkDdiRender was told that it is, and DxgkDdiPatch never comes.
Outcome prepatched(Bench& bench) {
  if (bench.work_fails()) return Outcome::skipped("work fails anyway: see the step render");
  if (bench.plugin() == nullptr)
    return Outcome::skipped("without a client plug-in nobody knows what the commands are");
  size_t jobs = 0;
  std::string wrong;
  const uint32_t before = bench.shortage().spared();
  const auto run = [&]() -> Answer<void> {
    Worker worker(bench, "prepatched");
    DXGKIT_VERIFY_TRY(worker.open());
    for (uint32_t i = 0; i < bench.node_count() * kPrepatched; ++i) {
      const uint32_t node = i % bench.node_count();
      const Answer<std::unique_ptr<Job>> job =
          Job::create(bench, worker.client, worker.device, bench.random(), node);
      if (!job) return std::unexpected(job.error());
      DXGKIT_VERIFY_TRY((*job)->spoil());
      for (const ClientAllocation& one : (*job)->allocations()) {
        const Result<vidmm::Placement> place =
            bench.exercise().memory().page_in(worker.client.process(), one.handle);
        if (!place.has_value())
          return std::unexpected("an allocation could not be brought in: " +
                                 status_text(place.error()));
      }
      bench.shortage().spare_patches(true);
      const Answer<void> sent = (*job)->submit(worker.contexts[node]);
      const Answer<bool> kept = sent ? worker.idle(&wrong) : Answer<bool>(true);
      bench.shortage().spare_patches(false);
      if (!sent) return sent;
      if (!kept) return std::unexpected(kept.error());
      if (!*kept) return {};
      if (const Answer<void> right = (*job)->check(); !right && wrong.empty())
        wrong = right.error();
      if (!wrong.empty()) return {};
      DXGKIT_VERIFY_TRY((*job)->destroy());
      ++jobs;
    }
    return worker.client.destroy_device(worker.device);
  };
  if (const Answer<void> done = run(); !done) return Outcome::failed(done.error());
  const uint32_t spared = bench.shortage().spared() - before;
  if (wrong.empty()) {
    if (spared == 0) return Outcome::skipped("no job's memory was all in segments");
    return Outcome::ok(fmt::format("{}, {} not patched, results right", counted(jobs, "job"),
                                   counted(spared, "submission")));
  }
  bench.findings().report(
      {.rule = "REND-07",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiRender",
       .actual = fmt::format("A job came out wrong whose allocations were all where DxgkDdiRender "
                             "was told, and for which DxgkDdiPatch was not called: {}.",
                             wrong),
       .expected = "Where SegmentId is not 0 the driver writes the address into the DMA buffer in "
                   "DxgkDdiRender already.",
       .fix = "Write PhysicalAddress plus the offset into each address field of the command whose "
              "list entry has a SegmentId, as DxgkDdiPatch does.",
       .why = "The kernel patches what may have moved since DxgkDdiRender, and nothing else.",
       .windows = "Wrong pictures, or a device that is lost, when memory is not tight."});
  return Outcome::failed(wrong);
}

/// NT-18: the client unmaps the end of its commands while they are translated.
Outcome cut_commands(Bench& bench) {
  if (bench.plugin() == nullptr)
    return Outcome::skipped("without a client plug-in nobody knows what the commands are");
  if (!nt::has_handlers(bench.kernel()))
    return Outcome::skipped("an ELF image has no exception handlers; verify its .sys");
  size_t refused = 0;
  size_t without_the_rest = 0;  // the driver did not need what it could not read
  std::string wrong;
  const auto cut_one = [&](Worker& worker, Job& job, uint32_t node,
                           uint32_t readable) -> Answer<void> {
    ClientContext& context = worker.contexts[node];
    const Answer<DxgkitClientJob> recorded = job.record(context);
    if (!recorded) return std::unexpected(recorded.error());
    if (readable >= recorded->command_bytes) return {};
    bench.shortage().cut_commands(readable);
    const NTSTATUS status = worker.client.try_render(context, recorded->command_bytes,
                                                     recorded->use_count, recorded->patch_count);
    bench.shortage().cut_commands(UINT32_MAX);
    // Of a buffer that takes several passes the first ones have been submitted.
    const bool idle = worker.client.wait_idle(worker.device).has_value();
    if (!bench.running()) return std::unexpected(std::string("it ended the adapter"));
    if (!is_success(from_ntstatus(status)) && idle) {
      ++refused;
      return job.spoil();
    }
    ++without_the_rest;
    std::string why = idle && worker.client.active(worker.device)
                          ? std::string()
                          : lost_text(worker.client, worker.device);
    if (why.empty()) {
      if (const Answer<void> right = job.check(); !right) why = right.error();
    }
    if (why.empty()) return job.spoil();
    wrong = fmt::format("It accepted a command buffer of {} bytes of which it could read {}: {}",
                        recorded->command_bytes, readable, why);
    return {};
  };
  const auto run = [&]() -> Answer<void> {
    Worker worker(bench, "unmaps its commands");
    DXGKIT_VERIFY_TRY(worker.open());
    for (uint32_t node = 0; node < bench.node_count(); ++node) {
      const Answer<std::unique_ptr<Job>> job =
          Job::create(bench, worker.client, worker.device, bench.random(), node);
      if (!job) return std::unexpected(job.error());
      DXGKIT_VERIFY_TRY((*job)->spoil());
      const Answer<DxgkitClientJob> whole = (*job)->record(worker.contexts[node]);
      if (!whole) return std::unexpected(whole.error());
      const uint32_t steps = whole->command_bytes / kCutStep;
      std::set<uint32_t> cuts;
      for (uint32_t i = 0; i < std::min(kCutsNear, steps); ++i) {
        cuts.insert(i);
        cuts.insert(steps - i);
      }
      for (uint32_t i = 1; i < kCutsFar; ++i) cuts.insert(steps * i / kCutsFar);
      for (const uint32_t cut : cuts) {
        const uint32_t readable = cut * kCutStep;
        DXGKIT_VERIFY_TRY(cut_one(worker, **job, node, readable));
        if (!wrong.empty()) return {};
      }
      // The context goes on.
      DXGKIT_VERIFY_TRY((*job)->submit(worker.contexts[node]));
      const Answer<bool> kept = worker.idle(&wrong);
      if (!kept) return std::unexpected(kept.error());
      if (!*kept) return {};
      if (const Answer<void> right = (*job)->check(); !right)
        wrong = "After commands that could not be read: " + right.error();
      if (!wrong.empty()) return {};
      DXGKIT_VERIFY_TRY((*job)->destroy());
    }
    return worker.client.destroy_device(worker.device);
  };
  const Answer<void> done = run();
  bench.shortage().cut_commands(UINT32_MAX);
  if (!done) return Outcome::failed(done.error());
  if (wrong.empty()) {
    return Outcome::ok(fmt::format("{} refused as their end was gone, {} right without it", refused,
                                   without_the_rest));
  }
  bench.findings().report(
      {.rule = "REND-31",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiRender",
       .actual = wrong + ".",
       .expected = "A command buffer that cannot be read to its end is refused, with "
                   "STATUS_INVALID_USER_BUFFER, and leaves nothing behind.",
       .fix = "Copy each piece of pCommand inside __try and __except, look whether the copy "
              "failed before anything of it is used, and end the call with an error if it did.",
       .why = "pCommand is user memory: the client can unmap it while the driver reads.",
       .windows = "The engine runs what happened to be in the driver's memory."});
  return Outcome::failed("commands that could not be read were taken");
}

Outcome preempt_idle(Bench& bench) {
  size_t answered = 0;
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    for (size_t i = 0; i < kPreemptions; ++i) {
      const Status status = bench.exercise().preempt_idle(NodeOrdinal{node});
      if (status == Status::kNotSupported) continue;
      if (!is_success(status))
        return Outcome::failed(
            fmt::format("node {} did not answer: {}", node, status_text(status)));
      ++answered;
    }
  }
  if (answered == 0) return Outcome::skipped("its caps do not say PreemptionAware");
  return Outcome::ok(fmt::format("{} answered", counted(answered, "request")));
}

/// Calls of DxgkDdiPreemptCommand so far: each finds the node idle, or with work.
uint64_t preemptions(const Bench& bench) {
  using verifier::Situation;
  uint64_t calls = 0;
  for (const auto one :
       {Situation::kPreemptIdle, Situation::kPreemptOne, Situation::kPreemptSeveral})
    calls += bench.situations().count(one);
  return calls;
}

/// Long work of low priority, and short work of normal priority again and again until that is done.
/// The first wrong result goes to `wrong`. True: the kernel had to ask what became of a preemption.
Answer<bool> overtake(Bench& bench, Worker& low, Worker& high, uint32_t node, std::string* wrong) {
  bool late = false;
  // The other one stays at 0, because a higher priority needs a privilege.
  DXGKIT_VERIFY_TRY(low.client.set_priority(low.contexts[node].handle, -7));
  std::vector<std::unique_ptr<Job>> jobs;
  for (int i = 0; i < 3; ++i) {
    Answer<std::unique_ptr<Job>> slow =
        Job::create(bench, low.client, low.device, bench.random(), node);
    if (!slow) return std::unexpected(slow.error());
    DXGKIT_VERIFY_TRY((*slow)->submit(low.contexts[node], kBusyNs));
    jobs.push_back(std::move(*slow));
  }
  // In simulation the moments lie all over the long work: at the first part of a DMA buffer, and at
  // later ones.
  const int times = bench.simulated() ? kOvertakings : 1;
  for (int i = 0; i < times; ++i) {
    if (i != 0) bench.runtime().sleep_for(kBusyNs / 3);
    Answer<std::unique_ptr<Job>> urgent =
        Job::create(bench, high.client, high.device, bench.random(), node);
    if (!urgent) return std::unexpected(urgent.error());
    DXGKIT_VERIFY_TRY((*urgent)->submit(high.contexts[node]));
    const runtime::TimeNs asked = bench.runtime().now();
    const Answer<bool> kept = high.idle(wrong);
    if (!kept) return std::unexpected(kept.error());
    if (!*kept) return false;
    late |= is_late(bench, asked);
    if (const Answer<void> right = (*urgent)->check(); !right && wrong->empty())
      *wrong = right.error();
    DXGKIT_VERIFY_TRY((*urgent)->destroy());
  }
  const Answer<bool> kept = low.idle(wrong);
  if (!kept) return std::unexpected(kept.error());
  if (!*kept) return false;
  for (const std::unique_ptr<Job>& job : jobs) {
    if (const Answer<void> right = job->check(); !right && wrong->empty()) *wrong = right.error();
    DXGKIT_VERIFY_TRY(job->destroy());
  }
  return late;
}

/// On each node.
Answer<bool> overtake_on_all(Bench& bench, std::string* wrong) {
  bool late = false;
  Worker low(bench, "low priority");
  Worker high(bench, "normal priority");
  DXGKIT_VERIFY_TRY(low.open());
  DXGKIT_VERIFY_TRY(high.open());
  for (uint32_t node = 0; node < bench.node_count() && wrong->empty(); ++node) {
    const Answer<bool> one = overtake(bench, low, high, node, wrong);
    if (!one) return std::unexpected(one.error());
    late |= *one;
  }
  return late;
}

Outcome preempt_busy(Bench& bench) {
  if (!bench.exercise().caps().preemption_aware)
    return Outcome::skipped("its caps do not say PreemptionAware");
  const uint64_t before = preemptions(bench);
  std::string wrong;
  Answer<bool> late = overtake_on_all(bench, &wrong);
  // Once more with DMA buffers in parts: what is preempted starts behind the first byte.
  const bool again = late && !*late && wrong.empty() && !bench.gpu_addresses() &&
                     bench.simulated() && bench.running() && preemptions(bench) != before;
  if (again) {
    if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
    Bench::StartChanges parts;
    parts.verifier.set(dxgk::VerifierSwitch::kTakeSplitPoint);
    if (const Outcome started = bench.start(parts); started.kind != Outcome::Kind::kOk)
      return started;
    late = overtake_on_all(bench, &wrong);
    if (!wrong.empty()) wrong += ", in parts of a DMA buffer";
    if (!bench.running()) return Outcome::failed("the adapter stopped");
    if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
    if (const Outcome started = bench.start(); started.kind != Outcome::Kind::kOk) return started;
  }
  if (!late) return Outcome::failed(late.error());
  if (!wrong.empty()) {
    report_result(bench, "With preemption in flight: " + wrong);
    return Outcome::failed(wrong);
  }
  if (*late) {
    bench.findings().report(
        {.rule = "PREEMPT-06",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiPreemptCommand",
         .actual = "Urgent work waited for TdrDelay, until the kernel asked for the current fence, "
                   "behind work that can be preempted.",
         .expected = "A request is answered by DMA_PREEMPTED when the engine has stopped.",
         .fix = "Look at every cause of the interrupt, on each engine, and report what it tells.",
         .windows = "Urgent work, the desktop's above all, stands still for seconds."});
    return Outcome::failed("preemption was reported when asked for only");
  }
  if (preemptions(bench) == before) {
    return Outcome::skipped(
        "not reached: results are right, but DxgkDdiPreemptCommand was not called: preemption is "
        "off, or no work was on an engine for long enough");
  }
  return Outcome::ok("urgent work overtook long work, results right");
}

/// SUB-22: everything is done but the execution.
Outcome null_rendering(Bench& bench) {
  size_t jobs = 0;
  std::string wrong;
  const auto run = [&]() -> Answer<void> {
    Worker worker(bench, "null rendering");
    DXGKIT_VERIFY_TRY(worker.open());
    for (uint32_t node = 0; node < bench.node_count(); ++node) {
      const Answer<std::unique_ptr<Job>> job =
          Job::create(bench, worker.client, worker.device, bench.random(), node);
      if (!job) return std::unexpected(job.error());
      DXGKIT_VERIFY_TRY((*job)->spoil());
      const runtime::TimeNs sent = bench.runtime().now();
      DXGKIT_VERIFY_TRY((*job)->submit_null(worker.contexts[node]));
      ++jobs;
      if (const Answer<void> idle = worker.client.wait_idle(worker.device); !idle) {
        if (worker.client.active(worker.device)) return idle;
        wrong = "the device was lost, as its completion was never reported";
        return {};
      }
      const Answer<bool> untouched = (*job)->spoilt();
      if (!untouched) return std::unexpected(untouched.error());
      if (!*untouched) wrong = "it wrote memory all the same";
      if (is_late(bench, sent)) wrong = "its completion was not reported until the kernel asked";
      if (!wrong.empty()) return {};
      // And the context continues.
      DXGKIT_VERIFY_TRY((*job)->submit(worker.contexts[node]));
      DXGKIT_VERIFY_TRY(worker.client.wait_idle(worker.device));
      if (const Answer<void> right = (*job)->check(); !right)
        return std::unexpected("after it: " + right.error());
      DXGKIT_VERIFY_TRY((*job)->destroy());
    }
    return worker.client.destroy_device(worker.device);
  };
  if (const Answer<void> done = run(); !done) return Outcome::failed(done.error());
  if (wrong.empty()) return Outcome::ok(fmt::format("{} without execution", counted(jobs, "job")));
  bench.findings().report(
      {.rule = "SUB-22",
       .severity = verifier::Severity::kViolation,
       .ddi = bench.gpu_addresses() ? "DxgkDdiSubmitCommandVirtual" : "DxgkDdiSubmitCommand",
       .actual = fmt::format("A submission had Flags.NullRendering: {}.", wrong),
       .expected = "Everything is done but the execution: the fence is reported in its place.",
       .fix = "Give the engine an empty buffer with the same fence, or skip the commands there.",
       .why = "Tools measure the cost of a driver this way; its clients wait for the fence.",
       .windows = "The timeout recovers the engine, and the application loses its device."});
  return Outcome::failed(wrong);
}

constexpr Step kSteps[] = {
    {"render", "one job after the other, results checked", Step::Needs::kClient, render},
    {"render-together", "many jobs of several processes in flight", Step::Needs::kClient,
     render_together},
    {"null-rendering", "work that is not executed", Step::Needs::kClient, null_rendering},
    {"hostile-render", "command buffers of no meaning", Step::Needs::kBuffers, hostile},
    {"prepatched", "work that DxgkDdiPatch is not called for", Step::Needs::kBuffers, prepatched},
    {"cut-commands", "commands whose end cannot be read", Step::Needs::kBuffers, cut_commands},
    {"preempt-idle", "idle nodes are asked for preemption", Step::Needs::kRender, preempt_idle},
    {"preempt-busy", "urgent work overtakes long work", Step::Needs::kClient, preempt_busy},
};

}  // namespace

std::span<const Step> work_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
