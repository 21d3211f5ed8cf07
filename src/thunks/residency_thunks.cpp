// Residency: paging queues, MakeResident and Evict, budgets, trim notifications, priorities.
#include <algorithm>
#include <functional>

#include "dxgk/memory/paging_queue.h"
#include "dxgk/memory/residency.h"
#include "dxgk/memory/residency_budget.h"
#include "dxgk/memory/residency_properties.h"
#include "thunks/call.h"
#include "thunks/process_argument.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::DeviceMemory;
using dxgk::MemoryFloor;
using dxgk::OpenedAllocation;
using dxgk::PagingQueue;
using dxgk::Process;
using dxgk::Ref;
using dxgk::SegmentGroup;

Status create_queue(Process& process, D3DKMT_CREATEPAGINGQUEUE& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  if (args.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;  // THUNK-30
  DXGKIT_ASSIGN_OR_RETURN_STATUS(
      const Ref<PagingQueue> queue,
      PagingQueue::create(device->memory(), static_cast<int32_t>(args.Priority)));
  args.hPagingQueue = queue->handle;
  args.hSyncObject = queue->fence().handle;
  args.FenceValueCPUVirtualAddress = queue->fence().client_view->address();
  return Status::kSuccess;
}

Status destroy_queue(Process& process, const D3DDDI_DESTROYPAGINGQUEUE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<PagingQueue> queue,
                                 process.handles().take<PagingQueue>(args.hPagingQueue));
  queue->device().core().while_stable([&] { queue->destroy(); });
  return Status::kSuccess;
}

/// Allocations, all of them on `device` (RES-04).
Status find_openings(Process& process, const DeviceMemory& device,
                     std::span<const D3DKMT_HANDLE> handles,
                     std::vector<Ref<OpenedAllocation>>* openings) {
  openings->reserve(handles.size());
  for (const D3DKMT_HANDLE handle : handles) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<OpenedAllocation> opened,
                                   process.handles().find<OpenedAllocation>(handle));
    if (opened->device.get() != &device) return Status::kInvalidParameter;
    openings->push_back(std::move(opened));
  }
  return Status::kSuccess;
}

/// A client's list of allocations, resolved. An empty one is refused.
template <auto List>
Status capture_openings(Process& process, const DeviceMemory& device, const StructureOf<List>& args,
                        std::vector<Ref<OpenedAllocation>>* openings) {
  std::vector<D3DKMT_HANDLE> handles;
  DXGKIT_RETURN_IF_FAILED(capture<List>(args, &handles));
  if (handles.empty()) return Status::kInvalidParameter;
  return find_openings(process, device, handles, openings);
}

Status make_resident(Process& process, D3DDDI_MAKERESIDENT& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<PagingQueue> queue,
                                 process.handles().find<PagingQueue>(args.hPagingQueue));
  DeviceMemory& device = queue->device();
  MemoryFloor& floor = device.floor();
  DXGKIT_ENTER_CORE(floor.core);
  if (device.device().lost()) return Status::kDeviceRemoved;
  if (!floor.core.facts().explicit_residency) return Status::kInvalidParameter;  // RES-24
  if (args.Flags.Reserved != 0) return Status::kInvalidParameter;                // THUNK-03
  const dxgk::MakeResidentFlags flags{.cant_trim_further = args.Flags.CantTrimFurther != 0,
                                      .must_succeed = args.Flags.MustSucceed != 0};
  if (flags.must_succeed && !flags.cant_trim_further) return Status::kInvalidParameter;  // RES-11
  std::vector<Ref<OpenedAllocation>> openings;
  DXGKIT_RETURN_IF_FAILED(
      capture_openings<&D3DDDI_MAKERESIDENT::AllocationList>(process, device, args, &openings));
  dxgk::MakeResidentOutcome outcome;
  Status status = Status::kSuccess;
  const bool asked = floor.core.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    status = floor.residency->make_resident(*queue, openings, flags, &outcome);
    return true;
  });
  if (!asked) return Status::kDeviceRemoved;
  if (is_success(status)) args.PagingFenceValue = outcome.fence;
  if (is_success(status) || status == Status::kNoMemory)  // RES-05, RES-17
    args.NumBytesToTrim = outcome.bytes_to_trim;
  if (status == Status::kNoMemory) args.NumAllocations = 0;  // RES-07: all or none
  return status;
}

