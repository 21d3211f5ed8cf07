// Life of an adapter and the questions asked at start.
#include "port/adapter_port.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "dxgkit/abi_versions.h"
#include "nt/device_properties.h"
#include "port/adapter_impl.h"
#include "port/answers.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kAddDevice{"DxgkDdiAddDevice", nt::kPassiveLevel, DdiClass::kExclusive};
constexpr DdiInfo kStartDevice{"DxgkDdiStartDevice", nt::kPassiveLevel, DdiClass::kExclusive};
constexpr DdiInfo kStopDevice{"DxgkDdiStopDevice", nt::kPassiveLevel, DdiClass::kExclusive};
constexpr DdiInfo kRemoveDevice{"DxgkDdiRemoveDevice", nt::kPassiveLevel, DdiClass::kExclusive};
constexpr DdiInfo kQueryAdapterInfo{"DxgkDdiQueryAdapterInfo", nt::kPassiveLevel,
                                    DdiClass::kLevelZeroBeside};
constexpr DdiInfo kGetNodeMetadata{"DxgkDdiGetNodeMetadata", nt::kPassiveLevel,
                                   DdiClass::kLevelZero};

/// What outputs hold before a call that must write them, and members that must not be touched.
constexpr uint32_t kPoison = 0xA5A5A5A5;
constexpr int kPoisonByte = 0xA5;
constexpr uint32_t kMaxSegments =
    32;  // width of a segment set; more is refused by dxgk, and not worth reading
constexpr size_t kMaxStrideBytes = 64 * 1024;

}  // namespace

