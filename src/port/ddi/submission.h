// Patching, submission, preemption, cancellation: the hot path of the lane.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs of the GPU scheduler class (IRQL-06): on the lane only, at the level that each comment
/// says; query_current_fence: level zero. kDeviceRemoved from a dead driver. If the driver fails
/// where it may not (PATCH-31, SUB-27, PREEMPT-11, CANCEL-18), that is fatal; a wrong success code
/// gives kUnsuccessful.
class SubmissionPort {
 public:
  /// The core must outlive it.
  explicit SubmissionPort(PortCore& core) : core_(core) {}

  bool has_patch() const;
  bool has_cancel() const;
  /// DxgkDdiPatch. With reference checks on, the driver's patches are compared (PATCH-13,
  /// PATCH-27). Lane.
  Status patch(const PatchArgs& args);
  /// DxgkDdiSubmitCommand: lane, DISPATCH_LEVEL.
  Status submit(const SubmitArgs& args);
  /// DxgkDdiSubmitCommandVirtual: lane, DISPATCH_LEVEL. kInvalidParameter is the driver's judgement
  /// of the buffer (SUB-28): the packet did not start, and SUB-29 says what follows. Any other
  /// failure is fatal and gives kUnsuccessful.
  Status submit_virtual(const SubmitVirtualArgs& args);
  /// DxgkDdiPreemptCommand: lane, DISPATCH_LEVEL, or PASSIVE_LEVEL with LowIrqlPreemptCommand.
  /// `idle`: all work of the node has been reported, so the driver must report the preemption
  /// before it returns (PREEMPT-07).
  Status preempt(NodeOrdinal node, SubmissionFenceId fence, bool idle = false);
  /// DxgkDdiCancelCommand. Lane.
  Status cancel(const PatchArgs& args);
  /// The same for a context with virtual addressing, which has no DMA buffer of ours and no lists
  /// (CANCEL-17). Lane.
  Status cancel(const SubmitVirtualArgs& args);
  /// DxgkDdiQueryCurrentFence: any thread.
  Result<uint32_t> query_current_fence(NodeOrdinal node);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
