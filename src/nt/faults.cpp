// Processor faults in driver code. Page faults, divisions by zero, breakpoints and the like become
// exceptions of the driver. If the driver does not handle one, it becomes a finding and an
// abandoned call, and the process goes on.
//
// The signal handler saves the state and lets the thread continue in serve_fault. That is ordinary
// code, free to allocate and to lock, because driver code at an instruction of its own holds
// nothing of ours. It runs on the host stack as if the driver had called it through a door. A
// driver without a stack of its own lends a piece of its present stack.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/guarded_copy.h"
#include "nt/emulate.h"
#include "nt/executable.h"
#include "nt/fault_frame.h"
#include "nt/kernel_impl.h"
#include "nt/paged.h"
#include "nt/pool.h"
#include "nt/seh.h"

extern "C" const char dxgkit_nt_fault_entry[];

namespace dxgkit::nt {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
struct sigaction previous_actions[std::size(kSignals)];

// Processor exceptions.
constexpr uint64_t kTrapDivide = 0, kTrapDebug = 1, kTrapPage = 14, kTrapAlignment = 17;
constexpr uint64_t kPageWrite = 2, kPageFetch = 16;  // bits of a page fault's error code

constexpr uint64_t kSignalStackBytes = 64 << 10;
/// The stack on which a thread reports that it has no stack left.
constexpr uint64_t kEmergencyStackBytes = 256 << 10;
/// The room that serve_fault needs below the frame that the signal handler builds.
constexpr uint64_t kServiceBytes = 16 << 10;
/// The room on the driver's own stack that asking its handlers needs.
constexpr uint64_t kDispatchBytes = 8 << 10;

bool contains(const void* start, uint64_t size, uint64_t address) {
  const auto first = reinterpret_cast<uint64_t>(start);
  return address >= first && address - first < size;
}

/// The guard of its kernel that the thread touched, or null.
const FaultRange* find_guard(const Kernel::Impl& state, uint64_t address) {
  for (const FaultRange& range : state.fault_ranges) {
    if (contains(range.start, range.size, address)) return &range;
  }
  return nullptr;
}

bool is_driver_code(const Kernel::Impl& state, uint64_t address) {
  if (find_image(state, address) != nullptr || state.executable.contains(address)) return true;
  return !state.images.empty() && (in_lent_code(address) || in_stack_probe(address));
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const auto at = std::ranges::find(kSignals, signal) - std::begin(kSignals);
  const struct sigaction& previous = previous_actions[at];
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
    return;
  }
  // The default action: the instruction runs again and ends the process with its own core dump.
  ::signal(signal, SIG_DFL);
  if (signal == SIGTRAP) raise(signal);  // behind the instruction already
}

/// True if the stack can hold a fault frame at `at` and the code that serves it.
bool stack_is_there(uint64_t at, uint64_t top) {
  const uint64_t zero = 0;
  for (uint64_t page = (at - kServiceBytes) & ~uint64_t{4095}; page < top; page += 4096) {
    const uint64_t probe = std::max(page, at - kServiceBytes) & ~uint64_t{7};
    if (!guarded_copy(reinterpret_cast<void*>(probe), &zero, sizeof(zero))) return false;
  }
  return true;
}

/// A stack for a thread that has none left; freed with the kernel. Null: no memory.
void* take_emergency_stack(Kernel::Impl& state) {
  void* stack = mmap(nullptr, kEmergencyStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) return nullptr;
  void* next = state.emergency_stacks.load(std::memory_order_relaxed);
  do {
    std::memcpy(stack, &next, sizeof(next));
  } while (!state.emergency_stacks.compare_exchange_weak(next, stack, std::memory_order_acq_rel));
  return stack;
}

