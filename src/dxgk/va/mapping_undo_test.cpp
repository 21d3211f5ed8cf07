// Undoing a change of mappings: the spans map what they mapped before, but what a later call has
// freed stays free.
#include "dxgk/va/mapping_undo.h"

#include <gtest/gtest.h>

namespace dxgkit::dxgk {
namespace {

constexpr gpuva::PageSpan kSpan{100, 8};

gpuva::AddressSpace space() {
  return gpuva::AddressSpace({.end = uint64_t{1} << 40, .first = uint64_t{1} << 12});
}

/// A client maps an allocation as the call with this number, and it takes effect.
void map(gpuva::AddressSpace& addresses, gpuva::PageSpan span, AllocationId which,
         uint64_t sequence) {
  gpuva::MapRequest request;
  request.base = span.address();
  request.size_pages = request.allocation_pages = span.pages;
  request.allocation = which;
  const Result<gpuva::MapOperation> claimed = addresses.claim(request, sequence);
  ASSERT_TRUE(claimed.has_value());
  addresses.apply(*claimed, nullptr);
}

AllocationId shown_at(const gpuva::AddressSpace& addresses, uint64_t page) {
  const auto mapping = addresses.lookup(page * kPageBytes);
  return mapping.has_value() ? mapping->allocation : gpuva::kNoAllocation;
}

TEST(MappingUndo, PutsBackWhatWasMapped) {
  gpuva::AddressSpace addresses = space();
  map(addresses, kSpan, AllocationId{1}, 1);
  const MappingUndo undo(addresses, {{102, 4}});
  map(addresses, {102, 4}, AllocationId{2}, 2);
  EXPECT_EQ(shown_at(addresses, 103), AllocationId{2});
  undo.put_back(addresses, 2);
  for (uint64_t page = 100; page < 108; ++page)
    EXPECT_EQ(shown_at(addresses, page), AllocationId{1}) << page;
}

TEST(MappingUndo, LeavesAloneWhatALaterCallFreed) {
  gpuva::AddressSpace addresses = space();
  map(addresses, kSpan, AllocationId{1}, 1);
  const MappingUndo undo(addresses, {kSpan});
  map(addresses, kSpan, AllocationId{2}, 2);
  ASSERT_TRUE(is_success(addresses.free(kSpan.address(), kSpan.size_bytes(), 3, nullptr)));
  undo.put_back(addresses, 2);
  EXPECT_FALSE(addresses.lookup(kSpan.address()).has_value());
}

}  // namespace
}  // namespace dxgkit::dxgk
