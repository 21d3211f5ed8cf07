#include "tools/dxgkit/campaign/shard_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/spelling.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/sim/results.h"

namespace dxgkit::tool::campaign {
namespace {

namespace fs = std::filesystem;

/// Files with other results of one shard that are looked at.
constexpr size_t kOthersMost = 100;

/// What differs between two rows of a seed, in a line.
std::string line_of(const sim::SeedResult& result) {
  std::string text = fmt::format("trace {:016x}, ", result.trace_hash);
  text += result.failure.empty() ? "passed" : "failed: " + result.failure;
  std::ranges::replace(text, '\n', ' ');
  constexpr size_t kMost = 300;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return printable(text);
}

bool same(const sim::SeedResult& a, const sim::SeedResult& b) {
  return a.seed == b.seed && a.trace_hash == b.trace_hash && a.died == b.died &&
         a.failure == b.failure && std::memcmp(&a.counters, &b.counters, sizeof(a.counters)) == 0;
}

std::string system_text(const std::string& path) {
  return fmt::format("{}: {}", path, std::strerror(errno));
}

/// The file's bytes are on the disk, or the reason.
std::optional<std::string> synchronise(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = file >= 0 && fsync(file) == 0;
  std::optional<std::string> why;
  if (!done) why = system_text(path);
  if (file >= 0) close(file);
  return why;
}

/// Gives a file a name, unless there is a file of that name, whoever else tries. False: errno.
bool name_once(const std::string& from, const std::string& to) {
  if (link(from.c_str(), to.c_str()) == 0) return unlink(from.c_str()) == 0;
  const bool has_links = errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS;
  return !has_links &&
         renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0;
}

/// A name for files that no other process has.
std::string own_name() {
  char host[65] = {};
  static_cast<void>(gethostname(host, sizeof(host) - 1));
  return fmt::format("{}.{}", host, getpid());
}

/// Renames a file to `base`.N`end`, a name that was free. The name; empty: the system refused.
std::string rename_to_free(const std::string& path, const std::string& base, std::string_view end) {
  constexpr int kNamesMost = 1000;
  for (int i = 1; i <= kNamesMost; ++i) {
    const std::string to = fmt::format("{}.{}{}", base, i, end);
    int done = renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
    // Not every file system can: there a name is taken as free if it was so a moment ago.
    const bool can = done == 0 || (errno != EINVAL && errno != ENOSYS);
    if (!can && access(to.c_str(), F_OK) != 0) done = std::rename(path.c_str(), to.c_str());
    if (done == 0) return to;
    if (can && errno != EEXIST) return {};
  }
  errno = EEXIST;
  return {};
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out(text);
  unsigned char before = 0;
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    const bool second_set = before == 0xC2 && byte >= 0x80 && byte < 0xA0;  // in UTF-8
    if ((byte < 0x20 && c != '\n') || byte == 0x7F || second_set) c = '?';
    before = byte;
  }
  return out;
}

ShardStore::ShardStore(std::string folder, const Manifest& manifest)
    : folder_(std::move(folder) + "/shards"), manifest_(manifest), whole_(manifest.shards) {}

std::string ShardStore::name_of(uint32_t shard) { return fmt::format("{:07}", shard + 1); }

std::string ShardStore::path_of(uint32_t shard) const {
  return fmt::format("{}/{}.sqlite", folder_, name_of(shard));
}

std::optional<std::string> ShardStore::read(
    uint32_t shard, const std::string& path,
    const std::function<void(const sim::SeedResult&)>& take) const {
  const auto results = Results::open_finished(path);
  if (!results.has_value()) return results.error();
  const auto refuse = [&](const std::string& why) { return fmt::format("{}: {}", path, why); };
  if (results->worlds() != manifest_.worlds)
    return refuse(fmt::format("its worlds are '{}', and the campaign's are '{}'", results->worlds(),
                              manifest_.worlds));
  uint64_t seeds = 0;
  std::optional<uint64_t> strange;
  const auto broken = results->each([&](const sim::SeedResult& result) {
    if (!strange.has_value() && !has_seed(manifest_, shard, result.seed)) strange = result.seed;
    ++seeds;
  });
  if (broken.has_value()) return refuse(*broken);
  if (strange.has_value())
    return refuse(fmt::format("seed {} is not one of shard {}", *strange, shard + 1));
  if (const uint64_t wanted = seeds_of(manifest_, shard); seeds != wanted)
    return refuse(fmt::format("it has {} of {}", seeds, counted(wanted, "seed")));
  const auto gone = results->each(take);
  return gone.has_value() ? std::optional(refuse(*gone)) : std::nullopt;
}

bool ShardStore::is_whole(uint32_t shard) {
  if (whole_[shard].has_value()) return true;
  if (access(path_of(shard).c_str(), F_OK) != 0) return false;
  Count count;
  const auto why = read(shard, path_of(shard), [&](const sim::SeedResult& result) {
    ++count.seeds;
    count.failed += result.failure.empty() ? 0 : 1;
  });
  if (!why.has_value()) whole_[shard] = count;
  return !why.has_value();
}

ShardStore::Count ShardStore::count(uint32_t shard) {
  return is_whole(shard) ? *whole_[shard] : Count{};
}

std::string ShardStore::why_refused(uint32_t shard) const {
  if (access(path_of(shard).c_str(), F_OK) != 0 && errno == ENOENT) return {};
  return read(shard, path_of(shard), [](const sim::SeedResult&) {}).value_or(std::string());
}

std::vector<uint32_t> ShardStore::missing() {
  std::vector<uint32_t> all;
  for (uint32_t shard = 0; shard < manifest_.shards; ++shard)
    if (!is_whole(shard)) all.push_back(shard);
  return all;
}

std::expected<std::string, std::string> ShardStore::put_aside(uint32_t shard) {
  const std::string path = path_of(shard);
  const std::string base = fmt::format("{}/{}.{}", folder_, name_of(shard), own_name());
  std::string to = rename_to_free(path, base, ".refused");
  if (to.empty()) return std::unexpected(system_text(path));
  return to;
}

std::expected<ShardStore::Commit, std::string> ShardStore::commit(uint32_t shard,
                                                                  const std::string& database) {
  auto results = Results::open(database);
  if (!results.has_value()) return std::unexpected(results.error());
  const std::string part = fmt::format("{}/{}.{}.part", folder_, name_of(shard), own_name());
  std::error_code ignored;
  fs::remove(part, ignored);  // of a process with the same number, long ago
  const auto refuse = [&](const std::string& why) {
    fs::remove(part, ignored);
    return std::unexpected(why);
  };
  if (const auto why = results->write_plainly(part)) return refuse(*why);
  if (const auto why = read(shard, part, [](const sim::SeedResult&) {})) return refuse(*why);
  if (const auto why = synchronise(part)) return refuse(*why);
  const std::string path = path_of(shard);
  if (name_once(part, path)) {
    if (const auto why = synchronise(folder_)) return std::unexpected(*why);
    return Commit::kKept;
  }
  if (errno != EEXIST) return refuse(system_text(path));
  const auto mine = read_file(part), there = read_file(path);
  if (!mine.has_value()) return refuse(mine.error());
  if (!there.has_value()) return refuse(there.error());
  if (*mine == *there) {
    fs::remove(part, ignored);
    return Commit::kSame;
  }
  if (!is_whole(shard)) return refuse(why_refused(shard));
  const std::string base = fmt::format("{}/{}.{}", folder_, name_of(shard), own_name());
  if (rename_to_free(part, base, ".differs").empty()) return refuse(system_text(base));
  return Commit::kDiffers;
}

std::vector<std::string> ShardStore::other_results(uint32_t shard) const {
  std::vector<std::string> all;
  const std::string begin = name_of(shard) + ".";
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(begin) && name.ends_with(".differs") && all.size() < kOthersMost)
      all.push_back(at->path().string());
  }
  std::ranges::sort(all);
  return all;
}

