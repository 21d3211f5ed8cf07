#include "sim/seeds.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "base/check.h"
#include "runtime/runtime.h"
#include "sim/client.h"
#include "sim/world.h"

namespace dxgkit::sim {
namespace {

constexpr size_t kWorkersMost = 16;
constexpr size_t kFailuresMost = 64;
constexpr size_t kTextMost = 4096;

/// Shared with the workers. Each writes its own slot; lock-free atomics work across processes.
struct Board {
  std::atomic<uint64_t> taken{0};
  std::atomic<uint32_t> failures{0};
  std::atomic<uint64_t> working_on[kWorkersMost]{};
  Counters counters[kWorkersMost]{};
  struct Failure {
    std::atomic<bool> whole{false};
    uint64_t seed = 0;
    char text[kTextMost] = {};
  };
  Failure failure[kFailuresMost];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

std::string replay_command(const RunSeeds& options, uint64_t seed) {
  std::string command = fmt::format("DXGKIT_SIM_SEEDS={}..{} ", seed, seed);
  if (options.canary != Canary::kNone)
    command +=
        fmt::format("DXGKIT_SIM_CANARY={} ", kCanaryNames[static_cast<size_t>(options.canary)]);
  return command + options.program;
}

void note_failure(Board& board, uint64_t seed, std::string what) {
  const uint32_t index = board.failures.fetch_add(1);
  if (index >= kFailuresMost) return;
  what += "\n  the world: " + WorldPlan::draw(seed).describe();
  Board::Failure& failure = board.failure[index];
  failure.seed = seed;
  const size_t bytes = std::min(what.size(), kTextMost - 1);
  std::memcpy(failure.text, what.data(), bytes);
  failure.whole.store(true);
}

void run_one(const RunSeeds& options, Board& board, size_t worker, uint64_t seed) {
  SeedOptions one{.seed = seed, .canary = options.canary};
  const bool twice = options.replay_every != 0 && seed % options.replay_every == 0;
  one.trace = twice;
  one.trace_path = options.trace_path;
  SeedOutcome outcome = run_seed(one);
  if (twice && outcome.passed()) {
    const SeedOutcome again = run_seed(one);
    ++outcome.counters.replays;
    if (again.trace_hash != outcome.trace_hash)
      outcome.failure = fmt::format("two runs differ: their traces hash to {:016x} and {:016x}",
                                    outcome.trace_hash, again.trace_hash);  // P16
  }
  board.counters[worker].add(outcome.counters);
  if (!outcome.passed()) note_failure(board, seed, outcome.failure);
}

}  // namespace

std::optional<SeedRange> parse_seeds(std::string_view text) {
  const auto number = [](std::string_view digits) -> std::optional<uint64_t> {
    uint64_t value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), end, value);
    if (error != std::errc{} || at != end) return std::nullopt;
    return value;
  };
  const size_t dots = text.find("..");
  const auto first = number(text.substr(0, dots));
  const auto last = dots == std::string_view::npos ? first : number(text.substr(dots + 2));
  if (!first.has_value() || !last.has_value() || *first > *last || *last == UINT64_MAX)
    return std::nullopt;
  return SeedRange{*first, *last};
}

SeedsReport run_seeds(const RunSeeds& options) {
  const std::unique_ptr<runtime::Runtime> clock = runtime::make_os_runtime();
  const runtime::TimeNs began = clock->now();
  void* const shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  DXGKIT_CHECK(shared != MAP_FAILED);
  Board& board = *new (shared) Board;
  const uint64_t count = options.seeds.count();
  const auto work = [&](size_t worker) {
    while (board.failures.load() < options.failures_most) {
      const uint64_t index = board.taken.fetch_add(1);
      if (index >= count) return;
      const uint64_t seed = options.seeds.first + index;
      board.working_on[worker].store(seed);
      run_one(options, board, worker, seed);
    }
  };
  std::fflush(nullptr);  // else children would print what is buffered again
  std::map<pid_t, size_t> workers;
  const auto start_worker = [&](size_t worker) {
    const pid_t child = fork();
    DXGKIT_CHECK(child >= 0);
    if (child == 0) {
      work(worker);
      std::fflush(nullptr);
      _exit(0);
    }
    workers[child] = worker;
  };
  const size_t wanted = std::clamp<size_t>(options.workers, 1, kWorkersMost);
  for (size_t i = 0; i < std::min<uint64_t>(wanted, count); ++i) start_worker(i);
  while (!workers.empty()) {
    int status = 0;
    const pid_t child = wait(&status);
    const auto found = workers.find(child);
    if (found == workers.end()) continue;
    const size_t worker = found->second;
    workers.erase(found);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    note_failure(board, board.working_on[worker].load(),
                 WIFSIGNALED(status)
                     ? fmt::format("the process ended by signal {}", WTERMSIG(status))
                     : fmt::format("the process ended with code {}", WEXITSTATUS(status)));
    if (board.taken.load() < count && board.failures.load() < options.failures_most)
      start_worker(worker);
  }
  SeedsReport report;
  for (const Counters& counters : board.counters) report.counters.add(counters);
  for (const Board::Failure& failure : board.failure) {
    if (!failure.whole.load()) continue;
    report.failures.push_back({failure.seed, failure.text, replay_command(options, failure.seed)});
  }
  std::ranges::sort(report.failures, {}, &SeedFailure::seed);
  munmap(shared, sizeof(Board));
  report.seconds = static_cast<double>(clock->now() - began) / 1e9;
  return report;
}

std::string summary(const RunSeeds& options, const SeedsReport& report) {
  const Counters& n = report.counters;
  std::string text = fmt::format(
      "simulation: seeds {}..{}: {} passed, {} failed, {} ran twice with the same trace\n"
      "  {:.1f} s ({:.1f} seeds/s), {:.1f} s simulated, {} clients, {} thunks ({} refused)\n"
      "  {} content checks of {} MiB, {} other checks; everything drained {:.1f} ms after the "
      "faults at the latest\n"
      "  {} packets, {} of paging; {} evictions, {} page-ins, {} page-outs, {} fills, {} aperture "
      "maps, {} MiB moved\n"
      "  several passes: {} paging, {} render; {} splits; {} "
      "offers discarded, {} renamings\n"
      "  addresses: {} maps, {} updates, {} submissions through windows, {} walks of {} pages; {} "
      "shared resources opened\n  faults:",
      options.seeds.first, options.seeds.last, n.seeds - report.failures.size(),
      report.failures.size(), n.replays, report.seconds,
      static_cast<double>(n.seeds) / std::max(report.seconds, 1e-9),
      static_cast<double>(n.simulated_ns) / 1e9, n.clients, n.thunk_calls, n.refused_calls,
      n.content_checks, n.bytes_checked >> 20, n.property_checks,
      static_cast<double>(n.worst_drain_ns) / 1e6, n.packets, n.paging_packets, n.evictions,
      n.page_ins, n.page_outs, n.fills, n.aperture_maps, n.bytes_moved >> 20, n.multipass_paging,
      n.multipass_renders, n.splits, n.offers_discarded, n.renamings, n.maps, n.updates,
      n.window_uses, n.walks, n.pages_walked, n.openings);
  for (size_t i = 0; i < kFaultKinds; ++i)
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", kFaultNames[i], n.struck[i]);
  text += "\n  operations:";
  const std::vector<std::string_view> names = operation_names();
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", names[i], n.operations[i]);
  return text + "\n";
}

}  // namespace dxgkit::sim
