/* What user mode of the virtio GPU expects of the driver's answers. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "devices/virtiogpu/virtiogpu_hw.h"
#include "miniports/virtiogpu/virtiogpu_umd.h"
#include "tools/dxgkit/client_plugin.h"
#include "tools/dxgkit/clients/virtiogpu_content.h"

#define MEBIBYTE 0x100000ull
#define APERTURE_MIB 1024u
#define APERTURE_SETTING "ApertureSize"
#define FLIP_CAPS 0xAu       /* FlipOnVSyncMmIo, FlipImmediateMmIo */
#define SCHEDULING_CAPS 0x7u /* MultiEngineAware, VSyncPowerSaveAware, PreemptionAware */
/* Numbers of virgl. */
#define TEXTURE_2D 2u
#define RENDER_TARGET 2u

/* A picture that the renderer can draw on. */
static VgpuUmdResource resource_data(uint32_t width, uint32_t height) {
  const VgpuUmdResource data = {.magic = VGPU_UMD_RESOURCE_MAGIC,
                                .version = VGPU_UMD_VERSION,
                                .target = TEXTURE_2D,
                                .format = VGPU_B8G8R8A8,
                                .bind = RENDER_TARGET,
                                .width = width,
                                .height = height,
                                .depth = 1,
                                .array_size = 1,
                                .size_bytes = (uint64_t)width * height * PIXEL_BYTES};
  return data;
}

static const char* judge_facts_of(const DxgkitClientAllocationFacts* facts, uint64_t least) {
  if (facts == NULL) return NULL;
  if (facts->size_bytes < least) return "its size";
  if (facts->read_segments != 1 || facts->write_segments != 1 || facts->eviction_segments != 0)
    return "its segments";
  return NULL;
}

static const char* judge_resource(const VgpuUmdAdapterInfo* info,
                                  const DxgkitClientAnswer* answer) {
  VgpuUmdResource sent, returned;
  memcpy(&sent, answer->sent, sizeof(sent));
  const int right =
      (info->flags & VGPU_UMD_3D) != 0 && sent.version == VGPU_UMD_VERSION && sent.width != 0 &&
      sent.height != 0 && sent.depth != 0 && sent.array_size != 0 && sent.size_bytes != 0 &&
      sent.size_bytes <= info->resource_bytes_max && sent.resource == 0 && sent.reserved == 0;
  if (answer->status < 0) {
    /* The device refuses what it cannot draw on. Pictures like those of jobs it can. */
    VgpuUmdResource usual = resource_data(sent.width, sent.height);
    usual.size_bytes = sent.size_bytes;
    const int is_usual =
        sent.width <= 1024 && sent.height <= 1024 && memcmp(&usual, &sent, sizeof(sent)) == 0;
    return right && is_usual && !answer->no_memory ? "a right resource is refused" : NULL;
  }
  if (!right) return "a wrong resource is accepted";
  memcpy(&returned, answer->returned, sizeof(returned));
  if (returned.resource == 0) return "no id of the resource";
  sent.resource = returned.resource;
  if (memcmp(&sent, &returned, sizeof(sent)) != 0) return "a field beside the resource's id";
  return judge_facts_of(answer->allocation, sent.size_bytes);
}

static const char* judge_allocation(const VgpuUmdAdapterInfo* info,
                                    const DxgkitClientAnswer* answer) {
  VgpuUmdAllocation sent, returned;
  uint32_t magic = 0;
  if (answer->bytes >= sizeof(magic)) memcpy(&magic, answer->sent, sizeof(magic));
  if (magic == VGPU_UMD_RESOURCE_MAGIC && answer->bytes >= sizeof(VgpuUmdResource))
    return judge_resource(info, answer);
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
  return judge_facts_of(answer->allocation, (uint64_t)sent.pitch_bytes * sent.height);
}

static const char* judge_context(const VgpuUmdAdapterInfo* info, const DxgkitClientAnswer* answer) {
  VgpuUmdContext sent;
  if (answer->bytes == 0) return answer->status < 0 && !answer->no_memory ? "it is refused" : NULL;
  const int whole = answer->bytes >= sizeof(sent);
  if (whole) memcpy(&sent, answer->sent, sizeof(sent));
  int known = whole && sent.capset_id == 0;
  for (uint32_t i = 0; whole && i < info->capset_count; ++i)
    known = known || sent.capset_id == info->capsets[i].id;
  const int right = known && (info->flags & VGPU_UMD_3D) != 0 &&
                    sent.magic == VGPU_UMD_CONTEXT_MAGIC && sent.version == VGPU_UMD_VERSION &&
                    sent.reserved == 0;
  if (answer->status >= 0) return right ? NULL : "a wrong context is accepted";
  return right && !answer->no_memory ? "a right context is refused" : NULL;
}

static const char* judge_escape(const VgpuUmdAdapterInfo* info, const DxgkitClientAnswer* answer) {
  VgpuUmdEscapeCapset sent, returned;
  uint32_t bytes = 0;
  const int whole = answer->bytes >= sizeof(sent);
  if (whole) memcpy(&sent, answer->sent, sizeof(sent));
  for (uint32_t i = 0; whole && i < info->capset_count; ++i) {
    if (sent.capset_id == info->capsets[i].id && sent.capset_version == info->capsets[i].version)
      bytes = info->capsets[i].bytes;
  }
  const int right = bytes != 0 && sent.magic == VGPU_UMD_ESCAPE_MAGIC &&
                    sent.version == VGPU_UMD_VERSION && sent.type == VGPU_UMD_ESCAPE_CAPSET &&
                    sent.bytes == 0 && answer->bytes - sizeof(sent) >= bytes;
  if (answer->status < 0) return right && !answer->no_memory ? "a set is not given" : NULL;
  if (!right) return "a wrong escape is accepted";
  memcpy(&returned, answer->returned, sizeof(returned));
  sent.bytes = bytes;
  if (memcmp(&sent, &returned, sizeof(sent)) != 0) return "the head of the answer";
  /* Of other sets only the device knows the content. */
  if (sent.capset_id < VGPU_CAPSET_MORE) return NULL;
  const uint8_t* const set = (const uint8_t*)answer->returned + sizeof(sent);
  for (uint32_t i = 0; i < bytes; ++i) {
    if (set[i] != (uint8_t)VGPU_CAPSET_BYTE(sent.capset_id, i)) return "the data of the set";
  }
  return NULL;
}

static const char* judge_facts(int version2, const DxgkitClientFacts* facts) {
  if (facts->wddm_version != (version2 ? 0x2000u : 0x1300u)) return "WDDMVersion";
  if (facts->node_count != 1 || facts->segment_count != 1) return "the nodes or the segments";
  uint64_t aperture = APERTURE_MIB * MEBIBYTE;
  for (uint32_t i = 0; i < facts->setting_count; ++i) {
    if (strcmp(facts->settings[i].name, APERTURE_SETTING) == 0)
      aperture = facts->settings[i].value * MEBIBYTE;
  }
  if (facts->segments[0].size_bytes != aperture || facts->segments[0].commit_limit != aperture ||
      facts->aperture_commit_limit != aperture)
    return "the size of the aperture";
  if (facts->segments[0].base_address != 0xC0000000ull) return "the address of the aperture";
  if (facts->highest_address != UINT64_MAX) return "HighestAcceptableAddress";
  /* Flips at once and at a vertical sync; vertical syncs that can be switched off. */
  if (facts->flip_caps != FLIP_CAPS) return "FlipCaps";
  if (facts->scheduling_caps != SCHEDULING_CAPS) return "SchedulingCaps";
  return NULL;
}
