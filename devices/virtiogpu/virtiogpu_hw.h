/* Numbers of the virtio GPU (virtio 1.2, 5.7) that device and drivers share: 2D commands,
 * and 3D commands without blobs. Plain C. All values are little-endian. */
#pragma once

#include "devices/virtio/virtio_hw.h"

typedef unsigned char VgpuU8;
typedef unsigned int VgpuU32;
typedef unsigned long long VgpuU64;

#define VGPU_VIRTIO_TYPE 16
#define VGPU_QUEUE_CONTROL 0
#define VGPU_QUEUE_CURSOR 1
#define VGPU_QUEUE_COUNT 2

#define VGPU_F_VIRGL 0 /* feature bits */
#define VGPU_F_EDID 1
#define VGPU_F_CONTEXT_INIT 4

/* Device configuration. */
#define VGPU_CONFIG_EVENTS 0x00 /* read only */
#define VGPU_CONFIG_EVENTS_CLEAR 0x04
#define VGPU_CONFIG_SCANOUTS 0x08
#define VGPU_CONFIG_CAPSETS 0x0C
#define VGPU_CONFIG_BYTES 0x10

#define VGPU_GET_DISPLAY_INFO 0x0100
#define VGPU_RESOURCE_CREATE_2D 0x0101
#define VGPU_RESOURCE_UNREF 0x0102
#define VGPU_SET_SCANOUT 0x0103
#define VGPU_RESOURCE_FLUSH 0x0104
#define VGPU_TRANSFER_TO_HOST_2D 0x0105
#define VGPU_RESOURCE_ATTACH_BACKING 0x0106
#define VGPU_RESOURCE_DETACH_BACKING 0x0107
#define VGPU_GET_CAPSET_INFO 0x0108
#define VGPU_GET_CAPSET 0x0109
#define VGPU_GET_EDID 0x010A
#define VGPU_CTX_CREATE 0x0200
#define VGPU_CTX_DESTROY 0x0201
#define VGPU_CTX_ATTACH_RESOURCE 0x0202
#define VGPU_CTX_DETACH_RESOURCE 0x0203
#define VGPU_RESOURCE_CREATE_3D 0x0204
#define VGPU_TRANSFER_TO_HOST_3D 0x0205
#define VGPU_TRANSFER_FROM_HOST_3D 0x0206
#define VGPU_SUBMIT_3D 0x0207
#define VGPU_UPDATE_CURSOR 0x0300
#define VGPU_MOVE_CURSOR 0x0301

#define VGPU_OK_NODATA 0x1100
#define VGPU_OK_DISPLAY_INFO 0x1101
#define VGPU_OK_CAPSET_INFO 0x1102
#define VGPU_OK_CAPSET 0x1103
#define VGPU_OK_EDID 0x1104
#define VGPU_ERR_UNSPEC 0x1200
#define VGPU_ERR_OUT_OF_MEMORY 0x1201
#define VGPU_ERR_INVALID_SCANOUT_ID 0x1202
#define VGPU_ERR_INVALID_RESOURCE_ID 0x1203
#define VGPU_ERR_INVALID_CONTEXT_ID 0x1204
#define VGPU_ERR_INVALID_PARAMETER 0x1205

#define VGPU_FLAG_FENCE 1u
#define VGPU_FLAG_RING 2u /* `ring` of the header names a timeline of the context */

/* Capability sets: what OpenGL commands of virgl a device understands. */
#define VGPU_CAPSET_VIRGL 1
#define VGPU_CAPSET_VIRGL2 2
/* Sets of no language, which a device lists that is told to have odd ones: one larger than any
 * other, an empty one, and some more, behind those of languages. */
#define VGPU_CAPSET_LARGE 40
#define VGPU_CAPSET_LARGE_BYTES 12000u
#define VGPU_CAPSET_EMPTY 41
#define VGPU_CAPSET_MORE 42
#define VGPU_CAPSET_MORE_COUNT 4
#define VGPU_CAPSET_MORE_BYTES 60u
#define VGPU_CAPSET_BYTE(id, at) ((id)*5u + (at)*3u + 1u) /* the lowest 8 bits */
#define VGPU_CONTEXT_CAPSET_MASK 0xFFu                    /* of VgpuCreateContext::init */

#define VGPU_RESOURCE_Y_0_TOP 1u /* VgpuCreate3D::flags: row 0 is the upper one */

/* Formats, by the order of the bytes in memory; four bytes per pixel. */
#define VGPU_B8G8R8A8 1
#define VGPU_B8G8R8X8 2
#define VGPU_A8R8G8B8 3
#define VGPU_X8R8G8B8 4
#define VGPU_R8G8B8A8 67
#define VGPU_X8B8G8R8 68
#define VGPU_A8B8G8R8 121
#define VGPU_R8G8B8X8 134

