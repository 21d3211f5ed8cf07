// Random work on the memory manager, with every plan really carried out on pages that carry tags.
// Content must always be what its owner wrote last, a page must never show another owner's bytes,
// and what is pinned must stand still. For the model test and the fuzzer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/arithmetic.h"
#include "tests/support/choices.h"
#include "vidmm/memory_manager.h"

namespace dxgkit::vidmm {

inline constexpr uint64_t kNothing = 0;  // a page of zeros

class World {
 public:
  explicit World(testing::Choices choices) : random_(choices) {
    const uint32_t count = 1 + below(4);
    for (uint32_t s = 1; s <= count; ++s) {
      SegmentDesc desc;
      desc.id = SegmentId{s};
      desc.kind = s > 1 && below(2) == 0 ? SegmentKind::kAperture : SegmentKind::kMemory;
      desc.base_address = s * (uint64_t{1} << 32);
      desc.size_bytes = (16 + below(48)) * kPageBytes;
      desc.commit_limit_bytes = desc.size_bytes;
      if (desc.kind == SegmentKind::kAperture) {
        desc.commit_limit_bytes -= below(12) * kPageBytes;
      } else if (below(3) == 0) {
        desc.bank_end_offsets = {4 * kPageBytes, 9 * kPageBytes, desc.size_bytes};
      }
      desc.pitch_alignment = below(4) == 0;
      if (desc.kind == SegmentKind::kMemory && below(3) == 0) {  // SEG-45
        const uint64_t bad = 2 + below(6);
        desc.invalid_ranges = {{bad * kPageBytes, 2 * kPageBytes},
                               {(bad + 5) * kPageBytes, kPageBytes}};
      }
      segments_.push_back(desc);
      // Segment memory starts dirty: what is not filled or copied would show.
      pages_[s].assign(desc.size_bytes / kPageBytes, kGarbage);
      mapped_[s].assign(desc.size_bytes / kPageBytes, 0);
    }
    memory_ = std::make_unique<MemoryManager>(segments_);
  }

  void step() {
    switch (below(16)) {
      case 0:
      case 1:
        create();
        break;
      case 2:
        destroy();
        break;
      case 3:
      case 4:
      case 5:
      case 6:
      case 7:
        submit();
        break;
      case 8:
      case 9:
      case 10:
        retire();
        break;
      case 11:
        cpu_access();
        break;
      case 12:
        unlock();
        break;
      case 13:
        evict_one();
        break;
      case 14:
        reprioritise();
        break;
      case 15:
        if (below(12) == 0) evict_whole_segment();
        if (below(60) == 0) reset();
        break;
    }
    ASSERT_TRUE(memory_->validate());
    check();
  }
  size_t plans() const { return plans_; }
  size_t refusals() const { return refusals_; }
  size_t parked() const { return parked_; }

  /// All pins and locks gone: whatever was refused as busy must now be placed, so many times over.
  void drain(int rounds = 40) {
    while (!in_flight_.empty()) retire();
    for (auto& [id, allocation] : allocations_) {
      for (; allocation.locks > 0; --allocation.locks)
        ASSERT_TRUE(memory_->unlock(AllocationId{id}));
    }
    for (int i = 0; i < rounds; ++i) {
      const std::vector<Use> uses = some_uses();
      if (uses.empty()) continue;
      const auto plan = memory_->make_resident(uses);
      if (!plan.has_value()) {
        ASSERT_EQ(plan.error().status, Status::kGraphicsNoVideoMemory)
            << "busy, although nothing holds anything";
        continue;
      }
      carry_out(plan->operations);
      memory_->release(uses);
      wrote(uses);
    }
    std::vector<uint64_t> ids;
    for (const auto& [id, allocation] : allocations_) ids.push_back(id);
    for (const uint64_t id : ids) {
      const auto ops = memory_->destroy(AllocationId{id});
      ASSERT_TRUE(ops.has_value());
      carry_out(*ops);
    }
    for (const SegmentDesc& segment : segments_) {
      uint64_t free = segment.size_bytes;
      for (const ByteRange& bad : segment.invalid_ranges) free -= bad.size_bytes;
      EXPECT_EQ(memory_->usage(segment.id).free_bytes, free);
      EXPECT_EQ(memory_->usage(segment.id).committed_bytes, 0U);
    }
  }

