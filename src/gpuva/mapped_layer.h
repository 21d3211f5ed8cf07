// The content of the page tables of a space. Private to the module.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "gpuva/mapping_tree.h"
#include "gpuva/owner_ledger.h"
#include "gpuva/types.h"

namespace dxgkit::gpuva {

/// The mapped layer of an AddressSpace: a tree of ranges with packed values. A value holds the slot
/// of the allocation, the offset in it, and a number for everything else, because there are few
/// different values of the rest.
class MappedLayer {
 public:
  /// A larger allocation cannot be mapped.
  static constexpr uint64_t kAllocationPagesMost = uint64_t{1} << 42;

  explicit MappedLayer(uint64_t space_pages);

  /// Makes `mapping.span` a mapping. If the mapping needs no record, the span loses its present
  /// mappings. Spans that changed are appended, unless null.
  void map(const Mapping& mapping, PageSpans* changed);
  void unmap(PageSpan span, PageSpans* changed);
  void drop_allocation(AllocationId allocation, PageSpans* changed);

  std::optional<Mapping> at(uint64_t page) const;
  std::optional<Mapping> behind(uint64_t page) const;
  /// Appends the mappings, by address.
  void mappings_of(AllocationId allocation, std::vector<Mapping>* mappings) const;
  uint32_t count_of(AllocationId allocation) const;
  /// True if a mapping has a unique driver protection.
  bool has_unique() const { return unique_ > 0; }

  size_t size() const { return tree_.size(); }
  size_t bytes() const;
  size_t outside_heap() const { return tree_.outside_heap(); }
  bool validate() const;

 private:
  static constexpr uint32_t kOffsetBits = 42;
  static constexpr uint32_t kNone = ~uint32_t{0};

  /// The part of a mapping that other mappings share.
  struct Attribute {
    uint64_t driver_protection = 0, repeat_first = 0, repeat_pages = 0;
    Protection protection = {};
    bool has_allocation = false;
    auto key() const {
      return std::tuple(driver_protection, repeat_first, repeat_pages,
                        protection.write + 2 * protection.execute + 4 * protection.zero +
                            8 * protection.no_access + 16 * has_allocation);
    }
    bool operator==(const Attribute& other) const { return key() == other.key(); }
    bool operator<(const Attribute& other) const { return key() < other.key(); }
  };
  struct Shared {
    Attribute attribute;
    uint64_t uses = 0;
  };
  /// The Client of the tree.
  class Client {
   public:
    Client(MappedLayer& layer, PageSpans* cuts) : layer_(layer), cuts_(cuts) {}
    MappingTree::Value after(MappingTree::Value value, uint64_t k) const;
    bool continues(const MappingTree::Value& a, const MappingTree::Value& b) const;
    void added(const MappingTree::Entry& entry) { layer_.added(entry); }
    void gone(const MappingTree::Entry& entry) { layer_.gone(entry); }
    void moved(const MappingTree::Entry& old, const MappingTree::Entry& now) {
      layer_.moved(old, now);
    }
    bool wants_cuts() const { return cuts_ != nullptr; }
    void cut(uint64_t first, uint64_t end) { cuts_->push_back({first, end - first}); }

   private:
    MappedLayer& layer_;
    PageSpans* cuts_;
  };

  static uint32_t slot_of_value(const MappingTree::Value& value) {
    return static_cast<uint32_t>(value.where >> kOffsetBits);
  }
  static uint64_t offset_of_value(const MappingTree::Value& value) {
    return value.where & ((uint64_t{1} << kOffsetBits) - 1);
  }
  void added(const MappingTree::Entry& entry);
  void gone(const MappingTree::Entry& entry);
  void moved(const MappingTree::Entry& old, const MappingTree::Entry& now);
  void release(uint32_t attribute) {
    if (--shared_[attribute].uses == 0) forget(attribute);
  }
  void forget(uint32_t attribute);
  uint32_t intern(const Attribute& attribute);
  Mapping to_mapping(const MappingTree::Entry& entry) const;
  bool belongs(const MappingTree::Value& value, uint32_t slot) const;
  template <typename Visit>
  void visit_window(uint32_t slot, uint32_t window, Visit visit) const;
  std::vector<uint32_t> clean(uint32_t slot) const;
  void clean_crowded() {
    if (owners_.any_crowded()) clean_all_crowded();
  }
  void clean_all_crowded();

  MappingTree tree_;
  mutable OwnerLedger owners_;  // reading an owner's mappings cleans its hints
  std::vector<Shared> shared_;
  std::vector<uint32_t> shared_free_;
  std::map<Attribute, uint32_t> shared_by_value_;
  uint32_t last_shared_ = kNone;
  uint64_t unique_ = 0;       // mappings with a unique driver protection
  uint32_t window_bits_ = 0;  // of a hint
};

void normalise_many(PageSpans* spans, size_t first);
/// Sorts the spans from `first` on, and joins spans that touch or overlap.
inline void normalise(PageSpans* spans, size_t first) {
  if (spans->size() - first > 1) normalise_many(spans, first);
}

}  // namespace dxgkit::gpuva
