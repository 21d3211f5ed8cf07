/* The hardware interface of the software GPU: registers, ring entries, commands. See manual.md.
 *
 * Plain C, no includes, fixed layouts: the device model and its miniport both compile this file.
 * Every structure is naturally aligned, so no packing pragma is needed; sizes are asserted below.
 */
#ifndef DXGKIT_DEVICES_SOFTGPU_HW_H_
#define DXGKIT_DEVICES_SOFTGPU_HW_H_

typedef unsigned char SgpuU8;
typedef unsigned short SgpuU16;
typedef short SgpuI16;
typedef unsigned int SgpuU32;
typedef int SgpuI32;
typedef unsigned long long SgpuU64;

#ifdef __cplusplus
#define SGPU_ASSERT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type)
#else
#define SGPU_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#endif

/* --- identity --- */
#define SGPU_PCI_VENDOR_ID 0x5347u
#define SGPU_PCI_DEVICE_ID 0x0001u
#define SGPU_PCI_REVISION 0x01u

#define SGPU_BAR_REGISTERS 0u
#define SGPU_BAR_VRAM 2u
#define SGPU_BAR0_BYTES 0x10000u

#define SGPU_NODE_COUNT 2u
#define SGPU_NODE_3D 0u   /* every command */
#define SGPU_NODE_COPY 1u /* every command except CONVOLVE and DOWNSCALE */

/* --- GPU physical address map --- */
/* [0, VRAM_BASE) is the system bus, one to one: a DMA address of the machine is used as it is. */
#define SGPU_SYSTEM_BASE 0x0000000000ull
#define SGPU_SYSTEM_LIMIT 0x1000000000ull
#define SGPU_VRAM_BASE 0x1000000000ull     /* size: SGPU_REG_VRAM_SIZE */
#define SGPU_APERTURE_BASE 0x2000000000ull /* size: SGPU_REG_APERTURE_SIZE */
#define SGPU_PAGE_BYTES 4096u
#define SGPU_APERTURE_BYTES 0x10000000ull /* 256 MiB */
#define SGPU_APERTURE_PAGES 65536u

/* --- GPU virtual addresses ---
 *
 * A ring entry with SGPU_EXECUTE_VIRTUAL names a root page table; every address of its commands,
 * and of their buffer, goes through it. A page table is an array of 64-bit entries in system memory
 * or VRAM. Level 0 is the leaf.
 *
 *   two levels   VA bits 12..20 index level 0, bits 21..39 the root, which may have up to 2^19
 *                entries
 *   four levels  VA bits 12..20, 21..29, 30..38, 39..47, 512 entries each
 */
#define SGPU_VA_TABLE_ENTRIES 512u /* of every table but the root of two levels */
#define SGPU_VA_TABLE_BYTES 4096u
#define SGPU_LARGE_PAGE_BYTES 0x10000u
#define SGPU_VA_BITS_2 40u
#define SGPU_VA_BITS_4 48u
#define SGPU_VA_ROOT_ENTRIES_MAX_2 0x80000u

/* Page table entry: GPU physical address of the page, or of the next lower table (bits 12..51), and
 * flags. Without VALID the other bits are ignored. */
#define SGPU_PTE_VALID 0x1ull
#define SGPU_PTE_READ_ONLY 0x2ull  /* level 0 */
#define SGPU_PTE_NO_EXECUTE 0x4ull /* level 0: no command is fetched from here */
#define SGPU_PTE_ZERO 0x8ull /* any level: reads 0, writes are dropped; the address must be 0 */
#define SGPU_PTE_COHERENT 0x10ull /* level 0: no effect, because every access snoops */
#define SGPU_PTE_64K 0x20ull      /* level 1: the table below has 32 entries, for pages of 64 KiB */
#define SGPU_PTE_FLAGS 0x3Full
#define SGPU_PTE_ADDRESS_MASK 0x000FFFFFFFFFF000ull /* the bits of neither must be 0 */

/* Aperture entry: system page address (bits 12..51) | flags. */
#define SGPU_ENTRY_VALID 0x1ull
#define SGPU_ENTRY_DUMMY 0x2ull /* set by UNMAP_APERTURE: access works, writes are counted */
#define SGPU_ENTRY_ADDRESS_MASK 0x000FFFFFFFFFF000ull

