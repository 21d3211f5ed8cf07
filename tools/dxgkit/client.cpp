#include "tools/dxgkit/client.h"

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "base/status.h"

namespace dxgkit::tool {
namespace {

ClientResult<void> check(const CallAnswer& answer) {
  if (answer.refused()) return std::unexpected(ClientError{answer.error});
  return {};
}
/// Of the runtime's own calls.
ClientResult<void> check(const char* function, NTSTATUS status) {
  return check(answer_of(function, status));
}

/// A slot holds the commands of one submission: few, the longest takes about 300 bytes.
constexpr uint64_t kCommandSlots = 64;
constexpr uint64_t kCommandSlotBytes = 1024;

template <typename Command>
Command make_command(uint32_t opcode) {
  Command command{};
  command.header = {.opcode = opcode, .size_bytes = sizeof(Command)};
  return command;
}

}  // namespace

ClientContext::ClientContext(ClientCalls& calls, const D3DKMT_CREATECONTEXT& created,
                             const ClientResidency& residency)
    : calls_(&calls),
      handle_(created.hContext),
      residency_(residency),
      buffer_(static_cast<std::byte*>(created.pCommandBuffer)),
      buffer_bytes_(created.CommandBufferSize),
      list_(created.pAllocationList),
      list_size_(created.AllocationListSize) {
  reset();
}

ClientContext::ClientContext(ClientCalls& calls, D3DKMT_HANDLE context,
                             const ClientResidency& residency, const ClientCommands& commands)
    : calls_(&calls), handle_(context), residency_(residency), commands_(commands) {}

void ClientContext::reset() {
  used_.clear();
  written_primaries_.clear();
  added_.clear();
  if (has_addresses()) {
    overflow_ = false;
    return;
  }
  used_bytes_ = sizeof(SgpuUmdBufferHeader);
  used_entries_ = 0;
  overflow_ = buffer_ == nullptr || buffer_bytes_ < used_bytes_;
}

uint32_t ClientContext::use(const ClientAllocation& allocation, Access access) {
  uint32_t index = 0;
  if (has_addresses()) {
    while (index < used_.size() && used_[index].handle != allocation.handle) ++index;
    if (index == used_.size()) used_.push_back(allocation);
    if (access == Access::kWrite && allocation.primary)
      written_primaries_.push_back(allocation.handle);
    return index;
  }
  while (index < used_entries_ && list_[index].hAllocation != allocation.handle) ++index;
  if (index == used_entries_) {
    if (list_ == nullptr || used_entries_ == list_size_) {
      overflow_ = true;
      return 0;
    }
    list_[index] = {};
    list_[index].hAllocation = allocation.handle;
    ++used_entries_;
  }
  if (access == Access::kWrite) list_[index].WriteOperation = 1;
  return index;
}

SgpuUmdReference ClientContext::place(SgpuUmdReference reference) const {
  if (!has_addresses()) return reference;
  return sgpu_umd_at(used_.at(reference.allocation).address + reference.offset);
}

template <typename Command>
void ClientContext::add(const Command& command) {
  if (has_addresses()) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&command);
    added_.insert(added_.end(), bytes, bytes + sizeof(command));
    overflow_ = added_.size() > kCommandSlotBytes;
    return;
  }
  if (overflow_ || buffer_bytes_ - used_bytes_ < sizeof(command)) {
    overflow_ = true;
    return;
  }
  std::memcpy(buffer_ + used_bytes_, &command, sizeof(command));
  used_bytes_ += static_cast<uint32_t>(sizeof(command));
}

void ClientContext::copy(SgpuUmdReference source, SgpuUmdReference destination,
                         uint64_t size_bytes) {
  auto command = make_command<SgpuUmdCopy>(SGPU_UMD_OP_COPY);
  command.source = place(source);
  command.destination = place(destination);
  command.size_bytes = size_bytes;
  add(command);
}

void ClientContext::blit(SgpuUmdReference source, uint32_t source_pitch,
                         SgpuUmdReference destination, uint32_t destination_pitch,
                         uint32_t width_bytes, uint32_t height) {
  auto command = make_command<SgpuUmdBlit2d>(SGPU_UMD_OP_BLIT2D);
  command.source = place(source);
  command.destination = place(destination);
  command.source_pitch = source_pitch;
  command.destination_pitch = destination_pitch;
  command.width_bytes = width_bytes;
  command.height = height;
  add(command);
}

