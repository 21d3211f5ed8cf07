// The client's thunks, each with the result that the model expects.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/spelling.h"
#include "base/status.h"
#include "dxgk/work/device.h"
#include "sim/client_call.h"
#include "thunks/call.h"
#include "thunks/client.h"

namespace dxgkit::sim {
namespace {

constexpr uint64_t kHeaderBytes = sizeof(SgpuUmdBufferHeader);

}  // namespace

void Client::fail(std::string_view what) {
  throw_if_lost();
  world_.fail(
      fmt::format("client {} after {}: {}", options_.number, counted(calls_, "call"), what));
  throw Ended{};
}

void Client::throw_if_ended() const {
  if (dying_ || world_.failed()) throw Ended{};
}

void Client::throw_if_adapter_lost() const {
  const bool lost = world_.adapter_lost();  // asks the kernel: meanwhile it may have died
  throw_if_ended();
  if (lost) throw AdapterLost{};
}

void Client::lost(const char* name) {
  throw_if_adapter_lost();
  D3DKMT_GETDEVICESTATE state{};
  state.hDevice = device_;
  state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
  const NTSTATUS status =
      call("D3DKMTGetDeviceState", [&] { return D3DKMTGetDeviceState(&state); });
  throw_if_adapter_lost();
  if (!is_success(from_ntstatus(status)))
    fail(fmt::format("{} lost the device, and its state is {}", name, text_of(status)));
  ++world_.counters.property_checks;
  switch (state.ExecutionState) {
    case D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY:
      // Page tables need memory too.
      if (!may_exhaust_memory_ && !may_not_fit() &&
          !(has_addresses() &&
            (world_.plan.tight_memory || world_.plan.faults.has(FaultKind::kPages))))
        fail(fmt::format("{} finds the device out of memory, and all it did fits", name));
      break;
    case D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT:
      if (!was_wild_ && !loss_is_explained(state.ExecutionState))
        fail(fmt::format("{} finds a page fault, and it submitted nothing wild", name));
      break;
    case D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT:
      if (!marked_ && !world_.plan.faults.has(FaultKind::kRenderLosesDevice) &&
          !loss_is_explained(state.ExecutionState))
        fail(fmt::format("{} finds that the device faulted, and no fault was planned", name));
      break;
    case D3DKMT_DEVICEEXECUTION_HUNG:
    case D3DKMT_DEVICEEXECUTION_RESET:
      if (!loss_is_explained(state.ExecutionState))
        fail(fmt::format("{} finds the device {}, and it did nothing that hangs", name,
                         state.ExecutionState == D3DKMT_DEVICEEXECUTION_HUNG ? "hung" : "reset"));
      break;
    default:
      fail(fmt::format("{} answers STATUS_DEVICE_REMOVED; the device's state is {}{}", name,
                       static_cast<int>(state.ExecutionState), world_.why_stopped()));
  }
  throw DeviceLost{};
}

/// To functions whose page names no STATUS_DEVICE_REMOVED a lost device is a bad parameter.
bool Client::device_is_lost(Status answer) {
  if (answer != Status::kInvalidParameter) return false;
  const auto found = process_->handles().find<dxgk::Device>(device_);
  return found.has_value() && (*found)->lost();
}

bool Client::accepted(const char* name, NTSTATUS status) {
  const Status answer = from_ntstatus(status);
  if (is_success(answer)) return true;
  if (answer == Status::kDeviceRemoved || device_is_lost(answer)) lost(name);
  ++world_.counters.refused_calls;
  throw_if_adapter_lost();
  if (world_.faults.excuses() != excuses_before_) return false;
  if (world_.plan.tight_memory && answer == Status::kNoMemory) return false;
  if (answer == Status::kNoMemory && may_not_fit()) return false;
  // Page tables are in video memory, which one client fills. Work of other clients in flight holds
  // the rest.
  const FaultPlan& faults = world_.plan.faults;
  const bool full = faults.has(FaultKind::kVramFull) || faults.has(FaultKind::kVramFragmented);
  if (answer == Status::kNoMemory && world_.plan.memory_model == 2 && full) return false;
  fail(fmt::format("{} answers {}, and nothing was made to fail", name, text_of(status)));
  return false;
}

bool Client::open_adapter() {
  D3DKMT_OPENADAPTERFROMLUID open{};
  open.AdapterLuid.LowPart = world_.adapter.low;
  open.AdapterLuid.HighPart = world_.adapter.high;
  const NTSTATUS status =
      call("D3DKMTOpenAdapterFromLuid", [&] { return D3DKMTOpenAdapterFromLuid(&open); });
  if (!accepted("D3DKMTOpenAdapterFromLuid", status)) return false;
  adapter_ = open.hAdapter;
  return true;
}

bool Client::create_device() {
  D3DKMT_CREATEDEVICE create{};
  create.hAdapter = adapter_;
  const NTSTATUS status = call("D3DKMTCreateDevice", [&] { return D3DKMTCreateDevice(&create); });
  // There is no device yet whose state could give the reason.
  if (from_ntstatus(status) == Status::kDeviceRemoved) {
    if (world_.adapter_lost() || world_.is_blocked(*this)) throw AdapterLost{};
    fail("D3DKMTCreateDevice answers STATUS_DEVICE_REMOVED, and the adapter runs");
  }
  if (!accepted("D3DKMTCreateDevice", status)) return false;
  device_ = create.hDevice;
  may_exhaust_memory_ = false;
  was_wild_ = false;
  may_hang_ = false;
  marked_ = false;
  if (world_.plan.explicit_residency && !create_paging_queue()) {
    destroy_device();
    return false;
  }
  return true;
}

void Client::forget_device() {
  device_ = 0;
  windows_.clear();
  pages_.clear();
  va_fence_ = update_value_ = 0;
  update_fence_ = 0;
  contexts_.clear();
  allocations_.clear();
  stale_.clear();
  waiter_task_.reset();
}

void Client::destroy_device() {
  if (device_ == 0) return;
  const D3DKMT_DESTROYDEVICE destroy{.hDevice = device_};
  forget_device();
  const NTSTATUS status =
      call("D3DKMTDestroyDevice", [&] { return D3DKMTDestroyDevice(&destroy); });
  if (!is_success(from_ntstatus(status)))
    fail(fmt::format("D3DKMTDestroyDevice answers {}", text_of(status)));
}

bool Client::create_context(uint32_t node) {
  D3DKMT_HANDLE fence = 0;
  const volatile uint64_t* fence_memory = nullptr;
  if (!create_fence(&fence, &fence_memory)) return false;
  D3DKMT_CREATECONTEXT create{};
  create.hDevice = device_;
  create.NodeOrdinal = node;
  create.ClientHint = D3DKMT_CLIENTHINT_UNKNOWN;
  const char* const name = has_addresses() ? "D3DKMTCreateContextVirtual" : "D3DKMTCreateContext";
  NTSTATUS status = call(name, [&] {
    if (!has_addresses()) return D3DKMTCreateContext(&create);
    D3DKMT_CREATECONTEXTVIRTUAL with_addresses{};
    with_addresses.hDevice = device_;
    with_addresses.NodeOrdinal = node;
    with_addresses.ClientHint = D3DKMT_CLIENTHINT_UNKNOWN;
    const NTSTATUS answer = D3DKMTCreateContextVirtual(&with_addresses);
    create.hContext = with_addresses.hContext;
    return answer;
  });
  if (!accepted(name, status)) {
    destroy_fence(fence);
    return false;
  }
  auto context = std::make_unique<Context>();
  context->id = ++last_context_;
  context->handle = create.hContext;
  context->fence = fence;
  context->fence_memory = fence_memory;
  context->node = node;
  context->command = static_cast<std::byte*>(create.pCommandBuffer);
  context->command_bytes = create.CommandBufferSize;
  context->list = create.pAllocationList;
  context->list_size = create.AllocationListSize;
  contexts_.push_back(std::move(context));
  if (!has_addresses() || create_commands(*contexts_.back())) return true;
  destroy_context(contexts_.size() - 1);
  return false;
}

void Client::destroy_context(size_t index) {
  Context& context = *contexts_[index];
  // An unsatisfied wait of another context would fail it, so let it drain first.
  cpu_wait(context, context.submitted);
  const D3DKMT_DESTROYCONTEXT destroy{.hContext = context.handle};
  const D3DKMT_HANDLE fence = context.fence;
  stale_.push_back(context.handle);
  stale_.push_back(context.fence);
  const std::unique_ptr<Allocation> commands = std::move(context.commands);
  for (auto& [base, window] : windows_)
    std::erase_if(window.used, [&](const Moment& moment) { return moment.context == context.id; });
  contexts_.erase(contexts_.begin() + static_cast<ptrdiff_t>(index));
  NTSTATUS status = call("D3DKMTDestroyContext", [&] { return D3DKMTDestroyContext(&destroy); });
  static_cast<void>(accepted("D3DKMTDestroyContext", status));
  destroy_fence(fence);
  if (commands == nullptr) return;
  static_cast<void>(hide(*commands));
  D3DKMT_DESTROYALLOCATION2 destroy_commands{};
  destroy_commands.hDevice = device_;
  destroy_commands.phAllocationList = &commands->handle;
  destroy_commands.AllocationCount = 1;
  status =
      call("D3DKMTDestroyAllocation2", [&] { return D3DKMTDestroyAllocation2(&destroy_commands); });
  static_cast<void>(accepted("D3DKMTDestroyAllocation2", status));
}

bool Client::create_allocations(std::span<const uint64_t> sizes, uint32_t placement,
                                bool resource) {
  std::vector<SgpuUmdAllocation> wanted(sizes.size());
  std::vector<D3DDDI_ALLOCATIONINFO2> infos(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    wanted[i] = {};
    wanted[i].magic = SGPU_UMD_ALLOCATION_MAGIC;
    wanted[i].version = SGPU_UMD_VERSION;
    wanted[i].kind = SGPU_UMD_KIND_BUFFER;
    wanted[i].placement = placement;
    wanted[i].size_bytes = sizes[i];
    std::memset(&infos[i], 0, sizeof(infos[i]));
    infos[i].pPrivateDriverData = &wanted[i];
    infos[i].PrivateDriverDataSize = sizeof(wanted[i]);
  }
  D3DKMT_CREATEALLOCATION create{};
  create.hDevice = device_;
  create.NumAllocations = static_cast<UINT>(infos.size());
  create.pAllocationInfo2 = infos.data();
  create.Flags.CreateResource = resource ? 1 : 0;
  const NTSTATUS status =
      call("D3DKMTCreateAllocation2", [&] { return D3DKMTCreateAllocation2(&create); });
  if (!accepted("D3DKMTCreateAllocation2", status)) {
    ++world_.counters.property_checks;
    for (const D3DDDI_ALLOCATIONINFO2& info : infos) {
      if (info.hAllocation != 0) fail("D3DKMTCreateAllocation2 failed and gave a handle");  // P10
    }
    return false;
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    auto allocation = std::make_unique<Allocation>();
    allocation->handle = infos[i].hAllocation;
    allocation->first_handle = infos[i].hAllocation;
    allocation->resource = resource ? create.hResource : 0;
    allocation->placement = placement;
    allocation->content = Content(sizes[i]);
    allocations_.push_back(std::move(allocation));
  }
  return true;
}

void Client::destroy_allocation(size_t index, bool synchronous) {
  D3DKMT_DESTROYALLOCATION2 destroy{};
  destroy.hDevice = device_;
  const D3DKMT_HANDLE handle = allocations_[index]->first_handle;
  const D3DKMT_HANDLE resource = allocations_[index]->resource;
  if (resource != 0) {
    destroy.hResource = resource;
  } else {
    destroy.phAllocationList = &handle;
    destroy.AllocationCount = 1;
  }
  destroy.Flags.SynchronousDestroy = synchronous ? 1 : 0;
  if (has_addresses()) {
    for (const auto& one : allocations_) {
      if (one->first_handle != handle && (resource == 0 || one->resource != resource)) continue;
      // Its addresses are freed before it, or afterwards stay without a mapping.
      settle(*one, true);
      forget_pages(*one);
      if (!hide(*one)) return;
    }
  }
  stale_.push_back(handle);
  std::erase_if(allocations_, [&](const auto& one) {
    return one->first_handle == handle || (resource != 0 && one->resource == resource);
  });
  // It may wait for packets, and these for room that our locks take.
  if (synchronous) unlock_all();
  const NTSTATUS status =
      call("D3DKMTDestroyAllocation2", [&] { return D3DKMTDestroyAllocation2(&destroy); });
  static_cast<void>(accepted("D3DKMTDestroyAllocation2", status));
}

bool Client::lock(Allocation& allocation) {
  if (allocation.locked != nullptr) return true;
  D3DKMT_LOCK2 lock{};
  lock.hDevice = device_;
  lock.hAllocation = allocation.handle;
  const NTSTATUS status = call("D3DKMTLock2", [&] { return D3DKMTLock2(&lock); });
  if (!accepted("D3DKMTLock2", status)) return false;
  allocation.locked = static_cast<std::byte*>(lock.pData);
  return true;
}

void Client::unlock(Allocation& allocation) {
  if (allocation.locked == nullptr) return;
  allocation.locked = nullptr;
  D3DKMT_UNLOCK2 unlock{};
  unlock.hDevice = device_;
  unlock.hAllocation = allocation.handle;
  const NTSTATUS status = call("D3DKMTUnlock2", [&] { return D3DKMTUnlock2(&unlock); });
  static_cast<void>(accepted("D3DKMTUnlock2", status));
}

void Client::unlock_all() {
  for (size_t i = 0; i < allocations_.size(); ++i) unlock(*allocations_[i]);
}

Client::Context* Client::find_context(uint64_t id) {
  for (const auto& context : contexts_) {
    if (context->id == id) return context.get();
  }
  return nullptr;
}

void Client::check_fence(Context& context) {
  ++world_.counters.property_checks;
  const uint64_t value = *context.fence_memory;
  if (value == UINT64_MAX) lost("a monitored fence");  // set free with its device (SYNC-13)
  if (value < context.seen)
    fail(fmt::format("a fence fell from {} to {}", context.seen, value));  // P2
  if (value > context.submitted)
    fail(fmt::format("a fence shows {}, and {} was the last value queued", value,
                     context.submitted));
  context.seen = value;
}

bool Client::has_happened(const Moment& moment) {
  Context* const context = find_context(moment.context);
  if (context == nullptr) return true;  // it ran dry before it was destroyed
  check_fence(*context);
  return context->seen >= moment.value;
}

bool Client::gpu_wait(Context& context, const Context& on, uint64_t value) {
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait{};
  wait.hContext = context.handle;
  wait.ObjectCount = 1;
  wait.ObjectHandleArray = &on.fence;
  wait.MonitoredFenceValueArray = &value;
  const NTSTATUS status = call("D3DKMTWaitForSynchronizationObjectFromGpu",
                               [&] { return D3DKMTWaitForSynchronizationObjectFromGpu(&wait); });
  return accepted("D3DKMTWaitForSynchronizationObjectFromGpu", status);
}

void Client::cpu_wait(Context& context, uint64_t value) {
  check_fence(context);
  if (context.seen >= value) return;
  // Other clients may need the room that our locks take before this client gets its turn.
  unlock_all();
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
  wait.hDevice = device_;
  wait.ObjectCount = 1;
  wait.ObjectHandleArray = &context.fence;
  wait.FenceValueArray = &value;
  const NTSTATUS status = call("D3DKMTWaitForSynchronizationObjectFromCpu",
                               [&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&wait); });
  if (!accepted("D3DKMTWaitForSynchronizationObjectFromCpu", status))
    fail("a CPU wait was refused");
  check_fence(context);
  if (context.seen < value)
    fail(fmt::format("a wait for {} ended at {}", value, context.seen));  // P13
}

