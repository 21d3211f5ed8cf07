// Explicit residency (WDDM 2.0 on): lists of devices, and who gives way under pressure.
#pragma once

#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dxgk/core/object.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/paging_queue.h"
#include "runtime/thread_annotations.h"
#include "vidmm/residency_set.h"
#include "vidmm/types.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

class AdapterCore;
class Budgets;
class DeviceMemory;
class Process;
struct MemoryFloor;

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

/// Residency state of one device. Lane.
struct DeviceResidency {
  explicit DeviceResidency(vidmm::MemoryManager& memory) : set(memory) {}

  vidmm::ResidencySet set;
  uint32_t in_flight = 0;     // packets that hold the set: prepared, not retired
  uint32_t paging = 0;        // batches of paging operations under way for the set
  uint64_t last_use = 0;      // order among devices: the least recently used gives way first
  uint64_t noted_use = 0;     // the last that its allocations' own order knows of
  uint64_t last_request = 0;  // number of the last MakeResident that had to wait for room
  // A list of so many did not fit beside its page tables with nothing else going on, as of then.
  size_t too_many = SIZE_MAX;
  uint64_t too_many_as_of = 0;
  uint32_t too_many_times = 0;  // in a row; what one attempt pushes out is room for the next
  // A list of so many had no room for its page tables, as of then. To try again would only page.
  size_t no_tables = SIZE_MAX;
  uint64_t no_tables_as_of = 0;

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
  /// What nobody's work uses need not stay. A use since the last time counts for the order in which
  /// allocations leave.
  void let_go() DXGKIT_REQUIRES(on_lane);
};

