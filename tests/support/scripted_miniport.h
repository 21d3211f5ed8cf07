// A whole miniport in a test: sane by default, every DDI replaceable, hardware moved by hand.
//
// It is compiled into the test, speaks the Win64 ABI and goes through port, nt and bus like any
// driver. Typical use:
//
//   ScriptedMiniport miniport;                                // default behaviour: two nodes,
//   three segments, WDDM 1.3 miniport.config.version = 0x5023;                         // before
//   the driver is loaded miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {   // replaces
//   DxgkDdiPatch; any time
//     EXPECT_EQ(args->PatchLocationListSubmissionStart, 3u);
//     return miniport.default_patch(args);                    // the default is there to be called
//   };
//   machine.add_function(miniport.function());
//   auto driver = port::Driver::load(kernel, findings, miniport.source(), &message);
//   ... submit something ...
//   const auto submits = miniport.calls().submits;            // deep copies of all
//   DXGKARG_SUBMITCOMMAND so far miniport.complete(0, submits[0].args.SubmissionFenceId);  // ISR
//   at DIRQL -> NotifyInterrupt, QueueDpc -> DPC -> NotifyDpc
//
// Default behaviour
//   Render      copies the command bytes into the DMA buffer and the input patch list to the
//   output; writes addresses of
//               entries that are resident already (REND-07);
//               STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER if it does not fit.
//   Patch       writes PhysicalAddress + AllocationOffset, 8 bytes, at each PatchOffset of the
//   submission's range. Submit      records; nothing runs until the test completes the fence (or
//   `config.auto_complete`). Paging      writes one 64-byte PagingRecord per operation; see
//   `paging_records`. No bytes move. Preempt     records; the test answers with `preempted` (or
//   `config.auto_preempt`). Allocation  sizes and segments from a ScriptedAllocation in the private
//   data, else `config.default_allocation`. ISR         reports every interrupt raised by the test,
//   in order, and queues a DPC; DPC calls DxgkCbNotifyDpc.
//
// Threads: DDIs may come on any thread; records are guarded. Hooks are read without a lock: set
// them before the calls they are for. complete(), preempted() ... are the device: call them from
// any runtime thread that is not inside the driver (with auto_complete the driver itself does, at
// DISPATCH_LEVEL, which is legal: the DPC runs when the level drops).
#pragma once

#include <dispmprt.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "port/driver.h"
#include "port/types.h"
#include "runtime/sync.h"

