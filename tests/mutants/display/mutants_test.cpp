// Every display mutant gives its one finding, with the facts its author needs, and no other.
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "devices/framebuffer/framebuffer.h"
#include "dxgk/displays.h"
#include "dxgk/system.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tests/mutants/told.h"
#include "tests/support/covers.h"
#include "tests/support/known_run.h"
#include "verifier/findings.h"

namespace dxgkit::display_mutants {
namespace {

using verifier::Finding;
using verifier::Severity;
using enum Severity;

constexpr uint32_t kWidth = 80, kHeight = 60;

struct Mutant {
  const char* name;
  const char* rule;
  Severity severity;
  const char* ddi;                 // part of Finding::ddi
  std::vector<const char*> facts;  // each is in the finding's text
  const char* field_failure = "";  // the row of the field notes this one reproduces
  uint32_t bugcheck = 0;
  size_t findings = 1;  // more: the same mistake at each end of the path
};
void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

struct Outcome {
  bool started = false, right = false;
  std::string message;
  std::vector<Finding> findings;
};

/// One life of the driver: load, start, present, stop, unload.
Outcome run(const char* path, const char* name, bool sim) {
  Outcome outcome;
  const auto runtime = sim ? runtime::make_sim_runtime(3) : runtime::make_os_runtime(3);
  runtime->run_main([&] {
    verifier::Findings findings;
    const testing::KnownRun known_run(findings);
    bus::Machine machine(uint64_t{16} << 20);
    auto screen = framebuffer::FrameBuffer::create({.width = kWidth, .height = kHeight});
    ASSERT_TRUE(screen.has_value());
    ASSERT_EQ(machine.add_function((*screen)->function()), Status::kSuccess);
    nt::KernelConfig config;
    mutants::choose(config, name);
    nt::Kernel kernel(*runtime, machine, findings, config);
    {
      Result<std::unique_ptr<port::Driver>> driver = port::Driver::load(
          kernel, findings, {.name = "mutant", .path = path, .entry = nullptr}, &outcome.message);
      if (driver.has_value()) {
        dxgk::System system(*runtime, machine, kernel, findings);
        dxgk::AdapterOptions options;
        options.tdr_delay_ns = 200'000'000;
        const auto adapter = system.start_adapter(**driver, (*screen)->function(), options);
        outcome.started = adapter.has_value();
        if (adapter.has_value()) {
          dxgk::Displays displays(system);
          const std::vector<std::byte> pixels(size_t{kWidth} * kHeight * 4, std::byte{0x5A});
          const Status shown =
              displays.present(*adapter, {.pixels = pixels, .pitch_bytes = kWidth * 4});
          outcome.right =
              is_success(shown) && (*screen)->pixel(kWidth - 1, kHeight - 1) == 0x5A5A5A;
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
    {"caps_without_version", "CAPS-02", kStartFail, "DxgkDdiQueryAdapterInfo", {"WDDMVersion", "DXGKDDI_WDDMv1_2"}, "2"},
    {"caps_of_newer_kit", "CAPS-01", kStartFail, "DxgkDdiQueryAdapterInfo", {"BUFFER_TOO_SMALL", "OutputDataSize"}, "1"},
    {"monitors_without_advice", "CAPS-15", kViolation, "DxgkDdiStartDevice", {"DxgkDdiRecommendMonitorModes"}},
    {"non_vga_without_release", "CAPS-05", kViolation, "DxgkDdiQueryAdapterInfo", {"SupportNonVGA", "StopDeviceAndReleasePostDisplayOwnership"}},
    {"child_is_no_output", "CAPS-07", kStartFail, "DxgkDdiQueryChildRelations", {"output"}},
    {"child_too_many", "LIFE-10", kViolation, "DxgkDdiQueryChildRelations", {"not zero any more"}},
    {"rotation_without_offset", "VIDPN-04", kBugCheck, "pfnUpdatePathSupportInfo", {"Offset0", "0x113"}, "9", 0x113},
    {"frequency_without_control", "VIDPN-01", kWarning, "pfnAddMode", {"VSyncFreq", "NOTSPECIFIED"}, "3"},
    {"mode_set_not_released", "VIDPN-07", kViolation, "DxgkDdiEnumVidPnCofuncModality", {"released"}},
    {"modes_not_enumerated", "VIDPN-19", kViolation, "DxgkDdiEnumVidPnCofuncModality", {"mode set", "empty"}, "", 0, 2},
    {"commit_refuses_own_modes", "DOD-03", kViolation, "DxgkDdiCommitVidPn", {"0xC01E0303"}},
    {"present_never_ends", "DOD-01", kBugCheck, "DxgkDdiPresentDisplayOnly", {"STATUS_PENDING", "PROGRESS"}, "21"},
    {"present_probes_kernel", "NT-18", kBugCheck, "DxgkDdiPresentDisplayOnly", {"ProbeForRead", "kernel"}, "23"},
  };
  // clang-format on
  return table;
}

class DisplayMutant : public ::testing::TestWithParam<std::tuple<Mutant, const char*, bool>> {};

TEST_P(DisplayMutant, GivesItsOneFinding) {
  const auto& [mutant, path, sim] = GetParam();
  DXGKIT_COVERS(mutant.rule);
  const Outcome outcome = run(path, mutant.name, sim);
  ASSERT_EQ(outcome.findings.size(), mutant.findings)
      << mutants::text_of(outcome.findings) << outcome.message;
  for (const Finding& each : outcome.findings) EXPECT_EQ(each.rule, mutant.rule);
  const Finding& finding = outcome.findings[0];
  mutants::expect_told(finding, mutant);
}

// A sane driver gives none, so a finding above is the mutant's own.
class SaneDisplay : public ::testing::TestWithParam<std::tuple<const char*, bool>> {};
TEST_P(SaneDisplay, GivesNone) {
  const auto& [path, sim] = GetParam();
  const Outcome outcome = run(path, nullptr, sim);
  EXPECT_TRUE(outcome.started) << outcome.message;
  EXPECT_TRUE(outcome.right);
  EXPECT_TRUE(outcome.findings.empty()) << mutants::text_of(outcome.findings);
}

INSTANTIATE_TEST_SUITE_P(All, DisplayMutant,
                         ::testing::Combine(::testing::ValuesIn(all()),
                                            ::testing::Values(MUTANTS_ELF, MUTANTS_SYS),
                                            ::testing::Values(true, false)),
                         mutants::name_of<::testing::TestParamInfo<DisplayMutant::ParamType>>);
INSTANTIATE_TEST_SUITE_P(All, SaneDisplay,
                         ::testing::Combine(::testing::Values(MUTANTS_ELF, MUTANTS_SYS),
                                            ::testing::Values(true, false)));

}  // namespace
}  // namespace dxgkit::display_mutants
