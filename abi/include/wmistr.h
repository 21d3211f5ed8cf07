/* wmistr.h: nothing of WMI is here but the node header. */
#ifndef DXGKIT_ABI_WMISTR_H_
#define DXGKIT_ABI_WMISTR_H_

#include <ntdef.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

DXGKIT_ABI_BEGIN
typedef struct _WNODE_HEADER {
  ULONG BufferSize;
  ULONG ProviderId;
  ULONG64 HistoricalContext;
  LARGE_INTEGER TimeStamp;
  GUID Guid;
  ULONG ClientContext;
  ULONG Flags;
} WNODE_HEADER, *PWNODE_HEADER;
DXGKIT_ABI_END

#endif  /* DXGKIT_ABI_WMISTR_H_ */
