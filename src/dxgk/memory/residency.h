// Explicit residency (WDDM 2.0 on): lists of devices, who gives way under pressure, budgets.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "dxgk/core/object.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/paging_queue.h"
#include "dxgk/memory/trim.h"
#include "dxgk/work/packet.h"
#include "runtime/thread_annotations.h"
#include "vidmm/residency_set.h"
#include "vidmm/types.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

class Adapter;
class AdapterCore;
class Context;
class Device;
class Process;

/// The two groups budgets are kept for (RES-20); values as clients name them.
enum class SegmentGroup : uint32_t { kLocal = 0, kNonLocal = 1 };
inline constexpr size_t kSegmentGroups = 2;

struct MakeResidentFlags {
  bool cant_trim_further = false, must_succeed = false;
};
struct EvictFlags {
  bool only_if_necessary = false, not_written_to = false;
};
struct MakeResidentOutcome {
  uint64_t fence = 0;          // of the paging queue; 0: usable now (RES-06)
  uint64_t bytes_to_trim = 0;  // RES-17; of a refusal: the overshoot
};

/// D3DKMT_QUERYVIDEOMEMORYINFO, bytes.
struct VideoMemoryInfo {
  uint64_t budget = 0, usage = 0, reservation = 0, available_for_reservation = 0;
};

/// Lane. What of a device's memory is where in its life.
struct DeviceResidency {
  explicit DeviceResidency(vidmm::MemoryManager& memory) : set(memory) {}

  vidmm::ResidencySet set;
  uint32_t in_flight = 0;     // packets that hold the set: prepared, not retired
  uint32_t paging = 0;        // batches of paging operations under way for the set
  uint64_t last_use = 0;      // order among devices: the least recently used gives way first
  uint64_t noted_use = 0;     // the last that its allocations\' own order knows of
  uint64_t last_request = 0;  // number of the last MakeResident that had to wait for room
  // A list of so many did not fit beside its page tables with nothing else going on, as of then.
  size_t too_many = SIZE_MAX;
  uint64_t too_many_as_of = 0;
  uint32_t too_many_times = 0;  // in a row; what one attempt pushes out is room for the next

  /// Work queued between two evictions. What an eviction takes off the list leaves when no packet
  /// of its epoch or an earlier one is left (RES-16).
  struct Epoch {
    uint64_t packets = 0;
    std::vector<Ref<OpenedAllocation>> leaving;
  };
  std::deque<Epoch> epochs{1};
  uint64_t first_epoch = 0;
  uint64_t current_epoch() const DXGKIT_REQUIRES(on_lane) {
    return first_epoch + epochs.size() - 1;
  }
};

