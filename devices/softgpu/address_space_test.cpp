#include "devices/softgpu/address_space.h"

#include <gtest/gtest.h>

#include <cstring>

namespace dxgkit::softgpu {
namespace {

constexpr uint64_t kVramBytes = 3 << 20;  // not a power of two: the BAR is larger than the memory
constexpr uint64_t kSystem = bus::Machine::kSystemMemoryBase;
constexpr uint64_t kSystemBytes = 1 << 20;

struct Fixture : testing::Test {
  bus::Machine machine{kSystemBytes};
  AddressSpace memory{machine, kVramBytes};
  Range range;
  uint32_t reason(uint64_t address, uint64_t size, Access access = Access::kRead) {
    const Fault fault = memory.resolve(address, size, access, range);
    if (fault) {
      EXPECT_EQ(range.size(), 0u);
    } else {
      EXPECT_EQ(range.size(), size);
    }
    return fault.reason;
  }
};
using SoftGpuAddresses = Fixture;

TEST_F(SoftGpuAddresses, SystemAndVramResolveToOnePiece) {
  EXPECT_EQ(reason(kSystem + 100, 5000), SGPU_FAULT_NONE);
  EXPECT_EQ(range.contiguous(), machine.system_pointer(bus::PhysicalAddress{kSystem + 100}, 5000));
  EXPECT_EQ(reason(SGPU_VRAM_BASE + 7, kVramBytes - 7), SGPU_FAULT_NONE);
  EXPECT_NE(range.contiguous(), nullptr);
  EXPECT_EQ(memory.vram_window().size, uint64_t{4 << 20});
}

// Every border, one byte to either side, and every way to wrap.
TEST_F(SoftGpuAddresses, FaultsOutsideEveryRegion) {
  const std::vector<std::pair<uint64_t, uint64_t>> bad = {
      {0, 1},
      {kSystem - 1, 1},
      {kSystem - 1, 2},
      {kSystem + kSystemBytes - 1, 2},
      {kSystem + kSystemBytes, 1},
      {kSystem, UINT64_MAX},
      {SGPU_VRAM_BASE - 1, 1},
      {SGPU_VRAM_BASE - 1, 2},
      {SGPU_VRAM_BASE + kVramBytes, 1},  // inside the BAR, beyond the memory
      {SGPU_VRAM_BASE + kVramBytes - 1, 2},
      {SGPU_VRAM_BASE, UINT64_MAX},
      {SGPU_VRAM_BASE + 8, UINT64_MAX - SGPU_VRAM_BASE},
      {SGPU_APERTURE_BASE - 1, 2},
      {SGPU_APERTURE_BASE + SGPU_APERTURE_BYTES, 1},
      {SGPU_APERTURE_BASE + SGPU_APERTURE_BYTES - 1, 2},
      {SGPU_APERTURE_BASE, UINT64_MAX},
      {UINT64_MAX, 1},
      {UINT64_MAX, 2},
      {UINT64_MAX - 7, 8},
  };
  for (const auto& [address, size] : bad) {
    SCOPED_TRACE(testing::Message() << std::hex << address << " + " << size);
    EXPECT_EQ(reason(address, size), SGPU_FAULT_ADDRESS);
  }
  EXPECT_EQ(reason(UINT64_MAX, 0), SGPU_FAULT_NONE);
}

TEST_F(SoftGpuAddresses, AperturePagesLeadToTheirSystemPages) {
  memory.set_entry(10, (kSystem + 5 * 4096) | SGPU_ENTRY_VALID);
  memory.set_entry(11, (kSystem + 2 * 4096) | SGPU_ENTRY_VALID);
  memory.set_entry(12, (kSystem + 3 * 4096) | SGPU_ENTRY_VALID);
  const uint64_t start = SGPU_APERTURE_BASE + 10 * 4096 + 4000;
  ASSERT_EQ(reason(start, 4096 + 200), SGPU_FAULT_NONE);
  EXPECT_EQ(range.pieces().size(), 2u);  // pages 11 and 12 follow each other
  std::vector<std::byte> data(4296, std::byte{0});
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  range.write(0, data.data(), data.size());
  EXPECT_EQ(std::memcmp(machine.system_pointer(bus::PhysicalAddress{kSystem + 5 * 4096 + 4000}, 96),
                        data.data(), 96),
            0);
  EXPECT_EQ(std::memcmp(machine.system_pointer(bus::PhysicalAddress{kSystem + 2 * 4096}, 4200),
                        data.data() + 96, 4200),
            0);
  std::vector<std::byte> back(100);
  range.read(50, back.data(), 100);
  EXPECT_EQ(std::memcmp(back.data(), data.data() + 50, 100), 0);
  const Fault fault = memory.resolve(start, 3 * 4096, Access::kRead, range);
  EXPECT_EQ(fault.reason, SGPU_FAULT_APERTURE);
  EXPECT_EQ(fault.address, SGPU_APERTURE_BASE + 13 * 4096);
}

TEST_F(SoftGpuAddresses, EntriesThatNameNoMemoryAreInvalid) {
  memory.set_entry(0, kSystem | SGPU_ENTRY_VALID);
  EXPECT_EQ(memory.entry(0), kSystem | SGPU_ENTRY_VALID);
  memory.set_entry(0, 0x1000 | SGPU_ENTRY_VALID);
  EXPECT_EQ(memory.entry(0), 0u);
  memory.set_entry(0, kSystem);
  EXPECT_EQ(memory.entry(0), 0u);
  memory.set_entry(0, (kSystem + kSystemBytes) | SGPU_ENTRY_VALID);
  EXPECT_EQ(memory.entry(0), 0u);
}

TEST_F(SoftGpuAddresses, CountsWritesThroughDummyEntriesOnly) {
  memory.set_entry(0, kSystem | SGPU_ENTRY_VALID | SGPU_ENTRY_DUMMY);
  memory.set_entry(1, kSystem | SGPU_ENTRY_VALID | SGPU_ENTRY_DUMMY);
  memory.set_entry(2, kSystem | SGPU_ENTRY_VALID);
  EXPECT_EQ(reason(SGPU_APERTURE_BASE, 3 * 4096, Access::kRead), SGPU_FAULT_NONE);
  EXPECT_EQ(memory.dummy_writes(), 0u);
  EXPECT_EQ(reason(SGPU_APERTURE_BASE, 3 * 4096, Access::kWrite), SGPU_FAULT_NONE);
  EXPECT_EQ(memory.dummy_writes(), 2u);
  memory.clear_dummy_writes();
  EXPECT_EQ(memory.dummy_writes(), 0u);
}

TEST_F(SoftGpuAddresses, WordsMustBeAlignedAndOfKnownWidth) {
  std::byte* word = nullptr;
  EXPECT_FALSE(memory.resolve_word(SGPU_VRAM_BASE + 8, 8, Access::kWrite, &word));
  EXPECT_EQ(memory.resolve_word(SGPU_VRAM_BASE + 4, 8, Access::kWrite, &word).reason,
            SGPU_FAULT_ALIGNMENT);
  EXPECT_EQ(memory.resolve_word(SGPU_VRAM_BASE + 2, 4, Access::kWrite, &word).reason,
            SGPU_FAULT_ALIGNMENT);
  EXPECT_EQ(memory.resolve_word(SGPU_VRAM_BASE, 2, Access::kWrite, &word).reason,
            SGPU_FAULT_ARGUMENT);
  EXPECT_EQ(memory.resolve_word(SGPU_VRAM_BASE + kVramBytes, 8, Access::kWrite, &word).reason,
            SGPU_FAULT_ADDRESS);
}

TEST_F(SoftGpuAddresses, BadVramFaultsExactlyWhereItIs) {
  memory.set_bad_vram(0x1000, 0x2000);
  EXPECT_EQ(reason(SGPU_VRAM_BASE + 0xFFF, 1), SGPU_FAULT_NONE);
  EXPECT_EQ(reason(SGPU_VRAM_BASE + 0xFFF, 2), SGPU_FAULT_MEMORY);
  EXPECT_EQ(memory.resolve(SGPU_VRAM_BASE, 0x8000, Access::kRead, range).address,
            SGPU_VRAM_BASE + 0x1000);
  EXPECT_EQ(reason(SGPU_VRAM_BASE + 0x1FFF, 8), SGPU_FAULT_MEMORY);
  EXPECT_EQ(reason(SGPU_VRAM_BASE + 0x2000, 8), SGPU_FAULT_NONE);
  memory.set_bad_vram(0, 0);
  EXPECT_EQ(reason(SGPU_VRAM_BASE, 0x8000), SGPU_FAULT_NONE);
}

TEST_F(SoftGpuAddresses, PageListsAreCheckedEntryByEntry) {
  const std::vector<uint64_t> good = {kSystem + 8192, kSystem};
  EXPECT_FALSE(memory.resolve_pages(good, 4000, 100, range));
  ASSERT_EQ(range.pieces().size(), 2u);
  EXPECT_EQ(range.pieces()[0].size, 96u);
  EXPECT_EQ(range.pieces()[1].pointer, machine.system_pointer(bus::PhysicalAddress{kSystem}, 1));
  const std::vector<uint64_t> odd = {kSystem, kSystem + 1};
  EXPECT_EQ(memory.resolve_pages(odd, 0, 8192, range).reason, SGPU_FAULT_ALIGNMENT);
  EXPECT_FALSE(memory.resolve_pages(odd, 0, 4096, range));  // the second is not needed
  const std::vector<uint64_t> outside = {kSystem, SGPU_VRAM_BASE};
  EXPECT_EQ(memory.resolve_pages(outside, 0, 4097, range).reason, SGPU_FAULT_ADDRESS);
  EXPECT_EQ(range.size(), 0u);
}

}  // namespace
}  // namespace dxgkit::softgpu
