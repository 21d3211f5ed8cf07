// Budgets: what each process may keep, per segment group, and who is told to trim.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/memory/trim.h"
#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class AdapterCore;
class OpenedAllocation;
class Process;
struct MemoryFloor;

/// The two groups budgets are kept for (RES-20); values as clients name them.
enum class SegmentGroup : uint32_t { kLocal = 0, kNonLocal = 1 };
inline constexpr size_t kSegmentGroups = 2;

/// D3DKMT_QUERYVIDEOMEMORYINFO, bytes.
struct VideoMemoryInfo {
  uint64_t budget = 0, usage = 0, reservation = 0, available_for_reservation = 0;
};

/// The books of who lists how much where, which Residency keeps up to date (ADR 0009).
///
/// Lane: the adapter's, except where a call says otherwise.
class Budgets {
 public:
  explicit Budgets(MemoryFloor& floor) DXGKIT_REQUIRES(on_lane);
  ~Budgets();
  Budgets(const Budgets&) = delete;
  Budgets& operator=(const Budgets&) = delete;

  // --- the client's calls ---
  VideoMemoryInfo video_memory_info(const Process& process, SegmentGroup group)
      DXGKIT_REQUIRES(on_lane);
  /// kInvalidParameter: more than is available (THUNK-36), or a process without device here.
  Status reserve(const Process& process, SegmentGroup group, uint64_t bytes)
      DXGKIT_REQUIRES(on_lane);
  /// The bytes that count in a group (SEG-43), and those of segments that count in none.
  uint64_t total(SegmentGroup group) const DXGKIT_REQUIRES(on_lane) {
    return totals_[static_cast<size_t>(group)];
  }
  uint64_t not_counted() const DXGKIT_REQUIRES(on_lane) { return not_counted_; }
  /// Registrations; its own locking, any thread.
  TrimNotifier& trim() { return trim_; }

  // --- the books ---
  /// A process is known while it has devices.
  void device_created(Process& process) DXGKIT_REQUIRES(on_lane);
  void device_destroyed(const Process& process) DXGKIT_REQUIRES(on_lane);
  /// A device of the process lists the allocation: it counts in the first group it may live in that
  /// has room, else in the first.
  void charge(const Process& process, AllocationId id) DXGKIT_REQUIRES(on_lane);
  void uncharge(const Process& process, AllocationId id) DXGKIT_REQUIRES(on_lane);
  /// It counts where it is now. Nothing happens to what is not charged any more.
  void recharge(const Process& process, AllocationId id, SegmentId segment)
      DXGKIT_REQUIRES(on_lane);
  /// What the allocation counts, in bytes.
  uint64_t bytes_of(AllocationId id) const DXGKIT_REQUIRES(on_lane);
  /// How far the process is over its budgets, both groups together; 0 when within (RES-17).
  uint64_t bytes_to_trim(const Process& process) const DXGKIT_REQUIRES(on_lane);
  /// Bytes the listing would take the process over its budget in a group without room; 0: fine.
  uint64_t overshoot(const Process& process, std::span<const Ref<OpenedAllocation>> openings)
      DXGKIT_REQUIRES(on_lane);
  /// How far the process counts more than a group has; 0: in no group.
  uint64_t beyond_totals(const Process& process) DXGKIT_REQUIRES(on_lane);

  // --- who is told ---
  /// Tells processes that are further over budget than they know (RES-18, RES-19).
  void tell_over_budget() DXGKIT_REQUIRES(on_lane);
  /// The process has queued work: periodic trimming begins, or goes on.
  void note_work(Process& process) DXGKIT_REQUIRES(on_lane);
  /// Ends periodic trimming. Not on the lane.
  void stop_periodic_trim();

 private:
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
  void describe_groups() DXGKIT_REQUIRES(on_lane);
  SegmentGroup group_of(SegmentId segment) const DXGKIT_REQUIRES(on_lane);
  /// Where listing it counts: the first group it may live in that has room in the budget, else the
  /// first.
  SegmentGroup likely_group(AllocationId id, const std::array<bool, kSegmentGroups>& full) const
      DXGKIT_REQUIRES(on_lane);
  ProcessMemory& memory_of(const Process& process) DXGKIT_REQUIRES(on_lane);
  void charge(ProcessMemory& process, AllocationId id, SegmentGroup group) DXGKIT_REQUIRES(on_lane);
  void uncharge(ProcessMemory& process, AllocationId id) DXGKIT_REQUIRES(on_lane);
  uint64_t budget_of(const ProcessMemory& process, SegmentGroup group) const
      DXGKIT_REQUIRES(on_lane);
  /// For the recording, if there is one.
  void record_budget(const ProcessMemory& process, SegmentGroup group) const
      DXGKIT_REQUIRES(on_lane);
  uint64_t trim_of(const ProcessMemory& process) const DXGKIT_REQUIRES(on_lane);
  void trim_periodically() DXGKIT_REQUIRES(on_lane);

  MemoryFloor& floor_;
  AdapterCore& core_;
  bool trying_ DXGKIT_GUARDED_BY(on_lane) = false;  // what is charged now will be taken back
  std::map<uint32_t, ProcessMemory> processes_ DXGKIT_GUARDED_BY(on_lane);  // by process number
  std::array<uint64_t, kSegmentGroups> totals_
      DXGKIT_GUARDED_BY(on_lane){};  // bytes of the groups (SEG-43)
  uint64_t not_counted_ DXGKIT_GUARDED_BY(on_lane) = 0;
  std::array<uint64_t, kSegmentGroups> used_ DXGKIT_GUARDED_BY(on_lane){};  // sum of all usages
  std::vector<SegmentGroup> groups_ DXGKIT_GUARDED_BY(on_lane);             // by segment id - 1
  TrimNotifier trim_;
  std::unique_ptr<runtime::Timer> periodic_timer_
      DXGKIT_GUARDED_BY(on_lane);  // null: no periodic trimming
  bool periodic_armed_ DXGKIT_GUARDED_BY(on_lane) = false;
};

}  // namespace dxgkit::dxgk
