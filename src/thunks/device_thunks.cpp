// Devices and contexts.
#include <bit>

#include "dxgk/display/display.h"
#include "dxgk/display/display_floor.h"
#include "dxgk/display/flips.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Context;
using dxgk::Device;
using dxgk::Process;
using dxgk::Ref;

Status create_device(Process& process, D3DKMT_CREATEDEVICE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<dxgk::Adapter> adapter,
                                 process.handles().find<dxgk::Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  if ((flags & ~7U) != 0) return Status::kInvalidParameter;  // THUNK-03: three flags are defined
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 Device::create(*adapter, adapter->floor(), process));
  args.hDevice = device->handle;
  args.pCommandBuffer = nullptr;
  args.CommandBufferSize = 0;
  args.pAllocationList = nullptr;
  args.AllocationListSize = 0;
  args.pPatchLocationList = nullptr;
  args.PatchLocationListSize = 0;
  return Status::kSuccess;
}

Status destroy_device(Process& process, const D3DKMT_DESTROYDEVICE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().take<Device>(args.hDevice));
  device->adapter().core().while_stable([&] { device->destroy(); });
  return Status::kSuccess;
}

/// What a source has shown and is about to show (THUNK-59). kInvalidParameter: there is no such
/// source, or none that flips.
Status present_state(Device& device, D3DKMT_GETDEVICESTATE& args) {
  dxgk::DisplayFloor& floor = device.adapter().floor();
  // Each state begins with its source.
  const uint32_t id = args.PresentState.VidPnSourceId;
  dxgk::Flips* const flips = floor.display == nullptr ? nullptr : floor.display->flips();
  if (flips == nullptr || id >= floor.core.facts().start.video_present_sources)
    return Status::kInvalidParameter;
  dxgk::Flips::Counts counts;
  bool limit_reached = false;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    counts = flips->counts(id);
    limit_reached = flips->pending(device) >= device.flip_limit ||
                    device.queued_presents >= device.present_limit;
  });
  constexpr int64_t kNsPerTick = 100;  // of the performance counter
  const auto fill = [&](auto& stats) {
    stats = {};
    stats.PresentCount = static_cast<UINT>(counts.frames);
    stats.PresentRefreshCount = static_cast<UINT>(counts.frame_vsync);
    stats.SyncRefreshCount = static_cast<UINT>(counts.vsyncs);
    stats.SyncQPCTime.QuadPart = counts.vsync_ns / kNsPerTick;
  };
  if (args.StateType == D3DKMT_DEVICESTATE_PRESENT) fill(args.PresentState.PresentStats);
  if (args.StateType == D3DKMT_DEVICESTATE_PRESENT_DWM) fill(args.PresentStateDWM.PresentStatsDWM);
  if (args.StateType == D3DKMT_DEVICESTATE_PRESENT_QUEUE)
    args.PresentQueueState.bQueuedPresentLimitReached = limit_reached ? TRUE : FALSE;
  return Status::kSuccess;
}

Status get_device_state(Process& process, D3DKMT_GETDEVICESTATE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  // TDR-27: works on a lost device, as long as the adapter is there.
  if (device->adapter().core().gate().closed()) return Status::kDeviceRemoved;
  switch (args.StateType) {
    case D3DKMT_DEVICESTATE_EXECUTION:
      args.ExecutionState = static_cast<D3DKMT_DEVICEEXECUTION_STATE>(device->state());
      return Status::kSuccess;
    case D3DKMT_DEVICESTATE_RESET:
      args.ResetState.Value = 0;  // the desktop never switches to another adapter here
      return Status::kSuccess;
    case D3DKMT_DEVICESTATE_PRESENT:
    case D3DKMT_DEVICESTATE_PRESENT_DWM:
    case D3DKMT_DEVICESTATE_PRESENT_QUEUE:
      return present_state(*device, args);
    case D3DKMT_DEVICESTATE_PAGE_FAULT:
      device->adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
        const port::InterruptReport fault = device->page_fault.value_or(port::InterruptReport{});
        D3DKMT_DEVICEPAGEFAULT_STATE& state = args.PageFaultState;
        state = {};
        state.FaultedPrimitiveAPISequenceNumber = fault.primitive;
        state.FaultedPipelineStage = static_cast<DXGK_RENDER_PIPELINE_STAGE>(fault.pipeline_stage);
        state.FaultedBindTableEntry = fault.bind_table_entry;
        state.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(fault.flags);
        state.FaultErrorCode = std::bit_cast<DXGK_FAULT_ERROR_CODE>(fault.error_code);
        state.FaultedVirtualAddress = fault.address;
      });
      return Status::kSuccess;
    default:
      return Status::kInvalidParameter;
  }
}

Status wait_for_idle(Process& process, const D3DKMT_WAITFORIDLE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  return device->wait_for_idle();
}

