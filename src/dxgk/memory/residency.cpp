#include "dxgk/memory/residency.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "dxgk/core/process.h"
#include "dxgk/memory/device_memory.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency_budget.h"

namespace dxgkit::dxgk {
namespace {

/// Refusals after which a request for room holds back everybody else's work.
constexpr uint32_t kPatience = 8;
/// Attempts to place a list, with nothing else going on, after which it does not fit.
constexpr uint32_t kAttempts = 3;

vidmm::SegmentSet segments_of(AdapterCore& core, AllocationId id) DXGKIT_REQUIRES(on_lane) {
  const vidmm::AllocationDesc desc = core.memory().description(id);
  return desc.supported_read | desc.supported_write;
}

/// Whoever else has it on its list may have written it.
bool listed_by_others(const OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane) {
  for (const OpenedAllocation* other : opened.allocation->opened) {
    if (other != &opened && other->listing.listed) return true;
  }
  return false;
}

}  // namespace

void DeviceResidency::let_go() {
  set.release(last_use != noted_use);
  noted_use = last_use;
}

Residency::Residency(MemoryFloor& floor, Owner& owner, Budgets& budgets)
    : floor_(floor), core_(floor.core), owner_(owner), budgets_(budgets) {}

Residency::~Residency() = default;

// --- devices ---

void Residency::device_created(DeviceMemory& device) {
  floor_.device_memories.push_back(&device);
  device.residency = std::make_unique<DeviceResidency>(core_.memory());
  budgets_.device_created(device.device().process());
}

void Residency::device_lost(DeviceMemory& device) {
  std::vector<std::unique_ptr<Request>> ended;
  for (auto& request : blocked_) {
    if (&request->queue->device() == &device) ended.push_back(std::move(request));
  }
  std::erase(blocked_, nullptr);
  for (const auto& request : ended) {
    for (const Wanted& one : request->wanted) one.opened->listing.request = 0;
    request->queue->finish(request->value);
  }
  for (OpenedAllocation* opened : device.openings) forget(*opened);
  budgets_.tell_over_budget();
}

void Residency::device_destroyed(DeviceMemory& device) {
  std::erase(floor_.device_memories, &device);
  budgets_.device_destroyed(device.device().process());
  budgets_.tell_over_budget();
}

void Residency::forget(OpenedAllocation& opened) {
  ++changes_;
  if (opened.listing.count == 0) return;
  opened.listing.count = 0;
  leave(opened, /*lazily=*/true);
}

// --- the client's calls ---

Status Residency::check(DeviceMemory& device,
                        std::span<const Ref<OpenedAllocation>> openings) const {
  if (device.device().lost()) return Status::kDeviceRemoved;
  for (const Ref<OpenedAllocation>& opened : openings) {
    if (opened->device.get() != &device) return Status::kInvalidParameter;  // RES-04
    if (opened->closing) return Status::kInvalidParameter;
    // Decommitted: it has no pages until it is reclaimed (ALLOC-59).
    if (opened->allocation->pages.empty()) return Status::kInvalidParameter;
  }
  return Status::kSuccess;
}

Status Residency::make_resident(PagingQueue& queue, std::span<const Ref<OpenedAllocation>> openings,
                                const MakeResidentFlags& flags, MakeResidentOutcome* outcome) {
  core_.lane().assert_current();
  DeviceMemory& device = queue.device();
  DXGKIT_RETURN_IF_FAILED(check(device, openings));
  const Process& process = device.device().process();
  const auto refuse = [&](uint64_t bytes) DXGKIT_REQUIRES(on_lane) {
    outcome->bytes_to_trim = std::max(bytes, budgets_.bytes_to_trim(process));
    if (flags.must_succeed) device.device().set_error(DeviceState::kErrorOutOfMemory);  // RES-12
    return Status::kNoMemory;
  };
  const uint64_t over = budgets_.overshoot(process, openings);
  if (over != 0 && !flags.cant_trim_further) return refuse(over);

  DeviceResidency& mine = *device.residency;
  const bool queues_up = std::ranges::any_of(
      blocked_, [&](const auto& other) { return &other->queue->device() == &device; });
  // Counted first: what is listed is what has a count.
  std::vector<Wanted> wanted;
  for (const Ref<OpenedAllocation>& opened : openings) {
    Listing& listing = opened->listing;
    const bool set_aside = !listing.listed && listing.request == 0;  // not counted, or offered
    wanted.push_back({.opened = opened, .first = listing.count == 0 || set_aside});
    if (listing.count++ != 0) continue;
    budgets_.charge(process, opened->allocation->id);
  }
  std::expected<vidmm::ResidencySet::Held, Status> held =
      std::unexpected(Status::kGraphicsAllocationBusy);
  if (!queues_up) held = list(device, wanted);
  if (!held.has_value() && !fits_alone(device)) {
    // RES-05: all or nothing. The list does not fit even when nobody else is there.
    uint64_t bytes = 0;
    const uint64_t beyond = budgets_.beyond_totals(process);
    for (const Wanted& one : wanted) {
      if (--one.opened->listing.count != 0) continue;
      budgets_.uncharge(process, one.opened->allocation->id);
      bytes += budgets_.bytes_of(one.opened->allocation->id);
    }
    return refuse(beyond != 0 ? beyond : bytes);
  }
  outcome->bytes_to_trim = budgets_.bytes_to_trim(process);
  budgets_.tell_over_budget();
  if (held.has_value()) {
    if (!held->must_wait && mine.paging == 0) {
      outcome->fence = 0;
      return Status::kSuccess;
    }
    outcome->fence = queue.begin();
    page(device, *held,
         [queue = Ref<PagingQueue>(&queue), value = outcome->fence]()
             DXGKIT_REQUIRES(on_lane) { queue->finish(value); });
    return Status::kPending;
  }
  auto request = std::make_unique<Request>();
  request->queue = Ref<PagingQueue>(&queue);
  request->value = outcome->fence = queue.begin();
  request->number = mine.last_request = ++last_request_;
  for (const Wanted& one : wanted) {
    if (one.first) one.opened->listing.request = request->number;
  }
  request->wanted = std::move(wanted);
  // PAGE-44: requests of a higher queue priority are served earlier.
  const auto place = std::ranges::find_if(
      blocked_, [&](const auto& other) { return other->queue->priority() < queue.priority(); });
  blocked_.insert(place, std::move(request));
  return Status::kPending;
}

bool Residency::fits_alone(DeviceMemory& device) const {
  // What is counted: evicted ones that older work keeps will have left, offered ones leave for it.
  std::vector<vidmm::Use> uses;
  for (const OpenedAllocation* opened : device.openings) {
    const bool offered = opened->allocation->offer != vidmm::OfferPriority::kNone;
    if (opened->listing.count != 0 && !offered) uses.push_back({opened->allocation->id, false});
  }
  const Owner::TableRoom tables = owner_.table_room(device.device().process());
  uses.insert(uses.end(), tables.staying.begin(), tables.staying.end());
  return core_.memory().fits_alone(uses, tables.own);
}

bool Residency::still_wanted(const DeviceMemory& device, const Wanted& one) const {
  if (!one.first) return false;  // an earlier request lists it
  if (!one.evicted) return true;
  const bool destroyed = one.opened->allocation == nullptr || one.opened->allocation->forgotten;
  return !destroyed && one.until >= device.residency->first_epoch;
}

std::expected<vidmm::ResidencySet::Held, Status> Residency::list(DeviceMemory& device,
                                                                 std::span<const Wanted> wanted) {
  DeviceResidency& mine = *device.residency;
  std::vector<OpenedAllocation*> added;
  for (const Wanted& one : wanted) {
    Listing& listing = one.opened->listing;
    if (listing.listed || !still_wanted(device, one)) continue;
    listing.listed = true;
    mine.set.add(one.opened->allocation->id);
    added.push_back(one.opened.get());
  }
  auto held = hold(device);
  if (!held.has_value()) {
    for (OpenedAllocation* opened : added) {
      opened->listing.listed = false;
      static_cast<void>(mine.set.remove(opened->allocation->id));
    }
    return held;
  }
  for (const Wanted& one : wanted) {
    if (!still_wanted(device, one)) continue;
    Listing& listing = one.opened->listing;
    if (!one.evicted) {
      listing.leaving = false;
      listing.request = 0;
    } else if (listing.count == 0 || listing.request != 0) {  // no count of a later one keeps it
      listing.leaves_with = listing.leaving ? std::max(listing.leaves_with, one.until) : one.until;
      listing.leaving = true;
    }
  }
  return held;
}

void Residency::look_when_quiet() {
  if (!looks_later_ || !floor_.paging->idle()) return;
  looks_later_ = false;
  core_.lane().post([&floor = floor_]() DXGKIT_REQUIRES(
                        on_lane) {  // the paging executor is in the middle of something
    if (floor.core.failed() || !floor.core.has_memory()) return;
    floor.residency->advance();  // packets may be behind a request that waits
    floor.core.scheduler().retry_busy();
    floor.core.pump();
  });
}

std::expected<vidmm::ResidencySet::Held, Status> Residency::hold(DeviceMemory& device) {
  DeviceResidency& mine = *device.residency;
  const bool still = floor_.paging->idle() && !core_.scheduler().anything_on_hardware();
  if (mine.too_many_as_of == changes_ && mine.too_many_times >= kAttempts &&
      mine.set.size() >= mine.too_many) {
    give_up_later(device);
    return std::unexpected(Status::kGraphicsAllocationBusy);
  }
  if (mine.no_tables_as_of == changes_ && mine.set.size() >= mine.no_tables && !still) {
    looks_later_ |= !floor_.paging->idle();
    return std::unexpected(Status::kGraphicsAllocationBusy);
  }
  // The list counts only beside the tables that lead to it. Whether both fit is clear when nothing
  // runs or pages, and does not change by itself then.
  if (owner_.tables_are_away(device.device().process())) {
    if (!still) {
      looks_later_ |= !floor_.paging->idle();  // packets that retire have everybody look again
      return std::unexpected(Status::kGraphicsAllocationBusy);
    }
    // Those of idle processes go first: what the list pushes out is written into them.
    static_cast<void>(owner_.let_tables_go());
  }
  auto held = mine.set.hold();
  const auto failed_for_room = [&] {
    return !held.has_value() && held.error() == Status::kGraphicsAllocationBusy;
  };
  for (const Demote whom : {Demote::kOverBudget, Demote::kAll}) {
    if (failed_for_room() && demote(whom, &device)) held = mine.set.hold();
  }
  if (failed_for_room() && mine.in_flight == 0 && mine.set.holds_any()) {
    // What it has may be in its own way.
    mine.let_go();
    held = mine.set.hold();
  }
  if (failed_for_room()) {
    vidmm::SegmentSet wanted = 0;
    for (size_t i = 0; i < mine.set.size(); ++i) wanted |= segments_of(core_, mine.set.at(i));
    if (owner_.let_tables_go(wanted)) held = mine.set.hold();
  }
  const bool away = owner_.tables_are_away(device.device().process());
  if (held.has_value() && (away || owner_.tables_give_way(device.device().process()))) {
    // The list gives way neither to what paging wakes nor to its tables, which take what is left.
    ++mine.in_flight;
    if (away || !held->operations.empty()) {
      floor_.paging->enqueue(held->operations, nullptr);
      held->operations.clear();
      held->must_wait = true;
    }
    const Owner::Tables tables = owner_.bring_tables(device.device().process());
    --mine.in_flight;
    if (tables == Owner::Tables::kSoon) held->must_wait = true;
    if (tables == Owner::Tables::kNoRoom) {
      if (mine.in_flight == 0) mine.let_go();
      mine.no_tables = mine.set.size();
      mine.no_tables_as_of = changes_;
      looks_later_ |= !floor_.paging->idle();
      held = std::unexpected(Status::kGraphicsAllocationBusy);
    }
  }
  // Page tables stay where they are, and may have grown since the list was accepted.
  if (core_.facts().virtual_addresses && failed_for_room() && still && in_flight_ == 0) {
    mine.too_many_times = mine.too_many_as_of == changes_ ? mine.too_many_times + 1 : 1;
    mine.too_many_as_of = changes_;
    mine.too_many = mine.set.size();
    give_up_later(device);
  }
  if (!held.has_value()) return held;
  for (size_t i = held->first; i < mine.set.size(); ++i) {
    const AllocationId id = mine.set.at(i);
    budgets_.recharge(device.device().process(), id, core_.memory().placement(id).segment);
    // Somebody else's plan moved it while the list was let go: its content may be there before the
    // entries that lead to it (RES-03).
    if (owner_.entries_under_way(id)) held->must_wait = true;
  }
  return held;
}

/// When nothing runs or pages, nobody's list is in use and nothing is locked or displayed, then
/// nothing that happens by itself makes room any more.
void Residency::give_up_later(DeviceMemory& device) {
  core_.lane().post([&floor = floor_, owner = Ref<DeviceMemory>(&device)]()
                        DXGKIT_REQUIRES(on_lane) {
                          if (!floor.core.failed() && floor.core.has_memory())
                            floor.residency->give_up(*owner);
                        });
}

void Residency::give_up(DeviceMemory& device) {
  if (device.device().lost() || device.residency == nullptr || !core_.power_phase().awake()) return;
  const DeviceResidency& mine = *device.residency;
  if (mine.too_many_as_of != changes_ || in_flight_ != 0) return;
  const bool waits = std::ranges::any_of(
      blocked_, [&](const auto& request) { return &request->queue->device() == &device; });
  if (!waits && mine.set.size() < mine.too_many) return;  // it was refused
  if (core_.scheduler().anything_on_hardware()) return;
  if (!floor_.paging->idle()) {
    looks_later_ = true;
    return;
  }
  if (mine.too_many_times < kAttempts) {
    advance();
    core_.scheduler().retry_busy();
    core_.pump();
    return;
  }
  for (DeviceMemory* other : floor_.device_memories) {
    for (const OpenedAllocation* opened : other->openings) {
      if (opened->locks == 0 || (other == &device && opened->listing.listed)) continue;
      return;  // the unlock has everybody look again
    }
  }
  // A primary may be in the way.
  if (core_.facts().start.video_present_sources != 0 && fits_alone(device)) return;
  device.device().set_error(DeviceState::kErrorOutOfMemory);
}

void Residency::page(DeviceMemory& device, const vidmm::ResidencySet::Held& held,
                     std::function<void()> then) {
  ++device.residency->paging;
  floor_.paging->enqueue(held.operations,
                         [owner = Ref<DeviceMemory>(&device), then = std::move(then)] {
                           --owner->residency->paging;
                           if (then) then();
                         });
  core_.pump();
}

Status Residency::evict(DeviceMemory& device, std::span<const Ref<OpenedAllocation>> openings,
                        const EvictFlags& flags, uint64_t* bytes_to_trim) {
  core_.lane().assert_current();
  DXGKIT_RETURN_IF_FAILED(check(device, openings));
  std::unordered_map<const OpenedAllocation*, uint32_t> wanted;  // looked up only
  for (const Ref<OpenedAllocation>& opened : openings) {
    if (++wanted[opened.get()] > opened->listing.count) return Status::kInvalidParameter;
  }
  for (const Ref<OpenedAllocation>& opened : openings) {
    if (flags.not_written_to && opened->listing.listed && !listed_by_others(*opened))
      core_.memory().assume_clean(opened->allocation->id);
    if (--opened->listing.count == 0) leave(*opened, flags.only_if_necessary);
  }
  ++changes_;
  *bytes_to_trim = budgets_.bytes_to_trim(device.device().process());
  budgets_.tell_over_budget();
  advance();
  core_.scheduler().retry_busy();
  return Status::kSuccess;
}

void Residency::leave(OpenedAllocation& opened, bool lazily) {
  DeviceMemory& device = *opened.device;
  budgets_.uncharge(device.device().process(), opened.allocation->id);
  DeviceResidency& mine = *device.residency;
  Listing& listing = opened.listing;
  listing.leave_lazily = lazily;
  if (const uint64_t number = std::exchange(listing.request, 0); number != 0) {
    // Not there yet, and already only for what is queued. If it is still there from before, that
    // is for older work, and ends with it.
    const auto request =
        std::ranges::find_if(blocked_, [&](const auto& one) { return one->number == number; });
    DXGKIT_CHECK(request != blocked_.end());
    for (Wanted& one : (*request)->wanted) {
      if (one.opened.get() != &opened) continue;
      one.evicted = true;
      one.until = mine.current_epoch();
    }
  } else {
    listing.leaving = true;
    listing.leaves_with = mine.current_epoch();
  }
  mine.epochs.back().leaving.emplace_back(&opened);
  // What is queued from here on does not need it.
  mine.epochs.emplace_back();
  close_epochs(device);
}

void Residency::close_epochs(DeviceMemory& device) {
  DeviceResidency& mine = *device.residency;
  while (mine.epochs.size() > 1 && mine.epochs.front().packets == 0) {
    const std::vector<Ref<OpenedAllocation>> leaving = std::move(mine.epochs.front().leaving);
    const uint64_t epoch = mine.first_epoch++;
    mine.epochs.pop_front();
    for (const Ref<OpenedAllocation>& opened : leaving) {
      // Listed again since, or evicted again by then: a later epoch decides.
      Listing& listing = opened->listing;
      if (!listing.leaving || listing.leaves_with != epoch) continue;
      listing.leaving = false;
      if (listing.listed) leave_now(*opened);
    }
  }
}

void Residency::leave_now(OpenedAllocation& opened) {
  // Of an adapter that failed allocations go before the last packet that may need them.
  if (opened.allocation == nullptr) {
    opened.listing.listed = false;
    return;
  }
  const AllocationId id = opened.allocation->id;
  opened.listing.listed = false;
  if (!opened.device->residency->set.remove(id)) return;
  if (opened.listing.leave_lazily || core_.failed()) return;  // RES-14
  // Busy: another device needs it, or the CPU looks at it. Then it leaves when somebody needs the
  // room.
  if (auto operations = core_.memory().evict(id); operations.has_value())
    floor_.paging->enqueue(*operations, nullptr);
}

// --- scheduling ---

void Residency::packet_queued(DeviceMemory& device, PacketResidency& packet) {
  DeviceResidency& mine = *device.residency;
  packet.epoch = mine.current_epoch();
  packet.request = mine.last_request;
  packet.counts_in_epoch = true;
  ++mine.epochs.back().packets;
  budgets_.note_work(device.device().process());
}

void Residency::packet_split(DeviceMemory& device, const PacketResidency& packet,
                             PacketResidency& rest) {
  DeviceResidency& mine = *device.residency;
  rest.epoch = packet.epoch;
  rest.request = packet.request;
  rest.counts_in_epoch = true;
  ++mine.epochs[packet.epoch - mine.first_epoch].packets;
}

vidsch::EnginePort::Prepare Residency::acquire(DeviceMemory& device, PacketResidency& packet) {
  using Prepare = vidsch::EnginePort::Prepare;
  DeviceResidency& mine = *device.residency;
  for (const auto& request : blocked_) {
    const bool own = &request->queue->device() == &device;
    // RES-02: what was listed before the packet was queued is not there yet.
    if (own && request->number <= packet.request) return Prepare::kBusy;
    // Work that comes all the time must not keep the memory for ever.
    if (!own && request->refusals >= kPatience && !request->hopeless && mine.in_flight == 0)
      return Prepare::kBusy;
  }
  if (mine.set.held() && mine.in_flight == 0 && owner_.tables_are_away(device.device().process()))
    mine.let_go();
  if (!mine.set.held()) {
    const auto held = hold(device);
    if (!held.has_value()) return Prepare::kBusy;
    if (held->must_wait) page(device, *held, nullptr);
  }
  ++mine.in_flight;
  ++in_flight_;
  packet.holds_device = true;
  mine.last_use = ++clock_;
  return mine.paging == 0 ? Prepare::kReady : Prepare::kWaiting;
}

void Residency::give_back(DeviceMemory& device, PacketResidency& packet) {
  if (!packet.holds_device) return;
  ++changes_;
  packet.holds_device = false;
  DeviceResidency& mine = *device.residency;
  DXGKIT_CHECK(mine.in_flight > 0);
  --mine.in_flight;
  --in_flight_;
}

void Residency::packet_retired(DeviceMemory& device, PacketResidency& packet) {
  ++changes_;
  give_back(device, packet);
  if (!packet.counts_in_epoch) return;
  DeviceResidency& mine = *device.residency;
  DXGKIT_CHECK(packet.epoch >= mine.first_epoch);
  DeviceResidency::Epoch& epoch = mine.epochs[packet.epoch - mine.first_epoch];
  DXGKIT_CHECK(epoch.packets > 0);
  --epoch.packets;
  close_epochs(device);
}

bool Residency::must_queue(const Request& request) {
  DeviceMemory& device = request.queue->device();
  DeviceResidency& mine = *device.residency;
  std::vector<vidmm::Use> uses;
  bool overtakes = false;
  for (const auto& other : blocked_) {
    if (&other->queue->device() != &device || other->number >= request.number) continue;
    if (other->queue->priority() >= request.queue->priority()) return true;
    overtakes = true;
    for (const Wanted& one : other->wanted) {
      if (still_wanted(device, one)) uses.push_back({one.opened->allocation->id, false});
    }
  }
  if (!overtakes) return false;
  for (const Wanted& one : request.wanted) {
    if (still_wanted(device, one)) uses.push_back({one.opened->allocation->id, false});
  }
  for (size_t i = 0; i < mine.set.size(); ++i) uses.push_back({mine.set.at(i), false});
  return !core_.memory().fits_alone(uses);
}

void Residency::advance() {
  core_.lane().assert_current();
  if (advancing_ || blocked_.empty() || core_.failed()) return;
  if (!core_.power_phase().awake()) return;  // nothing comes in on the way down
  advancing_ = true;
  bool any = false;
  for (size_t i = 0; i < blocked_.size();) {
    Request& request = *blocked_[i];
    DeviceMemory& device = request.queue->device();
    auto held = must_queue(request) ? std::unexpected(Status::kGraphicsAllocationBusy)
                                    : list(device, request.wanted);
    if (!held.has_value()) {
      ++request.refusals;
      // Nothing is in flight that could free any: holding others back would help nobody.
      request.hopeless = in_flight_ == 0;
      ++i;
      continue;
    }
    any = true;
    const Ref<PagingQueue> queue = request.queue;
    const uint64_t value = request.value;
    blocked_.erase(blocked_.begin() + static_cast<std::ptrdiff_t>(i));
    page(device, *held, [queue, value]() DXGKIT_REQUIRES(on_lane) { queue->finish(value); });
    i = 0;  // who was behind it may go on, and paging may have ended already
  }
  advancing_ = false;
  if (!any) return;
  core_.scheduler().retry_busy();
  core_.pump();
}

// --- giving way ---

bool Residency::demote(Demote whom, const DeviceMemory* but) {
  std::vector<DeviceMemory*> idle;
  const bool others = whom == Demote::kAll && owner_.let_idle_go();
  for (DeviceMemory* device : floor_.device_memories) {
    if (device == but || device->residency == nullptr) continue;
    const DeviceResidency& other = *device->residency;
    if (other.in_flight != 0 || !other.set.holds_any()) continue;
    if (whom == Demote::kOverBudget && budgets_.bytes_to_trim(device->device().process()) == 0)
      continue;
    idle.push_back(device);
  }
  // Letting go counts as a use: in the order of their last work, so that the least recently used
  // device's allocations are the least recently used ones.
  std::ranges::stable_sort(idle, {},
                           [](const DeviceMemory* one) { return one->residency->last_use; });
  for (DeviceMemory* device : idle) device->residency->let_go();
  return others || !idle.empty();
}

std::expected<vidmm::ResidencyPlan, vidmm::ResidencyFailure> Residency::make_resident(
    std::span<const vidmm::Use> uses) {
  auto plan = core_.memory().make_resident(uses);
  for (const Demote whom : {Demote::kOverBudget, Demote::kAll}) {
    const bool busy = !plan.has_value() && plan.error().status == Status::kGraphicsAllocationBusy;
    if (busy && demote(whom, nullptr)) plan = core_.memory().make_resident(uses);
  }
  if (!plan.has_value() && plan.error().status == Status::kGraphicsAllocationBusy) {
    vidmm::SegmentSet wanted = 0;
    for (const vidmm::Use& use : uses) wanted |= segments_of(core_, use.allocation);
    if (owner_.let_tables_go(wanted)) plan = core_.memory().make_resident(uses);
  }
  return plan;
}

bool Residency::let_go(const Allocation& allocation) {
  bool any = false;
  for (const OpenedAllocation* opened : allocation.opened) {
    DeviceResidency* other = opened->device->residency.get();
    if (other == nullptr || !opened->listing.listed) continue;
    if (other->in_flight != 0 || !other->set.holds_any()) continue;
    other->let_go();
    any = true;
  }
  return any;
}

bool Residency::any_opening(const Allocation& allocation, uint32_t OpenedAllocation::*count) const {
  // Not pins: what is shown, or was asked to stay, is pinned without anybody working on it.
  for (const OpenedAllocation* opened : allocation.opened) {
    if (opened->*count != 0) return true;
    // Work at virtual addresses may reach and write all that is listed by the time it runs.
    if (core_.facts().virtual_addresses && has_work_with(*opened)) return true;
  }
  return false;
}

bool Residency::has_work_with(const OpenedAllocation& opened) const {
  const DeviceResidency* const mine = opened.device->residency.get();
  if (mine == nullptr) return false;
  const Listing& listing = opened.listing;
  uint64_t end = 0;  // work of epochs before it
  if (listing.listed) end = (listing.leaving ? listing.leaves_with : mine->current_epoch()) + 1;
  // What waits for room comes for what is queued behind it, evicted since or not.
  for (const auto& request : blocked_) {
    if (&request->queue->device() != opened.device.get()) continue;
    for (const Wanted& one : request->wanted) {
      if (one.opened.get() != &opened || !one.first) continue;
      end = std::max(end, (one.evicted ? one.until : mine->current_epoch()) + 1);
    }
  }
  for (uint64_t i = 0; mine->first_epoch + i < end; ++i) {
    if (mine->epochs[i].packets != 0) return true;
  }
  return false;
}

void Residency::let_all_go() { static_cast<void>(demote(Demote::kAll, nullptr)); }

}  // namespace dxgkit::dxgk
