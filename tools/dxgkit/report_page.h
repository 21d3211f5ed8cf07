// The report page as text, made at build time from report/; see embed.py. The two gaps take JSON
// without '<'.
#pragma once

#include <string_view>

namespace dxgkit::tool::report_page {

extern const std::string_view kBeforeData;  // then the recording (trace::to_report_json)
extern const std::string_view kBetween;     // then the tool's data about the run, or null
extern const std::string_view kAfterRun;

}  // namespace dxgkit::tool::report_page
