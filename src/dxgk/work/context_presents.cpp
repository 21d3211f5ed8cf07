#include "dxgk/work/context_presents.h"

#include <fmt/format.h>

#include "dxgk/core/adapter_core.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/render_stream.h"
#include "dxgk/work/screen_flips.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

Status ContextPresents::present(const PresentRequest& request) {
  const RenderTurns::Turn turn(context_.turns());
  if (turn.over()) return Status::kInvalidParameter;
  WorkFloor& floor = context_.device().floor();
  if (context_.device().lost()) return Status::kDeviceRemoved;
  if (!floor.core.port().has_entry("DxgkDdiPresent")) return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(present_limit(request));
  if (!request.flags.flip) {
    // Their DMA buffer would need an address in the process's space.
    if (context_.virtual_addressing()) return Status::kInvalidParameter;
    return present_by_buffer(request, nullptr);
  }
  FlipSubmission flip;
  flip.source = request.vidpn_source;
  flip.surface = request.source;
  flip.interval = request.flip_interval;
  flip.mode = request.mode;
  flip.contexts.push_back(&context_);
  for (const Ref<Context>& other : request.broadcast) flip.contexts.push_back(other.get());
  ScreenFlips& flips = *floor.flips;
  Status status = Status::kSuccess;
  const bool asked = floor.core.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    status = context_.device().lost() ? Status::kDeviceRemoved : flips.prepare(flip);
    return status != Status::kRetry;
  });
  if (!asked) status = Status::kDeviceRemoved;
  if (!is_success(status)) {
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { flips.abandon(flip); });
    return status;
  }
  const bool immediate_by_register = flip.interval == 0 && flips.ways().immediate_by_register;
  return flips.ways().by_register || immediate_by_register || context_.virtual_addressing()
             ? present_by_register(request, flip)
             : present_by_buffer(request, &flip);
}

Status ContextPresents::present_limit(const PresentRequest& request) {
  WorkFloor& floor = context_.device().floor();
  Status status = Status::kSuccess;
  const bool asked = floor.core.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    status = context_.device().lost() ? Status::kDeviceRemoved : Status::kSuccess;
    if (!is_success(status)) return true;
    const bool over = request.flags.flip
                          ? floor.flips->pending(context_.device()) >= context_.device().flip_limit
                          : context_.device().queued_presents >= context_.device().present_limit;
    if (!over) return true;
    if (request.do_not_wait) status = Status::kGraphicsAllocationBusy;
    return request.do_not_wait;
  });
  return asked ? status : Status::kDeviceRemoved;
}

Status ContextPresents::present_by_register(const PresentRequest& request,
                                            const FlipSubmission& flip) {
  WorkFloor& floor = context_.device().floor();
  ScreenFlips& flips = *floor.flips;
  port::PresentArgs args;  // REND-20: without a DMA buffer
  args.context = context_.driver_handle();
  args.flags = request.flags;
  args.flags.flip_with_no_wait = flips.ways().no_wait;
  args.flip_interval = request.flip_interval;
  args.destination = request.destination_rect;
  args.source = request.source_rect;
  args.private_data = request.private_data;
  port::AllocationListEntry list[3];
  port::PresentSurface surface;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const vidmm::Placement place = floor.core.memory().placement(request.source->allocation->id);
    list[1].device_handle = request.source->device_specific;
    list[1].set(false, place.segment, place.gpu_address);
    surface = {request.source->device_specific, 0, place.gpu_address, place.segment.value};
  });
  args.allocations = list;
  if (context_.virtual_addressing()) {
    args.surfaces = std::span(&surface, 1);
    args.source_count = 1;
  }
  const port::RenderResult result = floor.core.port().rendering().present(args);
  Status status = result.status == Status::kGraphicsInsufficientDmaBuffer
                      ? Status::kInvalidParameter
                      : result.status;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (is_success(status) && context_.device().lost()) status = Status::kDeviceRemoved;
    if (!is_success(status)) {
      flips.abandon(flip);
      if (status == Status::kGraphicsGpuExceptionOnDevice)  // REND-15
        context_.device().set_error(DeviceState::kErrorDmaFault);
      return;
    }
    const uint64_t id = flips.queue(flip, false);
    for (Context* context : flip.contexts) {
      // The flip is made when everything before it in its contexts is done.
      Packet& reached = floor.submission->packets().create();
      reached.kind = vidsch::PacketKind::kSignal;
      reached.context = context;
      reached.flip = id;
      reached.vidpn_source = flip.source;
      floor.submission->queue(reached);
      if (flips.ways().no_wait || flip.interval == 0) continue;
      Packet& shown = floor.submission->packets().create();  // DISP-05
      shown.kind = vidsch::PacketKind::kWait;
      shown.context = context;
      shown.points.push_back(flips.end_of(flip.source, id));
      floor.submission->queue(shown);
    }
    floor.core.pump();
  });
  return status;
}