void Client::wait_for(const Moment& moment) {
  if (Context* const context = find_context(moment.context)) cpu_wait(*context, moment.value);
}

void Client::settle(const Allocation& allocation, bool for_writing) {
  wait_for(allocation.written);
  if (!for_writing) return;
  for (const Moment& moment : allocation.read) wait_for(moment);
}

bool Client::submit(Context& context, std::span<const Command> commands) {
  throw_if_ended();  // its buffers may be freed
  const bool has_list = !has_addresses();
  // Work of other contexts on the same memory comes first.
  std::map<uint64_t, uint64_t> before;  // context -> fence value
  const auto after = [&](const Moment& moment) {
    if (moment.context == 0 || moment.context == context.id || has_happened(moment)) return;
    uint64_t& value = before[moment.context];
    value = std::max(value, moment.value);
  };
  std::vector<std::pair<Allocation*, bool>> used;
  const auto use = [&](Allocation* allocation, bool write) -> uint32_t {
    size_t index = 0;
    while (index < used.size() && used[index].first != allocation) ++index;
    if (index == used.size()) used.push_back({allocation, false});
    used[index].second = used[index].second || write;
    return static_cast<uint32_t>(index);
  };
  std::byte* to = has_list ? context.command + kHeaderBytes : nullptr;
  const std::byte* const end = context.command + context.command_bytes;
  const auto append = [&](const auto& command) {
    if (!has_list) return;
    if (static_cast<size_t>(end - to) < sizeof(command)) fail("the command buffer is too small");
    std::memcpy(to, &command, sizeof(command));
    to += sizeof(command);
  };
  bool opens = false;
  for (const Command& command : commands) {
    switch (command.kind) {
      case Command::Kind::kFill: {
        SgpuUmdFill fill{};
        fill.header = {.opcode = SGPU_UMD_OP_FILL, .size_bytes = sizeof(fill)};
        fill.destination = {use(command.destination, true), static_cast<uint32_t>(command.offset)};
        fill.size_bytes = command.size;
        fill.pattern = command.pattern;
        append(fill);
        break;
      }
      case Command::Kind::kCopy: {
        SgpuUmdCopy copy{};
        copy.header = {.opcode = SGPU_UMD_OP_COPY, .size_bytes = sizeof(copy)};
        copy.source = {use(command.source, false), static_cast<uint32_t>(command.source_offset)};
        copy.destination = {use(command.destination, true), static_cast<uint32_t>(command.offset)};
        copy.size_bytes = command.size;
        append(copy);
        break;
      }
      case Command::Kind::kDelay: {
        SgpuUmdDelay delay{};
        delay.header = {.opcode = SGPU_UMD_OP_DELAY, .size_bytes = sizeof(delay)};
        delay.duration_ns = command.size;
        delay.flags = command.stubborn ? 0 : SGPU_UMD_DELAY_PREEMPTIBLE;
        append(delay);
        break;
      }
    }
  }
  if (has_list && used.size() > context.list_size) fail("the allocation list is too small");
  const SgpuUmdBufferHeader header{.magic = SGPU_UMD_BUFFER_MAGIC,
                                   .version = SGPU_UMD_VERSION,
                                   .size_bytes = static_cast<uint32_t>(to - context.command),
                                   .flags = 0};
  if (has_list) std::memcpy(context.command, &header, sizeof(header));
  for (size_t i = 0; i < used.size(); ++i) {
    if (has_list) {
      context.list[i] = {};
      context.list[i].hAllocation = used[i].first->handle;
      context.list[i].WriteOperation = used[i].second ? 1 : 0;
    }
    after(used[i].first->written);
    if (!used[i].second) continue;
    for (const Moment& moment : used[i].first->read) after(moment);
  }
  for (const auto& [other, value] : before) {
    Context* const on = find_context(other);
    if (random_.percent(30)) {
      cpu_wait(*on, value);
    } else if (!gpu_wait(context, *on, value)) {
      cpu_wait(*on, value);
    }
  }

  std::vector<Allocation*> named;
  for (const auto& [allocation, write] : used) named.push_back(allocation);
  D3DKMT_RENDER render{};
  NTSTATUS status = 0;
  if (!has_list) {
    if (!submit_virtual(context, commands, named)) return false;
  } else {
    if (!make_resident(context, named)) return false;
    render.hContext = context.handle;
    render.CommandLength = header.size_bytes;
    render.AllocationCount = static_cast<UINT>(used.size());
    status = call("D3DKMTRender", [&] { return D3DKMTRender(&render); });
  }
  if (render.pNewCommandBuffer != nullptr) {  // also with failures (THUNK-15)
    context.command = static_cast<std::byte*>(render.pNewCommandBuffer);
    context.command_bytes = render.NewCommandBufferSize;
    context.list = render.pNewAllocationList;
    context.list_size = render.NewAllocationListSize;
  }
  const bool rendered = !has_list || accepted("D3DKMTRender", status);
  // Passes before the failed one run all the same. If there are none, nothing may have happened
  // (P10).
  opens = !rendered && world_.plan.faults.has(FaultKind::kRenderRoom);
  if (!rendered && !opens) return false;
  const Moment now{context.id, context.submitted + 1};
  for (const auto& [allocation, write] : used) {
    if (write) {
      allocation->written = now;
      allocation->read.clear();
    } else {
      std::erase_if(allocation->read, [&](const Moment& m) { return m.context == context.id; });
      allocation->read.push_back(now);
    }
  }
  for (const Command& command : commands) {
    if (command.kind == Command::Kind::kDelay) continue;
    if (opens) {
      command.destination->content.open(command.offset, command.size);
    } else if (command.kind == Command::Kind::kFill) {
      command.destination->content.fill(command.offset, command.size, command.pattern);
    } else {
      command.destination->content.copy(command.source->content, command.source_offset,
                                        command.offset, command.size);
    }
  }
  ++context.submitted;
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal{};
  signal.hContext = context.handle;
  signal.ObjectCount = 1;
  signal.ObjectHandleArray = &context.fence;
  signal.MonitoredFenceValueArray = &context.submitted;
  status = call("D3DKMTSignalSynchronizationObjectFromGpu",
                [&] { return D3DKMTSignalSynchronizationObjectFromGpu(&signal); });
  if (!accepted("D3DKMTSignalSynchronizationObjectFromGpu", status)) fail("a signal was refused");
  // Evicted right away, it leaves when the packet has retired. Kept, it takes room from other
  // allocations.
  if (random_.percent(60)) static_cast<void>(evict(named));
  return rendered;
}

