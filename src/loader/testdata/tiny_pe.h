// A PE driver written byte by byte, with one of everything the loader reads, for tests and as a
// seed for fuzzing. The constants say where each field is, so that a case breaks exactly one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace dxgkit::loader::tiny_pe {

// Offsets in the file.
inline constexpr size_t kNewHeader = 0x3C;  // e_lfanew
inline constexpr size_t kSignature = 0x80;
inline constexpr size_t kFileHeader = kSignature + 4;
inline constexpr size_t kOptional = kFileHeader + 20;
inline constexpr size_t kDirectories = kOptional + 112;
inline constexpr size_t kSections = kOptional + 240;
inline constexpr size_t directory(size_t index) { return kDirectories + index * 8; }
inline constexpr size_t section(size_t index) { return kSections + index * 40; }

inline constexpr uint64_t kBase = 0x140000000;
inline constexpr uint32_t kHeaderBytes = 0x400;
inline constexpr uint32_t kText = 0x1000, kRdata = 0x2000, kData = 0x3000, kReloc = 0x4000;
inline constexpr uint32_t kImageBytes = 0x5000;
// Addresses of the image.
inline constexpr uint32_t kEntry = 0x1000, kSecond = 0x1010, kHandler = 0x1020;
inline constexpr uint32_t kImportTable = 0x2000, kNames = 0x2040, kOrdinals = 0x2060;
inline constexpr uint32_t kSlots = 0x2100, kOrdinalSlots = 0x2120;
inline constexpr uint32_t kExports = 0x2180, kExportFunctions = 0x21B0, kExportNames = 0x21C0;
inline constexpr uint32_t kExportOrdinals = 0x21C8, kExportBytes = 0x80;
inline constexpr uint32_t kLoadConfig = 0x2240, kPdata = 0x2300, kUnwind = 0x2340;
inline constexpr uint32_t kChained = 0x2350, kPlainUnwind = 0x2360, kDebug = 0x2380;
inline constexpr uint32_t kCookie = 0x3000, kGuardCheck = 0x3008, kGuardDispatch = 0x3010;
inline constexpr uint32_t kPointer = 0x3018;  // holds the address of kSecond
inline constexpr size_t kFileBytes = 0x1000;  // without the symbols
inline constexpr uint32_t kSymbolCount = 3;

/// Where an address of the image lies in the file.
inline constexpr size_t at(uint32_t address) {
  if (address >= kReloc) return address - kReloc + 0xE00;
  if (address >= kData) return address - kData + 0xC00;
  if (address >= kRdata) return address - kRdata + 0x600;
  return address - kText + 0x400;
}

template <typename T>
void put(std::vector<std::byte>& file, size_t offset, T value) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
}
inline void put_text(std::vector<std::byte>& file, size_t offset, std::string_view text) {
  std::memcpy(file.data() + offset, text.data(), text.size());
}

