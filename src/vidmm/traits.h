// Descriptions that several allocations share, stored once. Private to the module.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <unordered_map>

#include "base/check.h"
#include "vidmm/types.h"

namespace dxgkit::vidmm {

/// An AllocationDesc without its size and priority. Drivers describe a million allocations in a few
/// ways. The values are checked already: the alignment is a power of two, and there are at most 32
/// preferred segments.
class Traits {
 public:
  explicit Traits(const AllocationDesc& desc)
      : pitch_aligned_size_bytes(desc.pitch_aligned_size_bytes),
        supported_read(desc.supported_read),
        supported_write(desc.supported_write),
        eviction(desc.eviction),
        pinned(desc.pinned),
        unmoveable(desc.unmoveable),
        last_fifth(desc.last_fifth),
        context_resource(desc.context_resource),
        notify_residency(desc.notify_residency),
        notify_eviction(desc.notify_eviction),
        permanent_system_memory(desc.permanent_system_memory),
        from_end_of_segment_(desc.from_end_of_segment),
        cpu_visible_(desc.cpu_visible),
        cached_(desc.cached),
        alignment_shift_(static_cast<uint8_t>(std::countr_zero(desc.alignment_bytes))) {
    for (size_t i = 0; i < preferred_.size(); ++i) {
      const SegmentPreference& preference = desc.preferred[i];
      preferred_[i] = static_cast<uint8_t>(preference.segment.value << 1 | bit(preference.from));
    }
    for (size_t i = 0; i < banks_.size(); ++i) {
      // No segment has more banks, so a larger number names no bank either way.
      const uint32_t bank = std::min(desc.banks[i].bank, kBankMost);
      banks_[i] = bank << 1 | bit(desc.banks[i].from);
    }
  }
  bool operator==(const Traits&) const = default;

  AllocationDesc unpacked(uint64_t size_bytes, uint32_t priority) const {
    AllocationDesc desc{.size_bytes = size_bytes,
                        .alignment_bytes = alignment_bytes(),
                        .pitch_aligned_size_bytes = pitch_aligned_size_bytes,
                        .supported_read = supported_read,
                        .supported_write = supported_write,
                        .eviction = eviction,
                        .preferred = {},
                        .banks = {},
                        .priority = priority,
                        .from_end_of_segment = from_end_of_segment_,
                        .cpu_visible = cpu_visible_,
                        .cached = cached_,
                        .permanent_system_memory = permanent_system_memory,
                        .pinned = pinned,
                        .unmoveable = unmoveable,
                        .last_fifth = last_fifth,
                        .context_resource = context_resource,
                        .notify_residency = notify_residency,
                        .notify_eviction = notify_eviction};
    for (size_t i = 0; i < preferred_.size(); ++i)
      desc.preferred[i] = {SegmentId{uint32_t{preferred_[i]} >> 1}, from_of(preferred_[i])};
    for (size_t i = 0; i < banks_.size(); ++i) desc.banks[i] = {banks_[i] >> 1, from_of(banks_[i])};
    return desc;
  }
  uint64_t alignment_bytes() const { return uint64_t{1} << alignment_shift_; }
  size_t hash() const {
    uint64_t mixed = 0;
    const auto add = [&](uint64_t value) {
      mixed = (mixed ^ value) * 0x9E3779B97F4A7C15ULL;
      mixed ^= mixed >> 32;
    };
    add(pitch_aligned_size_bytes);
    add(uint64_t{supported_read} << 32 | supported_write);
    add(uint64_t{eviction} << 32 | uint32_t{alignment_shift_} << 16 | uint32_t{unmoveable} << 2 |
        uint32_t{pinned} << 1 | uint32_t{last_fifth});
    for (const uint8_t preference : preferred_) add(preference);
    for (const uint32_t bank : banks_) add(bank);
    return mixed;
  }

  uint64_t pitch_aligned_size_bytes = 0;
  SegmentSet supported_read = 0;
  SegmentSet supported_write = 0;
  SegmentSet eviction = 0;
  bool pinned : 1 = false;
  bool unmoveable : 1 = false;
  bool last_fifth : 1 = false;
  bool context_resource : 1 = false;
  bool notify_residency : 1 = false;
  bool notify_eviction : 1 = false;
  bool permanent_system_memory : 1 = false;

 private:
  static constexpr uint32_t kBankMost = 0x7FFFFFFF;
  static uint32_t bit(SearchFrom from) { return from == SearchFrom::kTop ? 1 : 0; }
  static SearchFrom from_of(uint32_t packed) {
    return (packed & 1) != 0 ? SearchFrom::kTop : SearchFrom::kBottom;
  }
  bool from_end_of_segment_ : 1 = false;
  bool cpu_visible_ : 1 = false;
  bool cached_ : 1 = false;
  uint8_t alignment_shift_ = 12;
  std::array<uint8_t, 5> preferred_{};  // segment << 1 | from the top
  std::array<uint32_t, 4> banks_{};     // bank << 1 | from the top
};

/// Each kind of traits once, as long as it is in use. Never iterated.
class TraitsTable {
 public:
  /// The entry stays where it is until it is dropped as often as it was taken.
  const Traits* take(const Traits& traits) {
    const auto found = counts_.try_emplace(traits, 0).first;
    ++found->second;
    return &found->first;
  }
  void drop(const Traits* traits) {
    const auto found = counts_.find(*traits);
    DXGKIT_CHECK(found != counts_.end() && &found->first == traits);
    if (--found->second == 0) counts_.erase(found);
  }

 private:
  struct Hash {
    size_t operator()(const Traits& traits) const { return traits.hash(); }
  };
  std::unordered_map<Traits, size_t, Hash> counts_;
};

/// The part of a description that decides how much room an allocation takes and where it may begin.
struct Shape {
  Shape(const AllocationDesc& desc)  // NOLINT: a description is one
      : size_bytes(desc.size_bytes),
        alignment_bytes(desc.alignment_bytes),
        pitch_aligned_size_bytes(desc.pitch_aligned_size_bytes),
        last_fifth(desc.last_fifth) {}
  Shape(uint64_t bytes, const Traits& traits)
      : size_bytes(bytes),
        alignment_bytes(traits.alignment_bytes()),
        pitch_aligned_size_bytes(traits.pitch_aligned_size_bytes),
        last_fifth(traits.last_fifth) {}
  uint64_t size_bytes, alignment_bytes, pitch_aligned_size_bytes;
  bool last_fifth;
};

}  // namespace dxgkit::vidmm
