// Overlay planes: what the driver is given in each version of the functions, when presents of
// planes go and end, what is refused, and what a driver may do wrong.
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/display/display.h"
#include "dxgk/work/device.h"
#include "tests/contract/plane_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::IsEmpty;
using Rules = std::vector<std::string>;

const auto kNotSupported = nt_status(Status::kNotSupported);
constexpr uint32_t k13 = DXGKDDI_INTERFACE_VERSION_WDDM1_3, k20 = DXGKDDI_INTERFACE_VERSION_WDDM2_0,
                   k22 = DXGKDDI_INTERFACE_VERSION_WDDM2_2, k30 = DXGKDDI_INTERFACE_VERSION_WDDM3_0;
constexpr uint32_t kVersions[] = {k13, k20, DXGKDDI_INTERFACE_VERSION_WDDM2_1, k22, k30};

constexpr RECT kLow = {0, 0, 32, 32}, kMiddle = {8, 8, 40, 24};

/// No present of the client is pending: as many flips as its limit allows can be queued at once.
bool nothing_pends(Stack& stack, PlaneClient& client) {
  bool none = false;
  stack.adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const auto device = client.process->handles().find<dxgk::Device>(client.device);
    none = device.has_value() && stack.adapter().floor().display->flips()->pending(**device) == 0;
  });
  return none;
}

TEST_F(PlaneTest, EachVersionIsAskedInItsOwnStructures) {
  DXGKIT_COVERS("DISP-01", "DISP-02", "DISP-07");
  for (const uint32_t version : kVersions) {
    SCOPED_TRACE(version);
    with_planes(version, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
      PlaneClient::Args args;
      client.fill({{0, client.primaries[1], kMiddle}, {1, client.primaries[2]}}, &args);
      args.attributes[0].Blend = D3DKMT_MULTIPLANE_OVERLAY_BLEND_ALPHABLEND;
      ASSERT_EQ(client.show_args(args), 0);
      ASSERT_EQ(driver.flips.presents.size(), 1U);
      EXPECT_EQ(driver.flips.presents[0].args.Flags.FlipWithMultiPlaneOverlay, 1U);
      EXPECT_EQ(driver.flips.presents[0].args.Flags.Flip, 1U);
      ASSERT_EQ(driver.sets.size(), 1U);
      const PlaneCall& call = driver.last();
      EXPECT_EQ(call.irql, nt::kDeviceLevel);
      EXPECT_EQ(call.contexts, 1U);
      ASSERT_EQ(call.planes.size(), 2U);
      EXPECT_EQ(call.planes[0].layer, 0U);
      EXPECT_TRUE(call.planes[0].enabled);
      EXPECT_TRUE(call.planes[0].blend);
      EXPECT_FALSE(call.planes[1].blend);
      EXPECT_EQ(call.planes[0].source.left, 8);
      EXPECT_EQ(call.planes[0].destination.right, 40);
      EXPECT_EQ(call.planes[0].clip.right, 32);
      EXPECT_NE(call.planes[0].address, call.planes[1].address);
      EXPECT_NE(call.planes[0].allocation, nullptr);
      EXPECT_EQ(call.planes[0].present_id != 0, driver.version3());
      EXPECT_FALSE(nothing_pends(stack, client));
      driver.vsync();
      EXPECT_TRUE(nothing_pends(stack, client));
      EXPECT_EQ(stack.rules(), Rules{});
    });
  }
}

TEST_F(PlaneTest, EachPlaneFlipsByItself) {
  DXGKIT_COVERS("DISP-33", "DISP-06");
  for (const uint32_t version : {k13, k22}) {
    SCOPED_TRACE(version);
    with_planes(version, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
      const auto& primaries = client.primaries;
      ASSERT_EQ(client.show({{0, primaries[1], kMiddle}, {1, primaries[2]}}), 0);
      const auto both = PlaneDriver::shown_by(driver.last());
      driver.vsync();
      ASSERT_EQ(client.show({{1, primaries[3]}}), 0);
      ASSERT_EQ(driver.sets.size(), 2U);
      ASSERT_EQ(driver.last().planes.size(), 1U) << "the other plane stays";
      const PlaneCall lower = driver.last();
      ASSERT_EQ(client.show({{1, primaries[2]}}), 0);
      EXPECT_EQ(driver.sets.size(), 2U) << "one flip of a plane at a time";
      ASSERT_EQ(client.show({{0, primaries[4], kMiddle}}), 0);
      ASSERT_EQ(driver.sets.size(), 3U) << "the upper plane does not wait for the lower";
      const PlaneCall upper = driver.last();
      driver.vsync({both[0], both[1]});
      EXPECT_EQ(driver.sets.size(), 3U) << "nothing was shown";
      driver.vsync({both[0], PlaneDriver::shown_by(lower)[0]});
      ASSERT_EQ(driver.sets.size(), 4U);
      EXPECT_FALSE(nothing_pends(stack, client));
      driver.vsync({PlaneDriver::shown_by(upper)[0], PlaneDriver::shown_by(driver.last())[0]});
      EXPECT_TRUE(nothing_pends(stack, client));
      // Switched off, a plane is told by not being enabled, or by its number.
      ASSERT_EQ(client.show({{0}}), 0);
      EXPECT_FALSE(driver.last().planes[0].enabled);
      EXPECT_FALSE(nothing_pends(stack, client));
      driver.vsync();
      EXPECT_TRUE(nothing_pends(stack, client));
      EXPECT_EQ(stack.rules(), Rules{});
    });
  }
}

