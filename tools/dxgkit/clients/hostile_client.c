/* Client plug-ins that are wrong in one way each, for tests: -DHOSTILE_VERSION, ... */
#include <stddef.h>

#include "tools/dxgkit/client_plugin.h"

static const char* refuse_open(const DxgkitClientAdapter* adapter, void** client) {
  (void)adapter;
  (void)client;
  return "it refuses every adapter";
}
static void close_client(void* client) { (void)client; }
static const char* pack_allocation(void* client, const DxgkitClientAllocation* wanted, void* data,
                                   uint32_t capacity, uint32_t* bytes) {
  (void)client;
  (void)wanted;
  (void)data;
  *bytes = capacity + 1;
  return NULL;
}
static const char* plan(void* client, uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted,
                        uint32_t capacity, uint32_t* count) {
  (void)client;
  (void)seed;
  (void)node;
  (void)wanted;
  *count = capacity + 1;
  return NULL;
}
static const char* fill(void* client, const DxgkitClientJob* job, uint32_t index, void* view,
                        uint64_t view_bytes) {
  (void)client;
  (void)job;
  (void)index;
  (void)view;
  (void)view_bytes;
  return NULL;
}
static const char* record(void* client, DxgkitClientJob* job) {
  (void)client;
  job->command_bytes = job->command_bytes_max + 1;
  return NULL;
}
static const char* check(void* client, const DxgkitClientJob* job, uint32_t index, const void* view,
                         uint64_t view_bytes) {
  return fill(client, job, index, (void*)view, view_bytes);
}

#if defined(HOSTILE_OPEN)
#define OPEN refuse_open
#elif defined(HOSTILE_PLAN)
static const char* open_client(const DxgkitClientAdapter* adapter, void** client) {
  (void)adapter;
  *client = NULL;
  return NULL;
}
#define OPEN open_client
#else
#define OPEN refuse_open
#endif

#if !defined(HOSTILE_SYMBOL)
const DxgkitClient* dxgkit_client(uint32_t version) {
  static const DxgkitClient kClient = {
#if defined(HOSTILE_VERSION)
    .version = DXGKIT_CLIENT_VERSION + 1,
#else
    .version = DXGKIT_CLIENT_VERSION,
#endif
#if defined(HOSTILE_SIZE)
    .size_bytes = offsetof(DxgkitClient, record_virtual) - 8,
#else
    .size_bytes = sizeof(DxgkitClient),
#endif
    .name = "hostile",
    .open = OPEN,
    .close = close_client,
    .pack_allocation = pack_allocation,
    .plan = plan,
    .fill = fill,
#if !defined(HOSTILE_FUNCTION)
    .record = record,
#endif
    .check = check
  };
  (void)version;
  (void)record;
#if defined(HOSTILE_NULL)
  return kClient.version == 0 ? &kClient : NULL;
#else
  return &kClient;
#endif
}
#else
int dxgkit_klient;
#endif
