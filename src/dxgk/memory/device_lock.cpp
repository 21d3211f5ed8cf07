#include "dxgk/memory/device_lock.h"

#include <fcntl.h>

#include <algorithm>

#include "base/interface_versions.h"
#include "dxgk/core/client_memory.h"
#include "dxgk/core/process.h"
#include "dxgk/memory/allocation_rules.h"
#include "dxgk/memory/backing_pages.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"
#include "dxgk/memory/sharing.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

Result<void*> DeviceLocks::lock(Handle allocation_handle) {
  if (device_.lost()) return Error(Status::kDeviceRemoved);  // THUNK-07: whatever it names
  DXGKIT_ASSIGN_OR_RETURN(const Ref<OpenedAllocation> opened,
                          process_.handles().find<OpenedAllocation>(allocation_handle));
  if (opened->device.get() != &memory_) return Error(Status::kInvalidParameter);
  Status status = Status::kSuccess;
  void* address = nullptr;
  // Content on the move has no place a CPU could look at: wait until it has arrived.
  const bool settled = core_.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    if (opened->closing || device_.lost()) {
      status = opened->closing ? Status::kInvalidParameter : Status::kDeviceRemoved;
      return true;
    }
    const bool fits = alternate_va_fits(*opened->allocation, /*asked=*/false);
    if (!fits || opened->allocation->offer != vidmm::OfferPriority::kNone) {  // ALLOC-36
      status = Status::kInvalidParameter;
      return true;
    }
    return try_lock(*opened, LockRequest{}, &status, &address);
  });
  if (!settled) return Error(Status::kDeviceRemoved);
  if (!is_success(status)) return Error(status);
  return address;
}

Result<void*> DeviceLocks::lock_legacy(LockRequest& request) {
  if (device_.lost()) return Error(Status::kDeviceRemoved);
  DXGKIT_ASSIGN_OR_RETURN(const Ref<OpenedAllocation> opened,
                          process_.handles().find<OpenedAllocation>(request.allocation));
  if (opened->device.get() != &memory_) return Error(Status::kInvalidParameter);
  Status status = Status::kSuccess;
  void* address = nullptr;
  const bool settled = core_.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    status = opened->closing  ? Status::kInvalidParameter
             : device_.lost() ? Status::kDeviceRemoved
                              : Status::kSuccess;
    return !is_success(status) || try_lock_legacy(*opened, request, &status, &address);
  });
  if (!settled) return Error(Status::kDeviceRemoved);
  if (!is_success(status)) return Error(status);
  return address;
}

/// ALLOC-54: what a primary was made for is what it can be locked with.
bool DeviceLocks::alternate_va_fits(const Allocation& allocation, bool asked) {
  // The bit means something else from WDDM 2.0 on.
  const bool made_for_it = allocation.primary && core_.interface_version() < kInterfaceWddm20 &&
                           (allocation.info_flags & kAllocationUseAlternateVa) != 0;
  if (!asked) return !made_for_it;
  return allocation.shared == nullptr && (!allocation.primary || made_for_it);
}

