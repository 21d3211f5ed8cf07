// Exceptions in a driver in the form Windows ships: every case runs in a PE image, built without
// and with optimisation, in both runtimes.
#include "nt/seh.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "loader/image.h"
#include "nt/kernel.h"
#include "tests/support/covers.h"

namespace dxgkit::nt {
namespace {

struct World {
  explicit World(const char* path, const char* name = "exceptions.sys")
      : kernel(runtime::Runtime::current(), machine, findings) {
    std::string message;
    const auto file = loader::read_image_file(path, &message);
    EXPECT_TRUE(file.has_value()) << message;
    auto loaded = loader::load_image(
        *file,
        [&](const loader::ImportRequest& request) -> loader::ImportAnswer {
          if (const Export* found = find_export(request.name); found != nullptr)
            return {kernel.door(*found), found->data_bytes};
          return {kernel.unresolved_import(request.name, request.library), 0};
        },
        &message);
    EXPECT_TRUE(loaded.has_value()) << message;
    image = std::move(*loaded);
    kernel.add_image({.name = name,
                      .base = image->base(),
                      .size = image->size(),
                      .functions = std::as_bytes(image->functions()),
                      .symbol = [this](uint64_t rva) { return image->symbol(rva); }});
    call("ClearTrail");
  }
  ~World() {
    kernel.quiesce();
    kernel.remove_image(image->base());
  }

  /// Calls an export of the driver; kAbandoned if it did not come back.
  template <typename... A>
  uint64_t call_at(Irql irql, const char* name, A... arguments) {
    void* const address = image->find(name);
    EXPECT_NE(address, nullptr) << name;
    if (address == nullptr) return kAbandoned;
    CallFrame frame(kernel, "DxgkDdiTest", irql);
    uint64_t result = 0;
    using Function = uint64_t(DXGKIT_NT_ABI*)(A...);
    return frame.call(reinterpret_cast<Function>(address), &result, arguments...) ? result
                                                                                  : kAbandoned;
  }
  template <typename... A>
  uint64_t call(const char* name, A... arguments) {
    return call_at(kPassiveLevel, name, arguments...);
  }
  std::string trail() { return reinterpret_cast<const char*>(call("Trail")); }
  const ExceptionRecord& seen() { return *reinterpret_cast<const ExceptionRecord*>(call("Seen")); }
  uint64_t seen_rva() { return call("SeenRip") - reinterpret_cast<uint64_t>(image->base()); }
  uint64_t rva_of(const char* name) {
    return reinterpret_cast<uint64_t>(image->find(name)) -
           reinterpret_cast<uint64_t>(image->base());
  }
  std::string findings_text() const {
    std::string text;
    for (const verifier::Finding& finding : findings.all()) text += verifier::to_text(finding);
    return text;
  }

