// The EDID that the device gives for a list of sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dxgkit::virtiogpu {

struct Mode {
  uint32_t width = 0, height = 0;  // pixels: even, kModeLeast to kModeMost in an EDID
  bool operator==(const Mode&) const = default;
};

inline constexpr uint32_t kModeLeast = 64, kModeMost = 4094;  // 12 bits of a detailed timing
inline constexpr size_t kModesMost = 10;                      // as many as two blocks can name

/// What a bad cable has done to an EDID: it is none by its first bytes, or the sum of its first
/// block is wrong. Its first timing is of another size then.
enum class EdidDamage : uint8_t { kNone, kHead, kSum };

/// EDID 1.4 of a monitor with these modes at 60 Hz, one to kModesMost, the preferred one first.
/// More than two take an extension block (CTA-861), in which data blocks come before the timings,
/// so that these end with the block. If it has room it names the preferred one once more, as many
/// monitors do. With more than eight modes there is no room for the monitor's name and limits.
std::vector<uint8_t> make_edid(std::span<const Mode> modes, uint32_t scanout,
                               EdidDamage damage = EdidDamage::kNone);

}  // namespace dxgkit::virtiogpu
