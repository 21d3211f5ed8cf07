#include "dxgk/memory/cpu_windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "base/interface_versions.h"
#include "bus/hardware_pages.h"
#include "dxgk/core/segment_flags.h"
#include "dxgk/memory/device_memory.h"
#include "dxgk/memory/paging_executor.h"

namespace dxgkit::dxgk {
namespace {

constexpr const char* kAcquire = "DxgkDdiAcquireSwizzlingRange";
constexpr const char* kRelease = "DxgkDdiReleaseSwizzlingRange";

bool mappable(const bus::MemoryWindow& window) { return window.fd >= 0; }

}  // namespace

CpuWindows::CpuWindows(MemoryFloor& floor)
    : floor_(floor),
      core_(floor.core),
      ranges_(core_.port(), core_.caps().number_of_swizzling_ranges) {
  // No page of the pool window is ever in a memory object of another.
  const bus::MemoryWindow pool =
      core_.machine().window_of(bus::PhysicalAddress{bus::Machine::kPoolMemoryBase}, kPageBytes);
  lasting_.insert(pool.fd);
}

Result<CpuWindows::Windows> CpuWindows::open(OpenedAllocation& opened, const CpuLook& look,
                                             const vidmm::Placement& place) {
  close(opened);
  if (place.segment == kSystemMemory || opened.allocation->keeps_system_copy())
    return backing(*opened.allocation);
  const vidmm::SegmentDesc& segment = core_.memory().segments()[place.segment.value - 1];
  return segment.kind == vidmm::SegmentKind::kAperture ? in_aperture(opened, look, place)
                                                       : in_memory(opened, look, place);
}

CpuWindows::Windows CpuWindows::backing(const Allocation& allocation) const {
  return core_.machine().windows_of(allocation.pages.frames());
}

bool CpuWindows::shows_backing(const OpenedAllocation& opened) const {
  const CpuAccess* const cpu = opened.cpu_if_any();
  if (cpu == nullptr || cpu->view == nullptr || cpu->told()) return false;
  const SegmentId segment = core_.memory().placement(opened.allocation->id).segment;
  return segment == kSystemMemory || opened.allocation->keeps_system_copy() ||
         core_.memory().segments()[segment.value - 1].kind == vidmm::SegmentKind::kAperture;
}

Result<CpuWindows::Windows> CpuWindows::in_aperture(OpenedAllocation& opened, const CpuLook& look,
                                                    const vidmm::Placement& place) {
  const Allocation& allocation = *opened.allocation;
  const vidmm::SegmentDesc& segment = core_.memory().segments()[place.segment.value - 1];
  const port::SegmentInfo& info = core_.segment_infos().segments[place.segment.value - 1];
  if (look.alternate_va && !segment.agp) return through_range(opened, look, place, 0);
  if (!allocation.primary) return backing(allocation);
  // SEG-20: for a primary without an alternate address the segment's own counts. What cannot be
  // shown there shows in the backing pages: they are what the aperture leads to.
  Result<Windows> shown = Error(Status::kRetry);
  if (info.host_aperture_pages != 0) {
    shown = through_host_aperture(opened, place);
  } else if (segment.cpu_visible && core_.interface_version() < kInterfaceWddm20) {
    shown = through_range(opened, look, place, info.cpu_translated_address + place.offset_bytes);
  }
  return shown.has_value() ? shown : backing(allocation);
}

Result<CpuWindows::Windows> CpuWindows::in_memory(OpenedAllocation& opened, const CpuLook& look,
                                                  const vidmm::Placement& place) {
  const Allocation& allocation = *opened.allocation;
  const vidmm::SegmentDesc& segment = core_.memory().segments()[place.segment.value - 1];
  const port::SegmentInfo& info = core_.segment_infos().segments[place.segment.value - 1];
  // ALLOC-42
  if (allocation.cached && (info.flags & kSegmentCacheCoherent) == 0) return Error(Status::kRetry);
  if (look.may_leave && !look.acquire_aperture &&
      core_.strikes(VerifierSwitch::kForceComplexLock)) {
    return Error(Status::kRetry);
  }
  if (info.host_aperture_pages != 0) return through_host_aperture(opened, place);
  const bool visible = segment.cpu_visible;
  if (!look.acquire_aperture)
    return visible ? plain(allocation, place) : Result<Windows>(Error(Status::kRetry));
  if (!visible && !look.alternate_va) return Error(Status::kRetry);
  if (look.may_leave && core_.strikes(VerifierSwitch::kFailAcquireSwizzlingRange))
    return Error(Status::kRetry);
  // SEG-21: the driver sets its aperture up before the CPU sees anything.
  return through_range(opened, look, place,
                       visible ? segment.cpu_translated_address + place.offset_bytes : 0);
}

bus::MemoryWindow CpuWindows::bar_window(uint64_t address, uint64_t bytes) {
  const bus::MemoryWindow window = core_.machine().window_of(bus::PhysicalAddress{address}, bytes);
  // Views of hardware are not kept: it may leave, and its pages fault then.
  if (!lasting_.contains(window.fd) && !bus::is_hardware(window)) lasting_.insert(window.fd);
  return window;
}

Status CpuWindows::show_at_one_address(OpenedAllocation& opened, Windows windows) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(std::unique_ptr<bus::CpuView> view, kept_views_.show(windows));
  const auto lasts = [&](const bus::MemoryWindow& window) { return lasting_.contains(window.fd); };
  shown_.erase(view.get());  // one that ended elsewhere may have been at its address
  if (std::ranges::all_of(windows, lasts)) shown_[view.get()] = std::move(windows);
  opened.cpu().view = std::move(view);
  return Status::kSuccess;
}