Status update_property(Process& process, D3DDDI_UPDATEALLOCPROPERTY& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<PagingQueue> queue,
                                 process.handles().find<PagingQueue>(args.hPagingQueue));
  DeviceMemory& device = queue->device();
  MemoryFloor& floor = device.floor();
  DXGKIT_ENTER_CORE(floor.core);
  if (device.device().lost()) return Status::kDeviceRemoved;
  if (!floor.core.facts().explicit_residency) return Status::kInvalidParameter;
  constexpr UINT kProperties = 0xF;
  if ((args.PropertyMaskValue & ~kProperties) != 0 || args.PropertyMaskValue == 0 ||
      args.Flags.Reserved != 0 || args.PreferredSegment.Reserved != 0) {
    return Status::kInvalidParameter;  // THUNK-03
  }
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<OpenedAllocation> opened,
                                 process.handles().find<OpenedAllocation>(args.hAllocation));
  if (opened->device.get() != &device) return Status::kInvalidParameter;
  port::PropertyUpdate update;
  if (args.SetSupportedSegmentSet != 0) update.supported = args.SupportedSegmentSet;
  if (args.SetPreferredSegment != 0) update.preferred = args.PreferredSegment.Value;
  if (args.SetAccessedPhysically != 0)
    update.accessed_physically = args.Flags.AccessedPhysically != 0;
  if (args.SetUnmoveable != 0) update.unmoveable = args.Flags.Unmoveable != 0;
  // The driver's object stays while the driver is asked about it (ALLOC-32).
  bool there = false;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    there = !opened->closing;
    if (!there) return;
    ++opened->driver_references;
    update = dxgk::AllocationProperties(floor).news_of(*opened, update);
  });
  if (!there) return Status::kInvalidParameter;
  // The present values are no update, and the driver is not asked (THUNK-33).
  const bool nothing_new = !update.supported.has_value() && !update.preferred.has_value() &&
                           !update.accessed_physically.has_value() &&
                           !update.unmoveable.has_value();
  Status status = nothing_new ? Status::kSuccess
                              : floor.core.port().allocations().validate_property_update(
                                    opened->driver_allocation, update);
  uint64_t fence = 0;
  if (is_success(status) && !nothing_new) {
    const bool asked = floor.core.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
      status = dxgk::AllocationProperties(floor).update(*queue, *opened, update, &fence);
      return true;
    });
    if (!asked) status = Status::kDeviceRemoved;
  }
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    --opened->driver_references;
    floor.core.progress();
  });
  if (is_success(status)) args.PagingFenceValue = fence;
  return status;
}

Status evict(Process& process, D3DKMT_EVICT& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  Adapter& adapter = device->adapter();
  if (!adapter.core().facts().explicit_residency) return Status::kInvalidParameter;
  if (args.Flags.Reserved != 0) return Status::kInvalidParameter;
  std::vector<Ref<OpenedAllocation>> openings;
  DXGKIT_RETURN_IF_FAILED(
      capture_openings<&D3DKMT_EVICT::AllocationList>(process, device->memory(), args, &openings));
  const dxgk::EvictFlags flags{.only_if_necessary = args.Flags.EvictOnlyIfNecessary != 0,
                               .not_written_to = args.Flags.NotWrittenTo != 0};
  Status status = Status::kSuccess;
  uint64_t bytes_to_trim = 0;
  const bool asked = adapter.core().block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    status = adapter.floor().residency->evict(device->memory(), openings, flags, &bytes_to_trim);
    return true;
  });
  if (!asked) return Status::kDeviceRemoved;
  if (is_success(status)) args.NumBytesToTrim = bytes_to_trim;
  return status;
}

