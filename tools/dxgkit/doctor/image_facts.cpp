#include "tools/dxgkit/doctor/image_facts.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "loader/elf_image.h"

namespace dxgkit::tool {
namespace {

using Bytes = std::span<const std::byte>;

// Counts beyond these are damage, not a driver.
constexpr size_t kLibrariesMax = 256;
constexpr size_t kImportsMax = 16384;
constexpr size_t kSectionsMax = 256;
constexpr size_t kNameBytesMax = 512;
constexpr size_t kDebugEntriesMax = 32;

template <typename T>
std::optional<T> read(Bytes bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// Bytes up to a zero, at most kNameBytesMax; control bytes become '?', so that a hostile name
/// cannot drive a terminal.
std::optional<std::string> read_name(Bytes bytes, uint64_t offset) {
  std::string name;
  for (; name.size() < kNameBytesMax; ++offset) {
    const std::optional<char> c = read<char>(bytes, offset);
    if (!c.has_value()) return std::nullopt;
    if (*c == 0) return name;
    const auto unit = static_cast<unsigned char>(*c);
    name += unit < 0x20 || unit >= 0x7F ? '?' : *c;
  }
  return std::nullopt;
}

/// Seconds since 1970 as a date, without the C library's clock functions. Days by the civil
/// calendar, counted in eras of 400 years that begin on 1 March.
std::string date_text(uint32_t seconds) {
  const uint32_t days = seconds / 86400 + 719468;
  const uint32_t era = days / 146097;
  const uint32_t day_of_era = days - era * 146097;
  const uint32_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const uint32_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const uint32_t month_from_march = (5 * day_of_year + 2) / 153;
  const uint32_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
  const uint32_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
  const uint32_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  const uint32_t rest = seconds % 86400;
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", year, month, day, rest / 3600,
                     rest / 60 % 60, rest % 60);
}

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case 0x8664:
      return "x64";
    case 0xAA64:
      return "ARM64";
    case 0x014C:
      return "x86 (32-bit)";
    case 0x01C4:
      return "ARM (32-bit)";
    default:
      return fmt::format("machine {:#06x}", machine);
  }
}

std::string subsystem_name(uint16_t subsystem) {
  switch (subsystem) {
    case 1:
      return "native";
    case 2:
      return "Windows GUI";
    case 3:
      return "Windows console";
    case 10:
      return "EFI application";
    case 11:
      return "EFI boot service driver";
    case 12:
      return "EFI runtime driver";
    default:
      return fmt::format("subsystem {}", subsystem);
  }
}

/// A PE32+ file through its section table.
class PeReader {
 public:
  explicit PeReader(Bytes file) : file_(file) {}

  std::expected<ImageFacts, std::string> read_facts();

 private:
  enum Directory : size_t {
    kImport = 1,
    kException = 3,
    kCertificate = 4,
    kRelocation = 5,
    kDebug = 6,
    kDelayImport = 13,
  };
  struct Range {
    uint32_t address = 0, size = 0;
  };

  /// File offset of an image address whose `size` bytes lie in one section's file bytes.
  std::optional<uint64_t> file_offset(uint32_t address, uint32_t size) const {
    if (address < headers_bytes_ && size <= headers_bytes_ - address) return address;
    for (const Section& section : sections_) {
      if (address < section.address || address - section.address >= section.file_bytes) continue;
      const uint32_t into = address - section.address;
      if (section.file_bytes - into < size) return std::nullopt;
      return uint64_t{section.file_offset} + into;
    }
    return std::nullopt;
  }
  template <typename T>
  std::optional<T> at(uint32_t address) const {
    const std::optional<uint64_t> offset = file_offset(address, sizeof(T));
    return offset.has_value() ? read<T>(file_, *offset) : std::nullopt;
  }
  std::optional<std::string> name_at(uint32_t address) const {
    const std::optional<uint64_t> offset = file_offset(address, 1);
    return offset.has_value() ? read_name(file_, *offset) : std::nullopt;
  }
  void odd(std::string text) { facts_.oddities.push_back(std::move(text)); }

  void read_imports();
  void read_relocations();
  void read_debug(uint32_t timestamp);

  struct Section {
    uint32_t address = 0, file_offset = 0, file_bytes = 0;
  };
  Bytes file_;
  uint32_t headers_bytes_ = 0;
  std::vector<Section> sections_;
  std::array<Range, 16> directories_{};
  ImageFacts facts_;
};

