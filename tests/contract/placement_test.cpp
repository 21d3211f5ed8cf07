// What a driver may say of an allocation's flags, and where that puts it.
#include <cstring>

#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "tests/contract/memory_fixture.h"

namespace dxgkit::contract {
namespace {

using PlacementTest = ContractTest;

constexpr uint32_t kOverlay = 1U << 8, kCapture = 1U << 9, kAccessedPhysically = 1U << 15,
                   kExplicitResidency = 1U << 16;

ScriptedAllocation described(uint64_t size, uint32_t segments, uint32_t flags = 0) {
  ScriptedAllocation description;
  description.size = size;
  description.supported_read = description.supported_write = segments;
  description.flags = flags;
  return description;
}

TEST_F(PlacementTest, ExplicitResidencyNotificationNeedsAccessedPhysically) {
  DXGKIT_COVERS("ALLOC-18");
  with_client(
      [](Stack& stack, Client& client) {
        const Digest before = digest(stack, {&client});
        D3DKMT_HANDLE handle = 0;
        EXPECT_EQ(client.create_allocation(described(4096, kHidden, kExplicitResidency), &handle),
                  nt_status(Status::kInvalidParameter));
        EXPECT_EQ(handle, 0U);
        EXPECT_EQ(stack.only_finding().rule, "ALLOC-18");
        EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
        const Digest after = digest(stack, {&client});
        EXPECT_EQ(after.handles, before.handles);
        EXPECT_EQ(after.driver_objects, before.driver_objects);
        EXPECT_EQ(after.free_pages, before.free_pages);
        EXPECT_EQ(client.create_allocation(
                      described(4096, kHidden, kExplicitResidency | kAccessedPhysically), &handle),
                  0);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

TEST_F(PlacementTest, AccessedPhysicallyMeansOneRangeInMemoryAndAMappingInTheAperture) {
  DXGKIT_COVERS("ALLOC-19");
  with_client(
      [](Stack& stack, Client& client) {
        MemoryGpu gpu(stack);
        const D3DKMT_HANDLE local =
            client.make_allocation(described(64 * kKibibyte, kHidden, kAccessedPhysically));
        const uint64_t place = address_after_page_in(stack, client, local);
        EXPECT_EQ(place % 4096, 0U);
        EXPECT_GE(place, kHiddenBase);
        const auto fill = stack.miniport.calls().paging.at(0);
        EXPECT_EQ(fill.args.Fill.FillSize, 64 * kKibibyte) << "one range";
        const D3DKMT_HANDLE system =
            client.make_allocation(described(64 * kKibibyte, kAperture, kAccessedPhysically));
        for (int round = 0; round < 2; ++round) {
          const uint64_t shown = address_after_page_in(stack, client, system);
          EXPECT_GE(shown, kApertureBase);
          for (uint64_t page = 0; page < 16; ++page)
            EXPECT_NE(gpu.at(shown + page * 4096), nullptr) << "mapped, page by page";
          EXPECT_EQ(count(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT),
                    static_cast<size_t>(round + 1));
          stack.blocking([&] {
            EXPECT_EQ(dxgk::Exercise::on(*stack.system, stack.luid)
                          ->memory()
                          .page_out(*client.process, system),
                      Status::kSuccess);
          });
        }
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

class OverlayTest : public ContractTest, public ::testing::WithParamInterface<uint32_t> {};
TEST_P(OverlayTest, StaysInTheLastFifthOfItsSegmentUntilTheAdapterStops) {
  DXGKIT_COVERS("ALLOC-49");
  with_client(
      [](Stack& stack, Client& client) {
        MemoryGpu gpu(stack);
        ContextBuffers context = client.make_context();
        // Fill everything first: who is in the last fifth has to leave for it.
        const D3DKMT_HANDLE all = client.make_allocation(kMebibyte, kHidden);
        static_cast<void>(address_after_render(stack, client, context, all));
        const D3DKMT_HANDLE overlay =
            client.make_allocation(described(128 * kKibibyte, kHidden, GetParam()));
        const uint64_t place = address_after_render(stack, client, context, overlay);
        EXPECT_GE(place - kHiddenBase, kMebibyte - kMebibyte / 5);
        *gpu.at(place) = std::byte{0x42};
        // Nobody moves it, however tight memory is.
        for (int i = 0; i < 4; ++i) {
          static_cast<void>(address_after_render(stack, client, context,
                                                 client.make_allocation(600 * kKibibyte, kHidden)));
          EXPECT_EQ(stack.adapter().core().memory().usage(SegmentId{2}).committed_bytes,
                    728 * kKibibyte);
        }
        EXPECT_EQ(address_after_render(stack, client, context, overlay), place);
        EXPECT_EQ(*gpu.at(place), std::byte{0x42});
        D3DKMT_HANDLE large = 0;
        EXPECT_EQ(client.create_allocation(described(256 * kKibibyte, kHidden, GetParam()), &large),
                  nt_status(Status::kInvalidParameter))
            << "more than a fifth of the segment";
        // Level three: everybody leaves, content included.
        stack.blocking([&] {
          EXPECT_EQ(dxgk::Exercise::on(*stack.system, stack.luid)->power_cycle(), Status::kSuccess);
        });
        EXPECT_EQ(stack.adapter().core().memory().usage(SegmentId{2}).committed_bytes, 0U);
        EXPECT_EQ(*gpu.at(address_after_render(stack, client, context, overlay)), std::byte{0x42});
        // And so when the adapter stops, before the driver is told of anybody's end.
        stack.miniport.clear_calls();
        stack.blocking(
            [&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
        size_t out = 0;
        for (const testing::PagingCall& call : stack.miniport.calls().paging) {
          if (call.args.Operation == DXGK_OPERATION_TRANSFER &&
              call.args.Transfer.Source.SegmentId == 2)
            ++out;
        }
        EXPECT_EQ(out, 1U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; });
}
INSTANTIATE_TEST_SUITE_P(Rows, OverlayTest, ::testing::Values(kOverlay, kCapture));

// --- primaries ---

struct PrimaryRow {
  const char* sentence;
  uint32_t flags;
  uint32_t segments;
  bool non_cpu_visible_primary;
  bool accepted;
};
class PrimaryTest : public ContractTest, public ::testing::WithParamInterface<PrimaryRow> {};
TEST_P(PrimaryTest, IsCreatedOrRefused) {
  DXGKIT_COVERS("ALLOC-16");
  with_client(
      [](Stack& stack, Client& client) {
        ScriptedAllocation data = described(4096, GetParam().segments, GetParam().flags);
        // As the display makes them: no client function does.
        dxgk::AllocationRequest request;
        request.private_data = std::as_writable_bytes(std::span(&data, 1));
        request.vidpn_source = 0;
        request.primary = true;
        dxgk::CreateOptions options;
        const Digest before = digest(stack, {&client});
        Status made = Status::kSuccess;
        client.as_client([&] {
          const auto device = client.process->handles().find<dxgk::Device>(client.device);
          ASSERT_TRUE(device.has_value());
          made = (*device)->memory().create_allocations(std::span(&request, 1), options);
        });
        const NTSTATUS status = nt_status(made);
        if (GetParam().accepted) {
          EXPECT_EQ(status, 0) << ::testing::PrintToString(stack.rules());
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          return;
        }
        EXPECT_EQ(status, nt_status(Status::kInvalidParameter));
        EXPECT_EQ(stack.only_finding().rule, "ALLOC-16");
        EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
        const Digest after = digest(stack, {&client});
        EXPECT_EQ(after.handles, before.handles);
        EXPECT_EQ(after.driver_objects, before.driver_objects);
        EXPECT_EQ(after.free_pages, before.free_pages);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) {
          caps.MemoryManagementCaps.NonCpuVisiblePrimary =
              GetParam().non_cpu_visible_primary ? 1 : 0;
        };
      });
}
const PrimaryRow kPrimaries[] = {
    {"InVisibleMemoryOrTheAperture", 1, 1U << 0 | 1U << 2, false, true},
    {"PermanentSysMem", 1U | 1U << 1, 1, false, false},
    {"Cached", 1U | 1U << 2, 1, false, false},
    {"Protected", 1U << 3, 1, false, false},
    {"ExistingSysMem", 1U << 4, 1, false, false},
    {"ExistingKernelSysMem", 1U << 5, 1, false, false},
    {"WriteSetWithHiddenMemory", 1, 1U << 0 | 1U << 1, false, false},
    {"HiddenMemoryWhereTheDriverAllowsIt", 0, 1U << 1, true, true},
};
INSTANTIATE_TEST_SUITE_P(Rows, PrimaryTest, ::testing::ValuesIn(kPrimaries),
                         [](const auto& row) { return std::string(row.param.sentence); });

// --- private data ---

TEST_F(PlacementTest, OpeningMayChangeAllocationDataAtCreationAndResourceDataNever) {
  DXGKIT_COVERS("ALLOC-24");
  for (const bool resource_data : {false, true}) {
    with_client([&](Stack& stack, Client& client) {
      stack.miniport.hooks.open_allocation = [&](void* device, const DXGKARG_OPENALLOCATION* args) {
        EXPECT_EQ(args->Flags.Create, 1U);
        if (resource_data) {
          static_cast<std::byte*>(const_cast<void*>(
              static_cast<const void*>(args->pPrivateDriverData)))[3] = std::byte{0xEE};
        } else {
          static_cast<std::byte*>(args->pOpenAllocation[0].pPrivateDriverData)[1] = std::byte{0xEE};
        }
        return stack.miniport.default_open_allocation(device, args);
      };
      std::array<std::byte, 16> shared{};
      ScriptedAllocation data = described(4096, kHidden);
      D3DDDI_ALLOCATIONINFO info{};
      info.pPrivateDriverData = &data;
      info.PrivateDriverDataSize = sizeof data;
      D3DKMT_CREATEALLOCATION create{};
      create.hDevice = client.device;
      create.NumAllocations = 1;
      create.pAllocationInfo = &info;
      create.pPrivateDriverData = shared.data();
      create.PrivateDriverDataSize = sizeof shared;
      create.Flags.CreateResource = 1;
      EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
      if (!resource_data) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        return;
      }
      EXPECT_EQ(stack.only_finding().rule, "ALLOC-24");
      EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
      EXPECT_EQ(shared, (std::array<std::byte, 16>{})) << "the caller sees none of it";
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
