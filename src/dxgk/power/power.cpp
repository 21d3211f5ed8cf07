#include "dxgk/power/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "dxgk/adapter/adapter.h"
#include "dxgk/adapter/segment_rules.h"
#include "dxgk/device.h"
#include "dxgk/display/display.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/residency.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/hw_queue.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

port::PowerState device_state(PowerTarget target) {
  switch (target) {
    case PowerTarget::kD0:
      return port::PowerState::kD0;
    case PowerTarget::kD1:
      return port::PowerState::kD1;
    case PowerTarget::kD2:
      return port::PowerState::kD2;
    default:
      return port::PowerState::kD3;
  }
}

port::PowerAction action_of(PowerTarget target) {
  return target == PowerTarget::kHibernate ? port::PowerAction::kHibernate
                                           : port::PowerAction::kSleep;
}

/// What the platform leaves the device with once the driver has said D3.
bus::FunctionPower platform_power(PowerTarget target) {
  switch (target) {
    case PowerTarget::kHibernate:
    case PowerTarget::kHybridSleep:  // the battery may yet run out
      return bus::FunctionPower::kHibernate;
    case PowerTarget::kD3:
    case PowerTarget::kStandby:
      return bus::FunctionPower::kStandby;
    default:
      return bus::FunctionPower::kOn;
  }
}

// Values of trace::EventKind::kAdapterState beside stopped, running and failed.
constexpr uint64_t kStateAsleep = 3;

}  // namespace

uint64_t kept_bytes(const port::SegmentInfo& segment, PowerTarget target,
                    bool disable_self_refresh_in_s3) {
  const auto has = [&](uint32_t bit) { return (segment.flags & bit) != 0; };
  switch (target) {
    case PowerTarget::kD0:
      return UINT64_MAX;
    case PowerTarget::kHybridSleep:
    case PowerTarget::kHibernate:
      if (has(kSegmentPreservedDuringHibernate)) return UINT64_MAX;
      if (has(kSegmentPartiallyPreservedDuringHibernate)) return segment.system_memory_end + 1;
      return 0;
    case PowerTarget::kStandby:
      // The bit is about memory that refreshes itself; apertures have none.
      if (disable_self_refresh_in_s3 && !has(kSegmentAperture)) return 0;
      [[fallthrough]];
    default:
      return has(kSegmentPreservedDuringStandby) ? UINT64_MAX : 0;
  }
}

uint64_t Power::kept(SegmentId segment, PowerTarget target) const {
  if (evicting_) return 0;
  return kept_bytes(adapter_.segment_infos().segments[segment.value - 1], target,
                    adapter_.caps().disable_self_refresh_vram_in_s3);
}

void Power::note_state(uint64_t state) const {
  trace::emit(trace::EventKind::kAdapterState, adapter_.luid().low, state);
}

Result<PowerOutcome> Power::set(PowerTarget target) {
  const runtime::MutexLock lock(mutex_);
  if (stopping_ || !adapter_.running()) return Error(Status::kDeviceRemoved);
  if (adapter_.display_only()) return set_display_only(target);
  if (target == target_) return PowerOutcome{};
  if (target == PowerTarget::kD0) {
    DXGKIT_RETURN_ERROR_IF_FAILED(wake());
    return PowerOutcome{};
  }
  // The power manager wakes a device before it sends it elsewhere.
  if (target_ != PowerTarget::kD0) return Error(Status::kInvalidParameter);
  hold();
  return go_down(target);
}

Result<PowerOutcome> Power::set_display_only(PowerTarget target) {
  if (target == target_) return PowerOutcome{};
  if (target != PowerTarget::kD0 && target_ != PowerTarget::kD0)
    return Error(Status::kInvalidParameter);
  if (adapter_.display() == nullptr) return Error(Status::kNotSupported);
  if (target == PowerTarget::kD0) adapter_.function().set_power(bus::FunctionPower::kOn);
  const Status status = adapter_.display()->set_power(device_state(target), action_of(target));
  if (!is_success(status)) return Error(status);
  target_ = target;
  if (target != PowerTarget::kD0) adapter_.function().set_power(platform_power(target));
  note_state(target == PowerTarget::kD0 ? 1 : kStateAsleep);
  return PowerOutcome{};
}

