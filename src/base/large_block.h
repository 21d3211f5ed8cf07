// Memory for large structures with random access: 2 MiB that one page-table entry can translate.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace dxgkit {

/// 2 MiB of zeros, aligned to 2 MiB, not from the heap. The block is one large page if the system
/// has one to give. The first access may have to clear all of it. Throws std::bad_alloc.
class LargeBlock {
 public:
  static constexpr size_t kBytes = size_t{2} << 20;

  LargeBlock() {
    // The system aligns to small pages only, so the excess on both sides is unmapped.
    void* const found =
        mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) throw std::bad_alloc();
    auto* const bytes = static_cast<std::byte*>(found);
    const size_t before = (kBytes - reinterpret_cast<uintptr_t>(bytes) % kBytes) % kBytes;
    if (before != 0) munmap(bytes, before);
    munmap(bytes + before + kBytes, kBytes - before);
    bytes_ = bytes + before;
    madvise(bytes_, kBytes, MADV_HUGEPAGE);  // a hint; failure does no harm
  }
  ~LargeBlock() {
    if (bytes_ != nullptr) munmap(bytes_, kBytes);
  }
  LargeBlock(LargeBlock&& other) noexcept : bytes_(std::exchange(other.bytes_, nullptr)) {}
  LargeBlock& operator=(LargeBlock&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return bytes_; }

 private:
  std::byte* bytes_ = nullptr;
};

}  // namespace dxgkit
