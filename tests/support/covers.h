// Ties a test to the rules it proves. `make rules` counts a rule as covered when a test that names
// it ran and passed.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace dxgkit::testing {

/// First statement of a test: the ids (as in the rulebook) whose statement this test would see
/// broken.
inline void covers(std::initializer_list<const char*> rule_ids) {
  std::string joined;
  for (const char* id : rule_ids) joined += (joined.empty() ? "" : " ") + std::string(id);
  ::testing::Test::RecordProperty("rules", joined);
}

}  // namespace dxgkit::testing

#define DXGKIT_COVERS(...) ::dxgkit::testing::covers({__VA_ARGS__})