Status Power::fail(PowerTarget during) {
  if (during == PowerTarget::kD0) return Status::kInvalidParameter;
  // A transition under way goes on with what is left.
  bool under_way = false;
  adapter_.lane().run([&] {
    if (adapter_.failed_ || !adapter_.has_memory()) return;
    under_way = phase_ == Phase::kFalling || phase_ == Phase::kRising;
    if (under_way) lose(during);
  });
  if (under_way) {
    adapter_.progress();
    return Status::kSuccess;
  }
  const runtime::MutexLock lock(mutex_);
  if (stopping_ || !adapter_.running()) return Status::kDeviceRemoved;
  if (adapter_.display_only()) return Status::kNotSupported;
  if (target_ != PowerTarget::kD0) return Status::kInvalidParameter;
  hold();
  adapter_.lane().run([&] { lose(during); });
  return go_down(during).has_value() ? Status::kSuccess : Status::kDeviceRemoved;
}

void Power::hold() {
  adapter_.gate().hold();
  adapter_.lane().run([&] {
    phase_ = Phase::kFalling;
    lost_ = false;
    lost_allocations_ = 0;
    if (adapter_.scheduler_) adapter_.scheduler().set_held(true);
  });
}

Result<PowerOutcome> Power::go_down(PowerTarget target) {
  PowerOutcome outcome;
  if (adapter_.display() != nullptr) adapter_.display()->suspend();
  // Drained: what has its memory runs to its end. The timeout watch bounds it.
  static_cast<void>(adapter_.block_until([&] {
    adapter_.pump();
    return adapter_.scheduler().drained() && settled();
  }));
  if (HwQueues* const queues = adapter_.hw_queues(); queues != nullptr) {
    adapter_.lane().run([&] { queues->all_leave(); });
    static_cast<void>(adapter_.block_until([&] { return lost_ || queues->all_off(); }));
    adapter_.lane().run([&] {
      if (lost_) queues->power_failed();  // who was asked since will not answer either
    });
  }
  Status status = adapter_.running_or_starting() ? purge(target, &outcome) : Status::kDeviceRemoved;
  if (is_success(status)) {
    adapter_.lane().run([&] {
      if (adapter_.runtime_power_ && !adapter_.failed_)
        adapter_.runtime_power_->begin_device_transition();
    });
    static_cast<void>(adapter_.block_until([&] {
      return lost_ || adapter_.runtime_power_ == nullptr || adapter_.runtime_power_->settled();
    }));
  }
  if (is_success(status) && !enter_low_power(target)) status = Status::kDeviceRemoved;
  if (!is_success(status)) {
    if (adapter_.running_or_starting()) restore();
    static_cast<void>(release());
    return Error(status);
  }
  target_ = target;
  adapter_.lane().run([&] {
    outcome.lost = lost_allocations_;
    for (const vidmm::SegmentDesc& segment : adapter_.memory().segments())
      outcome.kept += adapter_.memory().usage(segment.id).allocations;
  });
  return outcome;
}

