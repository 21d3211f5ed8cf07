// The few instructions of exception handling that C++ cannot express: entering and leaving
// contexts, calling handlers, and the memory routines that are lent to drivers.
#include "nt/context.h"

// Builds the caller's CONTEXT below the return address (on the 16-byte grid), calls `body` with it,
// then continues with the registers that it then holds. Volatile registers are saved too, because
// they are the arguments.
#define DXGKIT_CONTEXT_STUB(name, body)                                              \
  __asm__(".text\n.globl " name "\n.type " name ", @function\n" name                 \
          ":\n"                                                                      \
          "  sub $1240, %rsp\n"                                                      \
          "  mov %rax, 0x78(%rsp)\n  mov %rcx, 0x80(%rsp)\n  mov %rdx, 0x88(%rsp)\n" \
          "  mov %rbx, 0x90(%rsp)\n  mov %rbp, 0xA0(%rsp)\n  mov %rsi, 0xA8(%rsp)\n" \
          "  mov %rdi, 0xB0(%rsp)\n  mov %r8, 0xB8(%rsp)\n  mov %r9, 0xC0(%rsp)\n"   \
          "  mov %r10, 0xC8(%rsp)\n  mov %r11, 0xD0(%rsp)\n  mov %r12, 0xD8(%rsp)\n" \
          "  mov %r13, 0xE0(%rsp)\n  mov %r14, 0xE8(%rsp)\n  mov %r15, 0xF0(%rsp)\n" \
          "  pushfq\n  pop %rax\n  mov %eax, 0x44(%rsp)\n  cld\n"                    \
          "  lea 1248(%rsp), %rax\n  mov %rax, 0x98(%rsp)\n"                         \
          "  mov 1240(%rsp), %rax\n  mov %rax, 0xF8(%rsp)\n"                         \
          "  movl $0x10000F, 0x30(%rsp)\n  stmxcsr 0x34(%rsp)\n"                     \
          "  mov %cs, 0x38(%rsp)\n  mov %ds, 0x3A(%rsp)\n  mov %es, 0x3C(%rsp)\n"    \
          "  mov %fs, 0x3E(%rsp)\n  mov %gs, 0x40(%rsp)\n  mov %ss, 0x42(%rsp)\n"    \
          "  fxsave64 0x100(%rsp)\n"                                                 \
          "  mov %rsp, %rdi\n  call " body                                           \
          "\n"                                                                       \
          "  mov %rsp, %rdi\n  jmp dxgkit_nt_restore\n")

DXGKIT_CONTEXT_STUB("dxgkit_nt_rtl_raise_exception", "dxgkit_nt_do_rtl_raise_exception");
DXGKIT_CONTEXT_STUB("dxgkit_nt_raise_status", "dxgkit_nt_do_raise_status");
DXGKIT_CONTEXT_STUB("dxgkit_nt_raise_access_violation", "dxgkit_nt_do_raise_access_violation");
DXGKIT_CONTEXT_STUB("dxgkit_nt_raise_misalignment", "dxgkit_nt_do_raise_misalignment");
DXGKIT_CONTEXT_STUB("dxgkit_nt_rtl_capture_context", "dxgkit_nt_do_rtl_capture_context");
DXGKIT_CONTEXT_STUB("dxgkit_nt_rtl_restore_context", "dxgkit_nt_do_rtl_restore_context");
DXGKIT_CONTEXT_STUB("dxgkit_nt_rtl_unwind", "dxgkit_nt_do_rtl_unwind");
DXGKIT_CONTEXT_STUB("dxgkit_nt_local_unwind", "dxgkit_nt_do_local_unwind");

