#include "dxgk/core/handle_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "tests/support/covers.h"
#include "trace/causes.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

template <ObjectType object_type>
class Probe : public Object {
 public:
  static constexpr ObjectType kType = object_type;
  explicit Probe(int* alive) : Object(kType), alive_(alive) { ++*alive_; }
  ~Probe() override { --*alive_; }

 private:
  int* alive_;
};
using DeviceProbe = Probe<ObjectType::kDevice>;
using ContextProbe = Probe<ObjectType::kContext>;

class HandleTableTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(alive_, 0); }
  template <typename Body>
  void inside(const Body& body) {
    const auto runtime = runtime::make_sim_runtime(1);
    runtime->run_main(body);
  }
  Handle add(HandleTable& table) {
    const Result<Handle> handle = table.insert(make_object<DeviceProbe>(&alive_));
    EXPECT_TRUE(handle.has_value());
    return handle.value_or(0);
  }
  int alive_ = 0;
};

// The trace has a handle from when clients can use it until it is gone, and what it names.
TEST_F(HandleTableTest, TheLifeOfAHandleIsTraced) {
  class Named : public DeviceProbe {
   public:
    using DeviceProbe::DeviceProbe;
    uint64_t trace_id() const override { return 77; }
  };
  inside([&] {
    trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
    trace::set_current(&recorder);
    HandleTable table({}, 5);
    const Handle first = add(table);
    const Result<Handle> hidden = table.insert_hidden(make_object<Named>(&alive_));
    ASSERT_TRUE(hidden.has_value());
    const Result<Handle> never = table.insert_hidden(make_object<DeviceProbe>(&alive_));
    ASSERT_TRUE(never.has_value());
    EXPECT_EQ(table.take<ContextProbe>(first).error(), Status::kInvalidParameter);  // it stays
    table.publish(*hidden);
    table.publish(*hidden);  // once is enough
    table.erase(*never);     // nobody could use it
    EXPECT_TRUE(table.take<DeviceProbe>(first).has_value());
    table.erase(*hidden);
    table.erase(*hidden);
    trace::set_current(nullptr);
    const auto opened = static_cast<uint64_t>(trace::EventKind::kHandleOpened);
    const auto closed = static_cast<uint64_t>(trace::EventKind::kHandleClosed);
    std::vector<std::vector<uint64_t>> life;
    for (const trace::Event& event : recorder.events()) {
      if (event.kind == opened || event.kind == closed)
        life.push_back({event.kind, event.a, event.b, event.c, event.d});
    }
    const auto device = static_cast<uint64_t>(ObjectType::kDevice);
    EXPECT_EQ(life, (std::vector<std::vector<uint64_t>>{{opened, 5, first, device, 0},
                                                        {opened, 5, *hidden, device, 77},
                                                        {closed, 5, first, 0, 0},
                                                        {closed, 5, *hidden, 0, 0}}));
  });
}

// A refused handle leaves its cause in the trace; one that is found leaves none.
TEST_F(HandleTableTest, WhyAHandleIsRefusedIsTraced) {
  inside([&] {
    trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
    HandleTable table;
    const Handle handle = add(table);
    trace::set_current(&recorder);
    EXPECT_TRUE(table.find<DeviceProbe>(handle).has_value());
    EXPECT_EQ(table.find<ContextProbe>(handle).error(), Status::kInvalidParameter);
    EXPECT_EQ(table.take<ContextProbe>(handle).error(), Status::kInvalidParameter);
    EXPECT_TRUE(table.take<DeviceProbe>(handle).has_value());
    EXPECT_EQ(table.find<DeviceProbe>(handle).error(), Status::kInvalidParameter);
    trace::set_current(nullptr);
    std::vector<std::vector<uint64_t>> causes;
    for (const trace::Event& event : recorder.events()) {
      if (event.kind == static_cast<uint16_t>(trace::EventKind::kWhyRefused))
        causes.push_back({event.a, event.b, event.c, event.d});
    }
    const auto type = static_cast<uint64_t>(trace::RefusalReason::kHandleType);
    const auto gone = static_cast<uint64_t>(trace::RefusalReason::kHandle);
    const auto device = static_cast<uint64_t>(ObjectType::kDevice);
    const auto context = static_cast<uint64_t>(ObjectType::kContext);
    EXPECT_EQ(causes, (std::vector<std::vector<uint64_t>>{{type, handle, context, device},
                                                          {type, handle, context, device},
                                                          {gone, handle, device, 0}}));
  });
}

