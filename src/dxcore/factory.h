// The objects behind DXCoreCreateAdapterFactory: a factory, lists of adapters, and adapters.
#pragma once

#include "dxcore/dxcore_interface.h"

namespace dxgkit::dxcore {

/// The one factory of the process, which nobody needs to release.
IDXCoreAdapterFactory& factory();

}  // namespace dxgkit::dxcore
