// The GL program that `dxgkit gl` runs.
#pragma once

#include <sys/types.h>

#include <expected>
#include <string>
#include <vector>

#include "runtime/runtime.h"

namespace dxgkit::gl {

/// The variables of a program whose GL is to go through the socket, beside those that it inherits:
/// "NAME=VALUE". `has_display`: there is an X server for it.
std::vector<std::string> gl_environment(const std::string& socket, bool has_display);

/// A running program. Real threads only; one thread uses it.
class Program {
 public:
  /// Starts it, with the streams of this process. The error is one sentence without a full stop.
  static std::expected<Program, std::string> start(const std::vector<std::string>& command,
                                                   const std::vector<std::string>& environment);
  Program(Program&& other) noexcept;
  ~Program();  // kills it, if wait() has not seen its end

  /// Blocks until it has ended, or `stop_fd` is readable: then it is asked to end by SIGTERM, and
  /// killed after five seconds. The exit code, as a shell tells it: 128 and the signal's number if
  /// a signal ended it.
  int wait(runtime::Runtime& runtime, int stop_fd);

 private:
  Program(pid_t process, int fd) : process_(process), fd_(fd) {}
  pid_t process_ = 0;  // 0: it has ended
  int fd_ = -1;        // readable at its end
};

}  // namespace dxgkit::gl
