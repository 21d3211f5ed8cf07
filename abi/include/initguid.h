/* initguid.h: every DEFINE_GUID after this include is a definition, in this file of the driver. */
#ifndef DXGKIT_ABI_INITGUID_H_
#define DXGKIT_ABI_INITGUID_H_

#ifndef INITGUID
#define INITGUID
#endif
#include <ntdef.h>
#include <dxgkit/guid.h>

#endif  /* DXGKIT_ABI_INITGUID_H_ */
