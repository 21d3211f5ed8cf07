// The most that a broken or malicious command stream can do is to fault its engine.
#include <gtest/gtest.h>

#include <limits>

#include "devices/softgpu/test_rig.h"

namespace dxgkit::softgpu {
namespace {

using testing::Commands;
using testing::kVram;
using testing::Lcg;
using testing::Mode;
using testing::Rig;

constexpr uint64_t kVramBytes = 8 << 20;
constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

using SoftGpuHostile = testing::InBothRuntimes;

struct Case {
  const char* what;
  uint32_t reason;
  Commands commands;
};

template <typename Command, typename Change>
Commands broken(uint32_t opcode, Command command, Change change) {
  change(command);
  return Commands().add(opcode, command);
}

SgpuConvolve good_convolve() {
  SgpuConvolve command{};
  command.source = kVram;
  command.destination = kVram + (1 << 20);
  command.source_pitch = command.destination_pitch = 64;
  command.source_width = command.source_height = 16;
  command.output_width = command.output_height = 16;
  command.kernel_width = command.kernel_height = 3;
  command.divisor = 9;
  return command;
}
constexpr SgpuDownscale kDownscale{{}, kVram, kVram + (1 << 20), 64, 32, 16, 16};
constexpr SgpuChecksum kChecksum{{}, kVram, kVram + (1 << 20), 64, 64, 16, SGPU_CHECKSUM_FNV1A64};
constexpr SgpuBlit2d kBlit{{}, kVram, kVram + (1 << 20), 64, 64, 64, 16};
constexpr SgpuFenceWrite kFence{{}, kVram, 1, 8, 0};
constexpr SgpuDelay kDelay{{}, 1, 0, 0};

std::vector<Case> cases(uint64_t page) {
  std::vector<Case> list;
  const auto add = [&](const char* what, uint32_t reason, Commands commands) {
    list.push_back({what, reason, std::move(commands)});
  };
  const auto header = [](uint32_t opcode, uint32_t size, uint32_t present) {
    std::vector<uint32_t> words(present / 4);
    words[0] = opcode;
    words[1] = size;
    return Commands().raw(words.data(), present);
  };
  // Framing.
  add("size zero", SGPU_FAULT_SIZE, header(SGPU_OP_NOP, 0, 8));
  add("size below a header", SGPU_FAULT_SIZE, header(SGPU_OP_NOP, 4, 8));
  add("size no multiple of 8", SGPU_FAULT_SIZE, header(SGPU_OP_NOP, 12, 16));
  add("size past the buffer", SGPU_FAULT_SIZE, header(SGPU_OP_NOP, 24, 16));
  add("size wraps", SGPU_FAULT_SIZE, header(SGPU_OP_NOP, 0xFFFF'FFF8, 16));
  add("END with a body", SGPU_FAULT_SIZE, header(SGPU_OP_END, 16, 16));
  add("FENCE_WRITE too short", SGPU_FAULT_SIZE, header(SGPU_OP_FENCE_WRITE, 24, 32));
  add("CONVOLVE too long", SGPU_FAULT_SIZE, header(SGPU_OP_CONVOLVE, 288, 288));
  add("list command shorter than its head", SGPU_FAULT_SIZE, header(SGPU_OP_COPY_PAGES, 8, 40));
  add("unknown opcode", SGPU_FAULT_OPCODE, header(SGPU_OP_COUNT, 8, 8));
  add("opcode of all ones", SGPU_FAULT_OPCODE, header(0xFFFF'FFFF, 8, 8));
  // Semaphores.
  for (const uint32_t op : {SGPU_OP_FENCE_WRITE, SGPU_OP_SEM_SIGNAL, SGPU_OP_SEM_WAIT}) {
    add("width 2", SGPU_FAULT_ARGUMENT, broken(op, kFence, [](auto& c) { c.width = 2; }));
    add("width 0", SGPU_FAULT_ARGUMENT, broken(op, kFence, [](auto& c) { c.width = 0; }));
    add("reserved", SGPU_FAULT_ARGUMENT, broken(op, kFence, [](auto& c) { c.reserved = 1; }));
    add("value too wide", SGPU_FAULT_ARGUMENT,
        broken(op, kFence, [](auto& c) { c.width = 4, c.value = 1ull << 32; }));
    add("misaligned", SGPU_FAULT_ALIGNMENT, broken(op, kFence, [](auto& c) { c.address += 4; }));
    add("outside", SGPU_FAULT_ADDRESS,
        broken(op, kFence, [](auto& c) { c.address = kVram + kVramBytes; }));
    add("at the top", SGPU_FAULT_ADDRESS,
        broken(op, kFence, [](auto& c) { c.address = kHuge - 7; }));
    add("null", SGPU_FAULT_ADDRESS, broken(op, kFence, [](auto& c) { c.address = 0; }));
    add("aperture not mapped", SGPU_FAULT_APERTURE,
        broken(op, kFence, [](auto& c) { c.address = SGPU_APERTURE_BASE; }));
  }
  // Linear.
  add("COPY from beyond VRAM", SGPU_FAULT_ADDRESS,
      Commands().copy(kVram + kVramBytes - 4, kVram, 8));
  add("COPY to beyond VRAM", SGPU_FAULT_ADDRESS, Commands().copy(kVram, kVram + kVramBytes - 4, 8));
  add("COPY size wraps", SGPU_FAULT_ADDRESS, Commands().copy(kVram + 8, kVram + 16, kHuge - 4));
  add("COPY address wraps", SGPU_FAULT_ADDRESS, Commands().copy(kHuge, kVram, 2));
  add("COPY across regions", SGPU_FAULT_ADDRESS, Commands().copy(page, SGPU_VRAM_BASE - 8, 16));
  add("FILL misaligned", SGPU_FAULT_ALIGNMENT, Commands().fill(kVram + 2, 8, 1));
  add("FILL odd size", SGPU_FAULT_ARGUMENT, Commands().fill(kVram, 7, 1));
  add("FILL huge", SGPU_FAULT_ADDRESS, Commands().fill(kVram, kHuge - 3, 1));
  add("FILL reserved", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_FILL, SgpuFill{{}, kVram, 8, 1, 0}, [](auto& c) { c.reserved = 1; }));
  // Page lists.
  const SgpuCopyPages pages{{}, kVram, 4096, 0, 0, SGPU_COPY_TO_PAGES, 0};
  const auto paged = [&](auto change, std::vector<uint64_t> entries) {
    SgpuCopyPages command = pages;
    change(command);
    return Commands().add_list(SGPU_OP_COPY_PAGES, command, entries);
  };
  add("list too short", SGPU_FAULT_ARGUMENT, paged([](auto& c) { c.page_offset = 1; }, {page}));
  add("empty list", SGPU_FAULT_ARGUMENT, paged([](auto&) {}, {}));
  add("offset past a page", SGPU_FAULT_ARGUMENT,
      paged([](auto& c) { c.page_offset = 4096, c.size = 1; }, {page, page}));
  add("size wraps", SGPU_FAULT_ARGUMENT,
      paged([](auto& c) { c.page_offset = 8, c.size = kHuge - 3; }, {page}));
  add("direction", SGPU_FAULT_ARGUMENT, paged([](auto& c) { c.direction = 2; }, {page}));
  add("reserved", SGPU_FAULT_ARGUMENT, paged([](auto& c) { c.reserved = 1; }, {page}));
  add("page misaligned", SGPU_FAULT_ALIGNMENT, paged([](auto&) {}, {page + 8}));
  add("page in VRAM", SGPU_FAULT_ADDRESS, paged([](auto&) {}, {kVram}));
  add("second page bad", SGPU_FAULT_ADDRESS, paged([](auto& c) { c.size = 8192; }, {page, 0}));
  add("linear outside", SGPU_FAULT_ADDRESS,
      paged([](auto& c) { c.linear = kVram + kVramBytes - 1; }, {page}));
  {
    SgpuCopyPages lying = pages;
    lying.header = {SGPU_OP_COPY_PAGES, sizeof lying + 8};
    lying.page_count = 2;
    add("count disagrees with size", SGPU_FAULT_SIZE,
        Commands().raw(&lying, sizeof lying).raw(&page, 8));
    lying.page_count = 0x2000'0001;  // times 8 is 8 in 32 bits
    add("count wraps to its size", SGPU_FAULT_SIZE,
        Commands().raw(&lying, sizeof lying).raw(&page, 8));
  }
  // Aperture.
  const auto map = [&](uint32_t first, std::vector<uint64_t> entries) {
    return Commands().add_list(SGPU_OP_MAP_APERTURE, SgpuMapAperture{{}, first, 0}, entries);
  };
  add("MAP past the end", SGPU_FAULT_ARGUMENT, map(SGPU_APERTURE_PAGES - 1, {page, page}));
  add("MAP first wraps", SGPU_FAULT_ARGUMENT, map(0xFFFF'FFFF, {page, page}));
  add("MAP misaligned", SGPU_FAULT_ALIGNMENT, map(0, {page, page | 1}));
  add("MAP no system page", SGPU_FAULT_ADDRESS, map(0, {page, kVram}));
  const SgpuUnmapAperture unmap{{}, 0, 1, page};
  add("UNMAP past the end", SGPU_FAULT_ARGUMENT, broken(SGPU_OP_UNMAP_APERTURE, unmap, [](auto& c) {
        c.page_count = SGPU_APERTURE_PAGES + 1;
      }));
  add("UNMAP wraps", SGPU_FAULT_ARGUMENT, broken(SGPU_OP_UNMAP_APERTURE, unmap, [](auto& c) {
        c.first_page = 2, c.page_count = 0xFFFF'FFFF;
      }));
  add("UNMAP dummy misaligned", SGPU_FAULT_ALIGNMENT,
      broken(SGPU_OP_UNMAP_APERTURE, unmap, [](auto& c) { c.dummy_page += 1; }));
  add("UNMAP dummy outside", SGPU_FAULT_ADDRESS,
      broken(SGPU_OP_UNMAP_APERTURE, unmap, [](auto& c) { c.dummy_page = 4096; }));
  // Rectangles.
  add("BLIT no width", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_BLIT2D, kBlit, [](auto& c) { c.width_bytes = 0; }));
  add("BLIT no height", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_BLIT2D, kBlit, [](auto& c) { c.height = 0; }));
  add("BLIT source pitch", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_BLIT2D, kBlit, [](auto& c) { c.source_pitch = 63; }));
  add("BLIT target pitch", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_BLIT2D, kBlit, [](auto& c) { c.destination_pitch = 0; }));
  add("BLIT largest extent", SGPU_FAULT_ADDRESS, broken(SGPU_OP_BLIT2D, kBlit, [](auto& c) {
        c.source_pitch = c.destination_pitch = c.width_bytes = c.height = 0xFFFF'FFFF;
      }));
  add("BLIT last row outside", SGPU_FAULT_ADDRESS,
      broken(SGPU_OP_BLIT2D, kBlit, [](auto& c) { c.destination = kVram + kVramBytes - 64 * 15; }));
  add("CHECKSUM no width", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_CHECKSUM, kChecksum, [](auto& c) { c.width_bytes = 0; }));
  add("CHECKSUM no height", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_CHECKSUM, kChecksum, [](auto& c) { c.height = 0; }));
  add("CHECKSUM pitch", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_CHECKSUM, kChecksum, [](auto& c) { c.pitch = 8; }));
  add("CHECKSUM kind", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_CHECKSUM, kChecksum, [](auto& c) { c.kind = 2; }));
  add("CHECKSUM result misaligned", SGPU_FAULT_ALIGNMENT,
      broken(SGPU_OP_CHECKSUM, kChecksum, [](auto& c) { c.result += 4; }));
  add("CHECKSUM result outside", SGPU_FAULT_ADDRESS,
      broken(SGPU_OP_CHECKSUM, kChecksum, [](auto& c) { c.result = 0; }));
  add("CHECKSUM outside", SGPU_FAULT_ADDRESS,
      broken(SGPU_OP_CHECKSUM, kChecksum, [](auto& c) { c.height = 0xFFFF'FFFF; }));
  const auto down = [&](const char* what, uint32_t reason, auto change) {
    add(what, reason, broken(SGPU_OP_DOWNSCALE, kDownscale, change));
  };
  down("DOWNSCALE no width", SGPU_FAULT_ARGUMENT, [](auto& c) { c.source_width = 0; });
  down("DOWNSCALE too high", SGPU_FAULT_ARGUMENT,
       [](auto& c) { c.source_height = SGPU_IMAGE_PIXELS_MAX + 1; });
  down("DOWNSCALE source pitch", SGPU_FAULT_ARGUMENT, [](auto& c) { c.source_pitch = 60; });
  down("DOWNSCALE target pitch odd", SGPU_FAULT_ARGUMENT,
       [](auto& c) { c.destination_pitch = 34; });
  down("DOWNSCALE source misaligned", SGPU_FAULT_ALIGNMENT, [](auto& c) { c.source += 1; });
  down("DOWNSCALE target misaligned", SGPU_FAULT_ALIGNMENT, [](auto& c) { c.destination += 2; });
  down("DOWNSCALE in place", SGPU_FAULT_ARGUMENT, [](auto& c) { c.destination = c.source; });
  down("DOWNSCALE outside", SGPU_FAULT_ADDRESS, [](auto& c) { c.source_pitch = 0xFFFF'FFFC; });
  const auto convolve = [&](const char* what, uint32_t reason, auto change) {
    add(what, reason, broken(SGPU_OP_CONVOLVE, good_convolve(), change));
  };
  convolve("CONVOLVE flags", SGPU_FAULT_ARGUMENT, [](auto& c) { c.flags = 8; });
  convolve("CONVOLVE reserved", SGPU_FAULT_ARGUMENT, [](auto& c) { c.reserved = 1; });
  convolve("CONVOLVE reserved2", SGPU_FAULT_ARGUMENT, [](auto& c) { c.reserved2 = 1; });
  convolve("CONVOLVE no source", SGPU_FAULT_ARGUMENT, [](auto& c) { c.source_width = 0; });
  convolve("CONVOLVE no output", SGPU_FAULT_ARGUMENT, [](auto& c) { c.output_height = 0; });
  convolve("CONVOLVE output left of nothing", SGPU_FAULT_ARGUMENT, [](auto& c) { c.output_x = 1; });
  convolve("CONVOLVE output wraps", SGPU_FAULT_ARGUMENT,
           [](auto& c) { c.output_y = 0xFFFF'FFFF, c.output_height = 2; });
  convolve("CONVOLVE even kernel", SGPU_FAULT_ARGUMENT, [](auto& c) { c.kernel_width = 2; });
  convolve("CONVOLVE no kernel", SGPU_FAULT_ARGUMENT, [](auto& c) { c.kernel_height = 0; });
  convolve("CONVOLVE kernel of 9", SGPU_FAULT_ARGUMENT, [](auto& c) { c.kernel_height = 9; });
  convolve("CONVOLVE divisor 0", SGPU_FAULT_ARGUMENT, [](auto& c) { c.divisor = 0; });
  convolve("CONVOLVE divisor negative", SGPU_FAULT_ARGUMENT,
           [](auto& c) { c.divisor = std::numeric_limits<int32_t>::min(); });
  convolve("CONVOLVE divisor large", SGPU_FAULT_ARGUMENT,
           [](auto& c) { c.divisor = SGPU_DIVISOR_MAX + 1; });
  convolve("CONVOLVE bias", SGPU_FAULT_ARGUMENT, [](auto& c) { c.bias = 256; });
  convolve("CONVOLVE pitch", SGPU_FAULT_ARGUMENT, [](auto& c) { c.source_pitch = 60; });
  convolve("CONVOLVE pitch odd", SGPU_FAULT_ARGUMENT, [](auto& c) { c.destination_pitch = 65; });
  convolve("CONVOLVE misaligned", SGPU_FAULT_ALIGNMENT, [](auto& c) { c.source += 2; });
  convolve("CONVOLVE overlaps", SGPU_FAULT_ARGUMENT,
           [](auto& c) { c.destination = c.source + 1020; });
  convolve("CONVOLVE outside", SGPU_FAULT_ADDRESS,
           [](auto& c) { c.source = kVram + kVramBytes - 1020; });
  // Time.
  add("DELAY forever", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_DELAY, kDelay, [](auto& c) { c.duration_ns = kHuge; }));
  add("DELAY flags", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_DELAY, kDelay, [](auto& c) { c.flags = 2; }));
  add("DELAY reserved", SGPU_FAULT_ARGUMENT,
      broken(SGPU_OP_DELAY, kDelay, [](auto& c) { c.reserved = 1; }));
  return list;
}

// Each case breaks one thing; the engine reports it where it is and no byte of memory has changed.
TEST_P(SoftGpuHostile, BrokenCommandsFaultAndChangeNothing) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    Lcg random(1);
    const uint64_t page = rig.pages(1)[0];
    const auto content = random.bytes(1 << 16);
    rig.put(kVram, content);
    rig.put(page, random.bytes(4096));
    const auto page_content = rig.take(page, 4096);
    const auto target = rig.take(kVram + (1 << 20), 1 << 16);
    for (const Case& each : cases(page)) {
      SCOPED_TRACE(each.what);
      Commands commands;  // something sound before it, to see the offset reported
      commands.nop(24).raw(each.commands.bytes().data(), each.commands.bytes().size());
      EXPECT_FALSE(rig.run(0, commands));
      EXPECT_EQ(rig.node32(0, SGPU_NODE_FAULT_REASON), each.reason);
      EXPECT_EQ(rig.node32(0, SGPU_NODE_FAULT_OFFSET), 24u);
      EXPECT_EQ(rig.node32(0, SGPU_NODE_FAULT_FENCE), rig.last_fence());
      rig.reset(0);
      rig.start(0);
    }
    EXPECT_EQ(rig.take(kVram, 1 << 16), content);
    EXPECT_EQ(rig.take(kVram + (1 << 20), 1 << 16), target);
    EXPECT_EQ(rig.take(page, 4096), page_content);
    EXPECT_EQ(rig.get32(SGPU_REG_DUMMY_WRITES), 0u);
    // The commands the cases started from are sound.
    Commands sound;
    sound.add(SGPU_OP_CONVOLVE, good_convolve())
        .add(SGPU_OP_DOWNSCALE, kDownscale)
        .add(SGPU_OP_CHECKSUM, kChecksum);
    sound.add(SGPU_OP_BLIT2D, kBlit).add(SGPU_OP_FENCE_WRITE, kFence).add(SGPU_OP_DELAY, kDelay);
    EXPECT_TRUE(rig.run(0, sound));
  });
}

TEST_P(SoftGpuHostile, CopyNodeRefusesImageCommands) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    EXPECT_EQ(rig.fault_of(1, Commands().add(SGPU_OP_CONVOLVE, good_convolve())), SGPU_FAULT_NODE);
    EXPECT_EQ(rig.fault_of(1, Commands().add(SGPU_OP_DOWNSCALE, kDownscale)), SGPU_FAULT_NODE);
  });
}

