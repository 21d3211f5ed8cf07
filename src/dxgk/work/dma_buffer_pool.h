// DMA buffers of one context, reused once every packet that covers them has left.
#pragma once

#include <memory>
#include <vector>

#include "bus/machine.h"
#include "dxgk/core/client_quota.h"
#include "dxgk/work/packet.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class AdapterCore;
struct MemoryFloor;

/// Lane: the adapter's.
class DmaBufferPool {
 public:
  /// `quota`: whose memory the buffers are; null: nobody counts them.
  DmaBufferPool(MemoryFloor& floor, const port::ContextInfo& info,
                std::shared_ptr<ClientQuota> quota = nullptr);
  /// All buffers must be back.
  ~DmaBufferPool();

  /// A free buffer, at least as large as the driver asked at creation, with private data zero when
  /// it is new (REND-02). kNoMemory: none, or over the quota; state unchanged.
  Result<DmaBuffer*> acquire() DXGKIT_REQUIRES(on_lane);
  /// The buffer's last user is gone: drops the references it kept.
  void recycle(DmaBuffer& buffer) DXGKIT_REQUIRES(on_lane);
  /// Free buffers go; for context destruction.
  void clear() DXGKIT_REQUIRES(on_lane);
  /// A packet, or whoever filled the buffer, is done with it. The last one recycles it.
  static void drop_user(DmaBuffer& buffer) DXGKIT_REQUIRES(on_lane);

 private:
  Result<std::unique_ptr<DmaBuffer>> make_buffer() DXGKIT_REQUIRES(on_lane);

  MemoryFloor& floor_;
  AdapterCore& core_;
  const port::ContextInfo info_;
  const std::shared_ptr<ClientQuota> quota_;
  std::vector<MemoryCharge> charges_;  // of the buffers
  std::vector<std::unique_ptr<DmaBuffer>> buffers_;
  std::vector<DmaBuffer*> free_;
};

}  // namespace dxgkit::dxgk
