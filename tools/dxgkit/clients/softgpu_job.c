#include "tools/dxgkit/clients/softgpu_job.h"

#include <stdlib.h>
#include <string.h>

#define STEPS 26u       /* of most jobs: each kind of command at least twice */
#define STEPS_LONG 330u /* two references each do not fit the driver's list of patch locations */
#define SCRATCH_BYTES 8192u
#define COPY_BYTES_MAX 6000u
#define PIXEL_BYTES 4u

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/* 0 to below - 1. */
static uint32_t any(SoftgpuJob* job, uint32_t below) {
  job->random += 0x9E3779B97F4A7C15ull;
  return (uint32_t)(mix(job->random) >> 16) % below;
}
static uint32_t between(SoftgpuJob* job, uint32_t least, uint32_t most) {
  return least + any(job, most - least + 1);
}
static uint64_t any_bits(SoftgpuJob* job) {
  const uint64_t high = any(job, 0xFFFFFFFFu);
  return high << 32 | any(job, 0xFFFFFFFFu);
}

uint32_t chosen_pitch(uint32_t width) {
  const uint32_t most = width * PIXEL_BYTES + SGPU_UMD_PITCH_ALIGNMENT - 1;
  return most - most % SGPU_UMD_PITCH_ALIGNMENT;
}

static Shape image_shape(SoftgpuJob* job) {
  Shape shape;
  shape.width = between(job, 17, 80);
  shape.height = between(job, 9, 40);
  /* Half of them with the pitch that the driver would choose. */
  shape.pitch = shape.width * PIXEL_BYTES;
  if (any(job, 2) == 0) {
    shape.pitch = chosen_pitch(shape.width);
  } else {
    shape.pitch += PIXEL_BYTES * any(job, 12);
  }
  shape.size_bytes = shape.pitch * shape.height;
  return shape;
}

void make_job(SoftgpuJob* job, uint64_t seed, uint32_t node, uint64_t busy_ns) {
  memset(job, 0, sizeof(*job));
  job->seed = seed;
  job->node = node;
  job->busy_ns = busy_ns;
  job->random = mix(seed);
  /* Some are of whole pages, and some large enough for a page table of their own. */
  const uint32_t unit = any(job, 2) == 0 ? 16384 : 4096;
  const uint32_t odd = any(job, 3) == 0 ? 0 : any(job, 4096);
  memset(job->shapes, 0, sizeof(job->shapes));
  job->shapes[kBytes].size_bytes = between(job, 3, 64) * unit - odd;
  job->shapes[kImage] = image_shape(job);
  job->shapes[kVideo].size_bytes = job->shapes[kBytes].size_bytes;
  job->shapes[kVideoImage] = image_shape(job);
  job->shapes[kAnywhere] = image_shape(job);
  job->scratch = job->shapes[kVideo].size_bytes + job->shapes[kVideoImage].size_bytes;
  job->shapes[kReadBack].size_bytes = job->scratch + SCRATCH_BYTES + any(job, 100);
  job->steps = any(job, 6) == 0 ? STEPS_LONG : STEPS;
  job->shapes[kTwin].size_bytes = 2 * 4 * (uint32_t)(200 + mix(seed + 1) % 1200);
}

void source_bytes(const SoftgpuJob* job, uint32_t allocation, uint8_t* bytes) {
  const uint32_t size = job->shapes[allocation].size_bytes;
  for (uint32_t at = 0; at < size; at += 8) {
    const uint64_t word = mix(job->seed + 7 * allocation + 0x100000001ull * at);
    memcpy(bytes + at, &word, size - at < 8 ? size - at : 8);
  }
}

/* --- places --- */

static uint32_t lowest(const SoftgpuJob* job, uint32_t allocation, int written) {
  return written && allocation == kReadBack ? job->scratch : 0;
}

/* A place for `bytes` bytes: at the very end, at the beginning, or anywhere; they fit. */
static SgpuUmdReference place(SoftgpuJob* job, uint32_t allocation, int written, uint32_t bytes,
                              uint32_t alignment) {
  const uint32_t first = (lowest(job, allocation, written) + alignment - 1) / alignment;
  const uint32_t last = (job->shapes[allocation].size_bytes - bytes) / alignment;
  const uint32_t way = any(job, 4);
  SgpuUmdReference reference = {allocation, last};
  if (way == 1) reference.offset = first;
  if (way > 1) reference.offset = between(job, first, last);
  reference.offset *= alignment;
  return reference;
}

