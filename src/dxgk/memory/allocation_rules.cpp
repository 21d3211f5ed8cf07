#include "dxgk/memory/allocation_rules.h"

#include <fmt/format.h>

#include <bit>

#include "base/arithmetic.h"
#include "base/interface_versions.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/segment_flags.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint64_t kLargePageBytes = 65536;

struct Broken {
  const char* rule;
  std::string actual, expected, fix;
};

void report(AdapterCore& core, Broken broken, const char* ddi = "DxgkDdiCreateAllocation") {
  core.findings().report(verifier::Finding{.rule = broken.rule,
                                           .severity = verifier::Severity::kViolation,
                                           .ddi = ddi,
                                           .actual = std::move(broken.actual),
                                           .expected = std::move(broken.expected),
                                           .fix = std::move(broken.fix)});
}

/// ALLOC-16: the CPU reaches a primary wherever it is written, unless the driver says that it need
/// not.
std::optional<Broken> check_primary_place(const port::AllocationInfo& info,
                                          const AdapterCore& core) {
  if (!info.primary || core.caps().non_cpu_visible_primary) return std::nullopt;
  const auto& segments = core.segment_infos().segments;
  constexpr uint32_t kReached = kSegmentCpuVisible | kSegmentAperture | kSegmentAgp;
  for (size_t i = 0; i < segments.size() && i < 32; ++i) {
    if ((info.supported_write >> i & 1U) == 0 || (segments[i].flags & kReached) != 0) continue;
    return Broken{"ALLOC-16",
                  fmt::format("The primary has SupportedWriteSegmentSet 0x{:X}; segment {} has "
                              "Flags 0x{:08X}, which the CPU cannot reach.",
                              info.supported_write, i + 1, segments[i].flags),
                  "All segments of a primary's write set are CpuVisible or an aperture.",
                  "Clear segments the CPU cannot reach from the set, or report "
                  "NonCpuVisiblePrimary."};
  }
  return std::nullopt;
}

std::optional<Broken> check_flags(const port::AllocationInfo& info, uint32_t version) {
  const uint32_t flags = info.flags;
  if (version >= kInterfaceWddm20 && (flags & kAllocationExplicitResidencyNotification) != 0 &&
      (flags & kAllocationAccessedPhysically) == 0) {
    return Broken{
        "ALLOC-18",
        fmt::format("FlagsWddm2 are 0x{:08X}: ExplicitResidencyNotification without "
                    "AccessedPhysically.",
                    flags),
        "ExplicitResidencyNotification needs AccessedPhysically.",
        "Set AccessedPhysically too: only what is accessed by physical address has one to be told "
        "of."};
  }
  const bool cpu_visible = (flags & kAllocationCpuVisible) != 0;
  constexpr uint32_t kNeedCpuVisible =
      kAllocationPermanentSysMem | kAllocationCached | kAllocationHistoryBuffer;
  if ((flags & kNeedCpuVisible) != 0 && !cpu_visible) {
    return Broken{
        "ALLOC-15",
        fmt::format(
            "Flags are 0x{:08X}: PermanentSysMem, Cached or HistoryBuffer without CpuVisible.",
            flags),
        "Each of them needs CpuVisible.", "Set CpuVisible too."};
  }
  constexpr uint32_t kSystem =
      kAllocationPermanentSysMem | kAllocationExistingSysMem | kAllocationExistingKernelSysMem;
  if ((flags & kAllocationProtected) != 0 && (flags & kSystem) != 0) {
    return Broken{"ALLOC-15",
                  fmt::format("Flags are 0x{:08X}: Protected beside a system-memory flag.", flags),
                  "Protected excludes PermanentSysMem, ExistingSysMem and ExistingKernelSysMem.",
                  "Clear one of them."};
  }
  if (std::popcount(flags & kSystem) > 1) {
    return Broken{"ALLOC-15",
                  fmt::format("Flags are 0x{:08X}: several system-memory flags.", flags),
                  "PermanentSysMem, ExistingSysMem and ExistingKernelSysMem exclude each other.",
                  "Set at most one."};
  }
  if (info.primary && (flags & (kSystem | kAllocationCached | kAllocationProtected)) != 0) {
    return Broken{"ALLOC-16", fmt::format("The primary has Flags 0x{:08X}.", flags),
                  "A primary carries none of PermanentSysMem, Cached, Protected, ExistingSysMem, "
                  "ExistingKernelSysMem.",
                  "Clear them for primaries."};
  }
  if ((flags & kAllocationUseAlternateVa) != 0 && !info.primary) {
    return Broken{
        "ALLOC-17",
        fmt::format("Flags are 0x{:08X}: UseAlternateVA on an allocation that is no primary.",
                    flags),
        "UseAlternateVA is for primaries only.", "Clear UseAlternateVA."};
  }
  return std::nullopt;
}