/* --- global registers (offsets in BAR 0; width in the name of the group) --- */
#define SGPU_REG_ID 0x0000u             /* 32 RO: SGPU_ID_VALUE */
#define SGPU_REG_REVISION 0x0004u       /* 32 RO: SGPU_HW_REVISION */
#define SGPU_REG_NODE_COUNT 0x0008u     /* 32 RO */
#define SGPU_REG_VRAM_BASE 0x0010u      /* 64 RO: GPU address */
#define SGPU_REG_VRAM_SIZE 0x0018u      /* 64 RO: real bytes, may be below the size of BAR 2 */
#define SGPU_REG_APERTURE_BASE 0x0020u  /* 64 RO */
#define SGPU_REG_APERTURE_SIZE 0x0028u  /* 64 RO */
#define SGPU_REG_APERTURE_INDEX 0x0030u /* 32 RW: page index for APERTURE_ENTRY */
#define SGPU_REG_APERTURE_ENTRY 0x0038u /* 64 RW: entry at INDEX; a write advances INDEX by one */
#define SGPU_REG_DUMMY_WRITES \
  0x0040u                           /* 32 RW: GPU page writes through DUMMY entries; write clears */
#define SGPU_REG_INT_STATUS 0x0080u /* 32 RO: causes, SGPU_INT_* */
#define SGPU_REG_INT_ACK 0x0084u    /* 32 WO: write 1 to clear a cause */
#define SGPU_REG_INT_ENABLE 0x0088u /* 32 RW: 1 = the cause drives the line */
#define SGPU_REG_INT_PENDING 0x008Cu /* 32 RO: STATUS & ENABLE */
#define SGPU_REG_TIMESTAMP 0x0090u   /* 64 RO: nanoseconds */
#define SGPU_REG_STANDBY_KEEPS \
  0x00A0u /* 64 RO: VRAM bytes, from offset 0, that survive when the machine stands by */
#define SGPU_REG_HIBERNATE_KEEPS \
  0x00A8u /* 64 RO: the same for hibernation; at most STANDBY_KEEPS */
#define SGPU_REG_SEM_DOORBELL                                         \
  0x0098u /* 32 WO: CPU wrote a semaphore; waiting engines look again \
           */

/* Invalidating translations from the CPU: set the three wide registers, then write TLB_FLUSH. */
#define SGPU_REG_TLB_ROOT 0x00B0u  /* 64 RW: as SgpuFlushTlb.root */
#define SGPU_REG_TLB_START 0x00B8u /* 64 RW */
#define SGPU_REG_TLB_END 0x00C0u   /* 64 RW */
#define SGPU_REG_TLB_FLUSH                                                        \
  0x00C8u /* 32 RW: any write flushes. Reads 1 while an engine may still use what \
             it translated before, then 0 */
#define SGPU_REG_TLB_MISSES 0x00D0u /* 64 RO: page table walks since power on, both engines */

/* The screen. Pixels are four bytes: blue, green, red, unused. An address written is taken at the
 * next vertical sync, or with SGPU_SCANOUT_NOW in its lowest bit at once. */
#define SGPU_REG_SCANOUTS 0x0100u        /* 32 RO: 0 or 1; with 0 the others read 0 */
#define SGPU_REG_SCANOUT_CONTROL 0x0104u /* 32 RW: SGPU_SCANOUT_ENABLE */
#define SGPU_REG_SCANOUT_ADDRESS 0x0108u /* 64 RW: GPU address of the first row */
#define SGPU_REG_SCANOUT_SIZE 0x0110u    /* 32 RW: width | height << 16, in pixels */
#define SGPU_REG_SCANOUT_PITCH 0x0114u   /* 32 RW: bytes */
#define SGPU_REG_SCANOUT_SHOWN 0x0118u   /* 64 RO: the address taken last */
#define SGPU_REG_SCANOUT_LINE 0x0120u    /* 32 RO: line being drawn, or SGPU_SCANOUT_IN_BLANK */
#define SGPU_REG_SCANOUT_REFRESH 0x0124u /* 32 RO: vertical syncs per second */
#define SGPU_REG_PLANES 0x0130u          /* 32 RO: overlay planes of the screen */

/* An overlay plane: registers SGPU_PLANE_REG(plane, SGPU_PLANE_...). A rectangle is x | y << 16 |
 * width << 32 | height << 48. All take effect together, with COMMIT. Plane 0 is on top. */
