#include "port/ddi/caps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "dxgkit/abi_versions.h"
#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"
#include "port/core/port_core.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kGetNodeMetadata{"DxgkDdiGetNodeMetadata", nt::kPassiveLevel,
                                   DdiClass::kLevelZero};
constexpr uint32_t kMaxSegments =
    32;  // width of a segment set; more is refused by dxgk, and not worth reading
constexpr size_t kMaxStrideBytes = 64 * 1024;

/// Reports members that the first pass may not write (SEG-04) and that differ from the poison.
template <typename Out>
void check_first_pass(PortCore& core, const Out& out) {
  std::string touched;
  if (out.PagingBufferSegmentId != kPoison) touched += " PagingBufferSegmentId";
  if (out.PagingBufferSize != kPoison) touched += " PagingBufferSize";
  if (out.PagingBufferPrivateDataSize != kPoison) touched += " PagingBufferPrivateDataSize";
  if constexpr (requires { out.SegmentDescriptorStride; }) {
    SIZE_T poison = 0;
    std::memset(&poison, kPoisonByte, sizeof(poison));
    if (out.SegmentDescriptorStride != poison) touched += " SegmentDescriptorStride";
  }
  if (touched.empty()) return;
  (void)core.violation(
      "SEG-04", kQueryAdapterInfo.name, fmt::format("The first segment query changed{}.", touched),
      "The first pass writes NbSegment only.",
      "Return right after writing NbSegment when it asks for the count.", Status::kSuccess);
}

void set_paging_members(SegmentsInfo& result, uint32_t segment, uint32_t size,
                        uint32_t private_size) {
  result.paging_buffer_segment = segment;
  result.paging_buffer_bytes = size;
  result.paging_private_bytes = private_size;
}

void read_banks(SegmentInfo& info, uint32_t count, const SIZE_T* table) {
  info.bank_count = count;
  // SEG-26: the last entry may be missing, so it is never read. Seven bits name a bank (SEG-28).
  if (table == nullptr || count > 127) return;
  for (uint32_t i = 0; i + 1 < count; ++i) info.bank_ends.push_back(table[i]);
}

template <typename Descriptor>
SegmentInfo segment_of(const Descriptor& descriptor) {
  SegmentInfo info;
  std::memcpy(&info.flags, &descriptor.Flags, sizeof(info.flags));
  info.base_address = static_cast<uint64_t>(descriptor.BaseAddress.QuadPart);
  info.size = descriptor.Size;
  info.commit_limit = descriptor.CommitLimit;
  info.cpu_translated_address = static_cast<uint64_t>(descriptor.CpuTranslatedAddress.QuadPart);
  if constexpr (requires { descriptor.CpuHostAperture; }) {
    if (descriptor.Flags.SupportsCpuHostAperture != 0)
      info.host_aperture_pages = descriptor.CpuHostAperture.SizeInPages;
  }
  if constexpr (requires { descriptor.SystemMemoryEndAddress; })
    info.system_memory_end = descriptor.SystemMemoryEndAddress;
  if constexpr (requires { descriptor.Reserved; }) info.reserved = descriptor.Reserved;
  if constexpr (requires { descriptor.NumInvalidMemoryRanges; })
    info.invalid_range_count = descriptor.NumInvalidMemoryRanges;
  if constexpr (requires { descriptor.pBankRangeTable; }) {
    if (descriptor.Flags.UseBanking != 0)
      read_banks(info, descriptor.NbOfBanks, descriptor.pBankRangeTable);  // SEG-24
  }
  return info;
}

Error refuse_segments(PortCore& core, const char* rule, std::string actual, std::string expected) {
  core.findings.report(
      {.rule = rule,
       .severity = verifier::Severity::kStartFail,
       .ddi = kQueryAdapterInfo.name,
       .actual = std::move(actual),
       .expected = std::move(expected),
       .fix = "Answer both segment queries from the same constant description of the segments."});
  return Error(Status::kDeviceConfigurationError);
}

