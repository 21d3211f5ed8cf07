/* A model of edu for tests: --device ./edu_device.so. The driver is written for the real one. */
#include <stdatomic.h>
#include <stdlib.h>

#include "devices/plugin/device_plugin.h"
#include "miniports/edu/edu_hw.h"

/* The real device transfers in 100 ms; a shorter time finds the same mistakes. */
#define TRANSFER_NS 100000ULL
#define FACTORIAL_NS 1000ULL

enum { WAKE_FACTORIAL, WAKE_DMA };

typedef struct Edu {
  const DxgkitDeviceHost* host;
  atomic_flag busy; /* guards what follows */
  uint32_t alive, factorial, status, interrupt;
  uint64_t source, destination, bytes, command;
  uint8_t buffer[EDU_BUFFER_BYTES];
} Edu;

static void lock(Edu* edu) {
  while (atomic_flag_test_and_set(&edu->busy)) {
  }
}
static void unlock(Edu* edu) { atomic_flag_clear(&edu->busy); }

static const char* edu_open(const DxgkitDeviceHost* host, const DxgkitDeviceSetting* settings,
                            uint32_t count, void** device) {
  (void)settings, (void)count;
  Edu* edu = calloc(1, sizeof *edu);
  if (edu == NULL) return "there is no memory";
  edu->host = host;
  atomic_flag_clear(&edu->busy);
  *device = edu;
  return NULL;
}

static void edu_close(void* device) { free(device); }

static const char* edu_describe(void* device, uint32_t function, DxgkitDeviceFunction* out) {
  (void)device, (void)function;
  out->vendor_id = EDU_VENDOR;
  out->device_id = EDU_DEVICE;
  out->revision = 0x10;
  out->sub_class = 0xFF;
  out->bars[0].kind = DXGKIT_DEVICE_BAR_REGISTERS;
  out->bars[0].size_bytes = EDU_BAR0_BYTES;
  return NULL;
}

static uint64_t edu_read(void* device, uint32_t function, uint32_t bar, uint64_t offset,
                         uint32_t bytes) {
  Edu* edu = device;
  uint64_t value = UINT64_MAX;
  (void)function, (void)bar;
  if (bytes != 4 && (offset < 0x80 || bytes != 8)) return value;
  lock(edu);
  switch (offset) {
    case EDU_REG_ID:
      value = 0x01000000 | EDU_ID;
      break;
    case EDU_REG_ALIVE:
      value = edu->alive;
      break;
    case EDU_REG_FACTORIAL:
      value = edu->factorial;
      break;
    case EDU_REG_STATUS:
      value = edu->status;
      break;
    case EDU_REG_INTERRUPT:
      value = edu->interrupt;
      break;
    case EDU_REG_DMA_SOURCE:
      value = edu->source;
      break;
    case EDU_REG_DMA_DESTINATION:
      value = edu->destination;
      break;
    case EDU_REG_DMA_BYTES:
      value = edu->bytes;
      break;
    case EDU_REG_DMA_COMMAND:
      value = edu->command;
      break;
    default:
      break;
  }
  unlock(edu);
  return value;
}

static void raise_bits(Edu* edu, uint32_t bits) {
  lock(edu);
  edu->interrupt |= bits;
  unlock(edu);
  edu->host->raise(edu->host->host, 0);
}

