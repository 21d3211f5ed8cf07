// The files of a new driver: those of examples/miniport, with another name.
#pragma once

#include <string_view>

namespace dxgkit::tool {

extern const std::string_view kDriverSource, kDriverClient, kDriverBuild, kDriverSettings;

}  // namespace dxgkit::tool
