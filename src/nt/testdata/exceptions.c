// A driver whose functions raise, catch and clean up in every way the tests want to see.
#include <excpt.h>
#include <ntddk.h>

#define EXPORT __declspec(dllexport)
#define NOINLINE __attribute__((noinline))

typedef unsigned long long U64;

typedef EXCEPTION_RECORD Record;
typedef struct Pointers {  // EXCEPTION_POINTERS, with the CONTEXT as bytes
  Record* record;
  unsigned char* context;
} Pointers;

// Not known to the compiler as calls without return: clang 19 lets the __except block that follows
// such a call begin inside the scopes that end with it, and termination handlers are then skipped,
// on Windows too.
static VOID(NTAPI* volatile raise_status)(NTSTATUS) = ExRaiseStatus;
static VOID(NTAPI* volatile raise_violation)(void) = ExRaiseAccessViolation;
static VOID(NTAPI* volatile raise_misalignment)(void) = ExRaiseDatatypeMisalignment;

// What happened, in order.
static volatile char trail[256];
static volatile unsigned trail_length;
static NOINLINE void mark(char letter) {
  if (trail_length < sizeof(trail) - 1) trail[trail_length++] = letter;
}
static Record seen;
static U64 seen_rip;

EXPORT const char* Trail(void) { return (const char*)trail; }
EXPORT void ClearTrail(void) {
  for (unsigned i = 0; i < sizeof(trail); ++i) trail[i] = 0;
  trail_length = 0;
}
EXPORT const Record* Seen(void) { return &seen; }
EXPORT U64 SeenRip(void) { return seen_rip; }

static NOINLINE int keep(Pointers* pointers, int answer) {
  seen = *pointers->record;
  seen_rip = *(U64*)(pointers->context + 0xF8);
  mark('k');
  return answer;
}

static NOINLINE U64 load(volatile U64* from) {
  U64 value = *from;
  mark('l');
  return value;
}

NTSTATUS DriverEntry(PDRIVER_OBJECT object, PUNICODE_STRING path) {
  (void)object;
  (void)path;
  return STATUS_SUCCESS;
}

// --- one handler

EXPORT U64 CatchInline(volatile U64* from) {
  U64 value = 1;
  __try {
    value = *from;
  } __except (1) {
    value = 100;
  }
  return value;
}

EXPORT U64 CatchCallee(volatile U64* from) {
  U64 value = 1;
  __try {
    value = load(from);
  } __except (keep((Pointers*)_exception_info(), 1)) {
    value = _exception_code();
  }
  return value;
}

EXPORT U64 CatchWrite(volatile U64* to) {
  __try {
    *to = 5;
  } __except (keep((Pointers*)_exception_info(), 1)) {
    return 2;
  }
  return 1;
}

EXPORT U64 CatchCall(void (*function)(void)) {
  __try {
    function();
  } __except (keep((Pointers*)_exception_info(), 1)) {
    return 2;
  }
  return 1;
}

EXPORT U64 CatchOnlyDivision(volatile U64* from) {
  U64 value = 1;
  __try {
    value = load(from);
  } __except (_exception_code() == 0xC0000094 ? 1 : 0) {
    value = 2;
  }
  return value;
}

EXPORT U64 DontCatch(volatile U64* from) { return load(from) + 1; }

// --- order

EXPORT U64 Nested(volatile U64* from) {
  U64 value = 0;
  __try {
    mark('1');
    __try {
      mark('2');
      __try {
        mark('3');
        value = load(from);
        mark('4');
      } __finally {
        mark(_abnormal_termination() ? 'A' : 'a');
      }
    } __except (mark('s'), 0) {
      mark('!');
    }
    mark('5');
  } __except (mark('t'), 1) {
    mark('B');
  }
  mark('.');
  return value;
}

static NOINLINE U64 level3(volatile U64* from) {
  U64 value = 0;
  __try {
    value = load(from);
  } __finally {
    mark('3');
  }
  return value + 1;
}
static NOINLINE U64 level2(volatile U64* from) {
  volatile char big[5000];
  big[0] = 1;
  big[4999] = 2;
  U64 value = 0;
  __try {
    value = level3(from) + (U64)big[0];
  } __finally {
    mark(_abnormal_termination() ? '2' : 'n');
  }
  return value + (U64)big[4999];
}
static NOINLINE U64 level1(volatile U64* from) { return level2(from) * 3; }

