// Command buffers that do not fit into one DMA buffer, and DMA buffers that do not run in one part:
// what the driver is told of their places, and the results.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/spelling.h"
#include "dxgk/core/verifier_switches.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint32_t kLeastRoom = 1024;  // for one command
constexpr size_t kRounds = 4;          // of a room, on each node
constexpr uint32_t kContexts = 64;     // on one node

/// Tells DxgkDdiRender of less room than its DMA buffer has. Any thread.
class Tight final : public port::FaultInjector {
 public:
  /// Bytes from here on; 0: all there are.
  void set_room(uint32_t bytes) { room_.store(bytes, std::memory_order_relaxed); }
  uint64_t cuts() const { return cuts_.load(std::memory_order_relaxed); }

  std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
  std::optional<Status> before_paging(const port::PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view ddi, uint32_t bytes) override {
    const uint32_t most = room_.load(std::memory_order_relaxed);
    if (ddi != "DxgkDdiRender" || most == 0 || most >= bytes) return bytes;
    cuts_.fetch_add(1, std::memory_order_relaxed);
    return most;
  }
  void shape(port::SegmentsInfo*) override {}

 private:
  std::atomic<uint32_t> room_{0};
  std::atomic<uint64_t> cuts_{0};
};

/// Jobs that get about a half, a third and a quarter of the room that their commands take.
Answer<void> run_tight(Bench& bench, Tight& tight, size_t* jobs, std::string* wrong) {
  if (const Answer<Plugin::Instance*> code = bench.client_code(); !code)
    return std::unexpected(code.error());
  Worker worker(bench, "passes");
  DXGKIT_VERIFY_TRY(worker.open());
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    ClientContext& context = worker.contexts[node];
    for (size_t round = 0; round < kRounds; ++round) {
      const Answer<std::unique_ptr<Job>> job =
          Job::create(bench, worker.client, worker.device, bench.random(), node);
      if (!job) return std::unexpected(job.error());
      const Answer<DxgkitClientJob> recorded = (*job)->record(context);
      if (!recorded) return std::unexpected(recorded.error());
      const auto parts = static_cast<uint32_t>(2 + round % 3);
      // Odd, as the end of a buffer need not be the end of a command.
      const auto odd = static_cast<uint32_t>(bench.random() % 60);
      tight.set_room(std::max(kLeastRoom, recorded->command_bytes / parts) + odd);
      const Answer<void> sent = (*job)->submit(context);
      tight.set_room(0);
      DXGKIT_VERIFY_TRY(sent);
      const Answer<bool> kept = worker.idle(wrong);
      if (!kept) return std::unexpected(kept.error());
      if (!*kept) return {};
      ++*jobs;
      if (const Answer<void> right = (*job)->check(); !right) {
        *wrong = right.error();
        return {};
      }
      DXGKIT_VERIFY_TRY((*job)->destroy());
    }
  }
  return worker.client.destroy_device(worker.device);
}

Outcome passes(Bench& bench) {
  if (bench.gpu_addresses())
    return Outcome::skipped("user mode brings its own DMA buffers: there is no DxgkDdiRender");
  size_t jobs = 0;
  uint64_t passes = 0;
  uint64_t parts = 0;
  std::string wrong;
  Tight tight;
  if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
  Answer<void> done;
  for (const bool split : {false, true}) {
    Bench::StartChanges changes;
    changes.faults = &tight;
    if (split) {
      using dxgk::VerifierSwitch;
      for (const VerifierSwitch one :
           {VerifierSwitch::kAlwaysRepatch, VerifierSwitch::kNeverPrepatch,
            VerifierSwitch::kTakeSplitPoint})
        changes.verifier.set(one);
    }
    if (const Outcome started = bench.start(changes); started.kind != Outcome::Kind::kOk)
      return started;
    done = run_tight(bench, tight, &jobs, &wrong);
    if (const auto statistics = bench.system().statistics(bench.luid()); statistics.has_value()) {
      passes += statistics->multipass_renders;
      parts += statistics->splits;
    }
    const bool running = bench.running();
    const Outcome stopped = bench.stop();  // before the injector goes
    if (!running) return Outcome::failed("the adapter stopped");
    if (stopped.kind != Outcome::Kind::kOk) return stopped;
    if (!done || !wrong.empty()) break;
  }
  if (const Outcome started = bench.start(); started.kind != Outcome::Kind::kOk) return started;
  if (!wrong.empty()) {
    report_result(bench, wrong + ", in a DMA buffer of little room");
    return Outcome::failed(wrong);
  }
  if (!done) return Outcome::failed(done.error());
  return Outcome::ok(fmt::format("{}, {} more DMA buffers, {} split points taken",
                                 counted(jobs, "job"), passes, parts));
}

