#include "tools/dxgkit/gl/d3dkmt_backend.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/status.h"

namespace dxgkit::gl {
namespace {

using tool::answer_of;
using tool::CallAnswer;
using tool::ClientApi;
using tool::ClientCalls;

/// A resource without shared memory, as one of several samples per pixel, has a page that nobody
/// uses.
constexpr uint64_t kLeastBytes = 4096;

Answer<D3DKMT_HANDLE> open_adapter(LUID adapter) {
  D3DKMT_OPENADAPTERFROMLUID open{};
  open.AdapterLuid = adapter;
  const CallAnswer answer =
      answer_of("D3DKMTOpenAdapterFromLuid", D3DKMTOpenAdapterFromLuid(&open));
  if (answer.refused()) return wrong(answer.error);
  return open.hAdapter;
}

Answer<VgpuUmdAdapterInfo> ask_driver(ClientCalls& calls) {
  VgpuUmdAdapterInfo info{};
  const CallAnswer answer = calls.query_private(&info, sizeof(info));
  if (answer.refused() || info.magic != VGPU_UMD_ADAPTER_MAGIC || info.version < VGPU_UMD_VERSION)
    return wrong("the driver does not speak the user-mode interface of the virtio GPU's driver");
  if ((info.flags & VGPU_UMD_3D) == 0)
    return wrong("the device has no 3D, or the driver does not use it");
  if (info.capset_count > VGPU_UMD_CAPSETS_MAX || info.submit_bytes_max < kDwordBytes)
    return wrong("the driver says nothing sensible of itself");
  return info;
}

}  // namespace

Answer<void> check_driver(LUID adapter) {
  const auto handle = open_adapter(adapter);
  if (!handle.has_value()) return std::unexpected(handle.error());
  const auto calls = tool::make_d3dkmt_calls(*handle);
  if (const auto info = ask_driver(*calls); !info) return std::unexpected(info.error());
  return {};
}

Answer<std::unique_ptr<Backend>> D3dkmtBackend::create(std::unique_ptr<KernelClient> client,
                                                       LUID adapter,
                                                       const std::string& program_name) {
  std::unique_ptr<D3dkmtBackend> backend(new D3dkmtBackend(std::move(client)));
  if (auto done = backend->open(adapter, program_name); !done) return std::unexpected(done.error());
  return backend;
}

Answer<void> D3dkmtBackend::open(LUID adapter, const std::string& program_name) {
  const auto handle = open_adapter(adapter);
  if (!handle.has_value()) return std::unexpected(handle.error());
  adapter_ = *handle;
  calls_ = tool::make_d3dkmt_calls(adapter_);
  const auto info = ask_driver(*calls_);
  if (!info.has_value()) return std::unexpected(info.error());
  submit_bytes_max_ = info->submit_bytes_max;
  list_max_ = info->list_max;
  capability_sets_.assign(info->capsets, info->capsets + info->capset_count);

  D3DKMT_CREATEDEVICE device{};
  device.hAdapter = adapter_;
  if (const auto answer = answer_of("D3DKMTCreateDevice", D3DKMTCreateDevice(&device));
      answer.refused())
    return refused(answer);
  device_ = device.hDevice;
  calls_->use_device(device_);

  VgpuUmdContext data{};
  data.magic = VGPU_UMD_CONTEXT_MAGIC;
  data.version = VGPU_UMD_VERSION;
  program_name.copy(data.name, sizeof(data.name) - 1);
  context_.pPrivateDriverData = &data;
  context_.PrivateDriverDataSize = sizeof(data);
  context_.ClientHint = D3DKMT_CLIENTHINT_OPENGL;
  if (const auto answer = calls_->create_context(context_); answer.refused())
    return refused(answer);

  if ((info->flags & VGPU_UMD_EXPLICIT_RESIDENCY) != 0) {
    if (const auto answer = calls_->create_paging_queue(paging_); answer.refused())
      return refused(answer);
  }

  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence{};
  fence.Info.Type = D3DDDI_MONITORED_FENCE;
  if (const auto answer = calls_->create_fence(fence); answer.refused()) return refused(answer);
  fence_ = fence.hSyncObject;
  completed_ =
      static_cast<const volatile uint64_t*>(fence.Info.MonitoredFence.FenceValueCPUVirtualAddress);
  return {};
}

Answer<std::vector<std::byte>> D3dkmtBackend::capabilities(uint32_t set) {
  const auto found = std::ranges::find(capability_sets_, set, &VgpuUmdCapsetInfo::id);
  if (found == capability_sets_.end()) return std::vector<std::byte>();
  VgpuUmdEscapeCapset head{};
  head.magic = VGPU_UMD_ESCAPE_MAGIC;
  head.version = VGPU_UMD_VERSION;
  head.type = VGPU_UMD_ESCAPE_CAPSET;
  head.capset_id = set;
  head.capset_version = found->version;
  std::vector<std::byte> data(sizeof(head) + found->bytes);
  std::memcpy(data.data(), &head, sizeof(head));
  D3DKMT_ESCAPE escape{};
  escape.hAdapter = adapter_;
  escape.hDevice = device_;
  escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
  escape.pPrivateDriverData = data.data();
  escape.PrivateDriverDataSize = static_cast<UINT>(data.size());
  if (const auto answer = answer_of("D3DKMTEscape", D3DKMTEscape(&escape)); answer.refused())
    return refused(answer);
  std::memcpy(&head, data.data(), sizeof(head));
  if (head.bytes > found->bytes) return wrong("the driver gave more than it has room for");
  data.erase(data.begin(), data.begin() + sizeof(head));
  data.resize(head.bytes);
  return data;
}

Answer<Backend::Id> D3dkmtBackend::create(const ResourceDescription& resource) {
  VgpuUmdResource data{};
  data.magic = VGPU_UMD_RESOURCE_MAGIC;
  data.version = VGPU_UMD_VERSION;
  data.target = resource.target;
  data.format = resource.format;
  data.bind = resource.bind;
  data.width = resource.width;
  data.height = resource.height;
  data.depth = resource.depth;
  data.array_size = std::max<uint32_t>(resource.array_size, 1);
  data.last_level = resource.last_level;
  data.samples = resource.samples;
  data.size_bytes = std::max<uint64_t>(resource.data_bytes, kLeastBytes);
  D3DDDI_ALLOCATIONINFO2 info{};
  info.pPrivateDriverData = &data;
  info.PrivateDriverDataSize = sizeof(data);
  if (const auto answer = calls_->create_allocation(info); answer.refused()) return refused(answer);
  const Id id = next_id_++;
  allocations_[id] = {.handle = info.hAllocation, .device_id = data.resource};
  return id;
}

Answer<void> D3dkmtBackend::destroy(Id resource) {
  // The kernel waits for the work that uses it.
  const D3DKMT_HANDLE handle = allocation(resource).handle;
  allocations_.erase(resource);
  if (const auto answer = calls_->destroy_allocations(&handle, 1); answer.refused())
    return refused(answer);
  return {};
}

Answer<void> D3dkmtBackend::write(Id resource, uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const Allocation& to = allocation(resource);
  if (auto done = wait_for(to.last_use); !done) return done;
  void* address = nullptr;
  if (const auto answer = calls_->lock(to.handle, &address); answer.refused())
    return refused(answer);
  std::memcpy(static_cast<std::byte*>(address) + offset, bytes.data(), bytes.size());
  if (const auto answer = calls_->unlock(to.handle); answer.refused()) return refused(answer);
  return {};
}

Answer<void> D3dkmtBackend::read(Id resource, uint64_t offset, std::span<std::byte> bytes) {
  const Allocation& from = allocation(resource);
  if (auto done = wait_for(from.last_use); !done) return done;
  // What a lost device did not draw is no picture.
  if (const std::string lost = tool::why_lost(device_); !lost.empty()) return wrong(lost);
  if (bytes.empty()) return {};
  void* address = nullptr;
  if (const auto answer = calls_->lock(from.handle, &address); answer.refused())
    return refused(answer);
  std::memcpy(bytes.data(), static_cast<const std::byte*>(address) + offset, bytes.size());
  if (const auto answer = calls_->unlock(from.handle); answer.refused()) return refused(answer);
  return {};
}

std::optional<uint32_t> D3dkmtBackend::list(Allocation& allocation, bool written) {
  if (allocation.listed != submissions_ + 1) {
    if (listed_ == std::min<uint32_t>(context_.AllocationListSize, list_max_)) return std::nullopt;
    context_.pAllocationList[listed_] = {};
    context_.pAllocationList[listed_].hAllocation = allocation.handle;
    allocation.listed = submissions_ + 1;
    allocation.index = listed_++;
  }
  if (written) context_.pAllocationList[allocation.index].WriteOperation = 1;
  allocation.last_use = submissions_ + 1;
  return allocation.index;
}

Answer<void> D3dkmtBackend::render(uint32_t bytes) {
  D3DKMT_RENDER render{};
  render.hContext = context_.hContext;
  render.CommandLength = bytes;
  render.AllocationCount = listed_;
  std::vector<D3DKMT_HANDLE> named;
  if (paging_.hPagingQueue != 0) {
    for (uint32_t i = 0; i < listed_; ++i) named.push_back(context_.pAllocationList[i].hAllocation);
  }
  if (auto done = make_resident(named); !done) return done;
  const CallAnswer answer = calls_->render(render);
  listed_ = 0;
  // The next buffers come with every answer, failures included (THUNK-15).
  if (render.pNewCommandBuffer != nullptr) {
    context_.pCommandBuffer = render.pNewCommandBuffer;
    context_.CommandBufferSize = render.NewCommandBufferSize;
    context_.pAllocationList = render.pNewAllocationList;
    context_.AllocationListSize = render.NewAllocationListSize;
  }
  if (answer.refused()) return refused(answer);
  if (auto done = let_go(named); !done) return done;
  const auto signalled = calls_->signal_from_gpu(context_.hContext, fence_, ++submissions_);
  if (signalled.refused()) return refused(signalled);
  return {};
}

Answer<void> D3dkmtBackend::make_resident(const std::vector<D3DKMT_HANDLE>& list) {
  if (list.empty()) return {};
  D3DDDI_MAKERESIDENT resident{};
  resident.hPagingQueue = paging_.hPagingQueue;
  resident.NumAllocations = static_cast<UINT>(list.size());
  resident.AllocationList = list.data();
  resident.Flags.CantTrimFurther = 1;  // what is not needed was let go already
  const CallAnswer answer = calls_->make_resident(resident);
  if (answer.refused()) return refused(answer);
  if (answer.kind != CallAnswer::Kind::kPending || resident.PagingFenceValue <= paged_) return {};
  paged_ = resident.PagingFenceValue;
  const auto waits = calls_->wait_from_gpu(context_.hContext, paging_.hSyncObject, paged_);
  if (waits.refused()) return refused(waits);
  return {};
}

Answer<void> D3dkmtBackend::let_go(const std::vector<D3DKMT_HANDLE>& list) {
  if (list.empty()) return {};
  D3DKMT_EVICT evict{};
  evict.NumAllocations = static_cast<UINT>(list.size());
  evict.AllocationList = list.data();
  evict.Flags.EvictOnlyIfNecessary = 1;
  if (const auto answer = calls_->evict(evict); answer.refused()) return refused(answer);
  return {};
}

Answer<void> D3dkmtBackend::transfer(Id resource, Direction direction, const Transfer& transfer) {
  VgpuUmdTransfer3d command{};
  command.header = {direction == Direction::kToHost ? VGPU_UMD_TRANSFER_TO_HOST_3D
                                                    : VGPU_UMD_TRANSFER_FROM_HOST_3D,
                    sizeof(command)};
  const auto index = list(allocation(resource), direction == Direction::kFromHost);
  if (!index.has_value() || context_.CommandBufferSize < sizeof(command))
    return wrong("the context takes no commands");
  command.allocation = *index;
  command.level = transfer.level;
  command.x = transfer.box.x;
  command.y = transfer.box.y;
  command.z = transfer.box.z;
  command.width = transfer.box.width;
  command.height = transfer.box.height;
  command.depth = transfer.box.depth;
  command.offset = transfer.offset;
  std::memcpy(context_.pCommandBuffer, &command, sizeof(command));
  return render(sizeof(command));
}

Answer<void> D3dkmtBackend::submit(std::span<uint32_t> stream,
                                   std::span<const StreamCommand> commands,
                                   std::span<const Use> uses, std::span<const Id> also) {
  for (const Use& use : uses) stream[use.position] = allocation(use.resource).device_id;
  // As many whole commands at a time as buffer and list take.
  size_t command = 0, use = 0;
  while (command < commands.size()) {
    const uint64_t room =
        std::min<uint64_t>(submit_bytes_max_, context_.CommandBufferSize - sizeof(VgpuUmdHeader));
    const size_t first = commands[command].first;
    bool full = false;
    for (const Id id : also) full = full || !list(allocation(id), true).has_value();
    size_t end = first;
    while (!full && command < commands.size()) {
      const StreamCommand& next = commands[command];
      const size_t next_end = next.first + next.dwords;
      if ((next_end - first) * kDwordBytes > room) break;
      size_t named = use;
      for (; named < uses.size() && uses[named].position < next_end; ++named)
        full = full || !list(allocation(uses[named].resource), uses[named].written).has_value();
      if (full) break;
      use = named;
      end = next_end;
      ++command;
    }
    if (end == first) return wrong("a command is longer than the driver takes");
    const auto bytes = static_cast<uint32_t>((end - first) * kDwordBytes);
    const VgpuUmdHeader header{VGPU_UMD_SUBMIT, bytes + static_cast<uint32_t>(sizeof(header))};
    auto* const to = static_cast<std::byte*>(context_.pCommandBuffer);
    std::memcpy(to, &header, sizeof(header));
    std::memcpy(to + sizeof(header), &stream[first], bytes);
    if (auto done = render(header.size_bytes); !done) return done;
  }
  return {};
}

Answer<bool> D3dkmtBackend::idle(Waiting waiting) {
  if (waiting == Waiting::kNo && *completed_ < submissions_) return false;
  if (auto done = wait_for(submissions_); !done) return std::unexpected(done.error());
  if (const std::string lost = tool::why_lost(device_); !lost.empty()) return wrong(lost);
  return true;
}

Answer<void> D3dkmtBackend::wait_for(uint64_t submission) {
  if (submission == 0 || *completed_ >= submission) return {};
  if (const auto answer = calls_->wait_from_cpu(fence_, submission); answer.refused())
    return refused(answer);
  return {};
}

std::unexpected<std::string> D3dkmtBackend::refused(const CallAnswer& answer) const {
  const std::string lost = tool::why_lost(device_);
  return wrong(lost.empty() ? answer.error : lost + " (" + answer.error + ")");
}

}  // namespace dxgkit::gl
