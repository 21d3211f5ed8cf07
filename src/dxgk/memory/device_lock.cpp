// CPU access to allocations: Lock2, and the old Lock with renaming.
#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/adapter/interface_versions.h"
#include "dxgk/device.h"
#include "dxgk/memory/residency.h"
#include "dxgk/process.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
Result<void*> Device::lock(Handle allocation_handle) {
  if (lost()) return Error(Status::kDeviceRemoved);
  DXGKIT_ASSIGN_OR_RETURN(const Ref<OpenedAllocation> opened,
                          process_.handles().find<OpenedAllocation>(allocation_handle));
  if (opened->device.get() != this) return Error(Status::kInvalidParameter);
  Status status = Status::kSuccess;
  void* address = nullptr;
  // Content on the move has no place a CPU could look at: wait until it has arrived.
  const bool settled = adapter_.block_until_awake([&] {
    if (opened->closing || lost()) {
      status = opened->closing ? Status::kInvalidParameter : Status::kDeviceRemoved;
      return true;
    }
    if (opened->allocation->offer != vidmm::OfferPriority::kNone) {  // ALLOC-36
      status = Status::kInvalidParameter;
      return true;
    }
    return try_lock(*opened, LockRequest{}, &status, &address);
  });
  if (!settled) return Error(Status::kDeviceRemoved);
  if (!is_success(status)) return Error(status);
  return address;
}

Result<void*> Device::lock_legacy(LockRequest& request) {
  if (lost()) return Error(Status::kDeviceRemoved);
  DXGKIT_ASSIGN_OR_RETURN(const Ref<OpenedAllocation> opened,
                          process_.handles().find<OpenedAllocation>(request.allocation));
  if (opened->device.get() != this) return Error(Status::kInvalidParameter);
  Status status = Status::kSuccess;
  void* address = nullptr;
  const bool settled = adapter_.block_until_awake([&] {
    status = opened->closing ? Status::kInvalidParameter
             : lost()        ? Status::kDeviceRemoved
                             : Status::kSuccess;
    return !is_success(status) || try_lock_legacy(*opened, request, &status, &address);
  });
  if (!settled) return Error(Status::kDeviceRemoved);
  if (!is_success(status)) return Error(status);
  return address;
}

bool Device::try_lock_legacy(OpenedAllocation& opened, LockRequest& request, Status* status,
                             void** address) {
  const Allocation& allocation = *opened.allocation;
  const vidmm::AllocationDesc& desc = adapter_.memory().description(allocation.id);
  const OpenedAllocation& current = opened.current_instance();
  const bool others = allocation.shared != nullptr && !allocation.primary &&
                      allocation.shared->creator != process_.number();
  const auto refuse = [&](Status why) {
    *status = why;
    return true;
  };
  if (!allocation.cpu_visible || others) return refuse(Status::kInvalidParameter);  // ALLOC-34
  if (allocation.offer != vidmm::OfferPriority::kNone) return refuse(Status::kInvalidParameter);
  if (&opened != &current) return refuse(Status::kInvalidParameter);  // retired (ALLOC-36)
  const auto outside = [&](uint32_t page) { return page >= allocation.size_bytes / kPageBytes; };
  if (std::ranges::any_of(request.pages, outside)) return refuse(Status::kInvalidParameter);
  // Without synchronisation it must be where reading and writing at once does no harm.
  const bool renames = request.discard && !desc.pinned && !allocation.primary &&
                       allocation.shared == nullptr && allocation.user_memory == nullptr &&
                       opened.locks == 0 &&
                       // Nobody would list the other instance as resident.
                       !adapter_.explicit_residency();
  const bool ignores = request.ignore_sync && !renames;
  if (ignores && !reaches_aperture(allocation)) return refuse(Status::kInvalidParameter);
  if (request.acquire_aperture) {
    // A range belongs to one lock, and to memory that lies in a memory segment at times.
    // From WDDM 2.0 on drivers have no such ranges.
    if (adapter_.interface_version() >= kInterfaceWddm20) return refuse(Status::kInvalidParameter);
    if (opened.locks != 0 || !reaches_memory(allocation)) return refuse(Status::kInvalidParameter);
  }
  if (opened.cpu_if_any() != nullptr && opened.cpu_if_any()->swizzled)
    return refuse(Status::kInvalidParameter);  // THUNK-26
  OpenedAllocation* target = &opened;
  if (renames) {
    target = next_instance(opened);
    if (target == nullptr) return false;  // ALLOC-37: DonotWait is void with Discard
  } else if (!ignores && opened.locks == 0 && !adapter_.idle(allocation)) {
    if (request.do_not_wait) return refuse(Status::kGraphicsAllocationBusy);  // ALLOC-38
    return false;
  }
  if (!try_lock(*target, request, status, address)) {
    if (request.do_not_wait && !renames) return refuse(Status::kGraphicsAllocationBusy);
    return false;
  }
  if (!is_success(*status)) return true;
  // Not before it is locked: whoever waits for the instance still names the one in use.
  if (renames) target->make_current_instance();
  request.allocation = target->handle;
  return true;
}

