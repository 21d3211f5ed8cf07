#include "devices/softgpu/device.h"

#include <algorithm>
#include <array>

#include "base/arithmetic.h"
#include "devices/softgpu/softgpu.h"

namespace dxgkit::softgpu {
namespace {

constexpr uint64_t kVramBytesDefault = uint64_t{64} << 20;
constexpr uint64_t kVramBytesMost = uint64_t{1} << 40;
constexpr uint64_t kRefreshHzMost = 1000;

class SoftGpuDevice final : public bus::Device,
                            private bus::FaultInjection,
                            private bus::DeviceScreen {
 public:
  SoftGpuDevice(const bus::DeviceHost& host, const SoftGpuConfig& config)
      : has_screen_(config.refresh_hz != 0), gpu_(host.runtime, host.machine, config) {
    functions_ = {&gpu_.function()};
  }

  std::span<bus::PciFunction* const> functions() override { return functions_; }
  void set_power(size_t, bus::FunctionPower power) override { gpu_.lose_power(power); }
  void reset(size_t) override { gpu_.reset(); }
  void pulled_out() override { gpu_.pull_out(); }
  bus::FaultInjection* faults() override { return this; }
  bus::DeviceScreen* screen() override { return has_screen_ ? this : nullptr; }
  std::vector<std::string> engine_names() const override { return {"3D", "copy"}; }

 private:
  size_t engine_count() const override { return SGPU_NODE_COUNT; }
  std::optional<uint64_t> memory_errors() const override { return gpu_.memory_errors(); }
  void set_faults(std::span<const bus::EngineFaults> faults) override {
    FaultPlan plan;
    for (size_t node = 0; node < std::min(faults.size(), plan.nodes.size()); ++node) {
      NodeFaults& to = plan.nodes[node];
      to.lose_interrupt_per_million = faults[node].lose_interrupt_per_million;
      to.duplicate_interrupt_per_million = faults[node].duplicate_interrupt_per_million;
      to.late_interrupt_per_million = faults[node].late_interrupt_per_million;
      if (faults[node].hang_at_entry != 0) to.hang_at_entry = faults[node].hang_at_entry;
      to.hangs_max = faults[node].hangs_max;
      to.hangs_late = faults[node].hangs_late;
      to.memory_error_after_ns =
          static_cast<runtime::DurationNs>(faults[node].memory_error_after_ns);
      to.reset_ns = static_cast<runtime::DurationNs>(faults[node].reset_ns);
      to.preempts_when_idle = faults[node].preempts_when_idle;
      if (faults[node].memory_error_at_entry != 0)
        to.memory_error_at_entry = faults[node].memory_error_at_entry;
    }
    gpu_.set_faults(plan);
  }

  static bus::ScreenImage to_image(const ScreenPicture& picture) {
    return {picture.width, picture.height, picture.pixels};
  }
  bus::ScreenImage image() override { return to_image(gpu_.screen()); }
  void on_flip(std::function<void(const bus::ScreenImage&)> flipped) override {
    if (!flipped) return gpu_.on_flip(nullptr);
    gpu_.on_flip([flipped = std::move(flipped)](const ScreenPicture& picture) {
      flipped(to_image(picture));
    });
  }

  const bool has_screen_;
  SoftGpu gpu_;
  std::array<bus::PciFunction*, 1> functions_{};
};

/// SIZE, or "all"; none of it if it is not given.
std::expected<uint64_t, std::string> survivors(const bus::DeviceOptions& options,
                                               std::string_view name) {
  if (options.find(name) == "all") return UINT64_MAX;
  return options.bytes(name, 0);
}

std::expected<SoftGpuConfig, std::string> read_config(const bus::DeviceOptions& options) {
  SoftGpuConfig config;
  const auto vram = options.bytes("vram", kVramBytesDefault);
  if (!vram.has_value()) return std::unexpected(vram.error());
  if (*vram < kPageBytes || *vram > kVramBytesMost || *vram % kPageBytes != 0)
    return std::unexpected("vram: a multiple of 4K from 4K to 1024G");
  config.vram_bytes = *vram;
  const auto standby = survivors(options, "standby");
  if (!standby.has_value()) return std::unexpected(standby.error());
  config.standby_keeps_bytes = *standby;
  const auto hibernate = survivors(options, "hibernate");
  if (!hibernate.has_value()) return std::unexpected(hibernate.error());
  config.hibernate_keeps_bytes = *hibernate;
  if (config.hibernate_keeps_bytes > config.standby_keeps_bytes)
    return std::unexpected("hibernation keeps no more than standby");
  const auto refresh = options.number("refresh", 0, 0, kRefreshHzMost);
  if (!refresh.has_value()) return std::unexpected(refresh.error());
  config.refresh_hz = static_cast<uint32_t>(*refresh);
  return config;
}

}  // namespace

bus::DeviceType device_type() {
  bus::DeviceType type;
  type.name = "softgpu";
  type.summary = "a GPU made of threads: 3D and copy engine, video memory, GPU virtual addresses";
  type.options = {
      {"vram", "SIZE", "video memory, whole pages (64M; run chooses it by the job)"},
      {"standby", "SIZE|all", "video memory that survives standby, from offset 0 (0)"},
      {"hibernate", "SIZE|all", "video memory that survives hibernation, not more than that (0)"},
      {"refresh", "HZ",
       "it has a screen with so many vertical syncs a second, up to 1000 (0: none)"}};
  type.ids = {{SGPU_PCI_VENDOR_ID, SGPU_PCI_DEVICE_ID}};
  type.others = {{{"vram", "3M"}, {"standby", "all"}, {"hibernate", "all"}},
                 {{"vram", "5124K"}, {"standby", "all"}, {"hibernate", "1M"}},
                 {{"vram", "6M"}, {"standby", "2M"}, {"hibernate", "1M"}},
                 {{"vram", "3M"}, {"standby", "all"}, {"hibernate", "0"}},
                 {{"vram", "4G"}, {"standby", "all"}, {"hibernate", "all"}}};
  type.configure =
      [](const bus::DeviceOptions& options) -> std::expected<bus::DeviceMaker, std::string> {
    const auto config = read_config(options);
    if (!config.has_value()) return std::unexpected(config.error());
    return [config = *config](const bus::DeviceHost& host)
               -> std::expected<std::unique_ptr<bus::Device>, std::string> {
      return std::make_unique<SoftGpuDevice>(host, config);
    };
  };
  return type;
}

}  // namespace dxgkit::softgpu
