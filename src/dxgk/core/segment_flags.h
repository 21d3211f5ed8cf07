// The flags of segments, as drivers write them.
#pragma once

#include <cstdint>

namespace dxgkit::dxgk {

/// Positions of DXGK_SEGMENTFLAGS (SEG-16).
enum SegmentFlag : uint32_t {
  kSegmentAperture = 1U << 0,
  kSegmentAgp = 1U << 1,
  kSegmentCpuVisible = 1U << 2,
  kSegmentUseBanking = 1U << 3,
  kSegmentCacheCoherent = 1U << 4,
  kSegmentPitchAlignment = 1U << 5,
  kSegmentPopulatedFromSystemMemory = 1U << 6,
  kSegmentPreservedDuringStandby = 1U << 7,
  kSegmentPreservedDuringHibernate = 1U << 8,
  kSegmentPartiallyPreservedDuringHibernate = 1U << 9,
  kSegmentDirectFlip = 1U << 10,
  kSegmentUse64KbPages = 1U << 11,
  kSegmentReservedSysMem = 1U << 12,
  kSegmentSupportsCpuHostAperture = 1U << 13,
  kSegmentSupportsCachedCpuHostAperture = 1U << 14,
  kSegmentApplicationTarget = 1U << 15,
  kSegmentLocalBudgetGroup = 1U << 19,
  kSegmentNonLocalBudgetGroup = 1U << 20,
};

}  // namespace dxgkit::dxgk
