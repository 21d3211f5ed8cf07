#include "port/ddi/timeouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/unwritten.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kQueryDependentEngineGroup{"DxgkDdiQueryDependentEngineGroup", nt::kPassiveLevel,
                                             DdiClass::kScheduler,
                                             verifier::Situation::kTimeoutDependentEngines};
constexpr DdiInfo kQueryEngineStatus{"DxgkDdiQueryEngineStatus", nt::kPassiveLevel,
                                     DdiClass::kScheduler, verifier::Situation::kTimeoutStatus};
constexpr DdiInfo kResetEngine{"DxgkDdiResetEngine", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kCollectDbgInfo{"DxgkDdiCollectDbgInfo", nt::kPassiveLevel, DdiClass::kLevelZero,
                                  verifier::Situation::kTimeoutDebugInfo};
constexpr DdiInfo kCollectDbgInfo2{"DxgkDdiCollectDbgInfo2", nt::kPassiveLevel,
                                   DdiClass::kLevelZero, verifier::Situation::kTimeoutDebugInfo};
constexpr DdiInfo kResetFromTimeout{"DxgkDdiResetFromTimeout", nt::kPassiveLevel,
                                    DdiClass::kExclusive};
constexpr DdiInfo kRestartFromTimeout{"DxgkDdiRestartFromTimeout", nt::kPassiveLevel,
                                      DdiClass::kExclusive, verifier::Situation::kTimeoutRestart};
/// Behind the buffer, to see a driver write there.
constexpr size_t kDebugGuardBytes = 4096;

constexpr std::byte kDebugGuard{0xD7};

}  // namespace

bool TimeoutPort::has_engine_reset() const {
  const DRIVER_INITIALIZATION_DATA& ddi = core_.ddi;
  return core_.version >= kInterfaceWin8 && ddi.DxgkDdiQueryDependentEngineGroup != nullptr &&
         ddi.DxgkDdiQueryEngineStatus != nullptr && ddi.DxgkDdiResetEngine != nullptr;
}

Result<uint64_t> TimeoutPort::query_dependent_engines(NodeOrdinal node, uint32_t node_count) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (!has_engine_reset()) return Error(Status::kNotSupported);
  DXGKARG_QUERYDEPENDENTENGINEGROUP arguments{};
  arguments.NodeOrdinal = node.value;
  fill_output(core_, &arguments.DependentNodeOrdinalMask);
  Status status = Status::kSuccess;
  bool completed = false;
  {
    DdiCall call(core_, kQueryDependentEngineGroup, 0, static_cast<uint16_t>(node.value));
    status = call(core_.ddi.DxgkDdiQueryDependentEngineGroup, core_.context, &arguments);
    completed = call.completed();
  }
  if (!completed) return Error(Status::kDeviceRemoved);
  if (status == Status::kSuccess) {
    report_unwritten(core_, kQueryDependentEngineGroup.name, "DXGKARG_QUERYDEPENDENTENGINEGROUP",
                     "DependentNodeOrdinalMask", &arguments.DependentNodeOrdinalMask);
  }
  const uint64_t mask = arguments.DependentNodeOrdinalMask;
  const uint64_t self = uint64_t{1} << node.value;
  const uint64_t all = node_count >= 64 ? ~uint64_t{0} : (uint64_t{1} << node_count) - 1;
  if (status != Status::kSuccess || (mask & self) == 0 || (mask & ~all) != 0) {
    core_.fatal("TDR-12", kQueryDependentEngineGroup.name, 0x119, 0x8,
                status != Status::kSuccess
                    ? fmt::format("It returned {} for node {}.", hex(status), node.value)
                    : fmt::format("DependentNodeOrdinalMask is {:#x} for node {} of {}.", mask,
                                  node.value, node_count),
                fmt::format("STATUS_SUCCESS, and a mask of nodes below {} that contains the node "
                            "itself ({:#x}).",
                            node_count, self),
                "Set the bit of NodeOrdinal, and those of the nodes a reset of it takes along.");
    return Error(Status::kUnsuccessful);
  }
  return mask;
}

Result<bool> TimeoutPort::query_engine_status(NodeOrdinal node) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (!has_engine_reset()) return Error(Status::kNotSupported);
  DXGKARG_QUERYENGINESTATUS arguments{};
  arguments.NodeOrdinal = node.value;
  fill_output(core_, &arguments.EngineStatus);
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kQueryEngineStatus, 0, static_cast<uint16_t>(node.value));
    status = call(core_.ddi.DxgkDdiQueryEngineStatus, core_.context, &arguments);
    if (!call.completed()) return Error(Status::kDeviceRemoved);
  }
  if (status == Status::kSuccess) return arguments.EngineStatus.Responsive != 0;
  return Error(
      core_.violation("TDR-10", kQueryEngineStatus.name,
                      fmt::format("It returned {} for node {}.", hex(status), node.value),
                      "STATUS_SUCCESS, with Responsive 1 while the engine gets on, else 0.",
                      "Answer for every node; an engine that cannot be asked is not responsive.",
                      is_success(status) ? Status::kUnsuccessful : status));
}

