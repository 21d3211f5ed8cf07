#include "dxgk/memory/residency_budget.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/arithmetic.h"
#include "dxgk/core/process.h"
#include "dxgk/core/segment_flags.h"
#include "dxgk/memory/device_memory.h"
#include "dxgk/memory/memory_floor.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

constexpr size_t index_of(SegmentGroup group) { return static_cast<size_t>(group); }

}  // namespace

Budgets::Budgets(MemoryFloor& floor)
    : floor_(floor), core_(floor.core), trim_(floor.core.runtime()) {
  describe_groups();
  if (core_.options().periodic_trim_ns > 0) {
    periodic_timer_ = core_.runtime().make_timer([this] {
      core_.lane().post_from_interrupt([this]() DXGKIT_REQUIRES(on_lane) { trim_periodically(); });
    });
  }
}

Budgets::~Budgets() = default;

void Budgets::device_created(Process& process) {
  ProcessMemory& memory = processes_[process.number()];
  memory.process = &process;
  ++memory.devices;
}

void Budgets::device_destroyed(const Process& process) {
  const auto found = processes_.find(process.number());
  DXGKIT_CHECK(found != processes_.end());
  if (--found->second.devices == 0) processes_.erase(found);
}

void Budgets::describe_groups() {
  const auto& infos = core_.segment_infos().segments;
  const auto segments = core_.memory().segments();
  const bool flags_mean_groups = core_.facts().explicit_residency;
  std::array<uint64_t, kSegmentGroups> all{};
  for (size_t i = 0; i < segments.size(); ++i) {
    const uint32_t flags = flags_mean_groups ? infos[i].flags : 0;
    const bool memory = segments[i].kind == vidmm::SegmentKind::kMemory;
    SegmentGroup group = memory ? SegmentGroup::kLocal : SegmentGroup::kNonLocal;
    // SEG-43: the driver's word goes before the kind's.
    if ((flags & kSegmentLocalBudgetGroup) != 0) group = SegmentGroup::kLocal;
    if ((flags & kSegmentNonLocalBudgetGroup) != 0) group = SegmentGroup::kNonLocal;
    groups_.push_back(group);
    const uint64_t bytes = memory ? segments[i].size_bytes : segments[i].commit_limit_bytes;
    all[index_of(group)] += bytes;
    if ((flags & kSegmentApplicationTarget) != 0) totals_[index_of(group)] += bytes;
  }
  // A driver that marks nothing in a group means all of it.
  for (size_t g = 0; g < kSegmentGroups; ++g) {
    if (totals_[g] == 0) totals_[g] = all[g];
    not_counted_ += all[g] - totals_[g];
  }
}

uint64_t Budgets::bytes_of(AllocationId id) const {
  return align_up(core_.memory().description(id).size_bytes, kPageBytes);
}

SegmentGroup Budgets::group_of(SegmentId segment) const {
  DXGKIT_CHECK(segment.value >= 1 && segment.value <= groups_.size());
  return groups_[segment.value - 1];
}

SegmentGroup Budgets::likely_group(AllocationId id,
                                   const std::array<bool, kSegmentGroups>& full) const {
  const vidmm::AllocationDesc& desc = core_.memory().description(id);
  const vidmm::SegmentSet supported = desc.supported_read | desc.supported_write;
  std::vector<SegmentGroup> order;
  for (const vidmm::SegmentPreference& preference : desc.preferred) {
    if ((supported & vidmm::segment_bit(preference.segment)) != 0)
      order.push_back(group_of(preference.segment));
  }
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    if ((supported >> i & 1U) != 0) order.push_back(groups_[i]);
  }
  for (const SegmentGroup group : order) {
    if (!full[index_of(group)]) return group;
  }
  return order.front();
}

Budgets::ProcessMemory& Budgets::memory_of(const Process& process) {
  const auto found = processes_.find(process.number());
  DXGKIT_CHECK(found != processes_.end());  // it has a device
  return found->second;
}

void Budgets::charge(ProcessMemory& process, AllocationId id, SegmentGroup group) {
  Charge& charge = process.charges[id];
  if (charge.count++ != 0) return;
  charge.bytes = bytes_of(id);
  charge.group = group;
  process.groups[index_of(group)].usage += charge.bytes;
  used_[index_of(group)] += charge.bytes;
  record_budget(process, group);
}

void Budgets::charge(const Process& process, AllocationId id) {
  std::array<bool, kSegmentGroups> full{};
  for (size_t g = 0; g < kSegmentGroups; ++g) full[g] = used_[g] >= totals_[g];
  charge(memory_of(process), id, likely_group(id, full));
}

