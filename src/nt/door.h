// Where host code and driver code meet on one thread: the stack each runs on.
//
// Driver code runs on a stack of its own, as small as a kernel stack and with guards at both ends;
// everything of ours that it calls runs on the thread's ordinary stack. So an overflow of the
// driver is found, and what this kernel needs (formatting, sanitizers) never counts against a
// driver.
//
//   host stack         driver stack (top first)
//   CallFrame::call
//    `-> enter ------> DxgkDdiStartDevice
//                        `-> door of DxgkCbSynchronizeExecution
//        callback <------------------'   (below enter's frame)
//         CallFrame::call
//          `-> enter --> the driver's routine   (below the door's frame)
//
// `enter` and `door` are assembly (door_asm.cpp). Both leave debuggers and unwinders a chain of
// frame pointers and call frame information across the switch. A door writes down the registers a
// Win64 caller expects to be kept, so that a call can also be left by an exception.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// Marks a function that crosses the driver door: Win64 calling convention.
#define DXGKIT_NT_ABI __attribute__((ms_abi))

namespace dxgkit::nt {

using Irql = uint8_t;

/// The part of a CallFrame that the assembly reads and writes. Not initialised as a whole: what is
/// listed as "while inside" means nothing otherwise.
struct alignas(16) DoorFrame {
  /// While inside `enter`: the host stack pointer below which host code may run.
  std::byte* host_sp;
  /// Where the driver stack goes on for a nested driver call; 0: the thread is on none yet. Equal
  /// to base_sp unless driver code is inside a door: then it is that door's frame.
  uint64_t driver_sp;
  /// Usable part of the driver stack; 0 bytes: none.
  uint64_t stack_low, stack_bytes;
  /// driver_sp at the start of this frame.
  uint64_t base_sp;
  /// What `enter` calls, on which driver stack pointer (0: on the host stack).
  const void* target;
  uint64_t entry_sp;
  /// Parameters of target beyond the four in registers.
  uint32_t stack_arguments;
  Irql current_irql;
  /// 1 while an export runs whose level the door has reported already.
  uint8_t irql_reported;
  uint8_t padding[2];
  // While inside a door: the driver's registers at the call, and where it goes on. Its stack
  // pointer at the call instruction is driver_sp + 16.
  uint64_t rbx, rbp, rsi, rdi, r12, r13, r14, r15, rip, unused;
  alignas(16) uint64_t xmm6_to_15[20];
};
static_assert(std::is_standard_layout_v<DoorFrame>);

/// What a door leads to. Lives as long as its kernel.
struct DoorTarget {
  const void* function = nullptr;  // Win64
  const char* name = "";           // as the driver knows it
  uint32_t stack_arguments = 0;    // at most this many beyond the four in registers
  /// At this level or below the call goes straight through; -1: never.
  int8_t fast_irql_max = 15;
  Irql irql_max = 15;
  Irql irql_min = 0;
  bool traced = false;
};

/// Parameters a Win64 function takes on the stack. A variadic one may take many.
inline constexpr uint32_t kVariadicStackArguments = 28;
template <typename R, typename... P>
constexpr uint32_t stack_arguments_of(R(DXGKIT_NT_ABI*)(P...)) {
  constexpr size_t kParameters = sizeof...(P), kInRegisters = 4;
  return static_cast<uint32_t>(std::max(kParameters, kInRegisters) - kInRegisters);
}
template <typename R, typename... P>
constexpr uint32_t stack_arguments_of(R(DXGKIT_NT_ABI*)(P..., ...)) {
  return kVariadicStackArguments;
}
/// What is not declared with the Win64 convention (assembly, mostly) gets a few.
inline constexpr uint32_t kUnknownStackArguments = 12;
template <typename F>
constexpr uint32_t stack_arguments_of(F) {
  return kUnknownStackArguments;
}

/// One driver stack; at its low end, in the mapping, lies an inaccessible guard.
struct DriverStack {
  uint64_t low = 0, bytes = 0;
  DriverStack* next = nullptr;  // in the calling OS thread's list of free ones
};
/// Inaccessible bytes below a driver stack: more than a frame that skips its probes reaches over.
inline constexpr uint64_t kStackGuardBytes = uint64_t{1} << 20;
/// The calling OS thread's free ones. A simulation has one list for all its fibers.
extern constinit thread_local DriverStack* t_free_driver_stacks;
/// acquire_driver_stack when the first free one does not do.
DriverStack* acquire_other_driver_stack(uint64_t bytes);
/// Takes one of exactly `bytes` (a multiple of the page size) from the calling OS thread's list, or
/// maps one.
inline DriverStack* acquire_driver_stack(uint64_t bytes) {
  DriverStack* const stack = t_free_driver_stacks;
  if (stack == nullptr || stack->bytes != bytes) [[unlikely]]
    return acquire_other_driver_stack(bytes);
  t_free_driver_stacks = stack->next;
  return stack;
}
/// Gives it back, on the OS thread it was taken on. Nothing may run on it any more.
inline void release_driver_stack(DriverStack* stack) {
  stack->next = t_free_driver_stacks;
  t_free_driver_stacks = stack;
}

extern "C" {
/// Called as `target` of the innermost frame would be; see CallFrame::call.
DXGKIT_NT_ABI void dxgkit_nt_enter();
/// The instruction after enter's call of the driver: the return address at the end of the driver's
/// part of a stack.
extern const char dxgkit_nt_entered[];
/// Returns from `enter` of the frame as if the driver had returned.
[[noreturn]] void dxgkit_nt_leave(DoorFrame* frame);
/// Where every generated stub goes, its DoorTarget in r11.
void dxgkit_nt_door();
}

}  // namespace dxgkit::nt
