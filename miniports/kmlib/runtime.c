// What a compiler for Windows expects of every kernel image: the stack cookie with its check, the
// control-flow-guard pointers, the load configuration that tells the loader where they are.
#include <ntddk.h>

/* The value linkers leave; whoever loads the image replaces it. */
#define DEFAULT_COOKIE 0x00002B992DDFA232ULL
ULONG_PTR __security_cookie = DEFAULT_COOKIE;

int _fltused = 0x9875;

/* All registers but rcx survive the check, so it is not C. int 0x29 is the fast fail; 2 stands for
 * a stack cookie that has changed. The upper 16 bits of a cookie are zero. */
__asm__(
    ".text\n"
    ".globl __security_check_cookie\n"
    ".p2align 4\n"
    "__security_check_cookie:\n"
    "  cmpq __security_cookie(%rip), %rcx\n"
    "  jne 1f\n"
    "  rolq $16, %rcx\n"
    "  testw $0xFFFF, %cx\n"
    "  jne 1f\n"
    "  ret\n"
    "1: movl $2, %ecx\n"
    "  int $0x29\n"
    ".p2align 4\n"
    ".globl _guard_check_icall_nop\n"
    ".p2align 4\n"
    "_guard_check_icall_nop:\n"
    "  ret\n"
    ".globl _guard_dispatch_icall_nop\n"
    ".p2align 4\n"
    "_guard_dispatch_icall_nop:\n"
    "  jmpq *%rax\n");

void _guard_check_icall_nop(void);
void _guard_dispatch_icall_nop(void);
void (*const volatile __guard_check_icall_fptr)(void) = _guard_check_icall_nop;
void (*const volatile __guard_dispatch_icall_fptr)(void) = _guard_dispatch_icall_nop;

/* IMAGE_LOAD_CONFIG_DIRECTORY64, up to the last field used here. The linker finds it by name. */
typedef struct {
  ULONG Size, TimeDateStamp, Version, GlobalFlags[2], CriticalSectionTimeout;
  ULONG_PTR NotForDrivers[6];
  ULONG HeapFlags, CsdVersionAndFlags;
  ULONG_PTR EditList, SecurityCookie, HandlerTable, HandlerCount;
  ULONG_PTR GuardCheck, GuardDispatch, GuardTable, GuardCount;
  ULONG GuardFlags, CodeIntegrity[3];
} LoadConfig;
_Static_assert(__builtin_offsetof(LoadConfig, SecurityCookie) == 0x58, "layout of the format");
_Static_assert(__builtin_offsetof(LoadConfig, GuardCheck) == 0x70, "layout of the format");
_Static_assert(__builtin_offsetof(LoadConfig, GuardFlags) == 0x90, "layout of the format");

const LoadConfig _load_config_used = {
    .Size = sizeof(LoadConfig),
    .SecurityCookie = (ULONG_PTR)&__security_cookie,
    .GuardCheck = (ULONG_PTR)&__guard_check_icall_fptr,
    .GuardDispatch = (ULONG_PTR)&__guard_dispatch_icall_fptr,
};
