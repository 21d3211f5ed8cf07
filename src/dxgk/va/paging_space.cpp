#include "dxgk/va/paging_space.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "base/check.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/page_table_memory.h"
#include "dxgk/va/stand_in_pages.h"
#include "dxgk/va/table_planner.h"

namespace dxgkit::dxgk {

namespace {

gpuva::PteSource place_side(const vidmm::Placement& place) {
  gpuva::PteSource source;
  source.kind = gpuva::PteSource::Kind::kRun;
  source.segment = place.segment;
  source.first_page = place.offset_bytes / kPageBytes;
  return source;
}

}  // namespace

/// What the space shows, as the planner asks for it.
class PagingSpace::Pieces final : public gpuva::PieceSource {
 public:
  explicit Pieces(const std::map<uint64_t, gpuva::Piece>& pieces) : pieces_(pieces) {}
  void pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const override {
    auto at = pieces_.upper_bound(window.first_page);
    if (at != pieces_.begin()) --at;
    for (; at != pieces_.end() && at->first < window.end_page(); ++at) {
      gpuva::Piece piece = at->second;
      const uint64_t first = std::max(piece.span.first_page, window.first_page);
      const uint64_t end = std::min(piece.span.end_page(), window.end_page());
      if (first >= end) continue;
      piece.source = piece.source.after(first - piece.span.first_page);
      piece.span = {first, end - first};
      out->push_back(piece);
    }
  }

 private:
  const std::map<uint64_t, gpuva::Piece>& pieces_;
};

/// One transfer or fill, window by window.
class PagingSpace::MoveWork final : public PagingWork {
 public:
  MoveWork(PagingSpace& owner, const vidmm::PagingOp& op, const PagingTarget& target)
      : owner_(owner),
        op_(op),
        target_(target),
        unique_(owner.floor_.spaces->unique_ranges(op.allocation)),
        end_(op.content_offset_bytes + op.size_bytes),
        done_(op.content_offset_bytes) {}

  Next next(Part* part) override DXGKIT_REQUIRES(on_lane) {
    if (done_ >= end_) return Next::kOver;
    const auto slot = std::ranges::find(owner_.slots_, false, &Slot::busy);
    if (slot == owner_.slots_.end()) return Next::kLater;
    // PAGE-36: as far as one protection goes.
    uint64_t end = end_;
    uint64_t driver_protection = 0;
    for (const UniqueRange& range : unique_) {
      const uint64_t first = range.pages.first_page * kPageBytes;
      const uint64_t after = range.pages.end_page() * kPageBytes;
      if (after <= done_) continue;
      if (first > done_) {
        end = std::min(end, first);
      } else {
        end = std::min(end, after);
        driver_protection = range.driver_protection;
      }
      break;
    }
    const uint64_t bytes = std::min(end - done_, kWindowPages * kPageBytes);
    const uint64_t pages = align_up(bytes, kPageBytes) / kPageBytes;
    part->operations.clear();
    writers_.clear();
    const bool fill = op_.kind == vidmm::PagingOp::Kind::kFill;
    std::array<gpuva::Piece, 2> sides;
    sides[0].source = place_side(op_.place).after(done_ / kPageBytes);
    sides[0].driver_protection = driver_protection;
    sides[1].source = other_side().after(done_ / kPageBytes);
    for (size_t i = 0; i < (fill ? 1U : 2U); ++i) {
      sides[i].span.pages = pages;
      gpuva::Plan plan;
      owner_.show_in(slot->windows[i], std::span(&sides[i], 1), &plan);
      writers_.push_back(
          std::make_unique<StepWriter>(owner_.floor_, *owner_.space_, std::move(plan),
                                       update_mode(owner_.space_->tables.geometry())));
      DXGKIT_CHECK(writers_.back()->next(&part->operations) || writers_.back()->over());
      DXGKIT_CHECK(writers_.back()->over());  // a window's entries are few
    }
    const std::array<uint64_t, 2> addresses = {slot->windows[0].first_page * kPageBytes,
                                               slot->windows[1].first_page * kPageBytes};
    port::PagingOperation operation;
    operation.allocation = target_.driver_allocation;
    operation.size_bytes = bytes;
    operation.offset_bytes = done_;
    if (fill) {
      operation.kind = port::PagingOperation::Kind::kFillVirtual;
      operation.gpu_va = addresses[0];
      operation.fill_pattern = op_.fill_pattern;
    } else {
      using Direction = port::VirtualTransfer::Direction;
      const bool in = op_.kind == vidmm::PagingOp::Kind::kTransferIn ||
                      op_.kind == vidmm::PagingOp::Kind::kWriteUp;
      operation.kind = port::PagingOperation::Kind::kTransferVirtual;
      operation.transfer.source = addresses[in ? 1 : 0];
      operation.transfer.destination = addresses[in ? 0 : 1];
      operation.transfer.direction = in ? Direction::kSystemToLocal : Direction::kLocalToSystem;
    }
    part->operations.push_back(operation);
    slot->busy = true;
    part->hold = std::shared_ptr<void>(
        nullptr, [&owner = owner_, index = slot - owner_.slots_.begin()](void*) DXGKIT_REQUIRES(
                     on_lane) { owner.give_back(owner.slots_[static_cast<size_t>(index)]); });
    done_ += bytes;
    return Next::kPart;
  }

