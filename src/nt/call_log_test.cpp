// What is kept of a driver's last calls.
#include "nt/call_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bus/function.h"
#include "nt/image_world_test.h"

namespace dxgkit::nt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct LogWorld : ImageWorld {
  explicit LogWorld(const char* path, KernelConfig config = {})
      : ImageWorld(path, {{"HostStack", {reinterpret_cast<const void*>(&call_back), 0}}},
                   std::move(config)) {}
  bool call(const char* name, uint64_t argument) {
    CallFrame frame(kernel, "DxgkDdiTest", kPassiveLevel);
    uint64_t result = 0;
    return frame.call(find<Routine>(name), &result, argument);
  }
};

template <typename Body>
void in_every_mode(const Body& body) {
  for (const char* path : {NT_DOOR_DRIVER, NT_DOOR_DRIVER_SYS}) {
    in_both_modes([&] { body(path); });
  }
}

constexpr uint64_t kTag = 0x6C6F6F50;  // "Pool"

TEST(CallLog, HasCallsWithArgumentsAndAnswers) {
  in_every_mode([](const char* path) {
    LogWorld world(path);
    EXPECT_TRUE(world.call("AllocateTooHigh", kTag)) << "without a log";
    const CallLog log(world.kernel);
    EXPECT_THAT(log.lines(), IsEmpty());
    EXPECT_TRUE(world.call("AllocateTooHigh", kTag));
    EXPECT_THAT(log.lines(),
                ElementsAre("DxgkDdiTest made 2 calls",
                            "ExAllocatePoolWithTag(16 bytes, tag 'Pool') answered an address",
                            "ExFreePoolWithTag() returned"));
    EXPECT_TRUE(world.call("StackPointer", 1));
    EXPECT_THAT(log.lines(), ElementsAre("DxgkDdiTest called no routine that is kept here"));
  });
}

TEST(CallLog, HasTheReasonOfARefusal) {
  in_every_mode([](const char* path) {
    KernelConfig config;
    config.pool_bytes_max = 10;
    LogWorld world(path, std::move(config));
    const CallLog log(world.kernel);
    EXPECT_TRUE(world.call("AllocateTooHigh", kTag));
    EXPECT_THAT(log.lines(),
                ElementsAre("DxgkDdiTest made 1 call",
                            "ExAllocatePoolWithTag(16 bytes, tag 'Pool') answered NULL: this run's "
                            "limit of the pool is reached"));
  });
}

/// Calls in an inner call of the driver come behind the one that made it. A call that was abandoned
/// has no answer.
TEST(CallLog, HasInnerCallsAndThoseThatDoNotReturn) {
  in_every_mode([](const char* path) {
    LogWorld world(path);
    const CallLog log(world.kernel);
    EXPECT_FALSE(world.call("NestedDeath", 1));
    EXPECT_THAT(log.lines(), ElementsAre("DxgkDdiTest made 2 calls", "HostStack() has not returned",
                                         "KeBugCheckEx() has not returned"));
    ASSERT_EQ(world.findings.all().size(), 1U);
    EXPECT_EQ(world.findings.all()[0].before, log.lines()) << "the finding has them, too";
    EXPECT_TRUE(log.told());
  });
}

TEST(CallLog, EndsWithTheStart) {
  in_every_mode([](const char* path) {
    LogWorld world(path);
    const CallLog log(world.kernel);
    const CallLog inner(world.kernel);  // adds to the other one
    EXPECT_TRUE(world.call("AllocateTooHigh", kTag));
    const std::vector<std::string> lines = log.lines();
    EXPECT_EQ(lines.size(), 3U);
    EXPECT_THAT(inner.lines(), IsEmpty());
    EXPECT_FALSE(log.told());
    EXPECT_EQ(CallLog::lines_of_this_thread(), lines);
    EXPECT_TRUE(log.told());
    CallLog::end_start();
    EXPECT_TRUE(world.call("Nested", 1));
    EXPECT_EQ(log.lines(), lines);
    bus::PciFunction function({.vendor_id = 0x1AF4, .device_id = 0x1050}, {});
    function.set_post_display(bus::PostDisplay{.bar = 1, .width = 640, .height = 480});
    CallLog::begin_start(&function);
    EXPECT_THAT(log.lines(), IsEmpty());
    EXPECT_FALSE(log.told());
    EXPECT_TRUE(world.call("StackPointer", 1));
    EXPECT_THAT(log.lines(),
                ElementsAre(HasSubstr("called no routine"),
                            "the device is PCI 1af4:1050, class 030200; it has no BAR; one "
                            "interrupt line; firmware shows 640x480 in BAR 1"));
  });
  EXPECT_EQ(CallLog::current(), nullptr);
}

