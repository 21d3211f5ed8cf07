// Machines of their own: other screens, other values in the registry, a device that leaves the
// machine under work, and one that is not there when it is started.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "base/spelling.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint64_t kBusyNs = 2'000'000;
constexpr size_t kJobsPerNode = 2;

/// A client with work on every node, some of it waiting.
struct AtWork {
  explicit AtWork(Bench& bench, std::string name) : worker(bench, std::move(name)) {}
  Worker worker;
  std::vector<std::unique_ptr<Job>> jobs;

  Answer<void> begin(Bench& bench) {
    DXGKIT_VERIFY_TRY(worker.open());
    for (uint32_t node = 0; node < bench.node_count(); ++node) {
      for (size_t i = 0; i < kJobsPerNode; ++i) {
        Answer<std::unique_ptr<Job>> job =
            Job::create(bench, worker.client, worker.device, bench.random(), node);
        if (!job) return std::unexpected(job.error());
        jobs.push_back(std::move(*job));
      }
    }
    for (size_t i = 0; i < jobs.size(); ++i)
      DXGKIT_VERIFY_TRY(jobs[i]->submit(worker.contexts[i / kJobsPerNode], kBusyNs));
    return {};
  }
};

// --- registry

constexpr size_t kValuesMax = 8;
struct Shape {
  uint32_t type;
  size_t bytes;
};
constexpr Shape kShapes[] = {
    {0x0BAD, 4},   // no type: nobody can say what the bytes are
    {4, 2},        // REG_DWORD, with too few bytes
    {4, 8},        // with too many
    {4, 4096},     // more than a buffer has that holds a number
    {3, 1 << 16},  // REG_BINARY, more than any stack has
};

/// ASCII; value names in the configuration are UTF-8. Empty: it is another name.
std::string plain(std::u16string_view name) {
  std::string text;
  for (const char16_t one : name) {
    if (one < u' ' || one > u'~') return {};
    text += static_cast<char>(one);
  }
  return text;
}

/// What the driver is with that value in its keys: all that it says of itself.
std::string face_with(Bench& bench, const std::string& name, const nt::RegistryValue& value) {
  nt::KernelConfig config = bench.kernel_config();
  for (const char* key :
       {nt::KernelConfig::kDeviceKey, nt::KernelConfig::kSoftwareKey, nt::KernelConfig::kDriverKey})
    config.registry[key][name] = value;
  const Outcome loaded = bench.load_again(config);
  if (loaded.kind != Outcome::Kind::kOk) return "is not loaded";
  std::string face = "has the entries";
  for (const std::string& entry : bench.filled_entries()) face += " " + entry;
  const Outcome started = bench.start({.may_fail = true});
  if (started.kind == Outcome::Kind::kOk) {
    face += fmt::format(", starts with {} and the caps", started.text);
    for (const std::byte one : bench.exercise().caps().raw)
      face += fmt::format(" {:02x}", std::to_integer<unsigned>(one));
    static_cast<void>(bench.stop());
  } else {
    face += ", and does not start";
  }
  static_cast<void>(bench.unload());
  return face;
}

Outcome registry_values(Bench& bench) {
  if (bench.mutated()) return Outcome::skipped("a mutation is for one machine");
  std::vector<std::string> names;
  for (const std::u16string& asked : bench.asked_values()) {
    const std::string name = plain(asked);
    // What the command line sets chooses the driver's face, and stays.
    if (name.empty() || bench.is_configured(name)) continue;
    if (names.size() < kValuesMax) names.push_back(name);
  }
  if (names.empty()) return Outcome::skipped("the driver asks for no value of the registry");
  // With any value there is a software key, in which a value is missing.
  bench.expect_warnings("CAPS-03");
  size_t wrong = 0;
  for (const std::string& name : names) {
    for (const Shape& shape : kShapes) {
      std::string first;
      for (const int content : {0, 1, 2}) {
        nt::RegistryValue value{.type = shape.type, .data = std::vector<std::byte>(shape.bytes)};
        value.data[0] = static_cast<std::byte>(content);
        const std::string face = face_with(bench, name, value);
        if (first.empty()) first = face;
        if (face == first) continue;
        ++wrong;
        bench.findings().report(
            {.rule = "LIFE-31",
             .severity = verifier::Severity::kViolation,
             .ddi = "DriverEntry",
             .actual = fmt::format("The driver changes with the bytes of the registry value {}, "
                                   "which has {} bytes of type {:#x}.",
                                   name, value.data.size(), shape.type),
             .expected = "A value of another type or size is not used: the driver refuses to load, "
                         "or goes on as without it.",
             .fix = "Compare Type and DataLength before the data are used."});
        break;
      }
    }
  }
  if (wrong != 0) return Outcome::failed("values of the registry are used unchecked");
  return Outcome::ok(fmt::format("{} with wrong types and sizes", counted(names.size(), "value")));
}

