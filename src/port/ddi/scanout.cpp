#include "port/ddi/scanout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "nt/paged.h"
#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/unwritten.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kPresentDisplayOnly{"DxgkDdiPresentDisplayOnly", nt::kPassiveLevel,
                                      DdiClass::kLevelZero};
constexpr DdiInfo kSetPointerShape{"DxgkDdiSetPointerShape", nt::kPassiveLevel,
                                   DdiClass::kLevelZero};
constexpr DdiInfo kSetPointerPosition{"DxgkDdiSetPointerPosition", nt::kPassiveLevel,
                                      DdiClass::kLevelZero};
constexpr DdiInfo kSystemDisplayEnable{"DxgkDdiSystemDisplayEnable", nt::kHighLevel,
                                       DdiClass::kLevelZeroBeside,
                                       verifier::Situation::kCrashEnable};
constexpr DdiInfo kSystemDisplayWrite{"DxgkDdiSystemDisplayWrite", nt::kHighLevel,
                                      DdiClass::kLevelZeroBeside, verifier::Situation::kCrashWrite};

/// The driver gets a copy, so its changes have no effect.
template <typename To, typename From>
std::vector<To> copy_of(std::span<const From> list) {
  static_assert(sizeof(To) == sizeof(From));
  std::vector<To> copy(list.size());
  if (!list.empty()) std::memcpy(copy.data(), list.data(), list.size_bytes());
  return copy;
}

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
constexpr DdiInfo kGetScanLine{"DxgkDdiGetScanLine", nt::kPassiveLevel, DdiClass::kLevelZero,
                               verifier::Situation::kScanoutScanLine};

constexpr DdiInfo kSetPrivateFormat{"DxgkDdiSetDisplayPrivateDriverFormat", nt::kPassiveLevel,
                                    DdiClass::kLevelTwo};

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

Status ScanoutPort::set_source_address(const SourceAddressArgs& args) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiSetVidPnSourceAddress == nullptr) return Status::kNotSupported;
  const DXGKARG_SETVIDPNSOURCEADDRESS arguments = address_arguments(args);
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->display.address_set(args.kind);
  DdiCall call(core_, kSetVidPnSourceAddress, args.source);
  return call(core_.ddi.DxgkDdiSetVidPnSourceAddress, core_.context, &arguments);
}

Status ScanoutPort::flip(const SourceAddressArgs& args) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiSetVidPnSourceAddress == nullptr) return Status::kNotSupported;
  const DXGKARG_SETVIDPNSOURCEADDRESS arguments = address_arguments(args);
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->display.address_set(args.kind);
  DdiCall call(core_, kFlip, args.source);
  core_.interrupts.enter_lock();
  const Status status = call(core_.ddi.DxgkDdiSetVidPnSourceAddress, core_.context, &arguments);
  core_.interrupts.leave_lock();
  return status;
}

Status ScanoutPort::control_vsync(uint32_t source, bool enabled) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.situations != nullptr) [[unlikely]] {
    core_.situations->reach(enabled ? verifier::Situation::kScanoutVsyncOn
                                    : verifier::Situation::kScanoutVsyncOff);
  }
  const DXGK_CRTC_VSYNC_STATE state = enabled ? DXGK_VSYNC_ENABLE : DXGK_VSYNC_DISABLE_NO_PHASE;
  const char* name = kControlInterrupt.name;
  Status status = Status::kNotSupported;
  if (core_.has_entry("DxgkDdiControlInterrupt3")) {
    name = kControlInterrupt3.name;
    DXGKARG_CONTROLINTERRUPT3 arguments{};
    arguments.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
    arguments.CrtcVsyncState = state;
    arguments.VidPnSourceId = source;
    DdiCall call(core_, kControlInterrupt3, enabled ? 1 : 0);
    status = call(core_.ddi.DxgkDdiControlInterrupt3, core_.context,
                  static_cast<const DXGKARG_CONTROLINTERRUPT3*>(&arguments));
  } else if (core_.has_entry("DxgkDdiControlInterrupt2")) {
    name = kControlInterrupt2.name;
    DXGKARG_CONTROLINTERRUPT2 arguments{};
    arguments.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
    arguments.CrtcVsyncState = state;
    DdiCall call(core_, kControlInterrupt2, enabled ? 1 : 0);
    status = call(core_.ddi.DxgkDdiControlInterrupt2, core_.context, arguments);
  } else if (core_.ddi.DxgkDdiControlInterrupt != nullptr) {
    DdiCall call(core_, kControlInterrupt, enabled ? 1 : 0);
    status = call(core_.ddi.DxgkDdiControlInterrupt, core_.context, DXGK_INTERRUPT_CRTC_VSYNC,
                  static_cast<BOOLEAN>(enabled ? TRUE : FALSE));
  } else {
    return status;
  }
  if (is_success(status) || status == Status::kDeviceRemoved) return status;
  return core_.violation(
      "INT-23", name,
      fmt::format("It returned {} when vertical sync was {}.", hex(status),
                  enabled ? "enabled" : "disabled"),
      "CRTC_VSYNC is controlled; STATUS_NOT_IMPLEMENTED is for other interrupt types.",
      "Enable or disable the interrupt of vertical sync and return STATUS_SUCCESS.", status);
}

