#include "port/ddi/mdl_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/ids.h"
#include "nt/layout.h"
#include "nt/test_world.h"
#include "port/core/core_world_test.h"

namespace dxgkit::port {
namespace {

/// An MDL names its pages and stays where it is until it is released, in order of issue.
TEST(MdlPool, KeepsMdlsUntilTheyAreReleased) {
  with_core([](CoreWorld& world) {
    MdlPool pool(world.kernel);
    const std::array<uint64_t, 2> pages = {0x11, 0x22};
    nt::Mdl* const first = pool.make(pages);
    nt::Mdl* const second = pool.make(std::span(pages).first(1));
    EXPECT_EQ(pool.issued(), 2U);
    EXPECT_EQ(first->flags, nt::kMdlPagesLocked);
    EXPECT_EQ(first->byte_count, 2 * kPageBytes);
    EXPECT_EQ(first->pages()[1], 0x22U);
    EXPECT_EQ(second->byte_count, kPageBytes);
    pool.release(1);
    EXPECT_EQ(second->pages()[0], 0x11U) << "the second stays";
    EXPECT_EQ(pool.make(pages), first) << "storage is used again";
    EXPECT_EQ(pool.issued(), 3U);
    pool.release(3);
    pool.release(3);
  });
}

// What the driver has mapped and not unmapped goes with the MDL, also with the pool.
TEST(MdlPool, MappingsEndWithTheirMdls) {
  const nt::ExportCall<void*(nt::Mdl*, uint8_t, uint32_t, void*, uint32_t, uint32_t)> map(
      "MmMapLockedPagesSpecifyCache");
  with_core([&](CoreWorld& world) {
    const Result<bus::PageFrame> page = world.machine.allocate_contiguous(1);
    ASSERT_TRUE(page.has_value());
    const std::array<uint64_t, 1> pages = {page->value};
    {
      MdlPool pool(world.kernel);
      const auto make_mapped = [&] {
        nt::CallFrame frame(world.kernel, "driver", nt::kPassiveLevel);
        EXPECT_NE(map(pool.make(pages), 0, 1, nullptr, 0, 0), nullptr);
      };
      make_mapped();
      EXPECT_EQ(world.kernel.leaks().size(), 1U);
      pool.release(1);
      EXPECT_TRUE(world.kernel.leaks().empty());
      make_mapped();
    }
    EXPECT_TRUE(world.kernel.leaks().empty());
    world.machine.free_contiguous(*page, 1);
  });
}

// ByteCount has 32 bits and counts whole pages: a list of 4 GiB or more says all that fits.
TEST(MdlPool, AByteCountThatDoesNotFitIsAsManyWholePagesAsDo) {
  with_core([](CoreWorld& world) {
    constexpr uint64_t kMost = (uint64_t{1} << 32) / kPageBytes - 1;
    MdlPool pool(world.kernel);
    const std::vector<uint64_t> pages(kMost + 2, 0x11);
    const std::span all(pages);
    EXPECT_EQ(pool.make(all.first(kMost - 1))->byte_count, (kMost - 1) * kPageBytes);
    for (const uint64_t count : {kMost, kMost + 1, kMost + 2})
      EXPECT_EQ(pool.make(all.first(count))->byte_count, kMost * kPageBytes) << count;
    pool.release(pool.issued());
  });
}

}  // namespace
}  // namespace dxgkit::port
