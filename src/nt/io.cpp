// Devices, files opened by name, IRPs, and the handshake by which a driver built with the display
// library reaches DxgkInitialize.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "nt/executive.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

// The requests of the display library to \Device\DxgKrnl (METHOD_NEITHER; the answer is one
// pointer).
constexpr uint32_t kGetInitialize = 0x23003F;             // a library for Windows 7
constexpr uint32_t kGetInitializeDisplayOnly = 0x230043;  // display-only drivers
constexpr uint32_t kGetInitializeWin8 = 0x230047;         // a library for Windows 8 and later
constexpr uint32_t kGetUninitialize = 0x23004B;

constexpr int8_t kStackCountMax = 64;

DXGKIT_NT_ABI int32_t dxgk_initialize(void*, UnicodeString*, const void* data) {
  Kernel& kernel = CallFrame::current().kernel();
  if (!kernel.impl().initialize_hook) return kNotSupported;
  return kernel.impl().initialize_hook(data, false);
}
DXGKIT_NT_ABI int32_t dxgk_initialize_display_only(void*, UnicodeString*, const void* data) {
  Kernel& kernel = CallFrame::current().kernel();
  if (!kernel.impl().initialize_hook) return kNotSupported;
  return kernel.impl().initialize_hook(data, true);
}
/// Drivers call it from their unload routine. The host does the work that it undoes: the port drops
/// the table when the driver is unloaded.
DXGKIT_NT_ABI int32_t dxgk_uninitialize(void* driver_object) {
  return driver_object == nullptr ? kInvalidParameter : kSuccess;
}

// --- names

DXGKIT_NT_ABI int32_t io_get_device_object_pointer(const UnicodeString* name, uint32_t,
                                                   FileObject** file_out,
                                                   DeviceObject** device_out) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "IoGetDeviceObjectPointer", kPassiveLevel);
  std::u16string text;
  if (!capture_text(name, &text)) return kObjectNameInvalid;
  if (text.empty() || text[0] != u'\\') return kObjectPathSyntaxBad;
  FileObject*& file = required("IoGetDeviceObjectPointer", "FileObject", file_out);
  DeviceObject*& device = required("IoGetDeviceObjectPointer", "DeviceObject", device_out);
  if (!same_text(text, u"\\Device\\DxgKrnl") && !same_text(text, u"\\??\\DXGKrnl") &&
      !same_text(text, u"\\DosDevices\\DXGKrnl")) {
    return kObjectNameNotFound;
  }
  Executive& state = executive_of(frame.kernel());
  auto object = make_in<FileObject>(frame.kernel().impl().heap);
  object->type = 5;
  object->size = sizeof(FileObject);
  object->device = &state.graphics_device;
  file = object.get();
  device = &state.graphics_device;
  runtime::MutexLock lock(state.lock);
  add_reference(state, object.get(), object, TypeIndex::kFile);
  return kSuccess;
}

bool is_file(Executive& state, const void* pointer) {
  runtime::MutexLock lock(state.lock);
  const auto found = state.references.find(pointer);
  return found != state.references.end() && found->second.type == TypeIndex::kFile;
}

DXGKIT_NT_ABI DeviceObject* io_get_related_device_object(FileObject* file) {
  FileObject& object = required("IoGetRelatedDeviceObject", "FileObject", file);
  return is_file(executive(), file) ? object.device : nullptr;
}

/// No device attaches to another one here, so the given device is the top of its stack.
DXGKIT_NT_ABI DeviceObject* io_get_attached_device(DeviceObject* device) {
  required("IoGetAttachedDevice", "DeviceObject", device);
  return device;
}
DXGKIT_NT_ABI DeviceObject* io_get_attached_device_reference(DeviceObject* device) {
  Executive& state = executive();
  required("IoGetAttachedDeviceReference", "DeviceObject", device);
  runtime::MutexLock lock(state.lock);
  add_reference(state, device, nullptr, TypeIndex::kDevice);
  return device;
}

// --- IRPs

