// The function tables drivers call, and the one place they are handed out from.
#pragma once

#include "vidpn/marshal.h"

namespace dxgkit::nt {
class Kernel;
}

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

/// All tables for drivers of `kernel` (null: for callers without one).
Tables make_tables(nt::Kernel* kernel);

// Filled by the files that implement them. `Door` wraps each function on its way into a table.
struct Door;
void fill_vidpn(const Door& door, Tables* tables);
void fill_topology(const Door& door, Tables* tables);
void fill_mode_sets(const Door& door, Tables* tables);
void fill_monitor(const Door& door, Tables* tables);

struct Door {
  nt::Kernel* kernel;
  /// What a driver gets to call for `function`: named for findings and traces.
  template <typename F>
  F operator()(const char* name, F function) const {
    static_cast<void>(name);
    return function;
  }
};

}  // namespace dxgkit::vidpn
