/* The example of a client plug-in (dxgkit/client_plugin.h): as much of a user-mode driver for
 * softgpu as its jobs take.
 *
 * A job uses every command that its node can run, again and again, at places and with sizes of its
 * seed (softgpu_job.c). The CPU does the same commands on its own copy of the memory, and compares
 * every byte of what it can see: also those that no command was to write. The commands are the
 * same in both memory models: references to the allocation list where the driver patches,
 * addresses where it does not.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "miniports/softgpu/softgpu_umd.h"
#include "tools/dxgkit/client_plugin.h"
#include "tools/dxgkit/clients/softgpu_job.h"
#include "tools/dxgkit/clients/softgpu_overreach.h"

/* Of the hardware's manual. */
#define REVISION 0x00010001u
#define APERTURE_BYTES 0x10000000ull
#define STATUS_AT_REST 0x1u     /* of an engine: it is enabled */
#define FAULT_REASON_LAST 12u   /* the manual, register FAULT_REASON */
#define VERSION_WDDM2_0 0x5023u /* DXGKDDI_INTERFACE_VERSION_WDDM2_0 */
#define PAGE_FAULT_WRITE 1u     /* of DXGK_PAGE_FAULT_FLAGS */
#define INVALID_INSTRUCTION 2u  /* of DXGK_FAULT_ERROR_CODE: a general one */

typedef struct Client {
  DxgkitClientAdapter adapter;
  uint32_t allocation_bytes_max;
  uint32_t page_bytes;            /* of video memory; 0 until the facts are judged */
  int worked[SGPU_UMD_NODES_MAX]; /* a job of this node has come out right */
} Client;

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
  Client* made = calloc(1, sizeof(*made));
  if (made == NULL) return "no memory";
  made->adapter = *adapter;
  made->adapter.umd_private = NULL; /* valid for this call only */
  made->allocation_bytes_max = info.allocation_bytes_max;
  *client = made;
  return NULL;
}

static void close_client(void* client) { free(client); }

static const char* pack_context(void* client, uint32_t node, void* data, uint32_t capacity,
                                uint32_t* bytes) {
  const Client* self = client;
  SgpuUmdContext request = {.magic = SGPU_UMD_CONTEXT_MAGIC, .version = SGPU_UMD_VERSION};
  if (node >= self->adapter.node_count) return "there is no such node";
  if (capacity < sizeof(request)) return "too little room";
  memcpy(data, &request, sizeof(request));
  *bytes = sizeof(request);
  return NULL;
}

/* Bytes that the CPU sees are for uploads and results. Images that it sees may be anywhere. What
 * it does not see is in video memory. */
static const char* pack_allocation(void* client, const DxgkitClientAllocation* wanted, void* data,
                                   uint32_t capacity, uint32_t* bytes) {
  (void)client;
  SgpuUmdAllocation request = {.magic = SGPU_UMD_ALLOCATION_MAGIC, .version = SGPU_UMD_VERSION};
  const uint32_t cpu = DXGKIT_CLIENT_CPU_READS | DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_COMMANDS;
  const int image = wanted->height != 0;
  request.placement = SGPU_UMD_PLACE_VRAM;
  if ((wanted->usage & cpu) != 0)
    request.placement = image ? SGPU_UMD_PLACE_ANY : SGPU_UMD_PLACE_STAGING;
  if (image) {
    request.kind = SGPU_UMD_KIND_SURFACE;
    request.width = wanted->width;
    request.height = wanted->height;
    /* 0: the driver chooses. */
    request.pitch_bytes = (uint32_t)(wanted->size_bytes / wanted->height);
    if (request.pitch_bytes == chosen_pitch(wanted->width)) request.pitch_bytes = 0;
  } else {
    request.kind = SGPU_UMD_KIND_BUFFER;
    request.size_bytes = wanted->size_bytes;
  }
  if (capacity < sizeof(request)) return "too little room";
  memcpy(data, &request, sizeof(request));
  *bytes = sizeof(request);
  return NULL;
}