/// An adapter with memory, and one of the two groups.
Status check_memory_question(Adapter& adapter, D3DKMT_MEMORY_SEGMENT_GROUP group,
                             UINT physical_adapter) {
  if (group != D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL && group != D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL)
    return Status::kInvalidParameter;
  if (physical_adapter != 0) return Status::kInvalidParameter;
  return adapter.core().has_memory() ? Status::kSuccess : Status::kNotSupported;
}

/// NULL is the calling process, too (THUNK-54).
HANDLE whose_memory(HANDLE process) {
  constexpr intptr_t kCurrentProcess = -1;
  return process == nullptr ? reinterpret_cast<HANDLE>(kCurrentProcess) : process;
}

Status query_memory(Process& process, D3DKMT_QUERYVIDEOMEMORYINFO& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  const ProcessArgument whose(process, whose_memory(args.hProcess),
                              dxgk::process_access::kQueryInformation);
  DXGKIT_RETURN_IF_FAILED(whose.status());
  DXGKIT_RETURN_IF_FAILED(
      check_memory_question(*adapter, args.MemorySegmentGroup, args.PhysicalAdapterIndex));
  dxgk::VideoMemoryInfo info;
  adapter->core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    info = adapter->floor().budgets->video_memory_info(
        whose.process(), static_cast<SegmentGroup>(args.MemorySegmentGroup));
  });
  args.Budget = info.budget;
  args.CurrentUsage = info.usage;
  args.CurrentReservation = info.reservation;
  args.AvailableForReservation = info.available_for_reservation;
  return Status::kSuccess;
}

Status change_reservation(Process& process, const D3DKMT_CHANGEVIDEOMEMORYRESERVATION& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  const ProcessArgument whose(process, whose_memory(args.hProcess),
                              dxgk::process_access::kSetInformation);
  DXGKIT_RETURN_IF_FAILED(whose.status());
  DXGKIT_RETURN_IF_FAILED(
      check_memory_question(*adapter, args.MemorySegmentGroup, args.PhysicalAdapterIndex));
  Status status = Status::kSuccess;
  adapter->core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    status = adapter->floor().budgets->reserve(
        whose.process(), static_cast<SegmentGroup>(args.MemorySegmentGroup), args.Reservation);
  });
  return status;
}

Status register_trim(Process& process, D3DKMT_REGISTERTRIMNOTIFICATION& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  Adapter& adapter = device->adapter();
  if (args.Callback == nullptr) return Status::kInvalidParameter;
  const dxgk::Luid luid{.low = args.AdapterLuid.LowPart, .high = args.AdapterLuid.HighPart};
  if (luid != adapter.core().luid()) return Status::kInvalidParameter;
  if (!adapter.core().facts().explicit_residency) return Status::kInvalidParameter;
  const auto deliver = [callback = args.Callback,
                        context = args.Context](const dxgk::TrimNotice& notice) {
    D3DKMT_TRIMNOTIFICATION told{};
    told.Context = context;
    told.Flags.PeriodicTrim = notice.periodic ? 1 : 0;
    told.Flags.RestartPeriodicTrim = notice.restart_periodic ? 1 : 0;
    told.Flags.TrimToBudget = notice.to_budget ? 1 : 0;
    told.NumBytesToTrim = notice.bytes;
    callback(&told);
  };
  const uint64_t number = adapter.floor().budgets->trim().add(
      device->memory(), process, reinterpret_cast<const void*>(args.Callback), deliver);
  // The number is the adapter's: the handle says of which.
  args.Handle = reinterpret_cast<void*>(uintptr_t{luid.low} << 32 | static_cast<uint32_t>(number));
  return Status::kSuccess;
}

Status unregister_trim(Process& process, const D3DKMT_UNREGISTERTRIMNOTIFICATION& args) {
  const auto handle = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(args.Handle));
  const auto* owner = reinterpret_cast<const void*>(args.Callback);
  for (const Ref<Adapter>& adapter : process.system().impl().running()) {
    if (adapter->core().luid().low != handle >> 32 || !adapter->core().has_memory()) continue;
    const bool removed =
        adapter->floor().budgets->trim().remove(process, static_cast<uint32_t>(handle), owner);
    if (removed) return Status::kSuccess;
  }
  return Status::kInvalidParameter;
}

