// Decides which client of a world works, rests or dies, and checks that nothing runs while all
// rest.
#include <fmt/format.h>

#include <algorithm>

#include "base/spelling.h"
#include "runtime/sim_time.h"
#include "sim/client.h"
#include "sim/thunk_names.h"
#include "sim/world.h"

namespace dxgkit::sim {
namespace {

/// By then queued work is done, cancelled or lost, each packet after a timeout of its own. Then all
/// clients rest.
constexpr int64_t kSettle = 60 * runtime::kSecond;
/// How often a timer may be due in a rest of any length: the timer that ends the rest, and timers
/// armed before.
constexpr uint64_t kStepsMost = 16;

}  // namespace

void World::bump() {
  changed_ns_ = runtime.now();
  changes_.fetch_add(1);
  runtime.wake_all(changes_);
}

void World::fail(std::string what) {
  if (failure_.empty()) failure_ = std::move(what);
  bump();
}

void World::kill(Client& client, std::string_view thunk) {
  faults.count(FaultKind::kClientDeath);
  ++counters.deaths[thunk_index(thunk)];
  end(client);
}

void World::end(Client& client) {
  to_kill_.push_back(&client);
  bump();
}

void World::wait_until_healed() {
  ++arrived_;
  bump();
  const runtime::WaitReason reason(runtime, "the faults to heal");
  for (uint32_t seen = changes_.load(); !faults.healed() && !failed(); seen = changes_.load())
    runtime.wait(changes_, seen);
}

void World::client_ended() {
  ++arrived_;
  bump();
}

bool World::wait_for_work(size_t clients, int64_t patience_ns) {
  const int64_t began = runtime.now();
  const runtime::WaitReason reason(runtime, "the clients to have worked");
  for (uint32_t seen = changes_.load(); arrived_ < clients && !failed(); seen = changes_.load()) {
    const int64_t deadline = std::max(began, last_pause_end_ns_) + patience_ns;
    if (pausing_ == 0 && runtime.now() >= deadline) return false;
    runtime.wait(changes_, seen, pausing_ != 0 ? runtime::kForever : deadline);
  }
  return true;
}

void World::announce_healed() {
  end_idle();
  bump();
}

void World::reap() {
  const runtime::WaitReason reason(runtime, "a client to die (reaper)");
  for (;;) {
    const uint32_t seen = changes_.load();
    if (!to_kill_.empty()) {
      Client& client = *to_kill_.back();
      to_kill_.pop_back();
      killing_ = true;
      client.mark_dying();
      client.process_gone = true;
      system.end_process(client.process());
      client.ended();
      killing_ = false;
      bump();
      continue;
    }
    if (stop_reaping_) return;
    runtime.wait(changes_, seen);
  }
}

void World::stop_reaping() {
  stop_reaping_ = true;
  bump();
}

void World::wait_until(int64_t due_ns) {
  for (uint32_t seen = changes_.load();
       runtime.now() < due_ns && !faults.healed() && !failed() && !adapter_lost();
       seen = changes_.load())
    runtime.wait(changes_, seen, due_ns);
}

void World::settle(int64_t due_ns) {
  for (int64_t changed = -1; changed != changed_ns_;) {
    changed = changed_ns_;
    wait_until(std::min(due_ns, changed + kSettle));
  }
}

void World::pause(int64_t duration_ns) {
  const runtime::WaitReason reason(runtime, "its pause to end");
  ++counters.pauses;
  ++pausing_;
  bump();
  const int64_t due = runtime.now() + duration_ns;
  settle(due);
  if (runtime.now() < due && everybody_rests() && !frozen_) begin_idle();
  wait_until(due);
  end_idle();
  --pausing_;
  last_pause_end_ns_ = runtime.now();
  bump();
}

void World::rest_with_others() {
  if (pausing_ == 0) return;
  const runtime::WaitReason reason(runtime, "the pauses of others");
  ++hogs_resting_;
  bump();
  for (uint32_t seen = changes_.load(); pausing_ != 0 && !faults.healed() && !failed();
       seen = changes_.load())
    runtime.wait(changes_, seen);
  --hogs_resting_;
}

void World::freeze(bool now) {
  end_idle();
  frozen_ = now;
  bump();
  const runtime::WaitReason reason(runtime, "the strangers to rest");
  for (uint32_t seen = changes_.load(); frozen_ && strangers_call_; seen = changes_.load())
    runtime.wait(changes_, seen);
}

void World::strangers_call(bool now) {
  strangers_call_ = now;
  bump();
}

void World::wait_while_frozen() {
  if (!frozen_) return;
  const runtime::WaitReason reason(runtime, "its process to be thawed");
  for (uint32_t seen = changes_.load(); frozen_; seen = changes_.load())
    runtime.wait(changes_, seen);
}

void World::sleep_idle(int64_t duration_ns) {
  const int64_t began = runtime.now();
  const uint64_t steps = runtime::sim_time_steps(runtime);
  runtime.sleep_for(duration_ns);
  check_idle(runtime.now() - began, runtime::sim_time_steps(runtime) - steps);
}

void World::begin_idle() {
  if (!idle_.has_value()) idle_ = Idle{runtime.now(), runtime::sim_time_steps(runtime)};
}

void World::end_idle() {
  if (!idle_.has_value()) return;
  const Idle idle = *idle_;
  idle_.reset();
  check_idle(runtime.now() - idle.since_ns, runtime::sim_time_steps(runtime) - idle.steps);
}

void World::check_idle(int64_t duration_ns, uint64_t steps) {
  counters.idle_ns += static_cast<uint64_t>(duration_ns);
  counters.idle_steps += steps;
  ++counters.property_checks;
  if (steps <= kStepsMost) return;
  fail(fmt::format("all clients rested for {} s, and something was due {} meanwhile",
                   duration_ns / runtime::kSecond, counted(steps, "time")));
}

}  // namespace dxgkit::sim
