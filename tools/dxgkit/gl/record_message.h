// What the process of a connection tells of it at its end: one message with a record.
#pragma once

#include <expected>
#include <optional>
#include <string>

#include "devices/vfiouser/connection.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/gl/conversation.h"

namespace dxgkit::gl {

/// Descriptors of that process.
inline constexpr int kProgramSocket = 3;  // the program's connection
inline constexpr int kRecordSocket = 4;   // a socket of type SOCK_SEQPACKET

/// Its argument, if it is only to say whether the driver is the virtio GPU's: `wrong` of its
/// record. Then it has no connection.
inline constexpr const char* kCheckOnly = "--check";

/// Sends the record, and the memory of its last frame. Texts are cut at some 1,000 bytes;
/// `last_frames` is not sent. False: the other side is gone.
bool send_record(int socket, const ProgramRecord& record);

/// Blocks until the record or the end of the process comes: nullopt. The sender is not trusted. The
/// error is one sentence about a record without sense.
std::expected<std::optional<ProgramRecord>, std::string> receive_record(runtime::Runtime& runtime,
                                                                        int socket);

}  // namespace dxgkit::gl
