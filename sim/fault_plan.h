// What goes wrong in one world: drawn from its seed, struck at the driver's door and in the
// machine.
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

/// A new kind is a line here, one in kFaultNames, a rate in FaultPlan::draw, and a place that
/// strikes it.
enum class FaultKind : uint8_t {
  kVramFull,            // a process keeps most of video memory locked
  kVramFragmented,      // and lets every second piece of it go
  kBudgetCut,           // processes reserve video memory, and the budgets of others shrink
  kPages,               // a request for system pages finds none
  kPagingRoom,          // the driver is told of less room in the paging buffer, any split point
  kPagingRefused,       // it asks for another paging buffer without looking at this one
  kAllocationBusy,      // it says that the allocation is busy
  kRenderRoom,          // little room in the DMA buffer: several passes
  kRenderFails,         // DxgkDdiRender answers a documented failure
  kRenderLosesDevice,   // and the one that costs the device
  kCreateFails,         // a create entry of the driver answers a documented failure
  kStartFails,          // so does one during the start of the adapter
  kDriverFails,         // an entry that may not fail does, once: the adapter is stopped
  kLostInterrupt,       // the device completes and does not say so
  kDuplicateInterrupt,  // says so twice
  kLateInterrupt,       // says so late
  kStandBy,             // everything is evicted, video memory overwritten, power or reset cycled
  kClientDeath,         // a process ends in the middle of a thunk, or while it waits in one
  kHostileClient,       // wrong handles, wrong numbers, nonsense in command buffers
  kEngineHang,          // an engine stops dead at some packet, paging included
  kLongPacket,          // a packet that does not give way, and ends late, about the reset, or never
  kLateDpc,             // a DPC runs late, others are merged into it
  kResetEngineFails,    // the driver cannot reset one engine: the adapter is reset
  kResetFails,          // nor that: the adapter is stopped
  kFewResets,           // the limits of resets are low, and are reached
  kFutureFence,         // a completion names a fence nobody submitted: the adapter is stopped
  kRemoval,             // the device leaves the bus
  kTimeJump,            // the clock jumps ahead, as behind a machine that was stopped
  kPowerFailure,        // power goes away at work, or in the middle of a way down or up
  kSleepAtWork,         // the adapter goes to sleep under its clients and comes back
  kStorm,               // interrupts without a cause, or for a fence that was told before
  kStarvedDpc,          // a DPC is kept waiting for nearly half of TdrDelay
  kOverrun,             // the driver says it wrote behind the end of a buffer: adapter stopped
  kNoProgress,          // it wants another paging buffer again and again: adapter stopped
  kRegistry,            // values in the registry are of the wrong type or size
  kLockAfterRemoval,    // a client touches what it locked after the adapter has stopped
  kRepeatedFence,       // the driver reports a completion twice
  kMemoryError,         // one packet, paging included, meets memory whose content is lost
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
/// Kinds from here on are drawn from numbers of their own, so that they change nothing about those
/// before them.
inline constexpr FaultKind kFirstLaterKind = FaultKind::kTimeJump;
inline constexpr FaultKind kFirstLatestKind = FaultKind::kMemoryError;

/// A bug on purpose, to prove that the checks see one.
enum class Canary : uint8_t {
  kNone,
  kModelLie,      // the model believes one byte that nobody wrote
  kDropTransfer,  // the driver forgets a transfer into video memory and says it is done
  kLeak,          // a page that nobody gives back
};
inline constexpr std::array<std::string_view, 4> kCanaryNames = {"none", "model_lie",
                                                                 "drop_transfer", "leak"};

/// The longest jump of the clock: a night.
inline constexpr int64_t kJumpMost = int64_t{10} * 3600 * runtime::kSecond;

/// Rates per million opportunities; 0: not in this world.
struct FaultPlan {
  std::array<uint32_t, kFaultKinds> rate{};
  std::array<uint32_t, kFaultKinds> drawn{};  // what it would be if the world had the kind
  uint32_t start_fails_at = 0;                // n-th entry or request for pages during the start
  uint32_t driver_fails_at = 0;               // n-th call of an entry that may not fail
  uint32_t hangs_at = 0;                      // n-th entry of an engine
  uint32_t hangs_on = 0;                      // its node
  uint32_t long_packets = 0;                  // of all clients together, at most
  uint32_t future_fence = 0;                  // the fence that is reported as another
  uint32_t removed_at_us = 0;                 // after the clients began
  uint32_t limit_count = 1;                   // of resets (kFewResets), and within which time
  int64_t limit_time_ns = 0;
  uint32_t overruns_at = 0;      // n-th buffer the driver fills
  uint32_t stuck_at = 0;         // n-th paging operation
  uint32_t time_jumps = 0;       // at most
  uint32_t memory_error_at = 0;  // n-th entry of an engine
  uint32_t memory_error_on = 0;  // its node
  uint32_t power_events = 0;     // of kPowerFailure and kSleepAtWork together, at most
  uint64_t platform_seed = 0;    // when they happen, and how long they last

  static FaultPlan draw(Random& random);
  /// Changes it as somebody wrote: a list, separated by commas, of `none`, `all`, KIND (at the rate
  /// that was drawn), KIND=RATE and -KIND; kinds as in kFaultNames, `-` for a blank if you like.
  /// Taken from left to right. What is wrong with the text, or nothing.
  std::optional<std::string> change(std::string_view text);
  /// What `change` makes this plan of another one's: "none,late-DPC=4000".
  std::string text() const;
  bool has(FaultKind kind) const { return rate[static_cast<size_t>(kind)] != 0; }
  /// Something may take longer than TdrDelay.
  bool has_hangs() const { return has(FaultKind::kEngineHang) || has(FaultKind::kLongPacket); }
};

/// Strikes. One thread at a time: simulation only.
class Faults final : public port::FaultInjector {
 public:
  /// What the machine is made of; see `shape`.
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

  /// Whether the fault strikes now; counted if it does. Never outside Phase::kWorking.
  bool strike(FaultKind kind);
  /// Counts one that struck elsewhere.
  void count(FaultKind kind, uint64_t times = 1) { struck_[static_cast<size_t>(kind)] += times; }
  const std::array<uint64_t, kFaultKinds>& struck() const { return struck_; }
  /// Rises whenever a call may fail because of one: a failure without a rise is a bug.
  uint64_t excuses() const { return excuses_; }
  /// A fault that stops the adapter has struck.
  bool driver_failed() const { return driver_failed_; }
  /// It did elsewhere, by this kind.
  void stopped_by(FaultKind kind);
  /// How far the clock jumps now; 0: it does not.
  int64_t time_jump();
  /// Of the packets of kLongPacket one more may be made.
  bool take_long_packet();
  /// The adapter is reset for other reasons than a timeout: let that be.
  void stand_by(bool now) { standing_by_ = now; }
  /// kStartFails has struck.
  bool start_failed() const { return start_failed_; }
  const FaultPlan& plan() const { return plan_; }

  /// bus::Machine::set_page_fault.
  bool page_fault(uint64_t pages);
  /// What the device model is to do wrong.
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
  /// A kind that stops the adapter: once, at its n-th opportunity.
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
