// Random calls and executions on an address space, beside a slow model that keeps one record per
// page: statuses, addresses, every page's translation and the reported changes must agree. For the
// model test and the fuzzer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "base/id_slot.h"
#include "gpuva/address_space.h"
#include "tests/support/choices.h"

namespace dxgkit::gpuva {

inline constexpr uint64_t kFirst = 16;  // pages withheld
inline constexpr uint64_t kAllocations = 6;
inline constexpr uint64_t kUnique = kUniqueDriverProtection | 5;

/// The model's record of one page.
struct ModelPage {
  RangeKind kind = RangeKind::kFree;
  uint64_t born = 0;
  uint64_t range = 0;  // which one; ranges never join
  // mapped:
  bool mapped = false;
  AllocationId allocation = kNoAllocation;
  uint64_t allocation_page = 0;
  Protection protection = {};
  uint64_t driver_protection = 0;
};

/// In pages. Small ones are for fuzzers: a world costs what its pages cost.
struct AddressSpaceSize {
  uint64_t space = 1024, allocation = 96;
};

class AddressSpaceWorld {
 public:
  explicit AddressSpaceWorld(testing::Choices choices, AddressSpaceSize size = {})
      : random_(choices), size_(size) {
    for (uint64_t page = 0; page < kFirst; ++page) pages_[page].kind = RangeKind::kDriver;
    for (uint64_t i = 0; i < kAllocations; ++i)
      allocations_.push_back(AllocationId{(i + 1) << kIdSlotBits | i});
  }

  void step() {
    switch (below(20)) {
      case 0:
        reserve();
        break;
      case 1:
      case 2:
      case 3:
      case 4:
        claim();
        break;
      case 5:
      case 6:
        free();
        break;
      case 7:
      case 8:
      case 9:
        update();
        break;
      case 10:
        if (below(20) == 0) destroy();
        break;
      default:
        execute();
    }
  }
  /// Compares everything.
  void compare() const {
    ASSERT_TRUE(space_.validate());
    for (uint64_t page = 0; page < size_.space; ++page) {
      const OwnedRange owned = space_.owned_at(page * kPageBytes);
      ASSERT_EQ(owned.kind, pages_[page].kind) << "page " << page;
      if (owned.kind == RangeKind::kFree) continue;
      ASSERT_EQ(owned.born, pages_[page].born) << "page " << page;
      ASSERT_EQ(owned.span.first_page, first_of_range(page));
    }
    for (uint64_t page = 0; page < size_.space; ++page) ASSERT_NO_FATAL_FAILURE(compare_page(page));
    std::vector<ModelPage> seen(size_.space);
    space_.for_each_in({0, size_.space}, [&](const Mapping& mapping) {
      for (uint64_t k = 0; k < mapping.span.pages; ++k)
        seen[mapping.span.first_page + k].mapped = true;
    });
    for (uint64_t page = 0; page < size_.space; ++page)
      ASSERT_EQ(seen[page].mapped, pages_[page].mapped) << "page " << page;
    for (const AllocationId id : allocations_) {
      std::vector<Mapping> mappings;
      space_.mappings_of(id, &mappings);
      ASSERT_EQ(mappings.size(), space_.mapping_count(id));
      uint64_t count = 0;
      for (const Mapping& mapping : mappings) count += mapping.span.pages;
      const auto mine = [&](const ModelPage& page) { return page.mapped && page.allocation == id; };
      ASSERT_EQ(count, std::count_if(pages_.begin(), pages_.end(), mine));
    }
  }

  /// No decision is left of the fuzzer's input.
  bool exhausted() const { return random_.exhausted(); }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }
  uint64_t some_page() { return below(size_.space); }
  /// Short as a rule.
  uint64_t some_size() {
    return 1 + (below(4) == 0 ? below(std::min<uint64_t>(200, size_.space - kFirst)) : below(12));
  }

