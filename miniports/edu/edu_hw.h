// The registers of edu, the teaching device of QEMU, as its public description has them. BAR 0 has
// 1 MiB; below 0x80 only accesses of 4 bytes are answered.
#pragma once

#define EDU_VENDOR 0x1234
#define EDU_DEVICE 0x11E8
#define EDU_BAR0_BYTES 0x100000

#define EDU_REG_ID 0x00         // 0xRRrr00ED: major and minor version
#define EDU_REG_ALIVE 0x04      // reads as the complement of what was written last
#define EDU_REG_FACTORIAL 0x08  // a write begins to compute; the result replaces it
#define EDU_REG_STATUS 0x20
#define EDU_REG_INTERRUPT 0x24    // what it has to say; read only
#define EDU_REG_RAISE 0x60        // sets these bits of EDU_REG_INTERRUPT and interrupts
#define EDU_REG_ACKNOWLEDGE 0x64  // clears these bits of EDU_REG_INTERRUPT
#define EDU_REG_DMA_SOURCE 0x80
#define EDU_REG_DMA_DESTINATION 0x88
#define EDU_REG_DMA_BYTES 0x90
#define EDU_REG_DMA_COMMAND 0x98

#define EDU_ID_MASK 0xFFFF
#define EDU_ID 0x00ED
#define EDU_STATUS_COMPUTING 0x01  // read only
#define EDU_STATUS_INTERRUPT 0x80  // interrupt when a factorial is computed

#define EDU_DMA_RUN 0x1        // reads as 1 until the transfer is over
#define EDU_DMA_TO_MEMORY 0x2  // from the buffer of the device; otherwise into it
#define EDU_DMA_INTERRUPT 0x4  // when the transfer is over

#define EDU_FACTORIAL_DONE 0x001
#define EDU_DMA_DONE 0x100

// The buffer of the device, as its DMA sees it. A transfer that leaves it stops the device for
// good.
#define EDU_BUFFER_BASE 0x40000
#define EDU_BUFFER_BYTES 4096
