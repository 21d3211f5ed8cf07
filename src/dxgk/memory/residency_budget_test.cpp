// What each process may keep of a segment group, as others come and list more. The group has 16
// pages.
#include "dxgk/memory/residency_budget.h"

#include <gtest/gtest.h>

#include <memory>

#include "dxgk/core/test_core.h"
#include "dxgk/memory/memory_floor.h"
#include "dxgk/system.h"
#include "tests/support/covers.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint64_t kPages = 16;

/// One memory segment, and the books of it.
struct Books {
  Books() {
    vidmm::SegmentDesc segment;
    segment.id = SegmentId{1};
    segment.size_bytes = segment.commit_limit_bytes = kPages * kPageBytes;
    test.core.set_memory(std::make_unique<vidmm::MemoryManager>(std::vector{segment}));
    budgets = std::make_unique<Budgets>(floor);
  }
  AllocationId allocation(uint64_t pages) {
    Allocation& made = floor.allocations.create();
    vidmm::AllocationDesc desc;
    desc.size_bytes = pages * kPageBytes;
    desc.alignment_bytes = kPageBytes;
    desc.supported_read = desc.supported_write = vidmm::segment_bit(SegmentId{1});
    EXPECT_TRUE(is_success(test.core.memory().create(made.id, desc)));
    return made.id;
  }
  uint64_t budget_pages(const Process& process) {
    return budgets->video_memory_info(process, SegmentGroup::kLocal).budget / kPageBytes;
  }
  uint64_t usage_pages(const Process& process) {
    const auto found = budgets->video_memory_info(process, SegmentGroup::kLocal);
    return found.usage / kPageBytes;
  }

  TestCore test;
  TestAdapter whole;
  MemoryFloor floor{test.core, whole};
  System system{test.core.runtime(), test.machine, test.kernel, test.findings};
  std::unique_ptr<Budgets> budgets;
};

template <typename Body>
void with_books(Body body) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Books books;
    body(books, *books.budgets);
  });
}

TEST(Budgets, WhatOthersDoNotUseIsLent) {
  DXGKIT_COVERS("RES-18");
  with_books([](Books& books, Budgets& budgets) {
    Process& a = books.system.create_process("a");
    Process& b = books.system.create_process("b");
    budgets.device_created(a);
    budgets.device_created(b);
    EXPECT_EQ(books.budget_pages(a), kPages);
    budgets.charge(a, books.allocation(12));
    EXPECT_EQ(books.budget_pages(a), kPages) << "nobody else uses any";
    EXPECT_EQ(books.budget_pages(b), kPages / 2) << "never below an even share";
    EXPECT_EQ(budgets.bytes_to_trim(a), 0U);
    const AllocationId theirs = books.allocation(8);
    budgets.charge(b, theirs);
    EXPECT_EQ(books.budget_pages(a), kPages / 2);
    EXPECT_EQ(budgets.bytes_to_trim(a), 4 * kPageBytes);
    EXPECT_EQ(budgets.bytes_to_trim(b), 0U);
    budgets.uncharge(b, theirs);
    EXPECT_EQ(budgets.bytes_to_trim(a), 0U);
    budgets.device_destroyed(b);
    EXPECT_EQ(budgets.reserve(b, SegmentGroup::kLocal, 0), Status::kInvalidParameter);
  });
}

TEST(Budgets, AnAllocationThatTwoDevicesListCountsOnce) {
  with_books([](Books& books, Budgets& budgets) {
    Process& a = books.system.create_process("a");
    budgets.device_created(a);
    const AllocationId both = books.allocation(3);
    budgets.charge(a, both);
    budgets.charge(a, both);
    EXPECT_EQ(books.usage_pages(a), 3U);
    budgets.uncharge(a, both);
    EXPECT_EQ(books.usage_pages(a), 3U);
    budgets.uncharge(a, both);
    EXPECT_EQ(books.usage_pages(a), 0U);
    budgets.recharge(a, both, SegmentId{1});
    EXPECT_EQ(books.usage_pages(a), 0U) << "it is there for older work only";
  });
}

