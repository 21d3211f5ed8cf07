// Virtual addresses on the whole device: tables written by hand, commands through the ring.
#include "devices/softgpu/mmu_rig.h"

namespace dxgkit::softgpu::testing {
namespace {

/// Both runtimes, two and four levels, tables in system memory and in VRAM.
class SoftGpuMmu : public ::testing::TestWithParam<std::tuple<Mode, bool, bool>> {
 protected:
  void in_runtime(const std::function<void(VirtualRig&)>& body) {
    const auto runtime = std::get<0>(GetParam()) == Mode::kSim ? runtime::make_sim_runtime(1)
                                                               : runtime::make_os_runtime(1);
    runtime->run_main([&] {
      VirtualRig rig(*runtime);
      body(rig);
    });
  }
  static bool four() { return std::get<1>(GetParam()); }
  static bool in_vram() { return std::get<2>(GetParam()); }
  static uint32_t top() { return four() ? 3 : 1; }
  static Space make(VirtualRig& rig) { return {rig, four(), 512, in_vram()}; }
};

TEST_P(SoftGpuMmu, EveryCommandWorksOnScatteredPages) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    Lcg random(7);
    constexpr uint64_t kPages = 20;
    constexpr uint64_t kBytes = kPages * kPage;
    const uint64_t high = four() ? uint64_t{0x7FFF} << 32 : 0;
    const uint64_t from = kData + high;
    const uint64_t to = kData + high + (4 << 20) - 10 * kPage;  // across a leaf table's end
    std::vector<uint64_t> source;
    std::vector<uint64_t> target;
    for (uint64_t i = 0; i < kPages; ++i) {
      source.push_back(space.back(from + i * kPage, random.below(2) == 0));
      target.push_back(space.back(to + i * kPage, random.below(2) == 0));
    }
    std::vector<uint8_t> expected(kBytes, 0);
    const std::vector<uint8_t> image = random.bytes(kBytes);
    for (uint64_t i = 0; i < kPages; ++i) {
      rig.put(source[i], {image.begin() + static_cast<ptrdiff_t>(i * kPage),
                          image.begin() + static_cast<ptrdiff_t>((i + 1) * kPage)});
    }
    const auto expect_target = [&](const char* after) {
      for (uint64_t i = 0; i < kPages; ++i) {
        const std::vector<uint8_t> want(expected.begin() + static_cast<ptrdiff_t>(i * kPage),
                                        expected.begin() + static_cast<ptrdiff_t>((i + 1) * kPage));
        EXPECT_EQ(rig.take(target[i], kPage), want) << after << ", page " << i;
      }
    };
    space.runs(1, Commands().copy(from + 100, to + 5000, 60'001));
    std::memcpy(expected.data() + 5000, image.data() + 100, 60'001);
    expect_target("COPY");
    space.runs(0, Commands().fill(to + 4092, 8192, 0xA1B2C3D4));
    for (uint64_t i = 0; i < 8192; i += 4) {
      const uint32_t pattern = 0xA1B2C3D4;
      std::memcpy(expected.data() + 4092 + i, &pattern, 4);
    }
    expect_target("FILL");
    const SgpuBlit2d blit = {{}, from + 40, to + 3 * kPage - 8, 512, 768, 100, 40};
    space.runs(0, Commands().add(SGPU_OP_BLIT2D, blit));
    for (uint64_t y = 0; y < 40; ++y) {
      std::memcpy(expected.data() + 3 * kPage - 8 + y * 768, image.data() + 40 + y * 512, 100);
    }
    expect_target("BLIT2D");
    const SgpuDownscale half = {{}, from + kPage - 64, to + 12 * kPage - 8, 256, 128, 64, 40};
    space.runs(0, Commands().add(SGPU_OP_DOWNSCALE, half));
    for (uint64_t y = 0; y < 20; ++y) {
      for (uint64_t x = 0; x < 128; ++x) {
        const uint64_t pixel = kPage - 64 + 2 * y * 256 + x / 4 * 8 + x % 4;
        const uint32_t sum =
            uint32_t{2} + image[pixel] + image[pixel + 4] + image[pixel + 256] + image[pixel + 260];
        expected[12 * kPage - 8 + y * 128 + x] = static_cast<uint8_t>(sum / 4);
      }
    }
    expect_target("DOWNSCALE");
    const SgpuChecksum sum = {{}, from + 4000, to + 16, 1000, 1000, 5, SGPU_CHECKSUM_SUM64};
    space.runs(1, Commands()
                      .add(SGPU_OP_CHECKSUM, sum)
                      .fence_write(to + kPage, 77)
                      .sem_signal(to + kPage, 99)
                      .sem_wait(to + kPage, 99));
    uint64_t total = 0;
    for (uint64_t i = 4000; i < 9000; ++i) total += image[i];
    EXPECT_EQ(rig.word(target[0] + 16), total);
    EXPECT_EQ(rig.word(target[1]), 99U);
  });
}

TEST_P(SoftGpuMmu, TheSameAddressIsAnotherPageInAnotherSpace) {
  in_runtime([&](VirtualRig& rig) {
    Space one = make(rig);
    Space two = make(rig);
    const uint64_t first = one.back(kData);
    const uint64_t second = two.back(kData, true);
    for (const uint32_t node : {0U, 1U}) {
      for (uint64_t round = 1; round <= 3; ++round) {
        one.runs(node, Commands().fence_write(kData + 8 * node, 10 * round + 1));
        two.runs(node, Commands().fence_write(kData + 8 * node, 10 * round + 2));
        EXPECT_EQ(rig.word(first + 8 * node), 10 * round + 1);
        EXPECT_EQ(rig.word(second + 8 * node), 10 * round + 2);
      }
    }
    // And physical entries are what they were.
    EXPECT_TRUE(rig.run(0, Commands().fence_write(first, 123)));
    EXPECT_EQ(rig.word(first), 123U);
  });
}

TEST_P(SoftGpuMmu, WithoutAFlushTheOldPageIsUsed) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    Space other = make(rig);
    const uint64_t old_page = space.back(kData);
    space.back(kData + kPage);
    uint64_t value = 0;
    const auto goes_to = [&](uint32_t node, uint64_t page) {
      space.runs(node, Commands().fence_write(kData, ++value));
      return rig.word(page) == value;
    };
    EXPECT_TRUE(goes_to(0, old_page));
    EXPECT_TRUE(goes_to(1, old_page));
    const uint64_t new_page = space.back(kData);
    EXPECT_TRUE(goes_to(0, old_page)) << "remembered";
    EXPECT_EQ(rig.gpu.walk(space.tables, kData).leaf, new_page | SGPU_PTE_VALID) << "not by tests";
    EXPECT_EQ(rig.gpu.walk(space.tables, kData - kPage).fault.reason, SGPU_FAULT_PAGE);
    EXPECT_TRUE(goes_to(1, old_page)) << "by both engines";
    // Flushes that do not concern it.
    EXPECT_TRUE(rig.run(1, flush(other.tables.root)));
    EXPECT_TRUE(rig.run(1, flush(space.tables.root, kData + kPage, kData + 8 * kPage)));
    EXPECT_TRUE(rig.run(1, flush(space.tables.root, kData - 4 * kPage, kData)));
    EXPECT_TRUE(goes_to(0, old_page));
    EXPECT_TRUE(goes_to(1, old_page));
    // One that does: from one engine, for both.
    EXPECT_TRUE(rig.run(1, flush(space.tables.root, kData, kData + kPage)));
    EXPECT_TRUE(goes_to(0, new_page));
    EXPECT_TRUE(goes_to(1, new_page));
    // All addresses of one root; all roots; the CPU.
    std::vector<std::function<void()>> ways = {
        [&] { space.runs(0, flush(space.tables.root), SGPU_EXECUTE_PRIVILEGED); },
        [&] { EXPECT_TRUE(rig.run(1, flush())); },
        [&] {
          rig.set64(SGPU_REG_TLB_ROOT, space.tables.root);
          rig.set64(SGPU_REG_TLB_START, kData);
          rig.set64(SGPU_REG_TLB_END, kData + kPage);
          rig.set32(SGPU_REG_TLB_FLUSH, 1);
          EXPECT_EQ(rig.get32(SGPU_REG_TLB_FLUSH), 0U);
        },
        [&] {
          for (const uint32_t node : {0U, 1U}) {
            rig.reset(node);
            rig.start(node);
          }
        },
    };
    for (const auto& way : ways) {
      EXPECT_TRUE(goes_to(0, rig.word(space.slot(kData)) & SGPU_PTE_ADDRESS_MASK));
      EXPECT_TRUE(goes_to(1, rig.word(space.slot(kData)) & SGPU_PTE_ADDRESS_MASK));
      const uint64_t next = space.back(kData);
      way();
      EXPECT_TRUE(goes_to(0, next));
      EXPECT_TRUE(goes_to(1, next));
    }
  });
}

