// Mapped memory of hardware, which may leave.
#pragma once

#include <cstdint>

#include "bus/function.h"

namespace dxgkit::bus {

/// True for memory of hardware: behind it is a device file, and no memory object.
bool is_hardware(const MemoryWindow& memory);

/// Puts ones in the place of mapped hardware that has left. Its pages would fault from now on.
void show_ones(void* mapped, uint64_t bytes);

}  // namespace dxgkit::bus
