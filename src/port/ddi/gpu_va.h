// GPU virtual addresses: the MMU, root page tables.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "port/gpu_va_types.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs of GPU virtual addresses, from WDDM 2.0 on. PASSIVE_LEVEL. kDeviceRemoved from a dead
/// driver.
class GpuVaPort {
 public:
  /// The core must outlive it.
  explicit GpuVaPort(PortCore& core) : core_(core) {}

  /// GPUMMUCAPS, then PAGETABLELEVELDESC per level. Checks the structure only; dxgk checks the
  /// meaning. kNotSupported below WDDM 2.0. A driver that fails the query, or writes past the
  /// structure, has answered nothing: then its status, or kDeviceConfigurationError after a finding
  /// (NT-33). After success the port knows of what size a reservation must be a multiple.
  Result<GpuMmuCaps> query_gpu_mmu();
  /// DxgkDdiSetRootPageTable (VA-06): lane, PASSIVE_LEVEL, with no packet of the context running or
  /// waiting in the hardware queue. kNotSupported without the entry.
  Status set_root_page_table(void* context, const RootPageTable& root);
  /// DxgkDdiGetRootPageTableSize, with two levels only (VA-05): the bytes of a root with at least
  /// `entry_count` entries; a multiple of the page. kDeviceConfigurationError, after a finding, if
  /// the answer is no multiple or 0. kNotSupported without the entry. Any thread.
  Result<uint64_t> get_root_page_table_size(uint32_t entry_count);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
