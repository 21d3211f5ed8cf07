#include "dxgk/display/display_worker.h"

#include <utility>

namespace dxgkit::dxgk {

void DisplayWorker::start() {
  thread_ = core_.runtime().spawn("display", [this] { run(); });
}

void DisplayWorker::stop() {
  {
    const runtime::MutexLock lock(mutex_);
    ending_ = true;
  }
  wake();
  if (thread_ != nullptr) thread_->join();
  thread_.reset();
}

void DisplayWorker::wake() {
  events_.fetch_add(1);
  core_.runtime().wake_all(events_);
}

void DisplayWorker::add_hot_plug(uint32_t child, bool connected) {
  {
    const runtime::MutexLock lock(mutex_);
    if (ending_) return;
    hot_plugs_.push_back({child, connected});
    ++announced_;
  }
  wake();
}

void DisplayWorker::run() {
  for (;;) {
    const uint32_t seen = events_.load();
    std::vector<HotPlug> taken;
    bool ending = false, was_reset = false;
    {
      const runtime::MutexLock lock(mutex_);
      taken.swap(hot_plugs_);
      ending = ending_;
      was_reset = std::exchange(was_reset_, false);
    }
    if (ending) {  // wait_for_hot_plug does not wait for what is dropped
      served_.fetch_add(static_cast<uint32_t>(taken.size()));
      core_.runtime().wake_all(served_);
      return;
    }
    if (was_reset) {
      uint64_t resets = 0;
      core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { resets = resets_; });
      owner_.show_after_reset();
      core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
        resets_shown_ = resets;
        core_.progress();
      });
    }
    while (owner_.work_on_flips()) {
    }
    for (const HotPlug& event : taken) owner_.monitor_changed(event.child, event.connected);
    if (!taken.empty()) {
      served_.fetch_add(static_cast<uint32_t>(taken.size()));
      core_.runtime().wake_all(served_);
      continue;
    }
    core_.runtime().wait(events_, seen);
  }
}

void DisplayWorker::wait_for_hot_plug() {
  uint32_t wanted = 0;
  {
    const runtime::MutexLock lock(mutex_);
    wanted = announced_;
  }
  for (uint32_t seen = served_.load(); static_cast<int32_t>(wanted - seen) > 0;
       seen = served_.load())
    core_.runtime().wait(served_, seen);
}

void DisplayWorker::set_again() {
  {
    const runtime::MutexLock lock(mutex_);
    was_reset_ = true;
  }
  wake();
}

void DisplayWorker::wait_for_reset() {
  static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    return resets_shown_ == resets_ || core_.gate().closed();
  }));
}

}  // namespace dxgkit::dxgk