// IRETQ sets stack, flags and instruction at once, without a byte written on the target's stack.
__asm__(
    ".text\n"
    ".globl dxgkit_nt_restore\n.type dxgkit_nt_restore, @function\n"
    "dxgkit_nt_restore:\n"
    "  fxrstor64 0x100(%rdi)\n"
    "dxgkit_nt_restore_general:\n"
    "  xor %eax, %eax\n  mov %ss, %eax\n  push %rax\n"
    "  pushq 0x98(%rdi)\n"
    // The arithmetic and direction flags are the context's; the rest stays as user mode has it.
    "  mov 0x44(%rdi), %eax\n  and $0x240CD5, %eax\n  or $0x202, %eax\n  push %rax\n"
    "  xor %eax, %eax\n  mov %cs, %eax\n  push %rax\n"
    "  pushq 0xF8(%rdi)\n"
    "  mov 0x78(%rdi), %rax\n  mov 0x80(%rdi), %rcx\n  mov 0x88(%rdi), %rdx\n"
    "  mov 0x90(%rdi), %rbx\n  mov 0xA0(%rdi), %rbp\n  mov 0xA8(%rdi), %rsi\n"
    "  mov 0xB8(%rdi), %r8\n  mov 0xC0(%rdi), %r9\n  mov 0xC8(%rdi), %r10\n"
    "  mov 0xD0(%rdi), %r11\n  mov 0xD8(%rdi), %r12\n  mov 0xE0(%rdi), %r13\n"
    "  mov 0xE8(%rdi), %r14\n  mov 0xF0(%rdi), %r15\n  mov 0xB0(%rdi), %rdi\n"
    "  iretq\n"
    // A fault: the frame that the signal handler built lies at rsp (faults.cpp: FaultFrame).
    ".globl dxgkit_nt_fault_entry\n.type dxgkit_nt_fault_entry, @function\n"
    "dxgkit_nt_fault_entry:\n"
    "  mov %rsp, %rbx\n  mov %rsp, %rdi\n"
    "  call dxgkit_nt_serve_fault\n"
    "  mov %rbx, %rdi\n"
    "  mov 1232(%rdi), %rax\n"  // the XSAVE components to load; 0: a machine without XSAVE
    "  mov %rax, %rdx\n  shr $32, %rdx\n"
    "  test %rax, %rax\n  je 1f\n"
    "  xrstor64 1408(%rdi)\n  jmp dxgkit_nt_restore_general\n"
    "1: fxrstor64 1408(%rdi)\n  jmp dxgkit_nt_restore_general\n"
    // uint64_t dxgkit_nt_call_handler(code, a, b, c, d): System V to Win64. A walk up from the
    // handler meets the label behind the call and knows the place by it.
    ".globl dxgkit_nt_call_handler\n.globl dxgkit_nt_handler_return\n"
    ".type dxgkit_nt_call_handler, @function\n"
    "dxgkit_nt_call_handler:\n"
    "  push %rbp\n  mov %rsp, %rbp\n  sub $32, %rsp\n"
    "  mov %rdi, %rax\n  mov %r8, %r9\n  mov %rcx, %r8\n  mov %rsi, %rcx\n"
    "  call *%rax\n"
    "dxgkit_nt_handler_return:\n"
    "  leave\n  ret\n"
    // void dxgkit_nt_call_on_stack(stack, function, argument, where): calls function(argument) on
    // another stack. If `where` is not null, it stores the end of the used part of the present
    // stack there.
    ".globl dxgkit_nt_call_on_stack\n.type dxgkit_nt_call_on_stack, @function\n"
    "dxgkit_nt_call_on_stack:\n"
    "  push %rbp\n  mov %rsp, %rbp\n"
    "  test %rcx, %rcx\n  je 1f\n"
    "  lea -128(%rsp), %rax\n  and $-64, %rax\n  mov %rax, (%rcx)\n"
    "1: mov %rdi, %rsp\n  mov %rdx, %rdi\n"
    "  call *%rsi\n"
    "  leave\n  ret\n");

// void dxgkit_nt_run_stub(registers, code, area, components): runs one instruction that ends in a
// jump to dxgkit_nt_stub_back, with flags, rax, rcx, rdx, rbx, rbp, rsi, rdi, r8..r15 from
// `registers` and back to them; with vectors from and to the XSAVE area, if there is one. All pops
// come first, so that the flags survive.
__asm__(
    ".text\n"
    ".globl dxgkit_nt_run_stub\n.globl dxgkit_nt_stub_back\n.type dxgkit_nt_run_stub, @function\n"
    "dxgkit_nt_run_stub:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  push %rcx\n  push %rdx\n  push %rdi\n"
    "  test %rdx, %rdx\n  je 1f\n"
    "  mov %rdx, %r9\n  mov %rcx, %rax\n  mov %rcx, %rdx\n  shr $32, %rdx\n  xrstor64 (%r9)\n"
    "1: push %rsi\n  mov $16, %ecx\n"
    "2: push -8(%rdi,%rcx,8)\n  dec %ecx\n  jnz 2b\n"
    "  popfq\n  pop %rax\n  pop %rcx\n  pop %rdx\n  pop %rbx\n  pop %rbp\n  pop %rsi\n"
    "  pop %rdi\n  pop %r8\n  pop %r9\n  pop %r10\n  pop %r11\n  pop %r12\n  pop %r13\n"
    "  pop %r14\n  pop %r15\n  ret\n"
    "dxgkit_nt_stub_back:\n"
    "  push %r15\n  push %r14\n  push %r13\n  push %r12\n  push %r11\n  push %r10\n"
    "  push %r9\n  push %r8\n  push %rdi\n  push %rsi\n  push %rbp\n  push %rbx\n"
    "  push %rdx\n  push %rcx\n  push %rax\n  pushfq\n  cld\n"
    "  mov 128(%rsp), %rdi\n  mov $16, %ecx\n"
    "3: mov -8(%rsp,%rcx,8), %rax\n  mov %rax, -8(%rdi,%rcx,8)\n  dec %ecx\n  jnz 3b\n"
    "  add $136, %rsp\n  pop %r9\n  pop %rax\n"
    "  test %r9, %r9\n  je 4f\n"
    "  mov %rax, %rdx\n  shr $32, %rdx\n  xsave64 (%r9)\n"
    "  fninit\n  pushq $0x1F80\n  ldmxcsr (%rsp)\n  pop %rax\n"
    "4: pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n  ret\n");

