// What is on an engine that timed out, for the trace: as a debugger's extension would show it.
#pragma once

#include "base/ids.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

struct WorkFloor;

/// Emits kHungBuffer, kHungPatch and kHungBytes of each packet on the node, in the order in which
/// the engine got them: where its commands are, what was patched into them, and how they begin. At
/// most kHungPatchesMost patches and kHungBytesMost bytes of each. Nothing without a recorder.
inline constexpr uint32_t kHungPatchesMost = 64;
inline constexpr uint32_t kHungBytesMost = 256;
void trace_hung_packets(WorkFloor& floor, NodeOrdinal node) DXGKIT_REQUIRES(on_lane);

}  // namespace dxgkit::dxgk
