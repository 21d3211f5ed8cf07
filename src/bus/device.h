// What a device model has to be, and how one is made by name with options.
//
// A model is a class derived from Device and a DeviceType that makes it. The host (a command of the
// tool, a simulation, a test) asks the type for a device, plugs it in, and starts drivers on its
// functions.
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

/// What goes wrong in one engine of a device. Chances are per million entries of work, drawn from
/// Runtime::random.
struct EngineFaults {
  uint32_t lose_interrupt_per_million = 0;
  uint32_t duplicate_interrupt_per_million = 0;
  uint32_t late_interrupt_per_million = 0;
  /// The engine stops dead at its n-th entry, counted from when the faults were set; 0: never.
  uint32_t hang_at_entry = 0;
  /// How many hangs in all before the engine works again.
  uint32_t hangs_max = UINT32_MAX;
};

/// Optional: a device that can be made to fail. Any thread.
class FaultInjection {
 public:
  virtual ~FaultInjection() = default;
  /// How many engines there are; entry n of `faults` below is for engine n.
  virtual size_t engine_count() const = 0;
  /// Replaces what was set before. Engines without an entry work as they should; so does every one
  /// when `faults` is empty. More entries than engines are ignored.
  virtual void set_faults(std::span<const EngineFaults> faults) = 0;
};

/// Rows top to bottom without padding, four bytes per pixel: red, green, blue, 255. Empty: nothing
/// is shown.
struct ScreenImage {
  uint32_t width = 0, height = 0;  // pixels
  std::vector<uint8_t> pixels;
};

/// Optional: a screen that is connected to the device. Any thread.
class DeviceScreen {
 public:
  virtual ~DeviceScreen() = default;
  /// What it shows now. Torn, if it is drawn at the same time, as a real one.
  virtual ScreenImage image() = 0;
  /// `flipped` is called with each picture the screen takes from now on, on a thread of the device;
  /// an empty function ends that, after a running call. A screen without flips never calls it.
  virtual void on_flip(std::function<void(const ScreenImage&)> flipped) = 0;
};

/// One device model. Power is on from the constructor to the destructor.
///
/// A post display is said by PciFunction::set_post_display. Memory of the machine is read and
/// written by Machine::dma_read and dma_write.
class Device {
 public:
  virtual ~Device() = default;
  /// Its PCI functions, one to eight, in the order of their numbers. Owned by the device; the same
  /// ones for its whole life.
  virtual std::span<PciFunction* const> functions() = 0;

  // Told by whoever plugged it in (plug_in, pull_out below). On the thread of the caller, one call
  // at a time, never on a thread of the device. By default nothing happens.
  /// What the platform feeds function `index` with from now on. Returns when the function is at
  /// rest.
  virtual void set_power(size_t index, FunctionPower power);
  /// Function level reset of function `index`: registers as at power-on, no DMA and no interrupt
  /// that belongs to work from before. Memory keeps its content.
  virtual void reset(size_t index);
  /// Surprise removal: the bus does not lead to the device any more. No DMA and no interrupt from
  /// now on.
  virtual void pulled_out();

  // What a device may offer; null where it does not. Owned by the device.
  virtual FaultInjection* faults() { return nullptr; }
  virtual DeviceScreen* screen() { return nullptr; }
  /// Names of its engines for traces, by node ordinal; empty: none.
  virtual std::vector<std::string> engine_names() const { return {}; }
};

/// Plugs all functions in, or none (the error is that of Machine::add_function, or
/// kInvalidParameter: no function, or more than eight). From now on the device is told of power and
/// resets. `device` must not go before it is unplugged or the machine is gone.
Status plug_in(Machine& machine, Device& device);
/// Surprise removal of all functions at once; the device is told. Once. It stays plugged in until
/// unplug.
void pull_out(Machine& machine, Device& device);
/// Nobody may be touching its BARs. Ignores what is not plugged in.
void unplug(Machine& machine, Device& device);

/// What a device is made in. Both outlive it.
struct DeviceHost {
  runtime::Runtime& runtime;  // time, threads and chance; the caller is inside it
  Machine& machine;           // system memory by bus address
};

/// An option a type of device has: "vram=SIZE".
struct DeviceOption {
  std::string name;   // a '#' in it stands for one digit
  std::string value;  // what is to be written: "SIZE", "SIZE|all"
  std::string help;   // one line, with the default
};

