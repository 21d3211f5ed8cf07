#include "base/own_mappings.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>

namespace dxgkit {

std::vector<OwnMapping> own_mappings(uintptr_t start, uintptr_t end) {
  std::vector<OwnMapping> found;
  FILE* file = std::fopen("/proc/self/maps", "re");
  if (file == nullptr) return found;
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    OwnMapping mapping;
    unsigned long long first = 0, last = 0, offset = 0, inode = 0;
    if (std::sscanf(line, "%llx-%llx %4s %llx %*s %llu", &first, &last, mapping.access, &offset,
                    &inode) == 5 &&
        first < end && last > start) {
      mapping.start = first;
      mapping.end = last;
      mapping.offset = offset;
      mapping.inode = inode;
      found.push_back(mapping);
    }
    // The line is longer than the buffer; its rest is not needed.
    while (std::strchr(line, '\n') == nullptr && std::fgets(line, sizeof line, file) != nullptr) {
    }
  }
  std::fclose(file);
  return found;
}

bool is_private_memory(uintptr_t start, uintptr_t end) {
  uintptr_t reached = start;
  for (const OwnMapping& mapping : own_mappings(start, end)) {
    if (mapping.start > reached) return false;
    if (std::strncmp(mapping.access, "rw", 2) != 0 || mapping.access[3] != 'p') return false;
    reached = mapping.end;
  }
  return reached >= end;
}

bool replace_with_private_memory(void* at, const void* content, size_t bytes) {
  void* const fresh =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return false;
  std::memcpy(fresh, content, bytes);
  if (mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED) return true;
  munmap(fresh, bytes);
  return false;
}

}  // namespace dxgkit
