// Memory at addresses that do not depend on the process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dxgkit {

/// What a mapping is for. Each kind has addresses of its own, so that one does not move another.
enum class FixedRange { kImages, kStacks, kMemory, kLists };

/// mmap for memory whose address a driver sees. It lies at the lowest free address of a part of the
/// address space that the system leaves alone, with an inaccessible page behind it. So a process
/// that maps in the same order has the same addresses as any other, whatever the system randomizes:
/// a driver that prints a pointer prints the same in each run of a seed. If there is no room, the
/// system chooses the address. `flags`, `fd`, `offset` and MAP_FAILED as for mmap; `bytes` > 0. Any
/// thread; never blocks, and is no scheduling point. Not in a signal handler.
void* map_fixed(FixedRange range, uint64_t bytes, int protection, int flags, int fd = -1,
                uint64_t offset = 0);
/// munmap for all of what one `map_fixed` has mapped.
void unmap_fixed(void* address, uint64_t bytes);

/// What derives from it and is made by `new` lies in pages of its own of map_fixed. For objects
/// that a driver sees by address and of which there are few: each takes two system calls.
struct InFixedMemory {
  static void* operator new(size_t bytes);
  static void operator delete(void* object, size_t bytes);
};

}  // namespace dxgkit
