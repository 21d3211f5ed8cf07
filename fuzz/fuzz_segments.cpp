// Decisions about allocations, evictions, maps and pins: the memory manager beside the content that
// every page must have.
#include "fuzz/model.h"
#include "vidmm/memory_manager_world_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dxgkit::vidmm::World world{dxgkit::fuzz::choices_from(data, size)};
  while (!world.exhausted()) world.step();
  world.drain(4);
  return 0;
}
