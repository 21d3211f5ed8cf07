// The generated table behind bug_checks.h.
#pragma once

#include <cstddef>

#include "verifier/bug_checks.h"

namespace dxgkit::verifier::table {

extern const BugCheck kBugChecks[];
extern const size_t kBugCheckCount;

}  // namespace dxgkit::verifier::table
