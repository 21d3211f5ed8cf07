// Hardware contexts and queues: create, destroy, submit, wait, signal.
#include <algorithm>
#include <bit>

#include "dxgk/adapter/adapter.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Device;
using dxgk::HwContext;
using dxgk::HwQueue;
using dxgk::OpenedAllocation;
using dxgk::Process;
using dxgk::Ref;
using dxgk::SyncObject;
using vidsch::SyncPoint;

// D3DDDI_CREATEHWQUEUEFLAGS.
constexpr UINT kDisableGpuTimeout = 1U << 0;
constexpr UINT kNoBroadcastSignal = 1U << 1;
constexpr UINT kNoBroadcastWait = 1U << 2;
constexpr UINT kNoKmdAccess = 1U << 3;
constexpr UINT kDefinedQueueFlags = (1U << 7) - 1;
constexpr UINT kHonouredQueueFlags = kDisableGpuTimeout | kNoBroadcastSignal | kNoBroadcastWait;

Status create_context(Process& process, D3DKMT_CREATEHWCONTEXT& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  if (device->floor().hw_queues == nullptr) return Status::kNotSupported;
  if (args.Flags.Value != 0) return Status::kInvalidParameter;  // THUNK-03
  std::vector<std::byte> data;                                  // the driver may write into it
  DXGKIT_RETURN_IF_FAILED(
      capture_two_way<&D3DKMT_CREATEHWCONTEXT::pPrivateDriverData>(args, &data));
  dxgk::HwContextCreation creation;
  creation.node = NodeOrdinal{args.NodeOrdinal};
  creation.engine_affinity = args.EngineAffinity;
  creation.private_data = data;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<HwContext> context,
                                 HwContext::create(*device, creation));
  static_cast<void>(give<&D3DKMT_CREATEHWCONTEXT::pPrivateDriverData>(args, data));
  args.hHwContext = context->handle;
  return Status::kSuccess;
}

Status destroy_context(Process& process, const D3DKMT_DESTROYHWCONTEXT& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<HwContext> context,
                                 process.handles().take<HwContext>(args.hHwContext));
  context->device().adapter().core().while_stable([&] { context->destroy(); });
  return Status::kSuccess;
}

Status create_queue(Process& process, D3DKMT_CREATEHWQUEUE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<HwContext> context,
                                 process.handles().find<HwContext>(args.hHwContext));
  DXGKIT_ENTER(context->device().adapter());
  if (context->device().lost()) return Status::kDeviceRemoved;
  const UINT flags = args.Flags.Value;
  if ((flags & ~kDefinedQueueFlags) != 0 || (flags & kNoKmdAccess) != 0)
    return Status::kInvalidParameter;  // THUNK-03; the second is the system's
  if ((flags & ~kHonouredQueueFlags) != 0) return Status::kNotSupported;
  std::vector<std::byte> data;
  DXGKIT_RETURN_IF_FAILED(capture_two_way<&D3DKMT_CREATEHWQUEUE::pPrivateDriverData>(args, &data));
  dxgk::HwQueueCreation creation;
  creation.flags = flags;
  creation.private_data = data;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<HwQueue> queue, HwQueue::create(*context, creation));
  static_cast<void>(give<&D3DKMT_CREATEHWQUEUE::pPrivateDriverData>(args, data));
  args.hHwQueue = queue->handle;
  args.hHwQueueProgressFence = queue->progress_fence().handle;
  args.HwQueueProgressFenceCPUVirtualAddress = queue->progress_fence().client_view->address();
  args.HwQueueProgressFenceGPUVirtualAddress = queue->progress_fence_va();
  return Status::kSuccess;
}

Status destroy_queue(Process& process, const D3DKMT_DESTROYHWQUEUE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<HwQueue> queue,
                                 process.handles().take<HwQueue>(args.hHwQueue));
  queue->device().adapter().core().while_stable([&] { queue->destroy(); });
  return Status::kSuccess;
}

Status submit(Process& process, const D3DKMT_SUBMITCOMMANDTOHWQUEUE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<HwQueue> queue,
                                 process.handles().find<HwQueue>(args.hHwQueue));
  Device& device = queue->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  std::vector<std::byte> data;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_SUBMITCOMMANDTOHWQUEUE::pPrivateDriverData>(args, &data));
  std::vector<D3DKMT_HANDLE> handles;  // SUB-36
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_SUBMITCOMMANDTOHWQUEUE::WrittenPrimaries>(args, &handles));
  std::vector<Ref<OpenedAllocation>> primaries(handles.size());
  for (size_t i = 0; i < handles.size(); ++i) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(primaries[i],
                                   process.handles().find<OpenedAllocation>(handles[i]));
    if (&primaries[i]->device->floor() != &device.floor()) return Status::kInvalidParameter;
  }
  dxgk::HwSubmission submission;
  submission.progress_fence = args.HwQueueProgressFenceId;
  submission.commands = args.CommandBuffer;  // THUNK-18: the GPU finds out
  submission.bytes = args.CommandLength;
  submission.private_data = data;
  submission.written_primaries = primaries;
  return queue->submit(submission);
}

