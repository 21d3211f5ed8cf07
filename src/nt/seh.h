// Structured exception handling for driver code: dispatch, unwinding, __C_specific_handler.
//
// As on Windows, the handlers of the driver's frames are asked, innermost first, on the driver's
// own stack. The walk ends at the first frame that is not driver code. So an exception of a
// callback never reaches the driver frames beyond the host function that called it back. The caller
// reports an exception that no handler takes.
//
// An export raises with raise_status, because its door knows the driver's registers at the call.
// Host frames between the two are lost, so only code that holds nothing may raise.
//
// Stacks. Handlers run on the driver's stack, as on Windows, and so does the code that calls them.
// If host code waits for them (a fault, which may go on), doors continue below that host code:
// CallFrame::lower_host_stack.
#pragma once

#include <cstdint>
#include <string>

#include "nt/context.h"
#include "nt/kernel.h"
#include "nt/unwind.h"

namespace dxgkit::nt {

/// Host code on the driver's stack of this frame is gone for good. Removes the marks that a
/// sanitizer made there. Without a sanitizer it does nothing.
void forget_driver_stack(const CallFrame& frame);
/// The same for an export of ours that raised, below the place where the host's stack continues.
void forget_host_stack(const CallFrame& frame);

/// An exception whose handlers are being asked, or a frame that is being unwound; on the driver's
/// stack. An exception inside a filter or a termination handler continues from here.
struct ActiveDispatch {
  ActiveDispatch* outer = nullptr;
  const Context* start = nullptr;                 // asking: where the exception happened
  const Context* working = nullptr;               // unwinding: the frame that is left
  const DispatcherContext* dispatcher = nullptr;  // unwinding: how far its handlers have run
  std::byte* host_stack = nullptr;                // the frame's, when it ends
};

/// Steps through driver frames, and through the exceptions that are being handled on the way.
class FrameWalker {
 public:
  FrameWalker(const Kernel::Impl& state, const Context& start, const ActiveDispatch* active);
  /// Moves to the next driver frame unless it is in one. False at the end: host code, a driver
  /// without unwind data, or a limit.
  bool settle();
  /// Leaves the frame. False if the stack or the unwind data make no sense.
  bool leave(uint8_t handler_kind, UnwoundFrame* frame);

  Context context;
  const DriverImage* image = nullptr;       // after settle
  const FunctionEntry* function = nullptr;  // after settle; null: a leaf
  uint32_t scope_index = 0;  // where the frame's handlers continue; not 0 only after a collision
  bool nested = false;       // an outer exception's frames have been reached

 private:
  const Kernel::Impl& state_;
  const ActiveDispatch* active_;
  uint64_t last_rsp_ = 0;
  int frames_ = 0;
};

enum class Answer { kContinue, kUnhandled };

/// Asks the handlers of the calling thread's innermost frame. kContinue: continue at `context`,
/// which a filter may have changed. Does not return if a handler takes the exception; the frame's
/// host stack is then `host_stack`. On the driver's stack.
Answer dispatch_exception(CallFrame& frame, ExceptionRecord& record, Context& context,
                          std::byte* host_stack);

/// dispatch_exception, or the bug check for an unhandled exception. Returns only to continue.
void raise_exception(ExceptionRecord& record, Context& context);

/// Raises `status` at the driver's call of the running export. Does not return.
[[noreturn]] void raise_status(uint32_t status);
/// The same for any exception.
[[noreturn]] void raise_at_door(const ExceptionRecord& record);

/// The same for a probe of user memory; parameters[14] tells the finding so (NT-18).
[[noreturn]] void raise_probe_failure(uint32_t status);
inline constexpr uint64_t kProbeMark = 0x70726F6265;

/// The registers of the driver at the call through which it is in a door.
void context_at_door(const DoorFrame& door, Context* context);

/// An access violation in a routine that the driver called. The finding reads it: parameters[14] is
/// kCallMark, [13] the routine's name, [12] the number of the argument that was wrong (0: none of
/// the first four), [11] its value.
inline constexpr uint64_t kCallMark = 0x63616C6C;
/// The same as text: "memcpy (to 0x20, from 0x7f00, 16 bytes)". Empty: `context` is not in code
/// lent to drivers.
std::string describe_lent_call(const Context& context);

/// True if this code runs on the driver stack of `frame`.
bool on_driver_stack(const CallFrame& frame);

extern "C" void dxgkit_nt_call_on_stack(void* stack, void (*function)(void*), void* argument,
                                        std::byte** where);
/// Continues at `context` with all its registers.
extern "C" [[noreturn]] void dxgkit_nt_restore(Context* context);

/// True if `address` is in code lent to drivers (memcpy and relatives). Faults there are the
/// driver's.
bool in_lent_code(uint64_t address);
/// The same for the stack probe.
bool in_stack_probe(uint64_t address);
const DriverImage* find_image(const Kernel::Impl& state, uint64_t address);

/// True if the images of all loaded drivers tell where their handlers are. An ELF twin does not:
/// no handler of it is ever asked.
bool has_handlers(const Kernel& kernel);

}  // namespace dxgkit::nt
