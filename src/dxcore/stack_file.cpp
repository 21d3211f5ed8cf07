#include "dxcore/stack_file.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "base/plain_text.h"
#include "base/toml_parser.h"
#include "bus/device.h"

namespace dxgkit::dxcore {
namespace {

using Error = std::unexpected<std::string>;

std::string in_folder(const std::string& path, const std::string& folder) {
  return path.starts_with('/') || folder.empty() ? path : folder + "/" + path;
}

std::optional<std::string> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  return text.str();
}

/// A bundled driver by its name, or a file.
std::expected<std::string, std::string> driver_path(const std::string& driver,
                                                    const std::string& folder) {
  if (driver.find('/') != std::string::npos || driver.ends_with(".sys") || driver.ends_with(".so"))
    return in_folder(driver, folder);
  auto bundled = bundled_driver(driver);
  if (!bundled.has_value())
    return Error(fmt::format("driver: there is no bundled driver \"{}\"", driver));
  return *bundled;
}

std::expected<void, std::string> read_devices(const toml::node& value, StackFile& file,
                                              const std::string& folder) {
  const toml::array* const list = value.as_array();
  file.options.devices.clear();
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const auto device = (*list)[i].value_exact<std::string>();
    if (!device.has_value()) break;
    // A plug-in is a path, so it is looked for beside this file.
    const bool is_path = device->substr(0, device->find(',')).ends_with(".so");
    file.options.devices.push_back(is_path ? in_folder(*device, folder) : *device);
  }
  if (list == nullptr || file.options.devices.empty() ||
      file.options.devices.size() != list->size())
    return Error("devices: a list of texts such as [\"softgpu,vram=64M\"]");
  return {};
}

std::expected<void, std::string> read_key(std::string_view key, const toml::node& value,
                                          StackFile& file, const std::string& folder) {
  const auto text = value.value_exact<std::string>();
  const auto number = value.value_exact<int64_t>();
  const auto flag = value.value_exact<bool>();
  if (key == "devices") return read_devices(value, file, folder);
  if (key == "driver") {
    if (!text.has_value()) return Error("driver: a name or a path");
    auto path = driver_path(*text, folder);
    if (!path.has_value()) return Error(path.error());
    file.driver = *path;
  } else if (key == "memory") {
    const auto bytes = text.has_value() ? bus::parse_byte_count(*text) : std::nullopt;
    if (!bytes.has_value() || *bytes == 0) return Error("memory: a size such as \"512M\"");
    file.options.memory_bytes = *bytes;
  } else if (key == "registry") {
    const auto registry = text.has_value() ? contents(in_folder(*text, folder)) : std::nullopt;
    if (!registry.has_value()) return Error("registry: a file that can be read");
    file.options.registry = *registry;
  } else if (key == "findings") {
    if (!text.has_value() || text->empty()) return Error("findings: a file, or \"stderr\"");
    file.findings = *text == "stderr" ? "" : in_folder(*text, folder);
  } else if (key == "tdr_delay_ms") {
    if (number.value_or(0) <= 0 || *number > 3'600'000) return Error("tdr_delay_ms: 1 to 3600000");
    file.adapter.tdr_delay_ns = *number * 1'000'000;
  } else if (key == "reference_checks" || key == "special_pool") {
    if (!flag.has_value()) return Error(fmt::format("{}: true or false", key));
    (key == "special_pool" ? file.options.special_pool : file.adapter.reference_checks) = *flag;
  } else {
    return Error(fmt::format("{}: no such key", key));
  }
  return {};
}

}  // namespace

std::expected<StackFile, std::string> parse_stack_file(std::string_view text,
                                                       const std::string& folder) {
  constexpr size_t kDepthMax = 8;  // lists of texts need one
  if (auto why = why_no_plain_text(text, kDepthMax)) return Error(std::move(*why));
  StackFile file;
  try {
    const toml::table table = toml::parse(text);
    for (const auto& [key, value] : table) {
      if (auto read = read_key(key.str(), value, file, folder); !read.has_value())
        return Error(read.error());
    }
  } catch (const toml::parse_error& error) {
    return Error(fmt::format("line {}: {}", error.source().begin.line, error.description()));
  } catch (const TomlParserLost&) {
    return Error("a bracket or a dot is followed by something that begins no key");
  }
  if (file.driver.empty()) return Error("driver: missing");
  return file;
}

std::expected<StackFile, std::string> read_stack_file(const std::string& path) {
  const auto text = contents(path);
  if (!text.has_value()) return Error(fmt::format("{} cannot be read", path));
  const size_t slash = path.find_last_of('/');
  auto file = parse_stack_file(*text, slash == std::string::npos ? "" : path.substr(0, slash));
  if (!file.has_value()) return Error(fmt::format("{}: {}", path, file.error()));
  return file;
}

}  // namespace dxgkit::dxcore
