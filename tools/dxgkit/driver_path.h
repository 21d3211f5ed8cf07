// The places of drivers.
#pragma once

#include <expected>
#include <string>

namespace dxgkit::tool {

/// The drivers that come with the project, by name: WDDM 1.3, and the same sources for 2.0.
inline constexpr const char* kBuiltInDriver = "softgpu";
inline constexpr const char* kBuiltInDriverWddm2 = "softgpu_wddm2";
/// The same drivers with a screen, if the registry gives it a size.
inline constexpr const char* kBuiltInDriverScreen = "softgpu_screen";
inline constexpr const char* kBuiltInDriverScreenWddm2 = "softgpu_screen_wddm2";
/// Our driver for the virtio GPU: WDDM 1.3, and the same sources for 2.0.
inline constexpr const char* kBuiltInDriverVirtioGpu = "virtiogpu";
inline constexpr const char* kBuiltInDriverVirtioGpuWddm2 = "virtiogpu_wddm2";
/// The tutorial's driver with mistakes, to try the tool on.
inline constexpr const char* kBuiltInDriverWrong = "wrong";
/// One of softgpu's.
inline bool is_built_in(const std::string& driver) {
  return driver == kBuiltInDriver || driver == kBuiltInDriverWddm2 ||
         driver == kBuiltInDriverScreen || driver == kBuiltInDriverScreenWddm2;
}

/// One of all these names, and no path.
bool is_named_driver(const std::string& driver);

/// The file behind --driver: a built-in driver's image (beside the executable, else where the
/// build left it), or the path itself. The error is one sentence: missing, not a regular file,
/// neither a PE nor an ELF image by its first bytes.
std::expected<std::string, std::string> find_driver(const std::string& driver);
/// The same, with an error for a file that no kernel can load on this host, as far as its headers
/// tell.
std::expected<std::string, std::string> find_loadable_driver(const std::string& driver);

}  // namespace dxgkit::tool
