// One run of `dxgkit fuzz`, small enough to be written down: the reproducer.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::tool::fuzz {

/// The faults of softgpu during the run; no effect on other devices.
struct DeviceFaults {
  // Per million completions.
  uint32_t lost_interrupts = 0, double_interrupts = 0, late_interrupts = 0;
  /// The engine of the node stops dead at its n-th entry, from 1; 0: never.
  std::array<uint32_t, 2> hang_at = {};
  bool operator==(const DeviceFaults&) const = default;
};

/// The seed and the step's number decide everything in a step, so a step that is left out does not
/// change the others.
struct FuzzPlan {
  uint64_t seed = 1;
  std::vector<uint32_t> steps;  // numbers, rising
  DeviceFaults faults;
  bool operator==(const FuzzPlan&) const = default;

  /// The plan of a seed.
  static FuzzPlan draw(uint64_t seed, uint32_t step_count);
};
inline constexpr uint32_t kStepsMost = 100'000;

/// The plan as lines of words; `#` begins a comment.
std::string to_text(const FuzzPlan& plan);
/// Reads any text. The error names the line.
std::expected<FuzzPlan, std::string> parse_fuzz_plan(std::string_view text);

struct Minimised {
  FuzzPlan plan;
  uint32_t tries = 0;
};
/// The fewest steps and faults for which `still` holds, as far as leaving out one after the other
/// finds them. `still` holds for `plan`. At most `tries_most` tries.
Minimised minimise(const FuzzPlan& plan, const std::function<bool(const FuzzPlan&)>& still,
                   uint32_t tries_most);

}  // namespace dxgkit::tool::fuzz
