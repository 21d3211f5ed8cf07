// dxgkit new-client: the skeleton of a client plug-in, to be completed by the driver's author.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/new_client/skeleton.h"

namespace dxgkit::tool {
namespace {

/// The name stands in file names, in CMake and in messages.
bool is_name(std::string_view text) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto rest = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.size() <= 64 && letter(text.front()) &&
         std::ranges::all_of(text, rest);
}

std::string named(std::string_view skeleton, std::string_view name) {
  constexpr std::string_view kPlaceholder = "skeleton";
  std::string text(skeleton);
  for (size_t at = text.find(kPlaceholder); at != std::string::npos;
       at = text.find(kPlaceholder, at + name.size()))
    text.replace(at, kPlaceholder.size(), name);
  return text;
}

int refuse(std::string_view text) {
  fmt::print(stderr, "dxgkit: {}\n", text);
  return kExitBadInput;
}

}  // namespace

int new_client_command(const std::string& folder) {
  const std::filesystem::path path =
      std::filesystem::path(folder).lexically_normal() / "";  // "a/b" and "a/b/" are the same
  const std::string name = path.parent_path().filename().string();
  if (!is_name(name))
    return refuse(fmt::format(
        "{}: the last part of the path is the plug-in's name: small letters, digits and _",
        folder));
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return refuse(fmt::format("{}: {}", folder, error.message()));
  const std::string source = (path / (name + ".c")).string();
  const std::string build = (path / "CMakeLists.txt").string();
  for (const std::string& file : {source, build}) {
    if (std::filesystem::exists(file, error)) return refuse(file + ": it exists already");
  }
  for (const auto& [file, text] : {std::pair{source, named(kSkeletonSource, name)},
                                   std::pair{build, named(kSkeletonBuild, name)}}) {
    if (const auto written = write_file(file, text); !written) return refuse(written.error());
  }
  fmt::print(
      "{}: complete the functions that return NOT_WRITTEN, then\n"
      "  cmake -S {} -B {}/build && cmake --build {}/build\n"
      "  dxgkit verify DRIVER.sys --client {}/build/{}.so\n",
      source, folder, folder, folder, folder, name);
  return kExitDone;
}

}  // namespace dxgkit::tool
