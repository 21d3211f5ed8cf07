// Calls that wait for ever, and threads of the driver that end its process, for mutant.cpp.
#pragma once

#include "tools/dxgkit/mutants/start_faults.h"

namespace {

/// The kernel makes a device of its own at the start. What waits for ever are devices of clients.
ULONG devices_made;
bool is_of_client() { return devices_made++ != 0; }

KEVENT set_by_nobody;
NTSTATUS NTAPI wait_for_nobody(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEDEVICE args) {
  if (!is_of_client()) return whole.DxgkDdiCreateDevice(adapter, args);
  KeInitializeEvent(&set_by_nobody, NotificationEvent, FALSE);
  KeWaitForSingleObject(&set_by_nobody, Executive, KernelMode, FALSE, nullptr);
  return whole.DxgkDdiCreateDevice(adapter, args);
}

KSPIN_LOCK first_lock, second_lock;
NTSTATUS NTAPI lock_twice(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEDEVICE args) {
  if (!is_of_client()) return whole.DxgkDdiCreateDevice(adapter, args);
  KeInitializeSpinLock(&first_lock);
  KIRQL old;
  KeRaiseIrql(DISPATCH_LEVEL, &old);
  KeAcquireSpinLockAtDpcLevel(&first_lock);
  KeAcquireSpinLockAtDpcLevel(&first_lock);
  return whole.DxgkDdiCreateDevice(adapter, args);
}

/// The thread and the DDI take both locks, each in its own order.
volatile BOOLEAN first_is_held, second_is_held;
VOID NTAPI take_second_first(PVOID) {
  KIRQL old;
  KeRaiseIrql(DISPATCH_LEVEL, &old);
  KeAcquireSpinLockAtDpcLevel(&second_lock);
  second_is_held = TRUE;
  while (!first_is_held) KeStallExecutionProcessor(1);
  KeAcquireSpinLockAtDpcLevel(&first_lock);
  KeReleaseSpinLockFromDpcLevel(&first_lock);
  KeReleaseSpinLockFromDpcLevel(&second_lock);
  KeLowerIrql(old);
  PsTerminateSystemThread(STATUS_SUCCESS);
}
void start_thread(PKSTART_ROUTINE routine) {
  HANDLE thread = nullptr;
  if (NT_SUCCESS(PsCreateSystemThread(&thread, THREAD_ALL_ACCESS, nullptr, nullptr, nullptr,
                                      routine, nullptr)))
    ZwClose(thread);
}
NTSTATUS NTAPI cross_locks(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEDEVICE args) {
  if (!is_of_client()) return whole.DxgkDdiCreateDevice(adapter, args);
  first_is_held = FALSE;
  second_is_held = FALSE;
  KeInitializeSpinLock(&first_lock);
  KeInitializeSpinLock(&second_lock);
  start_thread(take_second_first);
  KIRQL old;
  KeRaiseIrql(DISPATCH_LEVEL, &old);
  KeAcquireSpinLockAtDpcLevel(&first_lock);
  first_is_held = TRUE;
  while (!second_is_held) KeStallExecutionProcessor(1);
  KeAcquireSpinLockAtDpcLevel(&second_lock);
  KeReleaseSpinLockFromDpcLevel(&second_lock);
  KeReleaseSpinLockFromDpcLevel(&first_lock);
  KeLowerIrql(old);
  return whole.DxgkDdiCreateDevice(adapter, args);
}

/// After another mistake.
VOID NTAPI jump_astray(PVOID) {
  reinterpret_cast<void(NTAPI*)()>(0xA5A5A5A5A5A5A5A5)();
  PsTerminateSystemThread(STATUS_SUCCESS);
}
NTSTATUS NTAPI start_wild_thread(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  free_otherwise();
  start_thread(jump_astray);
  return whole.DxgkDdiCreateAllocation(adapter, args);
}
VOID NTAPI loop_for_ever(PVOID) {
  for (volatile ULONG rounds = 0;; rounds = rounds + 1) {
  }
}
NTSTATUS NTAPI start_endless_thread(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  free_otherwise();
  start_thread(loop_for_ever);
  return whole.DxgkDdiCreateAllocation(adapter, args);
}

}  // namespace
