// dxgkit campaign.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/spelling.h"
#include "dxgkit/version.h"
#include "runtime/interrupt.h"
#include "runtime/runtime.h"
#include "sim/process_pool.h"
#include "tools/dxgkit/campaign/campaign_options.h"
#include "tools/dxgkit/campaign/engine.h"
#include "tools/dxgkit/campaign/process.h"
#include "tools/dxgkit/campaign/progress.h"
#include "tools/dxgkit/campaign/task.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/shell_word.h"
#include "tools/dxgkit/sim/results.h"

namespace dxgkit::tool {
namespace campaign {
namespace {

namespace fs = std::filesystem;

constexpr runtime::DurationNs kShowEvery = runtime::kSecond;
/// A task should take longer than its start costs: some 20 s of one processor.
constexpr uint64_t kSeedsOfShard[] = {5000, 20, 20};  // by work
constexpr uint64_t kShardsPerProcessor = 4;
/// As many as Slurm takes in an array without further settings.
constexpr uint64_t kShardsOwnChoice = 1000;

std::string own_program() {
  const Version own = version();
  return fmt::format("dxgkit {} ({})", own.text, own.commit);
}

uint32_t shards_for(Work work, uint64_t seeds) {
  const uint64_t each = kSeedsOfShard[static_cast<size_t>(work)];
  const uint64_t wanted =
      std::max((seeds - 1) / each + 1, kShardsPerProcessor * sim::workers_for(0));
  return static_cast<uint32_t>(std::min({wanted, seeds, kShardsOwnChoice}));
}

/// One line that is written over and over.
class Line {
 public:
  void show(const std::string& text) {
    if (!shown_) return;
    wipe();
    fmt::print(stderr, "{}", text);
    std::fflush(stderr);
    wide_ = text.size();
  }
  void wipe() {
    if (wide_ != 0) fmt::print(stderr, "\r{}\r", std::string(wide_, ' '));
    wide_ = 0;
  }

 private:
  const bool shown_ = isatty(STDERR_FILENO) != 0;
  size_t wide_ = 0;
};

/// Runs the first seed, to see that the command can, and what its results say of its worlds.
std::expected<std::string, std::string> try_out(const Folder& folder, Manifest manifest) {
  manifest.seeds.last = manifest.seeds.first;
  manifest.shards = 1;
  const std::string scratch = fmt::format("{}/trial.{}", folder.running(), getpid());
  if (manifest.work != Work::kSim) {
    manifest.worlds = fmt::format(" {} {}", kWorkNames[static_cast<size_t>(manifest.work)],
                                  shell_word(manifest.driver));
    for (const std::string& word : manifest.options) manifest.worlds += " " + shell_word(word);
  }
  const std::string database = scratch + ".sqlite", log = scratch + ".log";
  const auto clean = [&] {
    std::error_code ignored;
    for (const std::string& path : {database, database + "-journal", log, scratch + ".report",
                                    scratch + ".found", scratch + ".small"})
      fs::remove_all(path, ignored);
  };
  const auto done = run_shard_seeds({.manifest = manifest,
                                     .shard = 0,
                                     .scratch = scratch,
                                     .log = log,
                                     .found = folder.found(),
                                     .on_tick = [](ShardStore::Count) { return true; }});
  std::expected<std::string, std::string> worlds = std::unexpected(std::string());
  if (!done.has_value()) {
    const std::string said = last_line(log);
    worlds = std::unexpected(said.empty() ? done.error() : said);
  } else if (*done == SeedsEnd::kDone) {
    const auto results = Results::open_finished(database);
    worlds = results.has_value() ? std::expected<std::string, std::string>(results->worlds())
                                 : std::unexpected(results.error());
  }
  clean();
  return worlds;
}

class Run {
 public:
  Run(const CampaignOptions& options, Folder folder)
      : options_(options), folder_(std::move(folder)) {}
  int run();

 private:
  /// The exit code if there is nothing to run.
  std::optional<int> begin();
  std::optional<int> make();
  /// The first thing in which the campaign is not the one that the options ask for.
  std::optional<std::string> differs() const;
  std::expected<bool, std::string> round(Engine& engine, const std::vector<uint32_t>& shards,
                                         ShardStore& store);
  void tell_lost(const std::vector<uint32_t>& lost, uint32_t left);

