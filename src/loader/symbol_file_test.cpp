// Symbol files for debuggers: DWARF of any content is survived, and nothing is made if no debugger
// listens. That a debugger understands them is proved with gdb itself (tests/debugger).
#include "loader/symbol_file.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "loader/debugger.h"

extern "C" {
struct Entry {
  Entry *next, *previous;
  const char* file;
  uint64_t bytes;
};
struct Descriptor {
  uint32_t version, action;
  Entry *relevant, *first;
};
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern Descriptor __jit_debug_descriptor;
}

namespace dxgkit::loader {
namespace {

std::vector<std::byte> contents(const char* path) {
  std::string message;
  auto file = read_image_file(path, &message);
  EXPECT_TRUE(file.has_value()) << message;
  return file.has_value() ? *file : std::vector<std::byte>();
}

DwarfSections dwarf_of_twin() {
  const std::vector<std::byte> file = contents(TINY_DRIVER);
  std::string message;
  const auto plan = parse_elf(file, &message);
  EXPECT_TRUE(plan.has_value()) << message;
  return symbols_of(*plan, file, nullptr).dwarf;
}

TEST(SymbolFile, HasTheDwarfOfTheTwin) {
  const DwarfSections dwarf = dwarf_of_twin();
  EXPECT_TRUE(dwarf.contains(".debug_info"));
  EXPECT_TRUE(dwarf.contains(".debug_line"));
}

TEST(SymbolFile, MovesThereAndBack) {
  const DwarfSections dwarf = dwarf_of_twin();
  DwarfSections moved = dwarf;
  ASSERT_TRUE(move_dwarf(moved, 0x1000));
  EXPECT_NE(moved.at(".debug_info"), dwarf.at(".debug_info"));
  EXPECT_NE(moved.at(".debug_line"), dwarf.at(".debug_line"));
  ASSERT_TRUE(move_dwarf(moved, uint64_t{0} - 0x1000));
  EXPECT_EQ(moved, dwarf);
}

TEST(SymbolFile, SurvivesAnyDwarf) {
  const DwarfSections dwarf = dwarf_of_twin();
  uint64_t random = 1;
  for (const auto& [name, bytes] : dwarf) {
    for (int i = 0; i < 300; ++i) {
      DwarfSections broken = dwarf;
      std::vector<std::byte>& section = broken.at(name);
      for (int change = 0; change <= i % 3; ++change) {
        random = random * 6364136223846793005 + 1442695040888963407;
        section[(random >> 33) % section.size()] = static_cast<std::byte>(random >> 25);
      }
      if (i % 5 == 0) section.resize((random >> 35) % section.size());
      static_cast<void>(move_dwarf(broken, 0x1000));
    }
  }
}

TEST(SymbolFile, IsRefusedIfItIsCutOff) {
  for (const char* const name : {".debug_info", ".debug_abbrev", ".debug_line"}) {
    DwarfSections dwarf = dwarf_of_twin();
    dwarf.at(name).pop_back();
    EXPECT_FALSE(move_dwarf(dwarf, 0x1000)) << name;
  }
}

TEST(Debugger, DoesNotListenIfThereIsNone) { EXPECT_FALSE(debugger_listens()); }

TEST(Debugger, FindsWhatIsAnnouncedAndNotWhatIsWithdrawn) {
  ASSERT_EQ(__jit_debug_descriptor.version, 1U);
  ASSERT_EQ(__jit_debug_descriptor.first, nullptr);
  auto first = std::make_unique<Announcement>(std::vector<std::byte>(10));
  Entry* const one = __jit_debug_descriptor.first;
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->bytes, 10U);
  EXPECT_EQ(one->next, nullptr);
  auto second = std::make_unique<Announcement>(std::vector<std::byte>(20));
  Entry* const other = __jit_debug_descriptor.first;
  EXPECT_EQ(other->bytes, 20U);
  EXPECT_EQ(other->next, one);
  EXPECT_EQ(one->previous, other);
  first.reset();
  EXPECT_EQ(__jit_debug_descriptor.first, other);
  EXPECT_EQ(other->next, nullptr);
  second.reset();
  EXPECT_EQ(__jit_debug_descriptor.first, nullptr);
}

}  // namespace
}  // namespace dxgkit::loader
