#include "port/ddi/paging.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/gpu_va_paging.h"
#include "port/write_guard.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kBuildPagingBuffer{"DxgkDdiBuildPagingBuffer", nt::kPassiveLevel,
                                     DdiClass::kScheduler};

MDL* make_mdl(MdlPool& mdls, std::span<const uint64_t> pages) {
  return reinterpret_cast<MDL*>(mdls.make(pages));
}

/// One side of a transfer: an MDL with segment id 0, otherwise an address (PAGE-17).
template <typename Side>
void fill_side(MdlPool& mdls, Side& out, const TransferSide& side) {
  out.SegmentId = side.segment.value;
  if (side.segment == kSystemMemory) {
    out.pMdl = make_mdl(mdls, side.pages);
  } else {
    out.SegmentAddress.QuadPart = static_cast<LONGLONG>(side.segment_address);
  }
}

void fill_map_aperture(const PortCore& core, MdlPool& mdls, DXGKARG_BUILDPAGINGBUFFER& arguments,
                       const PagingOperation& operation) {
  if (!core.map_aperture2) {
    auto& map = arguments.MapApertureSegment;
    arguments.Operation = DXGK_OPERATION_MAP_APERTURE_SEGMENT;
    map.hDevice = operation.device;
    map.hAllocation = operation.allocation;
    map.SegmentId = operation.segment.value;
    map.OffsetInPages = operation.offset_pages;
    map.NumberOfPages = operation.page_count;
    map.pMdl = make_mdl(mdls, operation.pages);
    map.Flags.CacheCoherent = operation.cache_coherent ? 1 : 0;
    map.MdlOffset = operation.mdl_offset_pages;
    return;
  }
  auto& map = arguments.MapApertureSegment2;  // PAGE-30
  arguments.Operation = DXGK_OPERATION_MAP_APERTURE_SEGMENT2;
  map.hDevice = operation.device;
  map.hAllocation = operation.allocation;
  map.SegmentId = operation.segment.value;
  map.OffsetInPages = operation.offset_pages;
  map.NumberOfPages = operation.page_count;
  map.Flags.CacheCoherent = operation.cache_coherent ? 1 : 0;
  map.AdlOffset = operation.mdl_offset_pages;
  static_assert(sizeof(DXGK_PAGE_NUMBER) == sizeof(uint64_t));
  const std::span<const uint64_t> pages = operation.pages;
  map.Adl.PageCount = static_cast<UINT32>(pages.size());
  const bool contiguous = std::ranges::adjacent_find(pages, [](uint64_t a, uint64_t b) {
                            return a + 1 != b;
                          }) == pages.end();
  if (contiguous && !pages.empty()) {
    map.Adl.Flags.Contiguous = 1;
    map.Adl.BasePageNumber = pages.front();
  } else {
    map.Adl.Pages = reinterpret_cast<const DXGK_PAGE_NUMBER*>(pages.data());
  }
}

/// PAGE-03: without a paging buffer the driver has written the table itself when it returns.
bool is_done_by_cpu(const BuildPagingArgs& args) { return args.buffer == nullptr; }

bool is_map_or_unmap(const PagingOperation& operation) {
  return operation.kind == PagingOperation::Kind::kMapAperture ||
         operation.kind == PagingOperation::Kind::kUnmapAperture;
}

bool busy_is_legal(const PagingOperation& operation) {
  const bool kind = operation.kind == PagingOperation::Kind::kTransfer ||
                    operation.kind == PagingOperation::Kind::kDiscardContent;
  return kind && !operation.allocation_is_idle;
}

}  // namespace

PagingPort::PagingPort(PortCore& core) : core_(core), mdls_(core.kernel) {}

uint64_t PagingPort::paging_mdls_issued() const { return mdls_.issued(); }

void PagingPort::release_paging_mdls(uint64_t count) { mdls_.release(count); }

