// Which driver simulated worlds run.
#pragma once

#include <expected>
#include <string>

#include "sim/world.h"

namespace dxgkit::tool {

struct DriverOfWorlds {
  std::string path;  // empty: the built-in ones
  sim::DriverFace face = sim::DriverFace::kEither;
};
/// `driver` is empty or "softgpu" for the built-in ones, or the path of a driver for softgpu; loads
/// it once in a child process to see which interface it declares. The error is one sentence.
std::expected<DriverOfWorlds, std::string> driver_of(const std::string& driver);

}  // namespace dxgkit::tool
