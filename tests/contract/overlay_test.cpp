// Overlays of WDDM 1.x: what the driver is told, where what they show is, and what ends them.
#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/exercise.h"
#include "tests/contract/flip_fixture.h"
#include "tests/contract/umd_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr NTSTATUS kNoHardware = nt_status(Status::kNotSupported);

/// The overlay entries of the scripted driver, and what they were called with.
class OverlayDriver {
 public:
  OverlayDriver(Stack& stack, FlipDriver& driver) {
    current = this;
    const auto caps = stack.miniport.config.caps;
    stack.miniport.config.caps = [this, caps](DXGK_DRIVERCAPS& out) {
      caps(out);
      out.MaxOverlays = most;
    };
    driver.more_table = [this](DRIVER_INITIALIZATION_DATA& table) {
      if (!has_entries) return;
      table.DxgkDdiCreateOverlay = create;
      table.DxgkDdiUpdateOverlay = update;
      table.DxgkDdiFlipOverlay = flip;
      table.DxgkDdiDestroyOverlay = destroy;
    };
  }
  ~OverlayDriver() { current = nullptr; }

  bool has_entries = true;
  UINT most = 2;
  NTSTATUS answer = STATUS_SUCCESS;  // of all but destroy
  NTSTATUS destroy_answer = STATUS_SUCCESS;
  bool names_overlays = true;

  std::vector<DXGKARG_CREATEOVERLAY> creates;
  std::vector<std::pair<HANDLE, DXGKARG_UPDATEOVERLAY>> updates;
  std::vector<std::pair<HANDLE, DXGKARG_FLIPOVERLAY>> flips;
  std::vector<HANDLE> destroyed;
  std::vector<char> data;  // of the last call, its private data
  std::vector<nt::Irql> irqls;

  size_t calls() const { return creates.size() + updates.size() + flips.size(); }
  /// The driver's name of the overlay that it made last.
  HANDLE last() const { return reinterpret_cast<HANDLE>(kFirst + creates.size() - 1); }

 private:
  static constexpr uintptr_t kFirst = 0x7000;
  static inline OverlayDriver* current = nullptr;

  void note(const void* private_data, UINT bytes) {
    irqls.push_back(nt::CallFrame::current().irql());
    const auto* const start = static_cast<const char*>(private_data);
    data.assign(start, start + bytes);
  }
  static NTSTATUS NTAPI create(const HANDLE, DXGKARG_CREATEOVERLAY* args) {
    current->note(args->OverlayInfo.pPrivateDriverData, args->OverlayInfo.PrivateDriverDataSize);
    current->creates.push_back(*args);
    args->hOverlay = current->names_overlays ? current->last() : nullptr;
    return current->answer;
  }
  static NTSTATUS NTAPI update(const HANDLE overlay, const DXGKARG_UPDATEOVERLAY* args) {
    current->note(args->OverlayInfo.pPrivateDriverData, args->OverlayInfo.PrivateDriverDataSize);
    current->updates.emplace_back(overlay, *args);
    return current->answer;
  }
  static NTSTATUS NTAPI flip(const HANDLE overlay, const DXGKARG_FLIPOVERLAY* args) {
    current->note(args->pPrivateDriverData, args->PrivateDriverDataSize);
    current->flips.emplace_back(overlay, *args);
    return current->answer;
  }
  static NTSTATUS NTAPI destroy(const HANDLE overlay) {
    current->irqls.push_back(nt::CallFrame::current().irql());
    current->destroyed.push_back(overlay);
    return current->destroy_answer;
  }
};

/// A client with two surfaces that no screen shows.
class OverlayClient : public FlipClient {
 public:
  OverlayClient(Stack& stack_in, FlipDriver& driver_in) : FlipClient(stack_in, driver_in, 1) {
    for (D3DKMT_HANDLE& surface : surfaces) surface = make_allocation();
  }
  std::array<D3DKMT_HANDLE, 2> surfaces{};
  std::array<char, 4> data = {'d', 'a', 't', 'a'};