static void edu_write(void* device, uint32_t function, uint32_t bar, uint64_t offset,
                      uint32_t bytes, uint64_t value) {
  Edu* edu = device;
  uint64_t delay = 0;
  uint64_t what = 0;
  (void)function, (void)bar;
  if (bytes != 4 && (offset < 0x80 || bytes != 8)) return;
  if (offset == EDU_REG_RAISE) {
    raise_bits(edu, (uint32_t)value);
    return;
  }
  lock(edu);
  const int transferring = (edu->command & EDU_DMA_RUN) != 0;
  switch (offset) {
    case EDU_REG_ALIVE:
      edu->alive = ~(uint32_t)value;
      break;
    case EDU_REG_FACTORIAL:
      if (edu->status & EDU_STATUS_COMPUTING) break;
      edu->factorial = (uint32_t)value;
      edu->status |= EDU_STATUS_COMPUTING;
      delay = FACTORIAL_NS;
      what = WAKE_FACTORIAL;
      break;
    case EDU_REG_STATUS:
      edu->status = (edu->status & EDU_STATUS_COMPUTING) | ((uint32_t)value & EDU_STATUS_INTERRUPT);
      break;
    case EDU_REG_ACKNOWLEDGE:
      edu->interrupt &= ~(uint32_t)value;
      break;
    case EDU_REG_DMA_SOURCE:
      if (!transferring) edu->source = value;
      break;
    case EDU_REG_DMA_DESTINATION:
      if (!transferring) edu->destination = value;
      break;
    case EDU_REG_DMA_BYTES:
      if (!transferring) edu->bytes = value;
      break;
    case EDU_REG_DMA_COMMAND:
      if (transferring || (value & EDU_DMA_RUN) == 0) break;
      edu->command = value;
      delay = TRANSFER_NS;
      what = WAKE_DMA;
      break;
    default:
      break;
  }
  unlock(edu);
  if (delay != 0) edu->host->wake_after(edu->host->host, delay, what);
}

/* The place of a transfer in the buffer; NULL: it leaves the buffer. */
static uint8_t* in_buffer(Edu* edu, uint64_t address) {
  const uint64_t offset = address - EDU_BUFFER_BASE;
  if (offset > EDU_BUFFER_BYTES || edu->bytes > EDU_BUFFER_BYTES - offset) return NULL;
  return edu->buffer + offset;
}

static void finish_transfer(Edu* edu) {
  /* Only this thread touches the buffer, and the rest stands still while the transfer runs. */
  const int to_memory = (edu->command & EDU_DMA_TO_MEMORY) != 0;
  uint8_t* const place = in_buffer(edu, to_memory ? edu->source : edu->destination);
  if (place == NULL) return; /* the real one stops for good, too */
  /* An address without memory is not noticed: reads leave the buffer, and writes are lost. */
  if (to_memory)
    edu->host->dma_write(edu->host->host, edu->destination, place, edu->bytes);
  else
    edu->host->dma_read(edu->host->host, edu->source, place, edu->bytes);
  lock(edu);
  const int interrupts = (edu->command & EDU_DMA_INTERRUPT) != 0;
  edu->command &= ~(uint64_t)EDU_DMA_RUN;
  unlock(edu);
  if (interrupts) raise_bits(edu, EDU_DMA_DONE);
}

static void edu_wake(void* device, uint64_t what) {
  Edu* edu = device;
  if (what == WAKE_DMA) {
    finish_transfer(edu);
    return;
  }
  lock(edu);
  uint32_t result = 1;
  for (uint32_t n = edu->factorial; n > 1 && result != 0; --n) result *= n;
  edu->factorial = result;
  edu->status &= ~(uint32_t)EDU_STATUS_COMPUTING;
  const int interrupts = (edu->status & EDU_STATUS_INTERRUPT) != 0;
  unlock(edu);
  if (interrupts) raise_bits(edu, EDU_FACTORIAL_DONE);
}

static void edu_power(void* device, uint32_t function, uint32_t state) {
  Edu* edu = device;
  (void)function;
  if (state == DXGKIT_DEVICE_POWER_ON) return;
  lock(edu);
  edu->status &= EDU_STATUS_COMPUTING;
  edu->interrupt = 0;
  unlock(edu);
}

static const DxgkitDevice kDevice = {.version = DXGKIT_DEVICE_VERSION,
                                     .size_bytes = sizeof(DxgkitDevice),
                                     .summary = "a model of QEMU's edu",
                                     .function_count = 1,
                                     .open = edu_open,
                                     .close = edu_close,
                                     .describe = edu_describe,
                                     .read = edu_read,
                                     .write = edu_write,
                                     .power = edu_power,
                                     .wake = edu_wake};

const DxgkitDevice* dxgkit_device(uint32_t version);
const DxgkitDevice* dxgkit_device(uint32_t version) {
  (void)version;
  return &kDevice;
}
