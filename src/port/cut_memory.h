// A copy of user memory whose end is missing, for fault injection.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <span>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/fixed_memory.h"

namespace dxgkit::port {

/// Holds `bytes` at the end of a page; the next page cannot be touched. For calls of a DDI, which
/// read it as they read what a client has unmapped.
class CutMemory {
 public:
  explicit CutMemory(std::span<const std::byte> bytes)
      : size_bytes_(align_up(bytes.size(), kPageBytes) + kPageBytes),
        memory_(static_cast<std::byte*>(map_fixed(FixedRange::kMemory, size_bytes_,
                                                  PROT_READ | PROT_WRITE,
                                                  MAP_PRIVATE | MAP_ANONYMOUS))),
        start_(memory_ + (size_bytes_ - kPageBytes - bytes.size())) {
    DXGKIT_CHECK(memory_ != MAP_FAILED);
    if (!bytes.empty()) std::memcpy(start_, bytes.data(), bytes.size());
    DXGKIT_CHECK(mprotect(memory_ + (size_bytes_ - kPageBytes), kPageBytes, PROT_NONE) == 0);
  }
  ~CutMemory() { unmap_fixed(memory_, size_bytes_); }
  CutMemory(const CutMemory&) = delete;
  CutMemory& operator=(const CutMemory&) = delete;

  const std::byte* start() const { return start_; }

 private:
  const size_t size_bytes_;
  std::byte* const memory_;
  std::byte* const start_;
};

}  // namespace dxgkit::port
