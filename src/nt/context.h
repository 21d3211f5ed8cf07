// Records of structured exception handling on x64 as they lie in memory. Handlers of drivers read
// and write them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "nt/door.h"

namespace dxgkit::nt {

/// A 128-bit register.
struct alignas(16) Vector128 {
  uint64_t low = 0, high = 0;
};

/// The legacy area of FXSAVE and XSAVE.
struct alignas(16) FloatSave {
  uint16_t control = 0x27F, status = 0;
  uint8_t tag = 0, reserved1 = 0;
  uint16_t opcode = 0;
  uint64_t instruction = 0, data = 0;
  uint32_t mxcsr = 0x1F80, mxcsr_mask = 0;
  std::array<Vector128, 8> x87 = {};
  std::array<Vector128, 16> xmm = {};
  std::array<uint8_t, 96> reserved4 = {};
};
static_assert(sizeof(FloatSave) == 512);

/// CONTEXT.
struct alignas(16) Context {
  std::array<uint64_t, 6> home = {};
  uint32_t flags = 0;
  uint32_t mxcsr = 0x1F80;
  uint16_t cs = 0, ds = 0, es = 0, fs = 0, gs = 0, ss = 0;
  uint32_t eflags = 0;
  std::array<uint64_t, 6> debug = {};
  uint64_t rax = 0, rcx = 0, rdx = 0, rbx = 0, rsp = 0, rbp = 0, rsi = 0, rdi = 0;
  uint64_t r8 = 0, r9 = 0, r10 = 0, r11 = 0, r12 = 0, r13 = 0, r14 = 0, r15 = 0;
  uint64_t rip = 0;
  FloatSave floats;
  std::array<Vector128, 26> vector = {};
  uint64_t vector_control = 0, debug_control = 0;
  std::array<uint64_t, 4> last_branch = {};

  /// A general register by its number in instructions: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi,
  /// r8...
  uint64_t& general(size_t number) { return (&rax)[number]; }
};
static_assert(sizeof(Context) == 1232);
static_assert(offsetof(Context, flags) == 0x30 && offsetof(Context, eflags) == 0x44);
static_assert(offsetof(Context, rax) == 0x78 && offsetof(Context, rip) == 0xF8);
static_assert(offsetof(Context, floats) == 0x100 && offsetof(Context, vector) == 0x300);

/// CONTEXT_CONTROL | INTEGER | SEGMENTS | FLOATING_POINT for x64.
inline constexpr uint32_t kContextFull = 0x0010000F;

/// EXCEPTION_RECORD.
struct ExceptionRecord {
  uint32_t code = 0;
  uint32_t flags = 0;
  ExceptionRecord* inner = nullptr;
  uint64_t address = 0;
  uint32_t parameter_count = 0;
  uint32_t padding = 0;
  std::array<uint64_t, 15> parameters = {};
};
static_assert(sizeof(ExceptionRecord) == 152);

// ExceptionRecord::flags.
inline constexpr uint32_t kNonContinuable = 0x1, kUnwinding = 0x2, kExitUnwind = 0x4,
                          kStackInvalid = 0x8, kNestedCall = 0x10, kTargetUnwind = 0x20,
                          kCollided = 0x40;
inline constexpr uint32_t kUnwindFlags = kUnwinding | kExitUnwind | kTargetUnwind | kCollided;

// Exception codes.
inline constexpr uint32_t kStatusAccessViolation = 0xC0000005, kStatusInPageError = 0xC0000006,
                          kStatusIllegalInstruction = 0xC000001D,
                          kStatusNonContinuable = 0xC0000025,
                          kStatusInvalidDisposition = 0xC0000026, kStatusUnwind = 0xC0000027,
                          kStatusBadStack = 0xC0000028, kStatusInvalidUnwindTarget = 0xC0000029,
                          kStatusArrayBounds = 0xC000008C, kStatusFloatInvalid = 0xC0000090,
                          kStatusFloatMultipleTraps = 0xC00002B5, kStatusFloatDivide = 0xC000008E,
                          kStatusIntegerDivide = 0xC0000094, kStatusIntegerOverflow = 0xC0000095,
                          kStatusPrivileged = 0xC0000096, kStatusStackOverflow = 0xC00000FD,
                          kStatusAssertion = 0xC0000420, kStatusMisalignment = 0x80000002,
                          kStatusBreakpoint = 0x80000003, kStatusSingleStep = 0x80000004;

/// EXCEPTION_POINTERS.
struct ExceptionPointers {
  ExceptionRecord* record = nullptr;
  Context* context = nullptr;
};

struct FunctionEntry;

/// DISPATCHER_CONTEXT.
struct DispatcherContext {
  uint64_t control_pc = 0;
  uint64_t image_base = 0;
  const FunctionEntry* function = nullptr;
  uint64_t establisher_frame = 0;
  uint64_t target_ip = 0;
  Context* context = nullptr;
  const void* language_handler = nullptr;
  const void* handler_data = nullptr;
  void* history = nullptr;
  uint32_t scope_index = 0;
  uint32_t fill = 0;
};
static_assert(sizeof(DispatcherContext) == 80);

/// EXCEPTION_DISPOSITION.
enum class Disposition : int32_t {
  kContinueExecution = 0,
  kContinueSearch = 1,
  kNestedException = 2,
  kCollidedUnwind = 3,
};

/// EXCEPTION_ROUTINE.
using ExceptionRoutine = Disposition(DXGKIT_NT_ABI*)(ExceptionRecord* record, uint64_t frame,
                                                     Context* context,
                                                     DispatcherContext* dispatcher);

}  // namespace dxgkit::nt
