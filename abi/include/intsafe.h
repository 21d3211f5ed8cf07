/* intsafe.h: the checked arithmetic of ntintsafe.h is the one a kernel has. */
#ifndef DXGKIT_ABI_INTSAFE_H_
#define DXGKIT_ABI_INTSAFE_H_

#include <ntintsafe.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif



#endif  /* DXGKIT_ABI_INTSAFE_H_ */
