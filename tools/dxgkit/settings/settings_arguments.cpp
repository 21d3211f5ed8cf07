#include "tools/dxgkit/settings/settings_arguments.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "tools/dxgkit/check/hand_over.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/manual/words.h"
#include "tools/dxgkit/settings/settings_file.h"
#include "tools/dxgkit/shell_word.h"

namespace dxgkit::tool {
namespace {

constexpr std::string_view kConfig = "--config", kNoFile = "none";

/// The path of the text that is held, in this process and in those that are forked.
std::string& held_registry() {
  static std::string path;
  return path;
}

const CLI::App* command_named(const CLI::App& app, std::string_view name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

const CLI::Option* option_named(const CLI::App& command, std::string_view name) {
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> names = names_of(*option);
    if (std::ranges::find(names, name) != names.end()) return option;
  }
  return nullptr;
}

bool takes_driver(const CLI::App& command) {
  if (option_named(command, "--driver") != nullptr) return true;
  const std::vector<const CLI::Option*> all = arguments_of(command);
  return std::ranges::any_of(
      all, [](const CLI::Option* one) { return one->get_name(true) == "DRIVER"; });
}

class ParserTable : public OptionTable {
 public:
  explicit ParserTable(const CLI::App& app) : app_(app) {}

  std::vector<std::string> commands() const override {
    std::vector<std::string> names;
    for (const CLI::App* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
      if (takes_driver(*command)) names.push_back(command->get_name());
    }
    return names;
  }

  std::vector<std::string> options(std::string_view command) const override {
    std::vector<std::string> names;
    const CLI::App* const found = command_named(app_, command);
    if (found == nullptr) return names;
    for (const CLI::Option* option : options_of(*found)) {
      for (const std::string& name : names_of(*option)) {
        if (name.starts_with("--")) names.push_back(name);
      }
    }
    return names;
  }

  Entry entry(std::string_view command, std::string_view name) const override {
    const CLI::App* const found = command_named(app_, command);
    const CLI::Option* const option = found == nullptr ? nullptr : option_named(*found, name);
    if (option == nullptr) return {};
    const ValueKind kind = kind_of(*option);
    return {.kind = kind == ValueKind::none ? Kind::kFlag
                    // The type is TEXT of what is named, too: the steps of a driver.
                    : kind == ValueKind::files && name != "--step" ? Kind::kPath
                                                                   : Kind::kValue,
            .repeats = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ||
                       option->get_items_expected_max() > 1};
  }

 private:
  const CLI::App& app_;
};

/// What the command line says by itself.
struct Given {
  std::set<std::string> options;     // by name
  std::vector<std::string> waivers;  // "PAGE-05=", a rule each
  std::optional<std::string> driver, config;
};

Given read_given(const std::vector<std::string>& arguments, const CLI::App& command) {
  Given given;
  const std::vector<const CLI::Option*> positional = arguments_of(command);
  size_t positionals = 0;
  const auto take = [&](const std::string& name, const std::string& value) {
    if (name == "--driver") given.driver = value;
    if (name == kConfig) given.config = value;
    if (name == "--waive") given.waivers.push_back(value.substr(0, value.find('=') + 1));
  };
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!word.starts_with("-") || word == "-") {
      if (positionals < positional.size() && positional[positionals]->get_name(true) == "DRIVER")
        given.driver = word;
      ++positionals;
      continue;
    }
    const size_t sign = word.find('=');
    const std::string name = word.substr(0, sign);
    given.options.insert(name);
    if (sign != std::string::npos) {
      take(name, word.substr(sign + 1));
      continue;
    }
    const CLI::Option* const option = option_named(command, name);
    if (option == nullptr || option->get_items_expected_max() == 0) continue;  // a flag, or wrong
    if (i + 1 < arguments.size()) take(name, arguments[++i]);
  }
  return given;
}

/// True if the command line has the option, or one that excludes it.
bool stands_back(const CLI::Option& option, const Given& given, std::string_view value) {
  const std::vector<std::string> names = names_of(option);
  if (names.back() == "--waive")
    return std::ranges::any_of(given.waivers,
                               [&](const std::string& rule) { return value.starts_with(rule); });
  const auto is_given = [&](const CLI::Option& one) {
    return std::ranges::any_of(
        names_of(one), [&](const std::string& name) { return given.options.contains(name); });
  };
  return is_given(option) ||
         std::ranges::any_of(option.get_excludes(),
                             [&](const CLI::Option* other) { return is_given(*other); });
}

