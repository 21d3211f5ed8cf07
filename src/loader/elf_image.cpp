#include "loader/elf_image.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/fixed_memory.h"
#include "loader/symbol_file.h"
#include "loader/symbol_name.h"

namespace dxgkit::loader {
namespace {

constexpr uint64_t kImageBytesMax = uint64_t{1} << 30;
constexpr size_t kProgramHeadersMax = 64;
constexpr size_t kDynamicEntriesMax = 4096;
constexpr size_t kSymbolsMax = 1 << 20;
constexpr size_t kRelocationsMax = 1 << 22;

/// Bytes of a file. Every read checks that it is inside.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> data) : data_(data) {}
  template <typename T>
  bool read(uint64_t offset, T* out) const {
    if (!range_within(offset, sizeof(T), data_.size())) return false;
    std::memcpy(out, data_.data() + offset, sizeof(T));
    return true;
  }
  /// A zero-terminated string; none if it runs past `limit` bytes or the end.
  std::optional<std::string> text(uint64_t offset, uint64_t limit) const {
    if (offset >= data_.size()) return std::nullopt;
    const uint64_t room = std::min<uint64_t>(limit, data_.size() - offset);
    const void* end = std::memchr(data_.data() + offset, 0, room);
    if (end == nullptr) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(data_.data() + offset));
  }
  uint64_t size() const { return data_.size(); }

 private:
  std::span<const std::byte> data_;
};

class Parser {
 public:
  Parser(std::span<const std::byte> file, std::string* message) : bytes_(file), message_(message) {}

  Result<ElfPlan> run() {
    if (!header() || !segments() || !dynamic() || !symbols() || !all_relocations() ||
        !initializers()) {
      return Error(Status::kInvalidImageFormat);
    }
    functions();
    return std::move(plan_);
  }

 private:
  bool fail(std::string reason) {
    *message_ = "Not a driver: " + std::move(reason);
    return false;
  }

