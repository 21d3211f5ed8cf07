// Structured exception handling for driver code: dispatch, unwinding, __C_specific_handler.
//
// An exception is offered to the handlers of the driver's frames, innermost first, on the driver's
// own stack, as Windows does it. The walk ends at the first frame that is not driver code: an
// exception of a callback never reaches the driver frames beyond the host function that called it
// back. What no handler takes is the caller's to report.
//
// An export raises with raise_status: its door knows the driver's registers at the call. Host
// frames between the two are forgotten, so only code that holds nothing may raise.
//
// Stacks. Handlers run on the driver's stack, as on Windows, and so does what calls them. Where
// host code waits for them (a fault, which may go on), doors lead below it:
// CallFrame::lower_host_stack.
#pragma once

#include <cstdint>

#include "nt/context.h"
#include "nt/kernel.h"
#include "nt/unwind.h"

namespace dxgkit::nt {

/// Host code that stood on the driver's stack of this frame is gone for good: what a sanitizer
/// marked there goes with it. Nothing otherwise.
void forget_driver_stack(const CallFrame& frame);
/// The same for an export of ours that raised, below where the host's stack goes on.
void forget_host_stack(const CallFrame& frame);

/// An exception whose handlers are being asked, or a frame that is being unwound; on the driver's
/// stack. An exception inside a filter or a termination handler goes on from here.
struct ActiveDispatch {
  ActiveDispatch* outer = nullptr;
  const Context* start = nullptr;                 // asking: where the exception happened
  const Context* working = nullptr;               // unwinding: the frame that is left
  const DispatcherContext* dispatcher = nullptr;  // unwinding: how far its handlers got
  std::byte* host_stack = nullptr;                // the frame's, when it ends
};

/// Steps through driver frames, and through the exceptions that are being handled on the way.
class FrameWalker {
 public:
  FrameWalker(const Kernel::Impl& state, const Context& start, const ActiveDispatch* active);
  /// Goes to the next driver frame if it does not stand in one. False at the end: host code, a
  /// driver without unwind data, or a limit.
  bool settle();
  /// Leaves the frame. False if the stack or the unwind data make no sense.
  bool leave(uint8_t handler_kind, UnwoundFrame* frame);

  Context context;
  const DriverImage* image = nullptr;       // after settle
  const FunctionEntry* function = nullptr;  // after settle; null: a leaf
  uint32_t scope_index = 0;  // where the frame's handlers go on: not 0 only after a collision
  bool nested = false;       // an outer exception's frames have been reached

 private:
  const Kernel::Impl& state_;
  const ActiveDispatch* active_;
  uint64_t last_rsp_ = 0;
  int frames_ = 0;
};

enum class Answer { kContinue, kUnhandled };

/// Asks the handlers of the calling thread's innermost frame. kContinue: go on at `context`, which
/// a filter may have changed. Does not return if a handler takes the exception; the frame's host
/// stack is `host_stack` then. On the driver's stack.
Answer dispatch_exception(CallFrame& frame, ExceptionRecord& record, Context& context,
                          std::byte* host_stack);

/// dispatch_exception, or the bug check for what nobody handles. Returns only to continue.
void raise_exception(ExceptionRecord& record, Context& context);

/// Raises `status` at the driver's call of the export that runs. Does not return.
[[noreturn]] void raise_status(uint32_t status);
/// The same for any exception.
[[noreturn]] void raise_at_door(const ExceptionRecord& record);

/// The same for a probe of user memory; parameters[14] says so to the finding (NT-18).
[[noreturn]] void raise_probe_failure(uint32_t status);
inline constexpr uint64_t kProbeMark = 0x70726F6265;

/// Is this code running on the driver stack of `frame`?
bool on_driver_stack(const CallFrame& frame);

extern "C" void dxgkit_nt_call_on_stack(void* stack, void (*function)(void*), void* argument,
                                        std::byte** where);
/// Goes on at `context` with all its registers.
extern "C" [[noreturn]] void dxgkit_nt_restore(Context* context);

/// Is `address` in code lent to drivers (memcpy and relatives)? Their faults are the driver's.
bool in_lent_code(uint64_t address);
/// As above, for the stack probe.
bool in_stack_probe(uint64_t address);
const DriverImage* find_image(const Kernel::Impl& state, uint64_t address);

}  // namespace dxgkit::nt