 private:
  gpuva::PteSource other_side() const {
    if (op_.backing.segment != kSystemMemory) return place_side(op_.backing);  // ALLOC-09
    gpuva::PteSource source;
    source.kind = gpuva::PteSource::Kind::kFrames;
    source.frames = target_.pages.data();
    return source;
  }

  PagingSpace& owner_;
  const vidmm::PagingOp op_;
  const PagingTarget target_;
  const std::vector<UniqueRange> unique_;
  const uint64_t end_;                                // in the allocation
  uint64_t done_;                                     // so far
  std::vector<std::unique_ptr<StepWriter>> writers_;  // the operations point into them
};

/// A context allocation, whole, in front of the driver (PAGE-43).
class PagingSpace::UpdateWork final : public PagingWork {
 public:
  UpdateWork(PagingSpace& owner, const vidmm::Placement& place, uint64_t bytes,
             std::vector<std::byte> data)
      : owner_(owner), place_(place), bytes_(bytes), data_(std::move(data)) {}
  ~UpdateWork() override {
    if (slot_.has_value()) owner_.large_slots_[*slot_].busy = false;
  }

  Next next(Part* part) override DXGKIT_REQUIRES(on_lane) {
    if (told_) return Next::kOver;
    part->operations.clear();
    const uint64_t pages = align_up(bytes_, kPageBytes) / kPageBytes;
    if (!slot_.has_value()) {
      const auto free = std::ranges::find_if(owner_.large_slots_, [&](const LargeSlot& slot) {
        return !slot.busy && slot.pages >= pages;
      });
      if (free == owner_.large_slots_.end()) return Next::kLater;
      free->busy = true;
      slot_ = static_cast<size_t>(free - owner_.large_slots_.begin());
      gpuva::Piece whole;
      whole.span.pages = pages;
      whole.source = place_side(place_);
      gpuva::Plan plan;
      owner_.show_in(free->window, std::span(&whole, 1), &plan);
      writer_ = std::make_unique<StepWriter>(owner_.floor_, *owner_.space_, std::move(plan),
                                             update_mode(owner_.space_->tables.geometry()));
    }
    if (writer_->next(&part->operations)) return Next::kPart;
    told_ = true;
    port::PagingOperation operation;
    operation.kind = port::PagingOperation::Kind::kUpdateContextAllocation;
    operation.gpu_va = owner_.large_slots_[*slot_].window.first_page * kPageBytes;
    operation.size_bytes = bytes_;
    operation.private_data = data_;
    part->operations.push_back(operation);
    part->hold = std::shared_ptr<void>(nullptr, [&owner = owner_, slot = *slot_](void*) {
      owner.large_slots_[slot].busy = false;
    });
    slot_.reset();
    return Next::kPart;
  }

