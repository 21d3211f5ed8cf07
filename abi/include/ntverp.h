/* ntverp.h: the Windows release a driver is built for. */
#ifndef DXGKIT_ABI_NTVERP_H_
#define DXGKIT_ABI_NTVERP_H_

#include <ntdef.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#ifndef VER_PRODUCTBUILD
#define VER_PRODUCTBUILD 22621
#endif
#define VER_PRODUCTMAJORVERSION 10
#define VER_PRODUCTMINORVERSION 0
#define VER_PRODUCTBUILD_QFE 1
#define VER_PRODUCTVERSION_W 0x0A00

#endif  /* DXGKIT_ABI_NTVERP_H_ */
