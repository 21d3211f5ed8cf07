// Memory that both sides of a connection see, with room for one message in each direction.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/channel.h"
#include "wire/unique_fd.h"

namespace dxgkit::wire {

/// A call waits for its reply, so there is never a second message on its way. The other side may
/// write anything anywhere at any time: each word is read once, and a message is copied before
/// anybody looks at it.
///
/// Each direction has a word and bytes. The word says where the next message is to go. Its receiver
/// opens it before it can expect a message, and closes it before it sleeps. Who gets there first,
/// sender or receiver, is decided by one exchange: so no message is lost, and nobody has to be
/// woken who is awake.
class Mailbox {
 public:
  /// The most bytes of a message here. Others go over the socket.
  static constexpr size_t kMostBytes = (size_t{32} << 10) - sizeof(uint32_t);

  /// None: everything goes over the socket.
  Mailbox() = default;
  Mailbox(Mailbox&& other) noexcept { *this = std::move(other); }
  Mailbox& operator=(Mailbox&& other) noexcept;
  ~Mailbox();
  /// The server's side. `descriptor`: what the client opens. None of both if the system refuses.
  static Mailbox make(UniqueFd* descriptor);
  /// The client's side. None if the memory is not what a server of ours sends, as memory that can
  /// be made shorter. A forked child does not have it.
  static Mailbox open(const UniqueFd& descriptor);
  explicit operator bool() const { return memory_ != nullptr; }

  /// As send_frame and receive_frame, for a side that sends and receives in turns. What is short
  /// and has no descriptors goes through the mailbox while the other side looks there. kBroken also
  /// if the other side has put there what is no message.
  bool send(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);
  bool send(int socket, std::span<const std::byte> bytes, std::span<const UniqueFd> descriptors);
  Received receive(int socket, Frame* frame);

 private:
  struct Half {
    /// kSocket, kOpen, or kFull and the number of bytes.
    alignas(64) std::atomic<uint32_t> word;
    std::byte bytes[kMostBytes];
  };
  static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(uint32_t) == 4);
  static_assert(sizeof(Half) == size_t{32} << 10);

  static Mailbox map(int fd, size_t inbox);
  /// True: the other side is awake, and has the message. False: it looks at the socket, or is about
  /// to.
  bool put(std::span<const std::byte> message);

  Half* memory_ = nullptr;  // two of them: of messages to the server, and to the client
  size_t inbox_ = 0;
};

}  // namespace dxgkit::wire
