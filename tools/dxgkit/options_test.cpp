#include "tools/dxgkit/options.h"

#include <gtest/gtest.h>

namespace dxgkit::tool {
namespace {

TEST(Options, BytesTakeBinarySuffixes) {
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("67108864"), 64U << 20);
  EXPECT_EQ(parse_bytes("64M"), 64U << 20);
  EXPECT_EQ(parse_bytes("3k"), 3072U);
  EXPECT_EQ(parse_bytes("1GiB"), 1U << 30);
  for (const char* text : {"", "M", "-1", "1.5M", "64 M", "64MB", "0x10", "18446744073709551616",
                           "18014398509481984K"}) {
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
  }
}

TEST(Options, SizesStayWithinWhatDevicesCanName) {
  EXPECT_EQ(parse_size("4096x2160"), std::pair(4096U, 2160U));
  EXPECT_EQ(parse_size("1x32768"), std::pair(1U, 32768U));
  for (const char* text : {"", "x", "5", "5x", "x5", "0x5", "5x0", "32769x1", "-5x5", "5x5x5",
                           "5X5", " 5x5", "32768x32768"}) {
    EXPECT_FALSE(parse_size(text).has_value()) << text;
  }
}

TEST(Options, SeedRangesIncludeBothEnds) {
  const auto range = parse_seeds("1..1000");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->first, 1U);
  EXPECT_EQ(range->last, 1000U);
  EXPECT_TRUE(parse_seeds("7..7").has_value());
  EXPECT_TRUE(parse_seeds("18446744073709551615..18446744073709551615").has_value());
  for (const char* text :
       {"", "..", "1..", "..5", "5", "5..3", "a..b", "1...3", "-1..3", "0..18446744073709551615"}) {
    EXPECT_FALSE(parse_seeds(text).has_value()) << text;
  }
}

