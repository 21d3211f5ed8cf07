#include "dxgk/work/virtual_submissions.h"

#include <algorithm>

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/late_selection.h"
#include "dxgk/memory/residency.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

Status VirtualSubmissions::check(const VirtualSubmission& submission) const {
  if (!context_.virtual_addressing()) return Status::kInvalidParameter;
  if (context_.device().lost()) return Status::kDeviceRemoved;
  return submission.private_data.size() <= context_.info().dma_private_bytes
             ? Status::kSuccess
             : Status::kInvalidParameter;
}

Status VirtualSubmissions::submit(const VirtualSubmission& submission) {
  const RenderTurns::Turn turn(context_.turns());
  if (turn.over()) return Status::kInvalidParameter;
  WorkFloor& floor = context_.device().floor();
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (context_.device().lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    for (const Ref<OpenedAllocation>& primary : submission.written_primaries) {
      if (!primary->closing && primary->listing.count != 0) continue;
      context_.device().set_error(DeviceState::kErrorOutOfMemory);  // RES-26
      status = Status::kDeviceRemoved;
      return;
    }
    Packet& packet = floor.submission->packets().create();
    packet.kind = vidsch::PacketKind::kRender;
    packet.context = &context_;
    packet.driver_context = context_.driver_handle();
    packet.flags.null_rendering = submission.null_rendering || context_.null_rendering();
    packet.command.address = submission.commands;
    packet.command.bytes = submission.bytes;
    packet.command.user_private_bytes = static_cast<uint32_t>(submission.private_data.size());
    packet.command.private_data.assign(context_.info().dma_private_bytes, std::byte{0});
    std::ranges::copy(submission.private_data, packet.command.private_data.begin());
    context_.presents().wait_for_flips(submission.written_primaries);
    floor.residency->packet_queued(context_.device().memory(), packet.residency);
    floor.submission->queue(packet);
    select_after_call(floor.core, floor.adapter);
  });
  return status;
}

}  // namespace dxgkit::dxgk