Status Power::purge(PowerTarget target, PowerOutcome* outcome) {
  // Paging buffers of an aperture that forgets serve from system memory meanwhile.
  const uint32_t of_buffers = adapter_.segment_infos_.paging_buffer_segment;
  if (of_buffers != 0 && kept(SegmentId{of_buffers}, target) != UINT64_MAX)
    adapter_.unmap_paging_buffers();
  Status status = Status::kSuccess;
  adapter_.lane().run([&] {
    if (adapter_.failed_ || lost_) return;
    if (adapter_.residency_) adapter_.residency_->let_all_go();  // work takes them back afterwards
    vidmm::MemoryManager& memory = adapter_.memory();
    for (Device* device : adapter_.devices()) {
      for (OpenedAllocation* opened : device->openings) {
        if (opened->allocation == nullptr || opened->closing) continue;
        const AllocationId id = opened->allocation->id;
        const vidmm::Placement place = memory.placement(id);
        if (place.segment == kSystemMemory) continue;
        const vidmm::SegmentDesc& segment = memory.segments()[place.segment.value - 1];
        const uint64_t locks = memory.lock_count(id);
        if (locks == 0 || segment.kind != vidmm::SegmentKind::kMemory) continue;
        if (place.offset_bytes + opened->allocation->size_bytes <= kept(segment.id, target))
          continue;
        moved_.push_back({id, static_cast<uint32_t>(locks), segment.cpu_visible});
        for (uint64_t i = 0; i < locks; ++i) DXGKIT_CHECK(memory.unlock(id));
      }
    }
    adapter_.paging().set_context(nullptr);  // PWR-09
    for (const vidmm::SegmentDesc& segment : memory.segments()) {
      const uint64_t kept_here = kept(segment.id, target);
      if (kept_here == UINT64_MAX) continue;  // PWR-08
      Result<std::vector<vidmm::PagingOp>> operations = memory.purge(segment.id, kept_here);
      if (!operations.has_value()) {
        status = operations.error();
        break;
      }
      for (const vidmm::PagingOp& op : *operations) {
        const bool carries = op.kind == vidmm::PagingOp::Kind::kTransferOut;
        (carries ? outcome->written_back : outcome->dropped) += 1;
        if (carries) outcome->bytes_written_back += op.size_bytes;
      }
      adapter_.paging().enqueue(*operations, nullptr);
    }
    adapter_.pump();
  });
  const bool idle = adapter_.block_until([&] { return settled(); });
  adapter_.lane().run([&] {
    if (adapter_.failed_) return;
    adapter_.paging().set_context(adapter_.system_context_);
    for (const Moved& moved : moved_) {
      for (uint32_t i = 0; i < moved.locks; ++i) adapter_.memory().lock(moved.allocation);
      show(moved);
    }
  });
  return idle ? status : Status::kDeviceRemoved;
}

/// The addresses that Lock2 gave out show where the content is now.
void Power::show(const Moved& moved) {
  const Allocation& allocation = adapter_.allocations().at(moved.allocation);
  const vidmm::Placement place = adapter_.memory().placement(moved.allocation);
  if (place.segment == kSystemMemory) adapter_.memory().mark_cpu_written(moved.allocation);
  for (OpenedAllocation* opened : allocation.opened) adapter_.cpu_windows().follow(*opened, place);
}

bool Power::enter_low_power(PowerTarget target) {
  adapter_.port().levels().enter_level_two();
  level_three_ = true;
  bool done = false;
  static_cast<void>(adapter_.block_until([&] {
    if (adapter_.failed_) return true;
    if (!adapter_.scheduler().drained() || !settled()) return false;
    phase_ = Phase::kAsleep;
    level_target_ = target;
    adapter_.paging().pause();
    adapter_.context_allocations().hardware_was_reset();
    if (adapter_.runtime_power_) adapter_.runtime_power_->device_off();
    const port::PowerState state = device_state(target);
    if (adapter_.display() != nullptr) {
      for (const port::ChildInfo& child : adapter_.display()->children())
        static_cast<void>(
            adapter_.port().power().set_power_state(child.uid, state, action_of(target)));
    }
    static_cast<void>(adapter_.port().power().set_power_state({}, state, action_of(target)));
    adapter_.function().set_power(platform_power(target));
    note_state(kStateAsleep);
    done = true;
    return true;
  }));
  return done && adapter_.running_or_starting();
}

Status Power::wake() {
  if (!adapter_.function().present()) return Status::kDeviceRemoved;
  adapter_.lane().run([&] {
    if (adapter_.failed_) return;
    phase_ = Phase::kRising;
    lost_ = false;  // from here on paging goes to living hardware
    adapter_.function().set_power(bus::FunctionPower::kOn);
    static_cast<void>(adapter_.port().power().set_power_state({}, port::PowerState::kD0));
    if (adapter_.display() != nullptr) {
      for (const port::ChildInfo& child : adapter_.display()->children())
        static_cast<void>(
            adapter_.port().power().set_power_state(child.uid, port::PowerState::kD0));
    }
    if (adapter_.runtime_power_) adapter_.runtime_power_->end_device_transition();
    if (adapter_.gpu_va() != nullptr) adapter_.gpu_va()->rebuild();
    adapter_.paging().resume();
  });
  adapter_.port().levels().leave_level_two();
  level_three_ = false;
  restore();
  if (!release()) {
    // Power failed meanwhile. Down again, the way it went before; clients still wait.
    if (adapter_.display() != nullptr) adapter_.display()->suspend();
    if (enter_low_power(target_)) return Status::kRetry;
    adapter_.lane().run([&] { lost_ = false; });
    static_cast<void>(release());
  }
  target_ = PowerTarget::kD0;
  return adapter_.running_or_starting() ? Status::kSuccess : Status::kDeviceRemoved;
}

