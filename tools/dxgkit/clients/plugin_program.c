/* Does the jobs of a client plug-in as a program that knows only libdxcore.so. A recording of it
 * has what the plug-in knows, so that both can be compared.
 *
 * plugin_program PLUGIN.so JOBS NODES: so many jobs on each node, and the plug-in's escapes. */
#include <d3dkmthk.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/dxgkit/client_plugin.h"

#define ALLOCATIONS_MAX 16
#define DATA_MAX 4096
#define PATCHES_MAX 4096

static void* library;
static const DxgkitClient* plugin;
static void* client;
static D3DKMT_HANDLE adapter, device;

static void fail(const char* what, const char* why) {
  printf("%s: %s\n", what, why);
  exit(1);
}

static void must(const char* function, const char* error) {
  if (error != NULL) fail(function, error);
}

static void call(const char* name, void* arguments) {
  NTSTATUS (*function)(void*) = (NTSTATUS(*)(void*))dlsym(library, name);
  const NTSTATUS status = function != NULL ? function(arguments) : -1;
  char text[16];
  snprintf(text, sizeof text, "0x%08X", (unsigned)status);
  if (status < 0) fail(name, text);
}

static void* lock(D3DKMT_HANDLE allocation) {
  D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = allocation};
  call("D3DKMTLock2", &lock);
  return lock.pData;
}

static void unlock(D3DKMT_HANDLE allocation) {
  D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = allocation};
  call("D3DKMTUnlock2", &unlock);
}

static void open_plugin(const char* path, uint32_t nodes) {
  void* const shared = dlopen(path, RTLD_NOW);
  if (shared == NULL) fail(path, dlerror());
  const DxgkitClient* (*entry)(uint32_t) =
      (const DxgkitClient* (*)(uint32_t))dlsym(shared, "dxgkit_client");
  if (entry == NULL) fail(path, "it is no client plug-in");
  plugin = entry(DXGKIT_CLIENT_VERSION);
  void* const data = calloc(1, plugin->umd_private_bytes + 1);
  if (plugin->fill_umd_private != NULL) plugin->fill_umd_private(data, plugin->umd_private_bytes);
  D3DKMT_QUERYADAPTERINFO query = {.hAdapter = adapter,
                                   .Type = KMTQAITYPE_UMDRIVERPRIVATE,
                                   .pPrivateDriverData = data,
                                   .PrivateDriverDataSize = plugin->umd_private_bytes};
  if (plugin->umd_private_bytes != 0) call("D3DKMTQueryAdapterInfo", &query);
  const DxgkitClientAdapter facts = {
      .node_count = nodes, .umd_private_bytes = plugin->umd_private_bytes, .umd_private = data};
  must("open", plugin->open(&facts, &client));
  free(data);
}

static void escapes(void) {
  static uint8_t data[DATA_MAX];
  uint32_t bytes = 0;
  for (uint32_t index = 0; plugin->example != NULL; ++index) {
    must("example",
         plugin->example(client, DXGKIT_CLIENT_DATA_ESCAPE, index, data, sizeof data, &bytes));
    if (bytes == 0) return;
    D3DKMT_ESCAPE escape = {.hAdapter = adapter,
                            .hDevice = device,
                            .Type = D3DKMT_ESCAPE_DRIVERPRIVATE,
                            .pPrivateDriverData = data,
                            .PrivateDriverDataSize = bytes};
    call("D3DKMTEscape", &escape);
  }
}

/* The allocations of a job, filled. */
static void make(DxgkitClientJob* job, DxgkitClientHandle* handles, D3DKMT_HANDLE* allocations) {
  static uint8_t data[ALLOCATIONS_MAX][DATA_MAX];
  D3DDDI_ALLOCATIONINFO2 infos[ALLOCATIONS_MAX] = {0};
  DxgkitClientAllocation wanted[ALLOCATIONS_MAX];
  must("plan",
       plugin->plan(client, job->seed, job->node, wanted, ALLOCATIONS_MAX, &job->allocation_count));
  for (uint32_t i = 0; i < job->allocation_count; ++i) {
    uint32_t bytes = 0;
    must("pack_allocation", plugin->pack_allocation(client, &wanted[i], data[i], DATA_MAX, &bytes));
    infos[i].pPrivateDriverData = data[i];
    infos[i].PrivateDriverDataSize = bytes;
  }
  D3DKMT_CREATEALLOCATION create = {
      .hDevice = device, .NumAllocations = job->allocation_count, .pAllocationInfo2 = infos};
  call("D3DKMTCreateAllocation2", &create);
  job->allocations = handles;
  for (uint32_t i = 0; i < job->allocation_count; ++i) {
    allocations[i] = infos[i].hAllocation;
    handles[i].wanted = wanted[i];
    handles[i].private_data = data[i];
    handles[i].private_bytes = infos[i].PrivateDriverDataSize;
  }
  for (uint32_t i = 0; i < job->allocation_count; ++i) {
    if ((wanted[i].usage & DXGKIT_CLIENT_CPU_WRITES) == 0) continue;
    void* const view = lock(allocations[i]);
    must("fill", plugin->fill(client, job, i, view, wanted[i].size_bytes));
    unlock(allocations[i]);
  }
}

