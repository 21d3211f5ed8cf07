#include "dxgk/va/client_addresses.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/memory/paging_queue.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/gpu_va_trace.h"
#include "dxgk/va/mapping_undo.h"
#include "dxgk/va/second_space.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

void ClientAddresses::enqueue(PagingQueue* queue, Work work, uint64_t* fence) {
  if (queue == nullptr) {
    floor_.paging->enqueue_work(std::move(work), nullptr);
    floor_.core.pump();
    return;
  }
  // Without anything to write the entries are as they are to be, but perhaps only once what is
  // queued has run: of an allocation that leaves, the hardware still has the old ones.
  if (work.empty() && floor_.paging->idle()) return;
  const uint64_t value = queue->begin();
  // Done at once, or later.
  const auto done = std::make_shared<bool>(false);
  floor_.paging->enqueue_work(
      std::move(work), [done, value, queue = Ref<PagingQueue>(queue)]() DXGKIT_REQUIRES(on_lane) {
        *done = true;
        queue->finish(value);
      });
  floor_.core.pump();
  if (!*done) *fence = value;
}

GpuVaOutcome ClientAddresses::map(PagingQueue& queue, gpuva::MapRequest request,
                                  const Ref<OpenedAllocation>& opened) {
  GpuVaOutcome outcome;
  const bool asked = floor_.core.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    outcome.status = [&]() DXGKIT_REQUIRES(on_lane) {
      if (queue.device_lost()) return Status::kDeviceRemoved;
      const std::shared_ptr<GpuSpace> space = floor_.spaces->of(queue.process().number());
      if (opened) {
        if (opened->closing) return Status::kInvalidParameter;
        request.allocation = opened->allocation->id;
        request.allocation_pages = opened->allocation->size_bytes / kPageBytes;
      }
      if (request.protection.zero && !can_map_zero()) return Status::kNotSupported;  // VA-22
      floor_.spaces->note_protection(request.driver_protection);
      request.alignment_bytes = wished_alignment(request);
      const Result<gpuva::MapOperation> claimed =
          space->addresses.claim(request, ++space->sequence);
      if (!claimed.has_value()) return claimed.error();
      Work work;
      const Status status = take_effect(space, *claimed, &work);
      if (!is_success(status)) return status;
      outcome.address = claimed->mapping.span.address();
      enqueue(&queue, std::move(work), &outcome.fence);
      return Status::kSuccess;
    }();
    return true;
  });
  if (!asked) outcome.status = Status::kDeviceRemoved;
  return outcome;
}

uint64_t ClientAddresses::wished_alignment(const gpuva::MapRequest& request) const {
  if (request.allocation == gpuva::kNoAllocation) return kPageBytes;
  const vidmm::AllocationDesc desc = floor_.core.memory().description(request.allocation);
  constexpr uint64_t k64 = 16 * kPageBytes;
  return floor_.spaces->geometry().leaf_table_bytes_64k != 0 && desc.alignment_bytes % k64 == 0
             ? k64
             : kPageBytes;
}

bool ClientAddresses::can_map_zero() const {
  return floor_.spaces->geometry().zero || floor_.spaces->geometry().read_only;
}

Status ClientAddresses::take_effect(const std::shared_ptr<GpuSpace>& space,
                                    const gpuva::MapOperation& operation, Work* work) {
  const gpuva::PageSpan span = operation.mapping.span;
  const MappingUndo undo(space->addresses, {span});
  const auto gone =
      UnmappedRanges::going(space->addresses, span, "as D3DKMTMapGpuVirtualAddress took its place",
                            floor_.core.runtime());
  gpuva::PageSpans changed;
  space->addresses.apply(operation, &changed);
  const Status status = floor_.planner->replan(space, changed, work);
  if (is_success(status)) {
    space->unmapped.note(gone);
    gpu_va_trace::changed(*space, changed);
    return status;
  }
  if (operation.claimed) {
    DXGKIT_CHECK(is_success(
        space->addresses.free(span.address(), span.size_bytes(), ++space->sequence, nullptr)));
  } else {
    undo.put_back(space->addresses, operation.sequence);
  }
  return status;
}

GpuVaOutcome ClientAddresses::reserve(Process& process, PagingQueue* queue,
                                      const gpuva::ReserveRequest& request) {
  GpuVaOutcome outcome;
  const bool asked = floor_.core.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    outcome.status = [&]() DXGKIT_REQUIRES(on_lane) {
      const std::shared_ptr<GpuSpace> space = floor_.spaces->of(process.number());
      if (!space) return Status::kInvalidParameter;  // no device of the process here
      if (request.zero && !can_map_zero()) return Status::kNotSupported;
      const Result<gpuva::MapOperation> reserved =
          space->addresses.reserve(request, ++space->sequence);
      if (!reserved.has_value()) return reserved.error();
      Work work;
      if (const Status status = ensure_second(*space, &work); !is_success(status)) {
        DXGKIT_CHECK(is_success(space->addresses.free(reserved->mapping.span.address(),
                                                      request.size, ++space->sequence, nullptr)));
        return status;
      }
      if (gpuva::AddressSpace::needs_apply(*reserved))
        if (const Status status = take_effect(space, *reserved, &work); !is_success(status)) {
          floor_.paging->enqueue_work(std::move(work), nullptr);  // the second space stays
          return status;
        }
      outcome.address = reserved->mapping.span.address();
      trace::emit(trace::EventKind::kGpuVaReserved, space->process, outcome.address, request.size,
                  request.zero ? 1 : 0);
      enqueue(queue, std::move(work), &outcome.fence);
      return Status::kSuccess;
    }();
    return true;
  });
  if (!asked) outcome.status = Status::kDeviceRemoved;
  return outcome;
}

Status ClientAddresses::free(Process& process, uint64_t base, uint64_t size) {
  Status status = Status::kSuccess;
  bool done = false;
  bool asked = floor_.core.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    const std::shared_ptr<GpuSpace> space = floor_.spaces->of(process.number());
    status = Status::kInvalidParameter;
    if (!space) return true;
    gpuva::PageSpans changed;
    const auto gone =
        UnmappedRanges::going(space->addresses, {base / kPageBytes, size / kPageBytes},
                              "by D3DKMTFreeGpuVirtualAddress", floor_.core.runtime());
    status = space->addresses.free(base, size, ++space->sequence, &changed);
    if (!is_success(status)) return true;
    space->unmapped.note(gone);
    trace::emit(trace::EventKind::kGpuVaFreed, space->process, base, size);
    gpu_va_trace::changed(*space, changed);
    Work work;
    floor_.planner->replan_or_hide(space, changed, &work);
    floor_.paging->enqueue_work(std::move(work), [&done] { done = true; });
    floor_.core.pump();
    return true;
  });
  if (asked && is_success(status)) asked = floor_.core.block_until([&] { return done; });
  return asked ? status : Status::kDeviceRemoved;
}

Status ClientAddresses::ensure_second(const GpuSpace& space, Work* work) {
  if (floor_.spaces->geometry().update_mode == gpuva::UpdateMode::kCpuVirtual)
    return Status::kSuccess;
  if (floor_.spaces->second_of(space.process)) return Status::kSuccess;
  const auto second =
      std::make_shared<SecondSpace>(SecondSpace::Parts{.planner = *floor_.planner,
                                                       .tables = *floor_.tables,
                                                       .paging = *floor_.paging,
                                                       .stand_ins = *floor_.stand_ins},
                                    space);
  DXGKIT_RETURN_IF_FAILED(second->build(work));
  floor_.spaces->add_second(space.process, second);
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
