// Displays: children, VidPN functions, presents of display-only drivers, pointers, power.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "dxgkit/abi_versions.h"
#include "port/adapter_impl.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kQueryChildRelations{"DxgkDdiQueryChildRelations", nt::kPassiveLevel,
                                       DdiClass::kExclusive};
constexpr DdiInfo kQueryChildStatus{"DxgkDdiQueryChildStatus", nt::kPassiveLevel,
                                    DdiClass::kLevelZero};
constexpr DdiInfo kQueryDeviceDescriptor{"DxgkDdiQueryDeviceDescriptor", nt::kPassiveLevel,
                                         DdiClass::kLevelZero};
constexpr DdiInfo kIsSupportedVidPn{"DxgkDdiIsSupportedVidPn", nt::kPassiveLevel,
                                    DdiClass::kLevelZero};
constexpr DdiInfo kEnumVidPnCofuncModality{"DxgkDdiEnumVidPnCofuncModality", nt::kPassiveLevel,
                                           DdiClass::kLevelZero};
constexpr DdiInfo kQueryVidPnHWCapability{"DxgkDdiQueryVidPnHWCapability", nt::kPassiveLevel,
                                          DdiClass::kLevelZero};
constexpr DdiInfo kRecommendFunctionalVidPn{"DxgkDdiRecommendFunctionalVidPn", nt::kPassiveLevel,
                                            DdiClass::kLevelTwo};
constexpr DdiInfo kRecommendMonitorModes{"DxgkDdiRecommendMonitorModes", nt::kPassiveLevel,
                                         DdiClass::kLevelTwo};
constexpr DdiInfo kCommitVidPn{"DxgkDdiCommitVidPn", nt::kPassiveLevel, DdiClass::kLevelTwo};
constexpr DdiInfo kUpdateActiveVidPnPresentPath{"DxgkDdiUpdateActiveVidPnPresentPath",
                                                nt::kPassiveLevel, DdiClass::kLevelTwo};
constexpr DdiInfo kSetVidPnSourceVisibility{"DxgkDdiSetVidPnSourceVisibility", nt::kPassiveLevel,
                                            DdiClass::kLevelTwo};
constexpr DdiInfo kPresentDisplayOnly{"DxgkDdiPresentDisplayOnly", nt::kPassiveLevel,
                                      DdiClass::kLevelZero};
constexpr DdiInfo kSetPointerShape{"DxgkDdiSetPointerShape", nt::kPassiveLevel,
                                   DdiClass::kLevelZero};
constexpr DdiInfo kSetPointerPosition{"DxgkDdiSetPointerPosition", nt::kPassiveLevel,
                                      DdiClass::kLevelZero};
constexpr DdiInfo kStopAndRelease{"DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
                                  nt::kPassiveLevel, DdiClass::kExclusive};
constexpr DdiInfo kSystemDisplayEnable{"DxgkDdiSystemDisplayEnable", nt::kHighLevel,
                                       DdiClass::kLevelZeroBeside};
constexpr DdiInfo kSystemDisplayWrite{"DxgkDdiSystemDisplayWrite", nt::kHighLevel,
                                      DdiClass::kLevelZeroBeside};
constexpr DdiInfo kDescribeAllocation{"DxgkDdiDescribeAllocation", nt::kPassiveLevel,
                                      DdiClass::kLevelZero};
constexpr DdiInfo kGetStandardAllocation{"DxgkDdiGetStandardAllocationDriverData",
                                         nt::kPassiveLevel, DdiClass::kLevelZero};

constexpr uint32_t kChildrenMax = 4096;
constexpr uint32_t kDescriptorBlock = 128;  // of an EDID
constexpr uint32_t kDescriptorBlocksMax = 256;
constexpr uint32_t kPrivateDataMax = 1U << 20;
/// What a byte that the driver must write holds before: neither TRUE nor FALSE.
constexpr BOOLEAN kPoisonBoolean = 0xA5;

