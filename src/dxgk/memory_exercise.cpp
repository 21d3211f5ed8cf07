#include "dxgk/memory_exercise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/residency.h"
#include "dxgk/power/power.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"

namespace dxgkit::dxgk {
namespace {

/// Contiguous pages, which allocations never get while memory is not tight: drivers merge them into
/// one command. Others where there are none.
Result<std::vector<bus::PageFrame>> pages_in_a_row(bus::Machine& machine, uint64_t count) {
  const Result<bus::PageFrame> first = machine.allocate_contiguous(count);
  if (!first.has_value()) return machine.allocate_pages(count);
  std::vector<bus::PageFrame> pages;
  for (uint64_t i = 0; i < count; ++i) pages.emplace_back(first->value + i);
  return pages;
}

}  // namespace

DisplayFloor& MemoryExercise::floor() const { return adapter_.floor(); }
bool MemoryExercise::running() const { return floor().core.running(); }

Result<AllocationId> MemoryExercise::find(Process& process, Handle allocation) {
  if (!floor().core.has_memory()) return Error(Status::kNotSupported);
  DXGKIT_ASSIGN_OR_RETURN(const Ref<OpenedAllocation> opened,
                          process.handles().find<OpenedAllocation>(allocation));
  return opened->allocation->id;
}

Result<vidmm::Placement> MemoryExercise::page_in(Process& process, Handle allocation) {
  DXGKIT_ASSIGN_OR_RETURN(const std::vector<vidmm::Placement> places,
                          page_in(process, std::span(&allocation, 1)));
  return places.front();
}

Result<std::vector<vidmm::Placement>> MemoryExercise::page_in(Process& process,
                                                              std::span<const Handle> allocations) {
  std::vector<vidmm::Use> uses;
  for (const Handle allocation : allocations) {
    DXGKIT_ASSIGN_OR_RETURN(const AllocationId id, find(process, allocation));
    uses.push_back({id, true});
  }
  Status status = Status::kSuccess;
  std::vector<vidmm::Placement> places;
  bool arrived = false;
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    auto plan = floor().residency->make_resident(uses);
    if (!plan.has_value()) {
      status = plan.error().status;
      return;
    }
    places = std::move(plan->placements);
    floor().paging->enqueue(plan->operations, [&arrived] { arrived = true; });
    floor().core.pump();
  });
  if (!is_success(status)) return Error(status);
  if (!floor().core.block_until([&] { return arrived; })) return Error(Status::kDeviceRemoved);
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { floor().core.memory().release(uses); });
  return places;
}

Status MemoryExercise::page_out(Process& process, Handle allocation) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const AllocationId id, find(process, allocation));
  Status status = Status::kSuccess;
  bool done = false;
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    static_cast<void>(floor().residency->let_go(floor().allocations.at(id)));
    Result<std::vector<vidmm::PagingOp>> operations = floor().core.memory().evict(id);
    if (!operations.has_value()) {
      status = operations.error();
      return;
    }
    floor().paging->enqueue(*operations, [&done] { done = true; });
    floor().core.pump();
  });
  if (!is_success(status)) return status;
  return floor().core.block_until([&] { return done; }) ? Status::kSuccess : Status::kDeviceRemoved;
}

uint64_t MemoryExercise::size_bytes(Process& process, Handle allocation) {
  const Result<AllocationId> id = find(process, allocation);
  if (!id.has_value()) return 0;
  uint64_t bytes = 0;
  floor().core.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { bytes = floor().allocations.at(*id).size_bytes; });
  return bytes;
}

bool MemoryExercise::scribble_backing(Process& process, Handle allocation, std::byte value) {
  const Result<AllocationId> id = find(process, allocation);
  if (!id.has_value()) return false;
  bool written = false;
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    vidmm::MemoryManager& memory = floor().core.memory();
    const vidmm::Placement place = memory.placement(*id);
    if (place.segment == kSystemMemory || memory.pending_operations(*id) != 0 ||
        memory.segments()[place.segment.value - 1].kind != vidmm::SegmentKind::kMemory) {
      return;
    }
    for (const bus::PageFrame page : floor().allocations.at(*id).pages) {
      std::memset(floor().core.machine().system_pointer(
                      bus::PhysicalAddress{page.value * kPageBytes}, kPageBytes),
                  static_cast<int>(value), kPageBytes);
    }
    written = true;
  });
  return written;
}

