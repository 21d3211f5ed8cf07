// Random calls and executions on an address space; see address_space_world_test.h.
#include <cstdio>
#include <cstdlib>

#include "gpuva/address_space_world_test.h"
#include "tests/support/covers.h"

namespace dxgkit::gpuva {
namespace {

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(AddressSpaceModel, RandomCallsAgreeWithAPageByPageMap) {
  // The slow model is the judge of everything the two layers decide. DXGKIT_GPUVA_OPS: how many
  // operations (1e7 and more for the long form), DXGKIT_GPUVA_SEED: where they begin.
  DXGKIT_COVERS("VA-11", "VA-12", "VA-13", "VA-15", "VA-17", "VA-19", "VA-26", "VA-30", "VA-31",
                "VA-36", "VA-37", "VA-41", "VA-42");
  const uint64_t operations = number_from("DXGKIT_GPUVA_OPS", 60'000);
  const uint64_t seed = number_from("DXGKIT_GPUVA_SEED", 1);
  std::printf("seed %llu, %llu operations\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(operations));
  // A world of its own now and again: sparse and crowded spaces both come up.
  constexpr uint64_t kPerWorld = 20'000;
  for (uint64_t done = 0, world = 0; done < operations; ++world) {
    AddressSpaceWorld pair{testing::Choices(seed + world)};
    for (uint64_t i = 0; i < kPerWorld && done < operations; ++i, ++done) {
      ASSERT_NO_FATAL_FAILURE(pair.step()) << "world " << seed + world << ", step " << i;
      if (i % 16 == 0) {
        ASSERT_NO_FATAL_FAILURE(pair.compare()) << "world " << seed + world << ", step " << i;
      }
    }
    ASSERT_NO_FATAL_FAILURE(pair.compare()) << "world " << seed + world;
  }
}

}  // namespace
}  // namespace dxgkit::gpuva
