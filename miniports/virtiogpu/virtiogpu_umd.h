/* The interface between user mode and the virtiogpu miniport: private data and commands. Plain C.
 *
 * Everything here crosses a trust boundary: the driver copies a structure once before it looks at
 * it, and reserved fields must be zero. */
#pragma once

#include <stdint.h>

#define VGPU_UMD_VERSION 1u

/* KMTQAITYPE_UMDRIVERPRIVATE */
#define VGPU_UMD_ADAPTER_MAGIC 0x41504756u /* "VGPA" */
typedef struct VgpuUmdAdapterInfo {
  uint32_t magic, version;
  uint32_t side_max;                          /* pixels of a surface, width and height */
  uint32_t preferred_width, preferred_height; /* of the screen */
  uint32_t reserved;
} VgpuUmdAdapterInfo;

/* pPrivateDriverData of each D3DDDI_ALLOCATIONINFO: a surface of four bytes per pixel (blue, green,
 * red, unused), rows without padding. */
#define VGPU_UMD_ALLOCATION_MAGIC 0x4C504756u /* "VGPL" */
#define VGPU_UMD_SIDE_MAX 4096u
typedef struct VgpuUmdAllocation {
  uint32_t magic, version;
  uint32_t width, height; /* 1 to VGPU_UMD_SIDE_MAX */
  uint32_t pitch_bytes;   /* in 0, out 4 * width */
  uint32_t reserved;      /* 0 */
} VgpuUmdAllocation;

/* pCommand of D3DKMTRender: commands one behind the other, each with a header. */
#define VGPU_UMD_NOP 0u              /* any size from the header's on, a multiple of 4 */
#define VGPU_UMD_TRANSFER_TO_HOST 1u /* what the CPU has drawn goes to the device */
#define VGPU_UMD_FLUSH 2u            /* ... and from there to a screen that shows it */
typedef struct VgpuUmdHeader {
  uint32_t type;
  uint32_t size_bytes; /* of the whole command, with the header */
} VgpuUmdHeader;
typedef struct VgpuUmdRectangle { /* TRANSFER_TO_HOST, FLUSH */
  VgpuUmdHeader header;
  uint32_t allocation;          /* index in the allocation list */
  uint32_t x, y, width, height; /* pixels of the surface; not empty */
  uint32_t reserved;            /* 0 */
} VgpuUmdRectangle;