Status ContextPresents::present_by_buffer(const PresentRequest& request,
                                          const FlipSubmission* flip) {
  WorkFloor& floor = context_.device().floor();
  RenderStream& stream = context_.rendering();
  CapturedAllocation list[3];             // REND-17
  list[1].opened = request.source.get();  // kept alive by the request
  list[2].opened = request.destination.get();
  list[2].write = true;
  list[2].on_screen = true;
  list[1].on_screen = flip != nullptr;
  stream.capture().set(list);
  RenderRequest queued_as;
  queued_as.present = true;
  queued_as.counts_as_present = flip == nullptr;
  uint32_t multipass_offset = 0, without_progress = 0, queued = 0;
  bool flipped = flip == nullptr;
  Status outcome = Status::kSuccess;
  for (;;) {
    DmaBuffer* buffer = nullptr;
    outcome = stream.begin_pass(RenderStream::Listed::kByKernel, &buffer);
    if (!is_success(outcome)) break;
    port::PresentArgs args;
    args.context = context_.driver_handle();
    args.flags = request.flags;
    if (flip != nullptr) args.flags.flip_with_no_wait = floor.flips->ways().no_wait;
    args.buffer = buffer->view;
    args.allocations = buffer->allocations.data();
    args.patches_out = buffer->patches.data();
    args.patches_out_capacity = RenderStream::patch_room(*buffer);
    args.multipass_offset = multipass_offset;
    args.color = request.color;
    args.destination = request.destination_rect;
    args.source = request.source_rect;
    args.sub_rects = request.sub_rects;  // the whole list in each pass (REND-18)
    args.flip_interval = request.flip_interval;
    args.private_data = request.private_data;
    const port::WriteGuard behind = RenderStream::patch_guard(*buffer);
    const port::RenderResult result = floor.core.port().rendering().present(args);
    if (const auto damage = behind.damage(); damage.has_value()) [[unlikely]] {
      stream.patches_overrun(*buffer, *damage, "DxgkDdiPresent");
      outcome = Status::kDeviceRemoved;
      break;
    }
    const bool more = result.status == Status::kGraphicsInsufficientDmaBuffer;
    if (!more && result.status != Status::kSuccess) {
      outcome = result.status;
      stream.abandon_pass(*buffer);
      if (outcome == Status::kGraphicsGpuExceptionOnDevice)  // REND-15
        floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
          context_.device().set_error(DeviceState::kErrorDmaFault);
        });
      break;
    }
    const bool progress = result.dma_bytes != 0 || result.multipass_offset != multipass_offset;
    without_progress = progress ? 0 : without_progress + 1;
    if (more && without_progress >= RenderStream::kPassesWithoutProgress) {
      floor.core.findings().report(verifier::Finding{
          .rule = "REND-09",
          .severity = verifier::Severity::kViolation,
          .ddi = "DxgkDdiPresent",
          .actual = fmt::format("It asked for another DMA buffer {} times without writing anything "
                                "or moving MultipassOffset ({}).",
                                without_progress, multipass_offset),
          .expected = "Each pass into an empty DMA buffer does a part of the rectangles.",
          .fix = "Write what fits, advance pDmaBuffer and MultipassOffset."});
      stream.abandon_pass(*buffer);
      outcome = Status::kInvalidParameter;
      break;
    }
    multipass_offset = result.multipass_offset;
    if (!more && flip != nullptr) queued_as.flip = flip;  // the last part flips
    flipped = flipped || (!more && result.dma_bytes != 0);
    outcome = stream.end_pass(*buffer, result, queued_as, &queued);
    queued_as.counts_as_present = false;
    if (!more || outcome != Status::kSuccess) break;
  }
  stream.capture().clear();
  if (flip != nullptr && (!flipped || !is_success(outcome))) {
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { floor.flips->abandon(*flip); });
    if (is_success(outcome)) outcome = Status::kInvalidParameter;
  }
  return outcome;
}

void ContextPresents::begin_flip(Packet& packet, const FlipSubmission& flip) {
  ScreenFlips& flips = *context_.device().floor().flips;
  packet.flags.flip = true;
  packet.flags.flip_with_no_wait = flips.ways().no_wait;
  packet.vidpn_source = flip.source;
  packet.flip_interval = flip.interval;
  packet.flip = flips.queue(flip, true);
}

std::vector<Ref<OpenedAllocation>> ContextPresents::written_in(const DmaBuffer& buffer) const {
  std::vector<Ref<OpenedAllocation>> written;
  if (context_.device().floor().flips == nullptr) return written;
  for (uint32_t i = 0; i < buffer.allocation_count; ++i) {
    OpenedAllocation* const reference = buffer.references[i];
    if (reference != nullptr && buffer.allocations[i].write() && reference->allocation->primary)
      written.emplace_back(reference);
  }
  return written;
}

void ContextPresents::wait_for_flips(std::span<const Ref<OpenedAllocation>> written) {
  WorkFloor& floor = context_.device().floor();
  if (floor.flips == nullptr) return;
  std::vector<vidsch::SyncPoint> points;
  for (const Ref<OpenedAllocation>& opened : written) {
    if (const auto point = floor.flips->before_write(*opened); point.has_value())
      points.push_back(*point);
  }
  if (points.empty()) return;
  Packet& wait = floor.submission->packets().create();
  wait.kind = vidsch::PacketKind::kWait;
  wait.context = &context_;
  wait.points = std::move(points);
  floor.submission->queue(wait);
}

}  // namespace dxgkit::dxgk
