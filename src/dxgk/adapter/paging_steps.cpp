#include "dxgk/adapter/paging_steps.h"

#include <utility>

#include "dxgk/memory/cpu_windows.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

PagingSteps::PagingSteps(WorkFloor& floor) : floor_(floor), core_(floor.core) {}

PacketId PagingSteps::new_packet() { return floor_.submission->packets().create().id; }

void PagingSteps::queue_paging(PacketId id, const PagingSlice& slice) {
  Packet& packet = floor_.submission->packets().at(id);
  packet.kind = vidsch::PacketKind::kPaging;
  packet.buffer = slice.buffer;
  packet.driver_context = slice.driver_context;
  packet.flags.paging = true;
  packet.slice = slice.slice;
  floor_.submission->queue_paging(packet);
}

PagingTarget PagingSteps::paging_target(AllocationId id) {
  const Allocation& allocation = floor_.allocations.at(id);
  PagingTarget target;
  target.driver_allocation = allocation.driver_handle;
  target.pages = allocation.pages.numbers();
  target.cached = allocation.cached;
  floor_.context_allocations->describe(id, &target);
  if (!allocation.opened.empty()) target.device = allocation.opened.front()->device_specific;
  return target;
}

bool PagingSteps::perform(const vidmm::PagingOp& op) {
  const bool map = op.kind == vidmm::PagingOp::Kind::kMapAperture;
  if (!map && op.kind != vidmm::PagingOp::Kind::kUnmapAperture) return false;
  if (!core_.memory().segments()[op.place.segment.value - 1].agp) return false;
  if (map) {
    core_.machine().gart_map(op.place.offset_bytes,
                             floor_.allocations.at(op.allocation).pages.numbers());
  } else {
    core_.machine().gart_unmap(op.place.offset_bytes, op.size_bytes / kPageBytes);
  }
  return true;
}

void PagingSteps::before(const vidmm::PagingOp& op,
                         std::vector<std::unique_ptr<PagingWork>>* work) {
  floor_.cpu_windows->leaving(op);
  if (floor_.hw_queues != nullptr) floor_.hw_queues->suspension().before(op, work);
  floor_.context_allocations->before(op, work);
  if (floor_.gpu_va != nullptr) floor_.gpu_va->before(op, work);
}

void PagingSteps::behind(std::span<const vidmm::PagingOp> operations,
                         std::vector<std::unique_ptr<PagingWork>>* work) {
  if (floor_.gpu_va != nullptr) floor_.gpu_va->behind(operations, work);
}

std::unique_ptr<PagingWork> PagingSteps::translate(const vidmm::PagingOp& op) {
  return floor_.gpu_va != nullptr ? floor_.gpu_va->translate(op) : nullptr;
}

void PagingSteps::operation_done(const vidmm::PagingOp& op) {
  Allocation& allocation = floor_.allocations.at(op.allocation);
  if (!allocation.forgotten) core_.memory().operation_done(op);
  if (floor_.hw_queues != nullptr) floor_.hw_queues->suspension().operation_done(op);
  core_.progress();
}

}  // namespace dxgkit::dxgk
