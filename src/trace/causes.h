// The reasons in events that say why something happened (kWhy...). Append only, because files hold
// the numbers.
#pragma once

#include <cstdint>

namespace dxgkit::trace {

/// Of kWhyEvicted.
enum class EvictionReason : uint64_t {
  kRoom = 1,       // another allocation needs the place
  kPacked = 2,     // the segment is packed anew, because that is the only way to make room
  kMoved = 3,      // the plan that needs the allocation itself puts it elsewhere
  kCompacted = 4,  // it moves inside the segment, to join free room
  kAsked = 5,      // no device lists it any more, or the kernel asked for this allocation
  kEmptied = 6,    // all of the segment leaves: power, a segment that closes
  kReset = 7,      // the adapter was reset
};

/// Of kWhyBusy: why a packet cannot be prepared yet.
enum class BusyReason : uint64_t {
  kNoRoom = 1,      // an allocation of it has no place as long as packets in flight hold theirs
  kList = 2,        // what its device made resident has no place yet, or a paging request waits
  kPageTables = 3,  // its page tables were evicted and have no place
};

/// Of kWhyPreempted.
enum class PreemptionReason : uint64_t {
  kOutranked = 1,  // a ready packet has a higher priority than the work on the node
  kQuantum = 2,    // the context has used its quantum, and an equal waits
  kAsked = 3,      // the kernel wants the node idle: no progress for TdrDelay, a reset, an exercise
};

/// Of kWhyRefused.
enum class RefusalReason : uint64_t {
  kNull = 1,            // the pointer to the arguments is null
  kUnreadable = 2,      // the arguments, cannot be read or written
  kHandle = 3,          // no live object of the process has the handle
  kHandleType = 4,      // the handle is of an object of another type
  kNoProcess = 5,       // the thread belongs to no process of the kernel
  kProcessEnds = 6,     // the process has begun to end
  kAdapterStopped = 7,  // the adapter is stopped or failed
  kDeviceLost = 8,      // the device is lost
};

}  // namespace dxgkit::trace
