// Signals from the CPU, waiters on objects that are destroyed, and readers that share an allocation
// that is being paged in.
#include <algorithm>

#include "sim/client_call.h"

namespace dxgkit::sim {
namespace {

/// How often to check whether a thread has come back from a wait: ten seconds, without sleep and
/// jumps.
constexpr int kLooks = 1'000'000;

}  // namespace

bool Client::create_fence(D3DKMT_HANDLE* fence, const volatile uint64_t** memory) {
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
  create.hDevice = device_;
  create.Info.Type = D3DDDI_MONITORED_FENCE;
  const NTSTATUS status = call("D3DKMTCreateSynchronizationObject2",
                               [&] { return D3DKMTCreateSynchronizationObject2(&create); });
  if (!accepted("D3DKMTCreateSynchronizationObject2", status)) return false;
  *fence = create.hSyncObject;
  if (memory != nullptr)
    *memory = static_cast<const uint64_t*>(create.Info.MonitoredFence.FenceValueCPUVirtualAddress);
  fence_pages_.insert(create.Info.MonitoredFence.FenceValueGPUVirtualAddress / kPageBytes);
  return true;
}

void Client::destroy_fence(D3DKMT_HANDLE fence) {
  const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{.hSyncObject = fence};
  const NTSTATUS status = call("D3DKMTDestroySynchronizationObject",
                               [&] { return D3DKMTDestroySynchronizationObject(&destroy); });
  static_cast<void>(accepted("D3DKMTDestroySynchronizationObject", status));
}

bool Client::wait_beside(D3DKMT_HANDLE fence, uint64_t value) {
  if (waits_at_ != 0 || waiter_task_.has_value()) return false;
  waiter_task_ = WaiterTask{device_, fence, value};
  wake_waiter();
  return true;
}

void Client::must_come_back(D3DKMT_HANDLE fence, const char* why) {
  int looks = 0;
  ++world_.counters.property_checks;
  while (waits_at_ == fence || (waiter_task_.has_value() && waiter_task_->fence == fence)) {
    if (++looks > kLooks)
      fail(fmt::format("a thread waits for fence {:#x} {}", fence, why));  // P13
    sleep_for(10 * runtime::kMicrosecond);
  }
  world_.wait_while_frozen();
  throw_if_ended();
}

void Client::signal_from_cpu() {
  Context* const context = any_context();
  if (allocations_.empty()) return;
  cpu_wait(*context, context->submitted);  // packets behind the wait need nothing that is before it
  D3DKMT_HANDLE fence = 0;
  if (!create_fence(&fence)) return;
  const uint64_t value = extra_.magnitude(1, uint64_t{1} << 40);
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait{};
  wait.hContext = context->handle;
  wait.ObjectCount = 1;
  wait.ObjectHandleArray = &fence;
  wait.MonitoredFenceValueArray = &value;
  NTSTATUS status = call("D3DKMTWaitForSynchronizationObjectFromGpu",
                         [&] { return D3DKMTWaitForSynchronizationObjectFromGpu(&wait); });
  const bool waits = accepted("D3DKMTWaitForSynchronizationObjectFromGpu", status);
  const bool beside = extra_.percent(50) && wait_beside(fence, value);
  const uint64_t before = context->submitted;
  if (waits) {
    const Command command = random_command();
    static_cast<void>(submit(*context, std::span(&command, 1)));
  }
  sleep_for(static_cast<int64_t>(extra_.magnitude(1, 100'000)));
  check_fence(*context);
  ++world_.counters.property_checks;
  if (waits && context->seen > before)
    fail(fmt::format("a context passed a wait for {} that nobody signalled", value));
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal{};
  signal.hDevice = device_;
  signal.ObjectCount = 1;
  signal.ObjectHandleArray = &fence;
  signal.FenceValueArray = &value;
  status = call("D3DKMTSignalSynchronizationObjectFromCpu",
                [&] { return D3DKMTSignalSynchronizationObjectFromCpu(&signal); });
  if (!accepted("D3DKMTSignalSynchronizationObjectFromCpu", status))
    fail("a signal from the CPU was refused");
  if (beside) must_come_back(fence, "that was signalled");
  cpu_wait(*context, context->submitted);
  destroy_fence(fence);
}

void Client::abandon_waiter() {
  D3DKMT_HANDLE fence = 0;
  if (!create_fence(&fence)) return;
  const bool beside = wait_beside(fence, 1);
  sleep_for(static_cast<int64_t>(extra_.magnitude(1, 100'000)));
  const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{.hSyncObject = fence};
  const NTSTATUS status = call("D3DKMTDestroySynchronizationObject",
                               [&] { return D3DKMTDestroySynchronizationObject(&destroy); });
  static_cast<void>(accepted("D3DKMTDestroySynchronizationObject", status));
  if (beside) must_come_back(fence, "that was destroyed");
}

void Client::read_twice() {
  // One engine has the allocation paged in; the other one must wait for that, too.
  Allocation* const source = any_allocation();
  if (source == nullptr || contexts_.size() < 2 || source->locked != nullptr) return;
  Context& one = *contexts_[0];
  Context& other = *contexts_[1];
  settle(*source, true);
  Allocation* const self = source;
  if (source->resident && !evict(std::span(&self, 1))) return;
  const std::vector<uint64_t> sizes(1, source->size());
  if (bytes_live() + source->size() * 2 > world_.plan.client_bytes) return;
  std::vector<Allocation*> made;
  for (Context* const context : {&one, &other}) {
    if (!create_allocations(sizes, SGPU_UMD_PLACE_ANY, false)) break;
    Allocation* const copy = allocations_.back().get();
    made.push_back(copy);
    const Command command{.kind = Command::Kind::kCopy,
                          .source = source,
                          .destination = copy,
                          .size = source->size()};
    if (!submit(*context, std::span(&command, 1))) break;
  }
  for (Allocation* const copy : made) static_cast<void>(verify(*copy));
  for (Allocation* const copy : made) {
    const auto found = std::ranges::find(allocations_, copy, &std::unique_ptr<Allocation>::get);
    if (found != allocations_.end())
      destroy_allocation(static_cast<size_t>(found - allocations_.begin()), false);
  }
}

void Client::work_with_signals() {
  if (!extra_.percent(world_.plan.signals)) return;
  switch (extra_.below(3)) {
    case 0:
      return signal_from_cpu();
    case 1:
      return abandon_waiter();
    default:
      return read_twice();
  }
}

}  // namespace dxgkit::sim
