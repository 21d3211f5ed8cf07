#include "tools/dxgkit/campaign/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/companion_file.h"
#include "base/spelling.h"
#include "runtime/interrupt.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/campaign/process.h"
#include "tools/dxgkit/campaign/seed_report.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/sim/results.h"

namespace dxgkit::tool::campaign {
namespace {

namespace fs = std::filesystem;

constexpr runtime::DurationNs kTellEvery = runtime::kSecond;
constexpr int kEndPatienceMs = 10'000;
constexpr size_t kNoteBytesMost = 4096;
constexpr uint64_t kNumberMost = uint64_t{1} << 40;  // of a note: sums do not wrap
constexpr size_t kTasksMost = 10'000;                // that are listed

std::string own_place() {
  char host[65] = {};
  static_cast<void>(gethostname(host, sizeof(host) - 1));
  std::string name(host);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain) c = '-';
  }
  return fmt::format("{}.{}", name, getpid());
}

/// "0000007.HOST.4711.json": the shard and the place of a task's note.
std::optional<std::pair<uint32_t, std::string>> read_name(const std::string& name,
                                                          uint32_t shards) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos || !name.ends_with(".json") || dot + 6 >= name.size())
    return std::nullopt;
  uint32_t shard = 0;
  const auto [at, error] = std::from_chars(name.data(), name.data() + dot, shard);
  if (error != std::errc{} || at != name.data() + dot || shard == 0 || shard > shards)
    return std::nullopt;
  return std::pair(shard - 1, printable(name.substr(dot + 1, name.size() - dot - 6)));
}

