#include "bus/hardware_pages.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.h"

namespace dxgkit::bus {
namespace {

/// Ones for as many pages as a mapping shows at once.
constexpr uint64_t kOnesBytes = uint64_t{2} << 20;

int make_ones() {
  const int fd = memfd_create("dxgkit-ones", MFD_CLOEXEC);
  DXGKIT_CHECK(fd >= 0);
  const std::vector<std::byte> ones(kOnesBytes, std::byte{0xFF});
  DXGKIT_CHECK(pwrite(fd, ones.data(), ones.size(), 0) == static_cast<ssize_t>(ones.size()));
  return fd;
}

}  // namespace

bool is_hardware(const MemoryWindow& memory) {
  struct stat status {};
  return fstat(memory.fd, &status) == 0 && !S_ISREG(status.st_mode);
}

void show_ones(void* mapped, uint64_t bytes) {
  static const int ones = make_ones();  // for the process's life
  for (uint64_t done = 0; done < bytes; done += kOnesBytes) {
    const uint64_t some = std::min(bytes - done, kOnesBytes);
    std::byte* const at = static_cast<std::byte*>(mapped) + done;
    DXGKIT_CHECK(mmap(at, some, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, ones, 0) == at);
  }
}

}  // namespace dxgkit::bus