void ScanoutPort::ask_other_interrupts() {
  for (const DXGK_INTERRUPT_TYPE type :
       {DXGK_INTERRUPT_DMA_COMPLETED, DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS}) {
    if (is_dead(core_) || core_.ddi.DxgkDdiControlInterrupt == nullptr) return;
    Status status = Status::kSuccess;
    {
      DdiCall call(core_, kControlInterrupt, 1);
      status =
          call(core_.ddi.DxgkDdiControlInterrupt, core_.context, type, static_cast<BOOLEAN>(TRUE));
    }
    if (status == Status::kNotImplemented || status == Status::kDeviceRemoved) continue;
    static_cast<void>(
        core_.violation("INT-23", kControlInterrupt.name,
                        fmt::format("It returned {} when interrupt type {} was to be enabled.",
                                    hex(status), static_cast<int>(type)),
                        "STATUS_NOT_IMPLEMENTED: only CRTC_VSYNC is controlled.",
                        "Compare InterruptType with DXGK_INTERRUPT_CRTC_VSYNC first.", status));
  }
}

Status ScanoutPort::get_scan_line(uint32_t target, bool* in_vertical_blank, uint32_t* line) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiGetScanLine == nullptr) return Status::kNotSupported;
  DXGKARG_GETSCANLINE arguments{};
  fill_output(core_, &arguments);
  arguments.VidPnTargetId = target;
  DdiCall call(core_, kGetScanLine, target);
  const Status status = call(core_.ddi.DxgkDdiGetScanLine, core_.context, &arguments);
  if (!is_success(status)) return status;
  UnwrittenMembers unwritten(core_.output_fill);
  unwritten.look("InVerticalBlank", &arguments.InVerticalBlank);
  unwritten.look("ScanLine", &arguments.ScanLine);
  unwritten.report(core_, kGetScanLine.name, "DXGKARG_GETSCANLINE");
  *in_vertical_blank = arguments.InVerticalBlank != FALSE;
  *line = arguments.ScanLine;
  return status;
}

Status ScanoutPort::present_display_only(const PresentDisplayOnlyArgs& args) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.driver.display_only_ddi.DxgkDdiPresentDisplayOnly == nullptr)
    return Status::kNotSupported;
  std::vector<D3DKMT_MOVE_RECT> moves = copy_of<D3DKMT_MOVE_RECT>(args.moves);
  std::vector<RECT> dirty = copy_of<RECT>(args.dirty);
  DXGKARG_PRESENT_DISPLAYONLY arguments{};
  arguments.VidPnSourceId = args.source;
  arguments.pSource = const_cast<std::byte*>(args.pixels);
  arguments.BytesPerPixel = args.bytes_per_pixel;
  arguments.Pitch = args.pitch_bytes;
  arguments.NumMoves = static_cast<ULONG>(moves.size());
  arguments.pMoves = moves.empty() ? nullptr : moves.data();
  arguments.NumDirtyRects = static_cast<ULONG>(dirty.size());
  arguments.pDirtyRect = dirty.empty() ? nullptr : dirty.data();
  // pfnPresentDisplayOnlyProgress stays null: the page of the structure says so. Progress comes as
  // an interrupt.
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->display.presented(args);
  DdiCall call(core_, kPresentDisplayOnly, args.source);
  const Status status = call(core_.driver.display_only_ddi.DxgkDdiPresentDisplayOnly, core_.context,
                             static_cast<const DXGKARG_PRESENT_DISPLAYONLY*>(&arguments));
  // The lists belong to this call: a driver that answers STATUS_PENDING copies the parts it needs.
  return status;
}

