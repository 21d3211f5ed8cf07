// Driver images run on small guarded stacks and reach this kernel through doors.
#include "nt/door.h"

#include <gtest/gtest.h>

#include <cstring>

#include "nt/format.h"
#include "nt/image_world_test.h"
#include "tests/support/covers.h"

namespace dxgkit::nt {
namespace {

uint64_t here() { return reinterpret_cast<uint64_t>(__builtin_frame_address(0)); }

bool is_near(uint64_t a, uint64_t b) { return (a > b ? a - b : b - a) < 64 * 1024; }

DXGKIT_NT_ABI uint64_t host_sum(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                                uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j,
                                uint64_t k, uint64_t l) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k +
         12 * l;
}

DXGKIT_NT_ABI double host_scale(double value, double factor) { return value * factor; }

DXGKIT_NT_ABI void host_print(char* out, uint64_t size, const char* format, ...) {
  __builtin_ms_va_list arguments;
  __builtin_ms_va_start(arguments, format);
  const std::string text = format_narrow(format, reinterpret_cast<const char*>(arguments));
  __builtin_ms_va_end(arguments);
  std::strncpy(out, text.c_str(), size);
}

uint64_t g_host_stack = 0;

DXGKIT_NT_ABI uint64_t host_stack(Routine routine, uint64_t argument) {
  g_host_stack = here();
  return call_back(routine, argument);
}

const std::vector<std::pair<std::string, TestExport>> kHost = {
    {"HostSum", {reinterpret_cast<const void*>(&host_sum), stack_arguments_of(&host_sum)}},
    {"HostScale", {reinterpret_cast<const void*>(&host_scale), 0}},
    {"HostPrint", {reinterpret_cast<const void*>(&host_print), stack_arguments_of(&host_print)}},
    {"HostStack", {reinterpret_cast<const void*>(&host_stack), 0}},
};

struct DoorWorld : ImageWorld {
  explicit DoorWorld(const char* path, KernelConfig config = {})
      : ImageWorld(path, kHost, config) {}
};

/// Both forms of the driver, in both runtimes.
template <typename Body>
void in_every_mode(const Body& body) {
  for (const char* path : {NT_DOOR_DRIVER, NT_DOOR_DRIVER_SYS}) {
    in_both_modes([&] { body(path); });
  }
}

TEST(Door, RunsDriversOnAStackOfTheirOwn) {
  DXGKIT_COVERS("NT-23");
  in_every_mode([](const char* path) {
    DoorWorld world(path);
    CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
    uint64_t driver = 0;
    ASSERT_TRUE(frame.call(world.find<Routine>("StackPointer"), &driver, uint64_t{1}));
    EXPECT_FALSE(is_near(driver, here()));
    EXPECT_EQ(frame.driver_stack_bytes(), 24U * 1024);
    EXPECT_GE(driver, frame.driver_stack_low());
    EXPECT_LT(driver, frame.driver_stack_low() + frame.driver_stack_bytes());
    // A second call starts at the top again.
    uint64_t again = 0;
    ASSERT_TRUE(frame.call(world.find<Routine>("StackPointer"), &again, uint64_t{1}));
    EXPECT_EQ(again, driver);
    EXPECT_FALSE(frame.in_door());
  });
}

TEST(Door, TakesArgumentsOfEveryKindAcross) {
  DXGKIT_COVERS("NT-23");
  in_every_mode([](const char* path) {
    DoorWorld world(path);
    CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
    uint64_t sum = 0;
    using Many = uint64_t(DXGKIT_NT_ABI*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                          uint64_t, uint64_t);
    ASSERT_TRUE(frame.call(world.find<Many>("ManyArguments"), &sum, 1U, 2U, 3U, 4U, 5U, 6U, 7U));
    EXPECT_EQ(sum, 2U * 650);  // 1*1 + 2*2 + ... + 12*12
    char text[64] = {};
    ASSERT_TRUE(frame.call(world.find<Routine>("Print"), &sum, reinterpret_cast<uint64_t>(text)));
    EXPECT_STREQ(text, "1 2 3 4 5 6 7");
  });
}

TEST(Door, KeepsRegistersOfDriverAndHost) {
  DXGKIT_COVERS("NT-23");
  in_every_mode([](const char* path) {
    DoorWorld world(path);
    KernelConfig tracing, on_host;
    tracing.trace_imports = true;
    DoorWorld watched(path, tracing);
    on_host.driver_stack_bytes = 0;
    DoorWorld reference(path, on_host);
    uint64_t result[4] = {};
    size_t i = 0;
    const auto call = [&](DoorWorld& each) {
      CallFrame frame(each.kernel, "DxgkDdiTest", kPassiveLevel);
      EXPECT_TRUE(frame.call(each.find<Routine>("KeepsRegisters"), &result[i++], uint64_t{77}));
    };
    for (DoorWorld* each : {&reference, &world, &watched}) call(*each);
    const CallLog log(world.kernel);
    call(world);
    EXPECT_EQ(log.lines().front(), "DxgkDdiTest made 20 calls, the last 12 were");
    EXPECT_EQ(result[1], result[0]);
    EXPECT_EQ(result[2], result[0]);
    EXPECT_EQ(result[3], result[0]);
  });
}

TEST(Door, NestsDriverCallsBelowTheCaller) {
  DXGKIT_COVERS("NT-23");
  in_every_mode([](const char* path) {
    DoorWorld world(path);
    CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
    uint64_t outer = 0, inner = 0;
    ASSERT_TRUE(frame.call(world.find<Routine>("StackPointer"), &outer, uint64_t{1}));
    ASSERT_TRUE(frame.call(world.find<Routine>("Nested"), &inner, uint64_t{1}));
    EXPECT_TRUE(is_near(g_host_stack, here()));
    EXPECT_LT(inner, outer);
    EXPECT_GE(inner, frame.driver_stack_low());
  });
}

TEST(Door, LeavesNestedCallsAtABugCheck) {
  in_every_mode([](const char* path) {
    DoorWorld world(path);
    {
      CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
      uint64_t result = 5;
      EXPECT_FALSE(frame.call(world.find<Routine>("NestedDeath"), &result, uint64_t{1}));
      EXPECT_EQ(result, 5U);
      EXPECT_TRUE(frame.abandoned());
      EXPECT_FALSE(frame.in_door());
      EXPECT_EQ(CallFrame::current_or_null(), &frame);
    }
    EXPECT_EQ(CallFrame::current_or_null(), nullptr);
    ASSERT_EQ(world.findings.total(), 1U);
    const verifier::Finding finding = world.findings.all()[0];
    EXPECT_EQ(finding.bugcheck_code, 0xDEADU);
    EXPECT_EQ(finding.place.image, "driver.sys");
    EXPECT_GT(finding.place.rva, 0U);
    EXPECT_TRUE(world.kernel.driver_is_dead());
  });
}

TEST(Door, FindsCallsAboveTheLevelOfAnExport) {
  DXGKIT_COVERS("NT-07");
  in_every_mode([](const char* path) {
    DoorWorld world(path);
    CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
    uint64_t result = 0;
    ASSERT_TRUE(frame.call(world.find<Routine>("AllocateTooHigh"), &result, uint64_t{0x61626364}));
    ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
    const verifier::Finding finding = world.findings.all()[0];
    EXPECT_EQ(finding.rule, "NT-07");
    EXPECT_EQ(finding.ddi, "ExAllocatePoolWithTag");
    EXPECT_EQ(finding.actual, "ExAllocatePoolWithTag was called at DIRQL (IRQL 5) in DxgkDdiTest.");
    EXPECT_EQ(finding.expected, "It may be called at DISPATCH_LEVEL or below.");
    EXPECT_EQ(finding.place.image, "driver.sys");
    const auto start = reinterpret_cast<uint64_t>(world.image->find("AllocateTooHigh")) -
                       reinterpret_cast<uint64_t>(world.image->base());
    EXPECT_GT(finding.place.rva, start);
    EXPECT_LT(finding.place.rva, start + 256);
  });
}

TEST(Door, NamesMissingImportsAndTheirCallers) {
  DXGKIT_COVERS("NT-15");
  in_every_mode([](const char* path) {
    DoorWorld world(path);
    CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
    uint64_t result = 0;
    EXPECT_FALSE(frame.call(world.find<Routine>("CallTheUnknown"), &result, uint64_t{1}));
    ASSERT_EQ(world.findings.total(), 1U);
    const verifier::Finding finding = world.findings.all()[0];
    EXPECT_EQ(finding.rule, "NT-15");
    EXPECT_NE(finding.actual.find("DxgkDdiTest called NoSuchRoutine of ntoskrnl.exe"),
              std::string::npos)
        << finding.actual;
    EXPECT_NE(finding.actual.find("from driver.sys+0x"), std::string::npos) << finding.actual;
    EXPECT_EQ(finding.place.image, "driver.sys");
  });
}

TEST(Door, GivesTimersAndThreadsOfADriverSmallStacksToo) {
  in_every_mode([](const char* path) {
    DoorWorld world(path);
    CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
    uint64_t stacks[2] = {}, own = 0;
    ASSERT_TRUE(
        frame.call(world.find<Routine>("OtherThreads"), &own, reinterpret_cast<uint64_t>(stacks)));
    EXPECT_NE(stacks[0], 0U);
    EXPECT_NE(stacks[1], 0U);
    EXPECT_FALSE(is_near(stacks[0], own));
    EXPECT_FALSE(is_near(stacks[1], own));
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

/// The stack holds what Windows gives, and what goes beyond it touches the guard.
TEST(Door, FindsStackOverflows) {
  DXGKIT_COVERS("NT-03");
  in_every_mode([](const char* path) {
    DoorWorld world(path);
    const Routine recurse = world.find<Routine>("Recurse");
    uint64_t result = 0;
    {
      CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
      EXPECT_TRUE(frame.call(recurse, &result, uint64_t{60}));
      EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
      const std::byte* low = reinterpret_cast<const std::byte*>(frame.driver_stack_low());
      EXPECT_TRUE(Kernel::is_stack_guard(low - 1));
      EXPECT_TRUE(Kernel::is_stack_guard(low - kStackGuardBytes));
      EXPECT_FALSE(Kernel::is_stack_guard(low - kStackGuardBytes - 1));
      EXPECT_FALSE(Kernel::is_stack_guard(low));
    }
  });
}

}  // namespace
}  // namespace dxgkit::nt
