#include "gpuva/mapped_layer.h"

#include <algorithm>

#include "base/check.h"

namespace dxgkit::gpuva {

using Entry = MappingTree::Entry;
using Value = MappingTree::Value;

MappedLayer::MappedLayer(uint64_t space_pages) {
  // As narrow as 32 bits allow: 64 KiB in a space of 48 bits.
  const auto bits = static_cast<uint32_t>(std::bit_width(space_pages - 1));
  window_bits_ = bits > 32 ? bits - 32 : 0;
}

Value MappedLayer::Client::after(Value value, uint64_t k) const {
  const Attribute& attribute = layer_.shared_[value.attribute].attribute;
  if (!attribute.has_allocation) return value;
  if (attribute.repeat_pages == 0) {
    value.where += k;
    return value;
  }
  const uint64_t offset = offset_of_value(value);
  const uint64_t phase = (offset - attribute.repeat_first + k) % attribute.repeat_pages;
  value.where += attribute.repeat_first + phase - offset;
  return value;
}

bool MappedLayer::Client::continues(const Value& a, const Value& b) const {
  return a.attribute == b.attribute && after(a, a.pages).where == b.where;
}

void MappedLayer::added(const Entry& entry) {
  Shared& shared = shared_[entry.value.attribute];
  ++shared.uses;
  if ((shared.attribute.driver_protection & kUniqueDriverProtection) != 0) ++unique_;
  if (!shared.attribute.has_allocation) return;
  owners_.come(slot_of_value(entry.value), static_cast<uint32_t>(entry.begin >> window_bits_));
}

void MappedLayer::moved(const Entry& old, const Entry& now) {
  if (!shared_[now.value.attribute].attribute.has_allocation) return;
  const auto from = static_cast<uint32_t>(old.begin >> window_bits_);
  const auto to = static_cast<uint32_t>(now.begin >> window_bits_);
  if (from == to) return;
  owners_.move(slot_of_value(now.value), from, to);
}

void MappedLayer::gone(const Entry& entry) {
  const Attribute& attribute = shared_[entry.value.attribute].attribute;
  if ((attribute.driver_protection & kUniqueDriverProtection) != 0) --unique_;
  if (attribute.has_allocation) {
    owners_.go(slot_of_value(entry.value), static_cast<uint32_t>(entry.begin >> window_bits_));
  }
  release(entry.value.attribute);
}

void MappedLayer::forget(uint32_t number) {
  const Shared& shared = shared_[number];
  shared_by_value_.erase(shared.attribute);
  shared_free_.push_back(number);
  if (last_shared_ == number) last_shared_ = kNone;
}

/// The number of an attribute, used once more.
uint32_t MappedLayer::intern(const Attribute& attribute) {
  if (last_shared_ == kNone || !(shared_[last_shared_].attribute == attribute)) {
    const auto [found, fresh] = shared_by_value_.try_emplace(attribute, 0);
    if (fresh) {
      if (shared_free_.empty()) {
        DXGKIT_CHECK(shared_.size() < kNone);
        shared_free_.push_back(static_cast<uint32_t>(shared_.size()));
        shared_.emplace_back();
      }
      found->second = shared_free_.back();
      shared_free_.pop_back();
      shared_[found->second] = {attribute, 0};
    }
    last_shared_ = found->second;
  }
  ++shared_[last_shared_].uses;
  return last_shared_;
}

void MappedLayer::map(const Mapping& mapping, PageSpans* changed) {
  if (mapping.leaves_nothing()) return unmap(mapping.span, changed);
  const bool has_allocation = mapping.allocation != kNoAllocation;
  Value value;
  if (has_allocation) {
    DXGKIT_CHECK(mapping.offset_pages < kAllocationPagesMost);
    const uint32_t slot = slot_of(mapping.allocation);
    AllocationId& id = owners_.id_at(slot);
    // Two live allocations never share a slot, and a dead one has no mappings.
    DXGKIT_CHECK(id == mapping.allocation || owners_.settled().at(slot).live() == 0);
    id = mapping.allocation;
    value.where = uint64_t{slot} << kOffsetBits | mapping.offset_pages;
  }
  value.attribute = intern({.driver_protection = mapping.driver_protection,
                            .repeat_first = mapping.repeat_first,
                            .repeat_pages = mapping.repeat_pages,
                            .protection = mapping.protection,
                            .has_allocation = has_allocation});
  Client client(*this, nullptr);
  tree_.put(mapping.span.first_page, mapping.span.end_page(), value, client);
  release(value.attribute);
  if (changed != nullptr) changed->push_back(mapping.span);
  clean_crowded();
}

void MappedLayer::unmap(PageSpan span, PageSpans* changed) {
  Client client(*this, changed);
  tree_.erase(span.first_page, span.end_page(), client);
  clean_crowded();
}

void MappedLayer::drop_allocation(AllocationId allocation, PageSpans* changed) {
  std::vector<Mapping> mappings;
  mappings_of(allocation, &mappings);
  for (const Mapping& mapping : mappings) unmap(mapping.span, changed);
}

Mapping MappedLayer::to_mapping(const Entry& entry) const {
  const Attribute& attribute = shared_[entry.value.attribute].attribute;
  Mapping mapping{.span = {entry.begin, entry.value.pages},
                  .protection = attribute.protection,
                  .driver_protection = attribute.driver_protection,
                  .repeat_first = attribute.repeat_first,
                  .repeat_pages = attribute.repeat_pages};
  if (attribute.has_allocation) {
    mapping.allocation = owners_.id_of(slot_of_value(entry.value));
    mapping.offset_pages = offset_of_value(entry.value);
  }
  return mapping;
}

std::optional<Mapping> MappedLayer::at(uint64_t page) const {
  Entry entry;
  if (!tree_.find(page, &entry)) return std::nullopt;
  return to_mapping(entry);
}

std::optional<Mapping> MappedLayer::behind(uint64_t page) const {
  Entry entry;
  if (!tree_.find_behind(page, &entry)) return std::nullopt;
  return to_mapping(entry);
}

bool MappedLayer::belongs(const Value& value, uint32_t slot) const {
  return slot_of_value(value) == slot && shared_[value.attribute].attribute.has_allocation;
}

/// Calls visit(const Entry&) for the mappings of an owner that begin in a window.
template <typename Visit>
void MappedLayer::visit_window(uint32_t slot, uint32_t window, Visit visit) const {
  const uint64_t begin = uint64_t{window} << window_bits_;
  const uint64_t end = begin + (uint64_t{1} << window_bits_);
  Entry entry;
  for (uint64_t page = begin; page < end && tree_.find_behind(page, &entry); page = entry.end()) {
    if (entry.begin >= end) return;
    if (entry.begin >= begin && belongs(entry.value, slot)) visit(entry);
  }
}

/// Sorts the hints of an owner, and drops hints that lead nowhere.
std::vector<uint32_t> MappedLayer::clean(uint32_t slot) const {
  MappingOwner& owner = owners_.settled().at(slot);
  uint32_t only = 0;
  const std::span<const uint32_t> hints = owner.hints(&only);
  std::vector<uint32_t> kept(hints.begin(), hints.end());
  std::sort(kept.begin(), kept.end());
  auto end = kept.begin();  // of those that stay
  for (auto same = kept.begin(); same != kept.end();) {
    const uint32_t window = *same;
    uint32_t there = 0;  // never more than hints
    visit_window(slot, window, [&](const Entry&) { ++there; });
    same = std::upper_bound(same, kept.end(), window);
    end = std::fill_n(end, there, window);
  }
  kept.erase(end, kept.end());
  DXGKIT_CHECK(kept.size() == owner.live());
  owner.set_hints(kept);
  return kept;
}

void MappedLayer::clean_all_crowded() {
  OwnerTable& owners = owners_.settled();
  for (const uint32_t slot : owners_.crowded()) {
    if (owners.at(slot).worth_cleaning()) clean(slot);
  }
  owners_.crowded().clear();
}

void MappedLayer::mappings_of(AllocationId allocation, std::vector<Mapping>* mappings) const {
  if (count_of(allocation) == 0) return;
  const uint32_t slot = slot_of(allocation);
  const std::vector<uint32_t> hints = clean(slot);
  for (size_t i = 0; i < hints.size(); ++i) {
    if (i > 0 && hints[i] == hints[i - 1]) continue;
    visit_window(slot, hints[i],
                 [&](const Entry& entry) { mappings->push_back(to_mapping(entry)); });
  }
}

uint32_t MappedLayer::count_of(AllocationId allocation) const {
  const uint32_t slot = slot_of(allocation);
  return owners_.id_of(slot) == allocation ? owners_.settled().find(slot)->live() : 0;
}

size_t MappedLayer::bytes() const {
  constexpr size_t kMapNode = 4 * sizeof(void*);
  return tree_.bytes() + owners_.bytes() + shared_.capacity() * sizeof(Shared) +
         shared_free_.capacity() * sizeof(uint32_t) +
         shared_by_value_.size() * (kMapNode + sizeof(Attribute) + sizeof(uint64_t));
}

bool MappedLayer::validate() const {
  if (!tree_.validate()) return false;
  const OwnerTable& settled = owners_.settled();
  std::vector<uint64_t> uses(shared_.size());
  std::map<uint32_t, uint32_t> live;
  uint64_t unique = 0;
  Entry entry;
  for (uint64_t page = 0; tree_.find_behind(page, &entry); page = entry.end()) {
    if (entry.value.attribute >= shared_.size()) return false;
    const Attribute& attribute = shared_[entry.value.attribute].attribute;
    ++uses[entry.value.attribute];
    if ((attribute.driver_protection & kUniqueDriverProtection) != 0) ++unique;
    if (!attribute.has_allocation) continue;
    const uint32_t slot = slot_of_value(entry.value);
    ++live[slot];
    const MappingOwner* const owner = settled.find(slot);
    if (owner == nullptr) return false;
    uint32_t only = 0;
    const std::span<const uint32_t> hints = owner->hints(&only);
    const auto wanted = static_cast<uint32_t>(entry.begin >> window_bits_);
    if (std::ranges::find(hints, wanted) == hints.end()) return false;
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] != shared_[i].uses) return false;
  }
  size_t owners = 0;
  bool right = true;
  settled.for_each([&](AllocationId id, const MappingOwner& owner) {
    ++owners;
    const auto found = live.find(slot_of(id));
    if (found == live.end() || found->second != owner.live()) right = false;
  });
  return right && owners == live.size() && unique == unique_;
}

void normalise_many(PageSpans* spans, size_t first) {
  const auto begin = spans->begin() + static_cast<std::ptrdiff_t>(first);
  const auto touches = [](const PageSpan& a, const PageSpan& b) {
    return a.end_page() >= b.first_page;
  };
  if (std::adjacent_find(begin, spans->end(), touches) == spans->end()) return;
  const auto earlier = [](const PageSpan& a, const PageSpan& b) {
    return a.first_page < b.first_page;
  };
  if (!std::is_sorted(begin, spans->end(), earlier)) std::sort(begin, spans->end(), earlier);
  auto last = begin;
  for (auto span = begin; span != spans->end(); ++span) {
    if (span != begin && span->first_page <= last->end_page()) {
      last->pages = std::max(last->end_page(), span->end_page()) - last->first_page;
    } else if (span != begin) {
      *++last = *span;
    }
  }
  spans->erase(last + 1, spans->end());
}

}  // namespace dxgkit::gpuva