ChildInfo child_of(const DXGK_CHILD_DESCRIPTOR& descriptor) {
  ChildInfo child;
  child.uid = descriptor.ChildUid;
  child.acpi_uid = descriptor.AcpiUid;
  switch (descriptor.ChildDeviceType) {
    case TypeVideoOutput:
      child.kind = ChildInfo::Kind::kVideoOutput;
      child.technology =
          static_cast<uint32_t>(descriptor.ChildCapabilities.Type.VideoOutput.InterfaceTechnology);
      break;
    case TypeIntegratedDisplay:
      child.kind = ChildInfo::Kind::kIntegratedDisplay;
      child.technology = static_cast<uint32_t>(
          descriptor.ChildCapabilities.Type.IntegratedDisplayChild.InterfaceTechnology);
      break;
    default:
      break;
  }
  switch (descriptor.ChildCapabilities.HpdAwareness) {
    case HpdAwarenessAlwaysConnected:
      child.awareness = ChildInfo::Awareness::kAlwaysConnected;
      break;
    case HpdAwarenessPolled:
      child.awareness = ChildInfo::Awareness::kPolled;
      break;
    case HpdAwarenessInterruptible:
      child.awareness = ChildInfo::Awareness::kInterruptible;
      break;
    default:
      break;
  }
  return child;
}

D3DKMDT_HVIDPN vidpn_of(void* handle) { return static_cast<D3DKMDT_HVIDPN>(handle); }

D3DKMDT_ENUMCOFUNCMODALITY_PIVOT_TYPE pivot_of(EnumPivot pivot) {
  switch (pivot) {
    case EnumPivot::kNone:
      return D3DKMDT_EPT_NOPIVOT;
    case EnumPivot::kSource:
      return D3DKMDT_EPT_VIDPNSOURCE;
    case EnumPivot::kTarget:
      return D3DKMDT_EPT_VIDPNTARGET;
    case EnumPivot::kScaling:
      return D3DKMDT_EPT_SCALING;
    case EnumPivot::kRotation:
      return D3DKMDT_EPT_ROTATION;
  }
  return D3DKMDT_EPT_NOPIVOT;
}

/// A 32-bit set of flags as the ABI's record of bit fields.
template <typename Bits>
void set_bits(Bits& bits, uint32_t value) {
  static_assert(sizeof(bits) == sizeof(value));
  std::memcpy(&bits, &value, sizeof(value));
}

/// A driver's copy of what it is given: its changes go nowhere.
template <typename To, typename From>
std::vector<To> copy_of(std::span<const From> list) {
  static_assert(sizeof(To) == sizeof(From));
  std::vector<To> copy(list.size());
  if (!list.empty()) std::memcpy(copy.data(), list.data(), list.size_bytes());
  return copy;
}

}  // namespace

DisplayCaps display_caps_of(const DriverCaps& caps, uint32_t version) {
  DXGK_DRIVERCAPS raw{};
  if (!caps.raw.empty())  // a driver that was not asked
    std::memcpy(&raw, caps.raw.data(), std::min(caps.raw.size(), sizeof(raw)));
  DisplayCaps result;
  result.max_pointer_width = raw.MaxPointerWidth;
  result.max_pointer_height = raw.MaxPointerHeight;
  result.pointer_flags = raw.PointerCaps.Value;
  if (version >= kVersionWin8) {
    result.support_non_vga = raw.SupportNonVGA != FALSE;
    result.support_smooth_rotation = raw.SupportSmoothRotation != FALSE;
  }
  if (version >= DXGKDDI_INTERFACE_VERSION_WDDM2_6)
    result.compute_only = raw.MiscCaps.ComputeOnly != 0;
  return result;
}

