// The C++ half of a driver: classes with virtual functions, inline functions that several objects
// could have, and an operator new that returns null. The rest is examples/miniport/first.c,
// compiled with DxgkInitialize renamed to the function below.
#undef DxgkInitialize
#include <Dispmprt.h>
#include <NtDdk.h>

#include "D3DKMDDI.H"
#include "Square.h"

namespace {

constexpr ULONG kTag = 'sppC';
bool no_memory;
Shape* volatile kept;
DXGKDDI_START_DEVICE* start_device;

NTSTATUS NTAPI start(IN_CONST_PVOID context, IN_PDXGK_START_INFO info, IN_PDXGKRNL_INTERFACE dxgk,
                     OUT_PULONG sources, OUT_PULONG children) {
  no_memory = true;
  kept = new Polygon<3>(1);  // must not construct it at address 0
  if (kept != nullptr) return STATUS_UNSUCCESSFUL;
  no_memory = false;
  kept = new Polygon<4>(1);
  if (kept == nullptr) return STATUS_NO_MEMORY;
  const int corners = kept->corners();
  delete kept;
  if (corners != 4) return STATUS_UNSUCCESSFUL;
  return start_device(context, info, dxgk, sources, children);
}

}  // namespace

void* operator new(SIZE_T bytes) {
  return no_memory ? nullptr : ExAllocatePoolWithTag(NonPagedPoolNx, bytes, kTag);
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) ExFreePoolWithTag(memory, kTag);
}
void operator delete(void* memory, SIZE_T) noexcept { operator delete(memory); }

extern "C" NTSTATUS NTAPI cpp_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                         PDRIVER_INITIALIZATION_DATA data) {
  start_device = data->DxgkDdiStartDevice;
  data->DxgkDdiStartDevice = start;
  return DxgkInitialize(driver, path, data);
}
