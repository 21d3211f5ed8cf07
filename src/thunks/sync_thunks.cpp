// Synchronisation objects: create, destroy, signal and wait from CPU and GPU.
#include <unistd.h>

#include <bit>

#include "base/short_vector.h"
#include "dxgk/display/periodic_fences.h"
#include "dxgk/sync/client_event.h"
#include "dxgk/sync/cpu_events.h"
#include "runtime/descriptors.h"
#include "thunks/call.h"
#include "thunks/sync_support.h"

namespace dxgkit::thunks {

Status check_sync_flags(UINT flags, bool monitored) {
  using namespace sync_flags;
  if ((flags & ~kDefined) != 0) return Status::kInvalidParameter;
  if ((flags & kNtSecuritySharing) != 0 && (flags & kShared) == 0)
    return Status::kInvalidParameter;  // SYNC-09
  if (monitored && (flags & kShared) != 0 && (flags & kNtSecuritySharing) == 0)
    return Status::kInvalidParameter;
  if ((flags & (kTopOfPipeline | kNoSignal | kNoWait)) != 0 && !monitored)
    return Status::kInvalidParameter;  // SYNC-10
  if ((flags & kNoSignal) != 0 && (flags & kNoWait) != 0) return Status::kInvalidParameter;
  // Only CPU notifications are the driver's to set (SYNC-24).
  if ((flags & kSignalByKmd) != 0 && monitored) return Status::kInvalidParameter;
  if ((flags & (kCrossAdapter | kUnused | kUnwaitCpuWaitersOnlyOnDestroy)) != 0)
    return Status::kNotSupported;
  return Status::kSuccess;
}

dxgk::SyncUse sync_use_of(UINT flags) {
  using namespace sync_flags;
  return {.no_signal = (flags & kNoSignal) != 0,
          .no_wait = (flags & kNoWait) != 0,
          .top_of_pipeline = (flags & kTopOfPipeline) != 0,
          .keeps_value_on_reset = (flags & kNoSignalMaxValueOnTdr) != 0,
          .no_gpu_access = (flags & kNoGpuAccess) != 0};
}

namespace {

using dxgk::Context;
using dxgk::Device;
using dxgk::Process;
using dxgk::Ref;
using dxgk::SyncObject;
using vidsch::SyncKind;
using vidsch::SyncPoint;

constexpr UINT kMaxLegacyObjects = D3DDDI_MAX_OBJECT_SIGNALED;  // 32 (SYNC-06)
/// D3DDDICB_SIGNALFLAGS, by bit.
constexpr UINT kSignalAtSubmission = 1U << 0;
constexpr UINT kEnqueueCpuEvent = 1U << 1;
constexpr UINT kAllowFenceRewind = 1U << 2;
constexpr UINT kDefinedSignalFlags = 7U;

/// SYNC-25.
Status create_periodic(Process& process, const Ref<Device>& device, dxgk::SyncRequest request,
                       D3DKMT_CREATESYNCHRONIZATIONOBJECT2& args) {
  auto& info = args.Info.PeriodicMonitoredFence;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<dxgk::Adapter> adapter,
                                 process.handles().find<dxgk::Adapter>(info.hAdapter));
  if (adapter.get() != &device->adapter()) return Status::kInvalidParameter;
  if (info.EngineAffinity > 1) return Status::kInvalidParameter;  // there are no links here
  // Only vertical syncs signal it.
  if ((args.Info.Flags.Value & sync_flags::kNoWait) != 0) return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(dxgk::check_periodic(adapter->floor(), info.VidPnTargetId, info.Time));
  request.shared = (args.Info.Flags.Value & sync_flags::kShared) != 0;
  request.nt_security = (args.Info.Flags.Value & sync_flags::kNtSecuritySharing) != 0;
  request.use = sync_use_of(args.Info.Flags.Value);
  request.target = info.VidPnTargetId;
  request.lead_ns = static_cast<int64_t>(info.Time) * 100;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> object,
                                 device->sync().create_sync_object(request));
  args.hSyncObject = object->handle;
  args.Info.SharedHandle = 0;
  info.FenceValueCPUVirtualAddress = object->client_view->address();
  info.FenceValueGPUVirtualAddress = object->gpu_address;
  return Status::kSuccess;
}

