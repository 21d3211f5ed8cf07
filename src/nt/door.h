// The switch between host code and driver code on one thread, and the stack that each runs on.
//
// Driver code runs on a stack of its own, as small as a kernel stack and with guards at both ends.
// Host code that it calls runs on the thread's ordinary stack. So an overflow of the driver's stack
// is found, and stack use of this kernel (formatting, sanitizers) never counts against a driver.
//
//   host stack         driver stack (top first)
//   CallFrame::call
//    `-> enter ------> DxgkDdiStartDevice
//                        `-> door of DxgkCbSynchronizeExecution
//        callback <------------------'   (below enter's frame)
//         CallFrame::call
//          `-> enter --> the driver's routine   (below the door's frame)
//
// `enter` and `door` are assembly (door_asm.cpp). Across the switch both leave debuggers and
// unwinders a chain of frame pointers and call frame information. A door saves the registers that a
// Win64 caller expects to be kept, so that an exception can leave the call too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// Marks a function that crosses the driver door: Win64 calling convention.
#define DXGKIT_NT_ABI __attribute__((ms_abi))

namespace dxgkit::nt {

using Irql = uint8_t;

struct DoorTarget;

/// The part of a CallFrame that the assembly reads and writes. Not initialised as a whole: fields
/// listed as "while inside" have no meaning otherwise.
struct alignas(16) DoorFrame {
  /// While inside `enter`: the host stack pointer below which host code may run.
  std::byte* host_sp;
  /// The stack pointer where a nested driver call continues on the driver stack; 0: the thread is
  /// on no driver stack yet. Equal to base_sp unless driver code is inside a door: then it is that
  /// door's frame.
  uint64_t driver_sp;
  /// The usable part of the driver stack; 0 bytes: none.
  uint64_t stack_low, stack_bytes;
  /// driver_sp at the start of this frame.
  uint64_t base_sp;
  /// The function that `enter` calls, and its driver stack pointer (0: call it on the host stack).
  const void* target;
  uint64_t entry_sp;
  /// Parameters of target beyond the four in registers.
  uint32_t stack_arguments;
  Irql current_irql;
  /// 1 while an export runs whose level the door has reported already.
  uint8_t irql_reported;
  /// kLogged: the thread has a CallLog, which doors tell of each call and its answer. 0: it has
  /// none.
  uint8_t logged;
  uint8_t padding;
  // While inside a door: the driver's registers at the call, and the address where it continues.
  // Its stack pointer at the call instruction is driver_sp + 16.
  uint64_t rbx, rbp, rsi, rdi, r12, r13, r14, r15, rip;
  /// While inside a door, and logged: the number of the call in the log.
  uint64_t logged_call;
  alignas(16) uint64_t xmm6_to_15[20];
  // While inside a door: what the driver called, and its first four arguments. A fault that is
  // being served clears `callee`.
  const DoorTarget* callee;
  uint64_t call_arguments[4];
};
static_assert(std::is_standard_layout_v<DoorFrame>);
/// A door adds it to a target's fast_irql_max, which is then below any level.
inline constexpr uint8_t kLogged = 0x80;

/// The kind of a routine's result, for texts.
enum class ResultKind : uint8_t { kUnknown, kNothing, kStatus, kPointer, kBoolean, kNumber };
template <typename R>
constexpr ResultKind kind_of_result() {
  if constexpr (std::is_void_v<R>)
    return ResultKind::kNothing;
  else if constexpr (std::is_pointer_v<R>)
    return ResultKind::kPointer;
  else if constexpr (sizeof(R) == 1)
    return ResultKind::kBoolean;
  else if constexpr (sizeof(R) == 4 && std::is_signed_v<R>)
    return ResultKind::kStatus;
  else
    return ResultKind::kNumber;
}
template <typename R, typename... P>
constexpr ResultKind result_kind_of(R(DXGKIT_NT_ABI*)(P...)) {
  return kind_of_result<R>();
}
template <typename R, typename... P>
constexpr ResultKind result_kind_of(R(DXGKIT_NT_ABI*)(P..., ...)) {
  return kind_of_result<R>();
}
template <typename F>
constexpr ResultKind result_kind_of(F) {
  return ResultKind::kUnknown;
}

struct ShownArguments;

/// The target of a door. Lives as long as its kernel.
struct DoorTarget {
  const void* function = nullptr;  // Win64
  const char* name = "";           // as the driver knows it
  uint32_t stack_arguments = 0;    // at most this many beyond the four in registers
  /// At or below this level the call goes straight through; -1: never.
  int8_t fast_irql_max = 15;
  Irql irql_max = 15;
  Irql irql_min = 0;
  bool traced = false;
  ResultKind result_kind = ResultKind::kUnknown;
  bool quiet = false;                     // it says nothing of why a start fails: not logged
  const ShownArguments* shown = nullptr;  // of the log; null: none
};

/// The number of parameters that a Win64 function takes on the stack. A variadic function may take
/// many.
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
/// A function not declared with the Win64 convention (mostly assembly) gets a few.
inline constexpr uint32_t kUnknownStackArguments = 12;
template <typename F>
constexpr uint32_t stack_arguments_of(F) {
  return kUnknownStackArguments;
}

/// One driver stack. At the low end of its mapping is an inaccessible guard.
struct DriverStack {
  uint64_t low = 0, bytes = 0;
  DriverStack* next = nullptr;  // in the calling OS thread's list of free ones
};
/// Inaccessible bytes below a driver stack: more than a frame without stack probes can skip.
inline constexpr uint64_t kStackGuardBytes = uint64_t{1} << 20;
/// The free stacks of the calling OS thread. A simulation has one list for all its fibers.
extern constinit thread_local DriverStack* t_free_driver_stacks;
/// The slow path of acquire_driver_stack, if the first free stack does not fit.
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
/// Puts the free stacks of this thread in the order in which they were mapped. So a second
/// simulation on a thread takes the same stacks as the first.
void sort_free_driver_stacks();
/// Returns a stack, on the OS thread where it was taken. No code may run on it any more.
inline void release_driver_stack(DriverStack* stack) {
  stack->next = t_free_driver_stacks;
  t_free_driver_stacks = stack;
}

extern "C" {
/// Called like `target` of the innermost frame; see CallFrame::call.
DXGKIT_NT_ABI void dxgkit_nt_enter();
/// The instruction after enter's call of the driver. It is the return address at the end of the
/// driver's part of a stack.
extern const char dxgkit_nt_entered[];
/// Returns from `enter` of the frame as if the driver had returned.
[[noreturn]] void dxgkit_nt_leave(DoorFrame* frame);
/// Every generated stub jumps here, with its DoorTarget in r11.
void dxgkit_nt_door();
}

}  // namespace dxgkit::nt
