/* A client plug-in (dxgkit/client_plugin.h) for the virtio GPU's miniport.
 *
 * The device draws nothing: the CPU draws into a surface, and commands bring parts of it to the
 * device and to a screen. A job does that with several surfaces and rectangles of its seed. No
 * command may change what the CPU has drawn, so every byte is compared afterwards. Whether a
 * picture reaches a screen is what the tests of the miniport look at.
 *
 * With 3D, a job also has two resources, which go and come in parts: one goes to the renderer and
 * comes back, and the other is cleared by commands of virgl, gets a copy of a part of the first,
 * and comes from the renderer. A third one has layers and a smaller level. They go there all at
 * once, with padding behind each row and each layer, and come back one by one and without it.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "devices/virtiogpu/virtiogpu_hw.h"
#include "miniports/virtiogpu/virtiogpu_umd.h"
#include "tools/dxgkit/client_plugin.h"
#include "tools/dxgkit/clients/virtiogpu_content.h"
#include "tools/dxgkit/clients/virtiogpu_judge.h"

enum { kCommands = 24 };  /* of a job, beside those of 3D */
enum { kNops = 8 };       /* variants of a command that does nothing */
#define PLAIN_WIDTH 1024u /* of a surface for bytes that are no picture: a page is a row */
#define VERSION_WDDM2_0 0x5023u
#define TEXTURE_2D_ARRAY 7u /* of virgl */
#define SAMPLER_VIEW 8u

/* An instance: what the adapter says of itself. */
typedef struct Client {
  VgpuUmdAdapterInfo info;
  uint32_t interface_version;
} Client;

static int has_3d(const void* client) {
  const VgpuUmdAdapterInfo* const info = &((const Client*)client)->info;
  for (uint32_t i = 0; i < info->capset_count && i < VGPU_UMD_CAPSETS_MAX; ++i) {
    if ((info->flags & VGPU_UMD_3D) != 0 && info->capsets[i].id <= VGPU_CAPSET_VIRGL2) return 1;
  }
  return 0;
}

static const char* open_client(const DxgkitClientAdapter* adapter, void** client) {
  VgpuUmdAdapterInfo info;
  if (adapter->umd_private_bytes < sizeof(info)) return "the adapter information is too short";
  memcpy(&info, adapter->umd_private, sizeof(info));
  if (info.magic != VGPU_UMD_ADAPTER_MAGIC)
    return "the driver is not the virtio GPU's: another magic number";
  if (info.version < VGPU_UMD_VERSION) return "the driver speaks an older version";
  Client* const made = malloc(sizeof(*made));
  if (made == NULL) return "no memory";
  made->info = info;
  made->interface_version = adapter->interface_version;
  *client = made;
  return NULL;
}

static void close_client(void* client) { free(client); }

static VgpuUmdContext context_data(void) {
  const VgpuUmdContext data = {
      .magic = VGPU_UMD_CONTEXT_MAGIC, .version = VGPU_UMD_VERSION, .name = "verify"};
  return data;
}

static const char* pack_context(void* client, uint32_t node, void* data, uint32_t capacity,
                                uint32_t* bytes) {
  const VgpuUmdContext request = context_data();
  (void)node;
  *bytes = 0; /* without 3D */
  if (!has_3d(client)) return NULL;
  if (capacity < sizeof(request)) return "too little room";
  memcpy(data, &request, sizeof(request));
  *bytes = sizeof(request);
  return NULL;
}

/* More memory than the pixels of a picture take is that of a resource with layers. */
static int is_layered(const DxgkitClientAllocation* wanted) {
  return wanted->size_bytes > (uint64_t)wanted->width * wanted->height * PIXEL_BYTES;
}

static const char* pack_allocation(void* client, const DxgkitClientAllocation* wanted, void* data,
                                   uint32_t capacity, uint32_t* bytes) {
  VgpuUmdAllocation request = {.magic = VGPU_UMD_ALLOCATION_MAGIC, .version = VGPU_UMD_VERSION};
  const uint64_t row = PLAIN_WIDTH * PIXEL_BYTES;
  const int picture = wanted->height != 0;
  /* Of a job's pictures those that the renderer draws on. What only a screen shows is a surface. */
  const uint32_t drawn = DXGKIT_CLIENT_GPU_WRITES | DXGKIT_CLIENT_CPU_READS;
  if (picture && (wanted->usage & drawn) == drawn && has_3d(client)) {
    VgpuUmdResource resource = resource_data(wanted->width, wanted->height);
    if (is_layered(wanted)) {
      resource.target = TEXTURE_2D_ARRAY;
      resource.bind = SAMPLER_VIEW;
      resource.array_size = LAYERS;
      resource.last_level = LEVELS - 1;
      resource.size_bytes = wanted->size_bytes;
    }
    if (capacity < sizeof(resource)) return "too little room";
    memcpy(data, &resource, sizeof(resource));
    *bytes = sizeof(resource);
    return NULL;
  }
  request.width = picture ? wanted->width : PLAIN_WIDTH;
  request.height = picture ? wanted->height : (uint32_t)((wanted->size_bytes + row - 1) / row);
  if (capacity < sizeof(request)) return "too little room";
  memcpy(data, &request, sizeof(request));
  *bytes = sizeof(request);
  return NULL;
}