 private:
  PagingSpace& owner_;
  const vidmm::Placement place_;
  const uint64_t bytes_;
  const std::vector<std::byte> data_;
  std::optional<size_t> slot_;  // ours to give back
  std::unique_ptr<StepWriter> writer_;
  bool told_ = false;
};

PagingSpace::PagingSpace(VaFloor& floor, const gpuva::Geometry& geometry)
    : floor_(floor), space_(std::make_shared<GpuSpace>(geometry, 0)) {
  space_->of_paging = true;
}

PagingSpace::~PagingSpace() = default;

uint64_t PagingSpace::claim(uint64_t pages) {
  gpuva::MapRequest request;
  request.size_pages = pages;
  request.protection.no_access = true;
  request.system = true;
  request.alignment_bytes = std::min(pages, kWindowPages) * kPageBytes;
  if ((request.alignment_bytes & (request.alignment_bytes - 1)) != 0)
    request.alignment_bytes = kPageBytes;
  const Result<gpuva::MapOperation> range = space_->addresses.claim(request, ++space_->sequence);
  return range.has_value() ? range->mapping.span.first_page : 0;
}

Status PagingSpace::point(uint64_t first_page, uint64_t pages, const gpuva::PteSource& source,
                          gpuva::Plan* plan, uint64_t driver_protection) {
  // Cut what lies there; windows are always written from their start.
  const uint64_t end = first_page + pages;
  auto at = pieces_.upper_bound(first_page);
  if (at != pieces_.begin()) --at;
  while (at != pieces_.end() && at->first < end) {
    gpuva::Piece old = at->second;
    const uint64_t old_first = at->first;
    const uint64_t old_end = old.span.end_page();
    if (old_end <= first_page) {
      ++at;
      continue;
    }
    DXGKIT_CHECK(old_first >= first_page);
    at = pieces_.erase(at);
    if (old_end > end) {
      gpuva::Piece right = old;
      right.source = old.source.after(end - old_first);
      right.span = {end, old_end - end};
      at = pieces_.emplace(end, right).first;
    }
  }
  gpuva::Piece piece;
  piece.span = {first_page, pages};
  piece.source = source;
  piece.driver_protection = driver_protection;
  pieces_[first_page] = piece;
  const gpuva::PageSpan changed = piece.span;
  return floor_.planner->plan(space_, std::span(&changed, 1), Pieces(pieces_), plan);
}

void PagingSpace::show_in(Window& window, std::span<const gpuva::Piece> parts, gpuva::Plan* plan) {
  uint64_t pages = 0;
  for (const gpuva::Piece& part : parts) {
    DXGKIT_CHECK(is_success(point(window.first_page + pages, part.span.pages, part.source, plan,
                                  part.driver_protection)));
    pages += part.span.pages;
  }
  // Pages that the last use showed and this one does not are taken away.
  const uint64_t used = std::exchange(window.used_pages, pages);
  if (used > pages) {
    DXGKIT_CHECK(is_success(
        point(window.first_page + pages, used - pages, floor_.stand_ins->nothing(), plan)));
  }
}

/// The lists of frames that its windows showed may go with their allocations from now on. What the
/// entries say stays until they are used again, and another page size writes all of a table again.
void PagingSpace::give_back(Slot& slot) {
  slot.busy = false;
  for (const Window& window : slot.windows) {
    const auto end = pieces_.lower_bound(window.first_page + kWindowPages);
    for (auto at = pieces_.lower_bound(window.first_page); at != end; ++at) {
      if (at->second.source.kind == gpuva::PteSource::Kind::kFrames)
        at->second.source = floor_.stand_ins->nothing();
    }
  }
}

Status PagingSpace::write_now(gpuva::Plan plan) {
  StepWriter writer(floor_, *space_, std::move(plan), port::PageTableUpdateMode::kCpuVirtual);
  std::vector<port::PagingOperation> operations;
  port::AdapterPort& port = floor_.core.port();
  for (;;) {
    operations.clear();
    if (!writer.next(&operations)) {
      const gpuva::Step* step = writer.at_root_change();
      if (step == nullptr) return Status::kSuccess;
      const port::RootPageTable root{.address = floor_.tables->at(step->table).address,
                                     .entry_count = static_cast<uint32_t>(step->count)};
      DXGKIT_RETURN_IF_FAILED(port.gpu_va().set_root_page_table(system_context_, root));
      space_->shown_root = step->table;
      writer.skip();
      continue;
    }
    for (const port::PagingOperation& operation : operations) {
      if (operation.kind == port::PagingOperation::Kind::kFlushTlb) {
        // Nothing runs there before it is built; afterwards the flush goes with the paging.
        if (built_) floor_.paging->enqueue_plain(operation, nullptr);
        continue;
      }
      port::BuildPagingArgs args;
      args.system_context = system_context_;
      args.operation = &operation;
      const Status status = port.paging().build_paging(args).status;
      if (!is_success(status)) return status;
    }
  }
}

Status PagingSpace::build(void* system_context, PagingExecutor& executor) {
  system_context_ = system_context;
  gpuva::Plan plan;
  const auto map_dummy = [&](uint64_t first_page, uint64_t pages) DXGKIT_REQUIRES(on_lane) {
    return point(first_page, pages, floor_.stand_ins->nothing(), &plan);
  };
  for (size_t i = 0; i < executor.buffer_count(); ++i) {
    const DmaBuffer& buffer = executor.buffer(i);
    const uint64_t first = claim(buffer.page_count);
    if (first == 0) return Status::kNoMemory;
    gpuva::PteSource source;
    source.kind = gpuva::PteSource::Kind::kRun;
    source.first_page = buffer.pages.value;
    DXGKIT_RETURN_IF_FAILED(point(first, buffer.page_count, source, &plan));
    executor.set_buffer_address(i, first * kPageBytes);
  }
  if (space_->tables.geometry().update_mode == gpuva::UpdateMode::kGpuVirtual) {
    table_area_ = claim(kTableAreaPages);
    if (table_area_ == 0) return Status::kNoMemory;
    DXGKIT_RETURN_IF_FAILED(map_dummy(table_area_, kTableAreaPages));
    for (uint64_t page = kTableAreaPages; page-- > 0;)
      free_table_pages_.push_back(table_area_ + page);
  }
  slots_.assign(kSlots, Slot{});
  for (Slot& slot : slots_) {
    for (Window& window : slot.windows) {
      window.first_page = claim(kWindowPages);
      if (window.first_page == 0) return Status::kNoMemory;
      DXGKIT_RETURN_IF_FAILED(map_dummy(window.first_page, kWindowPages));
    }
  }
  return finish(std::move(plan));
}

Status PagingSpace::finish(gpuva::Plan plan) {
  DXGKIT_RETURN_IF_FAILED(write_now(std::move(plan)));
  DXGKIT_RETURN_IF_FAILED(show_new_tables());
  built_ = true;
  return Status::kSuccess;
}

/// Of the space itself, as others are shown when they are granted.
Status PagingSpace::show_new_tables() {
  std::vector<gpuva::TableId> own;
  floor_.tables->for_each([&](gpuva::TableId id, const TableMemory& table) {
    if (table.paging_va == 0) own.push_back(id);
  });
  for (const gpuva::TableId id : own) DXGKIT_RETURN_IF_FAILED(show(id));
  return Status::kSuccess;
}

Result<std::unique_ptr<PagingWork>> PagingSpace::update_context(const vidmm::Placement& place,
                                                                uint64_t bytes,
                                                                std::vector<std::byte> data) {
  const uint64_t pages =
      std::max(std::bit_ceil(align_up(bytes, kPageBytes) / kPageBytes), kWindowPages);
  if (std::ranges::none_of(large_slots_,
                           [&](const LargeSlot& slot) { return slot.pages >= pages; })) {
    const uint64_t first = claim(pages);
    if (first == 0) return Error(Status::kNoMemory);
    gpuva::Plan plan;
    // The CPU writes the tables, as when the space was built: nobody uses the addresses yet.
    if (const Status status = point(first, pages, floor_.stand_ins->nothing(), &plan);
        !is_success(status)) {
      pieces_.erase(first);
      DXGKIT_CHECK(is_success(space_->addresses.free_system(first * kPageBytes, pages * kPageBytes,
                                                            ++space_->sequence, nullptr)));
      return Error(status);
    }
    DXGKIT_RETURN_ERROR_IF_FAILED(write_now(std::move(plan)));
    DXGKIT_RETURN_ERROR_IF_FAILED(show_new_tables());
    large_slots_.push_back({.window = {.first_page = first}, .pages = pages});
  }
  return std::unique_ptr<PagingWork>(
      std::make_unique<UpdateWork>(*this, place, bytes, std::move(data)));
}

void PagingSpace::forget_tables() {
  gpuva::Plan unused;
  space_->tables.destroy(&unused);
  ++space_->version;
  built_ = false;
}

Status PagingSpace::rebuild() {
  for (Slot& slot : slots_) {
    for (Window& window : slot.windows) window.used_pages = kWindowPages;
  }
  for (LargeSlot& slot : large_slots_) slot.window.used_pages = slot.pages;
  // What windows showed was of moves that are over: the lists of frames may be gone with their
  // allocations.
  for (auto& [first, piece] : pieces_) {
    if (piece.source.kind == gpuva::PteSource::Kind::kFrames)
      piece.source = floor_.stand_ins->nothing();
  }
  free_table_pages_.clear();
  for (uint64_t page = kTableAreaPages; page-- > 0 && table_area_ != 0;)
    free_table_pages_.push_back(table_area_ + page);
  gpuva::PageSpans all;
  for (const auto& [first, piece] : pieces_) all.push_back(piece.span);
  gpuva::Plan plan;
  DXGKIT_RETURN_IF_FAILED(floor_.planner->plan(space_, all, Pieces(pieces_), &plan));
  return finish(std::move(plan));
}

Status PagingSpace::show(gpuva::TableId id) {
  if (table_area_ == 0) return Status::kSuccess;
  TableMemory& table = floor_.tables->at(id);
  const uint64_t pages = table.bytes / kPageBytes;
  // Tables of one page come and go; larger ones are few, and keep their place.
  uint64_t first = 0;
  if (pages == 1) {
    if (free_table_pages_.empty()) return Status::kNoMemory;
    first = free_table_pages_.back();
    free_table_pages_.pop_back();
  } else {
    first = claim(pages);
    if (first == 0) return Status::kNoMemory;
  }
  gpuva::PteSource source;
  source.kind = gpuva::PteSource::Kind::kRun;
  source.segment = table.address.segment;
  source.first_page = table.address.offset / kPageBytes;
  table.paging_va = first * kPageBytes;
  gpuva::Plan plan;
  DXGKIT_RETURN_IF_FAILED(point(first, pages, source, &plan));
  return write_now(std::move(plan));
}

void PagingSpace::hide(const TableMemory& table) {
  if (table.paging_va == 0) return;
  if (table.bytes == kPageBytes) free_table_pages_.push_back(table.paging_va / kPageBytes);
}

std::unique_ptr<PagingWork> PagingSpace::transfer(const vidmm::PagingOp& op,
                                                  const PagingTarget& target) {
  return std::make_unique<MoveWork>(*this, op, target);
}

}  // namespace dxgkit::dxgk
