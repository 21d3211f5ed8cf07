// Chooses the mutant the registry names.
#include "tests/mutants/mutants.h"
#include "tests/mutants/name.h"

namespace mutants {

DRIVER_INITIALIZATION_DATA original;
const DXGKRNL_INTERFACE* dxgk;
PVOID adapter;

namespace {

DXGKRNL_INTERFACE dxgk_copy;

NTSTATUS NTAPI remember_add(IN_CONST_PDEVICE_OBJECT device, OUT_PPVOID context) {
  const NTSTATUS status = original.DxgkDdiAddDevice(device, context);
  if (NT_SUCCESS(status)) adapter = *context;
  return status;
}

NTSTATUS NTAPI remember_start(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                              IN_PDXGKRNL_INTERFACE table, OUT_PULONG sources,
                              OUT_PULONG children) {
  dxgk_copy = *table;
  dxgk = &dxgk_copy;
  return original.DxgkDdiStartDevice(context, info, table, sources, children);
}

const Mutant* find(const char* name) {
#ifdef MUTANTS_OF_GPU_VA
  const Mutant* const lists[] = {kGpuVaMutants};
#else
  const Mutant* const lists[] = {kStartMutants, kObjectMutants, kWorkMutants, kExecutiveMutants,
                                 kTimeoutMutants};
#endif
  for (const Mutant* list : lists) {
    for (; list->name != nullptr; ++list) {
      if (same(list->name, name)) return list;
    }
  }
  return nullptr;
}

}  // namespace
}  // namespace mutants

extern "C" NTSTATUS NTAPI mutant_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                            PDRIVER_INITIALIZATION_DATA table) {
  using namespace mutants;
  char name[64];
  (void)read_mutant_name(path, name, sizeof(name));
  original = *table;
  table->DxgkDdiAddDevice = remember_add;
  table->DxgkDdiStartDevice = remember_start;
  if (name[0] != 0) {
    const Mutant* mutant = find(name);
    if (mutant == nullptr) return STATUS_OBJECT_NAME_NOT_FOUND;  // the test misspelt it
    if (mutant->install != nullptr) mutant->install(table);
    if (mutant->entry != nullptr) return mutant->entry(driver, path, table);
  }
  return DxgkInitialize(driver, path, table);
}
