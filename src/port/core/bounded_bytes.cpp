#include "port/core/bounded_bytes.h"

#include <sys/mman.h>

#include <cstring>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/fixed_memory.h"

namespace dxgkit::port {

void BoundedBytes::assign(std::span<const std::byte> bytes) {
  clear();
  if (bytes.empty()) return;
  page_bytes_ = align_up(bytes.size(), kPageBytes);
  // It leaves an inaccessible page behind them.
  void* const pages = map_fixed(FixedRange::kLists, page_bytes_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS);
  DXGKIT_CHECK(pages != MAP_FAILED);
  pages_ = static_cast<std::byte*>(pages);
  data_ = pages_ + page_bytes_ - bytes.size();
  std::memcpy(data_, bytes.data(), bytes.size());
  behind_.start = pages_ + page_bytes_;
  behind_.size = kPageBytes;
  kernel_.add_fault_range(behind_);
}

void BoundedBytes::clear() {
  if (pages_ == nullptr) return;
  kernel_.remove_fault_range(behind_.start);
  unmap_fixed(pages_, page_bytes_);
  pages_ = data_ = nullptr;
}

}  // namespace dxgkit::port
