#include "tools/dxgkit/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "base/arithmetic.h"
#include "dxgk/verifier_switches.h"
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

std::expected<DeviceChoice, std::string> parse_device(std::string_view text) {
  using Kind = DeviceChoice::Kind;
  DeviceChoice choice;
  choice.text = text;
  if (text == "softgpu") return choice;
  if (text == "framebuffer" || text == "none") {
    choice.kind = text == "none" ? Kind::kNone : Kind::kFrameBuffer;
    return choice;
  }
  const auto wrong = [&](std::string_view why) {
    return std::unexpected(fmt::format(
        "'{}' is not a device: {} (softgpu[,standby=SIZE|all][,hibernate=SIZE|all], framebuffer, "
        "none or "
        "pci:VENDOR:DEVICE[,barN=SIZE...] with ids in hexadecimal)",
        text, why));
  };
  if (text.starts_with("softgpu,")) {
    for (std::string_view rest = text.substr(text.find(',') + 1);;) {
      const size_t length = std::min(rest.find(','), rest.size());
      const std::string_view part = rest.substr(0, length);
      const size_t equals = std::min(part.find('='), part.size());
      uint64_t* const keeps = part.substr(0, equals) == "standby" ? &choice.standby_keeps_bytes
                              : part.substr(0, equals) == "hibernate"
                                  ? &choice.hibernate_keeps_bytes
                                  : nullptr;
      if (keeps == nullptr || equals == part.size())
        return wrong("what survives is standby=SIZE or hibernate=SIZE, where SIZE may be 'all'");
      if (const std::string_view size = part.substr(equals + 1); size == "all") {
        *keeps = UINT64_MAX;
      } else {
        const std::expected<uint64_t, std::string> bytes = parse_bytes(size);
        if (!bytes.has_value()) return std::unexpected(bytes.error());
        *keeps = *bytes;
      }
      if (length == rest.size()) break;
      rest.remove_prefix(length + 1);
    }
    if (choice.hibernate_keeps_bytes > choice.standby_keeps_bytes)
      return wrong("hibernation keeps no more than standby");
    return choice;
  }
  constexpr std::string_view kPrefix = "pci:";
  if (!text.starts_with(kPrefix)) return wrong("there is none of that name");
  if (text.ends_with(',')) return wrong("it ends with a comma");
  choice.kind = Kind::kPci;
  std::string_view rest = text.substr(kPrefix.size());
  const auto take_id = [&](char end, uint16_t* id) {
    const size_t length = std::min(rest.find(end), rest.size());
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + length, *id, 16);
    const bool good = error == std::errc() && stop == rest.data() + length && length != 0;
    rest.remove_prefix(std::min(length + 1, rest.size()));
    return good;
  };
  if (!take_id(':', &choice.vendor_id)) return wrong("the vendor id is no number of 16 bits");
  if (!take_id(',', &choice.device_id)) return wrong("the device id is no number of 16 bits");
  uint32_t slots_used = 0;
  while (!rest.empty()) {
    const size_t length = std::min(rest.find(','), rest.size());
    const std::string_view bar = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    if (!bar.starts_with("bar") || bar.size() < 6 || bar[4] != '=' || bar[3] < '0' || bar[3] > '4')
      return wrong("a BAR is barN=SIZE with N from 0 to 4");
    const auto slot = static_cast<uint32_t>(bar[3] - '0');
    const std::expected<uint64_t, std::string> size = parse_bytes(bar.substr(5));
    if (!size.has_value()) return std::unexpected(size.error());
    if (!std::has_single_bit(*size) || *size < kPageBytes || *size > kRamBarBytesMax)
      return wrong("the size of a BAR is a power of two from 4K to 1G");
    // 64 bits wide: it takes two slots.
    if ((slots_used & (3U << slot)) != 0)
      return wrong("two BARs want the same slot (each takes two)");
    slots_used |= 3U << slot;
    choice.bars.push_back({slot, *size});
  }
  std::ranges::sort(choice.bars, {}, &DeviceChoice::RamBar::slot);
  return choice;
}

std::expected<Mode, std::string> parse_mode(std::string_view text) {
  if (text == "os") return Mode::kOs;
  if (text == "sim") return Mode::kSim;
  return std::unexpected(fmt::format("'{}' is not a mode: os or sim", text));
}

std::expected<MemoryModel, std::string> parse_model(std::string_view text) {
  if (text == "gpuva") return MemoryModel::kFourLevels;
  for (const MemoryModel model : {MemoryModel::kPatch, MemoryModel::kTwoLevels,
                                  MemoryModel::kFourLevels, MemoryModel::kLargePages}) {
    if (text == model_name(model)) return model;
  }
  return std::unexpected(fmt::format(
      "'{}' is not a memory model: patch, gpuva, gpuva:1 (two levels of page tables), gpuva:2 "
      "(four) or gpuva:3 (64 KiB pages)",
      text));
}

std::expected<HangChoice, std::string> parse_hang(std::string_view text) {
  constexpr std::array<std::string_view, 2> kEngines = {"3d", "copy"};  // by node
  const size_t colon = std::min(text.find(':'), text.size());
  const auto engine = std::ranges::find(kEngines, text.substr(0, colon));
  const uint64_t packet =
      colon == text.size() ? 0 : parse_number(text.substr(colon + 1)).value_or(0);
  if (engine == kEngines.end() || packet == 0 || packet > UINT32_MAX) {
    return std::unexpected(
        fmt::format("'{}' is not a hang: ENGINE:PACKET, where ENGINE is 3d or copy and PACKET a "
                    "whole number from 1 to 4294967295",
                    text));
  }
  return HangChoice{static_cast<uint32_t>(engine - kEngines.begin()), static_cast<uint32_t>(packet),
                    std::string(text)};
}

std::expected<SwitchChoice, std::string> parse_switches(std::string_view text) {
  using dxgk::kVerifierSwitchNames;
  dxgk::VerifierSwitches on;
  std::string known = "all";
  for (const auto& named : kVerifierSwitchNames) known += fmt::format(", {}", named.name);
  const auto unknown = [&](const std::string& what) {
    return std::unexpected(fmt::format("{}; known are {}", what, known));
  };
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hexadecimal ? text.substr(2) : text;
  uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, hexadecimal ? 16 : 10);
  if (!digits.empty() && error == std::errc() && end == digits.data() + digits.size()) {
    for (const auto& named : kVerifierSwitchNames) {
      if ((value >> named.bit & 1U) != 0) on.set(named.which);
      value &= ~(1U << named.bit);
    }
    if (value != 0) return unknown(fmt::format("'{}' has bits that are not implemented", text));
    return SwitchChoice{on.on, std::string(text)};
  }
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view name = text.substr(at, comma - at);
    bool found = false;
    for (const auto& named : kVerifierSwitchNames) {
      if (name != "all" && name != named.name) continue;
      on.set(named.which);
      found = true;
    }
    if (!found) return unknown(fmt::format("'{}' is not a switch of the verifier", name));
    at = comma + 1;
  }
  return SwitchChoice{on.on, std::string(text)};
}

std::string model_name(MemoryModel model) {
  if (model == MemoryModel::kPatch) return "patch";
  return fmt::format("gpuva:{}", static_cast<uint32_t>(model));
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