// call() is a template of this file, and the hostile client needs it too.
void Client::hostile_call() {
  const size_t handles_before = process_->handles().size();
  const auto some_stale = [&](D3DKMT_HANDLE like = 0) -> D3DKMT_HANDLE {
    if (like != 0 && extra_.percent(30)) return like | (1U << extra_.below(4));  // but for one bit
    const uint64_t kind = random_.below(4);
    if (kind == 0) return 0;
    if (kind == 1 && !stale_.empty()) return stale_[random_.below(stale_.size())];
    if (kind == 2) return adapter_;                          // of another type
    return static_cast<D3DKMT_HANDLE>(random_.next()) | 1U;  // low bits are never set
  };
  const auto refused = [&](const char* name, NTSTATUS status) {
    ++world_.counters.property_checks;
    if (from_ntstatus(status) == Status::kDeviceRemoved) lost(name);
    if (is_success(from_ntstatus(status)))
      fail(fmt::format("{} accepts nonsense with {}", name, text_of(status)));
    ++world_.counters.refused_calls;
    if (process_->handles().size() != handles_before)
      fail(fmt::format("{} refused nonsense, and {} became {}", name,
                       counted(handles_before, "handle"),
                       process_->handles().size()));  // P10
  };
  if (has_addresses() && random_.percent(50)) return hostile_address_call();
  switch (random_.below(has_addresses() ? 6 : 8)) {
    case 0: {
      Context* const context = any_context();
      const D3DKMT_DESTROYCONTEXT destroy{.hContext =
                                              some_stale(context == nullptr ? 0 : context->handle)};
      refused("D3DKMTDestroyContext",
              call("D3DKMTDestroyContext", [&] { return D3DKMTDestroyContext(&destroy); }));
      break;
    }
    case 1: {
      D3DKMT_LOCK2 lock{};
      lock.hDevice = random_.percent(50) ? device_ : some_stale();
      lock.hAllocation = some_stale(allocations_.empty() ? 0 : allocations_.back()->handle);
      refused("D3DKMTLock2", call("D3DKMTLock2", [&] { return D3DKMTLock2(&lock); }));
      break;
    }
    case 2: {
      const D3DKMT_HANDLE handle =
          some_stale(allocations_.empty() ? 0 : allocations_.front()->first_handle);
      D3DKMT_DESTROYALLOCATION2 destroy{};
      destroy.hDevice = device_;
      destroy.phAllocationList = &handle;
      destroy.AllocationCount = 1;
      refused("D3DKMTDestroyAllocation2",
              call("D3DKMTDestroyAllocation2", [&] { return D3DKMTDestroyAllocation2(&destroy); }));
      break;
    }
    case 3: {
      D3DKMT_CREATEDEVICE create{};
      create.hAdapter = device_;
      refused("D3DKMTCreateDevice",
              call("D3DKMTCreateDevice", [&] { return D3DKMTCreateDevice(&create); }));
      break;
    }
    case 4: {
      D3DKMT_CREATEALLOCATION create{};
      create.hDevice = device_;
      create.NumAllocations = random_.percent(50) ? 0 : 1U << 20;
      refused("D3DKMTCreateAllocation2",
              call("D3DKMTCreateAllocation2", [&] { return D3DKMTCreateAllocation2(&create); }));
      break;
    }
    case 5: {
      const D3DKMT_HANDLE handle = some_stale();
      const uint64_t value = random_.next();
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
      wait.hDevice = device_;
      wait.ObjectCount = 1;
      wait.ObjectHandleArray = &handle;
      wait.FenceValueArray = &value;
      refused("D3DKMTWaitForSynchronizationObjectFromCpu",
              call("D3DKMTWaitForSynchronizationObjectFromCpu",
                   [&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&wait); }));
      break;
    }
    default: {  // command buffers full of nonsense, lists of other people's allocations
      Context* const context = any_context();
      if (context == nullptr) break;
      std::memset(context->command, 0, 256);
      for (size_t i = 0; i < 256; i += 8) {
        const uint64_t word = random_.next();
        std::memcpy(context->command + i, &word, sizeof(word));
      }
      if (random_.percent(50)) {  // a header that is right, commands that are not
        const SgpuUmdBufferHeader header{.magic = SGPU_UMD_BUFFER_MAGIC,
                                         .version = SGPU_UMD_VERSION,
                                         .size_bytes = 256,
                                         .flags = 0};
        std::memcpy(context->command, &header, sizeof(header));
        SgpuUmdFill fill{};
        fill.header = {.opcode = SGPU_UMD_OP_FILL, .size_bytes = sizeof(fill)};
        fill.destination = {static_cast<uint32_t>(random_.below(3)),
                            static_cast<uint32_t>(random_.next()) & ~3U};
        fill.size_bytes = random_.next() | 1U;  // never a multiple of four
        std::memcpy(context->command + sizeof(header), &fill, sizeof(fill));
      }
      D3DKMT_RENDER render{};
      render.hContext = context->handle;
      render.CommandLength = random_.percent(80) ? 256 : UINT32_MAX;
      context->list[0] = {};
      context->list[0].hAllocation =
          random_.percent(50) || allocations_.empty() ? some_stale() : allocations_[0]->handle;
      render.AllocationCount = 1;
      // An allocation that is not on the list costs the device (RES-25).
      if (world_.plan.explicit_residency) may_exhaust_memory_ = true;
      const NTSTATUS status = call("D3DKMTRender", [&] { return D3DKMTRender(&render); });
      if (render.pNewCommandBuffer != nullptr) {
        context->command = static_cast<std::byte*>(render.pNewCommandBuffer);
        context->command_bytes = render.NewCommandBufferSize;
        context->list = render.pNewAllocationList;
        context->list_size = render.NewAllocationListSize;
      }
      refused("D3DKMTRender", status);
      break;
    }
  }
  world_.faults.count(FaultKind::kHostileClient);
}

