// Decisions about packets, waits, preemptions, resets and failures: the scheduler beside an account
// of what must be true.
#include "fuzz/model.h"
#include "vidsch/scheduler_world_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dxgkit::vidsch::World world{dxgkit::fuzz::choices_from(data, size)};
  while (!world.exhausted()) world.step();
  world.drain();
  return 0;
}