OpenedAllocation* Device::next_instance(OpenedAllocation& current) {
  OpenedAllocation& first = current.first_instance();
  if (adapter_.idle(*current.allocation)) return &current;
  CpuAccess& list = first.cpu();
  const size_t count = 1 + list.instances.size();
  const auto at = [&](size_t index) {
    return index == 0 ? &first : list.instances[index - 1].get();
  };
  for (size_t step = 1; step < count; ++step) {
    const size_t index = (list.current + step) % count;
    if (at(index)->locks == 0 && adapter_.idle(*at(index)->allocation)) return at(index);
  }
  const uint32_t most = first.allocation->maximum_renaming;
  if (most != 0 && count >= most) return nullptr;
  Ref<OpenedAllocation> made = make_instance(first);
  if (!made) return nullptr;  // no memory for more: one of those there are becomes idle
  list.instances.push_back(made);
  return made.get();
}

Ref<OpenedAllocation> Device::make_instance(OpenedAllocation& first) {
  const Allocation& model = *first.allocation;
  Ref<OpenedAllocation> made = make_object<OpenedAllocation>();
  made->device = first.device;
  made->resource = first.resource;
  made->driver_allocation = first.driver_allocation;
  made->device_specific = first.device_specific;
  made->cpu().original = &first;
  Result<std::vector<bus::PageFrame>> pages =
      adapter_.machine().allocate_pages(model.size_bytes / kPageBytes);
  if (!pages.has_value()) return {};
  const Result<Handle> inserted = process_.handles().insert(made);
  if (!inserted.has_value()) {
    adapter_.machine().free_pages(*pages);
    return {};
  }
  made->handle = *inserted;
  Allocation& allocation = adapter_.allocations().create();
  allocation.driver_handle = model.driver_handle;
  allocation.size_bytes = model.size_bytes;
  allocation.info_flags = model.info_flags;
  allocation.cpu_visible = model.cpu_visible;
  allocation.cached = model.cached;
  allocation.instance = true;
  allocation.pages = FrameList(*pages);
  allocation.opened.push_back(made.get());
  // The same description was accepted for the first one.
  DXGKIT_CHECK(
      is_success(adapter_.memory().create(allocation.id, adapter_.memory().description(model.id))));
  made->allocation = &allocation;
  trace::emit(trace::EventKind::kAllocationCreated, allocation.id.value, 0, 0,
              allocation.size_bytes);
  return made;
}

bool Device::try_lock(OpenedAllocation& opened, const LockRequest& how, Status* status,
                      void** address) {
  Allocation& allocation = *opened.allocation;
  vidmm::MemoryManager& memory = adapter_.memory();
  if (opened.locks == 0) {
    if (!lockable(allocation)) {
      *status = Status::kInvalidParameter;  // ALLOC-35
      return true;
    }
    if (memory.pending_operations(allocation.id) != 0) return false;
    const vidmm::Placement place = memory.placement(allocation.id);
    *status = show(opened, how, place);
    if (*status == Status::kRetry) {
      // ALLOC-41: no CPU window there (or none that is coherent, ALLOC-42): it moves to system
      // memory, if it may come back to where the CPU can look.
      if (how.do_not_evict || !reaches_aperture(allocation)) {
        *status = Status::kGraphicsCantEvictPinnedAllocation;
        return true;
      }
      *status = Status::kSuccess;
      Result<std::vector<vidmm::PagingOp>> moved = memory.evict(allocation.id);
      if (!moved.has_value() && adapter_.residency().let_go(allocation))
        moved = memory.evict(allocation.id);
      if (!moved.has_value())
        return false;  // in use by the GPU: asked again when something retired
      adapter_.paging().enqueue(*moved, nullptr);
      adapter_.pump();
      return memory.pending_operations(allocation.id) == 0 &&
             try_lock(opened, how, status, address);
    }
    if (!is_success(*status)) return true;
  }
  memory.lock(allocation.id);
  ++opened.locks;
  *address = opened.cpu().view->address();
  trace::emit(trace::EventKind::kLocked, allocation.id.value);
  return true;
}

