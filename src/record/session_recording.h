// A recording of a client process at its server: what its sessions get and answer is kept.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "record/call_writer.h"
#include "record/seen_fences.h"
#include "runtime/host_thread.h"
#include "wire/kernel_memory.h"
#include "wire/server_session.h"

namespace dxgkit::record {

/// One for all sessions of a client process. Any thread of an OS runtime. The recording is one that
/// `dxgkit record` could have made, but that descriptors are known by what they refer to, and not
/// by the program's numbers.
class SessionRecording {
 public:
  /// Bytes of calls that wait to be written.
  static constexpr size_t kMostWaiting = size_t{8} << 20;

  /// @param file  new and empty
  SessionRecording(wire::UniqueFd file, const Process& process);
  ~SessionRecording();
  SessionRecording(const SessionRecording&) = delete;
  SessionRecording& operator=(const SessionRecording&) = delete;

  /// The windows of the process, before its first session: all memory is copied, so that what the
  /// client wrote is told from what the GPU wrote.
  static void watch(wire::Windows& windows);
  /// As the session's handle(), and the call is kept.
  wire::Reply handle(wire::ServerSession& session, std::span<const std::byte> request,
                     std::vector<wire::UniqueFd> descriptors);
  /// No handle() runs any more. Why the recording is not whole; empty: it is.
  std::string finish() { return calls_.finish(); }

 private:
  std::vector<Reached> reached();
  /// Keeps up with the fences that the client has. False: the call has exchanged pages of the
  /// program, of which no message knows the content.
  bool follow(std::span<const std::byte> request, const wire::Reply& reply);

  CallWriter calls_;
  runtime::HostMutex mutex_;   // guards what follows
  wire::KernelMemory memory_;  // the client's fences
  SeenFences fences_;
};

}  // namespace dxgkit::record
