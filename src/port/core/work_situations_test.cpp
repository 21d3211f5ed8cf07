// What packets meet: patched, submitted, preempted, cancelled, reported, reset.
#include "port/core/situation_tables_test.h"

namespace dxgkit::port {
namespace {

TEST(WorkSituations, SubmissionsOfBuffers) {
  SubmitArgs base;
  base.context = &g_objects[0];
  base.fence = SubmissionFenceId{1};
  base.buffer.private_size_bytes = 8;
  const std::string idle = "submit.idle-node";
  expect_each<SubmitArgs>(
      base,
      {
          {"plain", nullptr, {idle}},
          {"paging", [](auto& a) { a.flags.paging = true; }, {idle, "submit.paging"}},
          {"node", [](auto& a) { a.node = NodeOrdinal{2}; }, {idle, "submit.second-node"}},
          {"again", [](auto& a) { a.flags.resubmission = true; }, {idle, "submit.resubmission"}},
          {"null", [](auto& a) { a.flags.null_rendering = true; }, {idle, "submit.null-rendering"}},
          {"no private data",
           [](auto& a) { a.buffer.private_size_bytes = 0; },
           {idle, "submit.no-private-data"}},
          {"behind the start",
           [](auto& a) { a.slice.start = 1; },
           {idle, "submit.part-behind-start"}},
          {"private part",
           [](auto& a) { a.slice.private_start = 1; },
           {idle, "submit.private-behind-start"}},
          {"in a segment",
           [](auto& a) { a.buffer.segment = SegmentId{1}; },
           {idle, "submit.buffer-in-segment"}},
          {"switch",
           [](auto& a) { a.flags.context_switch = true; },
           {idle, "submit.context-switch"}},
          {"present", [](auto& a) { a.flags.present = true; }, {idle, "submit.present"}},
          {"redirected", [](auto& a) { a.flags.redirected_present = true; }, {idle}},
          {"flip", [](auto& a) { a.flags.flip = true; }, {idle, "submit.flip"}},
          {"flip now", [](auto& a) { a.flags.flip_with_no_wait = true; }, {idle, "submit.flip"}},
      },
      [](SituationWorld& world, const SubmitArgs& args) { world.all.work.submitted(args); });
}

TEST(WorkSituations, SubmissionsByAddress) {
  SubmitVirtualArgs base;
  base.context = &g_objects[0];
  base.fence = SubmissionFenceId{1};
  base.private_bytes = 8;
  const std::string idle = "submit-virtual.idle-node";
  expect_each<SubmitVirtualArgs>(
      base,
      {
          {"plain", nullptr, {idle}},
          {"paging", [](auto& a) { a.flags.paging = true; }, {idle, "submit-virtual.paging"}},
          {"node", [](auto& a) { a.node = NodeOrdinal{2}; }, {idle, "submit-virtual.second-node"}},
          {"again",
           [](auto& a) { a.flags.resubmission = true; },
           {idle, "submit-virtual.resubmission"}},
          {"null",
           [](auto& a) { a.flags.null_rendering = true; },
           {idle, "submit-virtual.null-rendering"}},
          {"no private data",
           [](auto& a) { a.private_bytes = 0; },
           {idle, "submit-virtual.no-private-data"}},
          {"user data",
           [](auto& a) { a.user_private_bytes = 1; },
           {idle, "submit-virtual.user-private-data"}},
          {"present", [](auto& a) { a.flags.present = true; }, {idle}},
      },
      [](SituationWorld& world, const SubmitVirtualArgs& args) {
        world.all.work.submitted(args, false);
      });
  SituationWorld world;
  base.user_private_bytes = 1;
  world.all.work.submitted(base, true);
  EXPECT_EQ(world.reached(), Ids{"submit-virtual.refused"}) << "and it is not on the node";
  world.submit_virtual(0, 2, base.context);
  EXPECT_EQ(world.reached(), Ids{idle});
}

// Both forms, with what came before on the same node and on others.
TEST(WorkSituations, SubmissionsBehindOthers) {
  for (const bool is_virtual : {false, true}) {
    SCOPED_TRACE(is_virtual);
    SituationWorld world;
    const auto submit = [&](uint32_t node, uint32_t fence, int context) {
      is_virtual ? world.submit_virtual(node, fence, &g_objects[context])
                 : world.submit(node, fence, &g_objects[context]);
      Ids ids;
      for (const std::string& id : world.reached()) {
        EXPECT_TRUE(id.starts_with(is_virtual ? "submit-virtual." : "submit."));
        ids.insert(id.substr(id.find('.') + 1));
      }
      return ids;
    };
    EXPECT_EQ(submit(3, 1, 0), (Ids{"idle-node", "second-node"}));
    EXPECT_EQ(submit(3, 2, 0), (Ids{"busy-node", "second-node"}));
    EXPECT_EQ(submit(0, 1, 1), (Ids{"idle-node", "other-node-busy"}));
    EXPECT_EQ(submit(3, 3, 1),
              (Ids{"busy-node", "second-node", "other-context", "other-node-busy"}));
    world.report(InterruptReport::Type::kDmaCompleted, 0, 1);
    EXPECT_EQ(submit(0, 2, 1), (Ids{"idle-node", "other-node-busy"}));
    world.report(InterruptReport::Type::kDmaCompleted, 3, 3);
    EXPECT_EQ(submit(0, 3, 0), (Ids{"busy-node", "other-context"}));
    world.all.work.reset_engine(NodeOrdinal{0});
    world.reached();
    EXPECT_EQ(submit(3, 4, 1), (Ids{"idle-node", "second-node"})) << "of the other node";
    EXPECT_EQ(submit(0, 4, 0), (Ids{"idle-node", "other-node-busy", "after-reset"}));
    EXPECT_EQ(submit(0, 5, 0), (Ids{"busy-node", "other-node-busy"})) << "once";
    world.all.work.power_is_back();
    EXPECT_EQ(submit(0, 6, 0), (Ids{"busy-node", "other-node-busy", "after-power"}));
    EXPECT_EQ(submit(0, 7, 0), (Ids{"busy-node", "other-node-busy"}));
    EXPECT_EQ(submit(3, 5, 1), (Ids{"busy-node", "second-node", "other-node-busy", "after-power"}));
    world.all.work.reset_adapter();
    EXPECT_EQ(world.reached(), Ids{"timeout.adapter-busy"});
    EXPECT_EQ(submit(3, 6, 1), (Ids{"idle-node", "second-node", "after-reset"}));
    world.all.work.reset_adapter();
    EXPECT_EQ(world.reached(), Ids{"timeout.adapter-busy"}) << "the other node's";
    world.all.work.reset_adapter();
    EXPECT_EQ(world.reached(), Ids{"timeout.adapter-idle"});
    EXPECT_EQ(submit(0, 8, 0), (Ids{"idle-node", "after-reset"}));
  }
}

TEST(WorkSituations, Completions) {
  using Type = InterruptReport::Type;
  SituationWorld world;
  for (const uint32_t fence : {0xFFFFFFFEU, 0xFFFFFFFFU, 1U, 2U}) world.submit(1, fence, g_objects);
  world.submit(0, 7, g_objects);
  world.reached();
  EXPECT_EQ(world.report(Type::kDmaCompleted, 1, 0xFFFFFFFE),
            (Ids{"interrupt.completed", "interrupt.other-node"}));
  EXPECT_EQ(world.report(Type::kDmaCompleted, 1, 0xFFFFFFFE), Ids{"interrupt.other-node"})
      << "again";
  EXPECT_EQ(world.report(Type::kDmaCompleted, 1, 1),
            (Ids{"interrupt.completed", "interrupt.several-completed", "interrupt.other-node"}));
  EXPECT_EQ(world.preempt(1),
            (Ids{"preempt.second-node", "preempt.one", "preempt.other-node-busy"}));
  EXPECT_EQ(world.report(Type::kDmaCompleted, 0, 7), Ids{"interrupt.completed"});
  EXPECT_EQ(world.preempt(1), (Ids{"preempt.second-node", "preempt.one"}));
}

TEST(WorkSituations, OtherReports) {
  using Type = InterruptReport::Type;
  const struct {
    Type type;
    uint32_t flags;
    Ids ids;
    bool ends;  // what it names, and all before it
  } rows[] = {
      {Type::kDmaFaulted, 0, {"interrupt.faulted"}, true},
      {Type::kDmaPageFaulted, InterruptReport::kFaultWrite, {"interrupt.page-fault-write"}, true},
      {Type::kDmaPageFaulted, ~InterruptReport::kFaultWrite, {"interrupt.page-fault-read"}, true},
      {Type::kHwQueuePageFaulted, 0, {"interrupt.page-fault-read"}, false},
      {Type::kHwQueuePageFaulted,
       InterruptReport::kFaultWrite,
       {"interrupt.page-fault-write"},
       false},
      {Type::kCrtcVsync, 0, {"interrupt.vsync"}, false},
      {Type::kDisplayOnlyVsync, 0, {"interrupt.vsync-display-only"}, false},
      {Type::kPresentProgress, 0, {"interrupt.present-progress"}, false},
      {Type::kMonitoredFenceSignaled, 0, {"interrupt.monitored-fence"}, false},
      {Type::kSuspendCompleted, 0, {"interrupt.suspend-completed"}, false},
      {Type::kNativeFenceSignaled, 0, {"interrupt.native-fence"}, false},
      {Type::kOther, 0, {}, false},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(static_cast<int>(row.type));
    SituationWorld world;
    for (const uint32_t fence : {1U, 2U, 3U}) world.submit(1, fence, g_objects);
    for (const uint32_t fence : {1U, 2U}) world.submit(0, fence, g_objects);
    world.reached();
    EXPECT_EQ(world.report(row.type, 1, 2, row.flags), row.ids);
    EXPECT_TRUE(world.preempt(1).contains(row.ends ? "preempt.one" : "preempt.several"));
    EXPECT_TRUE(world.preempt(0).contains("preempt.several")) << "the other node has its own";
  }
  // A fault that names no packet ends none, whatever fences are out.
  SituationWorld world;
  world.submit(0, 0xFFFFFFF0, g_objects);
  world.reached();
  world.report(Type::kDmaFaulted, 0, 0);
  EXPECT_EQ(world.preempt(0), Ids{"preempt.one"});
}

TEST(WorkSituations, PreemptionsOfAnotherNode) {
  SituationWorld world;
  for (const uint32_t fence : {1U, 2U}) world.submit(1, fence, g_objects);
  world.submit(0, 1, g_objects);
  world.reached();
  world.preempt(1);
  EXPECT_EQ(world.answer(1, 1), Ids{"preempt.some-given-back"});
  EXPECT_EQ(world.preempt(0), Ids{"preempt.one"}) << "which the answer was not about";
}

TEST(WorkSituations, Preemptions) {
  SituationWorld world;
  world.all.work.preempt(NodeOrdinal{0}, true);
  EXPECT_EQ(world.reached(), Ids{"preempt.idle"});
  world.submit(0, 1, g_objects);
  world.reached();
  EXPECT_EQ(world.answer(0, 0), Ids{}) << "nothing was there when it was asked";
  EXPECT_EQ(world.preempt(0), Ids{}) << "and nothing is after the answer";
  for (const uint32_t fence : {2U, 3U}) world.submit(0, fence, g_objects);
  world.submit(1, 1, g_objects);
  world.reached();
  EXPECT_EQ(world.preempt(0), (Ids{"preempt.several", "preempt.other-node-busy"}));
  EXPECT_EQ(world.preempt(1),
            (Ids{"preempt.one", "preempt.second-node", "preempt.other-node-busy"}));
  world.submit(0, 4, g_objects);
  world.reached();
  EXPECT_EQ(world.answer(0, 2), Ids{"preempt.all-given-back"}) << "as many as there were";
  EXPECT_EQ(world.preempt(1), (Ids{"preempt.one", "preempt.second-node"})) << "node 0 has none";
  for (const uint32_t fence : {5U, 6U}) world.submit(0, fence, g_objects);
  world.reached();
  world.preempt(0);
  EXPECT_EQ(world.answer(0, 5), Ids{"preempt.some-given-back"});
  for (const uint32_t fence : {7U, 8U}) world.submit(0, fence, g_objects);
  world.preempt(0);
  EXPECT_EQ(world.answer(0, 8), Ids{"preempt.all-done"});
  world.submit(0, 9, g_objects, {.resubmission = true});
  world.submit(0, 10, g_objects);
  world.reached();
  EXPECT_EQ(world.preempt(0), (Ids{"preempt.again", "preempt.several", "preempt.other-node-busy"}));
}

TEST(WorkSituations, Resets) {
  SituationWorld world;
  world.all.work.reset_engine(NodeOrdinal{0});
  EXPECT_EQ(world.reached(), Ids{});
  world.all.work.reset_engine(NodeOrdinal{2});
  EXPECT_EQ(world.reached(), Ids{"timeout.second-node"});
  world.submit(0, 1, g_objects);
  world.reached();
  world.all.work.reset_engine(NodeOrdinal{2});
  EXPECT_EQ(world.reached(), (Ids{"timeout.second-node", "timeout.engine-other-busy"}));
  world.all.work.reset_engine(NodeOrdinal{0});
  EXPECT_EQ(world.reached(), Ids{"timeout.engine-busy"});
  world.all.work.reset_engine(NodeOrdinal{0});
  EXPECT_EQ(world.reached(), Ids{}) << "the reset took it";
  for (const uint32_t fence : {2U, 3U}) world.submit(0, fence, g_objects);
  world.reached();
  world.all.work.reset_engine(NodeOrdinal{0});
  EXPECT_EQ(world.reached(), (Ids{"timeout.engine-busy", "timeout.engine-several"}));
  world.all.work.removed();
  EXPECT_EQ(world.reached(), Ids{"removal.surprise"});
}

TEST(WorkSituations, Cancellations) {
  expect_each<PatchArgs>(
      {},
      {
          {"rendering", nullptr, {"cancel.rendering"}},
          {"paging", [](auto& a) { a.flags.paging = true; }, {"cancel.paging"}},
          {"part",
           [](auto& a) { a.slice.start = 1; },
           {"cancel.rendering", "cancel.part-behind-start"}},
          {"elements",
           [](auto& a) { a.patch_start = 1; },
           {"cancel.rendering", "cancel.elements-behind-start"}},
      },
      [](SituationWorld& world, const PatchArgs& args) { world.all.work.cancelled(args); });
  expect_each<PacketFlags>(
      {},
      {
          {"rendering", nullptr, {"cancel.rendering", "cancel.virtual"}},
          {"paging", [](auto& flags) { flags.paging = true; }, {"cancel.paging", "cancel.virtual"}},
      },
      [](SituationWorld& world, const PacketFlags& flags) {
        world.all.work.cancelled_virtual(flags);
      });
}

TEST(WorkSituations, RendersAndPresents) {
  std::array<AllocationListEntry, 3> entries;  // NULL, away, there
  entries[0].set(true, SegmentId{1}, 0x1000);
  entries[1].device_handle = &g_objects[1];
  entries[2].device_handle = &g_objects[2];
  entries[2].set(false, SegmentId{2}, 0x2000);
  struct Render {
    RenderArgs args;
    RenderResult result;
  };
  expect_each<Render>(
      {},
      {
          {"nothing", nullptr, {"render.no-allocations"}},
          {"later pass",
           [](auto& r) { r.args.multipass_offset = 1; },
           {"render.no-allocations", "render.second-pass"}},
          {"no room",
           [](auto& r) { r.result.status = Status::kGraphicsInsufficientDmaBuffer; },
           {"render.no-allocations", "render.insufficient"}},
          {"refused",
           [](auto& r) { r.result.status = Status::kInvalidParameter; },
           {"render.no-allocations", "render.refused"}},
          {"NULL",
           [&](auto& r) {
             r.args.allocations = entries.data();
             r.args.allocation_count = 1;
           },
           {}},
          {"away",
           [&](auto& r) {
             r.args.allocations = entries.data();
             r.args.allocation_count = 2;
           },
           {"render.not-resident"}},
          {"there",
           [&](auto& r) {
             r.args.allocations = &entries[2];
             r.args.allocation_count = 1;
           },
           {"render.prepatched"}},
          {"all",
           [&](auto& r) {
             r.args.allocations = entries.data();
             r.args.allocation_count = 3;
           },
           {"render.not-resident", "render.prepatched"}},
      },
      [](SituationWorld& world, const Render& one) {
        world.all.work.rendered(one.args, one.result);
      });
  expect_each<PresentArgs>(
      {},
      {
          {"nothing", nullptr, {}},
          {"blt", [](auto& a) { a.flags.blt = true; }, {"present.blt"}},
          {"color", [](auto& a) { a.flags.color_fill = true; }, {"present.color-fill"}},
          {"flip", [](auto& a) { a.flags.flip = true; }, {"present.flip"}},
          {"flip now", [](auto& a) { a.flags.flip_with_no_wait = true; }, {"present.flip"}},
      },
      [](SituationWorld& world, const PresentArgs& args) { world.all.work.presented(args); });
}

/// A patch of 64 bytes of which nothing is special, and what its lists point to.
struct Patch {
  std::array<SegmentInfo, 2> segments;
  std::array<AllocationListEntry, 4> entries;  // the last is behind the list
  std::array<PatchLocation, 4> elements;
  std::array<std::byte, 64> buffer{};
  PatchArgs args;

