// Frames over a stream socket of the UNIX domain: a length of 32 bits, a number of descriptors,
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "wire/unique_fd.h"

namespace dxgkit::wire {

/// The most bytes of one frame, and the most descriptors with it.
inline constexpr size_t kMaxFrameBytes = size_t{16} << 20;
inline constexpr size_t kMaxFrameDescriptors = 64;

struct Frame {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;
};

/// Blocks until all of it is sent. False: the other side is gone, or the frame is over the limits;
/// the connection is of no use any more. Descriptors stay the caller's. No SIGPIPE.
bool send_frame(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);
bool send_frame(int socket, std::span<const std::byte> bytes,
                std::span<const UniqueFd> descriptors);

enum class Received { kFrame, kEnd, kBroken };
/// Blocks until a whole frame has come. kEnd: the other side closed between two frames. kBroken: it
/// closed inside of one, or sent more than the limits, or descriptors or bytes that were not
/// announced: each side waits for the answer to a frame before it sends another.
/// Descriptors that came are closed on exec, and closed if the frame is broken. Memory grows with
/// the bytes that came, not with the length that was announced.
Received receive_frame(int socket, Frame* frame);

}  // namespace dxgkit::wire
