// Device models in C++: for a stack of your own, or as a plug-in for `--device FILE.so`.
//
//     class Timer final : public dxgkit::Device {
//      public:
//       static constexpr const char* kSummary = "a timer";
//       static Made make(const dxgkit::DeviceHost& host, dxgkit::DeviceSettings settings);
//       std::optional<std::string> describe(uint32_t function, DxgkitDeviceFunction& out) override;
//       uint64_t read(const dxgkit::DeviceAccess& access) override;
//       void write(const dxgkit::DeviceAccess& access, uint64_t value) override;
//     };
//
//     DXGKIT_DEVICE_PLUGIN(Timer)                       // in a shared object: --device ./timer.so
//     options.models = {dxgkit::device_model<Timer>("timer")};   // in a program:
//     options.devices = {"timer"};                               // StackOptions
//
// This is the C interface of dxgkit/device_plugin.h with a class around it. What that page says of
// threads, locks, stacks and simulation holds here. A model lets no exception out: one ends the
// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "dxgkit/device_plugin.h"

namespace dxgkit {

/// What the machine does for a device. Copies name the same host; all are valid as long as the
/// device. Any thread.
class DeviceHost {
 public:
  explicit DeviceHost(const DxgkitDeviceHost& host) : host_(&host) {}

  /// Copies from system memory at a bus address. False: nothing moved, because not all of the range
  /// is memory, or the device was pulled out.
  bool dma_read(uint64_t address, std::span<std::byte> to) const {
    return host_->dma_read(host_->host, address, to.data(), to.size()) != 0;
  }
  /// Copies to system memory; fails like dma_read.
  bool dma_write(uint64_t address, std::span<const std::byte> from) const {
    return host_->dma_write(host_->host, address, from.data(), from.size()) != 0;
  }
  /// Raises INTx of a function. The driver's interrupt routine runs in this call and touches
  /// registers: hold no lock. True: the driver claimed the interrupt.
  bool raise(uint32_t function = 0) const { return host_->raise(host_->host, function) != 0; }
  /// Nanoseconds since the machine was made; simulated in simulation.
  uint64_t now_ns() const { return host_->now_ns(host_->host); }
  /// Device::wake is called once with `value` when so much time has passed. Ignored by a model that
  /// does not override wake.
  void wake_after(uint64_t delay_ns, uint64_t value) const {
    host_->wake_after(host_->host, delay_ns, value);
  }

