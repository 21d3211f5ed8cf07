// The report page of one recording.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "trace/trace.h"

namespace dxgkit::tool {

/// One self-contained HTML page. `run` as summary.h's to_report_run, or null.
std::string make_report(const trace::Recording& recording, const nlohmann::ordered_json& run);

/// The bytes as an address that a page may have in place of a file's.
std::string data_url(std::string_view type, std::string_view bytes);

/// Writes the recording for --trace to `path`: text if its name ends in .txt, otherwise for
/// Perfetto.
std::string trace_file(const std::string& path, const trace::Recording& recording);

}  // namespace dxgkit::tool
