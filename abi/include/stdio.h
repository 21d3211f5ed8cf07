/* stdio.h: the part of the kernel's C runtime a driver can import. The host's own header elsewhere. */
#ifndef DXGKIT_ABI_STDIO_H_
#define DXGKIT_ABI_STDIO_H_

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#if !defined(_WIN32)
#include_next <stdio.h>
#else

#include <dxgkit/nt_crt.h>

#endif  /* _WIN32 */
#endif  /* DXGKIT_ABI_STDIO_H_ */
