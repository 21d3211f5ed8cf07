#include "dxgk/work/render_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "base/guarded_copy.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/client_memory.h"
#include "dxgk/core/late_selection.h"
#include "dxgk/memory/residency.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

RenderStream::RenderStream(Context& context)
    : context_(context), checks_(context.device().floor().core), capture_(context.device()) {}

/// Nobody else sees the context yet.
Status RenderStream::allocate() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  const port::ContextInfo& info = context_.info();
  return memory_.allocate(info.dma_buffer_bytes, info.allocation_list_size, info.patch_list_size,
                          quota_of(context_.device().process()));
}

void RenderStream::open_pool() {
  pool_ = std::make_unique<DmaBufferPool>(context_.device().floor(), context_.info(),
                                          quota_of(context_.device().process()));
}

void RenderStream::clear() {
  if (pool_) pool_->clear();
}

ClientBuffers RenderStream::buffers() {
  const RenderTurns::Turn turn(context_.turns());
  return memory_.buffers();
}

void RenderStream::list_uses(const DmaBuffer& buffer, uint32_t patch_start, uint32_t patch_length,
                             std::vector<vidmm::Use>* list) {
  std::vector<vidmm::Use>& uses = *list;
  uses.clear();
  // Memory is brought in for what the patch list references; list entries nobody patches stay where
  // they are.
  // Where devices list what they need, only the DMA buffer's own place is the packet's business.
  if (context_.device().floor().core.facts().explicit_residency) patch_length = 0;
  seen_.assign(buffer.allocation_count, 0);
  uint32_t unseen = buffer.allocation_count;
  for (uint32_t i = patch_start; unseen != 0 && i < patch_start + patch_length; ++i) {
    const uint32_t index = buffer.patches[i].allocation_index;
    if (seen_[index] != 0) continue;
    seen_[index] = 1;
    --unseen;
    const OpenedAllocation* opened = buffer.references[index];
    if (opened == nullptr) continue;
    const bool write = buffer.allocations[index].write();
    Allocation& allocation = *opened->allocation;
    // A guess, so that nobody has to search: two entries may name one allocation.
    const uint32_t place = allocation.listed_at;
    if (place < uses.size() && uses[place].allocation == allocation.id) {
      uses[place].write = uses[place].write || write;
      continue;
    }
    allocation.listed_at = static_cast<uint32_t>(uses.size());
    uses.push_back({allocation.id, write});
  }
  if (buffer.memory.value != 0) uses.push_back({buffer.memory, false});
}

