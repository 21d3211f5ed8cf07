// The way of a present of planes, step by step: what it waits for, what waits for it, what is left
// of one that fails.
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/display/display.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/work/device.h"
#include "tests/contract/plane_fixture.h"
#include "tests/contract/two_adapters.h"

namespace dxgkit::contract {
namespace {

using Rules = std::vector<std::string>;

const auto kBusy = nt_status(Status::kGraphicsAllocationBusy);
const auto kGone = nt_status(Status::kDeviceRemoved);
constexpr uint32_t k13 = DXGKDDI_INTERFACE_VERSION_WDDM1_3, k22 = DXGKDDI_INTERFACE_VERSION_WDDM2_2,
                   k30 = DXGKDDI_INTERFACE_VERSION_WDDM3_0;
constexpr RECT kAll = {0, 0, kWidth, kHeight}, kLow = {0, 0, 32, 32};

class PlaneFlowTest : public PlaneTest {
 protected:
  static uint32_t pending(Stack& stack, PlaneClient& client) {
    uint32_t count = 0;
    stack.adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      const auto device = client.process->handles().find<dxgk::Device>(client.device);
      if (device.has_value()) count = stack.adapter().floor().display->flips()->pending(**device);
    });
    return count;
  }
  /// Holds on the surface by presents that have not ended.
  static uint32_t uses(Stack& stack, PlaneClient& client, D3DKMT_HANDLE surface) {
    uint32_t count = 77;
    stack.adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      const auto opened = client.process->handles().find<dxgk::OpenedAllocation>(surface);
      if (opened.has_value()) count = static_cast<uint32_t>((*opened)->uses);
    });
    return count;
  }
  static void until(Stack& stack, const std::function<bool()>& true_now) {
    stack.blocking([&] {
      for (int i = 0; i < 1000 && !true_now(); ++i) stack.settle();
    });
    ASSERT_TRUE(true_now());
  }
};

TEST_F(PlaneFlowTest, WithoutTheCapAContextWaitsForTheVerticalSyncOfEachPlane) {
  DXGKIT_COVERS("DISP-05");
  for (const bool no_wait : {false, true}) {
    SCOPED_TRACE(no_wait);
    with_planes(
        k22,
        [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
          ContextBuffers other = client.make_context();
          // The upper plane at once, the lower one at the vertical sync.
          ASSERT_EQ(client.show({{0, client.primaries[1], kLow, 0}, {1, client.primaries[2]}}), 0);
          EXPECT_EQ(driver.flips.presents.back().args.Flags.FlipWithNoWait, no_wait ? 1U : 0U);
          ASSERT_EQ(driver.sets.size(), 1U);
          const size_t before = driver.flips.packets();
          ASSERT_EQ(client.render(client.context, work_on({})), 0);
          ASSERT_EQ(client.render(other, work_on({})), 0);
          stack.drive();
          EXPECT_EQ(driver.flips.packets(), before + (no_wait ? 2 : 1)) << "the other context runs";
          auto shown = PlaneDriver::shown_by(driver.last());
          driver.vsync({shown[0]});
          stack.drive();
          EXPECT_EQ(driver.flips.packets(), before + (no_wait ? 2 : 1)) << "that is the upper one";
          driver.vsync(shown);
          stack.drive();
          EXPECT_EQ(driver.flips.packets(), before + 2);
          EXPECT_EQ(stack.rules(), Rules{});
        },
        [&](PlaneDriver& driver) { driver.no_wait = no_wait; });
  }
}

TEST_F(PlaneFlowTest, APictureStaysAsLongAsTheNextOneSays) {
  DXGKIT_COVERS("DISP-04");
  with_planes(
      k22,
      [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
        const auto& primaries = client.primaries;
        ASSERT_EQ(client.show({{0, primaries[1]}}), 0);
        driver.vsync();
        ASSERT_EQ(client.show({{0, primaries[2], kAll, 3}}), 0);
        EXPECT_EQ(driver.flips.presents.back().args.FlipInterval, 3);
        const auto first = PlaneDriver::shown_by(driver.sets[0]);
        EXPECT_EQ(driver.sets.size(), 1U);
        driver.vsync(first);
        EXPECT_EQ(driver.sets.size(), 1U);
        driver.vsync(first);
        ASSERT_EQ(driver.sets.size(), 2U) << "it comes with the third";
        driver.vsync();
        ASSERT_EQ(client.show({{0, primaries[3], kAll, 1}, {1, primaries[4], kLow, 4}}), 0);
        EXPECT_EQ(driver.flips.presents.back().args.FlipInterval, 4) << "the longest";
        // A plane that has shown nothing waits for nobody's picture but its own syncs.
        for (int i = 0; i < 4 && driver.sets.size() == 2; ++i)
          driver.vsync(PlaneDriver::shown_by(driver.sets[1]));
        ASSERT_EQ(driver.sets.size(), 3U);
        driver.vsync();
        EXPECT_EQ(pending(stack, client), 0U);
        EXPECT_EQ(stack.rules(), Rules{});
      },
      [](PlaneDriver& driver) { driver.flips.intervals = true; });
}

