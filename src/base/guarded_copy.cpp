#include "base/guarded_copy.h"

#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstdint>

namespace dxgkit {
namespace {

// Instructions that may fault, and the address where execution continues after a fault. Most copies
// are a few hundred bytes, for which `rep movsb` takes longer to start than a loop of 16 bytes
// takes altogether.
extern "C" {
uint64_t dxgkit_guarded_probe(void* at);
uint64_t dxgkit_guarded_copy(void* to, const void* from, size_t bytes);
extern const char dxgkit_guarded_copy_fault_here[];
extern const char dxgkit_guarded_copy_go_on_here[];
}
asm(R"(
  .text
  .globl dxgkit_guarded_copy
  .globl dxgkit_guarded_copy_fault_here
  .globl dxgkit_guarded_copy_go_on_here
  .type dxgkit_guarded_copy, @function
dxgkit_guarded_copy:
  xorl %eax, %eax
dxgkit_guarded_copy_fault_here:
  cmpq $16, %rdx
  jb 3f
  cmpq $2048, %rdx
  jae 3f
  # The last 16 bytes, which may overlap with those before.
  movups -16(%rsi,%rdx), %xmm1
  leaq -16(%rdi,%rdx), %rcx
  jmp 2f
1:
  movups (%rsi), %xmm0
  movups %xmm0, (%rdi)
  addq $16, %rsi
  addq $16, %rdi
2:
  cmpq %rcx, %rdi
  jb 1b
  movups %xmm1, (%rcx)
  ret
3:
  movq %rdx, %rcx
  rep movsb
  ret
  .globl dxgkit_guarded_probe
dxgkit_guarded_probe:
  xorl %eax, %eax
  lock orb $0, (%rdi)
  ret
dxgkit_guarded_copy_go_on_here:
  movl $1, %eax
  ret
  .size dxgkit_guarded_copy, . - dxgkit_guarded_copy
)");

struct sigaction g_previous_segv, g_previous_bus;

void on_fault(int number, siginfo_t* info, void* context) {
  auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
  const greg_t at = machine->gregs[REG_RIP];
  if (at >= reinterpret_cast<greg_t>(dxgkit_guarded_copy_fault_here) &&
      at < reinterpret_cast<greg_t>(dxgkit_guarded_copy_go_on_here)) {
    machine->gregs[REG_RIP] = reinterpret_cast<greg_t>(dxgkit_guarded_copy_go_on_here);
    return;
  }
  const struct sigaction& previous = number == SIGSEGV ? g_previous_segv : g_previous_bus;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN &&
             previous.sa_handler != nullptr) {
    previous.sa_handler(number);
  } else {
    // No handler takes the fault: it repeats with the default action.
    signal(number, SIG_DFL);
  }
}

bool install() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGSEGV, &action, &g_previous_segv) == 0 &&
         sigaction(SIGBUS, &action, &g_previous_bus) == 0;
}

bool install_once() {
  static const bool installed = install();
  return installed;
}

constexpr uintptr_t kPage = 4096;

}  // namespace

bool in_guarded_copy(const void* instruction) {
  const auto at = reinterpret_cast<uintptr_t>(instruction);
  return at >= reinterpret_cast<uintptr_t>(dxgkit_guarded_copy_fault_here) &&
         at < reinterpret_cast<uintptr_t>(dxgkit_guarded_copy_go_on_here);
}

bool guarded_copy(void* to, const void* from, size_t bytes) {
  if (!install_once()) return false;
  const auto source = reinterpret_cast<uintptr_t>(from);
  const auto target = reinterpret_cast<uintptr_t>(to);
  if (source + bytes < source || target + bytes < target) return false;
  return dxgkit_guarded_copy(to, from, bytes) == 0;
}

bool guarded_probe(void* at, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(at);
  if (!install_once() || first + bytes < first) return false;
  if (bytes == 0) return true;
  // The last byte, and one of each page before it.
  for (uintptr_t byte = first; byte < first + bytes - 1; byte = (byte / kPage + 1) * kPage) {
    if (dxgkit_guarded_probe(reinterpret_cast<void*>(byte)) != 0) return false;
  }
  return dxgkit_guarded_probe(reinterpret_cast<void*>(first + bytes - 1)) == 0;
}

}  // namespace dxgkit
