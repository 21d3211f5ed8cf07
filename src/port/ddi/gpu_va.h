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
  /// The core outlives it.
  explicit GpuVaPort(PortCore& core) : core_(core) {}

  /// GPUMMUCAPS, then PAGETABLELEVELDESC per level. Only what the wire says; meaning is checked by
  /// dxgk. kNotSupported below WDDM 2.0; a driver that fails them, or writes past the structure,
  /// has said nothing: its status, or kDeviceConfigurationError after a finding (LIFE-13). From its
  /// success on the port knows what a reservation has to be a multiple of.
  Result<GpuMmuCaps> query_gpu_mmu();
  /// DxgkDdiSetRootPageTable (VA-06): lane, PASSIVE_LEVEL, nothing of the context runs or waits in
  /// the hardware queue. kNotSupported without the entry.
  Status set_root_page_table(void* context, const RootPageTable& root);
  /// DxgkDdiGetRootPageTableSize, with two levels only (VA-05): the bytes a root with at least
  /// `entry_count` entries takes; a multiple of the page. kDeviceConfigurationError after a finding
  /// when it is not, or is 0. kNotSupported without the entry. Any thread.
  Result<uint64_t> get_root_page_table_size(uint32_t entry_count);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
