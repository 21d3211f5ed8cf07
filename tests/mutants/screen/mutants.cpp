// The softgpu miniport with a screen, with one fault each in how it treats vertical syncs; the
// registry chooses, as in ../mutants.h. The rest of the driver is compiled with DxgkInitialize
// renamed to screen_mutant_initialize.
#undef DxgkInitialize
#include <dispmprt.h>
#include <ntddk.h>

#include "tests/mutants/name.h"

namespace {

DRIVER_INITIALIZATION_DATA original;
DXGKCB_NOTIFY_INTERRUPT kernels_notify;
/// Changes, adds to or swallows (false) what is reported.
bool (*change_report)(const HANDLE kernel, DXGKARGCB_NOTIFY_INTERRUPT_DATA* data);

VOID NTAPI notify(IN_CONST_HANDLE kernel, IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA data) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA changed = *data;
  if (change_report(kernel, &changed)) kernels_notify(kernel, &changed);
}

NTSTATUS NTAPI start_changed(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                             IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources, OUT_PULONG children) {
  DXGKRNL_INTERFACE changed = *dxgk;
  kernels_notify = changed.DxgkCbNotifyInterrupt;
  changed.DxgkCbNotifyInterrupt = notify;
  return original.DxgkDdiStartDevice(context, info, &changed, sources, children);
}

/// `change` meets the first vertical sync, and only that one.
bool changed_one;
void (*change_vsync)(DXGKARGCB_NOTIFY_INTERRUPT_DATA* data);
void change_first_vsync(DRIVER_INITIALIZATION_DATA* table,
                        void (*change)(DXGKARGCB_NOTIFY_INTERRUPT_DATA*)) {
  changed_one = false;
  change_vsync = change;
  change_report = [](const HANDLE, DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    if (data->InterruptType != DXGK_INTERRUPT_CRTC_VSYNC || changed_one) return true;
    changed_one = true;
    change_vsync(data);
    return true;
  };
  table->DxgkDdiStartDevice = start_changed;
}

void vsync_without_address(DRIVER_INITIALIZATION_DATA* table) {
  change_first_vsync(table, [](DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    data->CrtcVsync.PhysicalAddress.QuadPart = 0;
  });
}
void vsync_of_no_output(DRIVER_INITIALIZATION_DATA* table) {
  change_first_vsync(
      table, [](DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) { data->CrtcVsync.VidPnTargetId = 77; });
}
void vsync_of_old_address(DRIVER_INITIALIZATION_DATA* table) {
  change_first_vsync(table, [](DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    data->CrtcVsync.PhysicalAddress.QuadPart += 0x1000;
  });
}
DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO plane;
void vsync_of_no_plane(DRIVER_INITIALIZATION_DATA* table) {
  change_first_vsync(table, [](DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    plane = {};
    plane.LayerIndex = 3;
    plane.PhysicalAddress = data->CrtcVsync.PhysicalAddress;
    RtlZeroMemory(data, sizeof(*data));
    data->InterruptType = DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY;
    data->CrtcVsyncWithMultiPlaneOverlay.VidPnTargetId = 1;
    data->CrtcVsyncWithMultiPlaneOverlay.MultiPlaneOverlayVsyncInfoCount = 1;
    data->CrtcVsyncWithMultiPlaneOverlay.pMultiPlaneOverlayVsyncInfo = &plane;
  });
}

/// In one run of the ISR the vertical sync goes before the fence.
DXGKARGCB_NOTIFY_INTERRUPT_DATA last_vsync;
void vsync_before_fence(DRIVER_INITIALIZATION_DATA* table) {
  changed_one = false;
  last_vsync = {};
  change_report = [](const HANDLE kernel, DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    if (data->InterruptType == DXGK_INTERRUPT_CRTC_VSYNC) last_vsync = *data;
    const bool known = last_vsync.InterruptType == DXGK_INTERRUPT_CRTC_VSYNC;
    if (data->InterruptType != DXGK_INTERRUPT_DMA_COMPLETED || !known || changed_one) return true;
    changed_one = true;
    kernels_notify(kernel, &last_vsync);
    return true;
  };
  table->DxgkDdiStartDevice = start_changed;
}

// --- switching it on ---

