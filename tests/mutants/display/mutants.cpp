// The display-only frame buffer miniport with one fault each; the registry chooses, as in
// ../mutants.h. The rest of the driver is compiled with DxgkInitializeDisplayOnlyDriver renamed to
// display_mutant_initialize.
#undef DxgkInitializeDisplayOnlyDriver
#include <ntddk.h>

#include "miniports/modes/modes.h"
#include "tests/mutants/name.h"

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
void monitors_without_advice(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiRecommendMonitorModes = nullptr;
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

// --- VidPNs that no mode set makes ---

NTSTATUS NTAPI support_of_vidpns_only(IN_CONST_HANDLE context,
                                      INOUT_PDXGKARG_ISSUPPORTEDVIDPN args) {
  if (args->hDesiredVidPn == nullptr) return STATUS_INVALID_PARAMETER;
  return original.DxgkDdiIsSupportedVidPn(context, args);
}
void support_wants_vidpn(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiIsSupportedVidPn = support_of_vidpns_only;
}
NTSTATUS NTAPI support_of_everything(IN_CONST_HANDLE context,
                                     INOUT_PDXGKARG_ISSUPPORTEDVIDPN args) {
  const NTSTATUS status = original.DxgkDdiIsSupportedVidPn(context, args);
  args->IsVidPnSupported = TRUE;
  return status;
}
void support_ignores_pins(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiIsSupportedVidPn = support_of_everything;
}
NTSTATUS NTAPI support_whatever_fails(IN_CONST_HANDLE context,
                                      INOUT_PDXGKARG_ISSUPPORTEDVIDPN args) {
  (void)original.DxgkDdiIsSupportedVidPn(context, args);
  return STATUS_SUCCESS;
}
void support_swallows_failure(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiIsSupportedVidPn = support_whatever_fails;
}
NTSTATUS NTAPI enumerate_whatever_fails(IN_CONST_HANDLE context,
                                        IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  (void)original.DxgkDdiEnumVidPnCofuncModality(context, args);
  return STATUS_SUCCESS;
}
void enumerate_swallows_failure(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_whatever_fails;
}
NTSTATUS NTAPI enumerate_to_the_end(IN_CONST_HANDLE context,
                                    IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  const NTSTATUS status = original.DxgkDdiEnumVidPnCofuncModality(context, args);
  return NT_SUCCESS(status) ? STATUS_GRAPHICS_NO_MORE_ELEMENTS_IN_DATASET : status;
}
void enumerate_passes_status(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_to_the_end;
}
NTSTATUS NTAPI enumerate_or_keep(IN_CONST_HANDLE context,
                                 IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  const NTSTATUS status = original.DxgkDdiEnumVidPnCofuncModality(context, args);
  if (!NT_SUCCESS(status)) (void)enumerate_and_keep(context, args);
  return status;
}
void enumerate_error_leaks(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_or_keep;
}
NTSTATUS NTAPI enumerate_the_pivot(IN_CONST_HANDLE context,
                                   IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  DXGKARG_ENUMVIDPNCOFUNCMODALITY all = *args;
  all.EnumPivotType = D3DKMDT_EPT_NOPIVOT;
  return original.DxgkDdiEnumVidPnCofuncModality(context, &all);
}
NTSTATUS NTAPI enumerate_source_pivot(IN_CONST_HANDLE context,
                                      IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  if (args->EnumPivotType == D3DKMDT_EPT_VIDPNSOURCE) return enumerate_the_pivot(context, args);
  return original.DxgkDdiEnumVidPnCofuncModality(context, args);
}
void pivot_replaced(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_source_pivot;
}
NTSTATUS NTAPI enumerate_scaling_pivot(IN_CONST_HANDLE context,
                                       IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  if (args->EnumPivotType == D3DKMDT_EPT_SCALING) return enumerate_the_pivot(context, args);
  return original.DxgkDdiEnumVidPnCofuncModality(context, args);
}
void scaling_pivot_changed(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_scaling_pivot;
}
NTSTATUS NTAPI enumerate_without_scaling(IN_CONST_HANDLE context,
                                         IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  const NTSTATUS status = original.DxgkDdiEnumVidPnCofuncModality(context, args);
  const DXGK_VIDPN_INTERFACE* functions = nullptr;
  D3DKMDT_HVIDPNTOPOLOGY topology = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* paths = nullptr;
  const D3DKMDT_VIDPN_PRESENT_PATH* path = nullptr;
  if (!NT_SUCCESS(status) ||
      !NT_SUCCESS(dxgk.DxgkCbQueryVidPnInterface(args->hConstrainingVidPn,
                                                 DXGK_VIDPN_INTERFACE_VERSION_V1, &functions)) ||
      !NT_SUCCESS(functions->pfnGetTopology(args->hConstrainingVidPn, &topology, &paths)) ||
      !NT_SUCCESS(paths->pfnAcquireFirstPathInfo(topology, &path)) || path == nullptr)
    return status;
  D3DKMDT_VIDPN_PRESENT_PATH own = *path;
  own.ContentTransformation.ScalingSupport = {};
  (void)paths->pfnUpdatePathSupportInfo(topology, &own);
  (void)paths->pfnReleasePathInfo(topology, path);
  return status;
}
void support_bits_forgotten(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_without_scaling;
}

/// The support bits of before stay beside those of the driver.
NTSTATUS NTAPI enumerate_beside(IN_CONST_HANDLE context,
                                IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  const DXGK_VIDPN_INTERFACE* functions = nullptr;
  D3DKMDT_HVIDPNTOPOLOGY topology = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* paths = nullptr;
  const D3DKMDT_VIDPN_PRESENT_PATH* path = nullptr;
  if (!NT_SUCCESS(dxgk.DxgkCbQueryVidPnInterface(args->hConstrainingVidPn,
                                                 DXGK_VIDPN_INTERFACE_VERSION_V1, &functions)) ||
      !NT_SUCCESS(functions->pfnGetTopology(args->hConstrainingVidPn, &topology, &paths)) ||
      !NT_SUCCESS(paths->pfnAcquireFirstPathInfo(topology, &path)) || path == nullptr)
    return original.DxgkDdiEnumVidPnCofuncModality(context, args);
  const UINT before = path->ContentTransformation.ScalingSupport.Centered;
  (void)paths->pfnReleasePathInfo(topology, path);
  const NTSTATUS status = original.DxgkDdiEnumVidPnCofuncModality(context, args);
  if (!NT_SUCCESS(status) || before == 0 ||
      !NT_SUCCESS(paths->pfnAcquireFirstPathInfo(topology, &path)) || path == nullptr)
    return status;
  D3DKMDT_VIDPN_PRESENT_PATH own = *path;
  own.ContentTransformation.ScalingSupport.Centered = 1;
  (void)paths->pfnUpdatePathSupportInfo(topology, &own);
  (void)paths->pfnReleasePathInfo(topology, path);
  return status;
}
void support_bits_kept(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_beside;
}

/// The sizes of a driver that knows two.
modes::Size sizes[2];
modes::ModeTable two_modes() {
  modes::ModeTable result = mode_table();
  sizes[0] = size;
  sizes[1] = {size.width / 2, size.height / 2};
  result.sizes = sizes;
  result.size_count = 2;
  return result;
}
NTSTATUS NTAPI support_two_sizes(IN_CONST_HANDLE, INOUT_PDXGKARG_ISSUPPORTEDVIDPN args) {
  return modes::is_supported(two_modes(), args);
}
NTSTATUS NTAPI enumerate_two_sizes(IN_CONST_HANDLE,
                                   IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  return modes::enumerate(two_modes(), args);
}
void two_sizes(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = remember_size;
  table->DxgkDdiIsSupportedVidPn = support_two_sizes;
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_two_sizes;
}
int enumerations;
NTSTATUS NTAPI enumerate_in_turns(IN_CONST_HANDLE,
                                  IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  modes::ModeTable table = two_modes();
  if (args->EnumPivotType == D3DKMDT_EPT_NOPIVOT && ++enumerations % 2 == 0) table.size_count = 1;
  return modes::enumerate(table, args);
}
void enumerate_drifts(KMDDOD_INITIALIZATION_DATA* table) {
  two_sizes(table);
  enumerations = 0;
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_in_turns;
}
// What is pinned at the target says nothing about the source: the interfaces below hide it.
DXGK_VIDPN_INTERFACE hiding;
DXGK_VIDPNTARGETMODESET_INTERFACE hiding_modes;
const DXGK_VIDPN_INTERFACE* whole_functions;
bool target_is_pinned;
NTSTATUS NTAPI hide_pin(IN_CONST_D3DKMDT_HVIDPNTARGETMODESET,
                        DEREF_OUT_CONST_PPD3DKMDT_VIDPN_TARGET_MODE mode) {
  *mode = nullptr;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI acquire_hiding(IN_CONST_D3DKMDT_HVIDPN vidpn,
                              IN_CONST_D3DDDI_VIDEO_PRESENT_TARGET_ID target,
                              OUT_PD3DKMDT_HVIDPNTARGETMODESET set,
                              DEREF_OUT_CONST_PPDXGK_VIDPNTARGETMODESET_INTERFACE modes) {
  const NTSTATUS status = whole_functions->pfnAcquireTargetModeSet(vidpn, target, set, modes);
  if (!NT_SUCCESS(status)) return status;
  const DXGK_VIDPNTARGETMODESET_INTERFACE* whole = *modes;
  const D3DKMDT_VIDPN_TARGET_MODE* pinned = nullptr;
  (void)whole->pfnAcquirePinnedModeInfo(*set, &pinned);
  target_is_pinned = pinned != nullptr;
  if (pinned != nullptr) (void)whole->pfnReleaseModeInfo(*set, pinned);
  hiding_modes = *whole;
  hiding_modes.pfnAcquirePinnedModeInfo = hide_pin;
  *modes = &hiding_modes;
  return status;
}
NTSTATUS NTAPI keep_target_set(IN_CONST_D3DKMDT_HVIDPN vidpn,
                               IN_CONST_D3DDDI_VIDEO_PRESENT_TARGET_ID target,
                               IN_CONST_D3DKMDT_HVIDPNTARGETMODESET set) {
  if (target_is_pinned) return whole_functions->pfnReleaseTargetModeSet(vidpn, set);
  return whole_functions->pfnAssignTargetModeSet(vidpn, target, set);
}
NTSTATUS NTAPI query_hiding(IN_CONST_D3DKMDT_HVIDPN vidpn,
                            IN_CONST_DXGK_VIDPN_INTERFACE_VERSION version,
                            DEREF_OUT_CONST_PPDXGK_VIDPN_INTERFACE functions) {
  const NTSTATUS status = dxgk.DxgkCbQueryVidPnInterface(vidpn, version, &whole_functions);
  if (!NT_SUCCESS(status)) return status;
  hiding = *whole_functions;
  hiding.pfnAcquireTargetModeSet = acquire_hiding;
  hiding.pfnAssignTargetModeSet = keep_target_set;
  *functions = &hiding;
  return status;
}
NTSTATUS NTAPI enumerate_sources_freely(IN_CONST_HANDLE,
                                        IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  modes::ModeTable table = two_modes();
  DXGKRNL_INTERFACE other = dxgk;
  other.DxgkCbQueryVidPnInterface = query_hiding;
  table.dxgk = &other;
  return modes::enumerate(table, args);
}
void enumerate_one_way(KMDDOD_INITIALIZATION_DATA* table) {
  two_sizes(table);
  table->DxgkDdiEnumVidPnCofuncModality = enumerate_sources_freely;
}

NTSTATUS NTAPI update_any_path(IN_CONST_HANDLE,
                               IN_CONST_PDXGKARG_UPDATEACTIVEVIDPNPRESENTPATH_CONST) {
  return STATUS_SUCCESS;
}
void path_takes_all(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiUpdateActiveVidPnPresentPath = update_any_path;
}
NTSTATUS NTAPI update_no_path(IN_CONST_HANDLE,
                              IN_CONST_PDXGKARG_UPDATEACTIVEVIDPNPRESENTPATH_CONST) {
  return STATUS_GRAPHICS_VIDPN_MODALITY_NOT_SUPPORTED;
}
void path_takes_nothing(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiUpdateActiveVidPnPresentPath = update_no_path;
}
NTSTATUS NTAPI recommend_once(IN_CONST_HANDLE context,
                              IN_CONST_PDXGKARG_RECOMMENDMONITORMODES_CONST args) {
  static bool recommended;
  if (recommended) return STATUS_GRAPHICS_MODE_ALREADY_IN_MODESET;
  recommended = true;
  return original.DxgkDdiRecommendMonitorModes(context, args);
}
void monitor_known_already(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiRecommendMonitorModes = recommend_once;
}
/// A driver that has to know what it shows.
NTSTATUS read_and_commit(HANDLE context, const DXGKARG_COMMITVIDPN* args) {
  modes::Shown shown = {};
  const NTSTATUS status = modes::read_commit(mode_table(), args, &shown);
  return NT_SUCCESS(status) ? original.DxgkDdiCommitVidPn(context, args) : status;
}
bool lost;  // the mode, by a commit that failed
NTSTATUS NTAPI commit_or_lose(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_COMMITVIDPN_CONST args) {
  const NTSTATUS status = read_and_commit(context, args);
  lost = !NT_SUCCESS(status);
  return status;
}
NTSTATUS NTAPI present_unless_lost(IN_CONST_HANDLE context,
                                   IN_CONST_PDXGKARG_PRESENT_DISPLAYONLY present) {
  return lost ? STATUS_SUCCESS : original.DxgkDdiPresentDisplayOnly(context, present);
}
void commit_loses_mode(KMDDOD_INITIALIZATION_DATA* table) {
  lost = false;
  table->DxgkDdiStartDevice = remember_size;
  table->DxgkDdiCommitVidPn = commit_or_lose;
  table->DxgkDdiPresentDisplayOnly = present_unless_lost;
}
NTSTATUS NTAPI commit_whatever_fails(IN_CONST_HANDLE context,
                                     IN_CONST_PDXGKARG_COMMITVIDPN_CONST args) {
  (void)read_and_commit(context, args);
  return STATUS_SUCCESS;
}
void commit_swallows_failure(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = remember_size;
  table->DxgkDdiCommitVidPn = commit_whatever_fails;
}

// --- visibility, stop, the screen of a bug check ---

NTSTATUS NTAPI show_always(IN_CONST_HANDLE context,
                           IN_CONST_PDXGKARG_SETVIDPNSOURCEVISIBILITY args) {
  DXGKARG_SETVIDPNSOURCEVISIBILITY shown = *args;
  shown.Visible = TRUE;
  return original.DxgkDdiSetVidPnSourceVisibility(context, &shown);
}
void hidden_stays(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetVidPnSourceVisibility = show_always;
}
NTSTATUS NTAPI show_and_present(IN_CONST_HANDLE context,
                                IN_CONST_PDXGKARG_PRESENT_DISPLAYONLY present) {
  DXGKARG_SETVIDPNSOURCEVISIBILITY shown = {};
  shown.VidPnSourceId = present->VidPnSourceId;
  shown.Visible = TRUE;
  (void)original.DxgkDdiSetVidPnSourceVisibility(context, &shown);
  return original.DxgkDdiPresentDisplayOnly(context, present);
}
void hidden_presents(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiPresentDisplayOnly = show_and_present;
}
NTSTATUS NTAPI stop_nothing(IN_CONST_PVOID) { return STATUS_SUCCESS; }
void stop_keeps_screen(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiStopDevice = stop_nothing;
}
NTSTATUS NTAPI hide_and_show(IN_CONST_HANDLE context,
                             IN_CONST_PDXGKARG_SETVIDPNSOURCEVISIBILITY args) {
  DXGKARG_SETVIDPNSOURCEVISIBILITY hidden = *args;
  hidden.Visible = FALSE;
  (void)original.DxgkDdiSetVidPnSourceVisibility(context, &hidden);
  return original.DxgkDdiSetVidPnSourceVisibility(context, args);
}
void showing_clears(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetVidPnSourceVisibility = hide_and_show;
}
NTSTATUS NTAPI relations_unaware(IN_CONST_PVOID context, PDXGK_CHILD_DESCRIPTOR relations,
                                 ULONG bytes) {
  const NTSTATUS status = original.DxgkDdiQueryChildRelations(context, relations, bytes);
  relations[0].ChildCapabilities.Type.VideoOutput.MonitorOrientationAwareness =
      D3DKMDT_MOA_UNINITIALIZED;
  return status;
}
void child_awareness_open(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryChildRelations = relations_unaware;
}
NTSTATUS NTAPI release_with_picture(PVOID context, D3DDDI_VIDEO_PRESENT_TARGET_ID target,
                                    PDXGK_DISPLAY_INFORMATION left) {
  const NTSTATUS status = dxgk.DxgkCbAcquirePostDisplayOwnership(dxgk.DeviceHandle, left);
  left->TargetId = target;
  return NT_SUCCESS(status) ? original.DxgkDdiStopDevice(context) : status;
}
void release_keeps_picture(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiStopDeviceAndReleasePostDisplayOwnership = release_with_picture;
}
NTSTATUS NTAPI release_another_target(PVOID context, D3DDDI_VIDEO_PRESENT_TARGET_ID target,
                                      PDXGK_DISPLAY_INFORMATION left) {
  const NTSTATUS status =
      original.DxgkDdiStopDeviceAndReleasePostDisplayOwnership(context, target, left);
  left->TargetId = target + 1;
  return status;
}
void release_names_another(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiStopDeviceAndReleasePostDisplayOwnership = release_another_target;
}
NTSTATUS NTAPI release_16_bits(PVOID context, D3DDDI_VIDEO_PRESENT_TARGET_ID target,
                               PDXGK_DISPLAY_INFORMATION left) {
  const NTSTATUS status =
      original.DxgkDdiStopDeviceAndReleasePostDisplayOwnership(context, target, left);
  left->ColorFormat = D3DDDIFMT_R5G6B5;
  return status;
}
void release_of_16_bits(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiStopDeviceAndReleasePostDisplayOwnership = release_16_bits;
}
NTSTATUS NTAPI capability_of_none(IN_CONST_HANDLE, INOUT_PDXGKARG_QUERYVIDPNHWCAPABILITY) {
  return STATUS_SUCCESS;
}
void capability_not_written(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryVidPnHWCapability = capability_of_none;
}
NTSTATUS NTAPI present_by_habit(IN_CONST_HANDLE context,
                                IN_CONST_PDXGKARG_PRESENT_DISPLAYONLY present) {
  // Nobody has set `skipped`: mostly it is what the call before left.
  UINT skipped[64];
  const volatile UINT* volatile place = skipped;
  return place[40] == 0x5A5A5A5A ? STATUS_SUCCESS
                                 : original.DxgkDdiPresentDisplayOnly(context, present);
}
void present_reads_its_stack(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiPresentDisplayOnly = present_by_habit;
}
NTSTATUS NTAPI enable_without_size(PVOID context, D3DDDI_VIDEO_PRESENT_TARGET_ID target,
                                   PDXGKARG_SYSTEM_DISPLAY_ENABLE_FLAGS flags, UINT*, UINT*,
                                   D3DDDIFORMAT* format) {
  UINT width = 0, height = 0;
  return original.DxgkDdiSystemDisplayEnable(context, target, flags, &width, &height, format);
}
void bug_screen_without_size(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiSystemDisplayEnable = enable_without_size;
}
void NTAPI write_packed(PVOID context, PVOID source, UINT width, UINT height, UINT, UINT x,
                        UINT y) {
  original.DxgkDdiSystemDisplayWrite(context, source, width, height, width * 4, x, y);
}
void bug_screen_packed(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiSystemDisplayWrite = write_packed;
}

// --- power ---

NTSTATUS NTAPI sleep_only(const PVOID context, ULONG uid, DEVICE_POWER_STATE state,
                          POWER_ACTION action) {
  if (action == PowerActionHibernate) return STATUS_NOT_SUPPORTED;
  return original.DxgkDdiSetPowerState(context, uid, state, action);
}
void hibernation_refused(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetPowerState = sleep_only;
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
NTSTATUS NTAPI present_packed(IN_CONST_HANDLE context,
                              IN_CONST_PDXGKARG_PRESENT_DISPLAYONLY present) {
  DXGKARG_PRESENT_DISPLAYONLY packed = *present;
  packed.Pitch = static_cast<LONG>(size.width * 4);
  return original.DxgkDdiPresentDisplayOnly(context, &packed);
}
void present_ignores_pitch(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = remember_size;
  table->DxgkDdiPresentDisplayOnly = present_packed;
}
NTSTATUS NTAPI present_without_moves(IN_CONST_HANDLE context,
                                     IN_CONST_PDXGKARG_PRESENT_DISPLAYONLY present) {
  DXGKARG_PRESENT_DISPLAYONLY fewer = *present;
  fewer.NumMoves = 0;
  return original.DxgkDdiPresentDisplayOnly(context, &fewer);
}
void present_forgets_moves(KMDDOD_INITIALIZATION_DATA* table) {
  table->DxgkDdiPresentDisplayOnly = present_without_moves;
}

struct Mutant {
  const char* name;
  void (*install)(KMDDOD_INITIALIZATION_DATA* table);
};
const Mutant kMutants[] = {
    {"caps_without_version", caps_without_version},
    {"caps_of_newer_kit", caps_of_newer_kit},
    {"monitors_without_advice", monitors_without_advice},
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
    {"support_wants_vidpn", support_wants_vidpn},
    {"support_ignores_pins", support_ignores_pins},
    {"support_swallows_failure", support_swallows_failure},
    {"enumerate_swallows_failure", enumerate_swallows_failure},
    {"enumerate_passes_status", enumerate_passes_status},
    {"enumerate_error_leaks", enumerate_error_leaks},
    {"pivot_replaced", pivot_replaced},
    {"scaling_pivot_changed", scaling_pivot_changed},
    {"support_bits_forgotten", support_bits_forgotten},
    {"two_sizes", two_sizes},
    {"enumerate_drifts", enumerate_drifts},
    {"enumerate_one_way", enumerate_one_way},
    {"path_takes_all", path_takes_all},
    {"path_takes_nothing", path_takes_nothing},
    {"monitor_known_already", monitor_known_already},
    {"commit_loses_mode", commit_loses_mode},
    {"commit_swallows_failure", commit_swallows_failure},
    {"hidden_stays", hidden_stays},
    {"hidden_presents", hidden_presents},
    {"stop_keeps_screen", stop_keeps_screen},
    {"showing_clears", showing_clears},
    {"support_bits_kept", support_bits_kept},
    {"child_awareness_open", child_awareness_open},
    {"release_keeps_picture", release_keeps_picture},
    {"release_names_another", release_names_another},
    {"release_of_16_bits", release_of_16_bits},
    {"capability_not_written", capability_not_written},
    {"present_reads_its_stack", present_reads_its_stack},
    {"bug_screen_without_size", bug_screen_without_size},
    {"bug_screen_packed", bug_screen_packed},
    {"hibernation_refused", hibernation_refused},
    {"present_ignores_pitch", present_ignores_pitch},
    {"present_forgets_moves", present_forgets_moves},
};

}  // namespace

extern "C" NTSTATUS NTAPI display_mutant_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                                    PKMDDOD_INITIALIZATION_DATA table) {
  original = *table;
  table->DxgkDdiStartDevice = remember_start;
  const NTSTATUS status = mutants::install_named(path, kMutants, table);
  if (!NT_SUCCESS(status)) return status;
  return DxgkInitializeDisplayOnlyDriver(driver, path, table);
}
