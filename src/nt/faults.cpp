// A driver that touches memory it may not: a finding and an abandoned call, instead of a dead
// process.
#include <fmt/format.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>

#include "nt/kernel_impl.h"

// memcpy and memset of drivers, here so that a bad pointer faults at an instruction we know. Win64:
// rcx, rdx, r8.
__asm__(
    ".text\n"
    ".globl dxgkit_nt_copy_begin\n.globl dxgkit_nt_copy_end\n.globl dxgkit_nt_memcpy\n.globl "
    "dxgkit_nt_memset\n"
    ".type dxgkit_nt_memcpy, @function\n.type dxgkit_nt_memset, @function\n"
    "dxgkit_nt_copy_begin:\n"
    "dxgkit_nt_memcpy:\n"
    "  mov %rcx, %rax\n  push %rdi\n  push %rsi\n  mov %rcx, %rdi\n  mov %rdx, %rsi\n  mov %r8, "
    "%rcx\n  rep movsb\n"
    "  pop %rsi\n  pop %rdi\n  ret\n"
    "dxgkit_nt_memset:\n"
    "  mov %rcx, %r9\n  push %rdi\n  mov %rcx, %rdi\n  mov %edx, %eax\n  mov %r8, %rcx\n  rep "
    "stosb\n"
    "  pop %rdi\n  mov %r9, %rax\n  ret\n"
    "dxgkit_nt_copy_end:\n");
extern "C" const char dxgkit_nt_copy_begin[], dxgkit_nt_copy_end[];

namespace dxgkit::nt {
namespace {

struct sigaction previous_segv, previous_bus;

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

/// The driver whose code the thread was running at `instruction`, or null. What is lent to drivers
/// for copying counts as the code of the first.
const DriverImage* find_image(const Kernel::Impl& state, uint64_t instruction) {
  const bool in_copy =
      contains(dxgkit_nt_copy_begin,
               static_cast<uint64_t>(dxgkit_nt_copy_end - dxgkit_nt_copy_begin), instruction);
  for (const DriverImage& image : state.images) {
    if (in_copy || contains(image.base, image.size, instruction)) return &image;
  }
  return nullptr;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = signal == SIGSEGV ? previous_segv : previous_bus;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  // The default action: the instruction runs again and ends the process with its own core dump.
  ::signal(signal, SIG_DFL);
}

/// Where a faulting thread goes on once the signal handler has returned: ordinary code on the
/// driver's stack, free to allocate and to lock, since driver code at an instruction of its own
/// holds nothing of ours.
[[noreturn]] void report_fault(const FaultRange* guard, const DriverImage* image, uint64_t address,
                               uint64_t instruction) {
  CallFrame& frame = CallFrame::current();
  // One string at a time and moved into the call: what it does not take over would leak, since it
  // does not return.
  std::string actual =
      fmt::format("{} touched {:#x}, at instruction {:#x} ({}", frame.name(), address, instruction,
                  guard != nullptr ? guard->what : image->name.c_str());
  if (guard == nullptr)
    actual += fmt::format("+{:#x}", instruction - reinterpret_cast<uint64_t>(image->base));
  actual += ").";
  frame.kernel().bug_check(
      guard != nullptr ? guard->rule : "NT-01", frame.name(), guard != nullptr ? 0x50 : 0xD1,
      static_cast<uint32_t>(address), std::move(actual),
      guard != nullptr ? guard->expected
                       : "A driver touches only memory that is there and that it was given.",
      guard != nullptr
          ? guard->fix
          : "Look at the instruction in the driver's image with its debug information.");
}

void handle_fault(int signal, siginfo_t* info, void* context) {
  auto* machine = static_cast<ucontext_t*>(context);
  greg_t* const registers = machine->uc_mcontext.gregs;
  const auto instruction = static_cast<uint64_t>(registers[REG_RIP]);
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  CallFrame* frame = CallFrame::current_or_null();
  const FaultRange* guard =
      frame == nullptr ? nullptr : find_guard(frame->kernel().impl(), address);
  const DriverImage* image =
      frame == nullptr ? nullptr : find_image(frame->kernel().impl(), instruction);
  if (guard == nullptr && image == nullptr) {
    pass_on(signal, info, context);
    return;
  }
  // Nothing of a driver's call survives, so its registers are ours: enter report_fault as if it had
  // been called there.
  // Not on the driver's small stack, which may be what overflowed.
  const bool on_driver_stack =
      static_cast<uint64_t>(registers[REG_RSP]) - (frame->driver_stack_low() - kStackGuardBytes) <
      kStackGuardBytes + frame->driver_stack_bytes();
  const auto stack = on_driver_stack && frame->driver_stack_bytes() > 0
                         ? static_cast<greg_t>(reinterpret_cast<uint64_t>(frame->host_stack()))
                         : registers[REG_RSP] - 256;
  registers[REG_RSP] = (stack & ~greg_t{15}) - 8;
  registers[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uint64_t>(&report_fault));
  registers[REG_RDI] = static_cast<greg_t>(reinterpret_cast<uint64_t>(guard));
  registers[REG_RSI] = static_cast<greg_t>(reinterpret_cast<uint64_t>(image));
  registers[REG_RDX] = static_cast<greg_t>(address);
  registers[REG_RCX] = static_cast<greg_t>(instruction);
  registers[REG_EFL] &= ~greg_t{0x400};  // the direction flag, which a driver may have set
}

}  // namespace

void Kernel::add_image(DriverImage image) {
  impl_->images.push_back(std::move(image));
  images_changed();
}

void Kernel::remove_image(const std::byte* base) {
  std::erase_if(impl_->images, [&](const DriverImage& image) { return image.base == base; });
  images_changed();
}

void Kernel::add_fault_range(FaultRange range) { impl_->fault_ranges.push_back(range); }

void Kernel::remove_fault_range(const void* start) {
  std::erase_if(impl_->fault_ranges, [&](const FaultRange& range) { return range.start == start; });
}

void install_fault_handler() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = &handle_fault;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace dxgkit::nt