std::expected<ImageFacts, std::string> PeReader::read_facts() {
  const auto cut = [](const char* what) {
    return std::unexpected(fmt::format("it is a damaged PE file: {}", what));
  };
  const std::optional<uint32_t> pe = read<uint32_t>(file_, 0x3C);
  if (!pe.has_value()) return cut("it ends inside its DOS header");
  if (read<uint32_t>(file_, *pe) != 0x00004550U) return cut("it has no PE signature");
  const uint64_t coff = uint64_t{*pe} + 4;
  const auto machine = read<uint16_t>(file_, coff);
  const auto section_count = read<uint16_t>(file_, coff + 2);
  const auto timestamp = read<uint32_t>(file_, coff + 4);
  const auto optional_bytes = read<uint16_t>(file_, coff + 16);
  const auto characteristics = read<uint16_t>(file_, coff + 18);
  const uint64_t optional = coff + 20;
  const auto magic = read<uint16_t>(file_, optional);
  if (!characteristics.has_value() || !magic.has_value()) return cut("it ends inside its headers");
  facts_.form = ImageFacts::Form::kPe;
  facts_.file_bytes = file_.size();
  facts_.machine = machine_name(*machine);
  facts_.runs_here = *machine == 0x8664;
  if (*magic != 0x20B) {
    // PE32: the fields below lie elsewhere, and nothing of it can run here.
    facts_.runs_here = false;
    const auto subsystem = read<uint16_t>(file_, optional + 68);
    if (!subsystem.has_value()) return cut("it ends inside its headers");
    facts_.subsystem = subsystem_name(*subsystem);
    facts_.native = *subsystem == 1;
    return facts_;
  }
  const auto entry = read<uint32_t>(file_, optional + 16);
  const auto image_bytes = read<uint32_t>(file_, optional + 56);
  const auto headers_bytes = read<uint32_t>(file_, optional + 60);
  const auto subsystem = read<uint16_t>(file_, optional + 68);
  const auto flags = read<uint16_t>(file_, optional + 70);
  const auto directory_count = read<uint32_t>(file_, optional + 108);
  if (!directory_count.has_value()) return cut("it ends inside its headers");
  facts_.subsystem = subsystem_name(*subsystem);
  facts_.native = *subsystem == 1;
  facts_.entry = *entry;
  facts_.image_bytes = *image_bytes;
  facts_.guarded = (*flags & 0x4000) != 0;
  facts_.relocatable = (*characteristics & 0x0001) == 0;
  headers_bytes_ = *headers_bytes;
  for (size_t i = 0; i < directories_.size() && i < *directory_count; ++i) {
    const auto address = read<uint32_t>(file_, optional + 112 + i * 8);
    const auto size = read<uint32_t>(file_, optional + 116 + i * 8);
    if (!address.has_value() || !size.has_value()) return cut("it ends inside its headers");
    directories_[i] = {*address, *size};
  }
  if (*section_count > kSectionsMax) return cut("it has too many sections");
  for (size_t i = 0; i < *section_count; ++i) {
    const uint64_t header = optional + *optional_bytes + i * 40;
    const auto address = read<uint32_t>(file_, header + 12);
    const auto file_bytes = read<uint32_t>(file_, header + 16);
    const auto offset = read<uint32_t>(file_, header + 20);
    if (!address.has_value() || !file_bytes.has_value() || !offset.has_value())
      return cut("it ends inside its section table");
    if (uint64_t{*offset} + *file_bytes > file_.size())
      odd(fmt::format("Section {} lies beyond the end of the file.", i));
    sections_.push_back({*address, *offset, *file_bytes});
  }
  // Entries of 12 bytes on x64, of 8 elsewhere.
  facts_.exception_entries = directories_[kException].size / (facts_.runs_here ? 12 : 8);
  facts_.is_signed = directories_[kCertificate].size != 0;
  read_debug(*timestamp);
  read_relocations();
  read_imports();
  if (facts_.entry == 0) odd("It has no entry point.");
  if (facts_.exception_entries == 0)
    odd("It has no exception directory: its exception handlers would not run.");
  if (!facts_.relocatable)
    odd("Its relocations were stripped: it can run at one address only, where Windows does not "
        "load drivers.");
  return facts_;
}

void PeReader::read_imports() {
  const Range directory = directories_[kImport];
  for (size_t library = 0; directory.size != 0; ++library) {
    if (library == kLibrariesMax) return odd("Its import table does not end.");
    const auto descriptor = static_cast<uint32_t>(directory.address + library * 20);
    const auto lookup = at<uint32_t>(descriptor);
    const auto library_name = at<uint32_t>(descriptor + 12);
    const auto slots = at<uint32_t>(descriptor + 16);
    if (!lookup.has_value() || !library_name.has_value() || !slots.has_value())
      return odd("Its import table leaves the file.");
    if (*library_name == 0 && *slots == 0) break;
    const std::optional<std::string> name = name_at(*library_name);
    if (!name.has_value()) return odd("The name of an imported library leaves the file.");
    const uint32_t table = *lookup != 0 ? *lookup : *slots;
    for (uint32_t i = 0;; ++i) {
      if (facts_.imports.size() == kImportsMax) return odd("Its import tables do not end.");
      const auto word = at<uint64_t>(table + i * 8);
      if (!word.has_value()) return odd(fmt::format("The imports of {} leave the file.", *name));
      if (*word == 0) break;
      ImageImport import{*name, {}, 0};
      if ((*word >> 63) != 0) {
        import.ordinal = static_cast<uint16_t>(*word);
      } else {
        const std::optional<std::string> symbol = name_at(static_cast<uint32_t>(*word) + 2);
        if (!symbol.has_value())
          return odd(fmt::format("A name imported from {} leaves the file.", *name));
        import.name = *symbol;
      }
      facts_.imports.push_back(std::move(import));
    }
  }
  for (uint32_t i = 0; directories_[kDelayImport].size != 0 && i < kLibrariesMax; ++i) {
    const auto name = at<uint32_t>(directories_[kDelayImport].address + i * 32 + 4);
    if (!name.has_value() || *name == 0) break;
    ++facts_.delay_imports;
  }
}

