/* An example of a device plug-in: an engine that copies system memory and interrupts when it is
 * through. Everything the interface offers is used once; copy what your device has.
 *
 *     cc -shared -fPIC -o copier_device.so copier_device.c
 *     dxgkit run --driver my_driver.sys --device ./copier_device.so,delay=1000
 *
 * BAR 0, registers of 32 bits at these offsets: */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "devices/plugin/device_plugin.h" /* installed: <dxgkit/device_plugin.h> */

#define REG_ID 0x00u     /* RO: COPIER_ID */
#define REG_FROM 0x04u   /* bus addresses: below 4 GiB */
#define REG_TO 0x08u     /* */
#define REG_BYTES 0x0Cu  /* 1 to 65536 */
#define REG_START 0x10u  /* a write starts the copy */
#define REG_STATUS 0x14u /* STATUS_*; what is written as 1 becomes 0 */
#define COPIER_ID 0x43505931u
#define STATUS_DONE 1u   /* the copy is done: the interrupt is up until this is written */
#define STATUS_FAILED 2u /* with DONE: an address led nowhere, nothing was copied */
/* BAR 2, 4096 bytes of memory: begins with the text "copier". BAR 4, 16 ports: the same registers,
 * as far as they go. */
#define BYTES_MAX 65536u

typedef struct Copier {
  const DxgkitDeviceHost* host;
  uint64_t delay_ns;
  atomic_uint from, to, bytes, status;
  unsigned char buffer[BYTES_MAX];
} Copier;

static const DxgkitDeviceOption kOptions[] = {
    {"delay", "NS", "what a copy takes, in nanoseconds (100000)"}};

static int read_delay(const DxgkitDeviceSetting* settings, uint32_t count, uint64_t* delay_ns) {
  *delay_ns = 100000;
  for (uint32_t i = 0; i < count; ++i) {
    char* end = NULL;
    *delay_ns = strtoull(settings[i].value, &end, 10); /* the only option there is */
    if (end == settings[i].value || *end != 0 || *delay_ns > 1000000000u) return 0;
  }
  return 1;
}

static const char* check(const DxgkitDeviceSetting* settings, uint32_t count) {
  uint64_t delay_ns = 0;
  return read_delay(settings, count, &delay_ns) ? NULL
                                                : "delay: a number of nanoseconds up to 1000000000";
}

static const char* open_device(const DxgkitDeviceHost* host, const DxgkitDeviceSetting* settings,
                               uint32_t count, void** device) {
  Copier* copier = calloc(1, sizeof(Copier));
  if (copier == NULL) return "there is no memory";
  copier->host = host;
  read_delay(settings, count, &copier->delay_ns);
  *device = copier;
  return NULL;
}

static void close_device(void* device) { free(device); }

static const char* describe(void* device, uint32_t function, DxgkitDeviceFunction* out) {
  /* Advanced Features: length 6, function level reset, control and status. */
  static const uint8_t kAdvancedFeatures[] = {6, 3, 0, 0};
  static const DxgkitDeviceCapability kCapabilities[] = {
      {0x13, sizeof(kAdvancedFeatures), {0}, kAdvancedFeatures, NULL}};
  (void)device;
  (void)function; /* there is only one */
  out->vendor_id = 0x1D4B;
  out->device_id = 0x0C09;
  out->base_class = 0x12; /* processing accelerator */
  out->capability_count = 1;
  out->capabilities = kCapabilities;
  out->bars[0].kind = DXGKIT_DEVICE_BAR_REGISTERS_64;
  out->bars[0].size_bytes = 4096;
  out->bars[2].kind = DXGKIT_DEVICE_BAR_MEMORY;
  out->bars[2].size_bytes = 4096;
  out->bars[2].content = "copier";
  out->bars[2].content_bytes = 6;
  out->bars[4].kind = DXGKIT_DEVICE_BAR_PORTS;
  out->bars[4].size_bytes = 16;
  return NULL;
}

static uint64_t read_register(void* device, uint32_t function, uint32_t bar, uint64_t offset,
                              uint32_t bytes) {
  Copier* copier = device;
  (void)function;
  (void)bar;
  if (bytes != 4) return UINT64_MAX;
  switch (offset) {
    case REG_ID:
      return COPIER_ID;
    case REG_FROM:
      return atomic_load(&copier->from);
    case REG_TO:
      return atomic_load(&copier->to);
    case REG_BYTES:
      return atomic_load(&copier->bytes);
    case REG_STATUS:
      return atomic_load(&copier->status);
    default:
      return 0;
  }
}

static void write_register(void* device, uint32_t function, uint32_t bar, uint64_t offset,
                           uint32_t bytes, uint64_t value) {
  Copier* copier = device;
  (void)function;
  (void)bar;
  if (bytes != 4) return;
  switch (offset) {
    case REG_FROM:
      atomic_store(&copier->from, (uint32_t)value);
      break;
    case REG_TO:
      atomic_store(&copier->to, (uint32_t)value);
      break;
    case REG_BYTES:
      atomic_store(&copier->bytes, (uint32_t)value);
      break;
    case REG_START:
      copier->host->wake_after(copier->host->host, copier->delay_ns, 0);
      break;
    case REG_STATUS:
      atomic_fetch_and(&copier->status, ~(uint32_t)value);
      break;
    default:
      break;
  }
}

/* The time a copy takes is over. */
static void wake(void* device, uint64_t value) {
  Copier* copier = device;
  const DxgkitDeviceHost* host = copier->host;
  const uint32_t bytes = atomic_load(&copier->bytes);
  (void)value;
  const int copied =
      bytes != 0 && bytes <= BYTES_MAX &&
      host->dma_read(host->host, atomic_load(&copier->from), copier->buffer, bytes) &&
      host->dma_write(host->host, atomic_load(&copier->to), copier->buffer, bytes);
  atomic_fetch_or(&copier->status, copied ? STATUS_DONE : STATUS_DONE | STATUS_FAILED);
  host->raise(host->host, 0);
}

static void reset(void* device, uint32_t function) {
  Copier* copier = device;
  (void)function;
  atomic_store(&copier->from, 0);
  atomic_store(&copier->to, 0);
  atomic_store(&copier->bytes, 0);
  atomic_store(&copier->status, 0);
}

static void power(void* device, uint32_t function, uint32_t state) {
  if (state != DXGKIT_DEVICE_POWER_ON) reset(device, function);
}

static const DxgkitDevice kDevice = {
    .version = DXGKIT_DEVICE_VERSION,
    .size_bytes = sizeof(DxgkitDevice),
    .summary = "an engine that copies system memory",
    .function_count = 1,
    .option_count = 1,
    .options = kOptions,
    .check = check,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .read = read_register,
    .write = write_register,
    .power = power,
    .reset = reset,
    .wake = wake,
};

const DxgkitDevice* dxgkit_device(uint32_t version) {
  (void)version; /* the host checks kDevice.version */
  return &kDevice;
}
