#include "bus/machine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace dxgkit::bus {
namespace {

constexpr uint64_t kBase = Machine::kSystemMemoryBase;
constexpr uint64_t kMemory = 1 << 20;

struct Access {
  uint64_t offset;
  uint32_t size;
  uint64_t value;
  bool operator==(const Access&) const = default;
};

struct RecordingRegisters : MmioHandler {
  uint64_t mmio_read(uint64_t offset, uint32_t size) override {
    reads.push_back({offset, size, 0});
    return answer;
  }
  void mmio_write(uint64_t offset, uint32_t size, uint64_t value) override {
    writes.push_back({offset, size, value});
  }
  uint64_t answer = 0;
  std::vector<Access> reads, writes;
};

struct MemoryObject {
  explicit MemoryObject(uint64_t size) : fd(memfd_create("test", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(size)), 0);
  }
  ~MemoryObject() { close(fd); }
  MemoryObject(const MemoryObject&) = delete;
  int fd;
};

Bar register_bar(MmioHandler* handler, uint64_t size = 0x10000) {
  return {
      .kind = BarKind::kRegisters, .base = {}, .size = size, .registers = handler, .memory = {}};
}
Bar memory_bar(const MemoryObject& object, uint64_t size) {
  return {.kind = BarKind::kMemory,
          .base = {},
          .size = size,
          .registers = nullptr,
          .memory = {object.fd, 0, size}};
}

// --- system pages

TEST(MachinePages, GivesZeroedAlignedContiguousMemory) {
  Machine machine(kMemory);
  const PageFrame first = machine.allocate_contiguous(4, 64 * 1024).value();
  EXPECT_EQ(first.value * kPageBytes % (64 * 1024), 0u);
  const PhysicalAddress address{first.value * kPageBytes};
  std::byte* memory = machine.system_pointer(address, 4 * kPageBytes);
  ASSERT_NE(memory, nullptr);
  std::memset(memory, 0xAB, 4 * kPageBytes);
  machine.free_contiguous(first, 4);
  // The same pages come back and their old content does not.
  const PageFrame again = machine.allocate_contiguous(4, 64 * 1024).value();
  EXPECT_EQ(again, first);
  EXPECT_TRUE(
      std::all_of(memory, memory + 4 * kPageBytes, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(MachinePages, ScatteredPagesAreDistinctZeroedAndNotContiguous) {
  Machine machine(kMemory);
  const auto pages = machine.allocate_pages(32).value();
  ASSERT_EQ(pages.size(), 32u);
  EXPECT_NE(pages[1].value, pages[0].value + 1);
  auto sorted = pages;
  std::ranges::sort(sorted);
  EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end());
  for (const PageFrame page : pages) {
    std::memset(machine.system_pointer(PhysicalAddress{page.value * kPageBytes}, kPageBytes), 1,
                kPageBytes);
  }
  EXPECT_EQ(machine.free_page_count(), 256u - 32u);
  machine.free_pages(pages);
  EXPECT_EQ(machine.free_page_count(), 256u);
  const auto every_page = machine.allocate_pages(256).value();
  for (const PageFrame page : every_page) {
    const std::byte* memory =
        machine.system_pointer(PhysicalAddress{page.value * kPageBytes}, kPageBytes);
    ASSERT_TRUE(
        std::all_of(memory, memory + kPageBytes, [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(MachinePages, RefusesWithoutChangeWhenExhausted) {
  Machine machine(kMemory);
  const auto all_but_one = machine.allocate_pages(255).value();
  EXPECT_EQ(machine.allocate_pages(2).error(), Status::kNoMemory);
  EXPECT_EQ(machine.allocate_contiguous(2).error(), Status::kNoMemory);
  EXPECT_EQ(machine.free_page_count(), 1u);
  EXPECT_TRUE(machine.allocate_contiguous(1).has_value());
  EXPECT_EQ(machine.allocate_pages(1).error(), Status::kNoMemory);
  machine.free_pages(all_but_one);
  EXPECT_EQ(machine.free_page_count(), 255u);
}

TEST(MachinePages, RefusesHostileCountsAndAlignments) {
  Machine machine(kMemory);
  EXPECT_EQ(machine.allocate_contiguous(0).error(), Status::kInvalidParameter);
  EXPECT_EQ(machine.allocate_contiguous(1, 0).error(), Status::kInvalidParameter);
  EXPECT_EQ(machine.allocate_contiguous(1, 3 * kPageBytes).error(), Status::kInvalidParameter);
  EXPECT_EQ(machine.allocate_contiguous(UINT64_MAX).error(), Status::kNoMemory);
  EXPECT_EQ(machine.allocate_contiguous(1, uint64_t{1} << 63).error(), Status::kNoMemory);
  EXPECT_EQ(machine.allocate_pages(UINT64_MAX).error(), Status::kNoMemory);
  EXPECT_TRUE(machine.allocate_pages(0).value().empty());
  EXPECT_EQ(machine.allocate_contiguous(1, 16).value(), PageFrame{kBase / kPageBytes});
  EXPECT_EQ(machine.free_page_count(), 255u);
}

TEST(MachinePagesDeathTest, AbortsOnForeignPages) {
  Machine machine(kMemory);
  EXPECT_DEATH(machine.free_contiguous(PageFrame{0}, 1), "");
  EXPECT_DEATH(machine.free_contiguous(PageFrame{kBase / kPageBytes}, 1), "");
}

// --- access

TEST(MachineAccess, SystemPointerCoversExactlySystemMemory) {
  Machine machine(kMemory);
  EXPECT_NE(machine.system_pointer(PhysicalAddress{kBase}, kMemory), nullptr);
  EXPECT_NE(machine.system_pointer(PhysicalAddress{kBase + kMemory - 1}, 1), nullptr);
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{kBase}, kMemory + 1), nullptr);
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{kBase + kMemory - 1}, 2), nullptr);
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{kBase + kMemory}, 0), nullptr);
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{kBase - 1}, 1), nullptr);
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{0}, 1), nullptr);
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{UINT64_MAX}, 1), nullptr);
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{kBase + 1}, UINT64_MAX), nullptr);
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{UINT64_MAX - 5}, kBase + 100), nullptr);
}