Status create_sync2(Process& process, D3DKMT_CREATESYNCHRONIZATIONOBJECT2& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  dxgk::SyncRequest request;
  switch (args.Info.Type) {
    case D3DDDI_SYNCHRONIZATION_MUTEX:
      request.kind = SyncKind::kMutex;
      request.initial = args.Info.SynchronizationMutex.InitialState != 0 ? 1 : 0;
      break;
    case D3DDDI_SEMAPHORE:
      request.kind = SyncKind::kSemaphore;
      request.initial = args.Info.Semaphore.InitialCount;
      request.maximum = args.Info.Semaphore.MaxCount;
      break;
    case D3DDDI_FENCE:
      request.kind = SyncKind::kFence;
      request.initial = args.Info.Fence.FenceValue;
      break;
    case D3DDDI_CPU_NOTIFICATION:
      request.kind = SyncKind::kCpuNotification;
      request.event_fd = event_descriptor(args.Info.CPUNotification.Event);
      if (args.Info.CPUNotification.Event == nullptr || request.event_fd < 0)
        return Status::kInvalidHandle;
      break;
    case D3DDDI_MONITORED_FENCE:
      request.kind = SyncKind::kMonitoredFence;
      request.initial = args.Info.MonitoredFence.InitialFenceValue;
      break;
    case D3DDDI_PERIODIC_MONITORED_FENCE:
      request.kind = SyncKind::kMonitoredFence;
      request.periodic = true;
      break;
    default:
      return Status::kInvalidParameter;  // SYNC-01
  }
  const bool monitored = request.kind == SyncKind::kMonitoredFence;
  const UINT flags = args.Info.Flags.Value;
  DXGKIT_RETURN_IF_FAILED(check_sync_flags(flags, monitored));
  if ((flags & sync_flags::kSignalByKmd) != 0) {
    // SYNC-24. The driver knows one device: nobody shares the object (our choice).
    if (request.kind != SyncKind::kCpuNotification || (flags & sync_flags::kShared) != 0)
      return Status::kInvalidParameter;
    if (!device->floor().cpu_events->supported()) return Status::kNotSupported;
    request.signal_by_kmd = true;
    request.driver_device = device->driver_handle();
  }
  if (request.periodic) return create_periodic(process, device, request, args);
  // Addresses for one GPU of a link: there are no links here, bit 0 is the adapter (INT-12).
  if (monitored && args.Info.MonitoredFence.EngineAffinity > 1) return Status::kInvalidParameter;
  request.shared = (flags & sync_flags::kShared) != 0;
  request.nt_security = (flags & sync_flags::kNtSecuritySharing) != 0;
  request.use = sync_use_of(flags);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> object,
                                 device->sync().create_sync_object(request));
  args.hSyncObject = object->handle;
  args.Info.SharedHandle = object->shared->global;
  if (object->client_view) {
    args.Info.MonitoredFence.FenceValueCPUVirtualAddress = object->client_view->address();
    args.Info.MonitoredFence.FenceValueGPUVirtualAddress = object->gpu_address;
  }
  return Status::kSuccess;
}

