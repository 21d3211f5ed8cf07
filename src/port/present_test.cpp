// The arguments of DxgkDdiPresent, source addresses, vertical sync and the caps of a screen, member
// by member.
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "port/port_world_test.h"
#include "trace/trace.h"

namespace dxgkit::port {
namespace {

void* pointer(uintptr_t value) { return reinterpret_cast<void*>(value); }

/// The arguments of the driver's calls; one world at a time.
struct Told {
  HANDLE context = nullptr;
  DXGKARG_PRESENT present{};
  std::vector<RECT> sub_rects;
  std::vector<DXGK_PRESENTALLOCATIONINFO> surfaces;
  std::optional<DXGKARG_CONTROLINTERRUPT3> control3;
  std::optional<DXGKARG_CONTROLINTERRUPT2> control2;
  std::optional<BOOLEAN> control;
  std::vector<DXGKARG_SETVIDPNSOURCEADDRESS> addresses;
  UINT patches_written = 0;
  NTSTATUS answer = STATUS_SUCCESS;
};
Told* told = nullptr;

NTSTATUS NTAPI present(const HANDLE context, DXGKARG_PRESENT* args) {
  told->context = context;
  told->present = *args;
  for (UINT i = 0; i < args->SubRectCnt; ++i) told->sub_rects.push_back(args->pDstSubRects[i]);
  const UINT surfaces = args->NumSrcAllocations + args->NumDstAllocations;
  for (UINT i = 0; i < surfaces; ++i) told->surfaces.push_back(args->pAllocationInfo[i]);
  args->pPatchLocationListOut += told->patches_written;
  args->MultipassOffset += 1;
  return told->answer;
}

class PresentTest : public ::testing::Test {
 protected:
  static void running(uint32_t version, const std::function<void(PortWorld&)>& body,
                      const std::function<void(DRIVER_INITIALIZATION_DATA&)>& table = nullptr) {
    runtime::make_sim_runtime(1)->run_main([&] {
      Told here;
      told = &here;
      PortWorld world;
      world.miniport.config.version = version;
      world.miniport.config.table = [&](DRIVER_INITIALIZATION_DATA& entries) {
        entries.DxgkDdiPresent = present;
        entries.DxgkDdiSetVidPnSourceAddress = [](const HANDLE,
                                                  const DXGKARG_SETVIDPNSOURCEADDRESS* args) NTAPI {
          told->addresses.push_back(*args);
          return STATUS_SUCCESS;
        };
        if (table) table(entries);
      };
      world.start();
      if (!HasFatalFailure()) body(world);
      world.stop();
      told = nullptr;
    });
  }
};

TEST_F(PresentTest, CarriesEachMember) {
  running(DXGKDDI_INTERFACE_VERSION_WDDM2_0, [](PortWorld& world) {
    std::array<std::byte, 512> dma{}, private_area{};
    std::array<std::byte, 24> caller{};
    std::array<AllocationListEntry, 3> allocations{};
    std::array<PatchLocation, 4> patches{};
    const std::array<Rect, 2> sub_rects = {Rect{1, 2, 3, 4}, Rect{5, 6, 7, 8}};
    PresentArgs args;
    args.context = pointer(0x1110);
    args.buffer = {.segment = SegmentId{3},
                   .physical_address = 0x2220,
                   .cpu = dma.data(),
                   .size_bytes = 512,
                   .private_data = private_area.data(),
                   .private_size_bytes = 96};
    args.allocations = allocations.data();
    args.patches_out = patches.data();
    args.patches_out_capacity = 4;
    args.multipass_offset = 77;
    args.color = 0x11223344;
    args.destination = {11, 12, 13, 14};
    args.source = {21, 22, 23, 24};
    args.sub_rects = sub_rects;
    args.flip_interval = 3;
    args.source_count = 1;  // counts with surfaces only
    args.private_data = caller;
    const RenderResult result = world.adapter->rendering().present(args);
    EXPECT_EQ(result.status, Status::kSuccess);
    EXPECT_EQ(result.multipass_offset, 78U);
    EXPECT_EQ(told->context, pointer(0x1110));
    const DXGKARG_PRESENT& seen = told->present;
    EXPECT_EQ(seen.pDmaBuffer, dma.data());
    EXPECT_EQ(seen.DmaSize, 512U);
    EXPECT_EQ(seen.pDmaBufferPrivateData, private_area.data());
    EXPECT_EQ(seen.DmaBufferPrivateDataSize, 96U);
    EXPECT_EQ(seen.DmaBufferSegmentId, 3U);
    EXPECT_EQ(seen.DmaBufferPhysicalAddress.QuadPart, 0x2220);
    EXPECT_EQ(static_cast<void*>(seen.pAllocationList), allocations.data());
    EXPECT_EQ(static_cast<void*>(seen.pPatchLocationListOut), patches.data());
    EXPECT_EQ(seen.PatchLocationListOutSize, 4U);
    EXPECT_EQ(seen.MultipassOffset, 77U);
    EXPECT_EQ(seen.Color, 0x11223344U);
    EXPECT_EQ(seen.DstRect.left, 11);
    EXPECT_EQ(seen.DstRect.top, 12);
    EXPECT_EQ(seen.DstRect.right, 13);
    EXPECT_EQ(seen.DstRect.bottom, 14);
    EXPECT_EQ(seen.SrcRect.left, 21);
    EXPECT_EQ(seen.SrcRect.bottom, 24);
    ASSERT_EQ(told->sub_rects.size(), 2U);
    EXPECT_EQ(told->sub_rects[1].left, 5);
    EXPECT_EQ(told->sub_rects[1].top, 6);
    EXPECT_EQ(told->sub_rects[1].right, 7);
    EXPECT_EQ(told->sub_rects[1].bottom, 8);
    EXPECT_EQ(static_cast<uint32_t>(seen.FlipInterval), 3U);
    EXPECT_EQ(seen.NumSrcAllocations, 1U);
    EXPECT_EQ(seen.NumDstAllocations, 0U);
    EXPECT_EQ(seen.pPrivateDriverData, caller.data());
    EXPECT_EQ(seen.PrivateDriverDataSize, 24U);
    EXPECT_EQ(seen.Flags.Value, 0U);
  });
}

TEST_F(PresentTest, CarriesEachFlagAlone) {
  running(DXGKDDI_INTERFACE_VERSION_WDDM2_0, [](PortWorld& world) {
    const auto flags = [&](void (*set)(PresentFlags&)) {
      PresentArgs args;
      set(args.flags);
      EXPECT_EQ(world.adapter->rendering().present(args).status, Status::kSuccess);
      return told->present.Flags;
    };
    const auto only = [](const DXGK_PRESENTFLAGS& one) { return std::popcount(one.Value); };
#define DXGKIT_FLAG(ours, theirs)                                                         \
  {                                                                                       \
    const DXGK_PRESENTFLAGS seen = flags([](PresentFlags& value) { value.ours = true; }); \
    EXPECT_EQ(seen.theirs, 1U) << #ours;                                                  \
    EXPECT_EQ(only(seen), 1) << #ours;                                                    \
  }
    DXGKIT_FLAG(blt, Blt)
    DXGKIT_FLAG(color_fill, ColorFill)
    DXGKIT_FLAG(flip, Flip)
    DXGKIT_FLAG(flip_with_no_wait, FlipWithNoWait)
    DXGKIT_FLAG(source_key, SrcColorKey)
    DXGKIT_FLAG(destination_key, DstColorKey)
    DXGKIT_FLAG(linear_to_srgb, LinearToSrgb)
    DXGKIT_FLAG(rotate, Rotate)
#undef DXGKIT_FLAG
  });
}

TEST_F(PresentTest, CarriesSurfacesOfVirtualAddressing) {
  running(DXGKDDI_INTERFACE_VERSION_WDDM2_0, [](PortWorld& world) {
    const std::array<PresentSurface, 3> surfaces = {
        PresentSurface{pointer(0x10), 0x1'0000'1000, 0x2'0000'2000, 3},
        PresentSurface{pointer(0x20), 0x1'0000'3000, 0x2'0000'4000, 4},
        PresentSurface{pointer(0x30), 0, 0x2'0000'6000, 5}};
    PresentArgs args;
    args.surfaces = surfaces;
    args.source_count = 2;
    args.buffer.size_bytes = 512;  // of no buffer
    EXPECT_EQ(world.adapter->rendering().present(args).status, Status::kSuccess);
    EXPECT_EQ(told->present.pDmaBuffer, nullptr);
    EXPECT_EQ(told->present.DmaSize, 0U);
    EXPECT_EQ(told->present.pDstSubRects, nullptr);
    EXPECT_EQ(told->present.pPrivateDriverData, nullptr);
    EXPECT_EQ(told->present.NumSrcAllocations, 2U);
    EXPECT_EQ(told->present.NumDstAllocations, 1U);
    ASSERT_EQ(told->surfaces.size(), 3U);
    for (size_t i = 0; i < surfaces.size(); ++i) {
      EXPECT_EQ(told->surfaces[i].hDeviceSpecificAllocation, surfaces[i].device_specific);
      EXPECT_EQ(told->surfaces[i].AllocationVirtualAddress, surfaces[i].virtual_address);
      EXPECT_EQ(static_cast<uint64_t>(told->surfaces[i].PhysicalAddress.QuadPart),
                surfaces[i].physical_address);
      EXPECT_EQ(told->surfaces[i].SegmentId, surfaces[i].segment);
    }
  });
}

// The patch list may be filled to its last element, and is overrun one element later.
TEST_F(PresentTest, MeasuresThePatchListInElements) {
  for (const UINT written : {3U, 4U, 5U}) {
    running(DXGKDDI_INTERFACE_VERSION_WDDM1_3, [&](PortWorld& world) {
      std::array<std::byte, 512> dma{};
      std::array<PatchLocation, 8> patches{};
      PresentArgs args;
      args.buffer.cpu = dma.data();
      args.buffer.size_bytes = 512;
      args.patches_out = patches.data();
      args.patches_out_capacity = 4;
      told->patches_written = written;
      const RenderResult result = world.adapter->rendering().present(args);
      EXPECT_EQ(world.findings.total(), written <= 4 ? 0U : 1U) << world.findings_text();
      if (written <= 4) {
        EXPECT_EQ(result.status, Status::kSuccess);
        EXPECT_EQ(result.patch_count, written);
      } else {
        EXPECT_NE(result.status, Status::kSuccess);
      }
    });
  }
}

// A driver that writes behind its buffer is seen where the buffer has a guard, and not elsewhere.
TEST_F(PresentTest, SeesWhoWritesBehindTheBuffer) {
  static bool writes_private = false;
  for (uint32_t bits = 0; bits < 16; ++bits) {
    SCOPED_TRACE(bits);
    const bool guarded = (bits & 1) != 0, private_guarded = (bits & 2) != 0,
               checks = (bits & 4) != 0;
    writes_private = (bits & 8) != 0;
    const bool seen = checks && (writes_private ? private_guarded : guarded);
    running(
        DXGKDDI_INTERFACE_VERSION_WDDM1_3,
        [&](PortWorld& world) {
          world.adapter->set_reference_checks(checks);
          std::vector<std::byte> dma(512 + kGuardBytes), private_data(48 + kGuardBytes);
          PresentArgs args;
          args.buffer.cpu = dma.data();
          args.buffer.size_bytes = 512;
          args.buffer.private_data = private_data.data();
          args.buffer.private_size_bytes = 48;
          args.buffer.guarded = guarded;
          args.buffer.private_guarded = private_guarded;
          const RenderResult result = world.adapter->rendering().present(args);
          EXPECT_EQ(world.findings.count("REND-08"), seen ? 1U : 0U);
          EXPECT_EQ(result.status, seen ? Status::kUnsuccessful : Status::kSuccess);
        },
        [](DRIVER_INITIALIZATION_DATA& table) {
          table.DxgkDdiPresent = [](const HANDLE, DXGKARG_PRESENT* args) NTAPI {
            if (writes_private) {
              static_cast<std::byte*>(args->pDmaBufferPrivateData)[args->DmaBufferPrivateDataSize] =
                  std::byte{0x77};
            } else {
              static_cast<std::byte*>(args->pDmaBuffer)[args->DmaSize] = std::byte{0x77};
            }
            return STATUS_SUCCESS;
          };
        });
  }
}

// A bug check's screen: what the driver says of it comes back, and what is written there goes
// whole.
TEST_F(PresentTest, TheScreenOfABugCheckIsCarriedWhole) {
  struct Call {
    uint32_t target, width, height, stride, x, y;
    void* pixels;
  };
  static Call call{};
  running(
      DXGKDDI_INTERFACE_VERSION_WDDM1_3,
      [&](PortWorld& world) {
        uint32_t width = 0, height = 0, format = 0;
        EXPECT_EQ(world.adapter->scanout().system_display_enable(7, &width, &height, &format),
                  Status::kSuccess);
        EXPECT_EQ(call.target, 7U);
        EXPECT_EQ(width, 11U);
        EXPECT_EQ(height, 12U);
        EXPECT_EQ(format, 13U);
        const std::array<std::byte, 32> pixels{std::byte{0x5A}};
        EXPECT_EQ(world.adapter->scanout().system_display_write(pixels, 2, 3, 8, 4, 5),
                  Status::kSuccess);
        EXPECT_EQ(call.width, 2U);
        EXPECT_EQ(call.height, 3U);
        EXPECT_EQ(call.stride, 8U);
        EXPECT_EQ(call.x, 4U);
        EXPECT_EQ(call.y, 5U);
      },
      [](DRIVER_INITIALIZATION_DATA& table) {
        table.DxgkDdiSystemDisplayEnable = [](PVOID, D3DDDI_VIDEO_PRESENT_TARGET_ID target,
                                              PDXGKARG_SYSTEM_DISPLAY_ENABLE_FLAGS flags,
                                              UINT* width, UINT* height, D3DDDIFORMAT* format)
                                               NTAPI {
                                                 EXPECT_EQ(flags->Value, 0U);
                                                 call.target = target;
                                                 *width = 11;
                                                 *height = 12;
                                                 *format = static_cast<D3DDDIFORMAT>(13);
                                                 return STATUS_SUCCESS;
                                               };
        table.DxgkDdiSystemDisplayWrite = [](PVOID, PVOID pixels, UINT width, UINT height,
                                             UINT stride, UINT x, UINT y) NTAPI {
          EXPECT_EQ(*static_cast<std::byte*>(pixels), std::byte{0x5A});
          call = {call.target, width, height, stride, x, y, pixels};
        };
      });
}

TEST_F(PresentTest, SourceAddressesCarryTheirContexts) {
  running(DXGKDDI_INTERFACE_VERSION_WDDM1_3, [](PortWorld& world) {
    using Kind = SourceAddressArgs::Kind;
    const std::array<void*, 2> contexts = {pointer(0x71), pointer(0x72)};
    for (const Kind kind : {Kind::kModeChange, Kind::kFlipImmediate, Kind::kFlipOnNextVsync}) {
      const SourceAddressArgs args = {.source = 2,
                                      .segment = 3,
                                      .address = 0x4'0000'5000,
                                      .allocation = pointer(0x60),
                                      .kind = kind,
                                      .contexts = contexts};
      if (kind == Kind::kModeChange) {
        world.adapter->levels().enter_level_two();
        EXPECT_EQ(world.adapter->scanout().set_source_address(args), Status::kSuccess);
        world.adapter->levels().leave_level_two();
      } else {
        EXPECT_EQ(world.adapter->scanout().flip(args), Status::kSuccess);
      }
      const DXGKARG_SETVIDPNSOURCEADDRESS& seen = told->addresses.back();
      EXPECT_EQ(seen.VidPnSourceId, 2U);
      EXPECT_EQ(seen.PrimarySegment, 3U);
      EXPECT_EQ(seen.PrimaryAddress.QuadPart, 0x4'0000'5000);
      EXPECT_EQ(seen.hAllocation, pointer(0x60));
      EXPECT_EQ(seen.Flags.ModeChange, kind == Kind::kModeChange ? 1U : 0U);
      EXPECT_EQ(seen.Flags.FlipImmediate, kind == Kind::kFlipImmediate ? 1U : 0U);
      EXPECT_EQ(seen.Flags.FlipOnNextVSync, kind == Kind::kFlipOnNextVsync ? 1U : 0U);
      EXPECT_EQ(seen.ContextCount, kind == Kind::kModeChange ? 0U : 2U);
      if (kind != Kind::kModeChange) {
        EXPECT_EQ(seen.Context[0], contexts[0]);
        EXPECT_EQ(seen.Context[1], contexts[1]);
      }
    }
  });
}

// Each of the three entries that switch vertical sync, the newest first; the trace says which way.
TEST_F(PresentTest, VerticalSyncIsSwitchedThroughTheNewestEntry) {
  struct Row {
    const char* entry;
    int newest;
  };
  for (const Row& row : {Row{"DxgkDdiControlInterrupt", 1}, Row{"DxgkDdiControlInterrupt2", 2},
                         Row{"DxgkDdiControlInterrupt3", 3}}) {
    for (const bool enabled : {true, false}) {
      running(
          DXGKDDI_INTERFACE_VERSION_WDDM2_9,
          [&](PortWorld& world) {
            trace::Recorder recorder(
                {.now_ns = [] { return int64_t{0}; }, .thread = [] { return 0U; }});
            trace::set_current(&recorder);
            world.adapter->levels().enter_level_two();
            EXPECT_EQ(world.adapter->scanout().control_vsync(5, enabled), Status::kSuccess);
            world.adapter->levels().leave_level_two();
            trace::set_current(nullptr);
            const DXGK_CRTC_VSYNC_STATE state =
                enabled ? DXGK_VSYNC_ENABLE : DXGK_VSYNC_DISABLE_NO_PHASE;
            ASSERT_EQ(told->control3.has_value(), row.newest == 3);
            ASSERT_EQ(told->control2.has_value(), row.newest == 2);
            ASSERT_EQ(told->control.has_value(), row.newest == 1);
            if (told->control3.has_value()) {
              EXPECT_EQ(told->control3->InterruptType, DXGK_INTERRUPT_CRTC_VSYNC);
              EXPECT_EQ(told->control3->CrtcVsyncState, state);
              EXPECT_EQ(told->control3->VidPnSourceId, 5U);
            }
            if (told->control2.has_value()) {
              EXPECT_EQ(told->control2->InterruptType, DXGK_INTERRUPT_CRTC_VSYNC);
              EXPECT_EQ(told->control2->CrtcVsyncState, state);
            }
            if (told->control.has_value()) {
              EXPECT_EQ(*told->control, enabled ? TRUE : FALSE);
            }
            const std::vector<std::string> names = recorder.names();
            size_t entered = 0;
            for (const trace::Event& event : recorder.events()) {
              if (event.kind != static_cast<uint16_t>(trace::EventKind::kDdiEnter)) continue;
              EXPECT_EQ(names.at(event.a), row.entry);
              EXPECT_EQ(event.c, enabled ? 1U : 0U);
              ++entered;
            }
            EXPECT_EQ(entered, 1U);
          },
          [&](DRIVER_INITIALIZATION_DATA& table) {
            table.DxgkDdiControlInterrupt = [](const HANDLE, const DXGK_INTERRUPT_TYPE,
                                               BOOLEAN enable) NTAPI {
              told->control = enable;
              return STATUS_SUCCESS;
            };
            if (row.newest >= 2) {
              table.DxgkDdiControlInterrupt2 = [](const HANDLE,
                                                  const DXGKARG_CONTROLINTERRUPT2 args) NTAPI {
                told->control2 = args;
                return STATUS_SUCCESS;
              };
            }
            if (row.newest >= 3) {
              table.DxgkDdiControlInterrupt3 = [](const HANDLE,
                                                  const DXGKARG_CONTROLINTERRUPT3* args) NTAPI {
                told->control3 = *args;
                return STATUS_SUCCESS;
              };
            }
          });
    }
  }
}

TEST_F(PresentTest, WhoAsksForAChildSaysWhetherTheScreenMayFlicker) {
  running(
      DXGKDDI_INTERFACE_VERSION_WDDM1_3,
      [](PortWorld& world) {
        for (const bool gently : {true, false}) {
          const Result<bool> plugged = world.adapter->children().query_child_status(7, gently);
          ASSERT_TRUE(plugged.has_value());
          EXPECT_EQ(*plugged, gently) << "the driver answers what it was told";
        }
      },
      [](DRIVER_INITIALIZATION_DATA& table) {
        table.DxgkDdiQueryChildStatus = [](void*, DXGK_CHILD_STATUS* status,
                                           BOOLEAN non_destructive_only) NTAPI {
          EXPECT_EQ(status->ChildUid, 7U);
          EXPECT_EQ(status->Type, StatusConnection);
          status->HotPlug.Connected = non_destructive_only;
          return STATUS_SUCCESS;
        };
      });
}

DriverCaps raw_caps(const std::function<void(DXGK_DRIVERCAPS&)>& set) {
  DXGK_DRIVERCAPS raw{};
  set(raw);
  DriverCaps caps;
  const auto* bytes = reinterpret_cast<const std::byte*>(&raw);
  caps.raw.assign(bytes, bytes + sizeof raw);
  return caps;
}

// A member is read from the version on that knows it.
TEST(ScreenCaps, AreReadByVersion) {
  const DriverCaps caps = raw_caps([](DXGK_DRIVERCAPS& raw) {
    raw.MaxPointerWidth = 21;
    raw.MaxPointerHeight = 22;
    raw.PointerCaps.Value = 5;
    raw.SupportNonVGA = TRUE;
    raw.SupportSmoothRotation = TRUE;
    raw.MiscCaps.ComputeOnly = 1;
  });
  struct Row {
    uint32_t version;
    bool non_vga, compute_only;
  };
  for (const Row& row : {Row{0x300D, false, false}, Row{0x300E, true, false},
                         Row{DXGKDDI_INTERFACE_VERSION_WDDM2_6 - 1, true, false},
                         Row{DXGKDDI_INTERFACE_VERSION_WDDM2_6, true, true}}) {
    const DisplayCaps seen = display_caps_of(caps, row.version);
    EXPECT_EQ(seen.max_pointer_width, 21U);
    EXPECT_EQ(seen.max_pointer_height, 22U);
    EXPECT_EQ(seen.pointer_flags, 5U);
    EXPECT_EQ(seen.support_non_vga, row.non_vga) << std::hex << row.version;
    EXPECT_EQ(seen.support_smooth_rotation, row.non_vga) << std::hex << row.version;
    EXPECT_EQ(seen.compute_only, row.compute_only) << std::hex << row.version;
  }
  const DisplayCaps none = display_caps_of({}, DXGKDDI_INTERFACE_VERSION_WDDM2_9);
  EXPECT_EQ(none.pointer_flags, 0U);
  EXPECT_FALSE(none.support_non_vga || none.support_smooth_rotation || none.compute_only);
}

TEST(ScreenCaps, OfFlipsAreEachTheirOwn) {
  using Change = void (*)(DXGK_DRIVERCAPS&);
  const auto flips = [](Change change, uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM2_9) {
    return flip_caps_of(raw_caps(change), version);
  };
  const FlipCaps none = flips([](DXGK_DRIVERCAPS&) {});
  EXPECT_FALSE(none.on_vsync_with_no_wait || none.on_vsync_mmio || none.interval ||
               none.immediate_mmio || none.vsync_power_save_aware || none.reports_preemption);
  EXPECT_EQ(none.max_queued_on_vsync, 0U);
  EXPECT_EQ(none.max_overlay_planes, 0U);
  const FlipCaps mmio = flips([](DXGK_DRIVERCAPS& raw) { raw.FlipCaps.FlipOnVSyncMmIo = 1; });
  EXPECT_TRUE(mmio.on_vsync_mmio);
  EXPECT_FALSE(mmio.on_vsync_with_no_wait || mmio.interval || mmio.immediate_mmio);
  EXPECT_TRUE(flips([](DXGK_DRIVERCAPS& raw) {
                raw.FlipCaps.FlipOnVSyncWithNoWait = 1;
              }).on_vsync_with_no_wait);
  EXPECT_TRUE(flips([](DXGK_DRIVERCAPS& raw) { raw.FlipCaps.FlipInterval = 1; }).interval);
  EXPECT_TRUE(
      flips([](DXGK_DRIVERCAPS& raw) { raw.FlipCaps.FlipImmediateMmIo = 1; }).immediate_mmio);
  EXPECT_TRUE(flips([](DXGK_DRIVERCAPS& raw) {
                raw.SchedulingCaps.VSyncPowerSaveAware = 1;
              }).vsync_power_save_aware);
  EXPECT_EQ(flips([](DXGK_DRIVERCAPS& raw) { raw.MaxQueuedFlipOnVSync = 3; }).max_queued_on_vsync,
            3U);
  const Change planes = [](DXGK_DRIVERCAPS& raw) { raw.MaxOverlayPlanes = 4; };
  EXPECT_EQ(flips(planes, DXGKDDI_INTERFACE_VERSION_WDDM1_3).max_overlay_planes, 4U);
  EXPECT_EQ(flips(planes, DXGKDDI_INTERFACE_VERSION_WDDM1_3 - 1).max_overlay_planes, 0U);
  const Change preemption = [](DXGK_DRIVERCAPS& raw) {
    raw.PreemptionCaps.GraphicsPreemptionGranularity =
        D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
    raw.PreemptionCaps.ComputePreemptionGranularity =
        D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
  };
  EXPECT_TRUE(flips(preemption, 0x300E).reports_preemption);
  EXPECT_FALSE(flips(preemption, 0x300D).reports_preemption);
  EXPECT_FALSE(flips([](DXGK_DRIVERCAPS& raw) {
                 raw.PreemptionCaps.GraphicsPreemptionGranularity =
                     D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
               }).reports_preemption);
  EXPECT_FALSE(flips([](DXGK_DRIVERCAPS& raw) {
                 raw.PreemptionCaps.ComputePreemptionGranularity =
                     D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
               }).reports_preemption);
}

}  // namespace
}  // namespace dxgkit::port
