#include "sim/world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/companion_file.h"
#include "base/spelling.h"
#include "devices/softgpu/softgpu.h"
#include "devices/softgpu/softgpu_hw.h"
#include "dxgk/exercise.h"
#include "miniports/softgpu/softgpu_umd.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/sim_time.h"
#include "sim/client.h"
#include "sim/packet_life.h"
#include "sim/platform.h"
#include "sim/strangers.h"
#include "thunks/client.h"
#include "trace/trace.h"
#include "verifier/findings.h"

namespace dxgkit::sim {
namespace {

/// From the end of the last fault to the end of the last client.
constexpr int64_t kDrainMost = 10 * runtime::kSecond;
/// Clients that wait for an effect which faults hold back wait no longer than this for the end of
/// the faults.
constexpr int64_t kPatience = 2 * runtime::kSecond;
/// A hang that timers keep alive ends here; idle time does not count.
constexpr int64_t kTimeLimit = 600 * runtime::kSecond;
/// Timers, late DPCs and other work that must run first.
constexpr int64_t kDetectionSlack = 100 * runtime::kMillisecond;

/// A call of the driver that waits or computes longer hangs.
constexpr int64_t kCallMost = 10 * runtime::kSecond;

constexpr const char* kGraphicsKey =
    "\\Registry\\Machine\\System\\CurrentControlSet\\Control\\GraphicsDrivers";

std::function<void()> last_words;  // of the seed that runs

nt::KernelConfig kernel_config(const WorldPlan& plan, const Changes& changes) {
  nt::KernelConfig config;
  config.hang_limit = kCallMost;
  config.processors = changes.processors.value_or(1);
  if (plan.faults.has(FaultKind::kRegistry)) {
    // None of these is valid: each counts as missing (TDR-01).
    auto& values = config.registry[kGraphicsKey];
    constexpr uint32_t kNone = 0, kString = 1, kBinary = 3, kDword = 4;
    values["TdrLevel"] = {kString, {std::byte{'0'}, {}, {}, {}}};
    values["TdrDelay"] = {kDword, {std::byte{1}}};
    values["TdrDdiDelay"] = {kNone, {}};
    values["TdrLimitCount"] = {kBinary, std::vector<std::byte>(4)};
    values["TdrLimitTime"] = {kDword, {}};
    values["TdrDebugMode"] = {kString, std::vector<std::byte>(1 << 16, std::byte{'x'})};
  }
  config.registry[nt::KernelConfig::kDriverKey]["MemoryModel"] =
      nt::RegistryValue::dword(plan.memory_model);
  return config;
}

std::string lines_of(const nt::CallLog& log) {
  std::string text;
  for (const std::string& line : log.lines()) text += line + "\n";
  return text;
}

/// One world's life, inside the runtime. Members in the order they are made.
class Life {
 public:
  Life(runtime::Runtime& runtime, const SeedOptions& options, const WorldPlan& plan,
       const trace::Recorder& recorder, verifier::Findings& findings, SeedOutcome& outcome)
      : runtime_(runtime),
        options_(options),
        plan_(plan),
        recorder_(recorder),
        outcome_(outcome),
        findings_(findings),
        faults_(runtime, plan.faults,
                {.paging_buffer_bytes = plan.paging_buffer_bytes,
                 .aperture_bytes = plan.aperture_bytes,
                 .tdr_delay_ns = plan.tdr_delay_ns},
                options.seed ^ 0xFA017u, options.canary),
        machine_(plan.system_bytes),
        gpu_(runtime, machine_, {.vram_bytes = plan.vram_bytes, .timing = {}, .faults = {}}),
        kernel_(runtime, machine_, findings_, kernel_config(plan, options.changes)) {
    // Its clients know the driver's private data, and its device fails as the plan says.
    situations_.add(verifier::SituationFact::kPlugIn);
    situations_.add(verifier::SituationFact::kDeviceFaults);
  }

  void run();
  /// Afterwards: checks packets and resets by the trace.
  void check_packets(const std::vector<trace::Event>& events);
  void count_faults() {
    outcome_.counters.struck = faults_.struck();
    outcome_.counters.struck[static_cast<size_t>(FaultKind::kRegistry)] +=
        plan_.faults.has(FaultKind::kRegistry) ? 1 : 0;
    for (size_t i = 0; i < kFaultKinds; ++i)
      outcome_.counters.worlds_with[i] = plan_.faults.rate[i] != 0 ? 1 : 0;
  }
  void count_situations() {
    const verifier::SituationReport report(situations_);
    for (size_t i = 0; i < report.counts.size(); ++i) {
      const uint64_t bit = uint64_t{1} << i % 64;
      if (report.counts[i].count != 0) outcome_.counters.situations[i / 64] |= bit;
      if (report.counts[i].why_not.empty()) outcome_.counters.situations_possible[i / 64] |= bit;
    }
  }

