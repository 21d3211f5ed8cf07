// The driver's objects and the entry points that the table in adapter.cpp names.
#pragma once

#include <ntddk.h>

#include "miniports/softgpu/commands.h"
#include "miniports/softgpu/display.h"
#include "miniports/softgpu/gpuva.h"
#include "miniports/softgpu/paging.h"

namespace softgpu {

inline constexpr ULONG kAdapterUid = 0xFFFFFFFF;  // in DxgkDdiSetPowerState: not a child
inline constexpr ULONG kPoolTag = 0x55504753;     // "SGPU"

/// Zeroed; null without memory.
template <typename Object>
Object* make() {
  void* object = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof(Object), kPoolTag);
  if (object != nullptr) RtlZeroMemory(object, sizeof(Object));
  return static_cast<Object*>(object);
}
inline void unmake(void* object) { ExFreePoolWithTag(object, kPoolTag); }

// One driver, two faces: built for an interface version of 2.0 it has the residency model of that
// version, and patches or has GPU virtual addresses (gpuva.h).
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
inline constexpr DXGK_WDDMVERSION kWddmVersion = DXGKDDI_WDDMv2;
inline constexpr bool kExplicitResidency = true;
#else
inline constexpr DXGK_WDDMVERSION kWddmVersion = DXGKDDI_WDDMv1_3;
inline constexpr bool kExplicitResidency = false;
#endif

inline constexpr UINT kSegmentVram = 1;  // ids are one-based as everywhere in WDDM
inline constexpr UINT kSegmentAperture = 2;
inline constexpr UINT kSegmentCount = 2;
constexpr UINT segment_bit(UINT segment) { return 1U << (segment - 1); }
inline constexpr UINT kDmaBufferBytes = 64 * 1024;
inline constexpr UINT kPagingBufferBytes = 64 * 1024;
inline constexpr UINT kPagingPrivateBytes = 4096;
inline constexpr UINT kAllocationListSize = 256;  // what a GDI context needs; others may grow
inline constexpr UINT kPatchListSize = 512;
inline constexpr UINT kRingEntries = 64;  // far more than the kernel's hardware queue is deep

/// The private data of a DMA buffer, and of each operation of a paging buffer: the driver's only
/// memory of a submission that outlives preemption, because the kernel gives the same bytes back
/// with the resubmission.
struct SubmissionRecord {
  UINT slice_start;    // DmaBufferSubmissionStartOffset that `resume_offset` belongs to
  UINT resume_offset;  // where the engine stopped in that slice; 0: at its start
  UINT reserved[2];
};

/// A submission on its way through the hardware. Forgotten when the kernel was told of its end: the
/// buffer and the record may be reused from then on.
struct InFlight {
  UINT slice_start;
  bool refused;              // the kernel was told so: its fence passes without a report
  HANDLE process;            // whose page faults these are, the kernel's handle; null: nobody's
  SubmissionRecord* record;  // null: the submission has no private data
  SgpuRingEntry entry;       // kept to be put behind a reset engine again
};

struct Adapter;

/// One engine and its ring. There is one lock for all of it, the interrupt's: everything here is
/// touched at device level only, by the ISR or inside at_device_level(), or while interrupts are
/// off and no other thread is in the driver.
struct Node {
  Adapter* adapter;
  UINT ordinal;
  SgpuRingEntry* ring;
  PHYSICAL_ADDRESS ring_address;
  // Submissions `first` up to, not including, `next`; the slot is the number modulo kRingEntries.
  InFlight in_flight[kRingEntries];
  InFlight scratch[kRingEntries];  // requeue() only: 7 KiB are too much for a kernel stack
  UINT first, next;
  RootTable paging_root;  // of the system context, for submissions that name no context

  SgpuUmdNodeState state;       // what DxgkDdiEscape tells, hardware_status excepted
  UINT preemption_id;           // asked for and not reported yet; 0: none
  bool recovering;              // a fault stopped the engine; it is being reset, submissions wait
  ULONG64 executed_when_asked;  // for DxgkDdiQueryEngineStatus
};

