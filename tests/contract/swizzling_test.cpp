// Swizzling ranges: when the driver sets them up, how long they stay, who gets them next.
#include <algorithm>
#include <array>
#include <cstring>

#include "dxgk/adapter/adapter.h"
#include "dxgk/exercise.h"
#include "tests/contract/lock_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kSegmentBase = 0x1'0000'0000, kSize = 16 * kKibibyte;
constexpr auto kUnavailable = static_cast<NTSTATUS>(0xC01E0107);
constexpr auto kUnsupported = static_cast<NTSTATUS>(0xC01E0108);

class SwizzlingTest : public ContractTest {
 protected:
  /// Allocations in the first segment, none of them at its start.
  static std::vector<D3DKMT_HANDLE> placed(Stack& stack, Client& client, size_t count,
                                           uint32_t segments = kVisible | kAperture,
                                           uint32_t used = 0) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE before = client.make_allocation(3 * kPageBytes, kVisible);
    EXPECT_EQ(client.render(context, work_on({before})), 0);
    std::vector<D3DKMT_HANDLE> handles;
    for (size_t i = 0; i < count; ++i) {
      ScriptedAllocation description = described(segments);
      description.preferred = used;
      handles.push_back(client.make_allocation(description));
      EXPECT_EQ(client.render(context, work_on({handles.back()})), 0);
      stack.drive();
    }
    return handles;
  }
  /// The address at which the GPU sees what was placed last.
  static uint64_t last_address(Stack& stack) {
    return stack.miniport.calls().patches.back().allocations.at(0).physical_address;
  }
  static NTSTATUS lock_with(Client& client, D3DKMT_HANDLE handle, UINT private_data,
                            UINT flags = kAcquireAperture, void** data = nullptr) {
    D3DKMT_LOCK args = lock_args(handle, flags);
    args.PrivateDriverData = private_data;
    const NTSTATUS status = lock(client, args);
    if (data != nullptr) *data = args.pData;
    return status;
  }
  static void look(Client& client, D3DKMT_HANDLE handle, UINT private_data,
                   UINT flags = kAcquireAperture) {
    EXPECT_EQ(lock_with(client, handle, private_data, flags), 0);
    EXPECT_EQ(unlock(client, {handle}), 0);
  }
  static std::vector<UINT> ranges_of(const std::vector<DXGKARG_RELEASESWIZZLINGRANGE>& calls) {
    std::vector<UINT> ranges;
    for (const DXGKARG_RELEASESWIZZLINGRANGE& call : calls) ranges.push_back(call.RangeId);
    return ranges;
  }
};

TEST_F(SwizzlingTest, TheDriverSetsUpASwizzlingRangeBeforeTheCpuSeesIt) {
  DXGKIT_COVERS("SEG-21", "THUNK-26");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const D3DKMT_HANDLE elsewhere = client.make_allocation(described(kVisible | kAperture));
        look(client, elsewhere, 0);
        EXPECT_TRUE(driver.acquired.empty()) << "in system memory there is nothing to unswizzle";
        const D3DKMT_HANDLE other = placed(stack, client, 2)[0];
        const D3DKMT_HANDLE handle = placed(stack, client, 1)[0];
        const uint64_t place = last_address(stack) - kSegmentBase;
        ASSERT_GT(place, 0U);
        look(client, other, 1);  // so that the range is not the first
        void* data = nullptr;
        driver.on_acquire = [&] { EXPECT_EQ(data, nullptr) << "nobody has an address yet"; };
        ASSERT_EQ(lock_with(client, handle, 0xABCD, kAcquireAperture, &data), 0);
        driver.on_acquire = nullptr;
        ASSERT_EQ(driver.acquired.size(), 2U);
        const DXGKARG_ACQUIRESWIZZLINGRANGE& asked = driver.acquired[1];
        EXPECT_NE(asked.hAllocation, nullptr);
        EXPECT_NE(asked.hAllocation, driver.acquired[0].hAllocation);
        EXPECT_EQ(asked.PrivateDriverData, 0xABCDU);
        EXPECT_EQ(asked.RangeId, 1U);
        EXPECT_EQ(asked.SegmentId, 1U);
        EXPECT_EQ(asked.RangeSize, kSize);
        EXPECT_EQ(static_cast<uint64_t>(asked.CPUTranslatedAddress.QuadPart), driver.bar() + place);
        std::memcpy(data, "through the range", 18);
        EXPECT_EQ(driver.text_at(driver.window() + kMebibyte), "through the range")
            << "where the driver said";
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(lock_with(client, handle, 0xABCD, 0), kInvalid)
            << "released before the next lock";
        EXPECT_EQ(lock_with(client, handle, 0xABCD), kInvalid);
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(unlock(client, {handle}), 0);
        EXPECT_TRUE(driver.released.empty());
        // Locked without, not lockable with.
        ASSERT_EQ(lock_with(client, handle, 0xABCD, 0), 0);
        EXPECT_EQ(lock_with(client, handle, 0xABCD), kInvalid);
        EXPECT_EQ(unlock(client, {handle}), 0);
        const D3DKMT_HANDLE aperture_only = client.make_allocation(described(kAperture));
        EXPECT_EQ(lock_with(client, aperture_only, 0), kInvalid);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      Swizzler::prepare);
}

