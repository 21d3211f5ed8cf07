// A driver that executes what a process cannot: privileged instructions, loads of shared system
// data, accesses to device registers with every kind of instruction.
#include <ntddk.h>

#define EXPORT __declspec(dllexport)
typedef unsigned long long U64;
typedef unsigned int U32;

NTSTATUS DriverEntry(PDRIVER_OBJECT object, PUNICODE_STRING path) {
  (void)object;
  (void)path;
  return STATUS_SUCCESS;
}

// --- level

EXPORT U64 ReadLevel(void) {
  U64 low = 0, high = 0;
  __asm__ volatile("movq %%cr8, %0\n movq %%cr8, %%r13\n movq %%r13, %1"
                   : "=a"(low), "=r"(high)
                   :
                   : "r13");
  return low == high ? low : 99;
}
EXPORT U64 RaiseAndLower(U64 level) {
  U64 old = 0, seen = 0;
  __asm__ volatile("movq %%cr8, %0" : "=r"(old));
  __asm__ volatile("movq %0, %%cr8" ::"r"(level));
  seen = KeGetCurrentIrql();
  __asm__ volatile("movq %0, %%cr8" ::"r"(old));
  return seen << 8 | KeGetCurrentIrql();
}
EXPORT U64 LeaveRaised(U64 level) {
  __asm__ volatile("movq %0, %%cr8" ::"r"(level));
  return KeGetCurrentIrql();
}
static volatile U64 dpc_level;
static VOID NTAPI note_level(PKDPC dpc, PVOID context, PVOID a, PVOID b) {
  (void)dpc, (void)context, (void)a, (void)b;
  U64 level = 0;
  __asm__ volatile("movq %%cr8, %0" : "=r"(level));
  dpc_level = level + 100;
}
/* A DPC queued above its level runs when cr8 falls: before | after. */
EXPORT U64 DpcRunsWhenLevelFalls(void) {
  static KDPC dpc;
  dpc_level = 0;
  KeInitializeDpc(&dpc, note_level, 0);
  __asm__ volatile("movq %0, %%cr8" ::"r"(2ULL));
  KeInsertQueueDpc(&dpc, 0, 0);
  const U64 before = dpc_level;
  __asm__ volatile("movq %0, %%cr8" ::"r"(0ULL));
  return before << 16 | dpc_level;
}

// --- shared data

#define SHARED 0xFFFFF78000000000ULL
EXPORT U64 TickCount(void) { return *(volatile U64*)(SHARED + 0x320); }
EXPORT U64 InterruptTime(void) { return *(volatile U64*)(SHARED + 8); }
EXPORT U64 SystemTime(void) { return *(volatile U64*)(SHARED + 0x14); }
EXPORT U64 MajorVersion(void) { return *(volatile U32*)(SHARED + 0x26C); }
EXPORT U64 RootLetter(void) { return *(volatile unsigned short*)(SHARED + 0x30); }
/* The same byte (NtMajorVersion, 10) by several kinds of instruction; a bit for each that lies. */
EXPORT U64 WrongForms(void) {
  U64 wrong = 0, value = 0;
  unsigned char flag = 0;
  __asm__ volatile("movabsq $0xFFFFF7800000026C, %%r8\n cmpl $10, (%%r8)\n setne %0"
                   : "=r"(flag)::"r8", "cc");
  wrong |= flag;
  __asm__ volatile("movabsq $0xFFFFF7800000026C, %%r8\n testb $10, (%%r8)\n setz %0"
                   : "=r"(flag)::"r8", "cc");
  wrong |= (U64)flag << 1;
  __asm__ volatile(
      "movabsq $0xFFFFF78000000200, %%r8\n movl $0x36, %%r9d\n movzbl (%%r8,%%r9,2), %%eax"
      : "=a"(value)::"r8", "r9");
  wrong |= (U64)(value != 10) << 2;
  __asm__ volatile("movabsq $0xFFFFF7800000026C, %%r8\n movq $-1, %%rax\n movsbw (%%r8), %%ax"
                   : "=a"(value)::"r8");
  wrong |= (U64)(value != 0xFFFFFFFFFFFF000AULL) << 3;
  __asm__ volatile("movabsq $0xFFFFF7800000026C, %%r8\n movd (%%r8), %%xmm3\n movq %%xmm3, %0"
                   : "=r"(value)::"r8", "xmm3");
  wrong |= (U64)(value != 10) << 4;
  __asm__ volatile("movabsq $0xFFFFF7800000026C, %%r8\n movl $5, %%eax\n addl (%%r8), %%eax"
                   : "=a"(value)::"r8", "cc");
  wrong |= (U64)(value != 15) << 5;
  __asm__ volatile(
      "movabsq $0xFFFFF78000000260, %%r8\n movups (%%r8), %%xmm5\n psrldq $12, %%xmm5\n movq "
      "%%xmm5, %0"
      : "=r"(value)::"r8", "xmm5");
  wrong |= (U64)(value != 10) << 6;
  __asm__ volatile("movabsq $0xFFFFF7800000026C, %%r8\n imull $3, (%%r8), %%eax"
                   : "=a"(value)::"r8", "cc");
  wrong |= (U64)(value != 30) << 7;
  __asm__ volatile("movabsl 0xFFFFF7800000026C, %%eax" : "=a"(value));
  wrong |= (U64)((U32)value != 10) << 8;
  return wrong;
}
EXPORT U64 WriteShared(void) {
  *(volatile U32*)(SHARED + 0x26C) = 11;
  return 1;
}

