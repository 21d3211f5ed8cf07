// Tables and commands made to break out.
#include "devices/softgpu/mmu_rig.h"

namespace dxgkit::softgpu::testing {
namespace {

/// The walk once more, from the manual alone. Nothing: it faults.
std::optional<uint64_t> walk_by_the_manual(VirtualRig& rig, const VirtualSpace& space,
                                           uint64_t vram_bytes, uint64_t va, uint64_t* entry) {
  const auto readable = [&](uint64_t address) {
    if (address >= kVram) return address < kVram + vram_bytes;
    return rig.machine.system_pointer(bus::PhysicalAddress{address}, 8) != nullptr;
  };
  const std::vector<int> shifts =
      space.four_levels ? std::vector<int>{39, 30, 21, 12} : std::vector<int>{21, 12};
  if (va >> (space.four_levels ? 48 : 40) != 0) return std::nullopt;
  uint64_t table = space.root;
  bool large = false;
  for (size_t i = 0; i < shifts.size(); ++i) {
    uint64_t index = va >> shifts[i];
    if (i == 0 && index >= space.root_entries) return std::nullopt;
    if (i != 0) index &= 511;
    if (large) index /= 16;
    if (!readable(table + 8 * index)) return std::nullopt;
    const uint64_t value = rig.word(table + 8 * index);
    const bool leaf = i + 1 == shifts.size();
    if ((value & 1) == 0) return std::nullopt;
    if ((value & 0xFFF0'0000'0000'0FC0) != 0) return std::nullopt;
    if ((value & 0x20) != 0 && (i + 2 != shifts.size() || (value & 8) != 0)) return std::nullopt;
    if (large && (value & 0xF000) != 0) return std::nullopt;
    if ((value & 8) != 0 && (value & 0x000F'FFFF'FFFF'F000) != 0) return std::nullopt;
    if (!leaf && (value & 0x16) != 0) return std::nullopt;
    *entry = value;
    table = value & 0x000F'FFFF'FFFF'F000;
    if ((value & 8) != 0) break;
    if (large) {
      table += va & 0xF000;
      *entry += va & 0xF000;
    }
    large = (value & 0x20) != 0;
  }
  return table;
}

TEST(SoftGpuMmuHostile, RandomTablesTranslateAsTheManualSaysOrFault) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    VirtualRig rig(*runtime);
    AddressSpace memory(rig.machine, 1 << 20);
    Mmu mmu(*runtime, memory);
    // This address space has VRAM of its own: tables stay in system memory, pages may be anywhere.
    constexpr uint32_t kTables = 6;
    std::vector<uint64_t> tables = rig.pages(kTables);
    uint64_t good = 0;
    uint64_t bad = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Lcg random(seed);
      for (const uint64_t table : tables) {
        for (uint64_t i = 0; i < 512; ++i) {
          uint64_t entry = tables[random.below(kTables)] | SGPU_PTE_VALID;
          const uint64_t kind = random.below(40);
          if (kind == 0) entry = random.next();
          if (kind == 1) entry = 0;
          if (kind == 2) entry |= uint64_t{1} << random.below(64);
          if (kind == 3) entry = SGPU_PTE_VALID | SGPU_PTE_ZERO;
          if (kind == 4) entry |= SGPU_PTE_64K;
          if (kind == 5) entry &= ~uint64_t{0xF000};
          rig.set_word(table + 8 * i, entry);
        }
      }
      const bool four = seed % 2 == 0;
      const VirtualSpace space = {tables[0], static_cast<uint32_t>(random.below(513)), four};
      for (int i = 0; i < 300; ++i) {
        uint64_t va = random.next() & ((uint64_t{1} << (four ? 48 : 30)) - 1);
        if (random.below(50) == 0) va = random.next();
        uint64_t entry = 0;
        const auto expected = walk_by_the_manual(rig, space, 1 << 20, va, &entry);
        const Walk walked = mmu.walk(space, va);
        ASSERT_EQ(walked.fault.reason == SGPU_FAULT_NONE, expected.has_value())
            << std::hex << va << " seed " << seed;
        if (expected.has_value()) {
          ASSERT_EQ(walked.leaf, entry) << std::hex << va << " seed " << seed;
          ++good;
        } else {
          ASSERT_EQ(walked.fault.reason, SGPU_FAULT_PAGE);
          ASSERT_EQ(walked.fault.address, va);
          ++bad;
        }
        // Through the cache it is the same, whatever was looked up before.
        Range range;
        const uint64_t in_page = va % kPage;
        const uint64_t size = kPage - in_page;
        const Fault fault = mmu.resolve(0, space, va, size, Access::kRead, range);
        std::byte* pointer = nullptr;
        if (!expected.has_value()) {
          ASSERT_TRUE(static_cast<bool>(fault));
          ASSERT_EQ(range.size(), 0U);
        } else if ((entry & SGPU_PTE_ZERO) == 0) {
          pointer = rig.machine.system_pointer(bus::PhysicalAddress{*expected + in_page}, size);
          ASSERT_EQ(fault.reason == SGPU_FAULT_NONE, pointer != nullptr);
          ASSERT_EQ(range.contiguous(), pointer);
        }
        mmu.release(0);
      }
      mmu.flush(0, 0, 0);
    }
    EXPECT_GT(good, 2000U);
    EXPECT_GT(bad, 2000U);
  });
}

// Random commands in a space with all kinds of pages: each buffer completes or faults, and pages
// that are not mapped to be written keep their content.
TEST(SoftGpuMmuHostile, RandomCommandsTouchNothingButWhatIsMapped) {
  const auto runtime = runtime::make_sim_runtime(2);
  runtime->run_main([&] {
    VirtualRig rig(*runtime);
    Space space(rig, true);
    constexpr uint64_t kMapped = 32;
    std::vector<uint64_t> protected_pages;
    for (uint64_t i = 0; i < kMapped; ++i) {
      const uint64_t va = kData + i * kPage;
      if (i % 8 == 3) {
        protected_pages.push_back(space.back(va, i % 2 == 0, SGPU_PTE_READ_ONLY));
      } else if (i % 8 == 5) {
        space.set(va, SGPU_PTE_VALID | SGPU_PTE_ZERO);
      } else if (i % 8 != 7) {
        space.back(va, i % 2 == 0);
      }
      protected_pages.push_back(rig.page(i % 2 == 0));  // its neighbour in memory
    }
    for (const uint64_t page : protected_pages) rig.put(page, Lcg(page).bytes(kPage));
    uint32_t completed = 0;
    uint32_t faulted = 0;
    for (uint64_t seed = 0; seed < 600; ++seed) {
      Lcg random(seed);
      const auto any = [&] { return kData + random.below(kMapped * kPage) / 8 * 8; };
      const auto size = [&] { return random.below(2 * kPage) / 4 * 4; };
      Commands commands;
      switch (random.below(7)) {
        case 0:
          commands.copy(any(), any(), size());
          break;
        case 1:
          commands.fill(any(), size(), 0x5A5A5A5A);
          break;
        case 2:
          commands.fence_write(any(), random.next()).sem_signal(any(), random.next());
          break;
        case 3:
          commands.add(SGPU_OP_BLIT2D, SgpuBlit2d{{}, any(), any(), 64, 128, 60, 30});
          break;
        case 4:
          commands.add(SGPU_OP_CHECKSUM, SgpuChecksum{{}, any(), any(), 512, 500, 4, 0});
          break;
        case 5:
          commands.raw(write_ptes(any(), {0, 0}).bytes().data(), sizeof(SgpuWritePtes) + 16);
          break;
        default:
          commands.copy(protected_pages[random.below(protected_pages.size())], any(), 64);
          break;
      }
      // Now and then any word of it is anything: an address of memory among them.
      if (random.below(3) == 0) {
        const uint64_t words = commands.bytes().size() / 8;
        const uint64_t choices[] = {protected_pages[random.below(protected_pages.size())],
                                    random.next(), random.below(64)};
        std::memcpy(commands.bytes().data() + 8 * random.below(words),
                    &choices[random.below(std::size(choices))], 8);
      }
      (space.run(static_cast<uint32_t>(seed % 2), commands) ? faulted : completed) += 1;
    }
    for (const uint64_t page : protected_pages) {
      EXPECT_EQ(rig.take(page, kPage), Lcg(page).bytes(kPage));
    }
    EXPECT_GT(completed, 30U);
    EXPECT_GT(faulted, 100U);
  });
}

}  // namespace
}  // namespace dxgkit::softgpu::testing
