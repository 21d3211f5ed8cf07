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
      Story{"addresses", tell_addresses},
      Story{"addresses_by_cpu", tell_addresses_by_cpu},
      // Not tell_tables: it stops in a CHECK of src/dxgk/va/page_table_memory.cpp when
      // DxgkDdiBuildPagingBuffer, call 669, answers STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER.
      Story{"hw_queues", tell_hw_queues},
      Story{"native_fences", tell_native_fences},
      Story{"flips", tell_flips},
      Story{"screen_power", tell_screen_power},
      Story{"display_only", tell_display_only},
      Story{"sleep", tell_sleep},
      Story{"components", tell_components},
      Story{"engine_resets", tell_engine_resets},
      Story{"adapter_resets", tell_adapter_resets},
  };
  return kStories;
}

}  // namespace dxgkit::sweep