TEST_F(PlaneFlowTest, AnIntervalBeginsWhenThePictureBeforeIsShown) {
  DXGKIT_COVERS("DISP-04");
  with_planes(
      k30,
      [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
        const auto& primaries = client.primaries;
        ASSERT_EQ(client.show({{0, primaries[1]}}), 0);
        for (int i = 0; i < 4; ++i) driver.vsync();
        ASSERT_EQ(client.show({{0, primaries[2]}}), 0);
        ASSERT_EQ(driver.sets.size(), 2U);
        ASSERT_EQ(client.show({{0, primaries[3], kAll, 2}}), 0);
        EXPECT_EQ(driver.sets.size(), 2U) << "though hardware takes two";
        driver.vsync(PlaneDriver::shown_by(driver.sets[0]));
        EXPECT_EQ(driver.sets.size(), 2U);
        driver.vsync(PlaneDriver::shown_by(driver.sets[1]));
        EXPECT_EQ(driver.sets.size(), 2U);
        driver.vsync(PlaneDriver::shown_by(driver.sets[1]));
        EXPECT_EQ(driver.sets.size(), 3U);
        driver.vsync();
        EXPECT_EQ(pending(stack, client), 0U);
        EXPECT_EQ(stack.rules(), Rules{});
      },
      [](PlaneDriver& driver) {
        driver.hw_queued = 2;
        driver.flips.intervals = true;
      });
}

TEST_F(PlaneFlowTest, PresentsOfOnePlaneGoInOrderWhoeverIsReadyFirst) {
  DXGKIT_COVERS("DISP-33");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    ContextBuffers other = client.make_context();
    ASSERT_EQ(client.render(client.context, work_on({})), 0);
    ASSERT_EQ(client.show({{0, client.primaries[1]}}), 0);
    PlaneClient::Args args;
    client.fill({{0, client.primaries[2]}}, &args);
    args.args.pContextList = &other.handle;
    ASSERT_EQ(client.show_args(args), 0);
    EXPECT_EQ(driver.sets.size(), 0U) << "the first of them waits for work";
    stack.drive();
    ASSERT_EQ(driver.sets.size(), 1U);
    const HANDLE first = driver.last().planes[0].allocation;
    driver.vsync();
    ASSERT_EQ(driver.sets.size(), 2U);
    EXPECT_NE(driver.last().planes[0].allocation, first);
    driver.vsync();
    EXPECT_EQ(pending(stack, client), 0U);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneFlowTest, ADrainedPresentMayStillNeedPassiveLevel) {
  DXGKIT_COVERS("DISP-20");
  with_planes(
      k30,
      [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
        ASSERT_EQ(client.show({{0, client.primaries[1]}}), 0);
        driver.on_set = [](size_t call, DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3* args) {
          if (call != 1) return STATUS_SUCCESS;
          args->OutputFlags.HwFlipQueueDrainNeeded = 1;
          args->OutputFlags.PrePresentNeeded = 1;
          return nt_status(Status::kRetry);
        };
        ASSERT_EQ(client.show({{0, client.primaries[2]}}), 0);
        ASSERT_EQ(driver.sets.size(), 2U);
        EXPECT_EQ(driver.last().irql, nt::kDeviceLevel);
        driver.vsync(PlaneDriver::shown_by(driver.sets[0]));
        until(stack, [&] { return driver.sets.size() == 3; });
        EXPECT_EQ(driver.last().irql, nt::kPassiveLevel);
        EXPECT_TRUE(driver.last().at_lower_irql);
        EXPECT_EQ(driver.last().planes[0].present_id, driver.sets[1].planes[0].present_id);
        driver.vsync();
        EXPECT_EQ(pending(stack, client), 0U);
        EXPECT_EQ(stack.rules(), Rules{});
      },
      [](PlaneDriver& driver) { driver.hw_queued = 2; });
}

