// The driver's objects, and which file does what. Locks: everything in `Engine` and `Screen` is
// touched at device level only (at_device_level, the interrupt routine), or while the device is
// reset and no other thread is in the driver.
#pragma once

#include <ntddk.h>
//
#include <dispmprt.h>

#include "devices/virtiogpu/virtiogpu_hw.h"
#include "miniports/modes/modes.h"
#include "miniports/virtiogpu/virtiogpu_umd.h"

namespace virtiogpu {

inline constexpr ULONG kPoolTag = 0x55504756;  // "VGPU"
inline constexpr ULONG kAdapterUid = 0xFFFFFFFF;

template <typename Object>
Object* make() {
  void* object = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof(Object), kPoolTag);
  if (object != nullptr) RtlZeroMemory(object, sizeof(Object));
  return static_cast<Object*>(object);
}
inline void unmake(void* object) { ExFreePoolWithTag(object, kPoolTag); }

// One driver, two faces: built for an interface version of 2.0, devices list the allocations that
// must be resident. Both patch.
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
inline constexpr DXGK_WDDMVERSION kWddmVersion = DXGKDDI_WDDMv2;
inline constexpr bool kExplicitResidency = true;
#else
inline constexpr DXGK_WDDMVERSION kWddmVersion = DXGKDDI_WDDMv1_3;
inline constexpr bool kExplicitResidency = false;
#endif

inline constexpr UINT kPixelBytes = 4;
inline constexpr UINT kSegment = 1;  // the aperture, the only one
inline constexpr ULONG64 kApertureBase = 0xC0000000;
inline constexpr UINT kApertureMiB = 1024;  // without the registry's value ApertureSize
// The commands of the two submissions that the kernel has under way fit on the queue together. So
// work goes on without interrupts, should they get lost.
inline constexpr UINT kCommandsMost = 46;  // in a DMA buffer
inline constexpr UINT kDmaBufferBytes = 4 * 1024;
inline constexpr UINT kSubmitBytesMost = 256 * 1024;  // for the renderer, in one command
inline constexpr UINT kDmaBuffer3dBytes = kSubmitBytesMost + kDmaBufferBytes;
inline constexpr UINT kListMost = 64, kList3dMost = 1024;  // allocations of a DMA buffer
inline constexpr ULONG64 kResourceBytesMost = ULONG64{256} << 20;
inline constexpr ULONG kCapsetBytesMost = 4096;
inline constexpr UINT kPagingBufferBytes = 64 * 1024;
inline constexpr UINT kPagingPrivateBytes = 20 * 16;  // 20 records, two commands each at most
inline constexpr UINT kSubmissionsMost = 64;          // far more than the kernel has under way
inline constexpr ULONG kCursorResource = 1;           // resources of allocations have higher ids
inline constexpr ULONG kFirstResource = 2;
inline constexpr UINT kSizesMost = 10;  // as many as two blocks of an EDID can name

// --- transport.cpp: virtio on PCI

/// The structures of the device's registers, where its capabilities say that they are.
struct Registers {
  volatile UCHAR* common;
  volatile UCHAR* notify;
  volatile UCHAR* isr;
  volatile UCHAR* config;
  ULONG notify_multiplier;
  PVOID mapped[6];  // by BAR; null: not mapped
};

/// A virtqueue as this driver uses it: a command takes up to three descriptors, one for the
/// request, one for data that belong to it, one for the answer. They are in a table of the
/// command's own, if the device takes indirect descriptors; otherwise in the queue. Contiguous
/// memory.
struct Queue {
  USHORT index;
  USHORT entries;  // descriptors
  bool indirect;
  USHORT slots;   // commands that are under way at once
  PUCHAR memory;  // descriptors, both rings, requests, answers, tables
  PHYSICAL_ADDRESS address;
  ULONG notify_offset;
  USHORT offered, taken;  // chains, modulo 2^16
  bool busy[128];         // by slot
};
inline constexpr USHORT kSlotsMost = 128;
inline constexpr USHORT kQueueEntries = 128;
inline constexpr ULONG kRequestBytes = 128;  // of a request that the driver makes itself
inline constexpr ULONG kAnswerBytes = 32;    // as much as most commands need
/// As much as an EDID or a capability set takes: one at a time.
inline constexpr ULONG kLongAnswerBytes = sizeof(VgpuHeader) + kCapsetBytesMost;

struct Adapter;