#define SGPU_PLANE_COUNT 2u
#define SGPU_PLANE_BLOCK 0x40u
#define SGPU_PLANE_REG(plane, reg) (0x0140u + SGPU_PLANE_BLOCK * (plane) + (reg))
#define SGPU_PLANE_ADDRESS 0x00u /* 64 RW: GPU address of the surface's first row */
#define SGPU_PLANE_SOURCE 0x08u  /* 64 RW: rectangle of the surface */
#define SGPU_PLANE_TARGET 0x10u  /* 64 RW: rectangle of the screen that shows all of SOURCE */
#define SGPU_PLANE_CLIP 0x18u    /* 64 RW: rectangle of the screen; nothing is shown outside */
#define SGPU_PLANE_PITCH 0x20u   /* 32 RW: bytes */
#define SGPU_PLANE_CONTROL 0x24u /* 32 RW: SGPU_PLANE_ENABLE, SGPU_PLANE_BLEND */
#define SGPU_PLANE_COMMIT 0x28u  /* 32 WO: at the next vertical sync, or with bit 0 at once */
#define SGPU_PLANE_SHOWN 0x30u   /* 64 RO: address shown; 0: the plane is off */
#define SGPU_PLANE_RECT(x, y, width, height) \
  ((SgpuU64)(x) | (SgpuU64)(y) << 16 | (SgpuU64)(width) << 32 | (SgpuU64)(height) << 48)
#define SGPU_PLANE_ENABLE 0x1u
#define SGPU_PLANE_BLEND 0x2u /* colours are multiplied by alpha already */
#define SGPU_PLANE_NOW 0x1u

#define SGPU_SCANOUT_ENABLE 0x1u
#define SGPU_SCANOUT_NOW 0x1ull
#define SGPU_SCANOUT_IN_BLANK 0x80000000u

#define SGPU_ID_VALUE 0x55504753u    /* "SGPU" */
#define SGPU_HW_REVISION 0x00010001u /* 1.1: GPU virtual addresses */

#define SGPU_INT_COMPLETE(node) (0x00000001u << (node))
#define SGPU_INT_PREEMPTED(node) (0x00000100u << (node))
#define SGPU_INT_FAULT(node) (0x00010000u << (node))
#define SGPU_INT_COMPLETE_ALL 0x00000003u
#define SGPU_INT_PREEMPTED_ALL 0x00000300u
#define SGPU_INT_FAULT_ALL 0x00030000u
#define SGPU_INT_VSYNC 0x01000000u /* with a screen only, and while it is enabled */
#define SGPU_INT_ALL 0x00030303u   /* of the engines */

/* --- node registers: SGPU_NODE_REG(node, SGPU_NODE_...) --- */
#define SGPU_NODE_BLOCK 0x1000u
#define SGPU_NODE_REG(node, reg) (SGPU_NODE_BLOCK * ((node) + 1u) + (reg))

#define SGPU_NODE_RING_BASE 0x00u /* 64 RW: GPU address, 64-byte aligned; write while disabled */
#define SGPU_NODE_RING_SIZE                                                                       \
  0x08u                           /* 32 RW: entries, power of two, 2..65536; write while disabled \
                                   */
#define SGPU_NODE_RING_HEAD 0x0Cu /* 32 RO: index of the next entry to fetch, 0..size-1 */
#define SGPU_NODE_RING_TAIL 0x10u /* 32 RW: doorbell; one past the last valid entry, 0..size-1 */
#define SGPU_NODE_CONTROL 0x14u   /* 32 RW: SGPU_CONTROL_* */
#define SGPU_NODE_STATUS 0x18u    /* 32 RO: SGPU_STATUS_* */
#define SGPU_NODE_COMPLETED_FENCE \
  0x20u /* 32 RW: fence of the last finished entry; write while disabled */
#define SGPU_NODE_CURRENT_FENCE 0x24u     /* 32 RO: fence of the entry in execution, 0 if none */
#define SGPU_NODE_FETCHED_FENCE 0x28u     /* 32 RO: fence of the last entry fetched from the ring */
#define SGPU_NODE_PREEMPT_REQUEST 0x2Cu   /* 32 RW: write a non-zero id to preempt */
#define SGPU_NODE_PREEMPT_DONE 0x30u      /* 32 RO: id of the last request answered */
#define SGPU_NODE_PREEMPT_COMPLETED 0x34u /* 32 RO: COMPLETED_FENCE when it was answered */
#define SGPU_NODE_PREEMPT_FENCE 0x38u     /* 32 RO: fence of the entry stopped midway, 0 if none */
#define SGPU_NODE_PREEMPT_OFFSET                                                                 \
  0x3Cu                               /* 32 RO: where it stopped: EXECUTE.start_offset to resume \
                                       */
