// What the system says of this process's address space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dxgkit {

/// One line of /proc/self/maps.
struct OwnMapping {
  uintptr_t start = 0, end = 0;
  char access[5] = {};
  uint64_t offset = 0, inode = 0;
};

/// The mappings that touch [start, end), in order of address. None if the system does not tell.
std::vector<OwnMapping> own_mappings(uintptr_t start, uintptr_t end);

/// True if all of [start, end) is mapped for reading and writing, and privately.
bool is_private_memory(uintptr_t start, uintptr_t end);

/// Puts private memory with the `bytes` bytes at `content` in the place of what is mapped at `at`.
/// Made at another address and then moved, so that the process never sees the range without its
/// content. False: the process is out of mappings, and nothing has changed.
bool replace_with_private_memory(void* at, const void* content, size_t bytes);

}  // namespace dxgkit
