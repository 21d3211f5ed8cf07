// The video memory manager: who is where, who may move, and what must be copied for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "vidmm/types.h"

namespace dxgkit::vidmm {

/// One allocation a packet touches.
struct Use {
  AllocationId allocation;
  bool write = false;
};

struct ResidencyPlan {
  std::vector<PagingOp> operations;  // to be executed, in order, before the packet
  std::vector<Placement>
      placements;  // one per Use, in its order; where it will be when the operations are done
};

/// Why a plan cannot be made now.
struct ResidencyFailure {
  Status status;  // kGraphicsAllocationBusy: would fit once pins or CPU locks go, ask again after
                  // one did; kGraphicsNoVideoMemory: does not fit even alone
  size_t first_failed_use;  // index of the first Use that found no place (a packet may be split
                            // before it, REND-21)
};

/// free_bytes counts address space; an aperture's commit limit may allow less. What may not be used
/// (SEG-45) is in size_bytes and in nothing else.
struct SegmentUsage {
  uint64_t size_bytes = 0, committed_bytes = 0, free_bytes = 0, largest_free_bytes = 0;
  size_t allocations = 0;
};

/// The segments of one group that count in budgets, together (SEG-43). size_bytes: what allocations
/// can have there at most; committed_bytes: what they have.
struct GroupUsage {
  uint64_t size_bytes = 0, committed_bytes = 0;
  bool operator==(const GroupUsage&) const = default;
};

/// Whether allocations that never move (`AllocationDesc::pinned`) leave too.
enum class Pinned { kStay, kLeave };

/// What an adapter reset took.
struct LostContent {
  std::vector<AllocationId> allocations;  // ascending
  std::vector<PagingOp> operations;  // tell the driver: one kContentLost for each that was in a
                                     // segment, not for what was on its way out (PAGE-22)
};

/// Counted when planned. Evictions are moves nobody asked for by naming the allocation.
struct Statistics {
  uint64_t evictions = 0, page_ins = 0, page_outs = 0, bytes_in = 0, bytes_out = 0;
  uint64_t clean_drops = 0, aperture_maps = 0, fills = 0;
  uint64_t moves = 0;             // inside a segment, to join what was free (no evictions)
  uint64_t offers_discarded = 0;  // offered content given up under pressure
  // What Switches have changed.
  uint64_t offers_kept = 0, demotions_prevented = 0, compactions_failed = 0;
};

/// Ways to take, or not to take, whatever is better (REND-28).
struct Switches {
  bool keep_offers = false;      // offered content is written back as other content is
  bool no_demotion = false;      // room is made in a preferred segment before another has it, and
                                 // evicted content is not parked in an aperture
  bool fail_compaction = false;  // nothing moves inside a segment
};

/// Lane: the adapter's. Knows no driver and moves no byte: it returns plans, the caller executes
/// them in order and reports each executed operation with `operation_done`.
///
/// State is updated when a plan is made, not when it is executed: placements in the plan are final,
/// because plans execute in the order they were made. "Pinned" allocations (named by a plan whose
/// packet has not been released) never move; CPU-locked ones never change between system memory and
/// a memory segment (they may be mapped through an aperture segment, which moves no content,
/// ALLOC-43). Invariant (`validate`): placements in a segment never overlap, stay inside it,
/// respect alignment; committed bytes and free lists add up; pinned means resident.
class MemoryManager {
 public:
  explicit MemoryManager(std::span<const SegmentDesc> segments);
  ~MemoryManager();
  /// Before the first allocation.
  void set_switches(const Switches& switches);

