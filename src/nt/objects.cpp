// Handles, references, type objects, processes and threads as objects.
#include <fmt/format.h>

#include <cstring>

#include "nt/executive.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

constexpr uint64_t kCurrentProcess = UINT64_MAX;     // ZwCurrentProcess()
constexpr uint64_t kCurrentThread = UINT64_MAX - 1;  // ZwCurrentThread()
constexpr uint64_t kSystemProcessId = 4;

/// The object behind a handle, with a reference that keeps it alive.
struct Named {
  void* pointer = nullptr;
  std::shared_ptr<void> object;
  TypeIndex type = TypeIndex::kNone;
};

Named object_of(const HandleEntry& entry) {
  switch (entry.kind) {
    case HandleEntry::Kind::kThread:
      return {entry.thread.get(), entry.thread, TypeIndex::kThread};
    case HandleEntry::Kind::kEvent:
      return {&entry.event->event, entry.event, TypeIndex::kEvent};
    case HandleEntry::Kind::kKey:
      return {entry.key.get(), entry.key, TypeIndex::kKey};
    case HandleEntry::Kind::kFile:
      return {entry.file.get(), entry.file, TypeIndex::kFile};
  }
  return {};
}

/// The object at an address, if this kernel has it and a handle names it too.
Named find_object(Kernel& kernel, void* pointer) {
  runtime::MutexLock lock(kernel.impl().dispatcher_lock);
  if (const auto thread = kernel.impl().threads.find(pointer);
      thread != kernel.impl().threads.end()) {
    return {pointer, thread->second, TypeIndex::kThread};
  }
  for (const auto& [handle, entry] : kernel.impl().handles) {
    if (Named named = object_of(entry); named.pointer == pointer) return named;
  }
  return {};
}

int32_t reference_by_handle(const char* function, void* handle, const void* wanted_type,
                            void** object_out) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kPassiveLevel);
  void*& object = required(function, "Object", object_out);
  object = nullptr;
  Kernel& kernel = frame.kernel();
  Executive& state = executive_of(kernel);
  Named named;
  if (reinterpret_cast<uint64_t>(handle) == kCurrentProcess) {
    named = {state.system_process, nullptr, TypeIndex::kProcess};
  } else if (reinterpret_cast<uint64_t>(handle) == kCurrentThread) {
    named = {current_thread_object(), nullptr, TypeIndex::kThread};
  } else {
    runtime::MutexLock lock(kernel.impl().dispatcher_lock);
    const auto found = kernel.impl().handles.find(reinterpret_cast<uint64_t>(handle));
    if (found == kernel.impl().handles.end()) return kInvalidHandle;
    named = object_of(found->second);
  }
  if (wanted_type != nullptr && wanted_type != type_object(named.type)) return kObjectTypeMismatch;
  object = named.pointer;
  runtime::MutexLock lock(state.lock);
  add_reference(state, named.pointer, named.object, named.type);
  return kSuccess;
}

DXGKIT_NT_ABI int32_t ob_reference_object_by_handle(void* handle, uint32_t, const void* type,
                                                    uint8_t, void** object, void*) {
  return reference_by_handle("ObReferenceObjectByHandle", handle, type, object);
}
DXGKIT_NT_ABI int32_t ob_reference_object_by_handle_with_tag(void* handle, uint32_t,
                                                             const void* type, uint8_t, uint32_t,
                                                             void** object, void*) {
  return reference_by_handle("ObReferenceObjectByHandleWithTag", handle, type, object);
}

int64_t reference(const char* function, void* object) {
  required(function, "Object", static_cast<std::byte*>(object));
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kDispatchLevel);
  const Named named = find_object(frame.kernel(), object);
  Executive& state = executive_of(frame.kernel());
  runtime::MutexLock lock(state.lock);
  add_reference(state, object, named.object, named.type);
  return state.references[object].held + 1;
}

int64_t dereference(const char* function, void* object) {
  required(function, "Object", static_cast<std::byte*>(object));
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kDispatchLevel);
  Executive& state = executive_of(frame.kernel());
  std::shared_ptr<void> keep;  // destroyed after the lock
  {
    runtime::MutexLock lock(state.lock);
    const auto found = state.references.find(object);
    if (found != state.references.end() && found->second.held > 0) {
      const int64_t left = --found->second.held;
      if (left == 0) {
        keep = std::move(found->second.object);
        state.references.erase(found);
      }
      return left + 1;
    }
  }
  frame.kernel().bug_check(
      "NT-28", function, 0x18, static_cast<uint32_t>(reinterpret_cast<uint64_t>(object)),
      fmt::format("{} was dereferenced, but the driver holds no reference on it.", object),
      "Each reference is given back once.",
      "Pair it with ObReferenceObject, ObReferenceObjectByHandle or IoGetDeviceObjectPointer.");
}

