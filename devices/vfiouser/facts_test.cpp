// What a server says of its device is taken as it is meant, or refused with a sentence.
#include "devices/vfiouser/facts.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "devices/vfiouser/test_rig.h"

namespace dxgkit::vfiouser {
namespace {

using ::testing::HasSubstr;

/// Asks the small device without a connection in between.
class Direct final : public Channel {
 public:
  explicit Direct(SmallDevice& device) : device_(device) {}
  std::expected<Message, CallError> call(Command command, std::initializer_list<ByteView> parts,
                                         std::span<const int>) override {
    Message message{
        .header = {.command = static_cast<uint16_t>(command)}, .payload = {}, .descriptors = {}};
    for (const ByteView part : parts)
      message.payload.insert(message.payload.end(), part.begin(), part.end());
    const Reply reply = device_.handle(message);
    if (reply.error != 0)
      return std::unexpected(
          CallError{reply.error, name_of(message.header.command) + " was refused"});
    Message answer{.header = message.header, .payload = reply.payload, .descriptors = {}};
    if (spoil) spoil(command, answer.payload);
    for (const int fd : reply.descriptors) answer.descriptors.emplace_back(dup(fd));
    return answer;
  }
  void reject(const std::string& why) override { rejected = why; }
  std::string rejected;
  std::function<void(Command command, Bytes& payload)> spoil;