AdapterPort::Impl::Impl(Driver& driver_in, nt::Kernel& kernel_in, bus::Machine& machine_in,
                        bus::PciFunction& function_in, AdapterHost& host_in,
                        verifier::Findings& findings_in)
    : driver(driver_in.impl()),
      kernel(kernel_in),
      machine(machine_in),
      function(function_in),
      host(host_in),
      findings(findings_in),
      ddi(driver.table),
      version(driver.version) {
  const std::string key = nt::KernelConfig::kDeviceKey;
  registry_path.assign(key.begin(), key.end());
  void* page = mmap(nullptr, kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  DXGKIT_CHECK(page != MAP_FAILED);
  guard_page = static_cast<std::byte*>(page);
  kernel.add_fault_range(
      {.start = guard_page,
       .size = kPageBytes,
       .rule = "SUB-11",
       .what = "private data of size 0",
       .expected = "With a private data size of 0 the driver does not look at the private data.",
       .fix =
           "Check DmaBufferPrivateDataSize, or ask for private data when the context is created."});
  dpc.routine = reinterpret_cast<nt::DeferredRoutine>(&dpc_routine);
  dpc.context = this;
  reports.reserve(64);
  spare.reserve(64);
  {
    runtime::MutexLock lock(driver.adapters_lock);
    driver.adapters.push_back(this);
  }
  if (kernel.default_owner() == nullptr) kernel.set_default_owner(this);
  kernel.set_fatal_handler([this](const verifier::Finding& finding) { host.on_fatal(finding); });
}

AdapterPort::Impl::~Impl() {
  for (const std::vector<uint64_t>& mdl : mdls) kernel.release_mdl(mdl.data());
  disconnect_interrupt();
  {
    runtime::MutexLock lock(driver.adapters_lock);
    std::erase(driver.adapters, static_cast<void*>(this));
    if (kernel.default_owner() == this) {
      kernel.set_default_owner(driver.adapters.empty() ? nullptr : driver.adapters.front());
    }
  }
  kernel.set_fatal_handler(nullptr);
  kernel.remove_fault_range(guard_page);
  munmap(guard_page, kPageBytes);
}

Status AdapterPort::Impl::violation(const char* rule, const char* ddi_name, std::string actual,
                                    std::string expected, std::string fix, Status answer) {
  findings.report({.rule = rule,
                   .severity = verifier::Severity::kViolation,
                   .ddi = ddi_name,
                   .actual = std::move(actual),
                   .expected = std::move(expected),
                   .fix = std::move(fix)});
  return answer;
}

void AdapterPort::Impl::fatal(const char* rule, const char* ddi_name, uint32_t code,
                              uint32_t parameter, std::string actual, std::string expected,
                              std::string fix) {
  const verifier::Finding finding{.rule = rule,
                                  .severity = verifier::Severity::kBugCheck,
                                  .ddi = ddi_name,
                                  .actual = std::move(actual),
                                  .expected = std::move(expected),
                                  .fix = std::move(fix),
                                  .bugcheck_code = code,
                                  .bugcheck_parameter = parameter};
  findings.report(finding);
  host.on_fatal(finding);
}

void AdapterPort::Impl::irql_violation(const DdiInfo& info, nt::Irql got) {
  (void)violation(
      "IRQL-01", info.name,
      fmt::format("It was called at {} and returned at {}.", nt::irql_name(info.irql),
                  nt::irql_name(got)),
      "A driver returns at the level it was called at.",
      "Pair every raise and lower, and every acquire and release of a spin lock, on all paths.",
      Status::kSuccess);
}

std::string hex(Status status) {
  return fmt::format("{:#010x}", static_cast<uint32_t>(to_ntstatus(status)));
}

void AdapterPort::Impl::check_answer(const DdiInfo& info, int32_t answer) {
  const std::string_view instead = no_ntstatus(answer);
  if (instead.empty()) return;
  (void)violation("NT-22", info.name,
                  fmt::format("It returned {:#010x}: {}.", static_cast<uint32_t>(answer), instead),
                  "Entries answer with an NTSTATUS, one their page documents.",
                  "Map other kinds of error codes to an NTSTATUS before returning.",
                  Status::kSuccess);
}

Status AdapterPort::Impl::query(DXGK_QUERYADAPTERINFOTYPE type, const void* in, uint32_t in_bytes,
                                void* out, uint32_t out_bytes) {
  if (is_dead(*this)) return Status::kDeviceRemoved;
  DXGKARG_QUERYADAPTERINFO arguments{};
  arguments.Type = type;
  arguments.pInputData = const_cast<void*>(in);
  arguments.InputDataSize = in_bytes;
  arguments.pOutputData = out;
  arguments.OutputDataSize = out_bytes;
  DdiCall call(*this, kQueryAdapterInfo, static_cast<uint64_t>(type));
  return call(ddi.DxgkDdiQueryAdapterInfo, context,
              static_cast<const DXGKARG_QUERYADAPTERINFO*>(&arguments));
}

AdapterPort::AdapterPort(Driver& driver, nt::Kernel& kernel, bus::Machine& machine,
                         bus::PciFunction& function, AdapterHost& host,
                         verifier::Findings& findings)
    : impl_(std::make_unique<Impl>(driver, kernel, machine, function, host, findings)) {}
AdapterPort::~AdapterPort() = default;

void AdapterPort::set_reference_checks(bool on) { impl_->reference_checks = on; }
void AdapterPort::set_fault_injector(FaultInjector* faults) { impl_->faults = faults; }
bool AdapterPort::has_patch() const { return impl_->ddi.DxgkDdiPatch != nullptr; }
bool AdapterPort::has_cancel() const { return impl_->ddi.DxgkDdiCancelCommand != nullptr; }

Status AdapterPort::add_device() {
  Impl& port = *impl_;
  DXGKIT_CHECK(!port.added);
  if (is_dead(port)) return Status::kDeviceRemoved;
  nt::describe_device(port.kernel, port.function.identity());
  void* context = nullptr;
  DdiCall call(port, kAddDevice);
  const Status status = call(port.ddi.DxgkDdiAddDevice, &port.device.object, &context);
  if (!is_success(status)) return status;
  if (context == nullptr) return Status::kNotSupported;  // LIFE-05: not a device of this driver
  port.context = context;
  port.added = true;
  return Status::kSuccess;
}

Result<StartInfo> AdapterPort::start_device() {
  Impl& port = *impl_;
  DXGKIT_CHECK(port.added && !port.started);
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  port.fill_callbacks();
  port.build_resources();
  port.start_info = {};
  ULONG sources = kPoison, children = kPoison;
  port.interrupt_connected.store(true, std::memory_order_release);
  port.function.interrupt_line().connect([&port] { return port.service_interrupt(); });
  Status status = Status::kSuccess;
  bool completed = false;
  {
    DdiCall call(port, kStartDevice);
    status = call(port.ddi.DxgkDdiStartDevice, port.context, &port.start_info, &port.callbacks,
                  &sources, &children);
    completed = call.completed();
  }
  if (completed && is_success(status) && (sources == kPoison || children == kPoison)) {
    port.findings.report({.rule = "LIFE-09",
                          .severity = verifier::Severity::kStartFail,
                          .ddi = kStartDevice.name,
                          .actual = fmt::format("It succeeded without writing {}.",
                                                sources == kPoison ? "NumberOfVideoPresentSources"
                                                                   : "NumberOfChildren"),
                          .expected = "Both numbers are written; 0 is a value too.",
                          .fix = "Set both outputs before returning success."});
    status = Status::kDeviceConfigurationError;
    port.started = true;  // the driver thinks so: StopDevice is owed
    (void)stop_device();
  }
  if (!is_success(status)) {
    port.disconnect_interrupt();
    return Error(status);
  }
  port.started = true;
  return StartInfo{static_cast<uint32_t>(sources), static_cast<uint32_t>(children)};
}

Status AdapterPort::stop_device() {
  Impl& port = *impl_;
  DXGKIT_CHECK(port.started);
  port.started = false;
  Status status = Status::kDeviceRemoved;
  if (!is_dead(port)) {
    DdiCall call(port, kStopDevice);
    status = call(port.ddi.DxgkDdiStopDevice, port.context);
  }
  // The driver disables its device in StopDevice, with interrupts still working (LIFE-08).
  port.disconnect_interrupt();
  return status;
}

Status AdapterPort::remove_device() {
  Impl& port = *impl_;
  DXGKIT_CHECK(port.added && !port.started);
  port.added = false;
  if (is_dead(port)) return Status::kDeviceRemoved;
  DdiCall call(port, kRemoveDevice);
  return call(port.ddi.DxgkDdiRemoveDevice, port.context);
}

Status AdapterPort::query_early_caps() {
  Impl& port = *impl_;
  if (port.version < kVersionWddm29) return Status::kSuccess;
  const auto absent = [](Status status) {
    return status == Status::kNotSupported || status == Status::kNotImplemented ||
           status == Status::kInvalidParameter;
  };
  DXGK_PHYSICAL_MEMORY_CAPS memory{};
  const Status memory_status =
      port.query(DXGKQAITYPE_PHYSICAL_MEMORY_CAPS, nullptr, 0, &memory, sizeof(memory));
  if (!is_success(memory_status) && !absent(memory_status)) return memory_status;
  DXGK_IOMMU_CAPS iommu{};
  const Status iommu_status = port.query(DXGKQAITYPE_IOMMU_CAPS, nullptr, 0, &iommu, sizeof(iommu));
  if (!is_success(iommu_status) && !absent(iommu_status)) return iommu_status;
  const uint64_t needed = port.machine.highest_system_address().value;
  const auto highest = static_cast<uint64_t>(memory.HighestVisibleAddress.QuadPart);
  if (is_success(memory_status) && highest < needed &&
      (is_success(iommu_status) ? iommu.DmaRemappingSupported : 0) == 0) {
    port.findings.report(
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

Result<DriverCaps> AdapterPort::query_driver_caps() {
  Impl& port = *impl_;
  // Sized by the declared version: a driver built for it refuses less and must not write more.
  const uint32_t size = abi::record_size("DXGK_DRIVERCAPS", port.version);
  constexpr size_t kTail = 64;
  std::vector<std::byte> buffer(std::max<size_t>(size, sizeof(DXGK_DRIVERCAPS)) + kTail);
  std::memset(buffer.data() + size, kPoisonByte, buffer.size() - size);
  const Status status = port.query(DXGKQAITYPE_DRIVERCAPS, nullptr, 0, buffer.data(), size);
  if (status == Status::kBufferTooSmall) {
    port.findings.report(
        {.rule = "CAPS-01",
         .severity = verifier::Severity::kStartFail,
         .ddi = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
         .actual = fmt::format(
             "It answered STATUS_BUFFER_TOO_SMALL for OutputDataSize 0x{:X} ({} bytes).", size,
             size),
         .expected = fmt::format(
             "The declared interface version 0x{:X} makes DXGK_DRIVERCAPS {} bytes long, and the "
             "driver fills what fits.",
             port.version, size),
         .fix = "Do not compare OutputDataSize with sizeof(DXGK_DRIVERCAPS) of your headers: fill "
                "what fits, or define DXGKDDI_INTERFACE_VERSION to the version you declare before "
                "including d3dkmddi.h.",
         .why = "The buffer is sized by the Version of the initialization data, not by the newest "
                "structure.",
         .windows = "Code 43, problem status 0xC0000023; no further DDI but StopDevice is called.",
         .confidence = verifier::Confidence::kMeasured});
  }
  if (!is_success(status)) return Error(status);
  if (!std::ranges::all_of(buffer.begin() + size, buffer.end(),
                           [](std::byte b) { return b == std::byte{kPoisonByte}; })) {
    return Error(port.violation("LIFE-13", kQueryAdapterInfo.name,
                                fmt::format("It wrote past OutputDataSize, {} bytes.", size),
                                "Caps of the declared version fit.",
                                "Check OutputDataSize; build for one interface version.",
                                Status::kDeviceConfigurationError));
  }
  DXGK_DRIVERCAPS caps{};
  std::memcpy(&caps, buffer.data(), std::min<size_t>(size, sizeof(caps)));
  buffer.resize(size);
  DriverCaps result;
  result.raw = std::move(buffer);
  result.wddm_version = static_cast<uint32_t>(caps.WDDMVersion);
  port.wddm_model = result.wddm_version;
  result.highest_acceptable_address = static_cast<uint64_t>(caps.HighestAcceptableAddress.QuadPart);
  result.aperture_segment_commit_limit = caps.ApertureSegmentCommitLimit;
  result.max_allocation_list_slot_id = caps.MaxAllocationListSlotId;
  result.interrupt_message_number = caps.InterruptMessageNumber;
  result.number_of_swizzling_ranges = caps.NumberOfSwizzlingRanges;
  result.multi_engine_aware = caps.SchedulingCaps.MultiEngineAware != 0;
  if (port.version >= kVersionWin8) {
    result.preemption_aware = caps.SchedulingCaps.PreemptionAware != 0;
    result.no_dma_patching = caps.SchedulingCaps.NoDmaPatching != 0;
    result.cancel_command_aware = caps.SchedulingCaps.CancelCommandAware != 0;
    result.support_per_engine_tdr = caps.SupportPerEngineTDR != FALSE;
    result.support_runtime_power_management = caps.SupportRuntimePowerManagement != FALSE;
    result.support_surprise_removal_in_hibernation =
        caps.SupportSurpriseRemovalInHibernation != FALSE;
  }
  if (port.version >= kVersionWddm20) {
    result.virtual_addressing_supported = caps.MemoryManagementCaps.VirtualAddressingSupported != 0;
    result.gpu_mmu_supported = caps.MemoryManagementCaps.GpuMmuSupported != 0;
    result.io_mmu_supported = caps.MemoryManagementCaps.IoMmuSupported != 0;
    result.non_cpu_visible_primary = caps.MemoryManagementCaps.NonCpuVisiblePrimary != 0;
    result.support_surprise_removal = caps.SupportSurpriseRemoval != FALSE;
  }
  if (port.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_4) {
    result.disable_self_refresh_vram_in_s3 =
        caps.MemoryManagementCaps.DisableSelfRefreshVRAMInS3 != 0;
  }
  if (port.version >= kVersionWddm29)
    result.map_aperture2_supported = caps.MemoryManagementCaps.MapAperture2Supported != 0;
  port.map_aperture2 = result.map_aperture2_supported;
  if (port.version >= 0x8001) result.hw_queue_packet_cap = caps.SchedulingCaps.HwQueuePacketCap;
  if (port.version >= DXGKDDI_INTERFACE_VERSION_WDDM3_1)
    result.native_gpu_fence = caps.SchedulingCaps.NativeGpuFence != 0;
  result.node_count = caps.GpuEngineTopology.NbAsymetricProcessingNodes;
  result.paging_node = caps.MemoryManagementCaps.PagingNode;
  port.multi_engine_aware = result.multi_engine_aware;
  result.no_64bit_atomics =
      port.version >= kVersionWddm20 && caps.SchedulingCaps.No64BitAtomics != 0;
  port.low_irql_preempt =
      port.version >= kVersionWddm20 && caps.SchedulingCaps.LowIrqlPreemptCommand != 0;
  port.interrupt_message = result.interrupt_message_number;
  return result;
}

namespace {

/// Reports what differs from the poison in members that the first pass may not touch (SEG-04).
template <typename Out>
void check_first_pass(AdapterPort::Impl& port, const Out& out) {
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
  (void)port.violation(
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

Error refuse_segments(AdapterPort::Impl& port, const char* rule, std::string actual,
                      std::string expected) {
  port.findings.report(
      {.rule = rule,
       .severity = verifier::Severity::kStartFail,
       .ddi = kQueryAdapterInfo.name,
       .actual = std::move(actual),
       .expected = std::move(expected),
       .fix = "Answer both segment queries from the same constant description of the segments."});
  return Error(Status::kDeviceConfigurationError);
}

/// Types 1 and 3: the two passes differ in pSegmentDescriptor only.
template <typename Out, typename Descriptor>
Result<SegmentsInfo> query_segments_by_pointer(AdapterPort::Impl& port,
                                               DXGK_QUERYADAPTERINFOTYPE type) {
  DXGK_QUERYSEGMENTIN in{};
  if (const auto agp = port.machine.agp_aperture(port.function); agp.has_value()) {
    in.AgpApertureBase.QuadPart = static_cast<LONGLONG>(agp->base.value);
    in.AgpApertureSize.QuadPart = static_cast<LONGLONG>(agp->size);
    in.AgpFlags.Agp = 1;
  }  // SEG-11: else all zero
  Out out;
  std::memset(&out, kPoisonByte, sizeof(out));
  out.NbSegment = 0;
  out.pSegmentDescriptor = nullptr;
  const Status first = port.query(type, &in, sizeof(in), &out, sizeof(out));
  if (!is_success(first))
    return refuse_segments(port, "SEG-04",
                           fmt::format("The first segment query returned {}.", hex(first)),
                           "It returns STATUS_SUCCESS.");
  check_first_pass(port, out);
  const uint32_t count = out.NbSegment;
  if (count == 0 || count > kMaxSegments) {
    return refuse_segments(port, "SEG-06", fmt::format("NbSegment is {}.", count),
                           fmt::format("1 to {} segments.", kMaxSegments));
  }
  std::vector<Descriptor> descriptors(count);
  std::memset(descriptors.data(), 0, count * sizeof(Descriptor));
  out = {};
  out.NbSegment = count;
  out.pSegmentDescriptor = descriptors.data();
  const Status second = port.query(type, &in, sizeof(in), &out, sizeof(out));
  if (!is_success(second)) return Error(second);
  if (out.NbSegment != count) {
    return refuse_segments(port, "SEG-05",
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
Status query_invalid_ranges(AdapterPort::Impl& port, uint32_t id, SegmentInfo* segment) {
  const uint64_t count = segment->invalid_range_count;
  if (count == 0) return Status::kSuccess;
  if (count > segment->size / kPageBytes) {
    return refuse_segments(port, "SEG-45",
                           fmt::format("Segment {} has NumInvalidMemoryRanges = {} and {} pages.",
                                       id, count, segment->size / kPageBytes),
                           "Each bad range is at least one page of the segment, and they do not "
                           "overlap.")
        .error();
  }
  // One more than asked for: a driver that writes behind its array is found by what stood there.
  std::vector<DXGK_MEMORYRANGE> ranges(count + 1);
  std::memset(ranges.data(), 0, count * sizeof(ranges[0]));
  std::memset(&ranges[count], kPoisonByte, sizeof(ranges[0]));
  const DXGK_MEMORYRANGE behind = ranges[count];
  DXGK_QUERYSEGMENTMEMORYSTATE state{};
  state.DriverSegmentId = static_cast<WORD>(id);
  state.NumInvalidMemoryRanges = static_cast<UINT>(count);
  state.pMemoryRanges = ranges.data();
  const Status status =
      port.query(DXGKQAITYPE_SEGMENTMEMORYSTATE, nullptr, 0, &state, sizeof(state));
  if (!is_success(status)) {
    return refuse_segments(port, "SEG-45",
                           fmt::format("The query for the {} bad ranges of segment {} returned {}.",
                                       count, id, hex(status)),
                           "A driver that reports NumInvalidMemoryRanges answers "
                           "DXGKQAITYPE_SEGMENTMEMORYSTATE.")
        .error();
  }
  if (std::memcmp(&behind, &ranges[count], sizeof(behind)) != 0) {
    return refuse_segments(
               port, "SEG-45",
               fmt::format("It wrote behind the {} bad ranges of segment {}.", count, id),
               "It fills pMemoryRanges[0, NumInvalidMemoryRanges).")
        .error();
  }
  for (uint64_t i = 0; i < count; ++i)
    segment->invalid_ranges.push_back({ranges[i].SegmentOffset, ranges[i].SizeInBytes});
  return Status::kSuccess;
}

/// Type 4: the driver may want a wider element than ours.
Result<SegmentsInfo> query_segments_by_stride(AdapterPort::Impl& port) {
  const DXGK_QUERYSEGMENTIN4 in{};  // SEG-10: no linked adapters
  DXGK_QUERYSEGMENTOUT4 out;
  std::memset(&out, kPoisonByte, sizeof(out));
  // Drivers tell the passes apart by either member.
  out.NbSegment = 0;
  out.pSegmentDescriptor = nullptr;
  const Status first = port.query(DXGKQAITYPE_QUERYSEGMENT4, &in, sizeof(in), &out, sizeof(out));
  if (!is_success(first))
    return refuse_segments(port, "SEG-04",
                           fmt::format("The first segment query returned {}.", hex(first)),
                           "It returns STATUS_SUCCESS.");
  check_first_pass(port, out);
  const uint32_t count = out.NbSegment;
  if (count == 0 || count > kMaxSegments) {
    return refuse_segments(port, "SEG-06", fmt::format("NbSegment is {}.", count),
                           fmt::format("1 to {} segments.", kMaxSegments));
  }
  // The kernel proposes the stride of the declared version and honours what comes back, as long as
  // it fits the space given.
  const uint32_t own_stride = abi::record_size("DXGK_SEGMENTDESCRIPTOR4", port.version);
  constexpr size_t kSpare = 4;  // room for a driver built against a wider descriptor
  std::vector<std::byte> buffer(count * size_t{own_stride} * kSpare);
  out = {};
  out.NbSegment = count;
  out.pSegmentDescriptor = reinterpret_cast<BYTE*>(buffer.data());
  out.SegmentDescriptorStride = own_stride;
  const Status second = port.query(DXGKQAITYPE_QUERYSEGMENT4, &in, sizeof(in), &out, sizeof(out));
  if (!is_success(second)) return Error(second);
  if (out.NbSegment != count) {
    return refuse_segments(port, "SEG-05",
                           fmt::format("NbSegment was {}, then {}.", count, out.NbSegment),
                           "Both passes report the same number.");
  }
  const SIZE_T stride = out.SegmentDescriptorStride;
  if (stride < own_stride || stride > kMaxStrideBytes || stride * count > buffer.size()) {
    return refuse_segments(
        port, "SEG-09", fmt::format("SegmentDescriptorStride is {}.", stride),
        fmt::format("At least {} bytes, and all descriptors inside the array given.", own_stride));
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
    if (const Status status = query_invalid_ranges(port, i + 1, &result.segments[i]);
        !is_success(status)) {
      return Error(status);
    }
  }
  return result;
}

}  // namespace

Result<SegmentsInfo> AdapterPort::query_segments() {
  Impl& port = *impl_;
  // SEG-02: by the declared model, never from one type to another. A driver built with newer
  // headers than its model is of the model its capabilities name.
  const auto below = [&](uint32_t interface_version, uint32_t model) {
    return port.version < interface_version || (port.wddm_model != 0 && port.wddm_model < model);
  };
  Result<SegmentsInfo> answer = [&] {
    if (!below(kVersionWddm20, DXGKDDI_WDDMv2)) return query_segments_by_stride(port);
    if (!below(kVersionWin8, DXGKDDI_WDDMv1_2)) {
      return query_segments_by_pointer<DXGK_QUERYSEGMENTOUT3, DXGK_SEGMENTDESCRIPTOR3>(
          port, DXGKQAITYPE_QUERYSEGMENT3);
    }
    return query_segments_by_pointer<DXGK_QUERYSEGMENTOUT, DXGK_SEGMENTDESCRIPTOR>(
        port, DXGKQAITYPE_QUERYSEGMENT);
  }();
  if (answer.has_value() && port.faults != nullptr) [[unlikely]]
    port.faults->shape(&*answer);
  if (answer.has_value()) port.segments = answer->segments;
  return answer;
}

Status AdapterPort::get_node_metadata(NodeOrdinal node, NodeMetadata* out) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.version < kVersionWddm13 || port.ddi.DxgkDdiGetNodeMetadata == nullptr)
    return Status::kNotSupported;
  DXGKARG_GETNODEMETADATA metadata{};
  DdiCall call(port, kGetNodeMetadata, node.value);
  const Status status =
      call(port.ddi.DxgkDdiGetNodeMetadata, port.context, static_cast<UINT>(node.value), &metadata);
  if (status != Status::kSuccess || out == nullptr) return status;
  *out = {};
  if (port.version < DXGKDDI_INTERFACE_VERSION_WDDM2_2) return status;
  out->context_scheduling = metadata.Flags.ContextSchedulingSupported != 0;
  if (port.version < DXGKDDI_INTERFACE_VERSION_WDDM2_5) return status;
  out->ring_buffer_fence_release = metadata.Flags.RingBufferFenceRelease != 0;
  out->max_in_flight_buffers = metadata.Flags.MaxInFlightHwQueueBuffers;
  return status;
}

Status AdapterPort::query_umd_private(std::span<const std::byte> in, std::span<std::byte> out) {
  return impl_->query(DXGKQAITYPE_UMDRIVERPRIVATE, in.empty() ? nullptr : in.data(),
                      static_cast<uint32_t>(in.size()), out.empty() ? nullptr : out.data(),
                      static_cast<uint32_t>(out.size()));
}

}  // namespace dxgkit::port
