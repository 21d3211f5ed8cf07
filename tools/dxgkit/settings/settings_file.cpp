#include "tools/dxgkit/settings/settings_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/plain_text.h"
#include "base/spelling.h"
#include "base/toml_parser.h"
#include "nt/registry_store.h"

namespace dxgkit::tool {
namespace {

using Kind = OptionTable::Kind;

/// Tables that are no commands, and how deep they may nest: a registry has keys in keys.
constexpr size_t kDepthMost = nt::kRegistryDepthMax;

/// Keys at the top: options that mean the same in every command that has them.
struct TopKey {
  std::string_view key, option;
  enum class Type { kText, kNumber, kYesNo, kPath, kDevices } type;
};
constexpr TopKey kTopKeys[] = {
    {"client", "--client", TopKey::Type::kPath},
    {"ddi_timeout", "--ddi-timeout", TopKey::Type::kNumber},
    {"device", "--device", TopKey::Type::kDevices},
    {"memory", "--memory", TopKey::Type::kText},
    {"mode", "--mode", TopKey::Type::kText},
    {"processors", "--processors", TopKey::Type::kNumber},
    {"seed", "--seed", TopKey::Type::kNumber},
    {"special_pool", "--special-pool", TopKey::Type::kYesNo},
    {"trace_imports", "--trace-imports", TopKey::Type::kYesNo},
    {"waivers", "--waivers", TopKey::Type::kPath},
};
constexpr std::string_view kRegistryKey = "registry", kWaiveKey = "waive";

/// A file that comes with a stranger's driver must not say where to write, or what to run.
constexpr std::array<std::string_view, 18> kNotHere = {
    "--json",   "--sarif",   "--junit",  "--html", "--write-baseline", "--trace",  "--report",
    "--output", "--scanout", "--db",     "--out",  "--frame",          "--socket", "--findings",
    "--replay", "--gdb",     "--config", "--help"};

std::string in_folder(const std::string& path, const std::string& folder) {
  return path.starts_with('/') || folder.empty() ? path : folder + "/" + path;
}

/// "model.so,option=1": a plug-in is a path.
std::string device_in_folder(const std::string& device, const std::string& folder) {
  return device.substr(0, device.find(',')).ends_with(".so") ? in_folder(device, folder) : device;
}

std::string option_of(std::string_view key) {
  std::string option = "--" + std::string(key);
  std::ranges::replace(option, '_', '-');
  return option;
}

class Reader {
 public:
  Reader(const std::string& folder, const OptionTable& table) : folder_(folder), table_(table) {}

  std::expected<void, std::string> read(const toml::table& file);
  SettingsFile take() { return std::move(file_); }

 private:
  using Done = std::expected<void, std::string>;

  static std::unexpected<std::string> error(const toml::node& node, std::string_view text) {
    return std::unexpected(fmt::format("line {}: {}", node.source().begin.line, text));
  }
  void add(std::string_view command, std::string_view option, std::optional<std::string> value,
           const toml::node& node) {
    file_.settings.push_back({std::string(command), std::string(option), std::move(value),
                              static_cast<uint32_t>(node.source().begin.line)});
  }
  Done read_top(const TopKey& key, const toml::node& node);
  Done read_devices(const toml::node& node);
  Done read_waivers(const toml::node& node);
  Done read_command(std::string_view command, const toml::node& node);
  Done read_option(std::string_view command, std::string_view key, const toml::node& node);
  Done unknown_key(std::string_view key, const toml::node& node) const;

