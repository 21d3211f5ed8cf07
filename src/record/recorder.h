// Writes the calls of the program around it to a recording, and makes them.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "record/call_writer.h"
#include "record/seen_fences.h"
#include "runtime/host_thread.h"
#include "wire/client_call.h"
#include "wire/kernel_memory.h"
#include "wire/server_session.h"
#include "wire/windows.h"

namespace dxgkit::record {

/// One for a program that is one client process. A call goes through the messages of src/wire, as
/// if the kernel was in another process; so both messages are there to be kept. What cannot go
/// through a message is made directly, and the recording says so.
class Recorder {
 public:
  /// Real threads only. `path`: a new file. The error is one sentence.
  static std::expected<std::unique_ptr<Recorder>, std::string> create(const std::string& path,
                                                                      std::string program);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Makes a call of the table of arguments on a thread that is bound to its client process, and
  /// keeps it. `direct` is the kernel's own function with the same arguments.
  int64_t call(uint32_t function, void* arguments, const std::function<int64_t()>& direct);
  /// No call runs any more. Why the recording is not whole; empty: it is.
  std::string finish();

 private:
  Recorder(std::unique_ptr<FileWriter> file, const Process& process);
  std::unique_ptr<wire::ServerSession> take_session();
  void give_back(std::unique_ptr<wire::ServerSession> session);
  /// Fences that have reached something since the last call that looked.
  std::vector<Reached> reached();
  void through_messages(wire::ClientCall& made, const std::function<int64_t()>& direct, Call* call);

  wire::KernelMemory memory_;
  const std::shared_ptr<wire::Windows> windows_ = wire::make_windows();
  CallWriter calls_;
  runtime::HostMutex mutex_;  // guards what follows
  SeenFences fences_;
  std::vector<std::unique_ptr<wire::ServerSession>> sessions_;
};

}  // namespace dxgkit::record