// --- the device leaves

enum class Leaves {
  kUnnoticed,  // before the work is on the engines; the bus takes notice long after
  kBusy,       // under work, and the bus takes notice at once
  kAsleep,
};

/// One removal, in a machine of its own. Adds to `jobs` those that the clients had made.
Answer<void> remove_once(Bench& bench, Leaves leaves, size_t* jobs) {
  if (const Outcome loaded = bench.load_again(); loaded.kind != Outcome::Kind::kOk)
    return std::unexpected(loaded.text);
  if (const Outcome started = bench.start(); started.kind != Outcome::Kind::kOk)
    return std::unexpected(started.text);
  DXGKIT_VERIFY_TRY(raise_fences(bench, "before it leaves"));
  Answer<void> done;
  {
    // Side by side; their processes end after the adapter.
    std::vector<std::unique_ptr<AtWork>> clients;
    if (bench.plugin() != nullptr) {
      for (const char* name : {"removal 1", "removal 2"}) {
        clients.push_back(std::make_unique<AtWork>(bench, name));
        if (done = clients.back()->begin(bench); !done) break;
        *jobs += clients.back()->jobs.size();
      }
    }
    if (leaves == Leaves::kBusy && !clients.empty()) bench.runtime().sleep_for(kBusyNs / 2);
    if (leaves == Leaves::kAsleep && done) {
      const auto down = bench.system().set_power(bench.luid(), dxgk::PowerTarget::kHibernate);
      if (!down.has_value())
        done = std::unexpected("it does not go to sleep: " + status_text(down.error()));
    }
    bench.pull_out();
    // Nobody knows yet. The driver hears of all that happens on a line that it shares, and is asked
    // what became of its work, before the bus takes notice.
    bench.exercise().interrupt_of_another_device();
    if (bench.simulated() && leaves == Leaves::kUnnoticed) {
      const int64_t delay_ns = bench.exercise().timeout_policy().delay_ns;
      bench.runtime().sleep_for(delay_ns + delay_ns / 2);
    }
    const Status status = bench.remove();
    if (done && !is_success(status))
      done = std::unexpected("the removal answers " + status_text(status));
  }
  const Outcome unloaded = bench.unload();
  if (done && unloaded.kind != Outcome::Kind::kOk) return std::unexpected(unloaded.text);
  return done;
}

Outcome removal(Bench& bench) {
  if (bench.mutated()) return Outcome::skipped("a mutation is for one machine");
  size_t jobs = 0;
  std::string how;
  for (const Leaves leaves : {Leaves::kUnnoticed, Leaves::kBusy, Leaves::kAsleep}) {
    const bool asleep = leaves == Leaves::kAsleep;
    if (!bench.supports_removal(asleep)) continue;
    if (const Answer<void> done = remove_once(bench, leaves, &jobs); !done)
      return Outcome::failed(done.error());
    if (!asleep) how = "at work, unnoticed and noticed";
    if (asleep) how += how.empty() ? "asleep" : ", and asleep";
  }
  if (how.empty())
    return Outcome::skipped(
        "the driver sets neither SupportSurpriseRemoval nor "
        "SupportSurpriseRemovalInHibernation");
  return Outcome::ok(
      fmt::format("the device left the machine {}, with {} on it", how, counted(jobs, "job")));
}