TEST_P(SoftGpuMmu, AHitCostsNoWalkAndWhatDoesNotTranslateIsNotRemembered) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    space.back(kData);
    space.runs(0, Commands().fence_write(kData, 1));
    const uint64_t before = rig.misses();
    space.runs(0, Commands().fence_write(kData, 2).fence_write(kData + 8, 3));
    EXPECT_EQ(rig.misses() - before, 1U) << "the page of the commands";
    const uint64_t missing = kData + 64 * kPage;
    space.faults(0, Commands().fence_write(missing, 1), missing, SGPU_PAGE_NOT_VALID, 0, true);
    const uint64_t page = space.back(missing);
    space.runs(0, Commands().fence_write(missing, 5));  // no flush
    EXPECT_EQ(rig.word(page), 5U);
  });
}

TEST_P(SoftGpuMmu, ManyMorePagesThanItRemembers) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    constexpr uint64_t kMany = 3 * Mmu::kSets * Mmu::kWays;
    std::vector<uint64_t> pages;
    for (uint64_t i = 0; i < kMany; ++i) pages.push_back(space.back(kData + i * kPage));
    Lcg random(3);
    for (int round = 0; round < 4; ++round) {
      Commands commands;
      std::map<uint64_t, uint64_t> want;
      for (int i = 0; i < 500; ++i) {
        const uint64_t page = random.below(kMany);
        const uint64_t value = random.next() | 1;
        commands.fence_write(kData + page * kPage + 16, value);
        want[page] = value;
      }
      space.runs(0, commands);
      for (const auto& [page, value] : want) EXPECT_EQ(rig.word(pages[page] + 16), value);
    }
  });
}

