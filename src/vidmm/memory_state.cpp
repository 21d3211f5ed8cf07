#include "vidmm/memory_state.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "base/check.h"
#include "trace/trace.h"

namespace dxgkit::vidmm {
namespace {

/// The segments for which allocations compete because an eviction costs bytes.
uint64_t memory_bytes(std::span<const SegmentDesc> descs) {
  uint64_t sum = 0;
  for (const SegmentDesc& desc : descs) {
    if (desc.kind == SegmentKind::kMemory) sum += desc.size_bytes;
  }
  return sum;
}

/// Offered content before content in use; kAuto goes by its priority (ALLOC-44).
constexpr uint64_t rank(OfferPriority offer) {
  switch (offer) {
    case OfferPriority::kLow:
      return 0;
    case OfferPriority::kNormal:
      return 1;
    case OfferPriority::kHigh:
      return 2;
    case OfferPriority::kAuto:
    case OfferPriority::kNone:
      break;
  }
  return 3;
}

}  // namespace

MemoryManager::Impl::Impl(std::span<const SegmentDesc> descs_in)
    : descs(descs_in.begin(), descs_in.end()),
      policy(memory_bytes(descs_in), static_cast<uint32_t>(descs_in.size())) {
  by_id.resize(33, nullptr);
  for (const SegmentDesc& desc : descs) {
    DXGKIT_CHECK(desc.id.value >= 1 && desc.id.value <= 32);
    DXGKIT_CHECK(by_id[desc.id.value] == nullptr);
    DXGKIT_CHECK(desc.base_address + desc.size_bytes >= desc.base_address);  // SEG-17
    segments.push_back(std::make_unique<Segment>(desc, static_cast<uint32_t>(segments.size())));
    by_id[desc.id.value] = segments.back().get();
    known_segments |= segment_bit(desc.id);
    if (desc.kind == SegmentKind::kMemory) memory_segments |= segment_bit(desc.id);
    views.push_back(segments.back().get());
  }
}

// --- victims ---

/// Nothing holds the allocation where it is.
bool MemoryManager::Impl::may_leave(const Record& record) const {
  return segment(record.segment()).may_leave(record);
}

/// Its rank in the policy: the offer first, then the priority.
uint64_t MemoryManager::Impl::order(const Record& record) const {
  return rank(record.offer) << 32 | record.priority;
}

void MemoryManager::Impl::set_offer(Record& record, OfferPriority priority) {
  record.offer = priority;
  policy.set_priority(victim(record), order(record));
}

// --- plans ---

void MemoryManager::Impl::begin_plan() {
  ++plan;
  why = trace::EvictionReason::kAsked;
  needed_by = 0;
  clear_journal();
}

void MemoryManager::Impl::clear_journal() {
  for (const Touched& touched : journal) touched.record->journaled = false;
  journal.clear();
}

void MemoryManager::Impl::note_old_place(Record& record) {
  if (record.journaled) return;
  record.journaled = true;
  journal.push_back({&record, place_of(record), record.parked, why, needed_by});
}

void MemoryManager::Impl::leave(Record& record) {
  note_old_place(record);
  Segment& where = segment(record.segment());
  policy.leave(victim(record));
  where.committed -= where.ranges.size(record.range);
  --where.allocations;
  where.ranges.release(record.range);
  record.range = RangeIndex::kNone;
  record.segment_number = 0;
  record.parked = false;
}

void MemoryManager::Impl::evict(Record& record) {
  const bool memory = on_memory_side(record);
  leave(record);
  if (memory) park(record);
}

void MemoryManager::Impl::park(Record& record) {
  if (record.offer != OfferPriority::kNone) return;  // its content is given up (ALLOC-47)
  if (switches.no_demotion) {
    if (record.traits->eviction != 0) ++statistics.demotions_prevented;
    return;
  }
  for (uint32_t id = 1; id <= 32; ++id) {
    if ((record.traits->eviction & segment_bit(SegmentId{id})) == 0) continue;
    Segment& where = segment(SegmentId{id});
    if (where.is_memory() || where.desc.pitch_alignment) continue;  // SEG-39
    const auto offset =
        where.find_free(record.shape(), SearchFrom::kBottom, 0, where.desc.size_bytes);
    if (!offset.has_value()) continue;
    enter(record, where, *offset);
    record.parked = true;
    return;
  }
}

void MemoryManager::Impl::enter(Record& record, Segment& where, uint64_t offset) {
  note_old_place(record);
  const uint64_t bytes = where.bytes_of(record.shape());
  record.range = where.ranges.place(offset, bytes, RecordTable::owner_of(record));
  record.segment_number = static_cast<uint8_t>(where.desc.id.value);
  where.committed += bytes;
  ++where.allocations;
}

/// An allocation that a plan put (back) into a segment competes there again: by its last use, or,
/// if the plan names it and is not undone, as the one used now.
void MemoryManager::Impl::restore_victims(bool undone) {
  returned.clear();
  for (const Touched& touched : journal) {
    const Record& record = *touched.record;
    if (!competes(record) || policy.is_in_group(victim(record))) continue;
    const uint32_t group = segment(record.segment()).group;
    if (record.plan == plan && !undone) {
      policy.enter(victim(record), group);
    } else {
      returned.push_back({victim(record), group});
    }
  }
  policy.restore(returned);
}

void MemoryManager::Impl::rollback() {
  for (const Touched& touched : journal) {
    if (touched.record->resident()) leave(*touched.record);
  }
  for (const Touched& touched : journal) {
    if (touched.old.segment == kSystemMemory) continue;
    enter(*touched.record, segment(touched.old.segment), touched.old.offset_bytes);
    touched.record->parked = touched.parked;
  }
  restore_victims(true);
  clear_journal();
}

void MemoryManager::Impl::expect(Record& record, const PagingOp& op) {
  ++record.pending;
  if (op.kind == PagingOp::Kind::kTransferOut || op.kind == PagingOp::Kind::kWriteBack)
    ++record.pending_out;
}

PagingOp MemoryManager::Impl::notice(PagingOp::Kind kind, const Record& record,
                                     const Placement& place) const {
  return {.kind = kind,
          .allocation = record.id,
          .place = place,
          .size_bytes = align_up(record.size_bytes, kPageBytes),
          .backing = {}};
}

PagingOp MemoryManager::Impl::leave_operation(Record& record, const Placement& old) {
  const Segment& where = segment(old.segment);
  // SEG-39: apertures and write-back use the plain size.
  PagingOp op = notice(PagingOp::Kind::kUnmapAperture, record, old);
  const bool offered = record.offer != OfferPriority::kNone;
  if (where.is_memory() && record.dirty && offered && switches.keep_offers)
    ++statistics.offers_kept;
  if (where.is_memory() && record.dirty && offered && !switches.keep_offers) {
    op.kind = PagingOp::Kind::kDiscard;  // its owner gave the content up (ALLOC-47)
    op.size_bytes = where.bytes_of(record.shape());
    record.dirty = false;
    record.has_content = false;
    record.discarded = true;
    ++statistics.offers_discarded;
  } else if (where.is_memory() && record.dirty) {
    op.kind = PagingOp::Kind::kTransferOut;
    record.dirty = false;
    ++statistics.page_outs;
    statistics.bytes_out += op.size_bytes;
  } else if (where.is_memory()) {
    op.kind = PagingOp::Kind::kDiscard;  // backing pages hold the same content, or there is none
    op.size_bytes = where.bytes_of(record.shape());
    ++statistics.clean_drops;
  }
  return op;
}

void MemoryManager::Impl::add_leave_operations(Record& record, const Placement& old, bool parked,
                                               std::vector<PagingOp>* ops) {
  if (record.traits->notify_residency && !parked)  // a parked allocation was evicted before
    ops->push_back(notice(PagingOp::Kind::kNotifyNotResident, record, old));
  if (record.traits->notify_eviction && !segment(old.segment).is_memory())
    ops->push_back(notice(PagingOp::Kind::kNotifyEviction, record, old));
  ops->push_back(leave_operation(record, old));
}

void MemoryManager::Impl::add_park_operations(Record& record, const Placement& old,
                                              std::vector<PagingOp>* ops) {
  if (record.traits->notify_residency)
    ops->push_back(notice(PagingOp::Kind::kNotifyNotResident, record, old));
  PagingOp out = leave_operation(record, old);
  if (out.kind == PagingOp::Kind::kTransferOut) out.backing = place_of(record);
  ops->push_back(notice(PagingOp::Kind::kMapAperture, record, place_of(record)));
  ops->push_back(out);
  ++statistics.aperture_maps;
}

void MemoryManager::Impl::add_enter_operations(Record& record, std::vector<PagingOp>* ops) {
  const Segment& where = segment(record.segment());
  PagingOp op = notice(PagingOp::Kind::kMapAperture, record, place_of(record));
  const bool first = record.traits->context_resource && !record.has_content;
  if (!where.is_memory()) {
    ops->push_back(op);
    ++statistics.aperture_maps;
  } else if (record.has_content) {
    op.kind = PagingOp::Kind::kTransferIn;
    ops->push_back(op);
    ++statistics.page_ins;
    statistics.bytes_in += op.size_bytes;
  } else if (!first) {
    op.kind = PagingOp::Kind::kFill;
    op.size_bytes = where.bytes_of(record.shape());
    ops->push_back(op);
    ++statistics.fills;
  }
  if (first) {
    op.kind = PagingOp::Kind::kInitContext;
    ops->push_back(op);
    record.has_content = true;
    record.dirty = where.is_memory();
  }
  if (record.traits->notify_residency)
    ops->push_back(notice(PagingOp::Kind::kNotifyResident, record, place_of(record)));
}

std::vector<PagingOp> MemoryManager::Impl::commit() {
  std::vector<PagingOp> ops;
  const auto parks = [&](const Touched& touched) {
    return touched.record->parked && touched.old.segment != kSystemMemory &&
           segment(touched.old.segment).is_memory();
  };
  const auto expect_from = [&](Record& record, size_t first) {
    for (size_t i = first; i < ops.size(); ++i) expect(record, ops[i]);
  };
  for (const bool parking : {false, true}) {
    for (const Touched& touched : journal) {
      Record& record = *touched.record;
      if (touched.old == place_of(record) || touched.old.segment == kSystemMemory) continue;
      if (parks(touched) != parking) continue;
      const size_t first = ops.size();
      if (parking) {
        add_park_operations(record, touched.old, &ops);
      } else {
        add_leave_operations(record, touched.old, touched.parked, &ops);
      }
      expect_from(record, first);
      const bool moved = touched.old.segment == record.segment();
      if (moved) ++statistics.moves;
      if (record.plan != plan && !moved) {
        ++statistics.evictions;
        record.evicted = true;
      }
      trace::emit(trace::EventKind::kEvicted, record.id.value, touched.old.segment.value,
                  touched.old.offset_bytes, ops.back().size_bytes);
      const bool wanted = record.plan == plan;  // it moves for its own sake
      trace::emit(trace::EventKind::kWhyEvicted, record.id.value,
                  static_cast<uint64_t>(wanted ? trace::EvictionReason::kMoved : touched.why),
                  wanted ? 0 : touched.needed_by, needed_by_packet);
    }
  }
  for (const Touched& touched : journal) {
    Record& record = *touched.record;
    const bool returns = record.evicted && record.resident() && !record.parked;
    if (returns) {
      record.evicted = false;
      ++statistics.returns;
    }
    const size_t first = ops.size();
    if (touched.old == place_of(record)) {
      // Used where it was parked: nothing moves, but it is resident again.
      if (touched.parked && !record.parked && record.traits->notify_residency)
        ops.push_back(notice(PagingOp::Kind::kNotifyResident, record, place_of(record)));
      expect_from(record, first);
      continue;
    }
    if (!record.resident()) continue;
    if (!parks(touched)) add_enter_operations(record, &ops);
    if (returns && !segment(record.segment()).is_memory()) ++statistics.page_ins;
    expect_from(record, first);
    trace::emit(trace::EventKind::kPlaced, record.id.value, record.segment().value,
                place_of(record).offset_bytes, align_up(record.size_bytes, kPageBytes));
  }
  restore_victims(false);
  clear_journal();
  return ops;
}

// --- finding places ---

std::vector<Item> MemoryManager::Impl::merge(std::span<const Use> uses) {
  std::vector<Item> items;
  items.reserve(uses.size());
  for (size_t i = 0; i < uses.size(); ++i) {
    Record& record = get(uses[i].allocation);
    const SegmentSet allowed =
        uses[i].write ? record.traits->supported_write : record.traits->supported_read;
    if (record.plan == plan) {
      Item* same = &items[record.item];
      same->allowed &= allowed;
      same->write = same->write || uses[i].write;
      if (same->allowed == 0) same->first_use = i;  // this is the use that cannot be served
      continue;
    }
    record.plan = plan;
    record.item = static_cast<uint32_t>(items.size());
    items.push_back(
        {.record = &record, .first_use = i, .allowed = allowed, .write = uses[i].write});
  }
  return items;
}

std::vector<Candidate> MemoryManager::Impl::candidates(const Item& item) const {
  std::vector<Candidate> found;
  const AllocationDesc desc =
      item.record->traits->unpacked(item.record->size_bytes, item.record->priority);
  SegmentSet left = item.allowed;
  const auto add = [&](SegmentId id, SearchFrom from) {
    Segment& where = segment(id);
    found.push_back({.segment = &where, .from = from, .low = 0, .high = where.desc.size_bytes});
    left &= ~segment_bit(id);
  };
  for (size_t i = 0; i < desc.preferred.size(); ++i) {
    const SegmentPreference& preference = desc.preferred[i];
    if (preference.segment == kSystemMemory) continue;
    if ((left & segment_bit(preference.segment)) == 0) continue;
    const auto& ends = segment(preference.segment).desc.bank_end_offsets;
    for (const BankPreference& bank : desc.banks) {
      if (i != 0 || bank.bank == 0 || bank.bank > ends.size()) continue;
      found.push_back({.segment = &segment(preference.segment),
                       .from = bank.from,
                       .low = bank.bank == 1 ? 0 : ends[bank.bank - 2],
                       .high = ends[bank.bank - 1],
                       .hint = true});
    }
    add(preference.segment, preference.from);
  }
  const SearchFrom rest = desc.from_end_of_segment ? SearchFrom::kTop : SearchFrom::kBottom;
  for (uint32_t id = 1; id <= 32 && left != 0; ++id) {
    if ((left & segment_bit(SegmentId{id})) != 0) add(SegmentId{id}, rest);
  }
  return found;
}

bool MemoryManager::Impl::stays(const Item& item) const {
  const SegmentId where = item.record->segment();
  if (item.record->parked) return false;
  return where != kSystemMemory && (item.allowed & segment_bit(where)) != 0;
}

/// May get a place other than its present or first one.
bool MemoryManager::Impl::can_move(const Record& record) const {
  return !record.resident() || may_leave(record);
}

bool MemoryManager::Impl::place(const Item& item) {
  Record& record = *item.record;
  if (!can_move(record)) return false;
  if (record.resident()) leave(record);
  std::vector<Candidate> options = candidates(item);
  if (record.locks > 0) {
    // Its content is in system memory and stays there until the CPU unlocks it (ALLOC-43).
    std::erase_if(options, [](const Candidate& option) { return option.segment->is_memory(); });
  }
  if (switches.no_demotion) {
    for (size_t i = 0; i < options.size(); ++i) {
      if (!place_in(record, std::span(options).subspan(i, 1))) continue;
      // Another segment, or an earlier hint, had no room at all; a later one may have had some.
      const bool had = std::ranges::any_of(std::span(options).subspan(i + 1), [&](const auto& one) {
        return one.segment != options[i].segment &&
               one.segment->find_free(record.shape(), one.from, one.low, one.high).has_value();
      });
      if (had && made_room) ++statistics.demotions_prevented;
      return true;
    }
    return false;
  }
  return place_in(record, options);
}

bool MemoryManager::Impl::place_in(Record& record, std::span<const Candidate> options) {
  made_room = false;
  for (const Candidate& option : options) {
    const auto offset =
        option.segment->find_free(record.shape(), option.from, option.low, option.high);
    if (!offset.has_value()) continue;
    enter(record, *option.segment, *offset);
    return true;
  }
  made_room = true;
  needed_by = record.id.value;
  why = trace::EvictionReason::kCompacted;
  for (const Candidate& option : options) {
    if (!option.hint && place_by_moving(record, option)) return true;
  }
  why = trace::EvictionReason::kRoom;
  for (const Candidate& option : options) {
    if (option.hint) continue;
    const auto window =
        option.segment->find_window(record.shape(), option.from, plan, policy, records);
    if (!window.has_value()) continue;
    for (Record* victim : window->victims) evict(*victim);
    enter(record, *option.segment, window->offset);
    return true;
  }
  return false;
}

size_t MemoryManager::Impl::place_in_order(std::span<const Item> items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (!stays(items[i]) && !place(items[i])) return i;
  }
  return items.size();
}

