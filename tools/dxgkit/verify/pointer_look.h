// The pointer behind something that may have taken it from the device.
#pragma once

#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

/// Gives each shown source a pointer in the middle of its screen. False: the driver takes none.
Answer<bool> show_pointers(Bench& bench);
/// Gives shape and place once more, as a kernel does behind a sleep or a reset, and compares. What
/// is wrong is a finding, too. `behind`: "a sleep". The pointers are hidden in the end.
Answer<void> show_pointers_again(Bench& bench, const char* behind);

}  // namespace dxgkit::tool::verify
