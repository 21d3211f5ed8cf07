// A GPU with a ring, an engine that fills and copies, and memory of its own.
#include <dxgkit/device_plugin.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mygpu.h"

#define ENTRY_NS 2000  // that an entry of the ring takes, and each of its commands
#define COMMAND_NS 200

typedef struct Gpu {
  const DxgkitDeviceHost* host;
  unsigned char* memory;
  pthread_mutex_t lock;  // guards what follows; never held while the interrupt is raised
  GPU32 ring_low, ring_high, tail, head, fence, interrupt;
  int preempt;     // asked for
  int busy;        // a call of wake is on its way
  RING_ENTRY job;  // that the engine is at; its end is due at the next wake
  int has_job;
} Gpu;

static const char* open_gpu(const DxgkitDeviceHost* host, const DxgkitDeviceSetting* settings,
                            uint32_t count, void** device) {
  (void)settings;
  (void)count;
  Gpu* gpu = calloc(1, sizeof(*gpu));
  if (gpu == NULL) return "there is no memory for the device";
  gpu->host = host;
  pthread_mutex_init(&gpu->lock, NULL);
  *device = gpu;
  return NULL;
}

static void close_gpu(void* device) {
  pthread_mutex_destroy(&((Gpu*)device)->lock);
  free(device);
}

static const char* describe(void* device, uint32_t function, DxgkitDeviceFunction* out) {
  (void)device;
  (void)function;
  out->vendor_id = GPU_VENDOR;
  out->device_id = GPU_DEVICE;
  out->base_class = 0x03;  // display controller
  out->sub_class = 0x02;   // 3D, without a screen
  out->bars[0].kind = DXGKIT_DEVICE_BAR_REGISTERS;
  out->bars[0].size_bytes = GPU_BAR0_BYTES;
  out->bars[1].kind = DXGKIT_DEVICE_BAR_MEMORY;
  out->bars[1].size_bytes = GPU_MEMORY_BYTES;
  return NULL;
}

static void memory_is_at(void* device, uint32_t function, uint32_t bar, void* view,
                         uint64_t bytes) {
  (void)function;
  (void)bar;
  (void)bytes;
  ((Gpu*)device)->memory = view;
}

// --- the engine

// Where the CPU sees so many bytes of the GPU's memory; NULL: they are elsewhere.
static unsigned char* local(Gpu* gpu, GPU64 address, GPU64 bytes) {
  const GPU64 offset = address - GPU_MEMORY_BASE;  // wraps below the base
  if (offset > GPU_MEMORY_BYTES || bytes > GPU_MEMORY_BYTES - offset) return NULL;
  return gpu->memory + offset;
}

static int move_in(Gpu* gpu, GPU64 address, void* to, GPU64 bytes) {
  const unsigned char* from = local(gpu, address, bytes);
  if (from == NULL) return gpu->host->dma_read(gpu->host->host, address, to, bytes);
  memcpy(to, from, bytes);
  return 1;
}

static int move_out(Gpu* gpu, GPU64 address, const void* from, GPU64 bytes) {
  unsigned char* to = local(gpu, address, bytes);
  if (to == NULL) return gpu->host->dma_write(gpu->host->host, address, from, bytes);
  memcpy(to, from, bytes);
  return 1;
}

// In pieces, of which each is read before it is written. 0: an address is no memory.
static int execute(Gpu* gpu, const COMMAND* command) {
  unsigned char piece[4096];
  for (GPU64 done = 0; done < command->Bytes;) {
    GPU64 bytes = command->Bytes - done;
    if (bytes > sizeof(piece)) bytes = sizeof(piece);
    if (command->Operation == OPERATION_FILL) {
      for (GPU64 i = 0; i < bytes; ++i)
        piece[i] = (unsigned char)(command->Value >> (done + i) % 4 * 8);
    } else if (command->Operation != OPERATION_COPY ||
               !move_in(gpu, command->Source + done, piece, bytes)) {
      return 0;
    }
    if (!move_out(gpu, command->Destination + done, piece, bytes)) return 0;
    done += bytes;
  }
  return 1;
}

static void run_job(Gpu* gpu) {
  for (GPU32 i = 0; i < gpu->job.Count; ++i) {
    COMMAND command;
    if (move_in(gpu, gpu->job.Commands + i * sizeof(command), &command, sizeof(command)) &&
        execute(gpu, &command))
      continue;
    gpu->interrupt |= GPU_FAULTED;
    break;
  }
}

