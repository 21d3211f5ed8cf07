// Devices as objects: how they are asked for by name, plugged in, and told of what happens to them.
#include "bus/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "bus/machine.h"
#include "runtime/runtime.h"

namespace dxgkit::bus {
namespace {

using ::testing::ElementsAre;

/// Writes down what it is told.
class Witness final : public Device, private MmioHandler {
 public:
  explicit Witness(size_t functions = 1, uint64_t bar_bytes = 4096) {
    for (size_t i = 0; i < functions; ++i) {
      std::vector<Bar> bars(1);
      bars[0].kind = BarKind::kRegisters;
      bars[0].size = bar_bytes;
      bars[0].registers = this;
      own_.push_back(std::make_unique<PciFunction>(
          PciIdentity{.vendor_id = 0x1234, .device_id = static_cast<uint16_t>(i)}, bars,
          std::vector<PciCapability>{msi_capability(4), reset_capability()}));
      functions_.push_back(own_.back().get());
    }
  }
  std::span<PciFunction* const> functions() override { return functions_; }
  void set_power(size_t index, FunctionPower power) override {
    told.push_back("power " + std::to_string(index) + " " +
                   std::to_string(static_cast<int>(power)));
  }
  void reset(size_t index) override { told.push_back("reset " + std::to_string(index)); }
  void pulled_out() override { told.push_back("pulled out"); }
  std::vector<std::string> told;