  /// The choices that came from a fuzzer are used up.
  bool exhausted() const { return random_.exhausted(); }

 private:
  static constexpr uint64_t kGarbage = ~uint64_t{0};

  struct Allocation {
    AllocationDesc desc;
    uint64_t pages = 0;
    std::vector<uint64_t> backing;   // tags in the backing pages
    std::vector<uint64_t> expected;  // what its owner must read
    uint32_t locks = 0;
    uint32_t pins = 0;
    Placement pinned_at;
    bool only_there = false;   // its memory segment may hold what the backing pages do not
    bool initialised = false;  // a context resource whose driver has written it
    bool told_resident = false;
  };

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  std::optional<uint64_t> any() {
    if (allocations_.empty()) return std::nullopt;
    auto it = allocations_.begin();
    std::advance(it, below(static_cast<uint32_t>(allocations_.size())));
    return it->first;
  }

  void create() {
    if (allocations_.size() >= 24) return;
    Allocation allocation;
    AllocationDesc& desc = allocation.desc;
    allocation.pages = 1 + (below(6) == 0 ? below(30) : below(8));
    desc.size_bytes = allocation.pages * kPageBytes - below(kPageBytes);
    desc.alignment_bytes = kPageBytes << (below(4) == 0 ? below(3) : 0);
    if (below(4) == 0) desc.pitch_aligned_size_bytes = (allocation.pages + below(3)) * kPageBytes;
    const uint32_t all = (1U << segments_.size()) - 1;
    desc.supported_read = 1 + below(all);
    desc.supported_write = below(3) == 0 ? 1 + below(all) : desc.supported_read;
    for (auto& preference : desc.preferred) {
      if (below(3) != 0) continue;
      preference = {SegmentId{1 + below(static_cast<uint32_t>(segments_.size()))},
                    below(2) == 0 ? SearchFrom::kBottom : SearchFrom::kTop};
    }
    for (auto& bank : desc.banks) {
      bank = {below(4), below(2) == 0 ? SearchFrom::kBottom : SearchFrom::kTop};
    }
    desc.priority = 0x78000000 + below(3);
    desc.from_end_of_segment = below(3) == 0;
    for (const SegmentDesc& segment : segments_) {
      if (segment.kind == SegmentKind::kAperture && below(2) == 0)
        desc.eviction |= segment_bit(segment.id);
    }
    desc.last_fifth = below(8) == 0;
    desc.context_resource = below(6) == 0;
    desc.notify_residency = below(4) == 0;
    desc.notify_eviction = below(4) == 0;
    allocation.backing.assign(allocation.pages, kNothing);
    allocation.expected = allocation.backing;
    const uint64_t id = next_id_++;
    if (is_success(memory_->create(AllocationId{id}, desc))) {
      allocations_[id] = std::move(allocation);
    } else {
      ASSERT_FALSE(memory_->contains(AllocationId{id}));
    }
  }

  void destroy() {
    const auto id = any();
    if (!id.has_value()) return;
    const Allocation& allocation = allocations_.at(*id);
    const auto ops = memory_->destroy(AllocationId{*id});
    ASSERT_EQ(ops.has_value(), allocation.pins == 0 && allocation.locks == 0);
    if (ops.has_value()) carry_out(*ops);
  }

  std::vector<Use> some_uses() {
    std::vector<Use> uses;
    for (uint32_t n = 1 + below(5); n-- > 0;) {
      if (const auto id = any()) uses.push_back({AllocationId{*id}, below(2) == 0});
    }
    return uses;
  }