/// Finds the capabilities, maps what they name, and checks that the device is what it should be.
NTSTATUS find_device(Adapter* adapter);
void unmap_device(Adapter* adapter);
NTSTATUS allocate_queue(Queue* queue, USHORT index);
void free_queue(Queue* queue);
bool needs_reset(const Adapter& adapter);
ULONG capset_count_of(const Adapter& adapter);
/// Resets the device and waits until it says that it is. Up to DISPATCH_LEVEL.
NTSTATUS reset_device(Adapter* adapter);
/// From a reset to a device that is ready, with empty queues.
NTSTATUS start_device(Adapter* adapter);
/// Puts a command on the queue and returns its slot; -1: there is no room. The request is either in
/// the slot's own memory (`request` null) or at an address.
struct Command {
  ULONG64 request;  // 0: request_of(slot) has it
  ULONG request_bytes;
  ULONG64 data;  // behind the request; 0: nothing
  ULONG data_bytes;
  bool is_long;  // its answer
};
int find_slot(const Queue& queue);
void offer(Adapter* adapter, Queue* queue, int slot, const Command& command);
PUCHAR request_of(const Queue& queue, int slot);
const UCHAR* answer_of(const Queue& queue, int slot);
const UCHAR* long_answer_of(const Queue& queue);
/// A slot whose command is done; -1: none is. The slot is free again, its answer stays.
int take_used(Queue* queue);

// --- engine.cpp: submissions, fences, preemption

/// In a DMA buffer, in front of each request.
struct DmaCommand {
  ULONG bytes;          // with this header and padding to 8
  ULONG request_bytes;  // of what follows
  ULONG64 data;         // physical address of more; 0: no more
  ULONG data_bytes;
  ULONG generation;  // of the device, which must not have been reset since; 0: any
};

/// In the private data of a DMA buffer, one for what Render built, or for each paging operation:
/// where the commands are. Stays the same when a submission comes again after a preemption.
struct Record {
  UCHAR* commands;
  UINT offset;  // of `commands` in the DMA buffer; of paging operations 0
  UINT bytes;
};

/// Submissions `first` up to, not including, `next`; the slot is the number modulo
/// kSubmissionsMost. Those before `feeding` are on the queue as a whole.
struct Submission {
  UINT fence;
  const Record* record;  // the next one that has commands
  const Record* end;
  UINT start, stop;  // of the slice, in the DMA buffer; for Render's record
  UINT position;     // in the record
  UINT under_way;    // commands on the queue
  bool is_paging;
  bool begun;  // a command was on the queue
  bool has_failed;
};

/// A command whose sender waits (call_device). On the sender's stack. Once it is `taken`, the DPC
/// sets the event, and the sender stays until then.
struct Call {
  Call* next;  // answered, not taken
  KEVENT event;
  ULONG64 data;  // behind the request, a physical address; 0: nothing
  ULONG data_bytes;
  ULONG answer;  // its type
  bool is_sent, is_answered, is_taken;
};

struct Engine {
  Submission submissions[kSubmissionsMost];
  UINT first, next;
  UINT owner[kSlotsMost];  // by slot: the submission's number, or kOwn*
  UINT completed_fence, submitted_fence;
  UINT preemption;  // asked for, not reported; 0: none
  bool broken;      // the device wants a reset
  bool dpc_wanted;
  ULONG errors;             // answers that were none of the good ones
  bool has_answer;          // the one that `ask` waits for
  bool silent;              // it has not answered in time: nobody waits until it answers again
  Call* calls[kSlotsMost];  // by slot, if its owner is kCall
  Call* answered;
};
inline constexpr UINT kOwnCommand = 0xFFFFFFFF;  // an owner: the answer does not matter
inline constexpr UINT kAwaited = 0xFFFFFFFE;     // an owner: somebody polls for it
inline constexpr UINT kCall = 0xFFFFFFFB;        // an owner: somebody waits for it

// --- display.cpp

struct Surface {  // what of an allocation the display needs
  ULONG resource;
  ULONG width, height;
  bool is_3d;  // what it shows is not in the guest's memory
};
struct Screen {
  bool visible;
  Surface surface;       // taken over; resource 0: none
  ULONG64 address;       // of it, in the aperture
  Surface next_surface;  // waits for a vertical sync
  ULONG64 next_address;
  bool waits;
  // Wishes to the device, carried out in this order when there is room on the queue.
  bool wants_transfer, wants_scanout, wants_flush;
  UINT under_way;  // commands of these wishes on the queue
  bool changes;    // a mode is being set: no vertical sync is reported
  bool vsync_enabled;
  bool clock_runs;
};

inline constexpr UINT kScreenCommand = 0xFFFFFFFC;  // an owner

struct Cursor {
  PUCHAR pixels;  // backing, contiguous
  PHYSICAL_ADDRESS address;
  bool created, exists;  // the device has the resource; it has its pages, too
  bool visible;
  LONG x, y;
  // Steps of a new shape; each is carried out when there is room.
  bool wants_create, wants_attach, wants_transfer, wants_update, wants_move;
  bool transferring;  // the update waits for its answer
};
inline constexpr UINT kCursorTransfer = 0xFFFFFFFD;  // an owner