Status Device::show(OpenedAllocation& opened, const LockRequest& how,
                    const vidmm::Placement& place) {
  Allocation& allocation = *opened.allocation;
  vidmm::MemoryManager& memory = adapter_.memory();
  CpuAccess& cpu = opened.cpu();
  std::vector<bus::MemoryWindow> windows;
  uint64_t bytes = allocation.size_bytes;
  const bool in_memory_segment =
      place.segment != kSystemMemory &&
      memory.segments()[place.segment.value - 1].kind == vidmm::SegmentKind::kMemory;
  if (!in_memory_segment) {
    for (const bus::PageFrame page : allocation.pages) {
      windows.push_back(
          adapter_.machine().window_of(bus::PhysicalAddress{page.value * kPageBytes}, kPageBytes));
    }
  } else {
    const vidmm::SegmentDesc& segment = memory.segments()[place.segment.value - 1];
    const port::SegmentInfo& info = adapter_.segment_infos().segments[place.segment.value - 1];
    if (allocation.cached) return Status::kRetry;  // ALLOC-42
    const bool may_leave = !how.do_not_evict && reaches_aperture(allocation) &&
                           !allocation.primary && memory.lock_count(allocation.id) == 0 &&
                           !memory.description(allocation.id).pinned;
    if (may_leave && !how.acquire_aperture && adapter_.strikes(VerifierSwitch::kForceComplexLock))
      return Status::kRetry;
    if (info.host_aperture_pages != 0) {
      const uint64_t count = bytes / kPageBytes;
      const std::vector<uint32_t> pages = adapter_.take_host_pages(place.segment, count);
      if (pages.empty()) return Status::kRetry;
      std::vector<uint64_t> shown(count);
      for (uint64_t i = 0; i < count; ++i) shown[i] = place.offset_bytes / kPageBytes + i;
      const Status mapped = adapter_.port().map_cpu_host_aperture(opened.driver_allocation,
                                                                  place.segment, pages, shown);
      if (!is_success(mapped)) {
        adapter_.drop_host_pages(place.segment, pages);
        return Status::kRetry;
      }
      cpu.host_segment = place.segment;
      cpu.host_pages = pages;
      for (const uint32_t page : pages) {
        windows.push_back(adapter_.machine().window_of(
            bus::PhysicalAddress{info.cpu_translated_address + page * kPageBytes}, kPageBytes));
      }
    } else if (!segment.cpu_visible) {
      return Status::kRetry;
    } else if (how.acquire_aperture) {
      // SEG-21: the driver sets its aperture up before the CPU sees anything.
      if (may_leave && adapter_.strikes(VerifierSwitch::kFailAcquireSwizzlingRange))
        return Status::kRetry;
      const std::optional<uint32_t> free = adapter_.take_swizzling_range();
      if (!free.has_value()) return Status::kRetry;
      port::AdapterPort::SwizzlingRange range{
          .allocation = opened.driver_allocation,
          .private_data = how.private_data,
          .range = *free,
          .segment = place.segment,
          .size_bytes = bytes,
          .size_may_change = how.alternate_va,
          .address = segment.cpu_translated_address + place.offset_bytes};
      if (!is_success(adapter_.port().acquire_swizzling_range(&range))) {
        adapter_.drop_swizzling_range(*free);
        return Status::kRetry;
      }
      cpu.swizzled = true;
      cpu.swizzling_range = *free;
      cpu.swizzling_data = how.private_data;
      if (!checked_align_up(range.size_bytes, kPageBytes, &bytes)) bytes = 0;
      windows.push_back(
          bytes == 0 ? bus::MemoryWindow{}
                     : adapter_.machine().window_of(bus::PhysicalAddress{range.address}, bytes));
    } else {
      windows.push_back(adapter_.machine().window_of(
          bus::PhysicalAddress{segment.cpu_translated_address + place.offset_bytes}, bytes));
    }
    const bool mappable =
        std::ranges::all_of(windows, [](const bus::MemoryWindow& one) { return one.fd >= 0; });
    if (!mappable) {  // the driver's address is behind no BAR
      adapter_.findings().report(verifier::Finding{
          .rule = "SEG-19",
          .severity = verifier::Severity::kViolation,
          .ddi = how.acquire_aperture ? "DxgkDdiAcquireSwizzlingRange" : "DxgkDdiQueryAdapterInfo",
          .actual = fmt::format("{} bytes of segment {} at offset 0x{:X} have a CPU address that "
                                "is in no memory BAR.",
                                bytes, place.segment.value, place.offset_bytes),
          .expected = "The CPU address of a visible segment, aperture or range lies in a BAR.",
          .fix = "Report the translated start of the BAR, as StartDevice was given it."});
      adapter_.end_cpu_access(opened);
      return Status::kRetry;
    }
  }
  // A view of another size may be left from a swizzled lock.
  if (cpu.view != nullptr && cpu.view->size() != bytes) cpu.view.reset();
  Status status = Status::kSuccess;
  if (cpu.view == nullptr) {
    Result<std::unique_ptr<bus::CpuView>> view = bus::CpuView::create(bytes);
    if (view.has_value()) {
      cpu.view = std::move(*view);
    } else {
      status = view.error();
    }
  }
  if (is_success(status)) status = cpu.view->retarget(windows);
  if (!is_success(status)) {
    adapter_.end_cpu_access(opened);
    return status;
  }
  if (!in_memory_segment) memory.mark_cpu_written(allocation.id);
  return status;
}

