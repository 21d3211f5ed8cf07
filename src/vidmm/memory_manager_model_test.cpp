// Random work on the memory manager; see memory_manager_world_test.h.
#include "tests/support/covers.h"
#include "vidmm/memory_manager_world_test.h"

namespace dxgkit::vidmm {
namespace {

class MemoryManagerModelTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(MemoryManagerModelTest, ContentIsNeverLostNorLeakedAndPinsHold) {
  DXGKIT_COVERS("RES-21", "SEG-17", "SEG-30", "SEG-45");
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  World world{testing::Choices(GetParam())};
  for (int i = 0; i < 2000; ++i) {
    world.step();
    ASSERT_FALSE(HasFailure()) << "step " << i;
  }
  world.drain();
  EXPECT_GT(world.plans(), 30U);
  RecordProperty("parked", static_cast<int>(world.parked()));
}
INSTANTIATE_TEST_SUITE_P(Seeds, MemoryManagerModelTest, ::testing::Range(1U, 25U));

}  // namespace
}  // namespace dxgkit::vidmm