/// The first pass of a segment query: how many there are.
template <typename In, typename Out>
Result<uint32_t> count_segments(PortCore& core, DXGK_QUERYADAPTERINFOTYPE type, const In& in,
                                Out* out) {
  std::memset(out, kPoisonByte, sizeof(*out));
  // Drivers tell the passes apart by either member.
  out->NbSegment = 0;
  out->pSegmentDescriptor = nullptr;
  const Status first = core.query(type, &in, sizeof(in), out, sizeof(*out));
  if (!is_success(first))
    return refuse_segments(core, "SEG-04",
                           fmt::format("The first segment query returned {}.", hex(first)),
                           "It returns STATUS_SUCCESS.");
  check_first_pass(core, *out);
  const uint32_t count = out->NbSegment;
  if (count == 0 || count > kMaxSegments) {
    return refuse_segments(core, "SEG-06", fmt::format("NbSegment is {}.", count),
                           fmt::format("1 to {} segments.", kMaxSegments));
  }
  return count;
}

std::string name_of_array(DXGK_QUERYADAPTERINFOTYPE type, uint32_t count) {
  return fmt::format("pSegmentDescriptor for query type {} ({} elements)",
                     static_cast<uint32_t>(type), count);
}

/// Types 1 and 3: the two passes differ in pSegmentDescriptor only.
template <typename Out, typename Descriptor>
Result<SegmentsInfo> query_segments_by_pointer(PortCore& core, DXGK_QUERYADAPTERINFOTYPE type) {
  DXGK_QUERYSEGMENTIN in{};
  if (const auto agp = core.machine.agp_aperture(core.function); agp.has_value()) {
    in.AgpApertureBase.QuadPart = static_cast<LONGLONG>(agp->base.value);
    in.AgpApertureSize.QuadPart = static_cast<LONGLONG>(agp->size);
    in.AgpFlags.Agp = 1;
  }  // SEG-11: otherwise all zero
  Out out;
  DXGKIT_ASSIGN_OR_RETURN(const uint32_t count, count_segments(core, type, in, &out));
  std::vector<Descriptor> descriptors(count);
  std::memset(descriptors.data(), std::to_integer<int>(core.output_fill),
              count * sizeof(Descriptor));
  std::memset(&out, std::to_integer<int>(core.output_fill), sizeof(out));
  out.NbSegment = count;
  GuardedOutput array = GuardedOutput::of(std::span(descriptors));
  out.pSegmentDescriptor = array.as<Descriptor>();
  const Status second = core.query(type, &in, sizeof(in), &out, sizeof(out));
  static_cast<void>(array.finish(core, kQueryAdapterInfo.name, name_of_array(type, count)));
  if (!is_success(second)) return Error(second);
  if (out.NbSegment != count) {
    return refuse_segments(core, "SEG-05",
                           fmt::format("NbSegment was {}, then {}.", count, out.NbSegment),
                           "Both passes report the same number.");
  }
  SegmentsInfo result;
  set_paging_members(result, out.PagingBufferSegmentId, out.PagingBufferSize,
                     out.PagingBufferPrivateDataSize);
  for (const Descriptor& descriptor : descriptors)
    result.segments.push_back(segment_of(descriptor));
  return result;
}

