#include "record/call_writer.h"

#include <sys/stat.h>

#include <utility>

#include "base/new_descriptors.h"

namespace dxgkit::record {
namespace {

size_t bytes_of(const Call& call) {
  size_t bytes = sizeof call + call.request.size() + call.reply.size();
  for (const Bytes& one : call.memory) bytes += sizeof one + one.bytes.size();
  return bytes;
}

}  // namespace

Descriptor describe(int file) {
  struct stat facts {};
  Descriptor one{.number = static_cast<uint64_t>(file)};
  if (!descriptor_status(file, &facts)) return one;
  one.inode = facts.st_ino;
  // An event is no file of any kind. All such objects have one inode.
  one.is_event = (facts.st_mode & S_IFMT) == 0 ? 1 : 0;
  return one;
}

CallWriter::CallWriter(std::unique_ptr<FileWriter> file, size_t most_waiting)
    : most_waiting_(most_waiting), file_(std::move(file)) {
  writer_ = std::make_unique<runtime::HostThread>("dxgkit record", [this] { write_calls(); });
}

CallWriter::~CallWriter() { end_writing(); }

void CallWriter::put(Call call) {
  const size_t bytes = bytes_of(call);
  while (true) {
    const uint32_t news = news_.load();
    {
      const runtime::HostMutexLock lock(mutex_);
      if (waiting_bytes_ <= most_waiting_) {
        waiting_bytes_ += bytes;
        call.end = ++moments_;
        waiting_.push_back(std::move(call));
        break;
      }
    }
    runtime::wait_while(news_, news);
  }
  ++news_;
  runtime::wake_host_waiters(news_);
}

void CallWriter::write_calls() {
  while (true) {
    const uint32_t news = news_.load();
    std::vector<Call> calls;
    bool ending = false;
    {
      const runtime::HostMutexLock lock(mutex_);
      calls.swap(waiting_);
      ending = ending_;
    }
    if (calls.empty()) {
      if (ending) return;
      runtime::wait_while(news_, news);
      continue;
    }
    size_t bytes = 0;
    for (const Call& call : calls) {
      file_->put(call);
      bytes += bytes_of(call);
    }
    {
      const runtime::HostMutexLock lock(mutex_);
      waiting_bytes_ -= bytes;
    }
    ++news_;
    runtime::wake_host_waiters(news_);
  }
}

void CallWriter::end_writing() {
  if (writer_ == nullptr) return;
  {
    const runtime::HostMutexLock lock(mutex_);
    ending_ = true;
  }
  ++news_;
  runtime::wake_host_waiters(news_);
  writer_->join();
  writer_.reset();
}

std::string CallWriter::finish() {
  end_writing();
  file_->finish();
  return file_->error();
}

}  // namespace dxgkit::record