/// Many contexts of a device, on one node each time. The first, the last and one between work; then
/// every second one goes, and they work again. Devices of the process do the same beside it.
Answer<void> run_many(Bench& bench, uint32_t node, size_t* jobs, std::string* wrong) {
  Worker worker(bench, "many contexts");
  DXGKIT_VERIFY_TRY(worker.open());
  std::vector<ClientContext> contexts;
  for (uint32_t i = 0; i < kContexts; ++i) {
    const Answer<ClientContext> made = worker.add_context(node);
    if (!made) return std::unexpected(made.error());
    contexts.push_back(*made);
  }
  const Answer<D3DKMT_HANDLE> other = worker.client.create_device();
  if (!other) return std::unexpected(other.error());
  const auto run = [&](ClientContext& context, const char* which) -> Answer<bool> {
    const Answer<std::unique_ptr<Job>> job =
        Job::create(bench, worker.client, worker.device, bench.random(), node);
    if (!job) return std::unexpected(job.error());
    DXGKIT_VERIFY_TRY((*job)->submit(context));
    const Answer<bool> kept = worker.idle(wrong);
    if (!kept || !*kept) return kept;
    ++*jobs;
    if (const Answer<void> right = (*job)->check(); !right) {
      *wrong =
          fmt::format("{}, on the {} of {}", right.error(), which, counted(kContexts, "context"));
      return false;
    }
    DXGKIT_VERIFY_TRY((*job)->destroy());
    return true;
  };
  for (const size_t round : {0U, 1U}) {
    for (const auto& [index, which] : {std::pair<size_t, const char*>{1, "first"},
                                       {kContexts / 2 + 1, "middle"},
                                       {kContexts - 1, "last"}}) {
      const Answer<bool> good = run(contexts[index], which);
      if (!good) return std::unexpected(good.error());
      if (!*good) return {};
    }
    if (round == 1) break;
    DXGKIT_VERIFY_TRY(worker.client.destroy_device(*other));
    for (const size_t i : bench.shuffled(kContexts)) {
      if (i % 2 == 0) DXGKIT_VERIFY_TRY(worker.client.destroy_context(contexts[i].handle));
    }
  }
  return worker.client.destroy_device(worker.device);
}

Outcome many_contexts(Bench& bench) {
  size_t jobs = 0;
  std::string wrong;
  Answer<void> done;
  for (uint32_t node = 0; node < bench.node_count() && done && wrong.empty(); ++node)
    done = run_many(bench, node, &jobs, &wrong);
  if (!wrong.empty()) {
    report_result(bench, wrong);
    return Outcome::failed(wrong);
  }
  if (!done) return Outcome::failed(done.error());
  return Outcome::ok(fmt::format("{} between {} on each node", counted(jobs, "job"),
                                 counted(kContexts, "context")));
}

constexpr Step kSteps[] = {
    {"many-contexts", "contexts work between many others", Step::Needs::kClient, many_contexts},
    {"passes", "command buffers that take several DMA buffers", Step::Needs::kClient, passes},
};

}  // namespace

std::span<const Step> render_pass_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
