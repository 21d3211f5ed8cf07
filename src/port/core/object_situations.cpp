#include "port/core/object_situations.h"

#include <dispmprt.h>

#include <algorithm>

namespace dxgkit::port {
namespace {

constexpr size_t kManyContexts = 16;

}  // namespace

void ObjectSituations::process_made(bool system, Status status) {
  if (system || !is_success(status)) return;
  const SpinGuard guard(lock_);
  ++processes_;
  log_.reach(Situation::kProcessFirst);
  log_.reach(Situation::kProcessSecond, processes_ >= 2);
}

void ObjectSituations::process_gone() {
  const SpinGuard guard(lock_);
  if (processes_ != 0) --processes_;
}

void ObjectSituations::device_made(Status status) {
  log_.reach(Situation::kDeviceNoMemory, status == Status::kNoMemory);
  if (!is_success(status)) return;
  const SpinGuard guard(lock_);
  ++devices_;
  log_.reach(Situation::kDeviceSecond, devices_ >= 2);
}

void ObjectSituations::device_gone() {
  const SpinGuard guard(lock_);
  if (devices_ != 0) --devices_;
}

void ObjectSituations::context_made(void* handle, NodeOrdinal node, bool system, Status status) {
  log_.reach(Situation::kContextNoMemory, status == Status::kNoMemory);
  if (!is_success(status)) return;
  log_.reach(system ? Situation::kContextSystem : Situation::kContextFirst);
  log_.reach(Situation::kContextSecondNode, node.value != 0);
  const SpinGuard guard(lock_);
  contexts_.push_back(handle);
  log_.reach(Situation::kContextMany, contexts_.size() >= kManyContexts);
}

void ObjectSituations::context_gone(void* handle) {
  const SpinGuard guard(lock_);
  const auto at = std::ranges::find(contexts_, handle);
  if (at == contexts_.end()) return;
  log_.reach(Situation::kContextDestroyedOutOfOrder, at + 1 != contexts_.end());
  contexts_.erase(at);
}

void ObjectSituations::allocations_made(std::span<const AllocationInfo> infos, bool in_resource,
                                        Status status) {
  log_.reach(Situation::kAllocationNoMemory, status == Status::kNoMemory);
  log_.reach(Situation::kAllocationRefused, !is_success(status) && status != Status::kNoMemory);
  for (const AllocationInfo& info : infos)
    log_.reach(Situation::kAllocationNoPrivateData, info.private_data.empty());
  if (!is_success(status)) return;
  log_.reach(infos.size() == 1 ? Situation::kAllocationOne : Situation::kAllocationSeveral,
             !infos.empty());
  log_.reach(Situation::kAllocationResource, in_resource);
  for (const AllocationInfo& info : infos) {
    log_.reach(Situation::kAllocationPrimary, info.primary);
    DXGK_ALLOCATIONINFOFLAGS flags{};
    flags.Value = info.flags;
    log_.add(verifier::SituationFact::kResidencyNotification,
             flags.ExplicitResidencyNotification != 0);
  }
}

void ObjectSituations::opened(size_t count, bool create) {
  log_.reach(create ? Situation::kOpenCreator : Situation::kOpenOtherDevice);
  log_.reach(Situation::kOpenSeveral, count >= 2);
}

void ObjectSituations::escaped(size_t bytes) {
  log_.reach(Situation::kEscapeAny);
  log_.reach(Situation::kEscapeNoData, bytes == 0);
}

}  // namespace dxgkit::port
