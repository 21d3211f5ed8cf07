// Presents and flips: building their DMA buffers, source addresses, vertical sync on and off.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "dxgkit/abi_versions.h"
#include "port/adapter_impl.h"
#include "port/write_guard.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kPresent{"DxgkDdiPresent", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kSetVidPnSourceAddress{"DxgkDdiSetVidPnSourceAddress", nt::kPassiveLevel,
                                         DdiClass::kLevelTwo};
/// A flip by register: synchronised with the ISR instead.
constexpr DdiInfo kFlip{"DxgkDdiSetVidPnSourceAddress", nt::kDeviceLevel,
                        DdiClass::kLevelZeroBeside};
constexpr DdiInfo kControlInterrupt{"DxgkDdiControlInterrupt", nt::kPassiveLevel,
                                    DdiClass::kLevelTwo};
constexpr DdiInfo kControlInterrupt2{"DxgkDdiControlInterrupt2", nt::kPassiveLevel,
                                     DdiClass::kLevelTwo};
constexpr DdiInfo kControlInterrupt3{"DxgkDdiControlInterrupt3", nt::kPassiveLevel,
                                     DdiClass::kLevelTwo};
constexpr DdiInfo kGetScanLine{"DxgkDdiGetScanLine", nt::kPassiveLevel, DdiClass::kLevelZero};