TEST_F(PlaneTest, APresentWaitsForWhatItsContextRenders) {
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    ASSERT_EQ(client.render(client.context, work_on({client.primaries[1]})), 0);
    ASSERT_EQ(client.show({{0, client.primaries[1]}}), 0);
    EXPECT_THAT(driver.sets, IsEmpty());
    stack.drive();
    ASSERT_EQ(driver.sets.size(), 1U);
    driver.vsync();
    // Who writes what a plane shows waits until it is off the screen (SUB-37).
    ASSERT_EQ(client.show({{0, client.primaries[2]}}), 0);
    const size_t packets = driver.flips.packets();
    ASSERT_EQ(client.render(client.context, work_on({client.primaries[1]})), 0);
    stack.drive();
    EXPECT_EQ(driver.flips.packets(), packets);
    driver.vsync();
    stack.drive();
    EXPECT_EQ(driver.flips.packets(), packets + 1);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneTest, ImmediateFlipsAreOverWhenTheDriverReturns) {
  DXGKIT_COVERS("DISP-04");
  for (const bool cap : {true, false}) {
    with_planes(
        k22,
        [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
          ASSERT_EQ(client.show({{0, client.primaries[1], kLow, 0}}), 0);
          ASSERT_EQ(driver.sets.size(), 1U);
          EXPECT_EQ(driver.last().planes[0].immediate, cap);
          EXPECT_EQ(nothing_pends(stack, client), cap);
          driver.vsync();
          // A driver can convert a flip, and it can say that it will report an immediate one.
          driver.on_set = [](size_t, DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3* args) {
            args->ppPlanes[0]->OutputFlags.FlipConvertedToImmediate = 1;
            return STATUS_SUCCESS;
          };
          ASSERT_EQ(client.show({{0, client.primaries[2], kLow}}), 0);
          EXPECT_TRUE(nothing_pends(stack, client));
          driver.on_set = [](size_t, DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3* args) {
            args->ppPlanes[0]->OutputFlags.HsyncInterruptCompletion = 1;
            return STATUS_SUCCESS;
          };
          ASSERT_EQ(client.show({{0, client.primaries[3], kLow, 0}}), 0);
          EXPECT_FALSE(nothing_pends(stack, client));
          driver.vsync();
          EXPECT_TRUE(nothing_pends(stack, client));
          EXPECT_EQ(stack.rules(), Rules{});
        },
        [&](PlaneDriver& driver) { driver.immediate = cap; });
  }
}

TEST_F(PlaneTest, ADriverThatNeedsPassiveLevelIsCalledAgainThere) {
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    driver.on_set = [](size_t call, DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3* args) {
      if (call != 0) return STATUS_SUCCESS;
      args->OutputFlags.PrePresentNeeded = 1;
      return nt_status(Status::kRetry);
    };
    ASSERT_EQ(client.show({{0, client.primaries[1]}}), 0);
    stack.blocking([&] {
      while (driver.sets.size() < 2) stack.settle();
    });
    EXPECT_EQ(driver.sets[0].irql, nt::kDeviceLevel);
    EXPECT_FALSE(driver.sets[0].at_lower_irql);
    EXPECT_EQ(driver.sets[1].irql, nt::kPassiveLevel);
    EXPECT_TRUE(driver.sets[1].at_lower_irql);
    driver.vsync();
    EXPECT_TRUE(nothing_pends(stack, client));
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneTest, AQueueInHardwareDrainsBeforeWhatItCannotQueue) {
  DXGKIT_COVERS("DISP-20");
  with_planes(
      k30,
      [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
        const auto& primaries = client.primaries;
        ASSERT_EQ(client.show({{0, primaries[1]}}), 0);
        ASSERT_EQ(client.show({{0, primaries[2]}}), 0);
        ASSERT_EQ(driver.sets.size(), 2U) << "two fit";
        ASSERT_EQ(client.show({{0, primaries[3]}}), 0);
        EXPECT_EQ(driver.sets.size(), 2U);
        driver.on_set = [](size_t, DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3* args) {
          args->OutputFlags.HwFlipQueueDrainNeeded = 1;
          return nt_status(Status::kRetry);
        };
        driver.vsync(PlaneDriver::shown_by(driver.sets[0]));
        ASSERT_EQ(driver.sets.size(), 3U) << "asked, and it wants the other one to end";
        driver.on_set = nullptr;
        driver.vsync(PlaneDriver::shown_by(driver.sets[0]));
        EXPECT_EQ(driver.sets.size(), 3U);
        driver.vsync(PlaneDriver::shown_by(driver.sets[1]));
        ASSERT_EQ(driver.sets.size(), 4U);
        EXPECT_EQ(driver.sets[3].planes[0].present_id, driver.sets[2].planes[0].present_id);
        for (size_t i = 1; i < driver.sets.size(); ++i)
          EXPECT_GE(driver.sets[i].target_time, driver.sets[i - 1].target_time);
        driver.vsync();
        EXPECT_TRUE(nothing_pends(stack, client));
        EXPECT_EQ(stack.rules(), Rules{});
      },
      [](PlaneDriver& driver) { driver.hw_queued = 2; });
}