void copy_registers(const greg_t* from, Context* to) {
  const auto value = [&](int number) { return static_cast<uint64_t>(from[number]); };
  to->flags = kContextFull;
  to->rax = value(REG_RAX), to->rcx = value(REG_RCX), to->rdx = value(REG_RDX);
  to->rbx = value(REG_RBX), to->rsp = value(REG_RSP), to->rbp = value(REG_RBP);
  to->rsi = value(REG_RSI), to->rdi = value(REG_RDI), to->r8 = value(REG_R8);
  to->r9 = value(REG_R9), to->r10 = value(REG_R10), to->r11 = value(REG_R11);
  to->r12 = value(REG_R12), to->r13 = value(REG_R13), to->r14 = value(REG_R14);
  to->r15 = value(REG_R15), to->rip = value(REG_RIP);
  to->eflags = static_cast<uint32_t>(value(REG_EFL));
  to->cs = static_cast<uint16_t>(value(REG_CSGSFS) & 0xFFFF);
  to->ss = static_cast<uint16_t>(value(REG_CSGSFS) >> 48);
}

void handle_fault(int signal, siginfo_t* info, void* context) {
  auto* machine = static_cast<ucontext_t*>(context);
  greg_t* const registers = machine->uc_mcontext.gregs;
  const auto instruction = static_cast<uint64_t>(registers[REG_RIP]);
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  CallFrame* frame = CallFrame::current_or_null();
  PagedMemory* const paged =
      signal == SIGSEGV && static_cast<uint64_t>(registers[REG_TRAPNO]) == kTrapPage
          ? PagedMemory::find(address, static_cast<uint64_t>(registers[REG_ERR]))
          : nullptr;
  // Our code may access it at any level: it holds locks, and the driver is not to blame.
  if (paged != nullptr && (frame == nullptr || frame->irql() < kDispatchLevel ||
                           !is_driver_code(frame->kernel().impl(), instruction)))
    return paged->page_in();
  if (frame == nullptr) return pass_on(signal, info, context);
  Kernel::Impl& state = frame->kernel().impl();
  const bool is_memory = signal == SIGSEGV || signal == SIGBUS;
  const FaultRange* guard = is_memory ? find_guard(state, address) : nullptr;
  const auto stack = static_cast<uint64_t>(registers[REG_RSP]);
  const uint64_t low = frame->driver_stack_low(), guard_low = low - kStackGuardBytes;
  const bool is_on_driver_stack =
      frame->driver_stack_bytes() > 0 &&
      stack - guard_low < kStackGuardBytes + frame->driver_stack_bytes();
  // A driver that jumps to where no code is.
  const bool is_wild = paged == nullptr && is_memory && address == instruction &&
                       is_on_driver_stack &&
                       (static_cast<uint64_t>(registers[REG_ERR]) & kPageFetch) != 0;
  const bool is_driver = is_wild || is_driver_code(state, instruction);
  const bool is_pool = is_memory && frame->kernel().is_special_pool(info->si_addr);
  const auto trap = static_cast<uint64_t>(registers[REG_TRAPNO]);
  // Exports use the code lent to drivers too.
  CallFrame* const caller = is_memory && (!is_driver || !is_on_driver_stack)
                                ? find_faulting_call(*frame, instruction, trap, address)
                                : nullptr;
  if (guard == nullptr && !is_driver && !is_pool && caller == nullptr)
    return pass_on(signal, info, context);
  if (guard == nullptr && !is_pool && !is_wild && paged == nullptr && caller == nullptr &&
      signal == SIGSEGV && emulate_quickly(*frame, registers, address))
    return;

  // The legacy area ends with the kernel's description of its XSAVE area: a magic number, the whole
  // size, the components.
  const auto* saved = reinterpret_cast<const std::byte*>(machine->uc_mcontext.fpregs);
  uint32_t magic = 0, bytes = sizeof(FloatSave);
  uint64_t components = 0;
  std::memcpy(&magic, saved + 464, sizeof(magic));
  if (magic == 0x46505853) {
    std::memcpy(&bytes, saved + 480, sizeof(bytes));
    std::memcpy(&components, saved + 472, sizeof(components));
    components &= 0xE7;  // x87, SSE, AVX, AVX-512: not the protection keys
    bytes = std::max<uint32_t>(bytes, sizeof(FloatSave) + 64);
  }
  const uint64_t size = sizeof(FaultFrame) + bytes;
  const bool on_own_stack = is_driver && is_on_driver_stack;
  bool overflow = false;
  uint64_t at = 0;
  if (on_own_stack) {
    overflow = stack < low || (is_memory && address - guard_low < kStackGuardBytes);
    at = (reinterpret_cast<uint64_t>(frame->host_stack()) - size) & ~uint64_t{63};
    frame->stopped_at(std::max(stack, low), reinterpret_cast<const void*>(instruction));
  } else {
    // A thread that never ran a driver image has no signal stack: then this handler runs there too.
    const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
    const uint64_t top = stack - here < kSignalStackBytes ? here - 2048 : stack - 128;
    at = (top - size) & ~uint64_t{63};
    if (!stack_is_there(at, top)) {
      overflow = true;
      void* const emergency = take_emergency_stack(state);
      if (emergency == nullptr) return pass_on(signal, info, context);
      at = (reinterpret_cast<uint64_t>(emergency) + kEmergencyStackBytes - size) & ~uint64_t{63};
    }
  }
  auto* fault = reinterpret_cast<FaultFrame*>(at);
  new (fault) FaultFrame();
  copy_registers(registers, &fault->context);
  std::memcpy(&fault->context.floats, saved, sizeof(FloatSave));
  fault->context.mxcsr = fault->context.floats.mxcsr;
  std::memcpy(fault->area(), saved, bytes);
  fault->components = components;
  fault->signal = signal;
  fault->trap = trap;
  fault->error = static_cast<uint64_t>(registers[REG_ERR]);
  fault->address = address;
  fault->guard = guard;
  fault->is_pool = is_pool;
  fault->is_wild = is_wild;
  fault->is_paged = paged != nullptr ? 1 : 0;
  fault->overflow = overflow;
  fault->on_own_stack = on_own_stack;
  if (caller != nullptr) {
    fault->caller = caller;
    fault->call = caller->door().callee;
    std::ranges::copy(caller->door().call_arguments, fault->arguments);
    caller->forget_call();
  }
  registers[REG_RSP] = static_cast<greg_t>(at);
  registers[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uint64_t>(dxgkit_nt_fault_entry));
  registers[REG_EFL] &= ~greg_t{0x500};  // direction and trap flag, which a driver may have set
}