static const char* plan(void* client, uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted,
                        uint32_t capacity, uint32_t* count) {
  const uint32_t all = has_3d(client) ? kAllocations : kSurfaces;
  (void)node;
  if (capacity < all) return "too little room";
  memset(wanted, 0, all * sizeof(*wanted));
  for (uint32_t i = 0; i < all; ++i) {
    shape_of(seed, i, &wanted[i].width, &wanted[i].height);
    wanted[i].size_bytes = (uint64_t)wanted[i].width * wanted[i].height * PIXEL_BYTES;
    wanted[i].usage = DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_CPU_READS;
    if (i >= kSurfaces) wanted[i].usage |= DXGKIT_CLIENT_GPU_WRITES;
    Level levels[LEVELS];
    if (i == kLayered) wanted[i].size_bytes = levels_of(wanted[i].width, wanted[i].height, levels);
  }
  *count = all;
  return NULL;
}

static const char* fill(void* client, const DxgkitClientJob* job, uint32_t index, void* view,
                        uint64_t view_bytes) {
  (void)client;
  if (view_bytes < bytes_of(job, index)) return "the view is too short";
  for (uint64_t at = 0; at < bytes_of(job, index); ++at)
    ((uint8_t*)view)[at] = byte_at(job->seed, index, at);
  return NULL;
}

static const char* check(void* client, const DxgkitClientJob* job, uint32_t index, const void* view,
                         uint64_t view_bytes) {
  (void)client;
  if (view_bytes < bytes_of(job, index)) return "the view is too short";
  if (index == kCleared) return check_cleared(job, view);
  if (index == kLayered) return check_layered(job, view);
  for (uint64_t at = 0; at < bytes_of(job, index); ++at) {
    if (((const uint8_t*)view)[at] != byte_at(job->seed, index, at))
      return index == kCarried ? "a resource comes back from the renderer with other bytes"
                               : "a surface has other bytes than the CPU has drawn";
  }
  return NULL;
}

/* Appends; 0: there is no room. */
static int add(DxgkitClientJob* job, const void* command, uint32_t bytes) {
  if (job->command_bytes_max - job->command_bytes < bytes) return 0;
  memcpy((uint8_t*)job->commands + job->command_bytes, command, bytes);
  job->command_bytes += bytes;
  return 1;
}

static int add_uses(DxgkitClientJob* job) {
  if (job->use_count_max < job->allocation_count) return 0;
  for (uint32_t i = 0; i < job->allocation_count; ++i)
    job->uses[i] = (DxgkitClientUse){.allocation = i, .write = i >= kSurfaces};
  job->use_count = job->allocation_count;
  return 1;
}

/* A rectangle inside the surface. */
static VgpuUmdRectangle rectangle(uint64_t* state, uint64_t seed, uint32_t index, uint32_t type) {
  uint32_t width, height;
  shape_of(seed, index, &width, &height);
  VgpuUmdRectangle command = {.header = {.type = type, .size_bytes = sizeof(command)},
                              .allocation = index};
  command.x = below(state, width);
  command.y = below(state, height);
  command.width = 1 + below(state, width - command.x);
  command.height = 1 + below(state, height - command.y);
  return command;
}

static const char kNoRoom[] = "the command buffer is too short";

/* Of a whole resource. */
static VgpuUmdTransfer3d transfer(const DxgkitClientJob* job, uint32_t index, uint32_t type) {
  VgpuUmdTransfer3d command = {
      .header = {.type = type, .size_bytes = sizeof(command)}, .allocation = index, .depth = 1};
  shape_of(job->seed, index, &command.width, &command.height);
  return command;
}