TEST_F(PlaneTest, RetryWhileNothingPendsResetsTheAdapter) {
  DXGKIT_COVERS("DISP-20");
  with_planes(
      k30,
      [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
        driver.on_set = [](size_t, DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3* args) {
          args->OutputFlags.HwFlipQueueDrainNeeded = 1;
          return nt_status(Status::kRetry);
        };
        ASSERT_EQ(client.show({{0, client.primaries[1]}}), 0);
        stack.blocking([&] {
          while (stack.statistics().adapter_resets == 0) stack.settle();
        });
        ASSERT_FALSE(stack.rules().empty());
        EXPECT_EQ(stack.rules().front(), "DISP-20");
        EXPECT_EQ(stack.statistics().adapter_resets, 1U);
        EXPECT_TRUE(nothing_pends(stack, client));
      },
      [](PlaneDriver& driver) { driver.hw_queued = 2; });
}

TEST_F(PlaneTest, AFailureOfTheDriverIsFound) {
  DXGKIT_COVERS("DISP-28");
  for (const uint32_t version : {k13, k20, k22}) {
    SCOPED_TRACE(version);
    with_planes(version, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
      stack.expect_leaks = true;
      driver.on_set = [](size_t, auto*) { return nt_status(Status::kUnsuccessful); };
      ASSERT_EQ(client.show({{0, client.primaries[1]}}), 0);
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "DISP-28");
      EXPECT_EQ(finding.bugcheck_code, 0x119U);
      EXPECT_EQ(finding.bugcheck_parameter, 0xBU);
      EXPECT_NE(finding.actual.find("0xc0000001"), std::string::npos) << finding.actual;
    });
  }
}

TEST_F(PlaneTest, AVerticalSyncNamesWhatAPlaneShows) {
  DXGKIT_COVERS("DISP-29");
  for (const uint32_t version : {k13, k22}) {
    SCOPED_TRACE(version);
    with_planes(version, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
      ASSERT_EQ(client.show({{0, client.primaries[1]}}), 0);
      driver.vsync();
      auto wrong = PlaneDriver::shown_by(driver.last());
      wrong[0].address += 0x1000;
      wrong[0].present_id += 100;
      driver.vsync(wrong);
      EXPECT_EQ(stack.only_finding().rule, "DISP-29");
    });
  }
}

// Reports by numbers of presents have no address of a primary, also where no plane is on.
TEST_F(PlaneTest, AVerticalSyncByNumbersNeedsNoAddress) {
  DXGKIT_COVERS("DISP-08", "DISP-29");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient&) {
    driver.vsync(std::vector<PlaneDriver::Shown>{});
    driver.vsync(std::vector<PlaneDriver::Shown>{{.enabled = false}});
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(PlaneTest, ThePlaneThatAsksForItIsToldWhenItIsOnTheScreen) {
  DXGKIT_COVERS("DISP-30");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    ASSERT_EQ(client.show({{0, client.primaries[1], kMiddle}, {1, client.primaries[2]}}), 0);
    auto shown = PlaneDriver::shown_by(driver.last());
    shown[1].post_present = true;
    driver.vsync(shown);
    stack.blocking([&] {
      while (driver.posts.empty()) stack.settle();
    });
    ASSERT_EQ(driver.posts.size(), 1U);
    EXPECT_EQ(driver.posts[0].target, kTarget);
    EXPECT_EQ(driver.posts[0].layer, 1U);
    EXPECT_EQ(driver.posts[0].present_id, shown[1].present_id);
    EXPECT_EQ(driver.posts[0].irql, nt::kPassiveLevel);
    EXPECT_EQ(stack.rules(), Rules{});

    driver.post_answer = nt_status(Status::kUnsuccessful);
    ASSERT_EQ(client.show({{1, client.primaries[3]}}), 0);
    shown = PlaneDriver::shown_by(driver.last());
    shown[0].post_present = true;
    driver.vsync(shown);
    stack.blocking([&] {
      while (driver.posts.size() < 2) stack.settle();
    });
    stack.settle();
    EXPECT_EQ(stack.only_finding().rule, "DISP-30");
  });
}

