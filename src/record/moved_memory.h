// The memory that a call moves between a program and the kernel, on the thread that makes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "record/recording.h"

namespace dxgkit::record {

/// While it lives, what windows tell on this thread goes to a list.
class MovedMemory {
 public:
  explicit MovedMemory(std::vector<Bytes>* list) { list_ = list; }
  ~MovedMemory() { list_ = nullptr; }
  MovedMemory(const MovedMemory&) = delete;
  MovedMemory& operator=(const MovedMemory&) = delete;

  /// For wire::Windows::set_observer.
  static void note(uint32_t allocation, bool to_kernel, uint64_t offset,
                   std::span<const std::byte> bytes) {
    if (list_ == nullptr) return;
    list_->push_back({.allocation = allocation,
                      .seen = to_kernel ? 0U : 1U,
                      .offset = offset,
                      .bytes = {bytes.begin(), bytes.end()}});
  }

 private:
  static inline thread_local std::vector<Bytes>* list_ = nullptr;
};

}  // namespace dxgkit::record
