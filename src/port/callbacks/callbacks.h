// DXGKRNL_INTERFACE: what a driver calls back, one Win64 function per entry.
#pragma once

namespace dxgkit::port {

struct PortCore;

/// Fills `core.callbacks`, what DxgkDdiStartDevice gets, as far as the driver's version goes. Slots
/// without an implementation refuse with STATUS_NOT_SUPPORTED.
void fill_callbacks(PortCore& core);

}  // namespace dxgkit::port