void Power::restore() {
  // PWR-10: what paging itself needs, then what somebody looks at; the rest comes as it is used.
  if (adapter_.segment_infos_.paging_buffer_segment != 0 && adapter_.paging_buffers_.empty())
    static_cast<void>(adapter_.map_paging_buffers());
  std::vector<Moved> back;
  adapter_.lane().run([&] {
    if (adapter_.failed_ || lost_) return;
    vidmm::MemoryManager& memory = adapter_.memory();
    for (const Moved& moved : moved_) {
      // Through another window than the segment's own it was locked where it could be seen; in
      // system memory it can be, too.
      if (!moved.window) continue;
      const uint32_t locks = memory.lock_count(moved.allocation);
      for (uint32_t i = 0; i < locks; ++i) DXGKIT_CHECK(memory.unlock(moved.allocation));
      const vidmm::Use use{moved.allocation, true};
      const auto plan = memory.make_resident(std::span(&use, 1));
      back.push_back({moved.allocation, locks, true});
      if (!plan.has_value()) continue;  // it stays in system memory, as if it was locked there
      adapter_.paging().enqueue(plan->operations, nullptr);
      memory.release(std::span(&use, 1));
    }
    adapter_.pump();
  });
  static_cast<void>(adapter_.block_until([&] { return settled(); }));
  adapter_.lane().run([&] {
    if (adapter_.failed_) return;
    for (const Moved& moved : back) {
      if (!adapter_.allocations().contains(moved.allocation))
        continue;  // its owner ended meanwhile
      const Allocation& allocation = adapter_.allocations().at(moved.allocation);
      if (allocation.forgotten) continue;
      for (const OpenedAllocation* opened : allocation.opened) {
        for (uint32_t i = 0; i < opened->locks; ++i) adapter_.memory().lock(moved.allocation);
      }
      show(moved);
    }
    if (!lost_) moved_.clear();
  });
  bool lost = false;
  adapter_.lane().run([&] { lost = lost_; });
  if (adapter_.display() != nullptr && !lost) adapter_.display()->wake();
}

// What waits for power is not under way.
bool Power::settled() const { return lost_ || adapter_.paging().idle(); }

bool Power::release() {
  if (level_three_) adapter_.port().levels().leave_level_two();
  level_three_ = false;
  bool off = false;
  adapter_.lane().run([&] {
    off = phase_ == Phase::kRising && lost_ && !adapter_.failed_;
    if (off) return;
    phase_ = Phase::kAwake;
    level_target_ = PowerTarget::kD0;
    lost_ = false;
    if (adapter_.failed_) return;
    note_state(1);
    moved_.clear();
    adapter_.paging().resume();
    if (adapter_.hw_queues() != nullptr) adapter_.hw_queues()->all_come_back();
    adapter_.scheduler().set_held(false);
    adapter_.pump();
    adapter_.progress();
  });
  if (!off) adapter_.gate().release();
  return !off;
}