TEST_P(SoftGpuMmu, ProtectionsAreKept) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    const uint64_t plain = space.back(kData, false, SGPU_PTE_COHERENT);
    const uint64_t fixed = space.back(kData + kPage, false, SGPU_PTE_READ_ONLY);
    rig.set_word(fixed, 42);
    space.runs(0, Commands().copy(kData + kPage, kData, 8));
    EXPECT_EQ(rig.word(plain), 42U);
    space.faults(0, Commands().copy(kData, kData + kPage, 8), kData + kPage, SGPU_PAGE_READ_ONLY, 0,
                 true);
    // A write that begins in a good page changes nothing.
    rig.set_word(plain + kPage - 8, 7);
    space.faults(1, Commands().fill(kData + kPage - 8, 16, 0xFF), kData + kPage,
                 SGPU_PAGE_READ_ONLY, 0, true);
    EXPECT_EQ(rig.word(plain + kPage - 8), 7U);
    EXPECT_EQ(rig.word(fixed), 42U);
    space.faults(0, Commands().sem_signal(kData + kPage, 43), kData + kPage, SGPU_PAGE_READ_ONLY, 0,
                 true);
    space.runs(0, Commands().sem_wait(kData + kPage, 42));  // reads

    // Data may be anywhere, commands may not.
    const uint64_t data = space.back(kData + 2 * kPage, false, SGPU_PTE_NO_EXECUTE);
    space.runs(0, Commands().fence_write(kData + 2 * kPage, 9));
    EXPECT_EQ(rig.word(data), 9U);
    SgpuRingEntry entry = space.entry(Commands().nop().fence_write(kData, 1000));
    const uint64_t leaf = rig.word(space.slot(entry.address));
    space.set(entry.address, leaf | SGPU_PTE_NO_EXECUTE);
    const auto report = space.run_entry(0, entry);
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->reason, SGPU_FAULT_PAGE);
    EXPECT_EQ(report->address, entry.address);
    EXPECT_EQ(report->why, SGPU_PAGE_NO_EXECUTE);
    EXPECT_TRUE(report->fetch);
    EXPECT_FALSE(report->write);
    EXPECT_EQ(rig.word(plain), 42U);
  });
}

TEST_P(SoftGpuMmu, ZeroPagesReadAsZeroAndForgetWrites) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    const uint64_t plain = space.back(kData);
    space.set(kData + kPage, SGPU_PTE_VALID | SGPU_PTE_ZERO);
    space.back(kData + 2 * kPage);
    const uint64_t whole = kData + (8 << 20);  // a level 1 entry: 2 MiB of nothing
    space.set(whole, SGPU_PTE_VALID | SGPU_PTE_ZERO, 1);
    for (const uint64_t zero : {kData + kPage, whole + 77 * kPage}) {
      rig.set_word(plain, 0x1122334455667788);
      space.runs(0, Commands().fill(zero, 64, 0xFFFFFFFF).fence_write(zero, 5).sem_signal(zero, 6));
      space.runs(0, Commands().copy(zero, kData, 8).sem_wait(zero, 0));
      EXPECT_EQ(rig.word(plain), 0U) << std::hex << zero;
    }
    // Across good, zero and good.
    rig.set_word(plain + kPage - 8, ~uint64_t{0});
    const SgpuChecksum sum = {
        {}, kData + kPage - 8,  kData, 16 + kPage, static_cast<SgpuU32>(16 + kPage),
        1,  SGPU_CHECKSUM_SUM64};
    space.runs(0, Commands().add(SGPU_OP_CHECKSUM, sum));
    EXPECT_EQ(rig.word(plain), 8 * 255U);
    // No commands in nothing.
    SgpuRingEntry entry = space.entry(Commands().nop());
    entry.address = kData + kPage;
    const auto report = space.run_entry(1, entry);
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->why, SGPU_PAGE_NO_EXECUTE);
  });
}