/// The allocations a call names: all of a resource, or a list; not both (THUNK-29).
struct Targets {
  Ref<dxgk::Resource> resource;  // null: a list
  std::vector<Ref<OpenedAllocation>> openings;
};
template <typename Args>
Status capture_targets(Process& process, const DeviceMemory& device, const Args& args,
                       Targets* targets) {
  if (args.hResource == 0) {
    return capture_openings<&Args::phAllocationList>(process, device, args, &targets->openings);
  }
  if (args.phAllocationList != nullptr || args.AllocationCount > 1)
    return Status::kInvalidParameter;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(targets->resource,
                                 process.handles().find<dxgk::Resource>(args.hResource));
  return targets->resource->device.get() == &device ? Status::kSuccess : Status::kInvalidParameter;
}

/// Runs `work` on the lane with a resource's members in the list. kInvalidParameter, without
/// running it: one of them is being destroyed.
Status with_targets(Adapter& adapter, Targets& targets, const std::function<Status()>& work) {
  Status status = Status::kInvalidParameter;
  adapter.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (targets.resource) {
      if (targets.resource->closing) return;
      for (OpenedAllocation* member : targets.resource->members)
        targets.openings.emplace_back(member);
    }
    if (std::ranges::any_of(targets.openings,
                            [](const auto& one) DXGKIT_REQUIRES(on_lane) { return one->closing; }))
      return;
    status = work();
  });
  return status;
}

Status set_priority(Process& process, const D3DKMT_SETALLOCATIONPRIORITY& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  Adapter& adapter = device->adapter();
  Targets targets;
  DXGKIT_RETURN_IF_FAILED(capture_targets(process, device->memory(), args, &targets));
  std::vector<UINT> priorities;
  // RES-23: a resource has one, the first.
  const bool is_resource = static_cast<bool>(targets.resource);
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_SETALLOCATIONPRIORITY::pPriorities>(args, &priorities));
  if (std::ranges::find(priorities, 0U) != priorities.end())
    return Status::kInvalidParameter;  // THUNK-29
  return with_targets(adapter, targets, [&]() DXGKIT_REQUIRES(on_lane) {
    for (size_t i = 0; i < targets.openings.size(); ++i) {
      adapter.core().memory().set_priority(targets.openings[i]->allocation->id,
                                           priorities[is_resource ? 0 : i]);
    }
    return Status::kSuccess;
  });
}

/// Returns `of` for each allocation, or, for a resource, the value that `of_all` picks. A resource
/// without allocations has no answer.
template <auto Answers, typename Of, typename OfAll>
Status answer_each(Process& process, const StructureOf<Answers>& args, const Of& of,
                   const OfAll& of_all) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  if (args.*Answers == nullptr) return Status::kInvalidParameter;
  Targets targets;
  DXGKIT_RETURN_IF_FAILED(capture_targets(process, device->memory(), args, &targets));
  Adapter& adapter = device->adapter();
  std::vector<ElementOf<Answers>> answers;
  DXGKIT_RETURN_IF_FAILED(with_targets(adapter, targets, [&]() DXGKIT_REQUIRES(on_lane) {
    for (const Ref<OpenedAllocation>& opened : targets.openings)
      answers.push_back(of(adapter.core().memory(), *opened));
    return answers.empty() ? Status::kInvalidParameter : Status::kSuccess;
  }));
  if (targets.resource) answers = {of_all(answers)};
  return give<Answers>(args, answers) ? Status::kSuccess : Status::kInvalidParameter;
}

Status get_priority(Process& process, const D3DKMT_GETALLOCATIONPRIORITY& args) {
  return answer_each<&D3DKMT_GETALLOCATIONPRIORITY::pPriorities>(
      process, args,
      [](vidmm::MemoryManager& memory, const OpenedAllocation& opened) -> UINT {
        return memory.description(opened.allocation->id).priority;
      },
      [](const std::vector<UINT>& priorities) { return priorities.front(); });
}

