#include "record/replay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/arithmetic.h"
#include "base/check.h"
#include "record/compare.h"
#include "runtime/sync.h"
#include "wire/server_session.h"

namespace dxgkit::record {
namespace {

using runtime::MutexLock;

/// Between two looks at a fence.
constexpr runtime::DurationNs kLook = 50 * runtime::kMicrosecond;

/// Memory that the kernel shows.
class Mapping {
 public:
  Mapping(const wire::UniqueFd& file, size_t bytes) : bytes_(bytes) {
    void* const all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    void* const readable = all == MAP_FAILED
                               ? mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0)
                               : all;  // a fence is for reading only
    if (readable != MAP_FAILED) memory_ = static_cast<std::byte*>(readable);
    writable_ = all != MAP_FAILED;
  }
  ~Mapping() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// Null: there is no such range.
  std::byte* at(uint64_t offset, size_t bytes, bool for_writing) const {
    const bool there =
        memory_ != nullptr && (writable_ || !for_writing) && range_within(offset, bytes, bytes_);
    return there ? memory_ + offset : nullptr;
  }

 private:
  const size_t bytes_;
  std::byte* memory_ = nullptr;
  bool writable_ = false;
};

/// The descriptors that the program had. All of the replay's stay open until it ends.
class Descriptors {
 public:
  void made(const Descriptor& recorded, wire::UniqueFd file) {
    known_[recorded.number] = {recorded.inode, std::move(file)};
  }
  /// A copy of what the program gave to the kernel.
  wire::UniqueFd given(const Descriptor& recorded) {
    auto found = known_.find(recorded.number);
    if (recorded.is_event == 0 && (found == known_.end() || found->second.inode != recorded.inode))
      found = std::ranges::find_if(known_, [&](const auto& one) {  // the program has copied it
        return one.second.inode == recorded.inode;
      });
    if (found == known_.end()) {
      const int file = recorded.is_event != 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
                                              : open("/dev/null", O_RDWR | O_CLOEXEC);
      found = known_.insert_or_assign(recorded.number, Known{recorded.inode, wire::UniqueFd(file)})
                  .first;
    }
    return wire::UniqueFd(fcntl(found->second.file.get(), F_DUPFD_CLOEXEC, 0));
  }

 private:
  struct Known {
    uint64_t inode = 0;
    wire::UniqueFd file;
  };
  std::map<uint64_t, Known> known_;
};

class Replay {
 public:
  Replay(dxgk::Process& process, const Recording& recording, const ReplayOptions& options)
      : runtime_(runtime::Runtime::current()),
        process_(process),
        calls_(recording.calls),
        options_(options),
        returned_(calls_.size()) {
    for (const Call& call : calls_)
      patience_ = std::max(patience_, options.patience + std::max<int64_t>(call.duration_ns, 0));
  }

  ReplayResult run() {
    std::map<uint32_t, std::vector<size_t>> threads;
    for (size_t i = 0; i < calls_.size(); ++i) threads[calls_[i].thread].push_back(i);
    std::vector<std::unique_ptr<runtime::Thread>> running;
    for (const auto& [number, mine] : threads) {
      running.push_back(runtime_.spawn(fmt::format("replay {}", running.size() + 1), [this, &mine] {
        wire::ServerSession session(process_.system(), process_, windows_);
        for (const size_t index : mine) {
          if (!my_turn(index)) return;
          play(index, session);
          has_returned(index);
        }
      }));
    }
    wait_for_all();
    for (const auto& thread : running) thread->join();
    const MutexLock lock(mutex_);
    result_.renamed = names_.renamed();
    return result_;
  }

 private:
  bool stopped() const { return stop_.load() != 0; }