void CpuWindows::put_away(OpenedAllocation& opened) {
  std::unique_ptr<bus::CpuView> view = std::move(opened.cpu().view);
  const auto shown = shown_.find(view.get());
  if (shown == shown_.end()) return;
  // What the driver shows it through serves others from here on.
  if (!opened.cpu().told())
    kept_views_.keep(std::move(view), std::move(shown->second), opened.allocation->id.value);
  shown_.erase(shown);
}

Result<CpuWindows::Windows> CpuWindows::plain(const Allocation& allocation,
                                              const vidmm::Placement& place) {
  const vidmm::SegmentDesc& segment = core_.memory().segments()[place.segment.value - 1];
  Windows windows{
      bar_window(segment.cpu_translated_address + place.offset_bytes, allocation.size_bytes)};
  if (mappable(windows.front())) return windows;
  report_unmappable(place, allocation.size_bytes, "DxgkDdiQueryAdapterInfo");
  return Error(Status::kRetry);
}

Result<CpuWindows::Windows> CpuWindows::through_range(OpenedAllocation& opened, const CpuLook& look,
                                                      const vidmm::Placement& place,
                                                      uint64_t address) {
  if (!has_ranges(place)) return Error(Status::kRetry);
  const Allocation& allocation = *opened.allocation;
  const std::optional<SwizzlingRanges::Shown> shown =
      ranges_.acquire({.allocation = allocation.id,
                       .driver_allocation = opened.driver_allocation,
                       .private_data = look.private_data,
                       .segment = place.segment,
                       .size_bytes = allocation.size_bytes,
                       .size_may_change = look.alternate_va,
                       .address = address});
  if (!shown.has_value()) return Error(Status::kRetry);
  opened.cpu().swizzling_range = shown->range;
  uint64_t bytes = shown->size_bytes;
  bus::MemoryWindow window;
  if (checked_align_up(bytes, kPageBytes, &bytes)) window = bar_window(shown->address, bytes);
  if (mappable(window)) return Windows{window};
  report_unmappable(place, shown->size_bytes, kAcquire);
  close(opened);
  ranges_.release_of(allocation.id);  // another answer may be of more use
  return Error(Status::kRetry);
}

Result<CpuWindows::Windows> CpuWindows::through_host_aperture(OpenedAllocation& opened,
                                                              const vidmm::Placement& place) {
  const port::SegmentInfo& info = core_.segment_infos().segments[place.segment.value - 1];
  const uint64_t count = opened.allocation->size_bytes / kPageBytes;
  const std::vector<uint32_t> pages = take_host_pages(place.segment, count);
  if (pages.empty()) return Error(Status::kRetry);
  std::vector<uint64_t> shown(count);
  for (uint64_t i = 0; i < count; ++i) shown[i] = place.offset_bytes / kPageBytes + i;
  const Status mapped = core_.port().cpu_access().map_cpu_host_aperture(
      opened.driver_allocation, place.segment, pages, shown);
  if (!is_success(mapped)) {
    drop_host_pages(place.segment, pages);
    return Error(Status::kRetry);
  }
  opened.cpu().host_segment = place.segment;
  opened.cpu().host_pages = pages;
  Windows windows;
  for (const uint32_t page : pages) {
    windows.push_back(bar_window(info.cpu_translated_address + page * kPageBytes, kPageBytes));
  }
  if (std::ranges::all_of(windows, mappable)) return windows;
  report_unmappable(place, count * kPageBytes, "DxgkDdiQueryAdapterInfo");
  close(opened);
  return Error(Status::kRetry);
}