  D3DDDI_KERNELOVERLAYINFO info_of(D3DKMT_HANDLE surface) {
    return {.hAllocation = surface,
            .DstRect = {1, 2, 30, 40},
            .SrcRect = {5, 6, 7, 8},
            .pPrivateDriverData = data.data(),
            .PrivateDriverDataSize = static_cast<UINT>(data.size())};
  }
  D3DKMT_CREATEOVERLAY creation() {
    D3DKMT_CREATEOVERLAY args{};
    args.hDevice = device;
    args.OverlayInfo = info_of(surfaces[0]);
    return args;
  }
  template <typename Call>
  NTSTATUS driving(const Call& body) {
    NTSTATUS status = 0;
    stack.blocking([&] { status = call(body); });
    return status;
  }
  NTSTATUS create(D3DKMT_CREATEOVERLAY& args) {
    return driving([&] { return D3DKMTCreateOverlay(&args); });
  }
  D3DKMT_HANDLE make_overlay(size_t surface = 0) {
    D3DKMT_CREATEOVERLAY args = creation();
    args.OverlayInfo = info_of(surfaces.at(surface));
    EXPECT_EQ(create(args), 0);
    return args.hOverlay;
  }
  NTSTATUS update(D3DKMT_HANDLE overlay, D3DKMT_HANDLE surface) {
    const D3DKMT_UPDATEOVERLAY args{
        .hDevice = device, .hOverlay = overlay, .OverlayInfo = info_of(surface)};
    return driving([&] { return D3DKMTUpdateOverlay(&args); });
  }
  NTSTATUS flip_overlay(D3DKMT_HANDLE overlay, D3DKMT_HANDLE surface) {
    const D3DKMT_FLIPOVERLAY args{.hDevice = device,
                                  .hOverlay = overlay,
                                  .hSource = surface,
                                  .pPrivateDriverData = data.data(),
                                  .PrivateDriverDataSize = 2};
    return driving([&] { return D3DKMTFlipOverlay(&args); });
  }
  NTSTATUS destroy_overlay(D3DKMT_HANDLE overlay) {
    const D3DKMT_DESTROYOVERLAY args{.hDevice = device, .hOverlay = overlay};
    return driving([&] { return D3DKMTDestroyOverlay(&args); });
  }
  NTSTATUS state(D3DKMT_HANDLE overlay, BOOLEAN* on) {
    D3DKMT_GETOVERLAYSTATE args{.hDevice = device, .hOverlay = overlay, .OverlayEnabled = 0x55};
    const NTSTATUS status = call([&] { return D3DKMTGetOverlayState(&args); });
    *on = args.OverlayEnabled;
    return status;
  }
  bool is_on(D3DKMT_HANDLE overlay) {
    BOOLEAN on = 0;
    EXPECT_EQ(state(overlay, &on), 0);
    return on == TRUE;
  }
  const dxgk::Allocation& allocation(D3DKMT_HANDLE surface) {
    return *(*process->handles().find<dxgk::OpenedAllocation>(surface))->allocation;
  }
  uint32_t pins(D3DKMT_HANDLE surface) {
    return stack.adapter().core().memory().pin_count(allocation(surface).id);
  }
};

class OverlayTest : public FlipTest {
 protected:
  using Body = std::function<void(Stack&, OverlayDriver&, OverlayClient&)>;
  static void with_overlays(const Body& body,
                            const std::function<void(OverlayDriver&)>& prepare = nullptr) {
    bare([&](Stack& stack) {
      FlipDriver flips(stack);
      OverlayDriver driver(stack, flips);
      if (prepare) prepare(driver);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      OverlayClient client(stack, flips);
      body(stack, driver, client);
    });
  }
};

