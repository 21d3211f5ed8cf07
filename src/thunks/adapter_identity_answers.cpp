// Answers about who the adapter is, what its installation left in the registry, and its screens.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "dxgk/core/registry_texts.h"
#include "dxgk/work/device.h"
#include "thunks/adapter_answers.h"
#include "thunks/display_modes.h"

namespace dxgkit::thunks::answers {
namespace {

using dxgk::kPropertiesKey;
using dxgk::kServiceKey;
using dxgk::kSoftwareKey;
using dxgk::parse_version;
using dxgk::registry_number;
using dxgk::registry_text;
using dxgk::registry_texts;

constexpr uint32_t kPciBus = 5;  // INTERFACE_TYPE

nt::Kernel& kernel_of(const AdapterQuestion& question) { return question.adapter.core().kernel(); }

/// As much as fits, with a terminator; the rest is zeros.
template <size_t kCount>
void put_text(WCHAR (&out)[kCount], std::u16string_view text) {
  std::memset(out, 0, sizeof out);
  std::memcpy(out, text.data(), std::min(text.size(), kCount - 1) * sizeof(WCHAR));
}

Status check_source(const AdapterQuestion& question, uint32_t source) {
  return source < question.adapter.core().facts().start.video_present_sources
             ? Status::kSuccess
             : Status::kInvalidParameter;
}

/// The version of the driver package, from its INF. The files of both halves carry it.
Status package_version(const AdapterQuestion& question, LARGE_INTEGER* out) {
  const auto text = registry_text(kernel_of(question), kSoftwareKey, u"DriverVersion");
  const auto version = text.has_value() ? parse_version(*text) : std::nullopt;
  if (!version.has_value()) return Status::kInvalidParameter;
  out->QuadPart = static_cast<LONGLONG>(*version);
  return Status::kSuccess;
}

}  // namespace

Status adapter_guid(const AdapterQuestion& question, GUID& out) {
  // One for each adapter of a run, the same in each run: of the LUID.
  const dxgk::Luid luid = question.adapter.core().luid();
  out = {0x6467786B, 0x6974, 0x4000, {0x80, 0, 0, 0, 0, 0, 0, 0}};
  for (size_t i = 0; i < 4; ++i) out.Data4[4 + i] = static_cast<uint8_t>(luid.low >> (8 * (3 - i)));
  return Status::kSuccess;
}

Status unique_guid(const AdapterQuestion& question, D3DKMT_QUERY_ADAPTER_UNIQUE_GUID& out) {
  GUID guid = {};
  DXGKIT_RETURN_IF_FAILED(adapter_guid(question, guid));
  std::string text = fmt::format("{{{:08X}-{:04X}-{:04X}-", guid.Data1, guid.Data2, guid.Data3);
  for (size_t i = 0; i < sizeof guid.Data4; ++i)
    text += fmt::format("{}{:02X}", i == 2 ? "-" : "", guid.Data4[i]);
  text += "}";
  put_text(out.AdapterUniqueGUID, std::u16string(text.begin(), text.end()));
  return Status::kSuccess;
}

Status address(const AdapterQuestion& question, D3DKMT_ADAPTERADDRESS& out) {
  nt::Kernel& kernel = kernel_of(question);
  const auto bus = registry_number(kernel, kPropertiesKey, u"BusNumber");
  const auto place = registry_number(kernel, kPropertiesKey, u"Address");
  if (!bus.has_value() || !place.has_value()) return Status::kInvalidParameter;
  out.BusNumber = *bus;
  out.DeviceNumber = *place >> 16;
  out.FunctionNumber = *place & 0xFFFFU;
  return Status::kSuccess;
}

Status physical_count(const AdapterQuestion&, D3DKMT_PHYSICAL_ADAPTER_COUNT& out) {
  out.Count = 1;  // no links
  return Status::kSuccess;
}

Status device_ids(const AdapterQuestion& question, D3DKMT_QUERY_DEVICE_IDS& out) {
  if (out.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;
  const bus::PciIdentity& identity = question.adapter.core().function().identity();
  out.DeviceIds.VendorID = identity.vendor_id;
  out.DeviceIds.DeviceID = identity.device_id;
  out.DeviceIds.SubVendorID = identity.subsystem_vendor_id;
  out.DeviceIds.SubSystemID = identity.subsystem_id;
  out.DeviceIds.RevisionID = identity.revision;
  out.DeviceIds.BusType = kPciBus;
  return Status::kSuccess;
}

Status umd_name(const AdapterQuestion& question, D3DKMT_UMDFILENAMEINFO& out) {
  const auto names = registry_texts(kernel_of(question), kSoftwareKey, u"UserModeDriverName");
  const auto version = static_cast<uint32_t>(out.Version);  // one name for each, in this order
  if (version >= names.size()) return Status::kInvalidParameter;
  put_text(out.UmdFileName, names[version]);
  return Status::kSuccess;
}

Status opengl(const AdapterQuestion& question, D3DKMT_OPENGLINFO& out) {
  nt::Kernel& kernel = kernel_of(question);
  const auto names = registry_texts(kernel, kSoftwareKey, u"OpenGLDriverName");
  if (names.empty()) return Status::kInvalidParameter;
  put_text(out.UmdOpenGlIcdFileName, names.front());
  out.Version = registry_number(kernel, kSoftwareKey, u"OpenGLVersion").value_or(0);
  out.Flags = registry_number(kernel, kSoftwareKey, u"OpenGLFlags").value_or(0);
  return Status::kSuccess;
}

Status registry_info(const AdapterQuestion& question, D3DKMT_ADAPTERREGISTRYINFO& out) {
  const auto text = [&](const char16_t* name) {
    return registry_text(kernel_of(question), kSoftwareKey, name).value_or(u"");
  };
  put_text(out.AdapterString, text(u"HardwareInformation.AdapterString"));
  put_text(out.BiosString, text(u"HardwareInformation.BiosString"));
  put_text(out.DacType, text(u"HardwareInformation.DacType"));
  put_text(out.ChipType, text(u"HardwareInformation.ChipType"));
  return Status::kSuccess;
}

Status umd_version(const AdapterQuestion& question, D3DKMT_UMD_DRIVER_VERSION& out) {
  return package_version(question, &out.DriverVersion);
}

Status kmd_version(const AdapterQuestion& question, D3DKMT_KMD_DRIVER_VERSION& out) {
  return package_version(question, &out.DriverVersion);
}

Status description(const AdapterQuestion& question, D3DKMT_DRIVER_DESCRIPTION& out) {
  nt::Kernel& kernel = kernel_of(question);
  auto text = registry_text(kernel, kSoftwareKey, u"DriverDesc");
  if (!text.has_value()) text = registry_text(kernel, kPropertiesKey, u"DeviceDesc");
  put_text(out.DriverDescription, text.value_or(u""));
  return Status::kSuccess;
}

Status query_registry(const AdapterQuestion& question, std::span<std::byte> data) {
  constexpr size_t kOutput = offsetof(D3DDDI_QUERYREGISTRY_INFO, OutputBinary);
  D3DDDI_QUERYREGISTRY_INFO info;
  std::memcpy(&info, data.data(), sizeof info);
  if (info.PhysicalAdapterIndex != 0 || info.QueryFlags.Reserved != 0)
    return Status::kInvalidParameter;
  std::u16string_view key;
  switch (info.QueryType) {
    case D3DDDI_QUERYREGISTRY_SERVICEKEY:
      key = kServiceKey;
      break;
    case D3DDDI_QUERYREGISTRY_ADAPTERKEY:
      key = kSoftwareKey;
      break;
    case D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH:
    case D3DDDI_QUERYREGISTRY_DRIVERIMAGEPATH:
      return Status::kNotSupported;
    default:
      return Status::kInvalidParameter;
  }
  const std::u16string_view whole(info.ValueName, std::size(info.ValueName));
  const size_t end = whole.find(u'\0');
  if (end == std::u16string_view::npos) return Status::kInvalidParameter;
  const auto value = nt::registry_value(kernel_of(question), key, whole.substr(0, end));
  const std::span<std::byte> room = data.subspan(kOutput);
  if (!value.has_value() || value->type != info.ValueType) {
    info.OutputValueSize = 0;
    info.Status = D3DDDI_QUERYREGISTRY_STATUS_FAIL;
  } else {
    info.OutputValueSize = static_cast<ULONG>(value->data.size());
    info.Status = value->data.size() > room.size() ? D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW
                                                   : D3DDDI_QUERYREGISTRY_STATUS_SUCCESS;
  }
  std::memcpy(data.data(), &info, kOutput);
  if (info.Status == D3DDDI_QUERYREGISTRY_STATUS_SUCCESS)
    std::ranges::copy(value->data, room.begin());
  return Status::kSuccess;
}

Status current_mode(const AdapterQuestion& question, D3DKMT_CURRENTDISPLAYMODE& out) {
  DXGKIT_RETURN_IF_FAILED(check_source(question, out.VidPnSourceId));
  const auto mode = display_mode_of(*question.adapter.floor().display, out.VidPnSourceId);
  if (!mode.has_value()) return Status::kInvalidParameter;  // it shows nothing
  out.DisplayMode = *mode;
  return Status::kSuccess;
}

Status duplications(const AdapterQuestion& question, D3DKMT_OUTPUTDUPLCONTEXTSCOUNT& out) {
  DXGKIT_RETURN_IF_FAILED(check_source(question, out.VidPnSourceId));
  out.OutputDuplicationCount = 0;  // the kernel makes none
  return Status::kSuccess;
}

/// There is more than one plane: the primary alone is none.
Status overlay_planes(const AdapterQuestion& question, D3DKMT_MULTIPLANEOVERLAY_SUPPORT& out) {
  dxgk::Planes* const planes = dxgk::overlays_of(question.adapter.floor().display);
  out.Supported = planes != nullptr && planes->most() > 1 ? TRUE : FALSE;
  return Status::kSuccess;
}

Status overlay_planes3(const AdapterQuestion& question, D3DKMT_MPO3DDI_SUPPORT& out) {
  out.Supported = question.adapter.core().port().planes().version() == port::PlaneVersion::kThree
                      ? TRUE
                      : FALSE;
  return Status::kSuccess;
}

Status overlay_kernel_caps(const AdapterQuestion& question, D3DKMT_MPOKERNELCAPS_SUPPORT& out) {
  out.Supported =
      question.adapter.core().port().has_entry("DxgkDdiGetMultiPlaneOverlayCaps") ? TRUE : FALSE;
  return Status::kSuccess;
}

Status overlay_hud(const AdapterQuestion& question, D3DKMT_MULTIPLANEOVERLAY_HUD_SUPPORT& out) {
  DXGKIT_RETURN_IF_FAILED(check_source(question, out.VidPnSourceId));
  out.KernelSupported = out.HudSupported = FALSE;
  return Status::kSuccess;
}

Status overlay_stretch(const AdapterQuestion& question,
                       D3DKMT_MULTIPLANEOVERLAY_STRETCH_SUPPORT& out) {
  DXGKIT_RETURN_IF_FAILED(check_source(question, out.VidPnSourceId));
  out.Supported = FALSE;
  return Status::kSuccess;
}

Status vidpn_ownership(const AdapterQuestion& question,
                       D3DKMT_GET_DEVICE_VIDPN_OWNERSHIP_INFO& out) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const dxgk::Ref<dxgk::Device> device,
                                 question.process.handles().find<dxgk::Device>(out.hDevice));
  if (&device->adapter() != &question.adapter) return Status::kInvalidParameter;
  out.bFailedDwmAcquireVidPn = FALSE;  // no window manager takes sources here
  return Status::kSuccess;
}

Status tracked_workload(const AdapterQuestion&, D3DKMT_TRACKEDWORKLOAD_SUPPORT& out) {
  if (out.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;
  out.Support = FALSE;  // the kernel tracks no workloads
  return Status::kSuccess;
}

}  // namespace dxgkit::thunks::answers
