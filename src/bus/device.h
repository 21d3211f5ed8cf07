// The interface of a device model, and how a device is made by name with options.
//
// A model is a class derived from Device, and a DeviceType that makes it. The host (a command of
// the tool, a simulation, a test) asks the type for a device, plugs the device in, and starts
// drivers on its functions.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "bus/function.h"

namespace dxgkit::runtime {
class Runtime;
}

namespace dxgkit::bus {

class Machine;

/// Faults of one engine of a device. Chances are per million entries of work, drawn from
/// Runtime::random.
struct EngineFaults {
  uint32_t lose_interrupt_per_million = 0;
  uint32_t duplicate_interrupt_per_million = 0;
  uint32_t late_interrupt_per_million = 0;
  /// The engine stops dead at its n-th entry, counted from the call that set the faults; 0: never.
  uint32_t hang_at_entry = 0;
  /// The number of hangs after which the engine works again.
  uint32_t hangs_max = UINT32_MAX;
  /// The n-th entry, counted as for hang_at_entry, meets memory whose content is lost, and the
  /// engine stops with a fault before the entry has done anything; 0: never. Devices without such
  /// faults take no notice.
  uint32_t memory_error_at_entry = 0;
  /// The hangs come behind the work of their entries: all that is left is to complete. The engine
  /// does that when it is reset, just before the reset takes effect.
  bool hangs_late = false;
  /// The memory error comes so long after its entry has begun.
  uint64_t memory_error_after_ns = 0;
  /// So long a reset of the engine takes.
  uint64_t reset_ns = 0;
  /// The engine takes notice of a preemption when it has nothing left to do, and not before.
  /// Devices that cannot be made to do so take no notice.
  bool preempts_when_idle = false;
};

/// Optional interface of a device that can be made to fail. Any thread.
class FaultInjection {
 public:
  virtual ~FaultInjection() = default;
  /// The number of engines. Entry n of `faults` below is for engine n.
  virtual size_t engine_count() const = 0;
  /// Replaces all faults set before. An engine without an entry works normally; an empty `faults`
  /// makes all engines work normally. Entries beyond the last engine are ignored.
  virtual void set_faults(std::span<const EngineFaults> faults) = 0;
  /// The number of memory errors (EngineFaults::memory_error_at_entry) that engines have met so
  /// far. nullopt: the device does not count them.
  virtual std::optional<uint64_t> memory_errors() const { return std::nullopt; }
};

/// Optional interface of a device that does its work in steps of its own time, which its
/// surroundings can stop. Any thread.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  /// The device takes `steps` more steps and then stands still: it neither ends what it has begun
  /// nor begins anything. Its registers answer as before.
  virtual void stop_after(uint32_t steps) = 0;
  /// It goes on. Steps that were due meanwhile come now. A clock that runs takes no notice.
  virtual void go_on() = 0;
  /// From now on interrupts come up to `most_ns` later than the device raises them, each by chance
  /// (Runtime::random), also while it stands still; 0: at once. The device is then told that
  /// somebody has claimed it.
  virtual void delay_interrupts(uint64_t most_ns) = 0;
};

/// Rows top to bottom without padding, four bytes per pixel: red, green, blue, 255. Empty: nothing
/// is shown.
struct ScreenImage {
  uint32_t width = 0, height = 0;  // pixels
  std::vector<uint8_t> pixels;
};

/// What a driver can learn of a monitor from the device.
struct DeviceMonitor {
  struct Size {
    uint32_t width = 0, height = 0;  // pixels
    bool operator==(const Size&) const = default;
  };
  std::vector<std::byte> descriptor;  // its EDID, all blocks; empty: the device has none to tell
  std::vector<Size> sizes;            // that it can be shown in, the preferred one first
};

/// Optional interface of a device with a screen. Any thread.
class DeviceScreen {
 public:
  virtual ~DeviceScreen() = default;
  /// The picture on the screen. A picture that changes at the same time may be torn, as on a real
  /// screen.
  virtual ScreenImage image() = 0;
  /// True: the hardware pointer is part of the picture. A screen that mixes it in later, or that
  /// has none, cannot show whether it is right.
  virtual bool shows_pointer() const { return false; }
  /// Calls `flipped` with each picture that the screen shows from now on, on a thread of the
  /// device. An empty function ends the calls; it waits for a running one. A screen without flips
  /// never calls.
  virtual void on_flip(std::function<void(const ScreenImage&)> flipped) = 0;
  /// In the order of the device's outputs. Empty: the device does not know its monitors.
  virtual std::vector<DeviceMonitor> monitors() const { return {}; }
};