void Budgets::uncharge(const Process& process, AllocationId id) {
  uncharge(memory_of(process), id);
}

void Budgets::uncharge(ProcessMemory& process, AllocationId id) {
  const auto found = process.charges.find(id);
  DXGKIT_CHECK(found != process.charges.end());
  Charge& charge = found->second;
  if (--charge.count != 0) return;
  process.groups[index_of(charge.group)].usage -= charge.bytes;
  used_[index_of(charge.group)] -= charge.bytes;
  record_budget(process, charge.group);
  process.charges.erase(found);
}

void Budgets::recharge(const Process& owner, AllocationId id, SegmentId segment) {
  ProcessMemory& process = memory_of(owner);
  const SegmentGroup group = group_of(segment);
  const auto found = process.charges.find(id);
  if (found == process.charges.end()) return;  // evicted already, and there for older work only
  Charge& charge = found->second;
  if (charge.group == group) return;
  process.groups[index_of(charge.group)].usage -= charge.bytes;
  used_[index_of(charge.group)] -= charge.bytes;
  record_budget(process, charge.group);
  charge.group = group;
  process.groups[index_of(group)].usage += charge.bytes;
  used_[index_of(group)] += charge.bytes;
  record_budget(process, group);
}

void Budgets::record_budget(const ProcessMemory& process, SegmentGroup group) const {
  if (trying_ || trace::current() == nullptr) return;
  const size_t g = index_of(group);
  trace::emit(trace::EventKind::kBudget, process.process->number(), g, budget_of(process, group),
              process.groups[g].usage);
}

/// Filling all processes to one level: who uses less than the level (or has more reserved) is
/// filled to that, the rest of the group is for this one. So no budget is below an even share, what
/// others do not use is lent, and nobody is over budget while all usage fits the group (RES-18).
///
///     | others' usage and reservations, below the level |  level  |  level = this budget  |
uint64_t Budgets::budget_of(const ProcessMemory& process, SegmentGroup group) const {
  const size_t g = index_of(group);
  struct Claim {
    uint64_t least, most;  // reserved; and what is used
  };
  std::vector<Claim> others;
  for (const auto& [number, other] : processes_) {
    if (&other == &process) continue;
    const GroupMemory& memory = other.groups[g];
    others.push_back({memory.reservation, std::max(memory.reservation, memory.usage)});
  }
  // At a level, what the others get, and what is left for this one.
  const auto left = [&](uint64_t level) DXGKIT_REQUIRES(on_lane) {
    uint64_t sum = 0;
    for (const Claim& claim : others) {
      sum += std::max(claim.least, std::min(claim.most, level));
    }
    return totals_[g] - std::min(sum, totals_[g]);
  };
  // The highest level that leaves this one at least the level: left() falls as it rises.
  uint64_t low = 0;
  uint64_t high = totals_[g];
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (left(middle) >= middle) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return std::max(left(low), process.groups[g].reservation);
}

uint64_t Budgets::trim_of(const ProcessMemory& process) const {
  uint64_t bytes = 0;
  for (size_t g = 0; g < kSegmentGroups; ++g) {
    const uint64_t usage = process.groups[g].usage;
    if (usage == 0) continue;
    bool reserved = false;
    for (const auto& [number, other] : processes_)
      reserved = reserved || other.groups[g].reservation != 0;
    if (used_[g] <= totals_[g] && !reserved) continue;  // no pressure: nobody is over budget
    const uint64_t budget = budget_of(process, static_cast<SegmentGroup>(g));
    if (usage > budget) bytes += usage - budget;
  }
  return bytes;
}

uint64_t Budgets::overshoot(const Process& owner, std::span<const Ref<OpenedAllocation>> openings) {
  ProcessMemory& process = memory_of(owner);
  // Tried on the books, and taken back.
  trying_ = true;
  std::set<AllocationId> charged;
  uint64_t over = 0;
  for (const Ref<OpenedAllocation>& opened : openings) {
    if (opened->listing.count != 0) continue;
    const AllocationId id = opened->allocation->id;
    if (!charged.insert(id).second) continue;
    std::array<bool, kSegmentGroups> full{};
    const uint64_t bytes = bytes_of(id);
    for (size_t g = 0; g < kSegmentGroups; ++g) {
      // RES-18: a budget counts only where there is no room left.
      if (used_[g] + bytes <= totals_[g]) continue;
      full[g] = process.groups[g].usage + bytes > budget_of(process, static_cast<SegmentGroup>(g));
    }
    const SegmentGroup group = likely_group(id, full);
    charge(process, id, group);
    const size_t g = index_of(group);
    if (full[g]) over = std::max(over, process.groups[g].usage - budget_of(process, group));
  }
  for (const AllocationId id : charged) uncharge(process, id);
  trying_ = false;
  return over;
}

