// The report page of one recording, or of two beside each other.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "trace/trace.h"

namespace dxgkit::tool {

/// One self-contained HTML page. `run` as summary.h's to_report_run, or null.
/// @param other  a second recording, for `dxgkit view --compare`, or null
std::string make_report(const trace::Recording& recording, const nlohmann::ordered_json& run,
                        const trace::Recording* other = nullptr);

std::string base64(std::string_view bytes);
/// The bytes as an address that a page may have in place of a file's.
std::string data_url(std::string_view type, std::string_view bytes);

/// Writes the recording for --trace to `path`: text if its name ends in .txt, with the notes of
/// `run` behind it (view/notes.h), otherwise for Perfetto.
std::string trace_file(const std::string& path, const trace::Recording& recording,
                       const nlohmann::ordered_json& run);

}  // namespace dxgkit::tool
