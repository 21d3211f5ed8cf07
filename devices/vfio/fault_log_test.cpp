// Lines of the log of Linux: which of them are faults of a device, and what they say.
#include "devices/vfio/fault_log.h"

#include <gtest/gtest.h>

namespace dxgkit::vfio {
namespace {

constexpr HostAddress kDevice{.domain = 0, .bus = 0, .device = 5, .function = 0};

TEST(FaultLog, LinesOfIommuDrivers) {
  const struct {
    const char* what;
    const char* line;
    std::optional<IommuFault> fault;
  } rows[] = {
      {"Intel, a write",
       "3,812,5012345,-;DMAR: [DMA Write NO_PASID] Request device [00:05.0] fault addr 0x12345000 "
       "[fault reason 0x05] PTE Write access is not set",
       IommuFault{0x1234'5000, true}},
      {"Intel, a read, of an older Linux",
       "DMAR: [DMA Read] Request device [00:05.0] PASID ffffffff fault addr fee0000 [fault reason "
       "06] PTE Read access is not set",
       IommuFault{0xFEE'0000, false}},
      {"AMD, a write",
       "vfio-pci 0000:00:05.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000f "
       "address=0xabcdef0123456780 flags=0x0020]",
       IommuFault{0xABCD'EF01'2345'6780, true}},
      {"AMD, a read of a device without a driver",
       "AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:00:05.0 domain=0x000f address=0x80 "
       "flags=0x0000]",
       IommuFault{0x80, false}},
      {"another device", "DMAR: [DMA Write NO_PASID] Request device [00:05.1] fault addr 0x1000",
       std::nullopt},
      {"another device of AMD",
       "vfio-pci 0000:00:06.0: AMD-Vi: Event logged [IO_PAGE_FAULT address=0x80 flags=0x0000]",
       std::nullopt},
      {"no address", "DMAR: [DMA Write NO_PASID] Request device [00:05.0] fault addr",
       std::nullopt},
      {"something else", "usb 1-1: new high-speed USB device [00:05.0] fault addr 0x1000",
       std::nullopt},
      {"nothing", "", std::nullopt},
  };
  for (const auto& row : rows) EXPECT_EQ(parse_fault(row.line, kDevice), row.fault) << row.what;
}

TEST(HostAddress, IsReadAndWritten) {
  for (const char* text : {"0000:00:05.0", "10a4:ff:1f.7"}) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(to_text(*address), text);
  }
  for (const char* text :
       {"", "00:05.0", "0000:00:05", "0000:00:05.", "0000:00:20.0", "0000:00:05.8", "0000:00:05.00",
        "0000-00:05.0", "000g:00:05.0", " 000:00:05.0", "+000:00:05.0", "0000:00:05.0 "})
    EXPECT_FALSE(parse_address(text).has_value()) << text;
}

}  // namespace
}  // namespace dxgkit::vfio