Result<uint32_t> TimeoutPort::reset_engine(NodeOrdinal node) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (!has_engine_reset()) return Error(Status::kNotSupported);
  DXGKARG_RESETENGINE arguments{};
  arguments.NodeOrdinal = node.value;
  fill_output(core_, &arguments.LastAbortedFenceId);
  Status status = Status::kSuccess;
  {
    if (core_.situations != nullptr) [[unlikely]]
      core_.situations->work.reset_engine(node);
    DdiCall call(core_, kResetEngine, 0, static_cast<uint16_t>(node.value));
    status = call(core_.ddi.DxgkDdiResetEngine, core_.context, &arguments);
    if (!call.completed()) return Error(Status::kDeviceRemoved);
  }
  if (status == Status::kSuccess) {
    report_unwritten(core_, kResetEngine.name, "DXGKARG_RESETENGINE", "LastAbortedFenceId",
                     &arguments.LastAbortedFenceId);
    return arguments.LastAbortedFenceId;
  }
  return Error(core_.violation(
      "TDR-20", kResetEngine.name,
      fmt::format("It returned {} for node {}: the whole adapter is reset instead.", hex(status),
                  node.value),
      "STATUS_SUCCESS once the engine is idle and takes new packets.",
      "Stop the engine by whatever means it has; fail only if nothing less than a reset of the "
      "adapter helps.",
      is_success(status) ? Status::kUnsuccessful : status));
}

std::vector<std::byte> TimeoutPort::collect_debug_info(uint32_t reason, uint32_t bytes) {
  if (is_dead(core_)) return {};
  const bool second =
      core_.version >= kInterfaceWddm32 && core_.ddi.DxgkDdiCollectDbgInfo2 != nullptr;
  if (!second && core_.ddi.DxgkDdiCollectDbgInfo == nullptr) return {};
  std::vector<std::byte> buffer(bytes + kDebugGuardBytes);
  std::fill(buffer.begin() + bytes, buffer.end(), kDebugGuard);
  DXGKARG_COLLECTDBGINFO_EXT extension{};
  if (second) {
    DXGKARG_COLLECTDBGINFO2 arguments{};
    arguments.Reason = reason;
    arguments.pBuffer = buffer.data();
    arguments.BufferSize = bytes;
    arguments.pExtension = &extension;
    DdiCall call(core_, kCollectDbgInfo2, reason);
    (void)call(core_.ddi.DxgkDdiCollectDbgInfo2, core_.context, &arguments);
    if (!call.completed()) return {};
  } else {
    DXGKARG_COLLECTDBGINFO arguments{};
    arguments.Reason = reason;
    arguments.pBuffer = buffer.data();
    arguments.BufferSize = bytes;
    arguments.pExtension = &extension;
    DdiCall call(core_, kCollectDbgInfo, reason);
    (void)call(core_.ddi.DxgkDdiCollectDbgInfo, core_.context, &arguments);
    if (!call.completed()) return {};
  }
  const auto guard = buffer.begin() + bytes;
  const auto touched =
      std::find_if(guard, buffer.end(), [](std::byte byte) { return byte != kDebugGuard; });
  if (touched != buffer.end()) {
    (void)core_.violation(
        "TDR-29", second ? kCollectDbgInfo2.name : kCollectDbgInfo.name,
        fmt::format("It wrote behind its buffer, at byte {:#x}; BufferSize is {:#x}.",
                    static_cast<size_t>(touched - buffer.begin()), bytes),
        "At most BufferSize bytes are written.",
        "Bound every copy by BufferSize: it differs with the reason and the system.",
        Status::kSuccess);
  }
  buffer.resize(bytes);
  while (!buffer.empty() && buffer.back() == std::byte{0}) buffer.pop_back();
  return buffer;
}

Status TimeoutPort::reset_from_timeout() {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiResetFromTimeout == nullptr) return Status::kNotSupported;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->work.reset_adapter();
  DdiCall call(core_, kResetFromTimeout);
  return call(core_.ddi.DxgkDdiResetFromTimeout, core_.context);
}

Status TimeoutPort::restart_from_timeout() {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiRestartFromTimeout == nullptr) return Status::kNotSupported;
  core_.interrupts.forget_engine_resets();  // they have been, with the rest
  DdiCall call(core_, kRestartFromTimeout);
  return call(core_.ddi.DxgkDdiRestartFromTimeout, core_.context);
}

void TimeoutPort::mask_engines(uint64_t nodes) { core_.interrupts.mask(nodes); }

void TimeoutPort::unmask_engines(uint64_t nodes, bool tell) {
  core_.interrupts.unmask(nodes, tell);
}

void TimeoutPort::flush_dpcs() { core_.kernel.flush_dpcs(); }

}  // namespace dxgkit::port
