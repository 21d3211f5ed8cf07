// A model behind the protocol: what a server answers, to clients that mean well and others.
#include "devices/vfiouser/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "devices/plugin/plugin.h"
#include "devices/softgpu/device.h"
#include "devices/softgpu/softgpu_hw.h"
#include "devices/vfiouser/test_rig.h"

namespace dxgkit::vfiouser {
namespace {

using ::testing::HasSubstr;

bus::DeviceChoice choice(const std::string& text) {
  bus::DeviceRegistry registry;
  registry.add(softgpu::device_type());
  registry.set_loader(plugin::load);
  auto parsed = registry.parse(text);
  EXPECT_TRUE(parsed.has_value()) << parsed.error();
  return std::move(*parsed);
}

std::string plugin_path(const std::string& name) {
  return std::string(DXGKIT_DEVICE_PLUGINS) + "/" + name + "_device.so";
}

/// A server without a connection.
struct Rig {
  explicit Rig(runtime::Runtime& os, const std::string& model = "softgpu,vram=1M") {
    auto made = DeviceServer::create(os, choice(model));
    EXPECT_TRUE(made.has_value()) << made.error();
    server = std::move(*made);
    Version version;
    version.capabilities.twin_socket = true;
    EXPECT_EQ(ask(Command::kVersion, encode(version)).error, 0);
  }
  Reply ask(Command command, Bytes payload, std::vector<Descriptor> descriptors = {}) {
    Message message{.header = {.command = static_cast<uint16_t>(command)},
                    .payload = std::move(payload),
                    .descriptors = std::move(descriptors)};
    return server->handle(message);
  }
  Reply read(uint32_t region, uint64_t offset, uint32_t count) {
    return ask(Command::kRegionRead, encode(RegionAccess{offset, region, count}));
  }
  Reply write(uint32_t region, uint64_t offset, ByteView data) {
    Bytes payload = encode(RegionAccess{offset, region, static_cast<uint32_t>(data.size())});
    payload.insert(payload.end(), data.begin(), data.end());
    return ask(Command::kRegionWrite, std::move(payload));
  }
  template <typename T>
  T value(uint32_t region, uint64_t offset) {
    const Reply reply = read(region, offset, sizeof(T));
    EXPECT_EQ(reply.error, 0);
    T out{};
    if (reply.payload.size() == RegionAccess::kBytes + sizeof(T))
      std::memcpy(&out, reply.payload.data() + RegionAccess::kBytes, sizeof(T));
    return out;
  }
  std::unique_ptr<DeviceServer> server;
};

void in_os(const std::function<void(runtime::Runtime&)>& body) {
  const auto os = runtime::make_os_runtime(1);
  os->run_main([&] { body(*os); });
}

Descriptor copy_of(const Descriptor& one) { return one.duplicate(); }
std::vector<Descriptor> only(Descriptor one) {
  std::vector<Descriptor> all;
  all.push_back(std::move(one));
  return all;
}

TEST(VfioUserServer, WantsTheVersionFirstAndOnce) {
  in_os([](runtime::Runtime& os) {
    auto server = DeviceServer::create(os, choice("softgpu,vram=1M"));
    ASSERT_TRUE(server.has_value());
    Message early{.header = {.command = 13}, .payload = {}, .descriptors = {}};
    EXPECT_THAT(*(*server)->handle(early).closes, HasSubstr("DEVICE_RESET before it agreed"));
    Message other{
        .header = {.command = 1}, .payload = encode(Version{.major = 1}), .descriptors = {}};
    EXPECT_THAT(*(*server)->handle(other).closes, HasSubstr("version 1"));
    Rig rig(os);
    EXPECT_TRUE(rig.server->take_command_socket());
    EXPECT_EQ(*rig.ask(Command::kVersion, encode(Version{})).closes,
              "it asked for the version twice");
  });
}

TEST(VfioUserServer, DescribesItsDevice) {
  in_os([](runtime::Runtime& os) {
    Rig rig(os);
    const auto info = decode_device_info(
        rig.ask(Command::kDeviceGetInfo, encode_device_query({.room = 16})).payload);
    EXPECT_EQ(*info, (DeviceInfo{.flags = 3, .regions = 9, .irqs = 5}));
    const auto region = [&](uint32_t index) {
      return rig.ask(Command::kDeviceGetRegionInfo,
                     encode_region_query({.room = 32, .index = index}));
    };
    const Reply registers = region(SGPU_BAR_REGISTERS), vram = region(SGPU_BAR_VRAM);
    EXPECT_EQ(decode_region_info(registers.payload)->size, uint64_t{SGPU_BAR0_BYTES});
    EXPECT_TRUE(registers.descriptors.empty());
    EXPECT_EQ(decode_region_info(vram.payload)->size, 1U << 20);
    EXPECT_EQ(decode_region_info(vram.payload)->flags, 7U);
    EXPECT_EQ(vram.descriptors.size(), 1U);
    EXPECT_EQ(decode_region_info(region(6).payload)->size, 0U);
    EXPECT_EQ(decode_region_info(region(kRegionConfig).payload)->size, 4096U);
    EXPECT_EQ(region(9).error, EINVAL);
    const auto irq = [&](uint32_t index) {
      return rig.ask(Command::kDeviceGetIrqInfo, encode_irq_query({.room = 16, .index = index}));
    };
    EXPECT_EQ(decode_irq_info(irq(kIrqIntx).payload)->count, 1U);
    EXPECT_EQ(decode_irq_info(irq(kIrqMsix).payload)->count, 0U);
    EXPECT_EQ(irq(5).error, EINVAL);
  });
}

TEST(VfioUserServer, ReadsAndWritesRegions) {
  in_os([](runtime::Runtime& os) {
    Rig rig(os);
    EXPECT_EQ(rig.value<uint32_t>(0, SGPU_REG_ID), SGPU_ID_VALUE);
    EXPECT_EQ(rig.value<uint64_t>(0, SGPU_REG_VRAM_SIZE), 1U << 20);
    EXPECT_EQ(rig.value<uint16_t>(kRegionConfig, 0), SGPU_PCI_VENDOR_ID);
    const uint32_t enable = 1;
    EXPECT_EQ(rig.write(0, SGPU_REG_INT_ENABLE, std::as_bytes(std::span(&enable, 1))).error, 0);
    EXPECT_EQ(rig.value<uint32_t>(0, SGPU_REG_INT_ENABLE), 1U);
    EXPECT_EQ(rig.ask(Command::kDeviceReset, {}).error, 0);
    EXPECT_EQ(rig.value<uint32_t>(0, SGPU_REG_INT_ENABLE), 0U);
    // Video memory by message, too.
    EXPECT_EQ(rig.write(2, 0xFFFFE, Bytes(2, std::byte{7})).error, 0);
    EXPECT_EQ(rig.value<uint16_t>(2, 0xFFFFE), 0x0707);
  });
}

TEST(VfioUserServer, RefusesWhatIsOutside) {
  in_os([](runtime::Runtime& os) {
    Rig rig(os);
    const Bytes four(4);
    EXPECT_EQ(rig.read(0, SGPU_BAR0_BYTES - 2, 4).error, EINVAL);
    EXPECT_EQ(rig.read(0, UINT64_MAX, 4).error, EINVAL);
    EXPECT_EQ(rig.read(0, 0, 3).error, EINVAL) << "no size of a register";
    EXPECT_EQ(rig.read(0, 0, 0).error, EINVAL);
    EXPECT_EQ(rig.read(1, 0, 4).error, EINVAL);
    EXPECT_EQ(rig.read(6, 0, 4).error, EINVAL);
    EXPECT_EQ(rig.read(8, 0, 4).error, EINVAL);
    EXPECT_EQ(rig.read(UINT32_MAX, 0, 4).error, EINVAL);
    EXPECT_EQ(rig.read(2, (1 << 20) - 3, 4).error, EINVAL);
    EXPECT_EQ(rig.read(kRegionConfig, 4093, 4).error, EINVAL);
    EXPECT_EQ(rig.write(0, SGPU_BAR0_BYTES, four).error, EINVAL);
    EXPECT_EQ(rig.write(0, 0, Bytes(5)).error, EINVAL);
    EXPECT_EQ(rig.write(2, 1 << 20, four).error, EINVAL);
    EXPECT_EQ(rig.write(kRegionConfig, UINT64_MAX - 1, four).error, EINVAL);
    EXPECT_EQ(rig.write(9, 0, four).error, EINVAL);
    EXPECT_EQ(rig.ask(Command::kRegionRead, Bytes(15)).error, EINVAL);
    EXPECT_EQ(rig.ask(Command::kRegionWrite, {}).error, EINVAL);
    for (const int command : {6, 11, 12, 14, 15, 16, 17, 18, 0, 999}) {
      const Reply reply = rig.ask(static_cast<Command>(command), Bytes(64));
      EXPECT_EQ(reply.error, ENOTSUP) << command;
      EXPECT_FALSE(reply.closes.has_value()) << command;
    }
  });
}

uint64_t count_of(const Descriptor& eventfd) {
  uint64_t count = 0;
  return read(eventfd.get(), &count, sizeof(count)) == sizeof(count) ? count : 0;
}

TEST(VfioUserServer, InterruptsGoToTheEventfd) {
  in_os([](runtime::Runtime& os) {
    Rig rig(os);
    const Descriptor eventfd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const auto set = [&](uint32_t flags, uint32_t count, std::vector<Descriptor> fds = {},
                         std::vector<uint8_t> chosen = {}) {
      return rig
          .ask(Command::kDeviceSetIrqs,
               encode(SetIrqs{.flags = flags,
                              .index = 0,
                              .start = 0,
                              .count = count,
                              .chosen = std::move(chosen)}),
               std::move(fds))
          .error;
    };
    constexpr uint32_t kTell = SetIrqs::kNone | SetIrqs::kTrigger;
    EXPECT_EQ(set(kTell, 1), 0);  // there is nobody to tell
    EXPECT_EQ(set(SetIrqs::kEventfd | SetIrqs::kTrigger, 1, only(copy_of(eventfd))), 0);
    EXPECT_EQ(count_of(eventfd), 0U);
    EXPECT_EQ(set(kTell, 1), 0);
    EXPECT_EQ(count_of(eventfd), 1U);
    EXPECT_EQ(set(SetIrqs::kBool | SetIrqs::kTrigger, 1, {}, {0}), 0);
    EXPECT_EQ(count_of(eventfd), 0U);
    // While masked one interrupt waits.
    EXPECT_EQ(set(SetIrqs::kNone | SetIrqs::kMask, 1), 0);
    EXPECT_EQ(set(kTell, 1), 0);
    EXPECT_EQ(set(kTell, 1), 0);
    EXPECT_EQ(count_of(eventfd), 0U);
    EXPECT_EQ(set(SetIrqs::kNone | SetIrqs::kUnmask, 1), 0);
    EXPECT_EQ(count_of(eventfd), 1U);
    EXPECT_EQ(set(SetIrqs::kNone | SetIrqs::kUnmask, 1), 0);
    EXPECT_EQ(count_of(eventfd), 0U);
    // Refused: nothing changes.
    EXPECT_EQ(set(SetIrqs::kEventfd | SetIrqs::kTrigger, 2, only(copy_of(eventfd))), EINVAL);
    EXPECT_EQ(set(SetIrqs::kEventfd | SetIrqs::kMask, 1, only(copy_of(eventfd))), ENOTSUP);
    EXPECT_EQ(set(kTell, 1, only(copy_of(eventfd))), EINVAL);
    EXPECT_EQ(set(SetIrqs::kEventfd | SetIrqs::kTrigger, 1,
                  only(Descriptor(create_sealed_memory("test", 4096)))),
              EINVAL);
    EXPECT_EQ(set(kTell, 1), 0);
    EXPECT_EQ(count_of(eventfd), 1U);
    EXPECT_EQ(
        rig.ask(Command::kDeviceSetIrqs, encode(SetIrqs{.flags = SetIrqs::kNone | SetIrqs::kTrigger,
                                                        .index = kIrqMsix,
                                                        .start = 0,
                                                        .count = 1,
                                                        .chosen = {}}))
            .error,
        EINVAL);
    // A client that fills the counter, and has writers wait, cannot keep the device.
    ASSERT_EQ(fcntl(eventfd.get(), F_SETFL, 0), 0);
    const uint64_t full = UINT64_MAX - 1;
    ASSERT_EQ(write(eventfd.get(), &full, sizeof(full)), 8);
    EXPECT_EQ(set(kTell, 1), 0);
    EXPECT_EQ(count_of(eventfd), full);
    ASSERT_EQ(fcntl(eventfd.get(), F_SETFL, O_NONBLOCK), 0);
    EXPECT_EQ(set(kTell, 0), 0);  // all off
    EXPECT_EQ(set(kTell, 1), 0);
    EXPECT_EQ(count_of(eventfd), 0U);
  });
}

TEST(VfioUserServer, TakesMemory) {
  in_os([](runtime::Runtime& os) {
    Rig rig(os);
    const auto map = [&](uint64_t address, std::vector<Descriptor> fds) {
      return rig
          .ask(Command::kDmaMap,
               encode(DmaMap{.flags = 3, .offset = 0, .address = address, .size = 0x1000}),
               std::move(fds))
          .error;
    };
    const auto memory = [] { return Descriptor(create_sealed_memory("test", 4096)); };
    EXPECT_EQ(map(0x1000, only(memory())), 0);
    EXPECT_EQ(map(0x1000, only(memory())), EEXIST);
    std::vector<Descriptor> two = only(memory());
    two.push_back(memory());
    EXPECT_EQ(map(0x3000, std::move(two)), EINVAL);
    EXPECT_EQ(map(0x3000, {}), ENOTSUP) << "no second socket is in use yet";
    EXPECT_EQ(rig.ask(Command::kDmaMap, Bytes(5)).error, EINVAL);
    EXPECT_NE(rig.server->memory().pointer(bus::PhysicalAddress{0x1000}, 0x1000), nullptr);
    const auto unmap = [&](const DmaUnmap& what) {
      return rig.ask(Command::kDmaUnmap, encode(what)).error;
    };
    EXPECT_EQ(unmap({.flags = 0, .address = 0x1000, .size = 0x2000}), ENOENT);
    EXPECT_EQ(unmap({.flags = 1, .address = 0x1000, .size = 0x1000}), EINVAL);
    EXPECT_EQ(unmap({.flags = 0, .address = 0x1000, .size = 0x1000}), 0);
    EXPECT_EQ(rig.server->memory().pointer(bus::PhysicalAddress{0x1000}, 1), nullptr);
    EXPECT_EQ(map(0x1000, only(memory())), 0);
    EXPECT_EQ(unmap({.flags = DmaUnmap::kAll}), 0);
    EXPECT_EQ(rig.server->memory().pointer(bus::PhysicalAddress{0x1000}, 1), nullptr);
  });
}

TEST(VfioUserServer, RefusesAModelThatItCannotServe) {
  in_os([](runtime::Runtime& os) {
    const auto made = DeviceServer::create(os, choice(plugin_path("hostile_open")));
    ASSERT_FALSE(made.has_value());
    EXPECT_THAT(made.error(), HasSubstr("it opens for nobody"));
  });
}

// --- over a connection

struct Served {
  explicit Served(runtime::Runtime& os, const ServerOptions& options = {}) {
    SocketPair pair;
    client = std::make_unique<Connection>(os, std::move(pair.first), "server");
    thread = os.spawn("server", [&os, this, options,
                                 socket = std::make_shared<Descriptor>(std::move(pair.second))] {
      auto done = serve_client(os, choice("softgpu,vram=1M"), std::move(*socket), options);
      end = done.has_value() ? *done : "error: " + done.error();
    });
  }
  std::string join() {
    thread->join();
    return end;
  }
  std::unique_ptr<Connection> client;
  std::unique_ptr<runtime::Thread> thread;
  std::string end;
};

TEST(VfioUserServer, EndsWithItsClient) {
  in_os([](runtime::Runtime& os) {
    const auto send = [&](Served& served, Header header, const Bytes& payload) {
      EXPECT_TRUE(served.client->send(header, {payload}, {}, os.now() + 10 * runtime::kSecond));
    };
    {
      Served served(os);
      served.client->shut_down();
      EXPECT_EQ(served.join(), "the client closed the connection");
    }
    {
      Served served(os);
      send(served, {.command = 13}, {});
      EXPECT_EQ(served.client->receive(os.now() + 10 * runtime::kSecond)->header.error,
                uint32_t{EINVAL});
      EXPECT_THAT(served.join(), HasSubstr("before it agreed on a version"));
    }
    {
      Served served(os);
      send(served, {.command = 1, .flags = Header::kReply}, {});
      EXPECT_EQ(served.join(), "the client sent a reply to nothing");
    }
    {
      Served served(os, {.timeout_ns = runtime::kMillisecond, .stop_fd = -1, .log = {}});
      const auto head = encode(Header{.command = 1, .size_bytes = 32});
      ASSERT_EQ(write(served.client->fd(), head.data(), head.size()), 16);
      EXPECT_EQ(served.join(), "the client did not end a message in time");
    }
    {
      Served served(os);
      send(served, {.command = 1, .flags = Header::kNoReply}, encode(Version{}));
      send(served, {.id = 5, .command = 4}, encode_device_query({.room = 16}));
      // The first answer is that to the second command.
      EXPECT_EQ(served.client->receive(os.now() + 10 * runtime::kSecond)->header.id, 5);
      served.client->shut_down();
      served.join();
    }
    {
      const Descriptor stop(eventfd(0, EFD_CLOEXEC));
      Served served(os, {.timeout_ns = runtime::kSecond, .stop_fd = stop.get(), .log = {}});
      const uint64_t one = 1;
      ASSERT_EQ(write(stop.get(), &one, sizeof(one)), 8);
      EXPECT_EQ(served.join(), "the server ends");
    }
  });
}

}  // namespace
}  // namespace dxgkit::vfiouser
