#include "nt/seh.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/guarded_copy.h"
#include "nt/kernel_impl.h"
#include "nt/unwind.h"

#if defined(__SANITIZE_ADDRESS__)
#define DXGKIT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DXGKIT_ASAN 1
#endif
#endif
#ifdef DXGKIT_ASAN
#include <sanitizer/asan_interface.h>
#endif

extern "C" {
extern const char dxgkit_nt_lent_begin[], dxgkit_nt_lent_end[];
extern const char dxgkit_nt_memcpy[], dxgkit_nt_memmove[], dxgkit_nt_memset[], dxgkit_nt_memcmp[];
extern const char dxgkit_nt_chkstk[], dxgkit_nt_chkstk_end[];
extern const char dxgkit_nt_handler_return[];
uint64_t dxgkit_nt_call_handler(const void* code, const void* a, const void* b, const void* c,
                                const void* d);
void dxgkit_nt_rtl_raise_exception();
void dxgkit_nt_raise_status();
void dxgkit_nt_raise_access_violation();
void dxgkit_nt_raise_misalignment();
void dxgkit_nt_rtl_capture_context();
void dxgkit_nt_rtl_restore_context();
void dxgkit_nt_rtl_unwind();
void dxgkit_nt_local_unwind();
}

namespace dxgkit::nt {
namespace {

/// No stack of 24 KiB holds more frames.
constexpr int kFrameLimit = 4096;
/// Exceptions inside filters inside filters...
constexpr int kNestingLimit = 16;
/// Scopes of one function; MSVC's tables count in 32 bits.
constexpr uint32_t kScopeLimit = 1 << 16;

/// One line of a __C_specific_handler table; addresses are relative to the image.
struct Scope {
  uint32_t begin = 0, end = 0;
  uint32_t handler = 0;  // filter or termination handler; 1: take every exception
  uint32_t jump = 0;     // the __except block; 0: this is a __finally
};

bool within(const char* begin, const char* end, uint64_t address) {
  return address >= reinterpret_cast<uint64_t>(begin) && address < reinterpret_cast<uint64_t>(end);
}

template <typename T>
const void* as_pointer(T value) {
  return reinterpret_cast<const void*>(static_cast<uint64_t>(value));
}

Disposition call_language_handler(ExceptionRoutine handler, ExceptionRecord* record,
                                  uint64_t establisher, Context* context,
                                  DispatcherContext* dispatcher) {
  return static_cast<Disposition>(dxgkit_nt_call_handler(reinterpret_cast<const void*>(handler),
                                                         record, as_pointer(establisher), context,
                                                         dispatcher));
}

/// Host frames in [low, high) are dropped, and with them the marks that a sanitizer made there.
void forget_host_frames([[maybe_unused]] std::byte* low, [[maybe_unused]] std::byte* high) {
#ifdef DXGKIT_ASAN
  if (low < high) ASAN_UNPOISON_MEMORY_REGION(low, static_cast<size_t>(high - low));
#endif
}

[[noreturn]] void go_to(CallFrame& frame, Context& context) {
  // Dispatches that began below the target have ended.
  while (frame.dispatches != nullptr &&
         reinterpret_cast<uint64_t>(frame.dispatches) < context.rsp) {
    forget_host_frames(frame.host_stack(), frame.dispatches->host_stack);
    frame.raise_host_stack(frame.dispatches->host_stack);
    frame.dispatches = frame.dispatches->outer;
  }
#ifdef DXGKIT_ASAN
  forget_host_stack(frame);
  // This function and its callers are on the driver's stack, below the place where the driver
  // continues.
  auto* const here = static_cast<std::byte*>(__builtin_frame_address(0));
  auto* const there = reinterpret_cast<std::byte*>(context.rsp);
  constexpr ptrdiff_t kOwnFrame = 4096, kFurthest = 1 << 20;
  if (here < there && there - here < kFurthest) forget_host_frames(here - kOwnFrame, there);
#endif
  context.floats.mxcsr &= 0xFFFF;  // reserved bits would fault
  dxgkit_nt_restore(&context);
}

[[noreturn]] void bad_unwind(CallFrame& frame, ExceptionRecord* record, const Context& context,
                             uint32_t code) {
  ExceptionRecord failure;
  failure.code = code;
  failure.flags = kNonContinuable;
  failure.inner = record;
  failure.address = context.rip;
  report_unhandled(frame, failure, context);
}

/// Leaves frames up to the one whose establisher is `target_frame` (0: all), runs their termination
/// handlers, and continues at `target_ip` there.
[[noreturn]] void unwind_to(CallFrame& frame, FrameWalker& walker, uint64_t target_frame,
                            uint64_t target_ip, ExceptionRecord* record, uint64_t value) {
  ExceptionRecord own;
  if (record == nullptr) {
    own.code = kStatusUnwind;
    own.address = walker.context.rip;
    record = &own;
  }
  uint32_t flags = record->flags | kUnwinding;
  if (target_frame == 0) flags |= kExitUnwind;
  Context current;
  for (;;) {
    if (!walker.settle()) bad_unwind(frame, record, walker.context, kStatusInvalidUnwindTarget);
    current = walker.context;
    DispatcherContext dispatcher;
    dispatcher.control_pc = current.rip;
    dispatcher.image_base = reinterpret_cast<uint64_t>(walker.image->base);
    dispatcher.function = walker.function;
    dispatcher.scope_index = walker.scope_index;
    UnwoundFrame unwound;
    if (!walker.leave(kUnwindHandler, &unwound))
      bad_unwind(frame, record, current, kStatusBadStack);
    const bool is_target = walker.function != nullptr && unwound.establisher == target_frame;
    if (!is_target && target_frame != 0 && unwound.establisher > target_frame)
      bad_unwind(frame, record, current, kStatusInvalidUnwindTarget);
    if (unwound.handler != nullptr) {
      if (is_target) flags |= kTargetUnwind;
      record->flags = flags;
      dispatcher.establisher_frame = unwound.establisher;
      dispatcher.target_ip = target_ip;
      dispatcher.context = &current;
      dispatcher.language_handler = reinterpret_cast<const void*>(unwound.handler);
      dispatcher.handler_data = unwound.handler_data;
      current.rax = value;
      ActiveDispatch active{frame.dispatches, nullptr, &current, &dispatcher, frame.host_stack()};
      frame.dispatches = &active;
      const Disposition answer = call_language_handler(unwound.handler, record, unwound.establisher,
                                                       &current, &dispatcher);
      frame.dispatches = active.outer;
      if (answer != Disposition::kContinueSearch)
        bad_unwind(frame, record, current, kStatusInvalidDisposition);
      flags &= ~(kCollided | kTargetUnwind);
    }
    if (is_target) break;
  }
  current.rax = value;
  current.rip = target_ip;
  go_to(frame, current);
}

bool read_scope(const DispatcherContext& dispatcher, uint32_t index, Scope* scope) {
  return guarded_copy(scope,
                      static_cast<const std::byte*>(dispatcher.handler_data) + sizeof(uint32_t) +
                          uint64_t{index} * sizeof(Scope),
                      sizeof(*scope));
}

bool covers(const Scope& scope, uint64_t rva) { return rva >= scope.begin && rva < scope.end; }

DXGKIT_NT_ABI Disposition c_specific_handler(ExceptionRecord* record, uint64_t establisher,
                                             Context* context, DispatcherContext* dispatcher) {
  CallFrame& frame = CallFrame::current();
  const DriverImage* image = find_image(frame.kernel().impl(), dispatcher->image_base);
  uint32_t count = 0;
  if (image == nullptr || !guarded_copy(&count, dispatcher->handler_data, sizeof(count)))
    return Disposition::kContinueSearch;
  count = std::min(count, kScopeLimit);
  const uint64_t base = dispatcher->image_base;
  const uint64_t pc = dispatcher->control_pc - base;
  Scope scope;
  if ((record->flags & (kUnwinding | kExitUnwind)) == 0) {
    ExceptionPointers pointers{record, context};
    for (uint32_t i = dispatcher->scope_index; i < count; ++i) {
      if (!read_scope(*dispatcher, i, &scope)) break;
      if (!covers(scope, pc) || scope.jump == 0) continue;
      if (scope.handler != 1) {
        if (scope.handler >= image->size) break;
        const auto answer =
            static_cast<int32_t>(dxgkit_nt_call_handler(as_pointer(base + scope.handler), &pointers,
                                                        as_pointer(establisher), nullptr, nullptr));
        if (answer == 0) continue;
        if (answer < 0) return Disposition::kContinueExecution;
      }
      // The walk begins where the exception being asked about happened.
      DXGKIT_CHECK(frame.dispatches != nullptr);
      FrameWalker walker(frame.kernel().impl(), *frame.dispatches->start, frame.dispatches->outer);
      unwind_to(frame, walker, establisher, base + scope.jump, record, record->code);
    }
    return Disposition::kContinueSearch;
  }
  const uint64_t target = dispatcher->target_ip - base;
  const bool is_target = (record->flags & kTargetUnwind) != 0;
  for (uint32_t i = dispatcher->scope_index; i < count; ++i) {
    if (!read_scope(*dispatcher, i, &scope)) break;
    if (!covers(scope, pc)) continue;
    // A scope that contains the target too is not left.
    if (is_target && covers(scope, target)) break;
    if (scope.jump != 0) {
      // The target of the unwinding: scopes around it stay entered.
      if (is_target && scope.jump == target) break;
      continue;
    }
    if (scope.handler >= image->size) break;
    // Before the call: an exception inside the handler must not run it again.
    dispatcher->scope_index = i + 1;
    dxgkit_nt_call_handler(as_pointer(base + scope.handler), as_pointer(1), as_pointer(establisher),
                           nullptr, nullptr);
  }
  return Disposition::kContinueSearch;
}

// --- lookups that drivers may call themselves

DXGKIT_NT_ABI const FunctionEntry* rtl_lookup_function_entry(uint64_t pc, uint64_t* base, void*) {
  const DriverImage* image = find_image(CallFrame::current().kernel().impl(), pc);
  if (image == nullptr) return nullptr;
  *base = reinterpret_cast<uint64_t>(image->base);
  return find_function(*image, pc);
}

DXGKIT_NT_ABI const void* rtl_pc_to_file_header(uint64_t pc, const void** base) {
  const DriverImage* image = find_image(CallFrame::current().kernel().impl(), pc);
  *base = image == nullptr ? nullptr : image->base;
  return *base;
}

DXGKIT_NT_ABI ExceptionRoutine rtl_virtual_unwind(uint32_t handler_kind, uint64_t base, uint64_t pc,
                                                  const FunctionEntry* function, Context* context,
                                                  const void** handler_data, uint64_t* establisher,
                                                  SavedPlaces* places) {
  const DriverImage* image = find_image(CallFrame::current().kernel().impl(), base);
  UnwoundFrame unwound;
  context->rip = pc;
  if (image == nullptr || !virtual_unwind(*image, function, static_cast<uint8_t>(handler_kind),
                                          *context, &unwound, places)) {
    context->rip = 0;  // the end of the stack
    unwound.handler = nullptr;
  }
  *handler_data = unwound.handler_data;
  *establisher = unwound.establisher;
  return unwound.handler;
}

/// An exception on its way from an export's host stack to the driver's.
struct Raised {
  Context context;
  ExceptionRecord record;
};

void raise_code(Context& context, uint32_t code) {
  ExceptionRecord record;
  record.code = code;
  record.flags = kNonContinuable;
  record.address = context.rip;
  raise_exception(record, context);
}

/// From here on the host stack belongs to functions that handlers call, so the data on it is copied
/// first.
void raise_on_driver_stack(void* argument) {
  const auto& raised = *static_cast<const Raised*>(argument);
  ExceptionRecord record = raised.record;
  Context context = raised.context;
  record.flags |= kNonContinuable;  // the export cannot be resumed
  raise_exception(record, context);
  DXGKIT_CHECK(false);
}

}  // namespace

void forget_host_stack(const CallFrame& frame) {
  constexpr ptrdiff_t kExportBytes = 128 << 10;  // more than any export stands on
  forget_host_frames(frame.host_stack() - kExportBytes, frame.host_stack());
}

void forget_driver_stack(const CallFrame& frame) {
  auto* const low = reinterpret_cast<std::byte*>(frame.driver_stack_low());
  forget_host_frames(low, low + frame.driver_stack_bytes());
}

bool in_lent_code(uint64_t address) {
  return within(dxgkit_nt_lent_begin, dxgkit_nt_lent_end, address);
}

std::string describe_lent_call(const Context& context) {
  const auto is_in = [&](const char* begin, const char* end) {
    return within(begin, end, context.rip);
  };
  // Where each routine keeps its arguments is told by its code (seh_stubs.cpp).
  if (is_in(dxgkit_nt_memcpy, dxgkit_nt_memmove)) {
    return fmt::format("memcpy or memmove (to {:#x}, from {:#x}, {} bytes)", context.rax,
                       context.rdx, context.r8);
  }
  if (is_in(dxgkit_nt_memmove, dxgkit_nt_memset)) {
    return fmt::format("memmove (to {:#x}, from {:#x}, backwards, {} bytes to go)", context.rcx,
                       context.rdx, context.r8);
  }
  if (is_in(dxgkit_nt_memset, dxgkit_nt_memcmp))
    return fmt::format("memset (of {:#x}, {} bytes)", context.r9, context.r8);
  if (is_in(dxgkit_nt_memcmp, dxgkit_nt_lent_end)) {
    return fmt::format("memcmp (now at {:#x} and {:#x}, {} bytes to go)", context.rcx, context.rdx,
                       context.r8);
  }
  return {};
}

bool in_stack_probe(uint64_t address) {
  return within(dxgkit_nt_chkstk, dxgkit_nt_chkstk_end, address);
}

const DriverImage* find_image(const Kernel::Impl& state, uint64_t address) {
  for (const DriverImage& image : state.images) {
    if (address - reinterpret_cast<uint64_t>(image.base) < image.size) return &image;
  }
  return nullptr;
}

bool has_handlers(const Kernel& kernel) {
  return std::ranges::none_of(kernel.impl().images,
                              [](const DriverImage& image) { return image.functions.empty(); });
}

// --- FrameWalker

FrameWalker::FrameWalker(const Kernel::Impl& state, const Context& start,
                         const ActiveDispatch* active)
    : context(start), state_(state), active_(active) {}

bool FrameWalker::settle() {
  for (;;) {
    if (++frames_ > kFrameLimit) return false;
    image = find_image(state_, context.rip);
    if (image != nullptr) {
      if (image->functions.empty()) return false;
      function = find_function(*image, context.rip);
      return true;
    }
    if (in_lent_code(context.rip)) {
      context.rdi = context.r10;
      context.rsi = context.r11;
      if (!guarded_copy(&context.rip, as_pointer(context.rsp), sizeof(context.rip))) return false;
      context.rsp += 8;
      continue;
    }
    if (in_stack_probe(context.rip)) {
      // It pushes two registers, and either push may have failed.
      for (const uint64_t slot : {context.rsp + 16, context.rsp + 8, context.rsp}) {
        if (!guarded_copy(&context.rip, as_pointer(slot), sizeof(context.rip))) continue;
        context.rsp = slot + 8;
        if (find_image(state_, context.rip) != nullptr) break;
      }
      if (find_image(state_, context.rip) == nullptr) return false;
      continue;
    }
    if (frames_ == 1 && context.rip != reinterpret_cast<uint64_t>(dxgkit_nt_handler_return)) {
      // A call through a wild pointer: the caller's return address is on top of the stack.
      if (!guarded_copy(&context.rip, as_pointer(context.rsp), sizeof(context.rip))) return false;
      if (find_image(state_, context.rip) == nullptr) return false;
      context.rsp += 8;
      continue;
    }
    // Leaves a filter or a termination handler: continues with the exception for which it was
    // called.
    if (context.rip != reinterpret_cast<uint64_t>(dxgkit_nt_handler_return)) return false;
    if (active_ == nullptr) return false;
    if (active_->start != nullptr) {
      context = *active_->start;
      scope_index = 0;
    } else {
      context = *active_->working;
      scope_index = active_->dispatcher->scope_index;
    }
    nested = true;
    last_rsp_ = 0;
    active_ = active_->outer;
  }
}

bool FrameWalker::leave(uint8_t handler_kind, UnwoundFrame* frame) {
  scope_index = 0;
  if (!virtual_unwind(*image, function, handler_kind, context, frame)) return false;
  // Stacks are left upwards.
  if (context.rsp <= last_rsp_) return false;
  last_rsp_ = context.rsp;
  return true;
}

// --- dispatch

Answer dispatch_exception(CallFrame& frame, ExceptionRecord& record, Context& context,
                          std::byte* host_stack) {
  int depth = 0;
  for (const ActiveDispatch* outer = frame.dispatches; outer != nullptr; outer = outer->outer) {
    if (++depth > kNestingLimit) return Answer::kUnhandled;
  }
  FrameWalker walker(frame.kernel().impl(), context, frame.dispatches);
  ActiveDispatch active{frame.dispatches, &context, nullptr, nullptr, host_stack};
  frame.dispatches = &active;
  const uint32_t flags = record.flags;
  bool continues = false;
  while (walker.settle()) {
    DispatcherContext dispatcher;
    dispatcher.control_pc = walker.context.rip;
    dispatcher.image_base = reinterpret_cast<uint64_t>(walker.image->base);
    dispatcher.function = walker.function;
    dispatcher.scope_index = walker.scope_index;
    UnwoundFrame unwound;
    if (!walker.leave(kExceptionHandler, &unwound)) break;
    if (unwound.handler == nullptr) continue;
    dispatcher.establisher_frame = unwound.establisher;
    dispatcher.context = &walker.context;
    dispatcher.language_handler = reinterpret_cast<const void*>(unwound.handler);
    dispatcher.handler_data = unwound.handler_data;
    record.flags = flags | (walker.nested ? kNestedCall : 0);
    const Disposition answer =
        call_language_handler(unwound.handler, &record, unwound.establisher, &context, &dispatcher);
    if (answer == Disposition::kContinueSearch) continue;
    continues = answer == Disposition::kContinueExecution;
    break;
  }
  frame.dispatches = active.outer;
  record.flags = flags;
  if (!continues) return Answer::kUnhandled;
  if ((flags & kNonContinuable) == 0) return Answer::kContinue;
  ExceptionRecord refused;
  refused.code = kStatusNonContinuable;
  refused.flags = kNonContinuable;
  refused.inner = &record;
  refused.address = record.address;
  raise_exception(refused, context);
  return Answer::kUnhandled;
}

void raise_exception(ExceptionRecord& record, Context& context) {
  CallFrame& frame = CallFrame::current();
  if (dispatch_exception(frame, record, context, frame.host_stack()) == Answer::kContinue) return;
  report_unhandled(frame, record, context);
}

bool on_driver_stack(const CallFrame& frame) {
  return reinterpret_cast<uint64_t>(__builtin_frame_address(0)) - frame.driver_stack_low() <
         frame.driver_stack_bytes();
}

void raise_status(uint32_t status) {
  ExceptionRecord record;
  record.code = status;
  record.flags = kNonContinuable;
  record.address = reinterpret_cast<uint64_t>(__builtin_return_address(0));
  raise_at_door(record);
}

void raise_probe_failure(uint32_t status) {
  ExceptionRecord record;
  record.code = status;
  record.flags = kNonContinuable;
  record.address = reinterpret_cast<uint64_t>(__builtin_return_address(0));
  record.parameters[14] = kProbeMark;
  raise_at_door(record);
}

void context_at_door(const DoorFrame& door, Context* context) {
  context->flags = kContextFull;
  context->eflags = 0x202;
  context->rbx = door.rbx, context->rbp = door.rbp, context->rsi = door.rsi;
  context->rdi = door.rdi, context->r12 = door.r12, context->r13 = door.r13;
  context->r14 = door.r14, context->r15 = door.r15, context->rip = door.rip;
  context->rsp = door.driver_sp + 16;
  std::memcpy(&context->floats.xmm[6], door.xmm6_to_15, sizeof(door.xmm6_to_15));
}

void raise_at_door(const ExceptionRecord& record) {
  CallFrame& frame = CallFrame::current();
  Raised raised;
  raised.record = record;
  Context& context = raised.context;
  if (!frame.in_door()) {
    // A driver that was compiled into its host, or has no stack of its own: there is nothing to
    // walk.
    context.rip = record.address;
    report_unhandled(frame, record, context);
  }
  const DoorFrame& door = frame.door();
  context_at_door(door, &context);
  raised.record.address = context.rip;
  forget_host_frames(static_cast<std::byte*>(__builtin_frame_address(0)), frame.host_stack());
  dxgkit_nt_call_on_stack(reinterpret_cast<void*>((door.driver_sp - 128) & ~uint64_t{63}),
                          &raise_on_driver_stack, &raised, nullptr);
  __builtin_unreachable();
}

}  // namespace dxgkit::nt

