// Looking at a thread that may never call anybody again.
#pragma once

#include <signal.h>

#include "runtime/runtime.h"

namespace dxgkit::runtime {

/// ThreadSanitizer holds signals back until a thread calls a library function: in such a build
/// loops that call nobody are not seen.
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

/// From now on the calling OS thread runs `tick`, as a signal handler, each time it has used
/// another `period` (ns, > 0) of processor time; until it ends. Time that other threads use, or
/// that it sleeps, does not count, so what a simulation does is not changed by it. One period and
/// one handler per process: the first call decides. Later calls of a thread do nothing.
void watch_cpu_time(DurationNs period, CpuTick tick);

}  // namespace dxgkit::runtime
