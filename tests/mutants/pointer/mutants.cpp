// The virtio GPU's miniport with one fault each in how it treats the pointer, the descriptor of
// its monitor, its interrupts, its device, and what user mode brings to the screen; the registry
// chooses, as in ../mutants.h. The rest of the driver is compiled with DxgkInitialize renamed to
// pointer_mutant_initialize.
#undef DxgkInitialize
#include <dispmprt.h>
#include <ntddk.h>

#include "miniports/virtiogpu/driver.h"
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

/// A pointer that is shown stays where it is.
NTSTATUS NTAPI position_once(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SETPOINTERPOSITION args) {
  static BOOLEAN is_shown;
  if (is_shown && args->Flags.Visible != 0) return STATUS_SUCCESS;
  is_shown = args->Flags.Visible != 0;
  return original.DxgkDdiSetPointerPosition(context, args);
}
void pointer_stays_while_shown(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetPointerPosition = position_once;
}

/// What is not clear is opaque.
NTSTATUS NTAPI shape_without_alpha(IN_CONST_HANDLE context,
                                   IN_CONST_PDXGKARG_SETPOINTERSHAPE args) {
  static UCHAR pixels[64 * 64 * 4];
  DXGKARG_SETPOINTERSHAPE changed = *args;
  if (SIZE_T{args->Pitch} * args->Height > sizeof(pixels)) return STATUS_NOT_SUPPORTED;
  RtlCopyMemory(pixels, args->pPixels, SIZE_T{args->Pitch} * args->Height);
  for (SIZE_T at = 3; at < SIZE_T{args->Pitch} * args->Height; at += 4)
    pixels[at] = pixels[at] != 0 ? 0xFF : 0;
  changed.pPixels = pixels;
  return original.DxgkDdiSetPointerShape(context, &changed);
}
void pointer_without_alpha(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetPointerShape = shape_without_alpha;
}

NTSTATUS NTAPI descriptor_by_block(IN_CONST_PVOID context, IN_ULONG uid,
                                   INOUT_PDXGK_DEVICE_DESCRIPTOR descriptor) {
  DXGK_DEVICE_DESCRIPTOR changed = *descriptor;
  changed.DescriptorLength = 128;
  return original.DxgkDdiQueryDeviceDescriptor(context, uid, &changed);
}
void descriptor_has_blocks(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryDeviceDescriptor = descriptor_by_block;
}

NTSTATUS NTAPI descriptor_of_block(IN_CONST_PVOID context, IN_ULONG uid,
                                   INOUT_PDXGK_DEVICE_DESCRIPTOR descriptor) {
  DXGK_DEVICE_DESCRIPTOR changed = *descriptor;
  changed.DescriptorOffset = changed.DescriptorOffset / 128 * 128;
  return original.DxgkDdiQueryDeviceDescriptor(context, uid, &changed);
}
void descriptor_starts_at_block(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryDeviceDescriptor = descriptor_of_block;
}

NTSTATUS NTAPI descriptor_for_ever(IN_CONST_PVOID context, IN_ULONG uid,
                                   INOUT_PDXGK_DEVICE_DESCRIPTOR descriptor) {
  const NTSTATUS status = original.DxgkDdiQueryDeviceDescriptor(context, uid, descriptor);
  return status == STATUS_MONITOR_NO_MORE_DESCRIPTOR_DATA ? STATUS_SUCCESS : status;
}
void descriptor_has_no_end(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryDeviceDescriptor = descriptor_for_ever;
}

NTSTATUS NTAPI descriptor_never(IN_CONST_PVOID, IN_ULONG, INOUT_PDXGK_DEVICE_DESCRIPTOR) {
  return STATUS_GRAPHICS_CHILD_DESCRIPTOR_NOT_SUPPORTED;
}
void descriptor_is_missing(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryDeviceDescriptor = descriptor_never;
}