bool Device::lockable(const Allocation& allocation) {
  return allocation.cpu_visible || reaches_aperture(allocation) ||
         adapter_.memory().placement(allocation.id).segment == kSystemMemory;
}

bool Device::reaches(const Allocation& allocation, vidmm::SegmentKind kind) {
  const vidmm::AllocationDesc& desc = adapter_.memory().description(allocation.id);
  for (const vidmm::SegmentDesc& segment : adapter_.memory().segments()) {
    if (segment.kind == kind &&
        ((desc.supported_read | desc.supported_write) & vidmm::segment_bit(segment.id)) != 0) {
      return true;
    }
  }
  return false;
}

void Device::end_lock(OpenedAllocation& opened) {
  --opened.locks;
  DXGKIT_CHECK(adapter_.memory().unlock(opened.allocation->id));
  if (opened.locks == 0) {
    opened.cpu().view.reset();  // before the driver takes the range down
    adapter_.end_cpu_access(opened);
  }
  trace::emit(trace::EventKind::kUnlocked, opened.allocation->id.value);
}

Status Device::unlock(Handle allocation_handle) {
  return unlock_all(std::span(&allocation_handle, 1));
}

Status Device::unlock_all(std::span<const Handle> allocations) {
  std::vector<Ref<OpenedAllocation>> targets;
  for (const Handle handle_of_one : allocations) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<OpenedAllocation> opened,
                                   process_.handles().find<OpenedAllocation>(handle_of_one));
    if (opened->device.get() != this) return Status::kInvalidParameter;  // THUNK-25
    targets.push_back(std::move(opened));
  }
  Status status = Status::kSuccess;
  adapter_.lane().run([&] {
    for (const Ref<OpenedAllocation>& opened : targets) {
      const auto times = std::ranges::count_if(
          targets, [&](const auto& other) { return other.get() == opened.get(); });
      if (opened->closing || opened->locks < static_cast<uint64_t>(times)) {  // THUNK-26
        status = Status::kInvalidParameter;
        return;
      }
    }
    for (const Ref<OpenedAllocation>& opened : targets) end_lock(*opened);
    adapter_.residency().room_changed();
    adapter_.residency().advance();
    adapter_.scheduler().retry_busy();
    adapter_.pump();
  });
  return status;
}

}  // namespace dxgkit::dxgk