/// The activity of the driver, for the finding.
const char* access_name(uint64_t kind) {
  return kind == 1 ? "write" : kind == 8 ? "execute" : "read";
}

/// The place of the code: relative to its image if it is in one, because addresses differ from run
/// to run.
std::string describe_instruction(const verifier::Place& place, uint64_t address) {
  return place.stack.empty() ? fmt::format("instruction {:#x}", address) : place.stack[0];
}

/// A misused block of special pool: no handler of the driver could repair that.
void report_pool(CallFrame& frame, const FaultFrame& fault) {
  std::optional<PoolFault> misuse = describe_pool_fault(frame.kernel(), frame, fault.address);
  if (!misuse.has_value()) return;
  verifier::Finding finding;
  finding.rule = misuse->rule;
  finding.ddi = frame.name();
  finding.place = describe_place(frame.kernel().impl(), fault.context);
  finding.actual = std::move(misuse->actual);
  finding.expected = std::move(misuse->expected);
  finding.fix = std::move(misuse->fix);
  finding.bugcheck_code = misuse->bugcheck_code;
  finding.bugcheck_parameter = static_cast<uint32_t>(fault.address);
  misuse.reset();
  frame.kernel().bug_check(std::move(finding));
}

[[noreturn]] void report_paged(CallFrame& frame, const FaultFrame& fault) {
  const char* const level = irql_name(frame.irql());
  const char* const access = (fault.error & kPageFetch) != 0   ? "execute"
                             : (fault.error & kPageWrite) != 0 ? "write"
                                                               : "read";
  std::string what = block_text_at(frame.kernel(), fault.address);
  const bool in_pool = !what.empty();
  if (!in_pool) what = "a pageable section of the image";
  verifier::Finding finding;
  finding.rule = "IRQL-13";
  finding.ddi = frame.name();
  finding.place = describe_place(frame.kernel().impl(), fault.context);
  finding.actual = fmt::format("{} touched {:#x} ({}) at {} ({}): {}.", frame.name(), fault.address,
                               access, level, frame.irql(), what);
  finding.expected =
      "At DISPATCH_LEVEL and above a driver uses memory that is never paged out only.";
  finding.fix =
      in_pool ? "Allocate it from non-paged pool, or copy what is needed before the level is "
                "raised."
              : "Take the function or the data out of the PAGE section, or hold the section with "
                "MmLockPagableCodeSection while it is used there.";
  finding.why =
      "Pageable memory is taken away here whenever a thread reaches DISPATCH_LEVEL, as Driver "
      "Verifier does with forced IRQL checking.";
  finding.windows = "It stops when the page happens to be out: now and then, under load.";
  finding.bugcheck_code = 0xD1;
  finding.bugcheck_parameter = static_cast<uint32_t>(fault.address);
  std::string().swap(what);  // a function that does not return frees nothing
  frame.kernel().bug_check(std::move(finding));
}