TEST(MachineAccess, PhysicalOfInvertsSystemPointer) {
  Machine machine(kMemory);
  std::byte* memory = machine.system_pointer(PhysicalAddress{kBase}, kMemory);
  EXPECT_EQ(machine.physical_of(memory + 12345).value, kBase + 12345);
  EXPECT_EQ(machine.physical_of(memory + kMemory).value, 0u);
  EXPECT_EQ(machine.physical_of(nullptr).value, 0u);
  EXPECT_EQ(machine.physical_of(&machine).value, 0u);
}

TEST(MachineAccess, DmaMovesAllOrNothing) {
  Machine machine(kMemory);
  std::array<std::byte, 16> out{};
  const std::array<std::byte, 16> in{std::byte{1}, std::byte{2}};
  ASSERT_TRUE(machine.dma_write(PhysicalAddress{kBase + kMemory - 16}, in));
  ASSERT_TRUE(machine.dma_read(PhysicalAddress{kBase + kMemory - 16}, out));
  EXPECT_EQ(out, in);
  EXPECT_FALSE(machine.dma_write(PhysicalAddress{kBase + kMemory - 15}, in));
  EXPECT_FALSE(machine.dma_read(PhysicalAddress{kBase + kMemory - 15}, out));
  EXPECT_FALSE(machine.dma_read(PhysicalAddress{UINT64_MAX - 3}, out));
  EXPECT_FALSE(machine.dma_write(PhysicalAddress{0x1000}, in));
  EXPECT_EQ(out, in);
  ASSERT_TRUE(machine.dma_read(PhysicalAddress{kBase + kMemory - 16}, out));
  EXPECT_EQ(out, in);
}

// --- functions and BARs

TEST(MachineBars, AssignsNaturallyAlignedDisjointAddresses) {
  Machine machine(kMemory);
  RecordingRegisters registers;
  const MemoryObject vram(16 << 20);
  PciFunction one({}, {register_bar(&registers, 0x1000), {}, memory_bar(vram, 16 << 20)});
  PciFunction two({}, {register_bar(&registers, 0x100000), register_bar(&registers, 0x1000),
                       memory_bar(vram, 1 << 20)});
  ASSERT_EQ(machine.add_function(one), Status::kSuccess);
  ASSERT_EQ(machine.add_function(two), Status::kSuccess);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (PciFunction* function : {&one, &two}) {
    for (const Bar& bar : function->bars()) {
      if (bar.kind == BarKind::kNone) continue;
      EXPECT_EQ(bar.base.value % bar.size, 0u);
      ranges.emplace_back(bar.base.value, bar.size);
    }
  }
  std::ranges::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i) {
    EXPECT_LE(ranges[i - 1].first + ranges[i - 1].second, ranges[i].first);
  }
  EXPECT_LT(one.bars()[0].base.value, kBase);
  EXPECT_GE(one.bars()[2].base.value, Machine::kMemoryBarBase);
}

