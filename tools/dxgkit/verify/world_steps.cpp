// Worlds: several processes at work at once in a machine that has too little of everything, with
// results checked by the client plug-in. What one job alone never needs happens here: eviction
// under work, content moved in parts, buffers cut at split points, patching again, preemption. In
// storms much else goes wrong at the same time.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/arithmetic.h"
#include "base/spelling.h"
#include "dxgk/core/verifier_switches.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/canvas.h"
#include "tools/dxgkit/verify/late_report.h"
#include "tools/dxgkit/verify/scarcity.h"
#include "tools/dxgkit/verify/turmoil.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {
namespace {

/// With real threads a busy machine takes a hundred times as long for each hand-over.
constexpr size_t kSimulatedWorlds = 10, kRealWorlds = 2;
constexpr size_t kStorms = 8;
constexpr size_t kProcesses = 4;
constexpr size_t kRounds = 3;
constexpr size_t kJobs = 3;  // of a process, alive at the same time
constexpr uint64_t kBusyNs = 2 * 1000 * 1000;
/// What a segment holds beside the jobs: page tables of all processes, and what the driver keeps.
constexpr uint64_t kTableBytes = uint64_t{256} << 10, kDriverBytes = uint64_t{64} << 10;

/// What one process does, drawn before it begins, as processes run side by side.
struct Errand {
  uint64_t seed = 0;
  uint32_t node = 0;
  bool busy = false;
};
struct Life {
  std::vector<std::vector<Errand>> rounds;  // of jobs whose memory is alive together
  int32_t priority = 0;
  bool ends_at_work = false;  // the process exits with its last round in flight
};
/// One world.
struct Plan {
  dxgk::VerifierSwitches switches;
  uint64_t chunk_bytes = 0;    // of a transfer
  uint64_t segment_bytes = 0;  // 0: as the driver says
  uint64_t scarcity_seed = 0;
  std::vector<Life> lives;
  std::optional<Troubles> troubles = {};  // of a storm
  uint64_t troubles_seed = 0;
};

uint64_t bytes_of(const std::vector<DxgkitClientAllocation>& wanted) {
  uint64_t bytes = 0;
  constexpr uint64_t k64 = uint64_t{64} << 10;
  for (const DxgkitClientAllocation& one : wanted) {
    // A picture has the pitch that the driver gives it.
    const uint64_t picture = uint64_t{one.width} * one.height * 8;
    bytes += align_up(std::max(one.size_bytes, picture), k64);
  }
  return bytes;
}

/// Of all primaries, which stay where they are. 0: the driver has no display.
uint64_t shown_bytes(Bench& bench) {
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return 0;
  uint64_t bytes = 0;
  for (const dxgk::DisplaySource& source : *sources) {
    if (!source.visible || !source.mode) continue;
    const uint64_t pixels = uint64_t{source.mode->width} * source.mode->height;
    bytes += align_up(pixels * dxgk::kPixelBytes, kPageBytes);
  }
  return bytes;
}

Answer<Plan> draw(Bench& bench, size_t world) {
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return std::unexpected(code.error());
  Plan plan;
  uint64_t largest = 0;  // of what one job needs
  // Real threads take long over work that overtakes others and waits for their memory.
  const bool urgent = world == 0 || bench.simulated();
  for (size_t process = 0; process < kProcesses; ++process) {
    Life life;
    for (size_t round = 0; round < kRounds; ++round) {
      std::vector<Errand> jobs;
      for (size_t i = 0; i < kJobs; ++i) {
        Errand one;
        one.seed = bench.random();
        one.node = static_cast<uint32_t>(bench.random() % bench.node_count());
        one.busy = urgent && bench.random() % 2 == 0;
        const Answer<std::vector<DxgkitClientAllocation>> wanted =
            (*code)->plan(one.seed, one.node);
        if (!wanted) return std::unexpected(wanted.error());
        largest = std::max(largest, bytes_of(*wanted));
        jobs.push_back(one);
      }
      life.rounds.push_back(std::move(jobs));
    }
    // A higher one than 0 takes a privilege.
    if (urgent && process % 2 != 0) life.priority = -7 + static_cast<int32_t>(bench.random() % 4);
    life.ends_at_work = world % 2 == 1 && process == 0;
    plan.lives.push_back(std::move(life));
  }
  // The first world has its rare paths alone, the second its shortage alone.
  if (world != 1) {
    using dxgk::VerifierSwitch;
    for (const VerifierSwitch one :
         {VerifierSwitch::kAlwaysRepatch, VerifierSwitch::kNeverPrepatch,
          VerifierSwitch::kTakeSplitPoint, VerifierSwitch::kForceComplexLock,
          VerifierSwitch::kNoDemotion, VerifierSwitch::kFailAcquireSwizzlingRange}) {
      if (bench.random() % 2 == 0) plan.switches.set(one);
    }
  }
  plan.chunk_bytes = (1 + bench.random() % 16) * kPageBytes;
  const uint64_t beside = bench.gpu_addresses() ? kTableBytes + kDriverBytes : kDriverBytes;
  if (world != 0) plan.segment_bytes = align_up(largest + beside, kPageBytes);
  if (world != 0 && !has_memory_segment(bench.exercise().segments()))
    plan.segment_bytes += shown_bytes(bench);
  plan.scarcity_seed = bench.random();
  return plan;
}

/// What was special in the world, for a message about it.
std::string describe(const Plan& plan) {
  std::string text = fmt::format("with transfers of at most {} KiB", plan.chunk_bytes >> 10);
  if (plan.segment_bytes != 0)
    text += fmt::format(", memory segments of {} KiB", plan.segment_bytes >> 10);
  for (const dxgk::VerifierSwitchName& one : dxgk::kVerifierSwitchNames) {
    if (plan.switches.has(one.which)) text += fmt::format(", {}", one.name);
  }
  if (plan.troubles) text += plan.troubles->text();
  return text;
}

/// What came of some worlds.
struct Tally {
  size_t jobs = 0;
  uint64_t cuts = 0, evictions = 0, troubles = 0, naps = 0;
  uint64_t lost = 0;           // devices, to sleeps
  bool adapter_ended = false;  // by itself: its machine has to go
};

/// Puts the adapter to sleep under its clients, as often as the plan says, until the clients are
/// done.
class Naps {
 public:
  Naps(Bench& bench, const Plan& plan) : bench_(bench), plan_(plan), random_(plan.troubles_seed) {}

