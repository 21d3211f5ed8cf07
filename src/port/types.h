// Data that crosses the door between dxgk and a miniport, in our types. Only the port marshals them
// to DXGKARG_*.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "port/display_types.h"
#include "port/gpu_va_types.h"
#include "port/plane_types.h"

namespace dxgkit::port {

/// Entry of the list that a driver sees as DXGK_ALLOCATIONLIST. It has the same 24 bytes (asserted
/// in the port), so that lists reach the driver without copying.
struct AllocationListEntry {
  void* device_handle = nullptr;  // hDeviceSpecificAllocation of the driver
  uint32_t bits = 0;              // bit 0 write, bits 1..5 segment id
  uint32_t padding = 0;
  uint64_t physical_address = 0;  // segment base + offset, when the segment id is not 0

  bool write() const { return (bits & 1U) != 0; }
  uint32_t segment() const { return bits >> 1 & 0x1FU; }
  void set(bool write, SegmentId segment, uint64_t address) {
    bits = (write ? 1U : 0U) | segment.value << 1;
    physical_address = address;
  }
};
static_assert(sizeof(AllocationListEntry) == 24);

/// D3DDDI_PATCHLOCATIONLIST, same 24 bytes.
struct PatchLocation {
  uint32_t allocation_index = 0;
  uint32_t slot_id = 0;  // low 24 bits
  uint32_t driver_id = 0;
  uint32_t allocation_offset = 0;
  uint32_t patch_offset = 0;
  uint32_t split_offset = 0;
};
static_assert(sizeof(PatchLocation) == 24);

/// An entry of the list of resources that a driver finds in DXGK_DEVICE_INFO.
struct DeviceResource {
  enum class Kind : uint8_t {
    kMemory,
    kPorts,
    kInterrupt,  // no range
    kPrivate,    // of the bus driver's own type; `start` is its data
  };
  Kind kind = Kind::kMemory;
  uint64_t start = 0, bytes = 0;
};

/// A DMA or paging buffer as the driver sees it. Addresses always name its start (PATCH-08,
/// SUB-06).
struct DmaBufferView {
  SegmentId segment;              // 0: one contiguous block of system memory (PATCH-05)
  uint64_t physical_address = 0;  // system physical with segment 0, else segment base + offset
  std::byte* cpu = nullptr;       // 4096-aligned
  uint32_t size_bytes = 0;        // whole buffer
  std::byte* private_data = nullptr;
  uint32_t private_size_bytes = 0;  // whole private area
  // kGuardBytes more bytes lie behind the buffer and behind the private area. The port checks them
  // for writes of the driver.
  bool guarded = false, private_guarded = false;
};
inline constexpr uint32_t kGuardBytes = 64;

/// The part of a buffer that one submission covers: byte offsets, ends exclusive.
struct Slice {
  uint32_t start = 0, end = 0;
  uint32_t private_start = 0, private_end = 0;  // start is 0 for non-paging work (PATCH-17)
};

struct PacketFlags {
  bool paging = false, present = false, redirected_present = false, null_rendering = false;
  bool flip = false, flip_with_no_wait = false, context_switch = false;
  bool resubmission = false;  // SUB-25: the port tells drivers from WDDM 2.0 on
};

struct PatchArgs {
  void* context = nullptr;  // driver's context handle, or its device handle without
                            // MultiEngineAware; null for some paging work
  DmaBufferView buffer;
  Slice slice;
  const AllocationListEntry* allocations = nullptr;  // null for paging (PATCH-20)
  uint32_t allocation_count = 0;
  const PatchLocation* patches = nullptr;  // whole list (PATCH-22); null for paging
  uint32_t patch_count = 0;
  uint32_t patch_start = 0, patch_length = 0;
  SubmissionFenceId fence;
  PacketFlags flags;
};

struct SubmitArgs {
  void* context = nullptr;
  DmaBufferView buffer;
  Slice slice;
  SubmissionFenceId fence;
  NodeOrdinal node;
  PacketFlags flags;
  uint32_t vidpn_source = 0;   // with flip or flip_with_no_wait only (SUB-15)
  uint32_t flip_interval = 0;  // with flip only (SUB-16)
};

/// DXGKARG_SUBMITCOMMANDVIRTUAL: a buffer of a context with virtual addressing (SUB-30..32).
struct SubmitVirtualArgs {
  void* context = nullptr;  // driver's context handle
  uint64_t buffer_va = 0;   // in the address space of the context's process
  uint32_t buffer_bytes = 0;
  /// A kernel buffer of the size asked at context creation; the user's bytes come first (SUB-32).
  std::byte* private_data = nullptr;
  uint32_t private_bytes = 0, user_private_bytes = 0;
  SubmissionFenceId fence;
  NodeOrdinal node;
  PacketFlags flags;
  uint32_t vidpn_source = 0;   // with flip or flip_with_no_wait only
  uint32_t flip_interval = 0;  // with flip only
};

/// DXGKARG_VALIDATESUBMITCOMMAND (SUB-34).
struct ValidateSubmitArgs {
  uint64_t buffer_va = 0;
  uint32_t buffer_bytes = 0;
  /// The driver's handles of the contexts, 1 to 64 (kMaxContexts); with `hardware_queues`, of the
  /// hardware queues.
  std::span<void* const> contexts;
  static constexpr size_t kMaxContexts = 64;
  std::byte* private_data = nullptr;  // the kernel's copy; the driver may change it
  uint32_t private_bytes = 0, user_private_bytes = 0;
  bool hardware_queues = false;
  uint64_t progress_fence = 0;  // with `hardware_queues`
};

struct RenderArgs {
  void* context = nullptr;
  bool render_km = false;         // DxgkDdiRenderKm (REND-01)
  const void* command = nullptr;  // user memory, passed on unchanged (REND-03)
  uint32_t command_length = 0;
  DmaBufferView buffer;  // segment and address 0 when not paged in yet (REND-12)
  AllocationListEntry* allocations = nullptr;
  uint32_t allocation_count = 0;
  const PatchLocation* patches_in = nullptr;  // user memory, raw
  uint32_t patches_in_count = 0;
  PatchLocation* patches_out = nullptr;
  uint32_t patches_out_capacity = 0;
  uint32_t multipass_offset = 0;  // in/out through the result
};
/// The driver's outputs. The port has checked the bounds (REND-08): a driver that went past them
/// gets a finding, and the call answers with the bugcheck path.
struct RenderResult {
  Status status =
      Status::kSuccess;    // as the driver gave it (checked against the documented set, REND-16)
  uint32_t dma_bytes = 0;  // written from the start of the buffer
  uint32_t patch_count = 0;
  uint32_t private_bytes = 0;
  uint32_t multipass_offset = 0;
};

/// DXGKARG_PRESENT: as RenderArgs, without a command buffer. A flip by register has no DMA buffer
/// (REND-20): `buffer.cpu` is null, its sizes 0.
struct PresentArgs {
  void* context = nullptr;
  PresentFlags flags;
  DmaBufferView buffer;
  AllocationListEntry* allocations = nullptr;  // null, source, destination (REND-17)
  PatchLocation* patches_out = nullptr;
  uint32_t patches_out_capacity = 0;
  /// With virtual addressing, instead of `allocations`: the sources, then as many destinations.
  std::span<const PresentSurface> surfaces = {};
  uint32_t source_count = 0;
  uint32_t multipass_offset = 0;
  uint32_t color = 0;
  Rect destination, source;
  std::span<const Rect> sub_rects = {};  // of the destination, clipped (REND-18)
  uint32_t flip_interval = 0;
  std::span<std::byte> private_data = {};  // the caller's, from WDDM 2.0 on
  /// Of a flip of planes, instead of the lists above: DXGK_PRESENTMULTIPLANEOVERLAYINFO.
  std::span<const PresentPlane> planes = {};
  uint32_t vidpn_source = 0;  // with `planes`
};

/// One side of a transfer: a segment address, or pages of system memory (an MDL).
struct TransferSide {
  SegmentId segment;                // kSystemMemory: `pages`
  uint64_t segment_address = 0;     // segment base + offset (PAGE-17)
  std::span<const uint64_t> pages;  // page frame numbers of the whole allocation
};

struct PagingOperation {
  enum class Kind {
    kTransfer,
    kFill,
    kDiscardContent,
    kMapAperture,  // becomes MAP_APERTURE_SEGMENT2 where the driver has it (PAGE-30)
    kUnmapAperture,
    kInitContextResource,
    // A few bytes of `segment_address` are accessed; their value does not matter (PAGE-25).
    kReadPhysical,
    kWritePhysical,
    kNotifyResidency,  // from WDDM 2.0 on (PAGE-41)
    kNotifyEviction,   // from WDDM 3.2 on (PAGE-48)
    // From WDDM 2.0 on, with GpuMmu:
    kTransferVirtual,          // `transfer`, size_bytes, allocation, offset_bytes (PAGE-31)
    kFillVirtual,              // gpu_va, size_bytes, fill_pattern, allocation, offset_bytes
    kUpdatePageTable,          // `page_table`, allocation; may go without a paging buffer (PAGE-03)
    kFlushTlb,                 // `flush` (PAGE-37)
    kCopyPageTableEntries,     // `copies`
    kUpdateContextAllocation,  // gpu_va in the scratch area, size_bytes, `private_data`
  };
  Kind kind = Kind::kFill;
  void* allocation = nullptr;  // driver's hAllocation; null where a rule says so (PAGE-21, PAGE-26)
  void* device = nullptr;      // MapAperture: device-specific owner, may be null
  uint32_t transfer_offset = 0;  // segment sides (PAGE-17)
  uint64_t size_bytes = 0;
  TransferSide source, destination;  // kTransfer
  uint32_t mdl_offset_pages = 0;     // MDL sides (PAGE-17)
  bool transfer_start = true, transfer_end = true, allocation_is_idle = false;
  uint32_t fill_pattern = 0;                  // kFill
  SegmentId segment;                          // kFill, kDiscard, apertures
  uint64_t segment_address = 0;               // kFill, kDiscard: base + offset
  uint64_t offset_pages = 0, page_count = 0;  // apertures
  std::span<const uint64_t> pages;            // kMapAperture: page frames
  uint64_t dummy_page = 0;                    // kUnmapAperture: physical address (PAGE-29)
  bool cache_coherent = false;                // kMapAperture (PAGE-27)
  bool resident = false;                      // kNotifyResidency
  /// kNotifyResidency: the offset inside the segment. Virtual transfer and fill: the offset inside
  /// the allocation.
  uint64_t offset_bytes = 0;
  /// kFillVirtual, kUpdateContextAllocation: in the paging process's space. kInitContextResource:
  /// in the context's, or 0.
  uint64_t gpu_va = 0;
  void* virtual_address = nullptr;          // kInitContextResource: where the CPU sees it, or null
  VirtualTransfer transfer;                 // kTransferVirtual
  PageTableUpdate page_table;               // kUpdatePageTable
  TlbFlush flush;                           // kFlushTlb
  std::span<const PageTableCopy> copies;    // kCopyPageTableEntries
  std::span<const std::byte> private_data;  // kUpdateContextAllocation: as the driver gave it
};

struct BuildPagingArgs {
  void* system_context = nullptr;
  /// The place of this operation in the paging buffer. Null, with buffer_bytes and private_bytes 0,
  /// for kUpdatePageTable in mode kCpuVirtual: then the driver writes the table before it returns
  /// (PAGE-03).
  std::byte* buffer = nullptr;
  uint32_t buffer_bytes = 0;  // the bytes left of it
  std::byte* private_data = nullptr;
  uint32_t private_bytes = 0;
  bool guarded = false, private_guarded = false;  // as in DmaBufferView
  uint64_t buffer_physical_address = 0;           // of the buffer's start
  uint64_t buffer_va = 0;      // DmaBufferGpuVirtualAddress: of the buffer's start, from 2.0 on
  uint32_t buffer_offset = 0;  // DmaBufferWriteOffset: of `buffer` from the buffer's start
  uint32_t multipass_offset = 0;
  const PagingOperation* operation = nullptr;
};
struct BuildPagingResult {
  /// kSuccess, kGraphicsInsufficientDmaBuffer, kGraphicsAllocationBusy. Any other answer became a
  /// finding (PAGE-07) and is kUnsuccessful here: the adapter stops.
  Status status = Status::kSuccess;
  uint32_t bytes_written = 0, private_bytes_written = 0, multipass_offset = 0;
  uint32_t room_bytes = 0;  // DmaSize as the driver was told
};

struct AllocationInfo {               // DXGK_ALLOCATIONINFO, one element
  std::span<std::byte> private_data;  // the caller's per-allocation data, captured; the driver may
                                      // change it at create
  uint32_t vidpn_source = UINT32_MAX;
  bool primary = false;
  // out:
  void* handle = nullptr;
  uint64_t size = 0, pitch_aligned_size = 0;
  uint32_t alignment = 0;
  uint32_t supported_read = 0, supported_write = 0, eviction = 0;
  uint32_t preferred = 0;   // DXGK_SEGMENTPREFERENCE.Value
  uint32_t bank_hints = 0;  // DXGK_SEGMENTBANKPREFERENCE.Value
  uint32_t maximum_renaming = 0;
  uint32_t flags = 0;   // DXGK_ALLOCATIONINFOFLAGS.Value
  uint32_t flags2 = 0;  // DXGK_ALLOCATIONINFOFLAGS2.Value, from WDDM 3.0 on
  uint32_t priority = 0;
};

/// D3DDDI_UPDATEALLOCPROPERTY: the properties of an allocation that should change.
struct PropertyUpdate {
  std::optional<uint32_t> supported;  // segment set, bit n for id n + 1
  std::optional<uint32_t> preferred;  // DXGK_SEGMENTPREFERENCE.Value
  std::optional<bool> accessed_physically, unmoveable;
};

/// DXGKARGCB_CREATECONTEXTALLOCATION. `info` has the members that drivers describe: handle, size,
/// alignment, sets, preference, bank hints, flags.
struct ContextAllocationRequest {
  uint64_t device = 0, context = 0;  // handles as the driver got them
  bool shared = false;               // SharedAcrossContexts
  bool map_gpu_virtual_address = false;
  AllocationInfo info;
};

struct ContextInfo {  // DXGK_CONTEXTINFO
  void* handle = nullptr;
  uint32_t dma_buffer_bytes = 0, dma_buffer_segment_set = 0, dma_private_bytes = 0;
  uint32_t allocation_list_size = 0, patch_list_size = 0;
  bool no_patching = false;
  bool driver_manages_residency = false, use_io_mmu = false;  // DXGK_CONTEXTINFO_CAPS
  uint32_t paging_companion_node = 0;                         // where its copies run (VA-38)
};

struct DeviceInfo {  // DXGK_DEVICEINFO, when the driver has no contexts; and the
                     // guaranteed-contract flag (REND-11)
  void* handle = nullptr;
  uint32_t dma_buffer_bytes = 0, dma_buffer_segment_set = 0, dma_private_bytes = 0;
  uint32_t allocation_list_size = 0, patch_list_size = 0;
  bool guaranteed_contract = false;
};

struct MemoryRange {  // DXGK_MEMORYRANGE, as the driver wrote it
  uint64_t offset = 0, size = 0;
  bool operator==(const MemoryRange&) const = default;
};

struct SegmentInfo {   // DXGK_SEGMENTDESCRIPTOR, 3, 4
  uint32_t flags = 0;  // DXGK_SEGMENTFLAGS.Value
  uint64_t base_address = 0, cpu_translated_address = 0, size = 0, commit_limit = 0,
           system_memory_end = 0, reserved = 0;
  std::vector<uint64_t> bank_ends;  // what was read of the bank table (SEG-26)
  uint32_t bank_count = 0;
  uint64_t invalid_range_count = 0;         // NumInvalidMemoryRanges
  std::vector<MemoryRange> invalid_ranges;  // what the driver answered when asked for them (SEG-45)
  uint32_t host_aperture_pages = 0;         // of 4096 bytes, at cpu_translated_address (ALLOC-41)
};
struct SegmentsInfo {
  std::vector<SegmentInfo> segments;
  uint32_t paging_buffer_segment = 0, paging_buffer_bytes = 0, paging_private_bytes = 0;
};

struct DriverCaps {           // DXGK_DRIVERCAPS, what the core uses
  uint32_t wddm_version = 0;  // DXGK_WDDMVERSION
  uint64_t highest_acceptable_address = 0;
  uint64_t aperture_segment_commit_limit = 0;
  uint32_t max_allocation_list_slot_id = 0;
  uint32_t interrupt_message_number = 0, number_of_swizzling_ranges = 0;
  uint32_t hw_queue_packet_cap = 0;
  bool native_gpu_fence = false;  // SchedulingCaps.NativeGpuFence (3.1)
  bool multi_engine_aware = false, preemption_aware = false, cancel_command_aware = false,
       no_dma_patching = false;
  bool no_64bit_atomics = false;  // from WDDM 2.0 on (SYNC-17)
  bool support_per_engine_tdr = false;
  bool virtual_addressing_supported = false, gpu_mmu_supported = false,
       io_mmu_supported = false;         // from WDDM 2.0 on (VA-01)
  bool map_aperture2_supported = false;  // from WDDM 2.9 on (PAGE-30)
  bool non_cpu_visible_primary = false;  // from WDDM 2.0 on (ALLOC-16)
  bool support_runtime_power_management = false, support_surprise_removal_in_hibernation = false,
       support_surprise_removal = false, disable_self_refresh_vram_in_s3 = false;
  uint32_t node_count = 1, paging_node = 0;  // GpuEngineTopology, PagingNode
  std::vector<std::byte> raw;                // as the driver left it, sized by its version
};

/// DXGK_POWER_RUNTIME_COMPONENT, what the core uses.
struct PowerComponent {
  /// DXGK_POWER_COMPONENT_TYPE; other values are kept as they are.
  enum class Kind : uint32_t { kEngine = 0, kMemory = 3, kOther = 5 };
  Kind kind = Kind::kOther;
  uint32_t target = 0;              // kEngine: node; kMemory: segment id
  uint32_t state_count = 1;         // F-states, F0 included; 1..8
  bool driver_completes = false;    // by DxgkCbCompleteFStateTransition
  bool f0_on_dx = false;            // stays in F0 during device power transitions
  std::vector<uint32_t> providers;  // active before this one is; below the number of components
};

/// A report of DxgkCbNotifyInterrupt, in our types.
struct InterruptReport {
  enum class Type {
    kDmaCompleted,
    kDmaPreempted,
    kDmaFaulted,
    kCrtcVsync,
    kDmaPageFaulted,
    kDisplayOnlyVsync,
    kPresentProgress,         // of a display-only driver; `source`, `failed`
    kMonitoredFenceSignaled,  // engines have written fences (INT-24)
    kHwQueuePageFaulted,      // as kDmaPageFaulted; `fence64`, `handle`
    kSuspendCompleted,        // of a hardware context: `fence64`, `handle`
    kNativeFenceSignaled,     // `handles`, `legacy_fences_too`
    kOther
  };
  Type type = Type::kOther;
  uint32_t raw_type = 0;
  uint32_t fence = 0;           // completed / preemption / faulted
  uint32_t last_completed = 0;  // kDmaPreempted
  uint32_t node = 0, engine = 0;
  int32_t status = 0;    // kDmaFaulted
  uint64_t address = 0;  // page faults, vsync
  uint32_t flags = 0;    // kDmaPageFaulted: DXGK_PAGE_FAULT_FLAGS
  // The rest of kDmaPageFaulted.
  static constexpr uint32_t kFaultWrite = 1, kFaultProcessValid = 128;  // of `flags`
  uint64_t primitive = 0;       // FaultedPrimitiveAPISequenceNumber
  uint32_t pipeline_stage = 0;  // DXGK_RENDER_PIPELINE_STAGE
  uint32_t bind_table_entry = 0;
  uint32_t page_table_level = 0;  // where translation ended
  uint32_t error_code = 0;        // DXGK_FAULT_ERROR_CODE: bit 0 device specific, the rest the code
  /// FaultedProcessHandle, from WDDM 2.2 on and with kFaultProcessValid; else null. The value comes
  /// from the driver: compare it, do not follow it.
  void* process = nullptr;
  uint32_t source = 0;  // kPresentProgress: VidPN source; vsync types: VidPN target
  uint32_t planes = 0;  // kCrtcVsync: how many overlay planes it names; `address` is plane 0's
  uint32_t highest_plane = 0;  // of them
  bool planes_by_id = false;   // they are told by PresentId, and `address` is nobody's
  std::vector<ShownPlane> shown_planes = {};  // in the driver's order
  bool failed = false;                        // kPresentProgress
  uint64_t fence64 = 0;  // kHwQueuePageFaulted: of the queue's progress; kSuspendCompleted
  /// kHwQueuePageFaulted: the driver's hardware queue. kSuspendCompleted: its hardware context. The
  /// value comes from the driver: compare it, do not follow it.
  void* handle = nullptr;
  /// kNativeFenceSignaled: the driver's global handles; empty: any of them. The values come from
  /// the driver, as above.
  std::vector<void*> handles;
  bool legacy_fences_too = false;  // EvaluateLegacyMonitoredFences
  bool in_engine_reset = false;    // reported between the reset of its engine and the resumption
  bool inside_preempt = false;     // reported before DxgkDdiPreemptCommand returned, by its thread
};

/// The answer of DxgkDdiGetNodeMetadata about hardware queues; all false below WDDM 2.2.
struct NodeMetadata {
  bool context_scheduling = false;     // the hardware schedules contexts of the node
  uint32_t max_in_flight_buffers = 0;  // per hardware queue; 0: not reported (2.5)
  std::vector<std::byte> raw = {};     // as answered; the rest of FriendlyName is zeroed
};

}  // namespace dxgkit::port