/// The driver jumped into memory that holds data.
[[noreturn]] void report_execution(CallFrame& frame, const FaultFrame& fault) {
  std::string what = block_text_at(frame.kernel(), fault.address);
  const bool in_pool = !what.empty();
  if (!in_pool) what = "memory that holds data";
  verifier::Finding finding;
  finding.rule = "NT-36";
  finding.ddi = frame.name();
  // The place is the call. The data, which may lie in the image, say nothing.
  Context call = fault.context;
  const bool called = step_back(frame.kernel().impl(), &call);
  finding.place = describe_place(frame.kernel().impl(), call);
  finding.place.after_call = called;
  finding.place.registers = describe_place(frame.kernel().impl(), fault.context).registers;
  finding.actual = fmt::format("{} went on at {:#x}, in {}.", frame.name(), fault.address, what);
  finding.expected =
      "A driver runs the code of its image, and code in executable memory: NonPagedPoolExecute, "
      "POOL_FLAG_NON_PAGED_EXECUTE, contiguous memory.";
  finding.fix = in_pool ? "If code is meant to run there, allocate it from NonPagedPoolExecute; "
                          "else look at the function pointer that was called."
                        : "Look at the function pointer that was called, and at the return address "
                          "on the stack: something has overwritten one of them.";
  finding.bugcheck_code = 0xFC;
  finding.bugcheck_parameter = static_cast<uint32_t>(fault.address);
  std::string().swap(what);  // a function that does not return frees nothing
  frame.kernel().bug_check(std::move(finding));
}

bool is_readable(uint64_t address) {
  std::byte byte{};
  return guarded_copy(&byte, reinterpret_cast<const void*>(address), sizeof(byte));
}

[[noreturn]] void report_guard(CallFrame& frame, const FaultFrame& fault) {
  const FaultRange& guard = *fault.guard;
  verifier::Finding finding;
  finding.rule = guard.rule;
  finding.ddi = frame.name();
  finding.place = describe_place(frame.kernel().impl(), fault.context);
  finding.actual = fmt::format("{} touched {:#x}, at {} ({}).", frame.name(), fault.address,
                               describe_instruction(finding.place, fault.context.rip), guard.what);
  finding.expected = guard.expected;
  finding.fix = guard.fix;
  finding.bugcheck_code = 0x50;
  finding.bugcheck_parameter = static_cast<uint32_t>(fault.address);
  frame.kernel().bug_check(std::move(finding));
}

[[noreturn]] void report_overflow(CallFrame& frame, const FaultFrame& fault) {
  verifier::Finding finding;
  finding.rule = "NT-03";
  finding.ddi = frame.name();
  finding.place = describe_place(frame.kernel().impl(), fault.context);
  finding.actual =
      fmt::format("{} ran out of stack at {}: rsp is {:#x}.", frame.name(),
                  describe_instruction(finding.place, fault.context.rip), fault.context.rsp);
  finding.expected = "Driver code keeps within the kernel stack it is called on.";
  finding.fix =
      "Look for a recursion without end and for big local variables; put what is big into pool.";
  finding.bugcheck_code = 0x7F;
  finding.bugcheck_parameter = 8;
  frame.kernel().bug_check(std::move(finding));
}

