// A recording's calls once more, without the program, in another kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "dxgk/core/process.h"
#include "record/file.h"
#include "record/recording.h"
#include "runtime/runtime.h"

namespace dxgkit::record {

struct ReplayOptions {
  /// Called for each difference: the number of the call, from 1, and one sentence. One at a time.
  std::function<void(size_t call, const std::string& text)> on_difference;
  /// Ends the client process, so that calls inside it come back. When no call returns any more.
  std::function<void()> on_stuck;
  /// How long no call may return, beside the longest call of the recording.
  runtime::DurationNs patience = 30 * runtime::kSecond;
};

struct ReplayResult {
  size_t made = 0;         // calls
  size_t left_out = 0;     // calls of which the recording has no messages
  size_t differences = 0;  // as many as were told
  size_t renamed = 0;      // handles, addresses and LUIDs that this kernel numbers otherwise
};

/// Makes the calls in the name of `process`, on a thread for each thread of the recording. A call
/// begins when all calls have returned that had returned before it in the recording, and when all
/// fences have reached what the program could see. Blocks until all are made. On a thread of the
/// process's runtime.
ReplayResult replay(dxgk::Process& process, const Recording& recording,
                    const ReplayOptions& options);

}  // namespace dxgkit::record