#define SGPU_NODE_FAULT_REASON 0x40u  /* 32 RO: SGPU_FAULT_*; 0 if none since reset */
#define SGPU_NODE_FAULT_FENCE 0x44u   /* 32 RO */
#define SGPU_NODE_FAULT_ADDRESS 0x48u /* 64 RO: GPU address, or 0 */
#define SGPU_NODE_FAULT_OFFSET 0x50u  /* 32 RO: byte offset of the command in its DMA buffer */
#define SGPU_NODE_ABORTED_FENCE 0x54u /* 32 RO: CURRENT_FENCE when the last reset took effect */
#define SGPU_NODE_EXECUTED 0x58u      /* 64 RO: ring entries finished since power on */
#define SGPU_NODE_FAULT_DETAIL 0x60u  /* 32 RO: SGPU_DETAIL_*, for SGPU_FAULT_PAGE; else 0 */
#define SGPU_NODE_FAULT_ROOT 0x68u    /* 64 RO: root of the faulting entry, 0 if not virtual */

/* FAULT_DETAIL: what the access was, where the walk stopped and why. */
#define SGPU_DETAIL_WRITE 0x1u
#define SGPU_DETAIL_FETCH 0x2u                            /* a command */
#define SGPU_DETAIL_WHY(detail) (((detail) >> 8) & 0xFFu) /* SGPU_PAGE_* */
#define SGPU_DETAIL_LEVEL(detail) (((detail) >> 16) & 0xFu)
#define SGPU_PAGE_NOT_VALID 1u   /* an entry without VALID */
#define SGPU_PAGE_READ_ONLY 2u   /* a write to a READ_ONLY page */
#define SGPU_PAGE_NO_EXECUTE 3u  /* a command in a NO_EXECUTE or ZERO page */
#define SGPU_PAGE_ROOT_INDEX 4u  /* index at or past root_entries */
#define SGPU_PAGE_VA_WIDTH 5u    /* address beyond what the levels can translate, or wrapping */
#define SGPU_PAGE_BAD_ENTRY 6u   /* a reserved bit is set */
#define SGPU_PAGE_BAD_TABLE 7u   /* a table, or the root, is not in readable memory */
#define SGPU_PAGE_BAD_ADDRESS 8u /* the page is not in memory */

#define SGPU_CONTROL_ENABLE 0x1u /* fetch from the ring */
#define SGPU_CONTROL_RESET 0x2u  /* write only; clears ENABLE; poll STATUS until RESETTING is 0 */

#define SGPU_STATUS_ENABLED 0x01u
#define SGPU_STATUS_BUSY 0x02u       /* an entry is in execution */
#define SGPU_STATUS_FAULTED 0x04u    /* stopped by a fault; only a reset helps */
#define SGPU_STATUS_WAITING 0x08u    /* inside SEM_WAIT with the condition not met */
#define SGPU_STATUS_RESETTING 0x10u  /* the engine may still touch memory */
#define SGPU_STATUS_PREEMPTING 0x20u /* a preemption request is not answered yet */

/* --- ring entries --- */
#define SGPU_RING_NOP 0u
#define SGPU_RING_EXECUTE 1u
#define SGPU_RING_FENCE 2u /* completes `fence` in order; address, length ignored */
#define SGPU_RING_ENTRIES_MIN 2u
#define SGPU_RING_ENTRIES_MAX 65536u

#define SGPU_EXECUTE_NO_INTERRUPT 0x1u /* update COMPLETED_FENCE, set no cause */
#define SGPU_EXECUTE_NULL 0x2u         /* skip the commands, complete the fence */
#define SGPU_EXECUTE_VIRTUAL 0x4u      /* `address` and all addresses in commands are virtual */
#define SGPU_EXECUTE_FOUR_LEVELS 0x8u  /* with VIRTUAL: of page tables; else two */
#define SGPU_EXECUTE_PRIVILEGED \
  0x10u /* with VIRTUAL: commands of the kernel are allowed (marked P below) */

