// The adapters that the calls are made on.
#include <atomic>

#include "runtime/sync.h"
#include "tests/beside/calls.h"

namespace dxgkit::beside {
namespace {

using namespace contract;

NTSTATUS NTAPI allow(const HANDLE, const DXGKARG_VALIDATEUPDATEALLOCPROPERTY*) {
  return STATUS_SUCCESS;
}

/// The adapter's engines: one thread, since several threads may wait for them at once.
class Engines {
 public:
  explicit Engines(Stack& stack) : stack_(stack) {
    stack.complete_work = [this] { return complete(); };
    thread_ = runtime::Runtime::current().spawn("engines", [this] {
      while (!over_) {
        runtime::Runtime::current().sleep_for(10 * runtime::kMicrosecond);
        static_cast<void>(complete());
      }
    });
  }
  ~Engines() {
    over_ = true;
    thread_->join();
    stack_.complete_work = nullptr;
  }
  Engines(const Engines&) = delete;
  Engines& operator=(const Engines&) = delete;

 private:
  size_t complete() {
    const runtime::MutexLock lock(mutex_);
    return stack_.miniport.complete_all();
  }

  Stack& stack_;
  runtime::Mutex mutex_;
  std::atomic<bool> over_{false};
  std::unique_ptr<runtime::Thread> thread_;
};

void hand_over(const Row& row, World world, const std::function<void(World&)>& body) {
  row.prepare(world);
  world.stack->drive();
  {
    const Engines engines(*world.stack);
    body(world);
  }
  world.stack->miniport.hooks = {};
}

void on_patching(const Row& row, const std::function<void(World&)>& body) {
  Stack stack;
  ASSERT_EQ(stack.start(), Status::kSuccess);
  Client client(stack);
  hand_over(row, {.stack = &stack, .client = &client}, body);
}

void on_residency(const Row& row, const std::function<void(World&)>& body) {
  Stack stack;
  explicit_residency(stack.miniport);
  stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_1;
  stack.miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
    table.DxgkDdiValidateUpdateAllocationProperty = allow;
  };
  ASSERT_EQ(stack.start(), Status::kSuccess);
  ListingClient client(stack);
  hand_over(row, {.stack = &stack, .client = &client, .listing = &client}, body);
}

void on_queues(const Row& row, const std::function<void(World&)>& body) {
  HwStack stack(GpuVaConfig::gpu_physical_four_level());
  ASSERT_EQ(stack.start(), Status::kSuccess);
  HwClient client(stack);
  hand_over(row,
            {.stack = &stack, .client = &client, .listing = &client, .hw = &client, .va = &client},
            body);
}

void on_native(const Row& row, const std::function<void(World&)>& body) {
  NativeStack stack;
  ASSERT_EQ(stack.start(), Status::kSuccess);
  VaClient client(stack);
  hand_over(row, {.stack = &stack, .client = &client, .listing = &client, .va = &client}, body);
}

void on_screen(const Row& row, const std::function<void(World&)>& body) {
  Stack stack;
  FlipDriver driver(stack);
  ASSERT_EQ(stack.start(), Status::kSuccess);
  FlipClient client(stack, driver);
  hand_over(row, {.stack = &stack, .client = &client, .screen = &client}, body);
}

void on_planes(const Row& row, const std::function<void(World&)>& body) {
  Stack stack;
  PlaneDriver driver(stack, DXGKDDI_INTERFACE_VERSION_WDDM2_2);
  ASSERT_EQ(stack.start(), Status::kSuccess);
  PlaneClient client(stack, driver);
  hand_over(row, {.stack = &stack, .client = &client, .screen = &client, .planes = &client}, body);
}

}  // namespace

void with_world(const Row& row, uint64_t seed, const std::function<void(World&)>& body) {
  const auto runtime = runtime::make_sim_runtime(
      {.seed = seed, .time_limit = 10 * runtime::kSecond, .stack_bytes = 512 * 1024});
  runtime->run_main([&] {
    switch (row.ground) {
      case Ground::kPatching:
        return on_patching(row, body);
      case Ground::kResidency:
        return on_residency(row, body);
      case Ground::kQueues:
        return on_queues(row, body);
      case Ground::kNative:
        return on_native(row, body);
      case Ground::kScreen:
        return on_screen(row, body);
      case Ground::kPlanes:
        return on_planes(row, body);
    }
  });
}

}  // namespace dxgkit::beside