  std::map<uint64_t, Placement> places() const {
    std::map<uint64_t, Placement> found;
    for (const auto& [id, allocation] : allocations_) {
      found[id] = memory_->placement(AllocationId{id});
    }
    return found;
  }

  void submit() {
    const std::vector<Use> uses = some_uses();
    if (uses.empty()) return;
    const auto before = places();
    const auto plan = memory_->make_resident(uses);
    if (!plan.has_value()) {
      ++refusals_;
      ASSERT_EQ(places(), before) << "a refusal moved something";
      ASSERT_LT(plan.error().first_failed_use, uses.size());
      check_refusal(uses, plan.error());
      return;
    }
    ++plans_;
    carry_out(plan->operations);
    ASSERT_EQ(plan->placements.size(), uses.size());
    for (size_t i = 0; i < uses.size(); ++i) {
      Allocation& allocation = allocations_.at(uses[i].allocation.value);
      const Placement place = memory_->placement(uses[i].allocation);
      ASSERT_EQ(plan->placements[i], place);
      const SegmentSet allowed =
          uses[i].write ? allocation.desc.supported_write : allocation.desc.supported_read;
      ASSERT_NE(allowed & segment_bit(place.segment), 0U) << "outside its set";
      ASSERT_EQ(place.gpu_address,
                segments_[place.segment.value - 1].base_address + place.offset_bytes);
      if (allocation.pins++ == 0) allocation.pinned_at = place;
    }
    check();  // the GPU reads before it writes
    wrote(uses);
    in_flight_.push_back(uses);
    if (in_flight_.size() > 3) retire();
  }

  /// kGraphicsNoVideoMemory is simple to decide for one allocation. For the rest, kBusy needs an
  /// allocation in the way.
  void check_refusal(const std::vector<Use>& uses, const ResidencyFailure& failure) {
    bool held = false;
    for (const auto& [id, allocation] : allocations_) {
      held = held || allocation.pins > 0 || allocation.locks > 0;
    }
    if (failure.status == Status::kGraphicsAllocationBusy) {
      ASSERT_TRUE(held);
      return;
    }
    ASSERT_EQ(failure.status, Status::kGraphicsNoVideoMemory);
    if (uses.size() != 1) return;
    const Allocation& allocation = allocations_.at(uses[0].allocation.value);
    const SegmentSet allowed =
        uses[0].write ? allocation.desc.supported_write : allocation.desc.supported_read;
    for (const SegmentDesc& segment : segments_) {
      const bool permitted = (allowed & segment_bit(segment.id)) != 0;
      ASSERT_FALSE(permitted && fits_empty(allocation, segment)) << "it fits an empty segment";
    }
  }
  static bool fits_empty(const Allocation& allocation, const SegmentDesc& segment) {
    const uint64_t bytes = bytes_in(allocation, segment);
    if (bytes > segment.commit_limit_bytes) return false;
    const uint64_t lowest =
        allocation.desc.last_fifth ? segment.size_bytes - segment.size_bytes / 5 : 0;
    for (uint64_t at = 0; at + bytes <= segment.size_bytes; at += allocation.desc.alignment_bytes) {
      const bool usable = std::ranges::none_of(segment.invalid_ranges, [&](const ByteRange& bad) {
        return at < bad.offset_bytes + bad.size_bytes && bad.offset_bytes < at + bytes;
      });
      if (at >= lowest && usable) return true;
    }
    return false;
  }
  static uint64_t bytes_in(const Allocation& allocation, const SegmentDesc& segment) {
    const bool pitched = segment.pitch_alignment && allocation.desc.pitch_aligned_size_bytes != 0;
    return align_up(pitched ? allocation.desc.pitch_aligned_size_bytes : allocation.desc.size_bytes,
                    kPageBytes);
  }

  void retire() {
    if (in_flight_.empty()) return;
    const std::vector<Use> uses = in_flight_.front();
    in_flight_.erase(in_flight_.begin());
    memory_->release(uses);
    for (const Use& use : uses) --allocations_.at(use.allocation.value).pins;
  }

