// Starts in which something fails, and lists of resources that look otherwise.
#include <fmt/format.h>

#include <algorithm>

#include "base/spelling.h"
#include "dxgk/display_exercise.h"
#include "tools/dxgkit/verify/balance.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/canvas.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {
namespace {

/// Requests of one start that are refused, one after the other.
constexpr uint32_t kRequestsMax = 200;
constexpr int kRounds = 3;

void report_start(Bench& bench, const char* rule, std::string_view ddi, std::string actual) {
  const bool is_list = std::string_view(rule) == "LIFE-28";
  bench.findings().report(
      {.rule = rule,
       .severity = verifier::Severity::kViolation,
       .ddi = std::string(ddi),
       .actual = std::move(actual),
       .expected = is_list ? "A start that works, wherever in the list the memory resources stand."
                           : "A start that fails with an error status and leaves nothing, or an "
                             "adapter that works; and a next start that works.",
       .fix = is_list ? "Look at the type of each descriptor, and count the memory resources, not "
                        "the descriptors."
                      : "Look at the answer of each call in the start. Where it is an error, undo "
                        "what was done before it and return it."});
}

/// The adapter makes objects and, with a client, does work that comes out right.
Answer<void> works(Bench& bench) {
  if (bench.display_only()) return {};
  if (!bench.has_work()) {
    Client client(bench, "start");
    DXGKIT_VERIFY_TRY(client.open_adapter());
    const Answer<D3DKMT_HANDLE> device = client.create_device();
    if (!device) return std::unexpected(device.error());
    return client.destroy_device(*device);
  }
  const Answer<NodeJobs> jobs = run_on_each_node(bench, "start");
  if (!jobs) return std::unexpected(jobs.error());
  if (!jobs->wrong.empty()) return std::unexpected(jobs->wrong);
  return {};
}

/// A start, and work if it succeeds. Afterwards the adapter is stopped.
struct Try {
  bool started = false;
  std::string text;  // the status of a start that failed, or what does not work
  bool right() const { return started && text.empty(); }
};
Try try_start(Bench& bench, const Bench::StartChanges& changes) {
  Try result;
  const Outcome outcome = bench.start(changes);
  result.started = outcome.kind == Outcome::Kind::kOk;
  if (!result.started) {
    result.text = outcome.text;
    return result;
  }
  // A plug-in is opened on the adapter, and asks the driver.
  if (const Answer<void> work = works(bench); !work) result.text = work.error();
  if (!bench.running()) result.text = "the adapter stopped";
  static_cast<void>(bench.stop());
  return result;
}

/// An ordinary start after one that was not. False: reported.
bool starts_again(Bench& bench, const std::string& after) {
  const Try next = try_start(bench, {.may_fail = true});
  if (next.right()) return true;
  if (!bench.kernel().driver_is_dead()) {
    report_start(bench, "LIFE-27", "DxgkDdiStartDevice",
                 fmt::format("The start after one {} {}: {}.", after,
                             next.started ? "succeeds, and work fails" : "fails", next.text));
  }
  return false;
}

struct Tally {
  size_t refused = 0;  // requests
  size_t failed = 0;   // starts
};

enum class Kind : uint8_t { kMemory, kCallback };

/// Refuses the n-th request of a start, for each n that there is.
Answer<void> refuse_each(Bench& bench, Kind kind, Tally* tally) {
  Shortage& shortage = bench.shortage();
  for (uint32_t nth = 1; nth <= kRequestsMax; ++nth) {
    Balance balance(bench);
    std::string told;
    for (int round = 0; round < kRounds; ++round) {
      kind == Kind::kMemory ? shortage.deny_memory(nth, Shortage::During::kStarting)
                            : shortage.fail_callback(nth, Shortage::During::kStarting);
      const Outcome outcome = bench.start({.may_fail = true});
      const Shortage::Refused struck = shortage.stop();
      if (bench.kernel().driver_is_dead())
        return std::unexpected("the driver ended in a start in which a request failed");
      const bool started = outcome.kind == Outcome::Kind::kOk;
      told = fmt::format("in which request {} of {} got {}", struck.routine, struck.ddi,
                         kind == Kind::kMemory ? "no memory" : "a failure");
      Answer<void> work;
      if (started) {
        if (!struck.routine.empty() && round == 0) work = works(bench);
        if (!bench.running())
          return std::unexpected(fmt::format("the adapter stopped after a start {}", told));
        static_cast<void>(bench.stop());
      }
      if (struck.routine.empty()) return {};  // fewer than n are made
      balance.end_round();
      if (round == 0) {
        ++tally->refused;
        if (!started) ++tally->failed;
        if (!started && struck.ddi == "DxgkDdiAddDevice" &&
            outcome.text.ends_with(status_text(Status::kNotSupported))) {
          report_start(
              bench, "LIFE-27", struck.ddi,
              fmt::format("It succeeded without a context when request {} got {}: that "
                          "the device is none of the driver's.",
                          struck.routine, kind == Kind::kMemory ? "no memory" : "a failure"));
          return std::unexpected("AddDevice disowns its device " + told);
        }
        if (!work) {
          report_start(bench, "LIFE-27", struck.ddi,
                       fmt::format("A start {} succeeds, and work fails: {}.", told, work.error()));
          return work;
        }
      }
      // Once more: the driver may keep what only the first start needs.
      if (!balance.left_something()) break;
    }
    balance.report(fmt::format("a start {}", told));
    if (!starts_again(bench, told))
      return std::unexpected(fmt::format("it does not work any more after a start {}", told));
  }
  return {};
}

Outcome failing_starts(Bench& bench) {
  if (bench.mutated()) return Outcome::skipped("each of these mutations has a run of its own");
  if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
  // Without any failure first, so that what every start leaves is told as that.
  Balance usual(bench);
  Answer<void> done;
  for (int round = 0; round < kRounds && done; ++round) {
    const Try next = try_start(bench, {.may_fail = true});
    if (!next.right()) done = std::unexpected("it does not start again: " + next.text);
    usual.end_round();
    if (!usual.left_something()) break;
  }
  usual.report("a start and a stop");
  Tally tally;
  if (done) done = refuse_each(bench, Kind::kMemory, &tally);
  if (done) done = refuse_each(bench, Kind::kCallback, &tally);
  if (!done) {
    if (!bench.kernel().driver_is_dead()) static_cast<void>(bench.start({.may_fail = true}));
    return Outcome::failed(done.error());
  }
  if (const Outcome started = bench.start(); started.kind != Outcome::Kind::kOk) return started;
  return Outcome::ok(fmt::format("{} of a start were refused one by one, {} failed",
                                 counted(tally.refused, "request"),
                                 counted(tally.failed, "start")));
}

// --- resources

using Resources = std::vector<port::DeviceResource>;
using ResourceKind = port::DeviceResource::Kind;

/// Shows the driver another list of resources.
class Relist final : public port::FaultInjector {
 public:
  explicit Relist(std::function<void(Resources*)> change) : change_(std::move(change)) {}
  std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
  std::optional<Status> before_paging(const port::PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
  void shape(port::SegmentsInfo*) override {}
  void shape_resources(Resources* resources) override { change_(resources); }

 private:
  const std::function<void(Resources*)> change_;
};

/// A list of resources, and what is special about it.
struct Listing {
  std::string text;  // "with the interrupt first in the list of resources"
  bool whole = true;
  Resources resources;
};

/// Lists with all that the device has.
void add_whole(const Resources& usual, std::vector<Listing>* all) {
  const auto interrupts = [](const port::DeviceResource& one) {
    return one.kind == ResourceKind::kInterrupt;
  };
  Resources first = usual;
  std::ranges::stable_partition(first, interrupts);
  all->push_back({"with the interrupt first in the list of resources", true, first});
  Resources between;
  for (size_t i = 0; i < usual.size(); ++i) {
    // Three numbers of the bus driver's, of which a PCI bus uses the second for the BAR.
    between.push_back({ResourceKind::kPrivate, 1 | uint64_t{i} << 32, 0});
    between.push_back(usual[i]);
  }
  all->push_back({"with private descriptors of the bus between its resources", true, between});
  if (usual.size() < 3) return;
  Resources middle = usual;
  std::ranges::rotate(middle.begin() + 1, std::ranges::prev(middle.end()), middle.end());
  all->push_back({"with the last resource second in the list", true, middle});
}

/// Lists that lack something, as on a machine whose firmware found no room for it.
void add_lacking(const Resources& usual, std::vector<Listing>* all) {
  for (size_t i = 0; i < usual.size(); ++i) {
    if (usual[i].kind == ResourceKind::kInterrupt) continue;
    Resources less = usual;
    less.erase(less.begin() + static_cast<ptrdiff_t>(i));
    all->push_back({fmt::format("without resource {} of {} (memory or ports)", i + 1, usual.size()),
                    false, less});
    if (usual[i].kind != ResourceKind::kMemory || usual[i].bytes <= kPageBytes) continue;
    Resources small = usual;
    small[i].bytes = kPageBytes;
    all->push_back(
        {fmt::format("with one page of resource {} of {}", i + 1, usual.size()), false, small});
  }
  Resources interrupts = usual;
  std::erase_if(interrupts, [](const port::DeviceResource& one) {
    return one.kind != ResourceKind::kInterrupt;
  });
  if (!interrupts.empty()) all->push_back({"with nothing but an interrupt", false, interrupts});
  all->push_back({"without resources", false, {}});
}

Outcome odd_resources(Bench& bench) {
  if (bench.mutated()) return Outcome::skipped("the list of resources is a mutation's own affair");
  if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
  Resources usual;
  Relist look([&](Resources* resources) { usual = *resources; });
  const Try first = try_start(bench, {.faults = &look, .verifier = {}, .may_fail = true});
  std::string failure;
  if (!first.right()) failure = "it does not start again: " + first.text;
  std::vector<Listing> all;
  if (failure.empty()) {
    add_whole(usual, &all);
    add_lacking(usual, &all);
  }
  size_t refused = 0;
  for (const Listing& listing : all) {
    Relist relist([&](Resources* resources) { *resources = listing.resources; });
    Balance balance(bench);
    Try result;
    for (int round = 0; round < kRounds; ++round) {
      result = try_start(bench, {.faults = &relist, .verifier = {}, .may_fail = true});
      if (bench.kernel().driver_is_dead())
        return Outcome::failed(fmt::format("the driver ended in a start {}", listing.text));
      balance.end_round();
      if (!balance.left_something()) break;
    }
    balance.report("a start " + listing.text);
    if (!result.started) ++refused;
    const bool wrong = listing.whole ? !result.right() : result.started && !result.right();
    if (wrong) {
      report_start(bench, listing.whole ? "LIFE-28" : "LIFE-27", "DxgkDdiStartDevice",
                   fmt::format("A start {} {}: {}.", listing.text,
                               result.started ? "succeeds, and work fails" : "fails", result.text));
      failure = fmt::format("a start {}", listing.text);
    }
    if (!result.right() && !starts_again(bench, listing.text))
      failure = fmt::format("it does not work any more after a start {}", listing.text);
    if (bench.kernel().driver_is_dead()) return Outcome::failed("the driver ended");
  }
  if (const Outcome started = bench.start(); started.kind != Outcome::Kind::kOk) return started;
  if (!failure.empty()) return Outcome::failed(failure);
  return Outcome::ok(
      fmt::format("{} of resources, {} refused", counted(all.size(), "list"), refused));
}

// --- outputs

/// All screens go dark and come back; each picture and each scan line is right.
Answer<void> shows(Bench& bench) {
  if (bench.exercise().video_present_sources() == 0) return {};
  Result<dxgk::DisplayExercise> exercise = dxgk::DisplayExercise::on(bench.system(), bench.luid());
  if (!exercise.has_value()) return std::unexpected(status_text(exercise.error()));
  if (exercise->connected_targets().empty()) return {};
  if (const Status status = exercise->clear_and_show(); !is_success(status))
    return std::unexpected("a VidPN without paths, and one with them: " + status_text(status));
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return std::unexpected(sources.error());
  for (const dxgk::DisplaySource& source : *sources) {
    bool in_blank = false;
    uint32_t line = 0;
    const Status status = exercise->scan_line(source.id, &in_blank, &line);
    if (!is_success(status) && status != Status::kNotSupported)
      return std::unexpected("GetScanLine: " + status_text(status));
    Canvas canvas(bench, source.id, *source.mode);
    if (source.visible && bench.display_only()) DXGKIT_VERIFY_TRY(canvas.present_all());
  }
  return {};
}

/// The driver finds other bytes in what it must write, and on its stack.
Outcome stale_outputs(Bench& bench) {
  constexpr std::byte kFills[] = {std::byte{0xA5}, std::byte{0x5A}};
  for (const std::byte fill : kFills) {
    const size_t before = bench.findings().total();
    bench.exercise().fill_outputs(fill);
    // Its threads begin with such a stack, too.
    if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
    if (const Outcome started = bench.start(); started.kind != Outcome::Kind::kOk) return started;
    bench.exercise().fill_outputs(fill);
    const Status asked = bench.exercise().repeat_queries();
    Answer<void> work = is_success(asked) ? works(bench) : Answer<void>();
    if (is_success(asked) && work && bench.running()) work = shows(bench);
    if (is_success(asked) && work && bench.running() && !bench.display_only())
      static_cast<void>(bench.exercise().query_fences());
    if (!bench.running()) return Outcome::failed("the adapter stopped");
    bench.exercise().fill_outputs(std::byte{0});
    const std::string with =
        fmt::format("with outputs full of {:#04x}", std::to_integer<int>(fill));
    if (!is_success(asked))
      return Outcome::failed(fmt::format("a query answers {} {}", status_text(asked), with));
    if (!work) {
      if (bench.findings().total() == before) {
        bench.findings().report(
            {.rule = "LIFE-29",
             .severity = verifier::Severity::kViolation,
             .ddi = "",
             .actual = fmt::format("Work that goes well otherwise does not {}, and on the stack: "
                                   "{}.",
                                   with, work.error()),
             .expected = "What a driver does depends on nothing that nobody has written.",
             .fix = "Initialise each local variable and each structure that goes to a callback; "
                    "set each member of an answer."});
      }
      return Outcome::failed(fmt::format("{} {}", work.error(), with));
    }
  }
  return Outcome::ok(fmt::format(
      "queries, new objects and work with {} of bytes in their outputs and on the stack",
      counted(std::size(kFills), "kind")));
}

// --- queries

/// Has the port ask again with buffers that are too small.
class Probes final : public port::FaultInjector {
 public:
  size_t queries() const { return queries_; }
  std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
  std::optional<Status> before_paging(const port::PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
  void shape(port::SegmentsInfo*) override {}
  bool probes_queries() override {
    ++queries_;
    return true;
  }

 private:
  size_t queries_ = 0;  // of the start: one thread
};

/// Parts of the descriptors of all monitors, how many; and surfaces of kinds that no other step
/// makes.
size_t ask_display(Bench& bench) {
  if (bench.exercise().video_present_sources() == 0) return 0;
  Result<dxgk::DisplayExercise> exercise = dxgk::DisplayExercise::on(bench.system(), bench.luid());
  if (!exercise.has_value()) return 0;
  static_cast<void>(exercise->ask_copy_surfaces());
  size_t parts = 0;
  for (const uint32_t target : exercise->connected_targets())
    parts += exercise->ask_descriptor_parts(target);
  return parts;
}

Outcome odd_queries(Bench& bench) {
  constexpr uint32_t kDebugBytes[] = {0, 1, 16, 4095, 4096};
  for (const uint32_t bytes : kDebugBytes) bench.exercise().collect_debug_info(bytes);
  if (!bench.running()) return Outcome::failed("the adapter stopped when its state was asked for");
  const size_t parts = ask_display(bench);
  if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
  Probes probes;
  const Outcome probed = bench.start({.faults = &probes, .verifier = {}});
  if (probed.kind != Outcome::Kind::kOk) return probed;
  const size_t queries = probes.queries();
  if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
  if (const Outcome started = bench.start(); started.kind != Outcome::Kind::kOk) return started;
  std::string text =
      fmt::format("{} of a start with smaller buffers and without a type, {} of debug information",
                  counted(queries, "query", "queries"), counted(std::size(kDebugBytes), "size"));
  if (parts != 0) text += fmt::format(", {} of monitor descriptors", counted(parts, "part"));
  return Outcome::ok(std::move(text));
}

constexpr Step kSteps[] = {
    {"odd-queries", "queries with buffers that are too small, and of no type",
     Step::Needs::kAdapter, odd_queries},
    {"stale-outputs", "outputs and stacks hold other bytes before each call", Step::Needs::kAdapter,
     stale_outputs},
    {"failing-starts", "something fails while the adapter starts", Step::Needs::kAdapter,
     failing_starts},
    {"odd-resources", "resources in another order, and resources that are missing",
     Step::Needs::kAdapter, odd_resources},
};

}  // namespace

std::span<const Step> start_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
