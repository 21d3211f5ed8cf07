// Resources of several processes: one process writes and all read, or all write in turn.
#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "sim/client_call.h"

namespace dxgkit::sim {
namespace {

constexpr size_t kSharedMost = 8;

}  // namespace

Client::Allocation* Client::make_shared(uint64_t bytes, uint32_t placement, D3DKMT_HANDLE* global) {
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
  if (!accepted("D3DKMTCreateAllocation2", status)) return nullptr;
  auto made = std::make_unique<Allocation>();
  made->handle = made->first_handle = info.hAllocation;
  made->resource = create.hResource;
  made->placement = placement;
  made->content = Content(bytes);
  allocations_.push_back(std::move(made));
  *global = create.hGlobalShare;
  return allocations_.back().get();
}

Client::Allocation* Client::open_shared(const Shared& shared) {
  const D3DKMT_HANDLE global = shared.global;
  auto opened = std::make_unique<Allocation>();
  opened->content = shared.content;
  opened->placement = shared.placement;
  opened->common = shared.common;
  opened->read_only = shared.common == nullptr;
  const uint64_t losses = shared.losses;
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
  // The previous owner of the turn may have ended, and the resource with it.
  if (from_ntstatus(status) == Status::kInvalidParameter ||
      from_ntstatus(status) == Status::kInvalidHandle) {
    ++world_.counters.refused_calls;
    for (std::vector<Shared>* const list : {&world_.shared, &world_.commons})
      std::erase_if(*list, [&](const Shared& one) { return one.global == global; });
    return nullptr;
  }
  if (!accepted("D3DKMTOpenResource2", status)) return nullptr;
  opened->handle = opened->first_handle = info.hAllocation;
  opened->resource = open.hResource;
  if (losses != world_.losses()) opened->content.open(0, opened->size());
  allocations_.push_back(std::move(opened));
  ++world_.counters.openings;
  return allocations_.back().get();
}

void Client::op_share() {
  if (world_.shared.size() >= kSharedMost) return;
  const uint64_t bytes = align_up(
      random_.magnitude(4, std::max<uint64_t>(4, world_.plan.allocation_bytes_max / 4)), 4);
  if (bytes_live() + bytes > world_.plan.client_bytes) return;
  const uint32_t placement = random_.percent(50) ? SGPU_UMD_PLACE_VRAM : SGPU_UMD_PLACE_ANY;
  D3DKMT_HANDLE global = 0;
  Allocation* const made = make_shared(bytes, placement, &global);
  if (made == nullptr) return;
  Allocation& allocation = *made;
  const uint64_t losses = world_.losses();  // any loss from here on destroys this write
  Command fill{
      .destination = &allocation, .size = bytes, .pattern = static_cast<uint32_t>(random_.next())};
  const bool written = submit(*any_context(), std::span(&fill, 1));
  allocation.read_only = true;
  settle(allocation, true);
  // It is shown again, to be read.
  if (!hide(allocation) || !written) return;
  world_.shared.push_back({options_.number, global, placement, allocation.content, losses});
}

void Client::op_open_shared() {
  if (world_.shared.empty() || allocations_.size() >= 24) return;
  const Shared& chosen = world_.shared[random_.below(world_.shared.size())];
  if (bytes_live() + chosen.content.size() > world_.plan.client_bytes) return;
  Allocation* const opened = open_shared(chosen);
  if (opened != nullptr && random_.percent(40)) static_cast<void>(verify(*opened));
}

// --- written by several

void Client::work_with_others() {
  if (world_.faults.phase() != Faults::Phase::kWorking || !extra_.percent(world_.plan.commons))
    return;
  std::vector<Allocation*> mine;
  for (const auto& allocation : allocations_)
    if (allocation->common != nullptr) mine.push_back(allocation.get());
  if (mine.size() < 2 && allocations_.size() < 24) {
    const bool opens = !world_.commons.empty() && extra_.percent(75);
    const uint64_t most = std::max<uint64_t>(4, world_.plan.allocation_bytes_max / 4);
    if (opens) {
      const Shared& chosen = world_.commons[extra_.below(world_.commons.size())];
      const bool has = std::ranges::any_of(
          mine, [&](const Allocation* one) { return one->common == chosen.common; });
      if (!has && bytes_live() + chosen.content.size() <= world_.plan.client_bytes)
        mine.push_back(open_shared(chosen));
    } else if (world_.commons.size() < 3 && bytes_live() + most <= world_.plan.client_bytes) {
      const uint64_t bytes = align_up(extra_.magnitude(4, most), 4);
      const uint32_t placement = extra_.percent(50) ? SGPU_UMD_PLACE_VRAM : SGPU_UMD_PLACE_ANY;
      D3DKMT_HANDLE global = 0;
      if (Allocation* const made = make_shared(bytes, placement, &global); made != nullptr) {
        made->common = std::make_shared<Common>(
            Common{.content = Content(bytes), .taken = false, .losses = world_.losses()});
        mine.push_back(made);
        world_.commons.push_back(
            {options_.number, global, placement, Content(bytes), world_.losses(), made->common});
      }
    }
    std::erase(mine, nullptr);
  }
  if (!mine.empty()) take_turn(*mine[extra_.below(mine.size())], extra_.percent(60));
}

void Client::take_turn(Allocation& allocation, bool write) {
  const std::shared_ptr<Common> common = allocation.common;
  if (common->taken) return;
  common->taken = true;
  turn_ = common;
  const auto note_losses = [&](Content& content) {
    if (common->losses != world_.losses()) content.open(0, content.size());
    common->losses = world_.losses();
  };
  note_losses(common->content);
  allocation.content = common->content;
  const uint64_t words = allocation.size() / 4;
  const uint64_t offset = extra_.below(words) * 4;
  const uint64_t bytes = extra_.magnitude(1, words - offset / 4) * 4;
  const bool by_cpu = allocation.placement != SGPU_UMD_PLACE_VRAM && extra_.percent(40);
  if (!write) {
    static_cast<void>(verify(allocation));
  } else if (by_cpu) {
    if (lock(allocation)) {
      std::vector<std::byte> data(bytes, static_cast<std::byte>(extra_.next()));
      std::memcpy(allocation.locked + offset, data.data(), data.size());
      allocation.content.write(offset, data);
      unlock(allocation);
    }
  } else {
    const Command fill{.destination = &allocation,
                       .offset = offset,
                       .size = bytes,
                       .pattern = static_cast<uint32_t>(extra_.next())};
    static_cast<void>(submit(*any_context(), std::span(&fill, 1)));
  }
  settle(allocation, true);  // the next client finds it done
  note_losses(allocation.content);
  common->content = allocation.content;
  ++world_.counters.common_uses;
  common->taken = false;
  turn_.reset();
}

void Client::give_up_turn() {
  for (Named& one : world_.named)
    if (one.name == named_turn_) one.taken = false;
  named_turn_.clear();
  if (turn_ == nullptr) return;
  turn_->content.open(0, turn_->content.size());
  turn_->taken = false;
  turn_.reset();
}

}  // namespace dxgkit::sim
