// Memory for what is large and read at random: 2 MiB that the processor can translate at once.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace dxgkit {

/// 2 MiB, aligned to as much, all zero, not from the heap; one page where the system has such
/// pages to give. The first access may cost clearing all of it. Throws std::bad_alloc.
class LargeBlock {
 public:
  static constexpr size_t kBytes = size_t{2} << 20;

  LargeBlock() {
    // The system aligns to its small pages only: what is too much goes back.
    void* const found =
        mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) throw std::bad_alloc();
    auto* const bytes = static_cast<std::byte*>(found);
    const size_t before = (kBytes - reinterpret_cast<uintptr_t>(bytes) % kBytes) % kBytes;
    if (before != 0) munmap(bytes, before);
    munmap(bytes + before + kBytes, kBytes - before);
    bytes_ = bytes + before;
    madvise(bytes_, kBytes, MADV_HUGEPAGE);  // a wish
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
