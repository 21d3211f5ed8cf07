#include "loader/symbol_file.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"

namespace dxgkit::loader {
namespace {

class Writer {
 public:
  Writer() : bytes_(sizeof(Elf64_Ehdr)), headers_(1) {}

  /// A section without contents here.
  void add(const std::string& name, uint64_t flags, uint64_t address, uint64_t size) {
    header(name, SHT_NOBITS, flags, address, size);
  }
  void add(const std::string& name, uint32_t type, std::span<const std::byte> contents,
           uint64_t flags = 0, uint64_t address = 0) {
    bytes_.resize(align_up(bytes_.size(), 16));
    header(name, type, flags, address, contents.size());
    bytes_.insert(bytes_.end(), contents.begin(), contents.end());
  }
  void add_symbols(const std::vector<Elf64_Sym>& symbols, const std::string& names) {
    add(".symtab", SHT_SYMTAB, std::as_bytes(std::span(symbols)));
    headers_.back().sh_link = static_cast<uint32_t>(headers_.size());
    headers_.back().sh_info = 1;
    headers_.back().sh_entsize = sizeof(Elf64_Sym);
    headers_.back().sh_addralign = 8;
    add(".strtab", SHT_STRTAB, std::as_bytes(std::span(names)));
  }

  std::vector<std::byte> finish() && {
    const uint32_t name = name_of(".shstrtab");
    const std::string names = std::move(names_);
    add("", SHT_STRTAB, std::as_bytes(std::span(names)));
    headers_.back().sh_name = name;
    bytes_.resize(align_up(bytes_.size(), 16));
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_EXEC;  // addresses stand as they are
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_shoff = bytes_.size();
    header.e_ehsize = sizeof(Elf64_Ehdr);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(headers_.size());
    header.e_shstrndx = static_cast<uint16_t>(headers_.size() - 1);
    std::memcpy(bytes_.data(), &header, sizeof(header));
    const auto table = std::as_bytes(std::span(headers_));
    bytes_.insert(bytes_.end(), table.begin(), table.end());
    return std::move(bytes_);
  }

 private:
  void header(const std::string& name, uint32_t type, uint64_t flags, uint64_t address,
              uint64_t size) {
    Elf64_Shdr& header = headers_.emplace_back();
    header.sh_name = name_of(name);
    header.sh_type = type;
    header.sh_flags = flags;
    header.sh_addr = address;
    header.sh_offset = bytes_.size();
    header.sh_size = size;
    header.sh_addralign = 1;
  }
  uint32_t name_of(const std::string& name) {
    const auto at = static_cast<uint32_t>(names_.size());
    names_.append(name.c_str(), name.size() + 1);
    return at;
  }

  std::vector<std::byte> bytes_;
  std::vector<Elf64_Shdr> headers_;
  std::string names_ = std::string(1, '\0');
};

}  // namespace

std::vector<std::byte> to_elf(const SymbolFile& symbols) {
  Writer writer;
  for (const SymbolFile::Section& section : symbols.sections) {
    writer.add(section.name,
               SHF_ALLOC | (section.write ? uint64_t{SHF_WRITE} : 0) |
                   (section.execute ? uint64_t{SHF_EXECINSTR} : 0),
               section.address, section.size);
  }
  std::vector<Elf64_Sym> table(1);
  std::string names(1, '\0');
  for (const SymbolFile::Symbol& symbol : symbols.symbols) {
    const auto home = std::ranges::find_if(symbols.sections, [&](const auto& section) {
      return symbol.address - section.address < section.size;
    });
    if (home == symbols.sections.end()) continue;
    table.push_back({.st_name = static_cast<uint32_t>(names.size()),
                     .st_info = static_cast<unsigned char>(
                         ELF64_ST_INFO(STB_GLOBAL, home->execute ? STT_FUNC : STT_OBJECT)),
                     .st_other = STV_DEFAULT,
                     .st_shndx = static_cast<uint16_t>(home - symbols.sections.begin() + 1),
                     .st_value = symbol.address,
                     .st_size = symbol.size});
    names.append(symbol.name.c_str(), symbol.name.size() + 1);
  }
  if (!symbols.eh_frame.empty())
    writer.add(".eh_frame", SHT_PROGBITS, symbols.eh_frame, SHF_ALLOC, symbols.eh_frame_address);
  for (const auto& [name, contents] : symbols.dwarf) writer.add(name, SHT_PROGBITS, contents);
  writer.add_symbols(table, names);
  return std::move(writer).finish();
}

}  // namespace dxgkit::loader
