/* dxgkit/device_plugin.h: a device model in a shared object, for `--device
 * FILE.so[,OPTION=VALUE...]`.
 *
 * A plug-in says what its PCI functions look like and answers the accesses of the driver. It reads
 * and writes the memory of the machine by bus address, raises interrupts, and is called back when
 * time has passed.
 *
 *     #include <dxgkit/device_plugin.h>
 *     static uint64_t read_register(void* device, ...) { ... }
 *     static const DxgkitDevice kDevice = {DXGKIT_DEVICE_VERSION, sizeof(DxgkitDevice), ...};
 *     const DxgkitDevice* dxgkit_device(uint32_t version) { return &kDevice; }
 *
 *     cc -shared -fPIC -o my_device.so my_device.c
 *
 * Rules of the interface:
 * - Functions that can fail return NULL for success, else one sentence without a full stop that
 * says what is wrong; it must live until the next call.
 * - Pointers in arguments are the host's and last for the call only, unless said otherwise.
 * - read and write come on the thread that touches the register: several at once, while other
 *   functions run, too. Everything else comes one call at a time, but beside them. A plug-in locks
 *   what it shares, and holds no lock while it calls raise: the driver's interrupt routine runs in
 *   there, and touches registers.
 * - Stacks are 128 KiB at least.
 * - A plug-in without threads and clocks of its own is simulated as well: the same seed is the same
 *   run. It says DXGKIT_DEVICE_REAL_TIME_ONLY if it has some.
 * - A fault of the plug-in ends the process with a line that names the plug-in. It is never taken
 *   for one of the driver.
 * - The ABI of a plug-in is the host's (System V on x86-64), not the driver's.
 */
#ifndef DXGKIT_DEVICE_PLUGIN_H_
#define DXGKIT_DEVICE_PLUGIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DXGKIT_DEVICE_VERSION 1u

/* What the host does for a device. Lives as long as the device. Any thread, also one of the
 * plug-in's own if it says DXGKIT_DEVICE_REAL_TIME_ONLY. */
typedef struct DxgkitDeviceHost {
  uint32_t version;    /* DXGKIT_DEVICE_VERSION of the host */
  uint32_t size_bytes; /* sizeof(DxgkitDeviceHost) of the host */
  void* host;          /* first argument of every function below */
  /* DMA: copies from or to system memory at a bus address. 1: done. 0: nothing moved, as not all of
   * the range is memory, or the device was pulled out. */
  int (*dma_read)(void* host, uint64_t address, void* to, uint64_t bytes);
  int (*dma_write)(void* host, uint64_t address, const void* from, uint64_t bytes);
  /* Raises INTx of a function: the driver's interrupt routine runs in this call. 1: it claimed the
   * interrupt. 0: it did not, none is connected, or the device was pulled out. */
  int (*raise)(void* host, uint32_t function);
  /* Nanoseconds since the machine was made; simulated in simulation. */
  uint64_t (*now_ns)(void* host);
  /* DxgkitDevice.wake is called once with `value`, on a thread of the host, when so much time has
   * passed. What is outstanding is forgotten when the device is closed. */
  void (*wake_after)(void* host, uint64_t delay_ns, uint64_t value);
} DxgkitDeviceHost;

/* "NAME=VALUE" as given on the command line. */
typedef struct DxgkitDeviceSetting {
  const char* name;
  const char* value;
} DxgkitDeviceSetting;

/* An option the plug-in has; a '#' in the name stands for one digit. */
typedef struct DxgkitDeviceOption {
  const char* name;
  const char* value; /* what is to be written: "SIZE" */
  const char* help;  /* one line, with the default */
} DxgkitDeviceOption;

#define DXGKIT_DEVICE_BAR_NONE 0u
#define DXGKIT_DEVICE_BAR_REGISTERS 1u    /* memory space, 32 bits; read and write are called */
#define DXGKIT_DEVICE_BAR_REGISTERS_64 2u /* the same, 64 bits wide: takes the next slot too */
#define DXGKIT_DEVICE_BAR_MEMORY 3u       /* memory, 64 bits wide: takes the next slot too */
#define DXGKIT_DEVICE_BAR_PORTS 4u        /* I/O space; read and write are called */
typedef struct DxgkitDeviceBar {
  uint32_t kind;       /* DXGKIT_DEVICE_BAR_* */
  uint32_t reserved;   /* 0 */
  uint64_t size_bytes; /* a power of two: 4096 bytes to 512 MiB (registers), to 64 GiB (memory), 4
                          to 256 bytes (ports) */
  const void* content; /* BAR_MEMORY: what it begins with, copied; NULL: zeros */
  uint64_t content_bytes; /* not more than size_bytes */
} DxgkitDeviceBar;

