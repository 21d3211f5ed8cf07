// Power events of the machine while the clients work: sleep, and power failures.
#pragma once

#include "sim/random.h"
#include "sim/world.h"

namespace dxgkit::sim {

/// One fiber.
class Platform {
 public:
  explicit Platform(World& world) : world_(world) {}
  /// Until all events of the plan were, the adapter is lost, or end() was called.
  void run();
  void end() { ends_ = true; }

 private:
  void lose_or_sleep(Random& random);

  World& world_;
  bool ends_ = false;
};

}  // namespace dxgkit::sim
