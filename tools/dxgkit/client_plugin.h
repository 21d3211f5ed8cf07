/* dxgkit/client_plugin.h: what a driver's author adds so that `dxgkit verify DRIVER --client
 * FILE.so` can give the driver real work.
 *
 * The kernel-mode driver can be loaded and exercised without its user-mode half, but only that half
 * knows the private data of its allocations and its command language. A client plug-in is a small
 * shared object for Linux, in C or C++, that knows as much of it as one copy takes: it describes
 * allocations, records one command buffer, and checks the bytes that come out.
 *
 *     #include <dxgkit/client_plugin.h>
 *     static const char* record(void* client, DxgkitClientJob* job) { ...; return NULL; }
 *     static const DxgkitClient kClient = {DXGKIT_CLIENT_VERSION, sizeof(DxgkitClient), ...};
 *     const DxgkitClient* dxgkit_client(uint32_t version) { return &kClient; }
 *
 *     cc -shared -fPIC -o my_client.so my_client.c
 *
 * Rules of the interface:
 * - Functions that can fail return NULL for success, else one sentence that says what is wrong; it
 *   must live until the next call. A failure ends the step, not the run.
 * - Pointers in arguments are the host's and last for the call only, unless said otherwise.
 * - Calls come from several threads at once, each with a job of its own; one job is on one thread
 * at a time. Stacks are 128 KiB at least.
 * - The same seed must give the same job: runs are repeated by their seed.
 * - The ABI of a plug-in is the host's (System V on x86-64), not the driver's.
 */
#ifndef DXGKIT_CLIENT_H_
#define DXGKIT_CLIENT_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DXGKIT_CLIENT_VERSION 1u

/* The adapter the jobs run on. */
typedef struct DxgkitClientAdapter {
  uint16_t vendor_id, device_id;
  uint32_t interface_version; /* DXGKDDI_INTERFACE_VERSION the driver declared */
  uint32_t node_count;
  uint32_t umd_private_bytes;
  const void* umd_private;        /* what the driver answered to KMTQAITYPE_UMDRIVERPRIVATE */
  uint32_t gpu_virtual_addresses; /* 1: contexts have them, and record_virtual is called */
  uint32_t reserved;              /* 0 */
} DxgkitClientAdapter;

/* How an allocation of a job is used: pack_allocation turns it into private driver data. */
#define DXGKIT_CLIENT_CPU_WRITES 0x1u /* the CPU fills it before the job */
#define DXGKIT_CLIENT_CPU_READS 0x2u  /* the CPU checks it after the job */
#define DXGKIT_CLIENT_GPU_WRITES 0x4u /* named as written in the allocation list */
#define DXGKIT_CLIENT_COMMANDS 0x8u   /* holds commands that the GPU fetches; the CPU writes it */
typedef struct DxgkitClientAllocation {
  uint64_t size_bytes;    /* > 0 */
  uint32_t width, height; /* pixels of four bytes, or 0 and 0 for plain bytes */
  uint32_t usage;         /* DXGKIT_CLIENT_* */
  uint32_t reserved;      /* 0 */
} DxgkitClientAllocation;

/* An allocation as the driver made it. */
typedef struct DxgkitClientHandle {
  DxgkitClientAllocation wanted;
  const void* private_data; /* as the driver left it: size, pitch ... */
  uint32_t private_bytes;
  uint32_t reserved;
} DxgkitClientHandle;

/* One element of the allocation list of a submission. */
typedef struct DxgkitClientUse {
  uint32_t allocation; /* index in DxgkitClientJob.allocations */
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
  /* 0; else the job should keep the engine busy about this long, in a way that can be preempted. A
   * language without such a command ignores it. */
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

  /* With GPU virtual addresses; else NULL and 0. There is no list of uses and no patch list then:
   * all allocations of the job are resident, and mapped while it runs. */
  const uint64_t* addresses; /* of each allocation: where it is mapped, writable */
  uint64_t commands_address; /* where `commands` is mapped, executable */
  void* private_data;        /* what goes with the submission, pPrivateDriverData */
  uint32_t private_bytes_max;
  uint32_t private_bytes; /* out */
} DxgkitClientJob;

/* Every function is there unless it says optional. */
typedef struct DxgkitClient {
  uint32_t version;    /* DXGKIT_CLIENT_VERSION it was built with */
  uint32_t size_bytes; /* sizeof(DxgkitClient) */
  const char* name;    /* for messages; lives as long as the plug-in */
  /* Bytes of the KMTQAITYPE_UMDRIVERPRIVATE buffer; 0: do not ask. */
  uint32_t umd_private_bytes;
  uint32_t reserved; /* 0 */

  /* Whether it speaks to this kind of adapter. Optional: to every. */
  int (*matches)(uint16_t vendor_id, uint16_t device_id);
  /* Fills the UMDRIVERPRIVATE buffer before the driver gets it. Optional: zeroes. */
  void (*fill_umd_private)(void* data, uint32_t bytes);
  /* One instance per adapter: *client is handed to all that follows. */
  const char* (*open)(const DxgkitClientAdapter* adapter, void** client);
  void (*close)(void* client);

  /* Private driver data of D3DKMTCreateContext. Optional: none. *bytes <= capacity. */
  const char* (*pack_context)(void* client, uint32_t node, void* data, uint32_t capacity,
                              uint32_t* bytes);
  /* Private driver data of one element of D3DKMTCreateAllocation2. *bytes <= capacity. */
  const char* (*pack_allocation)(void* client, const DxgkitClientAllocation* wanted, void* data,
                                 uint32_t capacity, uint32_t* bytes);

  /* Which allocations the job with this seed needs on this node: at most `capacity`, at least one.
   */
  const char* (*plan)(void* client, uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted,
                      uint32_t capacity, uint32_t* count);
  /* Writes what allocation `index` holds before the job; only for CPU_WRITES. */
  const char* (*fill)(void* client, const DxgkitClientJob* job, uint32_t index, void* view,
                      uint64_t view_bytes);
  /* Records the command buffer and lists; called again for the same job if it is to run twice. */
  const char* (*record)(void* client, DxgkitClientJob* job);
  /* Says whether allocation `index` holds what the job must have made; only for CPU_READS. */
  const char* (*check)(void* client, const DxgkitClientJob* job, uint32_t index, const void* view,
                       uint64_t view_bytes);

  /* As record, for a driver with GPU virtual addresses: what it needs is in the job's `addresses`.
   * Optional: such a driver's work is not exercised without it. pack_allocation is asked for an
   * allocation with DXGKIT_CLIENT_COMMANDS then, too. size_bytes may end before it. */
  const char* (*record_virtual)(void* client, DxgkitClientJob* job);
} DxgkitClient;

/* What the shared object exports. `version`: the host's DXGKIT_CLIENT_VERSION. Not NULL. */
const DxgkitClient* dxgkit_client(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif /* DXGKIT_CLIENT_H_ */