Status ScanoutPort::set_private_format(uint32_t source, void* primary, uint32_t attribute) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, 0, core_.ddi.DxgkDdiSetDisplayPrivateDriverFormat));
  DXGKARG_SETDISPLAYPRIVATEDRIVERFORMAT arguments{};
  arguments.VidPnSourceId = source;
  arguments.PrimaryAllocation = primary;
  arguments.PrivateDriverFormatAttribute = attribute;
  DdiCall call(core_, kSetPrivateFormat, source);
  const Status status =
      call(core_.ddi.DxgkDdiSetDisplayPrivateDriverFormat, core_.context, &arguments);
  if (is_success(status) || status == Status::kDeviceRemoved || status == Status::kUnsuccessful)
    return status;
  return core_.violation("OPT-14", kSetPrivateFormat.name,
                         fmt::format("It answered {}.", hex(status)),
                         "STATUS_SUCCESS, or STATUS_UNSUCCESSFUL if the format cannot be changed.",
                         "Return STATUS_UNSUCCESSFUL for a format that the source cannot read.",
                         Status::kUnsuccessful);
}

Status ScanoutPort::set_pointer_position(uint32_t source, int32_t x, int32_t y, bool visible) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiSetPointerPosition == nullptr) return Status::kNotSupported;
  DXGKARG_SETPOINTERPOSITION arguments{};
  arguments.VidPnSourceId = source;
  arguments.X = x;
  arguments.Y = y;
  arguments.Flags.Visible = visible ? 1 : 0;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->display.pointer_moved(x, y, visible);
  DdiCall call(core_, kSetPointerPosition, source);
  return call(core_.ddi.DxgkDdiSetPointerPosition, core_.context,
              static_cast<const DXGKARG_SETPOINTERPOSITION*>(&arguments));
}

Status ScanoutPort::set_pointer_shape(const PointerShape& shape) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiSetPointerShape == nullptr) return Status::kNotSupported;
  std::vector<std::byte> pixels(shape.pixels.begin(), shape.pixels.end());
  DXGKARG_SETPOINTERSHAPE arguments{};
  arguments.Flags.Monochrome = shape.format == PointerShape::Format::kMonochrome ? 1 : 0;
  arguments.Flags.Color = shape.format == PointerShape::Format::kColor ? 1 : 0;
  arguments.Flags.MaskedColor = shape.format == PointerShape::Format::kMaskedColor ? 1 : 0;
  arguments.Width = shape.width;
  arguments.Height = shape.height;
  arguments.Pitch = shape.pitch_bytes;
  arguments.VidPnSourceId = shape.source;
  arguments.pPixels = pixels.data();
  arguments.XHot = shape.hot_x;
  arguments.YHot = shape.hot_y;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->display.pointer_shaped(shape);
  DdiCall call(core_, kSetPointerShape, shape.source);
  return call(core_.ddi.DxgkDdiSetPointerShape, core_.context,
              static_cast<const DXGKARG_SETPOINTERSHAPE*>(&arguments));
}

Status ScanoutPort::system_display_enable(uint32_t target, uint32_t* width, uint32_t* height,
                                          uint32_t* format) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiSystemDisplayEnable == nullptr) return Status::kNotSupported;
  DXGKARG_SYSTEM_DISPLAY_ENABLE_FLAGS flags{};
  UINT out_width = 0, out_height = 0;
  D3DDDIFORMAT out_format = D3DDDIFMT_UNKNOWN;
  nt::at_level(core_.kernel, nt::kHighLevel);  // IRQL-13
  DdiCall call(core_, kSystemDisplayEnable, target);
  const Status status = call(core_.ddi.DxgkDdiSystemDisplayEnable, core_.context,
                             static_cast<D3DDDI_VIDEO_PRESENT_TARGET_ID>(target), &flags,
                             &out_width, &out_height, &out_format);
  *width = out_width;
  *height = out_height;
  *format = static_cast<uint32_t>(out_format);
  return status;
}

Status ScanoutPort::system_display_write(std::span<const std::byte> pixels, uint32_t width,
                                         uint32_t height, uint32_t stride_bytes, uint32_t x,
                                         uint32_t y) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiSystemDisplayWrite == nullptr) return Status::kNotSupported;
  std::vector<std::byte> copy(pixels.begin(), pixels.end());
  nt::at_level(core_.kernel, nt::kHighLevel);  // IRQL-13
  DdiCall call(core_, kSystemDisplayWrite);
  return call.no_answer(core_.ddi.DxgkDdiSystemDisplayWrite, core_.context,
                        static_cast<void*>(copy.data()), static_cast<UINT>(width),
                        static_cast<UINT>(height), static_cast<UINT>(stride_bytes),
                        static_cast<UINT>(x), static_cast<UINT>(y));
}

}  // namespace dxgkit::port