namespace dxgkit::testing {

/// Per-allocation private data the default DxgkDdiCreateAllocation understands (when
/// PrivateDriverDataSize is its size).
struct ScriptedAllocation {
  uint64_t size = 64 * 1024;
  uint32_t alignment = 0;
  uint32_t supported_read = 0, supported_write = 0;  // 0: every memory segment and the aperture
  uint32_t eviction = 0;
  uint32_t preferred = 0;  // DXGK_SEGMENTPREFERENCE.Value
  uint32_t bank_hints = 0;
  uint32_t flags = 0;  // DXGK_ALLOCATIONINFOFLAGS.Value; CpuVisible is bit 0
  uint32_t priority = 0;
  uint32_t flags2 = 0;  // DXGK_ALLOCATIONINFOFLAGS2.Value, told from WDDM 3.0 on
  uint64_t pitch_aligned_size = 0;
  uint32_t magic = 0x53414C43;
  uint32_t padding = 0;
};

struct ScriptedSegment {
  DXGK_SEGMENTFLAGS flags{};
  uint64_t base_address = 0, size = 0, commit_limit = 0;  // commit_limit 0: the size
  uint64_t cpu_translated_address = 0;                    // kBarAddress: where the memory BAR lies
  uint64_t system_memory_end = 0, reserved = 0;
  uint32_t bank_count = 0;
  SIZE_T* bank_table = nullptr;
  uint32_t invalid_ranges = 0;                // NumInvalidMemoryRanges
  std::vector<port::MemoryRange> bad_ranges;  // the answer to SEGMENTMEMORYSTATE
  static constexpr uint64_t kBarAddress = UINT64_MAX;
};

/// What the scripted device is. Changed before Driver::load; caps and segments until StartDevice.
struct ScriptedConfig {
  uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM1_3;
  uint32_t nodes = 2, paging_node = 1;
  bool multi_engine_aware = true, preemption_aware = true, cancel_command_aware = true;
  uint32_t hw_queue_packet_cap = 0;
  uint32_t max_slot_id = 256;
  uint32_t video_present_sources = 0, children = 0;
  std::vector<ScriptedSegment>
      segments;  // filled by the constructor: local visible, local hidden, aperture
  uint32_t paging_buffer_segment = 0, paging_buffer_bytes = 16 * 1024, paging_private_bytes = 64;
  uint32_t dma_buffer_bytes = 16 * 1024, dma_private_bytes = 256, dma_segment_set = 0;
  uint32_t allocation_list_size = 64, patch_list_size = 128;
  ScriptedAllocation default_allocation;
  bool auto_complete = false;  // SubmitCommand completes its packet at once
  bool auto_preempt = false;   // PreemptCommand is answered at once
  bool record = true;          // false: count only (stress tests)
  /// Change the caps or the table last, after the defaults were filled in.
  std::function<void(DXGK_DRIVERCAPS&)> caps;
  std::function<void(DRIVER_INITIALIZATION_DATA&)> table;
};

/// What the default paging DDI writes into the paging buffer for each operation.
struct PagingRecord {
  static constexpr uint32_t kMagic = 0x50414745;
  uint32_t magic = kMagic;
  uint32_t operation = 0;  // DXGK_BUILDPAGINGBUFFER_OPERATION
  uint64_t sequence = 0;   // index into calls().paging
  uint8_t padding[48]{};
};
static_assert(sizeof(PagingRecord) == 64);

struct RenderCall {
  void* context = nullptr;
  bool render_km = false;
  DXGKARG_RENDER args{};  // as given
  std::vector<std::byte> command;
  std::vector<port::AllocationListEntry> allocations;
  std::vector<port::PatchLocation> patches_in;
  std::vector<std::byte> private_before;  // private data as given
};
struct PatchCall {
  DXGKARG_PATCH args{};
  std::vector<std::byte> dma;  // the whole buffer before patching
  std::vector<std::byte> private_data;
  std::vector<port::AllocationListEntry> allocations;
  std::vector<port::PatchLocation> patches;
};
struct SubmitCall {
  DXGKARG_SUBMITCOMMAND args{};
  std::vector<std::byte> private_data;
};
struct CancelCall {
  DXGKARG_CANCELCOMMAND args{};
  std::vector<port::AllocationListEntry> allocations;
  std::vector<port::PatchLocation> patches;
};
struct PagingCall {
  DXGKARG_BUILDPAGINGBUFFER args{};
  std::vector<uint64_t> source_pages,
      destination_pages;  // of the MDLs (aperture mappings, ADLs too: source_pages)
};
struct CreateAllocationCall {
  DXGKARG_CREATEALLOCATION args{};
  std::vector<DXGK_ALLOCATIONINFO> infos;  // as given
};
struct QueryCall {
  DXGKARG_QUERYADAPTERINFO args{};
  std::vector<std::byte> in, out_before;
};

/// Everything the driver was asked, in order per DDI; `order` has the DDI names of all calls but
/// ISR and DPC.
struct ScriptedCalls {
  std::vector<std::string> order;
  std::vector<QueryCall> queries;
  std::vector<RenderCall> renders;
  std::vector<PatchCall> patches;
  std::vector<SubmitCall> submits;
  std::vector<DXGKARG_PREEMPTCOMMAND> preempts;
  std::vector<CancelCall> cancels;
  std::vector<PagingCall> paging;
  std::vector<CreateAllocationCall> create_allocations;
  std::vector<DXGKARG_CREATECONTEXT> create_contexts;  // as given
  std::vector<DXGKARG_CREATEDEVICE> create_devices;
  std::vector<DXGKARG_OPENALLOCATION> open_allocations;
  std::vector<void*> destroyed_allocations, closed_allocations;
  DXGKRNL_INTERFACE callbacks{};  // as given to StartDevice
  uint64_t interrupts = 0, dpcs = 0;
  size_t count(std::string_view ddi) const;
};

class ScriptedMiniport {
 public:
  ScriptedMiniport();
  ~ScriptedMiniport();
  ScriptedMiniport(const ScriptedMiniport&) = delete;
  ScriptedMiniport& operator=(const ScriptedMiniport&) = delete;

