// Objects that cannot be made: the driver is refused memory, a callback fails, or the device does
// not do what it is asked.
#include <fmt/format.h>

#include "base/spelling.h"
#include "tools/dxgkit/verify/balance.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/darkness.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {
namespace {

/// Requests of one call that are refused, one after the other.
constexpr uint32_t kRequestsMax = 200;
constexpr int kRounds = 3;

/// Something that a client makes, and destroys again.
struct Subject {
  std::string name;
  std::function<NTSTATUS()> make;  // leaves nothing unless it succeeds
  std::function<Answer<void>()> unmake;
};

struct Tally {
  size_t kinds = 0, refused = 0, coped = 0, callbacks = 0, handles = 0;
  size_t requests = 0;  // of the device
};

/// What is refused.
enum class Kind : uint8_t { kMemory, kCallback, kHandle, kRequest, kLateRequest };
constexpr Kind kOfTheKernel[] = {Kind::kMemory, Kind::kCallback, Kind::kHandle};
constexpr Kind kOfTheDevice[] = {Kind::kRequest, Kind::kLateRequest};
/// Longer than any driver waits for an answer, in a simulation; there an error is late.
constexpr runtime::DurationNs kLateAfter = 12 * runtime::kSecond;

/// Lack of memory has no other names (SCHED-05, ALLOC-03).
bool says_no_memory(Status status) {
  return status == Status::kNoMemory || status == Status::kInsufficientResources ||
         status == Status::kGraphicsNoVideoMemory;
}

void report_refusal(Bench& bench, std::string_view ddi, std::string actual) {
  bench.findings().report(
      {.rule = "LIFE-23",
       .severity = verifier::Severity::kViolation,
       .ddi = std::string(ddi),
       .actual = std::move(actual),
       .expected =
           "STATUS_NO_MEMORY, and success when the same is asked again and there is memory.",
       .fix = "Look at each null result on the way: free what was taken before it, clear what was "
              "stored of it, and return STATUS_NO_MEMORY."});
}

/// A handle of which the kernel knows nothing is the caller's mistake, whatever the driver is
/// asked.
void report_unknown_handle(Bench& bench, const Shortage::Refused& struck, const std::string& name,
                           Status status) {
  bench.findings().report(
      {.rule = "ALLOC-33",
       .severity = verifier::Severity::kViolation,
       .ddi = std::string(struck.ddi),
       .actual = fmt::format("Making {} answered {} when {} returned NULL.", name,
                             status_text(status), struck.routine),
       .expected = "STATUS_INVALID_HANDLE.",
       .fix = "Look at the result before it is used: if it is NULL, undo what the call has done so "
              "far, and return STATUS_INVALID_HANDLE."});
}

/// From now on each engine answers its n-th request with an error, so much later.
void refuse_request(Bench& bench, uint32_t nth, runtime::DurationNs after = 0) {
  const bus::EngineFaults faults{.memory_error_at_entry = nth,
                                 .memory_error_after_ns = static_cast<uint64_t>(after)};
  bus::FaultInjection& engines = *bench.device_faults();
  engines.set_faults(std::vector<bus::EngineFaults>(engines.engine_count(), faults));
}

class Shortages {
 public:
  Shortages(Bench& bench, Tally& tally, std::span<const Kind> kinds)
      : bench_(bench), tally_(tally), kinds_(kinds) {}

  Answer<void> run(const Subject& subject) {
    ++tally_.kinds;
    // Without any failure first: the driver may keep what only the first one needs.
    Balance whole(bench_);
    for (int round = 0; round < kRounds; ++round) {
      DXGKIT_VERIFY_TRY(once(subject));
      whole.end_round();
    }
    whole.report(subject.name);
    for (const Kind kind : kinds_) {
      if (kind == Kind::kLateRequest && !bench_.simulated()) continue;
      DXGKIT_VERIFY_TRY(refuse_each(subject, kind));
    }
    return {};
  }

