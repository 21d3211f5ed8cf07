// The connection of one GL program, wherever its session lives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/dxgkit/gl/frame.h"
#include "tools/dxgkit/gl/session.h"

namespace dxgkit::gl {

/// A connection that is over.
struct ProgramRecord {
  std::string name;   // as it calls itself; empty: it did not say
  std::string wrong;  // why its connection was ended, one sentence; empty: it closed it
  SessionCounts counts;
  std::optional<Frame> frame;
  std::vector<KeptFrame> last_frames;  // if they are kept
};

/// A program's name in a sentence.
inline std::string name_for_people(const std::string& program) {
  return program.empty() ? "a program" : program;
}

class Conversation {
 public:
  virtual ~Conversation() = default;
  /// Once. Returns when the connection is over, and what the program had in the kernel is gone.
  virtual ProgramRecord run() = 0;
  /// Any thread: ends the connection. run() returns when the program's work is done.
  virtual void shut_down() = 0;
  /// Any thread: gives up work that the adapter does not end. run() returns soon.
  virtual void cancel() = 0;
};

}  // namespace dxgkit::gl
