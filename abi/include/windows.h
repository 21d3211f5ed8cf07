/* windows.h: the base types; drivers have no Windows functions to call. */
#ifndef DXGKIT_ABI_WINDOWS_H_
#define DXGKIT_ABI_WINDOWS_H_

#include <windef.h>
#include <wingdi.h>
#include <winerror.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif



#endif  /* DXGKIT_ABI_WINDOWS_H_ */
