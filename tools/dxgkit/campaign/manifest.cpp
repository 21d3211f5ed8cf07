#include "tools/dxgkit/campaign/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "base/crc32.h"
#include "base/plain_text.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool::campaign {
namespace {

constexpr std::string_view kFormat = "dxgkit campaign 1";
constexpr size_t kTextMost = 1 << 20;
constexpr size_t kWordMost = 4096;
constexpr size_t kOptionsMost = 256;

/// What a hostile text lacks is an error with its name.
class Reader {
 public:
  explicit Reader(const nlohmann::json& json) : json_(json) {}

  std::string text(const char* key) {
    const nlohmann::json* const value = find(key);
    if (value == nullptr || !value->is_string()) return wrong(key, "a text");
    return word(key, value->get<std::string>());
  }
  uint64_t number(const char* key, uint64_t least, uint64_t most) {
    const nlohmann::json* const value = find(key);
    if (value == nullptr || !value->is_number_unsigned() || value->get<uint64_t>() < least ||
        value->get<uint64_t>() > most) {
      wrong(key, fmt::format("a number from {} to {}", least, most));
      return least;
    }
    return value->get<uint64_t>();
  }
  std::vector<std::string> texts(const char* key) {
    const nlohmann::json* const value = find(key);
    std::vector<std::string> all;
    const bool fits = value != nullptr && value->is_array() && value->size() <= kOptionsMost;
    if (!fits) wrong(key, "a list of texts");
    for (size_t i = 0; fits && i < value->size(); ++i) {
      const nlohmann::json& one = value->at(i);
      all.push_back(one.is_string() ? word(key, one.get<std::string>())
                                    : wrong(key, "a list of texts"));
    }
    return all;
  }
  const std::string& error() const { return error_; }

 private:
  const nlohmann::json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  std::string wrong(std::string_view key, std::string_view wanted) {
    if (error_.empty()) error_ = fmt::format("'{}' is not {}", key, wanted);
    return {};
  }
  std::string word(const char* key, std::string text) {
    const bool control = std::ranges::any_of(
        text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
    if (text.size() <= kWordMost && !control) return text;
    return wrong(key, fmt::format("a text of at most {} bytes in one line", kWordMost));
  }

  const nlohmann::json& json_;
  std::string error_;
};

}  // namespace

bool Manifest::operator==(const Manifest& other) const { return to_text(*this) == to_text(other); }

std::string to_text(const Manifest& manifest) {
  const nlohmann::ordered_json json{
      {"format", kFormat},
      {"program", manifest.program},
      {"work", kWorkNames[static_cast<size_t>(manifest.work)]},
      {"driver", manifest.driver},
      {"driver_bytes", manifest.driver_bytes},
      {"driver_crc32", manifest.driver_crc32},
      {"options", manifest.options},
      {"folder", manifest.folder},
      {"worlds", manifest.worlds},
      {"first_seed", manifest.seeds.first},
      {"last_seed", manifest.seeds.last},
      {"shards", manifest.shards},
  };
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::expected<Manifest, std::string> parse_manifest(std::string_view text) {
  if (text.size() > kTextMost)
    return std::unexpected(
        fmt::format("it has {} bytes, and {} are allowed", text.size(), kTextMost));
  if (const auto why = why_no_plain_text(text, 4)) return std::unexpected(*why);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::unexpected("it is no object of JSON");
  Reader read(json);
  if (const std::string format = read.text("format"); format != kFormat)
    return std::unexpected(
        fmt::format("its format is '{}', and this program's is '{}'", format, kFormat));
  Manifest manifest;
  manifest.program = read.text("program");
  const std::string work = read.text("work");
  const auto known = std::ranges::find(kWorkNames, work);
  if (known == std::end(kWorkNames))
    return std::unexpected(fmt::format("'{}' is no work of a campaign", work));
  manifest.work = static_cast<Work>(known - std::begin(kWorkNames));
  manifest.driver = read.text("driver");
  manifest.driver_bytes = read.number("driver_bytes", 0, UINT64_MAX);
  manifest.driver_crc32 = static_cast<uint32_t>(read.number("driver_crc32", 0, UINT32_MAX));
  manifest.options = read.texts("options");
  manifest.folder = read.text("folder");
  manifest.worlds = read.text("worlds");
  manifest.seeds.first = read.number("first_seed", 0, kSeedMost);
  manifest.seeds.last = read.number("last_seed", manifest.seeds.first, kSeedMost);
  const uint64_t between = manifest.seeds.last - manifest.seeds.first;
  const uint64_t most = between < kShardsMost ? between + 1 : kShardsMost;
  manifest.shards = static_cast<uint32_t>(read.number("shards", 1, most));
  if (!read.error().empty()) return std::unexpected(read.error());
  return manifest;
}

std::expected<Shard, std::string> parse_shard(std::string_view text) {
  const auto wrong = std::unexpected("--shard is I/N, I from 1 to N");
  const char* const end = text.data() + text.size();
  uint32_t index = 0, shards = 0;
  const auto [slash, error] = std::from_chars(text.data(), end, index);
  if (error != std::errc{} || slash == end || *slash != '/') return wrong;
  const auto [at, other] = std::from_chars(slash + 1, end, shards);
  if (other != std::errc{} || at != end || index == 0 || index > shards) return wrong;
  return Shard{index - 1, shards};
}

uint64_t seeds_of(const Manifest& manifest, uint32_t shard) {
  const uint64_t all = manifest.seeds.count();
  return all <= shard ? 0 : (all - shard - 1) / manifest.shards + 1;
}

bool has_seed(const Manifest& manifest, uint32_t shard, uint64_t seed) {
  return seed >= manifest.seeds.first && seed <= manifest.seeds.last &&
         (seed - manifest.seeds.first) % manifest.shards == shard;
}

std::expected<void, std::string> look_at_driver(Manifest& manifest) {
  manifest.driver_bytes = 0;
  manifest.driver_crc32 = 0;
  if (manifest.driver.empty() || is_named_driver(manifest.driver)) return {};
  const std::filesystem::path path = std::filesystem::path(manifest.folder) / manifest.driver;
  const auto bytes = read_file(path.string());
  if (!bytes.has_value()) return std::unexpected(bytes.error());
  manifest.driver_bytes = bytes->size();
  manifest.driver_crc32 = crc32(std::as_bytes(std::span(*bytes)));
  return {};
}

}  // namespace dxgkit::tool::campaign
