// The running step on a terminal.
#pragma once

#include <string>

namespace dxgkit::tool::verify {

/// Shows the step on stderr until wipe_running(), if stderr is a terminal.
void show_running(const std::string& step, const std::string& title);
/// Takes it away again. Works in the parent, too, when the process with the step has ended.
void wipe_running();

}  // namespace dxgkit::tool::verify
