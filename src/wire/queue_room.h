// Whether a client's user may queue what a call is about to queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "dxgk/core/client_quota.h"

namespace dxgkit::wire {

/// Room in the scheduler's queues for the packets of one call, from its beginning to its end. The
/// packets that the call has queued count by themselves.
class QueueRoom {
 public:
  /// @param arguments  the structure of the function, as it came
  /// @param quota      null: there is no limit
  QueueRoom(std::shared_ptr<dxgk::ClientQuota> quota, uint32_t function,
            const std::byte* arguments);
  ~QueueRoom();
  QueueRoom(const QueueRoom&) = delete;
  QueueRoom& operator=(const QueueRoom&) = delete;

  /// The call must not be made.
  bool is_full() const { return is_full_; }

 private:
  std::shared_ptr<dxgk::ClientQuota> quota_;
  uint64_t packets_ = 0;
  bool is_full_ = false;
};

}  // namespace dxgkit::wire
