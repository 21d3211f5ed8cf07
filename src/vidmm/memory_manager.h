// The video memory manager: where allocations are, which may move, and what must be copied for
// that.
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

/// One allocation that a packet touches.
struct Use {
  AllocationId allocation;
  bool write = false;
};

struct ResidencyPlan {
  std::vector<PagingOp> operations;  // to be executed, in order, before the packet
  std::vector<Placement>
      placements;  // one per Use, in its order: the place when the operations are done
};

/// Why a plan cannot be made now.
struct ResidencyFailure {
  Status status;  // kGraphicsAllocationBusy: would fit once pins or CPU locks go, ask again after
                  // one did; kGraphicsNoVideoMemory: does not fit even alone
  size_t first_failed_use;  // index of the first Use that found no place (a packet may be split
                            // before it, REND-21)
};

/// free_bytes counts address space; an aperture's commit limit may allow less. Invalid ranges
/// (SEG-45) are in size_bytes and in no other number.
struct SegmentUsage {
  uint64_t size_bytes = 0, committed_bytes = 0, free_bytes = 0, largest_free_bytes = 0;
  size_t allocations = 0;
};

/// The sum of a group's segments that count in budgets (SEG-43). size_bytes is the most that
/// allocations can have there; committed_bytes is what they have.
struct GroupUsage {
  uint64_t size_bytes = 0, committed_bytes = 0;
  bool operator==(const GroupUsage&) const = default;
};

/// Whether allocations that never move (`AllocationDesc::pinned`) are evicted too.
enum class Pinned { kStay, kLeave };

/// The allocations that an adapter reset affected.
struct LostContent {
  std::vector<AllocationId> allocations;  // ascending
  std::vector<PagingOp> operations;  // tell the driver: one kContentLost for each that was in a
                                     // segment, not for what was on its way out (PAGE-22)
};

/// Counted when planned. An eviction moves an allocation that no use has named; a return brings it
/// back into a segment. Page-ins are transfers of content into memory, and returns into an
/// aperture. Page-outs are transfers to system memory, where an aperture's content is already.
struct Statistics {
  uint64_t evictions = 0, returns = 0;
  uint64_t page_ins = 0, page_outs = 0, bytes_in = 0, bytes_out = 0;
  uint64_t clean_drops = 0, aperture_maps = 0, fills = 0;
  uint64_t moves = 0;             // inside a segment, to join free ranges (no evictions)
  uint64_t offers_discarded = 0;  // offered content discarded under pressure
  // Counts of decisions that Switches have changed.
  uint64_t offers_kept = 0, demotions_prevented = 0, compactions_failed = 0;
};

/// Switches that always take, or never take, the better way (REND-28).
struct Switches {
  bool keep_offers = false;      // offered content is written back as other content is
  bool no_demotion = false;      // room is made in a preferred segment before another has it, and
                                 // evicted content is not parked in an aperture
  bool fail_compaction = false;  // nothing moves inside a segment
};

/// Lane: the adapter's. The manager knows no driver and moves no byte. It returns plans; the caller
/// executes them in order and reports each executed operation with `operation_done`.
///
/// State is updated when a plan is made, not when it is executed. Placements in the plan are final,
/// because plans execute in the order in which they were made. "Pinned" allocations never move: a
/// plan named them, and its packet has not been released. CPU-locked allocations never change
/// between system memory and a memory segment. They may be mapped through an aperture segment,
/// which moves no content (ALLOC-43).
///
/// Invariant (`validate`): placements in a segment never overlap, stay inside it, and respect
/// alignment. Committed bytes and free lists add up. A pinned allocation is resident.
class MemoryManager {
 public:
  explicit MemoryManager(std::span<const SegmentDesc> segments);
  ~MemoryManager();
  /// Call it before the first allocation.
  void set_switches(const Switches& switches);

