#include "dxgk/power/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "dxgk/core/segment_flags.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/paging_buffers.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"
#include "dxgk/power/component_power.h"
#include "dxgk/power/powered_display.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/interrupt_reports.h"
#include "dxgk/work/system_objects.h"
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

Power::Power(PowerFloor& floor) : floor_(floor), core_(floor.core), state_(core_.power_phase()) {}

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
  return kept_bytes(core_.segment_infos().segments[segment.value - 1], target,
                    core_.caps().disable_self_refresh_vram_in_s3);
}

void Power::note_state(uint64_t state) const {
  trace::emit(trace::EventKind::kAdapterState, core_.luid().low, state);
}

Result<PowerOutcome> Power::set(PowerTarget target) {
  const runtime::MutexLock lock(mutex_);
  if (!core_.running()) return Error(Status::kDeviceRemoved);
  if (core_.display_only()) return set_display_only(target);
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
  if (floor_.powered_display == nullptr) return Error(Status::kNotSupported);
  if (target == PowerTarget::kD0) core_.function().set_power(bus::FunctionPower::kOn);
  const Status status = floor_.powered_display->set_power(device_state(target), action_of(target));
  if (!is_success(status)) return Error(status);
  target_ = target;
  if (target != PowerTarget::kD0) core_.function().set_power(platform_power(target));
  note_state(target == PowerTarget::kD0 ? 1 : kStateAsleep);
  return PowerOutcome{};
}

Status Power::fail(PowerTarget during) {
  if (during == PowerTarget::kD0) return Status::kInvalidParameter;
  // A transition under way goes on with what is left.
  bool under_way = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.failed()) return;
    under_way =
        state_.phase == PowerPhase::Phase::kFalling || state_.phase == PowerPhase::Phase::kRising;
    if (!under_way) return;
    lose(during);
    core_.progress();
  });
  if (under_way) return Status::kSuccess;
  const runtime::MutexLock lock(mutex_);
  if (!core_.running()) return Status::kDeviceRemoved;
  if (core_.display_only()) return Status::kNotSupported;
  if (target_ != PowerTarget::kD0) return Status::kInvalidParameter;
  hold();
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { lose(during); });
  return go_down(during).has_value() ? Status::kSuccess : Status::kDeviceRemoved;
}

void Power::hold() {
  core_.gate().hold();
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    state_.phase = PowerPhase::Phase::kFalling;
    state_.lost = false;
    lost_allocations_ = 0;
    core_.scheduler().set_held(true);
  });
}

Result<PowerOutcome> Power::go_down(PowerTarget target) {
  PowerOutcome outcome;
  if (floor_.powered_display != nullptr) floor_.powered_display->suspend();
  // Drained: what has its memory runs to its end. The timeout watch bounds it.
  static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    core_.pump();
    return core_.scheduler().drained() && settled();
  }));
  if (HwQueues* const queues = floor_.hw_queues; queues != nullptr) {
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { queues->suspension().all_leave(); });
    static_cast<void>(core_.block_until(
        [&]() DXGKIT_REQUIRES(on_lane) { return state_.lost || queues->suspension().all_off(); }));
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (state_.lost)
        queues->suspension().power_failed();  // who was asked since will not answer either
    });
  }
  Status status = core_.running_or_starting() ? purge(target, &outcome) : Status::kDeviceRemoved;
  if (is_success(status)) {
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (floor_.component_power->components() && !core_.failed())
        floor_.component_power->components()->begin_device_transition();
    });
    static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
      return state_.lost || floor_.component_power->components() == nullptr ||
             floor_.component_power->components()->settled();
    }));
  }
  if (is_success(status) && !enter_low_power(target)) status = Status::kDeviceRemoved;
  if (!is_success(status)) {
    if (core_.running_or_starting()) restore();
    static_cast<void>(release());
    return Error(status);
  }
  target_ = target;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    outcome.lost = lost_allocations_;
    for (const vidmm::SegmentDesc& segment : core_.memory().segments())
      outcome.kept += core_.memory().usage(segment.id).allocations;
  });
  return outcome;
}

