// What a video output is told beside its mode: timings from WDDM 2.2 on, gamma ramps, kinds of
// content, copy protection, monitors that come and go.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <climits>
#include <cmath>
#include <cstring>
#include <deque>
#include <utility>

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/display_exercise.h"
#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

using Rules = std::vector<std::string>;

constexpr uint32_t k20 = DXGKDDI_INTERFACE_VERSION_WDDM2_0, k22 = DXGKDDI_INTERFACE_VERSION_WDDM2_2;
constexpr NTSTATUS kAlreadyComplete = 0xFF;

/// A driver for WDDM 2.2 with functions for single outputs. One at a time.
class TargetDriver {
 public:
  explicit TargetDriver(Stack& stack, uint32_t version = k22, uint32_t sources = 1)
      : version_(set_version(stack, version)), flips(stack, sources) {
    current = this;
    const auto before = stack.miniport.config.caps;
    stack.miniport.config.caps = [this, before](DXGK_DRIVERCAPS& caps) {
      before(caps);
      caps.GammaRampCaps.Gamma_Rgb256x3x16 = ramp_cap ? 1 : 0;
    };
    flips.more_table = [this](DRIVER_INITIALIZATION_DATA& table) {
      if (version_ < k22) return;
      if (timings) table.DxgkDdiSetTimingsFromVidPn = set_timings;
      if (gamma) table.DxgkDdiSetTargetGamma = set_gamma;
      table.DxgkDdiSetTargetContentType = set_content;
      table.DxgkDdiSetTargetAnalogCopyProtection = set_protection;
      table.DxgkDdiUpdateMonitorLinkInfo = update_link;
      table.DxgkDdiDisplayDetectControl = detect;
      table.DxgkDdiQueryConnectionChange = query_change;
    };
  }
  ~TargetDriver() { current = nullptr; }

 private:
  const uint32_t version_;

 public:
  // --- what the driver is, before the start
  bool timings = true, gamma = true, ramp_cap = true;
  // --- what it answers
  NTSTATUS timing_answer = STATUS_SUCCESS;
  DXGK_CONNECTION_STATUS state = MonitorStatusConnected;
  uint32_t state_of = 0;  // 0: of each target its own
  bool connection_changes = false;
  std::deque<DXGK_CONNECTION_CHANGE> changes;

  FlipDriver flips;

  // --- what happened
  struct Timing {
    std::vector<DXGK_SET_TIMING_PATH_INFO> paths;
    nt::Irql irql = 0;
  };
  std::vector<Timing> set;
  struct Ramp {
    UINT target = 0;
    D3DDDI_GAMMARAMP_TYPE type{};
    std::vector<std::byte> table;
  };
  std::vector<Ramp> ramps;
  std::vector<DXGKARG_SETTARGETCONTENTTYPE> contents;
  std::vector<DXGKARG_SETTARGETANALOGCOPYPROTECTION> protections;
  std::vector<UINT> links;
  std::vector<DXGKARG_DISPLAYDETECTCONTROL> detections;
  size_t queries = 0;