/// The file system's now, so that clocks of several machines do not matter. Nothing: it takes no
/// files.
std::optional<int64_t> now_of(const Folder& folder) {
  const std::string path = fmt::format("{}/.now.{}", folder.running(), own_place());
  std::error_code ignored;
  fs::remove(path, ignored);
  if (!write_file(path, "").has_value()) return std::nullopt;
  struct stat facts {};
  const bool seen = stat(path.c_str(), &facts) == 0;
  fs::remove(path, ignored);
  return seen ? std::optional<int64_t>(facts.st_mtim.tv_sec) : std::nullopt;
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

/// Ends a process in its own way; its outputs are not wanted.
void end(Process& process) {
  process.signal(SIGTERM);
  for (int ms = 0; ms < kEndPatienceMs && !process.end().has_value(); ms += kLookMs)
    static_cast<void>(wait_or_interrupt(kLookMs));
}

std::vector<std::string> with_program(std::vector<std::string> words) {
  words.insert(words.begin(), own_program());
  return words;
}

/// The options that choose a seed of verify and fuzz.
std::vector<std::string> of_seed(Work work, uint64_t seed) {
  if (work == Work::kFuzz) return {"--seeds", fmt::format("{0}..{0}", seed)};
  return {"--mode", "sim", "--seed", fmt::format("{}", seed)};
}

/// Copies a reproducer, unless there is one of the name. Its command names the file itself.
void keep_reproducer(const std::string& from, const std::string& to) {
  auto text = read_file(from);
  if (!text.has_value()) return;
  const std::string own = shell_quoted(from);
  if (const size_t at = text->find(own); at != std::string::npos)
    text->replace(at, own.size(), shell_quoted(to));
  const std::string part = fmt::format("{}.{}", to, own_place());
  std::error_code ignored;
  // A link, so that of two tasks the first one keeps its file.
  if (write_file(part, *text).has_value()) fs::create_hard_link(part, to, ignored);
  fs::remove(part, ignored);
}

/// One run of shards' seeds: processes, and the notes in between.
class SeedsAtWork {
 public:
  explicit SeedsAtWork(const SeedsRun& run)
      : run_(run), database_(run.scratch + ".sqlite"), told_(clock_->now()) {}

  std::expected<SeedsEnd, std::string> simulate();
  /// A process for each seed.
  std::expected<SeedsEnd, std::string> run_each();

 private:
  /// Runs a command to its end. Its exit code; nothing if it was ended.
  std::expected<std::optional<int>, std::string> run(
      std::vector<std::string> words, const std::function<ShardStore::Count()>& count) {
    auto process =
        Process::start(with_program(std::move(words)), run_.manifest.folder, run_.log, SIGKILL);
    if (!process.has_value()) return std::unexpected(process.error());
    for (;;) {
      if (const auto code = process->end()) return code;
      const bool interrupted = wait_or_interrupt(kLookMs);
      if (!interrupted && (clock_->now() - told_ < kTellEvery || tell(count()))) continue;
      end(*process);
      return std::nullopt;
    }
  }
  /// `work` with this seed. Its exit code; nothing if it was ended.
  std::expected<std::optional<int>, std::string> run_one(uint64_t seed,
                                                         const std::vector<std::string>& more,
                                                         ShardStore::Count count);
  std::expected<std::optional<sim::SeedResult>, std::string> verify(uint64_t seed,
                                                                    ShardStore::Count count);
  std::expected<std::optional<sim::SeedResult>, std::string> fuzz(uint64_t seed,
                                                                  ShardStore::Count count);
  bool tell(ShardStore::Count count) {
    told_ = clock_->now();
    return run_.on_tick(count);
  }

  const SeedsRun& run_;
  const std::string database_, report_ = run_.scratch + ".report";
  const std::unique_ptr<runtime::Runtime> clock_ = runtime::make_os_runtime();
  runtime::TimeNs told_;
};

std::expected<SeedsEnd, std::string> SeedsAtWork::simulate() {
  const auto count = [&] {
    const auto results = Results::open(database_);
    const auto rows = results.has_value() ? results->count() : std::unexpected(results.error());
    return rows.has_value() ? ShardStore::Count{rows->rows, rows->failed} : ShardStore::Count{};
  };
  const auto code = run(sim_words(run_.manifest, run_.shard, database_), count);
  if (!code.has_value()) return std::unexpected(code.error());
  if (!code->has_value()) return SeedsEnd::kStopped;
  if (**code == kExitDone || **code == kExitFailed) return SeedsEnd::kDone;
  return std::unexpected(fmt::format("sim ended with code {}", **code));
}

std::expected<std::optional<int>, std::string> SeedsAtWork::run_one(
    uint64_t seed, const std::vector<std::string>& more, ShardStore::Count count) {
  const Manifest& manifest = run_.manifest;
  std::vector<std::string> words{std::string(kWorkNames[static_cast<size_t>(manifest.work)]),
                                 manifest.driver};
  words.insert(words.end(), manifest.options.begin(), manifest.options.end());
  for (std::string& word : of_seed(manifest.work, seed)) words.push_back(std::move(word));
  words.insert(words.end(), more.begin(), more.end());
  words.push_back("--json=" + report_);
  return run(std::move(words), [&] { return count; });
}

std::expected<std::optional<sim::SeedResult>, std::string> SeedsAtWork::verify(
    uint64_t seed, ShardStore::Count count) {
  const auto code = run_one(seed, {}, count);
  if (!code.has_value()) return std::unexpected(code.error());
  if (!code->has_value()) return std::nullopt;
  return verified_seed(seed, **code, read_file(report_).value_or(""));
}

std::expected<std::optional<sim::SeedResult>, std::string> SeedsAtWork::fuzz(
    uint64_t seed, ShardStore::Count count) {
  const std::string big = run_.scratch + ".found", small = run_.scratch + ".small";
  const auto code = run_one(seed, {"--jobs", "1", "--tries", "0", "--out", big}, count);
  if (!code.has_value()) return std::unexpected(code.error());
  if (!code->has_value()) return std::nullopt;
  const auto fuzzed = fuzzed_seed(seed, **code, read_file(report_).value_or(""));
  if (!fuzzed.has_value()) return std::unexpected(fuzzed.error());
  // What another task has found is not made small again: that takes as long as many seeds.
  std::vector<std::string> fresh = fuzzed->files;
  std::erase_if(fresh, [&](const std::string& name) { return exists(run_.found + "/" + name); });
  if (!fresh.empty()) {
    const auto again = run_one(seed, {"--jobs", "1", "--out", small}, count);
    if (!again.has_value()) return std::unexpected(again.error());
    if (!again->has_value()) return std::nullopt;
  }
  std::error_code ignored;
  for (const std::string& name : fresh) {
    const std::string better = small + "/" + name;
    keep_reproducer(exists(better) ? better : big + "/" + name, run_.found + "/" + name);
  }
  for (const std::string& folder : {big, small}) fs::remove_all(folder, ignored);
  return fuzzed->result;
}

std::expected<SeedsEnd, std::string> SeedsAtWork::run_each() {
  const Manifest& manifest = run_.manifest;
  auto results = Results::open(database_, manifest.worlds);
  if (!results.has_value()) return std::unexpected(results.error());
  ShardStore::Count count;
  for (const uint64_t seeds = seeds_of(manifest, run_.shard); count.seeds < seeds;) {
    const uint64_t seed = manifest.seeds.first + count.seeds * manifest.shards + run_.shard;
    const auto result = manifest.work == Work::kFuzz ? fuzz(seed, count) : verify(seed, count);
    if (!result.has_value()) return std::unexpected(result.error());
    if (!result->has_value()) return SeedsEnd::kStopped;
    if (const auto trouble = results->put(**result)) return std::unexpected(*trouble);
    ++count.seeds;
    count.failed += (*result)->failure.empty() ? 0 : 1;
    std::error_code ignored;
    fs::remove(report_, ignored);
  }
  if (const auto trouble = results->flush()) return std::unexpected(*trouble);
  return SeedsEnd::kDone;
}

}  // namespace

