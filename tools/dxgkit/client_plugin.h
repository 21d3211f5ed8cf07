/* dxgkit/client_plugin.h: the interface of a client plug-in. With one, `dxgkit verify DRIVER
 * --client FILE.so` gives the driver real work.
 *
 * The kernel-mode driver can be loaded and exercised without its user-mode half. But only the
 * user-mode half knows the private data of allocations and the command language. A client plug-in
 * is a small shared object for Linux, in C or C++, that knows enough of both for one copy. It
 * describes allocations, records one command buffer, and checks the bytes that come out. What it
 * does not record is not verified: one that uses every command, each at several places and with
 * sizes that are not round, finds most.
 *
 *     #include <dxgkit/client_plugin.h>
 *     static const char* record(void* client, DxgkitClientJob* job) { ...; return NULL; }
 *     static const DxgkitClient kClient = {DXGKIT_CLIENT_VERSION, sizeof(DxgkitClient), ...};
 *     const DxgkitClient* dxgkit_client(uint32_t version) { return &kClient; }
 *
 *     cc -shared -fPIC -o my_client.so my_client.c
 *
 * Rules of the interface:
 * - A function that can fail returns NULL for success. Otherwise it returns one sentence that says
 *   what is wrong. The text must live until the next call. A failure ends the step, not the run.
 * - Pointers in arguments are the host's, valid for the call only unless said otherwise.
 * - The host calls from several threads at once, each with a job of its own. One job is on one
 *   thread at a time. The stack of every call has at least 128 KiB.
 * - The same seed must give the same job, because runs are repeated by their seed.
 * - The ABI of a plug-in is the host's (System V on x86-64), not the driver's.
 */
#ifndef DXGKIT_CLIENT_H_
#define DXGKIT_CLIENT_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A plug-in of version 1 still works. Its table ends before record_overreach. */
#define DXGKIT_CLIENT_VERSION 2u

/* The adapter the jobs run on. */
typedef struct DxgkitClientAdapter {
  uint16_t vendor_id, device_id;
  uint32_t interface_version; /* DXGKDDI_INTERFACE_VERSION the driver declared */
  uint32_t node_count;
  uint32_t umd_private_bytes;
  const void* umd_private;        /* the driver's answer to KMTQAITYPE_UMDRIVERPRIVATE */
  uint32_t gpu_virtual_addresses; /* 1: contexts use them, and the host calls record_virtual */
  uint32_t reserved;              /* 0 */
} DxgkitClientAdapter;

/* How a job uses an allocation. pack_allocation turns this into private driver data. */
#define DXGKIT_CLIENT_CPU_WRITES 0x1u /* the CPU fills it before the job */
#define DXGKIT_CLIENT_CPU_READS 0x2u  /* the CPU checks it after the job */
#define DXGKIT_CLIENT_GPU_WRITES 0x4u /* the allocation list marks it as written */
#define DXGKIT_CLIENT_COMMANDS 0x8u   /* the CPU writes commands into it, the GPU fetches them */
typedef struct DxgkitClientAllocation {
  uint64_t size_bytes;    /* > 0 */
  uint32_t width, height; /* pixels of four bytes, or 0 and 0 for plain bytes */
  uint32_t usage;         /* DXGKIT_CLIENT_* */
  uint32_t reserved;      /* 0 */
} DxgkitClientAllocation;

/* An allocation after the driver has made it. */
typedef struct DxgkitClientHandle {
  DxgkitClientAllocation wanted;
  const void* private_data; /* as the driver left it: size, pitch ... */
  uint32_t private_bytes;
  uint32_t reserved;
} DxgkitClientHandle;

/* One element of the allocation list of a submission. The same allocation may be in several. */
#define DXGKIT_CLIENT_NO_ALLOCATION 0xFFFFFFFFu /* the element has no allocation: a handle of 0 */
typedef struct DxgkitClientUse {
  uint32_t allocation; /* index in DxgkitClientJob.allocations, or DXGKIT_CLIENT_NO_ALLOCATION */
  uint32_t write;      /* 1: the GPU writes it */
} DxgkitClientUse;

/* D3DDDI_PATCHLOCATIONLIST, for drivers whose user mode makes patch lists. */
typedef struct DxgkitClientPatch {
  uint32_t use; /* index in DxgkitClientJob.uses */
  uint32_t slot_id, driver_id, allocation_offset, patch_offset, split_offset;
} DxgkitClientPatch;

