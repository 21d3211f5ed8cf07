// The public library as its users see it: only public headers here.
#include "dxgkit/stack.h"

#include <d3dkmthk.h>
#include <gtest/gtest.h>
#include <ntstatus.h>
#include <unistd.h>

#include <stdexcept>

#include "dxgkit/version.h"

namespace dxgkit {
namespace {

constexpr int32_t kInvalid = static_cast<int32_t>(0xC000000D);
constexpr int32_t kNotSupported = static_cast<int32_t>(0xC00000BB);
constexpr int32_t kNotFound = static_cast<int32_t>(0xC0000034);
constexpr int32_t kBadImage = static_cast<int32_t>(0xC000007B);
constexpr NTSTATUS kRemoved = static_cast<NTSTATUS>(0xC00002B6);

StackOptions simulated(std::vector<std::string> devices = {"softgpu"}) {
  StackOptions options;
  options.mode = Mode::kSimulation;
  options.devices = std::move(devices);
  return options;
}

Driver& loaded(Stack& stack) {
  const Expected<std::string> path = bundled_driver("softgpu");
  EXPECT_TRUE(path.has_value());
  const Expected<Driver*> driver = stack.load(*path);
  EXPECT_TRUE(driver.has_value());
  return **driver;
}

/// Opens the adapter and makes a device on it, as the calling thread's process.
NTSTATUS make_device(AdapterId id, D3DKMT_HANDLE* device = nullptr) {
  D3DKMT_OPENADAPTERFROMLUID open{};
  open.AdapterLuid.LowPart = id.low;
  open.AdapterLuid.HighPart = id.high;
  if (const NTSTATUS status = D3DKMTOpenAdapterFromLuid(&open); status != 0) return status;
  D3DKMT_CREATEDEVICE create{};
  create.hAdapter = open.hAdapter;
  const NTSTATUS status = D3DKMTCreateDevice(&create);
  if (device != nullptr) *device = create.hDevice;
  return status;
}

TEST(PublicStack, ADriverRunsAndAClientUsesIt) {
  for (const Mode mode : {Mode::kSimulation, Mode::kRealThreads}) {
    StackOptions options = simulated();
    options.mode = mode;
    options.record = true;
    bool ran = false;
    const Expected<StackOutcome> outcome = Stack::run(options, [&](Stack& stack) {
      Driver& driver = loaded(stack);
      EXPECT_EQ(driver.name(), "softgpu.sys");
      EXPECT_EQ(driver.interface_version(), 0x4002U);
      EXPECT_FALSE(driver.display_only());
      const Expected<AdapterId> adapter = stack.start(driver);
      ASSERT_TRUE(adapter.has_value());
      const auto client = stack.make_client("client");
      {
        const ClientProcess::Attach attach(*client);
        EXPECT_EQ(make_device(*adapter), 0);
      }
      NTSTATUS other = -1;
      client->start("second thread", [&] { other = make_device(*adapter); })->join();
      EXPECT_EQ(other, 0);
      EXPECT_TRUE(stack.statistics(*adapter).has_value());
      ran = true;
    });
    ASSERT_TRUE(outcome.has_value());
    EXPECT_TRUE(ran);
    EXPECT_TRUE(outcome->findings.empty());
    EXPECT_GT(outcome->trace.events(), 0U);
    EXPECT_FALSE(outcome->trace.perfetto().empty());
  }
}

TEST(PublicStack, TheSameSeedGivesTheSameTrace) {
  const auto traced = [](uint64_t seed) {
    StackOptions options = simulated();
    options.seed = seed;
    options.record = true;
    const Expected<StackOutcome> outcome = Stack::run(options, [](Stack& stack) {
      const auto adapter = stack.start(loaded(stack));
      const auto client = stack.make_client("client");
      auto one = client->start("one", [&] { EXPECT_EQ(make_device(*adapter), 0); });
      auto two = client->start("two", [&] { EXPECT_EQ(make_device(*adapter), 0); });
      one->join();
      two->join();
    });
    return outcome->trace.text();
  };
  const std::string seven = traced(7);
  EXPECT_EQ(seven, traced(7));
  EXPECT_NE(seven, traced(8));
}

TEST(PublicStack, ClientsNameEachOtherAndDirectories) {
  const auto outcome = Stack::run(simulated(), [](Stack& stack) {
    ASSERT_TRUE(stack.start(loaded(stack)).has_value());
    const auto client = stack.make_client("client"), other = stack.make_client("other");
    void* const handle = client->open_process(*other, 0x400);
    ASSERT_NE(handle, nullptr);
    const auto ask = [&](void* process) {
      const ClientProcess::Attach attach(*client);
      D3DKMT_SCHEDULINGPRIORITYCLASS value{};
      return D3DKMTGetProcessSchedulingPriorityClass(process, &value);
    };
    EXPECT_EQ(ask(handle), 0);
    EXPECT_FALSE(other->close_process(handle));
    EXPECT_TRUE(client->close_process(handle));
    EXPECT_EQ(ask(handle), kInvalid);
    const int directory = client->open_object_directory(u"\\BaseNamedObjects", true);
    EXPECT_GE(directory, 3);
    close(directory);
    other->end();
    EXPECT_EQ(client->open_process(*other, 0x400), nullptr);
    EXPECT_EQ(other->open_process(*client, 0x400), nullptr);
    EXPECT_EQ(other->open_object_directory(u"\\BaseNamedObjects", true), -1);
  });
  ASSERT_TRUE(outcome.has_value());
}

TEST(PublicStack, TwoDevicesGiveTwoAdapters) {
  const auto outcome =
      Stack::run(simulated({"softgpu,vram=16M", "softgpu,vram=32M"}), [](Stack& stack) {
        ASSERT_EQ(stack.slots(), 2U);
        Driver& driver = loaded(stack);
        const auto first = stack.start(driver, 0), second = stack.start(driver, 1);
        ASSERT_TRUE(first.has_value() && second.has_value());
        EXPECT_NE(*first, *second);
        const auto client = stack.make_client("client");
        const ClientProcess::Attach attach(*client);
        EXPECT_EQ(make_device(*first), 0);
        EXPECT_EQ(make_device(*second), 0);
        EXPECT_TRUE(stack.stop(*first).has_value());
        EXPECT_EQ(make_device(*second), 0);
      });
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->findings.empty());
}

/// A display of 64 x 16 pixels in BAR 0, and registers in BAR 2 that nobody but a test touches.
class Screen final : public Device {
 public:
  static constexpr const char* kSummary = "a small screen";
  static constexpr DxgkitDeviceOption kOptions[] = {{"name", "TEXT", "what it is called (none)"}};
  static Made make(const DeviceHost& host, DeviceSettings settings) {
    if (settings.size() == 1 && settings[0].value == std::string("none"))
      return std::unexpected("it has no name");
    uint32_t word = 0;  // nothing is there: low memory begins behind the first page
    EXPECT_FALSE(host.dma_read(UINT64_MAX - 3, std::as_writable_bytes(std::span(&word, 1))));
    return std::make_unique<Screen>();
  }
  std::optional<std::string> describe(uint32_t function, DxgkitDeviceFunction& out) override {
    EXPECT_EQ(function, 0U);
    out.vendor_id = 0x1D4B;
    out.device_id = 0x5C4E;
    out.base_class = 0x03;
    out.bars[0].kind = DXGKIT_DEVICE_BAR_MEMORY;
    out.bars[0].size_bytes = 4096;
    out.post_display = {64, 16, 256, 0, 0};
    return std::nullopt;
  }
  void memory(uint32_t, uint32_t, std::span<std::byte> view) override { seen_bytes = view.size(); }
  void removed() override { ++removals; }
  static inline size_t seen_bytes = 0;
  static inline int removals = 0;
};

TEST(PublicStack, ADeviceModelOfTheProgramIsADevice) {
  for (const Mode mode : {Mode::kSimulation, Mode::kRealThreads}) {
    Screen::seen_bytes = 0;
    Screen::removals = 0;
    StackOptions options = simulated({"small"});
    options.mode = mode;
    options.models = {device_model<Screen>("small")};
    const auto outcome = Stack::run(options, [](Stack& stack) {
      ASSERT_EQ(stack.slots(), 1U);
      const Expected<Driver*> driver = stack.load(*bundled_driver("framebuffer"));
      ASSERT_TRUE(driver.has_value());
      EXPECT_TRUE(stack.start(**driver).has_value());
      EXPECT_TRUE(stack.remove(0).has_value());
    });
    ASSERT_TRUE(outcome.has_value());
    ASSERT_EQ(outcome->findings.size(), 1U);  // the bundled driver cannot lose its device
    EXPECT_EQ(outcome->findings.front().rule, "LIFE-21");
    EXPECT_EQ(Screen::seen_bytes, 4096U);
    EXPECT_EQ(Screen::removals, 1);
  }
}

TEST(PublicStack, ADeviceModelIsHeldAgainstItsInterface) {
  const auto refused = [](std::string device, std::vector<DeviceModel> models) {
    StackOptions options = simulated({std::move(device)});
    options.models = std::move(models);
    bool ran = false;
    const auto outcome = Stack::run(options, [&](Stack&) { ran = true; });
    EXPECT_FALSE(ran);
    if (outcome.has_value()) return std::string("it is accepted");
    EXPECT_EQ(outcome.error().status, kInvalid);
    return outcome.error().message;
  };
  const DeviceModel small = device_model<Screen>("small");
  EXPECT_EQ(refused("softgpu", {device_model<Screen>("softgpu")}),
            "there is a device model softgpu already");
  EXPECT_EQ(refused("small", {small, small}), "there is a device model small already");
  for (const char* name : {"", "a,b", "a/b", "a.so"})
    EXPECT_EQ(refused("softgpu", {device_model<Screen>(name)}),
              "\"" + std::string(name) + "\" is no name for a device model");
  EXPECT_EQ(refused("small", {{"small", nullptr}}),
            "small: not a device model: its functions are NULL");
  static DxgkitDevice newer = *small.functions;
  newer.version = DXGKIT_DEVICE_VERSION + 1;
  EXPECT_EQ(refused("small", {{"small", &newer}}),
            "small: not a device model: it speaks version 2 of the interface, this tool version 1");
  EXPECT_EQ(refused("small,name=none", {small}), "small: open: it has no name");
  EXPECT_NE(refused("small,colour=red", {small}).find("colour"), std::string::npos);
}

TEST(PublicStack, SleepWakeAndRemoval) {
  const auto outcome = Stack::run(simulated(), [](Stack& stack) {
    const auto adapter = stack.start(loaded(stack));
    const auto client = stack.make_client("client");
    const ClientProcess::Attach attach(*client);
    D3DKMT_HANDLE device = 0;
    ASSERT_EQ(make_device(*adapter, &device), 0);
    EXPECT_TRUE(stack.set_power(*adapter, PowerState::kD3).has_value());
    EXPECT_TRUE(stack.set_power(*adapter, PowerState::kD0).has_value());
    EXPECT_TRUE(stack.remove(0).has_value());
    D3DKMT_WAITFORIDLE idle{};
    idle.hDevice = device;
    EXPECT_EQ(D3DKMTWaitForIdle(&idle), kRemoved);
    EXPECT_EQ(stack.statistics(*adapter).error().status, kInvalid);
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST(PublicStack, WrongOptionsAreRefusedAndNothingRuns) {
  struct Case {
    const char* what;
    StackOptions options;
    const char* message;
  };
  const auto devices = [](std::vector<std::string> all) { return simulated(std::move(all)); };
  StackOptions no_memory = simulated(), bad_registry = simulated();
  no_memory.memory_bytes = 0;
  bad_registry.registry = "not toml [";
  for (const Case& one : {Case{"no device", devices({}), "a machine needs a device"},
                          Case{"no memory", no_memory, "a machine needs memory"},
                          Case{"unknown device", devices({"voodoo"}), "voodoo"},
                          Case{"unknown option", devices({"softgpu,glide=on"}), "glide"},
                          Case{"bad registry", bad_registry, "registry: "}}) {
    SCOPED_TRACE(one.what);
    bool ran = false;
    const auto outcome = Stack::run(one.options, [&](Stack&) { ran = true; });
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().status, kInvalid);
    EXPECT_NE(outcome.error().message.find(one.message), std::string::npos)
        << outcome.error().message;
    EXPECT_FALSE(ran);
  }
}

TEST(PublicStack, WrongCallsAreRefused) {
  const auto outcome = Stack::run(simulated(), [](Stack& stack) {
    EXPECT_EQ(stack.load("/dev/null").error().status, kBadImage);
    Driver& driver = loaded(stack);
    EXPECT_EQ(stack.load(*bundled_driver("softgpu")).error().status, kNotSupported);
    EXPECT_EQ(stack.start(driver, 1).error().status, kInvalid);
    AdapterOptions no_time;
    no_time.tdr_delay_ns = 0;
    EXPECT_EQ(stack.start(driver, 0, no_time).error().status, kInvalid);
    const auto adapter = stack.start(driver);
    ASSERT_TRUE(adapter.has_value());
    EXPECT_EQ(stack.start(driver).error().status, kInvalid);
    EXPECT_EQ(stack.stop({77, 0}).error().status, kInvalid);
    EXPECT_EQ(stack.set_power({77, 0}, PowerState::kD3).error().status, kInvalid);
    EXPECT_EQ(stack.remove(1).error().status, kInvalid);
    EXPECT_TRUE(stack.statistics(*adapter).has_value());
    // One stack at a time on a thread.
    EXPECT_EQ(Stack::run({}, [](Stack&) {}).error().status, kInvalid);
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(bundled_driver("../softgpu").error().status, kNotFound);
  EXPECT_EQ(bundled_driver("").error().status, kNotFound);
}

TEST(PublicStack, AnExceptionComesOutAfterEverythingIsDown) {
  EXPECT_THROW((void)Stack::run(simulated(),
                                [](Stack& stack) {
                                  (void)stack.start(loaded(stack));
                                  throw std::runtime_error("mine");
                                }),
               std::runtime_error);
  EXPECT_TRUE(Stack::run(simulated(), [](Stack&) {}).has_value());
}

// A driver that breaks a rule is told on, live and afterwards, alike.
TEST(PublicStack, FindingsAreToldAsTheyComeAndAtTheEnd) {
  StackOptions options = simulated({"none"});
  std::vector<std::string> live;
  options.on_finding = [&](const Finding& finding) { live.push_back(finding.rule); };
  const auto outcome = Stack::run(options, [](Stack& stack) {
    EXPECT_FALSE(stack.start(loaded(stack)).has_value());  // softgpu's driver finds no softgpu
  });
  ASSERT_TRUE(outcome.has_value());
  ASSERT_FALSE(outcome->findings.empty());
  std::vector<std::string> after;
  for (const Finding& finding : outcome->findings) after.push_back(finding.rule);
  EXPECT_EQ(live, after);
  EXPECT_NE(outcome->findings.front().text.find(after.front()), std::string::npos);
}

TEST(PublicVersion, SaysWhatTheHeadersSay) {
  const Version own = version();
  EXPECT_EQ(own.major, DXGKIT_VERSION_MAJOR);
  EXPECT_EQ(own.minor, DXGKIT_VERSION_MINOR);
  EXPECT_EQ(own.patch, DXGKIT_VERSION_PATCH);
  EXPECT_STRNE(own.commit, "");
  EXPECT_EQ(own.oldest_interface, 0x1052U);
  EXPECT_EQ(own.newest_interface, 0x11007U);
}

}  // namespace
}  // namespace dxgkit