/// Options as given: name and value, in order, each name once.
class DeviceOptions {
 public:
  /// False, nothing changed: the name is there already.
  bool add(std::string name, std::string value);
  std::optional<std::string_view> find(std::string_view name) const;
  std::span<const std::pair<std::string, std::string>> all() const { return given_; }
  /// The value as a number of bytes (parse_byte_count); `fallback` if it is not given. The error is
  /// one sentence without a full stop that begins with the name.
  std::expected<uint64_t, std::string> bytes(std::string_view name, uint64_t fallback) const;
  /// A whole decimal number of `least` to `most`.
  std::expected<uint64_t, std::string> number(std::string_view name, uint64_t fallback,
                                              uint64_t least, uint64_t most) const;
  /// Hexadecimal digits, with or without 0x, of at most `bits` bits.
  std::expected<uint64_t, std::string> hexadecimal(std::string_view name, uint64_t fallback,
                                                   uint32_t bits) const;
  /// "on" or "off".
  std::expected<bool, std::string> on_off(std::string_view name, bool fallback) const;

 private:
  std::vector<std::pair<std::string, std::string>> given_;
};

/// "64M", "1GiB", "4096": bytes with an optional binary suffix (K, M, G, with or without iB).
/// nullopt: something else, or 2^64 and more.
std::optional<uint64_t> parse_byte_count(std::string_view text);

/// Makes a device whose options were found right. Inside the runtime of the host. The error is one
/// sentence without a full stop.
using DeviceMaker =
    std::function<std::expected<std::unique_ptr<Device>, std::string>(const DeviceHost& host)>;

/// A kind of device.
struct DeviceType {
  std::string name;     // as it is asked for: "softgpu", or the path of a plug-in
  std::string summary;  // one line
  std::vector<DeviceOption> options;
  /// False: it lives in real time only, so nothing that is simulated can have it.
  bool simulated = true;
  /// Its code did not come with dxgkit.
  bool is_plugin = false;
  /// Checks the options, all of which it has, and remembers them. Makes nothing yet. The error is
  /// one sentence without a full stop.
  std::function<std::expected<DeviceMaker, std::string>(const DeviceOptions& options)> configure;

  /// The option of that name, where '#' matches a digit; null: it has none.
  const DeviceOption* option(std::string_view name) const;
};

/// A type with options that it accepted.
struct DeviceChoice {
  std::string text;  // as given
  std::shared_ptr<const DeviceType> type;
  DeviceOptions options;

  /// Makes the device. `defaults` are options the host gives where `options` does not and the type
  /// has them. The error is one sentence without a full stop.
  std::expected<std::unique_ptr<Device>, std::string> make(
      const DeviceHost& host,
      std::span<const std::pair<std::string, std::string>> defaults = {}) const;
};

/// Another way to write a device: "pci:8086:1916" for "ram,vendor=8086,device=1916".
struct DeviceSpelling {
  std::string text;  // "pci:VENDOR:DEVICE", for help
  std::string help;  // one line
  /// What the text before the first comma stands for; nullopt: it is not this spelling.
  std::function<std::optional<std::string>(std::string_view name)> expand;
};

/// Types of devices by name. Filled by whoever makes it, then only read; any thread then.
class DeviceRegistry {
 public:
  /// Adding a name twice is our bug and aborts.
  void add(DeviceType type);
  void add_spelling(DeviceSpelling spelling);
  /// Asked for names that contain a slash or end with ".so": the type behind such a file. The error
  /// is one sentence without a full stop that begins with the path.
  void set_loader(
      std::function<std::expected<DeviceType, std::string>(const std::string& path)> loader);

  /// In the order they were added.
  std::span<const std::shared_ptr<const DeviceType>> types() const { return types_; }
  std::span<const DeviceSpelling> spellings() const { return spellings_; }
  /// Null: there is none of that name.
  std::shared_ptr<const DeviceType> find(std::string_view name) const;
  /// "NAME[,OPTION=VALUE...]" with the options checked. Names and values hold no comma. The error
  /// is one sentence without a full stop: an unknown name, an option the type does not have, one
  /// that is given twice or has a bad value, a file that is no plug-in.
  std::expected<DeviceChoice, std::string> parse(std::string_view text) const;

 private:
  std::vector<std::shared_ptr<const DeviceType>> types_;
  std::vector<DeviceSpelling> spellings_;
  std::function<std::expected<DeviceType, std::string>(const std::string&)> loader_;
};

/// Memory of a device: a memory object of `size` bytes, zeroed, mapped here. For memory BARs with
/// initial content. Any thread; content is anybody's.
class DeviceMemory {
 public:
  /// @param size  > 0, a multiple of the page. kNoMemory: the system refused.
  static std::expected<std::unique_ptr<DeviceMemory>, Status> create(uint64_t size);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::span<std::byte> bytes() const { return bytes_; }
  /// For Bar::memory. Valid as long as this.
  MemoryWindow window() const { return {fd_, 0, bytes_.size()}; }

 private:
  DeviceMemory(int fd, std::span<std::byte> bytes) : fd_(fd), bytes_(bytes) {}
  int fd_;
  std::span<std::byte> bytes_;
};

}  // namespace dxgkit::bus
