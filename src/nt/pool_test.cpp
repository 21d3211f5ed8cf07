// A driver's mistakes with pool are found, and the finding names the code that allocated the block.
#include "nt/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "nt/image_world_test.h"
#include "nt/leaks.h"
#include "nt/test_world.h"

namespace dxgkit::nt {
namespace {

using Routine = uint64_t(DXGKIT_NT_ABI*)(uint64_t);

struct PoolWorld : ImageWorld {
  PoolWorld(const char* path, bool special) : ImageWorld(path, {}, config_of(special)) {}
  static KernelConfig config_of(bool special) {
    KernelConfig config;
    config.special_pool = special;
    return config;
  }
  /// Runs a function of the driver; false if it was abandoned.
  bool run(const char* name, uint64_t argument) {
    CallFrame frame(kernel, "DxgkDdiTest", kPassiveLevel);
    uint64_t result = 0;
    return frame.call(find<Routine>(name), &result, argument);
  }
  verifier::Finding only_finding() const {
    EXPECT_EQ(findings.total(), 1U) << findings_text();
    return findings.total() == 0 ? verifier::Finding{} : findings.all()[0];
  }
};

template <typename Body>
void in_every_mode(const Body& body) {
  for (const char* path : {NT_DOOR_DRIVER, NT_DOOR_DRIVER_SYS}) {
    in_both_modes([&] { body(path); });
  }
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST(SpecialPool, StopsAtTheFirstByteOutside) {
  DXGKIT_COVERS("NT-10");
  in_every_mode([](const char* path) {
    {
      PoolWorld world(path, true);
      EXPECT_FALSE(world.run("WriteAt", 32));
      const verifier::Finding finding = world.only_finding();
      EXPECT_EQ(finding.rule, "NT-10");
      EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
      EXPECT_TRUE(contains(finding.actual, "8 bytes behind the end of")) << finding.actual;
      EXPECT_TRUE(contains(finding.actual, "of 24 bytes with tag 'Pool'")) << finding.actual;
      EXPECT_TRUE(contains(finding.actual, "WriteAt")) << finding.actual;
      EXPECT_TRUE(contains(finding.actual, "in DxgkDdiTest allocated")) << finding.actual;
    }
    PoolWorld world(path, true);
    EXPECT_FALSE(world.run("WriteAt", static_cast<uint64_t>(-4096)));
    EXPECT_EQ(world.only_finding().rule, "NT-10");
    EXPECT_TRUE(contains(world.only_finding().actual, "4096 bytes before the start of"))
        << world.only_finding().actual;
  });
}

/// The block ends at 24, the guard begins at 32; before it lie the canaries of its page.
TEST(SpecialPool, FindsSmallOverrunsAtTheFree) {
  DXGKIT_COVERS("NT-10");
  in_every_mode([](const char* path) {
    for (const auto& [offset, text] :
         {std::pair{int64_t{24}, "0 bytes behind its end lie the bytes 01 b7"},
          std::pair{int64_t{-5}, "5 bytes before its start lie the bytes 01 b7"}}) {
      for (const bool special : {false, true}) {
        PoolWorld world(path, special);
        EXPECT_FALSE(world.run("WriteAt", static_cast<uint64_t>(offset)));
        EXPECT_EQ(world.only_finding().rule, "NT-10");
        EXPECT_EQ(world.only_finding().bugcheck_code, 0x19U);
        EXPECT_TRUE(contains(world.only_finding().actual, text)) << world.only_finding().actual;
        EXPECT_EQ(world.only_finding().place.image, "driver.sys");
      }
    }
  });
}

TEST(SpecialPool, KeepsFreedBlocksInaccessible) {
  DXGKIT_COVERS("NT-11");
  in_every_mode([](const char* path) {
    PoolWorld world(path, true);
    EXPECT_FALSE(world.run("ReadAfterFree", 3));
    const verifier::Finding finding = world.only_finding();
    EXPECT_EQ(finding.rule, "NT-11");
    EXPECT_EQ(finding.bugcheck_code, 0xCCU);
    EXPECT_TRUE(contains(finding.actual, "3 bytes into the block")) << finding.actual;
    EXPECT_TRUE(contains(finding.actual, "tag 'Pool' that ReadAfterFree")) << finding.actual;
    EXPECT_TRUE(contains(finding.actual, "in DxgkDdiTest freed it")) << finding.actual;
  });
}

TEST(SpecialPool, LetsASoundDriverBe) {
  in_both_modes([] {
    PoolWorld world(NT_DOOR_DRIVER, true);
    for (int i = 0; i < 5000; ++i) EXPECT_TRUE(world.run("WriteAt", 23));
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
    EXPECT_TRUE(world.kernel.leaks().empty());
  });
}

TEST(Pool, NamesWhoFreedABlockBefore) {
  DXGKIT_COVERS("NT-08");
  in_every_mode([](const char* path) {
    for (const bool special : {false, true}) {
      PoolWorld world(path, special);
      EXPECT_FALSE(world.run("FreeTwice", 0));
      const verifier::Finding finding = world.only_finding();
      EXPECT_EQ(finding.rule, "NT-08");
      EXPECT_EQ(finding.ddi, "ExFreePool");
      EXPECT_EQ(finding.bugcheck_code, 0xC2U);
      EXPECT_TRUE(contains(finding.actual, "in DxgkDdiTest allocated, and that FreeTwice"))
          << finding.actual;
    }
  });
}

TEST(Pool, ChecksTags) {
  DXGKIT_COVERS("NT-09");
  in_both_modes([] {
    World world;
    const ExportCall<void*(uint32_t, uint64_t, uint32_t)> allocate("ExAllocatePoolWithTag");
    const ExportCall<void(void*, uint32_t)> free_with_tag("ExFreePoolWithTag");
    const ExportCall<void(void*)> free_any("ExFreePool");
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    free_with_tag(allocate(512, 8, 0x41414141), 0x41414141);
    free_any(allocate(512, 8, 0x41414141));
    EXPECT_EQ(world.findings.total(), 0U);
    free_with_tag(allocate(512, 8, 0x41414141), 0x42424242);
    ASSERT_EQ(world.findings.total(), 1U);
    EXPECT_EQ(world.findings.all()[0].rule, "NT-09");
    EXPECT_TRUE(contains(world.findings.all()[0].actual, "'BBBB'"));
    EXPECT_TRUE(contains(world.findings.all()[0].actual, "'AAAA'"));
    EXPECT_TRUE(world.kernel.leaks().empty());  // freed all the same
  });
}

TEST(Pool, IsNotFreedWithQueuedObjectsInIt) {
  DXGKIT_COVERS("NT-12", "NT-13");
  in_every_mode([](const char* path) {
    for (const auto& [what, rule, text] :
         {std::tuple{0, "NT-12", "the timer 24 bytes inside, set by FreeQueued"},
          std::tuple{1, "NT-13", "the DPC 88 bytes inside is queued"}}) {
      PoolWorld world(path, false);
      EXPECT_FALSE(world.run("FreeQueued", static_cast<uint64_t>(what)));
      EXPECT_EQ(world.only_finding().rule, rule);
      EXPECT_EQ(world.only_finding().bugcheck_code, 0xC7U);
      EXPECT_TRUE(contains(world.only_finding().actual, text)) << world.only_finding().actual;
    }
  });
}

/// Leaks at unload: one finding per kind and tag, with the code that allocated the first.
TEST(Leaks, NameWhoTookThem) {
  DXGKIT_COVERS("LIFE-20", "NT-12");
  in_every_mode([](const char* path) {
    {
      PoolWorld world(path, false);
      EXPECT_TRUE(world.run("Leak", 0));
      EXPECT_EQ(world.kernel.report_leaks("after DxgkDdiUnload"), 1U);
      const verifier::Finding finding = world.only_finding();
      EXPECT_EQ(finding.rule, "LIFE-20");
      EXPECT_TRUE(contains(finding.actual,
                           "after DxgkDdiUnload: 2 pool left with tag 'Pool', 5024 bytes; the "
                           "first was taken by Leak"))
          << finding.actual;
      EXPECT_EQ(finding.place.image, "driver.sys");
      EXPECT_TRUE(world.kernel.leaks().empty());
    }
    PoolWorld world(path, false);
    EXPECT_TRUE(world.run("FreeQueued", 2));
    EXPECT_EQ(world.kernel.report_leaks("after DxgkDdiUnload"), 2U);
    EXPECT_EQ(world.findings.count("LIFE-20"), 1U);  // the memory
    EXPECT_EQ(world.findings.count("NT-12"), 1U);
    EXPECT_TRUE(contains(world.findings_text(), "1 timer left; queued by KeSetTimer in FreeQueued"))
        << world.findings_text();
  });
}

/// While the driver runs: what it took between two marks and still has.
TEST(Leaks, AreCountedBetweenMarks) {
  DXGKIT_COVERS("LIFE-20");
  in_both_modes([] {
    PoolWorld world(NT_DOOR_DRIVER, false);
    const uint64_t before = memory_mark(world.kernel);
    EXPECT_TRUE(world.run("Leak", 0));
    const uint64_t after = memory_mark(world.kernel);
    EXPECT_GT(after, before);
    const std::vector<TakenMemory> taken = memory_taken(world.kernel, before, after);
    ASSERT_EQ(taken.size(), 1U);
    EXPECT_EQ(taken[0].leak.what, "pool");
    EXPECT_EQ(taken[0].leak.count, 2U);
    EXPECT_EQ(taken[0].leak.bytes, 5024U);
    EXPECT_EQ(taken[0].ddi, "DxgkDdiTest");
    EXPECT_TRUE(memory_taken(world.kernel, 0, before).empty());
    EXPECT_TRUE(memory_taken(world.kernel, after, UINT64_MAX).empty());
    EXPECT_EQ(world.kernel.report_leaks("after DxgkDdiUnload"), 1U);
  });
}

/// A block that was overrun and never freed is found at unload.
TEST(Leaks, ShowOverruns) {
  DXGKIT_COVERS("NT-10");
  in_both_modes([] {
    PoolWorld world(NT_DOOR_DRIVER, false);
    EXPECT_TRUE(world.run("Leak", 1));
    EXPECT_EQ(world.kernel.report_leaks("after DxgkDdiUnload"), 2U);
    EXPECT_EQ(world.findings.count("NT-10"), 1U);
    EXPECT_EQ(world.findings.count("LIFE-20"), 1U);
  });
}

/// What drivers ask about the addresses of their memory. Inside a frame only.
void* take(uint32_t type, uint64_t bytes) {
  return ExportCall<void*(uint32_t, uint64_t, uint32_t)>("ExAllocatePoolWithTag")(type, bytes,
                                                                                  0x6C6F6F50);
}
void give_back(void* block) { ExportCall<void(void*)>("ExFreePool")(block); }
int64_t address_of(void* block) {
  return ExportCall<int64_t(void*)>("MmGetPhysicalAddress")(block);
}
void* pointer_to(int64_t address) {
  return ExportCall<void*(int64_t)>("MmGetVirtualForPhysical")(address);
}
constexpr uint32_t kNonPaged = 512, kPaged = 1;

template <typename Body>
void with_pool(const Body& body) {
  for (const bool special : {false, true}) {
    in_both_modes([&] {
      SCOPED_TRACE(special ? "special" : "plain");
      KernelConfig config;
      config.special_pool = special;
      World world(config);
      EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] { body(world); }));
    });
  }
}