void ClientContext::convolve(const Convolution& job, const softgpu::reference::Filter& filter) {
  auto command = make_command<SgpuUmdConvolve>(SGPU_UMD_OP_CONVOLVE);
  command.source = place(job.source);
  command.destination = place(job.destination);
  command.source_pitch = job.source_pitch;
  command.destination_pitch = job.destination_pitch;
  command.source_width = job.source_width;
  command.source_height = job.source_height;
  command.output_x = job.output_x;
  command.output_y = job.output_y;
  command.output_width = job.output_width;
  command.output_height = job.output_height;
  command.kernel_width = filter.width;
  command.kernel_height = filter.height;
  command.divisor = filter.divisor;
  command.bias = filter.bias;
  if (filter.magnitude == softgpu::reference::Magnitude::kAbsolute)
    command.flags |= SGPU_UMD_CONVOLVE_ABS;
  if (filter.magnitude == softgpu::reference::Magnitude::kGradient)
    command.flags |= SGPU_UMD_CONVOLVE_GRADIENT;
  if (filter.alpha == softgpu::reference::Alpha::kKeep)
    command.flags |= SGPU_UMD_CONVOLVE_KEEP_ALPHA;
  std::copy(filter.weights.begin(), filter.weights.end(), command.kernel);
  std::copy(filter.second_weights.begin(), filter.second_weights.end(), command.kernel2);
  add(command);
}

void ClientContext::downscale(SgpuUmdReference source, uint32_t source_pitch,
                              SgpuUmdReference destination, uint32_t destination_pitch,
                              uint32_t source_width, uint32_t source_height) {
  auto command = make_command<SgpuUmdDownscale>(SGPU_UMD_OP_DOWNSCALE);
  command.source = place(source);
  command.destination = place(destination);
  command.source_pitch = source_pitch;
  command.destination_pitch = destination_pitch;
  command.source_width = source_width;
  command.source_height = source_height;
  add(command);
}

void ClientContext::checksum(SgpuUmdReference source, uint32_t pitch, uint32_t width_bytes,
                             uint32_t height, SgpuUmdReference result) {
  auto command = make_command<SgpuUmdChecksum>(SGPU_UMD_OP_CHECKSUM);
  command.source = place(source);
  command.result = place(result);
  command.pitch = pitch;
  command.width_bytes = width_bytes;
  command.height = height;
  command.kind = SGPU_UMD_CHECKSUM_FNV1A64;
  add(command);
}

ClientResult<void> ClientContext::make_resident(const std::vector<D3DKMT_HANDLE>& list) {
  D3DDDI_MAKERESIDENT resident{};
  resident.hPagingQueue = residency_.queue;
  resident.NumAllocations = static_cast<UINT>(list.size());
  resident.AllocationList = list.data();
  CallAnswer answer = calls_->make_resident(resident);
  if (answer.kind == CallAnswer::Kind::kNoMemory) {
    // Everything that can be trimmed is evicted already: this submission needs the rest.
    resident.NumAllocations = static_cast<UINT>(list.size());
    resident.Flags.CantTrimFurther = 1;
    answer = calls_->make_resident(resident);
  }
  if (auto done = check(answer); !done) return done;
  // Without addresses `used_` is empty.
  uint64_t value = commands_.memory.mapped_fence;
  for (const ClientAllocation& one : used_) value = std::max(value, one.mapped_fence);
  if (answer.kind == CallAnswer::Kind::kPending) value = std::max(value, resident.PagingFenceValue);
  if (value <= waited_) return {};
  waited_ = value;
  return wait(residency_.fence, value);
}

ClientResult<void> ClientContext::evict(const std::vector<D3DKMT_HANDLE>& list) {
  D3DKMT_EVICT evict{};
  evict.NumAllocations = static_cast<UINT>(list.size());
  evict.AllocationList = list.data();
  evict.Flags.EvictOnlyIfNecessary = 1;
  return check(calls_->evict(evict));
}

ClientResult<void> ClientContext::submit() {
  if (overflow_) {
    reset();
    return std::unexpected(ClientError{
        "the context's command buffer or allocation list is too small for one submission"});
  }
  if (!has_addresses()) return render();
  ClientResult<void> done = submit_command();
  reset();
  return done;
}

