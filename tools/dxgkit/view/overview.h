// The whole run in a few numbers, for the first picture of a page: it need not read the tables.
#pragma once

#include <nlohmann/json.hpp>

#include "trace/story.h"

namespace dxgkit::tool {

/// For each node its number, its name, and how busy it was in each of kOverviewParts equal parts of
/// the run: bytes, 255 for all of the part, in base64.
inline constexpr size_t kOverviewParts = 2048;
nlohmann::ordered_json overview_of(const trace::Story& story);

}  // namespace dxgkit::tool
