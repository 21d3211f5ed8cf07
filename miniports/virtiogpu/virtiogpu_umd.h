/* The interface between user mode and the virtiogpu miniport: private data and commands. Plain C.
 *
 * Everything here crosses a trust boundary: the driver copies a structure once before it looks at
 * it, and reserved fields must be zero.
 *
 * With a device that has no 3D, `flags` of the adapter is 0, and everything that says "3D" is
 * refused with STATUS_INVALID_PARAMETER (private data) or STATUS_ILLEGAL_INSTRUCTION (commands).
 *
 * A reset of the device loses what all 3D contexts know and the content of all 3D resources. With a
 * timeout the D3DKMT devices are lost, too. After a sleep they are not: D3DKMTRender that uses such
 * a context or resource then costs its device, unless DISCARD comes first. 3D commands that were
 * rendered before a sleep and had not run by then cost their device, too, DISCARD or not. Surfaces
 * stay: their content is in the guest.
 */
#pragma once

#include <stdint.h>

#define VGPU_UMD_VERSION 1u

/* KMTQAITYPE_UMDRIVERPRIVATE */
#define VGPU_UMD_ADAPTER_MAGIC 0x41504756u /* "VGPA" */
#define VGPU_UMD_3D 0x1u                   /* flags: contexts, resources and commands of 3D */
#define VGPU_UMD_CONTEXT_INIT 0x2u         /* flags: a context may name its capability set */
/* flags: WDDM 2.0. What a submission names must be resident: D3DKMTMakeResident. */
#define VGPU_UMD_EXPLICIT_RESIDENCY 0x4u
#define VGPU_UMD_CAPSETS_MAX 4u
typedef struct VgpuUmdCapsetInfo {
  uint32_t id;      /* of virtio: 1 is virgl, 2 is virgl2 */
  uint32_t version; /* the highest that the device has */
  uint32_t bytes;   /* of the data that VGPU_UMD_ESCAPE_CAPSET gives */
} VgpuUmdCapsetInfo;
typedef struct VgpuUmdAdapterInfo {
  uint32_t magic, version;
  uint32_t side_max;                          /* pixels of a surface, width and height */
  uint32_t preferred_width, preferred_height; /* of the screen */
  uint32_t flags;                             /* VGPU_UMD_3D ... */
  uint32_t submit_bytes_max;                  /* of what follows the header in SUBMIT */
  uint32_t list_max;                          /* allocations that one D3DKMTRender may name */
  uint64_t resource_bytes_max;                /* of a resource's memory in the guest */
  uint32_t capset_count;
  uint32_t reserved;
  VgpuUmdCapsetInfo capsets[VGPU_UMD_CAPSETS_MAX];
} VgpuUmdAdapterInfo;

/* D3DKMTEscape, D3DKMT_ESCAPE_DRIVERPRIVATE, no flags. The data of a capability set follow this
 * structure: pPrivateDriverData has room for it and `bytes` more.
 *   STATUS_INVALID_PARAMETER: no such set, or a version that it does not have
 *   STATUS_BUFFER_TOO_SMALL: less room than the set has bytes */
#define VGPU_UMD_ESCAPE_MAGIC 0x45504756u /* "VGPE" */
#define VGPU_UMD_ESCAPE_CAPSET 1u
typedef struct VgpuUmdEscapeCapset {
  uint32_t magic, version;
  uint32_t type; /* VGPU_UMD_ESCAPE_CAPSET */
  uint32_t capset_id;
  uint32_t capset_version; /* of VgpuUmdCapsetInfo */
  uint32_t bytes;          /* in 0, out: of the data */
} VgpuUmdEscapeCapset;

/* pPrivateDriverData of D3DKMTCreateContext: a 3D context of the device belongs to the context.
 * Without private data a context has no 3D: it takes NOP, TRANSFER_TO_HOST and FLUSH only.
 * All allocations that the D3DKMT device has opened are attached to all its 3D contexts. So the
 * device lets a context reach those, and no others. */
#define VGPU_UMD_CONTEXT_MAGIC 0x43504756u /* "VGPC" */
#define VGPU_UMD_CONTEXT_NAME_MAX 64u
typedef struct VgpuUmdContext {
  uint32_t magic, version;
  uint32_t capset_id; /* 0: the device's choice; else one that the adapter lists. Without
                         VGPU_UMD_CONTEXT_INIT 0, 1 or 2 */
  uint32_t reserved;  /* 0 */
  char name[VGPU_UMD_CONTEXT_NAME_MAX]; /* for the device's log, up to the first 0 */
} VgpuUmdContext;