  static constexpr uint64_t kAbandoned = 0xABA2D02ED;
  bus::Machine machine{8 << 20};
  verifier::Findings findings;
  Kernel kernel;
  std::unique_ptr<loader::Image> image;
};

constexpr uint64_t kBad = 0x10;

class Seh : public ::testing::TestWithParam<const char*> {
 protected:
  template <typename Body>
  void run(const Body& body) {
    const auto with_world = [&] {
      World world(GetParam());
      if (HasFatalFailure()) return;
      body(world);
    };
    runtime::make_os_runtime(1)->run_main(with_world);
    runtime::make_sim_runtime(1)->run_main(with_world);
  }
};

TEST_P(Seh, CatchesBadReadsAndWrites) {
  DXGKIT_COVERS("NT-25");
  run([](World& world) {
    uint64_t good = 33;
    EXPECT_EQ(world.call("CatchInline", &good), 33U);
    EXPECT_EQ(world.call("CatchInline", kBad), 100U);
    EXPECT_EQ(world.call("CatchCallee", kBad), kStatusAccessViolation);
    EXPECT_EQ(world.trail(), "k");
    EXPECT_EQ(world.seen().code, kStatusAccessViolation);
    EXPECT_EQ(world.seen().flags, 0U);
    EXPECT_EQ(world.seen().parameter_count, 2U);
    EXPECT_EQ(world.seen().parameters[0], 0U);
    EXPECT_EQ(world.seen().parameters[1], kBad);
    EXPECT_EQ(world.seen().address, world.call("SeenRip"));
    EXPECT_LT(world.seen_rva(), world.image->size());
    EXPECT_EQ(world.call("CatchWrite", kBad + 8), 2U);
    EXPECT_EQ(world.seen().parameters[0], 1U);
    EXPECT_EQ(world.seen().parameters[1], kBad + 8);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Seh, RunsFiltersThenCleansUpInOrder) {
  DXGKIT_COVERS("NT-25");
  run([](World& world) {
    uint64_t good = 33;
    EXPECT_EQ(world.call("Nested", &good), 33U);
    EXPECT_EQ(world.trail(), "123l4a5.");
    world.call("ClearTrail");
    world.call("Nested", kBad);
    EXPECT_EQ(world.trail(), "123stAB.");
    world.call("ClearTrail");
    EXPECT_EQ(world.call("ThreeCalls", kBad), 7U);
    EXPECT_EQ(world.trail(), "f32h");
    world.call("ClearTrail");
    EXPECT_EQ(world.call("ThreeCalls", &good), (33U + 1 + 1 + 2) * 3);
    EXPECT_EQ(world.trail(), "l3n");
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Seh, GivesBackKeptRegisters) {
  DXGKIT_COVERS("NT-25");
  run([](World& world) {
    EXPECT_EQ(world.call("BrokenRegisters"), 0U);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Seh, GoesOnWhereAFilterSaysSo) {
  DXGKIT_COVERS("NT-25");
  run([](World& world) {
    EXPECT_EQ(world.call("Repair", kBad), 4711U);
    EXPECT_EQ(world.trail(), "r");
    EXPECT_EQ(world.call("GoOnAfterOwnRecord"), 2U);
    EXPECT_EQ(world.trail(), "rfw");
    world.call("ClearTrail");
    EXPECT_EQ(world.call("ContinueTheNonContinuable"), 2U);
    EXPECT_EQ(world.seen().code, kStatusNonContinuable);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Seh, HandlesExceptionsOfHandlers) {
  DXGKIT_COVERS("NT-25");
  run([](World& world) {
    // The outer filter sees the inner exception first; g is asked again by Windows too, because the
    // search goes on from where the first exception happened.
    EXPECT_EQ(world.call("FaultInFilter", kBad), kStatusAccessViolation);
    EXPECT_EQ(world.trail(), "goG");
    world.call("ClearTrail");
    EXPECT_EQ(world.call("FilterHandlesItsOwn", kBad), 0xC0000001U);
    EXPECT_EQ(world.call("FaultInFinally", kBad), kStatusAccessViolation);
    EXPECT_EQ(world.trail(), "f1f2h");
    world.call("ClearTrail");
    EXPECT_EQ(world.call("FinallyHandlesItsOwn", kBad), 100U);
    EXPECT_EQ(world.trail(), "12h");
    world.call("ClearTrail");
    EXPECT_EQ(world.call("RaiseInHandler", kBad), 0xC0000123U);
    EXPECT_EQ(world.trail(), "ab");
    EXPECT_EQ(world.call("InALoop", kBad), 500U);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Seh, RaisesStatuses) {
  DXGKIT_COVERS("NT-25");
  run([](World& world) {
    EXPECT_EQ(world.call("CatchStatus", 0xC00000BBU), 0xC00000BBU);
    EXPECT_EQ(world.trail(), "kF");
    EXPECT_EQ(world.seen().flags & kNonContinuable, kNonContinuable);
    EXPECT_EQ(world.seen().address, world.call("SeenRip"));
    EXPECT_EQ(world.call("CatchRaisedViolation"), kStatusAccessViolation);
    EXPECT_EQ(world.call("CatchRaisedMisalignment"), kStatusMisalignment);
    EXPECT_EQ(world.call("CatchOwnRecord"), 0xE0001234U);
    EXPECT_EQ(world.seen().parameters[1], 22U);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Seh, CatchesBadCopies) {
  DXGKIT_COVERS("NT-25");
  run([](World& world) {
    uint64_t good[2] = {1, 2}, other[2] = {};
    EXPECT_EQ(world.call("CatchCopy", other, good, uint64_t{16}), 0U);
    EXPECT_EQ(other[1], 2U);
    EXPECT_EQ(world.call("CatchCopy", other, kBad, uint64_t{16}), kStatusAccessViolation);
    EXPECT_EQ(world.seen().parameters[1], kBad);
    EXPECT_EQ(world.call("CatchCopy", kBad, good, uint64_t{16}), kStatusAccessViolation);
    EXPECT_EQ(world.seen().parameters[0], 1U);
    EXPECT_EQ(world.call("CatchCompare", good, other, uint64_t{16}), 0U);
    EXPECT_EQ(world.call("CatchCompare", good, kBad, uint64_t{16}), kStatusAccessViolation);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Seh, CatchesWhatTheProcessorRefuses) {
  DXGKIT_COVERS("NT-25");
  struct Case {
    const char* function;
    uint32_t code;
  };
  for (const Case& each :
       {Case{"Divide", kStatusIntegerDivide}, Case{"DivideTooBig", kStatusIntegerOverflow},
        Case{"Illegal", kStatusIllegalInstruction}, Case{"Break", kStatusBreakpoint},
        Case{"NotCanonical", kStatusAccessViolation}}) {
    run([&](World& world) {
      EXPECT_EQ(world.call("CatchCall", world.image->find(each.function)), 2U) << each.function;
      EXPECT_EQ(world.seen().code, each.code) << each.function;
      // Handlers see the instruction itself, also where the processor stands behind it.
      EXPECT_EQ(world.seen().address, world.call("SeenRip"));
      EXPECT_LT(world.seen_rva() - world.rva_of(each.function), 64U) << each.function;
      EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
    });
  }
  run([](World& world) {
    EXPECT_EQ(world.call("CatchCall", kBad), 2U);  // no memory
    EXPECT_EQ(world.seen().code, kStatusAccessViolation);
    EXPECT_EQ(world.seen().parameters[0], 8U);
    EXPECT_EQ(world.seen().parameters[1], kBad);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
  run([](World& world) {
    const uint64_t data = world.call("Trail");  // memory of the image, and not executable
    EXPECT_EQ(world.call("CatchCall", data), World::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    const verifier::Finding finding = world.findings.all()[0];
    EXPECT_EQ(finding.rule, "NT-36");
    EXPECT_EQ(finding.bugcheck_code, 0xFCU);
    EXPECT_NE(finding.place.stack.at(0).find("CatchCall"), std::string::npos)
        << finding.place.stack.at(0);
  });
}

TEST_P(Seh, ExplainsWhatNobodyHandles) {
  DXGKIT_COVERS("NT-01");
  run([](World& world) {
    EXPECT_EQ(world.call("CatchOnlyDivision", kBad), World::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    const verifier::Finding finding = world.findings.all()[0];
    EXPECT_EQ(finding.rule, "NT-01");
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.ddi, "DxgkDdiTest");
    EXPECT_EQ(finding.bugcheck_code, 0x7EU);
    EXPECT_EQ(finding.bugcheck_parameter, kStatusAccessViolation);
    EXPECT_NE(finding.actual.find("touched 0x10 (read)"), std::string::npos) << finding.actual;
    EXPECT_EQ(finding.place.image, "exceptions.sys");
    EXPECT_NE(finding.place.registers.find("rip="), std::string::npos);
    std::string stack;
    for (const std::string& line : finding.place.stack) stack += line + "\n";
    EXPECT_NE(stack.find("exceptions.sys+0x"), std::string::npos) << stack;
    EXPECT_NE(stack.find("CatchOnlyDivision"), std::string::npos) << stack;
    EXPECT_TRUE(world.kernel.driver_is_dead());
  });
}

TEST_P(Seh, StopsAtFaultsThatNoHandlerMayTake) {
  DXGKIT_COVERS("NT-01");
  run([](World& world) {
    EXPECT_EQ(world.call_at(kDispatchLevel, "CatchCallee", kBad), World::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    const verifier::Finding finding = world.findings.all()[0];
    EXPECT_EQ(finding.rule, "NT-01");
    EXPECT_EQ(finding.bugcheck_code, 0xD1U);
    EXPECT_EQ(finding.bugcheck_parameter, kBad);
    EXPECT_NE(finding.actual.find("at DISPATCH_LEVEL"), std::string::npos) << finding.actual;
  });
  run([](World& world) {
    EXPECT_EQ(world.call("CatchCall", world.image->find("ReadSystem")), World::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    EXPECT_EQ(world.findings.all()[0].bugcheck_code, 0x50U);
  });
}

TEST_P(Seh, NamesStatusesNobodyHandles) {
  DXGKIT_COVERS("NT-02");
  run([](World& world) {
    EXPECT_EQ(world.call("RaiseNobodyHandles", 0xC00000BBU), World::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    const verifier::Finding finding = world.findings.all()[0];
    EXPECT_EQ(finding.rule, "NT-02");
    EXPECT_EQ(finding.bugcheck_code, 0x7EU);
    EXPECT_EQ(finding.bugcheck_parameter, 0xC00000BBU);
    EXPECT_NE(finding.actual.find("0xc00000bb"), std::string::npos) << finding.actual;
    EXPECT_EQ(finding.place.image, "exceptions.sys");
  });
}

TEST_P(Seh, StopsAtBreakpoints) {
  DXGKIT_COVERS("NT-06");
  run([](World& world) {
    EXPECT_EQ(world.call("Break"), World::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    EXPECT_EQ(world.findings.all()[0].rule, "NT-06");
    EXPECT_EQ(world.findings.all()[0].bugcheck_parameter, kStatusBreakpoint);
  });
}

TEST_P(Seh, NamesRefusedInstructions) {
  DXGKIT_COVERS("NT-32");
  run([](World& world) {
    EXPECT_EQ(world.call("Divide"), World::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    EXPECT_EQ(world.findings.all()[0].rule, "NT-32");
    EXPECT_EQ(world.findings.all()[0].bugcheck_parameter, kStatusIntegerDivide);
  });
}

TEST_P(Seh, NeverCatchesAFastFail) {
  DXGKIT_COVERS("NT-04");
  run([](World& world) {
    EXPECT_EQ(world.call("CatchCall", world.image->find("FastFail")), World::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    EXPECT_EQ(world.findings.all()[0].rule, "NT-04");
    EXPECT_EQ(world.findings.all()[0].bugcheck_parameter, 5U);
  });
}

TEST_P(Seh, ReportsStacksThatRunOut) {
  DXGKIT_COVERS("NT-03");
  for (const char* function : {"Recurse", "HugeFrame"}) {
    run([&](World& world) {
      EXPECT_EQ(world.call("Recurse", uint64_t{10}), 10U);
      EXPECT_EQ(world.call(function, uint64_t{100'000}), World::kAbandoned);
      ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
      const verifier::Finding finding = world.findings.all()[0];
      EXPECT_EQ(finding.rule, "NT-03");
      EXPECT_EQ(finding.bugcheck_code, 0x7FU);
      EXPECT_EQ(finding.bugcheck_parameter, 8U);
      EXPECT_EQ(finding.place.image, "exceptions.sys");
    });
  }
}

TEST_P(Seh, ProbesUserMemory) {
  DXGKIT_COVERS("NT-18", "NT-25");
  run([](World& world) {
    alignas(16) uint64_t user[4] = {1, 2, 3, 4};
    EXPECT_EQ(world.call("CatchProbeForRead", &user[0], sizeof(user), 8U), 0U);
    EXPECT_EQ(world.call("CatchProbeForWrite", &user[0], sizeof(user), 8U), 0U);
    EXPECT_EQ(user[3], 4U);
    EXPECT_EQ(world.call("CatchProbeForRead", kBad, uint64_t{0}, 1U), 0U);
    const auto at = reinterpret_cast<uint64_t>(&user[0]);
    EXPECT_EQ(world.call("CatchProbeForRead", at + 1, uint64_t{4}, 4U), kStatusMisalignment);
    EXPECT_EQ(world.call("CatchProbeForRead", at, UINT64_MAX, 1U), kStatusAccessViolation);
    EXPECT_EQ(world.call("CatchProbeForRead", 0xFFFF'F780'0000'0000, uint64_t{4}, 1U),
              kStatusAccessViolation);
    EXPECT_EQ(world.call("CatchProbeForWrite", kBad, uint64_t{4}, 1U), kStatusAccessViolation);
    // Kernel memory: the image, and pages of the machine.
    EXPECT_EQ(world.call("CatchProbeForRead", world.call("Trail"), uint64_t{4}, 1U),
              kStatusAccessViolation);
    const auto page = world.machine.allocate_contiguous(1);
    ASSERT_TRUE(page.has_value());
    std::byte* const pointer =
        world.machine.system_pointer(bus::PhysicalAddress(page->value * 4096), 4096);
    EXPECT_EQ(world.call("CatchProbeForRead", pointer, uint64_t{4}, 1U), kStatusAccessViolation);
    EXPECT_EQ(world.call("CatchLock", pointer, 64U), 0U);
    EXPECT_EQ(world.call("CatchLock", &user[0], 8U), kStatusAccessViolation);
    world.machine.free_contiguous(*page, 1);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
    EXPECT_EQ(world.call("ProbeWithoutHandler", world.call("Trail"), uint64_t{4}),
              World::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    EXPECT_EQ(world.findings.all()[0].rule, "NT-18");
    EXPECT_EQ(world.findings.all()[0].bugcheck_parameter, kStatusAccessViolation);
  });
}

/// The driver that faulted is dead; another one in the same process does not notice.
TEST_P(Seh, LeavesOtherDriversAlone) {
  DXGKIT_COVERS("NT-01");
  run([](World& world) {
    World other(GetParam(), "other.sys");
    EXPECT_EQ(world.call("DontCatch", kBad), World::kAbandoned);
    EXPECT_TRUE(world.kernel.driver_is_dead());
    uint64_t good = 33;
    EXPECT_EQ(other.call("DontCatch", &good), 34U);
    EXPECT_EQ(other.call("CatchInline", kBad), 100U);
    EXPECT_FALSE(other.kernel.driver_is_dead());
    EXPECT_EQ(other.findings.total(), 0U) << other.findings_text();
  });
}

INSTANTIATE_TEST_SUITE_P(Built, Seh, ::testing::Values(NT_EXCEPTIONS_O0, NT_EXCEPTIONS_O2),
                         [](const auto& name) { return name.index == 0 ? "O0" : "O2"; });

}  // namespace
}  // namespace dxgkit::nt
