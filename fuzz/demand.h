// How a target says that a promise is broken.
#pragma once

#include <cstdlib>

namespace dxgkit::fuzz {

/// Ends the process unless it holds; libFuzzer keeps the input.
inline void demand(bool holds) {
  if (!holds) std::abort();
}

}  // namespace dxgkit::fuzz
