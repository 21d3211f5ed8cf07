// A finding as JSON for another process of this tool, which reads all of it back. The form for
// users is verifier::to_json.
#pragma once

#include <nlohmann/json.hpp>

#include "verifier/findings.h"

namespace dxgkit::tool {

nlohmann::json to_message(const verifier::Finding& finding);
/// Of other JSON any finding.
verifier::Finding finding_of(const nlohmann::json& message);

/// One line. Bytes that are no UTF-8 are replaced.
inline std::string line_of(const nlohmann::json& message) {
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace dxgkit::tool
