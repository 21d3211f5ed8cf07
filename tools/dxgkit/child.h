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

/// Runs `body` in a forked child that shares stdout and stderr, and waits for it. The body's value
/// is 0..255, and kExitNotWritten if its stdout could not be written. Call it with one thread only.
/// Buffered output is not printed twice.
/// @param patience_ms  longest time between two beats, and from the last beat to the end; > 0.
ChildEnd run_in_child(const std::function<int(Heartbeat&)>& body, int patience_ms);

}  // namespace dxgkit::tool
