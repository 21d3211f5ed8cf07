#include "base/companion_file.h"

#include <filesystem>

namespace dxgkit {

std::string own_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::string find_companion(const CompanionFile& file, std::string_view program) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(program).parent_path();
  const std::filesystem::path installed = folder / file.from_program / file.name;
  if (!folder.empty()) {
    for (const std::filesystem::path& candidate : {folder / file.name, installed}) {
      if (std::filesystem::exists(candidate, error)) return candidate.lexically_normal().string();
    }
  }
  for (const std::string_view candidate : file.elsewhere) {
    if (!candidate.empty() && std::filesystem::exists(candidate, error))
      return std::string(candidate);
  }
  return installed.lexically_normal().string();
}

}  // namespace dxgkit