  // --- allocations ---
  /// Registers an allocation under the caller's id, in system memory and without content. The id
  /// and its slot must be unused (CHECKed). kInvalidParameter, with nothing kept: a set names an
  /// unknown segment; no supported segment could ever hold the size; or size 0, priority 0, a bad
  /// alignment. Offsets (not GPU addresses) are aligned.
  Status create(AllocationId id, const AllocationDesc& desc);
  /// Removes an allocation that is not pinned, not locked, and has no unexecuted operation. Returns
  /// the operations that free its place (unmap or discard). Otherwise kGraphicsAllocationBusy with
  /// the state unchanged: ask again later.
  Result<std::vector<PagingOp>> destroy(AllocationId id);
  /// Changes sets, preferences and flags. Size, alignment, pitch and priority stay as before
  /// (CHECKed or the caller's duty). The allocation stays where it is; its next use finds a place
  /// that its new sets allow. kInvalidParameter as for create; nothing changed.
  Status redescribe(AllocationId id, const AllocationDesc& desc);
  /// RES-22. Any value but 0.
  void set_priority(AllocationId id, uint32_t priority);

  /// Offers the allocation: its content may be discarded from now on if the room is needed. Offered
  /// allocations are victims before all others (kAuto: by priority), and leave a memory segment
  /// without write-back (ALLOC-47). A second offer replaces the priority. Not kNone.
  void offer(AllocationId id, OfferPriority priority);
  /// Ends the offer, if there is one. True: the content was discarded since, and the next page-in
  /// fills.
  bool reclaim(AllocationId id);
  /// True: content of the allocation was discarded since its offer.
  bool discarded(AllocationId id) const;
  /// The backing pages of an offered allocation go, and its content with them. CHECKed: it is in
  /// system memory without pending operations. Whoever gives it pages again gives it zeroed ones.
  void give_up_content(AllocationId id);

  // --- residency ---
  /// Finds a place for every use (all or nothing), and evicts unpinned allocations if needed. Pins
  /// every use once per call. On failure nothing changed.
  ///
  /// Order of segments: the preferences in order, then the rest of the supported set by ascending
  /// id (ALLOC-10). Banks and search direction are honoured, and write uses go to the write set
  /// only. Free room in any candidate segment comes before eviction in the first. Free room in
  /// fragments is joined by moves before anything is evicted. A bank hint is for free room only.
  ///
  /// Victims: lowest priority first, then in the order of EvictionPolicy (least recently used until
  /// it has learned more). No allocation that `uses` names is a victim. Candidates are taken in
  /// order until a hole is wide enough, and only those in the way are evicted.
  ///
  /// If all that fails although the list fits alone, the segments are repacked around allocations
  /// that cannot move. So kGraphicsAllocationBusy always means that pins, locks or
  /// `AllocationDesc::pinned` neighbours are in the way. With several segments "fits alone" is
  /// decided by a bounded search (packing.h).
  ///
  /// The operations: first all evictions, then all page-ins. Assumption about content: the backing
  /// pages of an allocation that was never written are zeros, because they show through apertures.
  /// Cost: O(uses + victims) placements; the last resort costs O(allocations in the segments).
  std::expected<ResidencyPlan, ResidencyFailure> make_resident(std::span<const Use> uses);
  /// For the trace only: plans from here on are made for this packet. 0: for none.
  void plan_for_packet(uint64_t packet);
  /// The usual case of make_resident, without a plan: every allocation is where it may stay, and no
  /// operation is under way. Returns false, with nothing changed, in other cases; then call
  /// make_resident. Each allocation once.
  bool pin_resident(std::span<const Use> uses);
  /// Whether the list would fit if no other allocation were there, as make_resident decides it.
  /// `besides`: allocations that do not exist yet and would have to fit too.
  bool fits_alone(std::span<const Use> uses, std::span<const AllocationDesc> besides = {}) const;
  /// The packet is done with the allocations of its plan. Drops one pin each. For writes it marks
  /// content dirty, which make_resident already assumed.
  void release(std::span<const Use> uses);
  /// Adds a pin to allocations that are pinned already; release() as for a plan. The policy does
  /// not count this as a use.
  void pin(std::span<const Use> uses);
  /// Plans to move one unpinned, unlocked allocation out of its segment, straight to its backing
  /// pages, whatever its eviction set says. kGraphicsAllocationBusy if it may not move now. The
  /// plan is empty if it is in system memory.
  Result<std::vector<PagingOp>> evict(AllocationId id);
  /// Plans to empty a segment (stop, power). kGraphicsAllocationBusy, with the state unchanged, if
  /// an allocation there may not move.
  Result<std::vector<PagingOp>> evict_segment(SegmentId segment, Pinned pinned = Pinned::kStay);
  /// Power: plans to move every allocation out of a segment that does not lie wholly in its first
  /// `kept_bytes` (SEG-33), lowest offsets first, even if AllocationDesc::pinned is set. Offered
  /// content is discarded, as under pressure (PWR-07). kGraphicsAllocationBusy, with the state
  /// unchanged, if one of them is pinned or locked.
  Result<std::vector<PagingOp>> purge(SegmentId segment, uint64_t kept_bytes);
  /// Power was lost in the middle of operations. Operations not reported done never will be, and
  /// each segment has kept `kept_bytes(segment)` from its start. An allocation that lies there and
  /// has no unfinished operation stays. All others are in system memory now, whatever their pins
  /// and locks. Returns the ids whose content is lost, in ascending order: content that was dirty
  /// there, or on its way out in an unfinished operation. The next page-in fills. Offered content
  /// counts as discarded instead.
  std::vector<AllocationId> lose_power(const std::function<uint64_t(SegmentId)>& kept_bytes);
  /// The executor reports each operation of each plan, in order, when its effect is complete (or
  /// abandoned, after a reset). Reports for allocations that are destroyed by then are for the
  /// trace only.
  void operation_done(const PagingOp& op);
  /// An adapter reset lost the content of memory segments. Every allocation there is in system
  /// memory now, without write-back, whatever its pins. Content that was only there, or on its way
  /// out in an unfinished operation, is lost, and the next page-in fills. Content that the backing
  /// pages still hold is kept.
  LostContent lose_memory_segments();
  /// The same in the middle of operations. Operations not reported done never will be, including
  /// content on its way out of a memory segment. Apertures are empty too, with an unmapping for
  /// each range behind the other operations.
  LostContent lose_in_reset();

