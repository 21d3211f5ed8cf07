// A device that cannot be had, or that is not what it says: one sentence that says what to do, and
// every descriptor is closed again. A Linux that the test changes answers.
#include <gtest/gtest.h>

#include <cerrno>

#include "bus/machine.h"
#include "devices/vfio/fake_linux.h"
#include "devices/vfio/vfio.h"
#include "runtime/runtime.h"

namespace dxgkit::vfio {
namespace {

constexpr uint64_t kSystemBytes = 8 << 20, kLowBytes = 1 << 20;
constexpr const char* kFolder = "/sys/bus/pci/devices/0000:00:05.0";

std::string refusal(FakeLinux& fake, const char* options = "") {
  const auto shared = std::shared_ptr<FakeLinux>(&fake, [](FakeLinux*) {});
  bus::DeviceRegistry all;
  all.add(device_type(shared));
  all.add_spelling(spelling());
  std::string why = "none";
  runtime::make_os_runtime(1)->run_main([&] {
    const auto choice = all.parse(std::string("vfio:0000:00:05.0") + options);
    ASSERT_TRUE(choice.has_value()) << choice.error();
    bus::Machine machine(kSystemBytes, kLowBytes);
    const auto made = choice->make({runtime::Runtime::current(), machine});
    if (!made.has_value()) why = made.error();
  });
  EXPECT_EQ(fake.open_descriptors(), 0U) << why;
  return why;
}

TEST(VfioRefusal, OfAHostThatIsNotReady) {
  const struct {
    const char* why;
    std::function<void(FakeLinux&)> change;
  } rows[] = {
      {"none", [](FakeLinux&) {}},
      {"there is no such PCI device; lspci -D lists those there are",
       [](FakeLinux& fake) { fake.folders.erase(kFolder); }},
      {"it is in no IOMMU group, so nothing would keep its DMA from all memory of this "
       "computer: turn on VT-d or AMD-Vi in the firmware, and intel_iommu=on on the command line "
       "of Linux",
       [](FakeLinux& fake) { fake.links.erase(std::string(kFolder) + "/iommu_group"); }},
      {"it is driven by nouveau: bind it to vfio-pci (echo 0000:00:05.0 > "
       "/sys/bus/pci/devices/0000:00:05.0/driver/unbind; echo vfio-pci > "
       "/sys/bus/pci/devices/0000:00:05.0/driver_override; echo 0000:00:05.0 > "
       "/sys/bus/pci/drivers_probe)",
       [](FakeLinux& fake) { fake.links[std::string(kFolder) + "/driver"] = "nouveau"; }},
      {"it has no driver: bind it to vfio-pci (echo vfio-pci > "
       "/sys/bus/pci/devices/0000:00:05.0/driver_override; echo 0000:00:05.0 > "
       "/sys/bus/pci/drivers_probe)",
       [](FakeLinux& fake) { fake.links.erase(std::string(kFolder) + "/driver"); }},
      {"/dev/vfio/vfio cannot be opened: No such file or directory (2); load the module (modprobe "
       "vfio-pci)",
       [](FakeLinux& fake) { fake.open_errors["/dev/vfio/vfio"] = ENOENT; }},
      {"no permission for /dev/vfio/vfio: run as root, or chmod 666 /dev/vfio/vfio",
       [](FakeLinux& fake) { fake.open_errors["/dev/vfio/vfio"] = EACCES; }},
      {"this Linux speaks another version of VFIO",
       [](FakeLinux& fake) { fake.api_version = VFIO_API_VERSION + 1; }},
      {"this Linux has no VFIO for its IOMMU: load the module vfio_iommu_type1",
       [](FakeLinux& fake) { fake.extension = 0; }},
      {"no permission for /dev/vfio/7: run as root, or chown /dev/vfio/7",
       [](FakeLinux& fake) { fake.open_errors["/dev/vfio/7"] = EACCES; }},
      {"IOMMU group 7 is in use: end the process that has /dev/vfio/7 open",
       [](FakeLinux& fake) { fake.open_errors["/dev/vfio/7"] = EBUSY; }},
      {"/dev/vfio/7 cannot be opened: No such file or directory (2); a file of that name appears "
       "once the device is bound to vfio-pci",
       [](FakeLinux& fake) { fake.open_errors["/dev/vfio/7"] = ENOENT; }},
      {"IOMMU group 7 is not viable: bind all its devices to vfio-pci or to no driver; these are "
       "not: 0000:00:05.1 (snd_hda_intel)",
       [](FakeLinux& fake) {
         fake.group_flags = 0;
         fake.folders["/sys/kernel/iommu_groups/7/devices"] = {"0000:00:05.0", "0000:00:05.1",
                                                               "0000:00:05.2"};
         fake.links["/sys/bus/pci/devices/0000:00:05.1/driver"] = "snd_hda_intel";
       }},
      {"IOMMU group 7 cannot be used: Invalid argument (22)",
       [](FakeLinux& fake) { fake.control_errors[VFIO_GROUP_SET_CONTAINER] = EINVAL; }},
      {"the IOMMU cannot be used: Operation not permitted (1); without interrupt remapping Linux "
       "refuses it",
       [](FakeLinux& fake) { fake.control_errors[VFIO_SET_IOMMU] = EPERM; }},
      {"DMA needs 41984 KiB of locked memory and the limit is 64 KiB: raise it (ulimit -l 41984), "
       "or "
       "give the machine less memory",
       [](FakeLinux& fake) {
         fake.control_errors[VFIO_IOMMU_MAP_DMA] = ENOMEM;
         fake.lock_limit = 65536;
       }},
      {"the memory of the machine cannot be mapped for DMA: Cannot allocate memory (12)",
       [](FakeLinux& fake) { fake.control_errors[VFIO_IOMMU_MAP_DMA] = ENOMEM; }},
      {"the IOMMU cannot map memory at bus addresses as high as 4303355903: use less memory",
       [](FakeLinux& fake) {
         fake.usable = {{0, 0xFEDF'FFFF}};
       }},
      {"it cannot be opened: No such device (19)",
       [](FakeLinux& fake) { fake.control_errors[VFIO_GROUP_GET_DEVICE_FD] = ENODEV; }},
      {"the log of Linux (/dev/kmsg) cannot be read, so that faults of the IOMMU would go unseen: "
       "Operation not permitted (1); run as root, or say faults=off",
       [](FakeLinux& fake) { fake.open_errors["/dev/kmsg"] = EPERM; }},
  };
  for (const auto& row : rows) {
    FakeLinux fake;
    row.change(fake);
    const std::string none = "none";
    EXPECT_EQ(refusal(fake),
              row.why == none ? none : "vfio: 0000:00:05.0: " + std::string(row.why));
  }
}

/// Every number of Linux, as one that lies would choose it.
TEST(VfioRefusal, OfADeviceThatCannotBe) {
  const struct {
    const char* why;
    std::function<void(FakeLinux&)> change;
  } rows[] = {
      {"it is no PCI device", [](FakeLinux& fake) { fake.device.flags = VFIO_DEVICE_FLAGS_AMBA; }},
      {"it has no configuration space", [](FakeLinux& fake) { fake.device.num_regions = 7; }},
      {"its configuration space has 255 bytes",
       [](FakeLinux& fake) { fake.regions[VFIO_PCI_CONFIG_REGION_INDEX].size = 255; }},
      {"its configuration space has 8192 bytes",
       [](FakeLinux& fake) { fake.regions[VFIO_PCI_CONFIG_REGION_INDEX].size = 8192; }},
      {"region 0 has 65536 bytes at offset 18446744073709551615, more than a file can have",
       [](FakeLinux& fake) { fake.regions[0].offset = UINT64_MAX; }},
      {"region 0 gives an answer without end",
       [](FakeLinux& fake) { fake.regions[0].argsz = UINT32_MAX; }},
      {"region 0 cannot be read and written",
       [](FakeLinux& fake) { fake.regions[0].flags = VFIO_REGION_INFO_FLAG_MMAP; }},
      {"BAR 0: its size of 65535 bytes is no power of two",
       [](FakeLinux& fake) { fake.regions[0].size = 65535; }},
      {"BAR 0: it is 64 bits wide, and there is no place for its upper half",
       [](FakeLinux& fake) {
         fake.put<uint32_t>(VFIO_PCI_CONFIG_REGION_INDEX, 0x10, 0x4);
         fake.regions[1].size = 4096;
       }},
      {"BAR 5: it is 64 bits wide, and there is no place for its upper half",
       [](FakeLinux& fake) {
         fake.put<uint32_t>(VFIO_PCI_CONFIG_REGION_INDEX, 0x24, 0x4);
         fake.regions[5].size = 4096;
       }},
      {"BAR 0: no port BAR has 65536 bytes",
       [](FakeLinux& fake) { fake.put<uint32_t>(VFIO_PCI_CONFIG_REGION_INDEX, 0x10, 0x1); }},
      {"BAR 0: 137438953472 bytes are more than 64 GiB",
       [](FakeLinux& fake) { fake.regions[0].size = uint64_t{1} << 37; }},
      {"BAR 0: 1073741824 bytes are more than the 512 MiB that can be trapped",
       [](FakeLinux& fake) {
         fake.regions[0].size = uint64_t{1} << 30;
         fake.regions[0].flags &= ~uint32_t{VFIO_REGION_INFO_FLAG_MMAP};
       }},
      {"it is a bridge, and no device that a display driver drives",
       [](FakeLinux& fake) { fake.put<uint8_t>(VFIO_PCI_CONFIG_REGION_INDEX, 0x0E, 0x81); }},
      {"it does not answer",
       [](FakeLinux& fake) { fake.put<uint16_t>(VFIO_PCI_CONFIG_REGION_INDEX, 0, 0xFFFF); }},
      {"its configuration space cannot be read",
       [](FakeLinux& fake) { fake.answers_accesses = false; }},
      {"it cannot be reset, so that it may still do what it did for another driver: say reset=off "
       "if that is known not to matter",
       [](FakeLinux& fake) { fake.device.flags = VFIO_DEVICE_FLAGS_PCI; }},
      {"Linux could not reset it",
       [](FakeLinux& fake) { fake.control_errors[VFIO_DEVICE_RESET] = EIO; }},
      {"its interrupts cannot be used: Invalid argument (22)",
       [](FakeLinux& fake) { fake.control_errors[VFIO_DEVICE_SET_IRQS] = EINVAL; }},
  };
  for (const auto& row : rows) {
    FakeLinux fake;
    row.change(fake);
    EXPECT_EQ(refusal(fake), "vfio: 0000:00:05.0: " + std::string(row.why));
  }
  FakeLinux fake;
  EXPECT_EQ(refusal(fake, ",interrupts=msix"),
            "vfio: 0000:00:05.0: it has no interrupts of the kind that interrupts= asks for");
  fake.device.flags = VFIO_DEVICE_FLAGS_PCI;
  EXPECT_EQ(refusal(fake, ",reset=off"), "none");
}

TEST(VfioRefusal, OfOptions) {
  bus::DeviceRegistry all;
  all.add(device_type(std::make_shared<FakeLinux>()));
  all.add_spelling(spelling());
  const struct {
    const char* text;
    const char* why;
  } rows[] = {
      {"vfio", "it needs the place of a PCI device: vfio:DDDD:BB:DD.F"},
      {"vfio:05.0", "address: '05.0' is not DDDD:BB:DD.F in hexadecimal, such as 0000:01:00.0"},
      {"vfio:0000:00:05.0,trap-registers=1", "trap-registers: '1' is neither on nor off"},
      {"vfio:0000:00:05.0,interrupts=lots", "interrupts: 'lots' is not auto, intx, msi or msix"},
  };
  for (const auto& row : rows) {
    const auto choice = all.parse(row.text);
    ASSERT_FALSE(choice.has_value()) << row.text;
    EXPECT_EQ(choice.error(), "'" + std::string(row.text) + "': " + row.why);
  }
}

/// The tool refuses before; a program with a simulation of its own gets this.
TEST(VfioRefusal, OfASimulation) {
  runtime::make_sim_runtime(1)->run_main([] {
    bus::Machine machine(kSystemBytes);
    const auto made =
        open(std::make_shared<FakeLinux>(), {}, {runtime::Runtime::current(), machine});
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error(), "hardware lives in real time only and cannot be simulated");
  });
}

}  // namespace
}  // namespace dxgkit::vfio
