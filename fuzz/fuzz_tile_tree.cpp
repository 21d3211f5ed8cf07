// Decisions about ranges: the tile tree beside an array of units.
#include "base/tile_tree_units_test.h"
#include "fuzz/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // About six decisions a step.
  const auto steps = static_cast<uint32_t>(size / 12);
  dxgkit::compare_with_units<dxgkit::TileTree<uint32_t, uint32_t>, uint32_t>(
      dxgkit::fuzz::choices_from(data, size), {200, 12, 4, steps});
  return 0;
}
