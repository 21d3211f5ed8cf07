#include "port/callbacks/callbacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "dxgkit/abi_versions.h"
#include "nt/kernel_impl.h"
#include "port/callbacks/callback_trace.h"
#include "port/callbacks/diagnostics.h"
#include "port/callbacks/exclusion.h"
#include "port/callbacks/features.h"
#include "port/core/port_core.h"
#include "port/support.h"
#include "vidpn/vidpn.h"

namespace dxgkit::port {
namespace {

constexpr nt::Irql kAnyIrql = nt::kHighLevel;

NTSTATUS NTAPI eval_acpi_method(HANDLE device, ULONG, PACPI_EVAL_INPUT_BUFFER_COMPLEX, ULONG,
                                PACPI_EVAL_OUTPUT_BUFFER, ULONG) {
  DXGKIT_CALLBACK("DxgkCbEvalAcpiMethod", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  return done(Status::kNotSupported);
}

NTSTATUS NTAPI get_device_information(HANDLE device, PDXGK_DEVICE_INFO info) {
  DXGKIT_CALLBACK("DxgkCbGetDeviceInformation", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (info == nullptr) return done(Status::kInvalidParameter);
  *info = {};
  info->MiniportDeviceContext = adapter->context;
  info->PhysicalDeviceObject = &adapter->device.object;
  info->DeviceRegistryPath.Length =
      static_cast<USHORT>(adapter->registry_path.size() * sizeof(char16_t));
  info->DeviceRegistryPath.MaximumLength =
      static_cast<USHORT>(info->DeviceRegistryPath.Length + sizeof(char16_t));
  info->DeviceRegistryPath.Buffer = adapter->registry_path.data();
  info->TranslatedResourceList = reinterpret_cast<PCM_RESOURCE_LIST>(adapter->resource_list.data());
  info->SystemMemorySize.QuadPart =
      static_cast<LONGLONG>(adapter->machine.highest_system_address().value + 1 -
                            bus::Machine::kSystemMemoryBase + adapter->machine.low_memory_bytes());
  info->HighestPhysicalAddress.QuadPart =
      static_cast<LONGLONG>(adapter->machine.highest_system_address().value);
  info->DockingState = DockStateUnsupported;
  return done(Status::kSuccess);
}

NTSTATUS NTAPI map_memory(HANDLE device, PHYSICAL_ADDRESS address, ULONG length,
                          BOOLEAN in_io_space, BOOLEAN user_mode, MEMORY_CACHING_TYPE caching,
                          PVOID* result) {
  DXGKIT_CALLBACK("DxgkCbMapMemory", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (result == nullptr || length == 0) return done(Status::kInvalidParameter);
  if (in_io_space != FALSE || user_mode != FALSE) return done(Status::kNotSupported);
  const auto start = static_cast<uint64_t>(address.QuadPart);
  const bool own = std::ranges::any_of(adapter->resources, [&](const DeviceResource& resource) {
    // An address before it lies far behind its end.
    return resource.kind == DeviceResource::Kind::kMemory &&
           range_within(start - resource.start, length, resource.bytes);
  });
  if (!own) return done(Status::kInvalidParameter);
  const bool has_registers =
      std::ranges::any_of(adapter->function.bars(), [&](const bus::Bar& bar) {
        return bar.kind == bus::BarKind::kRegisters &&
               range_within(start - bar.base.value, length, bar.size);
      });
  if (has_registers && caching != MmNonCached) {
    (void)adapter->violation(
        "LIFE-36", "DxgkCbMapMemory",
        fmt::format("Registers at 0x{:X} were mapped with CacheType {}.", start,
                    static_cast<unsigned>(caching)),
        "CacheType is MmNonCached for registers.",
        "Map registers with MmNonCached. Only memory of the device can be write-combined or "
        "cached.",
        Status::kSuccess);
  }
  void* pointer = nt::map_io_for_driver(start, length);
  if (pointer == nullptr) return done(Status::kInsufficientResources);
  *result = pointer;
  return done(Status::kSuccess);
}

NTSTATUS NTAPI unmap_memory(HANDLE device, PVOID pointer) {
  DXGKIT_CALLBACK("DxgkCbUnmapMemory", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (nt::unmap_io(adapter->kernel, pointer)) return done(Status::kSuccess);
  return done(adapter->violation("LIFE-20", "DxgkCbUnmapMemory",
                                 fmt::format("{} is not mapped.", pointer),
                                 "What DxgkCbMapMemory gave is unmapped once, by its address.",
                                 "Clear the address when the memory is unmapped, and unmap nothing "
                                 "that was never mapped.",
                                 Status::kInvalidParameter));
}

BOOLEAN NTAPI queue_dpc(HANDLE device) {
  DXGKIT_CALLBACK("DxgkCbQueueDpc", device, kAnyIrql, true, done(static_cast<BOOLEAN>(FALSE)));
  return done(static_cast<BOOLEAN>(adapter->interrupts.queue_dpc() ? TRUE : FALSE));
}

NTSTATUS NTAPI read_device_space(HANDLE device, ULONG type, PVOID buffer, ULONG offset,
                                 ULONG length, PULONG bytes) {
  DXGKIT_CALLBACK("DxgkCbReadDeviceSpace", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (bytes != nullptr) *bytes = 0;
  if (type != DXGK_WHICHSPACE_CONFIG) return done(Status::kNotSupported);
  if (buffer == nullptr || length == 0) return done(Status::kInvalidParameter);
  adapter->function.config_read(offset, {static_cast<std::byte*>(buffer), length});
  if (bytes != nullptr) *bytes = length;
  return done(Status::kSuccess);
}

NTSTATUS NTAPI write_device_space(HANDLE device, ULONG type, PVOID buffer, ULONG offset,
                                  ULONG length, PULONG bytes) {
  DXGKIT_CALLBACK("DxgkCbWriteDeviceSpace", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (bytes != nullptr) *bytes = 0;
  if (type != DXGK_WHICHSPACE_CONFIG) return done(Status::kNotSupported);
  if (buffer == nullptr || length == 0) return done(Status::kInvalidParameter);
  adapter->function.config_write(offset, {static_cast<const std::byte*>(buffer), length});
  if (bytes != nullptr) *bytes = length;
  return done(Status::kSuccess);
}

NTSTATUS NTAPI synchronize_execution(HANDLE device, PKSYNCHRONIZE_ROUTINE routine, PVOID context,
                                     ULONG message, PBOOLEAN result) {
  Status status = Status::kInvalidParameter;
  {
    CallbackTrace done("DxgkCbSynchronizeExecution");
    // Its page gives the answer while the interrupt is not connected (IRQL-10).
    PortCore* const adapter = known_handle("DxgkCbSynchronizeExecution", device);
    if (adapter == nullptr) return done(status);
    check_callback(*adapter, "DxgkCbSynchronizeExecution", nt::kDeviceLevel, false);
    if (const auto made_to = adapter->callback_fails("DxgkCbSynchronizeExecution"))
      return done(*made_to);
    status = adapter->interrupts.synchronize(routine, context, message, result);
    static_cast<void>(done(status));
  }
  return to_ntstatus(status);
}

NTSTATUS NTAPI exclude_adapter_access(HANDLE device, ULONG attributes,
                                      DXGKDDI_PROTECTED_CALLBACK routine, PVOID context) {
  DXGKIT_CALLBACK("DxgkCbExcludeAdapterAccess", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  return done(exclude_access(*adapter, attributes, routine, context));
}

NTSTATUS NTAPI is_device_present(HANDLE device, PPCI_DEVICE_PRESENCE_PARAMETERS parameters,
                                 PBOOLEAN present) {
  DXGKIT_CALLBACK("DxgkCbIsDevicePresent", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (parameters == nullptr || present == nullptr) return done(Status::kInvalidParameter);
  constexpr ULONG kUseSubsystemIds = 1, kUseRevision = 2, kUseVendorDeviceIds = 4,
                  kUseClassSubclass = 8;
  const bus::PciIdentity& own = adapter->function.identity();
  const ULONG flags = parameters->Flags;
  bool same = true;
  if ((flags & kUseVendorDeviceIds) != 0)
    same = same && parameters->VendorID == own.vendor_id && parameters->DeviceID == own.device_id;
  if ((flags & kUseSubsystemIds) != 0) {
    same = same && parameters->SubVendorID == own.subsystem_vendor_id &&
           parameters->SubSystemID == own.subsystem_id;
  }
  if ((flags & kUseRevision) != 0) same = same && parameters->RevisionID == own.revision;
  if ((flags & kUseClassSubclass) != 0)
    same = same && parameters->BaseClass == own.base_class && parameters->SubClass == own.sub_class;
  *present = same ? TRUE : FALSE;
  return done(Status::kSuccess);
}

AdapterHost::HandleType type_of(DXGK_HANDLE_TYPE type) {
  return type == DXGK_HANDLE_RESOURCE ? AdapterHost::HandleType::kResource
                                      : AdapterHost::HandleType::kAllocation;
}

/// ALLOC-33.
bool is_handle_type(PortCore& core, const char* callback, DXGK_HANDLE_TYPE type) {
  if (type == DXGK_HANDLE_ALLOCATION || type == DXGK_HANDLE_RESOURCE) [[likely]]
    return true;
  (void)core.violation("ALLOC-33", callback,
                       fmt::format("Type is {}.", static_cast<uint32_t>(type)),
                       "DXGK_HANDLE_ALLOCATION or DXGK_HANDLE_RESOURCE; the answer is NULL.",
                       "Set Type to the kind of object that the handle names.", Status::kSuccess);
  return false;
}

void* NTAPI get_handle_data(const DXGKARGCB_GETHANDLEDATA* arguments) {
  CallbackTrace done("DxgkCbGetHandleData");
  PortCore* const adapter = of_caller("DxgkCbGetHandleData");
  if (adapter == nullptr || arguments == nullptr) return done(static_cast<void*>(nullptr));
  check_callback(*adapter, "DxgkCbGetHandleData", nt::kApcLevel, false);
  if (!is_handle_type(*adapter, "DxgkCbGetHandleData", arguments->Type))
    return done(static_cast<void*>(nullptr));
  void* const data = adapter->host.get_handle_data(arguments->hObject, type_of(arguments->Type),
                                                   arguments->Flags.DeviceSpecific != 0);
  const bool denied = data != nullptr && adapter->callback_fails("DxgkCbGetHandleData").has_value();
  return done(denied ? nullptr : data);
}

D3DKMT_HANDLE NTAPI get_handle_parent(D3DKMT_HANDLE allocation) {
  CallbackTrace done("DxgkCbGetHandleParent");
  PortCore* const adapter = of_caller("DxgkCbGetHandleParent");
  if (adapter == nullptr) return done(D3DKMT_HANDLE{0});
  check_callback(*adapter, "DxgkCbGetHandleParent", nt::kApcLevel, false);
  return done(static_cast<D3DKMT_HANDLE>(adapter->host.get_handle_parent(allocation)));
}

D3DKMT_HANDLE NTAPI enum_handle_children(const DXGKARGCB_ENUMHANDLECHILDREN* arguments) {
  CallbackTrace done("DxgkCbEnumHandleChildren");
  PortCore* const adapter = of_caller("DxgkCbEnumHandleChildren");
  if (adapter == nullptr || arguments == nullptr) return done(D3DKMT_HANDLE{0});
  check_callback(*adapter, "DxgkCbEnumHandleChildren", nt::kApcLevel, false);
  return done(static_cast<D3DKMT_HANDLE>(
      adapter->host.enum_handle_children(arguments->hObject, arguments->Index)));
}

void* NTAPI acquire_handle_data(const DXGKARGCB_GETHANDLEDATA* arguments,
                                PDXGKARG_RELEASE_HANDLE release) {
  CallbackTrace done("DxgkCbAcquireHandleData");
  PortCore* const adapter = of_caller("DxgkCbAcquireHandleData");
  if (adapter == nullptr || arguments == nullptr || release == nullptr)
    return done(static_cast<void*>(nullptr));
  check_callback(*adapter, "DxgkCbAcquireHandleData", nt::kApcLevel, false);
  if (!is_handle_type(*adapter, "DxgkCbAcquireHandleData", arguments->Type))
    return done(static_cast<void*>(nullptr));
  if (adapter->callback_fails("DxgkCbAcquireHandleData").has_value()) {
    std::memset(release, 0, sizeof(*release));
    return done(static_cast<void*>(nullptr));
  }
  void* reference = nullptr;
  void* data = adapter->host.acquire_handle_data(arguments->hObject, type_of(arguments->Type),
                                                 arguments->Flags.DeviceSpecific != 0, &reference);
  std::memcpy(release, &reference, sizeof(reference));
  return done(data);
}

void NTAPI release_handle_data(DXGKARGCB_RELEASEHANDLEDATA arguments) {
  CallbackTrace done("DxgkCbReleaseHandleData");
  PortCore* const adapter = of_caller("DxgkCbReleaseHandleData");
  if (adapter == nullptr) return;
  check_callback(*adapter, "DxgkCbReleaseHandleData", nt::kApcLevel, false);
  void* reference = nullptr;
  std::memcpy(&reference, &arguments.ReleaseHandle, sizeof(reference));
  adapter->host.release_handle_data(reference);
}

void NTAPI notify_interrupt(const void* device, const DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
  CallbackTrace done("DxgkCbNotifyInterrupt");
  PortCore* const adapter = of_handle("DxgkCbNotifyInterrupt", device);
  if (adapter == nullptr || data == nullptr) return;
  adapter->interrupts.notify_interrupt(*data);
}

void NTAPI notify_dpc(const void* device) {
  CallbackTrace done("DxgkCbNotifyDpc");
  PortCore* const adapter = of_handle("DxgkCbNotifyDpc", device);
  if (adapter == nullptr) return;
  check_callback(*adapter, "DxgkCbNotifyDpc", nt::kDispatchLevel, false);
  adapter->interrupts.notify_dpc();
}

void NTAPI log_etw_event(const GUID*, UCHAR type, USHORT size, PVOID) {
  CallbackTrace done("DxgkCbLogEtwEvent");
  static_cast<void>(done(static_cast<uint32_t>(type) << 16 | size));
}

NTSTATUS NTAPI indicate_child_status(HANDLE device, PDXGK_CHILD_STATUS status) {
  DXGKIT_CALLBACK("DxgkCbIndicateChildStatus", device, nt::kDispatchLevel, false,
                  done(Status::kInvalidParameter));
  if (status == nullptr) return done(Status::kInvalidParameter);
  if (status->Type != StatusConnection) return done(Status::kNotSupported);  // rotation, Miracast
  adapter->host.on_child_status(status->ChildUid, status->HotPlug.Connected != FALSE);
  return done(Status::kSuccess);
}

NTSTATUS NTAPI indicate_connector_change(HANDLE device) {
  DXGKIT_CALLBACK("DxgkCbIndicateConnectorChange", device, nt::kDispatchLevel, false,
                  done(Status::kInvalidParameter));
  adapter->host.on_connector_change();
  return done(Status::kSuccess);
}

void NTAPI multi_plane_overlay_disabled(HANDLE device, UINT source) {
  CallbackTrace done("DxgkCbMultiPlaneOverlayDisabled");
  PortCore* const adapter = of_handle("DxgkCbMultiPlaneOverlayDisabled", device);
  if (adapter != nullptr) {
    check_callback(*adapter, "DxgkCbMultiPlaneOverlayDisabled", nt::kPassiveLevel, false);
    adapter->host.on_planes_disabled(source);
  }
  static_cast<void>(done(source));
}

NTSTATUS NTAPI query_vidpn_interface(const D3DKMDT_HVIDPN vidpn,
                                     const DXGK_VIDPN_INTERFACE_VERSION version,
                                     const DXGK_VIDPN_INTERFACE** table) {
  CallbackTrace done("DxgkCbQueryVidPnInterface");
  PortCore* const adapter = of_caller("DxgkCbQueryVidPnInterface");
  if (adapter == nullptr) return done(Status::kInvalidParameter);
  check_callback(*adapter, "DxgkCbQueryVidPnInterface", nt::kPassiveLevel, false);
  const void* found = nullptr;
  const Status status = vidpn::Manager::query_vidpn_interface(vidpn, static_cast<uint32_t>(version),
                                                              table == nullptr ? nullptr : &found);
  if (is_success(status)) *table = static_cast<const DXGK_VIDPN_INTERFACE*>(found);
  return done(status);
}

NTSTATUS NTAPI query_monitor_interface(const HANDLE device,
                                       const DXGK_MONITOR_INTERFACE_VERSION version,
                                       const DXGK_MONITOR_INTERFACE** table) {
  DXGKIT_CALLBACK("DxgkCbQueryMonitorInterface", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  const void* found = nullptr;
  const Status status = vidpn::Manager::query_monitor_interface(
      device, static_cast<uint32_t>(version), table == nullptr ? nullptr : &found);
  if (is_success(status)) *table = static_cast<const DXGK_MONITOR_INTERFACE*>(found);
  return done(status);
}

/// The frame buffer that firmware or the previous driver left. A function that is not the POST
/// device gets success with a width of 0, which drivers take for "no display came up here" (our
/// choice).
Status read_post_display(const PortCore& adapter, DXGK_DISPLAY_INFORMATION* out) {
  *out = {};
  out->TargetId = D3DDDI_ID_UNINITIALIZED;
  const std::optional<bus::PostDisplay> post = adapter.function.post_display();
  if (!post.has_value() || post->bar >= adapter.function.bars().size()) return Status::kSuccess;
  out->Width = post->width;
  out->Height = post->height;
  out->Pitch = post->pitch_bytes;
  out->ColorFormat = D3DDDIFMT_X8R8G8B8;
  out->PhysicAddress.QuadPart =
      static_cast<LONGLONG>(adapter.function.bars()[post->bar].base.value + post->offset_bytes);
  out->TargetId = post->target_id;
  return Status::kSuccess;
}

NTSTATUS NTAPI acquire_post_display_ownership(HANDLE device, PDXGK_DISPLAY_INFORMATION info) {
  DXGKIT_CALLBACK("DxgkCbAcquirePostDisplayOwnership", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (info == nullptr) return done(Status::kInvalidParameter);
  return done(read_post_display(*adapter, info));
}

NTSTATUS NTAPI acquire_post_display_ownership2(HANDLE device, PDXGK_DISPLAY_INFORMATION info,
                                               PDXGK_DISPLAY_OWNERSHIP_FLAGS flags) {
  DXGKIT_CALLBACK("DxgkCbAcquirePostDisplayOwnership2", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (info == nullptr || flags == nullptr) return done(Status::kInvalidParameter);
  flags->Value = 0;  // the state of the frame buffer is not known
  return done(read_post_display(*adapter, info));
}

void component_event(const char* callback, const void* device, UINT component,
                     AdapterHost::ComponentEvent event) {
  CallbackTrace done(callback);
  PortCore* const adapter = of_handle(callback, device);
  if (adapter == nullptr) return;
  check_callback(*adapter, callback, nt::kDispatchLevel, false);
  static_cast<void>(done(component));
  if (component >= adapter->power_components) {
    (void)adapter->violation(
        "PWR-12", callback,
        fmt::format("Component {} was named, there are {}.", component, adapter->power_components),
        "A component that the driver has described.",
        "Use the index DXGKQAITYPE_POWERCOMPONENTINFO was asked with.", Status::kInvalidParameter);
    return;
  }
  const bool inside =
      nt::CallFrame::current().name() == std::string_view("DxgkDdiSetPowerComponentFState");
  if (inside && event == AdapterHost::ComponentEvent::kActive) {
    (void)adapter->violation(
        "PWR-13", callback,
        fmt::format("It was called for component {} inside DxgkDdiSetPowerComponentFState.",
                    component),
        "A component is made active before or after a transition, never inside one.",
        "Activate it from a work item, and complete the transition there.", Status::kSuccess);
  }
  adapter->host.on_component(component, event);
}

void NTAPI set_power_component_active(IN_CONST_HANDLE device, UINT component) {
  component_event("DxgkCbSetPowerComponentActive", device, component,
                  AdapterHost::ComponentEvent::kActive);
}
void NTAPI set_power_component_idle(IN_CONST_HANDLE device, UINT component) {
  component_event("DxgkCbSetPowerComponentIdle", device, component,
                  AdapterHost::ComponentEvent::kIdle);
}
void NTAPI complete_f_state_transition(IN_CONST_HANDLE device, UINT component) {
  component_event("DxgkCbCompleteFStateTransition", device, component,
                  AdapterHost::ComponentEvent::kTransitionDone);
}

/// VA-09; null: legal.
struct ReservationFault {
  std::string actual, expected, fix;
};
std::optional<ReservationFault> judge_reservation(
    PortCore& adapter, const DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE& args)
    DXGKIT_EXCLUDES(adapter.creating_lock) {
  bool inside = false;
  for (const nt::CallFrame* frame = &nt::CallFrame::current(); frame != nullptr;
       frame = frame->previous()) {
    inside = inside || frame->name() == std::string_view("DxgkDdiCreateProcess");
  }
  {
    runtime::MutexLock lock(adapter.creating_lock);
    inside =
        inside && std::ranges::find(adapter.creating, args.hDxgkProcess) != adapter.creating.end();
  }
  if (!inside) {
    return ReservationFault{
        fmt::format("It was called in {} for process {}.", nt::CallFrame::current().name(),
                    args.hDxgkProcess),
        "A driver reserves address space inside DxgkDdiCreateProcess, for the process that is "
        "being "
        "created.",
        "Reserve what the driver needs of a process's address space when the process is created."};
  }
  const uint64_t covered = adapter.leaf_coverage;
  if (covered == 0) {
    return ReservationFault{"The driver has described no page tables.",
                            "Address space is reserved in the GpuMmu model only.",
                            "Set GpuMmuSupported and answer DXGKQAITYPE_GPUMMUCAPS and "
                            "DXGKQAITYPE_PAGETABLELEVELDESC."};
  }
  const auto off = [&](uint64_t value) { return value % covered != 0; };
  if (args.SizeInBytes == 0 || off(args.SizeInBytes) || off(args.BaseAddress) ||
      off(args.Alignment) || (args.Alignment & (args.Alignment - 1)) != 0) {
    return ReservationFault{
        fmt::format("SizeInBytes is {:#x}, BaseAddress {:#x}, Alignment {:#x}.", args.SizeInBytes,
                    args.BaseAddress, args.Alignment),
        fmt::format(
            "Size, not 0, and base are multiples of the {:#x} bytes that one leaf page table "
            "covers; the alignment is one too, and a power of two, or 0.",
            covered),
        "Round the range to whole page tables."};
  }
  const uint64_t limit = uint64_t{1} << std::min(adapter.va_bits, 63U);
  if (!range_within(args.BaseAddress, args.SizeInBytes, limit)) {
    return ReservationFault{
        fmt::format("[{:#x}, +{:#x}) was asked for.", args.BaseAddress, args.SizeInBytes),
        fmt::format("A range inside the {} bits of the address space.", adapter.va_bits),
        "Reserve inside VirtualAddressBitCount."};
  }
  return std::nullopt;
}

NTSTATUS NTAPI reserve_gpu_virtual_address_range(
    HANDLE device, INOUT_PDXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE args) {
  constexpr const char* kName = "DxgkCbReserveGpuVirtualAddressRange";
  DXGKIT_CALLBACK(kName, device, nt::kPassiveLevel, false, done(Status::kInvalidParameter));
  if (args == nullptr) return done(Status::kInvalidParameter);
  if (std::optional<ReservationFault> fault = judge_reservation(*adapter, *args)) {
    return done(adapter->violation("VA-09", kName, std::move(fault->actual),
                                   std::move(fault->expected), std::move(fault->fix),
                                   Status::kInvalidParameter));
  }
  GpuVaReservation range;
  range.process = static_cast<uint32_t>(reinterpret_cast<uint64_t>(args->hDxgkProcess));
  range.base = args->BaseAddress;
  range.size = args->SizeInBytes;
  range.alignment = std::max<uint64_t>(args->Alignment, adapter->leaf_coverage);
  range.user_mappable = args->AllowUserModeMapping != 0;
  const Result<uint64_t> start = adapter->host.reserve_gpu_va(range);
  if (!start.has_value()) return done(start.error());
  args->StartVirtualAddress = *start;
  return done(Status::kSuccess);
}

/// RES-31: a wrong argument is refused before the objects are looked up.
NTSTATUS refuse_context_allocation(PortCore& adapter, const char* callback, std::string actual,
                                   std::string expected) {
  return to_ntstatus(adapter.violation("RES-31", callback, std::move(actual), std::move(expected),
                                       "Fill the arguments as documented.",
                                       Status::kInvalidParameter));
}

NTSTATUS NTAPI create_context_allocation(INOUT_PDXGKARGCB_CREATECONTEXTALLOCATION args) {
  constexpr const char* kName = "DxgkCbCreateContextAllocation";
  CallbackTrace done(kName);
  PortCore* adapter = args == nullptr ? of_caller(kName) : of_handle(kName, args->hAdapter);
  if (adapter == nullptr) return done(Status::kInvalidParameter);
  check_callback(*adapter, kName, nt::kPassiveLevel, false);
  if (args == nullptr)
    return done(refuse_context_allocation(*adapter, kName, "The argument is NULL.",
                                          "A DXGKARGCB_CREATECONTEXTALLOCATION."));
  if (const auto made_to = adapter->callback_fails(kName)) return done(*made_to);
  const bool gpu_addresses = adapter->version >= kInterfaceWddm20;
  const UINT known = gpu_addresses ? 3 : 1;
  if ((args->ContextAllocationFlags.Value & ~known) != 0) {
    return done(refuse_context_allocation(
        *adapter, kName,
        fmt::format("ContextAllocationFlags are 0x{:08X}.", args->ContextAllocationFlags.Value),
        fmt::format("Only bits of 0x{:X} are set.", known)));
  }
  if (gpu_addresses && args->PhysicalAdapterIndex != 0) {
    return done(refuse_context_allocation(
        *adapter, kName, fmt::format("PhysicalAdapterIndex is {}.", args->PhysicalAdapterIndex),
        "It is 0: there are no linked adapters here."));
  }
  ContextAllocationRequest request;
  request.device = reinterpret_cast<uint64_t>(args->hDevice);
  request.context = reinterpret_cast<uint64_t>(args->hContext);
  request.shared = args->ContextAllocationFlags.SharedAcrossContexts != 0;
  request.map_gpu_virtual_address =
      gpu_addresses && args->ContextAllocationFlags.MapGpuVirtualAddress != 0;
  AllocationInfo& info = request.info;
  info.handle = args->hDriverAllocation;
  info.size = args->Size;
  info.alignment = args->Alignment;
  info.supported_read = info.supported_write = args->SupportedSegmentSet;
  info.eviction = args->EvictionSegmentSet;
  info.preferred = args->PreferredSegment.Value;
  info.bank_hints = args->HintedBank.Value;
  info.flags = args->Flags.Value;
  uint64_t handle = 0;
  const Status status = adapter->host.create_context_allocation(request, &handle);
  if (is_success(status)) args->hAllocation = reinterpret_cast<HANDLE>(handle);
  if (is_success(status) && adapter->situations != nullptr) [[unlikely]]
    adapter->situations->log.add(verifier::SituationFact::kContextAllocations);
  return done(status);
}

NTSTATUS NTAPI destroy_context_allocation(IN_CONST_HANDLE device, IN_CONST_HANDLE allocation) {
  DXGKIT_CALLBACK("DxgkCbDestroyContextAllocation", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  return done(adapter->host.destroy_context_allocation(reinterpret_cast<uint64_t>(allocation)));
}

NTSTATUS NTAPI invalidate_hw_context(IN_CONST_PDXGKARGCB_INVALIDATEHWCONTEXT args) {
  constexpr const char* kName = "DxgkCbInvalidateHwContext";
  CallbackTrace done(kName);
  if (args == nullptr) return done(Status::kInvalidParameter);
  PortCore* adapter = of_handle(kName, args->hAdapter);
  if (adapter == nullptr) return done(Status::kInvalidParameter);
  check_callback(*adapter, kName, nt::kPassiveLevel, false);
  return done(
      adapter->host.on_hw_context_invalid(args->hHwContext, args->Flags.CollateralDamage != 0));
}

// NULL is the refusal, where a status would be taken for an address.
D3DGPU_VIRTUAL_ADDRESS NTAPI map_context_allocation(IN_CONST_HANDLE device,
                                                    IN_CONST_PDXGKARGCB_MAPCONTEXTALLOCATION) {
  constexpr D3DGPU_VIRTUAL_ADDRESS kRefused = 0;
  DXGKIT_CALLBACK("DxgkCbMapContextAllocation", device, nt::kPassiveLevel, false, done(kRefused));
  return done(kRefused);
}

NTSTATUS NTAPI update_context_allocation(IN_CONST_HANDLE device,
                                         IN_CONST_PDXGKARGCB_UPDATECONTEXTALLOCATION args) {
  constexpr const char* kName = "DxgkCbUpdateContextAllocation";
  DXGKIT_CALLBACK(kName, device, nt::kPassiveLevel, false, done(Status::kInvalidParameter));
  const uint64_t handle = args == nullptr ? 0 : reinterpret_cast<uint64_t>(args->hAllocation);
  if (!adapter->host.has_context_allocation(handle)) {
    return done(refuse_context_allocation(
        *adapter, kName, fmt::format("hAllocation is 0x{:X}.", handle),
        "It is what DxgkCbCreateContextAllocation returned, and is not destroyed."));
  }
  if (args->pPrivateDriverData == nullptr && args->PrivateDriverDataSize != 0) {
    return done(refuse_context_allocation(
        *adapter, kName,
        fmt::format("pPrivateDriverData is NULL and PrivateDriverDataSize {}.",
                    args->PrivateDriverDataSize),
        "Both say whether there is data."));
  }
  return done(adapter->host.update_context_allocation(
      handle, std::span(static_cast<const std::byte*>(args->pPrivateDriverData),
                        args->PrivateDriverDataSize)));
}

NTSTATUS NTAPI set_protected_session_status(IN_CONST_PDXGKARGCB_PROTECTEDSESSIONSTATUS args) {
  constexpr const char* kName = "DxgkCbSetProtectedSessionStatus";
  CallbackTrace done(kName);
  PortCore* const adapter = of_caller(kName);
  if (adapter == nullptr || args == nullptr) return done(Status::kInvalidParameter);
  check_callback(*adapter, kName, nt::kPassiveLevel, false);
  if (const auto made_to = adapter->callback_fails(kName)) return done(*made_to);
  const auto session = reinterpret_cast<uint64_t>(args->hProtectedSession);
  const bool known = args->Status == DXGK_PROTECTED_SESSION_STATUS_OK ||
                     args->Status == DXGK_PROTECTED_SESSION_STATUS_INVALID;
  const bool valid = args->Status == DXGK_PROTECTED_SESSION_STATUS_OK;
  const Status status = known ? adapter->host.set_protected_session_status(session, valid)
                              : Status::kInvalidParameter;
  if (status != Status::kInvalidParameter) return done(status);
  return done(adapter->violation(
      "OPT-11", kName,
      fmt::format("hProtectedSession is 0x{:X}, Status {}.", session,
                  static_cast<uint32_t>(args->Status)),
      "The handle that DxgkDdiCreateProtectedSession was called with, until "
      "DxgkDdiDestroyProtectedSession, and a value of DXGK_PROTECTED_SESSION_STATUS.",
      "Keep the hProtectedSession that the kernel passed in beside your own name of the session.",
      status));
}

// IRQL-12: at most DISPATCH_LEVEL.
NTSTATUS NTAPI signal_event(const DXGKARGCB_SIGNALEVENT* args) {
  constexpr const char* kName = "DxgkCbSignalEvent";
  CallbackTrace done(kName);
  PortCore* const adapter = of_caller(kName);
  if (adapter == nullptr) return done(Status::kInvalidParameter);
  check_callback(*adapter, kName, nt::kDispatchLevel, false);
  if (const std::optional<Status> made_to = adapter->callback_fails(kName)) return done(*made_to);
  if (args == nullptr) return done(Status::kInvalidParameter);
  constexpr UINT kCpuEventObject = 1;
  // Events of a process in a virtual machine: there are none here.
  if ((args->Flags & kCpuEventObject) == 0) return done(Status::kNotSupported);
  const auto event = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(args->hEvent));
  Status status = Status::kInvalidParameter;
  if (args->hDxgkProcess == nullptr && args->Flags == kCpuEventObject)
    status = adapter->host.signal_cpu_event(event);
  if (status != Status::kInvalidParameter) return done(status);
  return done(adapter->violation(
      "SYNC-42", kName,
      fmt::format("hEvent is 0x{:X}, hDxgkProcess {}, and Flags 0x{:X}.", event,
                  args->hDxgkProcess == nullptr ? "NULL" : "not NULL", args->Flags),
      "hEvent is the hDxgCpuEvent of an event that DxgkDdiCreateCpuEvent made and "
      "DxgkDdiDestroyCpuEvent has not ended; hDxgkProcess is NULL, CpuEventObject the only flag.",
      "Keep hDxgCpuEvent with the event, and forget it in DxgkDdiDestroyCpuEvent.",
      Status::kInvalidParameter));
}

struct Implemented {
  std::string_view name;
  const void* function;
  Support support;
  std::string_view note;
  uint32_t stack_arguments;
  nt::ResultKind result_kind;
};

#define DXGKIT_ENTRY(name, function, support, note)                           \
  {                                                                           \
    name, reinterpret_cast<const void*>(&(function)), Support::support, note, \
        nt::stack_arguments_of(&(function)), nt::result_kind_of(&(function))  \
  }
const Implemented kImplemented[] = {
    DXGKIT_ENTRY("DxgkCbInvalidateHwContext", invalidate_hw_context, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbEvalAcpiMethod", eval_acpi_method, kRefused, "no ACPI"),
    DXGKIT_ENTRY("DxgkCbGetDeviceInformation", get_device_information, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbMapMemory", map_memory, kPartial, "the adapter's memory BARs, kernel mode"),
    DXGKIT_ENTRY("DxgkCbQueueDpc", queue_dpc, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbQueryServices", query_services, kPartial, "features, from WDDM 3.2 on"),
    DXGKIT_ENTRY("DxgkCbIsFeatureEnabled", is_feature_enabled, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbQueryFeatureSupport", query_feature_support, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbReadDeviceSpace", read_device_space, kPartial, "configuration space"),
    DXGKIT_ENTRY("DxgkCbSynchronizeExecution", synchronize_execution, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbUnmapMemory", unmap_memory, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbWriteDeviceSpace", write_device_space, kPartial, "configuration space"),
    DXGKIT_ENTRY("DxgkCbExcludeAdapterAccess", exclude_adapter_access, kPartial,
                 "no root port; clients' locked memory stays accessible"),
    DXGKIT_ENTRY("DxgkCbIsDevicePresent", is_device_present, kPartial,
                 "knows its own function only"),
    DXGKIT_ENTRY("DxgkCbGetHandleData", get_handle_data, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbGetHandleParent", get_handle_parent, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbEnumHandleChildren", enum_handle_children, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbNotifyInterrupt", notify_interrupt, kPartial,
                 "DMA types and vertical sync; others are recorded only"),
    DXGKIT_ENTRY("DxgkCbNotifyDpc", notify_dpc, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbLogEtwEvent", log_etw_event, kPartial,
                 "goes to the trace, without its payload"),
    DXGKIT_ENTRY("DxgkCbAcquireHandleData", acquire_handle_data, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbIndicateChildStatus", indicate_child_status, kPartial,
                 "connection; rotation and Miracast are refused"),
    DXGKIT_ENTRY("DxgkCbIndicateConnectorChange", indicate_connector_change, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbMultiPlaneOverlayDisabled", multi_plane_overlay_disabled, kPartial,
                 "nobody composes instead: presents of planes are refused until a check affirms"),
    DXGKIT_ENTRY("DxgkCbQueryVidPnInterface", query_vidpn_interface, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbQueryMonitorInterface", query_monitor_interface, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbAcquirePostDisplayOwnership", acquire_post_display_ownership, kSupported,
                 ""),
    DXGKIT_ENTRY("DxgkCbAcquirePostDisplayOwnership2", acquire_post_display_ownership2, kPartial,
                 "the state of the frame buffer is unknown"),
    DXGKIT_ENTRY("DxgkCbSetPowerComponentActive", set_power_component_active, kPartial,
                 "the transition follows, the call does not wait for it"),
    DXGKIT_ENTRY("DxgkCbSetPowerComponentIdle", set_power_component_idle, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbCompleteFStateTransition", complete_f_state_transition, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbReserveGpuVirtualAddressRange", reserve_gpu_virtual_address_range,
                 kSupported, ""),
    DXGKIT_ENTRY("DxgkCbCreateContextAllocation", create_context_allocation, kPartial,
                 "without GPU virtual addresses and linked adapters"),
    DXGKIT_ENTRY("DxgkCbDestroyContextAllocation", destroy_context_allocation, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbMapContextAllocation", map_context_allocation, kRefused,
                 "no GPU virtual addresses: answers NULL"),
    DXGKIT_ENTRY("DxgkCbUpdateContextAllocation", update_context_allocation, kPartial,
                 "adapters with GPU virtual addresses; not while power is changing"),
    DXGKIT_ENTRY("DxgkCbReleaseHandleData", release_handle_data, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbReportDiagnostic", report_diagnostic, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbSetProtectedSessionStatus", set_protected_session_status, kSupported, ""),
    DXGKIT_ENTRY("DxgkCbSignalEvent", signal_event, kPartial, "CPU event objects"),
};

const Implemented* find_implemented(std::string_view name) {
  for (const Implemented& entry : kImplemented) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

constexpr size_t kEntries = std::size(abi::kDxgkrnlInterface);

/// A callback without implementation: STATUS_NOT_SUPPORTED for every signature, because the caller
/// clears the arguments. (A driver that takes the value of such a callback for an address reads a
/// non-canonical one and faults at once.)
template <size_t kIndex>
NTSTATUS NTAPI refuse() {
  // Never destroyed: a driver may call while a program exits.
  static const std::string& name = *new std::string(abi::kDxgkrnlInterface[kIndex].name);
  CallbackTrace done(name.c_str());
  return done(Status::kNotSupported);
}

template <size_t... kIndexes>
std::array<const void*, kEntries> make_refusals(std::index_sequence<kIndexes...>) {
  return {reinterpret_cast<const void*>(&refuse<kIndexes>)...};
}

/// The function behind each slot. Both dispatch and the support report use this table.
const std::array<const void*, kEntries>& slots() {
  static const std::array<const void*, kEntries> table = [] {
    std::array<const void*, kEntries> all = make_refusals(std::make_index_sequence<kEntries>());
    for (size_t i = 0; i < kEntries; ++i) {
      if (const Implemented* entry = find_implemented(abi::kDxgkrnlInterface[i].name))
        all[i] = entry->function;
    }
    return all;
  }();
  return table;
}

bool is_header_field(std::string_view name) { return !name.starts_with("DxgkCb"); }

}  // namespace

const std::vector<SupportEntry>& callback_support() {
  static const std::vector<SupportEntry> table = [] {
    std::vector<SupportEntry> all;
    for (const abi::TableEntry& entry : abi::kDxgkrnlInterface) {
      if (is_header_field(entry.name)) continue;
      const Implemented* implemented = find_implemented(entry.name);
      all.push_back({entry.name, entry.since,
                     implemented == nullptr ? Support::kRefused : implemented->support,
                     implemented == nullptr ? "answers STATUS_NOT_SUPPORTED" : implemented->note});
    }
    return all;
  }();
  return table;
}

void fill_callbacks(PortCore& core) {
  DXGKRNL_INTERFACE& callbacks = core.callbacks;
  callbacks = {};
  auto* bytes = reinterpret_cast<std::byte*>(&callbacks);
  for (size_t i = 0; i < kEntries; ++i) {
    const abi::TableEntry& entry = abi::kDxgkrnlInterface[i];
    if (is_header_field(entry.name) || entry.since > core.version) continue;
    const void* slot = slots()[i];
    if (core.driver.is_image) {
      const Implemented* known = find_implemented(entry.name);
      slot = core.kernel.door(entry.name.data(), slot,
                              known == nullptr ? 0 : known->stack_arguments, nt::kHighLevel,
                              known == nullptr ? nt::ResultKind::kStatus : known->result_kind);
    }
    std::memcpy(bytes + entry.offset_bytes, &slot, sizeof(void*));
  }
  callbacks.Size = abi::record_size("DXGKRNL_INTERFACE", core.version);
  callbacks.Version = core.version;
  callbacks.DeviceHandle = core.handle();
}

}  // namespace dxgkit::port
