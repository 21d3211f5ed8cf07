// Whether a driver speaks the private language of softgpu's user mode.
#pragma once

#include "dxgk/system.h"

namespace dxgkit::tool {

/// The answer of an adapter to the private language of the main job's client.
struct SoftGpuTraits {
  bool speaks = false;         // it understands the language
  bool gpu_addresses = false;  // commands hold GPU virtual addresses
};
/// Inside the runtime of `system`.
SoftGpuTraits softgpu_traits(dxgk::System& system, dxgk::Luid adapter);

}  // namespace dxgkit::tool