ExceptionRecord describe_fault(const FaultFrame& fault) {
  ExceptionRecord record;
  record.address = fault.context.rip;
  const auto access_violation = [&](uint64_t kind, uint64_t address) {
    record.code = kStatusAccessViolation;
    record.parameter_count = 2;
    record.parameters[0] = kind;
    record.parameters[1] = address;
  };
  switch (fault.signal) {
    case SIGSEGV:
    case SIGBUS:
      if (fault.trap == kTrapPage) {
        access_violation((fault.error & kPageFetch) != 0   ? 8
                         : (fault.error & kPageWrite) != 0 ? 1
                                                           : 0,
                         fault.address);
        if (fault.signal == SIGBUS) record.code = kStatusInPageError;
      } else if (fault.trap == kTrapAlignment) {
        record.code = kStatusMisalignment;
      } else {
        access_violation(0, UINT64_MAX);  // no canonical address, or an operand not aligned
      }
      break;
    case SIGFPE:
      record.code = fault.trap != kTrapDivide             ? kStatusFloatMultipleTraps
                    : is_division_overflow(fault.context) ? kStatusIntegerOverflow
                                                          : kStatusIntegerDivide;
      break;
    case SIGTRAP:
      record.code = fault.trap == kTrapDebug ? kStatusSingleStep : kStatusBreakpoint;
      break;
    default:
      record.code = kStatusIllegalInstruction;
      break;
  }
  return record;
}

bool is_beyond_handlers(const CallFrame& frame, const ExceptionRecord& record);

/// A routine that the driver called met a bad pointer: its call raises.
[[noreturn]] void raise_in_call(CallFrame& frame, const FaultFrame& fault,
                                ExceptionRecord& record) {
  const uint32_t wrong = find_wrong_argument(fault.arguments, fault.trap, fault.address);
  record.parameters[14] = kCallMark;
  record.parameters[13] = reinterpret_cast<uint64_t>(fault.call->name);
  record.parameters[12] = wrong;
  record.parameters[11] = wrong == 0 ? 0 : fault.arguments[wrong - 1];
  if (fault.caller == &frame && !is_beyond_handlers(frame, record)) raise_at_door(record);
  Context context;
  context_at_door(fault.caller->door(), &context);
  record.address = context.rip;
  report_unhandled(frame, record, context);
}

/// A fault whose handlers are to be asked.
struct Dispatch {
  CallFrame& frame;
  ExceptionRecord& record;
  Context& context;
  std::byte* host_stack;
  Answer answer;
};

/// The records are copied. Handlers find them on their stack, and the unwinder knows by their
/// address which dispatches have ended.
void dispatch_on_driver_stack(void* argument) {
  auto& dispatch = *static_cast<Dispatch*>(argument);
  ExceptionRecord record = dispatch.record;
  Context context = dispatch.context;
  dispatch.answer = dispatch_exception(dispatch.frame, record, context, dispatch.host_stack);
  dispatch.context = context;
}

/// A page fault for which Windows runs no handler: nothing can be paged in at that level, or the
/// address belongs to the system.
bool is_beyond_handlers(const CallFrame& frame, const ExceptionRecord& record) {
  if (record.code != kStatusAccessViolation && record.code != kStatusInPageError) return false;
  return frame.irql() >= kDispatchLevel ||
         (record.parameters[1] >= 0xFFFF'8000'0000'0000 && record.parameters[1] != UINT64_MAX);
}

class SignalStack {
 public:
  ~SignalStack() {
    if (memory_ == nullptr) return;
    stack_t off{};
    off.ss_flags = SS_DISABLE;
    sigaltstack(&off, nullptr);
    munmap(memory_, kSignalStackBytes);
  }
  void make() {
    if (memory_ != nullptr) return;
    stack_t present{};
    // A sanitizer may have made one already.
    if (sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE) == 0 &&
        present.ss_size >= 16384) {
      return;
    }
    memory_ = mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    DXGKIT_CHECK(memory_ != MAP_FAILED);
    stack_t stack{};
    stack.ss_sp = memory_;
    stack.ss_size = kSignalStackBytes;
    DXGKIT_CHECK(sigaltstack(&stack, nullptr) == 0);
  }

 private:
  void* memory_ = nullptr;
};

