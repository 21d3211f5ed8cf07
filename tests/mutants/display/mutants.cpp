// The display-only frame buffer miniport with one fault each; the registry chooses, as in
// ../mutants.h. The rest of the driver is compiled with DxgkInitializeDisplayOnlyDriver renamed to
// display_mutant_initialize.
#undef DxgkInitializeDisplayOnlyDriver
#include <ntddk.h>

#include "miniports/modes/modes.h"

extern "C" NTSTATUS NTAPI read_mutant_name(PUNICODE_STRING path, char* name, ULONG size);

namespace {

KMDDOD_INITIALIZATION_DATA original;
DXGKRNL_INTERFACE dxgk;
modes::Size size;  // of the screen, as the start found it

NTSTATUS NTAPI remember_start(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                              IN_PDXGKRNL_INTERFACE table, OUT_PULONG sources,
                              OUT_PULONG children) {
  dxgk = *table;
  return original.DxgkDdiStartDevice(context, info, table, sources, children);
}

// --- caps ---

void (*change_caps)(DXGK_DRIVERCAPS* caps);
NTSTATUS NTAPI query_changed(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = original.DxgkDdiQueryAdapterInfo(context, args);
  if (NT_SUCCESS(status) && args->Type == DXGKQAITYPE_DRIVERCAPS)
    change_caps(static_cast<DXGK_DRIVERCAPS*>(args->pOutputData));
  return status;
}
void caps_without_version(KMDDOD_INITIALIZATION_DATA* table) {
  change_caps = [](DXGK_DRIVERCAPS* caps) { caps->WDDMVersion = static_cast<DXGK_WDDMVERSION>(0); };
  table->DxgkDdiQueryAdapterInfo = query_changed;
}
NTSTATUS NTAPI query_too_large(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  // Compiled with the newest kit: its DXGK_DRIVERCAPS has 592 bytes.
  if (args->Type == DXGKQAITYPE_DRIVERCAPS && args->OutputDataSize < 592)
    return STATUS_BUFFER_TOO_SMALL;
  return original.DxgkDdiQueryAdapterInfo(context, args);
}
void caps_of_newer_kit(KMDDOD_INITIALIZATION_DATA* table) {
  table->Version = 0x300E;  // what the installation says; the code knows only its own kit
  table->DxgkDdiQueryAdapterInfo = query_too_large;
}
void non_vga_without_release(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiStopDeviceAndReleasePostDisplayOwnership = nullptr;
}

NTSTATUS NTAPI relations_without_output(IN_CONST_PVOID context, PDXGK_CHILD_DESCRIPTOR relations,
                                        ULONG bytes) {
  const NTSTATUS status = original.DxgkDdiQueryChildRelations(context, relations, bytes);
  relations[0].ChildDeviceType = TypeOther;
  return status;
}
void child_is_no_output(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryChildRelations = relations_without_output;
}
NTSTATUS NTAPI relations_too_many(IN_CONST_PVOID context, PDXGK_CHILD_DESCRIPTOR relations,
                                  ULONG bytes) {
  const NTSTATUS status = original.DxgkDdiQueryChildRelations(context, relations, bytes);
  relations[1] = relations[0];
  return status;
}
void child_too_many(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryChildRelations = relations_too_many;
}

// --- modes ---

modes::ModeTable mode_table() {
  modes::ModeTable result = {};
  result.dxgk = &dxgk;
  result.sizes = &size;
  result.size_count = 1;
  result.rotation_offsets = true;
  return result;
}
NTSTATUS NTAPI remember_size(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                             IN_PDXGKRNL_INTERFACE table, OUT_PULONG sources, OUT_PULONG children) {
  const NTSTATUS status = remember_start(context, info, table, sources, children);
  DXGK_DISPLAY_INFORMATION post = {};
  if (NT_SUCCESS(status) &&
      NT_SUCCESS(dxgk.DxgkCbAcquirePostDisplayOwnership(dxgk.DeviceHandle, &post)))
    size = {post.Width, post.Height};
  return status;
}
NTSTATUS NTAPI enumerate_without_offsets(IN_CONST_HANDLE,
                                         IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  modes::ModeTable table = mode_table();
  table.rotation_offsets = false;
  return modes::enumerate(table, args);
}
void rotation_without_offset(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = remember_size;
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_without_offsets;
}
NTSTATUS NTAPI enumerate_at_60_hz(IN_CONST_HANDLE,
                                  IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  modes::ModeTable table = mode_table();
  table.refresh_hz = 60;  // of a screen whose timing nobody here controls
  return modes::enumerate(table, args);
}
void frequency_without_control(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = remember_size;
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_at_60_hz;
}
NTSTATUS NTAPI enumerate_and_keep(IN_CONST_HANDLE context,
                                  IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  const NTSTATUS status = original.DxgkDdiEnumVidPnCofuncModality(context, args);
  const DXGK_VIDPN_INTERFACE* functions = nullptr;
  if (NT_SUCCESS(dxgk.DxgkCbQueryVidPnInterface(args->hConstrainingVidPn,
                                                DXGK_VIDPN_INTERFACE_VERSION_V1, &functions))) {
    D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
    const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
    (void)functions->pfnAcquireSourceModeSet(args->hConstrainingVidPn, 0, &set, &modes);
  }
  return status;
}
void mode_set_not_released(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_and_keep;
}
NTSTATUS NTAPI enumerate_nothing(IN_CONST_HANDLE, IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST) {
  return STATUS_SUCCESS;
}
void modes_not_enumerated(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_nothing;
}
NTSTATUS NTAPI commit_refused(IN_CONST_HANDLE, IN_CONST_PDXGKARG_COMMITVIDPN_CONST) {
  return STATUS_GRAPHICS_INVALID_VIDPN;
}
void commit_refuses_own_modes(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiCommitVidPn = commit_refused;
}

// --- presents ---

NTSTATUS NTAPI present_and_forget(IN_CONST_HANDLE context,
                                  IN_CONST_PDXGKARG_PRESENT_DISPLAYONLY present) {
  (void)original.DxgkDdiPresentDisplayOnly(context, present);
  return STATUS_PENDING;
}
void present_never_ends(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiPresentDisplayOnly = present_and_forget;
}
NTSTATUS NTAPI present_probed(IN_CONST_HANDLE context,
                              IN_CONST_PDXGKARG_PRESENT_DISPLAYONLY present) {
  ProbeForRead(present->pSource, static_cast<SIZE_T>(present->Pitch), 1);
  return original.DxgkDdiPresentDisplayOnly(context, present);
}
void present_probes_kernel(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiPresentDisplayOnly = present_probed;
}
NTSTATUS NTAPI present_all_but_one(IN_CONST_HANDLE context,
                                   IN_CONST_PDXGKARG_PRESENT_DISPLAYONLY present) {
  DXGKARG_PRESENT_DISPLAYONLY fewer = *present;
  if (fewer.NumDirtyRects > 1) --fewer.NumDirtyRects;
  return original.DxgkDdiPresentDisplayOnly(context, &fewer);
}
void present_forgets_rectangle(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiPresentDisplayOnly = present_all_but_one;
}
struct Mutant {
  const char* name;
  void (*install)(KMDDOD_INITIALIZATION_DATA* table);
};
const Mutant kMutants[] = {
    {"caps_without_version", caps_without_version},
    {"caps_of_newer_kit", caps_of_newer_kit},
    {"non_vga_without_release", non_vga_without_release},
    {"child_is_no_output", child_is_no_output},
    {"child_too_many", child_too_many},
    {"rotation_without_offset", rotation_without_offset},
    {"frequency_without_control", frequency_without_control},
    {"mode_set_not_released", mode_set_not_released},
    {"modes_not_enumerated", modes_not_enumerated},
    {"commit_refuses_own_modes", commit_refuses_own_modes},
    {"present_never_ends", present_never_ends},
    {"present_probes_kernel", present_probes_kernel},
    {"present_forgets_rectangle", present_forgets_rectangle},
};

bool same(const char* left, const char* right) {
  while (*left != 0 && *left == *right) ++left, ++right;
  return *left == *right;
}

}  // namespace

extern "C" NTSTATUS NTAPI display_mutant_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                                    PKMDDOD_INITIALIZATION_DATA table) {
  char name[64];
  (void)read_mutant_name(path, name, sizeof(name));
  original = *table;
  table->DxgkDdiStartDevice = remember_start;
  if (name[0] != 0) {
    const Mutant* found = nullptr;
    for (const Mutant& mutant : kMutants) {
      if (same(mutant.name, name)) found = &mutant;
    }
    if (found == nullptr) return STATUS_OBJECT_NAME_NOT_FOUND;  // the test misspelt it
    found->install(table);
  }
  return DxgkInitializeDisplayOnlyDriver(driver, path, table);
}