typedef struct DxgkitClientJob {
  uint64_t seed;
  uint32_t node;
  uint32_t allocation_count;
  const DxgkitClientHandle* allocations;
  /* How long the job should keep the engine busy, about, in a way that can be preempted; 0: no such
   * wish. A plug-in whose command language has no such command ignores it. */
  uint64_t busy_ns;

  void* commands; /* the context's command buffer */
  uint32_t command_bytes_max;
  uint32_t command_bytes; /* out */
  DxgkitClientUse* uses;
  uint32_t use_count_max;
  uint32_t use_count; /* out */
  DxgkitClientPatch* patches;
  uint32_t patch_count_max;
  uint32_t patch_count; /* out; 0 if the driver's Render makes the patch list */

  /* For GPU virtual addresses; NULL and 0 without them. With them the job has no list of uses and
   * no patch list: all its allocations are resident and mapped while it runs. */
  const uint64_t* addresses; /* the address of each allocation, mapped writable */
  uint64_t commands_address; /* the address of `commands`, mapped executable */
  void* private_data;        /* pPrivateDriverData of the submission */
  uint32_t private_bytes_max;
  uint32_t private_bytes; /* out */
} DxgkitClientJob;

/* What record_overreach has recorded. */
#define DXGKIT_CLIENT_STOPPED 0u /* wrong: the driver refuses it, or it costs its device */
/* Wrong: D3DKMTRender fails, and the device stays; with addresses, no engine sees it. */
#define DXGKIT_CLIENT_REFUSED 1u
#define DXGKIT_CLIENT_RIGHT 2u /* right: the driver accepts it, and the device stays */
typedef struct DxgkitClientOverreach {
  /* Says where the mistake is: "COPY: an offset just too large". It ends up in messages, and lives
   * as long as the plug-in. NULL: there is no variant with this number, nor one with a higher. */
  const char* what;
  uint32_t expected; /* DXGKIT_CLIENT_STOPPED, _REFUSED or _RIGHT */
  uint32_t reserved; /* 0 */
} DxgkitClientOverreach;

/* What record_show has recorded, and what the screen must show when it has run. */
#define DXGKIT_CLIENT_SHOW_NOTHING 0u /* the screen stays as it is */
/* In the rectangle it shows what the memory holds when the commands run; elsewhere it stays. */
#define DXGKIT_CLIENT_SHOW_MEMORY 1u
/* In the rectangle it shows what the memory held when the variant before this one ran. */
#define DXGKIT_CLIENT_SHOW_EARLIER 2u
typedef struct DxgkitClientShow {
  uint32_t x, y, width, height; /* in: the rectangle, in pixels */
  /* What the commands do, for messages; lives as long as the plug-in. NULL: there is no variant
   * with this number, nor one with a higher. */
  const char* what;
  uint32_t expected; /* DXGKIT_CLIENT_SHOW_* */
  uint32_t reserved; /* 0 */
} DxgkitClientShow;

/* The kinds of private data that user mode sends, for `example` and `judge`. */
#define DXGKIT_CLIENT_DATA_ALLOCATION 0u /* of one element of D3DKMTCreateAllocation2 */
#define DXGKIT_CLIENT_DATA_CONTEXT 1u    /* of D3DKMTCreateContext and CreateContextVirtual */
#define DXGKIT_CLIENT_DATA_ESCAPE 2u     /* of D3DKMTEscape: DRIVERPRIVATE without flags */
#define DXGKIT_CLIENT_DATA_ADAPTER 3u    /* of KMTQAITYPE_UMDRIVERPRIVATE; for `judge` only */

#define DXGKIT_CLIENT_DATA_FACTS 4u /* DxgkitClientFacts; for `judge` only */
#define DXGKIT_CLIENT_DATA_FAULT 5u /* DxgkitClientFault; for `judge` only */
/* Of D3DKMTEscape: DRIVERPRIVATE with the flag HardwareAccess, while the engines are idle. */
#define DXGKIT_CLIENT_DATA_HARDWARE_ESCAPE 6u

/* A REG_DWORD of the driver's service key, as the driver's page documents it. */
typedef struct DxgkitClientSetting {
  const char* name; /* lives as long as the plug-in */
  uint32_t value;
  uint32_t refused; /* 1: with this value the driver does not load or does not start; 0: it works */
} DxgkitClientSetting;