void initialize_irp(Irp* irp, uint16_t bytes, int8_t stack_count) {
  std::memset(static_cast<void*>(irp), 0, bytes);
  irp->type = 6;
  irp->size = bytes;
  irp->stack_count = stack_count;
  irp->current_location = static_cast<int8_t>(stack_count + 1);
  irp->thread_list = {&irp->thread_list, &irp->thread_list};
  irp->current_stack = irp->stack() + stack_count;
}

uint16_t irp_bytes(int8_t stack_count) {
  return static_cast<uint16_t>(sizeof(Irp) +
                               static_cast<size_t>(stack_count) * sizeof(IoStackLocation));
}

Irp* allocate_irp(Executive& state, int8_t stack_count, bool system) {
  if (stack_count <= 0 || stack_count > kStackCountMax) return nullptr;
  const uint16_t bytes = irp_bytes(stack_count);
  HeapBlock memory = take_block(CallFrame::current().kernel().impl().heap, bytes);
  if (memory == nullptr) return nullptr;
  auto* const irp = reinterpret_cast<Irp*>(memory.get());
  initialize_irp(irp, bytes, stack_count);
  runtime::MutexLock lock(state.lock);
  state.irps.emplace(irp, IrpEntry{state.next_sequence++, system, std::move(memory)});
  return irp;
}

DXGKIT_NT_ABI Irp* io_allocate_irp(int8_t stack_size, uint8_t) {
  require_irql(CallFrame::current(), "IoAllocateIrp", kDispatchLevel);
  return allocate_irp(executive(), stack_size, false);
}

/// Removes it from the list and frees it. False if it is not there, or the driver owns it: one that
/// IoInitializeIrp made.
bool forget_irp(Executive& state, const void* irp) {
  runtime::MutexLock lock(state.lock);
  const auto found = state.irps.find(irp);
  if (found == state.irps.end()) return false;
  const bool ours = found->second.sequence != 0;
  state.irps.erase(found);
  return ours;
}

[[noreturn]] void unknown_irp(const char* function, const void* irp) {
  CallFrame::current().kernel().bug_check(
      "NT-27", function, 0x44, static_cast<uint32_t>(reinterpret_cast<uint64_t>(irp)),
      fmt::format("{} is no live IRP.", irp),
      "An IRP is completed once and freed once, and is not used afterwards.",
      "Look for a second completion or free; a request built by IoBuildDeviceIoControlRequest is "
      "freed by its completion.");
}

DXGKIT_NT_ABI void io_free_irp(Irp* irp) {
  if (!forget_irp(executive(), irp)) unknown_irp("IoFreeIrp", irp);
}

DXGKIT_NT_ABI void io_initialize_irp(Irp* irp, uint16_t bytes, int8_t stack_count) {
  required("IoInitializeIrp", "Irp", irp);
  if (stack_count <= 0 || stack_count > kStackCountMax || bytes < irp_bytes(stack_count)) {
    CallFrame::current().kernel().bug_check(
        "NT-27", "IoInitializeIrp", 0x44, bytes,
        fmt::format("{} bytes were given for {} stack locations.", bytes, stack_count),
        "The packet has room for its stack locations.", "Use IoSizeOfIrp.");
  }
  initialize_irp(irp, bytes, stack_count);
  Executive& state = executive();
  runtime::MutexLock lock(state.lock);
  IrpEntry& entry = state.irps[irp];  // keeps its memory if it was allocated
  entry.sequence = 0;
  entry.system = false;
}
DXGKIT_NT_ABI void io_reuse_irp(Irp* irp, int32_t status) {
  required("IoReuseIrp", "Irp", irp);
  initialize_irp(irp, irp->size, irp->stack_count);
  irp->io_status.status = status;
}

Irp* build_request(DeviceObject* device, uint8_t major, Kevent* event, IoStatusBlock* status) {
  Irp* irp = allocate_irp(executive(), std::max<int8_t>(device->stack_size, 1), true);
  if (irp == nullptr) return nullptr;
  irp->user_event = event;
  irp->user_iosb = status;
  IoStackLocation& next = irp->current_stack[-1];
  next.major = major;
  return irp;
}