TEST_F(SwizzlingTest, ARangeStaysWithItsAllocationAndPrivateData) {
  DXGKIT_COVERS("ALLOC-52");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const std::vector<D3DKMT_HANDLE> handles = placed(stack, client, 3);
        look(client, handles[0], 5);
        look(client, handles[0], 5);
        EXPECT_EQ(driver.acquired.size(), 1U) << "the same again needs no call";
        look(client, handles[0], 6);
        ASSERT_EQ(driver.acquired.size(), 2U) << "another part of it does";
        EXPECT_EQ(driver.acquired[1].RangeId, 1U);
        EXPECT_TRUE(driver.released.empty());
        look(client, handles[0], 5);
        EXPECT_EQ(driver.acquired.size(), 2U);
        // Of two that nobody uses the one goes that was used before the other.
        look(client, handles[1], 5);
        ASSERT_EQ(driver.released.size(), 1U);
        EXPECT_EQ(driver.released[0].RangeId, 1U);
        EXPECT_EQ(driver.released[0].PrivateDriverData, 6U);
        EXPECT_EQ(driver.released[0].hAllocation, driver.acquired[0].hAllocation);
        ASSERT_EQ(driver.acquired.size(), 3U);
        EXPECT_EQ(driver.acquired[2].RangeId, 1U);
        EXPECT_NE(driver.acquired[2].hAllocation, driver.acquired[0].hAllocation);
        // One in use stays, however long ago it was asked for.
        ASSERT_EQ(lock_with(client, handles[0], 5), 0);
        look(client, handles[1], 5);
        look(client, handles[2], 5);
        EXPECT_EQ(driver.acquired.size(), 4U);
        EXPECT_THAT(ranges_of(driver.released), ElementsAre(1, 1));
        EXPECT_EQ(unlock(client, {handles[0]}), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      Swizzler::prepare);
}

TEST_F(SwizzlingTest, ARangeGoesBackBeforeItsContentMovesOrEnds) {
  DXGKIT_COVERS("ALLOC-52");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const std::vector<D3DKMT_HANDLE> handles = placed(stack, client, 2);
        look(client, handles[0], 5);
        look(client, handles[0], 6);
        const auto moves = [&] { return stack.miniport.calls().paging.size(); };
        const size_t before = moves();
        driver.on_release = [&] { EXPECT_EQ(moves(), before) << "it has moved already"; };
        const auto page_out = [&] {
          auto exercise = dxgk::Exercise::on(*stack.system, stack.luid);
          stack.blocking([&] {
            EXPECT_EQ(exercise->memory().page_out(*client.process, handles[0]), Status::kSuccess);
          });
        };
        page_out();
        EXPECT_GT(moves(), before);
        EXPECT_THAT(ranges_of(driver.released), ElementsAre(0, 1)) << "all of its ranges";
        driver.on_release = nullptr;
        look(client, handles[0], 5);
        EXPECT_EQ(driver.acquired.size(), 2U) << "nothing to unswizzle out there";
        ContextBuffers context = client.make_context();
        ASSERT_EQ(client.render(context, work_on({handles[0]})), 0);
        stack.drive();
        look(client, handles[0], 5);
        EXPECT_EQ(driver.acquired.size(), 3U);
        // Destruction: before the driver's objects go, with a lock and without one.
        driver.on_release = [&] {
          EXPECT_TRUE(stack.miniport.calls().closed_allocations.empty());
          EXPECT_TRUE(stack.miniport.calls().destroyed_allocations.empty());
        };
        ASSERT_EQ(lock_with(client, handles[1], 7), 0);
        stack.miniport.clear_calls();
        stack.blocking([&] { EXPECT_EQ(client.destroy_allocation(handles[1], 2), 0); });
        ASSERT_EQ(driver.released.size(), 3U);
        EXPECT_EQ(driver.released[2].PrivateDriverData, 7U);
        EXPECT_EQ(driver.released[2].hAllocation, driver.acquired[3].hAllocation);
        EXPECT_EQ(stack.miniport.calls().destroyed_allocations.size(), 1U);
        stack.miniport.clear_calls();
        stack.blocking([&] { EXPECT_EQ(client.destroy_allocation(handles[0], 2), 0); });
        EXPECT_EQ(driver.released.size(), 4U);
        EXPECT_EQ(stack.miniport.calls().destroyed_allocations.size(), 1U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      Swizzler::prepare);
}

