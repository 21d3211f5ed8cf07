#include "bus/page_apart.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "base/check.h"

namespace dxgkit::bus {
namespace {

std::atomic<bool> g_allowed{false};

}  // namespace

void PageApart::allow() { g_allowed.store(true); }

std::unique_ptr<PageApart> PageApart::make(Machine& machine, PageFrame page) {
  if (!g_allowed.load()) return nullptr;
  const PhysicalAddress address{page.value * kPageBytes};
  const MemoryWindow common = machine.window_of(address, kPageBytes);
  std::byte* const at = machine.system_pointer(address, kPageBytes);
  if (common.fd < 0 || at == nullptr) return nullptr;
  const int fd = memfd_create("dxgkit-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return nullptr;
  if (ftruncate(fd, kPageBytes) != 0 ||
      pwrite(fd, at, kPageBytes, 0) != static_cast<ssize_t>(kPageBytes) ||
      mmap(at, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != at) {
    close(fd);
    return nullptr;
  }
  // The mapping there is stays writable. There will be no other, here or in another process.
  DXGKIT_CHECK(
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0);
  return std::unique_ptr<PageApart>(new PageApart(at, common, fd));
}

PageApart::~PageApart() {
  DXGKIT_CHECK(mmap(address_, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    common_.fd, static_cast<off_t>(common_.offset)) == address_);
  close(descriptor_);
}

MemoryWindow PageApart::window() const { return {descriptor_, 0, kPageBytes}; }

}  // namespace dxgkit::bus
