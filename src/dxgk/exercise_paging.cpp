// By hand: paging that is about no allocation, and resets.
#include <fmt/format.h>

#include <cstring>

#include "base/arithmetic.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/exercise.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/residency.h"
#include "dxgk/power/power.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"

namespace dxgkit::dxgk {

Status Exercise::check_free_place(SegmentId id, uint64_t offset_bytes, uint64_t size_bytes,
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

Status Exercise::copy_plain(const vidmm::Placement& place, std::span<const bus::PageFrame> pages,
                            bool in) {
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

Status Exercise::transfer_plain(const port::PagingOperation& copy) {
  DisplayFloor& floor = this->floor();
  bool done = false;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.failed()) return;
    floor.paging->enqueue_plain(copy, [&] { done = true; });
    floor.core.pump();
  });
  return floor.core.block_until([&] { return done; }) ? Status::kSuccess : Status::kDeviceRemoved;
}

Status Exercise::write_plain(SegmentId segment, uint64_t offset_bytes,
                             std::span<const std::byte> bytes) {
  vidmm::Placement place;
  DXGKIT_RETURN_IF_FAILED(check_free_place(segment, offset_bytes, bytes.size(), &place));
  bus::Machine& machine = floor().core.machine();
  std::vector<bus::PageFrame> pages;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(pages, machine.allocate_pages(bytes.size() / kPageBytes));
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

Result<std::vector<std::byte>> Exercise::read_plain(SegmentId segment, uint64_t offset_bytes,
                                                    uint64_t size_bytes) {
  vidmm::Placement place;
  DXGKIT_RETURN_ERROR_IF_FAILED(check_free_place(segment, offset_bytes, size_bytes, &place));
  bus::Machine& machine = floor().core.machine();
  DXGKIT_ASSIGN_OR_RETURN(const std::vector<bus::PageFrame> pages,
                          machine.allocate_pages(size_bytes / kPageBytes));
  const Status status = copy_plain(place, pages, false);
  std::vector<std::byte> bytes(size_bytes);
  for (size_t i = 0; i < pages.size(); ++i) {
    std::memcpy(
        bytes.data() + i * kPageBytes,
        machine.system_pointer(bus::PhysicalAddress{pages[i].value * kPageBytes}, kPageBytes),
        kPageBytes);
  }
  floor().core.lane().run([&]()
                              DXGKIT_REQUIRES(on_lane) { floor().backing_pages->release(pages); });
  if (!is_success(status)) return Error(status);
  return bytes;
}

Status Exercise::move_plain(SegmentId segment, uint64_t from_bytes, uint64_t to_bytes,
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

Status Exercise::touch(SegmentId segment, uint64_t offset_bytes, bool write) {
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

Result<std::vector<std::byte>> Exercise::through_segment(SegmentId id,
                                                         std::span<const std::byte> content,
                                                         uint64_t size_bytes) {
  DisplayFloor& floor = this->floor();
  if (!running()) return Error(Status::kDeviceRemoved);
  if (!floor.core.has_memory()) return Error(Status::kNotSupported);
  if (!content.empty()) size_bytes = content.size();
  if (size_bytes == 0 || size_bytes % kPageBytes != 0) return Error(Status::kInvalidParameter);
  bus::Machine& machine = floor.core.machine();
  DXGKIT_ASSIGN_OR_RETURN(const std::vector<bus::PageFrame> pages,
                          machine.allocate_pages(size_bytes / kPageBytes));
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

void Exercise::make_tables_again(DisplayFloor& floor, bool losing_content) {
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.failed()) return;
    if (losing_content) {
      // As after a timeout: the driver is told by the tables it gets.
      if (floor.core.has_memory()) floor.residency->let_all_go();
      static_cast<void>(floor.context_allocations->let_go());
      static_cast<void>(floor.core.memory().lose_power([](SegmentId) { return uint64_t{0}; }));
      floor.cpu_windows->hardware_was_reset();
      floor.power->show_locked();
    }
    floor.paging->pause();  // what is built runs after the restart
    floor.gpu_va->rebuild();
  });
}

Status Exercise::reset_device(DisplayFloor& floor, bool losing_content) {
  const auto refuse = [&](const char* ddi, Status status) {
    if (status == Status::kDeviceRemoved) return status;
    const std::string_view name = status_name(status);
    floor.core.fail(
        {.rule = "TDR-23",
         .severity = verifier::Severity::kBugCheck,
         .ddi = ddi,
         .actual = fmt::format("It answered {} on an idle adapter.",
                               name.empty() ? fmt::format("0x{:08X}", static_cast<uint32_t>(status))
                                            : std::string(name)),
         .expected = "STATUS_SUCCESS.",
         .fix = "A reset takes the hardware back to a known state by whatever means; "
                "there is no way for it to fail that the kernel could act upon.",
         .bugcheck_code = 0x116,
         .bugcheck_parameter = static_cast<uint32_t>(status)});
    return Status::kDeviceRemoved;
  };
  if (const Status status = floor.core.port().timeouts().reset_from_timeout();
      status != Status::kSuccess)
    return refuse("DxgkDdiResetFromTimeout", status);
  const bool tables = floor.gpu_va != nullptr;
  if (tables) {
    make_tables_again(floor, losing_content);
  } else if (losing_content) {
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (floor.core.failed()) return;
      static_cast<void>(floor.context_allocations->let_go());
      // The driver hears of it now; what it builds for it runs after the restart.
      floor.core.scheduler().begin_adapter_reset();
      const vidmm::LostContent lost = floor.core.memory().lose_memory_segments();
      floor.paging->enqueue(lost.operations, nullptr);
      for (const vidmm::SegmentDesc& segment : floor.core.memory().segments()) {
        if (segment.kind != vidmm::SegmentKind::kAperture) continue;
        // One that shows DMA or paging buffers keeps all its mappings.
        const auto unmaps = floor.core.memory().evict_segment(segment.id);
        if (unmaps.has_value()) floor.paging->enqueue(*unmaps, nullptr);
      }
      floor.power->show_locked();
    });
  }
  const Status restarted = floor.core.port().timeouts().restart_from_timeout();
  if (tables || losing_content) {
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (floor.core.failed()) return;
      if (tables) {
        floor.paging->resume();
      } else {
        floor.core.scheduler().end_adapter_reset();
      }
      floor.core.pump();
    });
    static_cast<void>(
        floor.core.block_until([&]() DXGKIT_REQUIRES(on_lane) { return floor.paging->idle(); }));
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (floor.core.failed()) return;
      if (tables) floor.residency->advance();
      floor.core.progress();
    });
  }
  if (restarted != Status::kSuccess) return refuse("DxgkDdiRestartFromTimeout", restarted);
  return floor.core.running() ? Status::kSuccess : Status::kDeviceRemoved;
}

Status Exercise::reset() {
  return without_content([](DisplayFloor& floor) { return reset_device(floor, false); });
}

Status Exercise::reset_losing_content() {
  if (!running()) return Status::kDeviceRemoved;
  if (!floor().core.has_memory()) return Status::kNotSupported;
  return reset_device(floor(), true);
}

}  // namespace dxgkit::dxgk
