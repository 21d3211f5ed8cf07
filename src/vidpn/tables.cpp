#include "vidpn/tables.h"

namespace dxgkit::vidpn {

Tables make_tables(nt::Kernel* kernel) {
  Tables tables = {};
  const Door door{kernel};
  fill_vidpn(door, &tables);
  fill_topology(door, &tables);
  fill_mode_sets(door, &tables);
  fill_monitor(door, &tables);
  return tables;
}

}  // namespace dxgkit::vidpn