bool DeviceLocks::try_lock_legacy(OpenedAllocation& opened, LockRequest& request, Status* status,
                                  void** address) {
  const Allocation& allocation = *opened.allocation;
  const vidmm::AllocationDesc& desc = core_.memory().description(allocation.id);
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
  if (!alternate_va_fits(allocation, request.alternate_va))
    return refuse(Status::kInvalidParameter);
  const auto outside = [&](uint32_t page) { return page >= allocation.size_bytes / kPageBytes; };
  if (std::ranges::any_of(request.pages, outside)) return refuse(Status::kInvalidParameter);
  const bool renames = request.discard && !desc.pinned && !allocation.primary &&
                       allocation.shared == nullptr && allocation.user_memory == nullptr &&
                       opened.locks == 0 &&
                       // Nobody would list the other instance as resident.
                       !core_.facts().explicit_residency;
  const bool looks_on = (request.ignore_sync || request.ignore_read_sync) && !renames;
  if (looks_on && !may_look_on(allocation)) return refuse(Status::kInvalidParameter);
  const auto ready = [&]() DXGKIT_REQUIRES(on_lane) {
    if (looks_on && request.ignore_sync) return true;
    return looks_on ? floor_.residency->is_unwritten(allocation)
                    : floor_.residency->is_idle(allocation);
  };
  if (request.acquire_aperture) {
    // A range belongs to one lock, and to memory that lies in a memory segment at times.
    // From WDDM 2.0 on drivers have no such ranges.
    if (core_.interface_version() >= kInterfaceWddm20) return refuse(Status::kInvalidParameter);
    if (opened.locks != 0 || !reaches_memory(allocation)) return refuse(Status::kInvalidParameter);
  }
  const CpuAccess* const cpu = opened.locks != 0 ? opened.cpu_if_any() : nullptr;
  if (cpu != nullptr && (cpu->swizzling_range.has_value() || cpu->look.alternate_va))
    return refuse(Status::kInvalidParameter);  // THUNK-26, ALLOC-54
  OpenedAllocation* target = &opened;
  if (renames) {
    target = next_instance(opened);
    if (target == nullptr) return false;  // ALLOC-37: DonotWait is void with Discard
  } else if (opened.locks == 0 && !ready()) {
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

OpenedAllocation* DeviceLocks::next_instance(OpenedAllocation& current) {
  OpenedAllocation& first = current.first_instance();
  if (floor_.residency->is_idle(*current.allocation)) return &current;
  CpuAccess& list = first.cpu();
  const size_t count = 1 + list.instances.size();
  const auto at = [&](size_t index) {
    return index == 0 ? &first : list.instances[index - 1].get();
  };
  for (size_t step = 1; step < count; ++step) {
    const size_t index = (list.current + step) % count;
    // It is not locked: only the current instance can be, and a locked one is not renamed.
    if (floor_.residency->is_idle(*at(index)->allocation)) return at(index);
  }
  const uint32_t most = first.allocation->maximum_renaming;
  if (most != 0 && count >= most) return nullptr;
  Ref<OpenedAllocation> made = make_instance(first);
  if (!made) return nullptr;  // no memory for more: one of those there are becomes idle
  list.instances.push_back(made);
  return made.get();
}

Ref<OpenedAllocation> DeviceLocks::make_instance(OpenedAllocation& first) {
  const Allocation& model = *first.allocation;
  Ref<OpenedAllocation> made = make_object<OpenedAllocation>();
  made->device = first.device;
  made->resource = first.resource;
  made->driver_allocation = first.driver_allocation;
  made->device_specific = first.device_specific;
  made->cpu().original = &first;
  MemoryCharge charge;
  Result<std::vector<bus::PageFrame>> pages = memory_.take_pages(
      model.size_bytes / kPageBytes, bus::PagesApart::Objects::kAsTheyAre, &charge);
  if (!pages.has_value()) return {};
  const Result<Handle> inserted = process_.handles().insert(made);
  if (!inserted.has_value()) {
    core_.machine().free_pages(*pages);
    return {};
  }
  made->handle = *inserted;
  Allocation& allocation = floor_.allocations.create();
  allocation.driver_handle = model.driver_handle;
  allocation.size_bytes = model.size_bytes;
  allocation.info_flags = model.info_flags;
  allocation.cpu_visible = model.cpu_visible;
  allocation.cached = model.cached;
  allocation.instance = true;
  allocation.pages = FrameList(*pages);
  floor_.backing_pages->charge(allocation, std::move(charge));
  allocation.opened.push_back(made.get());
  // The same description was accepted for the first one.
  DXGKIT_CHECK(
      is_success(core_.memory().create(allocation.id, core_.memory().description(model.id))));
  made->allocation = &allocation;
  trace::emit(trace::EventKind::kAllocationCreated, allocation.id.value, 0, 0,
              allocation.size_bytes);
  return made;
}

bool DeviceLocks::try_lock(OpenedAllocation& opened, const LockRequest& how, Status* status,
                           void** address) {
  Allocation& allocation = *opened.allocation;
  vidmm::MemoryManager& memory = core_.memory();
  if (opened.locks == 0) {
    if (!lockable(allocation)) {
      *status = Status::kInvalidParameter;  // ALLOC-35
      return true;
    }
    if (memory.pending_operations(allocation.id) != 0) return false;
    if (allocation.keeps_system_copy()) {
      // What the GPU wrote since it came in is not in the copy the CPU is to see (G-35).
      if (const std::optional<vidmm::PagingOp> back = memory.write_back(allocation.id)) {
        floor_.paging->enqueue(std::span(&*back, 1), nullptr);
        core_.pump();
        if (memory.pending_operations(allocation.id) != 0) return false;
      }
    }
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
      if (!moved.has_value() && floor_.residency->let_go(allocation))
        moved = memory.evict(allocation.id);
      if (!moved.has_value()) {
        // On a screen, and nothing that retires lets go of it.
        if (allocation.primary && floor_.residency->is_idle(allocation)) {
          *status = Status::kGraphicsCantEvictPinnedAllocation;
          return true;
        }
        return false;  // in use by the GPU: asked again when something retired
      }
      floor_.paging->enqueue(*moved, nullptr);
      core_.pump();
      return memory.pending_operations(allocation.id) == 0 &&
             try_lock(opened, how, status, address);
    }
    if (!is_success(*status)) return true;
  }
  memory.lock(allocation.id);
  ++opened.locks;
  if (allocation.keeps_system_copy()) floor_.cpu_windows->note_written(opened, how.pages);
  *address = opened.cpu().view->address();
  trace::emit(trace::EventKind::kLocked, allocation.id.value);
  return true;
}

Status DeviceLocks::show(OpenedAllocation& opened, const LockRequest& how,
                         const vidmm::Placement& place) {
  Allocation& allocation = *opened.allocation;
  vidmm::MemoryManager& memory = core_.memory();
  CpuAccess& cpu = opened.cpu();
  cpu.look = {.private_data = how.private_data,
              .acquire_aperture = how.acquire_aperture,
              .alternate_va = how.alternate_va,
              .may_leave = !how.do_not_evict && reaches_aperture(allocation) &&
                           !allocation.primary && memory.lock_count(allocation.id) == 0 &&
                           !memory.description(allocation.id).pinned};
  Result<CpuWindows::Windows> windows = floor_.cpu_windows->open(opened, cpu.look, place);
  if (!windows.has_value()) return windows.error();
  const Status status = floor_.cpu_windows->show_at_one_address(opened, std::move(*windows));
  if (!is_success(status)) {
    floor_.cpu_windows->close(opened);
    return status;
  }
  const bool in_memory_segment =
      place.segment != kSystemMemory &&
      memory.segments()[place.segment.value - 1].kind == vidmm::SegmentKind::kMemory;
  if (!in_memory_segment || allocation.keeps_system_copy()) memory.mark_cpu_written(allocation.id);
  return status;
}

bool DeviceLocks::lockable(const Allocation& allocation) {
  return allocation.cpu_visible || reaches_aperture(allocation) ||
         core_.memory().placement(allocation.id).segment == kSystemMemory;
}

bool DeviceLocks::may_look_on(const Allocation& allocation) {
  return (allocation.info_flags & kAllocationSwizzled) == 0 &&
         reaches(allocation, vidmm::SegmentKind::kAperture, /*coherent=*/allocation.cached);
}

bool DeviceLocks::reaches(const Allocation& allocation, vidmm::SegmentKind kind, bool coherent) {
  const vidmm::AllocationDesc& desc = core_.memory().description(allocation.id);
  for (const vidmm::SegmentDesc& segment : core_.memory().segments()) {
    if (segment.kind == kind && (segment.cache_coherent || !coherent) &&
        ((desc.supported_read | desc.supported_write) & vidmm::segment_bit(segment.id)) != 0) {
      return true;
    }
  }
  return false;
}

void DeviceLocks::end_lock(OpenedAllocation& opened) {
  --opened.locks;
  if (opened.allocation->keeps_system_copy()) floor_.cpu_windows->write_up(opened);
  DXGKIT_CHECK(core_.memory().unlock(opened.allocation->id));
  if (opened.locks == 0) {
    opened.cpu().written.clear();
    floor_.cpu_windows->put_away(opened);
    floor_.cpu_windows->close(opened);
  }
  trace::emit(trace::EventKind::kUnlocked, opened.allocation->id.value);
}

bool DeviceLocks::with_view(Handle allocation,
                            const std::function<void(std::span<std::byte>)>& use) {
  const Result<Ref<OpenedAllocation>> opened =
      process_.handles().find<OpenedAllocation>(allocation);
  if (!opened.has_value() || (*opened)->device.get() != &memory_) return false;
  bool shown = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if ((*opened)->closing || (*opened)->locks == 0) return;
    const bus::CpuView& view = *(*opened)->cpu().view;
    use({static_cast<std::byte*>(view.address()), view.size()});
    shown = true;
  });
  return shown;
}

