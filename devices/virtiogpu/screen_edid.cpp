#include "devices/virtiogpu/screen_edid.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/check.h"

namespace dxgkit::virtiogpu {
namespace {

constexpr size_t kBlockBytes = 128, kTimingBytes = 18;
constexpr size_t kInBase = 2;      // detailed timings; the other two descriptors name and limit
constexpr size_t kInBaseMost = 4;  // without these
constexpr size_t kInExtension = 6;
constexpr uint8_t kDataBytes = 15;  // of data blocks, which leave room for just as many timings
constexpr uint32_t kHz = 60;
// Blanking of every mode; the parts are large enough for a driver that checks them.
constexpr uint32_t kBlankX = 160, kBlankY = 30, kFrontX = 48, kSyncX = 32, kFrontY = 3, kSyncY = 5;

uint8_t low(uint32_t value) { return static_cast<uint8_t>(value); }
uint8_t highs(uint32_t upper, uint32_t lower) {
  return static_cast<uint8_t>((upper >> 8) << 4 | lower >> 8);
}

uint32_t clock_of(const Mode& mode) {  // in units of 10 kHz
  return (mode.width + kBlankX) * (mode.height + kBlankY) * kHz / 10'000;
}

/// A detailed timing descriptor (EDID 1.4, 3.10.2).
void put_timing(const Mode& mode, uint8_t* to) {
  const uint32_t clock = std::min(clock_of(mode), 0xFFFFU);
  const uint32_t mm_x = mode.width * 254 / 960, mm_y = mode.height * 254 / 960;  // 96 per inch
  const uint8_t bytes[kTimingBytes] = {low(clock),
                                       low(clock >> 8),
                                       low(mode.width),
                                       low(kBlankX),
                                       highs(mode.width, kBlankX),
                                       low(mode.height),
                                       low(kBlankY),
                                       highs(mode.height, kBlankY),
                                       low(kFrontX),
                                       low(kSyncX),
                                       low(kFrontY << 4 | kSyncY),
                                       0,
                                       low(mm_x),
                                       low(mm_y),
                                       highs(mm_x, mm_y),
                                       0,
                                       0,
                                       0x18};  // separate syncs
  std::memcpy(to, bytes, sizeof(bytes));
}

void put_name(uint32_t scanout, uint8_t* to) {
  uint8_t bytes[kTimingBytes] = {0, 0, 0, 0xFC, 0};
  std::string_view name = "dxgkit 0\n";
  std::memset(bytes + 5, ' ', sizeof(bytes) - 5);
  std::memcpy(bytes + 5, name.data(), name.size());
  bytes[5 + 7] = static_cast<uint8_t>('0' + scanout % 10);
  std::memcpy(to, bytes, sizeof(bytes));
}

void put_limits(std::span<const Mode> modes, uint8_t* to) {
  uint32_t clock = 0, lines_least = UINT32_MAX, lines_most = 0;
  for (const Mode& mode : modes) {
    clock = std::max(clock, std::min(clock_of(mode), 0xFFFFU));
    lines_least = std::min(lines_least, (mode.height + kBlankY) * kHz / 1000);
    lines_most = std::max(lines_most, (mode.height + kBlankY) * kHz / 1000 + 1);
  }
  const uint8_t bytes[kTimingBytes] = {0,
                                       0,
                                       0,
                                       0xFD,
                                       0,
                                       low(kHz - 1),
                                       low(kHz + 1),
                                       low(std::max(lines_least, 1U)),
                                       low(std::min(lines_most, 255U)),
                                       low(clock / 1000 + 1),
                                       1,  // nothing but the limits
                                       '\n',
                                       ' ',
                                       ' ',
                                       ' ',
                                       ' ',
                                       ' ',
                                       ' '};
  std::memcpy(to, bytes, sizeof(bytes));
}

void close_block(uint8_t* block) {
  uint8_t sum = 0;
  for (size_t i = 0; i + 1 < kBlockBytes; ++i) sum = static_cast<uint8_t>(sum + block[i]);
  block[kBlockBytes - 1] = static_cast<uint8_t>(0x100 - sum);
}

}  // namespace

std::vector<uint8_t> make_edid(std::span<const Mode> modes, uint32_t scanout, EdidDamage damage) {
  DXGKIT_CHECK(!modes.empty());
  DXGKIT_CHECK(modes.size() <= kModesMost);
  const bool crowded = modes.size() > kInBase + kInExtension;
  const size_t in_base = std::min(modes.size(), crowded ? kInBaseMost : kInBase);
  const bool extended = modes.size() > in_base;
  std::vector<uint8_t> edid(extended ? 2 * kBlockBytes : kBlockBytes);
  uint8_t* const base = edid.data();
  constexpr uint8_t kHead[] = {0,    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0,    0x13, 0x07,  // "DXG"
                               0x50, 0x10,           // product
                               0,    0,    0,    0,  // serial number: below
                               1,    30,             // week, year since 1990
                               1,    4,              // version
                               0xA5,                 // digital, 8 bits per colour
                               34,   19,             // centimetres
                               120,                  // gamma 2.2
                               0x06,                 // sRGB; the first timing is preferred
                               0xEE, 0x91, 0xA3, 0x54, 0x4C, 0x99, 0x26, 0x0F, 0x50, 0x54};
  std::memcpy(base, kHead, sizeof(kHead));
  constexpr uint16_t kLetters = ('D' - 'A' + 1) << 10 | ('X' - 'A' + 1) << 5 | ('G' - 'A' + 1);
  base[8] = kLetters >> 8;
  base[9] = kLetters & 0xFF;
  base[12] = static_cast<uint8_t>(scanout + 1);
  for (size_t i = 38; i < 54; ++i) base[i] = 1;  // no standard timings
  for (size_t i = 0; i < std::max(in_base, kInBase); ++i) {
    uint8_t* const to = base + 54 + i * kTimingBytes;
    if (i < in_base) {
      put_timing(modes[i], to);
    } else {
      to[3] = 0x10;  // unused
    }
  }
  if (!crowded) {
    put_name(scanout, base + 54 + 2 * kTimingBytes);
    put_limits(modes, base + 54 + 3 * kTimingBytes);
  }
  base[126] = extended ? 1 : 0;
  close_block(base);
  if (damage != EdidDamage::kNone) base[54 + 2] ^= 0x40;  // the first timing's width
  if (damage == EdidDamage::kHead) {
    ++base[7];
    close_block(base);
  }
  if (!extended) return edid;
  uint8_t* const more = base + kBlockBytes;
  more[0] = 2;  // CTA-861
  more[1] = 3;
  more[2] = 4 + kDataBytes;  // timings begin here
  // Data of a vendor: its number, then anything.
  more[4] = 3 << 5 | (kDataBytes - 1);
  for (uint8_t i = 1; i < kDataBytes; ++i) more[4 + i] = static_cast<uint8_t>(0x50 + i);
  uint8_t* const timings = more + more[2];
  for (size_t i = in_base; i < modes.size(); ++i)
    put_timing(modes[i], timings + (i - in_base) * kTimingBytes);
  if (modes.size() - in_base < kInExtension)
    put_timing(modes[0], timings + (modes.size() - in_base) * kTimingBytes);
  close_block(more);
  return edid;
}

}  // namespace dxgkit::virtiogpu