Status RenderStream::render(const RenderRequest& request, uint32_t* queued) {
  const RenderTurns::Turn turn(context_.turns());
  if (turn.over() || context_.virtual_addressing()) return Status::kInvalidParameter;
  WorkFloor& floor = context_.device().floor();
  Device& device = context_.device();
  const port::ContextInfo& info = context_.info();
  if (device.lost()) return Status::kDeviceRemoved;
  const ClientBuffers& buffers = memory_.buffers();
  if (!range_within(request.command_offset, request.command_length, buffers.command_bytes))
    return Status::kInvalidParameter;
  if (request.command_length == 0) return Status::kInvalidParameter;
  if (request.allocation_count > buffers.allocation_count) return Status::kInvalidParameter;
  if (request.patch_count > buffers.patch_count) return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(check_broadcast(request));
  // The client can write its list while we look: read it once (THUNK-02).
  std::vector<ClientAllocation>& list = capture_.client_list();
  list.resize(request.allocation_count);
  if (request.allocation_count != 0 &&
      !guarded_copy(list.data(), buffers.allocations,
                    request.allocation_count * sizeof(ClientAllocation))) {
    return Status::kInvalidParameter;
  }

  uint32_t multipass_offset = 0;
  uint32_t without_progress = 0;
  uint32_t standing = 0;
  Status outcome = Status::kSuccess;
  for (;;) {
    DmaBuffer* buffer = nullptr;
    DXGKIT_RETURN_IF_FAILED(begin_pass(Listed::kByClient, &buffer));
    port::RenderArgs args;
    args.context = info.handle;
    args.render_km = request.render_km;
    args.command = buffers.command + request.command_offset;
    args.command_length = request.command_length;
    args.buffer = buffer->view;
    args.allocations = buffer->allocations.data();
    args.allocation_count = buffer->allocation_count;
    args.patches_in = buffers.patches;
    args.patches_in_count = request.patch_count;
    args.patches_out = buffer->patches.data();
    args.patches_out_capacity = patch_room(*buffer);
    args.multipass_offset = multipass_offset;
    const port::WriteGuard behind = patch_guard(*buffer);
    const port::RenderResult result = floor.core.port().rendering().render(args);
    if (const auto damage = behind.damage(); damage.has_value()) [[unlikely]] {
      patches_overrun(*buffer, *damage, "DxgkDdiRender");
      outcome = Status::kDeviceRemoved;
      break;
    }
    const bool more = result.status == Status::kGraphicsInsufficientDmaBuffer;
    if (!more && result.status != Status::kSuccess) {
      outcome = result.status;
      abandon_pass(*buffer);
      if (outcome == Status::kGraphicsGpuExceptionOnDevice) {  // REND-15
        floor.core.lane().run(
            [&]() DXGKIT_REQUIRES(on_lane) { device.set_error(DeviceState::kErrorDmaFault); });
      }
      break;
    }
    if (more && device.info().guaranteed_contract) {
      break_contract(*buffer, result.dma_bytes);
      outcome = Status::kDeviceRemoved;
      break;
    }
    if (more) {
      const bool moved = result.multipass_offset != multipass_offset;
      without_progress = moved || result.dma_bytes != 0 ? 0 : without_progress + 1;
      standing = moved ? 0 : standing + 1;
      if (without_progress >= kPassesWithoutProgress || standing >= kPassesAtOneOffset) {
        const bool nothing = without_progress >= kPassesWithoutProgress;
        floor.core.findings().report(verifier::Finding{
            .rule = "REND-09",
            .severity = verifier::Severity::kViolation,
            .ddi = "DxgkDdiRender",
            .actual = nothing
                          ? fmt::format("It asked for another DMA buffer {} times without writing "
                                        "anything or moving MultipassOffset ({}).",
                                        without_progress, multipass_offset)
                          : fmt::format("It filled {} DMA buffers, and MultipassOffset was {} "
                                        "after each of them.",
                                        standing, multipass_offset),
            .expected =
                "Each pass into an empty DMA buffer translates a part of the command buffer.",
            .fix = nothing ? "Write what fits, advance pDmaBuffer and MultipassOffset, or ask for "
                             "a larger DMA buffer at context creation."
                           : "Begin each pass where MultipassOffset says that the last one ended.",
            .why = nothing ? "" : "MultipassOffset is all that a pass knows of those before it."});
        abandon_pass(*buffer);
        outcome = Status::kInvalidParameter;
        break;
      }
      multipass_offset = result.multipass_offset;
    }
    // One pass of several may hold just those commands that use nothing of the list.
    if (!more && args.multipass_offset == 0) checks_.check_references(*buffer, result);
    outcome = end_pass(*buffer, result, request, queued);
    if (!more || outcome != Status::kSuccess) break;
  }
  if (outcome != Status::kSuccess) return outcome;
  // THUNK-15: resizing is a wish; what cannot be had leaves the buffers as they are.
  const auto wish = [](uint32_t asked, uint32_t least, uint32_t now, uint32_t most) {
    return asked == 0 ? now : std::clamp(asked, least, most);
  };
  const uint32_t command_bytes = wish(request.resize_command_bytes, info.dma_buffer_bytes,
                                      buffers.command_bytes, CommandMemory::kMaxCommandBytes);
  const uint32_t allocations = wish(request.resize_allocations, info.allocation_list_size,
                                    buffers.allocation_count, CommandMemory::kMaxListEntries);
  const uint32_t patches = wish(request.resize_patches, info.patch_list_size, buffers.patch_count,
                                CommandMemory::kMaxListEntries);
  if (command_bytes != buffers.command_bytes || allocations != buffers.allocation_count ||
      patches != buffers.patch_count) {
    static_cast<void>(memory_.allocate(command_bytes, allocations, patches,
                                       quota_of(context_.device().process())));
  }
  return Status::kSuccess;
}

Status RenderStream::begin_pass(Listed listed, DmaBuffer** out) {
  Device& device = context_.device();
  Status status = Status::kSuccess;
  DmaBuffer* buffer = nullptr;
  device.floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) DXGKIT_REQUIRES(in_turn) {
    if (device.lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    status = listed == Listed::kByClient ? capture_.capture_list() : capture_.check_captured();
    if (!is_success(status)) return;
    Result<DmaBuffer*> acquired = pool_->acquire();
    if (!acquired.has_value()) {
      status = acquired.error();
      return;
    }
    buffer = *acquired;
    buffer->users = 1;  // this call, until the packet is queued
    const size_t patch_capacity =
        std::max<size_t>(context_.info().patch_list_size, memory_.buffers().patch_count) +
        kSparePatches;
    if (buffer->patches.size() < patch_capacity) buffer->patches.resize(patch_capacity);
    capture_.fill(*buffer);
  });
  *out = buffer;
  return status;
}

