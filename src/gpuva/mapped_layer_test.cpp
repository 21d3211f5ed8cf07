// What is kept of mappings: what they say, which of them are one, and what is known of allocations.
#include "gpuva/address_space_test.h"
#include "tests/support/covers.h"

namespace dxgkit::gpuva {
namespace {

TEST_F(AddressSpaceTest, OneAllocationHasAnyNumberOfMappings) {
  DXGKIT_COVERS("VA-31", "VA-23", "ALLOC-30");
  ASSERT_TRUE(space_.reserve({.base = kLeaf, .size = 512 * k64}, ++sequence_).has_value());
  const uint64_t page = kLeaf / kPage;
  for (uint64_t i = 0; i < 500; ++i) {
    space_.apply({.mapping = {.span = {page + 2 * i, 1},
                              .allocation = i % 2 == 0 ? kA : kB,
                              .offset_pages = i % 7,
                              .protection = {.write = i % 3 == 0},
                              .driver_protection = i % 5},
                  .sequence = ++sequence_},
                 nullptr);
  }
  std::vector<Mapping> mappings;
  space_.mappings_of(kA, &mappings);
  ASSERT_EQ(mappings.size(), 250U);
  for (uint64_t i = 0; i < 250; ++i) {
    EXPECT_EQ(mappings[i].span, (PageSpan{page + 4 * i, 1}));
    EXPECT_EQ(mappings[i].protection.write, 2 * i % 3 == 0);
    EXPECT_EQ(mappings[i].driver_protection, 2 * i % 5);
  }
  PageSpans changed;
  space_.drop_allocation(kA, &changed);
  EXPECT_EQ(changed.size(), 250U);
  EXPECT_EQ(space_.mapping_count(kA), 0U);
  EXPECT_EQ(space_.mapping_count(kB), 250U);
  EXPECT_EQ(space_.mapped_ranges(), 250U);
  // Another allocation may have the same slot now.
  map(page, 1, AllocationId{uint64_t{77} << kIdSlotBits | 3}, 5);
  EXPECT_TRUE(space_.validate());
  EXPECT_EQ(space_.mapping_count(kA), 0U);
}

TEST_F(AddressSpaceTest, HintsOfAnAllocationDoNotPileUp) {
  // A mapping that moves about in a busy allocation leaves no trail.
  ASSERT_TRUE(space_.reserve({.base = kLeaf, .size = 4096 * k64}, ++sequence_).has_value());
  const uint64_t page = kLeaf / kPage;
  for (uint64_t i = 0; i < 200; ++i) map(page + 2 * i, 1, kA, i);
  const size_t before = space_.bytes();
  for (uint64_t i = 0; i < 20'000; ++i) {
    map(page + 2 * (i % 200), 1, kB, i);
    map(page + 1000 + i * 37 % 60'000, 1, kA, i % 99);
    space_.apply(
        {.mapping = {.span = {page + 1000 + i * 37 % 60'000, 1}, .protection = {.no_access = true}},
         .sequence = ++sequence_},
        nullptr);
    map(page + 2 * (i % 200), 1, kA, i);
  }
  EXPECT_EQ(space_.mapping_count(kA), 200U);
  EXPECT_TRUE(space_.validate());
  EXPECT_LT(space_.bytes(), before + 4096);
  std::vector<Mapping> mappings;
  space_.mappings_of(kA, &mappings);
  EXPECT_EQ(mappings.size(), 200U);
}

TEST_F(AddressSpaceTest, HintsThatOneCallLeavesBehindDoNotPileUp) {
  // Many mappings of a busy allocation go in one call, and come again one after the other.
  ASSERT_TRUE(space_.reserve({.base = kLeaf, .size = 4096 * k64}, ++sequence_).has_value());
  const uint64_t page = kLeaf / kPage;
  const auto fill = [&](uint64_t round) {
    for (uint64_t i = 0; i < 300; ++i) map(page + 2 * i, 1, kA, 7 * i + round);
  };
  fill(0);
  size_t most = 0;
  for (uint64_t round = 1; round <= 100; ++round) {
    map(page + 100, 400, kB, round);  // over 200 of them
    fill(round);
    if (round == 10) most = space_.bytes();
  }
  EXPECT_LT(space_.bytes(), most + most / 4);
  EXPECT_EQ(space_.mapping_count(kA), 300U);
  EXPECT_TRUE(space_.validate());
}

TEST(MappedLayer, InASpaceOf48BitsEachMappingIsFoundOnce) {
  // Where a mapping begins is known to 16 pages: several of an allocation, and others', begin in
  // the same ones, and one reaches into the next.
  AddressSpace space({.end = uint64_t{1} << 48});
  uint64_t sequence = 0;
  const auto put = [&](uint64_t page, uint64_t pages, AllocationId allocation) {
    space.apply({.mapping = {.span = {page, pages}, .allocation = allocation, .offset_pages = page},
                 .sequence = ++sequence},
                nullptr);
  };
  constexpr uint64_t kFirst = uint64_t{1} << 33;
  for (const uint64_t page : {0, 2, 4, 15, 20, 32, 35}) put(kFirst + page, 1, kA);
  put(kFirst + 6, 3, kB);
  put(kFirst + 28, 4, kB);
  put(kFirst + 44, 10, kA);
  const auto starts = [&](AllocationId allocation) {
    std::vector<Mapping> mappings;
    space.mappings_of(allocation, &mappings);
    std::vector<uint64_t> pages;
    for (const Mapping& mapping : mappings) {
      EXPECT_EQ(mapping.allocation, allocation);
      EXPECT_EQ(mapping.offset_pages, mapping.span.first_page);
      pages.push_back(mapping.span.first_page - kFirst);
    }
    return pages;
  };
  EXPECT_EQ(starts(kA), (std::vector<uint64_t>{0, 2, 4, 15, 20, 32, 35, 44}));
  EXPECT_EQ(starts(kB), (std::vector<uint64_t>{6, 28}));
  put(kFirst + 3, 30, kB);  // over 4, 15, 20 and 32
  EXPECT_EQ(starts(kA), (std::vector<uint64_t>{0, 2, 35, 44}));
  EXPECT_EQ(starts(kB), (std::vector<uint64_t>{3}));
  EXPECT_TRUE(space.validate());
}

TEST_F(AddressSpaceTest, WhatMappingsHaveInCommonIsForgottenWithTheLastOfThem) {
  // Driver protections come and go; what is kept of each goes with it.
  const uint64_t page = kLeaf / kPage;
  const auto use = [&](uint64_t protection) {
    space_.apply({.mapping = {.span = {page, 1},
                              .allocation = kA,
                              .protection = {.write = true},
                              .driver_protection = protection},
                  .sequence = ++sequence_},
                 nullptr);
  };
  for (uint64_t i = 0; i < 10; ++i) use(i);
  const size_t before = space_.bytes();
  for (uint64_t i = 0; i < 1000; ++i) use(i);
  EXPECT_EQ(space_.lookup(kLeaf)->driver_protection, 999U);
  EXPECT_EQ(space_.bytes(), before);
  EXPECT_TRUE(space_.validate());
}

TEST_F(AddressSpaceTest, WhatMappingsHaveInCommonIsCounted) {
  // As many mappings, all alike or each with its own driver protection.
  size_t bytes[2] = {};
  for (const bool differ : {false, true}) {
    AddressSpace space({.end = kEnd});
    for (uint64_t i = 0; i < 200; ++i) {
      space.apply({.mapping = {.span = {2 * i, 1},
                               .protection = {.zero = true},
                               .driver_protection = differ ? i : 1},
                   .sequence = i + 1},
                  nullptr);
    }
    bytes[differ ? 1 : 0] = space.bytes();
  }
  // Each of them with four words, once where it is counted and once in a node where it is found.
  EXPECT_GE(bytes[1], bytes[0] + 199 * (2 * 4 + 4) * sizeof(uint64_t));
  EXPECT_LT(bytes[1], bytes[0] + 199 * 400);
}

TEST_F(AddressSpaceTest, NeighboursThatDifferInOneThingStayApart) {
  // Each continues the first one in every other respect.
  const uint64_t page = kLeaf / kPage;
  const Mapping like{.span = {page, 2},
                     .allocation = kA,
                     .offset_pages = 10,
                     .protection = {.write = true},
                     .driver_protection = 3};
  const auto differs = [&](auto change) {
    Mapping next = like;
    next.span.first_page += 2;
    next.offset_pages += 2;
    change(next);
    AddressSpace space({.end = kEnd});
    space.apply({.mapping = like, .sequence = 1}, nullptr);
    space.apply({.mapping = next, .sequence = 2}, nullptr);
    EXPECT_EQ(space.lookup((page + 1) * kPage), like);
    EXPECT_EQ(space.lookup((page + 2) * kPage), next);
    // And the other way round: what is there already comes behind.
    AddressSpace other({.end = kEnd});
    other.apply({.mapping = next, .sequence = 1}, nullptr);
    other.apply({.mapping = like, .sequence = 2}, nullptr);
    EXPECT_EQ(other.lookup((page + 1) * kPage), like);
    EXPECT_EQ(other.lookup((page + 2) * kPage), next);
    EXPECT_TRUE(space.validate() && other.validate());
  };
  differs([](Mapping& m) { m.allocation = kB; });
  differs([](Mapping& m) { m.allocation = AllocationId{kA.value + 128}; });
  differs([](Mapping& m) { m.offset_pages += 1; });
  differs([](Mapping& m) { m.protection.write = false; });
  differs([](Mapping& m) { m.protection.execute = true; });
  differs([](Mapping& m) { m.driver_protection = 4; });
  differs([](Mapping& m) { m.driver_protection |= kUniqueDriverProtection; });
  differs([](Mapping& m) { m.repeat_first = m.offset_pages, m.repeat_pages = 2; });
  differs([](Mapping& m) { m.repeat_first = 11, m.repeat_pages = 4; });
  differs([](Mapping& m) {
    m = {.span = m.span, .protection = {.zero = true}, .driver_protection = 3};
  });
  differs([](Mapping& m) {
    m = {.span = m.span, .protection = {.no_access = true}, .driver_protection = 3};
  });
  // Without an allocation: zero beside no access that is told to the driver.
  AddressSpace space({.end = kEnd});
  const Mapping zero{.span = {page, 2}, .protection = {.zero = true}, .driver_protection = 3};
  const Mapping none{
      .span = {page + 2, 2}, .protection = {.no_access = true}, .driver_protection = 3};
  space.apply({.mapping = zero, .sequence = 1}, nullptr);
  space.apply({.mapping = none, .sequence = 2}, nullptr);
  EXPECT_EQ(space.lookup(kLeaf), zero);
  EXPECT_EQ(space.lookup(kLeaf + 2 * kPage), none);
  // Neighbours without any difference become one mapping.
  Mapping same = like;
  same.span.first_page += 2;
  same.offset_pages += 2;
  space.apply({.mapping = like, .sequence = 3}, nullptr);
  space.apply({.mapping = same, .sequence = 4}, nullptr);
  EXPECT_EQ(space.lookup(kLeaf)->span, (PageSpan{page, 4}));
}

TEST_F(AddressSpaceTest, ARepetitionGoesOnWhereItWas) {
  // Cut anywhere, the pages of the allocation are those that were shown there; a piece that comes
  // back where it was makes the whole again.
  DXGKIT_COVERS("VA-37");
  const uint64_t page = kLeaf / kPage;
  const Mapping whole{.span = {page, 23},
                      .allocation = kA,
                      .offset_pages = 9,
                      .protection = {.write = true},
                      .repeat_first = 7,
                      .repeat_pages = 5};
  for (uint64_t cut = 1; cut < 22; ++cut) {
    AddressSpace space({.end = kEnd});
    space.apply({.mapping = whole, .sequence = 1}, nullptr);
    space.apply(
        {.mapping = {.span = {page + cut, 1}, .protection = {.no_access = true}}, .sequence = 2},
        nullptr);
    const auto rest = space.lookup((page + cut + 1) * kPage);
    ASSERT_TRUE(rest.has_value());
    EXPECT_EQ(rest->offset_pages, 7 + (2 + cut + 1) % 5);
    EXPECT_EQ(rest->repeat_first, 7U);
    EXPECT_EQ(rest->repeat_pages, 5U);
    EXPECT_EQ(space.lookup((page + cut - 1) * kPage)->offset_pages, 9U);
    space.apply({.mapping = clipped(whole, {page + cut, 1}), .sequence = 3}, nullptr);
    EXPECT_EQ(space.lookup(kLeaf), whole);
    EXPECT_EQ(space.mapped_ranges(), 1U);
    EXPECT_EQ(space.mapping_count(kA), 1U);
  }
}

TEST_F(AddressSpaceTest, ChangesAreAddedBehindThoseThatAreThere) {
  // They are in order and apart from each other, whatever the list had before: two that touch are
  // one, and gaps stay.
  ASSERT_TRUE(space_.reserve({.base = kLeaf, .size = 4 * k64}, ++sequence_).has_value());
  const uint64_t page = kLeaf / kPage;
  const PageSpans before = {{page + 20, 3}, {page + 23, 1}, {1, 1}};
  const auto fill = [&] {
    map(page + 1, 3, kA, 0);
    map(page + 4, 2, kB, 0);
    map(page + 10, 2, kA, 50);
  };
  const auto expect = [&](const PageSpans& changed, PageSpans added) {
    PageSpans all = before;
    all.insert(all.end(), added.begin(), added.end());
    EXPECT_EQ(changed, all);
  };
  fill();
  PageSpans changed = before;
  space_.apply(
      {.mapping = {.span = {page, 16}, .protection = {.no_access = true}}, .sequence = ++sequence_},
      &changed);
  expect(changed, {{page + 1, 5}, {page + 10, 2}});
  fill();
  changed = before;
  const UpdateOperation updates[] = {{.kind = UpdateOperation::Kind::kUnmap,
                                      .base_address = kLeaf + 8 * kPage,
                                      .size_bytes = 8 * kPage,
                                      .protection = {.no_access = true}},
                                     {.kind = UpdateOperation::Kind::kUnmap,
                                      .base_address = kLeaf,
                                      .size_bytes = 8 * kPage,
                                      .protection = {.no_access = true}}};
  space_.apply_update(updates, ++sequence_, &changed);
  expect(changed, {{page + 1, 5}, {page + 10, 2}});
  fill();
  changed = before;
  space_.drop_allocation(kA, &changed);
  expect(changed, {{page + 1, 3}, {page + 10, 2}});
  fill();
  changed = before;
  ASSERT_EQ(space_.free(kLeaf, 16 * kPage, ++sequence_, &changed), Status::kSuccess);
  expect(changed, {{page + 1, 5}, {page + 10, 2}});
}

TEST_F(AddressSpaceTest, RangesAndWaitingCallsAreCounted) {
  // In what the space holds: owned ranges, and claims until they are applied.
  const size_t before = space_.bytes();
  for (uint64_t i = 0; i < 1000; ++i)
    ASSERT_TRUE(space_.reserve({.size = k64}, ++sequence_).has_value());
  const size_t owned = space_.bytes();
  EXPECT_GE(owned, before + 1000 * 2 * sizeof(uint64_t));
  EXPECT_EQ(space_.owned_ranges(), 1001U);
  std::vector<MapOperation> waiting;
  for (uint64_t i = 0; i < 100; ++i) {
    MapRequest request = valid();
    request.base = kLeaf + i * k64;
    ASSERT_EQ(claim(request), Status::kSuccess);
    waiting.push_back(last_);
  }
  EXPECT_GE(space_.bytes(), owned + 100 * sizeof(Mapping));
  for (const MapOperation& operation : waiting) space_.apply(operation, nullptr);
  const size_t applied = space_.bytes();
  EXPECT_LT(applied, owned + 100 * sizeof(Mapping) + 16384);
  MapRequest request = valid();
  request.base = kLeaf + 200 * k64;
  ASSERT_EQ(claim(request), Status::kSuccess);
  EXPECT_GE(space_.bytes(), applied + sizeof(Mapping));
}

TEST_F(AddressSpaceTest, WhatFindsAnAllocationIsCounted) {
  // By the slot of its id: a place for every 128 slots up to it.
  constexpr uint32_t kSlot = 512'000;
  map(kLeaf / kPage, 1, kA, 0);
  const size_t before = space_.bytes();
  const AllocationId late{uint64_t{1} << kIdSlotBits | kSlot};
  map(kLeaf / kPage + 4, 1, late, 0);
  // Of the places before it only the pointers, and the one it is in: 128 ids and 128 owners.
  const size_t expected = before + kSlot / 128 * sizeof(void*) + 128 * (8 + 8);
  EXPECT_GE(space_.bytes(), expected);
  EXPECT_LT(space_.bytes(), expected + 1000);
  EXPECT_EQ(space_.mapping_count(late), 1U);
  EXPECT_EQ(space_.mapping_count(kA), 1U);
}

TEST_F(AddressSpaceTest, HintsOfAFewMappingsGoWithThem) {
  // One of some mappings of an allocation goes and comes elsewhere, again and again.
  const uint64_t page = kLeaf / kPage;
  for (uint64_t i = 0; i < 7; ++i) map(page + 2 * i, 1, kA, 10 * i);
  map(page + 100, 2, kB, 0);
  map(page + 200, 1, kA, 1);
  size_t before = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    const uint64_t at = page + 2 * (i % 7);
    space_.apply(
        {.mapping = {.span = {at, 1}, .protection = {.no_access = true}}, .sequence = ++sequence_},
        nullptr);
    map(at, 1, kA, 10 * i + 5);
    // And one that loses its first page, then has it again.
    map(page + 100, 1, kA, i);
    map(page + 100, 2, kB, 0);
    // All of it is written down, and lists are made once.
    EXPECT_EQ(space_.mapping_count(kA), 8U);
    if (i == 0) before = space_.bytes();
  }
  EXPECT_EQ(space_.mapping_count(kB), 1U);
  EXPECT_TRUE(space_.validate());
  EXPECT_EQ(space_.bytes(), before);
}

TEST_F(AddressSpaceTest, WhatIsKnownOfManyMappingsShrinksWithThem) {
  // Once the remaining mappings have been listed.
  const uint64_t page = kLeaf / kPage;
  for (uint64_t i = 0; i < 5000; ++i) map(page + 2 * i, 1, kA, i);
  std::vector<Mapping> mappings;
  space_.mappings_of(kA, &mappings);
  ASSERT_EQ(mappings.size(), 5000U);
  const size_t many = space_.bytes();
  const auto unmap = [&](uint64_t first, uint64_t pages) {
    space_.apply({.mapping = {.span = {first, pages}, .protection = {.no_access = true}},
                  .sequence = ++sequence_},
                 nullptr);
  };
  unmap(page, 2 * 4980);
  mappings.clear();
  space_.mappings_of(kA, &mappings);
  ASSERT_EQ(mappings.size(), 20U);
  unmap(page + 2 * 4980, 2);
  EXPECT_EQ(space_.mapping_count(kA), 19U);
  EXPECT_LT(space_.bytes() + 5000 * sizeof(uint32_t) - 400, many);
  mappings.clear();
  space_.mappings_of(kA, &mappings);
  ASSERT_EQ(mappings.size(), 19U);
  for (uint64_t i = 0; i < 19; ++i)
    EXPECT_EQ(mappings[i].span, (PageSpan{page + 2 * (4981 + i), 1}));
  EXPECT_TRUE(space_.validate());
}

}  // namespace
}  // namespace dxgkit::gpuva