TEST(MachineBars, RefusesUnsoundBarsWithoutATrace) {
  Machine machine(kMemory);
  RecordingRegisters registers;
  const MemoryObject vram(1 << 20);
  Bar small_object = memory_bar(vram, 1 << 20);
  small_object.memory.size = 4096;
  Bar odd_offset = memory_bar(vram, 4096);
  odd_offset.memory.offset = 5;
  Bar closed = memory_bar(vram, 4096);
  closed.memory.fd = -1;
  const std::vector<std::vector<Bar>> broken = {
      {register_bar(nullptr)},
      {register_bar(&registers, 0)},
      {register_bar(&registers, 0x1001)},
      {register_bar(&registers, 2048)},
      {small_object},
      {odd_offset},
      {closed},
      {memory_bar(vram, 4096), register_bar(&registers)},
      {{}, {}, {}, {}, {}, memory_bar(vram, 4096)},
  };
  for (size_t i = 0; i < broken.size(); ++i) {
    SCOPED_TRACE(i);
    PciFunction function({}, broken[i]);
    EXPECT_EQ(machine.add_function(function), Status::kInvalidParameter);
    EXPECT_EQ(machine.map_io(PhysicalAddress{Machine::kRegisterBarBase}, 1), nullptr);
    EXPECT_EQ(machine.map_io(PhysicalAddress{Machine::kMemoryBarBase}, 1), nullptr);
  }
  PciFunction twice({}, {register_bar(&registers)});
  ASSERT_EQ(machine.add_function(twice), Status::kSuccess);
  EXPECT_EQ(machine.add_function(twice), Status::kInvalidParameter);
  machine.remove_function(twice);
  machine.remove_function(twice);
  EXPECT_EQ(machine.add_function(twice), Status::kSuccess);
}

// Either end may go first; afterwards the other is as if it had never met it.
TEST(MachineBars, DestructionUnplugs) {
  RecordingRegisters registers;
  PciFunction survivor({}, {register_bar(&registers)});
  {
    Machine first(kMemory);
    ASSERT_EQ(first.add_function(survivor), Status::kSuccess);
  }
  Machine second(kMemory);
  ASSERT_EQ(second.add_function(survivor), Status::kSuccess);
  uint64_t base = 0;
  {
    PciFunction brief({}, {register_bar(&registers)});
    ASSERT_EQ(second.add_function(brief), Status::kSuccess);
    base = brief.bars()[0].base.value;
    EXPECT_NE(second.map_io(PhysicalAddress{base}, 8), nullptr);
  }
  EXPECT_EQ(second.map_io(PhysicalAddress{base}, 8), nullptr);
  PciFunction empty({}, {});
  ASSERT_EQ(second.add_function(empty), Status::kSuccess);
  EXPECT_EQ(second.add_function(empty), Status::kInvalidParameter);
}

TEST(MachineBars, RunsOutOfRegisterSpaceCleanly) {
  Machine machine(kMemory);
  RecordingRegisters registers;
  PciFunction half({}, {register_bar(&registers, 512 << 20)});
  PciFunction too_much({}, {register_bar(&registers, 0x1000), register_bar(&registers, 512 << 20)});
  ASSERT_EQ(machine.add_function(half), Status::kSuccess);
  EXPECT_EQ(machine.add_function(too_much), Status::kInsufficientResources);
  PciFunction small({}, {register_bar(&registers, 0x1000)});
  ASSERT_EQ(machine.add_function(small), Status::kSuccess);
  // The first BAR of the refused function took nothing.
  EXPECT_EQ(small.bars()[0].base.value, half.bars()[0].base.value + (512u << 20));
}

