// What the broker and an adapter process say to each other: whole messages (SOCK_SEQPACKET) of one
// structure, with text behind it. Both are of one build: no version.
//
// The broker trusts no message of an adapter process: a driver may have taken it over.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "devices/vfiouser/connection.h"

namespace dxgkit::serve {

using vfiouser::Descriptor;

enum class Control : uint32_t {
  // From the broker.
  kConnection = 1,  // with a descriptor: `connection`, `user`, `process`
  kRecording,       // with a descriptor: a new file for the calls of `process`, which comes next
  kQuery,           // what is the state?
  kEnd,             // stop the adapter, unload the driver, exit
  // From the adapter process.
  kReady,    // the adapter runs, and the jail is closed
  kFailed,   // it does not start; text: why
  kFinding,  // text: a finding
  kClosed,   // `connection` is over; text: why
  kFigures,  // the answer of kQuery: `figures`; behind it a UserFigures for each user
};

/// Sums since the start, and what there is now.
struct Figures {
  uint64_t requests = 0, bytes_in = 0, bytes_out = 0;
  uint64_t packets = 0;    // that the hardware has completed
  uint64_t processes = 0;  // client processes
  uint64_t handles = 0;    // of all of them
};

/// What one user has of an adapter process, and how many of its calls were refused for a quota.
struct UserFigures {
  uint64_t user = 0;
  uint64_t handles = 0, memory_bytes = 0, submissions = 0;
  uint64_t refusals = 0;
};

struct ControlMessage {
  Control kind = Control::kQuery;
  uint32_t user = 0;
  int32_t process = 0;
  uint32_t text_bytes = 0;
  uint64_t connection = 0;
  Figures figures;
};

inline constexpr size_t kControlTextMost = 8192;

struct ControlReceived {
  ControlMessage message;
  std::string text;
  Descriptor descriptor;  // the first that came; the others are closed
};

enum class ControlState { kMessage, kNothing, kEnded, kNonsense };

/// Does not block. Text beyond the limit is cut off. False: there is no room, or the other side is
/// gone; nothing was sent. The descriptor stays the caller's; -1: none.
bool send_control(int socket, ControlMessage message, std::string_view text = {},
                  int descriptor = -1);
/// Does not block.
ControlState receive_control(int socket, ControlReceived* received);

}  // namespace dxgkit::serve