bool CpuWindows::has_ranges(const vidmm::Placement& place) {
  const char* missing = !core_.port().has_entry(kAcquire)   ? kAcquire
                        : !core_.port().has_entry(kRelease) ? kRelease
                                                            : nullptr;
  const uint32_t count = core_.caps().number_of_swizzling_ranges;
  if (missing == nullptr && count != 0) return true;
  const bool aperture =
      core_.memory().segments()[place.segment.value - 1].kind == vidmm::SegmentKind::kAperture;
  core_.findings().report(verifier::Finding{
      .rule = "SEG-50",
      .severity = verifier::Severity::kViolation,
      .ddi = missing != nullptr ? missing : "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
      .actual =
          fmt::format("{} The CPU is to see {} segment {} at offset 0x{:X}.",
                      missing != nullptr ? fmt::format("{} is NULL.", missing)
                                         : "NumberOfSwizzlingRanges is 0.",
                      aperture ? "aperture" : "memory", place.segment.value, place.offset_bytes),
      .expected = "A driver whose allocations are seen through a swizzling range has ranges, and "
                  "sets one up before the CPU looks.",
      .fix = "Implement DxgkDdiAcquireSwizzlingRange and DxgkDdiReleaseSwizzlingRange and report "
             "NumberOfSwizzlingRanges; or clear CpuVisible of the aperture segment, and lock "
             "without AcquireAperture.",
      .why = "Nobody else can point the window behind the BAR at the content."});
  return false;
}

void CpuWindows::report_unmappable(const vidmm::Placement& place, uint64_t bytes,
                                   const char* ddi) const {
  core_.findings().report(verifier::Finding{
      .rule = "SEG-19",
      .severity = verifier::Severity::kViolation,
      .ddi = ddi,
      .actual = fmt::format("{} bytes of segment {} at offset 0x{:X} have a CPU address that "
                            "is in no memory BAR.",
                            bytes, place.segment.value, place.offset_bytes),
      .expected = "The CPU address of a visible segment, aperture or range lies in a BAR.",
      .fix = "Report the translated start of the BAR, as StartDevice was given it."});
}

void CpuWindows::note_written(OpenedAllocation& opened, std::span<const uint32_t> pages) {
  std::vector<vidmm::ByteRange>& written = opened.cpu().written;
  if (pages.empty()) written.push_back({0, opened.allocation->size_bytes});
  for (const uint32_t page : pages) written.push_back({page * kPageBytes, kPageBytes});
  std::ranges::sort(written, {}, &vidmm::ByteRange::offset_bytes);
  std::vector<vidmm::ByteRange> merged;
  for (const vidmm::ByteRange& range : written) {
    if (merged.empty() ||
        merged.back().offset_bytes + merged.back().size_bytes < range.offset_bytes) {
      merged.push_back(range);
      continue;
    }
    vidmm::ByteRange& last = merged.back();
    const uint64_t end = range.offset_bytes + range.size_bytes;
    last.size_bytes = std::max(last.offset_bytes + last.size_bytes, end) - last.offset_bytes;
  }
  written = std::move(merged);
}

void CpuWindows::write_up(OpenedAllocation& opened) {
  std::vector<vidmm::PagingOp> operations;
  for (const vidmm::ByteRange& part : opened.cpu().written) {
    const std::optional<vidmm::PagingOp> op = core_.memory().write_up(opened.allocation->id, part);
    if (op.has_value()) operations.push_back(*op);
  }
  if (!operations.empty()) floor_.paging->enqueue(operations, nullptr);
}