uint64_t Budgets::beyond_totals(const Process& process) {
  const ProcessMemory& memory = memory_of(process);
  uint64_t beyond = 0;
  for (size_t g = 0; g < kSegmentGroups; ++g) {
    const uint64_t usage = memory.groups[g].usage;
    if (usage > totals_[g]) beyond = std::max(beyond, usage - totals_[g]);
  }
  return beyond;
}

void Budgets::tell_over_budget() {
  for (auto& [number, process] : processes_) {
    const uint64_t bytes = trim_of(process);
    if (bytes > process.notified) {
      TrimNotice notice;
      notice.to_budget = true;
      notice.bytes = bytes;
      trim_.notify(*process.process, notice);
    }
    process.notified = bytes;
  }
}

void Budgets::note_work(Process& process) {
  if (!periodic_timer_) return;
  ProcessMemory& memory = memory_of(process);
  memory.worked = true;
  if (std::exchange(memory.periodic, true)) return;
  trim_.notify(process, {.restart_periodic = true});
  if (std::exchange(periodic_armed_, true)) return;
  periodic_timer_->arm(core_.runtime().now() + core_.options().periodic_trim_ns);
}

void Budgets::trim_periodically() {
  periodic_armed_ = false;
  if (!periodic_timer_ || core_.failed()) return;
  bool any = false;
  for (auto& [number, memory] : processes_) {
    if (!memory.periodic) continue;
    // Who did nothing for a period has nothing to compare with: it starts anew with its next work.
    memory.periodic = std::exchange(memory.worked, false);
    if (!memory.periodic) continue;
    any = true;
    trim_.notify(*memory.process, {.periodic = true});
  }
  if (!any) return;
  periodic_armed_ = true;
  periodic_timer_->arm(core_.runtime().now() + core_.options().periodic_trim_ns);
}

void Budgets::stop_periodic_trim() {
  std::unique_ptr<runtime::Timer> timer;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { timer = std::move(periodic_timer_); });
}

VideoMemoryInfo Budgets::video_memory_info(const Process& process, SegmentGroup group) {
  const size_t g = index_of(group);
  VideoMemoryInfo info;
  uint64_t reserved_by_others = 0;
  for (const auto& [number, other] : processes_) {
    if (number != process.number()) reserved_by_others += other.groups[g].reservation;
  }
  const auto found = processes_.find(process.number());
  const ProcessMemory none;
  const ProcessMemory& memory = found == processes_.end() ? none : found->second;
  info.budget = budget_of(memory, group);
  info.usage = memory.groups[g].usage;
  if (!core_.facts().explicit_residency) {
    // What packets brought in: nobody lists anything. Opened twice, it is there once.
    std::set<AllocationId> counted;
    for (DeviceMemory* device : floor_.device_memories) {
      if (&device->device().process() != &process) continue;
      for (const OpenedAllocation* opened : device->openings) {
        if (opened->allocation->forgotten) continue;
        const AllocationId id = opened->allocation->id;
        const SegmentId segment = core_.memory().placement(id).segment;
        if (segment == kSystemMemory || group_of(segment) != group) continue;
        if (counted.insert(id).second) info.usage += bytes_of(id);
      }
    }
  }
  info.reservation = memory.groups[g].reservation;
  // Half of a group can be promised; the rest is for whoever comes.
  const uint64_t most = totals_[g] / 2;
  info.available_for_reservation = most - std::min(most, reserved_by_others);
  return info;
}

Status Budgets::reserve(const Process& process, SegmentGroup group, uint64_t bytes) {
  const auto found = processes_.find(process.number());
  if (found == processes_.end()) return Status::kInvalidParameter;
  if (bytes > video_memory_info(process, group).available_for_reservation)
    return Status::kInvalidParameter;  // THUNK-36
  found->second.groups[index_of(group)].reservation = bytes;
  tell_over_budget();
  return Status::kSuccess;
}

uint64_t Budgets::bytes_to_trim(const Process& process) const {
  const auto found = processes_.find(process.number());
  return found == processes_.end() ? 0 : trim_of(found->second);
}

}  // namespace dxgkit::dxgk
