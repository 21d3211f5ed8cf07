#include "tools/dxgkit/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/spelling.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {
namespace {

constexpr std::array<std::string_view, 3> kReports = {"--json", "--sarif", "--junit"};

const CLI::App& command_of(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  return given.empty() ? app : *given.back();
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string_view view(const std::string& text) { return text; }

/// One line of it.
std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

std::vector<std::string> take_program(std::vector<std::string>& arguments) {
  const auto mark = std::ranges::find(arguments, "--");
  if (mark == arguments.end()) return {};
  std::vector<std::string> program(mark + 1, arguments.end());
  arguments.erase(mark, arguments.end());
  return program;
}

std::vector<std::string> prepared(std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    if (arguments.empty() || !arguments.front().starts_with("-"))
      arguments.insert(arguments.begin() + (arguments.empty() ? 0 : 1), "--help");
  }
  for (std::string& argument : arguments) {
    if (std::ranges::find(kReports, argument) != kReports.end())
      argument += fmt::format("={}", kToStdout);
  }
  return arguments;
}

std::optional<std::string> unknown_command(const CLI::App& app,
                                           const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with("-")) return std::nullopt;
  const std::string& word = arguments.front();
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (std::ranges::find(names, word) != names.end()) return std::nullopt;
  const std::string meant = did_you_mean(word, names, view);
  return fmt::format("there is no command '{}'{}", word,
                     meant.empty() ? "; `dxgkit help` lists them" : meant);
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = command_of(app);
  for (const std::string& rest : app.remaining(true)) {
    if (!rest.starts_with("-") || rest == "-") continue;
    const std::string word = rest.substr(0, rest.find('='));
    const std::vector<std::string> names = option_names(command);
    const std::string meant = did_you_mean(word, names, view);
    const std::string name = &command == &app ? "" : " " + command.get_name();
    return fmt::format("{} has no option {}{}", name.empty() ? "dxgkit" : name.substr(1), word,
                       meant.empty() ? fmt::format("; `dxgkit help{}` lists them", name) : meant);
  }
  return one_line(error.what());
}

void add_reports(CLI::App* command, Reports& reports, const char* json, const char* sarif,
                 const char* junit) {
  const auto add = [command](const char* name, std::optional<std::string>& path, const char* help) {
    if (help == nullptr) return;
    const auto take = [&path](const CLI::results_t& texts) {
      path = texts.back();
      return true;
    };
    command->add_option(name, CLI::callback_t(take), fmt::format("{}; alone: to stdout", help))
        ->expected(1)
        ->type_name("[=FILE]");
  };
  add("--json", reports.json, json);
  add("--sarif", reports.sarif, sarif);
  add("--junit", reports.junit, junit);
}

void add_waivers(CLI::App* command, WaiverChoice& waivers) {
  const auto add_all = [](auto add) {
    return CLI::callback_t([add](const CLI::results_t& texts) {
      for (const std::string& text : texts) add(text);
      return true;
    });
  };
  command
      ->add_option(
          "--waive", add_all([&waivers](const std::string& text) {
            if (const auto added = waivers.list.add(text); !added)
              throw CLI::ValidationError("--waive", added.error());
            waivers.options += " --waive " + shell_quoted(text);
          }),
          "this rule is broken on purpose: its findings are listed with the reason, and do "
          "not count; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("RULE=REASON");
  command
      ->add_option("--waivers", add_all([&waivers](const std::string& path) {
                     const auto text = read_file(path);
                     if (!text.has_value()) throw CLI::ValidationError("--waivers", text.error());
                     if (const auto added = waivers.list.add_file(*text); !added)
                       throw CLI::ValidationError("--waivers", path + ": " + added.error());
                     waivers.options += " --waivers " + shell_quoted(path);
                   }),
                   "a file of them, kept with the driver: a line RULE = REASON each; # begins a "
                   "comment")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FILE");
}

void add_machine(CLI::App* command, const std::function<void(uint64_t bytes)>& set_memory,
                 const std::function<void(uint32_t number)>& set_processors,
                 const char* memory_help) {
  const auto read = [](auto parse, auto store) {
    return CLI::callback_t([=](const CLI::results_t& texts) {
      const auto value = parse(texts.back());
      if (!value.has_value()) throw CLI::ValidationError(value.error());
      store(*value);
      return true;
    });
  };
  command->add_option("--memory", read(parse_memory, set_memory), memory_help)
      ->expected(1)
      ->type_name("BYTES");
  command
      ->add_option("--processors", read(parse_processors, set_processors),
                   "that the driver sees (1)")
      ->expected(1)
      ->type_name("N");
}

}  // namespace dxgkit::tool
