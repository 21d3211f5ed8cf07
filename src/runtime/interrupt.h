// Ctrl-C and SIGTERM as a question to the program instead of its end.
#pragma once

namespace dxgkit::runtime {

/// From here on the first SIGINT or SIGTERM only makes interrupted() true. A second one of the same
/// kind ends the process, as without this call. Call it early, with one thread.
void catch_interrupts();

/// The user wants an end: finish what is begun, tell what was found, and leave. Any thread. Always
/// false without catch_interrupts().
bool interrupted();

/// For poll: becomes readable when interrupted() becomes true, and stays so. Nobody reads from it.
/// -1, which poll ignores, without catch_interrupts().
int interrupt_fd();

/// In a process that was just forked: an interrupt of its parent is one of this process, too, and
/// the other way round. When the parent has ended, the process ends too.
/// @param parent  the caller of fork.
void share_interrupts_with_parent(int parent);

/// In a process that was just forked: an interrupt is its parent's business, who ends this process
/// if it has to. When the parent has ended, the process ends too. interrupted() is false in it.
/// @param parent  the caller of fork.
void leave_interrupts_to_parent(int parent);

}  // namespace dxgkit::runtime