Status create_native(Process& process, D3DKMT_CREATENATIVEFENCE& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  if (device->floor().native_fences == nullptr) return Status::kNotSupported;
  if (args.Flags.Value != 0) return Status::kInvalidParameter;
  if (args.Info.Type != D3DDDI_NATIVEFENCE_TYPE_DEFAULT &&
      args.Info.Type != D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU)
    return Status::kInvalidParameter;
  const UINT flags = args.Info.Flags.Value;
  DXGKIT_RETURN_IF_FAILED(check_native_flags(flags, args.Info.EngineAffinity));
  dxgk::SyncRequest request;
  request.kind = SyncKind::kMonitoredFence;
  request.initial = args.Info.InitialFenceValue;
  request.shared = (flags & sync_flags::kShared) != 0;
  request.nt_security = (flags & sync_flags::kNtSecuritySharing) != 0;
  request.native = true;
  request.intra_gpu = args.Info.Type == D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU;
  request.private_data = std::as_writable_bytes(std::span(args.PrivateDriverData));
  request.use = sync_use_of(flags);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> object,
                                 device->sync().create_sync_object(request));
  args.hSyncObject = object->handle;
  args.Info.NativeFenceMapping = native_mapping(*object);
  return Status::kSuccess;
}

Status create_sync1(Process& process, D3DKMT_CREATESYNCHRONIZATIONOBJECT& args) {
  // The first form knows mutex and semaphore only.
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 second = {};
  second.hDevice = args.hDevice;
  second.Info.Type = args.Info.Type;
  if (args.Info.Type == D3DDDI_SYNCHRONIZATION_MUTEX) {
    second.Info.SynchronizationMutex.InitialState = args.Info.SynchronizationMutex.InitialState;
  } else if (args.Info.Type == D3DDDI_SEMAPHORE) {
    second.Info.Semaphore.MaxCount = args.Info.Semaphore.MaxCount;
    second.Info.Semaphore.InitialCount = args.Info.Semaphore.InitialCount;
  } else {
    return Status::kInvalidParameter;
  }
  DXGKIT_RETURN_IF_FAILED(create_sync2(process, second));
  args.hSyncObject = second.hSyncObject;
  return Status::kSuccess;
}

Status destroy_sync(Process& process, const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT& args) {
  process.system().impl().reap_nt_handles();  // a descriptor may have been the last but this
  DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<SyncObject> object,
                                 process.handles().find<SyncObject>(args.hSyncObject));
  if (object->of_paging_queue) return Status::kInvalidParameter;  // PAGE-47
  DXGKIT_ASSIGN_OR_RETURN_STATUS(object, process.handles().take<SyncObject>(args.hSyncObject));
  object->floor().core.while_stable([&] { object->close(); });
  return Status::kSuccess;
}

enum class Right { kSignal, kWait };
/// Who signals or waits.
enum class From { kCpu, kGpu };

/// The objects that one call names.
struct Points {
  ShortVector<SyncPoint, 4> points;
  ShortVector<SyncPoint, 4> early;  // of handles that signal at the top of the pipeline (SYNC-12)
};

/// A CPU signals and waits for what it can see the value of, and for notifications (SYNC-36).
bool for_cpus(SyncKind kind) {
  return kind == SyncKind::kMonitoredFence || kind == SyncKind::kCpuNotification;
}

/// Every object must be on the adapter of `device`, and its handle must have the right (SYNC-11).
Status resolve_points(Process& process, Device& device, Right right, From from,
                      std::span<const D3DKMT_HANDLE> handles, std::span<const UINT64> values,
                      bool allow_rewind, Points* out) {
  for (size_t i = 0; i < handles.size(); ++i) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> object,
                                   process.handles().find<SyncObject>(handles[i]));
    if (&object->floor() != &device.floor()) return Status::kInvalidParameter;
    if (from == From::kCpu && !for_cpus(object->kind)) return Status::kInvalidParameter;
    DXGKIT_RETURN_IF_FAILED(right == Right::kSignal ? object->may_signal() : object->may_wait());
    const bool early = right == Right::kSignal && object->use.top_of_pipeline;
    (early ? out->early : out->points).push_back({object->id, values[i], allow_rewind});
  }
  return Status::kSuccess;
}

