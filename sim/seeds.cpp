#include "sim/seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "runtime/runtime.h"
#include "sim/client.h"
#include "sim/process_pool.h"
#include "sim/world.h"

namespace dxgkit::sim {
namespace {

/// A worker's answer: this structure, with the failure behind it.
struct Answer {
  uint64_t trace_hash = 0;
  Counters counters;
};
static_assert(std::is_trivially_copyable_v<Answer> && sizeof(Answer) < kAnswerBytesMost / 2);

std::string with_plan(const SeedOptions& options, std::string_view failure) {
  return fmt::format("{}\n  the world: {}", failure, WorldPlan::draw(options).describe());
}

std::string run_one(const RunSeeds& options, const SeedOptions& one) {
  const bool twice = options.replay_every != 0 && one.seed % options.replay_every == 0;
  SeedOutcome outcome = run_seed(one);
  if (twice && outcome.passed()) {
    SeedOptions second = one;
    if (!one.trace_path.empty()) second.trace_path += ".again";
    const SeedOutcome again = run_seed(second);
    ++outcome.counters.replays;
    if (again.trace_hash != outcome.trace_hash)
      outcome.failure = fmt::format("two runs differ: their traces hash to {:016x} and {:016x}",
                                    outcome.trace_hash, again.trace_hash);  // P16
  }
  const Answer answer{outcome.trace_hash, outcome.counters};
  std::string text(reinterpret_cast<const char*>(&answer), sizeof(answer));
  return outcome.passed() ? text : text + with_plan(one, outcome.failure);
}

/// " name number, name number": as many as there are names.
std::string named(std::span<const std::string_view> names, std::span<const uint64_t> numbers) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", names[i], numbers[i]);
  return text;
}

/// How many of the situations that could have come up did, and the names of the others.
std::string situations(const Counters& counters) {
  size_t reached = 0, possible = 0;
  std::string missing;
  for (size_t i = 0; i < verifier::kSituations; ++i) {
    const bool is_reached = (counters.situations[i / 64] >> i % 64 & 1) != 0;
    const bool is_possible = (counters.situations_possible[i / 64] >> i % 64 & 1) != 0;
    reached += is_reached ? 1 : 0;
    possible += is_possible ? 1 : 0;
    if (is_possible && !is_reached)
      missing += fmt::format(" {}", verifier::situation_catalogue()[i].id);
  }
  return fmt::format("\n  {} of {} situations that could come up did{}{}", reached, possible,
                     missing.empty() ? "" : ", not", missing);
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

uint64_t count_of(const RunSeeds& options) {
  const uint64_t all = options.seeds.count();
  return all <= options.shard ? 0 : (all - options.shard - 1) / options.shards + 1;
}

SeedsReport run_seeds(const RunSeeds& options) {
  const std::unique_ptr<runtime::Runtime> clock = runtime::make_os_runtime();
  const runtime::TimeNs began = clock->now();
  SeedsReport report;
  const auto options_of = [&](uint64_t index) {
    SeedOptions one;
    one.seed = options.seeds.first + index * options.shards + options.shard;
    one.canary = options.canary;
    one.changes = options.changes;
    one.driver = options.driver;
    one.face = options.face;
    one.waivers = options.waivers;
    one.trace = true;
    one.trace_path = options.trace_path;
    one.on_finding = options.on_finding;
    return one;
  };
  const auto ended = [&](const SeedResult& result) {
    ++report.ended;
    report.counters.add(result.counters);
    if (!result.failure.empty())
      report.failures.push_back({result.seed, result.failure, options.replay(result.seed)});
    if (options.on_seed) options.on_seed(result);
    return report.failures.size() < options.failures_most;
  };
  PoolJob job;
  job.count = count_of(options);
  job.workers = options.workers;
  job.seconds_most = options.seconds_most;
  job.work = [&](uint64_t index) {
    const SeedOptions one = options_of(index);
    if (options.on_begin) options.on_begin(one.seed);
    return run_one(options, one);
  };
  job.done = [&](uint64_t index, std::string_view text) {
    Answer answer;
    DXGKIT_CHECK(text.size() >= sizeof(answer));
    std::memcpy(&answer, text.data(), sizeof(answer));
    return ended({.seed = options_of(index).seed,
                  .trace_hash = answer.trace_hash,
                  .counters = answer.counters,
                  .failure = std::string(text.substr(sizeof(answer)))});
  };
  job.died = [&](uint64_t index, std::string_view how) {
    const SeedOptions one = options_of(index);
    const std::string what =
        options.last_words ? options.last_words(one.seed, how) : std::string(how);
    SeedResult result{
        .seed = one.seed, .died = true, .counters = {}, .failure = with_plan(one, what)};
    result.counters.seeds = 1;
    return ended(result);
  };
  job.tick = [&] {
    report.seconds = static_cast<double>(clock->now() - began) / 1e9;
    if (options.on_tick) options.on_tick(report);
  };
  DXGKIT_CHECK(run_pool(job));
  std::ranges::sort(report.failures, {}, &SeedFailure::seed);
  report.seconds = static_cast<double>(clock->now() - began) / 1e9;
  return report;
}

std::string summary(const SeedsReport& report, std::string_view seeds) {
  const Counters& n = report.counters;
  std::string text = fmt::format(
      "simulation: seeds {}: {} passed, {} failed, {} ran twice with the same trace\n"
      "  {:.1f} s ({:.1f} seeds/s), {:.0f} s simulated ({:.0f} times real), of them {:.0f} s idle "
      "with {} timers due; {} pauses, {} events\n"
      "  {} clients, {} thunks ({} refused)\n"
      "  {} content checks of {} MiB, {} other checks; everything drained {:.1f} ms after the "
      "faults at the latest\n"
      "  {} packets, {} of paging; {} evictions, {} page-ins, {} page-outs, {} fills, {} aperture "
      "maps, {} MiB moved\n"
      "  several passes: {} paging, {} render; {} splits; {} "
      "offers discarded, {} renamings\n"
      "  addresses: {} maps, {} updates, {} submissions through windows, {} walks of {} pages; {} "
      "shared resources opened, {} turns at common ones, {} fences opened by name\n"
      "  hostile processes: {} calls, {} accepted\n  {} timeouts recovered from, {} packets "
      "preempted\n  faults:",
      seeds, n.seeds - std::min<uint64_t>(n.seeds, report.failures.size()), report.failures.size(),
      n.replays, report.seconds, static_cast<double>(n.seeds) / std::max(report.seconds, 1e-9),
      static_cast<double>(n.simulated_ns) / 1e9,
      static_cast<double>(n.simulated_ns) / 1e9 / std::max(report.seconds, 1e-9),
      static_cast<double>(n.idle_ns) / 1e9, n.idle_steps, n.pauses, n.events, n.clients,
      n.thunk_calls, n.refused_calls, n.content_checks, n.bytes_checked >> 20, n.property_checks,
      static_cast<double>(n.worst_drain_ns) / 1e6, n.packets, n.paging_packets, n.evictions,
      n.page_ins, n.page_outs, n.fills, n.aperture_maps, n.bytes_moved >> 20, n.multipass_paging,
      n.multipass_renders, n.splits, n.offers_discarded, n.renamings, n.maps, n.updates,
      n.window_uses, n.walks, n.pages_walked, n.openings, n.common_uses, n.names_opened,
      n.stranger_calls, n.stranger_successes, n.engine_timeouts, n.preempted_packets);
  text += named(kFaultNames, n.struck);
  const auto missing = std::ranges::count(n.struck, uint64_t{0});
  text += missing == 0
              ? fmt::format("\n  every one of {} kinds of faults struck", kFaultKinds)
              : fmt::format("\n  {} of {} kinds of faults never struck:", missing, kFaultKinds);
  for (size_t i = 0; missing != 0 && i < kFaultKinds; ++i)
    if (n.struck[i] == 0) text += fmt::format(" '{}'", kFaultNames[i]);
  text += situations(n);
  text += "\n  operations:" + named(operation_names(), n.operations);
  text += "\n  clients died in:" + named(kThunkNames, n.deaths);
  return text + "\n";
}

}  // namespace dxgkit::sim
