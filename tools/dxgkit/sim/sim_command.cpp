// dxgkit sim, dxgkit merge.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/spelling.h"
#include "runtime/interrupt.h"
#include "sim/process_pool.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/sim/driver_face.h"
#include "tools/dxgkit/sim/results.h"
#include "tools/dxgkit/sim/sim_options.h"
#include "tools/dxgkit/waivers.h"

namespace dxgkit::tool {
namespace {

/// A seed takes less than a second. After that its process notes where it is, and ends.
constexpr uint32_t kSeedSecondsMost = 300;
constexpr uint32_t kSecondsForNote = 10;

std::string time_text(double seconds) {
  const auto whole = static_cast<uint64_t>(seconds);
  if (whole < 100) return fmt::format("{} s", whole);
  return whole < 6000 ? fmt::format("{} min", whole / 60)
                      : fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

/// One line that is written over and over.
class Progress {
 public:
  Progress(uint64_t count, bool shown) : count_(count), shown_(shown) {}
  void show(const sim::SeedsReport& report) {
    if (!shown_ || report.seconds < next_) return;
    next_ = report.seconds + 0.5;
    const double rate = static_cast<double>(report.ended) / std::max(report.seconds, 1e-3);
    constexpr size_t kBar = 24;
    const size_t full = count_ == 0 ? kBar : kBar * report.ended / count_;
    std::string line(full, '#');
    line.resize(kBar, '.');
    line = fmt::format("[{}] {} of {}, {} failed, {:.0f}/s", line, report.ended,
                       counted(count_, "seed"), report.failures.size(), rate);
    if (report.ended != 0 && report.ended < count_)
      line +=
          fmt::format(", {} left", time_text(static_cast<double>(count_ - report.ended) / rate));
    wipe();
    fmt::print(stderr, "{}", line);
    std::fflush(stderr);
    wide_ = line.size();
  }
  void wipe() {
    if (wide_ == 0) return;
    fmt::print(stderr, "\r{}\r", std::string(wide_, ' '));
    wide_ = 0;
  }

 private:
  const uint64_t count_;
  const bool shown_;
  double next_ = 0;
  size_t wide_ = 0;
};

void print_failure(std::FILE* out, const sim::SeedFailure& failure) {
  fmt::print(out, "seed {}: {}\n  replay: {}\n", failure.seed, failure.what, failure.replay);
  std::fflush(out);
}

std::string json_text(const sim::SeedsReport& report, const SimOptions& options, uint64_t count,
                      const std::string& how_far) {
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  for (const sim::SeedFailure& failure : report.failures)
    failures.push_back(
        {{"seed", failure.seed}, {"text", failure.what}, {"replay", failure.replay}});
  const nlohmann::ordered_json all{{"worlds", options.worlds.as_options()},
                                   {"first_seed", options.seeds.first},
                                   {"last_seed", options.seeds.last},
                                   {"shard", options.shard + 1},
                                   {"shards", options.shards},
                                   {"interrupted", how_far},
                                   {"seeds", count},
                                   {"seeds_ended", report.ended},
                                   {"seconds", report.seconds},
                                   {"failures", failures},
                                   {"waivers", waivers_json(options.worlds.waivers.list)}};
  return all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string Worlds::as_options() const {
  std::string text;
  if (!driver.empty() && driver != "softgpu") text += " " + shell_quoted(driver);
  text += changes.as_options();
  if (canary != sim::Canary::kNone)
    text += fmt::format(" --canary {}", sim::kCanaryNames[static_cast<size_t>(canary)]);
  return text + waivers.options;
}

int sim_command(const SimOptions& options) {
  const auto driver = driver_of(options.worlds.driver);
  if (!driver.has_value()) return bad_input(driver.error());
  if (const int code = options.reports.check(); code != kExitDone) return code;
  runtime::catch_interrupts();
  const std::string worlds = options.worlds.as_options();
  std::optional<Results> results;
  if (options.db.has_value()) {
    auto opened = Results::open(*options.db, worlds);
    if (!opened.has_value()) return bad_input(opened.error());
    results.emplace(std::move(*opened));
  }
  sim::RunSeeds run;
  run.seeds = options.seeds;
  run.shard = options.shard;
  run.shards = options.shards;
  run.changes = options.worlds.changes;
  run.canary = options.worlds.canary;
  run.driver = driver->path;
  run.face = driver->face;
  run.waivers = options.worlds.waivers.list;
  run.workers = sim::workers_for(options.jobs);
  run.replay_every = options.twice_every;
  run.failures_most = options.failures_most;
  run.replay = [&](uint64_t seed) { return fmt::format("dxgkit replay {}{}", seed, worlds); };
  const LastWords words;
  run.seconds_most = kSeedSecondsMost + kSecondsForNote;
  run.on_begin = [&](uint64_t seed) { words.listen(seed, kSeedSecondsMost); };
  run.on_finding = [](const verifier::Finding& finding) {
    LastWords::keep({.key = {}, .finding = finding});
  };
  run.last_words = [&](uint64_t seed, std::string_view how) {
    std::string text = fmt::format("{}\n", how);
    for (const Problem& problem : words.kept(seed)) text += verifier::to_text(problem.finding);
    return text + verifier::to_text(words.of(seed, "The seed", how).finding);
  };
  std::FILE* const out = options.reports.text_stream();
  Progress progress(sim::count_of(run), !options.quiet && isatty(STDERR_FILENO) != 0);
  std::optional<std::string> trouble;
  run.on_seed = [&](const sim::SeedResult& result) {
    if (results.has_value() && !trouble.has_value()) trouble = results->put(result);
    if (result.failure.empty()) return;
    progress.wipe();
    print_failure(out, {result.seed, result.failure, run.replay(result.seed)});
  };
  double flushed = 0;
  run.on_tick = [&](const sim::SeedsReport& report) {
    progress.show(report);
    if (!results.has_value() || trouble.has_value() || report.seconds < flushed + 1) return;
    flushed = report.seconds;
    trouble = results->flush();
  };
  const sim::SeedsReport report = sim::run_seeds(run);
  progress.wipe();
  if (results.has_value() && !trouble.has_value()) trouble = results->flush();
  std::string seeds = fmt::format("{}..{}", options.seeds.first, options.seeds.last);
  if (options.shards != 1) seeds += fmt::format(" ({}/{})", options.shard + 1, options.shards);
  fmt::print(out, "{}", sim::summary(report, seeds));
  fmt::print(out, "{}", waivers_text(run.waivers));
  const uint64_t count = sim::count_of(run);
  std::string how_far;
  if (runtime::interrupted()) {
    how_far = fmt::format("after {} of {}", report.ended, counted(count, "seed"));
    fmt::print(out, "interrupted {}\n", how_far);
  }
  if (trouble.has_value())
    fmt::print(stderr, "dxgkit: {}: results were not kept: {}\n", *options.db, *trouble);
  if (!write_output(options.reports.json, json_text(report, options, count, how_far)))
    return kExitNotWritten;
  if (!how_far.empty()) return kExitInterrupted;
  const bool all = report.failures.empty() && report.ended == count;
  return all && !trouble.has_value() ? kExitDone : kExitFailed;
}

int merge_command(const std::string& out, const std::vector<std::string>& in) {
  // The rows go into a database beside the output, which then gets them in their order: the same
  // rows are the same bytes, however they came.
  const std::string all = fmt::format("{}.{}.all", out, getpid());
  const std::string part = fmt::format("{}.{}.part", out, getpid());
  const auto clean = [&] {
    for (const std::string& path : {all, all + "-journal", part}) std::remove(path.c_str());
  };
  const auto refuse = [&](const std::string& why) {
    clean();
    return bad_input(why);
  };
  clean();
  sim::SeedsReport report;
  std::optional<Results> into;
  std::map<uint64_t, uint64_t> hashes;  // by seed
  uint64_t first = UINT64_MAX, last = 0, differ = 0;
  std::vector<std::string> paths = in;
  const bool is_there = access(out.c_str(), F_OK) == 0;
  if (is_there && std::ranges::find(in, out) == in.end()) paths.insert(paths.begin(), out);
  for (const std::string& path : paths) {
    auto from = Results::open(path);
    if (from.has_value() && !into.has_value()) {
      auto made = Results::open(all, from->worlds());
      if (!made.has_value()) return refuse(made.error());
      into.emplace(std::move(*made));
    }
    if (from.has_value() && from->worlds() != into->worlds())
      from = std::unexpected(fmt::format("{}: its worlds are '{}', and those of {} '{}'", path,
                                         from->worlds(), out, into->worlds()));
    if (!from.has_value()) return refuse(from.error());
    std::optional<std::string> trouble;
    const auto broken = from->each([&](const sim::SeedResult& result) {
      const auto [seen, fresh] = hashes.try_emplace(result.seed, result.trace_hash);
      if (!fresh && seen->second != result.trace_hash) {
        ++differ;
        fmt::print("seed {}: its trace hashes to {:016x} in {}, and to {:016x} in another file\n",
                   result.seed, result.trace_hash, path, seen->second);
      }
      if (!trouble.has_value()) trouble = into->put(result);
    });
    if (broken.has_value()) trouble = broken;
    if (!trouble.has_value()) trouble = into->flush();
    if (trouble.has_value()) return refuse(fmt::format("{}: {}", path, *trouble));
  }
  if (!into.has_value()) return kExitBadInput;
  const auto trouble = into->write_plainly(part);
  if (trouble.has_value() || std::rename(part.c_str(), out.c_str()) != 0) {
    clean();
    return not_written(fmt::format("{}: {}", out, trouble.value_or("it cannot be replaced")));
  }
  static_cast<void>(into->each([&](const sim::SeedResult& result) {
    first = std::min(first, result.seed);
    last = std::max(last, result.seed);
    ++report.ended;
    report.counters.add(result.counters);
    if (!result.failure.empty())
      report.failures.push_back({result.seed, result.failure,
                                 fmt::format("dxgkit replay {}{}", result.seed, into->worlds())});
  }));
  into.reset();
  clean();
  for (const sim::SeedFailure& failure : report.failures) print_failure(stdout, failure);
  fmt::print("{}",
             sim::summary(report, fmt::format("{}..{}", report.ended == 0 ? 0 : first, last)));
  return report.failures.empty() && differ == 0 ? kExitDone : kExitFailed;
}

}  // namespace dxgkit::tool
