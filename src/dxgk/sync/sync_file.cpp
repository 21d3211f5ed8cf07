#include "dxgk/sync/sync_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/sync/sync_floor.h"

namespace dxgkit::dxgk {

SyncFile::SyncFile(Ref<SharedSync> sync, uint64_t value)
    : Object(kType), sync_(std::move(sync)), value_(value) {}

SyncFile::~SyncFile() {
  if (end_ < 0) return;
  AdapterCore& core = sync_->floor().core;
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (waiting_) static_cast<void>(core.scheduler().sync_objects().cancel_wait(wait_));
  });
  close(end_);
}

Status SyncFile::watch(int kernel_end) {
  end_ = fcntl(kernel_end, F_DUPFD_CLOEXEC, 0);
  if (end_ < 0) return Status::kNoMemory;
  AdapterCore& core = sync_->floor().core;
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    waiting_ = true;
    const std::array points = {vidsch::SyncPoint{.object = sync_->id, .value = value_}};
    const vidsch::CpuWaitId id = core.scheduler().sync_objects().wait_cpu(
        points, vidsch::WaitMode::kAll, [this](Status) DXGKIT_REQUIRES(on_lane) {
          waiting_ = false;
          // To the other end it reads as if this end had been closed.
          static_cast<void>(shutdown(end_, SHUT_WR));
        });
    wait_ = id;
  });
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