TEST_F(PlaneFlowTest, AFlipAtOnceTellsItsPlaneToo) {
  DXGKIT_COVERS("DISP-30");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    driver.on_set = [](size_t, DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3* args) {
      args->ppPlanes[1]->OutputFlags.FlipConvertedToImmediate = 1;
      args->ppPlanes[1]->OutputFlags.PostPresentNeeded = 1;
      return STATUS_SUCCESS;
    };
    ASSERT_EQ(client.show({{0, client.primaries[1], kLow}, {1, client.primaries[2]}}), 0);
    until(stack, [&] { return driver.posts.size() == 1; });
    EXPECT_EQ(driver.posts[0].target, kTarget);
    EXPECT_EQ(driver.posts[0].layer, 1U);
    EXPECT_EQ(driver.posts[0].present_id, driver.last().planes[1].present_id);
    EXPECT_EQ(pending(stack, client), 1U) << "the other plane has not changed";
    driver.vsync();
    EXPECT_EQ(pending(stack, client), 0U);
    EXPECT_EQ(driver.posts.size(), 1U);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneFlowTest, PresentsOverTheLimitWaitOrSayThatTheyWould) {
  DXGKIT_COVERS("SCHED-16");
  for (const int call : {1, 2, 3}) {
    SCOPED_TRACE(call);
    with_planes(k22, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
      ASSERT_EQ(client.limit(0, 2), 0);
      D3DKMT_MULTIPLANE_OVERLAY plane1{};
      D3DKMT_MULTIPLANE_OVERLAY2 plane2{};
      const auto fill = [&](auto& plane, D3DKMT_HANDLE surface) {
        plane.Enabled = TRUE;
        plane.hAllocation = surface;
        plane.PlaneAttributes.SrcRect = plane.PlaneAttributes.DstRect = kAll;
        plane.PlaneAttributes.ClipRect = kAll;
        plane.PlaneAttributes.Rotation = D3DDDI_ROTATION_IDENTITY;
        plane.PlaneAttributes.StretchQuality = DXGKMT_MULTIPLANE_OVERLAY_STRETCH_QUALITY_BILINEAR;
      };
      const auto show = [&](D3DKMT_HANDLE surface, bool wait) {
        if (call == 3) {
          PlaneClient::Args args;
          client.fill({{0, surface}}, &args);
          args.args.Flags.FlipDoNotWait = wait ? 0 : 1;
          return client.call([&] { return D3DKMTPresentMultiPlaneOverlay3(&args.args); });
        }
        const auto old = [&](auto args, auto* plane, auto function) {
          fill(*plane, surface);
          args.hContext = client.context.handle;
          args.FlipInterval = D3DDDI_FLIPINTERVAL_ONE;
          args.Flags.Flip = 1;
          args.Flags.FlipDoNotWait = wait ? 0 : 1;
          args.PresentPlaneCount = 1;
          args.pPresentPlanes = plane;
          if constexpr (requires { args.hAdapter; }) args.hAdapter = client.adapter;
          return client.call([&] { return function(&args); });
        };
        return call == 1 ? old(D3DKMT_PRESENT_MULTIPLANE_OVERLAY{}, &plane1,
                               D3DKMTPresentMultiPlaneOverlay)
                         : old(D3DKMT_PRESENT_MULTIPLANE_OVERLAY2{}, &plane2,
                               D3DKMTPresentMultiPlaneOverlay2);
      };
      EXPECT_EQ(show(client.primaries[1], false), 0);
      EXPECT_EQ(show(client.primaries[2], false), 0);
      stack.settle();
      EXPECT_EQ(pending(stack, client), 2U);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(show(client.primaries[3], false), kBusy);
      EXPECT_EQ(digest(stack, {&client}), before);
      NTSTATUS status = -1;
      Stack::Background third(stack, [&] { status = show(client.primaries[3], true); });
      EXPECT_FALSE(third.finished());
      driver.vsync();
      third.finish();
      EXPECT_EQ(status, 0);
      EXPECT_EQ(pending(stack, client), 2U);
      // A device in error waits no longer.
      Stack::Background fourth(stack, [&] { status = show(client.primaries[4], true); });
      EXPECT_FALSE(fourth.finished());
      D3DKMT_MARKDEVICEASERROR mark{client.device, D3DKMT_DEVICE_ERROR_REASON_GENERIC};
      ASSERT_EQ(client.call([&] { return D3DKMTMarkDeviceAsError(&mark); }), 0);
      fourth.finish();
      EXPECT_EQ(status, kGone);
    });
  }
}