// --- bodies of the stubs: `context` is the caller's, arguments included
using dxgkit::nt::Context;
using dxgkit::nt::ExceptionRecord;

extern "C" void dxgkit_nt_do_raise_status(Context* context) {
  dxgkit::nt::raise_code(*context, static_cast<uint32_t>(context->rcx));
}

extern "C" void dxgkit_nt_do_raise_access_violation(Context* context) {
  dxgkit::nt::raise_code(*context, dxgkit::nt::kStatusAccessViolation);
}

extern "C" void dxgkit_nt_do_raise_misalignment(Context* context) {
  dxgkit::nt::raise_code(*context, dxgkit::nt::kStatusMisalignment);
}

extern "C" void dxgkit_nt_do_rtl_raise_exception(Context* context) {
  ExceptionRecord record;
  if (!dxgkit::guarded_copy(&record, reinterpret_cast<const void*>(context->rcx), sizeof(record))) {
    dxgkit::nt::raise_code(*context, dxgkit::nt::kStatusAccessViolation);
    return;
  }
  record.address = context->rip;
  dxgkit::nt::raise_exception(record, *context);
}

extern "C" void dxgkit_nt_do_rtl_capture_context(Context* context) {
  if (!dxgkit::guarded_copy(reinterpret_cast<void*>(context->rcx), context, sizeof(*context)))
    dxgkit::nt::raise_code(*context, dxgkit::nt::kStatusAccessViolation);
}

