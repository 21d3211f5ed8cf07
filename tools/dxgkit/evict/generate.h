// Traces made from a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/dxgkit/evict/trace.h"

namespace dxgkit::tool::evict {

/// A family of traces that the tool can make.
struct Family {
  std::string_view name;
  std::string_view what;
  Trace (*make)(uint64_t seed);
  bool standard;  // one of the three for which figures are published
};

/// frame, training and zipf first, then families that the policy was not tuned on.
const std::vector<Family>& families();

/// The trace of a family and a seed, always the same; empty for a name that is not in families().
std::optional<Trace> generate(std::string_view family, uint64_t seed);

/// A trace of `count` allocations in which nearly every reference needs a victim. It measures the
/// cost of a decision.
Trace churn(uint32_t count, uint64_t references, uint64_t seed);

}  // namespace dxgkit::tool::evict