/// What a packet has to do with its device's list. Lane.
struct PacketResidency {
  uint64_t epoch = 0, request = 0;  // of the list it was queued behind
  bool counts_in_epoch = false, holds_device = false;
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
  /// What page tables and context allocations have to do with lists. Without GPU virtual addresses
  /// no tables are ever away, and nothing of theirs gives way. All on the lane.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// The page tables of the process have been evicted.
    virtual bool tables_are_away(const Process& process) const DXGKIT_REQUIRES(on_lane) = 0;
    /// What a list of the process's device has to fit beside: the rooms of tables that stay, and
    /// the tables the process has, or would have, if they were made anew. Cost: O(mappings).
    struct TableRoom {
      std::vector<vidmm::Use> staying;
      std::vector<vidmm::AllocationDesc> own;
    };
    virtual TableRoom table_room(const Process& process) DXGKIT_REQUIRES(on_lane) = 0;
    /// The page tables of the process may be evicted, so its work can wait until there is room for
    /// them.
    virtual bool tables_give_way(const Process& process) const DXGKIT_REQUIRES(on_lane) = 0;
    /// Work of the process is about to run, so evicted tables are planned again, and those that
    /// were missing. kSoon: what is enqueued in the paging executor from now on runs after the
    /// tables are written.
    enum class Tables { kThere, kSoon, kNoRoom };
    virtual Tables bring_tables(const Process& process) DXGKIT_REQUIRES(on_lane) = 0;
    /// Page tables of idle processes are freed; in the second form, if they are in a segment of
    /// `wanted`. They go last, as all of them have to be written again. False: there were none.
    virtual bool let_tables_go() DXGKIT_REQUIRES(on_lane) = 0;
    virtual bool let_tables_go(vidmm::SegmentSet wanted) DXGKIT_REQUIRES(on_lane) = 0;
    /// Entries that lead to the allocation are queued, and not written yet.
    virtual bool entries_under_way(AllocationId allocation) DXGKIT_REQUIRES(on_lane) = 0;
    /// Saved state of whoever ran last on nodes that are idle may leave (RES-29), and what update
    /// batches wait to map (RES-28). False: there was nothing.
    virtual bool let_idle_go() DXGKIT_REQUIRES(on_lane) = 0;
  };
  Residency(MemoryFloor& floor, Owner& owner, Budgets& budgets);
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) DXGKIT_REQUIRES(on_lane) = delete;

  // --- devices and processes ---
  void device_created(DeviceMemory& device) DXGKIT_REQUIRES(on_lane);
  /// The device is lost or about to go: its requests end, its counts are dropped (RES-30). What
  /// work in flight uses stays until that has retired.
  void device_lost(DeviceMemory& device) DXGKIT_REQUIRES(on_lane);
  /// After the last thing of the device has gone.
  void device_destroyed(DeviceMemory& device) DXGKIT_REQUIRES(on_lane);
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
  Status evict(DeviceMemory& device, std::span<const Ref<OpenedAllocation>> openings,
               const EvictFlags& flags, uint64_t* bytes_to_trim) DXGKIT_REQUIRES(on_lane);

  // --- scheduling ---
  /// A render packet is about to be queued.
  void packet_queued(DeviceMemory& device, PacketResidency& packet) DXGKIT_REQUIRES(on_lane);
  /// `rest` runs behind `packet`, and is as old: what leaves the list behind one waits for both.
  void packet_split(DeviceMemory& device, const PacketResidency& packet, PacketResidency& rest)
      DXGKIT_REQUIRES(on_lane);
  /// Everything its device lists is placed and held for the packet from here on. kReady; kWaiting:
  /// after what is queued for paging; kBusy: suspended, asked again after retirements (RES-03).
  vidsch::EnginePort::Prepare acquire(DeviceMemory& device, PacketResidency& packet)
      DXGKIT_REQUIRES(on_lane);
  /// Undoes acquire for a packet that could not be prepared for other reasons.
  void give_back(DeviceMemory& device, PacketResidency& packet) DXGKIT_REQUIRES(on_lane);
  /// A packet that packet_queued has seen left the scheduler.
  void packet_retired(DeviceMemory& device, PacketResidency& packet) DXGKIT_REQUIRES(on_lane);
  /// The same for what the CPU held: advance() may find room now.
  void room_changed() DXGKIT_REQUIRES(on_lane) { ++changes_; }
  /// Counts what may leave more room than there was: who was refused need not ask before it rises.
  uint64_t room_changes() const DXGKIT_REQUIRES(on_lane) { return changes_; }
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
  bool is_idle(const Allocation& allocation) const DXGKIT_REQUIRES(on_lane) {
    return !any_opening(allocation, &OpenedAllocation::uses);
  }
  /// Nothing on the GPU, and nothing queued for it, may write the allocation.
  bool is_unwritten(const Allocation& allocation) const DXGKIT_REQUIRES(on_lane) {
    return !any_opening(allocation, &OpenedAllocation::writes);
  }
  /// All idle lists let go.
  void let_all_go() DXGKIT_REQUIRES(on_lane);

 private:
  /// Whether `count` of an opening is not 0, or work at virtual addresses may reach it.
  bool any_opening(const Allocation& allocation, uint32_t OpenedAllocation::*count) const
      DXGKIT_REQUIRES(on_lane);

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
  enum class Demote { kNone, kOverBudget, kAll };

  Status check(DeviceMemory& device, std::span<const Ref<OpenedAllocation>> openings) const
      DXGKIT_REQUIRES(on_lane);
  /// Whether what the device counts fits into the segments, beside its page tables and those that
  /// stay. Cost: O(its allocations and mappings).
  bool fits_alone(DeviceMemory& device) const DXGKIT_REQUIRES(on_lane);
  /// Lists what is still wanted and holds the set; off the list again if that fails.
  std::expected<vidmm::ResidencySet::Held, Status> list(DeviceMemory& device,
                                                        std::span<const Wanted> wanted)
      DXGKIT_REQUIRES(on_lane);
  bool still_wanted(const DeviceMemory& device, const Wanted& one) const DXGKIT_REQUIRES(on_lane);
  /// An earlier request of the device waits that must not be overtaken: it might never fit then.
  bool must_queue(const Request& request) DXGKIT_REQUIRES(on_lane);
  /// The device's list does not fit beside its tables: it is in error if that stays so.
  void give_up_later(DeviceMemory& device) DXGKIT_REQUIRES(on_lane);
  void give_up(DeviceMemory& device) DXGKIT_REQUIRES(on_lane);
  /// Holds the set, with others giving way if need be.
  std::expected<vidmm::ResidencySet::Held, Status> hold(DeviceMemory& device)
      DXGKIT_REQUIRES(on_lane);
  /// Executes what holding planned; `then` (may be empty) runs when it is done.
  void page(DeviceMemory& device, const vidmm::ResidencySet::Held& held, std::function<void()> then)
      DXGKIT_REQUIRES(on_lane);
  /// Idle lists of others let go, least recently used first. False: there was none.
  bool demote(Demote whom, const DeviceMemory* but) DXGKIT_REQUIRES(on_lane);
  void leave(OpenedAllocation& opened, bool lazily) DXGKIT_REQUIRES(on_lane);
  void leave_now(OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane);
  void close_epochs(DeviceMemory& device) DXGKIT_REQUIRES(on_lane);

  MemoryFloor& floor_;
  AdapterCore& core_;
  Owner& owner_;
  Budgets& budgets_;
  std::vector<std::unique_ptr<Request>> blocked_;  // by priority, then number
  uint64_t clock_ = 0;
  bool looks_later_ = false;  // when nothing pages
  uint64_t changes_ = 1;      // counts what may leave more room than there was
  uint64_t last_request_ = 0;
  uint64_t in_flight_ = 0;  // packets that hold a list, of all devices
  bool advancing_ = false;
};

}  // namespace dxgkit::dxgk
