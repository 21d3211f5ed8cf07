// Every DDI the port calls, once: at the level, in the class and under the name that the rulebook
// gives it (rules/ddi.json).
#include <map>
#include <set>

#include "port/every_ddi_test.h"
#include "port/support.h"
#include "tests/support/ddi_rules.h"

namespace dxgkit::port {
namespace {

using namespace every_ddi;
using testing::DdiRule;

TEST(DdiTable, EachEntryIsCalledAtItsLevelAndInItsClass) {
  DXGKIT_COVERS("IRQL-01", "IRQL-02", "IRQL-03");
  in_both_modes([] {
    for (const Row& row : all_rows()) {
      SCOPED_TRACE(row.entry);
      World world(row.version);
      prepare(world, row);
      world.up();
      make(world, row);
      world.down();
      world.adapter.reset();
      world.driver.reset();
      // A row of one entry at two levels is told by what its call did; the others by every call.
      const std::vector<Seen> calls = world.seen(row.entry);
      ASSERT_FALSE(calls.empty());
      for (const Seen& one : calls) {
        EXPECT_EQ(one.irql, row.irql);
        EXPECT_EQ(one.frame, row.entry);
      }
      if (std::string_view(row.entry) == "DxgkDdiUnload") continue;  // of no adapter
      // The host is asked to see to what levels two and three promise, each time, and only then.
      using Notice = std::pair<std::string, AdapterHost::SyncLevel>;
      const auto level =
          row.level == Level::kTwo ? AdapterHost::SyncLevel::kTwo : AdapterHost::SyncLevel::kThree;
      const bool told = row.level == Level::kTwo || row.level == Level::kThree;
      std::vector<Notice> notices;
      for (const Notice& notice : world.host.exclusive) {
        if (notice.first == row.entry) notices.push_back(notice);
      }
      EXPECT_EQ(notices, std::vector<Notice>(told ? calls.size() : 0, Notice(row.entry, level)));
    }
  });
}

TEST(DdiTable, ADriverThatReturnsAtAnotherLevelIsTold) {
  DXGKIT_COVERS("IRQL-01");
  in_both_modes([] {
    for (const Row& row : all_rows()) {
      SCOPED_TRACE(row.entry);
      World world(row.version);
      prepare(world, row);
      world.noted.leaves_raised = row.entry;
      world.up();
      make(world, row);
      world.down();
      world.adapter.reset();
      world.driver.reset();
      const size_t calls = world.seen(row.entry).size();
      for (const verifier::Finding& finding : world.findings.all()) {
        if (finding.rule != "IRQL-01") continue;
        EXPECT_EQ(finding.ddi, row.entry);
        EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      }
      EXPECT_EQ(world.findings.count("IRQL-01"), calls);
    }
  });
}

// Pageable memory is inaccessible in each call at DISPATCH_LEVEL or above, and in no other call: an
// access there is found.
TEST(DdiTable, PageableMemoryIsAwayAtDispatchLevel) {
  DXGKIT_COVERS("IRQL-13");
  // After a bug check nothing is taken away any more.
  const std::set<std::string_view> without_rise = {"DxgkDdiSystemDisplayEnable",
                                                   "DxgkDdiSystemDisplayWrite"};
  in_both_modes([&] {
    for (const Row& row : all_rows()) {
      if (!row.call || without_rise.contains(row.entry)) continue;
      SCOPED_TRACE(row.entry);
      World world(row.version);
      prepare(world, row);
      world.up();
      nt::with_frame(world.kernel, nt::kPassiveLevel, [&] {
        constexpr uint32_t kPagedPool = 1, kTag = 0x74736554;
        const auto allocate = reinterpret_cast<void*(NTAPI*)(uint32_t, uint64_t, uint32_t)>(
            const_cast<void*>(nt::find_export("ExAllocatePoolWithTag")->address));
        world.noted.pageable = allocate(kPagedPool, 64, kTag);
      });
      ASSERT_NE(world.noted.pageable, nullptr);
      *static_cast<volatile char*>(world.noted.pageable) = 1;
      EXPECT_TRUE(is_accessible(world.noted.pageable));
      world.noted.calls.clear();
      make(world, row);
      ASSERT_FALSE(world.seen(row.entry).empty());
      EXPECT_EQ(world.seen(row.entry).front().pageable_is_there, row.irql < nt::kDispatchLevel);
      nt::with_frame(world.kernel, nt::kPassiveLevel, [&] {
        const auto give_back = reinterpret_cast<void(NTAPI*)(void*, uint32_t)>(
            const_cast<void*>(nt::find_export("ExFreePoolWithTag")->address));
        give_back(world.noted.pageable, 0);
      });
      world.down();
    }
  });
}

// A routine run by DxgkCbSynchronizeExecution is at such a level too.
TEST(DdiTable, PageableMemoryIsAwayInSynchronisedRoutines) {
  DXGKIT_COVERS("IRQL-13");
  in_both_modes([&] {
    PortWorld world;
    world.start();
    nt::with_frame(world.kernel, nt::kPassiveLevel, [&] {
      const auto allocate = reinterpret_cast<void*(NTAPI*)(uint32_t, uint64_t, uint32_t)>(
          const_cast<void*>(nt::find_export("ExAllocatePoolWithTag")->address));
      const auto give_back = reinterpret_cast<void(NTAPI*)(void*, uint32_t)>(
          const_cast<void*>(nt::find_export("ExFreePoolWithTag")->address));
      void* const pageable = allocate(1, 64, 0x74736554);
      *static_cast<volatile char*>(pageable) = 1;
      const DXGKRNL_INTERFACE& table = world.miniport.callbacks();
      BOOLEAN there = TRUE;
      EXPECT_EQ(table.DxgkCbSynchronizeExecution(
                    table.DeviceHandle,
                    [](void* block)
                        NTAPI { return static_cast<BOOLEAN>(is_accessible(block) ? TRUE : FALSE); },
                    pageable, 0, &there),
                STATUS_SUCCESS);
      EXPECT_EQ(there, FALSE);
      give_back(pageable, 0x74736554);
    });
    world.stop();
  });
}

TEST(DdiTable, LevelZeroWaitsForLevelTwoAndOthersDoNot) {
  DXGKIT_COVERS("IRQL-03", "IRQL-08", "IRQL-09");
  runtime::make_sim_runtime(1)->run_main([] {
    for (const Row& row : all_rows()) {
      if (!row.call || row.level == Level::kTwo || row.level == Level::kThree) continue;
      SCOPED_TRACE(row.entry);
      World world(row.version);
      prepare(world, row);
      world.up();
      world.noted.calls.clear();
      world.adapter->levels().enter_level_two();
      const auto thread =
          runtime::Runtime::current().spawn("caller", [&] { world.last = row.call(world); });
      for (int i = 0; i < 100; ++i) runtime::Runtime::current().yield();
      EXPECT_EQ(world.seen(row.entry).empty(), row.level == Level::kZero);
      world.adapter->levels().leave_level_two();
      thread->join();
      EXPECT_FALSE(world.seen(row.entry).empty());
      world.down();
    }
  });
}

/// The levels that the rulebook's words stand for.
bool fits(Level level, const std::string& text) {
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  switch (level) {
    case Level::kZero:  // classes of level one whose calls the kernel keeps apart itself (IRQL-04)
      return text.starts_with("0") || has("else 0") || (text.starts_with("1") && !has("scheduler"));
    case Level::kBeside:
      return text.starts_with("0") || has("with the ISR");
    case Level::kLane:
      return text == "1" || has("1 scheduler");
    case Level::kTwo:
      return has("2");
    case Level::kThree:
      return text.starts_with("3");
  }
  return false;
}

bool allows(const std::string& text, nt::Irql irql) {
  if (text == "any") return true;
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  if (irql == nt::kPassiveLevel) return has("PASSIVE") || text.starts_with("up to");
  return irql == nt::kDispatchLevel ? has("DISPATCH") : irql == nt::kDeviceLevel && has("DIRQL");
}

TEST(DdiTable, IsTheRulebooks) {
  DXGKIT_COVERS("IRQL-01");
  const std::map<std::string, DdiRule> rules = testing::read_ddi_rules(DDI_RULES);
  std::set<std::string> rows;
  for (const Row& row : all_rows()) {
    SCOPED_TRACE(row.entry);
    rows.insert(row.entry);
    const auto rule = rules.find(row.entry);
    ASSERT_NE(rule, rules.end());
    EXPECT_TRUE(allows(rule->second.irql, row.irql)) << rule->second.irql;
    EXPECT_TRUE(fits(row.level, rule->second.sync_level)) << rule->second.sync_level;
  }
  // Every entry the port calls is in the table above.
  std::set<std::string> called;
  for (const SupportEntry& entry : ddi_support()) {
    if (entry.support != Support::kRefused) called.insert(std::string(entry.name));
  }
  EXPECT_EQ(rows, called);
}

}  // namespace
}  // namespace dxgkit::port