  void compare_page(uint64_t number) const {
    const ModelPage& page = pages_[number];
    const std::optional<Mapping> mapping = space_.lookup(number * kPageBytes);
    ASSERT_EQ(mapping.has_value(), page.mapped) << "page " << number;
    if (!page.mapped) return;
    ASSERT_EQ(mapping->allocation, page.allocation) << "page " << number;
    if (page.allocation != kNoAllocation) {
      ASSERT_EQ(mapping->allocation_page(number - mapping->span.first_page), page.allocation_page)
          << "page " << number;
    }
    ASSERT_EQ(mapping->protection, page.protection) << "page " << number;
    ASSERT_EQ(mapping->driver_protection, page.driver_protection) << "page " << number;
  }
  uint64_t first_of_range(uint64_t page) const {
    while (page > 0 && pages_[page - 1].kind != RangeKind::kFree &&
           pages_[page - 1].range == pages_[page].range) {
      --page;
    }
    return page;
  }
  bool is_client(const ModelPage& page) const {
    return page.kind == RangeKind::kReserved || page.kind == RangeKind::kMapped;
  }
  bool all_free(uint64_t first, uint64_t count) const {
    return first + count <= size_.space &&
           std::all_of(pages_.begin() + static_cast<long>(first),
                       pages_.begin() + static_cast<long>(first + count),
                       [](const ModelPage& page) { return page.kind == RangeKind::kFree; });
  }
  bool in_one_range(uint64_t first, uint64_t count) const {
    return first + count <= size_.space &&
           std::all_of(pages_.begin() + static_cast<long>(first),
                       pages_.begin() + static_cast<long>(first + count),
                       [&](const ModelPage& page) {
                         return is_client(page) && page.range == pages_[first].range;
                       });
  }
  void take(uint64_t first, uint64_t count, RangeKind kind) {
    ++ranges_;
    for (uint64_t page = first; page < first + count; ++page) {
      ASSERT_EQ(pages_[page].kind, RangeKind::kFree);
      pages_[page].kind = kind;
      pages_[page].born = sequence_;
      pages_[page].range = ranges_;
    }
  }
  /// Freeing the middle of a range leaves two ranges.
  void drop(uint64_t first, uint64_t count) {
    const uint64_t end = first + count;
    if (end < size_.space && pages_[end].kind != RangeKind::kFree && is_client(pages_[end - 1]) &&
        pages_[end].range == pages_[end - 1].range) {
      const uint64_t old = pages_[end].range;
      ++ranges_;
      for (uint64_t page = end;
           page < size_.space && pages_[page].range == old && pages_[page].kind != RangeKind::kFree;
           ++page) {
        pages_[page].range = ranges_;
      }
    }
    for (uint64_t page = first; page < end; ++page) pages_[page] = ModelPage();
  }

  void reserve() {
    ReserveRequest request;
    request.size = (1 + below(std::min<uint64_t>(8, size_.space / 16 - 1))) * 16 * kPageBytes;
    if (below(2) == 0) request.base = below(size_.space / 16) * 16 * kPageBytes;
    request.zero = below(2) == 0;
    ++sequence_;
    const auto result = space_.reserve(request, sequence_);
    const uint64_t count = request.size / kPageBytes;
    uint64_t first = request.base / kPageBytes;
    if (request.base != 0) {
      if (!all_free(first, count)) {
        ASSERT_EQ(result.error(), Status::kInvalidParameter);
        return;
      }
    } else {
      first = kFirst;
      while (first + count <= size_.space && !all_free(first, count)) first += 16;
      if (first + count > size_.space) {
        ASSERT_EQ(result.error(), Status::kNoMemory);
        return;
      }
    }
    ASSERT_TRUE(result.has_value());
    ASSERT_EQ(result->mapping.span, (PageSpan{first, count}));
    take(first, count, RangeKind::kReserved);
    if (AddressSpace::needs_apply(*result)) queue_.push_back({*result, {}, sequence_});
  }

