#include "sim/fault_plan.h"

#include <algorithm>

#include "base/arithmetic.h"

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
/// Chance that a world has the kind at all, in percent, and what its rate is drawn from.
struct Drawn {
  uint32_t percent;
  Range rate;
};
constexpr std::array<Drawn, kFaultKinds> kDrawn = {{
    {15, {1, 1}},               // VRAM full
    {15, {1, 1}},               // VRAM fragmented
    {20, {1, 1}},               // budget cut
    {25, {1'000, 100'000}},     // no pages
    {50, {50'000, 1'000'000}},  // paging room: up to every pass
    {25, {10'000, 300'000}},    // paging refused
    {30, {10'000, 500'000}},    // allocation busy
    {30, {50'000, 1'000'000}},  // render room
    {30, {1'000, 100'000}},     // render fails
    {15, {1'000, 20'000}},      // device lost
    {30, {1'000, 100'000}},     // create fails
    {12, {1, 1}},               // start fails
    {6, {1, 1}},                // driver fails
    {15, {1'000, 100'000}},     // lost interrupt
    {20, {1'000, 500'000}},     // duplicate interrupt
    {20, {1'000, 300'000}},     // late interrupt
    {40, {1, 1}},               // stand-by
    {40, {1, 1}},               // client death
    {40, {1, 1}},               // hostile client
}};

}  // namespace

FaultPlan FaultPlan::draw(Random& random) {
  FaultPlan plan;
  for (size_t i = 0; i < kFaultKinds; ++i) {
    const Drawn& drawn = kDrawn[i];
    const auto rate = static_cast<uint32_t>(random.magnitude(drawn.rate.low, drawn.rate.high));
    if (random.percent(drawn.percent)) plan.rate[i] = rate;
  }
  plan.start_fails_at = static_cast<uint32_t>(random.below(14));
  plan.driver_fails_at = static_cast<uint32_t>(random.magnitude(1, 300));
  return plan;
}

Faults::Faults(const FaultPlan& plan, const Sizes& sizes, uint64_t seed, Canary canary)
    : plan_(plan), sizes_(sizes), random_(seed), canary_(canary) {}

bool Faults::strike(FaultKind kind) {
  if (phase_ != Phase::kWorking) return false;
  if (!random_.chance(plan_.rate[static_cast<size_t>(kind)])) return false;
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
  }
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
  const bool has_buffer = buffer_bytes != 0;  // else the CPU writes page tables
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
  const bool paging = ddi == "DxgkDdiBuildPagingBuffer";
  if (!strike(paging ? FaultKind::kPagingRoom : FaultKind::kRenderRoom)) return bytes;
  // The rest of a buffer may be too small for anything: the next one is opened. A fresh one may
  // not.
  const bool fresh = !paging || bytes == full_paging_buffer_;
  const uint32_t least = fresh ? std::min(kLeastRoom, bytes) : 1;
  return static_cast<uint32_t>(random_.magnitude(least, bytes));
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
