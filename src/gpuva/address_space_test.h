// Helpers of the tests of an address space.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/id_slot.h"
#include "gpuva/address_space.h"

namespace dxgkit::gpuva {

inline constexpr uint64_t kPage = kPageBytes;
inline constexpr uint64_t k64 = 16 * kPage;
inline constexpr uint64_t kEnd = uint64_t{1} << 40;
inline constexpr uint64_t kLeaf = 512 * kPage;
inline constexpr AllocationId kA{uint64_t{1} << kIdSlotBits | 3};
inline constexpr AllocationId kB{uint64_t{2} << kIdSlotBits | 4};

/// A space in which things have happened, and a way to see that nothing else did.
class AddressSpaceTest : public ::testing::Test {
 protected:
  MapRequest valid() const {
    return {.base = 0x1000'0000,
            .allocation = kA,
            .offset_pages = 2,
            .size_pages = 4,
            .allocation_pages = 100,
            .protection = {.write = true}};
  }
  Status claim(const MapRequest& request) {
    const auto result = space_.claim(request, ++sequence_);
    if (!result.has_value()) return result.error();
    last_ = *result;
    return Status::kSuccess;
  }
  /// The last claim takes effect and is freed.
  void withdraw() {
    space_.apply(last_, nullptr);
    EXPECT_EQ(space_.free(last_.mapping.span.address(), last_.mapping.span.size_bytes(),
                          ++sequence_, nullptr),
              Status::kSuccess);
  }
  void map(uint64_t first_page, uint64_t pages, AllocationId allocation, uint64_t offset,
           PageSpans* changed = nullptr) {
    space_.apply(
        {.mapping = {.span = {first_page, pages}, .allocation = allocation, .offset_pages = offset},
         .sequence = ++sequence_},
        changed);
  }
  /// All ranges and mappings as text.
  std::string dump() const {
    std::string text;
    space_.for_each_owned([&](const OwnedRange& range) {
      text += "[" + std::to_string(range.span.first_page) + "+" + std::to_string(range.span.pages) +
              " kind " + std::to_string(static_cast<int>(range.kind)) + "]";
    });
    space_.for_each_in({0, kEnd / kPage}, [&](const Mapping& mapping) {
      text += " " + std::to_string(mapping.span.first_page) + "+" +
              std::to_string(mapping.span.pages) + "=" +
              std::to_string(mapping.allocation.value & 0xFF) + ":" +
              std::to_string(mapping.offset_pages);
    });
    return text;
  }
  /// Refused, and nothing changed.
  void expect_refused(const MapRequest& request, Status status, const char* why) {
    const std::string before = dump();
    EXPECT_EQ(claim(request), status) << why;
    EXPECT_EQ(dump(), before) << why;
  }
  void expect_refused(const ReserveRequest& request, Status status, const char* why) {
    const std::string before = dump();
    const auto result = space_.reserve(request, ++sequence_);
    ASSERT_FALSE(result.has_value()) << why;
    EXPECT_EQ(result.error(), status) << why;
    EXPECT_EQ(dump(), before) << why;
  }

  AddressSpace space_{{.end = kEnd, .first = kLeaf}};
  MapOperation last_;
  uint64_t sequence_ = 0;
};

}  // namespace dxgkit::gpuva
