// DxgkCbExcludeAdapterAccess: which callers may ask, and how the routine is called.
#pragma once

#include <dispmprt.h>

#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// IRQL-11. Judges here whether the caller may ask; AdapterHost::exclude_access carries it out.
Status exclude_access(PortCore& core, ULONG attributes, DXGKDDI_PROTECTED_CALLBACK routine,
                      void* routine_context);

}  // namespace dxgkit::port
