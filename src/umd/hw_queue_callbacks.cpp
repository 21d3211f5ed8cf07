// Hardware contexts and hardware queues.
#include "umd/call.h"

namespace dxgkit::umd {
namespace {

HRESULT create_context(const RuntimeDevice& device, D3DDDICB_CREATEHWCONTEXT& args) {
  D3DKMT_CREATEHWCONTEXT create{};
  create.hDevice = device.kernel_handle();
  create.NodeOrdinal = args.NodeOrdinal;
  create.EngineAffinity = args.EngineAffinity;
  create.Flags = args.Flags;
  create.PrivateDriverDataSize = args.PrivateDriverDataSize;
  create.pPrivateDriverData = args.pPrivateDriverData;
  const HRESULT result = to_hresult(D3DKMTCreateHwContext(&create));
  if (succeeded(result)) args.hHwContext = to_runtime(create.hHwContext);
  return result;
}

HRESULT destroy_context(const RuntimeDevice&, const D3DDDICB_DESTROYHWCONTEXT& args) {
  D3DKMT_DESTROYHWCONTEXT destroy{};
  if (!to_kernel(args.hHwContext, &destroy.hHwContext)) return E_INVALIDARG;
  return to_hresult(D3DKMTDestroyHwContext(&destroy));
}

HRESULT create_queue(const RuntimeDevice&, D3DDDICB_CREATEHWQUEUE& args) {
  D3DKMT_CREATEHWQUEUE create{};
  if (!to_kernel(args.hHwContext, &create.hHwContext)) return E_INVALIDARG;
  create.Flags = args.Flags;
  create.PrivateDriverDataSize = args.PrivateDriverDataSize;
  create.pPrivateDriverData = args.pPrivateDriverData;
  const HRESULT result = to_hresult(D3DKMTCreateHwQueue(&create));
  if (!succeeded(result)) return result;
  args.hHwQueue = to_runtime(create.hHwQueue);
  args.hHwQueueProgressFence = create.hHwQueueProgressFence;
  args.HwQueueProgressFenceCPUVirtualAddress = create.HwQueueProgressFenceCPUVirtualAddress;
  args.HwQueueProgressFenceGPUVirtualAddress = create.HwQueueProgressFenceGPUVirtualAddress;
  return result;
}

HRESULT destroy_queue(const RuntimeDevice&, const D3DDDICB_DESTROYHWQUEUE& args) {
  D3DKMT_DESTROYHWQUEUE destroy{};
  if (!to_kernel(args.hHwQueue, &destroy.hHwQueue)) return E_INVALIDARG;
  return to_hresult(D3DKMTDestroyHwQueue(&destroy));
}

HRESULT submit_command(const RuntimeDevice&, const D3DDDICB_SUBMITCOMMANDTOHWQUEUE& args) {
  D3DKMT_SUBMITCOMMANDTOHWQUEUE submit{};
  if (!to_kernel(args.hHwQueue, &submit.hHwQueue)) return E_INVALIDARG;
  if (args.Flags.Value != 0) return E_INVALIDARG;  // none is defined
  submit.HwQueueProgressFenceId = args.HwQueueProgressFenceId;
  submit.CommandBuffer = args.Commands;
  submit.CommandLength = args.CommandLength;
  submit.PrivateDriverDataSize = args.PrivateDriverDataSize;
  submit.pPrivateDriverData = args.pPrivateDriverData;
  submit.NumPrimaries = args.NumPrimaries;
  submit.WrittenPrimaries = args.WrittenPrimaries;
  return to_hresult(D3DKMTSubmitCommandToHwQueue(&submit));
}

HRESULT submit_wait(const RuntimeDevice&, const D3DDDICB_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE& args) {
  D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE wait{};
  if (!to_kernel(args.hHwQueue, &wait.hHwQueue)) return E_INVALIDARG;
  wait.ObjectCount = args.ObjectCount;
  wait.ObjectHandleArray = args.ObjectHandleArray;
  wait.FenceValueArray = args.FenceValueArray;
  return to_hresult(D3DKMTSubmitWaitForSyncObjectsToHwQueue(&wait));
}

HRESULT submit_signal(const RuntimeDevice&, const D3DDDICB_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE& args) {
  std::vector<D3DKMT_HANDLE> queues;
  if (!to_kernel(args.BroadcastHwQueueArray, args.BroadcastHwQueueCount, &queues))
    return E_INVALIDARG;
  D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE signal{};
  signal.Flags = args.Flags;
  signal.BroadcastHwQueueCount = args.BroadcastHwQueueCount;
  signal.BroadcastHwQueueArray = queues.data();
  signal.ObjectCount = args.ObjectCount;
  signal.ObjectHandleArray = args.ObjectHandleArray;
  signal.FenceValueArray = args.FenceValueArray;
  return to_hresult(D3DKMTSubmitSignalSyncObjectsToHwQueue(&signal));
}

}  // namespace

HRESULT APIENTRY CreateHwContextCb(HANDLE device, D3DDDICB_CREATEHWCONTEXT* args) {
  return device_call(device, args, Outputs::kOnSuccess, create_context);
}
HRESULT APIENTRY DestroyHwContextCb(HANDLE device, const D3DDDICB_DESTROYHWCONTEXT* args) {
  return device_call(device, args, Outputs::kNever, destroy_context);
}
HRESULT APIENTRY CreateHwQueueCb(HANDLE device, D3DDDICB_CREATEHWQUEUE* args) {
  return device_call(device, args, Outputs::kOnSuccess, create_queue);
}
HRESULT APIENTRY DestroyHwQueueCb(HANDLE device, const D3DDDICB_DESTROYHWQUEUE* args) {
  return device_call(device, args, Outputs::kNever, destroy_queue);
}
HRESULT APIENTRY SubmitCommandToHwQueueCb(HANDLE device,
                                          const D3DDDICB_SUBMITCOMMANDTOHWQUEUE* args) {
  return device_call(device, args, Outputs::kNever, submit_command);
}
HRESULT APIENTRY SubmitWaitForSyncObjectsToHwQueueCb(
    HANDLE device, const D3DDDICB_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE* args) {
  return device_call(device, args, Outputs::kNever, submit_wait);
}
HRESULT APIENTRY SubmitSignalSyncObjectsToHwQueueCb(
    HANDLE device, const D3DDDICB_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE* args) {
  return device_call(device, args, Outputs::kNever, submit_signal);
}

}  // namespace dxgkit::umd
