// What goes into DMA buffers: commands of user mode, and paging operations.
#include "miniports/virtiogpu/driver.h"

namespace virtiogpu {
namespace {

/// A DMA buffer that is being built, and its patch locations; paging buffers have none.
struct Builder {
  UCHAR* bytes;
  UINT size;
  UINT used;
  UINT commands_left;
  D3DDDI_PATCHLOCATIONLIST* patches;
  UINT patches_left;
  bool has_list;  // the whole allocation list has patch locations
};

/// Room for a command: *to is the place of its request. False if there is none.
bool reserve(Builder* builder, ULONG request_bytes, const DmaCommand& command, UCHAR** to) {
  const ULONG bytes = (sizeof(DmaCommand) + request_bytes + 7) & ~7U;
  if (builder->size - builder->used < bytes || builder->commands_left == 0) return false;
  DmaCommand head = command;
  head.bytes = bytes;
  head.request_bytes = request_bytes;
  UCHAR* at = builder->bytes + builder->used;
  RtlCopyMemory(at, &head, sizeof(head));
  *to = at + sizeof(head);
  return true;
}
/// The command that was reserved is whole.
void keep(Builder* builder) {
  const auto* command = reinterpret_cast<const DmaCommand*>(builder->bytes + builder->used);
  builder->used += command->bytes;
  --builder->commands_left;
}

/// Appends a command; false if it does not fit, and nothing is written.
template <typename Request>
bool append(Builder* builder, const Request& request, const DmaCommand& command = {}) {
  UCHAR* to = nullptr;
  if (!reserve(builder, sizeof(Request), command, &to)) return false;
  RtlCopyMemory(to, &request, sizeof(request));
  keep(builder);
  return true;
}

/// A place that has what never changes, a resource's id or the type of a command. But what no patch
/// location names the kernel does not bring into the aperture, and then the device does not know
/// its memory. There is room.
void add_patch(Builder* builder, UINT allocation, UINT begin, UINT place) {
  D3DDDI_PATCHLOCATIONLIST* patch = builder->patches++;
  --builder->patches_left;
  RtlZeroMemory(patch, sizeof(*patch));
  patch->AllocationIndex = allocation;
  patch->PatchOffset = begin + sizeof(DmaCommand) + place;
  patch->SplitOffset = begin;
}

/// A command of user mode that is translated.
struct Source {
  const DXGKARG_RENDER& args;
  Context* context;
  const UCHAR* from;  // in user memory, which may change or go at any time
  VgpuUmdHeader header;
};

/// Reads the rest of a command whose header is read. User memory is copied once, then checked.
template <typename Command>
NTSTATUS read_rest(const Source& source, Command* command) {
  if (source.header.size_bytes != sizeof(*command)) return STATUS_INVALID_USER_BUFFER;
  command->header = source.header;
  constexpr SIZE_T kHead = sizeof(source.header);
  return read_user(reinterpret_cast<UCHAR*>(command) + kHead, source.from + kHead,
                   sizeof(*command) - kHead);
}

/// Null: the list has none there.
Allocation* find_allocation(const Source& source, UINT index) {
  if (index >= source.args.AllocationListSize) return nullptr;
  const auto* opened =
      static_cast<const Opened*>(source.args.pAllocationList[index].hDeviceSpecificAllocation);
  return opened == nullptr ? nullptr : opened->allocation;
}

/// Of a command that needs what the device's renderer has now.
DmaCommand needs_renderer(const Source& source) {
  DmaCommand command = {};
  command.generation = source.context->device->adapter->generation;
  return command;
}

/// `count` from `first` on lie below `limit`, and are not none.
bool lies_below(ULONG first, ULONG count, ULONG limit) {
  return count != 0 && first <= limit && count <= limit - first;
}

NTSTATUS translate_rectangle(const Source& source, Builder* builder) {
  VgpuUmdRectangle command = {};
  const NTSTATUS status = read_rest(source, &command);
  if (!NT_SUCCESS(status)) return status;
  const Allocation* allocation = find_allocation(source, command.allocation);
  if (allocation == nullptr) return STATUS_INVALID_HANDLE;
  if (command.reserved != 0 || !lies_below(command.x, command.width, allocation->width) ||
      !lies_below(command.y, command.height, allocation->height))
    return STATUS_INVALID_PARAMETER;
  if (allocation->is_3d && !is_alive(*allocation)) return STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE;
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
    fits = append(builder, request, allocation->is_3d ? needs_renderer(source) : DmaCommand{});
  } else {
    if (allocation->is_3d) return STATUS_INVALID_PARAMETER;  // its layout is user mode's
    place = FIELD_OFFSET(VgpuTransfer, resource);
    auto request = request_of_type<VgpuTransfer>(VGPU_TRANSFER_TO_HOST_2D);
    request.rect = rect;
    request.offset = (ULONG64{rect.y} * allocation->width + rect.x) * kPixelBytes;
    request.resource = allocation->resource;
    fits = append(builder, request);
  }
  if (!fits) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  add_patch(builder, command.allocation, begin, place);
  return STATUS_SUCCESS;
}

ULONG of_level(ULONG side, ULONG level) {
  const ULONG small = level < 32 ? side >> level : 0;
  return small != 0 ? small : 1;
}

/// How many bytes a pixel of a format has, and whether the memory has all rows, the device knows.
NTSTATUS translate_transfer(const Source& source, Builder* builder) {
  VgpuUmdTransfer3d command = {};
  const NTSTATUS status = read_rest(source, &command);
  if (!NT_SUCCESS(status)) return status;
  const Allocation* allocation = find_allocation(source, command.allocation);
  if (allocation == nullptr) return STATUS_INVALID_HANDLE;
  const bool is_read = command.header.type == VGPU_UMD_TRANSFER_FROM_HOST_3D;
  const bool is_written = source.args.pAllocationList[command.allocation].WriteOperation != 0;
  // Elements of an array do not shrink with the level.
  if (!allocation->is_3d || (is_read && !is_written) || command.level > allocation->last_level ||
      !lies_below(command.x, command.width, of_level(allocation->width, command.level)) ||
      !lies_below(command.y, command.height, of_level(allocation->height, command.level)) ||
      !lies_below(command.z, command.depth, allocation->depth) ||
      command.offset >= allocation->bytes)
    return STATUS_INVALID_PARAMETER;
  if (!is_alive(*allocation)) return STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE;
  if (builder->patches_left == 0) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  auto request = request_of_type<VgpuTransfer3D>(is_read ? VGPU_TRANSFER_FROM_HOST_3D
                                                         : VGPU_TRANSFER_TO_HOST_3D);
  request.header.context_id = source.context->id;
  request.box = {command.x, command.y, command.z, command.width, command.height, command.depth};
  request.offset = command.offset;
  request.resource = allocation->resource;
  request.level = command.level;
  request.stride = command.stride;
  request.layer_stride = command.layer_stride;
  const UINT begin = builder->used;
  if (!append(builder, request, needs_renderer(source)))
    return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  add_patch(builder, command.allocation, begin, FIELD_OFFSET(VgpuTransfer3D, resource));
  return STATUS_SUCCESS;
}

/// Bytes for the renderer. The device lets them reach what is attached to the context, and that is
/// what the process has opened.
NTSTATUS translate_submit(const Source& source, Builder* builder) {
  const UINT bytes = source.header.size_bytes - sizeof(source.header);
  if (bytes == 0 || bytes > kSubmitBytesMost) return STATUS_INVALID_PARAMETER;
  UINT named = 0;
  for (UINT i = 0; i < source.args.AllocationListSize; ++i) {
    const Allocation* allocation = find_allocation(source, i);
    if (allocation == nullptr) continue;
    ++named;
    if (allocation->is_3d && !is_alive(*allocation)) return STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE;
  }
  if (!builder->has_list && named > builder->patches_left)
    return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  auto request = request_of_type<VgpuSubmit>(VGPU_SUBMIT_3D);
  request.header.context_id = source.context->id;
  request.bytes = bytes;
  UCHAR* to = nullptr;
  if (!reserve(builder, sizeof(request) + bytes, needs_renderer(source), &to))
    return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  RtlCopyMemory(to, &request, sizeof(request));
  const NTSTATUS status =
      read_user(to + sizeof(request), source.from + sizeof(source.header), bytes);
  if (!NT_SUCCESS(status)) return status;
  const UINT begin = builder->used;
  keep(builder);
  for (UINT i = 0; !builder->has_list && i < source.args.AllocationListSize; ++i) {
    if (find_allocation(source, i) != nullptr) add_patch(builder, i, begin, 0);
  }
  builder->has_list = true;
  return STATUS_SUCCESS;
}

/// Nothing for the device, unless a reset has taken what user mode does not need.
NTSTATUS discard(const Source& source) {
  VgpuUmdDiscard command = {};
  const NTSTATUS status = read_rest(source, &command);
  if (!NT_SUCCESS(status)) return status;
  if (command.reserved != 0) return STATUS_INVALID_PARAMETER;
  if (command.allocation == VGPU_UMD_DISCARD_CONTEXT) return revive_context_3d(source.context);
  Allocation* allocation = find_allocation(source, command.allocation);
  if (allocation == nullptr) return STATUS_INVALID_HANDLE;
  return allocation->is_3d ? revive_resource_3d(allocation) : STATUS_INVALID_PARAMETER;
}

/// Translates the command at `offset`. *size: of the command.
NTSTATUS translate(const DXGKARG_RENDER& args, Context* context, UINT offset, Builder* builder,
                   UINT* size) {
  Source source = {args, context, static_cast<const UCHAR*>(args.pCommand) + offset, {}};
  const UINT left = args.CommandLength - offset;
  if (left < sizeof(source.header)) return STATUS_INVALID_USER_BUFFER;
  const NTSTATUS status = read_user(&source.header, source.from, sizeof(source.header));
  if (!NT_SUCCESS(status)) return status;
  *size = source.header.size_bytes;
  if (*size < sizeof(source.header) || *size > left || *size % 4 != 0)
    return STATUS_INVALID_USER_BUFFER;
  const UINT type = source.header.type;
  if (type == VGPU_UMD_NOP) return STATUS_SUCCESS;
  if (type == VGPU_UMD_TRANSFER_TO_HOST || type == VGPU_UMD_FLUSH)
    return translate_rectangle(source, builder);
  if (context->id == 0) return STATUS_ILLEGAL_INSTRUCTION;  // it has no 3D
  if (type == VGPU_UMD_DISCARD) return discard(source);
  if (!is_alive(*context)) return STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE;
  if (type == VGPU_UMD_SUBMIT) return translate_submit(source, builder);
  if (type == VGPU_UMD_TRANSFER_TO_HOST_3D || type == VGPU_UMD_TRANSFER_FROM_HOST_3D)
    return translate_transfer(source, builder);
  return STATUS_ILLEGAL_INSTRUCTION;
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
  // A 3D resource is there already. If a reset of the device has taken it, the memory is attached
  // when it comes back.
  if (allocation->is_3d && !is_alive(*allocation)) {
    allocation->mapped = allocation->pages;
    return STATUS_SUCCESS;
  }
  // MultipassOffset is ours: 1 when the first of the two commands is in an earlier buffer.
  if (*multipass == 0 && !allocation->is_3d) {
    auto create = request_of_type<VgpuCreate2D>(VGPU_RESOURCE_CREATE_2D);
    create.resource = allocation->resource;
    create.format = VGPU_B8G8R8X8;
    create.width = allocation->width;
    create.height = allocation->height;
    if (!append(builder, create)) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    *multipass = 1;
  }
  DmaCommand pages = {};
  pages.data = static_cast<ULONG64>(allocation->entries_address.QuadPart);
  pages.data_bytes = allocation->pages * sizeof(VgpuEntry);
  if (!append(builder, attach_request(*allocation), pages))
    return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  allocation->mapped = allocation->pages;
  return STATUS_SUCCESS;
}

NTSTATUS unmap_aperture(const DXGKARG_BUILDPAGINGBUFFER& args, Builder* builder) {
  auto* allocation = static_cast<Allocation*>(args.UnmapApertureSegment.hAllocation);
  if (allocation == nullptr) return STATUS_SUCCESS;
  if (is_mapped(*allocation) && (!allocation->is_3d || is_alive(*allocation))) {
    // The pages of a surface leave with the resource. Of a 3D resource the content stays.
    auto request = request_of_type<VgpuResource>(allocation->is_3d ? VGPU_RESOURCE_DETACH_BACKING
                                                                   : VGPU_RESOURCE_UNREF);
    request.resource = allocation->resource;
    if (!append(builder, request)) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  }
  allocation->mapped = 0;
  return STATUS_SUCCESS;
}

/// With a 3D resource held where it is: a client may be bringing it back.
template <typename Build>
NTSTATUS hold_while(const void* handle, Build build) {
  const auto* allocation = static_cast<const Allocation*>(handle);
  const bool holds = allocation != nullptr && allocation->is_3d;
  if (holds) ExAcquireFastMutex(&allocation->adapter->mutex);
  const NTSTATUS status = build();
  if (holds) ExReleaseFastMutex(&allocation->adapter->mutex);
  return status;
}

NTSTATUS build_operation(DXGKARG_BUILDPAGINGBUFFER* args, Builder* builder) {
  switch (args->Operation) {
    case DXGK_OPERATION_MAP_APERTURE_SEGMENT:
      return hold_while(args->MapApertureSegment.hAllocation,
                        [&] { return map_aperture(*args, &args->MultipassOffset, builder); });
    case DXGK_OPERATION_UNMAP_APERTURE_SEGMENT:
      return hold_while(args->UnmapApertureSegment.hAllocation,
                        [&] { return unmap_aperture(*args, builder); });
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

NTSTATUS NTAPI DdiRender(IN_CONST_HANDLE handle, INOUT_PDXGKARG_RENDER args) {
  auto* context = static_cast<Context*>(handle);
  Record* record = record_in(args->pDmaBufferPrivateData, args->DmaBufferPrivateDataSize);
  if (record == nullptr) return STATUS_INVALID_PARAMETER;
  Builder builder = {};
  builder.bytes = static_cast<UCHAR*>(args->pDmaBuffer);
  builder.size = args->DmaSize;
  builder.commands_left = kCommandsMost;
  builder.patches = args->pPatchLocationListOut;
  builder.patches_left = args->PatchLocationListOutSize;
  // MultipassOffset is ours: bytes of the command buffer that earlier passes have translated.
  UINT done = args->MultipassOffset;
  NTSTATUS status = STATUS_SUCCESS;
  while (done < args->CommandLength) {
    UINT size = 0;
    status = translate(*args, context, done, &builder, &size);
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
  Builder builder = {};
  builder.bytes = static_cast<UCHAR*>(args->pDmaBuffer);
  builder.size = args->DmaSize;
  builder.commands_left = 2;  // of one operation
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
