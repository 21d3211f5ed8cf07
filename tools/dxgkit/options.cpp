#include "tools/dxgkit/options.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/arithmetic.h"
#include "tools/dxgkit/picture.h"

namespace dxgkit::tool {
namespace {

/// A whole decimal number, no sign, no spaces.
std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

std::expected<uint64_t, std::string> parse_bytes(std::string_view text) {
  struct Suffix {
    std::string_view name;
    uint64_t factor;
  };
  static constexpr std::array<Suffix, 10> kSuffixes{{{"KiB", 1ULL << 10},
                                                     {"MiB", 1ULL << 20},
                                                     {"GiB", 1ULL << 30},
                                                     {"K", 1ULL << 10},
                                                     {"M", 1ULL << 20},
                                                     {"G", 1ULL << 30},
                                                     {"k", 1ULL << 10},
                                                     {"m", 1ULL << 20},
                                                     {"g", 1ULL << 30},
                                                     {"", 1}}};
  for (const Suffix& suffix : kSuffixes) {
    if (!text.ends_with(suffix.name)) continue;
    const std::optional<uint64_t> number =
        parse_number(text.substr(0, text.size() - suffix.name.size()));
    uint64_t bytes = 0;
    if (!number.has_value() || !checked_mul(*number, suffix.factor, &bytes)) break;
    return bytes;
  }
  return std::unexpected(
      fmt::format("'{}' is not a number of bytes (like 67108864, 64M or 1GiB)", text));
}

std::expected<Mode, std::string> parse_mode(std::string_view text) {
  if (text == "os") return Mode::kOs;
  if (text == "sim") return Mode::kSim;
  return std::unexpected(fmt::format("'{}' is not a mode: os or sim", text));
}

std::expected<uint64_t, std::string> parse_seed(std::string_view text) {
  const std::optional<uint64_t> seed = parse_number(text);
  if (!seed.has_value())
    return std::unexpected(
        fmt::format("'{}' is not a seed: a whole number from 0 to 2^64 - 1", text));
  return *seed;
}

std::expected<std::pair<uint32_t, uint32_t>, std::string> parse_size(std::string_view text) {
  const size_t cross = text.find('x');
  if (cross != std::string_view::npos) {
    const std::optional<uint64_t> width = parse_number(text.substr(0, cross));
    const std::optional<uint64_t> height = parse_number(text.substr(cross + 1));
    const auto fits = [](const std::optional<uint64_t>& side) {
      return side.has_value() && *side >= 1 && *side <= kPictureSideMax;
    };
    if (fits(width) && fits(height)) {
      if (*width * *height > kPicturePixelsMax) {
        return std::unexpected(
            fmt::format("{} pixels are too many: at most {}", text, kPicturePixelsMax));
      }
      return std::pair(static_cast<uint32_t>(*width), static_cast<uint32_t>(*height));
    }
  }
  return std::unexpected(
      fmt::format("'{}' is not a size (WIDTHxHEIGHT, each 1..{})", text, kPictureSideMax));
}

std::expected<SeedRange, std::string> parse_seeds(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots != std::string_view::npos) {
    const std::optional<uint64_t> first = parse_number(text.substr(0, dots));
    const std::optional<uint64_t> last = parse_number(text.substr(dots + 2));
    if (first.has_value() && last.has_value()) {
      if (*first > *last)
        return std::unexpected(fmt::format("seeds {}: the first is above the last", text));
      if (*last - *first >= kSeedsMax)
        return std::unexpected(fmt::format("seeds {}: more than {}", text, kSeedsMax));
      return SeedRange{*first, *last};
    }
  }
  return std::unexpected(fmt::format("'{}' is not a range of seeds (FIRST..LAST)", text));
}

}  // namespace dxgkit::tool