/// The serial number is another, and the sum is right.
NTSTATUS NTAPI descriptor_changed(IN_CONST_PVOID context, IN_ULONG uid,
                                  INOUT_PDXGK_DEVICE_DESCRIPTOR descriptor) {
  const NTSTATUS status = original.DxgkDdiQueryDeviceDescriptor(context, uid, descriptor);
  if (!NT_SUCCESS(status) || descriptor->DescriptorOffset != 0 ||
      descriptor->DescriptorLength < 128)
    return status;
  UCHAR* const bytes = static_cast<UCHAR*>(descriptor->DescriptorBuffer);
  ++bytes[13];
  --bytes[127];
  return status;
}
void descriptor_of_another(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryDeviceDescriptor = descriptor_changed;
}

/// Calls `change` for each request of that type in the DMA buffer that Render has made.
template <typename Request, typename Change>
void change_requests(const UCHAR* begin, const void* end, ULONG type, Change change) {
  for (auto* at = const_cast<UCHAR*>(begin); at < end;) {
    auto* const command = reinterpret_cast<virtiogpu::DmaCommand*>(at);
    auto* const request = reinterpret_cast<Request*>(command + 1);
    if (request->header.type == type) change(request);
    at += command->bytes;
  }
}

/// The memory's first pixel is that of the row, not of the rectangle.
NTSTATUS NTAPI render_rows(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  const auto* begin = static_cast<const UCHAR*>(args->pDmaBuffer);
  const NTSTATUS status = original.DxgkDdiRender(context, args);
  change_requests<VgpuTransfer>(
      begin, args->pDmaBuffer, VGPU_TRANSFER_TO_HOST_2D,
      [](VgpuTransfer* request) { request->offset -= ULONG64{request->rect.x} * 4; });
  return status;
}
void update_forgets_x(DRIVER_INITIALIZATION_DATA* table) { table->DxgkDdiRender = render_rows; }

/// What is flushed is left of what was to be.
NTSTATUS NTAPI render_left(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  const auto* begin = static_cast<const UCHAR*>(args->pDmaBuffer);
  const NTSTATUS status = original.DxgkDdiRender(context, args);
  change_requests<VgpuFlush>(begin, args->pDmaBuffer, VGPU_RESOURCE_FLUSH, [](VgpuFlush* request) {
    request->rect.x = request->rect.x == 0 ? 0 : request->rect.x - 1;
  });
  return status;
}
void update_flushes_left(DRIVER_INITIALIZATION_DATA* table) { table->DxgkDdiRender = render_left; }

/// Gives a resource back that was never there.
NTSTATUS NTAPI visible_and_unref(IN_CONST_HANDLE context,
                                 IN_CONST_PDXGKARG_SETVIDPNSOURCEVISIBILITY args) {
  const NTSTATUS status = original.DxgkDdiSetVidPnSourceVisibility(context, args);
  auto* adapter = static_cast<virtiogpu::Adapter*>(const_cast<void*>(context));
  auto request = virtiogpu::request_of_type<VgpuResource>(VGPU_RESOURCE_UNREF);
  request.resource = 0x7777;
  (void)virtiogpu::at_device_level(
      adapter, [&] { (void)virtiogpu::send_own(adapter, &request, sizeof(request)); });
  return status;
}
void resource_is_never_made(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetVidPnSourceVisibility = visible_and_unref;
}

NTSTATUS NTAPI control_any(IN_CONST_HANDLE context, IN_CONST_DXGK_INTERRUPT_TYPE,
                           IN_BOOLEAN enable) {
  return original.DxgkDdiControlInterrupt(context, DXGK_INTERRUPT_CRTC_VSYNC, enable);
}
void any_interrupt_is_vsync(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiControlInterrupt = control_any;
}

NTSTATUS NTAPI line_only(IN_CONST_HANDLE context, INOUT_PDXGKARG_GETSCANLINE args) {
  const NTSTATUS status = original.DxgkDdiGetScanLine(context, args);
  args->InVerticalBlank = FALSE;
  return status;
}
void beam_without_blank(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiGetScanLine = line_only;
}