/// Notes whether the driver is asked to stop: then its own start has succeeded, whatever the kernel
/// says of it afterwards.
class StopNote final : public port::FaultInjector {
 public:
  bool stopped() const { return stopped_; }
  std::optional<Status> before_ddi(std::string_view ddi) override {
    if (ddi.starts_with("DxgkDdiStopDevice")) stopped_ = true;
    return std::nullopt;
  }
  std::optional<Status> before_paging(const port::PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
  void shape(port::SegmentsInfo*) override {}

 private:
  std::atomic<bool> stopped_{false};
};

/// A start without the whole device, or without its registers only.
Outcome start_without(Bench& bench, bool registers_only) {
  if (const Outcome loaded = bench.load_again(); loaded.kind != Outcome::Kind::kOk) return loaded;
  registers_only ? bench.silence() : bench.pull_out();
  const uint64_t before = bench.lost_accesses();
  StopNote note;
  const Outcome started = bench.start({.faults = &note, .verifier = {}, .may_fail = true});
  const uint64_t lost = bench.lost_accesses() - before;
  const bool runs = started.kind == Outcome::Kind::kOk;
  const bool went_on = runs || note.stopped();
  if (went_on && lost != 0) {
    bench.findings().report(
        {.rule = "LIFE-27",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiStartDevice",
         .actual = fmt::format(
             "It succeeded for a device {}; {} register accesses reached "
             "nothing.",
             registers_only ? "whose registers do not answer" : "that is not there", lost),
         .expected = "An error status: all that the driver reads is ones.",
         .fix = registers_only
                    ? "Compare a register that cannot be all ones before anything else. A device "
                      "that has crashed, or that a bridge cuts off, may still have its "
                      "configuration space."
                    : "Compare a register that cannot be all ones, or the ids in configuration "
                      "space, before anything else."});
  }
  bench.expect_warnings("LIFE-21");  // of a driver that does not support it
  if (runs) static_cast<void>(bench.remove());
  const Outcome unloaded = bench.unload();
  if (unloaded.kind != Outcome::Kind::kOk) return Outcome::failed(unloaded.text);
  if (!went_on) return Outcome::ok("a device that has left is not started");
  if (lost != 0) return Outcome::failed("a device that is not there was started");
  return Outcome::ok("the driver starts without a device, and touches none");
}

Outcome absence(Bench& bench) {
  if (bench.mutated()) return Outcome::skipped("a mutation is for one machine");
  const Outcome silent = start_without(bench, /*registers_only=*/true);
  if (silent.kind != Outcome::Kind::kOk) return silent;
  return start_without(bench, /*registers_only=*/false);
}

// --- other screens

using Changes = std::vector<std::pair<std::string, std::string>>;

/// One machine with its device changed so. An error: what is wrong, which has been reported.
Answer<void> look_at_screen(Bench& bench, const Changes& changes, std::string* how) {
  std::string options;
  for (const auto& [name, value] : changes)
    options += fmt::format("{}{}={}", options.empty() ? "" : ",", name, value);
  const DeviceChoice device = bench.device().with(changes);
  if (const Outcome loaded = bench.load_again(bench.kernel_config(), device);
      loaded.kind != Outcome::Kind::kOk)
    return std::unexpected(loaded.text);
  const bool started = bench.start({.may_fail = true}).kind == Outcome::Kind::kOk;
  *how += fmt::format("{}{}: {}", how->empty() ? "" : "; ", options,
                      started ? "right" : "refused to start");
  Answer<void> done;
  if (started) {
    for (const Step& step : display_steps()) {
      if (std::string_view(step.name) != "presents") continue;
      const Outcome looked = step.run(bench);
      if (looked.kind == Outcome::Kind::kFailed) done = std::unexpected(looked.text);
    }
    static_cast<void>(bench.stop());
  }
  const Outcome unloaded = bench.unload();
  if (done && unloaded.kind != Outcome::Kind::kOk) return std::unexpected(unloaded.text);
  return done;
}

Outcome other_screens(Bench& bench) {
  if (bench.mutated()) return Outcome::skipped("a mutation is for one machine");
  const bus::DeviceType& type = *bench.device().type;
  std::string how;
  if (type.option("width") != nullptr && type.option("height") != nullptr &&
      type.option("pitch") != nullptr) {
    const Answer<void> done =
        look_at_screen(bench, {{"width", "200"}, {"height", "90"}, {"pitch", "1088"}}, &how);
    if (!done) return Outcome::failed(done.error());
  }
  if (type.option("post") != nullptr) {
    const Answer<void> done = look_at_screen(bench, {{"post", "off"}}, &how);
    if (!done) return Outcome::failed(done.error());
  }
  if (how.empty())
    return Outcome::skipped("the device has no options for the screen that firmware leaves");
  return Outcome::ok(how);
}

constexpr Step kSteps[] = {
    {"other-screens", "firmware has set another mode, or none", Step::Needs::kMachine,
     other_screens},
    {"registry-values", "values of the registry have another type", Step::Needs::kMachine,
     registry_values},
    {"removal", "the device leaves the machine, under work and asleep", Step::Needs::kMachine,
     removal},
    {"absence", "the adapter is started after its device has left", Step::Needs::kMachine, absence},
};

}  // namespace

std::span<const Step> removal_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
