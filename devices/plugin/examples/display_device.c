/* An example of a device plug-in: a display whose BAR 0 is what is on the screen, as firmware left
 * it. A display-only driver draws on it:
 *
 *     cc -shared -fPIC -o display_device.so display_device.c
 *     dxgkit run --driver framebuffer.sys --device ./display_device.so */
#include <stddef.h>

#include "devices/plugin/device_plugin.h" /* installed: <dxgkit/device_plugin.h> */

#define WIDTH 640u
#define HEIGHT 480u

static const char* open_device(const DxgkitDeviceHost* host, const DxgkitDeviceSetting* settings,
                               uint32_t count, void** device) {
  (void)host;
  (void)settings;
  (void)count;
  *device = NULL; /* nothing to remember: it is all memory */
  return NULL;
}

static void close_device(void* device) { (void)device; }

static const char* describe(void* device, uint32_t function, DxgkitDeviceFunction* out) {
  static const uint32_t kFirstPixels[] = {0x0000FF, 0x00FF00, 0xFF0000}; /* blue, green, red */
  (void)device;
  (void)function;
  out->vendor_id = 0x1D4B;
  out->device_id = 0x0FB1;
  out->base_class = 0x03; /* display controller, VGA */
  out->bars[0].kind = DXGKIT_DEVICE_BAR_MEMORY;
  out->bars[0].size_bytes = 2u << 20;
  out->bars[0].content = kFirstPixels;
  out->bars[0].content_bytes = sizeof(kFirstPixels);
  out->post_display.width = WIDTH;
  out->post_display.height = HEIGHT;
  out->post_display.pitch_bytes = WIDTH * 4;
  return NULL;
}

static const DxgkitDevice kDevice = {
    .version = DXGKIT_DEVICE_VERSION,
    .size_bytes = sizeof(DxgkitDevice),
    .summary = "a display of 640 x 480 pixels in BAR 0",
    .function_count = 1,
    .open = open_device,
    .close = close_device,
    .describe = describe,
};

const DxgkitDevice* dxgkit_device(uint32_t version) {
  (void)version;
  return &kDevice;
}