DXGKIT_NT_ABI int64_t obf_reference_object(void* object) {
  return reference("ObfReferenceObject", object);
}
DXGKIT_NT_ABI int64_t obf_dereference_object(void* object) {
  return dereference("ObfDereferenceObject", object);
}
DXGKIT_NT_ABI int64_t obf_reference_object_with_tag(void* object, uint32_t) {
  return reference("ObfReferenceObjectWithTag", object);
}
DXGKIT_NT_ABI int64_t obf_dereference_object_with_tag(void* object, uint32_t) {
  return dereference("ObfDereferenceObjectWithTag", object);
}
/// The deferred forms delete the object elsewhere, which has no visible effect here.
DXGKIT_NT_ABI void ob_dereference_object_defer_delete(void* object) {
  dereference("ObDereferenceObjectDeferDelete", object);
}
DXGKIT_NT_ABI void ob_dereference_object_defer_delete_with_tag(void* object, uint32_t) {
  dereference("ObDereferenceObjectDeferDeleteWithTag", object);
}

int32_t reference_by_pointer(const char* function, void* object, const void* type) {
  required(function, "Object", static_cast<std::byte*>(object));
  Executive& state = executive();
  if (type != nullptr) {
    TypeIndex actual = TypeIndex::kNone;
    {
      runtime::MutexLock lock(state.lock);
      const auto found = state.references.find(object);
      if (found != state.references.end()) actual = found->second.type;
    }
    if (object == state.system_process) actual = TypeIndex::kProcess;
    if (object == current_thread_object()) actual = TypeIndex::kThread;
    if (object == &state.graphics_device) actual = TypeIndex::kDevice;
    if (actual != TypeIndex::kNone && type != type_object(actual)) return kObjectTypeMismatch;
  }
  reference(function, object);
  return kSuccess;
}
DXGKIT_NT_ABI int32_t ob_reference_object_by_pointer(void* object, uint32_t, const void* type,
                                                     uint8_t) {
  return reference_by_pointer("ObReferenceObjectByPointer", object, type);
}
DXGKIT_NT_ABI int32_t ob_reference_object_by_pointer_with_tag(void* object, uint32_t,
                                                              const void* type, uint8_t, uint32_t) {
  return reference_by_pointer("ObReferenceObjectByPointerWithTag", object, type);
}

DXGKIT_NT_ABI int32_t ob_open_object_by_pointer(void* object, uint32_t, void*, uint32_t,
                                                const void* wanted_type, uint8_t, void** handle) {
  required("ObOpenObjectByPointer", "Object", static_cast<std::byte*>(object));
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  require_irql(frame, "ObOpenObjectByPointer", kPassiveLevel);
  std::shared_ptr<ThreadObject> thread;
  {
    runtime::MutexLock lock(kernel.impl().dispatcher_lock);
    const auto found = kernel.impl().threads.find(object);
    if (found != kernel.impl().threads.end()) thread = found->second;
  }
  if (thread == nullptr) return kNotSupported;
  if (wanted_type != nullptr && wanted_type != type_object(TypeIndex::kThread))
    return kObjectTypeMismatch;
  required("ObOpenObjectByPointer", "Handle", handle) =
      make_handle(kernel, {.kind = HandleEntry::Kind::kThread,
                           .thread = std::move(thread),
                           .key = {},
                           .event = {},
                           .sequence = 0});
  return kSuccess;
}

DXGKIT_NT_ABI int32_t zw_close(void* handle) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ZwClose", kPassiveLevel);
  Kernel::Impl& state = frame.kernel().impl();
  HandleEntry closed;  // its object is destroyed after the lock
  {
    runtime::MutexLock lock(state.dispatcher_lock);
    const auto found = state.handles.find(reinterpret_cast<uint64_t>(handle));
    if (found != state.handles.end()) {
      closed = std::move(found->second);
      state.handles.erase(found);
      return kSuccess;
    }
  }
  frame.kernel().violation("NT-28", "ZwClose", fmt::format("{} is no open handle.", handle),
                           "A driver closes each handle once.", "Look for a second close.");
  return kInvalidHandle;
}

// --- processes and threads