std::vector<FeatureCap> features_of_wddm12(const DriverCaps& caps, uint32_t version) {
  if (version < kVersionWin8 || caps.raw.empty()) return {};
  DXGK_DRIVERCAPS raw{};
  std::memcpy(&raw, caps.raw.data(), std::min(caps.raw.size(), sizeof(raw)));
  return {{.name = "PreemptionCaps",
           .set = raw.PreemptionCaps.GraphicsPreemptionGranularity != 0 ||
                  raw.PreemptionCaps.ComputePreemptionGranularity != 0,
           .is_new = true},
          {.name = "SupportPerEngineTDR", .set = raw.SupportPerEngineTDR != FALSE, .is_new = true},
          {.name = "PresentationCaps.SupportKernelModeCommandBuffer",
           .set = raw.PresentationCaps.SupportKernelModeCommandBuffer != 0},
          {.name = "SupportNonVGA",
           .set = raw.SupportNonVGA != FALSE,
           .of_display = true,
           .is_new = true},
          {.name = "SupportSmoothRotation",
           .set = raw.SupportSmoothRotation != FALSE,
           .of_display = true,
           .is_new = true},
          {.name = "SupportDirectFlip",
           .set = raw.SupportDirectFlip != FALSE,
           .of_display = true,
           .is_new = true}};
}

bool AdapterPort::has_entry(std::string_view name) const {
  for (const abi::TableEntry& entry : abi::kDriverInitializationData) {
    if (entry.name != name || entry.since > impl_->version) continue;
    void* pointer = nullptr;
    std::memcpy(&pointer, reinterpret_cast<const std::byte*>(&impl_->ddi) + entry.offset_bytes,
                sizeof(pointer));
    return pointer != nullptr;
  }
  return false;
}

const void* AdapterPort::device_handle() const { return impl_->handle(); }

void AdapterPort::enter_level_two() { impl_->enter_level_two(); }
void AdapterPort::leave_level_two() { impl_->leave_level_two(); }
void AdapterPort::set_lane_check(std::function<bool()> is_lane) {
  impl_->is_lane = std::move(is_lane);
}

void AdapterPort::Impl::enter_level_two() {
  while (level_two_taken.exchange(1) != 0) kernel.runtime().wait(level_two_taken, 1);
  level_zero.bar();
  level_zero.wait_empty();
}

bool AdapterPort::enter_level_two_until(int64_t deadline_ns) {
  Impl& port = *impl_;
  while (port.level_two_taken.exchange(1) != 0) {
    if (port.kernel.runtime().wait(port.level_two_taken, 1, deadline_ns) ==
        runtime::WaitResult::kTimedOut) {
      return false;
    }
  }
  port.level_zero.bar();
  if (port.level_zero.wait_empty_until(deadline_ns)) return true;
  port.levels().leave_level_two();
  return false;
}

void AdapterPort::Impl::leave_level_two() {
  level_zero.unbar();
  level_two_taken.store(0);
  kernel.runtime().wake_all(level_two_taken);
}

void AdapterPort::Impl::wait_for_level_two() {
  // The lane itself makes the level-two calls of a full driver: it never waits for them.
  if (is_lane && is_lane()) return level_zero.enter_barred();
  while (!level_zero.enter()) level_zero.wait_unbarred();
}

Status AdapterPort::query_child_relations(uint32_t children, std::vector<ChildInfo>* out) {
  Impl& port = *impl_;
  if (out != nullptr) out->clear();
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiQueryChildRelations == nullptr) return Status::kNotSupported;
  if (children > kChildrenMax) return Status::kInsufficientResources;
  std::vector<DXGK_CHILD_DESCRIPTOR> relations(size_t{children} + 1);
  std::memset(relations.data(), 0, relations.size() * sizeof(relations[0]));
  DdiCall call(port, kQueryChildRelations);
  const Status status = call(port.ddi.DxgkDdiQueryChildRelations, port.context, relations.data(),
                             static_cast<ULONG>(relations.size() * sizeof(relations[0])));
  if (!call.completed()) return status;
  const DXGK_CHILD_DESCRIPTOR zero{};
  if (std::memcmp(&relations.back(), &zero, sizeof(zero)) != 0) {
    (void)port.violation(
        "LIFE-10", kQueryChildRelations.name,
        fmt::format("Element {} is not zero any more.", children),
        fmt::format("{} elements may be filled; the last of the {} given stays zero.", children,
                    children + 1),
        "Fill NumberOfChildren elements, no more.", status);
  }
  if (is_success(status) && out != nullptr) {
    // A driver may have fewer children than it said: the first untouched element ends the list.
    for (uint32_t i = 0; i < children; ++i) {
      if (relations[i].ChildDeviceType == TypeUninitialized) break;
      out->push_back(child_of(relations[i]));
    }
  }
  return status;
}

