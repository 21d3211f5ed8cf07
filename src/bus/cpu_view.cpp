#include <sys/mman.h>

#include <cerrno>

#include "base/check.h"
#include "base/fixed_memory.h"
#include "bus/machine.h"

namespace dxgkit::bus {

std::vector<MemoryWindow> Machine::windows_of(std::span<const PageFrame> frames) const {
  std::vector<MemoryWindow> windows;
  for (size_t i = 0; i < frames.size();) {
    size_t run = 1;
    while (i + run < frames.size() && frames[i + run].value == frames[i].value + run) ++run;
    const auto window_at = [&](size_t page, size_t count) {
      return window_of(PhysicalAddress{frames[page].value * kPageBytes}, count * kPageBytes);
    };
    const MemoryWindow whole = window_at(i, run);
    if (whole.fd >= 0) {
      windows.push_back(whole);
    } else {
      for (size_t page = i; page < i + run; ++page) windows.push_back(window_at(page, 1));
    }
    i += run;
  }
  return windows;
}

Result<std::unique_ptr<CpuView>> CpuView::create(uint64_t size) {
  if (size == 0) return Error(Status::kInvalidParameter);
  if (size % kPageBytes != 0) return Error(Status::kInvalidParameter);
  void* address =
      map_fixed(FixedRange::kMemory, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (address == MAP_FAILED) return Error(Status::kNoMemory);
  return std::unique_ptr<CpuView>(new CpuView(address, size));
}

CpuView::~CpuView() { unmap_fixed(address_, size_); }

Status CpuView::retarget(std::span<const MemoryWindow> windows) {
  std::vector<MemoryWindow> merged;
  uint64_t total = 0;
  for (const MemoryWindow& window : windows) {
    if (window.fd < 0) return Status::kInvalidParameter;
    if (window.size == 0) return Status::kInvalidParameter;
    if (window.size % kPageBytes != 0) return Status::kInvalidParameter;
    if (window.offset % kPageBytes != 0) return Status::kInvalidParameter;
    uint64_t end = 0;
    if (!checked_add(window.offset, window.size, &end)) return Status::kInvalidParameter;
    if (end > uint64_t{INT64_MAX}) return Status::kInvalidParameter;  // off_t is signed
    if (!checked_add(total, window.size, &total)) return Status::kInvalidParameter;
    if (!merged.empty() && merged.back().fd == window.fd &&
        merged.back().offset + merged.back().size == window.offset) {
      merged.back().size += window.size;
    } else {
      merged.push_back(window);
    }
  }
  if (total != size_) return Status::kInvalidParameter;
  if (!map(merged)) {
    // Some windows may show already. The old windows fitted before, in as many pieces.
    if (windows_.empty()) {
      DXGKIT_CHECK(mmap(address_, size_, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                        0) == address_);
    } else {
      DXGKIT_CHECK(map(windows_));
    }
    return Status::kNoMemory;
  }
  windows_ = std::move(merged);
  return Status::kSuccess;
}

Status CpuView::protect_read_only() {
  return mprotect(address_, size_, PROT_READ) == 0 ? Status::kSuccess : Status::kUnsuccessful;
}

void CpuView::show_nothing() {
  // The same addresses in one mapping, so this cannot fail for lack of address space.
  DXGKIT_CHECK(mmap(address_, size_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == address_);
}

bool CpuView::map(std::span<const MemoryWindow> windows) {
  auto* at = static_cast<std::byte*>(address_);
  for (const MemoryWindow& window : windows) {
    void* mapped = mmap(at, window.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, window.fd,
                        static_cast<off_t>(window.offset));
    // A page apart may be mapped for reading only (PageApart).
    if (mapped == MAP_FAILED && errno == EPERM)
      mapped = mmap(at, window.size, PROT_READ, MAP_SHARED | MAP_FIXED, window.fd,
                    static_cast<off_t>(window.offset));
    if (mapped == MAP_FAILED) return false;
    at += window.size;
  }
  return true;
}

}  // namespace dxgkit::bus