/// SEG-45: which parts of a segment must not be used. Their meaning is checked by dxgk.
Status query_invalid_ranges(PortCore& core, uint32_t id, SegmentInfo* segment) {
  const uint64_t count = segment->invalid_range_count;
  if (count == 0) return Status::kSuccess;
  if (count > segment->size / kPageBytes) {
    return refuse_segments(core, "SEG-45",
                           fmt::format("Segment {} has NumInvalidMemoryRanges = {} and {} pages.",
                                       id, count, segment->size / kPageBytes),
                           "Each bad range is at least one page of the segment, and they do not "
                           "overlap.")
        .error();
  }
  // One more element than asked for, so that a write behind the array is seen.
  std::vector<DXGK_MEMORYRANGE> ranges(count + 1);
  std::memset(&ranges[count], kPoisonByte, sizeof(ranges[0]));
  const DXGK_MEMORYRANGE behind = ranges[count];
  DXGK_QUERYSEGMENTMEMORYSTATE state{};
  state.DriverSegmentId = static_cast<WORD>(id);
  state.NumInvalidMemoryRanges = static_cast<UINT>(count);
  GuardedOutput array = GuardedOutput::of(std::span(ranges));
  state.pMemoryRanges = array.as<DXGK_MEMORYRANGE>();
  const Status status =
      core.query(DXGKQAITYPE_SEGMENTMEMORYSTATE, nullptr, 0, &state, sizeof(state));
  static_cast<void>(array.finish(core, kQueryAdapterInfo.name, "pMemoryRanges"));
  if (!is_success(status)) {
    return refuse_segments(core, "SEG-45",
                           fmt::format("The query for the {} bad ranges of segment {} returned {}.",
                                       count, id, hex(status)),
                           "A driver that reports NumInvalidMemoryRanges answers "
                           "DXGKQAITYPE_SEGMENTMEMORYSTATE.")
        .error();
  }
  if (std::memcmp(&behind, &ranges[count], sizeof(behind)) != 0) {
    return refuse_segments(
               core, "SEG-45",
               fmt::format("It wrote behind the {} bad ranges of segment {}.", count, id),
               "It fills pMemoryRanges[0, NumInvalidMemoryRanges).")
        .error();
  }
  for (uint64_t i = 0; i < count; ++i)
    segment->invalid_ranges.push_back({ranges[i].SegmentOffset, ranges[i].SizeInBytes});
  return Status::kSuccess;
}

/// Type 4: the driver may want a wider element than ours.
Result<SegmentsInfo> query_segments_by_stride(PortCore& core) {
  const DXGK_QUERYSEGMENTIN4 in{};  // SEG-10: no linked adapters
  DXGK_QUERYSEGMENTOUT4 out;
  DXGKIT_ASSIGN_OR_RETURN(const uint32_t count,
                          count_segments(core, DXGKQAITYPE_QUERYSEGMENT4, in, &out));
  // The kernel proposes the stride of the declared version. It honours the driver's stride as long
  // as it fits the space given.
  const uint32_t own_stride = abi::record_size("DXGK_SEGMENTDESCRIPTOR4", core.version);
  constexpr size_t kSpare = 4;  // room for a driver built against a wider descriptor
  std::vector<std::byte> buffer(count * size_t{own_stride} * kSpare);
  std::fill_n(buffer.begin(), count * size_t{own_stride}, core.output_fill);
  std::memset(&out, std::to_integer<int>(core.output_fill), sizeof(out));
  out.NbSegment = count;
  GuardedOutput array = GuardedOutput::of(std::span(buffer));
  out.pSegmentDescriptor = array.as<BYTE>();
  out.SegmentDescriptorStride = own_stride;
  const Status second = core.query(DXGKQAITYPE_QUERYSEGMENT4, &in, sizeof(in), &out, sizeof(out));
  const std::string name = name_of_array(DXGKQAITYPE_QUERYSEGMENT4, count);
  static_cast<void>(array.finish(core, kQueryAdapterInfo.name, name));
  if (!is_success(second)) return Error(second);
  if (out.NbSegment != count) {
    return refuse_segments(core, "SEG-05",
                           fmt::format("NbSegment was {}, then {}.", count, out.NbSegment),
                           "Both passes report the same number.");
  }
  const SIZE_T stride = out.SegmentDescriptorStride;
  if (stride < own_stride || stride > kMaxStrideBytes || stride * count > buffer.size()) {
    return refuse_segments(
        core, "SEG-09", fmt::format("SegmentDescriptorStride is {}.", stride),
        fmt::format("At least {} bytes, and all descriptors inside the array given.", own_stride));
  }
  const auto spare = buffer.begin() + static_cast<ptrdiff_t>(stride * count);
  const auto touched =
      std::find_if(spare, buffer.end(), [](std::byte byte) { return byte != std::byte{0}; });
  if (touched != buffer.end()) {
    (void)core.violation(
        "NT-33", kQueryAdapterInfo.name,
        fmt::format("It wrote behind the end of {} with SegmentDescriptorStride {}: {} bytes "
                    "behind it is {:#04x}.",
                    name, stride, touched - spare, std::to_integer<unsigned>(*touched)),
        fmt::format("It fills NbSegment = {} elements.", count),
        "Count the elements from 0 to NbSegment - 1.", Status::kSuccess);
  }
  SegmentsInfo result;
  set_paging_members(result, out.PagingBufferSegmentId, out.PagingBufferSize,
                     out.PagingBufferPrivateDataSize);
  for (uint32_t i = 0; i < count; ++i) {
    DXGK_SEGMENTDESCRIPTOR4 descriptor{};
    std::memcpy(&descriptor, buffer.data() + i * stride,
                std::min<size_t>(own_stride, sizeof(descriptor)));
    result.segments.push_back(segment_of(descriptor));
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (const Status status = query_invalid_ranges(core, i + 1, &result.segments[i]);
        !is_success(status)) {
      return Error(status);
    }
  }
  return result;
}