TEST_F(OverlayTest, TheDriverIsToldWhatIsShownAndWhereItIs) {
  DXGKIT_COVERS("OPT-01", "OPT-02");
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    const D3DKMT_HANDLE overlay = client.make_overlay();
    ASSERT_EQ(driver.creates.size(), 1U);
    const DXGKARG_CREATEOVERLAY& made = driver.creates[0];
    EXPECT_EQ(made.VidPnSourceId, 0U);
    EXPECT_EQ(made.OverlayInfo.hAllocation, client.allocation(client.surfaces[0]).driver_handle);
    const auto place = [&](D3DKMT_HANDLE surface) {
      return stack.adapter().core().memory().placement(client.allocation(surface).id);
    };
    const vidmm::Placement first = place(client.surfaces[0]);
    EXPECT_EQ(made.OverlayInfo.SegmentId, first.segment.value);
    EXPECT_EQ(static_cast<uint64_t>(made.OverlayInfo.PhysicalAddress.QuadPart), first.gpu_address);
    EXPECT_EQ(made.OverlayInfo.DstRect.bottom, 40);
    EXPECT_EQ(made.OverlayInfo.SrcRect.left, 5);
    EXPECT_EQ(driver.data, (std::vector<char>{'d', 'a', 't', 'a'}));
    EXPECT_EQ(client.pins(client.surfaces[0]), 1U);
    EXPECT_TRUE(client.is_on(overlay));

    EXPECT_EQ(client.flip_overlay(overlay, client.surfaces[1]), 0);
    ASSERT_EQ(driver.flips.size(), 1U);
    EXPECT_EQ(driver.flips[0].first, driver.last());
    const DXGKARG_FLIPOVERLAY& flip = driver.flips[0].second;
    EXPECT_EQ(flip.hSource, client.allocation(client.surfaces[1]).driver_handle);
    EXPECT_EQ(flip.SrcSegmentId, place(client.surfaces[1]).segment.value);
    EXPECT_EQ(static_cast<uint64_t>(flip.SrcPhysicalAddress.QuadPart),
              place(client.surfaces[1]).gpu_address);
    EXPECT_EQ(driver.data, (std::vector<char>{'d', 'a'}));
    EXPECT_EQ(client.pins(client.surfaces[0]), 0U) << "it may leave its place again";
    EXPECT_EQ(client.pins(client.surfaces[1]), 1U);

    EXPECT_EQ(client.update(overlay, client.surfaces[1]), 0);
    ASSERT_EQ(driver.updates.size(), 1U);
    EXPECT_EQ(driver.updates[0].first, driver.last());
    EXPECT_EQ(driver.updates[0].second.OverlayInfo.DstRect.right, 30);
    EXPECT_EQ(client.pins(client.surfaces[1]), 1U) << "the same surface as before";

    EXPECT_EQ(client.destroy_overlay(overlay), 0);
    EXPECT_EQ(driver.destroyed, std::vector<HANDLE>{driver.last()});
    EXPECT_EQ(client.pins(client.surfaces[1]), 0U);
    EXPECT_EQ(client.destroy_overlay(overlay), kInvalid);
    for (const nt::Irql irql : driver.irqls) EXPECT_EQ(irql, nt::kPassiveLevel);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// An overlay reads: what it shows lies where reads may go, and is not written back for it.
TEST_F(OverlayTest, WhatIsShownIsReadNotWritten) {
  DXGKIT_COVERS("OPT-01", "ALLOC-08");
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    const D3DKMT_HANDLE surface = client.make_allocation(
        {.size = 64 * kKibibyte, .supported_read = 1U << 0, .supported_write = 1U << 1});
    D3DKMT_CREATEOVERLAY args = client.creation();
    args.OverlayInfo = client.info_of(surface);
    ASSERT_EQ(client.create(args), 0);
    EXPECT_EQ(driver.creates.back().OverlayInfo.SegmentId, 1U);
    EXPECT_EQ(client.destroy_overlay(args.hOverlay), 0);
    const auto transfers = [&] {
      return std::ranges::count_if(stack.miniport.calls().paging, [](const auto& call) {
        return call.args.Operation == DXGK_OPERATION_TRANSFER;
      });
    };
    const auto before = transfers();
    stack.blocking([&] {
      EXPECT_EQ(dxgk::Exercise::on(*stack.system, stack.luid)
                    ->memory()
                    .page_out(*client.process, surface),
                Status::kSuccess);
    });
    EXPECT_EQ(transfers(), before) << "nobody has written it";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(OverlayTest, WrongArgumentsAreRefusedAndNothingChanges) {
  DXGKIT_COVERS("OPT-01", "THUNK-01", "THUNK-04", "THUNK-05");
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    const D3DKMT_HANDLE overlay = client.make_overlay();
    Client other(stack, "other");
    for (int i = 0; i < 9; ++i) static_cast<void>(other.make_device());
    const D3DKMT_HANDLE foreign = other.make_device();
    const size_t calls = driver.calls();
    const Digest before = digest(stack, {&client, &other});
    const auto refused = [&](const char* what,
                             const std::function<void(D3DKMT_CREATEOVERLAY&)>& change) {
      SCOPED_TRACE(what);
      D3DKMT_CREATEOVERLAY args = client.creation();
      change(args);
      args.hOverlay = 0x77;
      EXPECT_EQ(client.create(args), kInvalid);
      EXPECT_EQ(args.hOverlay, 0x77U);
      D3DKMT_UPDATEOVERLAY update{
          .hDevice = args.hDevice, .hOverlay = overlay, .OverlayInfo = args.OverlayInfo};
      if (args.VidPnSourceId != 0) return;
      EXPECT_EQ(client.call([&] { return D3DKMTUpdateOverlay(&update); }), kInvalid);
    };
    refused("no device", [](auto& args) { args.hDevice = 0; });
    refused("another process's device", [&](auto& args) { args.hDevice = foreign; });
    refused("no such source", [](auto& args) { args.VidPnSourceId = 1; });
    refused("no allocation", [](auto& args) { args.OverlayInfo.hAllocation = 0; });
    refused("a device for an allocation",
            [&](auto& args) { args.OverlayInfo.hAllocation = client.device; });
    refused("private data that is not there", [](auto& args) {
      args.OverlayInfo.pPrivateDriverData = reinterpret_cast<void*>(0x10000);
    });
    refused("more private data than any call has",
            [](auto& args) { args.OverlayInfo.PrivateDriverDataSize = (1U << 20) + 1; });
    refused("right before left", [](auto& args) { args.OverlayInfo.DstRect.right = 0; });
    refused("bottom above top", [](auto& args) { args.OverlayInfo.SrcRect.bottom = 0; });
    EXPECT_EQ(client.call([] { return D3DKMTCreateOverlay(nullptr); }), kInvalid);
    EXPECT_EQ(client.flip_overlay(overlay, 0), kInvalid);
    EXPECT_EQ(client.flip_overlay(client.device, client.surfaces[1]), kInvalid);
    EXPECT_EQ(client.destroy_overlay(client.surfaces[0]), kInvalid);
    BOOLEAN on = 0;
    EXPECT_EQ(client.state(0, &on), kInvalid);
    EXPECT_EQ(on, 0x55);
    D3DKMT_FLIPOVERLAY theirs{};
    theirs.hDevice = foreign;
    theirs.hOverlay = overlay;
    theirs.hSource = client.surfaces[1];
    EXPECT_EQ(other.call([&] { return D3DKMTFlipOverlay(&theirs); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client, &other}), before);
    EXPECT_EQ(driver.calls(), calls);
    EXPECT_EQ(client.pins(client.surfaces[0]), 1U);

    // A device that the overlay is not of, of the same process.
    const D3DKMT_HANDLE second = client.make_device();
    const D3DKMT_DESTROYOVERLAY destroy{.hDevice = second, .hOverlay = overlay};
    EXPECT_EQ(client.call([&] { return D3DKMTDestroyOverlay(&destroy); }), kInvalid);
    EXPECT_TRUE(client.is_on(overlay));
    EXPECT_EQ(driver.destroyed.size(), 0U);
  });
}

