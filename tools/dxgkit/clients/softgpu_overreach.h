/* How commands of the softgpu client plug-in name memory, and commands with one mistake. */
#ifndef DXGKIT_CLIENTS_SOFTGPU_OVERREACH_H_
#define DXGKIT_CLIENTS_SOFTGPU_OVERREACH_H_

#include "tools/dxgkit/client_plugin.h"
#include "tools/dxgkit/clients/softgpu_job.h"

#define USE_COUNT (2 * kAllocations + 2)

/* The allocation list of a job. Each allocation is in it twice, and some entries have none. */
typedef struct UseList {
  uint32_t full[kAllocations];    /* the entry with all rights that the allocation has */
  uint32_t reading[kAllocations]; /* the entry without WriteOperation */
  uint32_t empty;                 /* an entry without an allocation */
  uint64_t random;
} UseList;

/* 0: there is no room. */
int make_use_list(DxgkitClientJob* job, UseList* list);
/* Puts entries of the list, or addresses, in the place of allocations of the job. */
void name_uses(UseList* list, Command* command);
void name_addresses(const DxgkitClientJob* job, Command* command);

const char* record_overreach(void* client, DxgkitClientJob* job, uint32_t variant,
                             DxgkitClientOverreach* overreach);

#endif /* DXGKIT_CLIENTS_SOFTGPU_OVERREACH_H_ */
