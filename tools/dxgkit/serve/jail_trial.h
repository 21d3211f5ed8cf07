// What a process in the jail may try, and what comes of it: for tests and `--try-jail`.
#pragma once

#include <string>
#include <vector>

namespace dxgkit::serve {

struct Trial {
  const char* name;
  long result;  // of the system call
  int error;    // errno
};

/// Tries what the jail is to prevent. Whatever succeeds is undone as far as it can be.
std::vector<Trial> try_forbidden();
/// A line for each: "openat: Operation not permitted".
std::string trial_text(const std::vector<Trial>& trials);

}  // namespace dxgkit::serve
