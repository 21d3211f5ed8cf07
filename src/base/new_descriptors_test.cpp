// New descriptors, here and by a supplier.
#include "base/new_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "base/sealed_memory.h"

namespace dxgkit {
namespace {

uint64_t asked_bytes = 0;

bool refuse(NewDescriptors, uint64_t bytes, int*) {
  asked_bytes = bytes;
  errno = EMFILE;
  return false;
}

TEST(NewDescriptors, EachKindIsClosedOnExec) {
  for (const NewDescriptors kind :
       {NewDescriptors::kMemory, NewDescriptors::kPipe, NewDescriptors::kSocketPair,
        NewDescriptors::kPoller, NewDescriptors::kEvent, NewDescriptors::kSealableMemory}) {
    int made[2] = {-1, -1};
    ASSERT_TRUE(make_descriptors(kind, 4096, made));
    for (int i = 0; i < count_of(kind); ++i) {
      EXPECT_EQ(fcntl(made[i], F_GETFD), FD_CLOEXEC);
      struct stat status {};
      EXPECT_TRUE(descriptor_status(made[i], &status));
      const bool is_memory =
          kind == NewDescriptors::kMemory || kind == NewDescriptors::kSealableMemory;
      EXPECT_EQ(status.st_size, is_memory ? 4096 : 0);
      if (is_memory) {
        EXPECT_NE(ftruncate(made[i], 0), 0);
        EXPECT_EQ(fcntl(made[i], F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0,
                  kind == NewDescriptors::kSealableMemory);
      }
      close(made[i]);
      EXPECT_FALSE(descriptor_status(made[i], &status));
    }
    EXPECT_EQ(made[1] >= 0, count_of(kind) == 2);
  }
}

TEST(NewDescriptors, NoKindIsNone) {
  int made = -1;
  EXPECT_FALSE(make_descriptors(static_cast<NewDescriptors>(77), 0, &made));
  EXPECT_EQ(errno, EINVAL);
}

TEST(NewDescriptors, ASupplierIsAsked) {
  set_descriptor_supplier(refuse);
  EXPECT_EQ(create_sealed_memory("test", 12345), -1);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_EQ(asked_bytes, 12345U);
  set_descriptor_supplier(nullptr);
  const int fd = create_sealed_memory("test", 4096);
  EXPECT_GE(fd, 0);
  close(fd);
}

}  // namespace
}  // namespace dxgkit
