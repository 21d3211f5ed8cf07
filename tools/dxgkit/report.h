// The report page of one recording.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "trace/trace.h"

namespace dxgkit::tool {

/// One self-contained HTML page. `run` as summary.h's to_report_run, or null.
std::string make_report(const trace::Recording& recording, const nlohmann::ordered_json& run);

/// Writes the recording for --trace to `path`: text if its name ends in .txt, otherwise for
/// Perfetto.
std::string trace_file(const std::string& path, const trace::Recording& recording);

}  // namespace dxgkit::tool
