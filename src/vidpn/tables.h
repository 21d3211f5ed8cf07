// The function tables that drivers call. This is the only place that hands them out.
#pragma once

#include "nt/kernel.h"
#include "vidpn/marshal.h"

namespace dxgkit::vidpn {

struct Tables {
  DXGK_VIDPN_INTERFACE vidpn_v1, vidpn_v2;
  DXGK_VIDPNTOPOLOGY_INTERFACE topology;
  DXGK_VIDPNSOURCEMODESET_INTERFACE source_mode_set;
  DXGK_VIDPNTARGETMODESET_INTERFACE target_mode_set;
  DXGK_MONITOR_INTERFACE monitor_v1;
  DXGK_MONITOR_INTERFACE_V2 monitor_v2;
  DXGK_MONITORSOURCEMODESET_INTERFACE monitor_source_mode_set;
  DXGK_MONITORFREQUENCYRANGESET_INTERFACE monitor_frequency_range_set;
  DXGK_MONITORDESCRIPTORSET_INTERFACE monitor_descriptor_set;
};

/// All tables. For an image driver, `kernel` makes the doors through which its calls come in. If
/// `kernel` is null, the tables hold the functions themselves.
Tables make_tables(nt::Kernel* kernel);

// Filled by the files that implement the functions. `Door` wraps each function on its way into a
// table.
struct Door;
void fill_vidpn(const Door& door, Tables* tables);
void fill_topology(const Door& door, Tables* tables);
void fill_mode_sets(const Door& door, Tables* tables);
void fill_monitor(const Door& door, Tables* tables);

struct Door {
  nt::Kernel* kernel;
  /// The address that a driver calls for `function`. The name is for findings and traces.
  template <typename F>
  F operator()(const char* name, F function) const {
    if (kernel == nullptr) return function;
    return reinterpret_cast<F>(const_cast<void*>(
        kernel->door(name, reinterpret_cast<const void*>(function), kStackArgumentsMax)));
  }
  /// No function of these interfaces has more than five parameters.
  static constexpr uint32_t kStackArgumentsMax = 1;
};

}  // namespace dxgkit::vidpn