TEST_F(PlaneFlowTest, ASurfaceIsBroughtIntoItsPlaceFirst) {
  DXGKIT_COVERS("DISP-07");
  with_planes(k13, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    const D3DKMT_HANDLE fresh = client.make_primary();  // nobody has used it
    PlaneClient::Args args;
    client.fill({{0, client.primaries[1], kLow}, {1, fresh}}, &args);
    NTSTATUS status = -1;
    Stack::Background showing(stack, [&] {
      status = client.call([&] { return D3DKMTPresentMultiPlaneOverlay3(&args.args); });
    });
    EXPECT_FALSE(showing.finished());
    EXPECT_EQ(driver.flips.presents.size(), 0U) << "the driver is told where it lies";
    showing.finish();
    EXPECT_EQ(status, 0);
    stack.settle();
    ASSERT_EQ(driver.sets.size(), 1U);
    EXPECT_NE(driver.last().planes[1].address, driver.last().planes[0].address);
    EXPECT_EQ(uses(stack, client, fresh), 1U);
    driver.vsync();
    EXPECT_EQ(uses(stack, client, fresh), 0U);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneFlowTest, WhatTheDriverRefusesLeavesNothing) {
  DXGKIT_COVERS("DISP-32", "REND-15");
  struct Row {
    NTSTATUS answer, status;
    bool device_is_lost;
  };
  for (const Row& row : {Row{nt_status(Status::kNoMemory), nt_status(Status::kNoMemory), false},
                         Row{STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER, kInvalid, false},
                         Row{nt_status(Status::kGraphicsGpuExceptionOnDevice),
                             nt_status(Status::kGraphicsGpuExceptionOnDevice), true}}) {
    SCOPED_TRACE(row.answer);
    with_planes(k22, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
      driver.flips.on_present = [&](DXGKARG_PRESENT*) { return row.answer; };
      EXPECT_EQ(client.show({{0, client.primaries[1], kLow}, {1, client.primaries[2]}}),
                row.status);
      EXPECT_EQ(driver.sets.size(), 0U);
      EXPECT_EQ(pending(stack, client), 0U);
      for (const size_t i : {1U, 2U}) EXPECT_EQ(uses(stack, client, client.primaries[i]), 0U);
      EXPECT_EQ(client.state() != D3DKMT_DEVICEEXECUTION_ACTIVE, row.device_is_lost);
      driver.flips.on_present = nullptr;
      if (row.device_is_lost) return;
      // They can leave, and be shown.
      NTSTATUS status = -1;
      stack.blocking([&] { status = client.destroy_allocation(client.primaries[2]); });
      EXPECT_EQ(status, 0);
      EXPECT_EQ(client.show({{0, client.primaries[1], kLow}}), 0);
      EXPECT_EQ(uses(stack, client, client.primaries[1]), 1U);
      driver.vsync();
    });
  }
}

// Each surface has a size of its own, and each rectangle is held against its surface's.
TEST_F(PlaneFlowTest, ASourceRectangleIsOfItsOwnSurface) {
  DXGKIT_COVERS("DISP-32");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    const D3DKMT_HANDLE small = client.primaries[2];
    client.as_client([&] {
      const auto opened = client.process->handles().find<dxgk::OpenedAllocation>(small);
      driver.flips.squares.emplace_back((*opened)->driver_allocation, 32U);
    });
    const auto show = [&](D3DKMT_HANDLE first, D3DKMT_HANDLE second, LONG right) {
      PlaneClient::Args args;
      client.fill({{0, first, kLow}, {1, second, kLow}}, &args);
      args.attributes[1].SrcRect.right = right;
      return client.show_args(args);
    };
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(show(client.primaries[1], small, 33), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(show(small, client.primaries[1], 33), 0);
    driver.vsync();
    EXPECT_EQ(show(client.primaries[3], small, 32), 0);
    driver.vsync();
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneFlowTest, PlanesAreOfOneAdapter) {
  DXGKIT_COVERS("DISP-32", "THUNK-05");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    const SecondAdapter second(stack);
    D3DKMT_HANDLE other = 0;
    second.make_device(client, &other);
    PlaneClient::Args args;
    client.fill({{0, client.primaries[1]}}, &args);
    args.args.hAdapter = other;
    D3DKMT_MULTIPLANE_OVERLAY2 plane{};
    D3DKMT_PRESENT_MULTIPLANE_OVERLAY2 args2{};
    args2.hAdapter = other;
    args2.hContext = client.context.handle;
    args2.Flags.Flip = 1;
    args2.PresentPlaneCount = 1;
    args2.pPresentPlanes = &plane;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.show_args(args), kInvalid);
    EXPECT_EQ(client.call([&] { return D3DKMTPresentMultiPlaneOverlay2(&args2); }), kInvalid);
    args2.hAdapter = client.adapter;
    EXPECT_EQ(client.call([&] { return D3DKMTPresentMultiPlaneOverlay2(&args2); }), 0);
    EXPECT_NE(digest(stack, {&client}), before) << "it only switches a plane off";
    EXPECT_EQ(driver.sets.size(), 1U);
    driver.vsync();
  });
}

