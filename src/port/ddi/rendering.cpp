#include "port/ddi/rendering.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/cut_memory.h"
#include "port/ddi/builder_outputs.h"
#include "port/ddi/lists.h"
#include "port/write_guard.h"

namespace dxgkit::port {
namespace {

static_assert(ValidateSubmitArgs::kMaxContexts ==
              std::size(decltype(DXGKARG_VALIDATESUBMITCOMMAND::Context){}));
constexpr DdiInfo kRender{"DxgkDdiRender", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kRenderKm{"DxgkDdiRenderKm", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kPresent{"DxgkDdiPresent", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr std::array kPresentDocumented = {Status::kSuccess,
                                           Status::kNoMemory,
                                           Status::kGraphicsInsufficientDmaBuffer,
                                           Status::kGraphicsCannotColorConvert,
                                           Status::kPrivilegedInstruction,
                                           Status::kIllegalInstruction,
                                           Status::kInvalidParameter,
                                           Status::kInvalidUserBuffer,
                                           Status::kInvalidHandle,
                                           Status::kGraphicsDriverMismatch,
                                           Status::kGraphicsGpuExceptionOnDevice};

RECT to_abi(const Rect& rect) { return {rect.left, rect.top, rect.right, rect.bottom}; }

/// A copy, because it may not be const. The driver's changes have no effect.
struct PresentScratch {
  std::vector<RECT> sub_rects;
  std::vector<DXGK_PRESENTALLOCATIONINFO> surfaces;
  std::vector<DXGK_PRESENTMULTIPLANEOVERLAYLIST> planes;
  DXGK_PRESENTMULTIPLANEOVERLAYINFO plane_info{};
};

void fill_present(const PresentArgs& args, uint32_t version, PresentScratch* scratch,
                  DXGKARG_PRESENT* out) {
  out->pDmaBuffer = args.buffer.cpu;
  out->DmaSize = args.buffer.cpu == nullptr ? 0 : args.buffer.size_bytes;
  out->MultipassOffset = args.multipass_offset;
  out->Color = args.color;
  out->DstRect = to_abi(args.destination);
  out->SrcRect = to_abi(args.source);
  for (const Rect& rect : args.sub_rects) scratch->sub_rects.push_back(to_abi(rect));
  out->SubRectCnt = static_cast<UINT>(scratch->sub_rects.size());
  out->pDstSubRects = scratch->sub_rects.empty() ? nullptr : scratch->sub_rects.data();
  out->FlipInterval = static_cast<D3DDDI_FLIPINTERVAL_TYPE>(args.flip_interval);
  out->Flags.Blt = args.flags.blt ? 1 : 0;
  out->Flags.ColorFill = args.flags.color_fill ? 1 : 0;
  out->Flags.Flip = args.flags.flip ? 1 : 0;
  out->Flags.FlipWithNoWait = args.flags.flip_with_no_wait ? 1 : 0;
  out->Flags.SrcColorKey = args.flags.source_key ? 1 : 0;
  out->Flags.DstColorKey = args.flags.destination_key ? 1 : 0;
  out->Flags.LinearToSrgb = args.flags.linear_to_srgb ? 1 : 0;
  out->Flags.Rotate = args.flags.rotate ? 1 : 0;
  out->DmaBufferSegmentId = args.buffer.segment.value;
  out->DmaBufferPhysicalAddress.QuadPart = static_cast<LONGLONG>(args.buffer.physical_address);
  if (!args.planes.empty()) {
    for (const PresentPlane& plane : args.planes) {
      DXGK_PRESENTMULTIPLANEOVERLAYLIST one{};
      one.LayerIndex = plane.layer;
      one.Enabled = plane.enabled ? TRUE : FALSE;
      one.hDeviceSpecificAllocation = plane.device_specific;
      one.SegmentId = plane.segment & 0x1F;
      one.PhysicalAddress.QuadPart = static_cast<LONGLONG>(plane.address);
      scratch->planes.push_back(one);
    }
    scratch->plane_info.VidPnSourceId = args.vidpn_source;
    scratch->plane_info.PlaneListCount = static_cast<UINT>(scratch->planes.size());
    scratch->plane_info.pPlaneList = scratch->planes.data();
    out->Flags.FlipWithMultiPlaneOverlay = 1;
    out->pPresentMultiPlaneOverlayInfo = &scratch->plane_info;
  } else if (args.surfaces.empty()) {
    out->pAllocationList = reinterpret_cast<DXGK_ALLOCATIONLIST*>(args.allocations);
  } else {
    for (const PresentSurface& surface : args.surfaces) {
      DXGK_PRESENTALLOCATIONINFO info{};
      info.hDeviceSpecificAllocation = surface.device_specific;
      info.AllocationVirtualAddress = surface.virtual_address;
      info.PhysicalAddress.QuadPart = static_cast<LONGLONG>(surface.physical_address);
      info.SegmentId = static_cast<WORD>(surface.segment);
      scratch->surfaces.push_back(info);
    }
    out->pAllocationInfo = scratch->surfaces.data();
  }
  if (version < kInterfaceWddm20) return;
  out->NumSrcAllocations = args.source_count;
  out->NumDstAllocations =
      args.surfaces.empty() ? 0 : static_cast<UINT>(args.surfaces.size()) - args.source_count;
  out->PrivateDriverDataSize = static_cast<UINT>(args.private_data.size());
  out->pPrivateDriverData = args.private_data.empty() ? nullptr : args.private_data.data();
}

constexpr DdiInfo kValidateSubmitCommand{"DxgkDdiValidateSubmitCommand", nt::kPassiveLevel,
                                         DdiClass::kLevelZero};

}  // namespace

RenderResult RenderingPort::render(const RenderArgs& args) {
  RenderResult result = call_render(args);
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->work.rendered(args, result);
  return result;
}

RenderResult RenderingPort::call_render(const RenderArgs& args) {
  RenderResult result;
  const auto entry = args.render_km ? core_.ddi.DxgkDdiRenderKm : core_.ddi.DxgkDdiRender;
  if (is_dead(core_) || entry == nullptr) {
    result.status = is_dead(core_) ? Status::kDeviceRemoved : Status::kNotSupported;
    return result;
  }
  const DdiInfo& info = args.render_km ? kRenderKm : kRender;
  DXGKARG_RENDER arguments{};
  arguments.pCommand = args.command;
  arguments.CommandLength = args.command_length;
  arguments.pDmaBuffer = args.buffer.cpu;
  arguments.DmaSize = args.buffer.size_bytes;
  std::byte* const private_data =
      args.buffer.private_size_bytes == 0 ? core_.guard_page : args.buffer.private_data;
  arguments.pDmaBufferPrivateData = private_data;
  arguments.DmaBufferPrivateDataSize = args.buffer.private_size_bytes;
  arguments.pAllocationList = const_cast<DXGK_ALLOCATIONLIST*>(to_abi(args.allocations));
  arguments.AllocationListSize = args.allocation_count;
  arguments.pPatchLocationListIn = const_cast<D3DDDI_PATCHLOCATIONLIST*>(to_abi(args.patches_in));
  arguments.PatchLocationListInSize = args.patches_in_count;
  auto* const patches_out = const_cast<D3DDDI_PATCHLOCATIONLIST*>(to_abi(args.patches_out));
  arguments.pPatchLocationListOut = patches_out;
  arguments.PatchLocationListOutSize = args.patches_out_capacity;
  if (core_.output_fill != std::byte{0}) [[unlikely]] {
    std::memset(patches_out, std::to_integer<int>(core_.output_fill),
                args.patches_out_capacity * sizeof(*patches_out));
    std::memset(args.buffer.cpu, std::to_integer<int>(core_.output_fill), args.buffer.size_bytes);
  }
  arguments.MultipassOffset = args.multipass_offset;
  arguments.DmaBufferSegmentId = args.buffer.segment.value;
  arguments.DmaBufferPhysicalAddress.QuadPart = static_cast<LONGLONG>(args.buffer.physical_address);
  const DmaBufferView& buffer = args.buffer;
  const bool check = core_.reference_checks;
  const WriteGuard behind(check && buffer.guarded ? buffer.cpu + buffer.size_bytes : nullptr);
  const WriteGuard behind_private(
      check && buffer.private_guarded ? buffer.private_data + buffer.private_size_bytes : nullptr);
  Status status = Status::kSuccess;
  uint32_t room = buffer.size_bytes;      // as the driver is told
  std::optional<WriteGuard> behind_room;  // where that is less
  std::optional<CutMemory> cut;           // the commands, where their end cannot be read
  {
    DdiCall call(core_, info, args.command_length);
    if (core_.faults != nullptr) [[unlikely]] {
      const uint32_t readable = core_.faults->readable_commands(args.command_length);
      if (readable < args.command_length) {
        cut.emplace(std::span(static_cast<const std::byte*>(args.command), readable));
        arguments.pCommand = cut->start();
      }
      arguments.DmaSize = room = core_.faults->room(info.name, args.buffer.size_bytes);
      if (check && uint64_t{room} + kGuardBytes <= buffer.size_bytes)
        behind_room.emplace(buffer.cpu + room);
    }
    status = call(entry, args.context, &arguments);
    if (!call.completed()) {
      result.status = status;
      return result;
    }
    if (core_.faults != nullptr && status == Status::kSuccess) [[unlikely]] {
      if (const uint32_t behind_end = core_.faults->overrun(info.name); behind_end != 0)
        arguments.pDmaBuffer = args.buffer.cpu + args.buffer.size_bytes + behind_end;
    }
  }
  const auto wrote_behind = [&](const WriteGuard::Damage& damage, const char* place,
                                const char* size_name, uint32_t size) {
    core_.fatal("REND-08", info.name, 0x10E, 0x12,
                fmt::format("It wrote {:#04x} {} bytes behind the end of the {}, whose {} is {}.",
                            damage.value, damage.first, place, size_name, size),
                fmt::format("It writes inside the {} bytes it was given.", size),
                "Check the room that is left before each write, and return "
                "STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER when it does not do.");
    result.status = Status::kUnsuccessful;
    return result;
  };
  if (const auto damage = behind.damage(); damage.has_value()) [[unlikely]]
    return wrote_behind(*damage, "DMA buffer", "DmaSize", buffer.size_bytes);
  if (behind_room.has_value()) [[unlikely]] {
    if (const auto damage = behind_room->damage(); damage.has_value())
      return wrote_behind(*damage, "DMA buffer", "DmaSize", room);
  }
  if (const auto damage = behind_private.damage(); damage.has_value()) [[unlikely]] {
    return wrote_behind(*damage, "private data", "DmaBufferPrivateDataSize",
                        buffer.private_size_bytes);
  }
  constexpr std::array kDocumented = {Status::kSuccess,
                                      Status::kNoMemory,
                                      Status::kGraphicsInsufficientDmaBuffer,
                                      Status::kPrivilegedInstruction,
                                      Status::kIllegalInstruction,
                                      Status::kInvalidParameter,
                                      Status::kInvalidUserBuffer,
                                      Status::kInvalidHandle,
                                      Status::kGraphicsDriverMismatch,
                                      Status::kGraphicsGpuExceptionOnDevice};
  if (std::ranges::find(kDocumented, status) == kDocumented.end()) [[unlikely]] {
    result.status = core_.violation(
        "REND-16", info.name, fmt::format("It returned {}.", hex(status)),
        "One of the ten documented codes; the caller gets STATUS_INVALID_PARAMETER for any other.",
        "Map the failure to a documented code.", Status::kInvalidParameter);
    return result;
  }
  result.status = status;
  result.multipass_offset = arguments.MultipassOffset;
  if (status != Status::kSuccess && status != Status::kGraphicsInsufficientDmaBuffer) return result;
  measure_outputs(core_, info,
                  {.dma = {args.buffer.cpu, arguments.pDmaBuffer, room},
                   .patches = {patches_out, arguments.pPatchLocationListOut,
                               uint64_t{args.patches_out_capacity} * sizeof(PatchLocation)},
                   .private_data = {private_data, arguments.pDmaBufferPrivateData,
                                    args.buffer.private_size_bytes}},
                  &result);
  return result;
}

RenderResult RenderingPort::present(const PresentArgs& args) {
  RenderResult result;
  if (is_dead(core_) || core_.ddi.DxgkDdiPresent == nullptr) {
    result.status = is_dead(core_) ? Status::kDeviceRemoved : Status::kNotSupported;
    return result;
  }
  DXGKARG_PRESENT arguments{};
  PresentScratch scratch;
  fill_present(args, core_.version, &scratch, &arguments);
  std::byte* const private_data =
      args.buffer.private_size_bytes == 0 ? core_.guard_page : args.buffer.private_data;
  arguments.pDmaBufferPrivateData = private_data;
  arguments.DmaBufferPrivateDataSize = args.buffer.private_size_bytes;
  auto* const patches = reinterpret_cast<D3DDDI_PATCHLOCATIONLIST*>(args.patches_out);
  arguments.pPatchLocationListOut = patches;
  arguments.PatchLocationListOutSize = args.patches_out_capacity;
  const bool check = core_.reference_checks;
  const DmaBufferView& buffer = args.buffer;
  const WriteGuard behind(
      check && buffer.guarded && buffer.cpu != nullptr ? buffer.cpu + buffer.size_bytes : nullptr);
  const WriteGuard behind_private(
      check && buffer.private_guarded ? buffer.private_data + buffer.private_size_bytes : nullptr);
  {
    if (core_.situations != nullptr) [[unlikely]]
      core_.situations->work.presented(args);
    DdiCall call(core_, kPresent, args.flags.flip ? 1 : 0);
    result.status = call(core_.ddi.DxgkDdiPresent, args.context, &arguments);
    if (!call.completed()) return result;
  }
  const auto went_past = [&](std::string actual) {
    core_.fatal("REND-08", kPresent.name, 0x10E, 0x12, std::move(actual),
                "What is written stays inside the DMA buffer, its private data and the patch list, "
                "and the pointers come back behind what was written.",
                "Advance each pointer by what was written and check the room before; return "
                "STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER when it does not do.");
    result.status = Status::kUnsuccessful;
    return result;
  };
  if (behind.damage().has_value()) [[unlikely]]
    return went_past("It wrote behind the end of the DMA buffer.");
  if (behind_private.damage().has_value()) [[unlikely]]
    return went_past("It wrote behind the end of the private data.");
  if (std::ranges::find(kPresentDocumented, result.status) == kPresentDocumented.end())
      [[unlikely]] {
    result.status = core_.violation(
        "REND-16", kPresent.name, fmt::format("It returned {}.", hex(result.status)),
        "One of the documented codes; the caller gets STATUS_INVALID_PARAMETER for any other.",
        "Map the failure to a documented code.", Status::kInvalidParameter);
    return result;
  }
  result.multipass_offset = arguments.MultipassOffset;
  if (result.status != Status::kSuccess &&
      result.status != Status::kGraphicsInsufficientDmaBuffer) {
    return result;
  }
  measure_outputs(
      core_, kPresent,
      {.dma = {buffer.cpu, arguments.pDmaBuffer, buffer.cpu == nullptr ? 0 : buffer.size_bytes},
       .patches = {patches, arguments.pPatchLocationListOut,
                   uint64_t{args.patches_out_capacity} * sizeof(PatchLocation)},
       .private_data = {private_data, arguments.pDmaBufferPrivateData, buffer.private_size_bytes}},
      &result);
  return result;
}

Status RenderingPort::validate_submit(const ValidateSubmitArgs& args) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.version < kInterfaceWddm25 || core_.ddi.DxgkDdiValidateSubmitCommand == nullptr)
    return Status::kNotSupported;
  DXGKIT_CHECK(args.contexts.size() <= ValidateSubmitArgs::kMaxContexts);
  DXGKARG_VALIDATESUBMITCOMMAND arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.Commands = args.buffer_va;
  arguments.CommandLength = args.buffer_bytes;
  arguments.Flags.HardwareQueueSubmission = args.hardware_queues ? 1 : 0;
  arguments.ContextCount = static_cast<UINT>(args.contexts.size());
  std::ranges::copy(args.contexts, arguments.Context);
  arguments.pPrivateDriverData = args.private_data;
  arguments.PrivateDriverDataSize = args.private_bytes;
  arguments.UmdPrivateDataSize = args.user_private_bytes;
  arguments.HwQueueProgressFenceId = args.progress_fence;
  DdiCall call(core_, kValidateSubmitCommand, args.contexts.size());
  return call(core_.ddi.DxgkDdiValidateSubmitCommand, core_.context, &arguments);
}

}  // namespace dxgkit::port