std::optional<DeviceLocks::Given> DeviceLocks::give(Handle allocation) {
  ClientMemory* const client = process_.client_memory();
  const Result<Ref<OpenedAllocation>> opened =
      process_.handles().find<OpenedAllocation>(allocation);
  if (client == nullptr || !opened.has_value() || (*opened)->device.get() != &memory_)
    return std::nullopt;
  std::optional<Given> given;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    OpenedAllocation& one = **opened;
    // Who may not write gets no descriptor: nothing would keep it from writing.
    if (one.closing || one.locks == 0 || one.read_only) return;
    if (!floor_.cpu_windows->shows_backing(one)) return;
    const bus::PagesApart::Part part = part_with_descriptor(*one.allocation, client->pages());
    if (part.window.fd < 0) return;
    given = {.part = part,
             .original = one.first_instance().handle,
             .resource = one.resource ? one.resource->handle : 0};
  });
  return given;
}

bus::PagesApart::Part DeviceLocks::part_with_descriptor(const Allocation& allocation,
                                                        const bus::PagesApart& of_process) {
  const bus::PagesApart* group = &of_process;
  if (allocation.user_memory != nullptr)
    group = allocation.user_memory->group();
  else if (allocation.shared != nullptr && allocation.shared->pages_apart != nullptr)
    group = allocation.shared->pages_apart.get();
  if (group == nullptr) return {};
  bus::PagesApart::Part part = group->part_of(allocation.pages.frames());
  if (part.window.fd >= 0) part.window.fd = fcntl(part.window.fd, F_DUPFD_CLOEXEC, 0);
  return part;
}

