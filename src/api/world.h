// A machine with its devices and the kernel of one driver: what a stack stands on, and every
// command of the tool that runs a driver.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bus/device.h"
#include "bus/machine.h"
#include "nt/kernel.h"
#include "runtime/runtime.h"
#include "verifier/findings.h"

namespace dxgkit::api {

/// Memory below 4 GiB, beside the rest, for devices that send addresses of 32 bits.
inline constexpr uint64_t kLowMemoryBytes = uint64_t{16} << 20;

struct WorldConfig {
  std::vector<bus::DeviceChoice> devices;       // plugged in in this order; at least one
  uint64_t memory_bytes = uint64_t{512} << 20;  // of the machine, without the devices'
  /// Of each device that can be told, and was not. Unset: as its model says.
  std::optional<uint64_t> vram_bytes;
  nt::KernelConfig kernel;
};

/// Made inside a runtime. Power is on from the constructor to the destructor.
class World {
 public:
  /// The error is one sentence: a device cannot be made, or does not fit into the machine.
  static std::expected<std::unique_ptr<World>, std::string> create(runtime::Runtime& runtime,
                                                                   verifier::Findings& findings,
                                                                   const WorldConfig& config);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  bus::Machine& machine() { return machine_; }
  nt::Kernel& kernel() { return *kernel_; }
  /// By their position in the configuration.
  bus::Device& device(size_t index = 0) { return *devices_[index]; }

  /// A function that a display driver can drive, and its device.
  struct Slot {
    size_t device = 0;
    bus::PciFunction* function = nullptr;
  };
  /// Each device has at least one: its display controllers and processing accelerators, or, if it
  /// has none, its first function.
  const std::vector<Slot>& slots() const { return slots_; }
  bus::PciFunction& function() { return *slots_.front().function; }
  /// Surprise removal.
  void pull_out(size_t device = 0);
  /// The registers of the device answer no more: Machine::silence.
  void silence(size_t device = 0);
  /// Device::on_loss of all devices: `lost` gets the device's position in the configuration.
  void on_loss(const std::function<void(size_t device, const std::string& why)>& lost);

 private:
  explicit World(uint64_t memory_bytes) : machine_(memory_bytes, kLowMemoryBytes) {}

  bus::Machine machine_;
  std::vector<std::unique_ptr<bus::Device>> devices_;
  std::vector<Slot> slots_;
  std::unique_ptr<nt::Kernel> kernel_;
};

}  // namespace dxgkit::api
