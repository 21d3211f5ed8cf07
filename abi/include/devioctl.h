/* devioctl.h: control codes: CTL_CODE, the transfer methods and device types. */
#ifndef DXGKIT_ABI_DEVIOCTL_H_
#define DXGKIT_ABI_DEVIOCTL_H_

#include <wdm.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#define METHOD_DIRECT_TO_HARDWARE METHOD_IN_DIRECT
#define METHOD_DIRECT_FROM_HARDWARE METHOD_OUT_DIRECT
#define FILE_SPECIAL_ACCESS FILE_ANY_ACCESS
#define DEVICE_TYPE_FROM_CTL_CODE(code) (((ULONG)((code) & 0xFFFF0000U)) >> 16)
#define METHOD_FROM_CTL_CODE(code) ((ULONG)((code) & 3))
#ifndef DEVICE_TYPE
#define DEVICE_TYPE ULONG
#endif

#endif  /* DXGKIT_ABI_DEVIOCTL_H_ */
