// A context: an ordered stream of work on one node.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dxgk/core/gate.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "dxgk/work/dma_buffer_pool.h"
#include "port/types.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"
#include "vidmm/memory_manager.h"

namespace dxgkit::dxgk {

class Device;
class SpaceUser;
class SyncObject;
struct FlipSubmission;

/// One entry of a client's allocation list: D3DDDI_ALLOCATIONLIST, same 8 bytes.
struct ClientAllocation {
  uint32_t handle = 0;
  uint32_t flags = 0;  // bit 0: WriteOperation; higher bits: offer hints, ignored on this path;
                       // reserved from bit 5
};
static_assert(sizeof(ClientAllocation) == 8);

/// Memory the client fills and D3DKMTRender reads: the command buffer and the two lists of a legacy
/// context (THUNK-14).
struct ClientBuffers {
  std::byte* command = nullptr;
  uint32_t command_bytes = 0;
  ClientAllocation* allocations = nullptr;
  uint32_t allocation_count = 0;
  port::PatchLocation* patches = nullptr;
  uint32_t patch_count = 0;
};

class Context;

struct RenderRequest {
  uint32_t command_offset = 0, command_length = 0;
  uint32_t allocation_count = 0, patch_count = 0;
  bool null_rendering = false, render_km = false, present_redirected = false;
  // Of a present that has a DMA buffer.
  bool present = false, counts_as_present = false;
  const FlipSubmission* flip = nullptr;  // the driver's DMA buffer flips
  uint32_t resize_command_bytes = 0, resize_allocations = 0,
           resize_patches = 0;  // 0: no wish (THUNK-15)
  /// What is built runs on these contexts too, each with a DMA buffer of its own that holds the
  /// same (our choice: contexts stay independent). Of the same device.
  std::span<const Ref<Context>> broadcast;
};

struct ContextCreation {
  NodeOrdinal node;
  uint32_t engine_affinity = 0;
  std::span<std::byte> private_data;
  bool null_rendering = false;
  bool virtual_addressing = false;  // its work names addresses, not allocations (SUB-01)
};

/// D3DKMTPresent, with flags and handles checked. Rectangles are in pixels.
struct PresentRequest {
  port::PresentFlags flags;
  uint32_t vidpn_source = 0;
  Ref<OpenedAllocation> source, destination;  // null where REND-17 says so
  uint32_t color = 0;
  port::Rect destination_rect, source_rect;
  std::vector<port::Rect> sub_rects;
  uint32_t flip_interval = 0;
  uint64_t mode = 0;  // Flips::mode when the surface was seen to fit it
  bool do_not_wait = false;
  std::span<std::byte> private_data;
  std::vector<Ref<Context>> broadcast;  // of a flip: beside this one
};

/// D3DKMTSubmitCommand for one context.
struct VirtualSubmission {
  uint64_t commands = 0;  // in the address space of the process; not looked at (SUB-31)
  uint32_t bytes = 0;
  std::span<const std::byte> private_data;  // captured; at most the context's (SUB-33)
  bool null_rendering = false;
  std::span<const Ref<OpenedAllocation>> written_primaries;
};

class Context : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kContext;
  explicit Context(Device& device);
  ~Context() override;
  bool of_hw_queue() const { return type() == ObjectType::kHwQueue; }

  /// kInvalidParameter: node or affinity (SCHED-01); else the driver's own failure. Nothing stays
  /// on failure.
  static Result<Ref<Context>> create(Device& device, const ContextCreation& creation);
  /// The handle is gone already. Waits until queued work has left (a context blocked behind a wait
  /// nobody satisfied, or of a device in error, drops it), then DxgkDdiDestroyContext (SCHED-22).
  /// Any thread but the lane.
  void destroy();

