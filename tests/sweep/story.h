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

// life.cpp
void tell_life(Scene& scene);
// patching.cpp
void tell_patching(Scene& scene);
void tell_sharing(Scene& scene);
// memory.cpp
void tell_residency(Scene& scene);
void tell_host_aperture(Scene& scene);
void tell_swizzling(Scene& scene);
// synchronization.cpp
void tell_synchronization(Scene& scene);
// addresses.cpp
void tell_addresses(Scene& scene);
void tell_addresses_by_cpu(Scene& scene);
void tell_tables(Scene& scene);
// queues.cpp
void tell_hw_queues(Scene& scene);
void tell_native_fences(Scene& scene);
// displays.cpp
void tell_flips(Scene& scene);
void tell_screen_power(Scene& scene);
void tell_display_only(Scene& scene);
// power.cpp
void tell_sleep(Scene& scene);
void tell_components(Scene& scene);
// timeouts.cpp
void tell_engine_resets(Scene& scene);
void tell_adapter_resets(Scene& scene);

}  // namespace dxgkit::sweep
