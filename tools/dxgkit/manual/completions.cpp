// The same facts in the languages of three shells.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "tools/dxgkit/manual/manual.h"
#include "tools/dxgkit/manual/words.h"

namespace dxgkit::tool {
namespace {

/// In single quotes, where both sh and zsh take every letter as it is.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      out += "'\\''";
    } else {
      out += letter;
    }
  }
  return out + "'";
}

/// In single quotes of fish, where a backslash counts.
std::string in_fish_quotes(std::string_view text) {
  std::string out = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + "'";
}

/// The description inside a specification of zsh's _arguments and _describe.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') out += '\\';
    out += letter;
  }
  return out;
}

std::string command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const ManualCommand& command : manual_commands(app)) names.push_back(command.name);
  return fmt::format("{}", fmt::join(names, " "));
}

/// Every option of a command that a person can type, each name once.
std::vector<const CLI::Option*> all_options(const ManualCommand& command) {
  std::vector<const CLI::Option*> all;
  for (const CLI::App* form : command.forms) {
    for (const CLI::Option* option : options_of(*form)) {
      const bool known = std::ranges::any_of(all, [&](const CLI::Option* one) {
        return names_of(*one).back() == names_of(*option).back();
      });
      if (!known) all.push_back(option);
    }
  }
  return all;
}

bool takes_files(const ManualCommand& command) {
  for (const CLI::App* form : command.forms) {
    for (const CLI::Option* argument : arguments_of(*form)) {
      if (kind_of(*argument) == ValueKind::files) return true;
    }
  }
  return false;
}

/// Names as a pattern of `case`, behind the name of the command.
std::string bash_pattern(const ManualCommand& command, const CLI::Option& option) {
  std::vector<std::string> parts;
  for (const std::string& name : names_of(option))
    parts.push_back(fmt::format("'{} {}'", command.name, name));
  return fmt::format("{}", fmt::join(parts, "|"));
}

constexpr std::string_view kBashStart =
    R"(# bash completion for dxgkit, made by the tool from its own options.
_dxgkit() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} word equals=0
  COMPREPLY=()
  # Bash makes a word of the '=' in --json=FILE.
  if [[ $cur == '=' ]]; then cur= equals=1
  elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]} equals=1
  fi
  if ((COMP_CWORD == 1)); then
)";

constexpr std::string_view kBashMiddle = R"(    return
  fi
  # Behind -- stands another program with its arguments.
  for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
    if [[ $word == -- ]]; then prev=; command=--; fi
  done
  local files= words=
  case "$command $prev" in
)";

constexpr std::string_view kBashEnd = R"(  esac
  if [[ -n $files ]]; then
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  fi
}
complete -F _dxgkit dxgkit
)";

std::string zsh_option(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : names_of(option)) {
    std::string spec = fmt::format("*{}", name);
    const ValueKind kind = kind_of(option);
    if (kind == ValueKind::optional) spec += "=-";
    spec += fmt::format("[{}]", zsh_text(option.get_description()));
    const std::string label = zsh_text(value_name(option));
    switch (kind) {
      case ValueKind::none:
        break;
      case ValueKind::words:
        spec += fmt::format(":{}:({})", label, fmt::join(words_of(option), " "));
        break;
      case ValueKind::files:
        spec += fmt::format(":{}:_files", label);
        break;
      case ValueKind::optional:
        spec += "::file:_files";
        break;
      case ValueKind::other:
        spec += fmt::format(":{}: ", label);
        break;
    }
    text += " \\\n        " + in_quotes(spec);
  }
  return text;
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::vector<std::string> own;
  for (const CLI::Option* option : options_of(app)) {
    for (const std::string& name : names_of(*option)) own.push_back(name);
  }
  const std::string commands = command_names(app);
  std::string text(kBashStart);
  text += fmt::format("    mapfile -t COMPREPLY < <(compgen -W '{} {}' -- \"$cur\")\n", commands,
                      fmt::join(own, " "));
  text += kBashMiddle;
  std::string values;
  for (const ManualCommand& command : manual_commands(app)) {
    std::vector<std::string> names;
    for (const CLI::Option* option : all_options(command)) {
      for (const std::string& name : names_of(*option)) names.push_back(name);
    }
    const std::string all = fmt::format("{}", fmt::join(names, " "));
    for (const CLI::Option* option : all_options(command)) {
      const std::string pattern = bash_pattern(command, *option);
      switch (kind_of(*option)) {
        case ValueKind::none:
          break;
        case ValueKind::words:
          values +=
              fmt::format("    {}) words='{}' ;;\n", pattern, fmt::join(words_of(*option), " "));
          break;
        case ValueKind::files:
          values += fmt::format("    {}) files=1 ;;\n", pattern);
          break;
        case ValueKind::optional:  // without '=' the next word is not its value
          values += fmt::format("    {}) if ((equals)); then files=1; else words='{}'; fi ;;\n",
                                pattern, all);
          break;
        case ValueKind::other:
          values += fmt::format("    {}) ;;\n", pattern);
          break;
      }
    }
    const std::string otherwise = command.name == "help" ? fmt::format("words='{}'", commands)
                                  : takes_files(command) ? "files=1"
                                                         : fmt::format("words='{}'", all);
    values += fmt::format("    '{} '*) if [[ $cur == -* ]]; then words='{}'; else {}; fi ;;\n",
                          command.name, all, otherwise);
  }
  return text + values + "    *) files=1 ;;\n" + std::string(kBashEnd);
}

