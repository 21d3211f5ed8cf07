/* stdlib.h: the part of the kernel's C runtime a driver can import. The host's own header elsewhere. */
#ifndef DXGKIT_ABI_STDLIB_H_
#define DXGKIT_ABI_STDLIB_H_

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#if !defined(_WIN32)
#include_next <stdlib.h>
#else

#include <dxgkit/nt_crt.h>

#ifndef __cplusplus
#ifndef max
#define max(a, b) (((a) > (b)) ? (a) : (b))
#endif
#ifndef min
#define min(a, b) (((a) < (b)) ? (a) : (b))
#endif
#endif

#endif  /* _WIN32 */
#endif  /* DXGKIT_ABI_STDLIB_H_ */