/// One device model. Power is on from the constructor to the destructor.
///
/// PciFunction::set_post_display declares a post display. Machine::dma_read and dma_write read and
/// write memory of the machine.
class Device {
 public:
  virtual ~Device() = default;
  /// The PCI functions, one to eight, in the order of their numbers. The device owns them, and they
  /// stay the same for its whole life.
  virtual std::span<PciFunction* const> functions() = 0;

  // Notifications from the code that plugged the device in (plug_in, pull_out below). They come on
  // the caller's thread, one at a time, and never on a thread of the device. By default they do
  // nothing.
  /// The power that function `index` gets from now on. Returns when the function is at rest.
  virtual void set_power(size_t index, FunctionPower power);
  /// Function level reset of function `index`: registers as at power-on, no DMA and no interrupt
  /// that belongs to work from before. Memory keeps its content.
  virtual void reset(size_t index);
  /// Surprise removal: the bus no longer leads to the device. No DMA and no interrupt from now on.
  virtual void pulled_out();

  /// For devices that may leave the machine by themselves, because they live in another process.
  /// Such a device calls `lost` once with the reason, one sentence without a full stop, on a thread
  /// of its own and with no lock held; also if it has left before this call. It is cut off from the
  /// bus by then, as after pull_out. An empty function ends that; it waits for a running call.
  virtual void on_loss(std::function<void(const std::string& why)> lost);

  // Optional interfaces; null if the device does not offer one. The device owns them.
  virtual FaultInjection* faults() { return nullptr; }
  virtual DeviceScreen* screen() { return nullptr; }
  virtual DeviceClock* clock() { return nullptr; }
  /// What the driver has asked of the device since the last call that the device's manual forbids
  /// drivers to do: a sentence each without a full stop, the first few only. A command with a wrong
  /// field that the device refuses is one. A device that is made to fail does not count. Any
  /// thread.
  virtual std::vector<std::string> take_misuses() { return {}; }
  /// Names of the engines for traces, by node ordinal. Empty: no names.
  virtual std::vector<std::string> engine_names() const { return {}; }
};

/// Plugs all functions in, or none. Fails with the error of Machine::add_function, or with
/// kInvalidParameter if the device has no function or more than eight. From now on the device hears
/// of power changes and resets. The device must outlive its time in the machine: unplug it first,
/// or destroy the machine first.
Status plug_in(Machine& machine, Device& device);
/// Surprise removal of all functions at once. The device is notified. Call it once. The device
/// stays plugged in until unplug.
void pull_out(Machine& machine, Device& device);
/// Unplugs all functions. No thread may be touching their BARs. A device that is not plugged in is
/// ignored.
void unplug(Machine& machine, Device& device);

/// The surroundings in which a device is made. Both outlive the device.
struct DeviceHost {
  runtime::Runtime& runtime;  // time, threads and chance; the caller is inside it
  Machine& machine;           // system memory by bus address
};

/// An option of a device type, such as "vram=SIZE".
struct DeviceOption {
  std::string name;   // a '#' in it stands for one digit
  std::string value;  // the word for the value in help texts: "SIZE", "SIZE|all"
  std::string help;   // one line, with the default
};

/// Options as given: name and value, in order, each name once.
class DeviceOptions {
 public:
  /// Returns false, and changes nothing, if the name is there already.
  bool add(std::string name, std::string value);
  std::optional<std::string_view> find(std::string_view name) const;
  std::span<const std::pair<std::string, std::string>> all() const { return given_; }
  /// The value as a number of bytes (parse_byte_count); `fallback` if it is not given. The error is
  /// one sentence without a full stop that begins with the name.
  std::expected<uint64_t, std::string> bytes(std::string_view name, uint64_t fallback) const;
  /// A whole decimal number of `least` to `most`.
  std::expected<uint64_t, std::string> number(std::string_view name, uint64_t fallback,
                                              uint64_t least, uint64_t most) const;
  /// A number of hexadecimal digits, with or without 0x, of at most `bits` bits.
  std::expected<uint64_t, std::string> hexadecimal(std::string_view name, uint64_t fallback,
                                                   uint32_t bits) const;
  /// "on" or "off".
  std::expected<bool, std::string> on_off(std::string_view name, bool fallback) const;

 private:
  std::vector<std::pair<std::string, std::string>> given_;
};

/// "64M", "1GiB", "4096": bytes with an optional binary suffix (K, M, G, with or without iB).
/// nullopt for any other text, and for 2^64 and more.
std::optional<uint64_t> parse_byte_count(std::string_view text);

