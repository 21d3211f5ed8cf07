#include "devices/virtiogpu/device.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "base/arithmetic.h"
#include "bus/machine.h"
#include "devices/virtio/pci_transport.h"
#include "devices/virtiogpu/gpu.h"
#include "devices/virtiogpu/renderer_process.h"

namespace dxgkit::virtiogpu {
namespace {

constexpr uint64_t kMemoryLeast = uint64_t{1} << 20, kMemoryMost = uint64_t{64} << 30;
constexpr uint64_t kResourcesMost = 1 << 20;
constexpr uint64_t kMessagesMost = 64;
constexpr uint32_t kToldMost = 16384;  // pixels of a side that GET_DISPLAY_INFO may tell
constexpr uint64_t kResetReadsMost = 1000;
constexpr uint64_t kEntriesLeast = 4;
constexpr uint64_t kTimeoutMsDefault = 10'000, kTimeoutMsMost = 600'000;
// A kernel resets a device that is silent for 2 s. A context's own renderer is given up before.
constexpr uint64_t kTimeoutMsEach = 1500;
constexpr uint64_t kFormatFactor = 4;  // a texel has 16 bytes at most, and counts as 4

struct Config {
  GpuConfig gpu;
  uint16_t messages = 3;
  bool access_platform = false;
  uint32_t reset_reads = 0;
  bool indirect = true;
  virtio::PciOptions::Layout layout = virtio::PciOptions::Layout::kPlain;
  bool odd_capabilities = false;
  bool has_3d = false;
  bool odd_capsets = false;
  Renderers renderers = Renderers::kOne;
  RendererOptions renderer;
};

std::expected<std::unique_ptr<Rendering>, std::string> make_rendering(bus::Machine& machine,
                                                                      const Config& config) {
  RendererOptions options = config.renderer;
  if (options.program.empty()) options.program = find_renderer();
  if (options.program.empty())
    return std::unexpected(
        "3d: there is no renderer, because dxgkit was built without libvirglrenderer");
  const bus::PhysicalAddress base{bus::Machine::kSystemMemoryBase};
  options.memory = machine.window_of(base, kPageBytes).fd;
  machine.fix_system_memory();  // the renderer maps it
  if (options.memory < 0)
    return std::unexpected("3d: the renderer cannot reach memory that belongs to another process");
  options.data_bytes = config.gpu.memory_bytes * kFormatFactor;
  auto renderer = RendererProcess::start(options);
  if (!renderer.has_value()) return std::unexpected("3d: " + renderer.error());
  return std::make_unique<Rendering>(
      std::move(*renderer),
      [&machine, fd = options.memory](uint64_t address, uint64_t bytes) -> std::optional<uint64_t> {
        const bus::MemoryWindow window = machine.window_of(bus::PhysicalAddress{address}, bytes);
        if (window.fd != fd) return std::nullopt;
        return window.offset;
      },
      config.renderers, config.odd_capsets);
}

class VirtioGpuDevice final : public bus::Device,
                              private bus::FaultInjection,
                              private bus::DeviceScreen {
 public:
  VirtioGpuDevice(const bus::DeviceHost& host, const Config& config,
                  std::unique_ptr<Rendering> rendering)
      : gpu_(config.gpu, std::move(rendering)),
        transport_(host.runtime, host.machine, gpu_,
                   {.name = "virtio-gpu",
                    .identity = {.subsystem_vendor_id = VIRTIO_PCI_VENDOR_ID,
                                 .subsystem_id = 0x1100,
                                 .sub_class = 0x80},
                    .type = VGPU_VIRTIO_TYPE,
                    .messages = config.messages,
                    .indirect = config.indirect,
                    .access_platform = config.access_platform,
                    .reset_reads = config.reset_reads,
                    .layout = config.layout,
                    .odd_capabilities = config.odd_capabilities}) {
    functions_ = {&transport_.function()};
  }

  std::span<bus::PciFunction* const> functions() override { return functions_; }
  void set_power(size_t, bus::FunctionPower power) override {
    if (power != bus::FunctionPower::kOn) transport_.reset();
  }
  void reset(size_t) override { transport_.reset(); }
  void pulled_out() override {
    transport_.pull_out();
    gpu_.pull_out();
  }
  bus::FaultInjection* faults() override { return this; }
  bus::DeviceScreen* screen() override { return this; }
  std::vector<std::string> take_misuses() override {
    std::vector<std::string> all = transport_.take_misuses();
    std::ranges::move(gpu_.take_misuses(), std::back_inserter(all));
    return all;
  }
  std::vector<std::string> engine_names() const override { return {"virtio"}; }

 private:
  size_t engine_count() const override { return 1; }
  std::optional<uint64_t> memory_errors() const override { return transport_.memory_errors(); }
  void set_faults(std::span<const bus::EngineFaults> faults) override {
    transport_.set_faults(faults.empty() ? bus::EngineFaults{} : faults[0]);
  }
  bus::ScreenImage image() override { return gpu_.image(); }
  bool shows_pointer() const override { return true; }
  void on_flip(std::function<void(const bus::ScreenImage&)> flipped) override {
    gpu_.on_flip(std::move(flipped));
  }
  std::vector<bus::DeviceMonitor> monitors() const override { return gpu_.monitors(); }

  Gpu gpu_;
  virtio::PciTransport transport_;
  std::array<bus::PciFunction*, 1> functions_{};
};

/// "1280x800+640x480", the preferred one first.
std::expected<std::vector<Mode>, std::string> read_modes(std::string_view text, uint32_t most) {
  const auto wrong = [&] {
    return std::unexpected("modes: '" + std::string(text) +
                           "' is not one to ten different sizes like 1280x800+640x480, even "
                           "numbers from 64 to " +
                           std::to_string(most));
  };
  std::vector<Mode> modes;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](uint32_t* value) {
    const auto read = std::from_chars(at, end, *value);
    if (read.ec != std::errc()) return false;
    at = read.ptr;
    return *value >= kModeLeast && *value <= most && *value % 2 == 0;
  };
  while (true) {
    Mode mode;
    if (!number(&mode.width) || at == end || *at++ != 'x' || !number(&mode.height)) return wrong();
    if (std::ranges::find(modes, mode) != modes.end()) return wrong();
    modes.push_back(mode);
    if (modes.size() > kModesMost) return wrong();
    if (at == end) return modes;
    if (*at++ != '+') return wrong();
  }
}

std::expected<Config, std::string> read_config(const bus::DeviceOptions& options) {
  Config config;
  const auto edid = options.on_off("edid", true);
  if (!edid.has_value()) return std::unexpected(edid.error());
  config.gpu.edid = *edid;
  if (const auto text = options.find("modes"); text.has_value()) {
    auto modes = read_modes(*text, *edid ? kModeMost : kToldMost);
    if (!modes.has_value()) return std::unexpected(modes.error());
    config.gpu.modes = std::move(*modes);
  }
  const auto scanouts = options.number("scanouts", 1, 1, VGPU_SCANOUTS_MOST);
  if (!scanouts.has_value()) return std::unexpected(scanouts.error());
  config.gpu.scanouts = static_cast<uint32_t>(*scanouts);
  const auto memory = options.bytes("memory", config.gpu.memory_bytes);
  if (!memory.has_value()) return std::unexpected(memory.error());
  if (*memory < kMemoryLeast || *memory > kMemoryMost) return std::unexpected("memory: 1M to 64G");
  config.gpu.memory_bytes = *memory;
  const auto resources = options.number("resources", config.gpu.resources, 1, kResourcesMost);
  if (!resources.has_value()) return std::unexpected(resources.error());
  config.gpu.resources = static_cast<uint32_t>(*resources);
  const auto connected = options.on_off("connected", true);
  if (!connected.has_value()) return std::unexpected(connected.error());
  config.gpu.connected = *connected;
  const std::string_view damage = options.find("edid-damage").value_or("none");
  if (damage == "head") config.gpu.damage = EdidDamage::kHead;
  if (damage == "sum") config.gpu.damage = EdidDamage::kSum;
  if (damage != "none" && config.gpu.damage == EdidDamage::kNone)
    return std::unexpected("edid-damage: '" + std::string(damage) + "' is not none, head or sum");
  const auto messages = options.number("messages", config.messages, 0, kMessagesMost);
  if (!messages.has_value()) return std::unexpected(messages.error());
  config.messages = static_cast<uint16_t>(*messages);
  const auto access_platform = options.on_off("access-platform", false);
  if (!access_platform.has_value()) return std::unexpected(access_platform.error());
  config.access_platform = *access_platform;
  const auto reset_reads = options.number("reset-reads", 0, 0, kResetReadsMost);
  if (!reset_reads.has_value()) return std::unexpected(reset_reads.error());
  config.reset_reads = static_cast<uint32_t>(*reset_reads);
  const auto entries = options.number("entries", config.gpu.control_entries, kEntriesLeast,
                                      config.gpu.control_entries);
  if (!entries.has_value()) return std::unexpected(entries.error());
  if (!is_power_of_two(*entries)) return std::unexpected("entries: it is no power of two");
  config.gpu.control_entries = static_cast<uint16_t>(*entries);
  const auto indirect = options.on_off("indirect", true);
  if (!indirect.has_value()) return std::unexpected(indirect.error());
  config.indirect = *indirect;
  const std::string_view behind = options.find("registers-behind").value_or("off");
  if (behind == "on") config.layout = virtio::PciOptions::Layout::kBehind;
  if (behind == "narrow") config.layout = virtio::PciOptions::Layout::kNarrow;
  if (behind != "off" && config.layout == virtio::PciOptions::Layout::kPlain)
    return std::unexpected("registers-behind: '" + std::string(behind) +
                           "' is not off, on or narrow");
  const std::string_view capabilities = options.find("capabilities").value_or("plain");
  if (capabilities != "plain" && capabilities != "odd")
    return std::unexpected("capabilities: '" + std::string(capabilities) + "' is not plain or odd");
  config.odd_capabilities = capabilities == "odd";
  if (config.odd_capabilities && config.messages != 0)
    return std::unexpected("capabilities: odd leaves no room for messages: messages=0");
  const auto has_3d = options.on_off("3d", false);
  if (!has_3d.has_value()) return std::unexpected(has_3d.error());
  config.has_3d = *has_3d;
  const std::string_view capsets = options.find("capsets").value_or("plain");
  if (capsets != "plain" && capsets != "odd")
    return std::unexpected("capsets: '" + std::string(capsets) + "' is not plain or odd");
  config.odd_capsets = capsets == "odd";
  config.renderer.program = options.find("renderer").value_or("");
  const std::string_view renderers = options.find("renderers").value_or("one");
  if (renderers != "one" && renderers != "each")
    return std::unexpected("renderers: '" + std::string(renderers) + "' is not one or each");
  config.renderers = renderers == "one" ? Renderers::kOne : Renderers::kEach;
  const auto timeout = options.number(
      "timeout", config.renderers == Renderers::kOne ? kTimeoutMsDefault : kTimeoutMsEach, 1,
      kTimeoutMsMost);
  if (!timeout.has_value()) return std::unexpected(timeout.error());
  config.renderer.timeout = static_cast<runtime::DurationNs>(*timeout) * runtime::kMillisecond;
  return config;
}

}  // namespace

