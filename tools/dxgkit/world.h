// A machine with one device and the kernel of one driver: what every command that runs a driver
// stands on.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "nt/kernel.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/options.h"
#include "verifier/findings.h"

namespace dxgkit::softgpu {
class SoftGpu;
}
namespace dxgkit::framebuffer {
class FrameBuffer;
}

namespace dxgkit::tool {

/// TdrDelay with real threads, where the registry does not say: engines that are threads get no
/// processor for a while on a machine that does much else, which is no mistake of the driver's.
inline constexpr int64_t kBusyMachineTdrDelayNs = 10'000'000'000;

struct WorldConfig {
  DeviceChoice device;
  uint64_t memory_bytes = uint64_t{512} << 20;  // of the machine, without the device's
  uint64_t vram_bytes = uint64_t{64} << 20;     // of softgpu
  nt::KernelConfig kernel;
};

/// Made inside a runtime. Power is on from the constructor to the destructor.
class World {
 public:
  /// The error is one sentence: the device does not fit into the machine.
  static std::expected<std::unique_ptr<World>, std::string> create(runtime::Runtime& runtime,
                                                                   verifier::Findings& findings,
                                                                   const WorldConfig& config);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  bus::Machine& machine() { return machine_; }
  nt::Kernel& kernel() { return *kernel_; }
  bus::PciFunction& function();
  /// Surprise removal of a softgpu; other devices just leave the bus.
  void pull_out();
  /// Null for other devices.
  softgpu::SoftGpu* softgpu() { return softgpu_.get(); }
  /// What the screen of a framebuffer device shows; null for other devices.
  const framebuffer::FrameBuffer* screen() const { return framebuffer_.get(); }

 private:
  World(runtime::Runtime& runtime, const WorldConfig& config);

  bus::Machine machine_;
  std::vector<int> memory_files_;  // behind RAM BARs
  std::unique_ptr<softgpu::SoftGpu> softgpu_;
  std::unique_ptr<framebuffer::FrameBuffer> framebuffer_;
  std::unique_ptr<bus::PciFunction> plain_;  // kNone, kPci
  std::unique_ptr<nt::Kernel> kernel_;
};

/// The kernel as the command line wants it: values of a registry file (TOML or JSON), special pool,
/// imports in the trace. The error is one sentence that begins with the path.
std::expected<nt::KernelConfig, std::string> read_kernel_config(
    const std::optional<std::string>& registry_path, bool special_pool, bool trace_imports);

}  // namespace dxgkit::tool
