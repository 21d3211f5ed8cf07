// Timeouts: the calls to a driver whose hardware stopped, and interrupts held back meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs of timeout detection and recovery. PASSIVE_LEVEL, each on the thread that its comment
/// says. kDeviceRemoved from a dead driver.
class TimeoutPort {
 public:
  /// The buffer of collect_debug_info; our choice.
  static constexpr uint32_t kDebugBytes = 64 * 1024;
  /// The core must outlive it.
  explicit TimeoutPort(PortCore& core) : core_(core) {}

  /// True if the driver has the entries of per-engine recovery.
  bool has_engine_reset() const;
  /// DxgkDdiQueryDependentEngineGroup: lane. Nodes below `node_count`, one bit each. A breach of
  /// TDR-12 or a failure of the driver is fatal and gives kUnsuccessful.
  Result<uint64_t> query_dependent_engines(NodeOrdinal node, uint32_t node_count);
  /// DxgkDdiQueryEngineStatus: lane. Says whether the engine is responsive. A failure is reported
  /// (TDR-10) and returned.
  Result<bool> query_engine_status(NodeOrdinal node);
  /// DxgkDdiResetEngine: lane. Returns the driver's LastAbortedFenceId. A failure is reported
  /// (TDR-20) and returned.
  Result<uint32_t> reset_engine(NodeOrdinal node);
  /// DxgkDdiCollectDbgInfo, or its successor if the driver has it (TDR-29): any thread. Returns the
  /// driver's data with trailing zeros cut off; empty without the entry.
  std::vector<std::byte> collect_debug_info(uint32_t reason, uint32_t bytes = kDebugBytes);
  /// DxgkDdiResetFromTimeout: lane, inside level two. The driver's own status (TDR-23).
  Status reset_from_timeout();
  /// DxgkDdiRestartFromTimeout: lane, inside level two. Engines in reset count as reset afterwards.
  Status restart_from_timeout();
  /// From now on DMA interrupts of these nodes are held back; one step at interrupt level (TDR-09).
  void mask_engines(uint64_t nodes);
  /// Ends that. Interrupts that were held back are reported now, or dropped (INT-21).
  void unmask_engines(uint64_t nodes, bool tell);
  /// Returns when no DPC is queued or runs. Not from a DPC.
  void flush_dpcs();

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
