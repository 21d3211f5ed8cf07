// The driver of simulated worlds.
#pragma once

#include <expected>
#include <string>

#include "sim/world.h"

namespace dxgkit::tool {

struct DriverOfWorlds {
  std::string path;  // empty: the built-in ones
  sim::DriverFace face = sim::DriverFace::kEither;
};
/// `driver` is empty or "softgpu" for the built-in drivers, or the path of a driver for softgpu. A
/// child process loads and starts that driver once, to find the interface it declares, and whether
/// the clients of worlds have work for it. The error is one sentence.
std::expected<DriverOfWorlds, std::string> driver_of(const std::string& driver);

}  // namespace dxgkit::tool
