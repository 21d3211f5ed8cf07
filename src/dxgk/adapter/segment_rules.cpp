#include "dxgk/adapter/segment_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/arithmetic.h"
#include "base/interface_versions.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint32_t kMaxSegments = 32;
constexpr uint32_t kMaxBanks = 127;

/// Flag bits a driver of this version can know.
uint32_t known_flags(uint32_t interface_version) {
  uint32_t bits = 10;
  if (interface_version >= kInterfaceWin8) bits = 11;
  if (interface_version >= kInterfaceWddm20) bits = 21;
  if (interface_version >= kInterfaceWddm29) bits = 22;
  return (1U << bits) - 1;
}

bool preservation_valid(uint32_t flags) {
  const bool standby = (flags & kSegmentPreservedDuringStandby) != 0;
  const bool hibernate = (flags & kSegmentPreservedDuringHibernate) != 0;
  const bool partially = (flags & kSegmentPartiallyPreservedDuringHibernate) != 0;
  if (hibernate && partially) return false;
  return standby || (!hibernate && !partially);
}

std::optional<SegmentRefusal> check_flags(uint32_t id, const port::SegmentInfo& segment,
                                          uint32_t version, bool has_agp) {
  const uint32_t flags = segment.flags;
  if (const uint32_t unknown = flags & ~known_flags(version); unknown != 0) {
    return SegmentRefusal{
        "SEG-16",
        fmt::format("Segment {} has Flags 0x{:08X}; bits 0x{:08X} are not defined.", id, flags,
                    unknown),
        fmt::format("Only bits the interface version 0x{:X} defines are set.", version),
        "Zero the descriptor, then set flags by name."};
  }
  if ((flags & kSegmentReservedSysMem) != 0) {
    return SegmentRefusal{"SEG-44", fmt::format("Segment {} sets ReservedSysMem.", id),
                          "ReservedSysMem is never set by a driver.", "Clear the bit."};
  }
  if ((flags & kSegmentAgp) != 0 && flags != kSegmentAgp) {
    return SegmentRefusal{
        "SEG-13", fmt::format("Segment {} has Flags 0x{:08X}: Agp beside other bits.", id, flags),
        "Agp stands alone; an AGP segment is an aperture and CPU-visible by nature.",
        "Set only Agp."};
  }
  if ((flags & kSegmentAgp) != 0 && !has_agp) {
    return SegmentRefusal{
        "SEG-12",
        fmt::format("Segment {} is an AGP segment; DXGK_QUERYSEGMENTIN described no AGP aperture.",
                    id),
        "An Agp segment is reported only when the input describes an AGP aperture.",
        "Report Agp only when AgpApertureSize of the input is not zero."};
  }
  if (!preservation_valid(flags)) {
    return SegmentRefusal{
        "SEG-35",
        fmt::format("Segment {} has preservation bits 0x{:X} (Flags 0x{:08X}).", id,
                    flags >> 7 & 7U, flags),
        "Standby, Hibernate, Partially are 000, 100, 110 or 101.",
        "Set PreservedDuringStandby with either hibernate bit, and only one of those."};
  }
  if ((flags & kSegmentSupportsCpuHostAperture) != 0 && (flags & kSegmentCpuVisible) != 0) {
    return SegmentRefusal{
        "SEG-41", fmt::format("Segment {} sets SupportsCpuHostAperture and CpuVisible.", id),
        "A segment is CPU-visible or reached through the CPU host aperture, not both.",
        "Clear one of them."};
  }
  if ((flags & kSegmentSupportsCachedCpuHostAperture) != 0 &&
      (flags & kSegmentSupportsCpuHostAperture) == 0) {
    return SegmentRefusal{
        "SEG-41", fmt::format("Segment {} sets SupportsCachedCpuHostAperture alone.", id),
        "SupportsCachedCpuHostAperture needs SupportsCpuHostAperture.", "Set both or none."};
  }
  const bool partially = (flags & kSegmentPartiallyPreservedDuringHibernate) != 0;
  if (partially != (segment.system_memory_end != 0)) {
    return SegmentRefusal{
        "SEG-31",
        fmt::format("Segment {} has SystemMemoryEndAddress 0x{:X} and "
                    "PartiallyPreservedDuringHibernate {}.",
                    id, segment.system_memory_end, partially ? "set" : "clear"),
        "SystemMemoryEndAddress is non-zero exactly when PartiallyPreservedDuringHibernate is set.",
        "Set both, or neither."};
  }
  if (segment.reserved != 0) {
    return SegmentRefusal{"SEG-34",
                          fmt::format("Segment {} has Reserved = 0x{:X}.", id, segment.reserved),
                          "Reserved is zero.", "Zero the descriptor before filling it."};
  }
  return std::nullopt;
}