static const char* plan(void* client, uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted,
                        uint32_t capacity, uint32_t* count) {
  static const uint32_t kUsage[kAllocations] = {
      [kBytes] = DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_CPU_READS,
      [kImage] = DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_CPU_READS,
      [kVideo] = DXGKIT_CLIENT_GPU_WRITES,
      [kVideoImage] = DXGKIT_CLIENT_GPU_WRITES,
      [kAnywhere] = DXGKIT_CLIENT_GPU_WRITES | DXGKIT_CLIENT_CPU_READS,
      [kReadBack] = DXGKIT_CLIENT_GPU_WRITES | DXGKIT_CLIENT_CPU_READS,
      [kTwin] = DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_GPU_WRITES | DXGKIT_CLIENT_CPU_READS};
  (void)client;
  if (capacity < kAllocations) return "too little room";
  SoftgpuJob job;
  make_job(&job, seed, node, 0);
  memset(wanted, 0, kAllocations * sizeof(*wanted));
  for (uint32_t i = 0; i < kAllocations; ++i) {
    wanted[i].size_bytes = job.shapes[i].size_bytes;
    wanted[i].width = job.shapes[i].width;
    wanted[i].height = job.shapes[i].height;
    wanted[i].usage = kUsage[i];
  }
  *count = kAllocations;
  return NULL;
}

static const char* fill(void* client, const DxgkitClientJob* job, uint32_t index, void* view,
                        uint64_t view_bytes) {
  (void)client;
  SoftgpuJob work;
  make_job(&work, job->seed, job->node, 0);
  if (view_bytes < work.shapes[index].size_bytes) return "the view is too short";
  source_bytes(&work, index, view);
  return NULL;
}

/* Appends; 0: there is no room. */
static int add(DxgkitClientJob* job, const void* command, uint32_t bytes) {
  if (job->command_bytes_max - job->command_bytes < bytes) return 0;
  memcpy((uint8_t*)job->commands + job->command_bytes, command, bytes);
  job->command_bytes += bytes;
  return 1;
}

static const char kNoRoom[] = "the command buffer is too short";

/* Some entries of the list name an allocation again, and some name none. */
static const char* record(void* client, DxgkitClientJob* job) {
  (void)client;
  UseList list;
  if (!make_use_list(job, &list)) return "the allocation list is too short";
  SgpuUmdBufferHeader header = {.magic = SGPU_UMD_BUFFER_MAGIC, .version = SGPU_UMD_VERSION};
  if (!add(job, &header, sizeof(header))) return kNoRoom;
  SoftgpuJob work;
  Command command;
  make_job(&work, job->seed, job->node, job->busy_ns);
  work.in_parts = 1;
  while (next_command(&work, &command)) {
    name_uses(&list, &command);
    if (!add(job, &command, command.header.size_bytes)) return kNoRoom;
  }
  header.size_bytes = job->command_bytes;
  memcpy(job->commands, &header, sizeof(header));
  return NULL;
}

static const char* record_virtual(void* client, DxgkitClientJob* job) {
  (void)client;
  const SgpuUmdSubmission submission = {.magic = SGPU_UMD_SUBMISSION_MAGIC,
                                        .version = SGPU_UMD_VERSION};
  const SgpuUmdCommand end = {SGPU_UMD_OP_END, sizeof(end)};
  SoftgpuJob work;
  Command command;
  make_job(&work, job->seed, job->node, job->busy_ns);
  while (next_command(&work, &command)) {
    const SgpuUmdCommand nop = {SGPU_UMD_OP_NOP, 16};
    if (command.header.opcode == SGPU_UMD_OP_DELAY &&
        !(add(job, &nop, sizeof(nop)) && add(job, "ignored", 8)))
      return kNoRoom;
    name_addresses(job, &command);
    if (!add(job, &command, command.header.size_bytes)) return kNoRoom;
  }
  /* What is behind an END must not run: here the last command with another destination. */
  command.copy.destination = sgpu_umd_at(job->addresses[kReadBack]);
  if (!add(job, &end, sizeof(end)) || !add(job, &command, command.header.size_bytes))
    return kNoRoom;
  /* The private data may be absent. */
  if (job->seed % 3 == 0) return NULL;
  if (job->private_bytes_max < sizeof(submission)) return "too little room for private data";
  memcpy(job->private_data, &submission, sizeof(submission));
  job->private_bytes = sizeof(submission);
  return NULL;
}