/// Nobody writes what lies between the members of DXGK_DRIVERCAPS.
void clear_holes(std::vector<std::byte>* caps) {
  using Caps = DXGK_DRIVERCAPS;
  struct Hole {
    size_t begin, end;
  };
  constexpr Hole kHoles[] = {
      {offsetof(Caps, MaxAllocationListSlotId) + sizeof(UINT),
       offsetof(Caps, ApertureSegmentCommitLimit)},
      {offsetof(Caps, HybridDiscrete) + sizeof(BOOLEAN), offsetof(Caps, MaxOverlayPlanes)},
      {offsetof(Caps, HybridIntegrated) + sizeof(BOOLEAN),
       offsetof(Caps, InternalGpuVirtualAddressRangeStart)},
      {offsetof(Caps, HybridAcpiChainingRequired) + sizeof(BOOLEAN),
       offsetof(Caps, MaxQueuedMultiPlaneOverlayFlipVSync)},
  };
  for (const Hole& hole : kHoles) {
    for (size_t at = hole.begin; at < std::min(hole.end, caps->size()); ++at)
      (*caps)[at] = std::byte{0};
  }
}

/// Nor what lies behind the end of a name.
void clear_behind_name(std::vector<std::byte>* metadata) {
  constexpr size_t kBegin = offsetof(DXGK_NODEMETADATA, FriendlyName);
  constexpr size_t kEnd = kBegin + sizeof(DXGK_NODEMETADATA::FriendlyName);
  bool ended = false;
  for (size_t at = kBegin; at + 1 < std::min(kEnd, metadata->size()); at += sizeof(WCHAR)) {
    ended = ended || ((*metadata)[at] == std::byte{0} && (*metadata)[at + 1] == std::byte{0});
    if (ended) (*metadata)[at] = (*metadata)[at + 1] = std::byte{0};
  }
}

