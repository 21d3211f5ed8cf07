// Synchronisation objects: create, destroy, signal and wait from CPU and GPU.
#include <bit>

#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Context;
using dxgk::Device;
using dxgk::Process;
using dxgk::Ref;
using dxgk::SyncObject;
using vidsch::SyncKind;
using vidsch::SyncPoint;

constexpr UINT kMaxLegacyObjects = D3DDDI_MAX_OBJECT_SIGNALED;  // 32 (SYNC-06)
constexpr UINT kShared = 1U << 0;
constexpr UINT kNtSecuritySharing = 1U << 1;
constexpr UINT kTopOfPipeline = 1U << 3;
constexpr UINT kNoSignal = 1U << 4;
constexpr UINT kNoWait = 1U << 5;
constexpr UINT kDefinedSyncFlags = (1U << 11) - 1;
/// What needs nothing beyond a plain object: NoGPUAccess asks for less than we give.
constexpr UINT kHonouredSyncFlags = 1U << 7;

/// An event handle of a client is a file descriptor here (eventfd).
int event_descriptor(HANDLE event) { return static_cast<int>(reinterpret_cast<intptr_t>(event)); }

Status check_sync_flags(UINT flags, D3DDDI_SYNCHRONIZATIONOBJECT_TYPE type) {
  if ((flags & ~kDefinedSyncFlags) != 0) return Status::kInvalidParameter;
  const bool monitored = type == D3DDDI_MONITORED_FENCE || type == D3DDDI_PERIODIC_MONITORED_FENCE;
  if ((flags & kNtSecuritySharing) != 0 && (flags & kShared) == 0)
    return Status::kInvalidParameter;  // SYNC-09
  if (monitored && (flags & kShared) != 0 && (flags & kNtSecuritySharing) == 0)
    return Status::kInvalidParameter;
  if ((flags & (kTopOfPipeline | kNoSignal | kNoWait)) != 0 && !monitored)
    return Status::kInvalidParameter;  // SYNC-10
  if ((flags & kNoSignal) != 0 && (flags & kNoWait) != 0) return Status::kInvalidParameter;
  if ((flags & ~kHonouredSyncFlags) != 0) return Status::kNotSupported;
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
      if (args.Info.CPUNotification.Event == nullptr) return Status::kInvalidHandle;
      break;
    case D3DDDI_MONITORED_FENCE:
      request.kind = SyncKind::kMonitoredFence;
      request.initial = args.Info.MonitoredFence.InitialFenceValue;
      break;
    case D3DDDI_PERIODIC_MONITORED_FENCE:
      return Status::kNotSupported;
    default:
      return Status::kInvalidParameter;  // SYNC-01
  }
  DXGKIT_RETURN_IF_FAILED(check_sync_flags(args.Info.Flags.Value, args.Info.Type));
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> object, device->create_sync_object(request));
  args.hSyncObject = object->handle;
  args.Info.SharedHandle = 0;
  if (object->client_view) {
    args.Info.MonitoredFence.FenceValueCPUVirtualAddress = object->client_view->address();
    args.Info.MonitoredFence.FenceValueGPUVirtualAddress =
        0;  // no GPU addresses in the patch model
  }
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
  DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<SyncObject> object,
                                 process.handles().find<SyncObject>(args.hSyncObject));
  if (object->of_paging_queue) return Status::kInvalidParameter;  // PAGE-47
  DXGKIT_ASSIGN_OR_RETURN_STATUS(object, process.handles().take<SyncObject>(args.hSyncObject));
  object->device->adapter().while_stable([&] { object->device->destroy_sync_object(object); });
  return Status::kSuccess;
}

/// Handles and values of one signal or wait; every object must be on the adapter of `device`.
Status resolve_points(Process& process, Device& device, std::span<const D3DKMT_HANDLE> handles,
                      std::span<const UINT64> values, bool allow_rewind,
                      std::vector<SyncPoint>* points) {
  for (size_t i = 0; i < handles.size(); ++i) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> object,
                                   process.handles().find<SyncObject>(handles[i]));
    if (&object->device->adapter() != &device.adapter()) return Status::kInvalidParameter;
    points->push_back({object->id, values[i], allow_rewind});
  }
  return Status::kSuccess;
}

