// The driver's objects and the entry points that the table in adapter.cpp names.
#pragma once

// The version decides the layout of every DXGK structure: say it before the first include.
#ifndef DXGKDDI_INTERFACE_VERSION
#define DXGKDDI_INTERFACE_VERSION 0x4002  // DXGKDDI_INTERFACE_VERSION_WDDM1_3
#endif
#include <dispmprt.h>
#include <ntddk.h>

#include "miniports/softgpu/commands.h"
#include "miniports/softgpu/paging.h"

namespace softgpu {

/// DeviceUid of the adapter itself in DxgkDdiSetPowerState; children have their own.
inline constexpr ULONG kAdapterUid = 0xFFFFFFFF;

inline constexpr ULONG kPoolTag = 0x55504753;  // "SGPU"

// Segment ids, one-based as everywhere in WDDM.
inline constexpr UINT kSegmentVram = 1;
inline constexpr UINT kSegmentAperture = 2;
inline constexpr UINT kSegmentCount = 2;
constexpr UINT segment_bit(UINT segment) { return 1U << (segment - 1); }

inline constexpr UINT kDmaBufferBytes = 64 * 1024;
inline constexpr UINT kPagingBufferBytes = 64 * 1024;
inline constexpr UINT kPagingPrivateBytes = 4096;
inline constexpr UINT kAllocationListSize = 256;  // what a GDI context needs; others may grow
inline constexpr UINT kPatchListSize = 512;

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
  SubmissionRecord* record;  // null: the submission has no private data
  SgpuRingEntry entry;       // kept to be put behind a reset engine again
};

inline constexpr UINT kRingEntries = 64;  // far more than the kernel's hardware queue is deep

/// One engine and its ring. There is one lock for all of it, the interrupt's: everything here is
/// touched at device level only, by the ISR or inside at_device_level(), or while interrupts are
/// off and no other thread is in the driver.
struct Node {
  UINT ordinal;
  SgpuRingEntry* ring;
  PHYSICAL_ADDRESS ring_address;

  // Submissions `first` up to, not including, `next`; the slot in both arrays is the number modulo
  // kRingEntries.
  InFlight in_flight[kRingEntries];
  InFlight scratch[kRingEntries];  // requeue() only: 6 KiB are too much for a kernel stack
  UINT first, next;

  UINT submitted_fence;
  UINT reported_fence;  // last the kernel was told to be complete
  UINT preemption_id;   // asked for and not reported yet; 0: none
  bool recovering;      // a fault stopped the engine; it is being reset, submissions wait
  UINT last_fault_reason;
  ULONG64 executed_when_asked;  // for DxgkDdiQueryEngineStatus
  UINT submissions, preemptions, faults, resets;
};

struct Adapter {
  PDEVICE_OBJECT physical_device;
  DXGKRNL_INTERFACE dxgk;
  PHYSICAL_ADDRESS registers_address;
  volatile UCHAR* registers;
  ULONG register_bytes;
  PHYSICAL_ADDRESS vram_cpu_address;  // BAR 2 on the bus
  UINT64 vram_bytes;
  UINT64 aperture_base, aperture_bytes;
  bool interrupts_on;
  /// One past the highest aperture page ever mapped: what a reset has to clear.
  UINT aperture_high_water;
  KTIMER recovery_timer;
  KDPC recovery_dpc;
  Node node[SGPU_NODE_COUNT];
};

struct Device {
  Adapter* adapter;
};

struct Context {
  Device* device;
  UINT node;
};

/// One per memory object; shared by everybody who opened it.
struct Allocation {
  UINT64 size_bytes;
  UINT width, height, pitch_bytes;
};

// --- hardware (hardware.cpp) ---

ULONG read32(const Adapter& adapter, ULONG offset);
void write32(const Adapter& adapter, ULONG offset, ULONG value);
ULONG64 read64(const Adapter& adapter, ULONG offset);
void write64(const Adapter& adapter, ULONG offset, ULONG64 value);

/// True if fence `a` was given out after `b`. Ids wrap around: only the distance counts.
inline bool newer(UINT a, UINT b) { return static_cast<INT>(a - b) > 0; }

