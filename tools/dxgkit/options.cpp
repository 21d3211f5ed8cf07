#include "tools/dxgkit/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "base/arithmetic.h"
#include "base/spelling.h"
#include "devices/catalog/catalog.h"
#include "devices/plugin/plugin.h"
#include "dxgk/core/verifier_switches.h"
#include "tools/dxgkit/files.h"
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

int bad_input(const std::string& text) {
  fmt::print(stderr, "dxgkit: {}\n", text);
  return kExitBadInput;
}

int not_written(const std::string& text) {
  fmt::print(stderr, "dxgkit: {}\n", text);
  return kExitNotWritten;
}

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::FILE* Reports::text_stream() const {
  return json == kToStdout || sarif == kToStdout || junit == kToStdout ? stderr : stdout;
}

int Reports::check() const {
  if ((json == kToStdout) + (sarif == kToStdout) + (junit == kToStdout) > 1)
    return bad_input("only one of --json, --sarif and --junit can go to stdout");
  return check_outputs({&json, &sarif, &junit});
}

int check_outputs(std::initializer_list<const std::optional<std::string>*> paths) {
  for (const std::optional<std::string>* path : paths) {
    if (!path->has_value() || *path == kToStdout) continue;
    if (const auto writable = check_writable(**path); !writable)
      return not_written(writable.error());
  }
  return kExitDone;
}

std::expected<uint64_t, std::string> parse_bytes(std::string_view text) {
  if (const std::optional<uint64_t> bytes = bus::parse_byte_count(text); bytes.has_value())
    return *bytes;
  return std::unexpected(
      fmt::format("'{}' is not a number of bytes (like 67108864, 64M or 1GiB)", text));
}

std::string MachineOptions::as_options() const {
  std::string text;
  if (memory_bytes.has_value()) text += fmt::format(" --memory {}", *memory_bytes);
  if (processors != 1) text += fmt::format(" --processors {}", processors);
  return text;
}

std::expected<uint64_t, std::string> parse_memory(std::string_view text) {
  const std::expected<uint64_t, std::string> bytes = parse_bytes(text);
  if (!bytes.has_value()) return bytes;
  if (*bytes < kMemoryBytesLeast || *bytes > kMemoryBytesMost)
    return std::unexpected(
        fmt::format("'{}' is no memory that a machine here can have: 16M to 60G", text));
  return align_up(*bytes, kPageBytes);
}

std::expected<uint32_t, std::string> parse_processors(std::string_view text) {
  const std::optional<uint64_t> number = parse_number(text);
  if (!number.has_value() || *number < 1 || *number > kProcessorsMost)
    return std::unexpected(
        fmt::format("'{}' is no number of processors: 1 to {}", text, kProcessorsMost));
  return static_cast<uint32_t>(*number);
}

DeviceChoice default_device() { return *devices::catalog().parse(kDefaultDevice); }

std::expected<DeviceChoice, std::string> parse_device(std::string_view text) {
  // Its code may crash as soon as it is loaded.
  if (text.find(".so") != std::string_view::npos || text.find('/') != std::string_view::npos)
    plugin::report_crashes(kExitBadInput);
  return devices::catalog().parse(text);
}

std::expected<void, std::string> check_mode(const DeviceChoice& device, Mode mode) {
  if (mode == Mode::kOs || device.type->simulated) return {};
  return std::unexpected(
      fmt::format("--device {}: it lives in real time only and cannot be simulated", device.text));
}

std::expected<Mode, std::string> parse_mode(std::string_view text) {
  if (text == "os") return Mode::kOs;
  if (text == "sim") return Mode::kSim;
  constexpr std::array<std::string_view, 2> kModes = {"os", "sim"};
  return std::unexpected(
      fmt::format("'{}' is not a mode: os or sim{}", text, did_you_mean(text, kModes)));
}

std::expected<MemoryModel, std::string> parse_model(std::string_view text) {
  if (text == "gpuva") return MemoryModel::kFourLevels;
  for (const MemoryModel model : {MemoryModel::kPatch, MemoryModel::kTwoLevels,
                                  MemoryModel::kFourLevels, MemoryModel::kLargePages}) {
    if (text == model_name(model)) return model;
  }
  constexpr std::array<std::string_view, 5> kModels = {"patch", "gpuva", "gpuva:1", "gpuva:2",
                                                       "gpuva:3"};
  return std::unexpected(fmt::format(
      "'{}' is not a memory model: patch, gpuva, gpuva:1 (two levels of page tables), gpuva:2 "
      "(four) or gpuva:3 (64 KiB pages){}",
      text, did_you_mean(text, kModels)));
}

std::expected<ClientApi, std::string> parse_client_api(std::string_view text) {
  if (text == "d3dkmt") return ClientApi::kD3dkmt;
  if (text == "umd") return ClientApi::kUmd;
  constexpr std::array<std::string_view, 2> kApis = {"d3dkmt", "umd"};
  return std::unexpected(fmt::format("'{}' is not an interface of clients: d3dkmt or umd{}", text,
                                     did_you_mean(text, kApis)));
}

std::expected<ClientPlace, std::string> parse_client_place(std::string_view text) {
  if (text == "threads") return ClientPlace::kThreads;
  if (text == "processes") return ClientPlace::kProcesses;
  constexpr std::array<std::string_view, 2> kPlaces = {"threads", "processes"};
  return std::unexpected(fmt::format("'{}' is no place for clients: threads or processes{}", text,
                                     did_you_mean(text, kPlaces)));
}

std::expected<HangChoice, std::string> parse_hang(std::string_view text) {
  constexpr std::array<std::string_view, 2> kEngines = {"3d", "copy"};  // by node
  const size_t colon = std::min(text.find(':'), text.size());
  const auto engine = std::ranges::find(kEngines, text.substr(0, colon));
  const uint64_t packet =
      colon == text.size() ? 0 : parse_number(text.substr(colon + 1)).value_or(0);
  if (engine == kEngines.end() || packet == 0 || packet > UINT32_MAX) {
    return std::unexpected(fmt::format(
        "'{}' is not a hang: ENGINE:PACKET, where ENGINE is 3d or copy and PACKET a "
        "whole number from 1 to 4294967295{}",
        text, engine == kEngines.end() ? did_you_mean(text.substr(0, colon), kEngines) : ""));
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
    if (!found) {
      const auto of_switch = [](const auto& named) -> std::string_view { return named.name; };
      return std::unexpected(fmt::format("'{}' is not a switch of the verifier; known are {}{}",
                                         name, known,
                                         did_you_mean(name, kVerifierSwitchNames, of_switch)));
    }
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
