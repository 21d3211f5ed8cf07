#include "dxgk/inspection.h"

#include <algorithm>

#include "dxgk/adapter/adapter.h"
#include "dxgk/power/power.h"
#include "dxgk/system_impl.h"
#include "dxgk/work/timeout.h"

namespace dxgkit::dxgk {

Inspection::Inspection(Ref<Adapter> adapter) : adapter_(std::move(adapter)) {}
Inspection::~Inspection() = default;
Inspection::Inspection(Inspection&&) noexcept = default;

Result<Inspection> Inspection::of(System& system, Luid luid) {
  Ref<Adapter> adapter = system.impl().find(luid);
  if (!adapter) return Error(Status::kInvalidParameter);
  if (!adapter->floor().core.has_memory()) return Error(Status::kNotSupported);
  return Inspection(std::move(adapter));
}

const port::SegmentsInfo& Inspection::segments() const {
  return adapter_->floor().core.segment_infos();
}

Result<port::NodeMetadata> Inspection::node_metadata(NodeOrdinal node) const {
  port::NodeMetadata metadata;
  const Status status = adapter_->floor().core.port().caps().get_node_metadata(node, &metadata);
  if (status != Status::kSuccess) return Error(status);
  return metadata;
}

Result<port::GpuMmuCaps> Inspection::gpu_mmu_caps() const {
  DisplayFloor& floor = adapter_->floor();
  if (floor.gpu_va == nullptr) return Error(Status::kNotSupported);
  return floor.core.port().gpu_va().query_gpu_mmu();
}

uint64_t Inspection::kept_bytes(SegmentId segment, PowerTarget target) const {
  const port::SegmentInfo& info = segments().segments[segment.value - 1];
  const bool off = adapter_->floor().core.caps().disable_self_refresh_vram_in_s3;
  return std::min(info.size, dxgk::kept_bytes(info, target, off));
}

uint64_t Inspection::late_reports() const {
  DisplayFloor& floor = adapter_->floor();
  uint64_t count = 0;
  floor.core.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { count = floor.timeout->counts().late_reports; });
  return count;
}

}  // namespace dxgkit::dxgk
