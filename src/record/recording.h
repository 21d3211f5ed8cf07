// What a recording holds: the calls of one program, in the order in which they returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dxgkit::record {

/// A descriptor that the program gave to the kernel, or got from it.
struct Descriptor {
  uint64_t number = 0;  // in the program
  uint64_t inode = 0;
  uint32_t is_event = 0;  // an eventfd; these have no inode of their own
};

/// Bytes of a locked allocation. The first and the last byte changed.
struct Bytes {
  uint32_t allocation = 0;
  uint32_t seen = 0;  // 0: the program wrote them before the call. 1: it saw them after the call
  uint64_t offset = 0;
  std::vector<std::byte> bytes;  // within a page
};

/// A fence that had reached a value when the program began the call.
struct Reached {
  uint32_t owner = 0;  // the handle of the fence, or of the queue that it belongs to
  uint32_t reserved = 0;
  uint64_t value = 0;
};

struct Call {
  uint32_t function = 0;  // of the table of arguments
  uint32_t thread = 0;
  /// Moments in one order of all calls: a call whose `end` is less than another's `begin` had
  /// returned before that one was made.
  uint64_t begin = 0, end = 0;
  int64_t time_ns = 0;  // of the begin, by the clock of the kernel
  int64_t duration_ns = 0;
  int64_t result = 0;
  std::vector<std::byte> request, reply;  // messages of src/wire
  std::vector<Descriptor> given, made;
  std::vector<Reached> fences;
  std::vector<Bytes> memory;
  /// Not empty: the call was made, but why it has no messages.
  std::string unrecorded;
};

struct Process {
  uint64_t id = 0;
  std::string name;
};

}  // namespace dxgkit::record