TEST(PoolAddresses, DevicesReachSmallBlocks) {
  with_pool([](World& world) {
    const uint64_t before = world.machine.free_page_count();
    std::vector<std::byte*> blocks;
    for (const uint64_t bytes : {24U, 208U, 1056U, 4000U}) {
      auto* const block = static_cast<std::byte*>(take(kNonPaged, bytes));
      ASSERT_NE(block, nullptr);
      blocks.push_back(block);
      for (const uint64_t offset : {uint64_t{0}, bytes - 1}) {
        const auto physical =
            bus::PhysicalAddress{static_cast<uint64_t>(address_of(block + offset))};
        ASSERT_NE(physical.value, 0U);
        EXPECT_EQ(physical.value % kPageBytes,
                  reinterpret_cast<uintptr_t>(block + offset) % kPageBytes);
        EXPECT_EQ(pointer_to(static_cast<int64_t>(physical.value)), block + offset)
            << "the address that the driver knows";
        block[offset] = std::byte{0x5C};
        std::byte seen{};
        EXPECT_TRUE(world.machine.dma_read(physical, {&seen, 1}));
        EXPECT_EQ(seen, std::byte{0x5C});
        const std::byte written{0xC5};
        EXPECT_TRUE(world.machine.dma_write(physical, {&written, 1}));
        EXPECT_EQ(block[offset], std::byte{0xC5});
      }
    }
    EXPECT_EQ(world.machine.free_page_count(), before) << "it takes no system pages";
    EXPECT_NE(address_of(blocks[0]), address_of(blocks[1]));
    for (std::byte* const block : blocks) give_back(block);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST(PoolAddresses, FreedSpecialPoolHasNone) {
  in_both_modes([] {
    KernelConfig config;
    config.special_pool = true;
    World world(config);
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      void* const first = take(kNonPaged, 100);
      const int64_t physical = address_of(first);
      EXPECT_EQ(pointer_to(physical), first);
      give_back(first);
      EXPECT_NE(pointer_to(physical), first) << "the machine still has the page, the driver not";
      EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
      EXPECT_EQ(address_of(first), 0);
      EXPECT_EQ(world.findings.total(), 1U);
      EXPECT_EQ(world.findings.all()[0].rule, "LIFE-14");
      // The page is free for the next block.
      void* const second = take(kNonPaged, 200);
      EXPECT_EQ(address_of(second) / static_cast<int64_t>(kPageBytes),
                physical / static_cast<int64_t>(kPageBytes));
      give_back(second);
    }));
  });
}