 private:
  SmallDevice& device_;
};

auto facts_of(SmallDevice& device, MapPolicy policy = MapPolicy::kSealed,
              std::optional<IrqKind> irq = std::nullopt) {
  Direct channel(device);
  return read_facts(channel, policy, irq);
}

TEST(VfioUserFacts, AreTheServers) {
  SmallDevice device;
  const auto facts = facts_of(device);
  ASSERT_TRUE(facts.has_value()) << facts.error();
  EXPECT_TRUE(facts->can_reset);
  EXPECT_EQ(facts->identity.vendor_id, 0x1234);
  EXPECT_EQ(facts->identity.device_id, 0x5678);
  EXPECT_EQ(facts->identity.base_class, 0x03);
  EXPECT_EQ(facts->config_bytes, 256U);
  EXPECT_EQ(facts->bars[0].kind, bus::BarKind::kRegisters);
  EXPECT_EQ(facts->bars[0].size, 0x2000U);
  EXPECT_FALSE(facts->bars[0].wide);
  EXPECT_EQ(facts->bars[1].kind, bus::BarKind::kNone);
  EXPECT_EQ(facts->bars[2].kind, bus::BarKind::kMemory);
  EXPECT_TRUE(facts->bars[2].descriptor);
  EXPECT_EQ(facts->bars[4].kind, bus::BarKind::kPorts);
  EXPECT_EQ(facts->bars[4].size, 16U);
  EXPECT_EQ(facts->irq, IrqKind::kIntx);
  EXPECT_EQ(facts->msi.offset, 0x42U);
  EXPECT_EQ(facts->msix.offset, 0x53U);
}

TEST(VfioUserFacts, ChooseTheInterrupt) {
  SmallDevice device;
  EXPECT_EQ(facts_of(device, MapPolicy::kNone, IrqKind::kMsi)->irq, IrqKind::kMsi);
  device.irqs[kIrqIntx].count = 0;
  EXPECT_EQ(facts_of(device)->irq, IrqKind::kMsix);
  EXPECT_EQ(facts_of(device)->irq_info.count, 40U);
  device.irqs[kIrqMsix].flags = 0;  // not by eventfd
  EXPECT_EQ(facts_of(device)->irq, IrqKind::kMsi);
  EXPECT_THAT(facts_of(device, MapPolicy::kNone, IrqKind::kIntx).error(),
              HasSubstr("no interrupts of the kind"));
  device.info.irqs = 1;
  EXPECT_EQ(facts_of(device)->irq, std::nullopt);
}

/// A BAR is mapped only if the driver then reaches all of it, and nobody can cut it short.
TEST(VfioUserFacts, MapWhatCanBeMapped) {
  SmallDevice device;
  EXPECT_EQ(facts_of(device, MapPolicy::kNone)->bars[2].kind, bus::BarKind::kRegisters);
  EXPECT_TRUE(facts_of(device, MapPolicy::kNone)->bars[2].wide);
  device.regions[2].areas = {{0, 0x10000}};
  EXPECT_EQ(facts_of(device)->bars[2].kind, bus::BarKind::kMemory);
  device.regions[2].areas = {{0x1000, 0x2000}, {0x8000, 0x1000}, {0x9000, 0x10}, {0x123, 0x1000}};
  const auto sparse = facts_of(device);
  EXPECT_EQ(sparse->bars[2].kind, bus::BarKind::kRegisters);
  ASSERT_EQ(sparse->bars[2].mappings.size(), 2U) << "areas of whole pages";
  EXPECT_EQ(sparse->bars[2].mappings[1]->area(), (Area{0x8000, 0x1000}));
  device.regions[2].areas.reset();
  device.regions[2].offset = 0x1000;  // the descriptor ends before the region
  EXPECT_EQ(facts_of(device)->bars[2].kind, bus::BarKind::kRegisters);
  device.regions[2].offset = UINT64_MAX;
  EXPECT_EQ(facts_of(device)->bars[2].kind, bus::BarKind::kRegisters);
  device.regions[2].offset = 0;
  device.memory = Descriptor(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(device.memory.get(), 0x10000), 0);
  ASSERT_EQ(fcntl(device.memory.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(facts_of(device)->bars[2].kind, bus::BarKind::kRegisters) << "it refuses writers";
  char name[] = "/tmp/dxgkit-unsealed-XXXXXX";
  device.memory = Descriptor(mkstemp(name));
  unlink(name);
  ASSERT_EQ(ftruncate(device.memory.get(), 0x10000), 0);
  EXPECT_EQ(facts_of(device)->bars[2].kind, bus::BarKind::kRegisters) << "a file can shrink";
  device.memory = {};
  device.regions[2].flags &= ~RegionInfo::kWrite;
  EXPECT_FALSE(facts_of(device)->bars[2].writeable);
}

TEST(VfioUserFacts, SizesBecomeThoseOfABus) {
  SmallDevice device;
  device.set_region(0, 8, RegionInfo::kRead | RegionInfo::kWrite);
  device.set_region(2, 0x3000, RegionInfo::kRead | RegionInfo::kWrite);
  device.set_region(4, 2, RegionInfo::kRead | RegionInfo::kWrite);
  const auto facts = facts_of(device);
  ASSERT_TRUE(facts.has_value()) << facts.error();
  EXPECT_EQ(facts->bars[0].size, 4096U);
  EXPECT_EQ(facts->bars[0].region_size, 8U);
  EXPECT_EQ(facts->bars[2].size, 0x4000U);
  EXPECT_EQ(facts->bars[4].size, 4U);
  // So many ports are none.
  device.set_region(4, 512, RegionInfo::kRead | RegionInfo::kWrite);
  const auto many = facts_of(device);
  EXPECT_EQ(many->bars[4].kind, bus::BarKind::kRegisters);
  EXPECT_EQ(many->bars[4].size, 4096U);
  EXPECT_FALSE(many->bars[4].wide);
}

TEST(VfioUserFacts, TheListOfCapabilitiesMayLeadInCircles) {
  SmallDevice device;
  device.put<uint8_t>(0x51, 0x40);
  EXPECT_TRUE(facts_of(device).has_value());
  device.put<uint8_t>(0x34, 0xFF);
  EXPECT_EQ(facts_of(device)->msi.offset, 0U);
}

struct Lie {
  const char* why;
  std::function<void(SmallDevice&)> tell;
};

TEST(VfioUserFacts, RefuseADeviceThatCannotBe) {
  const Lie lies[] = {
      {"not a PCI device", [](SmallDevice& d) { d.info.flags = 0; }},
      {"without configuration space", [](SmallDevice& d) { d.info.regions = 7; }},
      {"configuration space of 255 bytes",
       [](SmallDevice& d) { d.regions[kRegionConfig].size = 255; }},
      {"configuration space of 8192 bytes",
       [](SmallDevice& d) { d.regions[kRegionConfig].size = 8192; }},
      {"the server has no device", [](SmallDevice& d) { d.put<uint16_t>(0, 0xFFFF); }},
      {"is a bridge", [](SmallDevice& d) { d.put<uint8_t>(0x0E, 1); }},
      {"BAR 0 is 64 bits wide, and there is no room",
       [](SmallDevice& d) {
         d.put<uint32_t>(0x10, 4);
         d.regions[1].size = 4096;
       }},
      {"BAR 5 is 64 bits wide",
       [](SmallDevice& d) {
         d.put<uint32_t>(0x24, 4);
         d.regions[5].size = 4096;
       }},
      {"BAR 0 of the server has 18446744073709551615 bytes",
       [](SmallDevice& d) { d.regions[0].size = UINT64_MAX; }},
      {"bytes that cannot be mapped; at most 536870912",
       [](SmallDevice& d) { d.regions[0].size = uint64_t{1} << 30; }},
      {"it describes another region", [](SmallDevice& d) { d.regions[3].index = 4; }},
      {"it describes another type of interrupt", [](SmallDevice& d) { d.irqs[0].index = 3; }},
      {"2 interrupts", [](SmallDevice& d) { d.irqs[0].count = 2; }},
      {"DEVICE_GET_REGION_INFO was refused", [](SmallDevice& d) { d.regions.resize(3); }},
      {"an area lies outside its region",
       [](SmallDevice& d) {
         d.regions[2].areas = {{0, 0x10001}};
       }},
      {"REGION_READ was refused", [](SmallDevice& d) { d.config.resize(100); }},
  };
  for (const Lie& lie : lies) {
    SmallDevice device;
    lie.tell(device);
    const auto facts = facts_of(device);
    ASSERT_FALSE(facts.has_value()) << lie.why;
    EXPECT_THAT(facts.error(), HasSubstr(lie.why));
  }
}

/// Every answer cut short, at every length.
TEST(VfioUserFacts, RefuseAnswersThatAreCut) {
  for (const Command victim : {Command::kDeviceGetInfo, Command::kDeviceGetRegionInfo,
                               Command::kDeviceGetIrqInfo, Command::kRegionRead}) {
    for (size_t length = 0; length < 16; ++length) {
      SmallDevice device;
      Direct channel(device);
      channel.spoil = [&](Command command, Bytes& payload) {
        if (command == victim) payload.resize(std::min(payload.size(), length));
      };
      const auto facts = read_facts(channel, MapPolicy::kSealed, std::nullopt);
      ASSERT_FALSE(facts.has_value()) << name_of(static_cast<uint16_t>(victim)) << " " << length;
      EXPECT_THAT(facts.error(), HasSubstr("the server sent nonsense"));
      EXPECT_EQ(channel.rejected, facts.error()) << "the connection ends with it";
    }
  }
}

TEST(VfioUserFacts, AskAgainForManyAreas) {
  SmallDevice device;
  device.regions[2].areas.emplace();
  for (uint64_t i = 0; i < 300; ++i) device.regions[2].areas->push_back({i % 16 * 0x1000, 0x1000});
  const auto facts = facts_of(device);
  ASSERT_TRUE(facts.has_value()) << facts.error();
  EXPECT_EQ(facts->bars[2].mappings.size(), 300U);
}

}  // namespace
}  // namespace dxgkit::vfiouser
