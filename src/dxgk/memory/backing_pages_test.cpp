// Pages go back to the machine at once, but not while failed hardware may still write to them.
#include "dxgk/memory/backing_pages.h"

#include <gtest/gtest.h>

#include <vector>

#include "dxgk/core/test_core.h"

namespace dxgkit::dxgk {
namespace {

TEST(BackingPages, PagesOfARunningAdapterGoBackAtOnce) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([] {
    TestCore test;
    BackingPages backing(test.core);
    const uint64_t before = test.machine.free_page_count();
    const auto pages = test.machine.allocate_pages(3);
    ASSERT_TRUE(pages.has_value());
    backing.release(*pages);
    EXPECT_EQ(test.machine.free_page_count(), before);
  });
}

TEST(BackingPages, PagesOfAFailedAdapterAreKeptUntilItHasStopped) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([] {
    TestCore test;
    BackingPages backing(test.core);
    const uint64_t before = test.machine.free_page_count();
    const auto pages = test.machine.allocate_pages(3);
    ASSERT_TRUE(pages.has_value());
    EXPECT_TRUE(test.core.become_fatal());
    backing.release(*pages);
    EXPECT_EQ(test.machine.free_page_count(), before - 3);
    backing.return_kept();
    EXPECT_EQ(test.machine.free_page_count(), before);
    backing.return_kept();
    EXPECT_EQ(test.machine.free_page_count(), before) << "they go back once";
  });
}

}  // namespace
}  // namespace dxgkit::dxgk
