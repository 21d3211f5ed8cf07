// Every command through the ring, on real threads and in simulation.
#include <gtest/gtest.h>

#include "devices/softgpu/reference.h"
#include "devices/softgpu/test_rig.h"

namespace dxgkit::softgpu {
namespace {

using testing::Commands;
using testing::kVram;
using testing::Lcg;
using testing::Mode;
using testing::Rig;
using testing::Served;

constexpr uint64_t kAperture = SGPU_APERTURE_BASE;

using SoftGpuCommands = testing::InBothRuntimes;

TEST_P(SoftGpuCommands, FenceWriteStoresExactlyItsWidth) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.set_word(kVram, ~uint64_t{0});
    rig.set_word(kVram + 8, ~uint64_t{0});
    EXPECT_TRUE(
        rig.run(0, Commands().fence_write(kVram, 0x1234, 4).fence_write(kVram + 8, 0x1'0000'0005)));
    EXPECT_EQ(rig.word(kVram), 0xFFFF'FFFF'0000'1234u);
    EXPECT_EQ(rig.word(kVram + 8), 0x1'0000'0005u);
  });
}

TEST_P(SoftGpuCommands, EndStopsTheBufferAndNopDoesNothing) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    EXPECT_TRUE(
        rig.run(0, Commands().nop().nop(4096).fence_write(kVram, 1).end().fence_write(kVram, 2)));
    EXPECT_EQ(rig.word(kVram), 1u);
    EXPECT_TRUE(rig.run(1, Commands()));
  });
}

TEST_P(SoftGpuCommands, CopyMovesBetweenAllKindsOfMemory) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    Lcg random(3);
    const auto content = random.bytes(40'000);
    const uint64_t system = rig.system_memory(50'000);
    const auto pages = rig.pages(12);
    rig.put(system + 3, content);
    Commands commands;
    commands.add_list(SGPU_OP_MAP_APERTURE, SgpuMapAperture{{}, 100, 0}, pages)
        .copy(system + 3, kVram + 1, content.size())
        .copy(kVram + 1, SGPU_APERTURE_BASE + 100 * 4096 + 17, content.size())
        .copy(SGPU_APERTURE_BASE + 100 * 4096 + 17, kVram + 100'001, content.size())
        .copy(kVram, kVram, 0);
    EXPECT_TRUE(rig.run(SGPU_NODE_COPY, commands));
    EXPECT_EQ(rig.take(kVram + 1, content.size()), content);
    EXPECT_EQ(rig.take(kVram + 100'001, content.size()), content);
    EXPECT_EQ(rig.take(pages[0] + 17, 100), std::vector(content.begin(), content.begin() + 100));
    EXPECT_EQ(rig.take(pages[1], 4096),
              std::vector(content.begin() + 4079, content.begin() + 4079 + 4096));
  });
}

// Overlap in both directions and over more than one chunk, in one piece and through scattered
// pages.
TEST_P(SoftGpuCommands, OverlappingCopiesMoveAsThroughABuffer) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const auto pages = rig.pages(600);
    EXPECT_TRUE(
        rig.run(0, Commands().add_list(SGPU_OP_MAP_APERTURE, SgpuMapAperture{{}, 0, 0}, pages)));
    Lcg random(4);
    const auto content = random.bytes(2'300'000);
    for (const uint64_t base : {kVram, kAperture}) {
      for (const auto& [from, to] :
           std::vector<std::pair<uint64_t, uint64_t>>{{10, 5'000}, {5'000, 10}, {7, 7}}) {
        SCOPED_TRACE(::testing::Message() << std::hex << base << " " << from << " " << to);
        const uint64_t staging = kVram + (4 << 20);
        rig.put(staging, content);
        EXPECT_TRUE(rig.run(0, Commands()
                                   .copy(staging, base + from, content.size())
                                   .copy(base + from, base + to, content.size())
                                   .fill(staging, 2'300'000, 0)
                                   .copy(base + to, staging, content.size())));
        EXPECT_EQ(rig.take(staging, content.size()), content);
      }
    }
  });
}

