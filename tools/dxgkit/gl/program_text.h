// What became of GL programs, as text, JSON and a picture.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/dxgkit/gl/conversation.h"

namespace dxgkit::gl {

/// Name and value, as in the report.
using Rows = std::vector<std::pair<std::string, std::string>>;
Rows program_rows(const std::vector<ProgramRecord>& programs);
nlohmann::ordered_json programs_json(const std::vector<ProgramRecord>& programs);

/// Writes the last frame of the program that showed most of them (PNG). An exit code, with a line
/// on stderr if it is not kExitDone.
int write_frame(const std::string& path, const std::vector<ProgramRecord>& programs);

}  // namespace dxgkit::gl
