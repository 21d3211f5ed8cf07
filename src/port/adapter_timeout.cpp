// Timeouts: what is asked of a driver whose hardware stopped, and interrupts kept back meanwhile.
#include <fmt/format.h>

#include <algorithm>

#include "port/adapter_impl.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kQueryDependentEngineGroup{"DxgkDdiQueryDependentEngineGroup", nt::kPassiveLevel,
                                             DdiClass::kScheduler};
constexpr DdiInfo kQueryEngineStatus{"DxgkDdiQueryEngineStatus", nt::kPassiveLevel,
                                     DdiClass::kScheduler};
constexpr DdiInfo kResetEngine{"DxgkDdiResetEngine", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kCollectDbgInfo{"DxgkDdiCollectDbgInfo", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kCollectDbgInfo2{"DxgkDdiCollectDbgInfo2", nt::kPassiveLevel,
                                   DdiClass::kLevelZero};
constexpr DdiInfo kResetFromTimeout{"DxgkDdiResetFromTimeout", nt::kPassiveLevel,
                                    DdiClass::kExclusive};
constexpr DdiInfo kRestartFromTimeout{"DxgkDdiRestartFromTimeout", nt::kPassiveLevel,
                                      DdiClass::kExclusive};

constexpr uint32_t kVersionWddm32 = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
constexpr size_t kDebugBytes = 64 * 1024;  // our choice
/// Behind the buffer, to see a driver write there.
constexpr size_t kDebugGuardBytes = 4096;
constexpr std::byte kDebugGuard{0xD7};

}  // namespace

bool AdapterPort::has_engine_reset() const {
  const DRIVER_INITIALIZATION_DATA& ddi = impl_->ddi;
  return impl_->version >= kVersionWin8 && ddi.DxgkDdiQueryDependentEngineGroup != nullptr &&
         ddi.DxgkDdiQueryEngineStatus != nullptr && ddi.DxgkDdiResetEngine != nullptr;
}

Result<uint64_t> AdapterPort::query_dependent_engines(NodeOrdinal node, uint32_t node_count) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (!has_engine_reset()) return Error(Status::kNotSupported);
  DXGKARG_QUERYDEPENDENTENGINEGROUP arguments{};
  arguments.NodeOrdinal = node.value;
  Status status = Status::kSuccess;
  bool completed = false;
  {
    DdiCall call(port, kQueryDependentEngineGroup, 0, static_cast<uint16_t>(node.value));
    status = call(port.ddi.DxgkDdiQueryDependentEngineGroup, port.context, &arguments);
    completed = call.completed();
  }
  if (!completed) return Error(Status::kDeviceRemoved);
  const uint64_t mask = arguments.DependentNodeOrdinalMask;
  const uint64_t self = uint64_t{1} << node.value;
  const uint64_t all = node_count >= 64 ? ~uint64_t{0} : (uint64_t{1} << node_count) - 1;
  if (status != Status::kSuccess || (mask & self) == 0 || (mask & ~all) != 0) {
    port.fatal("TDR-12", kQueryDependentEngineGroup.name, 0x119, 0x8,
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

Result<bool> AdapterPort::query_engine_status(NodeOrdinal node) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (!has_engine_reset()) return Error(Status::kNotSupported);
  DXGKARG_QUERYENGINESTATUS arguments{};
  arguments.NodeOrdinal = node.value;
  Status status = Status::kSuccess;
  {
    DdiCall call(port, kQueryEngineStatus, 0, static_cast<uint16_t>(node.value));
    status = call(port.ddi.DxgkDdiQueryEngineStatus, port.context, &arguments);
    if (!call.completed()) return Error(Status::kDeviceRemoved);
  }
  if (status == Status::kSuccess) return arguments.EngineStatus.Responsive != 0;
  return Error(
      port.violation("TDR-10", kQueryEngineStatus.name,
                     fmt::format("It returned {} for node {}.", hex(status), node.value),
                     "STATUS_SUCCESS, with Responsive 1 while the engine gets on, else 0.",
                     "Answer for every node; an engine that cannot be asked is not responsive.",
                     is_success(status) ? Status::kUnsuccessful : status));
}

Result<uint32_t> AdapterPort::reset_engine(NodeOrdinal node) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (!has_engine_reset()) return Error(Status::kNotSupported);
  DXGKARG_RESETENGINE arguments{};
  arguments.NodeOrdinal = node.value;
  Status status = Status::kSuccess;
  {
    DdiCall call(port, kResetEngine, 0, static_cast<uint16_t>(node.value));
    status = call(port.ddi.DxgkDdiResetEngine, port.context, &arguments);
    if (!call.completed()) return Error(Status::kDeviceRemoved);
  }
  if (status == Status::kSuccess) return arguments.LastAbortedFenceId;
  return Error(port.violation(
      "TDR-20", kResetEngine.name,
      fmt::format("It returned {} for node {}: the whole adapter is reset instead.", hex(status),
                  node.value),
      "STATUS_SUCCESS once the engine is idle and takes new packets.",
      "Stop the engine by whatever means it has; fail only if nothing less than a reset of the "
      "adapter helps.",
      is_success(status) ? Status::kUnsuccessful : status));
}

std::vector<std::byte> AdapterPort::collect_debug_info(uint32_t reason) {
  Impl& port = *impl_;
  if (is_dead(port)) return {};
  const bool second = port.version >= kVersionWddm32 && port.ddi.DxgkDdiCollectDbgInfo2 != nullptr;
  if (!second && port.ddi.DxgkDdiCollectDbgInfo == nullptr) return {};
  std::vector<std::byte> buffer(kDebugBytes + kDebugGuardBytes);
  std::fill(buffer.begin() + kDebugBytes, buffer.end(), kDebugGuard);
  DXGKARG_COLLECTDBGINFO_EXT extension{};
  if (second) {
    DXGKARG_COLLECTDBGINFO2 arguments{};
    arguments.Reason = reason;
    arguments.pBuffer = buffer.data();
    arguments.BufferSize = kDebugBytes;
    arguments.pExtension = &extension;
    DdiCall call(port, kCollectDbgInfo2, reason);
    (void)call(port.ddi.DxgkDdiCollectDbgInfo2, port.context, &arguments);
    if (!call.completed()) return {};
  } else {
    DXGKARG_COLLECTDBGINFO arguments{};
    arguments.Reason = reason;
    arguments.pBuffer = buffer.data();
    arguments.BufferSize = kDebugBytes;
    arguments.pExtension = &extension;
    DdiCall call(port, kCollectDbgInfo, reason);
    (void)call(port.ddi.DxgkDdiCollectDbgInfo, port.context, &arguments);
    if (!call.completed()) return {};
  }
  const auto guard = buffer.begin() + kDebugBytes;
  const auto touched =
      std::find_if(guard, buffer.end(), [](std::byte byte) { return byte != kDebugGuard; });
  if (touched != buffer.end()) {
    (void)port.violation(
        "TDR-29", second ? kCollectDbgInfo2.name : kCollectDbgInfo.name,
        fmt::format("It wrote behind its buffer, at byte {:#x}; BufferSize is {:#x}.",
                    static_cast<size_t>(touched - buffer.begin()), kDebugBytes),
        "At most BufferSize bytes are written.",
        "Bound every copy by BufferSize: it differs with the reason and the system.",
        Status::kSuccess);
  }
  buffer.resize(kDebugBytes);
  while (!buffer.empty() && buffer.back() == std::byte{0}) buffer.pop_back();
  return buffer;
}

Status AdapterPort::reset_from_timeout() {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiResetFromTimeout == nullptr) return Status::kNotSupported;
  DdiCall call(port, kResetFromTimeout);
  return call(port.ddi.DxgkDdiResetFromTimeout, port.context);
}

