// Overlay planes that cross the door, in our types: DXGK_MULTIPLANE_OVERLAY_* of all versions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "port/display_types.h"

namespace dxgkit::port {

/// How a plane is shown. Rectangles are in pixels.
struct PlaneAttributes {
  bool vertical_flip = false, horizontal_flip = false;
  Rect source;            // of the surface
  Rect destination;       // of the screen
  Rect clip;              // inside the destination, whose corner is (0, 0)
  uint32_t rotation = 1;  // D3DDDI_ROTATION: 1 is none
  bool alpha_blend = false;
  uint32_t video_frame_format = 0;  // below version 3
  uint32_t ycbcr_flags = 0;         // version 1
  uint32_t color_space = 0;         // D3DDDI_COLOR_SPACE_TYPE, from version 2 on
  uint32_t stretch_quality = 1;     // 1 bilinear, 2 better
  uint32_t sdr_white_nits = 0;      // from WDDM 2.3 on
  std::vector<Rect> dirty;          // from WDDM 2.5 on
};

/// A transformation of what the planes of a source give together. Version 3.
struct PostComposition {
  uint32_t source_id = 0;
  bool vertical_flip = false, horizontal_flip = false;
  Rect source, destination;
  uint32_t rotation = 1;
};

/// One plane of a configuration that DxgkDdiCheckMultiPlaneOverlaySupport judges.
struct PlaneCheck {
  void* allocation = nullptr;  // the driver's
  uint32_t source = 0;
  uint32_t layer = 0;  // 0 is on top
  PlaneAttributes attributes;
};

/// The driver's judgment of a configuration.
struct PlaneSupport {
  bool supported = false;
  uint32_t failing_plane = 0;  // index in the list, of an unsupported configuration
  bool try_again = false;      // it will be supported after a vertical sync or two
};

/// One plane that DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay sets or switches off.
struct PlaneSetting {
  uint32_t layer = 0;  // 0 is on top
  bool enabled = false;
  bool immediate = false;        // else at the next vertical sync
  uint64_t present_id = 0;       // version 3: its completion names this number
  void* allocation = nullptr;    // the driver's
  uint32_t segment = 0;          // where the surface is
  uint64_t address = 0;          // the same
  uint32_t max_flip_line = ~0U;  // MaxImmediateFlipLine: ~0 is never
  std::span<std::byte> private_data = {};
  PlaneAttributes attributes;
};

struct PlaneSettings {
  uint32_t source = 0;
  std::vector<PlaneSetting> planes;  // those that change; the others stay as they are
  std::vector<void*> contexts;       // the driver's; the originating context first
  uint32_t duration_100ns = 0;       // 0: the mode's
  std::optional<PostComposition> post_composition;
  uint64_t target_time = 0;  // in ticks of the performance counter, from WDDM 2.9 on
};

/// What a driver with version 3 says when it has been asked.
struct PlaneOutcome {
  bool at_once = false;              // FlipConvertedToImmediate
  bool post_present = false;         // DxgkDdiPostMultiPlaneOverlayPresent is wanted
  bool completes_by_report = false;  // HsyncInterruptCompletion
};
struct PlaneAnswer {
  bool at_passive_level = false;  // PrePresentNeeded
  bool drain = false, drain_all_planes = false, drain_all_sources = false;
  std::vector<PlaneOutcome> planes;  // one for each plane that was set
};

/// DXGKARG_GETMULTIPLANEOVERLAYCAPS.
struct PlaneCaps {
  uint32_t planes = 0, rgb_planes = 0, yuv_planes = 0;
  uint32_t flags = 0;  // DXGK_MULTIPLANEOVERLAYCAPS
  float stretch_most = 0, shrink_most = 0;
};

/// DXGKARG_GETPOSTCOMPOSITIONCAPS.
struct PostCompositionCaps {
  float stretch_most = 0, shrink_most = 0;
};

/// A plane of DxgkDdiPresent: DXGK_PRESENTMULTIPLANEOVERLAYLIST.
struct PresentPlane {
  uint32_t layer = 0;
  bool enabled = false;
  void* device_specific = nullptr;
  uint32_t segment = 0;
  uint64_t address = 0;
};

/// A plane that a vertical sync names.
struct ShownPlane {
  uint32_t layer = 0;
  bool enabled = true;
  bool by_id = false;  // `present_id` says what is shown, else `address`
  uint64_t address = 0, present_id = 0;
  bool post_present = false;  // DXGKCB_NOTIFY_MPO_VSYNC_FLAGS
};

}  // namespace dxgkit::port
