// What a driver says of itself, and what the kernel has noticed of it, for tools.
#pragma once

#include "base/ids.h"
#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/power/power_target.h"
#include "dxgk/system.h"
#include "port/gpu_va_types.h"
#include "port/types.h"

namespace dxgkit::dxgk {

class Adapter;

/// Of one running adapter that is not display-only. Any thread but the lane.
class Inspection {
 public:
  /// kInvalidParameter: no such adapter is running; kNotSupported: it is display-only.
  static Result<Inspection> of(System& system, Luid luid);
  ~Inspection();
  Inspection(Inspection&&) noexcept;

  const port::SegmentsInfo& segments() const;
  /// Asks the driver. kNotSupported: it has no such answer.
  Result<port::NodeMetadata> node_metadata(NodeOrdinal node) const;
  Result<port::GpuMmuCaps> gpu_mmu_caps() const;
  /// What a segment keeps of its content in this state, in bytes from its start, as its flags say.
  uint64_t kept_bytes(SegmentId segment, PowerTarget target) const;
  /// How often a completion was reported only when a node was asked for its fence, TdrDelay late.
  uint64_t late_reports() const;

 private:
  explicit Inspection(Ref<Adapter> adapter);
  Ref<Adapter> adapter_;
};

}  // namespace dxgkit::dxgk
