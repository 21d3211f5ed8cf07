#include "tools/dxgkit/verify/shortage.h"

#include <algorithm>

#include "nt/kernel.h"
#include "nt/pool.h"

namespace dxgkit::tool::verify {
namespace {

/// True in an entry that may answer that there is no memory.
bool makes_an_object() {
  const nt::CallFrame* const frame = nt::CallFrame::current_or_null();
  if (frame == nullptr) return false;
  const std::string_view ddi = frame->name();
  return ddi.starts_with("DxgkDdiCreate") || ddi == "DxgkDdiOpenAllocation";
}

}  // namespace

void Shortage::attach(World& world) {
  nt::set_allocation_fault(world.kernel(), [this](std::string_view routine) {
    return (mutator_ != nullptr && mutator_->allocation_fails(routine)) ||
           strikes(What::kMemory, routine);
  });
}

void Shortage::deny_memory(uint32_t nth) {
  left_ = nth;
  struck_ = nullptr;
  what_ = What::kMemory;
}

void Shortage::fail_callback(uint32_t nth) {
  left_ = nth;
  struck_ = nullptr;
  what_ = What::kCallback;
}

std::string_view Shortage::stop() {
  what_ = What::kNothing;
  const char* const struck = struck_.exchange(nullptr);
  return struck == nullptr ? std::string_view() : std::string_view(struck);
}

bool Shortage::strikes(What what, std::string_view name) {
  if (what_.load(std::memory_order_relaxed) != what || !makes_an_object()) return false;
  if (left_.fetch_sub(1) != 1) return false;
  what_ = What::kNothing;
  struck_ = name.data();
  return true;
}

std::optional<Status> Shortage::before_callback(std::string_view callback) {
  if (mutator_ != nullptr) {
    if (const std::optional<Status> status = mutator_->before_callback(callback)) return status;
  }
  const std::span<const MayFail> rows = callbacks_that_may_fail();
  const auto row = std::ranges::find(rows, callback, &MayFail::callback);
  if (row == rows.end() || !strikes(What::kCallback, callback)) return std::nullopt;
  return row->statuses.front();
}

}  // namespace dxgkit::tool::verify