std::string zsh_completion(const CLI::App& app) {
  std::string text =
      "#compdef dxgkit\n# zsh completion for dxgkit, made by the tool from its own options.\n"
      "_dxgkit() {\n  local -a commands\n  commands=(\n";
  for (const ManualCommand& command : manual_commands(app))
    text += "    " +
            in_quotes(command.name + ":" + zsh_text(command.forms.front()->get_description())) +
            "\n";
  text += "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    _arguments";
  for (const CLI::Option* option : options_of(app)) text += zsh_option(*option);
  text +=
      "\n    return\n  fi\n  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n"
      "  if (( $words[(I)--] && $words[(I)--] < CURRENT )); then\n    _files\n    return\n  fi\n"
      "  case $command in\n";
  for (const ManualCommand& command : manual_commands(app)) {
    text += fmt::format("    {})\n      _arguments", command.name);
    for (const CLI::Option* option : all_options(command)) text += zsh_option(*option);
    if (command.name == "help")
      text += " \\\n        " + in_quotes("1:command:(" + command_names(app) + ")");
    if (takes_files(command)) text += " \\\n        " + in_quotes("*:file:_files");
    text += "\n      ;;\n";
  }
  return text + "  esac\n}\n_dxgkit \"$@\"\n";
}

std::string fish_completion(const CLI::App& app) {
  std::string text =
      "# fish completion for dxgkit, made by the tool from its own options.\ncomplete -c dxgkit "
      "-f\n";
  const auto add = [&text](const std::string& condition, const CLI::Option& option) {
    text += fmt::format("complete -c dxgkit -n {}", in_fish_quotes(condition));
    for (const std::string& name : names_of(option))
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    switch (kind_of(option)) {
      case ValueKind::none:
      case ValueKind::optional:
        break;
      case ValueKind::words:
        text += fmt::format(" -x -a '{}'", fmt::join(words_of(option), " "));
        break;
      case ValueKind::files:
        text += " -r -F";
        break;
      case ValueKind::other:
        text += " -x";
        break;
    }
    text += fmt::format(" -d {}\n", in_fish_quotes(option.get_description()));
  };
  for (const CLI::Option* option : options_of(app)) add("__fish_use_subcommand", *option);
  for (const ManualCommand& command : manual_commands(app)) {
    text += fmt::format("complete -c dxgkit -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        in_fish_quotes(command.forms.front()->get_description()));
    const std::string condition = "__fish_seen_subcommand_from " + command.name;
    for (const CLI::Option* option : all_options(command)) add(condition, *option);
    if (command.name == "help")
      text += fmt::format("complete -c dxgkit -n '{}' -a '{}'\n", condition, command_names(app));
    if (takes_files(command) || command.name == "run-client" || command.name == "record" ||
        command.name == "gl")
      text += fmt::format("complete -c dxgkit -n '{}' -F\n", condition);
  }
  return text;
}

}  // namespace dxgkit::tool
