// Instructions of drivers that a process cannot execute: privileged ones, and loads from places
// that only a kernel has.
#pragma once

#include <sys/ucontext.h>

#include "nt/context.h"
#include "nt/fault_frame.h"
#include "nt/kernel.h"

namespace dxgkit::nt {

/// The ones without side effects, in the signal handler: reads of the IRQL, of shared system data
/// and of the processor's own data. True: done, the registers stand behind the instruction.
bool emulate_quickly(CallFrame& frame, greg_t* registers, uint64_t address);

/// All others, in ordinary code. True: go on at fault.context. False: it is an exception, and
/// *record says which. Does not return for what ends the driver.
bool emulate(CallFrame& frame, FaultFrame& fault, ExceptionRecord* record);

/// Of a division the processor refused at `context`: was the quotient too big, not the divisor
/// zero?
bool is_division_overflow(const Context& context);

}  // namespace dxgkit::nt
