#include "tools/dxgkit/manual/words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace dxgkit::tool {
namespace {

template <std::size_t Size>
bool one_of(const std::array<std::string_view, Size>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

/// Arguments of commands that are no paths.
constexpr std::array<std::string_view, 5> kNoPaths = {"SEED", "NAME", "AREA", "RULE|CODE",
                                                      "COMMAND"};
/// Types of options that are paths. CLI11 says TEXT of an option whose type has no other name.
constexpr std::array<std::string_view, 6> kPaths = {"TEXT",   "FILE",   "PATH",
                                                    "FOLDER", "DEVICE", "FILE.dxgk"};

}  // namespace

bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t range = type.find(" in [");  // UINT in [1 - 64], behind a colon
  return range == std::string::npos ? type : type.substr(0, type.rfind(':', range));
}

std::vector<std::string> words_of(const CLI::Option& option) {
  const std::string type = value_name(option);
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= type.size();) {
    const std::size_t end = std::min(type.find('|', at), type.size());
    const std::string word = type.substr(at, end - at);
    words.push_back(word.substr(0, word.find('[')));
    at = end + 1;
  }
  return words;
}

ValueKind kind_of(const CLI::Option& option) {
  const std::string type = value_name(option);
  if (names_of(option).empty()) {
    return one_of(kNoPaths, option.get_name(true)) ? ValueKind::other : ValueKind::files;
  }
  if (option.get_items_expected_max() == 0 || type.empty()) return ValueKind::none;
  if (type.starts_with("[=")) return ValueKind::optional;
  if (type.contains('|') && std::islower(static_cast<unsigned char>(type.front())) != 0)
    return ValueKind::words;
  return one_of(kPaths, type) ? ValueKind::files : ValueKind::other;
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options(
      [](const CLI::Option* option) { return !is_hidden(*option) && !names_of(*option).empty(); });
}

std::vector<const CLI::Option*> arguments_of(const CLI::App& command) {
  return command.get_options(
      [](const CLI::Option* option) { return !is_hidden(*option) && option->get_positional(); });
}

}  // namespace dxgkit::tool
