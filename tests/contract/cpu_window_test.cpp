// What the CPU sees of a primary in an aperture segment: the one exception for
// CpuTranslatedAddress.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/exercise.h"
#include "tests/contract/flip_fixture.h"
#include "tests/contract/lock_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSegmentOffset = 16 * kMebibyte;  // of the aperture's CPU address in the BAR
constexpr uint64_t kSize = 16 * kKibibyte;
constexpr uint32_t kUseAlternateVaFlag = 1U << 10, kAccessedPhysically = 1U << 15;
constexpr uint32_t kForOverlay = 1U << 8;

class CpuWindowTest : public ContractTest {
 protected:
  struct Setup {
    bool aperture_visible = true;
    UINT ranges = 3;
    bool entries = true;
    std::function<void(ScriptedMiniport&)> more;
    dxgk::VerifierSwitches verifier{};
  };
  /// A driver with a screen, whose aperture segment has a CPU address, and a client.
  static void windowed(const Setup& setup,
                       const std::function<void(Stack&, Swizzler&, Client&)>& body) {
    bare([&](Stack& stack) {
      FlipDriver screen(stack);
      Swizzler driver(stack);
      screen.more_table = [&](DRIVER_INITIALIZATION_DATA& table) {
        if (setup.entries) Swizzler::lend_entries(table);
      };
      const auto caps = stack.miniport.config.caps;
      stack.miniport.config.caps = [&, caps](DXGK_DRIVERCAPS& out) {
        caps(out);
        out.NumberOfSwizzlingRanges = setup.ranges;
      };
      dxgkit::testing::ScriptedSegment& aperture = stack.miniport.config.segments[2];
      aperture.flags.CpuVisible = setup.aperture_visible ? 1 : 0;
      aperture.cpu_translated_address = driver.bar() + kSegmentOffset;
      if (setup.more) setup.more(stack.miniport);
      stack.options.verifier = setup.verifier;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        Client client(stack);
        body(stack, driver, client);
      }
      stack.miniport.hooks = {};
    });
  }
  static NTSTATUS create_primary(Client& client, uint32_t segments, D3DKMT_HANDLE* out,
                                 uint32_t flags = kCpuVisible, uint32_t preferred = 3) {
    ScriptedAllocation data = described(segments, flags);
    if ((segments >> (preferred - 1) & 1) != 0) data.preferred = preferred;
    D3DDDI_ALLOCATIONINFO info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    info.Flags.Primary = 1;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 1;
    create.pAllocationInfo = &info;
    const NTSTATUS status = client.call([&] { return D3DKMTCreateAllocation(&create); });
    *out = info.hAllocation;
    return status;
  }
  /// Locks, writes and unlocks.
  static NTSTATUS look(Client& client, D3DKMT_HANDLE handle, const char* text) {
    D3DKMT_LOCK args = lock_args(handle);
    const NTSTATUS status = lock(client, args);
    if (status != 0) return status;
    std::memcpy(args.pData, text, std::strlen(text) + 1);
    return unlock(client, {handle});
  }
  /// In the aperture segment, not at its start. Answers the offset.
  static uint64_t place(Stack& stack, Client& client, D3DKMT_HANDLE handle) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE before = client.make_allocation(5 * kPageBytes, kAperture);
    EXPECT_EQ(client.render(context, work_on({before})), 0);
    EXPECT_EQ(client.render(context, work_on({handle})), 0);
    stack.drive();
    const auto entry = stack.miniport.calls().patches.back().allocations.at(0);
    EXPECT_EQ(entry.segment(), 3U);
    return entry.physical_address - kApertureBase;
  }
  static size_t unmaps(Stack& stack) {
    size_t count = 0;
    for (const auto& call : stack.miniport.calls().paging)
      count += call.args.Operation == DXGK_OPERATION_UNMAP_APERTURE_SEGMENT ? 1 : 0;
    return count;
  }
  static void page_out(Stack& stack, Client& client, D3DKMT_HANDLE handle) {
    auto exercise = dxgk::Exercise::on(*stack.system, stack.luid);
    stack.blocking(
        [&] { EXPECT_EQ(exercise->memory().page_out(*client.process, handle), Status::kSuccess); });
  }
};