TEST_P(SoftGpuCommands, CopyPagesGathersAndScatters) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    Lcg random(5);
    const auto pages = rig.pages(6);
    const auto content = random.bytes(3 * 4096 + 500);
    rig.put(kVram + 64, content);
    const SgpuCopyPages out{{}, kVram + 64, content.size(), 4000, 0, SGPU_COPY_TO_PAGES, 0};
    const SgpuCopyPages in{{}, kVram + (1 << 20), content.size(), 4000, 0, SGPU_COPY_FROM_PAGES, 0};
    EXPECT_TRUE(rig.run(SGPU_NODE_COPY, Commands()
                                            .add_list(SGPU_OP_COPY_PAGES, out, pages)
                                            .add_list(SGPU_OP_COPY_PAGES, in, pages)));
    EXPECT_EQ(rig.take(kVram + (1 << 20), content.size()), content);
    EXPECT_EQ(rig.take(pages[0] + 4000, 96), std::vector(content.begin(), content.begin() + 96));
    EXPECT_EQ(rig.take(pages[2], 4096),
              std::vector(content.begin() + 96 + 4096, content.begin() + 96 + 8192));
    EXPECT_EQ(rig.take(pages[0], 4000), std::vector<uint8_t>(4000, 0));
    EXPECT_EQ(rig.take(pages[5], 4096), std::vector<uint8_t>(4096, 0));  // the list may be longer
  });
}

TEST_P(SoftGpuCommands, FillRepeatsItsPattern) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    EXPECT_TRUE(rig.run(
        1,
        Commands().fill(kVram + 4, 12, 0xAABBCCDD).fill(kVram + (1 << 20), 3 << 20, 0x01020304)));
    const std::vector<uint8_t> expected = {0,    0,    0,    0,    0xDD, 0xCC, 0xBB,
                                           0xAA, 0xDD, 0xCC, 0xBB, 0xAA, 0xDD, 0xCC,
                                           0xBB, 0xAA, 0,    0,    0,    0};
    EXPECT_EQ(rig.take(kVram, 20), expected);
    const auto large = rig.take(kVram + (1 << 20), 3 << 20);
    for (size_t i = 0; i < large.size(); ++i) ASSERT_EQ(large[i], 4 - i % 4) << i;
    EXPECT_EQ(rig.take(kVram + (4 << 20), 4), std::vector<uint8_t>(4, 0));
  });
}

TEST_P(SoftGpuCommands, Blit2dMovesRowsAndLeavesTheGaps) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    Lcg random(6);
    const auto source = random.bytes(100 * 20);
    rig.put(kVram, source);
    const uint64_t target = kVram + (1 << 20);
    const SgpuBlit2d blit{{}, kVram + 5, target, 100, 64, 33, 19};
    EXPECT_TRUE(rig.run(1, Commands().add(SGPU_OP_BLIT2D, blit)));
    const auto got = rig.take(target, 64 * 20);
    for (uint32_t y = 0; y < 20; ++y) {
      for (uint32_t x = 0; x < 64; ++x) {
        const bool inside = x < 33 && y < 19;
        ASSERT_EQ(got[y * 64 + x], inside ? source[y * 100 + x + 5] : 0) << x << "," << y;
      }
    }
  });
}

reference::Image noise(uint32_t width, uint32_t height, uint64_t seed) {
  return {width, height, Lcg(seed).bytes(size_t{width} * height * 4)};
}

SgpuConvolve command_for(const reference::Image& image, const reference::Filter& filter) {
  SgpuConvolve command{};
  command.source_pitch = image.width * 4;
  command.destination_pitch = image.width * 4;
  command.source_width = command.output_width = image.width;
  command.source_height = command.output_height = image.height;
  command.kernel_width = filter.width;
  command.kernel_height = filter.height;
  command.divisor = filter.divisor;
  command.bias = filter.bias;
  if (filter.magnitude == reference::Magnitude::kGradient) command.flags |= SGPU_CONVOLVE_GRADIENT;
  if (filter.alpha == reference::Alpha::kKeep) command.flags |= SGPU_CONVOLVE_KEEP_ALPHA;
  std::ranges::copy(filter.weights, command.kernel);
  std::ranges::copy(filter.second_weights, command.kernel2);
  return command;
}

