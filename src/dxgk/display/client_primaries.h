// Primaries of clients of full drivers, on sources that the clients own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

/// Shows a client's primary in place of the kernel's own, and the kernel's own again when the
/// client goes.
///
/// Any thread outside the driver and off the lane. A public function takes the display mutex,
/// unless it requires it.
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

  /// D3DKMTSetVidPnSourceOwner: all or nothing. With empty lists the device gives up all sources it
  /// owns (DISP-18).
  Status set_owners(Device& device, std::span<const uint32_t> sources,
                    std::span<const SourceOwnership> types);
  /// The device owns the source exclusively. False for an unknown source.
  bool owns(const Device& device, uint32_t source);
  /// D3DKMTReleaseProcessVidPnSourceOwners: all devices of the process give up their sources.
  void release_process(const Process& process);
  /// What D3DKMTSetDisplayMode says beside the primary.
  struct ModeOptions {
    uint32_t scanline_ordering = 0, rotation = 0;  // as in ModeWish
    bool preserve_vidpn = false;                   // the active VidPN shows such a mode already
  };
  /// STATUS_GRAPHICS_INCOMPATIBLE_PRIVATE_FORMAT.
  static constexpr Status kIncompatiblePrivateFormat{0xC01E0355};
  /// D3DKMTSetDisplayMode: sets the mode of the primary, and shows the primary.
  /// kGraphicsNotExclusiveModeOwner: the device does not own the source (DISP-19).
  /// kIncompatiblePrivateFormat: the primary has another private format attribute than the source;
  /// `*private_format` is the source's. kInvalidParameter: also if the driver offers no such mode.
  /// Else as Displays::set_mode.
  Status set_display_mode(Device& device, const Ref<OpenedAllocation>& primary,
                          const ModeOptions& options, uint32_t* private_format);
  /// D3DKMTSetDisplayPrivateDriverFormat. kGraphicsNotExclusiveModeOwner: the device does not own
  /// the source. kNotSupported: the driver has no private formats. kUnsuccessful: it refuses this
  /// one. kInvalidParameter: no such source, or the adapter sleeps. kDeviceRemoved.
  Status set_private_format(Device& device, uint32_t source, uint32_t attribute);
  /// DISP-03, DISP-14: whether the device may flip to the surface now. `*mode`: for FlipSubmission.
  /// kInvalidParameter: the surface is no primary of that source, or its owner has set no mode.
  /// kGraphicsAllocationInvalid: the surface does not fit the mode.
  Status check_flip(Device& device, uint32_t source, const Ref<OpenedAllocation>& surface,
                    uint64_t* mode);
  /// Whether the device may show parts of these surfaces as planes of the source: primaries of the
  /// source, of any size. As check_flip() otherwise. `*sizes`: of each surface. `*screen`: of the
  /// source's mode.
  Status check_planes(Device& device, uint32_t source,
                      std::span<const Ref<OpenedAllocation>> surfaces,
                      std::vector<DisplayMode>* sizes, DisplayMode* screen, uint64_t* mode);
  /// The primary on the screen, as the device has it open. Opens it on the device if need be.
  /// kInvalidParameter: nothing is shown. kGraphicsAllocationBusy: another client's is shown.
  Result<Ref<OpenedAllocation>> opened_screen(Device& device, uint32_t source);

  /// The device is about to destroy these allocations. Where one of them is shown, the kernel's own
  /// primary is shown again.
  void before_destroy(DeviceMemory& device, const Ref<Resource>& resource,
                      std::span<const Ref<OpenedAllocation>> targets);
  /// The same for all that the device shows; it gives up the sources it owns.
  void device_ends(Device& device);

  /// Brings a client's primary to where the display can read it, pins it and tells the driver.
  /// `again`: the primary was on the screen before a sleep. kDeviceRemoved: it is no more, because
  /// the hardware was reset meanwhile; the kernel's own picture comes.
  Status place(uint32_t source, const Ref<OpenedAllocation>& surface, bool again, const char** step)
      DXGKIT_REQUIRES(display_mutex);

 private:
  /// Shows the kernel's own primary again, or nothing if that fails.
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
