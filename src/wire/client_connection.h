// The client's side: one connection of one thread.
#pragma once

#include <expected>
#include <string>

#include "wire/channel.h"
#include "wire/client_call.h"
#include "wire/hello.h"
#include "wire/kernel_memory.h"
#include "wire/mailbox.h"
#include "wire/unique_fd.h"

namespace dxgkit::wire {

class ClientConnection {
 public:
  /// Says hello over a connected stream socket. The error is one sentence.
  static std::expected<ClientConnection, std::string> greet(UniqueFd socket, const Hello& hello);
  const Token& token() const { return token_; }
  /// The number that handles of this kernel carry.
  uint32_t kernel() const { return kernel_; }
  /// Makes call number `function` of the table (arguments.h). `arguments`: the structure as the
  /// caller has it, anything. STATUS_DEVICE_REMOVED: the server is gone. One call at a time.
  int64_t call(KernelMemory& memory, uint32_t function, void* arguments);
  /// Whether a call has found the server gone.
  bool is_lost() const { return !socket_; }
  int socket() const { return socket_.get(); }

 private:
  /// Takes back what a call has done, and its caller cannot have.
  void take_back(KernelMemory& memory, const Unwanted& done);
  ClientConnection(UniqueFd socket, Mailbox mailbox, const Welcome& welcome)
      : socket_(std::move(socket)),
        mailbox_(std::move(mailbox)),
        token_(welcome.token),
        kernel_(welcome.kernel) {}

  UniqueFd socket_;
  Mailbox mailbox_;
  Frame reply_;  // of the last call; its room is kept
  Token token_;
  uint32_t kernel_;
};

}  // namespace dxgkit::wire