TEST_F(PlaneFlowTest, WhoHasPlanesSaysSo) {
  DXGKIT_COVERS("DISP-31");
  for (const UINT planes : {0U, 1U, 2U}) {
    for (const uint32_t version : {k13, k22}) {
      with_planes(
          version,
          [&](Stack&, PlaneDriver&, PlaneClient& client) {
            const auto supported = [&](KMTQUERYADAPTERINFOTYPE type) {
              BOOL answer = 7;
              D3DKMT_QUERYADAPTERINFO query{};
              query.hAdapter = client.adapter;
              query.Type = type;
              query.pPrivateDriverData = &answer;
              query.PrivateDriverDataSize = sizeof answer;
              EXPECT_EQ(client.call([&] { return D3DKMTQueryAdapterInfo(&query); }), 0);
              return answer;
            };
            EXPECT_EQ(supported(KMTQAITYPE_MULTIPLANEOVERLAY_SUPPORT), planes > 1 ? TRUE : FALSE)
                << "the primary alone is none";
            EXPECT_EQ(supported(KMTQAITYPE_MPO3DDI_SUPPORT), version == k22 ? TRUE : FALSE);
            EXPECT_EQ(supported(KMTQAITYPE_MPOKERNELCAPS_SUPPORT), version == k22 ? TRUE : FALSE);
          },
          [&](PlaneDriver& driver) { driver.planes = planes; });
    }
  }
}

TEST_F(PlaneFlowTest, ADriverMayHaveTheFunctionsAndNoPlanes) {
  DXGKIT_COVERS("DISP-32");
  with_planes(
      k22,
      [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(client.show({{0, client.primaries[1]}}), nt_status(Status::kNotSupported));
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(driver.sets.size(), 0U);
      },
      [](PlaneDriver& driver) { driver.planes = 0; });
}

TEST_F(PlaneFlowTest, WhatIsShownAgainIsNotWaitedFor) {
  DXGKIT_COVERS("SUB-37");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    const auto& primaries = client.primaries;
    ASSERT_EQ(client.show({{0, primaries[1]}}), 0);
    driver.vsync();
    ASSERT_EQ(client.show({{0, primaries[2]}}), 0);
    ASSERT_EQ(client.show({{0, primaries[1]}}), 0);
    const size_t before = driver.flips.packets();
    // It comes back to the screen, and stays there: there is no moment to wait for.
    ContextBuffers other = client.make_context();
    ASSERT_EQ(client.render(other, work_on({primaries[1]})), 0);
    stack.drive();
    EXPECT_EQ(driver.flips.packets(), before + 1);
    // The one between leaves with the last of them.
    ASSERT_EQ(client.render(other, work_on({primaries[2]})), 0);
    stack.drive();
    EXPECT_EQ(driver.flips.packets(), before + 1);
    driver.vsync();
    stack.drive();
    EXPECT_EQ(driver.flips.packets(), before + 1);
    driver.vsync();
    stack.drive();
    EXPECT_EQ(driver.flips.packets(), before + 2);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneFlowTest, OnlyWhatPlanesShowEndsThem) {
  DXGKIT_COVERS("DISP-33");
  with_planes(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    const auto& primaries = client.primaries;
    ASSERT_EQ(client.show({{0, primaries[1]}}), 0);
    driver.vsync();
    ASSERT_EQ(client.show({{0, primaries[2]}}), 0);
    ASSERT_EQ(pending(stack, client), 1U);
    const auto destroy = [&](D3DKMT_HANDLE which) {
      NTSTATUS status = -1;
      stack.blocking([&] { status = client.destroy_allocation(which); });
      return status;
    };
    EXPECT_EQ(destroy(primaries[4]), 0);
    EXPECT_EQ(pending(stack, client), 1U) << "it is not on a plane";
    EXPECT_EQ(destroy(primaries[2]), 0);
    EXPECT_EQ(pending(stack, client), 0U) << "it was about to be";
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
