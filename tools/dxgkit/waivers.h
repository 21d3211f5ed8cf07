// What a command says of its waivers at its end. command_line has the options.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "verifier/formats.h"
#include "verifier/waivers.h"

namespace dxgkit::tool {

/// A line for each waiver: how often it was used, or that it was not.
std::string waivers_text(const verifier::Waivers& waivers);
nlohmann::ordered_json waivers_json(const verifier::Waivers& waivers);
/// A JUnit case for each, which counts as skipped.
std::vector<verifier::JunitCase> waiver_cases(const verifier::Waivers& waivers);
/// Those that nothing needed, each a full sentence.
std::vector<std::string> unused_waivers(const verifier::Waivers& waivers);

}  // namespace dxgkit::tool
