// What driver code finds in stack memory that it has not written yet.
#pragma once

#include <cstddef>

namespace dxgkit::nt {

class Kernel;

/// Fills the upper part of each driver stack with this byte when driver code is entered on it. A
/// local variable that the driver uses before it wrote it then has an odd value at each call, where
/// it would mostly have what the call before left. 0, the default: no stack is written.
void set_stack_fill(Kernel& kernel, std::byte fill);

}  // namespace dxgkit::nt