TEST_F(SwizzlingTest, WithoutARangeTheContentLeavesTheSegment) {
  DXGKIT_COVERS("SEG-21", "ALLOC-41", "ALLOC-53");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const std::vector<D3DKMT_HANDLE> handles = placed(stack, client, 3);
        for (const uint32_t i : {0U, 1U}) {
          ASSERT_EQ(lock_with(client, handles[i], 0), 0);
          EXPECT_EQ(driver.acquired.back().RangeId, i);
        }
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(lock_with(client, handles[2], 0, kAcquireAperture | kDonotEvict), kCantEvict);
        EXPECT_EQ(digest(stack, {&client}), before);
        ASSERT_EQ(lock_with(client, handles[2], 0), 0);
        EXPECT_EQ(stack.statistics().page_outs, 1U);
        EXPECT_EQ(driver.acquired.size(), 2U);
        EXPECT_EQ(unlock(client, handles), 0);
      },
      Swizzler::prepare);
}

// Three ranges, two of them unused, one in use; the driver has too little for another.
TEST_F(SwizzlingTest, UnusedRangesMakeRoomForADriverThatRanOutOfSomething) {
  DXGKIT_COVERS("ALLOC-53");
  struct Row {
    const char* sentence;
    NTSTATUS answer;
    size_t enough;  // it answers well once so many ranges are back
    std::vector<UINT> released;
    uint64_t page_outs;
  };
  const Row rows[] = {
      {"one is enough", kUnavailable, 1, {1}, 0},
      {"two are", kUnavailable, 2, {1, 0}, 0},
      {"never enough", kUnavailable, 99, {1, 0}, 1},
      {"not supported: no further attempt", kUnsupported, 0, {}, 1},
      {"any other failure: likewise", nt_status(Status::kNoMemory), 0, {}, 1},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sentence);
    with_client(
        [&](Stack& stack, Client& client) {
          Swizzler driver(stack);
          const std::vector<D3DKMT_HANDLE> handles = placed(stack, client, 4);
          look(client, handles[0], 1);  // range 0
          look(client, handles[1], 1);  // range 1
          look(client, handles[0], 1);
          ASSERT_EQ(lock_with(client, handles[2], 1), 0);  // range 2
          driver.answer = row.answer;
          driver.on_release = [&] {
            if (driver.released.size() >= row.enough) driver.answer = 0;
          };
          const size_t asked = driver.acquired.size();
          ASSERT_EQ(lock_with(client, handles[3], 1), 0);
          EXPECT_THAT(ranges_of(driver.released), ::testing::ElementsAreArray(row.released));
          EXPECT_EQ(driver.acquired.size(), asked + 1 + row.released.size());
          for (size_t i = asked; i < driver.acquired.size(); ++i) {
            EXPECT_EQ(driver.acquired[i].RangeId, 3U);
            EXPECT_EQ(driver.acquired[i].hAllocation, driver.acquired[asked].hAllocation);
          }
          EXPECT_EQ(stack.statistics().page_outs, row.page_outs);
          EXPECT_EQ(unlock(client, {handles[2], handles[3]}), 0);
          driver.on_release = nullptr;
          driver.answer = 0;
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [](ScriptedMiniport& miniport) { Swizzler::with_ranges(miniport, 4); });
  }
}

TEST_F(SwizzlingTest, TheDriverChoosesTheSizeOfARangeOnlyWhenAsked) {
  DXGKIT_COVERS("ALLOC-50");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const D3DKMT_HANDLE handle = placed(stack, client, 1)[0];
        driver.size = 64 * kKibibyte;
        void* data = nullptr;
        ASSERT_EQ(lock_with(client, handle, 0, kAcquireAperture | kUseAlternateVa, &data), 0);
        static_cast<uint8_t*>(data)[64 * kKibibyte - 1] = 1;
        EXPECT_EQ(unlock(client, {handle}), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        ASSERT_EQ(lock_with(client, handle, 0), 0) << "another size: it is asked for again";
        EXPECT_EQ(driver.acquired.size(), 2U);
        EXPECT_THAT(ranges_of(driver.released), ElementsAre(0)) << "the one of the other size";
        EXPECT_EQ(driver.acquired[1].RangeId, 0U);
        EXPECT_EQ(stack.only_finding().rule, "ALLOC-50");
        EXPECT_EQ(unlock(client, {handle}), 0);
      },
      Swizzler::prepare);
}

NTSTATUS NTAPI acquire_nothing(const HANDLE device, DXGKARG_ACQUIRESWIZZLINGRANGE* args) {
  const NTSTATUS status = Swizzler::acquire(device, args);
  args->RangeSize = 0;
  return status;
}

