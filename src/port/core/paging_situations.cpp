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
  log_.reach(Situation::kPagingInsufficient,
             result.status == Status::kGraphicsInsufficientDmaBuffer);
  log_.reach(Situation::kPagingBehindOtherWork, args.buffer_offset != 0);
  log_.add(verifier::SituationFact::kAllocationBusy,
           result.status == Status::kGraphicsAllocationBusy);
  log_.add(verifier::SituationFact::kPagingPrivateData, result.private_bytes_written != 0);
  switch (operation.kind) {
    case Kind::kTransfer:
      transferred(operation, later_pass, little_room);
      break;
    case Kind::kFill:
      filled(operation.fill_pattern, later_pass, little_room);
      break;
    case Kind::kFillVirtual:
      log_.reach(Situation::kFillVirtualAny);
      filled(operation.fill_pattern, later_pass, little_room);
      break;
    case Kind::kDiscardContent:
      log_.reach(Situation::kPagingDiscard);
      break;
    case Kind::kMapAperture:
      mapped(operation, later_pass);
      break;
    case Kind::kUnmapAperture:
      log_.reach(Situation::kApertureUnmap);
      log_.reach(Situation::kApertureSecondPass, later_pass);
      break;
    case Kind::kInitContextResource:
      log_.reach(Situation::kPagingInitContextResource);
      break;
    case Kind::kReadPhysical:
      log_.reach(Situation::kPagingReadPhysical);
      break;
    case Kind::kWritePhysical:
      log_.reach(Situation::kPagingWritePhysical);
      break;
    case Kind::kNotifyResidency:
      log_.reach(Situation::kPagingNotifyResidency);
      break;
    case Kind::kTransferVirtual:
      transferred_virtually(operation, later_pass);
      break;
    case Kind::kUpdatePageTable:
      updated(operation, by_cpu, later_pass);
      break;
    case Kind::kFlushTlb:
      log_.reach(operation.flush.start == 0 && operation.flush.end == 0 ? Situation::kTlbAll
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
    log_.reach(Situation::kTransferNothing);
    return;
  }
  log_.reach(Situation::kTransferToSegment, from_system && !to_system);
  log_.reach(Situation::kTransferToSystem, !from_system && to_system);
  log_.reach(Situation::kTransferBetweenSegments, !from_system && !to_system);
  log_.reach(Situation::kTransferBehindStart, operation.transfer_offset != 0);
  log_.reach(Situation::kTransferMdlBehindStart, operation.mdl_offset_pages != 0);
  log_.reach(Situation::kTransferMiddle, !operation.transfer_start && !operation.transfer_end);
  log_.reach(Situation::kTransferSecondPass, later_pass);
  log_.reach(operation.allocation_is_idle ? Situation::kTransferIdle : Situation::kTransferNotIdle,
             true);
  log_.reach(Situation::kTransferNoAllocation, operation.allocation == nullptr);
  log_.reach(Situation::kTransferLittleRoom, little_room);
  const uint64_t count = operation.size_bytes / kPageBytes;
  log_.reach(Situation::kTransferOnePage, count == 1);
  log_.reach(Situation::kTransferOddPages, !std::has_single_bit(count));
  if (from_system == to_system || count < 2) return;
  const std::span<const uint64_t> pages =
      from_system ? operation.source.pages : operation.destination.pages;
  log_.reach(is_contiguous(pages) ? Situation::kTransferContiguousPages
                                  : Situation::kTransferScatteredPages,
             true);
}

void PagingSituations::filled(uint32_t pattern, bool later_pass, bool little_room) {
  log_.reach(pattern == 0 ? Situation::kFillZero : Situation::kFillPattern);
  log_.reach(Situation::kFillSecondPass, later_pass);
  log_.reach(Situation::kFillLittleRoom, little_room);
}

void PagingSituations::mapped(const PagingOperation& operation, bool later_pass) {
  log_.reach(Situation::kApertureMap);
  log_.reach(Situation::kApertureMapBehindStart, operation.offset_pages != 0);
  log_.reach(Situation::kApertureMapPart, operation.mdl_offset_pages != 0);
  log_.reach(Situation::kApertureMapScattered, !is_contiguous(operation.pages));
  log_.reach(Situation::kApertureMapCacheCoherent, operation.cache_coherent);
  log_.reach(Situation::kApertureSecondPass, later_pass);
}

void PagingSituations::transferred_virtually(const PagingOperation& operation, bool later_pass) {
  using Direction = VirtualTransfer::Direction;
  const Direction direction = operation.transfer.direction;
  log_.reach(Situation::kTransferVirtualToSegment, direction == Direction::kSystemToLocal);
  log_.reach(Situation::kTransferVirtualToSystem, direction == Direction::kLocalToSystem);
  log_.reach(Situation::kTransferVirtualSecondPass, later_pass);
}

void PagingSituations::updated(const PagingOperation& operation, bool by_cpu, bool later_pass) {
  const PageTableUpdate& update = operation.page_table;
  log_.reach(Situation::kPageTableByCpu, by_cpu);
  log_.reach(Situation::kPageTableByVirtualAddress,
             update.mode == PageTableUpdateMode::kGpuVirtual);
  log_.reach(Situation::kPageTableByPhysicalAddress,
             update.mode == PageTableUpdateMode::kGpuPhysical);
  log_.reach(update.level == 0 ? Situation::kPageTableLeaf : Situation::kPageTableDirectory);
  log_.reach(Situation::kPageTableBehindStart, update.start_index != 0);
  log_.reach(Situation::kPageTableRepeat, update.repeat && update.count > 1);
  log_.reach(Situation::kPageTableInitial, update.initial_update);
  log_.reach(Situation::kPageTable64kb, update.use_64kb_pages);
  log_.reach(Situation::kPageTableSecondPass, later_pass);
  log_.reach(Situation::kPageTableDriverProtection, update.driver_protection != 0);
  if (update.entries != nullptr && update.level == 0) {
    const size_t count = update.repeat ? 1 : update.count;
    for (const PageTableEntry& entry : std::span(update.entries, count)) {
      log_.reach(Situation::kPageTableZero, (entry.flags & gpuva::kPteZero) != 0);
      if ((entry.flags & gpuva::kPteValid) == 0) {
        log_.reach(Situation::kPageTableInvalid);
        continue;
      }
      log_.reach((entry.flags & gpuva::kPteSegmentMask) == 0 ? Situation::kPageTableSystemMemory
                                                             : Situation::kPageTableMemorySegment,
                 true);
      log_.reach(Situation::kPageTableReadOnly, (entry.flags & gpuva::kPteReadOnly) != 0);
      log_.reach(Situation::kPageTableNoExecute, (entry.flags & gpuva::kPteNoExecute) != 0);
    }
  }
  const SpinGuard guard(lock_);
  if (update.process != nullptr) processes_.insert(update.process);
  log_.reach(Situation::kPageTableSecondProcess, processes_.size() >= 2);
}

void PagingSituations::root_set(void* context, const RootPageTable& root) {
  log_.reach(Situation::kRootSet);
  const SpinGuard guard(lock_);
  const auto [at, is_new] = roots_.insert_or_assign(context, root);
  static_cast<void>(at);
  log_.reach(Situation::kRootAgain, !is_new);
}

}  // namespace dxgkit::port
