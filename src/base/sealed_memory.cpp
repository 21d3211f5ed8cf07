#include "base/sealed_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "base/arithmetic.h"
#include "base/new_descriptors.h"

namespace dxgkit {

int create_sealed_memory(const char* name, uint64_t bytes) {
  int fd = -1;
  return make_descriptors(NewDescriptors::kMemory, bytes, &fd, name) ? fd : -1;
}

bool seal_memory(int fd, uint64_t offset, uint64_t bytes) {
  // Sealed before it is measured: the other way round it could shrink in between.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return false;
  if ((seals & F_SEAL_SHRINK) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) return false;
  // Of the kinds that take seals, huge pages may be missing when they are touched.
  struct statfs system {};
  if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) return false;
  struct stat status {};
  if (!descriptor_status(fd, &status) || status.st_size < 0) return false;
  return range_within(offset, bytes, static_cast<uint64_t>(status.st_size));
}

}  // namespace dxgkit
