// The faults of one world: drawn from its seed, injected at the driver's door and in the machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "devices/softgpu/faults.h"
#include "port/fault_injector.h"
#include "runtime/runtime.h"
#include "sim/random.h"

namespace dxgkit::sim {

/// To add a kind, add a line here, one in kFaultNames, a rate in FaultPlan::draw, and a place that
/// injects it.
enum class FaultKind : uint8_t {
  kVramFull,            // a process keeps most of video memory locked
  kVramFragmented,      // and releases every second piece of it
  kBudgetCut,           // processes reserve video memory, and the budgets of others shrink
  kPages,               // a request for system pages finds none
  kPagingRoom,          // the driver is told of less room in the paging buffer, any split point
  kPagingRefused,       // it asks for another paging buffer without using this one
  kAllocationBusy,      // it says that the allocation is busy
  kRenderRoom,          // little room in the DMA buffer: several passes
  kRenderFails,         // DxgkDdiRender answers a documented failure
  kRenderLosesDevice,   // as above, with the failure that costs the device
  kCreateFails,         // a create entry of the driver answers a documented failure
  kStartFails,          // an entry of the adapter's start answers a documented failure
  kDriverFails,         // an entry that may not fail does, once: the adapter is stopped
  kLostInterrupt,       // the device completes and raises no interrupt
  kDuplicateInterrupt,  // the device raises two interrupts
  kLateInterrupt,       // the device raises the interrupt late
  kStandBy,             // everything is evicted, video memory overwritten, power or reset cycled
  kClientDeath,         // a process ends in the middle of a thunk, or while it waits in one
  kHostileClient,       // wrong handles, wrong numbers, nonsense in command buffers
  kEngineHang,          // an engine stops dead at some packet, paging included
  kLongPacket,        // a packet that cannot be preempted, and ends late, near the reset, or never
  kLateDpc,           // a DPC runs late, others are merged into it
  kResetEngineFails,  // the driver cannot reset one engine: the adapter is reset
  kResetFails,        // the driver cannot reset the adapter either: it is stopped
  kFewResets,         // the limits of resets are low, and are reached
  // A completion names a fence that was never submitted: the adapter is stopped.
  kFutureFence,
  kRemoval,       // the device leaves the bus
  kTimeJump,      // the clock jumps ahead, as behind a machine that was stopped
  kPowerFailure,  // power fails at work, or in the middle of a transition down or up
  kSleepAtWork,   // the adapter goes to sleep under its clients and comes back
  kStorm,         // interrupts without a cause, or for a fence that was told before
  kStarvedDpc,    // a DPC is kept waiting for nearly half of TdrDelay
  // The driver claims to have written behind the end of a buffer: adapter stopped.
  kOverrun,
  kNoProgress,        // it wants another paging buffer again and again: adapter stopped
  kRegistry,          // values in the registry are of the wrong type or size
  kLockAfterRemoval,  // a client touches locked memory after the adapter has stopped
  kRepeatedFence,     // the driver reports a completion twice
  kMemoryError,       // one packet, paging included, meets memory whose content is lost
  kCount
};
inline constexpr size_t kFaultKinds = static_cast<size_t>(FaultKind::kCount);
inline constexpr std::array<std::string_view, kFaultKinds> kFaultNames = {
    "VRAM full",       "VRAM fragmented",    "budget cut",
    "no pages",        "paging room",        "paging refused",
    "allocation busy", "render room",        "render fails",
    "device lost",     "create fails",       "start fails",
    "driver fails",    "lost interrupt",     "double interrupt",
    "late interrupt",  "stand-by",           "client death",
    "hostile client",  "engine hang",        "long packet",
    "late DPC",        "engine reset fails", "reset fails",
    "few resets",      "future fence",       "removal",
    "time jump",       "power failure",      "sleep at work",
    "interrupt storm", "starved DPC",        "buffer overrun",
    "no progress",     "registry",           "lock after removal",
    "repeated fence",  "memory error"};
/// Kinds from here on are drawn from other random numbers, so that they do not change the draws of
/// the kinds before them.
inline constexpr FaultKind kFirstLaterKind = FaultKind::kTimeJump;
inline constexpr FaultKind kFirstLatestKind = FaultKind::kMemoryError;

/// A deliberate bug, to prove that the checks see one.
enum class Canary : uint8_t {
  kNone,
  kModelLie,      // the model expects one byte that was never written
  kDropTransfer,  // the driver drops a transfer into video memory and reports it done
  kLeak,          // a page that is never freed
};
inline constexpr std::array<std::string_view, 4> kCanaryNames = {"none", "model_lie",
                                                                 "drop_transfer", "leak"};

/// The longest jump of the clock: a night.
inline constexpr int64_t kJumpMost = int64_t{10} * 3600 * runtime::kSecond;

/// Rates per million opportunities; 0: not in this world.
struct FaultPlan {
  std::array<uint32_t, kFaultKinds> rate{};
  // The rate that would be drawn if the world had the kind.
  std::array<uint32_t, kFaultKinds> drawn{};
  uint32_t start_fails_at = 0;   // n-th entry or request for pages during the start
  uint32_t driver_fails_at = 0;  // n-th call of an entry that may not fail
  uint32_t hangs_at = 0;         // n-th entry of an engine
  uint32_t hangs_on = 0;         // its node
  uint32_t long_packets = 0;     // of all clients together, at most
  uint32_t future_fence = 0;     // the fence that is reported as another
  uint32_t removed_at_us = 0;    // after the clients began
  uint32_t limit_count = 1;      // of resets (kFewResets), and within which time
  int64_t limit_time_ns = 0;
  uint32_t overruns_at = 0;      // n-th buffer the driver fills
  uint32_t stuck_at = 0;         // n-th paging operation
  uint32_t time_jumps = 0;       // at most
  uint32_t memory_error_at = 0;  // n-th entry of an engine
  uint32_t memory_error_on = 0;  // its node
  uint32_t power_events = 0;     // of kPowerFailure and kSleepAtWork together, at most
  uint64_t platform_seed = 0;    // decides when they happen, and how long they last