// Lent to drivers. A bad pointer faults at an instruction we know, as a leaf function whose caller
// is easily found: rsi and rdi are kept in r11 and r10, the return address is at rsp. Win64: rcx,
// rdx, r8.
__asm__(
    ".text\n"
    ".globl dxgkit_nt_lent_begin\n.globl dxgkit_nt_lent_end\n"
    ".globl dxgkit_nt_memcpy\n.globl dxgkit_nt_memmove\n.globl dxgkit_nt_memset\n"
    ".globl dxgkit_nt_memcmp\n"
    ".type dxgkit_nt_memcpy, @function\n.type dxgkit_nt_memmove, @function\n"
    ".type dxgkit_nt_memset, @function\n.type dxgkit_nt_memcmp, @function\n"
    "dxgkit_nt_lent_begin:\n"
    "dxgkit_nt_memcpy:\n"
    "  mov %rdi, %r10\n  mov %rsi, %r11\n"
    "  mov %rcx, %rax\n  mov %rcx, %rdi\n  mov %rdx, %rsi\n  mov %r8, %rcx\n"
    "  rep movsb\n"
    "  mov %r10, %rdi\n  mov %r11, %rsi\n  ret\n"
    "dxgkit_nt_memmove:\n"
    "  mov %rcx, %rax\n  sub %rdx, %rax\n  cmp %r8, %rax\n  jae dxgkit_nt_memcpy\n"
    // The target begins inside the source: from the end, eight bytes at a time.
    "  mov %rdi, %r10\n  mov %rsi, %r11\n"
    "1: cmp $8, %r8\n  jb 2f\n"
    "  mov -8(%rdx,%r8), %r9\n  mov %r9, -8(%rcx,%r8)\n  sub $8, %r8\n  jmp 1b\n"
    "2: test %r8, %r8\n  je 3f\n"
    "  mov -1(%rdx,%r8), %r9b\n  mov %r9b, -1(%rcx,%r8)\n  dec %r8\n  jmp 2b\n"
    "3: mov %rcx, %rax\n  ret\n"
    "dxgkit_nt_memset:\n"
    "  mov %rdi, %r10\n  mov %rsi, %r11\n"
    "  mov %rcx, %r9\n  mov %rcx, %rdi\n  mov %edx, %eax\n  mov %r8, %rcx\n"
    "  rep stosb\n"
    "  mov %r10, %rdi\n  mov %r11, %rsi\n  mov %r9, %rax\n  ret\n"
    "dxgkit_nt_memcmp:\n"
    "  mov %rdi, %r10\n  mov %rsi, %r11\n"
    "1: cmp $8, %r8\n  jb 2f\n"
    "  mov (%rcx), %r9\n  cmp (%rdx), %r9\n  jne 2f\n"
    "  add $8, %rcx\n  add $8, %rdx\n  sub $8, %r8\n  jmp 1b\n"
    "2: test %r8, %r8\n  je 3f\n"
    "  movzbl (%rcx), %eax\n  movzbl (%rdx), %r9d\n  sub %r9d, %eax\n  jne 4f\n"
    "  inc %rcx\n  inc %rdx\n  dec %r8\n  jmp 2b\n"
    "3: xor %eax, %eax\n"
    "4: ret\n"
    "dxgkit_nt_lent_end:\n"
    // __chkstk: rax = bytes about to be taken from the stack. Touches each page on the way, so that
    // code cannot jump over a guard page. Keeps every register.
    ".globl dxgkit_nt_chkstk\n.globl dxgkit_nt_chkstk_end\n.type dxgkit_nt_chkstk, @function\n"
    "dxgkit_nt_chkstk:\n"
    "  push %rcx\n  push %rax\n"
    "  lea 24(%rsp), %rcx\n"
    "1: cmp $4096, %rax\n  jb 2f\n"
    "  sub $4096, %rcx\n  testb $0, (%rcx)\n  sub $4096, %rax\n  jmp 1b\n"
    "2: sub %rax, %rcx\n  testb $0, (%rcx)\n"
    "  pop %rax\n  pop %rcx\n  ret\n"
    "dxgkit_nt_chkstk_end:\n");
