// Memory filled with a word again and again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dxgkit {

/// Writes `pattern` over `bytes` bytes, the last time cut short if it does not fit. Each copy doubles
/// what is there, up to a size that stays in the first cache: as fast as memset in any build.
inline void fill_pattern(std::byte* start, uint64_t bytes, uint32_t pattern) {
  constexpr uint64_t kStepMost = 4096;
  uint64_t done = std::min<uint64_t>(bytes, sizeof(pattern));
  std::memcpy(start, &pattern, done);
  for (uint64_t step = 0; done < bytes; done += step) {
    step = std::min({done, bytes - done, kStepMost});
    std::memcpy(start + done, start, step);
  }
}

}  // namespace dxgkit
