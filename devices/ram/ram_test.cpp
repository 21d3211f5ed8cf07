// ram: ids and BARs as asked for, with the content that was asked for.
#include "devices/ram/ram.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "bus/machine.h"
#include "runtime/runtime.h"

namespace dxgkit::ram {
namespace {

bus::DeviceRegistry registry() {
  bus::DeviceRegistry all;
  all.add(device_type());
  all.add_spelling(spelling_none());
  all.add_spelling(spelling_pci());
  return all;
}

/// A file with that content; gone at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view content) {
    const int fd = mkstemp(path_);
    EXPECT_EQ(write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    close(fd);
  }
  ~TemporaryFile() { unlink(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/dxgkit_ram_XXXXXX";
};

/// Plugs it in and looks at it.
void with_device(std::string_view text,
                 const std::function<void(bus::Machine&, bus::PciFunction&)>& look) {
  runtime::make_sim_runtime(1)->run_main([&] {
    const auto choice = registry().parse(text);
    ASSERT_TRUE(choice.has_value()) << choice.error();
    bus::Machine machine(1 << 20);
    auto device = choice->make({runtime::Runtime::current(), machine});
    ASSERT_TRUE(device.has_value()) << device.error();
    ASSERT_EQ(bus::plug_in(machine, **device), Status::kSuccess);
    ASSERT_EQ((*device)->functions().size(), 1U);
    look(machine, *(*device)->functions()[0]);
  });
}

TEST(Ram, HasTheIdsItWasGiven) {
  with_device("ram,vendor=8086,device=0x1916,subvendor=1028,subsystem=6e4,revision=7,class=120001",
              [](bus::Machine&, bus::PciFunction& function) {
                const bus::PciIdentity& id = function.identity();
                EXPECT_EQ(id.vendor_id, 0x8086);
                EXPECT_EQ(id.device_id, 0x1916);
                EXPECT_EQ(id.subsystem_vendor_id, 0x1028);
                EXPECT_EQ(id.subsystem_id, 0x6E4);
                EXPECT_EQ(id.revision, 7);
                uint32_t code = 0;
                function.config_read(8, std::as_writable_bytes(std::span(&code, 1)));
                EXPECT_EQ(code, 0x1200'0107U);
                EXPECT_TRUE(function.bars().empty());
              });
}

TEST(Ram, SpellingsStandForIt) {
  for (const char* none : {"none", "ram"}) {
    with_device(none, [](bus::Machine&, bus::PciFunction& function) {
      EXPECT_EQ(function.identity().vendor_id, kVendorId);
      EXPECT_EQ(function.identity().device_id, kDeviceId);
      EXPECT_EQ(function.identity().base_class, 0x03);
      EXPECT_EQ(function.identity().sub_class, 0x02);
      EXPECT_TRUE(function.bars().empty());
    });
  }
  with_device("pci:10De:1,bar2=64K,bar0=16K", [](bus::Machine&, bus::PciFunction& function) {
    EXPECT_EQ(function.identity().vendor_id, 0x10DE);
    EXPECT_EQ(function.identity().device_id, 1);
    ASSERT_EQ(function.bars().size(), 4U);
    EXPECT_EQ(function.bars()[0].size, 16384U);
    EXPECT_EQ(function.bars()[1].kind, bus::BarKind::kNone);
    EXPECT_EQ(function.bars()[2].size, 65536U);
  });
}

TEST(Ram, BarsHaveContent) {
  const TemporaryFile file("registers of a kind");
  const std::string text =
      std::string("ram,bar0=8K,file0=") + file.path() + ",bar2=4K,fill2=DEADbeef01,bar4=4K";
  with_device(text, [](bus::Machine& machine, bus::PciFunction& function) {
    const auto at = [&](size_t slot) {
      const bus::Bar& bar = function.bars()[slot];
      return static_cast<const unsigned char*>(machine.map_io(bar.base, bar.size));
    };
    EXPECT_EQ(std::memcmp(at(0), "registers of a kind", 20), 0) << "and a zero behind it";
    EXPECT_EQ(at(0)[8191], 0);
    EXPECT_EQ(at(2)[0], 0xDE);
    EXPECT_EQ(at(2)[3], 0xEF);
    EXPECT_EQ(at(2)[4], 0x01);
    EXPECT_EQ(at(2)[5], 0xDE);
    EXPECT_EQ(at(2)[4095], 0xDE) << "a pattern cut off where the BAR ends";
    EXPECT_EQ(at(4)[0], 0);
  });
}

TEST(Ram, FirmwareLeavesAPicture) {
  with_device("ram,bar2=4M,post=1024x768", [](bus::Machine&, bus::PciFunction& function) {
    const bus::PostDisplay expected{.bar = 2, .width = 1024, .height = 768, .pitch_bytes = 4096};
    EXPECT_EQ(function.post_display(), expected);
    EXPECT_EQ(function.peek_post_display(), expected);
  });
  for (const char* none : {"ram,bar2=4M", "ram,bar2=4M,post=off"}) {
    with_device(none, [&](bus::Machine&, bus::PciFunction& function) {
      EXPECT_FALSE(function.post_display().has_value()) << none;
    });
  }
}

/// A file may have changed since the options were read.
TEST(Ram, AFileThatGrewIsRefusedWhenTheDeviceIsMade) {
  runtime::make_sim_runtime(1)->run_main([] {
    const TemporaryFile file("x");
    const auto choice = registry().parse(std::string("ram,bar0=4K,file0=") + file.path());
    ASSERT_TRUE(choice.has_value());
    ASSERT_EQ(truncate(file.path(), 4097), 0);
    bus::Machine machine(1 << 20);
    EXPECT_FALSE(choice->make({runtime::Runtime::current(), machine}).has_value());
  });
}

TEST(Ram, RefusesWithOneSentence) {
  const TemporaryFile file(std::string(5000, 'x'));
  const std::string path = file.path();
  const struct {
    std::string text, why;
  } rows[] = {
      {"ram,vendor=zz", "vendor: 'zz' is not a hexadecimal number of 16 bits"},
      {"ram,device=10000", "device: '10000' is not a hexadecimal number of 16 bits"},
      {"ram,revision=100", "revision: '100' is not a hexadecimal number of 8 bits"},
      {"ram,class=1000000", "class: '1000000' is not a hexadecimal number of 24 bits"},
      {"pci:", "vendor: '' is not a hexadecimal number of 16 bits"},
      {"pci:1", "device: '' is not a hexadecimal number of 16 bits"},
      {"pci:1:2:3", "device: '2:3' is not a hexadecimal number of 16 bits"},
      {"pci:-1:1", "vendor: '-1' is not a hexadecimal number of 16 bits"},
      {"ram,bar5=4K", "a BAR is barN=SIZE with N from 0 to 4"},
      {"ram,bar0=3K", "the size of a BAR is a power of two from 4K to 1G"},
      {"ram,bar0=2K", "the size of a BAR is a power of two from 4K to 1G"},
      {"ram,bar0=2G", "the size of a BAR is a power of two from 4K to 1G"},
      {"ram,bar0=", "bar0: '' is not a number of bytes (like 67108864, 64M or 1GiB)"},
      {"ram,bar0=4K,bar1=4K", "two BARs want the same slot (each takes two)"},
      {"ram,file0=" + path, "file0 is content of a BAR that is not there: bar0=SIZE"},
      {"ram,fill9=00", "fill9 is content of a BAR that is not there: bar9=SIZE"},
      {"ram,bar0=4K,file0=" + path, "file0: " + path + " has 5000 bytes, the BAR 4096"},
      {"ram,bar0=4K,file0=/nowhere/at/all", "file0: /nowhere/at/all cannot be read"},
      {"ram,bar0=4K,file0=/tmp", "file0: /tmp cannot be read"},
      {"ram,bar0=8K,fill0=00,file0=" + path, "file0 and fill0 exclude each other"},
      {"ram,bar0=4M,post=", "post: '' is neither WIDTHxHEIGHT nor off"},
      {"ram,bar0=4M,post=1024", "post: '1024' is neither WIDTHxHEIGHT nor off"},
      {"ram,bar0=4M,post=0x768", "post: each side of '0x768' is a number from 1 to 16384"},
      {"ram,bar0=4M,post=4x9x", "post: each side of '4x9x' is a number from 1 to 16384"},
      {"ram,bar0=4M,post=1x99999", "post: each side of '1x99999' is a number from 1 to 16384"},
      {"ram,post=64x48", "post: the picture lies in the first BAR, and there is none"},
      {"ram,bar0=4K,post=64x48", "post: 64x48 needs 12288 bytes, the first BAR has 4096"},
      {"ram,bar0=4K,fill0=",
       "fill0: '' is not a pattern of 1 to 64 bytes, two hexadecimal digits each"},
      {"ram,bar0=4K,fill0=123",
       "fill0: '123' is not a pattern of 1 to 64 bytes, two hexadecimal digits each"},
      {"ram,bar0=4K,fill0=1x",
       "fill0: '1x' is not a pattern of 1 to 64 bytes, two hexadecimal digits each"},
  };
  for (const auto& row : rows) {
    const auto choice = registry().parse(row.text);
    ASSERT_FALSE(choice.has_value()) << row.text;
    EXPECT_EQ(choice.error(), "'" + row.text + "': " + row.why);
  }
}

}  // namespace
}  // namespace dxgkit::ram