// A range of no bytes shows nothing, also where the driver may choose the size: the one that was
// asked for is mapped.
TEST_F(SwizzlingTest, NoRangeHasNoSize) {
  DXGKIT_COVERS("ALLOC-50");
  for (const UINT flags : {kAcquireAperture, kAcquireAperture | kUseAlternateVa}) {
    SCOPED_TRACE(flags);
    with_client(
        [flags](Stack& stack, Client& client) {
          Swizzler driver(stack);
          const D3DKMT_HANDLE handle = placed(stack, client, 1)[0];
          void* data = nullptr;
          ASSERT_EQ(lock_with(client, handle, 0, flags, &data), 0);
          EXPECT_EQ(stack.only_finding().rule, "ALLOC-50");
          std::memcpy(static_cast<char*>(data) + kSize - 4, "end", 4);
          EXPECT_EQ(driver.text_at(driver.window() + kSize - 4), "end");
          EXPECT_EQ(unlock(client, {handle}), 0);
        },
        [](ScriptedMiniport& miniport) {
          Swizzler::prepare(miniport);
          miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
            Swizzler::lend_entries(table);
            table.DxgkDdiAcquireSwizzlingRange = acquire_nothing;
          };
        });
  }
}

// The CPU sees whole pages of a range; one whose size wraps is nowhere, and goes back at once.
TEST_F(SwizzlingTest, ARangeIsWholePagesOfABar) {
  DXGKIT_COVERS("ALLOC-50", "SEG-19");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const std::vector<D3DKMT_HANDLE> handles = placed(stack, client, 2);
        constexpr UINT kAlternate = kAcquireAperture | kUseAlternateVa;
        driver.size = kPageBytes + 1;
        void* data = nullptr;
        ASSERT_EQ(lock_with(client, handles[0], 1, kAlternate, &data), 0);
        std::memcpy(static_cast<char*>(data) + 2 * kPageBytes - 4, "end", 4);
        EXPECT_EQ(driver.text_at(driver.window() + 2 * kPageBytes - 4), "end");
        EXPECT_EQ(unlock(client, {handles[0]}), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        driver.size = UINT64_MAX;
        ASSERT_EQ(lock_with(client, handles[1], 2, kAlternate, &data), 0) << "in its pages";
        EXPECT_EQ(stack.only_finding().rule, "SEG-19");
        EXPECT_EQ(stack.statistics().page_outs, 1U);
        ASSERT_EQ(driver.released.size(), 1U);
        EXPECT_EQ(driver.released[0].RangeId, 1U);
        EXPECT_EQ(driver.released[0].PrivateDriverData, 2U);
        EXPECT_EQ(unlock(client, {handles[1]}), 0);
        // Its range is free, and the other one's stays.
        driver.size = 0;
        look(client, handles[0], 1);
        EXPECT_EQ(driver.released.size(), 2U) << "it had another size";
        EXPECT_EQ(driver.acquired.back().RangeId, 0U);
      },
      Swizzler::prepare);
}

// The AGP aperture's pages are what the CPU sees, with an alternate address or without.
TEST_F(SwizzlingTest, TheAgpApertureNeedsNoRange) {
  DXGKIT_COVERS("ALLOC-55", "SEG-18");
  bare([](Stack& stack) {
    Swizzler driver(stack);
    ASSERT_EQ(stack.machine.add_agp_aperture(stack.miniport.function(), 8 * kMebibyte),
              Status::kSuccess);
    Swizzler::prepare(stack.miniport);
    dxgkit::testing::ScriptedSegment& agp = stack.miniport.config.segments[2];
    agp.flags = {};
    agp.flags.Agp = 1;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      Client client(stack);
      const D3DKMT_HANDLE handle = placed(stack, client, 2, kHidden | kAperture, 3)[1];
      ASSERT_GE(last_address(stack), bus::Machine::kAgpApertureBase);
      void* data = nullptr;
      ASSERT_EQ(lock_with(client, handle, 1, kAcquireAperture | kUseAlternateVa, &data), 0);
      EXPECT_TRUE(driver.acquired.empty());
      std::memcpy(data, "in its pages", 13);
      std::array<std::byte, 13> seen{};
      ASSERT_TRUE(stack.machine.dma_read(bus::PhysicalAddress{last_address(stack)}, seen));
      EXPECT_STREQ(reinterpret_cast<const char*>(seen.data()), "in its pages");
      EXPECT_EQ(unlock(client, {handle}), 0);
      EXPECT_EQ(stack.statistics().page_outs, 0U);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    }
  });
}

