// What a debugger is told of a mapped image: an ELF file with symbols, unwind data and DWARF, all
// at the addresses where the image lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "loader/dwarf.h"
#include "loader/elf_image.h"
#include "loader/pe_image.h"

namespace dxgkit::loader {

struct SymbolFile {
  /// A section of the image. The debugger reads its contents from the process.
  struct Section {
    std::string name;
    uint64_t address = 0, size = 0;
    bool write = false, execute = false;
  };
  struct Symbol {
    std::string name;
    uint64_t address = 0, size = 0;
  };
  std::vector<Section> sections;
  std::vector<Symbol> symbols;
  DwarfSections dwarf;  // with addresses of the process; .debug_frame too
  /// The .eh_frame of an ELF twin, which is relative to its own address.
  std::vector<std::byte> eh_frame;
  uint64_t eh_frame_address = 0;
};

/// What the file of a mapped image says of it. DWARF that is not understood is left out.
SymbolFile symbols_of(const PePlan& plan, std::span<const std::byte> file, const std::byte* base);
SymbolFile symbols_of(const ElfPlan& plan, std::span<const std::byte> file, const std::byte* base);

/// The bytes of an ELF file that has all of it.
std::vector<std::byte> to_elf(const SymbolFile& symbols);

}  // namespace dxgkit::loader