  /// D3DKMTRender: see REND. Caller's thread. On any result `buffers()` names where the next
  /// commands go (THUNK-15).
  /// @param queued  receives the packets queued on this context, this one included (THUNK-17).
  /// kInvalidParameter: offsets or counts outside the buffers (THUNK-16), or a foreign allocation
  /// (REND-05); kInvalidHandle: a bad handle in the list (REND-04); kDeviceRemoved; the driver's
  /// documented failures.
  Status render(const RenderRequest& request, uint32_t* queued);
  /// Checks what submit_virtual would refuse; nothing changes. kInvalidParameter: not a context
  /// with virtual addressing, or more private data than it takes (SUB-33); kDeviceRemoved. Caller's
  /// thread.
  Status check_virtual(const VirtualSubmission& submission);
  /// D3DKMTSubmitCommand: queued as it is. kDeviceRemoved: nothing queued; also when a written
  /// primary is not resident, which puts the device in error (RES-26). Caller's thread.
  Status submit_virtual(const VirtualSubmission& submission);
  /// D3DKMTPresent. Blocks over the device's limit (SCHED-16). kGraphicsAllocationBusy: over it,
  /// with do_not_wait. kGraphicsAllocationInvalid: the mode has changed since, or a primary of an
  /// older mode. Else as render(). Caller's thread.
  Status present(const PresentRequest& request);
  /// Queues a wait or a signal behind what the context has (SYNC-05, SYNC-20).
  /// kInvalidParameter: a fence of 32 bits is out of reach (SYNC-17); kDeviceRemoved.
  Status queue_sync(vidsch::PacketKind kind, std::span<const vidsch::SyncPoint> points);
  /// Signals when all `contexts`, of one adapter, have come to it: with everything before it done,
  /// or with the hardware (SYNC-05, SYNC-12). `event` is called then, too; may be null (SYNC-07).
  /// Nothing is queued on failure.
  struct SignalOrder {
    bool at_submission = false;
    std::function<void()> event = {};
  };
  static Status queue_signal(std::span<const Ref<Context>> contexts,
                             std::span<const vidsch::SyncPoint> points, SignalOrder order);

  /// SCHED-11: -7..+7; kPrivilegeNotHeld above 0, which only a privileged process may ask. State
  /// unchanged on failure.
  Status set_priority(int32_t priority);
  int32_t priority();
  /// SCHED-13: ahead of the other contexts of its process. kDeviceRemoved.
  Status set_ahead_in_process(bool ahead);
  bool ahead_in_process();

  /// Not on the lane. Idempotent: when the context, its device or the adapter ends.
  void close_driver_side();

  Device& device() { return *device_; }
  ContextId id() const { return id_; }
  NodeOrdinal node() const { return node_; }
  bool virtual_addressing() const { return virtual_; }
  /// Of a context with virtual addressing, from its creation on. Any thread.
  SpaceUser& in_space() { return *in_space_; }
  void* driver_handle() const { return info_.handle; }
  const port::ContextInfo& info() const { return info_; }
  /// As Device::gate, for calls that are no Render.
  Gate& gate() { return gate_; }
  ClientBuffers buffers();
  DmaBufferPool& pool() { return *pool_; }
  /// Writes what a run of patch locations needs resident: each allocation once, in order of first
  /// mention.
  void list_uses(const DmaBuffer& buffer, uint32_t patch_start, uint32_t patch_length,
                 std::vector<vidmm::Use>* list) DXGKIT_REQUIRES(on_lane);
  /// It gets no context allocations any more.
  bool memory_closed() const DXGKIT_REQUIRES(on_lane) { return memory_closed_; }
  Handle handle = 0;

  bool failed DXGKIT_GUARDED_BY(on_lane) = false;  // its device is in error
  std::vector<vidmm::Use> own_memory
      DXGKIT_GUARDED_BY(on_lane);  // its context allocations (RES-29)

 protected:
  Context(Device& device, ObjectType type);
  /// The driver's side, once nothing of the context is left in the scheduler. Not on the lane.
  virtual void destroy_in_driver();
  /// The scheduler knows it, and its process's address space; gets its number. Lane.
  Status enter(NodeOrdinal scheduler_node) DXGKIT_REQUIRES(on_lane);
  void leave() DXGKIT_REQUIRES(on_lane);  // undoes it

  NodeOrdinal node_;
  port::ContextInfo info_;
  bool driver_context_ = false;  // the driver made one (MultiEngineAware)
  bool virtual_ = false;
  // One Render at a time: the order of building is the order of execution.
  runtime::Mutex render_mutex_;
  bool destroyed_ DXGKIT_GUARDED_BY(render_mutex_) = false;

