/* d3dumddi.h: see d3d10umddi.h. */
#ifndef DXGKIT_ABI_D3DUMDDI_H_
#define DXGKIT_ABI_D3DUMDDI_H_

#include <d3d10umddi.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif



#endif  /* DXGKIT_ABI_D3DUMDDI_H_ */
