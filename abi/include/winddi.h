/* winddi.h: pixel formats and pointer attributes that display miniports still name. */
#ifndef DXGKIT_ABI_WINDDI_H_
#define DXGKIT_ABI_WINDDI_H_

#include <wingdi.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#define BMF_1BPP 1
#define BMF_4BPP 2
#define BMF_8BPP 3
#define BMF_16BPP 4
#define BMF_24BPP 5
#define BMF_32BPP 6

#endif  /* DXGKIT_ABI_WINDDI_H_ */
