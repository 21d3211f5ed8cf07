#include <array>

#include "tests/sweep/story.h"

namespace dxgkit::sweep {

std::span<const Story> stories() {
  static constexpr std::array kStories = {
      Story{"patching", tell_patching},
  };
  return kStories;
}

}  // namespace dxgkit::sweep