/// CAPS-12: of one node, and behind the last one of all of them.
void judge_engine(PortCore& core, uint32_t node, const DXGKARG_GETNODEMETADATA& metadata) {
  const auto report = [&](verifier::Severity severity, std::string actual, std::string expected,
                          std::string fix, std::string why) {
    core.findings.report({.rule = "CAPS-12",
                          .severity = severity,
                          .ddi = kGetNodeMetadata.name,
                          .actual = std::move(actual),
                          .expected = std::move(expected),
                          .fix = std::move(fix),
                          .why = std::move(why)});
  };
  core.engines.resize(node);
  core.engines.push_back({static_cast<uint32_t>(metadata.EngineType), metadata.FriendlyName[0] != 0,
                          core.version >= kInterfaceWddm20 && metadata.GpuMmuSupported != FALSE});
  if (core.engines.size() != core.node_count) return;
  for (uint32_t i = 0; i < core.node_count; ++i) {
    const PortCore::Engine& engine = core.engines[i];
    if (engine.type >= static_cast<uint32_t>(DXGK_ENGINE_TYPE_MAX)) {
      report(verifier::Severity::kViolation,
             fmt::format("Node {} has EngineType {}.", i, engine.type),
             fmt::format("A value of DXGK_ENGINE_TYPE, below DXGK_ENGINE_TYPE_MAX = {}.",
                         static_cast<uint32_t>(DXGK_ENGINE_TYPE_MAX)),
             "Set it to the constant that describes what the engine is for.",
             "Tools show and count engines by it.");
    }
    if (engine.type == static_cast<uint32_t>(DXGK_ENGINE_TYPE_OTHER) && !engine.named) {
      report(verifier::Severity::kViolation,
             fmt::format("Node {} has EngineType DXGK_ENGINE_TYPE_OTHER and no FriendlyName.", i),
             "An engine of no known type has a name.",
             "Fill FriendlyName, or set the type that describes the engine.",
             "Nothing else says what the engine is.");
    }
  }
  if (core.gpu_mmu && std::ranges::none_of(core.engines, &PortCore::Engine::gpu_mmu)) {
    report(verifier::Severity::kWarning,
           fmt::format("The caps set GpuMmuSupported, and none of {} nodes does.", core.node_count),
           "The nodes whose engines use page tables of the GpuMmu model say so.",
           "Set GpuMmuSupported in the metadata of each such node.",
           "The kernel may give a node without it no context with virtual addresses.");
  }
  if (core.compute_only) return;
  const auto count = std::ranges::count(core.engines, static_cast<uint32_t>(DXGK_ENGINE_TYPE_3D),
                                        &PortCore::Engine::type);
  if (count == 1) return;
  // Drivers that run on Windows have several: worth a word.
  report(count == 0 ? verifier::Severity::kViolation : verifier::Severity::kWarning,
         fmt::format("{} of {} nodes have EngineType DXGK_ENGINE_TYPE_3D.", count, core.node_count),
         "Exactly one node of an adapter that renders is its 3D engine; a compute-only adapter "
         "needs none.",
         count == 0 ? "Say DXGK_ENGINE_TYPE_3D of the node that runs 3D work, or set "
                      "MiscCaps.ComputeOnly (WDDM 2.6)."
                    : "Say of the others what they are for: copies, video, or other work.",
         "Runtimes look for the 3D engine by this value.");
}

void report_another_model(PortCore& core, uint32_t announced, uint32_t declared) {
  core.findings.report(
      {.rule = "CAPS-14",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiQueryAdapterInfo(WDDMDEVICECAPS)",
       .actual =
           fmt::format("WDDMVersion is {:#x}; DXGK_DRIVERCAPS says {:#x}.", announced, declared),
       .expected = "WDDMVersion is the same in DXGK_WDDMDEVICECAPS and DXGK_DRIVERCAPS.",
       .fix = "Write one value into both, or refuse the type with STATUS_NOT_SUPPORTED."});
}

/// A question that any error answers with no; then `*answered` is false, and kSuccess. Another
/// status: the driver cannot be used.
Status ask(PortCore& core, DXGK_QUERYADAPTERINFOTYPE type, std::span<const std::byte> in,
           std::span<std::byte> out, bool* answered) {
  const Status status =
      core.query(type, in.data(), static_cast<uint32_t>(in.size()), data_of(out), size_of(out));
  *answered = is_success(status);
  // Both mean that the driver cannot be used, which a finding has said.
  const bool ends = status == Status::kDeviceRemoved || status == Status::kDeviceConfigurationError;
  return ends ? status : Status::kSuccess;
}

}  // namespace

Status CapsPort::query_device_caps() {
  if (core_.version < kInterfaceWddm26) return Status::kSuccess;
  const DXGK_WDDMDEVICECAPSIN in{.DxgkrnlInterfaceVersion = core_.version};
  DXGK_WDDMDEVICECAPS caps{};
  bool answered = false;
  DXGKIT_RETURN_IF_FAILED(ask(core_, DXGKQAITYPE_WDDMDEVICECAPS, std::as_bytes(std::span(&in, 1)),
                              std::as_writable_bytes(std::span(&caps, 1)), &answered));
  if (answered) announced_model_ = static_cast<uint32_t>(caps.WDDMVersion);
  return Status::kSuccess;
}