DXGKIT_NT_ABI void* ke_get_current_thread() { return current_thread_object(); }
DXGKIT_NT_ABI void* ps_get_current_thread_id() {
  return reinterpret_cast<void*>(
      (uint64_t{CallFrame::current().kernel().runtime().thread_number()} + 1) * 4);
}
DXGKIT_NT_ABI void* ps_get_current_process() { return executive().system_process; }
DXGKIT_NT_ABI void* ps_get_current_process_id() {
  return reinterpret_cast<void*>(kSystemProcessId);
}
DXGKIT_NT_ABI void* ps_get_process_id(void* process) {
  return reinterpret_cast<void*>(process == executive().system_process ? kSystemProcessId : 0);
}
DXGKIT_NT_ABI void* ps_get_thread_id(void* thread) {
  if (thread == current_thread_object()) return ps_get_current_thread_id();
  Kernel::Impl& state = CallFrame::current().kernel().impl();
  runtime::MutexLock lock(state.dispatcher_lock);
  const auto found = state.threads.find(thread);
  return reinterpret_cast<void*>(found == state.threads.end() ? 0 : found->second->sequence);
}
DXGKIT_NT_ABI void* io_thread_to_process(void*) { return executive().system_process; }
DXGKIT_NT_ABI uint8_t ps_is_system_thread(void* thread) {
  Kernel::Impl& state = CallFrame::current().kernel().impl();
  runtime::MutexLock lock(state.dispatcher_lock);
  return state.threads.contains(thread) ? 1 : 0;
}
DXGKIT_NT_ABI uint8_t ps_is_system_process(void* process) {
  return process == executive().system_process ? 1 : 0;
}
DXGKIT_NT_ABI int32_t ps_lookup_process_by_process_id(void* id, void** process) {
  void*& out = required("PsLookupProcessByProcessId", "Process", process);
  if (reinterpret_cast<uint64_t>(id) != kSystemProcessId) return kInvalidParameter;
  Executive& state = executive();
  out = state.system_process;
  runtime::MutexLock lock(state.lock);
  add_reference(state, state.system_process, nullptr, TypeIndex::kProcess);
  return kSuccess;
}
DXGKIT_NT_ABI void* ps_get_process_wow64_process(void*) { return nullptr; }
DXGKIT_NT_ABI uint8_t ps_get_current_previous_mode() { return 0; }  // KernelMode

/// KAPC_STATE is 48 bytes. Its process member (at 32) names the process to return to.
DXGKIT_NT_ABI void ke_stack_attach_process(void* process, std::byte* apc_state) {
  required("KeStackAttachProcess", "ApcState", apc_state);
  Executive& state = executive();
  if (process != state.system_process) {
    refuse_call("KeStackAttachProcess",
                "there is one address space here, the system process's, and it is current already");
  }
  std::memset(apc_state, 0, 48);
}
DXGKIT_NT_ABI void ke_unstack_detach_process(std::byte* apc_state) {
  required("KeUnstackDetachProcess", "ApcState", apc_state);
}

const void* const kThreadType = type_object(TypeIndex::kThread);
const void* const kProcessType = type_object(TypeIndex::kProcess);
const void* const kEventType = type_object(TypeIndex::kEvent);
const void* const kFileType = type_object(TypeIndex::kFile);
const void* const kDeviceType = type_object(TypeIndex::kDevice);
const void* const kDriverType = type_object(TypeIndex::kDriver);
const void* const kSemaphoreType = type_object(TypeIndex::kSemaphore);
const void* const kKeyType = type_object(TypeIndex::kKey);

}  // namespace

void* current_thread_object() {
  CallFrame* frame = &CallFrame::current();
  while (frame->previous() != nullptr) frame = frame->previous();
  // A stable pointer for threads that are not the driver's: their outermost frame lives as long as
  // the driver runs there.
  return frame->thread != nullptr ? frame->thread : static_cast<void*>(frame);
}

void add_reference(Executive& state, const void* pointer, std::shared_ptr<void> object,
                   TypeIndex type) {
  ReferenceEntry& entry = state.references[pointer];
  if (entry.object == nullptr) entry.object = std::move(object);
  if (type != TypeIndex::kNone) entry.type = type;
  if (++entry.held > 1) return;
  entry.sequence = state.next_sequence++;
  entry.taken = origin_of(CallFrame::current());
}

void* make_handle(Kernel& kernel, HandleEntry entry) {
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.dispatcher_lock);
  const uint64_t value = state.next_handle;
  state.next_handle += 4;
  entry.sequence = value;
  entry.taken = origin_of(CallFrame::current());
  state.handles.emplace(value, std::move(entry));
  return reinterpret_cast<void*>(value);
}