void CpuWindows::close(OpenedAllocation& opened) {
  CpuAccess* const cpu = opened.cpu_if_any();
  if (cpu == nullptr) return;
  if (cpu->swizzling_range.has_value()) {
    ranges_.end_use(*cpu->swizzling_range);
    cpu->swizzling_range.reset();
  }
  if (cpu->host_pages.empty()) return;
  // Of a driver that keeps them mapped other pages are used: nothing is lost but those.
  static_cast<void>(
      core_.port().cpu_access().unmap_cpu_host_aperture(cpu->host_segment, cpu->host_pages));
  drop_host_pages(cpu->host_segment, cpu->host_pages);
  cpu->host_pages.clear();
}

void CpuWindows::leaving(const vidmm::PagingOp& op) {
  using Kind = vidmm::PagingOp::Kind;
  if (op.kind != Kind::kTransferOut && op.kind != Kind::kDiscard &&
      op.kind != Kind::kUnmapAperture && op.kind != Kind::kContentLost) {
    return;
  }
  const Allocation& allocation = floor_.allocations.at(op.allocation);
  for (OpenedAllocation* opened : allocation.opened) {
    CpuAccess* const cpu = opened->cpu_if_any();
    if (cpu == nullptr) continue;
    // Behind an aperture the content stays where it is, in the backing pages.
    if (op.kind == Kind::kUnmapAperture && cpu->view != nullptr) show(*opened, backing(allocation));
    close(*opened);
  }
  ranges_.release_of(allocation.id);
  kept_views_.drop(allocation.id.value);
}

void CpuWindows::forget(const Allocation& allocation) {
  ranges_.release_of(allocation.id);
  kept_views_.drop(allocation.id.value);
}

void CpuWindows::hardware_was_reset() {
  for (DeviceMemory* device : floor_.device_memories) {
    for (OpenedAllocation* opened : device->openings) close(*opened);
  }
}

void CpuWindows::follow(OpenedAllocation& opened, const vidmm::Placement& place) {
  CpuAccess* const cpu = opened.cpu_if_any();
  if (cpu == nullptr || cpu->view == nullptr) return;
  if (place.segment != kSystemMemory && cpu->told()) return;  // it stayed, and is shown as it was
  Result<Windows> windows = open(opened, cpu->look, place);
  if (!windows.has_value()) {
    // Nobody to ask for another way: better as it lies there than what it was. An aperture leads to
    // the backing pages.
    const vidmm::SegmentDesc& segment = core_.memory().segments()[place.segment.value - 1];
    windows = segment.kind == vidmm::SegmentKind::kAperture
                  ? Result<Windows>(backing(*opened.allocation))
                  : plain(*opened.allocation, place);
  }
  if (windows.has_value()) show(opened, std::move(*windows));
}

void CpuWindows::show(OpenedAllocation& opened, Windows windows) {
  bus::CpuView& view = *opened.cpu().view;
  uint64_t left = view.size();
  Windows fitting;
  for (bus::MemoryWindow window : windows) {
    window.size = std::min(window.size, left);
    left -= window.size;
    if (window.size != 0) fitting.push_back(window);
  }
  const bus::PhysicalAddress nothing{floor_.paging->dummy_page()};
  for (; left != 0; left -= kPageBytes)
    fitting.push_back(core_.machine().window_of(nothing, kPageBytes));
  shown_.erase(&view);  // it shows something else than it was made for
  // Without address space for another mapping the old one stays: our resources, and nothing of it
  // is a client's fault.
  static_cast<void>(view.retarget(fitting));
}

std::vector<uint32_t> CpuWindows::take_host_pages(SegmentId segment, uint64_t count) {
  std::vector<bool>& taken = host_apertures_[segment.value];
  taken.resize(core_.segment_infos().segments[segment.value - 1].host_aperture_pages);
  std::vector<uint32_t> pages;
  for (uint32_t page = 0; page < taken.size() && pages.size() < count; ++page) {
    if (!taken[page]) pages.push_back(page);
  }
  if (pages.size() < count) return {};
  for (const uint32_t page : pages) taken[page] = true;
  return pages;
}

void CpuWindows::drop_host_pages(SegmentId segment, std::span<const uint32_t> pages) {
  std::vector<bool>& taken = host_apertures_[segment.value];
  for (const uint32_t page : pages) taken[page] = false;
}

}  // namespace dxgkit::dxgk
