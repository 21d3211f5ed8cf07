// A stack whose driver has GPU virtual addresses (tests/support/scripted_gpu_va.h).
//
//   TEST_F(GpuVaTest, AMappingLeadsToTheAllocation) {
//     running([](GpuVaStack& stack) {
//       Client client(stack);
//       ... D3DKMTMapGpuVirtualAddress, stack.drive() ...
//       EXPECT_TRUE(stack.gpu.walk(stack.gpu.last_process(), va).valid);
//     });
//   }
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tests/contract/fixture.h"
#include "tests/support/scripted_gpu_va.h"

namespace dxgkit::contract {

using dxgkit::testing::GpuCommand;
using dxgkit::testing::GpuVaConfig;
using dxgkit::testing::ScriptedGpuVa;

/// Stops before the MMU goes, because the driver is called until then.
class GpuVaStack : public Stack {
 public:
  explicit GpuVaStack(GpuVaConfig config = GpuVaConfig::gpu_physical_four_level())
      : gpu(miniport, machine, std::move(config)) {}
  ~GpuVaStack() {
    blocking([&] { system.reset(); });
    driver.reset();
  }
  ScriptedGpuVa gpu;
};

/// Runs bodies inside the simulation. A body that hooks the miniport with references to its own
/// locals unhooks before it returns.
class GpuVaTest : public ::testing::Test {
 protected:
  using Body = std::function<void(GpuVaStack&)>;
  /// The two kinds of MMU everything must work on, with their names.
  static std::vector<std::pair<const char*, GpuVaConfig>> kinds() {
    return {{"two levels, CPU virtual", GpuVaConfig::cpu_virtual_two_level()},
            {"four levels, GPU physical", GpuVaConfig::gpu_physical_four_level()}};
  }
  /// Nobody has started it.
  static void bare(GpuVaConfig config, const Body& body, uint64_t seed = 1) {
    const auto runtime = runtime::make_sim_runtime(
        {.seed = seed, .time_limit = 3600 * runtime::kSecond, .stack_bytes = 512 * 1024});
    runtime->run_main([&] {
      GpuVaStack stack(std::move(config));
      body(stack);
    });
  }
  /// The adapter runs; `prepare` changes the driver before.
  static void running(GpuVaConfig config, const Body& body, const Body& prepare = nullptr,
                      uint64_t seed = 1) {
    bare(
        std::move(config),
        [&](GpuVaStack& stack) {
          if (prepare) prepare(stack);
          ASSERT_EQ(stack.start(), Status::kSuccess);
          body(stack);
        },
        seed);
  }
  /// On each kind.
  static void running(const Body& body, const Body& prepare = nullptr, uint64_t seed = 1) {
    for (auto& [name, config] : kinds()) {
      SCOPED_TRACE(name);
      running(config, body, prepare, seed);
      if (HasFatalFailure()) return;
    }
  }
};

}  // namespace dxgkit::contract
