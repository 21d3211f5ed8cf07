/* The example of a client plug-in (dxgkit/client_plugin.h): as much of a user-mode driver for
 * softgpu as one copy takes.
 *
 * A job: the CPU fills an upload buffer, the GPU copies it to video memory, fills the second half
 * of that, copies it to a read-back buffer, and puts a checksum behind it; the CPU checks all of
 * it. The commands are the same in both memory models: references to allocations where the driver
 * patches, addresses where it does not.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "miniports/softgpu/softgpu_umd.h"
#include "tools/dxgkit/client_plugin.h"

enum { kUpload, kVideo, kReadBack, kAllocations };
#define CHECKSUM_BYTES 4096u /* of the read-back buffer, behind the pixels */

typedef struct Client {
  uint32_t node_count;
  uint32_t allocation_bytes_max;
} Client;

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/* 16 KiB to 1 MiB, whole pages. */
static uint64_t data_bytes(uint64_t seed) { return ((mix(seed) % 64) + 1) * 16384u; }
static uint64_t filled_from(uint64_t seed) { return data_bytes(seed) / 2; }
static uint32_t fill_pattern(uint64_t seed) { return (uint32_t)mix(seed + 1); }

/* Byte `at` of what the CPU uploads. */
static uint8_t source_byte(uint64_t seed, uint64_t at) {
  return (uint8_t)(mix(seed + (at >> 3)) >> (at % 8 * 8));
}

/* Byte `at` of what must come back. */
static uint8_t result_byte(uint64_t seed, uint64_t at) {
  if (at < filled_from(seed)) return source_byte(seed, at);
  return (uint8_t)(fill_pattern(seed) >> ((at - filled_from(seed)) % 4 * 8));
}

static int matches(uint16_t vendor_id, uint16_t device_id) {
  (void)device_id;
  return vendor_id != 0; /* what decides is the magic number in open() */
}

static const char* open_client(const DxgkitClientAdapter* adapter, void** client) {
  SgpuUmdAdapterInfo info;
  if (adapter->umd_private_bytes < sizeof(info)) return "the adapter information is too short";
  memcpy(&info, adapter->umd_private, sizeof(info));
  if (info.magic != SGPU_UMD_ADAPTER_MAGIC)
    return "the driver is not softgpu's: another magic number";
  if (info.version < SGPU_UMD_VERSION) return "the driver speaks an older version";
  /* What it says of itself in two ways. */
  if (info.size_bytes != sizeof(info)) return "the driver filled another structure";
  if (info.node_count != adapter->node_count) return "the driver names another number of nodes";
  const uint32_t addresses = adapter->gpu_virtual_addresses;
  if (((info.flags & SGPU_UMD_ADAPTER_GPU_VA) != 0) != addresses ||
      (info.va_bits != 0) != addresses)
    return "the driver's flags and its contexts are of two memory models";
  Client* made = malloc(sizeof(*made));
  if (made == NULL) return "no memory";
  made->node_count = info.node_count;
  made->allocation_bytes_max = info.allocation_bytes_max;
  *client = made;
  return NULL;
}

static void close_client(void* client) { free(client); }

static const char* pack_context(void* client, uint32_t node, void* data, uint32_t capacity,
                                uint32_t* bytes) {
  const Client* self = client;
  SgpuUmdContext request = {.magic = SGPU_UMD_CONTEXT_MAGIC, .version = SGPU_UMD_VERSION};
  if (node >= self->node_count) return "there is no such node";
  if (capacity < sizeof(request)) return "too little room";
  memcpy(data, &request, sizeof(request));
  *bytes = sizeof(request);
  return NULL;
}

static const char* pack_allocation(void* client, const DxgkitClientAllocation* wanted, void* data,
                                   uint32_t capacity, uint32_t* bytes) {
  (void)client;
  SgpuUmdAllocation request = {.magic = SGPU_UMD_ALLOCATION_MAGIC, .version = SGPU_UMD_VERSION};
  const uint32_t cpu = DXGKIT_CLIENT_CPU_READS | DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_COMMANDS;
  request.placement = (wanted->usage & cpu) != 0 ? SGPU_UMD_PLACE_STAGING : SGPU_UMD_PLACE_VRAM;
  request.kind = SGPU_UMD_KIND_BUFFER;
  request.size_bytes = wanted->size_bytes;
  if (capacity < sizeof(request)) return "too little room";
  memcpy(data, &request, sizeof(request));
  *bytes = sizeof(request);
  return NULL;
}

