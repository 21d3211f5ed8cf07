// Faults of the IOMMU as findings: they name the address, and whose it is.
#include "api/dma_finding.h"

#include <gtest/gtest.h>

#include "bus/device.h"
#include "runtime/runtime.h"
#include "tests/support/covers.h"

namespace dxgkit::api {
namespace {

TEST(DmaFinding, NamesTheAddressAndItsOwner) {
  DXGKIT_COVERS("SEG-51");
  runtime::make_sim_runtime(1)->run_main([] {
    bus::Machine machine(8 << 20, 1 << 20);
    const auto memory = bus::DeviceMemory::create(0x2000);
    ASSERT_TRUE(memory.has_value());
    std::vector<bus::Bar> bars(2);
    bars[0].kind = bus::BarKind::kMemory;
    bars[0].size = 0x2000;
    bars[0].memory = (*memory)->window();
    bus::PciFunction function({.vendor_id = 0x1234, .device_id = 0x11E8}, std::move(bars));
    ASSERT_EQ(machine.add_function(function), Status::kSuccess);
    bus::PciFunction* const functions[] = {&function};
    const uint64_t bar = function.bars()[0].base.value;
    const struct {
      bus::DmaFault fault;
      std::string actual;
    } rows[] = {
        {{bus::PhysicalAddress{0x6000'0000}, true},
         "device 1234:11e8 wrote at bus address 0x60000000; it has had no owner: no memory of the "
         "machine was ever there."},
        {{bus::PhysicalAddress{0x4010'0010}, false},
         "device 1234:11e8 read at bus address 0x40100010; it is 0x10 bytes behind the end of the "
         "low window."},
        {{bus::PhysicalAddress{0x1'0080'0000}, true},
         "device 1234:11e8 wrote at bus address 0x100800000; it is 0x0 bytes behind the end of "
         "system memory."},
        {{bus::PhysicalAddress{bar + 0x1FFF}, true},
         "device 1234:11e8 wrote at bus address 0x8000001fff; it belongs to BAR 0 of device "
         "1234:11e8, 0x1fff bytes behind its start."},
        {{bus::PhysicalAddress{0x4000'0000}, true},
         "device 1234:11e8 wrote at bus address 0x40000000; it is system memory, but the IOMMU did "
         "not let the device through."},
    };
    for (const auto& row : rows) {
      const verifier::Finding finding = dma_finding(row.fault, machine, functions);
      EXPECT_EQ(finding.rule, "SEG-51");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_EQ(finding.actual, row.actual);
      EXPECT_EQ(finding.expected,
                "Addresses of system memory: 0x40000000 to 0x400fffff and 0x100000000 to "
                "0x1007fffff.");
    }
  });
}

}  // namespace
}  // namespace dxgkit::api