static void submit(DxgkitClientJob* job, const D3DKMT_HANDLE* allocations,
                   D3DKMT_CREATECONTEXT* context) {
  static DxgkitClientPatch patches[PATCHES_MAX];
  const uint32_t list = context->AllocationListSize;
  DxgkitClientUse* const uses = calloc(list, sizeof(*uses));
  job->commands = context->pCommandBuffer;
  job->command_bytes_max = context->CommandBufferSize;
  job->uses = uses;
  job->use_count_max = list;
  job->patches = patches;
  job->patch_count_max =
      context->PatchLocationListSize < PATCHES_MAX ? context->PatchLocationListSize : PATCHES_MAX;
  must("record", plugin->record(client, job));
  for (uint32_t i = 0; i < job->use_count; ++i) {
    D3DDDI_ALLOCATIONLIST* const one = &context->pAllocationList[i];
    memset(one, 0, sizeof(*one));
    if (uses[i].allocation != DXGKIT_CLIENT_NO_ALLOCATION)
      one->hAllocation = allocations[uses[i].allocation];
    one->WriteOperation = uses[i].write;
  }
  memcpy(context->pPatchLocationList, patches, job->patch_count * sizeof(patches[0]));
  D3DKMT_RENDER render = {.hContext = context->hContext,
                          .CommandLength = job->command_bytes,
                          .AllocationCount = job->use_count,
                          .PatchLocationCount = job->patch_count};
  call("D3DKMTRender", &render);
  if (render.pNewCommandBuffer != NULL) {
    context->pCommandBuffer = render.pNewCommandBuffer;
    context->CommandBufferSize = render.NewCommandBufferSize;
    context->pAllocationList = render.pNewAllocationList;
    context->AllocationListSize = render.NewAllocationListSize;
    context->pPatchLocationList = render.pNewPatchLocationList;
    context->PatchLocationListSize = render.NewPatchLocationListSize;
  }
  free(uses);
}

static void run(uint64_t seed, uint32_t node, D3DKMT_CREATECONTEXT* context) {
  DxgkitClientHandle handles[ALLOCATIONS_MAX] = {0};
  D3DKMT_HANDLE allocations[ALLOCATIONS_MAX];
  DxgkitClientJob job = {.seed = seed, .node = node};
  make(&job, handles, allocations);
  submit(&job, allocations, context);
  const D3DKMT_WAITFORIDLE wait = {.hDevice = device};
  call("D3DKMTWaitForIdle", (void*)&wait);
  for (uint32_t i = 0; i < job.allocation_count; ++i) {
    if ((handles[i].wanted.usage & DXGKIT_CLIENT_CPU_READS) == 0) continue;
    void* const view = lock(allocations[i]);
    must("check", plugin->check(client, &job, i, view, handles[i].wanted.size_bytes));
    unlock(allocations[i]);
  }
  D3DKMT_DESTROYALLOCATION2 destroy = {
      .hDevice = device, .phAllocationList = allocations, .AllocationCount = job.allocation_count};
  call("D3DKMTDestroyAllocation2", &destroy);
}

int main(int argc, char** argv) {
  if (argc != 4) return fputs("plugin_program PLUGIN.so JOBS NODES\n", stderr), 2;
  const uint64_t jobs = strtoull(argv[2], NULL, 10);
  const uint32_t nodes = (uint32_t)strtoul(argv[3], NULL, 10);
  if ((library = dlopen("libdxcore.so", RTLD_NOW)) == NULL) return puts(dlerror()), 1;
  D3DKMT_ADAPTERINFO adapters[8];
  D3DKMT_ENUMADAPTERS2 all = {.NumAdapters = 8, .pAdapters = adapters};
  call("D3DKMTEnumAdapters2", &all);
  if (all.NumAdapters == 0) return puts("there is no adapter"), 1;
  adapter = adapters[0].hAdapter;
  open_plugin(argv[1], nodes);
  D3DKMT_CREATEDEVICE create = {.hAdapter = adapter};
  call("D3DKMTCreateDevice", &create);
  device = create.hDevice;
  escapes();
  for (uint32_t node = 0; node < nodes; ++node) {
    static uint8_t data[DATA_MAX];
    uint32_t bytes = 0;
    if (plugin->pack_context != NULL)
      must("pack_context", plugin->pack_context(client, node, data, sizeof data, &bytes));
    D3DKMT_CREATECONTEXT context = {.hDevice = device,
                                    .NodeOrdinal = node,
                                    .pPrivateDriverData = bytes == 0 ? NULL : data,
                                    .PrivateDriverDataSize = bytes};
    call("D3DKMTCreateContext", &context);
    for (uint64_t seed = 1; seed <= jobs; ++seed) run(seed, node, &context);
    const D3DKMT_DESTROYCONTEXT destroy = {.hContext = context.hContext};
    call("D3DKMTDestroyContext", (void*)&destroy);
  }
  plugin->close(client);
  printf("%llu jobs on each of %u nodes\n", (unsigned long long)jobs, nodes);
  return 0;
}