 private:
  const DxgkitDeviceHost* host_;
};

/// Options as given: names the model has, each at most once.
using DeviceSettings = std::span<const DxgkitDeviceSetting>;

/// One access of the driver to registers or ports.
struct DeviceAccess {
  uint32_t function = 0;  // of the device
  uint32_t bar = 0;
  uint64_t offset = 0;  // bytes from the start of the BAR
  uint32_t bytes = 0;   // 1, 2, 4 or 8, all within the BAR
};

enum class DevicePower : uint32_t {
  kOn = DXGKIT_DEVICE_POWER_ON,
  kStandby = DXGKIT_DEVICE_POWER_STANDBY,
  kHibernate = DXGKIT_DEVICE_POWER_HIBERNATE,
};

/// A device model. read and write come on the thread that touches the register, several at once;
/// everything else comes one call at a time, but beside them.
///
/// A model class has these static members:
///     constexpr const char* kSummary           one line
///     Made make(const DeviceHost&, DeviceSettings)   makes a device; the error is one sentence
/// and may have these:
///     constexpr DxgkitDeviceOption kOptions[]  the options it takes
///     std::optional<std::string> check(DeviceSettings)   what is wrong with their values
///     constexpr uint32_t kFunctions            PCI functions, 1 to 8 (1)
///     constexpr uint32_t kFlags                DXGKIT_DEVICE_* (0)
class Device {
 public:
  using Made = std::expected<std::unique_ptr<Device>, std::string>;

  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Fills `out`, which is zeroed, for one function; what it points to lives as long as the device.
  /// The answer is what is wrong, one sentence without a full stop; nullopt: nothing.
  virtual std::optional<std::string> describe(uint32_t function, DxgkitDeviceFunction& out) = 0;
  /// Where the memory of a DXGKIT_DEVICE_BAR_MEMORY is, for the device itself. The view outlives
  /// the device.
  virtual void memory(uint32_t function, uint32_t bar, std::span<std::byte> view);
  /// Registers and ports. By default all bits are one, and writes are ignored.
  virtual uint64_t read(const DeviceAccess& access);
  virtual void write(const DeviceAccess& access, uint64_t value);
  /// What the platform feeds the function with from now on.
  virtual void power(uint32_t function, DevicePower state);
  /// Function level reset.
  virtual void reset(uint32_t function);
  /// Surprise removal: no DMA and no interrupt gets through any more.
  virtual void removed();
  /// The time of DeviceHost::wake_after has passed.
  virtual void wake(uint64_t value);
};

inline void Device::memory(uint32_t, uint32_t, std::span<std::byte>) {}
inline uint64_t Device::read(const DeviceAccess&) { return UINT64_MAX; }
inline void Device::write(const DeviceAccess&, uint64_t) {}
inline void Device::power(uint32_t, DevicePower) {}
inline void Device::reset(uint32_t) {}
inline void Device::removed() {}
inline void Device::wake(uint64_t) {}

/// A model by name, for StackOptions::models.
struct DeviceModel {
  std::string name;  // what StackOptions::devices calls it
  const DxgkitDevice* functions = nullptr;
};

namespace internal {

/// The functions of the C interface for one class. They are entered from C: noexcept, so that an
/// exception ends the process instead of unwinding the kernel's frames.
template <typename Model>
struct DeviceFunctions {
  static Device& of(void* device) noexcept { return *static_cast<Device*>(device); }
  /// The interface wants a sentence that lives until the next call.
  static const char* told(std::string why) noexcept {
    thread_local std::string last;
    last = std::move(why);
    return last.c_str();
  }
  static const char* check(const DxgkitDeviceSetting* settings, uint32_t count) noexcept {
    if constexpr (requires { Model::check(DeviceSettings()); }) {
      if (std::optional<std::string> why = Model::check(DeviceSettings(settings, count)))
        return told(std::move(*why));
    }
    return nullptr;
  }
  static const char* open(const DxgkitDeviceHost* host, const DxgkitDeviceSetting* settings,
                          uint32_t count, void** device) noexcept {
    Device::Made made = Model::make(DeviceHost(*host), DeviceSettings(settings, count));
    if (!made.has_value()) return told(std::move(made.error()));
    *device = made->release();
    return nullptr;
  }
  static void close(void* device) noexcept { delete &of(device); }
  static const char* describe(void* device, uint32_t function, DxgkitDeviceFunction* out) noexcept {
    std::optional<std::string> why = of(device).describe(function, *out);
    return why.has_value() ? told(std::move(*why)) : nullptr;
  }
  static void memory(void* device, uint32_t function, uint32_t bar, void* view,
                     uint64_t bytes) noexcept {
    of(device).memory(function, bar, {static_cast<std::byte*>(view), bytes});
  }
  static uint64_t read(void* device, uint32_t function, uint32_t bar, uint64_t offset,
                       uint32_t bytes) noexcept {
    return of(device).read({function, bar, offset, bytes});
  }
  static void write(void* device, uint32_t function, uint32_t bar, uint64_t offset, uint32_t bytes,
                    uint64_t value) noexcept {
    of(device).write({function, bar, offset, bytes}, value);
  }
  static void power(void* device, uint32_t function, uint32_t state) noexcept {
    of(device).power(function, static_cast<DevicePower>(state));
  }
  static void reset(void* device, uint32_t function) noexcept { of(device).reset(function); }
  static void removed(void* device) noexcept { of(device).removed(); }
  static void wake(void* device, uint64_t value) noexcept { of(device).wake(value); }

  static consteval DxgkitDevice table() {
    DxgkitDevice all{};
    all.version = DXGKIT_DEVICE_VERSION;
    all.size_bytes = sizeof(DxgkitDevice);
    all.summary = Model::kSummary;
    all.function_count = 1;
    if constexpr (requires { Model::kFunctions; }) all.function_count = Model::kFunctions;
    if constexpr (requires { Model::kFlags; }) all.flags = Model::kFlags;
    if constexpr (requires { Model::kOptions; }) {
      all.option_count = static_cast<uint32_t>(std::size(Model::kOptions));
      all.options = std::data(Model::kOptions);
    }
    all.check = check;
    all.open = open;
    all.close = close;
    all.describe = describe;
    all.memory = memory;
    all.read = read;
    all.write = write;
    all.power = power;
    all.reset = reset;
    all.removed = removed;
    // A model that is never woken costs no thread.
    if constexpr (!std::is_same_v<decltype(&Model::wake), void (Device::*)(uint64_t)>)
      all.wake = wake;
    return all;
  }
  static constexpr DxgkitDevice kTable = table();
};

}  // namespace internal

/// `Model` under a name of your choice, which holds no comma and no slash.
template <typename Model>
DeviceModel device_model(std::string name) {
  return {.name = std::move(name), .functions = &internal::DeviceFunctions<Model>::kTable};
}

}  // namespace dxgkit

/// Makes a shared object a device plug-in of one model. Outside every namespace, once.
#define DXGKIT_DEVICE_PLUGIN(Model)                                                    \
  extern "C" __attribute__((visibility("default"))) const DxgkitDevice* dxgkit_device( \
      uint32_t /*version of the host*/) {                                              \
    return &dxgkit::internal::DeviceFunctions<Model>::kTable;                          \
  }
