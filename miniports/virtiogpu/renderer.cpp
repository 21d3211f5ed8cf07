// 3D: what the device's renderer has of contexts and resources, and what it says it can do.
#include "miniports/virtiogpu/driver.h"

namespace virtiogpu {
namespace {

constexpr UINT kCapsetsLookedAt = 16;  // the number is the device's word

/// A set that is larger than the driver has room for, or whose data do not come, is none.
NTSTATUS read_capset(Adapter* adapter, UINT index, VgpuHeader* answer) {
  auto ask_info = request_of_type<VgpuGetCapsetInfo>(VGPU_GET_CAPSET_INFO);
  ask_info.index = index;
  VgpuCapsetInfo info;
  NTSTATUS status = ask(adapter, &ask_info, sizeof(ask_info), &info, sizeof(info));
  if (!NT_SUCCESS(status)) return status;
  if (info.header.type != VGPU_OK_CAPSET_INFO || info.id == 0) return STATUS_SUCCESS;
  if (info.bytes_most == 0 || info.bytes_most > kCapsetBytesMost) return STATUS_SUCCESS;
  auto ask_data = request_of_type<VgpuGetCapset>(VGPU_GET_CAPSET);
  ask_data.id = info.id;
  ask_data.version = info.version_most;
  status = ask(adapter, &ask_data, sizeof(ask_data), answer, sizeof(*answer) + info.bytes_most);
  if (!NT_SUCCESS(status)) return status;
  if (answer->type != VGPU_OK_CAPSET) return STATUS_SUCCESS;
  Capset& capset = adapter->capsets[adapter->capset_count];
  capset.data =
      static_cast<UCHAR*>(ExAllocatePoolWithTag(NonPagedPoolNx, info.bytes_most, kPoolTag));
  if (capset.data == nullptr) return STATUS_NO_MEMORY;
  RtlCopyMemory(capset.data, answer + 1, info.bytes_most);
  capset.info = {info.id, info.version_most, info.bytes_most};
  ++adapter->capset_count;
  return STATUS_SUCCESS;
}

const Capset* find_capset(const Adapter& adapter, UINT id) {
  for (UINT i = 0; i < adapter.capset_count; ++i) {
    if (adapter.capsets[i].info.id == id) return &adapter.capsets[i];
  }
  return nullptr;
}

/// Which resource, and which context.
NTSTATUS send_pair(const Context& context, const Allocation& allocation, ULONG type) {
  if (!is_alive(context) || !is_alive(allocation)) return STATUS_SUCCESS;
  auto request = request_of_type<VgpuContextResource>(type);
  request.header.context_id = context.id;
  request.resource = allocation.resource;
  return tell_device(allocation.adapter, &request, sizeof(request));
}

/// All contexts of the device reach the resource, or no longer. With the mutex.
NTSTATUS send_pairs(const Opened& opened, ULONG type) {
  NTSTATUS status = STATUS_SUCCESS;
  const LIST_ENTRY* head = &opened.device->contexts;
  for (LIST_ENTRY* at = head->Flink; at != head; at = at->Flink) {
    const NTSTATUS sent =
        send_pair(*CONTAINING_RECORD(at, Context, link), *opened.allocation, type);
    if (NT_SUCCESS(status)) status = sent;
  }
  return status;
}

void end_context(const Context& context) {
  auto request = request_of_type<VgpuContext>(VGPU_CTX_DESTROY);
  request.header.context_id = context.id;
  (void)tell_device(context.device->adapter, &request, sizeof(request));
}

void end_resource(const Allocation& allocation) {
  auto request = request_of_type<VgpuResource>(VGPU_RESOURCE_UNREF);
  request.resource = allocation.resource;
  (void)tell_device(allocation.adapter, &request, sizeof(request));
}

/// STATUS_INVALID_PARAMETER: it is refused. Any other failure is a lack of memory: it is the one
/// that creation may have.
NTSTATUS memory_or_refusal(NTSTATUS status) {
  if (NT_SUCCESS(status) || status == STATUS_INVALID_PARAMETER) return status;
  return STATUS_NO_MEMORY;
}

/// Makes the context on the device, with all that its device has opened.
NTSTATUS make_context(Context* context) {
  Device* device = context->device;
  Adapter* adapter = device->adapter;
  NTSTATUS status = call_device(adapter, &context->request, sizeof(context->request));
  // An answer that is late says that there is a context now.
  if (status == STATUS_IO_TIMEOUT) end_context(*context);
  if (!NT_SUCCESS(status)) return memory_or_refusal(status);
  ExAcquireFastMutex(&adapter->mutex);
  context->generation = adapter->generation;
  const LIST_ENTRY* head = &device->opened;
  for (LIST_ENTRY* at = head->Flink; NT_SUCCESS(status) && at != head; at = at->Flink) {
    status = send_pair(*context, *CONTAINING_RECORD(at, Opened, link)->allocation,
                       VGPU_CTX_ATTACH_RESOURCE);
  }
  if (context->link.Flink == nullptr) InsertTailList(&device->contexts, &context->link);
  ExReleaseFastMutex(&adapter->mutex);
  return NT_SUCCESS(status) ? status : STATUS_NO_MEMORY;
}

/// The aperture may show the memory of a resource that was not there: no operation follows then.
NTSTATUS attach_memory(Allocation* allocation) {
  if (!is_mapped(*allocation)) return STATUS_SUCCESS;
  const VgpuAttach request = attach_request(*allocation);
  const NTSTATUS status = call_device(allocation->adapter, &request, sizeof(request),
                                      static_cast<ULONG64>(allocation->entries_address.QuadPart),
                                      allocation->pages * sizeof(VgpuEntry));
  if (!NT_SUCCESS(status)) allocation->mapped = 0;
  return status;
}

}  // namespace

NTSTATUS read_capsets(Adapter* adapter) {
  if (!adapter->has_3d) return STATUS_SUCCESS;
  const ULONG count = capset_count_of(*adapter);
  auto* answer = static_cast<VgpuHeader*>(
      ExAllocatePoolWithTag(NonPagedPoolNx, sizeof(VgpuHeader) + kCapsetBytesMost, kPoolTag));
  if (answer == nullptr) return STATUS_NO_MEMORY;
  NTSTATUS status = STATUS_SUCCESS;
  for (UINT i = 0; NT_SUCCESS(status) && i < count && i < kCapsetsLookedAt &&
                   adapter->capset_count < VGPU_UMD_CAPSETS_MAX;
       ++i)
    status = read_capset(adapter, i, answer);
  unmake(answer);
  return status;
}

void free_capsets(Adapter* adapter) {
  for (UINT i = 0; i < adapter->capset_count; ++i) unmake(adapter->capsets[i].data);
  adapter->capset_count = 0;
}

NTSTATUS begin_context_3d(Context* context, const VgpuUmdContext& wanted) {
  Adapter* adapter = context->device->adapter;
  if (wanted.magic != VGPU_UMD_CONTEXT_MAGIC || wanted.version != VGPU_UMD_VERSION ||
      wanted.reserved != 0 || !adapter->has_3d)
    return STATUS_INVALID_PARAMETER;
  const UINT id = wanted.capset_id;
  const bool is_known = id == 0 || find_capset(*adapter, id) != nullptr;
  if (!is_known || (!adapter->has_context_init && id > VGPU_CAPSET_VIRGL2))
    return STATUS_INVALID_PARAMETER;
  VgpuCreateContext& request = context->request;
  request = request_of_type<VgpuCreateContext>(VGPU_CTX_CREATE);
  context->id = static_cast<ULONG>(InterlockedIncrement(&adapter->next_context));
  request.header.context_id = context->id;
  if (adapter->has_context_init) request.init = id;
  while (request.name_bytes < sizeof(request.name) && request.name_bytes < sizeof(wanted.name) &&
         wanted.name[request.name_bytes] != 0) {
    request.name[request.name_bytes] = wanted.name[request.name_bytes];
    ++request.name_bytes;
  }
  const NTSTATUS status = make_context(context);
  if (!NT_SUCCESS(status)) end_context_3d(context);
  return status;
}

void end_context_3d(Context* context) {
  if (context->link.Flink == nullptr) return;  // the device has never had it
  Adapter* adapter = context->device->adapter;
  ExAcquireFastMutex(&adapter->mutex);
  RemoveEntryList(&context->link);
  ExReleaseFastMutex(&adapter->mutex);
  if (is_alive(*context)) end_context(*context);  // its resources stay without it
}

NTSTATUS revive_context_3d(Context* context) {
  return is_alive(*context) ? STATUS_SUCCESS : make_context(context);
}

NTSTATUS begin_resource_3d(Allocation* allocation, const VgpuUmdResource& wanted) {
  VgpuCreate3D& request = allocation->request;
  request = request_of_type<VgpuCreate3D>(VGPU_RESOURCE_CREATE_3D);
  request.resource = allocation->resource;
  request.target = wanted.target;
  request.format = wanted.format;
  request.bind = wanted.bind;
  request.width = wanted.width;
  request.height = wanted.height;
  request.depth = wanted.depth;
  request.array_size = wanted.array_size;
  request.last_level = wanted.last_level;
  request.samples = wanted.samples;
  request.flags = wanted.flags;
  InitializeListHead(&allocation->opened);
  const NTSTATUS status = call_device(allocation->adapter, &request, sizeof(request));
  if (status == STATUS_IO_TIMEOUT) end_resource(*allocation);
  allocation->born = allocation->adapter->generation;
  return memory_or_refusal(status);
}

void end_resource_3d(Allocation* allocation) {
  if (is_alive(*allocation)) end_resource(*allocation);
}

NTSTATUS revive_resource_3d(Allocation* allocation) {
  Adapter* adapter = allocation->adapter;
  NTSTATUS status = STATUS_SUCCESS;
  ExAcquireFastMutex(&adapter->mutex);
  if (!is_alive(*allocation)) {
    status = call_device(adapter, &allocation->request, sizeof(allocation->request));
    if (status == STATUS_IO_TIMEOUT) end_resource(*allocation);
    if (NT_SUCCESS(status)) {
      allocation->born = adapter->generation;
      status = attach_memory(allocation);
    }
    const LIST_ENTRY* head = &allocation->opened;
    for (LIST_ENTRY* at = head->Flink; NT_SUCCESS(status) && at != head; at = at->Flink) {
      status =
          send_pairs(*CONTAINING_RECORD(at, Opened, link_in_allocation), VGPU_CTX_ATTACH_RESOURCE);
    }
  }
  ExReleaseFastMutex(&adapter->mutex);
  return memory_or_refusal(status);
}

NTSTATUS attach_resource_3d(Opened* opened) {
  Adapter* adapter = opened->device->adapter;
  ExAcquireFastMutex(&adapter->mutex);
  InsertTailList(&opened->device->opened, &opened->link);
  InsertTailList(&opened->allocation->opened, &opened->link_in_allocation);
  const NTSTATUS status = send_pairs(*opened, VGPU_CTX_ATTACH_RESOURCE);
  ExReleaseFastMutex(&adapter->mutex);
  if (!NT_SUCCESS(status)) detach_resource_3d(opened);
  return NT_SUCCESS(status) ? status : STATUS_NO_MEMORY;
}

void detach_resource_3d(Opened* opened) {
  Adapter* adapter = opened->device->adapter;
  ExAcquireFastMutex(&adapter->mutex);
  RemoveEntryList(&opened->link);
  RemoveEntryList(&opened->link_in_allocation);
  (void)send_pairs(*opened, VGPU_CTX_DETACH_RESOURCE);
  ExReleaseFastMutex(&adapter->mutex);
}

NTSTATUS NTAPI DdiEscape(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_ESCAPE args) {
  const auto& adapter = *static_cast<const Adapter*>(context);
  VgpuUmdEscapeCapset request;
  if (args->pPrivateDriverData == nullptr || args->PrivateDriverDataSize < sizeof(request))
    return STATUS_INVALID_PARAMETER;
  RtlCopyMemory(&request, args->pPrivateDriverData, sizeof(request));
  if (request.magic != VGPU_UMD_ESCAPE_MAGIC || request.version != VGPU_UMD_VERSION ||
      request.type != VGPU_UMD_ESCAPE_CAPSET || request.bytes != 0)
    return STATUS_INVALID_PARAMETER;
  const Capset* capset = find_capset(adapter, request.capset_id);
  if (capset == nullptr || request.capset_version != capset->info.version)
    return STATUS_INVALID_PARAMETER;
  if (args->PrivateDriverDataSize - sizeof(request) < capset->info.bytes)
    return STATUS_BUFFER_TOO_SMALL;
  request.bytes = capset->info.bytes;
  auto* to = static_cast<UCHAR*>(args->pPrivateDriverData);
  RtlCopyMemory(to, &request, sizeof(request));
  RtlCopyMemory(to + sizeof(request), capset->data, capset->info.bytes);
  return STATUS_SUCCESS;
}

}  // namespace virtiogpu
