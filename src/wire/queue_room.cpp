#include "wire/queue_room.h"

#include <d3dkmthk.h>

#include <algorithm>
#include <cstring>

#include "wire/call_traits.h"

namespace dxgkit::wire {

QueueRoom::QueueRoom(std::shared_ptr<dxgk::ClientQuota> quota, uint32_t function,
                     const std::byte* arguments)
    : quota_(std::move(quota)) {
  if (quota_ == nullptr) return;
  const CallTraits& traits = traits_of(function);
  if (!traits.queues) return;
  uint32_t broadcasts = 0;
  if (traits.broadcasts != 0)
    std::memcpy(&broadcasts, arguments + traits.broadcasts, sizeof broadcasts);
  // The kernel refuses more.
  packets_ = 1 + uint64_t{std::min<uint32_t>(broadcasts, D3DDDI_MAX_BROADCAST_CONTEXT)};
  is_full_ = !quota_->enter(packets_);
}

QueueRoom::~QueueRoom() {
  if (packets_ != 0 && !is_full_) quota_->leave(packets_);
}

}  // namespace dxgkit::wire
