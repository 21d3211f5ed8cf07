// Display data that crosses the door, in our types. Only the port marshals them to DXGKARG_*.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dxgkit::port {

/// A child device: DXGK_CHILD_DESCRIPTOR.
struct ChildInfo {
  enum class Kind { kOther, kVideoOutput, kIntegratedDisplay };
  enum class Awareness { kNone, kAlwaysConnected, kPolled, kInterruptible };
  Kind kind = Kind::kOther;
  Awareness awareness = Awareness::kNone;  // how the driver learns of plugging
  uint32_t uid = 0;                        // ChildUid: for a video output, the VidPN target id
  uint32_t acpi_uid = 0;
  uint32_t technology = 0;  // D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY
};

/// Pixels, right and bottom exclusive: RECT.
struct Rect {
  int32_t left = 0, top = 0, right = 0, bottom = 0;
  bool operator==(const Rect&) const = default;
};
static_assert(sizeof(Rect) == 16);

/// A stretch of the screen that moves to another place of the screen: D3DKMT_MOVE_RECT.
struct MoveRect {
  int32_t source_x = 0, source_y = 0;
  Rect destination;
};
static_assert(sizeof(MoveRect) == 24);

/// DXGKARG_DESCRIBEALLOCATION, as the driver answered.
struct AllocationDescription {
  uint32_t width = 0, height = 0;  // pixels
  uint32_t format = 0;             // D3DDDIFORMAT
  uint32_t samples = 0, sample_quality = 0;
  uint32_t refresh_numerator = 0, refresh_denominator = 0;  // of a primary
  uint32_t private_format = 0;                              // PrivateDriverFormatAttribute
};

struct PresentDisplayOnlyArgs {
  uint32_t source = 0;
  const std::byte* pixels = nullptr;  // kernel memory; first row
  uint32_t bytes_per_pixel = 4;
  int32_t pitch_bytes = 0;
  std::span<const MoveRect> moves;  // done first, in order
  std::span<const Rect> dirty;
};

/// DXGKARG_SETPOINTERSHAPE.
struct PointerShape {
  enum class Format { kMonochrome, kColor, kMaskedColor };
  uint32_t source = 0;
  Format format = Format::kColor;
  uint32_t width = 0, height = 0, pitch_bytes = 0;
  std::span<const std::byte> pixels;
  uint32_t hot_x = 0, hot_y = 0;
};

/// Pivot of DxgkDdiEnumVidPnCofuncModality: the driver leaves its mode set alone.
enum class EnumPivot { kNone, kSource, kTarget, kScaling, kRotation };

/// DXGK_DISPLAY_INFORMATION, as StopDeviceAndReleasePostDisplayOwnership returns it.
struct DisplayInformation {
  uint32_t width = 0, height = 0, pitch_bytes = 0;
  uint32_t format = 0;  // D3DDDIFORMAT
  uint64_t address = 0;
  uint32_t target_id = 0, acpi_id = 0;
};

/// DXGKARG_SETVIDPNSOURCEADDRESS: of a mode change, without contexts, or of a flip (DISP-02).
struct SourceAddressArgs {
  enum class Kind { kModeChange, kFlipImmediate, kFlipOnNextVsync };
  uint32_t source = 0;
  uint32_t segment = 0;
  uint64_t address = 0;
  void* allocation = nullptr;  // the driver's
  Kind kind = Kind::kModeChange;
  // Of a flip: the originating context first; at most kMaxContexts.
  std::span<void* const> contexts = {};
  static constexpr size_t kMaxContexts = 65;
};

/// DXGKARG_PRESENT::Flags: the flags that are used.
struct PresentFlags {
  bool blt = false, color_fill = false, flip = false, flip_with_no_wait = false;
  bool source_key = false, destination_key = false, linear_to_srgb = false, rotate = false;
};

/// One surface of a present in a context with virtual addressing: DXGK_PRESENTALLOCATIONINFO.
struct PresentSurface {
  void* device_specific = nullptr;
  uint64_t virtual_address = 0;  // in the space of the context's process; 0: not mapped
  uint64_t physical_address = 0;
  uint32_t segment = 0;
};

/// D3DKMDT_SHAREDPRIMARYSURFACEDATA.
struct PrimarySurface {
  uint32_t source = 0;
  uint32_t width = 0, height = 0;
  uint32_t format = 0;  // D3DDDIFORMAT
  uint32_t refresh_numerator = 60, refresh_denominator = 1;
};

/// A GUID, byte by byte.
using ContainerId = std::array<std::byte, 16>;

/// What the kernel's default is made of: DXGK_CHILD_CONTAINER_ID::EldInfo.
struct ContainerSource {
  uint64_t port = 0;
  uint16_t manufacturer = 0, product = 0;  // as in the EDID
};

/// The members of DXGK_DRIVERCAPS about flips.
struct FlipCaps {
  bool on_vsync_with_no_wait = false, on_vsync_mmio = false, interval = false,
       immediate_mmio = false;          // DXGK_FLIPCAPS
  uint32_t max_queued_on_vsync = 0;     // MaxQueuedFlipOnVSync
  uint32_t max_overlay_planes = 0;      // from WDDM 1.3 on
  bool immediate_planes = false;        // SupportMultiPlaneOverlayImmediateFlip, from 2.1 on
  uint32_t max_hw_queued = 0;           // MaxHwQueuedFlips, from 3.0 on
  bool vsync_power_save_aware = false;  // DXGK_VIDSCHCAPS
  bool reports_preemption = false;      // PreemptionCaps names both granularities
};

/// The members of DXGK_DRIVERCAPS about displays.
struct DisplayCaps {
  uint32_t max_pointer_width = 0, max_pointer_height = 0;
  uint32_t max_overlays = 0;   // of WDDM 1.x, no planes
  uint32_t pointer_flags = 0;  // DXGK_POINTERFLAGS: 1 monochrome, 2 color, 4 masked color
  bool support_non_vga = false, support_smooth_rotation = false;
  bool compute_only = false;  // MiscCaps, since WDDM 2.6
  bool gamma_table = false;   // DXGK_GAMMARAMPCAPS: 256 entries of 16 bits for each colour
};

}  // namespace dxgkit::port
