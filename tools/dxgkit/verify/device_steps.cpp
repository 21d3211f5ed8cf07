// Machines of their own with other devices of the same kind: other memory, which keeps other parts
// of its content while it sleeps.
#include <fmt/format.h>

#include <algorithm>

#include "base/spelling.h"
#include "dxgk/inspection.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/facts.h"
#include "tools/dxgkit/verify/monitors.h"
#include "tools/dxgkit/verify/pointer_look.h"
#include "tools/dxgkit/verify/screen_look.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint64_t kChunkBytes = uint64_t{64} << 10;
/// Of a larger segment only so much from its start, and as much before the end of what lasts.
constexpr uint64_t kLookedAtMax = uint64_t{4} << 20;

/// Content of a segment where nobody's allocation is, written by the driver.
struct Chunk {
  uint32_t segment;  // id
  uint64_t offset;
  std::vector<std::byte> content;
};

/// Fills what the driver says that the segments keep in this state, where nobody's content is.
std::vector<Chunk> fill_segments(Bench& bench, dxgk::PowerTarget target) {
  std::vector<Chunk> chunks;
  if (bench.gpu_addresses()) return chunks;  // its paging has no plain copies
  const Result<dxgk::Inspection> inspection = dxgk::Inspection::of(bench.system(), bench.luid());
  if (!inspection.has_value()) return chunks;
  const std::vector<port::SegmentInfo>& segments = inspection->segments().segments;
  for (uint32_t id = 1; id <= segments.size(); ++id) {
    const uint64_t kept = inspection->kept_bytes(SegmentId{id}, target);
    const uint64_t end = std::min(kept, segments[id - 1].size);
    for (uint64_t at = 0; at < end; at += kChunkBytes) {
      if (at >= kLookedAtMax && at + kLookedAtMax < end) continue;
      const uint64_t bytes = std::min(kChunkBytes, segments[id - 1].size - at);
      Chunk chunk{id, at, bench.random_bytes(bytes)};
      if (is_success(bench.exercise().memory().write_plain(SegmentId{id}, at, chunk.content))) {
        chunk.content.resize(std::min(bytes, kept - at));
        chunks.push_back(std::move(chunk));
      }
    }
  }
  return chunks;
}

/// PWR-16. False: reported.
bool is_kept(Bench& bench, const std::vector<Chunk>& chunks, const char* state) {
  for (const Chunk& chunk : chunks) {
    const uint64_t pages = (chunk.content.size() + kPageBytes - 1) / kPageBytes;
    const Result<std::vector<std::byte>> now = bench.exercise().memory().read_plain(
        SegmentId{chunk.segment}, chunk.offset, pages * kPageBytes);
    if (!now.has_value()) continue;  // somebody's now
    const auto [was, is] = std::ranges::mismatch(chunk.content, *now);
    if (was == chunk.content.end()) continue;
    const uint64_t at = chunk.offset + static_cast<uint64_t>(was - chunk.content.begin());
    bench.findings().report(
        {.rule = "PWR-16",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)",
         .actual = fmt::format("Byte {:#x} of segment {} was {:#04x}, and is {:#04x} after {}; the "
                               "driver says that the segment keeps it.",
                               at, chunk.segment, std::to_integer<unsigned>(*was),
                               std::to_integer<unsigned>(*is), state),
         .expected = "What PreservedDuringStandby, PreservedDuringHibernate and "
                     "PartiallyPreservedDuringHibernate with SystemMemoryEndAddress promise.",
         .fix = "Ask the device what lasts, and set a flag only if all that it promises does.",
         .why = "The kernel does not save such content, so it is lost."});
    return false;
  }
  return true;
}

struct Nap {
  dxgk::PowerTarget target;
  const char* text;
};
constexpr Nap kNaps[] = {{dxgk::PowerTarget::kD3, "D3"},
                         {dxgk::PowerTarget::kStandby, "standby"},
                         {dxgk::PowerTarget::kHibernate, "hibernation"}};