std::span<const Export> object_exports() {
  static const Export kTable[] = {
      {"ExEventObjectType", &kEventType, Support::kSupported, "", 8},
      {"ExSemaphoreObjectType", &kSemaphoreType, Support::kSupported, "", 8},
      {"IoDeviceObjectType", &kDeviceType, Support::kSupported, "", 8},
      {"IoDriverObjectType", &kDriverType, Support::kSupported, "", 8},
      {"IoFileObjectType", &kFileType, Support::kSupported, "", 8},
      {"CmKeyObjectType", &kKeyType, Support::kSupported, "", 8},
      {"PsProcessType", &kProcessType, Support::kSupported, "", 8},
      {"PsThreadType", &kThreadType, Support::kSupported, "", 8},
      DXGKIT_EXPORT("IoGetCurrentProcess", ps_get_current_process, kPartial,
                    "always the system process"),
      DXGKIT_EXPORT("IoThreadToProcess", io_thread_to_process, kPartial,
                    "always the system process"),
      DXGKIT_EXPORT("KeGetCurrentThread", ke_get_current_thread, kPartial, "an opaque pointer"),
      DXGKIT_EXPORT("KeStackAttachProcess", ke_stack_attach_process, kPartial,
                    "the system process only"),
      DXGKIT_EXPORT("KeUnstackDetachProcess", ke_unstack_detach_process, kPartial,
                    "the system process only"),
      DXGKIT_EXPORT("ObDereferenceObjectDeferDelete", ob_dereference_object_defer_delete,
                    kSupported, ""),
      DXGKIT_EXPORT("ObDereferenceObjectDeferDeleteWithTag",
                    ob_dereference_object_defer_delete_with_tag, kSupported, ""),
      DXGKIT_EXPORT("ObOpenObjectByPointer", ob_open_object_by_pointer, kPartial, "threads only"),
      DXGKIT_EXPORT("ObReferenceObjectByHandle", ob_reference_object_by_handle, kPartial,
                    "access masks are not checked"),
      DXGKIT_EXPORT("ObReferenceObjectByHandleWithTag", ob_reference_object_by_handle_with_tag,
                    kPartial, "access masks are not checked; tags are not kept"),
      DXGKIT_EXPORT("ObReferenceObjectByPointer", ob_reference_object_by_pointer, kPartial,
                    "access masks are not checked"),
      DXGKIT_EXPORT("ObReferenceObjectByPointerWithTag", ob_reference_object_by_pointer_with_tag,
                    kPartial, "access masks are not checked; tags are not kept"),
      DXGKIT_EXPORT("ObfDereferenceObject", obf_dereference_object, kSupported, ""),
      DXGKIT_EXPORT("ObfDereferenceObjectWithTag", obf_dereference_object_with_tag, kPartial,
                    "tags are not kept"),
      DXGKIT_EXPORT("ObfReferenceObject", obf_reference_object, kSupported, ""),
      DXGKIT_EXPORT("ObfReferenceObjectWithTag", obf_reference_object_with_tag, kPartial,
                    "tags are not kept"),
      DXGKIT_EXPORT("PsGetCurrentProcess", ps_get_current_process, kPartial,
                    "always the system process"),
      DXGKIT_EXPORT("PsGetCurrentProcessId", ps_get_current_process_id, kPartial,
                    "always the system process"),
      DXGKIT_EXPORT("PsGetCurrentThread", ke_get_current_thread, kPartial, "an opaque pointer"),
      DXGKIT_EXPORT("PsGetCurrentThreadId", ps_get_current_thread_id, kSupported, ""),
      DXGKIT_EXPORT("PsGetCurrentThreadPreviousMode", ps_get_current_previous_mode, kPartial,
                    "always kernel mode"),
      DXGKIT_EXPORT("ExGetPreviousMode", ps_get_current_previous_mode, kPartial,
                    "always kernel mode"),
      DXGKIT_EXPORT("PsGetProcessId", ps_get_process_id, kPartial, "the system process only"),
      DXGKIT_EXPORT("PsGetProcessWow64Process", ps_get_process_wow64_process, kPartial,
                    "no process is 32-bit"),
      DXGKIT_EXPORT("PsGetThreadId", ps_get_thread_id, kPartial,
                    "the driver's threads and the current one"),
      DXGKIT_EXPORT("PsGetThreadProcessId", ps_get_current_process_id, kPartial,
                    "always the system process"),
      DXGKIT_EXPORT("PsIsSystemProcess", ps_is_system_process, kSupported, ""),
      DXGKIT_EXPORT("PsIsSystemThread", ps_is_system_thread, kSupported, ""),
      DXGKIT_EXPORT("PsLookupProcessByProcessId", ps_lookup_process_by_process_id, kPartial,
                    "the system process only"),
      DXGKIT_EXPORT("ZwClose", zw_close, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