TEST_F(HandleTableTest, AHandleFindsItsObjectUnderItsTypeOnly) {
  DXGKIT_COVERS("THUNK-04");
  inside([&] {
    HandleTable table;
    const Handle handle = add(table);
    EXPECT_NE(handle, 0U);
    EXPECT_TRUE(table.find<DeviceProbe>(handle).has_value());
    EXPECT_EQ(table.find<ContextProbe>(handle).error(), Status::kInvalidParameter);
    EXPECT_EQ(table.take<ContextProbe>(handle).error(), Status::kInvalidParameter);
    EXPECT_TRUE(table.find<DeviceProbe>(handle).has_value());
    EXPECT_EQ(table.size(), 1U);
  });
}

TEST_F(HandleTableTest, SlotsThatWereNeverUsedAreRefused) {
  DXGKIT_COVERS("THUNK-04");
  inside([&] {
    HandleTable table;
    EXPECT_FALSE(table.find<DeviceProbe>(1U << 30).has_value());  // an empty table
    // Of any size: the one behind the last has no room of its own, or some that is not in use.
    for (int i = 0; i < 20; ++i) {
      const Handle last = add(table);
      EXPECT_FALSE(table.find<DeviceProbe>(last + (1U << 6)).has_value());
      EXPECT_FALSE(table.take<DeviceProbe>(last + (1U << 6)).has_value());
      EXPECT_FALSE(table.find<DeviceProbe>(last + (2U << 6)).has_value());
    }
    EXPECT_EQ(table.size(), 20U);
  });
}

TEST_F(HandleTableTest, ManyAreFoundInOrderUntilOneIsRefused) {
  DXGKIT_COVERS("THUNK-04");
  inside([&] {
    HandleTable table;
    const Handle first = add(table), second = add(table);
    std::vector<Handle> asked = {first, 0, second, 0};
    std::vector<size_t> seen;
    const auto ask = [&](size_t most) {
      seen.clear();
      return table.find_each<DeviceProbe>(
          asked.size(), [&](size_t i) { return asked[i]; },
          [&](size_t i, DeviceProbe* object) {
            EXPECT_NE(object, nullptr);
            seen.push_back(i);
            return seen.size() < most;
          });
    };
    EXPECT_EQ(ask(9), Status::kSuccess);
    EXPECT_EQ(seen, (std::vector<size_t>{0, 2}));  // nobody is asked for 0
    EXPECT_EQ(ask(1), Status::kSuccess);
    EXPECT_EQ(seen, (std::vector<size_t>{0}));  // enough
    asked[1] = second + (1U << 6);
    EXPECT_EQ(ask(9), Status::kInvalidParameter);
    EXPECT_EQ(seen, (std::vector<size_t>{0}));
  });
}

TEST_F(HandleTableTest, ATakenHandleStaysRefusedWhenItsSlotIsUsedAgain) {
  DXGKIT_COVERS("THUNK-04");
  inside([&] {
    HandleTable table;
    constexpr uint32_t kSlotBits = 0xFFFFC0;
    const Handle stale = add(table);
    EXPECT_TRUE(table.take<DeviceProbe>(stale).has_value());
    EXPECT_NE(add(table) & kSlotBits, stale & kSlotBits);  // slots are left: it rests
    bool again = false;
    for (int i = 0; i < 2000 && !again; ++i)
      again = (add(table) & kSlotBits) == (stale & kSlotBits);
    EXPECT_TRUE(again);
    EXPECT_FALSE(table.find<DeviceProbe>(stale).has_value());
  });
}

