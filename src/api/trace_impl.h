// A recording as the public class holds it.
#pragma once

#include <string>
#include <vector>

#include "dxgkit/trace.h"
#include "trace/trace.h"

namespace dxgkit {

struct Trace::Impl {
  trace::Recording recording;
};

/// What was recorded; call when the run is over.
Trace make_trace(const trace::Recorder& recorder, std::vector<std::string> threads);

}  // namespace dxgkit
