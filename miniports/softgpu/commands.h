// The part of the driver that trusts nobody: user commands in, DMA buffer and patch locations out.
//
// Pure functions over memory they are given: testable on the host, without a kernel.
#pragma once

// The version decides the layout of every DXGK structure: say it before the first include.
#ifndef DXGKDDI_INTERFACE_VERSION
#define DXGKDDI_INTERFACE_VERSION 0x4002  // DXGKDDI_INTERFACE_VERSION_WDDM1_3
#endif
#include <dispmprt.h>

#include "devices/softgpu/softgpu_hw.h"
#include "miniports/softgpu/softgpu_umd.h"

namespace softgpu {

/// Each command binds both slots of the slot table, so a buffer may be split at any of them.
inline constexpr UINT kSlots = 2;

/// Until an address is patched. The bus has nothing at 0: forgotten, it faults.
inline constexpr UINT64 kUnpatched = 0;

/// What hDeviceSpecificAllocation points at; and hAllocation, whose `memory` is itself.
struct OpenAllocation {
  UINT64 size_bytes;   // what a command may touch; the kernel may have rounded the memory up
  const void* memory;  // the same for every handle of one allocation; only compared
#if SOFTGPU_HAS_SCREEN
  UINT width, height, pitch_bytes;  // of a surface
#endif
};

/// Copies from user memory that may vanish or change at any time; STATUS_INVALID_USER_BUFFER if it
/// cannot be read.
using ReadUser = NTSTATUS (*)(void* to, const void* from, SIZE_T bytes);

struct TranslateJob {
  ReadUser read;
  const void* command;  // user memory
  UINT command_length;
  UINT node;
  const DXGK_ALLOCATIONLIST* allocations;  // handles are null or OpenAllocation*
  UINT allocation_count;
  UCHAR* dma;  // written from its start
  UINT dma_size;
  D3DDDI_PATCHLOCATIONLIST* patches;
  UINT patch_capacity;
  UINT multipass_offset;  // in: 0 or what the last pass left; out: where the next pass goes on
  // Out, with success and STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER.
  UINT dma_used = 0, patch_count = 0;
};

/// Translates as many commands as fit. Address fields of allocations that are in a segment now are
/// filled at once (the kernel need not call DxgkDdiPatch then); all get a patch location.
///
/// STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER: more commands are left, call again with an empty
/// buffer. STATUS_NO_MEMORY: not even one command fits. Else as README.md says.
NTSTATUS translate(TranslateJob* job);

struct PatchJob {
  UCHAR* dma;       // start of the whole buffer
  UINT start, end;  // the slice, bytes from there
  const DXGK_ALLOCATIONLIST* allocations;
  UINT allocation_count;
  const D3DDDI_PATCHLOCATIONLIST* patches;  // the whole list
  UINT patch_count;
  UINT first, length;  // elements of the slice
};

/// Writes final addresses into the slice and nothing outside it; doing it twice is the same as
/// doing it once. The elements are those translate() made. STATUS_INVALID_PARAMETER at the first
/// one that names no allocation of the list, or a place outside the slice.
NTSTATUS patch(const PatchJob& job);

}  // namespace softgpu