ClientResult<void> ClientContext::submit_command() {
  // The previous submission of the slot must have completed.
  if (submissions_ >= kCommandSlots) {
    const uint64_t value = submissions_ - kCommandSlots + 1;
    if (auto done = check(calls_->wait_from_cpu(commands_.progress, value)); !done) return done;
  }
  const uint64_t slot = submissions_ % kCommandSlots * kCommandSlotBytes;
  std::memcpy(commands_.bytes + slot, added_.data(), added_.size());
  std::vector<D3DKMT_HANDLE> named;
  for (const ClientAllocation& one : used_) named.push_back(one.handle);
  if (auto done = make_resident(named); !done) return done;
  D3DKMT_SUBMITCOMMAND submit{};
  submit.Commands = commands_.memory.address + slot;
  submit.CommandLength = static_cast<UINT>(added_.size());
  submit.BroadcastContextCount = 1;
  submit.BroadcastContext[0] = handle_;
  if (written_primaries_.size() > std::size(submit.WrittenPrimaries))
    return std::unexpected(ClientError{"A submission writes more primaries than can be named."});
  submit.NumPrimaries = static_cast<UINT>(written_primaries_.size());
  std::ranges::copy(written_primaries_, submit.WrittenPrimaries);
  if (auto done = check(calls_->submit_command(submit)); !done) return done;
  if (auto done = signal(commands_.progress, ++submissions_); !done) return done;
  return evict(named);
}

ClientResult<void> ClientContext::render() {
  const SgpuUmdBufferHeader header{.magic = SGPU_UMD_BUFFER_MAGIC,
                                   .version = SGPU_UMD_VERSION,
                                   .size_bytes = used_bytes_,
                                   .flags = 0};
  std::memcpy(buffer_, &header, sizeof(header));
  D3DKMT_RENDER render{};
  render.hContext = handle_;
  render.CommandLength = used_bytes_;
  render.AllocationCount = used_entries_;
  std::vector<D3DKMT_HANDLE> named;
  if (residency_.queue != 0) {
    for (uint32_t i = 0; i < used_entries_; ++i) named.push_back(list_[i].hAllocation);
  }
  if (!named.empty()) {
    if (auto done = make_resident(named); !done) {
      reset();
      return done;
    }
  }
  const CallAnswer answer = calls_->render(render);
  // The next buffers come with every answer, failures included (THUNK-15).
  if (render.pNewCommandBuffer != nullptr) {
    buffer_ = static_cast<std::byte*>(render.pNewCommandBuffer);
    buffer_bytes_ = render.NewCommandBufferSize;
    list_ = render.pNewAllocationList;
    list_size_ = render.NewAllocationListSize;
  }
  reset();
  if (auto done = check(answer); !done || named.empty()) return done;
  return evict(named);
}

ClientResult<void> ClientContext::signal(D3DKMT_HANDLE fence, uint64_t value) {
  return check(calls_->signal_from_gpu(handle_, fence, value));
}

ClientResult<void> ClientContext::wait(D3DKMT_HANDLE fence, uint64_t value) {
  return check(calls_->wait_from_gpu(handle_, fence, value));
}

ClientResult<void> ClientContext::flip(const ClientAllocation& primary, uint32_t interval) {
  D3DKMT_PRESENT present{};
  present.hContext = handle_;
  present.hSource = primary.handle;
  present.Flags.Flip = 1;
  present.FlipInterval = static_cast<D3DDDI_FLIPINTERVAL_TYPE>(interval);
  return check(calls_->present(present));
}

ClientResult<ClientDevice> ClientDevice::open(dxgk::Luid adapter, CallsMaker calls) {
  ClientDevice device;
  D3DKMT_OPENADAPTERFROMLUID open{};
  open.AdapterLuid.LowPart = adapter.low;
  open.AdapterLuid.HighPart = adapter.high;
  if (auto done = check("D3DKMTOpenAdapterFromLuid", D3DKMTOpenAdapterFromLuid(&open)); !done) {
    return std::unexpected(done.error());
  }
  device.adapter_ = open.hAdapter;
  device.calls_ = calls(open.hAdapter);

  // A driver without our private language is not softgpu: report that before another call fails in
  // an odd way.
  SgpuUmdAdapterInfo info{};
  if (auto done = check(device.calls_->query_private(&info, sizeof(info))); !done)
    return std::unexpected(done.error());
  if (info.magic != SGPU_UMD_ADAPTER_MAGIC || info.version < SGPU_UMD_VERSION) {
    return std::unexpected(ClientError{
        "the driver does not speak the softgpu user-mode interface, which the job needs"});
  }

  D3DKMT_CREATEDEVICE create{};
  create.hAdapter = device.adapter_;
  if (auto done = check("D3DKMTCreateDevice", D3DKMTCreateDevice(&create)); !done)
    return std::unexpected(done.error());
  device.device_ = create.hDevice;
  device.calls_->use_device(create.hDevice);
  if ((info.flags & SGPU_UMD_ADAPTER_EXPLICIT_RESIDENCY) == 0) return device;
  D3DKMT_CREATEPAGINGQUEUE queue{};
  queue.Priority = D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL;
  if (auto done = check(device.calls_->create_paging_queue(queue)); !done)
    return std::unexpected(done.error());
  device.residency_ = {.queue = queue.hPagingQueue, .fence = queue.hSyncObject};
  device.has_addresses_ = (info.flags & SGPU_UMD_ADAPTER_GPU_VA) != 0;
  return device;
}