/* An allocation with room for `bytes` bytes. Images may be too small. */
static uint32_t read_allocation(SoftgpuJob* job, uint32_t bytes) {
  const uint32_t allocation = any(job, kTwin); /* before it */
  return bytes <= job->shapes[allocation].size_bytes ? allocation : kBytes;
}
static uint32_t written_allocation(SoftgpuJob* job, uint32_t bytes) {
  const uint32_t allocation = between(job, kVideo, kReadBack);
  return bytes <= job->shapes[allocation].size_bytes ? allocation : kVideo;
}

/* Two places that do not overlap. Often they touch. */
static void two_places(SoftgpuJob* job, SgpuUmdReference* source, uint32_t source_bytes,
                       SgpuUmdReference* destination, uint32_t destination_bytes,
                       uint32_t alignment) {
  const uint32_t to = written_allocation(job, destination_bytes);
  const uint32_t both = source_bytes + destination_bytes;
  const uint32_t room = job->shapes[to].size_bytes - lowest(job, to, 1);
  /* Behind the first there may be bytes up to the next aligned place. */
  if (any(job, 3) == 0 && both + 2 * alignment <= room) {
    const int forwards = any(job, 2) != 0;
    const uint32_t head = forwards ? source_bytes : destination_bytes;
    const uint32_t gap = (alignment - head % alignment) % alignment;
    *source = *destination = place(job, to, 1, both + gap, alignment);
    (forwards ? destination : source)->offset += head + gap;
    return;
  }
  uint32_t from = read_allocation(job, source_bytes);
  if (from == to) from = kBytes;
  *source = place(job, from, 0, source_bytes, alignment);
  *destination = place(job, to, 1, destination_bytes, alignment);
}

/* --- commands --- */

static Command start(uint32_t opcode, uint32_t size_bytes) {
  Command command;
  memset(&command, 0, sizeof(command));
  command.header.opcode = opcode;
  command.header.size_bytes = size_bytes;
  return command;
}
static void put(SoftgpuJob* job, Command command) { job->queue[job->queued++] = command; }

static void put_copy(SoftgpuJob* job, SgpuUmdReference source, SgpuUmdReference destination,
                     uint32_t size_bytes) {
  Command command = start(SGPU_UMD_OP_COPY, sizeof(command.copy));
  command.copy.source = source;
  command.copy.destination = destination;
  command.copy.size_bytes = size_bytes;
  put(job, command);
}
static void put_fill(SoftgpuJob* job, SgpuUmdReference destination, uint32_t size_bytes) {
  Command command = start(SGPU_UMD_OP_FILL, sizeof(command.fill));
  command.fill.destination = destination;
  command.fill.size_bytes = size_bytes;
  command.fill.pattern = (uint32_t)any_bits(job);
  put(job, command);
}

static void some_copy(SoftgpuJob* job) {
  const uint32_t bytes = any(job, 4) == 0 ? between(job, 1, 9) : between(job, 1, COPY_BYTES_MAX);
  SgpuUmdReference source, destination;
  two_places(job, &source, bytes, &destination, bytes, 1);
  /* Ranges that overlap move as if through a buffer, in both directions. */
  if (source.allocation == destination.allocation && any(job, 2) == 0) {
    const uint32_t closer = any(job, bytes);
    if (source.offset < destination.offset)
      source.offset += closer;
    else
      destination.offset += closer;
  }
  put_copy(job, source, destination, bytes);
}

static void some_fill(SoftgpuJob* job) {
  const uint32_t bytes = 4 * between(job, 1, 500);
  put_fill(job, place(job, written_allocation(job, bytes), 1, bytes, 4), bytes);
}

static uint32_t extent(uint32_t pitch, uint32_t row_bytes, uint32_t rows) {
  return (rows - 1) * pitch + row_bytes;
}