TEST_F(OverlayTest, ThereAreAsManyAsTheCapsAllow) {
  DXGKIT_COVERS("OPT-01");
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    const D3DKMT_HANDLE first = client.make_overlay();
    client.make_overlay(1);
    const Digest before = digest(stack, {&client});
    D3DKMT_CREATEOVERLAY args = client.creation();
    EXPECT_EQ(client.create(args), nt_status(Status::kInsufficientResources));
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(driver.creates.size(), 2U);
    EXPECT_EQ(client.destroy_overlay(first), 0);
    EXPECT_EQ(client.create(args), 0);
  });
  for (const bool without_entries : {false, true}) {
    with_overlays(
        [](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
          const Digest before = digest(stack, {&client});
          D3DKMT_CREATEOVERLAY args = client.creation();
          EXPECT_EQ(client.create(args), kNoHardware);
          EXPECT_EQ(digest(stack, {&client}), before);
          EXPECT_EQ(driver.creates.size(), 0U);
        },
        [&](OverlayDriver& driver) {
          driver.has_entries = !without_entries;
          driver.most = without_entries ? 2 : 0;
        });
  }
}

TEST_F(OverlayTest, WhatAnOverlayShowsIsNotOffered) {
  DXGKIT_COVERS("OPT-02", "ALLOC-44");
  with_overlays([](Stack& stack, OverlayDriver&, OverlayClient& client) {
    D3DKMT_OFFERALLOCATIONS offer{};
    offer.hDevice = client.device;
    offer.NumAllocations = 1;
    offer.Priority = D3DKMT_OFFER_PRIORITY_LOW;
    const auto offered = [&](size_t surface) {
      offer.HandleList = &client.surfaces.at(surface);
      return client.call([&] { return D3DKMTOfferAllocations(&offer); });
    };
    const D3DKMT_HANDLE overlay = client.make_overlay();
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(offered(0), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(offered(1), 0);
    EXPECT_EQ(client.flip_overlay(overlay, client.surfaces[1]), kInvalid) << "it is offered";
    EXPECT_EQ(client.pins(client.surfaces[0]), 1U);
    EXPECT_EQ(client.destroy_overlay(overlay), 0);
    EXPECT_EQ(offered(0), 0) << "nothing shows it any more";
  });
}

TEST_F(OverlayTest, TheEndOfItsSurfaceOrOfItsModeTurnsAnOverlayOff) {
  DXGKIT_COVERS("OPT-03");
  struct Row {
    const char* what;
    std::function<void(Stack&, OverlayClient&)> end;
  };
  const Row rows[] = {
      {"the allocation is destroyed",
       [](Stack& stack, OverlayClient& client) {
         stack.blocking([&] { EXPECT_EQ(client.destroy_allocation(client.surfaces[0]), 0); });
         stack.drive();
         EXPECT_FALSE(client.process->handles()
                          .find<dxgk::OpenedAllocation>(client.surfaces[0])
                          .has_value());
       }},
      {"another mode",
       [](Stack& stack, OverlayClient& client) {
         client.driver.made = 32;
         stack.blocking([&] {
           EXPECT_EQ(dxgk::Displays(*stack.system).set_mode(stack.luid, 0, {32, 32}),
                     Status::kSuccess);
         });
       }},
      {"a sleep",
       [](Stack& stack, OverlayClient&) {
         stack.blocking([&] {
           EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD3).has_value());
           EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
         });
       }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    with_overlays([&](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
      const D3DKMT_HANDLE overlay = client.make_overlay();
      row.end(stack, client);
      EXPECT_EQ(driver.destroyed, std::vector<HANDLE>{driver.last()});
      EXPECT_FALSE(client.is_on(overlay));
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(client.flip_overlay(overlay, client.surfaces[1]), kInvalid);
      EXPECT_EQ(client.update(overlay, client.surfaces[1]), kInvalid);
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_EQ(driver.calls(), 1U);
      EXPECT_EQ(client.destroy_overlay(overlay), 0);
      EXPECT_EQ(driver.destroyed.size(), 1U) << "the driver's is gone";
      D3DKMT_CREATEOVERLAY args = client.creation();
      args.OverlayInfo = client.info_of(client.surfaces[1]);
      EXPECT_EQ(client.create(args), 0) << "there is room again";
      EXPECT_EQ(client.destroy_overlay(args.hOverlay), 0);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

TEST_F(OverlayTest, AnOverlayEndsWithItsDeviceItsProcessAndItsAdapter) {
  DXGKIT_COVERS("OPT-03");
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    const D3DKMT_HANDLE overlay = client.make_overlay();
    stack.blocking([&] { EXPECT_EQ(client.destroy_device(client.device), 0); });
    EXPECT_EQ(driver.destroyed, std::vector<HANDLE>{driver.last()});
    EXPECT_FALSE(client.process->handles().find<dxgk::Overlay>(overlay).has_value());
  });
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    client.make_overlay();
    stack.blocking([&] { client.end(); });
    EXPECT_EQ(driver.destroyed, std::vector<HANDLE>{driver.last()});
  });
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    const D3DKMT_HANDLE overlay = client.make_overlay();
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    EXPECT_EQ(driver.destroyed, std::vector<HANDLE>{driver.last()});
    BOOLEAN on = 0;
    EXPECT_EQ(client.state(overlay, &on), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(client.destroy_overlay(overlay), 0);
    EXPECT_EQ(driver.destroyed.size(), 1U);
  });
}

