#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "bus/machine.h"
#include "runtime/sync.h"

namespace dxgkit::bus {
namespace {

struct NullRegisters : MmioHandler {
  uint64_t mmio_read(uint64_t, uint32_t) override { return 0; }
  void mmio_write(uint64_t, uint32_t, uint64_t) override {}
};

struct Fixture : testing::Test {
  Fixture() : machine(1 << 20) {
    const MemoryWindow whole =
        machine.window_of(PhysicalAddress{Machine::kSystemMemoryBase}, 1 << 20);
    // The bus does not care whose memory object a BAR shows.
    memory = {whole.fd, 0, 1 << 20};
  }
  std::vector<Bar> bars() {
    return {{.kind = BarKind::kRegisters,
             .base = {},
             .size = 0x10000,
             .registers = &registers,
             .memory = {}},
            {},
            {.kind = BarKind::kMemory,
             .base = {},
             .size = 1 << 20,
             .registers = nullptr,
             .memory = memory}};
  }
  static uint32_t read32(const PciFunction& function, uint32_t offset) {
    std::array<std::byte, 4> bytes;
    function.config_read(offset, bytes);
    uint32_t value = 0;
    std::memcpy(&value, bytes.data(), 4);
    return value;
  }
  static void write32(PciFunction& function, uint32_t offset, uint32_t value) {
    std::array<std::byte, 4> bytes;
    std::memcpy(bytes.data(), &value, 4);
    function.config_write(offset, bytes);
  }
  Machine machine;
  NullRegisters registers;
  MemoryWindow memory;
  const PciIdentity identity{.vendor_id = 0x1AF4,
                             .device_id = 0x1050,
                             .subsystem_vendor_id = 0x1111,
                             .subsystem_id = 0x2222,
                             .revision = 3};
};

using PciConfig = Fixture;

// A driver finds a type 0 header in config space, with the identity and the assigned addresses.
TEST_F(PciConfig, ShowsATypeZeroHeader) {
  PciFunction function(identity, bars());
  EXPECT_EQ(read32(function, 0x00), 0x1050'1AF4u);
  EXPECT_EQ(read32(function, 0x04), 0u);  // decoding is off until plugged in
  EXPECT_EQ(read32(function, 0x08), 0x0302'0003u);
  EXPECT_EQ(read32(function, 0x2C), 0x2222'1111u);
  EXPECT_EQ(read32(function, 0x3C), 0x0000'0100u);
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  EXPECT_EQ(read32(function, 0x04), 0x6u);
  EXPECT_EQ(read32(function, 0x10), function.bars()[0].base.value);
  EXPECT_EQ(read32(function, 0x14), 0u);
  EXPECT_EQ(read32(function, 0x18), (function.bars()[2].base.value & 0xFFFF'FFFF) | 0xC);
  EXPECT_EQ(read32(function, 0x1C), function.bars()[2].base.value >> 32);
  machine.remove_function(function);
  EXPECT_EQ(read32(function, 0x04), 0u);
  EXPECT_EQ(read32(function, 0x10), 0u);
}

// The sizing protocol works slot by slot, and no write moves a BAR.
TEST_F(PciConfig, SizesBarsAndNeverMovesThem) {
  PciFunction function(identity, bars());
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  const uint32_t bar0 = read32(function, 0x10);
  const uint32_t bar2_high = read32(function, 0x1C);
  write32(function, 0x10, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x10), 0xFFFF'0000u);
  write32(function, 0x18, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x18), 0xFFF0'000Cu);
  EXPECT_EQ(read32(function, 0x1C), bar2_high);
  write32(function, 0x1C, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x1C), 0xFFFF'FFFFu);
  write32(function, 0x10, 0x1234'0000);
  EXPECT_EQ(read32(function, 0x10), bar0);
  write32(function, 0x24, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x24), 0u);
}

TEST_F(PciConfig, ProtectsIdentityAndEdges) {
  PciFunction function(identity, bars());
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  write32(function, 0x00, 0);
  write32(function, 0x08, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x00), 0x1050'1AF4u);
  EXPECT_EQ(read32(function, 0x08), 0x0302'0003u);
  write32(function, 0x04, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x04), 0x0547u);
  write32(function, 0x3C, 0xFFFF'FF0B);
  EXPECT_EQ(read32(function, 0x3C), 0x0000'010Bu);
  EXPECT_EQ(read32(function, 4096), 0xFFFF'FFFFu);
  EXPECT_EQ(read32(function, 4094), 0xFFFF'FFFFu);
  EXPECT_EQ(read32(function, 0xFFFF'FFFF), 0xFFFF'FFFFu);
  write32(function, 0xFFFF'FFFE, 0);  // would wrap onto the vendor id
  EXPECT_EQ(read32(function, 0x00), 0x1050'1AF4u);
  std::vector<std::byte> all(4096);
  function.config_read(0, all);
  EXPECT_EQ(all[1], std::byte{0x1A});
}

// raise() answers with the handler's word; nothing connected claims nothing.
TEST(InterruptLine, AsksTheConnectedHandler) {
  InterruptLine line;
  EXPECT_FALSE(line.connected());
  EXPECT_FALSE(line.raise());
  int calls = 0;
  bool claim = true;
  line.connect([&] {
    ++calls;
    return claim;
  });
  EXPECT_TRUE(line.connected());
  EXPECT_TRUE(line.raise());
  claim = false;
  EXPECT_FALSE(line.raise());
  EXPECT_EQ(calls, 2);
  line.connect({});
  EXPECT_FALSE(line.connected());
  EXPECT_FALSE(line.raise());
  EXPECT_EQ(calls, 2);
}

class LineInEitherRuntime : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<runtime::Runtime> runtime =
      GetParam() ? runtime::make_sim_runtime(7) : runtime::make_os_runtime();
};

// Two devices' threads raise at once: the handler is never inside itself, and after connect({}) it
// never runs.
TEST_P(LineInEitherRuntime, SerialisesHandlersAndDisconnectWaits) {
  runtime->run_main([&] {
    InterruptLine line;
    std::atomic<int> inside{0};
    std::atomic<int> overlaps{0};
    std::atomic<bool> gone{false};
    std::atomic<int> late{0};
    line.connect([&] {
      if (inside.fetch_add(1) != 0) ++overlaps;
      runtime->yield();
      if (gone) ++late;
      inside.fetch_sub(1);
      return true;
    });
    std::vector<std::unique_ptr<runtime::Thread>> threads;
    for (int i = 0; i < 3; ++i) {
      threads.push_back(runtime->spawn("raiser", [&] {
        for (int n = 0; n < 200; ++n) line.raise();
      }));
    }
    runtime->yield();
    line.connect({});
    gone = true;
    for (auto& thread : threads) thread->join();
    EXPECT_EQ(overlaps, 0);
    EXPECT_EQ(late, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Runtimes, LineInEitherRuntime, testing::Bool(),
                         [](const auto& runtime_kind) {
                           return runtime_kind.param ? "sim" : "os";
                         });

/// Capabilities are a list in the order given; their ids and pointers are the bus's, bodies keep
/// what is not writable.
TEST_F(PciConfig, ListsCapabilities) {
  const PciCapability vendor{
      .id = 0x09,
      .body = {std::byte{8}, std::byte{0xAA}, std::byte{0xBB}, std::byte{0xCC}, std::byte{0xDD}},
      .writable = {std::byte{0}, std::byte{0x0F}}};
  PciFunction plain(identity, bars());
  EXPECT_EQ(read32(plain, 0x04) >> 16 & 0x10, 0U);
  EXPECT_EQ(read32(plain, 0x34), 0U);
  PciFunction function(identity, bars(), {vendor, msix_capability(5, 0, 0x2000, 2, 0x3000)});
  EXPECT_EQ(read32(function, 0x04) >> 16 & 0x10, 0x10U) << "the status says there is a list";
  EXPECT_EQ(read32(function, 0x34), 0x40U);
  EXPECT_EQ(read32(function, 0x40), 0xAA08'4809U) << "seven bytes take eight";
  EXPECT_EQ(read32(function, 0x44), 0x00DD'CCBBU);
  EXPECT_EQ(read32(function, 0x48), 0x0004'0011U) << "the last one; five messages less one";
  EXPECT_EQ(read32(function, 0x4C), 0x2000U);
  EXPECT_EQ(read32(function, 0x50), 0x3002U);
  write32(function, 0x40, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x40), 0xAF08'4809U);
  write32(function, 0x48, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x48), 0x0004'0011U) << "nothing enables messages";
}

TEST_F(PciConfig, MessagesCannotBeEnabled) {
  PciFunction function(identity, bars(), {msi_capability(32)});
  EXPECT_EQ(read32(function, 0x40), 0x008A'0005U) << "64-bit addresses, 2^5 messages";
  write32(function, 0x40, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x40), 0x008A'0005U);
  write32(function, 0x44, 0xFEE0'0000);
  EXPECT_EQ(read32(function, 0x44), 0xFEE0'0000U);
}

/// 64 bits wide: the type bits say so, the next slot is the upper half, and sizing covers both.
TEST_F(PciConfig, RegisterBarsMayBeWide) {
  std::vector<Bar> wide = bars();
  wide[0].wide = true;
  PciFunction function(identity, wide);
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  EXPECT_EQ(read32(function, 0x10), Machine::kRegisterBarBase | 0x4U);
  EXPECT_EQ(read32(function, 0x14), 0U);
  write32(function, 0x10, 0xFFFF'FFFF);
  write32(function, 0x14, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x10), 0xFFFF'0004U);
  EXPECT_EQ(read32(function, 0x14), 0xFFFF'FFFFU);
  wide[1].kind = BarKind::kRegisters;
  wide[1].size = 4096;
  wide[1].registers = &registers;
  PciFunction taken(identity, wide);
  EXPECT_EQ(machine.add_function(taken), Status::kInvalidParameter);
}

TEST_F(PciConfig, PortsAreInIoSpace) {
  std::vector<Bar> ports(1);
  ports[0].kind = BarKind::kPorts;
  ports[0].size = 32;
  ports[0].registers = &registers;
  PciFunction function(identity, ports);
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  EXPECT_EQ(read32(function, 0x10), Machine::kPortBase | 0x1U);
  EXPECT_EQ(read32(function, 0x04) & 0x7, 0x7U) << "I/O, memory and bus master";
  write32(function, 0x10, 0xFFFF'FFFF);
  EXPECT_EQ(read32(function, 0x10), 0xFFFF'FFE1U);
  PciFunction plain(identity, bars());
  ASSERT_EQ(machine.add_function(plain), Status::kSuccess);
  EXPECT_EQ(read32(plain, 0x04) & 0x7, 0x6U) << "no ports, no I/O";
}

/// Answers each byte with its offset, and notes what is written.
class Elsewhere final : public ConfigHandler {
 public:
  void config_read(uint32_t offset, std::span<std::byte> out) override {
    for (std::byte& byte : out) byte = static_cast<std::byte>(offset++);
  }
  void config_write(uint32_t offset, std::span<const std::byte> in) override {
    for (const std::byte byte : in) written.emplace_back(offset++, std::to_integer<int>(byte));
  }
  std::vector<std::pair<uint32_t, int>> written;
};

// Another process answers for configuration space; the addresses stay the bus's.
TEST_F(PciConfig, AHandlerAnswersForAllButTheBus) {
  Elsewhere elsewhere;
  PciFunction function(identity, bars());
  function.set_config_handler(elsewhere);
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  EXPECT_EQ(read32(function, 0x00), 0x1050'1AF4u);
  EXPECT_EQ(read32(function, 0x04), 0x0706'0006u) << "the command is the bus's, the status not";
  EXPECT_EQ(read32(function, 0x10), function.bars()[0].base.value);
  EXPECT_EQ(read32(function, 0x2C), 0x2222'1111u);
  EXPECT_EQ(read32(function, 0x30), 0u) << "no ROM";
  EXPECT_EQ(read32(function, 0x34), 0x3736'3534u);
  EXPECT_EQ(read32(function, 0x3C), 0x3F3E'3D00u);
  EXPECT_EQ(read32(function, 0xFFC), 0xFFFE'FDFCu);
  write32(function, 0x10, 0xFFFF'FFFF);  // sizing
  EXPECT_EQ(read32(function, 0x10), 0xFFFF'0000u);
  EXPECT_TRUE(elsewhere.written.empty());
  write32(function, 0x04, 0x0000'0002);
  EXPECT_EQ(read32(function, 0x04) & 0xFFFF, 0x0002u);
  EXPECT_EQ(elsewhere.written.size(), 4u);
  elsewhere.written.clear();
  const std::array<std::byte, 8> across{};  // the last base address, and the CIS pointer
  function.config_write(0x24, across);
  ASSERT_EQ(elsewhere.written.size(), 4u);
  EXPECT_EQ(elsewhere.written.front(), std::pair(0x28u, 0));
  machine.pull_out(function);
  elsewhere.written.clear();
  EXPECT_EQ(read32(function, 0x34), 0xFFFF'FFFFu);
  write32(function, 0x40, 1);
  EXPECT_TRUE(elsewhere.written.empty());
}

}  // namespace
}  // namespace dxgkit::bus
