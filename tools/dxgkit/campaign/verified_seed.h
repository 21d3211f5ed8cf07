// A run of `dxgkit verify` as the result of a seed.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "sim/seeds.h"

namespace dxgkit::tool::campaign {

/// The result of one run, from its exit code and its report as JSON. The hash is the report's,
/// which is the same in every run of the seed. The error is a sentence: the command did not do its
/// work.
std::expected<sim::SeedResult, std::string> verified_seed(uint64_t seed, int code,
                                                          std::string_view json);

}  // namespace dxgkit::tool::campaign
