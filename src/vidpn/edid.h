// EDID: a bounded reader for EDIDs of drivers and monitors, and a writer for simulated monitors.
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "vidpn/types.h"

namespace dxgkit::vidpn {

inline constexpr size_t kEdidBlockBytes = 128;

/// One timing. Horizontal values in pixels, vertical in lines of one frame.
struct EdidTiming {
  enum class Kind { kEstablished, kStandard, kDetailed };
  Kind kind = Kind::kDetailed;
  uint32_t pixel_clock_hz = 0;  // 0: established and standard timings name no clock
  uint32_t width = 0, height = 0, total_width = 0, total_height = 0;  // totals 0 where not named
  uint32_t refresh_millihertz = 0;  // fields per second if interlaced
  bool interlaced = false;
  bool operator==(const EdidTiming&) const = default;
};

/// The content of the base block of an EDID 1.x.
struct Edid {
  std::string manufacturer;  // three letters
  uint16_t product = 0;
  uint32_t serial = 0;
  uint8_t version = 1, revision = 4;
  std::string name;  // monitor name descriptor; may be empty
  bool has_range_limits = false;
  uint32_t vsync_min_hz = 0, vsync_max_hz = 0, hsync_min_khz = 0, hsync_max_khz = 0,
           pixel_clock_max_mhz = 0;
  std::vector<EdidTiming> timings;  // preferred (first detailed) first; no doubles
  uint8_t extension_blocks = 0;     // promised by byte 126
};

/// Reads the base block of `bytes` (hostile). Nothing is read beyond it. kInvalidParameter with the
/// reason in `*why` (may be null): too short, wrong header, wrong checksum, version other than 1.
/// Timings without sense (zero sizes, zero clock) are left out, not refused.
Result<Edid> parse_edid(std::span<const std::byte> bytes, std::string* why = nullptr);

/// Writes a base block with a right checksum. The preferred timing comes first. Name and range
/// limits take a slot each, so up to four detailed timings fit beside them. Other timings become
/// standard timings where these can encode them.
std::vector<std::byte> build_edid(const Edid& edid);
/// A plausible 1920x1080 monitor, 60 Hz preferred.
Edid default_edid();

/// The kernel's view of a monitor with this EDID: modes, one range, one descriptor per complete
/// block in `bytes`. Bytes that are no EDID give the error of parse_edid.
Result<Monitor> monitor_from_edid(std::span<const std::byte> bytes);
/// The monitor that Windows assumes if there is no descriptor: 640x480 to 1920x1080 at 60 Hz,
/// 1024x768 preferred, no descriptor, origin default profile.
Monitor default_monitor();

}  // namespace dxgkit::vidpn
