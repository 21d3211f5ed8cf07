#include "base/new_descriptors.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace dxgkit {
namespace {

std::atomic<DescriptorSupplier> the_supplier{nullptr};

int make_memory(const char* name, uint64_t bytes, int seals) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | seals) == 0)
    return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

bool make_descriptors_here(NewDescriptors kind, uint64_t bytes, int* made, const char* name) {
  switch (kind) {
    case NewDescriptors::kMemory:
      return (*made = make_memory(name, bytes, F_SEAL_SEAL)) >= 0;
    case NewDescriptors::kPipe:
      return pipe2(made, O_CLOEXEC | O_NONBLOCK) == 0;
    case NewDescriptors::kSocketPair:
      return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, made) == 0;
    case NewDescriptors::kPoller:
      return (*made = epoll_create1(EPOLL_CLOEXEC)) >= 0;
    case NewDescriptors::kEvent:
      return (*made = eventfd(0, EFD_CLOEXEC)) >= 0;
    case NewDescriptors::kSealableMemory:
      return (*made = make_memory(name, bytes, 0)) >= 0;
  }
  errno = EINVAL;
  return false;
}

bool make_descriptors(NewDescriptors kind, uint64_t bytes, int* made, const char* name) {
  const DescriptorSupplier supplier = the_supplier.load();
  return supplier == nullptr ? make_descriptors_here(kind, bytes, made, name)
                             : supplier(kind, bytes, made);
}

void set_descriptor_supplier(DescriptorSupplier supplier) { the_supplier.store(supplier); }

bool descriptor_status(int fd, struct stat* status) {
  // struct stat is the kernel's own on this processor.
  return syscall(SYS_fstat, fd, status) == 0;
}

}  // namespace dxgkit