// Random commands with plausible headers and random or nearly right fields, at full speed on both
// nodes: each buffer completes or faults, and memory outside the machine's stays untouched (the
// sanitizers watch).
TEST(SoftGpuHostileFuzz, RandomStreamsCompleteOrFault) {
  constexpr uint32_t kSizes[SGPU_OP_COUNT] = {
      8, 8, 32, 32, 48, 32, 40, sizeof(SgpuConvolve), 40, 40, 32, 32, 24, 24, 24, 32, 32, 32};
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Rig rig(*runtime);
    uint32_t completed = 0;
    uint32_t faulted = 0;
    const auto pages = rig.pages(16);
    const uint64_t buffer = rig.system_memory(1 << 16);
    for (uint64_t seed = 0; seed < 1500; ++seed) {
      Lcg random(seed);
      Commands commands;
      for (int i = 0; i < 3; ++i) {
        const auto opcode = static_cast<uint32_t>(random.below(SGPU_OP_COUNT));
        if (opcode == SGPU_OP_SEM_WAIT || opcode == SGPU_OP_DELAY)
          continue;  // may rightly never end
        std::vector<uint64_t> words(kSizes[opcode] / 8);
        words[0] = opcode | uint64_t{kSizes[opcode]} << 32;
        for (size_t w = 1; w < words.size(); ++w) {
          const uint64_t choices[] = {random.next(),
                                      kVram + random.below(kVramBytes) / 64 * 64,
                                      pages[random.below(16)],
                                      random.below(64) | random.below(64) << 32,
                                      8 | uint64_t{1} << 32,
                                      0,
                                      SGPU_APERTURE_BASE + random.below(1 << 16)};
          words[w] = choices[random.below(std::size(choices))];
        }
        commands.raw(words.data(), kSizes[opcode]);
      }
      if (!commands.bytes().empty()) {
        std::memcpy(rig.at(buffer, commands.bytes().size()), commands.bytes().data(),
                    commands.bytes().size());
      }
      const uint32_t node = static_cast<uint32_t>(seed % 2);
      const uint32_t fence = static_cast<uint32_t>(seed + 1);
      SgpuRingEntry entry{};
      entry.type = SGPU_RING_EXECUTE;
      entry.fence = fence;
      entry.address = buffer;
      entry.length = static_cast<uint32_t>(commands.bytes().size());
      rig.submit(node, entry);
      rig.wait([&] {
        return (rig.node32(node, SGPU_NODE_STATUS) & SGPU_STATUS_FAULTED) != 0 ||
               rig.node32(node, SGPU_NODE_COMPLETED_FENCE) == fence;
      });
      if ((rig.node32(node, SGPU_NODE_STATUS) & SGPU_STATUS_FAULTED) != 0) {
        ++faulted;
        rig.reset(node);
        rig.start(node);
      } else {
        ++completed;
      }
    }
    EXPECT_GT(completed, 20u);
    EXPECT_GT(faulted, 500u);
  });
}

INSTANTIATE_TEST_SUITE_P(Runtimes, SoftGpuHostile, ::testing::Values(Mode::kOs, Mode::kSim),
                         testing::mode_name);

}  // namespace
}  // namespace dxgkit::softgpu
