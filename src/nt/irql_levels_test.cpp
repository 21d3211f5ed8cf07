// NT-07, export by export: every routine a driver may import, called at every level through its
// door, against testdata/irql_levels.txt.
#include <fstream>
#include <map>
#include <sstream>

#include "nt/image_world_test.h"

namespace dxgkit::nt {
namespace {

struct Range {
  uint32_t max = kHighLevel, min = kPassiveLevel;
};

std::map<std::string, Range> read_levels() {
  std::ifstream file(NT_IRQL_LEVELS);
  std::map<std::string, Range> levels;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name;
    Range range;
    words >> name >> range.max;
    if (!(words >> range.min)) range.min = kPassiveLevel;
    EXPECT_TRUE(levels.emplace(name, range).second) << name << " is there twice";
  }
  return levels;
}

DXGKIT_NT_ABI uint64_t harmless() { return 77; }

TEST(IrqlLevels, EachExportIsTakenAtItsLevelsOnly) {
  DXGKIT_COVERS("NT-07");
  using Routine = uint64_t(DXGKIT_NT_ABI*)(uint64_t);
  std::map<std::string, Range> levels = read_levels();
  EXPECT_GT(levels.size(), 200U);
  runtime::make_sim_runtime(1)->run_main([&] {
    ImageWorld world(NT_DOOR_DRIVER, {}, {});
    const auto call = world.find<Routine>("CallPointer");
    for (const Export& entry : exports()) {
      const auto known = levels.find(entry.name);
      const Range range = known == levels.end() ? Range{} : known->second;
      if (known != levels.end()) levels.erase(known);
      if (entry.data_bytes != 0 || entry.direct) continue;
      // The door is what looks at the level: behind it is a routine that does nothing.
      Export same = entry;
      same.address = reinterpret_cast<const void*>(&harmless);
      same.stack_arguments = 0;
      const auto door = reinterpret_cast<uint64_t>(world.kernel.door(same));
      for (const Irql irql : {kPassiveLevel, kApcLevel, kDispatchLevel, kDeviceLevel, kHighLevel}) {
        SCOPED_TRACE(std::string(entry.name) + " at " + std::to_string(irql));
        const size_t before = world.findings.count("NT-07");
        uint64_t answer = 0;
        {
          CallFrame frame(world.kernel, "DxgkDdiTest", irql);
          ASSERT_TRUE(frame.call(call, &answer, door));
        }
        EXPECT_EQ(answer, 77U);
        EXPECT_EQ(world.findings.count("NT-07") - before,
                  irql < range.min || irql > range.max ? 1U : 0U);
      }
    }
    for (const verifier::Finding& finding : world.findings.all()) {
      EXPECT_EQ(finding.rule, "NT-07");
      EXPECT_TRUE(finding.actual.starts_with(finding.ddi + " was called at ")) << finding.actual;
    }
  });
  for (const auto& [name, range] : levels) ADD_FAILURE() << name << " is no export";
}

}  // namespace
}  // namespace dxgkit::nt