// A slot goes through all its 64 generations, taken or erased, before a handle is given again.
TEST_F(HandleTableTest, EachUseOfASlotIsOfTheNextGeneration) {
  DXGKIT_COVERS("THUNK-04");
  for (const bool take : {true, false}) {
    inside([&] {
      HandleTable table;
      std::map<uint32_t, uint32_t> last;  // by slot: its generation
      uint32_t most = 0;
      while (most < 66) {
        const Handle handle = add(table);
        const uint32_t generation = handle >> 24 & 0x3F;
        const auto [slot, first] = last.try_emplace(handle >> 6 & 0x3FFFF, generation);
        if (!first) {
          EXPECT_EQ(generation, (slot->second + 1) & 0x3F);
        }
        slot->second = generation;
        if (slot == last.begin()) ++most;
        if (take) {
          EXPECT_TRUE(table.take<DeviceProbe>(handle).has_value());
        } else {
          table.erase(handle);
        }
      }
    });
  }
}

TEST_F(HandleTableTest, EveryOtherBitPatternNearAHandleIsRefused) {
  DXGKIT_COVERS("THUNK-04");
  inside([&] {
    HandleTable table;
    const Handle handle = add(table);
    EXPECT_FALSE(table.find<DeviceProbe>(0).has_value());
    EXPECT_FALSE(table.find<DeviceProbe>(UINT32_MAX).has_value());
    for (uint32_t bit = 0; bit < 32; ++bit) {
      EXPECT_EQ(table.find<DeviceProbe>(handle ^ 1U << bit).error(), Status::kInvalidParameter)
          << bit;
    }
  });
}

TEST_F(HandleTableTest, AnotherProcessesHandleMeansNothingHere) {
  DXGKIT_COVERS("THUNK-04");
  inside([&] {
    HandleTable ours;
    HandleTable theirs;
    static_cast<void>(add(theirs));
    const Handle second = add(theirs);
    static_cast<void>(add(ours));
    EXPECT_EQ(ours.find<DeviceProbe>(second).error(), Status::kInvalidParameter);
  });
}

TEST_F(HandleTableTest, OfTwoThatTakeOneWins) {
  DXGKIT_COVERS("THUNK-04");
  inside([&] {
    HandleTable table;
    const Handle handle = add(table);
    EXPECT_TRUE(table.take<DeviceProbe>(handle).has_value());
    EXPECT_EQ(table.take<DeviceProbe>(handle).error(), Status::kInvalidParameter);
    EXPECT_EQ(table.find<DeviceProbe>(handle).error(), Status::kInvalidParameter);
    EXPECT_EQ(table.size(), 0U);
    table.erase(handle);  // absent: ignored
    EXPECT_EQ(table.size(), 0U);
  });
}

TEST_F(HandleTableTest, AStaleHandleStaysRefusedThroughSixtyThreeReusesOfItsSlot) {
  DXGKIT_COVERS("THUNK-04");
  inside([&] {
    HandleTable table;
    std::vector<Handle> live;
    for (int i = 0; i < 1024; ++i) live.push_back(add(table));  // past the fresh slots
    const Handle stale = live[0];
    table.erase(stale);
    Handle current = 0;
    for (int reuse = 0; reuse < 63; ++reuse) {
      current = add(table);
      ASSERT_NE(current, stale) << reuse;
      ASSERT_EQ(current & 0xFFFFFFU, stale & 0xFFFFFFU) << "the only free slot";
      ASSERT_FALSE(table.find<DeviceProbe>(stale).has_value()) << reuse;
      table.erase(current);
    }
  });
}

TEST_F(HandleTableTest, FreedSlotsAreReusedOldestFirst) {
  DXGKIT_COVERS("THUNK-04");
  inside([&] {
    HandleTable table;
    std::vector<Handle> live;
    for (int i = 0; i < 1024; ++i) live.push_back(add(table));
    table.erase(live[7]);
    table.erase(live[3]);
    EXPECT_EQ(add(table) & 0xFFFFFFU, live[7] & 0xFFFFFFU);
    EXPECT_EQ(add(table) & 0xFFFFFFU, live[3] & 0xFFFFFFU);
  });
}

