// D3DKMTUpdateAllocationProperty.
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

class PropertyTest : public ContractTest {
 protected:
  PropertyTest() { asked.clear(), answer = STATUS_SUCCESS; }
  static inline std::vector<DXGKARG_VALIDATEUPDATEALLOCPROPERTY> asked;
  static inline NTSTATUS answer = STATUS_SUCCESS;
  static NTSTATUS NTAPI validate(const HANDLE, const DXGKARG_VALIDATEUPDATEALLOCPROPERTY* args) {
    asked.push_back(*args);
    return answer;
  }
  static void with_entry(ScriptedMiniport& miniport) {
    explicit_residency(miniport);
    miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_1;
    miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiValidateUpdateAllocationProperty = validate;
    };
  }
  static void with_listing(const std::function<void(Stack&, ListingClient&)>& body,
                           void (*prepare)(ScriptedMiniport&) = with_entry) {
    running(
        [&](Stack& stack) {
          ListingClient client(stack);
          body(stack, client);
          stack.miniport.hooks = {};
        },
        prepare);
  }
  static D3DDDI_UPDATEALLOCPROPERTY move_to(ListingClient& client, D3DKMT_HANDLE allocation,
                                            uint32_t set) {
    D3DDDI_UPDATEALLOCPROPERTY args{};
    args.hPagingQueue = client.queue.handle;
    args.hAllocation = allocation;
    args.SupportedSegmentSet = set;
    args.SetSupportedSegmentSet = 1;
    args.PagingFenceValue = 77;
    return args;
  }
  static NTSTATUS update(ListingClient& client, D3DDDI_UPDATEALLOCPROPERTY* args) {
    NTSTATUS status = -1;
    client.stack.blocking(
        [&] { status = client.call([&] { return D3DKMTUpdateAllocationProperty(args); }); });
    return status;
  }
};

