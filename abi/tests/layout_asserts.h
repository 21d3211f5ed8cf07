/* What the compiler can check: sizes, alignments, offsets, values. C and C++, any target. */
#ifndef DXGKIT_ABI_LAYOUT_ASSERTS_H_
#define DXGKIT_ABI_LAYOUT_ASSERTS_H_

#if defined(_WIN32)
#define INITGUID
#endif
#ifdef LAYOUT_UMD
#include <d3dumddi.h>
#else
#include <dispmprt.h>
#endif

#define OFFSET_OF(type, member) __builtin_offsetof(type, member)
#define SIZE_OF(type, member) sizeof(((type*)0)->member)
#define ALIGN_OF(type) __alignof__(type)
#ifdef __cplusplus
#define CHECK(condition, label) static_assert(condition, label)
#else
#define CHECK(condition, label) _Static_assert(condition, label)
#endif

#include "asserts.inc"

#ifdef __cplusplus
template <class A, class B>
struct Same {
  static constexpr bool value = false;
};
template <class A>
struct Same<A, A> {
  static constexpr bool value = true;
};

#if defined(_WIN32)
template <class F>
struct Parameters;
template <class R, class... A>
struct Parameters<R (*)(A...)> {
  static constexpr int value = sizeof...(A);
};
#define PARAMETERS(type, count, label) CHECK(Parameters<type>::value == (count), label)
#else
/* A Win64 function type is its own kind natively, and gcc cannot match it with a template. */
#define PARAMETERS(type, count, label) CHECK(sizeof(type) == sizeof(void*), label)
#endif

#include "cxx_asserts.inc"
#endif

#endif /* DXGKIT_ABI_LAYOUT_ASSERTS_H_ */
