// Explicit residency and GPU virtual addresses.
#include "umd/call.h"

namespace dxgkit::umd {
namespace {

HRESULT create_paging_queue(const RuntimeDevice& device, D3DDDICB_CREATEPAGINGQUEUE& args) {
  D3DKMT_CREATEPAGINGQUEUE create{};
  create.hDevice = device.kernel_handle();
  create.Priority = args.Priority;
  create.PhysicalAdapterIndex = args.PhysicalAdapterIndex;
  const HRESULT result = to_hresult(D3DKMTCreatePagingQueue(&create));
  if (!succeeded(result)) return result;
  args.hPagingQueue = create.hPagingQueue;
  args.hSyncObject = create.hSyncObject;
  args.FenceValueCPUVirtualAddress = create.FenceValueCPUVirtualAddress;
  return result;
}

HRESULT evict(const RuntimeDevice& device, D3DDDICB_EVICT& args) {
  D3DKMT_EVICT evict{};
  evict.hDevice = device.kernel_handle();
  evict.NumAllocations = args.NumAllocations;
  evict.AllocationList = args.AllocationList;
  evict.Flags = args.Flags;
  const HRESULT result = to_hresult(D3DKMTEvict(&evict));
  if (succeeded(result)) args.NumBytesToTrim = evict.NumBytesToTrim;
  return result;
}

HRESULT free_address(const RuntimeDevice& device, const D3DDDICB_FREEGPUVIRTUALADDRESS& args) {
  D3DKMT_FREEGPUVIRTUALADDRESS free{};
  free.hAdapter = device.adapter().kernel_handle();
  free.BaseAddress = args.BaseAddress;
  free.Size = args.Size;
  return to_hresult(D3DKMTFreeGpuVirtualAddress(&free));
}

HRESULT update_addresses(const RuntimeDevice& device,
                         const D3DDDICB_UPDATEGPUVIRTUALADDRESS& args) {
  D3DKMT_UPDATEGPUVIRTUALADDRESS update{};
  update.hDevice = device.kernel_handle();
  if (!to_kernel(args.hContext, &update.hContext)) return E_INVALIDARG;
  update.hFenceObject = args.hFenceObject;
  update.NumOperations = args.NumOperations;
  update.Operations = args.Operations;
  update.Reserved0 = args.Reserved0;
  update.Reserved1 = args.Reserved1;
  update.FenceValue = args.FenceValue;
  update.Flags.Value = args.Flags.Value;
  return to_hresult(D3DKMTUpdateGpuVirtualAddress(&update));
}

}  // namespace

HRESULT APIENTRY CreatePagingQueueCb(HANDLE device, D3DDDICB_CREATEPAGINGQUEUE* args) {
  return device_call(device, args, Outputs::kOnSuccess, create_paging_queue);
}
HRESULT APIENTRY DestroyPagingQueueCb(HANDLE device, const D3DDDI_DESTROYPAGINGQUEUE* args) {
  return device_call(device, args, Outputs::kNever, [](auto&, auto& in) {
    D3DDDI_DESTROYPAGINGQUEUE destroy = in;
    return to_hresult(D3DKMTDestroyPagingQueue(&destroy));
  });
}
HRESULT APIENTRY MakeResidentCb(HANDLE device, D3DDDI_MAKERESIDENT* args) {
  return forward(device, args, D3DKMTMakeResident);
}
HRESULT APIENTRY EvictCb(HANDLE device, D3DDDICB_EVICT* args) {
  return device_call(device, args, Outputs::kOnSuccess, evict);
}
HRESULT APIENTRY ReserveGpuVirtualAddressCb(HANDLE device, D3DDDI_RESERVEGPUVIRTUALADDRESS* args) {
  return forward(device, args, D3DKMTReserveGpuVirtualAddress);
}
HRESULT APIENTRY MapGpuVirtualAddressCb(HANDLE device, D3DDDI_MAPGPUVIRTUALADDRESS* args) {
  return forward(device, args, D3DKMTMapGpuVirtualAddress);
}
HRESULT APIENTRY FreeGpuVirtualAddressCb(HANDLE device,
                                         const D3DDDICB_FREEGPUVIRTUALADDRESS* args) {
  return device_call(device, args, Outputs::kNever, free_address);
}
HRESULT APIENTRY UpdateGpuVirtualAddressCb(HANDLE device,
                                           const D3DDDICB_UPDATEGPUVIRTUALADDRESS* args) {
  return device_call(device, args, Outputs::kNever, update_addresses);
}

}  // namespace dxgkit::umd
