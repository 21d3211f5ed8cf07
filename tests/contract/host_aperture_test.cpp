// CPU host apertures: pages of a window that show what the CPU cannot see otherwise.
#include <algorithm>
#include <cstring>

#include "dxgk/system.h"
#include "tests/contract/lock_fixture.h"

namespace dxgkit::contract {
namespace {

using HostApertureTest = ContractTest;

TEST_F(HostApertureTest, AHostApertureShowsWhatTheCpuCannotSeeOtherwise) {
  DXGKIT_COVERS("ALLOC-41", "ALLOC-35");
  with_client(
      [](Stack& stack, Client& client) {
        HostAperture::mapped.clear();  // the start has tried it (LIFE-15)
        HostAperture::unmapped.clear();
        ContextBuffers context = client.make_context();
        // A page that is used first, so that offsets are not all 0.
        const D3DKMT_HANDLE before_it = client.make_allocation(4096, kVisible);
        const D3DKMT_HANDLE one = client.make_allocation(described(kVisible | kAperture));
        const D3DKMT_HANDLE two = client.make_allocation(described(kVisible | kAperture));
        const D3DKMT_HANDLE stuck = client.make_allocation(described(kVisible));
        for (const D3DKMT_HANDLE handle : {before_it, one, two, stuck}) {
          client.list({handle});
          ASSERT_EQ(client.render(context, work_on({handle})), 0);
          stack.drive();
        }
        void* address = nullptr;
        ASSERT_EQ(client.lock(one, &address), 0);
        ASSERT_EQ(HostAperture::mapped.size(), 1U);
        EXPECT_THAT(HostAperture::mapped[0], ::testing::ElementsAre(1, 0, 1, 1, 2, 2, 3, 3, 4));
        EXPECT_EQ(stack.statistics().page_outs, 0U) << "it stays where it is";
        std::memcpy(static_cast<std::byte*>(address) + kPageBytes, "second page", 12);
        auto* bar = static_cast<const char*>(stack.machine.map_io(
            bus::PhysicalAddress{stack.miniport.function().bars()[1].base.value + kPageBytes},
            kPageBytes));
        EXPECT_STREQ(bar, "second page");
        EXPECT_TRUE(stack.machine.unmap_io(const_cast<char*>(bar), kPageBytes));
        // Two pages are left: too few.
        Digest before = digest(stack, {&client});
        EXPECT_EQ(client.lock(stuck, &address), kCantEvict);
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(client.lock(two, &address), 0);
        EXPECT_EQ(HostAperture::mapped.size(), 1U);
        EXPECT_EQ(stack.statistics().page_outs, 1U) << "to system memory";
        EXPECT_EQ(client.unlock(two), 0);
        EXPECT_TRUE(HostAperture::unmapped.empty());
        EXPECT_EQ(client.unlock(one), 0);
        ASSERT_EQ(HostAperture::unmapped.size(), 1U);
        EXPECT_THAT(HostAperture::unmapped[0], ::testing::ElementsAre(1, 0, 1, 2, 3));
        EXPECT_EQ(client.lock(stuck, &address), 0) << "pages are free again";
        EXPECT_EQ(client.destroy_allocation(stuck, 2), 0);
        EXPECT_EQ(HostAperture::unmapped.size(), 2U) << "destruction ends the lock";
      },
      HostAperture::prepare);
}

// The driver cannot map, or its aperture is behind no BAR: the content leaves for the pages the CPU
// sees, or stays if it may not, and the aperture's pages are free again.
TEST_F(HostApertureTest, WithoutAWindowTheContentLeaves) {
  DXGKIT_COVERS("ALLOC-41", "SEG-19");
  for (const bool outside : {false, true}) {
    SCOPED_TRACE(outside ? "behind no BAR" : "the driver refuses");
    with_client(
        [&](Stack& stack, Client& client) {
          ContextBuffers context = client.make_context();
          const D3DKMT_HANDLE before_it = client.make_allocation(2 * kPageBytes, kVisible);
          const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible | kAperture));
          const D3DKMT_HANDLE stuck = client.make_allocation(described(kVisible));
          for (const D3DKMT_HANDLE one : {before_it, handle, stuck}) {
            client.list({one});
            ASSERT_EQ(client.render(context, work_on({one})), 0);
            stack.drive();
          }
          HostAperture::mapped.clear();
          HostAperture::unmapped.clear();
          const size_t findings = stack.rules().size();
          HostAperture::answer = outside ? STATUS_SUCCESS : nt_status(Status::kNoMemory);
          void* address = nullptr;
          EXPECT_EQ(client.lock(stuck, &address), kCantEvict);
          EXPECT_EQ(stack.statistics().page_outs, 0U);
          ASSERT_EQ(client.lock(handle, &address), 0);
          EXPECT_EQ(stack.statistics().page_outs, 1U);
          std::memcpy(address, "in the pages", 13);
          // The same pages each time: nothing keeps them.
          ASSERT_EQ(HostAperture::mapped.size(), 2U);
          EXPECT_THAT(HostAperture::mapped[0], ::testing::ElementsAre(1, 0, 6, 1, 7, 2, 8, 3, 9));
          EXPECT_THAT(HostAperture::mapped[1], ::testing::ElementsAre(1, 0, 2, 1, 3, 2, 4, 3, 5));
          EXPECT_EQ(HostAperture::unmapped.size(), outside ? 2U : 0U) << "what was mapped";
          EXPECT_EQ(client.unlock(handle), 0);
          EXPECT_EQ(stack.rules().size(), findings + (outside ? 1 : 0));
          if (outside) {
            EXPECT_EQ(stack.rules().back(), "SEG-19");
          }
          HostAperture::answer = STATUS_SUCCESS;
          if (outside) return;
          EXPECT_EQ(client.lock(stuck, &address), 0) << "it goes on";
          EXPECT_EQ(client.unlock(stuck), 0);
          EXPECT_EQ(HostAperture::unmapped.size(), 1U);
        },
        [&](ScriptedMiniport& miniport) {
          HostAperture::prepare(miniport);
          if (outside) HostAperture::of_segment(miniport, 0, uint64_t{1} << 40);
        });
  }
}