  static FaultPlan draw(Random& random);
  /// Changes the plan by a text from the user: a list, separated by commas, of `none`, `all`, KIND
  /// (at the rate that was drawn), KIND=RATE and -KIND. Kinds are as in kFaultNames; `-` may stand
  /// for a blank. Read from left to right. Returns the error in the text, or nothing.
  std::optional<std::string> change(std::string_view text);
  /// The text that `change` needs to turn another plan into this one: "none,late-DPC=4000".
  std::string text() const;
  bool has(FaultKind kind) const { return rate[static_cast<size_t>(kind)] != 0; }
  /// True if work may take longer than TdrDelay.
  bool has_hangs() const { return has(FaultKind::kEngineHang) || has(FaultKind::kLongPacket); }
};

/// Injects the faults. One thread at a time: simulation only.
class Faults final : public port::FaultInjector {
 public:
  /// The machine's description; see `shape`.
  struct Sizes {
    uint32_t paging_buffer_bytes = 0;
    uint64_t aperture_bytes = 0;
    int64_t tdr_delay_ns = 0;
  };
  Faults(runtime::Runtime& runtime, const FaultPlan& plan, const Sizes& sizes, uint64_t seed,
         Canary canary);

  enum class Phase { kQuiet, kStarting, kWorking, kHealed };
  void enter(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }
  bool healed() const { return phase_ == Phase::kHealed; }

  /// Decides whether the fault happens now, and counts it if so. Never outside Phase::kWorking.
  bool strike(FaultKind kind);
  /// Counts a fault that happened elsewhere.
  void count(FaultKind kind, uint64_t times = 1) { struck_[static_cast<size_t>(kind)] += times; }
  const std::array<uint64_t, kFaultKinds>& struck() const { return struck_; }
  /// Rises whenever a call may fail because of a fault. A failure without a rise is a bug.
  uint64_t excuses() const { return excuses_; }
  /// True if a fault that stops the adapter has happened.
  bool driver_failed() const { return driver_failed_; }
  /// A fault of this kind happened elsewhere and stops the adapter.
  void stopped_by(FaultKind kind);
  /// The length of the clock's next jump; 0: none.
  int64_t time_jump();
  /// True if one more packet of kLongPacket may be made.
  bool take_long_packet();
  /// The adapter is reset for another reason than a timeout: ignore that.
  void stand_by(bool now) { standing_by_ = now; }
  /// True if kStartFails has happened.
  bool start_failed() const { return start_failed_; }
  const FaultPlan& plan() const { return plan_; }

  /// bus::Machine::set_page_fault.
  bool page_fault(uint64_t pages);
  /// The faults for the device model.
  softgpu::FaultPlan device_plan() const;

  std::optional<Status> before_ddi(std::string_view ddi) override;
  std::optional<Status> before_paging(const port::PagingOperation& operation,
                                      uint32_t buffer_bytes) override;
  uint32_t room(std::string_view ddi, uint32_t bytes) override;
  uint32_t overrun(std::string_view ddi) override;
  bool repeats_report() override { return strike(FaultKind::kRepeatedFence); }
  void shape(port::SegmentsInfo* segments) override;

 private:
  Random& numbers_of(FaultKind kind) { return kind < kFirstLaterKind ? random_ : later_; }
  /// For a kind that stops the adapter: once, at its n-th opportunity.
  bool stops_at(FaultKind kind, uint32_t* opportunities, uint32_t at);
  bool start_fails();
  bool driver_fails();

  runtime::Runtime& runtime_;
  const FaultPlan plan_;
  const Sizes sizes_;
  Random random_, later_;
  const Canary canary_;
  Phase phase_ = Phase::kQuiet;
  std::array<uint64_t, kFaultKinds> struck_{};
  uint64_t excuses_ = 0;
  uint32_t start_calls_ = 0, fatal_calls_ = 0, transfers_ = 0;
  uint32_t full_paging_buffer_ = 0, long_packets_ = 0, time_jumps_ = 0;
  uint32_t buffers_filled_ = 0, paging_calls_ = 0;
  int64_t last_jump_ns_ = 0;
  bool refused_paging_ = false, stuck_ = false;
  bool driver_failed_ = false, start_failed_ = false, standing_by_ = false;
};

}  // namespace dxgkit::sim
