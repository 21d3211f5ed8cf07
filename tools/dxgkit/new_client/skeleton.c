/* The client plug-in of a driver: what its user-mode half knows, as far as one copy needs it.
 *
 *     cc -shared -fPIC -o skeleton.so skeleton.c
 *     dxgkit verify DRIVER.sys --client skeleton.so
 *
 * A job copies one allocation to another. The job is complete but for what only you know: the
 * functions that return NOT_WRITTEN. `dxgkit verify` prints that sentence for each of them until
 * you have written it. dxgkit/client_plugin.h describes the interface. */
#include <dxgkit/client_plugin.h>
#include <stddef.h>
#include <string.h>

#define NOT_WRITTEN(what) "skeleton.c: " what " is not written yet"
enum { kSource, kDestination, kAllocations };

/* Sizes that are not round find most: the last page of an allocation is then not full. */
static uint64_t bytes_of(uint64_t seed) { return 4096 * (1 + seed % 29) + 4 * (seed % 7); }

static unsigned char byte_of(uint64_t seed, uint64_t at) {
  return (unsigned char)((seed * 31 + at) * 167 >> 3);
}

static int matches(uint16_t vendor_id, uint16_t device_id) {
  /* Write: the ids of your device. A wrong --device is then said at once. */
  (void)vendor_id;
  (void)device_id;
  return 1;
}

static const char* open_client(const DxgkitClientAdapter* adapter, void** client) {
  /* What you keep of an adapter. The functions below get it as `client`. */
  (void)adapter;
  *client = NULL;
  return NULL;
}
static void close_client(void* client) { (void)client; }

static const char* pack_allocation(void* client, const DxgkitClientAllocation* wanted, void* data,
                                   uint32_t capacity, uint32_t* bytes) {
  /* Write: the pPrivateDriverData with which your user mode asks for wanted->size_bytes bytes, for
   * the use in wanted->usage. *bytes is how many you wrote. */
  (void)client;
  (void)wanted;
  (void)data;
  (void)capacity;
  *bytes = 0;
  return NOT_WRITTEN("pack_allocation");
}

static const char* plan(void* client, uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted,
                        uint32_t capacity, uint32_t* count) {
  (void)client;
  (void)node;
  if (capacity < kAllocations) return "a job needs two allocations";
  memset(wanted, 0, kAllocations * sizeof(*wanted));
  wanted[kSource].size_bytes = wanted[kDestination].size_bytes = bytes_of(seed);
  wanted[kSource].usage = DXGKIT_CLIENT_CPU_WRITES;
  wanted[kDestination].usage =
      DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_GPU_WRITES | DXGKIT_CLIENT_CPU_READS;
  *count = kAllocations;
  return NULL;
}

static const char* fill(void* client, const DxgkitClientJob* job, uint32_t index, void* view,
                        uint64_t view_bytes) {
  (void)client;
  const uint64_t bytes = job->allocations[index].wanted.size_bytes;
  if (view_bytes < bytes) return "the view is smaller than the allocation";
  unsigned char* out = view;
  for (uint64_t at = 0; at < bytes; ++at)
    out[at] = index == kSource ? byte_of(job->seed, at) : (unsigned char)0xCC;
  return NULL;
}

static const char* record(void* client, DxgkitClientJob* job) {
  /* The allocation list. Your commands name its elements. */
  (void)client;
  if (job->use_count_max < kAllocations) return "the allocation list is too small";
  job->uses[kSource] = (DxgkitClientUse){.allocation = kSource, .write = 0};
  job->uses[kDestination] = (DxgkitClientUse){.allocation = kDestination, .write = 1};
  job->use_count = kAllocations;
  job->patch_count = 0; /* Unless your user mode makes the patch list. */
  /* Write: the commands that copy the source to the destination, in job->commands, at most
   * job->command_bytes_max bytes. More commands find more: copy in several parts, at offsets. */
  job->command_bytes = 0;
  return NOT_WRITTEN("record");
}

static const char* record_virtual(void* client, DxgkitClientJob* job) {
  /* Write this instead of `record` if your driver has GPU virtual addresses: the same commands,
   * with job->addresses. A driver with both models needs both functions. */
  (void)client;
  job->command_bytes = 0;
  job->private_bytes = 0;
  return NOT_WRITTEN("record_virtual");
}

static const char* check(void* client, const DxgkitClientJob* job, uint32_t index, const void* view,
                         uint64_t view_bytes) {
  (void)client;
  const uint64_t bytes = job->allocations[index].wanted.size_bytes;
  if (view_bytes < bytes) return "the view is smaller than the allocation";
  const unsigned char* found = view;
  for (uint64_t at = 0; at < bytes; ++at)
    if (found[at] != byte_of(job->seed, at)) return "the copy is wrong";
  return NULL;
}

/* Members that are missing here are optional: see the header. With record_overreach, `verify` tries
 * commands that your driver must refuse, and with example and judge private data that is wrong. */
static const DxgkitClient kClient = {
    .version = DXGKIT_CLIENT_VERSION,
    .size_bytes = sizeof(DxgkitClient),
    .name = "skeleton",
    .matches = matches,
    .open = open_client,
    .close = close_client,
    .pack_allocation = pack_allocation,
    .plan = plan,
    .fill = fill,
    .record = record,
    .check = check,
    .record_virtual = record_virtual,
};

const DxgkitClient* dxgkit_client(uint32_t version) {
  (void)version; /* The host takes a plug-in of an older version too. */
  return &kClient;
}
