// Data that drivers read without a call: KUSER_SHARED_DATA, and the processor's own data behind gs.
// Both exist only as answers to faulting loads (emulate.cpp).
#pragma once

#include <cstdint>

#include "nt/kernel.h"

namespace dxgkit::nt {

inline constexpr uint64_t kSharedDataAddress = 0xFFFF'F780'0000'0000;
/// The targets of gs:[18h] and gs:[20h]. Nothing is mapped there, so loads fault and are answered.
inline constexpr uint64_t kProcessorDataAddress = 0xFFFF'F780'8000'0000;
inline constexpr uint64_t kSystemDataBytes = 0x1000;

/// The present bytes [offset, offset + bytes) of KUSER_SHARED_DATA. Signal-safe.
void read_shared_data(CallFrame& frame, uint64_t offset, uint64_t bytes, void* out);
/// The same for the KPCR of the calling thread. Signal-safe.
void read_processor_data(CallFrame& frame, uint64_t offset, uint64_t bytes, void* out);

}  // namespace dxgkit::nt