Status capture_points(Process& process, Device& device, const D3DKMT_HANDLE* handles,
                      const UINT64* values, UINT count, UINT most, bool allow_rewind,
                      std::vector<SyncPoint>* points) {
  if (count == 0) return Status::kInvalidParameter;
  std::vector<D3DKMT_HANDLE> captured_handles;
  std::vector<UINT64> captured_values;
  DXGKIT_RETURN_IF_FAILED(capture_array(handles, count, most, &captured_handles));
  DXGKIT_RETURN_IF_FAILED(capture_array(values, count, most, &captured_values));
  return resolve_points(process, device, captured_handles, captured_values, allow_rewind, points);
}

constexpr UINT kAllowFenceRewind = 1U << 2;

Status signal_from_cpu(Process& process, const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  if ((flags & ~kAllowFenceRewind) != 0) return Status::kInvalidParameter;
  std::vector<SyncPoint> points;
  DXGKIT_RETURN_IF_FAILED(capture_points(process, *device, args.ObjectHandleArray,
                                         args.FenceValueArray, args.ObjectCount, kMaxListElements,
                                         (flags & kAllowFenceRewind) != 0, &points));
  return device->signal_from_cpu(points);
}

Status wait_from_cpu(Process& process, const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  if ((flags & ~1U) != 0) return Status::kInvalidParameter;
  std::vector<SyncPoint> points;
  DXGKIT_RETURN_IF_FAILED(capture_points(process, *device, args.ObjectHandleArray,
                                         args.FenceValueArray, args.ObjectCount, kMaxListElements,
                                         false, &points));
  const auto mode = (flags & 1U) != 0 ? vidsch::WaitMode::kAny : vidsch::WaitMode::kAll;
  const int event = args.hAsyncEvent == nullptr ? -1 : event_descriptor(args.hAsyncEvent);
  return device->wait_from_cpu(points, mode, event);
}

Status signal_from_gpu(Process& process, const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  Device& device = context->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  std::vector<SyncPoint> points;
  DXGKIT_RETURN_IF_FAILED(capture_points(process, device, args.ObjectHandleArray,
                                         args.MonitoredFenceValueArray, args.ObjectCount,
                                         kMaxListElements, false, &points));
  return context->queue_sync(vidsch::PacketKind::kSignal, points);
}

Status wait_from_gpu(Process& process, const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  Device& device = context->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  std::vector<SyncPoint> points;
  DXGKIT_RETURN_IF_FAILED(capture_points(process, device, args.ObjectHandleArray,
                                         args.MonitoredFenceValueArray, args.ObjectCount,
                                         kMaxListElements, false, &points));
  return context->queue_sync(vidsch::PacketKind::kWait, points);
}

/// The legacy forms carry one fence value for all objects.
Status queue_legacy(Process& process, D3DKMT_HANDLE context_handle, vidsch::PacketKind kind,
                    UINT count, const D3DKMT_HANDLE* handles, UINT64 value, bool allow_rewind) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(context_handle));
  Device& device = context->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  if (count == 0 || count > kMaxLegacyObjects) return Status::kInvalidParameter;
  const std::vector<UINT64> values(count, value);
  std::vector<SyncPoint> points;
  DXGKIT_RETURN_IF_FAILED(
      resolve_points(process, device, std::span(handles, count), values, allow_rewind, &points));
  return context->queue_sync(kind, points);
}

Status signal2(Process& process, const D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2& args) {
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  if (args.BroadcastContextCount > D3DDDI_MAX_BROADCAST_CONTEXT) return Status::kInvalidParameter;
  if ((flags & ~7U) != 0) return Status::kInvalidParameter;
  if ((flags & 2U) != 0 && args.ObjectCount != 0) return Status::kInvalidParameter;  // SYNC-07
  if ((flags & 3U) != 0) return Status::kNotSupported;  // SignalAtSubmission, EnqueueCpuEvent
  if (args.BroadcastContextCount != 0) return Status::kNotSupported;
  return queue_legacy(process, args.hContext, vidsch::PacketKind::kSignal, args.ObjectCount,
                      args.ObjectHandleArray, args.Fence.FenceValue,
                      (flags & kAllowFenceRewind) != 0);
}

