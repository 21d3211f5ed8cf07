// The rules of Update.
#include "gpuva/address_space_test.h"
#include "tests/support/covers.h"

namespace dxgkit::gpuva {
namespace {

TEST_F(AddressSpaceTest, UpdatesStayInOneReservation) {
  DXGKIT_COVERS("VA-35", "VA-37");
  ASSERT_TRUE(space_.reserve({.base = 0x4000'0000, .size = 2 * k64}, ++sequence_).has_value());
  ASSERT_TRUE(space_.reserve({.base = 0x4002'0000, .size = 2 * k64}, ++sequence_).has_value());
  ASSERT_EQ(claim(valid()), Status::kSuccess);
  const UpdateOperation map_valid{.kind = UpdateOperation::Kind::kMap,
                                  .base_address = 0x4000'0000,
                                  .size_bytes = 4 * kPage,
                                  .allocation = kA,
                                  .allocation_offset_bytes = kPage,
                                  .whole_allocation_pages = 8};
  const UpdateOperation copy_valid{.kind = UpdateOperation::Kind::kCopy,
                                   .base_address = 0x4000'0000,
                                   .size_bytes = 4 * kPage,
                                   .source_address = 0x4002'0000};
  const UpdateOperation unmap_valid{.kind = UpdateOperation::Kind::kUnmap,
                                    .base_address = 0x4000'0000,
                                    .size_bytes = kPage,
                                    .protection = {.no_access = true}};
  const std::string before = dump();
  const auto broken = [&](UpdateOperation operation, auto change, const char* why) {
    change(operation);
    const UpdateOperation batch[] = {map_valid, copy_valid, unmap_valid, operation};
    EXPECT_EQ(space_.check_update(batch), Status::kInvalidParameter) << why;
    EXPECT_EQ(dump(), before);
  };
  const UpdateOperation good[] = {map_valid, copy_valid, unmap_valid};
  EXPECT_EQ(space_.check_update(good), Status::kSuccess);
  using Op = UpdateOperation;
  broken(
      map_valid, [](Op& o) { o.size_bytes = 0; }, "no size");
  broken(
      map_valid, [](Op& o) { o.size_bytes += 1; }, "misaligned size");
  broken(
      map_valid, [](Op& o) { o.base_address += 1; }, "misaligned address");
  broken(
      map_valid, [](Op& o) { o.size_bytes = 33 * kPage; }, "passes its reservation");
  broken(
      map_valid, [](Op& o) { o.base_address = 0x4002'0000; }, "another reservation");
  broken(
      map_valid, [](Op& o) { o.base_address = 0x1000'0000; }, "no reservation");
  broken(
      map_valid, [](Op& o) { o.size_bytes = ~uint64_t{0} - kPage + 1; }, "wraps");
  broken(
      map_valid, [](Op& o) { o.allocation = kNoAllocation; }, "no allocation");
  broken(
      map_valid, [](Op& o) { o.allocation_offset_bytes += 5; }, "misaligned offset");
  broken(
      map_valid, [](Op& o) { o.allocation_offset_bytes = 5 * kPage; }, "passes the allocation");
  broken(
      map_valid, [](Op& o) { o.allocation_offset_bytes = ~kPage + 1; }, "offset wraps");
  broken(
      map_valid, [](Op& o) { o.allocation_size_bytes = 3 * kPage; }, "does not divide");
  broken(
      map_valid, [](Op& o) { o.allocation_size_bytes = 8 * kPage; }, "larger than the range");
  broken(
      map_valid, [](Op& o) { o.allocation_size_bytes = 512; }, "misaligned allocation size");
  broken(
      map_valid,
      [](Op& o) {
        o.kind = Op::Kind::kMapProtect;
        o.protection = {.zero = true};
      },
      "zero with an allocation");
  broken(
      copy_valid, [](Op& o) { o.source_address += 8; }, "misaligned source");
  broken(
      copy_valid, [](Op& o) { o.source_address = 0x4000'0000; }, "another source reservation");
  broken(
      copy_valid, [](Op& o) { o.source_address = 0x1000'0000; }, "source is no reservation");
  broken(
      unmap_valid, [](Op& o) { o.protection = {}; }, "unmapped to readable");
  broken(
      unmap_valid, [](Op& o) { o.protection.write = true; }, "unmapped to writable");
}

TEST_F(AddressSpaceTest, UpdatesApplyInOrderWithOverlaps) {
  DXGKIT_COVERS("VA-36", "VA-37");
  constexpr uint64_t kBase = 0x4000'0000;
  ASSERT_TRUE(space_.reserve({.base = kBase, .size = 4 * k64}, ++sequence_).has_value());
  const uint64_t page = kBase / kPage;
  const auto shown = [&] {
    std::string text;
    for (uint64_t k = 0; k < 12; ++k) {
      const auto mapping = space_.lookup(kBase + k * kPage);
      text += !mapping.has_value()       ? "-"
              : mapping->protection.zero ? "z"
              : mapping->allocation == kB
                  ? "b"
                  : std::to_string(mapping->allocation_page(page + k - mapping->span.first_page));
    }
    return text;
  };
  using Kind = UpdateOperation::Kind;
  const UpdateOperation batch[] = {
      {.kind = Kind::kMap,
       .base_address = kBase,
       .size_bytes = 8 * kPage,
       .allocation = kA,
       .whole_allocation_pages = 100},
      // Onto itself, upwards: 01234567 becomes 01012345.
      {.kind = Kind::kCopy,
       .base_address = kBase + 2 * kPage,
       .size_bytes = 6 * kPage,
       .source_address = kBase},
      {.kind = Kind::kMapProtect,
       .base_address = kBase + 8 * kPage,
       .size_bytes = 2 * kPage,
       .allocation = kB,
       .whole_allocation_pages = 100,
       .protection = {.execute = true},
       .driver_protection = 6},
      {.kind = Kind::kUnmap,
       .base_address = kBase + kPage,
       .size_bytes = kPage,
       .protection = {.zero = true}},
      // Downwards, with what the operations before made.
      {.kind = Kind::kCopy,
       .base_address = kBase,
       .size_bytes = 11 * kPage,
       .source_address = kBase + kPage},
  };
  ASSERT_EQ(space_.check_update(batch), Status::kSuccess);
  space_.apply_update(batch, ++sequence_, nullptr);
  EXPECT_EQ(shown(), "z012345bb---");
  EXPECT_EQ(space_.lookup(kBase + 7 * kPage)->driver_protection, 6U);
  EXPECT_TRUE(space_.lookup(kBase + 7 * kPage)->protection.execute);

  // A small range of the allocation again and again, cut in the middle of one.
  const UpdateOperation repeat[] = {
      {.kind = Kind::kMap,
       .base_address = kBase,
       .size_bytes = 12 * kPage,
       .allocation = kA,
       .allocation_offset_bytes = 4 * kPage,
       .allocation_size_bytes = 3 * kPage,
       .whole_allocation_pages = 100},
      {.kind = Kind::kUnmap,
       .base_address = kBase + 4 * kPage,
       .size_bytes = kPage,
       .protection = {.no_access = true}},
  };
  ASSERT_EQ(space_.check_update(repeat), Status::kSuccess);
  space_.apply_update(repeat, ++sequence_, nullptr);
  EXPECT_EQ(shown(), "4564-6456456");
  EXPECT_EQ(space_.mapped_ranges(), 2U);  // however often it repeats
  std::string stretches;
  for_each_stretch(*space_.lookup(kBase + 5 * kPage), [&](PageSpan span, uint64_t first) {
    stretches += std::to_string(span.first_page - page) + "+" + std::to_string(span.pages) + "=" +
                 std::to_string(first) + " ";
  });
  EXPECT_EQ(stretches, "5+1=6 6+3=4 9+3=4 ");
}

TEST_F(AddressSpaceTest, WhereNoAllocationIsMappedNothingOfOneCounts) {
  // Offset and size are of an allocation: without one they are no part of what is mapped.
  constexpr uint64_t kBase = 0x4000'0000;
  ASSERT_TRUE(space_.reserve({.base = kBase, .size = k64}, ++sequence_).has_value());
  UpdateOperation zero{.kind = UpdateOperation::Kind::kMapProtect,
                       .base_address = kBase + 2 * kPage,
                       .size_bytes = 4 * kPage,
                       .protection = {.zero = true},
                       .driver_protection = 7};
  space_.apply_update({&zero, 1}, ++sequence_, nullptr);
  zero.base_address += 4 * kPage;
  zero.allocation_offset_bytes = 5 * kPage;
  zero.allocation_size_bytes = 2 * kPage;
  ASSERT_EQ(space_.check_update({&zero, 1}), Status::kSuccess);
  space_.apply_update({&zero, 1}, ++sequence_, nullptr);
  EXPECT_EQ(space_.lookup(kBase + 9 * kPage), (Mapping{.span = {kBase / kPage + 2, 8},
                                                       .protection = {.zero = true},
                                                       .driver_protection = 7}));
}

}  // namespace
}  // namespace dxgkit::gpuva