Status Power::purge(PowerTarget target, PowerOutcome* outcome) {
  // A reset on the way puts page tables back into memory that is to be empty. Each repetition
  // needs another one, and TDR-05 limits their number.
  for (;;) {
    const uint64_t before = outcome->written_back + outcome->dropped;
    DXGKIT_RETURN_IF_FAILED(purge_once(target, outcome));
    bool done = outcome->written_back + outcome->dropped == before;  // nothing can leave
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      done = done || core_.failed() || state_.lost || emptied(target);
    });
    if (done) return Status::kSuccess;
  }
}

bool Power::emptied(PowerTarget target) const {
  return std::ranges::all_of(
      core_.memory().segments(), [&](const vidmm::SegmentDesc& segment) DXGKIT_REQUIRES(on_lane) {
        return segment.kind != vidmm::SegmentKind::kMemory || kept(segment.id, target) != 0 ||
               core_.memory().usage(segment.id).allocations == 0;
      });
}

Status Power::purge_once(PowerTarget target, PowerOutcome* outcome) {
  // Paging buffers of an aperture that forgets serve from system memory meanwhile.
  const uint32_t of_buffers = core_.segment_infos().paging_buffer_segment;
  bool forgets = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    forgets = of_buffers != 0 && kept(SegmentId{of_buffers}, target) != UINT64_MAX;
  });
  if (forgets) floor_.paging_buffers->unmap();
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.failed() || state_.lost) return;
    floor_.residency->let_all_go();  // work takes them back afterwards
    vidmm::MemoryManager& memory = core_.memory();
    for (Device* device : floor_.devices) {
      for (OpenedAllocation* opened : device->memory().openings) {
        if (opened->closing) continue;
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
    floor_.paging->set_context(nullptr);  // PWR-09
    for (const vidmm::SegmentDesc& segment : memory.segments()) {
      // PWR-08
      Result<std::vector<vidmm::PagingOp>> operations =
          memory.purge(segment.id, kept(segment.id, target));
      if (!operations.has_value()) {
        status = operations.error();
        break;
      }
      for (const vidmm::PagingOp& op : *operations) {
        const bool carries = op.kind == vidmm::PagingOp::Kind::kTransferOut;
        (carries ? outcome->written_back : outcome->dropped) += 1;
        if (carries) outcome->bytes_written_back += op.size_bytes;
      }
      floor_.paging->enqueue(*operations, nullptr);
    }
    core_.pump();
  });
  const bool idle = core_.block_until([&]() DXGKIT_REQUIRES(on_lane) { return settled(); });
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.failed()) return;
    floor_.paging->set_context(floor_.system_objects->context());
    for (const Moved& moved : moved_) {
      for (uint32_t i = 0; i < moved.locks; ++i) core_.memory().lock(moved.allocation);
      show(moved);
    }
  });
  return idle ? status : Status::kDeviceRemoved;
}

/// The addresses that Lock2 gave out show where the content is now.
void Power::show(const Moved& moved) {
  const Allocation& allocation = floor_.allocations.at(moved.allocation);
  const vidmm::Placement place = core_.memory().placement(moved.allocation);
  if (place.segment == kSystemMemory) core_.memory().mark_cpu_written(moved.allocation);
  for (OpenedAllocation* opened : allocation.opened) floor_.cpu_windows->follow(*opened, place);
}

bool Power::enter_low_power(PowerTarget target) {
  core_.port().levels().enter_level_two();
  level_three_ = true;
  bool done = false;
  static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.failed()) return true;
    if (!core_.scheduler().drained() || !settled()) return false;
    state_.phase = PowerPhase::Phase::kAsleep;
    level_target_ = target;
    floor_.paging->pause();
    floor_.context_allocations->hardware_was_reset();
    if (floor_.component_power->components()) floor_.component_power->components()->device_off();
    const port::PowerState state = device_state(target);
    if (floor_.powered_display != nullptr) {
      for (const port::ChildInfo& child : floor_.powered_display->children())
        static_cast<void>(
            core_.port().power().set_power_state(child.uid, state, action_of(target)));
    }
    static_cast<void>(core_.port().power().set_power_state({}, state, action_of(target)));
    core_.function().set_power(platform_power(target));
    note_state(kStateAsleep);
    done = true;
    return true;
  }));
  return done && core_.running_or_starting();
}