EXPORT U64 ThreeCalls(volatile U64* from) {
  U64 value = 7;
  __try {
    value = level1(from);
  } __except (mark('f'), 1) {
    mark('h');
  }
  return value;
}

// --- going on

EXPORT U64 LoadThroughRcx(U64 address);
__asm__(
    ".globl LoadThroughRcx\n"
    ".seh_proc LoadThroughRcx\n"
    "LoadThroughRcx:\n"
    "  pushq %rbx\n .seh_pushreg %rbx\n .seh_endprologue\n"
    "  movq (%rcx), %rax\n"
    "  popq %rbx\n  ret\n"
    ".seh_endproc\n"
    ".section .drectve,\"yn\"\n .ascii \" /EXPORT:LoadThroughRcx\"\n.text\n");

static U64 good_value = 4711;
static NOINLINE int repair(Pointers* pointers) {
  mark('r');
  *(U64*)(pointers->context + 0x80) = (U64)&good_value;  // Rcx
  return -1;
}
EXPORT U64 Repair(U64 address) {
  __try {
    return LoadThroughRcx(address);
  } __except (repair((Pointers*)_exception_info())) {
    return 1;
  }
}

EXPORT U64 ContinueTheNonContinuable(void) {
  U64 value = 0;
  __try {
    __try {
      raise_status((NTSTATUS)0xC0000001);
    } __except (mark('c'), _exception_code() == 0xC0000001 ? -1 : 0) {
      value = 1;
    }
  } __except (keep((Pointers*)_exception_info(), _exception_code() == 0xC0000025)) {
    value = 2;
  }
  return value;
}

// --- exceptions inside handlers

static NOINLINE int faulty_filter(volatile U64* from) {
  mark('g');
  U64 value = 0;
  __try {
    value = load(from);
  } __finally {
    mark('G');
  }
  return (int)value;
}
EXPORT U64 FaultInFilter(volatile U64* from) {
  U64 value = 0;
  __try {
    __try {
      raise_status((NTSTATUS)0xC0000001);
    } __except (_exception_code() == 0xC0000001 ? faulty_filter(from) : 0) {
      value = 1;
    }
  } __except (mark('o'), 1) {
    value = _exception_code();
  }
  return value;
}

EXPORT U64 FilterHandlesItsOwn(volatile U64* from) {
  U64 value = 0;
  __try {
    raise_status((NTSTATUS)0xC0000001);
  } __except (CatchInline(from) == 100) {
    value = _exception_code();
  }
  return value;
}

EXPORT U64 FaultInFinally(volatile U64* from) {
  U64 value = 0;
  __try {
    __try {
      __try {
        raise_status((NTSTATUS)0xC0000001);
      } __finally {
        mark('1');
        value = load(from);
        mark('!');
      }
    } __finally {
      mark('2');
    }
  } __except (mark('f'), 1) {
    mark('h');
    value = _exception_code();
  }
  return value;
}

EXPORT U64 FinallyHandlesItsOwn(volatile U64* from) {
  U64 value = 0;
  __try {
    __try {
      raise_status((NTSTATUS)0xC0000001);
    } __finally {
      mark('1');
      value = CatchInline(from);
      mark('2');
    }
  } __except (1) {
    mark('h');
  }
  return value;
}

EXPORT U64 RaiseInHandler(volatile U64* from) {
  U64 value = 0;
  __try {
    __try {
      value = load(from);
    } __except (1) {
      mark('a');
      raise_status((NTSTATUS)0xC0000123);
    }
  } __except (1) {
    mark('b');
    value = _exception_code();
  }
  return value;
}

EXPORT U64 InALoop(volatile U64* from) {
  U64 caught = 0;
  for (int i = 0; i < 1000; ++i) {
    __try {
      load(i % 2 == 0 ? from : &good_value);
    } __except (1) {
      ++caught;
    }
  }
  return caught;
}

// --- raised by routines

