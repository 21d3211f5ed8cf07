// What a mutated source asks: is this mutant the one that runs? Included into it by the compiler's
// command line.
#pragma once
#include <type_traits>

namespace dxgkit_mutation {

extern int chosen;
extern unsigned char reached[];  // one a mutant; written by any thread, only ever with 1

inline bool is_chosen(int id) noexcept {
  reached[id] = 1;
  return chosen == id;
}

// A mutant of a constant expression never runs.
constexpr bool on(int id) noexcept {
  if (__builtin_is_constant_evaluated()) return false;
  return is_chosen(id);
}

}  // namespace dxgkit_mutation
