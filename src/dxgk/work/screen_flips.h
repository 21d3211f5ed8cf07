// Flips of contexts, as the work floor asks the display for them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/memory/allocation.h"
#include "runtime/thread_annotations.h"
#include "vidsch/sync_objects.h"

namespace dxgkit::dxgk {

class Context;
class Device;

/// One flip as D3DKMTPresent asks for it. Contexts and surface belong to one device.
struct FlipSubmission {
  uint32_t source = 0;
  Ref<OpenedAllocation> surface;
  uint32_t interval = 1;
  std::vector<Context*> contexts;  // originating first; kept alive by the caller until queued
  uint64_t mode = 0;               // Flips::mode when the surface was seen to fit
  bool pinned = false;             // by prepare()
};

/// The display implements it for full drivers. Lane, except where a member says otherwise.
class ScreenFlips {
 public:
  /// How the driver flips. Constant.
  struct Ways {
    bool by_register = false;
    bool immediate_by_register = false;  // without by_register: those that take effect at once
    bool no_wait = false;
  };

  virtual ~ScreenFlips() = default;
  /// Any thread.
  virtual Ways ways() const = 0;
  /// Pins the surface where it can be shown. kRetry: not now, ask again after progress.
  /// kGraphicsAllocationInvalid: the mode is another one.
  /// Done once its content is there too.
  virtual Status prepare(FlipSubmission& flip) DXGKIT_REQUIRES(on_lane) = 0;
  /// The flip will not come, pinned or not.
  virtual void abandon(const FlipSubmission& flip) DXGKIT_REQUIRES(on_lane) = 0;
  /// Queues the prepared flip behind what its contexts have. Returns the id.
  virtual uint64_t queue(const FlipSubmission& flip, bool by_driver) DXGKIT_REQUIRES(on_lane) = 0;
  /// What a packet that writes the surface waits for, if it is still on the screen (SUB-37).
  virtual std::optional<vidsch::SyncPoint> before_write(const OpenedAllocation& opened) const
      DXGKIT_REQUIRES(on_lane) = 0;
  /// Reached at the end of the flip.
  virtual vidsch::SyncPoint end_of(uint32_t source, uint64_t id) const DXGKIT_REQUIRES(on_lane) = 0;
  /// How many flips of the device have not ended.
  virtual uint32_t pending(const Device& device) const DXGKIT_REQUIRES(on_lane) = 0;
};

}  // namespace dxgkit::dxgk
