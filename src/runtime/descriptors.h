// Waiting for descriptors: sockets and event descriptors of other processes. All but
// receive_standing_still are for real threads only: no simulation knows what another process does.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <span>

#include "runtime/runtime.h"

namespace dxgkit::runtime {

/// One descriptor that a thread waits for.
struct DescriptorWait {
  int fd = -1;          // -1 is ignored
  bool input = true;    // false: only the end of the connection counts
  bool output = false;  // room to write counts, too
  // Answers.
  bool ready = false;  // input, room to write, or the end
  bool ended = false;  // the other side has closed, or the descriptor is broken
};

/// Blocks until one of the descriptors is ready or `deadline` has passed, and fills the answers.
/// False: the deadline has passed. A signal makes no difference. Not in simulation (our bug,
/// aborts).
bool wait_for_descriptors(Runtime& runtime, std::span<DescriptorWait> waits,
                          TimeNs deadline = kForever);

/// Sets an event of another process, which is an event descriptor, or whatever the process says is
/// one. No room to write means that it is set already. Does not block, unless the other process
/// takes the room away between the look and the write. Any thread, in simulation too.
void set_event(int event);

/// recvmsg that blocks until something has come: the number of bytes; 0: the other side has closed;
/// -1: errno, ETIMEDOUT if the deadline has passed. Descriptors that come with it are closed on
/// exec.
ssize_t receive_message(Runtime& runtime, int socket, msghdr& message, TimeNs deadline);
/// sendmsg that blocks until there is room: the number of bytes, which may be fewer than given; -1:
/// errno, ETIMEDOUT if the deadline has passed. No SIGPIPE.
ssize_t send_message(Runtime& runtime, int socket, const msghdr& message, TimeNs deadline);

/// Receives one message of a socket of whole messages (SOCK_SEQPACKET) from a process that only
/// does what it is asked to, so that its answer does not depend on time. Blocks for up to
/// `timeout_ns` of real time, in simulation too: then all of the simulation stands still, and its
/// time does not pass. The number of bytes of the message; 0: the other side has closed; -1:
/// errno, ETIMEDOUT if nothing has come. Of a message that is longer than `to` the rest is lost.
ssize_t receive_standing_still(int socket, std::span<std::byte> to, DurationNs timeout_ns);

}  // namespace dxgkit::runtime