std::expected<Merged, std::string> ShardStore::merge(const std::string& out) {
  const std::string all = fmt::format("{}.{}.all", out, own_name());
  const std::string part = fmt::format("{}.{}.part", out, own_name());
  std::error_code ignored;
  const auto clean = [&] {
    fs::remove(all, ignored);
    fs::remove(all + "-journal", ignored);
    fs::remove(part, ignored);
  };
  clean();
  const auto refuse = [&](const std::string& why) {
    clean();
    return std::unexpected(why);
  };
  Merged merged;
  auto into = Results::open(all, manifest_.worlds);
  if (!into.has_value()) return refuse(into.error());
  for (uint32_t shard = 0; shard < manifest_.shards; ++shard) {
    if (!is_whole(shard)) {
      if (const std::string why = why_refused(shard); !why.empty()) merged.refused.push_back(why);
      continue;
    }
    std::map<uint64_t, Conflict> conflicts;
    for (const std::string& path : other_results(shard)) {
      std::map<uint64_t, sim::SeedResult> others;
      const auto why =
          read(shard, path, [&](const sim::SeedResult& one) { others[one.seed] = one; });
      if (why.has_value()) {
        merged.refused.push_back(*why);
        continue;
      }
      const auto gone = read(shard, path_of(shard), [&](const sim::SeedResult& one) {
        const sim::SeedResult& other = others[one.seed];
        if (!same(one, other)) conflicts[one.seed] = {one.seed, line_of(one), line_of(other)};
      });
      if (gone.has_value()) return refuse(*gone);
    }
    std::optional<std::string> trouble;
    const auto gone = read(shard, path_of(shard), [&](const sim::SeedResult& one) {
      if (conflicts.contains(one.seed) || trouble.has_value()) return;
      trouble = into->put(one);
      ++merged.seeds;
      ++merged.report.ended;
      merged.report.counters.add(one.counters);
      if (!one.failure.empty())
        merged.report.failures.push_back({one.seed, printable(one.failure), {}});
    });
    if (gone.has_value()) return refuse(*gone);
    if (trouble.has_value()) return refuse(fmt::format("{}: {}", out, *trouble));
    ++merged.shards;
    for (auto& [seed, conflict] : conflicts) merged.conflicts.push_back(std::move(conflict));
  }
  std::ranges::sort(merged.report.failures, {}, &sim::SeedFailure::seed);
  std::ranges::sort(merged.conflicts, {}, &Conflict::seed);
  if (const auto why = into->write_plainly(part)) return refuse(fmt::format("{}: {}", out, *why));
  if (const auto why = synchronise(part)) return refuse(*why);
  if (std::rename(part.c_str(), out.c_str()) != 0) return refuse(system_text(out));
  clean();
  return merged;
}

}  // namespace dxgkit::tool::campaign
