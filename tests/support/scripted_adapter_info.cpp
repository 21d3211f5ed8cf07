// The scripted driver's answers to DxgkDdiQueryAdapterInfo.
#include <algorithm>
#include <cstring>

#include "dxgkit/abi_versions.h"
#include "tests/support/scripted_miniport.h"

namespace dxgkit::testing {
namespace {

template <typename Descriptor>
void fill_descriptor(Descriptor& out, const ScriptedSegment& in, uint64_t bar) {
  out.Flags = in.flags;
  out.BaseAddress.QuadPart = static_cast<LONGLONG>(in.base_address);
  out.Size = in.size;
  out.CommitLimit = in.commit_limit == 0 ? in.size : in.commit_limit;
  out.CpuTranslatedAddress.QuadPart = static_cast<LONGLONG>(
      in.cpu_translated_address == ScriptedSegment::kBarAddress ? bar : in.cpu_translated_address);
  if constexpr (requires { out.SystemMemoryEndAddress; })
    out.SystemMemoryEndAddress = in.system_memory_end;
  if constexpr (requires { out.Reserved; }) out.Reserved = in.reserved;
  if constexpr (requires { out.NumInvalidMemoryRanges; })
    out.NumInvalidMemoryRanges = in.invalid_ranges;
  if constexpr (requires { out.pBankRangeTable; }) {
    out.NbOfBanks = in.bank_count;
    out.pBankRangeTable = in.bank_table;
  }
}

template <typename Out>
void fill_paging(Out& out, const ScriptedConfig& config) {
  out.PagingBufferSegmentId = config.paging_buffer_segment;
  out.PagingBufferSize = config.paging_buffer_bytes;
  out.PagingBufferPrivateDataSize = config.paging_private_bytes;
}

}  // namespace

NTSTATUS ScriptedMiniport::default_query_adapter_info(const DXGKARG_QUERYADAPTERINFO* args) {
  const uint64_t bar = function_->bars()[1].base.value;
  const auto count = static_cast<UINT>(config.segments.size());
  switch (args->Type) {
    case DXGKQAITYPE_DRIVERCAPS: {
      const uint32_t size = abi::record_size("DXGK_DRIVERCAPS", config.version);
      if (args->OutputDataSize < size) return to_ntstatus(Status::kBufferTooSmall);
      DXGK_DRIVERCAPS caps;
      std::memset(&caps, 0, sizeof(caps));
      caps.HighestAcceptableAddress.QuadPart = -1;
      caps.MaxAllocationListSlotId = config.max_slot_id;
      caps.SchedulingCaps.MultiEngineAware = config.multi_engine_aware ? 1 : 0;
      caps.GpuEngineTopology.NbAsymetricProcessingNodes = config.nodes;
      caps.MemoryManagementCaps.PagingNode = config.paging_node;
      caps.FlipCaps.FlipOnVSyncMmIo = 1;
      if (config.version >= DXGKDDI_INTERFACE_VERSION_WIN8) {
        caps.WDDMVersion = config.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_0   ? DXGKDDI_WDDMv2
                           : config.version >= DXGKDDI_INTERFACE_VERSION_WDDM1_3 ? DXGKDDI_WDDMv1_3
                                                                                 : DXGKDDI_WDDMv1_2;
        caps.SchedulingCaps.PreemptionAware = config.preemption_aware ? 1 : 0;
        caps.SchedulingCaps.CancelCommandAware = config.cancel_command_aware ? 1 : 0;
        if (config.preemption_aware) {  // PREEMPT-19
          caps.PreemptionCaps.GraphicsPreemptionGranularity =
              D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
          caps.PreemptionCaps.ComputePreemptionGranularity =
              D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
        }
        caps.SupportNonVGA = TRUE;
        caps.SupportSmoothRotation = TRUE;
        if (caps.WDDMVersion == DXGKDDI_WDDMv1_2) {  // what that version asks for (LIFE-13)
          caps.SupportPerEngineTDR = caps.SupportDirectFlip = TRUE;
          caps.PresentationCaps.SupportKernelModeCommandBuffer = 1;
        }
      } else {
        caps.WDDMVersion = DXGKDDI_WDDMv1;
      }
      if (config.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_3) {
        caps.SchedulingCaps.HwQueuePacketCap = config.hw_queue_packet_cap & 0xFU;
      }
      if (config.caps) config.caps(caps);
      std::memcpy(args->pOutputData, &caps, size);
      return to_ntstatus(Status::kSuccess);
    }
    case DXGKQAITYPE_QUERYSEGMENT: {
      auto* out = static_cast<DXGK_QUERYSEGMENTOUT*>(args->pOutputData);
      if (out->pSegmentDescriptor == nullptr) {
        out->NbSegment = count;
        return to_ntstatus(Status::kSuccess);
      }
      for (UINT i = 0; i < count; ++i)
        fill_descriptor(out->pSegmentDescriptor[i], config.segments[i], bar);
      fill_paging(*out, config);
      return to_ntstatus(Status::kSuccess);
    }
    case DXGKQAITYPE_QUERYSEGMENT3: {
      auto* out = static_cast<DXGK_QUERYSEGMENTOUT3*>(args->pOutputData);
      if (out->pSegmentDescriptor == nullptr) {
        out->NbSegment = count;
        return to_ntstatus(Status::kSuccess);
      }
      for (UINT i = 0; i < count; ++i)
        fill_descriptor(out->pSegmentDescriptor[i], config.segments[i], bar);
      fill_paging(*out, config);
      return to_ntstatus(Status::kSuccess);
    }
    case DXGKQAITYPE_QUERYSEGMENT4: {
      auto* out = static_cast<DXGK_QUERYSEGMENTOUT4*>(args->pOutputData);
      if (out->NbSegment == 0) {
        out->NbSegment = count;
        return to_ntstatus(Status::kSuccess);
      }
      for (UINT i = 0; i < count; ++i) {
        fill_descriptor(*reinterpret_cast<DXGK_SEGMENTDESCRIPTOR4*>(
                            out->pSegmentDescriptor + i * out->SegmentDescriptorStride),
                        config.segments[i], bar);
      }
      fill_paging(*out, config);
      return to_ntstatus(Status::kSuccess);
    }
    case DXGKQAITYPE_SEGMENTMEMORYSTATE: {
      const auto* state = static_cast<DXGK_QUERYSEGMENTMEMORYSTATE*>(args->pOutputData);
      if (state->DriverSegmentId == 0 || state->DriverSegmentId > count)
        return to_ntstatus(Status::kInvalidParameter);
      const auto& bad = config.segments[state->DriverSegmentId - 1].bad_ranges;
      if (bad.empty()) return to_ntstatus(Status::kNotSupported);
      for (size_t i = 0; i < bad.size(); ++i)
        state->pMemoryRanges[i] = {bad[i].offset, bad[i].size};
      return to_ntstatus(Status::kSuccess);
    }
    case DXGKQAITYPE_PHYSICAL_MEMORY_CAPS:
      static_cast<DXGK_PHYSICAL_MEMORY_CAPS*>(args->pOutputData)->HighestVisibleAddress.QuadPart =
          -1;
      return to_ntstatus(Status::kSuccess);
    case DXGKQAITYPE_UMDRIVERPRIVATE:
      std::memset(args->pOutputData, 0x5C, args->OutputDataSize);
      return to_ntstatus(Status::kSuccess);
    default:
      return to_ntstatus(Status::kNotSupported);
  }
}

}  // namespace dxgkit::testing