TEST(MachineIo, RegisterAccessReachesTheHandlerWithItsOffset) {
  Machine machine(kMemory);
  RecordingRegisters registers;
  registers.answer = 0x1122'3344'5566'7788;
  PciFunction function({}, {register_bar(&registers)});
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  const uint64_t base = function.bars()[0].base.value;
  auto* pointer = static_cast<std::byte*>(machine.map_io(PhysicalAddress{base + 0x1008}, 0x100));
  ASSERT_NE(pointer, nullptr);
  EXPECT_EQ(machine.read_register(pointer + 4, 4), 0x5566'7788u);
  EXPECT_EQ(machine.read_register(pointer, 8), 0x1122'3344'5566'7788u);
  machine.write_register(pointer + 1, 1, 0xFFFF'FFA5);
  EXPECT_EQ(registers.reads, (std::vector<Access>{{0x100C, 4, 0}, {0x1008, 8, 0}}));
  EXPECT_EQ(registers.writes, (std::vector<Access>{{0x1009, 1, 0xA5}}));
}

// Accesses no register answers read all ones: wrong size, over the end of the BAR, unmapped,
// unplugged.
TEST(MachineIo, NothingAnswersBeyondAWindow) {
  Machine machine(kMemory);
  RecordingRegisters registers;
  PciFunction function({}, {register_bar(&registers, 0x1000)});
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  const PhysicalAddress base = function.bars()[0].base;
  auto* pointer = static_cast<std::byte*>(machine.map_io(base, 0x1000));
  ASSERT_NE(pointer, nullptr);
  EXPECT_EQ(machine.read_register(pointer, 3), UINT64_MAX);
  EXPECT_EQ(machine.read_register(pointer, 0), UINT64_MAX);
  EXPECT_EQ(machine.read_register(pointer + 0xFFD, 4), 0xFFFF'FFFFu);
  EXPECT_EQ(machine.read_register(pointer + 0x1000, 2), 0xFFFFu);
  machine.write_register(pointer + 0xFFF, 2, 1);
  machine.write_register(pointer, 16, 1);
  EXPECT_FALSE(machine.unmap_io(pointer, 0x800));
  EXPECT_FALSE(machine.unmap_io(pointer + 8, 0x1000));
  EXPECT_TRUE(machine.unmap_io(pointer, 0x1000));
  EXPECT_FALSE(machine.unmap_io(pointer, 0x1000));
  EXPECT_EQ(machine.read_register(pointer, 4), 0xFFFF'FFFFu);
  ASSERT_EQ(machine.map_io(base, 0x1000), pointer);
  machine.remove_function(function);
  EXPECT_EQ(machine.read_register(pointer, 1), 0xFFu);
  machine.write_register(pointer, 4, 1);
  EXPECT_TRUE(registers.reads.empty());
  EXPECT_TRUE(registers.writes.empty());
}

TEST(MachineIo, RefusesRangesInNoBar) {
  Machine machine(kMemory);
  RecordingRegisters registers;
  const MemoryObject vram(1 << 20);
  PciFunction function({}, {register_bar(&registers, 0x1000), {}, memory_bar(vram, 1 << 20)});
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  const uint64_t registers_at = function.bars()[0].base.value;
  const uint64_t vram_at = function.bars()[2].base.value;
  EXPECT_EQ(machine.map_io(PhysicalAddress{registers_at}, 0), nullptr);
  EXPECT_EQ(machine.map_io(PhysicalAddress{registers_at}, 0x1001), nullptr);
  EXPECT_EQ(machine.map_io(PhysicalAddress{registers_at - 1}, 2), nullptr);
  EXPECT_EQ(machine.map_io(PhysicalAddress{vram_at + 1}, 1 << 20), nullptr);
  EXPECT_EQ(machine.map_io(PhysicalAddress{vram_at + 1}, UINT64_MAX), nullptr);
  EXPECT_EQ(machine.map_io(PhysicalAddress{UINT64_MAX}, 2), nullptr);
  EXPECT_EQ(machine.map_io(PhysicalAddress{kBase}, 4096), nullptr);
  int local = 0;
  EXPECT_FALSE(machine.unmap_io(&local, sizeof local));
}

TEST(MachineIo, MemoryBarsAreRealMemorySharedWithTheDevice) {
  Machine machine(kMemory);
  const MemoryObject vram(1 << 20);
  PciFunction function({}, {memory_bar(vram, 1 << 20)});
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  const PhysicalAddress at{function.bars()[0].base.value + 0x1234};
  auto* pointer = static_cast<char*>(machine.map_io(at, 16));
  ASSERT_NE(pointer, nullptr);
  std::strcpy(pointer, "through the bar");
  std::array<char, 16> seen{};
  ASSERT_EQ(pread(vram.fd, seen.data(), seen.size(), 0x1234), 16);
  EXPECT_STREQ(seen.data(), "through the bar");
  EXPECT_EQ(machine.read_register(pointer, 1), uint64_t{'t'});
  machine.write_register(pointer + 1, 2, 0x4241);  // misaligned on purpose
  EXPECT_EQ(machine.read_register(pointer + 1, 2), 0x4241u);
  machine.write_register(pointer + 4, 8, 0x0102'0304'0506'0708);
  EXPECT_EQ(machine.read_register(pointer + 4, 8), 0x0102'0304'0506'0708u);
  EXPECT_TRUE(machine.unmap_io(pointer, 16));
}

TEST(MachineIo, WindowOfNamesTheMemoryBehindAnAddress) {
  Machine machine(kMemory);
  RecordingRegisters registers;
  const MemoryObject vram(1 << 20);
  PciFunction function({}, {register_bar(&registers), {}, memory_bar(vram, 1 << 20)});
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  const MemoryWindow system = machine.window_of(PhysicalAddress{kBase + 0x3000}, 0x2000);
  EXPECT_GE(system.fd, 0);
  EXPECT_EQ(system.offset, 0x3000u);
  EXPECT_EQ(system.size, 0x2000u);
  const uint64_t bar = function.bars()[2].base.value;
  const MemoryWindow video = machine.window_of(PhysicalAddress{bar + 0x5000}, 0x1000);
  EXPECT_EQ(video.fd, vram.fd);
  EXPECT_EQ(video.offset, 0x5000u);
  EXPECT_EQ(machine.window_of(PhysicalAddress{function.bars()[0].base}, 16).fd, -1);
  EXPECT_EQ(machine.window_of(PhysicalAddress{kBase}, 0).fd, -1);
  EXPECT_EQ(machine.window_of(PhysicalAddress{kBase + 1}, kMemory).fd, -1);
  EXPECT_EQ(machine.window_of(PhysicalAddress{bar + 1}, 1 << 20).fd, -1);
  EXPECT_EQ(machine.window_of(PhysicalAddress{UINT64_MAX - 1}, 8).fd, -1);
}

// --- AGP

TEST(MachineAgp, TheGartShowsScatteredPagesAsOneRange) {
  Machine machine(kMemory);
  PciFunction master({.vendor_id = 1, .device_id = 2}, {});
  PciFunction other({.vendor_id = 1, .device_id = 3}, {});
  EXPECT_FALSE(machine.agp_aperture(master).has_value());
  EXPECT_EQ(machine.add_agp_aperture(master, 0), Status::kInvalidParameter);
  EXPECT_EQ(machine.add_agp_aperture(master, 4095), Status::kInvalidParameter);
  EXPECT_EQ(machine.add_agp_aperture(master,
                                     Machine::kAgpApertureLimit - Machine::kAgpApertureBase + 4096),
            Status::kInvalidParameter);
  ASSERT_EQ(machine.add_agp_aperture(master, 16 * 4096), Status::kSuccess);
  EXPECT_EQ(machine.add_agp_aperture(master, 16 * 4096), Status::kInvalidParameter);
  ASSERT_TRUE(machine.agp_aperture(master).has_value());
  EXPECT_EQ(machine.agp_aperture(master)->size, 16U * 4096);
  EXPECT_FALSE(machine.agp_aperture(other).has_value());

  const uint64_t base = Machine::kAgpApertureBase;
  const std::array<uint64_t, 3> frames{kBase / 4096 + 9, kBase / 4096 + 2, kBase / 4096 + 5};
  machine.gart_map(4 * 4096, frames);
  std::vector<std::byte> bytes(2 * 4096 + 100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 11 >> 4);
  ASSERT_TRUE(machine.dma_write(PhysicalAddress{base + 4 * 4096 + 50}, bytes));
  EXPECT_EQ(std::memcmp(machine.system_pointer(PhysicalAddress{kBase + 9 * 4096 + 50}, 1),
                        bytes.data(), 4046),
            0);
  EXPECT_EQ(std::memcmp(machine.system_pointer(PhysicalAddress{kBase + 2 * 4096}, 1),
                        bytes.data() + 4046, 4096),
            0);
  std::vector<std::byte> back(bytes.size());
  ASSERT_TRUE(machine.dma_read(PhysicalAddress{base + 4 * 4096 + 50}, back));
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(machine.translate(PhysicalAddress{base + 5 * 4096 + 7})->value, kBase + 2 * 4096 + 7);
  EXPECT_EQ(machine.translate(PhysicalAddress{kBase + 77})->value, kBase + 77);
  // All or nothing where a page shows nothing, or the aperture ends.
  back.assign(back.size(), std::byte{0xEE});
  EXPECT_FALSE(machine.dma_read(PhysicalAddress{base + 5 * 4096}, back));
  EXPECT_EQ(back[0], std::byte{0xEE});
  EXPECT_FALSE(machine.dma_write(PhysicalAddress{base + 3 * 4096 + 4000}, bytes));
  EXPECT_FALSE(machine.dma_read(PhysicalAddress{base + 16 * 4096}, back));
  EXPECT_FALSE(machine.translate(PhysicalAddress{base + 3 * 4096}).has_value());
  machine.gart_unmap(5 * 4096, 1);
  EXPECT_FALSE(machine.translate(PhysicalAddress{base + 5 * 4096}).has_value());
  EXPECT_TRUE(machine.translate(PhysicalAddress{base + 6 * 4096}).has_value());
}

TEST(MachineAgp, WithoutAGartDriverNobodyIsToldOfTheAperture) {
  Machine machine(kMemory);
  PciFunction master({.vendor_id = 1, .device_id = 2}, {});
  ASSERT_EQ(machine.add_agp_aperture(master, 4096, Gart::kNone), Status::kSuccess);
  EXPECT_FALSE(machine.agp_aperture(master).has_value());
}

TEST(MachineAgpDeath, MappingOutsideTheApertureOrMemoryAborts) {
  Machine machine(kMemory);
  PciFunction master({.vendor_id = 1, .device_id = 2}, {});
  ASSERT_EQ(machine.add_agp_aperture(master, 2 * 4096), Status::kSuccess);
  const std::array<uint64_t, 2> frames{kBase / 4096, kBase / 4096 + 1};
  const std::array<uint64_t, 1> nowhere{5};
  EXPECT_DEATH(machine.gart_map(4096, frames), "");
  EXPECT_DEATH(machine.gart_map(0, nowhere), "");
  EXPECT_DEATH(machine.gart_unmap(0, 3), "");
}

// --- devices with few address bits

constexpr uint64_t kLow = Machine::kLowMemoryBase;
constexpr uint64_t kBelow4G = 0xFFFF'FFFF;

/// Only a request for a low address gets pages of the low window.
TEST(LowMemory, IsForThoseWhoNameAHighestAddress) {
  Machine machine(kMemory, 8 * 4096);
  EXPECT_EQ(machine.low_memory_bytes(), 8 * 4096U);
  EXPECT_EQ(machine.free_page_count(), kMemory / 4096) << "without the low window";
  EXPECT_EQ(machine.highest_system_address().value, kBase + kMemory - 1);
  const auto anywhere = machine.allocate_contiguous(1);
  ASSERT_TRUE(anywhere.has_value());
  EXPECT_GE(anywhere->value * 4096, kBase);
  const auto low = machine.allocate_contiguous(4, 4096, kBelow4G);
  ASSERT_TRUE(low.has_value());
  EXPECT_EQ(low->value * 4096, kLow);
  const auto rest = machine.allocate_pages(kMemory / 4096 - 1);
  ASSERT_TRUE(rest.has_value());
  EXPECT_FALSE(machine.allocate_pages(1).has_value()) << "though there are low pages";
  EXPECT_EQ(machine.allocate_contiguous(5, 4096, kBelow4G).error(), Status::kNoMemory);
  machine.free_contiguous(*low, 4);
  const auto again = machine.allocate_contiguous(8, 4096, kBelow4G);
  ASSERT_TRUE(again.has_value());
  machine.free_contiguous(*again, 8);
}

TEST(LowMemory, TheHighestAddressIsHonoured) {
  Machine machine(16 * 4096, 8 * 4096);
  const auto end = [](PageFrame first, uint64_t count) { return (first.value + count) * 4096 - 1; };
  // The last byte may have the address itself.
  const auto fits = machine.allocate_contiguous(2, 4096, kLow + 2 * 4096 - 1);
  ASSERT_TRUE(fits.has_value());
  EXPECT_EQ(end(*fits, 2), kLow + 2 * 4096 - 1);
  EXPECT_EQ(machine.allocate_contiguous(1, 4096, kLow + 2 * 4096 - 1).error(), Status::kNoMemory);
  EXPECT_EQ(machine.allocate_contiguous(1, 4096, kLow + 3 * 4096 - 2).error(), Status::kNoMemory);
  EXPECT_EQ(machine.allocate_contiguous(1, 4096, 0).error(), Status::kNoMemory);
  // Above 4 GiB: system memory first, then the low window.
  const auto high = machine.allocate_contiguous(4, 4096, kBase + 4 * 4096 - 1);
  ASSERT_TRUE(high.has_value());
  EXPECT_EQ(high->value * 4096, kBase);
  const auto low = machine.allocate_contiguous(4, 4096, kBase + 4 * 4096 - 1);
  ASSERT_TRUE(low.has_value());
  EXPECT_EQ(low->value * 4096, kLow + 2 * 4096);
  const auto aligned = machine.allocate_contiguous(1, 2 * 4096, kBelow4G);
  ASSERT_TRUE(aligned.has_value());
  EXPECT_EQ(aligned->value * 4096, kLow + 6 * 4096);
  Machine none(kMemory);
  EXPECT_EQ(none.low_memory_bytes(), 0U);
  EXPECT_EQ(none.allocate_contiguous(1, 4096, kBelow4G).error(), Status::kNoMemory);
}

/// It is system memory like the rest: pointers, windows and DMA, and zeroed when it comes back.
TEST(LowMemory, IsSystemMemory) {
  Machine machine(kMemory, 4 * 4096);
  const auto page = machine.allocate_contiguous(1, 4096, kBelow4G);
  ASSERT_TRUE(page.has_value());
  const PhysicalAddress address{page->value * 4096};
  std::byte* const memory = machine.system_pointer(address, 4096);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(machine.physical_of(memory + 5), PhysicalAddress{address.value + 5});
  EXPECT_EQ(machine.window_of(address, 4096).offset, kMemory);
  EXPECT_EQ(machine.translate(address), address);
  const std::array<std::byte, 4> bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  EXPECT_TRUE(machine.dma_write(PhysicalAddress{address.value + 8}, bytes));
  EXPECT_EQ(memory[9], std::byte{2});
  std::array<std::byte, 4> seen{};
  EXPECT_TRUE(machine.dma_read(PhysicalAddress{address.value + 8}, seen));
  EXPECT_EQ(seen, bytes);
  // Not beyond its end, nor across the hole to the rest.
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{kLow + 4 * 4096 - 1}, 2), nullptr);
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{kLow - 1}, 1), nullptr);
  EXPECT_FALSE(machine.dma_read(PhysicalAddress{kLow + 4 * 4096 - 2}, seen));
  EXPECT_EQ(machine.window_of(PhysicalAddress{kLow + 3 * 4096}, 8192).fd, -1);
  EXPECT_EQ(machine.physical_of(machine.system_pointer(PhysicalAddress{kBase}, 1) - 1).value, 0U);
  machine.free_pages(std::array{*page});
  const auto again = machine.allocate_contiguous(1, 4096, kBelow4G);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(memory[9], std::byte{0});
}

// --- I/O ports

/// Memory of another process: one page at a strange address, of which only half is mapped.
class Outside final : public OutsideMemory {
 public:
  static constexpr uint64_t kBase = 0x7000;
  std::byte* pointer(PhysicalAddress address, uint64_t size) override {
    return range_within(address.value - kBase, size, 2048) ? bytes + (address.value - kBase)
                                                           : nullptr;
  }
  bool read(PhysicalAddress address, std::span<std::byte> out) override {
    if (!range_within(address.value - kBase, out.size(), sizeof(bytes))) return false;
    std::memcpy(out.data(), bytes + (address.value - kBase), out.size());
    return true;
  }
  bool write(PhysicalAddress address, std::span<const std::byte> in) override {
    if (!range_within(address.value - kBase, in.size(), sizeof(bytes))) return false;
    std::memcpy(bytes + (address.value - kBase), in.data(), in.size());
    return true;
  }
  std::byte bytes[kPageBytes] = {};
};

// The server's half of a device behind a socket has no memory but its client's.
TEST(OutsideMemory, IsAllThatDevicesReach) {
  Outside outside;
  Machine machine(outside);
  EXPECT_FALSE(machine.allocate_contiguous(1).has_value());
  EXPECT_FALSE(machine.allocate_pages(1).has_value());
  const PhysicalAddress mapped{Outside::kBase}, unmapped{Outside::kBase + 4000};
  EXPECT_EQ(machine.system_pointer(mapped, 8), outside.bytes);
  EXPECT_EQ(machine.system_pointer(unmapped, 8), nullptr);
  EXPECT_EQ(machine.system_pointer(PhysicalAddress{Machine::kSystemMemoryBase}, 8), nullptr);
  EXPECT_EQ(machine.window_of(PhysicalAddress{Machine::kSystemMemoryBase}, 8).fd, -1);
  const std::array<std::byte, 2> in{std::byte{1}, std::byte{2}};
  std::array<std::byte, 2> out{};
  for (const PhysicalAddress address : {mapped, unmapped}) {
    EXPECT_TRUE(machine.dma_write(address, in));
    EXPECT_TRUE(machine.dma_read(address, out));
    EXPECT_EQ(out, in);
  }
  EXPECT_FALSE(machine.dma_read(PhysicalAddress{Machine::kSystemMemoryBase}, out));
  EXPECT_FALSE(machine.dma_write(PhysicalAddress{Machine::kSystemMemoryBase}, in));
}

TEST(Ports, ReachTheirDevice) {
  Machine machine(kMemory);
  RecordingRegisters registers, others;
  const auto ports = [](MmioHandler* handler, uint64_t size) {
    Bar bar;
    bar.kind = BarKind::kPorts;
    bar.size = size;
    bar.registers = handler;
    return bar;
  };
  PciFunction function({}, {ports(&registers, 16), ports(&others, 256)});
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  const uint64_t base = function.bars()[0].base.value;
  EXPECT_EQ(base, Machine::kPortBase);
  EXPECT_EQ(function.bars()[1].base.value, Machine::kPortBase + 256) << "naturally aligned";
  registers.answer = 0x1234'5678;
  EXPECT_EQ(machine.read_port(base + 4, 2), 0x5678U);
  machine.write_port(base + 15, 1, 0xABC);
  EXPECT_EQ(registers.reads, (std::vector<Access>{{4, 2, 0}}));
  EXPECT_EQ(registers.writes, (std::vector<Access>{{15, 1, 0xBC}}));
  // Nothing answers: beside it, across its end, in sizes there are not, as memory.
  EXPECT_EQ(machine.read_port(base + 16, 4), 0xFFFF'FFFFU);
  EXPECT_EQ(machine.read_port(base + 14, 4), 0xFFFF'FFFFU);
  EXPECT_EQ(machine.read_port(base, 8), ~uint64_t{0});
  EXPECT_EQ(machine.read_port(0x60, 1), 0xFFU);
  EXPECT_EQ(machine.read_port(Machine::kRegisterBarBase, 4), 0xFFFF'FFFFU);
  EXPECT_EQ(machine.map_io(PhysicalAddress{base}, 16), nullptr);
  EXPECT_EQ(machine.window_of(PhysicalAddress{base}, 16).fd, -1);
  EXPECT_EQ(registers.reads.size(), 1U);
  machine.pull_out(function);
  EXPECT_EQ(machine.read_port(base + 4, 4), 0xFFFF'FFFFU);
  machine.write_port(base, 4, 1);
  EXPECT_EQ(registers.writes.size(), 1U);
  machine.remove_function(function);
  EXPECT_EQ(machine.read_port(base, 4), 0xFFFF'FFFFU);
  for (const uint64_t size : {2U, 24U, 512U}) {
    PciFunction wrong({}, {ports(&registers, size)});
    EXPECT_EQ(machine.add_function(wrong), Status::kInvalidParameter) << size;
  }
}

TEST(Machine, RegistersOfASilentFunctionReadAsOnes) {
  Machine machine(kMemory);
  RecordingRegisters registers;
  std::vector<Bar> bars(1);
  bars[0].kind = BarKind::kRegisters;
  bars[0].size = 0x1000;
  bars[0].registers = &registers;
  PciFunction function({.vendor_id = 0x1AF4}, std::move(bars));
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  auto* const mapped = static_cast<std::byte*>(machine.map_io(function.bars()[0].base, 0x1000));
  ASSERT_NE(mapped, nullptr);
  registers.answer = 7;
  EXPECT_EQ(machine.read_register(mapped, 4), 7U);
  EXPECT_EQ(machine.lost_register_accesses(), 0U);
  machine.silence(function);
  EXPECT_EQ(machine.read_register(mapped, 4), 0xFFFF'FFFFU);
  machine.write_register(mapped, 4, 1);
  EXPECT_TRUE(registers.writes.empty());
  EXPECT_EQ(machine.lost_register_accesses(), 2U);
  EXPECT_TRUE(function.present());
  std::array<std::byte, 2> vendor{};
  function.config_read(0, vendor);
  EXPECT_EQ(vendor, (std::array{std::byte{0xF4}, std::byte{0x1A}}));
  EXPECT_TRUE(machine.unmap_io(mapped, 0x1000));
}

/// The model answers: whether anybody listens in a sleep is the device's business.
TEST(Machine, CountsAccessesToSleepingFunctions) {
  Machine machine(kMemory);
  RecordingRegisters registers;
  std::vector<Bar> bars(1);
  bars[0].kind = BarKind::kPorts;
  bars[0].size = 16;
  bars[0].registers = &registers;
  PciFunction function({}, std::move(bars));
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  const uint64_t base = function.bars()[0].base.value;
  registers.answer = 7;
  EXPECT_EQ(machine.read_port(base, 4), 7U);
  EXPECT_EQ(machine.sleeping_register_accesses(), 0U);
  for (const FunctionPower power : {FunctionPower::kStandby, FunctionPower::kHibernate}) {
    function.set_power(power);
    EXPECT_EQ(machine.read_port(base, 4), 7U);
  }
  EXPECT_EQ(machine.sleeping_register_accesses(), 2U);
  function.set_power(FunctionPower::kOn);
  EXPECT_EQ(machine.read_port(base, 4), 7U);
  machine.pull_out(function);
  function.set_power(FunctionPower::kStandby);
  EXPECT_EQ(machine.read_port(base, 4), 0xFFFF'FFFFU);
  EXPECT_EQ(machine.sleeping_register_accesses(), 2U) << "one that has left does not sleep";
}

/// Pages of hardware fault once it has left the bus. A driver that has them mapped, or maps them
/// then, reads ones instead.
TEST(Machine, MemoryOfHardwareThatHasLeftReadsAsOnes) {
  const int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);  // a device file, as hardware has one
  ASSERT_GE(fd, 0);
  Machine machine(1 << 20);
  std::vector<Bar> bars(2);
  bars[0].kind = BarKind::kMemory;
  bars[0].size = 4 << 20;
  bars[0].memory = {fd, 0, bars[0].size};
  PciFunction function({}, std::move(bars));
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  const PhysicalAddress base = function.bars()[0].base;
  auto* const before = static_cast<std::byte*>(machine.map_io(base, 4 << 20));
  ASSERT_NE(before, nullptr);
  machine.write_register(before + 0x1000, 4, 7);
  EXPECT_EQ(machine.read_register(before + 0x1000, 4), 7U);
  machine.pull_out(function);
  EXPECT_EQ(machine.read_register(before + 0x1000, 4), 0xFFFF'FFFFU);
  EXPECT_EQ(machine.read_register(before + (4 << 20) - 8, 8), UINT64_MAX);
  auto* const after = static_cast<std::byte*>(machine.map_io(base, 4096));
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(machine.read_register(after, 8), UINT64_MAX);
  EXPECT_TRUE(machine.unmap_io(before, 4 << 20));
  EXPECT_TRUE(machine.unmap_io(after, 4096));
  close(fd);
}

}  // namespace
}  // namespace dxgkit::bus
