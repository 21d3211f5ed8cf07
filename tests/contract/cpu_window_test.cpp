// What the CPU sees of a primary in an aperture segment: the one exception for CpuTranslatedAddress.
#include <cstring>
#include <string>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/adapter/exercise.h"
#include "tests/contract/flip_fixture.h"
#include "tests/contract/lock_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSegmentOffset = 16 * kMebibyte;  // of the aperture's CPU address in the BAR
constexpr uint64_t kApertureBase = 0x4'0000'0000, kSize = 16 * kKibibyte;
constexpr uint32_t kUseAlternateVaFlag = 1U << 10;  // DXGK_ALLOCATIONINFOFLAGS

class CpuWindowTest : public ContractTest {
 protected:
  struct Setup {
    bool aperture_visible = true;
    UINT ranges = 3;
    bool entries = true;
    uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM1_3;
    std::function<void(ScriptedMiniport&)> more;
  };
  /// A driver with a screen, whose aperture segment has a CPU address, and a client.
  static void windowed(const Setup& setup,
                       const std::function<void(Stack&, Swizzler&, Client&)>& body) {
    bare([&](Stack& stack) {
      stack.miniport.config.version = setup.version;
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
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        Client client(stack);
        body(stack, driver, client);
      }
      stack.miniport.hooks = {};
    });
  }
  static NTSTATUS create_primary(Client& client, uint32_t segments, uint32_t flags,
                                 D3DKMT_HANDLE* out) {
    ScriptedAllocation data = described(segments, flags);
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
  /// In the aperture segment, not at its start. Answers the offset.
  static uint64_t place(Stack& stack, Client& client, D3DKMT_HANDLE handle) {
    if (stack.miniport.config.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_0) {
      auto exercise = dxgk::Exercise::on(*stack.system, stack.luid);
      uint64_t offset = 0;
      stack.blocking([&] {
        const D3DKMT_HANDLE before = client.make_allocation(5 * kPageBytes, kAperture);
        EXPECT_TRUE(exercise->page_in(*client.process, before).has_value());
        const auto placed = exercise->page_in(*client.process, handle);
        ASSERT_TRUE(placed.has_value());
        offset = placed->offset_bytes;
      });
      return offset;
    }
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE before = client.make_allocation(5 * kPageBytes, kAperture);
    EXPECT_EQ(client.render(context, work_on({before})), 0);
    EXPECT_EQ(client.render(context, work_on({handle})), 0);
    stack.drive();
    const auto entry = stack.miniport.calls().patches.back().allocations.at(0);
    EXPECT_EQ(entry.segment(), 3U);
    return entry.physical_address - kApertureBase;
  }
  static void page_out(Stack& stack, Client& client, D3DKMT_HANDLE handle) {
    auto exercise = dxgk::Exercise::on(*stack.system, stack.luid);
    stack.blocking([&] { EXPECT_EQ(exercise->page_out(*client.process, handle), Status::kSuccess); });
  }
};

TEST_F(CpuWindowTest, APrimaryInAVisibleApertureIsSeenAtTheSegmentsAddress) {
  DXGKIT_COVERS("SEG-20", "SEG-21");
  for (const UINT flags : {UINT{0}, kAcquireAperture}) {
    SCOPED_TRACE(flags);
    windowed({}, [&](Stack& stack, Swizzler& driver, Client& client) {
      // So that the primary's range is not the first one.
      D3DKMT_HANDLE other = 0, primary = 0;
      ASSERT_EQ(create_primary(client, kVisible | kAperture, kCpuVisible, &other), 0);
      ASSERT_EQ(create_primary(client, kAperture | kHidden, kCpuVisible, &primary), 0);
      const bool only_aperture = flags == 0;  // AcquireAperture asks for a memory segment beside
      if (only_aperture)
        ASSERT_EQ(create_primary(client, kAperture, kCpuVisible, &primary), 0);
      (void)other;
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
