// A device behind a socket: a model in a server of ours, and servers that are scripted to be wrong.
// The two-process form of it is tests of the tool.
#include "devices/vfiouser/remote_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "bus/machine.h"
#include "devices/plugin/plugin.h"
#include "devices/softgpu/device.h"
#include "devices/softgpu/softgpu_hw.h"
#include "devices/vfiouser/server.h"
#include "devices/vfiouser/test_rig.h"

namespace dxgkit::vfiouser {
namespace {

using runtime::kMillisecond;
using runtime::kSecond;
using ::testing::Contains;
using ::testing::HasSubstr;

/// A word that a thread waits for.
struct Signal {
  explicit Signal(runtime::Runtime& os) : runtime(os) {}
  void add() {
    count.fetch_add(1);
    runtime.wake_all(count);
  }
  void wait_for(uint32_t wanted) {
    for (uint32_t seen = count.load(); seen < wanted; seen = count.load())
      static_cast<void>(runtime.wait(count, seen));
  }
  runtime::Runtime& runtime;
  std::atomic<uint32_t> count{0};
};

void in_os(const std::function<void(runtime::Runtime&)>& body) {
  const auto os = runtime::make_os_runtime(1);
  os->run_main([&] { body(*os); });
}

bus::DeviceChoice choice(const std::string& text) {
  bus::DeviceRegistry registry;
  registry.add(softgpu::device_type());
  registry.set_loader(plugin::load);
  auto parsed = registry.parse(text);
  EXPECT_TRUE(parsed.has_value()) << parsed.error();
  return std::move(*parsed);
}

std::string copier() { return std::string(DXGKIT_DEVICE_PLUGINS) + "/copier_device.so"; }

/// A machine with a remote device, made with whatever serves the other socket.
struct Rig {
  Rig(runtime::Runtime& os, Descriptor socket, const RemoteOptions& options = {})
      : runtime(os), machine(4 << 20, 1 << 20), lost(os) {
    auto made = make_remote_device({os, machine}, std::move(socket), options);
    if (!made.has_value()) {
      error = made.error();
      return;
    }
    device = std::move(*made);
    EXPECT_EQ(bus::plug_in(machine, *device), Status::kSuccess);
    function = device->functions()[0];
  }
  ~Rig() {
    if (device) device->on_loss(nullptr);
  }
  void watch() {
    device->on_loss([this](const std::string& text) {
      why = text;
      lost.add();
    });
  }
  std::byte* map(size_t slot) {
    return static_cast<std::byte*>(machine.map_io(function->bars()[slot].base, 4096));
  }
  uint32_t config(uint32_t offset) {
    uint32_t value = 0;
    function->config_read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  void set_config(uint32_t offset, uint32_t value) {
    function->config_write(offset, std::as_bytes(std::span(&value, 1)));
  }
  runtime::Runtime& runtime;
  bus::Machine machine;
  std::unique_ptr<bus::Device> device;
  bus::PciFunction* function = nullptr;
  std::string error;
  std::string why;  // it left
  Signal lost;
};

/// The same with one of our models in a server of ours.
struct Served {
  Served(runtime::Runtime& os, const std::string& model, const RemoteOptions& options = {})
      : stop(eventfd(0, EFD_CLOEXEC)) {
    SocketPair pair;
    thread = os.spawn("server", [&os, this, model,
                                 socket = std::make_shared<Descriptor>(std::move(pair.second))] {
      auto done = serve_client(os, choice(model), std::move(*socket),
                               {.timeout_ns = 10 * kSecond, .stop_fd = stop.get(), .log = {}});
      end = done.has_value() ? *done : "error: " + done.error();
    });
    rig = std::make_unique<Rig>(os, std::move(pair.first), options);
    EXPECT_EQ(rig->error, "");
  }
  ~Served() {
    rig.reset();
    thread->join();
  }
  void end_server() {
    const uint64_t one = 1;
    EXPECT_EQ(write(stop.get(), &one, sizeof(one)), 8);
  }
  const Descriptor stop;
  std::string end;
  std::unique_ptr<runtime::Thread> thread;
  std::unique_ptr<Rig> rig;
};

// --- a model behind it

TEST(VfioUserDevice, IsTheModelOfTheServer) {
  in_os([](runtime::Runtime& os) {
    Served served(os, "softgpu,vram=1M");
    Rig& rig = *served.rig;
    EXPECT_EQ(rig.function->identity().vendor_id, SGPU_PCI_VENDOR_ID);
    EXPECT_EQ(rig.config(0), SGPU_PCI_VENDOR_ID | uint32_t{SGPU_PCI_DEVICE_ID} << 16);
    EXPECT_EQ(rig.config(0x100), 0U) << "the server's extended space";
    ASSERT_EQ(rig.function->bars()[SGPU_BAR_VRAM].kind, bus::BarKind::kMemory);
    std::byte* const registers = rig.map(SGPU_BAR_REGISTERS);
    EXPECT_EQ(rig.machine.read_register(registers + SGPU_REG_ID, 4), SGPU_ID_VALUE);
    EXPECT_EQ(rig.machine.read_register(registers + SGPU_REG_VRAM_SIZE, 8), 1U << 20);
    rig.machine.write_register(registers + SGPU_REG_INT_ENABLE, 4, 1);
    EXPECT_EQ(rig.machine.read_register(registers + SGPU_REG_INT_ENABLE, 4), 1U);
    rig.device->reset(0);
    EXPECT_EQ(rig.machine.read_register(registers + SGPU_REG_INT_ENABLE, 4), 0U);
    rig.machine.write_register(registers + SGPU_REG_INT_ENABLE, 4, 1);
    rig.function->set_power(bus::FunctionPower::kStandby);
    EXPECT_EQ(rig.machine.read_register(registers + SGPU_REG_INT_ENABLE, 4), 0U);
    std::byte* const vram = rig.map(SGPU_BAR_VRAM);
    vram[7] = std::byte{42};
    EXPECT_EQ(vram[7], std::byte{42});
  });
}

/// A copy of system memory, told by an interrupt whose routine reads the device.
void copy_once(runtime::Runtime& os, const RemoteOptions& options) {
  Served served(os, copier() + ",delay=0", options);
  Rig& rig = *served.rig;
  std::byte* const registers = rig.map(0);
  const auto read = [&](uint64_t offset) {
    return rig.machine.read_register(registers + offset, 4);
  };
  const auto write = [&](uint64_t offset, uint64_t value) {
    rig.machine.write_register(registers + offset, 4, value);
  };
  Signal interrupts(os);
  std::atomic<uint64_t> status{0};
  rig.function->interrupt_line().connect([&] {
    status = read(0x14);
    write(0x14, status);
    interrupts.add();
    return true;
  });
  const uint64_t low = rig.machine.allocate_contiguous(2, 4096, 0xFFFF'FFFF)->value * 4096;
  std::byte* const memory = rig.machine.system_pointer(bus::PhysicalAddress{low}, 8192);
  std::memcpy(memory, "to be copied", 13);
  const auto copy = [&](uint64_t from, uint64_t to) {
    write(0x04, from);
    write(0x08, to);
    write(0x0C, 13);
    write(0x10, 1);
  };
  copy(low, low + 4096);
  interrupts.wait_for(1);
  EXPECT_EQ(status.load(), 1U);
  EXPECT_STREQ(reinterpret_cast<const char*>(memory + 4096), "to be copied");
  copy(low, 0x1000);  // nothing is there
  interrupts.wait_for(2);
  EXPECT_EQ(status.load(), 3U);
  rig.function->interrupt_line().connect(nullptr);
  // Ports and the memory BAR.
  EXPECT_EQ(rig.machine.read_port(rig.function->bars()[4].base.value, 4), 0x43505931U);
  if (options.map == MapPolicy::kSealed) {
    EXPECT_STREQ(reinterpret_cast<const char*>(rig.map(2)), "copier");
  } else {
    EXPECT_EQ(rig.machine.read_register(rig.map(2), 4), 0x69706F63U);
  }
}

TEST(VfioUserDevice, ReachesMemoryAndInterrupts) {
  in_os([](runtime::Runtime& os) {
    copy_once(os, {});
    copy_once(os, {.dma_by_message = true});
    copy_once(os, {.dma_by_message = true, .map = MapPolicy::kNone});
  });
}

// --- leaving

TEST(VfioUserDevice, IsRemovedWhenItsServerEnds) {
  in_os([](runtime::Runtime& os) {
    Served served(os, "softgpu,vram=1M");
    Rig& rig = *served.rig;
    std::byte* const registers = rig.map(0);
    std::byte* const vram = rig.map(SGPU_BAR_VRAM);
    rig.watch();
    served.end_server();
    rig.lost.wait_for(1);
    EXPECT_EQ(rig.why, "the server closed the connection");
    EXPECT_EQ(rig.machine.read_register(registers + SGPU_REG_ID, 4), 0xFFFF'FFFFU);
    rig.machine.write_register(registers + SGPU_REG_INT_ENABLE, 4, 1);
    EXPECT_EQ(rig.config(0), 0xFFFF'FFFFU);
    EXPECT_FALSE(rig.function->present());
    vram[0] = std::byte{1};  // stays memory
    // Who asks later is told, too, and only once.
    rig.watch();
    EXPECT_EQ(rig.lost.count.load(), 1U);
  });
}

TEST(VfioUserDevice, TellsWhoAsksAfterTheLoss) {
  in_os([](runtime::Runtime& os) {
    Served served(os, "softgpu,vram=1M");
    served.end_server();
    served.thread->join();
    served.thread = os.spawn("nothing", [] {});  // for the destructor
    served.rig->watch();
    served.rig->lost.wait_for(1);
    EXPECT_EQ(served.rig->why, "the server closed the connection");
  });
}

TEST(VfioUserDevice, PullingItOutEndsTheConnection) {
  in_os([](runtime::Runtime& os) {
    Served served(os, "softgpu,vram=1M");
    served.rig->watch();
    bus::pull_out(served.rig->machine, *served.rig->device);
    served.thread->join();
    served.thread = os.spawn("nothing", [] {});
    EXPECT_EQ(served.end, "the client closed the connection");
    EXPECT_EQ(served.rig->lost.count.load(), 0U) << "it did not leave by itself";
  });
}

// --- servers of others

/// The small device, whose answers a test may replace.
struct Scripted {
  using Script = ScriptedServer::Script;
  explicit Scripted(runtime::Runtime& os, Script script = {}, const RemoteOptions& options = {})
      : script_(std::move(script)) {
    SocketPair pair;
    server.emplace(os, std::move(pair.second),
                   [this](Message& message, Connection& connection) -> std::optional<Reply> {
                     if (script_ && armed.load()) return script_(message, connection);
                     return small.handle(message);
                   });
    rig = std::make_unique<Rig>(os, std::move(pair.first), options);
  }
  ~Scripted() {
    rig.reset();
    server.reset();
  }
  SmallDevice small;
  std::atomic<bool> armed{true};
  Script script_;
  std::optional<ScriptedServer> server;
  std::unique_ptr<Rig> rig;
};

TEST(VfioUserDevice, SetsAForeignServerUp) {
  in_os([](runtime::Runtime& os) {
    Scripted scripted(os);
    ASSERT_EQ(scripted.rig->error, "");
    SmallDevice& small = scripted.small;
    ASSERT_EQ(small.maps.size(), 3U);
    EXPECT_EQ(small.maps[0],
              (DmaMap{.flags = 3, .offset = 0, .address = 0x1'0000'0000, .size = 4 << 20}));
    EXPECT_EQ(small.maps[1],
              (DmaMap{.flags = 3, .offset = 4 << 20, .address = 0x4000'0000, .size = 1 << 20}));
    // Behind the memory object of a small machine, whatever its size.
    EXPECT_EQ(small.maps[2], (DmaMap{.flags = 3,
                                     .offset = 64 << 20,
                                     .address = bus::Machine::kPoolMemoryBase,
                                     .size = bus::Machine::kPoolMemoryBytes}));
    EXPECT_EQ(small.map_descriptors, (std::vector<size_t>{1, 1, 1}));
    EXPECT_THAT(small.seen, Contains(Command::kDeviceReset));
    EXPECT_EQ(small.config[4], std::byte{7}) << "ports, memory, bus mastering";
    ASSERT_EQ(small.sets.size(), 1U);
    EXPECT_EQ(small.sets[0].index, kIrqIntx);
    // Accesses outside the region, inside the BAR.
    small.set_region(0, 0, 0);
    Rig& rig = *scripted.rig;
    EXPECT_EQ(rig.config(0x40), 0x0080'5005U);
    EXPECT_EQ(rig.config(0x100), 0xFFFF'FFFFU);
    rig.set_config(0x40, 0x0081'5005);
    EXPECT_EQ(small.config[0x42], std::byte{0x80}) << "a driver does not enable messages";
    rig.set_config(0x60, 0x1234);
    EXPECT_EQ(small.config[0x60], std::byte{0x34});
    // A refused access reads as ones, and the connection goes on.
    std::byte* const registers = rig.map(0);
    small.registers.resize(16);
    EXPECT_EQ(rig.machine.read_register(registers + 16, 4), 0xFFFF'FFFFU);
    rig.machine.write_register(registers + 16, 4, 1);
    rig.machine.write_register(registers + 8, 4, 77);
    EXPECT_EQ(rig.machine.read_register(registers + 8, 4), 77U);
  });
}

TEST(VfioUserDevice, DmaByMessageNeedsNoDescriptor) {
  in_os([](runtime::Runtime& os) {
    Scripted scripted(os, {}, {.dma_by_message = true});
    EXPECT_EQ(scripted.small.map_descriptors, (std::vector<size_t>{0, 0, 0}));
    EXPECT_EQ(scripted.small.maps[1].offset, 0U);
  });
}

/// Every kind of interrupt reaches the line that the kernel connects.
TEST(VfioUserDevice, MessagesRaiseTheLine) {
  in_os([](runtime::Runtime& os) {
    const struct {
      IrqKind kind;
      uint32_t count;
      size_t enabled_at;
      std::byte enabled;
    } rows[] = {{IrqKind::kIntx, 1, 0x42, std::byte{0x80}},
                {IrqKind::kMsi, 4, 0x42, std::byte{0x81}},
                {IrqKind::kMsix, 40, 0x53, std::byte{0x80}}};
    for (const auto& row : rows) {
      Scripted scripted(os, {}, {.irq = row.kind});
      ASSERT_EQ(scripted.rig->error, "");
      SmallDevice& small = scripted.small;
      EXPECT_EQ(small.config[row.enabled_at], row.enabled);
      EXPECT_EQ(scripted.rig->config(0x42) & 1U, 0U) << "to a driver messages are off";
      ASSERT_EQ(small.eventfds.size(), row.count);
      uint32_t covered = 0;
      for (const SetIrqs& set : small.sets) {
        EXPECT_EQ(set.index, static_cast<uint32_t>(row.kind));
        EXPECT_EQ(set.start, covered);
        EXPECT_EQ(set.count, 1U) << "the server takes one descriptor with a message";
        covered += set.count;
      }
      Signal raised(os);
      scripted.rig->function->interrupt_line().connect([&] {
        raised.add();
        return true;
      });
      const uint64_t one = 1;
      ASSERT_EQ(write(small.eventfds.back().get(), &one, sizeof(one)), 8);
      raised.wait_for(1);
      ASSERT_EQ(write(small.eventfds.front().get(), &one, sizeof(one)), 8);
      raised.wait_for(2);
      scripted.rig->function->interrupt_line().connect(nullptr);
    }
  });
}

TEST(VfioUserDevice, UnmasksALineThatMasksItself) {
  in_os([](runtime::Runtime& os) {
    Signal unmasked(os);
    SocketPair pair;
    SmallDevice small;
    small.irqs[0].flags |= IrqInfo::kAutomasked | IrqInfo::kMaskable;
    ScriptedServer server(os, std::move(pair.second), [&](Message& message, Connection&) {
      Reply reply = small.handle(message);
      if (!small.sets.empty() && small.sets.back().action() == SetIrqs::kUnmask) unmasked.add();
      return std::optional<Reply>(std::move(reply));
    });
    Rig rig(os, std::move(pair.first));
    ASSERT_EQ(rig.error, "");
    const uint64_t one = 1;
    ASSERT_EQ(write(small.eventfds.at(0).get(), &one, sizeof(one)), 8);
    unmasked.wait_for(1);
  });
}

/// Where an area is mapped, no message is sent.
TEST(VfioUserDevice, AreasAreReachedWithoutMessages) {
  in_os([](runtime::Runtime& os) {
    SocketPair pair;
    SmallDevice small;
    small.regions[2].areas = {{0x1000, 0x2000}};
    void* const shared =
        mmap(nullptr, 0x10000, PROT_READ | PROT_WRITE, MAP_SHARED, small.memory.get(), 0);
    ASSERT_NE(shared, MAP_FAILED);
    ScriptedServer server(os, std::move(pair.second), [&](Message& message, Connection&) {
      return std::optional<Reply>(small.handle(message));
    });
    Rig rig(os, std::move(pair.first));
    ASSERT_EQ(rig.error, "");
    auto* const window =
        static_cast<std::byte*>(rig.machine.map_io(rig.function->bars()[2].base, 0x10000));
    const int before = small.accesses;
    for (const uint32_t size : {1U, 2U, 4U, 8U}) {
      const uint64_t value =
          0x0807060504030201 & (size == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * size) - 1);
      rig.machine.write_register(window + 0x1008, size, value);
      EXPECT_EQ(rig.machine.read_register(window + 0x1008, size), value);
    }
    EXPECT_EQ(static_cast<std::byte*>(shared)[0x1008], std::byte{1});
    EXPECT_EQ(small.accesses, before);
    static_cast<void>(rig.machine.read_register(window + 0x0FFC, 8));  // half of it is outside
    EXPECT_EQ(small.accesses, before + 1);
    munmap(shared, 0x10000);
  });
}

/// The server's commands come on the one connection that there is: inside a call, and between
/// calls.
TEST(VfioUserDevice, AnswersTheServersCommands) {
  in_os([](runtime::Runtime& os) {
    Signal answered(os);
    std::vector<Message> answers;
    bool armed = false;
    uint64_t address = 0;
    SocketPair pair;
    SmallDevice small;
    ScriptedServer server(
        os, std::move(pair.second),
        [&](Message& message, Connection& connection) -> std::optional<Reply> {
          if (message.header.is_reply()) {
            answers.push_back(std::move(message));
            answered.add();
            return std::nullopt;
          }
          if (armed && message.header.command == 9) {
            armed = false;
            const Bytes read = encode(DmaAccess{address, 5});
            EXPECT_TRUE(connection.send({.id = 900, .command = 11}, {read}, {}, runtime::kForever));
            auto inside = connection.receive(runtime::kForever);
            EXPECT_TRUE(inside.has_value());
            if (inside.has_value()) answers.push_back(std::move(*inside));
          }
          return small.handle(message);
        });
    Rig rig(os, std::move(pair.first));
    ASSERT_EQ(rig.error, "");
    const auto pages = rig.machine.allocate_contiguous(1);
    address = pages->value * 4096;
    std::byte* const memory = rig.machine.system_pointer(bus::PhysicalAddress{address}, 4096);
    std::memcpy(memory, "bytes", 5);
    std::byte* const registers = rig.map(0);
    armed = true;
    static_cast<void>(rig.machine.read_register(registers, 4));
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].header.id, 900);
    ASSERT_EQ(answers[0].payload.size(), 21U);
    EXPECT_EQ(std::memcmp(answers[0].payload.data() + 16, "bytes", 5), 0);
    // Between calls.
    Bytes write = encode(DmaAccess{address + 8, 2});
    write.resize(18, std::byte{9});
    ASSERT_TRUE(
        server.connection().send({.id = 901, .command = 12}, {write}, {}, runtime::kForever));
    answered.wait_for(1);
    EXPECT_EQ(answers[1].header.error, 0U);
    EXPECT_EQ(memory[9], std::byte{9});
    // Outside memory, and a command that a client does not have.
    ASSERT_TRUE(server.connection().send({.id = 902, .command = 11}, {encode(DmaAccess{0x10, 4})},
                                         {}, runtime::kForever));
    answered.wait_for(2);
    EXPECT_EQ(answers[2].header.error, uint32_t{EFAULT});
    ASSERT_TRUE(server.connection().send({.id = 903, .command = 13}, {}, {}, runtime::kForever));
    answered.wait_for(3);
    EXPECT_EQ(answers[3].header.error, uint32_t{ENOTSUP});
    EXPECT_EQ(rig.machine.read_register(registers, 4), 0U) << "the device is still there";
  });
}

constexpr const char* kSilence = "the server did not answer in time";

/// A silent server is given up at once where nothing else is asked of it; who answers has time.
RemoteOptions patience_for(const std::string& why, runtime::DurationNs with_silence) {
  return {.timeout_ns = why == kSilence ? with_silence : 60 * kSecond};
}

/// What a server does to a register read; the device leaves with the sentence.
struct Misdeed {
  const char* why;
  std::function<std::optional<Reply>(SmallDevice&, Message&, Connection&)> instead;
};

TEST(VfioUserDevice, NonsenseAndSilenceRemoveIt) {
  const auto send = [](Connection& to, Header header, const Bytes& payload) {
    EXPECT_TRUE(to.send(header, {payload}, {}, runtime::kForever));
    return std::nullopt;
  };
  const Misdeed misdeeds[] = {
      {kSilence,
       [](SmallDevice&, Message&, Connection&) -> std::optional<Reply> { return std::nullopt; }},
      {"the server answered a command that it was not sent",
       [&](SmallDevice&, Message& m, Connection& c) -> std::optional<Reply> {
         return send(c, {.id = static_cast<uint16_t>(m.header.id + 1), .command = 9, .flags = 1},
                     {});
       }},
      {"the server answered a command that it was not sent",
       [&](SmallDevice&, Message& m, Connection& c) -> std::optional<Reply> {
         return send(c, {.id = m.header.id, .command = 10, .flags = 1}, {});
       }},
      {"the server sent nonsense: an access to a region has 3 bytes; it needs 16",
       [&](SmallDevice&, Message& m, Connection& c) -> std::optional<Reply> {
         return send(c, {.id = m.header.id, .command = 9, .flags = 1}, Bytes(3));
       }},
      {"the server sent nonsense: the answer to another read",
       [&](SmallDevice&, Message& m, Connection& c) -> std::optional<Reply> {
         Bytes other = encode(RegionAccess{4, 0, 4});
         other.resize(20);
         return send(c, {.id = m.header.id, .command = 9, .flags = 1}, other);
       }},
      {"the server sent nonsense: an access to memory is of 18446744073709551615 bytes",
       [&](SmallDevice&, Message&, Connection& c) -> std::optional<Reply> {
         return send(c, {.id = 1, .command = 11}, encode(DmaAccess{0, UINT64_MAX}));
       }},
      {"the server sent a message of 4294967295 bytes",
       [](SmallDevice&, Message&, Connection& c) -> std::optional<Reply> {
         const auto head = encode(Header{.command = 9, .size_bytes = UINT32_MAX, .flags = 1});
         EXPECT_EQ(write(c.fd(), head.data(), head.size()), 16);
         return std::nullopt;
       }},
      {"the server closed the connection",
       [](SmallDevice&, Message&, Connection& c) -> std::optional<Reply> {
         c.shut_down();
         return std::nullopt;
       }},
  };
  for (const Misdeed& misdeed : misdeeds) {
    in_os([&](runtime::Runtime& os) {
      std::atomic<bool> armed{false};
      SocketPair pair;
      SmallDevice small;
      ScriptedServer server(os, std::move(pair.second),
                            [&](Message& message, Connection& connection) -> std::optional<Reply> {
                              if (armed.load()) return misdeed.instead(small, message, connection);
                              return small.handle(message);
                            });
      // It has answered a dozen calls before it falls silent.
      Rig rig(os, std::move(pair.first), patience_for(misdeed.why, 2 * kSecond));
      ASSERT_EQ(rig.error, "") << misdeed.why;
      std::byte* const registers = rig.map(0);
      rig.watch();
      armed = true;
      EXPECT_EQ(rig.machine.read_register(registers, 4), 0xFFFF'FFFFU) << misdeed.why;
      rig.lost.wait_for(1);
      EXPECT_THAT(rig.why, HasSubstr(misdeed.why));
      EXPECT_FALSE(rig.function->present());
    });
  }
}

/// A server that is wrong from the start gives no device.
TEST(VfioUserDevice, IsNotMadeOfNonsense) {
  const Misdeed misdeeds[] = {
      {kSilence,
       [](SmallDevice&, Message&, Connection&) -> std::optional<Reply> { return std::nullopt; }},
      {"the server speaks version 1.7 of vfio-user; this tool speaks 0.1",
       [](SmallDevice& small, Message& m, Connection&) {
         small.version = {.major = 1, .minor = 7, .capabilities = {}};
         return std::optional<Reply>(small.handle(m));
       }},
      {"the server announced a second socket, and sent none",
       [](SmallDevice& small, Message& m, Connection&) {
         small.version.capabilities.twin_socket = true;
         small.version.capabilities.twin_socket_index = 0;
         return std::optional<Reply>(small.handle(m));
       }},
      {"the server takes less than 64 bytes of data with a message",
       [](SmallDevice& small, Message& m, Connection&) {
         small.version.capabilities.transfer_bytes_max = 63;
         return std::optional<Reply>(small.handle(m));
       }},
      {"the server sent nonsense: VERSION has 0 bytes; it needs 4",
       [](SmallDevice&, Message&, Connection&) { return std::optional<Reply>(Reply{}); }},
      {"the server says: VERSION was refused: Operation not permitted",
       [](SmallDevice&, Message&, Connection&) {
         Reply reply;
         reply.error = EPERM;
         return std::optional<Reply>(std::move(reply));
       }},
      {"the server says: DMA_MAP was refused: No space left on device",
       [](SmallDevice& small, Message& m, Connection&) {
         Reply reply = small.handle(m);
         if (m.header.command == 2) reply.error = ENOSPC;
         return std::optional<Reply>(std::move(reply));
       }},
  };
  for (const Misdeed& misdeed : misdeeds) {
    in_os([&](runtime::Runtime& os) {
      SocketPair pair;
      SmallDevice small;
      ScriptedServer server(os, std::move(pair.second),
                            [&](Message& message, Connection& connection) {
                              return misdeed.instead(small, message, connection);
                            });
      Rig rig(os, std::move(pair.first), patience_for(misdeed.why, kMillisecond));
      EXPECT_EQ(rig.device, nullptr);
      EXPECT_EQ(rig.error, misdeed.why);
    });
  }
}

TEST(VfioUserDevice, ARefusedResetRemovesIt) {
  in_os([](runtime::Runtime& os) {
    std::atomic<bool> armed{false};
    SocketPair pair;
    SmallDevice small;
    ScriptedServer server(os, std::move(pair.second), [&](Message& message, Connection&) {
      Reply reply = small.handle(message);
      if (armed.load() && message.header.command == 13) reply.error = EIO;
      return std::optional<Reply>(std::move(reply));
    });
    Rig rig(os, std::move(pair.first));
    rig.watch();
    armed = true;
    rig.device->reset(0);
    rig.lost.wait_for(1);
    EXPECT_THAT(rig.why, HasSubstr("DEVICE_RESET was refused"));
  });
}

/// Several threads of a driver at once.
TEST(VfioUserDevice, CallsOfManyThreadsKeepTheirAnswers) {
  in_os([](runtime::Runtime& os) {
    Scripted scripted(os);
    Rig& rig = *scripted.rig;
    std::byte* const registers = rig.map(0);
    std::vector<std::unique_ptr<runtime::Thread>> threads;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.push_back(os.spawn("caller", [&, t] {
        for (uint64_t i = 0; i < 200; ++i) {
          rig.machine.write_register(registers + 8 * t, 8, i * 4 + t);
          EXPECT_EQ(rig.machine.read_register(registers + 8 * t, 8), i * 4 + t);
        }
      }));
    }
    for (const auto& thread : threads) thread->join();
  });
}

// --- on the command line

TEST(VfioUserDevice, ChecksItsOptions) {
  bus::DeviceRegistry registry;
  registry.add(device_type());
  registry.add_spelling(spelling());
  const auto parsed =
      registry.parse("vfio-user:/run/s.sock,timeout=10,dma=messages,irq=msix,map=none");
  ASSERT_TRUE(parsed.has_value()) << parsed.error();
  EXPECT_EQ(parsed->options.find("socket"), "/run/s.sock");
  EXPECT_FALSE(parsed->type->simulated);
  const struct {
    const char* text;
    const char* why;
  } rows[] = {
      {"vfio-user", "'vfio-user': socket: the path of the server's socket is missing"},
      {"vfio-user:", "'vfio-user:': socket: the path of the server's socket is missing"},
      {"vfio-user:/s,timeout=0",
       "'vfio-user:/s,timeout=0': timeout: '0' is not a whole number from 1 to 600000"},
      {"vfio-user:/s,dma=maybe",
       "'vfio-user:/s,dma=maybe': dma: 'maybe' is neither descriptor nor messages"},
      {"vfio-user:/s,map=all", "'vfio-user:/s,map=all': map: 'all' is neither sealed nor none"},
      {"vfio-user:/s,irq=nmi", "'vfio-user:/s,irq=nmi': irq: 'nmi' is not intx, msi or msix"},
  };
  for (const auto& row : rows) {
    const auto refused = registry.parse(row.text);
    ASSERT_FALSE(refused.has_value()) << row.text;
    EXPECT_EQ(refused.error(), row.why);
  }
  in_os([&](runtime::Runtime& os) {
    bus::Machine machine(1 << 20);
    const auto made = registry.parse("vfio-user:/nowhere/s")->make({os, machine});
    EXPECT_EQ(made.error(),
              "vfio-user: no server answers at /nowhere/s: No such file or directory");
  });
}

}  // namespace
}  // namespace dxgkit::vfiouser
