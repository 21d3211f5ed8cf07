// What goes into DMA buffers: commands of user mode, and paging operations.
#include "miniports/virtiogpu/driver.h"

namespace virtiogpu {
namespace {

/// A DMA buffer that is being built, and its patch locations; paging buffers have none.
struct Builder {
  UCHAR* bytes;
  UINT size;
  UINT used;
  D3DDDI_PATCHLOCATIONLIST* patches;
  UINT patches_left;
};

/// Appends a command; false if it does not fit, and nothing is written.
template <typename Request>
bool append(Builder* builder, const Request& request, ULONG64 data = 0, ULONG data_bytes = 0) {
  constexpr ULONG kBytes = (sizeof(DmaCommand) + sizeof(Request) + 7) & ~7U;
  if (builder->size - builder->used < kBytes) return false;
  DmaCommand command = {};
  command.bytes = kBytes;
  command.request_bytes = sizeof(Request);
  command.data = data;
  command.data_bytes = data_bytes;
  UCHAR* to = builder->bytes + builder->used;
  RtlCopyMemory(to, &command, sizeof(command));
  RtlCopyMemory(to + sizeof(command), &request, sizeof(request));
  builder->used += kBytes;
  return true;
}

template <typename Request>
Request request_of_type(ULONG type) {
  Request request;
  RtlZeroMemory(&request, sizeof(request));
  request.header.type = type;
  return request;
}

bool lies_in(const VgpuUmdRectangle& r, const Allocation& allocation) {
  return r.width != 0 && r.height != 0 && r.x <= allocation.width &&
         r.width <= allocation.width - r.x && r.y <= allocation.height &&
         r.height <= allocation.height - r.y;
}

/// Translates the command at `from`. *size: of the command.
NTSTATUS translate(const DXGKARG_RENDER& args, UINT offset, Builder* builder, UINT* size) {
  const auto* from = static_cast<const UCHAR*>(args.pCommand) + offset;
  const UINT left = args.CommandLength - offset;
  VgpuUmdRectangle command = {};
  if (left < sizeof(command.header)) return STATUS_INVALID_USER_BUFFER;
  // User memory may change or go at any time: copied once, then checked.
  NTSTATUS status = read_user(&command.header, from, sizeof(command.header));
  if (!NT_SUCCESS(status)) return status;
  *size = command.header.size_bytes;
  if (*size < sizeof(command.header) || *size > left || *size % 4 != 0)
    return STATUS_INVALID_USER_BUFFER;
  if (command.header.type == VGPU_UMD_NOP) return STATUS_SUCCESS;
  if (command.header.type != VGPU_UMD_TRANSFER_TO_HOST && command.header.type != VGPU_UMD_FLUSH)
    return STATUS_ILLEGAL_INSTRUCTION;
  if (*size != sizeof(command)) return STATUS_INVALID_USER_BUFFER;
  constexpr SIZE_T kHead = sizeof(command.header);
  status =
      read_user(reinterpret_cast<UCHAR*>(&command) + kHead, from + kHead, sizeof(command) - kHead);
  if (!NT_SUCCESS(status)) return status;
  if (command.allocation >= args.AllocationListSize) return STATUS_INVALID_HANDLE;
  const auto* allocation = static_cast<const Allocation*>(
      args.pAllocationList[command.allocation].hDeviceSpecificAllocation);
  if (allocation == nullptr) return STATUS_INVALID_HANDLE;
  if (command.reserved != 0 || !lies_in(command, *allocation)) return STATUS_INVALID_PARAMETER;
  const VgpuRect rect = {command.x, command.y, command.width, command.height};
  if (builder->patches_left == 0) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  const UINT begin = builder->used;
  UINT place = 0;
  bool fits = false;
  if (command.header.type == VGPU_UMD_FLUSH) {
    place = FIELD_OFFSET(VgpuFlush, resource);
    auto request = request_of_type<VgpuFlush>(VGPU_RESOURCE_FLUSH);
    request.rect = rect;
    request.resource = allocation->resource;
    fits = append(builder, request);
  } else {
    place = FIELD_OFFSET(VgpuTransfer, resource);
    auto request = request_of_type<VgpuTransfer>(VGPU_TRANSFER_TO_HOST_2D);
    request.rect = rect;
    request.offset = (ULONG64{rect.y} * allocation->width + rect.x) * kPixelBytes;
    request.resource = allocation->resource;
    fits = append(builder, request);
  }
  if (!fits) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  // The place of the resource's id, which never changes. But what no patch location names the
  // kernel does not bring into the aperture, and then the device does not know the resource.
  D3DDDI_PATCHLOCATIONLIST* patch = builder->patches++;
  --builder->patches_left;
  RtlZeroMemory(patch, sizeof(*patch));
  patch->AllocationIndex = command.allocation;
  patch->PatchOffset = begin + sizeof(DmaCommand) + place;
  patch->SplitOffset = begin;
  return STATUS_SUCCESS;
}

// --- paging

/// A piece of a mapping comes: pages `first` on of the aperture. The kernel maps an allocation in
/// order, perhaps in several operations. The device takes a list of pages as a whole, so it gets
/// its resource with the last piece.
NTSTATUS map_aperture(const DXGKARG_BUILDPAGINGBUFFER& args, UINT* multipass, Builder* builder) {
  const auto& map = args.MapApertureSegment;
  auto* allocation = static_cast<Allocation*>(map.hAllocation);
  if (allocation == nullptr) return STATUS_SUCCESS;  // nothing that the device reads through it
  const UINT first = static_cast<UINT>(map.OffsetInPages);
  const UINT count = static_cast<UINT>(map.NumberOfPages);
  // What was mapped before a reset of the device is not any more. A pass that comes again builds
  // the same once more.
  const bool goes_on = allocation->generation == allocation->adapter->generation &&
                       allocation->mapped != 0 && first > allocation->aperture_page &&
                       first - allocation->aperture_page <= allocation->mapped;
  if (!goes_on) {
    allocation->aperture_page = first;
    allocation->mapped = 0;
    allocation->generation = allocation->adapter->generation;
  }
  const UINT begin = first - allocation->aperture_page;
  if (count > allocation->pages - begin) return STATUS_INVALID_PARAMETER;
  const PFN_NUMBER* frames = MmGetMdlPfnArray(map.pMdl) + map.MdlOffset;
  for (UINT i = 0; i < count; ++i) {
    VgpuEntry& entry = allocation->entries[begin + i];
    entry.address = static_cast<ULONG64>(frames[i]) * PAGE_SIZE;
    entry.bytes = PAGE_SIZE;
    entry.padding = 0;
  }
  if (begin + count < allocation->pages) {
    allocation->mapped = begin + count;
    return STATUS_SUCCESS;
  }
  // MultipassOffset is ours: 1 when the first of the two commands is in an earlier buffer.
  if (*multipass == 0) {
    auto create = request_of_type<VgpuCreate2D>(VGPU_RESOURCE_CREATE_2D);
    create.resource = allocation->resource;
    create.format = VGPU_B8G8R8X8;
    create.width = allocation->width;
    create.height = allocation->height;
    if (!append(builder, create)) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    *multipass = 1;
  }
  auto attach = request_of_type<VgpuAttach>(VGPU_RESOURCE_ATTACH_BACKING);
  attach.resource = allocation->resource;
  attach.entries = allocation->pages;
  if (!append(builder, attach, static_cast<ULONG64>(allocation->entries_address.QuadPart),
              allocation->pages * sizeof(VgpuEntry)))
    return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  allocation->mapped = allocation->pages;
  return STATUS_SUCCESS;
}

NTSTATUS unmap_aperture(const DXGKARG_BUILDPAGINGBUFFER& args, Builder* builder) {
  auto* allocation = static_cast<Allocation*>(args.UnmapApertureSegment.hAllocation);
  if (allocation == nullptr) return STATUS_SUCCESS;
  const bool has_resource = allocation->mapped == allocation->pages &&
                            allocation->generation == allocation->adapter->generation;
  if (has_resource) {
    // The pages leave with the resource.
    auto unref = request_of_type<VgpuResource>(VGPU_RESOURCE_UNREF);
    unref.resource = allocation->resource;
    if (!append(builder, unref)) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  }
  allocation->mapped = 0;
  return STATUS_SUCCESS;
}

NTSTATUS build_operation(DXGKARG_BUILDPAGINGBUFFER* args, Builder* builder) {
  switch (args->Operation) {
    case DXGK_OPERATION_MAP_APERTURE_SEGMENT:
      return map_aperture(*args, &args->MultipassOffset, builder);
    case DXGK_OPERATION_UNMAP_APERTURE_SEGMENT:
      return unmap_aperture(*args, builder);
    case DXGK_OPERATION_DISCARD_CONTENT:
      return STATUS_SUCCESS;  // the driver keeps nothing about contents
    case DXGK_OPERATION_READ_PHYSICAL:
    case DXGK_OPERATION_WRITE_PHYSICAL:
      return STATUS_SUCCESS;  // the device has no path to memory that would have to be drained
    default:
      // Not an allowed answer, on purpose: without a memory segment nothing else is ever asked, and
      // success would be a lie about somebody's memory.
      return STATUS_NOT_SUPPORTED;
  }
}

Record* record_in(void* data, UINT bytes) {
  return bytes < sizeof(Record) ? nullptr : static_cast<Record*>(data);
}

}  // namespace

NTSTATUS NTAPI DdiRender(IN_CONST_HANDLE, INOUT_PDXGKARG_RENDER args) {
  Record* record = record_in(args->pDmaBufferPrivateData, args->DmaBufferPrivateDataSize);
  if (record == nullptr) return STATUS_INVALID_PARAMETER;
  Builder builder = {static_cast<UCHAR*>(args->pDmaBuffer), args->DmaSize, 0,
                     args->pPatchLocationListOut, args->PatchLocationListOutSize};
  // MultipassOffset is ours: bytes of the command buffer that earlier passes have translated.
  UINT done = args->MultipassOffset;
  NTSTATUS status = STATUS_SUCCESS;
  while (done < args->CommandLength) {
    UINT size = 0;
    status = translate(*args, done, &builder, &size);
    if (!NT_SUCCESS(status)) break;
    done += size;
  }
  if (status == STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER && builder.used == 0)
    return STATUS_NO_MEMORY;  // not even one command fits
  if (!NT_SUCCESS(status) && status != STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER) return status;
  *record = {builder.bytes, 0, builder.used};
  args->pDmaBuffer = builder.bytes + builder.used;
  args->pDmaBufferPrivateData = record + 1;
  args->pPatchLocationListOut = builder.patches;
  args->MultipassOffset = done;
  return status;
}

NTSTATUS NTAPI DdiRenderKm(IN_CONST_HANDLE, INOUT_PDXGKARG_RENDER) {
  return STATUS_ILLEGAL_INSTRUCTION;  // GDI acceleration: the device draws nothing
}

NTSTATUS NTAPI DdiPatch(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PATCH) {
  return STATUS_SUCCESS;  // ids are in their places already
}

NTSTATUS NTAPI DdiBuildPagingBuffer(IN_CONST_HANDLE, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  Record* record = record_in(args->pDmaBufferPrivateData, args->DmaBufferPrivateDataSize);
  if (record == nullptr) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  Builder builder = {static_cast<UCHAR*>(args->pDmaBuffer), args->DmaSize, 0, nullptr, 0};
  const NTSTATUS status = build_operation(args, &builder);
  if (!NT_SUCCESS(status) && status != STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER) return status;
  if (builder.used != 0) {
    *record = {builder.bytes, 0, builder.used};
    args->pDmaBufferPrivateData = record + 1;
    args->pDmaBuffer = builder.bytes + builder.used;
  }
  return status;
}

}  // namespace virtiogpu
