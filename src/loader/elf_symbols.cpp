// Symbols, unwind data and DWARF of an ELF twin.
#include <elf.h>

#include <cstring>

#include "base/arithmetic.h"
#include "loader/symbol_file.h"

namespace dxgkit::loader {
namespace {

/// The contents that the file has of a section; none if they lie outside it.
std::span<const std::byte> contents_of(const Elf64_Shdr& section, std::span<const std::byte> file) {
  if (section.sh_type == SHT_NOBITS ||
      !range_within(section.sh_offset, section.sh_size, file.size()))
    return {};
  return file.subspan(section.sh_offset, section.sh_size);
}

}  // namespace

SymbolFile symbols_of(const ElfPlan& plan, std::span<const std::byte> file, const std::byte* base) {
  const auto at = reinterpret_cast<uint64_t>(base);
  SymbolFile symbols;
  for (const ElfPlan::Function& function : plan.functions)
    symbols.symbols.push_back({function.name, at + function.address, function.size});
  // The parser has read the header.
  Elf64_Ehdr header{};
  std::memcpy(&header, file.data(), sizeof(header));
  const uint64_t table_bytes = uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum ||
      !range_within(header.e_shoff, table_bytes, file.size())) {
    return symbols;
  }
  std::vector<Elf64_Shdr> table(header.e_shnum);
  std::memcpy(table.data(), file.data() + header.e_shoff, table_bytes);
  const std::span<const std::byte> names = contents_of(table[header.e_shstrndx], file);
  bool understood = true;
  for (const Elf64_Shdr& section : table) {
    if (section.sh_name >= names.size()) continue;
    const auto* const text = reinterpret_cast<const char*>(names.data()) + section.sh_name;
    const std::string name(text, strnlen(text, names.size() - section.sh_name));
    const std::span<const std::byte> contents = contents_of(section, file);
    if (name == ".eh_frame") {
      symbols.eh_frame.assign(contents.begin(), contents.end());
      symbols.eh_frame_address = at + section.sh_addr;
    } else if ((section.sh_flags & SHF_ALLOC) != 0) {
      if (section.sh_type != SHT_PROGBITS && section.sh_type != SHT_NOBITS) continue;
      if (!range_within(section.sh_addr, section.sh_size, plan.size)) continue;
      symbols.sections.push_back({.name = name,
                                  .address = at + section.sh_addr,
                                  .size = section.sh_size,
                                  .write = (section.sh_flags & SHF_WRITE) != 0,
                                  .execute = (section.sh_flags & SHF_EXECINSTR) != 0});
    } else if (is_moved_dwarf(name)) {
      if ((section.sh_flags & SHF_COMPRESSED) != 0) understood = false;
      symbols.dwarf[name].assign(contents.begin(), contents.end());
    }
  }
  if (!understood || !move_dwarf(symbols.dwarf, at)) symbols.dwarf.clear();
  return symbols;
}

}  // namespace dxgkit::loader
