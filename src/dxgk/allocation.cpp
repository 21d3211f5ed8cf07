#include "dxgk/allocation.h"

#include "dxgk/device.h"
#include "dxgk/sharing.h"

namespace dxgkit::dxgk {

OpenedAllocation::OpenedAllocation() : Object(kType) {}
OpenedAllocation::~OpenedAllocation() = default;
Resource::Resource() : Object(kType) {}
Resource::~Resource() = default;

}  // namespace dxgkit::dxgk
