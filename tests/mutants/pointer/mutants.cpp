// The virtio GPU's miniport with one fault each in how it treats the pointer; the
// registry chooses, as in ../mutants.h. The rest of the driver is compiled with DxgkInitialize
// renamed to pointer_mutant_initialize.
#undef DxgkInitialize
#include <dispmprt.h>
#include <ntddk.h>

#include "tests/mutants/name.h"

namespace {

DRIVER_INITIALIZATION_DATA original;

NTSTATUS NTAPI shape_by_width(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SETPOINTERSHAPE args) {
  DXGKARG_SETPOINTERSHAPE changed = *args;
  changed.Pitch = changed.Width * 4;
  return original.DxgkDdiSetPointerShape(context, &changed);
}
void pointer_ignores_pitch(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetPointerShape = shape_by_width;
}

NTSTATUS NTAPI shape_once(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SETPOINTERSHAPE args) {
  static LONG taken;
  if (InterlockedIncrement(&taken) > 1) return STATUS_SUCCESS;
  return original.DxgkDdiSetPointerShape(context, args);
}
void pointer_keeps_first_shape(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetPointerShape = shape_once;
}

NTSTATUS NTAPI position_on_screen(IN_CONST_HANDLE context,
                                  IN_CONST_PDXGKARG_SETPOINTERPOSITION args) {
  DXGKARG_SETPOINTERPOSITION changed = *args;
  if (changed.X < 0) changed.X = 0;
  if (changed.Y < 0) changed.Y = 0;
  return original.DxgkDdiSetPointerPosition(context, &changed);
}
void pointer_stays_inside(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetPointerPosition = position_on_screen;
}

NTSTATUS NTAPI position_shown(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SETPOINTERPOSITION args) {
  DXGKARG_SETPOINTERPOSITION changed = *args;
  changed.Flags.Visible = 1;
  return original.DxgkDdiSetPointerPosition(context, &changed);
}
void pointer_never_hides(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetPointerPosition = position_shown;
}

struct Mutant {
  const char* name;
  void (*install)(DRIVER_INITIALIZATION_DATA* table);
};
const Mutant kMutants[] = {
    {"pointer_ignores_pitch", pointer_ignores_pitch},
    {"pointer_keeps_first_shape", pointer_keeps_first_shape},
    {"pointer_stays_inside", pointer_stays_inside},
    {"pointer_never_hides", pointer_never_hides},
};

}  // namespace

extern "C" NTSTATUS NTAPI pointer_mutant_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                                    PDRIVER_INITIALIZATION_DATA table) {
  original = *table;
  const NTSTATUS status = mutants::install_named(path, kMutants, table);
  if (!NT_SUCCESS(status)) return status;
  return DxgkInitialize(driver, path, table);
}