std::optional<SegmentRefusal> check_extent(uint32_t id, const port::SegmentInfo& segment) {
  if ((segment.flags & kSegmentAgp) != 0) return std::nullopt;  // SEG-18, SEG-23: not read
  if (segment.size == 0 || segment.size % kPageBytes != 0) {
    return SegmentRefusal{
        "SEG-22", fmt::format("Segment {} has Size 0x{:X}.", id, segment.size),
        "Size is a non-zero multiple of the host page, 4096 bytes.",
        "Round the size down to whole pages; report no segment for memory that is not there."};
  }
  if (segment.system_memory_end >= segment.size) {
    return SegmentRefusal{
        "SEG-32",
        fmt::format("Segment {} has SystemMemoryEndAddress 0x{:X} and Size 0x{:X}.", id,
                    segment.system_memory_end, segment.size),
        "SystemMemoryEndAddress is the offset of the last byte that hibernation keeps.",
        "Subtract 1 from the size of what lasts, and set no flag where that is 0."};
  }
  uint64_t end = 0;
  if (!checked_add(segment.base_address, segment.size, &end)) {
    return SegmentRefusal{"SEG-17",
                          fmt::format("Segment {} has BaseAddress 0x{:X} and Size 0x{:X}.", id,
                                      segment.base_address, segment.size),
                          "BaseAddress + Size fits in 64 bits.",
                          "Report the segment's start as the GPU sees it."};
  }
  return std::nullopt;
}

/// SEG-25, SEG-28: bank table of end offsets; wrong ones switch banking off.
std::vector<uint64_t> bank_ends(uint32_t id, const port::SegmentInfo& segment,
                                verifier::Findings& findings) {
  if ((segment.flags & kSegmentUseBanking) == 0) return {};
  const auto refuse = [&](const char* rule, std::string actual, std::string expected) {
    findings.report(verifier::Finding{
        .rule = rule,
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)",
        .actual = std::move(actual),
        .expected = std::move(expected),
        .fix = "Give NbOfBanks of 1 to 127 and strictly increasing end offsets inside the segment; "
               "banking is off for this segment until then."});
    return std::vector<uint64_t>{};
  };
  if ((segment.flags & kSegmentAperture) != 0) {
    return refuse("SEG-28", fmt::format("Segment {} is an aperture and sets UseBanking.", id),
                  "Banks divide memory segments only.");
  }
  if (segment.bank_count == 0 || segment.bank_count > kMaxBanks) {
    return refuse("SEG-28", fmt::format("Segment {} has NbOfBanks = {}.", id, segment.bank_count),
                  "NbOfBanks is 1 to 127.");
  }
  std::vector<uint64_t> ends;
  uint64_t last = 0;
  for (const uint64_t end : segment.bank_ends) {
    if (end <= last || end > segment.size) {
      return refuse("SEG-25",
                    fmt::format("Segment {} has a bank end 0x{:X} after 0x{:X}, Size 0x{:X}.", id,
                                end, last, segment.size),
                    "Bank end offsets are strictly increasing and do not pass Size.");
    }
    ends.push_back(end);
    last = end;
  }
  if (ends.empty() || ends.back() != segment.size)
    ends.push_back(segment.size);  // the last entry is optional
  return ends;
}

