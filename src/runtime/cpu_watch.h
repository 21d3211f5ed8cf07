// A watch on threads that may never call another function again.
#pragma once

#include <signal.h>

#include "runtime/runtime.h"

namespace dxgkit::runtime {

/// False under ThreadSanitizer, which holds signals back until a thread calls a library function.
/// In such a build the watch cannot see loops that call nothing.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kSeesEndlessLoops = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kSeesEndlessLoops = false;
#else
inline constexpr bool kSeesEndlessLoops = true;
#endif
#else
inline constexpr bool kSeesEndlessLoops = true;
#endif

using CpuTick = void (*)(int signal, siginfo_t* info, void* context);

/// From now on, and until it ends, the calling OS thread runs `tick` as a signal handler each time
/// it has used another `period` (ns, > 0) of processor time. Time of other threads and time asleep
/// do not count, so the watch does not change a simulation. There is one period and one handler per
/// process: the first call decides. Later calls of a thread do nothing.
void watch_cpu_time(DurationNs period, CpuTick tick);

}  // namespace dxgkit::runtime
