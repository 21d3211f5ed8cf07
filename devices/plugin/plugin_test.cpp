// Device plug-ins: the examples at work without a driver, and every way to be no plug-in.
#include "devices/plugin/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstring>

#include "bus/machine.h"
#include "devices/plugin/device_plugin.h"
#include "runtime/runtime.h"

namespace dxgkit::plugin {
namespace {

using ::testing::StartsWith;

std::string path_of(const std::string& name) {
  return std::string(DXGKIT_DEVICE_PLUGINS) + "/" + name + "_device.so";
}

/// Does the catalog's work, for files only.
bus::DeviceRegistry registry() {
  bus::DeviceRegistry all;
  all.set_loader(load);
  return all;
}

void in_both_modes(const std::function<void(runtime::Runtime&)>& body) {
  for (const bool simulated : {true, false}) {
    const auto runtime = simulated ? runtime::make_sim_runtime(1) : runtime::make_os_runtime(1);
    runtime->run_main([&] { body(*runtime); });
  }
}

/// The copier in a machine, with a driver's hands on it.
class Copier {
 public:
  explicit Copier(runtime::Runtime& runtime, const std::string& options = "")
      : machine(1 << 20, 64 << 10) {
    const auto choice = registry().parse(path_of("copier") + options);
    EXPECT_TRUE(choice.has_value()) << choice.error();
    auto made = choice->make({runtime, machine});
    EXPECT_TRUE(made.has_value()) << made.error();
    device = std::move(*made);
    EXPECT_EQ(bus::plug_in(machine, *device), Status::kSuccess);
    function = device->functions()[0];
    registers = static_cast<std::byte*>(machine.map_io(function->bars()[0].base, 4096));
    low = machine.allocate_contiguous(2, 4096, 0xFFFF'FFFF)->value * 4096;
  }
  uint32_t read(uint64_t offset) {
    return static_cast<uint32_t>(machine.read_register(registers + offset, 4));
  }
  void write(uint64_t offset, uint64_t value) {
    machine.write_register(registers + offset, 4, value);
  }
  void copy(uint64_t from, uint64_t to, uint32_t bytes) {
    write(0x04, from);
    write(0x08, to);
    write(0x0C, bytes);
    write(0x10, 1);
  }
  bus::Machine machine;
  std::unique_ptr<bus::Device> device;
  bus::PciFunction* function = nullptr;
  std::byte* registers = nullptr;
  uint64_t low = 0;
};

/// A copy of system memory below 4 GiB, told by an interrupt whose routine reads the device.
TEST(Plugin, CopiesMemoryAndInterrupts) {
  in_both_modes([](runtime::Runtime& runtime) {
    Copier copier(runtime);
    std::atomic<uint32_t> interrupted{0};
    copier.function->interrupt_line().connect([&] {
      const uint32_t status = copier.read(0x14);
      copier.write(0x14, status);
      interrupted.store(status);
      runtime.wake_all(interrupted);
      return true;
    });
    EXPECT_EQ(copier.read(0), 0x43505931U);
    std::byte* const memory = copier.machine.system_pointer(bus::PhysicalAddress{copier.low}, 8192);
    std::memcpy(memory, "to be copied", 13);
    const runtime::TimeNs began = runtime.now();
    copier.copy(copier.low, copier.low + 4096, 13);
    while (interrupted.load() == 0) static_cast<void>(runtime.wait(interrupted, 0));
    EXPECT_EQ(interrupted.load(), 1U);
    EXPECT_GE(runtime.now() - began, 100'000);
    EXPECT_STREQ(reinterpret_cast<const char*>(memory + 4096), "to be copied");
    EXPECT_EQ(copier.read(0x14), 0U);
    // Where nothing is, nothing is copied.
    interrupted.store(0);
    copier.copy(copier.low, 0x1000, 13);
    while (interrupted.load() == 0) static_cast<void>(runtime.wait(interrupted, 0));
    EXPECT_EQ(interrupted.load(), 3U);
    copier.function->interrupt_line().connect(nullptr);
  });
}

/// The clock stops after the step of the first copy: the second one is not done, although registers
/// answer, until the device is told to go on.
TEST(Plugin, StandsStillUntilItGoesOn) {
  in_both_modes([](runtime::Runtime& runtime) {
    Copier copier(runtime);
    bus::DeviceClock* const clock = copier.device->clock();
    ASSERT_NE(clock, nullptr);
    std::atomic<uint32_t> interrupts{0};
    copier.function->interrupt_line().connect([&] {
      copier.write(0x14, copier.read(0x14));
      interrupts.fetch_add(1);
      runtime.wake_all(interrupts);
      return true;
    });
    const auto await = [&](uint32_t count) {
      for (uint32_t seen = interrupts.load(); seen < count; seen = interrupts.load())
        static_cast<void>(runtime.wait(interrupts, seen));
    };
    std::byte* const memory = copier.machine.system_pointer(bus::PhysicalAddress{copier.low}, 8192);
    std::memcpy(memory, "twice", 6);
    clock->stop_after(1);
    copier.copy(copier.low, copier.low + 4096, 6);
    await(1);
    std::memset(memory + 4096, 0, 6);
    copier.copy(copier.low, copier.low + 4096, 6);
    // Simulated time passes at once; real time would have to be waited for.
    if (runtime.is_simulated()) runtime.sleep_for(runtime::kSecond);
    EXPECT_EQ(interrupts.load(), 1U);
    EXPECT_EQ(memory[4096], std::byte{0});
    EXPECT_EQ(copier.read(0), 0x43505931U);
    clock->go_on();
    await(2);
    EXPECT_STREQ(reinterpret_cast<const char*>(memory + 4096), "twice");
    clock->go_on();  // it runs: nothing changes
    copier.copy(copier.low, copier.low + 4096, 6);
    await(3);
    copier.function->interrupt_line().connect(nullptr);
  });
}

/// An interrupt that comes late comes all the same, also while the device stands still.
TEST(Plugin, InterruptsMayComeLate) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Copier copier(*runtime, ",delay=0");
    constexpr int64_t kMostNs = 50'000;
    std::atomic<uint32_t> interrupts{0};
    copier.function->interrupt_line().connect([&] {
      copier.write(0x14, copier.read(0x14));
      interrupts.fetch_add(1);
      runtime->wake_all(interrupts);
      return true;
    });
    const auto time_of_one = [&] {
      const uint32_t seen = interrupts.load();
      const runtime::TimeNs began = runtime->now();
      copier.copy(copier.low, copier.low + 4096, 6);
      while (interrupts.load() == seen) static_cast<void>(runtime->wait(interrupts, seen));
      return runtime->now() - began;
    };
    const runtime::DurationNs usual = time_of_one();
    copier.device->clock()->delay_interrupts(kMostNs);
    copier.device->clock()->stop_after(20);
    runtime::DurationNs least = kMostNs, most = 0;
    for (int i = 0; i < 20; ++i) {
      const runtime::DurationNs late = time_of_one() - usual;
      least = std::min(least, late);
      most = std::max(most, late);
    }
    EXPECT_GE(least, 0);
    EXPECT_LT(least, kMostNs / 2);
    EXPECT_GT(most, kMostNs / 2);
    EXPECT_LE(most, kMostNs);
    copier.device->clock()->go_on();
    copier.device->clock()->delay_interrupts(0);
    EXPECT_EQ(time_of_one(), usual);
    copier.function->interrupt_line().connect(nullptr);
  });
}

TEST(Plugin, HasWhatItDescribed) {
  in_both_modes([](runtime::Runtime& runtime) {
    Copier copier(runtime, ",delay=0");
    EXPECT_EQ(copier.function->identity().base_class, 0x12);
    const auto* const memory =
        static_cast<const char*>(copier.machine.map_io(copier.function->bars()[2].base, 4096));
    EXPECT_STREQ(memory, "copier");
    EXPECT_TRUE(copier.function->bars()[0].wide);
    const uint64_t port = copier.function->bars()[4].base.value;
    EXPECT_EQ(copier.machine.read_port(port, 4), 0x43505931U);
    copier.machine.write_port(port + 4, 4, 0x777);
    EXPECT_EQ(copier.read(4), 0x777U);
    // The driver resets it through its capability, the platform takes power away.
    const uint8_t one = 1;
    copier.function->config_write(0x44, std::as_bytes(std::span(&one, 1)));
    EXPECT_EQ(copier.read(4), 0U);
    copier.write(4, 0x777);
    copier.function->set_power(bus::FunctionPower::kStandby);
    EXPECT_EQ(copier.read(4), 0U);
  });
}

/// A removed device can neither access memory nor interrupt any more.
TEST(Plugin, IsCutOffByRemoval) {
  runtime::make_sim_runtime(1)->run_main([] {
    runtime::Runtime& runtime = runtime::Runtime::current();
    Copier copier(runtime);
    bool interrupted = false;
    copier.function->interrupt_line().connect([&] { return interrupted = true; });
    std::byte* const memory = copier.machine.system_pointer(bus::PhysicalAddress{copier.low}, 8192);
    memory[0] = std::byte{42};
    copier.copy(copier.low, copier.low + 4096, 13);
    bus::pull_out(copier.machine, *copier.device);
    runtime.sleep_for(runtime::kMillisecond);
    EXPECT_EQ(memory[4096], std::byte{0});
    EXPECT_FALSE(interrupted);
  });
}

TEST(Plugin, SaysWhatIsOnTheScreenAtFirst) {
  runtime::make_sim_runtime(1)->run_main([] {
    bus::Machine machine(1 << 20);
    auto device =
        registry().parse(path_of("display"))->make({runtime::Runtime::current(), machine});
    ASSERT_TRUE(device.has_value()) << device.error();
    const auto post = (*device)->functions()[0]->post_display();
    ASSERT_TRUE(post.has_value());
    EXPECT_EQ(*post, (bus::PostDisplay{.width = 640, .height = 480, .pitch_bytes = 2560}));
  });
}

TEST(Plugin, TypesSayWhatThereIsToKnow) {
  const auto copier = load(path_of("copier"));
  ASSERT_TRUE(copier.has_value());
  EXPECT_TRUE(copier->is_plugin);
  EXPECT_TRUE(copier->simulated);
  EXPECT_EQ(copier->name, path_of("copier"));
  EXPECT_EQ(copier->summary, "an engine that copies system memory");
  ASSERT_EQ(copier->options.size(), 1U);
  EXPECT_EQ(copier->options[0].name, "delay");
  EXPECT_FALSE(load(path_of("hostile_real_time"))->simulated);
}

// --- bad input

TEST(Plugin, RefusesWhatIsNone) {
  const auto no_plugin = [](const std::string& name, const std::string& why) {
    const std::string path = path_of(name);
    const auto loaded = load(path);
    ASSERT_FALSE(loaded.has_value()) << name;
    EXPECT_EQ(loaded.error(), path + ": not a device plug-in: " + why);
  };
  no_plugin("hostile_version", "it speaks version 7 of the interface, this tool version 1");
  no_plugin("hostile_size",
            "size_bytes is 8, DxgkitDevice has " + std::to_string(sizeof(DxgkitDevice)));
  no_plugin("hostile_null", "dxgkit_device returned NULL");
  no_plugin("hostile_symbol", "it exports no dxgkit_device");
  no_plugin("hostile_member", "its describe is NULL");
  no_plugin("hostile_functions", "it has 0 functions; 1 to 8 may be");
  EXPECT_EQ(load("/nowhere/x.so").error(), "/nowhere/x.so: there is no such device plug-in");
  EXPECT_EQ(load("/tmp").error(), "/tmp: not a device plug-in: it is not a file");
  EXPECT_THAT(load("/etc/passwd").error(), StartsWith("/etc/passwd: not a device plug-in: "));
}

TEST(Plugin, ChecksItsOptions) {
  const std::string path = path_of("copier");
  EXPECT_EQ(registry().parse(path + ",delay=soon").error(),
            "'" + path + ",delay=soon': delay: a number of nanoseconds up to 1000000000");
  EXPECT_EQ(registry().parse(path + ",speed=1").error(),
            "'" + path + ",speed=1': " + path + " has no option 'speed'; it has delay");
}

TEST(Plugin, RefusesWhatCannotBeMade) {
  const struct {
    const char* name;
    const char* why;
  } rows[] = {
      {"hostile_open", "open: it opens for nobody"},
      {"hostile_describe", "function 0: describe: it cannot be described"},
      {"hostile_bar",
       "function 0: BAR 2: its size of 5000 bytes is no power of two from 4096 to 68719476736"},
      {"hostile_upper", "function 0: BAR 3: it is the upper half of the BAR before it"},
      {"hostile_read", "function 0: BAR 0: it has registers, and the plug-in no read or no write"},
      {"hostile_post", "function 0: its post display does not lie in a memory BAR"},
      {"hostile_capabilities",
       "function 0: its capabilities take 260 bytes; there is room for 192"},
  };
  runtime::make_sim_runtime(1)->run_main([&] {
    bus::Machine machine(1 << 20);
    for (const auto& row : rows) {
      const std::string path = path_of(row.name);
      const auto made = registry().parse(path)->make({runtime::Runtime::current(), machine});
      ASSERT_FALSE(made.has_value()) << row.name;
      EXPECT_EQ(made.error(), path + ": " + row.why);
    }
  });
}

// --- crashes

/// Reads a register of the plug-in in a process of its own.
void read_a_register(const std::string& name) {
  report_crashes(2);
  runtime::make_sim_runtime(1)->run_main([&] {
    bus::Machine machine(1 << 20);
    auto device = registry().parse(path_of(name))->make({runtime::Runtime::current(), machine});
    static_cast<void>(bus::plug_in(machine, **device));
    const bus::Bar& bar = (*device)->functions()[0]->bars()[0];
    static_cast<void>(machine.read_register(machine.map_io(bar.base, 4096), 4));
  });
}

TEST(PluginDeathTest, ACrashNamesThePlugin) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const std::string blames = ": the device plug-in crashed in ";
  const auto line = [&](const std::string& name, const std::string& rest) {
    return "dxgkit: .*" + name + "_device.so" + blames + rest +
           "; the driver is not to blame, and nothing can be said of it\n";
  };
  EXPECT_EXIT(read_a_register("hostile_crash"), testing::ExitedWithCode(2),
              line("hostile_crash", "read \\(SIGSEGV\\)"));
  EXPECT_EXIT(read_a_register("hostile_crash_far"), testing::ExitedWithCode(2),
              line("hostile_crash_far", "read \\(SIGSEGV\\)"));
  EXPECT_EXIT(read_a_register("hostile_abort"), testing::ExitedWithCode(2),
              line("hostile_abort", "read \\(SIGABRT\\)"));
  EXPECT_EXIT(read_a_register("hostile_crash_open"), testing::ExitedWithCode(2),
              line("hostile_crash_open", "open \\(SIGSEGV\\)"));
}

/// A crash elsewhere stays what it was.
TEST(PluginDeathTest, OtherCrashesAreNotThePlugins) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        report_crashes(2);
        static_cast<void>(load(path_of("copier")));
        *static_cast<volatile int*>(nullptr) = 0;
      },
      testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace dxgkit::plugin
