#include "api/dma_finding.h"

#include <fmt/format.h>

#include "base/arithmetic.h"

namespace dxgkit::api {
namespace {

constexpr uint64_t kNear = uint64_t{64} << 20;  // bytes behind memory that an overrun may reach

std::string name_of(const bus::PciFunction& function) {
  return fmt::format("device {:04x}:{:04x}", function.identity().vendor_id,
                     function.identity().device_id);
}

/// Whose the address is, as the end of a sentence.
std::string owner_of(uint64_t address, bus::Machine& machine,
                     std::span<bus::PciFunction* const> functions) {
  for (const bus::PciFunction* const function : functions) {
    const std::span<const bus::Bar> bars = function->bars();
    for (size_t slot = 0; slot < bars.size(); ++slot) {
      const bus::Bar& bar = bars[slot];
      if (bar.kind != bus::BarKind::kRegisters && bar.kind != bus::BarKind::kMemory) continue;
      if (address < bar.base.value || address - bar.base.value >= bar.size) continue;
      return fmt::format("it belongs to BAR {} of {}, 0x{:x} bytes behind its start", slot,
                         name_of(*function), address - bar.base.value);
    }
  }
  if (machine.system_pointer(bus::PhysicalAddress{address}, 1) != nullptr)
    return "it is system memory, but the IOMMU did not let the device through";
  const std::pair<const char*, uint64_t> ends[] = {
      {"the low window", bus::Machine::kLowMemoryBase + machine.low_memory_bytes()},
      {"system memory", machine.highest_system_address().value + 1}};
  for (const auto& [what, end] : ends) {
    if (address >= end && address - end < kNear)
      return fmt::format("it is 0x{:x} bytes behind the end of {}", address - end, what);
  }
  return "it has had no owner: no memory of the machine was ever there";
}

}  // namespace

verifier::Finding dma_finding(const bus::DmaFault& fault, bus::Machine& machine,
                              std::span<bus::PciFunction* const> functions) {
  const std::string low =
      machine.low_memory_bytes() == 0
          ? ""
          : fmt::format("0x{:x} to 0x{:x} and ", bus::Machine::kLowMemoryBase,
                        bus::Machine::kLowMemoryBase + machine.low_memory_bytes() - 1);
  return {.rule = "SEG-51",
          .severity = verifier::Severity::kViolation,
          .ddi = "DMA",
          .actual = fmt::format("{} {} at bus address 0x{:x}; {}.",
                                functions.empty() ? "The device" : name_of(*functions.front()),
                                fault.is_write ? "wrote" : "read", fault.address.value,
                                owner_of(fault.address.value, machine, functions)),
          .expected =
              fmt::format("Addresses of system memory: {}0x{:x} to 0x{:x}.", low,
                          bus::Machine::kSystemMemoryBase, machine.highest_system_address().value),
          .fix =
              "Find the work that was on the hardware at that time, and the place where the "
              "driver made this address. The access had no effect, so what it was to read or "
              "write is missing.",
          .confidence = verifier::Confidence::kInferred};
}

}  // namespace dxgkit::api
