#include "vidpn/edid.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "vidpn/vidpn.h"

namespace dxgkit::vidpn {
namespace {

constexpr size_t kDescriptorBytes = 18;
constexpr size_t kDescriptorsAt = 54;
constexpr size_t kDescriptors = 4;
constexpr size_t kEstablishedAt = 35;
constexpr size_t kStandardAt = 38;
constexpr size_t kStandards = 8;
constexpr uint8_t kTagName = 0xFC, kTagLimits = 0xFD, kTagStandards = 0xFA, kTagDummy = 0x10;
constexpr std::array<uint8_t, 8> kHeader = {0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x00};
constexpr uint32_t kRefreshMaxMillihertz = 1'000'000;

struct Established {
  uint8_t byte;  // 0..2
  uint8_t bit;
  uint16_t width, height;
  uint8_t hertz;
  bool interlaced;
};
// Established timings I, II and the manufacturer's one.
constexpr Established kEstablished[] = {
    {0, 7, 720, 400, 70, false},   {0, 6, 720, 400, 88, false},  {0, 5, 640, 480, 60, false},
    {0, 4, 640, 480, 67, false},   {0, 3, 640, 480, 72, false},  {0, 2, 640, 480, 75, false},
    {0, 1, 800, 600, 56, false},   {0, 0, 800, 600, 60, false},  {1, 7, 800, 600, 72, false},
    {1, 6, 800, 600, 75, false},   {1, 5, 832, 624, 75, false},  {1, 4, 1024, 768, 87, true},
    {1, 3, 1024, 768, 60, false},  {1, 2, 1024, 768, 70, false}, {1, 1, 1024, 768, 75, false},
    {1, 0, 1280, 1024, 75, false}, {2, 7, 1152, 870, 75, false}};

uint8_t checksum(std::span<const uint8_t> block) {
  uint32_t sum = 0;
  for (const uint8_t value : block) sum += value;
  return static_cast<uint8_t>(sum);
}

std::vector<uint8_t> numbers(std::span<const std::byte> bytes) {
  std::vector<uint8_t> out(bytes.size());
  std::ranges::transform(bytes, out.begin(),
                         [](std::byte value) { return static_cast<uint8_t>(value); });
  return out;
}

bool same_timing(const EdidTiming& left, const EdidTiming& right) {
  const auto hertz = [](const EdidTiming& timing) {
    return (timing.refresh_millihertz + 500) / 1000;
  };
  return left.width == right.width && left.height == right.height &&
         left.interlaced == right.interlaced && hertz(left) == hertz(right);
}

void add_timing(Edid* edid, const EdidTiming& timing) {
  if (timing.width == 0 || timing.height == 0) return;
  if (timing.refresh_millihertz < 1000 || timing.refresh_millihertz > kRefreshMaxMillihertz) return;
  if (std::ranges::any_of(edid->timings,
                          [&](const EdidTiming& other) { return same_timing(other, timing); }))
    return;
  edid->timings.push_back(timing);
}

EdidTiming read_detailed(std::span<const uint8_t> bytes) {
  EdidTiming timing;
  timing.kind = EdidTiming::Kind::kDetailed;
  timing.pixel_clock_hz = (uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8) * 10'000;
  const uint32_t active_x = bytes[2] | (bytes[4] & 0xF0U) << 4;
  const uint32_t blank_x = bytes[3] | (bytes[4] & 0x0FU) << 8;
  const uint32_t active_y = bytes[5] | (bytes[7] & 0xF0U) << 4;
  const uint32_t blank_y = bytes[6] | (bytes[7] & 0x0FU) << 8;
  timing.interlaced = (bytes[17] & 0x80U) != 0;
  timing.width = active_x;
  timing.total_width = active_x + blank_x;
  // An interlaced descriptor counts the lines of one field; a frame has half a line more in each.
  timing.height = timing.interlaced ? 2 * active_y : active_y;
  timing.total_height = timing.interlaced ? 2 * (active_y + blank_y) + 1 : active_y + blank_y;
  const uint64_t pixels = uint64_t{timing.total_width} * timing.total_height;
  if (pixels == 0) return timing;
  const uint64_t fields = timing.interlaced ? 2 : 1;
  const uint64_t refresh = uint64_t{timing.pixel_clock_hz} * 1000 * fields / pixels;
  timing.refresh_millihertz = refresh > kRefreshMaxMillihertz ? 0 : static_cast<uint32_t>(refresh);
  return timing;
}

/// False: the entry is unused.
bool read_standard(uint8_t first, uint8_t second, bool before_13, EdidTiming* timing) {
  if (first == 0 || (first == 1 && second == 1)) return false;
  *timing = {};
  timing->kind = EdidTiming::Kind::kStandard;
  timing->width = (uint32_t{first} + 31) * 8;
  switch (second >> 6) {
    case 0:
      timing->height = before_13 ? timing->width : timing->width * 10 / 16;
      break;
    case 1:
      timing->height = timing->width * 3 / 4;
      break;
    case 2:
      timing->height = timing->width * 4 / 5;
      break;
    default:
      timing->height = timing->width * 9 / 16;
      break;
  }
  timing->refresh_millihertz = ((second & 0x3FU) + 60) * 1000;
  return true;
}

void read_limits(std::span<const uint8_t> bytes, Edid* edid) {
  const uint8_t offsets = edid->revision >= 4 ? bytes[4] : 0;
  const auto limit = [&](size_t at, bool plus_255) {
    return uint32_t{bytes[at]} + (plus_255 ? 255U : 0U);
  };
  edid->has_range_limits = true;
  // Offsets: bit pairs 2 = maximum only, 3 = both, for the vertical and the horizontal rates.
  edid->vsync_min_hz = limit(5, (offsets & 3) == 3);
  edid->vsync_max_hz = limit(6, (offsets & 2) != 0);
  edid->hsync_min_khz = limit(7, (offsets >> 2 & 3) == 3);
  edid->hsync_max_khz = limit(8, (offsets >> 2 & 2) != 0);
  edid->pixel_clock_max_mhz = uint32_t{bytes[9]} * 10;
}

std::string read_text(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t value : bytes) {
    if (value == '\n') break;
    text += value >= 0x20 && value < 0x7F ? static_cast<char>(value) : '?';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

/// The lines that a detailed descriptor counts: of one field when interlaced. A negative blanking
/// wraps, and is too much for any descriptor.
struct DetailedCounts {
  uint32_t clock, width, blank_x, lines, blank_y;
};

DetailedCounts counts_of(const EdidTiming& timing) {
  const uint32_t lines = timing.interlaced ? timing.height / 2 : timing.height;
  const uint32_t total_lines =
      timing.interlaced ? (timing.total_height - 1) / 2 : timing.total_height;
  return {.clock = timing.pixel_clock_hz / 10'000,
          .width = timing.width,
          .blank_x = timing.total_width - timing.width,
          .lines = lines,
          .blank_y = total_lines - lines};
}

bool fits_detailed(const EdidTiming& timing) {
  const DetailedCounts counts = counts_of(timing);
  return counts.clock >= 1 && counts.clock <= 0xFFFF && counts.width >= 1 &&
         counts.width <= 0xFFF && counts.blank_x <= 0xFFF && counts.lines >= 1 &&
         counts.lines <= 0xFFF && counts.blank_y <= 0xFFF;
}

/// Of a timing that fits.
void put_detailed(const EdidTiming& timing, std::span<uint8_t> out) {
  const auto [clock, width, blank_x, lines, blank_y] = counts_of(timing);
  // Porch and pulse in the proportions of 1920x1080 in CTA-861.
  const uint32_t porch_x = std::min<uint32_t>(blank_x * 88 / 280, 1023);
  const uint32_t pulse_x = blank_x * 44 / 280;
  const uint32_t porch_y = std::min<uint32_t>(blank_y * 4 / 45, 63);
  const uint32_t pulse_y = std::min<uint32_t>(blank_y * 5 / 45, 63);
  const auto low = [](uint32_t value) { return static_cast<uint8_t>(value); };
  out[0] = low(clock);
  out[1] = low(clock >> 8);
  out[2] = low(width);
  out[3] = low(blank_x);
  out[4] = low((width >> 4 & 0xF0) | blank_x >> 8);
  out[5] = low(lines);
  out[6] = low(blank_y);
  out[7] = low((lines >> 4 & 0xF0) | blank_y >> 8);
  out[8] = low(porch_x);
  out[9] = low(pulse_x);
  out[10] = low(porch_y << 4 | (pulse_y & 0xF));
  out[11] = low(porch_x >> 8 << 6 | pulse_x >> 8 << 4 | porch_y >> 4 << 2 | pulse_y >> 4);
  out[12] = low(531);  // millimetres
  out[13] = low(299);
  out[14] = 0x21;
  // Digital separate sync, both polarities positive.
  out[17] = static_cast<uint8_t>(0x1E | (timing.interlaced ? 0x80 : 0));
}

/// False: no standard timing code says this.
bool put_standard(const EdidTiming& timing, bool before_13, uint8_t* first, uint8_t* second) {
  if (timing.width % 8 != 0 || timing.width < 256 || timing.width > 2288) return false;
  const uint32_t hertz = timing.refresh_millihertz / 1000;
  if (timing.refresh_millihertz % 1000 != 0 || hertz < 60 || hertz > 123 || timing.interlaced)
    return false;
  uint32_t aspect = 0;
  if (timing.height == (before_13 ? timing.width : timing.width * 10 / 16)) {
    aspect = 0;
  } else if (timing.height == timing.width * 3 / 4) {
    aspect = 1;
  } else if (timing.height == timing.width * 4 / 5) {
    aspect = 2;
  } else if (timing.height == timing.width * 9 / 16) {
    aspect = 3;
  } else {
    return false;
  }
  *first = static_cast<uint8_t>(timing.width / 8 - 31);
  *second = static_cast<uint8_t>(aspect << 6 | (hertz - 60));
  return true;
}

void put_text(uint8_t tag, std::string_view text, std::span<uint8_t> out) {
  out[3] = tag;
  for (size_t i = 0; i < 13; ++i) {
    out[5 + i] = static_cast<uint8_t>(i < text.size() ? text[i] : i == text.size() ? '\n' : ' ');
  }
}

Rational reduced(uint64_t numerator, uint64_t denominator) {
  const uint64_t divisor = std::gcd(numerator, denominator);
  return {static_cast<uint32_t>(numerator / divisor), static_cast<uint32_t>(denominator / divisor)};
}

Signal signal_of(const EdidTiming& timing) {
  constexpr uint32_t kVesaDmt = 1, kVesaGtf = 2, kOther = 255;
  Signal signal;
  signal.active = {timing.width, timing.height};
  signal.scanline_ordering = timing.interlaced ? 2 : 1;
  if (timing.kind == EdidTiming::Kind::kDetailed) {
    signal.standard = kOther;
    signal.total = {timing.total_width, timing.total_height};
    const uint64_t fields = timing.interlaced ? 2 : 1;
    signal.vsync =
        reduced(timing.pixel_clock_hz * fields, uint64_t{timing.total_width} * timing.total_height);
    signal.hsync = reduced(timing.pixel_clock_hz, timing.total_width);
    signal.pixel_rate = timing.pixel_clock_hz;
  } else {
    signal.standard = timing.kind == EdidTiming::Kind::kEstablished ? kVesaDmt : kVesaGtf;
    signal.total = {kNotSpecified, kNotSpecified};
    signal.vsync = {timing.refresh_millihertz / 1000, 1};
    signal.hsync = {kNotSpecified, kNotSpecified};
    signal.pixel_rate = kNotSpecified;
  }
  return signal;
}

}  // namespace

Result<Edid> parse_edid(std::span<const std::byte> input, std::string* why) {
  const auto refuse = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return Error(Status::kInvalidParameter);
  };
  if (input.size() < kEdidBlockBytes) return refuse("an EDID block has 128 bytes");
  const std::vector<uint8_t> bytes = numbers(input.first(kEdidBlockBytes));
  if (!std::equal(kHeader.begin(), kHeader.end(), bytes.begin()))
    return refuse("it does not begin 00 FF FF FF FF FF FF 00");
  if (checksum(bytes) != 0) return refuse("its bytes do not add up to 0");
  Edid edid;
  edid.version = bytes[18];
  edid.revision = bytes[19];
  if (edid.version != 1) return refuse("its version is not 1");
  const uint32_t letters = uint32_t{bytes[8]} << 8 | bytes[9];
  for (const uint32_t shift : {10U, 5U, 0U}) {
    const uint32_t letter = letters >> shift & 0x1F;
    edid.manufacturer += letter >= 1 && letter <= 26 ? static_cast<char>('A' + letter - 1) : '?';
  }
  edid.product = static_cast<uint16_t>(bytes[10] | bytes[11] << 8);
  edid.serial = uint32_t{bytes[12]} | uint32_t{bytes[13]} << 8 | uint32_t{bytes[14]} << 16 |
                uint32_t{bytes[15]} << 24;
  edid.extension_blocks = bytes[126];