// Sleep and power failures: pages are unmapped before content leaves, and stay while it stays.
TEST_F(HostApertureTest, PagesStayMappedAsLongAsContentStays) {
  DXGKIT_COVERS("ALLOC-40", "ALLOC-41");
  for (const bool preserved : {false, true}) {
    SCOPED_TRACE(preserved);
    with_client(
        [&](Stack& stack, Client& client) {
          const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible | kAperture));
          ContextBuffers context = client.make_context();
          client.list({handle});
          ASSERT_EQ(client.render(context, work_on({handle})), 0);
          stack.drive();
          HostAperture::mapped.clear();
          HostAperture::unmapped.clear();
          void* address = nullptr;
          ASSERT_EQ(client.lock(handle, &address), 0);
          auto* text = static_cast<char*>(address);
          std::memcpy(text, "in the window", 14);
          stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
            EXPECT_EQ(HostAperture::unmapped.size(), preserved ? 0U : 1U) << "before it moves";
            return stack.miniport.default_build_paging(args);
          };
          stack.blocking([&] {
            EXPECT_TRUE(
                stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
          });
          EXPECT_STREQ(text, preserved ? "in the window" : "");
          stack.blocking([&] {
            EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
            EXPECT_EQ(stack.system->power_failed(stack.luid, dxgk::PowerTarget::kStandby),
                      Status::kSuccess);
            static_cast<void>(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0));
          });
          stack.miniport.hooks.build_paging = nullptr;
          EXPECT_STREQ(text, preserved ? "in the window" : "");
          EXPECT_EQ(HostAperture::mapped.size(), 1U);
          EXPECT_EQ(HostAperture::unmapped.size(), preserved ? 0U : 1U);
          EXPECT_EQ(client.unlock(handle), 0);
          EXPECT_EQ(HostAperture::unmapped.size(), 1U);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](ScriptedMiniport& miniport) {
          HostAperture::prepare(miniport);
          miniport.config.segments[0].flags.PreservedDuringStandby = preserved ? 1 : 0;
        });
  }
}

}  // namespace
}  // namespace dxgkit::contract
