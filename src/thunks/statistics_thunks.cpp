// Statistics, clocks, and other questions about what the kernel has done.
#include <algorithm>
#include <cstring>

#include "dxgk/core/segment_flags.h"
#include "dxgk/display/display.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency_budget.h"
#include "dxgk/work/device.h"
#include "dxgk/work/submission.h"
#include "thunks/call.h"
#include "thunks/nt_names.h"
#include "thunks/process_argument.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::AdapterCore;
using dxgk::Device;
using dxgk::NodeWork;
using dxgk::Process;
using dxgk::Ref;

constexpr int64_t kNsPerTick = 100;  // clients see times in 100 ns

/// What a question is about, checked.
struct Subject {
  Process& process;
  Adapter& adapter;
  AdapterCore& core() const { return adapter.core(); }
  uint32_t nodes() const { return core().has_scheduler() ? core().caps().node_count : 0; }
  uint32_t segments() const {
    return static_cast<uint32_t>(core().segment_infos().segments.size());
  }
  uint32_t sources() const { return core().facts().start.video_present_sources; }
};

void fill_node(const NodeWork& work, D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION* out) {
  out->RunningTime.QuadPart = work.running_ns / kNsPerTick;
  out->ContextSwitch = work.context_switches;
  const auto fill = [&](const NodeWork::Packets& packets,
                        D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE type,
                        D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE queue) {
    D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION& dma = out->PacketStatistics.DmaPacket[type];
    dma.PacketSubmited = packets.submitted;
    dma.PacketCompleted = packets.completed;
    dma.PacketPreempted = packets.preempted;
    dma.PacketFaulted = packets.faulted;
    // A packet of the queue counts once, however often hardware had it.
    out->PacketStatistics.QueuePacket[queue].PacketSubmited = packets.submitted - packets.preempted;
    out->PacketStatistics.QueuePacket[queue].PacketCompleted = packets.completed;
  };
  fill(work.render, D3DKMT_ClientRenderBuffer, D3DKMT_RenderCommandBuffer);
  fill(work.paging, D3DKMT_SystemPagingBuffer, D3DKMT_SystemCommandBuffer);
}

Status adapter_statistics(const Subject& subject, D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION* out) {
  const dxgk::AdapterStatistics sums = subject.adapter.statistics();
  out->NbSegments = subject.segments();
  out->NodeCount = subject.nodes();
  out->VidPnSourceCount = subject.sources();
  out->TdrDetectedCount = static_cast<ULONG>(sums.engine_resets + sums.adapter_resets);
  out->ReferenceDmaBuffer.NbCall = static_cast<ULONG>(sums.packets_submitted);
  out->PagingFault.Evictions.Count = static_cast<ULONG>(sums.evictions);
  out->PagingTransfer.BytesTransferredFromMdlToMemory = sums.bytes_in;
  out->PagingTransfer.BytesTransferredFromMemoryToMdl = sums.bytes_out;
  out->Flags.NumberOfMemoryGroups = subject.core().has_memory() ? dxgk::kSegmentGroups : 0;
  return Status::kSuccess;
}

Status process_statistics(const Subject& subject, D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION* out) {
  out->NodeCount = subject.nodes();
  out->VidPnSourceCount = subject.sources();
  return Status::kSuccess;
}

/// What the process's devices have open in a segment (0: in system memory), on the lane.
struct OpenedBytes {
  uint64_t bytes = 0;
  uint32_t count = 0;
};
OpenedBytes opened_in(const Subject& subject, SegmentId segment) DXGKIT_REQUIRES(on_lane) {
  OpenedBytes opened;
  for (dxgk::DeviceMemory* memory : subject.adapter.floor().device_memories) {
    if (&memory->device().process() != &subject.process) continue;
    for (const dxgk::OpenedAllocation* one : memory->openings) {
      if (one->closing || one->allocation == nullptr || one->allocation->forgotten) continue;
      if (subject.core().memory().placement(one->allocation->id).segment != segment) continue;
      opened.bytes += one->allocation->size_bytes;
      ++opened.count;
    }
  }
  return opened;
}

