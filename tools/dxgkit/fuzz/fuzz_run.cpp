#include "tools/dxgkit/fuzz/fuzz_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "miniports/softgpu/softgpu_umd.h"
#include "port/driver.h"
#include "sim/random.h"
#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/no_client.h"
#include "tools/dxgkit/start_story.h"

namespace dxgkit::tool::fuzz {
namespace {

constexpr uint64_t kAllocationBytes = 0x40000;
constexpr runtime::TimeNs kTimeLimit = 3600 * runtime::kSecond;
constexpr size_t kFramesInKey = 2;
/// Rules that a client breaks by private data that belies the rest of its call. No driver sees
/// both.
constexpr std::string_view kClientsFault[] = {"ALLOC-20"};

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// "softgpu.sys+0x1a2c SgpuPatch+0x14": "SgpuPatch", which another build has, too.
std::string function_of(const std::string& frame) {
  const size_t blank = frame.find(' ');
  if (blank == std::string::npos) return frame;
  const std::string symbol = frame.substr(blank + 1);
  return symbol.substr(0, symbol.find('+'));
}

Problem problem_of(const verifier::Finding& finding) {
  Problem problem{.key = finding.rule, .finding = finding};
  if (!finding.ddi.empty()) problem.key += " in " + finding.ddi;
  size_t frames = 0;
  for (const std::string& frame : finding.place.stack) {
    if (frame.ends_with("(found on the stack)") || frames == kFramesInKey) break;
    problem.key += (frames++ == 0 ? " at " : " < ") + function_of(frame);
  }
  return problem;
}

/// A promise of the kernel that hostile processes saw broken. No driver should be able to break it.
Problem broken_promise(const std::string& what, const std::string& where) {
  Problem problem;
  problem.key = "kernel: " + what;
  const std::string call = where.substr(0, where.find('('));
  if (!call.empty()) problem.key += " in " + call;
  problem.finding = {
      .rule = "NT-37",
      .severity = verifier::Severity::kViolation,
      .ddi = call,
      .actual = fmt::format("Hostile processes: {}{}{}.", what, where.empty() ? "" : ", ", where),
      .expected =
          "Whatever processes ask for, what is refused changes nothing, and all that waits "
          "comes back.",
      .fix =
          "If the driver answers every DDI as it should meanwhile, it is a mistake of this "
          "tool's kernel.",
      .confidence = verifier::Confidence::kInferred};
  return problem;
}

/// False: a warning, a consequence, or a mistake of the client.
bool is_problem(const verifier::Finding& finding) {
  return verifier::breaks_rule(finding) &&
         std::ranges::find(kClientsFault, finding.rule) == std::end(kClientsFault);
}

/// The input that the driver accepts from its clients.
void learn_language(const FuzzSetting& setting, dxgk::System& system, dxgk::Luid luid,
                    hostile::Ground* ground) {
  if (softgpu_traits(system, luid).speaks) {
    SgpuUmdAllocation wanted{};
    wanted.magic = SGPU_UMD_ALLOCATION_MAGIC;
    wanted.version = SGPU_UMD_VERSION;
    wanted.kind = SGPU_UMD_KIND_BUFFER;
    wanted.size_bytes = kAllocationBytes;
    ground->allocation_data = bytes_of(wanted);
    struct {
      SgpuUmdBufferHeader header;
      SgpuUmdFill fill;
    } commands{};
    commands.header = {SGPU_UMD_BUFFER_MAGIC, SGPU_UMD_VERSION, sizeof commands, 0};
    commands.fill.header = {SGPU_UMD_OP_FILL, sizeof commands.fill};
    commands.fill.size_bytes = kPageBytes;
    commands.fill.pattern = 0x5A5A5A5A;
    ground->commands = bytes_of(commands);
    return;
  }
  if (setting.plugin == nullptr) return;
  DxgkitClientAdapter adapter{};
  const auto instance = setting.plugin->open(adapter);
  if (!instance.has_value()) return;
  DxgkitClientAllocation wanted{};
  wanted.size_bytes = kAllocationBytes;
  wanted.usage = DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_GPU_WRITES;
  if (auto packed = (*instance)->pack_allocation(wanted); packed.has_value())
    ground->allocation_data = std::move(*packed);
}

std::vector<bus::EngineFaults> engine_faults(const DeviceFaults& faults) {
  std::vector<bus::EngineFaults> engines(faults.hang_at.size());
  for (size_t node = 0; node < engines.size(); ++node) {
    engines[node] = {.lose_interrupt_per_million = faults.lost_interrupts,
                     .duplicate_interrupt_per_million = faults.double_interrupts,
                     .late_interrupt_per_million = faults.late_interrupts,
                     .hang_at_entry = faults.hang_at[node],
                     .hangs_max = 1};
  }
  return engines;
}

/// Everything that happens inside the runtime.
void run_inside(runtime::Runtime& runtime, const FuzzSetting& setting, const FuzzPlan& plan,
                const std::function<void(const std::string&)>& log, verifier::Findings& findings,
                FuzzOutcome& outcome) {
  const auto broken = [&](const std::string& what, const std::string& where) {
    outcome.problems.push_back(broken_promise(what, where));
    if (setting.on_problem) setting.on_problem(outcome.problems.back());
  };
  WorldConfig config;
  config.devices = {setting.device};
  config.memory_bytes = setting.memory_bytes;
  config.vram_bytes = setting.vram_bytes;
  config.kernel = setting.kernel;
  auto world = World::create(runtime, findings, config);
  if (!world.has_value()) {
    outcome.unusable = world.error();
    return;
  }
  port::DriverSource source;
  source.name = setting.driver_path.substr(setting.driver_path.rfind('/') + 1);
  source.path = setting.driver_path;
  std::string message;
  std::optional<nt::CallLog> calls(std::in_place, (*world)->kernel());
  const auto driver = port::Driver::load((*world)->kernel(), findings, source, &message);
  if (!driver.has_value()) {
    outcome.unusable = message.empty() ? "DriverEntry failed" : message;
    outcome.before = start_story(*calls, setting.driver_path, setting.device);
    return;
  }
  {
    dxgk::System system(runtime, (*world)->machine(), (*world)->kernel(), findings);
    dxgk::AdapterOptions options;
    options.situations = setting.situations;
    const Result<dxgk::Luid> luid = system.start_adapter(**driver, (*world)->function(), options);
    if (!luid.has_value()) {
      const std::string_view status = status_name(luid.error());
      outcome.unusable = fmt::format(
          "the adapter does not start: {}",
          status.empty() ? fmt::format("0x{:08X}", static_cast<uint32_t>(luid.error())) : status);
      outcome.before = start_story(*calls, setting.driver_path, setting.device);
      return;
    }
    calls.reset();
    bus::FaultInjection* const faults = (*world)->device().faults();
    if (faults != nullptr) faults->set_faults(engine_faults(plan.faults));
    hostile::Ground ground{.system = system, .luid = *luid};
    learn_language(setting, system, *luid, &ground);
    if (setting.situations != nullptr) {
      setting.situations->add(verifier::SituationFact::kPlugIn, !ground.allocation_data.empty());
      setting.situations->add(verifier::SituationFact::kDeviceFaults, faults != nullptr);
    }
    ground.stopped = [&] { return !system.statistics(*luid).has_value(); };
    ground.broken = broken;
    ground.log = log;
    const auto choices_of = [&](uint64_t step) {
      auto random = std::make_shared<sim::Random>(plan.seed * 0x9E3779B97F4A7C15U ^
                                                  step * 0xD1B54A32D192ED03U);
      return hostile::Choices([random] { return random->next(); });
    };
    hostile::Processes processes(ground, choices_of(UINT64_MAX));
    for (const uint32_t step : plan.steps) {
      if (ground.stopped()) break;
      processes.step(choices_of(step));
    }
    processes.end();
    outcome.counts = processes.counts();
    if (faults != nullptr) faults->set_faults({});
    static_cast<void>(system.stop_adapter(*luid));
  }
}

}  // namespace

FuzzOutcome run_plan(const FuzzSetting& setting, const FuzzPlan& plan,
                     const std::function<void(const std::string&)>& log) {
  FuzzOutcome outcome;
  verifier::Findings findings;
  findings.set_waivers(&setting.waivers);
  findings.set_listener([&](const verifier::Finding& finding) {
    if (setting.on_problem && is_problem(finding)) setting.on_problem(problem_of(finding));
  });
  const auto runtime = runtime::make_sim_runtime(
      {.seed = plan.seed, .time_limit = kTimeLimit, .stack_bytes = size_t{512} << 10});
  runtime->run_main([&] { run_inside(*runtime, setting, plan, log, findings, outcome); });
  for (const verifier::Finding& finding : findings.all()) {
    if (is_problem(finding)) outcome.problems.push_back(problem_of(finding));
  }
  return outcome;
}

}  // namespace dxgkit::tool::fuzz
