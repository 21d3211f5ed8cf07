#include "dxgk/va/address_spaces.h"

#include <algorithm>
#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/gpu_va_trace.h"
#include "dxgk/va/paging_space.h"
#include "dxgk/va/plan_effects.h"
#include "dxgk/va/second_space.h"
#include "dxgk/va/table_planner.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

void AddressSpaces::process_begins(uint32_t process) {
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (process == 0) {
      paging_ = floor_.paging_space->space();
    } else {
      spaces_[{.process = process}] = std::make_shared<GpuSpace>(geometry_, process);
    }
    gpu_va_trace::space(*of(process));
  });
}

void AddressSpaces::process_made(uint32_t process, void* driver_process) {
  floor_.core.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { of(process)->driver_process = driver_process; });
}

void AddressSpaces::process_ends(uint32_t process) {
  AdapterCore& core = floor_.core;
  bool done = false;
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const std::shared_ptr<GpuSpace> space = of(process);
    if (core.failed()) return;  // GpuVa::stop() frees the tables
    TablePlanner::Work work;
    for (const std::shared_ptr<GpuSpace>& one : {space, kernel_space_of(process)}) {
      if (!one) continue;
      gpuva::Plan plan;
      one->tables.destroy(&plan);
      one->ended = true;
      ++one->version;
      floor_.planner->append(one, std::move(plan), &work);
    }
    floor_.paging->enqueue_work(std::move(work), [&done] { done = true; });
    core.pump();
  });
  static_cast<void>(core.block_until([&] { return done; }));
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    floor_.plan_effects->collect();
    spaces_.erase({.process = process});
    spaces_.erase({.second = true, .process = process});
    seconds_.erase(process);
    trace::emit(trace::EventKind::kGpuVaSpaceEnded, process);
    core.progress();  // who waits for room may have it now
  });
}

Result<uint64_t> AddressSpaces::reserve_for_driver(const port::GpuVaReservation& range) {
  Result<uint64_t> address = Error(Status::kInvalidParameter);
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const std::shared_ptr<GpuSpace> space = of(range.process);
    if (!space) return;
    address = space->addresses.reserve_for_driver({.base = range.base,
                                                   .size = range.size,
                                                   .alignment = range.alignment,
                                                   .allow_user_mapping = range.user_mappable},
                                                  geometry_.leaf_bytes());
    if (address.has_value())
      trace::emit(trace::EventKind::kGpuVaReserved, space->process, *address, range.size, 2);
  });
  return address;
}

std::shared_ptr<GpuSpace> AddressSpaces::of(uint32_t process) const {
  return process == 0 ? paging_ : at({.process = process});
}

std::shared_ptr<GpuSpace> AddressSpaces::at(SpaceKey key) const {
  const auto found = spaces_.find(key);
  return found == spaces_.end() ? nullptr : found->second;
}

std::shared_ptr<SecondSpace> AddressSpaces::second_of(uint32_t process) const {
  const auto found = seconds_.find(process);
  return found == seconds_.end() ? nullptr : found->second;
}

void AddressSpaces::add_second(uint32_t process, std::shared_ptr<SecondSpace> second) {
  spaces_[{.second = true, .process = process}] = second->space();
  seconds_[process] = std::move(second);
}

void AddressSpaces::clear() {
  spaces_.clear();
  seconds_.clear();
}

bool AddressSpaces::maps(uint32_t process, AllocationId allocation) const {
  const std::shared_ptr<GpuSpace> space = of(process);
  return space && space->addresses.mapping_count(allocation) != 0;
}

std::vector<UniqueRange> AddressSpaces::unique_ranges(AllocationId allocation) const {
  std::vector<UniqueRange> found;
  if (!unique_seen_) return found;
  std::vector<gpuva::Mapping> mappings;
  for (const auto& [key, space] : spaces_) space->addresses.mappings_of(allocation, &mappings);
  for (const gpuva::Mapping& mapping : mappings) {
    if ((mapping.driver_protection & gpuva::kUniqueDriverProtection) == 0) continue;
    gpuva::for_each_stretch(mapping, [&](gpuva::PageSpan span, uint64_t page) {
      found.push_back({{page, span.pages}, mapping.driver_protection});
    });
  }
  std::ranges::sort(found, {}, [](const UniqueRange& range) { return range.pages.first_page; });
  std::vector<UniqueRange> joined;
  for (const UniqueRange& range : found) {
    const bool continues = !joined.empty() &&
                           joined.back().driver_protection == range.driver_protection &&
                           joined.back().pages.end_page() >= range.pages.first_page;
    if (!continues) {
      joined.push_back(range);
      continue;
    }
    gpuva::PageSpan& last = joined.back().pages;
    last.pages = std::max(last.end_page(), range.pages.end_page()) - last.first_page;
  }
  return joined;
}

}  // namespace dxgkit::dxgk
