#include "tests/support/scripted_hw_queue.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace dxgkit::testing {
namespace {

ScriptedHwQueues* g_current = nullptr;

NTSTATUS ok() { return to_ntstatus(Status::kSuccess); }

DXGKARGCB_NOTIFY_INTERRUPT_DATA interrupt_of(DXGK_INTERRUPT_TYPE type) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof(data));
  data.InterruptType = type;
  return data;
}

}  // namespace

struct ScriptedHwQueues::Entries {
  static ScriptedHwQueues& self(const char* ddi) {
    DXGKIT_CHECK(g_current != nullptr);
    g_current->miniport_.note(ddi);
    return *g_current;
  }
  static NTSTATUS NTAPI create_context(void* device, DXGKARG_CREATEHWCONTEXT* args) {
    ScriptedHwQueues& me = self("DxgkDdiCreateHwContext");
    me.contexts.push_back(std::make_unique<ScriptedHwContext>());
    ScriptedHwContext& context = *me.contexts.back();
    context.args = *args;
    context.device = device;
    me.gpu_.adopt_context(&context, device);
    args->hHwContext = &context;
    return ok();
  }
  static NTSTATUS NTAPI destroy_context(void* handle) {
    ScriptedHwQueues& me = self("DxgkDdiDestroyHwContext");
    auto& context = *static_cast<ScriptedHwContext*>(handle);
    DXGKIT_CHECK(!context.gone && context.queues == 0);
    context.gone = true;
    me.gpu_.forget_context(handle);
    return ok();
  }
  static NTSTATUS NTAPI create_queue(void* handle, DXGKARG_CREATEHWQUEUE* args) {
    ScriptedHwQueues& me = self("DxgkDdiCreateHwQueue");
    if (me.on_create_queue) {
      const NTSTATUS status = me.on_create_queue(handle, args);
      if (status != ok()) return status;
    }
    me.queues.push_back(std::make_unique<ScriptedHwQueue>());
    ScriptedHwQueue& queue = *me.queues.back();
    queue.args = *args;
    queue.context = static_cast<ScriptedHwContext*>(handle);
    ++queue.context->queues;
    args->hHwQueue = &queue;
    return ok();
  }
  static NTSTATUS NTAPI destroy_queue(void* handle) {
    self("DxgkDdiDestroyHwQueue");
    auto& queue = *static_cast<ScriptedHwQueue*>(handle);
    DXGKIT_CHECK(!queue.gone);
    queue.gone = true;
    --queue.context->queues;
    return ok();
  }
  static NTSTATUS NTAPI submit(void*, const DXGKARG_SUBMITCOMMANDTOHWQUEUE* args) {
    ScriptedHwQueues& me = self("DxgkDdiSubmitCommandToHwQueue");
    auto& queue = *static_cast<ScriptedHwQueue*>(args->hHwQueue);
    DXGKIT_CHECK(!queue.inside);  // SCHED-21
    queue.inside = true;
    HwWork work;
    work.args = *args;
    const auto* data = static_cast<const std::byte*>(args->pDmaBufferPrivateData);
    if (args->DmaBufferPrivateDataSize != 0)
      work.private_data.assign(data, data + args->DmaBufferPrivateDataSize);
    me.submissions.push_back(work);
    const NTSTATUS status = me.on_submit ? me.on_submit(args) : ok();
    if (status == ok()) queue.ring.push_back(std::move(work));
    queue.inside = false;
    return status;
  }
  static NTSTATUS NTAPI setup_bands(void*, const DXGKARG_SETUPPRIORITYBANDS* args) {
    ScriptedHwQueues& me = self("DxgkDdiSetupPriorityBands");
    me.bands.push_back(*args);
    return me.on_setup_bands ? me.on_setup_bands() : ok();
  }
  static NTSTATUS NTAPI set_properties(void*, const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES* args) {
    ScriptedHwQueues& me = self("DxgkDdiSetContextSchedulingProperties");
    me.properties.push_back(*args);
    return me.on_set_properties ? me.on_set_properties(args) : ok();
  }
  static NTSTATUS NTAPI suspend(void*, const DXGKARG_SUSPENDCONTEXT* args) {
    ScriptedHwQueues& me = self("DxgkDdiSuspendContext");
    me.suspends.push_back(*args);
    if (me.on_suspend) return me.on_suspend(args);
    auto& context = *static_cast<ScriptedHwContext*>(args->hContext);
    if (context.suspended) return ok();
    context.suspended = true;
    me.acknowledge(context, args->contextSuspendFence);
    return to_ntstatus(Status::kPending);
  }
  static NTSTATUS NTAPI resume(void*, const DXGKARG_RESUMECONTEXT* args) {
    ScriptedHwQueues& me = self("DxgkDdiResumeContext");
    me.resumes.push_back(*args);
    if (me.on_resume) return me.on_resume(args);
    static_cast<ScriptedHwContext*>(args->hContext)->suspended = false;
    return ok();
  }
  static NTSTATUS NTAPI reset_engine(void*, DXGKARG_RESETHWENGINE* args) {
    ScriptedHwQueues& me = self("DxgkDdiResetHwEngine");
    me.resets.push_back(args->NodeOrdinal);
    return me.on_reset_engine ? me.on_reset_engine(args->NodeOrdinal) : ok();
  }
  static NTSTATUS NTAPI resume_engine(void*, DXGKARG_RESUMEHWENGINE* args) {
    ScriptedHwQueues& me = self("DxgkDdiResumeHwEngine");
    me.engine_resumes.push_back(args->NodeOrdinal);
    return me.on_resume_engine ? me.on_resume_engine(args->NodeOrdinal) : ok();
  }
};

