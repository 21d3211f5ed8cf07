// The state of the kernels of this process as text, for a debugger that has stopped it.
#pragma once

namespace dxgkit::dxgk {

class System;

/// Between these two calls dxgkit_debug_text tells of the system. Any thread.
void show_to_debugger(System& system);
void hide_from_debugger(System& system);

}  // namespace dxgkit::dxgk

extern "C" {
/// Adapters with their nodes and segments (1), packets on hardware and queued (2), allocations with
/// their places (3), what waits for what (4). Other numbers: which there are. The text is good
/// until the next call. Only a debugger calls it, while all threads stand still: it takes no lock,
/// and what a thread was changing when it was stopped may be half done.
const char* dxgkit_debug_text(int what);
}
