#include "port/ddi/notices.h"

#include <fmt/format.h>

#include <algorithm>

#include "nt/paged.h"
#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"
#include "port/core/port_core.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kNotifyAcpi{"DxgkDdiNotifyAcpiEvent", nt::kPassiveLevel, DdiClass::kLevelTwo};
constexpr DdiInfo kDispatchIo{"DxgkDdiDispatchIoRequest", nt::kPassiveLevel, DdiClass::kLevelTwo};
constexpr DdiInfo kControlEtw{"DxgkDdiControlEtwLogging", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kResetDevice{"DxgkDdiResetDevice", nt::kHighLevel, DdiClass::kLevelZeroBeside};
constexpr DdiInfo kStablePower{"DxgkDdiSetStablePowerState", nt::kPassiveLevel,
                               DdiClass::kLevelZero};

constexpr UCHAR kVerboseLevel = 5;  // TRACE_LEVEL_VERBOSE

}  // namespace

Result<AcpiWishes> NoticePort::acpi_event(const AcpiEvent& event) {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(core_, 0, core_.ddi.DxgkDdiNotifyAcpiEvent));
  ULONG argument = event.argument, flags = 0;
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kNotifyAcpi, event.event);
    status = call(core_.ddi.DxgkDdiNotifyAcpiEvent, core_.context,
                  static_cast<DXGK_EVENT_TYPE>(event.type), static_cast<ULONG>(event.event),
                  static_cast<PVOID>(event.has_argument ? &argument : nullptr), &flags);
  }
  if (!is_success(status)) return Error(status);
  ULONG known = DXGK_ACPI_POLL_DISPLAY_CHILDREN | DXGK_ACPI_CHANGE_DISPLAY_MODE |
                DXGK_ACPI_CHANGE_DISPLAY_TOPOLOGY;
  if (event.type == AcpiEvent::Type::kChained) known |= DXGK_ACPI_CHAIN_NOT_HANDLED;
  if ((flags & ~known) != 0) {
    (void)core_.violation(
        "OPT-16", kNotifyAcpi.name,
        fmt::format("AcpiFlags is 0x{:X} for an event of type {}.", flags,
                    static_cast<uint32_t>(event.type)),
        fmt::format("Bits of 0x{:X}; DXGK_ACPI_CHAIN_NOT_HANDLED only for chained events.", known),
        "Set AcpiFlags to 0, or to DXGK_ACPI_* values that ask for what is to be done.",
        Status::kSuccess);
  }
  return AcpiWishes{.poll_children = (flags & DXGK_ACPI_POLL_DISPLAY_CHILDREN) != 0,
                    .change_mode = (flags & DXGK_ACPI_CHANGE_DISPLAY_MODE) != 0,
                    .change_topology = (flags & DXGK_ACPI_CHANGE_DISPLAY_TOPOLOGY) != 0,
                    .not_handled = (flags & known & DXGK_ACPI_CHAIN_NOT_HANDLED) != 0};
}

Result<uint32_t> NoticePort::io_request(uint32_t source, const IoRequest& request) {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(core_, 0, core_.ddi.DxgkDdiDispatchIoRequest));
  GuardedOutput in(request.in.empty() ? std::span<const std::byte>() : request.in);
  GuardedOutput out(request.out.empty() ? std::span<const std::byte>() : request.out);
  STATUS_BLOCK block{};
  VIDEO_REQUEST_PACKET packet{};
  packet.IoControlCode = request.code;
  packet.StatusBlock = &block;
  packet.InputBuffer = in.data();
  packet.InputBufferLength = size_of(request.in);
  packet.OutputBuffer = out.data();
  packet.OutputBufferLength = size_of(request.out);
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kDispatchIo, request.code);
    status = call(core_.ddi.DxgkDdiDispatchIoRequest, core_.context, static_cast<ULONG>(source),
                  &packet);
  }
  static_cast<void>(in.check(core_, kDispatchIo.name, "InputBuffer"));
  static_cast<void>(out.finish(core_, kDispatchIo.name, "OutputBuffer"));
  if (!is_success(status)) return Error(status);
  if (block.Information > request.out.size()) {
    (void)core_.violation("OPT-18", kDispatchIo.name,
                          fmt::format("StatusBlock->Information is {}; OutputBufferLength is {}.",
                                      block.Information, request.out.size()),
                          "Information counts the bytes that were written to OutputBuffer.",
                          "Answer STATUS_BUFFER_TOO_SMALL when the result does not fit.",
                          Status::kSuccess);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(block.Information, request.out.size()));
}

Status NoticePort::control_etw_logging(bool on) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, 0, core_.ddi.DxgkDdiControlEtwLogging));
  DdiCall call(core_, kControlEtw, on ? 1 : 0);
  return call.no_answer(core_.ddi.DxgkDdiControlEtwLogging, static_cast<BOOLEAN>(on ? TRUE : FALSE),
                        ULONG{0}, kVerboseLevel);
}

Status NoticePort::reset_device() {
  DXGKIT_RETURN_IF_FAILED(callable(core_, 0, core_.ddi.DxgkDdiResetDevice));
  nt::at_level(core_.kernel, kResetDevice.irql);  // IRQL-13
  DdiCall call(core_, kResetDevice);
  return call.no_answer(core_.ddi.DxgkDdiResetDevice, core_.context);
}

Status NoticePort::set_stable_power(bool on) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm20, core_.ddi.DxgkDdiSetStablePowerState));
  DXGKARG_SETSTABLEPOWERSTATE arguments{};
  arguments.Enabled = on ? TRUE : FALSE;
  DdiCall call(core_, kStablePower, on ? 1 : 0);
  return call.no_answer(core_.ddi.DxgkDdiSetStablePowerState, core_.context,
                        static_cast<const DXGKARG_SETSTABLEPOWERSTATE*>(&arguments));
}

}  // namespace dxgkit::port