// UseAlternateVA: the range leads to what the CPU has no address for.
TEST_F(SwizzlingTest, AnAlternateAddressLeadsIntoHiddenAndApertureSegments) {
  DXGKIT_COVERS("ALLOC-55");
  for (const uint32_t segment : {2U, 3U}) {
    SCOPED_TRACE(segment);
    with_client(
        [&](Stack& stack, Client& client) {
          Swizzler driver(stack);
          const std::vector<D3DKMT_HANDLE> handles =
              placed(stack, client, 2, kHidden | kAperture, segment);
          driver.size = 5 * kPageBytes;
          void* data = nullptr;
          ASSERT_EQ(lock_with(client, handles[0], 1, kAcquireAperture | kUseAlternateVa), 0);
          ASSERT_EQ(lock_with(client, handles[1], 9, kAcquireAperture | kUseAlternateVa, &data), 0);
          ASSERT_EQ(driver.acquired.size(), 2U);
          EXPECT_EQ(driver.acquired[1].SegmentId, segment);
          EXPECT_EQ(driver.acquired[1].PrivateDriverData, 9U);
          EXPECT_EQ(driver.acquired[1].CPUTranslatedAddress.QuadPart, 0) << "it has none (G-33)";
          std::memcpy(static_cast<char*>(data) + 4 * kPageBytes, "past its end", 13);
          EXPECT_EQ(driver.text_at(driver.window() + kMebibyte + 4 * kPageBytes), "past its end");
          EXPECT_EQ(stack.statistics().page_outs, 0U) << "it stays where it is";
          EXPECT_EQ(unlock(client, handles), 0);
          // Without it: no call, and what the CPU has no address for leaves.
          look(client, handles[1], 9);
          EXPECT_EQ(driver.acquired.size(), 2U);
          EXPECT_EQ(stack.statistics().page_outs, segment == 2 ? 1U : 0U);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        Swizzler::prepare);
  }
}

TEST_F(SwizzlingTest, WhatIsLockedWithAnAlternateAddressIsNotLockedAgain) {
  DXGKIT_COVERS("ALLOC-54");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        // In system memory: no range tells that it is locked like that.
        const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible | kAperture));
        ASSERT_EQ(lock_with(client, handle, 0, kAcquireAperture | kUseAlternateVa), 0);
        EXPECT_TRUE(driver.acquired.empty());
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(lock_with(client, handle, 0, 0), kInvalid);
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(unlock(client, {handle}), 0);
        look(client, handle, 0, 0);
        look(client, handle, 0, kAcquireAperture | kUseAlternateVa);
      },
      Swizzler::prepare);
}

struct Lacking {
  const char* sentence;
  bool acquire, release;
  UINT ranges;
  const char* said;
  const char* ddi;
};
class Lacks : public SwizzlingTest, public ::testing::WithParamInterface<Lacking> {};
TEST_P(Lacks, ADriverWithoutWhatALockNeedsIsAFinding) {
  DXGKIT_COVERS("SEG-50");
  const Lacking& row = GetParam();
  with_client(
      [&](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const D3DKMT_HANDLE handle = placed(stack, client, 2)[1];
        const uint64_t offset = last_address(stack) - kSegmentBase;
        look(client, handle, 3, 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "a plain lock needs none";
        void* data = nullptr;
        ASSERT_EQ(lock_with(client, handle, 3, kAcquireAperture, &data), 0);
        std::memcpy(data, "in the pages", 13);
        EXPECT_EQ(stack.statistics().page_outs, 1U);
        EXPECT_TRUE(driver.acquired.empty());
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "SEG-50");
        EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
        EXPECT_EQ(finding.ddi, row.ddi);
        EXPECT_THAT(finding.actual, HasSubstr(row.said));
        EXPECT_THAT(finding.actual, HasSubstr("memory segment 1"));
        char text[24];
        std::snprintf(text, sizeof text, "0x%llX", static_cast<unsigned long long>(offset));
        EXPECT_THAT(finding.actual, HasSubstr(text));
        EXPECT_THAT(finding.fix, HasSubstr("NumberOfSwizzlingRanges"));
        EXPECT_EQ(unlock(client, {handle}), 0);
      },
      [&](ScriptedMiniport& miniport) {
        miniport.config.caps = [&](DXGK_DRIVERCAPS& caps) {
          caps.NumberOfSwizzlingRanges = row.ranges;
        };
        miniport.config.table = [&](DRIVER_INITIALIZATION_DATA& table) {
          Swizzler::lend_entries(table);
          if (!row.acquire) table.DxgkDdiAcquireSwizzlingRange = nullptr;
          if (!row.release) table.DxgkDdiReleaseSwizzlingRange = nullptr;
        };
      });
}
INSTANTIATE_TEST_SUITE_P(
    Swizzling, Lacks,
    ::testing::Values(Lacking{"NoEntryToAcquire", false, true, 2, "AcquireSwizzlingRange is NULL",
                              "DxgkDdiAcquireSwizzlingRange"},
                      Lacking{"NoEntryToRelease", true, false, 2, "ReleaseSwizzlingRange is NULL",
                              "DxgkDdiReleaseSwizzlingRange"},
                      Lacking{"NoRanges", true, true, 0, "NumberOfSwizzlingRanges is 0",
                              "DxgkDdiQueryAdapterInfo(DRIVERCAPS)"}),
    [](const auto& row) { return std::string(row.param.sentence); });