/// A pointer is shown for the first time while the device has more work than it takes at once.
Answer<bool> point_beside_work(Bench& bench) {
  constexpr int kJobs = 6;
  if (bench.display_only() || !bench.has_work()) return show_pointers(bench);
  Worker worker(bench, "beside a pointer");
  DXGKIT_VERIFY_TRY(worker.open());
  const Answer<std::unique_ptr<Job>> job =
      Job::create(bench, worker.client, worker.device, bench.random(), 0);
  if (!job) return std::unexpected(job.error());
  for (int i = 0; i < kJobs; ++i) DXGKIT_VERIFY_TRY((*job)->submit(worker.contexts.front()));
  const Answer<bool> shown = show_pointers(bench);
  DXGKIT_VERIFY_TRY(worker.client.wait_idle(worker.device));
  DXGKIT_VERIFY_TRY((*job)->destroy());
  return shown;
}

/// Jobs right before and after each sleep, whose allocations stay as far as the driver says so.
Answer<void> use(Bench& bench, size_t* naps) {
  DXGKIT_VERIFY_TRY(check_monitors(bench));
  const Answer<bool> pointed = point_beside_work(bench);
  if (!pointed) return std::unexpected(pointed.error());
  if (*pointed) DXGKIT_VERIFY_TRY(show_pointers_again(bench, "a start"));
  if (bench.exercise().video_present_sources() != 0) {
    for (const auto& look : {visibility, flips}) {
      const Outcome seen = look(bench);
      if (seen.kind == Outcome::Kind::kFailed) return std::unexpected(seen.text);
    }
  }
  if (bench.display_only()) return {};
  if (bench.has_work()) {
    const Answer<NodeJobs> jobs = run_on_each_node(bench, "other device");
    if (!jobs) return std::unexpected(jobs.error());
    if (!jobs->wrong.empty()) {
      report_result(bench, jobs->wrong);
      return std::unexpected(jobs->wrong);
    }
  }
  if (bench.plugin() != nullptr) DXGKIT_VERIFY_TRY(judge_escapes(bench));
  Client client(bench, "asks while it sleeps");
  DXGKIT_VERIFY_TRY(client.open_adapter());
  for (const Nap& nap : kNaps) {
    bool kept = true;
    const Answer<void> done = work_across(bench, [&] {
      const std::vector<Chunk> chunks = fill_segments(bench, nap.target);
      const auto down = bench.system().set_power(bench.luid(), nap.target);
      if (!down.has_value()) {  // busy: a primary is on the screen
        return down.error() == Status::kGraphicsAllocationBusy ? Status::kSuccess : down.error();
      }
      ++*naps;
      client.ask_umd_private();  // PWR-15
      const auto up = bench.system().set_power(bench.luid(), dxgk::PowerTarget::kD0);
      if (!up.has_value()) return up.error();
      kept = is_kept(bench, chunks, nap.text);
      return Status::kSuccess;
    });
    if (!kept) return std::unexpected(fmt::format("memory is lost in {}", nap.text));
    if (!done) return std::unexpected(fmt::format("around {}: {}", nap.text, done.error()));
  }
  return {};
}

size_t mistakes(Bench& bench) {
  return static_cast<size_t>(
      std::ranges::count_if(bench.findings().all(), [](const verifier::Finding& finding) {
        return finding.severity != verifier::Severity::kWarning;
      }));
}

Outcome other_devices(Bench& bench) {
  if (bench.mutated()) return Outcome::skipped("a mutation is for one machine");
  std::vector<DeviceChoice> devices{bench.device()};
  for (const auto& other : bench.device().type->others) devices.push_back(devices[0].with(other));
  size_t naps = 0;
  for (const DeviceChoice& device : devices) {
    if (const Outcome loaded = bench.load_again(bench.kernel_config(), device);
        loaded.kind != Outcome::Kind::kOk)
      return loaded;
    const size_t before = mistakes(bench);
    const Outcome started = bench.start({.may_fail = true});
    const Answer<void> used = started.kind == Outcome::Kind::kOk
                                  ? use(bench, &naps)
                                  : Answer<void>(std::unexpected(started.text));
    const bool told = mistakes(bench) != before;
    const Outcome unloaded = bench.unload();
    if (used && unloaded.kind == Outcome::Kind::kFailed) return unloaded;
    if (used) continue;
    if (!told) {
      bench.findings().report(
          {.rule = "LIFE-32",
           .severity = verifier::Severity::kViolation,
           .ddi = "DxgkDdiStartDevice",
           .actual = fmt::format("With the device {} {}.", device.text, used.error()),
           .expected = "A start and work that come out right, as with the device of this run.",
           .fix = "Ask the device for the size of its memory and for what it keeps, and describe "
                  "just that."});
    }
    return Outcome::failed(fmt::format("{}: {}", device.text, used.error()));
  }
  return Outcome::ok(
      fmt::format("{}, {} asleep", counted(devices.size(), "device"), counted(naps, "time")));
}

