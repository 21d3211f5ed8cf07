// The device on our bus: BARs, configuration space, interrupts, DMA, removal. A Linux that the test
// answers for stands behind it.
#include "devices/vfio/vfio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "bus/dma_fault.h"
#include "bus/machine.h"
#include "devices/vfio/config_layout.h"
#include "devices/vfio/fake_linux.h"
#include "runtime/runtime.h"
#include "trace/trace.h"

namespace dxgkit::vfio {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

constexpr uint64_t kSystemBytes = 8 << 20, kLowBytes = 1 << 20;
constexpr uint32_t kConfig = VFIO_PCI_CONFIG_REGION_INDEX;

/// A machine with the device, for as long as `look` runs.
void with_device(FakeLinux& fake, Config config,
                 const std::function<void(bus::Machine&, bus::Device&)>& look) {
  const auto shared = std::shared_ptr<FakeLinux>(&fake, [](FakeLinux*) {});
  config.address = {.domain = 0, .bus = 0, .device = 5, .function = 0};
  runtime::make_os_runtime(1)->run_main([&] {
    bus::Machine machine(kSystemBytes, kLowBytes);
    auto device = open(shared, config, {runtime::Runtime::current(), machine});
    ASSERT_TRUE(device.has_value()) << device.error();
    ASSERT_EQ(bus::plug_in(machine, **device), Status::kSuccess);
    look(machine, **device);
  });
  EXPECT_EQ(fake.open_descriptors(), 0U);
}

bus::PciFunction& function_of(bus::Device& device) { return *device.functions()[0]; }

TEST(Vfio, TakesTheDeviceOverAndGivesItBack) {
  FakeLinux fake;
  fake.usable = {{0, 0xFEDF'FFFF}, {0xFEF0'0000, UINT64_MAX}};
  with_device(fake, {}, [](bus::Machine&, bus::Device& device) {
    EXPECT_EQ(function_of(device).identity().vendor_id, 0x1234);
    EXPECT_EQ(function_of(device).identity().device_id, 0x11E8);
    EXPECT_EQ(function_of(device).identity().revision, 0x10);
    EXPECT_EQ(function_of(device).identity().base_class, 0x00);
    EXPECT_EQ(function_of(device).identity().sub_class, 0xFF);
  });
  EXPECT_THAT(fake.steps(),
              ElementsAre("map 10000000 2000000", "map 40000000 100000", "map 100000000 800000",
                          "reset", "command 7", "trigger 1 on", "trigger 4 on", "trigger 3 on",
                          "trigger 1 off", "command 0", "reset", "close device", "unmap 100000000",
                          "unmap 40000000", "unmap 10000000"));
}

TEST(Vfio, MapsABar) {
  FakeLinux fake;
  with_device(fake, {}, [&](bus::Machine& machine, bus::Device& device) {
    const bus::Bar& bar = function_of(device).bars()[0];
    ASSERT_EQ(bar.kind, bus::BarKind::kMemory);
    EXPECT_EQ(bar.size, 65536U);
    void* const mapped = machine.map_io(bar.base, bar.size);
    ASSERT_NE(mapped, nullptr);
    machine.write_register(static_cast<std::byte*>(mapped) + 0x1234, 4, 0xCAFE);
    EXPECT_EQ(fake.get(0, 0x1234), 0xCAFEU);
  });
}

/// A BAR that cannot be mapped, by request or because it is a part of a page, or shares one.
TEST(Vfio, TrapsRegisters) {
  const struct {
    const char* what;
    bool asked_for;
    std::function<void(FakeLinux&)> change;
  } rows[] = {
      {"trap-registers=on", true, [](FakeLinux&) {}},
      {"Linux maps no BAR of this device", false,
       [](FakeLinux& fake) { fake.regions[0].flags &= ~uint32_t{VFIO_REGION_INFO_FLAG_MMAP}; }},
      {"smaller than a page", false, [](FakeLinux& fake) { fake.regions[0].size = 256; }},
      {"no slot behind it", false, [](FakeLinux& fake) { fake.regions[1].size = 4096; }},
      {"the table of MSI-X is in it", false,
       [](FakeLinux& fake) {
         fake.put<uint8_t>(kConfig, 0x06, 0x10);
         fake.put<uint8_t>(kConfig, 0x34, 0x40);
         fake.put<uint32_t>(kConfig, 0x40, 0x0000'0011);
         fake.put<uint32_t>(kConfig, 0x44, 0x0000'1000);
       }},
      {"only a part may be mapped", false,
       [](FakeLinux& fake) {
         vfio_region_info_cap_sparse_mmap sparse{};
         sparse.header.id = VFIO_REGION_INFO_CAP_SPARSE_MMAP;
         sparse.nr_areas = UINT32_MAX;  // it says so, and has one
         const vfio_region_sparse_mmap_area area{.offset = 0, .size = 4096};
         std::vector<std::byte>& more = fake.region_capabilities[0];
         more.resize(sizeof sparse + sizeof area);
         std::memcpy(more.data(), &sparse, sizeof sparse);
         std::memcpy(more.data() + sizeof sparse, &area, sizeof area);
       }},
      {"a chain of capabilities that runs in a circle", false,
       [](FakeLinux& fake) {
         const vfio_info_cap_header header{
             .id = 99, .version = 1, .next = sizeof(vfio_region_info)};  // itself
         const std::span<const std::byte> bytes = std::as_bytes(std::span(&header, 1));
         fake.region_capabilities[0].assign(bytes.begin(), bytes.end());
       }},
      {"a chain of capabilities that leaves the answer", false,
       [](FakeLinux& fake) {
         const vfio_info_cap_header header{.id = 99, .version = 1, .next = 0xFFFF'FFF0};
         const std::span<const std::byte> bytes = std::as_bytes(std::span(&header, 1));
         fake.region_capabilities[0].assign(bytes.begin(), bytes.end());
       }},
  };
  for (const auto& row : rows) {
    FakeLinux fake;
    row.change(fake);
    fake.put<uint32_t>(0, 0x20, 0x1122'3344);
    Config config;
    config.trap_registers = row.asked_for;
    with_device(fake, config, [&](bus::Machine& machine, bus::Device& device) {
      const bus::Bar& bar = function_of(device).bars()[0];
      ASSERT_EQ(bar.kind, bus::BarKind::kRegisters) << row.what;
      EXPECT_EQ(bar.size, std::max<uint64_t>(fake.regions[0].size, 4096)) << row.what;
      auto* const at = static_cast<std::byte*>(machine.map_io(bar.base, bar.size));
      EXPECT_EQ(machine.read_register(at + 0x20, 4), 0x1122'3344U) << row.what;
      EXPECT_EQ(machine.read_register(at + 0x21, 1), 0x33U) << row.what;
      machine.write_register(at + 0x28, 8, 0x8877'6655'4433'2211);
      EXPECT_EQ(fake.get(0, 0x28), 0x4433'2211U) << row.what;
      EXPECT_EQ(fake.get(0, 0x2C), 0x8877'6655U) << row.what;
      EXPECT_EQ(machine.read_register(at + 0x28, 8), 0x8877'6655'4433'2211U) << row.what;
      fake.answers_accesses = false;
      EXPECT_EQ(machine.read_register(at + 0x20, 4), 0xFFFF'FFFFU) << row.what;
      fake.answers_accesses = true;
    });
  }
}

/// Behind the end of a BAR that is smaller than a page lies the next region of the same file.
TEST(Vfio, NothingAnswersBehindTheEndOfABar) {
  FakeLinux fake;
  fake.regions[0].size = 256;
  with_device(fake, {}, [&](bus::Machine& machine, bus::Device& device) {
    const bus::Bar& bar = function_of(device).bars()[0];
    EXPECT_EQ(bar.size, 4096U);
    auto* const at = static_cast<std::byte*>(machine.map_io(bar.base, bar.size));
    machine.write_register(at + 256, 4, 7);
    EXPECT_EQ(machine.read_register(at + 256, 4), 0xFFFF'FFFFU);
    EXPECT_EQ(fake.get(0, 256), 0U);
    EXPECT_EQ(machine.read_register(at + 252, 8), UINT64_MAX) << "half of it";
  });
}

TEST(Vfio, TrapsPorts) {
  FakeLinux fake;
  fake.regions[2].size = 32;
  fake.put<uint32_t>(kConfig, 0x18, 0xE001);
  with_device(fake, {}, [&](bus::Machine& machine, bus::Device& device) {
    const bus::Bar& bar = function_of(device).bars()[2];
    ASSERT_EQ(bar.kind, bus::BarKind::kPorts);
    machine.write_port(bar.base.value + 4, 2, 0xBEEF);
    EXPECT_EQ(fake.get(2, 4), 0xBEEFU);
    EXPECT_EQ(machine.read_port(bar.base.value + 4, 1), 0xEFU);
  });
}

TEST(Vfio, TrappedAccessesAreInTheTrace) {
  FakeLinux fake;
  fake.put<uint32_t>(0, 0x20, 7);
  Config config;
  config.trap_registers = true;
  trace::Recorder recorder(
      {.now_ns = [] { return int64_t{0}; }, .thread = [] { return uint32_t{0}; }});
  with_device(fake, config, [&](bus::Machine& machine, bus::Device& device) {
    const bus::Bar& bar = function_of(device).bars()[0];
    auto* const at = static_cast<std::byte*>(machine.map_io(bar.base, bar.size));
    trace::set_current(&recorder);
    static_cast<void>(machine.read_register(at + 0x20, 4));
    machine.write_register(at + 0x24, 2, 0x1FF);
    trace::set_current(nullptr);
  });
  EXPECT_THAT(recorder.names(),
              ElementsAre("BAR 0 +0x20: read 4 bytes 0x7", "BAR 0 +0x24: write 2 bytes 0x1ff"));
  EXPECT_EQ(recorder.recorded(), 2U);
}

/// All but what the bus has decided is the hardware's; messages are not a driver's to enable.
TEST(Vfio, ConfigurationSpaceIsTheHardwares) {
  FakeLinux fake;
  fake.put<uint8_t>(kConfig, 0x06, 0x10);
  fake.put<uint8_t>(kConfig, 0x34, 0x60);
  fake.put<uint64_t>(kConfig, 0x60, 0x0000'0000'0080'4005);  // MSI, then 0x40
  fake.put<uint64_t>(kConfig, 0x40, 0x5544'3322'1108'0009);  // vendor-specific, 8 bytes, the last
  with_device(fake, {}, [&](bus::Machine&, bus::Device& device) {
    bus::PciFunction& function = function_of(device);
    std::array<std::byte, 256> config{};
    function.config_read(0, config);
    EXPECT_EQ(config[0x34], std::byte{0x60});
    EXPECT_EQ(config[0x60], std::byte{0x05});
    EXPECT_EQ(config[0x47], std::byte{0x55});
    uint32_t bar = 0;
    std::memcpy(&bar, config.data() + 0x10, sizeof bar);
    EXPECT_EQ(bar & ~0xFU, static_cast<uint32_t>(function.bars()[0].base.value));
    const auto write = [&](uint32_t offset, uint32_t value) {
      function.config_write(offset, std::as_bytes(std::span(&value, 1)));
    };
    write(0x44, 0xAABB'CCDD);
    EXPECT_EQ(fake.get(kConfig, 0x44), 0xAABB'CCDDU);
    write(0x60, 0x0081'4005);
    write(0x74, 1);  // its last bytes
    EXPECT_EQ(fake.get(kConfig, 0x60), 0x0080'4005U);
    EXPECT_EQ(fake.get(kConfig, 0x74), 0U);
    uint32_t beyond = 0;
    function.config_read(256, std::as_writable_bytes(std::span(&beyond, 1)));
    EXPECT_EQ(beyond, 0xFFFF'FFFFU) << "this device has 256 bytes";
    fake.answers_accesses = false;
    function.config_read(0x40, std::as_writable_bytes(std::span(&beyond, 1)));
    EXPECT_EQ(beyond, 0xFFFF'FFFFU);
  });
}

TEST(Vfio, AListOfCapabilitiesMayBeNonsense) {
  const struct {
    const char* what;
    std::vector<std::pair<size_t, uint8_t>> bytes;
    size_t found;
    std::optional<uint32_t> bar;
  } rows[] = {
      {"MSI-X", {{0x06, 0x10}, {0x34, 0x43}, {0x40, 0x11}, {0x44, 0x0A}}, 1, 2},
      {"none, says the status", {{0x34, 0x40}, {0x40, 0x11}}, 0, {}},
      {"into the header", {{0x06, 0x10}, {0x34, 0x10}, {0x10, 0x11}}, 0, {}},
      {"a circle", {{0x06, 0x10}, {0x34, 0x40}, {0x40, 0x05}, {0x41, 0x40}}, 48, {}},
      {"half of it behind the end", {{0x06, 0x10}, {0x34, 0xF8}, {0xF8, 0x11}, {0xFC, 1}}, 1, {}},
      {"MSI behind the end", {{0x06, 0x10}, {0x34, 0xFC}, {0xFC, 0x05}}, 1, {}},
  };
  for (const auto& row : rows) {
    std::array<std::byte, kConfigBytesAsked> config{};
    for (const auto& [at, value] : row.bytes) config[at] = std::byte{value};
    const ConfigLayout layout = read_layout(config);
    EXPECT_EQ(layout.messages.size(), row.found) << row.what;
    EXPECT_EQ(layout.msix_bar, row.bar) << row.what;
    for (const auto& [at, bytes] : layout.messages) EXPECT_LE(at + bytes, 256U) << row.what;
  }
}

/// Counts interrupts that it claims or not, and can be waited for.
class Handler {
 public:
  explicit Handler(bool claims) : claims_(claims) {}
  bool operator()() {
    ++count_;
    seen_.set();
    return claims_;
  }
  void wait() { seen_.wait(); }
  uint32_t count() const { return count_; }

 private:
  const bool claims_;
  std::atomic<uint32_t> count_{0};
  runtime::Event seen_;
};

TEST(Vfio, MessagesReachTheLine) {
  FakeLinux fake;
  with_device(fake, {}, [&](bus::Machine&, bus::Device& device) {
    Handler handler(true);
    function_of(device).interrupt_line().connect([&] { return handler(); });
    fake.signal(VFIO_PCI_MSI_IRQ_INDEX);
    handler.wait();
    EXPECT_EQ(handler.count(), 1U);
    function_of(device).interrupt_line().connect({});
  });
  EXPECT_THAT(fake.steps(), ::testing::Not(Contains("unmask 0")));
}

TEST(Vfio, TheLineIsLetThroughAgainAfterEachInterrupt) {
  for (const bool claims : {true, false}) {
    FakeLinux fake;
    fake.interrupts[VFIO_PCI_MSI_IRQ_INDEX].count = 0;
    with_device(fake, {}, [&](bus::Machine&, bus::Device& device) {
      Handler handler(claims);
      function_of(device).interrupt_line().connect([&] { return handler(); });
      fake.signal(VFIO_PCI_INTX_IRQ_INDEX);
      handler.wait();
      function_of(device).interrupt_line().connect({});
    });
    EXPECT_THAT(fake.steps(), Contains("trigger 0 on"));
    EXPECT_THAT(fake.steps(), Contains("unmask 0"));
  }
}

TEST(Vfio, FunctionLevelResetIsTheHosts) {
  FakeLinux fake;
  with_device(fake, {}, [&](bus::Machine&, bus::Device& device) {
    const size_t before = fake.steps().size();
    device.reset(0);
    const std::vector<std::string> all = fake.steps();
    EXPECT_THAT(std::vector(all.begin() + static_cast<ptrdiff_t>(before), all.end()),
                ElementsAre("reset", "command 7"));
  });
}

constexpr const char* kFault =
    "3,1,1,-;DMAR: [DMA Write NO_PASID] Request device [00:05.0] fault addr 0x12345000";

/// What the host has pulled out does not leave once more. The device hears of both at once, because
/// its thread is held in an interrupt until then.
TEST(Vfio, IsNotLostTwice) {
  FakeLinux fake;
  uint32_t told = 0;
  with_device(fake, {}, [&](bus::Machine& machine, bus::Device& device) {
    runtime::Event inside, go_on, looked;
    bus::InterruptLine& line = function_of(device).interrupt_line();
    line.connect([&] {
      inside.set();
      go_on.wait();
      return true;
    });
    device.on_loss([&](const std::string&) { ++told; });
    dynamic_cast<bus::DmaFaultSource&>(device).on_dma_fault(
        [&](const bus::DmaFault&) { looked.set(); });
    fake.signal(VFIO_PCI_MSI_IRQ_INDEX);
    inside.wait();
    bus::pull_out(machine, device);
    fake.log(kFault);  // told first of all when a device leaves
    fake.signal(VFIO_PCI_REQ_IRQ_INDEX);
    go_on.set();
    looked.wait();
    line.connect({});
    dynamic_cast<bus::DmaFaultSource&>(device).on_dma_fault({});
  });
  EXPECT_EQ(told, 0U);
}

/// Whoever listens only when the device has left hears it, too.
TEST(Vfio, TellsALateListenerOfItsLoss) {
  FakeLinux fake;
  with_device(fake, {}, [&](bus::Machine&, bus::Device& device) {
    fake.signal(VFIO_PCI_REQ_IRQ_INDEX);
    while (function_of(device).present()) runtime::Runtime::current().yield();
    runtime::Event told;
    device.on_loss([&](const std::string&) { told.set(); });
    told.wait();
  });
}

/// Linux wants the device back, or it has failed: it leaves the bus, and whoever listens hears why.
TEST(Vfio, LeavesByItself) {
  const std::pair<uint32_t, const char*> rows[] = {
      {VFIO_PCI_REQ_IRQ_INDEX,
       "Linux wants the device back: it is being unbound from vfio-pci, or unplugged"},
      {VFIO_PCI_ERR_IRQ_INDEX,
       "the device reported an error that it cannot recover from (PCIe AER)"}};
  for (const auto& [index, why] : rows) {
    FakeLinux fake;
    Config config;
    config.trap_registers = true;
    with_device(fake, config, [&](bus::Machine& machine, bus::Device& device) {
      const bus::Bar& bar = function_of(device).bars()[0];
      void* const at = machine.map_io(bar.base, bar.size);
      runtime::Event gone;
      std::string told;
      device.on_loss([&](const std::string& text) {
        told = text;
        gone.set();
      });
      fake.signal(index);
      gone.wait();
      EXPECT_EQ(told, why);
      EXPECT_THAT(fake.steps(), Contains("command 0")) << "no DMA any more";
      EXPECT_FALSE(function_of(device).present());
      EXPECT_EQ(machine.read_register(at, 4), 0xFFFF'FFFFU);
      device.on_loss({});
    });
  }
}

TEST(Vfio, TellsOfFaultsOfTheIommu) {
  FakeLinux fake;
  with_device(fake, {}, [&](bus::Machine&, bus::Device& device) {
    auto* const source = dynamic_cast<bus::DmaFaultSource*>(&device);
    ASSERT_NE(source, nullptr);
    runtime::Event seen;
    bus::DmaFault fault;
    source->on_dma_fault([&](const bus::DmaFault& one) {
      fault = one;
      seen.set();
    });
    fake.log("6,1,1,-;DMAR: [DMA Write NO_PASID] Request device [00:06.0] fault addr 0x1000");
    fake.log(kFault);
    seen.wait();
    EXPECT_EQ(fault.address, bus::PhysicalAddress{0x1234'5000});
    EXPECT_TRUE(fault.is_write);
    source->on_dma_fault({});
  });
}

/// A fault that Linux tells of while the device is given back is not lost.
TEST(Vfio, TheLastFaultIsToldBeforeTheDeviceEnds) {
  FakeLinux fake;
  Config config;
  std::vector<bus::DmaFault> faults;
  with_device(fake, config, [&](bus::Machine&, bus::Device& device) {
    dynamic_cast<bus::DmaFaultSource&>(device).on_dma_fault(
        [&](const bus::DmaFault& one) { faults.push_back(one); });
    fake.log(kFault);
  });
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].address, bus::PhysicalAddress{0x1234'5000});
}

TEST(Vfio, WithoutTheLog) {
  FakeLinux fake;
  fake.open_errors["/dev/kmsg"] = EPERM;
  Config config;
  config.watch_faults = false;
  with_device(fake, config, [](bus::Machine&, bus::Device& device) {
    EXPECT_TRUE(function_of(device).present());
  });
}

}  // namespace
}  // namespace dxgkit::vfio
