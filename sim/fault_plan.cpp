#include "sim/fault_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/arithmetic.h"
#include "base/spelling.h"

namespace dxgkit::sim {
namespace {

/// The longest command the driver puts into a DMA or paging buffer in one piece, and some room: a
/// fresh buffer always takes one, so that every pass gets on.
constexpr uint32_t kLeastRoom = 128;

constexpr std::array kRenderFailures = {Status::kNoMemory,
                                        Status::kPrivilegedInstruction,
                                        Status::kIllegalInstruction,
                                        Status::kInvalidParameter,
                                        Status::kInvalidUserBuffer,
                                        Status::kInvalidHandle,
                                        Status::kGraphicsDriverMismatch};

struct Range {
  uint32_t low, high;  // per million
};
/// The chance that a world has the kind at all, in percent, and the range of its rate.
struct Drawn {
  uint32_t percent;
  Range rate;
};
constexpr std::array<Drawn, kFaultKinds> kDrawn = {{
    {15, {1, 1}},                  // VRAM full
    {15, {1, 1}},                  // VRAM fragmented
    {20, {1, 1}},                  // budget cut
    {25, {1'000, 100'000}},        // no pages
    {50, {50'000, 1'000'000}},     // paging room: up to every pass
    {25, {10'000, 300'000}},       // paging refused
    {30, {10'000, 500'000}},       // allocation busy
    {30, {50'000, 1'000'000}},     // render room
    {30, {1'000, 100'000}},        // render fails
    {15, {1'000, 20'000}},         // device lost
    {30, {1'000, 100'000}},        // create fails
    {12, {1, 1}},                  // start fails
    {6, {1, 1}},                   // driver fails
    {15, {1'000, 100'000}},        // lost interrupt
    {20, {1'000, 500'000}},        // duplicate interrupt
    {20, {1'000, 300'000}},        // late interrupt
    {40, {1, 1}},                  // stand-by
    {40, {1, 1}},                  // client death
    {40, {1, 1}},                  // hostile client
    {15, {1, 1}},                  // engine hang
    {20, {50'000, 500'000}},       // long packet
    {20, {1'000, 200'000}},        // late DPC
    {20, {1'000'000, 1'000'000}},  // engine reset fails
    {6, {1'000'000, 1'000'000}},   // reset fails
    {10, {1, 1}},                  // few resets
    {3, {1, 1}},                   // future fence
    {4, {1, 1}},                   // removal
    {12, {1'000, 50'000}},         // time jump
    {10, {1, 1}},                  // power failure
    {10, {1, 1}},                  // sleep at work
    {12, {1'000, 50'000}},         // interrupt storm
    {6, {1'000, 50'000}},          // starved DPC
    {3, {1, 1}},                   // buffer overrun
    {3, {1, 1}},                   // no progress
    {10, {1, 1}},                  // registry
    {100, {1, 1}},                 // lock after removal
    {12, {1'000, 200'000}},        // repeated fence
    {10, {1, 1}},                  // memory error
}};

}  // namespace

FaultPlan FaultPlan::draw(Random& random) {
  FaultPlan plan;
  Random copy = random;
  Random later(copy.next() ^ 0x1A7E4u);
  Random latest(copy.next() ^ 0xECCu);
  for (size_t i = 0; i < kFaultKinds; ++i) {
    const Drawn& drawn = kDrawn[i];
    const auto kind = static_cast<FaultKind>(i);
    Random& from = kind < kFirstLaterKind ? random : kind < kFirstLatestKind ? later : latest;
    const auto rate = static_cast<uint32_t>(from.magnitude(drawn.rate.low, drawn.rate.high));
    plan.drawn[i] = rate;
    if (from.percent(drawn.percent)) plan.rate[i] = rate;
  }
  // Resets that fail need a reason to be.
  for (const FaultKind kind :
       {FaultKind::kResetEngineFails, FaultKind::kResetFails, FaultKind::kFewResets}) {
    const auto hang = static_cast<size_t>(FaultKind::kLongPacket);
    if (plan.has(kind)) plan.rate[hang] = plan.drawn[hang];
  }
  plan.start_fails_at = static_cast<uint32_t>(random.below(14));
  plan.driver_fails_at = static_cast<uint32_t>(random.magnitude(1, 300));
  plan.hangs_at = static_cast<uint32_t>(random.magnitude(1, 200));
  plan.hangs_on = static_cast<uint32_t>(random.below(SGPU_NODE_COUNT));
  plan.long_packets = static_cast<uint32_t>(random.between(1, 4));
  plan.future_fence = static_cast<uint32_t>(random.magnitude(1, 200));
  plan.removed_at_us = static_cast<uint32_t>(random.magnitude(10, 50'000));
  plan.limit_count = static_cast<uint32_t>(later.between(1, 3));
  plan.limit_time_ns = static_cast<int64_t>(
      later.magnitude(static_cast<uint64_t>(runtime::kSecond), 60 * runtime::kSecond));
  plan.overruns_at = static_cast<uint32_t>(later.magnitude(1, 300));
  plan.stuck_at = static_cast<uint32_t>(later.magnitude(1, 300));
  plan.time_jumps = static_cast<uint32_t>(later.between(1, 4));
  plan.power_events = static_cast<uint32_t>(later.between(1, 4));
  plan.platform_seed = later.next();
  plan.memory_error_at = static_cast<uint32_t>(latest.magnitude(1, 200));
  plan.memory_error_on = static_cast<uint32_t>(latest.below(SGPU_NODE_COUNT));
  return plan;
}

std::optional<std::string> FaultPlan::change(std::string_view text) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    if (item == "none") {
      rate = {};
      continue;
    }
    if (item == "all") {
      rate = drawn;
      continue;
    }
    const bool without = item.starts_with('-');
    if (without) item.remove_prefix(1);
    const size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    const auto same = [&](std::string_view kind) {
      return std::ranges::equal(kind, name,
                                [](char a, char b) { return a == b || (a == ' ' && b == '-'); });
    };
    const auto found = std::ranges::find_if(kFaultNames, same);
    if (found == kFaultNames.end()) {
      std::string message = fmt::format("there is no kind of fault '{}'; there are:", name);
      for (const std::string_view kind : kFaultNames) message += fmt::format(" '{}'", kind);
      return message + did_you_mean(name, kFaultNames);
    }
    const auto kind = static_cast<size_t>(found - kFaultNames.begin());
    uint32_t value = without ? 0 : drawn[kind];
    if (equals != std::string_view::npos) {
      const std::string_view digits = item.substr(equals + 1);
      const char* const end = digits.data() + digits.size();
      const auto [at, error] = std::from_chars(digits.data(), end, value);
      if (without || error != std::errc{} || at != end || value > 1'000'000)
        return fmt::format("'{}' is no rate per million", digits);
    }
    rate[kind] = value;
  }
  return std::nullopt;
}

std::string FaultPlan::text() const {
  std::string text = "none";
  for (size_t i = 0; i < kFaultKinds; ++i) {
    if (rate[i] == 0) continue;
    std::string name(kFaultNames[i]);
    std::ranges::replace(name, ' ', '-');
    text += fmt::format(",{}={}", name, rate[i]);
  }
  return text;
}

Faults::Faults(runtime::Runtime& runtime, const FaultPlan& plan, const Sizes& sizes, uint64_t seed,
               Canary canary)
    : runtime_(runtime),
      plan_(plan),
      sizes_(sizes),
      random_(seed),
      later_(seed ^ 0x1A7E4u),
      canary_(canary) {}

void Faults::stopped_by(FaultKind kind) {
  if (driver_failed_) return;
  driver_failed_ = true;
  count(kind);
}

bool Faults::take_long_packet() {
  if (phase_ != Phase::kWorking || long_packets_ >= plan_.long_packets) return false;
  if (!strike(FaultKind::kLongPacket)) return false;
  ++long_packets_;
  return true;
}

bool Faults::strike(FaultKind kind) {
  if (phase_ != Phase::kWorking) return false;
  if (!numbers_of(kind).chance(plan_.rate[static_cast<size_t>(kind)])) return false;
  count(kind);
  return true;
}

int64_t Faults::time_jump() {
  // Between two of them the machine runs for a while, or the device stands still forever.
  const int64_t now = runtime_.now();
  if (time_jumps_ != 0 && now - last_jump_ns_ < 4 * sizes_.tdr_delay_ns) return 0;
  if (time_jumps_ >= plan_.time_jumps || !strike(FaultKind::kTimeJump)) return 0;
  ++time_jumps_;
  const auto by = static_cast<int64_t>(later_.magnitude(runtime::kMillisecond, kJumpMost));
  last_jump_ns_ = now + by;
  return by;
}

bool Faults::stops_at(FaultKind kind, uint32_t* opportunities, uint32_t at) {
  if (phase_ != Phase::kWorking || !plan_.has(kind)) return false;
  if (driver_failed_ || ++*opportunities != at) return false;
  driver_failed_ = true;
  count(kind);
  return true;
}

bool Faults::start_fails() {
  if (phase_ != Phase::kStarting || !plan_.has(FaultKind::kStartFails)) return false;
  if (start_failed_ || start_calls_++ != plan_.start_fails_at) return false;
  start_failed_ = true;
  count(FaultKind::kStartFails);
  return true;
}

bool Faults::driver_fails() {
  if (phase_ != Phase::kWorking || !plan_.has(FaultKind::kDriverFails)) return false;
  if (driver_failed_ || fatal_calls_++ != plan_.driver_fails_at) return false;
  driver_failed_ = true;
  count(FaultKind::kDriverFails);
  return true;
}

bool Faults::page_fault(uint64_t) {
  if (start_fails()) return true;
  if (!strike(FaultKind::kPages)) return false;
  ++excuses_;
  return true;
}

softgpu::FaultPlan Faults::device_plan() const {
  softgpu::FaultPlan out;
  if (phase_ != Phase::kWorking) return out;
  for (softgpu::NodeFaults& node : out.nodes) {
    node.lose_interrupt_per_million = plan_.rate[static_cast<size_t>(FaultKind::kLostInterrupt)];
    node.duplicate_interrupt_per_million =
        plan_.rate[static_cast<size_t>(FaultKind::kDuplicateInterrupt)];
    node.late_interrupt_per_million = plan_.rate[static_cast<size_t>(FaultKind::kLateInterrupt)];
    node.late_by_ns = 20 * runtime::kMicrosecond;
    if (plan_.has(FaultKind::kFutureFence))
      node.corrupt_fences[plan_.future_fence] = plan_.future_fence + 100'000;
  }
  if (plan_.has(FaultKind::kEngineHang)) {
    softgpu::NodeFaults& node = out.nodes[plan_.hangs_on];
    node.hang_at_entry = plan_.hangs_at;
    node.hangs_max = 1;
  }
  if (plan_.has(FaultKind::kMemoryError))
    out.nodes[plan_.memory_error_on].memory_error_at_entry = plan_.memory_error_at;
  return out;
}

std::optional<Status> Faults::before_ddi(std::string_view ddi) {
  if (phase_ == Phase::kStarting) {
    constexpr std::array<std::string_view, 5> kMayFail = {
        "DxgkDdiAddDevice", "DxgkDdiStartDevice", "DxgkDdiQueryAdapterInfo", "DxgkDdiCreateDevice",
        "DxgkDdiCreateContext"};
    if (std::ranges::find(kMayFail, ddi) != kMayFail.end() && start_fails())
      return random_.percent(50) ? Status::kNoMemory : Status::kUnsuccessful;
    return std::nullopt;
  }
  if (phase_ != Phase::kWorking) return std::nullopt;
  if (ddi == "DxgkDdiRender") {
    if (strike(FaultKind::kRenderLosesDevice)) {
      ++excuses_;
      return Status::kGraphicsGpuExceptionOnDevice;
    }
    if (strike(FaultKind::kRenderFails)) {
      ++excuses_;
      return kRenderFailures[random_.below(kRenderFailures.size())];
    }
    return std::nullopt;
  }
  if (ddi == "DxgkDdiPatch" || ddi == "DxgkDdiSubmitCommand") {
    if (driver_fails()) return Status::kUnsuccessful;
    return std::nullopt;
  }
  if (ddi == "DxgkDdiDpcRoutine") {
    if (strike(FaultKind::kStarvedDpc))
      runtime_.consume(sizes_.tdr_delay_ns * static_cast<int64_t>(later_.between(10, 45)) / 100);
    if (strike(FaultKind::kLateDpc)) {
      runtime_.consume(
          static_cast<runtime::DurationNs>(random_.magnitude(1'000, 2 * runtime::kMillisecond)));
    }
    return std::nullopt;
  }
  if (ddi == "DxgkDdiResetEngine" && strike(FaultKind::kResetEngineFails))
    return Status::kUnsuccessful;
  if (ddi == "DxgkDdiResetFromTimeout" && !standing_by_ && strike(FaultKind::kResetFails)) {
    driver_failed_ = true;
    return Status::kUnsuccessful;
  }
  constexpr std::array<std::string_view, 4> kCreates = {
      "DxgkDdiCreateDevice", "DxgkDdiCreateContext", "DxgkDdiCreateAllocation",
      "DxgkDdiOpenAllocation"};
  if (std::ranges::find(kCreates, ddi) != kCreates.end() && strike(FaultKind::kCreateFails)) {
    ++excuses_;
    const bool other = ddi == "DxgkDdiCreateAllocation" && random_.percent(30);
    return other ? Status::kGraphicsDriverMismatch : Status::kNoMemory;
  }
  return std::nullopt;
}

std::optional<Status> Faults::before_paging(const port::PagingOperation& operation,
                                            uint32_t buffer_bytes) {
  using Kind = port::PagingOperation::Kind;
  full_paging_buffer_ = std::max(full_paging_buffer_, buffer_bytes);
  const bool transfer = operation.kind == Kind::kTransfer;
  if (canary_ == Canary::kDropTransfer && phase_ == Phase::kWorking && transfer &&
      operation.source.segment == kSystemMemory && ++transfers_ % 4 == 0) {
    return Status::kSuccess;
  }
  if (driver_fails()) return Status::kUnsuccessful;
  // Twice in a row on a fresh buffer would be a driver that makes no progress.
  const bool has_buffer = buffer_bytes != 0;  // without one the CPU writes page tables
  if (has_buffer && !stuck_)
    stuck_ = stops_at(FaultKind::kNoProgress, &paging_calls_, plan_.stuck_at);
  if (has_buffer && stuck_) return Status::kGraphicsInsufficientDmaBuffer;
  if (has_buffer && !refused_paging_ && strike(FaultKind::kPagingRefused)) {
    refused_paging_ = true;
    return Status::kGraphicsInsufficientDmaBuffer;
  }
  const bool may_be_busy =
      (transfer || operation.kind == Kind::kDiscardContent) && !operation.allocation_is_idle;
  if (may_be_busy && strike(FaultKind::kAllocationBusy)) return Status::kGraphicsAllocationBusy;
  refused_paging_ = false;
  return std::nullopt;
}

uint32_t Faults::room(std::string_view ddi, uint32_t bytes) {
  if (ddi == port::kPagingPrivateRoom) return bytes;
  const bool paging = ddi == "DxgkDdiBuildPagingBuffer";
  if (!strike(paging ? FaultKind::kPagingRoom : FaultKind::kRenderRoom)) return bytes;
  // The rest of a buffer may be too small for anything: the next one is opened. A fresh one may
  // not.
  const bool fresh = !paging || bytes == full_paging_buffer_;
  const uint32_t least = fresh ? std::min(kLeastRoom, bytes) : 1;
  return static_cast<uint32_t>(random_.magnitude(least, bytes));
}

uint32_t Faults::overrun(std::string_view) {
  if (!stops_at(FaultKind::kOverrun, &buffers_filled_, plan_.overruns_at)) return 0;
  return static_cast<uint32_t>(later_.magnitude(1, 1 << 20));
}

void Faults::shape(port::SegmentsInfo* segments) {
  if (sizes_.paging_buffer_bytes != 0)
    segments->paging_buffer_bytes =
        std::min(segments->paging_buffer_bytes, sizes_.paging_buffer_bytes);
  constexpr uint32_t kAperture = 1;  // DXGK_SEGMENTFLAGS.Aperture
  for (port::SegmentInfo& segment : segments->segments) {
    if ((segment.flags & kAperture) == 0 || sizes_.aperture_bytes == 0) continue;
    segment.size = std::min(segment.size, sizes_.aperture_bytes);
    segment.commit_limit = std::min(segment.commit_limit, segment.size);
  }
}

}  // namespace dxgkit::sim
