#include "port/ddi/hw_queue.h"

#include <cstring>

#include "nt/paged.h"
#include "port/adapter_impl.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCreateHwContext{"DxgkDdiCreateHwContext", nt::kPassiveLevel,
                                   DdiClass::kLevelZero};
constexpr DdiInfo kDestroyHwContext{"DxgkDdiDestroyHwContext", nt::kPassiveLevel,
                                    DdiClass::kLevelZero};
constexpr DdiInfo kCreateHwQueue{"DxgkDdiCreateHwQueue", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroyHwQueue{"DxgkDdiDestroyHwQueue", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kSubmitToHwQueue{"DxgkDdiSubmitCommandToHwQueue", nt::kDispatchLevel,
                                   DdiClass::kLevelZero};

/// kSuccess: the entry is there and may be called.
template <typename Entry>
Status callable(const AdapterPort::Impl& port, Entry entry) {
  if (is_dead(port)) return Status::kDeviceRemoved;
  const bool known = port.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_2;
  return known && entry != nullptr ? Status::kSuccess : Status::kNotSupported;
}

void* handle_of(uint32_t handle) { return reinterpret_cast<void*>(uint64_t{handle}); }

}  // namespace

HwQueuePort::HwQueuePort(const AdapterPort& adapter)
    : impl_(*static_cast<AdapterPort::Impl*>(const_cast<void*>(adapter.device_handle()))) {}

bool HwQueuePort::supported() const {
  const DRIVER_INITIALIZATION_DATA& ddi = impl_.ddi;
  return impl_.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_2 &&
         ddi.DxgkDdiCreateHwContext != nullptr && ddi.DxgkDdiDestroyHwContext != nullptr &&
         ddi.DxgkDdiCreateHwQueue != nullptr && ddi.DxgkDdiDestroyHwQueue != nullptr &&
         ddi.DxgkDdiSubmitCommandToHwQueue != nullptr;
}

Result<void*> HwQueuePort::create_hw_context(void* device, uint32_t handle, NodeOrdinal node,
                                             uint32_t engine_affinity,
                                             std::span<std::byte> private_data) {
  AdapterPort::Impl& port = impl_;
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(port, port.ddi.DxgkDdiCreateHwContext));
  DXGKARG_CREATEHWCONTEXT arguments{};
  arguments.hHwContext = handle_of(handle);
  arguments.NodeOrdinal = node.value;
  arguments.EngineAffinity = engine_affinity;
  arguments.pPrivateDriverData = private_data.empty() ? nullptr : private_data.data();
  arguments.PrivateDriverDataSize = static_cast<UINT>(private_data.size());
  DdiCall call(port, kCreateHwContext, handle, static_cast<uint16_t>(node.value));
  const Status status = call(port.ddi.DxgkDdiCreateHwContext, device, &arguments);
  if (!is_success(status)) return Error(status);
  return arguments.hHwContext;
}

Status HwQueuePort::destroy_hw_context(void* context) {
  AdapterPort::Impl& port = impl_;
  DXGKIT_RETURN_IF_FAILED(callable(port, port.ddi.DxgkDdiDestroyHwContext));
  DdiCall call(port, kDestroyHwContext);
  return call(port.ddi.DxgkDdiDestroyHwContext, context);
}

Result<void*> HwQueuePort::create_hw_queue(void* context, const HwQueueArgs& args) {
  AdapterPort::Impl& port = impl_;
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(port, port.ddi.DxgkDdiCreateHwQueue));
  DXGKARG_CREATEHWQUEUE arguments{};
  arguments.hHwQueue = handle_of(args.handle);
  arguments.Flags.Value = args.flags;
  arguments.pPrivateDriverData = args.private_data.empty() ? nullptr : args.private_data.data();
  arguments.PrivateDriverDataSize = static_cast<UINT>(args.private_data.size());
  arguments.hHwQueueProgressFence = args.progress_fence;
  arguments.HwQueueProgressFenceCPUVirtualAddress = args.progress_fence_cpu;
  arguments.HwQueueProgressFenceGPUVirtualAddress = args.progress_fence_va;
  DdiCall call(port, kCreateHwQueue, args.handle);
  const Status status = call(port.ddi.DxgkDdiCreateHwQueue, context, &arguments);
  if (!is_success(status)) return Error(status);
  return arguments.hHwQueue;
}

Status HwQueuePort::destroy_hw_queue(void* queue) {
  AdapterPort::Impl& port = impl_;
  DXGKIT_RETURN_IF_FAILED(callable(port, port.ddi.DxgkDdiDestroyHwQueue));
  DdiCall call(port, kDestroyHwQueue);
  return call(port.ddi.DxgkDdiDestroyHwQueue, queue);
}

Status HwQueuePort::submit(const HwQueueSubmission& submission) {
  AdapterPort::Impl& port = impl_;
  DXGKIT_RETURN_IF_FAILED(callable(port, port.ddi.DxgkDdiSubmitCommandToHwQueue));
  DXGKARG_SUBMITCOMMANDTOHWQUEUE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hHwQueue = submission.queue;
  arguments.HwQueueProgressFenceId = submission.progress_fence;
  arguments.DmaBufferVirtualAddress = submission.buffer_va;
  arguments.DmaBufferSize = submission.buffer_bytes;
  arguments.DmaBufferPrivateDataSize = submission.private_bytes;
  arguments.pDmaBufferPrivateData =
      submission.private_bytes == 0 ? port.guard_page : submission.private_data;
  arguments.Flags.Present = submission.present ? 1 : 0;
  arguments.HwQueueProgressFenceGpuVa = submission.progress_fence_va;
  arguments.HwQueueProgressFenceCpuVa = submission.progress_fence_cpu;
  nt::at_level(port.kernel, nt::kDispatchLevel);  // IRQL-13
  DdiCall call(port, kSubmitToHwQueue, submission.progress_fence);
  return call(port.ddi.DxgkDdiSubmitCommandToHwQueue, port.context,
              static_cast<const DXGKARG_SUBMITCOMMANDTOHWQUEUE*>(&arguments));
}

}  // namespace dxgkit::port
