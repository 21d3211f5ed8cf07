// One run of `dxgkit fuzz`, small enough to be written down: the reproducer.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
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

/// The options of a run beside its plan. With the driver they decide all of it.
struct Surroundings {
  std::string device;                   // as --device takes it; empty: the default
  std::string client;                   // the path of the plug-in; empty: none
  std::optional<std::string> registry;  // the text of the registry file
  bool special_pool = false;
  uint64_t memory_bytes = 0, vram_bytes = 0;  // of the machine and of its device; 0: the default
  bool operator==(const Surroundings&) const = default;
};

/// A reproducer's file.
struct Reproducer {
  FuzzPlan plan;
  Surroundings around;
  bool operator==(const Reproducer&) const = default;
};

/// As lines of words; `#` begins a comment, but not in device, client and registry: those are the
/// rest of their line.
std::string to_text(const Reproducer& reproducer);
/// Reads any text, of version 1 too, which has a plan and no surroundings. The error names the
/// line.
std::expected<Reproducer, std::string> parse_reproducer(std::string_view text);

struct Minimised {
  FuzzPlan plan;
  uint32_t tries = 0;
};
/// The fewest steps and faults for which `still` holds, as far as leaving out one after the other
/// finds them. `still` holds for `plan`. At most `tries_most` tries.
Minimised minimise(const FuzzPlan& plan, const std::function<bool(const FuzzPlan&)>& still,
                   uint32_t tries_most);

}  // namespace dxgkit::tool::fuzz
