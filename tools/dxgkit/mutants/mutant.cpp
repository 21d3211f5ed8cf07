// The softgpu miniport with one DDI that misbehaves, to see what the tool tells a driver's author.
// The rest of the driver is compiled with DxgkInitialize renamed to the function below.
#undef DxgkInitialize
#include <dispmprt.h>
#include <ntddk.h>

namespace {

#if defined(MUTANT_START_FAILS)
NTSTATUS NTAPI fail_start(const PVOID, PDXGK_START_INFO, PDXGKRNL_INTERFACE, PULONG, PULONG) {
  return STATUS_NO_SUCH_DEVICE;
}
#elif defined(MUTANT_PATCH_FAILS)
NTSTATUS NTAPI fail_patch(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PATCH) { return STATUS_UNSUCCESSFUL; }
#elif defined(MUTANT_ENTRY_MISSING) || defined(MUTANT_ENTRY_FAULTS)
#else
#error "which mutant?"
#endif

}  // namespace

extern "C" NTSTATUS NTAPI mutant_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path,
                                            PDRIVER_INITIALIZATION_DATA data) {
#if defined(MUTANT_START_FAILS)
  data->DxgkDdiStartDevice = fail_start;
#elif defined(MUTANT_PATCH_FAILS)
  data->DxgkDdiPatch = fail_patch;
#elif defined(MUTANT_ENTRY_MISSING)
  data->DxgkDdiBuildPagingBuffer = nullptr;
#elif defined(MUTANT_ENTRY_FAULTS)
  *reinterpret_cast<volatile int*>(8) = 1;
#endif
  return DxgkInitialize(driver, registry_path, data);
}
