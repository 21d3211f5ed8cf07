// What a run says of itself, behind the events of a trace as text: its result, its findings with
// their places in the driver's source, the frames that programs showed. The page shows it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/findings.h"

namespace dxgkit::tool {

/// Each as the page reads it: verifier::to_json, and its text for people.
nlohmann::ordered_json findings_for_page(const std::vector<verifier::Finding>& findings);

/// A line that is a comment to every reader of traces: of `run` its result, driver, findings and
/// frames. What differs between runs with the same seed is left out: processor registers, times of
/// the host. Empty if there is none of it.
std::string notes_line(const nlohmann::ordered_json& run);

/// Takes the notes off the end of a trace as text, and returns them; an empty object: there are
/// none. Files are hostile: members that a page could not show are left out.
nlohmann::ordered_json take_notes(std::string* text);

}  // namespace dxgkit::tool
