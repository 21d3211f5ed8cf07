#include "tools/dxgkit/world.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "devices/framebuffer/framebuffer.h"
#include "devices/softgpu/softgpu.h"
#include "nt/registry_store.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {
namespace {

/// A display controller that nobody made.
constexpr uint16_t kNobodyVendor = 0x1B36, kNobodyDevice = 0xD0DD;

}  // namespace

World::World(runtime::Runtime& runtime, const WorldConfig& config) : machine_(config.memory_bytes) {
  using Kind = DeviceChoice::Kind;
  if (config.device.kind == Kind::kSoftGpu) {
    softgpu::SoftGpuConfig device;
    device.vram_bytes = config.vram_bytes;
    device.standby_keeps_bytes = config.device.standby_keeps_bytes;
    device.hibernate_keeps_bytes = config.device.hibernate_keeps_bytes;
    device.refresh_hz = config.device.refresh_hz;
    softgpu_ = std::make_unique<softgpu::SoftGpu>(runtime, machine_, device);
    return;
  }
  if (config.device.kind == Kind::kFrameBuffer) {
    auto made = framebuffer::FrameBuffer::create();
    if (made.has_value()) framebuffer_ = std::move(*made);
    return;
  }
  bus::PciIdentity identity;
  const bool given = config.device.kind == Kind::kPci;
  identity.vendor_id = given ? config.device.vendor_id : kNobodyVendor;
  identity.device_id = given ? config.device.device_id : kNobodyDevice;
  std::vector<bus::Bar> bars;
  for (const DeviceChoice::RamBar& ram : config.device.bars) {
    const int fd = memfd_create("dxgkit ram bar", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, static_cast<off_t>(ram.size_bytes)) == 0) {
      memory_files_.push_back(fd);
    } else if (fd >= 0) {
      close(fd);
    }
    bars.resize(ram.slot + 2);
    bars[ram.slot].kind = bus::BarKind::kMemory;
    bars[ram.slot].size = ram.size_bytes;
    bars[ram.slot].memory = {memory_files_.empty() ? -1 : memory_files_.back(), 0, ram.size_bytes};
  }
  plain_ = std::make_unique<bus::PciFunction>(identity, std::move(bars));
}

World::~World() {
  kernel_.reset();
  softgpu_.reset();
  framebuffer_.reset();
  plain_.reset();
  for (const int fd : memory_files_) close(fd);
}

bus::PciFunction& World::function() {
  if (softgpu_) return softgpu_->function();
  return framebuffer_ ? framebuffer_->function() : *plain_;
}

void World::pull_out() {
  if (softgpu_) {
    softgpu_->pull_out();
  } else {
    machine_.pull_out(function());
  }
}

std::expected<std::unique_ptr<World>, std::string> World::create(runtime::Runtime& runtime,
                                                                 verifier::Findings& findings,
                                                                 const WorldConfig& config) {
  std::unique_ptr<World> world(new World(runtime, config));
  if (config.device.kind == DeviceChoice::Kind::kFrameBuffer && !world->framebuffer_)
    return std::unexpected("there is no memory for the frame buffer");
  if (const Status plugged = world->machine_.add_function(world->function());
      !is_success(plugged)) {
    const std::string_view name = status_name(plugged);
    return std::unexpected(fmt::format("the device does not fit into the machine: {}", name));
  }
  world->kernel_ = std::make_unique<nt::Kernel>(runtime, world->machine_, findings, config.kernel);
  return world;
}

std::expected<nt::KernelConfig, std::string> read_kernel_config(
    const std::optional<std::string>& registry_path, bool special_pool, bool trace_imports) {
  nt::KernelConfig config;
  config.special_pool = special_pool;
  config.trace_imports = trace_imports;
  if (!registry_path.has_value()) return config;
  const std::expected<std::string, std::string> text = read_file(*registry_path);
  if (!text.has_value()) return std::unexpected(text.error());
  std::string message;
  const Result<nt::Registry> registry = nt::parse_registry(*text, &message);
  if (!registry.has_value()) return std::unexpected(fmt::format("{}: {}", *registry_path, message));
  config.registry = registry->to_map();
  return config;
}

}  // namespace dxgkit::tool
