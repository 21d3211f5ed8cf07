#include "tools/dxgkit/verify/shortage.h"

#include <algorithm>

#include "nt/kernel.h"
#include "nt/pool.h"

namespace dxgkit::tool::verify {
namespace {

/// The running entry, if it may answer that there is no memory; else null.
const char* entry_that_may_fail(Shortage::During during) {
  const nt::CallFrame* const frame = nt::CallFrame::current_or_null();
  if (frame == nullptr) return nullptr;
  const std::string_view ddi = frame->name();
  if (during == Shortage::During::kPaging)
    return ddi == "DxgkDdiBuildPagingBuffer" ? frame->name() : nullptr;
  const bool makes = ddi.starts_with("DxgkDdiCreate") || ddi == "DxgkDdiOpenAllocation";
  const bool starts = during == Shortage::During::kStarting &&
                      (ddi == "DxgkDdiAddDevice" || ddi == "DxgkDdiStartDevice");
  return makes || starts ? frame->name() : nullptr;
}

}  // namespace

void Shortage::attach(World& world) {
  nt::set_allocation_fault(world.kernel(), [this](std::string_view routine) {
    return (mutator_ != nullptr && mutator_->allocation_fails(routine)) ||
           strikes(What::kMemory, routine);
  });
}

void Shortage::deny_memory(uint32_t nth, During during) { arm(What::kMemory, nth, during); }

void Shortage::fail_callback(uint32_t nth, During during) { arm(What::kCallback, nth, during); }

void Shortage::deny_handle(uint32_t nth) { arm(What::kHandle, nth, During::kMaking); }

void Shortage::arm(What what, uint32_t nth, During during) {
  left_ = nth;
  routine_ = nullptr;
  during_ = during;
  what_ = what;
}

Shortage::Refused Shortage::stop() {
  what_ = What::kNothing;
  const char* const routine = routine_.exchange(nullptr);
  if (routine == nullptr) return {};
  return {routine, ddi_.load()};
}

bool Shortage::strikes(What what, std::string_view name) {
  if (what_.load(std::memory_order_relaxed) != what) return false;
  const During during = during_.load(std::memory_order_relaxed);
  if (during == During::kPaging && name != "MmMapLockedPagesSpecifyCache") return false;
  const char* const ddi = entry_that_may_fail(during);
  if (ddi == nullptr || left_.fetch_sub(1) != 1) return false;
  what_ = What::kNothing;
  ddi_ = ddi;
  routine_ = name.data();
  return true;
}

std::optional<Status> Shortage::before_callback(std::string_view callback) {
  if (callback == "DxgkCbGetHandleData" || callback == "DxgkCbAcquireHandleData")
    return strikes(What::kHandle, callback) ? std::optional(Status::kInvalidHandle) : std::nullopt;
  if (mutator_ != nullptr) {
    if (const std::optional<Status> status = mutator_->before_callback(callback)) return status;
  }
  const std::span<const MayFail> rows = callbacks_that_may_fail();
  const auto row = std::ranges::find(rows, callback, &MayFail::callback);
  if (row == rows.end() || !strikes(What::kCallback, callback)) return std::nullopt;
  return row->statuses.front();
}

}  // namespace dxgkit::tool::verify