Result<bool> AdapterPort::query_child_status(uint32_t child, bool non_destructive_only) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (port.ddi.DxgkDdiQueryChildStatus == nullptr) return Error(Status::kNotSupported);
  DXGK_CHILD_STATUS answer{};
  answer.Type = StatusConnection;
  answer.ChildUid = child;
  answer.HotPlug.Connected = kPoisonBoolean;
  DdiCall call(port, kQueryChildStatus, child);
  const Status status = call(port.ddi.DxgkDdiQueryChildStatus, port.context, &answer,
                             static_cast<BOOLEAN>(non_destructive_only ? TRUE : FALSE));
  if (!is_success(status)) return Error(status);
  if (answer.HotPlug.Connected == kPoisonBoolean) {
    (void)port.violation(
        "CAPS-08", kQueryChildStatus.name,
        fmt::format("It succeeded for child {} without writing HotPlug.Connected.", child),
        "With Type StatusConnection it writes HotPlug.Connected.",
        "Set ChildStatus->HotPlug.Connected to TRUE or FALSE.", Status::kSuccess);
    return false;
  }
  return answer.HotPlug.Connected != FALSE;
}

Result<std::vector<std::byte>> AdapterPort::query_device_descriptor(uint32_t child) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (port.ddi.DxgkDdiQueryDeviceDescriptor == nullptr) return Error(Status::kNotSupported);
  std::vector<std::byte> descriptor;
  uint32_t blocks = 1;
  for (uint32_t block = 0; block < blocks && block < kDescriptorBlocksMax; ++block) {
    std::vector<std::byte> buffer(kDescriptorBlock);
    DXGK_DEVICE_DESCRIPTOR arguments{};
    arguments.DescriptorOffset = block * kDescriptorBlock;
    arguments.DescriptorLength = kDescriptorBlock;
    arguments.DescriptorBuffer = buffer.data();
    Status status = Status::kSuccess;
    {
      DdiCall call(port, kQueryDeviceDescriptor, child);
      status = call(port.ddi.DxgkDdiQueryDeviceDescriptor, port.context, static_cast<ULONG>(child),
                    &arguments);
    }
    if (!is_success(status)) {
      if (block == 0) return Error(status);
      break;  // an extension the driver cannot read is one the monitor does not have
    }
    descriptor.insert(descriptor.end(), buffer.begin(), buffer.end());
    // Byte 126 of the first block counts the extension blocks.
    if (block == 0) blocks += static_cast<uint32_t>(buffer[126]);
  }
  return descriptor;
}

Result<bool> AdapterPort::is_supported_vidpn(void* vidpn) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (port.ddi.DxgkDdiIsSupportedVidPn == nullptr) return Error(Status::kNotSupported);
  DXGKARG_ISSUPPORTEDVIDPN arguments{};
  arguments.hDesiredVidPn = vidpn_of(vidpn);
  arguments.IsVidPnSupported = kPoisonBoolean;
  DdiCall call(port, kIsSupportedVidPn);
  const Status status = call(port.ddi.DxgkDdiIsSupportedVidPn, port.context, &arguments);
  if (!is_success(status)) return Error(status);
  if (arguments.IsVidPnSupported == kPoisonBoolean) {
    (void)port.violation(
        "CAPS-08", kIsSupportedVidPn.name, "It succeeded without writing IsVidPnSupported.",
        "IsVidPnSupported tells whether the VidPN can be made functional.",
        "Write TRUE or FALSE on every path that returns success.", Status::kSuccess);
    return false;
  }
  return arguments.IsVidPnSupported != FALSE;
}

