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
#include "vidmm/memory_manager.h"

namespace dxgkit::dxgk {

class Adapter;
class Context;
class Device;

/// Lane: the adapter's.
///
/// A packet pins what belongs to its context, and what belongs to all contexts of its device, from
/// prepare to retirement. When it enters the hardware queue its node holds them besides, until
/// another context's command (paging included) enters there: the GPU saves a context's state as it
/// switches away (RES-29). A hold ends early only when memory is refused for want of it and nothing
/// is on the node (our choice: an idle node would keep everybody waiting for ever); whoever moves
/// the allocation then tells the driver by the transfer.
class ContextAllocations {
 public:
  explicit ContextAllocations(Adapter& adapter) : adapter_(adapter) {}

  /// Of `context`, or of all contexts of `device` when null. `pages` are its backing from here on,
  /// on failure they stay the caller's; `view` (may be null) shows them to the driver's CPU.
  /// kInvalidParameter: no segment of its set can hold it.
  Result<AllocationId> create(Context* context, Device& device, const port::AllocationInfo& info,
                              const vidmm::AllocationDesc& desc,
                              std::span<const bus::PageFrame> pages,
                              std::unique_ptr<bus::CpuView> view);
  /// The identity is gone at once, the memory when no packet uses it. From then on paging names no
  /// driver object. False: there is none.
  bool destroy(AllocationId id);
  bool contains(AllocationId id) const { return entries_.contains(id); }
  /// The driver's context or device is gone: what it has not destroyed goes too.
  void owner_gone(Context& context);
  void owner_gone(Device& device);

  /// How paging names it to the driver, if it is one of ours.
  void describe(AllocationId id, PagingTarget* target) const;

  /// Puts what the packet's context needs at the front of `packet.uses`, in place of what was put
  /// there before.
  void list(Packet& packet) const;
  /// The packet enters the hardware queue of `node`.
  void entered(NodeOrdinal node, const Packet& packet);
  /// Ends all holds, or those of nodes with nothing on hardware. True: there was one.
  bool let_go();
  bool let_go_idle();
  /// The content of some allocation is lost: if it is one of ours, its device is.
  void content_lost(AllocationId id);

  /// Frees what was destroyed and is not used any more.
  void advance();
  bool settled() const { return dying_.empty(); }

 private:
  struct Entry {
    Context* context = nullptr;  // null: of all contexts of `device`
    Device* device = nullptr;
    std::unique_ptr<bus::CpuView> view;  // for the driver, as long as it lives; may be null
  };
  /// What a node holds for the context whose command entered last.
  struct Hold {
    const Context* context = nullptr;
    std::vector<vidmm::Use> uses;
  };
  static std::vector<vidmm::Use>& uses_of(const Entry& entry);
  bool release(Hold& hold);
  bool destroy_all(const std::vector<vidmm::Use>& uses);

  Adapter& adapter_;
  std::map<AllocationId, Entry> entries_;
  std::vector<Hold> holds_;  // by node
  std::vector<AllocationId> dying_;
  bool advancing_ = false;
};

}  // namespace dxgkit::dxgk