/* Of a whole resource in four parts, each with its own place in the memory. */
static int add_parts(DxgkitClientJob* job, uint32_t index, uint32_t type) {
  const VgpuUmdTransfer3d whole = transfer(job, index, type);
  const uint32_t columns[] = {0, whole.width / 3, whole.width};
  const uint32_t rows[] = {0, (whole.height + 1) / 2, whole.height};
  for (uint32_t i = 0; i < 4; ++i) {
    VgpuUmdTransfer3d part = whole;
    part.x = columns[i % 2];
    part.y = rows[i / 2];
    part.width = columns[i % 2 + 1] - part.x;
    part.height = rows[i / 2 + 1] - part.y;
    part.stride = whole.width * PIXEL_BYTES;
    part.offset = ((uint64_t)part.y * whole.width + part.x) * PIXEL_BYTES;
    if (part.width != 0 && part.height != 0 && !add(job, &part, sizeof(part))) return 0;
  }
  return 1;
}

/* All layers of each level at once, and back one by one. */
static int add_layers(DxgkitClientJob* job) {
  uint32_t width, height;
  Level levels[LEVELS];
  shape_of(job->seed, kLayered, &width, &height);
  levels_of(width, height, levels);
  for (uint32_t i = 0; i < LEVELS; ++i) {
    VgpuUmdTransfer3d command = transfer(job, kLayered, VGPU_UMD_TRANSFER_TO_HOST_3D);
    command.level = i;
    command.width = levels[i].width;
    command.height = levels[i].height;
    command.depth = LAYERS;
    command.offset = levels[i].from;
    command.stride = levels[i].stride;
    command.layer_stride = levels[i].layer_stride;
    if (!add(job, &command, sizeof(command))) return 0;
  }
  for (uint32_t part = 0; part < LEVELS * LAYERS; ++part) {
    const Level* const level = &levels[part % LEVELS];
    VgpuUmdTransfer3d command = transfer(job, kLayered, VGPU_UMD_TRANSFER_FROM_HOST_3D);
    command.level = part % LEVELS;
    command.width = level->width;
    command.height = level->height;
    command.z = part / LEVELS;
    command.offset = level->to + command.z * layer_bytes(level);
    if (!add(job, &command, sizeof(command))) return 0;
  }
  return 1;
}

/* A clear and a copy in the language of virgl: words with a head of command, object and length. */
static int add_clear(DxgkitClientJob* job) {
  enum { kCreate = 1, kDestroy = 3, kFramebuffer = 5, kClear = 7, kSurface = 8, kColour = 4 };
  enum { kCopy = 17 };
  const uint32_t surface = 1;
  uint32_t copied_width, copied_height;
  VgpuUmdResource resource, source;
  memcpy(&source, job->allocations[kCarried].private_data, sizeof(source));
  copied_part(job->seed, &copied_width, &copied_height);
  uint32_t colour[3], value[4];
  memcpy(&resource, job->allocations[kCleared].private_data, sizeof(resource));
  colour_of(job->seed, colour);
  for (uint32_t i = 0; i < 4; ++i) {
    const float share = i < 3 ? (float)colour[i] / 255 : 1;
    memcpy(&value[i], &share, sizeof(share));
  }
  const uint32_t words[] = {kCreate | kSurface << 8 | 5u << 16,
                            surface,
                            resource.resource,
                            VGPU_B8G8R8A8,
                            0,
                            0,
                            kFramebuffer | 3u << 16,
                            1,
                            0,
                            surface,
                            kClear | 8u << 16,
                            kColour,
                            value[0],
                            value[1],
                            value[2],
                            value[3],
                            0,
                            0x3FF00000,
                            0,
                            kFramebuffer | 2u << 16,
                            0,
                            0,
                            kDestroy | kSurface << 8 | 1u << 16,
                            surface,
                            kCopy | 13u << 16,
                            resource.resource,
                            0,
                            0,
                            0,
                            0,
                            source.resource,
                            0,
                            0,
                            0,
                            0,
                            copied_width,
                            copied_height,
                            1};
  const VgpuUmdHeader head = {.type = VGPU_UMD_SUBMIT, .size_bytes = sizeof(head) + sizeof(words)};
  return add(job, &head, sizeof(head)) && add(job, words, sizeof(words));
}

static int add_discard(DxgkitClientJob* job, uint32_t allocation) {
  const VgpuUmdDiscard command = {
      .header = {.type = VGPU_UMD_DISCARD, .size_bytes = sizeof(command)},
      .allocation = allocation};
  return add(job, &command, sizeof(command));
}

