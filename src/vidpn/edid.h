// EDID: a bounded reader of what drivers and monitors say, and a writer for the monitors we play.
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

/// What the base block of an EDID 1.x says.
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
/// Timings that make no sense (zero sizes, zero clock) are left out, not refused.
Result<Edid> parse_edid(std::span<const std::byte> bytes, std::string* why = nullptr);

/// A base block with a right checksum. Preferred timing first; up to four detailed ones fit with
/// name and limits (name and range limits take a slot each); other timings become standard timings
/// where they can be coded.
std::vector<std::byte> build_edid(const Edid& edid);
/// A plausible 1920x1080 monitor, 60 Hz preferred.
Edid default_edid();

/// The kernel's view of a monitor with this EDID: modes, one range, one descriptor per complete
/// block in `bytes`. Bytes that are no EDID: the error of parse_edid.
Result<Monitor> monitor_from_edid(std::span<const std::byte> bytes);
/// What Windows assumes of a monitor without descriptor: 640x480 to 1920x1080 at 60 Hz, 1024x768
/// preferred, no descriptor, origin default profile.
Monitor default_monitor();

}  // namespace dxgkit::vidpn
