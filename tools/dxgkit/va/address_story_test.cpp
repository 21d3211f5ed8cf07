// Maps, walks and histories out of recordings made by hand, and out of nonsense.
#include "tools/dxgkit/va/address_story.h"

#include <gtest/gtest.h>

#include <random>

#include "base/arithmetic.h"

namespace dxgkit::tool::va {
namespace {

using trace::Event;
using trace::EventKind;
using trace::Recording;

constexpr uint64_t kMib = uint64_t{1} << 20;
/// Two levels: a leaf of 512 pages, a root of 512 entries of 2 MiB.
constexpr uint64_t kTwoLevels = 9 | 9 << 8;

struct Tape : Recording {
  int64_t now = 0;
  void add(EventKind kind, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
           uint16_t node = trace::kNoNode) {
    events.push_back({.time_ns = ++now,
                      .thread = 1,
                      .kind = static_cast<uint16_t>(kind),
                      .node = node,
                      .a = a,
                      .b = b,
                      .c = c,
                      .d = d});
  }
  void map(uint64_t address, uint64_t size, uint64_t allocation, uint64_t offset,
           uint64_t protection = 1) {
    add(EventKind::kGpuVaMapped, 2, address, size, allocation);
    add(EventKind::kGpuVaView, 2, offset, protection);
  }
  void space() { add(EventKind::kGpuVaSpace, 2, 30, 2, kTwoLevels); }
  /// `count` entries of a table at `table` of segment 1.
  void write(uint64_t level, uint64_t table, uint64_t address, uint64_t count, uint64_t page,
             uint64_t flags, uint64_t apart = 1) {
    add(EventKind::kPageTableWrite, 2, level, table, 1);
    add(EventKind::kPageTableEntries, address, count, page, flags | apart << 32);
  }
};
constexpr uint64_t kValidInSegment1 = 1 | 1 << 5;

TEST(AddressStory, LaterRangesReplaceEarlierOnes) {
  Tape tape;
  tape.space();
  tape.add(EventKind::kGpuVaReserved, 2, 2 * kMib, 64 << 10, 0);
  tape.map(2 * kMib, 4 * kPageBytes, 7, 0);
  const int64_t first = tape.now;
  tape.map(2 * kMib + kPageBytes, kPageBytes, 8, 0x5000, 3);
  tape.add(EventKind::kGpuVaUnmapped, 2, 2 * kMib, kPageBytes);
  const int64_t second = tape.now;
  tape.add(EventKind::kGpuVaFreed, 2, 2 * kMib, 64 << 10);
  const AddressStory story(tape);
  const auto before = story.map_at(2, first);
  ASSERT_EQ(before.size(), 2U);
  EXPECT_EQ(before[0].allocation, 7U);
  EXPECT_EQ(before[0].size, 4 * kPageBytes);
  EXPECT_EQ(before[1].kind, Range::Kind::kReserved);
  const auto after = story.map_at(2, second);
  ASSERT_EQ(after.size(), 4U);
  EXPECT_EQ(after[0].kind, Range::Kind::kReserved);
  EXPECT_EQ(after[0].size, kPageBytes);
  EXPECT_EQ(after[1].allocation, 8U);
  EXPECT_EQ(after[1].offset, 0x5000U);
  EXPECT_EQ(after[1].protection, 3U);
  EXPECT_EQ(after[2].allocation, 7U);
  EXPECT_EQ(after[2].offset, 2 * kPageBytes);  // its third page
  EXPECT_EQ(after[3].kind, Range::Kind::kReserved);
  EXPECT_TRUE(story.map_at(2, tape.now).empty());
  EXPECT_TRUE(story.map_at(3, second).empty());  // another process
  const auto one = story.range_at(2, 2 * kMib + 3 * kPageBytes, second);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->offset, 2 * kPageBytes);
  EXPECT_EQ(one->address, 2 * kMib + 2 * kPageBytes);
}

TEST(AddressStory, WalksFromTheRootAsEntriesWereWritten) {
  Tape tape;
  tape.space();
  const uint64_t address = 4 * kMib + 3 * kPageBytes + 0x123;
  const int64_t empty = tape.now;
  tape.write(0, 0x8000, 4 * kMib, 512, 0, 0, 0);  // a new leaf, all invalid
  tape.write(0, 0x8000, 4 * kMib, 8, 0x100, kValidInSegment1);
  tape.write(1, 0x1000, 4 * kMib, 1, 8, kValidInSegment1, 0);
  const int64_t mapped = tape.now;
  tape.write(0, 0x8000, 4 * kMib, 8, 0, 0, 0);
  const int64_t gone = tape.now;
  tape.add(EventKind::kPageTablesLost);
  const AddressStory story(tape);

  const Walk walk = story.walk_at(2, address, mapped);
  ASSERT_EQ(walk.steps.size(), 2U);
  EXPECT_EQ(walk.steps[0].level, 1U);
  EXPECT_EQ(walk.steps[0].index, 2U);
  EXPECT_EQ(walk.steps[0].table_offset, 0x1000U);
  EXPECT_EQ(walk.steps[1].index, 3U);
  EXPECT_EQ(walk.steps[1].page, 0x103U);
  EXPECT_TRUE(walk.translates);
  EXPECT_EQ(walk.segment, 1U);
  EXPECT_EQ(walk.offset, 0x103123U);

  EXPECT_FALSE(story.walk_at(2, address, empty).translates);
  const Walk after = story.walk_at(2, address, gone);
  ASSERT_EQ(after.steps.size(), 2U);
  EXPECT_TRUE(after.steps[1].written);
  EXPECT_FALSE(after.translates);
  EXPECT_FALSE(story.walk_at(2, address + 8 * kPageBytes, mapped).translates);
  const Walk lost = story.walk_at(2, address, tape.now);
  ASSERT_EQ(lost.steps.size(), 1U);
  EXPECT_FALSE(lost.steps[0].written);
  EXPECT_TRUE(story.walk_at(9, address, mapped).steps.empty());
}

TEST(AddressStory, LargePagesEndTheWalkAboveTheLeaf) {
  Tape tape;
  tape.space();
  tape.write(1, 0x1000, 4 * kMib, 2, 0x400, kValidInSegment1 | 1 << 10, 512);
  const AddressStory story(tape);
  const Walk walk = story.walk_at(2, 6 * kMib + 0x12345, tape.now);
  EXPECT_TRUE(walk.translates);
  EXPECT_EQ(walk.offset, 0x600u * kPageBytes + 0x12345);
}

TEST(AddressStory, TellsWhoDidWhat) {
  Tape tape;
  tape.names = {"D3DKMTMapGpuVirtualAddress", "alice"};
  tape.add(EventKind::kObjectName, 2, 1, static_cast<uint64_t>(trace::ObjectClass::kProcess));
  tape.space();
  tape.add(EventKind::kGpuVaRoot, 2, 77, 0x1000, 1);
  tape.add(EventKind::kThunkEnter, 0, 2);
  tape.map(2 * kMib, 2 * kPageBytes, 7, 0x3000);
  tape.add(EventKind::kThunkExit, 0);
  tape.add(EventKind::kPlaced, 7, 1, 0x9000, 0x8000);
  tape.add(EventKind::kGpuVaFreed, 2, 2 * kMib, 2 * kPageBytes);
  tape.add(EventKind::kPacketSubmitted, 5, 77, 40, 1, 3);
  tape.add(EventKind::kGpuVaFault, 40, 2 * kMib + 8, 1, 0, 3);
  tape.add(EventKind::kGpuVaFault, 41, 4 * kMib, 1, 0, 3);  // another page
  const AddressStory story(tape);
  ASSERT_EQ(story.processes().size(), 1U);
  EXPECT_EQ(story.processes()[0].name, "alice");
  EXPECT_EQ(story.processes()[0].faults, 1U);
  std::vector<std::string> what;
  const auto history = story.history_of(2, 2 * kMib);
  for (const Happening& one : history) what.push_back(one.what);
  EXPECT_EQ(what, (std::vector<std::string>{"mapped", "placed", "freed", "faulted"}));
  EXPECT_EQ(history[0].text,
            "0x200000 to 0x202000: allocation 7, in D3DKMTMapGpuVirtualAddress; from 0x3000, read, "
            "write");
  EXPECT_NE(history[3].text.find("write of 0x200008 on node 3, fence 40"), std::string::npos);
  EXPECT_TRUE(story.history_of(2, 64 * kMib).empty());
  EXPECT_EQ(story.place_at(7, tape.now)->offset, 0x9000U);
}

TEST(AddressStory, SurvivesNonsense) {
  std::mt19937_64 random(3);
  std::vector<uint16_t> kinds;
  for (const trace::KindInfo& info : trace::schema())
    kinds.push_back(static_cast<uint16_t>(info.kind));
  const auto value = [&]() -> uint64_t {
    const uint64_t drawn = random();
    switch (random() % 5) {
      case 0:
        return drawn;
      case 1:
        return UINT64_MAX - drawn % 4;
      case 2:
        return drawn % 8 * kPageBytes;
      case 3:
        return kTwoLevels;
      default:
        return drawn % 4;
    }
  };
  for (int round = 0; round < 300; ++round) {
    Tape tape;
    tape.names = {"a"};
    for (int i = 0; i < 200; ++i) {
      const EventKind kind = static_cast<EventKind>(kinds[random() % kinds.size()]);
      const bool ours = random() % 2 == 0;
      tape.add(ours ? static_cast<EventKind>(100 + random() % 14) : kind, value(), value(), value(),
               value(), static_cast<uint16_t>(random() % 4));
    }
    const AddressStory story(tape);
    for (const Process& process : story.processes()) {
      uint64_t last = 0;
      for (const Range& range : story.map_at(process.number, tape.now)) {
        EXPECT_GE(range.address, last);
        EXPECT_GT(range.address + range.size, range.address);
        last = range.address + range.size;
      }
      for (const uint64_t address : {uint64_t{0}, kPageBytes, value()}) {
        EXPECT_LE(story.walk_at(process.number, address, tape.now).steps.size(), 6U);
        static_cast<void>(story.history_of(process.number, address));
      }
    }
  }
}

TEST(AddressStory, TimesTakeUnits) {
  EXPECT_EQ(parse_time("1200"), 1200);
  EXPECT_EQ(parse_time("7ns"), 7);
  EXPECT_EQ(parse_time("2.5us"), 2500);
  EXPECT_EQ(parse_time("1s"), 1'000'000'000);
  EXPECT_EQ(parse_time("0.001ms"), 1000);
  for (const char* const text : {"", "s", "-1", "1.", "1.5", "1.0001us", "1 s", "x", "1h",
                                 "9223372036854775808", "9223372037s"})
    EXPECT_FALSE(parse_time(text).has_value()) << text;
  EXPECT_EQ(parse_address("0x200000"), 2 * kMib);
  EXPECT_EQ(parse_address("4096"), 4096U);
  for (const char* const text : {"", "0x", "-1", "0xg", "18446744073709551616"})
    EXPECT_FALSE(parse_address(text).has_value()) << text;
}

}  // namespace
}  // namespace dxgkit::tool::va