/* To the renderer and back, and what the renderer has drawn. Nothing of it was there before, so a
 * sleep costs nothing. */
static int add_3d(DxgkitClientJob* job) {
  if (!add_discard(job, VGPU_UMD_DISCARD_CONTEXT) || !add_discard(job, kCarried) ||
      !add_discard(job, kCleared) || !add_discard(job, kLayered))
    return 0;
  return add_parts(job, kCarried, VGPU_UMD_TRANSFER_TO_HOST_3D) && add_clear(job) &&
         add_parts(job, kCarried, VGPU_UMD_TRANSFER_FROM_HOST_3D) && add_layers(job) &&
         add_parts(job, kCleared, VGPU_UMD_TRANSFER_FROM_HOST_3D);
}

static const char* record(void* client, DxgkitClientJob* job) {
  if (!add_uses(job)) return "the allocation list is too short";
  if (has_3d(client) && !add_3d(job)) return kNoRoom;
  uint64_t state = job->seed;
  for (uint32_t i = 0; i < kCommands; ++i) {
    const uint32_t type = below(&state, 3);
    if (type == VGPU_UMD_NOP) {
      const VgpuUmdHeader nop[2] = {{.type = VGPU_UMD_NOP, .size_bytes = sizeof(nop)}};
      if (!add(job, nop, sizeof(nop))) return kNoRoom;
      continue;
    }
    const VgpuUmdRectangle command = rectangle(&state, job->seed, below(&state, kSurfaces), type);
    if (!add(job, &command, sizeof(command))) return kNoRoom;
  }
  return NULL;
}

/* One field has another value. Width and height are those of the surface, so that the values below
 * are at its limits. */
typedef struct Row {
  const char* what;
  uint32_t field; /* offset in the command */
  int32_t change; /* added to what is right */
  int right;      /* it is not wrong */
} Row;

static const Row kRows[] = {
    {"the whole surface", offsetof(VgpuUmdRectangle, reserved), 0, 1},
    {"one column too many", offsetof(VgpuUmdRectangle, width), 1, 0},
    {"one row too many", offsetof(VgpuUmdRectangle, height), 1, 0},
    {"it begins one column too far", offsetof(VgpuUmdRectangle, x), 1, 0},
    {"it begins one row too far", offsetof(VgpuUmdRectangle, y), 1, 0},
    {"x is below 0", offsetof(VgpuUmdRectangle, x), -1, 0},
    {"y is below 0", offsetof(VgpuUmdRectangle, y), -1, 0},
    {"an index behind the list", offsetof(VgpuUmdRectangle, allocation), kAllocations, 0},
    {"an index far behind the list", offsetof(VgpuUmdRectangle, allocation), -1, 0},
    {"a reserved field", offsetof(VgpuUmdRectangle, reserved), 1, 0},
    {"a command that is too short", offsetof(VgpuUmdHeader, size_bytes), -4, 0},
    {"a command that is too long", offsetof(VgpuUmdHeader, size_bytes), 4, 0},
    {"a size that is no multiple of 4", offsetof(VgpuUmdHeader, size_bytes), 1, 0},
    {"a size of 0", offsetof(VgpuUmdHeader, size_bytes), -(int32_t)sizeof(VgpuUmdRectangle), 0},
    {"no such command", offsetof(VgpuUmdHeader, type), 100, 0},
};

/* The same for transfers of 3D resources. */
static const Row kRows3d[] = {
    {"a whole resource", offsetof(VgpuUmdTransfer3d, level), 0, 1},
    {"a level that is not there", offsetof(VgpuUmdTransfer3d, level), 1, 0},
    {"a level far behind", offsetof(VgpuUmdTransfer3d, level), -1, 0},
    {"one column too many", offsetof(VgpuUmdTransfer3d, width), 1, 0},
    {"one row too many", offsetof(VgpuUmdTransfer3d, height), 1, 0},
    {"one layer too many", offsetof(VgpuUmdTransfer3d, depth), 1, 0},
    {"no layer", offsetof(VgpuUmdTransfer3d, depth), -1, 0},
    {"it begins one column too far", offsetof(VgpuUmdTransfer3d, x), 1, 0},
    {"it begins one row too far", offsetof(VgpuUmdTransfer3d, y), 1, 0},
    {"it begins one layer too far", offsetof(VgpuUmdTransfer3d, z), 1, 0},
    {"x is below 0", offsetof(VgpuUmdTransfer3d, x), -1, 0},
    {"an offset above 4 GiB", offsetof(VgpuUmdTransfer3d, offset) + 4, 1, 0},
    {"an index behind the list", offsetof(VgpuUmdTransfer3d, allocation), kAllocations, 0},
    {"a surface", offsetof(VgpuUmdTransfer3d, allocation), -kCarried, 0},
    {"a command that is too short", offsetof(VgpuUmdHeader, size_bytes), -4, 0},
};

