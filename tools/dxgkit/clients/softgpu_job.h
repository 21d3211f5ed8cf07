/* The jobs of the softgpu client plug-in: what commands they have, and what those must do.
 *
 * A seed and a node choose a job. make_job() lays out its allocations; next_command() gives its
 * commands one by one; apply_command() does on the CPU what the engine must do. A command here
 * names allocations of the job, not entries of a list or addresses: softgpu_client.c puts in those.
 *
 * Every job begins by writing every byte of the allocations that the GPU writes, kTwin excepted. So
 * its result does not depend on what was in them, and a job can run again on what it left. kTwin
 * has two halves: the first commands move the first half to the second and put a pattern in its
 * place, the last ones move it back. A job that goes back to its beginning on the way shows there.
 */
#ifndef DXGKIT_CLIENTS_SOFTGPU_JOB_H_
#define DXGKIT_CLIENTS_SOFTGPU_JOB_H_

#include <stdint.h>

#include "miniports/softgpu/softgpu_umd.h"

/* The allocations of every job. The GPU only reads the first two. */
enum { kBytes, kImage, kVideo, kVideoImage, kAnywhere, kReadBack, kTwin, kAllocations };

typedef struct Shape {
  uint32_t size_bytes;
  uint32_t width, height, pitch; /* 0 for plain bytes */
} Shape;

typedef union Command {
  SgpuUmdCommand header;
  SgpuUmdFence fence;
  SgpuUmdCopy copy;
  SgpuUmdFill fill;
  SgpuUmdBlit2d blit2d;
  SgpuUmdConvolve convolve;
  SgpuUmdDownscale downscale;
  SgpuUmdChecksum checksum;
  SgpuUmdDelay delay;
  uint8_t bytes[sizeof(SgpuUmdConvolve)];
} Command;

/* A job, and how far next_command() has come in it. */
typedef struct SoftgpuJob {
  uint64_t seed;
  uint32_t node;
  Shape shapes[kAllocations];
  uint32_t scratch; /* kReadBack: copies of video memory are before it, other results behind it */
  uint32_t steps;   /* between the first and the last commands */
  int in_parts;     /* set after make_job(): the kernel may run its commands in several parts */

  uint64_t random;
  uint32_t step;
  uint64_t busy_ns;
  Command queue[6]; /* commands that belong together */
  uint32_t queued, taken;
} SoftgpuJob;

void make_job(SoftgpuJob* job, uint64_t seed, uint32_t node, uint64_t busy_ns);
/* 0: there are no more. */
int next_command(SoftgpuJob* job, Command* command);
/* `memory` has the bytes of each allocation. */
void apply_command(const Command* command, uint8_t* const memory[kAllocations]);

/* Where in a command its references are. The number of references: 0 to 2. */
uint32_t references_of(const Command* command, SgpuUmdReference* references[2], int written[2]);
/* What the CPU uploads to kBytes and kImage. */
void source_bytes(const SoftgpuJob* job, uint32_t allocation, uint8_t* bytes);
/* The pitch that the driver chooses for an image of so many pixels a row. */
uint32_t chosen_pitch(uint32_t width);
uint64_t mix(uint64_t x);

#endif /* DXGKIT_CLIENTS_SOFTGPU_JOB_H_ */