static void some_blit2d(SoftgpuJob* job) {
  Command command = start(SGPU_UMD_OP_BLIT2D, sizeof(command.blit2d));
  SgpuUmdBlit2d* c = &command.blit2d;
  c->width_bytes = between(job, 1, 150);
  c->height = between(job, 1, 14);
  c->source_pitch = c->width_bytes + (any(job, 4) == 0 ? 0 : any(job, 60));
  c->destination_pitch = c->width_bytes + (any(job, 4) == 0 ? 0 : any(job, 60));
  two_places(job, &c->source, extent(c->source_pitch, c->width_bytes, c->height), &c->destination,
             extent(c->destination_pitch, c->width_bytes, c->height), 1);
  put(job, command);
}

static int32_t one_of(SoftgpuJob* job, int32_t a, int32_t b, int32_t least, int32_t most) {
  const uint32_t way = any(job, 6);
  if (way < 2) return way == 0 ? a : b;
  return least + (int32_t)any(job, (uint32_t)(most - least) + 1);
}

static void some_convolve(SoftgpuJob* job) {
  Command command = start(SGPU_UMD_OP_CONVOLVE, sizeof(command.convolve));
  SgpuUmdConvolve* c = &command.convolve;
  c->source_width = between(job, 1, 26);
  c->source_height = between(job, 1, 14);
  c->source_pitch = PIXEL_BYTES * (c->source_width + any(job, 9));
  c->output_width = between(job, 1, c->source_width);
  c->output_height = between(job, 1, c->source_height);
  c->output_x = any(job, c->source_width - c->output_width + 1);
  c->output_y = any(job, c->source_height - c->output_height + 1);
  if (any(job, 2) == 0) c->output_x = c->source_width - c->output_width;
  if (any(job, 2) == 0) c->output_y = c->source_height - c->output_height;
  c->destination_pitch = PIXEL_BYTES * (c->output_width + any(job, 9));
  c->kernel_width = 1 + 2 * any(job, 4);
  c->kernel_height = 1 + 2 * any(job, 4);
  c->divisor = one_of(job, 1, 1 << 24, 1, 300);
  c->bias = one_of(job, -255, 255, -100, 100);
  c->flags = any(job, 8);
  const int32_t largest = any(job, 4) == 0 ? 32767 : 40;
  for (uint32_t i = 0; i < SGPU_UMD_KERNEL_TAPS; ++i) {
    c->kernel[i] = (int16_t)one_of(job, 0, 1, -largest - 1, largest);
    c->kernel2[i] = (int16_t)one_of(job, 0, -1, -largest - 1, largest);
  }
  two_places(
      job, &c->source, extent(c->source_pitch, PIXEL_BYTES * c->source_width, c->source_height),
      &c->destination,
      extent(c->destination_pitch, PIXEL_BYTES * c->output_width, c->output_height), PIXEL_BYTES);
  put(job, command);
}

static void some_downscale(SoftgpuJob* job) {
  Command command = start(SGPU_UMD_OP_DOWNSCALE, sizeof(command.downscale));
  SgpuUmdDownscale* c = &command.downscale;
  c->source_width = between(job, 1, 31);
  c->source_height = between(job, 1, 15);
  const uint32_t width = (c->source_width + 1) / 2, height = (c->source_height + 1) / 2;
  c->source_pitch = PIXEL_BYTES * (c->source_width + any(job, 7));
  c->destination_pitch = PIXEL_BYTES * (width + any(job, 7));
  two_places(
      job, &c->source, extent(c->source_pitch, PIXEL_BYTES * c->source_width, c->source_height),
      &c->destination, extent(c->destination_pitch, PIXEL_BYTES * width, height), PIXEL_BYTES);
  put(job, command);
}

static void some_checksum(SoftgpuJob* job) {
  Command command = start(SGPU_UMD_OP_CHECKSUM, sizeof(command.checksum));
  SgpuUmdChecksum* c = &command.checksum;
  c->width_bytes = between(job, 1, 200);
  c->height = between(job, 1, 9);
  c->pitch = c->width_bytes + any(job, 50);
  c->kind = any(job, 2) == 0 ? SGPU_UMD_CHECKSUM_FNV1A64 : SGPU_UMD_CHECKSUM_SUM64;
  const uint32_t bytes = extent(c->pitch, c->width_bytes, c->height);
  c->source = place(job, read_allocation(job, bytes), 0, bytes, 1);
  c->result = place(job, written_allocation(job, 8), 1, 8, 8);
  put(job, command);
}

