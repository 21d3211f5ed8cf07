#include "port/ddi/hw_queue.h"

#include <cstring>

#include "base/check.h"
#include "nt/paged.h"
#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"
#include "port/core/port_core.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCreateHwContext{"DxgkDdiCreateHwContext", nt::kPassiveLevel,
                                   DdiClass::kLevelZero};
constexpr DdiInfo kDestroyHwContext{"DxgkDdiDestroyHwContext", nt::kPassiveLevel,
                                    DdiClass::kLevelZero};
constexpr DdiInfo kCreateHwQueue{"DxgkDdiCreateHwQueue", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroyHwQueue{"DxgkDdiDestroyHwQueue", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kSubmitToHwQueue{"DxgkDdiSubmitCommandToHwQueue", nt::kDispatchLevel,
                                   DdiClass::kLevelZero, verifier::Situation::kHwQueueFirst};

}  // namespace

bool HwQueuePort::supported() const {
  const DRIVER_INITIALIZATION_DATA& ddi = core_.ddi;
  return core_.version >= kInterfaceWddm22 && ddi.DxgkDdiCreateHwContext != nullptr &&
         ddi.DxgkDdiDestroyHwContext != nullptr && ddi.DxgkDdiCreateHwQueue != nullptr &&
         ddi.DxgkDdiDestroyHwQueue != nullptr && ddi.DxgkDdiSubmitCommandToHwQueue != nullptr;
}

Result<void*> HwQueuePort::create_hw_context(void* device, uint32_t handle, NodeOrdinal node,
                                             uint32_t engine_affinity,
                                             std::span<std::byte> private_data) {
  DXGKIT_RETURN_ERROR_IF_FAILED(
      callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiCreateHwContext));
  DXGKARG_CREATEHWCONTEXT arguments{};
  arguments.hHwContext = handle_of(handle);
  arguments.NodeOrdinal = node.value;
  arguments.EngineAffinity = engine_affinity;
  GuardedOutput output(private_data);
  arguments.pPrivateDriverData = private_data.empty() ? nullptr : output.data();
  arguments.PrivateDriverDataSize = static_cast<UINT>(private_data.size());
  DdiCall call(core_, kCreateHwContext, handle, static_cast<uint16_t>(node.value));
  const Status status = call(core_.ddi.DxgkDdiCreateHwContext, device, &arguments);
  static_cast<void>(output.finish(core_, kCreateHwContext.name, "pPrivateDriverData"));
  if (!is_success(status)) return Error(status);
  return arguments.hHwContext;
}

Status HwQueuePort::destroy_hw_context(void* context) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiDestroyHwContext));
  DdiCall call(core_, kDestroyHwContext);
  return call(core_.ddi.DxgkDdiDestroyHwContext, context);
}

Result<void*> HwQueuePort::create_hw_queue(void* context, const HwQueueArgs& args) {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiCreateHwQueue));
  DXGKARG_CREATEHWQUEUE arguments{};
  arguments.hHwQueue = handle_of(args.handle);
  arguments.Flags.Value = args.flags;
  GuardedOutput output(args.private_data);
  arguments.pPrivateDriverData = args.private_data.empty() ? nullptr : output.data();
  arguments.PrivateDriverDataSize = static_cast<UINT>(args.private_data.size());
  arguments.hHwQueueProgressFence = args.progress_fence;
  arguments.HwQueueProgressFenceCPUVirtualAddress = args.progress_fence_cpu;
  arguments.HwQueueProgressFenceGPUVirtualAddress = args.progress_fence_va;
  DdiCall call(core_, kCreateHwQueue, args.handle);
  const Status status = call(core_.ddi.DxgkDdiCreateHwQueue, context, &arguments);
  static_cast<void>(output.finish(core_, kCreateHwQueue.name, "pPrivateDriverData"));
  if (!is_success(status)) return Error(status);
  return arguments.hHwQueue;
}

Status HwQueuePort::destroy_hw_queue(void* queue) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiDestroyHwQueue));
  DdiCall call(core_, kDestroyHwQueue);
  return call(core_.ddi.DxgkDdiDestroyHwQueue, queue);
}

Status HwQueuePort::submit(const HwQueueSubmission& submission) {
  DXGKIT_RETURN_IF_FAILED(
      callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiSubmitCommandToHwQueue));
  DXGKARG_SUBMITCOMMANDTOHWQUEUE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hHwQueue = submission.queue;
  arguments.HwQueueProgressFenceId = submission.progress_fence;
  arguments.DmaBufferVirtualAddress = submission.buffer_va;
  arguments.DmaBufferSize = submission.buffer_bytes;
  arguments.DmaBufferPrivateDataSize = submission.private_bytes;
  arguments.pDmaBufferPrivateData =
      submission.private_bytes == 0 ? core_.guard_page : submission.private_data;
  arguments.Flags.Present = submission.present ? 1 : 0;
  arguments.HwQueueProgressFenceGpuVa = submission.progress_fence_va;
  arguments.HwQueueProgressFenceCpuVa = submission.progress_fence_cpu;
  nt::at_level(core_.kernel, nt::kDispatchLevel);  // IRQL-13
  DdiCall call(core_, kSubmitToHwQueue, submission.progress_fence);
  return call(core_.ddi.DxgkDdiSubmitCommandToHwQueue, core_.context,
              static_cast<const DXGKARG_SUBMITCOMMANDTOHWQUEUE*>(&arguments));
}

}  // namespace dxgkit::port
