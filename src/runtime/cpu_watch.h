// Looking at a thread that may never call anybody again.
#pragma once

#include <signal.h>

#include "runtime/runtime.h"

namespace dxgkit::runtime {

using CpuTick = void (*)(int signal, siginfo_t* info, void* context);

/// From now on the calling OS thread runs `tick`, as a signal handler, each time it has used
/// another `period` (ns, > 0) of processor time; until it ends. Time that other threads use, or
/// that it sleeps, does not count, so what a simulation does is not changed by it. One period and
/// one handler per process: the first call decides. Later calls of a thread do nothing.
void watch_cpu_time(DurationNs period, CpuTick tick);

}  // namespace dxgkit::runtime
