// DXGKRNL_INTERFACE: the callbacks of a driver, one Win64 function per entry.
#pragma once

namespace dxgkit::port {

struct PortCore;

/// Fills `core.callbacks`, the table for DxgkDdiStartDevice, as far as the driver's version goes.
/// Slots without an implementation refuse with STATUS_NOT_SUPPORTED.
void fill_callbacks(PortCore& core);

}  // namespace dxgkit::port