  /// Replaces DDIs. An empty function means the default. `adapter` arguments are left out where
  /// they say nothing.
  struct Hooks {
    std::function<NTSTATUS(DRIVER_OBJECT*, UNICODE_STRING*)> driver_entry;
    std::function<void()> unload;
    std::function<NTSTATUS(void** context)> add_device;
    std::function<NTSTATUS(DXGK_START_INFO*, DXGKRNL_INTERFACE*, ULONG* sources, ULONG* children)>
        start_device;
    std::function<NTSTATUS()> stop_device, remove_device;
    std::function<BOOLEAN(ULONG message)> interrupt;
    std::function<void()> dpc;
    std::function<NTSTATUS(DXGK_CHILD_DESCRIPTOR*, ULONG bytes)> query_child_relations;
    std::function<NTSTATUS(const DXGKARG_QUERYADAPTERINFO*)> query_adapter_info;
    std::function<NTSTATUS(UINT node, DXGKARG_GETNODEMETADATA*)> get_node_metadata;
    std::function<NTSTATUS(DXGKARG_CREATEPROCESS*)> create_process;
    std::function<NTSTATUS(void*)> destroy_process;
    std::function<NTSTATUS(DXGKARG_CREATEDEVICE*)> create_device;
    std::function<NTSTATUS(void*)> destroy_device;
    std::function<NTSTATUS(void* device, DXGKARG_CREATECONTEXT*)> create_context;
    std::function<NTSTATUS(void*)> destroy_context;
    std::function<NTSTATUS(DXGKARG_CREATEALLOCATION*)> create_allocation;
    std::function<NTSTATUS(const DXGKARG_DESTROYALLOCATION*)> destroy_allocation;
    std::function<NTSTATUS(void* device, const DXGKARG_OPENALLOCATION*)> open_allocation;
    std::function<NTSTATUS(void* device, const DXGKARG_CLOSEALLOCATION*)> close_allocation;
    std::function<NTSTATUS(const DXGKARG_ESCAPE*)> escape;
    std::function<NTSTATUS(void*context, DXGKARG_RENDER*)> render, render_km;
    std::function<NTSTATUS(const DXGKARG_PATCH*)> patch;
    std::function<NTSTATUS(const DXGKARG_SUBMITCOMMAND*)> submit;
    std::function<NTSTATUS(const DXGKARG_PREEMPTCOMMAND*)> preempt;
    std::function<NTSTATUS(const DXGKARG_CANCELCOMMAND*)> cancel;
    std::function<NTSTATUS(DXGKARG_BUILDPAGINGBUFFER*)> build_paging;
    std::function<NTSTATUS(DXGKARG_QUERYCURRENTFENCE*)> query_current_fence;
    std::function<NTSTATUS()> reset_from_timeout, restart_from_timeout;
    std::function<NTSTATUS(ULONG uid, DEVICE_POWER_STATE, POWER_ACTION)> set_power_state;
    std::function<NTSTATUS(DXGK_SURPRISE_REMOVAL_TYPE)> notify_surprise_removal;
    std::function<NTSTATUS(UINT component, UINT f_state)> set_power_component_f_state;
    /// The engine: runs what was submitted with a fence, right before it is reported complete.
    /// False: it is not, because the hook has reported something else.
    std::function<bool(uint32_t node, uint32_t fence)> execute;
    /// Other work of the device: complete_all runs it too. Returns how much it did.
    std::function<size_t()> execute_more;
  };
  ScriptedConfig config;
  Hooks hooks;

  // The defaults, for hooks that only look or only add.
  NTSTATUS default_driver_entry(DRIVER_OBJECT* object, UNICODE_STRING* path);
  NTSTATUS default_start_device(DXGK_START_INFO*, DXGKRNL_INTERFACE*, ULONG* sources,
                                ULONG* children);
  BOOLEAN default_interrupt(ULONG message);
  void default_dpc();
  NTSTATUS default_query_adapter_info(const DXGKARG_QUERYADAPTERINFO*);
  NTSTATUS default_create_process(DXGKARG_CREATEPROCESS*);
  NTSTATUS default_destroy_process(void* process);
  NTSTATUS default_create_device(DXGKARG_CREATEDEVICE*);
  NTSTATUS default_create_context(void* device, DXGKARG_CREATECONTEXT*);
  NTSTATUS default_destroy_context(void* context);
  NTSTATUS default_create_allocation(DXGKARG_CREATEALLOCATION*);
  NTSTATUS default_destroy_allocation(const DXGKARG_DESTROYALLOCATION*);
  NTSTATUS default_open_allocation(void* device, const DXGKARG_OPENALLOCATION*);
  NTSTATUS default_close_allocation(void* device, const DXGKARG_CLOSEALLOCATION*);
  NTSTATUS default_render(void* context, DXGKARG_RENDER*);
  NTSTATUS default_patch(const DXGKARG_PATCH*);
  NTSTATUS default_submit(const DXGKARG_SUBMITCOMMAND*);
  NTSTATUS default_preempt(const DXGKARG_PREEMPTCOMMAND*);
  NTSTATUS default_build_paging(DXGKARG_BUILDPAGINGBUFFER*);
  NTSTATUS default_query_current_fence(DXGKARG_QUERYCURRENTFENCE*);

