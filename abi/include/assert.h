/* assert.h: the part of the kernel's C runtime a driver can import. The host's own header elsewhere. */
#ifndef DXGKIT_ABI_ASSERT_H_
#define DXGKIT_ABI_ASSERT_H_

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#if !defined(_WIN32)
#include_next <assert.h>
#else

#undef assert
#ifdef NDEBUG
#define assert(e) ((void)0)
#else
#define assert(e) ((e) ? (void)0 : __debugbreak())
#endif
#ifndef __cplusplus
#undef static_assert
#define static_assert _Static_assert
#endif

#endif  /* _WIN32 */
#endif  /* DXGKIT_ABI_ASSERT_H_ */
