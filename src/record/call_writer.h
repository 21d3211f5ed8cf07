// Writes calls to a recording on a thread of its own, in the order in which they returned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "record/file.h"
#include "record/recording.h"
#include "runtime/host_thread.h"

namespace dxgkit::record {

/// Who makes calls does not wait while a chunk is compressed and written, unless too many are
/// waiting. Any thread but where it says otherwise.
class CallWriter {
 public:
  /// @param most_waiting  bytes of calls that wait to be written, about; who puts more waits
  CallWriter(std::unique_ptr<FileWriter> file, const Process& process, size_t most_waiting);
  ~CallWriter();
  CallWriter(const CallWriter&) = delete;
  CallWriter& operator=(const CallWriter&) = delete;

  /// The moment of a call's begin. Each is a new one.
  uint64_t begin() { return ++moments_; }
  /// For bytes that a call moves.
  Chunk empty_chunk();
  /// Such bytes, before their call.
  void put(Chunk bytes);
  /// The call has returned: gives it the moment of its end.
  void put(Call call);
  /// No put() runs any more. Why the recording is not whole; empty: it is.
  std::string finish();

 private:
  /// Calls `add` under the mutex when no more wait than may.
  template <typename Add>
  void when_there_is_room(const Add& add);
  // Under the mutex.
  void let_write(Chunk chunk);
  Chunk take_spare();
  void keep_spare(Chunk chunk);

  void write_chunks();
  void end_writing();

  const size_t most_waiting_;  // chunks
  std::atomic<uint64_t> moments_{0};
  std::unique_ptr<FileWriter> file_;  // of the writing thread; of finish() when that has ended
  std::atomic<uint32_t> news_{0};     // counts changes of what follows
  runtime::HostMutex mutex_;          // guards what follows
  Chunk filling_;
  std::deque<Chunk> waiting_;  // to be written
  std::vector<Chunk> spare_;
  size_t unwritten_ = 0;  // those that wait, and the one that is being written
  bool ending_ = false;
  std::unique_ptr<runtime::HostThread> writer_;  // null: it has ended
};

/// What a descriptor is, for a recording.
Descriptor describe(int file);

}  // namespace dxgkit::record
