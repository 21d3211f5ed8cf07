/* WppRecorder.h: trace recording by generated code, which a build without the trace preprocessor does not have. */
#ifndef DXGKIT_ABI_WPPRECORDER_H_
#define DXGKIT_ABI_WPPRECORDER_H_

#include <wdm.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

typedef PVOID RECORDER_LOG;
typedef struct _RECORDER_LOG_CREATE_PARAMS {
  ULONG Size;
  ULONG TotalBufferSize;
  ULONG ErrorPartitionSize;
  CHAR LogIdentifier[16];
  BOOLEAN LogTypeDefault;
} RECORDER_LOG_CREATE_PARAMS, *PRECORDER_LOG_CREATE_PARAMS;
#define RECORDER_LOG_CREATE_PARAMS_INIT(params, name) \
  (__builtin_memset((params), 0, sizeof(RECORDER_LOG_CREATE_PARAMS)), (void)(name))
typedef struct _RECORDER_CONFIGURE_PARAMS {
  ULONG Size;
  BOOLEAN CreateDefaultLog;
} RECORDER_CONFIGURE_PARAMS, *PRECORDER_CONFIGURE_PARAMS;
#define RECORDER_CONFIGURE_PARAMS_INIT(params) \
  __builtin_memset((params), 0, sizeof(RECORDER_CONFIGURE_PARAMS))
#define WppRecorderConfigure(params) ((void)(params))
#define WppRecorderLogCreate(params, log) ((void)(params), *(log) = 0, STATUS_NOT_SUPPORTED)
#define WppRecorderLogDelete(log) ((void)(log))
#define WppRecorderLogGetDefault() ((RECORDER_LOG)0)
#define WppRecorderIsDefaultLogAvailable() FALSE

#endif  /* DXGKIT_ABI_WPPRECORDER_H_ */
