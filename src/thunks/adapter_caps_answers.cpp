// Answers from the driver's capabilities, from the driver itself, and about memory.
#include <d3dkmddi.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/interface_versions.h"
#include "dxgk/core/segment_flags.h"
#include "dxgk/display/display_floor.h"
#include "dxgk/memory/residency_budget.h"
#include "thunks/adapter_answers.h"

namespace dxgkit::thunks::answers {
namespace {

using dxgk::AdapterCore;
using Performance = port::CapsPort::Performance;

AdapterCore& core_of(const AdapterQuestion& question) { return question.adapter.core(); }

/// The capabilities as the driver left them. Members that its version does not have are 0.
DXGK_DRIVERCAPS caps_of(const AdapterQuestion& question) {
  DXGK_DRIVERCAPS caps = {};
  const std::vector<std::byte>& raw = core_of(question).caps().raw;
  std::memcpy(&caps, raw.data(), std::min(raw.size(), sizeof caps));
  return caps;
}

/// Bits of members that older versions have, too, mean something from this version on.
bool since(const AdapterQuestion& question, uint32_t version) {
  return core_of(question).interface_version() >= version;
}

bool has_outputs(const AdapterQuestion& question) {
  return core_of(question).facts().start.video_present_sources != 0;
}

/// There is one physical adapter: no links.
Status check_physical(uint32_t index) {
  return index == 0 ? Status::kSuccess : Status::kInvalidParameter;
}

/// Asks the driver. `physical` is the client's index of the one physical adapter there is.
template <typename Said>
Status ask_performance(const AdapterQuestion& question, UINT physical, Performance what,
                       uint32_t node, Said* said) {
  DXGKIT_RETURN_IF_FAILED(check_physical(physical));
  return core_of(question).port().caps().query_performance(
      what, node, std::as_writable_bytes(std::span(said, 1)));
}

}  // namespace

Status adapter_type(const AdapterQuestion& question, D3DKMT_ADAPTERTYPE& out) {
  AdapterCore& core = core_of(question);
  const DXGK_DRIVERCAPS caps = caps_of(question);
  out = {};
  out.RenderSupported = core.display_only() ? 0 : 1;
  out.DisplaySupported = has_outputs(question) ? 1 : 0;
  out.PostDevice = core.function().post_display().has_value() ? 1 : 0;
  out.HybridDiscrete = caps.HybridDiscrete != FALSE ? 1 : 0;
  out.HybridIntegrated = caps.HybridIntegrated != FALSE ? 1 : 0;
  out.SupportSetTimingsFromVidPn = core.port().has_entry("DxgkDdiSetTimingsFromVidPn") ? 1 : 0;
  out.RuntimePowerManagement = core.caps().support_runtime_power_management ? 1 : 0;
  if (!since(question, kInterfaceWddm26)) return Status::kSuccess;
  out.Detachable = caps.MiscCaps.Detachable;
  out.ComputeOnly = caps.MiscCaps.ComputeOnly;
  return Status::kSuccess;
}

Status driver_version(const AdapterQuestion& question, D3DKMT_DRIVERVERSION& out) {
  const uint32_t model = core_of(question).caps().wddm_version;
  // 0x1200 is WDDM 1.2, which clients see as 1200.
  const uint32_t number = (model >> 12) * 1000 + (model >> 8 & 0xFU) * 100;
  if (number > 1000) {
    out = static_cast<D3DKMT_DRIVERVERSION>(number);
  } else {
    out = since(question, kInterfaceWin7) ? KMT_DRIVERVERSION_WDDM_1_1 : KMT_DRIVERVERSION_WDDM_1_0;
  }
  return Status::kSuccess;
}

Status virtual_address(const AdapterQuestion& question, D3DKMT_VIRTUALADDRESSINFO& out) {
  out = {};
  out.VirtualAddressFlags.VirtualAddressSupported =
      core_of(question).facts().virtual_addresses ? 1 : 0;
  return Status::kSuccess;
}

Status flip_queue(const AdapterQuestion& question, D3DKMT_FLIPQUEUEINFO& out) {
  AdapterCore& core = core_of(question);
  out = {};
  if (core.display_only() || !has_outputs(question)) return Status::kSuccess;
  const DXGK_DRIVERCAPS caps = caps_of(question);
  out.MaxHardwareFlipQueueLength = caps.MaxQueuedFlipOnVSync;
  out.MaxSoftwareFlipQueueLength = dxgk::Device::kFlipLimit;
  out.FlipFlags.FlipInterval = caps.FlipCaps.FlipInterval;
  return Status::kSuccess;
}

Status wddm_1_2(const AdapterQuestion& question, D3DKMT_WDDM_1_2_CAPS& out) {
  AdapterCore& core = core_of(question);
  const DXGK_DRIVERCAPS caps = caps_of(question);
  out = {};
  out.SupportGammaRamp = caps.GammaRampCaps.Gamma_Rgb256x3x16;
  out.SupportHWCursor = caps.MaxPointerWidth != 0 && caps.MaxPointerHeight != 0 ? 1 : 0;
  out.SupportCCD = core.port().has_entry("DxgkDdiQueryVidPnHWCapability") ? 1 : 0;
  out.SupportHWVSync = core.port().has_entry("DxgkDdiControlInterrupt") ||
                               core.port().has_entry("DxgkDdiControlInterrupt2") ||
                               core.port().has_entry("DxgkDdiControlInterrupt3")
                           ? 1
                           : 0;
  if (!since(question, kInterfaceWin8)) return Status::kSuccess;
  out.PreemptionCaps = caps.PreemptionCaps;
  out.SupportNonVGA = caps.SupportNonVGA != FALSE ? 1 : 0;
  out.SupportSmoothRotation = caps.SupportSmoothRotation != FALSE ? 1 : 0;
  out.SupportPerEngineTDR = caps.SupportPerEngineTDR != FALSE ? 1 : 0;
  out.SupportKernelModeCommandBuffer = caps.PresentationCaps.SupportKernelModeCommandBuffer;
  out.SupportSoftwareDeviceBitmaps = caps.PresentationCaps.SupportSoftwareDeviceBitmaps;
  out.SupportSurpriseRemovalInHibernation =
      caps.SupportSurpriseRemovalInHibernation != FALSE ? 1 : 0;
  return Status::kSuccess;
}

Status wddm_1_3(const AdapterQuestion& question, D3DKMT_WDDM_1_3_CAPS& out) {
  const DXGK_DRIVERCAPS caps = caps_of(question);
  DXGK_DISPLAY_DRIVERCAPS_EXTENSION extension = {};
  extension.Value = core_of(question).port().caps().display_extension();
  out = {};
  out.IsHybridIntegratedGPU = caps.HybridIntegrated != FALSE ? 1 : 0;
  out.IsHybridDiscreteGPU = caps.HybridDiscrete != FALSE ? 1 : 0;
  out.SupportVirtualModes = extension.VirtualModeSupport;
  if (since(question, kInterfaceWddm13))
    out.SupportCrossAdapterResource = caps.MemoryManagementCaps.CrossAdapterResource;
  return Status::kSuccess;
}

Status wddm_2_0(const AdapterQuestion& question, D3DKMT_WDDM_2_0_CAPS& out) {
  const port::DriverCaps& caps = core_of(question).caps();
  out = {};
  out.Support64BitAtomics = caps.no_64bit_atomics ? 0 : 1;
  out.GpuMmuSupported = caps.gpu_mmu_supported ? 1 : 0;
  out.IoMmuSupported = caps.io_mmu_supported ? 1 : 0;
  out.SupportSurpriseRemoval = caps.support_surprise_removal ? 1 : 0;
  if (since(question, kInterfaceWddm20))
    out.SupportContextlessPresent = caps_of(question).MiscCaps.SupportContextlessPresent;
  return Status::kSuccess;
}

Status wddm_2_7(const AdapterQuestion& question, D3DKMT_WDDM_2_7_CAPS& out) {
  const bool hardware = question.adapter.floor().hw_queues != nullptr;
  out = {};
  out.HwSchSupported = hardware ? 1 : 0;
  out.HwSchEnabled = hardware ? 1 : 0;
  out.HwSchEnabledByDefault = hardware ? 1 : 0;
  if (since(question, kInterfaceWddm26))
    out.IndependentVidPnVSyncControl = caps_of(question).MiscCaps.IndependentVidPnVSyncControl;
  return Status::kSuccess;
}

Status wddm_2_9(const AdapterQuestion& question, D3DKMT_WDDM_2_9_CAPS& out) {
  const bool hardware = question.adapter.floor().hw_queues != nullptr;
  const auto& segments = core_of(question).segment_infos().segments;
  out = {};
  out.HwSchSupportState = hardware ? DXGK_FEATURE_SUPPORT_STABLE : DXGK_FEATURE_SUPPORT_ALWAYS_OFF;
  out.HwSchEnabled = hardware ? 1 : 0;
  out.SelfRefreshMemorySupported =
      !core_of(question).caps().disable_self_refresh_vram_in_s3 &&
              std::ranges::any_of(segments,
                                  [](const port::SegmentInfo& segment) {
                                    return (segment.flags & dxgk::kSegmentPreservedDuringStandby) !=
                                           0;
                                  })
          ? 1
          : 0;
  return Status::kSuccess;
}

Status wddm_3_0(const AdapterQuestion& question, D3DKMT_WDDM_3_0_CAPS& out) {
  out = {};
  out.HwFlipQueueSupportState = DXGK_FEATURE_SUPPORT_ALWAYS_OFF;
  if (since(question, kInterfaceWddm30))
    out.DisplayableSupported = caps_of(question).MiscCaps.DisplayableSupport;
  return Status::kSuccess;
}

Status wddm_3_1(const AdapterQuestion& question, D3DKMT_WDDM_3_1_CAPS& out) {
  out = {};
  out.NativeGpuFenceSupported = question.adapter.floor().native_fences != nullptr ? 1 : 0;
  return Status::kSuccess;
}

Status driver_caps_ext(const AdapterQuestion& question, D3DKMT_DRIVERCAPS_EXT& out) {
  DXGK_DISPLAY_DRIVERCAPS_EXTENSION extension = {};
  extension.Value = core_of(question).port().caps().display_extension();
  out = {};
  out.VirtualModeSupport = extension.VirtualModeSupport;
  out.Usb4MonitorSupport = extension.SupportUsb4Targets;
  return Status::kSuccess;
}

Status display_caps(const AdapterQuestion& question, D3DKMT_DISPLAY_CAPS& out) {
  out = {};
  out.CursorScaledWithMultiPlaneOverlayPlane0 =
      caps_of(question).CursorScaledWithMultiPlaneOverlayPlane0 != FALSE ? 1 : 0;
  return Status::kSuccess;
}

Status cross_adapter(const AdapterQuestion& question, D3DKMT_CROSSADAPTERRESOURCE_SUPPORT& out) {
  const DXGK_VIDMMCAPS caps = caps_of(question).MemoryManagementCaps;
  out.SupportTier = D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_NONE;
  if (since(question, kInterfaceWddm13) && caps.CrossAdapterResource != 0)
    out.SupportTier = D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_COPY;
  if (!since(question, kInterfaceWddm29)) return Status::kSuccess;
  if (caps.CrossAdapterResourceTexture != 0)
    out.SupportTier = D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_TEXTURE;
  if (caps.CrossAdapterResourceScanout != 0)
    out.SupportTier = D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_SCANOUT;
  return Status::kSuccess;
}

Status gpu_mmu(const AdapterQuestion& question, D3DKMT_QUERY_GPUMMU_CAPS& out) {
  DXGKIT_RETURN_IF_FAILED(check_physical(out.PhysicalAdapterIndex));
  out.Caps = {};
  const dxgk::GpuVaModel* const model = question.adapter.gpu_va_model();
  if (model == nullptr) return Status::kSuccess;  // no such unit: no bits, no addresses
  out.Caps.Flags.ReadOnlyMemorySupported = model->caps.read_only ? 1 : 0;
  out.Caps.Flags.NoExecuteMemorySupported = model->caps.no_execute ? 1 : 0;
  out.Caps.Flags.CacheCoherentMemorySupported = model->caps.cache_coherent ? 1 : 0;
  out.Caps.VirtualAddressBitCount = model->caps.va_bits;
  return Status::kSuccess;
}

Status node_metadata(const AdapterQuestion& question, D3DKMT_NODEMETADATA& out) {
  // The node in the low half, the physical adapter in the high one.
  DXGKIT_RETURN_IF_FAILED(check_physical(out.NodeOrdinalAndAdapterIndex >> 16));
  const std::vector<port::NodeMetadata>& nodes = core_of(question).facts().nodes;
  const uint32_t node = out.NodeOrdinalAndAdapterIndex & 0xFFFFU;
  if (node >= nodes.size() || nodes[node].raw.empty()) return Status::kInvalidParameter;
  out.NodeData = {};
  std::memcpy(&out.NodeData, nodes[node].raw.data(),
              std::min(nodes[node].raw.size(), sizeof out.NodeData));
  return Status::kSuccess;
}

Status node_performance(const AdapterQuestion& question, D3DKMT_NODE_PERFDATA& out) {
  const AdapterCore& core = core_of(question);
  if (out.NodeOrdinal >= core.caps().node_count || core.display_only())
    return Status::kInvalidParameter;
  DXGK_NODE_PERFDATA said;
  DXGKIT_RETURN_IF_FAILED(ask_performance(question, out.PhysicalAdapterIndex, Performance::kNode,
                                          out.NodeOrdinal, &said));
  out.Frequency = said.Frequency;
  out.MaxFrequency = said.MaxFrequency;
  out.MaxFrequencyOC = said.MaxFrequencyOC;
  out.Voltage = said.Voltage;
  out.VoltageMax = said.VoltageMax;
  out.VoltageMaxOC = said.VoltageMaxOC;
  out.MaxTransitionLatency = said.MaxTransitionLatency;
  return Status::kSuccess;
}

Status adapter_performance(const AdapterQuestion& question, D3DKMT_ADAPTER_PERFDATA& out) {
  DXGK_ADAPTER_PERFDATA said;
  DXGKIT_RETURN_IF_FAILED(
      ask_performance(question, out.PhysicalAdapterIndex, Performance::kAdapter, 0, &said));
  out.MemoryFrequency = said.MemoryFrequency;
  out.MaxMemoryFrequency = said.MaxMemoryFrequency;
  out.MaxMemoryFrequencyOC = said.MaxMemoryFrequencyOC;
  out.MemoryBandwidth = said.MemoryBandwidth;
  out.PCIEBandwidth = said.PCIEBandwidth;
  out.FanRPM = said.FanRPM;
  out.Power = said.Power;
  out.Temperature = said.Temperature;
  out.PowerStateOverride = said.PowerStateOverride;
  return Status::kSuccess;
}

Status adapter_performance_caps(const AdapterQuestion& question, D3DKMT_ADAPTER_PERFDATACAPS& out) {
  DXGK_ADAPTER_PERFDATACAPS said;
  DXGKIT_RETURN_IF_FAILED(
      ask_performance(question, out.PhysicalAdapterIndex, Performance::kAdapterCaps, 0, &said));
  out.MaxMemoryBandwidth = said.MaxMemoryBandwidth;
  out.MaxPCIEBandwidth = said.MaxPCIEBandwidth;
  out.MaxFanRPM = said.MaxFanRPM;
  out.TemperatureMax = said.TemperatureMax;
  out.TemperatureWarning = said.TemperatureWarning;
  return Status::kSuccess;
}

Status gpu_version(const AdapterQuestion& question, D3DKMT_GPUVERSION& out) {
  DXGK_GPUVERSION said;
  DXGKIT_RETURN_IF_FAILED(
      ask_performance(question, out.PhysicalAdapterIndex, Performance::kVersion, 0, &said));
  static_assert(sizeof out.BiosVersion == sizeof said.BiosVersion);
  static_assert(sizeof out.GpuArchitecture == sizeof said.GpuArchitecture);
  std::memcpy(out.BiosVersion, said.BiosVersion, sizeof out.BiosVersion);
  std::memcpy(out.GpuArchitecture, said.GpuArchitecture, sizeof out.GpuArchitecture);
  return Status::kSuccess;
}

Status segment_size(const AdapterQuestion& question, D3DKMT_SEGMENTSIZEINFO& out) {
  AdapterCore& core = core_of(question);
  out = {};
  if (!core.has_memory()) return Status::kSuccess;  // a display-only driver
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const auto segments = core.memory().segments();
    for (size_t i = 0; i < segments.size(); ++i) {
      const uint32_t flags = core.segment_infos().segments[i].flags;
      if (segments[i].kind != vidmm::SegmentKind::kMemory) {
        out.SharedSystemMemorySize += segments[i].commit_limit_bytes;
      } else if ((flags & dxgk::kSegmentPopulatedFromSystemMemory) != 0) {
        out.DedicatedSystemMemorySize += segments[i].size_bytes;
      } else {
        out.DedicatedVideoMemorySize += segments[i].size_bytes;
      }
    }
  });
  return Status::kSuccess;
}

Status segment_group_size(const AdapterQuestion& question, D3DKMT_SEGMENTGROUPSIZEINFO& out) {
  DXGKIT_RETURN_IF_FAILED(check_physical(out.PhysicalAdapterIndex));
  DXGKIT_RETURN_IF_FAILED(segment_size(question, out.LegacyInfo));
  out.LocalMemory = out.NonLocalMemory = out.NonBudgetMemory = 0;
  AdapterCore& core = core_of(question);
  if (!core.has_memory()) return Status::kSuccess;
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const dxgk::Budgets& budgets = *question.adapter.floor().budgets;
    out.LocalMemory = budgets.total(dxgk::SegmentGroup::kLocal);
    out.NonLocalMemory = budgets.total(dxgk::SegmentGroup::kNonLocal);
    out.NonBudgetMemory = budgets.not_counted();
  });
  return Status::kSuccess;
}

}  // namespace dxgkit::thunks::answers
