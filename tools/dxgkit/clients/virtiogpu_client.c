/* A client plug-in (dxgkit/client_plugin.h) for the virtio GPU's miniport.
 *
 * The device draws nothing: the CPU draws into a surface, and commands bring parts of it to the
 * device and to a screen. A job does that with several surfaces and rectangles of its seed. No
 * command may change what the CPU has drawn, so every byte is compared afterwards. Whether a
 * picture reaches a screen is what the tests of the miniport look at.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "miniports/virtiogpu/virtiogpu_umd.h"
#include "tools/dxgkit/client_plugin.h"

enum { kSurfaces = 3, kCommands = 24 };
#define PIXEL_BYTES 4u
#define PLAIN_WIDTH 1024u /* of a surface for bytes that are no picture: a page is a row */
#define APERTURE_BYTES 0x40000000ull

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
  *width = 1 + below(&state, 300);
  *height = 1 + below(&state, 200);
}

static const char* open_client(const DxgkitClientAdapter* adapter, void** client) {
  VgpuUmdAdapterInfo info;
  if (adapter->umd_private_bytes < sizeof(info)) return "the adapter information is too short";
  memcpy(&info, adapter->umd_private, sizeof(info));
  if (info.magic != VGPU_UMD_ADAPTER_MAGIC)
    return "the driver is not the virtio GPU's: another magic number";
  if (info.version < VGPU_UMD_VERSION) return "the driver speaks an older version";
  *client = malloc(1); /* an instance remembers nothing */
  return *client == NULL ? "no memory" : NULL;
}

static void close_client(void* client) { free(client); }

static const char* pack_allocation(void* client, const DxgkitClientAllocation* wanted, void* data,
                                   uint32_t capacity, uint32_t* bytes) {
  (void)client;
  VgpuUmdAllocation request = {.magic = VGPU_UMD_ALLOCATION_MAGIC, .version = VGPU_UMD_VERSION};
  const uint64_t row = PLAIN_WIDTH * PIXEL_BYTES;
  const int picture = wanted->height != 0;
  request.width = picture ? wanted->width : PLAIN_WIDTH;
  request.height = picture ? wanted->height : (uint32_t)((wanted->size_bytes + row - 1) / row);
  if (capacity < sizeof(request)) return "too little room";
  memcpy(data, &request, sizeof(request));
  *bytes = sizeof(request);
  return NULL;
}

static const char* plan(void* client, uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted,
                        uint32_t capacity, uint32_t* count) {
  (void)client;
  (void)node;
  if (capacity < kSurfaces) return "too little room";
  memset(wanted, 0, kSurfaces * sizeof(*wanted));
  for (uint32_t i = 0; i < kSurfaces; ++i) {
    shape_of(seed, i, &wanted[i].width, &wanted[i].height);
    wanted[i].size_bytes = (uint64_t)wanted[i].width * wanted[i].height * PIXEL_BYTES;
    wanted[i].usage = DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_CPU_READS;
  }
  *count = kSurfaces;
  return NULL;
}

static uint8_t byte_at(uint64_t seed, uint32_t index, uint64_t at) {
  uint64_t state = seed + index * 977 + at / 8;
  return (uint8_t)(next_random(&state) >> (8 * (at % 8)));
}

