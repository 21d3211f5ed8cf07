// The recording inside the public class.
#pragma once

#include <string>
#include <vector>

#include "dxgkit/trace.h"
#include "trace/trace.h"

namespace dxgkit {

struct Trace::Impl {
  trace::Recording recording;
};

/// Takes over the recorded events. Call it when the run is over.
Trace make_trace(const trace::Recorder& recorder, std::vector<std::string> threads);

}  // namespace dxgkit