TEST_P(SoftGpuMmu, PagesOf64KiBHaveLeavesOfTheirOwn) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    // Two pages in the last but one places of a leaf of 32.
    const uint64_t va = kData + 29 * SGPU_LARGE_PAGE_BYTES;
    const uint64_t memory = align_up(rig.system_memory(3 * SGPU_LARGE_PAGE_BYTES), 1 << 16);
    const uint64_t local = kVram + (4 << 20);
    const uint64_t leaf = rig.page(in_vram());
    rig.set_word(space.slot(va, 1), leaf | SGPU_PTE_VALID | SGPU_PTE_64K);
    rig.set_word(leaf + 8 * 29, memory | SGPU_PTE_VALID);
    rig.set_word(leaf + 8 * 30, local | SGPU_PTE_VALID | SGPU_PTE_NO_EXECUTE);
    space.runs(0, Commands().fill(va + 4, 2 * SGPU_LARGE_PAGE_BYTES - 8, 0x77777777));
    EXPECT_EQ(rig.word(memory), 0x7777777700000000U);
    for (uint64_t at = 8; at < SGPU_LARGE_PAGE_BYTES; at += 8) {
      ASSERT_EQ(rig.word(memory + at), 0x7777777777777777U) << at;
      ASSERT_EQ(rig.word(local + at - 8), 0x7777777777777777U) << at;
    }
    EXPECT_EQ(rig.word(local + SGPU_LARGE_PAGE_BYTES - 8), 0x77777777U);
    EXPECT_EQ(rig.word(memory + SGPU_LARGE_PAGE_BYTES), 0U);
    const auto wrong = [&](uint64_t entry, uint32_t why) {
      EXPECT_TRUE(rig.run(1, flush()));
      rig.set_word(leaf + 8 * 29, entry);
      space.faults(0, Commands().fence_write(va + 0x5008, 1), va + 0x5008, why, 0, true);
    };
    wrong(0, SGPU_PAGE_NOT_VALID);
    wrong(memory | SGPU_PTE_VALID | SGPU_PTE_READ_ONLY, SGPU_PAGE_READ_ONLY);
    wrong((memory + kPage) | SGPU_PTE_VALID, SGPU_PAGE_BAD_ENTRY);  // not in 64 KiB steps
    wrong(memory | SGPU_PTE_VALID | SGPU_PTE_64K, SGPU_PAGE_BAD_ENTRY);
    rig.set_word(leaf + 8 * 29, SGPU_PTE_VALID | SGPU_PTE_ZERO);
    space.runs(0, Commands().fence_write(va + 0x5008, 1).sem_wait(va + 0x5008, 0));
    // Only the level above the leaf can say so.
    rig.set_word(space.slot(va, 1), SGPU_PTE_VALID | SGPU_PTE_ZERO | SGPU_PTE_64K);
    EXPECT_TRUE(rig.run(1, flush()));
    space.faults(0, Commands().fence_write(va, 1), va, SGPU_PAGE_BAD_ENTRY, 1, true);
    if (!four()) return;
    rig.set_word(space.slot(va, 2), rig.word(space.slot(va, 2)) | SGPU_PTE_64K);
    // The commands go the same way.
    const auto report = space.run(0, Commands().nop());
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->why, SGPU_PAGE_BAD_ENTRY);
    EXPECT_EQ(report->level, 2U);
  });
}

TEST_P(SoftGpuMmu, TheRootEndsWhereTheEntrySays) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    const uint64_t step = uint64_t{1} << (12 + 9 * top());
    const uint64_t inside = 99 * step;
    const uint64_t page = space.back(inside);
    space.runs(0, Commands().fence_write(inside, 1));
    EXPECT_EQ(rig.word(page), 1U);
    // Smaller, without a flush: what is remembered does not help.
    space.tables.root_entries = 99;
    rig.next_code = kCode;
    if (!four()) rig.next_code = kData + (16 << 20);
    space.faults(0, Commands().fence_write(inside, 2), inside, SGPU_PAGE_ROOT_INDEX, top(), true);
    space.tables.root_entries = 100;
    space.runs(0, Commands().fence_write(inside, 3));
    EXPECT_EQ(rig.word(page), 3U);
    // Not at all: not even the commands are found.
    space.tables.root_entries = 0;
    const auto report = space.run(0, Commands().nop());
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->why, SGPU_PAGE_ROOT_INDEX);
    EXPECT_TRUE(report->fetch);
  });
}

TEST_P(SoftGpuMmu, AddressesBeyondTheWidthFault) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    const uint64_t limit = uint64_t{1} << (four() ? 48 : 40);
    space.back(kData);
    for (const uint64_t address : {limit, limit + kData, ~uint64_t{7}}) {
      space.faults(0, Commands().fence_write(address, 2), address, SGPU_PAGE_VA_WIDTH, top(), true);
    }
    space.faults(0, Commands().copy(limit - 8, kData, 16), limit, SGPU_PAGE_VA_WIDTH, top(), false);
    space.faults(0, Commands().fill(kData, ~uint64_t{3} - kData, 1), limit, SGPU_PAGE_VA_WIDTH,
                 top(), true);
    SgpuRingEntry entry = space.entry(Commands().nop());
    entry.address = ~uint64_t{7};
    entry.length = 64;
    auto report = space.run_entry(0, entry);
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->reason, SGPU_FAULT_BUFFER) << "wraps";
  });
}

