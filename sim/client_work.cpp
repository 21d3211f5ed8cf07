// The actions of clients: the table of operations, and checks of content.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/arithmetic.h"
#include "devices/softgpu/softgpu_hw.h"
#include "dxgk/core/process.h"
#include "runtime/sim_time.h"
#include "sim/client.h"
#include "thunks/client.h"

namespace dxgkit::sim {
namespace {

constexpr size_t kAllocationsMost = 24;
constexpr size_t kContextsMost = 4;
constexpr size_t kLocksMost = 4;
constexpr size_t kCommandsMost = 12;
constexpr uint32_t kNodes = 2;

}  // namespace

std::span<const Client::Operation> Client::operations() {
  // Weights are relative. An operation that has nothing to work on does nothing.
  static constexpr auto kTable = std::to_array<Operation>({
      {"create", 14, &Client::op_create},
      {"create resource", 3, &Client::op_create_resource},
      {"destroy", 9, &Client::op_destroy},
      {"submit", 40, &Client::op_submit},
      {"CPU write", 14, &Client::op_cpu_write},
      {"CPU read", 8, &Client::op_cpu_read},
      {"lock and keep", 3, &Client::op_lock_and_keep},
      {"unlock", 3, &Client::op_unlock},
      {"verify", 8, &Client::op_verify},
      {"wait", 5, &Client::op_wait},
      {"wait for idle", 2, &Client::op_wait_idle},
      {"blocked wait", 4, &Client::op_waiter},
      {"create context", 3, &Client::op_create_context},
      {"destroy context", 2, &Client::op_destroy_context},
      {"priority", 2, &Client::op_priority},
      {"new device", 1, &Client::op_new_device},
      {"sleep", 4, &Client::op_sleep},
      {"hostile call", 6, &Client::op_hostile},
      {"offer", 5, &Client::op_offer},
      {"reclaim", 4, &Client::op_reclaim},
      {"lock discarding", 4, &Client::op_discard},
      {"allocation priority", 2, &Client::op_allocation_priority},
      {"budget", 2, &Client::op_budget},
      {"trim", 2, &Client::op_trim},
      {"share", 2, &Client::op_share},
      {"open shared", 3, &Client::op_open_shared},
      {"reserve addresses", 4, &Client::op_reserve_addresses},
      {"map", 12, &Client::op_map},
      {"free addresses", 5, &Client::op_free_addresses},
      {"update addresses", 6, &Client::op_update_addresses},
      {"check addresses", 6, &Client::op_check_addresses},
  });
  static_assert(kTable.size() <= kOperationsMost);
  return kTable;
}

std::vector<std::string_view> operation_names() {
  std::vector<std::string_view> names;
  for (const Client::Operation& operation : Client::operations()) names.push_back(operation.name);
  return names;
}

Client::Client(World& world, const Options& options)
    : world_(world),
      options_(options),
      random_(options.seed),
      process_(&world.system.create_process(fmt::format("client {}", options.number))),
      extra_(options.seed ^ 0x1D7Eu) {}

Client::~Client() = default;

void Client::run() {
  if (dying_) return world_.client_ended();  // before it began
  const thunks::ClientScope scope(world_.system, *process_);
  bool arrived = false;
  try {
    while (!open_adapter()) world_.runtime.sleep_for(runtime::kMicrosecond);
    if (options_.hog) {
      work_as_hog();
    } else {
      work(world_.plan.operations);
      try {
        unlock_all();
      } catch (const DeviceLost&) {
        destroy_device();
      }
      arrived = true;
      world_.wait_until_healed();
      throw_if_ended();
      work(world_.plan.operations_healed);
    }
    if (device_ != 0) {
      try {
        verify_all();
      } catch (const DeviceLost&) {  // of work queued before the last fault
      }
    }
    if (options_.tidy) {
      destroy_device();
      const D3DKMT_CLOSEADAPTER close{.hAdapter = adapter_};
      if (!dying_) static_cast<void>(D3DKMTCloseAdapter(&close));
      if (!dying_ && !world_.failed() && process_->handles().size() != 0)
        fail(fmt::format("it destroyed all it had, and {} handles are left",
                         process_->handles().size()));  // P11
    }
  } catch (const Ended&) {
    // Other clients may wait for memory that it has locked, and must see that the world failed.
    if (!dying_) world_.end(*this);
  } catch (const AdapterLost&) {
    touch_locked();
  }
  if (!arrived) world_.client_ended();
  waiter_ends_ = true;
  wake_waiter();
}

void Client::work(uint32_t count) {
  const std::span<const Operation> table = operations();
  uint32_t total = 0;
  for (const Operation& operation : table) total += operation.weight;
  for (uint32_t done = 0; done < count; ++done) {
    try {
      let_time_pass();
      if (device_ == 0 && !create_device()) {
        world_.runtime.sleep_for(runtime::kMicrosecond);
        continue;
      }
      if (contexts_.empty() && !create_context(static_cast<uint32_t>(random_.below(kNodes))))
        continue;
      work_with_others();
      work_with_signals();
      ask_questions();
      uint64_t drawn = random_.below(total);
      size_t index = 0;
      while (drawn >= table[index].weight) drawn -= table[index++].weight;
      ++world_.counters.operations[index];
      (this->*table[index].run)();
    } catch (const DeviceLost&) {
      destroy_device();
      give_up_turn();
    }
  }
}

void Client::sleep_for(int64_t ns) {
  world_.runtime.sleep_for(ns);
  world_.wait_while_frozen();
  throw_if_ended();
}

void Client::let_time_pass() {
  world_.wait_while_frozen();
  if (world_.faults.phase() != Faults::Phase::kWorking) return;
  if (world_.faults.strike(FaultKind::kStorm)) {
    const uint32_t causes = extra_.percent(50) ? 0 : SGPU_INT_COMPLETE(extra_.below(kNodes));
    world_.gpu.storm(causes, static_cast<uint32_t>(extra_.magnitude(1, 2'000)));
  }
  if (const int64_t by = world_.faults.time_jump(); by != 0) {
    world_.jumps.push_back({world_.runtime.now(), by});
    runtime::sim_jump(world_.runtime, by);
  }
  throw_if_ended();  // others ran in all of these
  // Locks that the adapter does not outlive.
  if (world_.plan.faults.has(FaultKind::kRemoval) && device_ != 0 && extra_.percent(20))
    op_lock_and_keep();
  if (pauses_taken_ >= world_.plan.pauses || !extra_.chance(world_.plan.pause_chance)) return;
  ++pauses_taken_;
  if (extra_.percent(70)) unlock_all();
  world_.pause(static_cast<int64_t>(
      extra_.magnitude(runtime::kSecond, static_cast<uint64_t>(world_.plan.pause_most_ns))));
  world_.wait_while_frozen();
  throw_if_ended();
}

void Client::touch_locked() {
  for (const auto& allocation : allocations_) {
    if (dying_ || allocation->locked == nullptr || allocation->size() == 0) continue;
    volatile std::byte* const bytes = allocation->locked;
    for (uint64_t at = 0; at < allocation->size(); at += kPageBytes) bytes[at] = bytes[at];
    bytes[allocation->size() - 1] = std::byte{1};
    world_.faults.count(FaultKind::kLockAfterRemoval);
  }
}

void Client::work_as_hog() {
  // Pieces that together fill seven eighths of video memory, so that other clients find a little
  // room.
  const uint64_t piece = align_up(world_.plan.vram_bytes / 16, kPageBytes);
  const std::vector<uint64_t> size(1, piece);
  const bool keep_all = world_.plan.faults.has(FaultKind::kVramFull);
  const bool keep_half = world_.plan.faults.has(FaultKind::kVramFragmented);
  while (!world_.faults.healed()) {
    try {
      world_.runtime.sleep_for(static_cast<int64_t>(random_.between(1'000, 200'000)));
      world_.rest_with_others();
      world_.wait_while_frozen();
      throw_if_ended();
      if (device_ == 0 && !create_device()) continue;
      if (contexts_.empty() && !create_context(SGPU_UMD_NODE_COPY)) continue;
      while (allocations_.size() < 14) {
        if (!create_allocations(size, SGPU_UMD_PLACE_ANY, false)) break;
      }
      for (const auto& allocation : allocations_) {
        Command fill{.destination = allocation.get(),
                     .size = piece,
                     .pattern = static_cast<uint32_t>(random_.next())};
        static_cast<void>(submit(*contexts_[0], std::span(&fill, 1)));
      }
      cpu_wait(*contexts_[0], contexts_[0]->submitted);
      for (const auto& allocation : allocations_) static_cast<void>(lock(*allocation));
      const bool half = keep_half && (!keep_all || random_.percent(50));
      if (half) {
        for (size_t i = 0; i < allocations_.size(); i += 2) unlock(*allocations_[i]);
      }
      world_.faults.count(half ? FaultKind::kVramFragmented : FaultKind::kVramFull);
      sleep_for(static_cast<int64_t>(random_.between(10'000, 500'000)));
      throw_if_lost();  // together with its locks
      for (const auto& allocation : allocations_) {
        if (allocation->locked == nullptr) continue;
        ++world_.counters.content_checks;
        world_.counters.bytes_checked += piece;
        if (const auto wrong = allocation->content.compare(0, {allocation->locked, piece}))
          fail(fmt::format("what it kept locked changed: {}", *wrong));
        unlock(*allocation);
      }
    } catch (const DeviceLost&) {
      destroy_device();
    }
  }
}

Client::Allocation* Client::any_allocation() {
  // An offered allocation may not be used before it is reclaimed.
  for (int tries = 0; tries < 4 && !allocations_.empty(); ++tries) {
    Allocation* const allocation = allocations_[random_.below(allocations_.size())].get();
    if (!allocation->offered && allocation->common == nullptr) return allocation;
  }
  return nullptr;
}

Client::Context* Client::any_context() {
  return contexts_.empty() ? nullptr : contexts_[random_.below(contexts_.size())].get();
}

bool Client::idle() const {
  return std::ranges::all_of(
      contexts_, [](const auto& context) { return *context->fence_memory == context->submitted; });
}

uint64_t Client::bytes_live() const {
  uint64_t bytes = 0;
  for (const auto& allocation : allocations_) bytes += allocation->size();
  return bytes;
}

bool Client::verify(Allocation& allocation) {
  if (allocation.placement == SGPU_UMD_PLACE_VRAM) return verify_through_staging(allocation);
  settle(allocation, false);
  const bool held = allocation.locked != nullptr;
  if (!lock(allocation)) return false;
  if (held) throw_if_lost();
  ++world_.counters.content_checks;
  world_.counters.bytes_checked += allocation.size();
  if (const auto wrong = allocation.content.compare(0, {allocation.locked, allocation.size()}))
    fail(fmt::format("content of allocation {:#x} (placement {}): {}", allocation.handle,
                     allocation.placement, *wrong));
  if (!held) unlock(allocation);
  return true;
}

bool Client::verify_through_staging(Allocation& allocation) {
  const uint64_t piece = std::min<uint64_t>(allocation.size(), world_.plan.allocation_bytes_max);
  const std::vector<uint64_t> size(1, piece);
  if (contexts_.empty() && !create_context(SGPU_UMD_NODE_COPY)) return false;
  Context* const context = any_context();
  if (!create_allocations(size, SGPU_UMD_PLACE_STAGING, false)) return false;
  Allocation& staging = *allocations_.back();
  bool looked = true;
  for (uint64_t offset = 0; offset < allocation.size() && looked; offset += piece) {
    const uint64_t bytes = std::min(piece, allocation.size() - offset);
    Command copy{.kind = Command::Kind::kCopy,
                 .source = &allocation,
                 .destination = &staging,
                 .source_offset = offset,
                 .size = bytes};
    looked = submit(*context, std::span(&copy, 1));
    if (!looked) break;
    settle(staging, false);
    if (looked = lock(staging); !looked) break;
    ++world_.counters.content_checks;
    world_.counters.bytes_checked += bytes;
    if (const auto wrong = allocation.content.compare(offset, {staging.locked, bytes}))
      fail(fmt::format("content of allocation {:#x} in video memory, read through staging: {}",
                       allocation.handle, *wrong));
    unlock(staging);
  }
  // Contexts no longer wait for its work when it is destroyed: the kernel defers the destruction.
  for (size_t i = 0; i < allocations_.size(); ++i) {
    if (allocations_[i].get() != &staging) continue;
    destroy_allocation(i, false);
    break;
  }
  return looked;
}

void Client::verify_all() {
  unlock_all();
  for (size_t i = 0; i < allocations_.size(); ++i) {
    if (allocations_[i]->offered && !reclaim(*allocations_[i])) continue;
    if (allocations_[i]->common != nullptr) {
      take_turn(*allocations_[i], false);
      continue;
    }
    // Objects created during the check come last and are destroyed again.
    if (!verify(*allocations_[i]) && world_.faults.healed() && !world_.plan.tight_memory &&
        !may_not_fit())
      fail("content cannot be read after the faults healed");
  }
}

// --- operations

void Client::op_create() {
  if (allocations_.size() >= kAllocationsMost) return op_destroy();
  const uint64_t most = world_.plan.allocation_bytes_max;
  const uint64_t bytes =
      world_.plan.crowded ? random_.between(most / 2, most) : random_.magnitude(1, most);
  if (bytes_live() + bytes > world_.plan.client_bytes) return op_destroy();
  constexpr std::array kPlacements = {SGPU_UMD_PLACE_VRAM, SGPU_UMD_PLACE_VRAM,
                                      SGPU_UMD_PLACE_STAGING, SGPU_UMD_PLACE_ANY};
  const std::vector<uint64_t> sizes(1, bytes);
  if (!create_allocations(sizes, kPlacements[random_.below(kPlacements.size())], false)) return;
  if (random_.percent(10)) static_cast<void>(verify(*allocations_.back()));  // P5: zeros
}

void Client::op_create_resource() {
  if (allocations_.size() + 4 >= kAllocationsMost) return;
  std::vector<uint64_t> sizes(random_.between(1, 4));
  for (uint64_t& bytes : sizes)
    bytes = random_.magnitude(1, std::max<uint64_t>(1, world_.plan.allocation_bytes_max / 4));
  if (bytes_live() + world_.plan.allocation_bytes_max > world_.plan.client_bytes) return;
  constexpr std::array kPlacements = {SGPU_UMD_PLACE_VRAM, SGPU_UMD_PLACE_STAGING,
                                      SGPU_UMD_PLACE_ANY};
  static_cast<void>(
      create_allocations(sizes, kPlacements[random_.below(kPlacements.size())], true));
}

void Client::op_destroy() {
  if (allocations_.empty()) return;
  destroy_allocation(random_.below(allocations_.size()), random_.percent(30));
}

Client::Command Client::random_command() {
  Command command;
  Allocation* const target = any_allocation();
  Allocation* const origin = any_allocation();
  if (target == nullptr || origin == nullptr || target->read_only) {
    command.kind = Command::Kind::kDelay;
    command.size = 1;
    return command;
  }
  Allocation& to = *target;
  Allocation& from = *origin;
  command.destination = &to;
  command.pattern = static_cast<uint32_t>(random_.next());
  const bool can_fill = to.size() >= 4;
  if (random_.percent(3)) {
    command.kind = Command::Kind::kDelay;
    command.size = random_.magnitude(1, 200'000);
  } else if (can_fill && random_.percent(45)) {
    command.kind = Command::Kind::kFill;
    command.offset = random_.below(to.size() / 4) * 4;
    const uint64_t words = (to.size() - command.offset) / 4;
    command.size = random_.percent(30) ? words * 4 : random_.magnitude(1, words) * 4;
  } else {
    command.kind = Command::Kind::kCopy;
    command.source = &from;
    command.source_offset = random_.percent(40) ? 0 : random_.below(from.size());
    command.offset = random_.percent(40) ? 0 : random_.below(to.size());
    const uint64_t most = std::min(from.size() - command.source_offset, to.size() - command.offset);
    command.size = random_.percent(50) ? most : random_.magnitude(1, most);
    const uint64_t together = world_.plan.room_of(from.size()) + world_.plan.room_of(to.size());
    if (&from != &to && together > world_.plan.room()) may_exhaust_memory_ = true;
  }
  return command;
}

void Client::op_submit() {
  if (allocations_.empty()) return op_create();
  if (world_.faults.take_long_packet()) return submit_long();
  Context* const context = any_context();
  // More at once, perhaps, than there is room for, where the kernel may run it in parts (REND-21).
  if (!world_.plan.explicit_residency && random_.percent(world_.plan.crowded ? 25 : 8))
    return submit_to_all(*context);
  std::vector<Command> commands(random_.magnitude(1, kCommandsMost));
  for (Command& command : commands) command = random_command();
  if (world_.plan.explicit_residency) {
    // No list is split: all of it must fit at once.
    std::vector<const Allocation*> used;
    uint64_t bytes = 0;
    size_t fit = 0;
    const auto add = [&](const Allocation* allocation) {
      if (allocation == nullptr || std::ranges::find(used, allocation) != used.end()) return;
      used.push_back(allocation);
      bytes += world_.plan.room_of(allocation->size());
    };
    for (const Command& command : commands) {
      add(command.source);
      add(command.destination);
      if (bytes > world_.plan.room()) break;
      ++fit;
    }
    if (fit == 0) return;
    commands.resize(fit);
  }
  static_cast<void>(submit(*context, commands));
}

void Client::submit_to_all(Context& context) {
  std::vector<Command> commands;
  for (const auto& allocation : allocations_) {
    if (allocation->offered || allocation->read_only || allocation->size() < 4) continue;
    if (allocation->common != nullptr) continue;
    Command& fill = commands.emplace_back();
    fill.destination = allocation.get();
    fill.size = random_.magnitude(1, allocation->size() / 4) * 4;
    fill.pattern = static_cast<uint32_t>(random_.next());
  }
  if (!commands.empty()) static_cast<void>(submit(context, commands));
}

void Client::op_cpu_write() {
  Allocation* const allocation = any_allocation();
  if (allocation == nullptr || allocation->placement == SGPU_UMD_PLACE_VRAM) return;
  if (allocation->read_only) return;
  settle(*allocation, true);
  if (!lock(*allocation)) return;
  const uint64_t offset = random_.below(allocation->size());
  std::vector<std::byte> data(random_.magnitude(1, allocation->size() - offset));
  uint64_t word = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    if (i % 8 == 0) word = random_.next();
    data[i] = static_cast<std::byte>(word >> (i % 8 * 8));
  }
  std::memcpy(allocation->locked + offset, data.data(), data.size());
  allocation->content.write(offset, data);
  if (world_.options.canary == Canary::kModelLie && random_.percent(20))
    allocation->content.lie(offset);
  unlock(*allocation);
}

void Client::op_cpu_read() {
  Allocation* const allocation = any_allocation();
  if (allocation == nullptr || allocation->placement == SGPU_UMD_PLACE_VRAM) return;
  static_cast<void>(verify(*allocation));
}

void Client::op_lock_and_keep() {
  std::vector<Allocation*> wanted;
  for (size_t i = 0; i < random_.between(1, kLocksMost); ++i) {
    Allocation* const allocation = any_allocation();
    if (allocation == nullptr || allocation->placement == SGPU_UMD_PLACE_VRAM) continue;
    if (std::ranges::find(wanted, allocation) == wanted.end()) wanted.push_back(allocation);
  }
  for (Allocation* const allocation : wanted) settle(*allocation, true);
  for (Allocation* const allocation : wanted) static_cast<void>(lock(*allocation));
}

void Client::op_unlock() {
  throw_if_lost();
  // A locked allocation stays where the CPU sees it, whatever the GPU has done to it since.
  for (size_t i = 0; i < allocations_.size(); ++i) {
    Allocation& allocation = *allocations_[i];
    if (allocation.locked == nullptr) continue;
    if (has_happened(allocation.written)) {
      ++world_.counters.content_checks;
      world_.counters.bytes_checked += allocation.size();
      if (const auto wrong = allocation.content.compare(0, {allocation.locked, allocation.size()}))
        fail(fmt::format("content of allocation {:#x}, seen through a lock that was kept: {}",
                         allocation.handle, *wrong));
    }
    unlock(allocation);
  }
}

void Client::op_verify() {
  Allocation* const allocation = any_allocation();
  if (allocation != nullptr) static_cast<void>(verify(*allocation));
}

void Client::op_wait() {
  Context* const context = any_context();
  if (context->submitted != 0) cpu_wait(*context, random_.between(1, context->submitted));
}

void Client::op_create_context() {
  if (contexts_.size() >= kContextsMost) return;
  static_cast<void>(create_context(static_cast<uint32_t>(random_.below(kNodes))));
}

void Client::op_destroy_context() {
  if (contexts_.size() > 1) destroy_context(random_.below(contexts_.size()));
}

void Client::op_new_device() {
  if (random_.percent(50)) verify_all();
  destroy_device();
}

void Client::op_sleep() { sleep_for(static_cast<int64_t>(random_.magnitude(1, 300'000))); }

void Client::op_waiter() {
  Context* const context = any_context();
  // Some waits are never signalled: they end with the fence, the device or the process.
  const uint64_t beyond = random_.percent(20) ? 1'000'000 : 0;
  waiter_task_ = WaiterTask{device_, context->fence, context->submitted + beyond};
  wake_waiter();
}

void Client::op_offer() {
  Allocation* const allocation = any_allocation();
  if (allocation == nullptr || allocation->locked != nullptr || allocation->read_only) return;
  static_cast<void>(offer(*allocation));
}

void Client::op_reclaim() {
  for (size_t i = 0; i < allocations_.size(); ++i) {
    if (allocations_[i]->offered && random_.percent(50))
      static_cast<void>(reclaim(*allocations_[i]));
  }
}

void Client::op_discard() {
  Allocation* const allocation = any_allocation();
  if (allocation == nullptr || allocation->placement == SGPU_UMD_PLACE_VRAM) return;
  if (world_.plan.explicit_residency || allocation->resource != 0) return;
  if (!lock_discarding(*allocation)) return;
  std::vector<std::byte> data(allocation->size() - random_.below(allocation->size()),
                              static_cast<std::byte>(random_.next()));
  std::memcpy(allocation->locked, data.data(), data.size());
  allocation->content.write(0, data);
  unlock_older(*allocation);
}

void Client::op_budget() { check_budget(); }

void Client::op_trim() { static_cast<void>(trim({})); }

void Client::op_hostile() {
  if (options_.hostile) hostile_call();
}

}  // namespace dxgkit::sim