/// SEG-45: whole pages inside the segment. `ranges`: sorted and merged.
std::optional<SegmentRefusal> check_invalid_ranges(uint32_t id, const port::SegmentInfo& segment,
                                                   verifier::Findings& findings,
                                                   std::vector<vidmm::ByteRange>* ranges) {
  std::vector<port::MemoryRange> sorted = segment.invalid_ranges;
  std::ranges::sort(sorted, {}, &port::MemoryRange::offset);
  for (const port::MemoryRange& bad : sorted) {
    const bool pages = bad.offset % kPageBytes == 0 && bad.size % kPageBytes == 0;
    if (bad.size == 0 || !pages || !range_within(bad.offset, bad.size, segment.size)) {
      return SegmentRefusal{
          "SEG-45",
          fmt::format("Segment {} of Size 0x{:X} has a bad range at SegmentOffset 0x{:X}, "
                      "SizeInBytes 0x{:X}.",
                      id, segment.size, bad.offset, bad.size),
          "A bad range begins at a page and is one or more whole pages inside the segment.",
          "Round SegmentOffset down and SizeInBytes up to 4096; give offsets inside the segment, "
          "not addresses."};
    }
    const uint64_t end = bad.offset + bad.size;
    if (!ranges->empty() && bad.offset <= ranges->back().offset_bytes + ranges->back().size_bytes) {
      vidmm::ByteRange& last = ranges->back();
      const uint64_t last_end = last.offset_bytes + last.size_bytes;
      if (bad.offset < last_end) {
        findings.report(verifier::Finding{
            .rule = "SEG-45",
            .severity = verifier::Severity::kViolation,
            .ddi = "DxgkDdiQueryAdapterInfo(SEGMENTMEMORYSTATE)",
            .actual = fmt::format("Segment {} has bad ranges [0x{:X}, 0x{:X}) and [0x{:X}, "
                                  "0x{:X}), which overlap.",
                                  id, last.offset_bytes, last_end, bad.offset, end),
            .expected = "Bad ranges of a segment do not overlap; their union is used.",
            .fix = "Report each bad page once."});
      }
      last.size_bytes = std::max(last_end, end) - last.offset_bytes;
      continue;
    }
    ranges->push_back({bad.offset, bad.size});
  }
  return std::nullopt;
}

/// What nothing of the kernel depends on, and cannot be so all the same.
void report_oddities(uint32_t id, const port::SegmentInfo& segment, verifier::Findings& findings) {
  const auto report = [&](const char* rule, std::string actual, std::string expected,
                          std::string fix, std::string why) {
    findings.report(verifier::Finding{.rule = rule,
                                      .severity = verifier::Severity::kViolation,
                                      .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)",
                                      .actual = std::move(actual),
                                      .expected = std::move(expected),
                                      .fix = std::move(fix),
                                      .why = std::move(why)});
  };
  if ((segment.flags & kSegmentAgp) == 0 && segment.base_address % kPageBytes != 0) {
    report("SEG-17", fmt::format("Segment {} has BaseAddress 0x{:X}.", id, segment.base_address),
           "BaseAddress is a multiple of the host page, 4096 bytes.",
           "Report the segment's first page as the GPU sees it.",
           "Allocations begin at whole pages of a segment, and their alignment is that of their "
           "GPU address.");
  }
  constexpr uint32_t kGroups = kSegmentLocalBudgetGroup | kSegmentNonLocalBudgetGroup;
  if ((segment.flags & kGroups) == kGroups) {
    report("SEG-43",
           fmt::format("Segment {} has Flags 0x{:08X}: LocalBudgetGroup and NonLocalBudgetGroup.",
                       id, segment.flags),
           "A segment counts in one of the two groups.", "Clear one of them.",
           "An application is told the budget of each group.");
  }
}

