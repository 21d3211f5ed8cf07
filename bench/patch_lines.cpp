// patch.*: the miniport's patch loop beside the same loop without its checks.
#include <cstring>
#include <random>
#include <vector>

#include "bench/harness.h"
#include "miniports/softgpu/commands.h"

namespace dxgkit::bench {
namespace {

/// A DMA buffer full of FILL commands as the miniport's translation writes them, 32 bytes and two
/// patch locations each, that use `allocations` allocations in random order.
struct Buffer {
  Buffer(uint32_t dma_bytes, uint32_t allocation_count) {
    open.resize(allocation_count);
    allocations.resize(allocation_count);
    for (uint32_t i = 0; i < allocation_count; ++i) {
      open[i] = {65536, &open[i]};
      allocations[i] = {};
      allocations[i].hDeviceSpecificAllocation = &open[i];
      allocations[i].WriteOperation = 1;
      allocations[i].SegmentId = 1;
      allocations[i].PhysicalAddress.QuadPart = static_cast<LONGLONG>(0x1'0000'0000 + i * 65536LL);
    }
    const uint32_t commands = dma_bytes / static_cast<uint32_t>(sizeof(SgpuUmdFill));
    std::vector<uint8_t> user(sizeof(SgpuUmdBufferHeader) + commands * sizeof(SgpuUmdFill));
    const SgpuUmdBufferHeader header = {SGPU_UMD_BUFFER_MAGIC, SGPU_UMD_VERSION,
                                        static_cast<uint32_t>(user.size()), 0};
    std::memcpy(user.data(), &header, sizeof(header));
    // The same order in every run; chance itself is not what is measured.
    std::minstd_rand order(7);
    for (uint32_t i = 0; i < commands; ++i) {
      SgpuUmdFill fill = {};
      fill.header = {SGPU_UMD_OP_FILL, sizeof(fill)};
      fill.destination = {static_cast<uint32_t>(order() % allocation_count), 64 * (i % 512)};
      fill.size_bytes = 64;
      std::memcpy(user.data() + sizeof(header) + i * sizeof(fill), &fill, sizeof(fill));
    }
    dma.resize(dma_bytes);
    patches.resize(size_t{commands} * softgpu::kSlots);
    softgpu::TranslateJob translate = {};
    translate.read = [](void* to, const void* from, SIZE_T bytes) -> NTSTATUS {
      std::memcpy(to, from, bytes);
      return STATUS_SUCCESS;
    };
    translate.command = user.data();
    translate.command_length = static_cast<UINT>(user.size());
    translate.allocations = allocations.data();
    translate.allocation_count = allocation_count;
    translate.dma = dma.data();
    translate.dma_size = dma_bytes;
    translate.patches = patches.data();
    translate.patch_capacity = static_cast<UINT>(patches.size());
    ready =
        softgpu::translate(&translate) == STATUS_SUCCESS && translate.patch_count == patches.size();
    job = {dma.data(),
           0,
           dma_bytes,
           allocations.data(),
           allocation_count,
           patches.data(),
           translate.patch_count,
           0,
           translate.patch_count};
  }

  std::vector<softgpu::OpenAllocation> open;
  std::vector<DXGK_ALLOCATIONLIST> allocations;
  std::vector<D3DDDI_PATCHLOCATIONLIST> patches;
  std::vector<UCHAR> dma;
  softgpu::PatchJob job = {};
  bool ready = false;
};

/// The loop of softgpu::patch with the checks left out: an unbound slot is still skipped.
[[gnu::noinline]] NTSTATUS patch_unchecked(const softgpu::PatchJob& job) {
  UCHAR* const dma = job.dma;
  const DXGK_ALLOCATIONLIST* const allocations = job.allocations;
  const D3DDDI_PATCHLOCATIONLIST* location = job.patches + job.first;
  const D3DDDI_PATCHLOCATIONLIST* const end = location + job.length;
  for (; location != end; ++location) {
    const DXGK_ALLOCATIONLIST& entry = allocations[location->AllocationIndex];
    if (entry.hDeviceSpecificAllocation == nullptr) continue;
    const UINT64 address =
        static_cast<UINT64>(entry.PhysicalAddress.QuadPart) + location->AllocationOffset;
    __builtin_memcpy(dma + location->PatchOffset, &address, sizeof(address));
  }
  return STATUS_SUCCESS;
}

Line patch_line(std::string name, uint32_t dma_bytes, uint32_t allocations, uint32_t rounds) {
  const auto buffer = std::make_shared<Buffer>(dma_bytes, allocations);
  Line line;
  line.name = std::move(name);
  line.what = "patch locations: the driver's loop / the same loop without its checks";
  line.unit = Unit::kMillionsPerSecond;
  line.goal = Goal::kAtLeast;
  line.target = 0.95;
  if (!buffer->ready) line.unavailable = "the miniport refused the buffer";
  const double operations = static_cast<double>(buffer->job.length) * rounds;
  line.ours = {.warm = [buffer] { keep(softgpu::patch(buffer->job)); },
               .batch =
                   [buffer, rounds] {
                     for (uint32_t i = 0; i < rounds; ++i) keep(softgpu::patch(buffer->job));
                   },
               .operations = operations};
  line.reference = {.warm = [buffer] { keep(patch_unchecked(buffer->job)); },
                    .batch =
                        [buffer, rounds] {
                          for (uint32_t i = 0; i < rounds; ++i) keep(patch_unchecked(buffer->job));
                        },
                    .operations = operations};
  line.fixture = buffer;
  return line;
}

}  // namespace

void add_patch_lines(std::vector<Maker>& lines) {
  const auto add = [&](const char* name, uint32_t dma_bytes, uint32_t allocations,
                       uint32_t rounds) {
    lines.push_back({name, [=] { return patch_line(name, dma_bytes, allocations, rounds); }});
  };
  add("patch.validated_64KiB_64", 64U << 10, 64, 16);
  add("patch.validated_64KiB_4096", 64U << 10, 4096, 16);
  add("patch.validated_64KiB_65536", 64U << 10, 65'536, 16);
  add("patch.validated_4MiB_64", 4U << 20, 64, 1);
  add("patch.validated_4MiB_4096", 4U << 20, 4096, 1);
  add("patch.validated_4MiB_65536", 4U << 20, 65'536, 1);
}

}  // namespace dxgkit::bench