  /// On a thread of its own; what is wrong, or nothing.
  void run();
  void end() { over_ = true; }
  uint64_t count() const { return count_; }
  /// Any thread: how often it began so far.
  uint64_t begun() const { return begun_; }
  const std::string& wrong() const { return wrong_; }

 private:
  int64_t time(int64_t most_ns) {
    random_ += kMixStep;
    return 1 + static_cast<int64_t>(mixed(random_) % static_cast<uint64_t>(most_ns));
  }
  Status sleep_once();

  Bench& bench_;
  const Plan& plan_;
  uint64_t random_;
  std::atomic<bool> over_{false};
  std::atomic<uint64_t> begun_{0};
  uint64_t count_ = 0;
  std::string wrong_;
};

void Naps::run() {
  for (uint32_t nap = 0; nap < plan_.troubles->naps; ++nap) {
    bench_.runtime().sleep_for(time(2 * runtime::kMillisecond));
    if (over_ || !bench_.running()) return;
    bench_.freeze(true);
    ++begun_;
    const Status status = sleep_once();
    bench_.freeze(false);
    if (is_success(status)) {
      ++count_;
    } else if (bench_.running()) {
      wrong_ = "the adapter did not come back from sleep: " + status_text(status);
      return;
    }
  }
}

Status Naps::sleep_once() {
  constexpr dxgk::PowerTarget kTargets[] = {
      dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kHybridSleep, dxgk::PowerTarget::kHibernate};
  const dxgk::PowerTarget target = kTargets[static_cast<size_t>(time(3)) % 3];
  if (const auto down = bench_.system().set_power(bench_.luid(), target); !down.has_value())
    return down.error();
  bench_.runtime().sleep_for(time(runtime::kSecond));
  const auto up = bench_.system().set_power(bench_.luid(), dxgk::PowerTarget::kD0);
  return up.has_value() ? Status::kSuccess : up.error();
}

/// A process of a world, on a device that it replaces if a sleep costs it.
class Resident {
 public:
  /// @param naps  null: the adapter does not sleep.
  Resident(Bench& bench, const Life& life, const std::string& name, const Naps* naps)
      : life_(life), naps_(naps), worker_(bench, name) {}