Status CapsPort::query_extensions(Extensions wanted) {
  if (core_.version < kInterfaceWddm20) return Status::kSuccess;
  bool answered = false;
  if (wanted.display) {
    DXGK_DISPLAY_DRIVERCAPS_EXTENSION extension{};
    DXGKIT_RETURN_IF_FAILED(ask(core_, DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION, {},
                                std::as_writable_bytes(std::span(&extension, 1)), &answered));
    if (answered) display_extension_ = extension.Value;
  }
  if (!wanted.render) return Status::kSuccess;
  const DXGK_QUERYPHYSICALADAPTERCAPSIN in{.PhysicalAdapterIndex = 0};
  std::vector<std::byte> caps(abi::record_size("DXGK_PHYSICALADAPTERCAPS", core_.version),
                              core_.output_fill);
  return ask(core_, DXGKQAITYPE_PHYSICALADAPTERCAPS, std::as_bytes(std::span(&in, 1)), caps,
             &answered);
}

Status CapsPort::query_early_caps() {
  DXGKIT_RETURN_IF_FAILED(query_device_caps());
  if (core_.version < kInterfaceWddm29) return Status::kSuccess;
  const auto absent = [](Status status) {
    return status == Status::kNotSupported || status == Status::kNotImplemented ||
           status == Status::kInvalidParameter;
  };
  DXGK_PHYSICAL_MEMORY_CAPS memory{};
  const Status memory_status =
      core_.query(DXGKQAITYPE_PHYSICAL_MEMORY_CAPS, nullptr, 0, &memory, sizeof(memory));
  if (!is_success(memory_status) && !absent(memory_status)) return memory_status;
  DXGK_IOMMU_CAPS iommu{};
  const Status iommu_status =
      core_.query(DXGKQAITYPE_IOMMU_CAPS, nullptr, 0, &iommu, sizeof(iommu));
  if (!is_success(iommu_status) && !absent(iommu_status)) return iommu_status;
  const uint64_t needed = core_.machine.highest_system_address().value;
  const auto highest = static_cast<uint64_t>(memory.HighestVisibleAddress.QuadPart);
  if (is_success(memory_status) && highest < needed &&
      (is_success(iommu_status) ? iommu.DmaRemappingSupported : 0) == 0) {
    core_.findings.report(
        {.rule = "LIFE-14",
         .severity = verifier::Severity::kStartFail,
         .ddi = kQueryAdapterInfo.name,
         .actual = fmt::format("HighestVisibleAddress is {:#x}.", highest),
         .expected = fmt::format(
             "It covers all memory, which ends at {:#x}, or DMA remapping is supported.", needed),
         .fix = "Report the highest address the device can reach."});
    return Status::kDeviceConfigurationError;
  }
  return Status::kSuccess;
}