struct WayToLock {
  const char* sentence;
  UINT flags;
  bool lock2;
};
class Ways : public CpuWindowTest, public ::testing::WithParamInterface<WayToLock> {};
TEST_P(Ways, APrimaryInAVisibleApertureIsSeenAtTheSegmentsAddress) {
  DXGKIT_COVERS("SEG-20", "SEG-21");
  windowed({}, [](Stack& stack, Swizzler& driver, Client& client) {
    D3DKMT_HANDLE other = 0, primary = 0;
    ASSERT_EQ(create_primary(client, kAperture, &other), 0);
    ASSERT_EQ(create_primary(client, kVisible | kAperture, &primary), 0);
    place(stack, client, other);
    const uint64_t offset = place(stack, client, primary);
    ASSERT_GT(offset, 0U);
    EXPECT_EQ(look(client, other, "of another"), 0);  // so that the range is not the first
    ASSERT_EQ(driver.acquired.size(), 1U);
    driver.keeps_address = true;
    void* data = nullptr;
    driver.on_acquire = [&] { EXPECT_EQ(data, nullptr) << "nobody has an address yet"; };
    if (GetParam().lock2) {
      ASSERT_EQ(client.lock(primary, &data), 0);
    } else {
      D3DKMT_LOCK args = lock_args(primary, GetParam().flags);
      args.PrivateDriverData = 0x77;
      ASSERT_EQ(lock(client, args), 0);
      data = args.pData;
    }
    driver.on_acquire = nullptr;
    ASSERT_EQ(driver.acquired.size(), 2U);
    const DXGKARG_ACQUIRESWIZZLINGRANGE& asked = driver.acquired[1];
    EXPECT_NE(asked.hAllocation, driver.acquired[0].hAllocation);
    EXPECT_EQ(asked.SegmentId, 3U);
    EXPECT_EQ(asked.RangeId, 1U);
    EXPECT_EQ(asked.RangeSize, kSize);
    EXPECT_EQ(asked.PrivateDriverData, GetParam().lock2 ? 0U : 0x77U);
    const uint64_t address = driver.bar() + kSegmentOffset + offset;
    EXPECT_EQ(static_cast<uint64_t>(asked.CPUTranslatedAddress.QuadPart), address);
    std::memcpy(static_cast<char*>(data) + 3 * kPageBytes, "on the fourth page", 19);
    EXPECT_EQ(driver.text_at(address + 3 * kPageBytes), "on the fourth page");
    EXPECT_EQ(client.unlock(primary), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}
INSTANTIATE_TEST_SUITE_P(CpuWindow, Ways,
                         ::testing::Values(WayToLock{"Lock", 0, false},
                                           WayToLock{"LockWithAcquireAperture", kAcquireAperture,
                                                     false},
                                           WayToLock{"Lock2", 0, true}),
                         [](const auto& row) { return std::string(row.param.sentence); });

// All else in an aperture segment is seen in its pages, whatever the segment's address says.
struct PagesCase {
  const char* sentence;
  bool visible = true;
  bool primary = true;
  UINT ranges = 3;
  bool entries = true;
  NTSTATUS answer = 0;
  bool outside = false;  // CpuTranslatedAddress is behind no BAR
  const char* rule = nullptr;
  const char* said = nullptr;
  size_t calls = 0;
};
class InPages : public CpuWindowTest, public ::testing::WithParamInterface<PagesCase> {};
TEST_P(InPages, TheCpuSeesTheBackingPages) {
  DXGKIT_COVERS("SEG-20", "SEG-50", "SEG-19");
  const PagesCase& row = GetParam();
  Setup setup{row.visible, row.ranges, row.entries, nullptr};
  if (row.outside) {
    setup.more = [](ScriptedMiniport& miniport) {
      miniport.config.segments[2].cpu_translated_address = 0x1234'5000;
    };
  }
  windowed(setup, [&](Stack& stack, Swizzler& driver, Client& client) {
    D3DKMT_HANDLE handle = 0;
    if (row.primary) {
      ASSERT_EQ(create_primary(client, kAperture, &handle), 0);
    } else {
      handle = client.make_allocation(described(kAperture));
    }
    const uint64_t offset = place(stack, client, handle);
    driver.answer = row.answer;
    driver.keeps_address = true;
    ASSERT_EQ(look(client, handle, "in the pages"), 0);
    EXPECT_EQ(driver.acquired.size(), row.calls);
    EXPECT_EQ(driver.text_at(driver.bar() + kSegmentOffset + offset), "");
    EXPECT_EQ(unmaps(stack), 0U) << "it stays where it is";
    if (row.rule == nullptr) {
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    } else {
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, row.rule);
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_THAT(finding.actual, HasSubstr(row.said));
      EXPECT_THAT(finding.actual, HasSubstr("segment 3"));
      EXPECT_FALSE(finding.fix.empty());
    }
    page_out(stack, client, handle);
    D3DKMT_LOCK args = lock_args(handle);
    ASSERT_EQ(lock(client, args), 0);
    EXPECT_STREQ(static_cast<const char*>(args.pData), "in the pages");
    EXPECT_EQ(unlock(client, {handle}), 0);
  });
}
INSTANTIATE_TEST_SUITE_P(
    CpuWindow, InPages,
    ::testing::Values(PagesCase{.sentence = "OfWhatIsNoPrimary", .primary = false},
                      PagesCase{.sentence = "OfASegmentThatIsNotCpuVisible", .visible = false},
                      PagesCase{.sentence = "WhenTheDriverRefuses",
                                .answer = static_cast<NTSTATUS>(0xC01E0107),
                                .calls = 1},
                      PagesCase{.sentence = "WithoutEntries",
                                .entries = false,
                                .rule = "SEG-50",
                                .said = "DxgkDdiAcquireSwizzlingRange is NULL"},
                      PagesCase{.sentence = "WithoutRanges",
                                .ranges = 0,
                                .rule = "SEG-50",
                                .said = "NumberOfSwizzlingRanges is 0. The CPU is to see aperture"},
                      PagesCase{.sentence = "WhenTheAddressIsBehindNoBar",
                                .outside = true,
                                .rule = "SEG-19",
                                .said = "16384 bytes",
                                .calls = 1}),
    [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(CpuWindowTest, ALockedPrimaryThatLeavesTheApertureIsSeenInItsPages) {
  DXGKIT_COVERS("SEG-20", "ALLOC-52");
  windowed({}, [](Stack& stack, Swizzler& driver, Client& client) {
    D3DKMT_HANDLE primary = 0;
    ASSERT_EQ(create_primary(client, kAperture, &primary), 0);
    place(stack, client, primary);
    D3DKMT_LOCK args = lock_args(primary);
    ASSERT_EQ(lock(client, args), 0);
    auto* text = static_cast<char*>(args.pData);
    std::memcpy(text, "in the window", 14);
    size_t unmapped = 0;
    driver.on_release = [&] { unmapped = unmaps(stack) + 1; };
    page_out(stack, client, primary);
    EXPECT_EQ(unmapped, 1U) << "released before the unmapping was built";
    EXPECT_EQ(unmaps(stack), 1U);
    EXPECT_EQ(driver.released.size(), 1U);
    EXPECT_STREQ(text, "") << "the pages; the device of this test moves nothing";
    std::memcpy(text, "in the pages", 13);
    EXPECT_EQ(client.unlock(primary), 0);
    D3DKMT_LOCK again = lock_args(primary);
    ASSERT_EQ(lock(client, again), 0);
    EXPECT_STREQ(static_cast<const char*>(again.pData), "in the pages");
    EXPECT_EQ(client.unlock(primary), 0);
    EXPECT_EQ(driver.acquired.size(), 1U);
    driver.on_release = nullptr;
  });
}

// UseAlternateVA of a primary and of its lock go together.
TEST_F(CpuWindowTest, APrimaryIsLockedWithWhatItWasMadeFor) {
  DXGKIT_COVERS("ALLOC-54", "ALLOC-17");
  windowed({}, [](Stack& stack, Swizzler& driver, Client& client) {
    D3DKMT_HANDLE plain = 0, alternate = 0, both_kinds = 0;
    ASSERT_EQ(create_primary(client, kAperture, &plain), 0);
    ASSERT_EQ(create_primary(client, kVisible, &both_kinds), 0);
    ASSERT_EQ(
        create_primary(client, kVisible | kAperture, &alternate, kCpuVisible | kUseAlternateVaFlag),
        0);
    place(stack, client, plain);
    const uint64_t offset = place(stack, client, alternate);
    const auto refused = [&](D3DKMT_HANDLE handle, UINT flags) {
      const Digest before = digest(stack, {&client});
      D3DKMT_LOCK args = lock_args(handle, flags);
      EXPECT_EQ(lock(client, args), kInvalid) << flags;
      EXPECT_EQ(digest(stack, {&client}), before);
    };
    refused(both_kinds, kAcquireAperture | kUseAlternateVa);
    refused(alternate, 0);
    refused(alternate, kAcquireAperture);
    void* address = nullptr;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.lock(alternate, &address), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    D3DKMT_LOCK args = lock_args(alternate, kAcquireAperture | kUseAlternateVa);
    ASSERT_EQ(lock(client, args), 0);
    ASSERT_EQ(driver.acquired.size(), 1U);
    EXPECT_EQ(driver.acquired[0].SegmentId, 3U);
    EXPECT_EQ(driver.acquired[0].CPUTranslatedAddress.QuadPart, 0)
        << "with an alternate address the segment's, at " << offset << ", is not read";
    EXPECT_EQ(unlock(client, {alternate}), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What a screen shows has one place: Discard gives no other instance of it.
TEST_F(CpuWindowTest, APrimaryIsNotRenamed) {
  DXGKIT_COVERS("ALLOC-39");
  windowed({}, [](Stack& stack, Swizzler&, Client& client) {
    D3DKMT_HANDLE primary = 0;
    ASSERT_EQ(create_primary(client, kVisible, &primary, kCpuVisible, 1), 0);
    const D3DKMT_HANDLE plain = client.make_allocation(described(kVisible));
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({primary, plain})), 0);
    stack.drive();
    use(stack, client, context, primary);
    use(stack, client, context, plain);
    D3DKMT_LOCK args = lock_args(primary, kDiscard | kDonotWait);
    EXPECT_EQ(lock_now(client, args), kBusy);
    EXPECT_EQ(args.hAllocation, primary);
    args = lock_args(plain, kDiscard | kDonotWait);
    EXPECT_EQ(lock_now(client, args), 0);
    EXPECT_NE(args.hAllocation, plain);
    EXPECT_EQ(unlock(client, {args.hAllocation}), 0);
    stack.drive();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// On the screen it cannot leave: no range, no lock, and nobody waits for one.
TEST_F(CpuWindowTest, APrimaryOnTheScreenIsNotLockedWithoutARange) {
  DXGKIT_COVERS("ALLOC-53");
  bare([](Stack& stack) {
    FlipDriver screen(stack);
    Swizzler driver(stack);
    screen.more_table = [](DRIVER_INITIALIZATION_DATA& table) { Swizzler::lend_entries(table); };
    const auto caps = stack.miniport.config.caps;
    stack.miniport.config.caps = [caps](DXGK_DRIVERCAPS& out) {
      caps(out);
      out.NumberOfSwizzlingRanges = 1;
    };
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, screen, 0, false);
      client.primaries.resize(2);
      for (D3DKMT_HANDLE& primary : client.primaries) {
        ASSERT_EQ(create_primary(client, kVisible | kAperture, &primary, kCpuVisible, 1), 0);
        ASSERT_EQ(client.render(client.context, work_on({primary})), 0);
        stack.drive();
      }
      client.show();
      driver.answer = static_cast<NTSTATUS>(0xC01E0108);
      const uint64_t out = stack.statistics().page_outs;
      D3DKMT_LOCK args = lock_args(client.primaries[0], kAcquireAperture);
      EXPECT_EQ(lock(client, args), kCantEvict);
      EXPECT_EQ(stack.statistics().page_outs, out);
      args = lock_args(client.primaries[1], kAcquireAperture);
      EXPECT_EQ(lock(client, args), 0) << "the other one can leave";
      EXPECT_EQ(stack.statistics().page_outs, out + 1);
      EXPECT_EQ(unlock(client, {client.primaries[1]}), 0);
    }
  });
}

// From WDDM 2.0 on the driver is told through the host aperture, and without one nothing is read
// (G-34).
TEST_F(CpuWindowTest, InTheSecondModelTheHostApertureShowsAPrimaryInAnAperture) {
  DXGKIT_COVERS("SEG-20", "SEG-21");
  for (const bool host : {true, false}) {
    SCOPED_TRACE(host);
    bare([&](Stack& stack) {
      stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      FlipDriver screen(stack);
      Swizzler driver(stack);
      screen.more_table = [](DRIVER_INITIALIZATION_DATA& table) {
        HostAperture::lend_entries(table);
        Swizzler::lend_entries(table);
      };
      dxgkit::testing::ScriptedSegment& aperture = stack.miniport.config.segments[2];
      aperture.flags.CpuVisible = 1;
      aperture.cpu_translated_address = driver.bar() + kSegmentOffset;
      if (host) HostAperture::of_segment(stack.miniport, 2, kSegmentOffset);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        Client client(stack);
        HostAperture::mapped.clear();  // the start has tried it (LIFE-15)
        HostAperture::unmapped.clear();
        const auto made = [&](uint64_t pages, bool primary) {
          ScriptedAllocation data = described(kAperture, kCpuVisible | kAccessedPhysically);
          data.size = pages * kPageBytes;
          D3DDDI_ALLOCATIONINFO info{};
          info.pPrivateDriverData = &data;
          info.PrivateDriverDataSize = sizeof data;
          info.Flags.Primary = primary ? 1 : 0;
          D3DKMT_CREATEALLOCATION create{};
          create.hDevice = client.device;
          create.NumAllocations = 1;
          create.pAllocationInfo = &info;
          EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
          stack.blocking([&] {
            auto exercise = dxgk::Exercise::on(*stack.system, stack.luid);
            const auto placed = exercise->memory().page_in(*client.process, info.hAllocation);
            ASSERT_TRUE(placed.has_value());
            EXPECT_EQ(placed->segment.value, 3U);
          });
          return info.hAllocation;
        };
        static_cast<void>(made(5, false));
        const D3DKMT_HANDLE other = made(1, true), primary = made(3, true);
        void* address = nullptr;
        ASSERT_EQ(client.lock(other, &address), 0);
        ASSERT_EQ(client.lock(primary, &address), 0);
        std::memcpy(static_cast<char*>(address) + 2 * kPageBytes, "in its window", 14);
        if (host) {
          ASSERT_EQ(HostAperture::mapped.size(), 2U);
          EXPECT_THAT(HostAperture::mapped[1], ::testing::ElementsAre(3, 1, 6, 2, 7, 3, 8));
          EXPECT_EQ(driver.text_at(driver.bar() + kSegmentOffset + 3 * kPageBytes),
                    "in its window");
        } else {
          EXPECT_EQ(driver.text_at(driver.bar() + kSegmentOffset + 8 * kPageBytes), "");
        }
        EXPECT_EQ(client.unlock(primary), 0);
        EXPECT_EQ(client.unlock(other), 0);
        EXPECT_EQ(HostAperture::unmapped.size(), host ? 2U : 0U);
        EXPECT_TRUE(driver.acquired.empty());
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      }
      stack.miniport.hooks = {};
    });
  }
}

/// What the adapter verifier may and may not move out for a lock, although the CPU could see it.
struct ForcedLock {
  const char* sentence;
  uint32_t segments;
  uint32_t info_flags;
  UINT flags;
  bool primary = false, locked_elsewhere = false;
  bool leaves = false;
};
class ForcedLocks : public CpuWindowTest, public ::testing::WithParamInterface<ForcedLock> {};
TEST_P(ForcedLocks, MoveOnlyWhatMayLeave) {
  DXGKIT_COVERS("REND-28", "ALLOC-41");
  const ForcedLock& row = GetParam();
  Setup setup;
  setup.verifier.set(dxgk::VerifierSwitch::kForceComplexLock);
  windowed(setup, [&](Stack& stack, Swizzler&, Client& client) {
    ScriptedAllocation data = described(row.segments, row.info_flags);
    D3DDDI_ALLOCATIONINFO info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    info.Flags.Primary = row.primary ? 1 : 0;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 1;
    create.pAllocationInfo = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = row.locked_elsewhere ? 1 : 0;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({info.hAllocation})), 0);
    stack.drive();
    ASSERT_EQ(stack.miniport.calls().patches.back().allocations.at(0).segment(), 1U);
    D3DKMT_HANDLE handle = info.hAllocation;
    if (row.locked_elsewhere) {
      D3DKMT_LOCK first = lock_args(handle, kDonotEvict);
      ASSERT_EQ(lock(client, first), 0);
      D3DDDI_OPENALLOCATIONINFO opened{};
      std::array<std::byte, sizeof data> total{};
      D3DKMT_OPENRESOURCE open{};
      open.hDevice = client.device;
      open.hGlobalShare = create.hGlobalShare;
      open.NumAllocations = 1;
      open.pOpenAllocationInfo = &opened;
      open.pTotalPrivateDriverDataBuffer = total.data();
      open.TotalPrivateDriverDataBufferSize = sizeof total;
      ASSERT_EQ(client.call([&] { return D3DKMTOpenResource(&open); }), 0);
      handle = opened.hAllocation;
    }
    const uint64_t before = stack.statistics().page_outs;
    D3DKMT_LOCK args = lock_args(handle, row.flags);
    EXPECT_EQ(lock(client, args), 0);
    EXPECT_EQ(stack.statistics().page_outs - before, row.leaves ? 1U : 0U);
    EXPECT_EQ(unlock(client, {handle}), 0);
    if (row.locked_elsewhere) {
      EXPECT_EQ(unlock(client, {info.hAllocation}), 0);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}
constexpr ForcedLock kForcedLocks[] = {
    {.sentence = "MayLeave",
     .segments = kVisible | kAperture,
     .info_flags = kCpuVisible,
     .flags = 0,
     .leaves = true},
    {.sentence = "ToldToStay",
     .segments = kVisible | kAperture,
     .info_flags = kCpuVisible,
     .flags = kDonotEvict},
    {.sentence = "NowhereElseToShow", .segments = kVisible, .info_flags = kCpuVisible, .flags = 0},
    {.sentence = "APrimary",
     .segments = kVisible | kAperture,
     .info_flags = kCpuVisible,
     .flags = 0,
     .primary = true},
    {.sentence = "ForAnOverlay",
     .segments = kVisible | kAperture,
     .info_flags = kCpuVisible | kForOverlay,
     .flags = 0},
    {.sentence = "LockedElsewhere",
     .segments = kVisible | kAperture,
     .info_flags = kCpuVisible,
     .flags = 0,
     .locked_elsewhere = true},
};
INSTANTIATE_TEST_SUITE_P(Rows, ForcedLocks, ::testing::ValuesIn(kForcedLocks),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(CpuWindowTest, ASharedAllocationHasNoAlternateAddress) {
  DXGKIT_COVERS("ALLOC-54");
  windowed({}, [](Stack& stack, Swizzler&, Client& client) {
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
    D3DKMT_LOCK args = lock_args(info.hAllocation, kAcquireAperture | kUseAlternateVa);
    EXPECT_EQ(lock(client, args), kInvalid);
    args = lock_args(info.hAllocation, kAcquireAperture);
    EXPECT_EQ(lock(client, args), 0);
    EXPECT_EQ(unlock(client, {info.hAllocation}), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
