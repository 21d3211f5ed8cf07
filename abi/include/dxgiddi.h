/* dxgiddi.h: the records of the DXGI driver interface that kernel halves share with user halves. */
#ifndef DXGKIT_ABI_DXGIDDI_H_
#define DXGKIT_ABI_DXGIDDI_H_

#include <dxgitype.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif



#endif  /* DXGKIT_ABI_DXGIDDI_H_ */
