// What a driver has reported of itself, until somebody takes it.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/status.h"
#include "port/diagnostic_types.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Any thread; the lock is innermost.
class DiagnosticReports {
 public:
  /// kUnsuccessful: nobody has taken the last kMost.
  Status add(port::DiagnosticReport report) {
    const runtime::MutexLock lock(mutex_);
    if (reports_.size() == kMost) return Status::kUnsuccessful;
    reports_.push_back(std::move(report));
    return Status::kSuccess;
  }
  /// In the order they came.
  std::vector<port::DiagnosticReport> take() {
    const runtime::MutexLock lock(mutex_);
    return std::exchange(reports_, {});
  }

 private:
  static constexpr size_t kMost = 1024;  // our choice
  runtime::Mutex mutex_;
  std::vector<port::DiagnosticReport> reports_ DXGKIT_GUARDED_BY(mutex_);
};

}  // namespace dxgkit::dxgk
