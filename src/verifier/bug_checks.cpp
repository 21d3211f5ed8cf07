#include "verifier/bug_checks.h"

#include <algorithm>

#include "verifier/bug_check_table.h"

namespace dxgkit::verifier {

std::span<const BugCheck> all_bug_checks() { return {table::kBugChecks, table::kBugCheckCount}; }

const BugCheck* find_bug_check(uint64_t code) {
  const auto found = std::ranges::find(all_bug_checks(), code, &BugCheck::code);
  return found == all_bug_checks().end() ? nullptr : &*found;
}

const BugCheckValue* find_value(const BugCheck& check, uint64_t value) {
  const auto found = std::ranges::find(check.values, value, &BugCheckValue::value);
  return found == check.values.end() ? nullptr : &*found;
}

}  // namespace dxgkit::verifier