ScriptedHwQueues::ScriptedHwQueues(ScriptedMiniport& miniport, ScriptedGpuVa& gpu)
    : miniport_(miniport), gpu_(gpu) {
  DXGKIT_CHECK(g_current == nullptr);
  g_current = this;
  miniport.config.version =
      std::max<uint32_t>(miniport.config.version, DXGKDDI_INTERFACE_VERSION_WDDM2_5);
  miniport.hooks.get_node_metadata = [this](UINT node, DXGKARG_GETNODEMETADATA* metadata) {
    metadata->EngineType = node == 0 ? DXGK_ENGINE_TYPE_3D : DXGK_ENGINE_TYPE_COPY;
    metadata->GpuMmuSupported = TRUE;
    metadata->Flags.ContextSchedulingSupported = context_scheduling ? 1 : 0;
    metadata->Flags.RingBufferFenceRelease = ring_buffer_fence_release ? 1 : 0;
    metadata->Flags.MaxInFlightHwQueueBuffers = static_cast<UINT>(max_in_flight) & 0xFFFF;
    return ok();
  };
  miniport.hooks.execute_more = [this] { return paused ? 0 : run_all(); };
  miniport.config.table = [this,
                           before = miniport.config.table](DRIVER_INITIALIZATION_DATA& table) {
    if (before) before(table);
#define DXGKIT_SET(entry, function) \
  table.entry = reinterpret_cast<decltype(table.entry)>(&Entries::function)
    DXGKIT_SET(DxgkDdiCreateHwContext, create_context);
    DXGKIT_SET(DxgkDdiDestroyHwContext, destroy_context);
    DXGKIT_SET(DxgkDdiCreateHwQueue, create_queue);
    DXGKIT_SET(DxgkDdiDestroyHwQueue, destroy_queue);
    DXGKIT_SET(DxgkDdiSubmitCommandToHwQueue, submit);
    if (!scheduling_entries) return;
    DXGKIT_SET(DxgkDdiSetupPriorityBands, setup_bands);
    DXGKIT_SET(DxgkDdiSetContextSchedulingProperties, set_properties);
    DXGKIT_SET(DxgkDdiSuspendContext, suspend);
    DXGKIT_SET(DxgkDdiResumeContext, resume);
    DXGKIT_SET(DxgkDdiResetHwEngine, reset_engine);
    DXGKIT_SET(DxgkDdiResumeHwEngine, resume_engine);
#undef DXGKIT_SET
  };
}

ScriptedHwQueues::~ScriptedHwQueues() {
  miniport_.hooks.get_node_metadata = nullptr;
  miniport_.hooks.execute_more = nullptr;
  g_current = nullptr;
}

bool ScriptedHwQueues::run_next(ScriptedHwQueue& queue, bool interrupt) {
  if (queue.gone || queue.ring.empty() || queue.context->suspended) return false;
  const HwWork work = std::move(queue.ring.front());
  queue.ring.pop_front();
  void* const process = gpu_.process_of(queue.context);
  std::vector<GpuCommand> commands(work.args.DmaBufferSize / sizeof(GpuCommand));
  if (!commands.empty() && !gpu_.read(process, work.args.DmaBufferVirtualAddress,
                                      std::as_writable_bytes(std::span(commands))))
    ++faults;
  for (const GpuCommand& command : commands) {
    if (command.op == GpuCommand::kEnd) break;
    if (command.op == GpuCommand::kWrite && !gpu_.write(process, command.va, command.value))
      ++faults;
    if (command.op == GpuCommand::kCopy &&
        !gpu_.write(process, command.va, gpu_.read(process, command.value)))
      ++faults;
  }
  if (ring_buffer_fence_release &&
      !gpu_.write(process, work.args.HwQueueProgressFenceGpuVa, work.args.HwQueueProgressFenceId))
    ++faults;
  if (interrupt) interrupt_fence(queue.context->args.NodeOrdinal);
  return true;
}

size_t ScriptedHwQueues::run_all() {
  size_t ran = 0;
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < queues.size(); ++i) {
      if (!run_next(*queues[i])) continue;
      any = true;
      ++ran;
    }
  }
  return ran;
}

bool ScriptedHwQueues::interrupt_fence(uint32_t node) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data = interrupt_of(DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED);
  data.MonitoredFenceSignaled.NodeOrdinal = node;
  return miniport_.raise(data);
}

bool ScriptedHwQueues::acknowledge(ScriptedHwContext& context, uint64_t fence) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data = interrupt_of(DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED);
  data.SuspendContextCompleted.hContext = &context;
  data.SuspendContextCompleted.ContextSuspendFence = fence;
  return miniport_.raise(data);
}

bool ScriptedHwQueues::page_fault(ScriptedHwQueue& queue, uint64_t value) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data = interrupt_of(DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED);
  data.HwQueuePageFaulted.FaultedFenceId = value;
  data.HwQueuePageFaulted.FaultedHwQueue = &queue;
  data.HwQueuePageFaulted.NodeOrdinal = queue.context->args.NodeOrdinal;
  return miniport_.raise(data);
}

NTSTATUS ScriptedHwQueues::invalidate_handle(void* context) {
  DXGKARGCB_INVALIDATEHWCONTEXT args;
  std::memset(&args, 0, sizeof(args));
  args.hAdapter = miniport_.callbacks().DeviceHandle;
  args.hHwContext = context;
  return miniport_.callbacks().DxgkCbInvalidateHwContext(&args);
}

size_t ScriptedHwQueues::live() const {
  size_t live = 0;
  for (const auto& context : contexts) live += context->gone ? 0 : 1;
  for (const auto& queue : queues) live += queue->gone ? 0 : 1;
  return live;
}

}  // namespace dxgkit::testing
