// A bad pointer that a driver passes to a routine is a finding at the driver's call.
#include <gtest/gtest.h>

#include "nt/image_world_test.h"
#include "nt/kernel_impl.h"
#include "tests/support/covers.h"

namespace dxgkit::nt {
namespace {

using Routine = uint64_t(DXGKIT_NT_ABI*)(uint64_t);

TEST(FaultCalls, NamesTheRoutineAndTheArgument) {
  DXGKIT_COVERS("NT-01");
  struct Case {
    uint64_t how;
    const char* text;
  };
  constexpr Case kCases[] = {
      {0, "called READ_REGISTER_ULONG with argument 1 = 0x10, which touched 0x10 (read)"},
      {1, "called WRITE_REGISTER_ULONG with argument 1 = 0x20, which touched 0x20 (write)"},
      {2, "called memcpy or memmove (to 0x30, from 0x"},
      {3, "called memset (of 0x40, 64 bytes), which touched 0x40 (write)"},
      {4, "called KeSetEvent with argument 1 = 0x50, which touched 0x50"},
      {5, "called KeWaitForSingleObject with argument 1 = 0x60, which touched 0x6"},
      {6, "called RtlEqualUnicodeString, which touched 0x70000000000 (read)"},
      {7,
       "called WRITE_REGISTER_ULONG with argument 1 = 0xddddddddddddddd0, which touched an "
       "address that is not canonical"},
      {8, "which touched 0x80 (write)"},
  };
  for (const char* path : {NT_DOOR_DRIVER, NT_DOOR_DRIVER_SYS}) {
    in_both_modes([&] {
      for (const Case& each : kCases) {
        ImageWorld world(path, {}, {});
        {
          CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
          uint64_t result = 7;
          EXPECT_FALSE(frame.call(world.find<Routine>("PassBadPointer"), &result, each.how));
          EXPECT_EQ(result, 7U);
        }
        ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
        const verifier::Finding finding = world.findings.all()[0];
        EXPECT_EQ(finding.rule, "NT-01");
        EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
        EXPECT_EQ(finding.ddi, "DxgkDdiTest");
        EXPECT_EQ(finding.bugcheck_code, each.how == 8 ? 0xD1U : 0x7EU);
        EXPECT_NE(finding.actual.find(each.text), std::string::npos) << finding.actual;
        EXPECT_EQ(finding.confidence, each.how == 6 ? verifier::Confidence::kInferred
                                                    : verifier::Confidence::kDocumented);
        EXPECT_EQ(finding.place.image, "driver.sys");
        const auto start = reinterpret_cast<uint64_t>(world.image->find("PassBadPointer")) -
                           reinterpret_cast<uint64_t>(world.image->base());
        EXPECT_GT(finding.place.rva, start) << finding.actual;
        EXPECT_LT(finding.place.rva, start + 1024) << finding.actual;
        EXPECT_TRUE(world.kernel.driver_is_dead());
        // The routine held this lock where it failed.
        EXPECT_TRUE(world.kernel.impl().dispatcher_lock.try_lock()) << each.text;
        world.kernel.impl().dispatcher_lock.unlock();
      }
    });
  }
}

}  // namespace
}  // namespace dxgkit::nt
