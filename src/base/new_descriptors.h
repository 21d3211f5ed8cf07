// New descriptors of the system. A process in a jail may make none: it asks its supplier.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace dxgkit {

enum class NewDescriptors : uint32_t {
  kMemory = 1,      // sealed memory: create_sealed_memory
  kPipe,            // two: a pipe that does not block, for reading and for writing
  kSocketPair,      // two: stream sockets of the Unix domain that do not block
  kPoller,          // of epoll
  kEvent,           // an event descriptor
  kSealableMemory,  // memory of a fixed size that takes more seals
};

/// Two for kPipe and kSocketPair, else one.
constexpr int count_of(NewDescriptors kind) {
  return kind == NewDescriptors::kPipe || kind == NewDescriptors::kSocketPair ? 2 : 1;
}

/// Makes descriptors that are closed on exec, by system calls. False: errno, and nothing was made.
/// @param bytes  of memory, > 0
/// @param name   of memory, for people who look at the process
bool make_descriptors_here(NewDescriptors kind, uint64_t bytes, int* made,
                           const char* name = "dxgkit");

/// The same, by the supplier if there is one. Any thread; with a supplier it waits for an answer.
bool make_descriptors(NewDescriptors kind, uint64_t bytes, int* made, const char* name = "dxgkit");

/// From now on make_descriptors calls `supplier`, which answers as make_descriptors_here does.
/// Null: by system calls again.
using DescriptorSupplier = bool (*)(NewDescriptors kind, uint64_t bytes, int* made);
void set_descriptor_supplier(DescriptorSupplier supplier);

/// fstat. The C library's own goes by a system call that also takes paths, which a jail refuses.
bool descriptor_status(int fd, struct stat* status);

}  // namespace dxgkit