static const char* plan(void* client, uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted,
                        uint32_t capacity, uint32_t* count) {
  (void)client;
  (void)node;
  if (capacity < kAllocations) return "too little room";
  memset(wanted, 0, kAllocations * sizeof(*wanted));
  wanted[kUpload].size_bytes = data_bytes(seed);
  wanted[kUpload].usage = DXGKIT_CLIENT_CPU_WRITES;
  wanted[kVideo].size_bytes = data_bytes(seed);
  wanted[kVideo].usage = DXGKIT_CLIENT_GPU_WRITES;
  wanted[kReadBack].size_bytes = data_bytes(seed) + CHECKSUM_BYTES;
  wanted[kReadBack].usage = DXGKIT_CLIENT_CPU_READS | DXGKIT_CLIENT_GPU_WRITES;
  *count = kAllocations;
  return NULL;
}

static const char* fill(void* client, const DxgkitClientJob* job, uint32_t index, void* view,
                        uint64_t view_bytes) {
  (void)client;
  (void)index;
  uint8_t* bytes = view;
  for (uint64_t at = 0; at < view_bytes; ++at) bytes[at] = source_byte(job->seed, at);
  return NULL;
}

/* Appends a command; job->command_bytes stays where it is when there is no room. */
static int add(DxgkitClientJob* job, const void* command, uint32_t bytes) {
  if (job->command_bytes_max - job->command_bytes < bytes) return 0;
  memcpy((uint8_t*)job->commands + job->command_bytes, command, bytes);
  job->command_bytes += bytes;
  return 1;
}

/* `at` bytes into an allocation, as a command of the adapter's model names them. */
static SgpuUmdReference place(const DxgkitClientJob* job, uint32_t allocation, uint64_t at) {
  if (job->addresses != NULL) return sgpu_umd_at(job->addresses[allocation] + at);
  const SgpuUmdReference reference = {allocation, (uint32_t)at};
  return reference;
}

/* 0: there is no room. */
static int add_commands(DxgkitClientJob* job) {
  const uint64_t size = data_bytes(job->seed);
  const uint64_t half = filled_from(job->seed);
  int room = 1;
  if (job->busy_ns != 0) {
    const SgpuUmdDelay delay = {.header = {SGPU_UMD_OP_DELAY, sizeof(delay)},
                                .duration_ns = job->busy_ns,
                                .flags = SGPU_UMD_DELAY_PREEMPTIBLE};
    room = add(job, &delay, sizeof(delay));
  }
  const SgpuUmdCopy up = {.header = {SGPU_UMD_OP_COPY, sizeof(up)},
                          .source = place(job, kUpload, 0),
                          .destination = place(job, kVideo, 0),
                          .size_bytes = size};
  const SgpuUmdFill second_half = {.header = {SGPU_UMD_OP_FILL, sizeof(second_half)},
                                   .destination = place(job, kVideo, half),
                                   .size_bytes = size - half,
                                   .pattern = fill_pattern(job->seed)};
  const SgpuUmdCopy down = {.header = {SGPU_UMD_OP_COPY, sizeof(down)},
                            .source = place(job, kVideo, 0),
                            .destination = place(job, kReadBack, 0),
                            .size_bytes = size};
  const SgpuUmdChecksum sum = {.header = {SGPU_UMD_OP_CHECKSUM, sizeof(sum)},
                               .source = place(job, kVideo, 0),
                               .result = place(job, kReadBack, size),
                               .pitch = (uint32_t)size,
                               .width_bytes = (uint32_t)size,
                               .height = 1,
                               .kind = SGPU_UMD_CHECKSUM_FNV1A64};
  return room && add(job, &up, sizeof(up)) && add(job, &second_half, sizeof(second_half)) &&
         add(job, &down, sizeof(down)) && add(job, &sum, sizeof(sum));
}

static const char* record(void* client, DxgkitClientJob* job) {
  (void)client;
  if (job->use_count_max < kAllocations) return "the allocation list is too short";
  for (uint32_t i = 0; i < kAllocations; ++i) {
    job->uses[i].allocation = i;
    job->uses[i].write = i != kUpload;
  }
  job->use_count = kAllocations;
  SgpuUmdBufferHeader header = {.magic = SGPU_UMD_BUFFER_MAGIC, .version = SGPU_UMD_VERSION};
  if (!add(job, &header, sizeof(header)) || !add_commands(job))
    return "the command buffer is too short";
  header.size_bytes = job->command_bytes;
  memcpy(job->commands, &header, sizeof(header));
  return NULL;
}

static const char* record_virtual(void* client, DxgkitClientJob* job) {
  (void)client;
  const SgpuUmdSubmission submission = {.magic = SGPU_UMD_SUBMISSION_MAGIC,
                                        .version = SGPU_UMD_VERSION};
  if (!add_commands(job)) return "the command buffer is too short";
  if (job->private_bytes_max < sizeof(submission)) return "too little room for private data";
  memcpy(job->private_data, &submission, sizeof(submission));
  job->private_bytes = sizeof(submission);
  return NULL;
}

