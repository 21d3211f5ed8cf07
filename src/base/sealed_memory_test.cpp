// Memory objects whose mappings stay valid whatever another process does.
#include "base/sealed_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dxgkit {
namespace {

TEST(SealedMemory, NobodyChangesItsSize) {
  const int fd = create_sealed_memory("test", 8192);
  ASSERT_GE(fd, 0);
  EXPECT_NE(ftruncate(fd, 4096), 0);
  EXPECT_NE(ftruncate(fd, 16384), 0);
  EXPECT_TRUE(seal_memory(fd, 0, 8192));
  EXPECT_TRUE(seal_memory(fd, 4096, 4096));
  EXPECT_FALSE(seal_memory(fd, 4096, 4097));
  EXPECT_FALSE(seal_memory(fd, UINT64_MAX, 2));
  close(fd);
}

TEST(SealedMemory, SealsWhatCanBeSealed) {
  const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  EXPECT_TRUE(seal_memory(fd, 0, 8192));
  EXPECT_NE(ftruncate(fd, 4096), 0) << "it could shrink under a mapping";
  close(fd);
}

TEST(SealedMemory, RefusesWhatCanShrink) {
  const int unsealable = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(unsealable, 8192), 0);
  EXPECT_FALSE(seal_memory(unsealable, 0, 4096));
  close(unsealable);
  char name[] = "/tmp/dxgkit-sealed-XXXXXX";
  const int file = mkstemp(name);
  ASSERT_GE(file, 0);
  unlink(name);
  ASSERT_EQ(ftruncate(file, 8192), 0);
  EXPECT_FALSE(seal_memory(file, 0, 4096));
  close(file);
  EXPECT_FALSE(seal_memory(-1, 0, 4096));
  // Its pages may be missing when they are touched. Kernels without huge pages give none.
  const int huge = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  if (huge < 0) return;
  EXPECT_EQ(ftruncate(huge, 2 << 20), 0);
  EXPECT_FALSE(seal_memory(huge, 0, 4096));
  close(huge);
}

}  // namespace
}  // namespace dxgkit
