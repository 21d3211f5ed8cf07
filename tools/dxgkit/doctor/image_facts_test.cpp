// The doctor's facts about a file, on PE images written here byte by byte. Damage anywhere gives an
// answer and never a crash.
#include "tools/dxgkit/doctor/image_facts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

namespace dxgkit::tool {
namespace {

constexpr uint32_t kPe = 0x80, kOptional = kPe + 24, kSections = kOptional + 240;
constexpr uint32_t kText = 0x1000, kTextFile = 0x400, kTextBytes = 0x400;

/// A driver with everything the facts know: two imports, unwind data of two functions, three
/// relocations, a PDB.
class PeFile {
 public:
  PeFile() {
    put<uint16_t>(0, 0x5A4D);
    put<uint32_t>(0x3C, kPe);
    put<uint32_t>(kPe, 0x4550);
    put<uint16_t>(kPe + 4, 0x8664);
    put<uint16_t>(kPe + 6, 1);
    put<uint32_t>(kPe + 8, 1'700'000'000);  // 2023-11-14 22:13:20 UTC
    put<uint16_t>(kPe + 20, 240);
    put<uint16_t>(kPe + 22, 0x0022);
    put<uint16_t>(kOptional, 0x20B);
    put<uint32_t>(kOptional + 16, kText);
    put<uint32_t>(kOptional + 56, 0x2000);
    put<uint32_t>(kOptional + 60, kTextFile);
    put<uint16_t>(kOptional + 68, 1);
    put<uint16_t>(kOptional + 70, 0x4000);
    put<uint32_t>(kOptional + 108, 16);
    put<uint32_t>(kSections + 12, kText);
    put<uint32_t>(kSections + 16, kTextBytes);
    put<uint32_t>(kSections + 20, kTextFile);

    directory(1, kText + 0x10, 40);
    put_text<uint32_t>(0x10, kText + 0x40);  // lookup table
    put_text<uint32_t>(0x1C, kText + 0x60);  // library name
    put_text<uint32_t>(0x20, kText + 0x40);  // slots
    put_text<uint64_t>(0x40, kText + 0x70);
    put_text<uint64_t>(0x48, uint64_t{1} << 63 | 42);
    string(0x60, "ntoskrnl.exe");
    string(0x72, "ExAllocatePool2");
    directory(3, kText + 0x100, 24);
    directory(5, kText + 0x140, 16);
    put_text<uint32_t>(0x144, 16);
    put_text<uint16_t>(0x148, 0xA010);
    put_text<uint16_t>(0x14A, 0xA018);
    put_text<uint16_t>(0x14C, 0xA020);
    directory(6, kText + 0x180, 28);
    put_text<uint32_t>(0x18C, 2);
    put_text<uint32_t>(0x190, 64);
    put_text<uint32_t>(0x198, kTextFile + 0x1C0);
    put_text<uint32_t>(0x1C0, 0x53445352);
    put_text<uint32_t>(0x1C4, 0x12345678);
    put_text<uint32_t>(0x1D4, 3);
    string(0x1D8, "C:\\gpu\\gpu.pdb");
  }

  template <typename T>
  void put(size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
  }
  template <typename T>
  void put_text(size_t offset, T value) {
    put(kTextFile + offset, value);
  }
  void string(size_t offset, std::string_view text) {
    std::memcpy(bytes.data() + kTextFile + offset, text.data(), text.size());
  }
  void directory(size_t index, uint32_t address, uint32_t size) {
    put(kOptional + 112 + index * 8, address);
    put(kOptional + 116 + index * 8, size);
  }
  std::vector<std::byte> bytes = std::vector<std::byte>(kTextFile + kTextBytes);
};

TEST(ImageFacts, ReadsAWholeDriver) {
  const PeFile file;
  const auto facts = read_image_facts(file.bytes);
  ASSERT_TRUE(facts.has_value()) << facts.error();
  EXPECT_EQ(facts->form, ImageFacts::Form::kPe);
  EXPECT_EQ(facts->machine, "x64");
  EXPECT_TRUE(facts->runs_here);
  EXPECT_EQ(facts->subsystem, "native");
  EXPECT_TRUE(facts->native);
  EXPECT_EQ(facts->linked, "2023-11-14 22:13:20 UTC");
  EXPECT_EQ(facts->pdb, "C:\\gpu\\gpu.pdb");
  EXPECT_EQ(facts->pdb_id, "123456780000000000000000000000003");
  EXPECT_EQ(facts->entry, kText);
  EXPECT_EQ(facts->image_bytes, 0x2000u);
  EXPECT_EQ(facts->exception_entries, 2u);
  EXPECT_EQ(facts->relocations, 3u);
  EXPECT_TRUE(facts->relocatable);
  EXPECT_TRUE(facts->guarded);
  EXPECT_FALSE(facts->is_signed);
  ASSERT_EQ(facts->imports.size(), 2u);
  EXPECT_EQ(facts->imports[0].library, "ntoskrnl.exe");
  EXPECT_EQ(facts->imports[0].name, "ExAllocatePool2");
  EXPECT_EQ(facts->imports[1].name, "");
  EXPECT_EQ(facts->imports[1].ordinal, 42);
  EXPECT_TRUE(facts->oddities.empty()) << facts->oddities.front();
}

TEST(ImageFacts, DatesAreRightAtTheEdgesOfTheCalendar) {
  const std::pair<uint32_t, const char*> rows[] = {{0, "1970-01-01 00:00:00 UTC"},
                                                   {951'782'399, "2000-02-28 23:59:59 UTC"},
                                                   {951'782'400, "2000-02-29 00:00:00 UTC"},
                                                   {951'868'800, "2000-03-01 00:00:00 UTC"},
                                                   {1'767'225'599, "2025-12-31 23:59:59 UTC"},
                                                   {UINT32_MAX, "2106-02-07 06:28:15 UTC"}};
  for (const auto& [seconds, text] : rows) {
    PeFile file;
    file.put<uint32_t>(kPe + 8, seconds);
    EXPECT_EQ(read_image_facts(file.bytes)->linked, text);
  }
}

TEST(ImageFacts, SaysWhatIsOdd) {
  PeFile file;
  file.directory(3, 0, 0);
  file.put<uint16_t>(kPe + 22, 0x0023);  // relocations stripped
  file.put_text<uint64_t>(0x40, kText + kTextBytes + 0x10);
  const auto facts = read_image_facts(file.bytes);
  ASSERT_TRUE(facts.has_value());
  EXPECT_FALSE(facts->relocatable);
  ASSERT_EQ(facts->oddities.size(), 3u);
  EXPECT_NE(facts->oddities[0].find("ntoskrnl.exe"), std::string::npos) << facts->oddities[0];
}

TEST(ImageFacts, KnowsWhatCannotRunHere) {
  PeFile arm;
  arm.put<uint16_t>(kPe + 4, 0xAA64);
  EXPECT_EQ(read_image_facts(arm.bytes)->machine, "ARM64");
  EXPECT_FALSE(read_image_facts(arm.bytes)->runs_here);
  PeFile program;
  program.put<uint16_t>(kOptional + 68, 3);
  EXPECT_FALSE(read_image_facts(program.bytes)->native);
  PeFile narrow;
  narrow.put<uint16_t>(kOptional, 0x10B);
  EXPECT_FALSE(read_image_facts(narrow.bytes)->runs_here);
}

TEST(ImageFacts, NamesFromOutsideCannotDriveATerminal) {
  PeFile file;
  file.string(0x60, "nt\x1B[2J.exe");
  EXPECT_EQ(read_image_facts(file.bytes)->imports[0].library, "nt?[2J.exexe");
}

TEST(ImageFacts, EveryLengthAndEveryBrokenByteIsAnAnswer) {
  const PeFile whole;
  for (size_t size = 0; size < whole.bytes.size(); ++size) {
    const std::vector<std::byte> cut(whole.bytes.begin(),
                                     whole.bytes.begin() + static_cast<ptrdiff_t>(size));
    const auto facts = read_image_facts(cut);
    if (size < kSections + 24) {
      EXPECT_FALSE(facts.has_value()) << size;
    }
  }
  for (size_t at = 0; at < whole.bytes.size(); ++at) {
    for (const unsigned value : {0x00U, 0x7FU, 0x80U, 0xFFU}) {
      std::vector<std::byte> broken = whole.bytes;
      broken[at] = static_cast<std::byte>(value);
      const auto facts = read_image_facts(broken);
      if (facts.has_value()) {
        EXPECT_LE(facts->imports.size(), 16384u);
      } else {
        EXPECT_FALSE(facts.error().empty());
      }
    }
  }
}

TEST(ImageFacts, OtherFilesAreRefusedWithAReason) {
  EXPECT_EQ(read_image_facts({}).error(), "it is empty");
  const std::vector<std::byte> text(100, std::byte{'x'});
  EXPECT_EQ(read_image_facts(text).error(), "it is neither a PE nor an ELF file");
  std::vector<std::byte> elf(100);
  std::memcpy(elf.data(),
              "\x7F"
              "ELF",
              4);
  EXPECT_NE(read_image_facts(elf).error().find("ELF"), std::string::npos);
}

}  // namespace
}  // namespace dxgkit::tool
