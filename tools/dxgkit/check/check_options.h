// `dxgkit check`: doctor, verify, and one page that sums both up.
#pragma once

#include <optional>
#include <string>

#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

struct CheckOptions {
  VerifyOptions verify;     // what is run; its reports are those of the summary
  bool mode_given = false;  // else simulation, if the devices can be simulated
  std::optional<std::string> html;
  std::optional<std::string> baseline, write_baseline;
};

/// Checks a driver. Exit codes as of verify; with a baseline only what it does not know counts.
int check_command(const CheckOptions& options);

}  // namespace dxgkit::tool
