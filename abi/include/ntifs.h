/* ntifs.h: everything ntddk.h has; nothing of the file-system interface is here. */
#ifndef DXGKIT_ABI_NTIFS_H_
#define DXGKIT_ABI_NTIFS_H_

#include <ntddk.h>

#endif  /* DXGKIT_ABI_NTIFS_H_ */