Status AdapterPort::enum_cofunc_modality(void* vidpn, EnumPivot pivot, uint32_t source,
                                         uint32_t target) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiEnumVidPnCofuncModality == nullptr) return Status::kNotSupported;
  DXGKARG_ENUMVIDPNCOFUNCMODALITY arguments{};
  arguments.hConstrainingVidPn = vidpn_of(vidpn);
  arguments.EnumPivotType = pivot_of(pivot);
  arguments.EnumPivot.VidPnSourceId = source;
  arguments.EnumPivot.VidPnTargetId = target;
  DdiCall call(port, kEnumVidPnCofuncModality, static_cast<uint64_t>(pivot));
  return call(port.ddi.DxgkDdiEnumVidPnCofuncModality, port.context,
              static_cast<const DXGKARG_ENUMVIDPNCOFUNCMODALITY*>(&arguments));
}

Status AdapterPort::recommend_functional_vidpn(void* vidpn, std::span<const uint32_t> targets) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiRecommendFunctionalVidPn == nullptr) return Status::kNotSupported;
  std::vector<uint32_t> order(targets.begin(), targets.end());
  DXGKARG_RECOMMENDFUNCTIONALVIDPN arguments{};
  arguments.NumberOfVidPnTargets = static_cast<UINT>(order.size());
  arguments.pVidPnTargetPrioritizationVector = order.data();
  arguments.hRecommendedFunctionalVidPn = vidpn_of(vidpn);
  arguments.RequestReason = DXGK_RFVR_USERMODE;
  DdiCall call(port, kRecommendFunctionalVidPn);
  return call(port.ddi.DxgkDdiRecommendFunctionalVidPn, port.context,
              static_cast<const DXGKARG_RECOMMENDFUNCTIONALVIDPN*>(&arguments));
}

Status AdapterPort::recommend_monitor_modes(uint32_t target, void* mode_set,
                                            const void* mode_set_interface) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiRecommendMonitorModes == nullptr) return Status::kNotSupported;
  DXGKARG_RECOMMENDMONITORMODES arguments{};
  arguments.VideoPresentTargetId = target;
  arguments.hMonitorSourceModeSet = static_cast<D3DKMDT_HMONITORSOURCEMODESET>(mode_set);
  arguments.pMonitorSourceModeSetInterface =
      static_cast<const DXGK_MONITORSOURCEMODESET_INTERFACE*>(mode_set_interface);
  DdiCall call(port, kRecommendMonitorModes, target);
  return call(port.ddi.DxgkDdiRecommendMonitorModes, port.context,
              static_cast<const DXGKARG_RECOMMENDMONITORMODES*>(&arguments));
}

Result<uint32_t> AdapterPort::query_vidpn_hw_capability(void* vidpn, uint32_t source,
                                                        uint32_t target) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (port.ddi.DxgkDdiQueryVidPnHWCapability == nullptr) return Error(Status::kNotSupported);
  DXGKARG_QUERYVIDPNHWCAPABILITY arguments{};
  arguments.hFunctionalVidPn = vidpn_of(vidpn);
  arguments.SourceId = source;
  arguments.TargetId = target;
  DdiCall call(port, kQueryVidPnHWCapability);
  const Status status = call(port.ddi.DxgkDdiQueryVidPnHWCapability, port.context, &arguments);
  if (!is_success(status)) return Error(status);
  uint32_t caps = 0;
  std::memcpy(&caps, &arguments.VidPnHWCaps, sizeof(caps));
  return caps;
}

Status AdapterPort::commit_vidpn(void* vidpn, uint32_t affected_source, void* primary) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiCommitVidPn == nullptr) return Status::kNotSupported;
  DXGKARG_COMMITVIDPN arguments{};
  arguments.hFunctionalVidPn = vidpn_of(vidpn);
  arguments.AffectedVidPnSourceId = affected_source;
  arguments.MonitorConnectivityChecks = D3DKMDT_MCC_ENFORCE;
  arguments.hPrimaryAllocation = primary;
  DdiCall call(port, kCommitVidPn, affected_source);
  return call(port.ddi.DxgkDdiCommitVidPn, port.context,
              static_cast<const DXGKARG_COMMITVIDPN*>(&arguments));
}