  uint64_t& page(const Allocation& allocation, const Placement& place, uint64_t i,
                 std::vector<uint64_t>& backing) {
    static_cast<void>(allocation);
    if (place.segment == kSystemMemory) return backing[i];
    const uint32_t s = place.segment.value;
    const uint64_t at = place.offset_bytes / kPageBytes + i;
    if (segments_[s - 1].kind == SegmentKind::kAperture) return backing[i];
    return pages_[s][at];
  }

  /// The owner writes new tags, through wherever its allocation is.
  void write(uint64_t id) {
    Allocation& allocation = allocations_.at(id);
    const Placement place = memory_->placement(AllocationId{id});
    for (uint64_t i = 0; i < allocation.pages; ++i) {
      allocation.expected[i] = next_tag_++;
      allocation.only_there =
          allocation.only_there ||
          &page(allocation, place, i, allocation.backing) != &allocation.backing[i];
      page(allocation, place, i, allocation.backing) = allocation.expected[i];
    }
  }
  void wrote(const std::vector<Use>& uses) {
    for (const Use& use : uses) {
      if (use.write) write(use.allocation.value);
    }
  }

  void cpu_access() {
    const auto id = any();
    if (!id.has_value()) return;
    memory_->lock(AllocationId{*id});
    Allocation& allocation = allocations_.at(*id);
    ++allocation.locks;
    const SegmentId where = memory_->placement(AllocationId{*id}).segment;
    const bool in_memory =
        where != kSystemMemory && segments_[where.value - 1].kind == SegmentKind::kMemory;
    allocation.only_there = allocation.only_there || in_memory;
    if (below(2) == 0) return;
    // Backing pages: the caller says so. A memory segment: the lock alone must be warning enough.
    if (!in_memory) memory_->mark_cpu_written(AllocationId{*id});
    write(*id);
  }
  void unlock() {
    const auto id = any();
    if (!id.has_value()) return;
    Allocation& allocation = allocations_.at(*id);
    ASSERT_EQ(memory_->unlock(AllocationId{*id}), allocation.locks > 0);
    if (allocation.locks > 0) --allocation.locks;
  }

  bool held_in(const Allocation& allocation, SegmentId where) const {
    if (allocation.pins > 0) return true;
    return allocation.locks > 0 && segments_[where.value - 1].kind == SegmentKind::kMemory;
  }
  void evict_one() {
    const auto id = any();
    if (!id.has_value()) return;
    const SegmentId where = memory_->placement(AllocationId{*id}).segment;
    const auto ops = memory_->evict(AllocationId{*id});
    if (where == kSystemMemory) {
      ASSERT_TRUE(ops.has_value() && ops->empty());
      return;
    }
    ASSERT_EQ(ops.has_value(), !held_in(allocations_.at(*id), where));
    if (ops.has_value()) carry_out(*ops);
  }
  void evict_whole_segment() {
    const SegmentId where{1 + below(static_cast<uint32_t>(segments_.size()))};
    bool held = false;
    for (const auto& [id, allocation] : allocations_) {
      if (memory_->placement(AllocationId{id}).segment != where) continue;
      held = held || held_in(allocation, where);
    }
    const auto ops = memory_->evict_segment(where);
    ASSERT_EQ(ops.has_value(), !held);
    if (!ops.has_value()) return;
    carry_out(*ops);
    ASSERT_EQ(memory_->usage(where).allocations, 0U);
  }
  void reprioritise() {
    if (const auto id = any()) memory_->set_priority(AllocationId{*id}, 0x78000000 + below(3));
  }