/// The device a driver names: ours, or one of the host that takes no requests.
bool is_graphics_device(Executive& state, const DeviceObject* device) {
  return device == &state.graphics_device;
}

DXGKIT_NT_ABI Irp* io_build_device_io_control_request(uint32_t code, DeviceObject* device,
                                                      void* input, uint32_t input_length,
                                                      void* output, uint32_t output_length,
                                                      uint8_t internal, Kevent* event,
                                                      IoStatusBlock* status) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "IoBuildDeviceIoControlRequest", kPassiveLevel);
  required("IoBuildDeviceIoControlRequest", "DeviceObject", device);
  const uint32_t method = code & 3;
  Irp* irp = build_request(
      device, internal != 0 ? kIrpMjInternalDeviceControl : kIrpMjDeviceControl, event, status);
  if (irp == nullptr) return nullptr;
  IoStackLocation& next = irp->current_stack[-1];
  next.device_control.output_length = output_length;
  next.device_control.input_length = input_length;
  next.device_control.code = code;
  irp->user_buffer = output;
  if (method == 3) {  // METHOD_NEITHER: the pointers as they are
    next.device_control.type3_input = input;
    return irp;
  }
  // Buffered and direct requests reach no device here, so no copy is read, and the input pointer is
  // enough.
  irp->system_buffer = input;
  return irp;
}

DXGKIT_NT_ABI Irp* io_build_synchronous_fsd_request(uint32_t major, DeviceObject* device,
                                                    void* buffer, uint32_t length,
                                                    const int64_t* offset, Kevent* event,
                                                    IoStatusBlock* status) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "IoBuildSynchronousFsdRequest", kPassiveLevel);
  required("IoBuildSynchronousFsdRequest", "DeviceObject", device);
  if (major != kIrpMjRead && major != kIrpMjWrite && major != kIrpMjFlush &&
      major != kIrpMjShutdown && major != kIrpMjPnp) {
    return nullptr;
  }
  Irp* irp = build_request(device, static_cast<uint8_t>(major), event, status);
  if (irp == nullptr) return nullptr;
  IoStackLocation& next = irp->current_stack[-1];
  if (major == kIrpMjRead || major == kIrpMjWrite) {
    next.transfer.length = length;
    next.transfer.offset = offset != nullptr ? *offset : 0;
  }
  irp->user_buffer = buffer;
  if (major == kIrpMjPnp) irp->io_status.status = kNotSupported;
  return irp;
}
DXGKIT_NT_ABI Irp* io_build_asynchronous_fsd_request(uint32_t major, DeviceObject* device,
                                                     void* buffer, uint32_t length,
                                                     const int64_t* offset, IoStatusBlock* status) {
  required("IoBuildAsynchronousFsdRequest", "DeviceObject", device);
  return io_build_synchronous_fsd_request(major, device, buffer, length, offset, nullptr, status);
}

/// The answer of \Device\DxgKrnl. `information`: bytes written.
int32_t answer_graphics_request(Kernel& kernel, const Irp& irp, const IoStackLocation& location,
                                uint64_t* information) {
  if (location.major != kIrpMjInternalDeviceControl) return kInvalidDeviceRequest;
  const void* function = nullptr;
  const char* name = "DxgkInitialize";
  switch (location.device_control.code) {
    case kGetInitialize:
    case kGetInitializeWin8:
      function = reinterpret_cast<const void*>(&dxgk_initialize);
      break;
    case kGetInitializeDisplayOnly:
      function = reinterpret_cast<const void*>(&dxgk_initialize_display_only);
      name = "DxgkInitializeDisplayOnlyDriver";
      break;
    case kGetUninitialize:
      function = reinterpret_cast<const void*>(&dxgk_uninitialize);
      name = "DxgkUnInitialize";
      break;
    default:
      return kInvalidDeviceRequest;
  }
  if (location.device_control.output_length < sizeof(function) || irp.user_buffer == nullptr)
    return kBufferTooSmall;
  function = address_for_driver(kernel, name, function);
  copy_driver(irp.user_buffer, &function, sizeof(function));
  *information = sizeof(function);
  return kSuccess;
}