inline std::vector<std::byte> make() {
  std::vector<std::byte> f(kFileBytes);
  const auto u8 = [&](size_t offset, uint8_t value) { put(f, offset, value); };
  const auto u16 = [&](size_t offset, uint16_t value) { put(f, offset, value); };
  const auto u32 = [&](size_t offset, uint32_t value) { put(f, offset, value); };
  const auto u64 = [&](size_t offset, uint64_t value) { put(f, offset, value); };
  put_text(f, 0, "MZ");
  u32(kNewHeader, kSignature);
  put_text(f, kSignature, "PE");
  u16(kFileHeader, 0x8664);
  u16(kFileHeader + 2, 4);
  u32(kFileHeader + 8, kFileBytes);
  u32(kFileHeader + 12, kSymbolCount);
  u16(kFileHeader + 16, 240);
  u16(kFileHeader + 18, 0x0022);
  u16(kOptional, 0x020B);
  u32(kOptional + 16, kEntry);
  u64(kOptional + 24, kBase);
  u32(kOptional + 32, 0x1000);
  u32(kOptional + 36, 0x200);
  u32(kOptional + 56, kImageBytes);
  u32(kOptional + 60, kHeaderBytes);
  u16(kOptional + 68, 1);
  u32(kOptional + 108, 16);
  const auto set_directory = [&](size_t index, uint32_t address, uint32_t size) {
    u32(directory(index), address);
    u32(directory(index) + 4, size);
  };
  set_directory(0, kExports, kExportBytes);
  set_directory(1, kImportTable, 60);
  set_directory(3, kPdata, 36);
  set_directory(5, kReloc, 28);
  set_directory(6, kDebug, 28);
  set_directory(10, kLoadConfig, 0xA0);
  const auto set_section = [&](size_t index, std::string_view name, uint32_t address, uint32_t raw,
                               uint32_t flags) {
    put_text(f, section(index), name);
    u32(section(index) + 8, raw);
    u32(section(index) + 12, address);
    u32(section(index) + 16, raw);
    u32(section(index) + 20, static_cast<uint32_t>(at(address)));
    u32(section(index) + 36, flags);
  };
  set_section(0, ".text", kText, 0x200, 0x60000020);
  set_section(1, ".rdata", kRdata, 0x600, 0x40000040);
  set_section(2, ".data", kData, 0x200, 0xC0000040);
  set_section(3, ".reloc", kReloc, 0x200, 0x42000040);

  put_text(f, at(kEntry), "\xB8\x2A");  // mov eax, 42
  u8(at(kEntry) + 5, 0xC3);             // ret
  put_text(f, at(kSecond), "\xB8\x2B");
  u8(at(kSecond) + 5, 0xC3);
  u8(at(kHandler), 0xC3);

  u32(at(kImportTable), kNames);
  u32(at(kImportTable) + 12, 0x2080);
  u32(at(kImportTable) + 16, kSlots);
  u32(at(kImportTable) + 20, kOrdinals);
  u32(at(kImportTable) + 32, 0x2090);
  u32(at(kImportTable) + 36, kOrdinalSlots);
  u64(at(kNames), 0x2140);
  u64(at(kNames) + 8, 0x2150);
  u64(at(kOrdinals), 0x8000000000000007);
  put_text(f, at(0x2080), "ntoskrnl.exe");
  put_text(f, at(0x2090), "HAL.dll");
  put_text(f, at(0x2142), "Alpha");
  put_text(f, at(0x2152), "Beta");

  u32(at(kExports) + 16, 1);  // ordinal base
  u32(at(kExports) + 20, 2);
  u32(at(kExports) + 24, 1);
  u32(at(kExports) + 28, kExportFunctions);
  u32(at(kExports) + 32, kExportNames);
  u32(at(kExports) + 36, kExportOrdinals);
  u32(at(kExportFunctions), kEntry);
  u32(at(kExportFunctions) + 4, kSecond);
  u32(at(kExportNames), 0x21E0);
  u16(at(kExportOrdinals), 1);
  put_text(f, at(0x21E0), "Exported");

  u32(at(kLoadConfig), 0xA0);
  u64(at(kLoadConfig) + 0x58, kBase + kCookie);
  u64(at(kLoadConfig) + 0x70, kBase + kGuardCheck);
  u64(at(kLoadConfig) + 0x78, kBase + kGuardDispatch);

  const auto set_function = [&](uint32_t place, uint32_t begin, uint32_t end, uint32_t unwind) {
    u32(at(place), begin);
    u32(at(place) + 4, end);
    u32(at(place) + 8, unwind);
  };
  set_function(kPdata, kEntry, kEntry + 6, kUnwind);
  set_function(kPdata + 12, kSecond, kSecond + 6, kChained);
  set_function(kPdata + 24, kHandler, kHandler + 1, kPlainUnwind);
  u8(at(kUnwind), 1 | 1 << 3);   // version 1, exception handler
  u8(at(kUnwind) + 1, 4);        // bytes of prolog
  u8(at(kUnwind) + 2, 2);        // codes
  u16(at(kUnwind) + 4, 0x4204);  // small allocation
  u16(at(kUnwind) + 6, 0x3002);  // push rbx
  u32(at(kUnwind) + 8, kHandler);
  u8(at(kChained), 1 | 4 << 3);
  set_function(kChained + 4, kEntry, kEntry + 6, kUnwind);
  u8(at(kPlainUnwind), 1);

  u32(at(kDebug) + 12, 2);
  u32(at(kDebug) + 16, 0x40);
  u32(at(kDebug) + 20, 0x23A0);
  u32(at(kDebug) + 24, static_cast<uint32_t>(at(0x23A0)));
  put_text(f, at(0x23A0), "RSDS");
  put_text(f, at(0x23A0) + 24, "C:\\build\\tiny.pdb");

  u64(at(kCookie), 0x00002B992DDFA232);
  u64(at(kPointer), kBase + kSecond);
  u32(at(kReloc), kData);
  u32(at(kReloc) + 4, 12);
  u16(at(kReloc) + 8, 0xA018);  // DIR64 at kPointer, then a pad
  u32(at(kReloc) + 12, kRdata);
  u32(at(kReloc) + 16, 16);
  u16(at(kReloc) + 20, 0xA298);
  u16(at(kReloc) + 22, 0xA2B0);
  u16(at(kReloc) + 24, 0xA2B8);

  // Symbols, then their long names.
  f.resize(kFileBytes + kSymbolCount * 18 + 64);
  const auto set_symbol = [&](size_t index, uint32_t value, uint16_t section_number) {
    const size_t place = kFileBytes + index * 18;
    u32(place + 8, value);
    u16(place + 12, section_number);
    u8(place + 16, 2);
  };
  put_text(f, kFileBytes, "start");
  set_symbol(0, 0, 1);
  u32(kFileBytes + 18 + 4, 4);
  set_symbol(1, 0x10, 1);
  put_text(f, kFileBytes + 36, "eightchr");
  set_symbol(2, 0x18, 3);
  const size_t strings = kFileBytes + kSymbolCount * 18;
  u32(strings, 64);
  put_text(f, strings + 4, "?method@Class@space@@YAXXZ");
  return f;
}

}  // namespace dxgkit::loader::tiny_pe
