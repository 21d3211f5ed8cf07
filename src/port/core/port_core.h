// The state that every family of DDIs and every callback of one adapter share. For this folder
// only.
#pragma once

#include <dispmprt.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fixed_memory.h"
#include "base/ids.h"
#include "base/interface_versions.h"
#include "bus/machine.h"
#include "nt/kernel.h"
#include "port/adapter_host.h"
#include "port/core/bounded_bytes.h"
#include "port/core/ddi_info.h"
#include "port/core/driver_table.h"
#include "port/core/interrupts.h"
#include "port/core/levels.h"
#include "port/core/situations.h"
#include "port/fault_injector.h"
#include "port/io_objects.h"
#include "port/types.h"
#include "runtime/sync.h"
#include "verifier/findings.h"

namespace dxgkit::port {

inline constexpr DdiInfo kQueryAdapterInfo{"DxgkDdiQueryAdapterInfo", nt::kPassiveLevel,
                                           DdiClass::kLevelZeroBeside};

/// An adapter as its driver's table knows it: the driver, the host, the levels, the interrupt, the
/// reporting of findings, and facts from the driver that several families need.
///
/// Its address is the DeviceHandle of the driver's callbacks. Any thread. Members that are not
/// atomic are written before the adapter runs, or where their comment says.
struct PortCore : InFixedMemory {
  PortCore(DriverTable& driver_in, nt::Kernel& kernel_in, bus::Machine& machine_in,
           bus::PciFunction& function_in, AdapterHost& host_in, verifier::Findings& findings_in);
  ~PortCore();
  PortCore(const PortCore&) = delete;
  PortCore& operator=(const PortCore&) = delete;

  DriverTable& driver;
  nt::Kernel& kernel;
  bus::Machine& machine;
  bus::PciFunction& function;
  AdapterHost& host;
  verifier::Findings& findings;
  const DRIVER_INITIALIZATION_DATA& ddi;
  const uint32_t version;

  void* context = nullptr;  // from AddDevice: hAdapter of every DDI
  bool added = false, started = false;
  bool reference_checks = true;
  bool patches_addresses = false;          // lane: DxgkDdiPatch has written what PATCH-27 expects
  bool has_own_words = false;              // lane: it has written something else before; reported
  FaultInjector* faults = nullptr;         // set before the adapter runs
  std::unique_ptr<Situations> situations;  // likewise; null: nobody wants to know
  std::optional<Status> callback_fails(const char* callback) const {
    if (faults == nullptr) [[likely]]
      return std::nullopt;
    return faults->before_callback(callback);
  }
  /// The bytes that a driver finds in outputs that it must write (LIFE-29). While the adapter is
  /// idle.
  std::byte output_fill{0};
  /// Types of diagnostics that the driver was asked to report, by category. Any thread.
  std::array<std::atomic<uint32_t>, 2> reported_types{};
  bool low_irql_preempt = false;  // LowIrqlPreemptCommand (G-22)
  bool map_aperture2 = false;     // MapAperture2Supported (PAGE-30)
  DXGKRNL_INTERFACE callbacks{};
  DXGK_START_INFO start_info{};
  std::vector<DeviceResource> resources;  // as in resource_list
  BoundedBytes resource_list;             // CM_RESOURCE_LIST; null: there are none
  PhysicalDevice device;
  std::u16string registry_path;
  std::byte* guard_page =
      nullptr;  // inaccessible memory for pointers that the driver may not follow (SUB-11)

  SyncLevels levels;
  Interrupts interrupts;

  // Set once, by the notice of removal; read at the end of every DDI.
  std::atomic<bool> removed{false};
  std::atomic<uint64_t> lost_accesses_seen{0};
  uint32_t power_components = 0;  // known to the driver; written before the adapter runs

  // From query_gpu_mmu; 0: not asked, or no usable answer.
  uint64_t leaf_coverage = 0;  // bytes that one leaf table translates
  uint32_t va_bits = 0;
  // Processes inside DxgkDdiCreateProcess (VA-09): their hDxgkProcess.
  runtime::Mutex creating_lock;
  std::vector<HANDLE> creating DXGKIT_GUARDED_BY(creating_lock);

  uint32_t wddm_model = 0;    // DXGK_DRIVERCAPS::WDDMVersion; 0: not asked or not said
  uint32_t node_count = 0;    // as the caps say; 0: not asked
  bool compute_only = false;  // MiscCaps.ComputeOnly
  bool gpu_mmu = false;       // MemoryManagementCaps.GpuMmuSupported
  struct Engine {
    uint32_t type = 0;   // DXGK_ENGINE_TYPE
    bool named = false;  // it has a FriendlyName
    bool gpu_mmu = false;
  };
  std::vector<Engine> engines;        // by node, as far as they were asked
  std::vector<SegmentInfo> segments;  // by id - 1, as the driver described them

  HANDLE handle() const { return const_cast<PortCore*>(this); }
  /// True if the driver has filled that entry of its table ("DxgkDdiCommitVidPn"). False for names
  /// that its version does not know.
  bool has_entry(std::string_view name) const;

  // --- findings
  Status violation(const char* rule, const char* ddi_name, std::string actual, std::string expected,
                   std::string fix, Status answer);
  /// Reports a finding of kBugCheck and tells the host.
  void fatal(const char* rule, const char* ddi_name, uint32_t code, uint32_t parameter,
             std::string actual, std::string expected, std::string fix);
  void irql_violation(const DdiInfo& info, nt::Irql got);
  /// Reports NT-22: an answer that is not an NTSTATUS.
  void check_answer(const DdiInfo& info, int32_t answer);
  /// Reports LIFE-22.
  void report_lost_accesses(const char* ddi_name);

  /// Calls DxgkDdiQueryAdapterInfo.
  Status query(DXGK_QUERYADAPTERINFOTYPE type, const void* in, uint32_t in_bytes, void* out,
               uint32_t out_bytes);
  /// The same with buffers that are too small, and with another type, for nothing but findings.
  void probe_query(DXGK_QUERYADAPTERINFOTYPE type, const void* in, uint32_t in_bytes,
                   std::span<const std::byte> out);
};

/// The status as findings show it: 0xc000000d.
std::string hex(Status status);

/// True once the driver must not be called any more: after its own bug check.
inline bool is_dead(const PortCore& core) { return core.kernel.driver_is_dead(); }

/// Whether an entry may be called that drivers have from interface version `since` on: kSuccess,
/// kDeviceRemoved or kNotSupported.
template <typename Entry>
Status callable(const PortCore& core, uint32_t since, Entry entry) {
  if (is_dead(core)) return Status::kDeviceRemoved;
  return core.version >= since && entry != nullptr ? Status::kSuccess : Status::kNotSupported;
}

/// True if the driver has the entries of hardware scheduling: 2.4 or later, and none missing.
bool has_hw_scheduling(const PortCore& core);
/// True if the driver has all entries of native fences: 3.2 or later.
bool has_native_fences(const PortCore& core);
/// True if the driver has both entries of CPU events: 3.0 or later.
bool has_cpu_events(const PortCore& core);

}  // namespace dxgkit::port
