/* suppress.h: nothing that ntdef.h and windef.h do not have. */
#ifndef DXGKIT_ABI_SUPPRESS_H_
#define DXGKIT_ABI_SUPPRESS_H_

#include <ntdef.h>

#endif  /* DXGKIT_ABI_SUPPRESS_H_ */