struct Adapter {
  PDEVICE_OBJECT physical_device;
  DXGKRNL_INTERFACE dxgk;
  PHYSICAL_ADDRESS registers_address;
  volatile UCHAR* registers;
  ULONG register_bytes;
  PHYSICAL_ADDRESS vram_cpu_address;  // BAR 2 on the bus
  UINT64 vram_bytes;
  UINT64 standby_keeps, hibernate_keeps;  // VRAM bytes from offset 0
  UINT64 aperture_base, aperture_bytes;
  volatile bool gone;  // it left the bus: no register is touched any more
  bool interrupts_on;
  ULONG vsync_cause;  // SGPU_INT_VSYNC while the kernel wants vertical syncs; else 0
#if SOFTGPU_HAS_SCREEN
  // Set by the kernel since the last DxgkDdiSetVidPnSourceAddress; touched at device level.
  bool planes_set;
  DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO plane_info[SGPU_PLANE_COUNT];
#endif
  bool dpc_wanted;           // the kernel was told something since the last DPC was queued
  UINT aperture_high_water;  // one past the highest page ever mapped: what a reset has to clear
  KTIMER recovery_timer;
  KDPC recovery_dpc;
  Node node[SGPU_NODE_COUNT];
};

// What handles of processes, devices and contexts point at. Allocations: OpenAllocation.
struct Process {
  HANDLE handle;  // the kernel's
  bool system;    // the paging process
};
struct Device {
  Adapter* adapter;
  const Process* process;  // null below WDDM 2.0
};
struct Context {
  UINT node;
  bool system;     // the kernel's own, also in the name of another process
  bool of_paging;  // of the paging process
  HANDLE process;  // the kernel's handle
  RootTable root;
};

// --- adapter.cpp ---

/// A REG_DWORD of the service key; without the key or the value *number stays. Anything else under
/// that name: STATUS_INVALID_PARAMETER.
NTSTATUS read_setting(PUNICODE_STRING registry_path, const WCHAR* name, ULONG* number);

// --- hardware.cpp ---

// A device that left reads all ones, whoever asks; here nobody asks any more.
inline ULONG read32(const Adapter& adapter, ULONG offset) {
  if (adapter.gone) return ~ULONG{0};
  return READ_REGISTER_ULONG(reinterpret_cast<volatile ULONG*>(adapter.registers + offset));
}
inline void write32(const Adapter& adapter, ULONG offset, ULONG value) {
  if (adapter.gone) return;
  WRITE_REGISTER_ULONG(reinterpret_cast<volatile ULONG*>(adapter.registers + offset), value);
}
inline ULONG64 read64(const Adapter& adapter, ULONG offset) {
  if (adapter.gone) return ~ULONG64{0};
  return READ_REGISTER_ULONG64(reinterpret_cast<volatile ULONG64*>(adapter.registers + offset));
}
inline void write64(const Adapter& adapter, ULONG offset, ULONG64 value) {
  if (adapter.gone) return;
  WRITE_REGISTER_ULONG64(reinterpret_cast<volatile ULONG64*>(adapter.registers + offset), value);
}

inline ULONG read_node(const Node& node, ULONG offset) {
  return read32(*node.adapter, SGPU_NODE_REG(node.ordinal, offset));
}

/// True if fence `a` was given out after `b`. Ids wrap around: only the distance counts.
inline bool newer(UINT a, UINT b) { return static_cast<INT>(a - b) > 0; }

NTSTATUS allocate_rings(Adapter* adapter);
void free_rings(Adapter* adapter);
/// No interrupt, no timer, and no engine touches memory any more: then the rings may go.
/// STATUS_IO_DEVICE_ERROR if one never stops. Below DISPATCH_LEVEL.
NTSTATUS halt(Adapter* adapter);
/// Gives a reset engine an empty ring and forgets what was in flight; `fence` counts as completed
/// and reported.
void start_engine(Node* node, UINT fence);
void enable_interrupts(Adapter* adapter, bool enable);
void clear_aperture(Adapter* adapter);  // every page that was ever mapped faults again
void prepare_recovery(Adapter* adapter);
/// Device level: puts a submission into the ring. False if the ring is full.
bool submit(Node* node, const InFlight& submission);
/// Runs `work` at device level, excluding the ISR. Up to DISPATCH_LEVEL. A failure: it did not run.
template <typename Work>
NTSTATUS at_device_level(Adapter* adapter, Work work) {
  struct Routine {
    static BOOLEAN NTAPI run(PVOID context) {
      (*static_cast<Work*>(context))();
      return TRUE;
    }
  };
  BOOLEAN result = FALSE;
  return adapter->dxgk.DxgkCbSynchronizeExecution(adapter->dxgk.DeviceHandle, Routine::run, &work,
                                                  0, &result);
}

