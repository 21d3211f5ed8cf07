#include "tests/support/paging_gpu.h"

#include <cstring>

#include "base/check.h"

namespace dxgkit::testing {

PagingGpu::PagingGpu(ScriptedMiniport& miniport, bus::Machine& machine)
    : miniport_(miniport), machine_(machine) {
  miniport_.hooks.submit = [this](const DXGKARG_SUBMITCOMMAND* args) { return submit(args); };
}

PagingGpu::~PagingGpu() { miniport_.hooks.submit = nullptr; }

uint64_t PagingGpu::read(uint64_t address) const {
  const auto found = memory_.find(address);
  return found == memory_.end() ? 0xDEAD'DEAD'DEAD'DEAD : found->second;
}

uint64_t PagingGpu::read_system(uint64_t frame) const {
  uint64_t tag = 0;
  const std::byte* page = machine_.system_pointer(bus::PhysicalAddress{frame * kPage}, sizeof(tag));
  DXGKIT_CHECK(page != nullptr);
  std::memcpy(&tag, page, sizeof(tag));
  return tag;
}

void PagingGpu::write_system(uint64_t frame, uint64_t tag) {
  std::byte* page = machine_.system_pointer(bus::PhysicalAddress{frame * kPage}, sizeof(tag));
  DXGKIT_CHECK(page != nullptr);
  std::memcpy(page, &tag, sizeof(tag));
}

void PagingGpu::lose_power(const std::vector<uint64_t>& kept_bytes) {
  for (auto& [address, tag] : memory_) {
    for (size_t i = 0; i < miniport_.config.segments.size(); ++i) {
      const ScriptedSegment& segment = miniport_.config.segments[i];
      if (address - segment.base_address >= segment.size) continue;
      if (address - segment.base_address >= kept_bytes[i]) tag = garbage();
    }
  }
  std::erase_if(aperture_, [&](const auto& entry) {
    for (size_t i = 0; i < miniport_.config.segments.size(); ++i) {
      const uint64_t offset = entry.first - miniport_.config.segments[i].base_address;
      if (offset < miniport_.config.segments[i].size) return offset >= kept_bytes[i];
    }
    return true;
  });
}

bool PagingGpu::mapped(uint64_t address) const { return aperture_.contains(address); }

NTSTATUS PagingGpu::submit(const DXGKARG_SUBMITCOMMAND* args) {
  if (dead_) return static_cast<NTSTATUS>(Status::kSuccess);  // into the void
  if (args->Flags.Paging != 0) {
    const auto buffer = static_cast<uint64_t>(args->DmaBufferPhysicalAddress.QuadPart);
    for (UINT at = args->DmaBufferSubmissionStartOffset; at < args->DmaBufferSubmissionEndOffset;
         at += sizeof(PagingRecord)) {
      PagingRecord record;
      uint64_t physical = buffer + at;
      if (args->DmaBufferSegmentId != 0) DXGKIT_CHECK(mapped(physical - physical % kPage));
      if (args->DmaBufferSegmentId != 0)
        physical = aperture_.at(physical - physical % kPage) * kPage + physical % kPage;
      const std::byte* where =
          machine_.system_pointer(bus::PhysicalAddress{physical}, sizeof(record));
      DXGKIT_CHECK(where != nullptr);
      std::memcpy(static_cast<void*>(&record), where, sizeof(record));
      DXGKIT_CHECK(record.magic == PagingRecord::kMagic);
      if (before_operation && before_operation(executed_)) {
        dead_ = true;
        return static_cast<NTSTATUS>(Status::kSuccess);
      }
      ++executed_;
      execute(miniport_.paging_call(record.sequence));
    }
  }
  return miniport_.default_submit(args);
}

void PagingGpu::execute(const PagingCall& call) {
  const DXGKARG_BUILDPAGINGBUFFER& args = call.args;
  switch (args.Operation) {
    case DXGK_OPERATION_TRANSFER: {
      const uint64_t pages = args.Transfer.TransferSize / kPage;
      const bool out = args.Transfer.Destination.SegmentId == 0;
      const auto segment =
          static_cast<uint64_t>(out ? args.Transfer.Source.SegmentAddress.QuadPart
                                    : args.Transfer.Destination.SegmentAddress.QuadPart);
      for (uint64_t i = 0; i < pages; ++i) {
        if (out) {
          write_system(call.destination_pages.at(i), read(segment + i * kPage));
        } else {
          write(segment + i * kPage, read_system(call.source_pages.at(i)));
        }
      }
      return;
    }
    case DXGK_OPERATION_FILL: {
      const auto start = static_cast<uint64_t>(args.Fill.Destination.SegmentAddress.QuadPart);
      for (uint64_t i = 0; i < args.Fill.FillSize / kPage; ++i) write(start + i * kPage, 0);
      return;
    }
    case DXGK_OPERATION_MAP_APERTURE_SEGMENT:
      for (size_t i = 0; i < args.MapApertureSegment.NumberOfPages; ++i) {
        aperture_[aperture_base(args.MapApertureSegment.SegmentId) +
                  (args.MapApertureSegment.OffsetInPages + i) * kPage] = call.source_pages.at(i);
      }
      return;
    case DXGK_OPERATION_UNMAP_APERTURE_SEGMENT:
      for (size_t i = 0; i < args.UnmapApertureSegment.NumberOfPages; ++i) {
        aperture_.erase(aperture_base(args.UnmapApertureSegment.SegmentId) +
                        (args.UnmapApertureSegment.OffsetInPages + i) * kPage);
      }
      return;
    default:
      return;  // what left without a transfer keeps its bytes until somebody overwrites them
  }
}

}  // namespace dxgkit::testing
