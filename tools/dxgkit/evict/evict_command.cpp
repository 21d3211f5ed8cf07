#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/spelling.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/evict/generate.h"
#include "tools/dxgkit/evict/replay.h"
#include "tools/dxgkit/evict/trace.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {
namespace {

using evict::PolicyRun;
using evict::Trace;

// Long traces run once.
constexpr uint32_t kRuns = 5;
constexpr uint64_t kEnoughNs = 2'000'000'000;

int print_trace(const std::string& family, uint64_t seed) {
  const std::optional<Trace> trace = evict::generate(family, seed);
  if (!trace.has_value()) {
    std::string names;
    for (const evict::Family& known : evict::families()) {
      names += names.empty() ? "" : ", ";
      names += known.name;
    }
    const auto name_of = [](const evict::Family& known) -> std::string_view { return known.name; };
    return bad_input(fmt::format("'{}' is no family of traces; there are {}{}", family, names,
                                 did_you_mean(family, evict::families(), name_of)));
  }
  const std::string text = evict::to_text(*trace, fmt::format("{}, seed {}", family, seed));
  say(stdout, "{}", text);
  return kExitDone;
}

PolicyRun timed_run(const Trace& trace, uint64_t capacity_bytes) {
  const auto os = runtime::make_os_runtime();
  PolicyRun run;
  os->run_main([&] {
    run = evict::time_policy(
        trace, capacity_bytes, [&] { return static_cast<uint64_t>(os->now()); }, kRuns, kEnoughNs);
  });
  return run;
}

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

}  // namespace

int evict_bench_command(const EvictBenchOptions& options) {
  if (const int code = options.reports.check(); code != kExitDone) return code;
  if (!options.generate.empty()) return print_trace(options.generate, options.seed);
  const auto text = read_file(options.trace);
  if (!text.has_value()) return bad_input(text.error());
  const auto trace = evict::parse_trace(*text);
  if (!trace.has_value()) return bad_input(fmt::format("{}: {}", options.trace, trace.error()));
  const uint64_t capacity = evict::capacity_of(*trace, options.oversubscription);
  const uint64_t bound = evict::bound_bytes(*trace, capacity);
  const uint64_t lru = evict::lru_bytes(*trace, capacity);
  const uint64_t foreseen = evict::foreseen_bytes(*trace, capacity);
  const uint64_t popular = evict::popular_bytes(*trace, capacity);
  const PolicyRun run = timed_run(*trace, capacity);
  if (options.reports.json.has_value()) {
    nlohmann::ordered_json out;
    out["page_in_bytes"] = run.page_in_bytes;
    out["lru_bytes"] = lru;
    out["bound_bytes"] = bound;
    out["foreseen_bytes"] = foreseen;
    out["popular_bytes"] = popular;
    out["ns_per_decision"] = ratio(run.decision_ns, run.decisions);
    out["ns_per_use"] = ratio(run.use_ns, run.uses);
    out["oversubscription"] = options.oversubscription;
    out["capacity_bytes"] = capacity;
    out["total_bytes"] = trace->total_bytes();
    out["largest_submission_bytes"] = trace->largest_submission_bytes();
    out["allocations"] = trace->bytes.size();
    out["processes"] = trace->processes;
    out["submissions"] = trace->submissions.size();
    out["uses"] = run.uses;
    out["decisions"] = run.decisions;
    if (!write_output(options.reports.json, out.dump(2) + "\n")) return kExitNotWritten;
    if (options.reports.on_stdout()) return kExitDone;
  }
  fmt::print("{}, {} bytes; {} of {}; {} bytes of memory\n",
             counted(trace->bytes.size(), "allocation"), trace->total_bytes(),
             counted(trace->submissions.size(), "submission"),
             counted(trace->processes, "process", "processes"), capacity);
  const auto line = [&](const char* name, uint64_t bytes) {
    fmt::print("{:<8} {:>20} bytes paged in", name, bytes);
    if (bound != 0) fmt::print("  {:.3f} of the bound", ratio(bytes, bound));
    fmt::print("\n");
  };
  line("policy", run.page_in_bytes);
  line("LRU", lru);
  line("popular", popular);
  line("foreseen", foreseen);
  line("bound", bound);
  fmt::print("{} at {:.0f} ns, {} at {:.0f} ns\n", counted(run.decisions, "victim"),
             ratio(run.decision_ns, run.decisions), counted(run.uses, "use"),
             ratio(run.use_ns, run.uses));
  return kExitDone;
}

}  // namespace dxgkit::tool