Status Power::wake() {
  if (!core_.function().present()) return Status::kDeviceRemoved;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.failed()) return;
    state_.phase = PowerPhase::Phase::kRising;
    state_.lost = false;  // from here on paging goes to living hardware
    core_.function().set_power(bus::FunctionPower::kOn);
    static_cast<void>(core_.port().power().set_power_state({}, port::PowerState::kD0));
    if (floor_.powered_display != nullptr) {
      for (const port::ChildInfo& child : floor_.powered_display->children())
        static_cast<void>(core_.port().power().set_power_state(child.uid, port::PowerState::kD0));
    }
    if (floor_.component_power->components())
      floor_.component_power->components()->end_device_transition();
    if (floor_.gpu_va != nullptr) floor_.gpu_va->rebuild();
    floor_.paging->resume();
  });
  core_.port().levels().leave_level_two();
  level_three_ = false;
  restore();
  if (!release()) {
    // Power failed meanwhile. Down again, the way it went before; clients still wait.
    if (floor_.powered_display != nullptr) floor_.powered_display->suspend();
    if (enter_low_power(target_)) return Status::kRetry;
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { state_.lost = false; });
    static_cast<void>(release());
  }
  target_ = PowerTarget::kD0;
  return core_.running_or_starting() ? Status::kSuccess : Status::kDeviceRemoved;
}

void Power::restore() {
  // PWR-10: what paging itself needs, then what somebody looks at; the rest comes as it is used.
  if (core_.segment_infos().paging_buffer_segment != 0 && floor_.paging_buffers->empty())
    static_cast<void>(floor_.paging_buffers->map());
  std::vector<Moved> back;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.failed() || state_.lost) return;
    vidmm::MemoryManager& memory = core_.memory();
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
      floor_.paging->enqueue(plan->operations, nullptr);
      const vidmm::SegmentDesc& segment =
          memory.segments()[memory.placement(moved.allocation).segment.value - 1];
      const bool hidden = segment.kind == vidmm::SegmentKind::kMemory && !segment.cpu_visible;
      const vidmm::Use seen{moved.allocation, !hidden};
      memory.release(std::span(&seen, 1));
      if (!hidden) continue;
      // There is room now where the CPU does not see it: it goes back to the pages that are shown.
      const auto away = memory.evict(moved.allocation);
      if (away.has_value()) floor_.paging->enqueue(*away, nullptr);
    }
    core_.pump();
  });
  static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) { return settled(); }));
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.failed()) return;
    for (const Moved& moved : back) {
      if (!floor_.allocations.contains(moved.allocation)) continue;  // its owner ended meanwhile
      const Allocation& allocation = floor_.allocations.at(moved.allocation);
      if (allocation.forgotten) continue;
      for (const OpenedAllocation* opened : allocation.opened) {
        for (uint32_t i = 0; i < opened->locks; ++i) core_.memory().lock(moved.allocation);
      }
      show(moved);
    }
    if (!state_.lost) moved_.clear();
  });
  bool lost = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { lost = state_.lost; });
  if (floor_.powered_display != nullptr && !lost) floor_.powered_display->wake();
}

// What waits for power is not under way.
bool Power::settled() const { return state_.lost || floor_.paging->idle(); }

bool Power::release() {
  if (level_three_) core_.port().levels().leave_level_two();
  level_three_ = false;
  bool off = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    off = state_.phase == PowerPhase::Phase::kRising && state_.lost;
    if (off) return;
    state_.phase = PowerPhase::Phase::kAwake;
    level_target_ = PowerTarget::kD0;
    state_.lost = false;
    if (core_.failed()) return;
    note_state(1);
    moved_.clear();
    floor_.paging->resume();
    if (floor_.hw_queues != nullptr) floor_.hw_queues->suspension().all_come_back();
    core_.scheduler().set_held(false);
    core_.pump();
    core_.progress();
  });
  if (!off) core_.gate().release();
  return !off;
}