  const std::string& folder_;
  const OptionTable& table_;
  SettingsFile file_;
};

Reader::Done Reader::read_devices(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    add({}, "--device", device_in_folder(*text, folder_), node);
    return {};
  }
  const toml::array* const list = node.as_array();
  if (list == nullptr || list->empty())
    return error(node, "device: a text such as \"softgpu,vram=64M\", or a list of them");
  for (const toml::node& one : *list) {
    const auto text = one.value_exact<std::string>();
    if (!text.has_value()) return error(one, "device: a list of texts");
    add({}, "--device", device_in_folder(*text, folder_), one);
  }
  return {};
}

Reader::Done Reader::read_top(const TopKey& key, const toml::node& node) {
  const auto text = node.value_exact<std::string>();
  const auto number = node.value_exact<int64_t>();
  const auto yes_no = node.value_exact<bool>();
  switch (key.type) {
    case TopKey::Type::kDevices:
      return read_devices(node);
    case TopKey::Type::kText:
      if (!text.has_value()) return error(node, fmt::format("{}: a text", key.key));
      add({}, key.option, *text, node);
      break;
    case TopKey::Type::kPath:
      if (!text.has_value() || text->empty())
        return error(node, fmt::format("{}: the path of a file", key.key));
      add({}, key.option, in_folder(*text, folder_), node);
      break;
    case TopKey::Type::kNumber:
      if (number.value_or(-1) < 0) return error(node, fmt::format("{}: a number", key.key));
      add({}, key.option, fmt::format("{}", *number), node);
      break;
    case TopKey::Type::kYesNo:
      if (!yes_no.has_value()) return error(node, fmt::format("{}: true or false", key.key));
      if (*yes_no) add({}, key.option, std::nullopt, node);
      break;
  }
  return {};
}

Reader::Done Reader::read_waivers(const toml::node& node) {
  const toml::table* const rules = node.as_table();
  if (rules == nullptr) return error(node, "waive: a table with a line RULE = \"REASON\" each");
  for (const auto& [rule, reason] : *rules) {
    const auto text = reason.value_exact<std::string>();
    if (!text.has_value())
      return error(reason, fmt::format("{}: a waiver takes a reason, a text", rule.str()));
    add({}, "--waive", fmt::format("{}={}", rule.str(), *text), reason);
  }
  return {};
}

Reader::Done Reader::read_option(std::string_view command, std::string_view key,
                                 const toml::node& node) {
  const std::string option = option_of(key);
  if (std::ranges::find(kNotHere, option) != kNotHere.end())
    return error(node, fmt::format("{}.{}: only the command line says that", command, key));
  const std::vector<std::string> known = table_.options(command);
  if (std::ranges::find(known, option) == known.end()) {
    const std::string meant =
        did_you_mean(option, known, [](const std::string& one) -> std::string_view { return one; });
    return error(node, fmt::format("{} has no option {}{}", command, option, meant));
  }
  const OptionTable::Entry entry = table_.entry(command, option);
  if (entry.kind == Kind::kFlag) {
    const auto yes_no = node.value_exact<bool>();
    if (!yes_no.has_value()) return error(node, fmt::format("{}.{}: true or false", command, key));
    if (*yes_no) add(command, option, std::nullopt, node);
    return {};
  }
  const auto add_one = [&](const toml::node& one) -> Done {
    if (const auto number = one.value_exact<int64_t>()) {
      add(command, option, fmt::format("{}", *number), one);
      return {};
    }
    const auto text = one.value_exact<std::string>();
    if (!text.has_value())
      return error(one, fmt::format("{}.{}: a text or a number", command, key));
    const std::string value = option == "--device"        ? device_in_folder(*text, folder_)
                              : entry.kind == Kind::kPath ? in_folder(*text, folder_)
                                                          : *text;
    add(command, option, value, one);
    return {};
  };
  const toml::array* const list = node.as_array();
  if (list == nullptr) return add_one(node);
  if (!entry.repeats) return error(node, fmt::format("{}.{}: one value only", command, key));
  for (const toml::node& one : *list) {
    if (Done added = add_one(one); !added) return added;
  }
  return {};
}

Reader::Done Reader::read_command(std::string_view command, const toml::node& node) {
  const toml::table* const options = node.as_table();
  if (options == nullptr)
    return error(node, fmt::format("{}: a table with the command's options", command));
  for (const auto& [key, value] : *options) {
    if (Done read = read_option(command, key.str(), value); !read) return read;
  }
  return {};
}

Reader::Done Reader::unknown_key(std::string_view key, const toml::node& node) const {
  std::vector<std::string> names = table_.commands();
  for (const TopKey& top : kTopKeys) names.emplace_back(top.key);
  names.emplace_back(kRegistryKey);
  names.emplace_back(kWaiveKey);
  const std::string meant =
      did_you_mean(key, names, [](const std::string& one) -> std::string_view { return one; });
  return error(node, fmt::format("there is no key '{}'{}", key, meant));
}

Reader::Done Reader::read(const toml::table& file) {
  const std::vector<std::string> commands = table_.commands();
  for (const auto& [key, node] : file) {
    const std::string_view name = key.str();
    const auto top = std::ranges::find(kTopKeys, name, &TopKey::key);
    Done read;
    if (top != std::end(kTopKeys)) {
      read = read_top(*top, node);
    } else if (name == kWaiveKey) {
      read = read_waivers(node);
    } else if (name == kRegistryKey) {
      if (const auto path = node.value_exact<std::string>(); path.has_value() && !path->empty()) {
        add({}, "--registry", in_folder(*path, folder_), node);
      } else if (!node.is_table()) {
        read = error(node, "registry: the path of a file, or a table");
      }
    } else if (std::ranges::find(commands, name) != commands.end()) {
      read = read_command(name, node);
    } else {
      read = unknown_key(name, node);
    }
    if (!read) return read;
  }
  std::ranges::stable_sort(file_.settings, {}, &Setting::line);
  return {};
}

}  // namespace

std::expected<SettingsFile, std::string> parse_settings(std::string_view text,
                                                        const std::string& folder,
                                                        const OptionTable& table) {
  if (text.size() > kSettingsBytesMost)
    return std::unexpected(fmt::format("more than {} bytes", kSettingsBytesMost));
  if (auto why = why_no_plain_text(text, kDepthMost)) return std::unexpected(std::move(*why));
  Reader reader(folder, table);
  bool has_registry = false;
  try {
    const toml::table file = toml::parse(text);
    if (auto read = reader.read(file); !read) return std::unexpected(read.error());
    has_registry = file[kRegistryKey].is_table();
  } catch (const toml::parse_error& error) {
    return std::unexpected(
        fmt::format("line {}: {}", error.source().begin.line, error.description()));
  } catch (const TomlParserLost&) {
    return std::unexpected("a bracket or a dot is followed by something that begins no key");
  }
  SettingsFile file = reader.take();
  if (has_registry) {
    std::string message;
    const Result<nt::Registry> registry = nt::parse_registry(text, &message, kRegistryKey);
    if (!registry.has_value()) return std::unexpected(message);
    file.registry = registry->to_text();
  }
  return file;
}

}  // namespace dxgkit::tool
