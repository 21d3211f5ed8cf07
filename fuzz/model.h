// What the targets that drive a module beside its model share.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/support/choices.h"

namespace dxgkit::fuzz {

/// The input as decisions. A check of the model that fails from now on ends the run, and libFuzzer
/// keeps the input.
inline testing::Choices choices_from(const uint8_t* data, size_t size) {
  GTEST_FLAG_SET(break_on_failure, true);
  return testing::Choices(std::span(data, size));
}

}  // namespace dxgkit::fuzz
