// What goes wrong with devices, contexts and allocations.
#include "miniports/softgpu/driver.h"
#include "tests/mutants/mutants.h"

namespace mutants {
namespace {

using ChangeAllocation = void (*)(DXGK_ALLOCATIONINFO* info);
ChangeAllocation change_allocation;
NTSTATUS NTAPI create_changed(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEALLOCATION args) {
  const NTSTATUS status = original.DxgkDdiCreateAllocation(context, args);
  if (NT_SUCCESS(status)) change_allocation(&args->pAllocationInfo[0]);
  return status;
}
template <typename Change>
void with_allocation(DRIVER_INITIALIZATION_DATA* table, Change change) {
  change_allocation = change;
  table->DxgkDdiCreateAllocation = create_changed;
}

void allocation_without_handle(DRIVER_INITIALIZATION_DATA* table) {
  with_allocation(table, [](DXGK_ALLOCATIONINFO* info) {
    softgpu::unmake(info->hAllocation);
    info->hAllocation = nullptr;
  });
}
void allocation_without_size(DRIVER_INITIALIZATION_DATA* table) {
  with_allocation(table, [](DXGK_ALLOCATIONINFO* info) { info->Size = 0; });
}
void allocation_alignment_three(DRIVER_INITIALIZATION_DATA* table) {
  with_allocation(table, [](DXGK_ALLOCATIONINFO* info) { info->Alignment = 3; });
}
void allocation_in_no_segment(DRIVER_INITIALIZATION_DATA* table) {
  with_allocation(table, [](DXGK_ALLOCATIONINFO* info) {
    info->SupportedReadSegmentSet = info->SupportedWriteSegmentSet = 0;
    info->PreferredSegment.Value = 0;
  });
}
void allocation_prefers_foreign(DRIVER_INITIALIZATION_DATA* table) {
  with_allocation(table, [](DXGK_ALLOCATIONINFO* info) {
    info->SupportedReadSegmentSet = info->SupportedWriteSegmentSet = 1;
    info->PreferredSegment.Value = 0;
    info->PreferredSegment.SegmentId0 = 2;
  });
}
void allocation_evicts_to_local(DRIVER_INITIALIZATION_DATA* table) {
  with_allocation(table, [](DXGK_ALLOCATIONINFO* info) { info->EvictionSegmentSet = 1; });
}
void allocation_cached_unseen(DRIVER_INITIALIZATION_DATA* table) {
  with_allocation(table, [](DXGK_ALLOCATIONINFO* info) {
    info->Flags.Value = 0;
    info->Flags.Cached = 1;
  });
}

NTSTATUS NTAPI refuse_oddly(IN_CONST_HANDLE, INOUT_PDXGKARG_CREATEALLOCATION) {
  return STATUS_UNSUCCESSFUL;
}
void allocation_odd_status(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateAllocation = refuse_oddly;
}

NTSTATUS NTAPI open_to_nothing(IN_CONST_HANDLE handle, IN_CONST_PDXGKARG_OPENALLOCATION args) {
  const NTSTATUS status = original.DxgkDdiOpenAllocation(handle, args);
  if (!NT_SUCCESS(status)) return status;
  softgpu::unmake(args->pOpenAllocation[0].hDeviceSpecificAllocation);
  args->pOpenAllocation[0].hDeviceSpecificAllocation = nullptr;
  return status;
}
void open_without_handle(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiOpenAllocation = open_to_nothing;
}

NTSTATUS NTAPI context_in_local(IN_CONST_HANDLE device, INOUT_PDXGKARG_CREATECONTEXT args) {
  const NTSTATUS status = original.DxgkDdiCreateContext(device, args);
  if (args->Flags.SystemContext == 0) args->ContextInfo.DmaBufferSegmentSet = 1;
  return status;
}
void context_buffers_in_local(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateContext = context_in_local;
}

// --- pool ---

NTSTATUS NTAPI destroy_twice(IN_CONST_HANDLE context) {
  softgpu::unmake(context);
  softgpu::unmake(context);
  return STATUS_SUCCESS;
}
void context_freed_twice(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiDestroyContext = destroy_twice;
}

NTSTATUS NTAPI destroy_other_tag(IN_CONST_HANDLE context) {
  ExFreePoolWithTag(context, 0x21646142);  // "Bad!"
  return STATUS_SUCCESS;
}
void context_freed_other_tag(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiDestroyContext = destroy_other_tag;
}

NTSTATUS NTAPI destroy_nothing(IN_CONST_HANDLE) { return STATUS_SUCCESS; }
void context_leaked(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiDestroyContext = destroy_nothing;
}

NTSTATUS NTAPI context_overrun(IN_CONST_HANDLE device, INOUT_PDXGKARG_CREATECONTEXT args) {
  const NTSTATUS status = original.DxgkDdiCreateContext(device, args);
  // One element too many of a block that holds one.
  if (NT_SUCCESS(status) && args->Flags.SystemContext == 0) {
    auto* bytes = static_cast<volatile UCHAR*>(args->hContext);
    for (ULONG i = 0; i < 4; ++i) bytes[sizeof(softgpu::Context) + i] = 0x77;
  }
  return status;
}
void context_overrun_pool(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateContext = context_overrun;
}

PVOID freed_context;
NTSTATUS NTAPI destroy_and_remember(IN_CONST_HANDLE context) {
  softgpu::unmake(context);
  freed_context = context;
  // Somebody who still has the pointer.
  return *static_cast<volatile UINT*>(freed_context) < SGPU_NODE_COUNT ? STATUS_SUCCESS
                                                                       : STATUS_SUCCESS;
}
void context_used_after_free(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiDestroyContext = destroy_and_remember;
}

// A routine that wants the adapter at once, where others have it.
void NTAPI nothing_to_do(IN_CONST_PVOID, PVOID, NTSTATUS) {}
NTSTATUS NTAPI create_excluding(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEDEVICE args) {
  static ULONG calls = 0;
  if (is_call(&calls, 1) && dxgk != nullptr) {
    (void)dxgk->DxgkCbExcludeAdapterAccess(dxgk->DeviceHandle, DXGK_EXCLUDE_CALL_SYNCHRONOUS,
                                           nothing_to_do, nullptr);
  }
  return original.DxgkDdiCreateDevice(context, args);
}
void device_excludes_access(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateDevice = create_excluding;
}

}  // namespace

const Mutant kObjectMutants[] = {
    {"device_excludes_access", device_excludes_access, nullptr},
    {"allocation_without_handle", allocation_without_handle, nullptr},
    {"allocation_without_size", allocation_without_size, nullptr},
    {"allocation_alignment_three", allocation_alignment_three, nullptr},
    {"allocation_in_no_segment", allocation_in_no_segment, nullptr},
    {"allocation_prefers_foreign", allocation_prefers_foreign, nullptr},
    {"allocation_evicts_to_local", allocation_evicts_to_local, nullptr},
    {"allocation_cached_unseen", allocation_cached_unseen, nullptr},
    {"allocation_odd_status", allocation_odd_status, nullptr},
    {"open_without_handle", open_without_handle, nullptr},
    {"context_buffers_in_local", context_buffers_in_local, nullptr},
    {"context_freed_twice", context_freed_twice, nullptr},
    {"context_freed_other_tag", context_freed_other_tag, nullptr},
    {"context_leaked", context_leaked, nullptr},
    {"context_overrun_pool", context_overrun_pool, nullptr},
    {"context_used_after_free", context_used_after_free, nullptr},
    {nullptr, nullptr, nullptr},
};

}  // namespace mutants