/* A store, then a wait that it ends; a signal above or below it, then another wait. */
static void some_semaphore(SoftgpuJob* job) {
  Command command = start(SGPU_UMD_OP_FENCE_WRITE, sizeof(command.fence));
  const uint32_t width = any(job, 2) == 0 ? 4 : 8;
  const uint64_t most = width == 4 ? 0xFFFFFFFFu : ~0ull;
  const uint64_t value = any(job, 4) == 0 ? most : any_bits(job) & most;
  const uint64_t signal = any_bits(job) & most;
  command.fence.memory = place(job, written_allocation(job, width), 1, width, width);
  command.fence.width = width;
  command.fence.value = value;
  put(job, command);
  command.header.opcode = SGPU_UMD_OP_SEM_WAIT;
  if (any(job, 2) == 0) command.fence.value -= value / 3;
  put(job, command);
  command.header.opcode = SGPU_UMD_OP_SEM_SIGNAL;
  command.fence.value = signal;
  put(job, command);
  command.header.opcode = SGPU_UMD_OP_SEM_WAIT;
  command.fence.value = value > signal ? value : signal;
  put(job, command);
}

static void some_delay(SoftgpuJob* job) {
  Command command = start(SGPU_UMD_OP_DELAY, sizeof(command.delay));
  command.delay.duration_ns = any(job, 2000);
  command.delay.flags = any(job, 2) == 0 ? SGPU_UMD_DELAY_PREEMPTIBLE : 0;
  put(job, command);
}

static SgpuUmdReference at(uint32_t allocation, uint32_t offset) {
  const SgpuUmdReference reference = {allocation, offset};
  return reference;
}

/* As put_fill, without a number of the seed. */
static void put_twin_pattern(SoftgpuJob* job, uint32_t size_bytes) {
  Command command = start(SGPU_UMD_OP_FILL, sizeof(command.fill));
  command.fill.destination = at(kTwin, 0);
  command.fill.size_bytes = size_bytes;
  command.fill.pattern = 0xC5C5C5C5u;
  put(job, command);
}

/* In the middle of the job: then one that is preempted there has something behind it. What is right
 * before it moves bytes by one: so a driver shows that goes on too early in a part of a buffer. */
static void put_busy_time(SoftgpuJob* job) {
  if (job->in_parts) put_copy(job, at(kVideo, 0), at(kVideo, 1), 64);
  if (job->busy_ns == 0) return;
  Command command = start(SGPU_UMD_OP_DELAY, sizeof(command.delay));
  command.delay.duration_ns = job->busy_ns;
  command.delay.flags = SGPU_UMD_DELAY_PREEMPTIBLE;
  put(job, command);
}

/* Nothing of what was in the memory that the GPU writes may count. */
static void first_commands(SoftgpuJob* job, uint32_t step) {
  const Shape* shapes = job->shapes;
  const uint32_t odd = shapes[kReadBack].size_bytes % 4, rest = shapes[kReadBack].size_bytes - odd;
  const uint32_t half = shapes[kTwin].size_bytes / 2;
  switch (step) {
    case 0:
      put_copy(job, at(kTwin, 0), at(kTwin, half), half);
      put_twin_pattern(job, half);
      put_copy(job, at(kBytes, 0), at(kVideo, 0), shapes[kVideo].size_bytes);
      return;
    case 1:
      put_fill(job, at(kVideoImage, 0), shapes[kVideoImage].size_bytes);
      put_fill(job, at(kAnywhere, 0), shapes[kAnywhere].size_bytes);
      return;
    default:
      put_fill(job, at(kReadBack, 0), rest);
      if (odd != 0) put_copy(job, at(kImage, 5), at(kReadBack, rest), odd);
      return;
  }
}
/* What the CPU cannot see is copied to where it can. */
static void last_commands(SoftgpuJob* job) {
  const Shape* image = &job->shapes[kVideoImage];
  put_copy(job, at(kVideo, 0), at(kReadBack, 0), job->shapes[kVideo].size_bytes);
  Command command = start(SGPU_UMD_OP_BLIT2D, sizeof(command.blit2d));
  command.blit2d.source = at(kVideoImage, 0);
  command.blit2d.destination = at(kReadBack, job->shapes[kVideo].size_bytes);
  command.blit2d.source_pitch = command.blit2d.destination_pitch = image->pitch;
  command.blit2d.width_bytes = image->pitch;
  command.blit2d.height = image->height;
  put(job, command);
  const uint32_t half = job->shapes[kTwin].size_bytes / 2;
  put_copy(job, at(kTwin, half), at(kTwin, 0), half);
}