 private:
  static inline TargetDriver* current = nullptr;
  static uint32_t set_version(Stack& stack, uint32_t version) {
    stack.miniport.config.version = version;
    return version;
  }
  static NTSTATUS NTAPI set_timings(const HANDLE, DXGKARG_SETTIMINGSFROMVIDPN* args) {
    EXPECT_NE(args->hFunctionalVidPn, nullptr);
    Timing timing{.paths = {}, .irql = nt::CallFrame::current().irql()};
    for (UINT i = 0; i < args->PathCount; ++i) {
      DXGK_SET_TIMING_PATH_INFO& info = args->pSetTimingPathInfo[i];
      timing.paths.push_back(info);
      info.TargetState.TargetId =
          (current->state_of != 0 ? current->state_of : info.VidPnTargetId) & 0xFFFFFF;
      info.TargetState.ConnectionStatus = current->state;
    }
    args->pResultsFlags->ConnectionStatusChanges = current->connection_changes ? 1 : 0;
    current->set.push_back(timing);
    return current->timing_answer;
  }
  static NTSTATUS NTAPI set_gamma(const HANDLE, const DXGKARG_SETTARGETGAMMA* args) {
    Ramp ramp{.target = args->TargetId, .type = args->GammaRamp.Type, .table = {}};
    const auto* bytes = static_cast<const std::byte*>(args->GammaRamp.Data.pRaw);
    if (bytes != nullptr) ramp.table.assign(bytes, bytes + args->GammaRamp.DataSize);
    current->ramps.push_back(ramp);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI set_content(const HANDLE, const DXGKARG_SETTARGETCONTENTTYPE* args) {
    current->contents.push_back(*args);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI set_protection(const HANDLE,
                                       const DXGKARG_SETTARGETANALOGCOPYPROTECTION* args) {
    current->protections.push_back(*args);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI update_link(const HANDLE, DXGKARG_UPDATEMONITORLINKINFO* args) {
    current->links.push_back(args->VideoPresentTargetId);
    args->MonitorLinkInfo.Capabilities.Value = 1;
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI detect(const HANDLE, const DXGKARG_DISPLAYDETECTCONTROL* args) {
    current->detections.push_back(*args);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI query_change(const HANDLE, DXGKARG_QUERYCONNECTIONCHANGE* args) {
    ++current->queries;
    if (current->changes.empty()) return kAlreadyComplete;
    args->ConnectionChange = current->changes.front();
    current->changes.pop_front();
    return STATUS_SUCCESS;
  }
};

DXGK_CONNECTION_CHANGE change_of(uint64_t id, DXGK_CONNECTION_STATUS status) {
  DXGK_CONNECTION_CHANGE change{};
  change.ConnectionChangeId = id;
  change.TargetId = kTarget;
  change.ConnectionStatus = status;
  return change;
}

class TargetTest : public ContractTest {
 protected:
  /// A driver of this version and a client that shows its first primary.
  static void with_targets(const std::function<void(Stack&, TargetDriver&, FlipClient&)>& body,
                           const std::function<void(TargetDriver&)>& prepare = nullptr,
                           uint32_t version = k22) {
    bare([&](Stack& stack) {
      TargetDriver driver(stack, version);
      if (prepare) prepare(driver);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        FlipClient client(stack, driver.flips);
        body(stack, driver, client);
      }
    });
  }
  static vidpn::Path path(Stack& stack) {
    return stack.adapter().floor().display->active_network().paths.front();
  }
  /// Sets a mode with another size.
  static Status set_other_mode(Stack& stack, TargetDriver& driver) {
    driver.flips.made = 32;
    Status status = Status::kSuccess;
    stack.blocking([&] {
      status = stack.adapter().floor().display->set_mode(0, {.width = 32, .height = 32});
    });
    return status;
  }
  /// The driver indicates that there are changes.
  static void indicate(Stack& stack) {
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    nt::with_frame(stack.kernel, nt::kPassiveLevel, [&] {
      EXPECT_EQ(callbacks.DxgkCbIndicateConnectorChange(callbacks.DeviceHandle), 0);
    });
  }
  static Status update(Stack& stack, const vidpn::Path& changed) {
    Status status = Status::kSuccess;
    stack.blocking([&] { status = stack.adapter().floor().display->modes().update_path(changed); });
    return status;
  }
};

TEST_F(TargetTest, TimingsTakeThePlaceOfTheCommit) {
  DXGKIT_COVERS("DISP-35");
  for (const bool timings : {true, false}) {
    with_targets(
        [&](Stack& stack, TargetDriver& driver, FlipClient&) {
          EXPECT_EQ(driver.flips.display.count("DxgkDdiCommitVidPn") == 0, timings);
          ASSERT_EQ(driver.set.empty(), !timings);
          if (!timings) return;
          const TargetDriver::Timing& first = driver.set.front();
          EXPECT_EQ(first.irql, nt::kPassiveLevel);
          ASSERT_EQ(first.paths.size(), 1U);
          EXPECT_EQ(first.paths[0].VidPnTargetId, kTarget);
          EXPECT_EQ(first.paths[0].Input.VidPnPathUpdates, DXGK_PATH_UPDATE_ADDED);
          EXPECT_EQ(first.paths[0].Input.Active, 1U);
          // Another mode: the same path, modified. Unplugged: it is removed.
          const size_t before = driver.set.size();
          ASSERT_EQ(set_other_mode(stack, driver), Status::kSuccess);
          ASSERT_EQ(driver.set.size(), before + 1);
          EXPECT_EQ(driver.set.back().paths[0].Input.VidPnPathUpdates, DXGK_PATH_UPDATE_MODIFIED);
          driver.state = MonitorStatusConnected;
          driver.changes.push_back(change_of(1, MonitorStatusDisconnected));
          stack.blocking([&] {
            indicate(stack);
            while (driver.set.size() == before + 1) stack.settle();
          });
          EXPECT_EQ(driver.set.back().paths[0].Input.VidPnPathUpdates, DXGK_PATH_UPDATE_REMOVED);
          EXPECT_EQ(driver.set.back().paths[0].Input.Active, 0U);
          EXPECT_EQ(stack.rules(), Rules{});
        },
        [&](TargetDriver& driver) { driver.timings = timings; });
  }
}

// Of two sources, the one that is committed once more is modified, and the other one is not.
TEST_F(TargetTest, ACommitOnceMoreIsOfItsSourceOnly) {
  DXGKIT_COVERS("DISP-35");
  constexpr uint32_t kOther = 3;
  bare([](Stack& stack) {
    TargetDriver driver(stack, k22, 2);
    driver.flips.display.config.sources = stack.miniport.config.children = 2;
    driver.flips.display.config.children = {{.uid = kTarget}, {.uid = kOther}};
    ASSERT_EQ(stack.start(), Status::kSuccess);
    auto exercise = dxgk::DisplayExercise::on(*stack.system, stack.luid);
    ASSERT_TRUE(exercise.has_value());
    for (const uint32_t source : {0U, 1U}) {
      driver.set.clear();
      stack.blocking(
          [&] { EXPECT_EQ(exercise->commit_again(source, 0).status, Status::kSuccess); });
      ASSERT_EQ(driver.set.size(), 1U);
      ASSERT_EQ(driver.set[0].paths.size(), 2U);
      for (const DXGK_SET_TIMING_PATH_INFO& one : driver.set[0].paths) {
        EXPECT_EQ(one.Input.VidPnPathUpdates, one.VidPnTargetId == (source == 0 ? kTarget : kOther)
                                                  ? DXGK_PATH_UPDATE_MODIFIED
                                                  : DXGK_PATH_UPDATE_UNMODIFIED);
      }
    }
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(TargetTest, ADriverBelowWddm22IsAskedToCommit) {
  DXGKIT_COVERS("DISP-35");
  with_targets(
      [](Stack& stack, TargetDriver& driver, FlipClient&) {
        EXPECT_NE(driver.flips.display.count("DxgkDdiCommitVidPn"), 0U);
        EXPECT_TRUE(driver.set.empty());
        EXPECT_EQ(stack.rules(), Rules{});
      },
      nullptr, k20);
}

TEST_F(TargetTest, APathThatCannotBeSetFailsTheModeOnly) {
  DXGKIT_COVERS("DISP-35");
  with_targets([](Stack& stack, TargetDriver& driver, FlipClient&) {
    auto& display = *stack.adapter().floor().display;
    const auto shown = display.active_network();
    driver.state = LinkConfigurationFailed;
    EXPECT_EQ(set_other_mode(stack, driver), vidpn::kVidPnTopologyNotSupported);
    EXPECT_EQ(display.active_network().pinned_source_mode(0)->surface,
              shown.pinned_source_mode(0)->surface);
    EXPECT_EQ(driver.set.back().paths[0].Input.VidPnPathUpdates, DXGK_PATH_UPDATE_MODIFIED)
        << "back to what was shown";
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(TargetTest, TimingsSayWhatBecameOfEachTarget) {
  DXGKIT_COVERS("DISP-34");
  for (const bool other : {false, true}) {
    with_targets([&](Stack& stack, TargetDriver& driver, FlipClient&) {
      if (other) {
        driver.state_of = kTarget + 1;
      } else {
        driver.state = ConnectionStatusUninitialized;
      }
      static_cast<void>(set_other_mode(stack, driver));
      ASSERT_FALSE(stack.rules().empty());
      EXPECT_EQ(stack.rules().front(), "DISP-34");
    });
  }
}

TEST_F(TargetTest, TheClientsRampReachesTheOutput) {
  DXGKIT_COVERS("DISP-36");
  for (const bool own_function : {true, false}) {
    with_targets(
        [&](Stack& stack, TargetDriver& driver, FlipClient& client) {
          D3DDDI_GAMMA_RAMP_RGB256x3x16 ramp{};
          for (uint32_t i = 0; i < 256; ++i) {
            ramp.Red[i] = static_cast<USHORT>(i * 200);
            ramp.Green[i] = static_cast<USHORT>(i * 100);
            ramp.Blue[i] = static_cast<USHORT>(65535 - i);
          }
          D3DKMT_SETGAMMARAMP args{};
          args.hDevice = client.device;
          args.Type = D3DDDI_GAMMARAMP_RGB256x3x16;
          args.pGammaRampRgb256x3x16 = &ramp;
          args.Size = sizeof ramp;
          const auto set = [&] {
            NTSTATUS status = -1;
            stack.blocking(
                [&] { status = client.call([&] { return D3DKMTSetGammaRamp(&args); }); });
            return status;
          };
          const size_t updates = driver.flips.display.count("DxgkDdiUpdateActiveVidPnPresentPath");
          ASSERT_EQ(set(), 0);
          const auto expected =
              std::vector<std::byte>(reinterpret_cast<const std::byte*>(&ramp),
                                     reinterpret_cast<const std::byte*>(&ramp) + sizeof ramp);
          EXPECT_EQ(path(stack).gamma, expected);
          EXPECT_EQ(path(stack).gamma_type, 2U);
          EXPECT_EQ(driver.flips.display.count("DxgkDdiUpdateActiveVidPnPresentPath"),
                    updates + (own_function ? 0 : 1));
          ASSERT_EQ(driver.ramps.size(), own_function ? 1U : 0U);
          if (own_function) {
            EXPECT_EQ(driver.ramps[0].target, kTarget);
            EXPECT_EQ(driver.ramps[0].type, D3DDDI_GAMMARAMP_RGB256x3x16);
            EXPECT_EQ(driver.ramps[0].table, expected);
          }
          // Scale and offset go on top of the ramp, and not on top of each other.
          D3DKMT_ADJUSTFULLSCREENGAMMA adjust{};
          adjust.hAdapter = client.adapter;
          adjust.Scale = {0.5F, 1.0F, 2.0F};
          adjust.Offset = {0.0F, 0.25F, 0.0F};
          const auto adjust_now = [&] {
            NTSTATUS status = -1;
            stack.blocking([&] {
              status = client.call([&] { return D3DKMTAdjustFullscreenGamma(&adjust); });
            });
            return status;
          };
          for (int times = 0; times < 2; ++times) {
            ASSERT_EQ(adjust_now(), 0);
            USHORT table[3][256];
            ASSERT_EQ(path(stack).gamma.size(), sizeof table);
            std::memcpy(table, path(stack).gamma.data(), sizeof table);
            EXPECT_EQ(table[0][100], 10000);
            EXPECT_NEAR(table[1][100], 10000 + 16384, 1);
            EXPECT_EQ(table[2][100], 65535) << "inside the range";
          }
          const Digest before = digest(stack, {&client});
          const auto kept = path(stack);
          args.Size = sizeof ramp - 1;
          EXPECT_EQ(set(), kInvalid);
          args.Size = sizeof ramp;
          args.pGammaRampRgb256x3x16 = nullptr;
          EXPECT_EQ(set(), kInvalid);
          args.pGammaRampRgb256x3x16 = &ramp;
          args.Type = D3DDDI_GAMMARAMP_UNINITIALIZED;
          EXPECT_EQ(set(), kInvalid);
          args.Type = D3DDDI_GAMMARAMP_RGB256x3x16;
          args.VidPnSourceId = 1;
          EXPECT_EQ(set(), kInvalid);
          args.VidPnSourceId = 0;
          adjust.VidPnSourceId = 1;
          EXPECT_EQ(adjust_now(), kInvalid);
          adjust.VidPnSourceId = 0;
          for (float* const value :
               {&adjust.Scale.Red, &adjust.Scale.Green, &adjust.Scale.Blue, &adjust.Offset.Red,
                &adjust.Offset.Green, &adjust.Offset.Blue}) {
            for (const float bad : {NAN, INFINITY, -INFINITY}) {
              const float good = std::exchange(*value, bad);
              EXPECT_EQ(adjust_now(), kInvalid);
              *value = good;
            }
          }
          EXPECT_EQ(digest(stack, {&client}), before);
          EXPECT_EQ(path(stack), kept);
          // The hardware's own ramp takes the place of the client's; the scale stays.
          args.Type = D3DDDI_GAMMARAMP_DEFAULT;
          ASSERT_EQ(set(), 0);
          USHORT table[3][256];
          ASSERT_EQ(path(stack).gamma.size(), sizeof table);
          std::memcpy(table, path(stack).gamma.data(), sizeof table);
          EXPECT_NEAR(table[0][100], 100 * 257 / 2, 1);
          adjust.Scale = {1, 1, 1};
          adjust.Offset = {0, 0, 0};
          ASSERT_EQ(adjust_now(), 0);
          EXPECT_NE(path(stack).gamma_type, 2U) << "nothing differs from the hardware's own";
          // The owner of the source only.
          ASSERT_EQ(client.disown(), 0);
          EXPECT_EQ(set(), kInvalid);
          EXPECT_EQ(adjust_now(), kInvalid);
          ASSERT_EQ(client.own(D3DKMT_VIDPNSOURCEOWNER_EMULATED), 0);
          EXPECT_EQ(adjust_now(), kInvalid) << "it does not show itself alone";
          EXPECT_EQ(stack.rules(), Rules{});
        },
        [&](TargetDriver& driver) { driver.gamma = own_function; });
  }
}

TEST_F(TargetTest, ACurveBecomesATable) {
  DXGKIT_COVERS("DISP-36");
  with_targets([](Stack& stack, TargetDriver& driver, FlipClient& client) {
    auto ramp = std::make_unique<D3DDDI_GAMMA_RAMP_DXGI_1>();
    ramp->Scale = {1.0F, 0.5F, 1.0F};
    ramp->Offset = {0.0F, 0.0F, 0.5F};
    for (size_t i = 0; i < std::size(ramp->GammaCurve); ++i) {
      const float level = static_cast<float>(i) / 1024.0F;
      ramp->GammaCurve[i] = {level, level, level};
    }
    D3DKMT_SETGAMMARAMP args{};
    args.hDevice = client.device;
    args.Type = D3DDDI_GAMMARAMP_DXGI_1;
    args.pGammaRampDXGI1 = ramp.get();
    args.Size = sizeof *ramp;
    const auto set = [&] {
      NTSTATUS status = -1;
      stack.blocking([&] { status = client.call([&] { return D3DKMTSetGammaRamp(&args); }); });
      return status;
    };
    ASSERT_EQ(set(), 0);
    USHORT table[3][256];
    ASSERT_EQ(path(stack).gamma.size(), sizeof table);
    std::memcpy(table, path(stack).gamma.data(), sizeof table);
    for (int i = 0; i < 256; ++i) {
      EXPECT_NEAR(table[0][i], i * 257, 1);
      EXPECT_NEAR(table[1][i], i * 257 / 2, 1);
      EXPECT_NEAR(table[2][i], std::min(65535, i * 257 + 32768), 1);
    }
    const Digest before = digest(stack, {&client});
    for (const UINT size : {0U, UINT{sizeof *ramp} - 1, UINT{sizeof *ramp} + 1}) {
      args.Size = size;
      EXPECT_EQ(set(), kInvalid);
    }
    args.Size = sizeof *ramp;
    args.pGammaRampDXGI1 = nullptr;
    EXPECT_EQ(set(), kInvalid);
    args.pGammaRampDXGI1 = ramp.get();
    EXPECT_EQ(digest(stack, {&client}), before);
    // Without a ramp the output has its own.
    args.Type = D3DDDI_GAMMARAMP_DEFAULT;
    ASSERT_EQ(set(), 0);
    EXPECT_TRUE(path(stack).gamma.empty());
    EXPECT_EQ(path(stack).gamma_type, 1U);
    EXPECT_EQ(driver.ramps.back().type, D3DDDI_GAMMARAMP_DEFAULT);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

// Without the cap an output has its own ramp only: what changes nothing is no ramp.
TEST_F(TargetTest, WithoutTheCapOnlyTheOutputsOwnRampIsSet) {
  DXGKIT_COVERS("DISP-36");
  with_targets(
      [](Stack& stack, TargetDriver& driver, FlipClient& client) {
        D3DDDI_GAMMA_RAMP_RGB256x3x16 ramp{};
        D3DKMT_SETGAMMARAMP args{};
        args.hDevice = client.device;
        args.pGammaRampRgb256x3x16 = &ramp;
        const auto set = [&](D3DDDI_GAMMARAMP_TYPE type, UINT size) {
          args.Type = type;
          args.Size = size;
          NTSTATUS status = -1;
          stack.blocking([&] { status = client.call([&] { return D3DKMTSetGammaRamp(&args); }); });
          return status;
        };
        D3DKMT_ADJUSTFULLSCREENGAMMA adjust{};
        adjust.hAdapter = client.adapter;
        const auto adjust_by = [&](float scale) {
          adjust.Scale = {1.0F, 1.0F, scale};
          NTSTATUS status = -1;
          stack.blocking(
              [&] { status = client.call([&] { return D3DKMTAdjustFullscreenGamma(&adjust); }); });
          return status;
        };
        const Digest before = digest(stack, {&client});
        const auto kept = path(stack);
        EXPECT_EQ(set(D3DDDI_GAMMARAMP_RGB256x3x16, sizeof ramp), kInvalid);
        EXPECT_EQ(adjust_by(0.5F), kInvalid);
        EXPECT_EQ(set(D3DDDI_GAMMARAMP_DEFAULT, 0), 0);
        EXPECT_EQ(adjust_by(1.0F), 0);
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(path(stack), kept);
        EXPECT_TRUE(driver.ramps.empty());
        EXPECT_EQ(stack.rules(), Rules{});
      },
      [](TargetDriver& driver) { driver.ramp_cap = false; });
}

TEST_F(TargetTest, WhatAloneChangesGoesToItsOwnFunction) {
  DXGKIT_COVERS("DISP-36");
  with_targets([](Stack& stack, TargetDriver& driver, FlipClient&) {
    const auto updates = [&] {
      return driver.flips.display.count("DxgkDdiUpdateActiveVidPnPresentPath");
    };
    const size_t before = updates();
    vidpn::Path changed = path(stack);
    changed.content = 2;
    ASSERT_EQ(update(stack, changed), Status::kSuccess);
    ASSERT_EQ(driver.contents.size(), 1U);
    EXPECT_EQ(driver.contents[0].TargetId, kTarget);
    EXPECT_EQ(static_cast<UINT>(driver.contents[0].ContentType), 2U);
    changed.copy_protection = 2;
    changed.aps_trigger_bits = 1;
    ASSERT_EQ(update(stack, changed), Status::kSuccess);
    ASSERT_EQ(driver.protections.size(), 1U);
    EXPECT_EQ(driver.protections[0].APSTriggerBits, 1U);
    EXPECT_EQ(updates(), before);
    changed.content = 1;
    changed.copy_protection = 1;
    ASSERT_EQ(update(stack, changed), Status::kSuccess);
    EXPECT_EQ(updates(), before + 1) << "two things at once";
    EXPECT_EQ(path(stack), changed);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(TargetTest, MonitorsAreAskedForTheirLinkAndWatched) {
  DXGKIT_COVERS("DISP-37");
  with_targets([](Stack& stack, TargetDriver& driver, FlipClient& client) {
    EXPECT_EQ(driver.links, std::vector<UINT>{kTarget});
    ASSERT_EQ(driver.detections.size(), 1U);
    EXPECT_EQ(driver.detections[0].Type, DXGK_DDCT_ENABLEHPD);
    D3DKMT_POLLDISPLAYCHILDREN poll{};
    poll.hAdapter = client.adapter;
    poll.PollInterruptible = 1;
    poll.NonDestructiveOnly = 1;
    const size_t asked = driver.flips.display.count("DxgkDdiQueryChildStatus");
    NTSTATUS status = -1;
    stack.blocking([&] { status = client.call([&] { return D3DKMTPollDisplayChildren(&poll); }); });
    ASSERT_EQ(status, 0);
    ASSERT_EQ(driver.detections.size(), 2U);
    EXPECT_EQ(driver.detections[1].Type, DXGK_DDCT_POLLALL);
    EXPECT_EQ(driver.detections[1].NonDestructiveOnly, 1U);
    EXPECT_EQ(driver.flips.display.count("DxgkDdiQueryChildStatus"), asked);
    // The driver finds something: it indicates that, and is asked until it has told everything.
    driver.changes.push_back(change_of(1, MonitorStatusDisconnected));
    driver.changes.push_back(change_of(2, MonitorStatusConnected));
    stack.blocking([&] {
      indicate(stack);
      while (driver.queries < 3) stack.settle();
    });
    stack.blocking([&] { stack.adapter().floor().display->worker().wait_for_hot_plug(); });
    EXPECT_EQ(driver.queries, 3U);
    EXPECT_EQ(driver.links.size(), 2U) << "the monitor is new";
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(TargetTest, ChangesAreCountedNameAnOutputAndEnd) {
  DXGKIT_COVERS("DISP-38");
  const auto changes_are_wrong = [](std::vector<DXGK_CONNECTION_CHANGE> changes) {
    with_targets([&](Stack& stack, TargetDriver& driver, FlipClient&) {
      const size_t told = changes.size();
      driver.changes.assign(changes.begin(), changes.end());
      stack.blocking([&] {
        indicate(stack);
        while (driver.queries < std::min<size_t>(told + 1, 256)) stack.settle();
        stack.adapter().floor().display->worker().wait_for_hot_plug();
      });
      EXPECT_EQ(stack.rules(), Rules{"DISP-38"});
    });
  };
  changes_are_wrong({change_of(2, MonitorStatusConnected), change_of(2, MonitorStatusConnected)});
  DXGK_CONNECTION_CHANGE elsewhere = change_of(1, MonitorStatusConnected);
  elsewhere.TargetId = kTarget + 1;
  changes_are_wrong({elsewhere});
  std::vector<DXGK_CONNECTION_CHANGE> endless;
  for (uint64_t id = 1; id <= 300; ++id) endless.push_back(change_of(id, MonitorStatusConnected));
  changes_are_wrong(endless);
}

TEST_F(TargetTest, APowerStateAndAVerticalBlankAreThoseOfASourceThatIsShown) {
  with_targets([](Stack& stack, TargetDriver& driver, FlipClient& client) {
    D3DKMT_CHECKMONITORPOWERSTATE power{};
    power.hAdapter = client.adapter;
    const auto check = [&] {
      return client.call([&] { return D3DKMTCheckMonitorPowerState(&power); });
    };
    EXPECT_EQ(check(), 0);
    D3DKMT_WAITFORVERTICALBLANKEVENT2 wait{};
    wait.hAdapter = client.adapter;
    NTSTATUS waited = -1;
    Stack::Background waiter(stack, [&] {
      waited = client.call([&] { return D3DKMTWaitForVerticalBlankEvent2(&wait); });
    });
    EXPECT_FALSE(waiter.finished());
    driver.flips.vsync();
    EXPECT_TRUE(waiter.finished());
    EXPECT_EQ(waited, 0);
    const Digest before = digest(stack, {&client});
    power.VidPnSourceId = 1;
    EXPECT_EQ(check(), kInvalid);
    power.hAdapter = 0;
    EXPECT_EQ(check(), kInvalid);
    wait.VidPnSourceId = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTWaitForVerticalBlankEvent2(&wait); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

// The device is named or not; if it is, it is one of the adapter that can work.
TEST_F(TargetTest, ADeviceThatWaitsForTheBlankCanWork) {
  DXGKIT_COVERS("THUNK-62", "THUNK-05");
  with_targets([](Stack& stack, TargetDriver& driver, FlipClient& client) {
    D3DKMT_WAITFORVERTICALBLANKEVENT2 wait{};
    wait.hAdapter = client.adapter;
    wait.hDevice = client.device;
    NTSTATUS waited = -1;
    const auto call = [&] {
      return client.call([&] { return D3DKMTWaitForVerticalBlankEvent2(&wait); });
    };
    {
      Stack::Background waiter(stack, [&] { waited = call(); });
      EXPECT_FALSE(waiter.finished());
      driver.flips.vsync();
      EXPECT_TRUE(waiter.finished());
    }
    EXPECT_EQ(waited, 0);
    const D3DKMT_HANDLE second = client.make_device();
    D3DKMT_MARKDEVICEASERROR lost{second, D3DKMT_DEVICE_ERROR_REASON_GENERIC};
    ASSERT_EQ(client.call([&] { return D3DKMTMarkDeviceAsError(&lost); }), 0);
    for (const D3DKMT_HANDLE wrong : {second, client.adapter, client.primaries[0], 1U}) {
      wait.hDevice = wrong;
      EXPECT_EQ(call(), kInvalid) << wrong;
    }
  });
}

HANDLE handle_of(int descriptor) { return reinterpret_cast<HANDLE>(intptr_t{descriptor}); }

/// Events of a client, and its wait for them and for the vertical blank.
class BlankOrEvent {
 public:
  explicit BlankOrEvent(FlipClient& client, size_t count = 3) : client_(client) {
    args.hAdapter = client.adapter;
    args.NumObjects = static_cast<UINT>(count);
    for (size_t i = 0; i < count; ++i) {
      events.push_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      args.ObjectHandleArray[i] = handle_of(events.back());
    }
  }
  ~BlankOrEvent() {
    for (const int event : events) close(event);
  }
  NTSTATUS wait() const {
    return client_.call([&] { return D3DKMTWaitForVerticalBlankEvent2(&args); });
  }
  void signal(size_t index) const { EXPECT_EQ(eventfd_write(events[index], 1), 0); }

  D3DKMT_WAITFORVERTICALBLANKEVENT2 args{};
  std::vector<int> events;

 private:
  FlipClient& client_;
};

TEST_F(TargetTest, AWaitEndsWithTheBlankOrAnEvent) {
  DXGKIT_COVERS("THUNK-62");
  with_targets([](Stack& stack, TargetDriver& driver, FlipClient& client) {
    for (const size_t count : {size_t{1}, size_t{8}}) {
      for (size_t index = 0; index <= count; ++index) {
        SCOPED_TRACE(index);
        const BlankOrEvent one(client, count);
        NTSTATUS waited = -1;
        Stack::Background waiter(stack, [&] { waited = one.wait(); });
        EXPECT_FALSE(waiter.finished()) << "nothing has come";
        if (index == 0) {
          driver.flips.vsync();
        } else {
          one.signal(index - 1);
        }
        EXPECT_TRUE(waiter.finished());
        EXPECT_EQ(waited, static_cast<NTSTATUS>(index));
      }
    }
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(TargetTest, AnEventThatIsSignalledEndsTheWaitAtOnceAndStaysSo) {
  DXGKIT_COVERS("THUNK-62");
  with_targets([](Stack& stack, TargetDriver&, FlipClient& client) {
    BlankOrEvent one(client);
    one.signal(2);
    one.signal(1);
    EXPECT_EQ(one.wait(), 2) << "the first in order";
    EXPECT_EQ(one.wait(), 2) << "it stays signalled";
    eventfd_t count = 0;
    EXPECT_EQ(eventfd_read(one.events[1], &count), 0);
    EXPECT_EQ(count, 1U);
    EXPECT_EQ(one.wait(), 3);
    one.args.ObjectHandleArray[0] = one.args.ObjectHandleArray[2];
    EXPECT_EQ(one.wait(), 1) << "the same event in two places";
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(TargetTest, AWaitKeepsTheEventsOfItsHandles) {
  DXGKIT_COVERS("THUNK-62");
  with_targets([](Stack& stack, TargetDriver&, FlipClient& client) {
    BlankOrEvent one(client, 1);
    const int other = dup(one.events[0]);
    NTSTATUS waited = -1;
    Stack::Background waiter(stack, [&] { waited = one.wait(); });
    EXPECT_FALSE(waiter.finished());
    EXPECT_EQ(close(std::exchange(one.events[0], -1)), 0);
    EXPECT_FALSE(waiter.finished());
    EXPECT_EQ(eventfd_write(other, 1), 0);
    EXPECT_TRUE(waiter.finished());
    EXPECT_EQ(waited, 1);
    close(other);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(TargetTest, AWaitTakesEventsOnlyAndEightAtMost) {
  DXGKIT_COVERS("THUNK-62", "THUNK-05");
  with_targets([](Stack& stack, TargetDriver&, FlipClient& client) {
    BlankOrEvent one(client, 8);
    for (const int event : one.events) EXPECT_EQ(eventfd_write(event, 1), 0);
    const Digest before = digest(stack, {&client});
    for (const UINT count : {UINT{9}, UINT_MAX}) {
      one.args.NumObjects = count;
      EXPECT_EQ(one.wait(), kInvalid);
    }
    one.args.NumObjects = 8;
    const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int closed = dup(file);
    EXPECT_EQ(close(closed), 0);
    for (const HANDLE bad : {handle_of(file), handle_of(closed), handle_of(-1), handle_of(INT_MAX),
                             reinterpret_cast<HANDLE>(intptr_t{1} << 40)}) {
      one.args.ObjectHandleArray[7] = bad;
      EXPECT_EQ(one.wait(), kInvalid);
    }
    one.args.NumObjects = 7;
    EXPECT_EQ(one.wait(), 1) << "what follows the last is not looked at";
    close(file);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(TargetTest, AWaitEndsWhenTheAdapterStops) {
  DXGKIT_COVERS("THUNK-62");
  with_targets([](Stack& stack, TargetDriver&, FlipClient& client) {
    const BlankOrEvent one(client);
    NTSTATUS waited = -1;
    {
      Stack::Background waiter(stack, [&] { waited = one.wait(); });
      EXPECT_FALSE(waiter.finished());
      stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    }
    EXPECT_EQ(waited, kInvalid);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

// With real threads: another thread signals the event, and there is no vertical blank.
TEST_F(TargetTest, AnEventEndsTheWaitOfARealThread) {
  DXGKIT_COVERS("THUNK-62");
  runtime::make_os_runtime()->run_main([&] {
    Stack stack;
    // The kernel's threads submit when they will: the GPU completes each packet by itself, and the
    // test, which may look too early, none. A loaded machine may take its time: no timeouts.
    stack.miniport.config.auto_complete = true;
    stack.complete_work = [] { return size_t{0}; };
    stack.options.tdr_delay_ns = 0;
    TargetDriver driver(stack);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver.flips);
      for (size_t index = 0; index < 3; ++index) {
        const BlankOrEvent one(client);
        NTSTATUS waited = -1;
        Stack::Background waiter(stack, [&] { waited = one.wait(); });
        one.signal(index);
        waiter.finish();
        EXPECT_EQ(waited, static_cast<NTSTATUS>(index + 1));
      }
    }
    stack.miniport.hooks = {};
  });
}

}  // namespace
}  // namespace dxgkit::contract
