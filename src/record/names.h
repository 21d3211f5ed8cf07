// What one kernel calls something, and what the other does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "arguments/table.h"

namespace dxgkit::record {

class NameMap {
 public:
  /// Later calls say `there` for `here`. A number that is given again means the new thing.
  void learn(arguments::Names names, uint64_t here, uint64_t there) {
    of(names)[here] = there;
    if (here != there) ++renamed_;
  }
  /// A number that nobody has learned stays as it is. A GPU virtual address may lie inside what
  /// begins at the nearest lower one.
  uint64_t there(arguments::Names names, uint64_t here) const {
    const auto& known = of(names);
    if (here == 0 || known.empty()) return here;
    auto found = known.upper_bound(here);
    if (found == known.begin()) return here;
    --found;
    if (found->first == here) return found->second;
    return names == arguments::Names::kGpuAddress ? found->second + (here - found->first) : here;
  }
  size_t renamed() const { return renamed_; }

 private:
  using Known = std::map<uint64_t, uint64_t>;
  Known& of(arguments::Names names) { return known_[static_cast<size_t>(names)]; }
  const Known& of(arguments::Names names) const { return known_[static_cast<size_t>(names)]; }

  std::array<Known, 3> known_;
  size_t renamed_ = 0;
};

}  // namespace dxgkit::record
