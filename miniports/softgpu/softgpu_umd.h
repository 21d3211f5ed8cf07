/* The interface between user mode and the softgpu miniport: private data, commands, escapes.
 *
 * The header is plain C with fixed-size types and includes no other header of the project, so a
 * user-mode driver on any compiler can include it. Everything here crosses a trust boundary.
 * Therefore structures start with a magic number, reserved fields must be zero, and the driver
 * copies a structure once before it looks at it.
 *
 * README.md shows how to submit work, and how the driver answers a bad buffer. Commands of one
 * context run in order. Only SEM_* commands or synchronisation objects order the commands of
 * different contexts.
 */
#ifndef DXGKIT_MINIPORTS_SOFTGPU_UMD_H_
#define DXGKIT_MINIPORTS_SOFTGPU_UMD_H_

#include <stdint.h>

#define SGPU_UMD_VERSION 1u

/* --- adapter: KMTQAITYPE_UMDRIVERPRIVATE --- */
#define SGPU_UMD_ADAPTER_MAGIC 0x41554753u /* "SGUA" */
#define SGPU_UMD_NODE_3D 0u                /* every command */
#define SGPU_UMD_NODE_COPY 1u              /* every command except CONVOLVE and DOWNSCALE */
/* WDDM 2.0: call MakeResident before a Render that names an allocation, and Evict afterwards. */
#define SGPU_UMD_ADAPTER_EXPLICIT_RESIDENCY 0x1u
/* Commands hold GPU virtual addresses, and D3DKMTRender is not used: see "GPU virtual addresses"
 * below. */
#define SGPU_UMD_ADAPTER_GPU_VA 0x2u
typedef struct SgpuUmdAdapterInfo {
  uint32_t magic;      /* out: SGPU_UMD_ADAPTER_MAGIC */
  uint32_t version;    /* out: highest SGPU_UMD_VERSION the driver speaks */
  uint32_t size_bytes; /* out: bytes of this structure the driver filled */
  uint32_t node_count;
  uint64_t vram_bytes, aperture_bytes;
  uint32_t hardware_revision;
  uint32_t allocation_bytes_max; /* out: SGPU_UMD_ALLOCATION_BYTES_MAX, or all VRAM if less */
  uint32_t flags;                /* out: SGPU_UMD_ADAPTER_* */
  uint32_t va_bits;              /* out: width of a GPU virtual address; 0 without them */
} SgpuUmdAdapterInfo;

/* --- allocations: pPrivateDriverData of each D3DDDI_ALLOCATIONINFO --- */
#define SGPU_UMD_ALLOCATION_MAGIC 0x4C554753u /* "SGUL" */
#define SGPU_UMD_KIND_BUFFER 0u               /* bytes; `size_bytes` says how many */
#define SGPU_UMD_KIND_SURFACE 1u              /* rows of 4-byte pixels (R, G, B, A) */
#define SGPU_UMD_PLACE_VRAM 0u    /* video memory only; never lockable; fastest for the engines */
#define SGPU_UMD_PLACE_STAGING 1u /* behind the aperture; lockable, cached: uploads, read-back */
#define SGPU_UMD_PLACE_ANY 2u     /* video memory if there is room, else the aperture; lockable */

/* Offsets in commands have 32 bits. With this limit, an offset plus a size fits into 32 bits too.
 */
#define SGPU_UMD_ALLOCATION_BYTES_MAX 0x40000000u /* 1 GiB */
#define SGPU_UMD_PITCH_ALIGNMENT 64u
#define SGPU_UMD_SURFACE_PIXELS_MAX 32768u /* width and height */
typedef struct SgpuUmdAllocation {
  uint32_t magic, version;
  uint32_t kind;        /* SGPU_UMD_KIND_* */
  uint32_t placement;   /* SGPU_UMD_PLACE_* */
  uint64_t size_bytes;  /* BUFFER: in. SURFACE: in 0, out pitch_bytes * height */
  uint32_t width;       /* SURFACE: pixels, 1..SGPU_UMD_SURFACE_PIXELS_MAX; BUFFER: 0 */
  uint32_t height;      /* SURFACE: rows; BUFFER: 0 */
  uint32_t pitch_bytes; /* SURFACE: in 0 (out: chosen) or a multiple of 4 >= 4 * width; BUFFER: 0 */
  uint32_t reserved;    /* 0 */
} SgpuUmdAllocation;

/* --- contexts: pPrivateDriverData of D3DKMTCreateContext; may be absent --- */
#define SGPU_UMD_CONTEXT_MAGIC 0x43554753u /* "SGUC" */
typedef struct SgpuUmdContext {
  uint32_t magic, version;
  uint32_t flags, reserved; /* 0 */
} SgpuUmdContext;