typedef struct SgpuRingEntry {
  SgpuU32 type;         /* SGPU_RING_* */
  SgpuU32 flags;        /* SGPU_EXECUTE_* */
  SgpuU32 fence;        /* reported on completion */
  SgpuU32 length;       /* bytes of commands at `address`, multiple of 8, 0..SGPU_DMA_BYTES_MAX */
  SgpuU64 address;      /* GPU address of the DMA buffer, 8-byte aligned */
  SgpuU32 start_offset; /* first command to run: 0, or PREEMPT_OFFSET to resume; multiple of 8 */
  SgpuU32 root_entries; /* VIRTUAL: entries of the root; four levels: at most 512. Else 0 */
  SgpuU64 root;         /* VIRTUAL: GPU physical address of the root, page aligned. Else 0 */
  SgpuU64 reserved[3];  /* must be 0 */
} SgpuRingEntry;
SGPU_ASSERT_SIZE(SgpuRingEntry, 64);

#define SGPU_DMA_BYTES_MAX 0x1000000u /* 16 MiB */

/* --- commands ---
 *
 * Each command begins with SgpuCommandHeader. `size` is the size of the whole command in bytes, a
 * multiple of 8. For a command with no list it must be exactly sizeof the structure; for NOP it is
 * anything from 8 up. Address fields are 64-bit GPU addresses at 8-byte aligned offsets: the places
 * that a driver patches. Reserved fields must be 0. A command marked P faults in a virtual entry
 * that is not PRIVILEGED. */
#define SGPU_OP_NOP 0x00u
#define SGPU_OP_END 0x01u
#define SGPU_OP_FENCE_WRITE 0x02u
#define SGPU_OP_COPY 0x03u
#define SGPU_OP_COPY_PAGES 0x04u /* P */
#define SGPU_OP_FILL 0x05u
#define SGPU_OP_BLIT2D 0x06u
#define SGPU_OP_CONVOLVE 0x07u
#define SGPU_OP_DOWNSCALE 0x08u
#define SGPU_OP_CHECKSUM 0x09u
#define SGPU_OP_SEM_WAIT 0x0Au
#define SGPU_OP_SEM_SIGNAL 0x0Bu
#define SGPU_OP_MAP_APERTURE 0x0Cu   /* P */
#define SGPU_OP_UNMAP_APERTURE 0x0Du /* P */
#define SGPU_OP_DELAY 0x0Eu
#define SGPU_OP_WRITE_PTES 0x0Fu /* P */
#define SGPU_OP_COPY_PTES 0x10u  /* P */
#define SGPU_OP_FLUSH_TLB 0x11u  /* P */
#define SGPU_OP_COUNT 0x12u

typedef struct SgpuCommandHeader {
  SgpuU32 opcode;
  SgpuU32 size;
} SgpuCommandHeader;
SGPU_ASSERT_SIZE(SgpuCommandHeader, 8);

/* NOP and END are the bare header. END finishes the buffer early; the end of the buffer does the
 * same. */

typedef struct SgpuFenceWrite { /* FENCE_WRITE, SEM_SIGNAL, SEM_WAIT */
  SgpuCommandHeader header;
  SgpuU64 address; /* aligned to `width` */
  SgpuU64 value;
  SgpuU32 width; /* 4 or 8 bytes */
  SgpuU32 reserved;
} SgpuFenceWrite;
typedef SgpuFenceWrite SgpuSemSignal; /* memory = max(memory, value), unsigned, atomic */
typedef SgpuFenceWrite SgpuSemWait;   /* until memory >= value, unsigned; preemptible */
SGPU_ASSERT_SIZE(SgpuFenceWrite, 32);

typedef struct SgpuCopy { /* any size and alignment; overlapping ranges move as if through a buffer
                           */
  SgpuCommandHeader header;
  SgpuU64 source;
  SgpuU64 destination;
  SgpuU64 size;
} SgpuCopy;
SGPU_ASSERT_SIZE(SgpuCopy, 32);

#define SGPU_COPY_TO_PAGES 0u   /* linear -> pages */
#define SGPU_COPY_FROM_PAGES 1u /* pages -> linear */
typedef struct SgpuCopyPages { /* followed by SgpuU64 pages[page_count]: bus addresses, page aligned
                                */
  SgpuCommandHeader header;
  SgpuU64 linear;
  SgpuU64 size;        /* bytes; page_offset + size <= page_count * SGPU_PAGE_BYTES */
  SgpuU32 page_offset; /* start inside the first page, 0..4095 */
  SgpuU32 page_count;
  SgpuU32 direction;
  SgpuU32 reserved;
} SgpuCopyPages;
SGPU_ASSERT_SIZE(SgpuCopyPages, 40);

