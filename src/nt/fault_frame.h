// The record of a fault that the signal handler leaves on the driver's stack for the code that
// serves it.
#pragma once

#include <cstring>

#include "nt/context.h"
#include "nt/kernel.h"

namespace dxgkit::nt {

/// The assembly in seh_stubs.cpp knows these offsets. The XSAVE area follows.
struct alignas(64) FaultFrame {
  Context context;
  uint64_t components = 0;  // of the XSAVE area; 0: it is an FXSAVE area
  int signal = 0;
  bool overflow = false;      // the driver ran out of stack
  bool is_wild = false;       // the driver jumped to an address without code
  bool is_pool = false;       // the address lies in special pool
  bool on_own_stack = false;  // the driver was on a driver stack; this is on the host stack
  uint64_t trap = 0, error = 0, address = 0;
  const FaultRange* guard = nullptr;
  uint64_t is_paged = 0;  // the address may be pageable, and the fault came at this level (paged.h)
  // The fault is in host code that driver code of `caller` called: what it called, and with what.
  // A null `call`: the fault is in driver code.
  const DoorTarget* call = nullptr;
  CallFrame* caller = nullptr;
  uint64_t arguments[4] = {};
  uint64_t unused[9] = {};

  std::byte* area() { return reinterpret_cast<std::byte*>(this + 1); }
  /// Makes XRSTOR load the x87 and SSE parts of the area even if they were in their initial state
  /// when saved.
  void mark_legacy_in_use() {
    if (components == 0) return;
    uint64_t in_use = 0;
    std::memcpy(&in_use, area() + sizeof(FloatSave), sizeof(in_use));
    in_use |= 3 & components;
    std::memcpy(area() + sizeof(FloatSave), &in_use, sizeof(in_use));
  }
};
static_assert(offsetof(FaultFrame, components) == 1232);
static_assert(sizeof(FaultFrame) == 1408);

/// Call it before the first fault: it finds what the next function needs.
void prepare_call_faults();
/// The frame whose driver code called the host code that failed at `instruction`; null if the fault
/// does not come from that call, as far as one can tell. Safe in a signal handler.
CallFrame* find_faulting_call(CallFrame& frame, uint64_t instruction, uint64_t trap,
                              uint64_t address);
/// The number of the argument that explains an access to `address`, from 1; 0: none does.
uint32_t find_wrong_argument(const uint64_t (&arguments)[4], uint64_t trap, uint64_t address);

}  // namespace dxgkit::nt