TEST_P(SoftGpuMmu, HostileTablesFaultWhereTheyAreWrong) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    const Commands write = Commands().fence_write(kData, 1);
    const auto wrong_leaf = [&](uint64_t entry, uint32_t why) {
      space.set(kData, entry);
      space.faults(0, write, kData, why, 0, true);
    };
    const uint64_t good = rig.system_memory(kPage);
    wrong_leaf(0, SGPU_PAGE_NOT_VALID);
    wrong_leaf(~SGPU_PTE_VALID, SGPU_PAGE_NOT_VALID);
    for (const uint32_t bit : {5U, 11U, 52U, 63U}) {
      wrong_leaf(good | SGPU_PTE_VALID | uint64_t{1} << bit, SGPU_PAGE_BAD_ENTRY);
    }
    wrong_leaf(good | SGPU_PTE_VALID | SGPU_PTE_ZERO, SGPU_PAGE_BAD_ENTRY);
    wrong_leaf(SGPU_PTE_VALID, SGPU_PAGE_BAD_ADDRESS);  // nothing at bus address 0
    wrong_leaf(SGPU_PTE_VALID | SGPU_PTE_ADDRESS_MASK, SGPU_PAGE_BAD_ADDRESS);
    wrong_leaf(SGPU_PTE_VALID | (kVram + (16 << 20)), SGPU_PAGE_BAD_ADDRESS);  // past VRAM's end
    wrong_leaf(SGPU_PTE_VALID | SGPU_APERTURE_BASE, SGPU_PAGE_BAD_ADDRESS);    // not mapped
    ASSERT_EQ(rig.word(good), 0U);

    const auto wrong_above = [&](uint64_t entry, uint32_t why, uint32_t level) {
      const uint64_t slot = space.slot(kData, 1);
      const uint64_t before = rig.word(slot);
      rig.set_word(slot, entry);
      space.faults(0, write, kData, why, level, true);
      rig.set_word(slot, before);
    };
    space.map(kData, good);
    const uint64_t leaf_table = rig.word(space.slot(kData, 1));
    wrong_above(0, SGPU_PAGE_NOT_VALID, 1);
    wrong_above(leaf_table | SGPU_PTE_READ_ONLY, SGPU_PAGE_BAD_ENTRY, 1);
    wrong_above(leaf_table | SGPU_PTE_NO_EXECUTE, SGPU_PAGE_BAD_ENTRY, 1);
    wrong_above(leaf_table | SGPU_PTE_ZERO, SGPU_PAGE_BAD_ENTRY, 1);
    wrong_above(leaf_table | uint64_t{1} << 60, SGPU_PAGE_BAD_ENTRY, 1);
    wrong_above(SGPU_PTE_VALID, SGPU_PAGE_BAD_TABLE, 0);
    wrong_above(SGPU_PTE_VALID | SGPU_PTE_ADDRESS_MASK, SGPU_PAGE_BAD_TABLE, 0);
    wrong_above(SGPU_PTE_VALID | SGPU_APERTURE_BASE, SGPU_PAGE_BAD_TABLE, 0);

    // A table that leads to itself: as many steps as there are levels, and what is found there is
    // an entry like any other: the page is the table.
    Space loop(rig, four(), 512, in_vram());
    for (uint64_t i = 0; i < 512; ++i) {
      rig.set_word(loop.tables.root + 8 * i, loop.tables.root | SGPU_PTE_VALID);
    }
    SgpuRingEntry entry = loop.entry(Commands());
    entry.length = 8;  // opcode and size: whatever a table's entry looks like
    entry.address = kCode;
    const auto report = loop.run_entry(0, entry);
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->reason, SGPU_FAULT_SIZE);

    // Roots that are not memory, or that no entry may name.
    SgpuRingEntry lost = space.entry(Commands().nop());
    const std::array<uint64_t, 3> lost_roots = {0, SGPU_VRAM_BASE + (32ULL << 20),
                                                SGPU_PTE_ADDRESS_MASK};
    for (const uint64_t root : lost_roots) {
      lost.root = root;
      lost.fence = ++rig.fence;
      const auto nowhere = space.run_entry(0, lost);
      ASSERT_TRUE(nowhere.has_value());
      EXPECT_EQ(nowhere->why, SGPU_PAGE_BAD_TABLE);
      EXPECT_EQ(nowhere->level, top());
      EXPECT_EQ(nowhere->root, root);
    }
    const auto unsound = [&](const std::function<void(SgpuRingEntry&)>& change) {
      SgpuRingEntry bad = space.entry(Commands().nop());
      change(bad);
      const auto refused = space.run_entry(0, bad);
      return refused.has_value() && refused->reason == SGPU_FAULT_RING && refused->root == 0;
    };
    EXPECT_TRUE(unsound([](auto& e) { e.root |= 8; }));
    EXPECT_TRUE(unsound([](auto& e) { e.root = uint64_t{1} << 52; }));
    EXPECT_TRUE(unsound([&](auto& e) { e.root_entries = four() ? 513 : (1 << 19) + 1; }));
    EXPECT_TRUE(unsound([](auto& e) { e.flags &= ~SGPU_EXECUTE_VIRTUAL; }));
    EXPECT_TRUE(unsound([](auto& e) { e.flags = SGPU_EXECUTE_PRIVILEGED, e.root = 0; }));
  });
}

