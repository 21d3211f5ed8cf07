// Context allocations: where GPUs save the state of contexts (DxgkCbCreateContextAllocation).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "bus/machine.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/work/packet.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"
#include "vidmm/memory_manager.h"

namespace dxgkit::dxgk {

class AdapterCore;
class Context;
class Device;
struct WorkFloor;

/// Lane: the adapter's.
///
/// A packet pins what belongs to its context, and what belongs to all contexts of its device, from
/// prepare to retirement. When it enters the hardware queue its node holds them besides, until
/// another context's command (paging included) enters there: the GPU saves a context's state as it
/// switches away (RES-29). A hold ends early only when memory is refused for want of it and nothing
/// is on the node (our choice: an idle node would keep everybody waiting for ever). The context is
/// still the node's current one then, and the GPU may save into its allocations: before such an
/// allocation moves the node is switched to no context, by a zero-length submission (SUB-24). The
/// same goes for paging buffers of an aperture, which belong to the kernel's paging context.
class ContextAllocations {
 public:
  explicit ContextAllocations(WorkFloor& floor);

  /// Of `context`, or of all contexts of `device` when null. `pages` are its backing from here on,
  /// on failure they stay the caller's; `view` (may be null) shows them to the driver's CPU.
  /// kInvalidParameter: no segment of its set can hold it.
  Result<AllocationId> create(Context* context, Device& device, const port::AllocationInfo& info,
                              const vidmm::AllocationDesc& desc,
                              std::span<const bus::PageFrame> pages,
                              std::unique_ptr<bus::CpuView> view) DXGKIT_REQUIRES(on_lane);
  /// The identity is gone at once, the memory when no packet uses it. From then on paging names no
  /// driver object. False: there is none.
  bool destroy(AllocationId id) DXGKIT_REQUIRES(on_lane);
  bool contains(AllocationId id) const DXGKIT_REQUIRES(on_lane) { return entries_.contains(id); }
  /// The driver's context or device is gone: what it has not destroyed goes too.
  void owner_gone(Context& context) DXGKIT_REQUIRES(on_lane);
  void owner_gone(Device& device) DXGKIT_REQUIRES(on_lane);

  /// How paging names it to the driver, if it is one of ours.
  void describe(AllocationId id, PagingTarget* target) const DXGKIT_REQUIRES(on_lane);

  /// Puts what the packet's context needs at the front of `packet.uses`, in place of what was put
  /// there before.
  void list(Packet& packet) const DXGKIT_REQUIRES(on_lane);
  /// The packet enters the hardware queue of `node`.
  void entered(NodeOrdinal node, const Packet& packet) DXGKIT_REQUIRES(on_lane);

  // --- switches to no context (SUB-24) ---
  /// Before content of a context that is current somewhere moves: work that switches those nodes
  /// away and is over when they have, appended to `work`. Drivers below WDDM 1.2: none.
  void before(const vidmm::PagingOp& op, std::vector<std::unique_ptr<PagingWork>>* work)
      DXGKIT_REQUIRES(on_lane);
  /// A packet with flags.context_switch left the scheduler.
  void switched(const Packet& packet) DXGKIT_REQUIRES(on_lane);
  /// The scheduler's context that such packets of the node are queued on.
  ContextId null_context(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  /// The driver's context is about to go: true when no switch under way names it, and then none
  /// will.
  bool let_end(const Context& context) DXGKIT_REQUIRES(on_lane);
  /// No context is current anywhere any more.
  void hardware_was_reset() DXGKIT_REQUIRES(on_lane);

  /// Ends all holds, or those of nodes with nothing on hardware. True: there was one.
  bool let_go() DXGKIT_REQUIRES(on_lane);
  bool let_go_idle() DXGKIT_REQUIRES(on_lane);
  /// The content of some allocation is lost: if it is one of ours, its device is.
  void content_lost(AllocationId id) DXGKIT_REQUIRES(on_lane);

  /// Frees what was destroyed and is not used any more.
  void advance() DXGKIT_REQUIRES(on_lane);
  bool settled() const DXGKIT_REQUIRES(on_lane) { return dying_.empty(); }

 private:
  struct Entry {
    Context* context = nullptr;  // null: of all contexts of `device`
    Device* device = nullptr;
    std::unique_ptr<bus::CpuView> view;  // for the driver, as long as it lives; may be null
  };
  /// What a node holds for the context whose command entered last.
  struct Hold {
    Context* context = nullptr;  // null: the kernel's paging, or nobody
    std::vector<vidmm::Use> uses;
    bool paging = false;   // the kernel's paging entered last
    bool current = false;  // its state is on the GPU still
    // The switch under way, and away from whom.
    PacketId switching;
    Context* from = nullptr;
    ContextId null_context;
  };
  /// Whose content moves: `context`, all contexts of `device`, or the kernel's paging.
  struct Concerned {
    const Context* context = nullptr;
    const Device* device = nullptr;
    bool paging = false;
    bool is(Context* current, bool current_is_paging) const DXGKIT_REQUIRES(on_lane);
  };
  /// True: no node is current with any of them, nor on its way from one.
  bool switch_away(const Concerned& concerned) DXGKIT_REQUIRES(on_lane);
  void begin_switch(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  static std::vector<vidmm::Use>& uses_of(const Entry& entry) DXGKIT_REQUIRES(on_lane);
  bool release(Hold& hold) DXGKIT_REQUIRES(on_lane);
  bool destroy_all(const std::vector<vidmm::Use>& uses) DXGKIT_REQUIRES(on_lane);

  WorkFloor& floor_;
  AdapterCore& core_;
  std::map<AllocationId, Entry> entries_;
  std::vector<Hold> holds_;  // by node
  std::vector<AllocationId> dying_;
  bool advancing_ = false;
};

}  // namespace dxgkit::dxgk
