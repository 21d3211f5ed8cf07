// Headers, sections, relocations, imports and exports of a PE32+ driver. pe_tables.cpp has the
// exception directory and the informative tables.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "loader/pe_parser.h"
#include "loader/symbol_name.h"

namespace dxgkit::loader {
namespace {

constexpr uint32_t kImageBytesMax = uint32_t{1} << 29;
constexpr uint32_t kSectionsMax = 96;
constexpr size_t kRelocationsMax = size_t{1} << 20;
constexpr size_t kImportsMax = 1 << 14;
constexpr size_t kLibrariesMax = 256;
constexpr uint32_t kExportsMax = 1 << 14;
constexpr uint32_t kNameBytesMax = 512;

const char* machine_name(uint16_t machine) {
  switch (machine) {
    case pe::kMachineX86:
      return "x86";
    case pe::kMachineArm:
      return "ARM";
    case pe::kMachineArm64:
      return "ARM64";
    case pe::kMachineArm64Ec:
      return "ARM64EC";
    default:
      return "unknown";
  }
}

}  // namespace

bool PeParser::fail(std::string reason) {
  *message_ = "Not a driver: " + std::move(reason);
  return false;
}

Result<PePlan> PeParser::run() {
  if (!headers() || !sections() || !entry() || !relocations() || !imports() || !exports() ||
      !load_config() || !functions() || !unwind_data_stays()) {
    return Error(Status::kInvalidImageFormat);
  }
  debug_directory();
  symbols();
  return std::move(plan_);
}

bool PeParser::headers() {
  uint16_t dos_magic = 0;
  uint32_t at = 0;
  if (file_.size() < pe::kDosHeaderBytes)
    return fail(fmt::format("the file is {} bytes, too short for the {} bytes of a DOS header.",
                            file_.size(), pe::kDosHeaderBytes));
  if (!read_file(0, &dos_magic) || dos_magic != pe::kDosMagic)
    return fail(
        fmt::format("e_magic is {:#06x}; expected {:#06x} (\"MZ\").", dos_magic, pe::kDosMagic));
  uint32_t signature = 0;
  if (!read_file(pe::kDosNewHeader, &at) || !read_file(at, &signature))
    return fail(
        fmt::format("e_lfanew is {:#x}; expected an offset inside the {} bytes of the file.", at,
                    file_.size()));
  if (signature != pe::kSignature)
    return fail(fmt::format("the signature at {:#x} is {:#010x}; expected {:#010x} (\"PE\").", at,
                            signature, pe::kSignature));
  const uint64_t file_header_at = uint64_t{at} + sizeof(signature);
  if (!read_file(file_header_at, &file_header_))
    return fail(fmt::format("the file ends at {} bytes, inside the file header at {:#x}.",
                            file_.size(), file_header_at));
  if (file_header_.machine != pe::kMachineX64)
    return fail(fmt::format("Machine is {:#06x} ({}); expected {:#06x} (x64).",
                            file_header_.machine, machine_name(file_header_.machine),
                            pe::kMachineX64));
  if ((file_header_.characteristics & pe::kExecutableImage) == 0)
    return fail(
        fmt::format("Characteristics is {:#06x} without EXECUTABLE_IMAGE ({:#x}); expected a "
                    "linked image, not an object file.",
                    file_header_.characteristics, pe::kExecutableImage));
  const uint64_t optional_at = file_header_at + sizeof(file_header_);
  uint16_t magic = 0;
  if (!read_file(optional_at, &magic))
    return fail(fmt::format("the file ends at {} bytes, inside the optional header at {:#x}.",
                            file_.size(), optional_at));
  if (magic == pe::kMagicPe32)
    return fail(fmt::format("Magic is {:#06x} (32-bit PE32); expected {:#06x} (64-bit PE32+).",
                            magic, pe::kMagicPe32Plus));
  if (magic != pe::kMagicPe32Plus)
    return fail(
        fmt::format("Magic is {:#06x}; expected {:#06x} (PE32+).", magic, pe::kMagicPe32Plus));
  if (file_header_.optional_header_bytes < sizeof(optional_))
    return fail(fmt::format("SizeOfOptionalHeader is {}; expected at least {}.",
                            file_header_.optional_header_bytes, sizeof(optional_)));
  if (!read_file(optional_at, &optional_))
    return fail(fmt::format("the file ends at {} bytes, inside the optional header at {:#x}.",
                            file_.size(), optional_at));
  const pe::OptionalHeader& o = optional_;
  if (o.subsystem != pe::kSubsystemNative)
    return fail(fmt::format("Subsystem is {}; expected {} (native): link with /subsystem:native.",
                            o.subsystem, pe::kSubsystemNative));
  if (!is_power_of_two(o.section_alignment) || o.section_alignment < kPageBytes)
    return fail(fmt::format(
        "SectionAlignment is {:#x}; expected a power of two of at least a page ({:#x}), so that "
        "each section can have its own protection.",
        o.section_alignment, kPageBytes));
  if (!is_power_of_two(o.file_alignment) || o.file_alignment < 512 || o.file_alignment > 65536 ||
      o.file_alignment > o.section_alignment) {
    return fail(fmt::format(
        "FileAlignment is {:#x}; expected a power of two from 0x200 to 0x10000, not above "
        "SectionAlignment ({:#x}).",
        o.file_alignment, o.section_alignment));
  }
  if (o.image_bytes == 0 || o.image_bytes % o.section_alignment != 0 ||
      o.image_bytes > kImageBytesMax) {
    return fail(fmt::format(
        "SizeOfImage is {:#x}; expected a multiple of SectionAlignment ({:#x}) up to {:#x}.",
        o.image_bytes, o.section_alignment, kImageBytesMax));
  }
  if (o.image_base % 65536 != 0)
    return fail(fmt::format("ImageBase is {:#x}; expected a multiple of 0x10000.", o.image_base));
  if (o.image_base > UINT64_MAX - o.image_bytes)
    return fail(fmt::format("ImageBase is {:#x}; expected room for SizeOfImage ({:#x}) above it.",
                            o.image_base, o.image_bytes));
  if ((file_header_.characteristics & pe::kRelocationsStripped) != 0)
    return fail(
        fmt::format("Characteristics is {:#06x} with RELOCS_STRIPPED, so the image runs at {:#x} "
                    "only; expected "
                    "base relocations: link without /fixed.",
                    file_header_.characteristics, o.image_base));
  const uint32_t count = o.directory_count;
  const uint64_t room =
      (file_header_.optional_header_bytes - sizeof(optional_)) / sizeof(pe::Directory);
  if (count > pe::kDirectoryCount || count > room)
    return fail(fmt::format(
        "NumberOfRvaAndSizes is {}; expected at most {}, which is what SizeOfOptionalHeader has "
        "room for.",
        count, std::min<uint64_t>(room, pe::kDirectoryCount)));
  for (uint32_t i = 0; i < count; ++i) {
    if (!read_file(optional_at + sizeof(optional_) + i * sizeof(pe::Directory), &directories_[i]))
      return fail(
          fmt::format("the file ends at {} bytes, inside the data directories.", file_.size()));
  }
  section_table_ = optional_at + file_header_.optional_header_bytes;
  plan_.preferred_base = o.image_base;
  plan_.size = o.image_bytes;
  plan_.headers_size = o.header_bytes;
  return refuse_directories();
}

bool PeParser::refuse_directories() {
  struct Refused {
    pe::DirectoryIndex index;
    const char* what;
  };
  constexpr Refused kRefused[] = {
      {pe::kTlsDirectory,
       "the TLS directory is not empty; expected none, a kernel has no "
       "thread-local data"},
      {pe::kDelayImportDirectory,
       "the delay-import directory is not empty; expected none, nobody "
       "resolves delay-loaded imports in a kernel"},
      {pe::kManagedDirectory, "the CLR directory is not empty; expected native code"},
  };
  for (const Refused& refused : kRefused) {
    const pe::Directory& directory = directories_[refused.index];
    if (directory.address != 0 || directory.size != 0)
      return fail(fmt::format("{} (address {:#x}, size {:#x}).", refused.what, directory.address,
                              directory.size));
  }
  return true;
}

bool PeParser::sections() {
  const uint32_t count = file_header_.section_count;
  if (count == 0 || count > kSectionsMax)
    return fail(fmt::format("NumberOfSections is {}; expected 1 to {}.", count, kSectionsMax));
  const uint64_t table_end = section_table_ + uint64_t{count} * sizeof(pe::SectionHeader);
  if (table_end > file_.size())
    return fail(
        fmt::format("the section table ends at {:#x}; expected within the {} bytes of the "
                    "file.",
                    table_end, file_.size()));
  if (plan_.headers_size < table_end || plan_.headers_size > file_.size() ||
      plan_.headers_size > plan_.size) {
    return fail(
        fmt::format("SizeOfHeaders is {:#x}; expected at least {:#x} (the end of the section "
                    "table) and at most "
                    "the file ({:#x}) and SizeOfImage ({:#x}).",
                    plan_.headers_size, table_end, file_.size(), plan_.size));
  }
  // The lowest address the next section may have.
  uint64_t next = align_up(plan_.headers_size, optional_.section_alignment);
  for (uint32_t i = 0; i < count; ++i) {
    pe::SectionHeader header;
    if (!read_file(section_table_ + uint64_t{i} * sizeof(header), &header)) return false;
    if (!section(i, header, &next)) return false;
  }
  return true;
}

bool PeParser::section(uint32_t index, const pe::SectionHeader& header, uint64_t* next) {
  const std::string name = printable({header.name, strnlen(header.name, sizeof(header.name))});
  const auto of = [&](const char* field, uint32_t value) {
    return fmt::format("section {} ({}): {} is {:#x}", index, name, field, value);
  };
  const uint32_t size = header.virtual_size != 0 ? header.virtual_size : header.raw_size;
  if (size == 0)
    return fail(of("VirtualSize", header.virtual_size) +
                " and SizeOfRawData is 0; expected a section of at least a byte.");
  if (header.address % optional_.section_alignment != 0)
    return fail(of("VirtualAddress", header.address) +
                fmt::format("; expected a multiple of SectionAlignment ({:#x}).",
                            optional_.section_alignment));
  if (header.address < *next)
    return fail(of("VirtualAddress", header.address) +
                fmt::format("; expected at least {:#x}, where what lies before it ends.", *next));
  if (!range_within(header.address, size, plan_.size))
    return fail(of("VirtualAddress", header.address) +
                fmt::format(" and its size {:#x}; expected to end within SizeOfImage ({:#x}).",
                            size, plan_.size));
  if (header.raw_size != 0) {
    if (header.raw_offset % 512 != 0)
      return fail(of("PointerToRawData", header.raw_offset) +
                  "; expected a multiple of a sector (0x200).");
    if (!range_within(header.raw_offset, header.raw_size, file_.size()))
      return fail(of("PointerToRawData", header.raw_offset) +
                  fmt::format(" and SizeOfRawData is {:#x}; expected to end within the {} bytes of "
                              "the file.",
                              header.raw_size, file_.size()));
  }
  const bool write = (header.characteristics & pe::kSectionWrite) != 0;
  const bool execute = (header.characteristics & pe::kSectionExecute) != 0;
  const bool discardable = (header.characteristics & pe::kSectionDiscardable) != 0;
  if (write && execute) {
    if (!discardable)
      return fail(of("Characteristics", header.characteristics) +
                  " (writable and executable); expected not both, unless it is discardable "
                  "start-up code.");
    plan_.notes.push_back(fmt::format(
        "Section {} ({}) is writable and executable; being discardable start-up code it is mapped "
        "executable only.",
        index, name));
  }
  // Windows fills the last page of a section from the file, beyond VirtualSize too.
  const auto mapped = static_cast<uint32_t>(
      std::min<uint64_t>(align_up(size, kPageBytes), plan_.size - header.address));
  plan_.sections.push_back({.name = name,
                            .address = header.address,
                            .memory_size = mapped,
                            .file_offset = header.raw_size != 0 ? header.raw_offset : 0,
                            .file_size = std::min(header.raw_size, mapped),
                            .write = write && !execute,
                            .execute = execute,
                            .discardable = discardable});
  *next = align_up(uint64_t{header.address} + size, optional_.section_alignment);
  return true;
}

bool PeParser::entry() {
  plan_.entry = optional_.entry;
  const PePlan::Section* at = section_of(plan_.entry, 1);
  if (at == nullptr || !at->execute)
    return fail(
        fmt::format("AddressOfEntryPoint is {:#x}; expected an address inside an executable "
                    "section.",
                    plan_.entry));
  return true;
}

const PePlan::Section* PeParser::section_of(uint64_t address, uint64_t size) const {
  const std::vector<PePlan::Section>& all = plan_.sections;
  // Neighbours in a table are mostly neighbours in the image.
  if (last_section_ >= all.size() || address < all[last_section_].address ||
      address - all[last_section_].address >= all[last_section_].memory_size) {
    const auto after = std::ranges::upper_bound(all, address, {}, &PePlan::Section::address);
    if (after == all.begin()) return nullptr;
    last_section_ = static_cast<size_t>(std::prev(after) - all.begin());
  }
  const PePlan::Section& section = all[last_section_];
  return range_within(address - section.address, size, section.memory_size) ? &section : nullptr;
}

std::optional<std::span<const std::byte>> PeParser::data_from(uint64_t address) const {
  const PePlan::Section* section = section_of(address, 1);
  if (section == nullptr) {
    if (address >= plan_.headers_size) return std::nullopt;
    return file_.first(plan_.headers_size).subspan(address);
  }
  const uint64_t offset = address - section->address;
  if (offset >= section->file_size) return std::nullopt;
  return file_.subspan(section->file_offset + offset, section->file_size - offset);
}

std::optional<std::string_view> PeParser::text_at(uint64_t address, uint32_t limit) const {
  const auto data = data_from(address);
  if (!data.has_value()) return std::nullopt;
  const auto room = std::min<size_t>(data->size(), size_t{limit} + 1);
  const auto* start = reinterpret_cast<const char*>(data->data());
  const void* end = std::memchr(start, 0, room);
  if (end == nullptr) return std::nullopt;
  return std::string_view(start, static_cast<size_t>(static_cast<const char*>(end) - start));
}

bool PeParser::relocations() {
  const pe::Directory& directory = directories_[pe::kRelocationDirectory];
  if (directory.size == 0) return true;  // code without a single absolute address
  const auto data = data_from(directory.address);
  if (!data.has_value() || data->size() < directory.size)
    return fail(
        fmt::format("the base-relocation directory at {:#x} has size {:#x}; expected to lie "
                    "inside the data of one section.",
                    directory.address, directory.size));
  uint32_t at = 0;
  while (at < directory.size) {
    pe::RelocationBlock block;
    const uint32_t left = directory.size - at;
    if (left < sizeof(block))
      return fail(
          fmt::format("the base-relocation block at +{:#x} has {} bytes; expected at least "
                      "{}.",
                      at, left, sizeof(block)));
    std::memcpy(&block, data->data() + at, sizeof(block));
    if (block.size < sizeof(block) || block.size % 2 != 0 || block.size > left)
      return fail(
          fmt::format("the base-relocation block at +{:#x} has SizeOfBlock {:#x}; expected "
                      "an even number from {} to {:#x}.",
                      at, block.size, sizeof(block), left));
    if (!relocation_block(block, data->subspan(at + sizeof(block), block.size - sizeof(block))))
      return false;
    at += block.size;
  }
  return true;
}

bool PeParser::relocation_block(const pe::RelocationBlock& block,
                                std::span<const std::byte> entries) {
  for (size_t i = 0; i < entries.size(); i += 2) {
    uint16_t entry = 0;
    std::memcpy(&entry, entries.data() + i, sizeof(entry));
    const auto type = static_cast<uint16_t>(entry >> 12);
    if (type == pe::kRelocationPad) continue;
    if (type != pe::kRelocation64)
      return fail(
          fmt::format("a base relocation of page {:#x} has type {}; expected {} (DIR64) or "
                      "{} (a pad).",
                      block.page, type, pe::kRelocation64, pe::kRelocationPad));
    const uint64_t address = uint64_t{block.page} + (entry & 0xFFFU);
    if (section_of(address, 8) == nullptr)
      return fail(
          fmt::format("a base relocation is at {:#x}; expected its 8 bytes inside a "
                      "section.",
                      address));
    if (plan_.relocations.size() == kRelocationsMax)
      return fail(
          fmt::format("there are more than {} base relocations; expected fewer.", kRelocationsMax));
    plan_.relocations.push_back(static_cast<uint32_t>(address));
  }
  return true;
}

bool PeParser::imports() {
  const pe::Directory& directory = directories_[pe::kImportDirectory];
  if (directory.address == 0 && directory.size == 0) return true;
  for (uint64_t at = directory.address;; at += sizeof(pe::ImportDescriptor)) {
    pe::ImportDescriptor descriptor;
    if (!read_image(at, &descriptor))
      return fail(
          fmt::format("the import descriptor at {:#x} lies outside the data of the image; "
                      "expected a list that ends with zeros.",
                      at));
    if (descriptor.library == 0 && descriptor.slots == 0) return true;
    const auto library = text_at(descriptor.library, kNameBytesMax);
    if (!library.has_value() || library->empty())
      return fail(
          fmt::format("the import descriptor at {:#x} has Name {:#x}; expected a name of 1 "
                      "to {} bytes inside the image.",
                      at, descriptor.library, kNameBytesMax));
    if (plan_.libraries.size() == kLibrariesMax)
      return fail(
          fmt::format("it imports from more than {} modules; expected fewer.", kLibrariesMax));
    if (descriptor.names == 0 && descriptor.time_stamp != 0)
      return fail(
          fmt::format("the imports from {} are bound (TimeDateStamp {:#x}) and their names "
                      "are gone (OriginalFirstThunk 0); expected names.",
                      printable(*library), descriptor.time_stamp));
    plan_.libraries.push_back(printable(*library));
    if (!library_imports(descriptor)) return false;
  }
}

bool PeParser::library_imports(const pe::ImportDescriptor& descriptor) {
  const std::string& library = plan_.libraries.back();
  const auto index = static_cast<uint32_t>(plan_.libraries.size() - 1);
  const uint64_t names = descriptor.names != 0 ? descriptor.names : descriptor.slots;
  for (uint64_t i = 0;; ++i) {
    uint64_t word = 0;
    if (!read_image(names + i * 8, &word))
      return fail(
          fmt::format("import {} of {} is described at {:#x}, outside the data of the image; "
                      "expected a list that ends with zero.",
                      i, library, names + i * 8));
    if (word == 0) return true;
    PePlan::Import import;
    import.library = index;
    if ((word & pe::kImportByOrdinal) != 0) {
      if ((word & ~pe::kImportByOrdinal) > UINT16_MAX)
        return fail(fmt::format("import {} of {} is {:#x}; expected an ordinal of 16 bits.", i,
                                library, word));
      import.ordinal = static_cast<uint16_t>(word);
    } else {
      // Two bytes of hint, then the name.
      const auto name =
          word > UINT32_MAX ? std::nullopt : text_at(word + sizeof(uint16_t), kNameBytesMax);
      if (!name.has_value() || name->empty())
        return fail(
            fmt::format("import {} of {} has its name at {:#x}; expected a name of 1 to {} "
                        "bytes inside the image.",
                        i, library, word, kNameBytesMax));
      import.name = printable(*name);
    }
    const uint64_t slot = descriptor.slots + i * 8;
    if (section_of(slot, 8) == nullptr)
      return fail(
          fmt::format("import {} of {} has its slot at {:#x}; expected 8 bytes inside a "
                      "section.",
                      i, library, slot));
    import.slot = static_cast<uint32_t>(slot);
    if (plan_.imports.size() == kImportsMax)
      return fail(fmt::format("it has more than {} imports; expected fewer.", kImportsMax));
    plan_.imports.push_back(std::move(import));
  }
}

bool PeParser::exports() {
  const pe::Directory& directory = directories_[pe::kExportDirectory];
  if (directory.address == 0 && directory.size == 0) return true;
  pe::ExportDirectoryHeader header;
  if (!read_image(directory.address, &header))
    return fail(fmt::format("the export directory at {:#x} lies outside the data of the image.",
                            directory.address));
  if (header.function_count > kExportsMax)
    return fail(fmt::format("NumberOfFunctions of the export directory is {}; expected at most {}.",
                            header.function_count, kExportsMax));
  if (header.name_count > kExportsMax)
    return fail(fmt::format("NumberOfNames of the export directory is {}; expected at most {}.",
                            header.name_count, kExportsMax));
  // Position in plan_.exports of each function, for the names; exports of address 0 are holes.
  constexpr uint32_t kHole = UINT32_MAX;
  std::vector<uint32_t> place(header.function_count, kHole);
  for (uint32_t i = 0; i < header.function_count; ++i) {
    uint32_t address = 0;
    if (!read_image(uint64_t{header.functions} + i * 4ULL, &address))
      return fail(
          fmt::format("AddressOfFunctions of the export directory is {:#x}; expected {} "
                      "entries inside the data of the image.",
                      header.functions, header.function_count));
    if (address == 0) continue;
    if (address >= directory.address && address - directory.address < directory.size)
      return fail(
          fmt::format("export {} is forwarded to \"{}\"; expected an address in this image.",
                      uint64_t{header.ordinal_base} + i,
                      printable(text_at(address, kNameBytesMax).value_or("?"))));
    if (section_of(address, 1) == nullptr)
      return fail(fmt::format("export {} is at {:#x}; expected an address inside a section.",
                              uint64_t{header.ordinal_base} + i, address));
    place[i] = static_cast<uint32_t>(plan_.exports.size());
    plan_.exports.push_back({.name = {}, .ordinal = header.ordinal_base + i, .address = address});
  }
  for (uint32_t i = 0; i < header.name_count; ++i) {
    uint32_t name_address = 0;
    uint16_t index = 0;
    if (!read_image(uint64_t{header.names} + i * 4ULL, &name_address) ||
        !read_image(uint64_t{header.ordinals} + i * 2ULL, &index)) {
      return fail(
          fmt::format("AddressOfNames or AddressOfNameOrdinals of the export directory is "
                      "{:#x} or {:#x}; expected {} entries inside the data of the image.",
                      header.names, header.ordinals, header.name_count));
    }
    const auto name = text_at(name_address, kNameBytesMax);
    if (!name.has_value() || name->empty())
      return fail(
          fmt::format("export name {} is at {:#x}; expected a name of 1 to {} bytes inside "
                      "the image.",
                      i, name_address, kNameBytesMax));
    if (index >= header.function_count || place[index] == kHole)
      return fail(
          fmt::format("export name {} belongs to function {}; expected one of the {} "
                      "functions.",
                      printable(*name), index, header.function_count));
    PePlan::Export& function = plan_.exports[place[index]];
    if (function.name.empty()) {
      function.name = printable(*name);
    } else {  // a second name for the same function
      const PePlan::Export alias{
          .name = printable(*name), .ordinal = function.ordinal, .address = function.address};
      plan_.exports.push_back(alias);
    }
  }
  return true;
}

bool PeParser::load_config() {
  const pe::Directory& directory = directories_[pe::kLoadConfigDirectory];
  if (directory.address == 0 && directory.size == 0) return true;
  // The structure says its own size; the directory's is a historic constant.
  uint32_t size = 0;
  const auto data = data_from(directory.address);
  if (!data.has_value() || !read_image(directory.address, &size) || data->size() < size ||
      size < sizeof(size)) {
    return fail(
        fmt::format("the load configuration at {:#x} has size {:#x}; expected to lie inside "
                    "the data of one section.",
                    directory.address, size));
  }
  struct Field {
    const char* name;
    uint32_t offset;
    uint32_t* place;
  };
  const Field fields[] = {
      {"SecurityCookie", pe::kLoadConfigCookie, &plan_.cookie},
      {"GuardCFCheckFunctionPointer", pe::kLoadConfigGuardCheck, &plan_.guard_check},
      {"GuardCFDispatchFunctionPointer", pe::kLoadConfigGuardDispatch, &plan_.guard_dispatch}};
  for (const Field& field : fields) {
    uint64_t pointer = 0;
    if (field.offset + sizeof(pointer) > size) break;  // an older linker
    std::memcpy(&pointer, data->data() + field.offset, sizeof(pointer));
    if (pointer == 0) continue;
    if (pointer < plan_.preferred_base ||
        section_of(pointer - plan_.preferred_base, sizeof(pointer)) == nullptr) {
      return fail(
          fmt::format("{} of the load configuration is {:#x}; expected 8 bytes inside a "
                      "section of the image at {:#x}.",
                      field.name, pointer, plan_.preferred_base));
    }
    *field.place = static_cast<uint32_t>(pointer - plan_.preferred_base);
  }
  return true;
}

Result<PePlan> parse_pe(std::span<const std::byte> file, std::string* message) {
  return PeParser(file, message).run();
}

}  // namespace dxgkit::loader
