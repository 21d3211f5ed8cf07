/* ntddk.h: everything wdm.h has, under the name display driver sources include. */
#ifndef DXGKIT_ABI_NTDDK_H_
#define DXGKIT_ABI_NTDDK_H_

#include <wdm.h>

#endif  /* DXGKIT_ABI_NTDDK_H_ */
