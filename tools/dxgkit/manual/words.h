// What pages and completions ask of an option or a command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace dxgkit::tool {

/// What the value of an option or of an argument can be.
enum class ValueKind {
  none,      ///< a flag
  words,     ///< one of a few words
  files,     ///< a path
  optional,  ///< a path behind '=', or nothing: the reports
  other,     ///< a number or a name, which nothing can complete
};

bool is_hidden(const CLI::Option& option);
ValueKind kind_of(const CLI::Option& option);
/// The words of ValueKind::words.
std::vector<std::string> words_of(const CLI::Option& option);
/// "-o", "--output"; empty for an argument.
std::vector<std::string> names_of(const CLI::Option& option);
/// What stands for its value in a synopsis, like FILE. The range of a number is left out.
std::string value_name(const CLI::Option& option);
/// Options that are shown, those with names.
std::vector<const CLI::Option*> options_of(const CLI::App& command);
/// Arguments that are shown, in their order.
std::vector<const CLI::Option*> arguments_of(const CLI::App& command);

}  // namespace dxgkit::tool