  void claim() {
    MapRequest request;
    request.size_pages = some_size();
    const uint64_t kind = below(8);
    if (kind == 0) {
      request.protection.zero = true;
    } else if (kind == 1) {
      request.protection.no_access = true;
    } else {
      request.allocation = allocations_[below(kAllocations)];
      request.allocation_pages = size_.allocation;
      request.offset_pages = below(size_.allocation);
      request.protection.write = below(2) == 0;
      request.protection.execute = below(2) == 0;
      if (below(8) == 0) request.driver_protection = below(3);
      if (below(100) == 0) request.driver_protection = kUnique;
    }
    if (below(2) == 0) request.base = some_page() * kPageBytes;
    if (below(4) == 0) request.minimum = some_page() * kPageBytes;
    if (below(4) == 0) request.maximum = some_page() * kPageBytes;
    ++sequence_;
    const auto result = space_.claim(request, sequence_);
    const Result<uint64_t> expected = expected_claim(request);
    ASSERT_EQ(result.has_value(), expected.has_value());
    if (!expected.has_value()) {
      ASSERT_EQ(result.error(), expected.error());
      return;
    }
    ASSERT_EQ(result->mapping.span, (PageSpan{*expected, request.size_pages}));
    if (pages_[*expected].kind == RangeKind::kFree)
      take(*expected, request.size_pages, RangeKind::kMapped);
    if (AddressSpace::needs_apply(*result)) queue_.push_back({*result, {}, sequence_});
  }
  Result<uint64_t> expected_claim(const MapRequest& request) const {
    const uint64_t count = request.size_pages;
    const bool bare = request.allocation == kNoAllocation;
    if (!bare && request.offset_pages + count > size_.allocation)
      return Error(Status::kInvalidParameter);
    if (!bare &&
        conflicts(request.allocation, request.offset_pages, count, request.driver_protection)) {
      return Error(Status::kInvalidParameter);
    }
    if (request.base != 0) {
      const uint64_t first = request.base / kPageBytes;
      if (all_free(first, count)) return first;
      if (!in_one_range(first, count)) return Error(Status::kInvalidParameter);
      if (bare && pages_[first].kind == RangeKind::kMapped) return Error(Status::kInvalidParameter);
      return first;
    }
    const uint64_t minimum = std::max(request.minimum / kPageBytes, kFirst);
    uint64_t maximum = request.maximum / kPageBytes;
    if (maximum != 0 && request.minimum > request.maximum) return Error(Status::kInvalidParameter);
    if (maximum == 0) maximum = size_.space;
    for (uint64_t first = minimum; first + count <= maximum; ++first) {
      if (all_free(first, count)) return first;
    }
    return Error(Status::kNoMemory);
  }
  /// VA-24 from first principles: what the pages would look like if all claims were applied in the
  /// order of the calls.
  bool conflicts(AllocationId allocation, uint64_t offset, uint64_t count,
                 uint64_t driver_protection) const {
    std::vector<ModelPage> future = pages_;
    std::map<uint64_t, const Queued*> claims;
    for (const Queued& queued : queue_) {
      if (queued.batch.empty()) claims[queued.sequence] = &queued;
    }
    for (const auto& [sequence, queued] : claims) {
      const Mapping& mapping = queued->operation.mapping;
      for (uint64_t k = 0; k < mapping.span.pages; ++k) {
        ModelPage& page = future[mapping.span.first_page + k];
        if (page.kind == RangeKind::kFree || page.born > sequence) {
          // The claim will not come to pass; those before it that might have been here neither.
          if (page.kind == RangeKind::kFree) page.mapped = false;
          continue;
        }
        put(&page, mapping, k);
      }
    }
    return std::any_of(future.begin(), future.end(), [&](const ModelPage& page) {
      return page.mapped && page.allocation == allocation && page.allocation_page >= offset &&
             page.allocation_page < offset + count && page.driver_protection != driver_protection &&
             ((page.driver_protection | driver_protection) & kUniqueDriverProtection) != 0;
    });
  }

  void free() {
    uint64_t first = some_page();
    uint64_t count = some_size();
    if (below(2) == 0) {  // what is a range, exactly
      const OwnedRange range = space_.owned_at(first * kPageBytes);
      first = range.span.first_page;
      count = range.span.pages;
    }
    ++sequence_;
    PageSpans changed;
    const Status status = space_.free(first * kPageBytes, count * kPageBytes, sequence_, &changed);
    const bool owned =
        first + count <= size_.space &&
        std::all_of(pages_.begin() + static_cast<long>(first),
                    pages_.begin() + static_cast<long>(std::min(first + count, size_.space)),
                    [&](const ModelPage& page) { return is_client(page); });
    if (!owned) {
      ASSERT_EQ(status, Status::kInvalidParameter);
      ASSERT_TRUE(changed.empty());
      return;
    }
    ASSERT_EQ(status, Status::kSuccess);
    const std::vector<ModelPage> before = pages_;
    drop(first, count);
    check_changed(before, changed);
  }