enum class Right { kSignal, kWait };

/// Monitored fences of the adapter, with values, whose handles have the right (SYNC-11).
template <typename Args>
Status capture_points(Process& process, Device& device, Right right, const Args& args,
                      std::vector<SyncPoint>* points) {
  std::vector<D3DKMT_HANDLE> captured;
  std::vector<UINT64> captured_values;
  DXGKIT_RETURN_IF_FAILED(capture<&Args::ObjectHandleArray>(args, &captured));
  DXGKIT_RETURN_IF_FAILED(capture<&Args::FenceValueArray>(args, &captured_values));
  if (captured.empty()) return Status::kInvalidParameter;
  for (size_t i = 0; i < captured.size(); ++i) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<SyncObject> object,
                                   process.handles().find<SyncObject>(captured[i]));
    if (&object->floor() != &device.floor()) return Status::kInvalidParameter;
    DXGKIT_RETURN_IF_FAILED(right == Right::kSignal ? object->may_signal() : object->may_wait());
    if (object->kind != vidsch::SyncKind::kMonitoredFence) return Status::kInvalidParameter;
    points->push_back({object->id, captured_values[i]});
  }
  return Status::kSuccess;
}

Status wait(Process& process, const D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<HwQueue> queue,
                                 process.handles().find<HwQueue>(args.hHwQueue));
  Device& device = queue->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  std::vector<SyncPoint> points;
  DXGKIT_RETURN_IF_FAILED(capture_points(process, device, Right::kWait, args, &points));
  return queue->queue_sync(vidsch::PacketKind::kWait, points);
}

/// The queues of one signal, all of one adapter.
Status capture_queues(Process& process, const D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE& args,
                      std::vector<Ref<dxgk::Context>>* queues) {
  std::vector<D3DKMT_HANDLE> handles;
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE::BroadcastHwQueueArray>(args, &handles));
  if (handles.empty()) return Status::kInvalidParameter;
  for (const D3DKMT_HANDLE handle : handles) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<HwQueue> queue,
                                   process.handles().find<HwQueue>(handle));
    if (!queues->empty() && &queue->device().adapter() != &queues->front()->device().adapter())
      return Status::kInvalidParameter;
    queues->push_back(queue);
  }
  return Status::kSuccess;
}

/// SYNC-06: with several queues the signal takes effect when all have come to it.
Status signal(Process& process, const D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE& args) {
  std::vector<Ref<dxgk::Context>> queues;
  DXGKIT_RETURN_IF_FAILED(capture_queues(process, args, &queues));
  Device& device = queues.front()->device();
  DXGKIT_ENTER(device.adapter());
  if (device.lost()) return Status::kDeviceRemoved;
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  // The structure has no event for EnqueueCpuEvent (SYNC-07).
  constexpr UINT kAtSubmission = 1, kAllowFenceRewind = 4;
  if ((flags & ~(kAtSubmission | kAllowFenceRewind)) != 0) return Status::kInvalidParameter;
  std::vector<SyncPoint> points;
  DXGKIT_RETURN_IF_FAILED(capture_points(process, device, Right::kSignal, args, &points));
  for (SyncPoint& point : points) point.allow_rewind = (flags & kAllowFenceRewind) != 0;
  return dxgk::Context::queue_signal(queues, points,
                                     {.at_submission = (flags & kAtSubmission) != 0});
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreateHwContext(D3DKMT_CREATEHWCONTEXT* args) {
  return call<D3DKMTCreateHwContext>(args, dxgkit::thunks::create_context);
}
NTSTATUS APIENTRY D3DKMTDestroyHwContext(const D3DKMT_DESTROYHWCONTEXT* args) {
  return call<D3DKMTDestroyHwContext>(args, dxgkit::thunks::destroy_context);
}
NTSTATUS APIENTRY D3DKMTCreateHwQueue(D3DKMT_CREATEHWQUEUE* args) {
  return call<D3DKMTCreateHwQueue>(args, dxgkit::thunks::create_queue);
}
NTSTATUS APIENTRY D3DKMTDestroyHwQueue(const D3DKMT_DESTROYHWQUEUE* args) {
  return call<D3DKMTDestroyHwQueue>(args, dxgkit::thunks::destroy_queue);
}
NTSTATUS APIENTRY D3DKMTSubmitCommandToHwQueue(const D3DKMT_SUBMITCOMMANDTOHWQUEUE* args) {
  return call<D3DKMTSubmitCommandToHwQueue>(args, dxgkit::thunks::submit);
}
NTSTATUS APIENTRY
D3DKMTSubmitWaitForSyncObjectsToHwQueue(const D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE* args) {
  return call<D3DKMTSubmitWaitForSyncObjectsToHwQueue>(
      args, dxgkit::thunks::without_removal<dxgkit::thunks::wait>);
}
NTSTATUS APIENTRY
D3DKMTSubmitSignalSyncObjectsToHwQueue(const D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE* args) {
  return call<D3DKMTSubmitSignalSyncObjectsToHwQueue>(
      args, dxgkit::thunks::without_removal<dxgkit::thunks::signal>);
}

}  // extern "C"
