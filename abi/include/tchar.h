/* tchar.h: the part of the kernel's C runtime a driver can import. The host's own header elsewhere. */
#ifndef DXGKIT_ABI_TCHAR_H_
#define DXGKIT_ABI_TCHAR_H_

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#if defined(_WIN32)

#include <dxgkit/nt_crt.h>

#if defined(UNICODE) || defined(_UNICODE)
#define _T(text) L##text
#define _TEXT(text) L##text
#else
#define _T(text) text
#define _TEXT(text) text
#endif

#endif  /* _WIN32 */
#endif  /* DXGKIT_ABI_TCHAR_H_ */
