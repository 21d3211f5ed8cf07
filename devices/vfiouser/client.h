// The client's half of the protocol: calls to a server, and the server's own commands.
#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "devices/vfiouser/connection.h"
#include "runtime/sync.h"

namespace dxgkit::vfiouser {

/// Why a call has no answer.
struct CallError {
  /// Not 0: the server refused this call, and the connection goes on. 0: the connection is over.
  int refused = 0;
  std::string why;  // one sentence without a full stop
};

/// Asks a server. Tests and fuzzing answer in its place.
class Channel {
 public:
  virtual ~Channel() = default;
  /// Sends a command and waits for its reply: the payload and descriptors that came with it.
  virtual std::expected<Message, CallError> call(Command command,
                                                 std::initializer_list<ByteView> parts,
                                                 std::span<const int> descriptors) = 0;
  /// The server broke the protocol: every call fails from now on, with this sentence.
  virtual void reject(const std::string& why) = 0;
};

/// System memory as the server may ask for it by message. Any thread.
struct MemoryAccess {
  std::function<bool(uint64_t address, std::span<std::byte> out)> read;
  std::function<bool(uint64_t address, ByteView in)> write;
};

/// A connection to a server from the handshake on. Any thread may call; one call is under way at a
/// time, and the others wait for it.
class Client final : public Channel {
 public:
  /// Agrees on the version with the server at the other end of `socket`. The error is one sentence
  /// without a full stop.
  /// @param timeout_ns  how long an answer may take
  static std::expected<std::unique_ptr<Client>, std::string> open(runtime::Runtime& runtime,
                                                                  Descriptor socket,
                                                                  runtime::DurationNs timeout_ns,
                                                                  MemoryAccess memory);
  ~Client() override;

  std::expected<Message, CallError> call(Command command, std::initializer_list<ByteView> parts,
                                         std::span<const int> descriptors) override;
  void reject(const std::string& why) override;
  /// What the server can do.
  const Capabilities& server() const { return server_; }

  /// Answers the server's commands until the connection is over or stop() is called: the reason;
  /// nullopt after stop(). On a thread of its own, which a call may wait for.
  std::optional<std::string> serve();
  /// Ends serve() and the connection. Any thread.
  void stop();
  bool is_over() const { return over_.load(std::memory_order_acquire); }

 private:
  Client(runtime::Runtime& runtime, Descriptor socket, runtime::DurationNs timeout_ns,
         MemoryAccess memory, Descriptor bell);
  std::expected<void, std::string> negotiate();
  CallError end(const std::string& why);
  std::string reason();
  /// Takes one message of the server off the main connection while no call waits for one.
  void take_command();
  std::expected<void, Broken> answer(Connection& connection, const Message& command);
  void ring();

  runtime::Runtime& runtime_;
  const runtime::DurationNs timeout_ns_;
  const MemoryAccess memory_;
  const Descriptor bell_;  // an eventfd that wakes serve()
  Connection main_;
  std::unique_ptr<Connection> twin_;  // null: the server's commands come on the main connection
  Capabilities server_;
  std::atomic<bool> over_{false}, stopped_{false};
  runtime::Mutex call_mutex_;  // who holds it may send and receive on the main connection
  uint16_t next_id_ DXGKIT_GUARDED_BY(call_mutex_) = 0;
  runtime::Mutex reason_mutex_;  // leaf
  std::string reason_ DXGKIT_GUARDED_BY(reason_mutex_);
};

}  // namespace dxgkit::vfiouser