Status AdapterPort::update_active_present_path(const vidpn::Path& path) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiUpdateActiveVidPnPresentPath == nullptr) return Status::kNotSupported;
  DXGKARG_UPDATEACTIVEVIDPNPRESENTPATH arguments{};
  D3DKMDT_VIDPN_PRESENT_PATH& info = arguments.VidPnPresentPathInfo;
  info.VidPnSourceId = path.source;
  info.VidPnTargetId = path.target;
  info.ImportanceOrdinal = static_cast<D3DKMDT_VIDPN_PRESENT_PATH_IMPORTANCE>(path.importance);
  D3DKMDT_VIDPN_PRESENT_PATH_TRANSFORMATION& transformation = info.ContentTransformation;
  transformation.Scaling = static_cast<D3DKMDT_VIDPN_PRESENT_PATH_SCALING>(path.scaling);
  transformation.Rotation = static_cast<D3DKMDT_VIDPN_PRESENT_PATH_ROTATION>(path.rotation);
  set_bits(transformation.ScalingSupport, path.scaling_support);
  set_bits(transformation.RotationSupport, path.rotation_support);
  info.VisibleFromActiveTLOffset = {path.visible_from_active_top_left.width,
                                    path.visible_from_active_top_left.height};
  info.VisibleFromActiveBROffset = {path.visible_from_active_bottom_right.width,
                                    path.visible_from_active_bottom_right.height};
  info.VidPnTargetColorBasis = static_cast<D3DKMDT_COLOR_BASIS>(path.color_basis);
  std::memcpy(&info.VidPnTargetColorCoeffDynamicRanges, path.color_ranges.data(),
              sizeof(info.VidPnTargetColorCoeffDynamicRanges));
  info.Content = static_cast<D3DKMDT_VIDPN_PRESENT_PATH_CONTENT>(path.content);
  info.CopyProtection.CopyProtectionType =
      static_cast<D3DKMDT_VIDPN_PRESENT_PATH_COPYPROTECTION_TYPE>(path.copy_protection);
  info.CopyProtection.APSTriggerBits = path.aps_trigger_bits;
  set_bits(info.CopyProtection.CopyProtectionSupport, path.copy_protection_support);
  std::vector<std::byte> gamma = path.gamma;  // the driver's to read, during the call
  info.GammaRamp.Type = static_cast<D3DDDI_GAMMARAMP_TYPE>(path.gamma_type);
  info.GammaRamp.DataSize = gamma.size();
  info.GammaRamp.Data.pRaw = gamma.empty() ? nullptr : gamma.data();
  DdiCall call(port, kUpdateActiveVidPnPresentPath);
  return call(port.ddi.DxgkDdiUpdateActiveVidPnPresentPath, port.context,
              static_cast<const DXGKARG_UPDATEACTIVEVIDPNPRESENTPATH*>(&arguments));
}

Status AdapterPort::set_source_visibility(uint32_t source, bool visible) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiSetVidPnSourceVisibility == nullptr) return Status::kNotSupported;
  DXGKARG_SETVIDPNSOURCEVISIBILITY arguments{};
  arguments.VidPnSourceId = source;
  arguments.Visible = visible ? TRUE : FALSE;
  DdiCall call(port, kSetVidPnSourceVisibility, source);
  return call(port.ddi.DxgkDdiSetVidPnSourceVisibility, port.context,
              static_cast<const DXGKARG_SETVIDPNSOURCEVISIBILITY*>(&arguments));
}

Status AdapterPort::present_display_only(const PresentDisplayOnlyArgs& args) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.driver.display_only_ddi.DxgkDdiPresentDisplayOnly == nullptr)
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
  DdiCall call(port, kPresentDisplayOnly, args.source);
  const Status status = call(port.driver.display_only_ddi.DxgkDdiPresentDisplayOnly, port.context,
                             static_cast<const DXGKARG_PRESENT_DISPLAYONLY*>(&arguments));
  // The lists belong to this call: a driver that answers STATUS_PENDING copies what it needs.
  return status;
}

