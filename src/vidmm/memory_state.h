// The memory manager's state and its plans. Private to the module.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "trace/causes.h"
#include "vidmm/memory_manager.h"
#include "vidmm/packing.h"
#include "vidmm/record_table.h"
#include "vidmm/segment.h"

namespace dxgkit::vidmm {

/// One allocation of a plan, even if several uses name it.
struct Item {
  Record* record = nullptr;
  size_t first_use = 0;
  SegmentSet allowed = 0;  // segments that every one of its uses permits
  bool write = false;
};

/// How the candidates of one allocation are searched, in order (ALLOC-10, ALLOC-11, ALLOC-12).
struct Candidate {
  Segment* segment = nullptr;
  SearchFrom from = SearchFrom::kBottom;
  uint64_t low = 0, high = 0;
  bool hint =
      false;  // a bank of the first preference: only for free room, the whole segment follows
};

/// The index of an allocation in the eviction policy.
inline EvictionPolicy::Index victim(const Record& record) { return slot_of(record.id); }

struct MemoryManager::Impl {
  explicit Impl(std::span<const SegmentDesc> descs_in);

  /// The checks of `create`.
  Status check(const AllocationDesc& desc) const;
  Record& get(AllocationId id);
  Segment& segment(SegmentId id) const;
  Placement place_of(const Record& record) const;
  bool known(SegmentSet set) const { return (set & ~known_segments) == 0; }
  bool on_memory_side(const Record& record) const;

  // Victims.
  bool may_leave(const Record& record) const;
  bool competes(const Record& record) const;
  void update_victim(Record& record);
  void touch(Record& record);
  void restore_victims(bool undone);
  uint64_t order(const Record& record) const;
  void set_offer(Record& record, OfferPriority priority);

  // A plan changes places at once; the journal remembers the old places.
  struct Touched {
    Record* record;
    Placement old;
    bool parked;
    trace::EvictionReason why;  // for the trace, as is the next
    uint64_t needed_by;         // allocation
  };
  void begin_plan();
  void clear_journal();
  void leave(Record& record);
  /// Evicts a victim. Content of a memory segment is parked in an aperture of the eviction set if
  /// one has room (ALLOC-09).
  void evict(Record& record);
  void park(Record& record);
  void enter(Record& record, Segment& where, uint64_t offset);
  void rollback();
  /// The operations that turn the old places into the new ones: all evictions, then all page-ins.
  std::vector<PagingOp> commit();
  void note_old_place(Record& record);
  /// The first group of operations frees, the second parks, the third takes: no operation uses
  /// space before it is free.
  void add_leave_operations(Record& record, const Placement& old, bool parked,
                            std::vector<PagingOp>* ops);
  void add_park_operations(Record& record, const Placement& old, std::vector<PagingOp>* ops);
  void add_enter_operations(Record& record, std::vector<PagingOp>* ops);
  PagingOp notice(PagingOp::Kind kind, const Record& record, const Placement& place) const;
  PagingOp leave_operation(Record& record, const Placement& old);
  void expect(Record& record, const PagingOp& op);

  std::vector<Item> merge(std::span<const Use> uses);
  std::vector<Candidate> candidates(const Item& item) const;
  bool stays(const Item& item) const;
  bool can_move(const Record& record) const;
  bool place(const Item& item);
  /// Tries free room, then joined room, then evictions, each in all candidates.
  bool place_in(Record& record, std::span<const Candidate> options);
  /// compaction.cpp. There is enough free room, but in pieces. Allocations in the way of the
  /// cheapest place move to other holes of the segment, and none leaves it. Moves at most as many
  /// bytes as the allocation has. False: state unchanged. Cost: O(ranges), of at most 4,096.
  bool place_by_moving(Record& record, const Candidate& option);
  /// The index of the first item without a place, or items.size() if all have one.
  size_t place_in_order(std::span<const Item> items);
  bool move_away(std::vector<Touched>& movers, Record& record, Segment& where, uint64_t offset);
  PackItem pack_item(const Item& item) const;
  std::optional<Packing> pack_alone(std::span<const Item> items,
                                    std::span<const AllocationDesc> besides = {}) const;
  /// Packs around allocations that cannot move. Items that cannot move stay where they are.
  std::optional<Packing> pack_beside_others(std::span<const Item> items) const;
  bool repack(std::span<const Item> items, const Packing& packing);

  std::vector<SegmentDesc> descs;
  std::vector<std::unique_ptr<Segment>> segments;  // in the caller's order
  std::vector<Segment*> by_id;                     // null: no such segment
  std::vector<const Segment*> views;               // `segments`, for pack()
  SegmentSet known_segments = 0, memory_segments = 0;
  TraitsTable traits;
  RecordTable records;
  EvictionPolicy policy;
  std::vector<EvictionPolicy::Left> returned;  // scratch of restore_victims
  std::vector<Touched> journal;
  std::vector<Record*> pinning;  // scratch of pin_resident
  uint64_t plan = 0;
  // For the trace: why allocations leave from here on, and for which allocation and packet.
  trace::EvictionReason why = trace::EvictionReason::kAsked;
  uint64_t needed_by = 0, needed_by_packet = 0;
  Statistics statistics;
  Switches switches;
  bool made_room = false;  // the last place_in moved or evicted other allocations, or failed
};

// Inline, because every packet does this for every allocation it uses.

inline Record& MemoryManager::Impl::get(AllocationId id) {
  Record* const record = records.find(id);
  DXGKIT_CHECK(record != nullptr);
  return *record;
}

inline Segment& MemoryManager::Impl::segment(SegmentId id) const {
  DXGKIT_CHECK(id.value < by_id.size() && by_id[id.value] != nullptr);
  return *by_id[id.value];
}

inline Placement MemoryManager::Impl::place_of(const Record& record) const {
  if (!record.resident()) return {};
  const Segment& where = segment(record.segment());
  return where.at(where.ranges.offset(record.range));
}

/// True if the content is in a memory segment rather than in backing pages, or will be once the
/// plans have run.
inline bool MemoryManager::Impl::on_memory_side(const Record& record) const {
  return record.resident() && (memory_segments & segment_bit(record.segment())) != 0;
}

/// True if the policy knows the allocation between plans as a member of its segment. Pins do not
/// matter: they come and go with each packet, and a choice skips pinned allocations.
inline bool MemoryManager::Impl::competes(const Record& record) const {
  if (!record.resident() || record.traits->pinned) return false;
  return record.locks == 0 || !on_memory_side(record);
}

inline void MemoryManager::Impl::update_victim(Record& record) {
  const bool wanted = competes(record);
  if (wanted == policy.is_in_group(victim(record))) return;
  if (wanted) {
    policy.enter(victim(record), segment(record.segment()).group);
  } else {
    policy.leave(victim(record));
  }
}

/// The allocation is used now.
inline void MemoryManager::Impl::touch(Record& record) {
  update_victim(record);
  policy.use(victim(record), on_memory_side(record));
}

}  // namespace dxgkit::vidmm
