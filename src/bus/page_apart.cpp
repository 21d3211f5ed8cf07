#include "bus/page_apart.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/new_descriptors.h"

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
  int fd = -1;
  if (!make_descriptors(NewDescriptors::kSealableMemory, kPageBytes, &fd, "dxgkit-page"))
    return nullptr;
  void* const fresh = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fresh != MAP_FAILED) {
    std::memcpy(fresh, at, kPageBytes);
    munmap(fresh, kPageBytes);
  }
  if (fresh == MAP_FAILED ||
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
