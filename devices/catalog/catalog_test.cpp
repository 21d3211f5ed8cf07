// The catalog: which devices there are, and that each does what a host expects of it.
#include "devices/catalog/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "bus/machine.h"
#include "runtime/runtime.h"

namespace dxgkit::devices {
namespace {

using ::testing::ElementsAre;

void with_device(const char* text, const std::function<void(bus::Machine&, bus::Device&)>& look) {
  runtime::make_sim_runtime(1)->run_main([&] {
    const auto choice = catalog().parse(text);
    ASSERT_TRUE(choice.has_value()) << choice.error();
    bus::Machine machine(16 << 20);
    auto device = choice->make({runtime::Runtime::current(), machine});
    ASSERT_TRUE(device.has_value()) << device.error();
    ASSERT_EQ(bus::plug_in(machine, **device), Status::kSuccess);
    look(machine, **device);
  });
}

TEST(Catalog, Names) {
  std::vector<std::string> names;
  for (const auto& type : catalog().types()) names.push_back(type->name);
  EXPECT_THAT(names,
              ElementsAre("softgpu", "framebuffer", "ram", "virtio-gpu", "vfio", "vfio-user"));
  for (const auto& type : catalog().types()) {
    EXPECT_FALSE(type->summary.empty()) << type->name;
    EXPECT_FALSE(type->is_plugin) << type->name;
    for (const bus::DeviceOption& option : type->options)
      EXPECT_FALSE(option.name.empty() || option.value.empty() || option.help.empty());
    EXPECT_EQ(type->simulated, !type->name.starts_with("vfio")) << type->name;
    if (!type->simulated) continue;  // there is no hardware and no other process here
    const auto choice = catalog().parse(type->name);
    ASSERT_TRUE(choice.has_value()) << type->name;
    ASSERT_EQ(type->ids.size(), 1U) << type->name;
    with_device(type->name.c_str(), [&](bus::Machine&, bus::Device& device) {
      const bus::PciIdentity& own = device.functions()[0]->identity();
      EXPECT_EQ(type->ids[0], std::pair(own.vendor_id, own.device_id)) << type->name;
    });
    for (const auto& other : type->others) {
      const bus::DeviceChoice changed = choice->with(other);
      EXPECT_TRUE(catalog().parse(changed.text).has_value()) << changed.text;
    }
  }
}

TEST(Catalog, SoftgpuIsMadeWithItsOptions) {
  with_device("softgpu,vram=1M,refresh=60", [](bus::Machine&, bus::Device& device) {
    ASSERT_EQ(device.functions().size(), 1U);
    EXPECT_EQ(device.functions()[0]->bars()[2].size, 1U << 20);
    EXPECT_THAT(device.engine_names(), ElementsAre("3D", "copy"));
    ASSERT_NE(device.faults(), nullptr);
    EXPECT_EQ(device.faults()->engine_count(), 2U);
    device.faults()->set_faults({});
    ASSERT_NE(device.screen(), nullptr);
    EXPECT_EQ(device.screen()->image().width, 0U);
  });
  with_device("softgpu,vram=1M",
              [](bus::Machine&, bus::Device& device) { EXPECT_EQ(device.screen(), nullptr); });
}

/// A register that keeps its value, a reset, a power loss, and the slot without a card.
TEST(Catalog, SoftgpuIsToldOfResetPowerAndRemoval) {
  with_device("softgpu,vram=1M,standby=all", [](bus::Machine& machine, bus::Device& device) {
    bus::PciFunction& function = *device.functions()[0];
    auto* const registers =
        static_cast<std::byte*>(machine.map_io(function.bars()[0].base, 0x1000));
    auto* const vram = static_cast<std::byte*>(machine.map_io(function.bars()[2].base, 4096));
    constexpr uint64_t kIntEnable = 0x88;
    const auto enabled = [&] { return machine.read_register(registers + kIntEnable, 4); };
    const auto enable = [&] { machine.write_register(registers + kIntEnable, 4, 1); };
    enable();
    EXPECT_EQ(enabled(), 1U);
    vram[7] = std::byte{42};
    device.reset(0);
    EXPECT_EQ(enabled(), 0U);
    EXPECT_EQ(vram[7], std::byte{42});
    enable();
    function.set_power(bus::FunctionPower::kStandby);
    EXPECT_EQ(enabled(), 0U);
    EXPECT_EQ(vram[7], std::byte{42}) << "it survives standby";
    function.set_power(bus::FunctionPower::kHibernate);
    function.set_power(bus::FunctionPower::kOn);
    EXPECT_NE(vram[7], std::byte{42});
    bus::pull_out(machine, device);
    EXPECT_EQ(enabled(), 0xFFFF'FFFFU);
  });
}

TEST(Catalog, FramebufferIsAScreen) {
  with_device("framebuffer,width=64,height=32", [](bus::Machine& machine, bus::Device& device) {
    const bus::PciFunction& function = *device.functions()[0];
    ASSERT_TRUE(function.post_display().has_value());
    EXPECT_EQ(function.post_display()->width, 64U);
    EXPECT_EQ(function.post_display()->pitch_bytes, 256U);
    auto* const pixels = static_cast<uint8_t*>(machine.map_io(function.bars()[0].base, 8192));
    pixels[4] = 0x11;  // blue of the second pixel
    ASSERT_NE(device.screen(), nullptr);
    const bus::ScreenImage image = device.screen()->image();
    EXPECT_EQ(image.width, 64U);
    EXPECT_EQ(image.height, 32U);
    EXPECT_EQ(image.pixels[6], 0x11);
    EXPECT_EQ(device.faults(), nullptr);
  });
  with_device("framebuffer,post=off", [](bus::Machine&, bus::Device& device) {
    EXPECT_FALSE(device.functions()[0]->post_display().has_value());
  });
}

/// Options reach the device: scanouts and EDID in its registers, messages in its BARs.
TEST(Catalog, VirtioGpuIsMadeWithItsOptions) {
  const auto features = [](bus::Machine& machine, bus::Device& device) {
    const bus::PciFunction& function = *device.functions()[0];
    auto* const registers =
        static_cast<std::byte*>(machine.map_io(function.bars()[0].base, 0x4000));
    EXPECT_EQ(machine.read_register(registers + 0x2008, 4), device.screen() == nullptr ? 0U : 2U);
    return machine.read_register(registers + 4, 4);
  };
  with_device("virtio-gpu,scanouts=2", [&](bus::Machine& machine, bus::Device& device) {
    EXPECT_EQ(device.functions()[0]->identity().device_id, 0x1050);
    EXPECT_EQ(device.functions()[0]->bars().size(), 3U);
    EXPECT_EQ(features(machine, device) & 3, 2U);
    ASSERT_NE(device.screen(), nullptr);
    EXPECT_EQ(device.screen()->image().width, 0U);
    ASSERT_NE(device.faults(), nullptr);
    EXPECT_EQ(device.faults()->engine_count(), device.engine_names().size());
  });
  with_device("virtio-gpu,scanouts=2,edid=off,messages=0",
              [&](bus::Machine& machine, bus::Device& device) {
                EXPECT_EQ(device.functions()[0]->bars().size(), 1U);
                EXPECT_EQ(features(machine, device) & 3, 0U);
              });
}

TEST(Catalog, RefusesWithOneSentence) {
  const struct {
    const char* text;
    const char* why;
  } rows[] = {
      {"softgpu,sleep=1M",
       "'softgpu,sleep=1M': softgpu has no option 'sleep'; it has vram, standby, hibernate, "
       "refresh"},
      {"softgpu,standby=",
       "'softgpu,standby=': standby: '' is not a number of bytes (like "
       "67108864, 64M or 1GiB)"},
      {"softgpu,hibernate=1M", "'softgpu,hibernate=1M': hibernation keeps no more than standby"},
      {"softgpu,vram=5000", "'softgpu,vram=5000': vram: a multiple of 4K from 4K to 1024G"},
      {"softgpu,refresh=1001",
       "'softgpu,refresh=1001': refresh: '1001' is not a whole number from 0 to 1000"},
      {"framebuffer,width=0",
       "'framebuffer,width=0': width: '0' is not a whole number from 1 to 16384"},
      {"framebuffer,pitch=64",
       "'framebuffer,pitch=64': pitch: a multiple of 4, at least 4 bytes per pixel of a row"},
      {"framebuffer,post=maybe", "'framebuffer,post=maybe': post: 'maybe' is neither on nor off"},
      {"virtio-gpu,modes=1280x800+",
       "'virtio-gpu,modes=1280x800+': modes: '1280x800+' is not one to ten different sizes like "
       "1280x800+640x480, even numbers from 64 to 4094"},
      {"virtio-gpu,modes=640x480+640x480",
       "'virtio-gpu,modes=640x480+640x480': modes: '640x480+640x480' is not one to ten different "
       "sizes like 1280x800+640x480, even numbers from 64 to 4094"},
      {"virtio-gpu,scanouts=17",
       "'virtio-gpu,scanouts=17': scanouts: '17' is not a whole number from 1 to 16"},
      {"virtio-gpu,memory=4K", "'virtio-gpu,memory=4K': memory: 1M to 64G"},
      {"toaster",
       "'toaster': there is no device of that name; there are softgpu, framebuffer, ram, "
       "virtio-gpu, vfio, vfio-user, none, pci:VENDOR:DEVICE, vfio:DDDD:BB:DD.F, vfio-user:SOCKET, "
       "and plug-ins (FILE.so)"},
      {"vfio-user", "'vfio-user': socket: the path of the server's socket is missing"},
      {"toaster.so", "toaster.so: there is no such device plug-in"},
  };
  for (const auto& row : rows) {
    const auto choice = catalog().parse(row.text);
    ASSERT_FALSE(choice.has_value()) << row.text;
    EXPECT_EQ(choice.error(), row.why);
  }
}

}  // namespace
}  // namespace dxgkit::devices