Result<DriverCaps> CapsPort::query_driver_caps() {
  // Sized by the declared version: a driver built for it refuses less and must not write more.
  const uint32_t size = abi::record_size("DXGK_DRIVERCAPS", core_.version);
  std::vector<std::byte> buffer(size, core_.output_fill);
  const Status status = core_.query(DXGKQAITYPE_DRIVERCAPS, nullptr, 0, buffer.data(), size);
  if (status == Status::kBufferTooSmall) {
    core_.findings.report(
        {.rule = "CAPS-01",
         .severity = verifier::Severity::kStartFail,
         .ddi = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
         .actual = fmt::format(
             "It answered STATUS_BUFFER_TOO_SMALL for OutputDataSize 0x{:X} ({} bytes).", size,
             size),
         .expected = fmt::format(
             "The declared interface version 0x{:X} makes DXGK_DRIVERCAPS {} bytes long, and the "
             "driver fills what fits.",
             core_.version, size),
         .fix = "Do not compare OutputDataSize with sizeof(DXGK_DRIVERCAPS) of your headers: fill "
                "what fits, or define DXGKDDI_INTERFACE_VERSION to the version you declare before "
                "including d3dkmddi.h.",
         .why = "The buffer is sized by the Version of the initialization data, not by the newest "
                "structure.",
         .windows = "Code 43, problem status 0xC0000023; no further DDI but StopDevice is called.",
         .confidence = verifier::Confidence::kMeasured});
  }
  if (!is_success(status)) return Error(status);
  DXGK_DRIVERCAPS caps{};
  std::memcpy(&caps, buffer.data(), std::min<size_t>(size, sizeof(caps)));
  DriverCaps result;
  result.raw = std::move(buffer);
  clear_holes(&result.raw);
  result.wddm_version = static_cast<uint32_t>(caps.WDDMVersion);
  core_.wddm_model = result.wddm_version;
  if (announced_model_.value_or(result.wddm_version) != result.wddm_version)
    report_another_model(core_, *announced_model_, result.wddm_version);
  result.highest_acceptable_address = static_cast<uint64_t>(caps.HighestAcceptableAddress.QuadPart);
  result.aperture_segment_commit_limit = caps.ApertureSegmentCommitLimit;
  result.max_allocation_list_slot_id = caps.MaxAllocationListSlotId;
  result.interrupt_message_number = caps.InterruptMessageNumber;
  result.number_of_swizzling_ranges = caps.NumberOfSwizzlingRanges;
  result.multi_engine_aware = caps.SchedulingCaps.MultiEngineAware != 0;
  if (core_.version >= kInterfaceWin8) {
    result.preemption_aware = caps.SchedulingCaps.PreemptionAware != 0;
    result.no_dma_patching = caps.SchedulingCaps.NoDmaPatching != 0;
    result.cancel_command_aware = caps.SchedulingCaps.CancelCommandAware != 0;
    result.support_per_engine_tdr = caps.SupportPerEngineTDR != FALSE;
    result.support_runtime_power_management = caps.SupportRuntimePowerManagement != FALSE;
    result.support_surprise_removal_in_hibernation =
        caps.SupportSurpriseRemovalInHibernation != FALSE;
  }
  if (core_.version >= kInterfaceWddm20) {
    result.virtual_addressing_supported = caps.MemoryManagementCaps.VirtualAddressingSupported != 0;
    result.gpu_mmu_supported = caps.MemoryManagementCaps.GpuMmuSupported != 0;
    result.io_mmu_supported = caps.MemoryManagementCaps.IoMmuSupported != 0;
    result.non_cpu_visible_primary = caps.MemoryManagementCaps.NonCpuVisiblePrimary != 0;
    result.support_surprise_removal = caps.SupportSurpriseRemoval != FALSE;
  }
  if (core_.version >= kInterfaceWddm24) {
    result.disable_self_refresh_vram_in_s3 =
        caps.MemoryManagementCaps.DisableSelfRefreshVRAMInS3 != 0;
  }
  if (core_.version >= kInterfaceWddm29)
    result.map_aperture2_supported = caps.MemoryManagementCaps.MapAperture2Supported != 0;
  core_.map_aperture2 = result.map_aperture2_supported;
  if (core_.version >= kInterfaceWddm23)
    result.hw_queue_packet_cap = caps.SchedulingCaps.HwQueuePacketCap;
  if (core_.version >= kInterfaceWddm31)
    result.native_gpu_fence = caps.SchedulingCaps.NativeGpuFence != 0;
  result.node_count = caps.GpuEngineTopology.NbAsymetricProcessingNodes;
  core_.node_count = result.multi_engine_aware ? result.node_count : 1;  // SCHED-02
  core_.gpu_mmu = result.gpu_mmu_supported;
  core_.compute_only = core_.version >= kInterfaceWddm26 && caps.MiscCaps.ComputeOnly != 0;
  result.paging_node = caps.MemoryManagementCaps.PagingNode;
  result.no_64bit_atomics =
      core_.version >= kInterfaceWddm20 && caps.SchedulingCaps.No64BitAtomics != 0;
  core_.low_irql_preempt =
      core_.version >= kInterfaceWddm20 && caps.SchedulingCaps.LowIrqlPreemptCommand != 0;
  core_.interrupts.set_message(result.interrupt_message_number);
  if (core_.situations != nullptr) [[unlikely]] {
    core_.situations->life.queried(DXGKQAITYPE_DRIVERCAPS);
    core_.situations->life.has(result);
  }
  return result;
}

