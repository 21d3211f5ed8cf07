// Calls of a program whose kernel is in another process.
#pragma once

#include <cstdint>

namespace dxgkit::wire {

/// Makes call number `function` of the table (arguments.h) on the calling thread's connection.
/// `arguments`: the structure as the caller has it, or its parameters side by side.
int64_t remote_call(uint32_t function, void* arguments);

}  // namespace dxgkit::wire
