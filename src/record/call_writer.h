// Writes calls to a recording on a thread of its own, in the order in which they returned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "record/file.h"
#include "record/recording.h"
#include "runtime/host_thread.h"

namespace dxgkit::record {

/// Who makes calls does not wait while a chunk is compressed and written, unless too much is
/// waiting. Any thread but where it says otherwise.
class CallWriter {
 public:
  /// @param most_waiting  bytes of calls that wait to be written, about; who puts more waits
  CallWriter(std::unique_ptr<FileWriter> file, size_t most_waiting);
  ~CallWriter();
  CallWriter(const CallWriter&) = delete;
  CallWriter& operator=(const CallWriter&) = delete;

  /// The moment of a call's begin. Each is a new one.
  uint64_t begin() { return ++moments_; }
  /// The call has returned: gives it the moment of its end.
  void put(Call call);
  /// No put() runs any more. Why the recording is not whole; empty: it is.
  std::string finish();

 private:
  void write_calls();
  void end_writing();

  const size_t most_waiting_;
  std::atomic<uint64_t> moments_{0};
  std::unique_ptr<FileWriter> file_;  // of the writing thread; of finish() when that has ended
  std::atomic<uint32_t> news_{0};     // counts changes of what follows
  runtime::HostMutex mutex_;          // guards what follows
  std::vector<Call> waiting_;         // to be written
  size_t waiting_bytes_ = 0;          // of them, and of those that are being written
  bool ending_ = false;
  std::unique_ptr<runtime::HostThread> writer_;  // null: it has ended
};

/// What a descriptor is, for a recording.
Descriptor describe(int file);

}  // namespace dxgkit::record