static const char* check(void* client, const DxgkitClientJob* job, uint32_t index, const void* view,
                         uint64_t view_bytes) {
  (void)client;
  (void)index;
  const uint8_t* bytes = view;
  const uint64_t size = data_bytes(job->seed);
  if (view_bytes < size + CHECKSUM_BYTES) return "the read-back buffer is too short";
  uint64_t expected = 0xCBF29CE484222325ull; /* FNV-1a */
  for (uint64_t at = 0; at < size; ++at) {
    if (bytes[at] != result_byte(job->seed, at)) {
      return at < filled_from(job->seed) ? "a copied byte is wrong" : "a filled byte is wrong";
    }
    expected = (expected ^ bytes[at]) * 0x100000001B3ull;
  }
  uint64_t sum = 0;
  memcpy(&sum, bytes + size, sizeof(sum));
  return sum == expected ? NULL : "the bytes are right, the checksum of the GPU is not";
}

/* More allocations than jobs use: surfaces, and the edges of what may be asked for. */
static const SgpuUmdAllocation kAllocationExamples[] = {
    {.kind = SGPU_UMD_KIND_SURFACE, .placement = SGPU_UMD_PLACE_VRAM, .width = 33, .height = 5},
    {.kind = SGPU_UMD_KIND_SURFACE, .placement = SGPU_UMD_PLACE_STAGING, .width = 16, .height = 3},
    {.kind = SGPU_UMD_KIND_SURFACE,
     .placement = SGPU_UMD_PLACE_ANY,
     .width = 100,
     .height = 3,
     .pitch_bytes = 400},
    {.kind = SGPU_UMD_KIND_SURFACE,
     .placement = SGPU_UMD_PLACE_VRAM,
     .width = SGPU_UMD_SURFACE_PIXELS_MAX,
     .height = 1},
    {.kind = SGPU_UMD_KIND_SURFACE,
     .placement = SGPU_UMD_PLACE_VRAM,
     .width = 1,
     .height = SGPU_UMD_SURFACE_PIXELS_MAX,
     .pitch_bytes = 4},
    {.kind = SGPU_UMD_KIND_BUFFER, .placement = SGPU_UMD_PLACE_ANY, .size_bytes = 1},
    {.kind = SGPU_UMD_KIND_BUFFER,
     .placement = SGPU_UMD_PLACE_STAGING,
     .size_bytes = SGPU_UMD_ALLOCATION_BYTES_MAX},
};

static const char* example(void* client, uint32_t kind, uint32_t index, void* data,
                           uint32_t capacity, uint32_t* bytes) {
  (void)client;
  *bytes = 0;
  if (kind == DXGKIT_CLIENT_DATA_ALLOCATION &&
      index < sizeof(kAllocationExamples) / sizeof(kAllocationExamples[0])) {
    SgpuUmdAllocation request = kAllocationExamples[index];
    request.magic = SGPU_UMD_ALLOCATION_MAGIC;
    request.version = SGPU_UMD_VERSION;
    if (capacity < sizeof(request)) return "too little room";
    memcpy(data, &request, sizeof(request));
    *bytes = sizeof(request);
  } else if (kind == DXGKIT_CLIENT_DATA_ESCAPE && index == 0) {
    const SgpuUmdEscape request = {.magic = SGPU_UMD_ESCAPE_MAGIC,
                                   .version = SGPU_UMD_VERSION,
                                   .operation = SGPU_UMD_ESCAPE_QUERY_STATE};
    if (capacity < sizeof(request)) return "too little room";
    memcpy(data, &request, sizeof(request));
    *bytes = sizeof(request);
  }
  return NULL;
}

static int is_valid_allocation(const SgpuUmdAllocation* request) {
  if (request->magic != SGPU_UMD_ALLOCATION_MAGIC || request->version != SGPU_UMD_VERSION) return 0;
  if (request->placement > SGPU_UMD_PLACE_ANY || request->reserved != 0) return 0;
  if (request->kind == SGPU_UMD_KIND_BUFFER) {
    return request->width == 0 && request->height == 0 && request->pitch_bytes == 0 &&
           request->size_bytes >= 1 && request->size_bytes <= SGPU_UMD_ALLOCATION_BYTES_MAX;
  }
  if (request->kind != SGPU_UMD_KIND_SURFACE || request->size_bytes != 0) return 0;
  if (request->width == 0 || request->width > SGPU_UMD_SURFACE_PIXELS_MAX) return 0;
  if (request->height == 0 || request->height > SGPU_UMD_SURFACE_PIXELS_MAX) return 0;
  uint64_t pitch = request->pitch_bytes;
  if (pitch == 0) {
    const uint64_t unit = SGPU_UMD_PITCH_ALIGNMENT;
    pitch = (4ull * request->width + unit - 1) / unit * unit;
  }
  return pitch % 4 == 0 && pitch >= 4ull * request->width &&
         pitch * request->height <= SGPU_UMD_ALLOCATION_BYTES_MAX;
}