/// No other driver is below. An unhandled request comes back unchanged: plug and play requests with
/// their status, others as invalid.
int32_t complete_unhandled(Kernel& kernel, Irp* irp, uint8_t major) {
  if (major == kIrpMjPnp)
    return complete_irp(kernel, irp, irp->io_status.status, irp->io_status.information);
  return complete_irp(kernel, irp, kInvalidDeviceRequest, 0);
}

DXGKIT_NT_ABI int32_t iof_call_driver(DeviceObject* device, Irp* irp) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  require_irql(frame, "IofCallDriver", kDispatchLevel);
  Executive& state = executive_of(kernel);
  bool known = false;
  {
    runtime::MutexLock lock(state.lock);
    known = state.irps.contains(irp);
  }
  if (!known) unknown_irp("IofCallDriver", irp);
  required("IofCallDriver", "DeviceObject", device);
  if (--irp->current_location <= 0) {
    kernel.bug_check("NT-27", "IofCallDriver", 0x35, 0,
                     fmt::format("{} has no stack location left.", static_cast<void*>(irp)),
                     "A packet has one stack location for every driver it is sent to.",
                     "Allocate it with the StackSize of the device.");
  }
  IoStackLocation& location = *--irp->current_stack;
  location.device = device;
  uint64_t information = 0;
  if (is_graphics_device(state, device)) {
    const int32_t status = answer_graphics_request(kernel, *irp, location, &information);
    return complete_irp(kernel, irp, status, information);
  }
  return complete_unhandled(kernel, irp, location.major);
}

DXGKIT_NT_ABI int32_t unhandled(DeviceObject*, Irp* irp) {
  Kernel& kernel = CallFrame::current().kernel();
  Executive& state = executive_of(kernel);
  bool known = false;
  {
    runtime::MutexLock lock(state.lock);
    known = state.irps.contains(irp);
  }
  if (!known) unknown_irp("a dispatch routine", irp);
  return complete_unhandled(kernel, irp, irp->current_stack->major);
}

DXGKIT_NT_ABI void iof_complete_request(Irp* irp, int8_t) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "IofCompleteRequest", kDispatchLevel);
  Executive& state = executive_of(frame.kernel());
  bool known = false;
  {
    runtime::MutexLock lock(state.lock);
    known = state.irps.contains(irp);
  }
  if (!known) unknown_irp("IofCompleteRequest", irp);
  complete_irp(frame.kernel(), irp, irp->io_status.status, irp->io_status.information);
}

DXGKIT_NT_ABI uint8_t io_cancel_irp(Irp* irp) {
  required("IoCancelIrp", "Irp", irp);
  // Every request is complete when IofCallDriver returns, so there is nothing to cancel.
  irp->cancel = 1;
  return 0;
}

DXGKIT_NT_ABI int32_t zw_load_driver(const UnicodeString* name) {
  require_irql(CallFrame::current(), "ZwLoadDriver", kPassiveLevel);
  std::u16string text;
  if (!capture_text(name, &text)) return kInvalidParameter;
  return same_text(text, u"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\DXGKrnl")
             ? kImageAlreadyLoaded
             : kObjectNameNotFound;
}
DXGKIT_NT_ABI int32_t zw_unload_driver(const UnicodeString* name) {
  require_irql(CallFrame::current(), "ZwUnloadDriver", kPassiveLevel);
  std::u16string text;
  if (!capture_text(name, &text)) return kInvalidParameter;
  // The graphics kernel has no unload routine.
  return same_text(text, u"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\DXGKrnl")
             ? kInvalidDeviceRequest
             : kObjectNameNotFound;
}

}  // namespace

const void* unhandled_request() { return reinterpret_cast<const void*>(&unhandled); }