/// RES-27. Content that is being paged in is not resident yet.
D3DKMT_ALLOCATIONRESIDENCYSTATUS residency_of(vidmm::MemoryManager& memory,
                                              const OpenedAllocation& opened) {
  const AllocationId id = opened.allocation->id;
  const SegmentId segment = memory.placement(id).segment;
  if (segment == kSystemMemory || memory.pending_operations(id) != 0)
    return D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT;
  return memory.segments()[segment.value - 1].kind == vidmm::SegmentKind::kMemory
             ? D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY
             : D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY;
}

Status query_residency(Process& process, const D3DKMT_QUERYALLOCATIONRESIDENCY& args) {
  return answer_each<&D3DKMT_QUERYALLOCATIONRESIDENCY::pResidencyStatus>(
      process, args, residency_of, [](const auto& answers) {
        return *std::ranges::max_element(answers);  // ordered from best to worst
      });
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreatePagingQueue(D3DKMT_CREATEPAGINGQUEUE* args) {
  return call<D3DKMTCreatePagingQueue>(
      args, dxgkit::thunks::without_removal<dxgkit::thunks::create_queue>);
}
NTSTATUS APIENTRY D3DKMTDestroyPagingQueue(D3DDDI_DESTROYPAGINGQUEUE* args) {
  return call<D3DKMTDestroyPagingQueue>(args, dxgkit::thunks::destroy_queue);
}
NTSTATUS APIENTRY D3DKMTMakeResident(D3DDDI_MAKERESIDENT* args) {
  // Always: a refusal for lack of memory says how much to trim. Other refusals leave all outputs
  // unchanged.
  return call<D3DKMTMakeResident>(args, dxgkit::thunks::make_resident);
}
NTSTATUS APIENTRY D3DKMTUpdateAllocationProperty(D3DDDI_UPDATEALLOCPROPERTY* args) {
  return call<D3DKMTUpdateAllocationProperty>(args, dxgkit::thunks::update_property);
}
NTSTATUS APIENTRY D3DKMTEvict(D3DKMT_EVICT* args) {
  return call<D3DKMTEvict>(args, dxgkit::thunks::without_removal<dxgkit::thunks::evict>);
}
NTSTATUS APIENTRY D3DKMTQueryVideoMemoryInfo(D3DKMT_QUERYVIDEOMEMORYINFO* args) {
  return call<D3DKMTQueryVideoMemoryInfo>(args, dxgkit::thunks::query_memory);
}
NTSTATUS APIENTRY
D3DKMTChangeVideoMemoryReservation(const D3DKMT_CHANGEVIDEOMEMORYRESERVATION* args) {
  return call<D3DKMTChangeVideoMemoryReservation>(args, dxgkit::thunks::change_reservation);
}
NTSTATUS APIENTRY D3DKMTRegisterTrimNotification(D3DKMT_REGISTERTRIMNOTIFICATION* args) {
  return call<D3DKMTRegisterTrimNotification>(
      args, dxgkit::thunks::without_removal<dxgkit::thunks::register_trim>);
}
NTSTATUS APIENTRY D3DKMTUnregisterTrimNotification(D3DKMT_UNREGISTERTRIMNOTIFICATION* args) {
  return call<D3DKMTUnregisterTrimNotification>(args, dxgkit::thunks::unregister_trim);
}
NTSTATUS APIENTRY D3DKMTSetAllocationPriority(const D3DKMT_SETALLOCATIONPRIORITY* args) {
  return call<D3DKMTSetAllocationPriority>(args, dxgkit::thunks::set_priority);
}
NTSTATUS APIENTRY D3DKMTGetAllocationPriority(const D3DKMT_GETALLOCATIONPRIORITY* args) {
  return call<D3DKMTGetAllocationPriority>(args, dxgkit::thunks::get_priority);
}
NTSTATUS APIENTRY D3DKMTQueryAllocationResidency(const D3DKMT_QUERYALLOCATIONRESIDENCY* args) {
  return call<D3DKMTQueryAllocationResidency>(args, dxgkit::thunks::query_residency);
}

}  // extern "C"