/// SEG-43: which budget, and whether it counts there. A driver that marks no segment as a target
/// has every segment counted (our choice); without a group a memory segment is local, an aperture
/// is not (our choice).
void set_budget(const port::SegmentInfo& segment, bool any_target, vidmm::SegmentDesc* desc) {
  const bool local = (segment.flags & kSegmentLocalBudgetGroup) != 0;
  const bool other = (segment.flags & kSegmentNonLocalBudgetGroup) != 0;
  desc->group = desc->kind == vidmm::SegmentKind::kMemory ? vidmm::SegmentGroup::kLocal
                                                          : vidmm::SegmentGroup::kNonLocal;
  if (local != other)
    desc->group = local ? vidmm::SegmentGroup::kLocal : vidmm::SegmentGroup::kNonLocal;
  desc->application_target = !any_target || (segment.flags & kSegmentApplicationTarget) != 0;
}

}  // namespace

const char* why_segments_break(std::string_view rule) {
  struct Reason {
    std::string_view rule;
    const char* why;
  };
  static constexpr Reason kReasons[] = {
      {"SEG-05", "The array has room for as many descriptors as the first pass counted."},
      {"SEG-06", "Sets of segments are masks of 32 bits."},
      {"SEG-12", "Without an aperture there is no address an allocation could get there."},
      {"SEG-13", "Which of the two natures wins would be anybody's guess."},
      {"SEG-14", "Both would hand out the same addresses."},
      {"SEG-16", "A later version may give the bit a meaning the driver does not expect."},
      {"SEG-17", "Addresses of allocations at its end would begin at 0 again."},
      {"SEG-22",
       "Segments are managed by the page; the rest of the last one would be lost or "
       "would not be there."},
      {"SEG-31",
       "The kernel would not know what survives hibernation, and would lose content or "
       "save what need not be saved."},
      {"SEG-32",
       "What the segment is said to keep in hibernation ends behind its end, so nobody saves it."},
      {"SEG-34", "A later version may read it."},
      {"SEG-35", "The kernel would not know what content survives."},
      {"SEG-40",
       "Allocations of WDDM 2.x that are accessed physically in system memory have one "
       "aperture to be mapped in."},
      {"SEG-41", "The CPU would reach the same memory in two ways that do not know of each other."},
      {"SEG-44", "The kernel marks its own segment with it."},
      {"SEG-45", "An allocation placed there loses its content."},
      {"SEG-46", "Two allocations would have the same GPU address."},
      {"SEG-47",
       "Paging buffers must be readable while memory segments are empty or are being "
       "filled."},
      {"SEG-48", "Nothing could ever be moved."},
  };
  for (const Reason& reason : kReasons) {
    if (reason.rule == rule) return reason.why;
  }
  return "";
}