NTSTATUS allocate_rings(Adapter* adapter);
void free_rings(Adapter* adapter);
/// Stops an engine at once and waits until it cannot touch memory any more. STATUS_IO_DEVICE_ERROR
/// if it never stops. Below DISPATCH_LEVEL.
NTSTATUS reset_engine(Adapter* adapter, Node* node);
/// Gives a reset engine an empty ring and forgets what was in flight; `fence` counts as completed
/// and reported.
void start_engine(Adapter* adapter, Node* node, UINT fence);
void enable_interrupts(Adapter* adapter, bool enable);
/// Every aperture page that was ever mapped faults again.
void clear_aperture(Adapter* adapter);
void prepare_recovery(Adapter* adapter);
void cancel_recovery(Adapter* adapter);
/// Device level: puts a submission into the ring. False if the ring is full.
bool submit(Adapter* adapter, Node* node, const InFlight& submission);
/// Runs `routine` at device level, excluding the ISR. Up to DISPATCH_LEVEL. False if it did not run
/// or returned FALSE.
bool at_device_level(Adapter* adapter, PKSYNCHRONIZE_ROUTINE routine, void* context);

/// A ReadUser.
NTSTATUS read_user(void* to, const void* from, SIZE_T bytes);

// --- entry points ---

// hardware.cpp: interrupts, preemption, timeouts
BOOLEAN NTAPI DdiInterruptRoutine(IN_CONST_PVOID context, IN_ULONG message);
void NTAPI DdiDpcRoutine(IN_CONST_PVOID context);
NTSTATUS NTAPI DdiControlInterrupt(IN_CONST_HANDLE adapter, IN_CONST_DXGK_INTERRUPT_TYPE type,
                                   IN_BOOLEAN enable);
NTSTATUS NTAPI DdiPreemptCommand(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_PREEMPTCOMMAND args);
NTSTATUS NTAPI DdiQueryCurrentFence(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_QUERYCURRENTFENCE args);
NTSTATUS NTAPI DdiQueryDependentEngineGroup(IN_CONST_HANDLE adapter,
                                            INOUT_DXGKARG_QUERYDEPENDENTENGINEGROUP args);
NTSTATUS NTAPI DdiQueryEngineStatus(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_QUERYENGINESTATUS args);
NTSTATUS NTAPI DdiResetEngine(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_RESETENGINE args);
NTSTATUS NTAPI DdiResetFromTimeout(IN_CONST_HANDLE adapter);
NTSTATUS NTAPI DdiRestartFromTimeout(IN_CONST_HANDLE adapter);
NTSTATUS NTAPI DdiCollectDbgInfo(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_COLLECTDBGINFO args);
NTSTATUS NTAPI DdiEscape(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_ESCAPE args);

// objects.cpp: devices, contexts, allocations
NTSTATUS NTAPI DdiCreateDevice(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEDEVICE args);
NTSTATUS NTAPI DdiDestroyDevice(IN_CONST_HANDLE device);
NTSTATUS NTAPI DdiCreateContext(IN_CONST_HANDLE device, INOUT_PDXGKARG_CREATECONTEXT args);
NTSTATUS NTAPI DdiDestroyContext(IN_CONST_HANDLE context);
NTSTATUS NTAPI DdiCreateAllocation(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args);
NTSTATUS NTAPI DdiDestroyAllocation(IN_CONST_HANDLE adapter,
                                    IN_CONST_PDXGKARG_DESTROYALLOCATION args);
NTSTATUS NTAPI DdiDescribeAllocation(IN_CONST_HANDLE adapter,
                                     INOUT_PDXGKARG_DESCRIBEALLOCATION args);
NTSTATUS NTAPI DdiGetStandardAllocationDriverData(
    IN_CONST_HANDLE adapter, INOUT_PDXGKARG_GETSTANDARDALLOCATIONDRIVERDATA args);
NTSTATUS NTAPI DdiOpenAllocation(IN_CONST_HANDLE device, IN_CONST_PDXGKARG_OPENALLOCATION args);
NTSTATUS NTAPI DdiCloseAllocation(IN_CONST_HANDLE device, IN_CONST_PDXGKARG_CLOSEALLOCATION args);

// submission.cpp: from command buffers to rings
NTSTATUS NTAPI DdiRender(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args);
NTSTATUS NTAPI DdiRenderKm(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args);
NTSTATUS NTAPI DdiPatch(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_PATCH args);
NTSTATUS NTAPI DdiSubmitCommand(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_SUBMITCOMMAND args);
NTSTATUS NTAPI DdiCancelCommand(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_CANCELCOMMAND args);
NTSTATUS NTAPI DdiBuildPagingBuffer(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args);

}  // namespace softgpu