// Sleep: what is locked leaves and comes back, and its address leads to it all the time.
TEST_F(SwizzlingTest, ALockThroughARangeSurvivesSleep) {
  DXGKIT_COVERS("ALLOC-52", "ALLOC-40");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const std::vector<D3DKMT_HANDLE> handles = placed(stack, client, 2);
        look(client, handles[0], 4);
        void* data = nullptr;
        ASSERT_EQ(lock_with(client, handles[1], 8, kAcquireAperture, &data), 0);
        std::memcpy(data, "in the range", 13);
        stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
          if (state == PowerDeviceD0) return nt_status(Status::kSuccess);
          EXPECT_THAT(ranges_of(driver.released), ::testing::UnorderedElementsAre(0, 1));
          EXPECT_STRNE(static_cast<const char*>(data), "in the range") << "in the backing pages";
          std::memcpy(data, "asleep", 7);
          return nt_status(Status::kSuccess);
        };
        stack.blocking([&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
          EXPECT_EQ(driver.acquired.size(), 2U);
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
        });
        stack.miniport.hooks.set_power_state = nullptr;
        ASSERT_EQ(driver.acquired.size(), 3U) << "again, for what is locked";
        EXPECT_EQ(driver.acquired[2].hAllocation, driver.acquired[1].hAllocation);
        EXPECT_EQ(driver.acquired[2].PrivateDriverData, 8U);
        std::memcpy(data, "awake", 6);
        EXPECT_EQ(driver.text_at(driver.window() + driver.acquired[2].RangeId * kMebibyte),
                  "awake");
        EXPECT_EQ(unlock(client, {handles[1]}), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      Swizzler::prepare);
}

// On the way back the driver refuses: the address leads to the content as it lies in the segment.
TEST_F(SwizzlingTest, ALockShowsTheSegmentWhenTheRangeDoesNotComeBack) {
  DXGKIT_COVERS("ALLOC-40");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const D3DKMT_HANDLE handle = placed(stack, client, 1)[0];
        void* data = nullptr;
        ASSERT_EQ(lock_with(client, handle, 8, kAcquireAperture, &data), 0);
        stack.blocking([&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
          driver.answer = kUnsupported;
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
        });
        ASSERT_EQ(driver.acquired.size(), 2U);
        std::memcpy(data, "as it lies", 11);
        const auto place = static_cast<uint64_t>(driver.acquired[1].CPUTranslatedAddress.QuadPart);
        EXPECT_EQ(driver.text_at(place), "as it lies");
        EXPECT_EQ(unlock(client, {handle}), 0);
      },
      Swizzler::prepare);
}

// The same where the driver gave a CPU address that is in no BAR: nothing can show the content, so
// the address leads to where it led during the sleep.
TEST_F(SwizzlingTest, ALockKeepsItsPagesWhereNeitherRangeNorBarShowsTheContent) {
  DXGKIT_COVERS("ALLOC-40", "SEG-19");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const D3DKMT_HANDLE handle = placed(stack, client, 1)[0];
        void* data = nullptr;
        ASSERT_EQ(lock_with(client, handle, 8, kAcquireAperture, &data), 0);
        stack.blocking([&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
          std::memcpy(data, "asleep", 7);
          driver.answer = kUnsupported;
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
        });
        ASSERT_EQ(driver.acquired.size(), 2U);
        EXPECT_STREQ(static_cast<const char*>(data), "asleep");
        EXPECT_EQ(unlock(client, {handle}), 0);
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "SEG-19");
      },
      [](ScriptedMiniport& miniport) {
        Swizzler::prepare(miniport);
        miniport.config.segments[0].cpu_translated_address = 0x7'0000'0000;
      });
}

// And where there is room in an aperture by then, which its driver prefers: that shows these pages,
// and no address of the bus is its.
TEST_F(SwizzlingTest, ALockKeepsItsPagesBehindAnApertureWhenTheRangeDoesNotComeBack) {
  DXGKIT_COVERS("ALLOC-40", "ALLOC-55");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE fills = client.make_allocation(64 * kKibibyte, kAperture);
        ScriptedAllocation description = described(kVisible | kAperture);
        description.preferred = 3;
        const D3DKMT_HANDLE handle = client.make_allocation(description);
        ASSERT_EQ(client.render(context, work_on({fills, handle})), 0);
        stack.drive();
        void* data = nullptr;
        ASSERT_EQ(lock_with(client, handle, 8, kAcquireAperture | kUseAlternateVa, &data), 0);
        ASSERT_EQ(driver.acquired.at(0).SegmentId, 1U);
        stack.blocking([&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
          std::memcpy(data, "asleep", 7);
          driver.answer = kUnsupported;
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
        });
        ASSERT_EQ(driver.acquired.size(), 2U);
        EXPECT_EQ(driver.acquired[1].SegmentId, 3U);
        EXPECT_STREQ(static_cast<const char*>(data), "asleep");
        EXPECT_EQ(unlock(client, {handle}), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        Swizzler::prepare(miniport);
        miniport.config.segments[2].size = 64 * kKibibyte;
      });
}

