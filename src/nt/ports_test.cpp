// I/O ports, as a driver reaches them.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "nt/test_world.h"

namespace dxgkit::nt {
namespace {

/// A port that counts what it is read, and remembers what it is written.
struct Fifo : bus::MmioHandler {
  uint64_t mmio_read(uint64_t offset, uint32_t) override { return 0x8182'8380 + offset + ++reads; }
  void mmio_write(uint64_t offset, uint32_t bytes, uint64_t value) override {
    writes.emplace_back(offset, bytes, value);
  }
  uint64_t reads = 0;
  std::vector<std::tuple<uint64_t, uint32_t, uint64_t>> writes;
};

template <typename T>
void one_size(const char* read_name, const char* write_name) {
  in_both_modes([&] {
    World world;
    Fifo fifo;
    bus::Bar bar;
    bar.kind = bus::BarKind::kPorts;
    bar.size = 16;
    bar.registers = &fifo;
    bus::PciFunction function({}, {bar});
    ASSERT_EQ(world.machine.add_function(function), Status::kSuccess);
    const uint64_t port = function.bars()[0].base.value + 8;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      const ExportCall<void(void*, T*, uint32_t)> read(read_name), write(write_name);
      auto* const address = reinterpret_cast<void*>(port);
      std::array<T, 4> values{};
      read(address, values.data(), 3);
      for (uint32_t i = 0; i < 3; ++i)
        EXPECT_EQ(values[i], static_cast<T>(0x8182'8380 + 8 + 1 + i)) << "the same port each time";
      EXPECT_EQ(values[3], 0U);
      write(address, values.data(), 2);
      read(address, values.data(), 0);
      write(address, values.data(), 0);
    }));
    EXPECT_EQ(fifo.reads, 3U);
    ASSERT_EQ(fifo.writes.size(), 2U);
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_EQ(fifo.writes[i], std::tuple(8U, sizeof(T), static_cast<T>(0x8182'8380 + 8 + 1 + i)));
    }
  });
}

TEST(Ports, BuffersGoThroughOnePortValueByValue) {
  one_size<uint8_t>("READ_PORT_BUFFER_UCHAR", "WRITE_PORT_BUFFER_UCHAR");
  one_size<uint16_t>("READ_PORT_BUFFER_USHORT", "WRITE_PORT_BUFFER_USHORT");
  one_size<uint32_t>("READ_PORT_BUFFER_ULONG", "WRITE_PORT_BUFFER_ULONG");
}

}  // namespace
}  // namespace dxgkit::nt
