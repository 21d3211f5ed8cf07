#include "port/ddi/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"
#include "port/core/port_core.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCollectInfo{"DxgkDdiCollectDiagnosticInfo", nt::kPassiveLevel,
                               DdiClass::kLevelZero};
constexpr DdiInfo kQueryTypes{"DxgkDdiQueryDiagnosticTypesSupport", nt::kPassiveLevel,
                              DdiClass::kLevelZero};
constexpr DdiInfo kControlReporting{"DxgkDdiControlDiagnosticReporting", nt::kPassiveLevel,
                                    DdiClass::kLevelZero};

constexpr UINT kInfoBytes = 16 * 1024;  // of private data; our choice

/// The text up to its end, or all of it.
template <size_t kBytes>
std::string text_in(const CHAR (&text)[kBytes]) {
  return {text, strnlen(text, kBytes)};
}

DXGK_DIAGNOSTIC_CATEGORIES categories_of(DiagnosticCategory category) {
  DXGK_DIAGNOSTIC_CATEGORIES result{};
  result.Value = static_cast<UINT>(category);
  return result;
}

}  // namespace

Result<CollectedInfo> DiagnosticPort::collect(After after) {
  DXGKIT_RETURN_ERROR_IF_FAILED(
      callable(core_, kInterfaceWddm26, core_.ddi.DxgkDdiCollectDiagnosticInfo));
  std::vector<std::byte> buffer(kInfoBytes);
  GuardedOutput output = GuardedOutput::of(std::span(buffer));
  DXGKARG_COLLECTDIAGNOSTICINFO arguments{};
  arguments.hAdapter = core_.context;
  arguments.Type = after == After::kAddDevice ? DXGK_DI_ADDDEVICE : DXGK_DI_STARTDEVICE;
  arguments.BufferSizeIn = kInfoBytes;
  arguments.pBuffer = output.data();
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kCollectInfo, static_cast<uint64_t>(arguments.Type));
    status = call(core_.ddi.DxgkDdiCollectDiagnosticInfo, &core_.device.object, &arguments);
  }
  static_cast<void>(output.finish(core_, kCollectInfo.name, "pBuffer"));
  if (!is_success(status)) return Error(status);
  CollectedInfo info{.bucket = text_in(arguments.BucketingString),
                     .description = text_in(arguments.DescriptionString),
                     .data = {}};
  const bool ends = info.bucket.size() < sizeof arguments.BucketingString &&
                    info.description.size() < sizeof arguments.DescriptionString;
  if (arguments.BufferSizeOut > kInfoBytes || !ends) {
    (void)core_.violation(
        "OPT-25", kCollectInfo.name,
        ends ? fmt::format("BufferSizeOut is {}; BufferSizeIn was {}.", arguments.BufferSizeOut,
                           kInfoBytes)
             : std::string("A string fills its array and does not end."),
        "BufferSizeOut counts bytes of pBuffer, and both strings end inside their arrays.",
        "Leave out the data that matters least when the buffer is too small.", Status::kSuccess);
  }
  buffer.resize(std::min(arguments.BufferSizeOut, kInfoBytes));
  info.data = std::move(buffer);
  return info;
}

Result<DiagnosticTypes> DiagnosticPort::query_types(DiagnosticCategory category) {
  DXGKIT_RETURN_ERROR_IF_FAILED(
      callable(core_, kInterfaceWddm24, core_.ddi.DxgkDdiQueryDiagnosticTypesSupport));
  DXGKARG_QUERYDIAGNOSTICTYPESSUPPORT arguments{};
  arguments.DiagnosticCategory = categories_of(category);
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kQueryTypes, static_cast<uint64_t>(category));
    status = call(core_.ddi.DxgkDdiQueryDiagnosticTypesSupport, core_.context, &arguments);
  }
  if (!is_success(status)) return Error(status);
  DiagnosticTypes types{.noninvasive = arguments.NoninvasiveTypes.Value,
                        .invasive = arguments.InvasiveTypes.Value};
  const uint32_t known = known_types(category);
  if (((types.noninvasive | types.invasive) & ~known) != 0) {
    (void)core_.violation(
        "OPT-27", kQueryTypes.name,
        fmt::format("NoninvasiveTypes is 0x{:X}, InvasiveTypes 0x{:X}, for category {}.",
                    types.noninvasive, types.invasive, static_cast<uint32_t>(category)),
        fmt::format("Types of that category: bits of 0x{:X}.", known),
        "Set the bits by their names, and leave Reserved 0.", Status::kSuccess);
  }
  types.noninvasive &= known;
  types.invasive &= known;
  return types;
}

Status DiagnosticPort::control(DiagnosticCategory category, uint32_t types) {
  DXGKIT_RETURN_IF_FAILED(
      callable(core_, kInterfaceWddm24, core_.ddi.DxgkDdiControlDiagnosticReporting));
  DXGKARG_CONTROLDIAGNOSTICREPORTING arguments{};
  arguments.DiagnosticCategory = categories_of(category);
  arguments.RequestedDiagnostics.Value = types;
  std::atomic<uint32_t>& reported = core_.reported_types[static_cast<size_t>(category) - 1];
  // A report may come before the call returns, of either set.
  const uint32_t before = reported.fetch_or(types);
  DdiCall call(core_, kControlReporting, types);
  const Status status =
      call(core_.ddi.DxgkDdiControlDiagnosticReporting, core_.context, &arguments);
  reported.store(is_success(status) ? types : before);
  return status;
}

}  // namespace dxgkit::port
