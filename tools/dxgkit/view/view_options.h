// The options of dxgkit view.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dxgkit::tool {

struct ViewOptions {
  std::string run;                     // the path of a trace as text, or of a folder with one
  std::optional<std::string> compare;  // another one
  std::optional<std::string> output;   // the page's path; else beside the trace
  std::optional<uint16_t> serve;       // no file: a server on this computer. The port, 0: any
};

/// Writes the page of a recorded run, or serves it until Ctrl-C. kExitBadInput, and nothing is
/// written: the file is no trace in text form, or the folder has none or several.
int view_command(const ViewOptions& options);

}  // namespace dxgkit::tool
