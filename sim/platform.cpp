#include "sim/platform.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>

#include "devices/softgpu/softgpu.h"
#include "devices/softgpu/softgpu_hw.h"

namespace dxgkit::sim {

void Platform::run() {
  if (!world_.plan.faults.has(FaultKind::kPowerFailure) &&
      !world_.plan.faults.has(FaultKind::kSleepAtWork))
    return;
  Random random(world_.plan.faults.platform_seed);
  for (uint32_t i = 0; i < world_.plan.faults.power_events; ++i) {
    world_.runtime.sleep_for(static_cast<int64_t>(random.magnitude(1'000, 50'000'000)));
    if (ends_ || world_.failed() || world_.adapter_lost()) return;
    world_.freeze(true);
    lose_or_sleep(random);
    world_.freeze(false);
  }
}

void Platform::lose_or_sleep(Random& random) {
  const bool fails = world_.plan.faults.has(FaultKind::kPowerFailure) &&
                     (!world_.plan.faults.has(FaultKind::kSleepAtWork) || random.percent(50));
  constexpr std::array kTargets = {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kHybridSleep,
                                   dxgk::PowerTarget::kHibernate};
  const dxgk::PowerTarget target = kTargets[random.below(kTargets.size())];
  bool asleep = false;
  const auto fail_power = [&] {
    ++world_.power_failures;  // before any client sees the effect
    world_.gpu.fail_power(target == dxgk::PowerTarget::kStandby ? bus::FunctionPower::kStandby
                                                                : bus::FunctionPower::kHibernate);
    const Status status = world_.system.power_failed(world_.adapter, target);
    if (is_success(status)) {
      asleep = true;
      world_.faults.count(FaultKind::kPowerFailure);
    } else {
      --world_.power_failures;
    }
  };
  // While a transition down or up is in progress, somewhere in its middle; or without warning.
  const auto beside = [&](const auto& transition) {
    std::unique_ptr<runtime::Thread> saboteur;
    if (fails && random.percent(60)) {
      const auto delay = static_cast<int64_t>(random.magnitude(1, 2'000'000));
      saboteur = world_.runtime.spawn("power", [&, delay] {
        world_.runtime.sleep_for(delay);
        fail_power();
      });
    }
    const Status status = transition();
    if (saboteur != nullptr) saboteur->join();
    return status;
  };
  if (fails && random.percent(40)) {
    fail_power();
  } else {
    const Status status = beside([&] {
      const auto down = world_.system.set_power(world_.adapter, target);
      if (down.has_value()) asleep = true;
      return down.has_value() ? Status::kSuccess : down.error();
    });
    if (is_success(status) && !fails) world_.faults.count(FaultKind::kSleepAtWork);
  }
  if (world_.adapter_lost() || !asleep) return;
  const bus::Bar& vram = world_.gpu.function().bars()[SGPU_BAR_VRAM];
  void* const memory = world_.machine.map_io(vram.base, world_.plan.vram_bytes);
  if (memory == nullptr) return world_.fail("video memory cannot be mapped");
  std::memset(memory, 0xDD, world_.plan.vram_bytes);
  static_cast<void>(world_.machine.unmap_io(memory, world_.plan.vram_bytes));
  world_.sleep_idle(static_cast<int64_t>(
      random.magnitude(runtime::kMillisecond, static_cast<uint64_t>(world_.plan.sleep_ns))));
  for (int tries = 0;; ++tries) {
    asleep = false;
    const Status status = beside([&] {
      const auto up = world_.system.set_power(world_.adapter, dxgk::PowerTarget::kD0);
      return up.has_value() ? Status::kSuccess : up.error();
    });
    if (world_.adapter_lost()) return;
    // Power failed on the way up, or right after it.
    if ((status == Status::kRetry || asleep) && tries < 20) continue;
    if (!is_success(status))
      world_.fail(fmt::format("the adapter did not come back from sleep: {:#010x}",
                              static_cast<uint32_t>(to_ntstatus(status))));
    return;
  }
}

}  // namespace dxgkit::sim
