// A virtio GPU with 3D for tests of drivers: its renderer knows three commands, and it refuses
// whatever a driver should not have sent.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bus/device.h"
#include "bus/machine.h"
#include "devices/virtio/model.h"
#include "devices/virtio/pci_transport.h"
#include "devices/virtiogpu/gpu.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"

namespace dxgkit {

// Commands of the renderer, words: what, and up to two more.
inline constexpr uint32_t kFill = 1;  // resource, value: all pixels get it
inline constexpr uint32_t kAdd = 2;   // resource, value: all pixels grow by it
inline constexpr uint32_t kCopy = 3;  // destination, source: of the same size

inline constexpr uint32_t kScriptedCapset = VGPU_CAPSET_VIRGL2, kScriptedVersion = 2;
/// The data of the capability set: byte `at`.
inline constexpr uint8_t capset_byte(uint32_t at) { return static_cast<uint8_t>(at * 5 + 1); }
inline constexpr uint32_t kCapsetBytes = 308;

/// 2D is devices/virtiogpu's. A 3D resource is a picture of four bytes per pixel without mipmaps
/// (target 2), up to kPixelsMost.
class ScriptedRenderer final : public virtio::Model {
 public:
  static constexpr uint64_t kPixelsMost = 1 << 20;

  struct Counts {
    uint32_t resources = 0, contexts = 0;    // that there are
    uint32_t attached = 0;                   // pairs of a context and a resource
    uint32_t backed = 0;                     // resources that have memory
    uint32_t backings = 0, submissions = 0;  // so far
    uint32_t refused = 0;                    // so far; of the first one:
    std::string first;
  };
  Counts counts();
  /// Waits until the counts are as wanted, because drivers do not wait for all they send. Ten
  /// seconds are too long. One thread at a time.
  Counts await(const std::function<bool(const Counts&)>& wanted);

  uint64_t features() const override;
  std::vector<uint16_t> queue_sizes() const override { return gpu_.queue_sizes(); }
  uint32_t config_bytes() const override { return gpu_.config_bytes(); }
  void config_read(uint64_t offset, std::span<std::byte> to) override;
  void config_write(uint64_t offset, std::span<const std::byte> from) override {
    gpu_.config_write(offset, from);
  }
  runtime::DurationNs time_of(uint16_t queue, virtio::Request& request) override {
    return gpu_.time_of(queue, request);
  }
  void execute(uint16_t queue, virtio::Request& request) override;
  void reset() override;

 private:
  struct Resource {
    uint32_t width = 0, height = 0;
    std::vector<uint32_t> pixels;
    std::vector<VgpuEntry> backing;
  };
  struct Context {
    std::set<uint32_t> resources;
    bool is_broken = false;  // a command was wrong: it takes no more
  };

  /// Null: it was right. Else why not, and *type the answer.
  const char* carry_out(const VgpuHeader& header, virtio::Request& request, uint32_t* type,
                        std::vector<std::byte>* answer) DXGKIT_REQUIRES(mutex_);
  const char* create_context(const VgpuHeader& header, virtio::Request& request)
      DXGKIT_REQUIRES(mutex_);
  const char* create_resource(virtio::Request& request, uint32_t* type) DXGKIT_REQUIRES(mutex_);
  const char* pair(const VgpuHeader& header, virtio::Request& request) DXGKIT_REQUIRES(mutex_);
  const char* attach(virtio::Request& request) DXGKIT_REQUIRES(mutex_);
  const char* transfer(const VgpuHeader& header, virtio::Request& request) DXGKIT_REQUIRES(mutex_);
  const char* submit(const VgpuHeader& header, virtio::Request& request) DXGKIT_REQUIRES(mutex_);
  /// Null: the context has none with this id.
  Resource* reach(const Context& context, uint32_t id) DXGKIT_REQUIRES(mutex_);

  runtime::Event worked_;
  virtiogpu::Gpu gpu_{{.modes = {{64, 64}}}};  // a small aperture has room for it
  runtime::Mutex mutex_;                       // never held while gpu_ works
  std::map<uint32_t, Resource> resources_ DXGKIT_GUARDED_BY(mutex_);
  std::map<uint32_t, Context> contexts_ DXGKIT_GUARDED_BY(mutex_);
  Counts counts_ DXGKIT_GUARDED_BY(mutex_);
};

class ScriptedRendererDevice final : public bus::Device, private bus::FaultInjection {
 public:
  explicit ScriptedRendererDevice(const bus::DeviceHost& host)
      : transport_(host.runtime, host.machine, renderer_,
                   {.name = "scripted-renderer",
                    .identity = {.sub_class = 0x80},
                    .type = VGPU_VIRTIO_TYPE}),
        functions_{&transport_.function()} {}
  ScriptedRenderer& renderer() { return renderer_; }

  std::span<bus::PciFunction* const> functions() override { return functions_; }
  void set_power(size_t, bus::FunctionPower power) override {
    if (power != bus::FunctionPower::kOn) transport_.reset();
  }
  void reset(size_t) override { transport_.reset(); }
  bus::FaultInjection* faults() override { return this; }

 private:
  size_t engine_count() const override { return 1; }
  std::optional<uint64_t> memory_errors() const override { return transport_.memory_errors(); }
  void set_faults(std::span<const bus::EngineFaults> faults) override {
    transport_.set_faults(faults.empty() ? bus::EngineFaults{} : faults[0]);
  }

  ScriptedRenderer renderer_;
  virtio::PciTransport transport_;
  std::array<bus::PciFunction*, 1> functions_;
};

}  // namespace dxgkit