/// Values: the member for the values.
template <auto Values, typename Args>
Status capture_points(Process& process, Device& device, Right right, From from, const Args& args,
                      bool allow_rewind, Points* out) {
  if (count_of<Values>(args) == 0) return Status::kInvalidParameter;
  ShortVector<D3DKMT_HANDLE, 4> handles;
  ShortVector<UINT64, 4> values;
  DXGKIT_RETURN_IF_FAILED(capture<&Args::ObjectHandleArray>(args, &handles));
  DXGKIT_RETURN_IF_FAILED(capture<Values>(args, &values));
  return resolve_points(process, device, right, from, handles, values, allow_rewind, out);
}

/// The first context and the contexts of a broadcast, all of its adapter. `contexts` is then not
/// empty.
Status find_contexts(Process& process, std::span<const D3DKMT_HANDLE> handles,
                     std::vector<Ref<Context>>* contexts) {
  for (const D3DKMT_HANDLE handle : handles) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<Context> context, process.handles().find<Context>(handle));
    if (!contexts->empty() &&
        &context->device().adapter() != &contexts->front()->device().adapter())
      return Status::kInvalidParameter;
    contexts->push_back(std::move(context));
  }
  return contexts->empty() ? Status::kInvalidParameter : Status::kSuccess;
}

/// Signals `points` in all contexts, in stream order.
Status queue_signals(std::span<const Ref<Context>> contexts, const Points& points,
                     bool at_submission) {
  if (!points.early.empty()) {
    DXGKIT_RETURN_IF_FAILED(Context::queue_signal(contexts, points.early, {.at_submission = true}));
  }
  if (points.points.empty()) return Status::kSuccess;
  return Context::queue_signal(contexts, points.points, {.at_submission = at_submission});
}

/// SYNC-07: sets the event when all contexts have reached it. No objects are named.
Status queue_event(const std::vector<Ref<Context>>& contexts, HANDLE event, bool at_submission) {
  if (event == nullptr) return Status::kInvalidParameter;
  const Result<int> ours = dxgk::keep_event(event_descriptor(event));
  if (!ours.has_value()) {
    return ours.error() == Status::kInvalidHandle ? Status::kInvalidParameter : ours.error();
  }
  // Closed with its last user, whether it was set or the contexts failed.
  const std::shared_ptr<int> kept(new int(*ours), [](int* mine) {
    close(*mine);
    delete mine;
  });
  return Context::queue_signal(contexts, {}, {.at_submission = at_submission, .event = [kept] {
                                                runtime::set_event(*kept);
                                              }});
}

Status signal_from_cpu(Process& process, const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  if ((flags & ~kAllowFenceRewind) != 0) return Status::kInvalidParameter;
  Points points;
  DXGKIT_RETURN_IF_FAILED(
      capture_points<&D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU::FenceValueArray>(
          process, *device, Right::kSignal, From::kCpu, args, (flags & kAllowFenceRewind) != 0,
          &points));
  for (const SyncPoint& point : std::span<const SyncPoint>(points.early))
    points.points.push_back(point);
  return device->sync().signal_from_cpu(points.points);
}

Status wait_from_cpu(Process& process, const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  if ((flags & ~1U) != 0) return Status::kInvalidParameter;
  Points points;
  DXGKIT_RETURN_IF_FAILED(
      capture_points<&D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::FenceValueArray>(
          process, *device, Right::kWait, From::kCpu, args, false, &points));
  const auto mode = (flags & 1U) != 0 ? vidsch::WaitMode::kAny : vidsch::WaitMode::kAll;
  const int event = args.hAsyncEvent == nullptr ? -1 : event_descriptor(args.hAsyncEvent);
  if (args.hAsyncEvent != nullptr && event < 0) return Status::kInvalidHandle;
  return device->sync().wait_from_cpu(points.points, mode, event);
}

Status signal_from_gpu(Process& process, const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  Device& device = context->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  Points points;
  DXGKIT_RETURN_IF_FAILED(
      capture_points<&D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU::MonitoredFenceValueArray>(
          process, device, Right::kSignal, From::kGpu, args, false, &points));
  return queue_signals(std::span(&context, 1), points, /*at_submission=*/false);
}

