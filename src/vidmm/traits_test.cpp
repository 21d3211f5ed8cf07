#include "vidmm/traits.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/arithmetic.h"

namespace dxgkit::vidmm {
namespace {

AllocationDesc base() {
  return {.size_bytes = kPageBytes,
          .alignment_bytes = kPageBytes,
          .pitch_aligned_size_bytes = 2 * kPageBytes,
          .supported_read = 1,
          .supported_write = 1};
}

using Change = std::function<void(AllocationDesc&)>;
struct Field {
  std::string name;
  Change change;
  std::function<bool(const AllocationDesc&)> changed;
};
std::vector<Field> fields() {
  const auto flag = [](const char* name, bool AllocationDesc::*member) {
    return Field{name, [member](AllocationDesc& d) { d.*member = true; },
                 [member](const AllocationDesc& d) { return d.*member; }};
  };
  return {
      {"alignment", [](auto& d) { d.alignment_bytes = 16 * kPageBytes; },
       [](const auto& d) { return d.alignment_bytes == 16 * kPageBytes; }},
      {"pitch", [](auto& d) { d.pitch_aligned_size_bytes = 3 * kPageBytes; },
       [](const auto& d) { return d.pitch_aligned_size_bytes == 3 * kPageBytes; }},
      {"read set", [](auto& d) { d.supported_read = 3; },
       [](const auto& d) { return d.supported_read == 3; }},
      {"write set", [](auto& d) { d.supported_write = 0x80000000; },
       [](const auto& d) { return d.supported_write == 0x80000000; }},
      {"eviction set", [](auto& d) { d.eviction = 4; },
       [](const auto& d) { return d.eviction == 4; }},
      {"preferred segment", [](auto& d) { d.preferred[4].segment = SegmentId{32}; },
       [](const auto& d) { return d.preferred[4].segment == SegmentId{32}; }},
      {"direction of a preference", [](auto& d) { d.preferred[0].from = SearchFrom::kTop; },
       [](const auto& d) { return d.preferred[0].from == SearchFrom::kTop; }},
      {"bank", [](auto& d) { d.banks[3].bank = 7; },
       [](const auto& d) { return d.banks[3].bank == 7; }},
      {"direction of a bank", [](auto& d) { d.banks[0].from = SearchFrom::kTop; },
       [](const auto& d) { return d.banks[0].from == SearchFrom::kTop; }},
      flag("from the end", &AllocationDesc::from_end_of_segment),
      flag("visible", &AllocationDesc::cpu_visible),
      flag("cached", &AllocationDesc::cached),
      flag("permanent", &AllocationDesc::permanent_system_memory),
      flag("pinned", &AllocationDesc::pinned),
      flag("unmoveable", &AllocationDesc::unmoveable),
      flag("last fifth", &AllocationDesc::last_fifth),
      flag("context", &AllocationDesc::context_resource),
      flag("told of residency", &AllocationDesc::notify_residency),
      flag("told of eviction", &AllocationDesc::notify_eviction),
  };
}

// Two descriptions share their traits only if nothing in them differs, and each gets its own back.
TEST(Traits, EveryFieldMakesAnotherKindAndComesBack) {
  TraitsTable table;
  const Traits* const plain = table.take(Traits(base()));
  for (const Field& field : fields()) {
    SCOPED_TRACE(field.name);
    AllocationDesc d = base();
    ASSERT_FALSE(field.changed(plain->unpacked(1, 1)));
    field.change(d);
    EXPECT_FALSE(Traits(d) == Traits(base()));
    const Traits* const other = table.take(Traits(d));
    EXPECT_NE(other, plain);
    const AllocationDesc back = other->unpacked(12345, 678);
    EXPECT_TRUE(field.changed(back));
    EXPECT_EQ(back.size_bytes, 12345U);
    EXPECT_EQ(back.priority, 678U);
    for (const Field& same : fields()) {
      if (same.name != field.name) {
        EXPECT_FALSE(same.changed(back)) << same.name;
      }
    }
    table.drop(other);
  }
}

TEST(Traits, ABankBeyondAllOthersStillNamesNone) {
  AllocationDesc d = base();
  d.banks[1].bank = 0xFFFFFFFF;
  EXPECT_EQ(Traits(d).unpacked(1, 1).banks[1].bank, 0x7FFFFFFFU);
}

TEST(Traits, AKindIsKeptWhileSomebodyHasIt) {
  TraitsTable table;
  const Traits* const first = table.take(Traits(base()));
  EXPECT_EQ(table.take(Traits(base())), first);
  table.drop(first);
  EXPECT_EQ(table.take(Traits(base())), first) << "one of two is left";
  EXPECT_EQ(first->alignment_bytes(), kPageBytes);
}

TEST(Traits, AShapeIsTheSameFromADescriptionAndItsTraits) {
  AllocationDesc d = base();
  d.alignment_bytes = 64 * kPageBytes;
  d.last_fifth = true;
  const Shape one(d);
  const Shape other(d.size_bytes, Traits(d));
  EXPECT_EQ(one.size_bytes, other.size_bytes);
  EXPECT_EQ(one.alignment_bytes, other.alignment_bytes);
  EXPECT_EQ(one.pitch_aligned_size_bytes, other.pitch_aligned_size_bytes);
  EXPECT_TRUE(other.last_fifth);
}

}  // namespace
}  // namespace dxgkit::vidmm