typedef struct SgpuFill { /* destination and size multiples of 4 */
  SgpuCommandHeader header;
  SgpuU64 destination;
  SgpuU64 size;
  SgpuU32 pattern; /* little endian, repeated from destination on */
  SgpuU32 reserved;
} SgpuFill;
SGPU_ASSERT_SIZE(SgpuFill, 32);

typedef struct SgpuBlit2d { /* rows top to bottom; within a row as COPY */
  SgpuCommandHeader header;
  SgpuU64 source;
  SgpuU64 destination;
  SgpuU32 source_pitch; /* bytes, >= width_bytes */
  SgpuU32 destination_pitch;
  SgpuU32 width_bytes;
  SgpuU32 height;
} SgpuBlit2d;
SGPU_ASSERT_SIZE(SgpuBlit2d, 40);

#define SGPU_IMAGE_PIXELS_MAX 32768u /* width and height of an image rectangle */
#define SGPU_PIXEL_BYTES 4u          /* R, G, B, A; one byte each, in this order */

#define SGPU_CONVOLVE_ABS 0x1u        /* result from |sum| */
#define SGPU_CONVOLVE_GRADIENT 0x2u   /* result from |sum(kernel)| + |sum(kernel2)| */
#define SGPU_CONVOLVE_KEEP_ALPHA 0x4u /* alpha copied from the source pixel */
#define SGPU_KERNEL_MAX 7u
#define SGPU_KERNEL_TAPS 49u
#define SGPU_DIVISOR_MAX 0x1000000

typedef struct SgpuConvolve {
  SgpuCommandHeader header;
  SgpuU64 source;       /* top left pixel of the source rectangle, halo included; 4-byte aligned */
  SgpuU64 destination;  /* top left pixel of the output rectangle; 4-byte aligned */
  SgpuU32 source_pitch; /* bytes, multiple of 4, >= 4 * source_width */
  SgpuU32 destination_pitch;
  SgpuU32 source_width; /* pixels, 1..SGPU_IMAGE_PIXELS_MAX */
  SgpuU32 source_height;
  SgpuU32 output_x; /* output rectangle inside the source rectangle */
  SgpuU32 output_y;
  SgpuU32 output_width;
  SgpuU32 output_height;
  SgpuU32 kernel_width; /* 1, 3, 5, 7 */
  SgpuU32 kernel_height;
  SgpuI32 divisor; /* 1..SGPU_DIVISOR_MAX */
  SgpuI32 bias;    /* -255..255 */
  SgpuU32 flags;   /* SGPU_CONVOLVE_* */
  SgpuU32 reserved;
  SgpuI16 kernel[SGPU_KERNEL_TAPS];  /* row by row, kernel_width per row; the rest is ignored */
  SgpuI16 kernel2[SGPU_KERNEL_TAPS]; /* used by GRADIENT */
  SgpuU32 reserved2;
} SgpuConvolve;
SGPU_ASSERT_SIZE(SgpuConvolve, 280);

typedef struct SgpuDownscale { /* output is (w + 1) / 2 by (h + 1) / 2; odd edges repeat */
  SgpuCommandHeader header;
  SgpuU64 source; /* 4-byte aligned, as is the destination */
  SgpuU64 destination;
  SgpuU32 source_pitch; /* bytes, multiple of 4 */
  SgpuU32 destination_pitch;
  SgpuU32 source_width; /* pixels */
  SgpuU32 source_height;
} SgpuDownscale;
SGPU_ASSERT_SIZE(SgpuDownscale, 40);

#define SGPU_CHECKSUM_FNV1A64 0u /* 64-bit FNV-1a of the bytes, row by row */
#define SGPU_CHECKSUM_SUM64 1u   /* sum of the bytes modulo 2^64 */
typedef struct SgpuChecksum {
  SgpuCommandHeader header;
  SgpuU64 source;
  SgpuU64 result; /* 8-byte aligned; receives 64 bits */
  SgpuU32 pitch;  /* bytes, >= width_bytes */
  SgpuU32 width_bytes;
  SgpuU32 height;
  SgpuU32 kind; /* SGPU_CHECKSUM_* */
} SgpuChecksum;
SGPU_ASSERT_SIZE(SgpuChecksum, 40);

