// The parts of the PE32+ file format the loader reads. Public format, little-endian, packed by its
// own layout.
#pragma once

#include <cstdint>

namespace dxgkit::loader::pe {

inline constexpr uint16_t kDosMagic = 0x5A4D;  // "MZ"
inline constexpr uint32_t kDosHeaderBytes = 64;
inline constexpr uint32_t kDosNewHeader = 0x3C;     // offset of the 32-bit offset of the signature
inline constexpr uint32_t kSignature = 0x00004550;  // "PE\0\0"

inline constexpr uint16_t kMachineX86 = 0x014C;
inline constexpr uint16_t kMachineArm = 0x01C4;
inline constexpr uint16_t kMachineX64 = 0x8664;
inline constexpr uint16_t kMachineArm64 = 0xAA64;
inline constexpr uint16_t kMachineArm64Ec = 0xA641;

struct FileHeader {
  uint16_t machine, section_count;
  uint32_t time_stamp, symbol_table, symbol_count;
  uint16_t optional_header_bytes, characteristics;
};
static_assert(sizeof(FileHeader) == 20);
inline constexpr uint16_t kRelocationsStripped = 0x0001;
inline constexpr uint16_t kExecutableImage = 0x0002;

struct Directory {
  uint32_t address, size;
};
enum DirectoryIndex : uint32_t {
  kExportDirectory = 0,
  kImportDirectory = 1,
  kExceptionDirectory = 3,
  kRelocationDirectory = 5,
  kDebugDirectory = 6,
  kTlsDirectory = 9,
  kLoadConfigDirectory = 10,
  kDelayImportDirectory = 13,
  kManagedDirectory = 14,
  kDirectoryCount = 16,
};

inline constexpr uint16_t kMagicPe32 = 0x010B;
inline constexpr uint16_t kMagicPe32Plus = 0x020B;
inline constexpr uint16_t kSubsystemNative = 1;
/// Without the directories: a file may have fewer than 16 of them.
struct OptionalHeader {
  uint16_t magic;
  uint8_t linker_major, linker_minor;
  uint32_t code_bytes, data_bytes, zero_bytes, entry, code_base;
  uint64_t image_base;
  uint32_t section_alignment, file_alignment;
  uint16_t versions[6];
  uint32_t reserved, image_bytes, header_bytes, checksum;
  uint16_t subsystem, dll_characteristics;
  uint64_t stack_and_heap[4];
  uint32_t loader_flags, directory_count;
};
static_assert(sizeof(OptionalHeader) == 112);

struct SectionHeader {
  char name[8];
  uint32_t virtual_size, address, raw_size, raw_offset;
  uint32_t relocations, line_numbers;
  uint16_t relocation_count, line_number_count;
  uint32_t characteristics;
};
static_assert(sizeof(SectionHeader) == 40);
inline constexpr uint32_t kSectionDiscardable = 0x02000000;
inline constexpr uint32_t kSectionExecute = 0x20000000;
inline constexpr uint32_t kSectionWrite = 0x80000000;

struct ImportDescriptor {
  uint32_t names, time_stamp, forwarder, library, slots;
};
inline constexpr uint64_t kImportByOrdinal = uint64_t{1} << 63;

struct ExportDirectoryHeader {
  uint32_t flags, time_stamp, version, library, ordinal_base;
  uint32_t function_count, name_count, functions, names, ordinals;
};
static_assert(sizeof(ExportDirectoryHeader) == 40);

struct RelocationBlock {
  uint32_t page, size;
};
inline constexpr uint16_t kRelocationPad = 0;
inline constexpr uint16_t kRelocation64 = 10;

// Offsets in the load configuration of a 64-bit image; all three fields hold preferred addresses.
inline constexpr uint32_t kLoadConfigCookie = 0x58;
inline constexpr uint32_t kLoadConfigGuardCheck = 0x70;
inline constexpr uint32_t kLoadConfigGuardDispatch = 0x78;

struct DebugEntry {
  uint32_t flags, time_stamp, version, type, size, address, file_offset;
};
inline constexpr uint32_t kDebugCodeView = 2;
inline constexpr uint32_t kCodeViewPdb70 = 0x53445352;  // "RSDS"
inline constexpr uint32_t kCodeViewPathOffset = 24;     // after signature, GUID and age

inline constexpr uint32_t kCoffSymbolBytes = 18;
inline constexpr uint8_t kCoffExternal = 2, kCoffStatic = 3, kCoffLabel = 6;

// Unwind information.
inline constexpr uint8_t kUnwindExceptionHandler = 1, kUnwindTerminationHandler = 2,
                         kUnwindChained = 4;
struct UnwindHeader {
  uint8_t version_and_flags, prolog_bytes, code_count, frame;
};

}  // namespace dxgkit::loader::pe
