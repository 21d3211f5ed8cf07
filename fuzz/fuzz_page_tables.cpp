// Decisions about mappings, evictions and moves: page tables beside what a walk must find.
#include "fuzz/model.h"
#include "gpuva/page_tables_world_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dxgkit::gpuva::PageTablesWorld world{dxgkit::fuzz::choices_from(data, size),
                                       dxgkit::gpuva::SpaceSize::kSmall};
  while (!world.exhausted()) world.step();
  world.end();
  return 0;
}
