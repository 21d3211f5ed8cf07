/* specstrings_strict.h: a name driver sources use for the annotations of sal.h. */
#ifndef DXGKIT_ABI_SPECSTRINGS_STRICT_H_
#define DXGKIT_ABI_SPECSTRINGS_STRICT_H_

#include <sal.h>

#endif  /* DXGKIT_ABI_SPECSTRINGS_STRICT_H_ */
