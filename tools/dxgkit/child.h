// Runs driver code in a process of its own, so that a crash or an endless loop is a result.
#pragma once

#include <functional>

namespace dxgkit::tool {

/// The child's end of the pipe to its parent. Copies share it, and it owns nothing.
class Heartbeat {
 public:
  explicit Heartbeat(int fd) : fd_(fd) {}
  /// Tells the parent that the child makes progress: the parent's patience begins anew. Any thread.
  void beat();
  /// Tells the parent that the child writes its outputs: an interrupt ends it no more.
  void finishing();

 private:
  int fd_;
};

struct ChildEnd {
  enum class Kind {
    kExited,       // `code`: what the body returned
    kLeft,         // the process ended in the body, with exit code `code`
    kKilled,       // `code`: the signal
    kHung,         // no beat and no end for `patience_ms`; the child was killed
    kInterrupted,  // the user wants an end (runtime/interrupt.h); the child was killed
    kNotStarted,   // the system refused
  };
  Kind kind = Kind::kExited;
  int code = 0;
};

/// What an interrupt (runtime/interrupt.h) means to a child.
enum class ChildInterrupts {
  kEndIt,    // its parent ends it
  kReachIt,  // it ends its work by itself, and its outputs tell how far it got
};

/// Runs `body` in a forked child that shares stdout and stderr, and waits for it. The body's value
/// is 0..255, and kExitNotWritten if its stdout could not be written. Call it with one thread only.
/// Buffered output is not printed twice.
/// @param patience_ms  longest time between two beats; > 0. Once the child writes its outputs it
///                     takes the time that it needs.
ChildEnd run_in_child(const std::function<int(Heartbeat&)>& body, int patience_ms,
                      ChildInterrupts interrupts = ChildInterrupts::kEndIt);

}  // namespace dxgkit::tool
