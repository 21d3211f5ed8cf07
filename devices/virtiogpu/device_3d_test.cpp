// The device with 3D as a driver finds it on the bus, with real threads and in simulations.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "bus/machine.h"
#include "devices/virtio/test_ring.h"
#include "devices/virtio/virtio_hw.h"
#include "devices/virtiogpu/device.h"
#include "devices/virtiogpu/test_commands.h"
#include "runtime/sync.h"

namespace dxgkit::virtiogpu {
namespace {

constexpr uint16_t kQueueSize = 8;
constexpr uint32_t kWidth = 32, kHeight = 32;

std::expected<std::unique_ptr<bus::Device>, std::string> make(
    bus::Machine& machine, std::initializer_list<std::pair<const char*, const char*>> options) {
  bus::DeviceOptions given;
  for (const auto& [name, value] : options) given.add(name, value);
  const auto maker = device_type().configure(given);
  if (!maker.has_value()) return std::unexpected(maker.error());
  return (*maker)({runtime::Runtime::current(), machine});
}

/// A driver with the control queue only.
struct Driver {
  explicit Driver(std::initializer_list<std::pair<const char*, const char*>> options) {
    auto made = make(machine, options);
    EXPECT_TRUE(made.has_value()) << made.error();
    device = std::move(*made);
    EXPECT_EQ(bus::plug_in(machine, *device), Status::kSuccess);
    const bus::Bar& bar = function().bars()[0];
    registers = static_cast<std::byte*>(machine.map_io(bar.base, bar.size));
    rings = machine.allocate_contiguous(3)->value * kPageBytes;
    for (uint8_t at = config<uint8_t>(0x34); at != 0; at = config<uint8_t>(at + 1U)) {
      if (config<uint8_t>(at) != VIRTIO_PCI_CAP_ID) continue;
      const auto type = config<uint8_t>(at + uint32_t{VIRTIO_PCI_CAP_TYPE});
      if (type < std::size(place))
        place[type] = config<uint32_t>(at + uint32_t{VIRTIO_PCI_CAP_OFFSET});
    }
    function().interrupt_line().connect([this] {
      if (machine.read_register(registers + place[VIRTIO_PCI_CAP_ISR], 1) == 0) return false;
      heard.set();
      return true;
    });
  }
  ~Driver() {
    function().interrupt_line().connect({});
    bus::unplug(machine, *device);
  }