Status signal1(Process& process, const D3DKMT_SIGNALSYNCHRONIZATIONOBJECT& args) {
  if (std::bit_cast<UINT>(args.Flags) != 0) return Status::kNotSupported;
  return queue_legacy(process, args.hContext, vidsch::PacketKind::kSignal, args.ObjectCount,
                      args.ObjectHandleArray, 0, false);
}

Status wait2(Process& process, const D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2& args) {
  return queue_legacy(process, args.hContext, vidsch::PacketKind::kWait, args.ObjectCount,
                      args.ObjectHandleArray, args.Fence.FenceValue, false);
}

Status wait1(Process& process, const D3DKMT_WAITFORSYNCHRONIZATIONOBJECT& args) {
  return queue_legacy(process, args.hContext, vidsch::PacketKind::kWait, args.ObjectCount,
                      args.ObjectHandleArray, 0, false);
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;
using dxgkit::thunks::WriteBack;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreateSynchronizationObject(D3DKMT_CREATESYNCHRONIZATIONOBJECT* args) {
  return call("D3DKMTCreateSynchronizationObject", args, WriteBack::kOnSuccess,
              dxgkit::thunks::create_sync1);
}
NTSTATUS APIENTRY D3DKMTCreateSynchronizationObject2(D3DKMT_CREATESYNCHRONIZATIONOBJECT2* args) {
  return call("D3DKMTCreateSynchronizationObject2", args, WriteBack::kOnSuccess,
              dxgkit::thunks::create_sync2);
}
NTSTATUS APIENTRY
D3DKMTDestroySynchronizationObject(const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT* args) {
  return call("D3DKMTDestroySynchronizationObject", args, WriteBack::kNever,
              dxgkit::thunks::destroy_sync);
}
NTSTATUS APIENTRY
D3DKMTSignalSynchronizationObjectFromCpu(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU* args) {
  return call("D3DKMTSignalSynchronizationObjectFromCpu", args, WriteBack::kNever,
              dxgkit::thunks::signal_from_cpu);
}
NTSTATUS APIENTRY
D3DKMTWaitForSynchronizationObjectFromCpu(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU* args) {
  return call("D3DKMTWaitForSynchronizationObjectFromCpu", args, WriteBack::kNever,
              dxgkit::thunks::wait_from_cpu);
}
NTSTATUS APIENTRY
D3DKMTSignalSynchronizationObjectFromGpu(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU* args) {
  return call("D3DKMTSignalSynchronizationObjectFromGpu", args, WriteBack::kNever,
              dxgkit::thunks::signal_from_gpu);
}
NTSTATUS APIENTRY
D3DKMTWaitForSynchronizationObjectFromGpu(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU* args) {
  return call("D3DKMTWaitForSynchronizationObjectFromGpu", args, WriteBack::kNever,
              dxgkit::thunks::wait_from_gpu);
}
NTSTATUS APIENTRY
D3DKMTSignalSynchronizationObject(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECT* args) {
  return call("D3DKMTSignalSynchronizationObject", args, WriteBack::kNever,
              dxgkit::thunks::signal1);
}
NTSTATUS APIENTRY
D3DKMTSignalSynchronizationObject2(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2* args) {
  return call("D3DKMTSignalSynchronizationObject2", args, WriteBack::kNever,
              dxgkit::thunks::signal2);
}
NTSTATUS APIENTRY
D3DKMTWaitForSynchronizationObject(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECT* args) {
  return call("D3DKMTWaitForSynchronizationObject", args, WriteBack::kNever, dxgkit::thunks::wait1);
}
NTSTATUS APIENTRY
D3DKMTWaitForSynchronizationObject2(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2* args) {
  return call("D3DKMTWaitForSynchronizationObject2", args, WriteBack::kNever,
              dxgkit::thunks::wait2);
}

}  // extern "C"
