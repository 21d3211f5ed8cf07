// The memory that a call moves between a program and the kernel, on the thread that makes it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "record/call_writer.h"

namespace dxgkit::record {

/// While it lives, what windows tell on this thread belongs to the call with this begin.
class MovedMemory {
 public:
  MovedMemory(CallWriter& writer, uint64_t begin) : writer_(writer), begin_(begin) {
    current_ = this;
  }
  ~MovedMemory() {
    current_ = nullptr;
    if (chunk_.has_value()) writer_.put(std::move(*chunk_));
  }
  MovedMemory(const MovedMemory&) = delete;
  MovedMemory& operator=(const MovedMemory&) = delete;

  /// For wire::Windows::set_observer.
  static void note(uint32_t allocation, bool to_kernel, uint64_t offset,
                   std::span<const std::byte> bytes) {
    if (current_ != nullptr) current_->add(allocation, !to_kernel, offset, bytes);
  }

 private:
  void add(uint32_t allocation, bool seen, uint64_t offset, std::span<const std::byte> bytes) {
    if (!chunk_.has_value()) chunk_ = writer_.empty_chunk();
    chunk_->put(begin_, allocation, seen, offset, bytes);
    if (!chunk_->is_full()) return;
    writer_.put(std::move(*chunk_));
    chunk_.reset();
  }

  CallWriter& writer_;
  const uint64_t begin_;
  std::optional<Chunk> chunk_;  // of this thread alone, until it is put
  static inline thread_local MovedMemory* current_ = nullptr;
};

}  // namespace dxgkit::record
