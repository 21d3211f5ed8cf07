#include "vidmm/memory_manager.h"

#include <algorithm>
#include <utility>

#include "base/arithmetic.h"
#include "base/check.h"
#include "trace/trace.h"
#include "vidmm/memory_state.h"

namespace dxgkit::vidmm {

MemoryManager::MemoryManager(std::span<const SegmentDesc> segments)
    : impl_(std::make_unique<Impl>(segments)) {}
MemoryManager::~MemoryManager() = default;

void MemoryManager::set_switches(const Switches& switches) { impl_->switches = switches; }

Status MemoryManager::Impl::check(const AllocationDesc& desc) const {
  if (desc.size_bytes == 0) return Status::kInvalidParameter;
  if (desc.alignment_bytes < kPageBytes) return Status::kInvalidParameter;
  if (!is_power_of_two(desc.alignment_bytes)) return Status::kInvalidParameter;
  if (desc.priority == 0) return Status::kInvalidParameter;
  if (!known(desc.supported_read)) return Status::kInvalidParameter;
  if (!known(desc.supported_write)) return Status::kInvalidParameter;
  if (!known(desc.eviction)) return Status::kInvalidParameter;
  for (const SegmentPreference& preference : desc.preferred) {
    if (preference.segment.value > 32) return Status::kInvalidParameter;
    if (!known(segment_bit(preference.segment))) return Status::kInvalidParameter;
  }
  const SegmentSet supported = desc.supported_read | desc.supported_write;
  const bool holdable = std::ranges::any_of(segments, [&](const auto& segment) {
    return (supported & segment_bit(segment->desc.id)) != 0 && segment->could_hold(desc);
  });
  if (!holdable) return Status::kInvalidParameter;
  return Status::kSuccess;
}

Status MemoryManager::create(AllocationId id, const AllocationDesc& desc) {
  DXGKIT_CHECK(!contains(id));
  DXGKIT_RETURN_IF_FAILED(impl_->check(desc));
  Record& record = impl_->records.create(id);
  record.size_bytes = desc.size_bytes;
  record.traits = impl_->traits.take(Traits(desc));
  record.priority = desc.priority;
  impl_->policy.add(victim(record), align_up(desc.size_bytes, kPageBytes), impl_->order(record));
  return Status::kSuccess;
}

Status MemoryManager::redescribe(AllocationId id, const AllocationDesc& desc) {
  Record& record = impl_->get(id);
  DXGKIT_CHECK(desc.size_bytes == record.size_bytes && desc.priority == record.priority);
  DXGKIT_RETURN_IF_FAILED(impl_->check(desc));
  const Traits* const old = record.traits;
  record.traits = impl_->traits.take(Traits(desc));
  impl_->traits.drop(old);
  return Status::kSuccess;
}

Result<std::vector<PagingOp>> MemoryManager::destroy(AllocationId id) {
  Record& record = impl_->get(id);
  if (record.pins > 0) return Error(Status::kGraphicsAllocationBusy);
  if (record.locks > 0) return Error(Status::kGraphicsAllocationBusy);
  if (record.pending > 0) return Error(Status::kGraphicsAllocationBusy);
  std::vector<PagingOp> ops;
  if (record.resident()) {
    const uint64_t drops = impl_->statistics.clean_drops;
    record.dirty = false;  // its content will not be read again
    impl_->add_leave_operations(record, impl_->place_of(record), record.parked, &ops);
    impl_->statistics.clean_drops = drops;  // not an eviction
    impl_->begin_plan();
    impl_->leave(record);
    impl_->clear_journal();
  }
  impl_->policy.remove(victim(record));
  impl_->traits.drop(record.traits);
  impl_->records.destroy(record);
  return ops;
}

void MemoryManager::set_priority(AllocationId id, uint32_t priority) {
  DXGKIT_CHECK(priority != 0);
  Record& record = impl_->get(id);
  record.priority = priority;
  impl_->policy.set_priority(victim(record), impl_->order(record));
}

void MemoryManager::offer(AllocationId id, OfferPriority priority) {
  DXGKIT_CHECK(priority != OfferPriority::kNone);
  impl_->set_offer(impl_->get(id), priority);
}

bool MemoryManager::reclaim(AllocationId id) {
  Record& record = impl_->get(id);
  impl_->set_offer(record, OfferPriority::kNone);
  const bool discarded = record.discarded;
  record.discarded = false;
  return discarded;
}

bool MemoryManager::discarded(AllocationId id) const { return impl_->get(id).discarded; }

void MemoryManager::give_up_content(AllocationId id) {
  Record& record = impl_->get(id);
  DXGKIT_CHECK(record.offer != OfferPriority::kNone && !record.resident() && record.pending == 0);
  if (record.has_content) record.discarded = true;
  record.has_content = false;
}

void MemoryManager::plan_for_packet(uint64_t packet) { impl_->needed_by_packet = packet; }

std::expected<ResidencyPlan, ResidencyFailure> MemoryManager::make_resident(
    std::span<const Use> uses) {
  impl_->begin_plan();
  const std::vector<Item> items = impl_->merge(uses);
  const size_t failed = impl_->place_in_order(items);
  if (failed != items.size()) {
    impl_->rollback();
    const auto packing = impl_->pack_beside_others(items);
    if (!packing.has_value() || !impl_->repack(items, *packing)) {
      impl_->rollback();
      if (impl_->pack_alone(items).has_value()) {
        return std::unexpected(ResidencyFailure{.status = Status::kGraphicsAllocationBusy,
                                                .first_failed_use = items[failed].first_use});
      }
      // The shortest list that does not fit even alone ends with the use to report.
      size_t fits = 0;
      size_t fails = items.size();
      while (fits + 1 < fails) {
        const size_t middle = fits + (fails - fits) / 2;
        (impl_->pack_alone(std::span(items).first(middle)).has_value() ? fits : fails) = middle;
      }
      return std::unexpected(ResidencyFailure{.status = Status::kGraphicsNoVideoMemory,
                                              .first_failed_use = items[fails - 1].first_use});
    }
  }
  ResidencyPlan plan;
  plan.operations = impl_->commit();
  plan.placements.reserve(uses.size());
  for (const Use& use : uses) {
    Record& record = impl_->get(use.allocation);
    ++record.pins;
    if (use.write) {
      record.has_content = true;
      record.dirty = impl_->on_memory_side(record);
    }
    plan.placements.push_back(impl_->place_of(record));
  }
  impl_->policy.begin_submission();
  for (const Item& item : items) impl_->touch(*item.record);
  return plan;
}

bool MemoryManager::pin_resident(std::span<const Use> uses) {
  std::vector<Record*>& records = impl_->pinning;
  records.resize(std::max(records.size(), uses.size()));
  Record** const first = records.data();
  Record** next = first;
  for (const Use& use : uses) {
    Record& record = impl_->get(use.allocation);
    *next++ = &record;
    const SegmentSet allowed =
        use.write ? record.traits->supported_write : record.traits->supported_read;
    if (record.parked || !record.resident()) return false;
    if (record.pending != 0) return false;
    if ((allowed & segment_bit(record.segment())) == 0) return false;
  }
  impl_->policy.begin_submission();
  const bool learning = impl_->policy.learning();
  for (size_t i = 0; i < uses.size(); ++i) {
    Record& record = *first[i];
    if (uses[i].write) {
      record.has_content = true;
      record.dirty = impl_->on_memory_side(record);
    }
    // No allocation can want its place as long as it is pinned.
    record.used_again = record.pins != 0 && !learning;
    if (record.pins++ == 0 || learning) impl_->touch(record);
  }
  return true;
}

bool MemoryManager::fits_alone(std::span<const Use> uses,
                               std::span<const AllocationDesc> besides) const {
  impl_->begin_plan();
  return impl_->pack_alone(impl_->merge(uses), besides).has_value();
}

void MemoryManager::release(std::span<const Use> uses) {
  for (const Use& use : uses) {
    Record& record = impl_->get(use.allocation);
    DXGKIT_CHECK(record.pins > 0);
    --record.pins;
    if (use.write && !record.lost) {
      record.has_content = true;
      record.dirty = impl_->on_memory_side(record);
    }
    if (record.pins != 0) continue;
    record.lost = false;
    if (record.used_again) impl_->touch(record);
    record.used_again = false;
  }
}

void MemoryManager::pin(std::span<const Use> uses) {
  for (const Use& use : uses) {
    Record& record = impl_->get(use.allocation);
    DXGKIT_CHECK(record.pins > 0);
    ++record.pins;
  }
}

Result<std::vector<PagingOp>> MemoryManager::evict(AllocationId id) {
  Record& record = impl_->get(id);
  if (!record.resident()) return std::vector<PagingOp>{};
  if (!impl_->may_leave(record)) return Error(Status::kGraphicsAllocationBusy);
  impl_->begin_plan();
  impl_->leave(record);
  return impl_->commit();
}

Result<std::vector<PagingOp>> MemoryManager::evict_segment(SegmentId id, Pinned pinned) {
  Segment& where = impl_->segment(id);
  std::vector<Record*> all;
  all.reserve(where.allocations);
  for (auto range = where.ranges.first(); range != RangeIndex::kNone;
       range = where.ranges.next(range)) {
    const uint32_t owner = where.ranges.owner(range);
    if (owner == 0 || owner == Segment::kInvalid) continue;
    Record& record = impl_->records.of_owner(owner);
    const bool locked = record.locks > 0 && where.is_memory();
    const bool may_leave =
        pinned == Pinned::kLeave ? record.pins == 0 && !locked : where.may_leave(record);
    if (!may_leave) return Error(Status::kGraphicsAllocationBusy);
    all.push_back(&record);
  }
  impl_->begin_plan();
  impl_->why = trace::EvictionReason::kEmptied;
  for (Record* record : all) impl_->leave(*record);
  return impl_->commit();
}

Result<std::vector<PagingOp>> MemoryManager::purge(SegmentId id, uint64_t kept_bytes) {
  Segment& where = impl_->segment(id);
  std::vector<Record*> leaving;
  for (auto range = where.ranges.first(); range != RangeIndex::kNone;
       range = where.ranges.next(range)) {
    const uint32_t owner = where.ranges.owner(range);
    if (owner == 0 || owner == Segment::kInvalid) continue;
    if (where.ranges.offset(range) + where.ranges.size(range) <= kept_bytes) continue;
    Record& record = impl_->records.of_owner(owner);
    if (record.pins > 0) return Error(Status::kGraphicsAllocationBusy);
    if (record.locks > 0 && where.is_memory()) return Error(Status::kGraphicsAllocationBusy);
    leaving.push_back(&record);
  }
  impl_->begin_plan();
  impl_->why = trace::EvictionReason::kEmptied;
  for (Record* record : leaving) impl_->leave(*record);
  return impl_->commit();
}

std::vector<AllocationId> MemoryManager::lose_power(
    const std::function<uint64_t(SegmentId)>& kept_bytes) {
  std::vector<AllocationId> lost;
  impl_->begin_plan();
  impl_->records.for_each([&](Record& record) {
    const bool unfinished = record.pending > 0;
    const bool resident = record.resident();
    if (!unfinished && resident) {
      const Segment& where = impl_->segment(record.segment());
      const uint64_t end = impl_->place_of(record).offset_bytes + where.bytes_of(record.shape());
      if (end <= kept_bytes(record.segment())) return;
    }
    if (record.dirty || record.pending_out > 0) {
      record.has_content = false;
      if (record.offer != OfferPriority::kNone) {
        record.discarded = true;
      } else {
        lost.push_back(record.id);
      }
    }
    record.dirty = false;
    record.pending = record.pending_out = 0;
    if (!resident) return;
    record.lost = record.pins > 0;
    impl_->leave(record);
  });
  impl_->clear_journal();
  std::ranges::sort(lost);
  return lost;
}

void MemoryManager::operation_done(const PagingOp& op) {
  using Kind = PagingOp::Kind;
  static constexpr auto kEvents = [](Kind kind) {
    switch (kind) {
      case Kind::kTransferIn:
        return trace::EventKind::kPageIn;
      case Kind::kTransferOut:
        return trace::EventKind::kPageOut;
      case Kind::kMapAperture:
        return trace::EventKind::kApertureMapped;
      case Kind::kUnmapAperture:
        return trace::EventKind::kApertureUnmapped;
      case Kind::kFill:
      case Kind::kDiscard:
      case Kind::kInitContext:
      case Kind::kContentLost:
      case Kind::kNotifyResident:
      case Kind::kNotifyNotResident:
      case Kind::kNotifyEviction:
      case Kind::kWriteUp:
      case Kind::kWriteBack:
        break;
    }
    return trace::EventKind::kNone;
  };
  if (const trace::EventKind event = kEvents(op.kind); event != trace::EventKind::kNone) {
    trace::emit(event, op.allocation.value, op.place.segment.value, op.place.offset_bytes,
                op.size_bytes);
  }
  Record* const found = impl_->records.find(op.allocation);
  if (found == nullptr) return;  // the last operation of a destroyed allocation
  Record& record = *found;
  DXGKIT_CHECK(record.pending > 0);
  --record.pending;
  if (op.kind != Kind::kTransferOut && op.kind != Kind::kWriteBack) return;
  DXGKIT_CHECK(record.pending_out > 0);
  --record.pending_out;
}

LostContent MemoryManager::lose_memory_segments() {
  LostContent lost;
  impl_->begin_plan();
  impl_->records.for_each([&](Record& record) {
    const bool there = impl_->on_memory_side(record);
    // Content on its way out when the reset came was lost with the operation that carried it.
    if (!there && record.pending_out == 0) return;
    if (record.dirty || record.pending_out > 0) {
      record.has_content = false;
      record.discarded = record.offer != OfferPriority::kNone;
    }
    record.dirty = false;
    if (there) {
      record.lost = record.pins > 0;
      if (record.traits->notify_residency) {
        lost.operations.push_back(
            impl_->notice(PagingOp::Kind::kNotifyNotResident, record, impl_->place_of(record)));
      }
      lost.operations.push_back(
          impl_->notice(PagingOp::Kind::kContentLost, record, impl_->place_of(record)));
      impl_->leave(record);
    }
    lost.allocations.push_back(record.id);
  });
  impl_->clear_journal();
  std::ranges::sort(lost.allocations);
  std::ranges::stable_sort(lost.operations, {}, &PagingOp::allocation);
  for (const PagingOp& op : lost.operations) impl_->expect(impl_->get(op.allocation), op);
  return lost;
}

LostContent MemoryManager::lose_in_reset() {
  std::vector<AllocationId> on_their_way;
  impl_->records.for_each([&](Record& record) {
    if (record.pending_out > 0) {
      if (impl_->on_memory_side(record)) {
        record.dirty = true;  // as good as: the copy behind it is half made
      } else {
        record.has_content = false;
        record.discarded = record.offer != OfferPriority::kNone;
        record.dirty = false;
        on_their_way.push_back(record.id);
      }
    }
    record.pending = record.pending_out = 0;
  });
  LostContent lost = lose_memory_segments();
  lost.allocations.insert(lost.allocations.end(), on_their_way.begin(), on_their_way.end());
  std::ranges::sort(lost.allocations);
  impl_->begin_plan();
  impl_->why = trace::EvictionReason::kReset;
  impl_->records.for_each([&](Record& record) {
    if (!record.resident()) return;
    record.lost = record.pins > 0;
    impl_->leave(record);
  });
  const std::vector<PagingOp> unmaps = impl_->commit();
  lost.operations.insert(lost.operations.end(), unmaps.begin(), unmaps.end());
  return lost;
}

void MemoryManager::lock(AllocationId id) {
  Record& record = impl_->get(id);
  ++record.locks;
  impl_->update_victim(record);
  if (!impl_->on_memory_side(record)) return;
  if (record.traits->permanent_system_memory) return;
  record.has_content = true;  // the CPU may write through its window without a notice
  record.dirty = true;
}

bool MemoryManager::unlock(AllocationId id) {
  Record& record = impl_->get(id);
  if (record.locks == 0) return false;
  if (--record.locks == 0) impl_->touch(record);
  return true;
}

void MemoryManager::mark_cpu_written(AllocationId id) {
  Record& record = impl_->get(id);
  record.has_content = true;
  if (impl_->on_memory_side(record) && !record.traits->permanent_system_memory) record.dirty = true;
}

std::optional<PagingOp> MemoryManager::write_up(AllocationId id, const ByteRange& part) {
  Record& record = impl_->get(id);
  DXGKIT_CHECK(record.traits->permanent_system_memory);
  DXGKIT_CHECK(range_within(part.offset_bytes, part.size_bytes, record.size_bytes));
  DXGKIT_CHECK((part.offset_bytes | part.size_bytes) % kPageBytes == 0);
  if (!impl_->on_memory_side(record)) return std::nullopt;
  PagingOp op = impl_->notice(PagingOp::Kind::kWriteUp, record, impl_->place_of(record));
  op.content_offset_bytes = part.offset_bytes;
  op.size_bytes = part.size_bytes;
  impl_->expect(record, op);
  return op;
}

std::optional<PagingOp> MemoryManager::write_back(AllocationId id) {
  Record& record = impl_->get(id);
  DXGKIT_CHECK(record.traits->permanent_system_memory);
  if (!record.dirty) return std::nullopt;
  const PagingOp op = impl_->notice(PagingOp::Kind::kWriteBack, record, impl_->place_of(record));
  // Work in flight that writes makes it dirty again as it ends.
  record.dirty = false;
  impl_->expect(record, op);
  return op;
}

void MemoryManager::assume_written(AllocationId id) {
  Record& record = impl_->get(id);
  record.has_content = true;
  record.dirty = impl_->on_memory_side(record);
}

void MemoryManager::assume_clean(AllocationId id) {
  Record& record = impl_->get(id);
  if (record.locks == 0) record.dirty = false;
}

void MemoryManager::note_use(AllocationId id) { impl_->touch(impl_->get(id)); }

bool MemoryManager::contains(AllocationId id) const { return impl_->records.find(id) != nullptr; }
uint64_t MemoryManager::plans() const { return impl_->plan; }
Placement MemoryManager::placement(AllocationId id) const {
  return impl_->place_of(impl_->get(id));
}
AllocationDesc MemoryManager::description(AllocationId id) const {
  const Record& record = impl_->get(id);
  return record.traits->unpacked(record.size_bytes, record.priority);
}
bool MemoryManager::parked(AllocationId id) const { return impl_->get(id).parked; }
uint32_t MemoryManager::pin_count(AllocationId id) const { return impl_->get(id).pins; }
uint32_t MemoryManager::lock_count(AllocationId id) const { return impl_->get(id).locks; }
uint32_t MemoryManager::pending_operations(AllocationId id) const { return impl_->get(id).pending; }

std::optional<AllocationId> MemoryManager::at(SegmentId id, uint64_t offset_bytes) const {
  const Segment& where = impl_->segment(id);
  if (offset_bytes >= where.desc.size_bytes) return std::nullopt;
  const uint32_t owner = where.ranges.owner(where.ranges.at(offset_bytes));
  if (owner == 0 || owner == Segment::kInvalid) return std::nullopt;
  return impl_->records.of_owner(owner).id;
}

std::span<const SegmentDesc> MemoryManager::segments() const { return impl_->descs; }

SegmentUsage MemoryManager::usage(SegmentId id) const {
  const Segment& where = impl_->segment(id);
  return {.size_bytes = where.desc.size_bytes,
          .committed_bytes = where.committed,
          .free_bytes = where.ranges.free_bytes(),
          .largest_free_bytes = where.ranges.largest_free(),
          .allocations = where.allocations};
}

SegmentGroup MemoryManager::group_of(SegmentId id) const { return impl_->segment(id).desc.group; }

GroupUsage MemoryManager::group_usage(SegmentGroup group) const {
  GroupUsage total;
  for (const auto& where : impl_->segments) {
    if (where->desc.group != group || !where->desc.application_target) continue;
    total.size_bytes +=
        std::min(where->most_bytes(), where->desc.size_bytes - where->invalid_bytes);
    total.committed_bytes += where->committed;
  }
  return total;
}

const Statistics& MemoryManager::statistics() const { return impl_->statistics; }

bool MemoryManager::validate() const {
  for (const auto& where : impl_->segments) {
    if (!where->ranges.validate()) return false;
    uint64_t committed = 0;
    uint64_t invalid = 0;
    size_t count = 0;
    for (auto range = where->ranges.first(); range != RangeIndex::kNone;
         range = where->ranges.next(range)) {
      const uint32_t owner = where->ranges.owner(range);
      if (owner == 0) continue;
      if (owner == Segment::kInvalid) {
        invalid += where->ranges.size(range);
        continue;
      }
      const Record& record = impl_->records.of_owner(owner);
      if (!record.live) return false;
      if (record.range != range) return false;
      if (impl_->place_of(record) != where->at(where->ranges.offset(range))) return false;
      if (where->ranges.size(range) != where->bytes_of(record.shape())) return false;
      if (where->ranges.offset(range) % where->alignment_of(record.shape()) != 0) return false;
      committed += where->ranges.size(range);
      ++count;
    }
    if (committed != where->committed || count != where->allocations) return false;
    if (committed > where->most_bytes()) return false;
    if (invalid != where->invalid_bytes) return false;
    if (committed + invalid + where->ranges.free_bytes() != where->desc.size_bytes) return false;
  }
  size_t live = 0;
  bool valid = true;
  impl_->records.for_each([&](Record& record) {
    ++live;
    const bool resident = record.resident();
    valid = valid && resident == (record.range != RangeIndex::kNone);
    valid = valid && (record.pins == 0 || resident || record.lost);
    valid = valid && impl_->policy.is_in_group(victim(record)) == impl_->competes(record);
    valid = valid && (!record.dirty || impl_->on_memory_side(record));
    valid = valid && !record.journaled;
    valid = valid && record.pending_out <= record.pending;
    valid = valid && (!record.parked || (resident && !impl_->on_memory_side(record)));
  });
  return valid && live == impl_->records.live();
}

}  // namespace dxgkit::vidmm