PackItem MemoryManager::Impl::pack_item(const Item& item) const {
  PackItem packed{.desc = item.record->shape(), .segments = {}, .fixed = std::nullopt};
  if (item.record->traits->pinned && stays(item)) packed.fixed = place_of(*item.record);
  for (const Candidate& option : candidates(item)) {
    if (option.hint) continue;
    const auto at = std::ranges::find(views, option.segment);
    packed.segments.push_back(static_cast<uint32_t>(at - views.begin()));
  }
  return packed;
}

std::optional<Packing> MemoryManager::Impl::pack_alone(
    std::span<const Item> items, std::span<const AllocationDesc> besides) const {
  std::vector<PackItem> packed;
  for (const Item& item : items) packed.push_back(pack_item(item));
  for (const AllocationDesc& desc : besides) {
    PackItem& item = packed.emplace_back(PackItem{.desc = desc, .segments = {}, .fixed = {}});
    for (uint32_t i = 0; i < views.size(); ++i) {
      if ((desc.supported_write & segment_bit(views[i]->desc.id)) != 0) item.segments.push_back(i);
    }
  }
  return pack(views, packed);
}

std::optional<Packing> MemoryManager::Impl::pack_beside_others(std::span<const Item> items) const {
  std::vector<PackItem> packed;
  for (const Item& item : items) {
    PackItem& one = packed.emplace_back(pack_item(item));
    if (!can_move(*item.record)) {
      if (!stays(item)) return std::nullopt;
      one.fixed = place_of(*item.record);
    } else if (item.record->locks > 0) {
      std::erase_if(one.segments, [&](uint32_t s) { return segments[s]->is_memory(); });
    }
  }
  for (const std::unique_ptr<Segment>& where : segments) {
    const RangeIndex& ranges = where->ranges;
    for (auto range = ranges.first(); range != RangeIndex::kNone; range = ranges.next(range)) {
      const uint32_t owner = ranges.owner(range);
      if (owner == 0 || owner == Segment::kInvalid) continue;
      const Record& record = records.of_owner(owner);
      if (record.plan == plan || where->may_leave(record)) continue;
      packed.push_back({.desc = record.shape(), .segments = {}, .fixed = place_of(record)});
    }
  }
  return pack(views, packed);
}

