// What a server does around the calls of each function.
#pragma once

#include <cstdint>

namespace dxgkit::wire {

struct CallTraits {
  /// What the client wrote to locked memory arrives before the call.
  bool submits = false;
  /// The client sees what others wrote to locked memory after the call.
  bool waits = false;
  /// It queues a packet, and one more for each context or queue that it broadcasts to.
  bool queues = false;
  uint16_t broadcasts = 0;  // where their number is in the structure; 0: it has none
  /// All that is left after its status is known is the scheduler's: the client need not wait for
  /// it.
  bool answers_early = false;
};

/// `function`: a number of the table (arguments.h).
const CallTraits& traits_of(uint32_t function);

}  // namespace dxgkit::wire