std::optional<Broken> check_sets(const port::AllocationInfo& info, const AdapterCore& core) {
  const auto& segments = core.segment_infos().segments;
  const uint32_t known = segments.size() >= 32 ? UINT32_MAX : (1U << segments.size()) - 1;
  // ALLOC-08: from 2.0 on the read set is not looked at.
  const uint32_t supported = core.interface_version() >= kInterfaceWddm20
                                 ? info.supported_write
                                 : info.supported_read | info.supported_write;
  if (supported == 0 || (supported & ~known) != 0) {
    return Broken{
        "ALLOC-07",
        fmt::format("SupportedReadSegmentSet is 0x{:X}, SupportedWriteSegmentSet 0x{:X}; the "
                    "adapter has {} segments.",
                    info.supported_read, info.supported_write, segments.size()),
        "The supported sets name segments of the adapter, bit n for id n + 1, and are not empty.",
        "Set the bits of the segments the allocation may live in."};
  }
  for (uint32_t i = 0; i < 5; ++i) {
    const uint32_t id = info.preferred >> (6 * i) & 0x1FU;
    if (id != 0 && (supported >> (id - 1) & 1U) == 0) {
      return Broken{
          "ALLOC-07",
          fmt::format("PreferredSegment {} names segment {}; the supported set is 0x{:X}.", i, id,
                      supported),
          "Preferred segments are a subset of the supported set.",
          "Add the segment to the supported set, or prefer another."};
    }
  }
  for (size_t i = 0; i < segments.size() && i < 32; ++i) {
    if ((info.eviction >> i & 1U) != 0 && (segments[i].flags & kSegmentAperture) == 0) {
      return Broken{"ALLOC-09",
                    fmt::format("EvictionSegmentSet is 0x{:X}; segment {} is no aperture.",
                                info.eviction, i + 1),
                    "EvictionSegmentSet names aperture segments only; 0 evicts to system pages.",
                    "Clear memory segments from it."};
    }
  }
  return std::nullopt;
}

}  // namespace

Status check_existing_memory(const port::AllocationInfo& info, AdapterCore& core, bool given,
                             uint64_t user_bytes) {
  const bool said = (info.flags & kAllocationExistingSysMem) != 0;
  if (!given && !said) return Status::kSuccess;
  const auto& segments = core.segment_infos().segments;
  uint32_t memory = 0;
  for (size_t i = 0; i < segments.size() && i < 32; ++i) {
    if ((segments[i].flags & kSegmentAperture) == 0) memory |= 1U << i;
  }
  // ALLOC-08: below 2.0 the read set counts too.
  const uint32_t supported = core.interface_version() >= kInterfaceWddm20
                                 ? info.supported_write
                                 : info.supported_read | info.supported_write;
  std::optional<Broken> broken;
  if (given != said) {
    broken = Broken{"ALLOC-20",
                    fmt::format("Flags are 0x{:08X}; the client {} existing memory.", info.flags,
                                given ? "gives" : "gives no"),
                    "ExistingSysMem is set exactly for allocations whose backing the client gives.",
                    "Tell the kinds apart in the private data, and set ExistingSysMem for it."};
  } else if (user_bytes != 0 && info.size != user_bytes) {
    broken = Broken{"ALLOC-20",
                    fmt::format("Size is {}; the client gives {} bytes.", info.size, user_bytes),
                    "Size is that of the memory given.", "Report the size that was described."};
  } else if (info.size % kPageBytes != 0) {
    broken = Broken{"ALLOC-20", fmt::format("Size is {}.", info.size),
                    "Existing memory is whole pages.", "Round Size to whole pages."};
  } else if ((supported & memory) != 0) {
    broken =
        Broken{"ALLOC-20",
               fmt::format("The supported sets are 0x{:X} and 0x{:X}; 0x{:X} are memory segments.",
                           info.supported_read, info.supported_write, memory),
               "Existing memory stays where it is: only aperture segments can show it.",
               "Name aperture segments only."};
  }
  if (!broken.has_value()) return Status::kSuccess;
  report(core, std::move(*broken));
  return Status::kInvalidParameter;
}

