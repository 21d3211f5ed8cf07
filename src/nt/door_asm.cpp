// enter, leave and door: the switches between host and driver stacks. See door.h.
//
// Written for the System V assembler of ELF; the calling convention at every edge is Win64: integer
// arguments in rcx, rdx, r8, r9 and above 32 bytes of home space; rbx, rbp, rsi, rdi, r12-r15 and
// xmm6-xmm15 are the callee's to keep.
#include "nt/door.h"

namespace dxgkit::nt {

// The assumptions of the assembly below.
static_assert(offsetof(DoorFrame, host_sp) == 0);
static_assert(offsetof(DoorFrame, driver_sp) == 8);
static_assert(offsetof(DoorFrame, stack_low) == 16);
static_assert(offsetof(DoorFrame, stack_bytes) == 24);
static_assert(offsetof(DoorFrame, base_sp) == 32);
static_assert(offsetof(DoorFrame, target) == 40);
static_assert(offsetof(DoorFrame, entry_sp) == 48);
static_assert(offsetof(DoorFrame, stack_arguments) == 56);
static_assert(offsetof(DoorFrame, current_irql) == 60);
static_assert(offsetof(DoorFrame, irql_reported) == 61);
static_assert(offsetof(DoorFrame, logged) == 62);
static_assert(offsetof(DoorFrame, rbx) == 64);
static_assert(offsetof(DoorFrame, rip) == 128);
static_assert(offsetof(DoorFrame, xmm6_to_15) == 144);
static_assert(offsetof(DoorFrame, callee) == 304);
static_assert(offsetof(DoorFrame, call_arguments) == 312);
static_assert(offsetof(DoorTarget, function) == 0);
static_assert(offsetof(DoorTarget, stack_arguments) == 16);
static_assert(offsetof(DoorTarget, fast_irql_max) == 20);

// _ZN6dxgkit7runtime6detail14t_thread_slotsE is runtime::detail::t_thread_slots; slot 0 is the
// innermost CallFrame, which begins with its DoorFrame.
__asm__(R"(
.text
.p2align 4
.globl dxgkit_nt_enter
.type dxgkit_nt_enter, @function
dxgkit_nt_enter:
  .cfi_startproc
  # Tells unwinders that the stack may be another one beyond this frame.
  .cfi_signal_frame
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  push %rbx
  push %rsi
  push %rdi
  push %r12
  push %r13
  push %r14
  push %r15
  .cfi_offset %rbx, -24
  .cfi_offset %rsi, -32
  .cfi_offset %rdi, -40
  .cfi_offset %r12, -48
  .cfi_offset %r13, -56
  .cfi_offset %r14, -64
  .cfi_offset %r15, -72
  sub $168, %rsp
  # Only `leave` reads these back: a driver that returns has kept them.
  movaps %xmm6, (%rsp)
  movaps %xmm7, 16(%rsp)
  movaps %xmm8, 32(%rsp)
  movaps %xmm9, 48(%rsp)
  movaps %xmm10, 64(%rsp)
  movaps %xmm11, 80(%rsp)
  movaps %xmm12, 96(%rsp)
  movaps %xmm13, 112(%rsp)
  movaps %xmm14, 128(%rsp)
  movaps %xmm15, 144(%rsp)
  mov _ZN6dxgkit7runtime6detail14t_thread_slotsE@gottpoff(%rip), %rax
  mov %fs:(%rax), %rax
  mov (%rax), %rax
  mov %rsp, (%rax)
  mov 40(%rax), %r10
  mov 48(%rax), %r11
  test %r11, %r11
  cmovz %rsp, %r11
  mov 56(%rax), %eax
  test %eax, %eax
  jnz 2f
1:
  lea -32(%r11), %rsp
  call *%r10
.globl dxgkit_nt_entered
dxgkit_nt_entered:
  # A driver that overran its stack may come back with any rbp, so the frame says where ours is.
  mov _ZN6dxgkit7runtime6detail14t_thread_slotsE@gottpoff(%rip), %rcx
  mov %fs:(%rcx), %rcx
  mov (%rcx), %rcx
  mov 32(%rcx), %rdx
  mov %rdx, 8(%rcx)
  mov (%rcx), %rsp
  add $168, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rdi
  pop %rsi
  pop %rbx
  pop %rbp
  .cfi_remember_state
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_restore_state
2:
  lea 1(%rax), %ebx
  and $-2, %ebx
  shl $3, %rbx
  sub %rbx, %r11
3:
  sub $1, %eax
  mov 48(%rbp,%rax,8), %rbx
  mov %rbx, (%r11,%rax,8)
  jnz 3b
  jmp 1b
  .cfi_endproc
.size dxgkit_nt_enter, . - dxgkit_nt_enter

.p2align 4
.globl dxgkit_nt_leave
.type dxgkit_nt_leave, @function
dxgkit_nt_leave:
  cld
  mov 32(%rdi), %rdx
  mov %rdx, 8(%rdi)
  mov (%rdi), %rsp
  movaps (%rsp), %xmm6
  movaps 16(%rsp), %xmm7
  movaps 32(%rsp), %xmm8
  movaps 48(%rsp), %xmm9
  movaps 64(%rsp), %xmm10
  movaps 80(%rsp), %xmm11
  movaps 96(%rsp), %xmm12
  movaps 112(%rsp), %xmm13
  movaps 128(%rsp), %xmm14
  movaps 144(%rsp), %xmm15
  add $168, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rdi
  pop %rsi
  pop %rbx
  pop %rbp
  xor %eax, %eax
  ret
.size dxgkit_nt_leave, . - dxgkit_nt_leave

.p2align 4
.globl dxgkit_nt_door
.type dxgkit_nt_door, @function
dxgkit_nt_door:
  .cfi_startproc
  # Tells unwinders that the stack may be another one beyond this frame.
  .cfi_signal_frame
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  mov _ZN6dxgkit7runtime6detail14t_thread_slotsE@gottpoff(%rip), %rax
  mov %fs:(%rax), %rax
  test %rax, %rax
  jz 9f
  mov (%rax), %rax
  test %rax, %rax
  jz 9f
  mov %rsp, %r10
  sub 16(%rax), %r10
  cmp 24(%rax), %r10
  jae 9f
  mov %rbp, 8(%rax)
  mov %rbx, 64(%rax)
  mov (%rbp), %r10
  mov %r10, 72(%rax)
  mov %rsi, 80(%rax)
  mov %rdi, 88(%rax)
  mov %r12, 96(%rax)
  mov %r13, 104(%rax)
  mov %r14, 112(%rax)
  mov %r15, 120(%rax)
  mov 8(%rbp), %r10
  mov %r10, 128(%rax)
  mov %r11, 304(%rax)
  mov %rcx, 312(%rax)
  mov %rdx, 320(%rax)
  mov %r8, 328(%rax)
  mov %r9, 336(%rax)
  movaps %xmm6, 144(%rax)
  movaps %xmm7, 160(%rax)
  movaps %xmm8, 176(%rax)
  movaps %xmm9, 192(%rax)
  movaps %xmm10, 208(%rax)
  movaps %xmm11, 224(%rax)
  movaps %xmm12, 240(%rax)
  movaps %xmm13, 256(%rax)
  movaps %xmm14, 272(%rax)
  movaps %xmm15, 288(%rax)
  mov %rax, %rbx
  .cfi_undefined %rbx
  mov (%rbx), %rsp
  mov 16(%r11), %eax
  test %eax, %eax
  jnz 5f
4:
  sub $32, %rsp
  movzbl 20(%r11), %eax
  # A logged call takes the same way as one at too high a level.
  orb 62(%rbx), %al
  cmp 60(%rbx), %al
  jl 7f
  call *(%r11)
8:
  mov %rbp, %rsp
  mov 64(%rbx), %rbx
  .cfi_same_value %rbx
  pop %rbp
  .cfi_remember_state
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_restore_state
5:
  # As many as there are above the home space, at most.
  mov 16(%rbx), %r10
  add 24(%rbx), %r10
  sub $48, %r10
  sub %rbp, %r10
  jbe 4b
  shr $3, %r10
  jz 4b
  cmp %rax, %r10
  cmovb %r10, %rax
  lea 1(%rax), %r10
  and $-2, %r10
  shl $3, %r10
  sub %r10, %rsp
6:
  sub $1, %eax
  mov 48(%rbp,%rax,8), %r10
  mov %r10, (%rsp,%rax,8)
  jnz 6b
  jmp 4b
7:
  # The level is too high, or the call is watched.
  sub $112, %rsp
  mov %rcx, (%rsp)
  mov %rdx, 8(%rsp)
  mov %r8, 16(%rsp)
  mov %r9, 24(%rsp)
  mov %r11, 32(%rsp)
  movaps %xmm0, 48(%rsp)
  movaps %xmm1, 64(%rsp)
  movaps %xmm2, 80(%rsp)
  movaps %xmm3, 96(%rsp)
  mov %rbx, %rdi
  mov %r11, %rsi
  call dxgkit_nt_door_watched@PLT
  mov (%rsp), %rcx
  mov 8(%rsp), %rdx
  mov 16(%rsp), %r8
  mov 24(%rsp), %r9
  mov 32(%rsp), %r11
  movaps 48(%rsp), %xmm0
  movaps 64(%rsp), %xmm1
  movaps 80(%rsp), %xmm2
  movaps 96(%rsp), %xmm3
  add $112, %rsp
  # The System V callee kept neither these nor the vectors.
  mov 80(%rbx), %rsi
  mov 88(%rbx), %rdi
  movaps 144(%rbx), %xmm6
  movaps 160(%rbx), %xmm7
  movaps 176(%rbx), %xmm8
  movaps 192(%rbx), %xmm9
  movaps 208(%rbx), %xmm10
  movaps 224(%rbx), %xmm11
  movaps 240(%rbx), %xmm12
  movaps 256(%rbx), %xmm13
  movaps 272(%rbx), %xmm14
  movaps 288(%rbx), %xmm15
  call *(%r11)
  movb $0, 61(%rbx)
  cmpb $0, 62(%rbx)
  je 8b
  # The log hears the answer. The driver's registers are as the callee left them.
  sub $208, %rsp
  mov %rax, (%rsp)
  mov %rsi, 8(%rsp)
  mov %rdi, 16(%rsp)
  movaps %xmm0, 32(%rsp)
  movaps %xmm6, 48(%rsp)
  movaps %xmm7, 64(%rsp)
  movaps %xmm8, 80(%rsp)
  movaps %xmm9, 96(%rsp)
  movaps %xmm10, 112(%rsp)
  movaps %xmm11, 128(%rsp)
  movaps %xmm12, 144(%rsp)
  movaps %xmm13, 160(%rsp)
  movaps %xmm14, 176(%rsp)
  movaps %xmm15, 192(%rsp)
  mov %rbx, %rdi
  mov %rax, %rsi
  call dxgkit_nt_door_answered@PLT
  mov (%rsp), %rax
  mov 8(%rsp), %rsi
  mov 16(%rsp), %rdi
  movaps 32(%rsp), %xmm0
  movaps 48(%rsp), %xmm6
  movaps 64(%rsp), %xmm7
  movaps 80(%rsp), %xmm8
  movaps 96(%rsp), %xmm9
  movaps 112(%rsp), %xmm10
  movaps 128(%rsp), %xmm11
  movaps 144(%rsp), %xmm12
  movaps 160(%rsp), %xmm13
  movaps 176(%rsp), %xmm14
  movaps 192(%rsp), %xmm15
  jmp 8b
9:
  # Not on a driver stack: a routine of the driver that host code called without a frame.
  pop %rbp
  .cfi_def_cfa %rsp, 8
  jmp *(%r11)
  .cfi_endproc
.size dxgkit_nt_door, . - dxgkit_nt_door
)");

}  // namespace dxgkit::nt
