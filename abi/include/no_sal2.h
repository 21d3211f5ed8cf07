/* no_sal2.h: a name driver sources use for the annotations of sal.h. */
#ifndef DXGKIT_ABI_NO_SAL2_H_
#define DXGKIT_ABI_NO_SAL2_H_

#include <sal.h>

#endif  /* DXGKIT_ABI_NO_SAL2_H_ */