TEST_P(SoftGpuMmu, MemoryErrorsBehindATranslationStayMemoryErrors) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    const uint64_t page = space.back(kData, true);
    FaultPlan plan;
    plan.bad_vram_begin = page - kVram + 64;
    plan.bad_vram_end = page - kVram + 128;
    rig.gpu.set_faults(plan);
    const auto report = space.run(0, Commands().fill(kData, 256, 1));
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->reason, SGPU_FAULT_MEMORY);
    EXPECT_EQ(report->address, page + 64);
    EXPECT_EQ(report->why, 0U);
    rig.gpu.set_faults({});
  });
}

TEST_P(SoftGpuMmu, OnlyThePrivilegedUseTheKernelsCommands) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    const uint64_t page = space.back(kData);
    const uint64_t bus_page = rig.pages(1)[0];
    const auto of_kernel = {
        Commands().add_list(SGPU_OP_COPY_PAGES, SgpuCopyPages{{}, kData, 8, 0, 1, 0, 0},
                            {bus_page}),
        Commands().add_list(SGPU_OP_MAP_APERTURE, SgpuMapAperture{{}, 3, 1}, {bus_page}),
        Commands().add(SGPU_OP_UNMAP_APERTURE, SgpuUnmapAperture{{}, 3, 1, 0}),
        write_ptes(page + 64, {1}, SGPU_PTES_PHYSICAL),
        write_ptes(kData + 72, {2}),
        copy_ptes(page, page + 80, 1, SGPU_PTES_PHYSICAL),
        flush(),
    };
    rig.set_word(page, 0xABCD);
    for (const Commands& commands : of_kernel) {
      const auto refused = space.run(1, commands);
      ASSERT_TRUE(refused.has_value());
      EXPECT_EQ(refused->reason, SGPU_FAULT_PRIVILEGE);
    }
    EXPECT_EQ(rig.word(bus_page), 0U);
    EXPECT_EQ(rig.word(page + 64), 0U);
    EXPECT_EQ(rig.word(page + 80), 0U);
    for (const Commands& commands : of_kernel) {
      space.runs(1, commands, SGPU_EXECUTE_PRIVILEGED);
    }
    EXPECT_EQ(rig.word(bus_page), 0xABCDU);
    EXPECT_EQ(rig.word(page + 64), 1U);
    EXPECT_EQ(rig.word(page + 72), 2U);
    EXPECT_EQ(rig.word(page + 80), 0xABCDU);
  });
}