  bool header() {
    unsigned char ident[EI_NIDENT];
    if (!bytes_.read(0, &ident))
      return fail(fmt::format("the file is {} bytes, too short for an ELF header.", bytes_.size()));
    if (std::memcmp(ident, ELFMAG, SELFMAG) != 0) {
      if (ident[0] == 'M' && ident[1] == 'Z')
        return fail("it is a PE file; only the ELF form is loaded here.");
      return fail("it is not an ELF file.");
    }
    if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB)
      return fail("it is not a 64-bit little-endian ELF file.");
    if (!bytes_.read(0, &header_)) return fail("the ELF header is cut off.");
    if (header_.e_machine != EM_X86_64)
      return fail(fmt::format("it is for machine {}, not x86-64.", header_.e_machine));
    if (header_.e_type != ET_DYN) return fail("it is not a shared object.");
    if (header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phnum == 0 ||
        header_.e_phnum > kProgramHeadersMax) {
      return fail("its program headers are malformed.");
    }
    return true;
  }

  bool segments() {
    for (uint32_t i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr entry;
      uint64_t offset = 0;
      if (!checked_add<uint64_t>(header_.e_phoff, uint64_t{i} * sizeof(entry), &offset) ||
          !bytes_.read(offset, &entry)) {
        return fail("its program headers lie outside the file.");
      }
      if (entry.p_type == PT_DYNAMIC) dynamic_ = entry;
      if (entry.p_type == PT_GNU_RELRO) relro_ = entry;
      if (entry.p_type == PT_INTERP) return fail("it asks for an interpreter.");
      if (entry.p_type == PT_TLS && entry.p_memsz > 0)
        return fail("it has thread-local data, which a kernel has not.");
      if (entry.p_type != PT_LOAD || entry.p_memsz == 0) continue;
      if (!load_segment(entry)) return false;
    }
    if (plan_.segments.empty()) return fail("it has nothing to load.");
    if (relro_.has_value() && range_within(relro_->p_vaddr, relro_->p_memsz, plan_.size)) {
      // Only whole pages can be protected.
      plan_.relro_address = align_down(relro_->p_vaddr, kPageBytes);
      plan_.relro_size =
          align_down(relro_->p_vaddr + relro_->p_memsz, kPageBytes) - plan_.relro_address;
      if (plan_.relro_address + plan_.relro_size > plan_.size) plan_.relro_size = 0;
    }
    return true;
  }

  bool load_segment(const Elf64_Phdr& entry) {
    uint64_t end = 0;
    if (entry.p_filesz > entry.p_memsz ||
        !range_within(entry.p_offset, entry.p_filesz, bytes_.size()) ||
        !checked_add<uint64_t>(entry.p_vaddr, entry.p_memsz, &end) ||
        !checked_align_up(end, kPageBytes, &end) || end > kImageBytesMax) {
      return fail(fmt::format(
          "a segment of {} bytes lies outside the file or the image; the file may be cut off.",
          entry.p_filesz));
    }
    if ((entry.p_flags & PF_W) != 0 && (entry.p_flags & PF_X) != 0)
      return fail("a segment is writable and executable at once.");
    const uint64_t start = align_down(entry.p_vaddr, kPageBytes);
    if (!plan_.segments.empty()) {
      const ElfPlan::Segment& last = plan_.segments.back();
      if (start < align_up(last.address + last.memory_size, kPageBytes))
        return fail("its segments overlap or are not in order.");
    }
    plan_.segments.push_back({.address = entry.p_vaddr,
                              .memory_size = entry.p_memsz,
                              .file_offset = entry.p_offset,
                              .file_size = entry.p_filesz,
                              .write = (entry.p_flags & PF_W) != 0,
                              .execute = (entry.p_flags & PF_X) != 0});
    plan_.size = std::max(plan_.size, end);
    return true;
  }

  /// File offset of [address, address + size) of the image, if the file has it.
  std::optional<uint64_t> offset_of(uint64_t address, uint64_t size) const {
    for (const ElfPlan::Segment& segment : plan_.segments) {
      if (address >= segment.address &&
          range_within(address - segment.address, size, segment.file_size)) {
        return segment.file_offset + (address - segment.address);
      }
    }
    return std::nullopt;
  }

  template <typename T>
  bool read_at(uint64_t address, T* out) const {
    const auto offset = offset_of(address, sizeof(T));
    return offset.has_value() && bytes_.read(*offset, out);
  }

  bool dynamic() {
    if (!dynamic_.has_value()) return fail("it has no dynamic section.");
    const uint64_t count =
        std::min<uint64_t>(dynamic_->p_filesz / sizeof(Elf64_Dyn), kDynamicEntriesMax);
    for (uint64_t i = 0; i < count; ++i) {
      Elf64_Dyn entry;
      if (!range_within(dynamic_->p_offset, (i + 1) * sizeof(entry), bytes_.size()) ||
          !bytes_.read(dynamic_->p_offset + i * sizeof(entry), &entry)) {
        return fail("its dynamic section lies outside the file.");
      }
      const uint64_t value = entry.d_un.d_val;
      switch (entry.d_tag) {
        case DT_NULL:
          return true;
        case DT_NEEDED:
          return fail("it needs another shared object; a driver imports from the kernel only.");
        case DT_SYMTAB:
          symbol_table_ = value;
          break;
        case DT_STRTAB:
          string_table_ = value;
          break;
        case DT_STRSZ:
          string_bytes_ = value;
          break;
        case DT_SYMENT:
          if (value != sizeof(Elf64_Sym)) return fail("its symbol table is malformed.");
          break;
        case DT_HASH:
          hash_table_ = value;
          break;
        case DT_GNU_HASH:
          gnu_hash_table_ = value;
          break;
        case DT_RELA:
          rela_ = value;
          break;
        case DT_RELASZ:
          rela_bytes_ = value;
          break;
        case DT_RELAENT:
          if (value != sizeof(Elf64_Rela)) return fail("its relocations are malformed.");
          break;
        case DT_JMPREL:
          plt_ = value;
          break;
        case DT_PLTRELSZ:
          plt_bytes_ = value;
          break;
        case DT_PLTREL:
          if (value != DT_RELA)
            return fail("its procedure-linkage relocations are of an unknown kind.");
          break;
        case DT_INIT_ARRAY:
          init_array_ = value;
          break;
        case DT_INIT_ARRAYSZ:
          init_array_bytes_ = value;
          break;
        case DT_RELRSZ:
        case DT_RELR:
          return fail("it has packed relocations; link without -z pack-relative-relocs.");
        case DT_REL:
          return fail("it has relocations without addends.");
        default:
          break;
      }
    }
    return true;
  }

  /// The dynamic section does not say how many symbols there are; the hash tables and the
  /// relocations do.
  bool count_symbols(uint64_t* count) {
    *count = 0;
    if (hash_table_ != 0) {
      uint32_t words[2];
      if (!read_at(hash_table_, &words)) return fail("its hash table lies outside the file.");
      *count = words[1];
    } else if (gnu_hash_table_ != 0) {
      if (!count_gnu_hash(count)) return false;
    }
    for (const auto& [start, size] : {std::pair(rela_, rela_bytes_), std::pair(plt_, plt_bytes_)}) {
      for (uint64_t i = 0; i < std::min<uint64_t>(size / sizeof(Elf64_Rela), kRelocationsMax);
           ++i) {
        Elf64_Rela entry;
        if (!read_at(start + i * sizeof(entry), &entry))
          break;  // refused where they are read for good
        *count = std::max<uint64_t>(*count, ELF64_R_SYM(entry.r_info) + uint64_t{1});
      }
    }
    if (*count > kSymbolsMax) return fail("it has too many symbols.");
    return true;
  }

  bool count_gnu_hash(uint64_t* count) {
    uint32_t head[4];  // buckets, first hashed symbol, bloom words, shift
    if (!read_at(gnu_hash_table_, &head)) return fail("its hash table lies outside the file.");
    if (head[0] > kSymbolsMax || head[2] > kSymbolsMax) return fail("its hash table is malformed.");
    const uint64_t buckets = gnu_hash_table_ + sizeof(head) + uint64_t{head[2]} * 8;
    const uint64_t chains = buckets + uint64_t{head[0]} * 4;
    uint32_t last = 0;
    for (uint32_t i = 0; i < head[0]; ++i) {
      uint32_t bucket = 0;
      if (!read_at(buckets + uint64_t{i} * 4, &bucket))
        return fail("its hash table lies outside the file.");
      last = std::max(last, bucket);
    }
    if (last < head[1]) {
      *count = head[1];
      return true;
    }
    for (uint64_t index = last; index < kSymbolsMax; ++index) {
      uint32_t chain = 0;
      if (!read_at(chains + (index - head[1]) * 4, &chain))
        return fail("its hash table lies outside the file.");
      if ((chain & 1U) != 0) {
        *count = index + 1;
        return true;
      }
    }
    return fail("its hash table is malformed.");
  }

  bool symbols() {
    uint64_t count = 0;
    if (symbol_table_ == 0 || string_table_ == 0) return fail("it exports nothing.");
    if (!count_symbols(&count)) return false;
    const auto strings = offset_of(string_table_, string_bytes_);
    if (!strings.has_value()) return fail("its string table lies outside the file.");
    for (uint64_t i = 0; i < count; ++i) {
      Elf64_Sym entry;
      if (!read_at(symbol_table_ + i * sizeof(entry), &entry))
        return fail("its symbol table lies outside the file.");
      ElfPlan::Symbol symbol;
      if (entry.st_name >= string_bytes_ && i != 0)
        return fail("a symbol name lies outside the string table.");
      if (i != 0) {
        auto name = bytes_.text(*strings + entry.st_name, string_bytes_ - entry.st_name);
        if (!name.has_value()) return fail("a symbol name has no end.");
        symbol.name = std::move(*name);
      }
      symbol.weak = ELF64_ST_BIND(entry.st_info) == STB_WEAK;
      symbol.defined = entry.st_shndx != SHN_UNDEF;
      if (symbol.defined) {
        if (ELF64_ST_TYPE(entry.st_info) == STT_GNU_IFUNC)
          return fail(fmt::format("{} is an indirect function.", symbol.name));
        if (entry.st_shndx == SHN_ABS || entry.st_value > plan_.size) {
          return fail(fmt::format("symbol {} lies outside the image.", symbol.name));
        }
        symbol.address = entry.st_value;
        symbol.size = entry.st_size;
        symbol.variable = ELF64_ST_TYPE(entry.st_info) == STT_OBJECT;
      }
      plan_.symbols.push_back(std::move(symbol));
    }
    return true;
  }

  void functions() {
    if (header_.e_shentsize != sizeof(Elf64_Shdr)) return;
    Elf64_Shdr table{}, strings{};
    const auto section = [&](uint64_t index, Elf64_Shdr* out) {
      // A sum that wraps leads somewhere in the file, or is refused: nothing but a name hangs on
      // it.
      return index < header_.e_shnum &&
             bytes_.read(header_.e_shoff + index * sizeof(Elf64_Shdr), out);
    };
    uint64_t index = 0;
    while (section(index, &table) && table.sh_type != SHT_SYMTAB) ++index;
    if (index >= header_.e_shnum || table.sh_type != SHT_SYMTAB) return;
    if (!section(table.sh_link, &strings)) return;
    const uint64_t count = std::min<uint64_t>(table.sh_size / sizeof(Elf64_Sym), kSymbolsMax);
    for (uint64_t i = 0; i < count; ++i) {
      Elf64_Sym entry;
      if (!bytes_.read(table.sh_offset + i * sizeof(entry), &entry)) break;
      if (ELF64_ST_TYPE(entry.st_info) != STT_FUNC || entry.st_shndx == SHN_UNDEF ||
          entry.st_value >= plan_.size || entry.st_name >= strings.sh_size)
        continue;
      auto name = bytes_.text(strings.sh_offset + entry.st_name, strings.sh_size - entry.st_name);
      if (name.has_value())
        plan_.functions.push_back({std::move(*name), entry.st_value, entry.st_size});
    }
    std::ranges::stable_sort(plan_.functions, {}, &ElfPlan::Function::address);
  }

  bool relocations(uint64_t start, uint64_t size) {
    if (size == 0) return true;
    if (size / sizeof(Elf64_Rela) > kRelocationsMax) return fail("it has too many relocations.");
    for (uint64_t i = 0; i < size / sizeof(Elf64_Rela); ++i) {
      Elf64_Rela entry;
      if (!read_at(start + i * sizeof(entry), &entry))
        return fail("its relocations lie outside the file.");
      ElfPlan::Relocation relocation{.address = entry.r_offset, .addend = entry.r_addend};
      const auto symbol = static_cast<uint32_t>(ELF64_R_SYM(entry.r_info));
      switch (ELF64_R_TYPE(entry.r_info)) {
        case R_X86_64_NONE:
          continue;
        case R_X86_64_RELATIVE:
          relocation.kind = ElfPlan::Relocation::Kind::kRelative;
          break;
        case R_X86_64_64:
          relocation.kind = ElfPlan::Relocation::Kind::kAbsolute64;
          break;
        case R_X86_64_GLOB_DAT:
        case R_X86_64_JUMP_SLOT:
          relocation.kind = ElfPlan::Relocation::Kind::kSymbol64;
          break;
        default:
          return fail(
              fmt::format("it has a relocation of type {}, which this loader does not know.",
                          ELF64_R_TYPE(entry.r_info)));
      }
      if (!writable(relocation.address))
        return fail("a relocation lies outside the writable part of the image.");
      if (relocation.kind != ElfPlan::Relocation::Kind::kRelative) {
        if (symbol >= plan_.symbols.size())
          return fail("a relocation names a symbol that does not exist.");
        relocation.symbol = symbol;
      }
      plan_.relocations.push_back(relocation);
    }
    return true;
  }

  bool all_relocations() {
    return relocations(rela_, rela_bytes_) && relocations(plt_, plt_bytes_);
  }

  bool writable(uint64_t address) const {
    return std::ranges::any_of(plan_.segments, [&](const ElfPlan::Segment& segment) {
      return segment.write && address >= segment.address &&
             range_within(address - segment.address, 8, segment.memory_size);
    });
  }

  bool initializers() {
    if (init_array_bytes_ / 8 > kDynamicEntriesMax) return fail("it has too many initializers.");
    for (uint64_t i = 0; i < init_array_bytes_ / 8; ++i) {
      uint64_t ignored = 0;
      if (!read_at(init_array_ + i * 8, &ignored))
        return fail("its initializers lie outside the file.");
      plan_.initializers.push_back(init_array_ + i * 8);
    }
    return true;
  }

  Bytes bytes_;
  std::string* message_;
  ElfPlan plan_;
  Elf64_Ehdr header_{};
  std::optional<Elf64_Phdr> dynamic_, relro_;
  uint64_t symbol_table_ = 0, string_table_ = 0, string_bytes_ = 0, hash_table_ = 0,
           gnu_hash_table_ = 0;
  uint64_t rela_ = 0, rela_bytes_ = 0, plt_ = 0, plt_bytes_ = 0, init_array_ = 0,
           init_array_bytes_ = 0;
};

}  // namespace

