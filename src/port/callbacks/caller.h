// Finds the adapter that a callback is for, and checks whether the driver may call it there.
#pragma once

#include "nt/kernel.h"

namespace dxgkit::port {

struct PortCore;

/// The adapter that a callback of the calling thread is for; null after a finding (LIFE-08). The
/// driver may use callbacks, and interrupts, from StartDevice until StopDevice returns.
PortCore* of_handle(const char* callback, const void* handle);
/// The same, whether the adapter is started or not.
PortCore* known_handle(const char* callback, const void* handle);
/// The same for a callback without a handle.
PortCore* of_caller(const char* callback);

/// Checks level and place (INT-07, IRQL-12).
void check_callback(PortCore& core, const char* callback, nt::Irql highest, bool legal_in_isr);

}  // namespace dxgkit::port
