/* What the memory of a job of the virtio GPU's client is like, and what it must be like behind the
 * job: all of it comes from the job's seed. */
#ifndef DXGKIT_VIRTIOGPU_CONTENT_H_
#define DXGKIT_VIRTIOGPU_CONTENT_H_

#include <stdint.h>

#include "tools/dxgkit/client_plugin.h"

/* Allocations of a job: surfaces, and with 3D the resources behind them. */
enum { kSurfaces = 3, kCarried = 3, kCleared = 4, kLayered = 5, kAllocations = 6 };
#define PIXEL_BYTES 4u

static uint64_t next_random(uint64_t* state) {
  *state += 0x9E3779B97F4A7C15ull;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
static uint32_t below(uint64_t* state, uint32_t limit) {
  return (uint32_t)(next_random(state) % limit);
}

/* The size of a surface of the job with this seed: not round. */
static void shape_of(uint64_t seed, uint32_t index, uint32_t* width, uint32_t* height) {
  uint64_t state = seed * 8 + index;
  *width = 1 + below(&state, index == kLayered ? 40 : 300);
  *height = 1 + below(&state, index == kLayered ? 30 : 200);
  if (index != kLayered) return;
  ++*width; /* a level with half of it has a pixel */
  ++*height;
}

/* Of the resource with layers: pixels of a level, and where it is in the memory. */
#define LAYERS 3u
#define LEVELS 2u
typedef struct Level {
  uint32_t width, height;
  uint32_t from, stride, layer_stride; /* what goes to the renderer */
  uint32_t to;                         /* what comes from there, without padding */
} Level;

static uint32_t layer_bytes(const Level* level) {
  return level->width * level->height * PIXEL_BYTES;
}

/* Returns the bytes of the memory. */
static uint32_t levels_of(uint32_t width, uint32_t height, Level levels[LEVELS]) {
  uint32_t at = 4;
  for (uint32_t i = 0; i < LEVELS; ++i) {
    Level* const level = &levels[i];
    level->width = width >> i;
    level->height = height >> i;
    level->from = at;
    level->stride = (level->width + 2 + i) * PIXEL_BYTES;
    level->layer_stride = (level->height + 1 + i) * level->stride + 3 * PIXEL_BYTES;
    at += LAYERS * level->layer_stride;
  }
  for (uint32_t i = 0; i < LEVELS; ++i) {
    levels[i].to = at;
    at += LAYERS * layer_bytes(&levels[i]);
  }
  return at;
}

static uint8_t byte_at(uint64_t seed, uint32_t index, uint64_t at) {
  uint64_t state = seed + index * 977 + at / 8;
  return (uint8_t)(next_random(&state) >> (8 * (at % 8)));
}

/* The colour that the resource is cleared to: red, green, blue. */
static void colour_of(uint64_t seed, uint32_t colour[3]) {
  uint64_t state = seed + 99;
  for (uint32_t i = 0; i < 3; ++i) colour[i] = below(&state, 256);
}

/* What both resources have room for, from the upper left corner on. */
static void copied_part(uint64_t seed, uint32_t* width, uint32_t* height) {
  uint32_t other_width, other_height;
  shape_of(seed, kCarried, width, height);
  shape_of(seed, kCleared, &other_width, &other_height);
  if (other_width < *width) *width = other_width;
  if (other_height < *height) *height = other_height;
}

static uint64_t bytes_of(const DxgkitClientJob* job, uint32_t index) {
  return job->allocations[index].wanted.size_bytes;
}

/* A corner of it is from the other resource. */
static const char* check_cleared(const DxgkitClientJob* job, const uint8_t* view) {
  uint32_t colour[3], width, height, from_width, copied_width, copied_height;
  colour_of(job->seed, colour);
  const uint8_t pixel[PIXEL_BYTES] = {(uint8_t)colour[2], (uint8_t)colour[1], (uint8_t)colour[0],
                                      255};
  shape_of(job->seed, kCleared, &width, &height);
  shape_of(job->seed, kCarried, &from_width, &copied_height);
  copied_part(job->seed, &copied_width, &copied_height);
  for (uint64_t at = 0; at < bytes_of(job, kCleared); ++at) {
    const uint64_t x = at / PIXEL_BYTES % width, y = at / PIXEL_BYTES / width;
    const int is_copy = x < copied_width && y < copied_height;
    const uint64_t from = (y * from_width + x) * PIXEL_BYTES + at % PIXEL_BYTES;
    if (!is_copy && view[at] != pixel[at % PIXEL_BYTES])
      return "a resource has another colour than it was cleared to";
    if (is_copy && view[at] != byte_at(job->seed, kCarried, from))
      return "a resource has not what was copied from the other one";
  }
  return NULL;
}

/* What has gone to the renderer is behind it, as it came back. */
static const char* check_layered(const DxgkitClientJob* job, const uint8_t* view) {
  uint32_t width, height;
  Level levels[LEVELS];
  shape_of(job->seed, kLayered, &width, &height);
  levels_of(width, height, levels);
  for (uint32_t at = 0; at < levels[0].to; ++at) {
    if (view[at] != byte_at(job->seed, kLayered, at))
      return "a resource with layers has other bytes than the CPU has written";
  }
  for (uint32_t i = 0; i < LEVELS; ++i) {
    const Level* const level = &levels[i];
    const uint32_t row = level->width * PIXEL_BYTES;
    for (uint32_t at = 0; at < LAYERS * layer_bytes(level); ++at) {
      const uint32_t z = at / layer_bytes(level), y = at % layer_bytes(level) / row;
      const uint32_t from = level->from + z * level->layer_stride + y * level->stride + at % row;
      if (view[level->to + at] != byte_at(job->seed, kLayered, from))
        return "a layer comes back from the renderer with other bytes";
    }
  }
  return NULL;
}

#endif