void Power::exclude(bool evict, const std::function<void(Status)>& call) {
  const runtime::MutexLock lock(mutex_);
  if (stopping_ || !adapter_.running()) return call(Status::kDeviceRemoved);
  // Asleep nobody uses it, but there is no hardware either.
  if (target_ != PowerTarget::kD0) return call(Status::kUnsuccessful);
  port::AdapterPort& port = adapter_.port();
  if (adapter_.display_only()) {
    adapter_.gate().hold();
    port.levels().enter_level_two();
    call(Status::kSuccess);
    port.levels().leave_level_two();
    adapter_.gate().release();
    return;
  }
  hold();
  // A power failure waits for the end of it.
  adapter_.lane().run([&] { phase_ = Phase::kExcluding; });
  Display* const display = evict ? adapter_.display() : nullptr;
  if (display != nullptr) display->suspend();
  static_cast<void>(adapter_.block_until([&] {
    adapter_.pump();
    return adapter_.scheduler().drained() && settled();
  }));
  if (HwQueues* const queues = adapter_.hw_queues(); queues != nullptr) {
    adapter_.lane().run([&] { queues->all_leave(); });
    static_cast<void>(adapter_.block_until([&] { return queues->all_off(); }));
  }
  Status status = adapter_.running_or_starting() ? Status::kSuccess : Status::kDeviceRemoved;
  if (evict && is_success(status)) {
    adapter_.lane().run([&] { evicting_ = true; });
    PowerOutcome outcome;
    status = purge(PowerTarget::kD3, &outcome);
  }
  bool told = false;
  if (is_success(status)) {
    port.levels().enter_level_two();
    level_three_ = true;
    static_cast<void>(adapter_.block_until([&] {
      if (adapter_.failed_) return true;
      if (!adapter_.scheduler().drained() || !settled()) return false;
      told = true;
      call(Status::kSuccess);
      return true;
    }));
    port.levels().leave_level_two();
    level_three_ = false;
    if (!told) status = Status::kDeviceRemoved;
  }
  adapter_.lane().run([&] { evicting_ = false; });
  if (!told) call(status);
  if (evict && adapter_.running_or_starting()) restore();
  static_cast<void>(release());
}

void Power::lose(PowerTarget during) {
  if (adapter_.failed_) return;
  adapter_.drain_reports();  // what was reported in time has happened
  if (adapter_.failed_) return;
  lost_ = true;
  // What is told below queues more of it, and nothing of that may reach the hardware any more.
  adapter_.paging().pause();
  for (Device* device : adapter_.devices()) {
    const bool caught = std::ranges::any_of(device->contexts, [&](Context* context) {
      return adapter_.scheduler().holds_memory(context->id());
    });
    if (caught) device->set_error(DeviceState::kReset);
  }
  std::vector<std::function<void()>> waited = adapter_.paging().abandon();
  if (adapter_.hw_queues() != nullptr) adapter_.hw_queues()->power_failed();
  adapter_.scheduler().abandon_hardware();
  adapter_.context_allocations().hardware_was_reset();
  if (adapter_.residency_) adapter_.residency_->let_all_go();
  // Packets that ended let go of memory, and that planned more with what is lost now.
  std::ranges::move(adapter_.paging().abandon(), std::back_inserter(waited));
  const std::vector<AllocationId> lost =
      adapter_.memory().lose_power([&](SegmentId segment) { return kept(segment, during); });
  lost_allocations_ += lost.size();
  for (const AllocationId id : lost) {
    for (OpenedAllocation* opened : adapter_.allocations().at(id).opened)
      opened->device->set_error(DeviceState::kReset);
    adapter_.context_allocations().content_lost(id);
  }
  for (const std::function<void()>& done : waited) done();
  adapter_.paging().pause();
  const uint32_t of_buffers = adapter_.segment_infos_.paging_buffer_segment;
  if (of_buffers != 0 && kept(SegmentId{of_buffers}, during) != UINT64_MAX) drop_paging_buffers();
  show_locked();
}

void Power::show_locked() {
  for (Device* device : adapter_.devices()) {
    for (OpenedAllocation* opened : device->openings) {
      if (opened->allocation != nullptr && opened->locks != 0)
        show({opened->allocation->id, opened->locks, true});
    }
  }
}

void Power::drop_paging_buffers() {
  for (size_t i = 0; i < adapter_.paging_buffers_.size(); ++i) {
    adapter_.paging().move_buffer(i, vidmm::Placement{});
    const vidmm::Use use{adapter_.paging_buffers_[i], false};
    adapter_.memory().release(std::span(&use, 1));
    adapter_.free_internal(adapter_.allocations().at(adapter_.paging_buffers_[i]));
  }
  adapter_.paging_buffers_.clear();
}

void Power::before_stop() {
  const runtime::MutexLock lock(mutex_);
  stopping_ = true;
  if (target_ == PowerTarget::kD0 || adapter_.display_only()) return;
  while (adapter_.running_or_starting() && wake() == Status::kRetry) {
  }
  if (target_ == PowerTarget::kD0) return;
  target_ = PowerTarget::kD0;
  static_cast<void>(release());
}

}  // namespace dxgkit::dxgk
