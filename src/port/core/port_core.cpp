#include "port/core/port_core.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/fixed_memory.h"
#include "dxgkit/abi_versions.h"
#include "port/answers.h"
#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"

namespace dxgkit::port {
namespace {

/// The entries that end or release something (LIFE-26).
constexpr std::string_view kReleases[] = {"DxgkDdiStopDevice",     "DxgkDdiRemoveDevice",
                                          "DxgkDdiDestroyProcess", "DxgkDdiDestroyDevice",
                                          "DxgkDdiDestroyContext", "DxgkDdiDestroyAllocation",
                                          "DxgkDdiCloseAllocation"};

constexpr nt::FaultRange kBehindResources{
    .rule = "NT-01",
    .what = "memory behind the list of resources (TranslatedResourceList)",
    .expected =
        "PartialResourceList.Count says how many descriptors there are. The driver reads no other.",
    .fix = "Compare the loop over PartialDescriptors with Count: i < Count."};

}  // namespace

PortCore::PortCore(DriverTable& driver_in, nt::Kernel& kernel_in, bus::Machine& machine_in,
                   bus::PciFunction& function_in, AdapterHost& host_in,
                   verifier::Findings& findings_in)
    : driver(driver_in),
      kernel(kernel_in),
      machine(machine_in),
      function(function_in),
      host(host_in),
      findings(findings_in),
      ddi(driver.table),
      version(driver.version),
      resource_list(kernel_in, kBehindResources),
      levels(kernel_in.runtime()),
      interrupts(*this) {
  const std::string key = nt::KernelConfig::kDeviceKey;
  registry_path.assign(key.begin(), key.end());
  void* page = map_fixed(FixedRange::kMemory, kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
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
  {
    runtime::MutexLock lock(driver.adapters_lock);
    driver.adapters.push_back(this);
  }
  if (kernel.default_owner() == nullptr) kernel.set_default_owner(this);
  kernel.set_fatal_handler([this](const verifier::Finding& finding) { host.on_fatal(finding); });
}

PortCore::~PortCore() {
  interrupts.disconnect();
  {
    runtime::MutexLock lock(driver.adapters_lock);
    std::erase(driver.adapters, static_cast<void*>(this));
    if (kernel.default_owner() == this) {
      kernel.set_default_owner(driver.adapters.empty() ? nullptr : driver.adapters.front());
    }
  }
  kernel.set_fatal_handler(nullptr);
  kernel.remove_fault_range(guard_page);
  unmap_fixed(guard_page, kPageBytes);
}

Status PortCore::violation(const char* rule, const char* ddi_name, std::string actual,
                           std::string expected, std::string fix, Status answer) {
  findings.report({.rule = rule,
                   .severity = verifier::Severity::kViolation,
                   .ddi = ddi_name,
                   .actual = std::move(actual),
                   .expected = std::move(expected),
                   .fix = std::move(fix)});
  return answer;
}

void PortCore::fatal(const char* rule, const char* ddi_name, uint32_t code, uint32_t parameter,
                     std::string actual, std::string expected, std::string fix) {
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

void PortCore::irql_violation(const DdiInfo& info, nt::Irql got) {
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

void PortCore::check_answer(const DdiInfo& info, int32_t answer) {
  const bool releases = std::ranges::find(kReleases, info.name) != std::end(kReleases);
  if (releases && !removed.load(std::memory_order_relaxed)) {
    (void)violation("LIFE-26", info.name,
                    fmt::format("It answered {:#010x}.", static_cast<uint32_t>(answer)),
                    "STATUS_SUCCESS: the kernel asks once, for something that is there and idle.",
                    "Release what there is, whatever fails on the way, and return STATUS_SUCCESS.",
                    Status::kSuccess);
    return;
  }
  const std::string_view instead = no_ntstatus(answer);
  if (instead.empty()) return;
  (void)violation("NT-22", info.name,
                  fmt::format("It returned {:#010x}: {}.", static_cast<uint32_t>(answer), instead),
                  "Entries answer with an NTSTATUS, one their page documents.",
                  "Map other kinds of error codes to an NTSTATUS before returning.",
                  Status::kSuccess);
}

void PortCore::probe_query(DXGK_QUERYADAPTERINFOTYPE type, const void* in, uint32_t in_bytes,
                           std::span<const std::byte> out) {
  constexpr auto kNoType = static_cast<DXGK_QUERYADAPTERINFOTYPE>(0x7FFFFFF0);
  struct Probe {
    DXGK_QUERYADAPTERINFOTYPE type;
    size_t bytes;
  };
  for (const Probe& probe : {Probe{type, out.size() - 1}, Probe{type, out.size() / 2},
                             Probe{type, 4}, Probe{kNoType, out.size()}}) {
    if (is_dead(*this) || probe.bytes == 0 || probe.bytes > out.size()) continue;
    DXGKARG_QUERYADAPTERINFO arguments{};
    arguments.Type = probe.type;
    arguments.pInputData = const_cast<void*>(in);
    arguments.InputDataSize = in_bytes;
    const GuardedOutput output(out.first(probe.bytes), GuardedOutput::kWideGuard);
    arguments.pOutputData = output.data();
    arguments.OutputDataSize = static_cast<UINT>(probe.bytes);
    if (situations != nullptr) {
      situations->reach(probe.type == kNoType ? verifier::Situation::kQueryUnknownType
                                              : verifier::Situation::kQuerySmallBuffer);
    }
    DdiCall call(*this, kQueryAdapterInfo, static_cast<uint64_t>(probe.type));
    const Status status = call(ddi.DxgkDdiQueryAdapterInfo, context,
                               static_cast<const DXGKARG_QUERYADAPTERINFO*>(&arguments));
    static_cast<void>(output.check(*this, kQueryAdapterInfo.name, "pOutputData for query type",
                                   static_cast<uint64_t>(probe.type)));
    if (!is_success(status) || !call.completed()) continue;
    // Where one byte lacks, an answer changes something of what is there.
    const bool nearly_whole = probe.type == type && probe.bytes + 1 == out.size();
    if (nearly_whole && !output.is_changed()) {
      (void)violation("LIFE-30", kQueryAdapterInfo.name,
                      fmt::format("It answered {} for query type {}, and wrote nothing into the {} "
                                  "bytes.",
                                  hex(status), static_cast<uint32_t>(type), probe.bytes),
                      "An error such as STATUS_BUFFER_TOO_SMALL, or what fits of the answer.",
                      "Return an error where OutputDataSize is too small.", Status::kSuccess);
    }
    if (probe.type != kNoType) continue;
    (void)violation("LIFE-30", kQueryAdapterInfo.name,
                    fmt::format("It answered {} for query type {:#x}, which does not exist.",
                                hex(status), static_cast<uint32_t>(kNoType)),
                    "STATUS_NOT_SUPPORTED, or another error.",
                    "Answer the types that the driver knows, and refuse all others: later versions "
                    "of Windows ask for more.",
                    Status::kSuccess);
  }
}

Status PortCore::query(DXGK_QUERYADAPTERINFOTYPE type, const void* in, uint32_t in_bytes, void* out,
                       uint32_t out_bytes) {
  if (is_dead(*this)) return Status::kDeviceRemoved;
  if (faults != nullptr && out_bytes != 0 && faults->probes_queries()) [[unlikely]]
    probe_query(type, in, in_bytes, {static_cast<const std::byte*>(out), out_bytes});
  DXGKARG_QUERYADAPTERINFO arguments{};
  arguments.Type = type;
  arguments.pInputData = const_cast<void*>(in);
  arguments.InputDataSize = in_bytes;
  GuardedOutput output(std::span(static_cast<const std::byte*>(out), out_bytes),
                       GuardedOutput::kWideGuard);
  arguments.pOutputData = output.data();
  arguments.OutputDataSize = out_bytes;
  DdiCall call(*this, kQueryAdapterInfo, static_cast<uint64_t>(type));
  const Status status = call(ddi.DxgkDdiQueryAdapterInfo, context,
                             static_cast<const DXGKARG_QUERYADAPTERINFO*>(&arguments));
  const bool inside = output.finish(*this, kQueryAdapterInfo.name, "pOutputData for query type",
                                    static_cast<uint64_t>(type));
  if (inside || !is_success(status)) return status;
  // Facts of the adapter by a driver that took another structure for the one asked for are not
  // believed. What a user mode driver asks is between the two of them.
  return type == DXGKQAITYPE_UMDRIVERPRIVATE ? status : Status::kDeviceConfigurationError;
}

bool PortCore::has_entry(std::string_view name) const {
  for (const abi::TableEntry& entry : abi::kDriverInitializationData) {
    if (entry.name != name || entry.since > version) continue;
    void* pointer = nullptr;
    std::memcpy(&pointer, reinterpret_cast<const std::byte*>(&ddi) + entry.offset_bytes,
                sizeof(pointer));
    return pointer != nullptr;
  }
  return false;
}

void PortCore::report_lost_accesses(const char* ddi_name) {
  const uint64_t now = machine.lost_register_accesses();
  const uint64_t before = lost_accesses_seen.exchange(now);
  if (now <= before) return;
  (void)violation(
      "LIFE-22", ddi_name,
      fmt::format("{} register accesses were made after DxgkDdiNotifySurpriseRemoval.",
                  now - before),
      "After that notice the hardware is not touched: only software is cleaned up.",
      "Note the removal in the device extension, and leave out every access from then on.",
      Status::kSuccess);
}

bool has_hw_scheduling(const PortCore& core) {
  const DRIVER_INITIALIZATION_DATA& ddi = core.ddi;
  return core.version >= kInterfaceWddm24 && ddi.DxgkDdiSetupPriorityBands != nullptr &&
         ddi.DxgkDdiSetContextSchedulingProperties != nullptr &&
         ddi.DxgkDdiSuspendContext != nullptr && ddi.DxgkDdiResumeContext != nullptr &&
         ddi.DxgkDdiResetHwEngine != nullptr && ddi.DxgkDdiResumeHwEngine != nullptr;
}

bool has_cpu_events(const PortCore& core) {
  return core.version >= kInterfaceWddm30 && core.ddi.DxgkDdiCreateCpuEvent != nullptr &&
         core.ddi.DxgkDdiDestroyCpuEvent != nullptr;
}

bool has_native_fences(const PortCore& core) {
  const DRIVER_INITIALIZATION_DATA& ddi = core.ddi;
  return core.version >= kInterfaceWddm32 && ddi.DxgkDdiCreateNativeFence != nullptr &&
         ddi.DxgkDdiDestroyNativeFence != nullptr && ddi.DxgkDdiOpenNativeFence != nullptr &&
         ddi.DxgkDdiCloseNativeFence != nullptr && ddi.DxgkDdiUpdateMonitoredValues != nullptr &&
         ddi.DxgkDdiUpdateCurrentValuesFromCpu != nullptr;
}

}  // namespace dxgkit::port