/* A capability of configuration space: id and next pointer are the host's, the body follows them.
 * The host never enables MSI and MSI-X for a driver: INTx is what it connects. */
typedef struct DxgkitDeviceCapability {
  uint8_t id;
  uint8_t body_bytes;
  uint8_t reserved[6];     /* 0 */
  const uint8_t* body;     /* body_bytes */
  const uint8_t* writable; /* body_bytes: the bits software may change; NULL: none */
} DxgkitDeviceCapability;

/* What firmware left on the screen of a display: a linear frame buffer in a BAR_MEMORY, four bytes
 * per pixel (blue, green, red, unused). Width 0: this function shows nothing. */
typedef struct DxgkitDevicePostDisplay {
  uint32_t width, height; /* pixels */
  uint32_t pitch_bytes;   /* from row to row, at least width * 4 */
  uint32_t bar;
  uint64_t offset_bytes; /* of the first pixel in the BAR */
} DxgkitDevicePostDisplay;

typedef struct DxgkitDeviceFunction {
  uint16_t vendor_id, device_id, subsystem_vendor_id, subsystem_id;
  uint8_t revision, base_class, sub_class, programming_interface;
  uint32_t capability_count;
  const DxgkitDeviceCapability* capabilities; /* at most 192 bytes in all */
  DxgkitDeviceBar bars[6];
  DxgkitDevicePostDisplay post_display;
} DxgkitDeviceFunction;

/* How the platform feeds a function. */
#define DXGKIT_DEVICE_POWER_ON 0u
#define DXGKIT_DEVICE_POWER_STANDBY 1u
#define DXGKIT_DEVICE_POWER_HIBERNATE 2u

#define DXGKIT_DEVICE_REAL_TIME_ONLY                          \
  0x1u /* it has threads or a clock of its own: no simulation \
        */

/* Every function is there unless it says optional. */
typedef struct DxgkitDevice {
  uint32_t version;        /* DXGKIT_DEVICE_VERSION it was built with */
  uint32_t size_bytes;     /* sizeof(DxgkitDevice) */
  const char* summary;     /* one line; lives as long as the plug-in */
  uint32_t flags;          /* DXGKIT_DEVICE_* */
  uint32_t function_count; /* PCI functions, 1 to 8 */
  uint32_t option_count;
  uint32_t reserved;                 /* 0 */
  const DxgkitDeviceOption* options; /* live as long as the plug-in; NULL if there are none */

  /* Whether the settings are right; names are options, each at most once. Makes nothing. Called
   * before open with the same settings, maybe several times. Optional: every value is. */
  const char* (*check)(const DxgkitDeviceSetting* settings, uint32_t count);
  /* Makes a device: *device is handed to all that follows. */
  const char* (*open)(const DxgkitDeviceHost* host, const DxgkitDeviceSetting* settings,
                      uint32_t count, void** device);
  /* The driver is gone, and no call is under way. */
  void (*close)(void* device);
  /* Fills *out, which is zeroed, for one function. What it points to lives until the device is
   * closed. Once for each, right after open. */
  const char* (*describe)(void* device, uint32_t function, DxgkitDeviceFunction* out);
  /* Where the memory of a BAR_MEMORY is, for the device itself: valid until close. Once for each,
   * after describe. Optional. */
  void (*memory)(void* device, uint32_t function, uint32_t bar, void* view, uint64_t bytes);

  /* Registers and ports: 1, 2, 4 or 8 bytes within the BAR (ports: to 4). Optional if there is no
   * such BAR. */
  uint64_t (*read)(void* device, uint32_t function, uint32_t bar, uint64_t offset, uint32_t bytes);
  void (*write)(void* device, uint32_t function, uint32_t bar, uint64_t offset, uint32_t bytes,
                uint64_t value);

  /* Optional, all of them. power: what the platform feeds the function with. reset: function level
   * reset, which software asks for through an Advanced Features capability (id 13h, whose byte 3
   * has bit 1). removed: surprise removal; no DMA and no interrupt gets through any more. wake: see
   * DxgkitDeviceHost.wake_after. */
  void (*power)(void* device, uint32_t function, uint32_t state);
  void (*reset)(void* device, uint32_t function);
  void (*removed)(void* device);
  void (*wake)(void* device, uint64_t value);
} DxgkitDevice;

/* What the shared object exports. `version`: the host's DXGKIT_DEVICE_VERSION. Not NULL. */
const DxgkitDevice* dxgkit_device(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif /* DXGKIT_DEVICE_PLUGIN_H_ */