bool MemoryExercise::write_backing(Process& process, Handle allocation,
                                   std::span<const std::byte> content) {
  const Result<AllocationId> id = find(process, allocation);
  if (!id.has_value()) return false;
  bool written = false;
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const vidmm::MemoryManager& memory = floor().core.memory();
    const std::span<const bus::PageFrame> pages = floor().allocations.at(*id).pages.frames();
    if (memory.placement(*id).segment != kSystemMemory || memory.pending_operations(*id) != 0 ||
        pages.size() * kPageBytes < content.size()) {
      return;
    }
    for (size_t at = 0; at < content.size(); at += kPageBytes) {
      std::memcpy(floor().core.machine().system_pointer(
                      bus::PhysicalAddress{pages[at / kPageBytes].value * kPageBytes}, kPageBytes),
                  &content[at], std::min<size_t>(kPageBytes, content.size() - at));
    }
    written = true;
  });
  return written;
}

bool MemoryExercise::fill_backing(Process& process, Handle allocation, uint32_t pattern) {
  const Result<AllocationId> id = find(process, allocation);
  if (!id.has_value()) return false;
  bool written = false;
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const vidmm::MemoryManager& memory = floor().core.memory();
    const vidmm::Placement place = memory.placement(*id);
    const bool in_memory =
        place.segment != kSystemMemory &&
        memory.segments()[place.segment.value - 1].kind == vidmm::SegmentKind::kMemory;
    if (in_memory || memory.pending_operations(*id) != 0) return;
    for (const bus::PageFrame page : floor().allocations.at(*id).pages) {
      std::byte* const bytes = floor().core.machine().system_pointer(
          bus::PhysicalAddress{page.value * kPageBytes}, kPageBytes);
      for (uint64_t at = 0; at < kPageBytes; at += sizeof(pattern))
        std::memcpy(bytes + at, &pattern, sizeof(pattern));
    }
    written = true;
  });
  return written;
}

Status MemoryExercise::fill(Process& process, Handle allocation, uint32_t pattern) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const AllocationId id, find(process, allocation));
  return fill(id, pattern);
}

Status MemoryExercise::fill(AllocationId id, uint32_t pattern) {
  bool done = false;
  Status status = Status::kInvalidParameter;
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    vidmm::MemoryManager& memory = floor().core.memory();
    const vidmm::Placement place = memory.placement(id);
    if (place.segment == kSystemMemory || memory.pending_operations(id) != 0 ||
        memory.segments()[place.segment.value - 1].kind != vidmm::SegmentKind::kMemory) {
      return;
    }
    const PagingTarget target = floor().paging->target(id);
    if (floor().gpu_va != nullptr) {
      std::vector<std::unique_ptr<PagingWork>> work;
      work.push_back(floor().gpu_va->translate({.kind = vidmm::PagingOp::Kind::kFill,
                                                .allocation = id,
                                                .place = place,
                                                .size_bytes = target.pages.size() * kPageBytes,
                                                .fill_pattern = pattern}));
      floor().paging->enqueue_work(std::move(work), [&done] { done = true; });
    } else {
      port::PagingOperation operation;
      operation.kind = port::PagingOperation::Kind::kFill;
      operation.allocation = target.driver_allocation;
      operation.segment = place.segment;
      operation.segment_address = place.gpu_address;
      operation.size_bytes = target.pages.size() * kPageBytes;
      operation.fill_pattern = pattern;
      floor().paging->enqueue_plain(operation, [&done] { done = true; });
    }
    floor().core.pump();
    status = Status::kSuccess;
  });
  if (!is_success(status)) return status;
  return floor().core.block_until([&] { return done; }) ? Status::kSuccess : Status::kDeviceRemoved;
}

