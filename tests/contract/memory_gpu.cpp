#include "tests/contract/memory_gpu.h"

#include <cstring>

namespace dxgkit::contract {
namespace {

uint64_t address_of(const LARGE_INTEGER& address) {
  return static_cast<uint64_t>(address.QuadPart);
}

}  // namespace

MemoryGpu::MemoryGpu(Stack& stack)
    : stack_(stack), hidden_(stack.miniport.config.segments[1].size) {
  stack.miniport.hooks.submit = [this](const DXGKARG_SUBMITCOMMAND* args) {
    if (args->Flags.Paging != 0) run(*args);
    return stack_.miniport.default_submit(args);
  };
}

MemoryGpu::~MemoryGpu() {
  if (visible_ == nullptr) return;
  EXPECT_TRUE(stack_.machine.unmap_io(visible_, stack_.miniport.config.segments[0].size));
}

std::byte* MemoryGpu::at(uint64_t address) {
  const testing::ScriptedSegment& first = stack_.miniport.config.segments[0];
  if (address - first.base_address < first.size) {
    if (visible_ == nullptr) {
      visible_ = static_cast<std::byte*>(
          stack_.machine.map_io(stack_.miniport.function().bars()[1].base, first.size));
    }
    return visible_ + (address - first.base_address);
  }
  if (address >= kHiddenBase && address < kHiddenBase + hidden_.size())
    return hidden_.data() + (address - kHiddenBase);
  if (const auto real = stack_.machine.translate(bus::PhysicalAddress{address});
      address < bus::Machine::kAgpApertureLimit && real.has_value()) {
    return stack_.machine.system_pointer(*real, 1);
  }
  const auto page = aperture_.find((address - kApertureBase) / 4096);
  EXPECT_TRUE(page != aperture_.end()) << std::hex << address;
  return page == aperture_.end() ? hidden_.data() : system(page->second) + address % 4096;
}

std::byte* MemoryGpu::system(uint64_t frame) {
  return stack_.machine.system_pointer(bus::PhysicalAddress{frame * 4096}, 4096);
}

void MemoryGpu::run(const DXGKARG_SUBMITCOMMAND& args) {
  const std::byte* buffer = stack_.machine.system_pointer(
      bus::PhysicalAddress{static_cast<uint64_t>(args.DmaBufferPhysicalAddress.QuadPart)},
      args.DmaBufferSize);
  const std::vector<testing::PagingCall> calls = stack_.miniport.calls().paging;
  for (UINT at_byte = args.DmaBufferSubmissionStartOffset;
       at_byte < args.DmaBufferSubmissionEndOffset; at_byte += sizeof(testing::PagingRecord)) {
    testing::PagingRecord record;
    std::memcpy(&record, buffer + at_byte, sizeof record);
    ASSERT_EQ(record.magic, testing::PagingRecord::kMagic);
    carry_out(calls.at(record.sequence));
  }
}

void MemoryGpu::map(uint64_t first, uint64_t count, const std::vector<uint64_t>& pages,
                    uint64_t skipped) {
  ASSERT_LE(skipped + count, pages.size());
  for (uint64_t i = 0; i < count; ++i) {
    ASSERT_FALSE(aperture_.contains(first + i)) << "mapped over somebody";
    aperture_[first + i] = pages[skipped + i];
  }
}

void MemoryGpu::carry_out(const testing::PagingCall& call) {
  const DXGKARG_BUILDPAGINGBUFFER& args = call.args;
  switch (args.Operation) {
    case DXGK_OPERATION_FILL: {
      ++fills;
      ASSERT_LE(args.Fill.Destination.SegmentId, 2U) << "PAGE-23: memory segments only";
      ASSERT_EQ(args.Fill.FillSize % 4096, 0U);
      for (uint64_t done = 0; done < args.Fill.FillSize; done += sizeof args.Fill.FillPattern) {
        std::memcpy(at(address_of(args.Fill.Destination.SegmentAddress) + done),
                    &args.Fill.FillPattern, sizeof args.Fill.FillPattern);
      }
      break;
    }
    case DXGK_OPERATION_TRANSFER: {
      const auto& transfer = args.Transfer;
      if (transfer.TransferSize == 0) {
        ++lost;
        break;
      }
      ++(transfer.Source.SegmentId == 2 ? transfers_out : transfers_in);
      // PAGE-17: TransferOffset belongs to segment sides, MdlOffset to MDL sides.
      const auto side = [&](const auto& one, const std::vector<uint64_t>& pages, uint64_t done) {
        if (one.SegmentId != 0)
          return at(address_of(one.SegmentAddress) + transfer.TransferOffset + done);
        return system(pages.at(transfer.MdlOffset + done / 4096));
      };
      for (uint64_t done = 0; done < transfer.TransferSize; done += 4096) {
        std::memcpy(side(transfer.Destination, call.destination_pages, done),
                    side(transfer.Source, call.source_pages, done), 4096);
      }
      break;
    }
    case DXGK_OPERATION_MAP_APERTURE_SEGMENT:
      map(args.MapApertureSegment.OffsetInPages, args.MapApertureSegment.NumberOfPages,
          call.source_pages, args.MapApertureSegment.MdlOffset);
      break;
    case DXGK_OPERATION_MAP_APERTURE_SEGMENT2:
      map(args.MapApertureSegment2.OffsetInPages, args.MapApertureSegment2.NumberOfPages,
          call.source_pages, args.MapApertureSegment2.AdlOffset);
      break;
    case DXGK_OPERATION_UNMAP_APERTURE_SEGMENT:
      for (uint64_t i = 0; i < args.UnmapApertureSegment.NumberOfPages; ++i)
        ASSERT_EQ(aperture_.erase(args.UnmapApertureSegment.OffsetInPages + i), 1U);
      break;
    case DXGK_OPERATION_READ_PHYSICAL:
    case DXGK_OPERATION_WRITE_PHYSICAL:
      ++touches;
      break;
    case DXGK_OPERATION_INIT_CONTEXT_RESOURCE:
      ++inits;
      if (args.InitContextResource.Destination.SegmentId != 0) {
        *at(address_of(args.InitContextResource.Destination.SegmentAddress)) = kInitial;
      }
      break;
    default:
      break;
  }
}

}  // namespace dxgkit::contract
