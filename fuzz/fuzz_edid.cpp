// Any bytes as an EDID: a reason, or timings that make sense; what is written from it reads back.
#include <cstring>
#include <vector>

#include "fuzz/demand.h"
#include "vidpn/edid.h"

namespace {
/// What any reader may count on.
void read(std::span<const std::byte> bytes) {
  using namespace dxgkit;
  using fuzz::demand;
  std::string why;
  const auto edid = vidpn::parse_edid(bytes, &why);
  const auto monitor = vidpn::monitor_from_edid(bytes);
  demand(edid.has_value() == monitor.has_value());
  if (!edid.has_value()) {
    demand(edid.error() == Status::kInvalidParameter && !why.empty());
    return;
  }
  for (const vidpn::EdidTiming& timing : edid->timings) {
    demand(timing.width != 0 && timing.height != 0);
    if (timing.kind == vidpn::EdidTiming::Kind::kDetailed)
      demand(timing.pixel_clock_hz != 0 && timing.total_width >= timing.width);
  }
  demand(vidpn::parse_edid(vidpn::build_edid(*edid)).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  read(bytes);
  if (size < dxgkit::vidpn::kEdidBlockBytes) return 0;
  // The same with the header, version and checksum that no mutation would hit on.
  constexpr uint8_t kHeader[] = {0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0};
  std::memcpy(bytes.data(), kHeader, sizeof(kHeader));
  bytes[18] = std::byte{1};
  uint8_t sum = 0;
  for (size_t i = 0; i + 1 < dxgkit::vidpn::kEdidBlockBytes; ++i)
    sum = static_cast<uint8_t>(sum + std::to_integer<uint8_t>(bytes[i]));
  bytes[dxgkit::vidpn::kEdidBlockBytes - 1] = std::byte(static_cast<uint8_t>(0x100 - sum));
  read(bytes);
  return 0;
}
