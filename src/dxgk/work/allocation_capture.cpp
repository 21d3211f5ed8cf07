#include "dxgk/work/allocation_capture.h"

#include <algorithm>
#include <cstring>

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {
namespace {

/// No address that a processor has.
constexpr uint64_t kNoAllocation = 0xA5A5A5A5A5A5A5A5;

}  // namespace

Status AllocationCapture::capture_list() {
  WorkFloor& floor = device_.floor();
  const size_t bytes = client_list_.size() * sizeof(ClientAllocation);
  const bool known =
      captured_as_of_ == floor.listing_changes.count() &&
      captured_list_.size() == client_list_.size() &&
      (bytes == 0 || std::memcmp(captured_list_.data(), client_list_.data(), bytes) == 0);
  if (known && !floor.core.facts().explicit_residency) return Status::kSuccess;
  captured_as_of_ = entries_as_of_ = 0;
  DXGKIT_RETURN_IF_FAILED(find_allocations());
  DXGKIT_RETURN_IF_FAILED(check_captured());
  captured_list_ = client_list_;
  captured_as_of_ = floor.listing_changes.count();
  return Status::kSuccess;
}

Status AllocationCapture::find_allocations() {
  captured_.clear();
  captured_.resize(client_list_.size());
  Status refusal = Status::kSuccess;
  const auto acceptable = [&](size_t i) DXGKIT_REQUIRES(in_turn) {
    if ((client_list_[i].flags >> 5) != 0) refusal = Status::kInvalidParameter;  // THUNK-03
    captured_[i].write = (client_list_[i].flags & 1U) != 0;
    return is_success(refusal);
  };
  size_t next = 0;  // the first entry that was not looked at
  // One lock for all: a list has dozens of entries.
  const Status found = device_.process().handles().find_each<OpenedAllocation>(
      client_list_.size(),
      [&](size_t i) DXGKIT_NO_THREAD_SAFETY_ANALYSIS { return client_list_[i].handle; },
      [&](size_t i, OpenedAllocation* opened) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {  // called here
        for (; next <= i; ++next) {
          if (!acceptable(next)) return false;
        }
        if (opened->device.get() != &device_.memory())
          refusal = Status::kInvalidParameter;  // REND-05
        // An NT handle without write access was opened (THUNK-24).
        if (is_success(refusal) && captured_[i].write && opened->read_only)
          refusal = Status::kAccessDenied;
        // Between two holds of the lane the handle may go, and the object with it: teardown begins
        // on the lane.
        captured_[i].opened = opened;
        return is_success(refusal);
      });
  // NULL entries, which unbind slots (REND-23), and the one whose handle is none.
  for (; is_success(refusal) && next < client_list_.size(); ++next) {
    if (!acceptable(next)) break;
    if (client_list_[next].handle != 0) refusal = Status::kInvalidHandle;  // REND-04
  }
  static_cast<void>(found);  // said by the entry left over
  return refusal;
}

Status AllocationCapture::check_captured() {
  const bool explicit_residency = device_.floor().core.facts().explicit_residency;
  for (const CapturedAllocation& captured : captured_) {
    if (captured.opened == nullptr) continue;
    const Allocation* const allocation = captured.opened->allocation;
    if (captured.opened->closing) return Status::kInvalidHandle;  // another thread destroyed it
    if (allocation->stale) return Status::kGraphicsAllocationInvalid;  // DISP-17
    // Offered content may be gone at any moment: it is reclaimed before it is used.
    if (allocation->offer != vidmm::OfferPriority::kNone) return Status::kInvalidParameter;
  }
  if (!explicit_residency) return Status::kSuccess;
  for (const CapturedAllocation& captured : captured_) {
    if (captured.opened == nullptr || captured.opened->listing.count != 0) continue;
    if (captured.on_screen) continue;                   // pinned
    device_.set_error(DeviceState::kErrorOutOfMemory);  // RES-25
    return Status::kDeviceRemoved;
  }
  return Status::kSuccess;
}

void AllocationCapture::list_places() {
  WorkFloor& floor = device_.floor();
  const vidmm::MemoryManager& memory = floor.core.memory();
  entries_.assign(captured_.size(), port::AllocationListEntry{});
  entries_as_of_ = memory.plans();
  for (size_t i = 0; i < captured_.size(); ++i) {
    const OpenedAllocation* const opened = captured_[i].opened;
    if (opened == nullptr) continue;
    // The last known place; the driver may write it right away, Patch will come all the same.
    const vidmm::Placement place = memory.placement(opened->allocation->id);
    entries_[i].device_handle = opened->device_specific;
    if (place.segment != kSystemMemory && floor.core.strikes(VerifierSwitch::kNeverPrepatch)) {
      entries_[i].set(captured_[i].write, kSystemMemory, 0);
      entries_as_of_ = 0;  // no plan has that number: filled in at submission
      continue;
    }
    entries_[i].set(captured_[i].write, place.segment, place.gpu_address);
  }
}

void AllocationCapture::set(std::span<const CapturedAllocation> list) {
  captured_as_of_ = entries_as_of_ = 0;
  captured_.assign(list.begin(), list.end());
}

void AllocationCapture::fill(DmaBuffer& buffer) {
  buffer.allocation_count = static_cast<uint32_t>(captured_.size());
  if (buffer.allocations.size() <= captured_.size())
    buffer.allocations.resize(captured_.size() + 1);
  // Whoever reads behind the list finds what leads nowhere.
  buffer.allocations[captured_.size()].device_handle = reinterpret_cast<void*>(kNoAllocation);
  if (entries_as_of_ == 0 || entries_as_of_ != device_.floor().core.memory().plans()) list_places();
  std::ranges::copy(entries_, buffer.allocations.begin());
  buffer.places_as_of = entries_as_of_;
  buffer.references.resize(captured_.size());
  for (size_t i = 0; i < captured_.size(); ++i) {
    OpenedAllocation* const opened = captured_[i].opened;
    buffer.references[i] = opened;
    if (opened == nullptr) continue;
    ++opened->uses;
    if (!captured_[i].write) continue;
    buffer.written.push_back(opened);
    ++opened->writes;
  }
}

}  // namespace dxgkit::dxgk
