// What is seen when a rule is broken, in words: `observed` of the rulebook is a short code.
#pragma once

#include <string>
#include <vector>

#include "verifier/rule_catalogue.h"

namespace dxgkit::verifier {

/// Sentences, at least one. They tell the words of `observed` (rules/README.md) and everything that
/// stands beside them, and bug checks with number, name and parameters.
std::vector<std::string> consequences_of(const Rule& rule);

}  // namespace dxgkit::verifier