  static void put(ModelPage* page, const Mapping& mapping, uint64_t k) {
    page->mapped = !mapping.leaves_nothing();
    page->allocation = mapping.allocation;
    page->allocation_page = mapping.allocation == kNoAllocation ? 0 : mapping.allocation_page(k);
    page->protection = mapping.protection;
    page->driver_protection = mapping.driver_protection;
  }
  bool valid(uint64_t page, uint64_t sequence) const {
    return pages_[page].kind != RangeKind::kFree && pages_[page].born <= sequence;
  }

  void update() {
    std::vector<UpdateOperation> batch(1 + below(4));
    const uint64_t to = below(size_.space);
    const uint64_t from = below(size_.space);
    for (UpdateOperation& operation : batch) {
      operation.size_bytes = (1 + below(16)) * kPageBytes;
      operation.base_address = (to + below(20)) * kPageBytes;
      operation.source_address = (from + below(20)) * kPageBytes;
      operation.kind = static_cast<UpdateOperation::Kind>(below(4));
      operation.protection.zero = below(2) == 0;
      operation.protection.no_access = !operation.protection.zero;
      if (operation.kind == UpdateOperation::Kind::kMap ||
          operation.kind == UpdateOperation::Kind::kMapProtect) {
        operation.allocation = allocations_[below(kAllocations)];
        operation.whole_allocation_pages = size_.allocation;
        operation.allocation_offset_bytes = below(size_.allocation) * kPageBytes;
        if (below(2) == 0) operation.allocation_size_bytes = (1 + below(4)) * kPageBytes;
        operation.protection = {.write = below(2) == 0, .execute = below(2) == 0};
        if (below(4) == 0) operation.driver_protection = 1 + below(2);
      }
    }
    const Status status = space_.check_update(batch);
    ASSERT_EQ(status == Status::kSuccess, expected_update(batch));
    if (status != Status::kSuccess) {
      ASSERT_EQ(status, Status::kInvalidParameter);
      return;
    }
    ++sequence_;
    queue_.push_back({{}, batch, sequence_});
  }
  bool expected_update(const std::vector<UpdateOperation>& batch) const {
    uint64_t to = 0;
    uint64_t from = 0;
    for (const UpdateOperation& operation : batch) {
      const uint64_t count = operation.size_bytes / kPageBytes;
      const uint64_t first = operation.base_address / kPageBytes;
      if (!in_one_range(first, count)) return false;
      if (pages_[first].kind != RangeKind::kReserved) return false;
      if (to != 0 && to != pages_[first].range) return false;
      to = pages_[first].range;
      if (operation.kind == UpdateOperation::Kind::kCopy) {
        const uint64_t source = operation.source_address / kPageBytes;
        if (!in_one_range(source, count)) return false;
        if (pages_[source].kind != RangeKind::kReserved) return false;
        if (from != 0 && from != pages_[source].range) return false;
        from = pages_[source].range;
      }
      if (operation.kind != UpdateOperation::Kind::kMap &&
          operation.kind != UpdateOperation::Kind::kMapProtect) {
        continue;
      }
      const uint64_t size = operation.allocation_size_bytes == 0
                                ? count
                                : operation.allocation_size_bytes / kPageBytes;
      if (size > count || count % size != 0) return false;
      const uint64_t offset = operation.allocation_offset_bytes / kPageBytes;
      if (offset + size > size_.allocation) return false;
      const bool plain = operation.kind == UpdateOperation::Kind::kMap;
      if (conflicts(operation.allocation, offset, size, plain ? 0 : operation.driver_protection))
        return false;
    }
    return true;
  }