// Images in VRAM and images scattered over aperture pages, with a checksum taken by the engine
// itself.
TEST_P(SoftGpuCommands, ImageCommandsEqualTheReferenceWhereverImagesLive) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const auto pages = rig.pages(40);
    EXPECT_TRUE(
        rig.run(0, Commands().add_list(SGPU_OP_MAP_APERTURE, SgpuMapAperture{{}, 0, 0}, pages)));
    const auto image = noise(101, 67, 9);
    rig.put(kVram, image.rgba);
    const uint64_t size = image.rgba.size();
    const uint64_t result = kVram + (6 << 20);
    for (const uint64_t out : {kVram + (1 << 20), kAperture + 20 * 4096}) {
      for (const uint64_t in : {kVram, kAperture}) {
        for (const auto& filter : {reference::gauss_filter(5), reference::sobel_filter()}) {
          SgpuConvolve convolve = command_for(image, filter);
          convolve.source = in;
          convolve.destination = out;
          const SgpuChecksum checksum{{}, out, result, 404, 404, 67, SGPU_CHECKSUM_FNV1A64};
          const SgpuChecksum sum{{}, out, result + 8, 404, 404, 67, SGPU_CHECKSUM_SUM64};
          EXPECT_TRUE(rig.run(0, Commands()
                                     .copy(kVram, in, size)
                                     .add(SGPU_OP_CONVOLVE, convolve)
                                     .add(SGPU_OP_CHECKSUM, checksum)
                                     .add(SGPU_OP_CHECKSUM, sum)
                                     .copy(out, kVram + (2 << 20), size)));
          const auto expected = reference::convolve(image, filter);
          EXPECT_EQ(rig.take(kVram + (2 << 20), size), expected.rgba);
          EXPECT_EQ(rig.word(result), reference::checksum_fnv1a64(expected.rgba));
          EXPECT_EQ(rig.word(result + 8), reference::checksum_sum64(expected.rgba));
        }
        const SgpuDownscale downscale{{}, in, out, 404, 51 * 4, 101, 67};
        EXPECT_TRUE(rig.run(0, Commands()
                                   .add(SGPU_OP_DOWNSCALE, downscale)
                                   .copy(out, kVram + (2 << 20), 51 * 34 * 4)));
        EXPECT_EQ(rig.take(kVram + (2 << 20), 51 * 34 * 4), reference::downscale(image).rgba);
      }
    }
  });
}

TEST_P(SoftGpuCommands, ChecksumSkipsTheGapsOfARectangle) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    Lcg random(8);
    const auto bytes = random.bytes(50 * 7);
    rig.put(kVram, bytes);
    std::vector<uint8_t> rect;
    for (size_t y = 0; y < 7; ++y) {
      rect.insert(rect.end(), bytes.begin() + static_cast<std::ptrdiff_t>(y * 50),
                  bytes.begin() + static_cast<std::ptrdiff_t>(y * 50 + 13));
    }
    const SgpuChecksum checksum{{}, kVram, kVram + 4096, 50, 13, 7, SGPU_CHECKSUM_FNV1A64};
    EXPECT_TRUE(rig.run(1, Commands().add(SGPU_OP_CHECKSUM, checksum)));
    EXPECT_EQ(rig.word(kVram + 4096), reference::checksum_fnv1a64(rect));
  });
}

// --- semaphores

TEST_P(SoftGpuCommands, SemaphoresOrderTheTwoNodes) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const uint64_t ping = kVram;
    const uint64_t pong = kVram + 8;
    Commands first;
    Commands second;
    for (uint64_t round = 1; round <= 20; ++round) {
      first.sem_wait(pong, round - 1).fence_write(kVram + 64, round).sem_signal(ping, round);
      second.sem_wait(ping, round)
          .copy(kVram + 64, kVram + 1024 + round * 8, 8)
          .sem_signal(pong, round);
    }
    rig.execute(0, first, 501);
    rig.execute(1, second, 502);
    rig.wait([&] {
      return rig.saw({Served::kComplete, 0, 501}) && rig.saw({Served::kComplete, 1, 502});
    });
    for (uint64_t round = 1; round <= 20; ++round)
      EXPECT_EQ(rig.word(kVram + 1024 + round * 8), round);
  });
}