/// Why the parser does not take the value; nothing if it does.
std::optional<std::string> why_not(CLI::App& trial, const Setting& setting,
                                   std::string_view command) {
  CLI::Option* const option =
      trial.get_subcommand(std::string(command))->get_option(setting.option);
  option->clear();
  option->add_result(setting.value.value_or("true"));
  try {
    option->run_callback();
  } catch (const CLI::Error& error) {
    std::string text = error.what();
    std::ranges::replace(text, '\n', ' ');
    return text;
  }
  return std::nullopt;
}

/// A path at which this process, and those that it starts, find the text.
std::optional<std::string> held(std::string_view text) {
  // Not closed on exec: a program that `run-client` becomes reads it, too.
  const int fd = memfd_create("dxgkit-registry", 0);
  if (fd < 0 || !check::SharedText::write(fd, text)) return std::nullopt;
  held_registry() = fmt::format("/proc/{}/fd/{}", getpid(), fd);
  return held_registry();
}

std::optional<std::string> file_of(const Given& given) {
  if (given.config.has_value()) return *given.config == kNoFile ? std::nullopt : given.config;
  if (!given.driver.has_value() || is_named_driver(*given.driver)) return std::nullopt;
  const std::filesystem::path beside =
      std::filesystem::path(*given.driver).parent_path() / kSettingsName;
  std::error_code error;
  if (!std::filesystem::exists(beside, error)) return std::nullopt;
  return beside.string();
}

}  // namespace

void add_settings(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!takes_driver(*command)) continue;
    command
        ->add_option(
            "--config", [](const CLI::results_t&) { return true; },
            "options of this file; none: not even of dxgkit.toml beside the driver")
        ->expected(1)
        ->type_name("FILE");
  }
}

std::expected<void, std::string> add_settings_file(std::vector<std::string>& arguments,
                                                   const CLI::App& app,
                                                   const std::function<CLI::App&()>& make_trial) {
  if (arguments.empty()) return {};
  const std::string name = arguments.front();
  const CLI::App* const command = command_named(app, name);
  if (command == nullptr || !takes_driver(*command)) return {};
  const Given given = read_given(arguments, *command);
  const std::optional<std::string> path = file_of(given);
  if (!path.has_value()) return {};
  const auto error = [&](std::string_view text) {
    return std::unexpected(fmt::format("{}: {}", *path, text));
  };
  const std::expected<std::string, std::string> text = read_file(*path);
  if (!text.has_value()) return std::unexpected(text.error());
  const std::string folder = std::filesystem::path(*path).parent_path().string();
  std::expected<SettingsFile, std::string> file = parse_settings(*text, folder, ParserTable(app));
  if (!file.has_value()) return error(file.error());

  CLI::App& trial = make_trial();
  std::vector<std::string> added;
  std::set<std::string> single;  // options that take one value, and have it
  for (const Setting& setting : file->settings) {
    if (!setting.command.empty() && setting.command != name) continue;
    const CLI::Option* const option = option_named(*command, setting.option);
    if (option == nullptr || stands_back(*option, given, setting.value.value_or(""))) continue;
    if (const auto why = why_not(trial, setting, name))
      return error(fmt::format("line {}: {}", setting.line, *why));
    const bool repeats = ParserTable(app).entry(name, setting.option).repeats;
    if (!repeats && !single.insert(setting.option).second)
      return error(fmt::format("line {}: {} takes one {}", setting.line, name, setting.option));
    added.push_back(setting.value.has_value() ? setting.option + "=" + *setting.value
                                              : setting.option);
  }
  const CLI::Option* const registry = option_named(*command, "--registry");
  std::string shown;
  for (const std::string& one : added) shown += " " + shell_word(one);
  if (!file->registry.empty() && registry != nullptr && !stands_back(*registry, given, "")) {
    const std::optional<std::string> at = held(file->registry);
    if (!at.has_value()) return error("its registry cannot be kept in memory");
    added.push_back("--registry=" + *at);
    shown += " --registry (its table)";
  }
  say(stderr, "dxgkit: {}:{}\n", *path, shown.empty() ? " nothing for this command" : shown);
  // Behind everything: an option that takes a list would take the driver, too.
  arguments.insert(arguments.end(), added.begin(), added.end());
  return {};
}

bool is_table_of_settings(const std::string& registry) {
  return !registry.empty() && registry == held_registry();
}

}  // namespace dxgkit::tool
