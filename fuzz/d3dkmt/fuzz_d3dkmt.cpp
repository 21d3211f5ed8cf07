// Decisions of hostile processes: which D3DKMT calls with which arguments, see world.h.
#include "fuzz/d3dkmt/world.h"
#include "fuzz/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dxgkit::fuzz::run_world(dxgkit::fuzz::choices_from(data, size));
  return 0;
}