/* What the driver says of itself to the kernel, and user mode relies on. */
#define DXGKIT_CLIENT_LEVELS_MAX 6u
typedef struct DxgkitClientSegment {
  uint64_t base_address, size_bytes, commit_limit;
  uint32_t flags;    /* DXGK_SEGMENTFLAGS */
  uint32_t reserved; /* 0 */
} DxgkitClientSegment;
typedef struct DxgkitClientNode {
  uint32_t engine_type; /* DXGK_ENGINE_TYPE */
  uint32_t gpu_mmu;     /* GpuMmuSupported */
  char name[32];        /* FriendlyName; '?' for what is not ASCII */
} DxgkitClientNode;
typedef struct DxgkitClientFacts {
  uint32_t wddm_version;                            /* DXGK_WDDMVERSION */
  uint32_t flip_caps, scheduling_caps, memory_caps; /* DXGK_FLIPCAPS, DXGK_VIDSCHCAPS, _VIDMMCAPS */
  uint32_t graphics_preemption, compute_preemption; /* the granularities */
  uint32_t per_engine_tdr, removal_in_hibernation;  /* 0 or 1 */
  uint32_t paging_node, slot_id_max;                /* MaxAllocationListSlotId */
  uint64_t highest_address, aperture_commit_limit;
  uint32_t paging_segment, paging_bytes, paging_private_bytes;
  uint32_t segment_count, node_count;
  const DxgkitClientSegment* segments; /* in the order of their ids */
  const DxgkitClientNode* nodes;       /* NULL without DxgkDdiGetNodeMetadata */
  /* Of DXGK_GPUMMUCAPS and the levels, the leaf first; 0 without GPU virtual addresses. */
  uint32_t read_only, no_execute, zero, cache_coherent; /* 0 or 1 */
  uint32_t address_bits, update_mode, large_leaf_bytes, level_count;
  struct {
    uint32_t index_bits, segment, paging_segment, bytes, alignment;
  } levels[DXGKIT_CLIENT_LEVELS_MAX];
  /* The REG_DWORDs in the driver's service key. */
  const DxgkitClientSetting* settings;
  uint32_t setting_count;
} DxgkitClientFacts;

/* What the driver says of an allocation: DXGK_ALLOCATIONINFO. */
typedef struct DxgkitClientAllocationFacts {
  uint64_t size_bytes;
  uint32_t alignment;
  uint32_t read_segments, write_segments, eviction_segments; /* sets: bit n is segment n + 1 */
  uint32_t preferred;                                        /* DXGK_SEGMENTPREFERENCE */
  uint32_t flags;                                            /* DXGK_ALLOCATIONINFOFLAGS */
  uint32_t renaming_max, priority;
} DxgkitClientAllocationFacts;

/* What the driver said of a page fault that the host has provoked. A client reads the same with
 * D3DKMTGetDeviceState (D3DKMT_DEVICESTATE_PAGE_FAULT). */
#define DXGKIT_CLIENT_FAULT_ANY 0u   /* the host does not know what was done there */
#define DXGKIT_CLIENT_FAULT_WRITE 1u /* the memory could only be read */
#define DXGKIT_CLIENT_FAULT_FETCH 2u /* commands were not executable */
#define DXGKIT_CLIENT_FAULT_WORK 3u  /* of record_overreach: it may be no page fault */
typedef struct DxgkitClientFault {
  uint32_t node;
  uint32_t access;                  /* DXGKIT_CLIENT_FAULT_* */
  uint64_t address;                 /* FaultedVirtualAddress */
  uint32_t flags, error_code;       /* DXGK_PAGE_FAULT_FLAGS, DXGK_FAULT_ERROR_CODE */
  uint32_t stage, bind_table_entry; /* FaultedPipelineStage, FaultedBindTableEntry */
  uint64_t primitive;               /* FaultedPrimitiveAPISequenceNumber */
} DxgkitClientFault;

/* The driver's answer to private data. */
typedef struct DxgkitClientAnswer {
  uint32_t kind;  /* DXGKIT_CLIENT_DATA_* */
  int32_t status; /* of the call: below 0 it failed */
  /* 1: the call failed for want of memory. That says nothing of the data. */
  uint32_t no_memory;
  uint32_t bytes; /* of both of the following; they are not aligned */
  const void* sent;
  const void* returned; /* as the driver left it; of a context, and after a failure, as it was */
  /* What the kernel was told of an allocation that was made; else NULL. */
  const DxgkitClientAllocationFacts* allocation;
} DxgkitClientAnswer;