 private:
  void arm(Kind kind, uint32_t nth) {
    switch (kind) {
      case Kind::kMemory:
        return bench_.shortage().deny_memory(nth);
      case Kind::kCallback:
        return bench_.shortage().fail_callback(nth);
      case Kind::kHandle:
        return bench_.shortage().deny_handle(nth);
      case Kind::kRequest:
      case Kind::kLateRequest:
        met_ = bench_.memory_errors();
        return refuse_request(bench_, nth, kind == Kind::kLateRequest ? kLateAfter : 0);
    }
  }
  /// What was refused; no routine: nothing was.
  Shortage::Refused disarm(Kind kind) {
    if (kind != Kind::kRequest && kind != Kind::kLateRequest) return bench_.shortage().stop();
    // The answer comes, even if nobody waits for it any more.
    if (kind == Kind::kLateRequest) bench_.runtime().sleep_for(kLateAfter);
    bench_.device_faults()->set_faults({});
    if (bench_.memory_errors() == met_) return {};
    return {.routine = "the device", .ddi = {}};
  }
  static const char* words(Kind kind) {
    switch (kind) {
      case Kind::kMemory:
        return "no memory";
      case Kind::kCallback:
        return "a failure";
      case Kind::kHandle:
        return "NULL for a handle";
      case Kind::kRequest:
        return "an error";
      case Kind::kLateRequest:
        return "an error, late";
    }
    return "";
  }

  Answer<void> once(const Subject& subject) {
    const Status status = from_ntstatus(subject.make());
    if (!bench_.running())
      return std::unexpected(fmt::format("{} ended the adapter", subject.name));
    if (!is_success(status)) {
      return std::unexpected(
          fmt::format("{} could not be made: {}", subject.name, status_text(status)));
    }
    return subject.unmake();
  }

  /// Refuses the n-th request while the subject is made, for each n that there is.
  Answer<void> refuse_each(const Subject& subject, Kind kind) {
    for (uint32_t nth = 1; nth <= kRequestsMax; ++nth) {
      Shortage::Refused struck;
      Balance balance(bench_);
      for (int round = 0; round < kRounds; ++round) {
        const size_t findings = bench_.findings().total();
        arm(kind, nth);
        const Status status = from_ntstatus(subject.make());
        struck = disarm(kind);
        const std::string told =
            fmt::format("when call {} of {} got {}", nth, struck.routine, words(kind));
        if (!bench_.running())
          return std::unexpected(fmt::format("the adapter ended {}, for {}", told, subject.name));
        if (is_success(status)) DXGKIT_VERIFY_TRY(subject.unmake());
        balance.end_round();
        if (struck.routine.empty()) return {};  // fewer than n are made
        if (round != 0) continue;
        ++(kind == Kind::kCallback  ? tally_.callbacks
           : kind == Kind::kHandle  ? tally_.handles
           : kind >= Kind::kRequest ? tally_.requests
           : is_success(status)     ? tally_.coped
                                    : tally_.refused);
        if (kind == Kind::kHandle && status != Status::kInvalidHandle &&
            bench_.findings().total() == findings)
          report_unknown_handle(bench_, struck, subject.name, status);
        // What the kernel has already said of the answer is not said again.
        if (kind == Kind::kMemory && !is_success(status) && !says_no_memory(status) &&
            bench_.findings().total() == findings) {
          report_refusal(
              bench_, struck.ddi,
              fmt::format("Making {} answered {} {}.", subject.name, status_text(status), told));
        }
        const Answer<void> again = once(subject);
        if (again) continue;
        if (bench_.running()) {
          report_refusal(
              bench_, struck.ddi,
              fmt::format("It failed once {}, and fails ever since: {}.", told, again.error()));
        }
        return again;
      }
      balance.report(fmt::format("{} {} in {}", subject.name,
                                 kind == Kind::kMemory ? "without memory" : "after a failure",
                                 struck.ddi));
    }
    return {};
  }

