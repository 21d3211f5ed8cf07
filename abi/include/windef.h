/* windef.h: the few window-system types that display structures carry. */
#ifndef DXGKIT_ABI_WINDEF_H_
#define DXGKIT_ABI_WINDEF_H_

#include <ntdef.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

DXGKIT_ABI_BEGIN

typedef struct HWND__* HWND;
typedef struct HDC__* HDC;
typedef struct HINSTANCE__* HINSTANCE;
typedef HINSTANCE HMODULE;

typedef struct tagPOINT {
  LONG x;
  LONG y;
} POINT, *PPOINT;

typedef struct tagSIZE {
  LONG cx;
  LONG cy;
} SIZE, *PSIZE;

/* right and bottom are one past the last pixel. */
typedef struct tagRECT {
  LONG left;
  LONG top;
  LONG right;
  LONG bottom;
} RECT, *PRECT;
typedef const RECT* LPCRECT;

typedef struct _POINTL {
  LONG x;
  LONG y;
} POINTL, *PPOINTL;

typedef struct _RECTL {
  LONG left;
  LONG top;
  LONG right;
  LONG bottom;
} RECTL, *PRECTL;

typedef struct tagPALETTEENTRY {
  BYTE peRed;
  BYTE peGreen;
  BYTE peBlue;
  BYTE peFlags;
} PALETTEENTRY, *PPALETTEENTRY;

DXGKIT_ABI_END

#endif  /* DXGKIT_ABI_WINDEF_H_ */