  // --- as a driver
  /// For port::Driver::load. The miniport must outlive the driver. Up to 64 miniports exist at
  /// once.
  port::DriverSource source();
  /// DRIVER_INITIALIZATION_DATA as the default DriverEntry passes it: entries of `config.version`,
  /// then config.table.
  DRIVER_INITIALIZATION_DATA make_table() const;
  /// DxgkInitialize of the calling thread's kernel, as a driver sees it.
  static NTSTATUS dxgk_initialize(DRIVER_OBJECT* object, UNICODE_STRING* path, const void* table);
  /// The callbacks given to StartDevice; DeviceHandle included. Valid between start and stop.
  const DXGKRNL_INTERFACE& callbacks() const { return callbacks_; }
  /// The value AddDevice returns as context: hAdapter of later DDIs.
  void* adapter_context() { return this; }

  // --- as a device
  bus::PciFunction& function() { return *function_; }
  /// Queues an interrupt of any type and raises the line. Returns the ISR's answer.
  bool raise(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data);
  /// Queues without raising: several causes pending for the next raise.
  void queue_interrupt(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data);
  bool raise_line() { return function_->interrupt_line().raise(); }
  /// DMA_COMPLETED of `fence`; everything submitted to the node up to it leaves `outstanding`.
  bool complete(uint32_t node, uint32_t fence);
  /// Completes the oldest outstanding submission of the node; false if there is none.
  bool complete_next(uint32_t node);
  /// Completes everything outstanding, node by node, until nothing is left. Returns how many
  /// submissions.
  size_t complete_all();
  /// The fence and all before it are done with, and nothing is reported.
  void retire(uint32_t node, uint32_t fence);
  bool preempted(uint32_t node, uint32_t preemption_fence, uint32_t last_completed);
  bool faulted(uint32_t node, uint32_t fence, NTSTATUS status);
  bool vsync(uint32_t target = 0, uint64_t address = 0);
  /// The device lost its power, or left: nothing submitted will ever complete.
  void forget_outstanding();
  /// Fences submitted to a node and not completed or preempted, oldest first.
  std::vector<uint32_t> outstanding(uint32_t node) const;
  uint32_t last_completed(uint32_t node) const;

  // --- what happened
  /// A copy of all records so far.
  ScriptedCalls calls() const;
  /// calls().paging[index], without a copy of the rest.
  PagingCall paging_call(size_t index) const;
  void clear_calls();
  /// Number of calls of a DDI by name, e.g. "DxgkDdiPatch"; works with config.record off too.
  size_t count(std::string_view ddi) const;
  /// Live driver objects, to see leaks: devices, contexts, allocations, opened allocations.
  size_t live_objects() const { return live_objects_.load(); }

  // Builders of interrupt data.
  static DXGKARGCB_NOTIFY_INTERRUPT_DATA completed_data(uint32_t node, uint32_t fence);
  static DXGKARGCB_NOTIFY_INTERRUPT_DATA preempted_data(uint32_t node, uint32_t preemption_fence,
                                                        uint32_t last_completed);
  static DXGKARGCB_NOTIFY_INTERRUPT_DATA faulted_data(uint32_t node, uint32_t fence,
                                                      NTSTATUS status);
  static DXGKARGCB_NOTIFY_INTERRUPT_DATA vsync_data(uint32_t target, uint64_t address);

  struct Thunks;  // the Win64 functions
  /// Counts a call, as the driver's own entries do.
  void note(const char* ddi);
  /// What entries that somebody else puts into the table (config.table) find themselves by.
  void* extension = nullptr;

 private:
  friend struct Thunks;

  size_t slot_;
  int memory_fd_ = -1;
  std::unique_ptr<bus::MmioHandler> registers_;
  std::unique_ptr<bus::PciFunction> function_;
  DXGKRNL_INTERFACE callbacks_{};
  std::atomic<size_t> live_objects_{0};
  std::atomic<void*> last_object_{nullptr};  // made; they are a list
  mutable runtime::Mutex lock_;
  ScriptedCalls calls_ DXGKIT_GUARDED_BY(lock_);
  std::vector<std::pair<std::string, size_t>> counts_ DXGKIT_GUARDED_BY(lock_);
  std::deque<DXGKARGCB_NOTIFY_INTERRUPT_DATA> pending_ DXGKIT_GUARDED_BY(lock_);
  std::vector<std::vector<uint32_t>> outstanding_ DXGKIT_GUARDED_BY(lock_);
  std::vector<uint32_t> last_completed_ DXGKIT_GUARDED_BY(lock_);
};

}  // namespace dxgkit::testing