Status process_adapter_statistics(const Subject& subject,
                                  D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION* out) {
  out->NbSegments = subject.segments();
  out->NodeCount = subject.nodes();
  out->VidPnSourceCount = subject.sources();
  return Status::kSuccess;
}

Status check_segment(const Subject& subject, uint32_t id) {
  return subject.core().has_memory() && id >= 1 && id <= subject.segments()
             ? Status::kSuccess
             : Status::kInvalidParameter;
}

Status segment_statistics(const Subject& subject, uint32_t id,
                          D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION* out) {
  DXGKIT_RETURN_IF_FAILED(check_segment(subject, id));
  const port::SegmentInfo& info = subject.core().segment_infos().segments[id - 1];
  subject.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    dxgk::AdapterCore& core = subject.core();
    const vidmm::SegmentDesc& desc = core.memory().segments()[id - 1];
    const vidmm::SegmentUsage usage = core.memory().usage(SegmentId{id});
    const bool aperture = desc.kind != vidmm::SegmentKind::kMemory;
    out->CommitLimit = aperture ? desc.commit_limit_bytes : desc.size_bytes;
    out->BytesCommitted = usage.committed_bytes;
    out->BytesResident = usage.committed_bytes;
    out->Memory.AllocsCommitted = static_cast<ULONG>(usage.allocations);
    out->Memory.AllocsResident = static_cast<ULONG>(usage.allocations);
    out->Aperture = aperture ? 1 : 0;
    out->SegmentProperties.SegmentType = aperture ? D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_APERTURE
                                                  : D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_MEMORY;
    out->SegmentProperties.SegmentGroup =
        core.memory().group_of(SegmentId{id}) == vidmm::SegmentGroup::kLocal
            ? D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL
            : D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL;
  });
  out->SystemMemoryEndAddress = info.system_memory_end;
  const auto flag = [&](uint32_t bit) -> UINT64 { return (info.flags & bit) != 0 ? 1 : 0; };
  out->PowerFlags.PreservedDuringStandby = flag(dxgk::kSegmentPreservedDuringStandby) & 1U;
  out->PowerFlags.PreservedDuringHibernate = flag(dxgk::kSegmentPreservedDuringHibernate) & 1U;
  out->PowerFlags.PartiallyPreservedDuringHibernate =
      flag(dxgk::kSegmentPartiallyPreservedDuringHibernate) & 1U;
  out->SegmentProperties.FullyCPUVisible = flag(dxgk::kSegmentCpuVisible) & 1U;
  out->SegmentProperties.SystemMemory = flag(dxgk::kSegmentPopulatedFromSystemMemory) & 1U;
  return Status::kSuccess;
}

Status process_segment_statistics(const Subject& subject, uint32_t id,
                                  D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION* out) {
  DXGKIT_RETURN_IF_FAILED(check_segment(subject, id));
  subject.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const OpenedBytes opened = opened_in(subject, SegmentId{id});
    out->BytesCommitted = opened.bytes;
    out->VideoMemory.AllocsCommitted = opened.count;
  });
  return Status::kSuccess;
}

Status group_statistics(const Subject& subject, uint32_t group,
                        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION* out) {
  if (!subject.core().has_memory() || group >= dxgk::kSegmentGroups)
    return Status::kInvalidParameter;
  subject.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const dxgk::VideoMemoryInfo info = subject.adapter.floor().budgets->video_memory_info(
        subject.process, static_cast<dxgk::SegmentGroup>(group));
    out->Budget = info.budget;
    out->Requested = info.usage;
    out->Usage = info.usage;
  });
  return Status::kSuccess;
}

Status segment_usage(const Subject& subject, uint32_t id,
                     D3DKMT_QUERYSTATISTICS_MEMORY_USAGE* out) {
  DXGKIT_RETURN_IF_FAILED(check_segment(subject, id));
  subject.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const vidmm::SegmentUsage usage = subject.core().memory().usage(SegmentId{id});
    out->AllocatedBytes = usage.committed_bytes;
    out->FreeBytes = usage.free_bytes;
  });
  return Status::kSuccess;
}

