#include "dxgk/va/fault_explainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/page_table_memory.h"
#include "dxgk/va/resident_places.h"
#include "dxgk/va/system_pages.h"

namespace dxgkit::dxgk {
namespace {

std::string range_text(gpuva::PageSpan span) {
  return fmt::format("[0x{:X}, 0x{:X})", span.address(), span.end_address());
}

bool covers(gpuva::PageSpan span, uint64_t page) {
  return span.first_page <= page && page < span.end_page();
}

const char* kind_text(gpuva::RangeKind kind) {
  switch (kind) {
    case gpuva::RangeKind::kFree:
      return "free";
    case gpuva::RangeKind::kReserved:
      return "reserved";
    case gpuva::RangeKind::kMapped:
      return "obtained by a mapping";
    case gpuva::RangeKind::kDriver:
    case gpuva::RangeKind::kDriverShared:
      return "reserved by the driver";
    case gpuva::RangeKind::kSystem:
      return "the kernel's own";
  }
  return "";
}

std::string place_text(const port::GpuPhysicalAddress& place) {
  if (place.segment == kSystemMemory) return fmt::format("system address 0x{:X}", place.offset);
  return fmt::format("offset 0x{:X} of segment {}", place.offset, place.segment.value);
}

std::string rights_text(const gpuva::Protection& protection) {
  if (protection.no_access) return "no access";
  if (protection.zero) return "zeros";
  return fmt::format("read{}{}", protection.write ? ", write" : "",
                     protection.execute ? ", execute" : "");
}

}  // namespace

std::string FaultExplainer::tell_tables(const GpuSpace& space, uint64_t page) {
  const std::vector<gpuva::PageTables::WalkStep> steps = space.tables.walk(page);
  if (steps.empty()) return "There is no root page table yet.";
  std::string text = "The tables, as the driver was asked to write them:";
  for (const gpuva::PageTables::WalkStep& step : steps) {
    const char* said = !step.valid ? "invalid" : step.large_page ? "a large page" : "valid";
    text += fmt::format(" level {} at {}{}, entry {}: {}{}", step.level,
                        place_text(floor_.tables->at(step.table).address),
                        step.of_64k_pages ? " (64 KiB pages)" : "", step.index, said,
                        &step == &steps.back() ? "." : ";");
  }
  return text;
}

FaultExplainer::Fault FaultExplainer::explain(uint32_t process, uint64_t address, bool write) {
  const std::shared_ptr<GpuSpace> space = floor_.spaces->of(process);
  if (!space) return {"an address of a process that is gone", "", ""};
  const gpuva::Geometry& geometry = floor_.spaces->geometry();
  const uint64_t page = address / kPageBytes;
  if (page >= geometry.space_pages()) {
    return {"an address beyond the address space",
            fmt::format("Addresses have {} bits here.", geometry.va_bits),
            "Look for an address that was computed wrongly, or sign-extended."};
  }
  const int64_t now = floor_.core.runtime().now();
  const auto ago = [&](int64_t when) { return static_cast<double>(now - when) / 1e6; };
  const std::vector<gpuva::PageTables::WalkStep> steps = space->tables.walk(page);
  const bool written =
      !steps.empty() && (steps.back().level == 0 || steps.back().large_page) && steps.back().valid;
  Fault fault;
  const auto say = [&](std::string sentence) {
    if (!fault.story.empty()) fault.story += ' ';
    fault.story += sentence;
  };
  const std::optional<gpuva::Mapping> mapping = space->addresses.lookup(address);
  const gpuva::OwnedRange owned = space->addresses.owned_at(address);
  if (space->of_paging) {
    fault.reason = written ? "an address that translates" : "an address nothing is mapped at";
    say("The paging process has paging buffers, tables and windows on what moves there; addresses "
        "come with each operation and are final (PAGE-31).");
    fault.advice =
        "Use the addresses of the operation as they are; keep PTE updates and transfers "
        "of one paging buffer in order.";
  } else if (mapping.has_value() && !mapping->protection.no_access) {
    const bool zero = mapping->allocation == gpuva::kNoAllocation;
    say(zero ? fmt::format("{} is mapped as zeros.", range_text(mapping->span))
             : fmt::format("{} shows allocation {} from page {} on ({}).",
                           range_text(mapping->span), mapping->allocation.value,
                           mapping->offset_pages, rights_text(mapping->protection)));
    const bool owed = std::ranges::any_of(
        space->owed, [&](const gpuva::PageSpan& span) { return covers(span, page); });
    if (owed) {
      fault.reason = "a mapping there was no memory to write tables for";
      say("Its entries were left invalid when no page table could be allocated.");
      fault.advice = "Give the machine, or the segment of the page tables, more memory.";
    } else if (!zero && !floor_.places->contains(mapping->allocation) &&
               !floor_.system_pages->contains(mapping->allocation)) {
      const std::optional<int64_t> left = floor_.places->left_ns(mapping->allocation);
      const bool evicted = left.has_value();
      fault.reason = evicted ? "an allocation that was evicted" : "an allocation that is nowhere";
      say(evicted ? fmt::format("The allocation left its segment {:.3f} ms ago.", ago(*left))
                  : "The allocation has not been in a segment.");
      fault.advice =
          "Keep allocations on the device's residency list (D3DKMTMakeResident) while "
          "queued work may use them, and wait for that call's fence.";
    } else if (!written || !floor_.paging->idle()) {
      fault.reason = "a mapping that is not in force yet";
      say("Page-table updates are still queued in front of the paging process.");
      fault.advice =
          "Wait for PagingFenceValue of the call on the paging queue's fence, on the "
          "CPU or the GPU, before work that uses the address (VA-27).";
    } else if (write && (zero || !mapping->protection.write)) {
      fault.reason = "a write where only reading is allowed";
      fault.advice = "Map with Protection.Write, or look for the write.";
    } else {
      fault.reason = "an address that translates";
      say("The mapping is in force and the allocation in place: the hardware used another root, a "
          "stale translation, or entries other than those it was given.");
      fault.advice =
          "Compare what DxgkDdiBuildPagingBuffer wrote for UpdatePageTable and FlushTlb "
          "with the walk below; look at DxgkDdiSetRootPageTable.";
    }
  } else {
    const UnmappedRanges::Range* const gone = space->unmapped.find(page);
    if (gone != nullptr) {
      fault.reason = "memory that was unmapped";
      say(fmt::format("{} was unmapped {:.3f} ms ago {}", range_text(gone->span),
                      ago(gone->when_ns), gone->how));
      fault.story += gone->allocation == gpuva::kNoAllocation
                         ? std::string("; it showed zeros.")
                         : fmt::format("; it showed allocation {} from page {} on.",
                                       gone->allocation.value, gone->offset_pages);
      fault.advice = "Free and unmap behind the fence of the last work that uses the range.";
    } else {
      fault.reason = "an address nothing was mapped at";
      fault.advice =
          "Look for an address that was computed wrongly, or a missing "
          "D3DKMTMapGpuVirtualAddress.";
    }
    say(fmt::format("The range {} is {}.", range_text(owned.span), kind_text(owned.kind)));
    // The nearest on both sides: an overrun shows.
    std::optional<gpuva::Mapping> below;
    for (uint64_t reach = 1; !below.has_value() && reach <= page; reach *= 2) {
      space->addresses.for_each_in({page - reach, reach},
                                   [&](const gpuva::Mapping& one) { below = one; });
    }
    if (below.has_value()) {
      say(fmt::format("The nearest mapping below ends 0x{:X} bytes before it (allocation {}).",
                      address - below->span.end_address(), below->allocation.value));
    }
    const std::optional<gpuva::Mapping> above = space->addresses.mapping_behind(page);
    if (above.has_value()) {
      say(fmt::format("The nearest above starts 0x{:X} bytes behind it (allocation {}).",
                      above->span.address() - address, above->allocation.value));
    }
  }
  say(tell_tables(*space, page));
  return fault;
}

}  // namespace dxgkit::dxgk
