#include "dxgk/work/context_allocations.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/interface_versions.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/driver_handles.h"
#include "dxgk/memory/allocation_rules.h"
#include "dxgk/memory/paging_buffers.h"
#include "dxgk/memory/teardowns.h"
#include "dxgk/va/gpu_va_work.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/system_objects.h"
#include "dxgk/work/work_floor.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
ContextAllocations::ContextAllocations(WorkFloor& floor) : floor_(floor), core_(floor.core) {}

std::vector<vidmm::Use>& ContextAllocations::uses_of(const Entry& entry) {
  return entry.context != nullptr ? entry.context->own_memory : entry.device->shared_memory;
}

Result<AllocationId> ContextAllocations::create(Context* context, Device& device,
                                                const port::AllocationInfo& info,
                                                const vidmm::AllocationDesc& desc,
                                                std::span<const bus::PageFrame> pages,
                                                std::unique_ptr<bus::CpuView> view) {
  Allocation& allocation = floor_.allocations.create();
  if (const Status status = core_.memory().create(allocation.id, desc); !is_success(status)) {
    floor_.allocations.destroy(allocation);
    return Error(status);
  }
  allocation.driver_handle = info.handle;
  allocation.size_bytes = desc.size_bytes;
  allocation.info_flags = info.flags;
  allocation.cached = desc.cached;
  allocation.pages = FrameList(pages);
  const Entry& entry =
      entries_.emplace(allocation.id, Entry{context, &device, std::move(view)}).first->second;
  uses_of(entry).push_back({allocation.id, true});  // the GPU saves into it
  trace::emit(trace::EventKind::kAllocationCreated, allocation.id.value, device.process().number(),
              0, allocation.size_bytes);
  return allocation.id;
}

bool ContextAllocations::destroy(AllocationId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  std::erase_if(uses_of(found->second),
                [&](const vidmm::Use& use) { return use.allocation == id; });
  entries_.erase(found);
  for (Hold& hold : holds_) {
    const auto held = std::ranges::find(hold.uses, id, &vidmm::Use::allocation);
    if (held == hold.uses.end()) continue;
    if (!core_.failed()) core_.memory().release(std::span(&*held, 1));
    hold.uses.erase(held);
  }
  dying_.push_back(id);
  advance();
  // What is still to be built must not name an object the driver may free now.
  if (floor_.allocations.contains(id)) floor_.allocations.at(id).driver_handle = nullptr;
  return true;
}

bool ContextAllocations::destroy_all(const std::vector<vidmm::Use>& uses) {
  const std::vector<vidmm::Use> all = uses;
  for (const vidmm::Use& use : all) {
    // The driver's object went with its context.
    floor_.allocations.at(use.allocation).driver_handle = nullptr;
    static_cast<void>(destroy(use.allocation));
  }
  return !all.empty();
}

void ContextAllocations::owner_gone(Context& context) {
  for (Hold& hold : holds_) {
    if (hold.context != &context) continue;
    static_cast<void>(release(hold));
    hold.context = nullptr;
    hold.current = false;
  }
  static_cast<void>(destroy_all(context.own_memory));
}

void ContextAllocations::owner_gone(Device& device) {
  static_cast<void>(destroy_all(device.shared_memory));
}

void ContextAllocations::describe(AllocationId id, PagingTarget* target) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  target->context_handle = reinterpret_cast<void*>(id.value);
  if (found->second.view != nullptr) target->virtual_address = found->second.view->address();
}

void ContextAllocations::list(Packet& packet) const {
  const auto own = packet.uses.begin();
  packet.uses.erase(own, own + packet.own_uses);
  packet.own_uses = 0;
  if (packet.context == nullptr) return;
  const std::vector<vidmm::Use>& shared = packet.context->device().shared_memory;
  const std::vector<vidmm::Use>& mine = packet.context->own_memory;
  packet.uses.insert(packet.uses.begin(), shared.begin(), shared.end());
  packet.uses.insert(packet.uses.begin(), mine.begin(), mine.end());
  packet.own_uses = static_cast<uint32_t>(mine.size() + shared.size());
}

void ContextAllocations::entered(NodeOrdinal node, const Packet& packet) {
  if (holds_.size() <= node.value) holds_.resize(node.value + 1);
  Hold& hold = holds_[node.value];
  hold.current = !packet.flags.context_switch;
  hold.paging = packet.flags.paging;
  const std::span<const vidmm::Use> wanted = std::span(packet.uses).first(packet.own_uses);
  if (hold.context == packet.context &&
      std::ranges::equal(hold.uses, wanted, {}, &vidmm::Use::allocation, &vidmm::Use::allocation)) {
    return;
  }
  if (!wanted.empty()) core_.memory().pin(wanted);
  static_cast<void>(release(hold));
  hold.context = packet.context;
  hold.uses.assign(wanted.begin(), wanted.end());
}

bool ContextAllocations::release(Hold& hold) {
  if (hold.uses.empty()) return false;
  if (!core_.failed()) core_.memory().release(hold.uses);
  hold.uses.clear();
  return true;
}