Status group_usage(const Subject& subject, uint32_t group,
                   D3DKMT_QUERYSTATISTICS_MEMORY_USAGE* out) {
  if (!subject.core().has_memory() || group >= dxgk::kSegmentGroups)
    return Status::kInvalidParameter;
  subject.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const vidmm::GroupUsage usage = subject.core().memory().group_usage(
        group == 0 ? vidmm::SegmentGroup::kLocal : vidmm::SegmentGroup::kNonLocal);
    out->AllocatedBytes = usage.committed_bytes;
    out->FreeBytes = usage.size_bytes - usage.committed_bytes;
  });
  return Status::kSuccess;
}

Status node_statistics(const Subject& subject, uint32_t node,
                       D3DKMT_QUERYSTATISTICS_NODE_INFORMATION* out) {
  if (node >= subject.nodes()) return Status::kInvalidParameter;
  subject.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const dxgk::NodeCounters& counters = subject.adapter.floor().submission->nodes();
    fill_node(counters.of_node(NodeOrdinal{node}), &out->GlobalInformation);
    fill_node(counters.of_process(dxgk::NodeCounters::kSystem, NodeOrdinal{node}),
              &out->SystemInformation);
  });
  return Status::kSuccess;
}

Status process_node_statistics(const Subject& subject, uint32_t node,
                               D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION* out) {
  if (node >= subject.nodes()) return Status::kInvalidParameter;
  subject.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    fill_node(subject.adapter.floor().submission->nodes().of_process(subject.process.number(),
                                                                     NodeOrdinal{node}),
              out);
  });
  return Status::kSuccess;
}

Status source_statistics(const Subject& subject, uint32_t source,
                         D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION* out) {
  if (source >= subject.sources()) return Status::kInvalidParameter;
  dxgk::Flips* const flips = subject.adapter.floor().display->flips();
  if (flips == nullptr) return Status::kSuccess;  // a display-only driver flips nothing
  subject.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const dxgk::Flips::Counts counts = flips->counts(source);
    out->GlobalInformation.Frame = static_cast<ULONG>(counts.frames);
    out->GlobalInformation.CancelledFrame = static_cast<ULONG>(counts.cancelled);
    out->GlobalInformation.QueuedPresent = counts.queued;
  });
  return Status::kSuccess;
}

