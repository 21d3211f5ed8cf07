// What a changed source asks: does this change happen in this run? Included into it by the
// compiler's command line. Mutants ask by number, planted bugs by name.
#pragma once
#include <type_traits>

namespace dxgkit_mutation {

extern int chosen;
extern const char* chosen_bug;   // null: none
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

inline bool planted(const char* bug) noexcept {
  return chosen_bug != nullptr && __builtin_strcmp(chosen_bug, bug) == 0;
}

}  // namespace dxgkit_mutation