  const CampaignOptions& options_;
  const Folder folder_;
  const std::unique_ptr<runtime::Runtime> clock_ = runtime::make_os_runtime();
  Manifest manifest_;
  Line line_;
};

std::optional<int> Run::make() {
  if (!options_.seeds.has_value())
    return bad_input(
        fmt::format("{}: no campaign is there, and --seeds A..B begins one", folder_.path));
  manifest_.program = own_program();
  for (size_t work = 0; work < std::size(kWorkNames); ++work)
    if (options_.work == kWorkNames[work]) manifest_.work = static_cast<Work>(work);
  manifest_.driver = options_.driver;
  if (manifest_.work != Work::kSim && manifest_.driver.empty()) manifest_.driver = "softgpu";
  manifest_.options = options_.passed;
  std::error_code error;
  manifest_.folder = fs::current_path(error).string();
  manifest_.seeds = *options_.seeds;
  const uint64_t seeds = manifest_.seeds.count();
  manifest_.shards = options_.shards == 0
                         ? shards_for(manifest_.work, seeds)
                         : static_cast<uint32_t>(std::min<uint64_t>(options_.shards, seeds));
  if (const auto seen = look_at_driver(manifest_); !seen.has_value())
    return bad_input(seen.error());
  // What is written must be read again.
  if (const auto read = parse_manifest(to_text(manifest_)); !read.has_value())
    return bad_input(fmt::format("a campaign cannot keep this: {}", read.error()));
  const bool had_folder = fs::exists(folder_.path, error);
  for (const std::string& path :
       {folder_.path, folder_.shards(), folder_.running(), folder_.logs(), folder_.found()}) {
    fs::create_directories(path, error);
    if (error) return not_written(fmt::format("{}: {}", path, error.message()));
  }
  const auto worlds = try_out(folder_, manifest_);
  if (!worlds.has_value()) {
    for (const std::string& path :
         {folder_.shards(), folder_.running(), folder_.logs(), folder_.found()})
      fs::remove(path, error);
    if (!had_folder) fs::remove(folder_.path, error);
    if (worlds.error().empty()) return kExitInterrupted;
    const std::string_view own = "dxgkit: ";
    const bool twice = worlds.error().starts_with(own);
    return bad_input(twice ? worlds.error().substr(own.size()) : worlds.error());
  }
  manifest_.worlds = *worlds;
  if (const auto written = write_file(folder_.manifest(), to_text(manifest_)); !written)
    return not_written(written.error());
  return std::nullopt;
}

std::optional<std::string> Run::differs() const {
  const auto is_other = [&](std::string_view what, const std::string& here,
                            const std::string& there) {
    return fmt::format("{}: a campaign is there whose {} '{}', and not '{}'", folder_.path, what,
                       there, here);
  };
  const auto range = [](const sim::SeedRange& seeds) {
    return fmt::format("{}..{}", seeds.first, seeds.last);
  };
  if (options_.seeds.has_value() && range(*options_.seeds) != range(manifest_.seeds))
    return is_other("seeds are", range(*options_.seeds), range(manifest_.seeds));
  const std::string work(kWorkNames[static_cast<size_t>(manifest_.work)]);
  if (!options_.work.empty() && options_.work != work)
    return is_other("work is", options_.work, work);
  if (!options_.driver.empty() && options_.driver != manifest_.driver)
    return is_other("driver is", options_.driver, manifest_.driver);
  if (options_.shards != 0 && options_.shards != manifest_.shards &&
      options_.shards < manifest_.seeds.count())
    return is_other("number of shards is", fmt::format("{}", options_.shards),
                    fmt::format("{}", manifest_.shards));
  if (!options_.passed.empty() && options_.passed != manifest_.options)
    return is_other("options are", fmt::format("{}", fmt::join(options_.passed, " ")),
                    fmt::format("{}", fmt::join(manifest_.options, " ")));
  return std::nullopt;
}

std::optional<int> Run::begin() {
  std::error_code error;
  if (!fs::exists(folder_.manifest(), error)) {
    if (const auto code = make()) return code;
  } else {
    auto manifest = open_campaign(folder_);
    if (!manifest.has_value()) return bad_input(manifest.error());
    manifest_ = std::move(*manifest);
    if (const auto why = differs()) return bad_input(*why);
    if (const auto why = why_not_here(manifest_, own_program())) return bad_input(*why);
  }
  fs::remove(folder_.stop(), error);
  return std::nullopt;
}

std::expected<bool, std::string> Run::round(Engine& engine, const std::vector<uint32_t>& shards,
                                            ShardStore& store) {
  if (const auto begun = engine.begin(shards); !begun) return std::unexpected(begun.error());
  runtime::TimeNs shown = clock_->now() - kShowEvery;
  for (bool at_work = true; at_work;) {
    const auto still = engine.at_work();
    if (!still.has_value()) return std::unexpected(still.error());
    at_work = *still;
    if (clock_->now() - shown >= kShowEvery) {
      const Progress progress = progress_of(folder_, manifest_, store);
      line_.show(line_of(progress));
      shown = clock_->now();
      if (progress.stopped) return false;
      if (progress.whole == progress.shards) return true;
    }
    if (at_work && wait_or_interrupt(kLookMs)) return false;
  }
  return true;
}

void Run::tell_lost(const std::vector<uint32_t>& lost, uint32_t left) {
  line_.wipe();
  const std::string said = last_line(folder_.log_of(lost.front()));
  fmt::print(stderr, "dxgkit: {} lost, among them {}{}; {}\n",
             counted(lost.size(), lost.size() == 1 ? "task was" : "task were", "tasks were"),
             ShardStore::name_of(lost.front()), said.empty() ? "" : " (" + said + ")",
             left == 0 ? "no retry is left" : fmt::format("they run again"));
}

int Run::run() {
  if (const int code = options_.reports.check(); code != kExitDone) return code;
  runtime::catch_interrupts();
  if (const auto code = begin()) return *code;
  std::FILE* const out = options_.reports.text_stream();
  if (options_.engine == "none") {
    fmt::print(out, "{} for: dxgkit campaign shard {} --shard I/{}\n",
               counted(manifest_.shards, "shard"), shell_word(folder_.path), manifest_.shards);
    return kExitDone;
  }
  ShardStore store(folder_.path, manifest_);
  const EngineOptions engine_options{.folder = folder_,
                                     .manifest = manifest_,
                                     .jobs = options_.jobs,
                                     .scratch = options_.scratch,
                                     .slurm_options = options_.slurm_options};
  const std::unique_ptr<Engine> engine =
      options_.engine == "slurm" ? slurm_engine(engine_options) : local_engine(engine_options);
  std::optional<std::string> trouble;
  bool whole = false, ended = false;
  for (uint32_t left = options_.retries + 1; left != 0 && !ended && !trouble.has_value(); --left) {
    const std::vector<uint32_t> missing = store.missing();
    whole = missing.empty();
    if (whole) break;
    if (left <= options_.retries) tell_lost(missing, left);
    const auto done = round(*engine, missing, store);
    if (!done.has_value()) trouble = done.error();
    ended = done.has_value() && !*done;
  }
  line_.wipe();
  const std::vector<uint32_t> missing = store.missing();
  if (ended && runtime::interrupted() && engine->lives_on()) {
    fmt::print(out, "the tasks go on: `dxgkit campaign status {0}`, `dxgkit campaign stop {0}`\n",
               shell_word(folder_.path));
    return kExitInterrupted;
  }
  engine->stop();
  if (trouble.has_value()) {
    fmt::print(stderr, "dxgkit: {}\n", *trouble);
    return kExitFailed;
  }
  if (!ended && !missing.empty()) tell_lost(missing, 0);
  for (const Running& one : running_tasks(folder_, manifest_))
    if (missing.empty()) remove_traces(folder_, one.shard, one.where);
  const auto merged = store.merge(folder_.merged());
  if (!merged.has_value()) return not_written(merged.error());
  fmt::print(out, "{}", text_of(*merged, manifest_));
  if (ended)
    fmt::print(out, "stopped: `dxgkit campaign run {}` goes on\n", shell_word(folder_.path));
  if (!write_output(options_.reports.json, json_of(*merged, manifest_))) return kExitNotWritten;
  if (ended) return kExitInterrupted;
  return is_clean(*merged, manifest_) ? kExitDone : kExitFailed;
}

int status(const CampaignOptions& options, const Folder& folder, const Manifest& manifest) {
  ShardStore store(folder.path, manifest);
  const Progress progress = progress_of(folder, manifest, store);
  fmt::print(options.reports.text_stream(), "{}", text_of(progress, manifest));
  return write_output(options.reports.json, json_of(progress, manifest)) ? kExitDone
                                                                         : kExitNotWritten;
}

int stop(const Folder& folder) {
  if (const auto written = write_file(folder.stop(), ""); !written)
    return not_written(written.error());
  std::error_code error;
  if (!fs::exists(folder.jobs(), error)) {
    fmt::print("its tasks end within seconds\n");
    return kExitDone;
  }
  const auto cancelled = cancel_slurm_jobs(folder);
  if (!cancelled.has_value()) {
    fmt::print(stderr, "dxgkit: tasks end by themselves, and jobs were not cancelled: {}\n",
               cancelled.error());
    return kExitFailed;
  }
  fmt::print("{} cancelled\n", counted(*cancelled, "job"));
  return kExitDone;
}

int report(const CampaignOptions& options, const Folder& folder, const Manifest& manifest) {
  ShardStore store(folder.path, manifest);
  const auto merged = store.merge(folder.merged());
  if (!merged.has_value()) return not_written(merged.error());
  fmt::print(options.reports.text_stream(), "{}", text_of(*merged, manifest));
  if (!write_output(options.reports.json, json_of(*merged, manifest))) return kExitNotWritten;
  return is_clean(*merged, manifest) ? kExitDone : kExitFailed;
}

}  // namespace
}  // namespace campaign

int campaign_command(const CampaignOptions& options) {
  std::error_code error;
  const auto path = std::filesystem::absolute(options.folder, error).lexically_normal();
  if (error) return bad_input(fmt::format("{}: {}", options.folder, error.message()));
  const campaign::Folder folder{path.string()};
  if (options.action == "run") return campaign::Run(options, folder).run();
  if (options.action == "shard")
    return campaign::shard_command(
        folder, {.shard = options.shard, .scratch = options.scratch, .again = options.again},
        campaign::own_program());
  const auto manifest = campaign::open_campaign(folder);
  if (!manifest.has_value()) return bad_input(manifest.error());
  if (options.action == "stop") return campaign::stop(folder);
  if (const int code = options.reports.check(); code != kExitDone) return code;
  if (options.action == "status") return campaign::status(options, folder, *manifest);
  return campaign::report(options, folder, *manifest);
}

}  // namespace dxgkit::tool
