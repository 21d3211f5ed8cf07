// Changes of allocations' lists of mappings, written down late. Private to the module.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gpuva/owner_table.h"

namespace dxgkit::gpuva {

/// Owners, and the changes still to be written into them. A change of a range usually concerns
/// allocations that have not been touched for long. So their memory is prefetched at once and
/// written some changes later. A reader sees all changes.
class OwnerLedger {
 public:
  /// A mapping of `slot` begins, ends or moves its start. Changes are applied in the order of the
  /// calls.
  void come(uint32_t slot, uint32_t window) { note({slot, Kind::kCome, 0, window}); }
  void go(uint32_t slot, uint32_t window) { note({slot, Kind::kGo, window, 0}); }
  void move(uint32_t slot, uint32_t from, uint32_t to) { note({slot, Kind::kMove, from, to}); }

  /// The owners, with all changes applied.
  OwnerTable& settled() {
    while (written_ != noted_) write();
    return owners_;
  }
  AllocationId id_of(uint32_t slot) const { return owners_.id_of(slot); }
  AllocationId& id_at(uint32_t slot) { return owners_.id_at(slot); }
  size_t bytes() const { return owners_.bytes() + crowded_.capacity() * sizeof(uint32_t); }

  /// Owners that had too many hints at some time.
  bool any_crowded() const { return !crowded_.empty(); }
  std::vector<uint32_t>& crowded() { return crowded_; }

 private:
  enum class Kind : uint32_t { kCome, kGo, kMove };
  struct Event {
    uint32_t slot;
    Kind kind;
    uint32_t from, to;
  };
  // Enough time to fetch memory twice: a word that says where the list is, and the list.
  static constexpr uint32_t kRing = 16;
  static constexpr uint32_t kBeforeList = 4;
  static constexpr uint32_t kBeforeWriting = 8;

  void note(const Event& event) {
    owners_.expect(event.slot);
    events_[noted_++ % kRing] = event;
    if (noted_ - written_ > kBeforeList)
      owners_.expect_list(events_[(noted_ - kBeforeList) % kRing].slot);
    if (noted_ - written_ > kBeforeWriting) write();
  }
  void write() {
    const Event& event = events_[written_++ % kRing];
    MappingOwner& owner = owners_.at(event.slot);
    switch (event.kind) {
      case Kind::kCome:
        owner.come(event.to);
        break;
      case Kind::kGo:
        return owner.go(event.from);
      case Kind::kMove:
        owner.move(event.from, event.to);
        break;
    }
    if (owner.worth_cleaning()) crowded_.push_back(event.slot);
  }

  OwnerTable owners_;
  std::array<Event, kRing> events_{};
  uint32_t noted_ = 0, written_ = 0;  // numbers of events since the beginning
  std::vector<uint32_t> crowded_;
};

}  // namespace dxgkit::gpuva
