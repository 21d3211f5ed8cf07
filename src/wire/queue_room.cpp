#include "wire/queue_room.h"

#include <d3dkmthk.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace dxgkit::wire {
namespace {

/// A function that queues a packet, and one more for each context or queue that it broadcasts to.
struct Queueing {
  std::string_view function;
  size_t broadcasts = 0;  // where their number is; 0: it has none
};
constexpr std::array kQueueing = {
    Queueing{"D3DKMTPresent", offsetof(D3DKMT_PRESENT, BroadcastContextCount)},
    Queueing{"D3DKMTPresentMultiPlaneOverlay",
             offsetof(D3DKMT_PRESENT_MULTIPLANE_OVERLAY, BroadcastContextCount)},
    Queueing{"D3DKMTPresentMultiPlaneOverlay2",
             offsetof(D3DKMT_PRESENT_MULTIPLANE_OVERLAY2, BroadcastContextCount)},
    Queueing{"D3DKMTPresentMultiPlaneOverlay3"},
    Queueing{"D3DKMTRender", offsetof(D3DKMT_RENDER, BroadcastContextCount)},
    Queueing{"D3DKMTSignalSynchronizationObject"},
    Queueing{"D3DKMTSignalSynchronizationObject2",
             offsetof(D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2, BroadcastContextCount)},
    Queueing{"D3DKMTSignalSynchronizationObjectFromGpu"},
    Queueing{"D3DKMTSignalSynchronizationObjectFromGpu2",
             offsetof(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2, BroadcastContextCount)},
    Queueing{"D3DKMTSubmitCommand", offsetof(D3DKMT_SUBMITCOMMAND, BroadcastContextCount)},
    Queueing{"D3DKMTSubmitCommandToHwQueue"},
    Queueing{"D3DKMTSubmitSignalSyncObjectsToHwQueue",
             offsetof(D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE, BroadcastHwQueueCount)},
    Queueing{"D3DKMTSubmitWaitForSyncObjectsToHwQueue"},
    Queueing{"D3DKMTWaitForSynchronizationObject"},
    Queueing{"D3DKMTWaitForSynchronizationObject2"},
    Queueing{"D3DKMTWaitForSynchronizationObjectFromGpu"},
};

}  // namespace

QueueRoom::QueueRoom(std::shared_ptr<dxgk::ClientQuota> quota, std::string_view function,
                     const std::byte* arguments)
    : quota_(std::move(quota)) {
  if (quota_ == nullptr) return;
  const auto* const found = std::ranges::find(kQueueing, function, &Queueing::function);
  if (found == kQueueing.end()) return;
  uint32_t broadcasts = 0;
  if (found->broadcasts != 0)
    std::memcpy(&broadcasts, arguments + found->broadcasts, sizeof broadcasts);
  // The kernel refuses more.
  packets_ = 1 + uint64_t{std::min<uint32_t>(broadcasts, D3DDDI_MAX_BROADCAST_CONTEXT)};
  is_full_ = !quota_->enter(packets_);
}

QueueRoom::~QueueRoom() {
  if (packets_ != 0 && !is_full_) quota_->leave(packets_);
}

}  // namespace dxgkit::wire
