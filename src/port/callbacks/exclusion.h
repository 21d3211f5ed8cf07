// DxgkCbExcludeAdapterAccess: who may ask, and how the routine is called.
#pragma once

#include <dispmprt.h>

#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// IRQL-11. Who may ask is judged here; AdapterHost::exclude_access makes it so.
Status exclude_access(PortCore& core, ULONG attributes, DXGKDDI_PROTECTED_CALLBACK routine,
                      void* routine_context);

}  // namespace dxgkit::port
