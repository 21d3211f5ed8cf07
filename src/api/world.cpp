#include "api/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "api/dma_finding.h"
#include "bus/dma_fault.h"

namespace dxgkit::api {
namespace {

constexpr uint8_t kDisplayController = 0x03, kProcessingAccelerator = 0x12;  // base classes

std::vector<World::Slot> slots_of(size_t index, bus::Device& device) {
  std::vector<World::Slot> slots;
  for (bus::PciFunction* const function : device.functions()) {
    const uint8_t base_class = function->identity().base_class;
    if (base_class == kDisplayController || base_class == kProcessingAccelerator)
      slots.push_back({index, function});
  }
  if (slots.empty()) slots.push_back({index, device.functions().front()});
  return slots;
}

}  // namespace

World::~World() {
  kernel_.reset();
  while (!devices_.empty()) devices_.pop_back();  // the last one first
}

void World::pull_out(size_t device) { bus::pull_out(machine_, *devices_[device]); }

void World::silence(size_t device) {
  for (bus::PciFunction* const function : devices_[device]->functions())
    machine_.silence(*function);
}

void World::on_loss(const std::function<void(size_t device, const std::string& why)>& lost) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (lost) {
      devices_[i]->on_loss([i, lost](const std::string& why) { lost(i, why); });
    } else {
      devices_[i]->on_loss(nullptr);
    }
  }
}

std::expected<std::unique_ptr<World>, std::string> World::create(runtime::Runtime& runtime,
                                                                 verifier::Findings& findings,
                                                                 const WorldConfig& config) {
  std::unique_ptr<World> world(new World(config.memory_bytes));
  std::vector<std::pair<std::string, std::string>> defaults;
  if (config.vram_bytes.has_value())
    defaults.emplace_back("vram", std::to_string(*config.vram_bytes));
  bool lit = false;
  for (size_t i = 0; i < config.devices.size(); ++i) {
    auto made = config.devices[i].make({runtime, world->machine_}, defaults);
    if (!made.has_value()) return std::unexpected(made.error());
    bus::Device& device = *world->devices_.emplace_back(std::move(*made));
    // Firmware lights one display: the first one it finds. The search takes locks, at which a
    // simulated thread may be switched. A machine with one device needs no search.
    for (bus::PciFunction* const function : device.functions()) {
      if (config.devices.size() == 1 || !function->post_display().has_value()) continue;
      if (lit) function->set_post_display(std::nullopt);
      lit = true;
    }
    if (const Status plugged = bus::plug_in(world->machine_, device); !is_success(plugged)) {
      return std::unexpected(fmt::format("{} does not fit into the machine: {}",
                                         config.devices[i].text, status_name(plugged)));
    }
    std::ranges::copy(slots_of(i, device), std::back_inserter(world->slots_));
    if (auto* const source = dynamic_cast<bus::DmaFaultSource*>(&device); source != nullptr) {
      source->on_dma_fault(
          [&findings, &machine = world->machine_, &device](const bus::DmaFault& fault) {
            findings.report(dma_finding(fault, machine, device.functions()));
          });
    }
  }
  world->kernel_ = std::make_unique<nt::Kernel>(runtime, world->machine_, findings, config.kernel);
  return world;
}

}  // namespace dxgkit::api