NTSTATUS NTAPI control_nothing(IN_CONST_HANDLE, IN_CONST_DXGK_INTERRUPT_TYPE, IN_BOOLEAN) {
  return STATUS_SUCCESS;
}
void vsync_stays_off(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiControlInterrupt = control_nothing;
}
NTSTATUS NTAPI control_and_refuse(IN_CONST_HANDLE context, IN_CONST_DXGK_INTERRUPT_TYPE type,
                                  IN_BOOLEAN enable) {
  (void)original.DxgkDdiControlInterrupt(context, type, enable);
  return STATUS_NOT_IMPLEMENTED;
}
void vsync_control_not_implemented(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiControlInterrupt = control_and_refuse;
}

void vsync_lost_now_and_then(DRIVER_INITIALIZATION_DATA* table) {
  change_report = [](const HANDLE, DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    static unsigned reports;
    return data->InterruptType != DXGK_INTERRUPT_CRTC_VSYNC || ++reports % 30 != 29;
  };
  table->DxgkDdiStartDevice = start_changed;
}
void vsync_each_fourth(DRIVER_INITIALIZATION_DATA* table) {
  change_report = [](const HANDLE, DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    static unsigned reports;
    return data->InterruptType != DXGK_INTERRUPT_CRTC_VSYNC || ++reports % 4 == 0;
  };
  table->DxgkDdiStartDevice = start_changed;
}
NTSTATUS NTAPI scan_line_with_flag(IN_CONST_HANDLE context, INOUT_PDXGKARG_GETSCANLINE args) {
  const NTSTATUS status = original.DxgkDdiGetScanLine(context, args);
  if (args->InVerticalBlank) args->ScanLine |= 0x80000000;
  return status;
}
void blank_flag_in_line(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiGetScanLine = scan_line_with_flag;
}
NTSTATUS NTAPI scan_line_first(IN_CONST_HANDLE, INOUT_PDXGKARG_GETSCANLINE args) {
  args->InVerticalBlank = FALSE;
  args->ScanLine = 0;
  return STATUS_SUCCESS;
}
/// Most of the picture is drawn in no time.
NTSTATUS NTAPI scan_line_slow(IN_CONST_HANDLE context, INOUT_PDXGKARG_GETSCANLINE args) {
  const NTSTATUS status = original.DxgkDdiGetScanLine(context, args);
  if (!args->InVerticalBlank) args->ScanLine /= 4;
  return status;
}
/// Each completion is taken for a vertical sync, too.
void vsync_with_each_fence(DRIVER_INITIALIZATION_DATA* table) {
  last_vsync = {};
  change_report = [](const HANDLE kernel, DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    if (data->InterruptType == DXGK_INTERRUPT_CRTC_VSYNC) last_vsync = *data;
    if (data->InterruptType == DXGK_INTERRUPT_DMA_COMPLETED &&
        last_vsync.InterruptType == DXGK_INTERRUPT_CRTC_VSYNC)
      kernels_notify(kernel, &last_vsync);
    return true;
  };
  table->DxgkDdiStartDevice = start_changed;
}
void beam_in_few_lines(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiGetScanLine = scan_line_slow;
}
void beam_stands(DRIVER_INITIALIZATION_DATA* table) { table->DxgkDdiGetScanLine = scan_line_first; }

// --- caps and primaries ---

NTSTATUS NTAPI query_too_deep(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = original.DxgkDdiQueryAdapterInfo(context, args);
  if (NT_SUCCESS(status) && args->Type == DXGKQAITYPE_DRIVERCAPS)
    static_cast<DXGK_DRIVERCAPS*>(args->pOutputData)->MaxQueuedFlipOnVSync = 100;
  return status;
}
void flips_too_deep(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryAdapterInfo = query_too_deep;
}
NTSTATUS NTAPI query_no_planes(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = original.DxgkDdiQueryAdapterInfo(context, args);
  if (NT_SUCCESS(status) && args->Type == DXGKQAITYPE_DRIVERCAPS)
    static_cast<DXGK_DRIVERCAPS*>(args->pOutputData)->MaxOverlayPlanes = 0;
  return status;
}
void planes_without_number(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryAdapterInfo = query_no_planes;
}
NTSTATUS NTAPI describe_other(IN_CONST_HANDLE context, INOUT_PDXGKARG_DESCRIBEALLOCATION args) {
  const NTSTATUS status = original.DxgkDdiDescribeAllocation(context, args);
  args->Height += 1;
  return status;
}
void primary_of_other_size(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiDescribeAllocation = describe_other;
}

