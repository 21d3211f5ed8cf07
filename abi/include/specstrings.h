/* specstrings.h: a name driver sources use for the annotations of sal.h. */
#ifndef DXGKIT_ABI_SPECSTRINGS_H_
#define DXGKIT_ABI_SPECSTRINGS_H_

#include <sal.h>

#endif  /* DXGKIT_ABI_SPECSTRINGS_H_ */