/* The bytes that all allocations must have after the job. NULL: no memory. The first is the one to
 * free. */
static int make_expected(const Client* self, const DxgkitClientJob* job, SoftgpuJob* work,
                         uint8_t* memory[kAllocations]) {
  size_t bytes = 0;
  make_job(work, job->seed, job->node, 0);
  work->in_parts = self->adapter.gpu_virtual_addresses == 0;
  for (uint32_t i = 0; i < kAllocations; ++i) bytes += work->shapes[i].size_bytes;
  memory[0] = malloc(bytes);
  if (memory[0] == NULL) return 0;
  for (uint32_t i = 1; i < kAllocations; ++i)
    memory[i] = memory[i - 1] + work->shapes[i - 1].size_bytes;
  source_bytes(work, kBytes, memory[kBytes]);
  source_bytes(work, kImage, memory[kImage]);
  source_bytes(work, kTwin, memory[kTwin]);
  Command command;
  while (next_command(work, &command)) apply_command(&command, memory);
  return 1;
}

static const char* check(void* client, const DxgkitClientJob* job, uint32_t index, const void* view,
                         uint64_t view_bytes) {
  static const char* const kWrong[kAllocations] = {
      [kBytes] = "a byte that the GPU only reads has changed",
      [kImage] = "a byte of an image that the GPU only reads has changed",
      [kAnywhere] = "a byte of an image that the GPU writes is wrong",
      [kReadBack] = "a byte of the read-back buffer is wrong",
      [kTwin] = "commands did not run once, in their order: what the first one kept is wrong"};
  Client* self = client;
  SoftgpuJob work;
  uint8_t* memory[kAllocations];
  SgpuUmdAllocation made;
  if (index >= kAllocations || kWrong[index] == NULL) return "there is nothing to check";
  if (job->allocations[index].private_bytes < sizeof(made)) return "its private data is too short";
  memcpy(&made, job->allocations[index].private_data, sizeof(made));
  if (!make_expected(self, job, &work, memory)) return "no memory";
  const Shape shape = work.shapes[index];
  const char* wrong = NULL;
  if (made.size_bytes != shape.size_bytes || made.pitch_bytes != shape.pitch)
    wrong = "the driver says another size or pitch than was asked for";
  else if (view_bytes < shape.size_bytes)
    wrong = "the view is too short";
  else if (memcmp(view, memory[index], shape.size_bytes) != 0)
    wrong = kWrong[index];
  free(memory[0]);
  /* Jobs are checked on several threads. */
  if (wrong == NULL && index == kReadBack && job->node < SGPU_UMD_NODES_MAX)
    __atomic_store_n(&self->worked[job->node], 1, __ATOMIC_RELAXED);
  return wrong;
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
  } else if ((kind == DXGKIT_CLIENT_DATA_ESCAPE && index == 0) ||
             (kind == DXGKIT_CLIENT_DATA_HARDWARE_ESCAPE && index <= 1)) {
    const SgpuUmdEscape request = {
        .magic = SGPU_UMD_ESCAPE_MAGIC,
        .version = SGPU_UMD_VERSION,
        .operation = index == 0 ? SGPU_UMD_ESCAPE_QUERY_STATE : SGPU_UMD_ESCAPE_DOORBELL};
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

/* Video memory is segment 1, the aperture segment 2. */
static const char* judge_place(const SgpuUmdAllocation* made,
                               const DxgkitClientAllocationFacts* facts, uint32_t page_bytes) {
  const int staging = made->placement == SGPU_UMD_PLACE_STAGING;
  const int any = made->placement == SGPU_UMD_PLACE_ANY;
  const uint32_t segments = staging ? 2 : any ? 3 : 1;
  /* CpuVisible is bit 0, Cached bit 2. */
  const uint32_t flags = (made->placement != SGPU_UMD_PLACE_VRAM ? 1u : 0) | (staging ? 4u : 0);
  if (facts->size_bytes != made->size_bytes) return "the kernel was told another size";
  if (page_bytes != 0 && facts->alignment != (staging ? 4096u : page_bytes))
    return "the kernel was told another alignment";
  if (facts->read_segments != segments || facts->write_segments != segments)
    return "it may not be where its placement says";
  if (facts->eviction_segments != 0) return "it is evicted through a segment";
  /* The first preference in bits 0 to 4, the second behind its direction. */
  if (facts->preferred != (staging ? 2u : any ? 1u | 2u << 6 : 1u))
    return "it prefers another segment";
  if (facts->flags != flags) return "its flags are not those of its placement";
  if (facts->renaming_max != (staging ? 4u : 1u)) return "another number of instances";
  if (facts->priority != 0x78000000u) return "another priority"; /* normal */
  return NULL;
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
  if (memcmp(&sent, &returned, sizeof(sent)) != 0) return "wrong size or pitch came back";
  return judge_place(&sent, answer->allocation, self->page_bytes);
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
  const int hardware = answer->kind == DXGKIT_CLIENT_DATA_HARDWARE_ESCAPE;
  const int bell = hardware && sent.operation == SGPU_UMD_ESCAPE_DOORBELL;
  const int valid = sent.magic == SGPU_UMD_ESCAPE_MAGIC && sent.version == SGPU_UMD_VERSION &&
                    (bell || sent.operation == SGPU_UMD_ESCAPE_QUERY_STATE);
  if (!valid) return answer->status < 0 ? NULL : "there is no such request";
  if (answer->status < 0) return "it is as the interface says";
  if (bell) return memcmp(&sent, &returned, sizeof(sent)) != 0 ? "a doorbell has no answer" : NULL;
  if (returned.node_count != self->adapter.node_count) return "another number of nodes came back";
  for (uint32_t i = 0; i < SGPU_UMD_NODES_MAX; ++i) {
    const SgpuUmdNodeState* const node = &returned.node[i];
    const SgpuUmdNodeState unused = {0};
    if (!hardware && node->hardware_status != 0)
      return "it looked at the hardware without permission";
    if (hardware && i < self->adapter.node_count && node->hardware_status != STATUS_AT_REST)
      return "an idle engine has another state";
    if (i >= self->adapter.node_count && memcmp(node, &unused, sizeof(unused)) != 0)
      return "a node that is not there has a state";
    if (node->submitted_fence != node->completed_fence) return "an idle node has work";
    if ((node->faults == 0) != (node->last_fault_reason == 0) ||
        node->last_fault_reason > FAULT_REASON_LAST)
      return "the reason of its last fault is none that the hardware has";
    if (__atomic_load_n(&self->worked[i], __ATOMIC_RELAXED) && node->submissions == 0)
      return "a node that has worked has counted no submission";
  }
  return NULL;
}

/* What the driver says of itself in two ways, to user mode here and to the kernel. */
static const char* judge_adapter(const Client* self, const DxgkitClientAnswer* answer) {
  SgpuUmdAdapterInfo info;
  if (answer->bytes < sizeof(info)) return answer->status < 0 ? NULL : "there is not enough room";
  if (answer->status < 0) return "it is as the interface says";
  memcpy(&info, answer->returned, sizeof(info));
  if (info.magic != SGPU_UMD_ADAPTER_MAGIC || info.version != SGPU_UMD_VERSION)
    return "another magic number or version";
  if (info.size_bytes != sizeof(info)) return "it filled another structure";
  if (info.node_count != self->adapter.node_count) return "another number of nodes";
  if (info.hardware_revision != REVISION) return "another revision of the hardware";
  if (info.vram_bytes == 0 || info.vram_bytes % 4096 != 0)
    return "a size of video memory that is none";
  if (info.aperture_bytes != APERTURE_BYTES) return "another size of the aperture";
  const uint64_t most = info.vram_bytes < SGPU_UMD_ALLOCATION_BYTES_MAX
                            ? info.vram_bytes
                            : SGPU_UMD_ALLOCATION_BYTES_MAX;
  if (info.allocation_bytes_max != most) return "another size of the largest allocation";
  const int explicit_residency = self->adapter.interface_version >= VERSION_WDDM2_0;
  const int addresses = self->adapter.gpu_virtual_addresses != 0;
  const uint32_t flags = (explicit_residency ? SGPU_UMD_ADAPTER_EXPLICIT_RESIDENCY : 0) |
                         (addresses ? SGPU_UMD_ADAPTER_GPU_VA : 0);
  if (info.flags != flags) return "its flags are not those of its memory model";
  if (addresses ? info.va_bits != 30 && info.va_bits != 48 : info.va_bits != 0)
    return "another width of addresses";
  return NULL;
}

/* Flags of segments. */
#define APERTURE 0x1u
#define CPU_VISIBLE 0x4u
#define CACHE_COHERENT 0x10u
#define KEPT 0x380u /* what lasts is the device's to say */
#define USE_64KB_PAGES 0x800u
#define APPLICATION_TARGET 0x8000u
#define LOCAL_GROUP 0x80000u
#define NON_LOCAL_GROUP 0x100000u

static const char* judge_segments(const DxgkitClientFacts* facts, int version2) {
  if (facts->segment_count != 2) return "there is another number of segments";
  const DxgkitClientSegment *vram = &facts->segments[0], *aperture = &facts->segments[1];
  const uint32_t budgets = version2 ? APPLICATION_TARGET : 0;
  const uint32_t often = KEPT | (facts->level_count == 4 ? USE_64KB_PAGES : 0);
  if ((vram->flags & ~often) != (CPU_VISIBLE | budgets | (version2 ? LOCAL_GROUP : 0)))
    return "the flags of video memory";
  if (aperture->flags != (APERTURE | CACHE_COHERENT | budgets | (version2 ? NON_LOCAL_GROUP : 0)))
    return "the flags of the aperture";
  if (vram->base_address != 0x1000000000ull || aperture->base_address != 0x2000000000ull)
    return "the address of a segment";
  if (vram->commit_limit != vram->size_bytes || aperture->size_bytes != APERTURE_BYTES ||
      aperture->commit_limit != APERTURE_BYTES || facts->aperture_commit_limit != APERTURE_BYTES)
    return "the size of a segment";
  if (facts->paging_segment != 0 || facts->paging_bytes != 65536 ||
      facts->paging_private_bytes != 4096)
    return "the paging buffers";
  return NULL;
}

static const char* judge_page_tables(const DxgkitClientFacts* facts) {
  const int two = facts->level_count == 2;
  const int large = (facts->segments[0].flags & USE_64KB_PAGES) != 0;
  if (facts->level_count == 0) return NULL;
  if (!two && facts->level_count != 4) return "the number of levels";
  if (!facts->read_only || !facts->no_execute || !facts->zero || !facts->cache_coherent)
    return "a bit of the entries is missing";
  if (facts->address_bits != (two ? 30 : 48)) return "the width of addresses";
  if (facts->update_mode != (two ? 0 : 2)) return "who writes entries"; /* the CPU; the GPU */
  if (facts->large_leaf_bytes != (large ? 4096 : 0)) return "the leaf of large pages";
  for (uint32_t i = 0; i < facts->level_count; ++i) {
    if (facts->levels[i].index_bits != (two && i == 1 ? 6 : 9)) return "the index of a level";
    if (facts->levels[i].segment != (two || large ? 0 : 1) || facts->levels[i].paging_segment != 0)
      return "where tables are";
    if (facts->levels[i].bytes != 4096 || facts->levels[i].alignment != 4096)
      return "the size of tables";
  }
  return NULL;
}

static const char* judge_facts(Client* self, const DxgkitClientFacts* facts) {
  static const struct {
    uint32_t type;
    const char* name;
  } kNodes[] = {{1, "3D"}, {6, "Copy"}};
  const int version2 = self->adapter.interface_version >= VERSION_WDDM2_0;
  /* With a screen it flips at once, too, and vertical syncs are turned off. */
  const int screen = facts->flip_caps == 0xA && facts->scheduling_caps == 0x17;
  if (!screen && (facts->flip_caps != 0x2 || facts->scheduling_caps != 0x15))
    return "FlipCaps or SchedulingCaps";
  if (facts->wddm_version != (version2 ? 0x2000 : 0x1300)) return "WDDMVersion";
  if (facts->graphics_preemption != 200 || facts->compute_preemption != 200)
    return "where engines can be preempted";
  uint32_t per_engine_tdr = 1, model = 0;
  for (uint32_t i = 0; i < facts->setting_count; ++i) {
    const DxgkitClientSetting* const setting = &facts->settings[i];
    if (strcmp(setting->name, "PerEngineTdr") == 0) per_engine_tdr = setting->value != 0;
    if (strcmp(setting->name, "MemoryModel") == 0 && version2) model = setting->value;
  }
  const uint32_t levels = model == 0 ? 0 : model == 1 ? 2 : 4;
  const uint32_t large = facts->segments[0].flags & USE_64KB_PAGES;
  if (facts->level_count != levels || (large != 0) != (model == 3)) return "another memory model";
  if (facts->per_engine_tdr != per_engine_tdr) return "SupportPerEngineTDR";
  if (!facts->removal_in_hibernation) return "SupportSurpriseRemovalInHibernation";
  if (facts->paging_node != SGPU_UMD_NODE_COPY) return "PagingNode";
  if (facts->slot_id_max != 2) return "MaxAllocationListSlotId";
  if (facts->highest_address != 0xFFFFFFFFFull) return "HighestAcceptableAddress";
  if (facts->node_count != 2 || facts->nodes == NULL) return "the nodes";
  for (uint32_t i = 0; i < 2; ++i) {
    const DxgkitClientNode* const node = &facts->nodes[i];
    if (node->engine_type != kNodes[i].type || strcmp(node->name, kNodes[i].name) != 0)
      return "the type or the name of a node";
    if (node->gpu_mmu != self->adapter.gpu_virtual_addresses) return "GpuMmuSupported of a node";
  }
  const char* const wrong = judge_segments(facts, version2);
  if (wrong == NULL) self->page_bytes = facts->segments[0].flags & USE_64KB_PAGES ? 65536 : 4096;
  return wrong != NULL ? wrong : judge_page_tables(facts);
}

/* The engine says where it stopped, and whether it wrote. The driver resets it by itself. */
static const char* judge_fault(const Client* self, const DxgkitClientFault* fault) {
  const int by_command = fault->error_code == INVALID_INSTRUCTION;
  if (fault->bind_table_entry != 0 || fault->primitive != 0)
    return "a table or a primitive, which the engine does not know";
  if (fault->access == DXGKIT_CLIENT_FAULT_WORK && by_command) return NULL;
  if (!self->adapter.gpu_virtual_addresses) return "a page fault, where no page has an address";
  if (fault->access == DXGKIT_CLIENT_FAULT_WORK && fault->address == 0)
    return fault->error_code == 0 ? NULL : "a code that the driver does not have";
  if (fault->address == 0) return "the address is missing";
  if ((fault->flags & ~PAGE_FAULT_WRITE) != 0) return "a reset is asked for";
  const int wrote = (fault->flags & PAGE_FAULT_WRITE) != 0;
  if (fault->access == DXGKIT_CLIENT_FAULT_WRITE && !wrote) return "it does not say that it wrote";
  if (fault->error_code != 0) return "another error than a page fault";
  if (fault->stage != 0) return "a pipeline stage, which the engine does not know";
  return NULL;
}

static const char* judge(void* client, const DxgkitClientAnswer* answer) {
  switch (answer->kind) {
    case DXGKIT_CLIENT_DATA_FAULT:
      return judge_fault(client, answer->returned);
    case DXGKIT_CLIENT_DATA_FACTS:
      return judge_facts(client, answer->returned);
    case DXGKIT_CLIENT_DATA_ADAPTER:
      return judge_adapter(client, answer);
    case DXGKIT_CLIENT_DATA_ALLOCATION:
      return judge_allocation(client, answer);
    case DXGKIT_CLIENT_DATA_CONTEXT:
      return judge_context(answer);
    case DXGKIT_CLIENT_DATA_ESCAPE:
    case DXGKIT_CLIENT_DATA_HARDWARE_ESCAPE:
      return judge_escape(client, answer);
    default:
      return NULL;
  }
}

static int setting(uint32_t index, DxgkitClientSetting* setting) {
  static const DxgkitClientSetting kSettings[] = {
      {"PerEngineTdr", 0, 0}, {"PerEngineTdr", 1, 0}, {"MemoryModel", 4, 1}};
  if (index >= sizeof(kSettings) / sizeof(kSettings[0])) return 0;
  *setting = kSettings[index];
  return 1;
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
                                       .record_overreach = record_overreach,
                                       .example = example,
                                       .judge = judge,
                                       .setting = setting};
  (void)version;
  return &kClient;
}
