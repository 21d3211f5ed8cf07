// Steps that look at the screen, for machines of another step's own.
#pragma once

#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/step.h"

namespace dxgkit::tool::verify {

/// Each source is hidden and shown again.
Outcome visibility(Bench& bench);
/// A client flips and draws on its screen.
Outcome flips(Bench& bench);

}  // namespace dxgkit::tool::verify
