// DWARF of a linked file, moved to where the image lies in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::loader {

/// The sections of debugging information, by name (".debug_info").
using DwarfSections = std::map<std::string, std::vector<std::byte>, std::less<>>;

/// True for the sections that a debugger needs and that `move_dwarf` can move. Indexes are not
/// among them: debuggers make their own.
bool is_moved_dwarf(std::string_view name);

/// Adds `distance` to every address of code and data in DWARF 2 to 5, and takes mangled names out,
/// which gdb would show instead of those of the source. An address of 0 stands for
/// code that the linker left out, and stays 0. The bytes come from a driver's file and may be
/// anything. False: they are not understood, and some are changed already. Not known: 64-bit DWARF,
/// and addresses within range and location lists of DWARF 2 to 4, which clang and gcc have relative
/// to the unit's.
bool move_dwarf(DwarfSections& sections, uint64_t distance);

}  // namespace dxgkit::loader