TEST_P(SoftGpuMmu, TheGpuWritesPageTables) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    const uint64_t leaf_table = space.slot(kData) & ~(kPage - 1);  // kData begins one
    std::vector<uint64_t> pages;
    std::vector<uint64_t> entries;
    for (int i = 0; i < 10; ++i) {
      pages.push_back(rig.page(i % 2 == 0));
      entries.push_back(pages.back() | SGPU_PTE_VALID);
    }
    space.runs(1, write_ptes(leaf_table + 40 * 8, entries, SGPU_PTES_PHYSICAL),
               SGPU_EXECUTE_PRIVILEGED);
    for (uint64_t i = 0; i < 10; ++i) {
      space.runs(0, Commands().fence_write(kData + (40 + i) * kPage, i + 1));
      EXPECT_EQ(rig.word(pages[i]), i + 1);
    }
    EXPECT_EQ(rig.word(leaf_table + 39 * 8), 0U);
    EXPECT_EQ(rig.word(leaf_table + 50 * 8), 0U);
    // The table through its own mapping, one entry many times.
    space.map(kData + 500 * kPage, leaf_table);
    space.runs(1, write_ptes(kData + 500 * kPage + 60 * 8, {entries[0]}, 0, 30),
               SGPU_EXECUTE_PRIVILEGED);
    for (uint64_t i = 60; i < 90; ++i) EXPECT_EQ(rig.word(leaf_table + 8 * i), entries[0]);
    EXPECT_EQ(rig.word(leaf_table + 90 * 8), 0U);
    // Copies, overlapping both ways, physically (in a physical entry too) and by address.
    EXPECT_TRUE(rig.run(1, copy_ptes(leaf_table + 40 * 8, leaf_table + 42 * 8, 10)));
    for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(rig.word(leaf_table + 8 * (42 + i)), entries[i]);
    space.runs(1, copy_ptes(kData + 500 * kPage + 42 * 8, kData + 500 * kPage + 41 * 8, 10),
               SGPU_EXECUTE_PRIVILEGED);
    for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(rig.word(leaf_table + 8 * (41 + i)), entries[i]);
    // Nothing is nothing.
    EXPECT_TRUE(rig.run(1, write_ptes(leaf_table, {})));
    EXPECT_TRUE(rig.run(1, copy_ptes(leaf_table, leaf_table + 8, 0)));

    const auto refused = [&](const Commands& commands) { return rig.fault_of(1, commands); };
    EXPECT_EQ(refused(write_ptes(leaf_table + 4, {1})), SGPU_FAULT_ALIGNMENT);
    EXPECT_EQ(refused(write_ptes(leaf_table, {1}, 4)), SGPU_FAULT_ARGUMENT);
    EXPECT_EQ(refused(write_ptes(leaf_table, {1}, 0, SGPU_PTES_MAX + 1)), SGPU_FAULT_ARGUMENT);
    EXPECT_EQ(refused(write_ptes(leaf_table, {1, 2}, SGPU_PTES_REPEAT)), SGPU_FAULT_SIZE);
    EXPECT_EQ(refused(write_ptes(0, {1})), SGPU_FAULT_ADDRESS);
    EXPECT_EQ(refused(copy_ptes(leaf_table, leaf_table + 1, 1)), SGPU_FAULT_ALIGNMENT);
    EXPECT_EQ(refused(copy_ptes(leaf_table, leaf_table, 1, SGPU_PTES_REPEAT)), SGPU_FAULT_ARGUMENT);
    EXPECT_EQ(refused(copy_ptes(leaf_table, leaf_table, SGPU_PTES_MAX + 1)), SGPU_FAULT_ARGUMENT);
    EXPECT_EQ(refused(flush(8)), SGPU_FAULT_ALIGNMENT);
    EXPECT_EQ(refused(flush(0, 1, kPage)), SGPU_FAULT_ALIGNMENT);
    EXPECT_EQ(refused(flush(0, kPage, 0)), SGPU_FAULT_ARGUMENT);
  });
}

TEST_P(SoftGpuMmu, PreemptedMidwayItGoesOnWhereItWas) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    const uint64_t page = space.back(kData);
    Commands commands;
    commands.fence_write(kData, 1).sem_wait(kData + 8, 1).sem_signal(kData + 16, 5);
    SgpuRingEntry entry = space.entry(commands);
    rig.submit(0, entry);
    rig.watch([&] { return (rig.node32(0, SGPU_NODE_STATUS) & SGPU_STATUS_WAITING) != 0; });
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 9);
    rig.wait([&] { return rig.saw({Served::kPreempted, 0, 9}); });
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_FENCE), entry.fence);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_OFFSET), 32U);
    rig.set_word(page, 0);
    rig.set_word(page + 8, 1);
    entry.start_offset = rig.node32(0, SGPU_NODE_PREEMPT_OFFSET);
    entry.fence = ++rig.fence;
    EXPECT_FALSE(space.run_entry(0, entry).has_value());
    EXPECT_EQ(rig.word(page), 0U) << "not run again";
    EXPECT_EQ(rig.word(page + 16), 5U);
  });
}

TEST_P(SoftGpuMmu, AWaitingEngineLetsGoAndSeesThePageGo) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    space.back(kData);
    const SgpuRingEntry entry = space.entry(Commands().sem_wait(kData, 1));
    rig.submit(0, entry);
    rig.watch([&] { return (rig.node32(0, SGPU_NODE_STATUS) & SGPU_STATUS_WAITING) != 0; });
    EXPECT_TRUE(rig.run(1, flush()));  // the page stays: nobody waits for the one that waits
    EXPECT_EQ(rig.node32(0, SGPU_NODE_CURRENT_FENCE), entry.fence);
    EXPECT_TRUE(rig.run(1, write_ptes(space.slot(kData), {0})));
    EXPECT_TRUE(rig.run(1, flush(space.tables.root, kData, kData + kPage)));  // and does not hang
    rig.set32(SGPU_REG_SEM_DOORBELL, 1);
    rig.wait([&] { return rig.saw({Served::kFault, 0, entry.fence}); });
    EXPECT_EQ(rig.node32(0, SGPU_NODE_FAULT_REASON), SGPU_FAULT_PAGE);
    EXPECT_EQ(rig.node64(0, SGPU_NODE_FAULT_ADDRESS), kData);
  });
}