  // --- allocations ---
  /// Registers an allocation under the caller's id (unused before, its slot too; CHECKed): in
  /// system memory, no content yet. kInvalidParameter: a set names an unknown segment, or no
  /// supported segment could ever hold the size, or size 0, priority 0, a bad alignment; nothing
  /// kept. Offsets (not GPU addresses) are aligned.
  Status create(AllocationId id, const AllocationDesc& desc);
  /// Forgets an allocation that is not pinned, not locked, and has no unexecuted operation, and
  /// returns the operations that free its place (unmap or discard). kGraphicsAllocationBusy
  /// otherwise, state unchanged: ask again later.
  Result<std::vector<PagingOp>> destroy(AllocationId id);
  /// Other sets, preferences and flags from now on; size, alignment, pitch and priority as before
  /// (CHECKed or the caller's duty). It stays where it is: a use finds it a place its sets allow.
  /// kInvalidParameter as for create; nothing changed.
  Status redescribe(AllocationId id, const AllocationDesc& desc);
  /// RES-22. Any value but 0.
  void set_priority(AllocationId id, uint32_t priority);

  /// The content may be given up from now on, if the room is needed: such allocations are victims
  /// before all others (kAuto: by priority) and leave a memory segment without write-back
  /// (ALLOC-47). Again with another priority: that one counts. Not kNone.
  void offer(AllocationId id, OfferPriority priority);
  /// Ends the offer, if any. True: the content was lost since. What comes next fills.
  bool reclaim(AllocationId id);

  // --- residency ---
  /// Finds a place for every use (all or nothing), evicting unpinned others if needed: lowest
  /// priority first, then as EvictionPolicy has learned (least recently used while it knows nothing
  /// else); preferences in order, then the rest of the supported
  /// set by ascending id (ALLOC-10); honours banks and search direction, write uses only in the
  /// write set. Nothing named by `uses` is a victim. Pins every use once per call on success; on
  /// failure nothing changed. Where: free room in any candidate segment comes before evicting in
  /// the first, and room that is there in fragments is joined by moves before anybody is evicted; a
  /// bank hint is for free room only. Victims: candidates in order until a hole is wide enough, of
  /// which only those in the way leave. If that fails although the list fits alone, the segments
  /// are repacked around what may not leave, so kGraphicsAllocationBusy always means that pins,
  /// locks or `AllocationDesc::pinned` neighbours are in the way. With several segments "fits
  /// alone" is decided by a bounded search (packing.h). The operations: first all that leave, then
  /// all that enter. The content assumption: backing pages of an allocation nobody has written are
  /// zeros (they show through apertures). Cost: O(uses + victims) placements, the last resort
  /// O(allocations in the segments).
  std::expected<ResidencyPlan, ResidencyFailure> make_resident(std::span<const Use> uses);
  /// make_resident for the usual case, without making a plan: everything is where it may stay and
  /// nothing is under way. False, nothing changed: ask make_resident. Each allocation once.
  bool pin_resident(std::span<const Use> uses);
  /// Whether the list would fit with nobody else there, as make_resident decides it; `besides`:
  /// what does not exist yet and would have to fit with it.
  bool fits_alone(std::span<const Use> uses, std::span<const AllocationDesc> besides = {}) const;
  /// The packet is done with the allocations of its plan: drops one pin each and, for writes, marks
  /// content dirty (which make_resident already assumed).
  void release(std::span<const Use> uses);
  /// Pins once more what is pinned already; release() as for a plan. No policy hears of it.
  void pin(std::span<const Use> uses);
  /// Plans to move one unpinned, unlocked allocation out of its segment, straight to its backing
  /// pages, whatever its eviction set says. kGraphicsAllocationBusy if it may not move now. Empty
  /// for one in system memory.
  Result<std::vector<PagingOp>> evict(AllocationId id);
  /// Plans to empty a segment (stop, power). kGraphicsAllocationBusy if any of it may not move;
  /// state unchanged then.
  Result<std::vector<PagingOp>> evict_segment(SegmentId segment, Pinned pinned = Pinned::kStay);
  /// Power: plans to move out of a segment what does not lie wholly in its first `kept_bytes`
  /// (SEG-33), lowest offsets first, AllocationDesc::pinned notwithstanding. Offered content is
  /// given up, as under pressure (PWR-07). kGraphicsAllocationBusy, state unchanged: something of
  /// it is pinned or locked.
  Result<std::vector<PagingOp>> purge(SegmentId segment, uint64_t kept_bytes);
  /// Power went away in the middle of things: operations not reported done never will be, and each
  /// segment has kept `kept_bytes(segment)` from its start. What lies there and has no unfinished
  /// operation stays; all else is in system memory now, pins and locks notwithstanding. Returns the
  /// ids whose content is lost (the next page-in fills), in ascending order: dirty there, or on
  /// the way out in an unfinished operation. Offered content counts as discarded instead.
  std::vector<AllocationId> lose_power(const std::function<uint64_t(SegmentId)>& kept_bytes);
  /// The executor reports each operation of each plan, in order, when its effect is complete (or
  /// abandoned, after a reset). Reports for allocations destroyed meanwhile are for the trace only.
  void operation_done(const PagingOp& op);
  /// An adapter reset lost the content of memory segments: every allocation there is in system
  /// memory now, with no write-back, pins notwithstanding. Content that was only there (or on its
  /// way out in an unfinished operation) is lost and the next page-in fills; what the backing pages
  /// still hold is kept.
  LostContent lose_memory_segments();
  /// The same in the middle of things: operations not reported done never will be, content under
  /// way out of a memory segment included; apertures are empty too, with an unmapping for each
  /// range behind the other operations.
  LostContent lose_in_reset();

