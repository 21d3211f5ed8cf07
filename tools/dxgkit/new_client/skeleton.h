// The text of skeleton.c and skeleton.cmake.
#pragma once

#include <string_view>

namespace dxgkit::tool {

extern const std::string_view kSkeletonSource;
extern const std::string_view kSkeletonBuild;

}  // namespace dxgkit::tool