Status AdapterPort::set_pointer_position(uint32_t source, int32_t x, int32_t y, bool visible) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiSetPointerPosition == nullptr) return Status::kNotSupported;
  DXGKARG_SETPOINTERPOSITION arguments{};
  arguments.VidPnSourceId = source;
  arguments.X = x;
  arguments.Y = y;
  arguments.Flags.Visible = visible ? 1 : 0;
  DdiCall call(port, kSetPointerPosition, source);
  return call(port.ddi.DxgkDdiSetPointerPosition, port.context,
              static_cast<const DXGKARG_SETPOINTERPOSITION*>(&arguments));
}

Status AdapterPort::set_pointer_shape(const PointerShape& shape) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiSetPointerShape == nullptr) return Status::kNotSupported;
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
  DdiCall call(port, kSetPointerShape, shape.source);
  return call(port.ddi.DxgkDdiSetPointerShape, port.context,
              static_cast<const DXGKARG_SETPOINTERSHAPE*>(&arguments));
}

Status AdapterPort::stop_device_and_release(uint32_t target, DisplayInformation* out) {
  Impl& port = *impl_;
  DXGKIT_CHECK(port.started);
  *out = {};
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiStopDeviceAndReleasePostDisplayOwnership == nullptr)
    return Status::kNotSupported;
  DXGK_DISPLAY_INFORMATION information{};
  Status status = Status::kSuccess;
  {
    DdiCall call(port, kStopAndRelease, target);
    status = call(port.ddi.DxgkDdiStopDeviceAndReleasePostDisplayOwnership, port.context,
                  static_cast<D3DDDI_VIDEO_PRESENT_TARGET_ID>(target), &information);
  }
  if (!is_success(status)) return status;  // LIFE-19: StopDevice follows
  port.started = false;
  port.disconnect_interrupt();
  *out = {.width = information.Width,
          .height = information.Height,
          .pitch_bytes = information.Pitch,
          .format = static_cast<uint32_t>(information.ColorFormat),
          .address = static_cast<uint64_t>(information.PhysicAddress.QuadPart),
          .target_id = information.TargetId,
          .acpi_id = information.AcpiId};
  return status;
}

Status AdapterPort::system_display_enable(uint32_t target, uint32_t* width, uint32_t* height,
                                          uint32_t* format) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiSystemDisplayEnable == nullptr) return Status::kNotSupported;
  DXGKARG_SYSTEM_DISPLAY_ENABLE_FLAGS flags{};
  UINT out_width = 0, out_height = 0;
  D3DDDIFORMAT out_format = D3DDDIFMT_UNKNOWN;
  DdiCall call(port, kSystemDisplayEnable, target);
  const Status status = call(port.ddi.DxgkDdiSystemDisplayEnable, port.context,
                             static_cast<D3DDDI_VIDEO_PRESENT_TARGET_ID>(target), &flags,
                             &out_width, &out_height, &out_format);
  *width = out_width;
  *height = out_height;
  *format = static_cast<uint32_t>(out_format);
  return status;
}

Status AdapterPort::system_display_write(std::span<const std::byte> pixels, uint32_t width,
                                         uint32_t height, uint32_t stride_bytes, uint32_t x,
                                         uint32_t y) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiSystemDisplayWrite == nullptr) return Status::kNotSupported;
  std::vector<std::byte> copy(pixels.begin(), pixels.end());
  DdiCall call(port, kSystemDisplayWrite);
  return call.no_answer(port.ddi.DxgkDdiSystemDisplayWrite, port.context,
                        static_cast<void*>(copy.data()), static_cast<UINT>(width),
                        static_cast<UINT>(height), static_cast<UINT>(stride_bytes),
                        static_cast<UINT>(x), static_cast<UINT>(y));
}