  bus::PciFunction& function() { return *device->functions()[0]; }
  template <typename T>
  T config(uint32_t offset) {
    T value{};
    function().config_read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  uint64_t common(uint32_t offset, uint32_t bytes) {
    return machine.read_register(registers + place[VIRTIO_PCI_CAP_COMMON] + offset, bytes);
  }
  void set_common(uint32_t offset, uint32_t bytes, uint64_t value) {
    machine.write_register(registers + place[VIRTIO_PCI_CAP_COMMON] + offset, bytes, value);
  }
  void reset() { set_common(VIRTIO_COMMON_STATUS, 1, 0); }
  void start() {
    reset();
    set_common(VIRTIO_COMMON_STATUS, 1, VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER);
    set_common(VIRTIO_COMMON_DRIVER_FEATURE_SELECT, 4, 0);
    set_common(VIRTIO_COMMON_DRIVER_FEATURE, 4, 1U << VGPU_F_VIRGL);
    set_common(VIRTIO_COMMON_DRIVER_FEATURE_SELECT, 4, 1);
    set_common(VIRTIO_COMMON_DRIVER_FEATURE, 4, 1);
    set_common(VIRTIO_COMMON_STATUS, 1, VIRTIO_STATUS_FEATURES_OK);
    for (const uint64_t page : {0U, 1U, 2U}) {
      const std::vector<std::byte> zeros(kPageBytes);
      pages.write(rings + page * kPageBytes, zeros);
    }
    ring.emplace(pages, rings, kQueueSize);
    const virtio::QueueLayout& layout = ring->layout();
    set_common(VIRTIO_COMMON_QUEUE_SELECT, 2, VGPU_QUEUE_CONTROL);
    set_common(VIRTIO_COMMON_QUEUE_SIZE, 2, layout.size);
    set_common(VIRTIO_COMMON_QUEUE_DESC, 8, layout.descriptors);
    set_common(VIRTIO_COMMON_QUEUE_DRIVER, 8, layout.driver);
    set_common(VIRTIO_COMMON_QUEUE_DEVICE, 8, layout.device);
    set_common(VIRTIO_COMMON_QUEUE_ENABLE, 2, 1);
    set_common(VIRTIO_COMMON_STATUS, 1, VIRTIO_STATUS_DRIVER_OK);
    done = 0;
  }
  bool needs_reset() { return (common(VIRTIO_COMMON_STATUS, 1) & VIRTIO_STATUS_NEEDS_RESET) != 0; }
  void offer(std::span<const std::byte> bytes) {
    pages.write(pages.request(), bytes);
    pages.store(pages.answer(), uint32_t{0});
    ring->offer_pair(0, {pages.request(), static_cast<uint32_t>(bytes.size())},
                     {pages.answer(), 0x1000});
    machine.write_register(registers + place[VIRTIO_PCI_CAP_NOTIFY], 2, VGPU_QUEUE_CONTROL);
    ++done;
  }
  void offer_a_context() {
    VgpuCreateContext command = {};
    command.header.type = VGPU_CTX_CREATE;
    command.header.context_id = 77;
    offer(std::as_bytes(std::span(&command, 1)));
  }
  /// The type of the answer; 0: the device wants a reset.
  uint32_t send_bytes(std::span<const std::byte> bytes) {
    offer(bytes);
    while (ring->used_index() != done) {
      if (needs_reset()) return 0;
      heard.wait();
      heard.reset();
    }
    uint32_t type = 0;
    pages.load(pages.answer(), &type);
    return type;
  }
  void set_up() {
    start();
    ASSERT_EQ(commands.create_context(1), uint32_t{VGPU_OK_NODATA});
    ASSERT_EQ(commands.create(TestCommands::texture(5, kWidth, kHeight)), uint32_t{VGPU_OK_NODATA});
    ASSERT_EQ(commands.attach(1, 5), uint32_t{VGPU_OK_NODATA});
    ASSERT_EQ(commands.back(5, {{pages.data(), kWidth * kHeight * 4, 0}}),
              uint32_t{VGPU_OK_NODATA});
  }
  void draw(float red, float green, float blue, uint32_t wanted) {
    Words words;
    words.draw_to(5, VGPU_B8G8R8X8, 10).clear(red, green, blue, 1);
    ASSERT_EQ(commands.submit(1, words.words()), uint32_t{VGPU_OK_NODATA});
    ASSERT_EQ(commands.from_host(1, 5, {0, 0, 0, kWidth, kHeight, 1}), uint32_t{VGPU_OK_NODATA});
    for (uint32_t at = 0; at < kWidth * kHeight; ++at)
      ASSERT_EQ(commands.word(at) & 0xFFFFFF, wanted) << at;
  }

  bus::Machine machine{uint64_t{16} << 20};
  TestPages pages{machine};
  std::unique_ptr<bus::Device> device;
  std::byte* registers = nullptr;
  uint64_t rings = 0;
  uint32_t place[8] = {};  // of structures, by type
  std::optional<virtio::TestRing> ring;
  TestCommands commands{[this](auto bytes) { return send_bytes(bytes); }, pages};
  uint32_t done = 0;
  runtime::Event heard;
};

/// The renderers.
std::set<pid_t> children_of_this_process() {
  std::set<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string pid, program, state;
    pid_t parent = 0;
    if (file >> pid >> program >> state >> parent && parent == getpid())
      children.insert(std::stoi(pid));
  }
  return children;
}

/// The same commands with real threads and in simulations, in which time passes as the model says.
TEST(Device3D, DrawsInBothKindsOfTime) {
  const auto body = [] {
    Driver driver({{"3d", "on"}});
    driver.set_up();
    driver.draw(1, 0, 0, 0xFF0000);
    driver.draw(0, 1, 0, 0x00FF00);
    driver.reset();
    driver.set_up();
    driver.draw(0, 0, 1, 0x0000FF);
  };
  runtime::make_os_runtime()->run_main(body);
  std::vector<runtime::TimeNs> ends;
  for (const uint64_t seed : {1U, 1U, 2U}) {
    const auto sim = runtime::make_sim_runtime(seed);
    sim->run_main([&] {
      body();
      ends.push_back(sim->now());
    });
    EXPECT_GT(ends.back(), 3 * 200 * runtime::kMicrosecond);  // three command buffers
  }
  EXPECT_EQ(ends[0], ends[1]);
}

/// With a renderer for each context: the one whose renderer dies gets errors. The other draws on.
TEST(Device3D, AContextIsLostAlone) {
  runtime::make_os_runtime()->run_main([] {
    Driver driver({{"3d", "on"}, {"renderers", "each"}, {"timeout", "60000"}});
    const std::set<pid_t> common = children_of_this_process();
    EXPECT_EQ(common.size(), 1U);
    driver.set_up();
    driver.draw(1, 0, 0, 0xFF0000);
    const std::set<pid_t> before = children_of_this_process();
    EXPECT_EQ(before.size(), 2U);
    ASSERT_EQ(driver.commands.create_context(2), uint32_t{VGPU_OK_NODATA});
    for (const pid_t child : children_of_this_process()) {
      if (before.contains(child)) continue;
      EXPECT_EQ(kill(child, SIGKILL), 0);
    }
    EXPECT_EQ(driver.commands.submit(2, {0}), uint32_t{VGPU_ERR_UNSPEC});
    EXPECT_FALSE(driver.needs_reset());
    driver.draw(0, 1, 0, 0x00FF00);
    EXPECT_EQ(driver.commands.destroy_context(2), uint32_t{VGPU_OK_NODATA});
    ASSERT_EQ(driver.commands.create_context(2), uint32_t{VGPU_OK_NODATA});
    EXPECT_EQ(driver.commands.submit(2, {0}), uint32_t{VGPU_OK_NODATA});
    driver.reset();
    EXPECT_EQ(children_of_this_process(), common);
    driver.set_up();
    driver.draw(0, 0, 1, 0x0000FF);
  });
}

/// A renderer that hangs is given up after the timeout, which no other context notices.
TEST(Device3D, ASilentContextIsLostAlone) {
  runtime::make_os_runtime()->run_main([] {
    Driver driver({{"3d", "on"}, {"renderers", "each"}, {"timeout", "2000"}});
    driver.set_up();
    const std::set<pid_t> before = children_of_this_process();
    ASSERT_EQ(driver.commands.create_context(2), uint32_t{VGPU_OK_NODATA});
    for (const pid_t child : children_of_this_process()) {
      if (before.contains(child)) continue;
      EXPECT_EQ(kill(child, SIGSTOP), 0);
    }
    EXPECT_EQ(driver.commands.submit(2, {0}), uint32_t{VGPU_ERR_UNSPEC});
    EXPECT_EQ(children_of_this_process(), before);
    driver.draw(0, 1, 1, 0x00FFFF);
  });
}

/// Without it the device is one of 2D only.
TEST(Device3D, IsOfferedWhereItIsAskedFor) {
  runtime::make_sim_runtime(1)->run_main([] {
    for (const bool is_3d : {false, true}) {
      Driver driver({{"3d", is_3d ? "on" : "off"}});
      driver.set_common(VIRTIO_COMMON_DEVICE_FEATURE_SELECT, 4, 0);
      const uint64_t offered = driver.common(VIRTIO_COMMON_DEVICE_FEATURE, 4);
      EXPECT_EQ((offered & 1U << VGPU_F_VIRGL) != 0, is_3d);
      EXPECT_EQ((offered & 1U << VGPU_F_CONTEXT_INIT) != 0, is_3d);
    }
  });
}

struct NoMemory final : bus::OutsideMemory {
  std::byte* pointer(bus::PhysicalAddress, uint64_t) override { return nullptr; }
  bool read(bus::PhysicalAddress, std::span<std::byte>) override { return false; }
  bool write(bus::PhysicalAddress, std::span<const std::byte>) override { return false; }
};

TEST(Device3D, OptionsAreChecked) {
  runtime::make_sim_runtime(1)->run_main([] {
    bus::Machine machine(uint64_t{16} << 20);
    const auto error = [&](std::initializer_list<std::pair<const char*, const char*>> options) {
      const auto made = make(machine, options);
      return made.has_value() ? std::string() : made.error();
    };
    EXPECT_EQ(error({{"3d", "maybe"}}).substr(0, 4), "3d: ");
    EXPECT_EQ(error({{"3d", "on"}, {"renderers", "two"}}), "renderers: 'two' is not one or each");
    EXPECT_NE(error({{"3d", "on"}, {"timeout", "0"}}).find("timeout"), std::string::npos);
    EXPECT_EQ(error({{"3d", "on"}, {"renderer", "/nowhere/renderer"}}),
              "3d: /nowhere/renderer: the renderer does not start: No such file or directory");
    EXPECT_EQ(error({{"3d", "off"}, {"renderer", "/nowhere/renderer"}}), "");
    NoMemory elsewhere;
    bus::Machine other(elsewhere);
    const auto made = make(other, {{"3d", "on"}});
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error(), "3d: the renderer cannot reach memory that belongs to another process");
  });
}

/// A renderer that hangs: the device wants a reset, as hardware that has lost its state, and works
/// after it. Its removal does not wait for the renderer either.
TEST(Device3D, ALostRendererNeedsAReset) {
  runtime::make_os_runtime()->run_main([] {
    Driver driver({{"3d", "on"}, {"timeout", "60000"}});
    driver.set_up();
    driver.draw(1, 1, 0, 0xFFFF00);
    const auto signal_renderer = [](int signal) {
      const std::set<pid_t> children = children_of_this_process();
      ASSERT_EQ(children.size(), 1U);
      ASSERT_EQ(kill(*children.begin(), signal), 0);
    };
    signal_renderer(SIGKILL);
    EXPECT_EQ(driver.commands.create_context(2), 0U);
    EXPECT_TRUE(driver.needs_reset());
    driver.set_up();
    EXPECT_FALSE(driver.needs_reset());
    driver.draw(0, 1, 1, 0x00FFFF);
    // A hung one: the reset ends the wait.
    signal_renderer(SIGSTOP);
    driver.offer_a_context();
    driver.reset();
    driver.set_up();
    driver.draw(1, 0, 1, 0xFF00FF);
    signal_renderer(SIGSTOP);
    driver.offer_a_context();
    bus::pull_out(driver.machine, *driver.device);
    EXPECT_TRUE(children_of_this_process().empty());
  });
}

}  // namespace
}  // namespace dxgkit::virtiogpu