ClientResult<ClientContext> ClientDevice::create_context_virtual(uint32_t node) {
  D3DKMT_CREATECONTEXTVIRTUAL create{};
  create.NodeOrdinal = node;
  create.ClientHint = D3DKMT_CLIENTHINT_UNKNOWN;
  if (auto done = check(calls_->create_context_virtual(create)); !done)
    return std::unexpected(done.error());
  contexts_.push_back(create.hContext);

  // Commands stay resident and mapped for the CPU as long as the device lives.
  SgpuUmdAllocation wanted{};
  wanted.kind = SGPU_UMD_KIND_BUFFER;
  wanted.placement = SGPU_UMD_PLACE_STAGING;
  wanted.size_bytes = kCommandSlots * kCommandSlotBytes;
  ClientResult<ClientAllocation> memory = ClientDevice::create(wanted, true);
  if (!memory) return std::unexpected(memory.error());
  D3DDDI_MAKERESIDENT resident{};
  resident.hPagingQueue = residency_.queue;
  resident.NumAllocations = 1;
  resident.AllocationList = &memory->handle;
  const CallAnswer answer = calls_->make_resident(resident);
  if (auto done = check(answer); !done) return std::unexpected(done.error());
  if (answer.kind == CallAnswer::Kind::kPending)
    memory->mapped_fence = std::max(memory->mapped_fence, resident.PagingFenceValue);
  ClientResult<std::byte*> bytes = lock(*memory);
  if (!bytes) return std::unexpected(bytes.error());
  locked_.push_back(*memory);
  ClientResult<D3DKMT_HANDLE> progress = create_fence();
  if (!progress) return std::unexpected(progress.error());
  return ClientContext(*calls_, create.hContext, residency_,
                       {.memory = *memory, .bytes = *bytes, .progress = *progress});
}

ClientResult<ClientContext> ClientDevice::create_context(uint32_t node) {
  if (has_addresses_) return create_context_virtual(node);
  D3DKMT_CREATECONTEXT create{};
  create.NodeOrdinal = node;
  create.ClientHint = D3DKMT_CLIENTHINT_UNKNOWN;
  if (auto done = check(calls_->create_context(create)); !done)
    return std::unexpected(done.error());
  contexts_.push_back(create.hContext);
  return ClientContext(*calls_, create, residency_);
}

ClientResult<void> ClientDevice::map(ClientAllocation& allocation, bool commands) {
  D3DDDI_MAPGPUVIRTUALADDRESS map{};
  map.hPagingQueue = residency_.queue;
  map.hAllocation = allocation.handle;
  map.SizeInPages = align_up(allocation.size_bytes, kPageBytes) / kPageBytes;
  map.Protection.Write = commands ? 0 : 1;
  map.Protection.Execute = commands ? 1 : 0;
  const CallAnswer answer = calls_->map(map);
  if (auto done = check(answer); !done) return done;
  allocation.address = map.VirtualAddress;
  if (answer.kind == CallAnswer::Kind::kPending) allocation.mapped_fence = map.PagingFenceValue;
  mapped_.push_back(allocation);
  return {};
}

ClientResult<ClientAllocation> ClientDevice::create(const SgpuUmdAllocation& wanted, bool commands,
                                                    bool primary) {
  SgpuUmdAllocation description = wanted;
  description.magic = SGPU_UMD_ALLOCATION_MAGIC;
  description.version = SGPU_UMD_VERSION;
  D3DDDI_ALLOCATIONINFO2 info{};
  info.pPrivateDriverData = &description;
  info.PrivateDriverDataSize = sizeof(description);
  info.Flags.Primary = primary ? 1 : 0;
  if (auto done = check(calls_->create_allocation(info)); !done)
    return std::unexpected(done.error());
  allocations_.push_back(info.hAllocation);
  ClientAllocation allocation{.handle = info.hAllocation,
                              .size_bytes = description.size_bytes,
                              .pitch_bytes = description.pitch_bytes,
                              .primary = primary};
  if (has_addresses_) {
    if (auto done = map(allocation, commands); !done) return std::unexpected(done.error());
  }
  return allocation;
}