  /// Lives; the first wrong result goes to `wrong`. An error: a call was refused.
  Answer<void> live(std::string* wrong);
  /// Devices that sleeps have cost.
  uint64_t lost() const { return lost_; }

 private:
  /// kOver: the process ends, with its last round in flight if its life says so, or with a result
  /// that is wrong.
  enum class End { kDone, kOver };
  Answer<End> live_round(size_t round, std::string* wrong);
  Answer<void> open_device();
  bool sleep_costs_devices() const;
  uint64_t naps_begun() const { return naps_ == nullptr ? 0 : naps_->begun(); }

  const Life& life_;
  const Naps* const naps_;
  Worker worker_;
  uint64_t lost_ = 0;
};

Answer<void> Resident::open_device() {
  DXGKIT_VERIFY_TRY(worker_.open_device());
  for (const ClientContext& context : worker_.contexts)
    DXGKIT_VERIFY_TRY(worker_.client.set_priority(context.handle, life_.priority));
  return {};
}

bool Resident::sleep_costs_devices() const {
  const Answer<Plugin::Instance*> code = worker_.bench.client_code();
  return code.has_value() && (*code)->sleep_costs_devices();
}

Answer<void> Resident::live(std::string* wrong) {
  Client& client = worker_.client;
  DXGKIT_VERIFY_TRY(client.open_adapter());
  DXGKIT_VERIFY_TRY(open_device());
  for (size_t round = 0; round < life_.rounds.size();) {
    const uint64_t naps = naps_begun();
    const Answer<End> end = live_round(round, wrong);
    const bool well = end && wrong->empty();
    if (well && *end == End::kOver) return {};
    if (well) {
      ++round;
      continue;
    }
    // Each repetition takes a nap of its own, and there are a few of them.
    const bool asleep = naps_begun() != naps && client.faulted(worker_.device);
    if (!asleep || !sleep_costs_devices()) {
      if (!end) return std::unexpected(end.error());
      return {};
    }
    wrong->clear();
    ++lost_;
    DXGKIT_VERIFY_TRY(client.destroy_device(worker_.device));
    DXGKIT_VERIFY_TRY(open_device());
  }
  return client.destroy_device(worker_.device);
}

Answer<Resident::End> Resident::live_round(size_t round, std::string* wrong) {
  Bench& bench = worker_.bench;
  const std::vector<Errand>& errands = life_.rounds[round];
  std::vector<std::unique_ptr<Job>> jobs;
  for (const Errand& one : errands) {
    Answer<std::unique_ptr<Job>> job =
        Job::create(bench, worker_.client, worker_.device, one.seed, one.node);
    if (!job) return std::unexpected(job.error());
    jobs.push_back(std::move(*job));
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Errand& one = errands[i];
    DXGKIT_VERIFY_TRY(jobs[i]->submit(worker_.contexts[one.node], one.busy ? kBusyNs : 0));
    const bool last = i + 1 == jobs.size();
    if (last && life_.ends_at_work && round + 1 == life_.rounds.size()) return End::kOver;
    // A residency list has to fit, and there is room for one job.
    if (!last && !bench.explicit_residency()) continue;
    const Answer<bool> kept = worker_.idle(wrong);
    if (!kept) return std::unexpected(kept.error());
    if (!*kept) return End::kOver;
  }
  for (const std::unique_ptr<Job>& job : jobs) {
    if (const Answer<void> right = job->check(); !right) {
      *wrong = right.error();
      return End::kOver;
    }
    DXGKIT_VERIFY_TRY(job->destroy());
  }
  return End::kDone;
}

/// At most, of each interrupt of a device without faults.
constexpr uint64_t kLateInterruptNs = 20 * 1000;

std::vector<bus::EngineFaults> device_faults(Bench& bench, const Troubles& troubles) {
  bus::EngineFaults each;
  each.lose_interrupt_per_million = troubles.lost_interrupt;
  each.duplicate_interrupt_per_million = troubles.double_interrupt;
  each.late_interrupt_per_million = troubles.late_interrupt;
  return std::vector<bus::EngineFaults>(bench.device_faults()->engine_count(), each);
}

/// Lets the world's processes live. The error says why not, and the first wrong result.
/// @param naps  null: the adapter does not sleep.
Answer<void> live_together(Bench& bench, const Plan& plan, const Naps* naps, Tally* tally) {
  std::vector<std::string> wrong(plan.lives.size());
  if (const Answer<Plugin::Instance*> code = bench.client_code(); !code)
    return std::unexpected(code.error());
  std::vector<uint64_t> lost(plan.lives.size());
  const Answer<void> done = bench.in_parallel(plan.lives.size(), [&](size_t i) {
    Resident resident(bench, plan.lives[i], fmt::format("world {}", i), naps);
    Answer<void> lived = resident.live(&wrong[i]);
    lost[i] = resident.lost();
    return lived;
  });
  for (const uint64_t devices : lost) tally->lost += devices;
  if (!bench.running()) return std::unexpected("the adapter stopped");
  const auto first =
      std::ranges::find_if(wrong, [](const std::string& text) { return !text.empty(); });
  if (first != wrong.end()) {
    report_result(bench, fmt::format("{}; {}", *first, describe(plan)));
    return std::unexpected(*first);
  }
  return done;
}

/// As live_together, with the troubles of a storm. Afterwards everything is well, and the nodes
/// must work.
Answer<void> live_in_storm(Bench& bench, const Plan& plan, Turmoil& turmoil, Tally* tally) {
  bus::FaultInjection* const device = bench.device_faults();
  Naps naps(bench, plan);
  const uint64_t late = bench.late_reports();
  bus::DeviceClock* const clock = bench.device_clock();
  if (device != nullptr) device->set_faults(device_faults(bench, *plan.troubles));
  if (clock != nullptr && plan.troubles->late_interrupt != 0)
    clock->delay_interrupts(kLateInterruptNs);
  turmoil.set_active(true);
  const auto sleeper = bench.runtime().spawn("sleep at work", [&naps] { naps.run(); });
  Answer<void> lived = live_together(bench, plan, &naps, tally);
  naps.end();
  sleeper->join();
  turmoil.set_active(false);
  bench.end_device_faults();
  tally->troubles += turmoil.strikes();
  tally->naps += naps.count();
  if (!lived) return lived;
  // Nothing keeps a completion from the driver, so it keeps none from the kernel.
  if (plan.troubles->lost_interrupt == 0 && plan.troubles->starved_dpc == 0 &&
      bench.late_reports() != late) {
    report_late(bench.findings());
    return std::unexpected("work was reported complete only when the kernel asked");
  }
  if (!naps.wrong().empty()) return std::unexpected(naps.wrong());
  const Answer<NodeJobs> jobs = run_on_each_node(bench, "behind the storm");
  if (!jobs) return std::unexpected(jobs.error());
  if (jobs->wrong.empty()) return {};
  report_result(bench, fmt::format("{}; behind a world {}", jobs->wrong, describe(plan)));
  return std::unexpected(jobs->wrong);
}

Answer<void> run_world(Bench& bench, const Plan& plan, Tally* tally) {
  Scarcity scarcity(plan.segment_bytes, plan.scarcity_seed);
  std::optional<Turmoil> turmoil;
  Bench::StartChanges changes{
      .faults = &scarcity, .verifier = plan.switches, .transfer_chunk_bytes = plan.chunk_bytes};
  if (plan.troubles) {
    turmoil.emplace(bench.runtime(), *plan.troubles, scarcity, plan.troubles_seed);
    changes.faults = &*turmoil;
  }
  if (const Outcome started = bench.start(changes); started.kind != Outcome::Kind::kOk)
    return std::unexpected(started.text);
  const Answer<void> lived = turmoil ? live_in_storm(bench, plan, *turmoil, tally)
                                     : live_together(bench, plan, nullptr, tally);
  for (const Life& life : plan.lives) {
    for (const std::vector<Errand>& round : life.rounds) tally->jobs += round.size();
  }
  tally->cuts += scarcity.cuts();
  if (const auto statistics = bench.system().statistics(bench.luid()); statistics.has_value())
    tally->evictions += statistics->evictions;
  tally->adapter_ended = !bench.running();
  // Before the injector goes.
  const Outcome stopped = bench.stop();
  if (!lived) return lived;
  if (stopped.kind != Outcome::Kind::kOk) return std::unexpected(stopped.text);
  return {};
}

Outcome run_worlds(Bench& bench, size_t count, bool storms, Tally* tally) {
  std::vector<Plan> plans;  // drawn while the adapter runs, which the plug-in is opened on
  for (size_t world = 0; world < count; ++world) {
    Answer<Plan> plan = draw(bench, world);
    if (!plan) return Outcome::failed(plan.error());
    if (storms) {
      plan->troubles = Troubles::draw(bench);
      plan->troubles_seed = bench.random();
    }
    plans.push_back(std::move(*plan));
  }
  if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
  std::string failure;
  for (const Plan& plan : plans) {
    const Answer<void> lived = run_world(bench, plan, tally);
    if (lived) continue;
    failure = fmt::format("{}; {}", lived.error(), describe(plan));
    break;
  }
  if (tally->adapter_ended) return Outcome::failed(failure);
  const Outcome started = bench.start();
  return failure.empty() ? started : Outcome::failed(failure);
}

Outcome worlds(Bench& bench) {
  Tally tally;
  const size_t count = bench.simulated() ? kSimulatedWorlds : kRealWorlds;
  Outcome outcome = run_worlds(bench, count, /*storms=*/false, &tally);
  if (outcome.kind != Outcome::Kind::kOk) return outcome;
  return Outcome::ok(fmt::format("{} in {} of {}, {}, {} paging buffers cut short",
                                 counted(tally.jobs, "job"), counted(count, "world"),
                                 counted(kProcesses, "process", "processes"),
                                 counted(tally.evictions, "eviction"), tally.cuts));
}

Outcome storms(Bench& bench) {
  if (!bench.simulated()) return Outcome::skipped("it takes --mode sim: most of it is waiting");
  // The kernel warns of work whose interrupt was lost.
  bench.expect_warnings("TDR-01");
  Tally tally;
  Outcome outcome = run_worlds(bench, kStorms, /*storms=*/true, &tally);
  if (outcome.kind != Outcome::Kind::kOk) return outcome;
  std::string text =
      fmt::format("{} in {} of {}, {}, asleep {}", counted(tally.jobs, "job"),
                  counted(kStorms, "world"), counted(kProcesses, "process", "processes"),
                  counted(tally.troubles, "trouble"), counted(tally.naps, "time"));
  if (tally.lost != 0)
    text += fmt::format(", which cost {}, as the client says", counted(tally.lost, "device"));
  return Outcome::ok(std::move(text));
}

constexpr Step kSteps[] = {
    {"worlds", "processes at work in a machine that has too little", Step::Needs::kClient, worlds},
};
constexpr Step kStormSteps[] = {
    {"storms", "the same while interrupts, DPCs, buffers and power do what they like",
     Step::Needs::kClient, storms, /*makes_devices_fail=*/true},
};

}  // namespace

std::span<const Step> world_steps() { return kSteps; }
std::span<const Step> storm_steps() { return kStormSteps; }

}  // namespace dxgkit::tool::verify
