// A session in a process of its own: no kernel is in it, and what becomes of it is its program's
// loss alone.
#pragma once

#include <sys/types.h>

#include <expected>
#include <memory>
#include <string>

#include "devices/vfiouser/connection.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/gl/conversation.h"

namespace dxgkit::gl {

/// The program `gl_connection` (session_program.cpp).
class SessionProcess {
 public:
  /// @param program  its path
  /// @param kernel  the socket of the kernel's server
  /// @param connection  becomes its kProgramSocket and stays the caller's, too; -1: it only checks
  /// The error is one sentence without a full stop.
  static std::expected<SessionProcess, std::string> start(const std::string& program,
                                                          const std::string& kernel,
                                                          int connection);
  SessionProcess(SessionProcess&& other) noexcept;
  ~SessionProcess();  // kills it, if wait() has not seen its end

  /// Blocks until it has ended: its record, with what is wrong with its end. Once.
  ProgramRecord wait(runtime::Runtime& runtime);
  /// Any thread, while it is there: it ends at once.
  void kill_it() const;

 private:
  SessionProcess(pid_t process, int fd, vfiouser::Descriptor record)
      : process_(process), fd_(fd), record_(std::move(record)) {}
  pid_t process_ = 0;        // 0: it has ended
  vfiouser::Descriptor fd_;  // of the process
  vfiouser::Descriptor record_;
};

/// Real threads only.
class ProcessConversation final : public Conversation {
 public:
  ProcessConversation(runtime::Runtime& runtime, vfiouser::Descriptor socket,
                      const std::string& program, const std::string& kernel);
  ProgramRecord run() override;
  void shut_down() override;
  void cancel() override;

 private:
  runtime::Runtime& runtime_;
  const vfiouser::Descriptor socket_;
  std::expected<SessionProcess, std::string> process_;
};

}  // namespace dxgkit::gl
