// Contexts and the work on them: render, submit, present, the display mode.
#include <algorithm>

#include "umd/call.h"

namespace dxgkit::umd {
namespace {

HRESULT create_context(const RuntimeDevice& device, D3DDDICB_CREATECONTEXT& args) {
  D3DKMT_CREATECONTEXT create{};
  create.hDevice = device.kernel_handle();
  create.NodeOrdinal = args.NodeOrdinal;
  create.EngineAffinity = args.EngineAffinity;
  create.Flags = args.Flags;
  create.pPrivateDriverData = args.pPrivateDriverData;
  create.PrivateDriverDataSize = args.PrivateDriverDataSize;
  create.ClientHint = D3DKMT_CLIENTHINT_UNKNOWN;
  const HRESULT result = to_hresult(D3DKMTCreateContext(&create));
  if (!succeeded(result)) return result;
  args.hContext = to_runtime(create.hContext);
  args.pCommandBuffer = create.pCommandBuffer;
  args.CommandBufferSize = create.CommandBufferSize;
  args.pAllocationList = create.pAllocationList;
  args.AllocationListSize = create.AllocationListSize;
  args.pPatchLocationList = create.pPatchLocationList;
  args.PatchLocationListSize = create.PatchLocationListSize;
  args.CommandBuffer = create.CommandBuffer;
  return result;
}

HRESULT create_context_virtual(const RuntimeDevice& device, D3DDDICB_CREATECONTEXTVIRTUAL& args) {
  D3DKMT_CREATECONTEXTVIRTUAL create{};
  create.hDevice = device.kernel_handle();
  create.NodeOrdinal = args.NodeOrdinal;
  create.EngineAffinity = args.EngineAffinity;
  create.Flags = args.Flags;
  create.pPrivateDriverData = args.pPrivateDriverData;
  create.PrivateDriverDataSize = args.PrivateDriverDataSize;
  create.ClientHint = D3DKMT_CLIENTHINT_UNKNOWN;
  const HRESULT result = to_hresult(D3DKMTCreateContextVirtual(&create));
  if (succeeded(result)) args.hContext = to_runtime(create.hContext);
  return result;
}

HRESULT destroy_context(const RuntimeDevice&, const D3DDDICB_DESTROYCONTEXT& args) {
  D3DKMT_DESTROYCONTEXT destroy{};
  if (!to_kernel(args.hContext, &destroy.hContext)) return E_INVALIDARG;
  return to_hresult(D3DKMTDestroyContext(&destroy));
}

HRESULT render(const RuntimeDevice& device, D3DDDICB_RENDER& args) {
  D3DKMT_RENDER render{};
  render.hDevice = device.kernel_handle();
  if (!to_kernel(args.hContext, &render.hContext)) return E_INVALIDARG;
  if (!to_kernel(args.BroadcastContext, args.BroadcastContextCount, render.BroadcastContext))
    return E_INVALIDARG;
  if (args.Flags.Reserved != 0) return E_INVALIDARG;  // the kernel gives these bits other meanings
  render.BroadcastContextCount = args.BroadcastContextCount;
  render.CommandOffset = args.CommandOffset;
  render.CommandLength = args.CommandLength;
  render.AllocationCount = args.NumAllocations;
  render.PatchLocationCount = args.NumPatchLocations;
  render.NewCommandBufferSize = args.NewCommandBufferSize;
  render.NewAllocationListSize = args.NewAllocationListSize;
  render.NewPatchLocationListSize = args.NewPatchLocationListSize;
  render.Flags.ResizeCommandBuffer = args.Flags.ResizeCommandBuffer;
  render.Flags.ResizeAllocationList = args.Flags.ResizeAllocationList;
  render.Flags.ResizePatchLocationList = args.Flags.ResizePatchLocationList;
  render.Flags.NullRendering = args.Flags.NullRendering;
  render.pPrivateDriverData = args.pPrivateDriverData;
  render.PrivateDriverDataSize = args.PrivateDriverDataSize;
  const NTSTATUS status = D3DKMTRender(&render);
  // The next buffers come with failures, too (THUNK-15). Without them the driver's are still valid.
  if (render.pNewCommandBuffer != nullptr) {
    args.pNewCommandBuffer = render.pNewCommandBuffer;
    args.NewCommandBufferSize = render.NewCommandBufferSize;
    args.pNewAllocationList = render.pNewAllocationList;
    args.NewAllocationListSize = render.NewAllocationListSize;
    args.pNewPatchLocationList = render.pNewPatchLocationList;
    args.NewPatchLocationListSize = render.NewPatchLocationListSize;
    args.QueuedBufferCount = render.QueuedBufferCount;
    args.NewCommandBuffer = render.NewCommandBuffer;
  }
  // Only here is the handle one in the command buffer or in the allocation list.
  return status == STATUS_INVALID_HANDLE ? D3DDDIERR_INVALIDHANDLE : to_hresult(status);
}

HRESULT submit_command(const RuntimeDevice&, const D3DDDICB_SUBMITCOMMAND& args) {
  D3DKMT_SUBMITCOMMAND submit{};
  if (!to_kernel(args.BroadcastContext, args.BroadcastContextCount, submit.BroadcastContext))
    return E_INVALIDARG;
  if (args.Flags.Reserved != 0) return E_INVALIDARG;  // the kernel gives these bits other meanings
  submit.Commands = args.Commands;
  submit.CommandLength = args.CommandLength;
  submit.Flags.NullRendering = args.Flags.NullRendering;
  submit.BroadcastContextCount = args.BroadcastContextCount;
  submit.pPrivateDriverData = args.pPrivateDriverData;
  submit.PrivateDriverDataSize = args.PrivateDriverDataSize;
  submit.NumPrimaries = args.NumPrimaries;
  static_assert(sizeof(args.WrittenPrimaries) == sizeof(submit.WrittenPrimaries));
  std::ranges::copy(args.WrittenPrimaries, submit.WrittenPrimaries);
  submit.NumHistoryBuffers = args.NumHistoryBuffers;
  submit.HistoryBufferArray = args.HistoryBufferArray;
  return to_hresult(D3DKMTSubmitCommand(&submit));
}

/// What the application asked for, with what the driver chose.
HRESULT present(const RuntimeDevice& device, D3DDDICB_PRESENT& args) {
  if (device.present() == nullptr) return E_INVALIDARG;
  D3DKMT_PRESENT present = *device.present();
  if (!to_kernel(args.hContext, &present.hContext)) return E_INVALIDARG;
  if (!to_kernel(args.BroadcastContext, args.BroadcastContextCount, present.BroadcastContext))
    return E_INVALIDARG;
  present.BroadcastContextCount = args.BroadcastContextCount;
  present.hSource = args.hSrcAllocation;
  present.hDestination = args.hDstAllocation;
  present.BroadcastSrcAllocation = args.BroadcastSrcAllocation;
  present.BroadcastDstAllocation = args.BroadcastDstAllocation;
  present.PrivateDriverDataSize = args.PrivateDriverDataSize;
  present.pPrivateDriverData = args.pPrivateDriverData;
  present.bOptimizeForComposition = args.bOptimizeForComposition;
  if (args.SyncIntervalOverrideValid != 0) present.FlipInterval = args.SyncIntervalOverride;
  return to_hresult(D3DKMTPresent(&present));
}

HRESULT set_display_mode(const RuntimeDevice& device, D3DDDICB_SETDISPLAYMODE& args) {
  D3DKMT_SETDISPLAYMODE set{};
  set.hDevice = device.kernel_handle();
  set.hPrimaryAllocation = args.hPrimaryAllocation;
  const NTSTATUS status = D3DKMTSetDisplayMode(&set);
  // It says which format to convert to.
  if (status == STATUS_GRAPHICS_INCOMPATIBLE_PRIVATE_FORMAT)
    args.PrivateDriverFormatAttribute = set.PrivateDriverFormatAttribute;
  return to_hresult(status);
}

HRESULT set_private_format(const RuntimeDevice& device,
                           const D3DDDICB_SETDISPLAYPRIVATEDRIVERFORMAT& args) {
  D3DKMT_SETDISPLAYPRIVATEDRIVERFORMAT set{};
  set.hDevice = device.kernel_handle();
  set.VidPnSourceId = args.VidPnSourceId;
  set.PrivateDriverFormatAttribute = args.PrivateDriverFormatAttribute;
  return to_hresult(D3DKMTSetDisplayPrivateDriverFormat(&set));
}

}  // namespace

HRESULT APIENTRY CreateContextCb(HANDLE device, D3DDDICB_CREATECONTEXT* args) {
  return device_call(device, args, Outputs::kOnSuccess, create_context);
}
HRESULT APIENTRY CreateContextVirtualCb(HANDLE device, D3DDDICB_CREATECONTEXTVIRTUAL* args) {
  return device_call(device, args, Outputs::kOnSuccess, create_context_virtual);
}
HRESULT APIENTRY DestroyContextCb(HANDLE device, const D3DDDICB_DESTROYCONTEXT* args) {
  return device_call(device, args, Outputs::kNever, destroy_context);
}
HRESULT APIENTRY RenderCb(HANDLE device, D3DDDICB_RENDER* args) {
  return device_call(device, args, Outputs::kAlways, render);
}
HRESULT APIENTRY SubmitCommandCb(HANDLE device, const D3DDDICB_SUBMITCOMMAND* args) {
  return device_call(device, args, Outputs::kNever, submit_command);
}
HRESULT APIENTRY PresentCb(HANDLE device, D3DDDICB_PRESENT* args) {
  return device_call(device, args, Outputs::kNever, present);
}
HRESULT APIENTRY SetDisplayModeCb(HANDLE device, D3DDDICB_SETDISPLAYMODE* args) {
  return device_call(device, args, Outputs::kAlways, set_display_mode);
}
HRESULT APIENTRY
SetDisplayPrivateDriverFormatCb(HANDLE device, const D3DDDICB_SETDISPLAYPRIVATEDRIVERFORMAT* args) {
  return device_call(device, args, Outputs::kNever, set_private_format);
}
HRESULT APIENTRY SetAsyncCallbacksCb(HANDLE device, BOOL) {
  return RuntimeDevice::find(device) != nullptr ? S_OK : E_INVALIDARG;
}

}  // namespace dxgkit::umd