Status signal_from_gpu2(Process& process, const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2& args) {
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  if ((flags & ~kDefinedSignalFlags) != 0) return Status::kInvalidParameter;
  // SYNC-06; the contexts are all in the list here.
  std::vector<D3DKMT_HANDLE> handles;
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2::BroadcastContextArray>(args, &handles));
  std::vector<Ref<Context>> contexts;
  DXGKIT_RETURN_IF_FAILED(find_contexts(process, handles, &contexts));
  Device& device = contexts.front()->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  const bool at_submission = (flags & kSignalAtSubmission) != 0;
  if ((flags & kEnqueueCpuEvent) != 0) {
    if (args.ObjectCount != 0) return Status::kInvalidParameter;  // SYNC-07
    return queue_event(contexts, args.CpuEventHandle, at_submission);
  }
  Points points;
  DXGKIT_RETURN_IF_FAILED(
      capture_points<&D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2::MonitoredFenceValueArray>(
          process, device, Right::kSignal, From::kGpu, args, (flags & kAllowFenceRewind) != 0,
          &points));
  return queue_signals(contexts, points, at_submission);
}

Status wait_from_gpu(Process& process, const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  Device& device = context->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  Points points;
  DXGKIT_RETURN_IF_FAILED(
      capture_points<&D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU::MonitoredFenceValueArray>(
          process, device, Right::kWait, From::kGpu, args, false, &points));
  return context->queue_sync(vidsch::PacketKind::kWait, points.points);
}

/// The legacy forms carry one fence value for all objects.
Status legacy_points(Process& process, Device& device, Right right, UINT count,
                     const D3DKMT_HANDLE* handles, UINT64 value, bool allow_rewind, Points* out) {
  if (count == 0 || count > kMaxLegacyObjects) return Status::kInvalidParameter;
  const std::vector<UINT64> values(count, value);
  return resolve_points(process, device, right, From::kGpu, std::span(handles, count), values,
                        allow_rewind, out);
}

Status signal2(Process& process, const D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2& args) {
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  if (args.BroadcastContextCount > D3DDDI_MAX_BROADCAST_CONTEXT) return Status::kInvalidParameter;
  if ((flags & ~kDefinedSignalFlags) != 0) return Status::kInvalidParameter;
  const bool enqueues_event = (flags & kEnqueueCpuEvent) != 0;
  if (enqueues_event && args.ObjectCount != 0) return Status::kInvalidParameter;  // SYNC-07
  std::vector<Ref<Context>> contexts;
  DXGKIT_RETURN_IF_FAILED(find_contexts(process, std::span(&args.hContext, 1), &contexts));
  Device& device = contexts.front()->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  DXGKIT_RETURN_IF_FAILED(find_contexts(
      process, std::span(args.BroadcastContext, args.BroadcastContextCount), &contexts));
  const bool at_submission = (flags & kSignalAtSubmission) != 0;
  if (enqueues_event) return queue_event(contexts, args.CpuEventHandle, at_submission);
  Points points;
  DXGKIT_RETURN_IF_FAILED(legacy_points(process, device, Right::kSignal, args.ObjectCount,
                                        args.ObjectHandleArray, args.Fence.FenceValue,
                                        (flags & kAllowFenceRewind) != 0, &points));
  return queue_signals(contexts, points, at_submission);
}

Status signal1(Process& process, const D3DKMT_SIGNALSYNCHRONIZATIONOBJECT& args) {
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  if ((flags & ~kDefinedSignalFlags) != 0) return Status::kInvalidParameter;
  if ((flags & kEnqueueCpuEvent) != 0) return Status::kInvalidParameter;  // it has no event
  std::vector<Ref<Context>> contexts;
  DXGKIT_RETURN_IF_FAILED(find_contexts(process, std::span(&args.hContext, 1), &contexts));
  Device& device = contexts.front()->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  Points points;
  DXGKIT_RETURN_IF_FAILED(legacy_points(process, device, Right::kSignal, args.ObjectCount,
                                        args.ObjectHandleArray, 0, (flags & kAllowFenceRewind) != 0,
                                        &points));
  return queue_signals(contexts, points, (flags & kSignalAtSubmission) != 0);
}

