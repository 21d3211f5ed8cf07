// What the user-mode half of the first driver knows: how its private data and its commands look.
#include <dxgkit/client_plugin.h>
#include <string.h>

#define BUFFERS 3  // allocations of a job
#define PARTS 60   // of each buffer; each is one fill, behind a fill of the whole buffer

typedef struct Fill {
  uint32_t allocation, value, offset, bytes;
} Fill;

// Elements of the allocation list: none, the buffers to be written, and the first to be read.
enum { NOTHING, BUFFER, READING = BUFFER + BUFFERS, USES };

static uint32_t value_of(uint64_t seed, uint32_t buffer, uint32_t part) {
  return ((uint32_t)seed + buffer * 101 + part) * 0x9E3779B1;
}
// The bytes behind the last part belong to the fill of the whole buffer alone.
static uint32_t part_bytes(uint64_t size) { return (uint32_t)(size / (PARTS + 1)); }

static const char* open_client(const DxgkitClientAdapter* adapter, void** client) {
  (void)adapter;
  *client = NULL;
  return NULL;
}
static void close_client(void* client) { (void)client; }

static const char* pack_allocation(void* client, const DxgkitClientAllocation* wanted, void* data,
                                   uint32_t capacity, uint32_t* bytes) {
  (void)client;
  if (capacity < sizeof(uint64_t)) return "there is no room for the size of an allocation";
  memcpy(data, &wanted->size_bytes, sizeof(uint64_t));
  *bytes = sizeof(uint64_t);
  return NULL;
}

static const char* plan(void* client, uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted,
                        uint32_t capacity, uint32_t* count) {
  (void)client;
  (void)node;
  if (capacity < BUFFERS) return "a job needs more allocations";
  memset(wanted, 0, BUFFERS * sizeof(wanted[0]));
  for (uint32_t i = 0; i < BUFFERS; ++i) {
    wanted[i].size_bytes = 20001 + (seed >> (16 * i)) % 50000;
    wanted[i].usage = DXGKIT_CLIENT_GPU_WRITES | DXGKIT_CLIENT_CPU_READS;
  }
  *count = BUFFERS;
  return NULL;
}

static const char* fill(void* client, const DxgkitClientJob* job, uint32_t index, void* view,
                        uint64_t bytes) {
  (void)client;
  (void)job;
  (void)index;
  memset(view, 0, bytes);
  return NULL;
}

static const char* begin(DxgkitClientJob* job) {
  if (job->command_bytes_max < BUFFERS * (1 + PARTS) * sizeof(Fill) || job->use_count_max < USES)
    return "the buffers of the context are too small";
  memset(job->uses, 0, USES * sizeof(job->uses[0]));
  job->uses[NOTHING].allocation = DXGKIT_CLIENT_NO_ALLOCATION;
  job->uses[NOTHING].write = 1;
  for (uint32_t i = 0; i < BUFFERS; ++i) {
    job->uses[BUFFER + i].allocation = i;
    job->uses[BUFFER + i].write = 1;
  }
  job->use_count = USES;
  job->command_bytes = 0;
  job->patch_count = 0;  // the driver's Render makes the list
  return NULL;
}

static void add(DxgkitClientJob* job, uint32_t use, uint32_t value, uint32_t offset,
                uint32_t bytes) {
  const Fill command = {use, value, offset, bytes};
  memcpy((char*)job->commands + job->command_bytes, &command, sizeof(command));
  job->command_bytes += sizeof(command);
}

static const char* record(void* client, DxgkitClientJob* job) {
  (void)client;
  const char* why = begin(job);
  if (why != NULL) return why;
  for (uint32_t part = 0; part <= PARTS; ++part) {
    for (uint32_t i = 0; i < BUFFERS; ++i) {
      const uint32_t size = (uint32_t)job->allocations[i].wanted.size_bytes;
      const uint32_t each = part_bytes(size);
      if (part == 0)
        add(job, BUFFER + i, value_of(job->seed, i, PARTS), 0, size);
      else
        add(job, BUFFER + i, value_of(job->seed, i, part - 1), (part - 1) * each, each);
    }
  }
  return NULL;
}

