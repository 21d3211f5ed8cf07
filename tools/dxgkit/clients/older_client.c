/* The softgpu plug-in as an older header would have built it: version 1 of the interface. */
#include <stddef.h>

#define dxgkit_client newest_client
#include "tools/dxgkit/clients/softgpu_client.c"
#undef dxgkit_client

const DxgkitClient* dxgkit_client(uint32_t version) {
  static DxgkitClient older;
  older = *newest_client(version);
  older.version = 1;
  older.size_bytes = offsetof(DxgkitClient, record_overreach);
  older.record_overreach = NULL;
  return &older;
}
