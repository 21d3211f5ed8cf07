// The recording of this process, if DXGKIT_RECORD names a file.
#pragma once

#include <atomic>
#include <string>

#include "record/recorder.h"

namespace dxgkit::dxcore {

namespace detail {
extern std::atomic<record::Recorder*> g_recorder;
}

/// Null: calls are not recorded.
inline record::Recorder* recorder() { return detail::g_recorder.load(std::memory_order_acquire); }

/// Begins the recording that DXGKIT_RECORD names. Why it cannot begin; empty: it has, or none is
/// wanted.
std::string begin_recording(const char* program);
/// No call runs any more. Why the recording is not whole; empty: it is, or there is none.
std::string end_recording();
/// In a forked child: the recording is its parent's.
void forget_recording();

}  // namespace dxgkit::dxcore
