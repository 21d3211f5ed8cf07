// paging.*: video memory too small for what is used in turn, so that every use moves it.
#include <cstring>

#include "base/check.h"
#include "bench/client.h"
#include "bench/harness.h"
#include "devices/softgpu/softgpu.h"
#include "miniports/softgpu/softgpu_umd.h"

namespace dxgkit::bench {
namespace {

constexpr uint64_t kSystemBytes = uint64_t{512} << 20;
constexpr uint64_t kAllocationBytes = uint64_t{64} << 20;
constexpr uint64_t kVramBytes = kAllocationBytes + kAllocationBytes / 2;

/// Two allocations of which one fits. Each use writes one word, so what leaves is dirty.
struct Thrash {
  explicit Thrash(runtime::Runtime& os)
      : world(os, kSystemBytes),
        gpu(std::make_unique<softgpu::SoftGpu>(
            os, world.machine(),
            softgpu::SoftGpuConfig{.vram_bytes = kVramBytes, .timing = {}, .faults = {}})) {
    port::DriverSource source;
    source.name = "softgpu";
    source.path = DXGKIT_BENCH_MINIPORT;
    if (!world.start(source, gpu->function()) || !world.create_context(SGPU_UMD_NODE_3D, &context))
      return;
    fence = world.create_fence();
    for (D3DKMT_HANDLE& allocation : allocations) {
      SgpuUmdAllocation wanted = {};
      wanted.magic = SGPU_UMD_ALLOCATION_MAGIC;
      wanted.version = SGPU_UMD_VERSION;
      wanted.kind = SGPU_UMD_KIND_BUFFER;
      wanted.placement = SGPU_UMD_PLACE_VRAM;
      wanted.size_bytes = kAllocationBytes;
      allocation = world.create_allocation(&wanted, sizeof(wanted));
    }
    if (!world.error().empty()) return;
    // First uses fill instead of moving.
    use_both();
    const dxgk::AdapterStatistics before = world.statistics();
    use_both();
    const dxgk::AdapterStatistics after = world.statistics();
    bytes_moved =
        static_cast<double>(after.bytes_in - before.bytes_in + after.bytes_out - before.bytes_out);
  }
  ~Thrash() { world.stop(); }

  void use(D3DKMT_HANDLE allocation) {
    struct Commands {
      SgpuUmdBufferHeader header;
      SgpuUmdFill fill;
    };
    Commands commands = {};
    commands.header = {SGPU_UMD_BUFFER_MAGIC, SGPU_UMD_VERSION, sizeof(commands), 0};
    commands.fill.header = {SGPU_UMD_OP_FILL, sizeof(commands.fill)};
    commands.fill.size_bytes = 4;
    commands.fill.pattern = static_cast<uint32_t>(value);
    std::memcpy(context.commands, &commands, sizeof(commands));
    context.allocations[0] = {};
    context.allocations[0].hAllocation = allocation;
    context.allocations[0].WriteOperation = 1;
    DXGKIT_CHECK(world.render(context, sizeof(commands), 1));
    DXGKIT_CHECK(world.signal(context, fence, ++value));
    DXGKIT_CHECK(world.wait(fence, value));
  }
  void use_both() {
    for (const D3DKMT_HANDLE allocation : allocations) use(allocation);
  }

  World world;
  std::unique_ptr<softgpu::SoftGpu> gpu;
  World::Context context;
  D3DKMT_HANDLE fence = 0;
  D3DKMT_HANDLE allocations[2] = {0, 0};
  uint64_t value = 0;
  double bytes_moved = 0;  // by one use_both, as the kernel counts it
};

/// The same moves by memcpy between ordinary buffers: out of one place, into it, twice.
struct Copies {
  static constexpr size_t kBytes = kAllocationBytes;
  std::vector<std::byte> place = std::vector<std::byte>(kBytes, std::byte{1});
  std::vector<std::byte> stores[2] = {std::vector<std::byte>(kBytes, std::byte{2}),
                                      std::vector<std::byte>(kBytes, std::byte{3})};
  void both() {
    for (int i = 0; i < 2; ++i) {
      std::memcpy(stores[1 - i].data(), place.data(), kBytes);
      std::memcpy(place.data(), stores[i].data(), kBytes);
    }
    keep(place.data());
  }
};

Line copy_bandwidth(runtime::Runtime& os, const char* name) {
  Line line;
  line.name = name;
  line.what = "evict 64 MiB and page in 64 MiB, from Render to fence / memcpy of the same sizes";
  line.unit = Unit::kGigabytesPerSecond;
  line.goal = Goal::kAtLeast;
  line.target = 0.9;
  const auto thrash = std::make_shared<Thrash>(os);
  line.unavailable = thrash->world.error();
  if (line.unavailable.empty() && thrash->bytes_moved < 4.0 * kAllocationBytes) {
    line.unavailable = "the uses did not evict";
  }
  line.ours = {.batch = [thrash] { thrash->use_both(); }, .operations = thrash->bytes_moved};
  const auto copies = std::make_shared<Copies>();
  line.reference =
      Side{.batch = [copies] { copies->both(); }, .operations = 4.0 * kAllocationBytes};
  return line;
}

}  // namespace

void add_paging_lines(runtime::Runtime& os, std::vector<Maker>& lines) {
  lines.push_back(
      {"paging.copy_bandwidth", [&os] { return copy_bandwidth(os, "paging.copy_bandwidth"); }});
}

}  // namespace dxgkit::bench