extern "C" void dxgkit_nt_do_rtl_restore_context(Context* context) {
  alignas(16) Context target;
  if (!dxgkit::guarded_copy(&target, reinterpret_cast<const void*>(context->rcx), sizeof(target)))
    dxgkit::nt::raise_code(*context, dxgkit::nt::kStatusAccessViolation);
  dxgkit::nt::go_to(dxgkit::nt::CallFrame::current(), target);
}

namespace {

[[noreturn]] void unwind_from(Context* context, uint64_t frame, uint64_t ip,
                              ExceptionRecord* record, uint64_t value) {
  dxgkit::nt::CallFrame& call = dxgkit::nt::CallFrame::current();
  dxgkit::nt::FrameWalker walker(call.kernel().impl(), *context, call.dispatches);
  dxgkit::nt::unwind_to(call, walker, frame, ip, record, value);
}

}  // namespace

extern "C" void dxgkit_nt_do_rtl_unwind(Context* context) {
  unwind_from(context, context->rcx, context->rdx, reinterpret_cast<ExceptionRecord*>(context->r8),
              context->r9);
}

extern "C" void dxgkit_nt_do_local_unwind(Context* context) {
  unwind_from(context, context->rcx, context->rdx, nullptr, 0);
}

namespace dxgkit::nt {

namespace {

/// C++ handlers would have to run destructors and catch blocks, so the search skips them.
DXGKIT_NT_ABI Disposition cxx_frame_handler(ExceptionRecord*, uint64_t, Context*,
                                            DispatcherContext*) {
  return Disposition::kContinueSearch;
}

}  // namespace

std::span<const Export> exception_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("ExRaiseAccessViolation", dxgkit_nt_raise_access_violation, kSupported, ""),
      DXGKIT_EXPORT("ExRaiseDatatypeMisalignment", dxgkit_nt_raise_misalignment, kSupported, ""),
      DXGKIT_EXPORT("ExRaiseStatus", dxgkit_nt_raise_status, kSupported, ""),
      DXGKIT_EXPORT("RtlCaptureContext", dxgkit_nt_rtl_capture_context, kSupported, ""),
      DXGKIT_EXPORT("RtlLookupFunctionEntry", rtl_lookup_function_entry, kPartial,
                    "the driver's own image; the history table is not used"),
      DXGKIT_EXPORT("RtlPcToFileHeader", rtl_pc_to_file_header, kPartial, "the driver's own image"),
      DXGKIT_EXPORT("RtlRaiseException", dxgkit_nt_rtl_raise_exception, kSupported, ""),
      DXGKIT_EXPORT("RtlRaiseStatus", dxgkit_nt_raise_status, kSupported, ""),
      DXGKIT_EXPORT("RtlRestoreContext", dxgkit_nt_rtl_restore_context, kPartial,
                    "a record that asks for consolidation is ignored"),
      DXGKIT_EXPORT("RtlUnwind", dxgkit_nt_rtl_unwind, kSupported, ""),
      DXGKIT_EXPORT("RtlUnwindEx", dxgkit_nt_rtl_unwind, kPartial,
                    "the context is not written back"),
      DXGKIT_EXPORT("RtlVirtualUnwind", rtl_virtual_unwind, kPartial, "the driver's own image"),
      DXGKIT_EXPORT("__CxxFrameHandler3", cxx_frame_handler, kRefused,
                    "no C++ exceptions: their frames are passed over"),
      DXGKIT_EXPORT("__CxxFrameHandler4", cxx_frame_handler, kRefused,
                    "no C++ exceptions: their frames are passed over"),
      DXGKIT_EXPORT("__C_specific_handler", c_specific_handler, kSupported, ""),
      DXGKIT_EXPORT("_local_unwind", dxgkit_nt_local_unwind, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