  /// An adapter reset: packets are gone, memory segments hold garbage, backing pages survive.
  void reset() {
    std::vector<AllocationId> there;
    for (auto& [id, allocation] : allocations_) {
      const Placement place = memory_->placement(AllocationId{id});
      if (place.segment == kSystemMemory) continue;
      if (segments_[place.segment.value - 1].kind == SegmentKind::kAperture) continue;
      there.push_back(AllocationId{id});
    }
    const Statistics before = memory_->statistics();
    const LostContent lost = memory_->lose_memory_segments();
    ASSERT_EQ(lost.allocations, there);
    for (const PagingOp& op : lost.operations) {
      Allocation& allocation = allocations_.at(op.allocation.value);
      if (op.kind == PagingOp::Kind::kNotifyNotResident) {
        ASSERT_TRUE(std::exchange(allocation.told_resident, false));
      }
      memory_->operation_done(op);
    }
    ASSERT_EQ(memory_->statistics().page_outs, before.page_outs);
    for (auto& [s, pages] : pages_) std::ranges::fill(pages, kGarbage);
    for (const AllocationId id : there) {
      Allocation& allocation = allocations_.at(id.value);
      ASSERT_EQ(memory_->placement(id), Placement{});
      // Written (or open to the CPU) since it came in: lost, and it starts again from zeros. Else
      // the backing pages have it.
      if (std::exchange(allocation.only_there, false)) {
        allocation.backing.assign(allocation.pages, kNothing);
        allocation.expected = allocation.backing;
        allocation.initialised = false;
      }
    }
    while (!in_flight_.empty()) retire();
  }

  /// Executes operations one by one, exactly as their kind says.
  void carry_out(const std::vector<PagingOp>& ops) {
    using Kind = PagingOp::Kind;
    for (const PagingOp& op : ops) {
      Allocation& allocation = allocations_.at(op.allocation.value);
      const uint32_t s = op.place.segment.value;
      const uint64_t first = op.place.offset_bytes / kPageBytes;
      ASSERT_TRUE(range_within(op.place.offset_bytes, op.size_bytes, segments_[s - 1].size_bytes));
      const bool aperture = segments_[s - 1].kind == SegmentKind::kAperture;
      if (op.kind == Kind::kNotifyResident || op.kind == Kind::kNotifyNotResident) {
        ASSERT_TRUE(allocation.desc.notify_residency);
        ASSERT_NE(std::exchange(allocation.told_resident, !allocation.told_resident),
                  op.kind == Kind::kNotifyResident);
        memory_->operation_done(op);
        continue;
      }
      if (op.kind == Kind::kNotifyEviction) {
        ASSERT_TRUE(allocation.desc.notify_eviction && aperture);
        memory_->operation_done(op);
        continue;
      }
      if (op.kind == Kind::kInitContext) {
        ASSERT_TRUE(allocation.desc.context_resource);
        ASSERT_FALSE(std::exchange(allocation.initialised, true)) << "its content is there";
        allocation.only_there = !aperture;
        for (uint64_t i = 0; i < allocation.pages; ++i) {
          allocation.expected[i] = next_tag_++;
          (aperture ? allocation.backing[i] : pages_[s][first + i]) = allocation.expected[i];
        }
        memory_->operation_done(op);
        continue;
      }
      ASSERT_EQ(aperture, op.kind == Kind::kMapAperture || op.kind == Kind::kUnmapAperture);
      const bool whole = op.kind == Kind::kFill || op.kind == Kind::kDiscard;
      ASSERT_EQ(op.size_bytes,
                whole ? bytes_in(allocation, segments_[s - 1]) : allocation.pages * kPageBytes);
      if (op.kind == Kind::kFill) {
        ASSERT_FALSE(allocation.desc.context_resource);
      }
      for (uint64_t i = 0; i < op.size_bytes / kPageBytes; ++i) {
        uint64_t& in_segment = pages_[s][first + i];
        uint64_t& owner = mapped_[s][first + i];
        switch (op.kind) {
          case Kind::kFill:
            in_segment = kNothing;
            break;
          case Kind::kTransferIn:
            in_segment = allocation.backing[i];
            break;
          case Kind::kTransferOut:
            allocation.backing[i] = in_segment;
            allocation.only_there = false;
            if (op.backing.segment != kSystemMemory) {
              const uint64_t shown = op.backing.offset_bytes / kPageBytes + i;
              ASSERT_EQ(mapped_[op.backing.segment.value][shown], op.allocation.value);
              ++parked_;
            }
            break;
          case Kind::kDiscard:
            break;
          case Kind::kMapAperture:
            ASSERT_EQ(owner, 0U) << "mapped over somebody";
            owner = op.allocation.value;
            break;
          case Kind::kUnmapAperture:
            ASSERT_EQ(owner, op.allocation.value);
            owner = 0;
            break;
          default:
            FAIL() << "handled above";
        }
      }
      memory_->operation_done(op);
    }
    for (const PagingOp& op : ops) {
      if (!memory_->contains(op.allocation)) allocations_.erase(op.allocation.value);
    }
    std::erase_if(allocations_,
                  [&](const auto& entry) { return !memory_->contains(AllocationId{entry.first}); });
  }

