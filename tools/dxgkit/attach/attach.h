// The line that starts a debugger which stops at a finding of a report.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace dxgkit::tool {

struct AttachOptions {
  std::string report;               // what `check` or `verify` wrote to --json=FILE
  std::optional<std::string> rule;  // else the first mistake of the report
  bool lldb = false;
};

/// The line for a shell. Any text may be in the report: what is not a command line of `dxgkit
/// verify` is refused, and every word is quoted. The error is a sentence without a full stop.
/// @param tool    the executable
/// @param script  commands of ours for gdb; empty: none
std::expected<std::string, std::string> attach_line(std::string_view report,
                                                    const AttachOptions& options,
                                                    const std::string& tool,
                                                    const std::string& script);

/// Prints it. kExitBadInput: the file is no such report, or has no such finding.
int attach_command(const AttachOptions& options);

}  // namespace dxgkit::tool
