#include "miniports/softgpu/commands.h"

namespace softgpu {
namespace {

/// What the driver knows about a command without looking into it.
struct Shape {
  USHORT size = 0;  // of the whole command; 0: not for user mode
  UCHAR nodes = 0;  // bit n: node n runs it
  UCHAR operands = 0;
  UCHAR written = 0;                // bit n: operand n is written
  bool disjoint = false;            // the hardware faults if the operands overlap
  USHORT address[kSlots] = {0, 0};  // byte offset of the field that slot n patches
};

constexpr UCHAR kNode3d = 1U << SGPU_NODE_3D;
constexpr UCHAR kNodeAny = kNode3d | 1U << SGPU_NODE_COPY;

// Operands stand first in every command: these are the offsets of their address fields. That and
// the agreement of user and hardware commands commands_test.cpp asserts.
constexpr USHORT kFirst = sizeof(SgpuCommandHeader), kSecond = kFirst + sizeof(SgpuU64);

template <typename Command>
constexpr Shape one_operand(bool written) {
  return {sizeof(Command), kNodeAny, 1, written ? UCHAR{1} : UCHAR{0}, false, {kFirst, kFirst}};
}
/// From the first to the second.
template <typename Command>
constexpr Shape two_operands(UCHAR nodes, bool disjoint) {
  return {sizeof(Command), nodes, 2, 2, disjoint, {kFirst, kSecond}};
}

constexpr Shape kShapes[SGPU_OP_COUNT] = {
    {},                                           // NOP: of no use in a user's buffer
    {},                                           // END: would cut the rest of the buffer off
    one_operand<SgpuFenceWrite>(true),            // FENCE_WRITE
    two_operands<SgpuCopy>(kNodeAny, false),      // COPY
    {},                                           // COPY_PAGES: names bus addresses
    one_operand<SgpuFill>(true),                  // FILL
    two_operands<SgpuBlit2d>(kNodeAny, false),    // BLIT2D
    two_operands<SgpuConvolve>(kNode3d, true),    // CONVOLVE
    two_operands<SgpuDownscale>(kNode3d, true),   // DOWNSCALE
    two_operands<SgpuChecksum>(kNodeAny, false),  // CHECKSUM
    one_operand<SgpuSemWait>(false),              // SEM_WAIT
    one_operand<SgpuSemSignal>(true),             // SEM_SIGNAL
    {},                                           // MAP_APERTURE: names bus addresses
    {},                                           // UNMAP_APERTURE
    {sizeof(SgpuDelay), kNodeAny},                // DELAY
};

/// A user command after the one copy out of user memory. Nothing below reads user memory again.
union Command {
  SgpuUmdCommand header;
  SgpuUmdFence fence;
  SgpuUmdCopy copy;
  SgpuUmdFill fill;
  SgpuUmdBlit2d blit2d;
  SgpuUmdConvolve convolve;
  SgpuUmdDownscale downscale;
  SgpuUmdChecksum checksum;
  SgpuUmdDelay delay;
  UCHAR bytes[sizeof(SgpuUmdConvolve)];
};

/// What a command touches through one operand.
struct Span {
  UINT64 bytes = 0;
  UINT alignment = 1;  // of the offset: allocations are page aligned, so the address follows
};

/// True if such rows can be; `span` is then from the first byte to the last. All factors fit in
/// 32 bits: no overflow.
bool rows(UINT pitch, UINT row_bytes, UINT count, Span* span) {
  if (row_bytes == 0 || count == 0 || pitch < row_bytes) return false;
  *span = {(UINT64{count} - 1) * pitch + row_bytes, 1};
  return true;
}

bool image(UINT pitch, UINT width, UINT height, Span* span) {
  if (width > SGPU_IMAGE_PIXELS_MAX || height > SGPU_IMAGE_PIXELS_MAX) return false;
  if (pitch % SGPU_PIXEL_BYTES != 0) return false;
  if (!rows(pitch, width * SGPU_PIXEL_BYTES, height, span)) return false;
  span->alignment = SGPU_PIXEL_BYTES;
  return true;
}

bool kernel_side_ok(UINT side) { return side % 2 == 1 && side <= SGPU_KERNEL_MAX; }

/// Checks every field the hardware would fault on, and works out what the operands cover.
/// False: a field is out of range.
bool check_fields(const Command& command, Span* spans) {
  switch (command.header.opcode) {
    case SGPU_OP_FENCE_WRITE:
    case SGPU_OP_SEM_WAIT:
    case SGPU_OP_SEM_SIGNAL: {
      const SgpuUmdFence& c = command.fence;
      spans[0] = {c.width, c.width};
      return c.reserved == 0 && (c.width == 8 || (c.width == 4 && c.value <= 0xFFFFFFFFU));
    }
    case SGPU_OP_COPY:
      spans[0] = spans[1] = {command.copy.size_bytes, 1};
      return command.copy.size_bytes != 0;
    case SGPU_OP_FILL: {
      const SgpuUmdFill& c = command.fill;
      spans[0] = {c.size_bytes, 4};
      return c.size_bytes != 0 && c.size_bytes % 4 == 0 && c.reserved == 0;
    }
    case SGPU_OP_BLIT2D: {
      const SgpuUmdBlit2d& c = command.blit2d;
      return rows(c.source_pitch, c.width_bytes, c.height, &spans[0]) &&
             rows(c.destination_pitch, c.width_bytes, c.height, &spans[1]);
    }
    case SGPU_OP_CONVOLVE: {
      const SgpuUmdConvolve& c = command.convolve;
      constexpr UINT kFlags = SGPU_CONVOLVE_ABS | SGPU_CONVOLVE_GRADIENT | SGPU_CONVOLVE_KEEP_ALPHA;
      // The order matters: the subtractions cannot wrap once the sizes are known to fit.
      return image(c.source_pitch, c.source_width, c.source_height, &spans[0]) &&
             image(c.destination_pitch, c.output_width, c.output_height, &spans[1]) &&
             c.output_width <= c.source_width && c.output_x <= c.source_width - c.output_width &&
             c.output_height <= c.source_height &&
             c.output_y <= c.source_height - c.output_height && kernel_side_ok(c.kernel_width) &&
             kernel_side_ok(c.kernel_height) && c.divisor >= 1 && c.divisor <= SGPU_DIVISOR_MAX &&
             c.bias >= -255 && c.bias <= 255 && (c.flags & ~kFlags) == 0 && c.reserved == 0 &&
             c.reserved2 == 0;
    }
    case SGPU_OP_DOWNSCALE: {
      const SgpuUmdDownscale& c = command.downscale;
      return image(c.source_pitch, c.source_width, c.source_height, &spans[0]) &&
             image(c.destination_pitch, (c.source_width + 1) / 2, (c.source_height + 1) / 2,
                   &spans[1]);
    }
    case SGPU_OP_CHECKSUM: {
      const SgpuUmdChecksum& c = command.checksum;
      spans[1] = {8, 8};
      return rows(c.pitch, c.width_bytes, c.height, &spans[0]) && c.kind <= SGPU_CHECKSUM_SUM64;
    }
    case SGPU_OP_DELAY: {
      const SgpuUmdDelay& c = command.delay;
      return c.duration_ns <= SGPU_DELAY_MAX_NS && (c.flags & ~SGPU_DELAY_PREEMPTIBLE) == 0 &&
             c.reserved == 0;
    }
    default:
      return false;
  }
}

SgpuUmdReference reference_at(const Command& command, UINT field) {
  SgpuUmdReference reference;
  __builtin_memcpy(&reference, command.bytes + field, sizeof(reference));
  return reference;
}

UINT64 address_of(const DXGK_ALLOCATIONLIST& entry, UINT offset) {
  return static_cast<UINT64>(entry.PhysicalAddress.QuadPart) + offset;
}

NTSTATUS check_reference(const TranslateJob& job, const SgpuUmdReference& reference,
                         const Span& span, bool written) {
  if (reference.allocation >= job.allocation_count) return STATUS_INVALID_HANDLE;
  const DXGK_ALLOCATIONLIST& entry = job.allocations[reference.allocation];
  if (entry.hDeviceSpecificAllocation == nullptr) return STATUS_INVALID_HANDLE;
  if (written && entry.WriteOperation == 0) return STATUS_INVALID_PARAMETER;
  if (reference.offset % span.alignment != 0) return STATUS_INVALID_PARAMETER;
  const UINT64 size = static_cast<OpenAllocation*>(entry.hDeviceSpecificAllocation)->size_bytes;
  // Two compares: the sum of two numbers from user mode could wrap.
  if (reference.offset > size || span.bytes > size - reference.offset) {
    return STATUS_INVALID_USER_BUFFER;
  }
  return STATUS_SUCCESS;
}

/// Both references have been checked.
bool overlap(const TranslateJob& job, const Command& command, const Span* spans) {
  const SgpuUmdReference a = reference_at(command, kFirst);
  const SgpuUmdReference b = reference_at(command, kSecond);
  const auto memory_of = [&job](const SgpuUmdReference& reference) {
    const HANDLE handle = job.allocations[reference.allocation].hDeviceSpecificAllocation;
    return static_cast<const OpenAllocation*>(handle)->memory;
  };
  // One allocation may be in the list twice, and open twice.
  return memory_of(a) == memory_of(b) && a.offset < b.offset + spans[1].bytes &&
         b.offset < a.offset + spans[0].bytes;
}

/// Reads and checks the command at `offset`. On success `command` is wholly valid.
NTSTATUS fetch(const TranslateJob& job, UINT offset, UINT end, Command* command,
               const Shape** shape) {
  const UCHAR* from = static_cast<const UCHAR*>(job.command) + offset;
  if (end - offset < sizeof(SgpuUmdCommand)) return STATUS_INVALID_USER_BUFFER;
  NTSTATUS status = job.read(&command->header, from, sizeof(command->header));
  if (!NT_SUCCESS(status)) return status;

  const SgpuUmdCommand header = command->header;
  if (header.opcode >= SGPU_OP_COUNT) return STATUS_ILLEGAL_INSTRUCTION;
  const Shape& known = kShapes[header.opcode];
  *shape = &known;
  if (known.size == 0) return STATUS_PRIVILEGED_INSTRUCTION;
  if ((known.nodes >> job.node & 1) == 0) return STATUS_ILLEGAL_INSTRUCTION;
  if (header.size_bytes != known.size) return STATUS_INVALID_PARAMETER;
  if (header.size_bytes > end - offset) return STATUS_INVALID_USER_BUFFER;

  status = job.read(command->bytes, from, header.size_bytes);
  if (!NT_SUCCESS(status)) return status;
  command->header = header;  // read twice, and perhaps changed in between: what was checked counts

  Span spans[kSlots];
  if (!check_fields(*command, spans)) return STATUS_INVALID_PARAMETER;
  for (UINT i = 0; i < known.operands; ++i) {
    const bool written = (known.written >> i & 1) != 0;
    status = check_reference(job, reference_at(*command, known.address[i]), spans[i], written);
    if (!NT_SUCCESS(status)) return status;
  }
  if (known.disjoint && overlap(job, *command, spans)) return STATUS_INVALID_PARAMETER;
  return STATUS_SUCCESS;
}

/// Puts addresses in the place of references and writes the command and its patch locations.
void emit(TranslateJob* job, Command* command, const Shape& shape) {
  // Both before the first becomes an address: two slots may share a field.
  const SgpuUmdReference references[kSlots] = {reference_at(*command, shape.address[0]),
                                               reference_at(*command, shape.address[1])};
  for (UINT slot = 0; slot < kSlots && shape.operands != 0; ++slot) {
    const SgpuUmdReference& reference = references[slot];
    D3DDDI_PATCHLOCATIONLIST& location = job->patches[job->patch_count++];
    location = {};
    location.AllocationIndex = reference.allocation;
    location.SlotId = slot & 0xFFFFFFU;
    location.DriverId = command->header.opcode;
    location.AllocationOffset = reference.offset;
    location.PatchOffset = job->dma_used + shape.address[slot];
    location.SplitOffset = job->dma_used;

    const DXGK_ALLOCATIONLIST& entry = job->allocations[reference.allocation];
    const UINT64 address = entry.SegmentId == 0 ? kUnpatched : address_of(entry, reference.offset);
    __builtin_memcpy(command->bytes + shape.address[slot], &address, sizeof(address));
  }
  __builtin_memcpy(job->dma + job->dma_used, command->bytes, shape.size);
  job->dma_used += shape.size;
}

}  // namespace

NTSTATUS translate(TranslateJob* job) {
  job->dma_used = job->patch_count = 0;
  SgpuUmdBufferHeader header;
  if (job->command_length < sizeof(header)) return STATUS_INVALID_USER_BUFFER;
  if (const NTSTATUS status = job->read(&header, job->command, sizeof(header)); !NT_SUCCESS(status))
    return status;
  if (header.magic != SGPU_UMD_BUFFER_MAGIC || header.version != SGPU_UMD_VERSION) {
    return STATUS_GRAPHICS_DRIVER_MISMATCH;
  }
  if (header.flags != 0 || header.size_bytes % 8 != 0) return STATUS_INVALID_PARAMETER;
  if (header.size_bytes < sizeof(header) || header.size_bytes > job->command_length) {
    return STATUS_INVALID_USER_BUFFER;
  }

  const UINT end = header.size_bytes;
  // The offset is ours, handed back by the kernel, but the size is the user's and was read again.
  UINT offset = job->multipass_offset == 0 ? UINT{sizeof(header)} : job->multipass_offset;
  if (offset > end) return STATUS_INVALID_USER_BUFFER;

  while (offset < end) {
    Command command;
    const Shape* shape;
    if (const NTSTATUS status = fetch(*job, offset, end, &command, &shape); !NT_SUCCESS(status))
      return status;
    if (shape->size > job->dma_size - job->dma_used ||
        (shape->operands != 0 && job->patch_capacity - job->patch_count < kSlots)) {
      job->multipass_offset = offset;
      // Asking for another buffer of the same size would never end.
      return job->dma_used == 0 ? STATUS_NO_MEMORY : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    }
    emit(job, &command, *shape);
    offset += shape->size;
  }
  job->multipass_offset = offset;
  return STATUS_SUCCESS;
}

NTSTATUS patch(const PatchJob& job) {
  if (job.first > job.patch_count || job.length > job.patch_count - job.first) {
    return STATUS_INVALID_PARAMETER;
  }
  constexpr UINT kFieldBytes = sizeof(UINT64);
  if (job.length == 0) return STATUS_SUCCESS;
  if (job.end < job.start || job.end - job.start < kFieldBytes) return STATUS_INVALID_PARAMETER;
  // Copies, because the compiler must assume that a store into the DMA buffer may change `job`.
  UCHAR* const dma = job.dma;
  const DXGK_ALLOCATIONLIST* const allocations = job.allocations;
  const UINT allocation_count = job.allocation_count;
  const UINT start = job.start;
  const UINT last = job.end - kFieldBytes - job.start;  // where in the slice the last field may be
  const D3DDDI_PATCHLOCATIONLIST* const end = job.patches + job.first + job.length;
  for (const D3DDDI_PATCHLOCATIONLIST* location = job.patches + job.first; location != end;
       ++location) {
    // The list is this driver's own and user mode cannot reach it, so each element names an address
    // field of a command that translate() checked. What the kernel decides anew with each
    // submission is checked again: the allocation list and the slice.
    const bool known = location->AllocationIndex < allocation_count;
    const bool inside = location->PatchOffset - start <= last;
    if (!(known & inside)) return STATUS_INVALID_PARAMETER;  // & not &&: one branch
    const DXGK_ALLOCATIONLIST& entry = allocations[location->AllocationIndex];
    if (entry.hDeviceSpecificAllocation == nullptr) continue;  // unbinds the slot: nothing to write
    const UINT64 address = address_of(entry, location->AllocationOffset);
    __builtin_memcpy(dma + location->PatchOffset, &address, sizeof(address));
  }
  return STATUS_SUCCESS;
}

}  // namespace softgpu
