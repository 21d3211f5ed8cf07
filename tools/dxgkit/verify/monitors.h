// What a driver says of monitors that the device knows.
#pragma once

#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

/// Compares descriptors and modes with the device's monitors, if it knows them. A difference is a
/// finding (CAPS-18, DISP-41), and the error. The adapter runs and has outputs.
Answer<void> check_monitors(Bench& bench);

}  // namespace dxgkit::tool::verify
