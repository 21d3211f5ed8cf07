// GPU virtual addresses: reserve, map, free, update.
#include "dxgk/memory/paging_queue.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Context;
using dxgk::Device;
using dxgk::OpenedAllocation;
using dxgk::PagingQueue;
using dxgk::Process;
using dxgk::Ref;
using dxgk::SyncObject;

/// STATUS_PENDING accompanies a fence value that is still to come (VA-27).
Status pending_or_done(uint64_t fence) { return fence == 0 ? Status::kSuccess : Status::kPending; }

/// VA-21: the protections that a client may ask for. The address space checks their combinations.
Status capture_protection(const D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE& asked,
                          gpuva::Protection* out) {
  if (asked.Reserved != 0 || asked.SystemUseOnly != 0) return Status::kInvalidParameter;
  *out = {.write = asked.Write != 0,
          .execute = asked.Execute != 0,
          .zero = asked.Zero != 0,
          .no_access = asked.NoAccess != 0};
  return Status::kSuccess;
}

/// The allocation a client names, on the adapter whose addresses it is mapped to; null for handle
/// 0.
Status find_allocation(Process& process, Adapter& adapter, D3DKMT_HANDLE handle,
                       Ref<OpenedAllocation>* out) {
  if (handle == 0) return Status::kSuccess;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(*out, process.handles().find<OpenedAllocation>(handle));
  return &(*out)->device->floor() == &adapter.floor() ? Status::kSuccess
                                                      : Status::kInvalidParameter;
}

Status map(Process& process, D3DDDI_MAPGPUVIRTUALADDRESS& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<PagingQueue> queue,
                                 process.handles().find<PagingQueue>(args.hPagingQueue));  // VA-10
  Adapter& adapter = adapter_of(queue->device().floor());
  DXGKIT_ENTER(adapter);
  if (queue->device().device().lost()) return Status::kDeviceRemoved;
  if (adapter.floor().gpu_va == nullptr) return Status::kInvalidParameter;           // VA-01
  if (args.Reserved0 != 0 || args.Reserved1 != 0) return Status::kInvalidParameter;  // VA-25
  gpuva::MapRequest request;
  request.base = args.BaseAddress;
  request.minimum = args.MinimumAddress;
  request.maximum = args.MaximumAddress;
  request.offset_pages = args.OffsetInPages;
  request.size_pages = args.SizeInPages;
  request.driver_protection = args.DriverProtection;
  DXGKIT_RETURN_IF_FAILED(capture_protection(args.Protection, &request.protection));
  Ref<OpenedAllocation> opened;
  DXGKIT_RETURN_IF_FAILED(find_allocation(process, adapter, args.hAllocation, &opened));
  const dxgk::GpuVaOutcome outcome = adapter.floor().client_addresses->map(*queue, request, opened);
  if (!is_success(outcome.status)) return outcome.status;
  args.VirtualAddress = outcome.address;
  args.PagingFenceValue = outcome.fence;
  return pending_or_done(outcome.fence);
}

/// The adapter comes from the paging queue, which orders the call. A plain reservation does not
/// involve the queue and names only the adapter.
Status reserve(Process& process, D3DDDI_RESERVEGPUVIRTUALADDRESS& args) {
  Ref<PagingQueue> queue;
  Ref<Adapter> adapter;
  if (Result<Ref<PagingQueue>> found = process.handles().find<PagingQueue>(args.hPagingQueue)) {
    queue = std::move(*found);
    adapter = Ref<Adapter>(&adapter_of(queue->device().floor()));
  } else {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(adapter, process.handles().find<Adapter>(args.hAdapter));
  }
  DXGKIT_ENTER(*adapter);
  if (queue && queue->device().device().lost()) return Status::kDeviceRemoved;
  if (adapter->floor().gpu_va == nullptr) return Status::kInvalidParameter;
  gpuva::ReserveRequest request;
  request.base = args.BaseAddress;
  request.minimum = args.MinimumAddress;
  request.maximum = args.MaximumAddress;
  request.size = args.Size;
  if (queue) {
    if (static_cast<uint32_t>(args.ReservationType) > D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_COMMIT)
      return Status::kInvalidParameter;
    request.zero = args.ReservationType == D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO;
    request.driver_protection = args.DriverProtection;
  } else if (args.Reserved0 != 0 || args.Reserved1 != 0 || args.Reserved2 != 0) {
    return Status::kInvalidParameter;  // THUNK-03
  }
  const dxgk::GpuVaOutcome outcome =
      adapter->floor().client_addresses->reserve(process, queue.get(), request);
  if (!is_success(outcome.status)) return outcome.status;
  args.VirtualAddress = outcome.address;
  args.PagingFenceValue = outcome.fence;  // without a queue 0, as Reserved2 was
  return pending_or_done(outcome.fence);
}