/// Waits for what never comes.
NTSTATUS NTAPI visible_and_stall(IN_CONST_HANDLE context,
                                 IN_CONST_PDXGKARG_SETVIDPNSOURCEVISIBILITY args) {
  const NTSTATUS status = original.DxgkDdiSetVidPnSourceVisibility(context, args);
  for (UINT i = 0; i < 6000; ++i) KeStallExecutionProcessor(10);
  return status;
}
void screen_in_vain(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetVidPnSourceVisibility = visible_and_stall;
}

/// Looks again and again, and lets no time pass.
NTSTATUS NTAPI visible_and_look(IN_CONST_HANDLE context,
                                IN_CONST_PDXGKARG_SETVIDPNSOURCEVISIBILITY args) {
  const NTSTATUS status = original.DxgkDdiSetVidPnSourceVisibility(context, args);
  auto* adapter = static_cast<virtiogpu::Adapter*>(const_cast<void*>(context));
  for (UINT i = 0; i < 2000; ++i) (void)virtiogpu::at_device_level(adapter, [] {});
  return status;
}
void polls_without_pause(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetVidPnSourceVisibility = visible_and_look;
}

/// Takes any kind of surface for a shared primary.
NTSTATUS NTAPI always_primary(IN_CONST_HANDLE context,
                              INOUT_PDXGKARG_GETSTANDARDALLOCATIONDRIVERDATA args) {
  DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA changed = *args;
  changed.StandardAllocationType = D3DKMDT_STANDARDALLOCATION_SHAREDPRIMARYSURFACE;
  const NTSTATUS status = original.DxgkDdiGetStandardAllocationDriverData(context, &changed);
  args->AllocationPrivateDriverDataSize = changed.AllocationPrivateDriverDataSize;
  args->ResourcePrivateDriverDataSize = changed.ResourcePrivateDriverDataSize;
  return status;
}
void any_surface_is_primary(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiGetStandardAllocationDriverData = always_primary;
}

/// Says after a sleep that nothing has ever been done.
NTSTATUS NTAPI wake_without_fence(IN_CONST_PVOID context, IN_ULONG uid, IN_DEVICE_POWER_STATE state,
                                  IN_POWER_ACTION action) {
  const NTSTATUS status = original.DxgkDdiSetPowerState(context, uid, state, action);
  auto* adapter = static_cast<virtiogpu::Adapter*>(const_cast<void*>(context));
  if (state == PowerDeviceD0) adapter->engine.completed_fence = 0;
  return status;
}
void fence_is_forgotten(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetPowerState = wake_without_fence;
}

/// Enters twice.
NTSTATUS NTAPI visible_and_enter(IN_CONST_HANDLE context,
                                 IN_CONST_PDXGKARG_SETVIDPNSOURCEVISIBILITY args) {
  const NTSTATUS status = original.DxgkDdiSetVidPnSourceVisibility(context, args);
  auto* adapter = static_cast<virtiogpu::Adapter*>(const_cast<void*>(context));
  (void)virtiogpu::at_device_level(adapter,
                                   [&] { (void)virtiogpu::at_device_level(adapter, [] {}); });
  return status;
}
void enters_twice(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetVidPnSourceVisibility = visible_and_enter;
}

DXGKCB_MAP_MEMORY kernels_map;
NTSTATUS map_cached(HANDLE handle, PHYSICAL_ADDRESS address, ULONG bytes, BOOLEAN ports,
                    BOOLEAN user, MEMORY_CACHING_TYPE, PVOID* mapped) {
  return kernels_map(handle, address, bytes, ports, user, MmCached, mapped);
}
NTSTATUS NTAPI start_with_caches(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                                 IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources,
                                 OUT_PULONG children) {
  DXGKRNL_INTERFACE changed = *dxgk;
  kernels_map = dxgk->DxgkCbMapMemory;
  changed.DxgkCbMapMemory = map_cached;
  return original.DxgkDdiStartDevice(context, info, &changed, sources, children);
}
void registers_are_cached(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = start_with_caches;
}

void NTAPI reset_nothing(IN_CONST_PVOID) {}
void text_mode_is_forgotten(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiResetDevice = reset_nothing;
}

