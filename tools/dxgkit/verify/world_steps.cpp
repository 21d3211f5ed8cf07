// Worlds: several processes at work at once in a machine that has too little of everything, with
// results checked by the client plug-in. What one job alone never needs happens here: eviction
// under work, content moved in parts, buffers cut at split points, patching again, preemption.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/arithmetic.h"
#include "dxgk/core/verifier_switches.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/scarcity.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {
namespace {

/// With real threads a busy machine takes a hundred times as long for each hand-over.
constexpr size_t kSimulatedWorlds = 10, kRealWorlds = 2;
constexpr size_t kProcesses = 4;
constexpr size_t kRounds = 3;
constexpr size_t kJobs = 3;  // of a process, alive at the same time
constexpr uint64_t kBusyNs = 2 * 1000 * 1000;
/// What a segment holds beside the jobs: page tables of all processes, and what the driver keeps.
constexpr uint64_t kTableBytes = uint64_t{256} << 10, kDriverBytes = uint64_t{64} << 10;

/// What one process does, drawn before it begins, as processes run side by side.
struct Errand {
  uint64_t seed = 0;
  uint32_t node = 0;
  bool busy = false;
};
struct Life {
  std::vector<std::vector<Errand>> rounds;  // of jobs whose memory is alive together
  int32_t priority = 0;
  bool ends_at_work = false;  // the process exits with its last round in flight
};
/// One world.
struct Plan {
  dxgk::VerifierSwitches switches;
  uint64_t chunk_bytes = 0;    // of a transfer
  uint64_t segment_bytes = 0;  // 0: as the driver says
  uint64_t scarcity_seed = 0;
  std::vector<Life> lives;
};

uint64_t bytes_of(const std::vector<DxgkitClientAllocation>& wanted) {
  uint64_t bytes = 0;
  constexpr uint64_t k64 = uint64_t{64} << 10;
  for (const DxgkitClientAllocation& one : wanted) {
    // A picture has the pitch that the driver gives it.
    const uint64_t picture = uint64_t{one.width} * one.height * 8;
    bytes += align_up(std::max(one.size_bytes, picture), k64);
  }
  return bytes;
}

Answer<Plan> draw(Bench& bench, size_t world) {
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return std::unexpected(code.error());
  Plan plan;
  uint64_t largest = 0;  // of what one job needs
  // Real threads take long over work that overtakes others and waits for their memory.
  const bool urgent = world == 0 || bench.simulated();
  for (size_t process = 0; process < kProcesses; ++process) {
    Life life;
    for (size_t round = 0; round < kRounds; ++round) {
      std::vector<Errand> jobs;
      for (size_t i = 0; i < kJobs; ++i) {
        Errand one;
        one.seed = bench.random();
        one.node = static_cast<uint32_t>(bench.random() % bench.node_count());
        one.busy = urgent && bench.random() % 2 == 0;
        const Answer<std::vector<DxgkitClientAllocation>> wanted =
            (*code)->plan(one.seed, one.node);
        if (!wanted) return std::unexpected(wanted.error());
        largest = std::max(largest, bytes_of(*wanted));
        jobs.push_back(one);
      }
      life.rounds.push_back(std::move(jobs));
    }
    // A higher one than 0 takes a privilege.
    if (urgent && process % 2 != 0) life.priority = -7 + static_cast<int32_t>(bench.random() % 4);
    life.ends_at_work = world % 2 == 1 && process == 0;
    plan.lives.push_back(std::move(life));
  }
  // The first world has its rare paths alone, the second its shortage alone.
  if (world != 1) {
    using dxgk::VerifierSwitch;
    for (const VerifierSwitch one :
         {VerifierSwitch::kAlwaysRepatch, VerifierSwitch::kNeverPrepatch,
          VerifierSwitch::kTakeSplitPoint, VerifierSwitch::kForceComplexLock,
          VerifierSwitch::kNoDemotion, VerifierSwitch::kFailAcquireSwizzlingRange}) {
      if (bench.random() % 2 == 0) plan.switches.set(one);
    }
  }
  plan.chunk_bytes = (1 + bench.random() % 16) * kPageBytes;
  const uint64_t beside = bench.gpu_addresses() ? kTableBytes + kDriverBytes : kDriverBytes;
  if (world != 0) plan.segment_bytes = align_up(largest + beside, kPageBytes);
  plan.scarcity_seed = bench.random();
  return plan;
}

/// Runs one process; the first wrong result goes to `wrong`.
Answer<void> live(Bench& bench, const Life& life, const std::string& name, std::string* wrong) {
  Worker worker(bench, name);
  DXGKIT_VERIFY_TRY(worker.open());
  Client& client = worker.client;
  for (const ClientContext& context : worker.contexts)
    DXGKIT_VERIFY_TRY(client.set_priority(context.handle, life.priority));
  for (size_t round = 0; round < life.rounds.size(); ++round) {
    std::vector<std::unique_ptr<Job>> jobs;
    for (const Errand& one : life.rounds[round]) {
      Answer<std::unique_ptr<Job>> job =
          Job::create(bench, client, worker.device, one.seed, one.node);
      if (!job) return std::unexpected(job.error());
      jobs.push_back(std::move(*job));
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
      const Errand& one = life.rounds[round][i];
      DXGKIT_VERIFY_TRY(jobs[i]->submit(worker.contexts[one.node], one.busy ? kBusyNs : 0));
      const bool last = i + 1 == jobs.size();
      if (last && life.ends_at_work && round + 1 == life.rounds.size()) return {};
      // A residency list has to fit, and there is room for one job.
      if (!last && !bench.explicit_residency()) continue;
      const Answer<bool> kept = worker.idle(wrong);
      if (!kept) return std::unexpected(kept.error());
      if (!*kept) return {};
    }
    for (const std::unique_ptr<Job>& job : jobs) {
      if (const Answer<void> right = job->check(); !right) {
        *wrong = right.error();
        return {};
      }
      DXGKIT_VERIFY_TRY(job->destroy());
    }
  }
  return client.destroy_device(worker.device);
}

/// What was special in the world, for a message about it.
std::string describe(const Plan& plan) {
  std::string text = fmt::format("with transfers of at most {} KiB", plan.chunk_bytes >> 10);
  if (plan.segment_bytes != 0)
    text += fmt::format(", memory segments of {} KiB", plan.segment_bytes >> 10);
  for (const dxgk::VerifierSwitchName& one : dxgk::kVerifierSwitchNames) {
    if (plan.switches.has(one.which)) text += fmt::format(", {}", one.name);
  }
  return text;
}

Outcome worlds(Bench& bench) {
  size_t jobs = 0;
  uint64_t cuts = 0;
  uint64_t evictions = 0;
  std::string failure;
  std::vector<Plan> plans;  // drawn while the adapter runs, which the plug-in is opened on
  const size_t count = bench.simulated() ? kSimulatedWorlds : kRealWorlds;
  for (size_t world = 0; world < count; ++world) {
    Answer<Plan> plan = draw(bench, world);
    if (!plan) return Outcome::failed(plan.error());
    plans.push_back(std::move(*plan));
  }
  if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
  for (size_t world = 0; world < count && failure.empty(); ++world) {
    const Plan& plan = plans[world];
    Scarcity scarcity(plan.segment_bytes, plan.scarcity_seed);
    const Bench::StartChanges changes{
        .faults = &scarcity, .verifier = plan.switches, .transfer_chunk_bytes = plan.chunk_bytes};
    if (const Outcome started = bench.start(changes); started.kind != Outcome::Kind::kOk)
      return started;
    std::vector<std::string> wrong(plan.lives.size());
    Answer<void> done;
    if (const Answer<Plugin::Instance*> code = bench.client_code(); !code) {
      done = std::unexpected(code.error());
    } else {
      done = bench.in_parallel(plan.lives.size(), [&](size_t i) {
        return live(bench, plan.lives[i], fmt::format("world {}.{}", world, i), &wrong[i]);
      });
    }
    for (const Life& life : plan.lives) {
      for (const std::vector<Errand>& round : life.rounds) jobs += round.size();
    }
    cuts += scarcity.cuts();
    if (const auto statistics = bench.system().statistics(bench.luid()); statistics.has_value())
      evictions += statistics->evictions;
    if (!bench.running()) {
      static_cast<void>(bench.stop());  // before the injector goes
      return Outcome::failed("the adapter stopped " + describe(plan));
    }
    for (const std::string& text : wrong) {
      if (text.empty()) continue;
      report_result(bench, fmt::format("{}; {}", text, describe(plan)));
      failure = text;
      break;
    }
    if (failure.empty() && !done) failure = fmt::format("{}; {}", done.error(), describe(plan));
    // Before the injector goes.
    if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
  }
  if (const Outcome started = bench.start(); started.kind != Outcome::Kind::kOk) return started;
  if (!failure.empty()) return Outcome::failed(failure);
  return Outcome::ok(
      fmt::format("{} jobs in {} worlds of {} processes, {} evictions, {} paging buffers cut short",
                  jobs, count, kProcesses, evictions, cuts));
}

constexpr Step kSteps[] = {
    {"worlds", "processes at work in a machine that has too little", Step::Needs::kClient, worlds},
};

}  // namespace

std::span<const Step> world_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
