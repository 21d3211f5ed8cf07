#include "tools/dxgkit/driver_path.h"

#include <fmt/format.h>

#include <filesystem>
#include <span>

#include "base/companion_file.h"
#include "tools/dxgkit/doctor/image_facts.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {
namespace {

struct BuiltIn {
  const char* name;
  const char* file;
  const char* path;  // where the build left it; empty in packages
};
constexpr BuiltIn kBuiltIn[] = {
    {kBuiltInDriver, DXGKIT_SOFTGPU_FILE, DXGKIT_SOFTGPU_PATH},
    {kBuiltInDriverWddm2, DXGKIT_SOFTGPU_WDDM2_FILE, DXGKIT_SOFTGPU_WDDM2_PATH},
    {kBuiltInDriverScreen, DXGKIT_SOFTGPU_SCREEN_FILE, DXGKIT_SOFTGPU_SCREEN_PATH},
    {kBuiltInDriverScreenWddm2, DXGKIT_SOFTGPU_SCREEN_WDDM2_FILE, DXGKIT_SOFTGPU_SCREEN_WDDM2_PATH},
    {kBuiltInDriverWrong, DXGKIT_WRONG_FILE, DXGKIT_WRONG_PATH},
    {kBuiltInDriverVirtioGpu, DXGKIT_VIRTIOGPU_FILE, DXGKIT_VIRTIOGPU_PATH},
    {kBuiltInDriverVirtioGpuWddm2, DXGKIT_VIRTIOGPU_WDDM2_FILE, DXGKIT_VIRTIOGPU_WDDM2_PATH},
};

const BuiltIn* built_in_driver(const std::string& name) {
  for (const BuiltIn& one : kBuiltIn) {
    if (name == one.name) return &one;
  }
  return nullptr;
}

}  // namespace

bool is_named_driver(const std::string& driver) { return built_in_driver(driver) != nullptr; }

std::expected<std::string, std::string> find_driver(const std::string& driver) {
  std::error_code error;
  std::string path = driver;
  if (const BuiltIn* const built_in = built_in_driver(driver)) {
    path = find_companion({built_in->file, DXGKIT_DRIVERS_FROM_TOOL, {built_in->path}});
  }
  if (!std::filesystem::exists(path, error)) {
    return std::unexpected(fmt::format("{}: there is no such driver file", path));
  }
  const std::expected<std::string, std::string> image = read_file(path);
  if (!image.has_value()) return std::unexpected(image.error());
  if (!image->starts_with("\x7F"
                          "ELF") &&
      !image->starts_with("MZ")) {
    return std::unexpected(fmt::format(
        "{}: not a driver: neither a PE file (.sys) nor the ELF form of a driver (.so)", path));
  }
  return path;
}

std::expected<std::string, std::string> find_loadable_driver(const std::string& driver) {
  std::expected<std::string, std::string> path = find_driver(driver);
  if (!path.has_value()) return path;
  const std::expected<std::string, std::string> image = read_file(*path);
  if (!image.has_value()) return std::unexpected(image.error());
  const auto facts = read_image_facts(std::as_bytes(std::span(image->data(), image->size())));
  if (!facts.has_value())
    return std::unexpected(fmt::format("{}: not a driver: {}", *path, facts.error()));
  if (const auto why = no_driver(*facts))
    return std::unexpected(fmt::format("{}: not a driver: {}", *path, *why));
  if (!facts->runs_here)
    return std::unexpected(fmt::format("{}: {}", *path, built_for_another_machine(*facts)));
  return path;
}

}  // namespace dxgkit::tool