/* Commands on what they are not for. A resource is as good as a surface for FLUSH alone. */
static const char* record_other_kind(DxgkitClientJob* job, uint32_t variant,
                                     DxgkitClientOverreach* overreach) {
  enum {
    kTransfer,
    kFlush,
    kFlushWide,
    kReserved,
    kSurface,
    kBehind,
    kShort,
    kLong,
    kNothing,
    kReadOnly,
    kAll
  };
  static const char* const kWhat[] = {
      "TRANSFER_TO_HOST of a resource",
      "FLUSH of a resource",
      "FLUSH of a resource and one column more",
      "DISCARD with a reserved field",
      "DISCARD of a surface",
      "DISCARD of an index behind the list",
      "DISCARD that is too short, and the list begins with a resource",
      "DISCARD that is too long, and the list begins with a resource",
      "SUBMIT of nothing",
      "a resource is read from the device and may not be written"};
  if (variant >= kAll) return NULL;
  overreach->what = kWhat[variant];
  overreach->expected = variant == kFlush ? DXGKIT_CLIENT_RIGHT : DXGKIT_CLIENT_REFUSED;
  VgpuUmdRectangle rectangle = {
      .header = {.type = variant == kTransfer ? VGPU_UMD_TRANSFER_TO_HOST : VGPU_UMD_FLUSH,
                 .size_bytes = sizeof(rectangle)},
      .allocation = kCarried};
  uint32_t discarded = sizeof(VgpuUmdDiscard);
  if (variant == kShort) discarded -= sizeof(uint32_t);
  if (variant == kLong) discarded += sizeof(uint32_t);
  const VgpuUmdDiscard discard[2] = {{.header = {.type = VGPU_UMD_DISCARD, .size_bytes = discarded},
                                      .allocation = variant == kBehind    ? kAllocations
                                                    : variant == kSurface ? 0
                                                                          : kCarried,
                                      .reserved = variant == kReserved}};
  const VgpuUmdHeader nothing = {.type = VGPU_UMD_SUBMIT, .size_bytes = sizeof(nothing)};
  const VgpuUmdTransfer3d read = transfer(job, kCarried, VGPU_UMD_TRANSFER_FROM_HOST_3D);
  shape_of(job->seed, kCarried, &rectangle.width, &rectangle.height);
  if (variant == kFlushWide) ++rectangle.width;
  int fits;
  if (variant <= kFlushWide) {
    fits = add(job, &rectangle, sizeof(rectangle));
  } else if (variant <= kLong) {
    if (variant >= kShort) job->uses[0].allocation = kCarried;
    fits = add(job, discard, discarded);
  } else if (variant == kNothing) {
    fits = add(job, &nothing, sizeof(nothing));
  } else {
    job->uses[kCarried].write = 0;
    fits = add(job, &read, sizeof(read));
  }
  return fits ? NULL : kNoRoom;
}

static const char* record_overreach_3d(DxgkitClientJob* job, uint32_t variant,
                                       DxgkitClientOverreach* overreach) {
  enum { kRowCount = sizeof(kRows3d) / sizeof(kRows3d[0]) };
  if (variant >= 2 * kRowCount) return record_other_kind(job, variant - 2 * kRowCount, overreach);
  const Row* const row = &kRows3d[variant / 2];
  VgpuUmdTransfer3d command = transfer(job, kCarried, VGPU_UMD_TRANSFER_TO_HOST_3D + variant % 2);
  uint32_t value;
  memcpy(&value, (uint8_t*)&command + row->field, sizeof(value));
  value += (uint32_t)row->change;
  memcpy((uint8_t*)&command + row->field, &value, sizeof(value));
  overreach->what = row->what;
  overreach->expected = row->right ? DXGKIT_CLIENT_RIGHT : DXGKIT_CLIENT_REFUSED;
  return add(job, &command, sizeof(command)) ? NULL : kNoRoom;
}