/// Last resort: clears the segments concerned of all allocations that may be evicted, and packs the
/// items from the bottom. Allocations whose place was not needed stay.
bool MemoryManager::Impl::repack(std::span<const Item> items, const Packing& packing) {
  why = trace::EvictionReason::kPacked;
  needed_by = items.empty() ? 0 : items.front().record->id.value;
  std::vector<bool> concerned(segments.size());
  for (const size_t i : packing.order) concerned[packing.segments[i]] = true;
  std::vector<Touched> cleared;
  for (size_t s = 0; s < segments.size(); ++s) {
    if (!concerned[s]) continue;
    const size_t first = cleared.size();
    policy.begin_choice(segments[s]->group);
    for (auto next = policy.next(); next != EvictionPolicy::kNone; next = policy.next()) {
      Record& record = records.of_slot(next);
      if (may_leave(record))
        cleared.push_back({&record, place_of(record), record.parked, why, needed_by});
    }
    for (size_t i = first; i < cleared.size(); ++i) leave(*cleared[i].record);
  }
  for (const size_t i : packing.order) {
    Record& record = *items[i].record;
    if (record.resident()) leave(record);  // from a segment not concerned
    Segment& where = *segments[packing.segments[i]];
    const auto offset =
        where.find_free(record.shape(), SearchFrom::kBottom, 0, where.desc.size_bytes);
    if (!offset.has_value()) return false;
    enter(record, where, *offset);
  }
  // The most valuable first: where commit limits are tight the least valuable lose their mappings.
  for (size_t i = cleared.size(); i-- > 0;) {
    Record& record = *cleared[i].record;
    if (record.plan == plan) continue;
    const Placement& old = cleared[i].old;
    Segment& where = segment(old.segment);
    const auto free = where.find_free(record.shape(), SearchFrom::kBottom, old.offset_bytes,
                                      old.offset_bytes + where.bytes_of(record.shape()));
    if (!free.has_value()) continue;
    enter(record, where, old.offset_bytes);
    record.parked = cleared[i].parked;
  }
  for (const Touched& touched : cleared) {
    const bool left = !touched.record->resident();
    if (left && segment(touched.old.segment).is_memory()) park(*touched.record);
  }
  return true;
}

}  // namespace dxgkit::vidmm
