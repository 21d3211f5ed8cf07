// What objects, displays, questions and the adapter itself are.
#include "port/core/situation_tables_test.h"

namespace dxgkit::port {
namespace {

TEST(OtherSituations, Objects) {
  SituationWorld world;
  ObjectSituations& objects = world.all.objects;
  const auto after = [&](const std::function<void()>& call) {
    call();
    return world.reached();
  };
  EXPECT_EQ(after([&] { objects.process_made(true, Status::kSuccess); }), Ids{}) << "the system's";
  EXPECT_EQ(after([&] { objects.process_made(false, Status::kNoMemory); }), Ids{});
  EXPECT_EQ(after([&] { objects.process_gone(); }), Ids{});
  EXPECT_EQ(after([&] { objects.process_made(false, Status::kSuccess); }), Ids{"process.first"});
  EXPECT_EQ(after([&] { objects.process_made(false, Status::kSuccess); }),
            (Ids{"process.first", "process.second"}));
  EXPECT_EQ(after([&] {
              objects.process_gone();
              objects.process_gone();
              objects.process_made(false, Status::kSuccess);
            }),
            Ids{"process.first"});

  EXPECT_EQ(after([&] { objects.device_gone(); }), Ids{}) << "nothing to count";
  EXPECT_EQ(after([&] { objects.device_made(Status::kInvalidParameter); }), Ids{});
  EXPECT_EQ(after([&] { objects.device_made(Status::kSuccess); }), Ids{});
  EXPECT_EQ(after([&] { objects.device_made(Status::kSuccess); }), Ids{"device.second"});
  EXPECT_EQ(after([&] {
              objects.device_gone();
              objects.device_gone();
              objects.device_made(Status::kNoMemory);
              objects.device_made(Status::kSuccess);
            }),
            Ids{"device.no-memory"});

  EXPECT_EQ(
      after([&] { objects.context_made(&g_objects[0], NodeOrdinal{1}, true, Status::kNoMemory); }),
      Ids{"context.no-memory"});
  EXPECT_EQ(after([&] {
              objects.context_made(&g_objects[0], NodeOrdinal{1}, true, Status::kInvalidParameter);
            }),
            Ids{});
  EXPECT_EQ(
      after([&] { objects.context_made(&g_objects[0], NodeOrdinal{2}, true, Status::kSuccess); }),
      (Ids{"context.system", "context.second-node"}));
  for (int i = 1; i <= 15; ++i) {
    EXPECT_EQ(after([&] {
                objects.context_made(&g_objects[i], NodeOrdinal{0}, false, Status::kSuccess);
              }),
              i == 15 ? (Ids{"context.first", "context.many"}) : Ids{"context.first"});
  }
  EXPECT_EQ(after([&] { objects.context_gone(&g_objects[19]); }), Ids{}) << "nobody's";
  EXPECT_EQ(after([&] { objects.context_gone(&g_objects[15]); }), Ids{}) << "the youngest";
  EXPECT_EQ(after([&] { objects.context_gone(&g_objects[3]); }),
            Ids{"context.destroyed-out-of-order"});
  EXPECT_EQ(after([&] { objects.context_gone(&g_objects[3]); }), Ids{}) << "gone already";

  EXPECT_EQ(after([&] { objects.opened(1, true); }), Ids{"open.creator"});
  EXPECT_EQ(after([&] { objects.opened(1, false); }), Ids{"open.other-device"});
  EXPECT_EQ(after([&] { objects.opened(2, true); }), (Ids{"open.creator", "open.several"}));
  EXPECT_EQ(after([&] { objects.escaped(1); }), Ids{"escape.any"});
  EXPECT_EQ(after([&] { objects.escaped(0); }), (Ids{"escape.any", "escape.no-data"}));
}

struct Allocations {
  std::array<std::byte, 4> data{};
  std::array<AllocationInfo, 3> infos;
  size_t count = 1;
  bool in_resource = false;
  Status status = Status::kSuccess;
};

TEST(OtherSituations, Allocations) {
  const std::vector<Row<Allocations>> rows = {
      {"one", nullptr, {"allocation.one"}},
      {"two", [](auto& a) { a.count = 2; }, {"allocation.several"}},
      {"none", [](auto& a) { a.count = 0; }, {}},
      {"resource",
       [](auto& a) { a.in_resource = true; },
       {"allocation.one", "allocation.resource"}},
      {"the second has no data",
       [](auto& a) {
         a.count = 2;
         a.infos[1].private_data = {};
       },
       {"allocation.several", "allocation.no-private-data"}},
      {"the second is a primary",
       [](auto& a) {
         a.count = 2;
         a.infos[1].primary = true;
       },
       {"allocation.several", "allocation.primary"}},
      {"no memory",
       [](auto& a) {
         a.status = Status::kNoMemory;
         a.in_resource = a.infos[0].primary = true;
       },
       {"allocation.no-memory"}},
      {"refused",
       [](auto& a) {
         a.status = Status::kInvalidParameter;
         a.infos[0].private_data = {};
       },
       {"allocation.refused", "allocation.no-private-data"}},
  };
  for (const Row<Allocations>& row : rows) {
    SCOPED_TRACE(row.what);
    SituationWorld world;
    Allocations made;
    for (AllocationInfo& info : made.infos) info.private_data = made.data;
    if (row.change) row.change(made);
    world.all.objects.allocations_made(std::span(made.infos).first(made.count), made.in_resource,
                                       made.status);
    EXPECT_EQ(world.reached(), row.ids);
  }
}

TEST(OtherSituations, Displays) {
  SituationWorld world;
  const std::pair<EnumPivot, const char*> pivots[] = {{EnumPivot::kNone, "none"},
                                                      {EnumPivot::kSource, "source"},
                                                      {EnumPivot::kTarget, "target"},
                                                      {EnumPivot::kScaling, "scaling"},
                                                      {EnumPivot::kRotation, "rotation"}};
  for (const auto& [pivot, name] : pivots) {
    world.all.display.enumerated(pivot);
    EXPECT_EQ(world.reached(), Ids{std::string("vidpn.pivot-") + name});
  }
  using Kind = SourceAddressArgs::Kind;
  const std::pair<Kind, const char*> kinds[] = {{Kind::kModeChange, "scanout.mode-change"},
                                                {Kind::kFlipImmediate, "scanout.flip-immediate"},
                                                {Kind::kFlipOnNextVsync, "scanout.flip-vsync"}};
  for (const auto& [kind, id] : kinds) {
    world.all.display.address_set(kind);
    EXPECT_EQ(world.reached(), Ids{id});
  }
  for (const auto format : {PointerShape::Format::kMonochrome, PointerShape::Format::kColor,
                            PointerShape::Format::kMaskedColor}) {
    PointerShape shape;
    shape.format = format;
    world.all.display.pointer_shaped(shape);
    EXPECT_EQ(world.reached(),
              format == PointerShape::Format::kColor ? Ids{"pointer.color"} : Ids{});
  }
  const struct {
    int32_t x, y;
    bool visible;
    Ids ids;
  } moves[] = {
      {0, 0, true, {"pointer.moved"}},
      {-1, 0, true, {"pointer.moved", "pointer.outside"}},
      {0, -1, true, {"pointer.moved", "pointer.outside"}},
      {3, 4, false, {"pointer.moved", "pointer.hidden"}},
  };
  for (const auto& move : moves) {
    world.all.display.pointer_moved(move.x, move.y, move.visible);
    EXPECT_EQ(world.reached(), move.ids);
  }
}

// The picture is the largest rectangle of its source so far.
TEST(OtherSituations, DisplayOnlyPresents) {
  SituationWorld world;
  const auto present = [&](uint32_t source, std::vector<Rect> dirty, int32_t pitch = 0,
                           std::vector<MoveRect> moves = {}) {
    PresentDisplayOnlyArgs args;
    args.source = source;
    args.dirty = dirty;
    args.moves = moves;
    args.bytes_per_pixel = 2;
    args.pitch_bytes = pitch;
    world.all.display.presented(args);
    Ids ids;
    for (const std::string& id : world.reached()) ids.insert(id.substr(id.find('.') + 1));
    return ids;
  };
  const Rect whole{0, 0, 64, 32};
  EXPECT_EQ(present(0, {}, 1), Ids{}) << "no picture yet";
  EXPECT_EQ(present(0, {whole}, 128), Ids{"whole"});
  EXPECT_EQ(present(0, {whole}, 129), (Ids{"whole", "pitch"}));
  EXPECT_EQ(present(1, {{0, 0, 8, 8}}, 16), Ids{"whole"}) << "of another source";
  EXPECT_EQ(present(0, {{0, 0, 64, 31}}), Ids{"part"});
  EXPECT_EQ(present(0, {{0, 0, 63, 32}}), Ids{"part"});
  EXPECT_EQ(present(0, {{1, 0, 64, 32}}), Ids{"part"});
  EXPECT_EQ(present(0, {whole, whole}), Ids{"part"});
  EXPECT_EQ(present(0, {}), Ids{});
  EXPECT_EQ(present(0, {}, 0, {{0, 0, {1, 1, 2, 2}}}), Ids{"moves"});
  EXPECT_EQ(present(0, {whole}, 0, {{0, 0, {1, 1, 2, 2}}}),
            (Ids{"part", "moves", "moves-and-parts"}));
  EXPECT_EQ(present(0, {{0, 0, 70, 20}, {0, 0, 10, 40}}), Ids{"part"});
  EXPECT_EQ(present(0, {{0, 0, 70, 40}}, 140), Ids{"whole"}) << "it has grown";
  world.all.display.visible(0, false);
  EXPECT_EQ(world.reached(), Ids{"vidpn.hidden"});
  EXPECT_EQ(present(0, {}), Ids{"hidden"});
  EXPECT_EQ(present(1, {}), Ids{}) << "the other is shown";
  world.all.display.visible(0, true);
  EXPECT_EQ(world.reached(), Ids{"vidpn.shown"});
  world.all.display.visible(1, false);
  EXPECT_EQ(world.reached(), Ids{"vidpn.hidden"});
  EXPECT_EQ(present(1, {}), Ids{"hidden"});
  EXPECT_EQ(present(0, {}), Ids{});
}

TEST(OtherSituations, PartsOfDescriptors) {
  SituationWorld world;
  const auto asked = [&](uint32_t offset, uint32_t bytes) {
    world.all.display.descriptor_asked(offset, bytes, 256);
    return world.reached();
  };
  EXPECT_EQ(asked(0, 128), Ids{});
  EXPECT_EQ(asked(64, 192), Ids{});
  EXPECT_EQ(asked(128, 127), Ids{"monitor.descriptor-part"});
  EXPECT_EQ(asked(255, 1), Ids{"monitor.descriptor-part"});
  EXPECT_EQ(asked(255, 2), Ids{"monitor.descriptor-end"});
  EXPECT_EQ(asked(0, 257), Ids{"monitor.descriptor-end"});
  EXPECT_EQ(asked(256, 1), Ids{"monitor.descriptor-end"});
  EXPECT_EQ(asked(300, 1), Ids{"monitor.descriptor-end"});
  EXPECT_EQ(learned([](SituationWorld& one) { one.all.display.has_descriptor(); }),
            Facts{SituationFact::kMonitorDescriptor});
}

TEST(OtherSituations, QuestionsAndPower) {
  SituationWorld world;
  const auto queried = [&](uint32_t type) {
    world.all.life.queried(type);
    return world.reached();
  };
  const auto power = [&](bool child, bool on, bool hibernate) {
    world.all.life.power_set(child, on, hibernate);
    return world.reached();
  };
  EXPECT_EQ(queried(DXGKQAITYPE_DRIVERCAPS), Ids{});
  EXPECT_EQ(queried(DXGKQAITYPE_QUERYSEGMENT3), Ids{});
  EXPECT_EQ(queried(DXGKQAITYPE_DRIVERCAPS), Ids{"query.again"});
  EXPECT_EQ(queried(DXGKQAITYPE_UMDRIVERPRIVATE), Ids{"query.umd-private"});
  EXPECT_EQ(power(true, false, true), Ids{"power.child-sleep"});
  EXPECT_EQ(power(true, true, true), Ids{"power.child-wake"});
  EXPECT_EQ(queried(DXGKQAITYPE_DRIVERCAPS), Ids{"query.again"}) << "a child sleeps alone";
  EXPECT_EQ(power(false, false, false), Ids{"power.sleep"});
  EXPECT_EQ(queried(DXGKQAITYPE_DRIVERCAPS), (Ids{"query.again", "query.during-power"}));
  EXPECT_EQ(power(false, true, true), Ids{"power.wake"});
  EXPECT_EQ(queried(DXGKQAITYPE_DRIVERCAPS), Ids{"query.again"});
  EXPECT_EQ(power(false, false, true), (Ids{"power.sleep", "power.hibernate"}));
}

uint32_t segment_flags(void (*set)(DXGK_SEGMENTFLAGS&)) {
  DXGK_SEGMENTFLAGS flags{};
  set(flags);
  return flags.Value;
}

TEST(OtherSituations, FactsOfCapsAndSegments) {
  EXPECT_EQ(learned([](SituationWorld&) {}), Facts{}) << "each is needed by some situation";
  using Fact = SituationFact;
  const auto caps = [](void (*change)(DriverCaps&)) {
    return learned([&](SituationWorld& world) {
      DriverCaps made;
      made.node_count = 1;
      change(made);
      world.all.life.has(made);
    });
  };
  EXPECT_EQ(caps([](DriverCaps&) {}), Facts{});
  EXPECT_EQ(caps([](DriverCaps& c) { c.virtual_addressing_supported = true; }),
            Facts{Fact::kGpuVa});
  EXPECT_EQ(caps([](DriverCaps& c) { c.node_count = 2; }), Facts{Fact::kTwoNodes});
  EXPECT_EQ(caps([](DriverCaps& c) { c.preemption_aware = true; }), Facts{Fact::kPreemption});
  EXPECT_EQ(caps([](DriverCaps& c) { c.support_per_engine_tdr = true; }),
            Facts{Fact::kEngineReset});
  EXPECT_EQ(caps([](DriverCaps& c) { c.number_of_swizzling_ranges = 1; }), Facts{Fact::kSwizzling});
  EXPECT_EQ(caps([](DriverCaps& c) { c.support_surprise_removal = true; }),
            Facts{Fact::kSurpriseRemoval});
  EXPECT_EQ(caps([](DriverCaps& c) { c.support_runtime_power_management = true; }),
            Facts{Fact::kPowerComponents});
  EXPECT_EQ(caps([](DriverCaps& c) {
              DXGK_DRIVERCAPS raw{};
              raw.MaxPointerWidth = 1;
              c.raw.resize(sizeof raw);
              std::memcpy(c.raw.data(), &raw, sizeof raw);
            }),
            Facts{Fact::kPointer});

  const auto segments = [](void (*change)(std::vector<SegmentInfo>&)) {
    return learned([&](SituationWorld& world) {
      std::vector<SegmentInfo> some(2);
      for (SegmentInfo& segment : some)
        segment.flags = segment_flags([](auto& f) { f.Aperture = 1; });
      change(some);
      world.all.life.has(std::span<const SegmentInfo>(some));
    });
  };
  EXPECT_EQ(segments([](auto& all) { all.clear(); }), Facts{});
  EXPECT_EQ(segments([](auto&) {}), Facts{Fact::kApertureSegment});
  EXPECT_EQ(segments([](auto& all) { all[1].flags = segment_flags([](auto& f) { f.Agp = 1; }); }),
            Facts{Fact::kApertureSegment});
  EXPECT_EQ(segments([](auto& all) { all[0].flags = 0; }),
            (Facts{Fact::kApertureSegment, Fact::kMemorySegment}));
  EXPECT_EQ(segments([](auto& all) { all[0].flags = all[1].flags = 0; }),
            (Facts{Fact::kMemorySegment, Fact::kTwoMemorySegments}));
  EXPECT_EQ(segments([](auto& all) { all[1].host_aperture_pages = 1; }),
            (Facts{Fact::kApertureSegment, Fact::kHostAperture}));
  EXPECT_EQ(segments([](auto& all) {
              all[1].flags |= segment_flags([](auto& f) { f.Use64KBPages = 1; });
            }),
            (Facts{Fact::kApertureSegment, Fact::k64kbPages}));
}

TEST(OtherSituations, FactsOfTheRest) {
  using Fact = SituationFact;
  const auto mmu = [](void (*change)(GpuMmuCaps&)) {
    return learned([&](SituationWorld& world) {
      GpuMmuCaps caps;
      caps.update_mode = PageTableUpdateMode::kCpuVirtual;
      change(caps);
      world.all.life.has(caps);
    });
  };
  EXPECT_EQ(mmu([](GpuMmuCaps&) {}), Facts{});
  EXPECT_EQ(mmu([](GpuMmuCaps& c) { c.read_only = true; }), Facts{Fact::kReadOnlyPages});
  EXPECT_EQ(mmu([](GpuMmuCaps& c) { c.no_execute = true; }), Facts{Fact::kNoExecutePages});
  EXPECT_EQ(mmu([](GpuMmuCaps& c) { c.update_mode = PageTableUpdateMode::kGpuVirtual; }),
            Facts{Fact::kGpuVaVirtual});
  EXPECT_EQ(mmu([](GpuMmuCaps& c) { c.update_mode = PageTableUpdateMode::kGpuPhysical; }),
            Facts{Fact::kGpuVaPhysical});

  using Awareness = ChildInfo::Awareness;
  for (const auto kind : {ChildInfo::Kind::kOther, ChildInfo::Kind::kVideoOutput,
                          ChildInfo::Kind::kIntegratedDisplay}) {
    for (const Awareness awareness : {Awareness::kNone, Awareness::kAlwaysConnected,
                                      Awareness::kPolled, Awareness::kInterruptible}) {
      const bool comes_and_goes =
          kind == ChildInfo::Kind::kVideoOutput &&
          (awareness == Awareness::kPolled || awareness == Awareness::kInterruptible);
      EXPECT_EQ(learned([&](SituationWorld& world) {
                  std::array<ChildInfo, 2> children;
                  children[1] = {.kind = kind, .awareness = awareness};
                  world.all.life.has(std::span<const ChildInfo>(children));
                }),
                comes_and_goes ? Facts{Fact::kMonitorPolled} : Facts{});
    }
  }

  const auto context = [](bool is_virtual, uint32_t segments, uint32_t private_bytes) {
    return learned([&](SituationWorld& world) {
      ContextInfo info;
      info.dma_buffer_segment_set = segments;
      info.dma_private_bytes = private_bytes;
      world.all.life.made_context(info, is_virtual);
    });
  };
  EXPECT_EQ(context(true, 0, 8), Facts{});
  EXPECT_EQ(context(false, 0, 8), Facts{Fact::kPatch});
  EXPECT_EQ(context(true, 2, 8), Facts{Fact::kBuffersInSegment});
  EXPECT_EQ(context(true, 0, 0), Facts{Fact::kNoDmaPrivateData});

  for (const bool wants : {false, true}) {
    EXPECT_EQ(learned([&](SituationWorld& world) {
                DXGK_ALLOCATIONINFOFLAGS notified{};
                notified.ExplicitResidencyNotification = wants ? 1 : 0;
                std::array<AllocationInfo, 2> infos;
                infos[1].flags = notified.Value;
                world.all.objects.allocations_made(infos, false, Status::kSuccess);
              }),
              wants ? Facts{Fact::kResidencyNotification} : Facts{});
  }
}

// A start says what the adapter is, and only the first of them is the first.
TEST(OtherSituations, Starts) {
  using Fact = SituationFact;
  for (const bool display_only : {false, true}) {
    SCOPED_TRACE(display_only);
    with_core([&](CoreWorld& made) {
      if (display_only) {
        CoreWorld::set(
            made.table.display_only_ddi.DxgkDdiPresentDisplayOnly,
            +[](void*, void*) NTAPI -> NTSTATUS { return 0; });
      }
      const PortCore& core = made.core();
      SituationWorld world;
      const auto start = [&](Status status) {
        world.all.life.started(core, status, 0);
        return world.reached();
      };
      EXPECT_EQ(start(Status::kNoMemory), Ids{"start.failed"});
      EXPECT_EQ(start(Status::kSuccess), Ids{"start.first"});
      EXPECT_EQ(start(Status::kSuccess), Ids{"start.second"});
      EXPECT_EQ(start(Status::kNoMemory), Ids{"start.failed"});
      EXPECT_EQ(
          learned([&](SituationWorld& one) { one.all.life.started(core, Status::kNoMemory, 2); }),
          Facts{});
      EXPECT_EQ(
          learned([&](SituationWorld& one) { one.all.life.started(core, Status::kSuccess, 0); }),
          Facts{display_only ? Fact::kDisplayOnly : Fact::kRenders});
      EXPECT_EQ(
          learned([&](SituationWorld& one) { one.all.life.started(core, Status::kSuccess, 2); }),
          display_only ? (Facts{Fact::kDisplayOnly, Fact::kDisplay})
                       : (Facts{Fact::kRenders, Fact::kDisplay, Fact::kFullDisplay}));
    });
  }
}

// What a driver's table has: the situations of other entries are impossible.
TEST(OtherSituations, Entries) {
  using Fact = SituationFact;
  using Table = DRIVER_INITIALIZATION_DATA;
  const auto fake = +[](void*, void*) NTAPI -> NTSTATUS { return 0; };
  const auto facts = [&](const std::function<void(Table&)>& fill) {
    Facts out;
    with_core([&](CoreWorld& made) {
      fill(made.table.table);
      const PortCore& core = made.core();
      out = learned([&](SituationWorld& world) { world.all.life.added(core); });
    });
    return out;
  };
  EXPECT_EQ(facts([](Table&) {}), Facts{});
  EXPECT_EQ(facts([&](Table& t) { CoreWorld::set(t.DxgkDdiControlInterrupt, fake); }),
            Facts{Fact::kVsyncOff});
  EXPECT_EQ(facts([&](Table& t) { CoreWorld::set(t.DxgkDdiControlInterrupt2, fake); }),
            Facts{Fact::kVsyncOff});
  EXPECT_EQ(facts([&](Table& t) { CoreWorld::set(t.DxgkDdiControlInterrupt3, fake); }),
            Facts{Fact::kVsyncOff});
  EXPECT_EQ(facts([&](Table& t) { CoreWorld::set(t.DxgkDdiCreateHwQueue, fake); }),
            Facts{Fact::kHwQueues});
  EXPECT_EQ(facts([&](Table& t) {
              CoreWorld::set(t.DxgkDdiSetupPriorityBands, fake);
              CoreWorld::set(t.DxgkDdiSetContextSchedulingProperties, fake);
              CoreWorld::set(t.DxgkDdiSuspendContext, fake);
              CoreWorld::set(t.DxgkDdiResumeContext, fake);
              CoreWorld::set(t.DxgkDdiResetHwEngine, fake);
              CoreWorld::set(t.DxgkDdiResumeHwEngine, fake);
            }),
            Facts{Fact::kHwScheduling});
  EXPECT_EQ(facts([&](Table& t) {
              CoreWorld::set(t.DxgkDdiCreateNativeFence, fake);
              CoreWorld::set(t.DxgkDdiDestroyNativeFence, fake);
              CoreWorld::set(t.DxgkDdiOpenNativeFence, fake);
              CoreWorld::set(t.DxgkDdiCloseNativeFence, fake);
              CoreWorld::set(t.DxgkDdiUpdateMonitoredValues, fake);
              CoreWorld::set(t.DxgkDdiUpdateCurrentValuesFromCpu, fake);
            }),
            Facts{Fact::kNativeFences});
  for (const bool display_only : {false, true}) {
    with_core([&](CoreWorld& made) {
      CoreWorld::set(made.table.table.DxgkDdiEscape, fake);
      if (display_only) CoreWorld::set(made.table.display_only_ddi.DxgkDdiPresentDisplayOnly, fake);
      SituationWorld world;
      world.all.life.added(made.core());
      const auto has = [&](Situation situation) {
        const std::string why = world.log.why_not(situation).value_or("");
        return !why.starts_with("the driver has no ");
      };
      EXPECT_TRUE(has(Situation::kEscapeAny));
      EXPECT_FALSE(has(Situation::kPatchPaging));
      EXPECT_EQ(has(Situation::kPresentDisplayOnlyWhole), display_only);
    });
  }
}

}  // namespace
}  // namespace dxgkit::port