/* pPrivateDriverData of each D3DDDI_ALLOCATIONINFO is one of the two structures below.
 *   STATUS_INVALID_PARAMETER: a field is wrong, or the device refuses the resource
 *   STATUS_NO_MEMORY: guest or device has none, or the device does not answer */

/* A surface of four bytes per pixel (blue, green, red, unused), rows without padding. */
#define VGPU_UMD_ALLOCATION_MAGIC 0x4C504756u /* "VGPL" */
#define VGPU_UMD_SIDE_MAX 4096u
typedef struct VgpuUmdAllocation {
  uint32_t magic, version;
  uint32_t width, height; /* 1 to VGPU_UMD_SIDE_MAX */
  uint32_t pitch_bytes;   /* in 0, out 4 * width */
  uint32_t reserved;      /* 0 */
} VgpuUmdAllocation;

/* A 3D resource. The fields from `target` to `flags` go to the device as they are
 * (RESOURCE_CREATE_3D). Its content is the device's; the allocation's memory is what transfers read
 * and write, and what a lock shows. How the memory is laid out is user mode's choice: each transfer
 * says it. Eviction takes the memory from the device and gives it back, and touches no content. */
#define VGPU_UMD_RESOURCE_MAGIC 0x52504756u /* "VGPR" */
typedef struct VgpuUmdResource {
  uint32_t magic, version;
  uint32_t target, format, bind;
  uint32_t width, height, depth; /* not 0 */
  uint32_t array_size;           /* not 0 */
  uint32_t last_level, samples;
  uint32_t flags;
  uint64_t size_bytes; /* of the memory: 1 to resource_bytes_max */
  uint32_t resource;   /* in 0, out: the device's id of it, for the commands in SUBMIT. D3DKMT's
                          queries of an opened allocation give it, too. */
  uint32_t reserved;   /* 0 */
} VgpuUmdResource;

/* pCommand of D3DKMTRender: commands one behind the other, each with a header. */
#define VGPU_UMD_NOP 0u                   /* any size from the header's on, a multiple of 4 */
#define VGPU_UMD_TRANSFER_TO_HOST 1u      /* what the CPU has drawn goes to the device */
#define VGPU_UMD_FLUSH 2u                 /* ... and from there to a screen that shows it */
#define VGPU_UMD_SUBMIT 3u                /* 3D: commands for the context's renderer follow */
#define VGPU_UMD_TRANSFER_TO_HOST_3D 4u   /* memory to content */
#define VGPU_UMD_TRANSFER_FROM_HOST_3D 5u /* content to memory; WriteOperation must be set */
#define VGPU_UMD_DISCARD 6u /* 3D: what a context knows or a resource shows is not needed */
typedef struct VgpuUmdHeader {
  uint32_t type;
  uint32_t size_bytes; /* of the whole command, with the header */
} VgpuUmdHeader;
typedef struct VgpuUmdRectangle { /* TRANSFER_TO_HOST: a surface. FLUSH: a surface or a resource */
  VgpuUmdHeader header;
  uint32_t allocation;          /* index in the allocation list */
  uint32_t x, y, width, height; /* pixels of the surface; not empty */
  uint32_t reserved;            /* 0 */
} VgpuUmdRectangle;
/* SUBMIT is a VgpuUmdHeader, and behind it 4 to submit_bytes_max bytes for the renderer, in the
 * language of the capability set. They go to the device as they are. They name resources by the
 * device's ids. The whole allocation list belongs to each SUBMIT: what the bytes name must be on
 * it, because the kernel then waits for the commands before it gives the memory to a lock, and
 * keeps it attached while they run. The driver cannot read the language, so it cannot check that.
 * A command that the device refuses costs the D3DKMT device: D3DKMTGetDeviceState tells. */
typedef struct VgpuUmdTransfer3d { /* TRANSFER_TO_HOST_3D, TRANSFER_FROM_HOST_3D */
  VgpuUmdHeader header;
  uint32_t allocation; /* index in the allocation list; a resource */
  uint32_t level;
  uint32_t x, y, z, width, height, depth; /* inside the level; not empty */
  uint32_t stride, layer_stride;          /* bytes; 0: without padding */
  uint64_t offset;                        /* in the memory */
} VgpuUmdTransfer3d;
/* User mode that defines all it needs anew says so with this command, and then a sleep costs it
 * nothing: what the sleep took is there again, empty. Otherwise the command does nothing. */
#define VGPU_UMD_DISCARD_CONTEXT 0xFFFFFFFFu
typedef struct VgpuUmdDiscard { /* DISCARD */
  VgpuUmdHeader header;
  uint32_t allocation; /* index in the allocation list; or VGPU_UMD_DISCARD_CONTEXT */
  uint32_t reserved;   /* 0 */
} VgpuUmdDiscard;