enum { kFirstSteps = 3 };

static void next_step(SoftgpuJob* job) {
  static void (*const kKinds[])(SoftgpuJob*) = {
      some_copy,      some_blit2d,    some_fill, some_checksum,
      some_semaphore, some_delay,     some_copy, some_blit2d, /* node 3D only: */
      some_convolve,  some_downscale,
  };
  const uint32_t kinds = job->node == SGPU_UMD_NODE_3D ? 10 : 8;
  job->queued = job->taken = 0;
  const uint32_t step = job->step++;
  if (step == kFirstSteps + STEPS / 2) put_busy_time(job);
  if (step < kFirstSteps)
    first_commands(job, step);
  else if (step < kFirstSteps + job->steps)
    kKinds[(step + job->seed % 16) % kinds](job);
  else if (step == kFirstSteps + job->steps)
    last_commands(job);
}

int next_command(SoftgpuJob* job, Command* command) {
  if (job->taken == job->queued) next_step(job);
  if (job->taken == job->queued) return 0;
  *command = job->queue[job->taken++];
  return 1;
}

uint32_t references_of(const Command* command, SgpuUmdReference* references[2], int written[2]) {
  /* They stand behind the header in every command, what is read before what is written. */
  SgpuUmdReference* const first = (SgpuUmdReference*)((uint8_t*)command + sizeof(SgpuUmdCommand));
  references[0] = first;
  references[1] = first + 1;
  written[0] = 0;
  written[1] = 1;
  switch (command->header.opcode) {
    case SGPU_UMD_OP_DELAY:
    case SGPU_UMD_OP_NOP:
    case SGPU_UMD_OP_END:
      return 0;
    case SGPU_UMD_OP_FENCE_WRITE:
    case SGPU_UMD_OP_SEM_SIGNAL:
    case SGPU_UMD_OP_FILL:
      written[0] = 1;
      return 1;
    case SGPU_UMD_OP_SEM_WAIT:
      return 1;
    default:
      return 2;
  }
}

/* --- the same on the CPU --- */

static uint64_t clamp(int64_t value, int64_t least, int64_t most) {
  return (uint64_t)(value < least ? least : value > most ? most : value);
}

static int64_t tap_sum(const SgpuUmdConvolve* c, const int16_t* kernel, const uint8_t* source,
                       uint32_t x, uint32_t y, uint32_t channel) {
  int64_t sum = 0;
  for (uint32_t j = 0; j < c->kernel_height; ++j) {
    const uint64_t row =
        clamp((int64_t)y + j - c->kernel_height / 2, 0, (int64_t)c->source_height - 1);
    for (uint32_t i = 0; i < c->kernel_width; ++i) {
      const uint64_t column =
          clamp((int64_t)x + i - c->kernel_width / 2, 0, (int64_t)c->source_width - 1);
      sum += (int64_t)kernel[j * c->kernel_width + i] *
             source[row * c->source_pitch + column * PIXEL_BYTES + channel];
    }
  }
  return sum;
}

static void apply_convolve(const SgpuUmdConvolve* c, const uint8_t* source, uint8_t* destination) {
  for (uint32_t y = 0; y < c->output_height; ++y) {
    for (uint32_t x = 0; x < c->output_width * PIXEL_BYTES; ++x) {
      const uint32_t from_x = c->output_x + x / PIXEL_BYTES, from_y = c->output_y + y;
      const uint32_t channel = x % PIXEL_BYTES;
      uint8_t* const out = destination + (uint64_t)y * c->destination_pitch + x;
      if (channel == 3 && (c->flags & SGPU_UMD_CONVOLVE_KEEP_ALPHA) != 0) {
        *out = source[(uint64_t)from_y * c->source_pitch + from_x * PIXEL_BYTES + 3];
        continue;
      }
      int64_t n = tap_sum(c, c->kernel, source, from_x, from_y, channel);
      if ((c->flags & (SGPU_UMD_CONVOLVE_ABS | SGPU_UMD_CONVOLVE_GRADIENT)) != 0) n = llabs(n);
      if ((c->flags & SGPU_UMD_CONVOLVE_GRADIENT) != 0)
        n += llabs(tap_sum(c, c->kernel2, source, from_x, from_y, channel));
      n += c->divisor / 2;
      const int64_t below = n < 0 ? (n - c->divisor + 1) / c->divisor : n / c->divisor;
      *out = (uint8_t)clamp(below + c->bias, 0, 255);
    }
  }
}