TEST_F(PlaneTest, AChangeOfModeEndsWhatPlanesShow) {
  DXGKIT_COVERS("DISP-33");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    ASSERT_EQ(client.show({{0, client.primaries[1]}}), 0);
    driver.vsync();
    ASSERT_EQ(client.show({{0, client.primaries[2]}}), 0);
    EXPECT_FALSE(nothing_pends(stack, client));
    // Flips without planes would switch the planes off.
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.flip(client.primaries[3]), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    ASSERT_EQ(client.set_display_mode(client.primaries[0]), 0);
    EXPECT_TRUE(nothing_pends(stack, client));
    driver.flips.vsync();
    ASSERT_EQ(client.flip(client.primaries[3]), 0);
    stack.settle();
    driver.flips.vsync();
    EXPECT_TRUE(nothing_pends(stack, client));
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneTest, ADestroyedSurfaceLeavesItsPlane) {
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    ASSERT_EQ(client.show({{0, client.primaries[1]}}), 0);
    driver.vsync();
    NTSTATUS status = -1;
    stack.blocking([&] { status = client.destroy_allocation(client.primaries[1]); });
    EXPECT_EQ(status, 0);
    stack.drive();
    EXPECT_TRUE(nothing_pends(stack, client));
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

/// One broken argument a row.
struct Refusal {
  const char* what;
  std::function<void(PlaneClient&, PlaneClient::Args&)> breaks;
  NTSTATUS status;
};

TEST_F(PlaneTest, WrongPresentsAreRefused) {
  DXGKIT_COVERS("DISP-32");
  using Args = PlaneClient::Args;
  const std::vector<Refusal> rows = {
      {"adapter", [](PlaneClient&, Args& a) { a.args.hAdapter = 0; }, kInvalid},
      {"no context", [](PlaneClient&, Args& a) { a.args.ContextCount = 0; }, kInvalid},
      {"contexts beyond memory", [](PlaneClient&, Args& a) { a.args.pContextList = nullptr; },
       kInvalid},
      {"a device is no context", [](PlaneClient& c, Args& a) { a.args.pContextList = &c.device; },
       kInvalid},
      {"source", [](PlaneClient&, Args& a) { a.args.VidPnSourceId = 1; }, kInvalid},
      {"no planes", [](PlaneClient&, Args& a) { a.args.PresentPlaneCount = 0; }, kInvalid},
      {"too many planes", [](PlaneClient&, Args& a) { a.args.PresentPlaneCount = 9; }, kInvalid},
      {"planes beyond memory", [](PlaneClient&, Args& a) { a.pointers[1] = nullptr; }, kInvalid},
      {"layer beyond the caps", [](PlaneClient&, Args& a) { a.planes[1].LayerIndex = 2; },
       kInvalid},
      {"one layer twice", [](PlaneClient&, Args& a) { a.planes[1].LayerIndex = 0; }, kInvalid},
      {"one surface twice", [](PlaneClient&, Args& a) { a.allocations[1] = a.allocations[0]; },
       kInvalid},
      {"no surface", [](PlaneClient&, Args& a) { a.planes[0].AllocationCount = 0; }, kInvalid},
      {"surface", [](PlaneClient&, Args& a) { a.allocations[0] = 0x40000000; }, kInvalid},
      {"linked surfaces", [](PlaneClient&, Args& a) { a.planes[0].AllocationCount = 2; },
       kNotSupported},
      {"no primary", [](PlaneClient& c, Args& a) { a.allocations[0] = c.make_allocation(); },
       kInvalid},
      {"interval",
       [](PlaneClient&, Args& a) {
         a.planes[0].FlipInterval = static_cast<D3DDDI_FLIPINTERVAL_TYPE>(5);
       },
       kInvalid},
      {"interval without the cap",
       [](PlaneClient&, Args& a) { a.planes[0].FlipInterval = D3DDDI_FLIPINTERVAL_TWO; }, kInvalid},
      {"fence", [](PlaneClient&, Args& a) { a.planes[0].hFlipToFence = 1; }, kNotSupported},
      {"stereo", [](PlaneClient&, Args& a) { a.args.Flags.FlipStereo = 1; }, kNotSupported},
      {"HDR", [](PlaneClient&, Args& a) { a.args.Flags.HDRMetaDataValid = 1; }, kNotSupported},
      {"flags", [](PlaneClient&, Args& a) { a.args.Flags.Reserved = 1; }, kInvalid},
      {"flags of a plane", [](PlaneClient&, Args& a) { a.planes[0].InputFlags.Reserved = 1; },
       kInvalid},
      {"attributes beyond memory",
       [](PlaneClient&, Args& a) { a.planes[0].pPlaneAttributes = nullptr; }, kInvalid},
      {"source rectangle beyond the surface",
       [](PlaneClient&, Args& a) { a.attributes[0].SrcRect.right = kWidth + 1; }, kInvalid},
      {"empty source rectangle", [](PlaneClient&, Args& a) { a.attributes[0].SrcRect.right = 0; },
       kInvalid},
      {"destination beyond the screen",
       [](PlaneClient&, Args& a) { a.attributes[0].DstRect.right = kWidth + 1; }, kInvalid},
      {"clip beyond the destination",
       [](PlaneClient&, Args& a) { a.attributes[0].ClipRect.right += 1; }, kInvalid},
      {"rotation",
       [](PlaneClient&, Args& a) { a.attributes[0].Rotation = static_cast<D3DDDI_ROTATION>(5); },
       kInvalid},
      {"blend",
       [](PlaneClient&, Args& a) {
         a.attributes[0].Blend = static_cast<D3DKMT_MULTIPLANE_OVERLAY_BLEND>(2);
       },
       kInvalid},
      {"stretch quality",
       [](PlaneClient&, Args& a) {
         a.attributes[0].StretchQuality = static_cast<DXGKMT_MULTIPLANE_OVERLAY_STRETCH_QUALITY>(0);
       },
       kInvalid},
      {"flags of attributes", [](PlaneClient&, Args& a) { a.attributes[0].Flags = 4; }, kInvalid},
      {"dirty rectangles beyond memory",
       [](PlaneClient&, Args& a) { a.attributes[0].DirtyRectCount = 1; }, kInvalid},
  };
  with_planes(k22, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    for (const Refusal& row : rows) {
      SCOPED_TRACE(row.what);
      PlaneClient::Args args;
      client.fill({{0, client.primaries[1], kMiddle}, {1, client.primaries[2]}}, &args);
      row.breaks(client, args);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(client.show_args(args), row.status);
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_THAT(driver.sets, IsEmpty());
    }
    // Without the source, or before a mode is set, a device shows nothing.
    ASSERT_EQ(client.disown(), 0);
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.show({{0, client.primaries[1]}}), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneTest, OldVersionsOfTheCallsShowPlanesToo) {
  DXGKIT_COVERS("DISP-32");
  with_planes(k20, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    const auto attributes = [](auto* to) {
      to->SrcRect = to->DstRect = kMiddle;
      to->ClipRect = rect(0, 0, 32, 16);
      to->Rotation = D3DDDI_ROTATION_IDENTITY;
      to->StretchQuality = static_cast<DXGKMT_MULTIPLANE_OVERLAY_STRETCH_QUALITY>(1);
    };
    D3DKMT_MULTIPLANE_OVERLAY plane{};
    plane.Enabled = TRUE;
    plane.hAllocation = client.primaries[1];
    attributes(&plane.PlaneAttributes);
    D3DKMT_PRESENT_MULTIPLANE_OVERLAY args{};
    args.hContext = client.context.handle;
    args.FlipInterval = D3DDDI_FLIPINTERVAL_ONE;
    args.Flags.Flip = 1;
    args.PresentPlaneCount = 1;
    args.pPresentPlanes = &plane;
    const auto show = [&] {
      const NTSTATUS status = client.call([&] { return D3DKMTPresentMultiPlaneOverlay(&args); });
      stack.settle();
      return status;
    };
    ASSERT_EQ(show(), 0);
    ASSERT_EQ(driver.sets.size(), 1U);
    EXPECT_EQ(driver.last().planes[0].destination.left, 8);
    driver.vsync();

    D3DKMT_MULTIPLANE_OVERLAY2 plane2{};
    plane2.Enabled = TRUE;
    plane2.hAllocation = client.primaries[2];
    attributes(&plane2.PlaneAttributes);
    D3DKMT_PRESENT_MULTIPLANE_OVERLAY2 args2{};
    args2.hAdapter = client.adapter;
    args2.hContext = client.context.handle;
    args2.FlipInterval = D3DDDI_FLIPINTERVAL_ONE;
    args2.Flags.Flip = 1;
    args2.PresentPlaneCount = 1;
    args2.pPresentPlanes = &plane2;
    const auto show2 = [&] {
      const NTSTATUS status = client.call([&] { return D3DKMTPresentMultiPlaneOverlay2(&args2); });
      stack.settle();
      return status;
    };
    ASSERT_EQ(show2(), 0);
    ASSERT_EQ(driver.sets.size(), 2U);
    driver.vsync();

    const Digest before = digest(stack, {&client});
    args.Flags.Flip = 0;
    EXPECT_EQ(show(), kInvalid);
    args.Flags.Flip = 1;
    args.Flags.FlipStereo = 1;
    EXPECT_EQ(show(), kNotSupported);
    args.Flags.FlipStereo = 0;
    args.BroadcastContextCount = 65;
    EXPECT_EQ(show(), kInvalid);
    args.BroadcastContextCount = 0;
    plane.PlaneAttributes.StereoFormat = static_cast<D3DKMT_MULTIPLANE_OVERLAY_STEREO_FORMAT>(1);
    EXPECT_EQ(show(), kNotSupported);
    args2.hAdapter = 0;
    EXPECT_EQ(show2(), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(driver.sets.size(), 2U);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

/// A plane question of a client, in the structures of version 3 (version 2 and 1 below).
struct Question {
  D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES3 attributes = attributes_of(kMiddle);
  D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE3 plane{};
  D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE3* pointer = &plane;
  D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT3 args{};
  Question(const PlaneClient& client, D3DKMT_HANDLE resource) {
    plane.hResource = resource;
    plane.pPlaneAttributes = &attributes;
    args.hAdapter = client.adapter;
    args.hDevice = client.device;
    args.PlaneCount = 1;
    args.ppOverlayPlanes = &pointer;
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
};

/// A primary that is a resource.
D3DKMT_HANDLE make_resource(PlaneClient& client) {
  ScriptedAllocation data{.size = uint64_t{kWidth} * kHeight * 4,
                          .supported_read = 1,
                          .supported_write = 1,
                          .flags = 1};
  D3DDDI_ALLOCATIONINFO info{};
  info.pPrivateDriverData = &data;
  info.PrivateDriverDataSize = sizeof data;
  info.Flags.Primary = 1;
  D3DKMT_CREATEALLOCATION create{};
  create.hDevice = client.device;
  create.NumAllocations = 1;
  create.pAllocationInfo = &info;
  create.Flags.CreateResource = 1;
  EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
  return create.hResource;
}

TEST_F(PlaneTest, TheDriverJudgesConfigurations) {
  DXGKIT_COVERS("DISP-27");
  for (const uint32_t version : kVersions) {
    SCOPED_TRACE(version);
    with_planes(version, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
      const D3DKMT_HANDLE resource = make_resource(client);
      Question question(client, resource);
      const auto ask = [&] {
        return client.call([&] { return D3DKMTCheckMultiPlaneOverlaySupport3(&question.args); });
      };
      ASSERT_EQ(ask(), 0);
      EXPECT_EQ(driver.checked, std::vector<UINT>{1});
      EXPECT_EQ(question.args.Supported, TRUE);
      EXPECT_EQ(question.args.ReturnInfo.Value, 0U);
      driver.supported = FALSE;
      driver.try_again = 1;
      ASSERT_EQ(ask(), 0);
      EXPECT_EQ(question.args.Supported, FALSE);
      EXPECT_EQ(question.args.ReturnInfo.FailingPlane, 0U);
      EXPECT_EQ(question.args.ReturnInfo.TryAgain, 1U);

      const Digest before = digest(stack, {&client});
      question.args.PlaneCount = 0;
      EXPECT_EQ(ask(), kInvalid);
      question.args.PlaneCount = 9;
      EXPECT_EQ(ask(), kInvalid);
      question.args.PlaneCount = 1;
      question.plane.hResource = client.primaries[0];
      EXPECT_EQ(ask(), kInvalid) << "an allocation is no resource";
      question.plane.hResource = resource;
      question.plane.VidPnSourceId = 1;
      EXPECT_EQ(ask(), kInvalid);
      question.plane.VidPnSourceId = 0;
      question.args.hAdapter = 0;
      EXPECT_EQ(ask(), kInvalid);
      question.args.hAdapter = client.adapter;
      question.args.PostCompositionCount = 1;
      EXPECT_EQ(ask(), kInvalid);
      question.args.PostCompositionCount = 0;
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_EQ(stack.rules(), Rules{});

      driver.failing_plane = 3;
      ASSERT_EQ(ask(), 0);
      EXPECT_EQ(question.args.ReturnInfo.FailingPlane, 0U);
      EXPECT_EQ(stack.rules(), Rules{"DISP-27"});
      driver.check_answer = nt_status(Status::kUnsuccessful);
      EXPECT_EQ(ask(), nt_status(Status::kUnsuccessful));
      EXPECT_EQ(stack.rules(), (Rules{"DISP-27", "DISP-27"}));
    });
  }
}

/// What is done to the planes of a source together is part of the question.
TEST_F(PlaneTest, TheDriverJudgesWhatHappensBehindThePlanes) {
  DXGKIT_COVERS("DISP-27");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    Question question(client, make_resource(client));
    D3DKMT_MULTIPLANE_OVERLAY_POST_COMPOSITION_WITH_SOURCE sent{};
    sent.PostComposition.Flags.HorizontalFlip = 1;
    sent.PostComposition.SrcRect = rect(0, 0, kWidth, kHeight);
    sent.PostComposition.DstRect = kMiddle;
    sent.PostComposition.Rotation = D3DDDI_ROTATION_180;
    auto* pointer = &sent;
    question.args.PostCompositionCount = 1;
    question.args.ppPostComposition = &pointer;
    const auto ask = [&] {
      return client.call([&] { return D3DKMTCheckMultiPlaneOverlaySupport3(&question.args); });
    };
    ASSERT_EQ(ask(), 0);
    ASSERT_EQ(driver.posts_checked.size(), 1U);
    EXPECT_EQ(driver.posts_checked[0].VidPnSourceId, 0U);
    const auto& seen = driver.posts_checked[0].PostComposition;
    EXPECT_EQ(seen.Flags.Value, sent.PostComposition.Flags.Value);
    EXPECT_EQ(std::memcmp(&seen.SrcRect, &sent.PostComposition.SrcRect, sizeof(RECT)), 0);
    EXPECT_EQ(std::memcmp(&seen.DstRect, &sent.PostComposition.DstRect, sizeof(RECT)), 0);
    EXPECT_EQ(seen.Rotation, D3DDDI_ROTATION_180);

    using Sent = D3DKMT_MULTIPLANE_OVERLAY_POST_COMPOSITION_WITH_SOURCE;
    const std::pair<const char*, std::function<void(Sent&)>> rows[] = {
        {"source", [](Sent& s) { s.VidPnSourceId = 1; }},
        {"flags", [](Sent& s) { s.PostComposition.Flags.Value |= 4; }},
        {"the highest flag", [](Sent& s) { s.PostComposition.Flags.Value |= 1U << 31; }},
        {"no rotation",
         [](Sent& s) { s.PostComposition.Rotation = static_cast<D3DDDI_ROTATION>(0); }},
        {"rotation", [](Sent& s) { s.PostComposition.Rotation = static_cast<D3DDDI_ROTATION>(5); }},
        {"source rectangle", [](Sent& s) { s.PostComposition.SrcRect = rect(0, 0, 0, 8); }},
        {"destination", [](Sent& s) { s.PostComposition.DstRect = rect(0, 9, 8, 8); }},
    };
    driver.checked.clear();
    const Digest before = digest(stack, {&client});
    const Sent right = sent;
    for (const auto& [what, spoil] : rows) {
      SCOPED_TRACE(what);
      sent = right;
      spoil(sent);
      EXPECT_EQ(ask(), kInvalid);
    }
    EXPECT_THAT(driver.checked, IsEmpty());
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneTest, OldVersionsOfTheQuestionAskTheSame) {
  with_planes(k13, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    const D3DKMT_HANDLE resource = make_resource(client);
    const auto attributes = [](auto* to) {
      to->SrcRect = to->DstRect = kMiddle;
      to->ClipRect = rect(0, 0, 32, 16);
      to->Rotation = D3DDDI_ROTATION_IDENTITY;
      to->StretchQuality = static_cast<DXGKMT_MULTIPLANE_OVERLAY_STRETCH_QUALITY>(1);
    };
    D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE planes[2] = {};
    for (auto& plane : planes) {
      plane.hResource = resource;
      attributes(&plane.PlaneAttributes);
    }
    D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT args{};
    args.hDevice = client.device;
    args.PlaneCount = 2;
    args.pOverlayPlanes = planes;
    EXPECT_EQ(client.call([&] { return D3DKMTCheckMultiPlaneOverlaySupport(&args); }), 0);
    EXPECT_EQ(args.Supported, TRUE);
    D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE2 plane2{};
    plane2.hResource = resource;
    attributes(&plane2.PlaneAttributes);
    D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2 args2{};
    args2.hAdapter = client.adapter;
    args2.hDevice = client.device;
    args2.PlaneCount = 1;
    args2.pOverlayPlanes = &plane2;
    EXPECT_EQ(client.call([&] { return D3DKMTCheckMultiPlaneOverlaySupport2(&args2); }), 0);
    EXPECT_EQ(args2.Supported, TRUE);
    EXPECT_EQ(driver.checked, (std::vector<UINT>{2, 1}));
    const Digest before = digest(stack, {&client});
    args.PlaneCount = 0;
    EXPECT_EQ(client.call([&] { return D3DKMTCheckMultiPlaneOverlaySupport(&args); }), kInvalid);
    args2.hAdapter = 0;
    EXPECT_EQ(client.call([&] { return D3DKMTCheckMultiPlaneOverlaySupport2(&args2); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneTest, PlanesThatTheDriverGaveUpAreRefusedUntilACheck) {
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    const D3DKMT_HANDLE resource = make_resource(client);
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    nt::with_frame(stack.kernel, nt::kPassiveLevel,
                   [&] { callbacks.DxgkCbMultiPlaneOverlayDisabled(callbacks.DeviceHandle, 0); });
    stack.settle();
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.show({{0, client.primaries[1]}}), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    Question question(client, resource);
    ASSERT_EQ(client.call([&] { return D3DKMTCheckMultiPlaneOverlaySupport3(&question.args); }), 0);
    EXPECT_EQ(client.show({{0, client.primaries[1]}}), 0);
    driver.vsync();
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

// Timings may say of a path that what planes can show there has changed: they are refused until a
// check, as when the driver gives them up. Where there are no planes the word means nothing.
TEST_F(PlaneTest, TimingsThatChangeWhatPlanesCanShowAskForACheck) {
  DXGKIT_COVERS("DISP-35");
  static bool recheck = false;
  constexpr auto set_timings = +[](const HANDLE, DXGKARG_SETTIMINGSFROMVIDPN* args) NTAPI {
    for (UINT i = 0; i < args->PathCount; ++i) {
      DXGK_SET_TIMING_PATH_INFO& info = args->pSetTimingPathInfo[i];
      info.TargetState.TargetId = info.VidPnTargetId & 0xFFFFFF;
      info.TargetState.ConnectionStatus = MonitorStatusConnected;
      info.Output.RecheckMPO = recheck ? 1 : 0;
    }
    return NTSTATUS{STATUS_SUCCESS};
  };
  for (const bool has_planes : {true, false}) {
    for (const bool asks : {true, false}) {
      SCOPED_TRACE(std::to_string(has_planes) + (asks ? " asks" : ""));
      recheck = false;
      with_planes(
          k22,
          [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
            const D3DKMT_HANDLE resource = make_resource(client);
            // Another mode in between, or there would be no timings to set.
            ASSERT_EQ(client.disown(), 0);
            driver.flips.made = 32;
            dxgk::Displays displays(*stack.system);
            stack.blocking([&] {
              EXPECT_EQ(displays.set_mode(stack.luid, 0, {32, 32}), Status::kSuccess);
            });
            driver.flips.made = kWidth;
            recheck = asks;
            client.FlipClient::show();
            recheck = false;
            if (!has_planes) return;
            EXPECT_EQ(client.show({{0, client.primaries[1]}}), asks ? kInvalid : 0);
            Question question(client, resource);
            ASSERT_EQ(
                client.call([&] { return D3DKMTCheckMultiPlaneOverlaySupport3(&question.args); }),
                0);
            EXPECT_EQ(client.show({{0, client.primaries[1]}}), 0);
            driver.vsync();
            EXPECT_EQ(stack.rules(), Rules{});
          },
          [&](PlaneDriver& driver) {
            driver.has_entries = has_planes;
            driver.planes = has_planes ? 2 : 0;
            const auto before = driver.flips.more_table;
            driver.flips.more_table = [before, set_timings](DRIVER_INITIALIZATION_DATA& table) {
              before(table);
              table.DxgkDdiSetTimingsFromVidPn = set_timings;
            };
          });
    }
  }
}

TEST_F(PlaneTest, CapabilitiesAreTheDrivers) {
  DXGKIT_COVERS("DISP-31");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS caps{};
    caps.hAdapter = client.adapter;
    const auto ask = [&] {
      return client.call([&] { return D3DKMTGetMultiPlaneOverlayCaps(&caps); });
    };
    ASSERT_EQ(ask(), 0);
    EXPECT_EQ(caps.MaxPlanes, 2U);
    EXPECT_EQ(caps.MaxRGBPlanes, 2U);
    EXPECT_EQ(caps.MaxYUVPlanes, 1U);
    EXPECT_EQ(caps.OverlayCaps.Value, 0x830U) << "Version3DDISupport is the kernel's";
    EXPECT_EQ(caps.MaxStretchFactor, 4.0F);
    EXPECT_EQ(caps.MaxShrinkFactor, 2.0F);
    for (const KMTQUERYADAPTERINFOTYPE type :
         {KMTQAITYPE_MULTIPLANEOVERLAY_SUPPORT, KMTQAITYPE_MPO3DDI_SUPPORT,
          KMTQAITYPE_MPOKERNELCAPS_SUPPORT}) {
      BOOL supported = FALSE;
      D3DKMT_QUERYADAPTERINFO query{};
      query.hAdapter = client.adapter;
      query.Type = type;
      query.pPrivateDriverData = &supported;
      query.PrivateDriverDataSize = sizeof supported;
      EXPECT_EQ(client.call([&] { return D3DKMTQueryAdapterInfo(&query); }), 0);
      EXPECT_EQ(supported, TRUE) << type;
    }
    D3DKMT_GET_POST_COMPOSITION_CAPS post{};
    post.hAdapter = client.adapter;
    ASSERT_EQ(client.call([&] { return D3DKMTGetPostCompositionCaps(&post); }), 0);
    EXPECT_EQ(post.MaxStretchFactor, 1.5F);
    EXPECT_EQ(post.MaxShrinkFactor, 1.25F);
    const Digest before = digest(stack, {&client});
    post.VidPnSourceId = caps.VidPnSourceId = 1;
    EXPECT_EQ(ask(), kInvalid);
    EXPECT_EQ(client.call([&] { return D3DKMTGetPostCompositionCaps(&post); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.rules(), Rules{});
    caps.VidPnSourceId = 0;
    driver.caps.OverlayCaps.Value = 3;
    ASSERT_EQ(ask(), 0);
    EXPECT_EQ(stack.rules(), Rules{"DISP-31"});
    driver.caps.OverlayCaps.Value = 0;
    driver.caps.MaxYUVPlanes = 3;
    ASSERT_EQ(ask(), 0);
    EXPECT_EQ(stack.rules(), (Rules{"DISP-31", "DISP-31"}));
  });
}

TEST_F(PlaneTest, DriversWithoutPlanesRefuseThem) {
  with_planes(
      k22,
      [](Stack& stack, PlaneDriver&, PlaneClient& client) {
        const D3DKMT_HANDLE resource = make_resource(client);
        Question question(client, resource);
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(client.show({{0, client.primaries[1]}}), kNotSupported);
        EXPECT_EQ(client.call([&] { return D3DKMTCheckMultiPlaneOverlaySupport3(&question.args); }),
                  kNotSupported);
        D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS caps{};
        caps.hAdapter = client.adapter;
        EXPECT_EQ(client.call([&] { return D3DKMTGetMultiPlaneOverlayCaps(&caps); }),
                  kNotSupported);
        D3DKMT_GET_POST_COMPOSITION_CAPS post{};
        post.hAdapter = client.adapter;
        EXPECT_EQ(client.call([&] { return D3DKMTGetPostCompositionCaps(&post); }), kNotSupported);
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(stack.rules(), Rules{});
      },
      [](PlaneDriver& driver) { driver.has_entries = false; });
}

}  // namespace
}  // namespace dxgkit::contract