bus::DeviceType device_type() {
  bus::DeviceType type;
  type.name = "virtio-gpu";
  type.summary = "a virtio GPU (virtio 1.2): 2D and 3D resources, screens with EDID, a cursor";
  type.options = {
      {"modes", "WxH[+WxH...]",
       "sizes that its EDID names, up to ten, the preferred one first (1280x800)"},
      {"scanouts", "COUNT", "screens, up to 16 (1)"},
      {"memory", "SIZE", "limit for resources and their page lists (256M)"},
      {"resources", "COUNT", "limit for the number of resources (4096)"},
      {"edid", "on|off", "it tells the EDID of its screens (on)"},
      {"edid-damage", "none|head|sum",
       "what is wrong with the first block of the EDID; its first timing is, too (none)"},
      {"connected", "on|off", "it says without EDID that its screens are enabled (on)"},
      {"messages", "COUNT", "MSI-X messages, up to 64; 0: it has INTx only (3)"},
      {"access-platform", "on|off",
       "it offers ACCESS_PLATFORM, as behind an IOMMU, and refuses drivers without it (off)"},
      {"reset-reads", "COUNT",
       "how often its status is read until a reset is over, up to 1000 (0)"},
      {"entries", "COUNT", "descriptors of the control queue, a power of two from 4 to 256 (256)"},
      {"indirect", "on|off", "it takes indirect descriptors (on)"},
      {"registers-behind", "off|on|narrow",
       "its registers are in BAR 4, and the messages in BAR 1, or with 32 bits in BAR 3 (off)"},
      {"capabilities", "plain|odd",
       "odd: its list has more than drivers may use; takes messages=0 (plain)"},
      {"3d", "on|off", "it draws 3D, in a process of its own with libvirglrenderer (off)"},
      {"capsets", "plain|odd",
       "odd: of capability sets it lists one that is too large, an empty one, and more than a "
       "driver "
       "may have room for (plain)"},
      {"renderer", "PATH", "the program of that process (the one that comes with dxgkit)"},
      {"renderers", "one|each",
       "one such process for all contexts, or one for each: then contexts share nothing (one)"},
      {"timeout", "MS",
       "how long an answer of such a process may take (10000; 1500 with renderers=each)"}};
  type.ids = {{VIRTIO_PCI_VENDOR_ID, VIRTIO_PCI_DEVICE_ID(VGPU_VIRTIO_TYPE)}};
  type.others = {
      {{"modes",
        "640x480+64x64+1920x1080+1344x736+640x736+1344x480+720x400+1600x900+800x600+1024x768"},
       {"registers-behind", "on"}},
      {{"scanouts", "2"},
       {"capsets", "odd"},
       {"messages", "0"},
       {"capabilities", "odd"},
       {"access-platform", "on"},
       {"modes", "1280x720+720x400"}},
      {{"edid", "off"},
       {"modes", "4096x64"},
       {"memory", "64M"},
       {"reset-reads", "20"},
       {"entries", "8"},
       {"indirect", "off"}},
      {{"edid-damage", "head"}, {"connected", "off"}, {"registers-behind", "narrow"}},
      {{"edid-damage", "sum"}, {"modes", "800x600+640x480+1024x768"}},
      {{"edid", "off"}, {"modes", "64x4096"}}};
  type.configure =
      [](const bus::DeviceOptions& options) -> std::expected<bus::DeviceMaker, std::string> {
    const auto config = read_config(options);
    if (!config.has_value()) return std::unexpected(config.error());
    return [config = *config](const bus::DeviceHost& host)
               -> std::expected<std::unique_ptr<bus::Device>, std::string> {
      std::unique_ptr<Rendering> rendering;
      if (config.has_3d) {
        auto made = make_rendering(host.machine, config);
        if (!made.has_value()) return std::unexpected(made.error());
        rendering = std::move(*made);
      }
      return std::make_unique<VirtioGpuDevice>(host, config, std::move(rendering));
    };
  };
  return type;
}

}  // namespace dxgkit::virtiogpu