/* Commands of 3D, each right in itself, in a context that has no 3D. */
static const char* record_without_3d(DxgkitClientJob* job, uint32_t variant,
                                     DxgkitClientOverreach* overreach) {
  overreach->what = "a command of 3D without 3D";
  overreach->expected = DXGKIT_CLIENT_REFUSED;
  if (variant < 2) {
    const VgpuUmdTransfer3d command = transfer(job, 0, VGPU_UMD_TRANSFER_TO_HOST_3D + variant);
    return add(job, &command, sizeof(command)) ? NULL : kNoRoom;
  }
  if (variant == 2) return add_discard(job, VGPU_UMD_DISCARD_CONTEXT) ? NULL : kNoRoom;
  if (variant == 3) return add_discard(job, 0) ? NULL : kNoRoom;
  const VgpuUmdHeader submit[2] = {{.type = VGPU_UMD_SUBMIT, .size_bytes = sizeof(submit)}};
  return add(job, submit, sizeof(submit)) ? NULL : kNoRoom;
}

/* NOP may have any size from the header's on that is a multiple of 4, up to the end. */
static const char* record_nop(DxgkitClientJob* job, uint32_t variant,
                              DxgkitClientOverreach* overreach) {
  static const struct {
    const char* what;
    uint32_t bytes, right;
  } kSizes[kNops] = {{"the smallest NOP", sizeof(VgpuUmdHeader), 1},
                     {"a NOP of two headers", 2 * sizeof(VgpuUmdHeader), 1},
                     {"a NOP of 0 bytes", 0, 0},
                     {"a NOP that is shorter than its header", 4, 0},
                     {"a NOP that ends behind the buffer", 2 * sizeof(VgpuUmdHeader) + 4, 0},
                     {"a NOP that ends far behind the buffer", 0x7FFFFFFC, 0},
                     {"a NOP of four gigabytes", 0xFFFFFFFC, 0},
                     {"a NOP of no multiple of 4 bytes", sizeof(VgpuUmdHeader) + 2, 0}};
  const VgpuUmdHeader nop[2] = {{.type = VGPU_UMD_NOP, .size_bytes = kSizes[variant].bytes}};
  /* The buffer ends with it where it can. */
  const uint32_t bytes = nop[0].size_bytes < sizeof(nop[0]) || nop[0].size_bytes > sizeof(nop)
                             ? sizeof(nop)
                             : nop[0].size_bytes;
  overreach->what = kSizes[variant].what;
  overreach->expected = kSizes[variant].right ? DXGKIT_CLIENT_RIGHT : DXGKIT_CLIENT_REFUSED;
  return add(job, nop, bytes) ? NULL : kNoRoom;
}

static const char* record_overreach(void* client, DxgkitClientJob* job, uint32_t variant,
                                    DxgkitClientOverreach* overreach) {
  enum { kRowCount = sizeof(kRows) / sizeof(kRows[0]), kWithout3d = 5 };
  if (!add_uses(job)) return "the allocation list is too short";
  if (variant < kNops) return record_nop(job, variant, overreach);
  variant -= kNops;
  if (variant >= 2 * kRowCount + 2 + kWithout3d && !has_3d(client)) return NULL;
  if (variant >= 2 * kRowCount + 2)
    return has_3d(client) ? record_overreach_3d(job, variant - 2 * kRowCount - 2, overreach)
                          : record_without_3d(job, variant - 2 * kRowCount - 2, overreach);
  uint64_t state = job->seed;
  /* Something right first, so that the mistake is not where the buffer begins. */
  VgpuUmdRectangle command = rectangle(&state, job->seed, 1, VGPU_UMD_FLUSH);
  if (!add(job, &command, sizeof(command))) return kNoRoom;
  overreach->expected = DXGKIT_CLIENT_REFUSED;
  if (variant >= 2 * kRowCount) { /* an empty rectangle */
    command = rectangle(&state, job->seed, 0, VGPU_UMD_TRANSFER_TO_HOST);
    overreach->what = variant == 2 * kRowCount ? "no column" : "no row";
    *(variant == 2 * kRowCount ? &command.width : &command.height) = 0;
    return add(job, &command, sizeof(command)) ? NULL : kNoRoom;
  }
  const Row* const row = &kRows[variant / 2];
  command = (VgpuUmdRectangle){.header = {.type = 1 + variant % 2, .size_bytes = sizeof(command)},
                               .allocation = 0};
  shape_of(job->seed, 0, &command.width, &command.height);
  uint32_t value;
  memcpy(&value, (uint8_t*)&command + row->field, sizeof(value));
  value += (uint32_t)row->change;
  memcpy((uint8_t*)&command + row->field, &value, sizeof(value));
  overreach->what = row->what;
  if (row->right) overreach->expected = DXGKIT_CLIENT_RIGHT;
  if (!add(job, &command, sizeof(command))) return kNoRoom;
  if (row->field != offsetof(VgpuUmdHeader, size_bytes) || row->change <= 0) return NULL;
  const uint32_t behind = 0; /* a longer command takes what follows it */
  return add(job, &behind, sizeof(behind)) ? NULL : kNoRoom;
}

