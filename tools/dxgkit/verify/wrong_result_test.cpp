// What an author is told to look at fits what was seen.
#include "tools/dxgkit/verify/wrong_result.h"

#include <gtest/gtest.h>

#include "tests/support/covers.h"

namespace dxgkit::tool::verify {
namespace {

TEST(WrongResult, BlamesPatchingForWrongContentOnly) {
  DXGKIT_COVERS("REND-29");
  const verifier::Finding content = wrong_result("allocation 2: byte 3 is wrong", false);
  EXPECT_EQ(content.rule, "REND-29");
  EXPECT_EQ(content.ddi, "DxgkDdiRender");
  EXPECT_TRUE(content.fix.starts_with("If the same job alone is right"));
  EXPECT_TRUE(content.fix.contains("DxgkDdiPatch"));
  const verifier::Finding preempted =
      wrong_result("With preemption in flight: byte 3 is wrong", false);
  EXPECT_TRUE(preempted.fix.starts_with("It was preempted: ")) << preempted.fix;
  EXPECT_TRUE(preempted.fix.ends_with(content.fix)) << preempted.fix;
  const verifier::Finding lost =
      wrong_result("after a reset: the device was lost to work that is right", false);
  EXPECT_EQ(lost.rule, "REND-29");
  EXPECT_EQ(lost.ddi, "DxgkDdiSubmitCommand");
  EXPECT_FALSE(lost.fix.contains("Patch")) << lost.fix;
  EXPECT_TRUE(lost.actual.contains("did not come to its end")) << lost.actual;
  const verifier::Finding unread =
      wrong_result("D3DKMTLock2 answered STATUS_DEVICE_REMOVED", false);
  EXPECT_EQ(unread.ddi, "DxgkDdiBuildPagingBuffer");
  EXPECT_FALSE(unread.fix.contains("Patch")) << unread.fix;
  EXPECT_TRUE(unread.actual.contains("could not be read")) << unread.actual;
}

TEST(WrongResult, WithVirtualAddressesToo) {
  DXGKIT_COVERS("VA-47");
  EXPECT_TRUE(wrong_result("byte 3 is wrong", true).fix.contains("FlushTlb"));
  const verifier::Finding lost = wrong_result("the device was lost to a page fault", true);
  EXPECT_EQ(lost.rule, "VA-47");
  EXPECT_EQ(lost.ddi, "DxgkDdiSubmitCommandVirtual");
  EXPECT_FALSE(lost.fix.contains("FlushTlb"));
  EXPECT_EQ(wrong_result("D3DKMTLock2 answered STATUS_X", true).rule, "VA-47");
}

}  // namespace
}  // namespace dxgkit::tool::verify
