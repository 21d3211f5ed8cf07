#include "tools/dxgkit/session.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/arithmetic.h"
#include "devices/softgpu/softgpu.h"
#include "devices/softgpu/softgpu_hw.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/screen.h"
#include "tools/dxgkit/world.h"

namespace dxgkit::tool {
namespace {

/// Room for DMA and paging buffers, rings, and what drivers allocate, beside the job's own memory.
/// Backed only where touched.
constexpr uint64_t kHostReserveBytes = uint64_t{256} << 20;

std::string describe(Status status) {
  const std::string_view name = status_name(status);
  return name.empty() ? fmt::format("status 0x{:08X}", static_cast<uint32_t>(status))
                      : std::string(name);
}

/// Everything that happens inside the runtime.
void run_inside(runtime::Runtime& runtime, const SessionConfig& config, const Plan& plan,
                const Picture& source, const Progress& progress, verifier::Findings& findings,
                SessionOutcome& outcome) {
  using Kind = SessionOutcome::Kind;
  WorldConfig world_config;
  world_config.device = config.device;
  const uint64_t pictures = config.hang.has_value() ? kProcesses : 1;
  const uint64_t show_bytes =
      config.show ? uint64_t{plan.width} * plan.height * kPixelBytes * (kScreenPrimaries + 1) : 0;
  world_config.memory_bytes =
      align_up(pictures * job_system_bytes(plan) + show_bytes + kHostReserveBytes, kPageBytes);
  world_config.vram_bytes = config.vram_bytes;
  world_config.kernel = config.kernel;
  std::expected<std::unique_ptr<World>, std::string> world =
      World::create(runtime, findings, world_config);
  if (!world.has_value()) {
    outcome.kind = Kind::kStartFailed;
    outcome.message = world.error();
    return;
  }
  bus::Machine& machine = (*world)->machine();
  nt::Kernel& kernel = (*world)->kernel();
  if (config.device.kind == DeviceChoice::Kind::kSoftGpu) {
    trace::emit_name(trace::ObjectClass::kNode, SGPU_NODE_3D, "3D");
    trace::emit_name(trace::ObjectClass::kNode, SGPU_NODE_COPY, "copy");
  }

  port::DriverSource image;
  image.name = config.driver_name;
  image.path = config.driver_path;
  std::string message;
  Result<std::unique_ptr<port::Driver>> driver =
      port::Driver::load(kernel, findings, image, &message);
  if (!driver.has_value()) {
    outcome.kind = driver.error() == Status::kInvalidImageFormat && findings.total() == 0
                       ? Kind::kNotADriver
                       : Kind::kLoadRefused;
    outcome.message = fmt::format("{}: {}", config.driver_path,
                                  message.empty() ? describe(driver.error()) : message);
    return;
  }
  outcome.interface_version = (*driver)->interface_version();

  dxgk::System system(runtime, machine, kernel, findings);
  dxgk::AdapterOptions adapter_options;
  if (config.verifier.has_value()) adapter_options.verifier.on = config.verifier->on;
  // An engine that hangs on purpose is waited for as long as Windows would.
  if (config.mode == Mode::kOs && !config.hang.has_value())
    adapter_options.tdr_delay_ns = kBusyMachineTdrDelayNs;
  const Result<dxgk::Luid> adapter =
      system.start_adapter(**driver, (*world)->function(), adapter_options);
  if (!adapter.has_value()) {
    outcome.kind = Kind::kStartFailed;
    outcome.message = fmt::format("the adapter did not start: {}", describe(adapter.error()));
    return;
  }
  const SoftGpuTraits traits = softgpu_traits(system, *adapter);
  if (config.model.has_value() && traits.gpu_addresses != (*config.model != MemoryModel::kPatch)) {
    outcome.kind = Kind::kStartFailed;
    outcome.message =
        fmt::format("{} does not follow --model {}: its commands hold {}", config.driver_name,
                    model_name(*config.model),
                    traits.gpu_addresses ? "GPU virtual addresses" : "no GPU virtual addresses");
    static_cast<void>(system.stop_adapter(*adapter));
    return;
  }
  if (traits.speaks && config.hang.has_value()) {
    softgpu::FaultPlan faults;
    faults.nodes[config.hang->node].hang_at_entry = config.hang->packet;
    faults.nodes[config.hang->node].hangs_max = 1;
    (*world)->softgpu()->set_faults(faults);
    outcome.whole_jobs = run_whole_jobs(runtime, system, *adapter, plan, source, progress);
    outcome.job = outcome.whole_jobs.front();
    for (const JobResult& job : outcome.whole_jobs) {
      if (job.error.empty()) outcome.job = job;
    }
  } else if (traits.speaks) {
    PowerRunner power(runtime, system, *adapter, config.power, [&] { (*world)->pull_out(); });
    outcome.job = run_job(runtime, system, *adapter, plan, source, progress);
    outcome.power = power.finish();
    outcome.removed =
        !outcome.power.empty() && outcome.power.back().planned.step == PowerStep::kRemove;
    if (power.last_statistics().has_value()) outcome.statistics = *power.last_statistics();
  } else {
    outcome.kind = Kind::kNoClient;
    outcome.no_client = run_without_client(runtime, system, *adapter);
    outcome.screen = outcome.no_client.screen;
    outcome.message = outcome.no_client.error;
  }
  if (config.show && traits.speaks && outcome.job.error.empty()) {
    ScreenShow show = show_on_screen(system, *adapter, *(*world)->softgpu(), outcome.job.picture);
    outcome.screen = std::move(show.last);
    outcome.frames = std::move(show.frames);
    outcome.show_error = std::move(show.error);
  }
  if (const Result<dxgk::AdapterStatistics> statistics = system.statistics(*adapter);
      statistics.has_value()) {
    outcome.statistics = *statistics;
  }
  if (Result<std::vector<dxgk::TimeoutReport>> timeouts = system.timeouts(*adapter);
      timeouts.has_value()) {
    outcome.timeouts = std::move(*timeouts);
  }
  if (!outcome.job.error.empty() && !config.hang.has_value()) {
    outcome.kind = Kind::kJobFailed;
    outcome.message = outcome.job.error;
  }
  // Already stopped when the verifier stopped it; then this says so and that is fine.
  static_cast<void>(system.stop_adapter(*adapter));
}

}  // namespace

SessionOutcome run_session(const SessionConfig& config, const Plan& plan, const Picture& source,
                           const Progress& progress) {
  SessionOutcome outcome;
  verifier::Findings findings;
  const std::unique_ptr<runtime::Runtime> runtime = config.mode == Mode::kSim
                                                        ? runtime::make_sim_runtime(config.seed)
                                                        : runtime::make_os_runtime(config.seed);
  std::optional<trace::Recorder> recorder;
  if (config.record) {
    recorder.emplace(
        trace::Recorder::Clock{.now_ns = [&runtime] { return runtime->now(); },
                               .thread = [&runtime] { return runtime->thread_number(); }});
  }
  runtime->run_main([&] {
    // Threads made from here on hand it down.
    trace::set_current(recorder.has_value() ? &*recorder : nullptr);
    run_inside(*runtime, config, plan, source, progress, findings, outcome);
    trace::set_current(nullptr);
  });
  outcome.findings = findings.all();
  if (recorder.has_value()) {
    outcome.recording = {.events = recorder->events(),
                         .names = recorder->names(),
                         .threads = runtime->thread_names(),
                         .dropped = recorder->dropped()};
  }
  return outcome;
}

}  // namespace dxgkit::tool