  Patch() {
    segments[0].flags = 2;  // CpuVisible
    segments[1].flags = 1;  // Aperture
    for (size_t i = 0; i < entries.size(); ++i) {
      entries[i].device_handle = &g_objects[i];
      entries[i].set(true, SegmentId{1}, 0x1000 * (i + 1));
    }
    args.context = &g_objects[10];
    args.buffer.cpu = buffer.data();
    args.buffer.size_bytes = 64;
    args.buffer.private_size_bytes = 8;
    args.slice = {.start = 0, .end = 64};
    args.allocation_count = 3;
    args.patch_count = args.patch_length = 1;
  }
  Ids run(SituationWorld& world) {
    args.allocations = entries.data();
    args.patches = elements.data();
    world.all.work.patched(args, segments);
    return world.reached();
  }
};

TEST(WorkSituations, Patches) {
  const Ids plain{"patch.memory-address", "patch.written"};
  const auto and_also = [&](const char* id) {
    Ids ids = plain;
    ids.insert(id);
    return ids;
  };
  const std::vector<Row<Patch>> rows = {
      {"plain", nullptr, plain},
      {"start", [](auto& p) { p.args.slice.start = 1; }, and_also("patch.part-behind-start")},
      {"end", [](auto& p) { p.args.slice.end = 63; }, and_also("patch.part-before-end")},
      {"paging", [](auto& p) { p.args.flags.paging = true; }, and_also("patch.paging")},
      {"no private data", [](auto& p) { p.args.buffer.private_size_bytes = 0; },
       and_also("patch.no-private-data")},
      {"private part", [](auto& p) { p.args.slice.private_start = 1; },
       and_also("patch.private-behind-start")},
      {"elements in front",
       [](auto& p) {
         p.args.patch_start = 1;
         p.args.patch_count = 2;
         p.elements[0] = {.allocation_index = 9, .allocation_offset = 4};
       },
       and_also("patch.elements-behind-start")},
      {"elements behind",
       [](auto& p) {
         p.args.patch_count = 2;
         p.elements[1] = {.allocation_index = 1, .allocation_offset = 4};
       },
       and_also("patch.elements-behind-end")},
      {"no elements",
       [](auto& p) { p.args.patch_count = p.args.patch_length = 0; },
       {"patch.no-elements"}},
      {"offset", [](auto& p) { p.elements[0].allocation_offset = 1; },
       and_also("patch.allocation-offset")},
      {"one twice", [](auto& p) { p.args.patch_count = p.args.patch_length = 2; }, plain},
      {"two",
       [](auto& p) {
         p.args.patch_count = p.args.patch_length = 3;
         p.elements[1].allocation_index = 1;
       },
       and_also("patch.several-allocations")},
      {"the last differs",
       [](auto& p) {
         p.args.patch_count = p.args.patch_length = 3;
         p.elements[2].allocation_index = 2;
       },
       and_also("patch.several-allocations")},
      {"behind the first of a part",
       [](auto& p) {
         p.args.patch_count = 4;
         p.args.patch_start = 1;
         p.args.patch_length = 2;
         p.elements[1].allocation_index = p.elements[2].allocation_index = 2;
       },
       {"patch.memory-address", "patch.written", "patch.elements-behind-start",
        "patch.elements-behind-end"}},
      {"outside the list", [](auto& p) { p.elements[0].allocation_index = 3; }, {}},
      {"NULL", [](auto& p) { p.entries[0].device_handle = nullptr; }, {"patch.null-entry"}},
      {"read", [](auto& p) { p.entries[0].set(false, SegmentId{1}, 0); }, {"patch.memory-address"}},
      {"aperture",
       [](auto& p) { p.entries[0].set(true, SegmentId{2}, 0); },
       {"patch.aperture-address", "patch.written"}},
      {"away", [](auto& p) { p.entries[0].set(true, SegmentId{0}, 0); }, {"patch.written"}},
      {"no such segment",
       [](auto& p) { p.entries[0].set(true, SegmentId{3}, 0); },
       {"patch.written"}},
  };
  for (const Row<Patch>& row : rows) {
    SCOPED_TRACE(row.what);
    SituationWorld world;
    Patch patch;
    if (row.change) row.change(patch);
    EXPECT_EQ(patch.run(world), row.ids);
  }
}

TEST(WorkSituations, PatchesOfSeveralContexts) {
  SituationWorld world;
  Patch patch;
  const auto of = [&](int context) {
    patch.args.context = &g_objects[context];
    Ids ids = patch.run(world);
    ids.erase("patch.memory-address");
    ids.erase("patch.written");
    return ids;
  };
  EXPECT_EQ(of(1), Ids{});
  EXPECT_EQ(of(1), Ids{});
  EXPECT_EQ(of(2), Ids{"patch.other-context"});
  EXPECT_EQ(of(1), Ids{"patch.other-context"});
  EXPECT_EQ(of(3), (Ids{"patch.other-context", "patch.second-context"}));
  EXPECT_EQ(of(3), Ids{"patch.second-context"});
  EXPECT_EQ(of(4), (Ids{"patch.other-context", "patch.second-context"}));
}

// What comes again is the same part of the same buffer; what has moved are the addresses in it.
TEST(WorkSituations, PatchesThatComeAgain) {
  const auto second_time = [](const std::function<void(Patch&)>& before,
                              const std::function<void(Patch&)>& between) {
    SituationWorld world;
    Patch patch;
    patch.args.patch_count = 4;
    patch.args.patch_start = 1;
    patch.args.patch_length = 2;
    patch.elements[1].allocation_index = 1;
    patch.elements[2].allocation_index = 2;
    patch.args.flags.resubmission = true;
    if (before) before(patch);
    EXPECT_FALSE(patch.run(world).contains("patch.again"));
    if (between) between(patch);
    Ids ids = patch.run(world);
    std::erase_if(ids, [](const std::string& id) { return !id.starts_with("patch.again"); });
    return ids;
  };
  const Ids again{"patch.again"}, moved{"patch.again-moved"};
  EXPECT_EQ(second_time(nullptr, nullptr), again);
  EXPECT_EQ(second_time(nullptr, [](Patch& p) { p.args.flags.resubmission = false; }), Ids{});
  EXPECT_EQ(second_time(nullptr, [](Patch& p) { p.args.slice.start = 4; }), Ids{}) << "a part";
  std::array<std::byte, 64> other{};
  EXPECT_EQ(second_time(nullptr, [&](Patch& p) { p.args.buffer.cpu = other.data(); }), Ids{});
  for (const size_t entry : {1, 2}) {
    EXPECT_EQ(second_time(nullptr, [&](Patch& p) { p.entries[entry].physical_address += 0x1000; }),
              moved);
  }
  EXPECT_EQ(second_time(nullptr, [](Patch& p) { p.entries[0].physical_address += 1; }), again)
      << "of another part";
  EXPECT_EQ(second_time(nullptr,
                        [](Patch& p) {
                          std::swap(p.entries[1].physical_address, p.entries[2].physical_address);
                        }),
            moved);
  // Paging and parts without elements have no addresses to compare.
  EXPECT_EQ(second_time([](Patch& p) { p.args.flags.paging = true; }, nullptr), Ids{});
  EXPECT_EQ(second_time([](Patch& p) { p.args.patch_length = 0; }, nullptr), Ids{});
  EXPECT_EQ(second_time([](Patch& p) { p.args.flags.paging = true; },
                        [](Patch& p) { p.args.flags.paging = false; }),
            Ids{})
      << "it was not rendering before";
  EXPECT_EQ(second_time([](Patch& p) { p.elements[2].allocation_index = 3; },
                        [](Patch& p) { p.entries[3].physical_address += 0x1000; }),
            again)
      << "an index behind the list has no address";
}

// A third time is compared with the second.
TEST(WorkSituations, PatchesThatComeThirdTimes) {
  SituationWorld world;
  Patch patch;
  patch.args.flags.resubmission = true;
  patch.run(world);
  patch.entries[0].physical_address += 0x1000;
  EXPECT_TRUE(patch.run(world).contains("patch.again-moved"));
  const Ids third = patch.run(world);
  EXPECT_TRUE(third.contains("patch.again"));
  EXPECT_FALSE(third.contains("patch.again-moved"));
}

// The first of many addresses counts as the last does.
TEST(WorkSituations, PatchesOfManyElements) {
  SituationWorld world;
  Patch patch;
  std::array<AllocationListEntry, 100> entries;
  std::array<PatchLocation, 100> elements;
  for (uint32_t i = 0; i < 100; ++i) {
    entries[i].device_handle = &g_objects[0];
    entries[i].set(true, SegmentId{1}, 0x1000 * i);
    elements[i].allocation_index = i;
  }
  patch.args.flags.resubmission = true;
  patch.args.allocations = entries.data();
  patch.args.patches = elements.data();
  patch.args.allocation_count = patch.args.patch_count = patch.args.patch_length = 100;
  world.all.work.patched(patch.args, patch.segments);
  world.reached();
  entries[0].physical_address += 0x1000;
  world.all.work.patched(patch.args, patch.segments);
  EXPECT_TRUE(world.reached().contains("patch.again-moved"));
}

// Of so many parts at most are the addresses kept.
TEST(WorkSituations, PatchesOfManyParts) {
  constexpr uint32_t kKept = 4096;
  for (const uint32_t parts : {kKept, kKept + 1}) {
    SituationWorld world;
    Patch patch;
    patch.args.flags.resubmission = true;
    for (uint32_t i = 0; i < parts; ++i) {
      patch.args.slice.start = i;
      patch.run(world);
    }
    patch.args.slice.start = 0;
    EXPECT_EQ(patch.run(world).contains("patch.again"), parts == kKept);
  }
}

}  // namespace
}  // namespace dxgkit::port
