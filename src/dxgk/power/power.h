// An adapter's power: sleep and wake, what segments keep, power that fails, surprise removal.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/core/power_phase.h"
#include "dxgk/power/power_floor.h"
#include "dxgk/power/power_target.h"
#include "port/types.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class AdapterCore;

/// What a segment with these DXGK_SEGMENTFLAGS keeps of its content, in bytes from its start
/// (PWR-05, PWR-06, PWR-11, SEG-32). UINT64_MAX: all of it.
uint64_t kept_bytes(const port::SegmentInfo& segment, PowerTarget target,
                    bool disable_self_refresh_in_s3);

/// The transitions of one adapter.
///
///            hold, drain        purge          SetPowerState(Dx)
///   kAwake ------------> kFalling -----------------------------> kAsleep
///      ^                    | power fails: what is unfinished is lost   |
///      |  release           '------------------------------------------>|
///      '------------- kRising <-----------------------------------------'
///                     restore        SetPowerState(D0)
///
/// From the hold on, clients' calls wait at the gate, level-zero DDIs at the port, and nothing is
/// prepared; those inside a call wait where they are. Asleep the driver is in nobody's call but
/// DxgkDdiQueryAdapterInfo (PWR-15).
///
/// Threads: set, fail and before_stop block and are made by any thread but the lane, one at a time
/// under `mutex_`, which is outermost of all: before Display's.
class Power {
 public:
  explicit Power(PowerFloor& floor);

  Result<PowerOutcome> set(PowerTarget target);
  Status fail(PowerTarget during);
  /// `call` with everybody kept from the adapter: gate held, hardware idle, nobody in the driver,
  /// and with `evict` nothing in a memory segment (IRQL-11). With another status than kSuccess:
  /// that could not be had. Blocks; any thread but the lane; `call` runs on the lane, or on the
  /// caller's thread for a display-only adapter.
  void exclude(bool evict, const std::function<void(Status)>& call);
  /// Whether the segment must hold nothing in this state: the state the adapter goes to or
  /// is in keeps nothing of it.
  bool empties(SegmentId segment) const DXGKIT_REQUIRES(on_lane) {
    return kept(segment, level_target_) == 0;
  }
  /// The adapter is about to stop: wakes it if it sleeps and can wake; no transition follows.
  void before_stop();
  /// What CPUs have locked is shown where it is now.
  void show_locked() DXGKIT_REQUIRES(on_lane);

 private:
  /// An allocation that left a memory segment although a CPU has it locked: it comes back before
  /// anything runs, and the address that Lock2 gave out shows it all the time (ALLOC-40).
  struct Moved {
    AllocationId allocation;
    uint32_t locks = 0;
    bool window = false;  // the segment's own CPU window shows it
  };

  Result<PowerOutcome> set_display_only(PowerTarget target) DXGKIT_REQUIRES(mutex_);
  void hold();
  Result<PowerOutcome> go_down(PowerTarget target) DXGKIT_REQUIRES(mutex_);
  Status wake() DXGKIT_REQUIRES(mutex_);
  /// Frees what is in the way of a purge, and purges until memory that must be empty is. Not on the
  /// lane.
  Status purge(PowerTarget target, PowerOutcome* outcome);
  Status purge_once(PowerTarget target, PowerOutcome* outcome);
  bool emptied(PowerTarget target) const DXGKIT_REQUIRES(on_lane);
  void restore();
  /// Level three, on the lane, with the hardware idle, while the caller holds `mutex_` and waits.
  /// False: the adapter failed.
  bool enter_low_power(PowerTarget target) DXGKIT_NO_THREAD_SAFETY_ANALYSIS;
  /// Awake. False, and nothing released: power failed on the way up.
  bool release() DXGKIT_NO_THREAD_SAFETY_ANALYSIS;
  /// Nothing is being paged. Lane.
  bool settled() const DXGKIT_REQUIRES(on_lane);
  void lose(PowerTarget during) DXGKIT_REQUIRES(on_lane);
  void show(const Moved& moved) DXGKIT_REQUIRES(on_lane);
  uint64_t kept(SegmentId segment, PowerTarget target) const DXGKIT_REQUIRES(on_lane);
  void note_state(uint64_t state) const;

  PowerFloor& floor_;
  AdapterCore& core_;
  runtime::Mutex mutex_;
  PowerTarget target_ DXGKIT_GUARDED_BY(mutex_) = PowerTarget::kD0;
  bool level_three_ DXGKIT_GUARDED_BY(mutex_) = false;  // the port keeps everybody out
  // Lane:
  PowerPhase& state_ DXGKIT_GUARDED_BY(on_lane);
  PowerTarget level_target_ DXGKIT_GUARDED_BY(on_lane) =
      PowerTarget::kD0;                               // of the last way down, until it is over
  bool evicting_ DXGKIT_GUARDED_BY(on_lane) = false;  // an exclusion empties all segments
  uint64_t lost_allocations_ DXGKIT_GUARDED_BY(on_lane) = 0;
  std::vector<Moved> moved_ DXGKIT_GUARDED_BY(on_lane);
};

}  // namespace dxgkit::dxgk
