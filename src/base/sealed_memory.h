// Memory objects that other processes may map: nobody can make them shorter, so that no access to a
// mapping of them ever fails.
#pragma once

#include <cstdint>

namespace dxgkit {

/// A memory object (memfd) of `bytes` zeros, > 0. Neither this nor another process can change its
/// size. Closed on exec. Returns -1 if the system refuses.
int create_sealed_memory(const char* name, uint64_t bytes);

/// True if the descriptor is a memory object, without huge pages, that holds `bytes` bytes from
/// `offset` on and cannot be made shorter any more: either it is sealed already, or this call seals
/// it. Only then a mapping is safe from whoever sent the descriptor.
bool seal_memory(int fd, uint64_t offset, uint64_t bytes);

}  // namespace dxgkit
