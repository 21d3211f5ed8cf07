// Notices to trim and the thread that delivers them, interleaved by many seeds.
#include "dxgk/memory/trim.h"

#include <gtest/gtest.h>

#include "dxgk/core/process.h"
#include "runtime/sync.h"
#include "tests/support/covers.h"

namespace dxgkit::dxgk {
namespace {

/// Only its address counts.
template <typename T>
struct Stand {
  operator T&() { return *reinterpret_cast<T*>(memory); }  // NOLINT: stands for one
  alignas(64) std::byte memory[64]{};
};

// A notice may come just before the thread goes to sleep, and the end as well.
TEST(TrimNotifier, NoNoticeIsMissed) {
  DXGKIT_COVERS("RES-19");
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto runtime = runtime::make_sim_runtime(seed);
    runtime->run_main([&] {
      Stand<System> system;
      Stand<DeviceMemory> device;
      const auto process = std::make_shared<Process>(system, "client", 1);
      TrimNotifier notifier(*runtime);
      runtime::Event told;
      uint64_t bytes = 0;
      const uint64_t number = notifier.add(device, *process, &told, [&](const TrimNotice& notice) {
        bytes = notice.bytes;
        told.set();
      });
      for (uint64_t i = 1; i <= 4; ++i) {
        notifier.notify(*process, {.to_budget = true, .bytes = i});
        EXPECT_EQ(told.wait(runtime->now() + runtime::kSecond), runtime::WaitResult::kWoken) << i;
        EXPECT_EQ(bytes, i);
        told.reset();
      }
      EXPECT_FALSE(notifier.remove(*process, number, &device)) << "another's";
      EXPECT_TRUE(notifier.remove(*process, number, &told));
    });
  }
}

}  // namespace
}  // namespace dxgkit::dxgk
