/* guid.h: defining and comparing GUIDs. Included by ntdef.h and initguid.h; not by itself.
 *
 * Drivers: DEFINE_GUID is a reference, or the definition in the one file that defines INITGUID or
 * includes initguid.h. Native C++: an inline constant, so that no file has to own it.
 * No include guard around DEFINE_GUID: initguid.h turns references into definitions.
 */
#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#undef DEFINE_GUID
#if defined(DXGKIT_ABI_NATIVE) && defined(__cplusplus)
#define DEFINE_GUID(name, a, b, c, d0, d1, d2, d3, d4, d5, d6, d7) \
  inline constexpr GUID name = {a, b, c, {d0, d1, d2, d3, d4, d5, d6, d7}}
#elif defined(INITGUID)
#define DEFINE_GUID(name, a, b, c, d0, d1, d2, d3, d4, d5, d6, d7) \
  EXTERN_C const GUID DECLSPEC_SELECTANY name = {                  \
      a, b, c, {d0, d1, d2, d3, d4, d5, d6, d7}}
#else
#define DEFINE_GUID(name, a, b, c, d0, d1, d2, d3, d4, d5, d6, d7) EXTERN_C const GUID name
#endif

#ifndef DXGKIT_ABI_GUID_H_
#define DXGKIT_ABI_GUID_H_

#ifdef __cplusplus
extern "C++" {
constexpr bool operator==(const GUID& a, const GUID& b) {
  if (a.Data1 != b.Data1 || a.Data2 != b.Data2 || a.Data3 != b.Data3) return false;
  for (int i = 0; i < 8; ++i) {
    if (a.Data4[i] != b.Data4[i]) return false;
  }
  return true;
}
constexpr bool operator!=(const GUID& a, const GUID& b) { return !(a == b); }
}
#define IsEqualGUID(a, b) ((a) == (b))
#else
FORCEINLINE int IsEqualGUID(const GUID* a, const GUID* b) {
  int i;
  if (a->Data1 != b->Data1 || a->Data2 != b->Data2 || a->Data3 != b->Data3) return 0;
  for (i = 0; i < 8; ++i) {
    if (a->Data4[i] != b->Data4[i]) return 0;
  }
  return 1;
}
#endif
#define IsEqualIID(a, b) IsEqualGUID(a, b)
#define IsEqualCLSID(a, b) IsEqualGUID(a, b)
#define InlineIsEqualGUID(a, b) IsEqualGUID(a, b)

#endif  /* DXGKIT_ABI_GUID_H_ */
