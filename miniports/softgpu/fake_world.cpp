// What the driver imports and is called back by, answered by the world of the running test.
#include "miniports/softgpu/fake_world.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace softgpu {

FakeWorld* g_world = nullptr;
HANDLE device_handle() { return &g_world; }

namespace {

ULONG offset_of(const volatile void* pointer) {
  return static_cast<ULONG>(reinterpret_cast<uintptr_t>(pointer) -
                            reinterpret_cast<uintptr_t>(g_world->bar0.data()));
}

// --- what DXGKRNL_INTERFACE points to

NTSTATUS NTAPI get_device_information(HANDLE, PDXGK_DEVICE_INFO info) {
  struct Resources {
    CM_RESOURCE_LIST list;
    std::array<CM_PARTIAL_RESOURCE_DESCRIPTOR, 2> more;
  };
  static Resources resources;
  resources = {};
  resources.list.Count = 1;
  CM_PARTIAL_RESOURCE_LIST& list = resources.list.List[0].PartialResourceList;
  list.Count = 3;
  CM_PARTIAL_RESOURCE_DESCRIPTOR* descriptors = list.PartialDescriptors;
  descriptors[0].Type = CmResourceTypeInterrupt;
  descriptors[1].Type = CmResourceTypeMemory;
  descriptors[1].u.Memory.Start.QuadPart = 0xF0000000;
  descriptors[1].u.Memory.Length = SGPU_BAR0_BYTES;
  descriptors[2].Type = CmResourceTypeMemory;
  descriptors[2].u.Memory.Start.QuadPart = 0xE00000000;
  descriptors[2].u.Memory.Length = 64 << 20;
  info->TranslatedResourceList = &resources.list;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI read_device_space(HANDLE, ULONG, PVOID buffer, ULONG offset, ULONG length,
                                 PULONG read) {
  EXPECT_EQ(offset, 0U);
  const std::array<USHORT, 2> ids = {g_world->vendor, SGPU_PCI_DEVICE_ID};
  std::memcpy(buffer, ids.data(), length);
  *read = length;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI map_memory(HANDLE, PHYSICAL_ADDRESS address, ULONG length, BOOLEAN, BOOLEAN,
                          MEMORY_CACHING_TYPE, PVOID* pointer) {
  EXPECT_EQ(address.QuadPart, 0xF0000000);
  EXPECT_EQ(length, SGPU_BAR0_BYTES);
  ++g_world->mappings;
  *pointer = g_world->bar0.data();
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI unmap_memory(HANDLE, PVOID) {
  --g_world->mappings;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI synchronize_execution(HANDLE device, PKSYNCHRONIZE_ROUTINE routine, PVOID context,
                                     ULONG, PBOOLEAN result) {
  EXPECT_EQ(device, device_handle());
  EXPECT_FALSE(g_world->device_level);
  g_world->device_level = true;
  *result = routine(context);
  g_world->device_level = false;
  return STATUS_SUCCESS;
}
void NTAPI notify_interrupt(HANDLE device, DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
  EXPECT_EQ(device, device_handle());
  EXPECT_TRUE(g_world->device_level);
  g_world->reports.push_back(*data);
}
BOOLEAN NTAPI queue_dpc(HANDLE) {
  ++g_world->dpcs_queued;
  return TRUE;
}
void NTAPI notify_dpc(HANDLE) { ++g_world->dpcs_notified; }
void* NTAPI get_handle_data(const DXGKARGCB_GETHANDLEDATA* query) {
  return query->Type == DXGK_HANDLE_ALLOCATION ? g_world->handles[query->hObject] : nullptr;
}

}  // namespace

// The host has no fault to guard against; see user_memory.cpp.
NTSTATUS read_user(void* to, const void* from, SIZE_T bytes) {
  std::memcpy(to, from, bytes);
  return STATUS_SUCCESS;
}

DXGKRNL_INTERFACE fake_interface() {
  DXGKRNL_INTERFACE dxgk = {};
  dxgk.Size = sizeof(dxgk);
  dxgk.DeviceHandle = device_handle();
  dxgk.DxgkCbGetDeviceInformation = get_device_information;
  dxgk.DxgkCbReadDeviceSpace = read_device_space;
  dxgk.DxgkCbMapMemory = map_memory;
  dxgk.DxgkCbUnmapMemory = unmap_memory;
  dxgk.DxgkCbSynchronizeExecution = synchronize_execution;
  dxgk.DxgkCbNotifyInterrupt = notify_interrupt;
  dxgk.DxgkCbQueueDpc = queue_dpc;
  dxgk.DxgkCbNotifyDpc = notify_dpc;
  dxgk.DxgkCbGetHandleData = get_handle_data;
  return dxgk;
}

}  // namespace softgpu

// --- what the driver imports ---

using softgpu::g_world;
using softgpu::offset_of;

extern "C" {
NTSTATUS NTAPI DxgkInitialize(PDRIVER_OBJECT, PUNICODE_STRING, PDRIVER_INITIALIZATION_DATA data) {
  g_world->table = *data;
  return STATUS_SUCCESS;
}
PVOID NTAPI ExAllocatePoolWithTag(POOL_TYPE, SIZE_T bytes, ULONG) {
  if (g_world->pool_allocations_left-- == 0) return nullptr;
  void* const pointer = std::malloc(bytes);
  std::memset(pointer, 0xA5, bytes);
  g_world->pool.insert(pointer);
  return pointer;
}
VOID NTAPI ExFreePoolWithTag(PVOID pointer, ULONG) {
  EXPECT_EQ(g_world->pool.erase(pointer), 1U);
  std::free(pointer);
}
PVOID NTAPI MmAllocateContiguousMemorySpecifyCache(SIZE_T bytes, PHYSICAL_ADDRESS, PHYSICAL_ADDRESS,
                                                   PHYSICAL_ADDRESS, MEMORY_CACHING_TYPE) {
  ++g_world->contiguous;
  return std::aligned_alloc(PAGE_SIZE, (bytes + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE);
}
VOID NTAPI MmFreeContiguousMemorySpecifyCache(PVOID pointer, SIZE_T, MEMORY_CACHING_TYPE) {
  --g_world->contiguous;
  std::free(pointer);
}
PHYSICAL_ADDRESS NTAPI MmGetPhysicalAddress(PVOID pointer) {
  PHYSICAL_ADDRESS address;
  address.QuadPart = reinterpret_cast<LONGLONG>(pointer);
  return address;
}
ULONG NTAPI READ_REGISTER_ULONG(volatile ULONG* pointer) {
  return static_cast<ULONG>(g_world->read(offset_of(pointer)));
}
ULONG64 NTAPI READ_REGISTER_ULONG64(volatile ULONG64* pointer) {
  return g_world->read(offset_of(pointer));
}
VOID NTAPI WRITE_REGISTER_ULONG(volatile ULONG* pointer, ULONG value) {
  g_world->write(offset_of(pointer), value);
}
VOID NTAPI WRITE_REGISTER_ULONG64(volatile ULONG64* pointer, ULONG64 value) {
  g_world->write(offset_of(pointer), value);
}
VOID NTAPI RtlInitUnicodeString(PUNICODE_STRING destination, PCWSTR source) {
  USHORT characters = 0;
  while (source[characters] != 0) ++characters;
  destination->Buffer = const_cast<PWSTR>(source);
  destination->Length = static_cast<USHORT>(characters * sizeof(WCHAR));
  destination->MaximumLength = static_cast<USHORT>(destination->Length + sizeof(WCHAR));
}
NTSTATUS NTAPI ZwOpenKey(PHANDLE key, ACCESS_MASK, POBJECT_ATTRIBUTES) {
  ++g_world->open_keys;
  *key = g_world;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI ZwClose(HANDLE) {
  --g_world->open_keys;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI ZwQueryValueKey(HANDLE, PUNICODE_STRING name, KEY_VALUE_INFORMATION_CLASS, PVOID out,
                               ULONG bytes, PULONG needed) {
  const std::u16string_view wanted(reinterpret_cast<const char16_t*>(name->Buffer),
                                   name->Length / sizeof(WCHAR));
  if (wanted != u"MemoryModel" || !g_world->has_memory_model) return STATUS_OBJECT_NAME_NOT_FOUND;
  auto* value = static_cast<KEY_VALUE_PARTIAL_INFORMATION*>(out);
  *needed = offsetof(KEY_VALUE_PARTIAL_INFORMATION, Data) + sizeof(ULONG);
  EXPECT_GE(bytes, *needed);
  value->TitleIndex = 0;
  value->Type = g_world->memory_model_type;
  value->DataLength = sizeof(ULONG);
  std::memcpy(value->Data, &g_world->memory_model, sizeof(ULONG));
  return STATUS_SUCCESS;
}
VOID NTAPI KeInitializeTimer(PKTIMER) {}
BOOLEAN NTAPI KeSetTimer(PKTIMER, LARGE_INTEGER, PKDPC dpc) {
  g_world->timer_dpc = dpc;
  return FALSE;
}
BOOLEAN NTAPI KeCancelTimer(PKTIMER) {
  const bool was_set = g_world->timer_dpc != nullptr;
  g_world->timer_dpc = nullptr;
  return was_set ? TRUE : FALSE;
}
VOID NTAPI KeInitializeDpc(PRKDPC dpc, PKDEFERRED_ROUTINE routine, PVOID context) {
  dpc->DeferredRoutine = routine;
  dpc->DeferredContext = context;
}
VOID NTAPI KeFlushQueuedDpcs(VOID) {}
VOID NTAPI KeStallExecutionProcessor(ULONG) {}
}