thread_local SignalStack t_signal_stack;

}  // namespace

/// The rest of a fault, in ordinary code. Returns to continue at fault->context.
extern "C" void dxgkit_nt_serve_fault(FaultFrame* fault) {
  CallFrame& frame = CallFrame::current();
  // What the interrupted code holds is released, because that code does not go on.
  if (fault->call != nullptr) runtime::MutexLock::release_below(fault->caller->host_stack());
  if (fault->is_paged != 0) report_paged(frame, *fault);
  if (fault->is_wild && allow_execution(frame.kernel(), fault->address)) return;
  if (fault->is_wild && is_readable(fault->address)) report_execution(frame, *fault);
  if (fault->is_pool) report_pool(frame, *fault);
  if (fault->guard != nullptr) report_guard(frame, *fault);
  if (fault->overflow) report_overflow(frame, *fault);
  ExceptionRecord record = describe_fault(*fault);
  if (fault->call != nullptr) raise_in_call(frame, *fault, record);
  if (fault->signal == SIGSEGV && !fault->is_wild && emulate(frame, *fault, &record)) return;
  if (record.code == kStatusBreakpoint) {
    // The processor is behind the instruction; handlers expect the instruction itself.
    fault->context.rip -= 1;
    record.address = fault->context.rip;
  }
  if (is_beyond_handlers(frame, record)) report_unhandled(frame, record, fault->context);
  Dispatch dispatch{frame, record, fault->context, frame.host_stack(), Answer::kUnhandled};
  if (fault->on_own_stack) {
    const uint64_t stack = (fault->context.rsp - 128) & ~uint64_t{63};
    if (stack < frame.driver_stack_low() + kDispatchBytes) report_overflow(frame, *fault);
    dxgkit_nt_call_on_stack(reinterpret_cast<void*>(stack), &dispatch_on_driver_stack, &dispatch,
                            frame.lower_host_stack());
    frame.raise_host_stack(dispatch.host_stack);
  } else {
    dispatch_on_driver_stack(&dispatch);
  }
  if (dispatch.answer == Answer::kUnhandled) report_unhandled(frame, record, fault->context);
  fault->context.floats.mxcsr &= 0xFFFF;
  std::memcpy(fault->area(), &fault->context.floats, sizeof(FloatSave) - 96);
  fault->mark_legacy_in_use();
}

