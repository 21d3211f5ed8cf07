// The entries of a driver with one output that is always connected and says nothing of its monitor:
// they know neither state nor device.
#pragma once

#include "miniports/modes/modes.h"

namespace modes {

/// Child and target id of the output.
inline constexpr ULONG kOutput = 1;

DXGKDDI_QUERY_CHILD_RELATIONS query_child_relations;
DXGKDDI_QUERY_CHILD_STATUS query_child_status;
DXGKDDI_QUERY_DEVICE_DESCRIPTOR query_device_descriptor;      // no wire to read an EDID over
DXGKDDI_RECOMMENDFUNCTIONALVIDPN recommend_functional_vidpn;  // none: the kernel knows better
DXGKDDI_UPDATEACTIVEVIDPNPRESENTPATH update_active_path;      // neither scaling nor rotation
DXGKDDI_QUERYVIDPNHWCAPABILITY query_vidpn_hw_capability;     // none

}  // namespace modes
