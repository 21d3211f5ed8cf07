// `dxgkit explain` on paper: a rule, or a bug check, for people and for programs.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/bug_checks.h"
#include "verifier/rule_catalogue.h"

namespace dxgkit::tool {

/// The parameters of a bug check that the user has, from the first on.
using BugCheckParameters = std::vector<uint64_t>;

/// "the miniport must", "dxgkit itself should".
std::string duty_of(const verifier::Rule& rule);

std::string rule_text(const verifier::Rule& rule);
nlohmann::ordered_json rule_json(const verifier::Rule& rule);

/// @param parameters  at most four; without the first, all its values are listed.
std::string bug_check_text(const verifier::BugCheck& check, const BugCheckParameters& parameters);
nlohmann::ordered_json bug_check_json(const verifier::BugCheck& check,
                                      const BugCheckParameters& parameters);

/// At most three ids of rules or names of bug checks that are spelt much like `text`, the nearest
/// first. Case does not count.
std::vector<std::string_view> nearest_names(std::string_view text);

}  // namespace dxgkit::tool
