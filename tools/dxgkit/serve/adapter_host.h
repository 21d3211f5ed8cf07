// The inside of an adapter process: takes connections from the broker, and gives each a thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "tools/dxgkit/serve/control.h"

namespace dxgkit::serve {

/// One connection of a client.
class Conversation {
 public:
  virtual ~Conversation() = default;
  /// Blocks until the client leaves or breaks the rules, and says why in one sentence. On a thread
  /// of its own, once.
  virtual std::string talk() = 0;
  /// The client has closed its side. A call of its inside the kernel may never come back otherwise.
  /// Does not block for long; once at most; on another thread than talk().
  virtual void hang_up() = 0;
  /// The connection's socket, open as long as the conversation lives.
  virtual int fd() const = 0;
};

/// What a connection is for. The kernel's is in wire_conversations.h; tests have their own.
class Conversations {
 public:
  virtual ~Conversations() = default;
  /// @param user, process  of the client, as the system says
  virtual std::unique_ptr<Conversation> begin(Descriptor socket, uint32_t user,
                                              int32_t process) = 0;
  /// The calls of a client process that comes next are to be kept in this file.
  virtual void record(Descriptor file, uint32_t user, int32_t process) = 0;
  /// @param users  receives what each user has
  virtual Figures figures(std::vector<UserFigures>* users) = 0;
};

/// Carries out what the broker says. Real threads only.
class AdapterHost {
 public:
  /// @param control  connection to the broker; the caller's
  /// @param wake     an event descriptor that does not block; the caller's
  AdapterHost(runtime::Runtime& runtime, int control, int wake, Conversations& conversations)
      : runtime_(runtime), control_(control), wake_(wake), conversations_(conversations) {}

  /// Says that the adapter is ready. Returns when the broker wants an end, or is gone; all
  /// conversations are over then.
  void run();

  /// Threads that connections may have. More connections are closed.
  static constexpr size_t kConnectionsMost = 512;

 private:
  struct Talk {
    uint64_t connection = 0;
    std::unique_ptr<Conversation> conversation;
    std::unique_ptr<runtime::Thread> thread;
    bool is_hung_up = false;
    std::string why;
    std::atomic<bool> is_over{false};  // `why` is complete
  };

  /// False: it is over.
  bool take_message();
  void begin(ControlReceived& received);
  void reap();
  void hang_up_all();

  runtime::Runtime& runtime_;
  const int control_, wake_;
  Conversations& conversations_;
  std::vector<std::unique_ptr<Talk>> talks_;
};

}  // namespace dxgkit::serve
