/* Draws on the virtio GPU by D3DKMT, as a program that loads libdxcore.so, and holds each picture
 * until it is told to go on: it prints "picture NUMBER WIDTHxHEIGHT", and waits for a line. What
 * the pictures are is in screen.py, too. */
#include <d3dkmthk.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "miniports/virtiogpu/virtiogpu_umd.h"

static void* library;

#define CALL(name, arguments)                                                         \
  do {                                                                                \
    NTSTATUS (*call)(void*) = (NTSTATUS(*)(void*))dlsym(library, #name);              \
    const NTSTATUS status = call != NULL ? call(arguments) : -1;                      \
    if (status < 0) return printf("%s answers 0x%08X\n", #name, (unsigned)status), 1; \
  } while (0)

static D3DKMT_HANDLE device;
static uint32_t width, height;

/* Blue, green and red of a pixel. */
static uint32_t pixel_of(uint32_t number, uint32_t x, uint32_t y) {
  return ((x * 7 + number * 90) % 256) << 16 | ((y * 11 + number * 50) % 256) << 8 |
         (x + y * 3 + number * 21) % 256;
}

static int make_primary(D3DKMT_HANDLE* primary) {
  VgpuUmdAllocation data = {.magic = VGPU_UMD_ALLOCATION_MAGIC,
                            .version = VGPU_UMD_VERSION,
                            .width = width,
                            .height = height};
  D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
  info.Flags.Primary = 1;
  D3DKMT_CREATEALLOCATION create = {
      .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
  CALL(D3DKMTCreateAllocation2, &create);
  *primary = info.hAllocation;
  return 0;
}

static int draw(D3DKMT_HANDLE surface, uint32_t number) {
  D3DKMT_LOCK lock = {.hDevice = device, .hAllocation = surface};
  CALL(D3DKMTLock, &lock);
  uint32_t* pixel = lock.pData;
  for (uint32_t y = 0; y < height; ++y)
    for (uint32_t x = 0; x < width; ++x) *pixel++ = pixel_of(number, x, y);
  D3DKMT_UNLOCK unlock = {.hDevice = device, .NumAllocations = 1, .phAllocations = &surface};
  CALL(D3DKMTUnlock, &unlock);
  return 0;
}

/* Transfers a rectangle to the device, and flushes it. */
static int bring(const D3DKMT_CREATECONTEXT* context, D3DKMT_HANDLE surface, uint32_t x, uint32_t y,
                 uint32_t columns, uint32_t rows) {
  VgpuUmdRectangle commands[2];
  memset(commands, 0, sizeof commands);
  for (uint32_t i = 0; i < 2; ++i) {
    commands[i].header.type = VGPU_UMD_TRANSFER_TO_HOST + i;
    commands[i].header.size_bytes = sizeof commands[i];
    commands[i].x = x;
    commands[i].y = y;
    commands[i].width = columns;
    commands[i].height = rows;
  }
  if (context->CommandBufferSize < sizeof commands) return puts("no room for commands"), 1;
  memcpy(context->pCommandBuffer, commands, sizeof commands);
  memset(context->pAllocationList, 0, sizeof *context->pAllocationList);
  context->pAllocationList[0].hAllocation = surface;
  D3DKMT_RENDER render = {
      .hContext = context->hContext, .CommandLength = sizeof commands, .AllocationCount = 1};
  CALL(D3DKMTRender, &render);
  return 0;
}

static int flip(D3DKMT_HANDLE context, D3DKMT_HANDLE primary, D3DDDI_FLIPINTERVAL_TYPE interval) {
  D3DKMT_PRESENT present = {.hContext = context, .hSource = primary, .FlipInterval = interval};
  present.Flags.Flip = 1;
  CALL(D3DKMTPresent, &present);
  return 0;
}

/* Somebody looks at the screen now. */
static int hold(uint32_t number) {
  printf("picture %u %ux%u\n", (unsigned)number, (unsigned)width, (unsigned)height);
  fflush(stdout);
  char line[16];
  return fgets(line, sizeof line, stdin) == NULL;
}

static int set_mode(D3DKMT_HANDLE primary) {
  const D3DKMT_VIDPNSOURCEOWNER_TYPE type = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE;
  const D3DDDI_VIDEO_PRESENT_SOURCE_ID source = 0;
  D3DKMT_SETVIDPNSOURCEOWNER own = {
      .hDevice = device, .pType = &type, .pVidPnSourceId = &source, .VidPnSourceCount = 1};
  CALL(D3DKMTSetVidPnSourceOwner, &own);
  D3DKMT_SETDISPLAYMODE mode = {.hDevice = device, .hPrimaryAllocation = primary};
  CALL(D3DKMTSetDisplayMode, &mode);
  return 0;
}

static int open_device(void) {
  D3DKMT_ADAPTERINFO adapters[2];
  D3DKMT_ENUMADAPTERS2 all = {.NumAdapters = 2, .pAdapters = adapters};
  CALL(D3DKMTEnumAdapters2, &all);
  if (all.NumAdapters == 0) return puts("there is no adapter"), 1;
  VgpuUmdAdapterInfo info;
  memset(&info, 0, sizeof info);
  D3DKMT_QUERYADAPTERINFO query = {.hAdapter = adapters[0].hAdapter,
                                   .Type = KMTQAITYPE_UMDRIVERPRIVATE,
                                   .pPrivateDriverData = &info,
                                   .PrivateDriverDataSize = sizeof info};
  CALL(D3DKMTQueryAdapterInfo, &query);
  width = info.preferred_width;
  height = info.preferred_height;
  D3DKMT_CREATEDEVICE create = {.hAdapter = adapters[0].hAdapter};
  CALL(D3DKMTCreateDevice, &create);
  device = create.hDevice;
  return 0;
}

int main(void) {
  if ((library = dlopen("libdxcore.so", RTLD_NOW)) == NULL) return puts(dlerror()), 1;
  if (open_device() != 0) return 1;
  D3DKMT_CREATECONTEXT context = {.hDevice = device};
  CALL(D3DKMTCreateContext, &context);
  D3DKMT_HANDLE primaries[2];
  for (uint32_t i = 0; i < 2; ++i) {
    if (make_primary(&primaries[i]) != 0 || draw(primaries[i], i) != 0) return 1;
  }
  if (set_mode(primaries[0]) != 0 || hold(0) != 0) return 1;
  if (flip(context.hContext, primaries[1], D3DDDI_FLIPINTERVAL_ONE) != 0 || hold(1) != 0) return 1;
  /* All of it is drawn anew, and a part of that comes to the screen. */
  if (draw(primaries[1], 2) != 0) return 1;
  if (bring(&context, primaries[1], 13, 9, 60, 41) != 0 || hold(2) != 0) return 1;
  if (flip(context.hContext, primaries[0], D3DDDI_FLIPINTERVAL_IMMEDIATE) != 0 || hold(0) != 0)
    return 1;
  return 0;
}