static const char* judge_allocation(const Client* self, const DxgkitClientAnswer* answer) {
  SgpuUmdAllocation sent, returned;
  if (answer->bytes < sizeof(sent)) return answer->status < 0 ? NULL : "it is too short";
  memcpy(&sent, answer->sent, sizeof(sent));
  memcpy(&returned, answer->returned, sizeof(returned));
  if (!is_valid_allocation(&sent)) {
    /* It is not for the kernel to find out that there is not so much memory. */
    return answer->status < 0 && !answer->no_memory ? NULL : "it asks for what there is not";
  }
  if (sent.kind == SGPU_UMD_KIND_SURFACE) {
    const uint32_t unit = SGPU_UMD_PITCH_ALIGNMENT;
    if (sent.pitch_bytes == 0) sent.pitch_bytes = (sent.width + unit / 4 - 1) / (unit / 4) * unit;
    sent.size_bytes = (uint64_t)sent.pitch_bytes * sent.height;
  }
  if (answer->status < 0) {
    /* More than all video memory is the kernel's to refuse. */
    const int fits = sent.size_bytes <= self->allocation_bytes_max;
    return fits && !answer->no_memory ? "it is as the interface says" : NULL;
  }
  return memcmp(&sent, &returned, sizeof(sent)) == 0 ? NULL : "wrong size or pitch came back";
}

static const char* judge_context(const DxgkitClientAnswer* answer) {
  SgpuUmdContext sent;
  int valid = answer->bytes == 0;
  if (answer->bytes >= sizeof(sent)) {
    memcpy(&sent, answer->sent, sizeof(sent));
    valid = sent.magic == SGPU_UMD_CONTEXT_MAGIC && sent.version == SGPU_UMD_VERSION &&
            sent.flags == 0 && sent.reserved == 0;
  }
  if (valid) return answer->status < 0 && !answer->no_memory ? "it is as the interface says" : NULL;
  return answer->status < 0 ? NULL : "it is not as the interface says";
}

static const char* judge_escape(const Client* self, const DxgkitClientAnswer* answer) {
  SgpuUmdEscape sent, returned;
  if (answer->bytes < sizeof(sent)) return answer->status < 0 ? NULL : "it is too short";
  memcpy(&sent, answer->sent, sizeof(sent));
  memcpy(&returned, answer->returned, sizeof(returned));
  /* The doorbell takes the flag HardwareAccess. */
  const int valid = sent.magic == SGPU_UMD_ESCAPE_MAGIC && sent.version == SGPU_UMD_VERSION &&
                    sent.operation == SGPU_UMD_ESCAPE_QUERY_STATE;
  if (!valid) return answer->status < 0 ? NULL : "there is no such request";
  if (answer->status < 0) return "it is as the interface says";
  if (returned.node_count != self->node_count) return "another number of nodes came back";
  for (uint32_t i = 0; i < SGPU_UMD_NODES_MAX; ++i) {
    const SgpuUmdNodeState* const node = &returned.node[i];
    const SgpuUmdNodeState unused = {0};
    if (node->hardware_status != 0) return "it looked at the hardware without permission";
    if (i >= self->node_count && memcmp(node, &unused, sizeof(unused)) != 0)
      return "a node that is not there has a state";
    if (node->submitted_fence != node->completed_fence) return "an idle node has work";
  }
  return NULL;
}

static const char* judge(void* client, const DxgkitClientAnswer* answer) {
  switch (answer->kind) {
    case DXGKIT_CLIENT_DATA_ALLOCATION:
      return judge_allocation(client, answer);
    case DXGKIT_CLIENT_DATA_CONTEXT:
      return judge_context(answer);
    case DXGKIT_CLIENT_DATA_ESCAPE:
      return judge_escape(client, answer);
    default:
      return NULL;
  }
}

const DxgkitClient* dxgkit_client(uint32_t version) {
  static const DxgkitClient kClient = {.version = DXGKIT_CLIENT_VERSION,
                                       .size_bytes = sizeof(DxgkitClient),
                                       .name = "softgpu",
                                       .umd_private_bytes = sizeof(SgpuUmdAdapterInfo),
                                       .matches = matches,
                                       .open = open_client,
                                       .close = close_client,
                                       .pack_context = pack_context,
                                       .pack_allocation = pack_allocation,
                                       .plan = plan,
                                       .fill = fill,
                                       .record = record,
                                       .check = check,
                                       .record_virtual = record_virtual,
                                       .example = example,
                                       .judge = judge};
  (void)version;
  return &kClient;
}
