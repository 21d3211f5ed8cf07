// dxgkit new: a miniport with its client plug-in and build file, to begin with.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/new_driver/texts.h"
#include "tools/dxgkit/settings/settings_file.h"

namespace dxgkit::tool {
namespace {

/// The name stands in file names, in C and in CMake.
bool can_name_a_driver(std::string_view text) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto rest = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.size() <= 40 && letter(text.front()) && text != "client" &&
         std::ranges::all_of(text, rest);
}

/// "my_gpu": "MyGpu".
std::string as_prefix(std::string_view name) {
  std::string out;
  bool begins = true;
  for (const char c : name) {
    if (c == '_') {
      begins = true;
      continue;
    }
    out += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begins = false;
  }
  return out;
}

/// Replaces `word`. With `before_capital` only where an upper-case letter follows: FirstPatch.
std::string replaced(std::string_view source, std::string_view word, std::string_view by,
                     bool before_capital = false) {
  std::string text(source);
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    const size_t end = at + word.size();
    const bool capital =
        end < text.size() && std::isupper(static_cast<unsigned char>(text[end])) != 0;
    if (before_capital && !capital) {
      at = end;
      continue;
    }
    text.replace(at, word.size(), by);
    at += by.size();
  }
  return text;
}

std::string source_for(std::string_view source, const std::string& name) {
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(), [](char c) {
    return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  });
  std::string text = replaced(source, "First", as_prefix(name), /*before_capital=*/true);
  text = replaced(text, "FIRST_", upper + "_");
  return replaced(text, "\"first\"", "\"" + name + "\"");
}

}  // namespace

int new_command(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal() / "";
  const std::string name = path.parent_path().filename().string();
  if (!can_name_a_driver(name))
    return bad_input(fmt::format(
        "{}: the last part of the path is the driver's name: small letters, digits and _", folder));
  const std::vector<std::pair<std::string, std::string>> files = {
      {name + ".c", source_for(kDriverSource, name)},
      {"client.c", source_for(kDriverClient, name)},
      {"CMakeLists.txt", replaced(kDriverBuild, "skeleton", name)},
      {std::string(kSettingsName), std::string(kDriverSettings)}};
  std::error_code error;
  for (const auto& [file, text] : files) {
    const std::string whole = (path / file).string();
    if (std::filesystem::exists(std::filesystem::symlink_status(whole, error)))
      return bad_input(whole + ": it exists already");
  }
  std::filesystem::create_directories(path, error);
  if (error) return not_written(fmt::format("{}: {}", folder, error.message()));
  for (const auto& [file, text] : files) {
    if (const auto written = write_file((path / file).string(), text); !written)
      return not_written(written.error());
  }
  say(stdout,
      "{0}/{1}.c: a driver that works, for a GPU that is a thread. Build it, check it, change it:\n"
      "  cmake -S {0} -B {0}/build && cmake --build {0}/build\n"
      "  dxgkit check {0}/build/miniports/{1}.sys\n",
      path.parent_path().string(), name);
  return kExitDone;
}

}  // namespace dxgkit::tool