TEST(Options, ModesAndSeeds) {
  EXPECT_EQ(parse_mode("os"), Mode::kOs);
  EXPECT_EQ(parse_mode("sim"), Mode::kSim);
  EXPECT_FALSE(parse_mode("Sim").has_value());
  EXPECT_EQ(parse_seed("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "-1", "1.0", "18446744073709551616"})
    EXPECT_FALSE(parse_seed(text).has_value()) << text;
}

TEST(Options, ClientApis) {
  EXPECT_EQ(parse_client_api("d3dkmt"), ClientApi::kD3dkmt);
  EXPECT_EQ(parse_client_api("umd"), ClientApi::kUmd);
  EXPECT_EQ(parse_client_place("threads"), ClientPlace::kThreads);
  EXPECT_EQ(parse_client_place("processes"), ClientPlace::kProcesses);
  EXPECT_EQ(parse_client_place("process").error(),
            "'process' is no place for clients: threads or processes; did you mean processes?");
  for (const char* text : {"", "UMD", "d3d"})
    EXPECT_FALSE(parse_client_api(text).has_value()) << text;
}

TEST(Options, Models) {
  EXPECT_EQ(parse_model("patch"), MemoryModel::kPatch);
  EXPECT_EQ(parse_model("gpuva"), MemoryModel::kFourLevels);
  EXPECT_EQ(parse_model("gpuva:1"), MemoryModel::kTwoLevels);
  EXPECT_EQ(parse_model("gpuva:2"), MemoryModel::kFourLevels);
  EXPECT_EQ(parse_model("gpuva:3"), MemoryModel::kLargePages);
  for (const char* text : {"", "gpuva:", "gpuva:0", "gpuva:4", "gpuva:02", "GpuVa", "patch:0"})
    EXPECT_FALSE(parse_model(text).has_value()) << text;
}

/// Names and options are the catalog's and tested there; here, that the tool asks it.
TEST(Options, Devices) {
  EXPECT_EQ(default_device().text, "softgpu");
  EXPECT_EQ(default_device().type->name, "softgpu");
  EXPECT_TRUE(default_device().options.all().empty());
  const auto keeps = parse_device("softgpu,standby=all,hibernate=64M");
  ASSERT_TRUE(keeps.has_value());
  EXPECT_EQ(keeps->options.find("standby"), "all");
  EXPECT_EQ(keeps->options.find("hibernate"), "64M");
  for (const char* bad : {"softgpu,", "softgpu,standby", "softgpu,standby=", "softgpu,sleep=1M",
                          "softgpu,hibernate=1M", "softgpu,standby=1M,", "softgpus"}) {
    EXPECT_FALSE(parse_device(bad).has_value()) << bad;
  }
  EXPECT_EQ(parse_device("framebuffer")->type->name, "framebuffer");
  EXPECT_EQ(parse_device("none")->type->name, "ram");
  EXPECT_EQ(parse_device("none")->text, "none");
  const auto bars = parse_device("pci:10De:1,bar2=256M,bar0=16K");
  ASSERT_TRUE(bars.has_value());
  EXPECT_EQ(bars->type->name, "ram");
  EXPECT_EQ(bars->options.find("vendor"), "10De");
  EXPECT_EQ(bars->options.find("device"), "1");
  EXPECT_EQ(bars->options.find("bar2"), "256M");
  for (const char* bad : {"",
                          "pci",
                          "pci:",
                          "pci:1",
                          "pci:1:",
                          "pci::1",
                          "pci:10000:1",
                          "pci:-1:1",
                          "pci:1:2:3",
                          "pci:1:2,",
                          "pci:1:2,bar0",
                          "pci:1:2,bar0=",
                          "pci:1:2,bar5=4K",
                          "pci:1:2,barx=4K",
                          "pci:1:2,bar0=3K",
                          "pci:1:2,bar0=2K",
                          "pci:1:2,bar0=2G",
                          "pci:1:2,bar0=4K,bar1=4K",
                          "pci:1:2,bar0=4K,bar0=4K",
                          "Softgpu"}) {
    EXPECT_FALSE(parse_device(bad).has_value()) << bad;
  }
}

/// A device that works in real time only is refused in simulation.
TEST(Options, DevicesThatCannotBeSimulated) {
  bus::DeviceType type;
  type.name = "real";
  type.simulated = false;
  const DeviceChoice choice{
      .text = "real", .type = std::make_shared<const bus::DeviceType>(type), .options = {}};
  EXPECT_TRUE(check_mode(choice, Mode::kOs).has_value());
  EXPECT_EQ(check_mode(choice, Mode::kSim).error(),
            "--device real: it lives in real time only and cannot be simulated");
  EXPECT_TRUE(check_mode(default_device(), Mode::kSim).has_value());
}

TEST(Options, Hangs) {
  const auto hang = parse_hang("3d:40");
  ASSERT_TRUE(hang.has_value());
  EXPECT_EQ(hang->node, 0U);
  EXPECT_EQ(hang->packet, 40U);
  EXPECT_EQ(parse_hang("copy:1")->node, 1U);
  for (const char* bad :
       {"", "3d", "3d:", "3d:0", "3d:-1", "3d:4294967296", "video:1", ":1", "3d:1 "})
    EXPECT_FALSE(parse_hang(bad).has_value()) << bad;
}

TEST(Options, Switches) {
  EXPECT_EQ(parse_switches("AlwaysRepatch")->on, 1U);
  EXPECT_EQ(parse_switches("TakeSplitPoint,NeverPrepatch")->on, 1U << 6 | 1U << 5);
  EXPECT_EQ(parse_switches("all")->on, (1U << 10) - 1);
  EXPECT_EQ(parse_switches("0")->on, 0U);
  EXPECT_EQ(parse_switches("0x101")->on, 1U << 6 | 1U << 0) << "bits of the flags, not ours";
  EXPECT_EQ(parse_switches("257")->on, 1U << 6 | 1U << 0);
  for (const char* bad : {"", "AlwaysRepatch,", "alwaysrepatch", "AlwaysRepatch NeverPrepatch", "2",
                          "0x", "0x80000000", "4294967296", "FailVaRotation"})
    EXPECT_FALSE(parse_switches(bad).has_value()) << bad;
}

}  // namespace
}  // namespace dxgkit::tool
