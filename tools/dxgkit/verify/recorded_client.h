// A recording as a client plug-in: its submissions are the jobs.
#pragma once

#include <cstdint>
#include <string>

#include "record/jobs.h"
#include "tools/dxgkit/client_plugin.h"

namespace dxgkit::tool::verify {

/// The most allocations of a job, and the most bytes of one.
inline constexpr uint32_t kJobAllocationsMax = 16;
inline constexpr uint64_t kJobAllocationBytesMax = uint64_t{64} << 20;

/// The functions of a plug-in with this work. A job of a seed is one submission of the recording,
/// with allocations of its own: each is filled with what was in it, and compared with what the
/// program saw in it. There is one recording in a process, and it stays until that ends.
const DxgkitClient* make_recorded_client(record::Work work, const std::string& program);

}  // namespace dxgkit::tool::verify
