// The software GPU's driver, in each of its memory models, under the start rules of virtual
// addresses.
#include <gtest/gtest.h>

#include "bus/machine.h"
#include "devices/softgpu/softgpu.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/system_impl.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tests/support/covers.h"

namespace dxgkit::contract {
namespace {

struct Model {
  uint32_t number;  // registry value MemoryModel
  uint32_t levels;  // 0: no virtual addresses
  gpuva::UpdateMode mode = gpuva::UpdateMode::kCpuVirtual;
};

class VaDriverTest : public ::testing::TestWithParam<const char*> {};

TEST_P(VaDriverTest, EveryModelStartsWithoutAFinding) {
  DXGKIT_COVERS("VA-01", "VA-02", "VA-03");
  for (const Model& model : {Model{0, 0}, Model{1, 2}, Model{2, 4, gpuva::UpdateMode::kGpuPhysical},
                             Model{3, 4, gpuva::UpdateMode::kGpuPhysical}}) {
    SCOPED_TRACE(model.number);
    const auto runtime = runtime::make_sim_runtime(1);
    runtime->run_main([&] {
      verifier::Findings findings;
      bus::Machine machine(uint64_t{64} << 20);
      softgpu::SoftGpuConfig device;
      device.vram_bytes = uint64_t{16} << 20;
      softgpu::SoftGpu gpu(*runtime, machine, device);
      ASSERT_EQ(machine.add_function(gpu.function()), Status::kSuccess);
      nt::KernelConfig config;
      config.registry[nt::KernelConfig::kDriverKey]["MemoryModel"] =
          nt::RegistryValue::dword(model.number);
      nt::Kernel kernel(*runtime, machine, findings, config);
      {
        std::string message;
        Result<std::unique_ptr<port::Driver>> driver = port::Driver::load(
            kernel, findings, {.name = "softgpu", .path = GetParam(), .entry = nullptr}, &message);
        ASSERT_TRUE(driver.has_value()) << message;
        dxgk::System system(*runtime, machine, kernel, findings);
        const Result<dxgk::Luid> luid = system.start_adapter(**driver, gpu.function(), {});
        std::string said;
        for (const verifier::Finding& finding : findings.all()) said += verifier::to_text(finding);
        ASSERT_TRUE(luid.has_value()) << said;
        const dxgk::GpuVaModel* known = system.impl().find(*luid)->gpu_va_model();
        ASSERT_EQ(known != nullptr, model.levels != 0);
        if (known != nullptr) {
          EXPECT_EQ(known->geometry.level_count, model.levels);
          EXPECT_EQ(known->geometry.update_mode, model.mode);
          EXPECT_EQ(known->geometry.levels[0].paging_process_segment, kSystemMemory);
        }
        EXPECT_EQ(said, "");
      }
      EXPECT_TRUE(findings.all().empty());
    });
  }
}

#ifdef SOFTGPU_WDDM2_SYS
INSTANTIATE_TEST_SUITE_P(Images, VaDriverTest,
                         ::testing::Values(SOFTGPU_WDDM2_ELF, SOFTGPU_WDDM2_SYS));
#else
INSTANTIATE_TEST_SUITE_P(Images, VaDriverTest, ::testing::Values(SOFTGPU_WDDM2_ELF));
#endif

}  // namespace
}  // namespace dxgkit::contract
