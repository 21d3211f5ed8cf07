// Hostile processes beside the clients: any D3DKMT calls, in any order, with arguments that are
// nearly right. They may cost memory, and nothing else that a client could notice.
#pragma once

#include <cstdint>

#include "sim/random.h"
#include "sim/world.h"

namespace dxgkit::sim {

/// One fiber, which counts as a client of the world: it rests while others pause, and it arrives
/// when no more faults are injected.
class Strangers {
 public:
  Strangers(World& world, uint64_t seed) : world_(world), random_(seed) {}
  void run();

 private:
  World& world_;
  Random random_;
};

}  // namespace dxgkit::sim
