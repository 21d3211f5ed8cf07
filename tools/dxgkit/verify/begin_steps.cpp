// Load, start, and the driver's description of itself.
#include <fmt/format.h>

#include <array>

#include "base/spelling.h"
#include "dxgk/core/segment_flags.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/facts.h"

namespace dxgkit::tool::verify {
namespace {

constexpr int kRepeats = 3;

/// Only here: elsewhere the driver's key is made to hold what a driver may refuse.
Outcome load(Bench& bench) {
  const size_t before = bench.findings().total();
  Outcome loaded = bench.load();
  // A driver that cannot be loaded for another reason has not been asked.
  const bool gave_up = loaded.text.ends_with("without calling DxgkInitialize.");
  if (loaded.kind == Outcome::Kind::kFailed && gave_up && bench.findings().total() == before &&
      !bench.mutated()) {
    bench.findings().report(
        {.rule = "LIFE-01",
         .severity = verifier::Severity::kViolation,
         .ddi = "DriverEntry",
         .actual = loaded.text,
         .expected =
             "DriverEntry calls DxgkInitialize in a machine that has what the driver needs.",
         .fix = "Go on without a key or a value of the registry that is not there, and take those "
                "that are as the driver's page says.",
         .windows = "The device has no driver."});
  }
  return loaded;
}
Outcome start(Bench& bench) { return bench.start(); }

Outcome ask_again(Bench& bench) {
  for (int i = 0; i < kRepeats; ++i) {
    const Status status = bench.exercise().repeat_queries();
    if (!is_success(status))
      return Outcome::failed(
          fmt::format("a query that succeeded at start answers {}", status_text(status)));
  }
  return Outcome::ok(fmt::format("caps, segments and nodes {} more", counted(kRepeats, "time")));
}

/// UMDRIVERPRIVATE with buffers of unexpected sizes. The driver refuses or answers.
Outcome ask_privately(Bench& bench) {
  Client client(bench, "umd private");
  if (const Answer<void> open = client.open_adapter(); !open) return Outcome::failed(open.error());
  size_t refused = 0;
  constexpr std::array<size_t, 6> kSizes{1, 4, 16, 64, 256, 4096};
  for (const size_t size : kSizes) {
    std::vector<std::byte> data(size);
    for (std::byte& byte : data) byte = static_cast<std::byte>(bench.random());
    if (!is_success(from_ntstatus(client.query_umd_private(data)))) ++refused;
    if (!bench.running()) return Outcome::failed(fmt::format("it ended at {} bytes", size));
  }
  return Outcome::ok(fmt::format("{}, {} refused", counted(kSizes.size(), "size"), refused));
}

/// SEG-19: without a lock by the CPU nothing else looks there.
Outcome cpu_addresses(Bench& bench) {
  const std::vector<port::SegmentInfo>& segments = bench.exercise().segments();
  size_t seen = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const port::SegmentInfo& segment = segments[i];
    constexpr uint32_t kAperture = dxgk::kSegmentAperture | dxgk::kSegmentAgp;
    if ((segment.flags & dxgk::kSegmentCpuVisible) == 0 || (segment.flags & kAperture) != 0)
      continue;
    ++seen;
    const uint64_t address = segment.cpu_translated_address;
    if (address != 0 && bench.exercise().cpu_reaches(address, segment.size)) continue;
    ++wrong;
    bench.findings().report(
        {.rule = "SEG-19",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)",
         .actual = fmt::format("Segment {} sets CpuVisible; CpuTranslatedAddress is 0x{:X}, Size "
                               "0x{:X}.",
                               i + 1, address, segment.size),
         .expected =
             "The whole segment lies in one memory BAR of the adapter, or in system memory.",
         .fix =
             "Set CpuTranslatedAddress to the translated start of the memory resource that shows "
             "the segment, and Size to what it shows; or clear CpuVisible.",
         .why = "The kernel maps that range for applications that lock an allocation there."});
  }
  if (wrong != 0) return Outcome::failed(fmt::format("{} segments lie elsewhere", wrong));
  return Outcome::ok(
      fmt::format("{} of {} segments are CPU-visible memory", seen, segments.size()));
}

Outcome open_client(Bench& bench) {
  if (const Answer<void> open = bench.open_client(); !open) return Outcome::failed(open.error());
  if (const std::string wrong = judge_facts(bench); !wrong.empty()) return Outcome::failed(wrong);
  return Outcome::ok(fmt::format("client {}", bench.plugin()->name()));
}

constexpr Step kSteps[] = {
    {"load", "load the driver and call DriverEntry", Step::Needs::kNothing, load},
    {"start", "start the adapter", Step::Needs::kDriver, start},
    {"queries", "ask caps, segments and nodes again", Step::Needs::kAdapter, ask_again},
    {"cpu-addresses", "the CPU reaches the segments it is to see", Step::Needs::kRender,
     cpu_addresses},
    {"private-queries", "ask for private data with odd buffers", Step::Needs::kAdapter,
     ask_privately},
    {"client", "open the client plug-in", Step::Needs::kClient, open_client},
};

}  // namespace

std::span<const Step> begin_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
