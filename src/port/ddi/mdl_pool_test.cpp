#include "port/ddi/mdl_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/ids.h"
#include "nt/layout.h"
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

}  // namespace
}  // namespace dxgkit::port
