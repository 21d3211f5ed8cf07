// Synchronization objects, on contexts and from the CPU.
#include <algorithm>

#include "umd/call.h"

namespace dxgkit::umd {
namespace {

/// Of both versions, which have different infos.
template <typename Kernel, typename Args>
HRESULT create(const RuntimeDevice& device, Args& args, NTSTATUS (*thunk)(Kernel*)) {
  Kernel create{};
  create.hDevice = device.kernel_handle();
  create.Info = args.Info;
  const HRESULT result = to_hresult(thunk(&create));
  if (!succeeded(result)) return result;
  args.Info = create.Info;  // with the addresses of a monitored fence
  args.hSyncObject = create.hSyncObject;
  return result;
}

/// The part that wait and signal of both old versions have.
template <typename Kernel, typename Args>
bool name_objects(const Args& args, Kernel* kernel) {
  static_assert(sizeof(args.ObjectHandleArray) == sizeof(kernel->ObjectHandleArray));
  kernel->ObjectCount = args.ObjectCount;
  std::ranges::copy(args.ObjectHandleArray, kernel->ObjectHandleArray);
  return to_kernel(args.hContext, &kernel->hContext);
}

HRESULT signal(const RuntimeDevice&, const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT& args) {
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECT signal{};
  if (!name_objects(args, &signal)) return E_INVALIDARG;
  signal.Flags = args.Flags;
  return to_hresult(D3DKMTSignalSynchronizationObject(&signal));
}

HRESULT signal2(const RuntimeDevice&, const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2& args) {
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 signal{};
  if (!name_objects(args, &signal)) return E_INVALIDARG;
  if (!to_kernel(args.BroadcastContext, args.BroadcastContextCount, signal.BroadcastContext))
    return E_INVALIDARG;
  signal.Flags = args.Flags;
  signal.BroadcastContextCount = args.BroadcastContextCount;
  signal.Fence.FenceValue = args.FenceValue;  // or the event: both are 64 bits of one union
  return to_hresult(D3DKMTSignalSynchronizationObject2(&signal));
}

HRESULT wait(const RuntimeDevice&, const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT& args) {
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECT wait{};
  if (!name_objects(args, &wait)) return E_INVALIDARG;
  return to_hresult(D3DKMTWaitForSynchronizationObject(&wait));
}

HRESULT wait2(const RuntimeDevice&, const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2& args) {
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 wait{};
  if (!name_objects(args, &wait)) return E_INVALIDARG;
  wait.Fence.FenceValue = args.FenceValue;
  return to_hresult(D3DKMTWaitForSynchronizationObject2(&wait));
}

HRESULT wait_from_cpu(const RuntimeDevice& device,
                      const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU& args) {
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
  wait.hDevice = device.kernel_handle();
  wait.ObjectCount = args.ObjectCount;
  wait.ObjectHandleArray = args.ObjectHandleArray;
  wait.FenceValueArray = args.FenceValueArray;
  wait.hAsyncEvent = args.hAsyncEvent;
  wait.Flags = args.Flags;
  return to_hresult(D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
}

HRESULT signal_from_cpu(const RuntimeDevice& device,
                        const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU& args) {
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal{};
  signal.hDevice = device.kernel_handle();
  signal.ObjectCount = args.ObjectCount;
  signal.ObjectHandleArray = args.ObjectHandleArray;
  signal.FenceValueArray = args.FenceValueArray;
  return to_hresult(D3DKMTSignalSynchronizationObjectFromCpu(&signal));
}

HRESULT wait_from_gpu(const RuntimeDevice&,
                      const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU& args) {
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait{};
  if (!to_kernel(args.hContext, &wait.hContext)) return E_INVALIDARG;
  wait.ObjectCount = args.ObjectCount;
  wait.ObjectHandleArray = args.ObjectHandleArray;
  std::ranges::copy(args.Reserved, wait.Reserved);  // the union with the values
  return to_hresult(D3DKMTWaitForSynchronizationObjectFromGpu(&wait));
}

HRESULT signal_from_gpu(const RuntimeDevice&,
                        const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU& args) {
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal{};
  if (!to_kernel(args.hContext, &signal.hContext)) return E_INVALIDARG;
  signal.ObjectCount = args.ObjectCount;
  signal.ObjectHandleArray = args.ObjectHandleArray;
  std::ranges::copy(args.Reserved, signal.Reserved);  // the union with the values
  return to_hresult(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
}

HRESULT signal_from_gpu2(const RuntimeDevice&,
                         const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2& args) {
  std::vector<D3DKMT_HANDLE> contexts;
  if (!to_kernel(args.BroadcastContextArray, args.BroadcastContextCount, &contexts))
    return E_INVALIDARG;
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 signal{};
  signal.ObjectCount = args.ObjectCount;
  signal.ObjectHandleArray = args.ObjectHandleArray;
  signal.Flags = args.Flags;
  signal.BroadcastContextCount = args.BroadcastContextCount;
  signal.BroadcastContextArray = contexts.data();
  std::ranges::copy(args.Reserved, signal.Reserved);  // the union with the values and the event
  return to_hresult(D3DKMTSignalSynchronizationObjectFromGpu2(&signal));
}

}  // namespace

HRESULT APIENTRY CreateSynchronizationObjectCb(HANDLE device,
                                               D3DDDICB_CREATESYNCHRONIZATIONOBJECT* args) {
  return device_call(device, args, Outputs::kOnSuccess, [](auto& on, auto& in) {
    return create(on, in, D3DKMTCreateSynchronizationObject);
  });
}
HRESULT APIENTRY CreateSynchronizationObject2Cb(HANDLE device,
                                                D3DDDICB_CREATESYNCHRONIZATIONOBJECT2* args) {
  return device_call(device, args, Outputs::kOnSuccess, [](auto& on, auto& in) {
    return create(on, in, D3DKMTCreateSynchronizationObject2);
  });
}
HRESULT APIENTRY DestroySynchronizationObjectCb(HANDLE device,
                                                const D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT* args) {
  return device_call(device, args, Outputs::kNever, [](auto&, auto& in) {
    const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{.hSyncObject = in.hSyncObject};
    return to_hresult(D3DKMTDestroySynchronizationObject(&destroy));
  });
}
HRESULT APIENTRY SignalSynchronizationObjectCb(HANDLE device,
                                               const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT* args) {
  return device_call(device, args, Outputs::kNever, signal);
}
HRESULT APIENTRY SignalSynchronizationObject2Cb(HANDLE device,
                                                const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2* args) {
  return device_call(device, args, Outputs::kNever, signal2);
}
HRESULT APIENTRY WaitForSynchronizationObjectCb(HANDLE device,
                                                const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT* args) {
  return device_call(device, args, Outputs::kNever, wait);
}
HRESULT APIENTRY
WaitForSynchronizationObject2Cb(HANDLE device, const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2* args) {
  return device_call(device, args, Outputs::kNever, wait2);
}
HRESULT APIENTRY WaitForSynchronizationObjectFromCpuCb(
    HANDLE device, const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU* args) {
  return device_call(device, args, Outputs::kNever, wait_from_cpu);
}
HRESULT APIENTRY SignalSynchronizationObjectFromCpuCb(
    HANDLE device, const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU* args) {
  return device_call(device, args, Outputs::kNever, signal_from_cpu);
}
HRESULT APIENTRY WaitForSynchronizationObjectFromGpuCb(
    HANDLE device, const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU* args) {
  return device_call(device, args, Outputs::kNever, wait_from_gpu);
}
HRESULT APIENTRY SignalSynchronizationObjectFromGpuCb(
    HANDLE device, const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU* args) {
  return device_call(device, args, Outputs::kNever, signal_from_gpu);
}
HRESULT APIENTRY SignalSynchronizationObjectFromGpu2Cb(
    HANDLE device, const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2* args) {
  return device_call(device, args, Outputs::kNever, signal_from_gpu2);
}

}  // namespace dxgkit::umd