  // --- CPU access ---
  /// Counts a CPU lock. The content stays on its side (system memory or memory segment) until the
  /// last unlock. A lock in a memory segment counts as a write, unless the allocation has a
  /// permanent copy in system memory: then the CPU sees the copy.
  void lock(AllocationId id);
  /// Returns false if the allocation was not locked. The last unlock counts as a use for the
  /// eviction order.
  bool unlock(AllocationId id);
  /// The CPU wrote to the backing pages, so they hold content from now on: the first page-in
  /// transfers instead of filling.
  void mark_cpu_written(AllocationId id);

  /// ALLOC-48, for an allocation with `permanent_system_memory`: the CPU has written a part of its
  /// backing pages. The operation updates the copy in a memory segment. No operation if there is no
  /// copy. CHECKed: whole pages inside the allocation.
  std::optional<PagingOp> write_up(AllocationId id, const ByteRange& part);
  /// Call it before the CPU reads the backing pages: the operation updates them. No operation if
  /// they are up to date.
  std::optional<PagingOp> write_back(AllocationId id);

  // --- explicit residency, outside packets ---
  /// The GPU may have written the allocation where it is, so leaving a memory segment needs a
  /// write-back (RES-15).
  void assume_written(AllocationId id);
  /// The allocation was not written since it came in, so its backing pages hold the content
  /// (RES-15). Ignored while the CPU has it locked, because writes through the window are not seen.
  void assume_clean(AllocationId id);
  /// The allocation is used now, for the eviction order (RES-22).
  void note_use(AllocationId id);

  // --- questions ---
  bool contains(AllocationId id) const;
  Placement placement(AllocationId id) const;
  /// A number that changes whenever a placement may have changed: equal numbers mean equal places.
  uint64_t plans() const;
  AllocationDesc description(AllocationId id) const;
  /// True if the allocation was evicted into an aperture of its eviction set (ALLOC-09), and no use
  /// has asked for it since.
  bool parked(AllocationId id) const;
  uint32_t pin_count(AllocationId id) const;
  uint32_t lock_count(AllocationId id) const;
  /// The number of operations planned for the allocation and not yet reported done.
  uint32_t pending_operations(AllocationId id) const;
  /// The allocation at a segment offset, if there is one. Used to explain a faulting address.
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