  void execute() {
    if (queue_.empty()) return;
    // Queues are independent, so not always the oldest.
    const auto turn = queue_.begin() + static_cast<long>(below(std::min<size_t>(queue_.size(), 3)));
    run(turn);
  }
  void run(auto turn) {
    const Queued queued = *turn;
    queue_.erase(turn);
    const std::vector<ModelPage> before = pages_;
    PageSpans changed;
    if (queued.batch.empty()) {
      space_.apply(queued.operation, &changed);
      for (uint64_t k = 0; k < queued.operation.mapping.span.pages; ++k) {
        const uint64_t page = queued.operation.mapping.span.first_page + k;
        if (valid(page, queued.sequence)) put(&pages_[page], queued.operation.mapping, k);
      }
    } else {
      space_.apply_update(queued.batch, queued.sequence, &changed);
      for (const UpdateOperation& operation : queued.batch) execute(operation, queued.sequence);
    }
    check_changed(before, changed);
  }
  void execute(const UpdateOperation& operation, uint64_t sequence) {
    const uint64_t count = operation.size_bytes / kPageBytes;
    const uint64_t first = operation.base_address / kPageBytes;
    const std::vector<ModelPage> before = pages_;
    for (uint64_t k = 0; k < count; ++k) {
      if (!valid(first + k, sequence)) continue;
      ModelPage& page = pages_[first + k];
      if (operation.kind == UpdateOperation::Kind::kCopy) {
        const uint64_t source = operation.source_address / kPageBytes + k;
        ModelPage content = valid(source, sequence) ? before[source] : ModelPage();
        content.kind = page.kind;
        content.born = page.born;
        content.range = page.range;
        page = content;
        continue;
      }
      page.allocation = operation.allocation;
      page.allocation_page = 0;
      page.protection = operation.protection;
      page.driver_protection =
          operation.kind == UpdateOperation::Kind::kMapProtect ? operation.driver_protection : 0;
      if (operation.kind == UpdateOperation::Kind::kUnmap) {
        page.mapped = operation.protection.zero;
        continue;
      }
      page.mapped = true;
      if (operation.kind == UpdateOperation::Kind::kMap) page.protection = {.write = true};
      const uint64_t size = operation.allocation_size_bytes == 0
                                ? count
                                : operation.allocation_size_bytes / kPageBytes;
      page.allocation_page = operation.allocation_offset_bytes / kPageBytes + k % size;
    }
  }

  /// Spans are in order and apart, have every page that changed, and none that never was mapped.
  void check_changed(const std::vector<ModelPage>& before, const PageSpans& changed) const {
    uint64_t next = 0;
    std::vector<bool> told(size_.space);
    for (const PageSpan& span : changed) {
      ASSERT_GT(span.pages, 0);
      ASSERT_GE(span.first_page, next);
      next = span.end_page() + 1;
      for (uint64_t page = span.first_page; page < span.end_page(); ++page) told[page] = true;
    }
    for (uint64_t number = 0; number < size_.space; ++number) {
      const ModelPage& was = before[number];
      const ModelPage& is = pages_[number];
      const bool same =
          was.mapped == is.mapped &&
          (!is.mapped ||
           (was.allocation == is.allocation && was.allocation_page == is.allocation_page &&
            was.protection == is.protection && was.driver_protection == is.driver_protection));
      if (!same) {
        ASSERT_TRUE(told[number]) << "page " << number;
      }
      if (told[number] && was.kind == RangeKind::kFree) FAIL() << "page " << number;
    }
  }

  void destroy() {
    AllocationId& id = allocations_[below(kAllocations)];
    // Operations that map it run before it goes, batches never.
    for (auto at = queue_.begin(); at != queue_.end();) {
      if (at->batch.empty() && at->operation.mapping.allocation == id) {
        run(at);
        at = queue_.begin();
      } else {
        ++at;
      }
    }
    std::erase_if(queue_, [&](const Queued& queued) {
      return std::any_of(
          queued.batch.begin(), queued.batch.end(),
          [&](const UpdateOperation& operation) { return operation.allocation == id; });
    });
    const std::vector<ModelPage> before = pages_;
    PageSpans changed;
    space_.drop_allocation(id, &changed);
    for (ModelPage& page : pages_) {
      if (page.mapped && page.allocation == id) page.mapped = false;
    }
    check_changed(before, changed);
    id.value += kAllocations << kIdSlotBits;
  }

  struct Queued {
    MapOperation operation;
    std::vector<UpdateOperation> batch;
    uint64_t sequence = 0;
  };
  testing::Choices random_;
  const AddressSpaceSize size_;
  AddressSpace space_{{.end = size_.space * kPageBytes, .first = kFirst * kPageBytes}};
  std::vector<ModelPage> pages_ = std::vector<ModelPage>(size_.space);
  std::vector<AllocationId> allocations_;
  std::deque<Queued> queue_;
  uint64_t sequence_ = 0;
  uint64_t ranges_ = 0;
};

}  // namespace dxgkit::gpuva
