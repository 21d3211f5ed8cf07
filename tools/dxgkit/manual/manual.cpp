#include "tools/dxgkit/manual/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "tools/dxgkit/files.h"
#include "tools/dxgkit/manual/examples.h"
#include "tools/dxgkit/manual/words.h"
#include "tools/dxgkit/record/record_commands.h"

namespace dxgkit::tool {
namespace {

/// Text as roff shows it, letter by letter: nothing in it is a request, and what is copied from the
/// page is what was typed.
std::string roff(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (out.empty() && (letter == '.' || letter == '\'')) out += "\\&";
    switch (letter) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '\n':
        out += ' ';
        break;
      default:
        out += letter;
    }
  }
  return out;
}

std::string sentence(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

/// Names of the options in the set, in alphabetical order.
std::string list_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(names_of(*option).back());
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string option_entry(const CLI::Option& option) {
  std::string head;
  for (const std::string& name : names_of(option))
    head += fmt::format("{}\\fB{}\\fR", head.empty() ? "" : ", ", roff(name));
  const ValueKind kind = kind_of(option);
  if (kind != ValueKind::none)
    head += fmt::format("{}\\fI{}\\fR", kind == ValueKind::optional ? "" : " ",
                        roff(value_name(option)));
  std::string text = sentence(option.get_description());
  if (const std::string initial = option.get_default_str(); !initial.empty())
    text += fmt::format(" Without the option: {}.", initial);
  if (option.get_required()) text += " Required.";
  if (!option.get_needs().empty())
    text += fmt::format(" Only with {}.", list_of(option.get_needs()));
  if (!option.get_excludes().empty())
    text += fmt::format(" Not with {}.", list_of(option.get_excludes()));
  return fmt::format(".TP\n{}\n{}\n", head, roff(text));
}

std::string synopsis(const CLI::App& form, const std::string& command) {
  std::string line = fmt::format(".PP\n\\fBdxgkit {}\\fR [\\fIOPTION\\fR]...", roff(command));
  for (const CLI::Option* argument : arguments_of(form)) {
    std::string name = fmt::format("\\fI{}\\fR", roff(argument->get_name(true)));
    if (argument->get_items_expected_max() > 1) name += "...";
    line += argument->get_required() ? " " + name : fmt::format(" [{}]", name);
  }
  return line + "\n";
}

std::string examples_section(std::string_view command) {
  std::string text = ".SH EXAMPLES\n";
  for (const Example& one : examples_of(command))
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(one.line),
                        roff(sentence(std::string(one.purpose))));
  return text;
}

std::string form_sections(const CLI::App& form, std::string_view of) {
  std::string text;
  const auto arguments = arguments_of(form);
  if (!arguments.empty()) {
    text += fmt::format(".SH ARGUMENTS{}\n", of);
    for (const CLI::Option* argument : arguments)
      text +=
          fmt::format(".TP\n\\fI{}\\fR\n{}\n", roff(argument->get_name(true)),
                      roff(argument->get_description().empty()
                               ? std::string(argument->get_required() ? "Required." : "Optional.")
                               : sentence(argument->get_description())));
  }
  text += fmt::format(".SH OPTIONS{}\n", of);
  for (const CLI::Option* option : options_of(form)) text += option_entry(*option);
  if (!form.get_footer().empty())
    text += fmt::format(".SH NOTES{}\n{}\n", of, roff(form.get_footer()));
  return text;
}

}  // namespace

std::vector<ManualCommand> manual_commands(const CLI::App& app) {
  std::vector<ManualCommand> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    commands.push_back({command->get_name(), {command}});
    if (command->get_name() == "replay")
      commands.back().forms.push_back(app.get_subcommand(kReplayRecording));
  }
  return commands;
}

std::string man_page(const CLI::App& app, const std::string& version,
                     const ManualCommand* command) {
  const std::string name = command == nullptr ? "dxgkit" : "dxgkit-" + command->name;
  const CLI::App& first = command == nullptr ? app : *command->forms.front();
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  });
  std::string page =
      fmt::format(".TH {} 1 \"\" \"dxgkit {}\" \"dxgkit\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
                  roff(title), roff(version), roff(name),
                  roff(command == nullptr ? "the WDDM graphics kernel in a Linux process"
                                          : first.get_description()));
  if (command == nullptr) {
    page += ".PP\n\\fBdxgkit\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH COMMANDS\n";
    for (const ManualCommand& one : manual_commands(app))
      page += fmt::format(".TP\n\\fB{}\\fR\n{} See \\fBdxgkit\\-{}\\fR(1).\n", roff(one.name),
                          roff(sentence(one.forms.front()->get_description())), roff(one.name));
    page += form_sections(app, "");
  } else {
    for (const CLI::App* form : command->forms) page += synopsis(*form, command->name);
    page += form_sections(first, "");
    for (std::size_t other = 1; other < command->forms.size(); ++other)
      page += form_sections(*command->forms[other], " OF A RECORDING");
  }
  page += examples_section(command == nullptr ? "" : std::string_view(command->name));
  page += ".SH SEE ALSO\n";
  if (command != nullptr) return page + "\\fBdxgkit\\fR(1)\n";
  std::vector<std::string> others;
  for (const ManualCommand& one : manual_commands(app))
    others.push_back(fmt::format("\\fBdxgkit\\-{}\\fR(1)", roff(one.name)));
  return page + fmt::format("{}\n", fmt::join(others, ",\n"));
}

std::expected<void, std::string> write_manual(const CLI::App& app, const std::string& version,
                                              const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> files = {
      {"man1/dxgkit.1", man_page(app, version, nullptr)},
      {"bash/dxgkit", bash_completion(app)},
      {"zsh/_dxgkit", zsh_completion(app)},
      {"fish/dxgkit.fish", fish_completion(app)}};
  for (const ManualCommand& command : manual_commands(app))
    files.emplace_back(fmt::format("man1/dxgkit-{}.1", command.name),
                       man_page(app, version, &command));
  for (const auto& [name, text] : files) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::error_code failed;
    std::filesystem::create_directories(path.parent_path(), failed);
    if (failed)
      return std::unexpected(fmt::format("{}: {}", path.parent_path().string(), failed.message()));
    if (auto written = write_file(path.string(), text); !written) return written;
  }
  return {};
}

}  // namespace dxgkit::tool