Result<AllocationDescription> AdapterPort::describe_allocation(void* allocation) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (port.ddi.DxgkDdiDescribeAllocation == nullptr) return Error(Status::kNotSupported);
  DXGKARG_DESCRIBEALLOCATION arguments{};
  arguments.hAllocation = allocation;
  DdiCall call(port, kDescribeAllocation);
  const Status status = call(port.ddi.DxgkDdiDescribeAllocation, port.context, &arguments);
  if (!is_success(status)) return Error(status);
  return AllocationDescription{.width = arguments.Width,
                               .height = arguments.Height,
                               .format = static_cast<uint32_t>(arguments.Format),
                               .samples = arguments.MultisampleMethod.NumSamples,
                               .sample_quality = arguments.MultisampleMethod.NumQualityLevels,
                               .refresh_numerator = arguments.RefreshRate.Numerator,
                               .refresh_denominator = arguments.RefreshRate.Denominator,
                               .private_format = arguments.PrivateDriverFormatAttribute};
}

namespace {

/// Twice: the sizes, then the data. `fill` says what is described.
template <typename Fill>
Result<StandardAllocation> describe(AdapterPort::Impl& port, const Fill& fill) {
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (port.ddi.DxgkDdiGetStandardAllocationDriverData == nullptr)
    return Error(Status::kNotSupported);
  StandardAllocation result;
  for (const bool sizes_only : {true, false}) {
    DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA arguments{};
    fill(arguments);
    if (!sizes_only) {
      arguments.pAllocationPrivateDriverData =
          result.allocation_data.empty() ? nullptr : result.allocation_data.data();
      arguments.AllocationPrivateDriverDataSize = static_cast<UINT>(result.allocation_data.size());
      arguments.pResourcePrivateDriverData =
          result.resource_data.empty() ? nullptr : result.resource_data.data();
      arguments.ResourcePrivateDriverDataSize = static_cast<UINT>(result.resource_data.size());
    }
    DdiCall call(port, kGetStandardAllocation);
    const Status status =
        call(port.ddi.DxgkDdiGetStandardAllocationDriverData, port.context, &arguments);
    if (!is_success(status)) return Error(status);
    if (sizes_only) {
      if (arguments.AllocationPrivateDriverDataSize > kPrivateDataMax ||
          arguments.ResourcePrivateDriverDataSize > kPrivateDataMax) {
        return Error(Status::kInsufficientResources);
      }
      result.allocation_data.resize(arguments.AllocationPrivateDriverDataSize);
      result.resource_data.resize(arguments.ResourcePrivateDriverDataSize);
    }
  }
  return result;
}

}  // namespace

Result<StandardAllocation> AdapterPort::describe_shared_primary(const PrimarySurface& surface) {
  D3DKMDT_SHAREDPRIMARYSURFACEDATA data{};
  return describe(*impl_, [&](DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA& arguments) {
    data = {};  // the driver may have written to it
    data.Width = surface.width;
    data.Height = surface.height;
    data.Format = static_cast<D3DDDIFORMAT>(surface.format);
    data.RefreshRate.Numerator = surface.refresh_numerator;
    data.RefreshRate.Denominator = surface.refresh_denominator;
    data.VidPnSourceId = surface.source;
    arguments.StandardAllocationType = D3DKMDT_STANDARDALLOCATION_SHAREDPRIMARYSURFACE;
    arguments.pCreateSharedPrimarySurfaceData = &data;
  });
}

Result<StandardAllocation> AdapterPort::describe_existing_memory(uint64_t size_bytes) {
  // One row of bytes per page, so that any number of whole pages is a surface.
  constexpr UINT kFormatA8 = 28;
  const uint64_t rows = size_bytes / kPageBytes;
  if (size_bytes % kPageBytes != 0 || rows == 0 || rows > UINT32_MAX)
    return Error(Status::kInvalidParameter);
  D3DKMDT_GDISURFACEDATA data{};
  return describe(*impl_, [&](DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA& arguments) {
    data = {};
    data.Width = static_cast<UINT>(kPageBytes);
    data.Height = static_cast<UINT>(rows);
    data.Format = static_cast<D3DDDIFORMAT>(kFormatA8);
    data.Type = D3DKMDT_GDISURFACE_EXISTINGSYSMEM;
    data.Pitch = static_cast<UINT>(kPageBytes);
    arguments.StandardAllocationType = D3DKMDT_STANDARDALLOCATION_GDISURFACE;
    arguments.pCreateGdiSurfaceData = &data;
  });
}

}  // namespace dxgkit::port
