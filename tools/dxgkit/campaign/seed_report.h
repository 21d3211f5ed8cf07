// A run of `dxgkit verify` or `dxgkit fuzz` as the result of a seed.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "sim/seeds.h"

namespace dxgkit::tool::campaign {

/// The result of one run, from its exit code and its report as JSON. The hash is the report's,
/// which is the same in every run of the seed. The error is a sentence: the command did not do its
/// work.
std::expected<sim::SeedResult, std::string> verified_seed(uint64_t seed, int code,
                                                          std::string_view json);

struct FuzzedSeed {
  sim::SeedResult result;
  std::vector<std::string> files;  // names of the reproducers that the run left
};
/// The same of `fuzz` with one seed. The hash is that of its problems: how small their reproducers
/// become depends on the machine.
std::expected<FuzzedSeed, std::string> fuzzed_seed(uint64_t seed, int code, std::string_view json);

}  // namespace dxgkit::tool::campaign