// Of two devices that have an allocation open one has it locked; the other looked at it before.
// After a sleep the driver is asked for a range for the one that looks, and for nobody else.
TEST_F(SwizzlingTest, OnlyWhoLooksGetsARangeAgain) {
  DXGKIT_COVERS("ALLOC-40", "ALLOC-52");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        ScriptedAllocation data = described(kVisible | kAperture);
        D3DDDI_ALLOCATIONINFO info{};
        info.pPrivateDriverData = &data;
        info.PrivateDriverDataSize = sizeof data;
        D3DKMT_CREATEALLOCATION create{};
        create.hDevice = client.device;
        create.NumAllocations = 1;
        create.pAllocationInfo = &info;
        create.Flags.CreateResource = create.Flags.CreateShared = 1;
        ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
        const D3DKMT_HANDLE first = client.device, second = client.make_device();
        D3DDDI_OPENALLOCATIONINFO opened{};
        ScriptedAllocation total;
        char nothing = 0;
        D3DKMT_OPENRESOURCE open{};
        open.hDevice = second;
        open.hGlobalShare = create.hGlobalShare;
        open.NumAllocations = 1;
        open.pOpenAllocationInfo = &opened;
        open.pPrivateRuntimeData = open.pResourcePrivateDriverData = &nothing;
        open.pTotalPrivateDriverDataBuffer = &total;
        open.TotalPrivateDriverDataBufferSize = sizeof total;
        ASSERT_EQ(client.call([&] { return D3DKMTOpenResource(&open); }), 0);
        ContextBuffers context = client.make_context();
        ASSERT_EQ(client.render(context, work_on({info.hAllocation})), 0);
        stack.drive();
        client.device = second;
        look(client, opened.hAllocation, 3);
        client.device = first;
        void* seen = nullptr;
        ASSERT_EQ(lock_with(client, info.hAllocation, 8, kAcquireAperture, &seen), 0);
        ASSERT_EQ(driver.acquired.size(), 2U);
        stack.blocking([&] {
          for (const auto target : {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kD0})
            EXPECT_TRUE(stack.system->set_power(stack.luid, target).has_value());
        });
        ASSERT_EQ(driver.acquired.size(), 3U);
        EXPECT_EQ(driver.acquired[2].PrivateDriverData, 8U);
        EXPECT_EQ(unlock(client, {info.hAllocation}), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      Swizzler::prepare);
}

// Of a list of instances the driver knows one object: it is named for each of them.
TEST_F(SwizzlingTest, ARangeOfAnInstanceIsOfTheDriversObject) {
  DXGKIT_COVERS("ALLOC-39", "SEG-21");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const D3DKMT_HANDLE first = client.make_allocation(described(kVisible | kAperture));
        ContextBuffers context = client.make_context();
        ASSERT_EQ(client.render(context, work_on({first})), 0);
        stack.drive();
        look(client, first, 1);
        use(stack, client, context, first);
        D3DKMT_LOCK args = lock_args(first, kDiscard);
        ASSERT_EQ(lock_now(client, args), 0);
        const D3DKMT_HANDLE second = args.hAllocation;
        ASSERT_NE(second, first);
        EXPECT_EQ(unlock(client, {second}), 0);
        ASSERT_EQ(client.render(context, work_on({second})), 0);
        stack.drive();
        look(client, second, 2);
        ASSERT_EQ(driver.acquired.size(), 2U);
        EXPECT_NE(driver.acquired[0].hAllocation, nullptr);
        EXPECT_EQ(driver.acquired[1].hAllocation, driver.acquired[0].hAllocation);
        EXPECT_NE(driver.acquired[1].CPUTranslatedAddress.QuadPart,
                  driver.acquired[0].CPUTranslatedAddress.QuadPart);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      Swizzler::prepare);
}

