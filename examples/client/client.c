/* A client that knows nothing of dxgkit but the name of a library: it finds an adapter, writes
 * memory that the GPU sees, and waits for a fence. Run it with `dxgkit run-client -- ./client`. */
#include <d3dkmthk.h>
#include <dlfcn.h>
#include <dxgkit/softgpu_umd.h>
#include <stdio.h>
#include <string.h>

static void* library;

#define CALL(name, arguments)                                                         \
  do {                                                                                \
    NTSTATUS (*call)(void*) = (NTSTATUS(*)(void*))dlsym(library, #name);              \
    const NTSTATUS status = call != NULL ? call(arguments) : -1;                      \
    if (status < 0) return printf("%s answers 0x%08X\n", #name, (unsigned)status), 1; \
  } while (0)

int main(void) {
  if ((library = dlopen("libdxcore.so", RTLD_NOW)) == NULL) return puts(dlerror()), 1;
  D3DKMT_ADAPTERINFO adapters[8];
  D3DKMT_ENUMADAPTERS2 all = {.NumAdapters = 8, .pAdapters = adapters};
  CALL(D3DKMTEnumAdapters2, &all);
  if (all.NumAdapters == 0) return puts("there is no adapter"), 1;
  D3DKMT_CREATEDEVICE device = {.hAdapter = adapters[0].hAdapter};
  CALL(D3DKMTCreateDevice, &device);

  SgpuUmdAllocation wanted = {.magic = SGPU_UMD_ALLOCATION_MAGIC, .version = SGPU_UMD_VERSION};
  wanted.placement = SGPU_UMD_PLACE_STAGING;
  wanted.size_bytes = 4096;
  D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &wanted,
                                 .PrivateDriverDataSize = sizeof wanted};
  D3DKMT_CREATEALLOCATION create = {
      .hDevice = device.hDevice, .NumAllocations = 1, .pAllocationInfo2 = &info};
  CALL(D3DKMTCreateAllocation2, &create);
  D3DKMT_LOCK2 lock = {.hDevice = device.hDevice, .hAllocation = info.hAllocation};
  CALL(D3DKMTLock2, &lock);
  memset(lock.pData, 0x5A, 4096);
  D3DKMT_UNLOCK2 unlock = {.hDevice = device.hDevice, .hAllocation = info.hAllocation};
  CALL(D3DKMTUnlock2, &unlock);

  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {.hDevice = device.hDevice,
                                               .Info.Type = D3DDDI_MONITORED_FENCE};
  CALL(D3DKMTCreateSynchronizationObject2, &fence);
  const UINT64 value = 7;
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {.hDevice = device.hDevice,
                                                      .ObjectCount = 1,
                                                      .ObjectHandleArray = &fence.hSyncObject,
                                                      .FenceValueArray = &value};
  CALL(D3DKMTSignalSynchronizationObjectFromCpu, &signal);
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {.hDevice = device.hDevice,
                                                     .ObjectCount = 1,
                                                     .ObjectHandleArray = &fence.hSyncObject,
                                                     .FenceValueArray = &value};
  CALL(D3DKMTWaitForSynchronizationObjectFromCpu, &wait);
  printf("%u adapter, 4096 bytes written, the fence is at %llu\n", (unsigned)all.NumAdapters,
         *(unsigned long long*)fence.Info.MonitoredFence.FenceValueCPUVirtualAddress);
  return 0;
}
