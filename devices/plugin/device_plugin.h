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
 * - A function that can fail returns NULL for success. Otherwise it returns one sentence without a
 *   full stop that says what is wrong. The text must live until the next call.
 * - Pointers in arguments are the host's, valid for the call only unless said otherwise.
 * - The host calls read and write on the thread that touches the register. Several such calls run
 *   at once, also while another function of the plug-in runs. Of the other functions only one runs
 *   at a time.
 * - A plug-in locks the data that these calls share. It holds no lock while it calls raise, because
 *   the driver's interrupt routine runs inside raise and touches registers.
 * - The stack of every call has at least 128 KiB.
 * - A plug-in without threads and clocks of its own can be simulated: the same seed gives the same
 *   run. A plug-in that has threads or a clock sets DXGKIT_DEVICE_REAL_TIME_ONLY.
 * - A fault inside the plug-in ends the process with a line that names the plug-in. The driver is
 *   never blamed for it.
 * - The ABI of a plug-in is the host's (System V on x86-64), not the driver's.
 */
#ifndef DXGKIT_DEVICE_PLUGIN_H_
#define DXGKIT_DEVICE_PLUGIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DXGKIT_DEVICE_VERSION 1u

/* The functions of the host that a device may call. The structure lives as long as the device. Any
 * thread may call them. A thread of the plug-in's own needs DXGKIT_DEVICE_REAL_TIME_ONLY. */
typedef struct DxgkitDeviceHost {
  uint32_t version;    /* DXGKIT_DEVICE_VERSION of the host */
  uint32_t size_bytes; /* sizeof(DxgkitDeviceHost) of the host */
  void* host;          /* first argument of every function below */
  /* DMA: copies from or to system memory at a bus address. Returns 1 if the bytes were copied.
   * Returns 0 if nothing was copied, because part of the range is not memory or the device was
   * pulled out. */
  int (*dma_read)(void* host, uint64_t address, void* to, uint64_t bytes);
  int (*dma_write)(void* host, uint64_t address, const void* from, uint64_t bytes);
  /* Raises INTx of a function. The driver's interrupt routine runs inside this call. Returns 1 if
   * the routine claimed the interrupt. Returns 0 if it did not, if no routine is connected, or if
   * the device was pulled out. */
  int (*raise)(void* host, uint32_t function);
  /* Nanoseconds since the machine was made. In simulation this is simulated time. */
  uint64_t (*now_ns)(void* host);
  /* Calls DxgkitDevice.wake once with `value`, on a thread of the host, after the delay. Closing
   * the device cancels the calls that are still outstanding. */
  void (*wake_after)(void* host, uint64_t delay_ns, uint64_t value);
} DxgkitDeviceHost;

/* "NAME=VALUE" as given on the command line. */
typedef struct DxgkitDeviceSetting {
  const char* name;
  const char* value;
} DxgkitDeviceSetting;

/* An option that the plug-in understands. A '#' in the name stands for one digit. */
typedef struct DxgkitDeviceOption {
  const char* name;
  const char* value; /* the word for its value in help texts: "SIZE" */
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
  const void* content; /* BAR_MEMORY: initial content, which the host copies; NULL: zeros */
  uint64_t content_bytes; /* not more than size_bytes */
} DxgkitDeviceBar;

/* A capability of configuration space. The host fills in the id and the next pointer; the body
 * follows them. The host never enables MSI or MSI-X: it connects drivers to INTx only. */
typedef struct DxgkitDeviceCapability {
  uint8_t id;
  uint8_t body_bytes;
  uint8_t reserved[6];     /* 0 */
  const uint8_t* body;     /* body_bytes */
  const uint8_t* writable; /* body_bytes: the bits software may change; NULL: none */
} DxgkitDeviceCapability;

/* The frame buffer that firmware set up: linear, in a BAR_MEMORY, four bytes per pixel (blue,
 * green, red, unused). Width 0: firmware shows nothing through this function. */
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

/* Power states of the platform, as DxgkitDevice.power reports them to a function. */
#define DXGKIT_DEVICE_POWER_ON 0u
#define DXGKIT_DEVICE_POWER_STANDBY 1u
#define DXGKIT_DEVICE_POWER_HIBERNATE 2u

#define DXGKIT_DEVICE_REAL_TIME_ONLY                          \
  0x1u /* it has threads or a clock of its own: no simulation \
        */

/* Every function must be present unless its comment says optional. */
typedef struct DxgkitDevice {
  uint32_t version;        /* DXGKIT_DEVICE_VERSION that the plug-in was built with */
  uint32_t size_bytes;     /* sizeof(DxgkitDevice) */
  const char* summary;     /* one line; lives as long as the plug-in */
  uint32_t flags;          /* DXGKIT_DEVICE_* */
  uint32_t function_count; /* PCI functions, 1 to 8 */
  uint32_t option_count;
  uint32_t reserved;                 /* 0 */
  const DxgkitDeviceOption* options; /* live as long as the plug-in; NULL if there are none */

  /* Says whether the settings are right, and makes nothing. Each name is one of the options and
   * comes at most once. The host calls it before open with the same settings, possibly several
   * times. Optional: without it every value is accepted. */
  const char* (*check)(const DxgkitDeviceSetting* settings, uint32_t count);
  /* Makes a device. The host passes *device to all functions below. */
  const char* (*open)(const DxgkitDeviceHost* host, const DxgkitDeviceSetting* settings,
                      uint32_t count, void** device);
  /* The driver is gone, and no call is under way. */
  void (*close)(void* device);
  /* Fills *out, which is zeroed, for one function. Everything that *out points to must live until
   * the device is closed. Called once for each function, right after open. */
  const char* (*describe)(void* device, uint32_t function, DxgkitDeviceFunction* out);
  /* Tells the device where the memory of a BAR_MEMORY is. The view is valid until
   * close has returned. Called once for each BAR_MEMORY, after describe. Optional. */
  void (*memory)(void* device, uint32_t function, uint32_t bar, void* view, uint64_t bytes);

  /* Access to registers and ports: 1, 2, 4 or 8 bytes within the BAR, for ports 1, 2 or 4 bytes.
   * Optional if the device has no such BAR. */
  uint64_t (*read)(void* device, uint32_t function, uint32_t bar, uint64_t offset, uint32_t bytes);
  void (*write)(void* device, uint32_t function, uint32_t bar, uint64_t offset, uint32_t bytes,
                uint64_t value);

  /* All four are optional.
   * power: the platform changed the power state of the function (DXGKIT_DEVICE_POWER_*).
   * reset: function level reset. Software asks for it through an Advanced Features capability: id
   * 13h, whose byte 3 has bit 1.
   * removed: surprise removal. From now on no DMA and no interrupt gets through.
   * wake: the delay of DxgkitDeviceHost.wake_after has passed. */
  void (*power)(void* device, uint32_t function, uint32_t state);
  void (*reset)(void* device, uint32_t function);
  void (*removed)(void* device);
  void (*wake)(void* device, uint64_t value);
} DxgkitDevice;

/* The shared object exports this function. `version` is the host's DXGKIT_DEVICE_VERSION. The
 * result must not be NULL. */
const DxgkitDevice* dxgkit_device(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif /* DXGKIT_DEVICE_PLUGIN_H_ */