/// One machine with a setting in the driver's key. What is wrong; empty: nothing.
Answer<void> run_with(Bench& bench, const DxgkitClientSetting& setting) {
  nt::KernelConfig config = bench.kernel_config();
  config.registry[nt::KernelConfig::kDriverKey][setting.name] =
      nt::RegistryValue::dword(setting.value);
  const Outcome loaded = bench.load_again(config);
  Answer<void> done;
  if (loaded.kind != Outcome::Kind::kOk) {
    if (setting.refused == 0) done = std::unexpected("is not loaded: " + loaded.text);
    return done;
  }
  const Outcome started = bench.start({.may_fail = true});
  const bool runs = started.kind == Outcome::Kind::kOk;
  if (runs && setting.refused != 0) {
    done = std::unexpected("starts");
  } else if (!runs && setting.refused == 0) {
    done = std::unexpected(started.text);
  } else if (runs) {
    const Answer<NodeJobs> jobs = run_on_each_node(bench, "other setting");
    if (!jobs) done = std::unexpected(jobs.error());
    if (jobs && !jobs->wrong.empty()) done = std::unexpected(jobs->wrong);
    if (std::string wrong = judge_facts(bench); !wrong.empty())
      done = std::unexpected("says what it should not: " + wrong);
  }
  static_cast<void>(bench.unload());
  return done;
}

Outcome other_settings(Bench& bench) {
  if (bench.mutated()) return Outcome::skipped("a mutation is for one machine");
  if (bench.plugin() == nullptr)
    return Outcome::skipped(
        "it takes --client, which knows the settings that the driver documents");
  if (bench.work_fails())
    return Outcome::skipped("work fails with the settings of this run, too: see the step render");
  std::vector<DxgkitClientSetting> settings = bench.plugin()->settings();
  std::erase_if(settings, [&](const DxgkitClientSetting& setting) {
    const std::string_view name = setting.name;
    return !bench.asked_values().contains(std::u16string(name.begin(), name.end())) ||
           bench.is_configured(name);
  });
  if (settings.empty())
    return Outcome::skipped("the client names no setting that the driver reads");
  // With any value there is a software key, in which a value is missing.
  bench.expect_warnings("CAPS-03");
  for (const DxgkitClientSetting& setting : settings) {
    const Answer<void> done = run_with(bench, setting);
    if (done) continue;
    const std::string with = fmt::format("{} = {}", setting.name, setting.value);
    bench.findings().report(
        {.rule = "LIFE-33",
         .severity = verifier::Severity::kViolation,
         .ddi = "DriverEntry",
         .actual = fmt::format("With the registry value {} the driver {}.", with, done.error()),
         .expected = setting.refused != 0 ? "An error status of DriverEntry or StartDevice."
                                          : "A start, and work that comes out right.",
         .fix = "Follow the setting through the code to all that depends on it: entries of the "
                "table, caps, and what relies on them."});
    return Outcome::failed(fmt::format("with {} it {}", with, done.error()));
  }
  return Outcome::ok(fmt::format("{}", counted(settings.size(), "setting")));
}

constexpr Step kSteps[] = {
    {"other-devices", "other devices of the same kind work, sleep and wake", Step::Needs::kMachine,
     other_devices},
    {"other-settings", "the driver runs with other settings in its key", Step::Needs::kMachine,
     other_settings},
};

}  // namespace

std::span<const Step> device_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
