#include "dxgk/adapter/post_display.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"

namespace dxgkit::dxgk {

void keep_post_display(AdapterCore& core, bus::PostDisplay post,
                       const port::DisplayInformation& left, std::span<const uint32_t> targets) {
  constexpr uint32_t kA8R8G8B8 = 21, kX8R8G8B8 = 22;
  constexpr uint32_t kUninitialized = 0xFFFFFFFF;  // D3DDDI_ID_UNINITIALIZED: it names none
  const bus::Bar& bar = core.function().bars()[post.bar];
  const uint64_t bytes = uint64_t{left.pitch_bytes} * left.height;
  const bool inside = left.address >= bar.base.value &&
                      range_within(left.address - bar.base.value, bytes, bar.size) &&
                      left.pitch_bytes / 4 >= left.width;
  if (left.width == 0 || left.height == 0 || !inside) {
    core.findings().report(verifier::Finding{
        .rule = "DOD-08",
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
        .actual = fmt::format("It left {}x{} pixels, pitch {}, at 0x{:X}.", left.width, left.height,
                              left.pitch_bytes, left.address),
        .expected = fmt::format("The display left behind is a linear frame buffer inside the "
                                "adapter's BAR at 0x{:X}, {} bytes.",
                                bar.base.value, bar.size),
        .fix = "Keep the current mode and fill DisplayInfo with it: width, height, pitch, format "
               "and physical address.",
        .windows = "The next driver, or the basic display driver, finds no usable screen."});
    return;
  }
  const bool format_is_right = left.format == kA8R8G8B8 || left.format == kX8R8G8B8;
  const bool target_is_right = left.target_id == kUninitialized ||
                               std::ranges::find(targets, left.target_id) != targets.end();
  if (!format_is_right || !target_is_right) {
    core.findings().report(verifier::Finding{
        .rule = "DOD-08",
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
        .actual = format_is_right
                      ? fmt::format("It left target {:#x}, which the adapter does not have.",
                                    left.target_id)
                      : fmt::format("It left format {}.", left.format),
        .expected = "ColorFormat is D3DDDIFMT_X8R8G8B8 or D3DDDIFMT_A8R8G8B8, and TargetId names "
                    "the target that stays active.",
        .fix = "Set both; TargetId is mostly the one that the call names.",
        .windows = "The next driver, or the basic display driver, finds no usable screen."});
  }
  post.offset_bytes = left.address - bar.base.value;
  post.width = left.width;
  post.height = left.height;
  post.pitch_bytes = left.pitch_bytes;
  post.target_id = left.target_id;
  core.function().set_post_display(post);
}

}  // namespace dxgkit::dxgk