typedef struct SgpuMapAperture { /* followed by SgpuU64 pages[page_count]: bus addresses, page
                                    aligned */
  SgpuCommandHeader header;
  SgpuU32 first_page; /* index in the aperture */
  SgpuU32 page_count;
} SgpuMapAperture;
SGPU_ASSERT_SIZE(SgpuMapAperture, 16);

typedef struct SgpuUnmapAperture {
  SgpuCommandHeader header;
  SgpuU32 first_page;
  SgpuU32 page_count;
  SgpuU64 dummy_page; /* bus address, page aligned: accesses go there; 0: accesses fault */
} SgpuUnmapAperture;
SGPU_ASSERT_SIZE(SgpuUnmapAperture, 24);

#define SGPU_DELAY_PREEMPTIBLE 0x1u /* may stop midway; resuming starts the delay again */
#define SGPU_DELAY_MAX_NS 3600000000000ull
typedef struct SgpuDelay { /* keeps the engine busy */
  SgpuCommandHeader header;
  SgpuU64 duration_ns;
  SgpuU32 flags;
  SgpuU32 reserved;
} SgpuDelay;
SGPU_ASSERT_SIZE(SgpuDelay, 24);

#define SGPU_PTES_PHYSICAL 0x1u /* table addresses are GPU physical, in a virtual entry too */
#define SGPU_PTES_MAX 0x100000u /* `count` of one command */
#define SGPU_PTES_REPEAT 0x2u   /* WRITE_PTES: one entry in the list, written `count` times */
typedef struct SgpuWritePtes {  /* followed by SgpuU64 entries[count], or [1] with REPEAT */
  SgpuCommandHeader header;
  SgpuU64 table; /* where the first entry goes; 8-byte aligned */
  SgpuU32 count;
  SgpuU32 flags; /* SGPU_PTES_* */
} SgpuWritePtes;
SGPU_ASSERT_SIZE(SgpuWritePtes, 24);

typedef struct SgpuCopyPtes { /* overlapping ranges move as if through a buffer */
  SgpuCommandHeader header;
  SgpuU64 source; /* of the first entry; 8-byte aligned, as is the destination */
  SgpuU64 destination;
  SgpuU32 count;
  SgpuU32 flags; /* SGPU_PTES_PHYSICAL or 0 */
} SgpuCopyPtes;
SGPU_ASSERT_SIZE(SgpuCopyPtes, 32);

typedef struct SgpuFlushTlb { /* for both engines; done when neither uses the old translations */
  SgpuCommandHeader header;
  SgpuU64 root;  /* GPU physical address of the root whose translations are dropped; 0: any */
  SgpuU64 start; /* virtual addresses [start, end), both multiples of 4096; */
  SgpuU64 end;   /* both 0: all of them */
} SgpuFlushTlb;
SGPU_ASSERT_SIZE(SgpuFlushTlb, 32);

/* --- fault reasons --- */
#define SGPU_FAULT_NONE 0u
#define SGPU_FAULT_RING \
  1u /* ring unreadable, or an entry with a bad type, flags or reserved field */
#define SGPU_FAULT_BUFFER \
  2u /* DMA buffer unreadable, misaligned, too long; start_offset outside it */
#define SGPU_FAULT_OPCODE 3u    /* unknown opcode */
#define SGPU_FAULT_NODE 4u      /* opcode not available on this node */
#define SGPU_FAULT_SIZE 5u      /* header.size wrong for the opcode or past the end of the buffer */
#define SGPU_FAULT_ARGUMENT 6u  /* a field out of its range, a reserved field not 0 */
#define SGPU_FAULT_ALIGNMENT 7u /* an address misaligned */
#define SGPU_FAULT_ADDRESS 8u   /* a range outside system memory, VRAM and aperture, or wrapping */
#define SGPU_FAULT_APERTURE 9u  /* an aperture page that is not valid */
#define SGPU_FAULT_MEMORY 10u   /* VRAM error (injected) */
#define SGPU_FAULT_PAGE 11u     /* no translation: FAULT_ADDRESS is virtual, see FAULT_DETAIL */
#define SGPU_FAULT_PRIVILEGE 12u /* a P command in a virtual entry that is not PRIVILEGED */

#endif /* DXGKIT_DEVICES_SOFTGPU_HW_H_ */
