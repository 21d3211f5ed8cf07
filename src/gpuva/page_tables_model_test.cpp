// Random mappings, evictions and moves; see page_tables_world_test.h.
#include <cstdio>
#include <cstdlib>

#include "gpuva/page_tables_world_test.h"
#include "tests/support/covers.h"

namespace dxgkit::gpuva {
namespace {

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(PageTablesModel, AWalkFindsWhatIsMapped) {
  // DXGKIT_GPUVA_PLANS: how many plans; DXGKIT_GPUVA_SEED: where they begin.
  DXGKIT_COVERS("VA-04", "VA-05", "VA-29", "VA-43", "VA-44", "VA-45", "VA-46", "PAGE-33", "PAGE-34",
                "PAGE-35", "PAGE-37", "PAGE-39");
  const uint64_t plans = number_from("DXGKIT_GPUVA_PLANS", 1'500);
  const uint64_t seed = number_from("DXGKIT_GPUVA_SEED", 1);
  std::printf("seed %llu, %llu plans\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(plans));
  constexpr uint64_t kPerWorld = 50;
  for (uint64_t done = 0, number = 0; done < plans; ++number) {
    PageTablesWorld world{testing::Choices(seed + number)};
    for (uint64_t i = 0; i < kPerWorld && done < plans; ++i, ++done) {
      ASSERT_NO_FATAL_FAILURE(world.step()) << "world " << seed + number << ", step " << i;
      ASSERT_FALSE(::testing::Test::HasFailure()) << "world " << seed + number << ", step " << i;
    }
    ASSERT_NO_FATAL_FAILURE(world.end()) << "world " << seed + number;
  }
}

}  // namespace
}  // namespace dxgkit::gpuva
