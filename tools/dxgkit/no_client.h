// What `dxgkit run` does with a driver whose user mode nobody here knows.
#pragma once

#include <optional>
#include <string>

#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/picture.h"

namespace dxgkit::tool {

/// What an adapter says in the private language of the main job's client.
struct SoftGpuTraits {
  bool speaks = false;         // it does
  bool gpu_addresses = false;  // commands hold GPU virtual addresses
};
SoftGpuTraits softgpu_traits(dxgk::System& system, dxgk::Luid adapter);

struct NoClientOutcome {
  std::string error;              // empty, or what went wrong, a sentence without a full stop
  std::string text;               // what was done
  std::optional<Picture> screen;  // of the first source that shows something
};

/// Lets the adapter run for a while; if it is display-only and shows something, presents a drawn
/// picture there and compares. Inside the runtime of `system`.
NoClientOutcome run_without_client(runtime::Runtime& runtime, dxgk::System& system,
                                   dxgk::Luid adapter);

}  // namespace dxgkit::tool