struct Capset {
  VgpuUmdCapsetInfo info;
  UCHAR* data;
};

struct Adapter {
  PDEVICE_OBJECT physical_device;
  DXGKRNL_INTERFACE dxgk;
  Registers registers;
  bool ready;          // registers are mapped
  volatile bool gone;  // it left the bus
  bool running;        // interrupts are looked at
  bool has_edid, has_indirect, has_3d, has_context_init;
  Queue control, cursor_queue;
  Engine engine;
  Screen screen;
  Cursor cursor;
  ULONG generation;  // counts resets of the device: what was mapped before is not any more
  LONG next_resource, next_context;
  FAST_MUTEX mutex;  // of the lists of 3D contexts and resources, and of mappings of the latter
  UINT capset_count;
  Capset capsets[VGPU_UMD_CAPSETS_MAX];
  UINT size_count;
  modes::Size sizes[kSizesMost];
  UCHAR edid[256];
  UINT edid_bytes;
  KTIMER clock;
  KDPC clock_dpc;
};

struct Device {
  Adapter* adapter;
  LIST_ENTRY contexts;  // those with 3D
  LIST_ENTRY opened;    // 3D resources
};

/// With 3D, a context of the device's renderer.
struct Context {
  Device* device;
  ULONG id;          // of the device; 0: no 3D
  ULONG generation;  // of the device, when it began: after a reset the context is lost
  VgpuCreateContext request;
  LIST_ENTRY link;  // in Device::contexts
};

/// A surface: a resource of the device while the aperture shows it. A 3D resource: one of the
/// device from its creation on, whose memory the aperture attaches. Its content is lost with a
/// reset.
struct Allocation {
  Adapter* adapter;
  bool is_3d;
  ULONG resource;
  ULONG born;  // 3D: the generation of the device
  VgpuCreate3D request;
  LIST_ENTRY opened;  // 3D: each Opened of it
  ULONG width, height;
  ULONG depth, last_level;  // 3D; of an array its elements
  ULONG64 bytes;            // of its memory
  UINT pages;
  VgpuEntry* entries;  // contiguous: the list of pages for ATTACH_BACKING
  PHYSICAL_ADDRESS entries_address;
  // Of the mapping that the kernel builds up piece by piece.
  UINT aperture_page;  // of the first page
  UINT mapped;         // pages
  ULONG generation;    // of the device, when it began
};

/// An allocation as a device of user mode has it.
struct Opened {
  Device* device;
  Allocation* allocation;
  // 3D: in Device::opened, and in Allocation::opened.
  LIST_ENTRY link, link_in_allocation;
};

// --- at device level

template <typename Work>
NTSTATUS at_device_level(Adapter* adapter, Work work) {
  struct Routine {
    static BOOLEAN NTAPI run(PVOID context) {
      (*static_cast<Work*>(context))();
      return TRUE;
    }
  };
  BOOLEAN result = FALSE;
  return adapter->dxgk.DxgkCbSynchronizeExecution(adapter->dxgk.DeviceHandle, Routine::run, &work,
                                                  0, &result);
}

inline bool newer(UINT a, UINT b) { return static_cast<INT>(a - b) > 0; }

/// Takes answers, reports what they complete, and puts on the queues what has room.
void serve(Adapter* adapter);
/// Sends a command of the driver's own. False: no room.
bool send_own(Adapter* adapter, const void* request, ULONG bytes, UINT owner = kOwnCommand,
              Call* call = nullptr);
void forget_work(Adapter* adapter);  // behind a reset
/// Sends a command and waits for its answer. At PASSIVE_LEVEL, while nothing else is sent.
/// STATUS_IO_TIMEOUT: no answer within five seconds. STATUS_IO_DEVICE_ERROR: it wants a reset.
NTSTATUS ask(Adapter* adapter, const void* request, ULONG bytes, void* answer, ULONG answer_bytes);
/// Sends a command and waits for its answer, beside whatever else is under way. Up to APC_LEVEL.
/// STATUS_INVALID_PARAMETER: the device refuses it. STATUS_NO_MEMORY: it has none.
/// STATUS_IO_TIMEOUT: no answer within four seconds. STATUS_DEVICE_NOT_READY: it is off.
/// `data` is the physical address of what follows the request; 0: nothing.
NTSTATUS call_device(Adapter* adapter, const void* request, ULONG bytes, ULONG64 data = 0,
                     ULONG data_bytes = 0);
/// The same without the answer: what is submitted later comes behind the command.
NTSTATUS tell_device(Adapter* adapter, const void* request, ULONG bytes);
void wake_callers(Adapter* adapter);  // in the DPC
void notify_kernel(Adapter* adapter, const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data);
void queue_wanted_dpc(Adapter* adapter);

