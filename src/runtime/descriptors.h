// Waiting for files of the operating system: sockets, event counters, logs.
#pragma once

#include <cstddef>
#include <span>

namespace dxgkit::runtime {

/// Blocks until one of the descriptors can be read, has failed or was closed by its other side, and
/// returns the index of the first such one. To be woken for another reason, put an eventfd first.
/// Negative descriptors are passed over; all negative, or none, is our bug and aborts. Only in os
/// mode, where a thread may block outside the runtime: a simulation aborts.
size_t wait_for_descriptor(std::span<const int> descriptors);

}  // namespace dxgkit::runtime
