// Maps through the whole path: D3DKMTMapGpuVirtualAddress to the signalled paging fence.
#include <algorithm>

#include "base/check.h"
#include "bench/client.h"
#include "bench/harness.h"
#include "devices/softgpu/softgpu.h"
#include "miniports/softgpu/softgpu_umd.h"

namespace dxgkit::bench {
namespace {

constexpr uint64_t kPages = 16;  // per map
constexpr uint32_t kMaps = 256;  // per batch
constexpr uint64_t kVram = 64 << 20;

nt::KernelConfig four_levels() {
  nt::KernelConfig config;
  config.registry[nt::KernelConfig::kDriverKey]["MemoryModel"] = nt::RegistryValue::dword(2);
  return config;
}

/// One resident allocation, mapped over and over at addresses of its own: entries written by the
/// GPU, in tables of four levels.
struct Mapper {
  explicit Mapper(runtime::Runtime& os)
      : world(os, uint64_t{256} << 20, four_levels()),
        gpu(std::make_unique<softgpu::SoftGpu>(
            os, world.machine(),
            softgpu::SoftGpuConfig{.vram_bytes = kVram, .timing = {}, .faults = {}})) {
    port::DriverSource source;
    source.name = "softgpu_wddm2";
    source.path = DXGKIT_BENCH_MINIPORT_WDDM2;
    if (!world.start(source, gpu->function())) return;
    SgpuUmdAllocation wanted = {};
    wanted.magic = SGPU_UMD_ALLOCATION_MAGIC;
    wanted.version = SGPU_UMD_VERSION;
    wanted.kind = SGPU_UMD_KIND_BUFFER;
    wanted.placement = SGPU_UMD_PLACE_VRAM;
    wanted.size_bytes = kPages * 4096;
    allocation = world.create_allocation(&wanted, sizeof(wanted));
    D3DKMT_CREATEPAGINGQUEUE create = {};
    create.hDevice = world.device();
    DXGKIT_CHECK(D3DKMTCreatePagingQueue(&create) >= 0);
    queue = create.hPagingQueue;
    fence = create.hSyncObject;
    D3DDDI_MAKERESIDENT resident = {};
    resident.hPagingQueue = queue;
    resident.NumAllocations = 1;
    resident.AllocationList = &allocation;
    DXGKIT_CHECK(D3DKMTMakeResident(&resident) >= 0);
    DXGKIT_CHECK(world.wait(fence, resident.PagingFenceValue));
    map_all();  // tables are there from now on
  }
  ~Mapper() { world.stop(); }

  /// The same addresses each time: what was mapped there is replaced.
  void map_all() {
    uint64_t last = 0;
    for (uint32_t i = 0; i < kMaps; ++i) {
      D3DDDI_MAPGPUVIRTUALADDRESS map = {};
      map.hPagingQueue = queue;
      map.BaseAddress = kBase + i * kPages * 4096;
      map.hAllocation = allocation;
      map.SizeInPages = kPages;
      map.Protection.Write = even ? 1 : 0;  // so that entries do change
      DXGKIT_CHECK(D3DKMTMapGpuVirtualAddress(&map) >= 0);
      last = std::max(last, map.PagingFenceValue);
    }
    even = !even;
    DXGKIT_CHECK(world.wait(fence, last));
  }

  static constexpr uint64_t kBase = uint64_t{1} << 32;
  World world;
  std::unique_ptr<softgpu::SoftGpu> gpu;
  D3DKMT_HANDLE allocation = 0, queue = 0, fence = 0;
  bool even = false;
};

Line map_call_line(runtime::Runtime& os) {
  Line line;
  line.name = "va.map_calls_vs_spin";
  line.what = "one of 256 D3DKMTMapGpuVirtualAddress to their paging fence / spin hand-off";
  const auto mapper = std::make_shared<Mapper>(os);
  line.unavailable = mapper->world.error();
  line.ours = {.batch = [mapper] { mapper->map_all(); }, .operations = kMaps};
  line.reference = SpinPair::side(os, 400);
  line.fixture = mapper;
  return line;
}

}  // namespace

void add_map_line(runtime::Runtime& os, std::vector<Maker>& lines) {
  lines.push_back({"va.map_calls_vs_spin", [&os] { return map_call_line(os); }});
}

}  // namespace dxgkit::bench
