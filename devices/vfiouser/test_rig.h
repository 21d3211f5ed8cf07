// Helpers of the tests: a small device that is scripted message by message, and its server.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "base/sealed_memory.h"
#include "devices/vfiouser/client.h"
#include "devices/vfiouser/device_server.h"

namespace dxgkit::vfiouser {

/// Two connected sockets.
struct SocketPair {
  SocketPair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    first = Descriptor(ends[0]);
    second = Descriptor(ends[1]);
  }
  Descriptor first, second;
};

/// A PCI function with 8 KiB of registers in BAR 0 (bytes of `registers`), 64 KiB of memory in BAR
/// 2 that can be mapped, ports in BAR 4, and one interrupt of each kind. Tests change what it says.
class SmallDevice {
 public:
  SmallDevice() : config(256), registers(0x2000), memory(create_sealed_memory("small", 0x10000)) {
    put<uint16_t>(0x00, 0x1234);
    put<uint16_t>(0x02, 0x5678);
    put<uint16_t>(0x06, 0x10);  // a list of capabilities
    put<uint8_t>(0x0B, 0x03);
    put<uint32_t>(0x18, 0xC);  // BAR 2: 64 bits wide, prefetchable
    put<uint32_t>(0x20, 1);    // BAR 4: ports
    put<uint8_t>(0x34, 0x40);
    put<uint32_t>(0x40, 0x0080'5005);  // MSI, and the next one at 50h
    put<uint32_t>(0x50, 0x0001'0011);  // MSI-X with two messages
    regions.resize(kRegions);
    for (uint32_t i = 0; i < kRegions; ++i) regions[i].index = i;
    constexpr uint32_t kBoth = RegionInfo::kRead | RegionInfo::kWrite;
    set_region(0, 0x2000, kBoth);
    set_region(2, 0x10000, kBoth | RegionInfo::kMmap);
    set_region(4, 16, kBoth);
    set_region(kRegionConfig, 256, kBoth);
    irqs = {{.flags = IrqInfo::kEventfd, .index = kIrqIntx, .count = 1},
            {.flags = IrqInfo::kEventfd, .index = kIrqMsi, .count = 4},
            {.flags = IrqInfo::kEventfd, .index = kIrqMsix, .count = 40}};
  }

  template <typename T>
  void put(size_t at, T value) {
    std::memcpy(config.data() + at, &value, sizeof(value));
  }
  void set_region(uint32_t index, uint64_t size, uint32_t flags) {
    regions[index].size = size;
    regions[index].flags = flags;
  }

  Reply handle(Message& message) {
    seen.push_back(static_cast<Command>(message.header.command));
    Reply reply;
    switch (seen.back()) {
      case Command::kVersion:
        reply.payload = encode(version);
        break;
      case Command::kDeviceGetInfo:
        reply.payload = encode(info);
        break;
      case Command::kDeviceGetRegionInfo: {
        const auto asked = decode_region_query(message.payload);
        if (!asked.has_value() || asked->index >= regions.size()) {
          reply.error = EINVAL;
          break;
        }
        reply.payload = encode(regions[asked->index], asked->room);
        if ((regions[asked->index].flags & RegionInfo::kMmap) != 0)
          reply.descriptors = {memory.get()};
        break;
      }
      case Command::kDeviceGetIrqInfo: {
        const auto asked = decode_irq_query(message.payload);
        if (!asked.has_value() || asked->index >= irqs.size()) {
          reply.error = EINVAL;
          break;
        }
        reply.payload = encode(irqs[asked->index]);
        break;
      }
      case Command::kDeviceSetIrqs: {
        const auto set = decode_set_irqs(message.payload);
        EXPECT_TRUE(set.has_value()) << set.error();
        for (Descriptor& one : message.descriptors) eventfds.push_back(std::move(one));
        if (set.has_value()) sets.push_back(*set);
        break;
      }
      case Command::kRegionRead:
      case Command::kRegionWrite:
        access(message, reply);
        break;
      case Command::kDmaMap: {
        maps.push_back(decode_dma_map(message.payload).value_or(DmaMap{}));
        map_descriptors.push_back(message.descriptors.size());
        break;
      }
      case Command::kDeviceReset:
        break;
      default:
        reply.error = ENOTSUP;
    }
    return reply;
  }

  void access(const Message& message, Reply& reply) {
    const bool write = message.header.command == static_cast<uint16_t>(Command::kRegionWrite);
    const auto wanted =
        decode_region_access(message.payload, write ? Data::kFollow : Data::kAbsent);
    ASSERT_TRUE(wanted.has_value()) << wanted.error();
    Bytes& target = wanted->region == kRegionConfig ? config : registers;
    if (wanted->offset + wanted->count > target.size()) {
      reply.error = EINVAL;
      return;
    }
    ++accesses;
    reply.payload = encode(*wanted);
    if (write) {
      std::memcpy(target.data() + wanted->offset, message.payload.data() + 16, wanted->count);
    } else {
      const auto from = target.begin() + static_cast<std::ptrdiff_t>(wanted->offset);
      reply.payload.insert(reply.payload.end(), from,
                           from + static_cast<std::ptrdiff_t>(wanted->count));
    }
  }

  Version version;
  DeviceInfo info{.flags = DeviceInfo::kReset | DeviceInfo::kPci, .regions = kRegions, .irqs = 5};
  std::vector<RegionInfo> regions;
  std::vector<IrqInfo> irqs;
  Bytes config, registers;
  Descriptor memory;
  // What it was told.
  std::vector<Command> seen;
  std::vector<DmaMap> maps;
  std::vector<size_t> map_descriptors;
  std::vector<SetIrqs> sets;
  std::vector<Descriptor> eventfds;
  int accesses = 0;
};

/// Serves a script on a thread of its own, until the client leaves.
class ScriptedServer {
 public:
  /// Answers a message. nullopt: it says nothing more.
  using Script = std::function<std::optional<Reply>(Message&, Connection&)>;
  ScriptedServer(runtime::Runtime& runtime, Descriptor socket, Script script)
      : runtime_(runtime),
        connection_(runtime, std::move(socket), "client"),
        script_(std::move(script)),
        thread_(runtime.spawn("scripted server", [this] { run(); })) {}
  ~ScriptedServer() {
    hang_up();
    thread_->join();
  }
  void hang_up() { connection_.shut_down(); }
  Connection& connection() { return connection_; }

 private:
  void run() {
    while (true) {
      auto message = connection_.receive(runtime::kForever);
      if (!message.has_value()) return;
      const std::optional<Reply> reply = script_(*message, connection_);
      if (!reply.has_value()) continue;
      Header header{
          .id = message->header.id, .command = message->header.command, .flags = Header::kReply};
      if (reply->error != 0) {
        header.flags |= Header::kError;
        header.error = static_cast<uint32_t>(reply->error);
      }
      const runtime::TimeNs deadline = runtime_.now() + 10 * runtime::kSecond;
      if (!connection_.send(
              header, {reply->error == 0 ? ByteView(reply->payload) : ByteView()},
              reply->error == 0 ? std::span<const int>(reply->descriptors) : std::span<const int>(),
              deadline))
        return;
    }
  }
  runtime::Runtime& runtime_;
  Connection connection_;
  const Script script_;
  const std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace dxgkit::vfiouser
