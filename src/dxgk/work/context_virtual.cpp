// Submission to contexts with virtual addressing: the client's buffer goes to the driver as it is.
#include <algorithm>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/residency.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

Status Context::check_virtual(const VirtualSubmission& submission) {
  if (!virtual_) return Status::kInvalidParameter;
  if (device_->lost()) return Status::kDeviceRemoved;
  return submission.private_data.size() <= info_.dma_private_bytes ? Status::kSuccess
                                                                   : Status::kInvalidParameter;
}

Status Context::submit_virtual(const VirtualSubmission& submission) {
  runtime::MutexLock lock(render_mutex_);
  if (destroyed_) return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(check_virtual(submission));
  WorkFloor& floor = device_->floor();
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (device_->lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    for (const Ref<OpenedAllocation>& primary : submission.written_primaries) {
      if (!primary->closing && primary->listing.count != 0) continue;
      device_->set_error(DeviceState::kErrorOutOfMemory);  // RES-26
      status = Status::kDeviceRemoved;
      return;
    }
    Packet& packet = floor.submission->packets().create();
    packet.kind = vidsch::PacketKind::kRender;
    packet.context = this;
    packet.driver_context = info_.handle;
    packet.flags.null_rendering = submission.null_rendering || null_rendering_;
    packet.command.address = submission.commands;
    packet.command.bytes = submission.bytes;
    packet.command.user_private_bytes = static_cast<uint32_t>(submission.private_data.size());
    packet.command.private_data.assign(info_.dma_private_bytes, std::byte{0});
    std::ranges::copy(submission.private_data, packet.command.private_data.begin());
    wait_for_flips(submission.written_primaries);
    floor.residency->packet_queued(*device_, packet);
    floor.submission->queue(packet);
    floor.core.pump();
  });
  return status;
}

}  // namespace dxgkit::dxgk