Status MemoryExercise::check_free_place(SegmentId id, uint64_t offset_bytes, uint64_t size_bytes,
                                        vidmm::Placement* place) {
  DisplayFloor& floor = this->floor();
  if (!running()) return Status::kDeviceRemoved;
  if (!floor.core.has_memory()) return Status::kNotSupported;
  Status status = Status::kInvalidParameter;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const vidmm::MemoryManager& memory = floor.core.memory();
    if (id == kSystemMemory || id.value > memory.segments().size()) return;
    const vidmm::SegmentDesc& segment = memory.segments()[id.value - 1];
    if (segment.kind != vidmm::SegmentKind::kMemory || size_bytes == 0) return;
    if (offset_bytes % kPageBytes != 0 || size_bytes % kPageBytes != 0) return;
    if (!range_within(offset_bytes, size_bytes, segment.size_bytes)) return;
    for (const vidmm::ByteRange& bad : segment.invalid_ranges) {
      if (offset_bytes < bad.offset_bytes + bad.size_bytes &&
          bad.offset_bytes < offset_bytes + size_bytes) {
        return;
      }
    }
    for (uint64_t at = offset_bytes; at < offset_bytes + size_bytes; at += kPageBytes) {
      if (memory.at(id, at).has_value()) return;
    }
    *place = {id, offset_bytes, segment.base_address + offset_bytes};
    status = Status::kSuccess;
  });
  return status;
}

Status MemoryExercise::copy_plain(const vidmm::Placement& place,
                                  std::span<const bus::PageFrame> pages, bool in) {
  std::vector<uint64_t> frames;
  for (const bus::PageFrame page : pages) frames.push_back(page.value);
  port::PagingOperation copy;
  copy.kind = port::PagingOperation::Kind::kTransfer;
  copy.size_bytes = frames.size() * kPageBytes;
  const port::TransferSide ours{kSystemMemory, 0, frames};
  const port::TransferSide theirs{place.segment, place.gpu_address, {}};
  copy.source = in ? ours : theirs;
  copy.destination = in ? theirs : ours;
  return transfer_plain(copy);
}

Status MemoryExercise::transfer_plain(const port::PagingOperation& copy) {
  DisplayFloor& floor = this->floor();
  bool done = false;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.failed()) return;
    floor.paging->enqueue_plain(copy, [&] { done = true; });
    floor.core.pump();
  });
  return floor.core.block_until([&] { return done; }) ? Status::kSuccess : Status::kDeviceRemoved;
}

Status MemoryExercise::write_plain(SegmentId segment, uint64_t offset_bytes,
                                   std::span<const std::byte> bytes) {
  vidmm::Placement place;
  DXGKIT_RETURN_IF_FAILED(check_free_place(segment, offset_bytes, bytes.size(), &place));
  bus::Machine& machine = floor().core.machine();
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const std::vector<bus::PageFrame> pages,
                                 pages_in_a_row(machine, bytes.size() / kPageBytes));
  for (size_t i = 0; i < pages.size(); ++i) {
    std::memcpy(
        machine.system_pointer(bus::PhysicalAddress{pages[i].value * kPageBytes}, kPageBytes),
        bytes.data() + i * kPageBytes, kPageBytes);
  }
  const Status status = copy_plain(place, pages, true);
  floor().core.lane().run([&]()
                              DXGKIT_REQUIRES(on_lane) { floor().backing_pages->release(pages); });
  return status;
}

Result<std::vector<std::byte>> MemoryExercise::read_plain(SegmentId segment, uint64_t offset_bytes,
                                                          uint64_t size_bytes) {
  vidmm::Placement place;
  DXGKIT_RETURN_ERROR_IF_FAILED(check_free_place(segment, offset_bytes, size_bytes, &place));
  return copy_out(place, size_bytes);
}

