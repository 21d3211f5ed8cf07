// Every mutant of vertical syncs gives its one finding, while a client shows a picture by flips.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "bus/device.h"
#include "bus/machine.h"
#include "devices/softgpu/device.h"
#include "devices/softgpu/softgpu_hw.h"
#include "dxgk/system.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tests/mutants/told.h"
#include "tests/support/covers.h"
#include "tests/support/known_run.h"
#include "tools/dxgkit/screen.h"
#include "verifier/findings.h"

namespace dxgkit::screen_mutants {
namespace {

using verifier::Finding;
using verifier::Severity;
using enum Severity;

constexpr uint32_t kWidth = 96, kHeight = 64;

struct Mutant {
  const char* name;
  const char* rule;
  Severity severity;
  const char* ddi;                 // part of Finding::ddi
  std::vector<const char*> facts;  // each is in the finding's text
  bool shows = true;               // the picture is on the screen in the end
  uint32_t bugcheck = 0, parameter = 0;
  uint64_t resets = 0;
};
void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

struct Outcome {
  bool started = false, right = false;
  std::string message, error;
  size_t frames = 0;
  uint64_t resets = 0;
  std::vector<Finding> findings;
};

/// One life of the driver: load, start, show, stop, unload. With `hang` the engine stops dead under
/// the first show, which ends with that, and there is a second one.
Outcome run(const char* path, const char* name, bool sim, bool hang = false) {
  Outcome outcome;
  const auto runtime = sim ? runtime::make_sim_runtime(3) : runtime::make_os_runtime(3);
  runtime->run_main([&] {
    verifier::Findings findings;
    const testing::KnownRun known_run(findings);
    bus::Machine machine(uint64_t{32} << 20);
    bus::DeviceOptions options_of_device;
    ASSERT_TRUE(options_of_device.add("vram", "1M"));
    ASSERT_TRUE(options_of_device.add("refresh", std::to_string(tool::kScreenRefreshHz)));
    const auto maker = softgpu::device_type().configure(options_of_device);
    ASSERT_TRUE(maker.has_value());
    const auto made = (*maker)({*runtime, machine});
    ASSERT_TRUE(made.has_value());
    bus::Device& gpu = **made;
    ASSERT_EQ(bus::plug_in(machine, gpu), Status::kSuccess);
    bus::DeviceScreen& screen = *gpu.screen();
    nt::KernelConfig config;
    auto& key = config.registry[nt::KernelConfig::kDriverKey];
    key["ScreenSize"] = nt::RegistryValue::dword(kWidth | kHeight << 16);
    mutants::choose(config, name);
    if (hang) key["PerEngineTdr"] = nt::RegistryValue::dword(0);
    nt::Kernel kernel(*runtime, machine, findings, config);
    {
      Result<std::unique_ptr<port::Driver>> driver = port::Driver::load(
          kernel, findings, {.name = "mutant", .path = path, .entry = nullptr}, &outcome.message);
      if (driver.has_value()) {
        dxgk::System system(*runtime, machine, kernel, findings);
        dxgk::AdapterOptions options;
        options.tdr_delay_ns = 500 * runtime::kMillisecond;
        const auto adapter = system.start_adapter(**driver, *gpu.functions().front(), options);
        outcome.started = adapter.has_value();
        if (adapter.has_value()) {
          const tool::Picture picture = tool::draw_picture(kWidth, kHeight, 7);
          if (hang) {
            std::array<bus::EngineFaults, SGPU_NODE_COPY + 1> faults;
            faults[SGPU_NODE_COPY].hang_at_entry = 2;
            faults[SGPU_NODE_COPY].hangs_max = 1;
            gpu.faults()->set_faults(faults);
            EXPECT_NE(tool::show_on_screen(system, *adapter, screen, picture).error, "");
          }
          const tool::ScreenShow show = tool::show_on_screen(system, *adapter, screen, picture);
          outcome.error = show.error;
          outcome.frames = show.frames.size();
          outcome.right = show.last.has_value() && tool::same_colours(*show.last, picture);
          if (const auto statistics = system.statistics(*adapter); statistics.has_value())
            outcome.resets = statistics->adapter_resets;
          static_cast<void>(system.stop_adapter(*adapter));
        }
      }
    }
    outcome.findings = findings.all();
  });
  return outcome;
}

const std::vector<Mutant>& all() {
  // clang-format off
  static const std::vector<Mutant> table = {
    {"vsync_without_address", "DISP-08", kViolation, "DxgkCbNotifyInterrupt", {"address 0"}},
    {"vsync_of_no_output", "DISP-23", kViolation, "DxgkCbNotifyInterrupt", {"target 77", "ChildUid"}},
    {"vsync_of_old_address", "DISP-22", kViolation, "DxgkCbNotifyInterrupt", {"source 0 shows", "PrimaryAddress"}},
    {"vsync_of_no_plane", "INT-20", kBugCheck, "DxgkCbNotifyInterrupt", {"plane 3", "LayerIndex"}, false, 0x119, 0xE},
    {"vsync_before_fence", "INT-09", kViolation, "DxgkDdiInterruptRoutine", {"after a vertical sync"}},
    {"vsync_stays_off", "TDR-31", kViolation, "DxgkDdiControlInterrupt", {"500 ms", "CRTC_VSYNC"}, false, 0, 0, 1},
    {"vsync_control_not_implemented", "INT-23", kViolation, "DxgkDdiControlInterrupt", {"STATUS_NOT_IMPLEMENTED"}},
    {"flips_too_deep", "DISP-06", kBugCheck, "DxgkDdiQueryAdapterInfo", {"MaxQueuedFlipOnVSync is 100"}, false, 0x119, 0x4},
    {"primary_of_other_size", "ALLOC-51", kViolation, "DxgkDdiDescribeAllocation", {"96 x 65", "96 x 64"}, false},
  };
  // clang-format on
  return table;
}

class ScreenMutant : public ::testing::TestWithParam<std::tuple<Mutant, const char*, bool>> {};

TEST_P(ScreenMutant, GivesItsOneFinding) {
  const auto& [mutant, path, sim] = GetParam();
  DXGKIT_COVERS(mutant.rule);
  if (std::string(mutant.rule) == "TDR-31") DXGKIT_COVERS("DISP-13");
  const Outcome outcome = run(path, mutant.name, sim);
  ASSERT_EQ(outcome.findings.size(), 1U) << mutants::text_of(outcome.findings) << outcome.message;
  const Finding& finding = outcome.findings[0];
  mutants::expect_told(finding, mutant);
  EXPECT_EQ(finding.bugcheck_code, mutant.bugcheck);
  EXPECT_EQ(finding.bugcheck_parameter, mutant.parameter);
  EXPECT_EQ(outcome.right, mutant.shows) << outcome.error;
  EXPECT_EQ(outcome.resets, mutant.resets);
}

// The driver as it is gives none, and shows the picture as each flip brought more of it.
class SaneScreen : public ::testing::TestWithParam<std::tuple<const char*, bool>> {};
TEST_P(SaneScreen, GivesNone) {
  DXGKIT_COVERS("DISP-07", "DISP-11");
  const auto& [path, sim] = GetParam();
  const Outcome outcome = run(path, nullptr, sim);
  EXPECT_TRUE(outcome.started) << outcome.message;
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.right);
  EXPECT_GE(outcome.frames, tool::kScreenFrames + 1);
  EXPECT_TRUE(outcome.findings.empty()) << mutants::text_of(outcome.findings);
}

// After a reset of the adapter the mode is set again, and who comes next shows a picture there.
TEST_P(SaneScreen, ShowsAgainAfterAReset) {
  DXGKIT_COVERS("TDR-24", "TDR-26");
  const auto& [path, sim] = GetParam();
  const Outcome outcome = run(path, nullptr, sim, /*hang=*/true);
  EXPECT_EQ(outcome.resets, 1U);
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.right);
  ASSERT_EQ(outcome.findings.size(), 1U) << mutants::text_of(outcome.findings);
  EXPECT_EQ(outcome.findings[0].rule, "TDR-01");
}

INSTANTIATE_TEST_SUITE_P(All, ScreenMutant,
                         ::testing::Combine(::testing::ValuesIn(all()),
                                            ::testing::Values(MUTANTS_ELF, MUTANTS_SYS),
                                            ::testing::Values(true, false)),
                         mutants::name_of<::testing::TestParamInfo<ScreenMutant::ParamType>>);
INSTANTIATE_TEST_SUITE_P(All, SaneScreen,
                         ::testing::Combine(::testing::Values(MUTANTS_ELF, MUTANTS_SYS),
                                            ::testing::Values(true, false)));

}  // namespace
}  // namespace dxgkit::screen_mutants