TEST_P(SoftGpuMmu, EnginesThatFlushAtOnceDoNotWaitForEachOther) {
  in_runtime([&](VirtualRig& rig) {
    Space space = make(rig);
    space.back(kData);
    Commands commands;
    for (int i = 0; i < 200; ++i) {
      commands.fence_write(kData, static_cast<uint64_t>(i));
      const SgpuFlushTlb all = {{}, 0, 0, 0};
      commands.add(SGPU_OP_FLUSH_TLB, all);
    }
    const SgpuRingEntry first = space.entry(commands, SGPU_EXECUTE_PRIVILEGED);
    const SgpuRingEntry second = space.entry(commands, SGPU_EXECUTE_PRIVILEGED);
    rig.submit(0, first);
    rig.submit(1, second);
    rig.wait([&] {
      return rig.saw({Served::kComplete, 0, first.fence}) &&
             rig.saw({Served::kComplete, 1, second.fence});
    });
  });
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Mode, bool, bool>>& info) {
  const auto& [mode, four, vram] = info.param;
  return std::string(mode == Mode::kSim ? "sim" : "os") + (four ? "_four_levels" : "_two_levels") +
         (vram ? "_in_vram" : "_in_system");
}
INSTANTIATE_TEST_SUITE_P(All, SoftGpuMmu,
                         ::testing::Combine(::testing::Values(Mode::kOs, Mode::kSim),
                                            ::testing::Bool(), ::testing::Bool()),
                         name_of);

// A flush is over when no engine writes to the old pages any more, even if the other engine takes a
// while. Then the pages may get another owner.
TEST(SoftGpuMmuFlush, WaitsForACommandThatRunsOnOldTranslations) {
  const auto runtime = runtime::make_sim_runtime(3);
  runtime->run_main([&] {
    VirtualRig rig(*runtime);
    Space space(rig, true);
    constexpr uint64_t kPages = 64;
    std::vector<uint64_t> pages;
    for (uint64_t i = 0; i < kPages; ++i) pages.push_back(space.back(kData + i * kPage));
    for (const bool by_register : {false, true}) {
      const SgpuRingEntry entry = space.entry(Commands().fill(kData, kPages * kPage, 0x11111111));
      rig.submit(0, entry);
      runtime->sleep_for(3 * runtime::kMicrosecond);  // begun; its 16 us of transfer are not over
      ASSERT_EQ(rig.word(pages.back()), 0U);
      if (by_register) {
        rig.set64(SGPU_REG_TLB_ROOT, space.tables.root);
        rig.set32(SGPU_REG_TLB_FLUSH, 1);
        uint32_t looks = 0;
        while (rig.get32(SGPU_REG_TLB_FLUSH) != 0) ++looks;
        EXPECT_GT(looks, 5U);
      } else {
        ASSERT_TRUE(rig.run(1, flush(space.tables.root)));
      }
      EXPECT_EQ(rig.word(pages.back()), 0x1111111111111111U) << by_register;
      rig.wait([&] { return rig.saw({Served::kComplete, 0, entry.fence}); });
      for (const uint64_t page : pages) rig.set_word(page, 0);
    }
    // A reset ends a flush that waits.
    const SgpuRingEntry entry = space.entry(Commands().fill(kData, kPages * kPage, 0x22222222));
    rig.submit(0, entry);
    runtime->sleep_for(3 * runtime::kMicrosecond);
    rig.execute(1, flush(), 999);
    runtime->sleep_for(2 * runtime::kMicrosecond);
    rig.reset(1);
    EXPECT_EQ(rig.node32(1, SGPU_NODE_ABORTED_FENCE), 999U);
    EXPECT_EQ(rig.word(pages.back()), 0U);
  });
}

TEST(SoftGpuMmuPower, NothingIsRememberedAcrossIt) {
  const auto runtime = runtime::make_os_runtime(1);
  runtime->run_main([&] {
    VirtualRig rig(*runtime);
    Space space(rig, false);
    space.back(kData);
    space.runs(0, Commands().fence_write(kData, 1));
    rig.set64(SGPU_REG_TLB_ROOT, kPage);
    rig.set64(SGPU_REG_TLB_START, kPage);
    rig.set64(SGPU_REG_TLB_END, 2 * kPage);
    EXPECT_NE(rig.misses(), 0U);
    rig.gpu.lose_power(bus::FunctionPower::kStandby);
    EXPECT_EQ(rig.misses(), 0U);
    EXPECT_EQ(rig.get64(SGPU_REG_TLB_ROOT), 0U);
    EXPECT_EQ(rig.get64(SGPU_REG_TLB_START), 0U);
    EXPECT_EQ(rig.get64(SGPU_REG_TLB_END), 0U);
    rig.set32(SGPU_REG_INT_ENABLE, SGPU_INT_ALL);
    rig.start(0);
    const uint64_t page = space.back(kData);
    space.runs(0, Commands().fence_write(kData, 2));
    EXPECT_EQ(rig.word(page), 2U);
  });
}

}  // namespace
}  // namespace dxgkit::softgpu::testing