template <typename Args>
Status wait_legacy(Process& process, const Args& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  Device& device = context->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  UINT64 value = 0;
  if constexpr (requires { args.Fence; }) value = args.Fence.FenceValue;
  Points points;
  DXGKIT_RETURN_IF_FAILED(legacy_points(process, device, Right::kWait, args.ObjectCount,
                                        args.ObjectHandleArray, value, false, &points));
  return context->queue_sync(vidsch::PacketKind::kWait, points.points);
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreateSynchronizationObject(D3DKMT_CREATESYNCHRONIZATIONOBJECT* args) {
  return call<D3DKMTCreateSynchronizationObject>(args, dxgkit::thunks::create_sync1);
}
NTSTATUS APIENTRY D3DKMTCreateNativeFence(D3DKMT_CREATENATIVEFENCE* args) {
  return call<D3DKMTCreateNativeFence>(args, dxgkit::thunks::create_native);
}
NTSTATUS APIENTRY D3DKMTCreateSynchronizationObject2(D3DKMT_CREATESYNCHRONIZATIONOBJECT2* args) {
  return call<D3DKMTCreateSynchronizationObject2>(args, dxgkit::thunks::create_sync2);
}
NTSTATUS APIENTRY
D3DKMTDestroySynchronizationObject(const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT* args) {
  return call<D3DKMTDestroySynchronizationObject>(args, dxgkit::thunks::destroy_sync);
}
NTSTATUS APIENTRY
D3DKMTSignalSynchronizationObjectFromCpu(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU* args) {
  return call<D3DKMTSignalSynchronizationObjectFromCpu>(args, dxgkit::thunks::signal_from_cpu);
}
NTSTATUS APIENTRY
D3DKMTWaitForSynchronizationObjectFromCpu(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU* args) {
  return call<D3DKMTWaitForSynchronizationObjectFromCpu>(args, dxgkit::thunks::wait_from_cpu);
}
NTSTATUS APIENTRY
D3DKMTSignalSynchronizationObjectFromGpu(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU* args) {
  return call<D3DKMTSignalSynchronizationObjectFromGpu>(args, dxgkit::thunks::signal_from_gpu);
}
NTSTATUS APIENTRY
D3DKMTSignalSynchronizationObjectFromGpu2(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2* args) {
  return call<D3DKMTSignalSynchronizationObjectFromGpu2>(args, dxgkit::thunks::signal_from_gpu2);
}
NTSTATUS APIENTRY
D3DKMTWaitForSynchronizationObjectFromGpu(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU* args) {
  return call<D3DKMTWaitForSynchronizationObjectFromGpu>(args, dxgkit::thunks::wait_from_gpu);
}
NTSTATUS APIENTRY
D3DKMTSignalSynchronizationObject(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECT* args) {
  return call<D3DKMTSignalSynchronizationObject>(args, dxgkit::thunks::signal1);
}
NTSTATUS APIENTRY
D3DKMTSignalSynchronizationObject2(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2* args) {
  return call<D3DKMTSignalSynchronizationObject2>(args, dxgkit::thunks::signal2);
}
NTSTATUS APIENTRY
D3DKMTWaitForSynchronizationObject(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECT* args) {
  return call<D3DKMTWaitForSynchronizationObject>(
      args, dxgkit::thunks::wait_legacy<D3DKMT_WAITFORSYNCHRONIZATIONOBJECT>);
}
NTSTATUS APIENTRY
D3DKMTWaitForSynchronizationObject2(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2* args) {
  return call<D3DKMTWaitForSynchronizationObject2>(
      args, dxgkit::thunks::wait_legacy<D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2>);
}

}  // extern "C"
