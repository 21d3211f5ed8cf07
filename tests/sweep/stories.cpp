#include <array>

#include "tests/sweep/story.h"

namespace dxgkit::sweep {

std::span<const Story> stories() {
  static constexpr std::array kStories = {
      Story{"life", tell_life},
      Story{"patching", tell_patching},
      Story{"sharing", tell_sharing},
      Story{"residency", tell_residency},
      Story{"host_aperture", tell_host_aperture},
      Story{"swizzling", tell_swizzling},
      Story{"synchronization", tell_synchronization},
  };
  return kStories;
}

}  // namespace dxgkit::sweep