TEST_F(HandleTableTest, AFullTableRefusesWithoutChangeAndAFreedSlotHelps) {
  inside([&] {
    HandleTable table;
    const Ref<DeviceProbe> object = make_object<DeviceProbe>(&alive_);
    std::set<Handle> handles;
    for (uint32_t i = 0; i < HandleTable::kMaxHandles; ++i)
      handles.insert(table.insert(object).value());
    EXPECT_EQ(handles.size(), HandleTable::kMaxHandles) << "every handle differs";
    EXPECT_EQ(table.insert(object).error(), Status::kNoMemory);
    EXPECT_EQ(table.size(), HandleTable::kMaxHandles);
    EXPECT_TRUE(table.find<DeviceProbe>(*handles.rbegin()).has_value());
    table.erase(*handles.begin());
    EXPECT_TRUE(table.insert(object).has_value());
    EXPECT_EQ(table.insert(object).error(), Status::kNoMemory);
  });
}

TEST_F(HandleTableTest, LiveHandlesAreListedInSlotOrder) {
  inside([&] {
    HandleTable table;
    const Handle first = add(table);
    const Handle second = add(table);
    const Result<Handle> third = table.insert(make_object<ContextProbe>(&alive_));
    ASSERT_TRUE(third.has_value());
    table.erase(second);
    const std::vector<std::pair<Handle, ObjectType>> expected = {{first, ObjectType::kDevice},
                                                                 {*third, ObjectType::kContext}};
    EXPECT_EQ(table.live(), expected);
  });
}

TEST_F(HandleTableTest, ALiveHandleOfAUsedSlotIsListedAsItIs) {
  inside([&] {
    HandleTable table;
    std::vector<Handle> live;
    for (int i = 0; i < 1024; ++i) live.push_back(add(table));  // past the fresh slots
    for (int i = 0; i < 3; ++i) {
      table.erase(live[7]);
      live[7] = add(table);
    }
    std::vector<Handle> listed;
    for (const auto& [handle, type] : table.live()) listed.push_back(handle);
    EXPECT_EQ(listed, live);
  });
}

TEST_F(HandleTableTest, AHiddenHandleIsTheDriversOnlyUntilItIsPublished) {
  DXGKIT_COVERS("THUNK-04");
  inside([&] {
    HandleTable table;
    const Result<Handle> handle = table.insert_hidden(make_object<DeviceProbe>(&alive_));
    ASSERT_TRUE(handle.has_value());
    EXPECT_EQ(table.find<DeviceProbe>(*handle).error(), Status::kInvalidParameter);
    EXPECT_EQ(table.take<DeviceProbe>(*handle).error(), Status::kInvalidParameter);
    EXPECT_TRUE(table.find_even_hidden<DeviceProbe>(*handle).has_value());
    table.publish(*handle);
    EXPECT_TRUE(table.find<DeviceProbe>(*handle).has_value());
    EXPECT_TRUE(table.take<DeviceProbe>(*handle).has_value());
    table.publish(*handle);  // gone: ignored
    EXPECT_EQ(table.find_even_hidden<DeviceProbe>(*handle).error(), Status::kInvalidParameter);
  });
}

TEST_F(HandleTableTest, AnObjectOutlivesItsHandleWhileSomebodyUsesIt) {
  inside([&] {
    HandleTable table;
    const Handle handle = add(table);
    {
      const Result<Ref<DeviceProbe>> used = table.find<DeviceProbe>(handle);
      ASSERT_TRUE(used.has_value());
      table.erase(handle);
      EXPECT_EQ(alive_, 1);
    }
    EXPECT_EQ(alive_, 0);
  });
}

}  // namespace
}  // namespace dxgkit::dxgk
