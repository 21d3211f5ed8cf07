#include "miniports/softgpu/commands.h"

namespace softgpu {
namespace {

constexpr UCHAR kNode3d = 1U << SGPU_NODE_3D;
constexpr UCHAR kNodeAny = kNode3d | 1U << SGPU_NODE_COPY;

/// What the driver knows about a command without looking into it.
struct Shape {
  USHORT size = 0;  // of the whole command; 0: not for user mode
  UCHAR nodes = 0;
  UCHAR operands = 0;
  UCHAR written = 0;                // bit n: operand n is written
  bool disjoint = false;            // the hardware faults if the operands overlap
  USHORT address[kSlots] = {0, 0};  // byte offset of the field that slot n patches
};

constexpr Shape one_operand(size_t size, UCHAR nodes, size_t field, bool written) {
  const auto offset = static_cast<USHORT>(field);
  return {static_cast<USHORT>(size),           nodes, 1,
          static_cast<UCHAR>(written ? 1 : 0), false, {offset, offset}};
}
constexpr Shape two_operands(size_t size, UCHAR nodes, size_t source, size_t destination,
                             bool disjoint = false) {
  return {static_cast<USHORT>(size),
          nodes,
          2,
          2,
          disjoint,
          {static_cast<USHORT>(source), static_cast<USHORT>(destination)}};
}

constexpr Shape kShapes[SGPU_OP_COUNT] = {
    {},  // NOP: of no use in a user's buffer
    {},  // END: would cut the DMA buffer short in the middle of somebody's commands
    one_operand(sizeof(SgpuFenceWrite), kNodeAny, offsetof(SgpuFenceWrite, address), true),
    two_operands(sizeof(SgpuCopy), kNodeAny, offsetof(SgpuCopy, source),
                 offsetof(SgpuCopy, destination)),
    {},  // COPY_PAGES: names bus addresses
    one_operand(sizeof(SgpuFill), kNodeAny, offsetof(SgpuFill, destination), true),
    two_operands(sizeof(SgpuBlit2d), kNodeAny, offsetof(SgpuBlit2d, source),
                 offsetof(SgpuBlit2d, destination)),
    two_operands(sizeof(SgpuConvolve), kNode3d, offsetof(SgpuConvolve, source),
                 offsetof(SgpuConvolve, destination), true),
    two_operands(sizeof(SgpuDownscale), kNode3d, offsetof(SgpuDownscale, source),
                 offsetof(SgpuDownscale, destination), true),
    two_operands(sizeof(SgpuChecksum), kNodeAny, offsetof(SgpuChecksum, source),
                 offsetof(SgpuChecksum, result)),
    one_operand(sizeof(SgpuSemWait), kNodeAny, offsetof(SgpuSemWait, address), false),
    one_operand(sizeof(SgpuSemSignal), kNodeAny, offsetof(SgpuSemSignal, address), true),
    {},  // MAP_APERTURE: names bus addresses
    {},  // UNMAP_APERTURE
    {static_cast<USHORT>(sizeof(SgpuDelay)), kNodeAny, 0, 0, false, {0, 0}},
};

// A user command must be the hardware command with references for addresses.
static_assert(SGPU_UMD_OP_FENCE_WRITE == SGPU_OP_FENCE_WRITE);
static_assert(SGPU_UMD_OP_COPY == SGPU_OP_COPY);
static_assert(SGPU_UMD_OP_FILL == SGPU_OP_FILL);
static_assert(SGPU_UMD_OP_BLIT2D == SGPU_OP_BLIT2D);
static_assert(SGPU_UMD_OP_CONVOLVE == SGPU_OP_CONVOLVE);
static_assert(SGPU_UMD_OP_DOWNSCALE == SGPU_OP_DOWNSCALE);
static_assert(SGPU_UMD_OP_CHECKSUM == SGPU_OP_CHECKSUM);
static_assert(SGPU_UMD_OP_SEM_WAIT == SGPU_OP_SEM_WAIT);
static_assert(SGPU_UMD_OP_SEM_SIGNAL == SGPU_OP_SEM_SIGNAL);
static_assert(SGPU_UMD_OP_DELAY == SGPU_OP_DELAY);
static_assert(sizeof(SgpuUmdFence) == sizeof(SgpuFenceWrite) &&
              offsetof(SgpuUmdFence, memory) == offsetof(SgpuFenceWrite, address) &&
              offsetof(SgpuUmdFence, width) == offsetof(SgpuFenceWrite, width));
static_assert(sizeof(SgpuUmdCopy) == sizeof(SgpuCopy) &&
              offsetof(SgpuUmdCopy, destination) == offsetof(SgpuCopy, destination) &&
              offsetof(SgpuUmdCopy, size_bytes) == offsetof(SgpuCopy, size));
static_assert(sizeof(SgpuUmdFill) == sizeof(SgpuFill) &&
              offsetof(SgpuUmdFill, pattern) == offsetof(SgpuFill, pattern));
static_assert(sizeof(SgpuUmdBlit2d) == sizeof(SgpuBlit2d) &&
              offsetof(SgpuUmdBlit2d, height) == offsetof(SgpuBlit2d, height));
static_assert(sizeof(SgpuUmdConvolve) == sizeof(SgpuConvolve) &&
              offsetof(SgpuUmdConvolve, flags) == offsetof(SgpuConvolve, flags) &&
              offsetof(SgpuUmdConvolve, kernel2) == offsetof(SgpuConvolve, kernel2));
static_assert(sizeof(SgpuUmdDownscale) == sizeof(SgpuDownscale) &&
              offsetof(SgpuUmdDownscale, source_height) == offsetof(SgpuDownscale, source_height));
static_assert(sizeof(SgpuUmdChecksum) == sizeof(SgpuChecksum) &&
              offsetof(SgpuUmdChecksum, kind) == offsetof(SgpuChecksum, kind));
static_assert(sizeof(SgpuUmdDelay) == sizeof(SgpuDelay));

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

/// Bytes from the first of a rectangle to its last. All factors fit in 32 bits: no overflow.
UINT64 rectangle_bytes(UINT pitch, UINT row_bytes, UINT rows) {
  return (UINT64{rows} - 1) * pitch + row_bytes;
}

bool in_range(UINT value, UINT low, UINT high) { return value >= low && value <= high; }

bool image_pitch_ok(UINT pitch, UINT width) {
  return pitch % SGPU_PIXEL_BYTES == 0 && pitch >= width * SGPU_PIXEL_BYTES;
}

bool kernel_side_ok(UINT side) { return side % 2 == 1 && side <= SGPU_KERNEL_MAX; }

bool check_convolve(const SgpuUmdConvolve& c, Span* spans) {
  if (!in_range(c.source_width, 1, SGPU_IMAGE_PIXELS_MAX)) return false;
  if (!in_range(c.source_height, 1, SGPU_IMAGE_PIXELS_MAX)) return false;
  if (!in_range(c.output_width, 1, c.source_width)) return false;
  if (!in_range(c.output_height, 1, c.source_height)) return false;
  if (c.output_x > c.source_width - c.output_width) return false;
  if (c.output_y > c.source_height - c.output_height) return false;
  if (!image_pitch_ok(c.source_pitch, c.source_width)) return false;
  if (!image_pitch_ok(c.destination_pitch, c.output_width)) return false;
  if (!kernel_side_ok(c.kernel_width) || !kernel_side_ok(c.kernel_height)) return false;
  if (c.divisor < 1 || c.divisor > SGPU_DIVISOR_MAX) return false;
  if (c.bias < -255 || c.bias > 255) return false;
  constexpr UINT kFlags = SGPU_CONVOLVE_ABS | SGPU_CONVOLVE_GRADIENT | SGPU_CONVOLVE_KEEP_ALPHA;
  if ((c.flags & ~kFlags) != 0 || c.reserved != 0 || c.reserved2 != 0) return false;
  spans[0] = {rectangle_bytes(c.source_pitch, c.source_width * SGPU_PIXEL_BYTES, c.source_height),
              SGPU_PIXEL_BYTES};
  spans[1] = {
      rectangle_bytes(c.destination_pitch, c.output_width * SGPU_PIXEL_BYTES, c.output_height),
      SGPU_PIXEL_BYTES};
  return true;
}

/// Checks every field the hardware would fault on, and works out what the operands cover.
/// False: a field is out of range.
bool check_fields(const Command& command, Span* spans) {
  switch (command.header.opcode) {
    case SGPU_OP_FENCE_WRITE:
    case SGPU_OP_SEM_WAIT:
    case SGPU_OP_SEM_SIGNAL: {
      const SgpuUmdFence& c = command.fence;
      if ((c.width != 4 && c.width != 8) || c.reserved != 0) return false;
      if (c.width == 4 && c.value > 0xFFFFFFFFU) return false;
      spans[0] = {c.width, c.width};
      return true;
    }
    case SGPU_OP_COPY: {
      const SgpuUmdCopy& c = command.copy;
      if (c.size_bytes == 0) return false;
      spans[0] = spans[1] = {c.size_bytes, 1};
      return true;
    }
    case SGPU_OP_FILL: {
      const SgpuUmdFill& c = command.fill;
      if (c.size_bytes == 0 || c.size_bytes % 4 != 0 || c.reserved != 0) return false;
      spans[0] = {c.size_bytes, 4};
      return true;
    }
    case SGPU_OP_BLIT2D: {
      const SgpuUmdBlit2d& c = command.blit2d;
      if (c.width_bytes == 0 || c.height == 0) return false;
      if (c.source_pitch < c.width_bytes || c.destination_pitch < c.width_bytes) return false;
      spans[0] = {rectangle_bytes(c.source_pitch, c.width_bytes, c.height), 1};
      spans[1] = {rectangle_bytes(c.destination_pitch, c.width_bytes, c.height), 1};
      return true;
    }
    case SGPU_OP_CONVOLVE:
      return check_convolve(command.convolve, spans);
    case SGPU_OP_DOWNSCALE: {
      const SgpuUmdDownscale& c = command.downscale;
      if (!in_range(c.source_width, 1, SGPU_IMAGE_PIXELS_MAX)) return false;
      if (!in_range(c.source_height, 1, SGPU_IMAGE_PIXELS_MAX)) return false;
      const UINT width = (c.source_width + 1) / 2;
      if (!image_pitch_ok(c.source_pitch, c.source_width)) return false;
      if (!image_pitch_ok(c.destination_pitch, width)) return false;
      spans[0] = {
          rectangle_bytes(c.source_pitch, c.source_width * SGPU_PIXEL_BYTES, c.source_height),
          SGPU_PIXEL_BYTES};
      spans[1] = {
          rectangle_bytes(c.destination_pitch, width * SGPU_PIXEL_BYTES, (c.source_height + 1) / 2),
          SGPU_PIXEL_BYTES};
      return true;
    }
    case SGPU_OP_CHECKSUM: {
      const SgpuUmdChecksum& c = command.checksum;
      if (c.width_bytes == 0 || c.height == 0 || c.pitch < c.width_bytes) return false;
      if (c.kind > SGPU_CHECKSUM_SUM64) return false;
      spans[0] = {rectangle_bytes(c.pitch, c.width_bytes, c.height), 1};
      spans[1] = {8, 8};
      return true;
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
bool overlap(const TranslateJob& job, const Command& command, const Shape& shape,
             const Span* spans) {
  const SgpuUmdReference a = reference_at(command, shape.address[0]);
  const SgpuUmdReference b = reference_at(command, shape.address[1]);
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
  *shape = &kShapes[header.opcode];
  if ((*shape)->size == 0) return STATUS_PRIVILEGED_INSTRUCTION;
  if (((*shape)->nodes >> job.node & 1) == 0) return STATUS_ILLEGAL_INSTRUCTION;
  if (header.size_bytes != (*shape)->size) return STATUS_INVALID_PARAMETER;
  if (header.size_bytes > end - offset) return STATUS_INVALID_USER_BUFFER;

  status = job.read(command->bytes, from, header.size_bytes);
  if (!NT_SUCCESS(status)) return status;
  // The header was read twice, and user mode may have changed it in between: what was checked
  // counts.
  command->header = header;

  Span spans[kSlots];
  if (!check_fields(*command, spans)) return STATUS_INVALID_PARAMETER;
  for (UINT i = 0; i < (*shape)->operands; ++i) {
    status = check_reference(job, reference_at(*command, (*shape)->address[i]), spans[i],
                             ((*shape)->written >> i & 1) != 0);
    if (!NT_SUCCESS(status)) return status;
  }
  if ((*shape)->disjoint && overlap(job, *command, **shape, spans)) return STATUS_INVALID_PARAMETER;
  return STATUS_SUCCESS;
}

/// Puts addresses in the place of references and writes the command and its patch locations.
void emit(TranslateJob* job, Command* command, const Shape& shape) {
  for (UINT slot = 0; slot < kSlots && shape.operands != 0; ++slot) {
    const UINT field = shape.address[slot];
    // The last slot of a one-operand command repeats the first: read the reference before it
    // becomes an address.
    const bool repeated = slot >= shape.operands;
    D3DDDI_PATCHLOCATIONLIST& location = job->patches[job->patch_count + slot];
    if (repeated) {
      location = job->patches[job->patch_count];
      location.SlotId = slot & 0xFFFFFFU;
      continue;
    }
    const SgpuUmdReference reference = reference_at(*command, field);
    location = {};
    location.AllocationIndex = reference.allocation;
    location.SlotId = slot & 0xFFFFFFU;
    location.DriverId = command->header.opcode;
    location.AllocationOffset = reference.offset;
    location.PatchOffset = job->dma_used + field;
    location.SplitOffset = job->dma_used;

    const DXGK_ALLOCATIONLIST& entry = job->allocations[reference.allocation];
    const UINT64 address =
        entry.SegmentId == 0
            ? kUnpatched
            : static_cast<UINT64>(entry.PhysicalAddress.QuadPart) + reference.offset;
    __builtin_memcpy(command->bytes + field, &address, sizeof(address));
  }
  __builtin_memcpy(job->dma + job->dma_used, command->bytes, shape.size);
  job->dma_used += shape.size;
  if (shape.operands != 0) job->patch_count += kSlots;
}

}  // namespace

NTSTATUS translate(TranslateJob* job) {
  job->dma_used = 0;
  job->patch_count = 0;

  SgpuUmdBufferHeader header;
  if (job->command_length < sizeof(header)) return STATUS_INVALID_USER_BUFFER;
  NTSTATUS status = job->read(&header, job->command, sizeof(header));
  if (!NT_SUCCESS(status)) return status;
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
    status = fetch(*job, offset, end, &command, &shape);
    if (!NT_SUCCESS(status)) return status;
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
  for (UINT i = job.first; i < job.first + job.length; ++i) {
    const D3DDDI_PATCHLOCATIONLIST& location = job.patches[i];
    if (location.AllocationIndex >= job.allocation_count) return STATUS_INVALID_PARAMETER;
    const DXGK_ALLOCATIONLIST& entry = job.allocations[location.AllocationIndex];
    if (entry.hDeviceSpecificAllocation == nullptr) continue;  // unbinds the slot: nothing to write

    // SplitOffset is where the command starts. Its opcode, which only this driver writes, leads to
    // the one place in it that this slot may patch.
    const UINT command = location.SplitOffset;
    if (command < job.start || command > job.end || job.end - command < sizeof(SgpuCommandHeader)) {
      return STATUS_INVALID_PARAMETER;
    }
    SgpuCommandHeader header;
    __builtin_memcpy(&header, job.dma + command, sizeof(header));
    if (header.opcode >= SGPU_OP_COUNT || location.SlotId >= kSlots) {
      return STATUS_INVALID_PARAMETER;
    }
    const Shape& shape = kShapes[header.opcode];
    if (shape.operands == 0 || shape.size > job.end - command) return STATUS_INVALID_PARAMETER;
    if (location.PatchOffset - command != shape.address[location.SlotId]) {
      return STATUS_INVALID_PARAMETER;
    }
    const UINT64 address =
        static_cast<UINT64>(entry.PhysicalAddress.QuadPart) + location.AllocationOffset;
    __builtin_memcpy(job.dma + location.PatchOffset, &address, sizeof(address));
  }
  return STATUS_SUCCESS;
}

}  // namespace softgpu