int32_t complete_irp(Kernel& kernel, Irp* irp, int32_t status, uint64_t information) {
  Executive& state = executive_of(kernel);
  irp->io_status.pointer = nullptr;
  irp->io_status.status = status;
  irp->io_status.information = information;
  // Each location's completion routine belongs to the driver above it and gets that driver's
  // device.
  while (irp->current_location <= irp->stack_count) {
    const IoStackLocation location = *irp->current_stack;
    irp->pending_returned = (location.control & kStackPendingReturned) != 0 ? 1 : 0;
    *irp->current_stack = {};
    ++irp->current_location;
    ++irp->current_stack;
    const bool wanted = irp->cancel != 0 ? (location.control & kStackInvokeOnCancel) != 0
                        : irp->io_status.status >= 0
                            ? (location.control & kStackInvokeOnSuccess) != 0
                            : (location.control & kStackInvokeOnError) != 0;
    if (!wanted || location.completion == nullptr) continue;
    DeviceObject* const above =
        irp->current_location > irp->stack_count ? nullptr : irp->current_stack->device;
    // The routine may free the packet. If it keeps the packet, nothing of it is accessed.
    if (call_driver("completion routine", location.completion, above, irp, location.context) ==
        kMoreProcessingRequired) {
      return status;
    }
  }
  const int32_t final_status = irp->io_status.status;
  if (irp->user_iosb != nullptr) *irp->user_iosb = irp->io_status;
  Kevent* const event = irp->user_event;
  forget_irp(state, irp);
  if (event != nullptr) set_event(kernel, *event);
  return final_status;
}

std::span<const Export> io_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("DxgkInitialize", dxgk_initialize, kSupported, ""),
      DXGKIT_EXPORT("DxgkInitializeDisplayOnlyDriver", dxgk_initialize_display_only, kSupported,
                    ""),
      DXGKIT_EXPORT("DxgkUnInitialize", dxgk_uninitialize, kSupported, ""),
      DXGKIT_EXPORT("IoAllocateIrp", io_allocate_irp, kSupported, ""),
      DXGKIT_EXPORT("IoBuildAsynchronousFsdRequest", io_build_asynchronous_fsd_request, kPartial,
                    "nobody but the graphics kernel takes requests"),
      DXGKIT_EXPORT("IoBuildDeviceIoControlRequest", io_build_device_io_control_request, kPartial,
                    "nobody but the graphics kernel takes requests"),
      DXGKIT_EXPORT("IoBuildSynchronousFsdRequest", io_build_synchronous_fsd_request, kPartial,
                    "nobody but the graphics kernel takes requests"),
      DXGKIT_EXPORT("IoCancelIrp", io_cancel_irp, kPartial, "requests complete at once"),
      DXGKIT_EXPORT("IoFreeIrp", io_free_irp, kSupported, ""),
      DXGKIT_EXPORT("IoGetAttachedDevice", io_get_attached_device, kPartial, "nothing is attached"),
      DXGKIT_EXPORT("IoGetAttachedDeviceReference", io_get_attached_device_reference, kPartial,
                    "nothing is attached"),
      DXGKIT_EXPORT("IoGetDeviceObjectPointer", io_get_device_object_pointer, kPartial,
                    "\\Device\\DxgKrnl only"),
      DXGKIT_EXPORT("IoGetRelatedDeviceObject", io_get_related_device_object, kSupported, ""),
      DXGKIT_EXPORT("IoInitializeIrp", io_initialize_irp, kSupported, ""),
      DXGKIT_EXPORT("IoReuseIrp", io_reuse_irp, kSupported, ""),
      DXGKIT_EXPORT("IofCallDriver", iof_call_driver, kPartial,
                    "the graphics kernel answers; other devices refuse"),
      DXGKIT_EXPORT("IofCompleteRequest", iof_complete_request, kSupported, ""),
      DXGKIT_EXPORT("ZwLoadDriver", zw_load_driver, kPartial, "the graphics kernel is loaded"),
      DXGKIT_EXPORT("ZwUnloadDriver", zw_unload_driver, kPartial,
                    "the graphics kernel cannot be unloaded"),
  };
  return kTable;
}

}  // namespace dxgkit::nt
