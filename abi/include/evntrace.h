/* evntrace.h: trace levels. */
#ifndef DXGKIT_ABI_EVNTRACE_H_
#define DXGKIT_ABI_EVNTRACE_H_

#include <ntdef.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#define TRACE_LEVEL_NONE 0
#define TRACE_LEVEL_CRITICAL 1
#define TRACE_LEVEL_FATAL 1
#define TRACE_LEVEL_ERROR 2
#define TRACE_LEVEL_WARNING 3
#define TRACE_LEVEL_INFORMATION 4
#define TRACE_LEVEL_VERBOSE 5
#define TRACE_LEVEL_RESERVED6 6
#define TRACE_LEVEL_RESERVED7 7
#define TRACE_LEVEL_RESERVED8 8
#define TRACE_LEVEL_RESERVED9 9

#endif  /* DXGKIT_ABI_EVNTRACE_H_ */