static const char* judge(void* client, const DxgkitClientAnswer* answer) {
  const VgpuUmdAdapterInfo* const known = &((const Client*)client)->info;
  const int version2 = ((const Client*)client)->interface_version >= VERSION_WDDM2_0;
  if (answer->kind == DXGKIT_CLIENT_DATA_ALLOCATION) return judge_allocation(known, answer);
  if (answer->kind == DXGKIT_CLIENT_DATA_CONTEXT) return judge_context(known, answer);
  if (answer->kind == DXGKIT_CLIENT_DATA_ESCAPE) return judge_escape(known, answer);
  if (answer->kind == DXGKIT_CLIENT_DATA_FACTS) return judge_facts(version2, answer->returned);
  if (answer->kind == DXGKIT_CLIENT_DATA_ADAPTER && answer->status >= 0) {
    VgpuUmdAdapterInfo info;
    if (answer->bytes < sizeof(info)) return "an answer fits where there is no room for it";
    memcpy(&info, answer->returned, sizeof(info));
    if (info.magic != VGPU_UMD_ADAPTER_MAGIC || info.version != VGPU_UMD_VERSION)
      return "magic or version";
    if (info.side_max != VGPU_UMD_SIDE_MAX || info.reserved != 0) return "side_max or reserved";
    if (info.resource_bytes_max % 4096 != 0) return "a resource does not end with a page";
    if (info.preferred_width == 0 || info.preferred_height == 0) return "the size of the screen";
    if (((info.flags & VGPU_UMD_EXPLICIT_RESIDENCY) != 0) != version2) return "the residency flag";
    const int is_3d = (info.flags & VGPU_UMD_3D) != 0;
    for (uint32_t i = 0; i < info.capset_count && i < VGPU_UMD_CAPSETS_MAX; ++i) {
      if (info.capsets[i].id == 0 || info.capsets[i].bytes == 0) return "an empty capability set";
      if (info.capsets[i].id == VGPU_CAPSET_LARGE) return "a set that is larger than there is room";
    }
    if (is_3d != (info.submit_bytes_max != 0) || is_3d != (info.resource_bytes_max != 0) ||
        is_3d != (info.capset_count != 0) || info.capset_count > VGPU_UMD_CAPSETS_MAX)
      return "limits of 3D";
  }
  return NULL;
}

static const char* put(const void* request, uint32_t request_bytes, void* data, uint32_t capacity,
                       uint32_t* bytes) {
  if (capacity < request_bytes) return "too little room";
  memcpy(data, request, request_bytes);
  *bytes = request_bytes;
  return NULL;
}

/* The data of the capability set have to fit behind the question. */
static const char* example_escape(const VgpuUmdAdapterInfo* info, uint32_t index, void* data,
                                  uint32_t capacity, uint32_t* bytes) {
  if (index >= info->capset_count || index >= VGPU_UMD_CAPSETS_MAX) return NULL;
  const VgpuUmdCapsetInfo* const set = &info->capsets[index];
  const VgpuUmdEscapeCapset request = {.magic = VGPU_UMD_ESCAPE_MAGIC,
                                       .version = VGPU_UMD_VERSION,
                                       .type = VGPU_UMD_ESCAPE_CAPSET,
                                       .capset_id = set->id,
                                       .capset_version = set->version};
  const uint32_t all = sizeof(request) + set->bytes;
  if (capacity < all) return NULL;
  memset(data, 0, all);
  memcpy(data, &request, sizeof(request));
  *bytes = all;
  return NULL;
}