/// A thread that polls keeps what came before.
TEST(CallLog, CountsTheSameCallAgainAndAgain) {
  in_both_modes([] {
    World world;
    DoorTarget poll{.name = "KeStallExecutionProcessor", .result_kind = ResultKind::kNothing};
    DoorTarget query{.name = "MmIsAddressValid", .result_kind = ResultKind::kBoolean};
    prepare_for_log(&poll);
    prepare_for_log(&query);
    static std::byte image[64];
    world.kernel.add_image({.name = "driver.sys", .base = image, .size = sizeof image});
    CallLog log(world.kernel);
    log.begin("DxgkDdiTest");
    DoorFrame frame{};
    log.answered(log.enter(query, frame), 1);
    frame.call_arguments[0] = 10;
    for (int i = 0; i < 1000; ++i) log.answered(log.enter(poll, frame), 0);
    log.printed("line one\r\n");
    EXPECT_THAT(log.lines(),
                ElementsAre("DxgkDdiTest made 2 calls", "MmIsAddressValid() answered 1",
                            "KeStallExecutionProcessor(microseconds 0xa) returned, 1000 times in a "
                            "row",
                            "it printed: line one"));
    log.printed(std::string("\x01\xFF") + std::string(1000, 'x'));
    EXPECT_EQ(log.lines().back(), "it printed: ??" + std::string(198, 'x'));
    world.kernel.remove_image(image);
  });
}

/// Pointers of a driver may lead anywhere.
TEST(CallLog, ReadsNamesThatMayNotBeThere) {
  in_both_modes([] {
    World world;
    DoorTarget query{.name = "ZwQueryValueKey", .result_kind = ResultKind::kStatus};
    DoorTarget table{.name = "RtlQueryRegistryValues", .result_kind = ResultKind::kStatus};
    DoorTarget open{.name = "ZwOpenKey", .result_kind = ResultKind::kStatus};
    for (DoorTarget* target : {&query, &table, &open}) prepare_for_log(target);
    static std::byte image[64];
    world.kernel.add_image({.name = "driver.sys", .base = image, .size = sizeof image});
    CallLog log(world.kernel);
    char16_t text[] = u"Max\u20ACSize";
    UnicodeString name{sizeof text - 2, sizeof text, text};
    const auto told = [&](DoorTarget& target, size_t index, const void* argument) {
      log.begin("DxgkDdiTest");
      DoorFrame frame{};
      frame.call_arguments[index] = reinterpret_cast<uint64_t>(argument);
      log.answered(log.enter(target, frame), 0xC0000034);
      return log.lines().back();
    };
    EXPECT_EQ(told(query, 1, &name),
              "ZwQueryValueKey(\"Max?Size\") answered STATUS_OBJECT_NAME_NOT_FOUND");
    name.buffer = reinterpret_cast<char16_t*>(8);
    EXPECT_THAT(told(query, 1, &name), HasSubstr("ZwQueryValueKey() answered"));
    const void* attributes[3] = {nullptr, nullptr, reinterpret_cast<void*>(16)};
    for (const void* bad :
         {static_cast<const void*>(nullptr), reinterpret_cast<const void*>(~0ULL),
          reinterpret_cast<const void*>(0x1000), static_cast<const void*>(attributes)}) {
      EXPECT_THAT(told(query, 1, bad), HasSubstr("ZwQueryValueKey() answered")) << bad;
      EXPECT_THAT(told(table, 2, bad), HasSubstr("RtlQueryRegistryValues() answered")) << bad;
      EXPECT_THAT(told(open, 2, bad), HasSubstr("ZwOpenKey() answered")) << bad;
    }
    world.kernel.remove_image(image);
  });
}

}  // namespace
}  // namespace dxgkit::nt
