// Instructions of drivers that a process cannot execute: privileged ones, and loads from addresses
// that exist in a kernel only.
#pragma once

#include <sys/ucontext.h>

#include "nt/context.h"
#include "nt/fault_frame.h"
#include "nt/kernel.h"

namespace dxgkit::nt {

/// Instructions without side effects, in the signal handler: reads of the IRQL, of shared system
/// data and of the processor's own data. True: done, and the registers are those after the
/// instruction.
bool emulate_quickly(CallFrame& frame, greg_t* registers, uint64_t address);

/// All other instructions, in ordinary code. True: continue at fault.context. False: the
/// instruction raises an exception, described by *record. Does not return if the driver is ended.
bool emulate(CallFrame& frame, FaultFrame& fault, ExceptionRecord* record);

/// For a division that the processor refused at `context`: true if the quotient was too big, false
/// if the divisor was zero.
bool is_division_overflow(const Context& context);

}  // namespace dxgkit::nt
