// A call for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dxgkit::wire {

/// "D3DKMTRender(hContext=0x40000040, AllocationCount=2, ...) = 0x0". `arguments`: as in a message,
/// without pointers; lists are shown by their length.
std::string call_text(uint32_t function, const std::byte* arguments, int64_t result);

}  // namespace dxgkit::wire
