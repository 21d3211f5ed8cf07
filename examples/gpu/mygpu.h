// What the device and its driver agree on.
#pragma once

typedef unsigned int GPU32;
typedef unsigned long long GPU64;

#define GPU_VENDOR 0x1D4B
#define GPU_DEVICE 0x6701
#define GPU_MEMORY_BYTES 0x400000u
#define GPU_MEMORY_BASE 0x10000000000ull  // in commands; above all memory of a machine

// Registers of 32 bits, in BAR 0. BAR 1 is the GPU's memory.
#define REG_RING_LOW 0x00  // bus address of the ring
#define REG_RING_HIGH 0x04
#define REG_TAIL 0x08       // entries that the driver has put into the ring since the reset
#define REG_HEAD 0x0C       // entries that the engine is done with (read only)
#define REG_FENCE 0x10      // of the last one (read only)
#define REG_INTERRUPT 0x14  // GPU_* bits: what has happened; writing a bit clears it
#define REG_PREEMPT 0x18    // write: drop what has not begun
#define REG_RESET 0x1C      // write: stop; nothing is written any more when the access is over
#define REG_ID 0x20         // GPU_ID (read only); all ones: the device is not there
#define GPU_BAR0_BYTES 0x1000u
#define GPU_ID 0x4D475055u

#define GPU_COMPLETED 1u  // entries are done
#define GPU_PREEMPTED 2u  // the engine has dropped what had not begun
#define GPU_FAULTED 4u    // a command named an address that is no memory

#define RING_ENTRIES 64u

// An address in a command is one of the GPU's memory, or a bus address of system memory.
enum { OPERATION_FILL, OPERATION_COPY };
typedef struct COMMAND {
  GPU32 Operation;
  GPU32 Value;  // FILL: four bytes that are written again and again
  GPU64 Destination;
  GPU64 Source;
  GPU64 Bytes;
} COMMAND;

typedef struct RING_ENTRY {
  GPU64 Commands;  // bus address
  GPU32 Count;
  GPU32 Fence;
} RING_ENTRY;
