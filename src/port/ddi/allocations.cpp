#include "port/ddi/allocations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"
#include "port/core/port_core.h"
#include "port/ddi/unwritten.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCreateAllocation{"DxgkDdiCreateAllocation", nt::kPassiveLevel,
                                    DdiClass::kLevelZero};
constexpr DdiInfo kDestroyAllocation{"DxgkDdiDestroyAllocation", nt::kPassiveLevel,
                                     DdiClass::kLevelZero};
constexpr DdiInfo kOpenAllocation{"DxgkDdiOpenAllocation", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kCloseAllocation{"DxgkDdiCloseAllocation", nt::kPassiveLevel,
                                   DdiClass::kLevelZero};
constexpr DdiInfo kValidateUpdate{"DxgkDdiValidateUpdateAllocationProperty", nt::kPassiveLevel,
                                  DdiClass::kLevelZero};

constexpr DdiInfo kStopCapture{"DxgkDdiStopCapture", nt::kPassiveLevel, DdiClass::kLevelTwo};

/// The private data of a call's elements and of its resource, between guards.
class GuardedPrivateData {
 public:
  template <typename Info>
  GuardedPrivateData(std::span<Info> infos, std::span<const std::byte> resource)
      : resource_(or_null(resource)),
        first_(or_null(infos.empty() ? std::span<const std::byte>() : infos[0].private_data)),
        count_(infos.size()) {
    if (count_ < 2) return;
    others_.reserve(count_ - 1);
    for (const Info& info : infos.subspan(1)) others_.emplace_back(or_null(info.private_data));
  }
  std::byte* of_element(size_t i) const { return i == 0 ? first_.data() : others_[i - 1].data(); }
  std::byte* of_resource() const { return resource_.data(); }
  /// After DxgkDdiCreateAllocation, which may write all of it.
  void finish_created(PortCore& core) {
    static_cast<void>(resource_.finish(core, kCreateAllocation.name, kOfResource));
    for (size_t i = 0; i < count_; ++i)
      static_cast<void>(element(i).finish(core, kCreateAllocation.name, kOfElement, i));
  }
  /// ALLOC-24: DxgkDdiOpenAllocation may only read some of it. A driver that writes that gets a
  /// finding; the next driver sees the original data.
  /// @param create  then the data of each allocation may change
  void finish_opened(PortCore& core, bool create) {
    static_cast<void>(resource_.check(core, kOpenAllocation.name, kOfResource));
    if (const auto changed = resource_.first_change(); changed.has_value())
      report_change(core, *changed, "the private data of the resource");
    for (size_t i = 0; i < count_; ++i) {
      if (create) {
        static_cast<void>(element(i).finish(core, kOpenAllocation.name, kOfElement, i));
        continue;
      }
      static_cast<void>(element(i).check(core, kOpenAllocation.name, kOfElement, i));
      if (const auto changed = element(i).first_change(); changed.has_value())
        report_change(core, *changed,
                      fmt::format("the private data of element {}, without Flags.Create", i));
    }
  }

 private:
  static constexpr const char* kOfResource = "pPrivateDriverData of the resource";
  static constexpr const char* kOfElement = "pPrivateDriverData of element";

  static std::span<const std::byte> or_null(std::span<const std::byte> data) {
    return data.empty() ? std::span<const std::byte>() : data;
  }
  static void report_change(PortCore& core, size_t byte, const std::string& what) {
    (void)core.violation(
        "ALLOC-24", kOpenAllocation.name, fmt::format("It changed byte {} of {}.", byte, what),
        "Private data of a resource is never written there, that of an allocation only with "
        "Flags.Create.",
        "Keep what you must remember behind hDeviceSpecificAllocation.", Status::kSuccess);
  }
  GuardedOutput& element(size_t i) { return i == 0 ? first_ : others_[i - 1]; }

  GuardedOutput resource_, first_;  // most calls have one element, which needs no heap
  std::vector<GuardedOutput> others_;
  size_t count_;
};

constexpr DdiInfo kDescribeAllocation{"DxgkDdiDescribeAllocation", nt::kPassiveLevel,
                                      DdiClass::kLevelZero, verifier::Situation::kDescribePrimary};
constexpr DdiInfo kGetStandardAllocation{"DxgkDdiGetStandardAllocationDriverData",
                                         nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr uint32_t kPrivateDataMax = 1U << 20;

/// Called twice: for the sizes, then for the data. `fill` describes the surface.
template <typename Fill>
Result<StandardAllocation> describe(PortCore& core, const Fill& fill) {
  if (is_dead(core)) return Error(Status::kDeviceRemoved);
  if (core.ddi.DxgkDdiGetStandardAllocationDriverData == nullptr)
    return Error(Status::kNotSupported);
  StandardAllocation result;
  for (const bool sizes_only : {true, false}) {
    DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA arguments{};
    fill(arguments);
    GuardedOutput allocation_data(result.allocation_data), resource_data(result.resource_data);
    if (!sizes_only) {
      arguments.pAllocationPrivateDriverData =
          result.allocation_data.empty() ? nullptr : allocation_data.data();
      arguments.AllocationPrivateDriverDataSize = static_cast<UINT>(result.allocation_data.size());
      arguments.pResourcePrivateDriverData =
          result.resource_data.empty() ? nullptr : resource_data.data();
      arguments.ResourcePrivateDriverDataSize = static_cast<UINT>(result.resource_data.size());
    } else {
      fill_output(core, &arguments.AllocationPrivateDriverDataSize);
      fill_output(core, &arguments.ResourcePrivateDriverDataSize);
    }
    DdiCall call(core, kGetStandardAllocation);
    const Status status =
        call(core.ddi.DxgkDdiGetStandardAllocationDriverData, core.context, &arguments);
    static_cast<void>(
        allocation_data.finish(core, kGetStandardAllocation.name, "pAllocationPrivateDriverData"));
    static_cast<void>(
        resource_data.finish(core, kGetStandardAllocation.name, "pResourcePrivateDriverData"));
    if (!is_success(status)) return Error(status);
    if (sizes_only) {
      UnwrittenMembers unwritten(core.output_fill);
      unwritten.look("AllocationPrivateDriverDataSize", &arguments.AllocationPrivateDriverDataSize);
      unwritten.look("ResourcePrivateDriverDataSize", &arguments.ResourcePrivateDriverDataSize);
      unwritten.report(core, kGetStandardAllocation.name,
                       "DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA");
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

/// LIFE-29. What the driver did not write becomes 0, as it is without a fill.
void report_unwritten(PortCore& core, std::span<DXGK_ALLOCATIONINFO> elements) {
  for (DXGK_ALLOCATIONINFO& element : elements) {
    UnwrittenMembers unwritten(core.output_fill);
    unwritten.look("Alignment", &element.Alignment);
    unwritten.look("Size", &element.Size);
    unwritten.look("PitchAlignedSize", &element.PitchAlignedSize);
    unwritten.look("HintedBank", &element.HintedBank);
    unwritten.look("PreferredSegment", &element.PreferredSegment);
    unwritten.look("SupportedReadSegmentSet", &element.SupportedReadSegmentSet);
    unwritten.look("SupportedWriteSegmentSet", &element.SupportedWriteSegmentSet);
    unwritten.look("EvictionSegmentSet", &element.EvictionSegmentSet);
    unwritten.look("MaximumRenamingListLength", &element.MaximumRenamingListLength);
    unwritten.look("Flags", &element.Flags);
    unwritten.look("pAllocationUsageHint", &element.pAllocationUsageHint);
    unwritten.look("AllocationPriority", &element.AllocationPriority);
    unwritten.report(core, kCreateAllocation.name, "pAllocationInfo");
  }
}

}  // namespace

Status AllocationsPort::create_allocations(std::span<AllocationInfo> infos,
                                           std::span<const std::byte> private_data,
                                           bool creates_resource, void** resource) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  GuardedOutput array = GuardedOutput::of_zeros(infos.size() * sizeof(DXGK_ALLOCATIONINFO));
  const std::span elements(array.as<DXGK_ALLOCATIONINFO>(), infos.size());
  if (core_.output_fill != std::byte{0}) [[unlikely]]
    std::ranges::fill(std::as_writable_bytes(elements), core_.output_fill);
  GuardedPrivateData guarded(infos, private_data);
  for (size_t i = 0; i < infos.size(); ++i) {
    elements[i].pPrivateDriverData = guarded.of_element(i);
    elements[i].PrivateDriverDataSize = size_of(infos[i].private_data);
    elements[i].hAllocation = nullptr;
    std::memset(&elements[i].Flags2, 0, sizeof(elements[i].Flags2));  // younger than most drivers
  }
  DXGKARG_CREATEALLOCATION arguments{};
  arguments.pPrivateDriverData = guarded.of_resource();
  arguments.PrivateDriverDataSize = size_of(private_data);
  arguments.NumAllocations = static_cast<UINT>(infos.size());
  arguments.pAllocationInfo = elements.empty() ? nullptr : elements.data();  // of a resource
  void* const given = resource == nullptr ? nullptr : *resource;
  arguments.hResource = given;
  arguments.Flags.Resource = creates_resource ? 1 : 0;
  DdiCall call(core_, kCreateAllocation, infos.size());
  const Status status = call(core_.ddi.DxgkDdiCreateAllocation, core_.context, &arguments);
  static_cast<void>(array.check(core_, kCreateAllocation.name, "pAllocationInfo"));
  guarded.finish_created(core_);
  if (!call.completed()) return status;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->objects.allocations_made(infos, creates_resource, status);
  constexpr std::array kDocumented = {Status::kSuccess, Status::kInvalidParameter,
                                      Status::kNoMemory, Status::kGraphicsDriverMismatch};
  if (std::ranges::find(kDocumented, status) == kDocumented.end()) {
    const Status answer = is_success(status) ? Status::kInvalidParameter : status;
    return core_.violation("ALLOC-03", kCreateAllocation.name,
                           fmt::format("It returned {}.", hex(status)),
                           "STATUS_SUCCESS, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY or "
                           "STATUS_GRAPHICS_DRIVER_MISMATCH.",
                           "Map the failure to one of these.", answer);
  }
  if (status != Status::kSuccess) return status;
  if (core_.output_fill != std::byte{0}) [[unlikely]]
    report_unwritten(core_, elements);
  std::string missing;
  for (size_t i = 0; i < infos.size(); ++i) {
    const DXGK_ALLOCATIONINFO& element = elements[i];
    AllocationInfo& info = infos[i];
    info.handle = element.hAllocation;
    info.size = element.Size;
    info.pitch_aligned_size = element.PitchAlignedSize;
    info.alignment = element.Alignment;
    info.supported_read = element.SupportedReadSegmentSet;
    info.supported_write = element.SupportedWriteSegmentSet;
    info.eviction = element.EvictionSegmentSet;
    std::memcpy(&info.preferred, &element.PreferredSegment, sizeof(info.preferred));
    std::memcpy(&info.bank_hints, &element.HintedBank, sizeof(info.bank_hints));
    info.maximum_renaming = element.MaximumRenamingListLength;
    std::memcpy(&info.flags, &element.Flags, sizeof(info.flags));
    info.priority = element.AllocationPriority;
    if (core_.version >= kInterfaceWddm30)
      std::memcpy(&info.flags2, &element.Flags2, sizeof(info.flags2));
    if (info.handle == nullptr) missing += fmt::format(" {}", i);
    if (core_.faults != nullptr) [[unlikely]]
      core_.faults->allocation_made(info);
  }
  if (arguments.hResource != given && (!creates_resource || given != nullptr)) {
    static_cast<void>(core_.violation(
        "ALLOC-62", kCreateAllocation.name,
        fmt::format("It wrote hResource with Flags.Resource {} and hResource {}.",
                    creates_resource ? 1 : 0, given != nullptr ? "given" : "NULL"),
        "The driver gives a handle for a new resource only: with Flags.Resource 1 and hResource "
        "NULL.",
        "Look at both before hResource is written.", Status::kSuccess));
    arguments.hResource = given;
  }
  if (resource != nullptr) *resource = arguments.hResource;
  if (!missing.empty()) {
    // The caller destroys the elements that do have a handle.
    return core_.violation(
        "ALLOC-02", kCreateAllocation.name,
        fmt::format("It succeeded with a null hAllocation in element{}.", missing),
        "On success every element has a non-null hAllocation.", "Set hAllocation of each element.",
        Status::kInvalidParameter);
  }
  return status;
}

Status AllocationsPort::destroy_allocations(std::span<void* const> handles, void* resource,
                                            bool destroy_resource) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  DXGKARG_DESTROYALLOCATION arguments{};
  arguments.NumAllocations = static_cast<UINT>(handles.size());
  arguments.pAllocationList = handles.empty() ? nullptr : handles.data();
  arguments.hResource = resource;
  arguments.Flags.DestroyResource = destroy_resource ? 1 : 0;
  DdiCall call(core_, kDestroyAllocation, handles.size());
  return call(core_.ddi.DxgkDdiDestroyAllocation, core_.context, &arguments);
}

Status AllocationsPort::open_allocations(void* device, std::span<OpenInfo> infos,
                                         std::span<const std::byte> private_data, bool create,
                                         uint32_t, bool read_only) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  GuardedOutput array = GuardedOutput::of_zeros(infos.size() * sizeof(DXGK_OPENALLOCATIONINFO));
  const std::span elements(array.as<DXGK_OPENALLOCATIONINFO>(), infos.size());
  GuardedPrivateData guarded(infos, private_data);
  for (size_t i = 0; i < infos.size(); ++i) {
    elements[i].hAllocation = infos[i].allocation_handle;
    elements[i].pPrivateDriverData = guarded.of_element(i);
    elements[i].PrivateDriverDataSize = size_of(infos[i].private_data);
  }
  DXGKARG_OPENALLOCATION arguments{};
  arguments.NumAllocations = static_cast<UINT>(infos.size());
  arguments.pOpenAllocation = elements.data();
  arguments.pPrivateDriverData = guarded.of_resource();
  arguments.PrivateDriverSize = size_of(private_data);
  arguments.Flags.Create = create ? 1 : 0;
  arguments.Flags.ReadOnly = read_only ? 1 : 0;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->objects.opened(infos.size(), create);
  DdiCall call(core_, kOpenAllocation, infos.size());
  const Status status = call(core_.ddi.DxgkDdiOpenAllocation, device, &arguments);
  static_cast<void>(array.check(core_, kOpenAllocation.name, "pOpenAllocation"));
  guarded.finish_opened(core_, create);
  if (!call.completed()) return status;
  if (!is_success(status)) return status;
  std::string missing;
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i].device_specific = elements[i].hDeviceSpecificAllocation;
    if (infos[i].device_specific == nullptr) missing += fmt::format(" {}", i);
  }
  if (!missing.empty()) {
    return core_.violation(
        "ALLOC-02", kOpenAllocation.name,
        fmt::format("It succeeded with a null hDeviceSpecificAllocation in element{}.", missing),
        "On success every element has a non-null hDeviceSpecificAllocation.",
        "Set hDeviceSpecificAllocation of each element.", Status::kInvalidParameter);
  }
  return status;
}