TEST_P(SoftGpuCommands, SemSignalNeverLowersAndComparesUnsigned) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.set_word(kVram, 0xFFFF'FFFF'0000'0005);
    EXPECT_TRUE(rig.run(0, Commands()
                               .sem_signal(kVram, 9)
                               .sem_signal(kVram + 8, 0x8000'0000, 4)
                               .sem_signal(kVram + 8, 7, 4)
                               .sem_wait(kVram + 8, 0x7FFF'FFFF, 4)
                               .sem_wait(kVram, 0xFFFF'FFFF'0000'0005)));
    EXPECT_EQ(rig.word(kVram), 0xFFFF'FFFF'0000'0005u);
    EXPECT_EQ(rig.word(kVram + 8), 0x8000'0000u);
  });
}

// A CPU may release a waiting engine, with the doorbell or, later, without.
TEST_P(SoftGpuCommands, CpuReleasesAWaitingEngine) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    for (const bool ring : {true, false}) {
      const uint32_t fence = ring ? 11 : 12;
      rig.execute(0, Commands().sem_wait(kVram, fence).fence_write(kVram + 8, fence), fence);
      while ((rig.node32(0, SGPU_NODE_STATUS) & SGPU_STATUS_WAITING) == 0) {
        runtime.sleep_for(runtime::kMicrosecond);  // until the engine is there
      }
      EXPECT_NE(rig.word(kVram + 8), fence);
      rig.set_word(kVram, fence);
      if (ring) rig.set32(SGPU_REG_SEM_DOORBELL, 1);
      rig.wait([&] { return rig.saw({Served::kComplete, 0, fence}); });
      EXPECT_EQ(rig.word(kVram + 8), fence);
      EXPECT_EQ(rig.node32(0, SGPU_NODE_STATUS) & SGPU_STATUS_WAITING, 0u);
    }
  });
}

// --- aperture

TEST_P(SoftGpuCommands, UnmapLeadsToTheDummyPageAndWritesAreCounted) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const auto pages = rig.pages(3);
    const uint64_t dummy = pages[2];
    const uint64_t at = SGPU_APERTURE_BASE + 7 * 4096;
    Commands map;
    map.add_list(SGPU_OP_MAP_APERTURE, SgpuMapAperture{{}, 7, 0}, {pages[0], pages[1]})
        .fill(at, 8192, 1);
    EXPECT_TRUE(rig.run(0, map));
    EXPECT_EQ(rig.get32(SGPU_REG_DUMMY_WRITES), 0u);
    Commands unmap;
    unmap.add(SGPU_OP_UNMAP_APERTURE, SgpuUnmapAperture{{}, 7, 2, dummy}).fill(at, 8192, 2);
    EXPECT_TRUE(rig.run(0, unmap));
    EXPECT_EQ(rig.take(pages[0], 4), (std::vector<uint8_t>{1, 0, 0, 0}));
    EXPECT_EQ(rig.take(pages[1] + 4092, 4), (std::vector<uint8_t>{1, 0, 0, 0}));
    EXPECT_EQ(rig.take(dummy, 4), (std::vector<uint8_t>{2, 0, 0, 0}));
    EXPECT_EQ(rig.get32(SGPU_REG_DUMMY_WRITES), 2u);
    rig.set32(SGPU_REG_DUMMY_WRITES, 0);
    EXPECT_EQ(rig.get32(SGPU_REG_DUMMY_WRITES), 0u);
    uint64_t address = 0;
    Commands gone;
    gone.add(SGPU_OP_UNMAP_APERTURE, SgpuUnmapAperture{{}, 8, 1, 0}).fill(at, 8192, 3);
    EXPECT_EQ(rig.fault_of(0, gone, &address), SGPU_FAULT_APERTURE);
    EXPECT_EQ(address, at + 4096);
    EXPECT_EQ(rig.take(dummy, 4),
              (std::vector<uint8_t>{2, 0, 0, 0}));  // nothing of the faulting fill
  });
}

