// The report page as text, made at build time from report/; see embed.py. The gaps take JSON
// without '<', but the first takes elements.
#pragma once

#include <string_view>

namespace dxgkit::tool::report_page {

extern const std::string_view kBeforeBlocks;  // then the blocks of columns
extern const std::string_view kBeforeData;    // then the recording: what ColumnWriter tells of it
extern const std::string_view kBeforeOther;   // then a second recording, or null
extern const std::string_view kBeforeRun;     // then the tool's data about the run
extern const std::string_view kAfterRun;

}  // namespace dxgkit::tool::report_page