/// Lane: the adapter's, except where a call says otherwise.
///
/// A MakeResident is done as soon as its device's whole list has places: at once, after paging, or,
/// while memory is held by work in flight, when that has retired. A list that does not fit beside
/// page tables that have grown since, with nobody else left to give way, puts its device in error.
/// Whoever needs room takes it from lists without work in flight: first those of processes over
/// their budget, then all, in the order they were last used; which of their allocations leave is
/// the memory manager's choice (RES-22). Scheduling a packet of a device whose list is held costs
/// O(1).
class Residency {
 public:
  explicit Residency(Adapter& adapter);
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) DXGKIT_REQUIRES(on_lane) = delete;

  // --- devices and processes ---
  void device_created(Device& device) DXGKIT_REQUIRES(on_lane);
  /// The device is lost or about to go: its requests end, its counts are dropped (RES-30). What
  /// work in flight uses stays until that has retired.
  void device_lost(Device& device) DXGKIT_REQUIRES(on_lane);
  /// After the last thing of the device has gone.
  void device_destroyed(Device& device) DXGKIT_REQUIRES(on_lane);
  /// The client destroys the allocation: off the list when no queued work is left that may use it.
  void forget(OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane);

  // --- the client's calls ---
  /// RES-01, RES-05..08, RES-11..13. kSuccess: usable now; kPending: once the queue's fence passes
  /// outcome->fence; kNoMemory: nothing changed but the device, which a MustSucceed request leaves
  /// in error; kInvalidParameter: a foreign or closing allocation; kDeviceRemoved.
  /// kInvalidParameter and kDeviceRemoved leave *outcome alone.
  Status make_resident(PagingQueue& queue, std::span<const Ref<OpenedAllocation>> openings,
                       const MakeResidentFlags& flags, MakeResidentOutcome* outcome)
      DXGKIT_REQUIRES(on_lane);
  /// RES-08, RES-09, RES-14..17. kInvalidParameter, nothing changed: a foreign or closing
  /// allocation, or more evictions than counts.
  Status evict(Device& device, std::span<const Ref<OpenedAllocation>> openings,
               const EvictFlags& flags, uint64_t* bytes_to_trim) DXGKIT_REQUIRES(on_lane);

  /// What of `update` says something new of the allocation (THUNK-33).
  port::PropertyUpdate news_of(const OpenedAllocation& opened, const port::PropertyUpdate& update)
      DXGKIT_REQUIRES(on_lane);
  /// Changes what the client may change of an allocation; the driver has agreed. What is in a
  /// segment it may not be in any more leaves it: `*fence` of the queue (0: at once). The next work
  /// of who lists it brings it back. kInvalidParameter: the preference is no part of the set, or no
  /// segment of it can hold the size; kGraphicsAllocationBusy: it would have to leave, and work in
  /// flight or the CPU uses it. Nothing changed then (RES-32).
  Status update_properties(PagingQueue& queue, OpenedAllocation& opened,
                           const port::PropertyUpdate& update, uint64_t* fence)
      DXGKIT_REQUIRES(on_lane);

  // --- budgets: residency_budget.cpp ---
  VideoMemoryInfo video_memory_info(const Process& process, SegmentGroup group)
      DXGKIT_REQUIRES(on_lane);
  /// kInvalidParameter: more than is available (THUNK-36), or a process without device here.
  Status reserve(const Process& process, SegmentGroup group, uint64_t bytes)
      DXGKIT_REQUIRES(on_lane);
  /// How far the process is over its budgets, both groups together; 0 when within (RES-17).
  uint64_t bytes_to_trim(const Process& process) DXGKIT_REQUIRES(on_lane);
  /// Ends periodic trimming. Not on the lane.
  void stop_periodic_trim();
  /// Registrations; its own locking, any thread.
  TrimNotifier& trim() { return trim_; }

  // --- scheduling ---
  /// A render packet is about to be queued.
  void packet_queued(Device& device, Packet& packet) DXGKIT_REQUIRES(on_lane);
  /// `rest` runs behind `packet`, and is as old: what leaves the list behind one waits for both.
  void packet_split(const Packet& packet, Packet& rest) DXGKIT_REQUIRES(on_lane);
  /// Everything its device lists is placed and held for the packet from here on. kReady; kWaiting:
  /// after what is queued for paging; kBusy: suspended, asked again after retirements (RES-03).
  vidsch::EnginePort::Prepare acquire(Packet& packet) DXGKIT_REQUIRES(on_lane);
  /// Undoes acquire for a packet that could not be prepared for other reasons.
  void give_back(Packet& packet) DXGKIT_REQUIRES(on_lane);
  /// A packet that packet_queued has seen left the scheduler.
  void packet_retired(Device& device, Packet& packet) DXGKIT_REQUIRES(on_lane);
  /// The same for what the CPU held: advance() may find room now.
  void room_changed() DXGKIT_REQUIRES(on_lane) { ++changes_; }
  /// Something was freed or unpinned: requests that wait for room are tried again.
  void advance() DXGKIT_REQUIRES(on_lane);
  bool anybody_waits() const DXGKIT_REQUIRES(on_lane) { return !blocked_.empty(); }
  /// Paging may be over: packets that wait for that are asked again. O(1).
  void look_when_quiet() DXGKIT_REQUIRES(on_lane);

  // --- for others who need memory ---
  /// MemoryManager::make_resident, with idle lists giving way.
  std::expected<vidmm::ResidencyPlan, vidmm::ResidencyFailure> make_resident(
      std::span<const vidmm::Use> uses) DXGKIT_REQUIRES(on_lane);
  /// Idle lists with this allocation on them let go, so that it may move. False: none did.
  bool let_go(const Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  /// Packets were queued while the allocation was on its device's list, or was to come on it when
  /// there is room, and are not retired.
  bool has_work_with(const OpenedAllocation& opened) const DXGKIT_REQUIRES(on_lane);
  /// Nothing on the GPU, and nothing queued for it, uses the allocation.
  bool is_idle(const Allocation& allocation) const DXGKIT_REQUIRES(on_lane);
  /// All idle lists let go.
  void let_all_go() DXGKIT_REQUIRES(on_lane);

 private:
  /// One allocation of a MakeResident.
  struct Wanted {
    Ref<OpenedAllocation> opened;
    bool first = false;    // it comes on the list here, counted or not before
    bool evicted = false;  // since: only work queued before, up to epoch `until`, needs it
    uint64_t until = 0;
  };
  /// A MakeResident that waits for room.
  struct Request {
    Ref<PagingQueue> queue;
    uint64_t value = 0;   // of the queue's fence
    uint64_t number = 0;  // order of all
    std::vector<Wanted> wanted;
    uint32_t refusals = 0;
    bool hopeless = false;  // refused with nothing in flight: locks or pins are in the way
  };
  struct Charge {
    uint32_t count = 0;  // listings in the process
    uint64_t bytes = 0;
    SegmentGroup group = SegmentGroup::kLocal;
  };
  struct GroupMemory {
    uint64_t usage = 0, reservation = 0;
  };
  struct ProcessMemory {
    Process* process = nullptr;
    uint32_t devices = 0;
    std::array<GroupMemory, kSegmentGroups> groups;
    std::map<AllocationId, Charge> charges;
    uint64_t notified = 0;  // bytes over budget it was last told of
    bool periodic = false;  // told to trim in every period it works in
    bool worked = false;    // since it was last told
  };
  enum class Demote { kNone, kOverBudget, kAll };

  static DeviceResidency& of(Device& device);
  Status check(Device& device, std::span<const Ref<OpenedAllocation>> openings) const
      DXGKIT_REQUIRES(on_lane);
  /// Whether what the device counts fits into the segments, beside its page tables and those that
  /// stay. Cost: O(its allocations and mappings).
  bool fits_alone(Device& device) const DXGKIT_REQUIRES(on_lane);
  /// Lists what is still wanted and holds the set; off the list again if that fails.
  std::expected<vidmm::ResidencySet::Held, Status> list(Device& device,
                                                        std::span<const Wanted> wanted)
      DXGKIT_REQUIRES(on_lane);
  bool still_wanted(const Device& device, const Wanted& one) const DXGKIT_REQUIRES(on_lane);
  /// An earlier request of the device waits that must not be overtaken: it might never fit then.
  bool must_queue(const Request& request) DXGKIT_REQUIRES(on_lane);
  bool tables_are_away(Device& device) const DXGKIT_REQUIRES(on_lane);
  /// The device's list does not fit beside its tables: it is in error if that stays so.
  void give_up_later(Device& device) DXGKIT_REQUIRES(on_lane);
  void give_up(Device& device) DXGKIT_REQUIRES(on_lane);
  /// Holds the set, with others giving way if need be.
  std::expected<vidmm::ResidencySet::Held, Status> hold(Device& device) DXGKIT_REQUIRES(on_lane);
  /// Executes what holding planned; `then` (may be empty) runs when it is done.
  void page(Device& device, const vidmm::ResidencySet::Held& held, std::function<void()> then)
      DXGKIT_REQUIRES(on_lane);
  /// Idle lists of others let go, least recently used first. False: there was none.
  bool demote(Demote whom, const Device* but) DXGKIT_REQUIRES(on_lane);
  bool over_budget(const Device& device) DXGKIT_REQUIRES(on_lane);
  static void let_go(DeviceResidency& idle);
  /// Whoever else has it on its list may have written it.
  static bool listed_by_others(const OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane);
  void leave(OpenedAllocation& opened, bool lazily) DXGKIT_REQUIRES(on_lane);
  void leave_now(OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane);
  void close_epochs(Device& device) DXGKIT_REQUIRES(on_lane);

  // residency_budget.cpp
  void describe_groups() DXGKIT_REQUIRES(on_lane);
  uint64_t bytes_of(AllocationId id) const DXGKIT_REQUIRES(on_lane);
  SegmentGroup group_of(SegmentId segment) const DXGKIT_REQUIRES(on_lane);
  /// Where listing it counts: the first group it may live in that has room in the budget, else the
  /// first.
  SegmentGroup likely_group(AllocationId id, const std::array<bool, kSegmentGroups>& full) const
      DXGKIT_REQUIRES(on_lane);
  ProcessMemory& memory_of(const Process& process) DXGKIT_REQUIRES(on_lane);
  void charge(ProcessMemory& process, AllocationId id, SegmentGroup group) DXGKIT_REQUIRES(on_lane);
  void uncharge(ProcessMemory& process, AllocationId id) DXGKIT_REQUIRES(on_lane);
  void recharge(ProcessMemory& process, AllocationId id, SegmentGroup group)
      DXGKIT_REQUIRES(on_lane);
  uint64_t budget_of(const ProcessMemory& process, SegmentGroup group) const
      DXGKIT_REQUIRES(on_lane);
  /// For the recording, if there is one.
  void record_budget(const ProcessMemory& process, SegmentGroup group) const
      DXGKIT_REQUIRES(on_lane);
  uint64_t trim_of(const ProcessMemory& process) const DXGKIT_REQUIRES(on_lane);
  /// Bytes the listing would take the process over its budget in a group without room; 0: fine.
  uint64_t overshoot(Device& device, std::span<const Ref<OpenedAllocation>> openings)
      DXGKIT_REQUIRES(on_lane);
  void note_work(Process& process) DXGKIT_REQUIRES(on_lane);
  void trim_periodically() DXGKIT_REQUIRES(on_lane);
  /// Tells processes that are further over budget than they know (RES-18, RES-19).
  void tell_over_budget() DXGKIT_REQUIRES(on_lane);

  Adapter& adapter_;
  AdapterCore& core_;
  bool trying_ = false;                            // what is charged now will be taken back
  std::vector<std::unique_ptr<Request>> blocked_;  // by priority, then number
  std::map<uint32_t, ProcessMemory> processes_;    // by process number
  std::array<uint64_t, kSegmentGroups> totals_{};  // bytes of the groups (SEG-43)
  std::array<uint64_t, kSegmentGroups> used_{};    // sum of all usages
  std::vector<SegmentGroup> groups_;               // by segment id - 1
  uint64_t clock_ = 0;
  bool looks_later_ = false;  // when nothing pages
  uint64_t changes_ = 1;      // counts what may leave more room than there was
  uint64_t last_request_ = 0;
  uint64_t in_flight_ = 0;  // packets that hold a list, of all devices
  bool advancing_ = false;
  TrimNotifier trim_;
  std::unique_ptr<runtime::Timer> periodic_timer_
      DXGKIT_GUARDED_BY(on_lane);  // null: no periodic trimming
  bool periodic_armed_ DXGKIT_GUARDED_BY(on_lane) = false;
};

}  // namespace dxgkit::dxgk