 private:
  void fail(std::string what) {
    if (outcome_.failure.empty()) outcome_.failure = std::move(what);
  }
  void check_pages(const char* when, uint64_t expected);
  /// Checks that no finding about the driver is reported unless a fault explains it.
  void check_findings(const char* when);
  /// Adds the first bug check of the driver to a failure that does not name it.
  void name_bug_check();
  /// Strangers submit to addresses that lead nowhere, nobody knows how often.
  bool strangers_fault() const { return plan_.strangers && plan_.has_addresses(); }
  /// Checks findings that are not yet explained; expected page faults are left out.
  std::vector<verifier::Finding> unexplained() const;
  /// TDR-05, TDR-06: limits are reached by as many resets within the time, and by no fewer.
  void check_limits();
  /// P8: checks which clients the reset hit, and that it was due.
  void check_timeout(const dxgk::TimeoutReport& report, std::span<const CutShort> cut_short);
  bool start(dxgk::System& system, port::Driver& driver, dxgk::Luid* adapter);
  void live(dxgk::System& system, dxgk::Luid adapter);
  void collect(const dxgk::AdapterStatistics& statistics);
  /// All clients rest: their content must not be lost when video memory is.
  void stand_by(World& world, std::span<const std::unique_ptr<Client>> clients);
  uint32_t register_value(uint32_t offset);
  /// The driver counts faults of the device; up to `wild` of them are expected.
  void ask_the_driver(dxgk::System& system, dxgk::Luid adapter, uint64_t wild);