Result<SegmentsInfo> CapsPort::query_segments() {
  // SEG-02: by the declared model, never from one type to another. A driver built with newer
  // headers than its model is of the model its capabilities name.
  const auto below = [&](uint32_t interface_version, uint32_t model) {
    return core_.version < interface_version || (core_.wddm_model != 0 && core_.wddm_model < model);
  };
  Result<SegmentsInfo> answer = [&] {
    if (!below(kInterfaceWddm20, DXGKDDI_WDDMv2)) return query_segments_by_stride(core_);
    if (!below(kInterfaceWin8, DXGKDDI_WDDMv1_2)) {
      return query_segments_by_pointer<DXGK_QUERYSEGMENTOUT3, DXGK_SEGMENTDESCRIPTOR3>(
          core_, DXGKQAITYPE_QUERYSEGMENT3);
    }
    return query_segments_by_pointer<DXGK_QUERYSEGMENTOUT, DXGK_SEGMENTDESCRIPTOR>(
        core_, DXGKQAITYPE_QUERYSEGMENT);
  }();
  if (answer.has_value() && core_.faults != nullptr) [[unlikely]]
    core_.faults->shape(&*answer);
  if (answer.has_value()) core_.segments = answer->segments;
  if (answer.has_value() && core_.situations != nullptr) [[unlikely]] {
    core_.situations->life.queried(DXGKQAITYPE_QUERYSEGMENT);
    core_.situations->life.has(answer->segments);
  }
  return answer;
}

Status CapsPort::get_node_metadata(NodeOrdinal node, NodeMetadata* out) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.version < kInterfaceWddm13 || core_.ddi.DxgkDdiGetNodeMetadata == nullptr)
    return Status::kNotSupported;
  DXGKARG_GETNODEMETADATA metadata;
  std::memset(&metadata, std::to_integer<int>(core_.output_fill), sizeof(metadata));
  GuardedOutput output = GuardedOutput::of(std::span(&metadata, 1));
  DdiCall call(core_, kGetNodeMetadata, node.value);
  const Status status = call(core_.ddi.DxgkDdiGetNodeMetadata, core_.context,
                             static_cast<UINT>(node.value), output.as<DXGKARG_GETNODEMETADATA>());
  static_cast<void>(output.finish(core_, kGetNodeMetadata.name, "pGetNodeMetadata"));
  if (status != Status::kSuccess || out == nullptr) return status;
  judge_engine(core_, node.value, metadata);
  *out = {};
  out->raw.resize(abi::record_size("DXGK_NODEMETADATA", core_.version));
  std::memcpy(out->raw.data(), &metadata, std::min(out->raw.size(), sizeof(metadata)));
  clear_behind_name(&out->raw);
  if (core_.version < kInterfaceWddm22) return status;
  out->context_scheduling = metadata.Flags.ContextSchedulingSupported != 0;
  if (core_.version < kInterfaceWddm25) return status;
  out->max_in_flight_buffers = metadata.Flags.MaxInFlightHwQueueBuffers;
  return status;
}

Status CapsPort::query_performance(Performance what, uint32_t index, std::span<std::byte> out) {
  if (core_.version < kInterfaceWddm24) return Status::kNotSupported;
  const DXGK_QUERYADAPTERINFOTYPE type = [&] {
    switch (what) {
      case Performance::kNode:
        return DXGKQAITYPE_NODEPERFDATA;
      case Performance::kAdapter:
        return DXGKQAITYPE_ADAPTERPERFDATA;
      case Performance::kAdapterCaps:
        return DXGKQAITYPE_ADAPTERPERFDATA_CAPS;
      case Performance::kVersion:
        return DXGKQAITYPE_GPUVERSION;
    }
    return DXGKQAITYPE_GPUVERSION;
  }();
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->life.queried(static_cast<uint32_t>(type));
  std::memset(out.data(), std::to_integer<int>(core_.output_fill), out.size());
  return core_.query(type, &index, sizeof(index), data_of(out), size_of(out));
}

Status CapsPort::query_umd_private(std::span<const std::byte> in, std::span<std::byte> out) {
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->life.queried(DXGKQAITYPE_UMDRIVERPRIVATE);
  return core_.query(DXGKQAITYPE_UMDRIVERPRIVATE, in.empty() ? nullptr : in.data(),
                     static_cast<uint32_t>(in.size()), data_of(out), size_of(out));
}

}  // namespace dxgkit::port