TEST(Budgets, WhatWouldBeTooMuchIsSaidAndNotCharged) {
  with_books([](Books& books, Budgets& budgets) {
    Process& a = books.system.create_process("a");
    budgets.device_created(a);
    budgets.charge(a, books.allocation(12));
    const auto opened = make_object<OpenedAllocation>();
    opened->allocation = &books.floor.allocations.at(books.allocation(8));
    EXPECT_EQ(budgets.overshoot(a, std::span(&opened, 1)), 4 * kPageBytes);
    EXPECT_EQ(books.usage_pages(a), 12U);
    EXPECT_EQ(budgets.beyond_totals(a), 0U);
  });
}

TEST(Budgets, HalfOfAGroupCanBeReserved) {
  DXGKIT_COVERS("THUNK-36");
  with_books([](Books& books, Budgets& budgets) {
    Process& a = books.system.create_process("a");
    Process& b = books.system.create_process("b");
    budgets.device_created(a);
    budgets.device_created(b);
    const uint64_t half = kPages / 2 * kPageBytes;
    EXPECT_EQ(budgets.reserve(a, SegmentGroup::kLocal, half + 1), Status::kInvalidParameter);
    EXPECT_EQ(budgets.reserve(a, SegmentGroup::kLocal, half), Status::kSuccess);
    EXPECT_EQ(budgets.reserve(b, SegmentGroup::kLocal, 1), Status::kInvalidParameter);
    EXPECT_EQ(books.budget_pages(b), kPages / 2) << "what is reserved is not lent";
  });
}

// An allocation counts where it will probably be: in the group of the first segment it likes that
// is not full, and where all are full in that of the first.
TEST(Budgets, WhatHasNoRoomAnywhereCountsWhereItLikesToBe) {
  DXGKIT_COVERS("RES-20");
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    TestCore test;
    std::vector<vidmm::SegmentDesc> segments(2);
    for (uint32_t i = 0; i < 2; ++i) {
      segments[i].id = SegmentId{i + 1};
      segments[i].size_bytes = segments[i].commit_limit_bytes = kPages * kPageBytes;
    }
    segments[1].kind = vidmm::SegmentKind::kAperture;
    test.core.set_memory(std::make_unique<vidmm::MemoryManager>(segments));
    TestAdapter whole;
    MemoryFloor floor(test.core, whole);
    System system(test.core.runtime(), test.machine, test.kernel, test.findings);
    Budgets budgets(floor);
    Process& a = system.create_process("a");
    budgets.device_created(a);
    const auto charge = [&](uint64_t pages, SegmentId first) {
      Allocation& made = floor.allocations.create();
      vidmm::AllocationDesc desc;
      desc.size_bytes = pages * kPageBytes;
      desc.alignment_bytes = kPageBytes;
      desc.supported_read = desc.supported_write = 3;
      desc.preferred[0].segment = first;
      EXPECT_TRUE(is_success(test.core.memory().create(made.id, desc)));
      budgets.charge(a, made.id);
    };
    const auto usage = [&](SegmentGroup group) {
      return budgets.video_memory_info(a, group).usage / kPageBytes;
    };
    charge(kPages, SegmentId{1});
    EXPECT_EQ(usage(SegmentGroup::kLocal), kPages);
    charge(3, SegmentId{1});
    EXPECT_EQ(usage(SegmentGroup::kNonLocal), 3U) << "the other group has room";
    charge(kPages - 3, SegmentId{2});
    charge(2, SegmentId{1});
    EXPECT_EQ(usage(SegmentGroup::kLocal), kPages + 2);
    charge(1, SegmentId{2});
    EXPECT_EQ(usage(SegmentGroup::kNonLocal), kPages + 1);
  });
}

}  // namespace
}  // namespace dxgkit::dxgk
