// What a changed driver asks: does this change happen in this run? Included by the compiler's
// command line into sources in C and C++, before any header of theirs.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

extern int dxgkit_mutant_chosen, dxgkit_mutant_also;  // 0: none
extern int dxgkit_mutant_telling;
void dxgkit_mutant_tell(int id);

#ifdef __cplusplus
}
// A mutant of a constant expression never runs.
constexpr bool dxgkit_mutant(int id) noexcept {
  if (__builtin_is_constant_evaluated()) return false;
  if (dxgkit_mutant_telling != 0) dxgkit_mutant_tell(id);
  return dxgkit_mutant_chosen == id || dxgkit_mutant_also == id;
}
#else
static inline int dxgkit_mutant(int id) {
  if (dxgkit_mutant_telling != 0) dxgkit_mutant_tell(id);
  return dxgkit_mutant_chosen == id || dxgkit_mutant_also == id;
}
#endif