constexpr std::array kDocumented = {Status::kSuccess,
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

/// Kept apart from the arguments: it may not be const, the driver's changes go nowhere.
struct Scratch {
  std::vector<RECT> sub_rects;
  std::vector<DXGK_PRESENTALLOCATIONINFO> surfaces;
};

void fill(const PresentArgs& args, uint32_t version, Scratch* scratch, DXGKARG_PRESENT* out) {
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
  if (args.surfaces.empty()) {
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

DXGKARG_SETVIDPNSOURCEADDRESS address_arguments(const SourceAddressArgs& args) {
  DXGKARG_SETVIDPNSOURCEADDRESS arguments{};
  arguments.VidPnSourceId = args.source;
  arguments.PrimarySegment = args.segment;
  arguments.PrimaryAddress.QuadPart = static_cast<LONGLONG>(args.address);
  arguments.hAllocation = args.allocation;
  const bool mode_change = args.kind == SourceAddressArgs::Kind::kModeChange;
  arguments.Flags.ModeChange = mode_change ? 1 : 0;
  if (mode_change) return arguments;  // DISP-02: without contexts
  arguments.Flags.FlipImmediate = args.kind == SourceAddressArgs::Kind::kFlipImmediate ? 1 : 0;
  arguments.Flags.FlipOnNextVSync = args.kind == SourceAddressArgs::Kind::kFlipOnNextVsync ? 1 : 0;
  DXGKIT_CHECK(args.contexts.size() <= SourceAddressArgs::kMaxContexts);
  arguments.ContextCount = static_cast<UINT>(args.contexts.size());
  std::ranges::copy(args.contexts, arguments.Context);
  return arguments;
}

}  // namespace

FlipCaps flip_caps_of(const DriverCaps& caps, uint32_t version) {
  DXGK_DRIVERCAPS raw{};
  if (!caps.raw.empty())  // a driver that was not asked
    std::memcpy(&raw, caps.raw.data(), std::min(caps.raw.size(), sizeof(raw)));
  FlipCaps result;
  result.on_vsync_with_no_wait = raw.FlipCaps.FlipOnVSyncWithNoWait != 0;
  result.on_vsync_mmio = raw.FlipCaps.FlipOnVSyncMmIo != 0;
  result.interval = raw.FlipCaps.FlipInterval != 0;
  result.immediate_mmio = raw.FlipCaps.FlipImmediateMmIo != 0;
  result.max_queued_on_vsync = raw.MaxQueuedFlipOnVSync;
  result.vsync_power_save_aware = raw.SchedulingCaps.VSyncPowerSaveAware != 0;
  if (version >= kInterfaceWin8) {
    result.reports_preemption = raw.PreemptionCaps.GraphicsPreemptionGranularity != 0 &&
                                raw.PreemptionCaps.ComputePreemptionGranularity != 0;
  }
  if (version >= kInterfaceWddm13) result.max_overlay_planes = raw.MaxOverlayPlanes;
  return result;
}

RenderResult AdapterPort::present(const PresentArgs& args) {
  Impl& port = *impl_;
  RenderResult result;
  if (is_dead(port) || port.ddi.DxgkDdiPresent == nullptr) {
    result.status = is_dead(port) ? Status::kDeviceRemoved : Status::kNotSupported;
    return result;
  }
  DXGKARG_PRESENT arguments{};
  Scratch scratch;
  fill(args, port.version, &scratch, &arguments);
  std::byte* const private_data =
      args.buffer.private_size_bytes == 0 ? port.guard_page : args.buffer.private_data;
  arguments.pDmaBufferPrivateData = private_data;
  arguments.DmaBufferPrivateDataSize = args.buffer.private_size_bytes;
  auto* const patches = reinterpret_cast<D3DDDI_PATCHLOCATIONLIST*>(args.patches_out);
  arguments.pPatchLocationListOut = patches;
  arguments.PatchLocationListOutSize = args.patches_out_capacity;
  const bool check = port.reference_checks;
  const DmaBufferView& buffer = args.buffer;
  const WriteGuard behind(
      check && buffer.guarded && buffer.cpu != nullptr ? buffer.cpu + buffer.size_bytes : nullptr);
  const WriteGuard behind_private(
      check && buffer.private_guarded ? buffer.private_data + buffer.private_size_bytes : nullptr);
  {
    DdiCall call(port, kPresent, args.flags.flip ? 1 : 0);
    result.status = call(port.ddi.DxgkDdiPresent, args.context, &arguments);
    if (!call.completed()) return result;
  }
  const auto went_past = [&](std::string actual) {
    port.fatal("REND-08", kPresent.name, 0x10E, 0x12, std::move(actual),
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
  if (std::ranges::find(kDocumented, result.status) == kDocumented.end()) [[unlikely]] {
    result.status = port.violation(
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
  port.measure_outputs(
      kPresent,
      {.dma = {buffer.cpu, arguments.pDmaBuffer, buffer.cpu == nullptr ? 0 : buffer.size_bytes},
       .patches = {patches, arguments.pPatchLocationListOut,
                   uint64_t{args.patches_out_capacity} * sizeof(PatchLocation)},
       .private_data = {private_data, arguments.pDmaBufferPrivateData, buffer.private_size_bytes}},
      &result);
  return result;
}

Status AdapterPort::set_source_address(const SourceAddressArgs& args) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiSetVidPnSourceAddress == nullptr) return Status::kNotSupported;
  const DXGKARG_SETVIDPNSOURCEADDRESS arguments = address_arguments(args);
  DdiCall call(port, kSetVidPnSourceAddress, args.source);
  return call(port.ddi.DxgkDdiSetVidPnSourceAddress, port.context, &arguments);
}

Status AdapterPort::flip(const SourceAddressArgs& args) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiSetVidPnSourceAddress == nullptr) return Status::kNotSupported;
  const DXGKARG_SETVIDPNSOURCEADDRESS arguments = address_arguments(args);
  DdiCall call(port, kFlip, args.source);
  port.enter_interrupt_lock();
  const Status status = call(port.ddi.DxgkDdiSetVidPnSourceAddress, port.context, &arguments);
  port.leave_interrupt_lock();
  return status;
}

Status AdapterPort::control_vsync(uint32_t source, bool enabled) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  const DXGK_CRTC_VSYNC_STATE state = enabled ? DXGK_VSYNC_ENABLE : DXGK_VSYNC_DISABLE_NO_PHASE;
  const char* name = kControlInterrupt.name;
  Status status = Status::kNotSupported;
  if (has_entry("DxgkDdiControlInterrupt3")) {
    name = kControlInterrupt3.name;
    DXGKARG_CONTROLINTERRUPT3 arguments{};
    arguments.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
    arguments.CrtcVsyncState = state;
    arguments.VidPnSourceId = source;
    DdiCall call(port, kControlInterrupt3, enabled ? 1 : 0);
    status = call(port.ddi.DxgkDdiControlInterrupt3, port.context,
                  static_cast<const DXGKARG_CONTROLINTERRUPT3*>(&arguments));
  } else if (has_entry("DxgkDdiControlInterrupt2")) {
    name = kControlInterrupt2.name;
    DXGKARG_CONTROLINTERRUPT2 arguments{};
    arguments.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
    arguments.CrtcVsyncState = state;
    DdiCall call(port, kControlInterrupt2, enabled ? 1 : 0);
    status = call(port.ddi.DxgkDdiControlInterrupt2, port.context, arguments);
  } else if (port.ddi.DxgkDdiControlInterrupt != nullptr) {
    DdiCall call(port, kControlInterrupt, enabled ? 1 : 0);
    status = call(port.ddi.DxgkDdiControlInterrupt, port.context, DXGK_INTERRUPT_CRTC_VSYNC,
                  static_cast<BOOLEAN>(enabled ? TRUE : FALSE));
  } else {
    return status;
  }
  if (is_success(status) || status == Status::kDeviceRemoved) return status;
  return port.violation(
      "INT-23", name,
      fmt::format("It returned {} when vertical sync was {}.", hex(status),
                  enabled ? "enabled" : "disabled"),
      "CRTC_VSYNC is controlled; STATUS_NOT_IMPLEMENTED is for other interrupt types.",
      "Enable or disable the interrupt of vertical sync and return STATUS_SUCCESS.", status);
}

Status AdapterPort::get_scan_line(uint32_t target, bool* in_vertical_blank, uint32_t* line) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiGetScanLine == nullptr) return Status::kNotSupported;
  DXGKARG_GETSCANLINE arguments{};
  arguments.VidPnTargetId = target;
  DdiCall call(port, kGetScanLine, target);
  const Status status = call(port.ddi.DxgkDdiGetScanLine, port.context, &arguments);
  if (!is_success(status)) return status;
  *in_vertical_blank = arguments.InVerticalBlank != FALSE;
  *line = arguments.ScanLine;
  return status;
}

}  // namespace dxgkit::port