void Power::exclude(bool evict, const std::function<void(Status)>& call) {
  const runtime::MutexLock lock(mutex_);
  if (!core_.running()) return call(Status::kDeviceRemoved);
  // Asleep nobody uses it, but there is no hardware either.
  if (target_ != PowerTarget::kD0) return call(Status::kUnsuccessful);
  port::AdapterPort& port = core_.port();
  if (core_.display_only()) {
    core_.gate().hold();
    port.levels().enter_level_two();
    call(Status::kSuccess);
    port.levels().leave_level_two();
    core_.gate().release();
    return;
  }
  hold();
  // A power failure waits for the end of it.
  core_.lane().run([&]()
                       DXGKIT_REQUIRES(on_lane) { state_.phase = PowerPhase::Phase::kExcluding; });
  PoweredDisplay* const display = evict ? floor_.powered_display : nullptr;
  if (display != nullptr) display->suspend();
  static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    core_.pump();
    return core_.scheduler().drained() && settled();
  }));
  if (HwQueues* const queues = floor_.hw_queues; queues != nullptr) {
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { queues->suspension().all_leave(); });
    static_cast<void>(core_.block_until(
        [&]() DXGKIT_REQUIRES(on_lane) { return queues->suspension().all_off(); }));
  }
  Status status = core_.running_or_starting() ? Status::kSuccess : Status::kDeviceRemoved;
  if (evict && is_success(status)) {
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { evicting_ = true; });
    PowerOutcome outcome;
    status = purge(PowerTarget::kD3, &outcome);
  }
  bool told = false;
  if (is_success(status)) {
    port.levels().enter_level_two();
    static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
      if (core_.failed()) return true;
      if (!settled()) return false;  // drained as before: nothing was let in since
      told = true;
      call(Status::kSuccess);
      return true;
    }));
    port.levels().leave_level_two();
    if (!told) status = Status::kDeviceRemoved;
  }
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { evicting_ = false; });
  if (!told) call(status);
  if (evict && core_.running_or_starting()) restore();
  static_cast<void>(release());
}

void Power::lose(PowerTarget during) {
  if (core_.failed()) return;
  floor_.reports->drain();  // what was reported in time has happened
  if (core_.failed()) return;
  state_.lost = true;
  // What is told below queues more of it, and nothing of that may reach the hardware any more.
  floor_.paging->pause();
  for (Device* device : floor_.devices) {
    const bool caught =
        std::ranges::any_of(device->contexts, [&](Context* context) DXGKIT_REQUIRES(on_lane) {
          return core_.scheduler().holds_memory(context->id());
        });
    if (caught) device->set_error(DeviceState::kReset);
  }
  std::vector<std::function<void()>> waited = floor_.paging->abandon();
  if (floor_.hw_queues != nullptr) floor_.hw_queues->suspension().power_failed();
  core_.scheduler().abandon_hardware();
  floor_.context_allocations->hardware_was_reset();
  floor_.residency->let_all_go();
  // Packets that ended let go of memory, and that planned more with what is lost now.
  std::ranges::move(floor_.paging->abandon(), std::back_inserter(waited));
  const std::vector<AllocationId> lost = core_.memory().lose_power(
      [&](SegmentId segment) DXGKIT_REQUIRES(on_lane) { return kept(segment, during); });
  lost_allocations_ += lost.size();
  for (const AllocationId id : lost) {
    for (OpenedAllocation* opened : floor_.allocations.at(id).opened)
      opened->device->device().set_error(DeviceState::kReset);
    floor_.context_allocations->content_lost(id);
  }
  for (const std::function<void()>& done : waited) done();
  const uint32_t of_buffers = core_.segment_infos().paging_buffer_segment;
  if (of_buffers != 0 && kept(SegmentId{of_buffers}, during) != UINT64_MAX)
    floor_.paging_buffers->drop();
  show_locked();
}

void Power::show_locked() {
  for (Device* device : floor_.devices) {
    for (OpenedAllocation* opened : device->memory().openings) {
      if (opened->locks != 0) show({opened->allocation->id, opened->locks, true});
    }
  }
}

void Power::before_stop() {
  const runtime::MutexLock lock(mutex_);
  if (target_ == PowerTarget::kD0 || core_.display_only()) return;
  while (core_.running_or_starting() && wake() == Status::kRetry) {
  }
  if (target_ == PowerTarget::kD0) return;
  target_ = PowerTarget::kD0;
  static_cast<void>(release());
}

}  // namespace dxgkit::dxgk