TEST_F(OverlayTest, ARefusalOfTheDriverLeavesWhatWasShown) {
  DXGKIT_COVERS("OPT-01", "OPT-05");
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    const D3DKMT_HANDLE overlay = client.make_overlay();
    for (const Status documented :
         {Status::kInvalidParameter, Status::kNoMemory, Status::kGraphicsDriverMismatch}) {
      driver.answer = nt_status(documented);
      const size_t handles = client.handles();
      D3DKMT_CREATEOVERLAY args = client.creation();
      EXPECT_EQ(client.create(args), nt_status(documented));
      EXPECT_EQ(client.update(overlay, client.surfaces[1]), nt_status(documented));
      EXPECT_EQ(client.flip_overlay(overlay, client.surfaces[1]), nt_status(documented));
      EXPECT_EQ(client.handles(), handles);
    }
    driver.answer = nt_status(Status::kInsufficientResources);
    EXPECT_EQ(client.update(overlay, client.surfaces[1]),
              nt_status(Status::kInsufficientResources));
    D3DKMT_CREATEOVERLAY another = client.creation();
    EXPECT_EQ(client.create(another), nt_status(Status::kInsufficientResources));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    EXPECT_EQ(client.flip_overlay(overlay, client.surfaces[1]), kInvalid)
        << "DxgkDdiFlipOverlay asks for no bandwidth";
    EXPECT_EQ(stack.only_finding().rule, "OPT-05");
    EXPECT_EQ(stack.only_finding().ddi, "DxgkDdiFlipOverlay");
    EXPECT_EQ(client.pins(client.surfaces[0]), 1U);
    EXPECT_EQ(client.pins(client.surfaces[1]), 0U);
    EXPECT_TRUE(client.is_on(overlay));
    driver.answer = STATUS_SUCCESS;
  });
}

