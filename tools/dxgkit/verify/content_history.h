// Why bytes may be wrong: what happened to the memory of an allocation, from the trace of the run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/trace.h"

namespace dxgkit::tool::verify {

/// Names the job and its memory in the trace.
struct ContentQuestion {
  uint64_t process = 0;  // the number of the client's process
  std::string_view process_name;
  /// Which of the process's calls of D3DKMTRender and D3DKMTSubmitCommand submitted the job,
  /// from 1. 0: none.
  uint64_t submission = 0;
  uint32_t thread = 0;  // the thread that has just locked the allocation to check it
};

/// Says which packet the job was, where the packet found the allocation, and what moved the
/// allocation before and afterwards, for the middle of a message: "its packet 7 ran as fence 3 of
/// node 0, ...". Parts that the trace does not have are left out. Empty: it has none.
///
/// Takes time in proportion to the events from the start of the process on. Call it when the job is
/// done.
std::string content_history(const trace::Recording& recording, const ContentQuestion& question);

}  // namespace dxgkit::tool::verify