  Bench& bench_;
  Tally& tally_;
  const std::span<const Kind> kinds_;
  uint64_t met_ = 0;  // memory errors before
};

Answer<void> run_processes(Bench& bench, Shortages& shortages) {
  std::unique_ptr<Client> client;
  return shortages.run({.name = "a process with a device",
                        .make =
                            [&] {
                              client = std::make_unique<Client>(bench, "short of memory");
                              D3DKMT_HANDLE device = 0;
                              NTSTATUS status = to_ntstatus(Status::kDeviceRemoved);
                              if (client->open_adapter())
                                status = client->try_create_device(&device);
                              if (!is_success(from_ntstatus(status))) client.reset();
                              return status;
                            },
                        .unmake = [&]() -> Answer<void> {
                          client.reset();
                          return {};
                        }});
}

Answer<void> run_devices(Bench& bench, Shortages& shortages) {
  Client client(bench, "short of memory");
  DXGKIT_VERIFY_TRY(client.open_adapter());
  const Answer<D3DKMT_HANDLE> keeper = client.create_device();  // its process stays known
  if (!keeper) return std::unexpected(keeper.error());
  D3DKMT_HANDLE device = 0;
  DXGKIT_VERIFY_TRY(shortages.run({.name = "a device",
                                   .make = [&] { return client.try_create_device(&device); },
                                   .unmake = [&] { return client.destroy_device(device); }}));
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    const Answer<std::vector<std::byte>> data = bench.context_data(node);
    if (!data) return std::unexpected(data.error());
    ClientContext context;
    DXGKIT_VERIFY_TRY(shortages.run(
        {.name = fmt::format("a context of node {}", node),
         .make = [&] { return client.try_create_context(*keeper, node, *data, &context); },
         .unmake = [&] { return client.destroy_context(context.handle); }}));
  }
  return {};
}

Answer<void> run_allocations(Bench& bench, Shortages& shortages) {
  if (bench.plugin() == nullptr) return {};
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return std::unexpected(code.error());
  const Answer<std::vector<DxgkitClientAllocation>> wanted = (*code)->plan(bench.random(), 0);
  if (!wanted) return std::unexpected(wanted.error());
  std::vector<ClientAllocation> several;
  for (const DxgkitClientAllocation& one : *wanted) {
    Answer<std::vector<std::byte>> data = (*code)->pack_allocation(one);
    if (!data) return std::unexpected(data.error());
    several.push_back({0, one.size_bytes, std::move(*data)});
  }
  Client client(bench, "short of memory");
  DXGKIT_VERIFY_TRY(client.open_adapter());
  const Answer<D3DKMT_HANDLE> device = client.create_device();
  if (!device) return std::unexpected(device.error());
  std::vector<ClientAllocation> made;
  D3DKMT_HANDLE resource = 0;
  const auto make = [&](size_t count, Client::Grouping grouping) {
    made.assign(several.begin(), several.begin() + static_cast<ptrdiff_t>(count));
    return client.try_create_allocations(*device, made, grouping, &resource);
  };
  const auto unmake = [&] { return client.destroy_resource(*device, resource); };
  DXGKIT_VERIFY_TRY(shortages.run({.name = "an allocation",
                                   .make = [&] { return make(1, Client::Grouping::kAlone); },
                                   .unmake =
                                       [&] {
                                         const D3DKMT_HANDLE handle = made.front().handle;
                                         return client.destroy_allocations(*device, {&handle, 1});
                                       }}));
  DXGKIT_VERIFY_TRY(
      shortages.run({.name = fmt::format("a resource of {}", counted(several.size(), "allocation")),
                     .make = [&] { return make(several.size(), Client::Grouping::kResource); },
                     .unmake = unmake}));
  // Another process opens what this one shares.
  const Status shared = from_ntstatus(make(several.size(), Client::Grouping::kSharedResource));
  if (!is_success(shared))
    return std::unexpected(
        fmt::format("a shared resource could not be made: {}", status_text(shared)));
  Client other(bench, "opens a resource");
  DXGKIT_VERIFY_TRY(other.open_adapter());
  const Answer<D3DKMT_HANDLE> other_device = other.create_device();
  if (!other_device) return std::unexpected(other_device.error());
  D3DKMT_HANDLE opened = 0;
  return shortages.run(
      {.name = fmt::format("an opened resource of {}", counted(several.size(), "allocation")),
       .make =
           [&] {
             return other.try_open_resource(*other_device, resource, several.size(), &opened);
           },
       .unmake = [&] { return other.destroy_resource(*other_device, opened); }});
}