/* --- command buffers: pCommand of D3DKMTRender --- */
#define SGPU_UMD_BUFFER_MAGIC 0x42554753u /* "SGUB" */
typedef struct SgpuUmdBufferHeader {
  uint32_t magic, version;
  uint32_t size_bytes; /* header and commands: a multiple of 8, at most CommandLength */
  uint32_t flags;      /* 0 */
} SgpuUmdBufferHeader;

/* A user command has the layout of the hardware command with the same number, but a reference in
 * place of each 64-bit GPU address. So the driver translates an operand with one bounds check and
 * one store. */
#define SGPU_UMD_OP_FENCE_WRITE 0x02u
#define SGPU_UMD_OP_COPY 0x03u
#define SGPU_UMD_OP_FILL 0x05u
#define SGPU_UMD_OP_BLIT2D 0x06u
#define SGPU_UMD_OP_CONVOLVE 0x07u
#define SGPU_UMD_OP_DOWNSCALE 0x08u
#define SGPU_UMD_OP_CHECKSUM 0x09u
#define SGPU_UMD_OP_SEM_WAIT 0x0Au
#define SGPU_UMD_OP_SEM_SIGNAL 0x0Bu
#define SGPU_UMD_OP_DELAY 0x0Eu
typedef struct SgpuUmdReference {
  uint32_t allocation; /* index in the allocation list of this submission */
  uint32_t offset;     /* bytes from its start */
} SgpuUmdReference;
typedef struct SgpuUmdCommand {
  uint32_t opcode;
  uint32_t size_bytes; /* of the whole command: exactly the size of its structure */
} SgpuUmdCommand;

/* FENCE_WRITE stores `value`. SEM_SIGNAL stores max(memory, value). SEM_WAIT occupies the context's
 * node until memory >= value, unsigned; it can be preempted. After a store by the CPU, use
 * SGPU_UMD_ESCAPE_DOORBELL to wake a waiting engine. */
typedef struct SgpuUmdFence {
  SgpuUmdCommand header;
  SgpuUmdReference memory; /* offset a multiple of `width`; written except by SEM_WAIT */
  uint64_t value;
  uint32_t width; /* 4 or 8 bytes */
  uint32_t reserved;
} SgpuUmdFence;

typedef struct SgpuUmdCopy { /* overlapping ranges move as if through a buffer */
  SgpuUmdCommand header;
  SgpuUmdReference source;
  SgpuUmdReference destination; /* written */
  uint64_t size_bytes;          /* >= 1 */
} SgpuUmdCopy;
typedef struct SgpuUmdFill {
  SgpuUmdCommand header;
  SgpuUmdReference destination; /* written; offset a multiple of 4 */
  uint64_t size_bytes;          /* a multiple of 4, >= 4 */
  uint32_t pattern;
  uint32_t reserved;
} SgpuUmdFill;
typedef struct SgpuUmdBlit2d {
  SgpuUmdCommand header;
  SgpuUmdReference source;
  SgpuUmdReference destination;             /* written */
  uint32_t source_pitch, destination_pitch; /* bytes, >= width_bytes */
  uint32_t width_bytes;                     /* >= 1 */
  uint32_t height;                          /* rows, >= 1 */
} SgpuUmdBlit2d;

#define SGPU_UMD_CONVOLVE_ABS 0x1u
#define SGPU_UMD_CONVOLVE_GRADIENT 0x2u
#define SGPU_UMD_CONVOLVE_KEEP_ALPHA 0x4u
#define SGPU_UMD_KERNEL_TAPS 49u
/* CONVOLVE and DOWNSCALE run on node 3D only. Source and destination must not overlap; the gaps
 * between rows count too. The hardware manual says how the numbers change pixels. */
typedef struct SgpuUmdConvolve {
  SgpuUmdCommand header;
  SgpuUmdReference source;                  /* offset a multiple of 4 */
  SgpuUmdReference destination;             /* written; offset a multiple of 4 */
  uint32_t source_pitch, destination_pitch; /* bytes, multiples of 4 */
  uint32_t source_width, source_height;     /* pixels, 1..SGPU_UMD_SURFACE_PIXELS_MAX */
  uint32_t output_x, output_y, output_width, output_height; /* inside the source rectangle */
  uint32_t kernel_width, kernel_height;                     /* 1, 3, 5 or 7 */
  int32_t divisor;                                          /* 1..16777216 */
  int32_t bias;                                             /* -255..255 */
  uint32_t flags;                                           /* SGPU_UMD_CONVOLVE_* */
  uint32_t reserved;
  int16_t kernel[SGPU_UMD_KERNEL_TAPS]; /* row by row, kernel_width per row */
  int16_t kernel2[SGPU_UMD_KERNEL_TAPS];
  uint32_t reserved2;
} SgpuUmdConvolve;
typedef struct SgpuUmdDownscale { /* output is (w + 1) / 2 by (h + 1) / 2 pixels */
  SgpuUmdCommand header;
  SgpuUmdReference source;                  /* offset a multiple of 4 */
  SgpuUmdReference destination;             /* written; offset a multiple of 4 */
  uint32_t source_pitch, destination_pitch; /* bytes, multiples of 4 */
  uint32_t source_width, source_height;     /* pixels, 1..SGPU_UMD_SURFACE_PIXELS_MAX */
} SgpuUmdDownscale;