/// The timer is gone, and the driver takes it for running.
NTSTATUS NTAPI wake_without_clock(IN_CONST_PVOID context, IN_ULONG uid, IN_DEVICE_POWER_STATE state,
                                  IN_POWER_ACTION action) {
  const NTSTATUS status = original.DxgkDdiSetPowerState(context, uid, state, action);
  auto* adapter = static_cast<virtiogpu::Adapter*>(const_cast<void*>(context));
  if (uid == virtiogpu::kAdapterUid && state == PowerDeviceD0) KeCancelTimer(&adapter->clock);
  return status;
}
void clock_is_lost_asleep(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetPowerState = wake_without_clock;
}

/// Has room for fewer sizes than a monitor can name.
NTSTATUS NTAPI start_with_eight_sizes(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                                      IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources,
                                      OUT_PULONG children) {
  const NTSTATUS status = original.DxgkDdiStartDevice(context, info, dxgk, sources, children);
  auto* adapter = static_cast<virtiogpu::Adapter*>(const_cast<void*>(context));
  if (adapter->size_count > 8) adapter->size_count = 8;
  return status;
}
void sizes_are_cut(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = start_with_eight_sizes;
}

/// Leaves out what it cannot read, and all behind it.
NTSTATUS NTAPI render_readable(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  const NTSTATUS status = original.DxgkDdiRender(context, args);
  if (status != STATUS_INVALID_USER_BUFFER) return status;
  DXGKARG_RENDER changed = *args;
  changed.CommandLength = 0;
  const NTSTATUS empty = original.DxgkDdiRender(context, &changed);
  if (!NT_SUCCESS(empty)) return status;
  args->pDmaBuffer = changed.pDmaBuffer;
  args->pDmaBufferPrivateData = changed.pDmaBufferPrivateData;
  args->pPatchLocationListOut = changed.pPatchLocationListOut;
  args->MultipassOffset = args->CommandLength;
  return STATUS_SUCCESS;
}
void unreadable_is_left_out(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiRender = render_readable;
}

BOOLEAN NTAPI claim_unready(IN_CONST_PVOID context, IN_ULONG message) {
  if (!static_cast<const virtiogpu::Adapter*>(context)->ready) return TRUE;
  return original.DxgkDdiInterruptRoutine(context, message);
}
void interrupts_are_claimed_early(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiInterruptRoutine = claim_unready;
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
    {"pointer_stays_while_shown", pointer_stays_while_shown},
    {"pointer_without_alpha", pointer_without_alpha},
    {"descriptor_has_blocks", descriptor_has_blocks},
    {"descriptor_starts_at_block", descriptor_starts_at_block},
    {"descriptor_has_no_end", descriptor_has_no_end},
    {"descriptor_is_missing", descriptor_is_missing},
    {"descriptor_of_another", descriptor_of_another},
    {"any_interrupt_is_vsync", any_interrupt_is_vsync},
    {"beam_without_blank", beam_without_blank},
    {"update_forgets_x", update_forgets_x},
    {"update_flushes_left", update_flushes_left},
    {"resource_is_never_made", resource_is_never_made},
    {"screen_in_vain", screen_in_vain},
    {"polls_without_pause", polls_without_pause},
    {"any_surface_is_primary", any_surface_is_primary},
    {"fence_is_forgotten", fence_is_forgotten},
    {"enters_twice", enters_twice},
    {"registers_are_cached", registers_are_cached},
    {"text_mode_is_forgotten", text_mode_is_forgotten},
    {"clock_is_lost_asleep", clock_is_lost_asleep},
    {"sizes_are_cut", sizes_are_cut},
    {"unreadable_is_left_out", unreadable_is_left_out},
    {"interrupts_are_claimed_early", interrupts_are_claimed_early},
};

}  // namespace

extern "C" NTSTATUS NTAPI pointer_mutant_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                                    PDRIVER_INITIALIZATION_DATA table) {
  original = *table;
  const NTSTATUS status = mutants::install_named(path, kMutants, table);
  if (!NT_SUCCESS(status)) return status;
  return DxgkInitialize(driver, path, table);
}
