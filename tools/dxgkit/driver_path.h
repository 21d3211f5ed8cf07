// Where drivers are found.
#pragma once

#include <expected>
#include <string>

namespace dxgkit::tool {

/// The driver that comes with the project, by name.
inline constexpr const char* kBuiltInDriver = "softgpu";

/// The file behind --driver: the built-in driver's image (beside the executable, else where the
/// build left it), or the path itself. The error is one sentence: missing, not a regular file,
/// neither a PE nor an ELF image by its first bytes.
std::expected<std::string, std::string> find_driver(const std::string& driver);

}  // namespace dxgkit::tool