#define VGPU_SCANOUTS_MOST 16
#define VGPU_EDID_BYTES 1024
#define VGPU_CURSOR_SIZE 64 /* pixels, both ways */

typedef struct VgpuHeader {
  VgpuU32 type;
  VgpuU32 flags;
  VgpuU64 fence_id;
  VgpuU32 context_id;
  VgpuU8 ring;
  VgpuU8 padding[3];
} VgpuHeader;

typedef struct VgpuRect {
  VgpuU32 x, y, width, height;
} VgpuRect;

typedef struct VgpuMode {
  VgpuRect rect;
  VgpuU32 enabled;
  VgpuU32 flags;
} VgpuMode;

typedef struct VgpuDisplayInfo {
  VgpuHeader header;
  VgpuMode modes[VGPU_SCANOUTS_MOST];
} VgpuDisplayInfo;

typedef struct VgpuGetEdid {
  VgpuHeader header;
  VgpuU32 scanout, padding;
} VgpuGetEdid;

typedef struct VgpuEdid {
  VgpuHeader header;
  VgpuU32 size, padding;
  VgpuU8 bytes[VGPU_EDID_BYTES];
} VgpuEdid;

typedef struct VgpuCreate2D {
  VgpuHeader header;
  VgpuU32 resource, format, width, height;
} VgpuCreate2D;

typedef struct VgpuResource { /* RESOURCE_UNREF, RESOURCE_DETACH_BACKING */
  VgpuHeader header;
  VgpuU32 resource, padding;
} VgpuResource;

typedef struct VgpuSetScanout {
  VgpuHeader header;
  VgpuRect rect;
  VgpuU32 scanout, resource; /* 0: the scanout shows nothing */
} VgpuSetScanout;

typedef struct VgpuFlush {
  VgpuHeader header;
  VgpuRect rect;
  VgpuU32 resource, padding;
} VgpuFlush;

typedef struct VgpuTransfer {
  VgpuHeader header;
  VgpuRect rect;
  VgpuU64 offset; /* in the backing, of the first pixel of the rectangle; rows as in the resource */
  VgpuU32 resource, padding;
} VgpuTransfer;

typedef struct VgpuAttach { /* followed by the entries */
  VgpuHeader header;
  VgpuU32 resource, entries;
} VgpuAttach;

typedef struct VgpuEntry {
  VgpuU64 address;
  VgpuU32 bytes, padding;
} VgpuEntry;

typedef struct VgpuCursor {
  VgpuHeader header;
  VgpuU32 scanout, x, y, padding;
  VgpuU32 resource; /* 0: no cursor */
  VgpuU32 hot_x, hot_y, padding2;
} VgpuCursor;

/* --- 3D. `context_id` of the header names the context. */

typedef struct VgpuGetCapsetInfo {
  VgpuHeader header;
  VgpuU32 index, padding;
} VgpuGetCapsetInfo;

typedef struct VgpuCapsetInfo {
  VgpuHeader header;
  VgpuU32 id, version_most, bytes_most, padding;
} VgpuCapsetInfo;

typedef struct VgpuGetCapset { /* the answer: a header, then the set */
  VgpuHeader header;
  VgpuU32 id, version;
} VgpuGetCapset;

typedef struct VgpuCreateContext {
  VgpuHeader header;
  VgpuU32 name_bytes;
  VgpuU32 init; /* with CONTEXT_INIT: the capability set, else 0 */
  char name[64];
} VgpuCreateContext;

typedef struct VgpuContext { /* CTX_DESTROY */
  VgpuHeader header;
} VgpuContext;

typedef struct VgpuContextResource { /* CTX_ATTACH_RESOURCE, CTX_DETACH_RESOURCE */
  VgpuHeader header;
  VgpuU32 resource, padding;
} VgpuContextResource;

typedef struct VgpuCreate3D {
  VgpuHeader header;
  VgpuU32 resource, target, format, bind;
  VgpuU32 width, height, depth, array_size; /* a buffer: bytes, 1, 1, 1 */
  VgpuU32 last_level, samples, flags, padding;
} VgpuCreate3D;

typedef struct VgpuBox {
  VgpuU32 x, y, z, width, height, depth;
} VgpuBox;

typedef struct VgpuTransfer3D { /* TRANSFER_TO_HOST_3D, TRANSFER_FROM_HOST_3D */
  VgpuHeader header;
  VgpuBox box;
  VgpuU64 offset; /* in the backing, of the first byte of the box */
  VgpuU32 resource, level;
  VgpuU32 stride, layer_stride; /* bytes in the backing; 0: without gaps */
} VgpuTransfer3D;

typedef struct VgpuSubmit { /* followed by the commands, whole words */
  VgpuHeader header;
  VgpuU32 bytes, padding;
} VgpuSubmit;