/// display.cpp, at device level: the wishes of screen and cursor that have room now.
void feed_display(Adapter* adapter);
void cursor_transferred(Adapter* adapter);
void forget_display(Adapter* adapter);
/// What the device says of its screen: EDID, or its size alone.
NTSTATUS read_modes(Adapter* adapter);
void add_display_entries(DRIVER_INITIALIZATION_DATA* data);
void display_caps(DXGK_DRIVERCAPS* caps);
NTSTATUS prepare_cursor(Adapter* adapter);
void free_cursor(Adapter* adapter);
void NTAPI clock_routine(PKDPC, PVOID context, PVOID, PVOID);
void arm_clock(Adapter* adapter);

// --- renderer.cpp: what 3D has on the device

/// Of the device's configuration and its capability sets. At start, without 3D nothing.
NTSTATUS read_capsets(Adapter* adapter);
void free_capsets(Adapter* adapter);
/// Makes a 3D context of the device. Undone by end_context_3d.
NTSTATUS begin_context_3d(Context* context, const VgpuUmdContext& request);
void end_context_3d(Context* context);
/// Makes a 3D resource of the device, or ends it.
NTSTATUS begin_resource_3d(Allocation* allocation, const VgpuUmdResource& request);
void end_resource_3d(Allocation* allocation);
/// After a reset of the device: it is there again, empty, with the memory that the aperture shows.
/// Nothing if it is there still.
NTSTATUS revive_context_3d(Context* context);
NTSTATUS revive_resource_3d(Allocation* allocation);
/// The device's contexts reach the resource from now on, or no longer.
NTSTATUS attach_resource_3d(Opened* opened);
void detach_resource_3d(Opened* opened);
/// A reset of the device has not taken it.
inline bool is_alive(const Context& context) {
  return context.id != 0 && context.generation == context.device->adapter->generation;
}
inline bool is_alive(const Allocation& allocation) {
  return allocation.born == allocation.adapter->generation;
}
extern ULONG g_aperture_mib;  // of all adapters
inline ULONG64 aperture_bytes() { return ULONG64{g_aperture_mib} << 20; }
inline ULONG64 resource_bytes_most() {
  return aperture_bytes() < kResourceBytesMost ? aperture_bytes() : kResourceBytesMost;
}

template <typename Request>
Request request_of_type(ULONG type) {
  Request request;
  RtlZeroMemory(&request, sizeof(request));
  request.header.type = type;
  return request;
}

/// ATTACH_BACKING with all pages of the allocation: its list of pages is whole.
inline VgpuAttach attach_request(const Allocation& allocation) {
  auto request = request_of_type<VgpuAttach>(VGPU_RESOURCE_ATTACH_BACKING);
  request.resource = allocation.resource;
  request.entries = allocation.pages;
  return request;
}
/// The aperture shows all of it, since the device's last reset.
inline bool is_mapped(const Allocation& allocation) {
  return allocation.mapped == allocation.pages &&
         allocation.generation == allocation.adapter->generation;
}

NTSTATUS read_user(void* to, const void* from, SIZE_T bytes);  // user_memory.cpp

DXGKDDI_INTERRUPT_ROUTINE DdiInterruptRoutine;
DXGKDDI_DPC_ROUTINE DdiDpcRoutine;
DXGKDDI_RENDER DdiRender;
DXGKDDI_RENDER DdiRenderKm;
DXGKDDI_PATCH DdiPatch;
DXGKDDI_SUBMITCOMMAND DdiSubmitCommand;
DXGKDDI_PREEMPTCOMMAND DdiPreemptCommand;
DXGKDDI_QUERYCURRENTFENCE DdiQueryCurrentFence;
DXGKDDI_BUILDPAGINGBUFFER DdiBuildPagingBuffer;
DXGKDDI_RESETFROMTIMEOUT DdiResetFromTimeout;
DXGKDDI_RESTARTFROMTIMEOUT DdiRestartFromTimeout;
DXGKDDI_CREATEDEVICE DdiCreateDevice;
DXGKDDI_DESTROYDEVICE DdiDestroyDevice;
DXGKDDI_CREATECONTEXT DdiCreateContext;
DXGKDDI_DESTROYCONTEXT DdiDestroyContext;
DXGKDDI_CREATEALLOCATION DdiCreateAllocation;
DXGKDDI_DESTROYALLOCATION DdiDestroyAllocation;
DXGKDDI_OPENALLOCATIONINFO DdiOpenAllocation;
DXGKDDI_CLOSEALLOCATION DdiCloseAllocation;
DXGKDDI_ESCAPE DdiEscape;

}  // namespace virtiogpu