  /// While calls return.
  void wait_for_all() {
    const auto all = static_cast<uint32_t>(calls_.size());
    uint32_t seen = frontier_.load();
    runtime::TimeNs deadline = runtime_.now() + patience_;
    while (seen < all) {
      const bool late = runtime_.wait(frontier_, seen, deadline) == runtime::WaitResult::kTimedOut;
      const uint32_t now = frontier_.load();
      if (late && now == seen) {
        difference(seen, "it does not return");
        stop_.store(1);
        runtime_.wake_all(frontier_);
        options_.on_stuck();
        return;
      }
      if (now != seen) deadline = runtime_.now() + patience_;
      seen = now;
    }
  }

  /// Waits until everything has returned that had returned before this call. False: the replay
  /// stops.
  bool my_turn(size_t index) {
    const auto before = static_cast<uint32_t>(
        std::ranges::lower_bound(calls_, calls_[index].begin, {}, &Call::end) - calls_.begin());
    for (uint32_t now = frontier_.load(); now < before; now = frontier_.load()) {
      if (stopped()) return false;
      runtime_.wait(frontier_, now);
    }
    return !stopped();
  }

  void has_returned(size_t index) {
    {
      const MutexLock lock(mutex_);
      returned_[index] = true;
      uint32_t reached = frontier_.load();
      while (reached < returned_.size() && returned_[reached]) ++reached;
      frontier_.store(reached);
    }
    runtime_.wake_all(frontier_);
  }

  void difference(size_t index, const std::string& text) {
    const MutexLock lock(mutex_);
    tell(index, text);
  }
  void tell(size_t index, const std::string& text) DXGKIT_REQUIRES(mutex_) {
    ++result_.differences;
    options_.on_difference(index + 1, text);
  }

  void play(size_t index, wire::ServerSession& session) {
    const Call& call = calls_[index];
    for (const Reached& fence : call.fences) wait_for_fence(index, fence);
    if (!call.unrecorded.empty()) {
      const MutexLock lock(mutex_);
      ++result_.left_out;
      return;
    }
    const auto parsed = read_request(call.request);
    DXGKIT_CHECK(parsed.has_value());  // the reader has looked
    std::vector<std::byte> request = call.request;
    std::vector<wire::UniqueFd> descriptors;
    {
      const MutexLock lock(mutex_);
      ++result_.made;
      rename(names_, *parsed, request);
      for (const Descriptor& one : call.given) descriptors.push_back(descriptors_.given(one));
      for (const Bytes& bytes : call.memory) {
        if (bytes.seen == 0) write(bytes);
      }
    }
    wire::Reply answer = session.handle(request, std::move(descriptors));
    const MutexLock lock(mutex_);
    if (!answer.refusal.empty()) {
      tell(index, fmt::format("it cannot be made: {}", answer.refusal));
      return;
    }
    finish(index, *parsed, request, answer);
  }

  void finish(size_t index, const Request& parsed, const std::vector<std::byte>& request,
              wire::Reply& answer) DXGKIT_REQUIRES(mutex_) {
    const Call& call = calls_[index];
    const auto recorded = read_reply(parsed, call.request, call.reply);
    const auto replayed = read_reply(parsed, request, answer.bytes);
    if (!recorded.has_value() || !replayed.has_value()) {
      tell(index, fmt::format("the answers have other fields: {}",
                              recorded.has_value() ? replayed.error() : recorded.error()));
      return;
    }
    const std::string text =
        compare(parsed, {call.request, *recorded}, {request, *replayed}, names_);
    if (!text.empty()) tell(index, text);
    // Windows come before the handles that a call makes; no function has both.
    size_t next = 0;
    const auto take = [&] {
      return next < answer.descriptors.size() ? std::move(answer.descriptors[next++])
                                              : wire::UniqueFd{};
    };
    for (size_t i = 0; i < replayed->windows.size(); ++i) {
      const wire::WindowNote& note = replayed->windows[i];
      if (note.has_descriptor == 0) continue;
      const wire::UniqueFd file = take();
      if (i < recorded->windows.size())
        memory_[recorded->windows[i].owner] = std::make_unique<Mapping>(file, note.bytes);
    }
    size_t windows = 0;
    for (const wire::WindowNote& note : recorded->windows)
      windows += note.has_descriptor != 0 ? 1 : 0;
    for (size_t i = windows; i < call.made.size(); ++i) {
      if (wire::UniqueFd file = take()) descriptors_.made(call.made[i], std::move(file));
    }
    if (text.empty()) compare_memory(index);
  }

