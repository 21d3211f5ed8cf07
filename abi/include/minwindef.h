/* minwindef.h: nothing that ntdef.h and windef.h do not have. */
#ifndef DXGKIT_ABI_MINWINDEF_H_
#define DXGKIT_ABI_MINWINDEF_H_

#include <windef.h>

#endif  /* DXGKIT_ABI_MINWINDEF_H_ */