/// The answer of one type. Types whose subject is not a process ignore hProcess.
Status answer(const Subject& subject, const D3DKMT_QUERYSTATISTICS& args,
              D3DKMT_QUERYSTATISTICS_RESULT* out) {
  switch (args.Type) {
    case D3DKMT_QUERYSTATISTICS_ADAPTER:
      return adapter_statistics(subject, &out->AdapterInformation);
    case D3DKMT_QUERYSTATISTICS_ADAPTER2:
      if (args.QueryAdapter2.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;
      return adapter_statistics(subject, &out->AdapterInformation);
    case D3DKMT_QUERYSTATISTICS_PROCESS:
      return process_statistics(subject, &out->ProcessInformation);
    case D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER:
      return process_adapter_statistics(subject, &out->ProcessAdapterInformation);
    case D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2:
      if (args.QueryProcessAdapter2.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;
      return process_adapter_statistics(subject, &out->ProcessAdapterInformation);
    case D3DKMT_QUERYSTATISTICS_SEGMENT:
      return segment_statistics(subject, args.QuerySegment.SegmentId, &out->SegmentInformation);
    case D3DKMT_QUERYSTATISTICS_SEGMENT2:
      if (args.QuerySegment2.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;
      return segment_statistics(subject, args.QuerySegment2.SegmentId, &out->SegmentInformation);
    case D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT:
      return process_segment_statistics(subject, args.QueryProcessSegment.SegmentId,
                                        &out->ProcessSegmentInformation);
    case D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2:
      if (args.QueryProcessSegment2.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;
      return process_segment_statistics(subject, args.QueryProcessSegment2.SegmentId,
                                        &out->ProcessSegmentInformation);
    case D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP:
      return group_statistics(subject, static_cast<uint32_t>(args.QueryProcessSegmentGroup),
                              &out->ProcessSegmentGroupInformation);
    case D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2:
      if (args.QueryProcessSegmentGroup2.PhysicalAdapterIndex != 0)
        return Status::kInvalidParameter;
      return group_statistics(subject, args.QueryProcessSegmentGroup2.SegmentGroup,
                              &out->ProcessSegmentGroupInformation);
    case D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE:
      if (args.QuerySegmentUsage.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;
      return segment_usage(subject, args.QuerySegmentUsage.SegmentId,
                           &out->SegmentUsageInformation);
    case D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE:
      if (args.QuerySegmentGroupUsage.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;
      return group_usage(subject, args.QuerySegmentGroupUsage.SegmentGroup,
                         &out->SegmentGroupUsageInformation);
    case D3DKMT_QUERYSTATISTICS_NODE:
      return node_statistics(subject, args.QueryNode.NodeId, &out->NodeInformation);
    case D3DKMT_QUERYSTATISTICS_NODE2:
      if (args.QueryNode2.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;
      return node_statistics(subject, args.QueryNode2.NodeOrdinal, &out->NodeInformation);
    case D3DKMT_QUERYSTATISTICS_PROCESS_NODE:
      return process_node_statistics(subject, args.QueryProcessNode.NodeId,
                                     &out->ProcessNodeInformation);
    case D3DKMT_QUERYSTATISTICS_PROCESS_NODE2:
      if (args.QueryProcessNode2.PhysicalAdapterIndex != 0) return Status::kInvalidParameter;
      return process_node_statistics(subject, args.QueryProcessNode2.NodeOrdinal,
                                     &out->ProcessNodeInformation);
    case D3DKMT_QUERYSTATISTICS_VIDPNSOURCE:
      return source_statistics(subject, args.QueryVidPnSource.VidPnSourceId,
                               &out->VidPnSourceInformation);
    case D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE:
    case D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER:
      return Status::kNotSupported;
    default:
      return Status::kInvalidParameter;
  }
}

bool asks_of_process(D3DKMT_QUERYSTATISTICS_TYPE type) {
  switch (type) {
    case D3DKMT_QUERYSTATISTICS_PROCESS:
    case D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER:
    case D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2:
    case D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT:
    case D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2:
    case D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP:
    case D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2:
    case D3DKMT_QUERYSTATISTICS_PROCESS_NODE:
    case D3DKMT_QUERYSTATISTICS_PROCESS_NODE2:
      return true;
    default:
      return false;
  }
}

Status query_statistics(Process& process, D3DKMT_QUERYSTATISTICS& args) {
  const Ref<Adapter> adapter =
      process.system().impl().find({args.AdapterLuid.LowPart, args.AdapterLuid.HighPart});
  if (!adapter) return Status::kInvalidParameter;
  DXGKIT_ENTER(*adapter);
  D3DKMT_QUERYSTATISTICS_RESULT result = {};
  if (asks_of_process(args.Type)) {
    const ProcessArgument whose(process, args.hProcess, dxgk::process_access::kQueryInformation);
    DXGKIT_RETURN_IF_FAILED(whose.status());
    DXGKIT_RETURN_IF_FAILED(answer({whose.process(), *adapter}, args, &result));
  } else {
    DXGKIT_RETURN_IF_FAILED(answer({process, *adapter}, args, &result));
  }
  args.QueryResult = result;
  return Status::kSuccess;
}

Status query_clock(Process& process, D3DKMT_QUERYCLOCKCALIBRATION& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  if (adapter->core().display_only()) return Status::kNotSupported;
  if (args.PhysicalAdapterIndex != 0 || args.NodeOrdinal >= adapter->core().caps().node_count)
    return Status::kInvalidParameter;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(
      const port::GpuClock clock,
      adapter->core().port().clock().calibrate(NodeOrdinal{args.NodeOrdinal}));
  args.ClockData.GpuFrequency = clock.frequency_hz;
  args.ClockData.GpuClockCounter = clock.gpu_counter;
  args.ClockData.CpuClockCounter = clock.cpu_counter;
  args.ClockData.Flags.Value = clock.flags;
  return Status::kSuccess;
}

Status mark_device(Process& process, const D3DKMT_MARKDEVICEASERROR& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  if (args.Reason != D3DKMT_DEVICE_ERROR_REASON_GENERIC &&
      args.Reason != D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR)
    return Status::kInvalidParameter;
  device->adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    device->set_error(dxgk::DeviceState::kErrorDmaFault);  // its first error stays
  });
  return Status::kSuccess;
}

Status shared_luid(Process& process, D3DKMT_GETSHAREDRESOURCEADAPTERLUID& args) {
  dxgk::System::Impl& system = process.system().impl();
  system.reap_nt_handles();
  if ((args.hGlobalShare != 0) == (args.hNtHandle != nullptr)) return Status::kInvalidParameter;
  Ref<dxgk::SharedResource> resource;
  if (args.hGlobalShare != 0) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(
        resource, system.global_shares.find<dxgk::SharedResource>(args.hGlobalShare));
  } else {
    const Result<dxgk::NtHandles::Named> named = find_named(process, args.hNtHandle);
    if (!named.has_value() || !named->resource) return Status::kInvalidParameter;
    resource = named->resource;
  }
  const dxgk::Luid luid = resource->floor().core.luid();
  args.AdapterLuid.LowPart = luid.low;
  args.AdapterLuid.HighPart = luid.high;
  return Status::kSuccess;
}

/// Content that is on its way between system memory and segments, or is being given up, arrives.
Status flush_transitions(Process& process, const D3DKMT_FLUSHHEAPTRANSITIONS& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  AdapterCore& core = adapter->core();
  if (!core.has_memory()) return Status::kSuccess;
  const bool done =
      core.block_until([&]() DXGKIT_REQUIRES(on_lane) { return adapter->floor().paging->idle(); });
  return done ? Status::kSuccess : Status::kDeviceRemoved;
}

Status is_feature_enabled(Process& process, D3DKMT_ISFEATUREENABLED& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  const uint16_t version =
      adapter->core().port().enabled_feature(static_cast<uint32_t>(args.FeatureId));
  const bool known = args.FeatureId == DXGK_FEATURE_HWSCH ||
                     args.FeatureId == DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT ||
                     args.FeatureId == DXGK_FEATURE_NATIVE_FENCE;
  args.Result = {};
  args.Result.Version = version;
  args.Result.Enabled = version != 0 ? 1 : 0;
  args.Result.KnownFeature = known ? 1 : 0;
  args.Result.SupportedByDriver = version != 0 ? 1 : 0;
  args.Result.SupportedOnCurrentConfig = known ? 1 : 0;
  return Status::kSuccess;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTQueryStatistics(const D3DKMT_QUERYSTATISTICS* args) {
  return call<D3DKMTQueryStatistics>(args, dxgkit::thunks::query_statistics);
}
NTSTATUS APIENTRY D3DKMTQueryClockCalibration(D3DKMT_QUERYCLOCKCALIBRATION* args) {
  return call<D3DKMTQueryClockCalibration>(args, dxgkit::thunks::query_clock);
}
NTSTATUS APIENTRY D3DKMTMarkDeviceAsError(D3DKMT_MARKDEVICEASERROR* args) {
  return call<D3DKMTMarkDeviceAsError>(args, dxgkit::thunks::mark_device);
}
NTSTATUS APIENTRY D3DKMTGetSharedResourceAdapterLuid(D3DKMT_GETSHAREDRESOURCEADAPTERLUID* args) {
  return call<D3DKMTGetSharedResourceAdapterLuid>(args, dxgkit::thunks::shared_luid);
}
NTSTATUS APIENTRY D3DKMTFlushHeapTransitions(D3DKMT_FLUSHHEAPTRANSITIONS* args) {
  return call<D3DKMTFlushHeapTransitions>(args, dxgkit::thunks::flush_transitions);
}
NTSTATUS APIENTRY D3DKMTIsFeatureEnabled(D3DKMT_ISFEATUREENABLED* args) {
  return call<D3DKMTIsFeatureEnabled>(args, dxgkit::thunks::is_feature_enabled);
}

}  // extern "C"