Status create_context(Process& process, D3DKMT_CREATECONTEXT& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  std::vector<std::byte> private_data;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_CREATECONTEXT::pPrivateDriverData>(args, &private_data));
  dxgk::ContextCreation creation;
  creation.node = NodeOrdinal{args.NodeOrdinal};
  creation.engine_affinity = args.EngineAffinity;
  creation.private_data = private_data;
  creation.null_rendering = args.Flags.NullRendering != 0;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context, Context::create(*device, creation));
  const dxgk::ClientBuffers buffers = context->rendering().buffers();
  args.hContext = context->handle;
  args.pCommandBuffer = buffers.command;
  args.CommandBufferSize = buffers.command_bytes;
  args.pAllocationList = reinterpret_cast<D3DDDI_ALLOCATIONLIST*>(buffers.allocations);
  args.AllocationListSize = buffers.allocation_count;
  args.pPatchLocationList = reinterpret_cast<D3DDDI_PATCHLOCATIONLIST*>(buffers.patches);
  args.PatchLocationListSize = buffers.patch_count;
  args.CommandBuffer = 0;
  return Status::kSuccess;
}

Status destroy_context(Process& process, const D3DKMT_DESTROYCONTEXT& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().take<Context>(args.hContext));
  context->device().adapter().core().while_stable([&] { context->destroy(); });
  return Status::kSuccess;
}

Status render(Process& process, D3DKMT_RENDER& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  DXGKIT_ENTER(context->device().adapter());
  const auto status = [&]() -> Status {
    if (context->device().lost()) return Status::kDeviceRemoved;
    const UINT flags = std::bit_cast<UINT>(args.Flags);
    if ((flags >> 7) != 0) return Status::kInvalidParameter;  // THUNK-03
    if (args.Flags.RenderKmReadback != 0) return Status::kInvalidParameter;
    if (args.BroadcastContextCount > D3DDDI_MAX_BROADCAST_CONTEXT)
      return Status::kInvalidParameter;  // SUB-35
    std::vector<Ref<Context>> others;
    for (ULONG i = 0; i < args.BroadcastContextCount; ++i) {
      DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> other,
                                     process.handles().find<Context>(args.BroadcastContext[i]));
      if (&other->device().adapter() != &context->device().adapter())
        return Status::kInvalidParameter;
      others.push_back(other);
    }
    dxgk::RenderRequest request;
    request.broadcast = others;
    request.command_offset = args.CommandOffset;
    request.command_length = args.CommandLength;
    request.allocation_count = args.AllocationCount;
    request.patch_count = args.PatchLocationCount;
    request.null_rendering = args.Flags.NullRendering != 0;
    request.render_km = args.Flags.RenderKm != 0;
    request.present_redirected = args.Flags.PresentRedirected != 0;
    if (args.Flags.ResizeCommandBuffer != 0)
      request.resize_command_bytes = args.NewCommandBufferSize;
    if (args.Flags.ResizeAllocationList != 0)
      request.resize_allocations = args.NewAllocationListSize;
    if (args.Flags.ResizePatchLocationList != 0)
      request.resize_patches = args.NewPatchLocationListSize;
    uint32_t queued = 0;
    DXGKIT_RETURN_IF_FAILED(context->rendering().render(request, &queued));
    args.QueuedBufferCount = queued;
    return Status::kSuccess;
  }();
  // THUNK-15: where the next commands go, on failure too.
  const dxgk::ClientBuffers buffers = context->rendering().buffers();
  args.pNewCommandBuffer = buffers.command;
  args.NewCommandBufferSize = buffers.command_bytes;
  args.pNewAllocationList = reinterpret_cast<D3DDDI_ALLOCATIONLIST*>(buffers.allocations);
  args.NewAllocationListSize = buffers.allocation_count;
  args.pNewPatchLocationList = reinterpret_cast<D3DDDI_PATCHLOCATIONLIST*>(buffers.patches);
  args.NewPatchLocationListSize = buffers.patch_count;
  return status;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreateDevice(D3DKMT_CREATEDEVICE* args) {
  return call<D3DKMTCreateDevice>(args, dxgkit::thunks::create_device);
}
NTSTATUS APIENTRY D3DKMTDestroyDevice(const D3DKMT_DESTROYDEVICE* args) {
  return call<D3DKMTDestroyDevice>(args, dxgkit::thunks::destroy_device);
}
NTSTATUS APIENTRY D3DKMTGetDeviceState(D3DKMT_GETDEVICESTATE* args) {
  return call<D3DKMTGetDeviceState>(args, dxgkit::thunks::get_device_state);
}
NTSTATUS APIENTRY D3DKMTWaitForIdle(const D3DKMT_WAITFORIDLE* args) {
  return call<D3DKMTWaitForIdle>(args, dxgkit::thunks::wait_for_idle);
}
NTSTATUS APIENTRY D3DKMTCreateContext(D3DKMT_CREATECONTEXT* args) {
  return call<D3DKMTCreateContext>(args, dxgkit::thunks::create_context);
}
NTSTATUS APIENTRY D3DKMTDestroyContext(const D3DKMT_DESTROYCONTEXT* args) {
  return call<D3DKMTDestroyContext>(args, dxgkit::thunks::destroy_context);
}
NTSTATUS APIENTRY D3DKMTRender(D3DKMT_RENDER* args) {
  return call<D3DKMTRender>(args, dxgkit::thunks::render);
}

}  // extern "C"
