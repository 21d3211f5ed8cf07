#include "port/core/paging_situations.h"

#include <algorithm>
#include <bit>

#include "base/arithmetic.h"
#include "gpuva/pte.h"

namespace dxgkit::port {
namespace {

/// A room in which only a few commands fit (our choice).
constexpr uint32_t kLittleRoom = 512;

bool is_contiguous(std::span<const uint64_t> pages) {
  return std::ranges::adjacent_find(pages, [](uint64_t a, uint64_t b) { return a + 1 != b; }) ==
         pages.end();
}

}  // namespace

void PagingSituations::built(const BuildPagingArgs& args, const BuildPagingResult& result) {
  using Kind = PagingOperation::Kind;
  const PagingOperation& operation = *args.operation;
  const bool by_cpu = args.buffer == nullptr;
  const bool later_pass = args.multipass_offset != 0;
  const bool little_room = !by_cpu && result.room_bytes < kLittleRoom;
  reach(Situation::kPagingInsufficient, result.status == Status::kGraphicsInsufficientDmaBuffer);
  reach(Situation::kPagingBehindOtherWork, args.buffer_offset != 0);
  if (result.status == Status::kGraphicsAllocationBusy)
    log_.add(verifier::SituationFact::kAllocationBusy);
  if (result.private_bytes_written != 0) log_.add(verifier::SituationFact::kPagingPrivateData);
  switch (operation.kind) {
    case Kind::kTransfer:
      transferred(operation, later_pass, little_room);
      break;
    case Kind::kFill:
      filled(operation.fill_pattern, later_pass, little_room);
      break;
    case Kind::kFillVirtual:
      reach(Situation::kFillVirtualAny, true);
      filled(operation.fill_pattern, later_pass, little_room);
      break;
    case Kind::kDiscardContent:
      reach(Situation::kPagingDiscard, true);
      break;
    case Kind::kMapAperture:
      mapped(operation, later_pass);
      break;
    case Kind::kUnmapAperture:
      reach(Situation::kApertureUnmap, true);
      reach(Situation::kApertureSecondPass, later_pass);
      break;
    case Kind::kInitContextResource:
      reach(Situation::kPagingInitContextResource, true);
      break;
    case Kind::kReadPhysical:
      reach(Situation::kPagingReadPhysical, true);
      break;
    case Kind::kWritePhysical:
      reach(Situation::kPagingWritePhysical, true);
      break;
    case Kind::kNotifyResidency:
      reach(Situation::kPagingNotifyResidency, true);
      break;
    case Kind::kTransferVirtual:
      transferred_virtually(operation, later_pass);
      break;
    case Kind::kUpdatePageTable:
      updated(operation, by_cpu, later_pass);
      break;
    case Kind::kFlushTlb:
      reach(operation.flush.start == 0 && operation.flush.end == 0 ? Situation::kTlbAll
                                                                   : Situation::kTlbRange,
            true);
      break;
    case Kind::kNotifyEviction:
    case Kind::kCopyPageTableEntries:
    case Kind::kUpdateContextAllocation:
      break;
  }
}

void PagingSituations::transferred(const PagingOperation& operation, bool later_pass,
                                   bool little_room) {
  const bool from_system = operation.source.segment == kSystemMemory;
  const bool to_system = operation.destination.segment == kSystemMemory;
  if (operation.size_bytes == 0) {
    reach(Situation::kTransferNothing, true);
    return;
  }
  reach(Situation::kTransferToSegment, from_system && !to_system);
  reach(Situation::kTransferToSystem, !from_system && to_system);
  reach(Situation::kTransferBetweenSegments, !from_system && !to_system);
  reach(Situation::kTransferBehindStart, operation.transfer_offset != 0);
  reach(Situation::kTransferMdlBehindStart, operation.mdl_offset_pages != 0);
  reach(Situation::kTransferMiddle, !operation.transfer_start && !operation.transfer_end);
  reach(Situation::kTransferSecondPass, later_pass);
  reach(operation.allocation_is_idle ? Situation::kTransferIdle : Situation::kTransferNotIdle,
        true);
  reach(Situation::kTransferNoAllocation, operation.allocation == nullptr);
  reach(Situation::kTransferLittleRoom, little_room);
  const uint64_t count = operation.size_bytes / kPageBytes;
  reach(Situation::kTransferOnePage, count == 1);
  reach(Situation::kTransferOddPages, !std::has_single_bit(count));
  if (from_system == to_system || count < 2) return;
  const std::span<const uint64_t> pages =
      from_system ? operation.source.pages : operation.destination.pages;
  reach(is_contiguous(pages) ? Situation::kTransferContiguousPages
                             : Situation::kTransferScatteredPages,
        true);
}

void PagingSituations::filled(uint32_t pattern, bool later_pass, bool little_room) {
  reach(pattern == 0 ? Situation::kFillZero : Situation::kFillPattern, true);
  reach(Situation::kFillSecondPass, later_pass);
  reach(Situation::kFillLittleRoom, little_room);
}

void PagingSituations::mapped(const PagingOperation& operation, bool later_pass) {
  reach(Situation::kApertureMap, true);
  reach(Situation::kApertureMapBehindStart, operation.offset_pages != 0);
  reach(Situation::kApertureMapPart, operation.mdl_offset_pages != 0);
  reach(Situation::kApertureMapScattered, !is_contiguous(operation.pages));
  reach(Situation::kApertureMapCacheCoherent, operation.cache_coherent);
  reach(Situation::kApertureSecondPass, later_pass);
}

void PagingSituations::transferred_virtually(const PagingOperation& operation, bool later_pass) {
  using Direction = VirtualTransfer::Direction;
  const Direction direction = operation.transfer.direction;
  reach(Situation::kTransferVirtualToSegment, direction == Direction::kSystemToLocal);
  reach(Situation::kTransferVirtualToSystem, direction == Direction::kLocalToSystem);
  reach(Situation::kTransferVirtualSecondPass, later_pass);
}

void PagingSituations::updated(const PagingOperation& operation, bool by_cpu, bool later_pass) {
  const PageTableUpdate& update = operation.page_table;
  reach(Situation::kPageTableByCpu, by_cpu);
  reach(Situation::kPageTableByVirtualAddress, update.mode == PageTableUpdateMode::kGpuVirtual);
  reach(Situation::kPageTableByPhysicalAddress, update.mode == PageTableUpdateMode::kGpuPhysical);
  reach(update.level == 0 ? Situation::kPageTableLeaf : Situation::kPageTableDirectory, true);
  reach(Situation::kPageTableBehindStart, update.start_index != 0);
  reach(Situation::kPageTableRepeat, update.repeat && update.count > 1);
  reach(Situation::kPageTableInitial, update.initial_update);
  reach(Situation::kPageTable64kb, update.use_64kb_pages);
  reach(Situation::kPageTableSecondPass, later_pass);
  reach(Situation::kPageTableDriverProtection, update.driver_protection != 0);
  if (update.entries != nullptr && update.level == 0) {
    const size_t count = update.repeat ? 1 : update.count;
    for (const PageTableEntry& entry : std::span(update.entries, count)) {
      reach(Situation::kPageTableZero, (entry.flags & gpuva::kPteZero) != 0);
      if ((entry.flags & gpuva::kPteValid) == 0) {
        reach(Situation::kPageTableInvalid, true);
        continue;
      }
      reach((entry.flags & gpuva::kPteSegmentMask) == 0 ? Situation::kPageTableSystemMemory
                                                        : Situation::kPageTableMemorySegment,
            true);
      reach(Situation::kPageTableReadOnly, (entry.flags & gpuva::kPteReadOnly) != 0);
      reach(Situation::kPageTableNoExecute, (entry.flags & gpuva::kPteNoExecute) != 0);
    }
  }
  const SpinGuard guard(lock_);
  if (update.process != nullptr) processes_.insert(update.process);
  reach(Situation::kPageTableSecondProcess, processes_.size() >= 2);
}

void PagingSituations::root_set(void* context, const RootPageTable& root) {
  reach(Situation::kRootSet, true);
  const SpinGuard guard(lock_);
  const auto [at, is_new] = roots_.insert_or_assign(context, root);
  static_cast<void>(at);
  reach(Situation::kRootAgain, !is_new);
}

}  // namespace dxgkit::port
