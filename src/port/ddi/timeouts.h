// Timeouts: what is asked of a driver whose hardware stopped, and interrupts kept back meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs of timeout detection and recovery. PASSIVE_LEVEL, each on the thread it says.
/// kDeviceRemoved from a dead driver.
class TimeoutPort {
 public:
  /// The core outlives it.
  explicit TimeoutPort(PortCore& core) : core_(core) {}

  /// The entries of per-engine recovery are there.
  bool has_engine_reset() const;
  /// DxgkDdiQueryDependentEngineGroup: lane. Nodes below `node_count`, one bit each. TDR-12 broken
  /// was fatal, as was the driver's failure: kUnsuccessful then.
  Result<uint64_t> query_dependent_engines(NodeOrdinal node, uint32_t node_count);
  /// DxgkDdiQueryEngineStatus: lane. Whether the engine is responsive. A failure was reported
  /// (TDR-10) and passes through.
  Result<bool> query_engine_status(NodeOrdinal node);
  /// DxgkDdiResetEngine: lane. LastAbortedFenceId, as the driver says. A failure was reported
  /// (TDR-20) and passes through.
  Result<uint32_t> reset_engine(NodeOrdinal node);
  /// DxgkDdiCollectDbgInfo, or its successor where the driver has it (TDR-29): any thread. What the
  /// driver left in the buffer, trailing zeros cut off; empty without the entry.
  std::vector<std::byte> collect_debug_info(uint32_t reason);
  /// DxgkDdiResetFromTimeout: lane, inside level two. The driver's own status (TDR-23).
  Status reset_from_timeout();
  /// DxgkDdiRestartFromTimeout: lane, inside level two. Engines in reset have been reset with the
  /// rest.
  Status restart_from_timeout();
  /// From now on DMA interrupts of these nodes are kept back; one step at interrupt level (TDR-09).
  void mask_engines(uint64_t nodes);
  /// They come again. Those kept back are told now, or forgotten (INT-21).
  void unmask_engines(uint64_t nodes, bool tell);
  /// Returns when no DPC is queued or runs. Not from a DPC.
  void flush_dpcs();

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
