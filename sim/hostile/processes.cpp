#include "sim/hostile/processes.h"

#include <algorithm>

#include "dxgk/adapter/adapter.h"
#include "dxgk/system_impl.h"
#include "thunks/client.h"

namespace dxgkit::hostile {
namespace {

constexpr size_t kBlockedMost = 3;  // calls of one process at a time
/// Until a call counts as blocked.
constexpr runtime::DurationNs kPatience = 40 * runtime::kMicrosecond;
/// The time after which a waiter counts as lost: longer than any number of timeouts in a row.
constexpr runtime::DurationNs kLongest = 200 * runtime::kSecond;

}  // namespace

struct Processes::Pending {
  Planned planned;
  NTSTATUS status = 0;
  std::atomic<bool> done{false};  // release/acquire: publishes the results of the call
  std::unique_ptr<runtime::Thread> thread;
};

struct Processes::OneClient {
  dxgk::Process* process = nullptr;
  std::unique_ptr<Caller> caller;
  std::vector<std::unique_ptr<Pending>> blocked;
};

Processes::Processes(const Ground& ground, const Choices& choices) : ground_(ground) {
  const uint64_t count = 1 + choices() % 3;
  for (uint64_t i = 0; i < count; ++i) open(choices);
}

Processes::~Processes() { end(); }

void Processes::step(const Choices& choices) {
  const uint64_t choice = choices();
  const size_t who = choice / 64 % clients_.size();
  switch (choice % 64) {
    case 0:
      end(who);
      open(choices);
      break;
    case 1:
      if (ground_.gpu_drains) ground_.gpu_drains();
      break;
    case 2:
      gpu_works_ = !gpu_works_;
      break;
    default:
      call(who, clients_[who]->caller->plan(choices));
  }
  collect();
}

void Processes::end() {
  gpu_works_ = true;
  while (!clients_.empty()) end(clients_.size() - 1);
  if (ground_.gpu_drains) ground_.gpu_drains();
}

void Processes::open(const Choices& choices) {
  auto client = std::make_unique<OneClient>();
  const std::string name = "p" + std::to_string(++counts_.processes);
  client->process = &ground_.system.create_process(name);
  CallerOptions options{.luid_low = ground_.luid.low,
                        .luid_high = static_cast<uint32_t>(ground_.luid.high),
                        .log = ground_.log,
                        .answered = ground_.answered,
                        .repeats = ground_.repeats,
                        .name = name,
                        .watch = ground_.watch};
  options.allocation_data = ground_.allocation_data;
  options.commands = ground_.commands;
  client->caller = std::make_unique<Caller>(market_, std::move(options));
  clients_.push_back(std::move(client));
  if (choices() % 8 == 0) return;
  OneClient& made = *clients_.back();
  for (uint32_t i = 0; i < Caller::kOpening; ++i)
    call(clients_.size() - 1, made.caller->plan_opening(i));
}

void Processes::wait(const std::atomic<bool>& done, runtime::DurationNs patience, bool gpu_works) {
  runtime::Runtime& runtime = runtime::Runtime::current();
  runtime::DurationNs pause = runtime::kMicrosecond;
  // Short looks as long as something moves by itself, then ones as long as timeouts. Pauses are
  // counted, because the clock may jump.
  for (int look = 0; !done.load(std::memory_order_acquire) && patience > 0; ++look) {
    if (gpu_works && ground_.gpu_works) ground_.gpu_works();
    runtime.sleep_for(pause);
    patience -= pause;
    if (look >= 1000) pause = std::min<runtime::DurationNs>(pause * 2, runtime::kMillisecond);
  }
}

size_t Processes::blocked() const {
  size_t count = 0;
  for (const auto& client : clients_) count += client->blocked.size();
  return count;
}

std::vector<size_t> Processes::handles() const {
  std::vector<size_t> all;
  for (const auto& client : clients_) all.push_back(client->process->handles().size());
  return all;
}

void Processes::call(size_t who, Planned planned) {
  OneClient& client = *clients_[who];
  if (client.blocked.size() >= kBlockedMost) return;
  ++counts_.calls;
  auto pending = std::make_unique<Pending>();
  pending->planned = std::move(planned);
  const bool alone = blocked() == 0;
  const std::vector<size_t> before = handles();
  if (ground_.log) ground_.log("  " + pending->planned.text());
  pending->thread = runtime::Runtime::current().spawn(
      "call", [&system = ground_.system, &process = *client.process, &one = *pending] {
        const thunks::ClientScope scope(system, process);
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
  if (alone && pending->status < 0 && !stopped() && handles() != before)
    ground_.broken("a refused call has changed handles", pending->planned.text());
  if (counts_.calls % 8 == 0) check();
}

void Processes::finish(OneClient& client, Pending& pending) {
  pending.thread->join();
  pending.thread.reset();
  client.caller->learn(pending.planned, pending.status);
  counts_.succeeded += pending.status >= 0;
}

/// Calls that have come back meanwhile.
void Processes::collect() {
  for (auto& client : clients_) {
    std::erase_if(client->blocked, [&](const std::unique_ptr<Pending>& one) {
      if (!one->done.load(std::memory_order_acquire)) return false;
      finish(*client, *one);
      return true;
    });
  }
}

void Processes::check() {
  for (const dxgk::Ref<dxgk::Adapter>& adapter : ground_.system.impl().running()) {
    adapter->core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      // A display-only adapter has no memory manager.
      if (adapter->core().has_memory() && !adapter->core().memory().validate())
        ground_.broken("the memory manager contradicts itself", "");
    });
  }
}

void Processes::end(size_t who) {
  OneClient& client = *clients_[who];
  Pending ending;
  ending.thread = runtime::Runtime::current().spawn(
      "end", [&system = ground_.system, &process = *client.process, &ending] {
        system.end_process(process);
        ending.done.store(true, std::memory_order_release);
      });
  wait(ending.done, kLongest, true);
  if (!ending.done.load()) ground_.broken("a process cannot end", "");
  ending.thread->join();
  // Its waiters are woken.
  for (auto& one : client.blocked) {
    wait(one->done, kLongest, true);
    if (!one->done.load()) ground_.broken("a call does not come back", one->planned.text());
    one->thread->join();
  }
  clients_.erase(clients_.begin() + static_cast<long>(who));
}

}  // namespace dxgkit::hostile