namespace {

/// " (STATUS_INTEGER_DIVIDE_BY_ZERO)", or nothing for codes without a name here.
std::string exception_name(uint32_t code) {
  std::string_view name = status_name(from_ntstatus(static_cast<int32_t>(code)));
  if (code == kStatusIntegerDivide) name = "STATUS_INTEGER_DIVIDE_BY_ZERO";
  if (code == kStatusIllegalInstruction) name = "STATUS_ILLEGAL_INSTRUCTION";
  if (code == kStatusMisalignment) name = "STATUS_DATATYPE_MISALIGNMENT";
  if (code == kStatusSingleStep) name = "STATUS_SINGLE_STEP";
  return name.empty() ? "" : fmt::format(" ({})", name);
}

struct Unhandled {
  CallFrame& frame;
  const ExceptionRecord& record;
  const Context& context;
};

/// ProbeForRead, ProbeForWrite and MmProbeAndLockPages mark the exceptions that they raise.
bool is_probe_failure(const CallFrame&, const ExceptionRecord& record) {
  return record.parameter_count == 0 && record.parameters[14] == kProbeMark;
}

void report(void* argument) {
  auto& [frame, record, context] = *static_cast<Unhandled*>(argument);
  verifier::Finding finding;
  finding.ddi = frame.name();
  finding.place = describe_place(frame.kernel().impl(), context);
  std::string where = describe_instruction(finding.place, record.address);
  const char* const level = irql_name(frame.irql());
  finding.bugcheck_code = 0x7E;
  finding.bugcheck_parameter = record.code;
  if (is_probe_failure(frame, record)) {
    finding.rule = "NT-18";
    finding.actual = fmt::format(
        "ProbeForRead or ProbeForWrite in {} raised {:#010x}{} at {}; no handler took "
        "it.",
        frame.name(), record.code, exception_name(record.code), where);
    if (record.code == kStatusAccessViolation) {
      finding.why =
          "The address is kernel memory, or no memory: a probe takes only the buffers of a client "
          "for user memory. What the kernel hands a driver, such as the source of a display-only "
          "present, is kernel memory and needs no probe.";
    }
    finding.expected = "User memory is probed and touched inside __try and __except.";
    finding.fix = "Put ProbeForRead or ProbeForWrite and the accesses behind it into one __try.";
  } else if (record.code == kStatusAccessViolation && record.parameter_count >= 2) {
    const uint64_t address = record.parameters[1];
    finding.rule = "NT-01";
    finding.expected = "A driver touches only memory that is there and that it was given.";
    finding.fix = "Look at the instruction in the driver's image with its debug information.";
    std::string call = describe_lent_call(context);
    if (record.parameters[14] == kCallMark) {
      call = reinterpret_cast<const char*>(record.parameters[13]);
      if (record.parameters[12] != 0) {
        call +=
            fmt::format(" with argument {} = {:#x}", record.parameters[12], record.parameters[11]);
      } else {
        finding.confidence = verifier::Confidence::kInferred;
        finding.why =
            "None of the first four arguments explains the address. It comes from what they lead "
            "to, or dxgkit is wrong itself.";
      }
      finding.fix = "Look at the call in the driver's image with its debug information.";
    }
    if (!call.empty()) call = fmt::format(" called {}, which", call);
    finding.actual = address == UINT64_MAX
                         ? fmt::format(
                               "{}{} touched an address that is not canonical, or not "
                               "aligned as its instruction asks, at {}, at {}.",
                               frame.name(), call, where, level)
                         : fmt::format("{}{} touched {:#x} ({}), at {}, at {}.", frame.name(), call,
                                       address, access_name(record.parameters[0]), where, level);
    std::string().swap(call);  // a function that does not return frees nothing
    if (frame.irql() >= kDispatchLevel) {
      finding.bugcheck_code = 0xD1;
      finding.bugcheck_parameter = static_cast<uint32_t>(address);
      if (finding.why.empty()) {
        finding.why = fmt::format(
            "At {} ({}) nothing can be paged in and no handler is asked: the machine stops at "
            "once.",
            level, frame.irql());
      }
    } else if (is_beyond_handlers(frame, record)) {
      finding.bugcheck_code = 0x50;
      finding.bugcheck_parameter = static_cast<uint32_t>(address);
      finding.why = "A fault at a system address is brought to no handler.";
    }
  } else if (record.code == kStatusBreakpoint) {
    finding.rule = "NT-06";
    finding.actual = fmt::format("{} ran into a breakpoint at {}.", frame.name(), where);
    finding.expected = "Without a debugger nothing continues after a breakpoint.";
    finding.fix = "Look for the check that failed before it; compile breakpoints out of releases.";
  } else {
    finding.rule = (record.flags & kNonContinuable) != 0 ? "NT-02" : "NT-32";
    finding.actual =
        fmt::format("{} met exception {:#010x}{} at {}, at {}; no handler took it.", frame.name(),
                    record.code, exception_name(record.code), where, level);
    finding.expected = "A handler of the driver takes each exception.";
    finding.fix = "Put the call into __try and __except, or keep the exception from happening.";
  }
  if (record.inner != nullptr) {
    finding.actual += fmt::format(" It happened while {:#010x} was handled.", record.inner->code);
  }
  std::string().swap(where);  // a function that does not return frees nothing
  frame.kernel().bug_check(std::move(finding));
}

}  // namespace