ClientResult<ClientAllocation> ClientDevice::create_surface(uint32_t width, uint32_t height,
                                                            uint32_t placement) {
  SgpuUmdAllocation wanted{};
  wanted.kind = SGPU_UMD_KIND_SURFACE;
  wanted.placement = placement;
  wanted.width = width;
  wanted.height = height;
  return create(wanted);
}

ClientResult<ClientAllocation> ClientDevice::create_primary(uint32_t width, uint32_t height) {
  SgpuUmdAllocation wanted{};
  wanted.kind = SGPU_UMD_KIND_SURFACE;
  wanted.placement = SGPU_UMD_PLACE_VRAM;
  wanted.width = width;
  wanted.height = height;
  return create(wanted, false, /*primary=*/true);
}

ClientResult<void> ClientDevice::own_screen() {
  const D3DKMT_VIDPNSOURCEOWNER_TYPE type = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE;
  const D3DDDI_VIDEO_PRESENT_SOURCE_ID source = 0;
  D3DKMT_SETVIDPNSOURCEOWNER own{};
  own.hDevice = device_;
  own.pType = &type;
  own.pVidPnSourceId = &source;
  own.VidPnSourceCount = 1;
  return check("D3DKMTSetVidPnSourceOwner", D3DKMTSetVidPnSourceOwner(&own));
}

ClientResult<void> ClientDevice::set_display_mode(const ClientAllocation& primary) {
  return check(calls_->set_display_mode(primary.handle));
}

ClientResult<ClientAllocation> ClientDevice::create_buffer(uint64_t size_bytes,
                                                           uint32_t placement) {
  SgpuUmdAllocation wanted{};
  wanted.kind = SGPU_UMD_KIND_BUFFER;
  wanted.placement = placement;
  wanted.size_bytes = size_bytes;
  return create(wanted);
}

ClientResult<D3DKMT_HANDLE> ClientDevice::create_fence() {
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
  create.Info.Type = D3DDDI_MONITORED_FENCE;
  if (auto done = check(calls_->create_fence(create)); !done) return std::unexpected(done.error());
  fences_.push_back(create.hSyncObject);
  return create.hSyncObject;
}

ClientResult<std::byte*> ClientDevice::lock(const ClientAllocation& allocation) {
  void* address = nullptr;
  if (auto done = check(calls_->lock(allocation.handle, &address)); !done)
    return std::unexpected(done.error());
  return static_cast<std::byte*>(address);
}

ClientResult<void> ClientDevice::unlock(const ClientAllocation& allocation) {
  return check(calls_->unlock(allocation.handle));
}

ClientResult<void> ClientDevice::wait(D3DKMT_HANDLE fence, uint64_t value) {
  return check(calls_->wait_from_cpu(fence, value));
}

ClientResult<void> ClientDevice::wait_idle() {
  const D3DKMT_WAITFORIDLE wait{.hDevice = device_};
  return check("D3DKMTWaitForIdle", D3DKMTWaitForIdle(&wait));
}

std::string ClientDevice::why_lost() const { return tool::why_lost(device_); }

ClientResult<void> ClientDevice::close() {
  for (const D3DKMT_HANDLE context : contexts_) {
    if (auto done = check(calls_->destroy_context(context)); !done) return done;
  }
  contexts_.clear();
  for (const ClientAllocation& one : locked_) {
    if (auto done = unlock(one); !done) return done;
  }
  locked_.clear();
  for (const ClientAllocation& one : mapped_) {
    const uint64_t bytes = align_up(one.size_bytes, kPageBytes);
    if (auto done = check(calls_->free(one.address, bytes)); !done) return done;
  }
  mapped_.clear();
  if (!allocations_.empty()) {
    const auto count = static_cast<UINT>(allocations_.size());
    if (auto done = check(calls_->destroy_allocations(allocations_.data(), count)); !done)
      return done;
    allocations_.clear();
  }
  for (const D3DKMT_HANDLE fence : fences_) {
    if (auto done = check(calls_->destroy_fence(fence)); !done) return done;
  }
  fences_.clear();
  if (residency_.queue != 0) {
    if (auto done = check(calls_->destroy_paging_queue(residency_.queue)); !done) return done;
  }
  const D3DKMT_DESTROYDEVICE destroy{.hDevice = device_};
  if (auto done = check("D3DKMTDestroyDevice", D3DKMTDestroyDevice(&destroy)); !done) return done;
  const D3DKMT_CLOSEADAPTER close{.hAdapter = adapter_};
  return check("D3DKMTCloseAdapter", D3DKMTCloseAdapter(&close));
}

}  // namespace dxgkit::tool
