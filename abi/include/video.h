/* video.h: what a display miniport still meets of the video port. */
#ifndef DXGKIT_ABI_VIDEO_H_
#define DXGKIT_ABI_VIDEO_H_

#include <wdm.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

/* Child id that means the adapter itself. */
#define DISPLAY_ADAPTER_HW_ID 0xFFFFFFFFU

DXGKIT_ABI_BEGIN

typedef LONG VP_STATUS, *PVP_STATUS;

typedef struct _STATUS_BLOCK {
  union {
    VP_STATUS Status;
    PVOID Pointer;
  };
  ULONG_PTR Information;
} STATUS_BLOCK, *PSTATUS_BLOCK;

typedef struct _VIDEO_REQUEST_PACKET {
  ULONG IoControlCode;
  PSTATUS_BLOCK StatusBlock;
  PVOID InputBuffer;
  ULONG InputBufferLength;
  PVOID OutputBuffer;
  ULONG OutputBufferLength;
} VIDEO_REQUEST_PACKET, *PVIDEO_REQUEST_PACKET;

typedef struct _QUERY_INTERFACE {
  const GUID* InterfaceType;
  USHORT Size;
  USHORT Version;
  PINTERFACE Interface;
  PVOID InterfaceSpecificData;
  ULONG DeviceUid;
} QUERY_INTERFACE, *PQUERY_INTERFACE;

DXGKIT_ABI_END

#endif  /* DXGKIT_ABI_VIDEO_H_ */