static void apply_downscale(const SgpuUmdDownscale* c, const uint8_t* source,
                            uint8_t* destination) {
  for (uint32_t y = 0; y < (c->source_height + 1) / 2; ++y) {
    const uint64_t row0 = 2 * y, row1 = clamp(2 * y + 1, 0, (int64_t)c->source_height - 1);
    for (uint32_t x = 0; x < (c->source_width + 1) / 2; ++x) {
      const uint64_t left = 2 * x, right = clamp(2 * x + 1, 0, (int64_t)c->source_width - 1);
      for (uint32_t channel = 0; channel < PIXEL_BYTES; ++channel) {
        const uint32_t sum = source[row0 * c->source_pitch + left * PIXEL_BYTES + channel] +
                             source[row0 * c->source_pitch + right * PIXEL_BYTES + channel] +
                             source[row1 * c->source_pitch + left * PIXEL_BYTES + channel] +
                             source[row1 * c->source_pitch + right * PIXEL_BYTES + channel];
        destination[(uint64_t)y * c->destination_pitch + x * PIXEL_BYTES + channel] =
            (uint8_t)((sum + 2) / 4);
      }
    }
  }
}

static uint64_t checksum(const SgpuUmdChecksum* c, const uint8_t* source) {
  const int fnv = c->kind == SGPU_UMD_CHECKSUM_FNV1A64;
  uint64_t sum = fnv ? 0xCBF29CE484222325ull : 0;
  for (uint32_t y = 0; y < c->height; ++y) {
    for (uint32_t x = 0; x < c->width_bytes; ++x) {
      const uint8_t byte = source[(uint64_t)y * c->pitch + x];
      sum = fnv ? (sum ^ byte) * 0x100000001B3ull : sum + byte;
    }
  }
  return sum;
}

static void apply_fence(const SgpuUmdFence* c, uint8_t* memory) {
  uint64_t present = 0;
  memcpy(&present, memory, c->width);
  if (c->header.opcode == SGPU_UMD_OP_FENCE_WRITE || present < c->value)
    memcpy(memory, &c->value, c->width);
}

void apply_command(const Command* command, uint8_t* const memory[kAllocations]) {
  SgpuUmdReference* references[2];
  int written[2];
  uint8_t* bytes[2] = {NULL, NULL};
  const uint32_t count = references_of(command, references, written);
  for (uint32_t i = 0; i < count; ++i)
    bytes[i] = memory[references[i]->allocation] + references[i]->offset;
  switch (command->header.opcode) {
    case SGPU_UMD_OP_FENCE_WRITE:
    case SGPU_UMD_OP_SEM_SIGNAL:
      apply_fence(&command->fence, bytes[0]);
      return;
    case SGPU_UMD_OP_COPY:
      memmove(bytes[1], bytes[0], command->copy.size_bytes);
      return;
    case SGPU_UMD_OP_FILL:
      for (uint64_t i = 0; i < command->fill.size_bytes; i += 4)
        memcpy(bytes[0] + i, &command->fill.pattern, 4);
      return;
    case SGPU_UMD_OP_BLIT2D: {
      const SgpuUmdBlit2d* c = &command->blit2d;
      for (uint64_t y = 0; y < c->height; ++y)
        memmove(bytes[1] + y * c->destination_pitch, bytes[0] + y * c->source_pitch,
                c->width_bytes);
      return;
    }
    case SGPU_UMD_OP_CONVOLVE:
      apply_convolve(&command->convolve, bytes[0], bytes[1]);
      return;
    case SGPU_UMD_OP_DOWNSCALE:
      apply_downscale(&command->downscale, bytes[0], bytes[1]);
      return;
    case SGPU_UMD_OP_CHECKSUM: {
      const uint64_t sum = checksum(&command->checksum, bytes[0]);
      memcpy(bytes[1], &sum, sizeof(sum));
      return;
    }
    default: /* waits and delays change nothing */
      return;
  }
}