TEST_F(PropertyTest, WhatIsOutsideItsNewSetLeavesAndTheNextWorkBringsItThere) {
  DXGKIT_COVERS("RES-32");
  with_listing([](Stack& stack, ListingClient& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE one = client.make(2);
    client.list({one});
    ASSERT_EQ(client.render(context, work_on({one})), 0);
    stack.drive();
    ASSERT_TRUE(client.in_memory(one));
    D3DDDI_UPDATEALLOCPROPERTY args = move_to(client, one, kApertureSet);
    args.PreferredSegment.SegmentId0 = 2;
    args.SetPreferredSegment = 1;
    args.Flags.AccessedPhysically = 1;
    args.SetAccessedPhysically = 1;
    ASSERT_EQ(update(client, &args), 0);
    ASSERT_EQ(asked.size(), 1U);
    EXPECT_NE(asked[0].hAllocation, nullptr);
    EXPECT_EQ(asked[0].SupportedSegmentSet, kApertureSet);
    EXPECT_EQ(asked[0].PreferredSegment.SegmentId0, 2U);
    EXPECT_EQ(asked[0].Flags.AccessedPhysically, 1U);
    EXPECT_EQ(asked[0].PropertyMaskValue, 7U);
    EXPECT_NE(args.PagingFenceValue, 0U);
    stack.drive();
    EXPECT_GE(client.queue.value(), args.PagingFenceValue);
    EXPECT_FALSE(client.in_memory(one));
    ASSERT_EQ(client.render(context, work_on({one})), 0);
    stack.drive();
    EXPECT_EQ(client.where(one), D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY);
    // What is inside its set stays, and nobody waits.
    args = move_to(client, one, kApertureSet | kMemorySet);
    ASSERT_EQ(update(client, &args), 0);
    EXPECT_EQ(args.PagingFenceValue, 0U);
    EXPECT_EQ(client.where(one), D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(PropertyTest, OnlyNamedPropertiesChangeAndEqualOnesAreNoUpdate) {
  DXGKIT_COVERS("THUNK-33");
  with_listing([](Stack& stack, ListingClient& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE one = client.make(2);
    client.list({one});
    ASSERT_EQ(client.render(context, work_on({one})), 0);
    stack.drive();
    ASSERT_TRUE(client.in_memory(one));
    // A set that is not named by the mask does not count, whatever it says.
    D3DDDI_UPDATEALLOCPROPERTY args = move_to(client, one, kApertureSet);
    args.SetSupportedSegmentSet = 0;
    args.Flags.AccessedPhysically = 1;
    args.SetAccessedPhysically = 1;
    ASSERT_EQ(update(client, &args), 0);
    EXPECT_EQ(args.PagingFenceValue, 0U);
    EXPECT_EQ(asked.size(), 1U);
    stack.drive();
    EXPECT_TRUE(client.in_memory(one));
    // The same again: nobody is asked.
    ASSERT_EQ(update(client, &args), 0);
    EXPECT_EQ(asked.size(), 1U);
    args = move_to(client, one, kApertureSet);
    ASSERT_EQ(update(client, &args), 0);
    EXPECT_EQ(asked.size(), 2U);
    EXPECT_NE(args.PagingFenceValue, 0U);
    stack.drive();
    EXPECT_GE(client.queue.value(), args.PagingFenceValue) << "it has left by then";
    EXPECT_FALSE(client.in_memory(one));
    args = move_to(client, one, kApertureSet);
    ASSERT_EQ(update(client, &args), 0);
    EXPECT_EQ(asked.size(), 2U);
    EXPECT_EQ(args.PagingFenceValue, 0U);
    // It is taken back likewise: once.
    args.SetSupportedSegmentSet = 0;
    args.SetAccessedPhysically = 1;
    ASSERT_EQ(update(client, &args), 0);
    ASSERT_EQ(asked.size(), 3U);
    EXPECT_EQ(asked[2].Flags.AccessedPhysically, 0U);
    ASSERT_EQ(update(client, &args), 0);
    EXPECT_EQ(asked.size(), 3U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Five slots of a segment and a direction; one direction alone is news.
TEST_F(PropertyTest, EachSlotOfThePreferenceIsASegmentAndADirection) {
  DXGKIT_COVERS("RES-32", "THUNK-33", "ALLOC-10");
  with_listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE one = client.make_allocation(kUnit, kMemorySet | kApertureSet);
    const auto preferred = [&] {
      const auto opened = client.process->handles().find<dxgk::OpenedAllocation>(one);
      EXPECT_TRUE(opened.has_value());
      const auto slots =
          stack.adapter().core().memory().description((*opened)->allocation->id).preferred;
      std::vector<std::pair<uint32_t, bool>> found;
      for (const vidmm::SegmentPreference& slot : slots)
        found.emplace_back(slot.segment.value, slot.from == vidmm::SearchFrom::kTop);
      return found;
    };
    D3DDDI_UPDATEALLOCPROPERTY args{};
    args.hPagingQueue = client.queue.handle;
    args.hAllocation = one;
    args.SetPreferredSegment = 1;
    const auto set = [&](const std::vector<std::pair<uint32_t, bool>>& slots) {
      args.PreferredSegment.Value = 0;
      for (size_t i = 0; i < slots.size(); ++i) {
        args.PreferredSegment.Value |= (slots[i].first | (slots[i].second ? 1U << 5 : 0))
                                       << (6 * i);
      }
      EXPECT_EQ(update(client, &args), 0);
      EXPECT_EQ(args.PagingFenceValue, 0U);
      EXPECT_EQ(preferred(), slots);
    };
    set({{2, true}, {1, false}, {0, false}, {1, true}, {2, false}});
    EXPECT_EQ(asked.size(), 1U);
    set({{2, true}, {1, false}, {0, false}, {1, true}, {2, false}});
    EXPECT_EQ(asked.size(), 1U) << "the same again";
    set({{2, true}, {1, false}, {0, false}, {1, true}, {2, true}});
    EXPECT_EQ(asked.size(), 2U) << "another direction in the last slot";
    set({{2, true}, {2, false}, {0, false}, {1, true}, {2, true}});
    EXPECT_EQ(asked.size(), 3U) << "another segment in the second";
  });
}

TEST_F(PropertyTest, WhatWorkInFlightUsesStaysAsItIs) {
  DXGKIT_COVERS("RES-32");
  with_listing([](Stack& stack, ListingClient& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE one = client.make(2);
    client.list({one});
    ASSERT_EQ(client.render(context, work_on({one})), 0);
    stack.settle();
    while (stack.miniport.complete_next(1)) stack.settle();  // paging
    ASSERT_EQ(stack.miniport.outstanding(0).size(), 1U);
    D3DDDI_UPDATEALLOCPROPERTY args = move_to(client, one, kApertureSet);
    EXPECT_EQ(client.call([&] { return D3DKMTUpdateAllocationProperty(&args); }),
              nt_status(Status::kGraphicsAllocationBusy));
    EXPECT_EQ(args.PagingFenceValue, 77U);
    EXPECT_TRUE(client.in_memory(one));
    stack.drive();
    // Its set is the old one: in the new one it would go elsewhere.
    ASSERT_EQ(client.evict({one}), 0);
    client.list({one});
    ASSERT_EQ(client.render(context, work_on({one})), 0);
    stack.drive();
    EXPECT_TRUE(client.in_memory(one));
    EXPECT_EQ(update(client, &args), 0) << "and now it may";
    EXPECT_FALSE(client.in_memory(one));
  });
}

TEST_F(PropertyTest, AnUnmoveableAllocationIsNotPushedAside) {
  DXGKIT_COVERS("RES-32");
  for (const bool unmoveable : {false, true}) {
    with_listing([&](Stack& stack, ListingClient& client) {
      ContextBuffers context = client.make_context();
      const uint64_t quarter = kMemoryUnits / 4;
      std::vector<D3DKMT_HANDLE> four;
      for (int i = 0; i < 4; ++i) four.push_back(client.make(quarter));
      client.list(four);
      ASSERT_EQ(client.render(context, work_on({four[0], four[1], four[2], four[3]})), 0);
      stack.drive();
      ASSERT_EQ(client.evict({four[1], four[3]}), 0);
      stack.drive();
      const auto at_the_start = [&] {  // of the memory segment
        uint64_t id = 0;
        stack.adapter().core().lane().run([&] {
          id = stack.adapter().core().memory().at(SegmentId{1}, 0).value_or(AllocationId{}).value;
        });
        return id;
      };
      const uint64_t first = at_the_start();
      ASSERT_NE(first, 0U);
      D3DDDI_UPDATEALLOCPROPERTY args{};
      args.hPagingQueue = client.queue.handle;
      args.hAllocation = four[0];
      args.Flags.Unmoveable = unmoveable ? 1 : 0;
      args.SetUnmoveable = 1;
      ASSERT_EQ(update(client, &args), 0);
      EXPECT_EQ(asked.empty(), !unmoveable) << "nothing new";
      if (unmoveable) {
        EXPECT_EQ(asked.back().PropertyMaskValue, 0U) << "the driver has no say in it";
      }
      // A stranger's list that needs two quarters in one piece.
      ListingClient other(stack, "other");
      const D3DKMT_HANDLE wide = other.make(2 * quarter);
      ContextBuffers theirs = other.make_context();
      other.list({wide});
      ASSERT_EQ(other.render(theirs, work_on({wide})), 0);
      stack.drive();
      EXPECT_TRUE(other.in_memory(wide));
      if (unmoveable) {
        EXPECT_EQ(at_the_start(), first);
      } else {
        EXPECT_NE(at_the_start(), first) << "it made way";
      }
    });
  }
}

TEST_F(PropertyTest, WrongOnesAreRefusedAndNothingChanges) {
  DXGKIT_COVERS("RES-32", "THUNK-05");
  using Args = D3DDDI_UPDATEALLOCPROPERTY;
  struct Row {
    const char* what;
    std::function<void(Args&)> change;
    Status status = Status::kInvalidParameter;
  };
  with_listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE one = client.make(2);
    ListingClient stranger(stack, "stranger");
    const D3DKMT_HANDLE second = client.make_device();
    D3DKMT_HANDLE theirs = 0;
    ASSERT_EQ(client.create_allocation({}, &theirs, second), 0);
    const std::vector<Row> rows = {
        {"no property", [](Args& a) { a.PropertyMaskValue = 0; }},
        {"a property nobody knows", [](Args& a) { a.PropertyMaskValue |= 16; }},
        {"all bits", [](Args& a) { a.PropertyMaskValue = UINT32_MAX; }},
        {"reserved flags", [](Args& a) { a.Flags.Value = 4; }},
        {"reserved bits of the preference", [](Args& a) { a.PreferredSegment.Value = 1U << 31; }},
        {"no segment", [](Args& a) { a.SupportedSegmentSet = 0; }},
        {"a segment that is not there", [](Args& a) { a.SupportedSegmentSet = 1U << 9; }},
        {"a preference outside the set",
         [](Args& a) {
           a.PreferredSegment.SegmentId0 = 1;
           a.SetPreferredSegment = 1;
         }},
        {"another device's allocation", [&](Args& a) { a.hAllocation = theirs; }},
        {"a queue for an allocation", [](Args& a) { a.hAllocation = a.hPagingQueue; },
         Status::kInvalidHandle},
    };
    for (const Row& row : rows) {
      Args args = move_to(client, one, kApertureSet);
      row.change(args);
      const Digest before = digest(stack, {&client, &stranger});
      const NTSTATUS status = update(client, &args);
      if (row.status == Status::kInvalidHandle) {
        EXPECT_LT(status, 0) << row.what;
      } else {
        EXPECT_EQ(status, nt_status(row.status)) << row.what;
      }
      EXPECT_EQ(args.PagingFenceValue, 77U) << row.what;
      Digest after = digest(stack, {&client, &stranger});
      after.driver_calls = before.driver_calls;  // it may have been asked
      EXPECT_EQ(before, after) << row.what;
    }
    answer = nt_status(Status::kInvalidParameter);
    Args args = move_to(client, one, kApertureSet);
    EXPECT_EQ(update(client, &args), nt_status(Status::kInvalidParameter)) << "the driver's word";
    answer = STATUS_SUCCESS;
    client.list({one});
    stack.drive();
    EXPECT_TRUE(client.in_memory(one)) << "its set is what it was";
  });
  with_listing(
      [](Stack&, ListingClient& client) {
        D3DDDI_UPDATEALLOCPROPERTY args = move_to(client, client.make(1), kApertureSet);
        EXPECT_EQ(update(client, &args), nt_status(Status::kNotSupported)) << "nobody to ask";
      },
      explicit_residency);
}

}  // namespace
}  // namespace dxgkit::contract