TEST_F(OverlayTest, AnOverlayHasANameAndGoesWhenItIsTold) {
  DXGKIT_COVERS("OPT-04", "OPT-06");
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    driver.names_overlays = false;
    const size_t handles = client.handles();
    D3DKMT_CREATEOVERLAY args = client.creation();
    EXPECT_EQ(client.create(args), kInvalid);
    EXPECT_EQ(stack.only_finding().rule, "OPT-04");
    EXPECT_EQ(client.handles(), handles);
    EXPECT_EQ(client.pins(client.surfaces[0]), 0U);
  });
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    const D3DKMT_HANDLE overlay = client.make_overlay();
    driver.destroy_answer = nt_status(Status::kUnsuccessful);
    EXPECT_EQ(client.destroy_overlay(overlay), 0);
    EXPECT_EQ(stack.only_finding().rule, "OPT-06");
    EXPECT_EQ(client.pins(client.surfaces[0]), 0U);
    driver.destroy_answer = STATUS_SUCCESS;
  });
}

// The callbacks of user-mode drivers, with the result that their pages name for a lack of hardware.
TEST_F(OverlayTest, UserModeDriversHaveThemToo) {
  DXGKIT_COVERS("OPT-01", "UMD-02");
  with_overlays([](Stack& stack, OverlayDriver& driver, OverlayClient& client) {
    UserDriver user(client);
    D3DDDICB_CREATEOVERLAY create{};
    create.OverlayInfo = client.info_of(client.surfaces[0]);
    EXPECT_EQ(user.waiting(user.table().pfnCreateOverlayCb, &create), S_OK);
    EXPECT_TRUE(client.is_on(create.hKernelOverlay));
    const D3DDDICB_UPDATEOVERLAY update{.hKernelOverlay = create.hKernelOverlay,
                                        .OverlayInfo = client.info_of(client.surfaces[1])};
    EXPECT_EQ(user.waiting(user.table().pfnUpdateOverlayCb, &update), S_OK);
    const D3DDDICB_FLIPOVERLAY flip{.hKernelOverlay = create.hKernelOverlay,
                                    .hSource = client.surfaces[0],
                                    .pPrivateDriverData = nullptr,
                                    .PrivateDriverDataSize = 0};
    EXPECT_EQ(user.waiting(user.table().pfnFlipOverlayCb, &flip), S_OK);
    EXPECT_EQ(driver.updates.size() + driver.flips.size(), 2U);
    driver.answer = nt_status(Status::kInsufficientResources);
    EXPECT_EQ(user.waiting(user.table().pfnUpdateOverlayCb, &update), D3DDDIERR_NOTAVAILABLE);
    driver.answer = STATUS_SUCCESS;
    const D3DDDICB_DESTROYOVERLAY destroy{.hKernelOverlay = create.hKernelOverlay};
    EXPECT_EQ(user.waiting(user.table().pfnDestroyOverlayCb, &destroy), S_OK);
    EXPECT_EQ(driver.destroyed.size(), 1U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
