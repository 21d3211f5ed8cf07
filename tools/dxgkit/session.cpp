#include "tools/dxgkit/session.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/arithmetic.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/screen.h"
#include "tools/dxgkit/start_story.h"

namespace dxgkit::tool {
namespace {

/// Room for DMA and paging buffers, rings, and drivers' allocations, beside the job's own memory.
/// Only touched pages cost memory.
constexpr uint64_t kHostReserveBytes = uint64_t{256} << 20;

std::string describe(Status status) {
  const std::string_view name = status_name(status);
  return name.empty() ? fmt::format("status 0x{:08X}", static_cast<uint32_t>(status))
                      : std::string(name);
}

/// The same on several adapters at once. `luids` belong to the world's slots.
void run_side_by_side(runtime::Runtime& runtime, const SessionConfig& config, const Plan& plan,
                      const Picture& source, const Progress& progress, const World& world,
                      dxgk::System& system, const std::vector<dxgk::Luid>& luids,
                      SessionOutcome& outcome) {
  runtime::Mutex mutex;  // for `done` and the callback
  std::vector<uint64_t> done(luids.size());
  outcome.adapters.resize(luids.size());
  std::vector<std::unique_ptr<runtime::Thread>> threads;
  for (size_t i = 0; i < luids.size(); ++i) {
    threads.push_back(runtime.spawn(fmt::format("adapter {}", i + 1), [&, i] {
      AdapterOutcome& own = outcome.adapters[i];
      own.device = config.devices[world.slots()[i].device].text;
      own.speaks = softgpu_traits(system, luids[i]).speaks;
      if (own.speaks) {
        const auto step = [&, i](uint64_t steps, uint64_t of) {
          const runtime::MutexLock lock(mutex);
          done[i] = steps;
          uint64_t all = 0;
          for (const uint64_t one : done) all += one;
          if (progress) progress(all, of * luids.size());
        };
        own.job = run_job(runtime, system, luids[i], plan, source, step,
                          fmt::format("adapter {} client", i + 1), config.client_api);
      } else {
        own.no_client = run_without_client(runtime, system, luids[i]);
      }
      if (const auto statistics = system.statistics(luids[i]); statistics.has_value())
        own.statistics = *statistics;
    }));
  }
  for (const std::unique_ptr<runtime::Thread>& thread : threads) thread->join();
  outcome.job = outcome.adapters.front().job;
  outcome.statistics = outcome.adapters.front().statistics;
  for (size_t i = 0; i < luids.size() && outcome.message.empty(); ++i) {
    if (outcome.adapters[i].error().empty()) continue;
    outcome.kind = SessionOutcome::Kind::kJobFailed;
    outcome.message = fmt::format("adapter {} ({}): {}", i + 1, outcome.adapters[i].device,
                                  outcome.adapters[i].error());
  }
}

/// Notes why a device leaves the machine by itself, and takes its adapter out of the kernel.
class LossWatch {
 public:
  /// The first reason goes to `lost`, complete at the end of the watch. Both outlive it.
  LossWatch(World& world, std::string& lost) : world_(world), lost_(lost) {
    world_.on_loss([this](size_t, const std::string& why) { note(why); });
  }
  ~LossWatch() { world_.on_loss(nullptr); }
  LossWatch(const LossWatch&) = delete;
  LossWatch& operator=(const LossWatch&) = delete;

  /// From now on adapters are removed with their devices. `luids` belong to the world's slots; both
  /// outlive the watch.
  void remove_from(dxgk::System& system, const std::vector<dxgk::Luid>& luids) {
    world_.on_loss([this, &system, &luids](size_t device, const std::string& why) {
      note(why);
      for (size_t i = 0; i < luids.size(); ++i) {
        if (world_.slots()[i].device == device) static_cast<void>(system.remove_adapter(luids[i]));
      }
    });
    if (lost_.empty()) return;
    // One left during the start, and is not told of again. The run is over.
    for (const dxgk::Luid luid : luids) static_cast<void>(system.remove_adapter(luid));
  }

 private:
  void note(const std::string& why) {
    if (lost_.empty()) lost_ = why;
  }
  World& world_;
  std::string& lost_;
};

/// Everything that happens inside the runtime.
void run_inside(runtime::Runtime& runtime, const SessionConfig& config, const Plan& plan,
                const Picture& source, const Progress& progress, verifier::Findings& findings,
                SessionOutcome& outcome) {
  using Kind = SessionOutcome::Kind;
  WorldConfig world_config;
  world_config.devices = config.devices;
  world_config.memory_bytes = config.memory_bytes;
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
  const std::vector<std::string> engines = (*world)->device().engine_names();
  for (size_t node = 0; node < engines.size(); ++node)
    trace::emit_name(trace::ObjectClass::kNode, node, engines[node]);

  std::optional<nt::CallLog> calls(std::in_place, kernel);
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
    outcome.before = start_story(*calls, config.driver_path, config.devices.front());
    return;
  }
  outcome.interface_version = (*driver)->interface_version();