// --- processor data

EXPORT U64 ThreadOfProcessor(void) {
  U64 value = 0;
  __asm__ volatile("movq %%gs:0x188, %0" : "=r"(value));
  return value;
}
EXPORT U64 ThreadOfCall(void) { return (U64)KeGetCurrentThread(); }
EXPORT U64 ThreadThroughPrcb(void) {
  U64 value = 0;
  __asm__ volatile("movq %%gs:0x20, %%rdx\n movq 8(%%rdx), %0" : "=r"(value)::"rdx");
  return value;
}
EXPORT U64 ProcessorNumber(void) {
  U64 value = 5;
  __asm__ volatile("movzbl %%gs:0x184, %%eax" : "=a"(value));
  return value;
}

// --- others

EXPORT U64 PortRead(void) {
  U64 value = 0;
  __asm__ volatile("movl $0x3DA, %%edx\n xorl %%eax, %%eax\n inb %%dx, %%al" : "=a"(value)::"rdx");
  return value;
}
EXPORT U64 PortWrite(void) {
  __asm__ volatile("movl $0x3C8, %%edx\n movl $7, %%eax\n outb %%al, %%dx\n outl %%eax, $0x80" ::
                       : "rax", "rdx");
  return 1;
}
EXPORT U64 FlushCaches(void) {
  __asm__ volatile("wbinvd\n mfence" ::: "memory");
  return 1;
}
EXPORT U64 MaskInterrupts(void) {
  __asm__ volatile("cli\n sti");
  return 1;
}
EXPORT U64 ReadMsr(void) {
  __asm__ volatile("movl $0x1B, %%ecx\n rdmsr" ::: "rax", "rcx", "rdx");
  return 1;
}
EXPORT U64 ReadCr3(void) {
  U64 value = 0;
  __asm__ volatile("movq %%cr3, %0" : "=r"(value));
  return value;
}
EXPORT U64 Halt(void) {
  __asm__ volatile("hlt");
  return 1;
}
EXPORT U64 Assert(void) {
  __asm__ volatile("int $0x2c");
  return 77;
}
EXPORT U64 FastFail(void) {
  __asm__ volatile("movl $3, %%ecx\n int $0x29" ::: "rcx");
  return 1;
}
EXPORT U64 Many(U64 count) {
  U64 sum = 0, level = 0;
  while (count-- != 0) {
    __asm__ volatile("movq %%cr8, %0" : "=r"(level));
    sum += level;
  }
  return sum;
}
EXPORT U64 ManyLoads(volatile U32* at, U64 count) {
  U64 sum = 0;
  while (count-- != 0) sum += *at;
  return sum;
}

