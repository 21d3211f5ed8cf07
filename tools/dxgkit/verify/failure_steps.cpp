// Objects that cannot be made: the driver is refused memory, or a callback fails.
#include <fmt/format.h>

#include "base/spelling.h"
#include "tools/dxgkit/verify/balance.h"
#include "tools/dxgkit/verify/bench.h"

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
};

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

class Shortages {
 public:
  Shortages(Bench& bench, Tally& tally) : bench_(bench), tally_(tally) {}

  Answer<void> run(const Subject& subject) {
    ++tally_.kinds;
    // Without any failure first: the driver may keep what only the first one needs.
    Balance whole(bench_);
    for (int round = 0; round < kRounds; ++round) {
      DXGKIT_VERIFY_TRY(once(subject));
      whole.end_round();
    }
    whole.report(subject.name);
    DXGKIT_VERIFY_TRY(refuse_each(subject, Kind::kMemory));
    DXGKIT_VERIFY_TRY(refuse_each(subject, Kind::kCallback));
    return refuse_each(subject, Kind::kHandle);
  }

 private:
  enum class Kind { kMemory, kCallback, kHandle };

  void arm(Kind kind, uint32_t nth) {
    switch (kind) {
      case Kind::kMemory:
        return bench_.shortage().deny_memory(nth);
      case Kind::kCallback:
        return bench_.shortage().fail_callback(nth);
      case Kind::kHandle:
        return bench_.shortage().deny_handle(nth);
    }
  }
  static const char* words(Kind kind) {
    switch (kind) {
      case Kind::kMemory:
        return "no memory";
      case Kind::kCallback:
        return "a failure";
      case Kind::kHandle:
        return "NULL for a handle";
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
        struck = bench_.shortage().stop();
        const std::string told =
            fmt::format("when call {} of {} got {}", nth, struck.routine, words(kind));
        if (!bench_.running())
          return std::unexpected(fmt::format("the adapter ended {}, for {}", told, subject.name));
        if (is_success(status)) DXGKIT_VERIFY_TRY(subject.unmake());
        balance.end_round();
        if (struck.routine.empty()) return {};  // fewer than n are made
        if (round != 0) continue;
        ++(kind == Kind::kCallback ? tally_.callbacks
           : kind == Kind::kHandle ? tally_.handles
           : is_success(status)    ? tally_.coped
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

Outcome no_memory(Bench& bench) {
  Tally tally;
  Shortages shortages(bench, tally);
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
};

}  // namespace

std::span<const Step> failure_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