Status AllocationsPort::close_allocations(void* device, std::span<void* const> device_specific) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  DXGKARG_CLOSEALLOCATION arguments{};
  arguments.NumAllocations = static_cast<UINT>(device_specific.size());
  arguments.pOpenHandleList = device_specific.empty() ? nullptr : device_specific.data();
  DdiCall call(core_, kCloseAllocation, device_specific.size());
  return call(core_.ddi.DxgkDdiCloseAllocation, device, &arguments);
}

Status AllocationsPort::validate_property_update(void* allocation, const PropertyUpdate& update) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiValidateUpdateAllocationProperty == nullptr) return Status::kNotSupported;
  DXGKARG_VALIDATEUPDATEALLOCPROPERTY arguments{};
  arguments.hAllocation = allocation;
  arguments.SupportedSegmentSet = update.supported.value_or(0);
  arguments.PreferredSegment.Value = update.preferred.value_or(0);
  arguments.Flags.AccessedPhysically = update.accessed_physically.value_or(false) ? 1 : 0;
  arguments.Flags.Unmoveable = update.unmoveable.value_or(false) ? 1 : 0;
  arguments.SetSupportedSegmentSet = update.supported.has_value() ? 1 : 0;
  arguments.SetPreferredSegment = update.preferred.has_value() ? 1 : 0;
  arguments.SetAccessedPhysically = update.accessed_physically.has_value() ? 1 : 0;
  DdiCall call(core_, kValidateUpdate);
  return call(core_.ddi.DxgkDdiValidateUpdateAllocationProperty, core_.context,
              static_cast<const DXGKARG_VALIDATEUPDATEALLOCPROPERTY*>(&arguments));
}