 private:
  struct CapturedAllocation {
    OpenedAllocation* opened = nullptr;  // null: a NULL entry
    bool write = false;
    bool on_screen = false;  // of a present: the kernel sees to its place
  };
  // context_present.cpp
  Status present_limit(const PresentRequest& request) DXGKIT_REQUIRES(render_mutex_);
  Status present_by_buffer(const PresentRequest& request, const FlipSubmission* flip)
      DXGKIT_REQUIRES(render_mutex_);
  Status present_by_register(const PresentRequest& request, const FlipSubmission& flip)
      DXGKIT_REQUIRES(render_mutex_);
  /// The packet's DMA buffer does the flip.
  void begin_flip(Packet& packet, const FlipSubmission& flip) DXGKIT_REQUIRES(on_lane);
  std::vector<Ref<OpenedAllocation>> written_in(const DmaBuffer& buffer) const;
  /// What the packet about to be queued has to wait for (SUB-37).
  void wait_for_flips(std::span<const Ref<OpenedAllocation>> written) DXGKIT_REQUIRES(on_lane);
  Status allocate_client_buffers(uint32_t command_bytes, uint32_t allocations,
                                 uint32_t patches) DXGKIT_NO_THREAD_SAFETY_ANALYSIS;
  Status check_info();
  /// Who says what the pass may use: the client's list, whose handles are looked up anew for each
  /// pass, or `captured_`, which somebody keeps alive.
  enum class Listed { kByClient, kByKernel };
  /// Lane: `captured_` from `client_list_`, alive while the lane is held. Most lists are like the
  /// one before, and nothing has happened to what that named: then nothing is looked up.
  /// kInvalidParameter (REND-05, THUNK-03), kInvalidHandle (REND-04), kAccessDenied (THUNK-24), or
  /// as check_captured().
  Status capture_list() DXGKIT_REQUIRES(on_lane) DXGKIT_REQUIRES(render_mutex_);
  Status find_allocations() DXGKIT_REQUIRES(render_mutex_);
  Status check_captured() DXGKIT_REQUIRES(on_lane);
  /// Lane: `entries_` from `captured_`, with the places of now (REND-06).
  void list_places() DXGKIT_REQUIRES(on_lane) DXGKIT_REQUIRES(render_mutex_);
  Status begin_pass(Listed listed, DmaBuffer** out) DXGKIT_REQUIRES(render_mutex_);
  Status end_pass(DmaBuffer& buffer, const port::RenderResult& result, const RenderRequest& request,
                  uint32_t* queued) DXGKIT_REQUIRES(render_mutex_);
  /// The driver wants a second buffer although it guaranteed to need one: fatal (REND-10).
  void break_contract(DmaBuffer& buffer, uint32_t written);
  void abandon_pass(DmaBuffer& buffer);
  /// A packet of `buffer` as it is; the caller still counts as a user of the buffer.
  void queue_pass(DmaBuffer& buffer, const port::RenderResult& result, const RenderRequest& request)
      DXGKIT_REQUIRES(on_lane);
  /// A buffer of this context with the content of another's; kNoMemory, kDeviceRemoved.
  Result<DmaBuffer*> copy_pass(const DmaBuffer& from, const port::RenderResult& result)
      DXGKIT_REQUIRES(on_lane);
  Status check_broadcast(const RenderRequest& request) const;
  Status queue_everywhere(DmaBuffer& buffer, const port::RenderResult& result,
                          const RenderRequest& request) DXGKIT_REQUIRES(on_lane);
  /// FIELD-01: allocations that nothing makes resident.
  void check_references(const DmaBuffer& buffer, const port::RenderResult& result);
  static bool plainly_right(const DmaBuffer& buffer, const port::RenderResult& result,
                            uint32_t slot_limit);
  Status check_patches(const DmaBuffer& buffer, const port::RenderResult& result, const char* ddi);
  /// The driver's context is gone, or was never made.
  void drop_memory();

  const Ref<Device> device_;
  ContextId id_;
  std::unique_ptr<SpaceUser> in_space_;  // null without virtual addressing
  Gate gate_;
  bool null_rendering_ = false;  // of the creation flags (SUB-23)
  std::unique_ptr<DmaBufferPool> pool_;
  std::unique_ptr<std::byte[]> command_storage_;
  std::unique_ptr<ClientAllocation[]> allocation_storage_;
  std::unique_ptr<port::PatchLocation[]> patch_storage_;
  ClientBuffers buffers_;
  std::vector<ClientAllocation> client_list_;  // scratch of render
  // What the list of the last pass named. Alive and valid while AdapterCore::listing_changes() is
  // what it was then; 0: not to be used again.
  std::vector<CapturedAllocation> captured_;
  std::vector<ClientAllocation> captured_list_;
  uint64_t captured_as_of_ = 0;
  // As a driver gets it, with the places as of that plan of the memory manager; 0: of none.
  std::vector<port::AllocationListEntry> entries_;
  uint64_t entries_as_of_ = 0;
  std::vector<uint8_t> seen_ DXGKIT_GUARDED_BY(on_lane);  // scratch of list_uses
  int32_t priority_ DXGKIT_GUARDED_BY(on_lane) = 0;
  bool ahead_in_process_ DXGKIT_GUARDED_BY(on_lane) = false;
  bool closed_ DXGKIT_GUARDED_BY(on_lane) = false;  // the driver side is gone
  bool memory_closed_ DXGKIT_GUARDED_BY(on_lane) = false;
};

}  // namespace dxgkit::dxgk
