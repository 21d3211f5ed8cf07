// `dxgkit run` with a driver whose user mode is unknown here.
#pragma once

#include <optional>
#include <string>

#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/picture.h"
#include "tools/dxgkit/softgpu_traits.h"

namespace dxgkit::tool {

struct NoClientOutcome {
  std::string error;              // empty, or the problem in a sentence without a full stop
  std::string text;               // a description of the run
  bool compared = false;          // it showed a picture, which was compared
  std::optional<Picture> screen;  // the first source that shows a picture
};

/// The line of bad input for a driver that got no work.
std::string no_work_line(const std::string& driver);

/// Lets the adapter run for a while. If it is display-only and shows a picture, presents a drawn
/// picture there and compares. Inside the runtime of `system`.
NoClientOutcome run_without_client(runtime::Runtime& runtime, dxgk::System& system,
                                   dxgk::Luid adapter);

}  // namespace dxgkit::tool
