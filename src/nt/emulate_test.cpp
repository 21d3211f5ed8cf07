// Instructions a process cannot execute, in both forms of a driver and in both runtimes.
#include "nt/emulate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "nt/image_world_test.h"
#include "tests/support/covers.h"

namespace dxgkit::nt {
namespace {

/// Registers that say what was done to them: "r4@8" is a read of 4 bytes at 8.
struct Device final : bus::MmioHandler {
  uint64_t mmio_read(uint64_t offset, uint32_t bytes) override {
    log += "r" + std::to_string(bytes) + "@" + std::to_string(offset) + " ";
    uint64_t value = 0;
    std::memcpy(&value, memory + offset, bytes);
    return value;
  }
  void mmio_write(uint64_t offset, uint32_t bytes, uint64_t value) override {
    log += "w" + std::to_string(bytes) + "@" + std::to_string(offset) + " ";
    std::memcpy(memory + offset, &value, bytes);
  }
  std::string log;
  std::byte memory[4096] = {};
};

struct InstructionWorld : ImageWorld {
  explicit InstructionWorld(const char* path)
      : ImageWorld(path, {}, {}),
        function({}, {bus::Bar{.kind = bus::BarKind::kRegisters,
                               .base = {},
                               .size = 4096,
                               .registers = &device,
                               .memory = {}}}) {
    EXPECT_TRUE(is_success(machine.add_function(function)));
    registers = static_cast<std::byte*>(machine.map_io(function.bars()[0].base, 4096));
    EXPECT_NE(registers, nullptr);
  }
  static constexpr uint64_t kAbandoned = 0xABA2D02ED;
  template <typename... A>
  uint64_t call_at(Irql irql, const char* name, A... arguments) {
    CallFrame frame(kernel, "DxgkDdiTest", irql);
    uint64_t result = 0;
    using Function = uint64_t(DXGKIT_NT_ABI*)(A...);
    const bool came_back = frame.call(find<Function>(name), &result, arguments...);
    left_at = frame.irql();
    frame.restore_entry_irql();
    return came_back ? result : kAbandoned;
  }
  template <typename... A>
  uint64_t call(const char* name, A... arguments) {
    return call_at(kPassiveLevel, name, arguments...);
  }
  std::string take_log() { return std::exchange(device.log, {}); }
  template <typename T>
  T memory_at(size_t offset) {
    T value;
    std::memcpy(&value, device.memory + offset, sizeof(value));
    return value;
  }
  Device device;
  bus::PciFunction function;
  std::byte* registers = nullptr;
  Irql left_at = 0;
};

class Instructions : public ::testing::TestWithParam<const char*> {
 protected:
  template <typename Body>
  void run(const Body& body) {
    in_both_modes([&] {
      InstructionWorld world(GetParam());
      body(world);
    });
  }
};

TEST_P(Instructions, ReadAndWriteTheLevel) {
  DXGKIT_COVERS("NT-24");
  run([](InstructionWorld& world) {
    EXPECT_EQ(world.call("ReadLevel"), 0U);
    EXPECT_EQ(world.call_at(kDispatchLevel, "ReadLevel"), 2U);
    EXPECT_EQ(world.call("RaiseAndLower", uint64_t{11}), 11U << 8);
    EXPECT_EQ(world.call("LeaveRaised", uint64_t{2}), 2U);
    EXPECT_EQ(world.left_at, kDispatchLevel);
    EXPECT_EQ(world.call("DpcRunsWhenLevelFalls"), 102U);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Instructions, ReadSharedData) {
  DXGKIT_COVERS("NT-24");
  run([](InstructionWorld& world) {
    runtime::Runtime& runtime = world.kernel.runtime();
    runtime.sleep_for(40 * runtime::kMillisecond);
    const auto before = static_cast<uint64_t>(runtime.now()) / 100;
    const uint64_t interrupt_time = world.call("InterruptTime");
    const uint64_t system_time = world.call("SystemTime");
    const uint64_t ticks = world.call("TickCount");
    const auto after = static_cast<uint64_t>(runtime.now()) / 100;
    EXPECT_GE(interrupt_time, before);
    EXPECT_LE(interrupt_time, after);
    EXPECT_GE(system_time, 133'800'000'000'000'000 + before);
    EXPECT_LE(system_time, 133'800'000'000'000'000 + after);
    EXPECT_GE(ticks, before / 156'250);
    EXPECT_LE(ticks, after / 156'250);
    EXPECT_EQ(world.call("MajorVersion"), 10U);
    EXPECT_EQ(world.call("RootLetter"), uint64_t{'C'});
    EXPECT_EQ(world.call("WrongForms"), 0U);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
    EXPECT_EQ(world.call("WriteShared"), InstructionWorld::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    EXPECT_EQ(world.findings.all()[0].rule, "NT-01");
    EXPECT_EQ(world.findings.all()[0].bugcheck_code, 0x50U);
  });
}

TEST_P(Instructions, ReadProcessorData) {
  DXGKIT_COVERS("NT-24");
  run([](InstructionWorld& world) {
    EXPECT_NE(world.call("ThreadOfCall"), 0U);
    CallFrame outer(world.kernel, "DxgkDdiOuter", kPassiveLevel);
    const uint64_t thread = world.call("ThreadOfCall");
    EXPECT_EQ(world.call("ThreadOfProcessor"), thread);
    EXPECT_EQ(world.call("ThreadThroughPrcb"), thread);
    EXPECT_EQ(world.call("ProcessorNumber"), 0U);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Instructions, AnswerPortsAndCaches) {
  DXGKIT_COVERS("NT-24");
  run([](InstructionWorld& world) {
    EXPECT_EQ(world.call("PortRead"), 0xFFU);
    EXPECT_EQ(world.call("PortWrite"), 1U);
    EXPECT_EQ(world.call("FlushCaches"), 1U);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
    EXPECT_EQ(world.call("MaskInterrupts"), 1U);
    ASSERT_EQ(world.findings.total(), 2U) << world.findings_text();
    EXPECT_EQ(world.findings.all()[0].severity, verifier::Severity::kWarning);
  });
}

TEST_P(Instructions, NameWhatCannotBeAnswered) {
  DXGKIT_COVERS("NT-24");
  for (const auto& [function, name] : {std::pair{"ReadMsr", "rdmsr"},
                                       {"ReadCr3", "mov with a control register"},
                                       {"Halt", "hlt"}}) {
    run([&](InstructionWorld& world) {
      EXPECT_EQ(world.call(function), InstructionWorld::kAbandoned);
      ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
      const verifier::Finding finding = world.findings.all()[0];
      EXPECT_EQ(finding.rule, "NT-24");
      EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
      EXPECT_NE(finding.actual.find(std::string("executed ") + name + " at driver.sys+0x"),
                std::string::npos)
          << finding.actual;
      EXPECT_TRUE(world.kernel.driver_is_dead());
    });
  }
}

TEST_P(Instructions, ReportAssertionsAndGoOn) {
  DXGKIT_COVERS("NT-05");
  run([](InstructionWorld& world) {
    EXPECT_EQ(world.call("Assert"), 77U);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    const verifier::Finding finding = world.findings.all()[0];
    EXPECT_EQ(finding.rule, "NT-05");
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(finding.place.image, "driver.sys");
    EXPECT_FALSE(world.kernel.driver_is_dead());
  });
}

TEST_P(Instructions, StopAtAFastFail) {
  DXGKIT_COVERS("NT-04");
  run([](InstructionWorld& world) {
    EXPECT_EQ(world.call("FastFail"), InstructionWorld::kAbandoned);
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    const verifier::Finding finding = world.findings.all()[0];
    EXPECT_EQ(finding.rule, "NT-04");
    EXPECT_EQ(finding.bugcheck_code, 0x139U);
    EXPECT_EQ(finding.bugcheck_parameter, 3U);
    EXPECT_NE(finding.place.registers.find("rcx=3 "), std::string::npos);
  });
}

TEST_P(Instructions, ReachDeviceRegistersInTheirWidth) {
  DXGKIT_COVERS("NT-24");
  run([](InstructionWorld& world) {
    std::byte* const at = world.registers;
    EXPECT_EQ(world.call("StoreEachWidth", at), 1U);
    EXPECT_EQ(world.take_log(), "w1@0 w2@2 w4@4 w8@8 w1@0 ");
    EXPECT_EQ(world.memory_at<uint8_t>(0), 0x77U);
    EXPECT_EQ(world.memory_at<uint16_t>(2), 0x2222U);
    EXPECT_EQ(world.call("LoadEachWidth", at),
              0x77ULL + 0x2222 + 0x33333333 + 0x4444444444444444ULL);
    EXPECT_EQ(world.take_log(), "r1@0 r2@2 r4@4 r8@8 ");
    EXPECT_EQ(world.call("VectorLoad", at), 0x7777666600002277ULL - 0x7777666600002277ULL +
                                                world.memory_at<uint64_t>(0) +
                                                world.memory_at<uint64_t>(8));
    EXPECT_EQ(world.take_log(), "r8@0 r8@8 ");
    EXPECT_EQ(world.call("VectorStore", at + 16, uint64_t{99}), 1U);
    EXPECT_EQ(world.take_log(), "w8@16 w8@24 ");
    EXPECT_EQ(world.memory_at<uint64_t>(24), 99U);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Instructions, ChangeDeviceRegistersInPlace) {
  DXGKIT_COVERS("NT-24");
  run([](InstructionWorld& world) {
    std::byte* const at = world.registers + 32;
    EXPECT_EQ(world.call("ChangeInPlace", at), 0U);
    EXPECT_EQ(world.memory_at<uint32_t>(32), ((0x80U & 0xF0U) ^ 1U) + 1U + 0x200U);
    EXPECT_EQ(world.take_log(), "r4@32 w4@32 r4@32 w4@32 r4@32 w4@32 r4@32 w4@32 r4@32 w4@32 ");
    EXPECT_EQ(world.call("Exchange", at, uint32_t{5}), 0x282U);
    EXPECT_EQ(world.memory_at<uint32_t>(32), 5U);
    EXPECT_EQ(world.call("CompareExchange", at, uint32_t{4}, uint32_t{6}), 5U);
    EXPECT_EQ(world.memory_at<uint32_t>(32), 5U);
    EXPECT_EQ(world.call("CompareExchange", at, uint32_t{5}, uint32_t{6}), 5U);
    EXPECT_EQ(world.memory_at<uint32_t>(32), 6U);
    EXPECT_EQ(world.call("TestBit", at), 0U);
    world.device.memory[32] = std::byte{7};
    EXPECT_EQ(world.call("TestBit", at), 1U);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

TEST_P(Instructions, CopyToAndFromDeviceRegisters) {
  DXGKIT_COVERS("NT-24");
  run([](InstructionWorld& world) {
    std::byte* const at = world.registers;
    uint32_t values[3] = {1, 2, 3}, back[3] = {};
    EXPECT_EQ(world.call("CopyOut", at, &values[0], uint64_t{3}), 0U);
    EXPECT_EQ(world.take_log(), "w4@0 w4@4 w4@8 ");
    EXPECT_EQ(world.call("CopyIn", &back[0], at, uint64_t{3}), 0U);
    EXPECT_EQ(world.take_log(), "r4@0 r4@4 r4@8 ");
    EXPECT_EQ(back[2], 3U);
    EXPECT_EQ(world.call("Fill", at, uint32_t{9}, uint64_t{2}), 0U);
    EXPECT_EQ(world.take_log(), "w4@0 w4@4 ");
    EXPECT_EQ(world.memory_at<uint32_t>(4), 9U);
    EXPECT_EQ(world.call("CopyWithCall", at, &values[0], uint64_t{4}), 1U);
    EXPECT_EQ(world.memory_at<uint32_t>(0), 1U);
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
    // The source ends in the middle: what was copied until then was written.
    world.take_log();
    EXPECT_EQ(world.call("CopyOut", at, uint64_t{0x10}, uint64_t{3}), InstructionWorld::kAbandoned);
    EXPECT_EQ(world.take_log(), "");
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    EXPECT_EQ(world.findings.all()[0].rule, "NT-01");
  });
}

TEST_P(Instructions, DoNotReachUnmappedRegisters) {
  DXGKIT_COVERS("NT-01");
  run([](InstructionWorld& world) {
    ASSERT_TRUE(world.machine.unmap_io(world.registers, 4096));
    EXPECT_EQ(world.call("ReadOne", world.registers), InstructionWorld::kAbandoned);
    EXPECT_EQ(world.take_log(), "");
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    EXPECT_EQ(world.findings.all()[0].rule, "NT-01");
  });
}

INSTANTIATE_TEST_SUITE_P(Forms, Instructions,
                         ::testing::Values(NT_INSTRUCTIONS, NT_INSTRUCTIONS_SYS),
                         [](const auto& name) { return name.index == 0 ? "Elf" : "Pe"; });

}  // namespace
}  // namespace dxgkit::nt
