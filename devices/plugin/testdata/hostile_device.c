/* Device plug-ins that are wrong in one way each, for tests: -DHOSTILE_VERSION, ... */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "devices/plugin/device_plugin.h"
#include "devices/softgpu/softgpu_hw.h"

static const char* open_device(const DxgkitDeviceHost* host, const DxgkitDeviceSetting* settings,
                               uint32_t count, void** device) {
  (void)host;
  (void)settings;
  (void)count;
  *device = NULL;
#ifdef HOSTILE_OPEN
  return "it opens for nobody";
#endif
#ifdef HOSTILE_CRASH_OPEN
  *(volatile int*)NULL = 0;
#endif
  return NULL;
}
static void close_device(void* device) { (void)device; }

/* What softgpu's driver takes for softgpu. */
static const char* describe(void* device, uint32_t function, DxgkitDeviceFunction* out) {
  (void)device;
  (void)function;
  out->vendor_id = SGPU_PCI_VENDOR_ID;
  out->device_id = SGPU_PCI_DEVICE_ID;
  out->base_class = 0x03;
  out->bars[0].kind = DXGKIT_DEVICE_BAR_REGISTERS;
  out->bars[0].size_bytes = SGPU_BAR0_BYTES;
  out->bars[2].kind = DXGKIT_DEVICE_BAR_MEMORY;
  out->bars[2].size_bytes = 1u << 20;
#ifdef HOSTILE_BAR
  out->bars[2].size_bytes = 5000;
#endif
#ifdef HOSTILE_UPPER
  out->bars[3].kind = DXGKIT_DEVICE_BAR_REGISTERS;
  out->bars[3].size_bytes = 4096;
#endif
#ifdef HOSTILE_POST
  out->post_display.width = 1024;
  out->post_display.height = 1024;
  out->post_display.pitch_bytes = 4096;
  out->post_display.bar = 2;
#endif
#ifdef HOSTILE_CAPABILITIES
  static const uint8_t kBody[255];
  static const DxgkitDeviceCapability kLarge = {9, 255, {0}, kBody, NULL};
  out->capability_count = 1;
  out->capabilities = &kLarge;
#endif
#ifdef HOSTILE_DESCRIBE
  return "it cannot be described";
#endif
  return NULL;
}

static uint64_t read_register(void* device, uint32_t function, uint32_t bar, uint64_t offset,
                              uint32_t bytes) {
  (void)device;
  (void)function;
  (void)bar;
  (void)offset;
  (void)bytes;
#ifdef HOSTILE_CRASH
  return *(volatile uint64_t*)device; /* NULL */
#endif
#ifdef HOSTILE_CRASH_FAR
  /* The fault is in a library's code. */
  return strlen((const char*)(uintptr_t)(bytes + 64));
#endif
#ifdef HOSTILE_ABORT
  abort();
#endif
  return 0;
}
static void write_register(void* device, uint32_t function, uint32_t bar, uint64_t offset,
                           uint32_t bytes, uint64_t value) {
  (void)device;
  (void)function;
  (void)bar;
  (void)offset;
  (void)bytes;
  (void)value;
}

static const DxgkitDevice kDevice __attribute__((unused)) = {
#ifdef HOSTILE_VERSION
    .version = 7,
#else
    .version = DXGKIT_DEVICE_VERSION,
#endif
#ifdef HOSTILE_SIZE
    .size_bytes = 8,
#else
    .size_bytes = sizeof(DxgkitDevice),
#endif
    .summary = "it is wrong in one way",
#ifdef HOSTILE_REAL_TIME
    .flags = DXGKIT_DEVICE_REAL_TIME_ONLY,
#endif
#ifndef HOSTILE_FUNCTIONS
    .function_count = 1,
#endif
    .open = open_device,
    .close = close_device,
#ifndef HOSTILE_MEMBER
    .describe = describe,
#endif
#ifndef HOSTILE_READ
    .read = read_register,
#endif
    .write = write_register,
};

#ifdef HOSTILE_SYMBOL
const DxgkitDevice* another_name(uint32_t version) {
#else
const DxgkitDevice* dxgkit_device(uint32_t version) {
#endif
  (void)version;
#ifdef HOSTILE_NULL
  return NULL;
#else
  return &kDevice;
#endif
}
