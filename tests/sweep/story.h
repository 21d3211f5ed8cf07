// The stories of the sweep. A story never asserts what a call answers: it goes on with what came
// out.
#pragma once

#include <span>
#include <string_view>

#include "tests/sweep/scene.h"

namespace dxgkit::sweep {

struct Story {
  std::string_view name;
  void (*tell)(Scene& scene);
};

/// All of them, in the order of the kept file.
std::span<const Story> stories();

// patching.cpp
void tell_patching(Scene& scene);

}  // namespace dxgkit::sweep