std::optional<std::pair<bus::PagesApart::Part, uint64_t>> DeviceLocks::give_user_memory(
    Handle allocation) {
  ClientMemory* const client = process_.client_memory();
  const Result<Ref<OpenedAllocation>> opened =
      process_.handles().find<OpenedAllocation>(allocation);
  if (client == nullptr || !opened.has_value() || (*opened)->device.get() != &memory_)
    return std::nullopt;
  std::optional<std::pair<bus::PagesApart::Part, uint64_t>> given;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const OpenedAllocation& one = **opened;
    if (one.closing || one.allocation->user_memory == nullptr) return;
    const bus::PagesApart::Part part = part_with_descriptor(*one.allocation, client->pages());
    if (part.window.fd >= 0) given = {part, one.allocation->user_memory->number()};
  });
  return given;
}

Status DeviceLocks::unlock(Handle allocation_handle) {
  return unlock_all(std::span(&allocation_handle, 1));
}

Status DeviceLocks::unlock_all(std::span<const Handle> allocations) {
  std::vector<Ref<OpenedAllocation>> targets;
  for (const Handle handle_of_one : allocations) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<OpenedAllocation> opened,
                                   process_.handles().find<OpenedAllocation>(handle_of_one));
    if (opened->device.get() != &memory_) return Status::kInvalidParameter;  // THUNK-25
    targets.push_back(std::move(opened));
  }
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (const Ref<OpenedAllocation>& opened : targets) {
      const auto times = std::ranges::count_if(
          targets, [&](const auto& other) { return other.get() == opened.get(); });
      if (opened->closing || opened->locks < static_cast<uint64_t>(times)) {  // THUNK-26
        status = Status::kInvalidParameter;
        return;
      }
    }
    for (const Ref<OpenedAllocation>& opened : targets) end_lock(*opened);
    floor_.residency->room_changed();
    floor_.residency->advance();
    core_.scheduler().retry_busy();
    core_.pump();
    core_.progress();  // a flip may wait for the room of what was locked
  });
  if (!is_success(status) || !core_.facts().virtual_addresses) return status;
  // Nothing says what work at virtual addresses reads: it may come at once.
  static_cast<void>(core_.block_until_awake([&] {
    return device_.lost() ||
           std::ranges::all_of(
               targets, [&](const Ref<OpenedAllocation>& opened) DXGKIT_REQUIRES(on_lane) {
                 return opened->closing || !opened->allocation->keeps_system_copy() ||
                        core_.memory().pending_operations(opened->allocation->id) == 0;
               });
  }));
  return status;
}

}  // namespace dxgkit::dxgk