void RenderStream::break_contract(DmaBuffer& buffer, uint32_t written) {
  abandon_pass(buffer);
  context_.device().floor().core.fail(
      {.rule = "REND-10",
       .severity = verifier::Severity::kBugCheck,
       .ddi = "DxgkDdiRender",
       .actual = fmt::format("It asked for another DMA buffer after {} of {} bytes.", written,
                             context_.info().dma_buffer_bytes),
       .expected = "With GuaranteedDmaBufferContract one command buffer becomes one DMA buffer.",
       .fix = "Make DmaBufferSize large enough for the largest command buffer, or leave the flag "
              "clear at DxgkDdiCreateDevice.",
       .bugcheck_code = 0x10E,
       .bugcheck_parameter = 0x16});
}

void RenderStream::patches_overrun(DmaBuffer& buffer, const port::WriteGuard::Damage& damage,
                                   const char* ddi) {
  const uint32_t room = patch_room(buffer);
  abandon_pass(buffer);
  context_.device().floor().core.fail(
      {.rule = "REND-08",
       .severity = verifier::Severity::kBugCheck,
       .ddi = ddi,
       .actual = fmt::format("It wrote {:#04x} {} bytes behind the end of pPatchLocationListOut, "
                             "whose size is {} elements.",
                             damage.value, damage.first, room),
       .expected = fmt::format("It writes at most {} elements.", room),
       .fix = "Compare PatchLocationListOutSize with the elements written so far before each one, "
              "and return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER when it does not do.",
       .bugcheck_code = 0x10E,
       .bugcheck_parameter = 0x12});
}

void RenderStream::abandon_pass(DmaBuffer& buffer) {
  WorkFloor& floor = context_.device().floor();
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    DmaBufferPool::drop_user(buffer);
    floor.core.progress();
  });
}

void RenderStream::queue_pass(DmaBuffer& buffer, const port::RenderResult& result,
                              const RenderRequest& request) {
  WorkFloor& floor = context_.device().floor();
  Packet& packet = floor.submission->packets().create();
  packet.kind = vidsch::PacketKind::kRender;
  packet.context = &context_;
  packet.driver_context = context_.info().handle;
  packet.buffer = &buffer;
  packet.slice.end = result.dma_bytes;
  packet.slice.private_end = result.private_bytes;
  packet.patch_length = result.patch_count;
  packet.flags.null_rendering = request.null_rendering || context_.null_rendering();
  packet.flags.redirected_present = request.present_redirected;
  packet.flags.present = request.present;
  packet.counts_as_present = request.counts_as_present;
  if (request.counts_as_present) ++context_.device().queued_presents;
  list_uses(buffer, 0, result.patch_count, &packet.uses);
  if (request.flip != nullptr) context_.presents().begin_flip(packet, *request.flip);
  context_.presents().wait_for_flips(context_.presents().written_in(buffer));
  if (floor.core.facts().explicit_residency)
    floor.residency->packet_queued(context_.device().memory(), packet.residency);
  floor.submission->queue(packet);
}

Status RenderStream::end_pass(DmaBuffer& buffer, const port::RenderResult& result,
                              const RenderRequest& request, uint32_t* queued) {
  WorkFloor& floor = context_.device().floor();
  Status status =
      checks_.check_patches(buffer, result, request.present ? "DxgkDdiPresent" : "DxgkDdiRender");
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (is_success(status) && context_.device().lost()) status = Status::kDeviceRemoved;
    if (result.status == Status::kGraphicsInsufficientDmaBuffer)
      ++floor.core.counters().multipass_renders;
    if (is_success(status) && result.dma_bytes != 0) {
      buffer.patch_count = result.patch_count;
      status = queue_everywhere(buffer, result, request);
    }
    DmaBufferPool::drop_user(buffer);
    select_after_call(floor.core, floor.adapter);
    *queued = static_cast<uint32_t>(floor.core.scheduler().packets_of(context_.id()));
  });
  return status;
}

}  // namespace dxgkit::dxgk