/// The screen shows other memory than the primary, and the driver reports the right address.
constexpr LONGLONG kElsewhere = 0x8000;
NTSTATUS NTAPI set_address_elsewhere(IN_CONST_HANDLE context,
                                     IN_CONST_PDXGKARG_SETVIDPNSOURCEADDRESS args) {
  DXGKARG_SETVIDPNSOURCEADDRESS changed = *args;
  changed.PrimaryAddress.QuadPart += kElsewhere;
  return original.DxgkDdiSetVidPnSourceAddress(context, &changed);
}
void primary_elsewhere(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetVidPnSourceAddress = set_address_elsewhere;
  change_report = [](const HANDLE, DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    if (data->InterruptType == DXGK_INTERRUPT_CRTC_VSYNC)
      data->CrtcVsync.PhysicalAddress.QuadPart -= kElsewhere;
    return true;
  };
  table->DxgkDdiStartDevice = start_changed;
}

/// Immediate flips are forgotten, and the driver reports what it was asked to show.
PHYSICAL_ADDRESS asked_for;
NTSTATUS NTAPI set_address_later(IN_CONST_HANDLE context,
                                 IN_CONST_PDXGKARG_SETVIDPNSOURCEADDRESS args) {
  asked_for = args->PrimaryAddress;
  return args->Flags.FlipImmediate != 0 ? STATUS_SUCCESS
                                        : original.DxgkDdiSetVidPnSourceAddress(context, args);
}
void immediate_flip_forgotten(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetVidPnSourceAddress = set_address_later;
  change_report = [](const HANDLE, DXGKARGCB_NOTIFY_INTERRUPT_DATA* data) {
    if (data->InterruptType == DXGK_INTERRUPT_CRTC_VSYNC)
      data->CrtcVsync.PhysicalAddress = asked_for;
    return true;
  };
  table->DxgkDdiStartDevice = start_changed;
}

NTSTATUS NTAPI set_address_at_vsync(IN_CONST_HANDLE context,
                                    IN_CONST_PDXGKARG_SETVIDPNSOURCEADDRESS args) {
  DXGKARG_SETVIDPNSOURCEADDRESS changed = *args;
  changed.Flags.FlipImmediate = 0;
  changed.Flags.FlipOnNextVSync = 1;
  return original.DxgkDdiSetVidPnSourceAddress(context, &changed);
}
void immediate_flip_waits(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetVidPnSourceAddress = set_address_at_vsync;
}

// --- overlay planes ---

constexpr UINT kPlanes = 2;
void (*change_plane)(DXGK_MULTIPLANE_OVERLAY_PLANE* plane);
NTSTATUS NTAPI set_planes_changed(IN_CONST_HANDLE context,
                                  const DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY* args) {
  DXGK_MULTIPLANE_OVERLAY_PLANE planes[kPlanes];
  DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY changed = *args;
  changed.pPlanes = planes;
  for (UINT i = 0; i < args->PlaneCount && i < kPlanes; ++i) {
    planes[i] = args->pPlanes[i];
    change_plane(&planes[i]);
  }
  return original.DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay(context, &changed);
}
void change_planes(DRIVER_INITIALIZATION_DATA* table,
                   void (*change)(DXGK_MULTIPLANE_OVERLAY_PLANE*)) {
  change_plane = change;
  table->DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay = set_planes_changed;
}
void plane_is_not_clipped(DRIVER_INITIALIZATION_DATA* table) {
  change_planes(table, [](DXGK_MULTIPLANE_OVERLAY_PLANE* plane) {
    auto& how = plane->PlaneAttributes;
    how.ClipRect = {0, 0, how.DstRect.right - how.DstRect.left,
                    how.DstRect.bottom - how.DstRect.top};
  });
}
void plane_begins_at_corner(DRIVER_INITIALIZATION_DATA* table) {
  change_planes(table, [](DXGK_MULTIPLANE_OVERLAY_PLANE* plane) {
    RECT& source = plane->PlaneAttributes.SrcRect;
    source = {0, 0, source.right - source.left, source.bottom - source.top};
  });
}
void plane_covers_all(DRIVER_INITIALIZATION_DATA* table) {
  change_planes(table, [](DXGK_MULTIPLANE_OVERLAY_PLANE* plane) {
    plane->PlaneAttributes.Blend.AlphaBlend = 0;
  });
}
BOOL all_planes_supported;
NTSTATUS NTAPI check_nothing(IN_CONST_HANDLE, DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT* args) {
  args->Supported = all_planes_supported;
  args->ReturnInfo.Value = 0;
  return STATUS_SUCCESS;
}
/// It compares nothing with the surface.
NTSTATUS NTAPI check_inside_only(IN_CONST_HANDLE context,
                                 DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT* args) {
  const NTSTATUS status = original.DxgkDdiCheckMultiPlaneOverlaySupport(context, args);
  for (UINT i = 0; i < args->PlaneCount; ++i) {
    const RECT& source = args->pPlanes[i].PlaneAttributes.SrcRect;
    if (source.left > 100 && source.right < 1000) args->Supported = TRUE;
  }
  return status;
}
void plane_beyond_surface(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCheckMultiPlaneOverlaySupport = check_inside_only;
}
void planes_always_supported(DRIVER_INITIALIZATION_DATA* table) {
  all_planes_supported = TRUE;
  table->DxgkDdiCheckMultiPlaneOverlaySupport = check_nothing;
}
void planes_never_supported(DRIVER_INITIALIZATION_DATA* table) {
  all_planes_supported = FALSE;
  table->DxgkDdiCheckMultiPlaneOverlaySupport = check_nothing;
}

