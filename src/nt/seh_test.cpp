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

INSTANTIATE_TEST_SUITE_P(Built, Seh, ::testing::Values(NT_EXCEPTIONS_O0, NT_EXCEPTIONS_O2),
                         [](const auto& name) { return name.index == 0 ? "O0" : "O2"; });

}  // namespace
}  // namespace dxgkit::nt