  dxgk::System system(runtime, machine, kernel, findings);
  std::vector<dxgk::Luid> luids;
  LossWatch watch(**world, outcome.lost);
  dxgk::AdapterOptions adapter_options;
  if (config.verifier.has_value()) adapter_options.verifier.on = config.verifier->on;
  // The wait for an engine that hangs on purpose is as long as on Windows.
  if (config.mode == Mode::kOs && !config.hang.has_value())
    adapter_options.tdr_delay_ns = kBusyMachineTdrDelayNs;
  const bool several = (*world)->slots().size() > 1;
  for (const World::Slot& slot : (*world)->slots()) {
    const Result<dxgk::Luid> started =
        system.start_adapter(**driver, *slot.function, adapter_options);
    if (!started.has_value()) {
      outcome.kind = Kind::kStartFailed;
      outcome.message =
          several ? fmt::format("adapter {} ({}) did not start: {}", luids.size() + 1,
                                config.devices[slot.device].text, describe(started.error()))
                  : fmt::format("the adapter did not start: {}", describe(started.error()));
      outcome.before = start_story(*calls, config.driver_path, config.devices[slot.device]);
      for (const dxgk::Luid running : luids) static_cast<void>(system.stop_adapter(running));
      return;
    }
    luids.push_back(*started);
  }
  calls.reset();
  watch.remove_from(system, luids);
  if (several) {
    run_side_by_side(runtime, config, plan, source, progress, **world, system, luids, outcome);
    for (const dxgk::Luid running : luids) static_cast<void>(system.stop_adapter(running));
    return;
  }
  const Result<dxgk::Luid> adapter = luids.front();
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
    std::vector<bus::EngineFaults> faults(config.hang->node + 1);
    faults.back() = {.hang_at_entry = config.hang->packet, .hangs_max = 1};
    (*world)->device().faults()->set_faults(faults);
    outcome.whole_jobs =
        run_whole_jobs(runtime, system, *adapter, plan, source, progress, config.client_api);
    outcome.job = outcome.whole_jobs.front();
    for (const JobResult& job : outcome.whole_jobs) {
      if (job.error.empty()) outcome.job = job;
    }
  } else if (traits.speaks) {
    PowerRunner power(runtime, system, *adapter, config.power, [&] { (*world)->pull_out(); });
    outcome.job =
        run_job(runtime, system, *adapter, plan, source, progress, "client", config.client_api);
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
  bus::DeviceScreen* const screen = (*world)->device().screen();
  if (config.show && traits.speaks && outcome.job.error.empty() && screen != nullptr) {
    ScreenShow show =
        show_on_screen(system, *adapter, *screen, outcome.job.picture, config.client_api);
    outcome.screen = std::move(show.last);
    outcome.frames = std::move(show.frames);
    outcome.frame_times = std::move(show.frame_times);
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
  // If the verifier has stopped the adapter already, this fails, which is fine.
  static_cast<void>(system.stop_adapter(*adapter));
}

}  // namespace

uint64_t memory_of_job(const SessionConfig& config, const Plan& plan) {
  const uint64_t pictures = config.hang.has_value() ? kProcesses : 1;
  const uint64_t show_bytes =
      config.show ? uint64_t{plan.width} * plan.height * kPixelBytes * (kScreenPrimaries + 1) : 0;
  return config.devices.size() *
         align_up(pictures * job_system_bytes(plan) + show_bytes + kHostReserveBytes, kPageBytes);
}

SessionOutcome run_session(const SessionConfig& config, const Plan& plan, const Picture& source,
                           const Progress& progress) {
  SessionOutcome outcome;
  verifier::Findings findings;
  findings.set_waivers(&config.waivers);
  if (config.on_finding) findings.set_listener(config.on_finding);
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
  if (!outcome.lost.empty()) {
    if (outcome.kind != SessionOutcome::Kind::kStartFailed)
      outcome.kind = SessionOutcome::Kind::kJobFailed;
    outcome.message = fmt::format("a device left the machine: {}", outcome.lost);
  }
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