bool ContextAllocations::let_go() {
  bool any = false;
  for (Hold& hold : holds_) any = release(hold) || any;
  return any;
}

bool ContextAllocations::let_go_idle() {
  bool any = false;
  for (uint32_t node = 0; node < holds_.size(); ++node) {
    if (core_.scheduler().node_status(NodeOrdinal{node}).hardware_queue_length != 0) continue;
    any = release(holds_[node]) || any;
  }
  return any;
}

// --- switches to no context ---

bool ContextAllocations::Concerned::is(Context* current, bool current_is_paging) const {
  if (paging || current == nullptr) return paging && current_is_paging;
  return context != nullptr ? current == context : &current->device() == device;
}

void ContextAllocations::before(const vidmm::PagingOp& op,
                                std::vector<std::unique_ptr<PagingWork>>* work) {
  core_.lane().assert_current();
  using Kind = vidmm::PagingOp::Kind;
  const bool leaves =
      op.kind == Kind::kTransferOut || op.kind == Kind::kDiscard || op.kind == Kind::kUnmapAperture;
  if (!leaves || core_.interface_version() < kInterfaceWin8) return;
  Concerned concerned;
  if (const auto found = entries_.find(op.allocation); found != entries_.end()) {
    concerned.context = found->second.context;
    concerned.device = found->second.device;
  } else if (floor_.paging_buffers->contains(op.allocation)) {
    concerned.paging = true;
  } else {
    return;
  }
  work->push_back(std::make_unique<CallWork>(
      [this, concerned]() DXGKIT_REQUIRES(on_lane) { return switch_away(concerned); }));
}

bool ContextAllocations::switch_away(const Concerned& concerned) {
  bool away = true;
  for (uint32_t node = 0; node < holds_.size(); ++node) {
    const auto concerns = [&]() DXGKIT_REQUIRES(on_lane) {
      const Hold& hold = holds_[node];
      return hold.switching.value != 0 ? concerned.is(hold.from, hold.from == nullptr)
                                       : hold.current && concerned.is(hold.context, hold.paging);
    };
    if (!concerns()) continue;
    if (holds_[node].switching.value == 0) begin_switch(NodeOrdinal{node});
    away = away && !concerns();  // it may have been refused
  }
  return away;
}

void ContextAllocations::begin_switch(NodeOrdinal node) {
  Hold& hold = holds_[node.value];
  Packet& packet = floor_.submission->packets().create();
  packet.kind = vidsch::PacketKind::kPaging;  // ahead of rendering that the node has queued
  packet.flags.context_switch = true;
  packet.flags.paging = hold.paging;
  packet.switched_node = node;
  packet.driver_context =
      hold.context == nullptr ? floor_.system_objects->context() : hold.context->driver_handle();
  packet.switches_virtual =
      hold.context == nullptr ? floor_.gpu_va != nullptr : hold.context->virtual_addressing();
  hold.switching = packet.id;
  hold.from = hold.context;
  floor_.submission->queue(packet);
}

void ContextAllocations::switched(const Packet& packet) {
  Hold& hold = holds_[packet.switched_node.value];
  hold.switching = PacketId{};
  if (!core_.failed()) floor_.paging->look_again();
}

ContextId ContextAllocations::null_context(NodeOrdinal node) {
  Hold& hold = holds_[node.value];
  if (hold.null_context.value == 0) {
    hold.null_context = core_.new_context_id();
    vidsch::ContextDesc desc;
    desc.node = node;
    desc.is_system = true;
    DXGKIT_CHECK(is_success(core_.scheduler().create_context(hold.null_context, desc)));
  }
  return hold.null_context;
}

bool ContextAllocations::let_end(const Context& context) {
  for (const Hold& hold : holds_) {
    if (hold.switching.value != 0 && hold.from == &context) return false;
  }
  for (Hold& hold : holds_) {
    if (hold.context == &context) hold.current = false;
  }
  return true;
}

void ContextAllocations::hardware_was_reset() {
  for (Hold& hold : holds_) hold.current = false;
}

void ContextAllocations::content_lost(AllocationId id) {
  const auto found = entries_.find(id);
  if (found != entries_.end()) found->second.device->set_error(DeviceState::kReset);
}

void ContextAllocations::advance() {
  core_.lane().assert_current();
  if (advancing_) return;  // the loop below looks at everything again
  advancing_ = true;
  for (size_t i = 0; i < dying_.size();) {
    const AllocationId id = dying_[i];
    const vidmm::MemoryManager& memory = core_.memory();
    const bool quiet =
        core_.failed() || (memory.pin_count(id) == 0 && memory.pending_operations(id) == 0);
    if (!quiet) {
      ++i;
      continue;
    }
    dying_.erase(dying_.begin() + static_cast<std::ptrdiff_t>(i));
    floor_.teardowns->free_internal(floor_.allocations.at(id));
    i = 0;
  }
  advancing_ = false;
}

}  // namespace dxgkit::dxgk