std::string last_line(const std::string& path) {
  const auto text = read_file(path);
  if (!text.has_value()) return {};
  const size_t end = text->find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return {};
  const size_t before = text->find_last_of('\n', end);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  constexpr size_t kMost = 500;
  return printable(text->substr(begin, std::min(end + 1 - begin, kMost)));
}

std::vector<std::string> sim_words(const Manifest& manifest, uint32_t shard,
                                   const std::string& database) {
  std::vector<std::string> words{"sim"};
  if (!manifest.driver.empty()) words.push_back(manifest.driver);
  words.insert(words.end(), manifest.options.begin(), manifest.options.end());
  // One process, so that a campaign's tasks are what runs at once; and every seed, so that the
  // results do not depend on which seeds share a shard.
  const std::string rest[] = {
      "--seeds",    fmt::format("{}..{}", manifest.seeds.first, manifest.seeds.last),
      "--shard",    fmt::format("{}/{}", shard + 1, manifest.shards),
      "--jobs",     "1",
      "--failures", fmt::format("{}", UINT32_MAX),
      "--quiet",    "--db",
      database};
  words.insert(words.end(), std::begin(rest), std::end(rest));
  return words;
}

std::string replay_of(const Manifest& manifest, uint64_t seed) {
  if (manifest.work == Work::kSim) return fmt::format("dxgkit replay {}{}", seed, manifest.worlds);
  return fmt::format("dxgkit{} {}", manifest.worlds, fmt::join(of_seed(manifest.work, seed), " "));
}

std::expected<SeedsEnd, std::string> run_shard_seeds(const SeedsRun& run) {
  SeedsAtWork work(run);
  return run.manifest.work == Work::kSim ? work.simulate() : work.run_each();
}