EXPORT U64 CatchStatus(NTSTATUS status) {
  __try {
    __try {
      raise_status(status);
    } __finally {
      mark('F');
    }
  } __except (keep((Pointers*)_exception_info(), 1)) {
    return _exception_code();
  }
  return 0;
}
EXPORT U64 CatchRaisedViolation(void) {
  __try {
    raise_violation();
  } __except (1) {
    return _exception_code();
  }
  return 0;
}
EXPORT U64 CatchRaisedMisalignment(void) {
  __try {
    raise_misalignment();
  } __except (1) {
    return _exception_code();
  }
  return 0;
}
EXPORT U64 CatchOwnRecord(void) {
  Record record = {0};
  record.ExceptionCode = 0xE0001234;
  record.NumberParameters = 2;
  record.ExceptionInformation[0] = 11;
  record.ExceptionInformation[1] = 22;
  __try {
    RtlRaiseException(&record);
  } __except (keep((Pointers*)_exception_info(), 1)) {
    return _exception_code();
  }
  return 0;
}
EXPORT U64 GoOnAfterOwnRecord(void) {
  Record record = {0};
  record.ExceptionCode = 0xE0001234;
  __try {
    RtlRaiseException(&record);
    mark('w');
  } __except (mark('f'), -1) {
    return 1;
  }
  return 2;
}
EXPORT void RaiseNobodyHandles(NTSTATUS status) {
  raise_status(status);
  mark('!');  // no tail call: the caller is to be seen
}

EXPORT U64 CatchCopy(void* to, const void* from, SIZE_T bytes) {
  __try {
    memcpy(to, from, bytes);
  } __except (keep((Pointers*)_exception_info(), 1)) {
    return _exception_code();
  }
  return 0;
}
EXPORT U64 CatchCompare(const void* a, const void* b, SIZE_T bytes) {
  __try {
    return (U64)(memcmp(a, b, bytes) != 0);
  } __except (1) {
    return _exception_code();
  }
}
EXPORT U64 CatchProbeForRead(const void* address, SIZE_T bytes, ULONG alignment) {
  __try {
    ProbeForRead(address, bytes, alignment);
  } __except (1) {
    return _exception_code();
  }
  return 0;
}
EXPORT U64 CatchProbeForWrite(void* address, SIZE_T bytes, ULONG alignment) {
  __try {
    ProbeForWrite(address, bytes, alignment);
  } __except (1) {
    return _exception_code();
  }
  return 0;
}
EXPORT void ProbeWithoutHandler(const void* address, SIZE_T bytes) {
  ProbeForRead(address, bytes, 1);
}

EXPORT U64 CatchLock(void* address, ULONG bytes) {
  PMDL mdl = IoAllocateMdl(address, bytes, FALSE, FALSE, NULL);
  U64 result = 0;
  __try {
    MmProbeAndLockPages(mdl, KernelMode, IoModifyAccess);
    MmUnlockPages(mdl);
  } __except (1) {
    result = (ULONG)_exception_code();
  }
  IoFreeMdl(mdl);
  return result;
}

// --- instructions

EXPORT void Divide(void) {
  __asm__ volatile("xorl %%ecx, %%ecx; movl $1, %%eax; xorl %%edx, %%edx; divl %%ecx" ::
                       : "rax", "rcx", "rdx");
}
EXPORT void DivideTooBig(void) {
  __asm__ volatile("movl $1, %%ecx; movl $1, %%eax; movl $5, %%edx; divl %%ecx" ::
                       : "rax", "rcx", "rdx");
}
EXPORT void Illegal(void) { __asm__ volatile("ud2"); }
EXPORT void Break(void) { __asm__ volatile("int3"); }
EXPORT void NotCanonical(void) {
  __asm__ volatile("movabsq $0x1234567800000000, %%rcx; movq (%%rcx), %%rax" ::: "rax", "rcx");
}
EXPORT void ReadSystem(void) {
  __asm__ volatile("movabsq $0xFFFFC00000001000, %%rcx; movq (%%rcx), %%rax" ::: "rax", "rcx");
}
EXPORT void Execute(U64 address) { ((void (*)(void))address)(); }
EXPORT void FastFail(void) { __asm__ volatile("movl $5, %%ecx; int $0x29" ::: "rcx"); }

// --- registers: rbx, rbp, rsi, rdi, r12..r15 and xmm6..xmm15 must be a caller's after a handler
// ran

