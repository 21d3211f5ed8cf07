#include "fuzz/d3dkmt/world.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/system_impl.h"
#include "fuzz/d3dkmt/caller.h"
#include "tests/contract/gpu_va_fixture.h"
#include "tests/support/scripted_hw_queue.h"
#include "thunks/client.h"

namespace dxgkit::fuzz {
namespace {

using contract::Stack;

constexpr size_t kBlockedMost = 3;  // calls of one process at a time
constexpr int kPatience = 40;       // looks, a microsecond apart, until a call counts as blocked

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

class World {
 public:
  World(Stack& stack, testing::Choices& choices, const WorldOptions& options)
      : stack_(stack), choices_(choices), options_(options) {
    const uint64_t count = 1 + choices_() % 3;
    for (uint64_t i = 0; i < count; ++i) open();
  }

  void run() {
    // A seed never runs out.
    while ((from_seed_ || !choices_.exhausted()) && counts_.calls < options_.calls_most) {
      const uint64_t choice = choices_();
      const size_t who = choice / 64 % clients_.size();
      switch (choice % 64) {
        case 0:
          end(who);
          open();
          break;
        case 1:
          stack_.drive();
          break;
        case 2:
          gpu_works_ = !gpu_works_;
          break;
        default:
          call(who, clients_[who]->caller->plan(choices_));
      }
      collect();
    }
    gpu_works_ = true;
    while (!clients_.empty()) end(clients_.size() - 1);
    stack_.drive();
  }
  const WorldCounts& counts() const { return counts_; }

 private:
  struct Pending {
    Planned planned;
    NTSTATUS status = 0;
    std::atomic<bool> done{false};  // release/acquire: publishes what the call did
    std::unique_ptr<runtime::Thread> thread;
  };
  struct OneClient {
    dxgk::Process* process = nullptr;
    std::unique_ptr<Caller> caller;
    std::vector<std::unique_ptr<Pending>> blocked;
  };

  void open() {
    auto client = std::make_unique<OneClient>();
    const std::string name = "p" + std::to_string(++counts_.processes);
    client->process = &stack_.system->create_process(name);
    const testing::ScriptedAllocation good{};
    CallerOptions options{.luid_low = stack_.luid.low,
                          .luid_high = static_cast<uint32_t>(stack_.luid.high),
                          .log = options_.log,
                          .name = name};
    options.allocation_data.resize(sizeof good);
    std::memcpy(options.allocation_data.data(), &good, sizeof good);
    client->caller = std::make_unique<Caller>(market_, std::move(options));
    clients_.push_back(std::move(client));
    if (choices_() % 8 == 0) return;
    OneClient& made = *clients_.back();
    for (uint32_t i = 0; i < Caller::kOpening; ++i)
      call(clients_.size() - 1, made.caller->plan_opening(i));
  }

  void wait(const std::atomic<bool>& done, int rounds, bool gpu_works) {
    for (int i = 0; i < rounds && !done.load(std::memory_order_acquire); ++i) {
      if (gpu_works) static_cast<void>(stack_.miniport.complete_all());
      runtime::Runtime::current().sleep_for(runtime::kMicrosecond);
    }
  }
  size_t blocked() const {
    size_t count = 0;
    for (const auto& client : clients_) count += client->blocked.size();
    return count;
  }
  std::vector<size_t> handles() const {
    std::vector<size_t> all;
    for (const auto& client : clients_) all.push_back(client->process->handles().size());
    return all;
  }

  void call(size_t who, Planned planned) {
    OneClient& client = *clients_[who];
    if (client.blocked.size() >= kBlockedMost) return;
    ++counts_.calls;
    auto pending = std::make_unique<Pending>();
    pending->planned = std::move(planned);
    const bool alone = blocked() == 0;
    const std::vector<size_t> before = handles();
    pending->thread = runtime::Runtime::current().spawn(
        "call", [&stack = stack_, &process = *client.process, &one = *pending] {
          const thunks::ClientScope scope(*stack.system, process);
          one.status = Caller::make(one.planned);
          one.done.store(true, std::memory_order_release);
        });
    wait(pending->done, kPatience, gpu_works_);
    if (!pending->done.load(std::memory_order_acquire)) {
      ++counts_.blocked;
      client.blocked.push_back(std::move(pending));
      return;
    }
    finish(client, *pending);
    if (alone && pending->status < 0) {
      EXPECT_EQ(handles(), before) << pending->planned.text();
    }
    if (counts_.calls % 8 == 0) check();
  }
  void finish(OneClient& client, Pending& pending) {
    pending.thread->join();
    pending.thread.reset();
    client.caller->learn(pending.planned, pending.status);
    counts_.succeeded += pending.status >= 0;
  }
  /// Calls that have come back meanwhile.
  void collect() {
    for (auto& client : clients_) {
      std::erase_if(client->blocked, [&](const std::unique_ptr<Pending>& one) {
        if (!one->done.load(std::memory_order_acquire)) return false;
        finish(*client, *one);
        return true;
      });
    }
  }
  void check() {
    for (const dxgk::Ref<dxgk::Adapter>& adapter : stack_.system->impl().running())
      adapter->lane().run([&] { EXPECT_TRUE(adapter->memory().validate()); });
  }
  void end(size_t who) {
    OneClient& client = *clients_[who];
    Pending ending;
    ending.thread = runtime::Runtime::current().spawn(
        "end", [&stack = stack_, &process = *client.process, &ending] {
          stack.system->end_process(process);
          ending.done.store(true, std::memory_order_release);
        });
    constexpr int kLongest = 100'000;
    wait(ending.done, kLongest, true);
    EXPECT_TRUE(ending.done.load()) << "a process cannot end";
    ending.thread->join();
    // Whoever waited in it is told.
    for (auto& one : client.blocked) {
      wait(one->done, kLongest, true);
      EXPECT_TRUE(one->done.load()) << one->planned.text() << " does not come back";
      one->thread->join();
    }
    clients_.erase(clients_.begin() + static_cast<long>(who));
  }

  Stack& stack_;
  testing::Choices& choices_;
  const WorldOptions& options_;
  const bool from_seed_ = choices_.exhausted();
  Market market_;
  std::vector<std::unique_ptr<OneClient>> clients_;
  bool gpu_works_ = true;
  WorldCounts counts_;
};

void live(Stack& stack, testing::Choices& choices, const WorldOptions& options,
          WorldCounts* counts) {
  stack.miniport.config.record = true;
  ASSERT_EQ(stack.start(), Status::kSuccess);
  {
    World world(stack, choices, options);
    world.run();
    *counts = world.counts();
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
    if (shape % 4 == 0) {
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