// --- device registers: the test's device remembers each access

EXPORT U64 LoadEachWidth(volatile unsigned char* at) {
  U64 sum = *at;
  sum += *(volatile unsigned short*)(at + 2);
  sum += *(volatile U32*)(at + 4);
  sum += *(volatile U64*)(at + 8);
  return sum;
}
EXPORT U64 StoreEachWidth(volatile unsigned char* at) {
  *at = 0x11;
  *(volatile unsigned short*)(at + 2) = 0x2222;
  *(volatile U32*)(at + 4) = 0x33333333;
  *(volatile U64*)(at + 8) = 0x4444444444444444ULL;
  U64 value = 0x55667788;
  __asm__ volatile("movb %%ah, (%1)" ::"a"(value), "d"(at) : "memory");
  return 1;
}
EXPORT U64 ChangeInPlace(volatile U32* at) {
  U64 carry = 0;
  __asm__ volatile("orl $0x80, (%0)" ::"d"(at) : "memory", "cc");
  __asm__ volatile("andl $0xF0, (%0)" ::"d"(at) : "memory", "cc");
  __asm__ volatile("lock xorl $0x01, (%0)" ::"d"(at) : "memory", "cc");
  __asm__ volatile("incl (%0)" ::"d"(at) : "memory", "cc");
  __asm__ volatile("btsl $9, (%1)\n setc %%al\n movzbl %%al, %%eax"
                   : "=a"(carry)
                   : "d"(at)
                   : "memory", "cc");
  return carry;
}
EXPORT U64 Exchange(volatile U32* at, U32 value) {
  __asm__ volatile("xchgl %0, (%1)" : "+a"(value) : "d"(at) : "memory");
  return value;
}
EXPORT U64 CompareExchange(volatile U32* at, U32 expected, U32 value) {
  __asm__ volatile("lock cmpxchgl %2, (%1)"
                   : "+a"(expected)
                   : "d"(at), "r"(value)
                   : "memory", "cc");
  return expected;
}
EXPORT U64 TestBit(volatile U32* at) {
  __asm__ volatile goto("testl $1, (%0)\n jnz %l[set]" ::"d"(at) : "cc", "memory" : set);
  return 0;
set:
  return 1;
}
EXPORT U64 CopyIn(U32* to, volatile U32* from, U64 count) {
  __asm__ volatile("rep movsl" : "+D"(to), "+S"(from), "+c"(count)::"memory");
  return count;
}
EXPORT U64 CopyOut(volatile U32* to, U32* from, U64 count) {
  __asm__ volatile("rep movsl" : "+D"(to), "+S"(from), "+c"(count)::"memory");
  return count;
}
EXPORT U64 Fill(volatile U32* to, U32 value, U64 count) {
  __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(value) : "memory");
  return count;
}
EXPORT U64 VectorLoad(volatile U64* at) {
  U64 low = 0, high = 0;
  __asm__ volatile(
      "movups (%2), %%xmm1\n movq %%xmm1, %0\n movhlps %%xmm1, %%xmm1\n movq %%xmm1, %1"
      : "=r"(low), "=r"(high)
      : "d"(at)
      : "xmm1");
  return low + high;
}
EXPORT U64 VectorStore(volatile U64* at, U64 value) {
  __asm__ volatile("movq %1, %%xmm2\n movlhps %%xmm2, %%xmm2\n movups %%xmm2, (%0)" ::"d"(at),
                   "r"(value)
                   : "xmm2", "memory");
  return 1;
}
EXPORT U64 ReadOne(volatile U32* at) { return *at; }
EXPORT U64 CopyWithCall(volatile U32* to, U32* from, U64 bytes) {
  memcpy((void*)to, from, bytes);
  return 1;
}
