// The state that the device loses when the machine takes its power away, and when it leaves the
// bus.
#include <gtest/gtest.h>

#include "devices/softgpu/test_rig.h"

namespace dxgkit::softgpu {
namespace {

using testing::Commands;
using testing::kVram;
using testing::Rig;

using SoftGpuPower = testing::InBothRuntimes;

constexpr uint64_t kKept = 64 * 1024;

// Standby and hibernation keep their part of VRAM; the rest, the aperture and every register do
// not stay; afterwards the device works again.
TEST_P(SoftGpuPower, KeepsWhatItSaysAndForgetsTheRest) {
  for (const auto state : {bus::FunctionPower::kStandby, bus::FunctionPower::kHibernate}) {
    SoftGpuConfig config;
    config.vram_bytes = 1 << 20;
    config.standby_keeps_bytes = UINT64_MAX;
    config.hibernate_keeps_bytes = kKept;
    in_runtime([&](runtime::Runtime& runtime) {
      Rig rig(runtime, config);
      EXPECT_EQ(rig.get64(SGPU_REG_STANDBY_KEEPS), 1U << 20);
      EXPECT_EQ(rig.get64(SGPU_REG_HIBERNATE_KEEPS), kKept);
      ASSERT_TRUE(rig.run(0, Commands().fill(kVram, 1 << 20, 0x12345678)));
      rig.set32(SGPU_REG_APERTURE_INDEX, 3);
      rig.set64(SGPU_REG_APERTURE_ENTRY, rig.system_memory(4096) | SGPU_ENTRY_VALID);
      rig.gpu.function().set_power(state);
      EXPECT_EQ(rig.word(kVram + kKept - 8), 0x1234567812345678U);
      const bool kept = state == bus::FunctionPower::kStandby;
      EXPECT_EQ(rig.word(kVram + kKept) == 0x1234567812345678U, kept);
      EXPECT_EQ(rig.word(kVram + (1 << 20) - 8) == 0x1234567812345678U, kept);
      EXPECT_EQ(rig.get32(SGPU_REG_INT_ENABLE), 0U);
      EXPECT_EQ(rig.get32(SGPU_REG_INT_STATUS), 0U);
      EXPECT_EQ(rig.node32(0, SGPU_NODE_COMPLETED_FENCE), 0U);
      EXPECT_EQ(rig.node64(0, SGPU_NODE_RING_BASE), 0U);
      EXPECT_EQ(rig.node32(0, SGPU_NODE_STATUS), 0U);
      rig.set32(SGPU_REG_APERTURE_INDEX, 3);
      EXPECT_EQ(rig.get64(SGPU_REG_APERTURE_ENTRY), 0U);
      rig.gpu.function().set_power(bus::FunctionPower::kOn);
      rig.set32(SGPU_REG_INT_ENABLE, SGPU_INT_ALL);
      rig.start(0);
      ASSERT_TRUE(rig.run(0, Commands().fill(kVram, 64, 0x55555555)));
      EXPECT_EQ(rig.word(kVram), 0x5555555555555555U);
    });
  }
}

// Power that goes in the middle of work: the engine stops where it is and reports nothing.
TEST_P(SoftGpuPower, StopsInTheMiddleOfWork) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.execute(0, Commands().delay(3'600'000'000'000).fill(kVram, 64, 0x77777777), 9);
    while ((rig.node32(0, SGPU_NODE_STATUS) & SGPU_STATUS_BUSY) == 0)
      rig.runtime.sleep_for(runtime::kMicrosecond);
    rig.gpu.lose_power(bus::FunctionPower::kHibernate);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_STATUS), 0U);
    EXPECT_NE(rig.word(kVram), 0x7777777777777777U);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_COMPLETED_FENCE), 0U);
  });
}

// Pulled out: all ones, writes dropped, configuration space gone, nothing goes on.
TEST_P(SoftGpuPower, AnswersNothingOncePulledOut) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.execute(1, Commands().delay(3'600'000'000'000), 9);
    const uint64_t before = rig.machine.lost_register_accesses();
    EXPECT_TRUE(rig.gpu.function().present());
    rig.gpu.pull_out();
    EXPECT_FALSE(rig.gpu.function().present());
    EXPECT_EQ(rig.get32(SGPU_REG_ID), 0xFFFFFFFFU);
    EXPECT_EQ(rig.get64(SGPU_REG_VRAM_SIZE), UINT64_MAX);
    rig.set32(SGPU_REG_INT_ENABLE, SGPU_INT_ALL);
    EXPECT_EQ(rig.machine.lost_register_accesses(), before + 3);
    std::array<std::byte, 4> ids{};
    rig.gpu.function().config_read(0, ids);
    EXPECT_EQ(ids, (std::array<std::byte, 4>{std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF},
                                             std::byte{0xFF}}));
  });
}

INSTANTIATE_TEST_SUITE_P(Runtimes, SoftGpuPower,
                         ::testing::Values(testing::Mode::kOs, testing::Mode::kSim),
                         testing::mode_name);

}  // namespace
}  // namespace dxgkit::softgpu