NTSTATUS read_user(void* to, const void* from, SIZE_T bytes);  // a ReadUser

// --- entry points, by their function types: a wrong parameter does not compile ---

DXGKDDI_INTERRUPT_ROUTINE DdiInterruptRoutine;
DXGKDDI_DPC_ROUTINE DdiDpcRoutine;
DXGKDDI_PREEMPTCOMMAND DdiPreemptCommand;
DXGKDDI_QUERYCURRENTFENCE DdiQueryCurrentFence;
DXGKDDI_QUERYDEPENDENTENGINEGROUP DdiQueryDependentEngineGroup;
DXGKDDI_QUERYENGINESTATUS DdiQueryEngineStatus;
DXGKDDI_RESETENGINE DdiResetEngine;
DXGKDDI_RESETFROMTIMEOUT DdiResetFromTimeout;
DXGKDDI_RESTARTFROMTIMEOUT DdiRestartFromTimeout;
DXGKDDI_COLLECTDBGINFO DdiCollectDbgInfo;
DXGKDDI_ESCAPE DdiEscape;
DXGKDDI_CREATEDEVICE DdiCreateDevice;
DXGKDDI_DESTROYDEVICE DdiDestroyDevice;
DXGKDDI_CREATECONTEXT DdiCreateContext;
DXGKDDI_DESTROYCONTEXT DdiDestroyContext;
DXGKDDI_CREATEALLOCATION DdiCreateAllocation;
DXGKDDI_DESTROYALLOCATION DdiDestroyAllocation;
DXGKDDI_OPENALLOCATIONINFO DdiOpenAllocation;
DXGKDDI_CLOSEALLOCATION DdiCloseAllocation;
DXGKDDI_RENDER DdiRender;
DXGKDDI_RENDER DdiRenderKm;
DXGKDDI_PATCH DdiPatch;
DXGKDDI_SUBMITCOMMAND DdiSubmitCommand;
DXGKDDI_CANCELCOMMAND DdiCancelCommand;
DXGKDDI_BUILDPAGINGBUFFER DdiBuildPagingBuffer;

// --- submission.cpp and gpuva.cpp ---

/// DXGK_OPERATION_MAP_APERTURE_SEGMENT and UNMAP_APERTURE_SEGMENT.
NTSTATUS build_aperture(Adapter* adapter, DXGKARG_BUILDPAGINGBUFFER* args, PagingBuffer* buffer);

#if SOFTGPU_HAS_GPU_VA
UINT virtual_address_bits();
NTSTATUS query_mmu_caps(void* out, UINT bytes);
NTSTATUS query_level(const void* in, UINT in_bytes, void* out, UINT bytes);
/// One operation in the GPU VA model; as in DxgkDdiBuildPagingBuffer.
NTSTATUS build_virtual(Adapter* adapter, DXGKARG_BUILDPAGINGBUFFER* args, PagingBuffer* buffer);
/// True: the operation needs no buffer, and is done or has failed with *status.
bool build_without_buffer(Adapter* adapter, const DXGKARG_BUILDPAGINGBUFFER& args,
                          NTSTATUS* status);
/// Device level, after any fault; `of_page`: SGPU_FAULT_PAGE.
DXGKARGCB_NOTIFY_INTERRUPT_DATA page_fault_report(const Node& node, UINT fence, HANDLE process,
                                                  bool of_page);

DXGKDDI_CREATEPROCESS DdiCreateProcess;
DXGKDDI_DESTROYPROCESS DdiDestroyProcess;
DXGKDDI_GETROOTPAGETABLESIZE DdiGetRootPageTableSize;
DXGKDDI_SETROOTPAGETABLE DdiSetRootPageTable;
DXGKDDI_SUBMITCOMMANDVIRTUAL DdiSubmitCommandVirtual;
#endif

}  // namespace softgpu