 private:
  uint64_t mmio_read(uint64_t offset, uint32_t) override { return offset; }
  void mmio_write(uint64_t, uint32_t, uint64_t) override {}
  std::vector<std::unique_ptr<PciFunction>> own_;
  std::vector<PciFunction*> functions_;
};

uint32_t read32(const PciFunction& function, uint32_t offset) {
  uint32_t value = 0;
  function.config_read(offset, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}
void write8(PciFunction& function, uint32_t offset, uint8_t value) {
  function.config_write(offset, std::as_bytes(std::span(&value, 1)));
}

// --- plugged in

/// Power and resets of each function reach the device with the function's number.
TEST(Devices, AreToldOfPowerAndResets) {
  Machine machine(1 << 20);
  Witness device(2);
  ASSERT_EQ(plug_in(machine, device), Status::kSuccess);
  device.functions()[1]->set_power(FunctionPower::kHibernate);
  device.functions()[0]->set_power(FunctionPower::kOn);
  EXPECT_THAT(device.told, ElementsAre("power 1 2", "power 0 0"));
  device.told.clear();
  // MSI takes 0x40 to 0x4D, so Advanced Features are at 0x50 and their control at 0x54.
  PciFunction& function = *device.functions()[1];
  EXPECT_EQ(read32(function, 0x50) & 0xFF, 0x13U);
  write8(function, 0x54, 1);
  EXPECT_THAT(device.told, ElementsAre("reset 1"));
  EXPECT_EQ(read32(function, 0x54), 0U) << "the bit reads as 0";
  write8(function, 0x54, 2);
  write8(function, 0x55, 1);
  const uint32_t whole = 1;
  function.config_write(0x53, std::as_bytes(std::span(&whole, 1)));
  EXPECT_THAT(device.told, ElementsAre("reset 1")) << "only bit 0 of that byte";
  // A reset of a function that is not plugged in has no effect.
  Witness apart;
  write8(*apart.functions()[0], 0x54, 1);
  EXPECT_TRUE(apart.told.empty());
}

TEST(Devices, SayThatTheyHaveSeveralFunctions) {
  Machine machine(1 << 20);
  Witness one, two(2);
  ASSERT_EQ(plug_in(machine, one), Status::kSuccess);
  ASSERT_EQ(plug_in(machine, two), Status::kSuccess);
  EXPECT_EQ(read32(*one.functions()[0], 0x0C) >> 16 & 0xFF, 0U);
  EXPECT_EQ(read32(*two.functions()[0], 0x0C) >> 16 & 0xFF, 0x80U);
  EXPECT_EQ(read32(*two.functions()[1], 0x0C) >> 16 & 0xFF, 0x80U);
}

/// All functions or none: the second has no room, so the first is out again.
TEST(Devices, ArePluggedInWholeOrNotAtAll) {
  Machine machine(1 << 20);
  Witness device(2, uint64_t{512} << 20);
  EXPECT_EQ(plug_in(machine, device), Status::kInsufficientResources);
  Witness small(1);
  ASSERT_EQ(plug_in(machine, small), Status::kSuccess);
  EXPECT_EQ(small.functions()[0]->bars()[0].base.value, Machine::kRegisterBarBase);
  Witness none(0), nine(9);
  EXPECT_EQ(plug_in(machine, none), Status::kInvalidParameter);
  EXPECT_EQ(plug_in(machine, nine), Status::kInvalidParameter);
}

TEST(Devices, ThatArePulledOutAreToldOnce) {
  Machine machine(1 << 20);
  Witness device(2);
  ASSERT_EQ(plug_in(machine, device), Status::kSuccess);
  void* const registers = machine.map_io(device.functions()[1]->bars()[0].base, 4096);
  EXPECT_EQ(machine.read_register(static_cast<std::byte*>(registers) + 8, 4), 8U);
  pull_out(machine, device);
  EXPECT_THAT(device.told, ElementsAre("pulled out"));
  EXPECT_EQ(machine.read_register(static_cast<std::byte*>(registers) + 8, 4), 0xFFFF'FFFFU);
  EXPECT_FALSE(device.functions()[0]->present());
  unplug(machine, device);
  EXPECT_EQ(device.functions()[0]->bars()[0].base.value, 0U);
}

/// A device says nothing of what it does not offer.
TEST(Devices, OfferNothingByDefault) {
  Witness device;
  EXPECT_EQ(device.faults(), nullptr);
  EXPECT_EQ(device.screen(), nullptr);
  EXPECT_TRUE(device.engine_names().empty());
}

// --- options

TEST(DeviceOptions, AreReadStrictly) {
  DeviceOptions options;
  EXPECT_TRUE(options.add("size", "64K"));
  EXPECT_FALSE(options.add("size", "1"));
  EXPECT_TRUE(options.add("count", "7"));
  EXPECT_TRUE(options.add("id", "0x1AF4"));
  EXPECT_TRUE(options.add("wide", "12345"));
  EXPECT_TRUE(options.add("switch", "off"));
  EXPECT_TRUE(options.add("bad", "7x"));
  EXPECT_EQ(options.bytes("size", 0), 65536U);
  EXPECT_EQ(options.bytes("absent", 5), 5U);
  EXPECT_EQ(options.bytes("bad", 0).error(),
            "bad: '7x' is not a number of bytes (like 67108864, 64M or 1GiB)");
  EXPECT_EQ(options.number("count", 0, 1, 7), 7U);
  EXPECT_EQ(options.number("absent", 3, 5, 7), 3U) << "the default is not checked";
  EXPECT_EQ(options.number("count", 0, 1, 6).error(),
            "count: '7' is not a whole number from 1 to 6");
  EXPECT_EQ(options.number("bad", 0, 1, 6).error(), "bad: '7x' is not a whole number from 1 to 6");
  EXPECT_EQ(options.hexadecimal("id", 0, 16), 0x1AF4U);
  EXPECT_EQ(options.hexadecimal("wide", 0, 64), 0x12345U);
  EXPECT_EQ(options.hexadecimal("wide", 0, 16).error(),
            "wide: '12345' is not a hexadecimal number of 16 bits");
  EXPECT_EQ(options.on_off("switch", true), false);
  EXPECT_EQ(options.on_off("absent", true), true);
  EXPECT_EQ(options.on_off("bad", true).error(), "bad: '7x' is neither on nor off");
}

TEST(DeviceOptions, BytesHaveSuffixes) {
  EXPECT_EQ(parse_byte_count("4096"), 4096U);
  EXPECT_EQ(parse_byte_count("64M"), uint64_t{64} << 20);
  EXPECT_EQ(parse_byte_count("1GiB"), uint64_t{1} << 30);
  for (const char* bad :
       {"", "K", "-1", "1.5M", "64 M", "64MB", "18446744073709551616", "17179869184G"})
    EXPECT_FALSE(parse_byte_count(bad).has_value()) << bad;
}

// --- by name

/// Two types, a spelling, and files that are types.
DeviceRegistry make_registry() {
  DeviceRegistry registry;
  DeviceType plain;
  plain.name = "plain";
  plain.configure = [](const DeviceOptions&) -> std::expected<DeviceMaker, std::string> {
    return [](const DeviceHost&) -> std::expected<std::unique_ptr<Device>, std::string> {
      return std::unexpected("it is never made");
    };
  };
  registry.add(plain);
  DeviceType witness;
  witness.name = "witness";
  witness.options = {{"functions", "N", "how many (1)"}, {"bar#", "SIZE", "a BAR"}};
  witness.configure = [](const DeviceOptions& options) -> std::expected<DeviceMaker, std::string> {
    const auto count = options.number("functions", 1, 1, 8);
    if (!count.has_value()) return std::unexpected(count.error());
    return
        [count = *count](const DeviceHost&) -> std::expected<std::unique_ptr<Device>, std::string> {
          return std::make_unique<Witness>(count);
        };
  };
  registry.add(witness);
  registry.add_spelling({"pair", "two functions", [](std::string_view name) {
                           return name == "pair" ? std::optional<std::string>("witness,functions=2")
                                                 : std::nullopt;
                         }});
  registry.set_loader([](const std::string& path) -> std::expected<DeviceType, std::string> {
    if (path != "./good.so") return std::unexpected(path + ": it is no good");
    DeviceType type;
    type.name = path;
    type.configure = [](const DeviceOptions&) -> std::expected<DeviceMaker, std::string> {
      return std::unexpected("it takes no orders");
    };
    return type;
  });
  return registry;
}

TEST(DeviceRegistry, MakesWhatIsAskedFor) {
  runtime::make_sim_runtime(1)->run_main([] {
    Machine machine(1 << 20);
    const DeviceHost host{runtime::Runtime::current(), machine};
    const DeviceRegistry registry = make_registry();
    ASSERT_EQ(registry.types().size(), 2U);
    EXPECT_EQ(registry.find("witness")->options.size(), 2U);
    EXPECT_EQ(registry.find("nobody"), nullptr);
    const auto made = [&](std::string_view text) {
      const auto choice = registry.parse(text);
      EXPECT_TRUE(choice.has_value()) << choice.error();
      EXPECT_EQ(choice->text, text);
      auto device = choice->make(host);
      EXPECT_TRUE(device.has_value()) << device.error();
      return (*device)->functions().size();
    };
    EXPECT_EQ(made("witness"), 1U);
    EXPECT_EQ(made("witness,functions=3"), 3U);
    EXPECT_EQ(made("witness,bar7=4K,functions=4"), 4U);
    EXPECT_EQ(made("pair"), 2U);
    EXPECT_EQ(made("pair,bar1=x"), 2U);
    // The host's default options apply to types that have them, and never override given options.
    const std::pair<std::string, std::string> defaults[] = {{"functions", "5"}, {"vram", "1M"}};
    EXPECT_EQ((*registry.parse("witness")->make(host, defaults))->functions().size(), 5U);
    EXPECT_EQ((*registry.parse("pair")->make(host, defaults))->functions().size(), 2U);
    EXPECT_EQ(registry.parse("plain")->make(host).error(), "plain: it is never made");
  });
}

/// Each refusal is one sentence.
TEST(DeviceRegistry, RefusesWithOneSentence) {
  const DeviceRegistry registry = make_registry();
  const struct {
    const char* text;
    const char* why;
  } rows[] = {
      {"",
       "'': there is no device of that name; there are plain, witness, pair, and plug-ins "
       "(FILE.so)"},
      {"Plain",
       "'Plain': there is no device of that name; there are plain, witness, pair, and plug-ins "
       "(FILE.so); did you mean plain?"},
      {"plain,x=1", "'plain,x=1': plain has no option 'x'; it has none"},
      {"witness,x=1", "'witness,x=1': witness has no option 'x'; it has functions, bar#"},
      {"witness,barx=1",
       "'witness,barx=1': witness has no option 'barx'; it has functions, bar#; did you mean "
       "bar#?"},
      {"witness,bar10=1",
       "'witness,bar10=1': witness has no option 'bar10'; it has functions, bar#; did you mean "
       "bar#?"},
      {"witness,,functions=1",
       "'witness,,functions=1': witness has no option ''; it has functions, bar#"},
      {"witness,functions", "'witness,functions': functions needs a value: functions=N"},
      {"witness,functions=1,", "'witness,functions=1,': it ends with a comma"},
      {"witness,", "'witness,': it ends with a comma"},
      {"witness,functions=1,functions=1",
       "'witness,functions=1,functions=1': functions is given twice"},
      {"pair,functions=1", "'pair,functions=1': functions is given twice"},
      {"witness,functions=9",
       "'witness,functions=9': functions: '9' is not a whole number from 1 to 8"},
      {"bad.so", "bad.so: it is no good"},
      {"folder/bad", "folder/bad: it is no good"},
      {"./good.so", "'./good.so': it takes no orders"},
      {"./good.so,x=1", "'./good.so,x=1': ./good.so has no option 'x'; it has none"},
  };
  for (const auto& row : rows) {
    const auto choice = registry.parse(row.text);
    ASSERT_FALSE(choice.has_value()) << row.text;
    EXPECT_EQ(choice.error(), row.why);
  }
  DeviceRegistry without_files;
  EXPECT_EQ(without_files.parse("x.so").error(),
            "'x.so': there is no device of that name; there are ");
}

// --- memory

TEST(DeviceMemory, IsZeroedAndShownByABar) {
  Machine machine(1 << 20);
  auto memory = DeviceMemory::create(8192);
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ((*memory)->bytes().size(), 8192U);
  EXPECT_EQ((*memory)->bytes()[8191], std::byte{0});
  (*memory)->bytes()[4096] = std::byte{42};
  std::vector<Bar> bars(2);
  bars[0].kind = BarKind::kMemory;
  bars[0].size = 8192;
  bars[0].memory = (*memory)->window();
  PciFunction function({}, bars);
  ASSERT_EQ(machine.add_function(function), Status::kSuccess);
  const auto* seen = static_cast<std::byte*>(machine.map_io(function.bars()[0].base, 8192));
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen[4096], std::byte{42});
}

}  // namespace
}  // namespace dxgkit::bus
