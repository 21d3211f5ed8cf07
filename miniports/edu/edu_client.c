/* What a user-mode half of the edu driver would know: its private data and its commands. For
 * `dxgkit verify --client`. A job fills, copies once through the device, and lets it compute. */
#include <string.h>

#include "tools/dxgkit/client_plugin.h"

enum { OPERATION_FILL, OPERATION_COPY, OPERATION_FACTORIAL };
enum { SOURCE, RESULT, ALLOCATIONS };
/* Elements of the allocation list: none, and then in another order than the allocations. */
enum { NOTHING, TO_RESULT, FROM_SOURCE, USES };

/* As the driver reads it. */
typedef struct Command {
  uint32_t operation, value, destination, source, offset, source_offset, bytes;
} Command;

#define COPY_BYTES_MAX 4096u
#define MEMORY_BYTES 0x100000ull

/* The places of one job, from its seed. */
typedef struct Job {
  uint32_t source_bytes, result_bytes;
  uint32_t fill, copy_bytes, copy_from, copy_to, number, number_at;
} Job;

static Job make_job(uint64_t seed) {
  Job job;
  job.source_bytes = 6001 + (uint32_t)(seed % 5000);
  job.result_bytes = 9001 + (uint32_t)(seed >> 16) % 9000;
  job.fill = ((uint32_t)seed + 1) * 0x9E3779B1u;
  job.copy_bytes = 1 + (uint32_t)(seed >> 8) % COPY_BYTES_MAX;
  job.copy_from = (uint32_t)(seed >> 24) % (job.source_bytes - job.copy_bytes);
  job.copy_to = (uint32_t)(seed >> 20) % (job.result_bytes - job.copy_bytes - 8);
  job.number = (uint32_t)(seed % 13);
  job.number_at = job.result_bytes - 8; /* behind the copy; a number is written whole */
  job.number_at -= job.number_at % 4;
  if (job.copy_to + job.copy_bytes > job.number_at) job.copy_to = 0;
  return job;
}

static unsigned char source_byte(uint64_t seed, uint64_t at) {
  return (unsigned char)((seed + at) * 0x9E3779B1u >> 13);
}

static uint32_t factorial(uint32_t n) {
  uint32_t result = 1;
  for (; n > 1; --n) result *= n;
  return result;
}

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
  const Job job = make_job(seed);
  (void)client;
  (void)node;
  if (capacity < ALLOCATIONS) return "a job needs more allocations";
  memset(wanted, 0, ALLOCATIONS * sizeof(wanted[0]));
  wanted[SOURCE].size_bytes = job.source_bytes;
  wanted[SOURCE].usage = DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_CPU_READS;
  wanted[RESULT].size_bytes = job.result_bytes;
  wanted[RESULT].usage = DXGKIT_CLIENT_GPU_WRITES | DXGKIT_CLIENT_CPU_READS;
  *count = ALLOCATIONS;
  return NULL;
}

static const char* fill(void* client, const DxgkitClientJob* job, uint32_t index, void* view,
                        uint64_t bytes) {
  (void)client;
  (void)index;
  for (uint64_t i = 0; i < bytes; ++i) ((unsigned char*)view)[i] = source_byte(job->seed, i);
  return NULL;
}

static const char* begin(DxgkitClientJob* job) {
  if (job->command_bytes_max < 3 * sizeof(Command) || job->use_count_max < USES)
    return "the buffers of the context are too small";
  memset(job->uses, 0, USES * sizeof(job->uses[0]));
  job->uses[NOTHING].allocation = DXGKIT_CLIENT_NO_ALLOCATION;
  job->uses[NOTHING].write = 1;
  job->uses[TO_RESULT].allocation = RESULT;
  job->uses[TO_RESULT].write = 1;
  job->uses[FROM_SOURCE].allocation = SOURCE;
  job->use_count = USES;
  job->command_bytes = 0;
  job->patch_count = 0; /* the driver's Render makes the list */
  return NULL;
}

static void add(DxgkitClientJob* job, Command command) {
  memcpy((char*)job->commands + job->command_bytes, &command, sizeof(command));
  job->command_bytes += sizeof(command);
}

static const char* record(void* client, DxgkitClientJob* job) {
  const Job work = make_job(job->seed);
  const char* why = begin(job);
  (void)client;
  if (why != NULL) return why;
  add(job, (Command){OPERATION_FILL, work.fill, TO_RESULT, 0, 0, 0, work.result_bytes});
  add(job, (Command){OPERATION_COPY, 0, TO_RESULT, FROM_SOURCE, work.copy_to, work.copy_from,
                     work.copy_bytes});
  add(job, (Command){OPERATION_FACTORIAL, work.number, TO_RESULT, 0, work.number_at, 0, 4});
  return NULL;
}