/* Every function must be present unless its comment says optional. */
typedef struct DxgkitClient {
  uint32_t version;    /* DXGKIT_CLIENT_VERSION that the plug-in was built with */
  uint32_t size_bytes; /* sizeof(DxgkitClient) */
  const char* name;    /* for messages; lives as long as the plug-in */
  /* Bytes of the KMTQAITYPE_UMDRIVERPRIVATE buffer; 0: do not ask. */
  uint32_t umd_private_bytes;
  uint32_t reserved; /* 0 */

  /* Nonzero if the plug-in knows this kind of adapter. Optional: without it, every kind. */
  int (*matches)(uint16_t vendor_id, uint16_t device_id);
  /* Fills the UMDRIVERPRIVATE buffer before the driver gets it. Optional: without it, zeros. */
  void (*fill_umd_private)(void* data, uint32_t bytes);
  /* Makes one instance per adapter. The host passes *client to all functions below. */
  const char* (*open)(const DxgkitClientAdapter* adapter, void** client);
  void (*close)(void* client);

  /* Private driver data of D3DKMTCreateContext. *bytes <= capacity. Optional: without it, none. */
  const char* (*pack_context)(void* client, uint32_t node, void* data, uint32_t capacity,
                              uint32_t* bytes);
  /* Private driver data of one element of D3DKMTCreateAllocation2. *bytes <= capacity. */
  const char* (*pack_allocation)(void* client, const DxgkitClientAllocation* wanted, void* data,
                                 uint32_t capacity, uint32_t* bytes);

  /* Says which allocations the job with this seed needs on this node: 1 to `capacity`. */
  const char* (*plan)(void* client, uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted,
                      uint32_t capacity, uint32_t* count);
  /* Writes the content of allocation `index` before the job. Called for CPU_WRITES only. */
  const char* (*fill)(void* client, const DxgkitClientJob* job, uint32_t index, void* view,
                      uint64_t view_bytes);
  /* Records the command buffer and the lists. Called again for a job that runs a second time. */
  const char* (*record)(void* client, DxgkitClientJob* job);
  /* Says whether allocation `index` holds the right result. Called for CPU_READS only. */
  const char* (*check)(void* client, const DxgkitClientJob* job, uint32_t index, const void* view,
                       uint64_t view_bytes);

  /* As record, for a driver with GPU virtual addresses, which are in the job's `addresses`. The
   * host then calls pack_allocation also for an allocation with DXGKIT_CLIENT_COMMANDS. Optional:
   * without it the host gives such a driver no work. size_bytes may end before this member. */
  const char* (*record_virtual)(void* client, DxgkitClientJob* job);

  /* Since version 2. As record, or as record_virtual if the job has addresses, but what it records
   * is wrong in one field: an index, an offset, a size, a pitch, a flag, a reserved field. Variants
   * are numbered from 0, and a number has the same mistake for every seed of a node. All fields of
   * *overreach are 0 before the call. What a variant would do if it ran must not depend on its
   * other commands. Variants that are right show that the others are wrong by their mistake alone;
   * they belong at the limits of what the driver must accept. No result is checked, only that
   * memory of others does not change. Optional: without it the step is skipped. */
  const char* (*record_overreach)(void* client, DxgkitClientJob* job, uint32_t variant,
                                  DxgkitClientOverreach* overreach);

  /* Since version 2. Gives private data of this kind that no plan asks for, number `index` from 0.
   * *bytes 0: there is no more. The host sends it as it is, and with one thing in it changed at a
   * time. Escapes are called with nothing else. Optional; size_bytes may end before this member. */
  const char* (*example)(void* client, uint32_t kind, uint32_t index, void* data, uint32_t capacity,
                         uint32_t* bytes);
  /* Since version 2. Says whether the driver's answer is right, by what the driver's interface with
   * its user mode says; NULL for a kind that it does not know. The answer of the adapter is judged
   * behind each `open` first: what `open` refuses is not the driver's mistake. Without it the host
   * only sees that the driver survives. Optional; size_bytes may end before this member. */
  const char* (*judge)(void* client, const DxgkitClientAnswer* answer);
  /* Since version 2. Gives setting number `index` from 0; 0: there is no more. The driver runs with
   * one of them at a time. Called without an instance. Optional; size_bytes may end before this
   * member. */
  int (*setting)(uint32_t index, DxgkitClientSetting* setting);
  /* Since version 2. Nonzero: when the device sleeps, it loses what no driver can save, and the
   * driver ends the D3DKMT device whose work needs that (ERROR_DMAFAULT, or ERROR_DMAPAGEFAULT from
   * WDDM 2.0 on). The host then does the jobs that a sleep has met once more, on a new device.
   * Without it no sleep may be noticed. Optional; size_bytes may end before this member. */
  int (*sleep_costs_devices)(void* client);
  /* Since version 2. As record, for a screen that does not follow memory by itself: commands that
   * bring `show`'s rectangle of allocation 0, a primary on the screen, up to date, or a part of
   * what that takes. Its rows have no padding. Variants are numbered from 0, and run in their
   * order, each with other content in the whole memory. Optional: without it the step is skipped;
   * size_bytes may end before this member. */
  const char* (*record_show)(void* client, DxgkitClientJob* job, uint32_t variant,
                             DxgkitClientShow* show);
} DxgkitClient;

/* The shared object exports this function. `version` is the host's DXGKIT_CLIENT_VERSION. The
 * result must not be NULL. */
const DxgkitClient* dxgkit_client(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif /* DXGKIT_CLIENT_H_ */
