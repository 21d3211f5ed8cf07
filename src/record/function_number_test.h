// For tests: functions by their names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "arguments/table.h"

namespace dxgkit::record {

/// The number of a function of the table; of an unknown name the number behind the last.
inline uint32_t number_of(std::string_view name) {
  const auto all = arguments::functions();
  return static_cast<uint32_t>(
      std::ranges::find(all, name,
                        [](const arguments::Function& one) { return std::string_view(one.name); }) -
      all.begin());
}

}  // namespace dxgkit::record
