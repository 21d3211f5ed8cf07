// The status of a broker, over its socket.
#pragma once

#include <expected>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/runtime.h"

namespace dxgkit::tool {

/// Blocks for a few seconds at most. An object with the lists `adapters` and `users`; everything
/// inside them is the server's word. The error is one sentence.
std::expected<nlohmann::ordered_json, std::string> ask_status(runtime::Runtime& runtime,
                                                              const std::string& path);

}  // namespace dxgkit::tool
