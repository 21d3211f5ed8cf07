// What a driver's segment description must satisfy before the memory manager may believe it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bus/machine.h"
#include "dxgk/core/segment_flags.h"
#include "port/types.h"
#include "verifier/findings.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

/// What the machine has around the adapter, as far as segments are concerned.
struct SegmentSurroundings {
  std::optional<bus::AgpAperture> agp;    // that the driver was told of (SEG-12)
  uint64_t largest_memory_bar_bytes = 0;  // SEG-49
};

/// Why the adapter does not start; becomes a finding.
struct SegmentRefusal {
  const char* rule;
  std::string actual, expected, fix;
};

/// What goes wrong with a segment that breaks `rule`; empty where the rule says it.
const char* why_segments_break(std::string_view rule);

/// Checks the whole description (SEG-05, 06, 12..14, 16, 17, 22, 25, 28, 29, 31, 34, 35, 37, 40,
/// 41, 43..47, 49) and fills `segments` for the memory manager. A refusal leaves `segments`
/// unspecified; milder violations are reported to `findings` and the value Windows would use is
/// taken (an odd base of SEG-17, SEG-25, SEG-28, SEG-29, both groups of SEG-43, overlaps of
/// SEG-45).
std::optional<SegmentRefusal> check_segment_rules(const port::SegmentsInfo& info,
                                                  const port::DriverCaps& caps,
                                                  uint32_t interface_version,
                                                  const SegmentSurroundings& around,
                                                  verifier::Findings& findings,
                                                  std::vector<vidmm::SegmentDesc>* segments);

}  // namespace dxgkit::dxgk