void Client::op_wait_idle() {
  unlock_all();
  const D3DKMT_WAITFORIDLE idle{.hDevice = device_};
  const NTSTATUS status = call("D3DKMTWaitForIdle", [&] { return D3DKMTWaitForIdle(&idle); });
  if (!accepted("D3DKMTWaitForIdle", status)) return;
  for (const auto& context : contexts_) {
    check_fence(*context);
    if (context->seen != context->submitted)
      fail(fmt::format("the device is idle, and a fence is at {} of {}", context->seen,
                       context->submitted));
  }
}

void Client::op_priority() {
  Context* const context = any_context();
  D3DKMT_SETCONTEXTSCHEDULINGPRIORITY set{};
  set.hContext = context->handle;
  set.Priority = -static_cast<INT>(random_.below(8));
  const NTSTATUS status = call("D3DKMTSetContextSchedulingPriority",
                               [&] { return D3DKMTSetContextSchedulingPriority(&set); });
  static_cast<void>(accepted("D3DKMTSetContextSchedulingPriority", status));
}

void Client::run_waiter() {
  if (dying_) return;  // before it began
  const thunks::ClientScope scope(world_.system, *process_);
  for (;;) {
    const uint32_t seen = waiter_changes_.load();
    if (waiter_ends_) return;
    if (dying_ || world_.failed()) return;
    if (!waiter_task_.has_value()) {
      const runtime::WaitReason reason(world_.runtime, "something to wait for (client's waiter)");
      world_.runtime.wait(waiter_changes_, seen);
      continue;
    }
    const WaiterTask task = *waiter_task_;
    waiter_task_.reset();
    waits_at_ = task.fence;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
    wait.hDevice = task.device;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &task.fence;
    wait.FenceValueArray = &task.value;
    const Status status = from_ntstatus(D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
    waits_at_ = 0;
    ++world_.counters.property_checks;  // P13: it came back, with a value, an error or abandoned
    const bool told = is_success(status) || status == Status::kInvalidHandle ||
                      status == Status::kInvalidParameter || status == Status::kDeviceRemoved ||
                      status == thunks::kProcessIsTerminating;
    if (!told)
      world_.fail(fmt::format("a blocked wait came back with {}", text_of(to_ntstatus(status))));
  }
}

void Client::wake_waiter() {
  waiter_changes_.fetch_add(1);
  world_.runtime.wake_all(waiter_changes_);
}

}  // namespace dxgkit::sim