static uint64_t bytes_of(const DxgkitClientJob* job, uint32_t index) {
  return job->allocations[index].wanted.size_bytes;
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
  for (uint64_t at = 0; at < bytes_of(job, index); ++at) {
    if (((const uint8_t*)view)[at] != byte_at(job->seed, index, at))
      return "a surface has other bytes than the CPU has drawn";
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
  if (job->use_count_max < kSurfaces) return 0;
  for (uint32_t i = 0; i < kSurfaces; ++i) job->uses[i] = (DxgkitClientUse){.allocation = i};
  job->use_count = kSurfaces;
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

static const char* record(void* client, DxgkitClientJob* job) {
  (void)client;
  if (!add_uses(job)) return "the allocation list is too short";
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
    {"an index behind the list", offsetof(VgpuUmdRectangle, allocation), kSurfaces, 0},
    {"an index far behind the list", offsetof(VgpuUmdRectangle, allocation), -1, 0},
    {"a reserved field", offsetof(VgpuUmdRectangle, reserved), 1, 0},
    {"a command that is too short", offsetof(VgpuUmdHeader, size_bytes), -4, 0},
    {"a command that is too long", offsetof(VgpuUmdHeader, size_bytes), 4, 0},
    {"a size that is no multiple of 4", offsetof(VgpuUmdHeader, size_bytes), 1, 0},
    {"a size of 0", offsetof(VgpuUmdHeader, size_bytes), -(int32_t)sizeof(VgpuUmdRectangle), 0},
    {"no such command", offsetof(VgpuUmdHeader, type), 2, 0},
};

static const char* record_overreach(void* client, DxgkitClientJob* job, uint32_t variant,
                                    DxgkitClientOverreach* overreach) {
  (void)client;
  enum { kRowCount = sizeof(kRows) / sizeof(kRows[0]) };
  if (variant >= 2 * kRowCount + 2) return NULL;
  if (!add_uses(job)) return "the allocation list is too short";
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

/* --- what the driver's interface says */

static const char* judge_allocation(const DxgkitClientAnswer* answer) {
  VgpuUmdAllocation sent, returned;
  const int whole = answer->bytes >= sizeof(sent);
  if (whole) memcpy(&sent, answer->sent, sizeof(sent));
  const int right = whole && sent.magic == VGPU_UMD_ALLOCATION_MAGIC &&
                    sent.version == VGPU_UMD_VERSION && sent.width != 0 &&
                    sent.width <= VGPU_UMD_SIDE_MAX && sent.height != 0 &&
                    sent.height <= VGPU_UMD_SIDE_MAX && sent.pitch_bytes == 0 && sent.reserved == 0;
  if (answer->status < 0) {
    if (answer->no_memory || !right) return NULL;
    return "a right surface is refused";
  }
  if (!right) return "a wrong surface is accepted";
  memcpy(&returned, answer->returned, sizeof(returned));
  sent.pitch_bytes = sent.width * PIXEL_BYTES;
  if (memcmp(&sent, &returned, sizeof(sent)) != 0) return "the pitch, or a field beside it";
  const DxgkitClientAllocationFacts* const facts = answer->allocation;
  if (facts == NULL) return NULL;
  if (facts->size_bytes < (uint64_t)sent.pitch_bytes * sent.height) return "its size";
  if (facts->read_segments != 1 || facts->write_segments != 1 || facts->eviction_segments != 0)
    return "its segments";
  return NULL;
}

static const char* judge_facts(const DxgkitClientFacts* facts) {
  if (facts->wddm_version != 0x1300) return "WDDMVersion";
  if (facts->node_count != 1 || facts->segment_count != 1) return "the nodes or the segments";
  if (facts->segments[0].size_bytes != APERTURE_BYTES ||
      facts->segments[0].commit_limit != APERTURE_BYTES ||
      facts->aperture_commit_limit != APERTURE_BYTES)
    return "the size of the aperture";
  if (facts->segments[0].base_address != 0xC0000000ull) return "the address of the aperture";
  if (facts->highest_address != UINT64_MAX) return "HighestAcceptableAddress";
  return NULL;
}

static const char* judge(void* client, const DxgkitClientAnswer* answer) {
  (void)client;
  if (answer->kind == DXGKIT_CLIENT_DATA_ALLOCATION) return judge_allocation(answer);
  if (answer->kind == DXGKIT_CLIENT_DATA_FACTS) return judge_facts(answer->returned);
  if (answer->kind == DXGKIT_CLIENT_DATA_ADAPTER && answer->status >= 0) {
    VgpuUmdAdapterInfo info;
    if (answer->bytes < sizeof(info)) return "an answer fits where there is no room for it";
    memcpy(&info, answer->returned, sizeof(info));
    if (info.side_max != VGPU_UMD_SIDE_MAX || info.reserved != 0) return "side_max or reserved";
    if (info.preferred_width == 0 || info.preferred_height == 0) return "the size of the screen";
  }
  return NULL;
}

static const char* example(void* client, uint32_t kind, uint32_t index, void* data,
                           uint32_t capacity, uint32_t* bytes) {
  static const uint32_t kSides[][2] = {{1, 1}, {VGPU_UMD_SIDE_MAX, 1}, {1, VGPU_UMD_SIDE_MAX}};
  (void)client;
  *bytes = 0;
  if (kind != DXGKIT_CLIENT_DATA_ALLOCATION || index >= sizeof(kSides) / sizeof(kSides[0]))
    return NULL;
  const VgpuUmdAllocation request = {.magic = VGPU_UMD_ALLOCATION_MAGIC,
                                     .version = VGPU_UMD_VERSION,
                                     .width = kSides[index][0],
                                     .height = kSides[index][1]};
  if (capacity < sizeof(request)) return "too little room";
  memcpy(data, &request, sizeof(request));
  *bytes = sizeof(request);
  return NULL;
}

const DxgkitClient* dxgkit_client(uint32_t version) {
  static const DxgkitClient kClient = {.version = DXGKIT_CLIENT_VERSION,
                                       .size_bytes = sizeof(DxgkitClient),
                                       .name = "virtiogpu",
                                       .umd_private_bytes = sizeof(VgpuUmdAdapterInfo),
                                       .open = open_client,
                                       .close = close_client,
                                       .pack_allocation = pack_allocation,
                                       .plan = plan,
                                       .fill = fill,
                                       .record = record,
                                       .check = check,
                                       .record_overreach = record_overreach,
                                       .example = example,
                                       .judge = judge};
  (void)version;
  return &kClient;
}
