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

inline constexpr UINT kPixelBytes = 4;
inline constexpr UINT kSegment = 1;  // the aperture, the only one
inline constexpr ULONG64 kApertureBase = 0xC0000000;
inline constexpr ULONG64 kApertureBytes = ULONG64{1} << 30;
// The commands of the two submissions that the kernel has under way fit on the queue together. So
// work goes on without interrupts, should they get lost.
inline constexpr UINT kDmaBufferBytes = 4 * 1024;
inline constexpr UINT kPagingBufferBytes = 64 * 1024;
inline constexpr UINT kPagingPrivateBytes = 20 * 16;  // 20 records, two commands each at most
inline constexpr UINT kSubmissionsMost = 64;          // far more than the kernel has under way
inline constexpr ULONG kCursorResource = 1;           // resources of allocations have higher ids
inline constexpr ULONG kFirstResource = 2;
inline constexpr UINT kSizesMost = 8;

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
inline constexpr ULONG kRequestBytes = 64;       // of a request that the driver makes itself
inline constexpr ULONG kAnswerBytes = 32;        // as much as most commands need
inline constexpr ULONG kLongAnswerBytes = 1104;  // as much as an EDID takes: one at a time

struct Adapter;

/// Finds the capabilities, maps what they name, and checks that the device is what it should be.
NTSTATUS find_device(Adapter* adapter);
void unmap_device(Adapter* adapter);
NTSTATUS allocate_queue(Queue* queue, USHORT index);
void free_queue(Queue* queue);
bool needs_reset(const Adapter& adapter);
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
  ULONG reserved;
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

struct Engine {
  Submission submissions[kSubmissionsMost];
  UINT first, next;
  UINT owner[kSlotsMost];  // by slot: the submission's number, or kOwn*
  UINT completed_fence, submitted_fence;
  UINT preemption;  // asked for, not reported; 0: none
  bool broken;      // the device wants a reset
  bool dpc_wanted;
  ULONG errors;     // answers that were none of the good ones
  bool has_answer;  // the one that `ask` waits for
};
inline constexpr UINT kOwnCommand = 0xFFFFFFFF;  // an owner: the answer does not matter
inline constexpr UINT kAwaited = 0xFFFFFFFE;     // an owner: somebody polls for it

// --- display.cpp

struct Surface {  // what of an allocation the display needs
  ULONG resource;
  ULONG width, height;
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

struct Adapter {
  PDEVICE_OBJECT physical_device;
  DXGKRNL_INTERFACE dxgk;
  Registers registers;
  bool ready;          // registers are mapped
  volatile bool gone;  // it left the bus
  bool running;        // interrupts are looked at
  bool has_edid, has_indirect;
  Queue control, cursor_queue;
  Engine engine;
  Screen screen;
  Cursor cursor;
  ULONG generation;  // counts resets of the device: what was mapped before is not any more
  LONG next_resource;
  UINT size_count;
  modes::Size sizes[kSizesMost];
  UCHAR edid[256];
  UINT edid_bytes;
  KTIMER clock;
  KDPC clock_dpc;
};

struct Device {
  Adapter* adapter;
};
struct Context {
  bool system;
};

/// An allocation: a surface, and a resource of the device while the aperture shows it.
struct Allocation {
  Adapter* adapter;
  ULONG resource;
  ULONG width, height;
  UINT pages;
  VgpuEntry* entries;  // contiguous: the list of pages for ATTACH_BACKING
  PHYSICAL_ADDRESS entries_address;
  // Of the mapping that the kernel builds up piece by piece.
  UINT aperture_page;  // of the first page
  UINT mapped;         // pages
  ULONG generation;    // of the device, when it began
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
bool send_own(Adapter* adapter, const void* request, ULONG bytes, UINT owner = kOwnCommand);
void forget_work(Adapter* adapter);  // behind a reset
/// Sends a command and waits for its answer. At PASSIVE_LEVEL, while nothing else is sent.
/// STATUS_IO_TIMEOUT: no answer within a second.
NTSTATUS ask(Adapter* adapter, const void* request, ULONG bytes, void* answer, ULONG answer_bytes);
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

}  // namespace virtiogpu
