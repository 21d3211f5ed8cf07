// The screen: modes from the EDID, primaries, flips, vertical syncs, the pointer.
//
// The device has no vertical sync and no way to follow memory: a picture comes to the screen by
// TRANSFER_TO_HOST_2D, SET_SCANOUT and RESOURCE_FLUSH. So a timer is the clock of the screen, and
// what the kernel wants is kept as wishes, which go to the device when there is room on its queue.
#include "miniports/virtiogpu/driver.h"
//
#include "miniports/modes/output.h"

namespace virtiogpu {
namespace {

constexpr D3DDDIFORMAT kFormat = D3DDDIFMT_A8R8G8B8;  // blue first in memory
constexpr UINT kRefreshHz = 60;
constexpr ULONG64 kPeriod = 10'000'000 / kRefreshHz;  // units of 100 ns
/// Of a period, in twentieths: how long lines are drawn; then comes the blank.
constexpr ULONG64 kActive = 19, kWhole = 20;
constexpr UINT kSizeMost = VGPU_UMD_SIDE_MAX;
constexpr ULONG kCursorBytes = VGPU_CURSOR_SIZE * VGPU_CURSOR_SIZE * kPixelBytes;

Adapter* adapter_of(const void* context) {
  return static_cast<Adapter*>(const_cast<void*>(context));
}

/// `work` at device level, whether the kernel has called there already or not.
template <typename Work>
NTSTATUS synchronized(Adapter* adapter, Work work) {
  if (KeGetCurrentIrql() > DISPATCH_LEVEL) {
    work();
    return STATUS_SUCCESS;
  }
  return at_device_level(adapter, work);
}

// --- modes

void add_size(Adapter* adapter, UINT width, UINT height) {
  if (width == 0 || width > kSizeMost || height == 0 || height > kSizeMost) return;
  for (UINT i = 0; i < adapter->size_count; ++i) {
    if (adapter->sizes[i].width == width && adapter->sizes[i].height == height) return;
  }
  if (adapter->size_count < kSizesMost) adapter->sizes[adapter->size_count++] = {width, height};
}

/// A detailed timing descriptor (EDID 1.4, 3.10.2); its clock is 0 in one of another kind.
void add_timing(Adapter* adapter, const UCHAR* timing) {
  if (timing[0] == 0 && timing[1] == 0) return;
  add_size(adapter, timing[2] | (timing[4] & 0xF0U) << 4, timing[5] | (timing[7] & 0xF0U) << 4);
}

/// The timings of the base block and of one extension block (CTA-861).
void read_edid(Adapter* adapter) {
  constexpr UINT kBlock = 128, kTiming = 18;
  static const UCHAR kHead[8] = {0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0};
  const UCHAR* edid = adapter->edid;
  bool is_edid = adapter->edid_bytes >= kBlock && adapter->edid_bytes % kBlock == 0;
  for (UINT i = 0; is_edid && i < sizeof(kHead); ++i) is_edid = edid[i] == kHead[i];
  for (UINT block = 0; is_edid && block < adapter->edid_bytes; block += kBlock) {
    UCHAR sum = 0;
    for (UINT i = 0; i < kBlock; ++i) sum = static_cast<UCHAR>(sum + edid[block + i]);
    is_edid = sum == 0;
  }
  if (!is_edid) {
    adapter->edid_bytes = 0;
    return;
  }
  for (UINT i = 0; i < 4; ++i) add_timing(adapter, edid + 54 + i * kTiming);
  if (adapter->edid_bytes < 2 * kBlock || edid[kBlock] != 2) return;
  const UCHAR* more = edid + kBlock;
  if (more[2] < 4) return;  // it has none
  for (UINT at = more[2]; at + kTiming < kBlock; at += kTiming) add_timing(adapter, more + at);
}

modes::ModeTable table(const Adapter& adapter) {
  modes::ModeTable result = {};
  result.dxgk = &adapter.dxgk;
  result.sizes = adapter.sizes;
  result.size_count = adapter.size_count;
  result.refresh_hz = kRefreshHz;
  result.rotation_offsets = true;
  return result;
}

NTSTATUS NTAPI DdiQueryDeviceDescriptor(IN_CONST_PVOID context, IN_ULONG uid,
                                        INOUT_PDXGK_DEVICE_DESCRIPTOR descriptor) {
  const Adapter& adapter = *static_cast<const Adapter*>(context);
  if (uid != modes::kOutput) return STATUS_INVALID_PARAMETER;
  if (adapter.edid_bytes == 0) return STATUS_GRAPHICS_CHILD_DESCRIPTOR_NOT_SUPPORTED;
  const ULONG offset = descriptor->DescriptorOffset;
  if (offset >= adapter.edid_bytes) return STATUS_MONITOR_NO_MORE_DESCRIPTOR_DATA;
  const ULONG left = adapter.edid_bytes - offset;
  const ULONG bytes = descriptor->DescriptorLength < left ? descriptor->DescriptorLength : left;
  RtlCopyMemory(descriptor->DescriptorBuffer, adapter.edid + offset, bytes);
  descriptor->DescriptorLength = bytes;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiIsSupportedVidPn(IN_CONST_HANDLE context, INOUT_PDXGKARG_ISSUPPORTEDVIDPN args) {
  return modes::is_supported(table(*adapter_of(context)), args);
}

NTSTATUS NTAPI DdiEnumVidPnCofuncModality(IN_CONST_HANDLE context,
                                          IN_CONST_PDXGKARG_ENUMVIDPNCOFUNCMODALITY_CONST args) {
  return modes::enumerate(table(*adapter_of(context)), args);
}

NTSTATUS NTAPI DdiRecommendMonitorModes(IN_CONST_HANDLE context,
                                        IN_CONST_PDXGKARG_RECOMMENDMONITORMODES_CONST args) {
  const Adapter& adapter = *adapter_of(context);
  return modes::recommend_monitor_mode(table(adapter), args, adapter.sizes[0]);
}

NTSTATUS NTAPI DdiCommitVidPn(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_COMMITVIDPN_CONST args) {
  // The size is that of the primary: what is shown of it, address and visibility say.
  modes::Shown shown = {};
  return modes::read_commit(table(*adapter_of(context)), args, &shown);
}

// --- the picture

void show_all(Screen* screen) {
  screen->wants_scanout = true;
  screen->wants_flush = screen->visible && screen->surface.resource != 0;
  screen->wants_transfer = screen->wants_flush && !screen->surface.is_3d;
}

/// The surface that waits is on the screen from now on.
void take_surface(Screen* screen) {
  screen->waits = false;
  screen->surface = screen->next_surface;
  screen->address = screen->next_address;
  if (screen->visible) show_all(screen);
}

/// Waits until the device has done what the screen wants: a mode is set when it is seen. A device
/// that hangs is the timeout's matter. At PASSIVE_LEVEL; above it nothing is waited for.
void await_screen(Adapter* adapter) {
  if (KeGetCurrentIrql() != PASSIVE_LEVEL) return;
  bool is_done = false;
  for (UINT i = 0; !is_done && i < 10000; ++i) {  // a tenth of a second
    if (i != 0) KeStallExecutionProcessor(10);
    const NTSTATUS status = at_device_level(adapter, [&] {
      serve(adapter);  // the interrupt may come late
      queue_wanted_dpc(adapter);
      const Screen& screen = adapter->screen;
      const bool wants = screen.wants_transfer || screen.wants_scanout || screen.wants_flush;
      is_done = !adapter->running || (!wants && screen.under_way == 0);
    });
    if (!NT_SUCCESS(status)) return;
  }
  (void)at_device_level(adapter, [&] { adapter->screen.changes = false; });
}

NTSTATUS NTAPI DdiSetVisibility(IN_CONST_HANDLE context,
                                IN_CONST_PDXGKARG_SETVIDPNSOURCEVISIBILITY args) {
  Adapter* adapter = adapter_of(context);
  const NTSTATUS status = synchronized(adapter, [&] {
    adapter->screen.visible = args->Visible != FALSE;
    show_all(&adapter->screen);
    serve(adapter);
    queue_wanted_dpc(adapter);
  });
  await_screen(adapter);
  return status;
}

/// At device level for flips: nothing but memory that is not paged, and the queue.
NTSTATUS NTAPI DdiSetSourceAddress(IN_CONST_HANDLE context,
                                   IN_CONST_PDXGKARG_SETVIDPNSOURCEADDRESS args) {
  Adapter* adapter = adapter_of(context);
  const auto* allocation = static_cast<const Allocation*>(args->hAllocation);
  if (allocation == nullptr) return STATUS_INVALID_PARAMETER;
  const bool is_mode = KeGetCurrentIrql() == PASSIVE_LEVEL;
  const NTSTATUS status = synchronized(adapter, [&] {
    Screen& screen = adapter->screen;
    screen.next_surface = {allocation->resource, allocation->width, allocation->height,
                           allocation->is_3d};
    screen.next_address = static_cast<ULONG64>(args->PrimaryAddress.QuadPart);
    screen.waits = true;
    if (args->Flags.FlipOnNextVSync == 0) take_surface(&screen);
    // Of a mode that is being set, the kernel takes the address for shown when this call returns.
    screen.changes = is_mode;
    adapter->engine.dpc_wanted = adapter->engine.dpc_wanted || screen.waits;  // it arms the clock
    serve(adapter);
    queue_wanted_dpc(adapter);
  });
  await_screen(adapter);
  return status;
}

NTSTATUS NTAPI DdiGetStandardAllocation(IN_CONST_HANDLE,
                                        INOUT_PDXGKARG_GETSTANDARDALLOCATIONDRIVERDATA args) {
  // Shadow, staging and GDI surfaces are for what this driver does not do.
  if (args->StandardAllocationType != D3DKMDT_STANDARDALLOCATION_SHAREDPRIMARYSURFACE)
    return STATUS_NOT_SUPPORTED;
  if (args->pAllocationPrivateDriverData != nullptr) {
    const D3DKMDT_SHAREDPRIMARYSURFACEDATA& wanted = *args->pCreateSharedPrimarySurfaceData;
    VgpuUmdAllocation surface = {};
    surface.magic = VGPU_UMD_ALLOCATION_MAGIC;
    surface.version = VGPU_UMD_VERSION;
    surface.width = wanted.Width;
    surface.height = wanted.Height;
    RtlCopyMemory(args->pAllocationPrivateDriverData, &surface, sizeof(surface));
  }
  args->AllocationPrivateDriverDataSize = sizeof(VgpuUmdAllocation);
  args->ResourcePrivateDriverDataSize = 0;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDescribeAllocation(IN_CONST_HANDLE, INOUT_PDXGKARG_DESCRIBEALLOCATION args) {
  const auto* allocation = static_cast<const Allocation*>(args->hAllocation);
  args->Width = allocation->width;
  args->Height = allocation->height;
  args->Format = kFormat;
  args->MultisampleMethod = {};
  args->RefreshRate = {};
  args->PrivateDriverFormatAttribute = 0;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiPresent(IN_CONST_HANDLE, INOUT_PDXGKARG_PRESENT args) {
  // A flip needs no commands. The device cannot copy between surfaces.
  return args->Flags.Flip != 0 ? STATUS_SUCCESS : STATUS_ILLEGAL_INSTRUCTION;
}

// --- the clock

NTSTATUS NTAPI DdiGetScanLine(IN_CONST_HANDLE context, INOUT_PDXGKARG_GETSCANLINE args) {
  const Screen& screen = adapter_of(context)->screen;
  const ULONG64 height = screen.surface.height;
  const ULONG64 passed = KeQueryInterruptTime() % kPeriod;
  const ULONG64 line = passed * kWhole * height / (kPeriod * kActive);
  args->InVerticalBlank = line >= height;
  args->ScanLine = line >= height ? 0 : static_cast<UINT>(line);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiControlInterrupt(IN_CONST_HANDLE context, IN_CONST_DXGK_INTERRUPT_TYPE type,
                                   IN_BOOLEAN enable) {
  if (type != DXGK_INTERRUPT_CRTC_VSYNC) return STATUS_NOT_IMPLEMENTED;
  Adapter* adapter = adapter_of(context);
  const NTSTATUS status =
      at_device_level(adapter, [&] { adapter->screen.vsync_enabled = enable != FALSE; });
  arm_clock(adapter);
  return status;
}

/// The time until the next vertical sync is a multiple of the period again.
void set_timer(Adapter* adapter) {
  LARGE_INTEGER due;
  due.QuadPart = -static_cast<LONGLONG>(kPeriod - KeQueryInterruptTime() % kPeriod);
  KeSetTimer(&adapter->clock, due, &adapter->clock_dpc);
}

// --- the pointer

NTSTATUS NTAPI DdiSetPointerShape(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_SETPOINTERSHAPE args) {
  Adapter* adapter = adapter_of(context);
  if (args->VidPnSourceId != 0 || args->Flags.Color == 0) return STATUS_NOT_SUPPORTED;
  if (args->Width > VGPU_CURSOR_SIZE || args->Height > VGPU_CURSOR_SIZE)
    return STATUS_NOT_SUPPORTED;
  PUCHAR to = adapter->cursor.pixels;
  RtlZeroMemory(to, kCursorBytes);
  for (UINT y = 0; y < args->Height; ++y) {
    const UCHAR* row = static_cast<const UCHAR*>(args->pPixels) + SIZE_T{args->Pitch} * y;
    for (UINT x = 0; x < args->Width; ++x) {
      const UCHAR* in = row + SIZE_T{x} * kPixelBytes;
      UCHAR* out = to + (SIZE_T{y} * VGPU_CURSOR_SIZE + x) * kPixelBytes;
      // The device wants colours that are multiplied by alpha.
      for (UINT i = 0; i < 3; ++i) out[i] = static_cast<UCHAR>((in[i] * in[3] + 127) / 255);
      out[3] = in[3];
    }
  }
  return synchronized(adapter, [&] {
    Cursor& cursor = adapter->cursor;
    cursor.wants_transfer = cursor.wants_update = true;
    serve(adapter);
    queue_wanted_dpc(adapter);
  });
}

NTSTATUS NTAPI DdiSetPointerPosition(IN_CONST_HANDLE context,
                                     IN_CONST_PDXGKARG_SETPOINTERPOSITION args) {
  Adapter* adapter = adapter_of(context);
  if (args->VidPnSourceId != 0) return STATUS_INVALID_PARAMETER;
  return synchronized(adapter, [&] {
    Cursor& cursor = adapter->cursor;
    const bool visible = args->Flags.Visible != 0;
    cursor.wants_update = cursor.wants_update || visible != cursor.visible;
    cursor.wants_move = true;
    cursor.visible = visible;
    if (visible) {
      cursor.x = args->X;
      cursor.y = args->Y;
    }
    serve(adapter);
    queue_wanted_dpc(adapter);
  });
}

/// False: no room.
bool send_cursor(Adapter* adapter, ULONG type) {
  const int place = find_slot(adapter->cursor_queue);
  if (place < 0) return false;
  auto request = request_of_type<VgpuCursor>(type);
  request.x = static_cast<ULONG>(adapter->cursor.x);
  request.y = static_cast<ULONG>(adapter->cursor.y);
  request.resource = adapter->cursor.visible ? kCursorResource : 0;
  RtlCopyMemory(request_of(adapter->cursor_queue, place), &request, sizeof(request));
  offer(adapter, &adapter->cursor_queue, place, {0, sizeof(request), 0, 0, false});
  return true;
}

void feed_cursor(Adapter* adapter) {
  Cursor& cursor = adapter->cursor;
  const bool wanted = cursor.wants_transfer || cursor.wants_update || cursor.wants_move;
  if (!wanted) return;
  if (!cursor.exists) {
    auto create = request_of_type<VgpuCreate2D>(VGPU_RESOURCE_CREATE_2D);
    create.resource = kCursorResource;
    create.format = VGPU_B8G8R8A8;
    create.width = create.height = VGPU_CURSOR_SIZE;
    struct {
      VgpuAttach attach;
      VgpuEntry entry;
    } list;
    RtlZeroMemory(&list, sizeof(list));
    list.attach.header.type = VGPU_RESOURCE_ATTACH_BACKING;
    list.attach.resource = kCursorResource;
    list.attach.entries = 1;
    list.entry.address = static_cast<ULONG64>(cursor.address.QuadPart);
    list.entry.bytes = kCursorBytes;
    if (!cursor.created) cursor.created = send_own(adapter, &create, sizeof(create));
    if (!cursor.created || !send_own(adapter, &list, sizeof(list))) return;
    cursor.exists = true;
  }
  if (cursor.wants_transfer && !cursor.transferring) {
    auto transfer = request_of_type<VgpuTransfer>(VGPU_TRANSFER_TO_HOST_2D);
    transfer.resource = kCursorResource;
    transfer.rect.width = transfer.rect.height = VGPU_CURSOR_SIZE;
    if (!send_own(adapter, &transfer, sizeof(transfer), kCursorTransfer)) return;
    cursor.wants_transfer = false;
    cursor.transferring = true;
  }
  // An update may overtake the transfer on the other queue: it waits for the transfer's answer.
  if (cursor.transferring || cursor.wants_transfer) return;
  if (cursor.wants_update) {
    if (!send_cursor(adapter, VGPU_UPDATE_CURSOR)) return;
    cursor.wants_update = cursor.wants_move = false;
  }
  if (cursor.wants_move && send_cursor(adapter, VGPU_MOVE_CURSOR)) cursor.wants_move = false;
}

}  // namespace

void cursor_transferred(Adapter* adapter) { adapter->cursor.transferring = false; }

void feed_display(Adapter* adapter) {
  Screen& screen = adapter->screen;
  const Surface& surface = screen.surface;
  const VgpuRect whole = {0, 0, surface.width, surface.height};
  if (screen.wants_transfer) {
    auto transfer = request_of_type<VgpuTransfer>(VGPU_TRANSFER_TO_HOST_2D);
    transfer.rect = whole;
    transfer.resource = surface.resource;
    if (!send_own(adapter, &transfer, sizeof(transfer), kScreenCommand)) return;
    ++screen.under_way;
    screen.wants_transfer = false;
  }
  if (screen.wants_scanout) {
    auto scanout = request_of_type<VgpuSetScanout>(VGPU_SET_SCANOUT);
    if (screen.visible) {
      scanout.rect = whole;
      scanout.resource = surface.resource;
    }
    if (!send_own(adapter, &scanout, sizeof(scanout), kScreenCommand)) return;
    ++screen.under_way;
    screen.wants_scanout = false;
  }
  if (screen.wants_flush) {
    auto flush = request_of_type<VgpuFlush>(VGPU_RESOURCE_FLUSH);
    flush.rect = whole;
    flush.resource = surface.resource;
    if (!send_own(adapter, &flush, sizeof(flush), kScreenCommand)) return;
    ++screen.under_way;
    screen.wants_flush = false;
  }
  feed_cursor(adapter);
}

void forget_display(Adapter* adapter) {
  // The kernel sets address and visibility again. The pointer comes back by itself.
  Screen& screen = adapter->screen;
  screen.visible = screen.waits = false;
  screen.surface = screen.next_surface = {};
  screen.under_way = 0;
  screen.changes = false;
  screen.wants_transfer = screen.wants_scanout = screen.wants_flush = false;
  Cursor& cursor = adapter->cursor;
  cursor.exists = cursor.created = cursor.transferring = false;
  cursor.wants_transfer = cursor.wants_update = cursor.visible;
}

NTSTATUS read_modes(Adapter* adapter) {
  adapter->size_count = 0;
  adapter->edid_bytes = 0;
  if (adapter->has_edid) {
    auto* edid = make<VgpuEdid>();  // too large for the stack
    if (edid == nullptr) return STATUS_NO_MEMORY;
    const auto request = request_of_type<VgpuGetEdid>(VGPU_GET_EDID);
    const NTSTATUS status = ask(adapter, &request, sizeof(request), edid, sizeof(*edid));
    if (NT_SUCCESS(status) && edid->header.type == VGPU_OK_EDID) {
      adapter->edid_bytes = edid->size < sizeof(adapter->edid) ? edid->size : sizeof(adapter->edid);
      RtlCopyMemory(adapter->edid, edid->bytes, adapter->edid_bytes);
      read_edid(adapter);
    }
    unmake(edid);
    if (!NT_SUCCESS(status)) return status;
  }
  if (adapter->size_count != 0) return STATUS_SUCCESS;
  VgpuDisplayInfo info;
  VgpuHeader request;
  RtlZeroMemory(&request, sizeof(request));
  request.type = VGPU_GET_DISPLAY_INFO;
  const NTSTATUS status = ask(adapter, &request, sizeof(request), &info, sizeof(info));
  if (!NT_SUCCESS(status)) return status;
  if (info.header.type == VGPU_OK_DISPLAY_INFO && info.modes[0].enabled != 0)
    add_size(adapter, info.modes[0].rect.width, info.modes[0].rect.height);
  if (adapter->size_count == 0) add_size(adapter, 1024, 768);
  return STATUS_SUCCESS;
}

NTSTATUS prepare_cursor(Adapter* adapter) {
  PHYSICAL_ADDRESS lowest = {}, highest = {}, boundary = {};
  highest.QuadPart = -1;
  adapter->cursor.pixels = static_cast<PUCHAR>(
      MmAllocateContiguousMemorySpecifyCache(kCursorBytes, lowest, highest, boundary, MmCached));
  if (adapter->cursor.pixels == nullptr) return STATUS_NO_MEMORY;
  adapter->cursor.address = MmGetPhysicalAddress(adapter->cursor.pixels);
  return STATUS_SUCCESS;
}

void free_cursor(Adapter* adapter) {
  if (adapter->cursor.pixels != nullptr)
    MmFreeContiguousMemorySpecifyCache(adapter->cursor.pixels, kCursorBytes, MmCached);
  RtlZeroMemory(&adapter->cursor, sizeof(adapter->cursor));
}

void arm_clock(Adapter* adapter) {
  bool starts = false;
  (void)at_device_level(adapter, [&] {
    Screen& screen = adapter->screen;
    starts = adapter->running && !screen.clock_runs && (screen.vsync_enabled || screen.waits);
    screen.clock_runs = screen.clock_runs || starts;
  });
  if (starts) set_timer(adapter);
}

void NTAPI clock_routine(PKDPC, PVOID context, PVOID, PVOID) {
  Adapter* adapter = adapter_of(context);
  bool goes_on = false;
  (void)at_device_level(adapter, [&] {
    Screen& screen = adapter->screen;
    if (adapter->running) {
      if (screen.waits) take_surface(&screen);
      // A screen that is off has no vertical syncs: its address may be of a mode that has ended.
      if (screen.vsync_enabled && screen.visible && !screen.changes &&
          screen.surface.resource != 0) {
        DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
        RtlZeroMemory(&data, sizeof(data));
        data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
        data.CrtcVsync.VidPnTargetId = modes::kOutput;
        data.CrtcVsync.PhysicalAddress.QuadPart = static_cast<LONGLONG>(screen.address);
        notify_kernel(adapter, data);
      }
      serve(adapter);
      queue_wanted_dpc(adapter);
    }
    goes_on = adapter->running && screen.vsync_enabled;
    screen.clock_runs = goes_on;
  });
  if (goes_on) set_timer(adapter);
}

void add_display_entries(DRIVER_INITIALIZATION_DATA* data) {
  data->DxgkDdiQueryChildRelations = modes::query_child_relations;
  data->DxgkDdiQueryChildStatus = modes::query_child_status;
  data->DxgkDdiQueryDeviceDescriptor = DdiQueryDeviceDescriptor;
  data->DxgkDdiIsSupportedVidPn = DdiIsSupportedVidPn;
  data->DxgkDdiRecommendFunctionalVidPn = modes::recommend_functional_vidpn;
  data->DxgkDdiEnumVidPnCofuncModality = DdiEnumVidPnCofuncModality;
  data->DxgkDdiRecommendMonitorModes = DdiRecommendMonitorModes;
  data->DxgkDdiCommitVidPn = DdiCommitVidPn;
  data->DxgkDdiUpdateActiveVidPnPresentPath = modes::update_active_path;
  data->DxgkDdiQueryVidPnHWCapability = modes::query_vidpn_hw_capability;
  data->DxgkDdiSetVidPnSourceVisibility = DdiSetVisibility;
  data->DxgkDdiSetVidPnSourceAddress = DdiSetSourceAddress;
  data->DxgkDdiGetStandardAllocationDriverData = DdiGetStandardAllocation;
  data->DxgkDdiDescribeAllocation = DdiDescribeAllocation;
  data->DxgkDdiPresent = DdiPresent;
  data->DxgkDdiGetScanLine = DdiGetScanLine;
  data->DxgkDdiControlInterrupt = DdiControlInterrupt;
  data->DxgkDdiSetPointerShape = DdiSetPointerShape;
  data->DxgkDdiSetPointerPosition = DdiSetPointerPosition;
}

void display_caps(DXGK_DRIVERCAPS* caps) {
  caps->FlipCaps.FlipOnVSyncMmIo = 1;
  caps->FlipCaps.FlipImmediateMmIo = 1;
  caps->MaxQueuedFlipOnVSync = 1;
  caps->SchedulingCaps.VSyncPowerSaveAware = 1;
  caps->MaxPointerWidth = caps->MaxPointerHeight = VGPU_CURSOR_SIZE;
  caps->PointerCaps.Color = 1;
}

}  // namespace virtiogpu