std::optional<SegmentRefusal> check_segment_rules(const port::SegmentsInfo& info,
                                                  const port::DriverCaps& caps,
                                                  uint32_t interface_version,
                                                  const SegmentSurroundings& around,
                                                  verifier::Findings& findings,
                                                  std::vector<vidmm::SegmentDesc>* segments) {
  const size_t count = info.segments.size();
  if (count == 0 || count > kMaxSegments) {
    return SegmentRefusal{"SEG-06", fmt::format("NbSegment is {}.", count), "1 to 32 segments.",
                          "Report the segments the GPU has."};
  }
  if (count == kMaxSegments) {
    findings.report(verifier::Finding{
        .rule = "SEG-06",
        .severity = verifier::Severity::kWarning,
        .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)",
        .actual = "NbSegment is 32.",
        .expected = "Segment ids 1..31: five-bit id fields cannot name segment 32.",
        .fix = "Use at most 31 segments if the last shall be preferred or pre-patched."});
  }
  const bool any_target = std::ranges::any_of(info.segments, [](const port::SegmentInfo& segment) {
    return (segment.flags & kSegmentApplicationTarget) != 0;
  });
  size_t aperture_count = 0;
  size_t agp_count = 0;
  for (size_t i = 0; i < count; ++i) {
    const port::SegmentInfo& segment = info.segments[i];
    const auto id = static_cast<uint32_t>(i + 1);
    if (std::optional<SegmentRefusal> refusal =
            check_flags(id, segment, interface_version, around.agp.has_value()))
      return refusal;
    if (std::optional<SegmentRefusal> refusal = check_extent(id, segment)) return refusal;
    report_oddities(id, segment, findings);

    vidmm::SegmentDesc desc;
    desc.id = SegmentId{id};
    const bool agp = (segment.flags & kSegmentAgp) != 0;
    const bool aperture = agp || (segment.flags & kSegmentAperture) != 0;
    if (agp && ++agp_count > 1) {
      return SegmentRefusal{"SEG-14", fmt::format("Segment {} is the second AGP segment.", id),
                            "An adapter has at most one Agp segment: there is one AGP aperture.",
                            "Report the AGP aperture once."};
    }
    // Drivers that run on Windows do this: worth a word, not the adapter.
    if (!aperture && (segment.flags & kSegmentCacheCoherent) != 0) {
      findings.report(verifier::Finding{
          .rule = "SEG-37",
          .severity = verifier::Severity::kWarning,
          .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)",
          .actual = fmt::format("Segment {} sets CacheCoherent without Aperture.", id),
          .expected =
              "CacheCoherent is documented for aperture segments. Here the CPU looks at cached "
              "allocations of the segment as if it were coherent.",
          .fix = "Clear CacheCoherent unless the CPU's cache is coherent with that memory.",
          .confidence = verifier::Confidence::kInferred});
    }
    aperture_count += aperture ? 1 : 0;
    desc.kind = aperture ? vidmm::SegmentKind::kAperture : vidmm::SegmentKind::kMemory;
    desc.base_address = segment.base_address;
    desc.size_bytes = segment.size;
    desc.commit_limit_bytes = segment.size;
    if (agp) {  // SEG-18, SEG-23: what the machine has, all of it
      desc.agp = true;
      desc.base_address = around.agp->base.value;
      desc.size_bytes = desc.commit_limit_bytes = around.agp->size;
      if (caps.aperture_segment_commit_limit != 0) {
        desc.commit_limit_bytes =
            std::min(desc.commit_limit_bytes, caps.aperture_segment_commit_limit);
      }
    } else if (aperture) {  // SEG-30: the smaller of the segment's and the adapter's limit; zero
                            // would
                            // allow nothing
      desc.commit_limit_bytes = std::min(segment.size, segment.commit_limit);
      if (caps.aperture_segment_commit_limit != 0) {
        desc.commit_limit_bytes =
            std::min(desc.commit_limit_bytes, caps.aperture_segment_commit_limit);
      }
    } else if (interface_version < kInterfaceWddm20 && interface_version >= kInterfaceWin8 &&
               segment.commit_limit != segment.size) {
      findings.report(verifier::Finding{
          .rule = "SEG-29",
          .severity = verifier::Severity::kViolation,
          .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT3)",
          .actual = fmt::format("Memory segment {} has CommitLimit 0x{:X} and Size 0x{:X}.", id,
                                segment.commit_limit, segment.size),
          .expected = "CommitLimit of a memory segment equals its Size; Size is used.",
          .fix = "Set CommitLimit = Size."});
    }
    desc.cpu_visible = (segment.flags & kSegmentCpuVisible) != 0;
    desc.cache_coherent = aperture && (segment.flags & kSegmentCacheCoherent) != 0;
    desc.pitch_alignment = (segment.flags & kSegmentPitchAlignment) != 0;
    desc.use_64kb_pages = (segment.flags & kSegmentUse64KbPages) != 0;
    // SEG-19, SEG-20: read only where it means something.
    if (desc.cpu_visible && !aperture) desc.cpu_translated_address = segment.cpu_translated_address;
    desc.bank_end_offsets = bank_ends(id, segment, findings);
    set_budget(segment, any_target, &desc);
    if (std::optional<SegmentRefusal> refusal =
            check_invalid_ranges(id, segment, findings, &desc.invalid_ranges)) {
      return refusal;
    }
    segments->push_back(std::move(desc));
  }
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j) {
      const vidmm::SegmentDesc& a = (*segments)[i];
      const vidmm::SegmentDesc& b = (*segments)[j];
      if (a.base_address < b.base_address + b.size_bytes &&
          b.base_address < a.base_address + a.size_bytes) {
        return SegmentRefusal{
            "SEG-46",
            fmt::format("Segment {} [0x{:X}, 0x{:X}) overlaps segment {} [0x{:X}, 0x{:X}).", i + 1,
                        a.base_address, a.base_address + a.size_bytes, j + 1, b.base_address,
                        b.base_address + b.size_bytes),
            "Segments do not overlap in GPU address space.",
            "Give each segment its own range of addresses."};
      }
    }
  }
  if (interface_version >= kInterfaceWddm20 && aperture_count == 0) {
    findings.report(verifier::Finding{
        .rule = "SEG-40",
        .severity = verifier::Severity::kWarning,
        .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)",
        .actual = "No aperture segment is reported.",
        .expected = "A WDDM 2.x driver reports exactly one aperture segment.",
        .fix = "Report one segment with Aperture.",
        .why = "Without one nothing can be evicted but to system memory, by copying."});
  }
  if (interface_version >= kInterfaceWddm20 && aperture_count > 1) {
    return SegmentRefusal{"SEG-40",
                          fmt::format("{} aperture segments are reported.", aperture_count),
                          "A WDDM 2.x driver reports exactly one aperture segment.",
                          "Report one segment with Aperture."};
  }
  uint64_t memory_bytes = 0;
  bool host_aperture = false;
  for (size_t i = 0; i < count; ++i) {
    if ((*segments)[i].kind != vidmm::SegmentKind::kMemory) continue;
    memory_bytes += (*segments)[i].size_bytes;
    host_aperture =
        host_aperture || (info.segments[i].flags & kSegmentSupportsCpuHostAperture) != 0;
  }
  if (host_aperture && around.largest_memory_bar_bytes >= memory_bytes) {
    findings.report(verifier::Finding{
        .rule = "SEG-49",
        .severity = verifier::Severity::kWarning,
        .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)",
        .actual = fmt::format("A memory segment sets SupportsCpuHostAperture, and a BAR of 0x{:X} "
                              "bytes shows all 0x{:X} bytes of memory.",
                              around.largest_memory_bar_bytes, memory_bytes),
        .expected = "Memory that a BAR shows as a whole is one CpuVisible segment.",
        .fix = "Report one segment with CpuVisible when the BAR is as large as the memory; the CPU "
               "host aperture is for a BAR that could not be resized."});
  }
  if (info.paging_buffer_segment != 0) {
    const bool aperture =
        info.paging_buffer_segment <= count &&
        (*segments)[info.paging_buffer_segment - 1].kind == vidmm::SegmentKind::kAperture;
    if (!aperture) {
      return SegmentRefusal{
          "SEG-47",
          fmt::format("PagingBufferSegmentId is {}, which is no aperture segment.",
                      info.paging_buffer_segment),
          "Paging buffers live in an aperture segment, or in system memory (id 0).",
          "Set PagingBufferSegmentId to 0 or to an aperture segment."};
    }
  }
  if (info.paging_buffer_bytes == 0) {
    return SegmentRefusal{"SEG-48", "PagingBufferSize is 0.",
                          "A paging buffer has room for at least one operation.",
                          "Report the size in bytes one DxgkDdiBuildPagingBuffer call may need."};
  }
  return std::nullopt;
}

}  // namespace dxgkit::dxgk