Result<std::vector<std::byte>> MemoryExercise::copy_out(const vidmm::Placement& place,
                                                        uint64_t size_bytes) {
  bus::Machine& machine = floor().core.machine();
  DXGKIT_ASSIGN_OR_RETURN(const std::vector<bus::PageFrame> pages,
                          machine.allocate_pages(size_bytes / kPageBytes));
  const auto page_at = [&](size_t i) {
    return machine.system_pointer(bus::PhysicalAddress{pages[i].value * kPageBytes}, kPageBytes);
  };
  for (size_t i = 0; i < pages.size(); ++i) std::memset(page_at(i), 0xDB, kPageBytes);
  const Status status = copy_plain(place, pages, false);
  std::vector<std::byte> bytes(size_bytes);
  for (size_t i = 0; i < pages.size(); ++i)
    std::memcpy(bytes.data() + i * kPageBytes, page_at(i), kPageBytes);
  floor().core.lane().run([&]()
                              DXGKIT_REQUIRES(on_lane) { floor().backing_pages->release(pages); });
  if (!is_success(status)) return Error(status);
  return bytes;
}

Result<std::vector<std::byte>> MemoryExercise::read_aperture(SegmentId id, uint64_t offset_bytes,
                                                             uint64_t size_bytes) {
  DisplayFloor& floor = this->floor();
  if (!running()) return Error(Status::kDeviceRemoved);
  if (!floor.core.has_memory()) return Error(Status::kNotSupported);
  vidmm::Placement place;
  Status status = Status::kInvalidParameter;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const auto& segments = floor.core.memory().segments();
    if (id == kSystemMemory || id.value > segments.size() || size_bytes == 0) return;
    const vidmm::SegmentDesc& segment = segments[id.value - 1];
    if (segment.kind != vidmm::SegmentKind::kAperture) return;
    if (offset_bytes % kPageBytes != 0 || size_bytes % kPageBytes != 0) return;
    if (!range_within(offset_bytes, size_bytes, segment.size_bytes)) return;
    place = {id, offset_bytes, segment.base_address + offset_bytes};
    status = Status::kSuccess;
  });
  if (!is_success(status)) return Error(status);
  return copy_out(place, size_bytes);
}

void MemoryExercise::fill_dummy_page(std::span<const std::byte> page) {
  DXGKIT_CHECK(page.size() == kPageBytes);
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const bus::PhysicalAddress at{floor().paging->dummy_page()};
    std::memcpy(floor().core.machine().system_pointer(at, kPageBytes), page.data(), kPageBytes);
  });
}

Status MemoryExercise::move_plain(SegmentId segment, uint64_t from_bytes, uint64_t to_bytes,
                                  uint64_t size_bytes) {
  vidmm::Placement from, to;
  DXGKIT_RETURN_IF_FAILED(check_free_place(segment, from_bytes, size_bytes, &from));
  DXGKIT_RETURN_IF_FAILED(check_free_place(segment, to_bytes, size_bytes, &to));
  port::PagingOperation copy;
  copy.kind = port::PagingOperation::Kind::kTransfer;
  copy.size_bytes = size_bytes;
  copy.source = {segment, from.gpu_address, {}};
  copy.destination = {segment, to.gpu_address, {}};
  return transfer_plain(copy);
}

Status MemoryExercise::touch(SegmentId segment, uint64_t offset_bytes, bool write) {
  DisplayFloor& floor = this->floor();
  vidmm::Placement place;
  DXGKIT_RETURN_IF_FAILED(
      check_free_place(segment, align_down(offset_bytes, kPageBytes), kPageBytes, &place));
  port::PagingOperation touch;
  touch.kind = write ? port::PagingOperation::Kind::kWritePhysical
                     : port::PagingOperation::Kind::kReadPhysical;
  touch.segment = segment;
  touch.segment_address = place.gpu_address + offset_bytes % kPageBytes;
  bool done = false;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.failed()) return;
    floor.paging->enqueue_plain(touch, [&] { done = true; });
    floor.core.pump();
  });
  return floor.core.block_until([&] { return done; }) ? Status::kSuccess : Status::kDeviceRemoved;
}