static const char* check(void* client, const DxgkitClientJob* job, uint32_t index, const void* view,
                         uint64_t bytes) {
  const Job work = make_job(job->seed);
  const unsigned char* found = view;
  const uint32_t number = factorial(work.number);
  (void)client;
  if (index == SOURCE) {
    for (uint64_t i = 0; i < bytes && i < work.source_bytes; ++i) {
      if (found[i] != source_byte(job->seed, i)) return "a byte that is only read has changed";
    }
    return NULL;
  }
  if (bytes < work.result_bytes) return "the view is too short";
  if (memcmp(found + work.number_at, &number, sizeof(number)) != 0)
    return "the factorial is wrong or missing";
  for (uint32_t i = 0; i < work.copy_bytes; ++i) {
    if (found[work.copy_to + i] != source_byte(job->seed, work.copy_from + i))
      return "a byte of the copy is wrong";
  }
  for (uint32_t i = 0; i < work.result_bytes; ++i) {
    if (i - work.copy_to < work.copy_bytes || i - work.number_at < sizeof(number)) continue;
    if (found[i] != (work.fill >> i % 4 * 8 & 0xFF)) return "a byte of the fill is wrong";
  }
  return NULL;
}

static const char* record_overreach(void* client, DxgkitClientJob* job, uint32_t variant,
                                    DxgkitClientOverreach* overreach) {
  const Job work = make_job(job->seed);
  const uint32_t size = work.result_bytes, from = work.source_bytes;
  const struct {
    const char* what;
    Command command;
  } variants[] = {
      {"FILL: the whole buffer", {OPERATION_FILL, 0, TO_RESULT, 0, 0, 0, size}},
      {"COPY: as much as there may be, up to the end",
       {OPERATION_COPY, 0, TO_RESULT, FROM_SOURCE, size - COPY_BYTES_MAX, from - COPY_BYTES_MAX,
        COPY_BYTES_MAX}},
      {"FACTORIAL: the last four bytes", {OPERATION_FACTORIAL, 5, TO_RESULT, 0, size - 4, 0, 4}},
      {"FILL: one byte too many", {OPERATION_FILL, 0, TO_RESULT, 0, 1, 0, size}},
      {"FILL: offset and bytes whose sum wraps",
       {OPERATION_FILL, 0, TO_RESULT, 0, 4096, 0, 0xFFFFF001}},
      {"COPY: one byte too many at the destination",
       {OPERATION_COPY, 0, TO_RESULT, FROM_SOURCE, size - 9, 0, 10}},
      {"COPY: one byte too many at the source",
       {OPERATION_COPY, 0, TO_RESULT, FROM_SOURCE, 0, from - 9, 10}},
      {"COPY: more than the buffer of the device",
       {OPERATION_COPY, 0, TO_RESULT, FROM_SOURCE, 0, 0, COPY_BYTES_MAX + 1}},
      {"COPY: no bytes", {OPERATION_COPY, 0, TO_RESULT, FROM_SOURCE, 0, 0, 0}},
      {"COPY: a source behind the list", {OPERATION_COPY, 0, TO_RESULT, USES, 0, 0, 1}},
      {"COPY: a source without an allocation", {OPERATION_COPY, 0, TO_RESULT, NOTHING, 0, 0, 1}},
      {"COPY: a destination that is not to be written",
       {OPERATION_COPY, 0, FROM_SOURCE, FROM_SOURCE, 0, 0, 1}},
      {"FACTORIAL: behind the end", {OPERATION_FACTORIAL, 5, TO_RESULT, 0, size - 3, 0, 4}},
      {"FACTORIAL: another size", {OPERATION_FACTORIAL, 5, TO_RESULT, 0, 0, 0, 8}},
      {"an operation that there is not", {OPERATION_FACTORIAL + 1, 0, TO_RESULT, 0, 0, 0, 4}},
      {"a command that is cut short", {OPERATION_FILL, 0, TO_RESULT, 0, 0, 0, 1}},
  };
  const uint32_t count = sizeof(variants) / sizeof(variants[0]);
  const char* why = variant < count ? begin(job) : NULL;
  (void)client;
  if (variant >= count || why != NULL) return why;
  add(job, variants[variant].command);
  if (variant == count - 1) --job->command_bytes;
  overreach->what = variants[variant].what;
  overreach->expected = variant < 3 ? DXGKIT_CLIENT_RIGHT : DXGKIT_CLIENT_REFUSED;
  return NULL;
}

static const char* example(void* client, uint32_t kind, uint32_t index, void* data,
                           uint32_t capacity, uint32_t* bytes) {
  const uint64_t most = MEMORY_BYTES;
  (void)client;
  *bytes = 0;
  if (kind != DXGKIT_CLIENT_DATA_ALLOCATION || index > 0 || capacity < sizeof(most)) return NULL;
  memcpy(data, &most, sizeof(most));
  *bytes = sizeof(most);
  return NULL;
}

static const char* judge(void* client, const DxgkitClientAnswer* answer) {
  uint64_t size = 0;
  (void)client;
  if (answer->kind != DXGKIT_CLIENT_DATA_ALLOCATION) return NULL;
  if (answer->bytes == sizeof(size)) memcpy(&size, answer->sent, sizeof(size));
  const int right = size != 0 && size <= MEMORY_BYTES;
  const int found = answer->status >= 0 || answer->no_memory;
  if (right == found) return NULL;
  return right ? "a size that there is was refused" : "it is no size, and was not refused as such";
}

static const DxgkitClient kClient = {
    .version = DXGKIT_CLIENT_VERSION,
    .size_bytes = sizeof(DxgkitClient),
    .name = "edu",
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