TEST(PoolAddresses, PagedPoolHasNone) {
  DXGKIT_COVERS("LIFE-14");
  with_pool([](World& world) {
    void* const block = take(kPaged, 100);
    EXPECT_EQ(world.findings.total(), 0U);
    EXPECT_EQ(address_of(block), 0);
    EXPECT_EQ(world.findings.total(), 1U);
    EXPECT_EQ(world.findings.all()[0].rule, "LIFE-14");
    give_back(block);
  });
}

/// There is more pool than the window holds: what comes then has no physical address.
TEST(PoolAddresses, PoolGoesOnBehindTheWindow) {
  with_pool([](World& world) {
    std::vector<void*> blocks;
    const uint64_t most = bus::Machine::kPoolMemoryBytes / 2048 + 1024;
    while (blocks.size() < most) {
      blocks.push_back(take(kNonPaged, 2048));
      ASSERT_NE(blocks.back(), nullptr);
      std::memset(blocks.back(), static_cast<int>(blocks.size()), 2048);
    }
    EXPECT_EQ(world.findings.total(), 0U);
    EXPECT_NE(address_of(blocks.front()), 0);
    EXPECT_EQ(address_of(blocks.back()), 0);
    EXPECT_EQ(world.findings.total(), 1U);
    for (size_t i = 0; i < blocks.size(); ++i) {
      ASSERT_EQ(*static_cast<uint8_t*>(blocks[i]), static_cast<uint8_t>(i + 1));
      give_back(blocks[i]);
    }
    EXPECT_EQ(world.findings.total(), 1U) << world.findings_text();
  });
}

}  // namespace
}  // namespace dxgkit::nt