  // --- CPU access ---
  /// Counts a CPU lock. The content stays on the side (system or memory segment) it is on until the
  /// last unlock. A lock there counts as a write, but for what has a permanent copy in system
  /// memory: that is what the CPU sees.
  void lock(AllocationId id);
  /// False if it was not locked. The last unlock counts as a use for the eviction order.
  bool unlock(AllocationId id);
  /// The CPU wrote to system-memory content: it is content from now on (first page-in transfers
  /// instead of filling).
  void mark_cpu_written(AllocationId id);

  /// ALLOC-48, of an allocation with `permanent_system_memory`: the CPU has written a part of its
  /// backing pages; the operation brings a copy in a memory segment up to date. None: no copy.
  /// CHECKed: whole pages inside the allocation.
  std::optional<PagingOp> write_up(AllocationId id, const ByteRange& part);
  /// Before the CPU looks at its backing pages: the operation brings them up to date. None: they
  /// are.
  std::optional<PagingOp> write_back(AllocationId id);

  // --- explicit residency: what packets do not say ---
  /// The GPU may have written it where it is: leaving a memory segment takes a write-back (RES-15).
  void assume_written(AllocationId id);
  /// Nobody wrote it since it came in: its backing pages hold the content (RES-15). Ignored while
  /// the CPU has it locked, as nothing tells what is written through the window.
  void assume_clean(AllocationId id);
  /// Used now, for the eviction order (RES-22).
  void note_use(AllocationId id);

  // --- questions ---
  bool contains(AllocationId id) const;
  Placement placement(AllocationId id) const;
  /// A number that changes whenever a placement may have: equal numbers, equal places.
  uint64_t plans() const;
  AllocationDesc description(AllocationId id) const;
  /// It was evicted, into an aperture of its eviction set (ALLOC-09): no use has asked for it
  /// since.
  bool parked(AllocationId id) const;
  uint32_t pin_count(AllocationId id) const;
  uint32_t lock_count(AllocationId id) const;
  /// Operations planned for it and not yet reported done.
  uint32_t pending_operations(AllocationId id) const;
  /// The allocation at a segment offset, if any: for explaining a faulting address.
  std::optional<AllocationId> at(SegmentId segment, uint64_t offset_bytes) const;
  std::span<const SegmentDesc> segments() const;
  SegmentUsage usage(SegmentId segment) const;
  SegmentGroup group_of(SegmentId segment) const;
  GroupUsage group_usage(SegmentGroup group) const;
  const Statistics& statistics() const;
  bool validate() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::vidmm