Status free(Process& process, const D3DKMT_FREEGPUVIRTUALADDRESS& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  if (adapter->floor().gpu_va == nullptr) return Status::kInvalidParameter;
  return adapter->floor().client_addresses->free(process, args.BaseAddress, args.Size);
}

Status capture_operation(Process& process, Adapter& adapter,
                         const D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION& asked,
                         dxgk::GpuVaUpdate* out) {
  using Kind = gpuva::UpdateOperation::Kind;
  gpuva::UpdateOperation& operation = out->operation;
  const auto capture_map = [&](const auto& map) {
    operation.base_address = map.BaseAddress;
    operation.size_bytes = map.SizeInBytes;
    operation.allocation_offset_bytes = map.AllocationOffsetInBytes;
    operation.allocation_size_bytes = map.AllocationSizeInBytes;
    return find_allocation(process, adapter, map.hAllocation, &out->opened);
  };
  switch (asked.OperationType) {
    case D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP:
      operation.kind = Kind::kMap;
      return capture_map(asked.Map);
    case D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT:
      operation.kind = Kind::kMapProtect;
      operation.driver_protection = asked.MapProtect.DriverProtection;
      DXGKIT_RETURN_IF_FAILED(
          capture_protection(asked.MapProtect.Protection, &operation.protection));
      return capture_map(asked.MapProtect);
    case D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP:
      operation.kind = Kind::kUnmap;
      operation.base_address = asked.Unmap.BaseAddress;
      operation.size_bytes = asked.Unmap.SizeInBytes;
      return capture_protection(asked.Unmap.Protection, &operation.protection);
    case D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY:
      operation.kind = Kind::kCopy;
      operation.base_address = asked.Copy.DestAddress;
      operation.size_bytes = asked.Copy.SizeInBytes;
      operation.source_address = asked.Copy.SourceAddress;
      return Status::kSuccess;
  }
  return Status::kInvalidParameter;
}

Status update(Process& process, const D3DKMT_UPDATEGPUVIRTUALADDRESS& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  Adapter& adapter = device->adapter();
  if (adapter.floor().gpu_va == nullptr) return Status::kInvalidParameter;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> fence,
                                 process.handles().find<SyncObject>(args.hFenceObject));
  if (&context->device() != device.get() || !context->virtual_addressing())
    return Status::kInvalidParameter;
  if (&fence->floor() != &adapter.floor() || fence->of_paging_queue)
    return Status::kInvalidParameter;
  if (args.Flags.Reserved != 0 || args.Reserved0 != 0 || args.Reserved1 != 0)
    return Status::kInvalidParameter;  // THUNK-03
  if (args.NumOperations == 0) return Status::kInvalidParameter;
  std::vector<D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION> operations;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_UPDATEGPUVIRTUALADDRESS::Operations>(args, &operations));
  std::vector<dxgk::GpuVaUpdate> updates(operations.size());
  for (size_t i = 0; i < operations.size(); ++i)
    DXGKIT_RETURN_IF_FAILED(capture_operation(process, adapter, operations[i], &updates[i]));
  return adapter.floor().updates->update(context->in_space(), *fence, args.FenceValue,
                                         args.Flags.DoNotWait == 0, std::move(updates));
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTMapGpuVirtualAddress(D3DDDI_MAPGPUVIRTUALADDRESS* args) {
  return call<D3DKMTMapGpuVirtualAddress>(args, dxgkit::thunks::map);
}
NTSTATUS APIENTRY D3DKMTReserveGpuVirtualAddress(D3DDDI_RESERVEGPUVIRTUALADDRESS* args) {
  return call<D3DKMTReserveGpuVirtualAddress>(args, dxgkit::thunks::reserve);
}
NTSTATUS APIENTRY D3DKMTFreeGpuVirtualAddress(const D3DKMT_FREEGPUVIRTUALADDRESS* args) {
  return call<D3DKMTFreeGpuVirtualAddress>(args,
                                           dxgkit::thunks::without_removal<dxgkit::thunks::free>);
}
NTSTATUS APIENTRY D3DKMTUpdateGpuVirtualAddress(const D3DKMT_UPDATEGPUVIRTUALADDRESS* args) {
  return call<D3DKMTUpdateGpuVirtualAddress>(
      args, dxgkit::thunks::without_removal<dxgkit::thunks::update>);
}

}  // extern "C"
