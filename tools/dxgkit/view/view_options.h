// The options of dxgkit view.
#pragma once

#include <optional>
#include <string>

namespace dxgkit::tool {

struct ViewOptions {
  std::string run;                     // the path of a trace as text, or of a folder with one
  std::optional<std::string> compare;  // another one
  std::optional<std::string> output;   // the page's path; else beside the trace
};

/// Writes the page of a recorded run. kExitBadInput, and nothing is written: the file is no trace
/// in text form, or the folder has none or several.
int view_command(const ViewOptions& options);

}  // namespace dxgkit::tool