Result<AllocationDescription> AllocationsPort::describe_allocation(void* allocation) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (core_.ddi.DxgkDdiDescribeAllocation == nullptr) return Error(Status::kNotSupported);
  DXGKARG_DESCRIBEALLOCATION arguments{};
  fill_output(core_, &arguments);
  arguments.Flags = {};
  arguments.Rotation = {};
  arguments.hAllocation = allocation;
  DdiCall call(core_, kDescribeAllocation);
  const Status status = call(core_.ddi.DxgkDdiDescribeAllocation, core_.context, &arguments);
  if (!is_success(status)) return Error(status);
  UnwrittenMembers unwritten(core_.output_fill);
  unwritten.look("Width", &arguments.Width);
  unwritten.look("Height", &arguments.Height);
  unwritten.look("Format", &arguments.Format);
  unwritten.look("MultisampleMethod", &arguments.MultisampleMethod);
  unwritten.look("RefreshRate", &arguments.RefreshRate);
  unwritten.look("PrivateDriverFormatAttribute", &arguments.PrivateDriverFormatAttribute);
  unwritten.report(core_, kDescribeAllocation.name, "DXGKARG_DESCRIBEALLOCATION");
  return AllocationDescription{.width = arguments.Width,
                               .height = arguments.Height,
                               .format = static_cast<uint32_t>(arguments.Format),
                               .samples = arguments.MultisampleMethod.NumSamples,
                               .sample_quality = arguments.MultisampleMethod.NumQualityLevels,
                               .refresh_numerator = arguments.RefreshRate.Numerator,
                               .refresh_denominator = arguments.RefreshRate.Denominator,
                               .private_format = arguments.PrivateDriverFormatAttribute};
}

