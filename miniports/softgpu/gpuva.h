// GPU virtual addresses (WDDM 2.0, GpuMmu): which model the driver has, what it is called with, and
// paging operations on page tables turned into commands.
//
// Variants of one model, chosen by the registry value MemoryModel of the service key:
//   1  two levels of page tables in system memory, which the CPU writes; the root grows
//   2  four levels in video memory, which the GPU writes
//   3  four levels in system memory, which the GPU writes; video memory in pages of 64 KiB
// 0, or no value: the driver patches.
#pragma once

#include "miniports/softgpu/paging.h"

#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
#define SOFTGPU_HAS_GPU_VA 1
#else
#define SOFTGPU_HAS_GPU_VA 0
#endif

namespace softgpu {

enum class MemoryModel : UINT { kPatch = 0, kTwoLevels = 1, kFourLevels = 2, kLargePages = 3 };

#if SOFTGPU_HAS_GPU_VA
/// Of all adapters: DriverEntry decides it, before it says which entries there are.
extern MemoryModel g_memory_model;
inline MemoryModel memory_model() { return g_memory_model; }
#else
inline constexpr MemoryModel memory_model() { return MemoryModel::kPatch; }
#endif
inline bool has_gpu_va() { return memory_model() != MemoryModel::kPatch; }
inline bool has_two_levels() { return memory_model() == MemoryModel::kTwoLevels; }
inline bool has_large_pages() { return memory_model() == MemoryModel::kLargePages; }

/// Page tables as a ring entry names them.
struct RootTable {
  UINT64 address;
  UINT entries;
};

#if SOFTGPU_HAS_GPU_VA

/// STATUS_INVALID_PARAMETER if MemoryModel is there and no number from 0 to 3.
NTSTATUS read_memory_model(PUNICODE_STRING registry_path, MemoryModel* model);

/// Where `offset` bytes into a segment are for the engines. Segment 0: system memory. 0, where
/// there is nothing, for a segment that does not exist.
UINT64 gpu_address(UINT segment, UINT64 offset);

/// The hardware's entry for one of the kernel's. Level 0 is the leaf. The kernel counts entries of
/// every leaf in 4 KiB; of a leaf of 64 KiB pages the hardware has each sixteenth.
SgpuU64 hardware_entry(const DXGK_PTE& entry, UINT level);

// Each as in paging.h; addresses are virtual, in the space of the submitting context.

/// Writes at once, through the CPU's address: no command, no buffer.
void write_entries(const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE& update);
/// The same by the GPU. *multipass_offset counts entries of the hardware.
NTSTATUS build_update(PagingBuffer* buffer, const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE& update,
                      UINT* multipass_offset);
NTSTATUS build_flush(PagingBuffer* buffer, const DXGK_BUILDPAGINGBUFFER_FLUSHTLB& flush);
/// *multipass_offset counts ranges.
NTSTATUS build_copy_entries(PagingBuffer* buffer,
                            const DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES& copy,
                            UINT* multipass_offset);
/// What FlushTlb names, as the hardware wants it.
SgpuFlushTlb hardware_flush(const DXGK_BUILDPAGINGBUFFER_FLUSHTLB& flush);

#endif

}  // namespace softgpu