void PeReader::read_relocations() {
  const Range directory = directories_[kRelocation];
  uint32_t done = 0;
  while (directory.size - done >= 8) {
    const auto block = at<uint32_t>(directory.address + done + 4);
    if (!block.has_value() || *block < 8 || *block > directory.size - done) {
      return odd("Its relocation table is damaged.");
    }
    for (uint32_t i = 8; i + 2 <= *block; i += 2) {
      const auto word = at<uint16_t>(directory.address + done + i);
      if (!word.has_value()) return odd("Its relocation table leaves the file.");
      if (*word >> 12 != 0) ++facts_.relocations;  // type 0 only fills up a block
    }
    done += *block;
  }
}

void PeReader::read_debug(uint32_t timestamp) {
  facts_.linked = date_text(timestamp);
  const Range directory = directories_[kDebug];
  for (uint32_t i = 0; i < kDebugEntriesMax && (i + 1) * 28 <= directory.size; ++i) {
    const uint32_t entry = directory.address + i * 28;
    const auto type = at<uint32_t>(entry + 12);
    const auto size = at<uint32_t>(entry + 16);
    const auto offset = at<uint32_t>(entry + 24);
    if (!type.has_value() || !size.has_value() || !offset.has_value())
      return odd("Its debug directory leaves the file.");
    if (*type == 16) facts_.linked = "not said (a reproducible build: a hash instead of a date)";
    if (*type != 2 || read<uint32_t>(file_, *offset) != 0x53445352U) continue;  // "RSDS"
    const auto a = read<uint32_t>(file_, uint64_t{*offset} + 4);
    const auto b = read<uint16_t>(file_, uint64_t{*offset} + 8);
    const auto c = read<uint16_t>(file_, uint64_t{*offset} + 10);
    const auto d = read<std::array<uint8_t, 8>>(file_, uint64_t{*offset} + 12);
    const auto age = read<uint32_t>(file_, uint64_t{*offset} + 20);
    const auto name = read_name(file_, uint64_t{*offset} + 24);
    if (!age.has_value() || !name.has_value()) return odd("Its PDB record leaves the file.");
    facts_.pdb = *name;
    facts_.pdb_id = fmt::format("{:08X}{:04X}{:04X}", *a, *b, *c);
    for (const uint8_t byte : *d) facts_.pdb_id += fmt::format("{:02X}", byte);
    facts_.pdb_id += fmt::format("{:X}", *age);
  }
}

std::expected<ImageFacts, std::string> read_elf_facts(Bytes file) {
  const auto machine = read<uint16_t>(file, 18);
  if (!machine.has_value()) return std::unexpected("it is a damaged ELF file: it ends early");
  ImageFacts facts;
  facts.form = ImageFacts::Form::kElf;
  facts.file_bytes = file.size();
  facts.runs_here = *machine == 62;
  facts.machine = facts.runs_here ? "x64" : fmt::format("ELF machine {}", *machine);
  facts.native = true;
  facts.relocatable = true;
  facts.linked = "not said (an ELF file has no link date)";
  std::string message;
  const Result<loader::ElfPlan> plan = loader::parse_elf(file, &message);
  if (!plan.has_value()) return std::unexpected("it cannot be loaded as an ELF twin: " + message);
  facts.image_bytes = plan->size;
  facts.relocations = static_cast<uint32_t>(plan->relocations.size());
  const loader::ElfPlan::Symbol* entry = plan->find_defined("DriverEntry");
  if (entry != nullptr) {
    facts.entry = entry->address;
  } else {
    facts.oddities.emplace_back("It defines no DriverEntry.");
  }
  for (const loader::ElfPlan::Symbol& symbol : plan->symbols) {
    if (!symbol.defined && !symbol.name.empty()) facts.imports.push_back({{}, symbol.name, 0});
  }
  return facts;
}

}  // namespace

std::expected<ImageFacts, std::string> read_image_facts(std::span<const std::byte> file) {
  if (read<uint16_t>(file, 0) == 0x5A4DU) return PeReader(file).read_facts();
  if (read<uint32_t>(file, 0) == 0x464C457FU) return read_elf_facts(file);
  return std::unexpected(file.empty() ? "it is empty" : "it is neither a PE nor an ELF file");
}

std::optional<std::string> no_driver(const ImageFacts& facts) {
  if (!facts.native) {
    return fmt::format("it is made for the {} subsystem, drivers for native", facts.subsystem);
  }
  if (facts.entry == 0) {
    return fmt::format("it has no {}",
                       facts.form == ImageFacts::Form::kElf ? "DriverEntry" : "entry point");
  }
  return std::nullopt;
}

std::string built_for_another_machine(const ImageFacts& facts) {
  return fmt::format("it is built for {}; this host runs x64 drivers", facts.machine);
}

}  // namespace dxgkit::tool
