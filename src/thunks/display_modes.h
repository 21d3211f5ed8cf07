// Display modes in the words of clients.
#pragma once

#include <d3dkmthk.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "dxgk/display/display.h"

namespace dxgkit::thunks {

/// The mode of a source that is shown; nothing for one that is not. Not on a lane.
std::optional<D3DKMT_DISPLAYMODE> display_mode_of(dxgk::Display& display, uint32_t source);
/// The modes that the driver offered for a source at its last enumeration, the current one among
/// them. Of a mode that is not current, the refresh rate is left open (numerator and denominator
/// 0): the driver names it when the mode is set. Empty: no such source. Not on a lane.
std::vector<D3DKMT_DISPLAYMODE> display_modes_of(dxgk::Display& display, uint32_t source);

}  // namespace dxgkit::thunks
