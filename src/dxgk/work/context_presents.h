// D3DKMTPresent: copies and fills become packets, flips go to the display.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/work/packet.h"
#include "dxgk/work/render_turn.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Context;
struct FlipSubmission;

/// D3DKMTPresent, with flags and handles checked. Rectangles are in pixels.
struct PresentRequest {
  port::PresentFlags flags;
  uint32_t vidpn_source = 0;
  Ref<OpenedAllocation> source, destination;  // null where REND-17 says so
  uint32_t color = 0;
  port::Rect destination_rect, source_rect;
  std::vector<port::Rect> sub_rects;
  uint32_t flip_interval = 0;
  uint64_t mode = 0;  // Flips::mode when the surface was seen to fit it
  bool do_not_wait = false;
  std::span<std::byte> private_data;
  std::vector<Ref<Context>> broadcast;  // of a flip: beside this one
};

/// Presents of one context, and what its packets have to do with flips.
class ContextPresents {
 public:
  explicit ContextPresents(Context& context) : context_(context) {}

  /// Blocks over the device's limit (SCHED-16). kGraphicsAllocationBusy: over it, with do_not_wait.
  /// kGraphicsAllocationInvalid: the mode has changed since, or a primary of an older mode. Else as
  /// RenderStream::render. Caller's thread.
  Status present(const PresentRequest& request);

  /// The packet's DMA buffer does the flip.
  void begin_flip(Packet& packet, const FlipSubmission& flip) DXGKIT_REQUIRES(on_lane);
  /// The primaries that a DMA buffer writes; none where nothing flips.
  std::vector<Ref<OpenedAllocation>> written_in(const DmaBuffer& buffer) const;
  /// What the packet about to be queued has to wait for (SUB-37).
  void wait_for_flips(std::span<const Ref<OpenedAllocation>> written) DXGKIT_REQUIRES(on_lane);

 private:
  Status present_limit(const PresentRequest& request) DXGKIT_REQUIRES(in_turn);
  Status present_by_buffer(const PresentRequest& request, const FlipSubmission* flip)
      DXGKIT_REQUIRES(in_turn);
  Status present_by_register(const PresentRequest& request, const FlipSubmission& flip)
      DXGKIT_REQUIRES(in_turn);

  Context& context_;
};

}  // namespace dxgkit::dxgk