#define SGPU_UMD_CHECKSUM_FNV1A64 0u
#define SGPU_UMD_CHECKSUM_SUM64 1u
typedef struct SgpuUmdChecksum {
  SgpuUmdCommand header;
  SgpuUmdReference source;
  SgpuUmdReference result; /* written: 8 bytes; offset a multiple of 8 */
  uint32_t pitch;          /* bytes, >= width_bytes */
  uint32_t width_bytes;    /* >= 1 */
  uint32_t height;         /* rows, >= 1 */
  uint32_t kind;           /* SGPU_UMD_CHECKSUM_* */
} SgpuUmdChecksum;

#define SGPU_UMD_DELAY_PREEMPTIBLE 0x1u
#define SGPU_UMD_DELAY_MAX_NS 3600000000000ull
typedef struct SgpuUmdDelay { /* keeps the engine busy, for tests of scheduling and timeouts */
  SgpuUmdCommand header;
  uint64_t duration_ns; /* 0..SGPU_UMD_DELAY_MAX_NS */
  uint32_t flags;       /* SGPU_UMD_DELAY_* */
  uint32_t reserved;
} SgpuUmdDelay;

/* --- GPU virtual addresses (SGPU_UMD_ADAPTER_GPU_VA) ---
 *
 * Make the context with D3DKMTCreateContextVirtual and submit with D3DKMTSubmitCommand. `Commands`
 * is the virtual address of the first command. `CommandLength` is the length of all commands in
 * bytes: a multiple of 8, at most SGPU_UMD_VA_BUFFER_BYTES_MAX. The buffer has no
 * SgpuUmdBufferHeader: the engine reads the commands where they are. The commands above can be used
 * with a virtual address in the place of each SgpuUmdReference; NOP and END can be used too. The
 * hardware checks the commands, not the driver. A command that the hardware refuses ends the
 * submission with a fault.
 *
 * Map command buffers with Protection.Execute, and memory that commands write with
 * Protection.Write. To signal a fence from the GPU, end with SGPU_UMD_OP_FENCE_WRITE to the fence's
 * virtual address. */
#define SGPU_UMD_OP_NOP 0x00u /* SgpuUmdCommand alone, or followed by bytes that are ignored */
#define SGPU_UMD_OP_END 0x01u /* SgpuUmdCommand alone: the commands after it do not run */
#define SGPU_UMD_VA_BUFFER_BYTES_MAX 0x1000000u
/* A virtual address in the place of a reference: the same 8 bytes, little endian. */
static inline SgpuUmdReference sgpu_umd_at(uint64_t virtual_address) {
  SgpuUmdReference reference;
  reference.allocation = (uint32_t)virtual_address;
  reference.offset = (uint32_t)(virtual_address >> 32);
  return reference;
}

/* pPrivateDriverData of D3DKMTSubmitCommand; may be absent (size 0). Any other or longer data ends
 * the submission with STATUS_INVALID_PARAMETER and loses the device. */
#define SGPU_UMD_SUBMISSION_MAGIC 0x53554753u /* "SGUS" */
typedef struct SgpuUmdSubmission {
  uint32_t magic, version;
  uint32_t flags, reserved; /* 0 */
} SgpuUmdSubmission;

/* --- escapes: pPrivateDriverData of D3DKMTEscape(D3DKMT_ESCAPE_DRIVERPRIVATE) --- */
#define SGPU_UMD_ESCAPE_MAGIC 0x45554753u /* "SGUE" */
#define SGPU_UMD_ESCAPE_QUERY_STATE 0u    /* fills SgpuUmdEscape.node */
#define SGPU_UMD_ESCAPE_DOORBELL 1u /* the CPU wrote a semaphore; needs the HardwareAccess flag */
typedef struct SgpuUmdNodeState {
  uint32_t submitted_fence, completed_fence; /* last one given to and reported by the hardware */
  uint32_t submissions;                      /* counts since StartDevice, modulo 2^32 */
  uint32_t preemptions, faults, resets;
  uint32_t last_fault_reason; /* SGPU_FAULT_* of the hardware, 0 for none */
  uint32_t hardware_status;   /* SGPU_STATUS_* now; 0 unless the HardwareAccess flag is set */
} SgpuUmdNodeState;

#define SGPU_UMD_NODES_MAX 4u
typedef struct SgpuUmdEscape {
  uint32_t magic, version;                   /* in */
  uint32_t operation;                        /* in: SGPU_UMD_ESCAPE_* */
  uint32_t node_count;                       /* out */
  SgpuUmdNodeState node[SGPU_UMD_NODES_MAX]; /* out */
} SgpuUmdEscape;

#endif /* DXGKIT_MINIPORTS_SOFTGPU_UMD_H_ */
