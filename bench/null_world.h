// A client beside the null GPU.
#pragma once

#include <cstring>

#include "base/check.h"
#include "bench/client.h"
#include "bench/null_gpu.h"

namespace dxgkit::bench {

inline constexpr uint64_t kSystemBytes = uint64_t{256} << 20;

/// An adapter whose engine does nothing.
struct NullWorld {
  explicit NullWorld(runtime::Runtime& os, uint64_t system_bytes = kSystemBytes)
      : gpu(os), world(os, system_bytes) {
    world.start({.name = "null", .path = {}, .entry = NullGpu::driver_entry()}, gpu.function());
  }
  ~NullWorld() { world.stop(); }

  NullGpu gpu;
  World world;
};

/// One context; a submission is one command that names no allocation.
struct RoundTrips : NullWorld {
  explicit RoundTrips(runtime::Runtime& os, uint64_t system_bytes = kSystemBytes)
      : NullWorld(os, system_bytes) {
    if (world.error().empty()) begin();
  }
  /// Makes context and fence of the present client.
  void begin() {
    if (world.create_context(0, &context)) fence = world.create_fence();
  }
  void one() {
    // Written anew for each submission, as a client would.
    const uint64_t commands[] = {1, 2, 3, value};
    std::memcpy(context.commands, commands, sizeof(commands));
    DXGKIT_CHECK(world.render(context, sizeof(commands), 0));
    DXGKIT_CHECK(world.signal(context, fence, ++value));
    DXGKIT_CHECK(world.wait(fence, value));
  }

  World::Context context;
  D3DKMT_HANDLE fence = 0;
  uint64_t value = 0;
};

}  // namespace dxgkit::bench
