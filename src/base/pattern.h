// Memory filled with a word again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dxgkit {

/// Writes `pattern` over `bytes` bytes, the last time cut short if it does not fit. In whole
/// vectors in any build.
inline void fill_pattern(std::byte* start, uint64_t bytes, uint32_t pattern) {
  using Block = uint32_t __attribute__((vector_size(64)));
  const Block block = Block{} + pattern;
  for (; bytes >= sizeof(block); start += sizeof(block), bytes -= sizeof(block))
    std::memcpy(start, &block, sizeof(block));
  std::memcpy(start, &block, bytes);
}

}  // namespace dxgkit