BuildPagingResult PagingPort::build_paging(const BuildPagingArgs& args) {
  BuildPagingResult result = call_build(args);
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->paging.built(args, result);
  return result;
}

BuildPagingResult PagingPort::call_build(const BuildPagingArgs& args) {
  BuildPagingResult result;
  result.multipass_offset = args.multipass_offset;
  if (is_dead(core_)) {
    result.status = Status::kDeviceRemoved;
    return result;
  }
  const PagingOperation& operation = *args.operation;
  DXGKIT_CHECK(!is_done_by_cpu(args) ||
               (operation.kind == PagingOperation::Kind::kUpdatePageTable &&
                operation.page_table.mode == PageTableUpdateMode::kCpuVirtual &&
                args.buffer_bytes == 0 && args.private_bytes == 0));
  DXGKARG_BUILDPAGINGBUFFER arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.pDmaBuffer = args.buffer;
  arguments.DmaSize = args.buffer_bytes;
  std::byte* const private_data = args.private_bytes == 0 ? core_.guard_page : args.private_data;
  arguments.pDmaBufferPrivateData = private_data;
  arguments.DmaBufferPrivateDataSize = args.private_bytes;
  arguments.MultipassOffset = args.multipass_offset;
  arguments.hSystemContext = args.system_context;
  if (core_.version >= kInterfaceWddm20) {
    arguments.DmaBufferGpuVirtualAddress = args.buffer_va;
    arguments.DmaBufferWriteOffset = args.buffer_offset;
  }
  VirtualScratch scratch;
  switch (operation.kind) {
    case PagingOperation::Kind::kTransfer:
      arguments.Operation = DXGK_OPERATION_TRANSFER;
      arguments.Transfer.hAllocation = operation.allocation;
      arguments.Transfer.TransferOffset = operation.transfer_offset;
      arguments.Transfer.TransferSize = operation.size_bytes;
      fill_side(mdls_, arguments.Transfer.Source, operation.source);
      fill_side(mdls_, arguments.Transfer.Destination, operation.destination);
      arguments.Transfer.Flags.AllocationIsIdle = operation.allocation_is_idle ? 1 : 0;
      arguments.Transfer.Flags.TransferStart = operation.transfer_start ? 1 : 0;
      arguments.Transfer.Flags.TransferEnd = operation.transfer_end ? 1 : 0;
      arguments.Transfer.MdlOffset = operation.mdl_offset_pages;
      break;
    case PagingOperation::Kind::kFill:
      arguments.Operation = DXGK_OPERATION_FILL;
      arguments.Fill.hAllocation = operation.allocation;
      arguments.Fill.FillSize = operation.size_bytes;
      arguments.Fill.FillPattern = operation.fill_pattern;
      arguments.Fill.Destination.SegmentId = operation.segment.value;
      arguments.Fill.Destination.SegmentAddress.QuadPart =
          static_cast<LONGLONG>(operation.segment_address);
      break;
    case PagingOperation::Kind::kDiscardContent:
      arguments.Operation = DXGK_OPERATION_DISCARD_CONTENT;
      arguments.DiscardContent.hAllocation = operation.allocation;
      arguments.DiscardContent.Flags.AllocationIsIdle = operation.allocation_is_idle ? 1 : 0;
      arguments.DiscardContent.SegmentId = operation.segment.value;
      arguments.DiscardContent.SegmentAddress.QuadPart =
          static_cast<LONGLONG>(operation.segment_address);
      break;
    case PagingOperation::Kind::kMapAperture:
      fill_map_aperture(core_, mdls_, arguments, operation);
      break;
    case PagingOperation::Kind::kUnmapAperture:
      arguments.Operation = DXGK_OPERATION_UNMAP_APERTURE_SEGMENT;
      arguments.UnmapApertureSegment.hDevice = operation.device;
      arguments.UnmapApertureSegment.hAllocation = operation.allocation;
      arguments.UnmapApertureSegment.SegmentId = operation.segment.value;
      arguments.UnmapApertureSegment.OffsetInPages = operation.offset_pages;
      arguments.UnmapApertureSegment.NumberOfPages = operation.page_count;
      arguments.UnmapApertureSegment.DummyPage.QuadPart =
          static_cast<LONGLONG>(operation.dummy_page);
      break;
    case PagingOperation::Kind::kInitContextResource:
      arguments.Operation = DXGK_OPERATION_INIT_CONTEXT_RESOURCE;
      arguments.InitContextResource.hAllocation = operation.allocation;
      arguments.InitContextResource.Destination.SegmentId = operation.segment.value;
      if (operation.segment == kSystemMemory) {
        arguments.InitContextResource.Destination.pMdl = make_mdl(mdls_, operation.pages);
      } else {
        arguments.InitContextResource.Destination.SegmentAddress.QuadPart =
            static_cast<LONGLONG>(operation.segment_address);
      }
      arguments.InitContextResource.Destination.VirtualAddress = operation.virtual_address;
      if (core_.version >= kInterfaceWddm20)
        arguments.InitContextResource.Destination.GpuVirtualAddress = operation.gpu_va;
      break;
    case PagingOperation::Kind::kReadPhysical:
      arguments.Operation = DXGK_OPERATION_READ_PHYSICAL;
      arguments.ReadPhysical.SegmentId = operation.segment.value;
      arguments.ReadPhysical.PhysicalAddress.QuadPart =
          static_cast<LONGLONG>(operation.segment_address);
      break;
    case PagingOperation::Kind::kWritePhysical:
      arguments.Operation = DXGK_OPERATION_WRITE_PHYSICAL;
      arguments.WritePhysical.SegmentId = operation.segment.value;
      arguments.WritePhysical.PhysicalAddress.QuadPart =
          static_cast<LONGLONG>(operation.segment_address);
      break;
    case PagingOperation::Kind::kNotifyResidency:
      arguments.Operation = DXGK_OPERATION_NOTIFY_RESIDENCY;
      arguments.NotifyResidency.hAllocation = operation.allocation;
      if (operation.resident) {
        arguments.NotifyResidency.PhysicalAddress.SegmentId = operation.segment.value;
        arguments.NotifyResidency.PhysicalAddress.SegmentOffset = operation.offset_bytes;
        arguments.NotifyResidency.Resident = 1;
      }
      break;
    case PagingOperation::Kind::kNotifyEviction:
      arguments.Operation = DXGK_OPERATION_NOTIFY_ALLOC;
      arguments.NotifyAllocation.hAllocation = operation.allocation;
      arguments.NotifyAllocation.Flags.Eviction = 1;
      arguments.NotifyAllocation.SizeInBytes = operation.size_bytes;
      break;
    case PagingOperation::Kind::kTransferVirtual:
    case PagingOperation::Kind::kFillVirtual:
    case PagingOperation::Kind::kUpdatePageTable:
    case PagingOperation::Kind::kFlushTlb:
    case PagingOperation::Kind::kCopyPageTableEntries:
    case PagingOperation::Kind::kUpdateContextAllocation:
      fill_virtual_operation(arguments, operation, &scratch);
      break;
  }
  if (core_.output_fill != std::byte{0} && !is_done_by_cpu(args)) [[unlikely]]
    std::memset(args.buffer, std::to_integer<int>(core_.output_fill), args.buffer_bytes);
  const bool check = core_.reference_checks;
  const WriteGuard behind(check && args.guarded ? args.buffer + args.buffer_bytes : nullptr);
  const WriteGuard behind_private(
      check && args.private_guarded ? args.private_data + args.private_bytes : nullptr);
  // A driver that writes without advancing its pointer: a sample of the buffer's first bytes shows
  // it.
  std::array<std::byte, 256> before;
  const size_t sample = check ? std::min<size_t>(before.size(), args.buffer_bytes) : 0;
  if (sample != 0) std::memcpy(before.data(), args.buffer, sample);
  Status status = Status::kSuccess;
  uint32_t room = args.buffer_bytes;  // as the driver is told
  uint32_t private_room = args.private_bytes;
  std::optional<WriteGuard> behind_room, behind_private_room;  // where that is less
  {
    DdiCall call(core_, kBuildPagingBuffer, static_cast<uint64_t>(arguments.Operation));
    std::optional<Status> answer;
    if (core_.faults != nullptr && !is_done_by_cpu(args)) [[unlikely]] {
      answer = core_.faults->before_paging(operation, args.buffer_bytes);
      arguments.DmaSize = room = core_.faults->room(kBuildPagingBuffer.name, args.buffer_bytes);
      // Not among the bytes of the sample.
      if (check && room >= sample && uint64_t{room} + kGuardBytes <= args.buffer_bytes)
        behind_room.emplace(args.buffer + room);
      if (args.private_bytes != 0) {
        arguments.DmaBufferPrivateDataSize = private_room =
            core_.faults->room(kPagingPrivateRoom, args.private_bytes);
        if (check && uint64_t{private_room} + kGuardBytes <= args.private_bytes)
          behind_private_room.emplace(args.private_data + private_room);
      }
    }
    result.room_bytes = arguments.DmaSize;
    status = answer.has_value()
                 ? *answer
                 : call(core_.ddi.DxgkDdiBuildPagingBuffer, core_.context, &arguments);
    if (!answer.has_value() && !call.completed()) {
      result.status = Status::kUnsuccessful;
      return result;
    }
    if (core_.faults != nullptr && status == Status::kSuccess && args.buffer_bytes != 0)
        [[unlikely]] {
      if (const uint32_t behind_end = core_.faults->overrun(kBuildPagingBuffer.name);
          behind_end != 0)
        arguments.pDmaBuffer = args.buffer + args.buffer_bytes + behind_end;
    }
  }
  result.multipass_offset = arguments.MultipassOffset;
  const auto refuse = [&](const char* rule, uint32_t parameter, std::string actual,
                          std::string expected, std::string fix) {
    core_.fatal(rule, kBuildPagingBuffer.name, 0x10E, parameter, std::move(actual),
                std::move(expected), std::move(fix));
    result.status = Status::kUnsuccessful;
    return result;
  };
  if (is_done_by_cpu(args) && (status != Status::kSuccess || arguments.pDmaBuffer != nullptr))
      [[unlikely]] {
    (void)core_.violation(
        "PAGE-03", kBuildPagingBuffer.name,
        status == Status::kSuccess
            ? fmt::format("pDmaBuffer was NULL and came back as {}.", arguments.pDmaBuffer)
            : fmt::format("It returned {} for an update without a paging buffer.", hex(status)),
        "With pDmaBuffer NULL the page table is written by the processor before the call returns "
        "STATUS_SUCCESS; nothing can be put off.",
        "Write the entries through PageTableAddress.CpuVirtual and leave pDmaBuffer alone.",
        Status::kSuccess);
    result.status = Status::kUnsuccessful;
    return result;
  }
  if (status == Status::kGraphicsAllocationBusy) {
    if (!busy_is_legal(operation)) {
      return refuse(
          "PAGE-13", 0xB,
          operation.allocation_is_idle
              ? "It answered ALLOCATION_BUSY although AllocationIsIdle is set."
              : "It answered ALLOCATION_BUSY to an operation other than transfer or discard.",
          "STATUS_GRAPHICS_ALLOCATION_BUSY is for transfer and discard of an allocation that may "
          "still be in use.",
          "Do the operation; the allocation is idle, or its use does not matter here.");
    }
    result.status = status;
    return result;
  }
  if (status != Status::kSuccess && status != Status::kGraphicsInsufficientDmaBuffer) {
    if (is_map_or_unmap(operation) &&
        (status == Status::kNotSupported || status == Status::kNotImplemented)) {
      return refuse("SEG-36", 0xB,
                    fmt::format("It refused operation {} on segment {} with {}.",
                                static_cast<uint32_t>(arguments.Operation), operation.segment.value,
                                hex(status)),
                    "A driver that reports an Aperture segment maps and unmaps its pages: what the "
                    "kernel places there is reached through that mapping only.",
                    "Implement both operations, or report no Aperture segment.");
    }
    return refuse("PAGE-07", 0xB, fmt::format("It returned {}.", hex(status)),
                  "STATUS_SUCCESS, STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER or "
                  "STATUS_GRAPHICS_ALLOCATION_BUSY.",
                  "Paging cannot fail: ask for a larger buffer, or handle the operation.");
  }
  const uint64_t bytes =
      reinterpret_cast<uint64_t>(arguments.pDmaBuffer) - reinterpret_cast<uint64_t>(args.buffer);
  if (bytes > room) {
    return refuse(
        "PAGE-05", 0x12,
        fmt::format("pDmaBuffer came back {} bytes further, DmaSize is {}.",
                    static_cast<int64_t>(bytes), room),
        "It points past the last byte written, at most DmaSize further.",
        "Check the room that is left and return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER.");
  }
  if (status == Status::kSuccess && bytes == 0 && sample != 0 &&
      std::memcmp(before.data(), args.buffer, sample) != 0) {
    size_t written = sample;
    while (before[written - 1] == args.buffer[written - 1]) --written;
    return refuse(
        "PAGE-05", 0x12,
        fmt::format("It wrote at least {} bytes for operation {} and left pDmaBuffer at its input.",
                    written, static_cast<uint32_t>(arguments.Operation)),
        "pDmaBuffer points past the last byte written.",
        fmt::format("Advance pDmaBuffer by what was written. The next operation would overwrite "
                    "bytes 0 to {:#x} of this one, which then never runs.",
                    written - 1));
  }
  auto damage_behind = behind.damage();
  if (!damage_behind.has_value() && behind_room.has_value()) damage_behind = behind_room->damage();
  if (damage_behind.has_value()) {
    return refuse("PAGE-05", 0x12,
                  fmt::format("It wrote {:#04x} {} bytes behind the end of the paging buffer, of "
                              "which DmaSize = {} bytes were left.",
                              damage_behind->value, damage_behind->first, room),
                  "It writes inside pDmaBuffer[0, DmaSize).",
                  "Check the room that is left before each command and return "
                  "STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER.");
  }
  auto private_damage = behind_private.damage();
  if (!private_damage.has_value() && behind_private_room.has_value())
    private_damage = behind_private_room->damage();
  if (private_damage.has_value()) {
    return refuse("PAGE-06", 0x13,
                  fmt::format("It wrote {:#04x} {} bytes behind the end of the private data, of "
                              "which DmaBufferPrivateDataSize = {} bytes were left.",
                              private_damage->value, private_damage->first, private_room),
                  "It writes inside pDmaBufferPrivateData[0, DmaBufferPrivateDataSize).",
                  "Report a PagingBufferPrivateDataSize that fits what the driver keeps.");
  }
  const uint64_t private_bytes = reinterpret_cast<uint64_t>(arguments.pDmaBufferPrivateData) -
                                 reinterpret_cast<uint64_t>(private_data);
  if (private_bytes > private_room) {
    return refuse(
        "PAGE-06", 0x13,
        fmt::format(
            "pDmaBufferPrivateData came back {} bytes further, DmaBufferPrivateDataSize is {}.",
            static_cast<int64_t>(private_bytes), private_room),
        "It moves at most DmaBufferPrivateDataSize.",
        "Advance it by what was written, or leave it.");
  }
  result.status = status;
  result.bytes_written = static_cast<uint32_t>(bytes);
  result.private_bytes_written = static_cast<uint32_t>(private_bytes);
  return result;
}

}  // namespace dxgkit::port