  const std::span<const uint8_t> block(bytes);
  const bool before_13 = edid.revision < 3;
  std::vector<EdidTiming> standard;
  for (size_t i = 0; i < kDescriptors; ++i) {
    const auto descriptor = block.subspan(kDescriptorsAt + i * kDescriptorBytes, kDescriptorBytes);
    if (descriptor[0] != 0 || descriptor[1] != 0) {
      add_timing(&edid, read_detailed(descriptor));
      continue;
    }
    if (descriptor[3] == kTagName) edid.name = read_text(descriptor.subspan(5));
    if (descriptor[3] == kTagLimits) read_limits(descriptor, &edid);
    if (descriptor[3] != kTagStandards) continue;
    for (size_t at = 5; at + 1 < kDescriptorBytes; at += 2) {
      EdidTiming timing;
      if (read_standard(descriptor[at], descriptor[at + 1], before_13, &timing))
        standard.push_back(timing);
    }
  }
  for (size_t i = 0; i < kStandards; ++i) {
    EdidTiming timing;
    if (read_standard(block[kStandardAt + 2 * i], block[kStandardAt + 2 * i + 1], before_13,
                      &timing))
      add_timing(&edid, timing);
  }
  for (const EdidTiming& timing : standard) add_timing(&edid, timing);
  for (const Established& entry : kEstablished) {
    if ((block[kEstablishedAt + entry.byte] >> entry.bit & 1U) == 0) continue;
    add_timing(&edid, {.kind = EdidTiming::Kind::kEstablished,
                       .width = entry.width,
                       .height = entry.height,
                       .refresh_millihertz = entry.hertz * 1000U,
                       .interlaced = entry.interlaced});
  }
  return edid;
}

std::vector<std::byte> build_edid(const Edid& edid) {
  std::array<uint8_t, kEdidBlockBytes> bytes = {};
  std::copy(kHeader.begin(), kHeader.end(), bytes.begin());
  uint32_t letters = 0;
  for (size_t i = 0; i < 3; ++i) {
    const char letter = i < edid.manufacturer.size() ? edid.manufacturer[i] : 'A';
    letters = letters << 5 | (static_cast<uint32_t>(letter - 'A' + 1) & 0x1F);
  }
  bytes[8] = static_cast<uint8_t>(letters >> 8);
  bytes[9] = static_cast<uint8_t>(letters);
  bytes[10] = static_cast<uint8_t>(edid.product);
  bytes[11] = static_cast<uint8_t>(edid.product >> 8);
  for (size_t i = 0; i < 4; ++i) bytes[12 + i] = static_cast<uint8_t>(edid.serial >> 8 * i);
  bytes[16] = 1;   // week
  bytes[17] = 34;  // 2024
  bytes[18] = edid.version;
  bytes[19] = edid.revision;
  bytes[20] = 0xA5;  // digital, 8 bits per colour, DisplayPort
  bytes[21] = 53;    // centimetres
  bytes[22] = 30;
  bytes[23] = 120;   // gamma 2.2
  bytes[24] = 0x06;  // sRGB; the first detailed timing is preferred
  constexpr std::array<uint8_t, 10> kSrgbPrimaries = {0xEE, 0x91, 0xA3, 0x54, 0x4C,
                                                      0x99, 0x26, 0x0F, 0x50, 0x54};
  std::copy(kSrgbPrimaries.begin(), kSrgbPrimaries.end(), bytes.begin() + 25);
  std::fill_n(bytes.begin() + kStandardAt, 2 * kStandards, uint8_t{1});

  const std::span<uint8_t> block(bytes);
  const size_t texts = (edid.name.empty() ? 0U : 1U) + (edid.has_range_limits ? 1U : 0U);
  size_t slot = 0;
  size_t standards = 0;
  const auto next_slot = [&] {
    DXGKIT_CHECK(slot < kDescriptors);
    return block.subspan(kDescriptorsAt + slot++ * kDescriptorBytes, kDescriptorBytes);
  };
  for (const EdidTiming& timing : edid.timings) {
    if (timing.kind == EdidTiming::Kind::kDetailed && slot + texts < kDescriptors &&
        fits_detailed(timing)) {
      put_detailed(timing, next_slot());
      continue;
    }
    if (timing.kind == EdidTiming::Kind::kEstablished) {
      const auto* entry = std::ranges::find_if(kEstablished, [&](const Established& known) {
        return known.width == timing.width && known.height == timing.height &&
               known.hertz * 1000U == timing.refresh_millihertz &&
               known.interlaced == timing.interlaced;
      });
      if (entry != std::end(kEstablished)) {
        block[kEstablishedAt + entry->byte] |= static_cast<uint8_t>(1U << entry->bit);
        continue;
      }
    }
    if (standards < kStandards &&
        put_standard(timing, edid.revision < 3, &block[kStandardAt + 2 * standards],
                     &block[kStandardAt + 2 * standards + 1]))
      ++standards;
  }
  if (!edid.name.empty()) put_text(kTagName, edid.name, next_slot());
  if (edid.has_range_limits) {
    const auto out = next_slot();
    const auto offset = [](uint32_t least, uint32_t most) {
      return least > 255 ? 3U : most > 255 ? 2U : 0U;
    };
    const auto low = [](uint32_t value) {
      return static_cast<uint8_t>(value > 255 ? value - 255 : value);
    };
    out[3] = kTagLimits;
    out[4] = static_cast<uint8_t>(offset(edid.vsync_min_hz, edid.vsync_max_hz) |
                                  offset(edid.hsync_min_khz, edid.hsync_max_khz) << 2);
    out[5] = low(edid.vsync_min_hz);
    out[6] = low(edid.vsync_max_hz);
    out[7] = low(edid.hsync_min_khz);
    out[8] = low(edid.hsync_max_khz);
    out[9] = static_cast<uint8_t>(std::min(edid.pixel_clock_max_mhz / 10, 255U));
    out[10] = 1;  // limits only
    out[11] = '\n';
    std::fill(out.begin() + 12, out.end(), uint8_t{' '});
  }
  while (slot < kDescriptors) next_slot()[3] = kTagDummy;
  bytes[126] = edid.extension_blocks;
  bytes[127] = static_cast<uint8_t>(0U - checksum(std::span(bytes).first(127)));
  std::vector<std::byte> out(kEdidBlockBytes);
  std::ranges::transform(bytes, out.begin(), [](uint8_t value) { return std::byte{value}; });
  return out;
}

Edid default_edid() {
  Edid edid;
  edid.manufacturer = "DXK";
  edid.product = 0x1080;
  edid.serial = 1;
  edid.name = "dxgkit 1080p";
  edid.has_range_limits = true;
  edid.vsync_min_hz = 48;
  edid.vsync_max_hz = 75;
  edid.hsync_min_khz = 30;
  edid.hsync_max_khz = 85;
  edid.pixel_clock_max_mhz = 170;
  edid.timings = {{.pixel_clock_hz = 148'500'000,
                   .width = 1920,
                   .height = 1080,
                   .total_width = 2200,
                   .total_height = 1125,
                   .refresh_millihertz = 60'000},
                  {.pixel_clock_hz = 74'250'000,
                   .width = 1280,
                   .height = 720,
                   .total_width = 1650,
                   .total_height = 750,
                   .refresh_millihertz = 60'000},
                  {.kind = EdidTiming::Kind::kStandard,
                   .width = 1680,
                   .height = 1050,
                   .refresh_millihertz = 60'000},
                  {.kind = EdidTiming::Kind::kStandard,
                   .width = 1280,
                   .height = 1024,
                   .refresh_millihertz = 60'000},
                  {.kind = EdidTiming::Kind::kEstablished,
                   .width = 640,
                   .height = 480,
                   .refresh_millihertz = 60'000},
                  {.kind = EdidTiming::Kind::kEstablished,
                   .width = 800,
                   .height = 600,
                   .refresh_millihertz = 60'000},
                  {.kind = EdidTiming::Kind::kEstablished,
                   .width = 1024,
                   .height = 768,
                   .refresh_millihertz = 60'000}};
  return edid;
}

Result<Monitor> monitor_from_edid(std::span<const std::byte> bytes) {
  DXGKIT_ASSIGN_OR_RETURN(const Edid edid, parse_edid(bytes));
  constexpr uint32_t kFromDescriptor = 2, kPreferred = 1, kNotPreferred = 2;
  constexpr uint32_t kBaseBlock = 1, kBlockMap = 2, kOtherBlock = 255;
  Monitor monitor;
  for (const EdidTiming& timing : edid.timings) {
    MonitorMode mode;
    mode.id = static_cast<uint32_t>(monitor.modes.size() + 1);
    mode.signal = signal_of(timing);
    mode.origin = kFromDescriptor;
    const bool first_detailed = monitor.modes.empty() && timing.kind == EdidTiming::Kind::kDetailed;
    mode.preference = first_detailed ? kPreferred : kNotPreferred;
    monitor.modes.push_back(mode);
  }
  if (monitor.modes.empty()) monitor.modes = default_monitor().modes;
  if (edid.has_range_limits) {
    monitor.ranges.push_back({.vsync_min = {edid.vsync_min_hz, 1},
                              .vsync_max = {edid.vsync_max_hz, 1},
                              .hsync_min = {edid.hsync_min_khz * 1000, 1},
                              .hsync_max = {edid.hsync_max_khz * 1000, 1},
                              .pixel_rate_max = uint64_t{edid.pixel_clock_max_mhz} * 1'000'000});
  }
  const size_t blocks = std::min(size_t{1} + edid.extension_blocks, bytes.size() / kEdidBlockBytes);
  for (size_t i = 0; i < blocks; ++i) {
    const auto block = bytes.subspan(i * kEdidBlockBytes, kEdidBlockBytes);
    const bool map = static_cast<uint8_t>(block[0]) == 0xF0;
    monitor.descriptors.push_back({.id = static_cast<uint32_t>(i),
                                   .type = i == 0 ? kBaseBlock
                                           : map  ? kBlockMap
                                                  : kOtherBlock,
                                   .data = {block.begin(), block.end()},
                                   .origin = kFromDescriptor});
  }
  return monitor;
}

Monitor default_monitor() {
  constexpr uint32_t kDefaultProfile = 1, kPreferred = 1, kNotPreferred = 2;
  constexpr Size kSizes[] = {{640, 480}, {800, 600}, {1024, 768}, {1280, 1024}, {1920, 1080}};
  Monitor monitor;
  for (const Size& size : kSizes) {
    MonitorMode mode;
    mode.id = static_cast<uint32_t>(monitor.modes.size() + 1);
    mode.signal = signal_of({.kind = EdidTiming::Kind::kEstablished,
                             .width = size.width,
                             .height = size.height,
                             .refresh_millihertz = 60'000});
    mode.origin = kDefaultProfile;
    mode.preference = size.width == 1024 ? kPreferred : kNotPreferred;
    monitor.modes.push_back(mode);
  }
  return monitor;
}

}  // namespace dxgkit::vidpn