Status check_allocation_info(const port::AllocationInfo& info, AdapterCore& core,
                             vidmm::AllocationDesc* desc, const char* ddi) {
  std::optional<Broken> broken;
  uint64_t size = 0;
  if (info.size == 0 || !checked_align_up(info.size, kPageBytes, &size)) {
    broken = Broken{"ALLOC-06", fmt::format("Size is 0x{:X}.", info.size),
                    "Size is not zero and can be rounded up to whole pages.",
                    "Report the bytes the allocation needs."};
  } else if (info.alignment != 0 && !is_power_of_two(info.alignment)) {
    broken =
        Broken{"ALLOC-06", fmt::format("Alignment is 0x{:X}.", info.alignment),
               "Alignment is 0 or a power of two.", "Round the alignment up to a power of two."};
  }
  if (!broken.has_value()) broken = check_flags(info, core.interface_version());
  if (!broken.has_value()) broken = check_sets(info, core);
  if (!broken.has_value()) broken = check_primary_place(info, core);
  if (broken.has_value()) {
    report(core, std::move(*broken), ddi);
    return Status::kInvalidParameter;
  }
  uint64_t alignment = std::max<uint64_t>(info.alignment, kPageBytes);
  const auto& segments = core.segment_infos().segments;
  const uint32_t supported = core.interface_version() >= kInterfaceWddm20
                                 ? info.supported_write
                                 : info.supported_read | info.supported_write;
  for (uint32_t left = supported; left != 0; left &= left - 1) {  // check_sets knows them all
    const auto i = static_cast<size_t>(std::countr_zero(left));
    if ((segments[i].flags & kSegmentUse64KbPages) == 0) continue;
    if (info.alignment % kLargePageBytes != 0 || info.alignment == 0) {  // SEG-42
      report(core,
             Broken{"SEG-42",
                    fmt::format("Alignment is 0x{:X}; segment {} uses 64 KiB pages.",
                                info.alignment, i + 1),
                    "Allocations that may go to such a segment are aligned to multiples of 64 KiB.",
                    "Set Alignment to 0x10000."});
      return Status::kInvalidParameter;
    }
    if (!checked_align_up(size, kLargePageBytes, &size)) return Status::kInvalidParameter;
    alignment = std::max(alignment, kLargePageBytes);
  }
  if (info.pitch_aligned_size != 0 && info.pitch_aligned_size < info.size) {
    report(core, Broken{"ALLOC-14",
                        fmt::format("PitchAlignedSize is 0x{:X}, Size 0x{:X}.",
                                    info.pitch_aligned_size, info.size),
                        "PitchAlignedSize is 0 or at least Size.",
                        "Leave it 0 without a PitchAlignment segment."});
  }
  uint32_t priority = info.priority;
  if (priority == 0) {
    report(core, Broken{"ALLOC-13", "AllocationPriority is 0.",
                        "It is not 0; D3DDDI_ALLOCATIONPRIORITY_NORMAL is used.",
                        "Set AllocationPriority = D3DDDI_ALLOCATIONPRIORITY_NORMAL when you "
                        "have no preference."});
    priority = kAllocationPriorityNormal;
  }
  desc->size_bytes = size;
  desc->alignment_bytes = alignment;
  if (info.pitch_aligned_size >= info.size &&
      !checked_align_up(info.pitch_aligned_size, kPageBytes, &desc->pitch_aligned_size_bytes)) {
    return Status::kInvalidParameter;
  }
  desc->supported_write = info.supported_write;
  desc->supported_read =
      core.interface_version() >= kInterfaceWddm20 ? info.supported_write : info.supported_read;
  desc->eviction = info.eviction;
  for (uint32_t i = 0; i < 5; ++i) {
    const uint32_t slot = info.preferred >> (6 * i);
    desc->preferred[i] = {SegmentId{slot & 0x1FU}, (slot >> 5 & 1U) != 0
                                                       ? vidmm::SearchFrom::kTop
                                                       : vidmm::SearchFrom::kBottom};
  }
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t slot = info.bank_hints >> (8 * i);
    desc->banks[i] = {slot & 0x7FU,
                      (slot >> 7 & 1U) != 0 ? vidmm::SearchFrom::kTop : vidmm::SearchFrom::kBottom};
  }
  desc->priority = priority;
  desc->from_end_of_segment = (info.flags & kAllocationFromEndOfSegment) != 0;
  desc->cpu_visible = (info.flags & kAllocationCpuVisible) != 0;
  desc->cached = (info.flags & kAllocationCached) != 0;
  desc->permanent_system_memory = (info.flags & kAllocationPermanentSysMem) != 0;
  if ((info.flags & (kAllocationOverlay | kAllocationCapture)) != 0)
    desc->pinned = desc->last_fifth = true;  // ALLOC-49
  desc->notify_residency = core.interface_version() >= kInterfaceWddm20 &&
                           (info.flags & kAllocationExplicitResidencyNotification) != 0;
  desc->notify_eviction = core.interface_version() >= kInterfaceWddm32 &&
                          (info.flags2 & kAllocationNotifyEviction) != 0;
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
