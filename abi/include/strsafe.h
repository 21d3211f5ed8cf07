/* strsafe.h: the string functions of ntstrsafe.h are the ones a kernel has. */
#ifndef DXGKIT_ABI_STRSAFE_H_
#define DXGKIT_ABI_STRSAFE_H_

#include <ntstrsafe.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif



#endif  /* DXGKIT_ABI_STRSAFE_H_ */