  runtime::Runtime& runtime_;
  const SeedOptions& options_;
  const WorldPlan& plan_;
  const trace::Recorder& recorder_;
  SeedOutcome& outcome_;
  verifier::Findings& findings_;
  size_t first_event_ = 0;  // of the adapter that runs
  std::vector<dxgk::TimeoutReport> timeouts_;
  int64_t failed_ns_ = INT64_MAX;  // when the kernel gave the adapter up
  std::vector<TimeJump> jumps_;
  Faults faults_;
  verifier::SituationLog situations_;
  size_t findings_explained_ = 0;
  uint64_t wild_ = 0;  // page faults asked for since
  bus::Machine machine_;
  softgpu::SoftGpu gpu_;
  nt::Kernel kernel_;
};

void Life::check_pages(const char* when, uint64_t expected) {
  ++outcome_.counters.property_checks;
  const uint64_t now = machine_.free_page_count();
  if (now == expected) return;
  fail(fmt::format("{}: {} system pages are free, there were {} before", when, now,
                   expected));  // P11
}

void Life::check_findings(const char* when) {
  ++outcome_.counters.property_checks;
  const std::vector<verifier::Finding> fresh = unexplained();
  if (fresh.empty()) return;
  fail(fmt::format("{}: a finding nothing explains:\n{}", when, verifier::to_text(fresh.front())));
}

std::vector<verifier::Finding> Life::unexplained() const {
  std::vector<verifier::Finding> fresh;
  const auto struck = [&](FaultKind kind) { return faults_.struck()[static_cast<size_t>(kind)]; };
  std::map<std::string_view, uint64_t> explained = {
      {"VA-28", strangers_fault() ? UINT64_MAX : wild_ + gpu_.memory_errors()},
      {"TDR-20", struck(FaultKind::kResetEngineFails)},
      // A violation, where a bug check stops the adapter; after a reset in between it is stale.
      {"INT-11", struck(FaultKind::kRepeatedFence)},
      {"TDR-13", struck(FaultKind::kRepeatedFence)},
      {"TDR-22", struck(FaultKind::kRepeatedFence)},
      {"INT-08", struck(FaultKind::kStorm)},  // a line that was not claimed 100 times in a row
      {"LIFE-21", struck(FaultKind::kRemoval)},
      // A stranger gives memory, and private data that tell the driver something else.
      {"ALLOC-20", plan_.strangers ? UINT64_MAX : 0},
      // A warning each; check_packets checks their effects.
      {"TDR-01", plan_.faults.has_hangs() ? UINT64_MAX : 0}};
  for (size_t i = findings_explained_; const verifier::Finding& finding : findings_.all()) {
    if (i != 0) {
      --i;
      continue;
    }
    if (!finding.waived.empty() && finding.severity != verifier::Severity::kBugCheck) continue;
    const auto found = explained.find(finding.rule);
    if (found == explained.end() || found->second == 0 ||
        finding.severity == verifier::Severity::kBugCheck ||
        (finding.rule == "TDR-01" && finding.severity != verifier::Severity::kWarning)) {
      fresh.push_back(finding);
    } else {
      --found->second;
    }
  }
  return fresh;
}

bool Life::start(dxgk::System& system, port::Driver& driver, dxgk::Luid* adapter) {
  const uint64_t free_before = machine_.free_page_count();
  dxgk::AdapterOptions options;
  options.check_level =
      plan_.reference_checks ? dxgk::CheckLevel::kReference : dxgk::CheckLevel::kOff;
  options.tdr_delay_ns = plan_.tdr_delay_ns;
  options.faults = &faults_;
  options.situations = &situations_;
  options.periodic_trim_ns = plan_.periodic_trim_ns;
  if (plan_.faults.has(FaultKind::kFewResets)) {
    options.timeouts.emplace();
    options.timeouts->delay_ns = plan_.tdr_delay_ns;
    options.timeouts->limit_count = plan_.faults.limit_count;
    options.timeouts->limit_time_ns = plan_.faults.limit_time_ns;
  }
  const nt::CallLog log(kernel_);
  for (int tries = 0; tries < 2; ++tries) {
    first_event_ = tries == 0 ? 0 : recorder_.recorded();
    faults_.enter(tries == 0 ? Faults::Phase::kStarting : Faults::Phase::kQuiet);
    const Result<dxgk::Luid> started = system.start_adapter(driver, gpu_.function(), options);
    faults_.enter(Faults::Phase::kQuiet);
    if (started.has_value()) {
      if (tries == 0 && faults_.start_failed() && findings_.total() != findings_explained_) {
        // A step that need not succeed.
        findings_explained_ = findings_.all().size();
      }
      *adapter = *started;
      return true;
    }
    if (tries != 0 || !faults_.start_failed()) {
      fail(fmt::format(
          "the adapter does not start: {}",
          findings_.all().empty() ? lines_of(log) : verifier::to_text(findings_.all().back())));
      return false;
    }
    check_pages("after a start that was made to fail", free_before);
    findings_explained_ = findings_.all().size();
  }
  return false;
}

uint32_t Life::register_value(uint32_t offset) {
  void* const registers = machine_.map_io(gpu_.function().bars()[0].base, SGPU_BAR0_BYTES);
  if (registers == nullptr) return 0;
  const uint64_t value = machine_.read_register(static_cast<std::byte*>(registers) + offset, 4);
  static_cast<void>(machine_.unmap_io(registers, SGPU_BAR0_BYTES));
  return static_cast<uint32_t>(value);
}

void Life::collect(const dxgk::AdapterStatistics& statistics) {
  Counters& to = outcome_.counters;
  to.packets += statistics.packets_submitted;
  to.paging_packets += statistics.paging_packets;
  to.evictions += statistics.evictions;
  to.page_ins += statistics.page_ins;
  to.page_outs += statistics.page_outs;
  to.fills += statistics.fills;
  to.aperture_maps += statistics.aperture_maps;
  to.bytes_moved += statistics.bytes_in + statistics.bytes_out;
  to.multipass_paging += statistics.multipass_paging;
  to.multipass_renders += statistics.multipass_renders;
  to.splits += statistics.splits;
}

void Life::ask_the_driver(dxgk::System& system, dxgk::Luid adapter, uint64_t wild) {
  dxgk::Process& process = system.create_process("auditor");
  SgpuUmdEscape escape{};
  escape.magic = SGPU_UMD_ESCAPE_MAGIC;
  escape.version = SGPU_UMD_VERSION;
  escape.operation = SGPU_UMD_ESCAPE_QUERY_STATE;
  NTSTATUS status = 0;
  {
    const thunks::ClientScope scope(system, process);
    D3DKMT_OPENADAPTERFROMLUID open{};
    open.AdapterLuid.LowPart = adapter.low;
    open.AdapterLuid.HighPart = adapter.high;
    status = D3DKMTOpenAdapterFromLuid(&open);
    D3DKMT_ESCAPE ask{};
    ask.hAdapter = open.hAdapter;
    ask.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    ask.pPrivateDriverData = &escape;
    ask.PrivateDriverDataSize = sizeof(escape);
    if (status >= 0) status = D3DKMTEscape(&ask);
  }
  system.end_process(process);
  ++outcome_.counters.property_checks;
  if (status < 0 || escape.node_count == 0) return fail("the driver does not answer in the end");
  uint64_t faults = 0;
  for (uint32_t i = 0; i < escape.node_count; ++i) {
    const SgpuUmdNodeState& node = escape.node[i];
    faults += node.faults;
    if (faults <= wild || strangers_fault())
      continue;  // P3, P4: the device saw an address that led nowhere
    fail(fmt::format("{} of node {} faulted on the device, the last for reason {}",
                     counted(node.faults, "packet"), i, node.last_fault_reason));
  }
}

void Life::stand_by(World& world, std::span<const std::unique_ptr<Client>> clients) {
  Result<dxgk::Exercise> exercise = dxgk::Exercise::on(world.system, world.adapter);
  const auto rests = [&] {
    return world.nobody_dies() && std::ranges::all_of(clients, [](const auto& client) {
             return client->process_gone || client->idle();
           });
  };
  if (!exercise.has_value()) return;
  Status status = Status::kGraphicsAllocationBusy;
  // Every submission is done at some time, after a timeout each if interrupts are lost.
  for (int tries = 0; tries < 100 && status == Status::kGraphicsAllocationBusy; ++tries) {
    runtime_.sleep_for(10 * runtime::kMillisecond);
    if (rests()) status = exercise->evict_all();
  }
  if (!is_success(status) || !rests() || faults_.driver_failed()) return;
  // With GPU virtual addresses always: the way up makes their tables again.
  const bool sleeps = plan_.has_addresses() || plan_.system_sleeps;
  if (sleeps && !world.system.set_power(world.adapter, dxgk::PowerTarget::kStandby).has_value())
    return;
  const bus::Bar& vram = gpu_.function().bars()[SGPU_BAR_VRAM];
  void* const memory = machine_.map_io(vram.base, plan_.vram_bytes);
  if (memory == nullptr) return world.fail("video memory cannot be mapped");
  std::memset(memory, 0xDD, plan_.vram_bytes);
  static_cast<void>(machine_.unmap_io(memory, plan_.vram_bytes));
  if (sleeps) {
    world.sleep_idle(plan_.sleep_ns);
    const auto up = world.system.set_power(world.adapter, dxgk::PowerTarget::kD0);
    status = up.has_value() ? Status::kSuccess : up.error();
  } else {
    status = options_.seed % 2 == 0 ? exercise->power_cycle() : exercise->reset();
  }
  if (world.adapter_lost() || status == Status::kGraphicsAllocationBusy) return;
  if (!is_success(status))
    return world.fail(fmt::format("the adapter did not come back: {:#010x}",
                                  static_cast<uint32_t>(to_ntstatus(status))));
  faults_.count(FaultKind::kStandBy);
}

/// At some call, most of which are of a few thunks; or at one of the first calls of any thunk.
void choose_death(uint64_t at_call, Random& random, Client::Options* options) {
  options->dies_at = at_call;
  if (random.percent(25)) return;
  options->dies_in = kThunkNames[random.below(kThunkNames.size())];
  options->dies_at = random.magnitude(1, 4);
}

void Life::live(dxgk::System& system, dxgk::Luid adapter) {
  World world(options_, plan_, runtime_, machine_, gpu_, system, adapter, faults_, findings_,
              outcome_.counters);
  const uint64_t free_running = machine_.free_page_count();
  Random random(options_.seed ^ 0xC11E47u), later(options_.seed ^ 0xD1E5u),
      thunks(options_.seed ^ 0x7B0Bu);
  std::vector<std::unique_ptr<Client>> clients;
  const bool hog =
      plan_.faults.has(FaultKind::kVramFull) || plan_.faults.has(FaultKind::kVramFragmented);
  for (uint32_t i = 0; i < plan_.client_count + (hog ? 1 : 0); ++i) {
    Client::Options options;
    options.number = i;
    options.seed = random.next();
    options.hog = i == plan_.client_count;
    const uint64_t death = random.magnitude(1, uint64_t{plan_.operations} * 4);
    if (plan_.faults.has(FaultKind::kClientDeath) && random.percent(60) && !options.hog)
      choose_death(death, thunks, &options);
    // And a client that keeps video memory locked: all of it is released at once.
    if (options.hog && plan_.faults.has(FaultKind::kClientDeath) && later.percent(60))
      options.dies_at = later.magnitude(10, 400);
    options.tidy = random.percent(50);
    options.hostile = plan_.faults.has(FaultKind::kHostileClient) && random.percent(60);
    clients.push_back(std::make_unique<Client>(world, options));
  }
  outcome_.counters.clients += clients.size();
  Strangers strangers(world, options_.seed ^ 0x57A6u);
  world.strangers_work = plan_.strangers;
  world.expect(clients.size() + (plan_.strangers ? 1 : 0));
  faults_.enter(Faults::Phase::kWorking);
  gpu_.set_faults(faults_.device_plan());
  {
    std::vector<std::unique_ptr<runtime::Thread>> threads, waiters;
    const auto reaper = runtime_.spawn("reaper", [&world] { world.reap(); });
    for (const auto& client : clients) {
      const std::string name = fmt::format("client {}", client->options().number);
      threads.push_back(runtime_.spawn(name, [one = client.get()] { one->run(); }));
      waiters.push_back(
          runtime_.spawn(name + " waits", [one = client.get()] { one->run_waiter(); }));
    }
    std::unique_ptr<runtime::Thread> strangers_thread;
    if (plan_.strangers)
      strangers_thread = runtime_.spawn("strangers", [&strangers] { strangers.run(); });
    Platform events(world);
    const auto platform = runtime_.spawn("platform", [&] { events.run(); });
    if (plan_.faults.has(FaultKind::kRemoval)) {
      runtime_.sleep_for(int64_t{plan_.faults.removed_at_us} * runtime::kMicrosecond);
      if (!world.adapter_lost()) {
        faults_.stopped_by(FaultKind::kRemoval);
        gpu_.pull_out();
        if (system.remove_adapter(adapter) != Status::kSuccess)
          world.fail("a running adapter cannot be removed");
      }
    }
    const bool quiet = world.wait_for_work(plan_.client_count, kPatience);
    events.end();
    platform->join();
    world.strangers_end = true;
    if (strangers_thread != nullptr) strangers_thread->join();
    if (quiet && !hog && !world.failed() && !world.adapter_lost() &&
        plan_.faults.has(FaultKind::kStandBy)) {
      faults_.stand_by(true);
      stand_by(world, clients);
      faults_.stand_by(false);
    }
    faults_.enter(Faults::Phase::kHealed);
    gpu_.set_faults({});
    world.announce_healed();
    const int64_t healed = runtime_.now();
    for (const auto& thread : threads) thread->join();
    world.stop_reaping();
    reaper->join();
    for (const auto& client : clients) {
      if (client->process_gone) continue;
      client->mark_dying();
      system.end_process(client->process());
      client->ended();
    }
    for (const auto& waiter : waiters) waiter->join();
    const int64_t drained = runtime_.now() - healed;
    outcome_.counters.worst_drain_ns =
        std::max(outcome_.counters.worst_drain_ns, static_cast<uint64_t>(drained));
    if (drained > kDrainMost)
      world.fail(fmt::format("everything healed, and the last client ended {} ms later",
                             drained / runtime::kMillisecond));
  }
  for (const Named& one : world.named) close(one.descriptor);
  wild_ = world.wild_submissions;
  jumps_ = world.jumps;
  if (world.failed()) fail(world.failure());
  faults_.count(FaultKind::kLostInterrupt, gpu_.count(softgpu::InterruptFate::kLost));
  faults_.count(FaultKind::kDuplicateInterrupt, gpu_.count(softgpu::InterruptFate::kDuplicate));
  faults_.count(FaultKind::kLateInterrupt, gpu_.count(softgpu::InterruptFate::kLate));
  faults_.count(FaultKind::kEngineHang, gpu_.hangs());
  faults_.count(FaultKind::kMemoryError, gpu_.memory_errors());
  const Result<dxgk::AdapterStatistics> statistics = system.statistics(adapter);
  if (statistics.has_value()) collect(*statistics);
  if (auto timeouts = system.timeouts(adapter); timeouts.has_value()) timeouts_ = *timeouts;
  outcome_.counters.engine_timeouts += timeouts_.size();
  for (const dxgk::TimeoutReport& report : timeouts_) {
    if (report.code == 0x142) faults_.count(FaultKind::kFewResets);
  }
  if (world.adapter_lost()) {
    // The bug check that was injected; beside it, other findings of that entry's failure.
    const std::vector<verifier::Finding> fresh = unexplained();
    const auto bug_check = [](const verifier::Finding& finding) {
      return finding.severity == verifier::Severity::kBugCheck;
    };
    const bool removed = faults_.struck()[static_cast<size_t>(FaultKind::kRemoval)] != 0;
    const bool one = removed
                         ? fresh.empty()
                         : std::ranges::count_if(fresh, bug_check) == 1 &&
                               std::ranges::all_of(fresh, [&](const verifier::Finding& finding) {
                                 return finding.ddi == std::ranges::find_if(fresh, bug_check)->ddi;
                               });
    if (!one) {
      fail(fmt::format("a driver entry failed, and {} came of it: {}",
                       counted(fresh.size(), "finding"),
                       fresh.empty() ? "" : verifier::to_text(fresh.back())));
    }
    findings_explained_ = findings_.all().size();
    wild_ = 0;
    return;  // pages stay with an adapter that failed until it is stopped
  }
  if (!world.failed())
    ask_the_driver(system, adapter, world.wild_submissions + gpu_.memory_errors());
  if (options_.canary == Canary::kLeak) static_cast<void>(machine_.allocate_contiguous(1));
  check_pages("after the last client", free_running);
  ++outcome_.counters.property_checks;
  if (const uint32_t writes = register_value(SGPU_REG_DUMMY_WRITES); writes != 0)  // P4
    fail(fmt::format("the device wrote {} through aperture pages that were unmapped",
                     counted(writes, "time")));
}

void Life::check_packets(const std::vector<trace::Event>& events) {
  if (first_event_ > events.size() || recorder_.dropped() != 0) return;
  const std::span<const trace::Event> life(events.begin() + static_cast<ptrdiff_t>(first_event_),
                                           events.end());
  // Without progress, then without an answer to the preemption, for TdrDelay each; once more if
  // something finished after it was asked for (TDR-10).
  const int64_t patience = 3 * plan_.tdr_delay_ns + kDetectionSlack;
  for (const trace::Event& event : life) {
    if (event.kind == static_cast<uint16_t>(trace::EventKind::kAdapterState) && event.b == 2)
      failed_ns_ = std::min(failed_ns_, event.time_ns);
  }
  const PacketLives lives = follow_packets(life, recorder_.names(), patience, jumps_);
  outcome_.counters.property_checks += lives.checks;
  outcome_.counters.preempted_packets += lives.preempted;
  if (!lives.failure.empty()) fail(lives.failure);
  for (const dxgk::TimeoutReport& report : timeouts_) check_timeout(report, lives.cut_short);
  check_limits();
}

void Life::check_timeout(const dxgk::TimeoutReport& report, std::span<const CutShort> cut_short) {
  const auto struck = [&](FaultKind kind) { return faults_.struck()[static_cast<size_t>(kind)]; };
  ++outcome_.counters.property_checks;
  const std::string what = fmt::format("timeout {:#x} of node {} at {} ns", report.code,
                                       report.node, report.detected_ns);
  if (!plan_.faults.has_hangs()) return fail(what + ": nothing takes that long");
  if (report.code == 0x142) return;
  // P8: with one more TdrDelay if the engine got on meanwhile.
  if (report.asked_ns != 0 && report.detected_ns - report.asked_ns -
                                      jumped_between(jumps_, report.asked_ns, report.detected_ns) >
                                  2 * plan_.tdr_delay_ns + kDetectionSlack)
    return fail(fmt::format("{}: preemption was asked for {} ms before", what,
                            (report.detected_ns - report.asked_ns) / runtime::kMillisecond));
  const CutShort* cut = nullptr;
  for (const CutShort& one : cut_short) {
    if (cut == nullptr && one.node == report.node && one.ended_ns >= report.detected_ns &&
        (one.ended_ns <= report.ended_ns || report.ended_ns == 0))
      cut = &one;
  }
  if (report.code == 0x117) {
    const bool paging = cut != nullptr && cut->paging;
    if (!paging && struck(FaultKind::kResetEngineFails) == 0)
      fail(what + ": the adapter was reset, and the engine could have been");
    return;
  }
  if (report.code != 0x141 || !report.recovered) return;
  if (failed_ns_ <= std::max(report.detected_ns, report.ended_ns)) return;  // that took all devices
  for (const dxgk::TimeoutDevice& device : report.devices) {
    if (!device.hurt || (cut != nullptr && cut->process == device.process)) continue;
    // Others are lost meanwhile for reasons of their own.
    if (device.state != "hung" && device.state != "reset") continue;
    fail(fmt::format("{}: the device of {} was lost, and the engine was at a packet of {}", what,
                     device.process, cut == nullptr ? "nobody" : cut->process));
  }
}

void Life::check_limits() {
  const int64_t window = plan_.faults.has(FaultKind::kFewResets)
                             ? plan_.faults.limit_time_ns
                             : dxgk::TimeoutPolicy{}.limit_time_ns;
  const uint32_t most = plan_.faults.has(FaultKind::kFewResets) ? plan_.faults.limit_count
                                                                : dxgk::TimeoutPolicy{}.limit_count;
  for (const dxgk::TimeoutReport& blocked : timeouts_) {
    if (blocked.code != 0x142) continue;
    ++outcome_.counters.property_checks;
    const auto hangs = std::ranges::count_if(timeouts_, [&](const dxgk::TimeoutReport& report) {
      return report.code == 0x141 && report.process == blocked.process &&
             report.detected_ns <= blocked.detected_ns &&
             blocked.detected_ns - report.ended_ns < window;
    });
    // The running one may not be recorded yet.
    if (hangs + 1 + 1 < static_cast<ptrdiff_t>(most))
      fail(fmt::format("{} was kept from the GPU at {} ns after {} within {} ms", blocked.process,
                       blocked.detected_ns, counted(hangs, "timeout"),
                       window / runtime::kMillisecond));
  }
  const bool stopped = std::ranges::any_of(findings_.all(), [](const verifier::Finding& finding) {
    return finding.rule == "TDR-05" && finding.severity == verifier::Severity::kBugCheck;
  });
  if (!stopped) return;
  ++outcome_.counters.property_checks;
  const auto reset = [](const dxgk::TimeoutReport& report) { return report.code == 0x117; };
  const auto last = std::ranges::find_if(timeouts_.rbegin(), timeouts_.rend(), reset);
  if (last == timeouts_.rend()) return;
  const auto resets = std::ranges::count_if(timeouts_, [&](const dxgk::TimeoutReport& report) {
    return reset(report) && last->detected_ns - report.detected_ns < window;
  });
  if (resets < static_cast<ptrdiff_t>(most))
    fail(fmt::format("the adapter was stopped after {} within {} ms", counted(resets, "reset"),
                     window / runtime::kMillisecond));
}

/// softgpu's image: where an installed tool has it, else where the build left it.
const std::string& built_in_driver(bool explicit_residency) {
  static const std::array<std::string, 2> paths = {
      find_companion({"softgpu.so", DXGKIT_DRIVERS_FROM_TOOL, {DXGKIT_BUILT_DRIVER}}),
      find_companion({"softgpu_wddm2.so", DXGKIT_DRIVERS_FROM_TOOL, {DXGKIT_BUILT_DRIVER2}})};
  return paths[explicit_residency ? 1 : 0];
}

void Life::run() {
  if (machine_.add_function(gpu_.function()) != Status::kSuccess)
    return fail("the device does not fit into the machine");
  machine_.set_page_fault([this](uint64_t count) { return faults_.page_fault(count); });
  const uint64_t free_at_first = machine_.free_page_count();
  {
    std::string message;
    Result<std::unique_ptr<port::Driver>> driver = port::Driver::load(
        kernel_, findings_,
        {.name = "softgpu",
         .path =
             !options_.driver.empty() ? options_.driver : built_in_driver(plan_.explicit_residency),
         .entry = nullptr},
        &message);
    if (!driver.has_value()) return fail("the driver does not load: " + message);
    dxgk::System system(runtime_, machine_, kernel_, findings_);
    dxgk::Luid adapter;
    if (start(system, **driver, &adapter)) {
      live(system, adapter);
      check_findings("after the last client");
      faults_.enter(Faults::Phase::kQuiet);
      static_cast<void>(system.stop_adapter(adapter));
    }
  }
  check_findings("after the driver was unloaded");
  check_pages("after the driver was unloaded", free_at_first);
  name_bug_check();
}

void Life::name_bug_check() {
  const std::vector<verifier::Finding> all = findings_.all();
  const auto found =
      std::ranges::find(all, verifier::Severity::kBugCheck, &verifier::Finding::severity);
  if (found == all.end() || outcome_.failure.empty() || outcome_.failure.contains(found->actual))
    return;
  outcome_.failure += fmt::format("\n{}: bug-check in {}\n  actual:   {}\n  at:       {}+{:#x} {}",
                                  found->rule, found->ddi, found->actual, found->place.image,
                                  found->place.rva, found->place.symbol);
}

}  // namespace

World::World(const SeedOptions& options_in, const WorldPlan& plan_in, runtime::Runtime& runtime_in,
             bus::Machine& machine_in, softgpu::SoftGpu& gpu_in, dxgk::System& system_in,
             dxgk::Luid adapter_in, Faults& faults_in, const verifier::Findings& findings_in,
             Counters& counters_in)
    : runtime(runtime_in),
      machine(machine_in),
      gpu(gpu_in),
      system(system_in),
      adapter(adapter_in),
      plan(plan_in),
      faults(faults_in),
      findings(findings_in),
      counters(counters_in),
      options(options_in) {}

bool World::adapter_lost() const {
  if (faults.driver_failed()) return true;
  struct Explained {
    FaultKind kind;
    std::string_view rule;
  };
  // Several rules can report a fence that was never submitted: the first check that sees it does.
  constexpr std::array<Explained, 6> kExplained = {{{FaultKind::kFewResets, "TDR-05"},
                                                    {FaultKind::kMemoryError, "PAGE-49"},
                                                    {FaultKind::kFutureFence, "INT-11"},
                                                    {FaultKind::kFutureFence, "INT-14"},
                                                    {FaultKind::kFutureFence, "PREEMPT-09"},
                                                    {FaultKind::kFutureFence, "TDR-14"}}};
  for (const Explained& one : kExplained) {
    if (!plan.faults.has(one.kind) || findings.count(one.rule) == 0) continue;
    for (const verifier::Finding& finding : findings.all()) {
      if (finding.rule != one.rule || finding.severity != verifier::Severity::kBugCheck) continue;
      faults.stopped_by(one.kind);
      return true;
    }
  }
  return false;
}

std::string World::why_stopped() const {
  const std::vector<verifier::Finding> all = findings.all();
  const auto fatal =
      std::ranges::find(all, verifier::Severity::kBugCheck, &verifier::Finding::severity);
  return fatal == all.end() ? "" : "\n" + verifier::to_text(*fatal);
}

uint64_t World::adapter_resets() const {
  const Result<dxgk::AdapterStatistics> statistics = system.statistics(adapter);
  return statistics.has_value() ? statistics->adapter_resets : 0;
}

bool World::is_blocked(const Client& client) const {
  const Result<std::vector<dxgk::TimeoutReport>> reports = system.timeouts(adapter);
  if (!reports.has_value()) return false;
  const std::string name = fmt::format("client {}", client.options().number);
  return std::ranges::any_of(*reports, [&](const dxgk::TimeoutReport& report) {
    return report.code == 0x142 && report.process == name;
  });
}

SeedOutcome run_seed(const SeedOptions& options) {
  SeedOutcome outcome;
  const WorldPlan plan = WorldPlan::draw(options);
  outcome.counters.seeds = 1;
  runtime::SimOptions sim;
  sim.seed = options.seed;
  sim.time_limit = kTimeLimit + plan.idle_most_ns();
  const std::unique_ptr<runtime::Runtime> runtime = runtime::make_sim_runtime(sim);
  verifier::Findings findings;  // told of outside the runtime, where that is no scheduling point
  findings.set_waivers(&options.waivers);
  if (options.on_finding) findings.set_listener(options.on_finding);
  uint64_t events = 0;
  std::vector<trace::Event> events_so_far;
  const trace::Recorder* stopped = nullptr;
  trace::Recorder recorder(
      trace::Recorder::Clock{.now_ns =
                                 [&] {  // asked once for each
                                   if (++events == options.stop_at_event && stopped != nullptr)
                                     options.at_stop(*stopped);
                                   return runtime->now();
                                 },
                             .thread = [&runtime] { return runtime->thread_number(); }});
  const auto write_trace = [&] {
    const trace::Recording recording{.events = recorder.events(),
                                     .names = recorder.names(),
                                     .threads = runtime->thread_names(),
                                     .dropped = recorder.dropped()};
    std::ofstream(options.trace_path, std::ios::binary)
        << (options.trace_path.ends_with(".pftrace") ? trace::to_perfetto(recording)
                                                     : trace::to_text(recording));
  };
  if (!options.trace_path.empty()) {
    last_words = write_trace;  // a world that ends its process is the one to examine
    set_last_words([] { last_words(); });
  }
  runtime->run_main([&] {
    trace::set_current(&recorder);
    stopped = &recorder;
    {
      Life life(*runtime, options, plan, recorder, findings, outcome);
      life.run();
      events_so_far = recorder.events();
      life.check_packets(events_so_far);
      life.count_faults();
      life.count_situations();
      outcome.counters.simulated_ns = static_cast<uint64_t>(runtime->now());
      outcome.counters.events = events;
      outcome.counters.switches = runtime::sim_switches(*runtime);
    }
    trace::set_current(nullptr);
  });
  if (options.trace) {
    // The end of the machine is mostly no event.
    if (recorder.dropped() != 0 || recorder.recorded() != events_so_far.size())
      events_so_far = recorder.events();
    outcome.trace_hash = trace::hash_of(events_so_far);
  }
  if (!options.trace_path.empty()) {
    set_last_words(nullptr);
    write_trace();
    if (options.trace_notes && !options.trace_path.ends_with(".pftrace"))
      std::ofstream(options.trace_path, std::ios::binary | std::ios::app)
          << options.trace_notes(outcome);
  }
  return outcome;
}

}  // namespace dxgkit::sim
