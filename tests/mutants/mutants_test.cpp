// Every mutant gives its one finding, with the facts its author needs, and no other.
#include <d3dkmthk.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "devices/softgpu/softgpu.h"
#include "dxgk/system.h"
#include "miniports/softgpu/softgpu_umd.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/cpu_watch.h"
#include "runtime/runtime.h"
#include "tests/mutants/told.h"
#include "tests/support/covers.h"
#include "tests/support/known_run.h"
#include "thunks/client.h"
#include "tools/dxgkit/client.h"
#include "verifier/findings.h"

namespace dxgkit::mutants {
namespace {

using verifier::Finding;
using verifier::Severity;

/// What a client does to the adapter before it is stopped.
enum class Work {
  kNone,     // start and stop
  kFrames,   // fills, copies and checks more than video memory holds
  kPreempt,  // an urgent context interrupts a long command
  kKill,     // a process dies with work queued
  kHang,     // as kFrames, and the engine stops dead in the middle of it
};

struct Mutant {
  const char* name;
  const char* rule;
  Severity severity;
  const char* ddi;                 // part of Finding::ddi
  std::vector<const char*> facts;  // each is in the finding's text
  Work work = Work::kFrames;
  const char* field_failure = "";  // the row of the field notes this one reproduces
  bool special_pool = false;
  uint32_t bugcheck = 0;  // the code, if it matters
};

struct Outcome {
  bool loaded = false, started = false;
  Status load_status = Status::kSuccess;
  std::string message;
  std::string client_error;
  bool picture_right = false;
  std::vector<Finding> findings;
};

constexpr uint32_t kBufferBytes = 256 << 10;
constexpr size_t kBuffers = 8;
constexpr uint64_t kVramBytes = uint64_t{1} << 20;  // half of what the client uses
constexpr uint64_t kAgpBytes = uint64_t{1} << 20;
constexpr uint64_t kMachineBytes = uint64_t{64} << 20;
// A device on a busy machine answers late; only who hangs on purpose is told to hurry.
constexpr runtime::DurationNs kPatience = 20 * runtime::kSecond;

#define DXGKIT_TRY(expression)                              \
  if (const auto& done = (expression); !done.has_value()) { \
    outcome.client_error = done.error().text;               \
    return;                                                 \
  }

/// Writes patterns through staging into buffers that do not all fit into video memory, copies them
/// back and compares.
void draw_frames(dxgk::Luid adapter, Outcome& outcome) {
  auto device = tool::ClientDevice::open(adapter);
  DXGKIT_TRY(device);
  auto context = device->create_context(0);
  DXGKIT_TRY(context);
  auto fence = device->create_fence();
  DXGKIT_TRY(fence);
  auto staging = device->create_buffer(kBufferBytes, SGPU_UMD_PLACE_STAGING);
  DXGKIT_TRY(staging);
  std::vector<tool::ClientAllocation> buffers;
  for (size_t i = 0; i < kBuffers; ++i) {
    auto buffer = device->create_buffer(kBufferBytes, SGPU_UMD_PLACE_VRAM);
    DXGKIT_TRY(buffer);
    buffers.push_back(*buffer);
  }
  uint64_t value = 0;
  const auto transfer = [&](const tool::ClientAllocation& from,
                            const tool::ClientAllocation& to) -> tool::ClientResult<void> {
    using Access = tool::ClientContext::Access;
    const uint32_t source = context->use(from, Access::kRead);
    const uint32_t target = context->use(to, Access::kWrite);
    context->copy({source, 0}, {target, 0}, kBufferBytes);
    if (auto done = context->submit(); !done.has_value()) return done;
    if (auto done = context->signal(*fence, ++value); !done.has_value()) return done;
    return device->wait(*fence, value);
  };
  bool same = true;
  for (size_t round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kBuffers; ++i) {
      auto bytes = device->lock(*staging);
      DXGKIT_TRY(bytes);
      if (round == 0) {
        std::memset(*bytes, static_cast<int>(0x30 + i), kBufferBytes);
        DXGKIT_TRY(device->unlock(*staging));
        DXGKIT_TRY(transfer(*staging, buffers[i]));
      } else {
        std::memset(*bytes, 0, kBufferBytes);
        DXGKIT_TRY(device->unlock(*staging));
        DXGKIT_TRY(transfer(buffers[i], *staging));
        bytes = device->lock(*staging);
        DXGKIT_TRY(bytes);
        const auto wanted = static_cast<std::byte>(0x30 + i);
        same = same && std::all_of(*bytes, *bytes + kBufferBytes,
                                   [&](std::byte byte) { return byte == wanted; });
        DXGKIT_TRY(device->unlock(*staging));
      }
    }
  }
  outcome.picture_right = same;
  DXGKIT_TRY(device->close());
}

tool::ClientResult<D3DKMT_HANDLE> render_delay(D3DKMT_HANDLE device, int32_t priority,
                                               uint64_t duration_ns) {
  const auto check = [](const char* what, NTSTATUS status) -> std::optional<tool::ClientError> {
    if (status >= 0) return std::nullopt;
    return tool::ClientError{std::string(what) + " was refused"};
  };
  D3DKMT_CREATECONTEXT create{};
  create.hDevice = device;
  create.ClientHint = D3DKMT_CLIENTHINT_UNKNOWN;
  if (auto error = check("D3DKMTCreateContext", D3DKMTCreateContext(&create)))
    return std::unexpected(*error);
  D3DKMT_SETCONTEXTSCHEDULINGPRIORITY set{};
  set.hContext = create.hContext;
  set.Priority = priority;
  if (auto error =
          check("D3DKMTSetContextSchedulingPriority", D3DKMTSetContextSchedulingPriority(&set)))
    return std::unexpected(*error);
  struct {
    SgpuUmdBufferHeader header;
    SgpuUmdDelay delay;
  } commands{};
  commands.header = {.magic = SGPU_UMD_BUFFER_MAGIC,
                     .version = SGPU_UMD_VERSION,
                     .size_bytes = sizeof(commands),
                     .flags = 0};
  commands.delay.header = {.opcode = SGPU_UMD_OP_DELAY, .size_bytes = sizeof(SgpuUmdDelay)};
  commands.delay.duration_ns = duration_ns;
  commands.delay.flags = SGPU_UMD_DELAY_PREEMPTIBLE;
  std::memcpy(create.pCommandBuffer, &commands, sizeof(commands));
  D3DKMT_RENDER render{};
  render.hContext = create.hContext;
  render.CommandLength = sizeof(commands);
  if (auto error = check("D3DKMTRender", D3DKMTRender(&render))) return std::unexpected(*error);
  return create.hContext;
}

/// A long command of a context of no importance, then one of an urgent context.
void preempt(dxgk::Luid adapter, Outcome& outcome, bool wait) {
  D3DKMT_OPENADAPTERFROMLUID open{};
  open.AdapterLuid.LowPart = adapter.low;
  open.AdapterLuid.HighPart = adapter.high;
  D3DKMT_CREATEDEVICE create{};
  if (D3DKMTOpenAdapterFromLuid(&open) < 0) return;
  create.hAdapter = open.hAdapter;
  if (D3DKMTCreateDevice(&create) < 0) return;
  DXGKIT_TRY(render_delay(create.hDevice, -7, 20'000'000));
  DXGKIT_TRY(render_delay(create.hDevice, -7, 20'000'000));
  DXGKIT_TRY(render_delay(create.hDevice, -7, 20'000'000));
  DXGKIT_TRY(render_delay(create.hDevice, 0, 1'000'000));
  if (!wait) return;  // the process ends with all of it queued
  const D3DKMT_WAITFORIDLE idle{.hDevice = create.hDevice};
  outcome.picture_right = D3DKMTWaitForIdle(&idle) >= 0;
  const D3DKMT_DESTROYDEVICE destroy{.hDevice = create.hDevice};
  static_cast<void>(D3DKMTDestroyDevice(&destroy));
  const D3DKMT_CLOSEADAPTER close{.hAdapter = open.hAdapter};
  static_cast<void>(D3DKMTCloseAdapter(&close));
}

void work_as_client(dxgk::System& system, dxgk::Luid adapter, Work work, Outcome& outcome) {
  if (work == Work::kNone) return;
  dxgk::Process& process = system.create_process("client");
  {
    const thunks::ClientScope scope(system, process);
    if (work == Work::kFrames || work == Work::kHang) draw_frames(adapter, outcome);
    if (work == Work::kPreempt) preempt(adapter, outcome, true);
    if (work == Work::kKill) preempt(adapter, outcome, false);
  }
  system.end_process(process);
}

/// One life of the driver: load, start, work, stop, unload.
Outcome run(const char* path, const char* name, Work work, bool special_pool, bool sim,
            runtime::DurationNs hang_limit = kPatience) {
  Outcome outcome;
  const auto runtime = sim ? runtime::make_sim_runtime(7) : runtime::make_os_runtime(7);
  runtime->run_main([&] {
    verifier::Findings findings;
    const testing::KnownRun known_run(findings);
    bus::Machine machine(kMachineBytes);
    softgpu::SoftGpuConfig device;
    device.vram_bytes = kVramBytes;
    softgpu::SoftGpu gpu(*runtime, machine, device);
    ASSERT_EQ(machine.add_function(gpu.function()), Status::kSuccess);
    if (name != nullptr && std::string_view(name) == "segment_agp_twice") {
      ASSERT_EQ(machine.add_agp_aperture(gpu.function(), kAgpBytes), Status::kSuccess);
    }
    nt::KernelConfig config;
    mutants::choose(config, name);
    if (name != nullptr && std::string_view(name).ends_with("_forgets_engines")) {
      // Without recovery of single engines, which would stop the one that hangs.
      config.registry[nt::KernelConfig::kDriverKey]["PerEngineTdr"] = nt::RegistryValue::dword(0);
    }
#ifdef MUTANTS_OF_GPU_VA
    const bool two_levels = name != nullptr && std::string_view(name).starts_with("two_levels_");
    config.registry[nt::KernelConfig::kDriverKey]["MemoryModel"] =
        nt::RegistryValue::dword(two_levels ? 1 : 2);
#endif
    // An INF whose software section names no user-mode driver.
    if (name != nullptr && std::string_view(name) == "software_key_without_driver")
      config.registry[nt::KernelConfig::kDeviceKey]["DriverDesc"] =
          nt::RegistryValue::string(u"softgpu");
    // Without per-engine recovery the adapter is reset at once.
    if (name != nullptr && std::string_view(name).ends_with("_from_timeout_fails"))
      config.registry[nt::KernelConfig::kDriverKey]["PerEngineTdr"] = nt::RegistryValue::dword(0);
    config.special_pool = special_pool;
    nt::Kernel kernel(*runtime, machine, findings, config);
    kernel.set_hang_limit(hang_limit);
    {
      Result<std::unique_ptr<port::Driver>> driver = port::Driver::load(
          kernel, findings, {.name = "mutant", .path = path, .entry = nullptr}, &outcome.message);
      outcome.loaded = driver.has_value();
      if (driver.has_value()) {
        dxgk::System system(*runtime, machine, kernel, findings);
        dxgk::AdapterOptions options;
        options.tdr_delay_ns = 200'000'000;
        const Result<dxgk::Luid> adapter = system.start_adapter(**driver, gpu.function(), options);
        outcome.started = adapter.has_value();
        if (adapter.has_value()) {
          if (work == Work::kHang) {
            softgpu::FaultPlan faults;
            faults.nodes[0].hang_at_entry = 2;
            faults.nodes[0].hangs_max = 1;
            gpu.set_faults(faults);
          }
          work_as_client(system, *adapter, work, outcome);
          static_cast<void>(system.stop_adapter(*adapter));
        }
      } else {
        outcome.load_status = driver.error();
      }
    }
    outcome.findings = findings.all();
    // The hang is the test's own doing, and said in passing.
    if (work == Work::kHang) {
      std::erase_if(outcome.findings, [](const Finding& finding) {
        return finding.rule == "TDR-01" && finding.severity == Severity::kWarning;
      });
    }
  });
  return outcome;
}

const std::vector<Mutant>& all() {
  using enum Severity;
  static const std::vector<Mutant> table = {
#ifdef MUTANTS_OF_GPU_VA
#include "tests/mutants/gpu_va_expectations.inc"
#else
#include "tests/mutants/expectations.inc"
#endif
  };
  return table;
}

#ifdef MUTANTS_WDDM2_ELF
const std::vector<Mutant>& all_of_second_model() {
  using enum Severity;
  static const std::vector<Mutant> table = {
#include "tests/mutants/expectations_wddm2.inc"
  };
  return table;
}
#endif

void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

class MutantTest : public ::testing::TestWithParam<std::tuple<Mutant, const char*, bool>> {};

TEST_P(MutantTest, GivesItsOneFinding) {
  const auto& [mutant, path, sim] = GetParam();
  if (std::string_view(mutant.name) == "entry_spins" && !runtime::kSeesEndlessLoops)
    GTEST_SKIP() << "ThreadSanitizer holds back the signal that ends it";
  DXGKIT_COVERS(mutant.rule);
  const bool hangs = std::string_view(mutant.rule) == "NT-20";
  const Outcome outcome = run(path, mutant.name, mutant.work, mutant.special_pool, sim,
                              hangs ? 300 * runtime::kMillisecond : kPatience);
  ASSERT_EQ(outcome.findings.size(), 1U)
      << mutants::text_of(outcome.findings) << outcome.message << "\n"
      << outcome.client_error;
  const Finding& finding = outcome.findings[0];
  mutants::expect_told(finding, mutant);
  // What Windows would not start does not start here; what it would stop on, stops.
  if (finding.severity == Severity::kStartFail) {
    EXPECT_FALSE(outcome.started);
  }
}

/// A sane driver gives none, so a finding above is the mutant's own.
class SaneDriver : public ::testing::TestWithParam<std::tuple<Work, const char*, bool>> {};
TEST_P(SaneDriver, GivesNone) {
  const auto& [work, path, sim] = GetParam();
  const Outcome outcome = run(path, nullptr, work, false, sim);
  EXPECT_TRUE(outcome.started) << outcome.message;
  EXPECT_TRUE(outcome.findings.empty()) << mutants::text_of(outcome.findings);
  EXPECT_EQ(outcome.client_error.empty(), work != Work::kHang) << outcome.client_error;
  EXPECT_EQ(outcome.picture_right, work == Work::kFrames || work == Work::kPreempt);
}

// A name that is none is refused by the image, so a misspelt row above cannot pass as a sane
// driver.
TEST(Mutants, UnknownNameIsRefused) {
  const Outcome outcome = run(MUTANTS_ELF, "no_such_mutant", Work::kNone, false, true);
  EXPECT_FALSE(outcome.loaded);
}

std::vector<const char*> images() {
  std::vector<const char*> paths{MUTANTS_ELF};
#ifdef MUTANTS_SYS
  paths.push_back(MUTANTS_SYS);
#endif
  return paths;
}

#ifdef MUTANTS_WDDM2_ELF
std::vector<const char*> images_of_second_model() {
  std::vector<const char*> paths{MUTANTS_WDDM2_ELF};
#ifdef MUTANTS_SYS
  paths.push_back(MUTANTS_WDDM2_SYS);
#endif
  return paths;
}
#endif

const auto name_of = mutants::name_of<::testing::TestParamInfo<MutantTest::ParamType>>;

INSTANTIATE_TEST_SUITE_P(All, MutantTest,
                         ::testing::Combine(::testing::ValuesIn(all()),
                                            ::testing::ValuesIn(images()),
                                            ::testing::Values(true, false)),
                         name_of);
#ifdef MUTANTS_OF_GPU_VA
const Work kSaneWork[] = {Work::kNone, Work::kFrames};
#else
const Work kSaneWork[] = {Work::kNone, Work::kFrames, Work::kPreempt, Work::kKill, Work::kHang};
#endif
INSTANTIATE_TEST_SUITE_P(All, SaneDriver,
                         ::testing::Combine(::testing::ValuesIn(kSaneWork),
                                            ::testing::ValuesIn(images()),
                                            ::testing::Values(true, false)));
#ifdef MUTANTS_WDDM2_ELF
INSTANTIATE_TEST_SUITE_P(SecondModel, MutantTest,
                         ::testing::Combine(::testing::ValuesIn(all_of_second_model()),
                                            ::testing::ValuesIn(images_of_second_model()),
                                            ::testing::Values(true, false)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SecondModel, SaneDriver,
                         ::testing::Combine(::testing::Values(Work::kNone),
                                            ::testing::ValuesIn(images_of_second_model()),
                                            ::testing::Values(true, false)));
#endif

}  // namespace
}  // namespace dxgkit::mutants
