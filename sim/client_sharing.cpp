// Resources of several processes: one writes them, then everybody reads them.
#include <algorithm>

#include "base/arithmetic.h"
#include "sim/client_call.h"

namespace dxgkit::sim {
namespace {

constexpr size_t kSharedMost = 8;

}  // namespace

void Client::op_share() {
  if (world_.shared.size() >= kSharedMost) return;
  const uint64_t bytes = align_up(
      random_.magnitude(4, std::max<uint64_t>(4, world_.plan.allocation_bytes_max / 4)), 4);
  if (bytes_live() + bytes > world_.plan.client_bytes) return;
  const uint32_t placement = random_.percent(50) ? SGPU_UMD_PLACE_VRAM : SGPU_UMD_PLACE_ANY;
  SgpuUmdAllocation wanted{};
  wanted.magic = SGPU_UMD_ALLOCATION_MAGIC;
  wanted.version = SGPU_UMD_VERSION;
  wanted.kind = SGPU_UMD_KIND_BUFFER;
  wanted.placement = placement;
  wanted.size_bytes = bytes;
  D3DDDI_ALLOCATIONINFO2 info{};
  info.pPrivateDriverData = &wanted;
  info.PrivateDriverDataSize = sizeof(wanted);
  D3DKMT_CREATEALLOCATION create{};
  create.hDevice = device_;
  create.NumAllocations = 1;
  create.pAllocationInfo2 = &info;
  create.Flags.CreateResource = 1;
  create.Flags.CreateShared = 1;
  const NTSTATUS status =
      call("D3DKMTCreateAllocation2", [&] { return D3DKMTCreateAllocation2(&create); });
  if (!accepted("D3DKMTCreateAllocation2", status)) return;
  auto made = std::make_unique<Allocation>();
  made->handle = made->first_handle = info.hAllocation;
  made->resource = create.hResource;
  made->placement = placement;
  made->content = Content(bytes);
  allocations_.push_back(std::move(made));
  Allocation& allocation = *allocations_.back();
  Command fill{
      .destination = &allocation, .size = bytes, .pattern = static_cast<uint32_t>(random_.next())};
  const bool written = submit(*any_context(), std::span(&fill, 1));
  allocation.read_only = true;
  settle(allocation, true);
  // It is shown again, to be read.
  if (!hide(allocation) || !written) return;
  world_.shared.push_back({options_.number, create.hGlobalShare, placement, allocation.content,
                           world_.adapter_resets()});
}

void Client::op_open_shared() {
  if (world_.shared.empty() || allocations_.size() >= 24) return;
  const Shared& chosen = world_.shared[random_.below(world_.shared.size())];
  Content content = chosen.content;
  const uint64_t resets = chosen.adapter_resets;
  const uint32_t placement = chosen.placement;
  const D3DKMT_HANDLE global = chosen.global;
  if (bytes_live() + content.size() > world_.plan.client_bytes) return;
  D3DDDI_OPENALLOCATIONINFO2 info{};
  SgpuUmdAllocation data{};
  std::byte unused[8] = {};
  D3DKMT_OPENRESOURCE open{};
  open.hDevice = device_;
  open.hGlobalShare = global;
  open.NumAllocations = 1;
  open.pOpenAllocationInfo2 = &info;
  open.pPrivateRuntimeData = unused;
  open.pResourcePrivateDriverData = unused;
  open.pTotalPrivateDriverDataBuffer = &data;
  open.TotalPrivateDriverDataBufferSize = sizeof(data);
  const NTSTATUS status = call("D3DKMTOpenResource2", [&] { return D3DKMTOpenResource2(&open); });
  // Whoever had it may be gone, and it with them.
  if (from_ntstatus(status) == Status::kInvalidParameter ||
      from_ntstatus(status) == Status::kInvalidHandle) {
    ++world_.counters.refused_calls;
    std::erase_if(world_.shared, [&](const Shared& one) { return one.global == global; });
    return;
  }
  if (!accepted("D3DKMTOpenResource2", status)) return;
  auto opened = std::make_unique<Allocation>();
  opened->handle = opened->first_handle = info.hAllocation;
  opened->resource = open.hResource;
  opened->placement = placement;
  if (resets != world_.adapter_resets()) content.open(0, content.size());
  opened->content = content;
  opened->read_only = true;
  allocations_.push_back(std::move(opened));
  ++world_.counters.openings;
  if (random_.percent(40)) static_cast<void>(verify(*allocations_.back()));
}

}  // namespace dxgkit::sim