// The driver has chosen another size: the address leads as far as there is content, or a range.
TEST_F(SwizzlingTest, AnAddressOfAnotherSizeFollowsItsContent) {
  DXGKIT_COVERS("ALLOC-50", "ALLOC-40");
  for (const uint64_t pages : {1U, 7U}) {
    SCOPED_TRACE(pages);
    with_client(
        [&](Stack& stack, Client& client) {
          Swizzler driver(stack);
          driver.size = pages * kPageBytes;
          const D3DKMT_HANDLE handle = placed(stack, client, 1)[0];
          void* data = nullptr;
          ASSERT_EQ(lock_with(client, handle, 8, kAcquireAperture | kUseAlternateVa, &data), 0);
          auto* const last = static_cast<char*>(data) + (pages - 1) * kPageBytes;
          std::memcpy(last, "in the range", 13);
          stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state,
                                                     POWER_ACTION) {
            if (state == PowerDeviceD0) return nt_status(Status::kSuccess);
            EXPECT_STREQ(last, "") << "of the backing pages, or nothing";
            return nt_status(Status::kSuccess);
          };
          stack.blocking([&] {
            EXPECT_TRUE(
                stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
            EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
          });
          stack.miniport.hooks.set_power_state = nullptr;
          EXPECT_STREQ(last, "in the range") << "the range again";
          EXPECT_EQ(unlock(client, {handle}), 0);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        Swizzler::prepare);
  }
}

// Content in a segment that is preserved stays where it is, and so does what shows it (G-33).
TEST_F(SwizzlingTest, ARangeOfAPreservedSegmentStaysInSleepAndWhenPowerFails) {
  DXGKIT_COVERS("ALLOC-52", "ALLOC-40");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const D3DKMT_HANDLE handle = placed(stack, client, 1)[0];
        void* data = nullptr;
        ASSERT_EQ(lock_with(client, handle, 8, kAcquireAperture, &data), 0);
        stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
          if (state == PowerDeviceD0) return nt_status(Status::kSuccess);
          std::memcpy(data, "asleep", 7);
          return nt_status(Status::kSuccess);
        };
        stack.blocking([&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
        });
        EXPECT_EQ(driver.text_at(driver.window()), "asleep");
        stack.blocking([&] {
          EXPECT_EQ(stack.system->power_failed(stack.luid, dxgk::PowerTarget::kStandby),
                    Status::kSuccess);
        });
        std::memcpy(data, "and again", 10);
        EXPECT_EQ(driver.text_at(driver.window()), "and again");
        stack.blocking([&] {
          static_cast<void>(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0));
        });
        stack.miniport.hooks.set_power_state = nullptr;
        EXPECT_EQ(driver.acquired.size(), 1U);
        EXPECT_TRUE(driver.released.empty());
        EXPECT_EQ(unlock(client, {handle}), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        Swizzler::prepare(miniport);
        miniport.config.segments[0].flags.PreservedDuringStandby = 1;
      });
}

TEST_F(SwizzlingTest, AResetTakesRangesBackBetweenItsTwoCalls) {
  DXGKIT_COVERS("TDR-24", "TDR-28");
  with_client(
      [](Stack& stack, Client& client) {
        Swizzler driver(stack);
        const std::vector<D3DKMT_HANDLE> handles = placed(stack, client, 2);
        look(client, handles[0], 4);
        void* data = nullptr;
        ASSERT_EQ(lock_with(client, handles[1], 8, kAcquireAperture, &data), 0);
        std::memcpy(data, "in the range", 13);
        stack.miniport.clear_calls();
        driver.on_release = [&] {
          EXPECT_EQ(stack.miniport.calls().count("DxgkDdiResetFromTimeout"), 1U);
          EXPECT_EQ(stack.miniport.calls().count("DxgkDdiRestartFromTimeout"), 0U);
        };
        auto exercise = dxgk::Exercise::on(*stack.system, stack.luid);
        stack.blocking([&] { EXPECT_EQ(exercise->reset_losing_content(), Status::kSuccess); });
        EXPECT_THAT(ranges_of(driver.released), ElementsAre(0, 1));
        std::memcpy(data, "in the pages", 13);
        EXPECT_EQ(driver.text_at(driver.window() + kMebibyte), "in the range") << "not there";
        driver.on_release = nullptr;
      },
      Swizzler::prepare);
}

TEST_F(SwizzlingTest, DriversOfTheSecondModelHaveNoSwizzlingRanges) {
  DXGKIT_COVERS("SEG-21");
  with_client(
      [](Stack& stack, Client& client) {
        const D3DKMT_HANDLE handle = client.make_allocation(described(kVisible | kAperture));
        const Digest before = digest(stack, {&client});
        D3DKMT_LOCK args = lock_args(handle, kAcquireAperture);
        EXPECT_EQ(lock(client, args), kInvalid);
        EXPECT_EQ(digest(stack, {&client}), before);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

// Clients that lock at once: the driver is asked by one at a time, whatever the order.
TEST_F(SwizzlingTest, CallsOfTheClassNeverOverlap) {
  DXGKIT_COVERS("IRQL-04");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    int inside = 0, most = 0;
    with_client(
        [&](Stack& stack, Client& client) {
          Swizzler driver(stack);
          const std::vector<D3DKMT_HANDLE> handles = placed(stack, client, 4);
          driver.on_acquire = driver.on_release = [&] {
            most = std::max(most, ++inside);
            runtime::Runtime::current().sleep_for(100);
            --inside;
          };
          std::vector<std::unique_ptr<Stack::Background>> threads;
          for (const D3DKMT_HANDLE handle : handles) {
            threads.push_back(std::make_unique<Stack::Background>(stack, [&client, handle] {
              for (UINT i = 0; i < 4; ++i) {
                D3DKMT_LOCK args = lock_args(handle, kAcquireAperture);
                args.PrivateDriverData = i;
                EXPECT_EQ(lock_now(client, args), 0);
                EXPECT_EQ(unlock(client, {handle}), 0);
              }
            }));
          }
          for (const auto& thread : threads) thread->finish();
          threads.clear();
          driver.on_acquire = driver.on_release = nullptr;
          EXPECT_GE(driver.acquired.size(), 4U);
        },
        Swizzler::prepare, seed);
    EXPECT_EQ(most, 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dxgkit::contract
