// Trim notifications: tells clients, on a thread of its own, how much to let go of.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dxgk/core/object.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"

namespace dxgkit::dxgk {

class DeviceMemory;
class Process;

/// RES-19: never both periodic flags; `bytes` counts with to_budget only.
struct TrimNotice {
  bool periodic = false, restart_periodic = false, to_budget = false;
  uint64_t bytes = 0;
};

/// Thread-safe. Callbacks run one at a time, on the notifier's thread, which acts for the
/// registration's process, and holds nothing: they may call every thunk.
class TrimNotifier {
 public:
  using Callback = std::function<void(const TrimNotice&)>;

  explicit TrimNotifier(runtime::Runtime& runtime);
  ~TrimNotifier();  // stop()

  /// The registration's number, never 0. `owner` is what remove() wants to see again.
  uint64_t add(DeviceMemory& device, Process& process, const void* owner, Callback callback);
  /// Nothing is called any more once it returns, unless it is called from the callback itself.
  /// False: `process` has no such registration of `owner`.
  bool remove(const Process& process, uint64_t number, const void* owner);
  /// All of a device (THUNK-35). Not on the lane.
  void remove_all(const DeviceMemory& device);
  /// To every registration of the process. A notice not delivered yet is joined: what it
  /// says of the budget, or of periods, gives way to what is newer. Any thread, the
  /// lane too: delivers nothing itself.
  void notify(const Process& process, const TrimNotice& notice);
  /// Ends the thread; nothing is called any more. Not on the lane.
  void stop();

 private:
  struct Registration {
    uint64_t number = 0;
    DeviceMemory* device = nullptr;
    Process* process = nullptr;
    const void* owner = nullptr;
    Callback callback;
    bool pending = false;
    TrimNotice notice;
  };
  void run();
  bool deliver_one();
  template <typename Which>
  bool remove_where(const Which& which);

  runtime::Runtime& runtime_;
  runtime::Mutex mutex_;
  std::vector<std::shared_ptr<Registration>> registrations_ DXGKIT_GUARDED_BY(mutex_);
  uint64_t last_number_ DXGKIT_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<runtime::Thread> thread_ DXGKIT_GUARDED_BY(mutex_);
  uint32_t thread_number_ = 0;           // of the notifier's thread, once it runs
  std::atomic<uint64_t> delivering_{0};  // release/acquire: 0 after the callback's last effect
  std::atomic<uint32_t> events_{0};      // counts; the thread waits on it
  std::atomic<uint32_t> deliveries_{0};  // counts; remove() waits on it
  std::atomic<bool> stopping_{false};    // read by the thread after events_ changed
};

}  // namespace dxgkit::dxgk
