#include "devices/vfio/vfio.h"

#include <array>
#include <utility>

#include "runtime/runtime.h"

namespace dxgkit::vfio {
namespace {

std::expected<Config, std::string> read_config(const bus::DeviceOptions& options) {
  Config config;
  const auto text = options.find("address");
  if (!text.has_value()) return wrong("it needs the place of a PCI device: vfio:DDDD:BB:DD.F");
  const auto address = parse_address(*text);
  if (!address.has_value())
    return wrong("address: '" + std::string(*text) +
                 "' is not DDDD:BB:DD.F in hexadecimal, such as 0000:01:00.0");
  config.address = *address;
  const struct {
    const char* name;
    bool* to;
  } switches[] = {{"trap-registers", &config.trap_registers},
                  {"faults", &config.watch_faults},
                  {"reset", &config.needs_reset}};
  for (const auto& [name, to] : switches) {
    const auto value = options.on_off(name, *to);
    if (!value.has_value()) return wrong(value.error());
    *to = *value;
  }
  const auto kind = options.find("interrupts").value_or("auto");
  constexpr std::array<std::pair<std::string_view, InterruptChoice>, 4> kKinds{
      {{"auto", InterruptChoice::kAuto},
       {"intx", InterruptChoice::kIntx},
       {"msi", InterruptChoice::kMsi},
       {"msix", InterruptChoice::kMsix}}};
  for (const auto& [name, choice] : kKinds) {
    if (kind != name) continue;
    config.interrupts = choice;
    return config;
  }
  return wrong("interrupts: '" + std::string(kind) + "' is not auto, intx, msi or msix");
}

}  // namespace

bus::DeviceType device_type(std::shared_ptr<Kernel> kernel) {
  bus::DeviceType type;
  type.name = "vfio";
  type.summary = "a PCI device of this computer, bound to vfio-pci; in real time only";
  type.simulated = false;
  type.options = {
      {"address", "DDDD:BB:DD.F", "domain, bus, device and function, in hexadecimal; needed"},
      {"trap-registers", "on|off",
       "every access to its registers is checked and in the trace (off: BARs are mapped)"},
      {"interrupts", "auto|intx|msi|msix", "how it interrupts (auto: MSI, else INTx, else MSI-X)"},
      {"faults", "on|off", "accesses that the IOMMU refused become findings (on)"},
      {"reset", "on|off", "it must be one that can be reset (on)"}};
  type.configure =
      [kernel = std::move(kernel)](
          const bus::DeviceOptions& options) -> std::expected<bus::DeviceMaker, std::string> {
    auto config = read_config(options);
    if (!config.has_value()) return wrong(config.error());
    return [kernel, config = *config](const bus::DeviceHost& host) {
      return open(kernel, config, host);
    };
  };
  return type;
}

bus::DeviceSpelling spelling() {
  return {"vfio:DDDD:BB:DD.F", "vfio with this address",
          [](std::string_view name) -> std::optional<std::string> {
            constexpr std::string_view kPrefix = "vfio:";
            if (!name.starts_with(kPrefix)) return std::nullopt;
            return "vfio,address=" + std::string(name.substr(kPrefix.size()));
          }};
}

}  // namespace dxgkit::vfio