// Takes the next step, and says how long it takes; 0: there is nothing to do.
static uint64_t begin_next(Gpu* gpu) {
  if (gpu->preempt) {
    gpu->preempt = 0;
    gpu->head = gpu->tail;
    gpu->interrupt |= GPU_PREEMPTED;
  }
  if (gpu->head == gpu->tail) return 0;
  const GPU64 ring = (GPU64)gpu->ring_high << 32 | gpu->ring_low;
  const GPU64 at = ring + gpu->head % RING_ENTRIES * sizeof(RING_ENTRY);
  if (!gpu->host->dma_read(gpu->host->host, at, &gpu->job, sizeof(gpu->job))) {
    gpu->interrupt |= GPU_FAULTED;
    return 0;
  }
  gpu->has_job = 1;
  return ENTRY_NS + (uint64_t)COMMAND_NS * gpu->job.Count;
}

static void wake(void* device, uint64_t value) {
  Gpu* gpu = device;
  (void)value;
  pthread_mutex_lock(&gpu->lock);
  if (gpu->has_job) {
    run_job(gpu);
    gpu->has_job = 0;
    gpu->fence = gpu->job.Fence;
    ++gpu->head;
    gpu->interrupt |= GPU_COMPLETED;
  }
  const uint64_t next_ns = begin_next(gpu);
  gpu->busy = next_ns != 0;
  const int raises = gpu->interrupt != 0;
  pthread_mutex_unlock(&gpu->lock);
  if (next_ns != 0) gpu->host->wake_after(gpu->host->host, next_ns, 0);
  if (raises) gpu->host->raise(gpu->host->host, 0);
}

// --- registers

static uint64_t read_register(void* device, uint32_t function, uint32_t bar, uint64_t offset,
                              uint32_t bytes) {
  Gpu* gpu = device;
  (void)function;
  (void)bar;
  if (bytes != 4) return UINT64_MAX;
  pthread_mutex_lock(&gpu->lock);
  const GPU32 value = offset == REG_RING_LOW    ? gpu->ring_low
                      : offset == REG_RING_HIGH ? gpu->ring_high
                      : offset == REG_TAIL      ? gpu->tail
                      : offset == REG_HEAD      ? gpu->head
                      : offset == REG_FENCE     ? gpu->fence
                      : offset == REG_INTERRUPT ? gpu->interrupt
                      : offset == REG_ID        ? GPU_ID
                                                : 0;
  pthread_mutex_unlock(&gpu->lock);
  return value;
}

static void write_register(void* device, uint32_t function, uint32_t bar, uint64_t offset,
                           uint32_t bytes, uint64_t value) {
  Gpu* gpu = device;
  (void)function;
  (void)bar;
  if (bytes != 4) return;
  pthread_mutex_lock(&gpu->lock);
  int starts = 0;
  switch (offset) {
    case REG_RING_LOW:
      gpu->ring_low = (GPU32)value;
      break;
    case REG_RING_HIGH:
      gpu->ring_high = (GPU32)value;
      break;
    case REG_INTERRUPT:
      gpu->interrupt &= ~(GPU32)value;
      break;
    case REG_TAIL:
      gpu->tail = (GPU32)value;
      starts = !gpu->busy;
      break;
    case REG_PREEMPT:
      gpu->preempt = 1;
      starts = !gpu->busy;
      break;
    case REG_RESET:  // a wake that is on its way finds nothing to do
      gpu->has_job = gpu->preempt = 0;
      gpu->head = gpu->tail = gpu->interrupt = 0;
      break;
    default:
      break;
  }
  gpu->busy |= starts;
  pthread_mutex_unlock(&gpu->lock);
  if (starts) gpu->host->wake_after(gpu->host->host, ENTRY_NS, 0);
}

// Without power it forgets everything.
static void power(void* device, uint32_t function, uint32_t state) {
  Gpu* gpu = device;
  (void)function;
  if (state == DXGKIT_DEVICE_POWER_ON) return;
  pthread_mutex_lock(&gpu->lock);
  gpu->has_job = gpu->preempt = 0;
  gpu->ring_low = gpu->ring_high = gpu->tail = gpu->head = gpu->fence = gpu->interrupt = 0;
  memset(gpu->memory, 0xDB, GPU_MEMORY_BYTES);
  pthread_mutex_unlock(&gpu->lock);
}

static const DxgkitDevice kGpu = {
    .version = DXGKIT_DEVICE_VERSION,
    .size_bytes = sizeof(DxgkitDevice),
    .summary = "a GPU with a ring and an engine that fills and copies",
    .function_count = 1,
    .open = open_gpu,
    .close = close_gpu,
    .describe = describe,
    .memory = memory_is_at,
    .read = read_register,
    .write = write_register,
    .power = power,
    .wake = wake,
};
const DxgkitDevice* dxgkit_device(uint32_t version) {
  (void)version;
  return &kGpu;
}