/// Makes a device from checked options, inside the runtime of the host. The error is one sentence
/// without a full stop.
using DeviceMaker =
    std::function<std::expected<std::unique_ptr<Device>, std::string>(const DeviceHost& host)>;

/// A kind of device.
struct DeviceType {
  // The name under which the device is asked for: "softgpu", or the path of a plug-in.
  std::string name;
  std::string summary;  // one line
  std::vector<DeviceOption> options;
  /// Vendor and device id of the functions that a driver can drive, unless options say otherwise;
  /// a device with other ids needs another driver. Empty: unknown.
  std::vector<std::pair<uint16_t, uint16_t>> ids;
  /// Other devices of this type that a driver for it drives as well: options, name and value. What
  /// a driver must find out and not assume is other there, such as the size of the memory.
  std::vector<std::vector<std::pair<std::string, std::string>>> others;
  /// False if the device works in real time only, so that no simulation can have it.
  bool simulated = true;
  /// True if its code did not come with dxgkit.
  bool is_plugin = false;
  /// Checks the options, which all belong to the type, and remembers them. Makes nothing yet. The
  /// error is one sentence without a full stop.
  std::function<std::expected<DeviceMaker, std::string>(const DeviceOptions& options)> configure;

  /// The option with that name, where '#' matches a digit; null if the type has none.
  const DeviceOption* option(std::string_view name) const;
};

/// A type with options that the type accepted.
struct DeviceChoice {
  std::string text;  // as given
  std::shared_ptr<const DeviceType> type;
  DeviceOptions options;

  /// The same device with these options, which win over those given.
  DeviceChoice with(std::span<const std::pair<std::string, std::string>> changes) const;
  /// Makes the device. `defaults` are the host's options for names that `options` leaves out, if
  /// the type has them. The error is one sentence without a full stop.
  std::expected<std::unique_ptr<Device>, std::string> make(
      const DeviceHost& host,
      std::span<const std::pair<std::string, std::string>> defaults = {}) const;
};

/// Another spelling for a device: "pci:8086:1916" for "ram,vendor=8086,device=1916".
struct DeviceSpelling {
  std::string text;  // "pci:VENDOR:DEVICE", for help
  std::string help;  // one line
  /// Expands the text before the first comma. nullopt if the text is not of this spelling.
  std::function<std::optional<std::string>(std::string_view name)> expand;
};

/// Types of devices by name. The maker fills it; after that it is only read, by any thread.
class DeviceRegistry {
 public:
  /// Adding a name twice is our bug and aborts.
  void add(DeviceType type);
  void add_spelling(DeviceSpelling spelling);
  /// Makes a type from a file. Called for names that contain a slash or end with ".so". The error
  /// is one sentence without a full stop that begins with the path.
  void set_loader(
      std::function<std::expected<DeviceType, std::string>(const std::string& path)> loader);

  /// All types, in the order in which they were added.
  std::span<const std::shared_ptr<const DeviceType>> types() const { return types_; }
  std::span<const DeviceSpelling> spellings() const { return spellings_; }
  /// Null if there is no such name.
  std::shared_ptr<const DeviceType> find(std::string_view name) const;
  /// Reads "NAME[,OPTION=VALUE...]" and checks the options. Names and values hold no comma. Fails
  /// for an unknown name, an option that the type does not have, an option given twice or with a
  /// bad value, and a file that is not a plug-in. The error is one sentence without a full stop.
  std::expected<DeviceChoice, std::string> parse(std::string_view text) const;

 private:
  std::vector<std::shared_ptr<const DeviceType>> types_;
  std::vector<DeviceSpelling> spellings_;
  std::function<std::expected<DeviceType, std::string>(const std::string&)> loader_;
};

/// Memory of a device: a memory object of `size` bytes, zeroed and mapped here. For memory BARs
/// with initial content. Any thread may read and write the content.
class DeviceMemory {
 public:
  /// @param size  > 0, a multiple of the page. kNoMemory if the system refused.
  static std::expected<std::unique_ptr<DeviceMemory>, Status> create(uint64_t size);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::span<std::byte> bytes() const { return bytes_; }
  /// The window for Bar::memory. Valid as long as this object.
  MemoryWindow window() const { return {fd_, 0, bytes_.size()}; }

 private:
  DeviceMemory(int fd, std::span<std::byte> bytes) : fd_(fd), bytes_(bytes) {}
  int fd_;
  std::span<std::byte> bytes_;
};

}  // namespace dxgkit::bus
