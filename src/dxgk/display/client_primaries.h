// Clients of full drivers: who owns a source, whose primary it shows.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/display/active_vidpn.h"
#include "dxgk/display/display_core.h"
#include "dxgk/display/flips.h"
#include "dxgk/display/mode_setting.h"
#include "dxgk/display/owned_sources.h"
#include "dxgk/display/primaries.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/work/device.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class DisplayWorker;

/// Shows clients' primaries in place of the kernel's own, and those again when a client goes. Any
/// thread outside the driver and off the lane: public functions take the display mutex, unless they
/// require it.
class ClientPrimaries {
 public:
  struct Parts {
    const ActiveVidPn& active;
    Flips& flips;
    OwnedSources& owners;
    Primaries& kernels;
    ModeSetting& modes;
    DisplayWorker& worker;
  };
  ClientPrimaries(DisplayCore& display, const Parts& parts);

  /// D3DKMTSetVidPnSourceOwner: all or nothing; empty lists give everything up (DISP-18).
  Status set_owners(Device& device, std::span<const uint32_t> sources,
                    std::span<const SourceOwnership> types);
  /// D3DKMTSetDisplayMode: the mode of the primary is set, and it is shown.
  /// kGraphicsNotExclusiveModeOwner (DISP-19); else as Displays::set_mode.
  Status set_display_mode(Device& device, const Ref<OpenedAllocation>& primary);
  /// DISP-03, DISP-14: whether the device may flip to it now; `*mode` for FlipSubmission.
  /// kInvalidParameter: no primary of that source, or no mode set by its owner.
  /// kGraphicsAllocationInvalid: it does not fit the mode.
  Status check_flip(Device& device, uint32_t source, const Ref<OpenedAllocation>& surface,
                    uint64_t* mode);
  /// What is on the screen, opened on the device; opens it if need be. kInvalidParameter: nothing.
  Result<Ref<OpenedAllocation>> opened_screen(Device& device, uint32_t source);

  /// What the device shows goes back to the kernel's own primary, before it goes.
  void before_destroy(Device& device, const Ref<Resource>& resource,
                      std::span<const Ref<OpenedAllocation>> targets);
  void device_ends(Device& device);

  /// Brings a client's primary to where the display can read it, pins it and tells the driver.
  /// `again`: it is on the screen already, and power was away.
  Status place(uint32_t source, const Ref<OpenedAllocation>& surface, bool again, const char** step)
      DXGKIT_REQUIRES(display_mutex);

 private:
  /// The kernel's own primary is shown again.
  void give_back(uint32_t source) DXGKIT_REQUIRES(display_mutex);

  DisplayCore& display_;
  AdapterCore& core_;
  const ActiveVidPn& active_;
  Flips& flips_;
  OwnedSources& owners_;
  Primaries& kernels_;
  ModeSetting& modes_;
  DisplayWorker& worker_;
};

}  // namespace dxgkit::dxgk