  void check() {
    std::erase_if(allocations_,
                  [&](const auto& entry) { return !memory_->contains(AllocationId{entry.first}); });
    for (auto& [id, allocation] : allocations_) {
      const Placement place = memory_->placement(AllocationId{id});
      ASSERT_EQ(memory_->pin_count(AllocationId{id}), allocation.pins);
      ASSERT_EQ(memory_->lock_count(AllocationId{id}), allocation.locks);
      ASSERT_EQ(memory_->pending_operations(AllocationId{id}), 0U);
      if (allocation.desc.notify_residency) {
        const bool parked = memory_->parked(AllocationId{id});
        ASSERT_EQ(allocation.told_resident, place.segment != kSystemMemory && !parked);
      }
      if (allocation.pins > 0) {
        ASSERT_EQ(place, allocation.pinned_at) << "a pinned one moved";
      }
      for (uint64_t i = 0; i < allocation.pages; ++i) {
        ASSERT_EQ(page(allocation, place, i, allocation.backing), allocation.expected[i])
            << "allocation " << id << " page " << i;
      }
      if (place.segment == kSystemMemory) continue;
      for (const ByteRange& bad : segments_[place.segment.value - 1].invalid_ranges) {
        const uint64_t bytes = bytes_in(allocation, segments_[place.segment.value - 1]);
        ASSERT_TRUE(place.offset_bytes >= bad.offset_bytes + bad.size_bytes ||
                    bad.offset_bytes >= place.offset_bytes + bytes)
            << "in bad memory";
      }
      if (allocation.desc.last_fifth) {
        const uint64_t size = segments_[place.segment.value - 1].size_bytes;
        ASSERT_GE(place.offset_bytes, size - size / 5);
      }
      ASSERT_EQ(memory_->at(place.segment, place.offset_bytes), AllocationId{id});
      for (const auto& [other_id, other] : allocations_) {
        const Placement there = memory_->placement(AllocationId{other_id});
        if (other_id <= id || there.segment != place.segment) continue;
        const SegmentDesc& segment = segments_[place.segment.value - 1];
        ASSERT_TRUE(place.offset_bytes + bytes_in(allocation, segment) <= there.offset_bytes ||
                    there.offset_bytes + bytes_in(other, segment) <= place.offset_bytes)
            << "overlap";
      }
    }
  }

  testing::Choices random_;
  std::vector<SegmentDesc> segments_;
  std::unique_ptr<MemoryManager> memory_;
  std::map<uint32_t, std::vector<uint64_t>> pages_;   // tags of segment memory
  std::map<uint32_t, std::vector<uint64_t>> mapped_;  // apertures: the mapped allocation
  std::map<uint64_t, Allocation> allocations_;
  std::vector<std::vector<Use>> in_flight_;
  uint64_t next_id_ = 1, next_tag_ = 1;
  size_t plans_ = 0, refusals_ = 0, parked_ = 0;
};

}  // namespace dxgkit::vidmm