  void compare_memory(size_t index) DXGKIT_REQUIRES(mutex_) {
    for (const Bytes& bytes : calls_[index].memory) {
      if (bytes.seen == 0) continue;
      const std::byte* const now = memory_at(bytes, false);
      if (now == nullptr) {
        tell(index,
             fmt::format("allocation {:#x} shows no byte {}", bytes.allocation, bytes.offset));
        return;
      }
      for (size_t i = 0; i < bytes.bytes.size(); ++i) {
        if (now[i] == bytes.bytes[i]) continue;
        tell(index, fmt::format("byte {} of allocation {:#x} is {:#04x}, and was {:#04x}",
                                bytes.offset + i, bytes.allocation, static_cast<unsigned>(now[i]),
                                static_cast<unsigned>(bytes.bytes[i])));
        return;
      }
    }
  }

  std::byte* memory_at(const Bytes& bytes, bool for_writing) DXGKIT_REQUIRES(mutex_) {
    const auto found = memory_.find(bytes.allocation);
    return found == memory_.end()
               ? nullptr
               : found->second->at(bytes.offset, bytes.bytes.size(), for_writing);
  }
  void write(const Bytes& bytes) DXGKIT_REQUIRES(mutex_) {
    std::byte* const to = memory_at(bytes, true);
    if (to != nullptr) std::memcpy(to, bytes.bytes.data(), bytes.bytes.size());
  }

  /// Until the fence has reached what the program could see when it made the call.
  void wait_for_fence(size_t index, const Reached& fence) {
    const runtime::TimeNs deadline = runtime_.now() + options_.patience;
    while (!stopped()) {
      uint64_t now = 0;
      {
        const MutexLock lock(mutex_);
        const auto found = memory_.find(fence.owner);
        const std::byte* const at =
            found == memory_.end() ? nullptr : found->second->at(0, sizeof now, false);
        if (at == nullptr) return;
        __atomic_load(reinterpret_cast<const uint64_t*>(at), &now, __ATOMIC_ACQUIRE);
      }
      if (now >= fence.value) return;
      if (runtime_.now() >= deadline) {
        difference(index, fmt::format("before it, fence {:#x} is at {}, and was at {}", fence.owner,
                                      now, fence.value));
        return;
      }
      runtime_.sleep_for(kLook);
    }
  }

  runtime::Runtime& runtime_;
  dxgk::Process& process_;
  const std::vector<Call>& calls_;
  const ReplayOptions& options_;
  runtime::DurationNs patience_ = options_.patience;
  const std::shared_ptr<wire::Windows> windows_ = wire::make_windows();
  std::atomic<uint32_t> frontier_{0};  // so many calls from the first on have returned
  std::atomic<uint32_t> stop_{0};
  runtime::Mutex mutex_;
  std::vector<bool> returned_ DXGKIT_GUARDED_BY(mutex_);
  NameMap names_ DXGKIT_GUARDED_BY(mutex_);
  Descriptors descriptors_ DXGKIT_GUARDED_BY(mutex_);
  std::map<uint32_t, std::unique_ptr<Mapping>> memory_ DXGKIT_GUARDED_BY(mutex_);
  ReplayResult result_ DXGKIT_GUARDED_BY(mutex_);
};

}  // namespace

ReplayResult replay(dxgk::Process& process, const Recording& recording,
                    const ReplayOptions& options) {
  return Replay(process, recording, options).run();
}

}  // namespace dxgkit::record