void report_unhandled(CallFrame& frame, const ExceptionRecord& record, const Context& context) {
  const Unhandled unhandled{frame, record, context};
  if (on_driver_stack(frame)) {
    // Formatting wants more than a driver's stack has.
    frame.stopped_at(reinterpret_cast<uint64_t>(__builtin_frame_address(0)) - 256,
                     reinterpret_cast<const void*>(context.rip));
    forget_host_stack(frame);
    dxgkit_nt_call_on_stack(frame.host_stack() - 256, &report, const_cast<Unhandled*>(&unhandled),
                            nullptr);
  }
  report(const_cast<Unhandled*>(&unhandled));
  __builtin_unreachable();
}

void make_signal_stack() { t_signal_stack.make(); }

void free_emergency_stacks(Kernel::Impl& state) {
  void* stack = state.emergency_stacks.exchange(nullptr);
  while (stack != nullptr) {
    void* next = nullptr;
    std::memcpy(&next, stack, sizeof(next));
    munmap(stack, kEmergencyStackBytes);
    stack = next;
  }
}

namespace {

/// Sections of a PE image in memory whose names begin with PAGE. An image without PE headers (the
/// ELF form) has none. The loader has checked the headers.
void watch_pageable_sections(Kernel& kernel, const DriverImage& image) {
  const auto read = [&](uint64_t at, auto* value) {
    if (at > image.size || image.size - at < sizeof(*value)) return false;
    std::memcpy(value, image.base + at, sizeof(*value));
    return true;
  };
  uint16_t magic = 0, sections = 0, optional_bytes = 0;
  uint32_t header = 0;
  if (!read(0, &magic) || magic != 0x5A4D || !read(60, &header)) return;
  if (!read(uint64_t{header} + 6, &sections) || !read(uint64_t{header} + 20, &optional_bytes))
    return;
  constexpr uint32_t kExecute = 0x20000000, kWrite = 0x80000000;
  for (uint64_t i = 0; i < sections; ++i) {
    const uint64_t at = uint64_t{header} + 24 + optional_bytes + i * 40;
    char name[8];
    uint32_t bytes = 0, address = 0, flags = 0;
    if (!read(at, &name) || !read(at + 8, &bytes) || !read(at + 12, &address) ||
        !read(at + 36, &flags))
      return;
    if (std::memcmp(name, "PAGE", 4) != 0) continue;
    if (bytes == 0 || address % 4096 != 0 || address > image.size || image.size - address < bytes)
      continue;
    add_pageable_section(kernel, image.base + address, bytes,
                         PROT_READ | ((flags & kWrite) != 0 ? PROT_WRITE : 0) |
                             ((flags & kExecute) != 0 ? PROT_EXEC : 0));
  }
}

}  // namespace

void Kernel::add_image(DriverImage image) {
  watch_pageable_sections(*this, image);
  impl_->images.push_back(std::move(image));
  images_changed();
}

void Kernel::remove_image(const std::byte* base) {
  for (const DriverImage& image : impl_->images) {
    PagedMemory* const paged = image.base == base ? paged_memory(*this) : nullptr;
    if (paged != nullptr) paged->remove_sections(image.base, image.size);
  }
  std::erase_if(impl_->images, [&](const DriverImage& image) { return image.base == base; });
  images_changed();
}

void Kernel::add_fault_range(FaultRange range) { impl_->fault_ranges.push_back(range); }

void Kernel::remove_fault_range(const void* start) {
  std::erase_if(impl_->fault_ranges, [&](const FaultRange& range) { return range.start == start; });
}

void install_fault_handler() {
  static const bool installed = [] {
    prepare_call_faults();
    // Below our frame in the chain, so that the handler may use it.
    uint64_t word = 0;
    DXGKIT_CHECK(guarded_copy(&word, &word, sizeof(word)));
    struct sigaction action {};
    action.sa_sigaction = &handle_fault;
    // Its own guarded copies may fault in it.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &action, &previous_actions[i]);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace dxgkit::nt
