/* A client that times its own calls, and knows nothing of dxgkit but libdxcore.so. Which library it
 * finds decides where the kernel is: in its process, or behind a socket. process_lines.py runs it
 * with both. Prints one figure a line: its name, and nanoseconds or bytes per second. */
#include <d3dkmthk.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "miniports/softgpu/softgpu_umd.h"

enum { kRounds = 2000, kSleeps = 200, kBurst = 64, kBursts = 100, kCopies = 24 };
static const uint64_t kWorkNs = 100000; /* long enough for every thread to go to sleep */
static const size_t kLocked = 16 << 20;

static void* library;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Ends the program when the call fails: a figure of a failing call would be a lie. */
static void call(const char* name, void* arguments) {
  NTSTATUS (*function)(void*) = (NTSTATUS(*)(void*))dlsym(library, name);
  const NTSTATUS status = function != NULL ? function(arguments) : -1;
  if (status >= 0) return;
  fprintf(stderr, "%s answers 0x%08X\n", name, (unsigned)status);
  exit(1);
}

static NTSTATUS (*render_call)(const D3DKMT_RENDER*);
static NTSTATUS (*signal_call)(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU*);
static NTSTATUS (*wait_call)(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU*);

static D3DKMT_HANDLE device, fence;
static _Atomic uint64_t* fence_value;
static D3DKMT_CREATECONTEXT context;
static void* commands;
static uint64_t last;

static int by_size(const void* a, const void* b) {
  const int64_t x = *(const int64_t*)a, y = *(const int64_t*)b;
  return (x > y) - (x < y);
}

static int64_t median(int64_t* values, size_t count) {
  qsort(values, count, sizeof *values, by_size);
  return values[count / 2];
}

static void fail_unless(NTSTATUS status, const char* name) {
  if (status >= 0) return;
  fprintf(stderr, "%s answers 0x%08X\n", name, (unsigned)status);
  exit(1);
}

/* One packet that keeps the engine for `work_ns`. */
static void render(uint64_t work_ns) {
  struct {
    SgpuUmdBufferHeader header;
    SgpuUmdDelay delay;
  } buffer = {
      .header = {SGPU_UMD_BUFFER_MAGIC, SGPU_UMD_VERSION, sizeof buffer, 0},
      .delay = {.header = {SGPU_UMD_OP_DELAY, sizeof(SgpuUmdDelay)}, .duration_ns = work_ns}};
  memcpy(commands, &buffer, sizeof buffer);
  D3DKMT_RENDER render = {.hContext = context.hContext, .CommandLength = sizeof buffer};
  fail_unless(render_call(&render), "D3DKMTRender");
  if (render.pNewCommandBuffer != NULL) commands = render.pNewCommandBuffer;
}

static void signal_next(void) {
  ++last;
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {.hContext = context.hContext,
                                                      .ObjectCount = 1,
                                                      .ObjectHandleArray = &fence,
                                                      .MonitoredFenceValueArray = &last};
  fail_unless(signal_call(&signal), "D3DKMTSignalSynchronizationObjectFromGpu");
}

static void wait_awake(void) {
  while (atomic_load_explicit(fence_value, memory_order_acquire) < last) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

static void wait_asleep(void) {
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
      .hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &fence, .FenceValueArray = &last};
  fail_unless(wait_call(&wait), "D3DKMTWaitForSynchronizationObjectFromCpu");
}

static void open_everything(void) {
  D3DKMT_ADAPTERINFO adapters[8];
  D3DKMT_ENUMADAPTERS2 all = {.NumAdapters = 8, .pAdapters = adapters};
  call("D3DKMTEnumAdapters2", &all);
  if (all.NumAdapters == 0) {
    fputs("there is no adapter\n", stderr);
    exit(1);
  }
  D3DKMT_CREATEDEVICE create_device = {.hAdapter = adapters[0].hAdapter};
  call("D3DKMTCreateDevice", &create_device);
  device = create_device.hDevice;
  context.hDevice = device;
  call("D3DKMTCreateContext", &context);
  commands = context.pCommandBuffer;
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device,
                                                .Info.Type = D3DDDI_MONITORED_FENCE};
  call("D3DKMTCreateSynchronizationObject2", &create);
  fence = create.hSyncObject;
  fence_value = create.Info.MonitoredFence.FenceValueCPUVirtualAddress;
  *(void**)&render_call = dlsym(library, "D3DKMTRender");
  *(void**)&signal_call = dlsym(library, "D3DKMTSignalSynchronizationObjectFromGpu");
  *(void**)&wait_call = dlsym(library, "D3DKMTWaitForSynchronizationObjectFromCpu");
}

static void time_round_trips(void) {
  static int64_t times[kRounds];
  for (int i = 0; i < kRounds; ++i) {
    const int64_t begin = now();
    render(0);
    signal_next();
    wait_awake();
    times[i] = now() - begin;
  }
  printf("roundtrip_ns %lld\n", (long long)median(times, kRounds));
  for (int i = 0; i < kSleeps; ++i) {
    const int64_t begin = now();
    render(kWorkNs);
    signal_next();
    wait_asleep();
    times[i] = now() - begin - (int64_t)kWorkNs;
  }
  printf("asleep_ns %lld\n", (long long)median(times, kSleeps));
}

static void time_packets(void) {
  static int64_t times[kBursts];
  for (int i = 0; i < kBursts; ++i) {
    const int64_t begin = now();
    for (int packet = 0; packet < kBurst; ++packet) render(0);
    signal_next();
    wait_awake();
    times[i] = now() - begin;
  }
  printf("packets_per_second %.0f\n", kBurst * 1e9 / (double)median(times, kBursts));
}

/* Lock, write all of it, unlock. */
static void time_locked_memory(void) {
  SgpuUmdAllocation wanted = {.magic = SGPU_UMD_ALLOCATION_MAGIC,
                              .version = SGPU_UMD_VERSION,
                              .placement = SGPU_UMD_PLACE_STAGING,
                              .size_bytes = kLocked};
  D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &wanted,
                                 .PrivateDriverDataSize = sizeof wanted};
  D3DKMT_CREATEALLOCATION create = {
      .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
  call("D3DKMTCreateAllocation2", &create);
  char* const source = malloc(kLocked);
  char* const destination = malloc(kLocked);
  if (source == NULL || destination == NULL) exit(1);
  memset(destination, 1, kLocked);
  int64_t locked[kCopies], plain[kCopies];
  for (int i = 0; i < kCopies; ++i) {
    memset(source, i, kLocked); /* other content each time: nothing may be left out as unchanged */
    int64_t begin = now();
    D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = info.hAllocation};
    call("D3DKMTLock2", &lock);
    memcpy(lock.pData, source, kLocked);
    D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = info.hAllocation};
    call("D3DKMTUnlock2", &unlock);
    locked[i] = now() - begin;
    begin = now();
    memcpy(destination, source, kLocked);
    plain[i] = now() - begin;
  }
  printf("locked_bytes_per_second %.0f\n", (double)kLocked * 1e9 / (double)median(locked, kCopies));
  printf("memcpy_bytes_per_second %.0f\n", (double)kLocked * 1e9 / (double)median(plain, kCopies));
  free(source);
  free(destination);
}

int main(void) {
  if ((library = dlopen("libdxcore.so", RTLD_NOW)) == NULL)
    return fprintf(stderr, "%s\n", dlerror()), 1;
  open_everything();
  time_round_trips();
  time_packets();
  time_locked_memory();
  return 0;
}
