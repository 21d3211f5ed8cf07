#include "tools/dxgkit/verify/mutator.h"

#include <fmt/format.h>

#include "nt/kernel.h"
#include "nt/pool.h"

namespace dxgkit::tool::verify {
namespace {

constexpr MayFail kMayFail[] = {
    {"DxgkCbGetDeviceInformation", {Status::kUnsuccessful, Status::kInsufficientResources}},
    {"DxgkCbMapMemory", {Status::kInsufficientResources, Status::kUnsuccessful}},
    {"DxgkCbReadDeviceSpace", {Status::kUnsuccessful, Status::kDeviceRemoved}},
    {"DxgkCbWriteDeviceSpace", {Status::kUnsuccessful, Status::kDeviceRemoved}},
    {"DxgkCbEvalAcpiMethod", {Status::kUnsuccessful, Status::kInsufficientResources}},
    {"DxgkCbSynchronizeExecution", {Status::kUnsuccessful, Status::kSuccess}},
    {"DxgkCbAcquirePostDisplayOwnership", {Status::kUnsuccessful, Status::kSuccess}},
    {"DxgkCbAcquirePostDisplayOwnership2", {Status::kUnsuccessful, Status::kSuccess}},
    {"DxgkCbExcludeAdapterAccess", {Status::kUnsuccessful, Status::kInsufficientResources}},
    {"DxgkCbIsDevicePresent", {Status::kUnsuccessful, Status::kSuccess}},
    {"DxgkCbIndicateChildStatus", {Status::kUnsuccessful, Status::kInvalidParameter}},
    {"DxgkCbQueryMonitorInterface", {Status::kNotSupported, Status::kSuccess}},
    {"DxgkCbCreateContextAllocation", {Status::kNoMemory, Status::kInvalidParameter}},
    {"DxgkCbReserveGpuVirtualAddressRange", {Status::kNoMemory, Status::kInvalidParameter}},
    {"DxgkCbQueryServices", {Status::kNotSupported, Status::kSuccess}},
    {"DxgkCbIsFeatureEnabled", {Status::kInvalidParameter, Status::kSuccess}},
    {"DxgkCbQueryFeatureSupport", {Status::kInvalidParameter, Status::kSuccess}},
};

}  // namespace

std::span<const MayFail> callbacks_that_may_fail() { return kMayFail; }

std::string Mutation::text() const {
  switch (kind) {
    case Kind::kNothing:
      return "nothing";
    case Kind::kCallback:
      return fmt::format("{}, call {}: {}", name, nth, status_name(status));
    case Kind::kAllocation:
      return fmt::format("{}, call {}: no memory", name, nth);
    case Kind::kLostInterrupts:
      return fmt::format("{} % of the interrupts are lost", nth / 10'000);
    case Kind::kNoResources:
      return name;
  }
  return {};
}

void Mutator::attach(World& world) {
  struck_ = struck_ || mutation_.kind == Mutation::Kind::kNoResources;
  identity_ = world.function().identity();
  bus::FaultInjection* const faults = world.device().faults();
  device_fails_ = faults != nullptr;
  if (mutation_.kind != Mutation::Kind::kLostInterrupts || faults == nullptr) return;
  const std::vector<bus::EngineFaults> engines(
      faults->engine_count(), bus::EngineFaults{.lose_interrupt_per_million = mutation_.nth});
  faults->set_faults(engines);
  struck_ = true;
}

bool Mutator::strikes(Mutation::Kind kind, std::string_view name,
                      std::map<std::string, uint32_t, std::less<>>* calls) {
  const uint32_t nth = ++calls->try_emplace(std::string(name)).first->second;
  if (mutation_.kind != kind || mutation_.name != name || mutation_.nth != nth) return false;
  return struck_ = true;
}

std::optional<Status> Mutator::before_callback(std::string_view callback) {
  // It may fail only because the interrupt is not connected yet: during the start.
  const nt::CallFrame* const frame = nt::CallFrame::current_or_null();
  const bool in_start = frame != nullptr && std::string_view(frame->name()) == "DxgkDdiStartDevice";
  if (callback == "DxgkCbSynchronizeExecution" && !in_start) return std::nullopt;
  if (!strikes(Mutation::Kind::kCallback, callback, &callbacks_)) return std::nullopt;
  return mutation_.status;
}

bool Mutator::allocation_fails(std::string_view routine) {
  return strikes(Mutation::Kind::kAllocation, routine, &allocations_);
}

}  // namespace dxgkit::tool::verify