Status AdapterPort::restart_from_timeout() {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiRestartFromTimeout == nullptr) return Status::kNotSupported;
  port.engines_in_reset.store(0, std::memory_order_relaxed);  // they have been, with the rest
  DdiCall call(port, kRestartFromTimeout);
  return call(port.ddi.DxgkDdiRestartFromTimeout, port.context);
}

void AdapterPort::mask_engines(uint64_t nodes) {
  Impl& port = *impl_;
  port.at_device_level("interrupt mask", [&] { port.masked_nodes |= nodes; });
}

void AdapterPort::unmask_engines(uint64_t nodes, bool tell) {
  Impl& port = *impl_;
  std::vector<InterruptReport> kept;
  // What comes while the kept ones are told is kept as well: they are told in their order.
  do {
    kept.clear();
    port.at_device_level("interrupt mask", [&] {
      const auto ours = std::stable_partition(
          port.masked_reports.begin(), port.masked_reports.end(),
          [&](const InterruptReport& report) { return (nodes >> report.node & 1) == 0; });
      if (tell) kept.assign(ours, port.masked_reports.end());
      port.masked_reports.erase(ours, port.masked_reports.end());
      if (kept.empty()) port.masked_nodes &= ~nodes;
    });
    if (!kept.empty()) port.host.on_interrupts(kept);
  } while (!kept.empty());
}

void AdapterPort::flush_dpcs() { impl_->kernel.flush_dpcs(); }

}  // namespace dxgkit::port
