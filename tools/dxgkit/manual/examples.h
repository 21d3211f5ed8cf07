// Examples of use, a few for each command: --help and the man pages show them, and a test parses
// them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::tool {

/// One command line as a person would type it, and what it is good for.
struct Example {
  std::string_view command;  ///< "" for the tool itself
  std::string_view
      line;  ///< begins with "dxgkit"; words are separated by single spaces, without quotes
  std::string_view purpose;  ///< one phrase
};

/// All of them, those of a command beside each other.
const std::vector<Example>& examples();

/// The examples of the command with that name. Empty for a hidden one.
std::vector<Example> examples_of(std::string_view command);

/// The words of an example behind "dxgkit".
std::vector<std::string> words_of(const Example& example);

/// Help as CLI11 formats it, with the examples of the command at the end.
class HelpFormatter : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_footer(const CLI::App* app) const override;
};

}  // namespace dxgkit::tool
