// Writes the calls of the program around it to a recording, and makes them.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "record/file.h"
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
  explicit Recorder(std::unique_ptr<FileWriter> file);
  std::unique_ptr<wire::ServerSession> take_session();
  void give_back(std::unique_ptr<wire::ServerSession> session);
  /// Fences that have reached something since the last call that looked.
  std::vector<Reached> reached();
  void through_messages(wire::ClientCall& made, const std::function<int64_t()>& direct, Call* call);
  void put(Call call);
  /// Until there are no more calls: on a thread of its own, so that the program does not wait while
  /// a chunk is compressed.
  void write_calls();
  void end_writing();

  std::atomic<uint64_t> moments_{0};
  wire::KernelMemory memory_;
  const std::shared_ptr<wire::Windows> windows_ = wire::make_windows();
  std::unique_ptr<FileWriter> file_;  // of the writing thread; of finish() when that has ended
  std::atomic<uint32_t> news_{0};     // counts changes of what follows
  runtime::HostMutex mutex_;          // guards what follows
  std::vector<Call> waiting_;         // to be written
  size_t waiting_bytes_ = 0;          // of them, and of those that are being written
  bool ending_ = false;
  std::map<uint32_t, uint64_t> fences_;
  std::vector<std::unique_ptr<wire::ServerSession>> sessions_;
  std::unique_ptr<runtime::HostThread> writer_;  // null: it has ended
};

}  // namespace dxgkit::record
