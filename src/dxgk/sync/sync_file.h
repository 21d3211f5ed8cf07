// Sync files: a monitored fence and a value of it, as a descriptor.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/sync/sync_object.h"
#include "runtime/thread_annotations.h"
#include "vidsch/sync_objects.h"

namespace dxgkit::dxgk {

/// What the descriptors of one sync file name (SYNC-39). The descriptor is one end of a pair of
/// sockets: it reads as ended, and poll() reports POLLIN, from the moment when the fence has
/// reached the value or has been destroyed. It never becomes unsignalled.
///
/// A client may hand the descriptor to any process, which needs no D3DKMT to wait for it.
class SyncFile : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kSyncFile;
  /// `sync` has been held for this.
  SyncFile(Ref<SharedSync> sync, uint64_t value);
  ~SyncFile() override;

  /// Signals `kernel_end`, which it duplicates, when the fence has reached the value. Once, before
  /// clients know the descriptor; not on the lane. kNoMemory: no descriptor is left.
  Status watch(int kernel_end);

  const Ref<SharedSync>& sync() const { return sync_; }
  uint64_t value() const { return value_; }

 private:
  const Ref<SharedSync> sync_;
  const uint64_t value_;
  int end_ = -1;
  bool waiting_ DXGKIT_GUARDED_BY(on_lane) = false;
  vidsch::CpuWaitId wait_ DXGKIT_GUARDED_BY(on_lane) = 0;
};

}  // namespace dxgkit::dxgk
