#include "fuzz/d3dkmt/world.h"

#include <gtest/gtest.h>

#include <cstring>

#include "dxgk/adapter/adapter.h"
#include "dxgk/system_impl.h"
#include "dxgk/work/device.h"
#include "sim/hostile/processes.h"
#include "tests/contract/flip_fixture.h"
#include "tests/contract/gpu_va_fixture.h"
#include "tests/support/scripted_hw_queue.h"

namespace dxgkit::fuzz {
namespace {

using contract::Stack;

/// A stack with everything: GPU virtual addresses, and hardware queues on top.
class FullStack : public contract::GpuVaStack {
 public:
  explicit FullStack(testing::GpuVaConfig config)
      : GpuVaStack(std::move(config)), hw(miniport, gpu) {}
  ~FullStack() {
    blocking([&] { system.reset(); });
    driver.reset();
  }
  testing::ScriptedHwQueues hw;
};

/// All devices of all clients are in error.
void lose_devices(Stack& stack) {
  std::vector<dxgk::Ref<dxgk::Device>> devices;
  {
    dxgk::System::Impl& all = stack.system->impl();
    runtime::MutexLock lock(all.mutex);
    for (const std::shared_ptr<dxgk::Process>& process : all.processes) {
      for (const auto& [handle, type] : process->handles().live()) {
        if (type != dxgk::ObjectType::kDevice) continue;
        if (auto found = process->handles().find<dxgk::Device>(handle); found.has_value())
          devices.push_back(std::move(*found));
      }
    }
  }
  stack.adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (const dxgk::Ref<dxgk::Device>& device : devices) {
      if (!device->lost()) device->set_error(dxgk::DeviceState::kErrorOutOfMemory);
    }
  });
}

void live(Stack& stack, testing::Choices& choices, const WorldOptions& options, WorldCounts* counts,
          contract::FlipDriver* screen = nullptr) {
  stack.miniport.config.record = true;
  ASSERT_EQ(stack.start(), Status::kSuccess);
  hostile::Ground ground{.system = *stack.system, .luid = stack.luid};
  const testing::ScriptedAllocation good{};
  ground.allocation_data.resize(sizeof good);
  std::memcpy(ground.allocation_data.data(), &good, sizeof good);
  ground.gpu_works = [&stack, screen] {
    static_cast<void>(stack.miniport.complete_all());
    if (screen == nullptr) return;
    const auto shown = screen->addresses();
    static_cast<void>(stack.miniport.vsync(
        contract::kTarget,
        shown.empty() ? 0 : static_cast<uint64_t>(shown.back().PrimaryAddress.QuadPart)));
  };
  ground.gpu_drains = [&stack] { stack.drive(); };
  ground.broken = [](const std::string& what, const std::string& where) {
    ADD_FAILURE() << what << " " << where;
  };
  ground.log = options.log;
  ground.answered = options.answered;
  ground.repeats = options.repeats;
  ground.watch = options.watch;
  bool stopped = false;
  ground.stopped = [&stopped] { return stopped; };
  const hostile::Choices decide = [&choices] { return choices(); };
  const bool from_seed = choices.exhausted();  // a seed never runs out
  {
    hostile::Processes processes(ground, decide);
    for (uint64_t steps = 0; from_seed || !choices.exhausted(); ++steps) {
      const uint64_t calls = processes.counts().calls;
      if (calls >= options.calls_most) break;
      processes.step(decide);
      if (calls < options.calls_most / 2) continue;
      if (options.later == WorldOptions::Later::kLost && steps % 8 == 0) lose_devices(stack);
      if (options.later == WorldOptions::Later::kStopped && !stopped) {
        stopped = true;
        stack.blocking(
            [&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
      }
    }
    processes.end();
    *counts = processes.counts();
  }
  for (const verifier::Finding& finding : stack.findings.all()) {
    // The scripted driver believes its clients (existing memory, lists of allocations without a
    // patch location) and is blamed for that; they stop nobody.
    EXPECT_TRUE(finding.severity < verifier::Severity::kStartFail)
        << finding.rule << ": " << finding.actual;
  }
}

}  // namespace

WorldCounts run_world(testing::Choices choices, const WorldOptions& options) {
  WorldCounts counts;
  const uint64_t shape = choices();
  const auto runtime = runtime::make_sim_runtime(
      {.seed = 1 + shape / 64, .time_limit = 3600 * runtime::kSecond, .stack_bytes = 512 * 1024});
  runtime->run_main([&] {
    if (options.with_screen) {
      Stack stack;
      contract::FlipDriver screen(stack);
      live(stack, choices, options, &counts, &screen);
    } else if (shape % 4 == 0) {
      Stack stack;
      live(stack, choices, options, &counts);
    } else {
      FullStack stack(shape % 4 == 1 ? testing::GpuVaConfig::cpu_virtual_two_level()
                                     : testing::GpuVaConfig::gpu_physical_four_level());
      live(stack, choices, options, &counts);
    }
  });
  return counts;
}

}  // namespace dxgkit::fuzz
