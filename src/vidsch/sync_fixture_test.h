// Helpers of the tests of sync objects.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <utility>
#include <vector>

#include "vidsch/sync_objects.h"

namespace dxgkit::vidsch {

inline constexpr SyncObjectId kX{1}, kY{2};

/// Objects whose state is checked after every call.
class SyncFixture : public ::testing::Test {
 protected:
  Status signal(std::vector<SyncPoint> points) {
    const Status status = sync_.signal(points);
    EXPECT_TRUE(sync_.validate());
    return status;
  }
  CpuWaitId wait_cpu(std::vector<SyncPoint> points, WaitMode mode,
                     std::function<void(Status)> done) {
    const CpuWaitId id = sync_.wait_cpu(points, mode, std::move(done));
    EXPECT_TRUE(sync_.validate());
    return id;
  }
  bool gpu_wait(uint64_t context, std::vector<SyncPoint> points) {
    const bool satisfied = sync_.wait_gpu(ContextId{context}, points);
    EXPECT_TRUE(sync_.validate());
    return satisfied;
  }

  std::vector<uint64_t> woken_;
  SyncObjects sync_{[this](ContextId context) { woken_.push_back(context.value); }};
};

/// CPU waits have names, and are told apart by how they ended.
class NamedWaits : public SyncFixture {
 protected:
  CpuWaitId wait(int name, std::vector<SyncPoint> points, WaitMode mode = WaitMode::kAll) {
    return wait_cpu(std::move(points), mode, [this, name](Status status) {
      (is_success(status) ? ended_ : failed_).push_back(name);
    });
  }

  std::vector<int> ended_, failed_;
};

}  // namespace dxgkit::vidsch
