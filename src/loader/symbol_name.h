// Names that a driver's file has, as a person reads them.
#pragma once

#include <string>
#include <string_view>

namespace dxgkit::loader {

/// The text with every character that is not printable ASCII replaced by '?'.
std::string printable(std::string_view text);

/// "softgpu::read_user" out of "?read_user@softgpu@@YAJPEAX@Z", as Microsoft's compiler and clang
/// decorate it, or out of the same name in an ELF twin, which has '~' for '@'
/// (cmake/miniport_rename.sh). Each anonymous namespace is "(anonymous)": the number it has in the
/// symbol comes from the path of the source. Constructors, operators and C names are given as they
/// are. The result is printable. Any thread; linear in the name.
std::string readable_name(std::string_view name);

}  // namespace dxgkit::loader
