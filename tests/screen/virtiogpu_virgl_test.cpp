// The virtio GPU's driver on the device whose renderer is libvirglrenderer: a clear by D3DKMTRender
// comes back pixel by pixel, also through an aperture a quarter of what is drawn on, and a client
// whose commands are wrong, or never end, costs no other.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bus/device.h"
#include "bus/machine.h"
#include "devices/virtiogpu/device.h"
#include "devices/virtiogpu/test_commands.h"
#include "dxgk/system.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tests/screen/render_client.h"
#include "thunks/client.h"
#include "verifier/findings.h"

namespace dxgkit {
namespace {

using virtiogpu::Words;

/// A surface object of the renderer; handles belong to a context.
constexpr uint32_t kSurface = 10;

std::vector<uint32_t> clear_to(const Picture& picture, float red, float green, float blue,
                               uint32_t surface = kSurface) {
  return Words()
      .draw_to(picture.resource, VGPU_B8G8R8A8, surface)
      .clear(red, green, blue, 1)
      .words();
}

struct Plan {
  uint32_t aperture_mib = 64;
  bool renderers_each = false;  // a renderer for each context, which is given up after 3 s
};

class VirtioGpuVirgl : public ::testing::TestWithParam<std::tuple<const char*, uint64_t>> {
 protected:
  static void run(const Plan& plan, const std::function<void(dxgk::System&, dxgk::Luid)>& body) {
    const auto& [path, seed] = GetParam();
    const auto runtime = seed != 0 ? runtime::make_sim_runtime(seed) : runtime::make_os_runtime(5);
    runtime->run_main([&] {
      verifier::Findings findings;
      bus::Machine machine(uint64_t{64} << 20);
      bus::DeviceOptions options;
      ASSERT_TRUE(options.add("modes", "64x64"));
      ASSERT_TRUE(options.add("3d", "on"));
      dxgk::AdapterOptions adapter_options;
      if (plan.renderers_each) {
        ASSERT_TRUE(options.add("renderers", "each"));
        ASSERT_TRUE(options.add("timeout", "3000"));
        adapter_options.tdr_delay_ns = 60 * runtime::kSecond;  // the device is quicker
      }
      const auto maker = virtiogpu::device_type().configure(options);
      ASSERT_TRUE(maker.has_value());
      const auto made = (*maker)({*runtime, machine});
      ASSERT_TRUE(made.has_value()) << made.error();
      bus::Device& gpu = **made;
      ASSERT_EQ(bus::plug_in(machine, gpu), Status::kSuccess);
      nt::KernelConfig config;
      config.registry[nt::KernelConfig::kDriverKey]["ApertureSize"] =
          nt::RegistryValue::dword(plan.aperture_mib);
      nt::Kernel kernel(*runtime, machine, findings, std::move(config));
      {
        std::string message;
        auto driver = port::Driver::load(
            kernel, findings, {.name = "virtiogpu", .path = path, .entry = nullptr}, &message);
        ASSERT_TRUE(driver.has_value()) << message;
        dxgk::System system(*runtime, machine, kernel, findings);
        const auto adapter =
            system.start_adapter(**driver, *gpu.functions().front(), adapter_options);
        ASSERT_TRUE(adapter.has_value());
        body(system, *adapter);
        EXPECT_EQ(system.stop_adapter(*adapter), Status::kSuccess);
      }
      for (const verifier::Finding& finding : findings.all()) {
        if (finding.severity != verifier::Severity::kWarning)
          ADD_FAILURE() << finding.rule << ": " << finding.actual;
      }
    });
  }
};

/// Two processes, each with a context of its own, in turns. One of them then sends nonsense.
TEST_P(VirtioGpuVirgl, ClearsComeBackAndNonsenseCostsOneClient) {
  run({}, [](dxgk::System& system, dxgk::Luid adapter) {
    dxgk::Process* processes[2];
    std::unique_ptr<RenderClient> clients[2];
    Picture pictures[2];
    for (uint32_t i = 0; i < 2; ++i) {
      processes[i] = &system.create_process("client");
      const thunks::ClientScope scope(system, *processes[i]);
      clients[i] = std::make_unique<RenderClient>(adapter);
      EXPECT_NE(clients[i]->info().capset_count, 0U);
      pictures[i] = clients[i]->make();
    }
    const auto draw = [&](uint32_t i, float red, float green) {
      const thunks::ClientScope scope(system, *processes[i]);
      return clients[i]->render(
          Commands().submit(clear_to(pictures[i], red, green, 0)).from_host(0), {pictures[i]});
    };
    const auto look = [&](uint32_t i) {
      const thunks::ClientScope scope(system, *processes[i]);
      return clients[i]->look(pictures[i]);
    };
    ASSERT_EQ(draw(0, 1, 0), 0);
    ASSERT_EQ(draw(1, 0, 1), 0);
    EXPECT_EQ(look(0), Pixels(kWidth * kHeight, 0xFFFF0000));
    EXPECT_EQ(look(1), Pixels(kWidth * kHeight, 0xFF00FF00));
    {
      const thunks::ClientScope scope(system, *processes[1]);
      // Another's resource, which the context has not got.
      ASSERT_EQ(clients[1]->render(Commands().submit(clear_to(pictures[0], 0, 0, 1, kSurface + 1)),
                                   {pictures[1]}),
                0);
      (void)clients[1]->wait();
      EXPECT_EQ(clients[1]->state(), clients[1]->fault_state());
    }
    {
      const thunks::ClientScope scope(system, *processes[0]);
      EXPECT_EQ(clients[0]->fetch(pictures[0]), Pixels(kWidth * kHeight, 0xFFFF0000));
      ASSERT_EQ(clients[0]->render(Commands().submit(clear_to(pictures[0], 1, 1, 1, kSurface + 2)),
                                   {pictures[0]}),
                0);
      EXPECT_EQ(clients[0]->fetch(pictures[0]), Pixels(kWidth * kHeight, 0xFFFFFFFF));
    }
    for (uint32_t i = 0; i < 2; ++i) {
      {
        const thunks::ClientScope scope(system, *processes[i]);
        clients[i].reset();
      }
      system.end_process(*processes[i]);
    }
  });
}

TEST_P(VirtioGpuVirgl, AnApertureThatIsTooSmallLosesNothing) {
  run({.aperture_mib = 1}, [](dxgk::System& system, dxgk::Luid adapter) {
    static constexpr uint32_t kSide = 256, kCount = 16;  // 4 MiB
    dxgk::Process& process = system.create_process("client");
    {
      const thunks::ClientScope scope(system, process);
      RenderClient client(adapter);
      std::vector<Picture> pictures;
      for (uint32_t i = 0; i < kCount; ++i) {
        pictures.push_back(client.make(kSide, kSide));
        const float red = static_cast<float>(i) / 255;
        ASSERT_EQ(client.render(Commands().submit(clear_to(pictures[i], red, 0, 1, kSurface + i)),
                                {pictures[i]}),
                  0);
      }
      for (uint32_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(client.render(Commands().from_host(0, kSide, kSide), {pictures[i]}), 0);
        EXPECT_EQ(client.look(pictures[i], kSide * kSide),
                  Pixels(kSide * kSide, 0xFF0000FF | i << 16))
            << i;
      }
      const auto statistics = system.statistics(adapter);
      ASSERT_TRUE(statistics.has_value());
      EXPECT_GT(statistics->evictions, uint64_t{kCount});
      EXPECT_GE(statistics->returns, uint64_t{kCount});
      EXPECT_GT(statistics->aperture_maps, uint64_t{2 * kCount - 4});
    }
    system.end_process(process);
  });
}

class VirtioGpuVirglInRealTime : public VirtioGpuVirgl {};

TEST_P(VirtioGpuVirglInRealTime, WorkThatNeverEndsCostsItsClientOnly) {
  run({.renderers_each = true}, [](dxgk::System& system, dxgk::Luid adapter) {
    dxgk::Process& good = system.create_process("good");
    dxgk::Process& endless = system.create_process("endless");
    std::unique_ptr<RenderClient> client;
    Picture picture;
    {
      const thunks::ClientScope scope(system, good);
      client = std::make_unique<RenderClient>(adapter);
      picture = client->make();
      ASSERT_EQ(client->render(Commands().submit(clear_to(picture, 1, 0, 1)), {picture}), 0);
    }
    {
      const thunks::ClientScope scope(system, endless);
      RenderClient wrong(adapter);
      const Picture own = wrong.make();
      EXPECT_EQ(wrong.fetch(own)[0], 0U);  // its memory is there: nothing comes before the work
      ASSERT_EQ(wrong.render(Commands().submit(Words().compute_for_ever().words()), {own}), 0);
      {
        // While it computes, the other one's work waits its turn, and new objects wait, too.
        const thunks::ClientScope inner(system, good);
        const Picture fresh = client->make();
        EXPECT_EQ(
            client->render(Commands().submit(clear_to(fresh, 0, 1, 1, kSurface + 1)).from_host(0),
                           {fresh}),
            0);
        EXPECT_EQ(client->look(fresh), Pixels(kWidth * kHeight, 0xFF00FFFF));
      }
      (void)wrong.wait();
      EXPECT_EQ(wrong.state(), wrong.fault_state());
    }
    {
      const thunks::ClientScope scope(system, good);
      EXPECT_EQ(client->fetch(picture), Pixels(kWidth * kHeight, 0xFFFF00FF));
      EXPECT_EQ(client->state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      client.reset();
    }
    EXPECT_EQ(system.statistics(adapter)->adapter_resets, 0U);
    system.end_process(endless);
    system.end_process(good);
  });
}

INSTANTIATE_TEST_SUITE_P(Drivers, VirtioGpuVirgl,
                         ::testing::Combine(::testing::Values(VIRTIOGPU_SYS, VIRTIOGPU_WDDM2_SYS),
                                            ::testing::Values(0, 1)));
INSTANTIATE_TEST_SUITE_P(Drivers, VirtioGpuVirglInRealTime,
                         ::testing::Combine(::testing::Values(VIRTIOGPU_SYS, VIRTIOGPU_WDDM2_SYS),
                                            ::testing::Values(0)));

}  // namespace
}  // namespace dxgkit
