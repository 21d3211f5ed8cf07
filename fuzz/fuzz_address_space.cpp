// Decisions about reservations, mappings, updates and frees: an address space beside one record per
// page.
#include "fuzz/model.h"
#include "gpuva/address_space_world_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dxgkit::gpuva::AddressSpaceWorld world{dxgkit::fuzz::choices_from(data, size),
                                         {.space = 128, .allocation = 24}};
  for (uint32_t step = 1; !world.exhausted(); ++step) {
    world.step();
    if (step % 16 == 0) world.compare();
  }
  world.compare();
  return 0;
}
