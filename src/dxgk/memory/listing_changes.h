// When what was looked up in an allocation list holds no more.
#pragma once

#include <cstdint>

#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Counts, from 1, what may turn an allocation list that was in order into one that is refused: an
/// allocation closes, is offered, or its mode is gone. Lane: the adapter's.
class ListingChanges {
 public:
  uint64_t count() const DXGKIT_REQUIRES(on_lane) { return count_; }
  void note() DXGKIT_REQUIRES(on_lane) { ++count_; }

 private:
  uint64_t count_ DXGKIT_GUARDED_BY(on_lane) = 1;
};

}  // namespace dxgkit::dxgk