const ElfPlan::Symbol* ElfPlan::find_defined(std::string_view name) const {
  const auto found = std::ranges::find_if(
      symbols, [&](const Symbol& symbol) { return symbol.defined && symbol.name == name; });
  return found == symbols.end() ? nullptr : &*found;
}

Result<ElfPlan> parse_elf(std::span<const std::byte> file, std::string* message) {
  return Parser(file, message).run();
}

Result<std::unique_ptr<ElfImage>> ElfImage::load(std::span<const std::byte> file,
                                                 const ImportResolver& resolve,
                                                 std::string* message) {
  Result<ElfPlan> plan = parse_elf(file, message);
  if (!plan.has_value()) return Error(plan.error());
  std::unique_ptr<ElfImage> image(new ElfImage());
  image->plan_ = std::move(*plan);
  const ElfPlan& p = image->plan_;
  if (!p.initializers.empty()) {
    *message =
        "Not a driver: it has initializers (global constructors), which nobody runs in a kernel.";
    return Error(Status::kInvalidImageFormat);
  }
  void* base =
      map_fixed(FixedRange::kImages, p.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (base == MAP_FAILED) {
    *message = "There is no memory for the image.";
    return Error(Status::kNoMemory);
  }
  image->base_ = static_cast<std::byte*>(base);
  for (const ElfPlan::Segment& segment : p.segments) {
    std::memcpy(image->base_ + segment.address, file.data() + segment.file_offset,
                segment.file_size);
  }
  const auto base_address = reinterpret_cast<uint64_t>(base);
  std::string missing;
  for (const ElfPlan::Relocation& relocation : p.relocations) {
    uint64_t value = base_address + static_cast<uint64_t>(relocation.addend);
    if (relocation.kind != ElfPlan::Relocation::Kind::kRelative) {
      const ElfPlan::Symbol& symbol = p.symbols[relocation.symbol];
      if (symbol.defined) {
        value = base_address + symbol.address;
      } else {
        const void* address = resolve({.library = {}, .name = symbol.name}).address;
        if (address == nullptr && !symbol.weak)
          missing += (missing.empty() ? "" : ", ") + symbol.name;
        value = reinterpret_cast<uint64_t>(address);
      }
      if (relocation.kind == ElfPlan::Relocation::Kind::kAbsolute64)
        value += static_cast<uint64_t>(relocation.addend);
    }
    std::memcpy(image->base_ + relocation.address, &value, sizeof(value));
  }
  if (!missing.empty()) {
    *message = "These imports do not exist: " + missing + ".";
    return Error(Status::kObjectNameNotFound);
  }
  for (const ElfPlan::Symbol& symbol : p.symbols) {
    if (!symbol.defined || !symbol.weak || !symbol.variable) continue;
    const ImportAnswer variable = resolve({.library = {}, .name = symbol.name});
    if (variable.address == nullptr || variable.data_bytes == 0 ||
        variable.data_bytes != symbol.size)
      continue;
    const bool inside = std::ranges::any_of(p.segments, [&](const ElfPlan::Segment& segment) {
      return segment.write && symbol.address >= segment.address &&
             range_within(symbol.address - segment.address, symbol.size, segment.memory_size);
    });
    if (inside) std::memcpy(image->base_ + symbol.address, variable.address, variable.data_bytes);
  }
  for (const ElfPlan::Segment& segment : p.segments) {
    const uint64_t start = align_down(segment.address, kPageBytes);
    const uint64_t end = align_up(segment.address + segment.memory_size, kPageBytes);
    const int protection =
        PROT_READ | (segment.write ? PROT_WRITE : 0) | (segment.execute ? PROT_EXEC : 0);
    DXGKIT_CHECK(mprotect(image->base_ + start, end - start, protection) == 0);
  }
  if (p.relro_size > 0)
    DXGKIT_CHECK(mprotect(image->base_ + p.relro_address, p.relro_size, PROT_READ) == 0);
  if (debugger_listens()) {
    image->announcement_ =
        std::make_unique<Announcement>(to_elf(symbols_of(p, file, image->base_)));
  }
  return image;
}

ElfImage::~ElfImage() {
  announcement_.reset();
  if (base_ != nullptr) unmap_fixed(base_, plan_.size);
}

void* ElfImage::find(std::string_view name) const {
  const ElfPlan::Symbol* symbol = plan_.find_defined(name);
  return symbol == nullptr ? nullptr : base_ + symbol->address;
}

std::vector<std::string> ElfImage::imports() const {
  std::vector<std::string> names;
  for (const ElfPlan::Symbol& symbol : plan_.symbols) {
    if (!symbol.defined && !symbol.name.empty()) names.push_back(symbol.name);
  }
  return names;
}

std::string ElfImage::symbol(uint64_t rva) const {
  const auto named = [&](std::string_view name, uint64_t address) {
    return fmt::format("{}+{:#x}", readable_name(name), rva - address);
  };
  // Only within a function: behind the last that has a name lies code of another.
  const auto after =
      std::ranges::upper_bound(plan_.functions, rva, {}, &ElfPlan::Function::address);
  if (after != plan_.functions.begin()) {
    const ElfPlan::Function& found = *std::prev(after);
    if (rva - found.address < found.size) return named(found.name, found.address);
  }
  for (const ElfPlan::Symbol& symbol : plan_.symbols) {
    if (symbol.defined && !symbol.name.empty() && symbol.address <= rva &&
        rva - symbol.address < symbol.size)
      return named(symbol.name, symbol.address);
  }
  return "";
}

}  // namespace dxgkit::loader