Result<StandardAllocation> AllocationsPort::describe_shared_primary(const PrimarySurface& surface) {
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->reach(verifier::Situation::kStandardSharedPrimary);
  D3DKMDT_SHAREDPRIMARYSURFACEDATA data{};
  return describe(core_, [&](DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA& arguments) {
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

Result<StandardAllocation> AllocationsPort::describe_copy_surface(CopySurface kind, uint32_t width,
                                                                  uint32_t height) {
  constexpr UINT kPixelBytes = 4;  // of A8R8G8B8
  const bool is_shadow = kind == CopySurface::kShadow;
  D3DKMDT_SHADOWSURFACEDATA shadow{};
  D3DKMDT_STAGINGSURFACEDATA staging{};
  Result<StandardAllocation> result =
      describe(core_, [&](DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA& arguments) {
        shadow = {};
        staging = {};
        shadow.Width = staging.Width = width;
        shadow.Height = staging.Height = height;
        shadow.Format = D3DDDIFMT_A8R8G8B8;
        if (is_shadow) {
          arguments.StandardAllocationType = D3DKMDT_STANDARDALLOCATION_SHADOWSURFACE;
          arguments.pCreateShadowSurfaceData = &shadow;
        } else {
          arguments.StandardAllocationType = D3DKMDT_STANDARDALLOCATION_STAGINGSURFACE;
          arguments.pCreateStagingSurfaceData = &staging;
        }
      });
  const UINT pitch = is_shadow ? shadow.Pitch : staging.Pitch;
  // A staging surface has a format of the driver's.
  const uint64_t least = is_shadow ? uint64_t{width} * kPixelBytes : 1;
  if (!result.has_value() || pitch >= least) return result;
  (void)core_.violation(
      "ALLOC-64", kGetStandardAllocation.name,
      fmt::format("It succeeded for a {} surface of {} x {} pixels, and Pitch is {}.",
                  is_shadow ? "shadow" : "staging", width, height, pitch),
      "Pitch is written: the bytes from one row to the next.",
      "Look at StandardAllocationType, and write Pitch of what belongs to it; or refuse it.",
      Status::kSuccess);
  return result;
}

Result<StandardAllocation> AllocationsPort::describe_existing_memory(uint64_t size_bytes) {
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->reach(verifier::Situation::kStandardExistingMemory);
  // One row of bytes per page, so that any number of whole pages is a surface.
  constexpr UINT kFormatA8 = 28;
  const uint64_t rows = size_bytes / kPageBytes;
  if (size_bytes % kPageBytes != 0 || rows == 0 || rows > UINT32_MAX)
    return Error(Status::kInvalidParameter);
  D3DKMDT_GDISURFACEDATA data{};
  return describe(core_, [&](DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA& arguments) {
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

Status AllocationsPort::stop_capture(void* allocation) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, 0, core_.ddi.DxgkDdiStopCapture));
  DXGKARG_STOPCAPTURE arguments{};
  arguments.hAllocation = allocation;
  DdiCall call(core_, kStopCapture);
  const Status status = call(core_.ddi.DxgkDdiStopCapture, core_.context,
                             static_cast<const DXGKARG_STOPCAPTURE*>(&arguments));
  if (is_success(status) || status == Status::kDeviceRemoved) return status;
  return core_.violation(
      "OPT-36", kStopCapture.name, fmt::format("It answered {}.", hex(status)),
      "The capture hardware writes the allocation no more when it returns: it is freed then.",
      "Stop the capture by whatever means. If the hardware has stopped already, return "
      "STATUS_SUCCESS.",
      status);
}

}  // namespace dxgkit::port
