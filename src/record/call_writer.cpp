#include "record/call_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/new_descriptors.h"

namespace dxgkit::record {
namespace {

constexpr size_t kMostSpare = 4;

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

CallWriter::CallWriter(std::unique_ptr<FileWriter> file, const Process& process,
                       size_t most_waiting)
    : most_waiting_(std::max<size_t>(1, most_waiting / Chunk::kBytes)), file_(std::move(file)) {
  filling_.put(process);
  writer_ = std::make_unique<runtime::HostThread>("dxgkit record", [this] { write_chunks(); });
}

CallWriter::~CallWriter() { end_writing(); }

Chunk CallWriter::take_spare() {
  Chunk chunk;
  if (!spare_.empty()) {
    chunk = std::move(spare_.back());
    spare_.pop_back();
  }
  chunk.reserve();
  return chunk;
}

void CallWriter::keep_spare(Chunk chunk) {
  chunk.clear();
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(chunk));
}

void CallWriter::let_write(Chunk chunk) {
  ++unwritten_;
  waiting_.push_back(std::move(chunk));
}

template <typename Add>
void CallWriter::when_there_is_room(const Add& add) {
  while (true) {
    const uint32_t news = news_.load();
    {
      const runtime::HostMutexLock lock(mutex_);
      if (unwritten_ < most_waiting_) {
        const size_t before = unwritten_;
        add();
        if (unwritten_ == before) return;
        break;
      }
    }
    runtime::wait_while(news_, news);
  }
  ++news_;
  runtime::wake_host_waiters(news_);
}

Chunk CallWriter::empty_chunk() {
  const runtime::HostMutexLock lock(mutex_);
  return take_spare();
}

void CallWriter::put(Chunk bytes) {
  when_there_is_room([&] {
    // Little is not worth a chunk of its own.
    if (bytes.bytes().size() > Chunk::kBytes / 16) return let_write(std::move(bytes));
    filling_.add(bytes);
    keep_spare(std::move(bytes));
  });
}

void CallWriter::put(Call call) {
  when_there_is_room([&] {
    call.end = ++moments_;
    filling_.put(call);
    if (filling_.is_full()) let_write(std::exchange(filling_, take_spare()));
  });
}

void CallWriter::write_chunks() {
  while (true) {
    const uint32_t news = news_.load();
    Chunk chunk;
    bool ending = false, is_one = false;
    {
      const runtime::HostMutexLock lock(mutex_);
      ending = ending_;
      is_one = !waiting_.empty();
      if (is_one) {
        chunk = std::move(waiting_.front());
        waiting_.pop_front();
      }
    }
    if (!is_one) {
      if (ending) return;
      runtime::wait_while(news_, news);
      continue;
    }
    file_->write(chunk);
    {
      const runtime::HostMutexLock lock(mutex_);
      --unwritten_;
      keep_spare(std::move(chunk));
    }
    ++news_;
    runtime::wake_host_waiters(news_);
  }
}

void CallWriter::end_writing() {
  if (writer_ == nullptr) return;
  {
    const runtime::HostMutexLock lock(mutex_);
    let_write(std::move(filling_));
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