std::vector<Running> running_tasks(const Folder& folder, const Manifest& manifest) {
  std::vector<Running> all;
  const auto now = now_of(folder);
  std::error_code error;
  for (fs::directory_iterator at(folder.running(), error), end;
       !error && at != end && all.size() < kTasksMost; at.increment(error)) {
    const auto name = read_name(at->path().filename().string(), manifest.shards);
    struct stat facts {};
    if (!name.has_value() || stat(at->path().c_str(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
        facts.st_size > static_cast<off_t>(kNoteBytesMost))
      continue;
    const auto text = read_file(at->path().string());
    const auto json = nlohmann::json::parse(text.value_or(""), nullptr, false);
    if (!json.is_object()) continue;
    const auto number = [&](const char* key) {
      const auto found = json.find(key);
      const bool is_one = found != json.end() && found->is_number_unsigned();
      return std::min<uint64_t>(is_one ? found->get<uint64_t>() : 0, kNumberMost);
    };
    Running one;
    one.shard = name->first;
    one.where = name->second;
    one.ended = std::min(number("ended"), seeds_of(manifest, one.shard));
    one.failed = std::min(number("failed"), one.ended);
    one.rate_per_hour = number("per_hour");
    if (now.has_value())
      one.silent_s = static_cast<uint64_t>(std::max<int64_t>(*now - facts.st_mtim.tv_sec, 0));
    all.push_back(std::move(one));
  }
  std::ranges::sort(all, {}, [](const Running& one) { return std::pair(one.shard, one.where); });
  return all;
}

void remove_traces(const Folder& folder, uint32_t shard, const std::string& where) {
  std::error_code ignored;
  const std::string begin = ShardStore::name_of(shard) + "." + where;
  for (const char* const end :
       {".json", ".sqlite", ".sqlite-journal", ".report", ".found", ".small"})
    fs::remove_all(folder.running() + "/" + begin + end, ignored);
}

std::expected<Manifest, std::string> open_campaign(const Folder& folder) {
  const auto text = read_file(folder.manifest());
  if (!text.has_value())
    return std::unexpected(fmt::format("no campaign: {}", printable(text.error())));
  auto manifest = parse_manifest(*text);
  if (!manifest.has_value())
    return std::unexpected(fmt::format("{}: {}", folder.manifest(), printable(manifest.error())));
  return manifest;
}

std::optional<std::string> why_not_here(const Manifest& manifest, const std::string& program) {
  if (manifest.program != program)
    return fmt::format("the campaign is one of {}, and this program is {}: results could differ",
                       manifest.program, program);
  Manifest now = manifest;
  if (const auto seen = look_at_driver(now); !seen.has_value()) return seen.error();
  if (now.driver_bytes != manifest.driver_bytes || now.driver_crc32 != manifest.driver_crc32)
    return fmt::format("{}: the driver is not the one that the campaign began with",
                       manifest.driver);
  return std::nullopt;
}

int shard_command(const Folder& folder, const ShardOptions& options, const std::string& program) {
  const auto asked = parse_shard(options.shard);
  if (!asked.has_value()) return bad_input(asked.error());
  const auto manifest = open_campaign(folder);
  if (!manifest.has_value()) return bad_input(manifest.error());
  if (asked->shards != manifest->shards)
    return bad_input(fmt::format("--shard {}: the campaign has {}", options.shard,
                                 counted(manifest->shards, "shard")));
  if (const auto why = why_not_here(*manifest, program)) return bad_input(*why);
  const uint32_t shard = asked->index;
  ShardStore store(folder.path, *manifest);
  runtime::catch_interrupts();
  if (!options.again && store.is_whole(shard)) {
    fmt::print("shard {}: its results are there already\n", options.shard);
    return kExitDone;
  }
  if (exists(folder.stop())) {
    fmt::print("shard {}: the campaign is stopped\n", options.shard);
    return kExitInterrupted;
  }
  if (!store.why_refused(shard).empty()) {
    const auto aside = store.put_aside(shard);
    if (!aside.has_value()) return not_written(aside.error());
  }
  const std::string place = own_place();
  const std::string name = ShardStore::name_of(shard) + "." + place;
  const std::string note = fmt::format("{}/{}.json", folder.running(), name);
  const std::string scratch =
      (options.scratch.empty() ? folder.running() : options.scratch) + "/" + name;
  const auto clean = [&] {
    std::error_code ignored;
    remove_traces(folder, shard, place);
    for (const char* const end : {".sqlite", ".sqlite-journal", ".report", ".found", ".small"})
      fs::remove_all(scratch + end, ignored);
  };
  clean();
  const std::unique_ptr<runtime::Runtime> clock = runtime::make_os_runtime();
  const runtime::TimeNs began = clock->now();
  const auto tell = [&](ShardStore::Count count) {
    const double hours = static_cast<double>(clock->now() - began) / 3600e9;
    const nlohmann::ordered_json json{
        {"ended", count.seeds},
        {"failed", count.failed},
        {"per_hour",
         static_cast<uint64_t>(static_cast<double>(count.seeds) / std::max(hours, 1e-9))}};
    static_cast<void>(write_file(note, json.dump()));
    return !exists(folder.stop());
  };
  tell({});
  // What the commands print goes where this process prints: to the task's log.
  const auto ended = run_shard_seeds({.manifest = *manifest,
                                      .shard = shard,
                                      .scratch = scratch,
                                      .log = std::string(kOwnOutput),
                                      .found = folder.found(),
                                      .on_tick = tell});
  if (ended.has_value() && *ended == SeedsEnd::kStopped) {
    clean();
    fmt::print("shard {}: stopped\n", options.shard);
    return kExitInterrupted;
  }
  auto kept =
      ended.has_value() ? store.commit(shard, scratch + ".sqlite") : std::unexpected(ended.error());
  clean();
  if (!kept.has_value()) {
    fmt::print("shard {}: no results: {}\n", options.shard, printable(kept.error()));
    return kExitFailed;
  }
  constexpr std::string_view kHow[] = {"kept", "the same as another task's",
                                       "other results than another task's: not deterministic"};
  fmt::print("shard {}: {}\n", options.shard, kHow[static_cast<size_t>(*kept)]);
  return *kept == ShardStore::Commit::kDiffers ? kExitFailed : kExitDone;
}

}  // namespace dxgkit::tool::campaign