static const char* example(void* client, uint32_t kind, uint32_t index, void* data,
                           uint32_t capacity, uint32_t* bytes) {
  static const uint32_t kSides[][2] = {{1, 1}, {VGPU_UMD_SIDE_MAX, 1}, {1, VGPU_UMD_SIDE_MAX}};
  enum { kSideCount = sizeof(kSides) / sizeof(kSides[0]) };
  *bytes = 0;
  if (kind == DXGKIT_CLIENT_DATA_ESCAPE)
    return example_escape(&((const Client*)client)->info, index, data, capacity, bytes);
  if (kind == DXGKIT_CLIENT_DATA_CONTEXT && index == 0 && has_3d(client)) {
    const VgpuUmdContext request = context_data();
    return put(&request, sizeof(request), data, capacity, bytes);
  }
  if (kind != DXGKIT_CLIENT_DATA_ALLOCATION) return NULL;
  if (index == kSideCount && has_3d(client)) {
    const VgpuUmdResource request = resource_data(33, 17);
    return put(&request, sizeof(request), data, capacity, bytes);
  }
  if (index >= kSideCount) return NULL;
  const VgpuUmdAllocation request = {.magic = VGPU_UMD_ALLOCATION_MAGIC,
                                     .version = VGPU_UMD_VERSION,
                                     .width = kSides[index][0],
                                     .height = kSides[index][1]};
  return put(&request, sizeof(request), data, capacity, bytes);
}

/* In mebibytes. */
static int setting(uint32_t index, DxgkitClientSetting* setting) {
  static const DxgkitClientSetting kSettings[] = {
      {APERTURE_SETTING, 64, 0}, {APERTURE_SETTING, 0, 1}, {APERTURE_SETTING, APERTURE_MIB + 1, 1}};
  if (index >= sizeof(kSettings) / sizeof(kSettings[0])) return 0;
  *setting = kSettings[index];
  return 1;
}

/* What the renderer has does not survive, and what was rendered before a sleep cannot run behind
 * it. Surfaces stay. */
static int sleep_costs_devices(void* client) { return has_3d(client); }

/* One command for a part of `show`: of `of` rows of equal height number `part`. */
static int add_part(DxgkitClientJob* job, const DxgkitClientShow* show, uint32_t type,
                    uint32_t part, uint32_t of) {
  const uint32_t begin = show->height * part / of, end = show->height * (part + 1) / of;
  const VgpuUmdRectangle command = {.header = {.type = type, .size_bytes = sizeof(command)},
                                    .allocation = 0,
                                    .x = show->x,
                                    .y = show->y + begin,
                                    .width = show->width,
                                    .height = end - begin};
  return begin == end || add(job, &command, sizeof(command));
}

static const char* record_show(void* client, DxgkitClientJob* job, uint32_t variant,
                               DxgkitClientShow* show) {
  enum { kParts = 3 };
  static const struct {
    const char* what;
    uint32_t expected;
  } kVariants[] = {{"TRANSFER_TO_HOST and FLUSH", DXGKIT_CLIENT_SHOW_MEMORY},
                   {"TRANSFER_TO_HOST without FLUSH", DXGKIT_CLIENT_SHOW_NOTHING},
                   {"FLUSH alone", DXGKIT_CLIENT_SHOW_EARLIER},
                   {"three parts, TRANSFER_TO_HOST first", DXGKIT_CLIENT_SHOW_MEMORY}};
  (void)client;
  if (variant >= sizeof(kVariants) / sizeof(kVariants[0])) return NULL;
  show->what = kVariants[variant].what;
  show->expected = kVariants[variant].expected;
  if (!add_uses(job)) return "the allocation list is too short";
  const uint32_t parts = variant == 3 ? kParts : 1;
  for (uint32_t i = 0; i < parts; ++i) {
    if (variant != 2 && !add_part(job, show, VGPU_UMD_TRANSFER_TO_HOST, i, parts)) return kNoRoom;
  }
  for (uint32_t i = 0; i < parts; ++i) {
    if (variant != 1 && !add_part(job, show, VGPU_UMD_FLUSH, parts - 1 - i, parts)) return kNoRoom;
  }
  return NULL;
}

const DxgkitClient* dxgkit_client(uint32_t version) {
  static const DxgkitClient kClient = {
      .version = DXGKIT_CLIENT_VERSION,
      .size_bytes = sizeof(DxgkitClient),
      .name = "virtiogpu",
      .umd_private_bytes = sizeof(VgpuUmdAdapterInfo),
      .open = open_client,
      .close = close_client,
      .pack_context = pack_context,
      .pack_allocation = pack_allocation,
      .plan = plan,
      .fill = fill,
      .record = record,
      .check = check,
      .record_overreach = record_overreach,
      .example = example,
      .judge = judge,
      .setting = setting,
      .record_show = record_show,
#ifndef SLEEP_COSTS_NOTHING /* for a test: verify does not overlook it by itself */
      .sleep_costs_devices = sleep_costs_devices,
#endif
  };
  (void)version;
  return &kClient;
}
