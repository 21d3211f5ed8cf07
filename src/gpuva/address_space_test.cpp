// The rules of Reserve, Map and Free, one by one, and every way in which a mapping can meet
// another.
#include "gpuva/address_space_test.h"

#include "tests/support/covers.h"

namespace dxgkit::gpuva {
namespace {

TEST_F(AddressSpaceTest, MapRefusesWhatItsArgumentsMayNotBe) {
  // One valid request, one member broken at a time.
  DXGKIT_COVERS("VA-14", "VA-16", "VA-17", "VA-18", "VA-19", "VA-20", "VA-21");
  const auto broken = [&](auto change, const char* why) {
    MapRequest request = valid();
    change(request);
    expect_refused(request, Status::kInvalidParameter, why);
  };
  broken([](MapRequest& r) { r.size_pages = 0; }, "no pages");
  broken([](MapRequest& r) { r.size_pages = ~uint64_t{0}; }, "more pages than there are");
  broken([](MapRequest& r) { r.base += 512; }, "misaligned base");
  broken([](MapRequest& r) { r.base = kEnd; }, "base at the end of all addresses");
  broken([](MapRequest& r) { r.base = kEnd - kPage; }, "passes the end of all addresses");
  broken([](MapRequest& r) { r.base = ~uint64_t{0} - kPage + 1; }, "base + size wraps");
  broken([](MapRequest& r) { r.offset_pages = 97; }, "one page past the allocation");
  broken([](MapRequest& r) { r.offset_pages = ~uint64_t{0} - 1; }, "offset + size wraps");
  broken([](MapRequest& r) { r.allocation = kNoAllocation; }, "no allocation, no reason for it");
  broken([](MapRequest& r) { r.protection = {.zero = true}; }, "Zero with an allocation");
  broken([](MapRequest& r) { r.protection = {.no_access = true}; }, "NoAccess with an allocation");
  const auto bare = [&](Protection protection, const char* why) {
    MapRequest request{.base = 0x1000'0000, .size_pages = 1, .protection = protection};
    expect_refused(request, Status::kInvalidParameter, why);
  };
  bare({.zero = true, .no_access = true}, "Zero with NoAccess");
  bare({.write = true, .zero = true}, "Zero with Write");
  bare({.execute = true, .zero = true}, "Zero with Execute");
  bare({.write = true, .no_access = true}, "NoAccess with Write");
  bare({.execute = true, .no_access = true}, "NoAccess with Execute");
  // The last page is part of the allocation.
  MapRequest last = valid();
  last.offset_pages = 96;
  EXPECT_EQ(claim(last), Status::kSuccess);

  MapRequest anywhere = valid();
  anywhere.base = 0;
  anywhere.minimum = kPage + 1;
  expect_refused(anywhere, Status::kInvalidParameter, "misaligned minimum");
  anywhere.minimum = 0;
  anywhere.maximum = kLeaf + 100 * kPage + 1;
  expect_refused(anywhere, Status::kInvalidParameter, "misaligned maximum");
  anywhere.maximum = kLeaf + kPage;
  anywhere.minimum = kLeaf + 2 * kPage;
  expect_refused(anywhere, Status::kInvalidParameter, "minimum above maximum");
  // Both bounds are ignored, whatever they are, where the address is given.
  MapRequest given = valid();
  given.base = 0x2000'0000;
  given.minimum = 0x7777;
  given.maximum = 0x123;
  EXPECT_EQ(claim(given), Status::kSuccess);
}

TEST_F(AddressSpaceTest, ACallMapsAtItsAddressOrNotAtAll) {
  // Free space, or wholly inside one range the process obtained.
  DXGKIT_COVERS("VA-11", "VA-12", "VA-26");
  ASSERT_EQ(claim(valid()), Status::kSuccess);
  EXPECT_TRUE(last_.claimed);
  EXPECT_EQ(last_.mapping.span.address(), 0x1000'0000U);
  MapRequest inside = valid();
  inside.base += kPage;
  inside.size_pages = 3;
  ASSERT_EQ(claim(inside), Status::kSuccess);
  EXPECT_FALSE(last_.claimed);
  EXPECT_EQ(last_.mapping.span, (PageSpan{inside.base / kPage, 3}));

  inside.size_pages = 4;
  expect_refused(inside, Status::kInvalidParameter, "its last page is free");
  MapRequest before = valid();
  before.base -= kPage;
  expect_refused(before, Status::kInvalidParameter, "its first page is free");
  MapRequest neighbour = valid();
  neighbour.base += 4 * kPage;
  ASSERT_EQ(claim(neighbour), Status::kSuccess);
  MapRequest both = valid();
  both.size_pages = 8;
  expect_refused(both, Status::kInvalidParameter, "two ranges, though nothing in them is free");
}

TEST_F(AddressSpaceTest, ZeroAndNoAccessWantFreeOrReservedSpace) {
  DXGKIT_COVERS("VA-13");
  ASSERT_EQ(claim(valid()), Status::kSuccess);
  for (const Protection protection : {Protection{.zero = true}, Protection{.no_access = true}}) {
    MapRequest bare{.base = valid().base, .size_pages = 1, .protection = protection};
    expect_refused(bare, Status::kInvalidParameter, "the range came from Map");
  }
  const auto reserved = space_.reserve({.base = 0x2000'0000, .size = 4 * k64}, ++sequence_);
  ASSERT_TRUE(reserved.has_value());
  EXPECT_EQ(claim({.base = 0x2000'0000, .size_pages = 3, .protection = {.zero = true}}),
            Status::kSuccess);
  space_.apply(last_, nullptr);
  EXPECT_TRUE(space_.lookup(0x2000'2FFF)->protection.zero);
  EXPECT_EQ(claim({.base = 0x2000'0000, .size_pages = 1, .protection = {.no_access = true}}),
            Status::kSuccess);
  space_.apply(last_, nullptr);
  EXPECT_FALSE(space_.lookup(0x2000'0000).has_value());
  EXPECT_TRUE(space_.lookup(0x2000'1000).has_value());
  // A mapping inside a reservation does not make it another range.
  MapRequest inside = valid();
  inside.base = 0x2000'0000;
  EXPECT_EQ(claim(inside), Status::kSuccess);
  EXPECT_EQ(claim({.base = 0x2000'0000, .size_pages = 1, .protection = {.no_access = true}}),
            Status::kSuccess);
}

TEST_F(AddressSpaceTest, ChoosesTheLowestFitBetweenTheBounds) {
  DXGKIT_COVERS("VA-08", "VA-15", "VA-16", "VA-17");
  MapRequest request = valid();
  request.base = 0;
  ASSERT_EQ(claim(request), Status::kSuccess);
  EXPECT_EQ(last_.mapping.span.address(), kLeaf);  // below it nobody maps
  ASSERT_EQ(claim(request), Status::kSuccess);
  EXPECT_EQ(last_.mapping.span.address(), kLeaf + 4 * kPage);
  request.minimum = kLeaf + 3 * kPage;
  request.maximum = kLeaf + 12 * kPage;  // exclusive: 8 to 11 fit exactly
  ASSERT_EQ(claim(request), Status::kSuccess);
  EXPECT_EQ(last_.mapping.span.address(), kLeaf + 8 * kPage);
  expect_refused(request, Status::kNoMemory, "nothing is free between the bounds");
  request.maximum += 3 * kPage;
  expect_refused(request, Status::kNoMemory, "a page too few");
  request.maximum += kPage;
  ASSERT_EQ(claim(request), Status::kSuccess);
  request.maximum = request.minimum;
  expect_refused(request, Status::kNoMemory, "no room between equal bounds");
  request.minimum = kEnd;
  request.maximum = 0;
  expect_refused(request, Status::kNoMemory, "beyond the end");
  request = valid();
  request.base = kLeaf - kPage;
  expect_refused(request, Status::kInvalidParameter, "below the first address");
  request.base = 0;
  request.maximum = kLeaf;
  expect_refused(request, Status::kNoMemory, "the only room would be below the first address");
}

TEST_F(AddressSpaceTest, AddressAndOffsetAgreeAsFarAsTheKernelWishes) {
  DXGKIT_COVERS("VA-43");
  MapRequest request = valid();
  request.base = 0;
  request.alignment_bytes = k64;
  request.offset_pages = 21;  // page 5 of a 64 KiB page
  ASSERT_EQ(claim(request), Status::kSuccess);
  EXPECT_EQ(last_.mapping.span, (PageSpan{kLeaf / kPage + 5, 4})) << "page 0 would be at the start";
  // Where there is no such room, any will do.
  request.minimum = kLeaf + 32 * kPage;
  request.maximum = kLeaf + 36 * kPage;
  ASSERT_EQ(claim(request), Status::kSuccess);
  EXPECT_EQ(last_.mapping.span.address(), request.minimum);
}

// Every kind of range that there may be at an address, and who may map there. What is mapped into a
// range claims nothing; what is refused changes nothing.
TEST_F(AddressSpaceTest, WhoMayMapWhatWhere) {
  DXGKIT_COVERS("VA-12", "VA-13");
  constexpr uint64_t kWhole = 16 * kPage;
  struct Row {
    RangeKind kind;
    bool client, client_bare, system;  // may map
  };
  const Row rows[] = {
      {RangeKind::kFree, true, true, true},          {RangeKind::kReserved, true, true, false},
      {RangeKind::kMapped, true, false, false},      {RangeKind::kDriver, false, false, false},
      {RangeKind::kDriverShared, true, true, false}, {RangeKind::kSystem, false, false, true},
  };
  uint64_t base = 0x1000'0000;
  for (const Row& row : rows) {
    for (const int who : {0, 1, 2}) {
      SCOPED_TRACE(static_cast<int>(row.kind) * 10 + who);
      base += 4 * kLeaf;
      MapRequest whole = valid();
      whole.base = base;
      whole.size_pages = 16;
      whole.system = row.kind == RangeKind::kSystem;
      if (row.kind == RangeKind::kReserved) {
        ASSERT_TRUE(space_.reserve({.base = base, .size = kWhole}, ++sequence_).has_value());
      } else if (row.kind == RangeKind::kMapped || row.kind == RangeKind::kSystem) {
        ASSERT_EQ(claim(whole), Status::kSuccess);
        ASSERT_TRUE(last_.claimed);
      } else if (row.kind != RangeKind::kFree) {
        ASSERT_TRUE(
            space_
                .reserve_for_driver({.base = base,
                                     .size = kWhole,
                                     .allow_user_mapping = row.kind == RangeKind::kDriverShared},
                                    kWhole)
                .has_value());
      }
      ASSERT_EQ(space_.owned_at(base).kind, row.kind);
      MapRequest inside = valid();
      inside.base = base + 3 * kPage;
      inside.system = who == 2;
      if (who == 1) {
        inside.allocation = kNoAllocation;
        inside.protection = {.zero = true};
      }
      const bool allowed = who == 0 ? row.client : who == 1 ? row.client_bare : row.system;
      if (!allowed) {
        expect_refused(inside, Status::kInvalidParameter, "another's");
        continue;
      }
      ASSERT_EQ(claim(inside), Status::kSuccess);
      EXPECT_EQ(last_.mapping.span, (PageSpan{base / kPage + 3, 4}));
      EXPECT_EQ(last_.mapping.offset_pages, who == 1 ? 0U : 2U);
      EXPECT_EQ(last_.claimed, row.kind == RangeKind::kFree);
      const OwnedRange after = space_.owned_at(base + 3 * kPage);
      EXPECT_EQ(after.kind, row.kind != RangeKind::kFree ? row.kind
                            : who == 2                   ? RangeKind::kSystem
                                                         : RangeKind::kMapped);
      EXPECT_EQ(after.span.pages, row.kind == RangeKind::kFree ? 4U : 16U);
      if (row.kind == RangeKind::kFree) continue;
      // Its whole, and not a page more at either end.
      inside.base = base;
      inside.size_pages = 16;
      EXPECT_EQ(claim(inside), Status::kSuccess);
      inside.size_pages = 17;
      expect_refused(inside, Status::kInvalidParameter, "a page behind it");
      inside.base = base - kPage;
      expect_refused(inside, Status::kInvalidParameter, "a page before it");
    }
  }
}

TEST_F(AddressSpaceTest, ReserveTakesWhole64KibUnits) {
  DXGKIT_COVERS("VA-32", "VA-33");
  const ReserveRequest valid_request{.base = 0x4000'0000, .size = 2 * k64};
  const auto broken = [&](auto change, const char* why) {
    ReserveRequest request = valid_request;
    change(request);
    expect_refused(request, Status::kInvalidParameter, why);
  };
  broken([](ReserveRequest& r) { r.size = 0; }, "no size");
  broken([](ReserveRequest& r) { r.size += kPage; }, "size of 4 KiB units");
  broken([](ReserveRequest& r) { r.base += kPage; }, "base of 4 KiB units");
  broken([](ReserveRequest& r) { r.minimum = kPage; }, "minimum of 4 KiB units");
  broken([](ReserveRequest& r) { r.maximum = kPage; }, "maximum of 4 KiB units");
  broken([](ReserveRequest& r) { r.base = kEnd - k64; }, "passes the end");
  broken([](ReserveRequest& r) { r.base = kEnd; }, "begins at the end");
  broken([](ReserveRequest& r) { r.base = kEnd + k64; }, "begins behind the end");
  broken([](ReserveRequest& r) { r.base = ~uint64_t{0} - k64 + 1; }, "its end wraps to 64 KiB");
  broken([](ReserveRequest& r) { r.size = ~uint64_t{0} - k64 + 1; }, "base + size wraps");
  broken([](ReserveRequest& r) { r.base = k64; }, "below the first address");
  const auto reserved = space_.reserve(valid_request, ++sequence_);
  ASSERT_TRUE(reserved.has_value());
  EXPECT_FALSE(AddressSpace::needs_apply(*reserved));  // no access: nothing to write
  broken([](ReserveRequest&) {}, "meets itself");
  broken([](ReserveRequest& r) { r.base += k64; }, "meets half of a range");
  broken([](ReserveRequest& r) { r.base -= k64; }, "meets a range with its end");

  // Zero: no memory behind it, but it reads 0 once the operation was carried out.
  const auto zero = space_.reserve({.base = 0x5000'0000, .size = k64, .zero = true}, ++sequence_);
  ASSERT_TRUE(zero.has_value() && AddressSpace::needs_apply(*zero));
  EXPECT_FALSE(space_.lookup(0x5000'0000).has_value());
  PageSpans changed;
  space_.apply(*zero, &changed);
  EXPECT_EQ(changed, (PageSpans{{0x5000'0000 / kPage, 16}}));
  EXPECT_TRUE(space_.lookup(0x5000'F000)->protection.zero);
  // Only a minimum, only a maximum.
  const auto above = space_.reserve({.minimum = 0x5000'0000, .size = k64}, ++sequence_);
  EXPECT_EQ(above->mapping.span.address(), 0x5000'0000 + k64);
  const auto low = space_.reserve({.maximum = kLeaf + k64, .size = k64}, ++sequence_);
  EXPECT_EQ(low->mapping.span.address(), kLeaf);
  expect_refused(ReserveRequest{.maximum = kLeaf + k64, .size = k64}, Status::kNoMemory, "full");
}

TEST_F(AddressSpaceTest, DriversReserveWholeTablesWhenTheProcessIsMade) {
  DXGKIT_COVERS("VA-09");
  for (const DriverReserveRequest& request :
       {DriverReserveRequest{.size = 0}, DriverReserveRequest{.size = kLeaf + kPage},
        DriverReserveRequest{.size = kLeaf, .alignment = 3 * kLeaf},
        DriverReserveRequest{.base = kLeaf + kPage, .size = kLeaf},
        DriverReserveRequest{.base = 0x4000'0000, .size = ~uint64_t{0} - kLeaf + 1},
        DriverReserveRequest{.base = kEnd - kLeaf, .size = 2 * kLeaf},
        DriverReserveRequest{.base = kEnd, .size = kLeaf},
        DriverReserveRequest{.base = kEnd + kLeaf, .size = kLeaf}}) {
    const auto refused = space_.reserve_for_driver(request, kLeaf);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error(), Status::kInvalidParameter);
  }
  const auto first = space_.reserve_for_driver({.size = 2 * kLeaf, .alignment = kPage}, kLeaf);
  EXPECT_EQ(*first, kLeaf);  // entry 1, whole tables
  const auto aligned = space_.reserve_for_driver({.size = kLeaf, .alignment = 8 * kLeaf}, kLeaf);
  EXPECT_EQ(*aligned, 8 * kLeaf);
  const auto shared = space_.reserve_for_driver(
      {.base = 16 * kLeaf, .size = kLeaf, .allow_user_mapping = true}, kLeaf);
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(space_.reserve_for_driver({.base = 16 * kLeaf, .size = kLeaf}, kLeaf).error(),
            Status::kInvalidParameter);
  EXPECT_EQ(space_.reserve_for_driver({.base = 15 * kLeaf, .size = 2 * kLeaf}, kLeaf).error(),
            Status::kInvalidParameter)
      << "its end is taken";
  EXPECT_EQ(space_.reserve_for_driver({.size = kEnd}, kLeaf).error(), Status::kNoMemory);
  EXPECT_EQ(*space_.reserve_for_driver({.base = kEnd - kLeaf, .size = kLeaf}, kLeaf), kEnd - kLeaf);

  MapRequest request = valid();
  request.base = kLeaf;
  expect_refused(request, Status::kInvalidParameter, "the driver's");
  request.base = 16 * kLeaf;
  EXPECT_EQ(claim(request), Status::kSuccess);
  EXPECT_EQ(space_.free(kLeaf, kLeaf, ++sequence_, nullptr), Status::kInvalidParameter);
  EXPECT_EQ(space_.free(16 * kLeaf, kPage, ++sequence_, nullptr), Status::kInvalidParameter);
}

TEST_F(AddressSpaceTest, FreeTakesWhatIsTheClientsAndGivesItBackAtOnce) {
  DXGKIT_COVERS("VA-41");
  ASSERT_EQ(claim(valid()), Status::kSuccess);
  space_.apply(last_, nullptr);
  const uint64_t base = valid().base;
  const auto refused = [&](uint64_t at, uint64_t size, const char* why) {
    const std::string before = dump();
    PageSpans changed;
    EXPECT_EQ(space_.free(at, size, ++sequence_, &changed), Status::kInvalidParameter) << why;
    EXPECT_EQ(dump(), before) << why;
    EXPECT_TRUE(changed.empty()) << why;
  };
  refused(base, 0, "no size");
  refused(base + 1, kPage, "misaligned base");
  refused(base, kPage + 1, "misaligned size");
  refused(base, 5 * kPage, "its last page is free");
  refused(base - kPage, 2 * kPage, "its first page is free");
  refused(kEnd - kPage, 2 * kPage, "passes the end");
  refused(base, ~uint64_t{0} - kPage + 1, "base + size wraps");
  refused(0, kLeaf, "nobody's");
  MapRequest system = valid();
  system.base = 0x3000'0000;
  system.system = true;
  ASSERT_EQ(claim(system), Status::kSuccess);
  refused(system.base, kPage, "the kernel's");
  MapRequest trespass = valid();
  trespass.base = system.base;
  expect_refused(trespass, Status::kInvalidParameter, "the kernel's");
  EXPECT_EQ(space_.free_system(base, kPage, ++sequence_, nullptr), Status::kInvalidParameter);
  EXPECT_EQ(space_.free_system(system.base, 4 * kPage, ++sequence_, nullptr), Status::kSuccess);

  // The middle of it.
  PageSpans changed;
  EXPECT_EQ(space_.free(base + kPage, 2 * kPage, ++sequence_, &changed), Status::kSuccess);
  EXPECT_EQ(changed, (PageSpans{{base / kPage + 1, 2}}));
  EXPECT_FALSE(space_.lookup(base + kPage).has_value());
  EXPECT_EQ(space_.lookup(base)->offset_pages, 2U);
  EXPECT_EQ(space_.lookup(base + 3 * kPage)->offset_pages, 5U);
  MapRequest again = valid();
  again.base = base + kPage;
  again.size_pages = 2;
  again.allocation = kB;
  EXPECT_EQ(claim(again), Status::kSuccess);
  EXPECT_TRUE(last_.claimed);
  // Several ranges at once, as long as none of it is free.
  EXPECT_EQ(space_.free(base, 4 * kPage, ++sequence_, nullptr), Status::kSuccess);
  EXPECT_EQ(space_.owned_at(base).kind, RangeKind::kFree);
}

TEST_F(AddressSpaceTest, OperationsQueuedForFreedAddressesDoNothing) {
  DXGKIT_COVERS("VA-42");
  // Two maps wait; the first range is freed, and obtained again in part.
  const uint64_t base = valid().base;
  ASSERT_EQ(claim(valid()), Status::kSuccess);
  const MapOperation old = last_;
  ASSERT_EQ(space_.free(base, 4 * kPage, ++sequence_, nullptr), Status::kSuccess);
  MapRequest request = valid();
  request.allocation = kB;
  request.base = base + kPage;
  request.size_pages = 1;
  ASSERT_EQ(claim(request), Status::kSuccess);
  space_.apply(last_, nullptr);
  PageSpans changed;
  space_.apply(old, &changed);
  EXPECT_TRUE(changed.empty());
  EXPECT_FALSE(space_.lookup(base).has_value());
  EXPECT_EQ(space_.lookup(base + kPage)->allocation, kB);
  // A range that is still the same gets the mapping that was queued for it.
  MapRequest wide = valid();
  wide.base = 0x2000'0000;
  ASSERT_EQ(claim(wide), Status::kSuccess);
  const MapOperation partly = last_;
  ASSERT_EQ(space_.free(wide.base + kPage, kPage, ++sequence_, nullptr), Status::kSuccess);
  space_.apply(partly, &changed);
  EXPECT_EQ(changed, (PageSpans{{wide.base / kPage, 1}, {wide.base / kPage + 2, 2}}));
  EXPECT_EQ(space_.lookup(wide.base + 2 * kPage)->offset_pages, 4U);
  // Updates alike.
  const auto reserved = space_.reserve({.base = 0x4000'0000, .size = 2 * k64}, ++sequence_);
  ASSERT_TRUE(reserved.has_value());
  const UpdateOperation update{.kind = UpdateOperation::Kind::kMap,
                               .base_address = 0x4000'0000,
                               .size_bytes = k64,
                               .allocation = kA,
                               .whole_allocation_pages = 100};
  ASSERT_EQ(space_.check_update({&update, 1}), Status::kSuccess);
  const uint64_t called = ++sequence_;
  ASSERT_EQ(space_.free(0x4000'0000, k64, ++sequence_, nullptr), Status::kSuccess);
  changed.clear();
  space_.apply_update({&update, 1}, called, &changed);
  EXPECT_TRUE(changed.empty());
}

// Every way in which a new mapping (N, of B) meets an old one (of A, pages 10 to 19, offset 100):
struct Meeting {
  const char* picture;
  uint64_t first, pages;  // of N
  const char* result;
};
const Meeting kMeetings[] = {
    {R"(
       old     |=====A=====|
       new  |N|
            |N||=====A=====|            N before A)",
     5, 3, "5+3=4:0 10+10=3:100"},
    {R"(
       old     |=====A=====|
       new  |N|
            |N|=====A=====|             N touches A from below)",
     7, 3, "7+3=4:0 10+10=3:100"},
    {R"(
       old     |=====A=====|
       new  |==N==|
            |==N==|===A====|            N has the beginning of A and more)",
     7, 5, "7+5=4:0 12+8=3:102"},
    {R"(
       old     |=====A=====|
       new     |==N==|
               |==N==|==A==|            N has the beginning of A)",
     10, 4, "10+4=4:0 14+6=3:104"},
    {R"(
       old     |=====A=====|
       new        |=N=|
               |A'|=N=|=A''|            N in the middle: A splits)",
     13, 4, "10+3=3:100 13+4=4:0 17+3=3:107"},
    {R"(
       old     |=====A=====|
       new            |=N==|
               |==A===|=N==|            N has the end of A)",
     15, 5, "10+5=3:100 15+5=4:0"},
    {R"(
       old     |=====A=====|
       new            |==N===|
               |==A===|==N===|          N has the end of A and more)",
     15, 9, "10+5=3:100 15+9=4:0"},
    {R"(
       old     |=====A=====|
       new                 |=N=|
               |=====A=====|=N=|        N touches A from above)",
     20, 3, "10+10=3:100 20+3=4:0"},
    {R"(
       old     |=====A=====|
       new                   |N|
               |=====A=====| |N|        N behind A)",
     22, 2, "10+10=3:100 22+2=4:0"},
    {R"(
       old     |=====A=====|
       new     |=====N=====|
               |=====N=====|            N instead of A)",
     10, 10, "10+10=4:0"},
    {R"(
       old     |=====A=====|
       new   |=======N=======|
             |=======N=======|          A is gone)",
     8, 14, "8+14=4:0"},
};

TEST_F(AddressSpaceTest, APartialMapSplitsWhatItMeets) {
  // One drawing each. Then the same with NoAccess in N's place: the same parts of A stay.
  DXGKIT_COVERS("VA-30");
  for (const Meeting& meeting : kMeetings) {
    for (const bool unmaps : {false, true}) {
      AddressSpace space({.end = kEnd, .first = 0});
      ASSERT_TRUE(space.reserve({.base = 0, .size = 4 * k64}, 1).has_value());
      const auto apply = [&](const Mapping& mapping, PageSpans* changed) {
        space.apply({.mapping = mapping, .sequence = 2}, changed);
      };
      const Protection protection{.write = true};
      apply({.span = {10, 10},
             .allocation = kA,
             .offset_pages = 100,
             .protection = protection,
             .driver_protection = 7},
            nullptr);
      PageSpans changed;
      Mapping arriving{.span = {meeting.first, meeting.pages}, .allocation = kB};
      if (unmaps) arriving = {.span = arriving.span, .protection = {.no_access = true}};
      apply(arriving, &changed);
      std::string result;
      space.for_each_in({0, 64}, [&](const Mapping& mapping) {
        if (!result.empty()) result += " ";
        result += std::to_string(mapping.span.first_page) + "+" +
                  std::to_string(mapping.span.pages) + "=" +
                  std::to_string(slot_of(mapping.allocation)) + ":" +
                  std::to_string(mapping.offset_pages);
        if (mapping.allocation == kA) {
          EXPECT_EQ(mapping.protection, protection) << meeting.picture;
          EXPECT_EQ(mapping.driver_protection, 7U) << meeting.picture;
        }
      });
      std::string expected = meeting.result;
      const uint64_t first = std::max<uint64_t>(meeting.first, 10);
      const uint64_t end = std::min<uint64_t>(meeting.first + meeting.pages, 20);
      if (!unmaps) {
        EXPECT_EQ(changed, (PageSpans{arriving.span})) << meeting.picture;
      } else {
        // Without N, and only what was mapped has changed.
        const size_t at = expected.find("=4:0");
        size_t from = expected.rfind(' ', at);
        from = from == std::string::npos ? 0 : from;
        expected.erase(from, at + 4 - from);
        if (!expected.empty() && expected.front() == ' ') expected.erase(0, 1);
        EXPECT_EQ(changed, first < end ? (PageSpans{{first, end - first}}) : PageSpans{})
            << meeting.picture;
      }
      EXPECT_EQ(result, expected) << meeting.picture;
      EXPECT_TRUE(space.validate());
    }
  }
}

TEST_F(AddressSpaceTest, ARangeOverSeveralReplacesThemAll) {
  DXGKIT_COVERS("VA-30");
  //   |==A==|  |=B=|==A==|   |=B=|
  //      |==========N==========|
  //   |A'|==========N==========|B|
  ASSERT_TRUE(space_.reserve({.base = kLeaf, .size = 8 * k64}, ++sequence_).has_value());
  const uint64_t page = kLeaf / kPage;
  map(page, 5, kA, 0);
  map(page + 8, 4, kB, 10);
  map(page + 12, 5, kA, 50);
  map(page + 20, 4, kB, 70);
  PageSpans changed;
  map(page + 3, 19, AllocationId{uint64_t{9} << kIdSlotBits | 9}, 0, &changed);
  EXPECT_EQ(changed, (PageSpans{{page + 3, 19}}));
  EXPECT_NE(dump().find(" 512+3=3:0 515+19=9:0 534+2=4:72"), std::string::npos) << dump();
  EXPECT_EQ(space_.mapping_count(kA), 1U);
  EXPECT_EQ(space_.mapping_count(kB), 1U);
}

TEST_F(AddressSpaceTest, AUniqueDriverProtectionStandsAlone) {
  DXGKIT_COVERS("VA-24");
  constexpr uint64_t kUnique = kUniqueDriverProtection | 1;
  ASSERT_TRUE(space_.reserve({.base = 0x4000'0000, .size = 4 * k64}, ++sequence_).has_value());
  MapRequest request = valid();
  request.base = 0x4000'0000;
  request.driver_protection = kUnique;
  ASSERT_EQ(claim(request), Status::kSuccess);
  const MapOperation first = last_;
  MapRequest other = valid();
  other.driver_protection = kUnique + 1;
  for (const bool applied : {false, true}) {
    if (applied) space_.apply(first, nullptr);
    expect_refused(other, Status::kInvalidParameter, "another unique one");
    MapRequest plain = valid();
    expect_refused(plain, Status::kInvalidParameter, "none beside a unique one");
    plain.offset_pages = 6;
    EXPECT_EQ(claim(plain), Status::kSuccess) << "another part of the allocation";
    withdraw();
    MapRequest same = valid();
    same.driver_protection = kUnique;
    EXPECT_EQ(claim(same), Status::kSuccess) << "the same one";
    withdraw();
    MapRequest in_place = other;
    in_place.base = request.base;
    expect_refused(in_place, Status::kInvalidParameter, "in place, but not by way of NoAccess");
  }
  UpdateOperation update{.kind = UpdateOperation::Kind::kMap,
                         .base_address = 0x4000'0000 + k64,
                         .size_bytes = k64,
                         .allocation = kA,
                         .whole_allocation_pages = 100};
  EXPECT_EQ(space_.check_update({&update, 1}), Status::kInvalidParameter);
  update.driver_protection = kUnique;
  EXPECT_EQ(space_.check_update({&update, 1}), Status::kInvalidParameter)
      << "a plain Map has no protection, whatever its operation holds";
  update.kind = UpdateOperation::Kind::kMapProtect;
  EXPECT_EQ(space_.check_update({&update, 1}), Status::kSuccess);
  // NoAccess first, though it still waits.
  ASSERT_EQ(claim({.base = 0x4000'0000, .size_pages = 4, .protection = {.no_access = true}}),
            Status::kSuccess);
  EXPECT_EQ(claim(other), Status::kSuccess);
  // A unique one where there are others already, whether applied or not.
  MapRequest first_plain = valid();
  first_plain.base = 0x5000'0000;
  first_plain.offset_pages = 70;
  ASSERT_EQ(claim(first_plain), Status::kSuccess);
  const MapOperation waiting = last_;
  for (const bool applied : {false, true}) {
    if (applied) space_.apply(waiting, nullptr);
    MapRequest late = valid();
    late.driver_protection = kUnique;
    late.offset_pages = 73;
    expect_refused(late, Status::kInvalidParameter, "its first page is mapped otherwise");
    late.offset_pages = 67;
    expect_refused(late, Status::kInvalidParameter, "its last page is mapped otherwise");
    late.offset_pages = 66;
    EXPECT_EQ(claim(late), Status::kSuccess);
    withdraw();
    late.offset_pages = 74;
    EXPECT_EQ(claim(late), Status::kSuccess);
    withdraw();
    late.offset_pages = 70;
    late.allocation = kB;
    EXPECT_EQ(claim(late), Status::kSuccess) << "another allocation";
    withdraw();
  }
  // A protection that is not unique may change freely.
  MapRequest plain = valid();
  plain.base = 0x6000'0000;
  plain.offset_pages = 50;
  plain.driver_protection = 4;
  EXPECT_EQ(claim(plain), Status::kSuccess);
  plain.base = 0x7000'0000;
  plain.driver_protection = 5;
  EXPECT_EQ(claim(plain), Status::kSuccess);
}

TEST_F(AddressSpaceTest, ARepeatedMappingIsOfThePagesThatItRepeats) {
  // Eight pages show two of the allocation, again and again: those may not be unique elsewhere.
  DXGKIT_COVERS("VA-24", "VA-37");
  ASSERT_TRUE(space_.reserve({.base = 0x4000'0000, .size = k64}, ++sequence_).has_value());
  const UpdateOperation update{.kind = UpdateOperation::Kind::kMap,
                               .base_address = 0x4000'0000,
                               .size_bytes = 8 * kPage,
                               .allocation = kA,
                               .allocation_offset_bytes = 20 * kPage,
                               .allocation_size_bytes = 2 * kPage,
                               .whole_allocation_pages = 100};
  ASSERT_EQ(space_.check_update({&update, 1}), Status::kSuccess);
  space_.apply_update({&update, 1}, ++sequence_, nullptr);
  for (uint64_t page = 19; page < 29; ++page) {
    MapRequest unique = valid();
    unique.driver_protection = kUniqueDriverProtection | 1;
    unique.offset_pages = page;
    unique.size_pages = 1;
    const bool may = page < 20 || page >= 22;
    EXPECT_EQ(claim(unique), may ? Status::kSuccess : Status::kInvalidParameter) << page;
    if (may) withdraw();
  }
}

// What was freed before its operation ran will never be there: it keeps nobody out.
TEST_F(AddressSpaceTest, WhatWasQueuedAndIsFreedLeavesTheProtectionToOthers) {
  DXGKIT_COVERS("VA-24", "VA-42");
  MapRequest unique = valid();
  unique.driver_protection = kUniqueDriverProtection | 1;
  ASSERT_EQ(claim(unique), Status::kSuccess);
  MapRequest other = valid();
  other.base = 0x5000'0000;
  other.driver_protection = kUniqueDriverProtection | 2;
  expect_refused(other, Status::kInvalidParameter, "it is on its way");
  ASSERT_EQ(space_.free(last_.mapping.span.address(), last_.mapping.span.size_bytes(), ++sequence_,
                        nullptr),
            Status::kSuccess);
  EXPECT_EQ(claim(other), Status::kSuccess);
}

TEST_F(AddressSpaceTest, WhatWasQueuedAndIsDoneLeavesOthersThatAreQueuedUnique) {
  DXGKIT_COVERS("VA-24");
  MapRequest before = valid();
  before.base = 0x4000'0000;
  before.offset_pages = 50;
  ASSERT_EQ(claim(before), Status::kSuccess);
  space_.apply(last_, nullptr);
  MapRequest unique = valid();
  unique.base = 0x5000'0000;
  unique.driver_protection = kUniqueDriverProtection | 1;
  ASSERT_EQ(claim(unique), Status::kSuccess);
  expect_refused(valid(), Status::kInvalidParameter, "the other one is queued");
}

TEST_F(AddressSpaceTest, ALaterCallThatTakesAPartOfAMappingLeavesTheRestUnique) {
  // Of ten pages of an allocation the fourth to the sixth get another mapping, later and not yet.
  // So those may have a unique protection elsewhere; the pages on either side may not.
  DXGKIT_COVERS("VA-24");
  ASSERT_TRUE(space_.reserve({.base = 0x4000'0000, .size = 4 * k64}, ++sequence_).has_value());
  MapRequest plain = valid();
  plain.base = 0x4000'0000;
  plain.offset_pages = 20;
  plain.size_pages = 10;
  ASSERT_EQ(claim(plain), Status::kSuccess);
  const MapOperation first = last_;
  MapRequest hole = valid();
  hole.base = 0x4000'0000 + 3 * kPage;
  hole.size_pages = 3;
  hole.allocation = kB;
  ASSERT_EQ(claim(hole), Status::kSuccess);
  for (const bool applied : {false, true}) {
    if (applied) space_.apply(first, nullptr);
    for (uint64_t page = 19; page < 31; ++page) {
      MapRequest unique = valid();
      unique.driver_protection = kUniqueDriverProtection | 1;
      unique.offset_pages = page;
      unique.size_pages = 1;
      const bool may = page < 20 || (page >= 23 && page < 26) || page == 30;
      EXPECT_EQ(claim(unique), may ? Status::kSuccess : Status::kInvalidParameter) << page;
      if (may) withdraw();
    }
  }
}

TEST_F(AddressSpaceTest, AnAllocationOfTwoToThe42PagesIsTooLarge) {
  // The pages of one are counted with 42 bits.
  DXGKIT_COVERS("VA-19");
  constexpr uint64_t kMost = uint64_t{1} << 42;
  for (const uint64_t pages : {kMost - 1, kMost, kMost + 1}) {
    const Status expected = pages < kMost ? Status::kSuccess : Status::kInvalidParameter;
    MapRequest request = valid();
    request.allocation_pages = pages;
    EXPECT_EQ(claim(request), expected) << pages;
    if (expected == Status::kSuccess) withdraw();
  }
  ASSERT_TRUE(space_.reserve({.base = 0x4000'0000, .size = 4 * k64}, ++sequence_).has_value());
  for (const uint64_t pages : {kMost - 1, kMost, kMost + 1}) {
    const UpdateOperation update{.kind = UpdateOperation::Kind::kMap,
                                 .base_address = 0x4000'0000,
                                 .size_bytes = k64,
                                 .allocation = kA,
                                 .whole_allocation_pages = pages};
    EXPECT_EQ(space_.check_update({&update, 1}),
              pages < kMost ? Status::kSuccess : Status::kInvalidParameter)
        << pages;
  }
}

TEST_F(AddressSpaceTest, WhatTheKernelFreesIsNotMappedByAnEarlierCall) {
  DXGKIT_COVERS("VA-42");
  MapRequest request = valid();
  request.system = true;
  const Result<MapOperation> late = space_.claim(request, ++sequence_);
  ASSERT_TRUE(late.has_value());
  const PageSpan span = late->mapping.span;
  ASSERT_EQ(space_.free_system(span.address(), span.size_bytes(), ++sequence_, nullptr),
            Status::kSuccess);
  PageSpans changed;
  space_.apply(*late, &changed);
  EXPECT_EQ(changed, PageSpans{});
  EXPECT_EQ(space_.mapped_ranges(), 0U);
}

TEST_F(AddressSpaceTest, WhatIsBelowTheFirstPageIsTheDrivers) {
  // However little it is.
  for (const uint64_t pages : {0U, 1U, 2U, 3U}) {
    AddressSpace space({.end = kEnd, .first = pages * kPage});
    ASSERT_EQ(space.owned_ranges(), pages == 0 ? 0U : 1U) << pages;
    const OwnedRange first = space.owned_at(0);
    EXPECT_EQ(first.kind, pages == 0 ? RangeKind::kFree : RangeKind::kDriver) << pages;
    if (pages == 0) continue;
    EXPECT_EQ(first.span, (PageSpan{0, pages})) << pages;
    EXPECT_EQ(space.free(0, kPage, 1, nullptr), Status::kInvalidParameter) << pages;
    const auto placed = space.claim({.allocation = kA, .size_pages = 1, .allocation_pages = 1}, 2);
    ASSERT_TRUE(placed.has_value());
    EXPECT_GE(placed->mapping.span.first_page, pages);
  }
}

TEST_F(AddressSpaceTest, AWindowShowsWhatItMeetsAndNoMore) {
  const uint64_t page = kLeaf / kPage;
  map(page, 10, kA, 0);
  map(page + 10, 2, kB, 0);
  map(page + 20, 2, kB, 7);
  const auto seen = [&](PageSpan window) {
    std::vector<PageSpan> spans;
    space_.for_each_in(window, [&](const Mapping& mapping) { spans.push_back(mapping.span); });
    return spans;
  };
  using Spans = std::vector<PageSpan>;
  EXPECT_EQ(seen({page + 3, 0}), Spans{}) << "nothing, though it is within a mapping";
  EXPECT_EQ(seen({page + 3, 1}), (Spans{{page + 3, 1}}));
  EXPECT_EQ(seen({page + 3, 7}), (Spans{{page + 3, 7}})) << "up to a border";
  EXPECT_EQ(seen({page + 3, 8}), (Spans{{page + 3, 7}, {page + 10, 1}}));
  EXPECT_EQ(seen({page + 11, 9}), (Spans{{page + 11, 1}}));
  EXPECT_EQ(seen({page + 11, 10}), (Spans{{page + 11, 1}, {page + 20, 1}}));
  EXPECT_EQ(seen({page + 12, 8}), Spans{});
  EXPECT_EQ(seen({page + 22, 100}), Spans{});
}

TEST_F(AddressSpaceTest, RangesLargerThanATreeStayOneToTheClient) {
  // 2^41 pages and more: kept in pieces of 4 TiB, freed as one.
  AddressSpace space({.end = uint64_t{1} << 57, .first = kLeaf});
  const uint64_t size = uint64_t{48} << 40;
  const auto reserved = space.reserve({.base = uint64_t{1} << 50, .size = size, .zero = true}, 1);
  ASSERT_TRUE(reserved.has_value());
  PageSpans changed;
  space.apply(*reserved, &changed);
  EXPECT_EQ(changed.size(), 1U);
  EXPECT_TRUE(space.lookup((uint64_t{1} << 50) + size - 1)->protection.zero);
  EXPECT_FALSE(space.lookup((uint64_t{1} << 50) + size).has_value());
  changed.clear();
  EXPECT_EQ(space.free(uint64_t{1} << 50, size, 2, &changed), Status::kSuccess);
  EXPECT_EQ(changed, (PageSpans{{uint64_t{1} << 38, size / kPage}}));
  EXPECT_EQ(space.mapped_ranges(), 0U);
}

}  // namespace
}  // namespace dxgkit::gpuva