/// A job that a sleep has cost what the device had for it. Behind the sleep the driver makes that
/// anew, and the device refuses the n-th request. False: there are fewer.
Answer<bool> refuse_behind_sleep(Bench& bench, uint32_t nth) {
  Worker worker(bench, "refused behind a sleep");
  DXGKIT_VERIFY_TRY(worker.open());
  const Answer<std::unique_ptr<Job>> made =
      Job::create(bench, worker.client, worker.device, bench.random(), 0);
  if (!made) return std::unexpected(made.error());
  Job& job = **made;
  DXGKIT_VERIFY_TRY(job.submit(worker.contexts.front()));
  DXGKIT_VERIFY_TRY(worker.client.wait_idle(worker.device));
  for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kD3, dxgk::PowerTarget::kD0}) {
    const auto done = bench.system().set_power(bench.luid(), target);
    if (!done.has_value()) return std::unexpected("a sleep: " + status_text(done.error()));
  }
  // No paging is refused: no driver survives that.
  for (const ClientAllocation& one : job.allocations())
    static_cast<void>(bench.exercise().memory().page_in(worker.client.process(), one.handle));
  const uint64_t met = bench.memory_errors();
  refuse_request(bench, nth);
  // It may be refused, and its device be lost.
  ClientContext& context = worker.contexts.front();
  const Answer<DxgkitClientJob> recorded = job.record(context);
  if (!recorded) return std::unexpected(recorded.error());
  worker.client.try_render(context, recorded->command_bytes, recorded->use_count,
                           recorded->patch_count);
  static_cast<void>(worker.client.wait_idle(worker.device));
  bench.device_faults()->set_faults({});
  const bool struck = bench.memory_errors() != met;
  if (bench.running()) static_cast<void>(bench.exercise().evict_all());
  if (!bench.running()) {
    report_refusal(bench, "DxgkDdiBuildPagingBuffer",
                   fmt::format("The adapter ended when everything was evicted behind request {} "
                               "after a sleep, which the device had refused.",
                               nth));
    return std::unexpected("the adapter ended at an eviction behind a refused request");
  }
  return struck;
}

/// The requests of one job's objects, which the device has lost.
Answer<void> run_sleeps(Bench& bench, Tally& tally) {
  constexpr uint32_t kRequestsOfJob = 16;  // what follows is the work itself
  Darkness dark(bench);
  for (uint32_t nth = 1; nth <= kRequestsOfJob; ++nth) {
    const Answer<bool> struck = refuse_behind_sleep(bench, nth);
    if (!struck) return std::unexpected(struck.error());
    if (!*struck) break;
    ++tally.requests;
    const Answer<NodeJobs> jobs = run_on_each_node(bench, "behind a refused request");
    if (!jobs) return std::unexpected(jobs.error());
    if (jobs->wrong.empty()) continue;
    report_result(bench, "Behind a request that the device had refused: " + jobs->wrong);
    return std::unexpected(jobs->wrong);
  }
  return {};
}

/// Requests of the driver's own, which no packet carries: the device refuses each in turn.
Outcome refused_requests(Bench& bench) {
  if (bench.device_faults() == nullptr)
    return Outcome::skipped("the device cannot be told to refuse anything");
  if (bench.gpu_addresses())
    return Outcome::skipped("objects come with paging, whose errors no driver survives");
  Tally tally;
  Shortages shortages(bench, tally, kOfTheDevice);
  for (const auto run : {run_processes, run_devices, run_allocations}) {
    if (const Answer<void> done = run(bench, shortages); !done)
      return Outcome::failed(done.error());
  }
  if (tally.requests == 0)
    return Outcome::skipped("not reached: no object asks anything of the device");
  if (const Answer<void> done = bench.has_work() ? run_sleeps(bench, tally) : Answer<void>(); !done)
    return Outcome::failed(done.error());
  return Outcome::ok(fmt::format("{} of objects, {} refused by the device",
                                 counted(tally.kinds, "kind"), counted(tally.requests, "request")));
}

Outcome no_memory(Bench& bench) {
  Tally tally;
  Shortages shortages(bench, tally, kOfTheKernel);
  for (const auto run : {run_processes, run_devices, run_allocations}) {
    if (const Answer<void> done = run(bench, shortages); !done)
      return Outcome::failed(done.error());
  }
  return Outcome::ok(
      fmt::format("{} of objects; {} refused, {} coped with, {} failed, {} unknown{}",
                  counted(tally.kinds, "kind"), counted(tally.refused, "request"), tally.coped,
                  counted(tally.callbacks, "callback"), counted(tally.handles, "handle"),
                  bench.plugin() == nullptr ? "; allocations take --client" : ""));
}

constexpr Step kSteps[] = {
    {"no-memory", "there is no memory for a new object, and then there is", Step::Needs::kRender,
     no_memory},
    {"refused-requests", "the device refuses what a new object needs of it", Step::Needs::kClient,
     refused_requests, /*makes_devices_fail=*/true},
};

}  // namespace

std::span<const Step> failure_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
