// DxgkCbExcludeAdapterAccess: drivers that ask to be alone with their adapter.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "dxgk/core/adapter_core.h"
#include "runtime/sync.h"

namespace dxgkit::dxgk {

class Power;

/// Serves the requests in the order of the calls, on a thread of its own, made at the first one.
class Exclusions {
 public:
  Exclusions(AdapterCore& core, Power& power) : core_(core), power_(power) {}

  /// Any context at PASSIVE_LEVEL. `call` gets what Power::exclude says. kDeviceRemoved: not any
  /// more.
  Status add(bool evict, std::function<void(Status)> call);
  /// No more of them; those that wait are told so. Not on the lane.
  void end();

 private:
  struct Request {
    bool evict = false;
    std::function<void(Status)> call;
  };
  void serve();

  AdapterCore& core_;
  Power& power_;
  runtime::Mutex mutex_;  // innermost
  std::vector<Request> requests_ DXGKIT_GUARDED_BY(mutex_);
  std::unique_ptr<runtime::Thread> thread_ DXGKIT_GUARDED_BY(mutex_);
  bool ended_ DXGKIT_GUARDED_BY(mutex_) = false;
  std::atomic<uint32_t> bell_{0};  // requests and the end; the thread waits on it
};

}  // namespace dxgkit::dxgk