TEST_P(SoftGpuCommands, RegistersMapTheApertureToo) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const auto pages = rig.pages(2);
    rig.set32(SGPU_REG_APERTURE_INDEX, SGPU_APERTURE_PAGES - 2);
    rig.set64(SGPU_REG_APERTURE_ENTRY, pages[0] | SGPU_ENTRY_VALID);
    rig.set64(SGPU_REG_APERTURE_ENTRY, pages[1] | SGPU_ENTRY_VALID);
    rig.set64(SGPU_REG_APERTURE_ENTRY, pages[1] | SGPU_ENTRY_VALID);  // past the end: dropped
    EXPECT_EQ(rig.get32(SGPU_REG_APERTURE_INDEX), SGPU_APERTURE_PAGES + 1);
    EXPECT_EQ(rig.get64(SGPU_REG_APERTURE_ENTRY), 0u);
    rig.set32(SGPU_REG_APERTURE_INDEX, SGPU_APERTURE_PAGES - 1);
    EXPECT_EQ(rig.get64(SGPU_REG_APERTURE_ENTRY), pages[1] | SGPU_ENTRY_VALID);
    EXPECT_TRUE(
        rig.run(0, Commands().fill(SGPU_APERTURE_BASE + SGPU_APERTURE_BYTES - 4, 4, 0x11223344)));
    EXPECT_EQ(rig.take(pages[1] + 4092, 4), (std::vector<uint8_t>{0x44, 0x33, 0x22, 0x11}));
  });
}

// --- time

TEST_P(SoftGpuCommands, DelayKeepsTheEngineBusyForItsTime) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const runtime::TimeNs start = runtime.now();
    EXPECT_TRUE(rig.run(0, Commands().delay(300'000)));
    EXPECT_GE(runtime.now() - start, 300'000);
  });
}

// In simulation work takes the modelled time, to the nanosecond; and the two engines overlap.
TEST(SoftGpuTiming, SimulatedWorkTakesModelledTime) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    SoftGpuConfig config{.vram_bytes = 8 << 20, .timing = {}, .faults = {}};
    config.timing = {.entry_ns = 1000,
                     .command_ns = 100,
                     .bus_bytes_per_us = 1000,
                     .vram_bytes_per_us = 10'000,
                     .taps_per_us = 10};
    Rig rig(*runtime, config);
    const uint64_t system = rig.system_memory(1 << 16);
    const auto timed = [&](const Commands& commands) {
      const runtime::TimeNs start = runtime->now();
      EXPECT_TRUE(rig.run(0, commands));
      return runtime->now() - start;
    };
    EXPECT_EQ(timed(Commands()), 1000);
    EXPECT_EQ(timed(Commands().nop().nop()), 1200);
    EXPECT_EQ(timed(Commands().copy(kVram, kVram + 65536, 10'000)), 1100 + 1000);
    EXPECT_EQ(timed(Commands().copy(kVram, system, 10'000)), 1100 + 10'000);
    EXPECT_EQ(timed(Commands().delay(5000)), 1100 + 5000);
    SgpuConvolve convolve = command_for(noise(10, 10, 1), reference::box_filter(3));
    convolve.source = kVram;
    convolve.destination = kVram + 4096;
    EXPECT_EQ(timed(Commands().add(SGPU_OP_CONVOLVE, convolve)), 1100 + 90'000);
    const runtime::TimeNs start = runtime->now();
    rig.execute(0, Commands().delay(50'000), 901);
    rig.execute(1, Commands().delay(50'000), 902);
    rig.wait([&] {
      return rig.saw({Served::kComplete, 0, 901}) && rig.saw({Served::kComplete, 1, 902});
    });
    EXPECT_EQ(runtime->now() - start, 51'100);
  });
}

INSTANTIATE_TEST_SUITE_P(Runtimes, SoftGpuCommands, ::testing::Values(Mode::kOs, Mode::kSim),
                         testing::mode_name);

}  // namespace
}  // namespace dxgkit::softgpu