// --- sleeps ---

bool slept;
NTSTATUS NTAPI note_wake(IN_CONST_PVOID context, IN_ULONG uid, IN_DEVICE_POWER_STATE state,
                         IN_POWER_ACTION action) {
  slept = slept || state == PowerDeviceD0;
  return original.DxgkDdiSetPowerState(context, uid, state, action);
}
NTSTATUS NTAPI set_address_before(IN_CONST_HANDLE context,
                                  IN_CONST_PDXGKARG_SETVIDPNSOURCEADDRESS args) {
  return slept ? STATUS_SUCCESS : original.DxgkDdiSetVidPnSourceAddress(context, args);
}
void screen_lost_asleep(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetPowerState = note_wake;
  table->DxgkDdiSetVidPnSourceAddress = set_address_before;
}
NTSTATUS NTAPI refuse_wake(IN_CONST_PVOID context, IN_ULONG uid, IN_DEVICE_POWER_STATE state,
                           IN_POWER_ACTION action) {
  const NTSTATUS status = original.DxgkDdiSetPowerState(context, uid, state, action);
  return state == PowerDeviceD0 ? STATUS_NOT_SUPPORTED : status;
}
void wake_refused(DRIVER_INITIALIZATION_DATA* table) { table->DxgkDdiSetPowerState = refuse_wake; }

struct Mutant {
  const char* name;
  void (*install)(DRIVER_INITIALIZATION_DATA* table);
};
const Mutant kMutants[] = {
    {"vsync_without_address", vsync_without_address},
    {"vsync_of_no_output", vsync_of_no_output},
    {"vsync_of_old_address", vsync_of_old_address},
    {"vsync_of_no_plane", vsync_of_no_plane},
    {"vsync_before_fence", vsync_before_fence},
    {"vsync_stays_off", vsync_stays_off},
    {"vsync_control_not_implemented", vsync_control_not_implemented},
    {"vsync_each_fourth", vsync_each_fourth},
    {"vsync_lost_now_and_then", vsync_lost_now_and_then},
    {"blank_flag_in_line", blank_flag_in_line},
    {"beam_stands", beam_stands},
    {"beam_in_few_lines", beam_in_few_lines},
    {"vsync_with_each_fence", vsync_with_each_fence},
    {"planes_without_number", planes_without_number},
    {"immediate_flip_waits", immediate_flip_waits},
    {"plane_beyond_surface", plane_beyond_surface},
    {"flips_too_deep", flips_too_deep},
    {"primary_of_other_size", primary_of_other_size},
    {"primary_elsewhere", primary_elsewhere},
    {"immediate_flip_forgotten", immediate_flip_forgotten},
    {"plane_is_not_clipped", plane_is_not_clipped},
    {"plane_begins_at_corner", plane_begins_at_corner},
    {"plane_covers_all", plane_covers_all},
    {"planes_always_supported", planes_always_supported},
    {"planes_never_supported", planes_never_supported},
    {"screen_lost_asleep", screen_lost_asleep},
    {"wake_refused", wake_refused},
};

}  // namespace

extern "C" NTSTATUS NTAPI screen_mutant_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                                   PDRIVER_INITIALIZATION_DATA table) {
  original = *table;
  const NTSTATUS status = mutants::install_named(path, kMutants, table);
  if (!NT_SUCCESS(status)) return status;
  return DxgkInitialize(driver, path, table);
}
