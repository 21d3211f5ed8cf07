// Drivers with one fault each: the softgpu miniport, with one of the functions below in its way.
//
// One image holds them all. The registry value "Mutant" of the driver's key (REG_SZ) names the one
// that is wanted; without it the driver is softgpu. A mutant is a function that changes the table
// that goes to DxgkInitialize; the functions it puts there do their harm and call the original.
#pragma once

// The rest of the driver is compiled with DxgkInitialize renamed to mutant_initialize.
#undef DxgkInitialize
#ifndef DXGKDDI_INTERFACE_VERSION
#define DXGKDDI_INTERFACE_VERSION 0x4002  // that of softgpu: the sizes of its structures
#endif
#include <dispmprt.h>
#include <ntddk.h>

namespace mutants {

struct Mutant {
  const char* name;
  void (*install)(DRIVER_INITIALIZATION_DATA* table);
  /// In DriverEntry, instead of going on to DxgkInitialize; null: go on.
  NTSTATUS (*entry)(PDRIVER_OBJECT driver, PUNICODE_STRING path, DRIVER_INITIALIZATION_DATA* table);
};

/// One list per file; ends with a null name.
extern const Mutant kStartMutants[];
extern const Mutant kObjectMutants[];
extern const Mutant kWorkMutants[];
extern const Mutant kExecutiveMutants[];
extern const Mutant kTimeoutMutants[];
/// Alone in the image that is compiled with MUTANTS_OF_GPU_VA.
extern const Mutant kGpuVaMutants[];

/// The table as softgpu filled it.
extern DRIVER_INITIALIZATION_DATA original;
/// Of the last adapter that was started; null before.
extern const DXGKRNL_INTERFACE* dxgk;
/// hAdapter of the last adapter that was added.
extern PVOID adapter;

/// True the `number`-th time (from 1) it is asked.
inline bool is_call(ULONG* counter, ULONG number) { return ++*counter == number; }

}  // namespace mutants
