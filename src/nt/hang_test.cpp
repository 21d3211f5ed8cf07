// A driver call that does not come back is ended, wherever it hangs.
#include <gtest/gtest.h>

#include "nt/image_world_test.h"
#include "nt/stalls.h"
#include "runtime/cpu_watch.h"
#include "tests/support/covers.h"

namespace dxgkit::nt {
namespace {

using Routine = uint64_t(DXGKIT_NT_ABI*)(uint64_t);

TEST(Hang, EndsCallsThatDoNotReturn) {
  DXGKIT_COVERS("NT-20");
  for (const char* path : {NT_DOOR_DRIVER, NT_DOOR_DRIVER_SYS}) {
    in_both_modes([&] {
      struct Case {
        uint64_t how;
        const char* function;
        const char* text;
      };
      for (const Case& each :
           {Case{0, "DxgkDdiTest", "has used 100 ms of processor time without returning"},
            Case{1, "KeWaitForSingleObject", "for more than 100 ms"},
            Case{2, "KeDelayExecutionThread", "has polled and slept for more than 100 ms"},
            Case{3, "KeStallExecutionProcessor", "has polled and slept for more than 100 ms"}}) {
        if (each.how == 0 && !runtime::kSeesEndlessLoops) continue;
        ImageWorld world(path, {}, {});
        world.kernel.set_hang_limit(100 * runtime::kMillisecond);
        {
          CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
          uint64_t result = 7;
          EXPECT_FALSE(frame.call(world.find<Routine>("Hang"), &result, each.how));
          EXPECT_EQ(result, 7U);
        }
        ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
        const verifier::Finding finding = world.findings.all()[0];
        EXPECT_EQ(finding.rule, "NT-20");
        EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
        EXPECT_EQ(finding.ddi, each.function);
        EXPECT_NE(finding.actual.find(each.text), std::string::npos) << finding.actual;
        EXPECT_NE(finding.actual.find("DxgkDdiTest"), std::string::npos) << finding.actual;
        if (each.how == 0) {
          EXPECT_NE(finding.actual.find("driver.sys+0x"), std::string::npos) << finding.actual;
        }
        EXPECT_TRUE(world.kernel.driver_is_dead());
      }
    });
  }
}

/// The longest call is told once, and what two calls stall is not added.
TEST(Hang, TellsOfTheLongestStall) {
  in_both_modes([] {
    ImageWorld world(NT_DOOR_DRIVER, {}, {});
    EXPECT_FALSE(take_longest_stall(world.kernel).has_value());
    const auto stall = [&](const char* name, uint64_t times) {
      CallFrame frame(world.kernel, name, kPassiveLevel);
      uint64_t result = 0;
      EXPECT_TRUE(frame.call(world.find<Routine>("Stall"), &result, times));
      EXPECT_EQ(result, times);
    };
    stall("DxgkDdiShort", 2);
    stall("DxgkDdiLong", 3);
    stall("DxgkDdiShort", 2);
    const std::optional<Stall> longest = take_longest_stall(world.kernel);
    ASSERT_TRUE(longest.has_value());
    EXPECT_STREQ(longest->call, "DxgkDdiLong");
    EXPECT_EQ(longest->length_ns, 150 * runtime::kMicrosecond);
    EXPECT_FALSE(take_longest_stall(world.kernel).has_value());
    {  // two calls through one frame
      CallFrame frame(world.kernel, "DxgkDdiTwice", kPassiveLevel);
      uint64_t result = 0;
      EXPECT_TRUE(frame.call(world.find<Routine>("Stall"), &result, uint64_t{2}));
      EXPECT_TRUE(frame.call(world.find<Routine>("Stall"), &result, uint64_t{1}));
    }
    EXPECT_EQ(take_longest_stall(world.kernel)->length_ns, 100 * runtime::kMicrosecond);
    EXPECT_TRUE(world.findings.all().empty());
  });
}

/// Many short calls are not one long one, however much they compute together.
TEST(Hang, LetsBusyDriversBe) {
  runtime::make_os_runtime(1)->run_main([] {
    ImageWorld world(NT_DOOR_DRIVER, {}, {});
    world.kernel.set_hang_limit(50 * runtime::kMillisecond);
    const Routine recurse = world.find<Routine>("Recurse");
    runtime::Runtime& runtime = runtime::Runtime::current();
    const runtime::TimeNs end = runtime.now() + 200 * runtime::kMillisecond;
    while (runtime.now() < end) {
      CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
      uint64_t result = 0;
      ASSERT_TRUE(frame.call(recurse, &result, uint64_t{50}));
    }
    EXPECT_EQ(world.findings.total(), 0U) << world.findings_text();
  });
}

/// Calls `function` of the driver, which must not return, and answers the finding's text.
std::string hang(const char* path, const char* function, uint64_t how, const char* ddi) {
  ImageWorld world(path, {}, {.hang_limit = 100 * runtime::kMillisecond});
  {
    CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
    uint64_t result = 7;
    EXPECT_FALSE(frame.call(world.find<Routine>(function), &result, how));
  }
  EXPECT_EQ(world.findings.total(), 1U) << world.findings_text();
  if (world.findings.total() != 1) return {};
  const verifier::Finding finding = world.findings.all()[0];
  EXPECT_EQ(finding.rule, "NT-20");
  EXPECT_EQ(finding.ddi, ddi);
  EXPECT_EQ(finding.place.image, "driver.sys");
  EXPECT_FALSE(finding.place.stack.empty());
  return finding.actual;
}

TEST(Hang, SaysForWhatTheCallWaits) {
  DXGKIT_COVERS("NT-20");
  for (const char* path : {NT_DOOR_DRIVER, NT_DOOR_DRIVER_SYS}) {
    in_both_modes([&] {
      const std::string event = hang(path, "Hang", 1, "KeWaitForSingleObject");
      EXPECT_NE(event.find("DxgkDdiTest has not returned: it waits for event 0x"),
                std::string::npos)
          << event;
      EXPECT_NE(event.find(" (driver.sys+0x"), std::string::npos) << event;
      const std::string thread = hang(path, "WaitForThread", 0, "KeWaitForSingleObject");
      EXPECT_NE(thread.find("it waits for the end of \"driver thread 1\", started at "),
                std::string::npos)
          << thread;
      EXPECT_NE(thread.find(", which waits for event 0x"), std::string::npos) << thread;
      const std::string lock = hang(path, "WaitForThread", 1, "KeAcquireSpinLockRaiseToDpc");
      EXPECT_NE(lock.find("it waits for spin lock 0x"), std::string::npos) << lock;
      EXPECT_NE(lock.find(", held by thread \"driver thread 1\" for more"), std::string::npos)
          << lock;
      for (const std::string& text : {thread, lock}) {
        EXPECT_NE(text.find(" Thread \"driver thread 1\" (system thread) waits in "
                            "KeWaitForSingleObject, called at driver.sys+0x"),
                  std::string::npos)
            << text;
      }
    });
  }
}

TEST(Hang, FindsSpinLocksThatACallKeeps) {
  DXGKIT_COVERS("NT-16");
  for (const char* path : {NT_DOOR_DRIVER, NT_DOOR_DRIVER_SYS}) {
    in_both_modes([&] {
      ImageWorld world(path, {}, {});
      uint64_t result = 0;
      {
        CallFrame frame(world.kernel, "DxgkDdiTest", kPassiveLevel);
        EXPECT_TRUE(frame.call(world.find<Routine>("KeepSpinLock"), &result, uint64_t{1}));
        ASSERT_EQ(world.findings.total(), 1U) << world.findings_text();
        const verifier::Finding finding = world.findings.all()[0];
        EXPECT_EQ(finding.rule, "NT-16");
        EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
        EXPECT_EQ(finding.ddi, "DxgkDdiTest");
        EXPECT_NE(finding.actual.find("It returned and holds spin lock 0x"), std::string::npos)
            << finding.actual;
        const auto start = reinterpret_cast<uint64_t>(world.image->find("KeepSpinLock")) -
                           reinterpret_cast<uint64_t>(world.image->base());
        EXPECT_GT(finding.place.rva, start);
        EXPECT_LT(finding.place.rva, start + 256);
        // The next call is told of its own mistakes only.
        EXPECT_TRUE(frame.call(world.find<Routine>("Nothing"), &result, uint64_t{1}));
        EXPECT_EQ(world.findings.total(), 1U) << world.findings_text();
        // A thread of the driver waits for the lock: the world ends all the same.
        EXPECT_TRUE(frame.call(world.find<Routine>("WaitForThread"), &result, uint64_t{2}));
      }
    });
  }
}

}  // namespace
}  // namespace dxgkit::nt