Result<std::vector<std::byte>> MemoryExercise::through_segment(SegmentId id,
                                                               std::span<const std::byte> content,
                                                               uint64_t size_bytes) {
  DisplayFloor& floor = this->floor();
  if (!running()) return Error(Status::kDeviceRemoved);
  if (!floor.core.has_memory()) return Error(Status::kNotSupported);
  if (!content.empty()) size_bytes = content.size();
  if (size_bytes == 0 || size_bytes % kPageBytes != 0) return Error(Status::kInvalidParameter);
  bus::Machine& machine = floor.core.machine();
  DXGKIT_ASSIGN_OR_RETURN(const std::vector<bus::PageFrame> pages,
                          content.empty() ? machine.allocate_pages(size_bytes / kPageBytes)
                                          : pages_in_a_row(machine, size_bytes / kPageBytes));
  const auto page_at = [&](size_t i) {
    return machine.system_pointer(bus::PhysicalAddress{pages[i].value * kPageBytes}, kPageBytes);
  };
  Allocation* allocation = nullptr;
  AllocationId own;
  vidmm::Use use;
  Status status = Status::kSuccess;
  bool done = false;
  const auto give_back = [&]() DXGKIT_REQUIRES(on_lane) {
    floor.allocations.destroy(*allocation);
    floor.backing_pages->release(pages);
  };
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    status = Status::kInvalidParameter;
    vidmm::MemoryManager& memory = floor.core.memory();
    const bool there = !floor.core.failed() && id != kSystemMemory &&
                       id.value <= memory.segments().size() &&
                       memory.segments()[id.value - 1].kind == vidmm::SegmentKind::kMemory;
    if (!there) return floor.backing_pages->release(pages);
    allocation = &floor.allocations.create();
    own = allocation->id;
    use = {own, true};
    allocation->size_bytes = size_bytes;
    allocation->pages = FrameList(pages);
    vidmm::AllocationDesc desc;
    desc.size_bytes = size_bytes;
    desc.alignment_bytes = kPageBytes;
    desc.supported_read = desc.supported_write = vidmm::segment_bit(id);
    status = memory.create(own, desc);
    if (!is_success(status)) return give_back();
    for (size_t i = 0; i < pages.size() && !content.empty(); ++i)
      std::memcpy(page_at(i), content.data() + i * kPageBytes, kPageBytes);
    if (!content.empty()) memory.mark_cpu_written(own);
    const auto plan = floor.residency->make_resident(std::span(&use, 1));
    if (!plan.has_value()) {
      status = plan.error().status;
      DXGKIT_CHECK(memory.destroy(own).has_value());
      return give_back();
    }
    floor.paging->enqueue(plan->operations, [&done] { done = true; });
    floor.core.pump();
  });
  if (!is_success(status)) return Error(status);
  const auto wait = [&] {
    if (floor.core.block_until([&] { return done; })) return true;
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (floor.core.failed()) floor.teardowns->free_internal(*allocation);
    });
    return false;
  };
  if (!wait()) return Error(Status::kDeviceRemoved);
  done = false;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.failed()) return;
    for (size_t i = 0; i < pages.size(); ++i) std::memset(page_at(i), 0xDB, kPageBytes);
    floor.core.memory().release(std::span(&use, 1));
    const auto operations = floor.core.memory().evict(own);
    DXGKIT_CHECK(operations.has_value());  // nobody else knows it
    floor.paging->enqueue(*operations, [&done] { done = true; });
    floor.core.pump();
  });
  if (!wait()) return Error(Status::kDeviceRemoved);
  std::vector<std::byte> back(size_bytes);
  for (size_t i = 0; i < pages.size(); ++i)
    std::memcpy(back.data() + i * kPageBytes, page_at(i), kPageBytes);
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    floor.teardowns->free_internal(*allocation);
    floor.core.pump();
  });
  return back;
}

}  // namespace dxgkit::dxgk