EXPORT void SpoilAndFault(void);
U64 CatchSpoiler(void) {
  __try {
    SpoilAndFault();
  } __except (1) {
    return 2;
  }
  return 1;
}
EXPORT U64 BrokenRegisters(void);
__asm__(
    ".globl SpoilAndFault\n.seh_proc SpoilAndFault\nSpoilAndFault:\n"
    "  pushq %rbx\n .seh_pushreg %rbx\n  pushq %rbp\n .seh_pushreg %rbp\n"
    "  pushq %rsi\n .seh_pushreg %rsi\n  pushq %rdi\n .seh_pushreg %rdi\n"
    "  pushq %r12\n .seh_pushreg %r12\n  pushq %r13\n .seh_pushreg %r13\n"
    "  pushq %r14\n .seh_pushreg %r14\n  pushq %r15\n .seh_pushreg %r15\n"
    "  subq $200, %rsp\n .seh_stackalloc 200\n"
    "  movaps %xmm6, 32(%rsp)\n .seh_savexmm %xmm6, 32\n"
    "  movaps %xmm7, 48(%rsp)\n .seh_savexmm %xmm7, 48\n"
    "  movaps %xmm8, 64(%rsp)\n .seh_savexmm %xmm8, 64\n"
    "  movaps %xmm9, 80(%rsp)\n .seh_savexmm %xmm9, 80\n"
    "  movaps %xmm10, 96(%rsp)\n .seh_savexmm %xmm10, 96\n"
    "  movaps %xmm11, 112(%rsp)\n .seh_savexmm %xmm11, 112\n"
    "  movaps %xmm12, 128(%rsp)\n .seh_savexmm %xmm12, 128\n"
    "  movaps %xmm13, 144(%rsp)\n .seh_savexmm %xmm13, 144\n"
    "  movaps %xmm14, 160(%rsp)\n .seh_savexmm %xmm14, 160\n"
    "  movaps %xmm15, 176(%rsp)\n .seh_savexmm %xmm15, 176\n"
    " .seh_endprologue\n"
    "  movq $-1, %rbx\n  movq $-2, %rbp\n  movq $-3, %rsi\n  movq $-4, %rdi\n"
    "  movq $-5, %r12\n  movq $-6, %r13\n  movq $-7, %r14\n  movq $-8, %r15\n"
    "  pcmpeqd %xmm6, %xmm6\n  movaps %xmm6, %xmm7\n  movaps %xmm6, %xmm8\n"
    "  movaps %xmm6, %xmm9\n  movaps %xmm6, %xmm10\n  movaps %xmm6, %xmm11\n"
    "  movaps %xmm6, %xmm12\n  movaps %xmm6, %xmm13\n  movaps %xmm6, %xmm14\n"
    "  movaps %xmm6, %xmm15\n"
    "  xorl %eax, %eax\n  movq (%rax), %rax\n"
    "  addq $200, %rsp\n  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n"
    "  popq %rdi\n  popq %rsi\n  popq %rbp\n  popq %rbx\n  ret\n"
    ".seh_endproc\n"
    // Gives every kept register a value of its own, calls CatchSpoiler, returns a bit for each that
    // came back different.
    ".globl BrokenRegisters\n.seh_proc BrokenRegisters\nBrokenRegisters:\n"
    "  pushq %rbx\n .seh_pushreg %rbx\n  pushq %rbp\n .seh_pushreg %rbp\n"
    "  pushq %rsi\n .seh_pushreg %rsi\n  pushq %rdi\n .seh_pushreg %rdi\n"
    "  pushq %r12\n .seh_pushreg %r12\n  pushq %r13\n .seh_pushreg %r13\n"
    "  pushq %r14\n .seh_pushreg %r14\n  pushq %r15\n .seh_pushreg %r15\n"
    "  subq $200, %rsp\n .seh_stackalloc 200\n"
    "  movaps %xmm6, 32(%rsp)\n .seh_savexmm %xmm6, 32\n"
    "  movaps %xmm7, 48(%rsp)\n .seh_savexmm %xmm7, 48\n"
    "  movaps %xmm8, 64(%rsp)\n .seh_savexmm %xmm8, 64\n"
    "  movaps %xmm9, 80(%rsp)\n .seh_savexmm %xmm9, 80\n"
    "  movaps %xmm10, 96(%rsp)\n .seh_savexmm %xmm10, 96\n"
    "  movaps %xmm11, 112(%rsp)\n .seh_savexmm %xmm11, 112\n"
    "  movaps %xmm12, 128(%rsp)\n .seh_savexmm %xmm12, 128\n"
    "  movaps %xmm13, 144(%rsp)\n .seh_savexmm %xmm13, 144\n"
    "  movaps %xmm14, 160(%rsp)\n .seh_savexmm %xmm14, 160\n"
    "  movaps %xmm15, 176(%rsp)\n .seh_savexmm %xmm15, 176\n"
    " .seh_endprologue\n"
    "  movl $0x11, %ebx\n  movl $0x12, %ebp\n  movl $0x13, %esi\n  movl $0x14, %edi\n"
    "  movl $0x15, %r12d\n  movl $0x16, %r13d\n  movl $0x17, %r14d\n  movl $0x18, %r15d\n"
    "  movq %rbx, %xmm6\n  movq %rbp, %xmm7\n  movq %rsi, %xmm8\n  movq %rdi, %xmm9\n"
    "  movq %r12, %xmm10\n  movq %r13, %xmm11\n  movq %r14, %xmm12\n  movq %r15, %xmm13\n"
    "  movlhps %xmm6, %xmm6\n  movaps %xmm6, %xmm14\n  movaps %xmm13, %xmm15\n"
    "  callq CatchSpoiler\n"
    "  xorl $2, %eax\n"
    "  cmpq $0x11, %rbx\n  setne %cl\n  movzbl %cl, %ecx\n  shll $8, %ecx\n  orl %ecx, %eax\n"
    "  cmpq $0x12, %rbp\n  setne %cl\n  movzbl %cl, %ecx\n  shll $9, %ecx\n  orl %ecx, %eax\n"
    "  cmpq $0x13, %rsi\n  setne %cl\n  movzbl %cl, %ecx\n  shll $10, %ecx\n  orl %ecx, %eax\n"
    "  cmpq $0x14, %rdi\n  setne %cl\n  movzbl %cl, %ecx\n  shll $11, %ecx\n  orl %ecx, %eax\n"
    "  cmpq $0x15, %r12\n  setne %cl\n  movzbl %cl, %ecx\n  shll $12, %ecx\n  orl %ecx, %eax\n"
    "  cmpq $0x16, %r13\n  setne %cl\n  movzbl %cl, %ecx\n  shll $13, %ecx\n  orl %ecx, %eax\n"
    "  cmpq $0x17, %r14\n  setne %cl\n  movzbl %cl, %ecx\n  shll $14, %ecx\n  orl %ecx, %eax\n"
    "  cmpq $0x18, %r15\n  setne %cl\n  movzbl %cl, %ecx\n  shll $15, %ecx\n  orl %ecx, %eax\n"
    "  movq %xmm6, %rcx\n  xorq $0x11, %rcx\n  orq %rcx, %rax\n"
    "  movhlps %xmm6, %xmm6\n  movq %xmm6, %rcx\n  xorq $0x11, %rcx\n  orq %rcx, %rax\n"
    "  movq %xmm7, %rcx\n  xorq $0x12, %rcx\n  orq %rcx, %rax\n"
    "  movq %xmm8, %rcx\n  xorq $0x13, %rcx\n  orq %rcx, %rax\n"
    "  movq %xmm9, %rcx\n  xorq $0x14, %rcx\n  orq %rcx, %rax\n"
    "  movq %xmm10, %rcx\n  xorq $0x15, %rcx\n  orq %rcx, %rax\n"
    "  movq %xmm11, %rcx\n  xorq $0x16, %rcx\n  orq %rcx, %rax\n"
    "  movq %xmm12, %rcx\n  xorq $0x17, %rcx\n  orq %rcx, %rax\n"
    "  movq %xmm13, %rcx\n  xorq $0x18, %rcx\n  orq %rcx, %rax\n"
    "  movq %xmm14, %rcx\n  xorq $0x11, %rcx\n  orq %rcx, %rax\n"
    "  movq %xmm15, %rcx\n  xorq $0x18, %rcx\n  orq %rcx, %rax\n"
    "  movaps 32(%rsp), %xmm6\n  movaps 48(%rsp), %xmm7\n  movaps 64(%rsp), %xmm8\n"
    "  movaps 80(%rsp), %xmm9\n  movaps 96(%rsp), %xmm10\n  movaps 112(%rsp), %xmm11\n"
    "  movaps 128(%rsp), %xmm12\n  movaps 144(%rsp), %xmm13\n  movaps 160(%rsp), %xmm14\n"
    "  movaps 176(%rsp), %xmm15\n"
    "  addq $200, %rsp\n  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n"
    "  popq %rdi\n  popq %rsi\n  popq %rbp\n  popq %rbx\n  ret\n"
    ".seh_endproc\n"
    ".section .drectve,\"yn\"\n .ascii \" /EXPORT:BrokenRegisters\"\n.text\n");

// --- stack

EXPORT U64 Recurse(U64 depth) {
  volatile char block[512];
  block[0] = (char)depth;
  return depth == 0 ? 0 : Recurse(depth - 1) + (U64)block[0] * 0 + 1;
}
EXPORT U64 HugeFrame(U64 at) {
  volatile char block[3 << 20];
  block[at] = 1;
  return (U64)block[at / 2];
}
