// The kernel's own functions, by number.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dxgkit::wire {

/// Calls a function of the table. `arguments`: its structure, or its parameters side by side, 8
/// bytes each. STATUS_NOT_SUPPORTED for one that is local.
int64_t invoke(uint32_t function, std::byte* arguments);

}  // namespace dxgkit::wire
