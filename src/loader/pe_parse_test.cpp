// Refusals: every field the loader reads, at values no good file has.
#include <gtest/gtest.h>

#include <functional>

#include "loader/pe_image.h"
#include "loader/testdata/tiny_pe.h"
#include "tests/support/covers.h"

namespace dxgkit::loader {
namespace {

namespace tiny = tiny_pe;
using File = std::vector<std::byte>;

struct Case {
  const char* name;
  const char* message;  // a part of it
  std::function<void(File&)> breaks;
};

template <typename T>
std::function<void(File&)> set(size_t offset, T value) {
  return [=](File& file) { tiny::put(file, offset, value); };
}
std::function<void(File&)> cut(size_t size) {
  return [=](File& file) { file.resize(size); };
}
std::function<void(File&)> both(std::function<void(File&)> a, std::function<void(File&)> b) {
  return [=](File& file) {
    a(file);
    b(file);
  };
}

void expect_refusals(std::span<const Case> cases) {
  {
    std::string message;
    ASSERT_TRUE(parse_pe(tiny::make(), &message).has_value()) << message;
  }
  for (const Case& one : cases) {
    File file = tiny::make();
    one.breaks(file);
    std::string message;
    const auto plan = parse_pe(file, &message);
    EXPECT_FALSE(plan.has_value()) << one.name;
    if (plan.has_value()) continue;
    EXPECT_EQ(plan.error(), Status::kInvalidImageFormat) << one.name;
    EXPECT_NE(message.find(one.message), std::string::npos) << one.name << ": " << message;
    EXPECT_TRUE(message.starts_with("Not a driver: ") && message.ends_with("."))
        << one.name << ": " << message;
  }
}

constexpr uint32_t kMax32 = UINT32_MAX;
constexpr uint64_t kMax64 = UINT64_MAX;
constexpr size_t kOpt = tiny::kOptional;

TEST(PeParse, RefusesBadHeaders) {
  DXGKIT_COVERS("NT-19");
  const Case cases[] = {
      {"empty", "the file is 0 bytes, too short", cut(0)},
      {"DOS header cut off", "the file is 63 bytes, too short", cut(63)},
      {"no MZ", "e_magic is 0x0000; expected 0x5a4d", set<uint16_t>(0, 0)},
      {"e_lfanew at the end", "e_lfanew is 0x1076; expected an offset inside",
       set<uint32_t>(tiny::kNewHeader, 0x1076)},
      {"e_lfanew max", "e_lfanew is 0xffffffff", set(tiny::kNewHeader, kMax32)},
      {"no PE", "the signature at 0x80 is 0x00000000; expected 0x00004550",
       set<uint32_t>(tiny::kSignature, 0)},
      {"signature elsewhere", "the signature at 0x0", set<uint32_t>(tiny::kNewHeader, 0)},
      {"file header cut off", "inside the file header", cut(0x90)},
      {"x86", "Machine is 0x014c (x86); expected 0x8664 (x64).",
       set<uint16_t>(tiny::kFileHeader, 0x14C)},
      {"ARM64", "Machine is 0xaa64 (ARM64); expected 0x8664 (x64).",
       set<uint16_t>(tiny::kFileHeader, 0xAA64)},
      {"ARM", "(ARM)", set<uint16_t>(tiny::kFileHeader, 0x1C4)},
      {"ARM64EC", "(ARM64EC)", set<uint16_t>(tiny::kFileHeader, 0xA641)},
      {"machine 0", "Machine is 0x0000 (unknown)", set<uint16_t>(tiny::kFileHeader, 0)},
      {"object file", "without EXECUTABLE_IMAGE", set<uint16_t>(tiny::kFileHeader + 18, 0x20)},
      {"no relocations", "with RELOCS_STRIPPED, so the image runs at 0x140000000 only",
       set<uint16_t>(tiny::kFileHeader + 18, 0x23)},
      {"32-bit", "Magic is 0x010b (32-bit PE32); expected 0x020b (64-bit PE32+).",
       set<uint16_t>(kOpt, 0x10B)},
      {"ROM image", "Magic is 0x0107; expected 0x020b", set<uint16_t>(kOpt, 0x107)},
      {"no optional header", "SizeOfOptionalHeader is 0; expected at least 112",
       set<uint16_t>(tiny::kFileHeader + 16, 0)},
      {"small optional header", "SizeOfOptionalHeader is 111",
       set<uint16_t>(tiny::kFileHeader + 16, 111)},
      {"optional header cut off", "inside the optional header", cut(kOpt + 100)},
      {"magic cut off", "inside the optional header", cut(kOpt + 1)},
      {"directories cut off", "inside the data directories", cut(tiny::directory(3))},
      {"GUI program", "Subsystem is 2; expected 1 (native)", set<uint16_t>(kOpt + 68, 2)},
      {"subsystem max", "Subsystem is 65535", set<uint16_t>(kOpt + 68, UINT16_MAX)},
      {"section alignment 0", "SectionAlignment is 0x0", set<uint32_t>(kOpt + 32, 0)},
      {"section alignment 0x200", "SectionAlignment is 0x200; expected a power of two of at least",
       set<uint32_t>(kOpt + 32, 0x200)},
      {"section alignment odd", "SectionAlignment is 0x1001", set<uint32_t>(kOpt + 32, 0x1001)},
      {"section alignment max", "SectionAlignment is 0xffffffff", set(kOpt + 32, kMax32)},
      {"section alignment 2 GiB", "SizeOfImage is 0x5000; expected a multiple",
       set<uint32_t>(kOpt + 32, 0x80000000)},
      {"file alignment 0", "FileAlignment is 0x0", set<uint32_t>(kOpt + 36, 0)},
      {"file alignment 0x100", "FileAlignment is 0x100", set<uint32_t>(kOpt + 36, 0x100)},
      {"file alignment odd", "FileAlignment is 0x201", set<uint32_t>(kOpt + 36, 0x201)},
      {"file above section alignment", "FileAlignment is 0x2000; expected",
       set<uint32_t>(kOpt + 36, 0x2000)},
      {"file alignment max", "FileAlignment is 0xffffffff", set(kOpt + 36, kMax32)},
      {"image size 0", "SizeOfImage is 0x0", set<uint32_t>(kOpt + 56, 0)},
      {"image size odd", "SizeOfImage is 0x5001", set<uint32_t>(kOpt + 56, 0x5001)},
      {"image size max", "SizeOfImage is 0xfffff000", set<uint32_t>(kOpt + 56, 0xFFFFF000)},
      {"image base odd", "ImageBase is 0x140000001; expected a multiple of 0x10000",
       set<uint64_t>(kOpt + 24, 0x140000001)},
      {"image base at the end",
       "ImageBase is 0xffffffffffff0000; expected room for SizeOfImage (0x20000)",
       both(set<uint64_t>(kOpt + 24, 0xFFFFFFFFFFFF0000), set<uint32_t>(kOpt + 56, 0x20000))},
      {"17 directories", "NumberOfRvaAndSizes is 17; expected at most 16",
       set<uint32_t>(kOpt + 108, 17)},
      {"directories max", "NumberOfRvaAndSizes is 4294967295", set(kOpt + 108, kMax32)},
      {"no room for directories", "NumberOfRvaAndSizes is 16; expected at most 15",
       set<uint16_t>(tiny::kFileHeader + 16, 239)},
      {"thread-local data", "the TLS directory is not empty; expected none",
       set<uint32_t>(tiny::directory(9), 0x2000)},
      {"delay-load", "the delay-import directory is not empty",
       set<uint32_t>(tiny::directory(13) + 4, 32)},
      {"managed", "the CLR directory is not empty", set<uint32_t>(tiny::directory(14), 0x2000)},
      {"header size 0", "SizeOfHeaders is 0x0; expected at least 0x228",
       set<uint32_t>(kOpt + 60, 0)},
      {"header size short", "SizeOfHeaders is 0x227", set<uint32_t>(kOpt + 60, 0x227)},
      {"header size max", "SizeOfHeaders is 0xffffffff", set(kOpt + 60, kMax32)},
      {"headers over a section",
       "section 0 (.text): VirtualAddress is 0x1000; expected at least "
       "0x2000",
       set<uint32_t>(kOpt + 60, 0x1001)},
      {"entry 0", "AddressOfEntryPoint is 0x0; expected an address inside an executable section.",
       set<uint32_t>(kOpt + 16, 0)},
      {"entry in data", "AddressOfEntryPoint is 0x3000", set(kOpt + 16, tiny::kData)},
      {"entry behind its section", "AddressOfEntryPoint is 0x5000",
       set<uint32_t>(kOpt + 16, 0x5000)},
      {"entry max", "AddressOfEntryPoint is 0xffffffff", set(kOpt + 16, kMax32)},
  };
  expect_refusals(cases);
}

TEST(PeParse, RefusesBadSections) {
  DXGKIT_COVERS("NT-19");
  const size_t text = tiny::section(0), data = tiny::section(2);
  const Case cases[] = {
      {"none", "NumberOfSections is 0; expected 1 to 96", set<uint16_t>(tiny::kFileHeader + 2, 0)},
      {"97", "NumberOfSections is 97", set<uint16_t>(tiny::kFileHeader + 2, 97)},
      {"65535", "NumberOfSections is 65535", set<uint16_t>(tiny::kFileHeader + 2, UINT16_MAX)},
      {"table over the headers", "SizeOfHeaders is 0x400; expected at least",
       set<uint16_t>(tiny::kFileHeader + 2, 40)},
      {"table cut off", "the section table ends at", cut(tiny::section(2))},
      {"empty", "VirtualSize is 0x0 and SizeOfRawData is 0",
       both(set<uint32_t>(data + 8, 0), set<uint32_t>(data + 16, 0))},
      {"misaligned", "section 2 (.data): VirtualAddress is 0x3001; expected a multiple",
       set<uint32_t>(data + 12, 0x3001)},
      {"page in page", "VirtualAddress is 0x3200", set<uint32_t>(data + 12, 0x3200)},
      {"overlap", "VirtualAddress is 0x2000; expected at least 0x3000",
       set<uint32_t>(data + 12, 0x2000)},
      {"overlap by size", "section 3 (.reloc): VirtualAddress is 0x4000; expected at least 0x5000",
       set<uint32_t>(data + 8, 0x1001)},
      {"over the headers", "VirtualAddress is 0x0; expected at least 0x1000",
       set<uint32_t>(text + 12, 0)},
      {"behind the image", "VirtualAddress is 0x5000 and its size 0x200; expected to end within",
       set<uint32_t>(tiny::section(3) + 12, 0x5000)},
      {"address max", "VirtualAddress is 0xfffff000", set<uint32_t>(data + 12, 0xFFFFF000)},
      {"size max", "expected to end within SizeOfImage", set(data + 8, kMax32)},
      {"address and size wrap", "expected to end within SizeOfImage",
       both(set<uint32_t>(data + 12, 0xFFFFF000), set<uint32_t>(data + 8, 0x2000))},
      {"raw misaligned", "PointerToRawData is 0xc01; expected a multiple of a sector",
       set<uint32_t>(data + 20, 0xC01)},
      {"raw behind the file", "PointerToRawData is 0x1200 and SizeOfRawData is 0x200",
       set<uint32_t>(data + 20, 0x1200)},
      {"raw pointer max", "PointerToRawData is 0xfffffe00", set<uint32_t>(data + 20, 0xFFFFFE00)},
      {"raw size max", "SizeOfRawData is 0xffffffff", set(data + 16, kMax32)},
      {"raw pointer and size wrap", "expected to end within the",
       both(set<uint32_t>(data + 20, 0xFFFFFE00), set<uint32_t>(data + 16, 0x400))},
      {"writable code",
       "section 0 (.text): Characteristics is 0xe0000020 (writable and executable)",
       set<uint32_t>(text + 36, 0xE0000020)},
      {"no code", "AddressOfEntryPoint is 0x1000", set<uint32_t>(text + 36, 0x40000040)},
  };
  expect_refusals(cases);
}

TEST(PeParse, RefusesBadRelocations) {
  DXGKIT_COVERS("NT-19");
  const size_t directory = tiny::directory(5), block = tiny::at(tiny::kReloc);
  const Case cases[] = {
      {"outside", "the base-relocation directory at 0x5000", set<uint32_t>(directory, 0x5000)},
      {"address max", "the base-relocation directory at 0xffffffff", set(directory, kMax32)},
      {"size over the section", "has size 0x201", set<uint32_t>(directory + 4, 0x201)},
      {"size max", "has size 0xffffffff", set(directory + 4, kMax32)},
      {"half a block", "the base-relocation block at +0x1c has 4 bytes",
       set<uint32_t>(directory + 4, 32)},
      {"block size 0", "has SizeOfBlock 0x0; expected an even number", set<uint32_t>(block + 4, 0)},
      {"block size 7", "has SizeOfBlock 0x7", set<uint32_t>(block + 4, 7)},
      {"block size odd", "has SizeOfBlock 0xb", set<uint32_t>(block + 4, 11)},
      {"block over the directory", "has SizeOfBlock 0x1e", set<uint32_t>(block + 4, 30)},
      {"block size max", "has SizeOfBlock 0xffffffff", set(block + 4, kMax32)},
      {"32-bit relocation", "has type 3; expected 10 (DIR64)", set<uint16_t>(block + 8, 0x3018)},
      {"type 15", "has type 15", set<uint16_t>(block + 8, 0xF018)},
      {"behind a section", "a base relocation is at 0x3ff9; expected its 8 bytes inside",
       set<uint16_t>(block + 8, 0xAFF9)},
      {"headers", "a base relocation is at 0x18", set<uint32_t>(block, 0)},
      {"page max", "a base relocation is at 0x100000017", set(block, kMax32)},
      {"into unwind data", "a base relocation at 0x2342 would be written into unwind data",
       set<uint16_t>(block + 20, 0xA342)},
      {"just into the directory", "a base relocation at 0x22f9 would be written into",
       set<uint16_t>(block + 20, 0xA2F9)},
  };
  expect_refusals(cases);
}

TEST(PeParse, RefusesBadImports) {
  DXGKIT_COVERS("NT-19");
  const size_t table = tiny::at(tiny::kImportTable), names = tiny::at(tiny::kNames);
  const Case cases[] = {
      {"table outside", "the import descriptor at 0x5000 lies outside",
       set<uint32_t>(tiny::directory(1), 0x5000)},
      {"table max", "the import descriptor at 0xffffffff", set(tiny::directory(1), kMax32)},
      {"table without an end", "the import descriptor at 0x2600 lies outside",
       [](File& file) {
         // Every descriptor to the end of the section names the same library without functions.
         tiny::put<uint32_t>(file, tiny::directory(1), 0x25EC);
         tiny::put<uint32_t>(file, tiny::at(0x25EC) + 12, 0x2080);
         tiny::put<uint32_t>(file, tiny::at(0x25EC) + 16, 0x2550);
       }},
      {"name outside", "has Name 0x5000; expected a name of 1 to 512 bytes",
       set<uint32_t>(table + 12, 0x5000)},
      {"name max", "has Name 0xffffffff", set(table + 12, kMax32)},
      {"name empty", "has Name 0x23f0", set<uint32_t>(table + 12, 0x23F0)},
      {"name without an end", "has Name 0x25ff",
       both(set<uint32_t>(table + 12, 0x25FF), set<uint8_t>(tiny::at(0x25FF), 'x'))},
      {"bound without names", "the imports from ntoskrnl.exe are bound (TimeDateStamp 0xffffffff)",
       both(set<uint32_t>(table, 0), set(table + 4, kMax32))},
      {"names outside", "import 0 of ntoskrnl.exe is described at 0x5000",
       set<uint32_t>(table, 0x5000)},
      {"names max", "import 0 of ntoskrnl.exe is described at 0xffffffff", set(table, kMax32)},
      {"names without an end", "import 1 of ntoskrnl.exe is described at 0x2600",
       both(set<uint32_t>(table, 0x25F8), set<uint64_t>(tiny::at(0x25F8), 0x2140))},
      {"function name outside", "import 0 of ntoskrnl.exe has its name at 0x5000",
       set<uint64_t>(names, 0x5000)},
      {"function name 32 bits", "has its name at 0xffffffff", set<uint64_t>(names, kMax32)},
      {"function name 63 bits", "has its name at 0x7fffffffffffffff",
       set<uint64_t>(names, kMax64 >> 1)},
      {"function name empty", "has its name at 0x23f0", set<uint64_t>(names, 0x23F0)},
      {"ordinal of 17 bits", "import 0 of ntoskrnl.exe is 0x8000000000010000; expected an ordinal",
       set<uint64_t>(names, 0x8000000000010000)},
      {"ordinal max", "is 0xffffffffffffffff", set(names, kMax64)},
      {"slot outside", "import 0 of ntoskrnl.exe has its slot at 0x5000",
       set<uint32_t>(table + 16, 0x5000)},
      {"slot in the headers", "has its slot at 0x100", set<uint32_t>(table + 16, 0x100)},
      {"slot max", "has its slot at 0xffffffff", set(table + 16, kMax32)},
      {"slot in unwind data", "the slot of an import at 0x2338 would be written into unwind data",
       [=](File& file) {
         tiny::put<uint32_t>(file, table + 16, 0x2330);
         tiny::put<uint32_t>(file, tiny::directory(3) + 4, 12);
         // The only unwind info lies at the second slot.
         tiny::put<uint32_t>(file, tiny::at(tiny::kPdata) + 8, 0x233C);
         tiny::put<uint32_t>(file, tiny::at(0x233C), 1);
       }},
  };
  expect_refusals(cases);
}

TEST(PeParse, RefusesBadExports) {
  DXGKIT_COVERS("NT-19");
  const size_t header = tiny::at(tiny::kExports);
  const Case cases[] = {
      {"outside", "the export directory at 0x5000 lies outside",
       set<uint32_t>(tiny::directory(0), 0x5000)},
      {"address max", "the export directory at 0xffffffff", set(tiny::directory(0), kMax32)},
      {"functions max", "NumberOfFunctions of the export directory is 4294967295",
       set(header + 20, kMax32)},
      {"names max", "NumberOfNames of the export directory is 4294967295",
       set(header + 24, kMax32)},
      {"functions outside", "AddressOfFunctions of the export directory is 0x5000",
       set<uint32_t>(header + 28, 0x5000)},
      {"function table max", "AddressOfFunctions of the export directory is 0xffffffff",
       set(header + 28, kMax32)},
      {"function outside", "export 2 is at 0x5000; expected an address inside a section",
       set<uint32_t>(tiny::at(tiny::kExportFunctions) + 4, 0x5000)},
      {"forwarder", "export 2 is forwarded to \"Exported\"; expected an address in this image",
       set<uint32_t>(tiny::at(tiny::kExportFunctions) + 4, 0x21E0)},
      {"name table outside", "is 0x5000 or 0x21c8", set<uint32_t>(header + 32, 0x5000)},
      {"ordinal table max", "is 0x21c0 or 0xffffffff", set(header + 36, kMax32)},
      {"name outside", "export name 0 is at 0x5000",
       set<uint32_t>(tiny::at(tiny::kExportNames), 0x5000)},
      {"name empty", "export name 0 is at 0x23f0",
       set<uint32_t>(tiny::at(tiny::kExportNames), 0x23F0)},
      {"no such function", "export name Exported belongs to function 2; expected one of the 2",
       set<uint16_t>(tiny::at(tiny::kExportOrdinals), 2)},
      {"a hole", "export name Exported belongs to function 1",
       set<uint32_t>(tiny::at(tiny::kExportFunctions) + 4, 0)},
      {"index max", "belongs to function 65535",
       set<uint16_t>(tiny::at(tiny::kExportOrdinals), UINT16_MAX)},
  };
  expect_refusals(cases);
}

TEST(PeParse, RefusesBadLoadConfig) {
  DXGKIT_COVERS("NT-19");
  const size_t config = tiny::at(tiny::kLoadConfig);
  const Case cases[] = {
      {"outside", "the load configuration at 0x5000", set<uint32_t>(tiny::directory(10), 0x5000)},
      {"address max", "the load configuration at 0xffffffff", set(tiny::directory(10), kMax32)},
      {"size 0", "the load configuration at 0x2240 has size 0x0", set<uint32_t>(config, 0)},
      {"size max", "has size 0xffffffff", set(config, kMax32)},
      {"size over the section", "has size 0x3c1", set<uint32_t>(config, 0x3C1)},
      {"cookie below the image", "SecurityCookie of the load configuration is 0x1; expected",
       set<uint64_t>(config + 0x58, 1)},
      {"cookie behind", "SecurityCookie of the load configuration is 0x140005000",
       set<uint64_t>(config + 0x58, tiny::kBase + 0x5000)},
      {"cookie over the end", "SecurityCookie of the load configuration is 0x140003ff9",
       set<uint64_t>(config + 0x58, tiny::kBase + 0x3FF9)},
      {"cookie max", "SecurityCookie of the load configuration is 0xffffffffffffffff",
       set(config + 0x58, kMax64)},
      {"check max", "GuardCFCheckFunctionPointer of the load configuration is 0xffffffffffffffff",
       set(config + 0x70, kMax64)},
      {"dispatch in the headers",
       "GuardCFDispatchFunctionPointer of the load configuration is 0x140000100",
       set<uint64_t>(config + 0x78, tiny::kBase + 0x100)},
      {"cookie in unwind data", "the security cookie at 0x2340 would be written into unwind data",
       set<uint64_t>(config + 0x58, tiny::kBase + tiny::kUnwind)},
  };
  expect_refusals(cases);
}

TEST(PeParse, RefusesBadUnwindData) {
  DXGKIT_COVERS("NT-19");
  const size_t directory = tiny::directory(3), pdata = tiny::at(tiny::kPdata);
  const size_t unwind = tiny::at(tiny::kUnwind), chained = tiny::at(tiny::kChained);
  const Case cases[] = {
      {"outside", "the exception directory at 0x5000", set<uint32_t>(directory, 0x5000)},
      {"misaligned", "the exception directory at 0x2302 has size 0x24; expected a multiple",
       set<uint32_t>(directory, 0x2302)},
      {"size 35", "has size 0x23", set<uint32_t>(directory + 4, 35)},
      {"size max", "has size 0xfffffffc", set<uint32_t>(directory + 4, 0xFFFFFFFC)},
      {"empty range", "exception entry 0 is for 0x1000 to 0x1000",
       set<uint32_t>(pdata + 4, tiny::kEntry)},
      {"backwards", "exception entry 0 is for 0x1000 to 0xfff", set<uint32_t>(pdata + 4, 0xFFF)},
      {"overlap",
       "exception entry 1 is for 0x1005 to 0x1016; expected a range that begins at "
       "0x1006 or later",
       set<uint32_t>(pdata + 12, 0x1005)},
      {"not code", "exception entry 0 is for 0x1000 to 0x2001", set<uint32_t>(pdata + 4, 0x2001)},
      {"in data", "exception entry 2 is for 0x3000 to 0x3001",
       both(set<uint32_t>(pdata + 24, 0x3000), set<uint32_t>(pdata + 28, 0x3001))},
      {"end max", "exception entry 2 is for 0x1020 to 0xffffffff", set(pdata + 28, kMax32)},
      {"indirect", "the unwind info at 0x2341 of the function at 0x1000 is a reference",
       set<uint32_t>(pdata + 8, 0x2341)},
      {"unwind misaligned", "the unwind info at 0x2342 of the function at 0x1000 is misaligned",
       set<uint32_t>(pdata + 8, 0x2342)},
      {"unwind outside", "the unwind info at 0x5000 of the function at 0x1000 lies outside",
       set<uint32_t>(pdata + 8, 0x5000)},
      {"unwind max", "the unwind info at 0xfffffffc", set<uint32_t>(pdata + 8, 0xFFFFFFFC)},
      {"version 0", "has version 0; expected 1 or 2", set<uint8_t>(unwind, 0x08)},
      {"version 3", "has version 3", set<uint8_t>(unwind, 0x0B)},
      {"flag 8", "has flags 0x8", set<uint8_t>(unwind, 0x41)},
      {"handler and chain", "has flags 0x5", set<uint8_t>(unwind, 0x29)},
      {"codes over the end", "has codes outside the data",
       both(set<uint32_t>(pdata + 8, 0x25FC), set<uint32_t>(tiny::at(0x25FC), 0x010001))},
      {"unknown code", "has code 0x27 in slot 0 of 2", set<uint8_t>(unwind + 5, 0x27)},
      {"epilog of version 1", "has code 0x06 in slot 0", set<uint8_t>(unwind + 5, 0x06)},
      {"allocation of kind 2", "has code 0x21 in slot 0", set<uint8_t>(unwind + 5, 0x21)},
      {"code without its slots", "has code 0x11 in slot 0 of 2", set<uint8_t>(unwind + 5, 0x11)},
      {"last code without its slot", "has code 0x04 in slot 1 of 2",
       set<uint8_t>(unwind + 7, 0x04)},
      {"handler outside", "has its handler at 0x2000; expected an address inside an executable",
       set<uint32_t>(unwind + 8, 0x2000)},
      {"handler max", "has its handler at 0xffffffff", set(unwind + 8, kMax32)},
      {"handler over the end", "has its handler outside the data",
       both(set<uint32_t>(pdata + 8, 0x25FC), set<uint32_t>(tiny::at(0x25FC), 0x09))},
      {"chain over the end", "is chained to an entry outside the data",
       both(set<uint32_t>(pdata + 8, 0x25FC), set<uint32_t>(tiny::at(0x25FC), 0x21))},
      {"chain to data", "is chained to 0x3000 to 0x1006", set<uint32_t>(chained + 4, 0x3000)},
      {"chain to itself", "begins a chain of more than 32; expected an end",
       set(chained + 12, tiny::kChained)},
      {"chain to nothing", "the unwind info at 0x5000 of the function at 0x1000 lies outside",
       set<uint32_t>(chained + 12, 0x5000)},
  };
  expect_refusals(cases);
}

/// Values at the edge of what is allowed are taken: a refusal of them would lock out real drivers.
TEST(PeParse, TakesWhatIsUnusual) {
  const size_t table = tiny::at(tiny::kImportTable);
  const Case cases[] = {
      {"bound imports with names", "", set(table + 4, kMax32)},
      {"no import names apart", "",
       [=](File& file) {
         tiny::put<uint32_t>(file, table, 0);
         tiny::put<uint64_t>(file, tiny::at(tiny::kSlots), 0x2140);
       }},
      {"no exception directory", "", set<uint32_t>(tiny::directory(3) + 4, 0)},
      {"no relocations needed", "", set<uint32_t>(tiny::directory(5) + 4, 0)},
      {"no directories", "", set<uint32_t>(kOpt + 108, 0)},
      {"old load configuration", "", set<uint32_t>(tiny::at(tiny::kLoadConfig), 0x60)},
      {"sections of zeros", "",
       both(set<uint32_t>(tiny::section(2) + 16, 0), set<uint32_t>(tiny::section(2) + 20, 0))},
      {"more raw data than size", "", set<uint32_t>(tiny::section(2) + 8, 1)},
      {"symbols outside", "", set(tiny::kFileHeader + 8, kMax32)},
      {"symbols without end", "", set(tiny::kFileHeader + 12, kMax32)},
      {"symbol name outside", "", set(tiny::kFileBytes + 22, kMax32)},
      {"symbol of no section", "", set<uint16_t>(tiny::kFileBytes + 12, UINT16_MAX)},
      {"debug directory outside", "", set<uint32_t>(tiny::directory(6), 0xFFFFFFF0)},
      {"debug data outside", "", set(tiny::at(tiny::kDebug) + 20, kMax32)},
      {"unwind version 2", "",
       both(set<uint8_t>(tiny::at(tiny::kUnwind), 0x0A),
            set<uint16_t>(tiny::at(tiny::kUnwind) + 4, 0x1606))},
      {"large section alignment", "",
       [](File& file) {
         tiny::put<uint32_t>(file, kOpt + 32, 0x10000);
         tiny::put<uint32_t>(file, kOpt + 56, 0x50000);
         for (uint32_t i = 0; i < 4; ++i)
           tiny::put<uint32_t>(file, tiny::section(i) + 12, (i + 1) * 0x10000);
         tiny::put<uint32_t>(file, kOpt + 108, 0);
         tiny::put<uint32_t>(file, kOpt + 16, 0x10000);
       }},
  };
  for (const Case& one : cases) {
    File file = tiny::make();
    one.breaks(file);
    std::string message;
    EXPECT_TRUE(parse_pe(file, &message).has_value()) << one.name << ": " << message;
  }
}

/// Each function continues in the one before it. As many as an unwinder follows are accepted, and
/// one more is refused, although each single step is legal.
TEST(PeParse, BoundsChainsAcrossFunctions) {
  constexpr uint32_t kTable = 0x3020, kInfos = 0x23C0;
  for (const uint32_t count : {32U, 33U}) {
    File file = tiny::make();
    tiny::put<uint32_t>(file, tiny::directory(3), kTable);
    tiny::put<uint32_t>(file, tiny::directory(3) + 4, count * 12);
    for (uint32_t i = 0; i < count; ++i) {
      const auto function = [&](size_t place, uint32_t index) {
        tiny::put<uint32_t>(file, place, tiny::kEntry + index);
        tiny::put<uint32_t>(file, place + 4, tiny::kEntry + index + 1);
        tiny::put<uint32_t>(file, place + 8, kInfos + index * 16);
      };
      function(tiny::at(kTable) + i * 12, i);
      tiny::put<uint32_t>(file, tiny::at(kInfos) + i * 16, i == 0 ? 0x01 : 0x21);
      if (i > 0) function(tiny::at(kInfos) + i * 16 + 4, i - 1);
    }
    std::string message;
    const bool taken = parse_pe(file, &message).has_value();
    EXPECT_EQ(taken, count == 32) << message;
    if (!taken) {
      EXPECT_NE(message.find("the function at 0x1020 begins a chain of more than 32"),
                std::string::npos)
          << message;
    }
  }
}

/// No prefix of a file and no file with one byte changed does more than be refused or accepted, and
/// what is accepted keeps the plan's promises: everything it names lies inside the image.
TEST(PeParse, SurvivesCutsAndFlips) {
  const auto keeps_promises = [](const PePlan& plan) {
    const auto inside = [&](uint64_t at, uint64_t size) { return at + size <= plan.size; };
    for (const PePlan::Section& section : plan.sections)
      EXPECT_TRUE(inside(section.address, section.memory_size) &&
                  section.file_size <= section.memory_size && !(section.write && section.execute));
    for (const uint32_t relocation : plan.relocations) EXPECT_TRUE(inside(relocation, 8));
    for (const PePlan::Import& import : plan.imports)
      EXPECT_TRUE(inside(import.slot, 8) && import.library < plan.libraries.size());
    for (const PePlan::Export& entry : plan.exports) EXPECT_TRUE(inside(entry.address, 1));
    for (const uint32_t slot : {plan.cookie, plan.guard_check, plan.guard_dispatch})
      EXPECT_TRUE(inside(slot, 8));
    EXPECT_TRUE(inside(plan.functions, plan.function_count * 12ULL));
    for (const PePlan::Symbol& symbol : plan.symbols)
      EXPECT_TRUE(size_t{symbol.name_offset} + symbol.name_length <= plan.symbol_names.size());
  };
  const File good = tiny::make();
  std::string message;
  size_t accepted = 0, refused = 0;
  for (size_t size = 0; size < good.size(); ++size) {
    const auto plan = parse_pe(std::span(good).first(size), &message);
    if (plan.has_value()) keeps_promises(*plan);
    EXPECT_EQ(plan.has_value(), size >= tiny::kFileBytes) << size;
  }
  File file = good;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const unsigned change : {0x01U, 0x10U, 0x80U, 0xFFU}) {
      file[at] ^= static_cast<std::byte>(change);
      const auto plan = parse_pe(file, &message);
      (plan.has_value() ? accepted : refused)++;
      if (plan.has_value()) keeps_promises(*plan);
      file[at] = good[at];
    }
  }
  // Most bytes are code and padding; the bytes of headers and tables matter.
  EXPECT_GT(accepted, 8000u);
  EXPECT_GT(refused, 500u);
}

}  // namespace
}  // namespace dxgkit::loader
