/* dderror.h: VP_STATUS is a Windows error code. */
#ifndef DXGKIT_ABI_DDERROR_H_
#define DXGKIT_ABI_DDERROR_H_

#include <winerror.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif



#endif  /* DXGKIT_ABI_DDERROR_H_ */