static const char* check(void* client, const DxgkitClientJob* job, uint32_t index, const void* view,
                         uint64_t bytes) {
  (void)client;
  const unsigned char* found = view;
  const uint32_t each = part_bytes(bytes);
  for (uint64_t i = 0; i < bytes; ++i) {
    const uint32_t part = (uint32_t)(i / each);
    const uint64_t at = part < PARTS ? i % each : i;  // in the fill that wrote it last
    const uint32_t value = value_of(job->seed, index, part < PARTS ? part : PARTS);
    if (found[i] != (value >> at % 4 * 8 & 0xFF)) return "a fill is missing or wrong";
  }
  return NULL;
}

static const char* record_overreach(void* client, DxgkitClientJob* job, uint32_t variant,
                                    DxgkitClientOverreach* overreach) {
  (void)client;
  const uint32_t size = (uint32_t)job->allocations[0].wanted.size_bytes;
  const struct {
    const char* what;
    uint32_t use, offset, bytes;
  } variants[] = {
      {"the whole buffer", BUFFER, 0, size},
      {"the last byte", BUFFER, size - 1, 1},
      {"no bytes, at the end", BUFFER, size, 0},
      {"one byte behind the end", BUFFER, size, 1},
      {"no bytes, behind the end", BUFFER, size + 1, 0},
      {"one byte too many", BUFFER, 1, size},
      {"offset and bytes whose sum wraps", BUFFER, 4096, 0xFFFFF001},
      {"an index behind the list", USES, 0, 1},
      {"the largest index", 0xFFFFFFFF, 0, 1},
      {"an element without an allocation", NOTHING, 0, 1},
      {"an element that is not to be written", READING, 0, 1},
      {"a command that is cut short", BUFFER, 0, 1},
  };
  const uint32_t count = sizeof(variants) / sizeof(variants[0]);
  if (variant >= count) return NULL;
  const char* why = begin(job);
  if (why != NULL) return why;
  add(job, variants[variant].use, 0, variants[variant].offset, variants[variant].bytes);
  if (variant == count - 1) --job->command_bytes;
  overreach->what = variants[variant].what;
  overreach->expected = variant < 3 ? DXGKIT_CLIENT_RIGHT : DXGKIT_CLIENT_REFUSED;
  return NULL;
}

static const uint64_t kMost = 0x400000;  // bytes of an allocation: all that the GPU has

static const char* example(void* client, uint32_t kind, uint32_t index, void* data,
                           uint32_t capacity, uint32_t* bytes) {
  (void)client;
  *bytes = 0;
  if (kind != DXGKIT_CLIENT_DATA_ALLOCATION || index > 0 || capacity < sizeof(kMost)) return NULL;
  memcpy(data, &kMost, sizeof(kMost));
  *bytes = sizeof(kMost);
  return NULL;
}

static const char* judge(void* client, const DxgkitClientAnswer* answer) {
  (void)client;
  if (answer->kind != DXGKIT_CLIENT_DATA_ALLOCATION) return NULL;
  uint64_t size = 0;
  if (answer->bytes == sizeof(size)) memcpy(&size, answer->sent, sizeof(size));
  const int right = size != 0 && size <= kMost;
  const int found = answer->status >= 0 || answer->no_memory;
  if (right == found) return NULL;
  return right ? "a size that there is was refused" : "it is no size, and was not refused as such";
}

static const DxgkitClient kClient = {
    .version = DXGKIT_CLIENT_VERSION,
    .size_bytes = sizeof(DxgkitClient),
    .name = "first",
    .open = open_client,
    .close = close_client,
    .pack_allocation = pack_allocation,
    .plan = plan,
    .fill = fill,
    .record = record,
    .check = check,
    .record_overreach = record_overreach,
    .example = example,
    .judge = judge,
};
const DxgkitClient* dxgkit_client(uint32_t version) {
  (void)version;
  return &kClient;
}
