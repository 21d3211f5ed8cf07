// Pageable memory goes at DISPATCH_LEVEL and comes back below it.
#include "nt/paged.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "nt/image_world_test.h"
#include "tests/support/covers.h"

namespace dxgkit::nt {
namespace {

using Routine = uint64_t(DXGKIT_NT_ABI*)(uint64_t);

struct PagedWorld : ImageWorld {
  explicit PagedWorld(const char* path) : ImageWorld(path, {}, {}) {}
  /// Whether the call came back; `*result`, if it did.
  bool call(const char* name, uint64_t argument, uint64_t* result, Irql irql = kPassiveLevel) {
    CallFrame frame(kernel, name, irql);
    at_level(kernel, irql);  // as the port does
    return frame.call(find<Routine>(name), result, argument);
  }
  uint64_t passive(const char* name, uint64_t argument) {
    uint64_t result = 0;
    EXPECT_TRUE(call(name, argument, &result)) << findings_text();
    return result;
  }
  verifier::Finding only() const {
    EXPECT_EQ(findings.all().size(), 1U) << findings_text();
    return findings.all().empty() ? verifier::Finding{} : findings.all().front();
  }
};

class PagedTest : public ::testing::TestWithParam<const char*> {
 protected:
  static void in_both(const std::function<void(PagedWorld&)>& body) {
    for (const bool sim : {false, true}) {
      const auto runtime = sim ? runtime::make_sim_runtime(1) : runtime::make_os_runtime(1);
      runtime->run_main([&] {
        PagedWorld world(GetParam());
        ASSERT_NE(world.image, nullptr);
        body(world);
      });
    }
  }
  static bool is_pe() { return std::string(GetParam()).ends_with(".sys"); }
};

// Below the level all is as it was, also after it was away; by driver and by host.
TEST_P(PagedTest, PagedPoolComesBackBelowDispatchLevel) {
  DXGKIT_COVERS("IRQL-13");
  for (const uint64_t bytes : {16U, 100U, 4096U, 10000U}) {
    SCOPED_TRACE(bytes);
    in_both([&](PagedWorld& world) {
      auto* const block = reinterpret_cast<const uint8_t*>(world.passive("TakePaged", bytes));
      ASSERT_NE(block, nullptr);
      for (uint64_t round = 1; round <= 3; ++round) {
        EXPECT_EQ(world.passive("SumPaged", round), round * bytes);
        {
          const CallFrame frame(world.kernel, "up", kDispatchLevel);
          at_level(world.kernel, 2);
        }
        EXPECT_EQ(block[bytes - 1], round) << "the host sees it";
        {
          CallFrame frame(world.kernel, "up", kPassiveLevel);
          frame.raise(kDispatchLevel);
        }
      }
      EXPECT_EQ(world.passive("FreePaged", 0), 0U);
      EXPECT_EQ(world.findings_text(), "");
      EXPECT_TRUE(world.kernel.leaks().empty());
    });
  }
}

TEST_P(PagedTest, PagedPoolUnderASpinLockIsABugCheck) {
  DXGKIT_COVERS("IRQL-13");
  in_both([](PagedWorld& world) {
    ASSERT_NE(world.passive("TakePaged", 100), 0U);
    EXPECT_EQ(world.passive("SumPaged", 1), 100U);
    uint64_t result = 77;
    EXPECT_FALSE(world.call("SumPagedUnderLock", 2, &result));
    EXPECT_EQ(result, 77U);
    const verifier::Finding finding = world.only();
    EXPECT_EQ(finding.rule, "IRQL-13");
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.bugcheck_code, 0xD1U);
    EXPECT_NE(finding.actual.find("100 bytes"), std::string::npos) << finding.actual;
    EXPECT_NE(finding.actual.find("'TPag'"), std::string::npos) << finding.actual;
    EXPECT_NE(finding.actual.find("(write)"), std::string::npos) << finding.actual;
    EXPECT_TRUE(world.kernel.driver_is_dead());
  });
}

TEST_P(PagedTest, AtDeviceLevelToo) {
  DXGKIT_COVERS("IRQL-13");
  in_both([](PagedWorld& world) {
    ASSERT_NE(world.passive("TakePaged", 8000), 0U);
    uint64_t result = 0;
    EXPECT_FALSE(world.call("SumPaged", 1, &result, kDeviceLevel));
    EXPECT_EQ(world.only().rule, "IRQL-13");
  });
}

// Code in a section named PAGE: a .sys only, as the ELF form has no such sections.
TEST_P(PagedTest, PageableCodeRunsBelowTheLevelAndNotAtIt) {
  DXGKIT_COVERS("IRQL-13");
  in_both([](PagedWorld& world) {
    EXPECT_EQ(world.passive("SquarePaged", 7), 49U);
    {
      CallFrame frame(world.kernel, "up", kPassiveLevel);
      frame.raise(kDispatchLevel);
    }
    EXPECT_EQ(world.passive("SquarePaged", 8), 64U);
    EXPECT_EQ(world.passive("SquareHeldUnderLock", 9), 81U) << "a held section stays";
    EXPECT_EQ(world.findings_text(), "");
    uint64_t result = 0;
    const bool came_back = world.call("SquarePagedUnderLock", 10, &result);
    EXPECT_EQ(came_back, !is_pe());
    if (!is_pe()) return;
    const verifier::Finding finding = world.only();
    EXPECT_EQ(finding.rule, "IRQL-13");
    EXPECT_EQ(finding.bugcheck_code, 0xD1U);
    EXPECT_NE(finding.actual.find("execute"), std::string::npos) << finding.actual;
    EXPECT_NE(finding.actual.find("section"), std::string::npos) << finding.actual;
  });
}

constexpr uint64_t kNonPagedPool = 0, kPagedPool = 1, kCacheAligned = 4, kNonPagedPoolNx = 512;
constexpr uint64_t kFlagNonPaged = 0x40, kFlagNonPagedExecute = 0x80, kFlagPaged = 0x100;

// In a heap block, in pages of the machine, and at the end of contiguous memory: the driver's
// second jump into a block finds it executable already, and the next block of the same pages is
// data again.
TEST_P(PagedTest, CodeRunsInExecutableMemory) {
  DXGKIT_COVERS("NT-36");
  in_both([](PagedWorld& world) {
    for (int round = 0; round < 2; ++round) {
      for (const uint64_t bytes : {64U, 4096U, 10000U}) {
        EXPECT_EQ(world.passive("RunInPool", bytes << 16 | kNonPagedPool), 43U) << bytes;
        EXPECT_EQ(world.passive("RunInPool", bytes << 16 | kCacheAligned), 43U) << bytes;
      }
      EXPECT_EQ(world.passive("RunInPool2", kFlagNonPagedExecute), 43U);
      EXPECT_EQ(world.passive("RunInContiguous", 8192), 43U);
    }
    EXPECT_EQ(world.findings_text(), "");
    EXPECT_TRUE(world.kernel.leaks().empty());
  });
}

TEST_P(PagedTest, CodeInDataIsABugCheckAtTheCall) {
  DXGKIT_COVERS("NT-36");
  const auto stops = [](const char* function, uint64_t argument, const char* where) {
    in_both([&](PagedWorld& world) {
      // What was executable before is not, once it has been freed.
      EXPECT_EQ(world.passive("RunInPool", 4096 << 16 | kNonPagedPool), 43U);
      uint64_t result = 77;
      EXPECT_FALSE(world.call(function, argument, &result));
      EXPECT_EQ(result, 77U);
      const verifier::Finding finding = world.only();
      EXPECT_EQ(finding.rule, "NT-36");
      EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
      EXPECT_EQ(finding.bugcheck_code, 0xFCU);
      EXPECT_NE(finding.actual.find(where), std::string::npos) << finding.actual;
      EXPECT_EQ(finding.place.image, "driver.sys");
      EXPECT_TRUE(finding.place.after_call);
      ASSERT_FALSE(finding.place.stack.empty());
      EXPECT_NE(finding.place.rva, 0U);
      EXPECT_TRUE(world.kernel.driver_is_dead());
    });
  };
  for (const uint64_t bytes : {4096U, 10000U}) {
    stops("RunInPool", bytes << 16 | kNonPagedPoolNx, "with tag 'Code'");
    stops("RunInPool", bytes << 16 | kPagedPool, "with tag 'Code'");
  }
  stops("RunInPool", uint64_t{64} << 16 | kNonPagedPoolNx, "of 64 bytes");
  stops("RunInPool2", kFlagNonPaged, "of 100 bytes");
  stops("RunInPool2", kFlagPaged, "of 100 bytes");
  stops("RunOnStack", 0, "memory that holds data");
}

// Such code is the driver's, as that of its image is.
TEST_P(PagedTest, AFaultInExecutableMemoryIsTheDrivers) {
  DXGKIT_COVERS("NT-36", "NT-01");
  in_both([](PagedWorld& world) {
    uint64_t result = 0;
    EXPECT_FALSE(world.call("FaultInPool", 1, &result));
    const verifier::Finding finding = world.only();
    EXPECT_EQ(finding.rule, "NT-01");
    EXPECT_NE(finding.actual.find("touched 0x0 (read)"), std::string::npos) << finding.actual;
    EXPECT_EQ(finding.place.image, "driver.sys");
  });
}

// A leak names the code to blame, whatever was taken.
TEST_P(PagedTest, HandlesAndReferencesThatStayHaveAPlace) {
  DXGKIT_COVERS("LIFE-20");
  in_both([](PagedWorld& world) {
    EXPECT_EQ(world.passive("KeepHandles", 2), 2U);
    EXPECT_EQ(world.kernel.report_leaks("after the test"), 2U);
    const std::vector<verifier::Finding> findings = world.findings.all();
    ASSERT_EQ(findings.size(), 2U) << world.findings_text();
    for (const verifier::Finding& finding : findings) {
      EXPECT_EQ(finding.rule, "LIFE-20");
      EXPECT_EQ(finding.place.image, "driver.sys");
      EXPECT_NE(finding.place.symbol.find("KeepHandles"), std::string::npos)
          << finding.place.symbol;
    }
    EXPECT_NE(findings[0].actual.find("2 handles left; the first was taken by KeepHandles"),
              std::string::npos)
        << findings[0].actual;
    EXPECT_NE(
        findings[1].actual.find("2 object references left; the first was taken by KeepHandles"),
        std::string::npos)
        << findings[1].actual;
  });
}

std::vector<const char*> images() {
  std::vector<const char*> paths{NT_PAGED};
  if (std::string(NT_PAGED_SYS).ends_with(".sys")) paths.push_back(NT_PAGED_SYS);
  return paths;
}
INSTANTIATE_TEST_SUITE_P(Images, PagedTest, ::testing::ValuesIn(images()));

}  // namespace
}  // namespace dxgkit::nt
