#include "dxgk/va/second_space.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "dxgk/va/page_table_memory.h"
#include "dxgk/va/stand_in_pages.h"
#include "dxgk/va/table_planner.h"

namespace dxgkit::dxgk {
namespace {

/// Tables lie at multiples of this in the second space (PAGE-40), in pages.
constexpr uint64_t kTableGrain = 16;

}  // namespace

SecondSpace::SecondSpace(const Parts& parts, const GpuSpace& of)
    : parts_(parts),
      geometry_(of.tables.geometry()),
      space_(std::make_shared<GpuSpace>(of.tables.geometry(), of.process)) {
  space_->kernel_only = true;
  space_->driver_process = of.driver_process;
}

SecondSpace::~SecondSpace() = default;

Status SecondSpace::build(Work* work) {
  gpuva::PageSpans all;
  const auto claim = [&](uint64_t base, uint64_t pages, uint64_t grain) -> uint64_t {
    gpuva::MapRequest request;
    request.base = base;
    request.size_pages = pages;
    request.protection.no_access = true;
    request.system = true;
    request.alignment_bytes = grain * kPageBytes;
    const Result<gpuva::MapOperation> range = space_->addresses.claim(request, ++space_->sequence);
    if (!range.has_value() || range->mapping.span.first_page % grain != 0) return 0;
    all.push_back(range->mapping.span);
    return range->mapping.span.first_page;
  };
  const PagingExecutor& executor = parts_.paging;
  for (size_t i = 0; i < executor.buffer_count(); ++i) {
    const DmaBuffer& buffer = executor.buffer(i);
    const uint64_t first = claim(buffer.gpu_va, buffer.page_count, 1);
    if (first == 0) return Status::kNoMemory;
    gpuva::Piece& piece = space_->fixed[first];
    piece.span = all.back();
    piece.source.kind = gpuva::PteSource::Kind::kRun;
    piece.source.first_page = buffer.pages.value;
  }
  table_pages_ = align_up(uint64_t{geometry_.levels[0].table_bytes}, kPageBytes) / kPageBytes;
  slot_pages_ = align_up(table_pages_, kTableGrain);
  first_slot_ = claim(0, kSlots * slot_pages_, kTableGrain);
  if (first_slot_ == 0) return Status::kNoMemory;
  // Pages not in use show something nobody minds: so their tables stay.
  gpuva::Piece nothing;
  nothing.source = parts_.stand_ins.nothing();
  for (size_t slot = 0; slot < kSlots; ++slot) {
    nothing.span = {slot_page(slot), table_pages_};
    space_->fixed[nothing.span.first_page] = nothing;
    nothing.span = {slot_page(slot) + table_pages_, slot_pages_ - table_pages_};
    if (nothing.span.pages != 0) space_->fixed[nothing.span.first_page] = nothing;
  }
  slots_.assign(kSlots, gpuva::kNoTable);
  return parts_.planner.plan_kernel_space(space_, all, work);
}

SecondSpace::Way SecondSpace::way_of(AllocationId pool, gpuva::Protection protection,
                                     uint64_t driver_protection) const {
  // Entries without such bits are alike (VA-22).
  return {.pool = pool,
          .write = protection.write || !geometry_.read_only,
          .execute = protection.execute || !geometry_.no_execute,
          .driver_protection = driver_protection};
}

void SecondSpace::show_pool(AllocationId pool, uint64_t pages, gpuva::Protection protection,
                            uint64_t driver_protection, Work* work) {
  const Way way = way_of(pool, protection, driver_protection);
  if (pools_.contains(way)) return;
  gpuva::MapRequest request;
  request.allocation = pool;
  request.size_pages = request.allocation_pages = pages;
  request.protection.write = way.write;
  request.protection.execute = way.execute;
  request.driver_protection = driver_protection;
  request.system = true;
  const Result<gpuva::MapOperation> claimed = space_->addresses.claim(request, ++space_->sequence);
  if (!claimed.has_value()) return;
  const gpuva::PageSpan span = claimed->mapping.span;
  gpuva::PageSpans changed;
  space_->addresses.apply(*claimed, &changed);
  if (!is_success(parts_.planner.plan_kernel_space(space_, changed, work))) {
    DXGKIT_CHECK(is_success(space_->addresses.free_system(span.address(), span.size_bytes(),
                                                          ++space_->sequence, nullptr)));
    return;
  }
  pools_[way] = span;
}

bool SecondSpace::shows(AllocationId pool) const {
  const auto first = pools_.lower_bound(Way{.pool = pool});
  return first != pools_.end() && first->first.pool == pool;
}

void SecondSpace::forget(AllocationId pool, Work* work) {
  gpuva::PageSpans changed;
  for (auto at = pools_.lower_bound(Way{.pool = pool});
       at != pools_.end() && at->first.pool == pool; at = pools_.erase(at)) {
    DXGKIT_CHECK(is_success(space_->addresses.free_system(
        at->second.address(), at->second.size_bytes(), ++space_->sequence, &changed)));
  }
  // Nobody else sees it; entries that stay for want of tables are owed.
  if (!changed.empty() && !is_success(parts_.planner.plan_kernel_space(space_, changed, work)))
    parts_.planner.hide(space_, changed, work);
}

SecondSpace::Ranges SecondSpace::ranges_of(const gpuva::Step& step) const {
  Ranges ranges;
  // Only steps that write leaf entries, or large pages, have a source.
  if (step.repeat || step.large_page || step.of_64k_pages ||
      step.source.kind != gpuva::PteSource::Kind::kRun || step.allocation == gpuva::kNoAllocation ||
      !space_->owed.empty()) {
    return ranges;
  }
  const gpuva::Protection protection{.write = !step.source.read_only,
                                     .execute = !step.source.no_execute};
  const auto pool = pools_.find(way_of(step.allocation, protection, step.driver_protection));
  if (pool == pools_.end()) return ranges;
  for (uint64_t done = 0; done < step.count;) {
    const std::vector<gpuva::PageTables::WalkStep> walk =
        space_->tables.walk(pool->second.first_page + step.offset_pages + done);
    if (walk.empty() || walk.back().level != 0 || !walk.back().valid || walk.back().of_64k_pages)
      return {};
    const uint64_t index = walk.back().index;
    const uint64_t count = std::min(step.count - done, geometry_.leaf_pages() - index);
    ranges.push_back({.from = walk.back().table,
                      .to = step.table,
                      .from_index = index,
                      .to_index = step.start_index + done,
                      .count = count});
    done += count;
  }
  return ranges;
}

uint64_t SecondSpace::show(gpuva::TableId table, gpuva::Plan* plan) {
  const auto shown = std::ranges::find(slots_, table);
  if (shown != slots_.end()) return slot_page(static_cast<size_t>(shown - slots_.begin()));
  const size_t slot = std::exchange(next_slot_, (next_slot_ + 1) % kSlots);
  slots_[slot] = table;
  const TableMemory& memory = parts_.tables.at(table);
  gpuva::Piece& piece = space_->fixed.at(slot_page(slot));
  piece.source.kind = gpuva::PteSource::Kind::kRun;
  piece.source.segment = memory.address.segment;
  piece.source.first_page = memory.address.offset / kPageBytes;
  // Its own tables are there, and stay as long as the slots.
  DXGKIT_CHECK(is_success(parts_.planner.point_kernel_space(space_, piece.span, plan)));
  return piece.span.first_page;
}

std::vector<port::PageTableCopy> SecondSpace::show_tables(
    std::span<const gpuva::PageTables::CopyRange> ranges, gpuva::Plan* plan) {
  // No slot of this copy is taken for another table of it.
  DXGKIT_CHECK(2 * ranges.size() <= kSlots / 2);
  // Those that are shown already move out of the way of those that are not.
  std::vector<gpuva::TableId> wanted;
  for (const gpuva::PageTables::CopyRange& range : ranges) {
    for (const gpuva::TableId table : {range.from, range.to}) {
      if (std::ranges::find(wanted, table) == wanted.end()) wanted.push_back(table);
    }
  }
  const auto in_the_way = [&] {
    return std::ranges::find(wanted, slots_[next_slot_]) != wanted.end();
  };
  for (const gpuva::TableId table : wanted) {
    if (std::ranges::find(slots_, table) != slots_.end()) continue;
    while (in_the_way()) next_slot_ = (next_slot_ + 1) % kSlots;
    show(table, plan);
  }
  std::vector<port::PageTableCopy> copies;
  for (const gpuva::PageTables::CopyRange& range : ranges) {
    copies.push_back({.source_table = show(range.from, plan) * kPageBytes,
                      .destination_table = show(range.to, plan) * kPageBytes,
                      .source_index = static_cast<uint32_t>(range.from_index),
                      .destination_index = static_cast<uint32_t>(range.to_index),
                      .count = static_cast<uint32_t>(range.count)});
  }
  return copies;
}

void SecondSpace::reset_slots() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (std::exchange(slots_[slot], gpuva::kNoTable) == gpuva::kNoTable) continue;
    space_->fixed.at(slot_page(slot)).source = parts_.stand_ins.nothing();
  }
}

}  // namespace dxgkit::dxgk
